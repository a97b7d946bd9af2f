"""HTTP+SSE, the HTTP transport of 2024-11-05, for clients and servers that know nothing newer.

`server.py` is the server's side, `client.py` the client's side. One long GET carries everything that the server sends,
and the client POSTs to a second URL.

2025-03-26 replaced it with Streamable HTTP [2025-03-26 changelog#major-changes]: every client had to hold a connection
open, a session ended when that connection broke, and nothing could be resumed. It has been deprecated since, and
formally since 2026-07-28 [2026-07-28 changelog#deprecated]. Use Streamable HTTP.

Spec:  2024-11-05 basic/transports#http-with-sse
"""
