"""The broadcast: changes of one process reach the clients of the others. Here the processes are servers in one."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from mcp_ref import Client, Server
from mcp_ref.jsonrpc.messages import Object
from mcp_ref.server import broadcast
from mcp_ref.server.announcements import MAX_QUEUED_CHANGES, Announcers
from mcp_ref.server.broadcast import MAX_MESSAGE_BYTES, Broadcaster
from tests.messages import initialize
from tests.raw_http_client import RawSession, served_over_http
from tests.settings import MODERN, PATIENCE, eventually

LEGACY = "2025-11-25"
ERAS = pytest.mark.parametrize("revision", [MODERN, LEGACY])
URI = "notes://1"
UPDATED = "notifications/resources/updated"


class Hub:
    """An engine in memory, with a channel for each server."""

    def __init__(self) -> None:
        self.published: list[Object] = []
        self.is_away = False
        self._listeners: dict[Channel, tuple[Callable[[bytes], None], Callable[[], None]]] = {}
        self._changed = asyncio.Condition()

    def channel(self) -> Channel:
        """Return a new channel."""
        return Channel(self)

    async def wait_for(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition holds, which depends on the calls of the channels."""
        async with asyncio.timeout(PATIENCE), self._changed:
            await self._changed.wait_for(condition)

    async def note(self) -> None:
        """Check the conditions of `wait_for` again."""
        async with self._changed:
            self._changed.notify_all()

    @property
    def listening(self) -> int:
        """The number of channels that listen."""
        return len(self._listeners)

    def gap(self) -> None:
        """Tell all that messages were missed."""
        for _, gap in self._listeners.values():
            gap()

    def send(self, message: bytes) -> None:
        """Send a message to all, including the sender."""
        for receive, _ in self._listeners.values():
            receive(message)


class Channel:
    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def publish(self, change: bytes) -> None:
        assert len(change) <= MAX_MESSAGE_BYTES
        if self._hub.is_away:
            await self._hub.note()
            raise ConnectionError("the engine is away")
        self._hub.published.append(json.loads(change))
        self._hub.send(change)
        await self._hub.note()

    async def listen(self, receive: Callable[[bytes], None], gap: Callable[[], None]) -> None:
        self._hub._listeners[self] = receive, gap
        gap()
        await self._hub.note()
        try:
            await asyncio.Event().wait()
        finally:
            del self._hub._listeners[self]


def server_of(hub: Hub, **options: Any) -> Server:
    """Return a server with a tool and a resource."""
    server = Server("s", broadcast=hub.channel(), **options)
    server.tool("add")(lambda: None)
    server.resource("notes://{id}")(lambda id: id)
    return server


@contextlib.asynccontextmanager
async def two(hub: Hub) -> AsyncIterator[tuple[Server, Server, str, str]]:
    """Serve two servers over HTTP, and wait until both listen."""
    a, b = server_of(hub), server_of(hub)
    async with a.serve_http() as first, b.serve_http() as second:
        await hub.wait_for(lambda: hub.listening == 2)
        yield a, b, first, second
    assert hub.listening == 0


@ERAS
async def test_resource_updated_in_one_process_reaches_a_subscriber_of_another(revision: str) -> None:
    async with two(Hub()) as (a, b, _, url), Client(url, revision=revision) as client, client.subscribe(URI) as updates:
        async with asyncio.timeout(PATIENCE):
            a.resource_updated(URI)
            assert await anext(updates) == URI
            b.resource_updated(URI)
            assert await anext(updates) == URI


