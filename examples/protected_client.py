"""A client of protected.py. The user signs in with a browser, and agrees again when a tool needs a further scope.

New here: `authorization=AuthorizationCode()`. The first request gets the status 401, after which the client finds the
authorization server, registers itself, opens the browser, and repeats the request with the token. `add_note` gets the
status 403, because the token lacks its scope, so the client asks the user for both scopes and repeats the call.

    python3 examples/protected_client.py            opens your browser; first start both servers, which run until Ctrl-C
    python3 examples/protected_client.py --alone    runs all three programs, signs in without a browser, prints requests

Watch it fail: the user does not agree.

    python3 examples/protected_client.py --alone --refuse
"""

import asyncio
import re
import sys
from collections.abc import Iterable
from urllib.parse import urlencode
from urllib.request import urlopen

from mcp_ref import AuthorizationCode, AuthorizationError, Client
from mcp_ref.lib.http.message import Exchange, Handler, HeaderList, StreamingResponse
from mcp_ref.lib.http.server import start_server
from mcp_ref.server.http import HttpApp

# isort: off
from examples.authorization_server import AuthorizationServer  # found because the import of `mcp_ref` adds the folder
from examples.protected import protect, server

SECRET = re.compile(r"((?:\bcode|verifier|state|ticket|password|_token)(?:=|\": \")|: Bearer )([\w.~-]{4})[\w.~-]{6,}")


def show(line: str, headers: Iterable[tuple[str, str]], body: bytes = b"") -> None:
    """Print a request or a response, with the headers of authorization. Cut secrets and long texts."""
    shown = [f"{name}: {value}" for name, value in headers if name in ("Authorization", "WWW-Authenticate", "Location")]
    for text in filter(None, [line, *shown, " ".join(body.decode().split())]):
        print(SECRET.sub(r"\1\2...", text if text == line else f"    {text}")[:400])


class Shown:
    """An HTTP exchange that prints its request and its response."""

    def __init__(self, exchange: Exchange, receiver: str) -> None:
        self.exchange, self.request, self.on_disconnect = exchange, exchange.request, exchange.on_disconnect
        self.read_body, self.take_body = exchange.read_body, exchange.take_body
        self.respond_later, self.forget_body = exchange.respond_later, exchange.forget_body
        self.name = f"{self.request.method} {self.request.path}"
        query = f"?{self.request.query}" if self.request.query else ""
        show(f"\n{self.name}{query} -> {receiver}", self.request.headers, self.request.body)

    def respond(self, status: int, headers: HeaderList, body: bytes) -> None:
        """Print and send a response."""
        show(f"{status} <- {self.name}", headers, body)
        self.exchange.respond(status, headers, body)

    def stream(self, status: int, headers: HeaderList) -> StreamingResponse:
        """Print the head of a response, and send it."""
        show(f"{status} <- {self.name}, a stream of events", headers)
        return self.exchange.stream(status, headers)


async def use(url: str, authorization: AuthorizationCode) -> None:
    """Call both tools."""
    async with Client(url, authorization=authorization) as client:
        print((await client.call_tool("add_note", {"text": "Buy milk."})).text)
        print((await client.call_tool("read_notes")).text)


async def alone() -> None:
    """Run both servers, and act as the user."""
    issuer, answer = AuthorizationServer(), "deny" if "--refuse" in sys.argv else "allow"

    def visit(url: str) -> None:
        with urlopen(url, timeout=10) as page:
            [ticket] = re.findall('name=ticket value="([^"]+)"', page.read().decode())
        form = urlencode({"ticket": ticket, "password": issuer.password, "answer": answer})
        with urlopen(f"{issuer.issuer}/authorize", form.encode(), timeout=10) as page:
            page.read()  # the authorization server has redirected the browser to a page of the client

    async def browse(url: str) -> None:
        await asyncio.to_thread(visit, url)

    async def serve_shown(exchange: Exchange, receiver: str, handler: Handler) -> None:
        await exchange.read_body()
        if (rest := handler(Shown(exchange, receiver))) is not None:
            await rest

    async with (
        await start_server(lambda exchange: serve_shown(exchange, "authorization server", issuer.handle)) as first,
        await start_server(lambda exchange: serve_shown(exchange, "MCP server", app.handle)) as second,
    ):
        issuer.issuer, url = f"http://127.0.0.1:{first.address[1]}", f"http://127.0.0.1:{second.address[1]}"
        app = HttpApp(server.catalog, authorization=protect(f"{url}/mcp", issuer.issuer))
        try:
            await use(f"{url}/mcp", AuthorizationCode(open_browser=browse))
        finally:
            await app.close()


if __name__ == "__main__":
    try:
        asyncio.run(alone() if "--alone" in sys.argv else use("http://127.0.0.1:8000/mcp", AuthorizationCode()))
    except (AuthorizationError, ConnectionError) as error:
        sys.exit(f"No access: {error}")
