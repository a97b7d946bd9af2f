"""The server: its tools, resources and prompts, and the ways to serve clients.

An author registers functions with a `Server`, whose catalog all clients share. Each legacy client has a session, which
keeps its state; a modern request carries its state itself. Both find the handler of a request in the catalog, and give
it a `Context`, through which it reaches its client. The same server runs over standard input and output, over HTTP, or
inside another application.

input_requests.py  requests for input from the client: elicitation, sampling, roots
context.py         `Context`: progress reports, log messages and input requests of a running tool
lifespan.py        the lifespan: a context manager for the objects that handlers share
workers.py         the threads for plain `def` functions, of which each client has a share
announcements.py   the notifications about changes, for sessions and subscriptions; broadcast.py: between processes
service.py         the sessions and HTTP applications, and the objects that handlers share
options.py         the options of `Server`
catalog.py         the tools, resources and prompts of a server, and their handlers
subscriptions.py   the request `subscriptions/listen` (modern era)
stateless.py       stateless requests (modern era)
session.py         sessions (legacy era)
middleware.py      the author's functions around each request
routes.py          further paths of a server over HTTP, with the author's handlers
http.py            a server over HTTP; http_options.py: its options; listening.py: its own socket
health.py          paths for load balancers and Prometheus, with the numbers of a server
main.py            a program that runs only a server: its start and its end
server.py          `Server`, the class that server authors use
"""
