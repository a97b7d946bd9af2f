"""The bridge: one MCP server that is made of other servers, of any revision and any transport.

A new client cannot use an old server, and an old client cannot use a new one, unless both speak a common revision. The
bridge speaks with each side in its own revision. `Bridge` draws the four combinations of the two eras.

The *front* is the server that the clients see, and the *back* is the servers behind the bridge, which it uses through
clients of its own. In this folder, "client" without another word is a client in front, such as the user's host.

    tools/call of a client  -> front.py -> relay.py -> namespaces.py (which server?) -> backs.py (which connection?)
                            -> exchange.py, which converts it -> back_client.py -> the server
    elicitation of a server -> back_client.py (to which call does it belong?) -> calls.py or held.py -> the client

relayed.py      params and results as JSON, and cursors and ids that only one user can use
callers.py      a client in front: its user, capabilities and session
conversion.py   a message converted to another revision, without the fields that the other revision lacks
calls.py        one request in flight: passes progress, log messages and a server's input requests to a legacy client
held.py         input requests of a legacy server to a modern client
back_client.py  one client of the bridge, connected to one server
backs.py        all clients of the bridge for one server, and which of them a request can use
namespaces.py   the names and URIs that clients see, and the server of each
changes.py      subscriptions and changed lists
exchange.py     one request to a server, and its result, both converted
lists.py        lists of several servers, page by page
tasks.py        tasks of the server, and of the bridge itself
relay.py        the way of each request to its server
front.py        the server in front
bridge.py       `Bridge`
explain.py      a table of the methods and fields that are kept, converted and lost between two revisions
"""
