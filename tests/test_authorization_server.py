"""The authorization server of the examples, over HTTP."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from urllib.parse import parse_qsl, quote_plus, urlencode, urlsplit

import pytest

from examples.authorization_server import AuthorizationServer
from examples.protected import notes, protect
from examples.protected import server as protected
from examples.registered_clients import MAX_DOCUMENT, MAX_ENTRIES, Fetch, OAuthClient, fetch_document
from mcp_ref import AuthorizationCode, Client, Principal, Protection
from mcp_ref.basic.authorization.authorization_code import begin_sign_in, code_challenge, read_response
from mcp_ref.basic.authorization.metadata import parse_server_metadata
from mcp_ref.jsonrpc.messages import JSON, Object
from mcp_ref.lib.http.client import HttpClient
from mcp_ref.lib.http.message import Exchange
from mcp_ref.lib.http.response import HttpError
from mcp_ref.lib.http.server import start_server
from mcp_ref.lib.jose.keys import PrivateKey, make_private_key, parse_key_set, parse_object
from mcp_ref.lib.jose.tokens import check_claims, parse_jws, sign_jwt, verify
from mcp_ref.server.http import HttpApp

REDIRECT = "http://127.0.0.1:4711/callback"
RESOURCE = "http://127.0.0.1:8000/mcp"
VERIFIER = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
DOCUMENT = "https://app.example/client.json"


@dataclass
class Reply:
    """A response of the server."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Object:
        value = json.loads(self.body)
        assert isinstance(value, dict)
        return value

    @property
    def error(self) -> JSON:
        """The OAuth error code."""
        assert self.status in (400, 401), (self.status, self.body)
        return self.json["error"]

    @property
    def query(self) -> dict[str, str]:
        """The parameters that a redirect to the client has."""
        assert self.status == 303, (self.status, self.body)
        pairs = parse_qsl(urlsplit(self.headers["location"]).query, keep_blank_values=True)
        assert len(dict(pairs)) == len(pairs)
        return dict(pairs)


@dataclass
class Talk:
    """A client, and the browser of its user."""

    server: AuthorizationServer
    http: HttpClient
    client_id: str = ""
    log: list[str] = field(default_factory=list)

    async def send(self, method: str, path: str, body: str = "", headers: Mapping[str, str] | None = None) -> Reply:
        url = self.server.issuer + path
        async with self.http.request(method, url, headers, body.encode(), redirects=0) as found:
            return Reply(found.status, {k.lower(): v for k, v in found.headers}, await found.read(100_000))

    async def post(self, path: str, authorization: str | None = None, /, **form: str) -> Reply:
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        return await self.send("POST", path, urlencode(form), headers | _authorization(authorization))

    async def register(self, **metadata: JSON) -> Reply:
        """Register a public client, with changes."""
        default: Object = {
            "client_name": "Notes",
            "redirect_uris": [REDIRECT],
            "grant_types": ["authorization_code", "refresh_token"],
            "token_endpoint_auth_method": "none",
            "application_type": "native",
        }
        wanted = {name: value for name, value in (default | metadata).items() if value is not None}
        reply = await self.send("POST", "/register", json.dumps(wanted))
        if reply.status == 201:
            self.client_id = str(reply.json["client_id"])
        return reply

    async def authorize(self, **changes: str | None) -> Reply:
        """Open the authorization URL in the browser. None leaves a parameter out."""
        parameters: dict[str, str | None] = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": REDIRECT,
            "state": "s1",
            "code_challenge": code_challenge(VERIFIER),
            "code_challenge_method": "S256",
            "resource": RESOURCE,
            "scope": "notes:read",
        }
        query = {name: value for name, value in (parameters | changes).items() if value is not None}
        return await self.send("GET", f"/authorize?{urlencode(query)}")

    async def decide(self, page: Reply, answer: str = "allow", password: str | None = None) -> Reply:
        """Send the form of the consent page."""
        assert page.status == 200, page.body
        ticket = re.search(r'name=ticket value="([^"]+)"', page.body.decode())
        assert ticket
        password = self.server.password if password is None else password
        return await self.post("/authorize", ticket=ticket[1], answer=answer, password=password)

    async def code(self, **changes: str | None) -> str:
        return (await self.decide(await self.authorize(**changes))).query["code"]

    async def exchange(self, code: str, authorization: str | None = None, /, **changes: str) -> Reply:
        form = {"grant_type": "authorization_code", "code": code, "code_verifier": VERIFIER, "redirect_uri": REDIRECT}
        form |= {"resource": RESOURCE} | ({} if authorization else {"client_id": self.client_id})
        return await self.post("/token", authorization, **(form | changes))

    async def refresh(self, token: JSON, **changes: str) -> Reply:
        form = {"grant_type": "refresh_token", "refresh_token": str(token), "client_id": self.client_id}
        return await self.post("/token", **(form | changes))

    async def claims(self, token: JSON, audience: str = RESOURCE) -> Object:
        """Check an access token as an MCP server does."""
        keys = parse_key_set((await self.send("GET", "/jwks")).body)
        jws = parse_jws(str(token), types={"at+jwt"})
        claims = parse_object(jws.payload)
        check_claims(claims, {self.server.issuer}, {audience}, time.time())
        verify(jws, keys)
        return claims


