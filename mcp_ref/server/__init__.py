"""The server: its offer of tools, resources and prompts, and the ways in which it serves clients.

context.py         the request being served, as the author's function sees it
offer.py           the tools, resources, prompts and tasks, and the handler of each method
subscriptions.py   subscriptions/listen (modern era)
stateless.py       one stateless request (modern era)
session.py         one session (legacy era)
http.py            serving over HTTP
main.py            a server as the whole program
server.py          `Server`, the class that authors use
"""
