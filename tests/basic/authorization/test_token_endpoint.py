"""The token endpoint: requests, the authentication of the client, errors, and the stored form of a grant."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import AsyncIterator

import pytest

from mcp_ref import HttpClient, TokenRefused
from mcp_ref.basic.authorization.authorization_server_discovery import PeerRequests
from mcp_ref.basic.authorization.client_registration import OAuthClient
from mcp_ref.basic.authorization.metadata import MAX_LIFETIME, TokenResponse
from mcp_ref.basic.authorization.token_endpoint import (
    EXPIRY_MARGIN,
    ClientAuthentication,
    Grant,
    read_grant,
    request_token,
    revoke,
)
from mcp_ref.jsonrpc.messages import JSON, Object
from mcp_ref.lib.http.message import Headers
from tests.protected_servers import ScriptedAuthorizationServer, Step, authorization_server, basic_credentials, status

TOKENS: Object = {"access_token": "marker-access", "token_type": "bearer"}
RESOURCE = "https://mcp.example/notes"


@contextlib.asynccontextmanager
async def _endpoint(
    method: str = "none", secret: str = "", client_id: str = "c1"
) -> AsyncIterator[tuple[ScriptedAuthorizationServer, PeerRequests, tuple[str, str, ClientAuthentication]]]:
    async with authorization_server() as auth, HttpClient() as http:
        peers = PeerRequests(http, f"{auth.base}/mcp")
        peers.address = "127.0.0.1"
        client = OAuthClient(client_id, secret, method)
        yield auth, peers, (auth.base, f"{auth.base}/token", client.authenticate)


async def test_client_without_secret_sends_its_id_in_the_form() -> None:
    async with _endpoint() as (auth, peers, endpoint):
        auth.always("/token", status(200, TOKENS))
        assert (await request_token(peers, *endpoint, {"grant_type": "x"})).access_token == "marker-access"
        [seen] = auth.seen
        assert seen.values == {"grant_type": "x", "client_id": "c1"} and "authorization" not in seen.headers


class _Prover:
    extension = "x"

    def __init__(self, demands_another: bool) -> None:
        self.demands_another = demands_another

    def headers(self, method: str, url: str, token: str = "") -> dict[str, str]:
        return {"DPoP": f"{method} {url}"}

    def learn(self, url: str, headers: Headers, error: str = "") -> bool:
        return self.demands_another


@pytest.mark.parametrize(("demands_another", "count"), [(True, 2), (False, 1)])
async def test_token_request_is_repeated_once_if_the_server_demands_another_proof(
    demands_another: bool, count: int
) -> None:
    async with _endpoint() as (auth, peers, endpoint):
        auth.always("/token", status(400, {"error": "use_dpop_nonce"}))
        with pytest.raises(TokenRefused, match="use_dpop_nonce"):
            await request_token(peers, *endpoint, {}, _Prover(demands_another))
        assert [seen.headers["dpop"] for seen in auth.seen] == [f"POST {auth.base}/token"] * count


async def test_client_secret_post_sends_id_and_secret_in_the_form() -> None:
    async with _endpoint("client_secret_post", "s 1") as (auth, peers, endpoint):
        auth.always("/token", status(200, TOKENS))
        await request_token(peers, *endpoint, {})
        assert auth.seen[0].values == {"client_id": "c1", "client_secret": "s 1"}


async def test_client_secret_basic_encodes_id_and_secret_before_they_are_joined() -> None:
    async with _endpoint("client_secret_basic", "s:%+ü", "a:b c") as (auth, peers, endpoint):
        auth.always("/token", status(200, TOKENS))
        await request_token(peers, *endpoint, {})
        assert basic_credentials(auth.seen[0]) == ("a:b c", "s:%+ü")
        assert "client_id" not in auth.seen[0].values


@pytest.mark.parametrize(
    ("step", "code", "text"),
    [
        (status(400, {"error": "invalid_grant", "error_description": "marker \x1b[31m"}), "invalid_grant", "marker"),
        (status(200, {"error": "invalid_client"}), "invalid_client", "invalid_client"),
        (status(200, {**TOKENS, "error": "x"}), "x", "x"),
        (status(500, b"<html>marker-body"), "", "status 500"),
        (status(200, b"<html>"), "", "not usable"),
        (status(200, {"access_token": "marker-body"}), "", "token_type"),
        (status(200, {**TOKENS, "token_type": "mac"}), "", "type"),
        (status(307, b"", ("Location", "/x")), "", "status 307"),
    ],
)
async def test_refusal_names_the_error_and_no_secret(step: Step, code: str, text: str) -> None:
    async with _endpoint() as (auth, peers, endpoint):
        auth.always("/token", step)
        with pytest.raises(TokenRefused, match=text) as caught:
            await request_token(peers, *endpoint, {"refresh_token": "marker-refresh"})
        assert caught.value.error == code
        assert not any(secret in str(caught.value) for secret in ("marker-", "\x1b"))


async def test_endpoint_without_response_is_a_refusal_with_status_0() -> None:
    async with _endpoint() as (auth, peers, _):
        nowhere = "http://127.0.0.1:1/token"
        with pytest.raises(TokenRefused, match="try again later") as caught:
            await request_token(peers, auth.base, nowhere, lambda issuer: ({}, {}), {})
        assert caught.value.status == 0


@pytest.mark.parametrize(
    ("code", "error", "resource", "names_option"),
    [
        (400, "invalid_target", RESOURCE, True),
        (401, "invalid_target", RESOURCE, True),
        (400, "invalid_request", RESOURCE, True),
        (401, "invalid_request", RESOURCE, False),
        (400, "invalid_grant", RESOURCE, False),
        (400, "invalid_request", "", False),
    ],
)
async def test_refused_resource_names_the_option_that_leaves_it_out(
    code: int, error: str, resource: str, names_option: bool
) -> None:
    async with _endpoint() as (auth, peers, endpoint):
        auth.always("/token", status(code, {"error": error}))
        form = {"refresh_token": "r", "resource": resource} if resource else {"refresh_token": "r"}
        with pytest.raises(TokenRefused) as caught:
            await request_token(peers, *endpoint, form)
        assert ("resource_parameter=False" in str(caught.value)) is names_option
        assert len(auth.seen) == 1


async def test_revocation_sends_the_token_and_its_kind() -> None:
    async with _endpoint() as (auth, peers, endpoint):
        auth.refresh_tokens["r1"] = set()
        revocation = auth.base, f"{auth.base}/revoke", endpoint[2]
        await revoke(peers, *revocation, "r1", "refresh_token")
        assert auth.refresh_tokens == {} and auth.seen[0].values["token_type_hint"] == "refresh_token"
        auth.always("/revoke", status(400, {"error": "unsupported_token_type"}))
        await revoke(peers, *revocation, "a1", "access_token")  # the server lets access tokens end by themselves
        auth.always("/revoke", status(503))
        with pytest.raises(TokenRefused, match="status 503; the token was not revoked"):
            await revoke(peers, *revocation, "r1", "refresh_token")


@pytest.mark.parametrize(
    ("lifetime", "left", "fresh"),
    [(3600, EXPIRY_MARGIN + 5, True), (3600, EXPIRY_MARGIN - 5, False), (20, 15, True), (20, 5, False), (0, 0, False)],
)
def test_grant_is_fresh_until_a_margin_before_its_end(lifetime: float, left: float, fresh: bool) -> None:
    grant = Grant("t", expires_at=time.monotonic() + left, lifetime=lifetime)
    assert grant.is_fresh() is fresh and grant.is_fresh(margin=0) is (left > 0)
    assert Grant("t").is_fresh() and Grant("t").is_fresh(margin=0)


def test_renewed_grant_keeps_its_id_and_the_refresh_token() -> None:
    grant = Grant("t", refresh_token="r", scopes=("a",))
    renewed = grant.renewed(TokenResponse("t2", "Bearer", 60), 100.0)
    assert (renewed.id, renewed.refresh_token, renewed.scopes) == (grant.id, "r", ("a",))
    assert (renewed.access_token, renewed.expires_at) == ("t2", 160.0)
    assert grant.renewed(TokenResponse("t2", "Bearer", None, "r2"), 0).refresh_token == "r2"
    assert Grant("t").id != Grant("t").id


def test_stored_grant_is_read_again_with_its_end() -> None:
    grant = Grant(
        "marker", "https://auth.example", RESOURCE, ("a", "b"), time.monotonic() + 100, 200, "marker-r",
        "https://auth.example/token", "", "c1", "client_secret_basic", "127.0.0.1")  # fmt: skip
    found = read_grant(json.loads(json.dumps(grant.to_json())))
    assert found is not None and found.expires_at == pytest.approx(grant.expires_at, abs=1)
    assert (found.access_token, found.refresh_token, found.scopes) == ("marker", "marker-r", ("a", "b"))
    assert (found.id, found.server_address, found.auth_method) == (grant.id, "127.0.0.1", "client_secret_basic")
    assert "marker" not in repr(found)


@pytest.mark.parametrize(
    "change", [{"access_token": None}, {"access_token": ""}, {"issuer": 5}, {"scopes": "a"}, {"id": None}]
)
def test_stored_grant_that_is_incomplete_is_ignored(change: dict[str, JSON]) -> None:
    grant = Grant("t", "https://auth.example").to_json()
    assert read_grant(grant) is not None and read_grant(None) is None
    assert read_grant({**grant, **change}) is None


def test_stored_grant_lives_no_longer_than_a_year() -> None:
    found = read_grant({**Grant("t", "https://auth.example").to_json(), "expires_at": 1e300, "unknown": 1})
    assert found is not None and found.expires_at is not None
    assert found.expires_at <= time.monotonic() + MAX_LIFETIME
