"""Authorization, as a chapter of the demo: a client gets a token for a protected server. Both run in this process.

The client is a normal `Client`, and the MCP server has a normal `Protection`. Only the authorization server is a toy,
which asks no user, because real ones are separate products. basic/authorization/__init__.py shows the messages of each
step under the same numbers.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterable
from urllib.parse import parse_qsl, urlencode, urlsplit

from .. import AuthorizationCode, Bearer, Client, Context, JwtVerifier, Protection, Server
from ..basic.authorization.addresses import RESOURCE_METADATA_PATH
from ..basic.authorization.authorization_code import code_challenge
from ..basic.authorization.errors import AuthorizationError
from ..jsonrpc.messages import JSON, Object
from ..lib.http.client import HttpClient
from ..lib.http.message import Exchange, HeaderList, HttpRequest
from ..lib.http.server import start_server
from ..lib.jose.keys import make_private_key
from ..lib.jose.tokens import sign_jwt
from ..server.http import HttpApp
from .screen import Screen

SHOWN_HEADERS = ("Authorization", "WWW-Authenticate", "Location")
"""The headers that the chapter shows."""

STEPS = {
    "/mcp": (
        "1. Client to MCP server: a request without a token.",
        "The client reads `WWW-Authenticate` with a parser. This stops a text in quotes that only looks like a scope.",
    ),
    f"{RESOURCE_METADATA_PATH}/mcp": (
        "2. Client to MCP server: which authorization server issues your tokens?",
        "The client compares `resource` with its URL. This stops a server that collects tokens for another server.",
    ),
    "/.well-known/oauth-authorization-server": (
        "3. Client to authorization server: where are your endpoints?",
        """The client compares `issuer` with the URL of the step before, and requires S256. This stops a server that
        poses as another server, and a thief who uses a stolen code.""",
    ),
    "/register": (
        "4. Client to authorization server: the client registers itself, because it has no client id yet.",
        "The client keeps this id for this issuer only. This stops a hostile issuer that wants the id of another one.",
    ),
    "/authorize": (
        "5. The client opens the browser. Browser to authorization server: the user signs in and agrees.",
        """The authorization server compares the redirect URI with the registered one. This stops a link that sends the
        user's code to an attacker.""",
    ),
    "/callback": (
        "6. Browser to client, at a port of this machine: the code.",
        """The client compares `state` with step 5, and `iss` with step 3. This stops a web page that signs the user in
        as the attacker, and a hostile server that wants the code of an honest server.""",
    ),
    "/token": (
        "7. Client to authorization server: the code and the verifier, for a token.",
        """The authorization server hashes the verifier, and compares the result with step 5.
        This stops a thief of the code. The token is made for `resource`: no other server accepts it.""",
    ),
    "/jwks": (
        "The MCP server lacks the key of the token. MCP server to authorization server: which keys do you sign with?",
        "The MCP server verifies the signature of the token with a key. This stops forged tokens.",
    ),
    "/mcp with a token": (
        "8. Client to MCP server: the request again, with the token.",
        """The MCP server has checked signature, issuer, audience, time and scopes. This stops tokens that users gave to
        other servers, and expired tokens.""",
    ),
}
"""For each path, the explanation before the first request, and the explanation after its response."""


class DemoAuthorizationServer:
    """An authorization server for the demo, with only those checks that the chapter explains."""

    def __init__(self) -> None:
        self.issuer = ""
        self._key = make_private_key()
        self._redirect_uris: dict[str, str] = {}  # by client id
        self._codes: dict[str, dict[str, str]] = {}  # the authorization request of each code

    async def handle(self, exchange: Exchange) -> None:
        """Respond to one request, whose body has been read."""
        status, location, document = self.respond(exchange.request)
        headers = [("Content-Type", "application/json")]
        if location:
            headers.append(("Location", location))
        exchange.respond(status, headers, json.dumps(document).encode() if document else b"")

    def respond(self, request: HttpRequest) -> tuple[int, str, Object]:
        """Return the status, the `Location`, and the document of a response."""
        match request.path:
            case "/.well-known/oauth-authorization-server":
                endpoints: Object = {
                    f"{name}_endpoint": f"{self.issuer}/{path}"
                    for name, path in (("authorization", "authorize"), ("token", "token"), ("registration", "register"))
                }
                return 200, "", {
                    "issuer": self.issuer, **endpoints, "code_challenge_methods_supported": ["S256"],
                    "authorization_response_iss_parameter_supported": True}  # fmt: skip
            case "/jwks":
                return 200, "", {"keys": [{**self._key.public.members, "kid": "1"}]}
            case "/register":
                client = json.loads(request.body)
                id = f"client-{secrets.token_hex(4)}"
                (self._redirect_uris[id],) = client["redirect_uris"]
                return 201, "", {"client_id": id, "redirect_uris": client["redirect_uris"]}
            case "/authorize":
                parameters = dict(parse_qsl(request.query))
                if self._redirect_uris.get(parameters["client_id"]) != parameters["redirect_uri"]:
                    return 400, "", {"error": "invalid_request"}
                code = secrets.token_urlsafe(16)
                self._codes[code] = parameters
                query = urlencode({"code": code, "state": parameters["state"], "iss": self.issuer})
                return 302, f"{parameters['redirect_uri']}?{query}", {}
            case "/token":
                form = dict(parse_qsl(request.body.decode()))
                parameters = self._codes.pop(form["code"])  # a code works once
                if code_challenge(form["code_verifier"]) != parameters["code_challenge"]:
                    return 400, "", {"error": "invalid_grant"}
                token = self.token(parameters["resource"], parameters["scope"])
                return 200, "", {"access_token": token, "token_type": "Bearer", "expires_in": 300}
        return 404, "", {}

    def token(self, audience: str, scope: str) -> str:
        """Return a token for the user `ada` and one MCP server."""
        claims: dict[str, JSON] = {"iss": self.issuer, "aud": audience, "sub": "ada", "scope": scope,
                                   "exp": int(time.time()) + 300}  # fmt: skip
        return sign_jwt({"alg": "ES256", "typ": "at+jwt", "kid": "1"}, claims, self._key.sign)


