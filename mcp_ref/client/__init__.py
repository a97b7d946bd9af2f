"""The client: `Client`, which connects to one server, and its parts.

handlers.py        requests of the server: roots, sampling, elicitation
session.py         requests and results in both eras, multi round-trip requests
negotiation.py     finding the era and the revision that a server speaks
connector.py       connect, request, reconnect
subscriptions.py   notifications of the server, and subscriptions
tools.py           tool calls, their checks, and tasks
client.py          `Client`, the class that programs use
sync.py            `SyncClient`, for programs without asyncio
"""
