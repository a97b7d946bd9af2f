"""The client's side of both HTTP transports, against servers that follow a script, and against our own."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from mcp_ref import Client, ClientLimits, ConnectionClosed, Context, HttpClient, Server
from mcp_ref.jsonrpc.errors import McpError
from mcp_ref.jsonrpc.messages import (
    Batch,
    ErrorResponse,
    Incoming,
    Malformed,
    Notification,
    Object,
    Outgoing,
    Request,
    RequestFailure,
    Response,
    encode,
)
from mcp_ref.lib.http.message import Exchange
from mcp_ref.lib.http.server import start_server
from mcp_ref.lib.http.sse import EventParser, encode_event
from mcp_ref.transports.http_sse import client as http_sse_client
from mcp_ref.transports.streamable_http import client as streamable_http_client
from mcp_ref.transports.streamable_http import resumption
from mcp_ref.transports.streamable_http.client import StreamableHttpClientTransport
from tests.scripted_http_server import (
    JSON_HEADERS,
    SSE,
    ScriptedServer,
    Step,
    after,
    error,
    events,
    frame,
    log_message,
    result,
    scripted,
    silence,
    status,
)
from tests.settings import PATIENCE, eventually, pass_time

LATEST = "2025-11-25"
STREAMABLE = ["2025-03-26", "2025-06-18", LATEST]


# ------------------------------------------------------------------------------------------------ the client


class Talk:
    """A transport, and the messages that it delivers."""

    def __init__(self, transport: StreamableHttpClientTransport, revision: str) -> None:
        self.transport = transport
        self.revision = revision
        self.received: asyncio.Queue[Incoming] = asyncio.Queue()
        self.lost: list[McpError | None] = []

    async def next(self) -> Incoming:
        return await self.received.get()

    def send(self, message: Outgoing) -> None:
        self.transport.send(message)

    async def ask(self, id: int | str = 1, method: str = "ping") -> Incoming:
        """Send a request, and take what comes next."""
        self.send(Request(id, method))
        return await self.next()

    async def fails(self, id: int | str = 1, method: str = "ping") -> str:
        """Return the reason why a request failed."""
        found = await self.ask(id, method)
        assert isinstance(found, RequestFailure) and found.id == id, found
        return found.reason

    def initialize(self) -> Request:
        info: Object = {"name": "test", "version": "1"}
        params: Object = {"protocolVersion": self.revision, "capabilities": {}, "clientInfo": info}
        return Request("init", "initialize", params)

    async def handshake(self) -> None:
        self.send(self.initialize())
        answered = await self.next()
        assert isinstance(answered, Response), answered
        self.send(Notification("notifications/initialized"))
        await self.drained()

    async def drained(self) -> None:
        await self.transport.drain()


@contextlib.asynccontextmanager
async def talk(url: str, revision: str = LATEST, greeted: bool = True, **headers: str) -> AsyncIterator[Talk]:
    transport = StreamableHttpClientTransport(url, headers=headers)
    made = Talk(transport, revision)
    await transport.start(made.received.put_nowait, made.lost.append)
    try:
        if greeted:
            await made.handshake()
        yield made
    finally:
        await transport.close()


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the pauses that the client would have made before it resumed a stream. It makes none."""
    found: list[float] = []
    pause = resumption.retry_seconds

    def noted(*arguments: object) -> float:
        found.append(pause(*arguments))  # type: ignore[arg-type]
        return 0.0

    monkeypatch.setattr(resumption, "retry_seconds", noted)
    return found


# ------------------------------------------------------------------------------------------------ headers


@pytest.mark.parametrize("revision", STREAMABLE)
@pytest.mark.spec(
    "2025-03-26..2025-11-25/basic/transports#sending-messages-to-the-server-1,2,3",
    "2025-03-26..2025-11-25/basic/transports#listening-for-messages-from-the-server-1",
    "2025-03-26..2025-06-18/basic/transports#session-management-3,7",
    "2025-11-25/basic/transports#session-management-4,8",
    "2025-06-18..2025-11-25/basic/transports#protocol-version-header-1,2",
    "2025-06-18..2025-11-25/basic/lifecycle#version-negotiation-7",
)
async def test_client_sends_the_headers_that_the_revision_requires(revision: str) -> None:
    async with scripted() as site:
        async with talk(site.url, revision, Authorization="Bearer t") as client:
            await client.ask()
            client.send(Response("theirs", {}))
            await client.drained()
            await eventually(lambda: "GET" in site.keys)
        session = {"mcp-session-id": "s1"}
        if revision != "2025-03-26":
            session["mcp-protocol-version"] = revision
        post = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        expected = {
            "initialize": post,
            "notifications/initialized": post | session,
            "ping": post | session,
            "reply": post | session,
            "GET": {"accept": "text/event-stream"} | session,
            "DELETE": session,
        }
        assert sorted(site.keys) == sorted(expected)
        for kind, request in site.asked:
            found = {name.lower(): value for name, value in request.headers}
            usual = {"host", "accept-encoding", "content-length"}
            ours = {name: value for name, value in found.items() if name not in usual}
            assert ours == expected[kind] | {"authorization": "Bearer t"}, kind
            assert request.method == (kind if kind in ("GET", "DELETE") else "POST")


async def test_client_sends_the_version_after_a_handshake_whose_response_has_its_id_as_a_string() -> None:
    async def step(exchange: Exchange, message: Object) -> None:
        info: Object = {"name": "s", "version": "1"}
        body = result(str(message["id"]), protocolVersion=LATEST, capabilities={}, serverInfo=info)
        exchange.respond(200, JSON_HEADERS, body)

    async with scripted() as site:
        site.on("initialize", step)
        async with Client(site.url, revision=LATEST) as client:
            await client.ping()
        assert site.headers("ping")[0]["mcp-protocol-version"] == LATEST


