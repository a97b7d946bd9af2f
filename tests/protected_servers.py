"""A protected MCP server and its authorization server, both scripted, over real HTTP on loopback. They can misbehave.

    async with protected() as world:
        async with Client(world.url, authorization=AuthorizationCode(open_browser=world.browse)) as client:
            await client.call_tool("read")
        assert world.auth.paths == [...]

Both record all requests. A test changes their documents, or queues responses for a path with `instead`.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from itertools import count
from typing import Any, Unpack
from urllib.parse import parse_qs, parse_qsl, unquote_plus, urlencode

from mcp_ref import AuthorizationCode, HttpClient, Server
from mcp_ref.basic.authorization.challenges import write_challenge
from mcp_ref.jsonrpc.messages import JSON, Object
from mcp_ref.lib.http.message import Exchange, HeaderList
from mcp_ref.lib.http.server import start_server
from mcp_ref.server.http import HttpApp
from mcp_ref.server.http_options import HttpOptions

Step = Callable[[Exchange], Awaitable[None]]
PRM_PATH = "/.well-known/oauth-protected-resource"
AS_PATH = "/.well-known/oauth-authorization-server"


@dataclass
class Seen:
    """A request that a server received."""

    method: str
    path: str
    headers: dict[str, str]
    values: dict[str, str]
    """The parameters of the query or the form, or the members of a JSON body, as texts."""
    body: bytes = b""

    @property
    def token(self) -> str:
        """The bearer token, or ""."""
        return self.headers.get("authorization", "").removeprefix("Bearer ")


async def _seen(exchange: Exchange) -> Seen:
    await exchange.read_body()
    request = exchange.request
    values = dict(parse_qsl(request.query, keep_blank_values=True))
    kind = request.headers.get("content-type") or ""
    if kind == "application/x-www-form-urlencoded":
        assert len(parse_qs(request.body.decode())) == len(parse_qsl(request.body.decode()))
        values |= dict(parse_qsl(request.body.decode(), keep_blank_values=True))
    elif kind == "application/json" and request.body:
        values |= {name: value if isinstance(value, str) else json.dumps(value)
                   for name, value in json.loads(request.body).items()}  # fmt: skip
    headers = {name.lower(): value for name, value in request.headers}
    return Seen(request.method, request.path, headers, values, request.body)


def status(code: int, body: JSON | bytes = b"", *headers: tuple[str, str]) -> Step:
    """Respond with a status, and with JSON or bytes."""

    async def step(exchange: Exchange) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        exchange.respond(code, [*headers, ("Content-Type", "application/json")], data)

    return step


async def silence(exchange: Exchange) -> None:
    """Send no response until the client disconnects."""
    gone = asyncio.Event()
    exchange.on_disconnect(gone.set)
    await gone.wait()


class _Scripted:
    """A server with a log of requests, and with queued responses."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.base = ""
        """The origin, such as http://127.0.0.1:4711."""
        self._instead: dict[str, list[Step]] = defaultdict(list)
        self._always: dict[str, Step] = {}

    def instead(self, path: str, *steps: Step) -> None:
        """Respond with these steps to the next requests of a path."""
        self._instead[path] += steps

    def always(self, path: str, step: Step) -> None:
        """Respond with this step to all requests of a path."""
        self._always[path] = step

    @property
    def paths(self) -> list[str]:
        """The paths of all requests, in order."""
        return [seen.path for seen in self.seen]

    def requests(self, path: str) -> list[Seen]:
        """Return the requests of a path."""
        return [seen for seen in self.seen if seen.path == path]

    async def handle(self, exchange: Exchange) -> None:
        """Respond to a request."""
        seen = await _seen(exchange)
        self.seen.append(seen)
        if self._instead[seen.path]:
            await self._instead[seen.path].pop(0)(exchange)
        elif seen.path in self._always:
            await self._always[seen.path](exchange)
        else:
            await self.serve(exchange, seen)

    async def serve(self, exchange: Exchange, seen: Seen) -> None:
        """Respond as a correct server does."""
        raise NotImplementedError


