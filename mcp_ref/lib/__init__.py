"""Standards other than MCP, such as HTTP, JSON Schema and signed tokens, which Python's own library has only in part.

MCP builds on them: HTTP carries its messages, JSON Schema describes the arguments of tools, URIs name resources, and
tokens protect a server. These modules do not use MCP and import no other part of `mcp_ref`, so other programs can use
them too.

uri.py          makes one canonical form of all spellings of a URI (RFC 3986)
uritemplate.py  expands URI templates (RFC 6570), and matches URIs against them
jsonschema/     validates JSON values against a JSON Schema (2020-12 and draft-07)
typed/          makes the JSON Schemas of a Python function's arguments and result from its type annotations
fields.py       checks the fields of dataclasses, and keyword arguments, against their annotations
web_url.py      finds the host that a browser opens for a URL
text.py         finds and shows the characters of a text that a person does not see
shares.py       limits the bytes that a table keeps for one caller, and for all callers together
slots.py        limits how many things are in use at the same time
time_limits.py  ends a request that takes too long, not counting the time in which a user is asked
turns.py        lets large messages take turns, so that they do not delay small messages
http/           speaks HTTP/1.1 on asyncio: a server, a client, server-sent events, and an ASGI adapter
jose/           verifies signed tokens (JSON Web Tokens), and signs them with ES256
"""
