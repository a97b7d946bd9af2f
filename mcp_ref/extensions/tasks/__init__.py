"""Tasks: requests whose result the requestor fetches later. Since 2026-07-28, tasks are an extension of the protocol.

types.py       Messages, and the statuses of a task.
store.py       The store of tasks.
live_task.py   A task whose handler runs in this process.
receiver.py    The side that gets a request, runs it as a task, and serves the requests about the task.
requestor.py   The side that sends a request, polls the task, and fetches the result.
"""
