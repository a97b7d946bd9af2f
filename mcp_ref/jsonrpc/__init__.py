"""JSON-RPC 2.0, and nothing of MCP.

Reading order: `messages.py` (bytes to messages and back), `errors.py` (exceptions), `requester.py` (requests that we
send), `dispatcher.py` (requests that the peer sends, and the routing of both).
"""
