"""HTTP/1.1 on asyncio, which the standard library lacks: a server, a client, and server-sent events.

Reading order: `message.py` (a request, and how it is answered), `sse.py` (events), `server.py`, `client.py`. It stands
alone: nothing here knows of MCP, and nothing else of ours is needed.

Spec:  RFC 9110 and 9112; the event stream format of the HTML standard
"""
