"""JSON-RPC 2.0, the message format of MCP. The modules in this folder know no MCP method.

A request has an id, which its response repeats, so both sides can have many requests open at once and respond in any
order. A notification has no id, because it gets no response. Each connection has one dispatcher. It runs a handler for
each request of the peer, and makes further requests wait when there are too many; its base class, the requester, sends
our own requests and gives each response to the caller that waits for it.

Reading order: `outline.py` (finds the id in an unreadable text), `messages.py` (reads and writes messages),
`errors.py` (exceptions), `failures.py` (the errors that a peer gets for them), `bounded_waits.py` (waits for cancelled
handlers), `requester.py` (requests that we send), `request_queue.py` (requests of the peer that wait for a slot),
`dispatcher.py` (requests of the peer that are served), `large_messages.py` (refuses large messages that nobody awaits).
"""