@pytest.mark.spec(
    "2025-11-25/basic/transports#sending-messages-to-the-server-1,4", "2025-11-25/basic/transports#intro-1"
)
async def test_client_posts_each_message_by_itself_in_utf_8() -> None:
    async with scripted() as site, talk(site.url) as client:
        client.send(Notification("notifications/progress", {"message": "ä€😀\u2028"}))
        client.send(Response(7, {"text": "ß"}))
        await client.ask()
        bodies = [request.body for key, request in site.asked if key in ("notifications/progress", "reply", "ping")]
        assert [json.loads(body.decode("utf-8")) for body in bodies] == [
            {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"message": "ä€😀\u2028"}},
            {"jsonrpc": "2.0", "id": 7, "result": {"text": "ß"}},
            {"jsonrpc": "2.0", "id": 1, "method": "ping"},
        ]


async def test_without_a_session_id_from_the_server_none_is_sent_and_none_deleted() -> None:
    async with scripted() as site:
        body = result("init", protocolVersion=LATEST, capabilities={}, serverInfo={"name": "x", "version": "1"})
        site.on("initialize", status(200, body))
        site.on("ping", status(200, result(1), *JSON_HEADERS, ("Mcp-Session-Id", "too-late")))
        async with talk(site.url) as client:
            await client.ask()
            await client.ask(2)
        assert "DELETE" not in site.keys
        assert not any("mcp-session-id" in request.headers for _, request in site.asked)


# ------------------------------------------------------------------------------------------------ answers


@pytest.mark.parametrize(
    "step",
    [
        status(200, result(1, a="b")),
        status(200, result(1, a="b"), ("Content-Type", "Application/JSON; charset=utf-8")),
        events(encode_event(result(1, a="b"))),
        events(encode_event(result(1, a="b")), hold=True),
        events(encode_event(result(1, a="b")), headers=[("Content-Type", "text/event-stream;charset=UTF-8")]),
        events(b": hi\n\nid: 1\ndata:\n\nevent: other\ndata: x\n\n", encode_event(result(1, a="b"))),
        events(*(bytes([byte]) for byte in encode_event(result(1, a="b")).replace(b"\n", b"\r\n"))),
    ],
    ids=["json", "JSON", "events", "events held open", "charset", "comments and others", "byte by byte"],
)
@pytest.mark.spec("2025-03-26..2025-11-25/basic/transports#sending-messages-to-the-server-8")
async def test_response_may_be_json_or_an_event(step: Step) -> None:
    async with scripted() as site:
        site.on("ping", step)
        async with talk(site.url) as client:
            assert await client.ask() == Response(1, {"a": "b"})
            assert await client.ask(2) == Response(2, {})


async def test_messages_before_the_response_are_delivered_and_nothing_is_read_after_it() -> None:
    async with scripted() as site:
        notes = [encode_event(log_message(str(n))) for n in range(20)]
        site.on("ping", events(*notes, encode_event(result(1)), hold=True))
        async with talk(site.url) as client:
            client.transport.pause_reading()
            client.send(Request(1, "ping"))
            found = [await client.next()]
            assert client.received.empty()  # it waits, although the others have come too
            client.transport.resume_reading()
            found += [await client.next() for _ in range(20)]
            assert [m.params["data"] for m in found if isinstance(m, Notification)] == [str(n) for n in range(20)]
            assert found[20] == Response(1, {})
            await eventually(lambda: site.under_way == 0)  # the stream was left


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (status(200, b"<html>", ("Content-Type", "text/html")), "the response is text/html, not application/json"),
        (status(202, b"", ("X", "y")), "without content type"),
        (status(200), "without the JSON-RPC response"),
        (status(200, result(99)), "without the JSON-RPC response"),
        (events(), "without the JSON-RPC response"),
        (events(encode_event(result(1)).rstrip(b"\n")), "without the JSON-RPC response"),
        (
            status(302, b"", ("Location", "/login?state=secret")),
            "HTTP 302; if you trust the URL to which it redirects, use that one: 'http://127.0.0.1:PORT/login'",
        ),
        (
            status(302, b"", ("Location", "https://ada:secret@b.example/login#token=secret")),
            "HTTP 302; if you trust the URL to which it redirects, use that one: 'https://b.example/login'",
        ),
        (status(401), "HTTP 401"),
        (status(404, b"gone"), "HTTP 404|no new session could begin"),
        (status(500, b"oops"), "HTTP 500"),
        (status(200, b"x" * 11, *JSON_HEADERS, ("Content-Encoding", "br")), "encoded"),
    ],
)
async def test_request_without_a_valid_response_fails_and_the_next_one_works(step: Step, why: str) -> None:
    async with scripted() as site:
        site.on("ping", step, *([step] if "404" in why else []))
        async with talk(site.url) as client:
            client.send(Request(1, "ping"))
            while not isinstance(found := await client.next(), RequestFailure):
                assert isinstance(found, Response) and found.id == 99
            assert found.id == 1 and "secret" not in found.reason
            why = why.replace("PORT", str(urlsplit(site.url).port))
            assert any(one in found.reason for one in why.split("|")) and client.transport.url in found.reason
            assert await client.ask(2) == Response(2, {})


@pytest.mark.parametrize("body", [b'{"jsonrpc":"2.0","id":1}', b'{"jsonrpc":"2.0","id":1,"resu', b"{nonsense"])
@pytest.mark.parametrize("has_events", [False, True])
async def test_body_that_is_not_json_rpc_is_delivered_as_malformed_and_the_request_fails(
    body: bytes, has_events: bool
) -> None:
    async with scripted() as site:
        site.on("ping", events(encode_event(body)) if has_events else status(200, body))
        async with talk(site.url) as client:
            assert isinstance(await client.ask(), Malformed)
            failure = await client.next()
            assert isinstance(failure, RequestFailure) and "without the JSON-RPC response" in failure.reason
            site.on("ping", events(encode_event(b"[1, 2"), encode_event(result(2))))
            assert isinstance(await client.ask(2), Malformed)
            assert await client.next() == Response(2, {})


