"""The clients of a bridge towards one server: their calls, and their end."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, cast

import pytest

from mcp_ref import Client, Context, RemoteError, Server, TextContent
from mcp_ref.bridge.bridge import Bridge
from mcp_ref.jsonrpc.messages import Object
from tests.bridge.back import make_back
from tests.bridge.links import linked, send
from tests.bridge.test_held import ALL, NAME, SCHEMA, retry_of, text_of
from tests.settings import eventually

LATEST = "2026-07-28"


async def test_input_request_belongs_to_the_call_although_a_list_is_in_flight() -> None:
    server = Server("back", revisions=["2025-11-25"])
    listing, go_on = asyncio.Event(), asyncio.Event()

    @server.tool()
    async def ask(context: Context) -> TextContent:
        await listing.wait()
        result = await context.elicit("Your name?", SCHEMA)
        return TextContent(str((result.content or {}).get("name")))

    @server.tool()
    async def warm() -> TextContent:
        return TextContent("warm")

    @server.middleware
    async def slow(request: Any, context: Any, proceed: Any) -> object:
        if request.method == "tools/list":
            listing.set()
            await go_on.wait()
        return await proceed(request)

    params: Object = {"name": "ask", "arguments": {}}
    async with linked(server) as (client, _), asyncio.timeout(10):
        await send(client, "tools/call", {"name": "warm", "arguments": {}}, ALL)  # connects the client that both use
        calling = asyncio.create_task(send(client, "tools/call", params, ALL))
        lists = asyncio.create_task(send(client, "tools/list", {}, ALL))
        first = await calling
        assert first["resultType"] == "input_required"
        go_on.set()
        await lists
        assert text_of(await send(client, "tools/call", retry_of(params, first, {"1": NAME}), ALL)) == "Ann"


def _slow_start(server: Server) -> tuple[asyncio.Event, asyncio.Event]:
    """Let the server wait in its handshake. Return an event that it sets then, and one for which it waits."""
    reached, go_on = asyncio.Event(), asyncio.Event()

    @server.middleware
    async def wait(request: Any, context: Any, proceed: Any) -> object:
        if request.method == "initialize":
            reached.set()
            await go_on.wait()
        return await proceed(request)

    return reached, go_on


async def _leave_in_the_handshake(bridge: Bridge, reached: asyncio.Event) -> None:
    """Begin a session, and leave while the server behind the bridge serves `initialize`."""
    client = Client(bridge, revision="2025-11-25")
    connecting = asyncio.create_task(client.connect())
    await reached.wait()
    connecting.cancel()
    with suppress(asyncio.CancelledError):
        await connecting
    await client.close()


async def _finish_the_handshake(go_on: asyncio.Event) -> None:
    """Let the server behind the bridge go on, for more turns of the event loop than a handshake needs."""
    go_on.set()
    for _ in range(50):
        await asyncio.sleep(0)


async def test_bridge_closes_a_client_that_connects_after_the_end_of_the_bridge() -> None:
    server = make_back("2025-11-25")
    reached, go_on = _slow_start(server)
    bridge = Bridge(servers={"back": server})
    async with asyncio.timeout(10):
        await _leave_in_the_handshake(bridge, reached)
        await bridge.close()
        await _finish_the_handshake(go_on)
        assert bridge.backs["back"].clients == []


async def test_bridge_closes_the_client_of_a_session_that_ends_during_its_handshake(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mcp_ref.bridge.front.FINISH_SECONDS", 0.0)
    server = make_back("2025-11-25")
    reached, go_on = _slow_start(server)
    bridge = Bridge(servers={"back": server})
    go_on.set()
    async with asyncio.timeout(10), Client(bridge, revision=LATEST):  # the bridge lives on
        kept, others = bridge.backs["back"].clients, len(bridge.server.catalog.announcers)
        reached.clear()
        go_on.clear()
        await _leave_in_the_handshake(bridge, reached)
        await eventually(lambda: len(bridge.server.catalog.announcers) == others)  # the session has ended
        await _finish_the_handshake(go_on)
        assert bridge.backs["back"].clients == kept


async def test_bridge_sets_the_log_level_of_the_servers_that_run() -> None:
    servers = {"gone": ["/no/such/program"], "one": make_back("2025-06-18")}
    async with linked(servers, "2025-11-25") as (client, _):
        await client.set_logging_level("error")


async def test_bridge_lists_no_tasks_of_other_principals() -> None:
    server = Server("back", revisions=["2025-11-25"])

    @server.tool(task="optional")
    async def work() -> TextContent:
        return TextContent("done")

    bridge_options: Any = {"authenticate": lambda request: request.headers.get("authorization")}
    async with server.serve_http(authenticate=lambda request: "bridge") as back:
        bridge = Bridge(servers={"back": back})
        async with bridge.server.serve_http(**bridge_options) as url:
            headers = [{"Authorization": f"Bearer {name}"} for name in ("ann", "bob")]
            async with (
                Client(url, headers=headers[0], revision="2025-11-25") as ann,
                Client(url, headers=headers[1], revision="2025-11-25") as bob,
            ):
                await ann.start_tool("work")
                with suppress(RemoteError):
                    listed = await bob.session.dispatcher.request("tasks/list", {}, timeout=5.0)
                    assert cast(Any, listed)["tasks"] == []
