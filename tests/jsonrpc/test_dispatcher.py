"""The dispatcher: pairing, batches, cancellation, timeouts, bounds. No transport, no MCP: messages in, messages out."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import traceback
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mcp_ref.jsonrpc.dispatcher import Dispatcher, Limits
from mcp_ref.jsonrpc.errors import ConnectionClosed, InvalidMessage, ProtocolError, RemoteError, RequestTimeout
from mcp_ref.jsonrpc.messages import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    JSON,
    MAX_BATCH,
    Batch,
    Error,
    ErrorResponse,
    Incoming,
    Notification,
    Object,
    Outgoing,
    Request,
    RequestFailure,
    RequestId,
    Response,
    decode,
    encode,
)
from mcp_ref.jsonrpc.requester import MAX_WARNINGS, MessageTransport
from tests.settings import TASK_FACTORIES, pass_time

INTERNAL = Error(INTERNAL_ERROR, "Internal error")


class Recorder(MessageTransport):
    """A transport that keeps what is sent, and a peer whose reading can be stopped."""

    def __init__(self) -> None:
        self.sent: list[Outgoing] = []
        self.paused = False
        self.may_drain = asyncio.Event()
        self.may_drain.set()
        self.came = asyncio.Event()

    def send(self, message: Outgoing, related: RequestId | None = None) -> None:
        encode(message)
        self.sent.append(message)
        self.came.set()

    async def drain(self, related: RequestId | None = None) -> None:
        await self.may_drain.wait()

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False

    async def wait_for(self, count: int) -> list[Outgoing]:
        """Wait until `count` messages were sent, and return them."""
        async with asyncio.timeout(5):
            while len(self.sent) < count:
                self.came.clear()
                await self.came.wait()
        return self.sent


class Bench:
    """A dispatcher between a recorder and handlers that tests fill in."""

    def __init__(
        self, serve: Callable[[Request], Awaitable[Object]] | None = None,
        on_abandoned: Callable[[RequestId, str], None] | None = None, **limits: float,
    ) -> None:  # fmt: skip
        self.transport = Recorder()
        self.notified: list[Notification] = []
        self.abandoned: list[tuple[RequestId, str]] = []
        self.gate = asyncio.Event()
        self.stopped: list[RequestId] = []

        async def wait_at_gate(request: Request) -> Object:
            try:
                await self.gate.wait()
            except asyncio.CancelledError:
                self.stopped.append(request.id)
                raise
            return {"echo": request.params}

        self.dispatcher = Dispatcher(
            self.transport,
            serve or wait_at_gate,
            self.notified.append,
            on_abandoned or (lambda id, reason: self.abandoned.append((id, reason))),
            Limits(**limits),  # type: ignore[arg-type]
        )

    def receive(self, *incoming: Incoming) -> None:
        for message in incoming:
            self.dispatcher.receive(message)

    async def call(self, timeout: float | None = 5, max_timeout: float | None = None) -> Object:
        return await self.dispatcher.request("x", {}, timeout=timeout, max_timeout=max_timeout)

    async def begin(self, timeout: float | None = 5, max_timeout: float | None = None) -> asyncio.Task[Object]:
        """Return a call whose request has been sent."""
        call = asyncio.create_task(self.call(timeout, max_timeout))
        await self.transport.wait_for(len(self.transport.sent) + 1)
        return call


async def turns(count: int = 5) -> None:
    """Let everything that can run, run."""
    for _ in range(count):
        await asyncio.sleep(0)


def refused(message: Outgoing) -> tuple[RequestId | None, int]:
    """Return the id and the code of an error response."""
    assert isinstance(message, ErrorResponse), message
    return message.id, message.error.code


def members(message: Outgoing) -> list[Any]:
    """Return the messages of a batch."""
    assert isinstance(message, Batch), message
    return list(message.messages)


@pytest.mark.spec("2025-11-25/basic/index#result-responses-1")
@pytest.mark.parametrize("id", [0, "", "0", 1, -1])
async def test_dispatcher_serves_request_once_with_its_own_id(id: RequestId) -> None:
    bench = Bench()
    bench.gate.set()
    bench.receive(Request(id, "x", {"a": 1}))
    assert await bench.transport.wait_for(1) == [Response(id, {"echo": {"a": 1}})]
    assert type(bench.transport.sent[0].id) is type(id)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("raised", "sent"),
    [
        (lambda: ProtocolError(-32602, "no", {"why": 1}), Error(-32602, "no", {"why": 1})),
        (lambda: ZeroDivisionError("secret"), INTERNAL),
        (lambda: ConnectionClosed("the server 'x' exited; its standard error ends with: secret"), INTERNAL),
        (lambda: SystemExit(3), INTERNAL),
        (KeyboardInterrupt, INTERNAL),
        (asyncio.CancelledError, INTERNAL),
    ],
    ids=["protocol", "bug", "closed", "exit", "interrupt", "cancelled"],
)
async def test_dispatcher_handler_exception_is_an_error_without_details_unless_it_is_a_protocol_error(
    raised: Callable[[], BaseException], sent: Error, caplog: pytest.LogCaptureFixture
) -> None:
    async def failing(request: Request) -> Object:
        raise raised()

    bench = Bench(failing)
    bench.receive(Request(1, "x"))
    assert await bench.transport.wait_for(1) == [ErrorResponse(1, sent)]
    assert ("the handler of x failed" in caplog.text) is (sent is INTERNAL)


async def test_dispatcher_handler_whose_task_its_author_cancels_is_an_error(caplog: pytest.LogCaptureFixture) -> None:
    async def serve(request: Request) -> Object:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()  # as another handler could do, to stop the work of this one
        await asyncio.sleep(0)
        return {}

    bench = Bench(serve)
    bench.receive(Request(1, "x"))
    assert await bench.transport.wait_for(1) == [ErrorResponse(1, INTERNAL)]
    assert "the handler of x failed" in caplog.text


@pytest.mark.parametrize("value", [float("nan"), "\ud800", object()])
async def test_dispatcher_unwritable_result_is_an_error_and_next_request_works(value: object) -> None:
    async def serve(request: Request) -> Object:
        return {"value": value} if request.id == 1 else {}  # type: ignore[dict-item]

    bench = Bench(serve)
    bench.receive(Request(1, "x"), Request(2, "x"))
    first, second = await bench.transport.wait_for(2)
    assert refused(first) == (1, INTERNAL_ERROR) and second == Response(2, {})


async def test_dispatcher_id_in_flight_is_refused_and_free_again_afterwards() -> None:
    bench = Bench()
    bench.receive(Request(1, "x"), Request(1, "x"), Request("1", "x"))
    assert refused((await bench.transport.wait_for(1))[0]) == (1, INVALID_REQUEST)
    bench.gate.set()
    await bench.transport.wait_for(3)
    bench.receive(Request(1, "x"))
    assert len(await bench.transport.wait_for(4)) == 4


# ------------------------------------------------------------------------------------------------ our requests


@pytest.mark.spec("2025-11-25/basic/index#result-responses-1")
async def test_dispatcher_responses_are_paired_by_id_in_any_order() -> None:
    bench = Bench()
    calls = [asyncio.create_task(bench.call()) for _ in range(3)]
    sent = await bench.transport.wait_for(3)
    ids = [message.id for message in sent if isinstance(message, Request)]
    assert len(set(ids)) == 3
    for id in reversed(ids):
        bench.receive(Response(id, {"id": id}))
    assert [await call for call in calls] == [{"id": id} for id in ids]
    assert bench.dispatcher.pending == {}


async def test_dispatcher_error_response_raises_with_code_message_and_data() -> None:
    bench = Bench()
    call = await bench.begin()
    bench.receive(ErrorResponse(1, Error(-32000, "nope", [1])))
    with pytest.raises(RemoteError) as caught:
        await call
    assert (caught.value.code, caught.value.message, caught.value.data) == (-32000, "nope", [1])
    assert str(caught.value) == "nope (error -32000): [1]"


@pytest.mark.spec("2025-03-26..2025-11-25/basic/lifecycle#timeouts-1,2")
async def test_dispatcher_request_without_response_times_out_and_peer_is_told() -> None:
    bench = Bench()
    with pytest.raises(RequestTimeout, match=r"^x: no response within 0\.01 seconds$"):
        await bench.call(timeout=0.01)
    assert bench.abandoned == [(1, "the request timed out")]
    bench.receive(Response(1, {}))  # too late: ignored
    assert bench.dispatcher.pending == {}


@pytest.mark.parametrize("kind", ["result", "malformed"])
async def test_dispatcher_finds_the_request_of_a_response_whose_id_is_a_string_of_digits(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench()
    call = await bench.begin()
    assert bench.dispatcher.waits_for("1".zfill(15)) and not bench.dispatcher.waits_for("1".zfill(16))
    caplog.clear()
    if kind == "result":
        bench.receive(Response("1", {"value": 1}))
        assert await call == {"value": 1}
    else:
        bench.receive(decode(b'{"jsonrpc": "2.0", "id": "1", "result": 1}'))
        with pytest.raises(InvalidMessage, match="the result must be an object"):
            await call
    assert len(bench.transport.sent) == 1
    assert caplog.messages == ["the peer sent the id '1' as a string in its response to x"]


async def test_dispatcher_report_of_the_transport_raises_its_error_in_the_caller() -> None:
    bench = Bench()
    for error, raised in ((OSError("no route"), OSError), (None, ConnectionClosed)):
        call = await bench.begin()
        sent = bench.transport.sent.pop()
        assert isinstance(sent, Request)
        assert bench.dispatcher.fail(RequestFailure(sent.id, "the reply was lost", error=error))
        with pytest.raises(raised, match="no route" if error else "x: the reply was lost"):
            await call
    assert not bench.dispatcher.fail(RequestFailure(1, "no request waits"))
    assert not bench.dispatcher.time_limits.running


@pytest.mark.parametrize(("id", "level"), [(None, "WARNING"), (7, "DEBUG")])
async def test_dispatcher_response_without_an_id_is_logged_as_a_warning(
    id: RequestId | None, level: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "mcp_ref.jsonrpc.requester")
    Bench().receive(ErrorResponse(id, Error(-32700, "no")))
    assert [record.levelname for record in caplog.records] == [level]


async def test_dispatcher_time_out_names_a_response_that_could_not_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    call = await bench.begin(timeout=5)
    bench.receive(decode(b'{"jsonrpc": "2.0", "id": 1.5, "result": {}}'))
    pass_time(monkeypatch, 5)
    with pytest.raises(RequestTimeout, match=r"an unusable response: .*the id must be a string or an int"):
        await call
    with pytest.raises(RequestTimeout) as later:
        await bench.call(timeout=0.01)
    assert "unusable" not in str(later.value)


@pytest.mark.spec(
    "2025-11-25/basic/utilities/cancellation#behavior-requirements-8",
    "2024-11-05..2025-06-18/basic/utilities/cancellation#behavior-requirements-7",
)
async def test_dispatcher_cancelled_caller_cancels_request_and_late_response_is_ignored() -> None:
    bench = Bench()
    call = await bench.begin()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert bench.abandoned == [(1, "the caller stopped waiting")]
    bench.receive(Response(1, {}))
    assert bench.dispatcher.pending == {}


async def test_dispatcher_request_whose_cancellation_cannot_be_sent_leaves_nothing() -> None:
    def cannot_send(id: RequestId, reason: str) -> None:
        raise OSError(f"cannot send: {reason}")

    bench = Bench(on_abandoned=cannot_send)
    with pytest.raises(OSError, match="the request timed out"):
        await bench.call(timeout=0.01)
    assert bench.dispatcher.pending == {}


@pytest.mark.spec("2025-03-26..2025-11-25/basic/lifecycle#timeouts-4")
@pytest.mark.parametrize("timeout", [None, 1000.0])
async def test_dispatcher_max_timeout_holds_with_longer_or_no_timeout(timeout: float | None) -> None:
    bench = Bench()
    async with asyncio.timeout(5):
        with pytest.raises(RequestTimeout, match=r"no response within 0\.01 seconds"):
            await bench.call(timeout=timeout, max_timeout=0.01)


async def test_dispatcher_timeout_error_names_the_limit_that_ended() -> None:
    bench = Bench()
    call = await bench.begin(timeout=1000, max_timeout=1500)
    limit = bench.dispatcher.pending[1].limit
    assert limit is not None
    limit.deadline = asyncio.get_running_loop().time()  # as if all of the maximum were over
    limit.restart()
    with pytest.raises(RequestTimeout, match="no response within 1500 seconds"):
        await call


@pytest.mark.parametrize("how", ["result", "result after the limit", "error", "end"])
async def test_dispatcher_outcome_that_comes_in_another_way_ends_the_round_trip(how: str) -> None:
    bench, begun, ended = Bench(), asyncio.Event(), asyncio.Event()

    async def never(request: Request) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    bench.transport.round_trip = never  # type: ignore[method-assign]
    call = asyncio.create_task(bench.call(timeout=None))
    await begun.wait()
    if how.startswith("result"):
        if how.endswith("limit"):
            bench.dispatcher.time_limits.running.copy().pop().expire()
        bench.receive(Response(1, {"a": 1}))
        assert await call == {"a": 1}
    else:
        if how == "error":
            bench.receive(ErrorResponse(1, Error(-1, "no")))
        else:
            bench.dispatcher.fail_pending(ConnectionClosed("gone"))
        with pytest.raises((RemoteError, ConnectionClosed), match="^no" if how == "error" else "^gone"):
            await call
    assert ended.is_set() and bench.abandoned == [] and call.cancelling() == 0


async def test_dispatcher_request_to_lost_peer_fails_at_once_even_without_timeout() -> None:
    bench = Bench()
    bench.receive(Request(1, "x"))
    waiting = await bench.begin(timeout=None)
    bench.dispatcher.fail_pending(ConnectionClosed("gone"))
    for call in (waiting, bench.call(timeout=None)):
        with pytest.raises(ConnectionClosed, match="gone"):
            await call
    bench.gate.set()  # the served request still gets its response
    assert (await bench.transport.wait_for(2))[1] == Response(1, {"echo": {}})
    assert bench.abandoned == []


async def test_dispatcher_callers_beyond_max_pending_wait_for_a_slot() -> None:
    bench = Bench(max_pending=2)
    calls = [asyncio.create_task(bench.call()) for _ in range(3)]
    await turns()
    assert len(bench.transport.sent) == 2
    bench.receive(Response(1, {}))
    await bench.transport.wait_for(3)
    bench.receive(Response(2, {}), Response(3, {}))
    await asyncio.gather(*calls)


async def test_dispatcher_batch_with_more_calls_than_max_pending_sends_the_others_later() -> None:
    bench = Bench(max_pending=2)
    three = [bench.call(timeout=None) for _ in range(3)]
    calls = asyncio.create_task(bench.dispatcher.batch(*three))
    (array,) = await bench.transport.wait_for(1)
    assert len(members(array)) == 2
    bench.receive(Response(1, {}))
    await bench.transport.wait_for(2)
    bench.receive(Response(2, {}), Response(3, {}))
    assert await calls == [{}, {}, {}]


async def test_dispatcher_unsent_request_is_never_cancelled_on_the_wire() -> None:
    bench = Bench()
    bench.transport.may_drain.clear()  # the peer does not read
    why = "it was not sent, because the peer has not yet accepted or answered earlier messages"
    with pytest.raises(RequestTimeout, match=rf"^x: no response within 0\.01 seconds; {why}$"):
        await bench.call(timeout=0.01)
    assert (bench.transport.sent, bench.abandoned) == ([], [])


async def test_dispatcher_timeout_counts_while_caller_waits_for_a_slot() -> None:
    bench = Bench(max_pending=1)
    first = await bench.begin(timeout=None)
    async with asyncio.timeout(5):
        with pytest.raises(RequestTimeout):
            await bench.call(timeout=0.01)
    bench.receive(Response(1, {}))
    await first
    assert (len(bench.transport.sent), bench.abandoned, bench.dispatcher.pending) == (1, [], {})


async def test_dispatcher_progress_at_the_end_of_the_timeout_is_too_late() -> None:
    bench = Bench()
    call = await bench.begin(timeout=1000, max_timeout=1500)
    (pending,) = bench.dispatcher.pending.values()
    assert pending.limit is not None
    pending.limit.expire()
    late = asyncio.get_running_loop().call_soon(pending.limit.restart)  # in the turn in which the time ends
    with pytest.raises(RequestTimeout):
        await call
    assert not late.cancelled()


async def test_dispatcher_lost_connection_fails_each_later_request_without_growing() -> None:
    bench = Bench()
    await bench.dispatcher.close(ConnectionClosed("gone"))
    depths = set()
    for _ in range(10):
        with pytest.raises(ConnectionClosed) as caught:
            await bench.call()
        depths.add(len(list(traceback.walk_tb(caught.value.__traceback__))))
    assert len(depths) == 1


async def test_dispatcher_close_ends_serving() -> None:
    bench = Bench()
    await bench.dispatcher.close()
    bench.receive(Request(1, "x"), Notification("note"), decode(b"garbage"), decode(b"[]"))
    await turns()
    assert (bench.transport.sent, bench.notified, bench.dispatcher._tasks) == ([], [], set())


# ------------------------------------------------------------------------------------------------ cancellation


@pytest.mark.parametrize("task_factory", TASK_FACTORIES)
async def test_dispatcher_response_that_a_task_delivers_while_the_request_is_sent_cancels_nothing(
    task_factory: Any,
) -> None:
    asyncio.get_running_loop().set_task_factory(task_factory)
    bench, tasks = Bench(), list[asyncio.Task[None]]()

    async def respond(message: Outgoing) -> None:
        assert isinstance(message, Request)
        bench.receive(Response(message.id, {"ok": True}))

    def send(message: Outgoing, related: RequestId | None = None) -> None:
        tasks.append(asyncio.create_task(respond(message)))

    bench.transport.send = send  # type: ignore[method-assign]
    assert await bench.call() == {"ok": True}
    await turns()  # a cancellation that was left over would end this wait
    await asyncio.gather(*tasks)


@pytest.mark.parametrize("task_factory", TASK_FACTORIES)
async def test_dispatcher_request_after_a_cancellation_is_served_after_the_cancelled_handler_has_noticed(
    task_factory: Any,
) -> None:
    asyncio.get_running_loop().set_task_factory(task_factory)
    seen = list[str]()

    async def serve(request: Request) -> Object:
        seen.append(request.method)
        try:
            await asyncio.sleep(60 if request.method == "long" else 0)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise
        return {}

    bench = Bench(serve)
    bench.receive(Request(1, "long"))
    await turns()
    assert bench.dispatcher.cancel(1)
    bench.receive(Request(2, "next"))
    await bench.transport.wait_for(1)
    assert seen == ["long", "cancelled", "next"]


@pytest.mark.spec(
    "2025-11-25/basic/utilities/cancellation#behavior-requirements-5,7",
    "2024-11-05..2025-06-18/basic/utilities/cancellation#behavior-requirements-4,6",
)
async def test_dispatcher_cancelled_request_is_stopped_without_response() -> None:
    bench = Bench()
    bench.receive(Request(1, "x"), Request(2, "x"))
    await turns()
    assert bench.dispatcher.cancel(1)
    assert not bench.dispatcher.is_serving(1)
    await turns()
    assert bench.stopped == [1]
    bench.gate.set()
    assert await bench.transport.wait_for(1) == [Response(2, {"echo": {}})]
    await turns()
    assert len(bench.transport.sent) == 1


async def test_dispatcher_request_cancelled_before_it_begins_leaves_no_trace() -> None:
    bench = Bench()
    bench.receive(Request(1, "x"))
    assert bench.dispatcher.cancel(1)
    await turns()
    bench.gate.set()
    bench.receive(Request(1, "x"))
    assert len(await bench.transport.wait_for(1)) == 1
    await turns()
    assert bench.dispatcher._tasks == set()


@pytest.mark.spec("2024-11-05..2025-11-25/basic/utilities/cancellation#timing-considerations-1")
async def test_dispatcher_late_or_unknown_cancellation_is_ignored() -> None:
    bench = Bench()
    bench.receive(Request(1, "x"))
    await turns()
    unknown: list[JSON] = [2, "1", None, True, 1.0, [], {}]
    assert not any(bench.dispatcher.cancel(id) for id in unknown)
    bench.gate.set()
    await bench.transport.wait_for(1)
    assert not bench.dispatcher.cancel(1)
    assert len(bench.transport.sent) == 1


async def test_dispatcher_handler_that_swallows_cancellation_gets_no_response() -> None:
    gate = asyncio.Event()

    async def stubborn(request: Request) -> Object:
        try:
            await gate.wait()
        except asyncio.CancelledError:
            return {"too": "late"}
        return {}

    bench = Bench(stubborn)
    bench.receive(Request(1, "x"))
    await turns()
    bench.dispatcher.cancel(1)
    await turns()
    assert bench.transport.sent == []


async def test_dispatcher_close_stops_all_handlers_from_any_task_repeatedly(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.receive(*(Request(id, "x") for id in range(10)))
    await turns()
    await asyncio.gather(*(bench.dispatcher.close() for _ in range(100)))
    assert sorted(bench.stopped) == list(range(10))
    assert (bench.transport.sent, bench.dispatcher._tasks) == ([], set())
    assert not caplog.records


async def test_dispatcher_close_logs_how_many_handlers_do_not_stop(caplog: pytest.LogCaptureFixture) -> None:
    async def stubborn(request: Request) -> Object:
        for _ in range(2):
            with contextlib.suppress(asyncio.CancelledError):
                await release.wait()
        return {}

    release, bench = asyncio.Event(), Bench(stubborn)
    bench.receive(Request(1, "x"))
    await turns()
    await bench.dispatcher.close(grace=0.01)
    assert "cancelled request handlers still run: 1" in caplog.text
    release.set()
    await turns()
    assert not bench.dispatcher._tasks


async def test_dispatcher_handler_may_close_its_own_connection() -> None:
    async def closing(request: Request) -> Object:
        await bench.dispatcher.close()
        return {}

    bench = Bench(closing)
    bench.receive(Request(1, "x"))
    await turns()
    assert bench.transport.sent == []


# ------------------------------------------------------------------------------------------------ bounds


@pytest.mark.parametrize(
    ("slots", "method"),
    [pytest.param(2, "x", id="as many requests wait as are served"), pytest.param(4, "begin", id="messages are held")],
)
async def test_dispatcher_stops_reading_before_more_messages_wait_than_have_slots(slots: int, method: str) -> None:
    bench = Bench(max_in_flight=slots, patience=1000)
    bench.dispatcher.blocking_methods = frozenset({"begin"})
    bench.receive(Request(1, method), Request(2, "x"), Request(3, "x"))
    assert not bench.transport.paused
    bench.receive(Request(4, "x"))
    assert bench.transport.paused
    bench.gate.set()
    sent = await bench.transport.wait_for(4)
    assert [isinstance(message, Response) and message.id for message in sent] == [1, 2, 3, 4]
    await turns()
    assert not bench.transport.paused


async def test_dispatcher_reads_the_response_that_a_handler_needs_while_requests_wait() -> None:
    async def serve(request: Request) -> Object:
        return await bench.call()

    bench = Bench(serve, max_in_flight=1, patience=1000)
    bench.receive(Request(1, "x"), Request(2, "x"))
    await turns()
    for number in (1, 2):
        bench.receive(Response(number, {"for": number}))
        await bench.transport.wait_for(2 * number)
        await turns()
    responses = [message for message in bench.transport.sent if isinstance(message, Response)]
    assert responses == [Response(1, {"for": 1}), Response(2, {"for": 2})]


@pytest.mark.parametrize("starts", [True, False])
async def test_dispatcher_cancelled_waiting_request_gives_its_place_to_another(starts: bool) -> None:
    bench = Bench(max_in_flight=1, patience=1000)
    bench.receive(Request(1, "x"), Request(2, "x"))
    assert bench.transport.paused
    if starts:
        await turns()
    assert bench.dispatcher.cancel(2)
    await turns()
    assert not bench.transport.paused
    bench.receive(Request(3, "x"))
    assert bench.dispatcher.cancel(1)
    bench.gate.set()
    assert await bench.transport.wait_for(1) == [Response(3, {"echo": {}})]
    await turns()
    assert not bench.dispatcher._tasks


async def test_dispatcher_blocking_method_is_served_although_all_slots_are_used() -> None:
    async def serve(request: Request) -> Object:
        if request.method == "begin":
            bench.dispatcher.cancel_others(request.id)
        else:
            await asyncio.Event().wait()
        return {}

    bench = Bench(serve, max_in_flight=1, patience=1000)
    bench.dispatcher.blocking_methods = frozenset({"begin"})
    bench.receive(Request(1, "x"), Request(2, "begin"))
    assert await bench.transport.wait_for(1) == [Response(2, {})]
    await turns()
    assert not bench.transport.paused and not bench.dispatcher._tasks


async def test_dispatcher_serves_a_held_message_with_the_context_variables_of_its_arrival() -> None:
    caller, seen, gate = contextvars.ContextVar[str]("caller"), [], asyncio.Event()

    async def serve(request: Request) -> Object:
        seen.append((request.method, caller.get()))
        await gate.wait()
        return {}

    bench = Bench(serve)
    bench.dispatcher.blocking_methods = frozenset({"begin"})
    for number, method in enumerate(["begin", "later"]):
        caller.set(method)
        bench.receive(Request(number, method))
    gate.set()
    await bench.transport.wait_for(2)
    assert seen == [("begin", "begin"), ("later", "later")]


async def test_dispatcher_slot_is_held_until_peer_has_read_the_response() -> None:
    bench = Bench(max_in_flight=1, patience=0)
    bench.gate.set()
    bench.transport.may_drain.clear()
    bench.receive(Request(1, "x"), Request(2, "x"))
    await bench.transport.wait_for(1)
    await turns()  # the patience is over, but the peer must only read: no request is refused
    assert bench.transport.sent == [Response(1, {"echo": {}})]
    assert bench.transport.paused
    bench.transport.may_drain.set()
    assert await bench.transport.wait_for(2) == [Response(1, {"echo": {}}), Response(2, {"echo": {}})]
    await turns()
    assert not bench.transport.paused


async def test_dispatcher_refuses_all_waiting_requests_if_no_slot_becomes_free() -> None:
    bench = Bench(max_in_flight=3, patience=0.01)
    bench.receive(*(Request(number, "x") for number in range(6)))
    assert bench.transport.paused
    refusals = await bench.transport.wait_for(3)
    assert [refused(each) for each in refusals] == [(number, INTERNAL_ERROR) for number in (3, 4, 5)]
    assert "at most 3" in str(refusals[0])
    await turns()
    assert not bench.transport.paused
    bench.gate.set()
    await bench.transport.wait_for(6)
    await bench.dispatcher.close()


async def test_dispatcher_refuses_the_rest_of_a_batch_if_too_many_requests_wait() -> None:
    bench = Bench(max_in_flight=1, patience=1000)
    bench.dispatcher.accepts_batches = True
    bench.receive(Batch([Request(number, "x") for number in range(4)]))
    bench.gate.set()
    (array,) = await bench.transport.wait_for(1)
    by_id = {member.id: member for member in members(array)}
    assert [isinstance(by_id[number], Response) for number in range(4)] == [True, True, False, False]


@pytest.mark.parametrize("frame", [b"garbage", b'{"jsonrpc":"2.0","id":%d,"method":"x"}'])
async def test_dispatcher_refusals_take_no_memory_if_the_transport_cannot_stop_reading(frame: bytes) -> None:
    bench = Bench(max_in_flight=2, patience=1000)
    bench.transport.may_drain.clear()
    for number in range(100):
        bench.receive(decode(frame % number if b"%d" in frame else frame))
        await turns()
    assert len(bench.dispatcher._tasks) == 4
    bench.transport.may_drain.set()
    await bench.dispatcher.close()


@pytest.mark.parametrize("frame", [b"garbage", b"{}", b"[]", b"[1]", b'{"jsonrpc":"2.0","id":1,"method":"x"}'])
async def test_dispatcher_peer_that_sends_garbage_and_never_reads_is_not_read_from(frame: bytes) -> None:
    bench = Bench(max_in_flight=2, patience=1000)
    bench.dispatcher.accepts_batches = True
    bench.transport.may_drain.clear()
    bench.receive(Request(1, "x"), decode(frame), decode(frame))
    assert not bench.transport.paused
    bench.receive(decode(frame))
    assert bench.transport.paused
    bench.transport.may_drain.set()
    await turns()
    assert not bench.transport.paused
    await bench.dispatcher.close()


# ------------------------------------------------------------------------------------------------ batches


def batch_of(*members: bytes) -> Incoming:
    return decode(b"[" + b",".join(members) + b"]")


PING_1 = b'{"jsonrpc":"2.0","id":1,"method":"x"}'
PING_2 = b'{"jsonrpc":"2.0","id":"2","method":"x"}'
NOTE = b'{"jsonrpc":"2.0","method":"note"}'


def batching(serve: Callable[[Request], Awaitable[Object]] | None = None) -> Bench:
    bench = Bench(serve)
    bench.dispatcher.accepts_batches = True
    bench.dispatcher.unbatchable = frozenset({"initialize"})
    return bench


@pytest.mark.spec("2025-03-26/basic/index#batching-1")
async def test_dispatcher_batch_gets_one_array_when_its_last_member_is_done() -> None:
    bench = batching()
    bench.receive(batch_of(PING_1, NOTE, PING_2, b"7"))
    await turns()
    assert bench.transport.sent == []
    bench.gate.set()
    (reply,) = await bench.transport.wait_for(1)
    by_id = {answer.id: answer for answer in members(reply)}
    assert by_id[1] == Response(1, {"echo": {}})
    assert by_id["2"] == Response("2", {"echo": {}})
    assert refused(by_id[None]) == (None, INVALID_REQUEST)
    assert bench.notified == [Notification("note")]


async def test_dispatcher_batch_of_notifications_gets_no_reply() -> None:
    bench = batching()
    bench.receive(batch_of(NOTE, NOTE))
    await turns()
    assert (len(bench.notified), bench.transport.sent) == (2, [])


async def test_dispatcher_empty_batch_gets_one_error_instead_of_an_array() -> None:
    bench = batching()
    bench.receive(batch_of())
    (reply,) = await bench.transport.wait_for(1)
    assert refused(reply) == (None, INVALID_REQUEST)


@pytest.mark.spec("2025-03-26/basic/lifecycle#initialization-5")
async def test_dispatcher_batch_with_initialize_is_refused() -> None:
    bench = batching()
    bench.gate.set()
    bench.receive(batch_of(b'{"jsonrpc":"2.0","id":0,"method":"initialize"}', PING_1))
    (reply,) = await bench.transport.wait_for(1)
    assert [refused(each) for each in members(reply) if isinstance(each, ErrorResponse)] == [(0, INVALID_REQUEST)]


async def test_dispatcher_batch_of_responses_ends_waits_and_gets_no_reply() -> None:
    bench = batching()
    calls = [asyncio.create_task(bench.call()) for _ in range(2)]
    await bench.transport.wait_for(2)
    second = b'{"jsonrpc":"2.0","id":2,"result":{"b":2}}'
    bench.receive(batch_of(second, b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no"}}'))
    with pytest.raises(RemoteError):
        await calls[0]
    assert await calls[1] == {"b": 2}
    assert len(bench.transport.sent) == 2


async def test_dispatcher_mixed_batch_takes_responses_and_refuses_requests() -> None:
    bench = batching()
    call = await bench.begin()
    bench.receive(batch_of(b'{"jsonrpc":"2.0","id":1,"result":{}}', PING_2))
    assert await call == {}
    reply = (await bench.transport.wait_for(2))[1]
    assert [refused(each) for each in members(reply)] == [("2", INVALID_REQUEST)]


async def test_dispatcher_batch_reply_lacks_cancelled_members_and_is_never_empty() -> None:
    bench = batching()
    bench.receive(batch_of(PING_1, PING_2))
    await turns()
    bench.dispatcher.cancel(1)
    bench.gate.set()
    assert await bench.transport.wait_for(1) == [Batch([Response("2", {"echo": {}})])]
    bench.gate.clear()
    bench.receive(batch_of(PING_1))
    await turns()
    bench.dispatcher.cancel(1)
    await turns()
    assert len(bench.transport.sent) == 1


async def test_dispatcher_batch_member_that_is_unwritable_does_not_spoil_the_others() -> None:
    async def serve(request: Request) -> Object:
        return {"value": float("nan") if request.id == 1 else 0}

    bench = batching(serve)
    bench.receive(batch_of(PING_1, PING_2))
    (sent,) = await bench.transport.wait_for(1)
    spoiled, other = members(sent)
    assert refused(spoiled) == (1, INTERNAL_ERROR) and other == Response("2", {"value": 0})


async def test_dispatcher_without_batches_refuses_array_as_invalid_request() -> None:
    bench = Bench()
    bench.receive(batch_of(PING_1))
    (reply,) = await bench.transport.wait_for(1)
    assert refused(reply) == (None, INVALID_REQUEST)
    assert "2025-03-26" in str(reply)


@pytest.mark.parametrize("result", [b"{}", b"[]"], ids=["valid", "invalid"])
async def test_dispatcher_without_batches_fails_the_request_whose_response_is_in_an_array(result: bytes) -> None:
    bench = Bench()
    calling = await bench.begin()
    bench.receive(batch_of(b'{"jsonrpc":"2.0","id":1,"result":%b}' % result))
    with pytest.raises(InvalidMessage, match="2025-03-26"):
        await calling


@pytest.mark.parametrize("task_factory", TASK_FACTORIES)
async def test_dispatcher_batch_calls_leave_as_one_array_and_return_results_in_order(task_factory: Any) -> None:
    asyncio.get_running_loop().set_task_factory(task_factory)
    bench = batching()
    calling = asyncio.create_task(bench.dispatcher.batch(bench.call(), bench.call()))
    assert await bench.transport.wait_for(1) == [Batch([Request(1, "x"), Request(2, "x")])]
    bench.receive(ErrorResponse(1, Error(5, "no")), Response(2, {"ok": True}))
    first, second = await calling
    assert isinstance(first, RemoteError) and second == {"ok": True}


async def test_dispatcher_batch_has_at_most_max_batch_calls() -> None:
    async def call() -> str:
        return "done"

    bench = batching()
    assert await bench.dispatcher.batch(*(call() for _ in range(MAX_BATCH))) == ["done"] * MAX_BATCH
    with pytest.raises(ValueError, match=f"at most {MAX_BATCH}"):
        await bench.dispatcher.batch(*(bench.call() for _ in range(MAX_BATCH + 1)))
    await turns()
    assert (bench.transport.sent, bench.dispatcher.pending) == ([], {})


async def test_dispatcher_batch_call_that_is_unwritable_does_not_spoil_the_others() -> None:
    bench = batching()
    bad = bench.dispatcher.request("x", {"a": float("nan")}, timeout=5)
    calling = asyncio.create_task(bench.dispatcher.batch(bad, bench.call()))
    assert await bench.transport.wait_for(1) == [Request(2, "x")]
    bench.receive(Response(2, {"ok": True}))
    first, second = await calling
    assert isinstance(first, ValueError)
    with pytest.raises(ValueError) as caught:
        await bench.dispatcher.request("x", {"a": float("nan")}, timeout=5)
    assert caught.value.__notes__[-1] == "x was not sent, because its params must be JSON"
    assert (second, bench.abandoned) == ({"ok": True}, [])


async def test_dispatcher_batch_leaves_when_each_call_has_made_its_request_or_ended() -> None:
    bench = batching()
    ready = asyncio.Event()

    async def late() -> Object:
        await ready.wait()
        return await bench.call()

    async def without_request() -> None:
        await ready.wait()

    calling = asyncio.create_task(bench.dispatcher.batch(bench.call(), late(), without_request()))
    await turns()
    assert bench.transport.sent == []
    ready.set()
    assert await bench.transport.wait_for(1) == [Batch([Request(1, "x"), Request(2, "x")])]
    bench.receive(Response(2, {"n": 2}), Response(1, {"n": 1}))
    assert await calling == [{"n": 1}, {"n": 2}, None]


async def test_dispatcher_batch_call_that_ends_before_the_array_leaves_is_neither_sent_nor_cancelled() -> None:
    bench = batching()
    has_ended = asyncio.Event()

    async def short() -> Object:
        try:
            return await bench.call(timeout=0.01)
        finally:
            has_ended.set()

    async def late() -> Object:
        await has_ended.wait()
        return await bench.call()

    calling = asyncio.create_task(bench.dispatcher.batch(short(), late()))
    (sent,) = await bench.transport.wait_for(1)
    assert sent == Batch([Request(2, "x")]) and bench.abandoned == []
    bench.receive(Response(2, {"n": 2}))
    first, second = await calling
    assert isinstance(first, RequestTimeout) and second == {"n": 2}


async def test_dispatcher_batch_that_is_cancelled_sends_nothing_and_leaves_nothing() -> None:
    bench = batching()
    calling = asyncio.create_task(bench.dispatcher.batch(bench.call(), asyncio.sleep(10)))
    await turns()
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    await turns()
    assert (bench.transport.sent, bench.abandoned, bench.dispatcher.pending) == ([], [], {})


async def test_dispatcher_request_in_a_batch_call_after_the_first_is_sent_alone() -> None:
    bench = batching()

    async def twice() -> Object:
        await bench.call()
        return await bench.call()

    calling = asyncio.create_task(bench.dispatcher.batch(twice()))
    await bench.transport.wait_for(1)
    bench.receive(Response(1, {}))
    sent = await bench.transport.wait_for(2)
    assert sent == [Batch([Request(1, "x")]), Request(2, "x")]
    bench.receive(Response(2, {"n": 2}))
    assert await calling == [{"n": 2}]


async def test_dispatcher_unreadable_message_gets_an_error_only_where_that_helps() -> None:
    bench = Bench()
    bench.receive(decode(b"garbage"))
    assert len(bench.transport.sent) == 1
    bench.dispatcher.reports_unreadable = False
    bench.receive(decode(b"garbage"))
    assert len(bench.transport.sent) == 1


async def test_dispatcher_warns_of_the_first_faults_of_its_peer_only(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    for _ in range(MAX_WARNINGS + 10):
        bench.receive(decode(b'{"jsonrpc":"2.0","id":1,"result":1}'))
    assert len(caplog.records) == MAX_WARNINGS
    assert {record.levelname for record in caplog.records} == {"WARNING"}
