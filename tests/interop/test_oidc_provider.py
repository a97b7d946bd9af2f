"""Our client and our protected server with the authorization server of npm oidc-provider: peers/oidc_provider.mjs."""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlencode

import pytest

from mcp_ref import AuthorizationCode, Client, ClientCredentials, DpopCheck, DpopKey, HttpClient, Introspection
from mcp_ref.lib.http.client import fetch
from mcp_ref.lib.jose.keys import make_private_key
from tests.interop.browser import Browser
from tests.interop.protected_notes import Notes, protected_by
from tests.interop.recorded import Recorded
from tests.interop.test_protected_server import run

SCRIPTS = Path(__file__).parent / "peers"
REVISIONS = ["2025-06-18", "2025-11-25", "2026-07-28"]
Request: TypeAlias = dict[str, Any]


class Provider:
    """The running authorization server."""

    def __init__(self, issuer: str, recorded: Recorded) -> None:
        self.issuer, self._recorded = issuer, recorded
        self._earlier = len(recorded.stderr)

    def requests(self, path: str) -> list[Request]:
        """Return the requests of one path since this object was made, with their responses, in order."""
        written = self._recorded.stderr[self._earlier :]
        lines = [line.removeprefix("wire ") for line in written.splitlines() if line.startswith("wire ")]
        return [request for request in map(json.loads, lines) if request["path"] == path]


def read_part(part: str) -> dict[str, Any]:
    """Return the header or the claims of a JWT."""
    members: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=="))
    return members


@contextmanager
def provided(peers: Path, recorded: Recorded, **options: Any) -> Iterator[Provider]:
    command: list[str | Path] = [peers / "node_modules/.bin/node", SCRIPTS / "oidc_provider.mjs", json.dumps(options)]
    with recorded.listening(command, r"running on (http://\S+)", {"MCP_REF_PEERS": str(peers)}) as ready:
        yield Provider(ready[1], recorded)
    assert recorded.alive() == []


@pytest.fixture(scope="module")
def shared_issuer(peers: Path, shared_record: Recorded) -> Iterator[str]:
    with provided(peers, shared_record) as provider:
        yield provider.issuer


@pytest.fixture
def provider(shared_issuer: str, shared_record: Recorded) -> Provider:
    """Return the provider without options, which the tests share."""
    return Provider(shared_issuer, shared_record)


@pytest.mark.parametrize("revision", REVISIONS)
async def test_authorization_code_signs_in_steps_up_refreshes_and_signs_out(provider: Provider, revision: str) -> None:
    browser = Browser()
    authorization = AuthorizationCode(open_browser=browser.open)
    async with protected_by(provider.issuer, revision) as notes:
        async with Client(notes.url, authorization=authorization) as client:
            called = ["read_notes", "add_note", "end_token", "read_notes"]
            texts = [(await client.call_tool(name)).text for name in called]
        async with HttpClient() as http:
            assert await authorization.sign_out(notes.url, http)
    registrations, tokens = provider.requests("/reg"), provider.requests("/token")
    revocations = provider.requests("/token/revocation")
    assert texts == ["notes of alice", "added", "ended", "notes of alice"]
    assert client.revision.name == revision

    # the 401 leads to the metadata; the authorization requests have PKCE and the resource
    first, *_ = requests = notes.requests("mcp", "/mcp")
    assert first.status == 401 and first.challenge is not None and first.challenge.scopes == ("notes:read",)
    assert [asked["scope"] for asked in browser.opened] == [
        "notes:read offline_access",
        "notes:read offline_access notes:write",
    ]
    for asked in browser.opened:
        assert (asked["resource"], asked["code_challenge_method"]) == (notes.url, "S256")
    # its clients may ask for registered scopes only
    assert [registered["params"]["scope"] for registered in registrations] == [one["scope"] for one in browser.opened]

    # the tokens are made for this server, and every request carries the latest one
    assert [token["params"]["grant_type"] for token in tokens] == ["authorization_code"] * 2 + ["refresh_token"]
    assert {token["params"]["resource"] for token in tokens} == {notes.url}
    issued = [token["body"]["access_token"] for token in tokens]
    assert list(dict.fromkeys(step.token for step in requests)) == ["", *issued]
    header, claims = map(read_part, issued[-1].split(".")[:2])
    assert (header["typ"], header["alg"], claims["aud"]) == ("at+jwt", "RS256", notes.url)
    [forbidden] = [step for step in requests if step.status == 403]
    assert forbidden.challenge is not None and forbidden.challenge.scopes == ("notes:read", "notes:write")

    # it rotates refresh tokens, and the last one is revoked; it cannot revoke JWTs
    refreshes = [token["body"]["refresh_token"] for token in tokens]
    assert len(set(refreshes)) == 3 and tokens[2]["params"]["refresh_token"] == refreshes[1]
    assert (revocations[0]["status"], revocations[0]["params"]["token"]) == (200, refreshes[2])
    assert revocations[1]["body"]["error"] == "unsupported_token_type"