def _authorization(value: str | None) -> dict[str, str]:
    return {} if value is None else {"Authorization": value}


def basic(id: str, secret: str) -> str:
    """Return the header of client_secret_basic. [RFC 6749 2.3.1]"""
    return "Basic " + base64.b64encode(f"{quote_plus(id)}:{quote_plus(secret)}".encode()).decode()


@asynccontextmanager
async def served(yes: bool = False, fetch: Fetch | None = None, register: bool = True) -> AsyncIterator[Talk]:
    """Serve on a free port, and register a client."""
    server = AuthorizationServer(yes=yes, fetch=fetch)
    async with await server.listen(), HttpClient() as http:
        talk = Talk(server, http)
        if register:
            assert (await talk.register()).status == 201
        yield talk


# ---------------------------------------------------------------------------------------------------- the metadata


@pytest.mark.spec(
    "2026-07-28/basic/authorization/index#overview-5",
    "2026-07-28/basic/authorization/index#authorization-response-validation-3",
    "2025-06-18..2025-11-25/basic/authorization#overview-5",
    "2025-03-26/basic/authorization#overview-3",
    "2025-03-26/basic/authorization#server-metadata-discovery-2",
)
async def test_metadata_advertise_the_issuer_pkce_and_iss() -> None:
    async with served() as talk:
        reply = await talk.send("GET", "/.well-known/oauth-authorization-server")
        assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
        issuer = talk.server.issuer
        metadata = parse_server_metadata(reply.body, issuer, issuer)
        assert "S256" in metadata.code_challenge_methods_supported
        assert metadata.authorization_response_iss_parameter_supported
        assert metadata.registration_endpoint == f"{issuer}/register"
        assert not metadata.client_id_metadata_document_supported


async def test_unknown_path_or_method_is_404_and_another_host_is_400() -> None:
    async with served() as talk:
        assert (await talk.send("GET", "/.well-known/openid-configuration")).status == 404
        assert (await talk.send("GET", "/token")).status == 404
        port = urlsplit(talk.server.issuer).port
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET /jwks HTTP/1.1\r\nHost: evil.example:{port}\r\n\r\n".encode())
        assert (await reader.readline()).startswith(b"HTTP/1.1 400")
        writer.close()


# ------------------------------------------------------------------------------------------------ the whole flow


@pytest.mark.spec(
    "2026-07-28/basic/authorization/index#overview-1",
    "2026-07-28/basic/authorization/index#authorization-response-validation-2",
    "2025-03-26..2025-11-25/basic/authorization#overview-1",
    "2025-03-26/basic/authorization#oauth-grant-types-1",
)
async def test_authorization_code_flow_ends_with_a_token_for_one_mcp_server() -> None:
    async with served() as talk:
        issuer = talk.server.issuer
        described = await talk.send("GET", "/.well-known/oauth-authorization-server")
        metadata = parse_server_metadata(described.body, issuer, issuer)
        sign_in = begin_sign_in(metadata, talk.client_id, REDIRECT, RESOURCE, ["notes:read"])
        page = await talk.send("GET", sign_in.url.removeprefix(issuer))
        back = await talk.decide(page)
        code = read_response(sign_in, urlsplit(back.headers["location"]).query)
        reply = await talk.exchange(code, code_verifier=sign_in.verifier)
        assert (reply.status, reply.headers["cache-control"]) == (200, "no-store")
        assert reply.json["token_type"] == "Bearer" and reply.json["scope"] == "notes:read"
        claims = await talk.claims(reply.json["access_token"])
        assert (claims["sub"], claims["client_id"], claims["scope"]) == ("alice", talk.client_id, "notes:read")


