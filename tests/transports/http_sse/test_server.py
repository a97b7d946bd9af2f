"""HTTP+SSE, the transport of 2024-11-05, on the wire: one stream a session, and a URL to POST to."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Mapping
from typing import NoReturn, Unpack

import pytest

from mcp_ref import Context, Server
from mcp_ref.basic.authorization.server import DEFAULT_SKEW
from mcp_ref.jsonrpc.messages import JSON
from mcp_ref.lib.turns import LARGE_MESSAGE, current_turns
from mcp_ref.server.http_options import HttpOptions
from mcp_ref.transports.base import Direction, Transport
from mcp_ref.transports.streamable_http.posted_session import EndpointLimits
from tests.basic.authorization.protected_server import Tokens, protection
from tests.messages import error_of, initialize, request, stateless_request
from tests.raw_http_client import (
    JSON_TYPE,
    SSE_TYPE,
    TOOLS_CHANGED,
    HoldingServer,
    RawSseSession,
    call,
    call_result,
    log_message,
    open_sse_session,
    served_over_http,
)
from tests.settings import MODERN, PATIENCE, eventually, pass_time

OLD = "2024-11-05"
NO_SESSION = "unknown session: GET the stream first, then POST to the URL in its endpoint event"


@contextlib.asynccontextmanager
async def sse_session(server: Server, **options: Unpack[HttpOptions]) -> AsyncIterator[RawSseSession]:
    """Serve over HTTP, and give one client of HTTP+SSE after the handshake."""
    async with served_over_http(server, **options) as web:
        client = await open_sse_session(web)
        await client.handshake()
        yield client


@pytest.mark.spec("2024-11-05/basic/transports#security-warning-4,5,6,7")
@pytest.mark.parametrize("revision", [OLD, "2025-11-25"])
async def test_stream_begins_with_the_endpoint_and_has_all_messages_of_the_server(revision: str) -> None:
    held = HoldingServer()
    async with served_over_http(held.server) as web:
        client = await open_sse_session(web)
        assert client.endpoint.startswith("/messages?session=")
        assert client.stream.headers["cache-control"] == "no-cache, no-transform"
        assert client.stream.headers["x-accel-buffering"] == "no"
        await client.handshake(revision, {"roots": {}})
        await client.say(call("count", to=2))
        assert [await client.stream.object() for _ in range(3)] == [
            log_message(0),
            log_message(1),
            call_result("counted"),
        ]
        held.announce()
        assert await client.stream.event() == {
            "event": "message",
            "data": json.dumps(TOOLS_CHANGED, separators=(",", ":")),
        }
        question = await client.ask(call("ask"))
        assert question["method"] == "roots/list"
        answer: JSON = {"jsonrpc": "2.0", "id": question["id"], "result": {"roots": []}}
        assert await client.ask(answer) == call_result("0")


async def test_trace_has_the_messages_of_both_directions() -> None:
    frames: list[tuple[str, bytes]] = []
    async with sse_session(Server("s", trace=lambda way, frame: frames.append((way, frame)))) as client:
        await client.ask(request("ping"))
    shown = [(way, json.loads(frame)) for way, frame in frames if frame.startswith(b"{")]
    assert shown[-2:] == [("<-", request("ping")), ("->", {"jsonrpc": "2.0", "id": 1, "result": {}})]


async def test_tool_waits_while_its_client_does_not_read_the_stream() -> None:
    server, number, sent = Server("s"), 400, 0

    @server.tool()
    async def talk_on(context: Context) -> None:
        nonlocal sent
        for _ in range(number):
            await context.log("info", "x" * 65536)
            sent += 1

    async with served_over_http(server) as web:
        slow, other = await open_sse_session(web), await open_sse_session(web)
        await slow.handshake()
        await other.handshake()
        slow.stream.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await slow.say(call("talk_on"))
        for _ in range(100):
            await other.ask(request("ping"))
        assert 0 < sent < number * 3 / 4  # only the buffers of the sockets
        slow.stream.writer.transport.resume_reading()  # type: ignore[attr-defined]
        assert [len(str(await slow.stream.object())) > 65536 for _ in range(number)] == [True] * number


async def test_http_sse_large_message_takes_a_turn() -> None:
    taken: list[bool] = []

    def trace(direction: Direction, frame: bytes) -> None:
        turns = current_turns.get()
        if direction == "->" and len(frame) > LARGE_MESSAGE:
            taken.append(turns is not None and turns.is_taken)

    server = Server("s", trace=trace)
    server.tool("large")(lambda: "x" * LARGE_MESSAGE)
    async with sse_session(server) as client:
        await client.ask(call("large"))
    assert taken == [True]


@pytest.mark.parametrize(
    ("body", "code"), [(b"{", -32700), (b"", -32700), (b"\xff", -32700), (b'{"jsonrpc":"2.0","id":1}', -32600)]
)
async def test_post_of_an_invalid_message_gets_its_error_on_the_stream(body: bytes, code: int) -> None:
    async with sse_session(Server("s")) as client:
        await client.say(body)
        answer = await client.stream.object()
        assert answer["error"]["code"] == code
        assert await client.ask(request("ping")) == {"jsonrpc": "2.0", "id": 1, "result": {}}


async def test_initialize_that_is_too_large_is_413() -> None:
    async with served_over_http(Server("s"), limits=EndpointLimits(initialize=1000)) as web:
        client = await open_sse_session(web)
        reply = await client.post(initialize(OLD, {"experimental": {"x": {"y": "z" * 1000}}}))
        assert (reply.status, reply.why) == (413, "an initialize message must have at most 1000 bytes")
        await client.handshake()


async def test_batch_of_2025_03_26_gets_its_responses_in_one_event() -> None:
    async with served_over_http(Server("s")) as web:
        client = await open_sse_session(web)
        await client.handshake("2025-03-26")
        await client.say([request("ping", id=1), request("ping", id=2)])
        assert await client.stream.message() == [{"jsonrpc": "2.0", "id": id, "result": {}} for id in (1, 2)]


@pytest.mark.parametrize(
    "query",
    ["", "?", "?session=", "?session=x", "?x=SAME", "?session=SAME&session=SAME", "?session=SAME" + "&x=1" * 100],
)
async def test_post_without_the_callers_own_session_is_404(query: str) -> None:
    async with sse_session(Server("s")) as client:
        own = client.endpoint
        client.endpoint = "/messages" + query.replace("SAME", own.partition("=")[2])
        reply = await client.post(request("ping"))
        assert (reply.status, reply.why) == (404, NO_SESSION)
        client.endpoint = own
        assert (await client.ask(request("ping")))["id"] == 1


async def test_http_sse_session_ends_with_its_stream() -> None:
    held = HoldingServer()
    async with sse_session(held.server) as client:
        await client.say(call("hold", name="x"))
        await held.has_begun()
        await client.stream.cut()
        assert client.web.site._http_sse is not None
        sessions = client.web.site._http_sse.sessions
        await eventually(lambda: not sessions)
        reply = await client.post(request("ping"))
        assert (reply.status, reply.why) == (404, NO_SESSION)
        held.go.set()
        await eventually(lambda: not held.server.catalog.announcers)
        assert (await open_sse_session(client.web)).endpoint != client.endpoint


async def test_stream_ends_when_the_server_closes() -> None:
    held = HoldingServer()
    async with sse_session(held.server) as client:
        await client.say(call("hold", name="x"))
        await held.has_begun()
        held.go.set()
        await client.web.site.close()
        assert await client.stream.messages() == [call_result("x")]
        refused = await client.web.ask("GET", "/sse", b"", f"Accept: {SSE_TYPE}")
        assert (refused.status, refused.why) == (503, "no session can begin now; try again later")


@pytest.mark.usefixtures("short_finish")
async def test_http_sse_close_waits_until_the_handlers_have_ended() -> None:
    server, begun, ended = Server("s"), asyncio.Event(), asyncio.Event()

    @server.tool()
    async def hold() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(100):
                await asyncio.sleep(0)
            ended.set()

    async with sse_session(server) as client:
        await client.say(call("hold"))
        await begun.wait()
        await client.web.site.close()
        assert ended.is_set()


@pytest.mark.attack("session-memory")
async def test_initialize_that_waits_while_its_session_ends_is_404_and_counts_for_nothing() -> None:
    async with served_over_http(Server("s")) as web:
        client, endpoint = await open_sse_session(web), web.site._http_sse
        assert endpoint is not None
        (session,) = endpoint.sessions.values()
        session.pause_reading()
        body = json.dumps(initialize("2024-11-05")).encode()
        waiting = await web.send("POST", client.endpoint, body, f"Content-Type: {JSON_TYPE}")
        await eventually(lambda: session._resumed is not None and session._resumed._waiters)
        await client.stream.cut()
        assert (await web.take(waiting)).status == 404
        await eventually(lambda: endpoint._memory.used == 0 and not endpoint._memory.by_caller)


@pytest.mark.parametrize("limits", [EndpointLimits(sessions=1), EndpointLimits(sessions_per_caller=1)])
async def test_there_is_a_bounded_number_of_sessions(limits: EndpointLimits) -> None:
    async with served_over_http(Server("s"), limits=limits) as web:
        first = await open_sse_session(web)
        refused = await web.ask("GET", "/sse", b"", f"Accept: {SSE_TYPE}")
        assert (refused.status, refused.why) == (503, "no session can begin now; try again later")
        assert refused.headers["retry-after"].isdigit()
        await first.handshake()  # it is unharmed
        await first.stream.cut()
        endpoint = web.site._http_sse
        assert endpoint is not None
        await eventually(lambda: not endpoint.sessions and not endpoint._callers)
        await (await open_sse_session(web)).handshake()


async def test_sessions_of_one_caller_have_a_limit_in_bytes() -> None:
    limits = EndpointLimits(session_bytes_per_caller=60_000)
    async with served_over_http(Server("s"), limits=limits) as web:
        client = await open_sse_session(web)
        large = initialize("2024-11-05", {"experimental": {f"n{each}": {} for each in range(200)}})
        refused = await client.post(large)
        assert (refused.status, "your sessions need more than 60000 bytes" in refused.why) == (503, True)
        await client.handshake()
        second, third = await open_sse_session(web), await open_sse_session(web)
        refused = await web.ask("GET", "/sse", b"", f"Accept: {SSE_TYPE}")
        assert (refused.status, "your sessions need more than 60000 bytes" in refused.why) == (503, True)
        for each in (client, second, third):
            await each.stream.cut()
        assert web.site._http_sse is not None
        memory = web.site._http_sse._memory
        await eventually(lambda: memory.used == 0 and not memory.by_caller)


@pytest.mark.parametrize("limits", [EndpointLimits(sessions=1), EndpointLimits(sessions_per_caller=1)])
async def test_http_sse_parallel_requests_for_a_stream_do_not_exceed_the_number_of_sessions(
    limits: EndpointLimits,
) -> None:
    statuses: list[object] = []
    both = asyncio.Event()

    async def send(message: Mapping[str, object]) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])
            if len(statuses) == 2:
                both.set()
            await both.wait()

    def get() -> asyncio.Task[None]:
        inbox = asyncio.Queue[dict[str, object]]()
        inbox.put_nowait({"type": "http.request", "body": b""})
        return asyncio.ensure_future(application(scope, inbox.get, send))  # type: ignore[arg-type]

    application = Server("s").asgi(limits=limits)
    fields = [(b"host", b"localhost"), (b"accept", SSE_TYPE.encode())]
    scope = {"type": "http", "method": "GET", "path": "/sse", "scheme": "http", "query_string": b"", "headers": fields,
             "client": ("127.0.0.1", 1)}  # fmt: skip
    serving = [get(), get()]
    await both.wait()
    assert statuses == [200, 503]
    for task in serving:
        task.cancel()
    await asyncio.wait(serving)


async def test_keep_alive_comments_are_sent_on_the_stream() -> None:
    async with served_over_http(Server("s"), limits=EndpointLimits(keep_alive=0.01)) as web:
        client = await open_sse_session(web)
        assert await client.stream.block() == ": "
        await client.handshake()


@pytest.mark.attack("A11")
async def test_http_sse_session_belongs_to_its_principal_and_survives_a_new_token() -> None:
    tokens = Tokens()
    for token, subject in (("ann-1", "ann"), ("ann-2", "ann"), ("bob", "bob")):
        tokens.grant(token, subject=subject)
    async with served_over_http(Server("s"), authorization=protection(tokens)) as web:
        client = await open_sse_session(web, "Authorization: Bearer ann-1")
        client.lines = ("Authorization: Bearer bob",)
        reply = await client.post(initialize(OLD))
        assert (reply.status, reply.why) == (404, NO_SESSION)
        client.lines = ("Authorization: Bearer ann-2",)
        await client.handshake()


async def test_http_sse_stream_closes_when_the_last_token_of_the_session_expires(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tokens, now = Tokens(), time.time()
    tokens.grant("old", expires_at=now - DEFAULT_SKEW + 3.0)
    tokens.grant("new", expires_at=now - DEFAULT_SKEW + 6.0)
    async with served_over_http(Server("s"), authorization=protection(tokens)) as web:
        client = await open_sse_session(web, "Authorization: Bearer old")
        client.lines = ("Authorization: Bearer new",)
        await client.handshake()
        pass_time(monkeypatch, 3.0)
        assert await client.ask(request("ping")) == {"jsonrpc": "2.0", "id": 1, "result": {}}
        pass_time(monkeypatch, 3.0)
        await asyncio.wait_for(client.stream.events(), PATIENCE)  # uvloop's clock does not move: 6 s at most
        assert (await client.post(request("ping"))).status == 401


async def test_http_sse_session_that_fails_ends_its_stream_and_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(transport: Transport) -> NoReturn:
        raise ValueError("broken")

    async with served_over_http(Server("s")) as web:
        assert web.site._http_sse is not None
        web.site._http_sse._begin = fail
        assert await (await open_sse_session(web)).stream.events() == []
    assert "a session failed and has ended" in caplog.text and "ValueError: broken" in caplog.text


async def test_both_paths_are_in_the_parent_folder_of_the_streamable_http_path() -> None:
    async with served_over_http(Server("s"), path="/a/b") as web:
        client = await open_sse_session(web, path="/a/sse")
        assert client.endpoint.startswith("/a/messages?")
        await client.handshake()
        assert (await web.ask("GET", "/sse")).status == 404


async def test_option_http_sse_false_removes_both_paths() -> None:
    async with served_over_http(Server("s"), http_sse=False) as web:
        assert (await web.ask("GET", "/sse", b"", f"Accept: {SSE_TYPE}")).status == 404
        assert (await web.ask("POST", "/messages", b"{}", f"Content-Type: {JSON_TYPE}")).status == 404


async def test_stateless_request_is_refused_as_by_an_older_server_and_the_handshake_goes_on() -> None:
    held = HoldingServer()
    async with served_over_http(held.server) as web:
        old = await open_sse_session(web)
        error = error_of(await old.ask(stateless_request("server/discover")), -32600)
        assert MODERN not in str(error)
        await old.handshake()
        error_of(await old.ask(stateless_request("server/discover", id=2)), -32601, 2)
        assert await old.ask(call("add", 3, a=2, b=3)) == call_result("5", 3)
