"""HTTP/1.1 on asyncio, which the standard library lacks: a server, a client, and server-sent events.

The folder knows nothing of MCP and needs no other part of the package. Reading order:

    message.py     a request, its headers, and the exchange through which a handler sends the response
    sse.py         server-sent events: bytes <-> events
    framing.py     the parts of HTTP that both sides share: header lines, body lengths, chunks
    parser.py      the server's parser: bytes -> requests
    connection.py  one connection of the server: phases, time limits, responses
    server.py      `serve`: a listening socket and its connections
    asgi.py        `application`: the same exchanges under any ASGI server
    origin.py      the client's origins, redirects and proxies
    client.py      `HttpClient`: requests over a pool of connections

Spec:  RFC 9110 (semantics), RFC 9112 (HTTP/1.1), the HTML standard's section 9.2 (server-sent events)
"""
