"""Tests of lib/http/asgi.py: the application is called as an ASGI server calls it."""

from __future__ import annotations

import asyncio
import contextvars
import json
from collections.abc import Awaitable, MutableMapping

import pytest

from mcp_ref import Context, Server
from mcp_ref.lib.http import asgi
from mcp_ref.lib.http.asgi import application
from mcp_ref.lib.http.message import Exchange, Handler, HttpLimits, StreamingResponse
from tests.http_wire import mirrored_headers
from tests.messages import stateless_request
from tests.settings import PATIENCE

Message = MutableMapping[str, object]


class Call:
    """One request of an ASGI server: the messages for the application, and those it has sent."""

    def __init__(self, *messages: Message) -> None:
        self.inbox: asyncio.Queue[Message] = asyncio.Queue()
        for message in messages:
            self.inbox.put_nowait(message)
        self.sent: list[Message] = []
        self.changed = asyncio.Event()
        self.may_send = asyncio.Event()
        self.may_send.set()

    async def receive(self) -> Message:
        """Return the next message for the application."""
        return await self.inbox.get()

    async def send(self, message: Message) -> None:
        """Record a message, and wait while the client does not read."""
        self.sent.append(message)
        self.changed.set()
        await self.may_send.wait()

    async def until(self, count: int) -> None:
        """Wait until the application has sent this many messages."""
        while len(self.sent) < count:
            self.changed.clear()
            await self.changed.wait()

    @property
    def body(self) -> bytes:
        """The body sent so far."""
        found = b""
        for message in self.sent:
            piece = message.get("body", b"")
            assert isinstance(piece, bytes)
            found += piece
        return found


def scope(method: str = "POST", path: str = "/mcp", **others: object) -> Message:
    """Return the scope of a request, as uvicorn makes it."""
    return {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": b"a=1",
        "headers": [(b"host", b"localhost"), (b"x", b" 1 "), (b"x", b"2")],
        "client": ("127.0.0.1", 50000),
        "scheme": "http",
        **others,
    }


def body(data: bytes = b"", more: bool = False) -> Message:
    """Return a message with a piece of a request's body."""
    return {"type": "http.request", "body": data, "more_body": more}


GONE: Message = {"type": "http.disconnect"}


def calling(handler: Handler, call: Call, limits: HttpLimits | None = None, **others: object) -> Awaitable[None]:
    """Call the application for one request."""
    return application(handler, limits=limits)(scope(**others), call.receive, call.send)  # type: ignore[arg-type]


async def test_asgi_scope_becomes_a_request_and_the_response_is_sent() -> None:
    seen: list[Exchange] = []

    async def handler(exchange: Exchange) -> None:
        seen.append(exchange)
        assert exchange.request.body == b""
        await exchange.read_body()
        await exchange.read_body()
        exchange.respond(201, [("Content-Type", "text/plain")], b"yes")

    call = Call(body(b"ab", more=True), body(b"c"))
    await calling(handler, call, root_path="/app", raw_path=b"/app/mcp%20x?a=1")
    request = seen[0].request
    assert (request.method, request.path, request.query, request.body) == ("POST", "/mcp%20x", "a=1", b"abc")
    assert request.headers.get_all("X") == ("1", "2")
    assert request.client == ("127.0.0.1", 50000)
    start, rest = call.sent
    assert start["status"] == 201
    assert start["headers"] == [(b"content-type", b"text/plain"), (b"content-length", b"3")]
    assert rest == {"type": "http.response.body", "body": b"yes"}


async def test_asgi_handler_has_its_own_task_and_context() -> None:
    variable, seen = contextvars.ContextVar("variable", default="unset"), []

    async def handler(exchange: Exchange) -> None:
        seen.append((variable.get(), asyncio.current_task()))
        variable.set("set by a request")
        exchange.respond(200, [], b"")

    variable.set("set by who calls")
    for _ in range(2):
        await calling(handler, Call(body()))
    assert [value for value, _ in seen] == [variable.get()] * 2 == ["set by who calls"] * 2
    assert asyncio.current_task() not in [task for _, task in seen]