class ScriptedAuthorizationServer(_Scripted):
    """An authorization server that grants everything at once, to every client."""

    def __init__(self) -> None:
        super().__init__()
        self.metadata: Object = {}
        self.registration: Object = {}
        """Members of the registration response that differ from the request."""
        self.token_response: Object = {"expires_in": 3600}
        """Members of the token response in addition to the tokens."""
        self.callback: dict[str, str] = {}
        """Parameters of the authorization response that differ; "" leaves one out."""
        self.tokens: dict[str, set[str]] = {}
        """The valid access tokens, with their scopes."""
        self.refresh_tokens: dict[str, set[str]] = {}
        """The valid refresh tokens, with their scopes. Each is good for one use."""
        self._codes: dict[str, tuple[str, set[str]]] = {}  # challenge and scopes
        self._number = count(1)
        self._registered: dict[str, set[str]] = {}  # the scopes for which a client may ask

    def begin(self, base: str) -> None:
        """Set the metadata, when the port is known."""
        self.base = base
        self.metadata |= {
            "issuer": base,
            "authorization_endpoint": f"{base}/authorize",
            "token_endpoint": f"{base}/token",
            "registration_endpoint": f"{base}/register",
            "revocation_endpoint": f"{base}/revoke",
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
        }

    async def serve(self, exchange: Exchange, seen: Seen) -> None:
        if seen.path == AS_PATH:
            await status(200, self.metadata)(exchange)
        elif seen.path == "/register":
            client: Object = {**json.loads(seen.body), "client_id": f"client-{next(self._number)}", **self.registration}
            if isinstance(client.get("scope"), str):
                self._registered[str(client["client_id"])] = set(str(client["scope"]).split())
            await status(201, client)(exchange)
        elif seen.path == "/authorize":
            await self._authorize(exchange, seen)
        elif seen.path == "/token":
            await self._token(exchange, seen)
        elif seen.path == "/revoke":
            self.refresh_tokens.pop(seen.values["token"], None)
            await status(200)(exchange)
        else:
            await status(404)(exchange)

    async def _authorize(self, exchange: Exchange, seen: Seen) -> None:
        code, scopes = f"code-{next(self._number)}", set(seen.values.get("scope", "").split())
        self._codes[code] = seen.values["code_challenge"], scopes
        is_allowed = scopes <= self._registered.get(seen.values["client_id"], scopes)
        result = {"code": code} if is_allowed else {"error": "invalid_scope"}
        parameters = {**result, "state": seen.values["state"], "iss": str(self.metadata["issuer"]), **self.callback}
        query = urlencode({name: text for name, text in parameters.items() if text})
        location = f"{seen.values['redirect_uri']}?{query}"
        await status(302, b"", ("Location", location))(exchange)

    async def _token(self, exchange: Exchange, seen: Seen) -> None:
        form = seen.values
        if form["grant_type"] == "refresh_token":
            scopes = self.refresh_tokens.pop(form["refresh_token"], None)
        else:
            challenge, scopes = self._codes.pop(form["code"], ("", None))
            digest = hashlib.sha256(form["code_verifier"].encode()).digest()
            assert base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == challenge
        if scopes is None:
            return await status(400, {"error": "invalid_grant"})(exchange)
        await status(200, self.issue(scopes))(exchange)

    def issue(self, scopes: set[str]) -> Object:
        """Make valid tokens, and return the token response."""
        number = next(self._number)
        self.tokens[f"access-{number}"] = self.refresh_tokens[f"refresh-{number}"] = scopes
        tokens: Object = {"access_token": f"access-{number}", "token_type": "Bearer"}
        return {**tokens, "refresh_token": f"refresh-{number}", **self.token_response}