class ExchangePrinter:
    """A printer of requests and responses. It explains the first request of each step, and its response."""

    def __init__(self, screen: Screen) -> None:
        self._screen, self._explained = screen, set[str]()

    def begin(self, method: str, path: str, headers: Iterable[tuple[str, str]], body: str) -> str:
        """Print a request, and return the name of its step."""
        shown = {name: value for name, value in headers if name in SHOWN_HEADERS}
        step = f"{path} with a token" if "Authorization" in shown else path
        if step not in self._explained:
            before, _ = STEPS[step]
            self._screen.say(before)
        self._screen.http("client", f"{method} {path}", shown, body)
        return step

    def end(self, step: str, status: int, headers: Iterable[tuple[str, str]], body: str) -> None:
        """Print a response."""
        shown = {name: value for name, value in headers if name in SHOWN_HEADERS}
        self._screen.http("server", f"status {status}", shown, body)
        if step not in self._explained:
            _, after = STEPS[step]
            self._screen.say(after)
            self._explained.add(step)


class PrintedExchange:
    """A stand-in for an `Exchange`, which prints the request at once, and the response when it is sent."""

    def __init__(self, exchange: Exchange, printer: ExchangePrinter) -> None:
        self.request, self.on_disconnect, self.stream = exchange.request, exchange.on_disconnect, exchange.stream
        self.read_body, self.take_body = exchange.read_body, exchange.take_body
        self.respond_later, self.forget_body = exchange.respond_later, exchange.forget_body
        self._exchange, self._printer, request = exchange, printer, exchange.request
        text = request.query if request.method == "GET" else request.body.decode()
        self._step = printer.begin(request.method, request.path, request.headers, text)

    def respond(self, status: int, headers: HeaderList, body: bytes) -> None:
        """Print and send a response."""
        self._printer.end(self._step, status, headers, body.decode())
        self._exchange.respond(status, headers, body)


async def authorization(screen: Screen) -> None:
    """Show how a client gets a token for a server, and that the server refuses a token for another server."""
    screen.chapter("Authorization", "basic/authorization")
    screen.say("Over HTTP a server can require a token. Three programs take part, and the browser of the user.")
    screen.say("Each text after a response tells which side checks the messages, and which attack this stops.")
    printer, authorization_server, server = ExchangePrinter(screen), DemoAuthorizationServer(), Server("protected")

    @server.tool()
    async def whoami(context: Context) -> str:
        """Return the user who has signed in."""
        return context.principal.subject if context.principal is not None else ""

    async def browse(url: str) -> None:
        """Act as the browser of a user who agrees."""
        async with HttpClient() as http:
            async with http.request("GET", url, redirects=0) as response:  # printed by `serve_authorization`
                location = response.headers.get("location") or ""
            # The client itself receives the code, with a listener that prints nothing.
            step = printer.begin("GET", urlsplit(location).path, [], urlsplit(location).query)
            async with http.request("GET", location) as response:
                printer.end(step, response.status, [], "")

    async def serve_authorization(exchange: Exchange) -> None:
        await exchange.read_body()
        await authorization_server.handle(PrintedExchange(exchange, printer))

    async def serve_mcp(exchange: Exchange) -> None:
        await exchange.read_body()
        rest = app.handle(PrintedExchange(exchange, printer))  # `app` is made below, when the server has an address
        if rest is not None:  # `handle` has not responded yet, for example because it must fetch a key first
            await rest

    async with await start_server(serve_authorization) as authorization_http, await start_server(serve_mcp) as mcp_http:
        issuer = authorization_server.issuer = f"http://127.0.0.1:{authorization_http.address[1]}"
        url = f"http://127.0.0.1:{mcp_http.address[1]}/mcp"
        verifier = JwtVerifier(jwks=f"{issuer}/jwks")
        app = HttpApp(server.catalog, authorization=Protection(url, [issuer], verifier, scopes={"notes:read"}))
        try:
            async with Client(url, authorization=AuthorizationCode(open_browser=browse)) as client:
                screen.say("Every request has the token, such as this call of a tool:")
                result = await client.call_tool("whoami")
                screen.claim("the tool knows the user; it never sees the token", result.text == "ada")
            screen.say("A client has a genuine token of the same issuer, but for another server:")
            foreign_token = authorization_server.token("https://other.example", "notes:read")
            try:
                async with Client(url, authorization=Bearer(foreign_token)):
                    raise AssertionError("the server accepts a token for another server")
            except AuthorizationError as error:
                screen.claim(f"AuthorizationError: {error}", True)
        finally:
            await app.close()
