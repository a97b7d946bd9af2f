"""A protected server of ours and the authorization server of the examples, on loopback, with a log of their wire.

    async with protected_notes("2025-11-25") as notes:
        ...  # a client of another project uses notes.url
        assert [str(step) for step in notes.wire] == ["POST /mcp 401", ...]

`protected_by` serves the MCP server only, for tokens of another authorization server.
"""

import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from urllib.parse import parse_qsl

from examples.authorization_server import AuthorizationServer, Grant
from examples.registered_clients import OAuthClient
from mcp_ref import Context, JwtVerifier, Principal, Protection, Server
from mcp_ref.basic.authorization.challenges import Challenge, parse_challenges
from mcp_ref.basic.authorization.server import ProofCheck, Verifier, Verify
from mcp_ref.lib.http.message import Exchange, Handler, HeaderList, Headers, StreamingResponse
from mcp_ref.lib.http.server import start_server
from mcp_ref.server.http import HttpApp

PASSWORD = "open sesame"


@dataclass
class Step:
    """A request that one of the two servers received, and its response."""

    server: str
    """`mcp` or `auth`."""
    method: str
    path: str
    headers: Headers
    values: dict[str, str]
    """The parameters of the query or form; for JSON, its members that are texts."""
    status: int = 0
    challenge: Challenge | None = None
    body: bytes = b""

    @property
    def token(self) -> str:
        """The access token, or ""."""
        return (self.headers.get("authorization") or "").partition(" ")[2]

    def __str__(self) -> str:
        return f"{self.method} {self.path} {self.status}"


class _Logged:
    """An exchange that notes its response in a step."""

    def __init__(self, exchange: Exchange, step: Step) -> None:
        self.request, self.on_disconnect, self.read_body = exchange.request, exchange.on_disconnect, exchange.read_body
        self.take_body, self.forget_body = exchange.take_body, exchange.forget_body
        self.respond_later = exchange.respond_later
        self._exchange, self._step = exchange, step

    def _note(self, status: int, headers: HeaderList, body: bytes) -> None:
        self._step.status, self._step.body = status, body
        fields = [value for name, value in headers if name == "WWW-Authenticate"]
        if fields:
            [self._step.challenge] = parse_challenges(fields)

    def respond(self, status: int, headers: HeaderList, body: bytes) -> None:
        self._note(status, headers, body)
        self._exchange.respond(status, headers, body)

    def stream(self, status: int, headers: HeaderList) -> StreamingResponse:
        self._note(status, headers, b"")
        return self._exchange.stream(status, headers)


def logged(name: str, wire: list[Step], handle: Handler) -> Handler:
    """Return a handler that notes each request in a log."""

    async def handle_logged(exchange: Exchange) -> None:
        await exchange.read_body()
        request = exchange.request
        values = dict(parse_qsl(request.query) + parse_qsl(request.body.decode("latin-1")))
        if (request.headers.get("content-type") or "").startswith("application/json") and request.body:
            found = json.loads(request.body)
            values = {key: value if isinstance(value, str) else json.dumps(value) for key, value in found.items()}
        step = Step(name, request.method, request.path, request.headers, values)
        wire.append(step)
        rest = handle(_Logged(exchange, step))
        if rest is not None:
            await rest

    return handle_logged


@dataclass
class Notes:
    """Both servers, while they listen."""

    url: str
    issuer: AuthorizationServer = field(default_factory=AuthorizationServer)
    wire: list[Step] = field(default_factory=list)
    ended: set[str] = field(default_factory=set)
    """Tokens that the MCP server does not accept any more."""

    def requests(self, server: str, path: str) -> list[Step]:
        """Return the requests of one path, in order."""
        return [step for step in self.wire if (step.server, step.path) == (server, path)]

    def grants(self, kind: str) -> list[Step]:
        """Return the token requests of a grant type, in order."""
        return [step for step in self.requests("auth", "/token") if step.values["grant_type"] == kind]

    def token(self, scope: str) -> str:
        """Return a token of a client that acts for itself."""
        grant = Grant(OAuthClient("job", "job"), "job", self.url, frozenset(scope.split()))
        issued: dict[str, str] = json.loads(self.issuer.send_tokens(grant, {})[2])
        return issued["access_token"]


@contextlib.asynccontextmanager
async def protected_notes(revision: str) -> AsyncIterator[Notes]:
    """Serve the MCP server for one revision, and the authorization server."""
    issuer, wire = AuthorizationServer(), list[Step]()
    issuer.password = PASSWORD
    async with await start_server(logged("auth", wire, issuer.handle)) as listener:
        issuer.issuer = f"http://127.0.0.1:{listener.address[1]}"
        async with protected_by(issuer.issuer, revision) as notes:
            notes.wire, notes.issuer = wire, issuer
            yield notes


@contextlib.asynccontextmanager
async def protected_by(
    issuer: str, revision: str, verifier: Verifier | None = None, dpop: ProofCheck | None = None
) -> AsyncIterator[Notes]:
    """Serve the MCP server only, for tokens of another authorization server.

    Its tool `end_token` makes it refuse the token that called it, as if its time were over.
    """
    server = Server("protected", revisions=[revision])

    @server.tool()
    def read_notes(context: Context) -> str:
        """Read the notes."""
        assert context.principal is not None
        return f"notes of {context.principal.subject}"

    @server.tool(scopes={"notes:write"})
    def add_note() -> str:
        """Add a note."""
        return "added"

    @server.tool()
    def end_token() -> str:
        """Refuse the token from now on."""
        notes.ended.add(notes.requests("mcp", "/mcp")[-1].token)
        return "ended"

    async with await start_server(lambda exchange: logged("mcp", notes.wire, app.handle)(exchange)) as listener:
        notes = Notes(f"http://127.0.0.1:{listener.address[1]}/mcp")
        verify = _until_ended((verifier or JwtVerifier()).for_server(notes.url, [issuer]), notes.ended)
        protection = Protection(notes.url, [issuer], verify, scopes={"notes:read"}, dpop=dpop)
        app = HttpApp(server.catalog, authorization=protection)
        try:
            yield notes
        finally:
            await app.close()


def _until_ended(verify: Verify, ended: set[str]) -> Verify:
    async def verify_unless_ended(token: str) -> Principal | None:
        return None if token in ended else await verify(token)

    return verify_unless_ended
