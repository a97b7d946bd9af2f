"""Rules that hold for every feature. The specification calls them its "Base Protocol".

Client and server first agree on a revision, and on the features that both know: in the legacy era once, in a handshake,
and in the modern era in the `_meta` of each request. Then either side can cancel a request or report its progress. A
server that needs input from the user asks for it: before 2026-07-28 with a request, and since then in its result.

Reading order: `meta.py` and `content.py` (types that all features use), `lifecycle.py` (the handshake of the legacy
era), `ping.py`, `cancellation.py`, `progress.py`, `versioning.py` (stateless requests, the modern era), `mrtr.py`
(multi round-trip requests), `subscriptions.py`, `headers.py` (HTTP headers that repeat fields of the body),
`principal.py` (the caller of a request over HTTP), `access.py` (the rights of this caller), `channel.py` (the object
through which a handler reaches the peer), `authorization/` (access tokens over HTTP).
"""
