"""Rules that hold for every feature. The specification calls them its "Base Protocol".

Before they can do anything else, client and server have to agree on a revision, and tell each other which features they
know. In the legacy era they do so once, in a handshake; in the modern era, every request repeats it in `_meta`. While a
request runs, its sender can cancel it, and its receiver can report progress. If the server needs input from the user in
the meantime, it sends a request of its own or, since 2026-07-28, asks for the input in its result.

Reading order: `meta.py` and `content.py` (types that all features use), `lifecycle.py` (the handshake of the legacy
era), `ping.py`, `cancellation.py`, `progress.py`, `versioning.py` (stateless requests, the modern era), `mrtr.py`
(multi round-trip requests), `subscriptions.py`, `headers.py` (HTTP headers that repeat fields of the body),
`principal.py` (the caller of a request over HTTP), `access.py` (the rights of this caller), `channel.py` (the object
through which a handler reaches the peer), `authorization/` (access tokens over HTTP).
"""
