"""The client's cache: which requests are sent, until when, and for which caller. `ResponseCache` alone is tested by
tests/features/test_caching.py."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from mcp_ref import Client, HttpClient, InvalidMessage, RemoteError, Server
from mcp_ref.client import subscriptions as subscribing
from mcp_ref.features.caching import ResponseCache
from mcp_ref.jsonrpc.messages import JSON, Object
from mcp_ref.lib.http.message import Exchange
from mcp_ref.lib.http.sse import encode_event
from mcp_ref.transports.memory import MemoryTransport
from tests.messages import notification
from tests.raw_peers import Wire, raw_server, raw_session
from tests.raw_stateless_server import META, MODERN, answer, asked_for, connect_modern, discovered, params_of, refusal
from tests.scripted_http_server import JSON_HEADERS, SSE, Step, frame, respond_with, scripted
from tests.settings import PATIENCE, Clock, eventually

CHANGES: Object = {"listChanged": True}
OFFERS: Object = {"tools": CHANGES, "resources": {"subscribe": True, **CHANGES}, "prompts": CHANGES}


def of(cache: ResponseCache | bool = True, **options: object) -> Callable[[MemoryTransport], Client]:
    return lambda transport: Client(transport, cache=cache, **{"timeout": PATIENCE, **options})  # type: ignore[arg-type]


async def asks(wire: Wire, call: Awaitable[object], method: str, result: Object, ttl: float = 60) -> object:
    """Make a call that reaches the server. The result is fresh for so many seconds."""
    calling = asyncio.ensure_future(call)
    asked = await asked_for(wire, method)
    hints: Object = {"resultType": "complete", "ttlMs": round(ttl * 1000), "cacheScope": "public"}
    await wire.send(answer(asked, {**hints, **result}))
    return await calling


async def asks_nothing(wire: Wire, call: Awaitable[object]) -> object:
    """Make a call that is served from the cache."""
    found = await call
    assert wire.frames.empty()
    return found


CONTENTS: Object = {"uri": "test://a", "text": "a"}
KEPT: dict[str, tuple[Callable[[Client], Awaitable[object]], Object]] = {
    "tools/list": (lambda client: client.list_tools(), {"tools": []}),
    "prompts/list": (lambda client: client.list_prompts(), {"prompts": []}),
    "resources/list": (lambda client: client.list_resources(), {"resources": []}),
    "resources/templates/list": (lambda client: client.list_resource_templates(), {"resourceTemplates": []}),
    "resources/read": (lambda client: client.read_resource("test://a"), {"contents": [CONTENTS]}),
}


# ------------------------------------------------------------------------------------------------ until when


@pytest.mark.spec(
    "2026-07-28/server/utilities/caching#time-to-live-ttl-field-2",
    "2026-07-28/server/utilities/caching#freshness-calculation-1,2",
)
@pytest.mark.parametrize("method", KEPT)
async def test_cached_result_is_requested_again_after_its_ttl(method: str) -> None:
    call, result = KEPT[method]
    clock = Clock()
    async with raw_session(of(ResponseCache(clock)), MODERN, OFFERS) as (client, wire):
        first = await asks(wire, call(client), method, result)
        clock.now += 59.9
        assert await asks_nothing(wire, call(client)) == first
        clock.now += 0.2
        await asyncio.sleep(0)
        assert wire.frames.empty()  # nothing is asked before somebody wants it
        await asks(wire, call(client), method, result)
        assert await asks_nothing(wire, call(client)) == first


async def test_cache_keeps_nothing_in_the_legacy_era() -> None:
    async with raw_session(of(), "2025-11-25", OFFERS) as (client, wire):
        for _ in range(2):
            listing = asyncio.create_task(client.list_tools())
            asked = await wire.receive_object()
            await wire.send(answer(asked, {"tools": [], "ttlMs": 60_000, "cacheScope": "public"}))
            await listing


async def test_ping_is_never_served_from_the_cache() -> None:
    async with raw_server(of()) as (client, wire):
        await connect_modern(client, wire, OFFERS, ttlMs=60_000)
        for _ in range(2):
            await asks(wire, client.ping(), "server/discover", discovered())


# ------------------------------------------------------------------------------------------------ invalidation


async def test_list_that_changes_while_its_request_is_in_flight_is_not_cached() -> None:
    async with raw_session(of(), MODERN, OFFERS) as (client, wire):
        listing = asyncio.create_task(client.list_tools())
        asked = await asked_for(wire, "tools/list")
        await wire.send(notification("notifications/tools/list_changed"))
        old: Object = {"resultType": "complete", "tools": [], "ttlMs": 60_000, "cacheScope": "public"}
        await wire.send(answer(asked, old))
        assert await listing == []
        tools: Object = {"tools": [{"name": "new", "inputSchema": {"type": "object"}}]}
        await asks(wire, client.list_tools(), "tools/list", tools)


async def test_subscription_update_makes_read_resource_ask_the_server_again() -> None:
    texts = ["one", "two"]
    server = Server("s", "1")

    @server.resource("test://a", cache_ttl=3600)
    async def a() -> str:
        return texts[0]

    async with Client(server, timeout=PATIENCE) as client, client.subscribe("test://a") as updates:

        async def read() -> str | None:
            return getattr((await client.read_resource("test://a")).contents[0], "text", None)

        assert await read() == "one"
        texts.pop(0)
        assert await read() == "one"  # as the server allows
        server.resource_updated("test://a")
        assert await anext(updates) == "test://a"
        assert await read() == "two"


# ------------------------------------------------------------------------------------------------ scopes


def numbered(number: list[int]) -> Step:
    """Return a handler of `tools/list` with one tool, named by the number of the request."""

    async def step(exchange: Exchange, message: Object) -> None:
        number[0] += 1
        tool: Object = {"name": f"t{number[0]}", "inputSchema": {"type": "object"}}
        result: Object = {"resultType": "complete", "tools": [tool], "ttlMs": 60_000, "cacheScope": "public"}
        exchange.respond(200, JSON_HEADERS, frame(answer(message, result)))

    return step


COMMAND = ["python3", "server.py"]
OTHER_SERVERS = {
    "variables": (Client(COMMAND, env={"A": "a"}), Client(COMMAND, env={"A": "b"})),
    "directory": (Client(COMMAND, cwd="/a"), Client(COMMAND, cwd="/b")),
    "no directory": (Client(COMMAND), Client(COMMAND, cwd="/b")),
    "arguments": (Client(["a", "b"]), Client(["a\0b"])),
    "URL": (Client("http://x/a"), Client("http://x/b")),
    "header of a gateway": (Client("http://x/", headers={"X-Server": "a"}), Client("http://x/")),
    "proxy": (Client("http://x/", http=HttpClient()), Client("http://x/", http=HttpClient())),
}


@pytest.mark.attack("cache-of-another-server")
@pytest.mark.parametrize("scope", ["public", "private"])
@pytest.mark.parametrize("difference", OTHER_SERVERS)
def test_cache_shares_no_result_of_servers_that_differ_in_any_setting(difference: str, scope: str) -> None:
    one, two = (client.connector.target for client in OTHER_SERVERS[difference])
    cache = ResponseCache()
    cache.put(*one.cache_key, "tools/list", {}, {"tools": [], "ttlMs": 60_000, "cacheScope": scope})
    assert cache.get(*one.cache_key, "tools/list", {}) is not None
    assert cache.get(*two.cache_key, "tools/list", {}) is None


@pytest.mark.attack("cache-of-another-server")
def test_cache_shares_no_result_of_a_command_that_runs_in_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, keys = Client(["python3", "server.py"]).connector.target, set()
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        keys.add(target.cache_key)
        monkeypatch.setenv("PATH", f"/{name}")
        keys.add(target.cache_key)
    assert len(keys) == 4


@pytest.mark.attack("cache-of-another-user")
@pytest.mark.parametrize("headers", [{"Authorization": "b"}, {"cookie": "b"}])
def test_cache_shares_only_public_results_of_users_of_one_server(headers: dict[str, str]) -> None:
    clients = Client("http://x/", headers=dict.fromkeys(headers, "a")), Client("http://x/", headers=headers)
    one, two = (client.connector.target for client in clients)
    for scope in ("public", "private"):
        cache = ResponseCache()
        cache.put(*one.cache_key, "tools/list", {}, {"tools": [], "ttlMs": 60_000, "cacheScope": scope})
        assert (cache.get(*two.cache_key, "tools/list", {}) is not None) == (scope == "public")


@pytest.mark.spec("2026-07-28/server/utilities/caching#cache-scope-field-1")
def test_cache_key_includes_the_http_client_as_a_credential() -> None:
    # It may show a certificate, or add what it was given elsewhere.
    cache = ResponseCache()
    ours, theirs = HttpClient(), HttpClient()
    made = [Client("http://x/", http=http, cache=cache).connector.target for http in (ours, theirs, ours)]
    cache.put(*made[0].cache_key, "tools/list", {}, {"tools": [], "ttlMs": 60_000, "cacheScope": "private"})
    assert [cache.get(*each.cache_key, "tools/list", {}) is not None for each in made] == [True, False, True]


async def test_servers_within_this_program_are_not_taken_for_each_other_also_when_one_is_gone() -> None:
    cache = ResponseCache()
    for number in range(30):  # one soon lies in memory where another was
        server = Server("s", "1", cache_ttl=60.0)
        server.tool(name=f"t{number}")(lambda: "x")
        for _ in range(2):
            async with Client(server, cache=cache, timeout=PATIENCE) as client:
                assert [tool.name for tool in await client.list_tools()] == [f"t{number}"]
        del server, client
        gc.collect()


async def test_result_of_the_wrong_shape_is_not_cached() -> None:
    async with raw_session(of(), MODERN, OFFERS) as (client, wire):
        with pytest.raises(InvalidMessage, match="wrong shape"):
            await asks(wire, client.list_tools(), "tools/list", {"tools": "none"})
        assert await asks(wire, client.list_tools(), "tools/list", {"tools": []}) == []
        assert await asks_nothing(wire, client.list_tools()) == []


# ------------------------------------------------------------------------------------------------ rounds and pages


@pytest.mark.spec("2026-07-28/server/utilities/caching#cache-key-2")
async def test_cache_keeps_neither_the_result_of_a_retry_nor_input_required() -> None:
    async with raw_session(of(roots=[]), MODERN, OFFERS) as (client, wire):
        for _ in range(2):
            reading = asyncio.create_task(client.read_resource("test://a"))
            hints: Object = {"ttlMs": 60_000, "cacheScope": "public"}
            requests: Object = {"q": {"method": "roots/list"}}
            question: Object = {"resultType": "input_required", "inputRequests": requests, **hints}
            await wire.send(answer(await asked_for(wire, "resources/read"), question))
            again = await asked_for(wire, "resources/read")
            assert "inputResponses" in params_of(again)
            await wire.send(answer(again, {"resultType": "complete", "contents": [], **hints}))
            await reading
        assert not client.cache._results


def tools(*names: str, cursor: str | None = None) -> Object:
    """Return a page of tools."""
    listed: list[JSON] = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
    return {"tools": listed, **({} if cursor is None else {"nextCursor": cursor})}


@pytest.mark.spec("2026-07-28/server/utilities/caching#interaction-with-pagination-3")
async def test_cached_cursor_that_is_invalid_by_now_makes_the_client_list_all_pages_again() -> None:
    clock = Clock()
    async with raw_session(of(ResponseCache(clock)), MODERN, OFFERS) as (client, wire):
        listing = asyncio.create_task(client.list_tools())
        await asks(wire, asyncio.sleep(0), "tools/list", tools("a", cursor="2"), ttl=60)
        await asks(wire, asyncio.sleep(0), "tools/list", tools("b"), ttl=10)
        await listing
        clock.now += 20
        listing = asyncio.create_task(client.list_tools())
        await wire.send(refusal(await asked_for(wire, "tools/list"), -32602, "no such cursor"))
        asked = await asked_for(wire, "tools/list")
        assert "cursor" not in params_of(asked)
        page: Object = {**tools("c"), "resultType": "complete", "ttlMs": 60_000, "cacheScope": "public"}
        await wire.send(answer(asked, page))
        assert [tool.name for tool in await listing] == ["c"]
        assert [tool.name for tool in await client.list_tools()] == ["c"] and wire.frames.empty()


@pytest.mark.parametrize("kept", [True, False])
async def test_list_request_that_is_refused_is_not_repeated(kept: bool) -> None:
    async with raw_session(of(kept), MODERN, OFFERS) as (client, wire):
        listing = asyncio.create_task(client.list_tools())
        await wire.send(refusal(await asked_for(wire, "tools/list"), -32602, "no"))
        with pytest.raises(RemoteError):
            await listing
        assert wire.frames.empty()


async def test_cached_result_is_requested_again_after_a_broken_listen_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscribing, "MAX_RETRY_PAUSE", 0.0)
    number, changes, broken = [0], [0], asyncio.Event()

    def listens(until: asyncio.Event | None) -> Step:
        async def step(exchange: Exchange, message: Object) -> None:
            stream = exchange.stream(200, SSE)
            meta: Object = {f"{META}subscriptionId": message["id"]}
            told: Object = {"_meta": meta, "notifications": params_of(message)["notifications"]}
            stream.write(encode_event(frame(notification("notifications/subscriptions/acknowledged", told))))
            await (until.wait() if until is not None else stream.ended)

        return step

    def changed() -> None:
        changes[0] += 1

    async with scripted() as site:
        site.on("server/discover", respond_with(discovered(capabilities=OFFERS)))
        site.on("tools/list", *[numbered(number)] * 2)
        site.on("subscriptions/listen", listens(broken), listens(None))
        async with Client(site.url, on_tools_changed=changed, timeout=PATIENCE) as client:
            assert [tool.name for tool in await client.list_tools()] == ["t1"]
            assert [tool.name for tool in await client.list_tools()] == ["t1"]
            broken.set()
            await eventually(lambda: changes[0] == 1)
            assert [tool.name for tool in await client.list_tools()] == ["t2"]
