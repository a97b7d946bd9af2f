"""The client: `Client`, which connects to one server, and its parts.

handlers.py        the client's handlers for requests of the server: roots, sampling, elicitation
session.py         requests in both eras, and multi round-trip requests
negotiation.py     the negotiation of the era and the revision
target.py          the server to connect to
connector.py       the connection: connect, send requests, reconnect
requests.py        messages that belong to no feature: pages of lists, batches, custom methods
subscriptions.py   notifications of the server, and subscriptions
tools.py           tool calls, checks of their results, and tasks
client.py          `Client`, the class that programs use
sync.py            `SyncClient`, for programs without asyncio
"""
