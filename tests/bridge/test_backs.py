"""The clients of a bridge towards one server: their calls, and their end."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from typing import Any, cast

import pytest

from mcp_ref import Client, Context, Implementation, RemoteError, Server, TextContent
from mcp_ref.bridge.backs import MAX_COUNTED_KEYS
from mcp_ref.bridge.bridge import Bridge
from mcp_ref.jsonrpc.messages import Object
from tests.bridge.back import make_back
from tests.bridge.links import linked, note_requests, send, two_users
from tests.bridge.test_faults import dying_at
from tests.bridge.test_held import ALL, CALL, NAME, SCHEMA, retry_of, text_of
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
    async with linked(server) as (client, bridge), asyncio.timeout(10):
        await send(client, "tools/call", {"name": "warm", "arguments": {}}, ALL)  # connects the client that both use
        calling = asyncio.create_task(send(client, "tools/call", params, ALL))
        lists = asyncio.create_task(send(client, "tools/list", {}, ALL))
        first = await calling
        assert first["resultType"] == "input_required"
        go_on.set()
        await lists
        await send(client, "tools/call", params, ALL)
        assert [len(each.calls) for each in bridge.backs["back"].clients if each.calls] == [1, 1]  # both calls are held
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


async def _leave_in_the_handshake(bridge: Bridge, reached: asyncio.Event, revision: str = "2025-11-25") -> None:
    """Connect a client, and leave while the server behind the bridge serves `initialize`."""
    client = Client(bridge, revision=revision)
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


@pytest.mark.usefixtures("short_finish")
@pytest.mark.parametrize("front", ["2025-11-25", LATEST])
async def test_bridge_closes_a_client_that_connects_after_the_end_of_the_bridge(front: str) -> None:
    server = make_back("2025-11-25")
    reached, go_on = _slow_start(server)
    bridge = Bridge(servers={"back": server})
    async with asyncio.timeout(10):
        await _leave_in_the_handshake(bridge, reached, front)
        await bridge.close()
        await _finish_the_handshake(go_on)
        assert bridge.backs["back"].clients == []


@pytest.mark.usefixtures("short_finish")
async def test_bridge_closes_the_client_of_a_session_that_ends_during_its_handshake() -> None:
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


async def test_bridge_closes_no_client_of_a_live_session_for_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_ref.bridge.backs.MAX_SESSION_CLIENTS", 4)
    bridge = Bridge(servers={"back": make_back("2025-11-25")})
    async with AsyncExitStack() as stack:
        for _ in range(4):
            await stack.enter_async_context(Client(bridge, revision="2025-11-25"))
        before = list(bridge.backs["back"].clients)
        with pytest.raises(RemoteError, match="try again later"):
            await Client(bridge, revision="2025-11-25").connect()
        assert bridge.backs["back"].clients == before


async def test_bridge_closes_the_client_of_an_idle_session_for_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_ref.bridge.backs.MAX_SESSION_CLIENTS", 1)
    monkeypatch.setattr("mcp_ref.bridge.back_client.IDLE_SECONDS", 0.0)
    bridge = Bridge(servers={"back": make_back("2025-11-25")})
    async with Client(bridge, revision="2025-11-25") as one, Client(bridge, revision="2025-11-25") as two:
        for client in (one, two, one):
            assert (await client.call_tool("echo", {"text": "x"})).text == "x"
            assert len(bridge.backs["back"].clients) == 1


async def test_bridge_counts_the_clients_that_are_still_connecting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_ref.bridge.backs.MAX_SESSION_CLIENTS", 4)
    server = make_back("2025-11-25")
    reached, go_on = _slow_start(server)
    bridge = Bridge(servers={"back": server})
    clients = [Client(bridge, revision="2025-11-25") for _ in range(9)]
    async with asyncio.timeout(10):
        connecting = [asyncio.create_task(each.connect()) for each in clients]
        await reached.wait()
        await eventually(lambda: sum(each.done() for each in connecting) == 5)
        _, waiting = await asyncio.wait(connecting, timeout=0.1, return_when=asyncio.ALL_COMPLETED)
        assert len(waiting) == len(bridge.backs["back"].clients) == 4
        go_on.set()
        await asyncio.gather(*connecting, return_exceptions=True)
        await asyncio.gather(*(each.close() for each in clients))


@pytest.mark.attack("bridge-all-clients")
async def test_bridge_leaves_clients_for_other_principals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_ref.bridge.backs.MAX_SESSION_CLIENTS", 4)
    async with two_users(make_back("2025-11-25"), revision="2025-11-25") as (ann, bob, _):
        url: Any = ann.connector.target.server
        async with Client(url, revision="2025-11-25", headers={"Authorization": "ann"}):
            with pytest.raises(RemoteError, match="try again later"):
                await Client(url, revision="2025-11-25", headers={"Authorization": "ann"}).connect()
        assert (await bob.call_tool("echo", {"text": "x"})).text == "x"


async def test_bridge_sets_the_log_level_again_after_a_lost_connection() -> None:
    server = make_back("2025-11-25")
    seen = note_requests(server)
    async with linked(server, "2025-11-25") as (client, bridge):
        await client.set_logging_level("error")
        [back] = bridge.backs["back"].clients
        await cast(Any, back.transport).close()
        assert (await client.call_tool("echo", {"text": "x"})).text == "x"
    assert [each.params.level for each in seen if each.method == "logging/setLevel"] == ["error", "error"]


@pytest.mark.parametrize(
    ("front", "back", "name"),
    [
        ("2025-11-25", "2025-06-18", "ann"),
        ("2025-11-25", LATEST, "mcp_ref bridge"),
        (LATEST, "2025-06-18", "mcp_ref bridge"),
    ],
)
async def test_bridge_has_its_own_name_unless_its_client_belongs_to_one_session(
    front: str, back: str, name: str
) -> None:
    server, names = make_back(back), set()

    @server.middleware
    async def note(request: Any, context: Any, proceed: Any) -> object:
        info = request.params.client_info if request.method == "initialize" else context.channel.peer_info
        names.add(info.name)
        return await proceed(request)

    async with linked(server, front, info=Implementation("ann", "1")) as (client, _):
        await client.call_tool("echo", {"text": "x"})
    assert names == {name}


async def test_bridge_passes_a_method_of_an_extension_on_after_many_unknown_methods() -> None:
    server = Server("back", revisions=[LATEST])

    @server.method("com.example/search")
    def search() -> dict[str, int]:
        return {"found": 1}

    async with linked(server, LATEST, extensions={"com.example/search": {}}) as (client, bridge):
        for number in range(200):
            with pytest.raises(RemoteError, match="Method not found"):
                await send(client, f"com.example/{number}", {}, {})
        with pytest.raises(RemoteError, match="Method not found"):
            await send(client, "com.example/search", {}, {})  # the client does not declare the extension
        found = await send(client, "com.example/search", {}, cast(Any, {"extensions": client.extensions}))
        assert found["found"] == 1
        assert len(bridge.server.catalog.routes) < 100


@pytest.mark.attack("bridge-restart-loop")
@pytest.mark.parametrize(
    ("short_lives", "last"), [([10.0, 10.0], "is tried again in"), ([10.0, 0.0, 10.0], "not known whether")]
)
async def test_bridge_waits_before_the_start_of_a_server_that_has_died_early_twice_in_a_row(
    monkeypatch: pytest.MonkeyPatch, short_lives: list[float], last: str
) -> None:
    monkeypatch.setattr("mcp_ref.bridge.backs.growing_pause", lambda count: 600.0 * count)
    async with linked({"back": dying_at("tools/call")}, "2025-11-25") as (client, bridge):
        for short_life in short_lives:
            monkeypatch.setattr("mcp_ref.bridge.backs.SHORT_LIFE", short_life)
            with pytest.raises(RemoteError, match="not known whether"):
                await client.call_tool("t")
            await eventually(lambda: not bridge.backs["back"].clients)
        with pytest.raises(RemoteError, match=last):
            await client.call_tool("t")


async def test_bridge_refuses_a_call_if_its_pool_stays_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_ref.bridge.backs.POOL_SECONDS", 0.05)
    async with linked(make_back("2025-11-25"), bridge_options={"clients": 1}) as (client, _):
        first = await send(client, "tools/call", CALL, ALL)  # with one client, a held call keeps it
        with pytest.raises(RemoteError, match="all clients are in use") as refused:
            await send(client, "tools/call", CALL, ALL)
        assert refused.value.code == -32603
        assert text_of(await send(client, "tools/call", retry_of(CALL, first, {"1": NAME}), ALL)) == "accept Ann"
        assert (await send(client, "tools/call", CALL, ALL))["resultType"] == "input_required"


def test_back_server_counts_the_failures_of_a_limited_number_of_keys() -> None:
    back = Bridge(servers={"back": ["x"]}).backs["back"]
    for key in range(MAX_COUNTED_KEYS + 1):
        back._count_failure(key, failures_without_pause=1)
    assert list(back._failures) == [MAX_COUNTED_KEYS]


async def test_back_server_forgets_the_failed_starts_when_a_client_has_connected() -> None:
    bridge = Bridge(servers={"back": make_back("2025-11-25")})
    bridge.backs["back"]._count_failure(None, failures_without_pause=1)  # so the next start needs no pause
    async with Client(bridge, revision="2025-11-25"):
        assert bridge.backs["back"]._failures == {}
