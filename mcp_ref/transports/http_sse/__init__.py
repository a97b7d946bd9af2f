"""HTTP+SSE, the HTTP transport of 2024-11-05, for clients and servers that support no later revision.

`server.py` is the server's side, and `client.py` the client's side. The server sends all its messages on the response
to one long GET. The client POSTs its messages to a second URL.

2025-03-26 replaced this transport with Streamable HTTP [2025-03-26 changelog#major-changes]. With HTTP+SSE, every
client had to hold a connection open. When that connection broke, the session ended. HTTP+SSE has been deprecated
since 2025-03-26, and formally since 2026-07-28 [2026-07-28 changelog#deprecated]. Use Streamable HTTP.

Spec:  2024-11-05 basic/transports#http-with-sse
"""
