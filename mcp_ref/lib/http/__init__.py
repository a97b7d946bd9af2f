"""HTTP/1.1 on asyncio, which the standard library lacks: a server, a client, and server-sent events.

It stands alone: nothing here knows of MCP, and nothing else of ours is needed. Reading order:

    message.py   a request, and the exchange through which a handler answers it
    sse.py       server-sent events: bytes <-> events
    framing.py   where a head ends, how long a body is; what is not HTTP is refused
    server.py    sockets -> exchanges
    asgi.py      the same exchanges, under any ASGI server
    client.py    requests over connections that are used again

Spec:  RFC 9110 (semantics), RFC 9112 (HTTP/1.1), the event stream format of the HTML standard
"""
