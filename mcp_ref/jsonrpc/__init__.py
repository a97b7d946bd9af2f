"""JSON-RPC 2.0, the message format of MCP. The modules in this folder know no MCP method.

A request has an id, which its response repeats, so both sides can have many requests open at once and respond in any
order. A notification has no id, because it gets no response. Each connection has one dispatcher, which serves the
peer's requests. Its base class, the requester, sends ours and gives each response to the caller that waits for it.

Reading order: `outline.py` (finds the depth and the id of an unread text), `messages.py` (reads and writes messages),
`errors.py` (exceptions), `failures.py` (the errors that a peer gets for them), `bounded_waits.py` (waits for cancelled
handlers), `requester.py` (our requests), `request_queue.py` (requests of the peer that wait for a slot),
`dispatcher.py` (those that are served), `large_messages.py` (refuses large messages that nobody awaits).
"""