HOSTILE_MESSAGES: list[bytes | Object] = [
    b"", b"\xff", b"[]", b"{}", b"[" * 100_000,
    {"from": [], "changes": [[None, None]], "all": "yes"},
    {"from": "x", "changes": {"ab": 1}},
    {"from": "x", "changes": 5},
    {"from": "x", "changes": [1]},
    {"from": "x", "changes": [[[], "a"]]},
    {"from": "x", "changes": [["a", "b", "c"]]},
    {"from": "x", "changes": [["initialize", None]]},
    {"from": "x", "changes": [[UPDATED, None]]},
    {"from": "x", "changes": [[{}, URI], [UPDATED, {}]]},
    {"from": "x", "changes": [[UPDATED, 1], ["initialize", None]]},
    {"from": "x", "changes": [[UPDATED, URI]] * 200, "pad": " " * MAX_MESSAGE_BYTES},
]  # fmt: skip


@pytest.mark.attack("hostile-message")
async def test_hostile_messages_are_ignored_and_the_next_change_arrives() -> None:
    hub = Hub()
    async with two(hub) as (a, b, _, url), Client(url) as client, client.subscribe(URI) as updates:
        broadcaster = b.catalog.service.broadcaster
        assert broadcaster is not None
        async with asyncio.timeout(PATIENCE):
            for message in HOSTILE_MESSAGES:
                hub.send(message if isinstance(message, bytes) else json.dumps(message).encode())
                assert broadcaster._received.empty(), message
            a.resource_updated("notes://other")
            a.resource_updated(URI)
            assert await anext(updates) == URI


@ERAS
async def test_list_changed_in_one_process_calls_on_change_before_the_clients_of_another(revision: str) -> None:
    hub = Hub()
    async with two(hub) as (a, b, _, url):

        @b.on_change("tools")
        def reload() -> None:
            b.tool("new")(lambda: None)

        async with Client(url, revision=revision) as client, client.watch_lists("tools") as changes:
            async with asyncio.timeout(PATIENCE):
                a.tool("new")(lambda: None)
                assert await anext(changes) == "tools"
                assert [each.name for each in (await client.list_tools())] == ["add", "new"]
    assert [each["changes"] for each in hub.published] == [[["notifications/tools/list_changed", None]]]


async def test_on_change_can_be_a_coroutine_function_and_fail(caplog: pytest.LogCaptureFixture) -> None:
    hub = Hub()
    async with two(hub) as (a, b, _, url), Client(url) as client, client.watch_lists("resources", "tools") as changes:

        @b.on_change("tools")
        async def reload() -> None:
            raise OSError("no database")

        async with asyncio.timeout(PATIENCE):
            a.list_changed("prompts")  # b has no prompts
            a.list_changed("tools")
            a.list_changed("resources")
            assert {await anext(changes), await anext(changes)} == {"tools", "resources"}
    assert "a function of @server.on_change('tools') failed" in caplog.text
    caplog.clear()


async def test_on_change_awaits_an_object_whose_call_is_async() -> None:
    class Reload:
        count = 0

        async def __call__(self) -> None:
            self.count += 1

    hub, reload = Hub(), Reload()
    async with two(hub) as (a, b, _, url), Client(url) as client, client.watch_lists("tools") as changes:
        b.on_change("tools")(reload)
        async with asyncio.timeout(PATIENCE):
            a.list_changed("tools")
            assert await anext(changes) == "tools"
    assert reload.count == 1