@pytest.mark.spec(
    "2026-07-28/basic/authorization/security-considerations#token-theft-2",
    "2025-06-18..2025-11-25/basic/authorization#token-theft-2",
    "2025-03-26/basic/authorization#implementation-requirements-4",
)
async def test_access_tokens_are_short_lived_and_differ() -> None:
    async with served() as talk:
        tokens = [(await talk.exchange(await talk.code())).json["access_token"] for _ in range(2)]
        first, second = [await talk.claims(token) for token in tokens]
        assert isinstance(first["exp"], int) and first["exp"] <= time.time() + 300
        assert first["jti"] != second["jti"]


async def test_option_yes_grants_each_request_without_the_consent_page() -> None:
    async with served(yes=True) as talk:
        back = await talk.authorize()
        assert back.query["state"] == "s1" and back.query["iss"] == talk.server.issuer
        assert (await talk.exchange(back.query["code"])).status == 200


# ------------------------------------------------------------------------------------------- the authorization endpoint


@pytest.mark.spec(
    "2026-07-28/basic/authorization/security-considerations#open-redirection-2",
    "2025-06-18..2025-11-25/basic/authorization#open-redirection-2",
    "2025-03-26/basic/authorization#security-considerations-5",
)
@pytest.mark.parametrize(
    "uri",
    [
        "http://127.0.0.1:4711/callback/", "http://127.0.0.1:4711/callback?x=1", "http://127.0.0.1:4711/Callback",
        "http://127.0.0.1:4711@evil.example/callback", "http://127.0.0.1.evil.example:4711/callback",
        "http://localhost:4711/callback", "https://127.0.0.1:4711/callback", "https://evil.example/callback", "",
        None,
    ],
)  # fmt: skip
async def test_unregistered_redirect_uri_gets_a_page_and_no_redirect(uri: str | None) -> None:
    async with served(yes=True) as talk:
        reply = await talk.authorize(redirect_uri=uri)
        assert reply.status == 400 and "location" not in reply.headers


async def test_loopback_redirect_uri_may_have_any_port_but_the_token_request_must_repeat_it() -> None:
    async with served() as talk:
        uri = "http://127.0.0.1:50000/callback"
        code = await talk.code(redirect_uri=uri)
        assert (await talk.exchange(code, redirect_uri=uri)).status == 200
        assert (await talk.exchange(await talk.code(redirect_uri=uri), redirect_uri=REDIRECT)).error == "invalid_grant"


async def test_unknown_client_gets_a_page_and_no_redirect() -> None:
    async with served(yes=True) as talk:
        reply = await talk.authorize(client_id="unknown")
        assert reply.status == 400 and b"client_id" in reply.body


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"code_challenge": None}, "invalid_request"),
        ({"code_challenge_method": None}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"code_challenge": "short"}, "invalid_request"),
        ({"resource": None}, "invalid_target"),
        ({"resource": "notes"}, "invalid_target"),
        ({"resource": RESOURCE + "#x"}, "invalid_target"),
        ({"resource": "http://notes.example/mcp"}, "invalid_target"),
        ({"scope": "notes:read root"}, "invalid_scope"),
    ],
)
@pytest.mark.spec("2026-07-28/basic/authorization/index#authorization-response-validation-2")
async def test_invalid_authorization_request_is_redirected_with_error_state_and_iss(
    changes: dict[str, str | None], error: str
) -> None:
    async with served(yes=True) as talk:
        query = (await talk.authorize(**changes)).query
        assert (query["error"], query["state"], query["iss"]) == (error, "s1", talk.server.issuer)
        assert "code" not in query and not talk.server.grants


@pytest.mark.spec(
    "2026-07-28/basic/authorization/security-considerations#open-redirection-4,5",
    "2025-06-18..2025-11-25/basic/authorization#open-redirection-4,5",
)
async def test_invalid_authorization_request_of_a_web_client_is_not_redirected() -> None:
    async with served() as talk:
        await talk.register(redirect_uris=["https://anybody.example/callback"], application_type="web")
        reply = await talk.authorize(redirect_uri="https://anybody.example/callback", scope="root")
        assert reply.status == 400 and "location" not in reply.headers
        page = await talk.authorize(redirect_uri="https://anybody.example/callback")
        assert (await talk.decide(page, "deny")).query["error"] == "access_denied"


async def test_duplicate_parameter_is_refused() -> None:
    async with served(yes=True) as talk:
        query = urlencode({"client_id": talk.client_id, "redirect_uri": REDIRECT})
        assert (await talk.send("GET", f"/authorize?{query}&redirect_uri=https%3A%2F%2Fevil.example")).status == 400
        assert (await talk.send("POST", "/token", "grant_type=a&grant_type=b")).error == "invalid_request"


