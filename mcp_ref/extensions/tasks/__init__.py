"""Tasks: requests whose result is fetched later. Part of the core in 2025-11-25, an extension since 2026-07-28.

types.py       the messages, the life of a task, and the store
receiver.py    the receiver: runs tasks, and serves the requests about them
requestor.py   the requestor: polls a task, and fetches its result
"""
