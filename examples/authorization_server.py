"""An authorization server to learn from. It asks its user for consent, and issues tokens for MCP servers.

New here: the third program of authorization. First read the flow in `mcp_ref/basic/authorization/__init__.py`. A client
opens /authorize in a browser, where the user signs in and agrees. The client gets a *code*, and exchanges it at /token
for an access token, which MCP servers check with the key at /jwks. `registered_clients.py` keeps the clients.

    python3 examples/authorization_server.py            serves until Ctrl-C; the user signs in with the printed password
    python3 examples/authorization_server.py --yes      serves until Ctrl-C, and agrees without a user
    python3 examples/protected_client.py --alone        prints all requests of the flow

A *grant* is the access that the user agrees to. A *ticket* is a secret that continues the flow. Stages of a grant:

    stage                 ticket                        lifetime      exchanged for
    consent               a field of the consent page   10 minutes    a code, if the user agrees
    authorization_code    the code                      1 minute      an access token and a refresh token
    refresh_token         the refresh token             8 hours       an access token and a new refresh token

A ticket is valid once. A second use ends its grant, because then two programs have the ticket, and one is a thief; the
user must sign in again. Access tokens are signed and not stored, so they cannot be revoked, but they end soon.

Use this server on your own machine only. It speaks plain http, so everybody on a network could read the tokens; any
program can register, and nothing slows down guesses of the password. When it ends, its user, key and grants are gone.

Watch it fail: it refuses to serve other machines.

    python3 examples/authorization_server.py --host 0.0.0.0

Spec:  2026-07-28 basic/authorization/index, security-considerations; OAuth 2.1 (draft 13); RFC 7009 (revocation),
       RFC 7636 (PKCE), RFC 8414 (metadata), RFC 8707 (resource), RFC 9068 (access tokens), RFC 9207 (iss)
"""

import argparse
import asyncio
import hashlib
import json
import re
import secrets
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from html import escape
from ipaddress import ip_address
from urllib.parse import urlencode, urlsplit

from mcp_ref.lib.http.message import Exchange, HeaderList, HttpLimits, HttpRequest, bracket_ipv6
from mcp_ref.lib.http.server import HttpServer, start_server
from mcp_ref.lib.jose.keys import JSON, encode_base64url, make_private_key
from mcp_ref.lib.jose.tokens import sign_jwt

# isort: off
from examples.registered_clients import (  # found because the import of `mcp_ref` adds the folder above to the path
    LOOPBACK, METHODS, PLAIN, Clients, Fetch, OAuthClient, Refused, fetch_document, parse_form, same, store,
)  # fmt: skip

Response = tuple[int, HeaderList, bytes]
SCOPES = ("notes:read", "notes:write")
LIFETIMES = {"consent": 600, "authorization_code": 60, "refresh_token": 8 * 3600, "access_token": 300}  # in seconds
TICKETS = {"authorization_code": "code", "refresh_token": "refresh_token"}  # the parameter of each grant_type
BASIC_CHALLENGE = ("WWW-Authenticate", "Basic")
PAGE = """<!doctype html><html lang=en><title>{title}</title><h1>{title}</h1>
<p>A program that calls itself <b>{name}</b> wants to use <b>{resource}</b> with the scopes <b>{scope}</b>.
<p>The response goes to <b>{host}</b>. {warning}
<form method=post action=/authorize><input type=hidden name=ticket value="{ticket}">
<p><label>Password of {user}: <input type=password name=password autofocus></label>
<p><button name=answer value=allow>Allow</button> <button name=answer value=deny>Deny</button></form>"""
WARNING = "Any program on this computer can listen there. Allow it only if you have just started the program."


@dataclass(slots=True)
class Grant:
    """The access of a client to one MCP server, in the name of a user."""

    client: OAuthClient
    subject: str
    resource: str
    scopes: frozenset[str]
    redirect_uri: str = ""
    state: str = ""
    challenge: str = ""  # the `code_challenge` of PKCE
    id: str = field(default_factory=lambda: secrets.token_urlsafe(12))
    stage: str = ""
    ticket: str = field(default="", repr=False)
    ends: float = 0.0  # of the ticket, in seconds since 1970


