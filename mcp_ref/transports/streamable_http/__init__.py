"""Streamable HTTP: a client POSTs each message to one URL; the response is JSON or a stream of server-sent events.

On the server, both eras:
- `checks.py`: may this HTTP request be served?
- `server.py`: the endpoint: which message goes where
On the server, legacy era:
- `session.py`, `session_table.py`: a conversation over many HTTP requests, its streams, and the table of sessions
- `event_store.py`, `sqlite_store.py`: the events that a client can ask for again, in memory or in a file
On the server, modern era:
- `stateless.py`: one request and its response
On the client:
- `client.py`: the transport: sessions, and the choice between the eras
- `resumption.py`: how broken event streams are continued; the listening stream
- `stateless_client.py`: requests of the modern era

Spec:  basic/transports#streamable-http (2025-03-26 to 2025-11-25); 2026-07-28 basic/transports/streamable-http
"""