# ------------------------------------------------------------------------------------------------- the consent page


@pytest.mark.spec(
    "2026-07-28/basic/authorization/security-considerations#localhost-redirect-uri-risks-1,2",
    "2025-11-25/basic/authorization#localhost-redirect-uri-risks-1,2",
)
async def test_consent_page_shows_host_resource_and_scopes_and_warns_of_loopback() -> None:
    async with served() as talk:
        page = await talk.authorize()
        for text in ("<b>127.0.0.1:4711</b>", RESOURCE, "notes:read", "Any program on this computer"):
            assert text in page.body.decode()
        assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
        assert (page.headers["cache-control"], page.headers["referrer-policy"]) == ("no-store", "no-referrer")
        await talk.register(redirect_uris=["https://app.example/callback"])
        page = await talk.authorize(redirect_uri="https://app.example/callback")
        assert b"<b>app.example</b>" in page.body and b"Any program" not in page.body


async def test_consent_page_escapes_the_texts_of_a_client() -> None:
    async with served() as talk:
        await talk.register(client_name='<script>"&')
        assert b"&lt;script&gt;&quot;&amp;" in (await talk.authorize()).body


async def test_consent_needs_the_password_once_and_a_refusal_is_access_denied() -> None:
    async with served() as talk:
        page = await talk.authorize()
        assert (await talk.decide(page, password="guess")).status == 400
        assert (await talk.decide(page)).status == 400  # the ticket is used up
        page = await talk.authorize()
        assert (await talk.decide(page, "deny")).query == {
            "error": "access_denied", "state": "s1", "iss": talk.server.issuer
        }  # fmt: skip
        assert (await talk.decide(page)).status == 400


# ------------------------------------------------------------------------------------------------- codes and tokens


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"code_verifier": "x" * 43}, "invalid_grant"),
        ({"code_verifier": ""}, "invalid_grant"),
        ({"redirect_uri": "http://127.0.0.1:4711/other"}, "invalid_grant"),
        ({"resource": "http://127.0.0.1:8000/other"}, "invalid_target"),
        ({"scope": "notes:read notes:write"}, "invalid_scope"),
        ({"grant_type": "refresh_token"}, "invalid_grant"),
        ({"grant_type": "password"}, "unsupported_grant_type"),
        ({"grant_type": "client_credentials"}, "unauthorized_client"),
        ({"client_id": "unknown"}, "invalid_client"),
    ],
)
async def test_authorization_code_is_exchanged_only_with_the_values_of_its_request(
    changes: dict[str, str], error: str
) -> None:
    async with served(yes=True) as talk:
        assert (await talk.exchange((await talk.authorize()).query["code"], **changes)).error == error


async def test_authorization_code_of_another_client_is_refused_and_becomes_invalid() -> None:
    async with served(yes=True) as talk:
        code, first = (await talk.authorize()).query["code"], talk.client_id
        await talk.register()
        assert (await talk.exchange(code)).error == "invalid_grant"
        assert (await talk.exchange(code, client_id=first)).error == "invalid_grant"


async def test_authorization_code_that_is_used_twice_revokes_the_refresh_token() -> None:
    async with served(yes=True) as talk:
        code = (await talk.authorize()).query["code"]
        token = (await talk.exchange(code)).json["refresh_token"]
        assert (await talk.exchange(code)).error == "invalid_grant"
        assert (await talk.refresh(token)).error == "invalid_grant"


@pytest.mark.parametrize(("stage", "seconds"), [("authorization_code", 60), ("refresh_token", 8 * 3600)])
async def test_expired_code_or_refresh_token_is_refused(stage: str, seconds: int) -> None:
    async with served(yes=True) as talk:
        code = (await talk.authorize()).query["code"]
        token = "" if stage == "authorization_code" else (await talk.exchange(code)).json["refresh_token"]
        [grant] = talk.server.grants.values()
        assert time.time() + seconds - 5 < grant.ends <= time.time() + seconds
        grant.ends = time.time()
        assert (await talk.refresh(token) if token else await talk.exchange(code)).error == "invalid_grant"


@pytest.mark.spec(
    "2026-07-28/basic/authorization/security-considerations#token-theft-3",
    "2025-06-18..2025-11-25/basic/authorization#token-theft-3",
    "2025-03-26/basic/authorization#security-considerations-3",
    "2025-03-26/basic/authorization#implementation-requirements-3",
)
async def test_refresh_token_rotates_and_its_reuse_ends_the_whole_family() -> None:
    async with served(yes=True) as talk:
        first = (await talk.exchange((await talk.authorize()).query["code"])).json["refresh_token"]
        reply = await talk.refresh(first, resource=RESOURCE)
        second = reply.json["refresh_token"]
        assert second != first and (await talk.claims(reply.json["access_token"]))["scope"] == "notes:read"
        assert (await talk.refresh(first)).error == "invalid_grant"
        assert (await talk.refresh(second)).error == "invalid_grant"