@pytest.mark.parametrize("code", [400, 403, 405, 429, 503])
async def test_http_error_with_a_json_rpc_error_is_the_response(code: int) -> None:
    async with scripted() as site:
        body = frame({"jsonrpc": "2.0", "error": {"code": -32001, "message": "not today", "data": [1]}})
        site.on("ping", status(code, body))
        async with talk(site.url) as client:
            found = await client.ask()
            assert isinstance(found, ErrorResponse) and found.id == 1
            assert (found.error.code, found.error.data) == (-32001, [1])
            assert found.error.message == f"the server answered HTTP {code}: not today"


async def test_response_on_the_stream_of_another_request_completes_its_own_request() -> None:
    async with scripted() as site:
        site.on("ping", silence, events(encode_event(result(1, by="other")), encode_event(result(2)), hold=True))
        async with talk(site.url) as client:
            client.send(Request(1, "ping"))
            await eventually(lambda: "ping" in site.keys)
            assert await client.ask(2) == Response(1, {"by": "other"})
            assert await client.next() == Response(2, {})


@pytest.mark.parametrize(
    "step", [events(b"data: " + b"x" * 2000), events(b"x" * 2000), status(200, result(1, a="x" * 2000))]
)
async def test_response_too_large_fails_its_request_only(step: Step, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streamable_http_client, "MAX_RESPONSE", 1000)
    monkeypatch.setattr(resumption, "MAX_RESPONSE", 1000)
    async with scripted() as site:
        site.on("ping", step)
        async with talk(site.url) as client:
            assert "more than" in await client.fails()
            assert await client.ask(2) == Response(2, {})
            await eventually(lambda: site.under_way == 0)


async def test_endless_stream_fails_only_its_own_call_at_the_time_limit() -> None:
    async def flood(exchange: Exchange, message: Object) -> None:
        stream = exchange.stream(200, SSE)
        while not stream.ended.done():
            stream.write(b": nothing\n\n" * 100)
            await stream.drain()
            await asyncio.sleep(0)

    async with scripted() as site:
        site.on("ping", flood)
        async with Client(site.url) as client:
            with pytest.raises(McpError, match=r"0.05 s"):
                await client.ping(timeout=0.05)
            site.steps["ping"].clear()  # on a busy machine, the first ping may not have arrived in time
            await client.ping(timeout=PATIENCE)
            await eventually(lambda: site.under_way == 0)
        assert site.keys.count("notifications/cancelled") == 1


async def test_more_calls_that_ask_back_than_there_are_connections_are_all_answered(tmp_path: Path) -> None:
    server = Server("s")

    @server.tool()
    async def roots(context: Context) -> int:
        return len(await context.list_roots())

    async with server.serve_http() as url:
        http = HttpClient(limits=ClientLimits(head_time=None, idle=None, connections=5))
        async with Client(url, roots=[tmp_path], http=http, timeout=PATIENCE) as client:
            results = await asyncio.gather(*(client.call_tool("roots") for _ in range(20)))
            assert [result.structured_content for result in results] == [1] * 20


# ------------------------------------------------------------------------------------------------ notifications


async def test_notifications_are_accepted_in_order() -> None:
    async with scripted() as site, talk(site.url) as client:
        gate = asyncio.Event()
        site.on("notifications/progress", after(gate, status(202)))
        client.send(Notification("notifications/progress", {"n": 1}))
        client.send(Response("theirs", {}))
        client.send(Notification("notifications/progress", {"n": 2}))
        client.send(Request(1, "ping"))
        await eventually(lambda: "notifications/progress" in site.keys)
        assert {"reply", "ping"}.isdisjoint(site.keys)
        gate.set()
        assert await client.next() == Response(1, {})
        order = [key for key in site.keys if key not in ("initialize", "notifications/initialized", "GET")]
        assert order == ["notifications/progress", "reply", "notifications/progress", "ping"]