async def test_asgi_cancelled_call_ends_the_handler() -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def handler(exchange: Exchange) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    calls = asyncio.ensure_future(calling(handler, Call(body())))
    await began.wait()
    calls.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calls
    assert ended.is_set()


@pytest.mark.parametrize("pieces", [[b"12345"], [b"123", b"45"]])
async def test_asgi_body_over_body_size_is_413(pieces: list[bytes]) -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.read_body()
        raise AssertionError

    call = Call(*(body(piece, more=True) for piece in pieces))
    await calling(handler, call, HttpLimits(body_size=4))
    assert call.sent[0]["status"] == 413
    assert b"larger than 4 bytes" in call.body


@pytest.mark.parametrize(("declared", "status"), [(b"4", 200), (b"5", 413), (b"9" * 5000, 413)])
async def test_asgi_body_over_body_size_is_413_by_its_content_length(declared: bytes, status: int) -> None:
    async def read(exchange: Exchange) -> None:
        await exchange.read_body()
        exchange.respond(200, [], b"")

    call = Call(body(b"1234")) if status == 200 else Call()  # which has no body to receive
    await calling(read, call, HttpLimits(body_size=4), headers=[(b"content-length", declared)])
    assert call.sent[0]["status"] == status
    assert status == 200 or (b"content-type", b"text/plain") in call.sent[0]["headers"]  # type: ignore[operator]


async def test_asgi_request_can_be_refused_before_its_body_is_received() -> None:
    async def refuse(exchange: Exchange) -> None:
        exchange.respond(403, [], b"")

    call = Call()  # has no body to receive
    await calling(refuse, call)
    assert call.sent[0]["status"] == 403


async def test_asgi_bodies_in_progress_share_bodies_size() -> None:
    async def echo(exchange: Exchange) -> None:
        await exchange.read_body()
        if len(exchange.request.body) == 150_001:  # the largest body, but it is complete, so the next one is refused
            await app(scope(), calls[3].receive, calls[3].send)
        exchange.respond(200, [], b"%d" % len(exchange.request.body))
        exchange.forget_body()
        await exchange.read_body()
        assert not exchange.request.body, "a second copy has stayed in memory"

    app = application(echo, limits=HttpLimits(bodies_size=300_000))
    pieces: list[asyncio.Queue[Message]] = [asyncio.Queue() for _ in range(2)]
    calls = [Call(), Call(), Call(body(b"x" * 200_000, more=True), body()), Call(body(b"x" * 150_000, more=True), GONE)]
    running = [
        asyncio.ensure_future(app(scope(), queue.get, call.send)) for queue, call in zip(pieces, calls, strict=False)
    ]
    await pieces[0].put(body(b"x" * 200_000, more=True))
    await asyncio.sleep(0)
    await pieces[1].put(body(b"x" * 150_000, more=True))
    await pieces[1].put(body(b"x", more=False))
    await running[1]
    await pieces[0].put(body(b"x", more=True))
    await running[0]
    await app(scope(), calls[2].receive, calls[2].send)  # the others do not count any more
    assert [call.sent[0]["status"] for call in calls] == [503, 200, 200, 503]
    assert calls[1].body == b"150001"


async def test_asgi_disconnect_before_the_whole_body_sends_nothing() -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.read_body()
        raise AssertionError

    call = Call(body(b"12", more=True), GONE)
    await calling(handler, call)
    assert call.sent == []