async def test_refresh_narrows_scopes_and_never_widens_them_or_changes_the_resource() -> None:
    async with served(yes=True) as talk:
        both = "notes:read notes:write"
        tokens = (await talk.exchange((await talk.authorize(scope=both)).query["code"])).json
        reply = await talk.refresh(tokens["refresh_token"], scope="notes:read")
        assert reply.json["scope"] == "notes:read"
        assert (await talk.refresh(reply.json["refresh_token"])).json["scope"] == both
        for changes in ({"scope": "notes:write"}, {"resource": "https://other.example/mcp"}):
            tokens = (await talk.exchange((await talk.authorize()).query["code"])).json
            assert (await talk.refresh(tokens["refresh_token"], **changes)).status == 400


async def test_client_that_registers_without_refresh_tokens_gets_none() -> None:
    async with served(yes=True) as talk:
        await talk.register(grant_types=None)
        assert "refresh_token" not in (await talk.exchange((await talk.authorize()).query["code"])).json


async def test_revocation_ends_a_refresh_token_of_the_same_client() -> None:
    async with served(yes=True) as talk:
        tokens = (await talk.exchange((await talk.authorize()).query["code"])).json
        token = str(tokens["refresh_token"])
        reply = await talk.post("/revoke", client_id=talk.client_id, token=str(tokens["access_token"]))
        assert reply.error == "unsupported_token_type"
        assert (await talk.post("/revoke", client_id="unknown", token=token)).error == "invalid_client"
        for _ in range(2):
            assert (await talk.post("/revoke", client_id=talk.client_id, token=token)).status == 200
        assert (await talk.refresh(token)).error == "invalid_grant"


# ---------------------------------------------------------------------------------------------------- registration

BAD_REDIRECT_URIS: list[JSON] = [
    "http://app.example/callback", "http://127.0.0.1.evil.example/", "javascript:alert(1)",
    "https://app.example/callback#x", "https://user@app.example/callback", "https://app.example/\r\nX: y", 1,
]  # fmt: skip


@pytest.mark.parametrize(
    ("metadata", "error"),
    [
        *(({"redirect_uris": uris}, "invalid_redirect_uri") for uris in (None, [], REDIRECT, [REDIRECT] * 11)),
        *(({"redirect_uris": [uri]}, "invalid_redirect_uri") for uri in BAD_REDIRECT_URIS),
        ({"application_type": "web"}, "invalid_redirect_uri"),
        ({"client_name": 1}, "invalid_client_metadata"),
        ({"grant_types": "authorization_code"}, "invalid_client_metadata"),
        ({"token_endpoint_auth_method": "tls_client_auth"}, "invalid_client_metadata"),
        ({"token_endpoint_auth_method": "private_key_jwt"}, "invalid_client_metadata"),
    ],
)
async def test_unusable_client_metadata_are_refused(metadata: Object, error: str) -> None:
    async with served() as talk:
        assert (await talk.register(**metadata)).error == error


async def test_registration_that_is_not_a_json_object_is_refused() -> None:
    async with served() as talk:
        for body in ("", "[]", '{"a": 1, "a": 2}', "[" * 2000):
            assert (await talk.send("POST", "/register", body)).error == "invalid_client_metadata"


async def test_tables_are_limited_and_drop_the_oldest_entry_first() -> None:
    async with served(yes=True) as talk:
        first = talk.client_id
        for number in range(MAX_ENTRIES):
            talk.server.clients.register(json.dumps({"redirect_uris": [REDIRECT], "client_name": str(number)}).encode())
        assert len(talk.server.clients.registered) == MAX_ENTRIES and first not in talk.server.clients.registered
        await talk.register()
        for _ in range(3):
            await talk.authorize()
        assert len(talk.server.grants) == 3


async def test_registration_with_a_large_body_is_refused() -> None:
    async with served() as talk:
        assert (await talk.send("POST", "/register", " " * 70_000)).status == 413


# ------------------------------------------------------------------------------------- proof of a client's identity


