"""The server: its tools, resources and prompts, and how it serves clients.

context.py         the request being served, for the author's function
catalog.py           what the server offers, the handler of each method, and notifications of changes
subscriptions.py   subscriptions/listen (modern era)
stateless.py       one stateless request (modern era)
session.py         one session (legacy era)
http.py            serving over HTTP
main.py            a server as the whole program
server.py          `Server`, the class that authors use
"""
