"""Other people's standards. They know nothing of MCP, import nothing else of the package, and are usable alone.

uritemplate.py  URI templates (RFC 6570): expand them, and match URIs against them
typed/          a typed Python function -> the JSON Schemas of its arguments and result
jsonschema/     a JSON Schema validator (2020-12 and draft-07)
http/           HTTP/1.1 on asyncio: server, client, server-sent events, ASGI
"""