@pytest.mark.parametrize("code", [400, 401, 500])
async def test_refused_notification_is_logged_and_the_next_message_is_sent(
    code: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with scripted() as site, talk(site.url) as client:
        site.on("notifications/progress", status(code))
        client.send(Notification("notifications/progress"))
        assert await client.ask() == Response(1, {})
    assert f"HTTP {code}" in caplog.text


async def test_notification_that_is_not_accepted_in_time_no_longer_delays_the_next_message(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scripted() as site, talk(site.url) as client:
        monkeypatch.setattr(streamable_http_client, "ACCEPT_SECONDS", 0.05)
        site.on("notifications/progress", silence)
        client.send(Notification("notifications/progress"))
        assert await client.ask() == Response(1, {})
        await eventually(lambda: not client.transport._posts)
    assert "did not accept a message within 0.05 s" in caplog.text


# ------------------------------------------------------------------------------------------------ cancelling


@pytest.mark.spec(
    "2025-11-25/basic/transports#sending-messages-to-the-server-17",
    "2025-03-26/basic/transports#sending-messages-to-the-server-14",
)
@pytest.mark.parametrize("step", [silence, events(encode_event(log_message("x"), id="1"), hold=True)])
async def test_cancelled_call_sends_notifications_cancelled_and_ends_its_post(step: Step) -> None:
    async with scripted() as site:
        site.on("ping", step)
        async with Client(site.url) as client:
            call = asyncio.create_task(client.ping())
            await eventually(lambda: "ping" in site.keys)
            call.cancel()
            await asyncio.wait([call])
            transport = client.session.transport
            assert isinstance(transport, StreamableHttpClientTransport)
            await eventually(lambda: "notifications/cancelled" in site.keys and not transport._posts)
            await eventually(lambda: site.under_way == 0)
            await client.ping()


async def test_cancellation_of_a_stateless_request_is_not_posted_after_an_initialize_that_failed() -> None:
    async with scripted() as site, talk(site.url, greeted=False) as client:
        site.on("initialize", status(500))
        client.send(client.initialize())
        assert isinstance(await client.next(), RequestFailure)
        client.send(Notification("notifications/cancelled", {"requestId": 1}))
        await client.drained()
        assert site.keys == ["initialize"]


async def test_cancelled_request_of_a_batch_leaves_the_responses_of_the_others() -> None:
    gate = asyncio.Event()
    async with scripted() as site, talk(site.url, "2025-03-26") as client:
        site.on("ping", after(gate, status(200, frame([json.loads(result(2)), json.loads(result(1))]))))
        client.send(Batch([Request(1, "ping"), Request(2, "ping")]))
        await eventually(lambda: "ping" in site.keys)
        client.send(Notification("notifications/cancelled", {"requestId": 1}))
        await client.drained()
        gate.set()
        assert await client.next() == Batch([Response(2, {}), Response(1, {})])
        site.on("ping", silence)
        client.send(Batch([Request(3, "ping"), Request(4, "ping")]))
        await eventually(lambda: site.keys.count("ping") == 2)
        for id in (3, 4):
            client.send(Notification("notifications/cancelled", {"requestId": id}))
        await eventually(lambda: not client.transport._posts)


# ------------------------------------------------------------------------------------------------ dead sessions


@pytest.mark.spec(
    "2025-03-26..2025-06-18/basic/transports#session-management-6", "2025-11-25/basic/transports#session-management-7"
)
@pytest.mark.parametrize("revision", STREAMABLE)
async def test_404_begins_a_new_session_without_the_old_id_and_repeats_the_request(
    revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with scripted() as site, talk(site.url, revision) as client:
        site.on("ping", status(404))
        await eventually(lambda: "GET" in site.keys)
        site.asked.clear()
        assert await client.ask() == Response(1, {})
        keys = [key for key in site.keys if key != "GET"]
        assert keys == ["ping", "initialize", "notifications/initialized", "ping"]
        assert [h.get("mcp-session-id") for h in site.headers("ping")] == ["s1", "s2"]
        assert "mcp-session-id" not in site.headers("initialize")[0]
        assert "mcp-protocol-version" not in site.headers("initialize")[0]
        assert site.headers("notifications/initialized")[0]["mcp-session-id"] == "s2"
        await eventually(lambda: "GET" in site.keys)  # and listens again
        assert site.headers("GET")[0]["mcp-session-id"] == "s2"
        assert client.received.empty() and "has ended the session; a new one begins" in caplog.text


async def test_second_404_fails_the_call_without_a_third_attempt() -> None:
    async with scripted() as site, talk(site.url) as client:
        site.on("ping", status(404), status(404))
        assert "HTTP 404" in await client.fails()
        assert (site.keys.count("ping"), site.sessions) == (2, 2)


async def test_several_calls_that_find_their_session_dead_share_one_new_one_and_later_ones_wait_for_it() -> None:
    gate, greeted = asyncio.Event(), asyncio.Event()
    async with scripted() as site, talk(site.url) as client:
        site.on("ping", *[after(gate, status(404))] * 5)
        site.on("initialize", after(greeted, site.usually))
        for id in range(5):
            client.send(Request(id, "ping"))
        await eventually(lambda: site.keys.count("ping") == 5)
        gate.set()
        await eventually(lambda: site.keys.count("initialize") == 2)
        client.send(Request(5, "ping"))
        client.send(Notification("notifications/progress"))
        await asyncio.sleep(0)
        greeted.set()
        found = {m.id for m in [await client.next() for _ in range(6)] if isinstance(m, Response)}
        assert found == set(range(6))
        await client.drained()
        assert site.sessions == 2
        assert [h["mcp-session-id"] for h in site.headers("ping")] == ["s1"] * 5 + ["s2"] * 6
        later = site.keys[site.keys.index("initialize", 1) + 1 :]
        assert later[0] == "notifications/initialized"  # before anything else


async def test_call_whose_session_has_ended_uses_the_session_that_another_call_has_begun() -> None:
    gate = asyncio.Event()
    async with scripted() as site, talk(site.url) as client:
        site.on("ping", after(gate, status(404)), status(404))
        client.send(Request(1, "ping"))
        await eventually(lambda: "ping" in site.keys)
        assert await client.ask(2) == Response(2, {})
        gate.set()
        assert await client.next() == Response(1, {})
        assert site.sessions == 2


async def test_call_that_is_cancelled_during_the_renewal_does_not_cancel_the_renewal() -> None:
    gate = asyncio.Event()
    async with scripted() as site, talk(site.url) as client:
        site.on("ping", status(404), status(404))
        site.on("initialize", after(gate, site.usually))
        client.send(Request(1, "ping"))
        client.send(Request(2, "ping"))
        await eventually(lambda: site.keys.count("ping") == 2 and site.keys.count("initialize") == 2)
        first = next(task for task, ids in client.transport._posts.items() if ids == {1})
        first.cancel()
        await asyncio.wait([first])
        gate.set()
        assert await client.next() == Response(2, {})
        assert site.sessions == 2


@pytest.mark.spec("2025-11-25/basic/transports#session-management-7")
async def test_listening_stream_that_gets_404_begins_a_new_session_once(pauses: list[float]) -> None:
    async with scripted() as site:
        first, second = (encode_event(log_message(n), id=n) for n in "ab")
        site.on("GET", events(first), status(404), events(second, hold=True))
        async with talk(site.url) as client:
            assert [isinstance(await client.next(), Notification) for _ in range(2)] == [True, True]
            listened = [(h["mcp-session-id"], h.get("last-event-id")) for h in site.headers("GET")]
            assert listened == [("s1", None), ("s1", "a"), ("s2", None)]
            assert (site.sessions, len(pauses)) == (2, 2)  # also before the new session is listened to
            assert await client.ask() == Response(1, {})


@pytest.mark.parametrize("first", [events(), silence])
async def test_listening_stream_is_opened_at_once_in_the_session_that_a_request_has_begun(
    first: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused = asyncio.Event()

    def hour(*_: object) -> float:
        paused.set()
        return 3600.0

    monkeypatch.setattr(resumption, "retry_seconds", hour)
    async with scripted() as site:
        site.on("GET", first, events(encode_event(log_message("1")), hold=True))
        async with talk(site.url) as client:
            await eventually(lambda: "GET" in site.keys and (first is silence or paused.is_set()))
            site.on("ping", status(404))
            received = [await client.ask(), await client.next()]
            assert Response(1, {}) in received and any(isinstance(each, Notification) for each in received)
            assert [h["mcp-session-id"] for h in site.headers("GET")] == ["s1", "s2"]


OTHER_REVISION = result("init", protocolVersion="2025-03-26", capabilities={}, serverInfo={"name": "x", "version": "1"})


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (silence, "0.05 s"),
        (status(404), "session"),
        (status(503), "session"),
        (status(200), "session"),
        (events(), "session"),
        (status(200, OTHER_REVISION, *JSON_HEADERS, ("Mcp-Session-Id", "other")), "the revision has changed"),
        (status(200, error("init", "try later")), "refused `initialize`: try later (error -32600)"),
        (status(200, error("init", "")), "refused `initialize`:  (error -32600)"),
    ],
)
async def test_session_renewal_that_fails_fails_the_call_and_the_next_call_tries_again(
    step: Step, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scripted() as site, talk(site.url) as client:
        if step is silence:
            monkeypatch.setattr(streamable_http_client, "RENEWAL_SECONDS", 0.05)
        site.on("ping", status(404), status(404))
        site.on("initialize", step)
        assert why in await client.fails()
        assert client.transport._renewal is not None and client.transport._renewal.done()
        monkeypatch.undo()
        while not client.received.empty():
            client.received.get_nowait()
        assert await client.ask(2) == Response(2, {})
        assert [h.get("mcp-session-id") for h in site.headers("ping")][:2] == ["s1", "s1"]
        assert site.headers("ping")[-1]["mcp-session-id"] == "s2"


async def test_messages_other_than_the_response_to_a_repeated_initialize_are_delivered_and_begin_no_session() -> None:
    async with scripted() as site, talk(site.url) as client:
        site.on("ping", status(404))
        site.on("initialize", events(encode_event(log_message("a")), encode_event(result("other"))))
        assert isinstance(await client.ask(), Notification)
        assert await client.next() == Response("other", {})
        failed = await client.next()
        assert isinstance(failed, RequestFailure) and "no new session could begin" in failed.reason


async def test_call_that_is_cancelled_during_a_renewal_that_fails_leaves_nothing_behind() -> None:
    gate = asyncio.Event()
    async with scripted() as site, talk(site.url) as client:
        site.on("ping", status(404))
        site.on("initialize", after(gate, status(500)))
        client.send(Request(1, "ping"))
        await eventually(lambda: site.keys.count("initialize") == 2)
        (post,) = client.transport._posts
        post.cancel()
        await asyncio.wait([post])
        gate.set()
        await eventually(lambda: site.under_way == 0)
        assert await client.ask(2) == Response(2, {})


async def test_new_session_repeats_notifications_but_not_responses() -> None:
    """Check that responses are dropped: their requests ended with the old session."""
    async with scripted() as site, talk(site.url) as client:
        site.on("reply", status(404))
        client.send(Response("theirs", {}))
        await client.drained()
        assert (site.keys.count("reply"), site.sessions) == (1, 2)
        site.on("notifications/progress", status(404))
        client.send(Notification("notifications/progress"))
        await client.drained()
        assert (site.keys.count("notifications/progress"), site.sessions) == (2, 3)


# ------------------------------------------------------------------------------------------------ coming back


@pytest.mark.spec(
    "2025-11-25/basic/transports#sending-messages-to-the-server-10",
    "2025-11-25/basic/transports#resumability-and-redelivery-3",
    "2025-03-26/basic/transports#resumability-and-redelivery-2",
)
async def test_stream_that_ends_before_its_response_is_resumed_after_its_last_event(pauses: list[float]) -> None:
    async with scripted() as site, talk(site.url) as client:
        await eventually(lambda: "GET" in site.keys)
        site.asked.clear()
        site.on("ping", events(b"id: a\ndata:\n\n", encode_event(log_message("1"), id="b"), b"id: c\ndata: cut"))
        site.on(
            "GET", events(encode_event(log_message("2"), id="d")), events(), events(encode_event(result(1), id="e"))
        )
        found = [await client.ask(), await client.next(), await client.next()]
        assert [m.params["data"] for m in found if isinstance(m, Notification)] == ["1", "2"]
        assert found[2] == Response(1, {})
        assert [h["last-event-id"] for h in site.headers("GET")] == ["b", "d", "d"]
        assert site.headers("GET")[0]["mcp-session-id"] == "s1" and site.keys.count("ping") == 1


@pytest.mark.spec("2025-11-25/basic/transports#sending-messages-to-the-server-12")
async def test_client_resumes_a_stream_after_the_retry_time_of_the_server() -> None:
    async with scripted() as site, talk(site.url) as client:
        loop = asyncio.get_running_loop()
        times: list[float] = []

        def timed(step: Step) -> Step:
            async def noted(exchange: Exchange, message: Object) -> None:
                times.append(loop.time())
                await step(exchange, message)

            return noted

        await eventually(lambda: "GET" in site.keys)
        site.on("ping", timed(events(encode_event(b"", id="a", retry=150))))
        site.on("GET", timed(events(encode_event(result(1), id="b"))))
        assert await client.ask() == Response(1, {})
        assert 0.148 < times[1] - times[0] < PATIENCE  # the clock of an event loop can have steps of a millisecond


async def test_stream_with_new_event_ids_but_no_message_is_resumed_after_longer_pauses(pauses: list[float]) -> None:
    async with scripted() as site, talk(site.url) as client:
        await eventually(lambda: "GET" in site.keys)
        pauses.clear()
        empty = [events(f"id: {number}\nretry: 0\ndata:\n\n".encode()) for number in range(10)]
        site.on("ping", empty[0])
        site.on("GET", *empty[1:], events(encode_event(log_message("1"), id="n")), events(encode_event(result(1))))
        assert isinstance(await client.ask(), Notification)
        assert await client.next() == Response(1, {})
        assert pauses == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0, 0.05]


@pytest.mark.parametrize(
    ("retry", "pause"),
    [(b"", 1.0), (b"2500", 2.5), (b"0", 0.05), (b"soon", 1.0), (b"3600000", 60.0), (b"999999999999999", 60.0)],
)
def test_retry_time_is_used_within_limits(retry: bytes, pause: float) -> None:
    parser = EventParser(1000)
    list(parser.feed(b"id: a\nretry: " + retry + b"\ndata:\n\n"))
    assert resumption.retry_seconds(parser, 0, 0) == pause


async def test_stream_without_events_is_resumed_five_times_after_longer_pauses(pauses: list[float]) -> None:
    async with scripted() as site, talk(site.url) as client:
        await eventually(lambda: "GET" in site.keys)
        pauses.clear()
        site.on("ping", events(b"id: a\nretry: 100\ndata:\n\n"))
        site.on("GET", events(), status(500), status(429), events(b": nothing\n\n"), events())
        assert "without the JSON-RPC response" in await client.fails()
        assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6]


@pytest.mark.parametrize("code", [400, 401, 404, 405])
async def test_stream_that_the_server_cannot_resume_fails_its_call(code: int, pauses: list[float]) -> None:
    async with scripted() as site, talk(site.url) as client:
        await eventually(lambda: "GET" in site.keys)
        site.on("ping", events(encode_event(log_message("x"), id="a")))
        site.on("GET", status(code))
        assert isinstance(await client.ask(), Notification)
        assert isinstance(await client.next(), RequestFailure)
        assert site.keys.count("GET") == 2
        assert await client.ask(2) == Response(2, {})


@pytest.mark.parametrize(
    ("id", "sent"), [("ä", "ä"), ("\u2028😀", "\u2028😀"), ("a b", "a b"), ("\x01", None), ("\x7f", None), ("", None)]
)
async def test_last_event_id_is_sent_in_utf_8_and_an_id_that_no_header_can_carry_is_not_used(
    id: str, sent: str | None, pauses: list[float]
) -> None:
    async with scripted() as site, talk(site.url) as client:
        await eventually(lambda: "GET" in site.keys)
        site.asked.clear()
        site.on("ping", events(f"id: {id}\ndata:\n\n".encode()))
        site.on("GET", events(encode_event(result(1))))
        found = await client.ask()
        if sent is None:
            assert isinstance(found, RequestFailure) and not site.asked[1:]
        else:
            assert found == Response(1, {})
            assert site.headers("GET")[0]["last-event-id"].encode("latin-1").decode() == sent


# ------------------------------------------------------------------------------------------------ listening


async def test_listening_stream_is_resumed_after_the_last_event_while_the_session_lasts(pauses: list[float]) -> None:
    async with scripted() as site:
        site.on(
            "GET",
            events(encode_event(log_message("1"), id="a")),
            status(502),
            status(429),
            events(encode_event(log_message("2"), id="b")),
            events(b"id: c\ndata:\n\n"),
            status(400),  # the later events were dropped: listen from now on
            events(encode_event(log_message("3"), id="\x01")),
            events(encode_event(log_message("4"), id="\u20ac"), hold=True),
        )
        async with talk(site.url) as client:
            found = [await client.next() for _ in range(4)]
            assert [m.params["data"] for m in found if isinstance(m, Notification)] == ["1", "2", "3", "4"]
            lasts = [h.get("last-event-id") for h in site.headers("GET")]
            assert lasts == [None, "a", "a", "a", "b", "c", None, None]
            assert pauses == [1.0, 2.0, 4.0, 1.0, 2.0, 2.0, 1.0]  # longer after each failure, and without a message


@pytest.mark.parametrize("step", [status(405), status(404), status(401), status(200, b"{}")])
async def test_client_requests_no_second_listening_stream_from_a_server_without_one(
    step: Step, pauses: list[float]
) -> None:
    async with scripted() as site:
        site.on("GET", step)
        async with talk(site.url) as client:
            await eventually(lambda: "GET" in site.keys)
            for id in range(3):
                await client.ask(id)
            assert client.transport._listener is not None
            await asyncio.wait([client.transport._listener], timeout=PATIENCE)
            assert site.keys.count("GET") == 1 and pauses == []


async def test_listening_stream_with_too_large_events_is_resumed_after_longer_and_longer_pauses_with_one_warning(
    pauses: list[float], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(resumption, "MAX_RESPONSE", 1000)
    async with scripted() as site:
        site.on("GET", *[events(b"x" * 2000, hold=True)] * 9, events(encode_event(log_message("x")), hold=True))
        async with talk(site.url) as client:
            assert isinstance(await client.next(), Notification)
            assert pauses == [2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0, 60.0]
    assert ["the listening stream broke" in record.message for record in caplog.records].count(True) == 1


# ------------------------------------------------------------------------------------------------ the older transport


def older(site: ScriptedServer, endpoint: str = "/messages?session=1", first: int = 405) -> asyncio.Queue[bytes]:
    """Make a scripted server speak HTTP+SSE. It sends the frames of the queue as events; b"" ends the stream."""
    said: asyncio.Queue[bytes] = asyncio.Queue()

    async def stream(exchange: Exchange, message: Object) -> None:
        carrier = exchange.stream(200, SSE)
        carrier.write(encode_event(endpoint.encode(), event="endpoint"))
        gone: asyncio.Future[None] = carrier.ended
        while not gone.done():
            taking = asyncio.create_task(said.get())
            both: set[asyncio.Future[Any]] = {taking, gone}
            try:
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            finally:
                taking.cancel()
            if not taking.done() or not (data := taking.result()):
                return
            carrier.write(encode_event(data))

    async def taken(exchange: Exchange, message: Object) -> None:
        exchange.respond(202, [], b"Accepted")
        if "method" in message and "id" in message:
            members: Object = {}
            if message["method"] == "initialize":
                info: Object = {"name": "old", "version": "1"}
                members = {"protocolVersion": "2024-11-05", "capabilities": {}, "serverInfo": info}
            said.put_nowait(result(message["id"], **members))

    site.on("server/discover", status(first, b"no"))
    site.on("initialize", status(first, b"no"), taken)
    site.on("GET", stream)
    site.on("ping", *[taken] * 20)
    return said


@pytest.mark.parametrize("code", [400, 404, 405])
async def test_initialize_refused_with_400_404_or_405_tries_http_sse(code: int) -> None:
    async with scripted() as site:
        said = older(site, first=code)
        async with Client(site.url, headers={"Authorization": "Bearer t"}) as client:
            assert str(client.revision) == "2024-11-05"
            await client.ping()
            for n in range(5):
                said.put_nowait(log_message(str(n)))
            await client.ping()
        posts = [(key, request.path, request.query) for key, request in site.asked]
        assert posts[:4] == [
            ("server/discover", "/mcp", ""),
            ("initialize", "/mcp", ""),
            ("GET", "/mcp", ""),
            ("initialize", "/messages", "session=1"),
        ]
        assert [key for key, _, _ in posts[4:]] == ["notifications/initialized", "ping", "ping"]
        assert site.headers("GET")[0]["accept"] == "text/event-stream"
        for _, request in site.asked:
            assert request.headers.get("authorization") == "Bearer t"
            assert "mcp-session-id" not in request.headers
        for _, request in site.asked[1:]:
            assert "mcp-protocol-version" not in request.headers
        await eventually(lambda: site.under_way == 0)


@pytest.mark.parametrize("code", [401, 403, 406, 415, 429, 500, 502, 503])
async def test_initialize_refused_with_another_status_fails_without_trying_http_sse(code: int) -> None:
    async with scripted() as site:
        older(site, first=code)
        with pytest.raises(ConnectionClosed, match=f"HTTP {code}: no"):
            await Client(site.url).connect()
        # a 4xx may come from a legacy server: the client sends initialize too, but tries no other transport
        assert site.keys == ["server/discover", "initialize"][: 2 if code in (406, 415) else 1]


async def test_responses_that_the_server_does_not_accept_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streamable_http_client, "MAX_POSTS", 3)
    go = asyncio.Event()
    async with scripted() as site, talk(site.url) as client:
        site.on("reply", after(go, status(202)))
        for id in range(10):
            client.send(Response(id, {}))
        client.send(Batch([Response(10, {})]))
        client.send(Notification("x"))
        go.set()
        await client.drained()
        posted = [json.loads(request.body)["id"] for key, request in site.asked if key == "reply"]
        assert posted == [0, 1, 2] and "x" in site.keys


async def test_notification_is_accepted_although_its_response_is_an_event_stream_without_end() -> None:
    async with scripted() as site, talk(site.url) as client:
        site.on("x", events(hold=True))
        client.send(Notification("x"))
        async with asyncio.timeout(PATIENCE):
            assert await client.ask() == Response(1, {})  # it waits until the notification is accepted


@pytest.mark.parametrize("hold", [False, True], ids=["that ends", "without end"])
async def test_messages_in_the_event_stream_of_a_notification_are_received(hold: bool) -> None:
    sent: list[Outgoing] = [Notification("a"), Request(7, "roots/list")]
    async with scripted() as site, talk(site.url) as client:
        site.on("x", events(*[encode_event(encode(each)) for each in sent], hold=hold))
        client.send(Notification("x"))
        async with asyncio.timeout(PATIENCE):
            assert [await client.next() for _ in sent] == sent
            assert await client.ask() == Response(1, {})


@pytest.mark.parametrize("code", [400, 405])
async def test_post_refused_after_the_handshake_does_not_try_http_sse(code: int) -> None:
    async with scripted() as site, talk(site.url) as client:
        await eventually(lambda: "GET" in site.keys)
        site.on("ping", status(code))
        site.on("GET", events(encode_event(b"/x", event="endpoint"), hold=True))
        assert f"HTTP {code}" in await client.fails()
        assert site.keys.count("GET") == 1


@pytest.mark.parametrize(
    "step",
    [status(405), status(400, error("", "x")), status(200, b"{}"), events(), events(encode_event(log_message("x")))],
)
async def test_initialize_refused_by_a_server_without_http_sse_fails_with_the_first_refusal(step: Step) -> None:
    async with scripted() as site:
        site.on("server/discover", status(400, error("init", "wrong header")))
        site.on("initialize", status(400, error("init", "wrong revision")))
        site.on("GET", step)
        with pytest.raises(McpError, match="HTTP 400: wrong revision"):
            await Client(site.url).connect()
        assert site.keys == ["server/discover", "initialize", "GET"]


@pytest.mark.parametrize(
    "endpoint", ["//elsewhere.test/messages", "http://user:secret@127.0.0.1:{port}/m", "/a b", "/ä"]
)
async def test_http_sse_endpoint_that_is_not_usable_fails_at_once_and_nothing_is_sent_there(endpoint: str) -> None:
    async with scripted() as site:
        older(site, endpoint.format(port=urlsplit(site.url).port))
        async with asyncio.timeout(http_sse_client.ENDPOINT_SECONDS / 2):
            with pytest.raises(McpError, match=r"percent-encoded|another origin than its stream|credentials"):
                await Client(site.url, headers={"Authorization": "Bearer t"}).connect()
        assert site.keys == ["server/discover", "initialize", "GET"]


async def test_http_sse_endpoint_is_relative_to_the_url_to_which_the_stream_was_redirected() -> None:
    async with scripted() as site:
        site.on("GET", status(307, b"", ("Location", "/v2/sse")))
        older(site, "messages?a=b")
        async with Client(site.url) as client:
            await client.ping()
        [pinged] = [request for key, request in site.asked if key == "ping"]
        assert (pinged.path, pinged.query) == ("/v2/messages", "a=b")


async def test_over_http_sse_drain_waits_until_the_messages_are_posted_one_after_the_other() -> None:
    gate = asyncio.Event()
    async with scripted() as site:
        older(site)
        site.on("notifications/progress", after(gate, status(202)))
        async with talk(site.url, "2024-11-05") as client:
            client.send(Notification("notifications/progress"))
            client.send(Request(1, "ping"))
            draining = asyncio.create_task(client.drained())
            await eventually(lambda: "notifications/progress" in site.keys)
            assert site.keys[-1] == "notifications/progress" and not draining.done()
            gate.set()
            assert await client.next() == Response(1, {})
            await draining
            for method in ("a", "last"):  # `close` waits until both are sent
                client.send(Notification(method))
        assert site.keys[-4:] == ["notifications/progress", "ping", "a", "last"]


async def test_over_http_sse_messages_wait_while_reading_is_paused() -> None:
    async with scripted() as site:
        said = older(site)
        async with talk(site.url, "2024-11-05") as client:
            client.transport.pause_reading()
            for text in ("a", "b"):
                said.put_nowait(log_message(text))
            found = [await client.next()]
            await eventually(said.empty)
            for _ in range(20):
                await asyncio.sleep(0)
            assert client.received.empty()  # it waits, although the other has come too
            client.transport.resume_reading()
            found += [await client.next(), await client.ask()]
            assert [m.params["data"] for m in found if isinstance(m, Notification)] == ["a", "b"]
            assert found[2] == Response(1, {})


# ------------------------------------------------------------------------------------------------ closing


@pytest.mark.spec(
    "2025-11-25/basic/transports#session-management-8", "2025-03-26/basic/transports#session-management-7"
)
@pytest.mark.parametrize(
    "step", [status(204), status(200), status(202), status(405), status(404), status(500), silence]
)
async def test_closing_deletes_the_session_and_takes_no_refusal_amiss(
    step: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streamable_http_client, "DELETE_SECONDS", 2.0 if step is silence else PATIENCE)
    async with scripted() as site:
        site.on("DELETE", step)
        async with talk(site.url) as client:
            closing = asyncio.create_task(client.transport.close())
            await eventually(lambda: "DELETE" in site.keys)  # perhaps before the GET that was cancelled
            if step is silence:
                pass_time(monkeypatch, 2.0)
            await closing
        assert site.headers("DELETE")[0]["mcp-session-id"] == "s1"
        assert len(client.lost) == 1
        await client.transport.close()
        client.send(Request(1, "ping"))
        assert site.keys.count("DELETE") == 1 and not client.transport._posts


async def test_closing_deletes_the_session_while_requests_use_all_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streamable_http_client, "HTTP_LIMITS", ClientLimits(connections=1))
    async with scripted() as site:
        site.on("ping", silence)
        async with talk(site.url) as client:
            asking = client.transport.round_trip(Request(1, "ping"))
            assert asking is not None
            task = asyncio.create_task(asking)
            await eventually(lambda: "ping" in site.keys)
        await task
        assert "DELETE" in site.keys


