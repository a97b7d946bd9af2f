"""The specification's "Base Protocol": rules for all features.

Reading order: `meta.py` and `content.py` (types that all features use), `lifecycle.py` (the handshake of the legacy
era), `ping.py`, `cancellation.py`, `progress.py`, `versioning.py` (stateless requests, the modern era), `mrtr.py`
(multi round-trip requests), `subscriptions.py`, `headers.py` (HTTP headers that repeat fields of the body),
`principal.py` (the caller of a request over HTTP), `access.py` (the rights of this caller), `channel.py` (the object
through which a handler reaches the peer), `authorization/` (access tokens over HTTP).
"""