@pytest.mark.spec("2026-07-28/basic/authorization/index#overview-1", "2025-03-26/basic/authorization#overview-1")
@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post", None])
async def test_confidential_client_authenticates_only_by_its_registered_method(method: str | None) -> None:
    async with served(yes=True) as talk:
        terms = (await talk.register(token_endpoint_auth_method=method)).json
        assert terms["token_endpoint_auth_method"] == (method or "client_secret_basic")  # [RFC 7591 2]
        assert terms["client_secret_expires_at"] == 0
        id, secret = talk.client_id, str(terms["client_secret"])
        attempts = {
            "client_secret_basic": (basic(id, secret), {}),
            "client_secret_post": (None, {"client_secret": secret}),
            "a wrong secret": (basic(id, "guess"), {}),
            "a wrong secret in the form": (None, {"client_secret": "guess"}),
            "nothing": (None, {}),
            "no base64": ("Basic !", {}),
            "an assertion": (None, {"client_assertion": "a.b.c"}),
        }
        for name, (header, form) in attempts.items():
            reply = await talk.exchange((await talk.authorize()).query["code"], header, **form)
            if name == (method or "client_secret_basic"):
                assert reply.status == 200
            else:
                assert (reply.status, reply.error) == (401, "invalid_client"), name
                assert reply.headers["www-authenticate"] == "Basic"


async def test_public_client_with_a_secret_is_refused() -> None:
    async with served(yes=True) as talk:
        code = (await talk.authorize()).query["code"]
        assert (await talk.exchange(code, client_secret="x")).error == "invalid_client"
        assert (await talk.exchange(code, basic(talk.client_id, ""))).error == "invalid_client"


def add_service(talk: Talk, key: PrivateKey | None = None) -> dict[str, str]:
    """Add a client of the operator, with a secret or a key. Return the form for its token."""
    method = "client_secret_post" if key is None else "private_key_jwt"
    keys = () if key is None else (key.public,)
    talk.server.clients.add(OAuthClient("job", "A nightly job", method=method, secret="s", keys=keys))
    return {"grant_type": "client_credentials", "resource": RESOURCE, "scope": "notes:read"}


async def test_client_credentials_give_a_token_for_the_client_itself_without_refresh_token() -> None:
    async with served() as talk:
        form = add_service(talk)
        reply = await talk.post("/token", client_id="job", client_secret="s", **form)
        assert reply.status == 200 and "refresh_token" not in reply.json
        assert (await talk.claims(reply.json["access_token"]))["sub"] == "job"
        for changes, error in (({"resource": ""}, "invalid_target"), ({"scope": "root"}, "invalid_scope")):
            reply = await talk.post("/token", client_id="job", client_secret="s", **(form | changes))
            assert reply.error == error


async def test_registration_for_client_credentials_is_not_granted() -> None:
    async with served() as talk:
        terms = (await talk.register(grant_types=["client_credentials"], token_endpoint_auth_method=None)).json
        assert terms["grant_types"] == []
        header = basic(talk.client_id, str(terms["client_secret"]))
        reply = await talk.post("/token", header, grant_type="client_credentials", resource=RESOURCE)
        assert reply.error == "unauthorized_client"


async def test_private_key_jwt_is_for_this_server_and_valid_once() -> None:
    key, other = make_private_key(), make_private_key()
    async with served() as talk:
        form = add_service(talk, key)

        async def attempt(changes: Object, signer: PrivateKey = key, kind: str = "JWT") -> Reply:
            now = int(time.time())
            default: Object = {"iss": "job", "sub": "job", "aud": talk.server.issuer, "exp": now + 60, "jti": "1"}
            claims: Object = {name: value for name, value in (default | changes).items() if value is not None}
            assertion = sign_jwt({"alg": "ES256", "typ": kind}, claims, signer.sign)
            kind_of = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
            return await talk.post("/token", **form, client_assertion=assertion, client_assertion_type=kind_of)

        wrong: list[Object] = [
            {"aud": talk.server.issuer + "/token"},
            {"iss": "somebody"},
            {"sub": "somebody"},
            {"exp": int(time.time()) - 60},
            {"exp": None},
            {"jti": None},
        ]
        for changes in wrong:
            assert (await attempt(changes)).error == "invalid_client", changes
        assert (await attempt({}, other)).error == "invalid_client"
        assert (await attempt({}, kind="at+jwt")).error == "invalid_client"
        assert (await attempt({})).status == 200
        assert (await attempt({})).error == "invalid_client"
        assert (await attempt({"jti": "2"})).status == 200


# ------------------------------------------------------------------------------------- client id metadata documents


@dataclass
class Site:
    """The site of a client, without sockets: it counts the requests."""

    document: Object
    seconds: float = 60
    fetched: list[str] = field(default_factory=list)

    async def fetch(self, url: str) -> tuple[bytes, float]:
        self.fetched.append(url)
        return json.dumps(self.document).encode(), time.time() + self.seconds