def test_on_change_needs_a_list() -> None:
    with pytest.raises(ValueError, match="feature must be tools, resources or prompts, not 'tool'"):
        Server("s").on_change("tool")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "missing", "published"), [(2, 0, [2]), (2, 1, [1, 1]), (1, 0, [1]), (1, 1, ["everything"])]
)
async def test_message_has_the_changes_that_fit_into_max_message_bytes(
    changes: int, missing: int, published: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = Hub()
    async with two(hub) as (a, _, _, _):
        broadcaster = a.catalog.service.broadcaster
        assert broadcaster is not None
        uris = [f"notes://{number}" for number in range(changes)]
        message = {"from": broadcaster._process_name, "changes": [[UPDATED, uri] for uri in uris]}
        monkeypatch.setattr(broadcast, "MAX_MESSAGE_BYTES", len(json.dumps(message)) + 2 - missing)
        for uri in uris:
            a.resource_updated(uri)
        await hub.wait_for(lambda: len(hub.published) == len(published))
    assert [len(each["changes"]) if "changes" in each else "everything" for each in hub.published] == published  # type: ignore[arg-type]


def test_lag_is_the_age_of_the_oldest_change_also_if_everything_may_have_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr(broadcast, "time", SimpleNamespace(monotonic=lambda: now))
    broadcaster = Broadcaster(Hub().channel(), Announcers(), (), {}, lambda function: asyncio.sleep(0))
    assert (broadcaster.waiting, broadcaster.lag) == (0, 0.0)
    for uri in ("a", "b", "a"):
        broadcaster._put((UPDATED, uri))
        now += 1.0
    assert (broadcaster.waiting, broadcaster.lag) == (2, 3.0)
    for number in range(MAX_QUEUED_CHANGES - 2):
        broadcaster._put((UPDATED, str(number)))
    assert (broadcaster.waiting, broadcaster.lag) == (MAX_QUEUED_CHANGES, 3.0)
    for number in range(2):
        broadcaster._put((UPDATED, f"c{number}"))
        assert (broadcaster.waiting, broadcaster.lag) == (1, 3.0)
    assert broadcaster._take_changes() == ({}, 100.0)
    assert (broadcaster.waiting, broadcaster.lag) == (0, 0.0)


async def test_publication_that_takes_too_long_has_failed_and_is_repeated_with_the_later_changes(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(broadcast, "PUBLISH_SECONDS", 0.01)
    monkeypatch.setattr(broadcast, "RETRY_SECONDS", 0.01)
    published, attempts = asyncio.Event(), list[Object]()

    class Hanging(Channel):
        async def publish(self, change: bytes) -> None:
            attempts.append(json.loads(change))
            if len(attempts) == 1:
                server.resource_updated("notes://2")
                await asyncio.Event().wait()
            published.set()

    server = Server("s", broadcast=Hanging(Hub()))
    async with server.serve_http(), asyncio.timeout(PATIENCE):
        server.resource_updated(URI)
        await published.wait()
    assert [each["changes"] for each in attempts] == [[[UPDATED, URI]], [[UPDATED, URI], [UPDATED, "notes://2"]]]
    assert caplog.messages == [
        "the broadcast has failed (publish: TimeoutError: ); it is tried again every second",
        "the broadcast works again (publish)",
    ]
    caplog.clear()


@pytest.mark.parametrize(
    ("message", "received"),
    [
        (
            {"from": "x", "changes": [["notifications/tools/list_changed", 5]]},
            [["notifications/tools/list_changed", None]],
        ),
        ({"from": "x", "changes": [["tasks/update", "1"]]}, [["tasks/update", "1"]]),
        ({"from": "x", "all": True}, [None]),
        ({"from": "us", "all": True}, []),
        ({"from": "x", "all": True, "pad": " " * (MAX_MESSAGE_BYTES - 37)}, [None]),
        ({"from": "x", "all": True, "pad": " " * (MAX_MESSAGE_BYTES - 36)}, []),
    ],
)
def test_message_of_another_process_is_received_up_to_max_message_bytes(
    message: Object, received: list[object], caplog: pytest.LogCaptureFixture
) -> None:
    broadcaster = Broadcaster(Hub().channel(), Announcers(), (), {}, lambda function: asyncio.sleep(0))
    broadcaster._process_name = "us"
    data = json.dumps(message).encode()
    broadcaster._receive(data)
    found = [broadcaster._received.get_nowait() for _ in range(broadcaster._received.qsize())]
    assert [change if change is None else [*change] for change in found] == received
    is_too_long = len(data) > MAX_MESSAGE_BYTES
    assert [text.split(":")[0] for text in caplog.messages] == is_too_long * [
        "ignored a message of the broadcast that is not of this package"
    ]
    caplog.clear()


def test_received_changes_beyond_the_queue_are_replaced_by_everything() -> None:
    broadcaster = Broadcaster(Hub().channel(), Announcers(), (), {}, lambda function: asyncio.sleep(0))
    for number in range(MAX_QUEUED_CHANGES):
        broadcaster._deliver_later((UPDATED, str(number)))
    assert broadcaster._received.qsize() == MAX_QUEUED_CHANGES
    broadcaster._deliver_later((UPDATED, "x"))
    assert (broadcaster._received.qsize(), broadcaster._received.get_nowait()) == (1, None)


async def test_changes_wait_while_the_engine_is_away_and_local_clients_get_theirs(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(broadcast, "RETRY_SECONDS", 0.01)
    hub = Hub()
    async with contextlib.AsyncExitStack() as stack:
        a, _, near, far = await stack.enter_async_context(two(hub))
        client, other = [await stack.enter_async_context(Client(each)) for each in (near, far)]
        updates, distant = [await stack.enter_async_context(each.subscribe(URI)) for each in (client, other)]
        async with asyncio.timeout(PATIENCE):
            hub.is_away = True
            a.resource_updated(URI)
            assert await anext(updates) == URI
            while "the broadcast has failed (publish: ConnectionError: the engine is away)" not in caplog.text:
                await asyncio.sleep(0.01)
            stats = a.stats()
            assert stats.unpublished_changes == 1 and stats.broadcast_lag > 0
            hub.is_away = False
            assert await anext(distant) == URI
            await hub.wait_for(lambda: a.stats().unpublished_changes == 0)
            await eventually(lambda: "the broadcast works again (publish)" in caplog.text)
    assert caplog.text.count("the broadcast has failed") == 1
    caplog.clear()


@pytest.mark.parametrize(
    "changed",
    [[f"notes://{number}/x" for number in range(MAX_QUEUED_CHANGES + 1)], ["notes://" + "x" * MAX_MESSAGE_BYTES]],
    ids=["many", "one that is too long for a message"],
)
async def test_too_large_changes_become_one_message_that_everything_may_have_changed(changed: list[str]) -> None:
    hub = Hub()
    async with two(hub) as (a, _, _, url), Client(url) as client, client.subscribe(URI) as updates:
        for uri in changed:
            a.resource_updated(uri)
        async with asyncio.timeout(PATIENCE):
            assert await anext(updates) == URI
    assert [each.get("all") for each in hub.published] == [True]


@ERAS
async def test_gap_tells_every_local_subscriber_that_everything_may_have_changed(revision: str) -> None:
    hub = Hub()
    async with contextlib.AsyncExitStack() as stack:
        url = (await stack.enter_async_context(two(hub)))[-1]
        client = await stack.enter_async_context(Client(url, revision=revision))
        updates = await stack.enter_async_context(client.subscribe(URI))
        async with client.watch_lists("tools", "resources") as lists:
            hub.gap()
            async with asyncio.timeout(PATIENCE):
                assert await anext(updates) == URI
                assert {await anext(lists), await anext(lists)} == {"tools", "resources"}


async def test_listen_that_fails_begins_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(broadcast, "RETRY_SECONDS", 0.01)
    attempts = 0

    class Failing:
        async def publish(self, change: bytes) -> None:
            raise AssertionError

        async def listen(self, receive: Callable[[bytes], None], gap: Callable[[], None]) -> None:
            nonlocal attempts
            attempts += 1
            if attempts <= 2:
                raise OSError("refused")
            gap()
            gap()
            if attempts == 3:
                return
            began.set()
            await asyncio.Event().wait()

    began = asyncio.Event()
    async with Server("s", broadcast=Failing()).serve_http(), asyncio.timeout(PATIENCE):
        await began.wait()
    returned = "ConnectionError: `listen` has returned, although it must listen until it is cancelled"
    assert caplog.messages == [
        "the broadcast has failed (listen: OSError: refused); it is tried again every second",
        "the broadcast works again (listen)",
        f"the broadcast has failed (listen: {returned}); it is tried again every second",
        "the broadcast works again (listen)",
    ]
    caplog.clear()


async def test_changes_before_and_after_serving_are_not_published_and_the_end_waits_for_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(broadcast, "STOP_SECONDS", None)  # without a limit, it would wait without end
    hub = Hub()
    server = server_of(hub)
    server.resource_updated(URI)
    async with server.serve_http():
        await hub.wait_for(lambda: hub.listening == 1)
    server.resource_updated(URI)
    assert not hub.published


async def test_last_change_before_the_end_is_published() -> None:
    hub = Hub()
    async with server_of(hub).serve_http(), server_of(hub).serve_http():
        await hub.wait_for(lambda: hub.listening == 2)
        server = server_of(hub)
        async with server.serve_http():
            server.resource_updated(URI)
            await asyncio.sleep(0)
        assert len(hub.published) == 1


@pytest.mark.parametrize("name", ["", "a b", "a.b", "é", "x" * 33, "a\n"])
def test_node_name_that_a_load_balancer_cannot_read_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="a node's name must have 1 to 32 letters"):
        Server("s", node=name)


async def test_session_ids_of_a_node_begin_with_its_name_on_both_transports() -> None:
    async with served_over_http(Server("s", node="eu-1")) as web:
        talk = RawSession(web)
        reply = await talk.post(initialize())
        name, _, secret = reply.headers["mcp-session-id"].partition(".")
        assert name == "eu-1" and len(secret) == 32
        stream = await web.ask("GET", "/sse")
        event = await stream.event()
        assert event is not None and event["data"].startswith("/messages?session=eu-1.")


async def test_change_during_the_publication_of_an_equal_one_is_published_too() -> None:
    hub = Hub()
    async with two(hub) as (a, _, _, _):
        channel = a.catalog.service.broadcaster
        assert channel is not None
        publish, began, go = channel._broadcast.publish, asyncio.Event(), asyncio.Event()

        async def slow(change: bytes) -> None:
            began.set()
            await go.wait()
            await publish(change)

        channel._broadcast.publish = slow  # type: ignore[method-assign]
        a.resource_updated(URI)
        async with asyncio.timeout(PATIENCE):
            await began.wait()
            a.resource_updated(URI)
            await asyncio.sleep(0)  # it is queued by a callback of the event loop
            go.set()
            await hub.wait_for(lambda: len(hub.published) == 2)


async def test_task_ids_of_a_node_begin_with_its_name() -> None:
    server = Server("s", node="eu-1", broadcast=Hub().channel())
    server.tool("job", task="required")(lambda: "done")
    async with server.serve_http() as url, Client(url) as client:
        started = await client.start_tool("job", {})
        assert started.id is not None
        assert started.id.startswith("eu-1.") and len(started.id) == len("eu-1.") + 32


async def test_change_that_is_being_published_when_the_server_stops_still_reaches_the_others() -> None:
    hub, begun, go = Hub(), asyncio.Event(), asyncio.Event()

    class Slow(Channel):
        async def publish(self, change: bytes) -> None:
            begun.set()
            await go.wait()
            await super().publish(change)

    server = Server("s", broadcast=Slow(hub))
    async with server.serve_http(), asyncio.timeout(PATIENCE):
        await hub.wait_for(lambda: hub.listening == 1)
        server.resource_updated(URI)
        await begun.wait()
        stopping = asyncio.create_task(server.close())
        await asyncio.sleep(0)
        await hub.wait_for(lambda: hub.listening == 1)
        asyncio.get_running_loop().call_later(0.05, go.set)
        await stopping
    assert [each["changes"] for each in hub.published] == [[["notifications/resources/updated", URI]]]
