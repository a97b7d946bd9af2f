"""Clients without a user: how they get tokens, and which authorization server gets their credentials."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace

import pytest

from mcp_ref import Client, ClientCredentials, DiscoveryFailed, HttpClient, MemoryStore, TokenRefused, es256_signer
from mcp_ref.basic.authorization.authorization_server_discovery import PeerRequests
from mcp_ref.basic.authorization.client import Authorizer
from mcp_ref.basic.authorization.token_endpoint import Grant
from mcp_ref.jsonrpc.messages import JSON, Object
from mcp_ref.lib.http.message import Exchange
from mcp_ref.lib.jose.keys import PublicKey, parse_object, parse_private_key
from mcp_ref.lib.jose.tokens import parse_jws, verify
from mcp_ref.revisions import R2026_07_28
from tests.protected_servers import AS_PATH, Step, World, basic_credentials, protected, status

PEM = """-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgYfJykBxbHk2aT9Cf
92YbAB1oQZsUoft7qFCIetwTsdihRANCAAQ61lADGfO4VlXY4fzvb562WgaIjraE
vhEz18hVYQUZbMbbM8nNziCnjhjHoHCKNuBtPXGYcbOuRT04bmYiG+k1
-----END PRIVATE KEY-----
"""
"""A private key for these tests alone."""


def issuing(world: World, scope: str = "read") -> None:
    """Let the token endpoint issue a token for every request, and check nothing."""

    async def step(exchange: Exchange) -> None:
        await status(200, {**world.auth.issue(set(scope.split())), "scope": scope})(exchange)

    world.auth.always("/token", step)


async def read(world: World, authorization: Authorizer) -> str:
    """Call the tool `read`, and return its text."""
    async with Client(world.url, revision=R2026_07_28, authorization=authorization) as client:
        return (await client.call_tool("read")).text


def token_requests(world: World) -> list[dict[str, str]]:
    """Return the forms of all token requests."""
    return [seen.values for seen in world.auth.requests("/token")]


def claims_of(token: str, key: PublicKey) -> dict[str, JSON]:
    """Return the claims of a token that this key has signed."""
    jws = parse_jws(token)
    verify(jws, [key])
    return parse_object(jws.payload)


async def test_client_credentials_are_sent_as_basic_without_a_browser_and_ask_for_no_refresh_token() -> None:
    async with protected() as world:
        issuing(world)
        world.auth.metadata["scopes_supported"] = ["read", "offline_access"]
        assert await read(world, ClientCredentials("a:b", secret="s%1", issuer=world.auth.base)) == "read"
        assert world.auth.paths == [AS_PATH, "/token"]
        form = world.auth.requests("/token")[0]
        assert basic_credentials(form) == ("a:b", "s%1")
        assert form.values == {"grant_type": "client_credentials", "resource": world.url, "scope": "read"}
        assert "io.modelcontextprotocol/oauth-client-credentials" in declared(world)


async def test_client_credentials_secret_is_in_the_form_if_the_server_wants_it() -> None:
    async with protected() as world:
        issuing(world)
        world.auth.metadata["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
        await read(world, ClientCredentials("a", secret="s"))
        assert token_requests(world)[0].items() >= {"client_id": "a", "client_secret": "s"}.items()


async def test_client_credentials_assertion_is_for_the_issuer_for_one_minute_and_for_one_use() -> None:
    public = parse_private_key(PEM).public
    async with protected() as world:
        issuing(world)
        world.auth.token_response = {"expires_in": 0}  # so each request needs another token
        await read(world, ClientCredentials("reports", signer=es256_signer(PEM), kid="k1"))
        forms = token_requests(world)
        assert len(forms) > 1
        assert "authorization" not in world.auth.requests("/token")[0].headers
        for form in forms:
            assert form["client_assertion_type"] == "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
            assert parse_jws(form["client_assertion"]).header == {"typ": "JWT", "alg": "ES256", "kid": "k1"}
        found = [claims_of(form["client_assertion"], _named(public)) for form in forms]
        assert len({str(claims["jti"]) for claims in found}) == len(forms)
        for claims in found:
            issued, ends = claims.pop("iat"), claims.pop("exp")
            assert isinstance(issued, int) and ends == issued + 60 and abs(issued - time.time()) < 30
            assert claims | {"jti": ""} == {"iss": "reports", "sub": "reports", "aud": world.auth.base, "jti": ""}


def _named(key: PublicKey) -> PublicKey:
    return PublicKey(key.kind, key.numbers, key.members, "k1")


async def test_client_credentials_token_that_ended_is_replaced_without_discovery() -> None:
    async with protected() as world:
        issuing(world)
        world.auth.token_response = {"expires_in": 0}
        await read(world, ClientCredentials("reports", secret="s"))
        assert world.auth.paths.count(AS_PATH) == 1
        assert world.auth.paths.count("/token") > 1


async def test_client_credentials_token_is_used_up_to_its_end_if_it_cannot_be_replaced() -> None:
    async with protected() as world, HttpClient() as http:
        peers = PeerRequests(http, world.url)
        peers.address = "127.0.0.1"
        login, end = ClientCredentials("a", secret="s"), time.monotonic() + 20
        grant = Grant("t", world.auth.base, world.url, expires_at=end, lifetime=3600, client_id="a",
                      auth_method="client_secret_basic", token_endpoint=f"{world.auth.base}/token")  # fmt: skip
        world.auth.always("/token", status(503))
        assert await login.current(peers, grant) is grant
        with pytest.raises(TokenRefused, match="503"):
            await login.current(peers, replace(grant, expires_at=time.monotonic() - 1))
        world.auth.always("/token", status(404))  # the endpoint has moved: a 401 will lead to it
        assert await login.current(peers, grant) is None


async def test_client_credentials_step_up_asks_for_the_old_and_the_new_scopes() -> None:
    async with protected() as world:
        issuing(world, "read write")
        world.auth.instead("/token", status(200, {**world.auth.issue({"read"}), "scope": "read"}))
        world.mcp.needs = {"write": "write"}
        async with Client(
            world.url, authorization=ClientCredentials("reports", secret="s", scopes=["extra"])
        ) as client:
            assert (await client.call_tool("write")).text == "written"
        assert [form["scope"] for form in token_requests(world)] == ["read extra", "read extra write"]


@pytest.mark.spec("2026-07-28/basic/authorization/client-registration#authorization-server-binding-2,4")
@pytest.mark.attack("A8")
async def test_client_credentials_go_to_the_first_issuer_only() -> None:
    store = MemoryStore()
    async with protected() as first, protected() as second:
        issuing(first)
        issuing(second)
        await read(first, ClientCredentials("reports", secret="s", store=store))
        with pytest.raises(DiscoveryFailed, match="is another issuer"):
            await read(second, ClientCredentials("reports", secret="s", store=store))
        assert "/token" not in second.auth.paths
        await read(second, ClientCredentials("another", secret="s", store=store))
        await read(second, ClientCredentials("reports", secret="s", store=store, issuer=second.auth.base))


@pytest.mark.attack("A8")
async def test_client_credentials_for_two_servers_at_once_go_to_one_issuer_only() -> None:
    async with protected() as first, protected() as second:
        both = asyncio.Barrier(2)

        def together(world: World) -> Step:
            async def step(exchange: Exchange) -> None:
                await both.wait()
                await status(200, world.auth.metadata)(exchange)

            return step

        for world in (first, second):
            issuing(world)
            world.auth.instead(AS_PATH, together(world))
        login = ClientCredentials("reports", secret="s")
        results = await asyncio.gather(read(first, login), read(second, login), return_exceptions=True)
        assert sorted(type(one).__name__ for one in results) == ["DiscoveryFailed", "str"]
        assert sorted(len(token_requests(world)) for world in (first, second)) == [0, 1]


@pytest.mark.attack("A8")
async def test_client_credentials_do_not_follow_the_server_to_another_issuer() -> None:
    async with protected() as world:
        with pytest.raises(DiscoveryFailed, match="configured for"):
            await read(world, ClientCredentials("reports", secret="s", issuer="https://auth.example"))
        assert world.auth.paths == []


@pytest.mark.attack("A14")
async def test_client_credentials_refusal_is_an_error_without_secrets() -> None:
    async with protected() as world:
        world.auth.always("/token", status(401, {"error": "invalid_client", "error_description": "unknown"}))
        login = ClientCredentials("reports", secret="hidden-secret")
        with pytest.raises(TokenRefused, match="invalid_client") as caught:
            await read(world, login)
        assert "hidden-secret" not in str(caught.value) + repr(login)
        assert world.auth.paths.count("/token") == 1


def declared(world: World) -> Object:
    """Return the extensions that the client declares in its last request."""
    params = json.loads(world.mcp.requests("/mcp")[-1].values["params"])
    extensions = params["_meta"]["io.modelcontextprotocol/clientCapabilities"]["extensions"]
    assert isinstance(extensions, dict)
    return extensions


def test_client_credentials_need_a_secret_or_a_signer() -> None:
    for arguments in ({}, {"secret": "s", "signer": es256_signer(PEM)}):
        with pytest.raises(ValueError, match="either `secret` or `signer`"):
            ClientCredentials("reports", **arguments)  # type: ignore[arg-type]


def test_es256_signer_refuses_other_keys() -> None:
    with pytest.raises(ValueError, match="P-256"):
        es256_signer("-----BEGIN RSA PRIVATE KEY-----\nAA==\n-----END RSA PRIVATE KEY-----")