async def test_asgi_stream_sends_its_head_at_once_and_ends_with_the_handler() -> None:
    go_on = asyncio.Event()

    async def handler(exchange: Exchange) -> None:
        stream = exchange.stream(200, [("Content-Type", "text/event-stream")])
        await go_on.wait()
        stream.write(b"one")
        stream.write(b"two")

    call = Call(body())
    task = asyncio.ensure_future(calling(handler, call))
    await call.until(2)
    assert call.sent[1] == {"type": "http.response.body", "body": b"", "more_body": True}, (
        "without an empty piece, the server would not send the head"
    )
    go_on.set()
    await task
    assert call.body == b"onetwo"
    assert call.sent[-1] == {"type": "http.response.body", "body": b""}


async def test_asgi_exchange_on_disconnect_is_called_after_a_disconnect_and_no_response_is_needed() -> None:
    async def handler(exchange: Exchange) -> None:
        gone = asyncio.Event()
        exchange.on_disconnect(gone.set)
        await gone.wait()

    call = Call(body(), GONE)
    await calling(handler, call)
    assert call.sent == []


@pytest.mark.parametrize("leaves", ["before the stream", "in the stream", "not"])
async def test_asgi_stream_notices_a_disconnect_after_on_disconnect_was_called(leaves: str) -> None:
    call = Call(body(), *([GONE] if leaves == "before the stream" else []))

    async def handler(exchange: Exchange) -> None:
        gone = asyncio.Event()
        exchange.on_disconnect(gone.set)
        if leaves == "before the stream":
            await gone.wait()
        else:
            await asyncio.sleep(0)
        stream = exchange.stream(200, [])
        if leaves == "in the stream":
            call.inbox.put_nowait(GONE)
        if leaves == "not":
            stream.write(b"all")
        else:
            await stream.ended

    await calling(handler, call)
    assert call.body == (b"all" if leaves == "not" else b"")


async def test_asgi_receive_that_repeats_the_body_is_not_called_forever() -> None:
    calls = 0

    async def receive() -> Message:  # as middleware does that gives the body, which it has read, back
        nonlocal calls
        calls += 1
        if calls == 10:
            raise AssertionError("the application waits for a disconnection that nobody reports")
        return body(b"1")

    async def handler(exchange: Exchange) -> None:
        await exchange.read_body()
        exchange.on_disconnect(pytest.fail)
        await asyncio.sleep(0)
        exchange.respond(200, [], exchange.request.body)

    call = Call()
    await application(handler)(scope(), receive, call.send)
    assert (call.body, calls) == (b"1", 2)


@pytest.mark.parametrize("end", ["close", "disconnect", "cancel"])
async def test_asgi_stream_that_is_kept_open_lasts_longer_than_its_handler(end: str) -> None:
    streams: list[StreamingResponse] = []
    ended: list[StreamingResponse] = []

    async def handler(exchange: Exchange) -> None:
        stream = exchange.stream(200, [])
        stream.keep_open(ended.append)
        streams.append(stream)

    call = Call(body())
    request = asyncio.ensure_future(calling(handler, call))
    await call.until(2)
    streams[0].write(b"later")
    await call.until(3)
    assert not request.done() and not ended
    if end == "close":
        streams[0].close()
    elif end == "disconnect":
        call.inbox.put_nowait(GONE)
    else:
        request.cancel()  # for example by a time limit of a middleware
    await asyncio.wait([request])
    streams[0].write(b"dropped")
    assert ended == streams and call.body == b"later" and request.cancelled() == (end == "cancel")
    assert (call.sent[-1].get("more_body", False)) == (end != "close")


@pytest.mark.parametrize("turns", range(5))
async def test_asgi_late_response_is_given_up_if_the_request_is_cancelled(turns: int) -> None:
    late: list[Exchange] = []
    cancelled: list[Exchange] = []

    async def handler(exchange: Exchange) -> None:
        exchange.respond_later(lambda: cancelled.append(exchange))
        late.append(exchange)

    request = asyncio.ensure_future(calling(handler, Call()))
    for _ in range(turns):
        await asyncio.sleep(0)
    request.cancel()  # for example by a time limit of a middleware
    await asyncio.wait([request])
    assert request.cancelled() and cancelled == late


