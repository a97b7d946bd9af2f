"""Streamable HTTP on the wire: responses to a POST, the stream of each message, batches, endings."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import MutableMapping

import pytest

from mcp_ref import Context, Server, TextContent
from mcp_ref.basic.access import Access
from mcp_ref.jsonrpc.messages import JSON, Object
from mcp_ref.lib.http.asgi import Send, application
from mcp_ref.lib.shares import Shares
from mcp_ref.transports.base import Transport
from mcp_ref.transports.streamable_http import session_table
from mcp_ref.transports.streamable_http.event_store import EVENT_COST, MemoryEventStore
from mcp_ref.transports.streamable_http.posted_session import EndpointLimits
from mcp_ref.transports.streamable_http.session_table import SessionTable
from tests.messages import initialize, notification, request
from tests.raw_http_client import (
    JSON_TYPE,
    LATEST_LEGACY,
    SSE_TYPE,
    STREAMABLE,
    TOOLS_CHANGED,
    HoldingServer,
    RawSession,
    call,
    call_result,
    http_session,
    log_message,
    messages,
    served_over_http,
)
from tests.settings import eventually

BATCHES = "2025-03-26"
oldest_and_latest = pytest.mark.parametrize("revision", ["2025-03-26", LATEST_LEGACY])


def error(id: JSON, code: int, message: str) -> Object:
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}


def cancelled(id: JSON) -> Object:
    return notification("notifications/cancelled", {"requestId": id})


async def ignore(event: MutableMapping[str, object]) -> None:
    """Send an event of an ASGI response to nobody."""


def post_over_asgi(talk: RawSession, message: Object, send: Send = ignore) -> asyncio.Task[None]:
    """POST a message in the session as an ASGI server does. Return the task that the server could cancel."""
    fields = ("host: localhost", *talk.lines())
    headers = [tuple(part.strip().encode() for part in line.split(":", 1)) for line in fields]
    body: MutableMapping[str, object] = {"type": "http.request", "body": json.dumps(message).encode()}
    events = [body]

    async def receive() -> MutableMapping[str, object]:
        return events.pop() if events else await asyncio.get_running_loop().create_future()

    scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": headers}
    return asyncio.create_task(application(talk.web.site.handle)(scope, receive, send))  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------- responses to a POST


@pytest.mark.spec("2025-03-26..2025-11-25/basic/transports#sending-messages-to-the-server-7")
@oldest_and_latest
async def test_response_without_a_message_before_it_is_json(revision: str) -> None:
    async with http_session(HoldingServer().server, revision) as talk:
        reply = await talk.post(call("add", "x", a=1, b=2))
        assert (reply.status, reply.kind, reply.json) == (200, JSON_TYPE, call_result("3", "x"))
        assert "mcp-session-id" not in reply.headers


@pytest.mark.spec(
    "2025-03-26..2025-11-25/basic/transports#sending-messages-to-the-server-7",
    "2025-03-26..2025-06-18/basic/transports#sending-messages-to-the-server-9,10,12",
    "2025-11-25/basic/transports#sending-messages-to-the-server-13,14,15",
)
@oldest_and_latest
async def test_response_after_other_messages_is_the_last_event_of_a_stream(revision: str) -> None:
    async with http_session(HoldingServer().server, revision) as talk:
        reply = await talk.post(call("count", to=2))
        assert (reply.status, reply.kind) == (200, SSE_TYPE)
        assert reply.headers["cache-control"] == "no-cache, no-transform"
        assert reply.headers["x-accel-buffering"] == "no"
        assert await reply.messages() == [log_message(0), log_message(1), call_result("counted")]


@pytest.mark.spec("2025-11-25/basic/transports#sending-messages-to-the-server-9")
@oldest_and_latest
async def test_each_event_has_an_id_and_a_stream_of_2025_11_25_begins_with_an_empty_event(revision: str) -> None:
    async with http_session(HoldingServer().server, revision, limits=EndpointLimits(retry=2500)) as talk:
        events = await (await talk.post(call("count", to=1))).events()
        assert len({event.pop("id") for event in events}) == len(events)
        own = [{"data": json.dumps(data, separators=(",", ":"))} for data in (log_message(0), call_result("counted"))]
        assert events == ([{"retry": "2500", "data": ""}, *own] if revision == LATEST_LEGACY else own)


@pytest.mark.parametrize("json_responses", [False, True])
async def test_client_that_accepts_only_event_streams_gets_every_response_as_an_event(json_responses: bool) -> None:
    async with served_over_http(HoldingServer().server, json_responses=json_responses) as web:
        talk = RawSession(web, accept=SSE_TYPE)
        assert (await talk.post(initialize())).kind == SSE_TYPE
        await talk.handshake()
        assert await (await talk.post(call("add", a=1, b=2))).messages() == [call_result("3")]


@oldest_and_latest
@pytest.mark.parametrize("whose", ["the client takes nothing else", "the server says so"])
async def test_json_responses_send_earlier_messages_to_the_listening_stream(revision: str, whose: str) -> None:
    held = HoldingServer()
    async with served_over_http(held.server, json_responses=whose == "the server says so") as web:
        talk = RawSession(web)
        await talk.handshake(revision)
        if whose != "the server says so":
            talk.accept = JSON_TYPE
        reply = await talk.post(call("count", to=1))
        assert (reply.kind, reply.json) == (JSON_TYPE, call_result("counted"))
        listening = await talk.get(Accept=SSE_TYPE)
        assert await listening.message() == log_message(0)


@pytest.mark.spec("2025-03-26..2025-11-25/basic/transports#sending-messages-to-the-server-5")
@oldest_and_latest
async def test_post_without_a_request_is_202_without_a_body(revision: str) -> None:
    nobody_waits: list[Object] = [{"jsonrpc": "2.0", "id": 9, "result": {}}, error(9, 1, "no"), error("never", 1, "no")]
    async with http_session(HoldingServer().server, revision) as talk:
        for message in (notification("notifications/cancelled", {"requestId": 5}), *nobody_waits):
            reply = await talk.post(message)
            assert (reply.status, reply.body, reply.kind) == (202, b"", None), message


@pytest.mark.spec(
    "2025-03-26..2025-11-25/basic/transports#sending-messages-to-the-server-6",
    "2025-06-18..2025-11-25/basic/transports#sending-messages-to-the-server-4",
)
@oldest_and_latest
@pytest.mark.parametrize(
    ("body", "code", "id"),
    [
        (b"", -32700, None),
        (b"{", -32700, None),
        (b"\xff", -32700, None),
        (b'{"jsonrpc":"2.0","method":"ping","id":1}\n{"jsonrpc":"2.0","method":"ping","id":2}', -32700, 1),
        (b'{"jsonrpc":"2.0","id":7,"method":5}', -32600, 7),
        (b'{"jsonrpc":"1.0","id":"x","method":"ping"}', -32600, "x"),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, None),
        (b'"ping"', -32600, None),
    ],
)
async def test_post_of_an_invalid_message_is_400_with_the_error(
    revision: str, body: bytes, code: int, id: JSON
) -> None:
    async with http_session(HoldingServer().server, revision) as talk:
        reply = await talk.post(body)
        assert reply.status == 400
        assert reply.json["error"]["code"] == code
        assert reply.json.get("id") == id
        assert ("id" in reply.json) == (id is not None or revision != LATEST_LEGACY)
        stranger = await RawSession(talk.web).post(body)
        assert stranger.status == 400 and "mcp-session-id" not in stranger.headers
        assert (await talk.post(request("ping"))).status == 200


@oldest_and_latest
async def test_error_response_has_status_200(revision: str) -> None:
    async with http_session(HoldingServer().server, revision) as talk:
        reply = await talk.post(request("no/such", id="x"))
        assert (reply.status, reply.json) == (200, error("x", -32601, "Method not found: no/such"))


@oldest_and_latest
async def test_request_id_in_flight_is_400_and_does_no_harm(revision: str) -> None:
    held = HoldingServer()
    async with http_session(held.server, revision) as talk:
        first = await talk.send(call("hold", 1, name="first"))
        await held.has_begun()
        again = await talk.post(call("add", 1, a=1, b=2))
        assert (again.status, again.why) == (400, "a request with id 1 is still in flight; use another id")
        assert (await talk.post(call("add", "1", a=1, b=2))).json == call_result("3", "1")  # another id
        held.go.set()
        assert (await talk.web.take(first)).json == call_result("first")
        assert (await talk.post(call("add", 1, a=1, b=2))).json == call_result("3")  # it is free again


async def test_streams_beyond_the_limit_of_a_session_are_429() -> None:
    held = HoldingServer()
    async with http_session(held.server, limits=EndpointLimits(streams=3)) as talk:
        calls = [await talk.send(call("hold", n, name="x")) for n in range(2)]  # the third listens, carried or not
        for _ in calls:
            await held.has_begun()
        refused = await talk.post(call("add", 3, a=1, b=2))
        assert (refused.status, refused.why) == (429, "the session has 3 streams already; wait for a response")
        assert (await talk.post(notification("notifications/initialized"))).status == 202  # needs no stream
        other = RawSession(talk.web)
        await other.handshake()
        assert (await other.post(call("add", a=1, b=2))).status == 200
        held.go.set()
        for reply in calls:
            assert (await talk.web.take(reply)).status == 200
        assert (await talk.post(call("add", a=1, b=2))).status == 200


async def test_keep_alive_comments_are_sent_on_every_open_stream() -> None:
    held = HoldingServer()
    async with http_session(held.server, limits=EndpointLimits(keep_alive=0.01)) as talk:
        listening = await talk.get()
        posted = await talk.post(call("hold", name="x", say=True))
        for reply in (listening, posted):
            while (block := await reply.block()) is not None and not block.startswith(":"):
                assert "id: " in block
            assert block == ": "
        held.go.set()
        assert (await posted.messages())[-1] == call_result("x")


# ------------------------------------------------------------------------------------------------ which stream


@pytest.mark.spec(
    "2025-03-26..2025-11-25/basic/transports#streamable-http-1",
    "2025-03-26..2025-11-25/basic/transports#multiple-connections-1,2",
    "2025-03-26..2025-11-25/basic/transports#listening-for-messages-from-the-server-2,3,4",
)
@oldest_and_latest
async def test_each_message_is_sent_on_one_stream_only(revision: str) -> None:
    held = HoldingServer()
    async with http_session(held.server, revision) as talk:
        listening = await talk.get()
        assert (listening.status, listening.kind) == (200, SSE_TYPE)
        one = await talk.post(call("hold", 1, name="one", say=True))
        two = await talk.post(call("hold", 2, name="two", say=True))
        held.announce()
        held.go.set()
        assert await one.messages() == [log_message("one begins"), log_message("one goes on"), call_result("one", 1)]
        assert await two.messages() == [log_message("two begins"), log_message("two goes on"), call_result("two", 2)]
        assert await listening.message() == TOOLS_CHANGED
        assert (await talk.delete()).status == 204
        assert messages(await listening.events()) == []  # nothing more had come


@oldest_and_latest
async def test_request_of_the_server_uses_the_stream_of_its_cause_and_the_response_is_a_post(revision: str) -> None:
    async with http_session(HoldingServer().server, revision, {"roots": {}}) as talk:
        asked = await talk.post(call("ask", "mine"))
        question = await asked.object()
        assert question["method"] == "roots/list"
        roots: Object = {"roots": [{"uri": "file:///a"}, {"uri": "file:///b"}]}
        reply = await talk.post({"jsonrpc": "2.0", "id": question["id"], "result": roots})
        assert (reply.status, reply.body) == (202, b"")
        assert await asked.messages() == [call_result("2", "mine")]


async def test_malformed_response_to_a_request_of_the_server_is_400_and_fails_that_request() -> None:
    async with http_session(HoldingServer().server, capabilities={"roots": {}}) as talk:
        asked = await talk.post(call("ask"))
        question = await asked.object()
        reply = await talk.post({"jsonrpc": "2.0", "id": question["id"], "result": 5})
        assert reply.status == 400
        answer = await asked.object()
        assert answer["id"] == 1 and isinstance(answer["result"], dict) and answer["result"]["isError"] is True


@oldest_and_latest
async def test_listening_stream_messages_wait_for_the_first_get(revision: str) -> None:
    held = HoldingServer()
    async with http_session(held.server, revision) as talk:
        held.announce()
        assert (await talk.post(call("count", to=1))).status == 200
        listening = await talk.get()
        assert await listening.message() == TOOLS_CHANGED
        held.announce()
        assert await listening.message() == TOOLS_CHANGED


SIZE = len(json.dumps(log_message(5), separators=(",", ":"))) + EVENT_COST


@pytest.mark.parametrize(
    "store", [MemoryEventStore(max_events=2), MemoryEventStore(max_session_bytes=2 * SIZE + 1)], ids=["events", "bytes"]
)
async def test_listening_stream_drops_the_oldest_messages_beyond_its_limit(store: MemoryEventStore) -> None:
    async with http_session(HoldingServer().server, json_responses=True, store=store) as talk:
        await talk.post(call("count", to=10))
        listening = await talk.get()
        assert [await listening.message() for _ in range(2)] == [log_message(8), log_message(9)]


@oldest_and_latest
async def test_get_again_replaces_the_former_listening_response(revision: str) -> None:
    held = HoldingServer()
    async with http_session(held.server, revision) as talk:
        former = await talk.get()
        latter = await talk.get()
        assert messages(await former.events()) == []  # it has ended
        held.announce()
        assert await latter.message() == TOOLS_CHANGED


# ------------------------------------------------------------------------------------------------ endings


@oldest_and_latest
@pytest.mark.parametrize("say", [False, True], ids=["before anything came", "in a stream"])
async def test_cancelled_request_ends_its_stream_without_a_response(revision: str, say: bool) -> None:
    held = HoldingServer()
    async with http_session(held.server, revision) as talk:
        sent = await talk.send(call("hold", 7, name="x", say=say))
        await held.has_begun()
        assert (await talk.post(cancelled(7))).status == 202
        reply = await talk.web.take(sent)
        assert reply.kind == SSE_TYPE
        assert await reply.messages() == ([log_message("x begins")] if say else [])
        assert held.ended == ["x was cancelled"]
        assert (await talk.post(call("add", 7, a=1, b=2))).json == call_result("3", 7)


@pytest.mark.spec(
    "2025-03-26..2025-06-18/basic/transports#sending-messages-to-the-server-13",
    "2025-11-25/basic/transports#sending-messages-to-the-server-16",
)
@oldest_and_latest
@pytest.mark.parametrize("say", [False, True], ids=["before anything came", "in a stream"])
async def test_disconnection_does_not_cancel_a_request_of_the_legacy_era(revision: str, say: bool) -> None:
    held = HoldingServer()
    async with http_session(held.server, revision) as talk:
        sent = await talk.send(call("hold", name="x", say=say))
        await held.has_begun()
        if say:
            await talk.web.take(sent)
            assert await sent.message() == log_message("x begins")
        await sent.cut()
        assert (await talk.post(request("ping", id="after"))).status == 200
        assert not held.ended
        held.go.set()
        while not held.ended:
            assert (await talk.post(request("ping", id="after"))).status == 200
        assert held.ended == ["x came to its end"]


async def test_post_that_is_cancelled_while_reading_is_paused_leaves_no_stream() -> None:
    async with http_session(HoldingServer().server) as talk:
        (session,) = talk.web.site._endpoint.sessions.values()
        session.pause_reading()
        post = post_over_asgi(talk, call("add", 5, a=1, b=2))
        await eventually(lambda: session._resumed is not None and bool(session._resumed._waiters))
        assert post.cancel()
        await asyncio.wait([post])
        assert session.is_idle and list(session.streams.values()) == [session.listening]
        session.resume_reading()
        assert (await talk.post(call("add", 5, a=1, b=2))).json == call_result("3", 5)


@pytest.mark.parametrize("say", [False, True], ids=["without a message", "with a message"])
@oldest_and_latest
async def test_cancelled_post_leaves_no_stream_after_its_request_has_ended(revision: str, say: bool) -> None:
    # An ASGI server or a middleware can cancel the POST. In the legacy era, the request continues.
    held = HoldingServer()

    @held.server.tool()
    async def work(context: Context) -> TextContent:
        held.begun.put_nowait("work")
        await held.go.wait()
        if say:
            await context.log("info", "it goes on")
        return TextContent("done")

    async with http_session(held.server, revision) as talk:
        (session,) = talk.web.site._endpoint.sessions.values()
        post = post_over_asgi(talk, call("work", 5))
        await held.has_begun()
        assert post.cancel()
        await asyncio.wait([post])
        assert not session.is_idle
        held.go.set()
        await eventually(lambda: session.is_idle)
        assert (await talk.post(call("add", 5, a=1, b=2))).json == call_result("3", 5)


# ------------------------------------------------------------------------------------------------ batches


@pytest.mark.spec(
    "2025-03-26/basic/transports#sending-messages-to-the-server-4,5,7", "2025-03-26/basic/index#batching-1"
)
async def test_batch_gets_one_array_of_responses() -> None:
    bare: JSON = {"jsonrpc": "2.0"}
    spoiled: JSON = {"jsonrpc": "2.0", "id": "b", "method": 5}
    silent = notification("notifications/cancelled", {"requestId": 99})
    async with http_session(HoldingServer().server, BATCHES) as talk:
        reply = await talk.post([call("add", 1, a=1, b=2), silent, call("add", 2, a=3, b=4)])
        assert (reply.status, reply.kind) == (200, JSON_TYPE)
        assert sorted(map(str, reply.json)) == sorted(map(str, [call_result("3", 1), call_result("7", 2)]))
        mixed = (await talk.post([bare, spoiled, call("add", 3, a=1, b=2), "x"])).json
        assert len(mixed) == 4
        codes = [m["error"]["code"] for m in mixed if isinstance(m, dict) and isinstance(m.get("error"), dict)]
        assert codes == [-32600] * 3 and call_result("3", 3) in mixed
        nobody_waits: list[JSON] = [{"jsonrpc": "2.0", "id": 9, "result": {}}, error(8, 1, "no")]
        silences: list[list[JSON]] = [[silent], [silent, silent], nobody_waits]
        for nothing in silences:
            accepted = await talk.post(nothing)
            assert (accepted.status, accepted.body) == (202, b"")


async def test_batch_without_a_valid_message_is_400_with_its_errors() -> None:
    async with http_session(HoldingServer().server, BATCHES) as talk:
        reply = await talk.post([{"jsonrpc": "2.0", "id": 4, "method": 5}, "x"])
        assert (reply.status, [member.get("id") for member in reply.json]) == (400, [4, None])
        empty = await talk.post([])
        assert (empty.status, empty.json["error"]["code"]) == (400, -32600)


async def test_batch_with_a_request_id_that_is_in_use_is_400() -> None:
    held, same = HoldingServer(), "two requests of the batch have the same id; use a different id for each"
    async with http_session(held.server, BATCHES) as talk:
        reply = await talk.post([request("ping", id=1), request("ping", id=2), request("ping", id=1)])
        assert (reply.status, reply.why) == (400, same)
        first = await talk.send([call("hold", 1, name="x")])
        await held.has_begun()
        reply = await talk.post([request("ping", id=2), request("ping", id=1)])
        assert (reply.status, reply.why) == (400, "a request with id 1 is still in flight; use another id")
        assert (await talk.post([request("ping", id=2)])).json == [{"jsonrpc": "2.0", "id": 2, "result": {}}]
        held.go.set()
        assert (await talk.web.take(first)).json == [call_result("x")]


@pytest.mark.spec("2025-03-26/basic/transports#sending-messages-to-the-server-9,11,12")
async def test_stream_of_a_batch_has_the_messages_of_its_requests_and_ends_with_the_responses() -> None:
    held = HoldingServer()
    async with http_session(held.server, BATCHES) as talk:
        both: list[JSON] = [call("hold", 1, name="one", say=True), call("hold", 2, name="two", say=True)]
        reply = await talk.post(both)
        assert {await held.has_begun(), await held.has_begun()} == {"one", "two"}
        held.go.set()
        *before, last = await reply.messages()
        begins = [log_message("one begins"), log_message("two begins")]
        ends = [log_message("one goes on"), log_message("two goes on")]
        assert before == [*begins, *ends]
        assert len(last) == 2
        assert call_result("one", 1) in last and call_result("two", 2) in last


async def test_batch_omits_the_response_of_a_cancelled_request() -> None:
    held = HoldingServer()
    async with http_session(held.server, BATCHES) as talk:
        sent = await talk.send([call("hold", 1, name="x"), request("ping", id=2)])
        await held.has_begun()
        await talk.post([cancelled(1)])
        assert (await talk.web.take(sent)).json == [{"jsonrpc": "2.0", "id": 2, "result": {}}]
        sent = await talk.send([call("hold", 1, name="x"), call("hold", 2, name="y")])
        await held.has_begun()
        await held.has_begun()
        await talk.post([cancelled(2), cancelled(1)])
        assert await (await talk.web.take(sent)).events() == []


@pytest.mark.spec("2025-03-26/basic/lifecycle#initialization-3")
async def test_initialize_in_a_batch_begins_nothing() -> None:
    async with http_session(HoldingServer().server, BATCHES) as talk:
        stranger = await RawSession(talk.web).post([initialize(BATCHES)])
        assert stranger.status == 400 and "mcp-session-id" not in stranger.headers
        assert len(talk.web.site._endpoint.sessions) == 1
        within = await talk.post([initialize(BATCHES), request("ping", id=2)])
        refused = error("init", -32600, "Invalid Request: initialize must not be part of a batch")
        assert within.json == [refused, {"jsonrpc": "2.0", "id": 2, "result": {}}]


async def test_batch_with_requests_and_responses_refuses_the_requests_and_uses_the_responses() -> None:
    async with http_session(HoldingServer().server, BATCHES, {"roots": {}}) as talk:
        asked = await talk.post(call("ask"))
        question = await asked.object()
        own: Object = {"jsonrpc": "2.0", "id": question["id"], "result": {"roots": []}}
        mixed = await talk.post([own, request("ping", id="p")])
        assert mixed.json == [error("p", -32600, "Invalid Request: a batch must not have both requests and responses")]
        assert await asked.messages() == [call_result("0")]


@pytest.mark.parametrize("revision", [revision for revision in STREAMABLE if revision != BATCHES])
async def test_batch_in_a_revision_without_batches_is_400(revision: str) -> None:
    held, silent = HoldingServer(), notification("notifications/cancelled", {"requestId": 99})
    why = f"revision {revision} has no batches (only 2025-03-26 has them): send each message in a separate POST"
    batches: list[list[JSON]] = [[call("hold", name="x")], [silent], [silent, request("ping")]]
    async with http_session(held.server, revision) as talk:
        for batch in batches:
            reply = await talk.post(batch)
            assert (reply.status, reply.why) == (400, why)
        assert held.begun.empty()


async def test_batch_with_a_result_that_has_no_json_form_keeps_the_other_responses() -> None:
    server = Server("s")

    @server.tool()
    async def broken() -> TextContent:
        return TextContent("\ud800")

    async with http_session(server, BATCHES) as talk:
        reply = await talk.post([call("broken", 1), request("ping", id=2), request("ping", id=3)])
        assert reply.json == [
            error(1, -32603, "Internal error: the result cannot be written as JSON"),
            *({"jsonrpc": "2.0", "id": id, "result": {}} for id in (2, 3)),
        ]


# ------------------------------------------------------------------------------------------------ the whole server


async def test_stopping_server_ends_its_streams_and_refuses_new_requests_with_503() -> None:
    held = HoldingServer()
    async with http_session(held.server) as talk:
        listening = await talk.get()
        sent = await talk.send(call("hold", name="x"))
        await held.has_begun()
        stopping = asyncio.create_task(talk.web.site.close())
        await asyncio.sleep(0)
        refused = await talk.post(request("ping"))
        assert (refused.status, refused.why) == (503, "the server is shutting down")
        assert refused.headers["retry-after"].isdigit()
        held.go.set()
        assert (await talk.web.take(sent)).json == call_result("x")  # requests in flight may end
        assert messages(await listening.events()) == []
        await stopping


async def test_post_that_waits_while_reading_is_paused_is_503_if_the_server_stops() -> None:
    async with http_session(HoldingServer().server) as talk:
        (session,) = talk.web.site._endpoint.sessions.values()
        session.pause_reading()
        sent = await talk.send(call("add", a=1, b=2))
        await eventually(lambda: session._resumed is not None and bool(session._resumed._waiters))
        await talk.web.site.end_sessions()
        refused = await talk.web.take(sent)
        assert (refused.status, refused.why) == (503, "the server is shutting down")


async def test_tool_does_not_wait_for_a_response_that_failed_to_begin() -> None:
    held = HoldingServer()
    async with http_session(held.server) as talk:
        assert talk.id is not None

        async def fail(event: MutableMapping[str, object]) -> None:
            raise RuntimeError("the server of the sockets failed")

        post = post_over_asgi(talk, call("hold", name="x", say=True), fail)
        assert await held.has_begun() == "x"
        held.go.set()
        await eventually(lambda: held.ended == ["x came to its end"])
        assert (await talk.post(call("add", a=1, b=2))).json == call_result("3")
        await post


class Broken(MemoryEventStore):
    """A store that fails, once it is told to."""

    fails = False

    def check(self) -> None:
        if self.fails:
            raise OSError("the disk is full")

    def append(self, session: str, stream: str, data: bytes) -> str:
        self.check()
        return super().append(session, stream, data)

    def add_session(self, session: str, initialize: bytes, principal: str | None, caller: str = "") -> None:
        self.check()
        super().add_session(session, initialize, principal, caller)

    def delete_session(self, session: str) -> None:
        super().delete_session(session)
        self.check()


async def test_store_that_fails_loses_no_message_but_the_stream_cannot_be_resumed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = Broken()
    async with http_session(HoldingServer().server, store=store) as talk:
        before = await (await talk.post(call("count", to=1))).events()
        listening = await (await talk.get()).event()
        assert listening is not None
        store.fails = True
        events = await (await talk.post(call("count", to=1))).events()
        assert messages(events) == [log_message(0), call_result("counted")]
        assert not [event for event in events if "id" in event]
        store.fails = False
        assert (await talk.post(call("add", a=1, b=2))).json == call_result("3")
        for last in (before[0]["id"], listening["id"]):  # a replay would have a gap
            assert (await talk.get(last)).status == 400
        store.fails = True
        refused = await RawSession(talk.web).post(initialize())
        assert refused.status == 500 and b"disk" not in refused.body
        assert list(talk.web.site._endpoint.sessions) == [talk.id]  # nothing has begun
    assert "the disk is full" in caplog.text


async def test_delete_ends_the_session_although_the_store_fails(caplog: pytest.LogCaptureFixture) -> None:
    held, store = HoldingServer(), Broken()
    async with asyncio.timeout(5.0):
        async with http_session(held.server, store=store) as talk:
            posted = await talk.post(call("hold", name="x", say=True))
            await held.has_begun()
            store.fails = True
            assert (await talk.delete()).status == 204
            held.go.set()
            assert (await posted.messages())[-1] == call_result("x")
            await eventually(lambda: not held.server.catalog.announcers)
            assert (await talk.post(request("ping"))).status == 404
    assert "an ended session could not be deleted from the store" in caplog.text


async def test_close_ends_although_a_session_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_table, "CLOSE_SECONDS", 0.01)
    never = asyncio.Event()

    class Endless:
        async def finish(self) -> None:
            while not never.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await never.wait()

    async def begin(transport: Transport) -> Endless:
        await transport.start(lambda message: None, lambda error: None)
        return Endless()

    scopes = Server("s").catalog  # which needs none
    table = SessionTable(begin, MemoryEventStore(), EndpointLimits(), None, Shares("requests", 9, 9), "", scopes)
    table.begin(b"{}", Access())
    await asyncio.sleep(0)
    async with asyncio.timeout(5.0):
        await table.close()
    never.set()
    await eventually(lambda: not table._tasks)
