"""The client: `Client`, which connects to one server, and its parts.

A client starts the server's process or connects to its URL, and finds out which era and revision the server speaks.
After that, `client.call_tool(...)` and its other methods are the same for every server. The client also does what the
server may ask of it: it runs the program's handlers for input, follows tasks, repeats lost requests that change
nothing, and restarts a modern server's process.

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