async def test_asgi_request_that_is_cancelled_at_once_leaves_no_coroutine_that_was_never_awaited() -> None:
    async def respond(exchange: Exchange) -> None:
        exchange.respond(200, [], b"")

    async def outer(rest: Awaitable[None]) -> None:
        await rest

    asyncio.get_running_loop().set_task_factory(None)  # an eager task would not be cancelled in time
    request = asyncio.ensure_future(calling(lambda exchange: outer(respond(exchange)), Call()))
    await asyncio.sleep(0)
    request.cancel()  # otherwise Python warns of `respond`, which is a failure of this test
    await asyncio.wait([request])
    assert request.cancelled()


async def test_asgi_stream_to_a_slow_client_waits_and_ends_at_max_queued(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asgi, "MAX_UNSENT_BYTES", 10)
    call = Call(body())

    async def handler(exchange: Exchange) -> None:
        stream = exchange.stream(200, [])
        await call.until(2)
        assert stream.has_room
        call.may_send.clear()
        stream.write(b"12345")
        draining = asyncio.ensure_future(stream.drain())
        await call.until(3)
        assert not draining.done()
        stream.write(b"6789")
        assert not stream.ended.done()
        stream.write(b"01")
        assert stream.ended.done() and stream.has_room
        await draining
        call.may_send.set()

    await calling(handler, call)
    assert call.body == b"12345"


async def test_asgi_stream_to_a_client_that_never_reads_lets_the_handler_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asgi, "MAX_UNSENT_BYTES", 100)

    async def handler(exchange: Exchange) -> None:
        stream = exchange.stream(200, [])
        client.may_send.clear()
        while not stream.ended.done():
            stream.write(b"x" * 60)
            await asyncio.sleep(0)

    client = Call(body())
    await calling(handler, client)


@pytest.mark.parametrize("error", [ValueError, asyncio.CancelledError])
async def test_asgi_handler_that_fails_in_a_stream_is_raised_without_the_end_of_the_body(
    error: type[BaseException],
) -> None:
    async def handler(exchange: Exchange) -> None:
        response = exchange.stream(200, [])
        response.write(b"half")
        await response.drain()
        raise error

    call = Call(body())
    with pytest.raises(error):
        await calling(handler, call)
    assert call.body == b"half"
    assert [message.get("more_body") for message in call.sent[1:]] == [True, True]


async def test_asgi_handler_that_raises_system_exit_is_a_runtime_error() -> None:
    async def handler(exchange: Exchange) -> None:
        raise SystemExit(3)

    with pytest.raises(RuntimeError, match=r"the handler of POST /mcp raised SystemExit\(3\)"):
        await calling(handler, Call(body()))


@pytest.mark.parametrize("how", ["respond", "stream", "body"])
async def test_asgi_response_after_a_disconnect_is_dropped(how: str) -> None:
    done = []

    async def handler(exchange: Exchange) -> None:
        if how == "respond":
            exchange.respond(200, [], b"x")
        else:
            stream = exchange.stream(200, [])
            stream.write(b"x")
            await stream.drain()
            await stream.ended
        done.append(exchange)

    async def send(message: Message) -> None:
        if how != "body" or message.get("body"):
            raise OSError("the client is gone")

    await application(handler)(scope(), Call(body()).receive, send)
    assert done


async def test_asgi_second_response_is_a_runtime_error() -> None:
    async def handler(exchange: Exchange) -> None:
        exchange.respond(204, [], b"")
        with pytest.raises(RuntimeError):
            exchange.respond(200, [], b"")

    call = Call(body())
    await calling(handler, call)
    assert [message.get("status") for message in call.sent] == [204, None]
    assert call.sent[0]["headers"] == []


