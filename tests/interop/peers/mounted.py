"""examples/everything.py as a part of somebody's website, under /apps/everything."""

from starlette.applications import Starlette
from starlette.routing import Mount

from served import server

app = Starlette(routes=[Mount("/apps/everything", app=server.asgi())])