class ProtectedMcpServer(_Scripted):
    """An MCP server with the tools `read` and `write`. It accepts the tokens of its authorization servers."""

    def __init__(self, *issuers: ScriptedAuthorizationServer, **options: Unpack[HttpOptions]) -> None:
        super().__init__()
        self.issuers = list(issuers)
        self.metadata: Object | None = {}
        self.scope = "read"
        """The scope in the challenge of a 401."""
        self.needs: dict[str, str] = {}
        """The scopes that a method or a tool needs, separated by spaces."""
        self.names_metadata = True
        """True if the challenge names the metadata document."""
        self.is_open: Callable[[str], bool] = lambda method: False
        """A function that returns True if a method needs no token."""
        server = Server("protected")
        server.tool()(read)
        server.tool()(write)
        self.app = HttpApp(server.catalog, server.limits, server.trace, **options)

    def begin(self, base: str) -> None:
        """Set the metadata, when the ports are known."""
        self.base = base
        issuers: list[JSON] = [issuer.base for issuer in self.issuers]
        self.metadata = {"resource": f"{base}/mcp", "authorization_servers": issuers}

    @property
    def requests_with_tokens(self) -> list[Seen]:
        """The requests to the MCP endpoint that had a token."""
        return [seen for seen in self.requests("/mcp") if seen.token]

    async def serve(self, exchange: Exchange, seen: Seen) -> None:
        if seen.path == f"{PRM_PATH}/mcp" and self.metadata is not None:
            return await status(200, self.metadata)(exchange)
        if seen.path not in ("/mcp", "/sse", "/messages"):
            return await status(404)(exchange)
        params = json.loads(seen.values.get("params", "{}"))
        method, name = seen.values.get("method", ""), params.get("name", "")
        granted = next((issuer.tokens[seen.token] for issuer in self.issuers if seen.token in issuer.tokens), None)
        needed = set(f"{self.needs.get(method, '')} {self.needs.get(name, '')}".split())
        if granted is None and not self.is_open(method):
            return await self._refuse(exchange, 401, self.scope, "invalid_token" if seen.token else "")
        if not needed <= (granted or set()):
            return await self._refuse(exchange, 403, " ".join(sorted(needed)), "insufficient_scope")
        rest = self.app.handle(exchange)
        if rest is not None:
            await rest

    async def _refuse(self, exchange: Exchange, code: int, scope: str, error: str) -> None:
        named = f"{self.base}{PRM_PATH}/mcp" if self.names_metadata else ""
        challenge = write_challenge("Bearer", resource_metadata=named, scopes=scope.split(), error=error)
        headers: HeaderList = [("WWW-Authenticate", challenge)]
        await status(code, b"", *headers)(exchange)


def read() -> str:
    """Read."""
    return "read"


def write() -> str:
    """Write."""
    return "written"


class World:
    """Both servers, and a browser whose user agrees to everything."""

    def __init__(self, auth: ScriptedAuthorizationServer, mcp: ProtectedMcpServer) -> None:
        self.auth, self.mcp = auth, mcp
        self.opened: list[str] = []
        """The URLs that the browser has opened."""

    @property
    def url(self) -> str:
        """The URL of the MCP server."""
        return f"{self.mcp.base}/mcp"

    async def browse(self, url: str) -> None:
        """Open a URL, and follow the redirect to the program."""
        self.opened.append(url)
        async with HttpClient() as http:
            async with http.request("GET", url, redirects=0) as response:
                location = response.headers.get("location")
            if location is not None:
                async with http.request("GET", location) as response:
                    await response.read(100_000)

    def login(self, **options: Any) -> AuthorizationCode:
        """Return an authorizer that signs in with this browser."""
        return AuthorizationCode(open_browser=self.browse, **options)

    def asked_scopes(self) -> list[str]:
        """Return the scopes of each authorization request."""
        return [seen.values.get("scope", "") for seen in self.auth.requests("/authorize")]


@contextlib.asynccontextmanager
async def authorization_server() -> AsyncIterator[ScriptedAuthorizationServer]:
    """Serve an authorization server."""
    auth = ScriptedAuthorizationServer()
    async with await start_server(auth.handle) as listener:
        auth.begin(f"http://127.0.0.1:{listener.address[1]}")
        yield auth


@contextlib.asynccontextmanager
async def protected(**options: Unpack[HttpOptions]) -> AsyncIterator[World]:
    """Serve a protected MCP server and its authorization server."""
    async with authorization_server() as auth:
        mcp = ProtectedMcpServer(auth, **options)
        async with await start_server(mcp.handle) as listener:
            mcp.begin(f"http://127.0.0.1:{listener.address[1]}")
            try:
                yield World(auth, mcp)
            finally:
                await mcp.app.close()


def basic_credentials(seen: Seen) -> tuple[str, str]:
    """Return the client id and the secret of a Basic authentication."""
    pair = base64.b64decode(seen.headers["authorization"].removeprefix("Basic ")).decode()
    client_id, _, secret = pair.partition(":")
    return unquote_plus(client_id), unquote_plus(secret)
