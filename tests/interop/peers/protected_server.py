"""protected_server.py ISSUER|routes: a protected server, made with the installed library, on a free port.

The library is FastMCP with its JWTVerifier, or the official Python SDK 2.x with a TokenVerifier. Both accept tokens of
the authorization server ISSUER. With `routes`, the SDK's own routes for authorization are the authorization server.
Prints its URL, then one line for each request.
"""

import asyncio
import json
import secrets
import socket
import sys
import time
from typing import Any
from urllib.parse import parse_qsl

import jwt
import uvicorn
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken, AuthorizationCode, RefreshToken, construct_redirect_uri
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

try:
    from fastmcp import FastMCP
    from fastmcp.server.auth import JWTVerifier, RemoteAuthProvider
except ImportError:
    from mcp.server.mcpserver import MCPServer

LISTENER = socket.create_server(("127.0.0.1", 0))
BASE = f"http://127.0.0.1:{LISTENER.getsockname()[1]}"
SCOPES = ["notes:read"]
ended: set[str] = set()


class Verifier:
    """Accepts the JWTs of an issuer, as the SDK leaves it to its users."""

    def __init__(self, issuer: str) -> None:
        self.issuer, self.keys = issuer, jwt.PyJWKClient(f"{issuer}/jwks")

    async def verify_token(self, token: str) -> AccessToken | None:
        if token in ended:
            return None
        try:
            key = (await asyncio.to_thread(self.keys.get_signing_key_from_jwt, token)).key
            claims = jwt.decode(token, key, ["ES256"], audience=f"{BASE}/mcp", issuer=self.issuer)
        except jwt.PyJWTError:
            return None
        scopes, resource, subject = claims["scope"].split(), claims["aud"], claims["sub"]
        return AccessToken(
            token=token, client_id=claims["client_id"], scopes=scopes, expires_at=claims["exp"], resource=resource,
            subject=subject, claims=claims,
        )  # fmt: skip


class Routes:
    """The part of an authorization server that the SDK leaves to its users. It agrees to everything."""

    def __init__(self) -> None:
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.access: dict[str, AccessToken] = {}
        self.refresh: dict[str, RefreshToken] = {}

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client: OAuthClientInformationFull) -> None:
        self.clients[str(client.client_id)] = client

    async def authorize(self, client: OAuthClientInformationFull, params: Any) -> str:
        code = secrets.token_urlsafe(24)
        self.codes[code] = AuthorizationCode(
            code=code, scopes=params.scopes or SCOPES, expires_at=time.time() + 60, client_id=str(client.client_id),
            code_challenge=params.code_challenge, redirect_uri=params.redirect_uri, resource=params.resource,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly, subject="alice",
        )  # fmt: skip
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state, iss=BASE)

    async def load_authorization_code(self, client: Any, code: str) -> AuthorizationCode | None:
        return self.codes.get(code)

    async def exchange_authorization_code(self, client: Any, code: AuthorizationCode) -> OAuthToken:
        del self.codes[code.code]
        return self.issue(code)

    async def load_refresh_token(self, client: Any, token: str) -> RefreshToken | None:
        return self.refresh.get(token)

    async def exchange_refresh_token(self, client: Any, token: RefreshToken, scopes: list[str]) -> OAuthToken:
        del self.refresh[token.token]
        return self.issue(token)

    def issue(self, grant: AuthorizationCode | RefreshToken) -> OAuthToken:
        access, refresh = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
        about = {name: getattr(grant, name) for name in ("client_id", "scopes", "resource", "subject")}
        self.access[access] = AccessToken(token=access, expires_at=int(time.time()) + 300, **about)
        self.refresh[refresh] = RefreshToken(token=refresh, **about)
        return OAuthToken(access_token=access, expires_in=300, refresh_token=refresh, scope=" ".join(grant.scopes))

    async def load_access_token(self, token: str) -> AccessToken | None:
        return None if token in ended else self.access.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.access.pop(token.token, None)
        self.refresh.pop(token.token, None)


def read_notes() -> str:
    """Read the notes."""
    token = get_access_token()
    assert token is not None
    return f"notes of {token.subject or (token.claims or {})['sub']}"


def end_token() -> str:
    """Refuse the token from now on."""
    token = get_access_token()
    assert token is not None
    ended.add(token.token)
    return "ended"


def make_app(issuer: str) -> Any:
    if "fastmcp" in sys.modules:

        class UntilEnded(JWTVerifier):
            async def verify_token(self, token: str) -> Any:
                return None if token in ended else await super().verify_token(token)

        verifier = UntilEnded(
            jwks_uri=f"{issuer}/jwks", issuer=issuer, audience=f"{BASE}/mcp", algorithm="ES256", required_scopes=SCOPES
        )
        auth = RemoteAuthProvider(token_verifier=verifier, authorization_servers=[issuer], base_url=BASE)
        server: Any = FastMCP("protected", auth=auth)
    else:
        settings = AuthSettings(
            issuer_url=BASE if issuer == "routes" else issuer,
            resource_server_url=f"{BASE}/mcp",
            required_scopes=SCOPES,
            validate_token_resource=True,
            client_registration_options=ClientRegistrationOptions(enabled=True, valid_scopes=[*SCOPES, "notes:write"]),
            revocation_options=RevocationOptions(enabled=True),
        )
        by = {"auth_server_provider": Routes()} if issuer == "routes" else {"token_verifier": Verifier(issuer)}
        server = MCPServer("protected", auth=settings, **by)
    for tool in (read_notes, end_token):
        server.tool()(tool)
    return server.http_app() if "fastmcp" in sys.modules else server.streamable_http_app()


def logged(app: Any) -> Any:
    async def call(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return await app(scope, receive, send)
        body, step = bytearray(), {"method": scope["method"], "path": scope["path"]}

        async def receive_logged() -> Any:
            message = await receive()
            body.extend(message.get("body", b""))
            return message

        async def send_logged(message: Any) -> None:
            if message["type"] == "http.response.start":
                form = b"" if scope["path"] == "/mcp" else bytes(body)
                headers = {name.decode(): value.decode() for name, value in scope["headers"]}
                challenges = [value.decode() for name, value in message["headers"] if name == b"www-authenticate"]
                step.update(status=message["status"], params=dict(parse_qsl(form.decode())), challenge=challenges)
                step.update(token=headers.get("authorization", "").removeprefix("Bearer "))
                print("wire", json.dumps(step), file=sys.stderr, flush=True)
            await send(message)

        await app(scope, receive_logged, send_logged)

    return call


print(f"running on {BASE}", file=sys.stderr, flush=True)
config = uvicorn.Config(logged(make_app(sys.argv[1])), log_level="warning", timeout_graceful_shutdown=1)
asyncio.run(uvicorn.Server(config).serve(sockets=[LISTENER]))