def app(**changes: JSON) -> Object:
    """Return the document of a client, with changes."""
    default: Object = {"client_id": DOCUMENT, "client_name": "App", "redirect_uris": [REDIRECT]}
    return {name: value for name, value in (default | changes).items() if value is not None}


@pytest.mark.spec(
    "2026-07-28/basic/authorization/client-registration#implementation-requirements-6,8",
    "2026-07-28/basic/authorization/index#overview-2",
    "2025-11-25/basic/authorization#implementation-requirements-6,8",
    "2025-11-25/basic/authorization#client-id-metadata-documents-1",
)
async def test_client_id_may_be_the_url_of_a_metadata_document_which_is_cached() -> None:
    site = Site(app())
    async with served(fetch=site.fetch, register=False) as talk:
        talk.client_id = DOCUMENT
        page = await talk.authorize()
        assert f"App ({DOCUMENT})".encode() in page.body
        code = (await talk.decide(page)).query["code"]
        assert (await talk.claims((await talk.exchange(code)).json["access_token"]))["client_id"] == DOCUMENT
        assert site.fetched == [DOCUMENT]
        site.seconds = 0
        talk.server.clients.documents.clear()
        await talk.authorize()
        await talk.authorize()
        assert len(site.fetched) == 3
        metadata = (await talk.send("GET", "/.well-known/oauth-authorization-server")).json
        assert metadata["client_id_metadata_document_supported"] is True


@pytest.mark.spec(
    "2026-07-28/basic/authorization/client-registration#implementation-requirements-1,4,5,7,10",
    "2026-07-28/basic/authorization/security-considerations#client-id-metadata-document-security-1",
    "2025-11-25/basic/authorization#implementation-requirements-4,5,7,10",
    "2025-11-25/basic/authorization#client-id-metadata-document-security-1",
)
@pytest.mark.parametrize(
    "document",
    [
        app(client_id=DOCUMENT + "/"),
        app(client_id="https://APP.example/client.json"),
        app(client_id=None),
        app(client_name=None),
        app(redirect_uris=None),
        app(token_endpoint_auth_method="client_secret_basic"),
        app(token_endpoint_auth_method="client_secret_post", client_secret="public"),
    ],
)
async def test_client_metadata_document_must_contain_its_own_url_and_the_required_members(document: Object) -> None:
    async with served(fetch=Site(document).fetch, register=False, yes=True) as talk:
        assert (await talk.authorize(client_id=DOCUMENT)).status == 400


@pytest.mark.spec(
    "2026-07-28/basic/authorization/client-registration#implementation-requirements-9",
    "2025-11-25/basic/authorization#implementation-requirements-9",
)
async def test_redirect_uris_of_a_document_are_compared() -> None:
    async with served(fetch=Site(app()).fetch, register=False, yes=True) as talk:
        assert (await talk.authorize(client_id=DOCUMENT, redirect_uri="https://evil.example/")).status == 400


@pytest.mark.spec("2026-07-28/basic/authorization/client-registration#implementation-requirements-11")
@pytest.mark.parametrize(
    "url",
    [
        "http://app.example/client.json", "https://app.example", "https://app.example/../client.json",
        "https://app.example/./client.json", "https://app.example/client.json#x",
        "https://user:password@app.example/client.json", "https://[::1]/client.json", "file:///etc/passwd",
    ],
)  # fmt: skip
async def test_client_id_that_is_not_a_plain_https_url_is_never_fetched(url: str) -> None:
    site = Site(app(client_id=url))
    async with served(fetch=site.fetch, register=False, yes=True) as talk:
        assert (await talk.authorize(client_id=url)).status == 400
        assert site.fetched == []


@pytest.mark.spec(
    "2026-07-28/basic/authorization/security-considerations#authorization-server-abuse-protection-1",
    "2025-11-25/basic/authorization#authorization-server-abuse-protection-1",
    "2025-11-25/basic/authorization#implementation-requirements-11",
)
async def test_fetching_a_document_refuses_this_machine_and_sends_no_byte() -> None:
    seen: list[str] = []

    async def handle(exchange: Exchange) -> None:
        seen.append(exchange.request.path)
        exchange.respond(200, [], b"{}")

    async with await start_server(handle) as http:
        with pytest.raises(HttpError):
            await fetch_document(f"http://127.0.0.1:{http.address[1]}/client.json")
    assert seen == []
    assert MAX_DOCUMENT <= 5 * 1024  # the draft's recommendation, section 6.6


