"""Tasks: requests whose result the requestor fetches later. Since 2026-07-28, tasks are an extension of the protocol.

A tool that runs for an hour should not depend on a connection that stays open for an hour, or exceed the time limit of
its request. So the receiver returns the id of a task at once, while the handler goes on. The requestor polls, over a
new connection if need be, until the task is over, and then fetches the result, which the receiver keeps for some time.

types.py         Messages, and the statuses of a task.
store.py         The store of tasks.
async_store.py   The store of tasks in a database.
shared_tasks.py  The tasks of several processes in one database.
live_task.py     A task whose handler runs in this process.
receiver.py      The side that gets a request, runs it as a task, and serves the requests about the task.
requestor.py     The side that sends a request, polls the task, and fetches the result.
"""
