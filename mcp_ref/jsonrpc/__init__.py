"""JSON-RPC 2.0, the message format of MCP. The modules in this folder know no MCP method.

A request has an id, which its response repeats, so both sides can send many requests at once and respond in any order.
A notification has no id and gets no response. The requester sends our requests and waits for their responses. The
dispatcher runs a handler for each request of the peer, and lets requests wait if there are too many.

Reading order: `outline.py` (finds the id of a text), `messages.py` (reads and writes messages), `errors.py`
(exceptions), `failures.py` (exceptions of handlers), `time_limits.py` (timers), `requester.py` (requests that we send),
`request_queue.py` (requests of the peer that wait), `dispatcher.py` (its other requests), `large_messages.py`.
"""
