"""HTTP+SSE, the HTTP transport of 2024-11-05, for clients and servers that support no later revision.

`server.py` is the server's side, and `client.py` the client's side. The server sends all its messages on the response
to one long GET, while the client POSTs its messages to a second URL.

With HTTP+SSE, every client has to hold a connection open, and when that breaks, the session ends. Therefore 2025-03-26
replaced it with Streamable HTTP [2025-03-26 changelog#major-changes]. It has been deprecated since then, and formally
since 2026-07-28 [2026-07-28 changelog#deprecated], so use Streamable HTTP.

Spec:  2024-11-05 basic/transports#http-with-sse
"""
