"""The spec's "Base Protocol": what every message has, how a conversation opens and ends, and what carries it.

Reading order: `meta.py` and `content.py` (shapes that all pages share), `lifecycle.py` (the handshake), `patterns/`
(what may happen around any request), `transports/` (what moves the bytes).
"""
