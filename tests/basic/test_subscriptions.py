"""Subscriptions: the honored filter, the notifications of each subscription, and their end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest

from mcp_ref import Server
from mcp_ref.basic.subscriptions import MAX_RESOURCES
from mcp_ref.jsonrpc.dispatcher import Limits
from mcp_ref.jsonrpc.messages import INTERNAL_ERROR, INVALID_PARAMS, JSON, Object
from mcp_ref.server import announcements, session
from mcp_ref.server.announcements import Announcer
from mcp_ref.server.subscriptions import OpenSubscription
from mcp_ref.transports.memory import MemoryTransport, memory_pair
from tests.forked_python import python
from tests.matrix import CONNECTED_KINDS, STATELESS_KINDS
from tests.messages import error_of, notification, server_info_meta, stateless_request
from tests.raw_http_client import HoldingServer, RawSession, Reply, served_over_http
from tests.raw_peers import Wire, _wire_of, add_and_remove, connected_client, raw_client
from tests.settings import META, PATIENCE, eventually, run

SUBSCRIPTION = f"{META}subscriptionId"

LISTS: Object = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}


def make_server() -> Server:
    """Return a server with all features, which has resources of any name and nothing else."""
    server = Server("s")
    add_and_remove(server, "tools")
    add_and_remove(server, "prompts")
    for scheme in ("test", "file", "host"):
        server.resource(f"{scheme}://{{+rest}}", name=scheme, absolute_paths=True)(lambda rest: rest)
    return server


def subscriptions(server: Server) -> set[Announcer]:
    """Return the open subscriptions."""
    return {each for each in server.catalog.announcers if isinstance(each, OpenSubscription)}


def listen(id: JSON = 1, **filter: JSON) -> Object:
    return stateless_request("subscriptions/listen", {"notifications": filter}, id)


def told(id: JSON, method: str, **params: JSON) -> Object:
    """Return a notification of a subscription."""
    return notification(f"notifications/{method}", {"_meta": {SUBSCRIPTION: id}, **params})


def acknowledged(id: JSON, **filter: JSON) -> Object:
    return told(id, "subscriptions/acknowledged", notifications=filter)


def updated(id: JSON, uri: str) -> Object:
    return told(id, "resources/updated", uri=uri)


def ended(id: JSON) -> Object:
    """Return the result of a subscription."""
    meta: Object = {**server_info_meta(), SUBSCRIPTION: id}
    return {"jsonrpc": "2.0", "id": id, "result": {"resultType": "complete", "_meta": meta}}


def same(came: JSON, expected: JSON) -> bool:
    """Return True for equal JSON, where `1` differs from `true` and `"1"`."""
    return json.dumps(came, sort_keys=True) == json.dumps(expected, sort_keys=True)


# ------------------------------------------------------------------------------------------------ beginning


@STATELESS_KINDS
@pytest.mark.parametrize("id", [0, 1, -7, "", "1", "l"])
@pytest.mark.spec("2026-07-28/basic/patterns/subscriptions#acknowledgment-1,2", "2026-07-28/basic/index#meta-16")
async def test_acknowledged_comes_first_with_the_honored_filter_and_subscription_id(kind: str, id: JSON) -> None:
    server = make_server()
    async with raw_client(server, kind) as wire:
        wanted: Object = {**LISTS, "resourceSubscriptions": ["test://a", "test://b"]}
        await wire.send(listen(id, **wanted))
        server.resource_updated("test://a")  # whenever that is heard, it is told behind
        assert same(await wire.receive_object(), acknowledged(id, **wanted))
        server.resource_updated("test://b")
        while not same(came := await wire.receive_object(), updated(id, "test://b")):
            assert same(came, updated(id, "test://a"))


@pytest.mark.parametrize(
    ("wanted", "honored"),
    [
        ({}, {}),
        ({"toolsListChanged": False, "resourceSubscriptions": []}, {"resourceSubscriptions": []}),
        ({"toolsListChanged": True, "promptsListChanged": False}, {"toolsListChanged": True}),
        ({"no/such": True, "promptsListChanged": True}, {"promptsListChanged": True}),
        (LISTS, LISTS),
    ],
)
async def test_acknowledged_lacks_types_outside_the_filter(wanted: Object, honored: Object) -> None:
    async with raw_client(make_server()) as wire:
        await wire.send(listen(1, **wanted))
        assert await wire.receive_object() == acknowledged(1, **honored)


async def test_acknowledged_lacks_types_that_the_server_does_not_offer() -> None:
    wanted: Object = {**LISTS, "resourceSubscriptions": ["test://a"], "taskIds": ["1"]}
    for feature, honored in (
        ("tools", {"toolsListChanged": True}),
        ("prompts", {"promptsListChanged": True}),
        ("resources", {"resourcesListChanged": True, "resourceSubscriptions": ["test://a"]}),
        (None, {}),
    ):
        server = Server("s", extensions={"com.example/search": {}})  # not the extension for tasks
        if feature in ("tools", "prompts"):
            add_and_remove(server, feature)
        if feature == "resources":
            server.resource("test://a")(lambda: "a")
        async with raw_client(server) as wire:
            await wire.send(listen(1, **wanted))
            assert await wire.receive_object() == acknowledged(1, **honored)


@pytest.mark.parametrize(
    "params",
    [{}, {"notifications": None}, {"notifications": []}, {"notifications": {"toolsListChanged": 1}}]
    + [{"notifications": {"resourceSubscriptions": wrong}} for wrong in ("test://a", [3], {"a": 1})],
    ids=str,
)
async def test_listen_filter_of_the_wrong_shape_is_invalid_params(params: Object) -> None:
    server = make_server()
    async with raw_client(server) as wire:
        error_of(await wire.ask_stateless("subscriptions/listen", params), INVALID_PARAMS)
        assert not subscriptions(server)


# --------------------------------------------------------------------------------------------- delivered notifications


def change_all(server: Server) -> None:
    """Announce one change of everything, last that of `test://end`."""
    server.tool("t")(lambda: None)
    server.prompt("p")(lambda: "p")
    server.resource("test://r")(lambda: "r")
    server.resource_updated("test://a")
    server.resource_updated("test://end")


CHANGES: dict[str, tuple[Object, Object]] = {
    "tools": ({"toolsListChanged": True}, told(1, "tools/list_changed")),
    "prompts": ({"promptsListChanged": True}, told(1, "prompts/list_changed")),
    "resources": ({"resourcesListChanged": True}, told(1, "resources/list_changed")),
    "updates": ({"resourceSubscriptions": ["test://end", "test://a"]}, updated(1, "test://a")),
    "other spelling": ({"resourceSubscriptions": ["test://end", "TEST://a"]}, updated(1, "TEST://a")),
}


@STATELESS_KINDS
@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.spec("2026-07-28/basic/patterns/subscriptions#opening-a-stream-1", "2026-07-28/basic/index#meta-16")
async def test_listen_delivers_only_the_chosen_notifications(kind: str, what: str) -> None:
    wanted, expected = CHANGES[what]
    server = make_server()
    async with raw_client(server, kind) as wire:
        filter: Object = {"resourceSubscriptions": ["test://end"], **wanted}
        await wire.send(listen(1, **filter))
        assert await wire.receive_object() == acknowledged(1, **filter)
        change_all(server)
        assert [await wire.receive_object(), await wire.receive_object()] == [expected, updated(1, "test://end")]


@CONNECTED_KINDS
async def test_list_changed_is_not_sent_without_a_subscription(kind: str) -> None:
    server = make_server()
    async with raw_client(server, kind) as wire:
        await wire.ask_stateless("tools/list")
        change_all(server)
        await wire.nothing_else()


async def test_listen_resource_stands_for_those_below_it() -> None:
    server = make_server()
    async with raw_client(server) as wire:
        wanted: JSON = ["file:///a", "file:///b/", "host:///", "test://end"]
        await wire.send(listen(1, resourceSubscriptions=wanted))
        await wire.receive_object()
        told_of = ["file:///a/x", "file:///a", "file:///b/y/z", "file:///a/", "host:///x"]
        for uri in [*told_of, "file:///ab", "file:///", "file:///bc", "file:///c/a", "host://other/x", "test://end"]:
            server.resource_updated(uri)
        for uri in [*told_of, "test://end"]:
            assert await wire.receive_object() == updated(1, uri)


@STATELESS_KINDS
async def test_listen_several_at_once_each_has_its_own_subscription_id(kind: str) -> None:
    server = make_server()
    async with raw_client(server, kind) as wire:
        ids: list[JSON] = [1, "1", 0, ""]
        for id in ids:
            filter: Object = {"toolsListChanged": True, "resourceSubscriptions": [f"test://r{id}"]}
            await wire.send(listen(id, **filter))
            assert same(await wire.receive_object(), acknowledged(id, **filter))
        server.tool("t")(lambda: None)
        server.resource_updated("test://r0")
        came = [json.dumps(await wire.receive_object(), sort_keys=True) for _ in range(5)]
        expected = [*(told(id, "tools/list_changed") for id in ids), updated(0, "test://r0")]
        assert sorted(came) == sorted(json.dumps(each, sort_keys=True) for each in expected)


@STATELESS_KINDS
async def test_listen_beside_a_legacy_session_leaves_its_notifications_alone(kind: str) -> None:
    server = make_server()
    async with connected_client(server, kind) as wire:
        await wire.send(listen(1, toolsListChanged=True))
        assert await wire.receive_object() == acknowledged(1, toolsListChanged=True)
        server.tool("t")(lambda: None)
        came = [await wire.receive_object(), await wire.receive_object()]
        assert notification("notifications/tools/list_changed") in [
            {name: value for name, value in each.items() if value != {}} for each in came
        ]
        assert told(1, "tools/list_changed") in came


@STATELESS_KINDS
async def test_listen_merges_changes_that_are_not_yet_sent(kind: str) -> None:
    server = make_server()
    async with raw_client(server, kind) as wire:
        await wire.send(listen(1, resourceSubscriptions=["test://a", "test://end"]))
        await wire.receive_object()
        for _ in range(10):
            server.resource_updated("test://a")
        server.resource_updated("test://end")
        assert [await wire.receive_object(), await wire.receive_object()] == [
            updated(1, "test://a"),
            updated(1, "test://end"),
        ]


# ------------------------------------------------------------------------------------------------ bounds


async def test_listen_with_too_many_resources_is_refused() -> None:
    server = make_server()
    async with raw_client(server) as wire:
        many: list[JSON] = [f"test://{number}" for number in range(MAX_RESOURCES + 1)]
        answer = await wire.ask_stateless("subscriptions/listen", {"notifications": {"resourceSubscriptions": many}})
        error = error_of(answer, INVALID_PARAMS)
        assert str(MAX_RESOURCES) in str(error["message"])
        await wire.send(listen(2, resourceSubscriptions=many[1:]))
        assert (await wire.receive_object())["method"] == "notifications/subscriptions/acknowledged"


@CONNECTED_KINDS
async def test_listen_lookup_of_resources_does_not_block_other_requests(kind: str) -> None:
    async with raw_client(make_server(), kind) as wire:
        await wire.send(listen(1, resourceSubscriptions=[f"test://{number}" for number in range(MAX_RESOURCES)]))
        assert (await wire.ask_stateless("server/discover", id=2))["id"] == 2
        assert (await wire.receive_object())["method"] == "notifications/subscriptions/acknowledged"


@STATELESS_KINDS
async def test_listen_queue_is_bounded_and_drops_the_oldest(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announcements, "MAX_QUEUED_CHANGES", 3)
    monkeypatch.setattr(OpenSubscription, "has_room", False)
    asyncio.get_running_loop().set_task_factory(None)  # an eager task would leave nothing in the queue
    server = make_server()
    async with raw_client(server, kind) as wire:
        await wire.send(listen(1, resourceSubscriptions=["test://a"]))
        await wire.receive_object()
        for number in range(10):
            server.resource_updated(f"test://a/{number}")
        for number in range(7, 10):
            assert await wire.receive_object() == updated(1, f"test://a/{number}")


def test_notify_from_a_thread_after_the_loop_has_ended_is_ignored() -> None:
    server = make_server()

    async def test() -> set[Announcer]:
        async with raw_client(server) as wire:
            await wire.send(listen(1, resourceSubscriptions=["test://a"], toolsListChanged=True))
            await wire.receive_object()
            return set(server.catalog.announcers)

    # as a thread sees them that has just begun to tell when they end
    server.catalog.announcers.update(run(test()))
    assert len(server.catalog.announcers) == 2
    server.resource_updated("test://a")
    server.tool("new")(lambda: None)


@CONNECTED_KINDS
async def test_listen_takes_a_slot_among_the_requests_in_flight(kind: str) -> None:
    server = make_server()
    server.limits = Limits(max_in_flight=2, patience=0.01)
    async with raw_client(server, kind) as wire:
        for id in (1, 2):
            await wire.send(listen(id))
            assert await wire.receive_object() == acknowledged(id)
        error_of(await wire.ask_stateless("subscriptions/listen", {"notifications": {}}, 3), INTERNAL_ERROR, 3)
        assert len(subscriptions(server)) == 2


# ------------------------------------------------------------------------------------------------ the client ends it


@CONNECTED_KINDS
@pytest.mark.spec(
    "2026-07-28/basic/transports/stdio#cancellation-2,3",
    "2026-07-28/basic/patterns/cancellation#timing-considerations-1",
)
async def test_cancelled_on_stdio_ends_the_subscription(kind: str) -> None:
    server = make_server()
    async with raw_client(server, kind) as wire:
        for id in (1, "1"):
            await wire.send(listen(id, toolsListChanged=True))
            await wire.receive_object()
        await wire.send(notification("notifications/cancelled", {"requestId": 1, "reason": "enough"}))
        await wire.nothing_else()
        assert len(subscriptions(server)) == 1
        server.tool("t")(lambda: None)
        assert await wire.receive_object() == told("1", "tools/list_changed")
        await wire.send(notification("notifications/cancelled", {"requestId": 1}))  # once more: ignored
        await wire.nothing_else()
        await wire.send(listen(1))  # its id is free again
        assert await wire.receive_object() == acknowledged(1)


async def test_cancelled_on_stdio_ends_a_subscription_with_unread_messages() -> None:
    server = make_server()
    async with served(server) as (wire, _, ours):
        await wire.send(listen(1, resourceSubscriptions=["test://a"]))
        await wire.receive_object()
        pump, ours._deliver_inbox = ours._deliver_inbox, lambda: None  # type: ignore[method-assign]
        ours._inbox.has_room.clear()
        for name in ("x", "y"):
            server.resource_updated(f"test://a/{name}")
        (listener,) = subscriptions(server)
        await eventually(lambda: listener._sender is not None)
        await wire.send(notification("notifications/cancelled", {"requestId": 1}))
        await eventually(lambda: not subscriptions(server) and listener._sender is None)
        ours._deliver_inbox = pump  # type: ignore[method-assign]
        ours._deliver_inbox()
        assert await wire.receive() == updated(1, "test://a/x")
        await wire.nothing_else()


async def test_subscriptions_and_listening_streams_on_http_wait_without_tasks() -> None:
    async with served_over_http(make_server()) as web:
        talk = RawSession(web)
        await talk.handshake()
        before = server_tasks()
        replies = [await RawSession(web).post(listen(1)), await talk.get()]
        await replies[0].message()
        await eventually(lambda: server_tasks() == before)
        await web.site.end_sessions()
        assert await replies[0].message() == ended(1)
        await replies[1].events()


def server_tasks() -> set[asyncio.Task[object]]:
    """Return the running tasks that serve HTTP requests and sessions."""
    names = {"HttpConnection._serve", "SessionTable._serve_session", "Dispatcher._run", "StatelessExchange._open"}
    return {task for task in asyncio.all_tasks() if getattr(task.get_coro(), "__qualname__", "") in names}


async def test_disconnect_on_http_ends_the_subscription() -> None:
    server = make_server()
    async with served_over_http(server) as web:
        replies: list[Reply] = [await RawSession(web).post(listen(1, toolsListChanged=True)) for _ in range(2)]
        for reply in replies:
            assert await reply.message() == acknowledged(1, toolsListChanged=True)
        assert len(subscriptions(server)) == 2
        await replies[0].cut()
        await eventually(lambda: len(subscriptions(server)) == 1)
        server.tool("t")(lambda: None)
        assert await replies[1].message() == told(1, "tools/list_changed")


# ------------------------------------------------------------------------------------------------ the server ends it


@contextlib.asynccontextmanager
async def served(server: Server) -> AsyncIterator[tuple[Wire, asyncio.Task[None], MemoryTransport]]:
    """Yield a bare client, the task that serves it, and the client's end."""
    ours, theirs = memory_pair()
    wire = _wire_of(ours)
    serving = asyncio.create_task(server.serve(theirs))
    ours._deliver_soon()
    try:
        yield wire, serving, ours
    finally:
        await ours.close()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait_for(serving, PATIENCE)


