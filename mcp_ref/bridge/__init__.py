"""The bridge: one MCP server that is made of other servers, of any revision and any transport.

A new client cannot use an old server, and an old client cannot use a new one, unless both speak a common revision. The
bridge speaks with each side in its own revision. `Bridge` draws the four combinations of the two eras.

    tools/call of a client -> front.py -> relay.py -> namespaces.py: which server? -> backs.py: which connection?
        -> conversion.py -> the server -> conversion.py -> the client
    elicitation of a server -> backs.py: to which call does it belong? -> calls.py or held.py -> the client

relayed.py      params and results as JSON, and sealed cursors
conversion.py   a message converted to another revision, without the fields that the other revision lacks
calls.py        the requests in flight: progress, log messages, input requests of a server to a legacy client
held.py         input requests of a legacy server to a modern client
back_client.py  one client of the bridge towards one server
backs.py        all clients towards one server, by their keys
namespaces.py   the names and URIs of several servers
changes.py      subscriptions and changed lists
exchange.py     one request to a server, and its result
lists.py        lists in pages
tasks.py        tasks of the server, and of the bridge itself
relay.py        all requests of the clients
front.py        the server in front
bridge.py       `Bridge`
explain.py      the data that are kept, converted and lost between two revisions
"""