async def test_closing_when_the_server_is_gone_is_quick_and_no_error() -> None:
    site = ScriptedServer()
    server = await start_server(site.handle)
    async with talk(f"http://127.0.0.1:{server.address[1]}/mcp") as client:
        await server.close(0.0)
        assert "cannot be reached" in await client.fails()


async def _unstarted(site: ScriptedServer, client: Talk) -> None:
    pass


async def _greeting(site: ScriptedServer, client: Talk) -> None:
    site.on("initialize", silence)
    client.send(client.initialize())
    await eventually(lambda: "initialize" in site.keys)


async def _asking(site: ScriptedServer, client: Talk) -> None:
    await client.handshake()
    site.on("ping", silence, events(hold=True))
    client.send(Request(1, "ping"))
    client.send(Request(2, "ping"))
    await eventually(lambda: site.keys.count("ping") == 2)


async def _pausing(site: ScriptedServer, client: Talk) -> None:
    await client.handshake()
    site.on("ping", events(b"id: 1\nretry: 60000\ndata:\n\n"))
    client.send(Request(1, "ping"))
    await eventually(lambda: "ping" in site.keys and site.under_way == 0)


async def _listening(site: ScriptedServer, client: Talk) -> None:
    site.on("GET", events(b": hi\n\n", hold=True))
    await client.handshake()
    await eventually(lambda: "GET" in site.keys)


