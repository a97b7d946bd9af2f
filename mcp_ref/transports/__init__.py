"""Transports: modules that move JSON-RPC messages between a client and a server, and know none of their meaning.

A session sees no difference between them, because all have the interface in `base.py`. Over HTTP, the client POSTs each
message, and the response is JSON or a stream of events.

- `base.py`: the interface between a transport and the session that uses it
- `system.py`: the differences between operating systems
- `stdio/`: the transport for a client that starts the server as a child process
- `memory.py`: the transport for a client and a server in one program
- `streamable_http/`: the transport for a web server with many clients
- `http_sse/`: the HTTP transport of revision 2024-11-05
- `trace.py`: a log of every message, for people to read
- `recorded.py`: a recording of every message, for programs to read

Spec:  basic/transports (2024-11-05 to 2025-11-25); 2026-07-28 basic/transports/index
"""
