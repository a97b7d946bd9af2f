"""The client: `Client`, which connects to one server, and its parts.

A client starts the server's process or connects to its URL, and finds out which era and revision the server speaks.
After that, its methods, such as `client.call_tool(...)`, are the same for every server. It runs the program's handlers
when the server needs input, waits for tasks, repeats lost requests that change nothing, and restarts a modern server.

Reading order: `options.py`, `handlers.py` (the program's handlers for the server's requests), `session.py` (requests in
both eras), `negotiation.py` (finds the era and the revision), `target.py` (the server to connect to), `connector.py`
(connects and reconnects), `requests.py` (requests of any method), `subscriptions.py` (notifications), `tools.py` (tool
calls and tasks), `client.py` (`Client`, the class that programs use), `sync.py` (`SyncClient`, without asyncio).
"""
