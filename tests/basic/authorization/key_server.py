"""An authorization server for tests: it publishes keys and introspects tokens, and can be made to misbehave."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import cast
from urllib.parse import parse_qs

from mcp_ref.jsonrpc.messages import JSON, Object
from mcp_ref.lib.http.message import Exchange
from mcp_ref.lib.http.server import start_server
from mcp_ref.lib.jose.keys import JSON as Member
from mcp_ref.lib.jose.keys import PrivateKey, make_private_key
from mcp_ref.lib.jose.tokens import sign_jwt

RESOURCE = "http://127.0.0.1:8000/mcp"
Members = dict[str, Member]
Misbehave = Callable[[Exchange], Awaitable[None]]


class KeyServer:
    """An issuer on loopback, its keys, and the requests that it has received."""

    def __init__(self) -> None:
        self.issuer = ""
        self.keys: dict[str, PrivateKey] = {"1": make_private_key()}
        self.metadata: Object = {}
        """Members to add to the metadata, or to replace."""
        self.documents: dict[str, Misbehave] = {}
        """Responses that replace the usual ones, by path."""
        self.asked: list[str] = []
        """The paths of the requests, in order."""
        self.heads: list[dict[str, str]] = []
        self.introspected: dict[str, Object] = {}
        self.introspections: list[str] = []
        """The bodies of the requests for introspection."""

    def token(
        self, claims: Object | None = None, *, kid: str | None = "1", sign_with: str = "1", header: Object | None = None
    ) -> str:
        """Return a signed token of one hour. Claims and header members with the value None are left out."""
        now = time.time()
        usual: Object = {"iss": self.issuer, "aud": RESOURCE, "sub": "alice", "client_id": "c", "exp": now + 3600}
        head: Object = {"alg": "ES256", "typ": "at+jwt", "kid": kid, **(header or {})}
        own: Object = {**usual, **(claims or {})}
        parts = [{name: one for name, one in part.items() if one is not None} for part in (head, own)]
        return sign_jwt(cast(Members, parts[0]), cast(Members, parts[1]), self.keys[sign_with].sign)

    def jwks(self) -> Object:
        """Return the published keys."""
        return {"keys": [{**key.public.members, "kid": kid} for kid, key in self.keys.items()]}

    async def handle(self, exchange: Exchange) -> None:
        """Serve one request."""
        await exchange.read_body()
        path = exchange.request.path
        self.asked.append(path)
        self.heads.append({name.lower(): value for name, value in exchange.request.headers})
        if path in self.documents:
            return await self.documents[path](exchange)
        if path == "/.well-known/oauth-authorization-server":
            own: Object = {"jwks_uri": f"{self.issuer}/jwks", "introspection_endpoint": f"{self.issuer}/introspect"}
            return await send(exchange, {"issuer": self.issuer, **own, **self.metadata})
        if path == "/jwks":
            return await send(exchange, self.jwks())
        if path == "/introspect":
            self.introspections.append(exchange.request.body.decode())
            token = parse_qs(self.introspections[-1])["token"][0]
            return await send(exchange, self.introspected.get(token, {"active": False}))
        await send(exchange, {}, 404)


async def send(exchange: Exchange, body: JSON, status: int = 200, *headers: tuple[str, str]) -> None:
    """Respond with JSON."""
    exchange.respond(status, [("Content-Type", "application/json"), *headers], json.dumps(body).encode())


def failing(status: int, *headers: tuple[str, str]) -> Misbehave:
    """Return a response with this status."""
    return lambda exchange: send(exchange, {}, status, *headers)


def saying(body: bytes) -> Misbehave:
    """Return a response with this body."""

    async def say(exchange: Exchange) -> None:
        exchange.respond(200, [("Content-Type", "application/json")], body)

    return say


async def dripping(exchange: Exchange) -> None:
    """Send a space from time to time, without end."""
    response = exchange.stream(200, [("Content-Type", "application/json")])
    while not response.ended.done():
        response.write(b" ")
        await asyncio.sleep(0.01)


async def flooding(exchange: Exchange) -> None:
    """Send a text of 10 MB without its length."""
    response = exchange.stream(200, [("Content-Type", "application/json")])
    for _ in range(160):
        response.write(b" " * 64 * 1024)
        await response.drain()


@contextlib.asynccontextmanager
async def key_server() -> AsyncIterator[KeyServer]:
    """Run an issuer."""
    found = KeyServer()
    listening = await start_server(found.handle)
    found.issuer = f"http://127.0.0.1:{listening.address[1]}"
    try:
        yield found
    finally:
        await listening.close(0.2)
