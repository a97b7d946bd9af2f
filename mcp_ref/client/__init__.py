"""The client: `Client`, which connects to one server, and its parts.

options.py         the options of `Client`
handlers.py        the client's handlers for requests of the server: roots, sampling, elicitation
session.py         requests in both eras, and multi round-trip requests
negotiation.py     the negotiation of the era and the revision
target.py          the server to connect to
connector.py       connect, reconnect, and the state of the connection
requests.py        the requests that belong to no feature of the server
subscriptions.py   notifications of the server, and subscriptions
tools.py           tool calls, checks of their results, and tasks
client.py          `Client`, the class that programs use
sync.py            `SyncClient`, for programs without asyncio
"""
