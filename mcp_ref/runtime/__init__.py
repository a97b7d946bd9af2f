"""What a program holds: a `Server` or a `Client`, and the `Context` that a handler gets. They compose the pages below.

Reading order: `connection.py` (one conversation with one peer), `context.py`, `server.py`, `client.py`, `sync.py`.
"""
