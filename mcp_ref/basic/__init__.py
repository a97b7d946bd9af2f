"""The specification's "Base Protocol": the rules that all features share.

Reading order: `meta.py` and `content.py` (shapes that all pages share), `lifecycle.py` (the handshake of the legacy
era), `ping.py`, `cancellation.py`, `progress.py`, `versioning.py` (stateless requests, the modern era), `mrtr.py`
(multi round-trip requests), `subscriptions.py`, `headers.py` (the body fields that HTTP headers repeat),
`channel.py` (the way from a handler to the peer), `authorization/` (tokens over HTTP).
"""