async def test_fetching_a_document_connects_to_addresses_of_the_internet_only(monkeypatch: pytest.MonkeyPatch) -> None:
    checks: list[Callable[[str], bool]] = []

    def spy(http: HttpClient, *args: object, may_connect: Callable[[str], bool], **options: object) -> None:
        checks.append(may_connect)
        raise HttpError("not sent")

    monkeypatch.setattr(HttpClient, "request", spy)
    with pytest.raises(HttpError, match="not sent"):
        await fetch_document("https://app.example/client.json")
    (may_connect,) = checks
    inside = "127.0.0.1", "10.0.0.1", "64:ff9b::7f00:1", "2002:a00:1::", "::ffff:127.0.0.1", "224.0.0.1", "ff0e::1"
    outside = "1.1.1.1", "2606:4700::1111"
    assert [address for address in (*inside, *outside) if may_connect(address)] == [*outside]


# ------------------------------------------------------------------------------------- with an MCP server and a client


async def open_url(url: str) -> None:
    """Act as the browser of a user who is not asked."""
    async with HttpClient() as http:
        async with http.request("GET", url, redirects=0) as response:
            location = response.headers.get("location")
        assert response.status == 303 and location
        async with http.request("GET", location) as response:
            assert response.status == 200


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25", "2026-07-28"])
async def test_protected_example_asks_for_a_further_scope_in_every_revision(revision: str) -> None:
    notes.clear()
    seen: list[str] = []

    async def browse(url: str) -> None:
        seen.extend(dict(parse_qsl(urlsplit(url).query))["scope"].split())
        await open_url(url)

    async with served(yes=True, register=False) as talk, HttpClient() as http:
        app: list[HttpApp] = []
        async with await start_server(lambda exchange: app[0].handle(exchange)) as listening:
            url = f"http://127.0.0.1:{listening.address[1]}/mcp"
            app.append(HttpApp(protected.catalog, authorization=protect(url, talk.server.issuer)))
            async with Client(url, authorization=AuthorizationCode(open_browser=browse), revision=revision) as client:
                assert (await client.call_tool("read_notes")).text in ("", "[]")
                assert seen == ["notes:read"]
                assert (await client.call_tool("add_note", {"text": "Buy milk."})).text == "Number of notes: 1."
                assert seen[1:] == ["notes:read", "notes:write"] and notes == {"alice": ["Buy milk."]}
            # A token for another MCP server of the same authorization server is refused.
            await talk.register()
            code = (await talk.authorize(resource=url + "2")).query["code"]
            token = (await talk.exchange(code, resource=url + "2")).json["access_token"]
            async with http.request("POST", url, {"Authorization": f"Bearer {token}"}, b"{}") as response:
                assert response.status == 401 and "invalid_token" in (response.headers.get("www-authenticate") or "")
            await app[0].close()


@pytest.mark.spec("2025-03-26/basic/authorization#fallbacks-for-servers-without-metadata-discovery-1")
@pytest.mark.parametrize("has_metadata", [True, False])
async def test_client_of_2025_03_26_finds_the_authorization_server_at_the_origin_of_the_mcp_server(
    has_metadata: bool,
) -> None:
    notes.clear()
    issuer, app = AuthorizationServer(yes=True), list[HttpApp]()

    async def handle(exchange: Exchange) -> None:
        path = exchange.request.path
        if path == "/mcp":
            if (rest := app[0].handle(exchange)) is not None:
                await rest
        elif path.startswith("/.well-known/") and not (has_metadata and path.endswith("oauth-authorization-server")):
            exchange.respond(404, [], b"")
        else:
            await issuer.handle(exchange)

    async with await start_server(handle) as listening:
        issuer.issuer = f"http://127.0.0.1:{listening.address[1]}"
        url = f"{issuer.issuer}/mcp"

        async def check(token: str) -> Principal:
            jws = parse_jws(token, types={"at+jwt"})
            verify(jws, [replace(issuer.key.public, kid=issuer.kid)])
            claims = parse_object(jws.payload)
            check_claims(claims, {issuer.issuer}, {url}, time.time())
            return Principal(issuer.issuer, str(claims["sub"]), audience=[url])

        app.append(HttpApp(protected.catalog, authorization=Protection(url, [issuer.issuer], check)))
        sign_in = AuthorizationCode(open_browser=open_url)
        async with Client(url, authorization=sign_in, revision="2025-03-26") as client:
            assert (await client.call_tool("read_notes")).text in ("", "[]")
        await app[0].close()
