"""JSON-RPC 2.0, and nothing of MCP: the messages and the dispatcher that pairs them.

Reading order: `messages.py` (bytes <-> messages), then `dispatcher.py` (what happens to them).
"""