async def test_authorization_code_signs_in_again_after_the_reuse_of_a_refresh_token(provider: Provider) -> None:
    browser = Browser()
    async with protected_by(provider.issuer, "2026-07-28") as notes:
        async with Client(notes.url, authorization=AuthorizationCode(open_browser=browser.open)) as client:
            await client.call_tool("end_token")
            await client.call_tool("read_notes")
            [code, _] = provider.requests("/token")
            stolen = {
                "grant_type": "refresh_token",
                "refresh_token": code["body"]["refresh_token"],
                "client_id": code["params"]["client_id"],
            }
            async with HttpClient() as http:
                headers = {"Content-Type": "application/x-www-form-urlencoded"}
                url, body = f"{provider.issuer}/token", urlencode(stolen).encode()
                found = await fetch(http, "POST", url, headers, body, limit=10_000, seconds=10)
            assert found.status == 400 and json.loads(found.body)["error"] == "invalid_grant"
            # the whole family of tokens has ended: no refresh any more, so the user signs in again
            await client.call_tool("end_token")
            assert len(browser.opened) == 1
            assert (await client.call_tool("read_notes")).text == "notes of alice"
        assert len(browser.opened) == 2
        statuses = [(token["params"]["grant_type"], token["status"]) for token in provider.requests("/token")]
    assert statuses == [
        ("authorization_code", 200),
        ("refresh_token", 200),
        ("refresh_token", 400),  # the thief
        ("refresh_token", 400),
        ("authorization_code", 200),
    ]


async def test_client_metadata_url_is_the_client_id(provider: Provider) -> None:
    browser, url = Browser(), "https://client.example/metadata.json"
    authorization = AuthorizationCode(client_metadata_url=url, open_browser=browser.open)
    async with (
        protected_by(provider.issuer, "2026-07-28") as notes,
        Client(notes.url, authorization=authorization) as client,
    ):
        texts = [(await client.call_tool(name)).text for name in ("add_note", "end_token", "read_notes")]
    tokens = provider.requests("/token")
    assert provider.requests("/reg") == []
    assert texts == ["added", "ended", "notes of alice"]
    assert {asked["client_id"] for asked in browser.opened} == {url} == {one["params"]["client_id"] for one in tokens}
    assert tokens[-1]["params"]["grant_type"] == "refresh_token"


async def use_as_program(notes: Notes, authorization: ClientCredentials) -> None:
    async with Client(notes.url, authorization=authorization) as client:
        assert (await client.call_tool("read_notes")).text == "notes of job"
        assert (await client.call_tool("add_note")).text == "added"


def account(**metadata: Any) -> Request:
    """Return the registration of a program that acts for itself."""
    grants = {"grant_types": ["client_credentials"], "redirect_uris": [], "response_types": []}
    return {"client_id": "job", **grants, **metadata}


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
async def test_client_credentials_with_a_secret(peers: Path, recorded: Recorded, method: str) -> None:
    secret = "s:e%c r+et"  # a Basic header must encode it
    registered = account(client_secret=secret, token_endpoint_auth_method=method)
    with provided(peers, recorded, clients=[registered], method=method) as provider:
        async with protected_by(provider.issuer, "2026-07-28") as notes:
            await use_as_program(notes, ClientCredentials("job", secret, issuer=provider.issuer))
        check_two_token_requests(provider, notes)


async def test_client_credentials_with_a_key(peers: Path, recorded: Recorded) -> None:
    key = make_private_key()
    jwk = {**key.public.members, "kid": "1", "use": "sig", "alg": "ES256"}
    registered = account(token_endpoint_auth_method="private_key_jwt", jwks={"keys": [jwk]})
    with provided(peers, recorded, clients=[registered]) as provider:
        async with protected_by(provider.issuer, "2026-07-28") as notes:
            await use_as_program(notes, ClientCredentials("job", signer=key.sign, kid="1", issuer=provider.issuer))
        first, second = check_two_token_requests(provider, notes)
    assertion = read_part(first["client_assertion"].split(".")[1])
    assert (assertion["iss"], assertion["sub"], assertion["aud"]) == ("job", "job", provider.issuer)
    assert first["client_assertion"] != second["client_assertion"]