@pytest.mark.spec(
    "2026-07-28/basic/patterns/cancellation#intro-2,3",
    "2026-07-28/basic/patterns/cancellation#behavior-requirements-1,2,3",
    "2026-07-28/basic/patterns/subscriptions#cancellation-1",
    "2026-07-28/basic/patterns/subscriptions#graceful-closure-1",
)
async def test_server_stop_on_stdio_sends_the_result_of_each_subscription_only() -> None:
    held = HoldingServer()
    async with served(held.server) as (wire, serving, _):
        await wire.send(stateless_request("tools/call", {"name": "hold", "arguments": {"name": "a"}}, "h"))
        await held.has_begun()
        for id in (1, "1"):
            await wire.send(listen(id, toolsListChanged=True))
            await wire.receive_object()
        serving.cancel()
        came = [await wire.receive_object() for _ in range(4)]
        for id in (1, "1"):
            own = [each for each in came if same(each.get("id", None), id) or same(_named(each), id)]
            assert own == [told(id, "cancelled", requestId=id), ended(id)]
        await asyncio.wait_for(asyncio.wait([serving]), PATIENCE)
        assert serving.cancelled() and wire.frames.empty() and not subscriptions(held.server)


def _named(message: Object) -> JSON:
    params = message.get("params")
    return params.get("requestId") if isinstance(params, dict) else None


