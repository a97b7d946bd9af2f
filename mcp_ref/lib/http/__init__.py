"""An HTTP/1.1 server and client on asyncio, and server-sent events.

They exist because the standard library has no HTTP for asyncio. The server turns the bytes of a connection into
requests, and calls a handler with an exchange, through which it responds with a whole body or with pieces. The client
keeps a pool of connections. Both refuse every message that two programs could read differently, and limit the memory
and the time that a peer can cost. The modules do not use MCP and import no other part of `mcp_ref`. Read them in this
order:

    message.py     requests, headers and limits, and the exchange through which a handler sends a response
    sse.py         a parser and an encoder for server-sent events
    framing.py     the syntax of HTTP/1.1 messages, for client and server: heads, body lengths, chunks
    parser.py      the server's parser, which turns bytes into requests
    exchange.py    the responses of the server: of one request, and a response in pieces
    connections.py the data and the limits that the connections of a server share
    connection.py  one connection of the server, with its phases and time limits
    server.py      `serve`, which listens on a socket
    asgi.py        `application`, which runs the same handlers under any ASGI server
    proxies.py     the address of a client behind reverse proxies
    origin.py      the client's rules for URLs, redirects and proxies
    response.py    a response to the client, and the connection on which it arrives
    client.py      `HttpClient`, which sends requests over a pool of connections

Spec:  RFC 9110 (semantics), RFC 9112 (HTTP/1.1), the HTML standard's section 9.2 (server-sent events)
"""