def response(value: JSON, status: int = 200, *more_headers: tuple[str, str]) -> Response:
    """Return an HTML page (for a str) or JSON. No cache may store it, and no other site can frame it or see its URL."""
    kind = "text/html; charset=utf-8" if isinstance(value, str) else "application/json"
    headers = [("Content-Type", kind), ("Cache-Control", "no-store"), ("Referrer-Policy", "no-referrer"),
               ("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"), *more_headers]  # fmt: skip
    return status, headers, (value if isinstance(value, str) else json.dumps(value)).encode()


class AuthorizationServer:
    """The endpoints, and the table of grants. `yes` agrees without a user, and `Clients` gets the function `fetch`."""

    def __init__(self, scopes: tuple[str, ...] = SCOPES, yes: bool = False, fetch: Fetch | None = None) -> None:
        self.issuer, self.scopes, self.yes, self.clients = "", scopes, yes, Clients(fetch)
        self.user, self.password = "alice", secrets.token_urlsafe(9)
        self.key, self.kid = make_private_key(), secrets.token_urlsafe(6)
        self.grants: dict[str, Grant] = {}
        self.routes: dict[str, Callable[[HttpRequest], Awaitable[Response]]] = {
            "GET /.well-known/oauth-authorization-server": self.metadata,
            "GET /jwks": self.jwks,
            "POST /register": self.register,
            "GET /authorize": self.authorize,
            "POST /authorize": self.consent,
            "POST /token": self.token,
            "POST /revoke": self.revoke,
        }

    async def listen(self, host: str = "127.0.0.1", port: int = 0) -> HttpServer:
        """Return a listening HTTP server. Its URL is the issuer."""
        server = await start_server(self.handle, host, port, limits=HttpLimits(connections=100, body_size=64 * 1024))
        self.issuer = f"http://{bracket_ipv6(host)}:{server.address[1]}"
        return server

    async def handle(self, exchange: Exchange) -> None:
        """Serve one HTTP request."""
        request = exchange.request
        try:
            # A web page can point its own domain name to this machine (DNS rebinding), and the Host header shows it.
            if request.headers.get("host") != urlsplit(self.issuer).netloc:
                raise Refused("invalid_request", f"the Host header must name the host of {self.issuer}")
            await exchange.read_body()
            route = self.routes.get(f"{request.method} {request.path}")
            result = await route(request) if route else response({"error": "not_found"}, 404)
        except Refused as refusal:
            error: JSON = {"error": refusal.code, "error_description": str(refusal)}
            result = response(error, 401, BASIC_CHALLENGE) if refusal.code == "invalid_client" else response(error, 400)
            if request.path == "/authorize":
                result = response(f"<!doctype html><title>Refused</title>{escape(str(refusal))}", 400)
        exchange.respond(*result)

    async def metadata(self, request: HttpRequest) -> Response:
        """Send the metadata. A client does not continue if `issuer` differs, or without S256. [RFC 8414 2]"""
        paths = {"authorization_endpoint": "/authorize", "token_endpoint": "/token", "jwks_uri": "/jwks",
                 "registration_endpoint": "/register", "revocation_endpoint": "/revoke"}  # fmt: skip
        return response({
            "issuer": self.issuer, **{name: self.issuer + path for name, path in paths.items()},
            "scopes_supported": [*self.scopes],
            "response_types_supported": ["code"], "grant_types_supported": [*TICKETS, "client_credentials"],
            "token_endpoint_auth_methods_supported": [*METHODS],
            "token_endpoint_auth_signing_alg_values_supported": ["ES256"],
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
            "client_id_metadata_document_supported": self.clients.fetch is not None,
        })  # fmt: skip

    async def jwks(self, request: HttpRequest) -> Response:
        """Send the public key."""
        return response({"keys": [{**self.key.public.members, "kid": self.kid, "alg": "ES256", "use": "sig"}]})

    async def register(self, request: HttpRequest) -> Response:
        """Register a client. The response has the terms, which can differ from the request. [RFC 7591 3.2.1]"""
        return response(self.clients.register(request.body).terms(), 201)

    async def authorize(self, request: HttpRequest) -> Response:
        """Check the request that a client sends through the browser, and show the consent page."""
        form = parse_form(request.query)
        client, uri = await self.clients.find(form.get("client_id", "")), form.get("redirect_uri", "")
        # [2026-07-28 basic/authorization/security-considerations#open-redirection] else the code goes to an attacker
        if not client.accepts(uri):
            raise Refused("invalid_request", "the redirect_uri is not registered for this client")
        grant = Grant(client, self.user, "", frozenset(), uri, form.get("state", ""), form.get("code_challenge", ""))
        try:
            if form.get("response_type") != "code":
                raise Refused("unsupported_response_type", "the response_type must be code")
            # PKCE: the client keeps a secret, the verifier, and sends its hash. Without the secret, a code is useless.
            if form.get("code_challenge_method") != "S256" or not re.fullmatch("[A-Za-z0-9_-]{43}", grant.challenge):
                raise Refused("invalid_request", "PKCE is required: a code_challenge with the method S256")
            grant.resource, grant.scopes = self.read_rights(form)
        except Refused as refusal:
            if not LOOPBACK.match(uri):  # else a link to this server could lead users to any site
                raise
            return self.redirect(grant, error=refusal.code, error_description=str(refusal))
        return self.redirect(grant) if self.yes else self.consent_page(grant)

    def read_rights(self, form: dict[str, str]) -> tuple[str, frozenset[str]]:
        """Return the MCP server and the scopes that a client asks for. The token is for this MCP server only."""
        resource, scopes = form.get("resource", ""), frozenset(form.get("scope", "").split())
        if not PLAIN.fullmatch(resource) or not (resource.startswith("https://") or LOOPBACK.match(resource)):
            raise Refused("invalid_target", "`resource` must be the URL of an MCP server: https, or http on loopback")
        if not scopes.issubset(self.scopes):
            raise Refused("invalid_scope", f"the known scopes are: {' '.join(self.scopes)}")
        return resource, scopes

    def consent_page(self, grant: Grant) -> Response:
        """Return the page that asks the user. A client chooses its own name, so the page shows its host too."""
        # [2026-07-28 basic/authorization/security-considerations#localhost-redirect-uri-risks] host and warning
        name = grant.client.name + (f" ({grant.client.id})" if grant.client.id in self.clients.documents else "")
        texts = {"title": "Allow access?", "name": name, "user": self.user, "ticket": self.new_ticket(grant, "consent"),
                 "resource": grant.resource, "scope": " ".join(sorted(grant.scopes)) or "-",
                 "host": urlsplit(grant.redirect_uri).netloc,
                 "warning": WARNING if all(map(LOOPBACK.match, grant.client.redirect_uris)) else ""}  # fmt: skip
        return response(PAGE.format_map({name: escape(text) for name, text in texts.items()}))

    async def consent(self, request: HttpRequest) -> Response:
        """Receive the form of the consent page. Another site cannot send it, because it cannot read the ticket."""
        form = parse_form(request.body.decode("latin-1"))
        grant = self.take("consent", form.get("ticket", ""))
        if form.get("answer") != "allow":
            return self.redirect(grant, error="access_denied")
        if not same(form.get("password", ""), self.password):
            raise Refused("access_denied", "The password is wrong. Go back, and reload the page to try again.")
        return self.redirect(grant)

    def redirect(self, grant: Grant, **error: str) -> Response:
        """Send the browser back to the client, with an error or a code. `iss` names this server. [RFC 9207 2]"""
        result = error or {"code": self.new_ticket(grant, "authorization_code")}
        query = urlencode(result | ({"state": grant.state} if grant.state else {}) | {"iss": self.issuer})
        uri = grant.redirect_uri + ("&" if "?" in grant.redirect_uri else "?") + query
        return response("", 303, ("Location", uri))

    def new_ticket(self, grant: Grant, stage: str) -> str:
        """Move a grant to a stage, and return its only valid ticket."""
        grant.stage, grant.ticket, grant.ends = stage, secrets.token_urlsafe(32), time.time() + LIFETIMES[stage]
        store(self.grants, grant.id, grant)
        return f"{grant.id}.{grant.ticket}"

    def take(self, stage: str, text: str, owner: OAuthClient | None = None) -> Grant:
        """Return the grant of a ticket, and delete the grant. Only `new_ticket` stores it again."""
        id, _, ticket = text.partition(".")
        grant = self.grants.pop(id, None)
        if grant is None or grant.stage != stage or not same(ticket, grant.ticket) or time.time() >= grant.ends:
            raise Refused("invalid_grant", f"the ticket ({stage}) is unknown, used or too old: sign in again")
        if owner is not None and owner.id != grant.client.id:
            raise Refused("invalid_grant", "the ticket belongs to another client")
        return grant

    async def token(self, request: HttpRequest) -> Response:
        """Exchange a ticket for tokens. A client of the operator gets an access token for itself, without a ticket."""
        form = parse_form(request.body.decode("latin-1"))
        client = await self.clients.authenticate(request.headers.get("authorization"), form, self.issuer)
        kind = form.get("grant_type", "")
        if kind not in client.grant_types:
            code = "unauthorized_client" if kind in (*TICKETS, "client_credentials") else "unsupported_grant_type"
            raise Refused(code, "this client must not use this grant_type")
        if kind == "client_credentials":
            return self.send_tokens(Grant(client, client.id, *self.read_rights(form)), form)
        grant = self.take(kind, form.get(TICKETS[kind], ""), client)
        if kind == "authorization_code":
            hashed = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
            if not same(encode_base64url(hashed), grant.challenge):
                raise Refused("invalid_grant", "the code_verifier does not fit the code_challenge")
            if form.get("redirect_uri") != grant.redirect_uri:
                raise Refused("invalid_grant", "the redirect_uri differs from the one in the authorization request")
        return self.send_tokens(grant, form)

    def send_tokens(self, grant: Grant, form: dict[str, str]) -> Response:
        """Send an access token for the MCP server `aud`, with scopes of the grant, and perhaps a refresh token."""
        scopes, age, now = frozenset(form.get("scope", "").split()), LIFETIMES["access_token"], int(time.time())
        if form.get("resource", grant.resource) != grant.resource:
            raise Refused("invalid_target", "the user has agreed to another resource")
        if not scopes <= grant.scopes:
            raise Refused("invalid_scope", "the user has not agreed to these scopes")
        scope = " ".join(sorted(scopes or grant.scopes))
        claims: dict[str, JSON] = {
            "iss": self.issuer, "sub": grant.subject, "aud": grant.resource, "client_id": grant.client.id,
            "scope": scope, "iat": now, "exp": now + age, "jti": secrets.token_urlsafe(12)}  # fmt: skip
        token = sign_jwt({"typ": "at+jwt", "alg": "ES256", "kid": self.kid}, claims, self.key.sign)
        result: dict[str, JSON] = {"access_token": token, "token_type": "Bearer", "expires_in": age, "scope": scope}
        # [2026-07-28 basic/authorization/security-considerations#token-theft] MUST rotate refresh tokens
        if grant.stage and "refresh_token" in grant.client.grant_types:
            result["refresh_token"] = self.new_ticket(grant, "refresh_token")
        return response(result)

    async def revoke(self, request: HttpRequest) -> Response:
        """End the grant of a refresh token. An unknown token is not an error. [RFC 7009 2.2]"""
        form = parse_form(request.body.decode("latin-1"))
        client = await self.clients.authenticate(request.headers.get("authorization"), form, self.issuer)
        if form.get("token", "").count(".") == 2:
            raise Refused("unsupported_token_type", "an access token (a JWT) cannot be revoked, but it ends soon")
        with suppress(Refused):
            self.take("refresh_token", form.get("token", ""), client)
        return response({})


async def main() -> None:
    """Serve until Ctrl-C."""
    parser = argparse.ArgumentParser(description="An authorization server for programs on this machine.")
    parser.add_argument("--host", type=ip_address, default="127.0.0.1", help="a loopback address")
    parser.add_argument("--port", type=int, default=9000)
    parser.add_argument("--yes", action="store_true", help="agree without a user")
    parser.add_argument("--cimd", action="store_true", help="accept URLs of client metadata documents as client ids")
    options = parser.parse_args()
    if not options.host.is_loopback:
        parser.error("only loopback addresses are allowed: the server speaks plain http, and lets any program register")
    server = AuthorizationServer(yes=options.yes, fetch=fetch_document if options.cimd else None)
    async with await server.listen(str(options.host), options.port):
        print(f"Issuer {server.issuer}, user {server.user}, password {server.password}", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except (KeyboardInterrupt, OSError, OverflowError) as error:
        raise SystemExit(str(error) or None) from None  # the port is not free; or Ctrl-C, without a text