@pytest.mark.spec(
    "2026-07-28/basic/patterns/subscriptions#cancellation-1",
    "2026-07-28/basic/patterns/subscriptions#graceful-closure-1",
)
async def test_server_stop_on_http_ends_the_stream_with_the_result() -> None:
    server = make_server()
    async with served_over_http(server) as web:
        replies = {id: await RawSession(web).post(listen(id)) for id in (1, "1")}
        for reply in replies.values():
            await reply.message()
        await web.site.close()
        for id, reply in replies.items():
            assert same(await reply.messages(), [ended(id)])
        assert not subscriptions(server)


async def test_http_app_that_stops_ends_only_its_own_subscriptions() -> None:
    server = make_server()
    async with served(server) as (wire, _, _):
        await wire.send(listen(1, toolsListChanged=True))
        await wire.receive_object()
        async with served_over_http(server) as web:
            reply = await RawSession(web).post(listen(1))
            await reply.message()
        server.tool("t")(lambda: None)
        assert await wire.receive_object() == told(1, "tools/list_changed")


@CONNECTED_KINDS
@pytest.mark.spec("2026-07-28/basic/transports/stdio#shutdown-4")
async def test_server_stop_does_not_wait_for_a_client_that_closes(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "FINISH_SECONDS", 10 * PATIENCE)
    server = make_server()
    async with raw_client(server, kind) as wire:
        await wire.send(listen(1))
        await wire.receive_object()
    assert not subscriptions(server)


async def test_server_stop_waits_briefly_for_a_client_that_never_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announcements, "SUBSCRIPTION_END_SECONDS", 0.01)
    async with served(make_server()) as (wire, serving, ours):
        await wire.send(listen(1))
        await wire.receive_object()
        ours._deliver_inbox = lambda: None  # type: ignore[method-assign]
        ours._inbox.has_room.clear()
        serving.cancel()
        await asyncio.wait_for(asyncio.wait([serving]), PATIENCE)


@pytest.mark.skipif(sys.platform == "win32", reason="no signals there")
def test_server_stop_by_signal_sends_results_first() -> None:
    source = "from mcp_ref import Server\nServer('s').run()"
    with subprocess.Popen(python(source), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(json.dumps(listen("l")).encode() + b"\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline()) == acknowledged("l")
            process.send_signal(signal.SIGTERM)
            assert json.loads(process.stdout.readline()) == told("l", "cancelled", requestId="l")
            assert json.loads(process.stdout.readline()) == ended("l")
            assert process.stdout.readline() == b""
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()
