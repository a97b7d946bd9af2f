"""Transports: how JSON-RPC messages travel between a client and a server. They know no method and no feature.

- `base.py`: the contract between a transport and the session above it
- `stdio.py`: the client starts the server as a child process
- `memory.py`: client and server in one program
- `streamable_http/`: the server is a web server, for many clients
- `http_sse/`: the HTTP transport of 2024-11-05
- `trace.py`: every frame, for people to read

Spec:  basic/transports (2024-11-05 to 2025-11-25); 2026-07-28 basic/transports/index
"""