async def test_asgi_lifespan_events_are_completed_and_start_and_close_are_awaited() -> None:
    awaited: list[str] = []

    async def start() -> None:
        awaited.append("start")

    async def close() -> None:
        awaited.append("close")

    async def handler(exchange: Exchange) -> None:
        raise AssertionError

    call = Call({"type": "lifespan.startup"}, {"type": "lifespan.shutdown"})
    await application(handler, close, start=start)({"type": "lifespan"}, call.receive, call.send)
    assert [message["type"] for message in call.sent] == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert awaited == ["start", "close"]
    with pytest.raises(ValueError, match="websocket"):
        await application(handler)({"type": "websocket"}, call.receive, call.send)


async def test_asgi_root_path_precedes_the_endpoint_of_http_sse() -> None:
    call = Call(body())
    asked = scope("GET", "/apps/sse", root_path="/apps", raw_path=b"/apps/sse")
    answering = asyncio.ensure_future(Server("mounted").asgi()(asked, call.receive, call.send))
    await call.until(3)  # the head, an empty piece, and the first event
    call.inbox.put_nowait(GONE)
    await asyncio.wait_for(answering, PATIENCE)
    assert call.body.startswith(b"event: endpoint\ndata: /apps/messages?session=")


@pytest.mark.parametrize(
    ("root", "path", "raw_path"),
    [
        ("/my apps", "/my apps/mcp", b"/my%20apps/mcp"),  # Starlette: `Mount("/my apps", ...)`
        ("/my%20apps", "/my%20apps/mcp", b"/my%20apps/mcp"),  # uvicorn: `--root-path /my%20apps`
        ("/my apps", "/my apps/mcp", None),
    ],
)
async def test_asgi_root_path_with_an_escape_precedes_the_path(root: str, path: str, raw_path: bytes | None) -> None:
    seen: list[tuple[str, str]] = []

    async def handler(exchange: Exchange) -> None:
        seen.append((exchange.request.root, exchange.request.path))
        exchange.respond(200, [], b"")

    call = Call(body())
    await application(handler)(scope(path=path, root_path=root, raw_path=raw_path), call.receive, call.send)
    assert seen == [("/my%20apps", "/mcp")]


async def test_asgi_root_path_is_in_the_error_for_a_path_without_an_endpoint() -> None:
    call = Call(body())
    asked = scope("GET", "/apps", root_path="/apps", raw_path=b"/apps")
    await Server("mounted").asgi()(asked, call.receive, call.send)
    assert b"there is nothing at '/apps/'; the MCP endpoint is /apps/mcp" in call.body


@pytest.mark.parametrize("says", [False, True], ids=["before an answer in JSON", "in the middle of a stream"])
async def test_asgi_disconnect_cancels_a_tool_whose_task_group_has_failed(says: bool) -> None:
    # In Python 3.11 and 3.12, a task keeps a cancellation count after a TaskGroup in it has failed.
    server, begun, ended = Server("s"), asyncio.Event(), asyncio.Event()

    async def fail() -> None:
        await asyncio.sleep(0)  # the TaskGroup of Python 3.12 drops the exception of an eager task that ends at once
        raise ValueError

    @server.tool()
    async def work(context: Context) -> None:
        with pytest.raises(BaseExceptionGroup):
            async with asyncio.TaskGroup() as group:
                group.create_task(fail())
        if says:
            await context.log("info", "it begins")
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    frame = json.dumps(stateless_request("tools/call", {"name": "work", "arguments": {}}, logLevel="info")).encode()
    headers = {"Host": "localhost", "Content-Type": "application/json", **mirrored_headers(frame)}
    call = Call(body(frame))
    asked = scope(headers=[(name.lower().encode(), value.encode()) for name, value in headers.items()])
    answering = asyncio.ensure_future(server.asgi()(asked, call.receive, call.send))
    await asyncio.wait_for(begun.wait(), PATIENCE)
    if says:
        await call.until(3)  # the head, an empty piece, and the first event
    call.inbox.put_nowait(GONE)
    await asyncio.wait_for(answering, PATIENCE)  # must not raise
    assert ended.is_set()
