"""A bridge that is protected in front, and signs in to a protected server behind it."""

from __future__ import annotations

from mcp_ref import AuthorizationCode, Client
from mcp_ref.bridge.bridge import Bridge
from tests.basic.authorization.protected_server import Tokens, protection
from tests.protected_servers import protected


async def test_protected_bridge_signs_in_with_its_own_token_and_never_sends_that_of_the_client() -> None:
    tokens = Tokens()
    tokens.grant("front-token")
    async with protected() as world:
        bridge = Bridge(
            servers={"back": world.url}, authorization=lambda url: AuthorizationCode(open_browser=world.browse)
        )
        async with (
            bridge.server.serve_http(authorization=protection(tokens)) as url,
            Client(url, headers={"Authorization": "Bearer front-token"}) as client,
        ):
            assert (await client.call_tool("read")).text == "read"
        assert "front-token" in tokens.asked and world.mcp.requests_with_tokens
        assert {seen.token for seen in world.mcp.requests_with_tokens} <= set(world.auth.tokens)
        everything = [*world.mcp.seen, *world.auth.seen]
        assert not any("front-token" in f"{seen.headers}{seen.values}{seen.body!r}" for seen in everything)