def check_two_token_requests(provider: Provider, notes: Notes) -> list[Request]:
    """Check that one request asked for the scope of every request, and one for that of a tool too."""
    first, second = (request["params"] for request in provider.requests("/token"))
    assert (first["grant_type"], first["scope"]) == ("client_credentials", "notes:read")
    assert second["scope"] == "notes:read notes:write"
    assert first["resource"] == second["resource"] == notes.url
    return [first, second]


async def test_introspection_knows_opaque_tokens_until_they_are_revoked(peers: Path, recorded: Recorded) -> None:
    browser = Browser()
    authorization = AuthorizationCode(open_browser=browser.open)
    with provided(peers, recorded, clients=[account(client_secret="s:e%c")], format="opaque") as provider:
        verifier = Introspection(provider.issuer, "job", "s:e%c")
        async with protected_by(provider.issuer, "2026-07-28", verifier) as notes:
            async with Client(notes.url, authorization=authorization) as client:
                texts = [(await client.call_tool(name)).text for name in ("read_notes", "add_note")]
            token = notes.requests("mcp", "/mcp")[-1].token
            verify = verifier.for_server(notes.url, [provider.issuer])
            assert (before := await verify(token)) is not None and token.count(".") == 0
            async with HttpClient() as http:
                assert await authorization.sign_out(notes.url, http)
            assert await verify(token) is None
    assert texts == ["notes of alice", "added"]
    assert (before.subject, [*before.audience]) == ("alice", [notes.url])
    assert before.scopes == {"notes:read", "notes:write"}


@pytest.mark.parametrize("nonces", [False, True])
async def test_dpop_binds_tokens_to_the_key_of_the_client(peers: Path, recorded: Recorded, nonces: bool) -> None:
    browser = Browser()
    check = DpopCheck(required=True, nonce_key=bytes(32) if nonces else None)
    authorization = AuthorizationCode(open_browser=browser.open, dpop=DpopKey())
    with provided(peers, recorded, nonces=nonces) as provider:
        async with (
            protected_by(provider.issuer, "2026-07-28", dpop=check) as notes,
            Client(notes.url, authorization=authorization) as client,
        ):
            called = ["read_notes", "add_note", "end_token", "read_notes"]
            texts = [(await client.call_tool(name)).text for name in called]
        tokens = provider.requests("/token")
    assert texts == ["notes of alice", "added", "ended", "notes of alice"]
    # with nonces, the first request of the client to each server is refused once
    assert [token["body"].get("error") for token in tokens] == ["use_dpop_nonce"] * nonces + [None] * 3
    assert {token["body"]["token_type"] for token in tokens[nonces:]} == {"DPoP"}
    requests = notes.requests("mcp", "/mcp")
    errors = [step.challenge.parameters.get("error") for step in requests if step.challenge is not None]
    assert errors == [None, *["use_dpop_nonce"] * nonces, "insufficient_scope", "invalid_token"]
    proofs = [step.headers.get("dpop") for step in requests if step.token]
    assert len(set(proofs)) == len(proofs) and None not in proofs
    assert all((step.headers.get("authorization") or "DPoP ").startswith("DPoP ") for step in requests)


async def test_dpop_check_accepts_the_proofs_of_the_typescript_sdk(peers: Path, recorded: Recorded) -> None:
    with provided(peers, recorded, nonces=True) as provider:
        check = DpopCheck(required=True, nonce_key=bytes(32))
        async with protected_by(provider.issuer, "2026-07-28", dpop=check) as notes:
            script = SCRIPTS / "protected_client.mjs"
            node = peers / "node_modules/.bin/node"
            report = await run(peers, node, script, "2", "auto", notes.url, "any password", "dpop")
        tokens = provider.requests("/token")
    assert report == {"revision": "2026-07-28", "texts": ["notes of alice", "notes of alice"]}
    requests = [step for step in notes.requests("mcp", "/mcp") if step.token]
    errors = [step.challenge.parameters.get("error") for step in requests if step.challenge is not None]
    assert errors == ["use_dpop_nonce", "invalid_token"]
    proofs = [step.headers.get("dpop") for step in requests]
    assert len(set(proofs)) == len(proofs) and None not in proofs
    assert [token["body"].get("token_type") for token in tokens] == [None, "DPoP", "DPoP"]
    assert [token["params"]["grant_type"] for token in tokens][1:] == ["authorization_code", "refresh_token"]