async def _noticing(site: ScriptedServer, client: Talk) -> None:
    await client.handshake()
    site.on("notifications/progress", silence)
    client.send(Notification("notifications/progress"))
    client.send(Notification("notifications/progress"))
    client.send(Request(1, "ping"))
    await eventually(lambda: "notifications/progress" in site.keys)


async def _renewing(site: ScriptedServer, client: Talk) -> None:
    await client.handshake()
    site.on("ping", status(404))
    site.on("initialize", silence)
    client.send(Request(1, "ping"))
    await eventually(lambda: site.keys.count("initialize") == 2)


async def _trying_older(site: ScriptedServer, client: Talk) -> None:
    site.on("initialize", status(405))
    site.on("GET", events(b": hi\n\n", hold=True))
    client.send(client.initialize())
    await eventually(lambda: "GET" in site.keys)


async def _older_open(site: ScriptedServer, client: Talk) -> None:
    older(site)
    await client.handshake()
    site.steps["ping"][:0] = [silence]
    client.send(Request(1, "ping"))
    await eventually(lambda: "ping" in site.keys)


STATES = [_unstarted, _greeting, _asking, _pausing, _listening, _noticing, _renewing, _trying_older, _older_open]


@pytest.mark.parametrize("reach", STATES, ids=[state.__name__[1:] for state in STATES])
@pytest.mark.parametrize("how", ["once", "from two tasks", "cancelled at once", "cancelled in the middle"])
async def test_closing_in_any_state_leaves_nothing(
    reach: Callable[[ScriptedServer, Talk], Awaitable[None]], how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for client_module in (streamable_http_client, http_sse_client):
        monkeypatch.setattr(client_module, "CLOSE_ACCEPT_SECONDS", 0.05)
    async with scripted() as site:
        async with talk(site.url, greeted=False) as client:
            await reach(site, client)
            close = client.transport.close
            if how == "from two tasks":
                await asyncio.gather(close(), close())
            elif how.startswith("cancelled"):
                closing = asyncio.create_task(close())
                for _ in range(0 if how == "cancelled at once" else 3):
                    await asyncio.sleep(0)
                closing.cancel()
                await asyncio.wait([closing])
                await close()
            else:
                await close()
            assert len(client.lost) == 1
        await eventually(lambda: site.under_way == 0)
        assert client.transport._http._all == set()  # type: ignore[attr-defined]
