"""examples/everything.py as a part of somebody's website, under /apps/everything."""

from served import server
from starlette.applications import Starlette
from starlette.routing import Mount

app = Starlette(routes=[Mount("/apps/everything", app=server.asgi())])
