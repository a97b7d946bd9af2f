"""The server: its tools, resources and prompts, and the ways to serve clients.

An author registers functions with a `Server`, whose catalog all clients share. Each legacy client has a session, which
keeps its state; a modern request carries its state itself. Both look up a request's handler in the catalog, and give it
a `Context`, through which it reaches the client. The same server runs over stdio, HTTP, or inside another application.

Reading order: `input_requests.py` (elicitation, sampling, roots), `context.py` (`Context`), `lifespan.py` (the objects
that handlers share), `workers.py` (threads for plain `def` functions), `announcements.py` (notifications about changes)
and `broadcast.py` (for the server's other processes), `service.py` (the open sessions), `options.py`,
`catalog.py` (tools, resources, prompts and their handlers), `subscriptions.py` and `stateless.py` (modern era),
`session.py` (legacy era), `middleware.py` (the author's functions around each request), `routes.py` (the author's own
HTTP paths), `http.py`, `http_options.py`, `listening.py` (a socket of its own), `health.py` (for load balancers),
`main.py` (a program that only runs a server), `server.py` (`Server`, the class that server authors use).
"""
