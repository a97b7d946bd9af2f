"""The lists of a bridge, when a server is away, and with wrong cursors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mcp_ref import Client, RemoteError, Server
from mcp_ref.bridge import back_client, namespaces
from mcp_ref.bridge.bridge import Bridge
from mcp_ref.jsonrpc.errors import ProtocolError
from tests.bridge.back import make_back
from tests.bridge.links import linked, note_requests, send

LATEST = "2026-07-28"


def _failing(server: Server, faults: list[int]) -> Server:
    @server.middleware
    async def fail(request: Any, context: Any, proceed: Any) -> object:
        if request.method == "tools/list" and faults:
            raise ProtocolError(-32603, "away")
        return await proceed(request)

    return server


async def test_bridge_lists_the_last_page_of_a_server_that_is_away_only_once(caplog: pytest.LogCaptureFixture) -> None:
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
    assert "the list has no new page of away: away" in caplog.text


async def test_bridge_asks_a_server_for_the_lists_that_it_declares_only() -> None:
    bare = Server("bare", revisions=["2025-11-25"])
    bare.tools.add(lambda: "x", "tool")
    seen = note_requests(bare)
    async with linked({"bare": bare, "one": make_back(LATEST)}, LATEST) as (client, _):
        assert [each.name for each in await client.list_prompts()] == ["one__greet"]
        assert "bare__tool" in [each.name for each in await client.list_tools()]
    assert {"tools/list", "prompts/list"} & {each.method for each in seen} == {"tools/list"}


async def test_bridge_keeps_the_last_page_for_clients_of_the_same_revision_only() -> None:
    away, faults = make_back("2025-11-25"), list[int]()
    bridge = Bridge(servers={"away": _failing(away, faults), "one": make_back(LATEST)})
    async with Client(bridge, revision="2024-11-05") as old, Client(bridge, revision=LATEST) as new:
        await old.list_tools()
        faults.append(1)
        page = await send(new, "tools/list", {})
        assert page["resultType"] == "complete"


async def test_bridge_keeps_last_pages_up_to_a_total_length(monkeypatch: pytest.MonkeyPatch) -> None:
    small, faults = make_back("2025-11-25"), list[int]()
    large = Server("large", revisions=["2025-11-25"])
    large.tools.add(lambda: "x", "large", description="x" * 20_000)
    monkeypatch.setattr("mcp_ref.bridge.lists.MAX_LAST_CHARACTERS", 20_000)
    async with linked({"small": _failing(small, faults), "large": _failing(large, faults)}) as (client, bridge):
        names = [tool.name for tool in await client.list_tools()]
        faults.append(1)
        client.forget_results("tools/list")
        assert await client.list_tools() == [] and "large__large" in names
        assert bridge.relay.lists._last_pages == {}


@pytest.mark.parametrize("cursor", ["A", "!", "AAAA", "\u00e9"])
@pytest.mark.attack("bridge-foreign-cursor")
async def test_bridge_refuses_a_malformed_cursor(cursor: Any) -> None:
    async with linked({"a": make_back(LATEST), "b": make_back(LATEST)}, LATEST) as (client, _):
        with pytest.raises(RemoteError) as refused:
            await send(client, "tools/list", {"cursor": cursor})
        assert refused.value.code == -32602


async def test_bridge_forgets_old_names_of_a_server_that_renames_its_tools_at_each_list(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(back_client, "MAX_TOOLS", 50)
    monkeypatch.setattr(namespaces, "MAX_NAMES", 50)
    server, lists = Server("back", revisions=["2025-11-25"]), list[int]()
    server.tools.add(lambda: "x", "first")

    @server.middleware
    async def rename(request: Any, context: Any, proceed: Any) -> object:
        result = await proceed(request)
        if request.method == "tools/list":
            lists.append(1)
            tool = result.tools[0]
            names = [f"tool.{len(lists)}.{number}" for number in range(10)]
            result.tools = [replace(tool, name=name, execution={"taskSupport": "required"}) for name in names]
        return result

    async with linked({"a": server, "b": make_back(LATEST)}, LATEST) as (client, bridge):
        for _ in range(7):  # the sixth makes the bridge forget
            page = await send(client, "tools/list", {})
        back = bridge.backs["a"]
        tables: list[dict[str, Any]] = [back.parameter_headers, back.task_support, bridge.relay.names._own_names["a"]]
        assert all(10 <= len(table) <= 50 for table in tables)
        last = page["tools"][-1]["name"]
        assert bridge.relay.names.split_name(last) == ("a", f"tool.{len(lists)}.9")


async def test_bridge_refuses_a_cursor_for_a_server_that_another_configuration_has() -> None:
    key = {"state_key": bytes(32)}
    async with linked({"a": make_back(LATEST), "b": make_back(LATEST)}, LATEST, key) as (client, _):
        page = await send(client, "tools/list", {})
    async with linked({"a": make_back(LATEST), "c": make_back(LATEST)}, LATEST, key) as (client, _):
        with pytest.raises(RemoteError, match="'b', which this bridge does not have") as refused:
            await send(client, "tools/list", {"cursor": page["nextCursor"]})
        assert refused.value.code == -32602
