"""Both token requests of an enterprise-managed authorization, and what happens if one of them fails."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import pytest

from mcp_ref import AuthorizationError, EnterpriseManaged, TokenRefused
from mcp_ref.jsonrpc.messages import Object
from tests.extensions.auth.test_client_credentials import declared, issuing, read, token_requests
from tests.protected_servers import (
    ScriptedAuthorizationServer,
    authorization_server,
    basic_credentials,
    protected,
    status,
)

ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"
EXCHANGED: Object = {"access_token": "the-id-jag", "issued_token_type": ID_JAG, "token_type": "N_A"}


async def id_token() -> str:
    """Return the user's ID token."""
    return "the-id-token"


@contextlib.asynccontextmanager
async def identity_provider(response: Object = EXCHANGED) -> AsyncIterator[ScriptedAuthorizationServer]:
    """Serve an identity provider that exchanges every token."""
    async with authorization_server() as provider:
        provider.always("/token", status(200, response))
        yield provider


def login(provider: ScriptedAuthorizationServer) -> EnterpriseManaged:
    """Return the client's side."""
    return EnterpriseManaged(
        "client", "secret", idp_token_endpoint=f"{provider.base}/token", idp_client_id="idp-client", id_token=id_token
    )


async def test_enterprise_managed_exchanges_the_id_token_and_then_the_assertion() -> None:
    async with identity_provider() as provider, protected() as world:
        issuing(world)
        assert await read(world, login(provider)) == "read"
        [exchange] = provider.requests("/token")
        assert exchange.values == {
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
            "requested_token_type": ID_JAG,
            "subject_token": "the-id-token",
            "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
            "audience": world.auth.base,
            "resource": world.url,
            "scope": "read",
            "client_id": "idp-client",
        }
        assert "authorization" not in exchange.headers
        assert token_requests(world) == [{
            "grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": "the-id-jag",
            "resource": world.url, "scope": "read",
        }]  # fmt: skip
        assert basic_credentials(world.auth.requests("/token")[0]) == ("client", "secret")
        assert "io.modelcontextprotocol/enterprise-managed-authorization" in declared(world)


async def test_enterprise_managed_asks_the_provider_again_for_each_token() -> None:
    async with identity_provider() as provider, protected() as world:
        issuing(world)
        world.auth.token_response = {"expires_in": 0}
        await read(world, login(provider))
        assert len(provider.requests("/token")) == len(world.auth.requests("/token")) > 1


@pytest.mark.parametrize("issued", ["urn:ietf:params:oauth:token-type:access_token", None])
async def test_enterprise_managed_other_token_type_is_refused(issued: str | None) -> None:
    async with identity_provider({**EXCHANGED, "issued_token_type": issued}) as provider, protected() as world:
        with pytest.raises(TokenRefused, match="failed: status 200; it issued another type of token than an ID-JAG"):
            await read(world, login(provider))
        assert "/token" not in world.auth.paths


async def test_enterprise_managed_refusal_of_the_provider_is_final() -> None:
    async with identity_provider() as provider, protected() as world:
        provider.always("/token", status(400, {"error": "access_denied"}))
        with pytest.raises(TokenRefused, match="access_denied") as caught:
            await read(world, login(provider))
        assert "the-id-token" not in str(caught.value)
        assert len(provider.requests("/token")) == 1 and "/token" not in world.auth.paths


@pytest.mark.attack("A6")
async def test_enterprise_managed_follows_no_redirect_with_the_id_token() -> None:
    async with identity_provider() as provider, identity_provider() as thief, protected() as world:
        provider.always("/token", status(307, b"", ("Location", f"{thief.base}/token")))
        with pytest.raises(TokenRefused):
            await read(world, login(provider))
        assert thief.seen == []


async def test_enterprise_managed_function_that_fails_is_an_authorization_error() -> None:
    async def broken() -> str:
        raise OSError("no ID token is stored")

    async with protected() as world:
        failing = EnterpriseManaged(
            "client", idp_token_endpoint="https://login.example/token", idp_client_id="c", id_token=broken
        )
        with pytest.raises(AuthorizationError, match="no ID token is stored"):
            await read(world, failing)


def test_enterprise_managed_provider_over_plain_http_is_refused() -> None:
    with pytest.raises(ValueError, match="https"):
        EnterpriseManaged("c", idp_token_endpoint="http://login.example/token", idp_client_id="c", id_token=id_token)
