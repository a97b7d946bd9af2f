"""Tasks: requests whose result the requestor fetches later. In 2025-11-25 a part of the core, then an extension.

types.py       Messages, the statuses of a task, and the store of tasks.
receiver.py    The side that gets a request, runs it as a task, and serves the requests about the task.
requestor.py   The side that sends a request, polls the task, and fetches the result.
"""
