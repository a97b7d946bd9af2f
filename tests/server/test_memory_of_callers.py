"""The memory that one hostile caller can fill over the wire stays below the figures of `python3 -m mcp_ref limits`."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import tracemalloc
from collections.abc import Awaitable, Callable
from typing import cast

import pytest

from mcp_ref import CallToolResult, Client, Context, Limits, MemoryTaskStore, ProtocolError, Server, TextContent
from mcp_ref.basic import access
from mcp_ref.cli.limits import CONNECTION_COST, memory
from mcp_ref.extensions.auth import dpop
from mcp_ref.extensions.tasks import receiver
from mcp_ref.extensions.tasks.types import new_task, with_status
from mcp_ref.jsonrpc.messages import INTERNAL_ERROR, INVALID_PARAMS, Object
from mcp_ref.lib.http.connections import MAX_UNCOUNTED
from mcp_ref.lib.http.message import MIN_COUNTED_SIZE, HttpLimits
from mcp_ref.lib.http.server import start_server
from mcp_ref.lib.shares import ShareExceeded, Shares, memory_of
from mcp_ref.server import announcements
from mcp_ref.server.http import HttpApp
from mcp_ref.transports.streamable_http.event_store import MAX_DROPPED_STREAMS, STORE_LIMITS, MemoryEventStore
from mcp_ref.transports.streamable_http.posted_session import EndpointLimits
from tests.http_wire import mirrored_headers
from tests.messages import Received, initialize, request, stateless_request
from tests.raw_http_client import BOTH_TYPES, JSON_TYPE, RawSession, Reply, http_session, served_over_http
from tests.raw_peers import connected_client, raw_client
from tests.settings import MODERN, PATIENCE, eventually

FIGURES = {each.contents: each for each in memory()}


def figure_of(table: str) -> tuple[int, int]:
    """Return the memory that one caller, and that all callers, can fill in a table, in bytes."""
    return FIGURES[table].one_peer, FIGURES[table].all_peers


async def growth(fill: Callable[[], Awaitable[None]]) -> int:
    """Return the memory that a function leaves, in bytes."""
    gc.collect()
    tracemalloc.start()
    try:
        await fill()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def uris(number: int) -> list[str]:
    """Return 200 long URIs whose canonical form is another text."""
    return [f"DOCS://a/{number}/{each}/" + "x" * 8000 for each in range(200)]


@pytest.mark.attack("subscription-memory")
@pytest.mark.parametrize("kind", ["memory", "http"])
async def test_listen_and_subscribe_share_the_bytes_of_one_peer(kind: str) -> None:
    server = Server("s")
    server.resources.add("docs://a/{+path}", lambda path: path)
    shares, figure = server.catalog.service.subscribed, FIGURES["subscriptions: URIs"]
    assert shares.per_caller == figure.one_peer == access.MAX_SUBSCRIBED_BYTES_PER_CALLER

    async def fill() -> None:
        for number in range(10):
            params: Object = {"notifications": {"resourceSubscriptions": [*uris(number)]}}
            await modern.send(stateless_request("subscriptions/listen", params, number))
            message = await modern.receive_object()
            if "error" in message:
                error = message["error"]
                assert error["code"] == INVALID_PARAMS
                assert (
                    f"your subscriptions need more than {figure.one_peer} bytes" in str(error["message"])
                    and number >= 1
                )
                return
        raise AssertionError("the server accepted all subscriptions")

    async with raw_client(server, kind) as modern:
        if kind == "memory":
            assert await growth(fill) <= figure.one_peer
        else:
            await fill()  # the client of this test keeps bytes too
        assert shares.used > figure.one_peer / 2
        if kind == "memory":
            async with connected_client(server) as legacy:
                refused = 0
                for uri in uris(99)[:200]:
                    refused += "error" in await legacy.ask("resources/subscribe", {"uri": uri})
                assert refused and shares.used <= figure.one_peer
                uri = uris(99)[0]
                before = shares.used
                await legacy.ask("resources/unsubscribe", {"uri": uri})
                await legacy.ask("resources/unsubscribe", {"uri": uri})
                assert shares.used < before
                assert "result" in await legacy.ask("resources/subscribe", {"uri": uri})
                assert shares.used == before
    await eventually(lambda: shares.used == 0 and not shares.by_caller)


@pytest.mark.attack("session-memory")
@pytest.mark.breaks("everything")
async def test_sessions_of_one_caller_need_at_most_the_memory_that_is_counted() -> None:
    """Send `initialize` messages whose Python objects are many times larger than their bytes."""
    members: Object = {f"n{number}": [[], {}] for number in range(2500)}
    limits = EndpointLimits(session_bytes_per_caller=7_000_000)
    async with served_over_http(Server("s"), limits=limits) as web:
        capabilities: Object = {"experimental": members}
        talks = [RawSession(web) for _ in range(4)]

        async def fill() -> None:
            for talk in talks:
                await talk.handshake(capabilities=capabilities)
                await talk.get()  # a session with a listening client is not idle

        used, shares = await growth(fill), web.site._endpoint.table._shares
        refused = await RawSession(web).post(initialize(capabilities=capabilities))
        assert refused.status == 503 and "your sessions need more than 7000000 bytes" in refused.why
        assert used <= shares.used <= 7_000_000
        assert (await talks[0].delete()).status == 204
        assert (await RawSession(web).post(initialize(capabilities=capabilities))).status == 200
        for talk in talks[1:]:
            assert (await talk.delete()).status == 204
        assert shares.used == sum(session.size for session in web.site._endpoint.sessions.values())


@pytest.mark.attack("session-memory")
async def test_messages_that_wait_for_a_get_are_only_in_the_event_store() -> None:
    server = Server("s")

    @server.tool()
    async def flood(context: Context) -> None:
        for number in range(200):
            await context.log("info", f"{number} " + "x" * 10_000)

    assert figure_of("events for clients that resume or listen") == 2 * (STORE_LIMITS["max_bytes"],)
    store = MemoryEventStore(max_bytes=1_000_000)
    async with http_session(server, json_responses=True, store=store) as talk:

        async def fill() -> None:
            assert (await talk.post(request("tools/call", {"name": "flood"}))).status == 200

        used = await growth(fill)
        # all messages have 2 MB, and the test itself keeps some memory
        assert 900_000 < store._size <= 1_000_000 and used <= store._size + 300_000
        listening = await talk.get()
        message = json.dumps(await listening.message())
        assert "notifications/message" in message and '"data": "0 ' not in message


@pytest.mark.attack("request-memory")
@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
async def test_running_calls_leave_the_memory_for_bodies_to_other_callers(revision: str) -> None:
    server, go, running = Server("s"), asyncio.Event(), list[int]()

    @server.tool()
    async def hold(text: str) -> int:
        running.append(len(text))
        await go.wait()
        return len(text)

    calls = list[asyncio.Task[CallToolResult]]()
    async with (
        server.serve_http(http_limits=HttpLimits(bodies_size=1_000_000)) as url,
        Client(url, revisions=[revision]) as client,
    ):
        for _ in range(4):
            calls.append(asyncio.create_task(client.call_tool("hold", {"text": "x" * 400_000})))
            await eventually(lambda: len(running) == len(calls))
        go.set()
        assert [(await call).text for call in calls] == 4 * ["400000"]


HOSTILE_TEXTS = {
    "lists": "[" + "[]," * 5_000 + "[]]",
    "objects": "[" + "{}," * 20_000 + "{}]",
    "small objects": "[" + '{"a":1},' * 10_000 + "{}]",
    "one object": "{" + ",".join(f'"{each}":{each + 300}' for each in range(10_000)) + "}",
    "numbers": "[" + ",".join(str(each + 300) for each in range(10_000)) + "]",
    "fractions": "[" + "1.5," * 20_000 + "1.5]",
    "texts": "[" + ",".join(f'"{each}"' for each in range(10_000)) + "]",
    "wide texts": "[" + ",".join(f'"\N{GREEK SMALL LETTER OMEGA}{each}"' for each in range(10_000)) + "]",
    "one wide character": '["' + "a" * 60_000 + '\N{PILE OF POO}"]',
    "one escaped wide character": '["' + "a" * 60_000 + '\\ud83d\\udca9"]',
}


@pytest.mark.parametrize("text", HOSTILE_TEXTS.values(), ids=HOSTILE_TEXTS)
def test_memory_of_a_text_is_at_least_that_of_its_objects(text: str) -> None:
    frame = text.encode()
    tracemalloc.start()
    try:
        value = json.loads(frame)
        used = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert value and used <= memory_of(frame) <= 6 * used


def held_call(id: int, modern: bool) -> Received:
    """Return a call of the tool `hold` whose arguments need many times the memory of their text."""
    make, arguments = stateless_request if modern else request, {"texts": json.loads(HOSTILE_TEXTS["lists"])}
    return make("tools/call", {"name": "hold", "arguments": arguments}, id)


def holding() -> tuple[Server, asyncio.Event]:
    """Return a server whose tool `hold` waits for the event."""
    server, free = Server("s", limits=Limits(max_bytes_in_flight=2_500_000)), asyncio.Event()

    @server.tool()
    async def hold(texts: list[list[int]]) -> int:
        await free.wait()
        return len(texts)

    return server, free


@pytest.mark.attack("request-memory")
@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
@pytest.mark.parametrize("kind", ["memory", "stdio"])
@pytest.mark.breaks("everything")
async def test_requests_of_one_connection_in_flight_have_a_limit_in_bytes(kind: str, revision: str) -> None:
    server, free = holding()
    refusal = "your requests in flight need more than 2500000 bytes, which is the limit; retry later"
    async with connected_client(server, kind, revision) as client:

        async def fill() -> None:
            for id in range(4):
                await client.send(held_call(id, revision == MODERN))
            error = (await client.receive_object())["error"]
            assert (error["code"], error["message"]) == (INTERNAL_ERROR, refusal)

        used = await growth(fill)
        assert 1_250_000 < used <= 2_500_000 or kind == "memory"  # in memory, the client of this test keeps bytes too
        free.set()
        for _ in range(3):
            assert "result" in await client.receive_object()
        await client.send(held_call(9, revision == MODERN))
        assert "result" in await client.receive_object()


@pytest.mark.attack("request-memory")
@pytest.mark.parametrize("modern", [False, True], ids=["session", "stateless"])
@pytest.mark.breaks("everything")
async def test_requests_of_one_http_caller_in_flight_need_at_most_the_memory_that_is_counted(modern: bool) -> None:
    server, free = holding()
    limits = EndpointLimits(request_bytes_per_caller=2_500_000)
    async with served_over_http(server, limits=limits) as web:
        talks = [RawSession(web) for _ in range(4)]
        for talk in () if modern else talks:
            await talk.handshake()  # a session of its own for each request: the limit is for all of a caller
        shares, sent = web.site._endpoint.requests._shares, list[Reply]()

        async def fill() -> None:
            for talk in talks[:3]:
                sent.append(await talk.send(held_call(len(sent), modern)))
                await eventually(lambda: shares.used > len(sent) * 625_000)

        used = await growth(fill)
        assert used <= shares.used <= 2_500_000
        refused = await talks[3].post(held_call(3, modern))
        text = "your requests in flight need more than 2500000 bytes"
        assert (refused.status, text in str(refused.json)) == (503 if modern else 200, True)
        if not modern:
            for reply in sent:
                await reply.cut()  # a disconnection does not end a request of a session
            assert shares.used > 1_875_000
        free.set()
        await eventually(lambda: not shares.by_caller and shares.used == 0)
        assert (await talks[3].post(held_call(4, modern))).status == 200


@pytest.mark.attack("task-memory")
async def test_arguments_of_running_tasks_have_a_limit_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiver, "MAX_ARGUMENT_BYTES_PER_CALLER", 2_500_000)
    server, free = Server("s"), asyncio.Event()

    @server.tool(task="optional")
    async def hold(texts: list[list[int]]) -> int:
        await free.wait()
        return len(texts)

    async with connected_client(server) as client:
        call = held_call(0, False)
        params: Object = {**call["params"], "task": {"ttl": 60_000}}
        shares = server.catalog.tasks._arguments

        async def fill() -> None:
            for id in range(3):
                assert "result" in await client.ask("tools/call", params, id)

        used = await growth(fill)
        assert used <= shares.used <= 2_500_000
        error = (await client.ask("tools/call", params, 4))["error"]
        assert "arguments of running tasks need more than 2500000" in str(error["message"])
        free.set()
        await eventually(lambda: shares.used == 0 and not shares.by_caller)


@pytest.mark.attack("session-memory")
@pytest.mark.parametrize("size", [0, 1, 50, 1000])
async def test_event_store_needs_at_most_the_memory_that_it_counts(size: int) -> None:
    stores: list[MemoryEventStore] = []

    async def fill() -> None:
        store = MemoryEventStore(max_bytes=1_000_000)
        stores.append(store)
        for number in range(5000):
            session = f"{number % 20:032}"
            if number < 20:
                store.add_session(session, b"", None)
            store.append(session, f"1234abcd-{number}", (b"%d" % number).ljust(size) if size else b"")

    used = await growth(fill)
    dropped = 20 * MAX_DROPPED_STREAMS * 150  # the names of streams, which count for the session
    assert used <= stores[0]._size + dropped and stores[0]._size <= 1_000_000


@pytest.mark.attack("proof-replay-by-flood")
async def test_proofs_of_one_caller_need_at_most_the_memory_in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dpop, "MAX_PROOFS_PER_CALLER", 1000)
    proofs = dpop.DpopCheck()

    async def fill() -> None:
        for number in range(3000):
            proofs._use("caller", f"{number:043}")

    assert await growth(fill) <= FIGURES["DPoP proofs"].one_peer / 10


@pytest.mark.attack("task-memory")
@pytest.mark.parametrize("kind", ["memory", "http"])
async def test_results_of_tasks_of_one_caller_need_at_most_the_memory_that_is_counted(kind: str) -> None:
    server = Server("s", task_store=(store := MemoryTaskStore(max_bytes_per_caller=3_000_000)))

    @server.tool(task="required")
    async def make() -> list[list[int]]:
        return cast("list[list[int]]", json.loads(HOSTILE_TEXTS["lists"]))

    async def fill() -> None:
        params: Object = {"name": "make", "arguments": {}, "task": {"ttl": 60_000}}
        for id in range(2, 12):
            await client.send(request("tools/call", params, id))
            while (await client.receive_object()).get("id") != id:
                pass  # a notification about the status of a task
            await eventually(lambda: all(kept.task.is_over for kept in store._tasks.values()))

    async with connected_client(server, kind) as client:
        used = await growth(fill)
        assert 0 < used <= store._bytes <= 3_000_000 and len(store._tasks) < 10


@pytest.mark.attack("queue-memory")
async def test_changes_for_streams_that_are_not_read_need_at_most_the_memory_that_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(announcements, "MAX_QUEUED_BYTES_PER_CALLER", 1_000_000)
    server = Server("s")
    server.resources.add("a://{+path}", lambda path: path)
    server.tool("old")(lambda: None)
    shares = server.catalog.announcers.queued
    assert figure_of("changes for unread streams") == (8 * 2**20, 64 * 2**20)
    async with served_over_http(server) as web:
        listening = web.http._sockets[0]
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)  # accepted connections have this size too
        params: Object = {"notifications": {"resourceSubscriptions": ["a://x"], "toolsListChanged": True}}
        streams = [await RawSession(web).post(stateless_request("subscriptions/listen", params, id)) for id in range(4)]
        for stream in streams:
            await stream.object()
            stream.writer.transport.pause_reading()  # type: ignore[attr-defined]

        async def fill() -> None:
            number = 0
            async with asyncio.timeout(PATIENCE):
                while shares.used < 900_000:
                    server.resource_updated(f"a://x/{number}/{'y' * 8000}")
                    number += 1
                    await asyncio.sleep(0)  # the server writes until the kernel's buffers are full, and changes wait

        used = await growth(fill)
        assert shares.used <= 1_000_000 and shares.by_caller.keys() == {"127.0.0.1"}
        assert used <= shares.used + 4 * 2 * 64 * 1024  # each stream has at most 64 KiB that are not sent, twice
        server.tool("new")(lambda: None)
        for stream in streams:
            stream.writer.transport.resume_reading()  # type: ignore[attr-defined]
        async with asyncio.timeout(PATIENCE):
            for stream in streams:  # the latest changes arrive
                while (message := await stream.object())["method"] != "notifications/tools/list_changed":
                    assert message["method"] == "notifications/resources/updated"
        await eventually(lambda: shares.used == 0)


@pytest.mark.attack("session-memory")
@pytest.mark.breaks("everything")
async def test_http_sse_sessions_of_one_caller_need_at_most_the_memory_that_is_counted() -> None:
    members: Object = {f"n{number}": [[], {}] for number in range(2500)}
    body = json.dumps(initialize("2024-11-05", {"experimental": members})).encode()
    async with served_over_http(Server("s"), limits=EndpointLimits(session_bytes_per_caller=7_000_000)) as web:
        endpoint, statuses = web.site._http_sse, list[int]()
        assert endpoint is not None

        async def fill() -> None:
            for _ in range(5):
                stream = await web.ask("GET", "/sse", b"", "Accept: text/event-stream")
                event = await stream.event() or {}
                statuses.append((await web.ask("POST", event["data"], body, "Content-Type: application/json")).status)

        used = await growth(fill)
        assert set(statuses) == {202, 503} and used <= endpoint._memory.used <= 7_000_000


async def test_connections_need_at_most_the_memory_in_the_table() -> None:
    """Open connections with half a head, and others with half a body, from sockets that need no memory here."""
    limits, count = HttpLimits(bodies_size=400_000), 40
    async with served_over_http(Server("s"), limits) as web:
        sockets = list[socket.socket]()

        async def send(data: bytes) -> None:
            connection = socket.create_connection(web.http.address)
            sockets.append(connection)
            connection.setblocking(False)
            await asyncio.get_running_loop().sock_sendall(connection, data)

        head = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        whole = head + b"Content-Type: application/json\r\nContent-Length: 100000\r\n\r\n"

        async def fill() -> None:
            for _ in range(count):
                await send(head + b"X: " + b"x" * (MIN_COUNTED_SIZE - 100))
            for _ in range(10):
                await send(whole + b"x" * 90_000)
            await eventually(lambda: web.http.connection_count == count + 10)
            await asyncio.sleep(0.2)  # so that the server has read all

        try:
            used = await growth(fill)
            assert used <= (count + 10) * (MIN_COUNTED_SIZE + CONNECTION_COST) + limits.bodies_size
            assert used > count * MIN_COUNTED_SIZE
        finally:
            for each in sockets:
                each.close()


async def test_unread_responses_need_at_most_the_memory_in_the_table() -> None:
    """Call a tool with a large result over sockets that read nothing, and whose buffers in the kernel are small."""
    text, count, limits = "x" * 200_000, 20, HttpLimits(unread_size=1_000_000)
    server, sockets = Server("s"), [socket.create_server(("127.0.0.1", 0))]
    sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)  # connections that it accepts have this size too

    @server.tool()
    async def large() -> CallToolResult:
        return CallToolResult([TextContent(text)])

    body = json.dumps(stateless_request("tools/call", {"name": "large"})).encode()
    usual = {"Host": "127.0.0.1", "Accept": BOTH_TYPES, "Content-Type": JSON_TYPE, "Content-Length": str(len(body))}
    lines = [f"{name}: {value}" for name, value in {**usual, **mirrored_headers(body)}.items()]
    call = "\r\n".join(["POST /mcp HTTP/1.1", *lines, "", ""]).encode() + body
    site = HttpApp(server.catalog)
    async with await start_server(site.handle, sockets[0], limits=limits) as listening:
        connections = listening._connections

        async def fill() -> None:
            for _ in range(count):
                sockets.append(socket.socket())
                sockets[-1].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                sockets[-1].setblocking(False)
                await connections.loop.sock_connect(sockets[-1], listening.address)
                await connections.loop.sock_sendall(sockets[-1], call)
            await eventually(lambda: not connections.has_room())

        try:
            used = await growth(fill)
            # the last response can be written just before the limit is reached
            most = limits.unread_size + len(text) + count * (MAX_UNCOUNTED + CONNECTION_COST)
            assert limits.unread_size <= used <= most
        finally:
            for each in sockets:
                each.close()
    await site.close()


@pytest.mark.attack("task-memory")
def test_task_store_limits_the_bytes_of_one_peer_and_not_those_of_others() -> None:
    store = MemoryTaskStore(max_bytes_per_caller=10_000)
    tasks = [new_task(1000, 1000, 0.0) for _ in range(30)]
    for task in tasks:
        store.put(task, "hostile", 1e12)
    over = [with_status(task, "completed", 0.0, None, result={"x": "y" * 900}) for task in tasks]
    for task in over:
        store.put(task, "hostile", 1e12)
        assert sum(each.size for each in store._tasks.values()) <= 10_000
    other = new_task(1000, 1000, 0.0)
    store.put(with_status(other, "completed", 0.0, None, result={"x": "y" * 900}), "other", 1e12)
    assert store.get(other.task_id, "other") and store.get(over[-1].task_id, "hostile")
    with pytest.raises(ProtocolError, match="10000 bytes"):
        store.put(with_status(other, "completed", 0.0, None, result={"x": "y" * 11_000}), "hostile too", 1e12)


def test_shares_limit_each_caller_and_all_callers() -> None:
    shares = Shares("things", 10, 25)
    for caller in ("a", "b"):
        shares.take(caller, 10)
    with pytest.raises(ShareExceeded, match="your things need more than 10 bytes"):
        shares.take("a", 1)
    with pytest.raises(ShareExceeded, match="the things of all clients need more than 25 bytes"):
        shares.take("c", 6)
    shares.give_back("a", 10)
    assert shares.by_caller == {"b": 10} and shares.used == 10
    shares.take("c", 6)


def test_limits_of_one_peer_are_at_most_those_of_all_callers() -> None:
    for figure in FIGURES.values():
        assert 0 < figure.one_peer <= (figure.all_peers or figure.one_peer)
