"""Workload identity: one assertion for one token, and no second attempt."""

from __future__ import annotations

from itertools import count

import pytest

from mcp_ref import TokenRefused, WorkloadIdentity
from tests.extensions.auth.test_client_credentials import declared, issuing, read, token_requests
from tests.protected_servers import protected, status


class Platform:
    """A platform that makes assertions."""

    def __init__(self) -> None:
        self.number = count(1)

    async def assertion(self) -> str:
        """Return another assertion at each call."""
        return f"assertion-{next(self.number)}"


async def test_workload_identity_sends_an_assertion_and_no_secret() -> None:
    async with protected() as world:
        issuing(world)
        assert await read(world, WorkloadIdentity("reports", assertion=Platform().assertion)) == "read"
        assert token_requests(world) == [{
            "grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": "assertion-1",
            "client_id": "reports", "resource": world.url, "scope": "read",
        }]  # fmt: skip
        assert "authorization" not in world.auth.requests("/token")[0].headers
        assert "io.modelcontextprotocol/auth/wif" in declared(world)


async def test_workload_identity_gets_another_assertion_for_each_token_and_may_leave_out_the_resource() -> None:
    async with protected() as world:
        issuing(world)
        world.auth.token_response = {"expires_in": 0}
        await read(world, WorkloadIdentity("reports", assertion=Platform().assertion, resource_parameter=False))
        forms = token_requests(world)
        assert not any("resource" in form for form in forms)
        assert [form["assertion"] for form in forms] == [f"assertion-{number + 1}" for number in range(len(forms))]


@pytest.mark.parametrize("error", ["invalid_grant", "invalid_scope", "unauthorized_client", "invalid_target"])
async def test_workload_identity_refusal_is_final(error: str) -> None:
    async with protected() as world:
        world.auth.always("/token", status(400, {"error": error}))
        with pytest.raises(TokenRefused, match=error) as caught:
            await read(world, WorkloadIdentity("reports", assertion=Platform().assertion))
        assert len(token_requests(world)) == 1
        assert "assertion-1" not in str(caught.value)
