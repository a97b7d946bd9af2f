"""The lists of a bridge, when a server is away, and with wrong cursors."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_ref import Client, RemoteError, Server
from mcp_ref.bridge.bridge import Bridge
from mcp_ref.jsonrpc.errors import ProtocolError
from tests.bridge.back import make_back
from tests.bridge.links import linked, send

LATEST = "2026-07-28"


def _failing(server: Server, faults: list[int]) -> Server:
    @server.middleware
    async def fail(request: Any, context: Any, proceed: Any) -> object:
        if request.method == "tools/list" and faults:
            raise ProtocolError(-32603, "away")
        return await proceed(request)

    return server


async def test_bridge_lists_the_last_page_of_a_server_that_is_away_only_once() -> None:
    away, faults = Server("away", revisions=["2025-11-25"], page_size=1), list[int]()
    for number in range(3):
        away.tools.add(lambda: "x", f"tool{number}")
    async with linked({"away": _failing(away, faults), "one": make_back(LATEST)}, LATEST) as (client, _):
        await send(client, "tools/list", {})
        faults.append(1)
        params: dict[str, Any] = {}
        for _ in range(10):
            page = await send(client, "tools/list", params)
            if page.get("nextCursor") is None:
                break
            params = {"cursor": page["nextCursor"]}
        else:
            pytest.fail("the list has no end")


async def test_bridge_keeps_the_last_page_for_clients_of_the_same_revision_only() -> None:
    away, faults = make_back("2025-11-25"), list[int]()
    bridge = Bridge(servers={"away": _failing(away, faults), "one": make_back(LATEST)})
    async with Client(bridge, revision="2024-11-05") as old, Client(bridge, revision=LATEST) as new:
        await old.list_tools()
        faults.append(1)
        page = await send(new, "tools/list", {})
        assert page["resultType"] == "complete"


@pytest.mark.parametrize("cursor", ["A", "!", "AAAA", "\u00e9"])
@pytest.mark.attack("bridge-foreign-cursor")
async def test_bridge_refuses_a_malformed_cursor(cursor: Any) -> None:
    async with linked({"a": make_back(LATEST), "b": make_back(LATEST)}, LATEST) as (client, _):
        with pytest.raises(RemoteError) as refused:
            await send(client, "tools/list", {"cursor": cursor})
        assert refused.value.code == -32602
