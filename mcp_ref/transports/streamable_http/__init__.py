"""Streamable HTTP: a client sends each message by POST to one URL. The response is JSON or a server-sent-event stream.

On the server, in both eras:
- `checks.py`: the checks that each HTTP request must pass
- `posted_session.py`: the limits, and the base class of sessions
- `server.py`: the endpoint, which passes each message to a session or serves it as a stateless request
On the server, in the legacy era (revisions up to 2025-11-25, with sessions):
- `session.py`, `session_table.py`: a session (a conversation over many HTTP requests), and the table of all sessions
- `event_store.py`: the store of sent events, from which a client can get the events that it missed
- `durable_store.py`, `sqlite_store.py`: stores whose sessions and events outlive the process
On the server, in the modern era (from 2026-07-28, without sessions):
- `stateless.py`: one request and its response
On the client:
- `client.py`: the transport for both eras
- `resumption.py`: how the client continues broken event streams, and listens for messages that belong to no request
- `stateless_client.py`: the requests of the modern era

Spec:  basic/transports#streamable-http (2025-03-26 to 2025-11-25); 2026-07-28 basic/transports/streamable-http
"""
