"""Sessions of Streamable HTTP: their beginning and end, their principals, and streams that are resumed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mcp_ref import Context, Server, TextContent
from mcp_ref.basic.access import Access
from mcp_ref.jsonrpc.messages import JSON, Object
from mcp_ref.lib.http.message import HttpRequest
from mcp_ref.lib.shares import Shares
from mcp_ref.server.http_options import HttpOptions
from mcp_ref.transports.base import ServedSession
from mcp_ref.transports.streamable_http.event_store import MemoryEventStore
from mcp_ref.transports.streamable_http.idle_order import IdleOrder
from mcp_ref.transports.streamable_http.posted_session import EndpointLimits
from mcp_ref.transports.streamable_http.session import HttpSession, StreamState
from mcp_ref.transports.streamable_http.sqlite_store import SqliteEventStore
from tests.messages import initialize, notification, request
from tests.raw_http_client import (
    JSON_TYPE,
    LATEST_LEGACY,
    SSE_TYPE,
    TOOLS_CHANGED,
    HoldingServer,
    RawSession,
    Reply,
    ServedApp,
    call,
    call_result,
    http_session,
    log_message,
    messages,
    served_over_http,
)
from tests.settings import TASK_FACTORIES, eventually, pass_time

oldest_and_latest = pytest.mark.parametrize("revision", ["2025-03-26", LATEST_LEGACY])
GONE = "unknown session, or it has ended: begin a new one with an initialize request"
PONG: Object = {"jsonrpc": "2.0", "id": 1, "result": {}}


async def everything(talk: RawSession) -> list[Reply]:
    """Send one request of each kind in a session."""
    silent = notification("notifications/initialized")
    return [await talk.post(request("ping")), await talk.post(silent), await talk.get(), await talk.delete()]


# ------------------------------------------------------------------------------------------------ how they begin


@pytest.mark.spec("2025-03-26..2025-11-25/basic/transports#session-management-1,2")
@oldest_and_latest
async def test_each_session_has_a_unique_id_that_nobody_can_guess(revision: str) -> None:
    async with served_over_http(Server("s")) as web:
        replies = [await RawSession(web).post(initialize(revision)) for _ in range(20)]
        ids = [reply.headers["mcp-session-id"] for reply in replies]
        assert len({id[:8] for id in ids}) == len({id[-8:] for id in ids}) == len(ids)
        assert all(re.fullmatch(r"[\x21-\x7e]{22,}", id) for id in ids)
        assert set(ids) == set(web.site._endpoint.sessions)


@pytest.mark.parametrize(
    "body",
    [
        request("initialize", {}),
        request("initialize", {"protocolVersion": 5, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}),
        [initialize("2025-03-26")],
        notification("initialize", {}),
        request("ping"),
        b'{"jsonrpc":"2.0","id":1,"method":"initialize"',
    ],
    ids=["no params", "wrong params", "a batch", "a notification", "ping", "half"],
)
@pytest.mark.parametrize("accept", [JSON_TYPE, SSE_TYPE])
async def test_initialize_that_fails_leaves_no_session(body: JSON | bytes, accept: str) -> None:
    store, server = MemoryEventStore(), Server("s")
    async with served_over_http(server, store=store) as web:
        reply = await RawSession(web, accept=accept).post(body)
        assert "mcp-session-id" not in reply.headers
        if reply.status == 200:
            answer = reply.json if accept == JSON_TYPE else await reply.object()
            assert "error" in answer
        else:
            assert reply.status == 400
        assert not web.site._endpoint.sessions
        assert not store._sessions
        await eventually(lambda: not server.catalog.announcers)


async def test_initialize_that_is_too_large_is_413_and_begins_no_session() -> None:
    store = MemoryEventStore()
    async with served_over_http(Server("s"), store=store, limits=EndpointLimits(initialize=1000)) as web:
        size = 1000 - len(json.dumps(initialize(capabilities={"experimental": {"x": {"y": ""}}})))
        bodies = [initialize(capabilities={"experimental": {"x": {"y": "z" * each}}}) for each in (size + 1, size)]
        reply = await RawSession(web).post(bodies[0])
        assert (reply.status, reply.why) == (413, "an initialize message must have at most 1000 bytes")
        assert not web.site._endpoint.sessions and not store._sessions
        assert (await RawSession(web).post(bodies[1])).status == 200


async def test_initialize_negotiates_by_its_body_whatever_revision_the_header_names() -> None:
    async with served_over_http(Server("s")) as web:
        for named in ("2026-07-28", "2025-11-25"):
            reply = (await RawSession(web).post(initialize("2025-06-18"), MCP_Protocol_Version=named)).json
            assert reply["result"]["protocolVersion"] == "2025-06-18"


@oldest_and_latest
async def test_session_is_initialized_only_once(revision: str) -> None:
    async with http_session(Server("s"), revision) as talk:
        again = (await talk.post(initialize(revision))).json
        assert again["error"]["code"] == -32600
        assert (await talk.post(request("ping"))).json == PONG
        unknown = await talk.post(initialize(revision), Mcp_Session_Id="other")
        assert (unknown.status, unknown.why) == (404, GONE)
        assert list(talk.web.site._endpoint.sessions) == [talk.id]


@pytest.mark.spec(
    "2025-03-26..2025-06-18/basic/transports#session-management-4", "2025-11-25/basic/transports#session-management-5"
)
@oldest_and_latest
async def test_session_id_missing_is_400_even_if_there_is_only_one_session(revision: str) -> None:
    async with http_session(Server("s"), revision) as talk:
        for reply in await everything(RawSession(talk.web)):
            assert reply.status == 400
            assert reply.why.startswith("Mcp-Session-Id is missing: begin with an initialize request")
        assert (await talk.post(request("ping"))).json == PONG


# ------------------------------------------------------------------------------------------------ how they end


@pytest.mark.spec(
    "2025-03-26..2025-06-18/basic/transports#session-management-5", "2025-11-25/basic/transports#session-management-6"
)
@oldest_and_latest
async def test_delete_ends_the_session_and_removes_its_events_and_streams(revision: str) -> None:
    store, server = MemoryEventStore(), HoldingServer().server
    async with http_session(server, revision, store=store) as talk:
        events = await (await talk.post(call("count", to=1))).events()
        listening = await talk.get()
        ended = await talk.delete()
        assert (ended.status, ended.body) == (204, b"")
        assert not talk.web.site._endpoint.sessions and not store._sessions
        assert messages(await listening.events()) == []
        for reply in (*await everything(talk), await talk.get(events[0]["id"])):
            assert (reply.status, reply.why) == (404, GONE)
        await eventually(lambda: not server.catalog.announcers)


@pytest.mark.parametrize("id", ["", "x", "x" * 4000, "\xff", "../..", "get"])
async def test_session_id_unknown_is_404(id: str) -> None:
    async with http_session(Server("s")) as talk:
        talk.id = id
        for reply in await everything(talk):
            assert (reply.status, reply.why) == (404, GONE)


async def test_delete_lets_requests_in_flight_finish_and_keeps_no_events(caplog: pytest.LogCaptureFixture) -> None:
    held, store = HoldingServer(), MemoryEventStore()
    async with http_session(held.server, store=store) as talk:
        posted = await talk.post(call("hold", name="x", say=True))
        await held.has_begun()
        assert (await talk.delete()).status == 204
        held.announce()
        held.go.set()
        assert await posted.messages() == [log_message("x begins"), log_message("x goes on"), call_result("x")]
        assert not store._sessions
        await eventually(lambda: not held.server.catalog.announcers)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("task_factory", TASK_FACTORIES)
@pytest.mark.parametrize("how", ["the client ends it", "the server stops", "it cannot begin"])
@pytest.mark.usefixtures("short_finish")
async def test_post_that_waits_when_its_session_ends_is_refused(
    how: str, task_factory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.get_running_loop().set_task_factory(task_factory)

    async def fail(transport: object) -> ServedSession:
        raise OSError("no memory")

    held = HoldingServer()
    expected = 500, "the server stopped serving the request, which may have had effects already"
    async with http_session(held.server) as talk:
        if how == "it cannot begin":
            monkeypatch.setattr(talk.web.site._endpoint.table, "_begin_serving", fail)
            expected = 503, "no session can begin now; try again later"
            sent = await RawSession(talk.web).send(initialize(LATEST_LEGACY))
        else:
            sent = await talk.send(call("hold", name="x"))
            await held.has_begun()
        if how == "the client ends it":
            assert (await talk.delete()).status == 204
            expected = 404, GONE
        elif how == "the server stops":
            await talk.web.site.end_sessions()
        refused = await talk.web.take(sent)
        assert (refused.status, refused.why) == expected
        assert ("retry-after" in refused.headers) == (refused.status == 503)


async def test_idle_sessions_end_and_never_one_with_work_in_flight_or_a_client_that_listens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = HoldingServer()
    async with served_over_http(held.server, limits=EndpointLimits(session_idle=3.0, keep_alive=0.05)) as web:
        busy, listens = RawSession(web), RawSession(web)
        sessions = web.site._endpoint.sessions
        await busy.handshake()
        sent = await busy.send(call("hold", name="x"))
        await held.has_begun()
        await sent.cut()  # nobody waits for it any more, but it is at work
        await listens.handshake()
        listening = await listens.get()
        for _ in range(3):
            idle = RawSession(web)
            await idle.handshake()  # later than the others
            pass_time(monkeypatch, 3.0)
            await eventually(lambda: idle.id not in sessions)  # noqa: B023
        assert set(sessions) == {busy.id, listens.id}
        assert (await idle.post(request("ping"))).status == 404
        await listening.cut()
        held.go.set()
        await eventually(lambda: all(session.is_idle for session in sessions.values()))
        pass_time(monkeypatch, 3.0)
        await eventually(lambda: not sessions)
        await eventually(lambda: not held.server.catalog.announcers)


@pytest.mark.parametrize("cut", [False, True], ids=["answered", "its client has left"])
async def test_session_is_idle_from_the_end_of_its_last_request(cut: bool) -> None:
    held = HoldingServer()
    async with http_session(held.server) as talk:
        assert talk.id is not None
        session = talk.web.site._endpoint.sessions[talk.id]
        sent = await talk.send(call("hold", name="x", say=cut))
        await held.has_begun()
        if cut:
            stream = session.streams_by_request[1]
            await eventually(lambda: stream.state is StreamState.CONNECTED)
            await sent.cut()
            await eventually(lambda: stream.state is not StreamState.CONNECTED)
        now = asyncio.get_running_loop().time()
        held.go.set()
        await eventually(lambda: session.is_idle)
        assert session.last_used >= now


async def test_session_limit_ends_the_longest_idle_session_or_refuses_with_503() -> None:
    held = HoldingServer()
    async with served_over_http(held.server, limits=EndpointLimits(sessions=2)) as web:
        first, second, third, fourth = RawSession(web), RawSession(web), RawSession(web), RawSession(web)
        await first.handshake()
        await second.handshake()
        assert (await first.post(request("ping"))).status == 200  # now the second is idle for longer
        await third.handshake()
        assert [(await talk.post(request("ping"))).status for talk in (first, second, third)] == [200, 404, 200]
        await first.get()
        sent = await third.send(call("hold", name="x"))
        await held.has_begun()
        full = await fourth.post(initialize())
        assert (full.status, full.why) == (503, "all 2 sessions are in use; try again later")
        assert full.headers["retry-after"].isdigit()
        assert set(web.site._endpoint.sessions) == {first.id, third.id}
        held.go.set()
        assert (await web.take(sent)).json == call_result("x")
        await fourth.handshake()
        assert set(web.site._endpoint.sessions) == {first.id, fourth.id}


async def test_session_limit_ends_a_session_without_requests_first() -> None:
    async with served_over_http(HoldingServer().server, limits=EndpointLimits(sessions=3)) as web:
        used, *unused = [RawSession(web) for _ in range(5)]
        await used.handshake()
        assert (await used.post(request("ping"))).status == 200
        for talk in unused:  # later than the other, but without a request
            await talk.handshake()
        statuses = [(await talk.post(request("ping"))).status for talk in (used, *unused)]
        assert statuses == [200, 404, 404, 200, 200]


async def test_caller_with_all_its_sessions_ends_only_its_own_or_is_refused_with_503() -> None:
    held, limits = HoldingServer(), EndpointLimits(sessions=4, sessions_per_caller=2)
    async with served_over_http(held.server, authenticate=by_token, limits=limits) as web:
        other = RawSession(web, authorization="Bearer other")
        await other.handshake()
        mine = [RawSession(web, authorization="Bearer me") for _ in range(4)]
        for talk in mine[:3]:
            await talk.handshake()
        assert set(web.site._endpoint.sessions) == {other.id, mine[1].id, mine[2].id}
        for talk in mine[1:3]:
            await talk.get()
        full = await mine[3].post(initialize())
        assert (full.status, full.why) == (503, "your 2 sessions are in use; try again later")
        for talk in (other, mine[1], mine[2]):
            assert (await talk.delete()).status == 204
        assert not web.site._endpoint.table._idle_order_of


async def test_search_for_an_idle_session_among_busy_sessions_costs_one_look_for_each() -> None:
    looks = 0

    class Busy(HttpSession):
        @property
        def is_idle(self) -> bool:
            nonlocal looks
            looks += 1
            return False

    order = IdleOrder()
    shared = Access(), MemoryEventStore(), EndpointLimits(), None, Shares("requests", 9, 9), lambda _: None
    sessions = [Busy(str(number), *shared) for number in range(100)]
    for session in sessions:
        order.add(session)
    for _ in range(100):
        assert order.next_idle() is None
    assert looks == 100
    sessions[7].touch()
    assert order.next_idle() is None
    assert looks == 101
    order.remove(sessions[7])
    sessions[7].touch()
    assert order.next_idle() is None
    assert looks == 101


# ------------------------------------------------------------------------------------------------ whose they are


async def by_token(request: HttpRequest) -> str | None:
    scheme, _, token = (request.headers.get("authorization") or "").partition(" ")
    if token == "trouble":
        raise RuntimeError("the directory of users is down")
    return token if scheme == "Bearer" and token else None


@pytest.mark.spec(
    "2024-11-05..2025-06-18/basic/transports#security-warning-3", "2025-11-25/basic/transports#security-warning-4"
)
async def test_authenticate_without_a_principal_is_401() -> None:
    async with served_over_http(Server("s"), authenticate=by_token) as web:
        for authorization in (None, "Basic x", "Bearer "):
            talk = RawSession(web, id="x", authorization=authorization)
            lines = [f"Authorization: {authorization}"] if authorization else []
            replies = [*await everything(talk), await RawSession(web, authorization=authorization).post(initialize())]
            replies.append(await web.ask("GET", "/sse", b"", *lines))
            replies.append(await web.ask("POST", "/messages?session=x", b"{}", *lines))
            for reply in replies:
                assert (reply.status, reply.headers["www-authenticate"]) == (401, "Bearer")
                assert reply.why == "authentication required: send an Authorization header"
        assert not web.site._endpoint.sessions


@pytest.mark.spec("2025-11-25/client/elicitation#security-considerations-1")
async def test_session_is_404_for_every_other_principal() -> None:
    async with served_over_http(HoldingServer().server, authenticate=by_token) as web:
        mine = RawSession(web, authorization="Bearer me")
        await mine.handshake()
        events = await (await mine.post(call("count", to=1))).events()
        theirs = RawSession(web, mine.id, authorization="Bearer other")
        for reply in (*await everything(theirs), await theirs.get(events[0]["id"]), await theirs.post(initialize())):
            assert (reply.status, reply.why) == (404, GONE)
        assert (await mine.post(request("ping"))).json == PONG


async def test_authenticate_that_raises_fails_its_request_only(caplog: pytest.LogCaptureFixture) -> None:
    async with served_over_http(Server("s"), authenticate=by_token) as web:
        mine = RawSession(web, authorization="Bearer me")
        await mine.handshake()
        reply = await mine.post(request("ping"), Authorization="Bearer trouble")
        assert reply.status == 500 and b"directory" not in reply.body
        assert (await mine.post(request("ping"))).json == PONG
    assert "the directory of users is down" in caplog.text


# ------------------------------------------------------------------------------------------------ taking up a stream


def stored(text: list[dict[str, str]]) -> list[tuple[str, str]]:
    return [(event["id"], event["data"]) for event in text]


@oldest_and_latest
async def test_after_every_event_of_a_stream_exactly_the_rest_can_be_had_again(revision: str) -> None:
    async with http_session(HoldingServer().server, revision) as talk:
        events = stored(await (await talk.post(call("count", to=4))).events())
        await (await talk.post(call("count", to=4))).events()  # of another stream
        await (await talk.get()).cut()
        for n, (id, _) in enumerate(events):
            reply = await talk.get(id)
            assert (reply.status, reply.kind) == (200, SSE_TYPE)
            assert reply.headers["cache-control"] == "no-cache, no-transform"
            assert stored(await reply.events()) == events[n + 1 :]


@pytest.mark.spec("2025-11-25/basic/transports#sending-messages-to-the-server-16")
@oldest_and_latest
@pytest.mark.parametrize("when", ["before the rest is said", "after the rest is said"])
async def test_last_event_id_replays_the_rest_each_event_once_and_in_order(revision: str, when: str) -> None:
    held = HoldingServer()
    async with http_session(held.server, revision) as talk:
        posted = await talk.post(call("hold", name="x", say=True))
        while (event := await posted.event()) is not None and not event["data"]:
            pass
        assert event is not None and messages([event]) == [log_message("x begins")]
        await posted.cut()
        await held.has_begun()
        if when == "after the rest is said":
            held.go.set()
            await eventually(lambda: bool(held.ended))
            held.announce()  # not of this stream
        back = await talk.get(event["id"])
        held.go.set()
        assert await back.messages() == [log_message("x goes on"), call_result("x")]


LINES = [f"{number:02} " + "x" * 500_000 for number in range(24)]
"""Log messages that need three times as much memory as a client may leave unread."""


def talkative() -> tuple[Server, asyncio.Event]:
    """Return a server whose tool sends `LINES`, and an event that the tool waits for before its end."""
    server, go = Server("s"), asyncio.Event()

    @server.tool()
    async def talk(context: Context) -> TextContent:
        for line in LINES:
            await context.log("info", line)
        await go.wait()
        return TextContent("done")

    return server, go


@pytest.mark.spec("2025-11-25/basic/transports#resumability-and-redelivery-3")
@pytest.mark.parametrize("when", ["the stream goes on", "the stream has ended", "the stream ends meanwhile"])
async def test_replay_of_many_large_events_waits_for_the_client_and_loses_none(when: str) -> None:
    server, go = talkative()
    async with http_session(server) as talk:
        posted = await talk.post(call("talk"))
        first = await posted.event()
        assert first is not None
        await posted.cut()
        table = talk.web.site._endpoint.sessions
        [session] = table.values()
        await eventually(
            lambda: session.store is not None and len(session.store.events_from(session.id, first["id"])) == 25
        )
        if when == "the stream has ended":
            go.set()
            await eventually(lambda: not session.streams_by_request)
        back = await talk.get(first["id"])
        if when == "the stream ends meanwhile":
            go.set()
            await eventually(lambda: not session.streams_by_request)
        received = [await back.message() for _ in LINES]
        go.set()
        assert received == [log_message(line) for line in LINES]
        assert await back.messages() == [call_result("done")]


async def test_events_that_waited_for_a_get_are_all_sent_to_a_slow_client_and_another_get_continues() -> None:
    server, go = talkative()
    go.set()
    async with http_session(server, json_responses=True) as talk:
        assert (await talk.post(call("talk"))).status == 200
        given_up = await talk.get()  # reads nothing more
        listening = await talk.get()
        assert [await listening.message() for _ in LINES] == [log_message(line) for line in LINES]
        await given_up.cut()
        server.list_changed("tools")
        assert await listening.message() == TOOLS_CHANGED


@oldest_and_latest
async def test_last_event_id_on_a_new_connection_replaces_the_former_connection(revision: str) -> None:
    held = HoldingServer()
    async with http_session(held.server, revision) as talk:
        posted = await talk.post(call("hold", name="x", say=True))
        event = await posted.event()
        assert event is not None
        former, latter = await talk.get(event["id"]), await talk.get(event["id"])
        await posted.events()  # ends
        await former.events()
        held.go.set()
        assert (await latter.messages())[-2:] == [log_message("x goes on"), call_result("x")]


@oldest_and_latest
async def test_listening_stream_is_resumed_after_the_last_event_id(revision: str) -> None:
    held = HoldingServer()
    async with http_session(held.server, revision, json_responses=True) as talk:
        first = await talk.get()
        await talk.post(call("count", to=2))
        event = await first.event()
        while event is not None and messages([event]) != [log_message(0)]:
            event = await first.event()
        assert event is not None
        await first.cut()
        await talk.post(call("count", to=3))
        again = await talk.get(event["id"])
        assert [await again.message() for _ in range(4)] == [log_message(number) for number in (1, 0, 1, 2)]
        held.announce()
        last = await again.event()
        assert last is not None and messages([last]) == [TOOLS_CHANGED]
        await again.cut()
        again = await talk.get(last["id"])  # nothing was missed
        held.announce()
        assert await again.message() == TOOLS_CHANGED
        fresh = await talk.get()  # without an id: nothing that has been said comes again
        held.announce()
        assert await fresh.message() == TOOLS_CHANGED


@pytest.mark.spec("2025-11-25/basic/transports#listening-for-messages-from-the-server-5")
@oldest_and_latest
async def test_listening_stream_begins_with_an_event_id_if_streams_are_polled(revision: str) -> None:
    held = HoldingServer()
    async with http_session(held.server, revision) as talk:
        first = await talk.get()
        held.announce()
        event = await first.event()
        assert event is not None
        if revision != LATEST_LEGACY:
            assert (messages([event]), "retry" in event) == ([TOOLS_CHANGED], False)
            return
        assert (event["data"], event["retry"]) == ("", "1000")
        await first.cut()
        again = await talk.get(event["id"])
        assert await again.message() == TOOLS_CHANGED


@oldest_and_latest
@pytest.mark.attack("foreign-events")
async def test_last_event_id_that_is_unknown_or_dropped_or_of_another_session_is_refused(revision: str) -> None:
    async with served_over_http(HoldingServer().server, store=MemoryEventStore(max_events=3)) as web:
        talk, other = RawSession(web), RawSession(web)
        await talk.handshake(revision)
        await other.handshake(revision)
        theirs = await (await other.post(call("count", to=1))).events()
        mine = await (await talk.post(call("count", to=8))).events()
        stream, _, number = mine[-1]["id"].rpartition(".")
        wrong = [mine[0]["id"], theirs[0]["id"], theirs[-1]["id"], "", "x", ".", "get.1", f"get.{number}", "get.-1"]
        for id in (*wrong, f"{stream}.{int(number) + 1}", f"{stream}.0"):
            reply = await talk.get(id)
            assert (reply.status, reply.kind) == (400, JSON_TYPE)
            assert reply.why == f"event {id!r} is unknown in this session, or a later event was dropped"
        assert messages(await (await talk.get(mine[-2]["id"])).events()) == [call_result("counted")]


# ------------------------------------------------------------------------------------------------ letting go of one


@pytest.mark.spec("2025-11-25/basic/transports#sending-messages-to-the-server-9,11")
@pytest.mark.parametrize("say", [False, True], ids=["before anything was said", "in a stream"])
async def test_close_stream_ends_the_response_and_the_client_resumes_the_stream(say: bool) -> None:
    held = HoldingServer()
    async with http_session(held.server, limits=EndpointLimits(retry=7)) as talk:
        posted = await talk.post(call("hold", name="x", say=say, let_go=True))
        primed, *events = await posted.events()
        assert (primed["data"], primed["retry"]) == ("", "7")
        assert messages(events) == ([log_message("x begins")] if say else [])
        await held.has_begun()
        back = await talk.get((events or [primed])[-1]["id"])
        held.go.set()
        assert await back.messages() == ([log_message("x goes on")] if say else []) + [call_result("x")]


async def test_close_stream_can_be_called_repeatedly() -> None:
    server, turns = Server("s"), asyncio.Semaphore(0)

    @server.tool()
    async def long(context: Context) -> str:
        for number in range(3):
            await context.log("info", number)
            assert context.close_stream()
            await turns.acquire()
        return "done"

    async with http_session(server) as talk:
        reply, said_by_then = await talk.post(call("long")), []
        for _ in range(3):
            events = await reply.events()
            said_by_then += messages(events)
            reply = await talk.get(events[-1]["id"])
            turns.release()
        *_, last = await reply.messages()
        assert said_by_then == [log_message(0), log_message(1), log_message(2)]
        assert "result" in last


@pytest.mark.parametrize(
    ("revision", "accept"), [("2025-03-26", SSE_TYPE), ("2025-06-18", SSE_TYPE), (LATEST_LEGACY, JSON_TYPE)]
)
async def test_close_stream_does_nothing_if_the_client_would_not_resume(revision: str, accept: str) -> None:
    server = Server("s")

    @server.tool()
    async def try_it(context: Context) -> bool:
        return context.close_stream()

    async with http_session(server, revision) as talk:
        reply = await talk.post(call("try_it"), Accept=accept)
        answer = reply.json if accept == JSON_TYPE else await reply.object()
        assert "false" in str(answer)


# ------------------------------------------------------------------------------------------------ another process


@contextlib.asynccontextmanager
async def process(server: Server, path: Path, limits: EndpointLimits | None = None) -> AsyncIterator[ServedApp]:
    """Yield an endpoint as a new process would have it, on the file of the processes before it."""
    store = SqliteEventStore(str(path / "events.db"))
    try:
        options = HttpOptions(store=store, limits=limits or EndpointLimits(), authenticate=by_token)
        async with served_over_http(server, **options) as web:
            yield web
    finally:
        store.close()


def me(web: ServedApp, id: str | None = None) -> RawSession:
    return RawSession(web, id, authorization="Bearer me")


@oldest_and_latest
async def test_session_continues_in_the_next_process(revision: str, tmp_path: Path) -> None:
    async with process(HoldingServer().server, tmp_path) as web:
        talk = me(web)
        await talk.handshake(revision, {"roots": {}})
        events = await (await talk.post(call("count", to=2))).events()
        id = talk.id
    held = HoldingServer()
    async with process(held.server, tmp_path) as web:
        talk = me(web, id)
        assert await (await talk.get(events[0]["id"])).messages() == messages(events[1:])
        batch = await talk.post([request("ping")])  # the revision is that of the handshake
        assert batch.status == (200 if revision == "2025-03-26" else 400)
        asked = await talk.post(call("ask"))  # and so are the client's capabilities
        question = await asked.object()
        await talk.post({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": []}})
        assert await asked.messages() == [call_result("0")]
        listening = await talk.get()
        held.announce()  # it counts as initialized
        assert await listening.message() == TOOLS_CHANGED
        more = await (await talk.post(call("count", to=1))).events()
        assert {event["id"] for event in more}.isdisjoint(event["id"] for event in events)


async def test_response_sent_while_the_process_stops_waits_in_the_next_process(tmp_path: Path) -> None:
    held = HoldingServer()
    async with process(held.server, tmp_path) as web:
        talk = me(web)
        await talk.handshake()
        posted = await talk.post(call("hold", name="x", say=True))
        first = await posted.event()
        assert first is not None
        await posted.cut()
        await held.has_begun()
        held.go.set()
    async with process(HoldingServer().server, tmp_path) as web:
        back = await me(web, talk.id).get(first["id"])
        assert (await back.messages())[-2:] == [log_message("x goes on"), call_result("x")]


@pytest.mark.parametrize("first", ["POST", "GET"])
async def test_concurrent_requests_restore_a_session_once(tmp_path: Path, first: str) -> None:
    async with process(HoldingServer().server, tmp_path) as web:
        talk = me(web)
        await talk.handshake()
    server = HoldingServer().server
    async with process(server, tmp_path) as web:
        talk = me(web, talk.id)
        calls = [call("add", n, a=n, b=n) for n in range(5)]
        if first == "POST":
            *sent, get = [*[await talk.send(each) for each in calls], asyncio.create_task(talk.get())]
        else:
            get = asyncio.create_task(talk.get())
            sent = [await talk.send(each) for each in calls]
        for n, reply in enumerate(sent):
            assert (await web.take(reply)).json == call_result(str(2 * n), n)
        assert (await get).status == 200
        assert len(web.site._endpoint.sessions) == len(server.catalog.announcers) == 1


async def test_session_that_has_ended_or_has_another_principal_is_not_restored(tmp_path: Path) -> None:
    async with process(Server("s"), tmp_path) as web:
        ended, mine = me(web), me(web)
        await ended.handshake()
        await mine.handshake()
        assert (await ended.delete()).status == 204
    async with process(Server("s"), tmp_path) as web:
        theirs = RawSession(web, mine.id, authorization="Bearer other")
        for talk in (me(web, ended.id), theirs, me(web, "never there")):
            for reply in await everything(talk):
                assert (reply.status, reply.why) == (404, GONE)
        assert not web.site._endpoint.sessions  # a stranger cannot even make it come back
        assert (await me(web, mine.id).post(request("ping"))).json == PONG


async def test_restored_session_counts_against_the_limits(tmp_path: Path) -> None:
    async with process(Server("s"), tmp_path) as web:
        old = me(web)
        await old.handshake()
    limits = EndpointLimits(sessions=1)
    async with process(Server("s"), tmp_path, limits) as web:
        new = me(web)
        await new.handshake()
        await new.get()
        assert (await me(web, old.id).post(request("ping"))).status == 503
        await new.delete()
        assert (await me(web, old.id).post(request("ping"))).json == PONG
        assert list(web.site._endpoint.sessions) == [old.id]


@pytest.mark.parametrize(
    "opening", [b"", b"{", b"[]", b"\xff", b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}']
)
async def test_session_that_cannot_be_revived_is_404_and_leaves_nothing(tmp_path: Path, opening: bytes) -> None:
    store, server = SqliteEventStore(str(tmp_path / "events.db")), Server("s")
    store.add_session("x", opening, "me")
    await store.flush(5.0)
    store.close()
    async with process(server, tmp_path) as web:
        talk = me(web, "x")
        sent = [await talk.send(request("ping")) for _ in range(2)]
        for reply in [await web.take(reply) for reply in sent]:
            assert (reply.status, reply.why) == (404, GONE)
        assert not web.site._endpoint.sessions
        await eventually(lambda: not server.catalog.announcers)


async def test_session_traces_both_directions_and_forgets_the_stream_of_each_response() -> None:
    frames: list[tuple[str, bytes]] = []
    server = Server("s", trace=lambda way, frame: frames.append((way, frame)))
    server.tool("echo")(lambda text: text)
    async with http_session(server) as talk:
        (session,) = talk.web.site._endpoint.sessions.values()
        frames.clear()
        for id in (0, 2**63, "a"):
            assert (await talk.post(request("ping", id=id))).status == 200
            assert [*session.streams] == ["get"] and not session.streams_by_request
        assert [way for way, _ in frames] == ["<-", "->"] * 3
        assert json.loads(frames[1][1]) == {"jsonrpc": "2.0", "id": 0, "result": {}}
