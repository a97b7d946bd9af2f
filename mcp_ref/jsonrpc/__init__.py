"""JSON-RPC 2.0, the message format of MCP. The modules in this folder know no MCP method.

Reading order: `messages.py` (reads and writes messages), `errors.py` (exceptions), `time_limits.py` (timers),
`requester.py` (requests that we send), `request_queue.py` (requests of the peer that wait), `dispatcher.py` (requests
that the peer sends).
"""
