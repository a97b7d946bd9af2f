"""server/discover: revisions, capabilities and identity."""

from __future__ import annotations

import pytest

from mcp_ref import Server
from mcp_ref.basic.content import Icon
from mcp_ref.jsonrpc.messages import Object
from mcp_ref.revisions import REVISIONS
from tests.matrix import STATELESS_KINDS
from tests.messages import result_of, server_info_meta
from tests.raw_peers import add_and_remove, connected_client, raw_client
from tests.settings import META, MODERN


@STATELESS_KINDS
@pytest.mark.spec(
    "2026-07-28/server/discover#intro-1",
    "2026-07-28/basic/versioning#protocol-version-negotiation-3",
    "2026-07-28/changelog#major-changes-3",
)
async def test_server_discover_of_a_server_without_features(kind: str) -> None:
    async with raw_client(Server("s", logging=False, revisions=[MODERN]), kind) as wire:
        assert result_of(await wire.ask_stateless("server/discover")) == {
            "resultType": "complete",
            "supportedVersions": [MODERN],
            "capabilities": {},
            "ttlMs": 0,
            "cacheScope": "public",
            "_meta": server_info_meta(),
        }


@pytest.mark.spec(
    "2026-07-28/server/tools#capabilities-1",
    "2026-07-28/server/resources#capabilities-1",
    "2026-07-28/server/prompts#capabilities-1",
    "2026-07-28/server/utilities/completion#capabilities-1",
    "2026-07-28/server/utilities/logging#capabilities-1",
)
async def test_server_discover_lists_the_declared_capabilities() -> None:
    features: dict[str, Object] = {
        "tools": {"listChanged": True},
        "resources": {"subscribe": True, "listChanged": True},
        "prompts": {"listChanged": True},
        "completions": {},
        "logging": {},
    }
    for feature, declared in features.items():
        server = Server("s", logging=feature == "logging")
        if feature != "logging":
            add_and_remove(server, feature)
        async with raw_client(server) as wire:
            result = result_of(await wire.ask_stateless("server/discover"))
            prompts = {"prompts": features["prompts"]} if feature == "completions" else {}
            assert result["capabilities"] == {feature: declared, **prompts}


async def test_server_discover_puts_server_info_into_meta() -> None:
    server = Server(
        "s",
        "2",
        title="T",
        description="D",
        icons=[Icon("https://a.example/i.png")],
        website_url="https://a.example",
        instructions="Read first.",
    )
    async with raw_client(server) as wire:
        result = result_of(await wire.ask_stateless("server/discover"))
        assert result["instructions"] == "Read first."
        assert result["_meta"] == {
            f"{META}serverInfo": {
                "name": "s",
                "version": "2",
                "title": "T",
                "description": "D",
                "icons": [{"src": "https://a.example/i.png"}],
                "websiteUrl": "https://a.example",
            }
        }
        assert "serverInfo" not in result


@pytest.mark.parametrize(
    "speaks", [[MODERN], ["2025-11-25", MODERN], [MODERN, "2024-11-05"], [str(revision) for revision in REVISIONS]]
)
async def test_server_discover_lists_revisions_latest_first(speaks: list[str]) -> None:
    async with raw_client(Server("s", revisions=speaks)) as wire:
        result = result_of(await wire.ask_stateless("server/discover"))
        assert result["supportedVersions"] == sorted(speaks, reverse=True)


async def test_server_discover_is_served_at_any_time_with_the_present_capabilities() -> None:
    server = Server("s", logging=False)
    async with connected_client(server) as wire:
        assert result_of(await wire.ask_stateless("server/discover"))["capabilities"] == {}
        server.tool("t")(lambda: None)
        capabilities = result_of(await wire.ask_stateless("server/discover"))["capabilities"]
        assert capabilities == {"tools": {"listChanged": True}}
