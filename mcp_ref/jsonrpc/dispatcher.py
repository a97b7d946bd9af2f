"""The dispatcher: routes what comes in, and pairs what goes out with its answer. One class for both roles.

A connection has two conversations over one wire: the requests that we send and wait for (`request`), and the requests
that the peer sends and we serve (`receive`). This class keeps both tables and nothing else: it knows no method names.

    peer's request  -> receive() -> a task -> serve(request) -> Response | ErrorResponse -> transport
    our request     -> request() -> transport ... receive(Response) -> the waiting caller

Spec:  basic/index#messages; 2025-03-26 basic/index#batching; basic/lifecycle#timeouts; JSON-RPC 2.0
Above: `runtime/connection.py` gives it `serve` and `notified`. Below: a `Transport` (basic/transports) moves messages.
Elsewhere: what `notifications/cancelled` and `notifications/progress` look like (basic/patterns).

Nothing hangs: every wait for an answer has a time limit, and ends when the connection does. Nothing grows: requests in
flight are bounded both ways. A peer that sends more than `max_in_flight` requests is not read from until one ends; if
none ends within `patience` seconds, the next request is refused, so that answers and cancellations behind it get
through.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Protocol

from .errors import (
    ConnectionClosed,
    ForeignAnswer,
    InvalidMessage,
    McpError,
    ProtocolError,
    RemoteError,
    RequestTimeout,
)
from .messages import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    JSON,
    MAX_BATCH,
    Batch,
    Error,
    ErrorResponse,
    Incoming,
    Malformed,
    Message,
    Notification,
    Object,
    Outgoing,
    Request,
    RequestId,
    Response,
    Undelivered,
    encode,
)

log = logging.getLogger(__name__)


class Transport(Protocol):
    """What the dispatcher needs of a transport; basic/transports/__init__.py says the rest."""

    def send(self, message: Outgoing, related: RequestId | None = None) -> None:
        """Queue one message. `related` is the peer's request that caused it, for transports with several streams.

        Raises ValueError, TypeError or RecursionError for what JSON cannot hold (`messages.encode`).
        """

    async def drain(self, related: RequestId | None = None) -> None:
        """Return when the peer has taken enough of what was sent; at once while the buffer is small.

        `related`: as for `send`; where there are several streams, only that one is waited for.
        """

    def pause_reading(self) -> None:
        """Deliver no further message until `resume_reading`."""

    def resume_reading(self) -> None: ...

    def no_response(self, related: RequestId) -> None:
        """The peer's request `related` was cancelled: nothing more will be sent for it, and no answer."""
        return None  # one stream for all has nothing to end


@dataclass(slots=True)
class Limits:
    """The bounds of one connection, both ways."""

    max_in_flight: int = 256
    """The peer's requests being served at a time."""
    patience: float = 1.0
    """Seconds that a full table may stop the reading before further requests are refused."""
    max_pending: int = 1024
    """Our requests waiting for an answer at a time; further callers wait for a place."""


@dataclass(slots=True)
class Pending:
    """One of our requests, waiting. `on_progress` is called for each progress notification that names it."""

    response: asyncio.Future[Object]
    method: str
    on_progress: Callable[[object], None] | None = None
    clock: asyncio.Timeout | None = None
    seconds: float | None = None
    deadline: float | None = None

    def extend(self) -> None:
        """Start the time limit anew, never beyond the hard maximum. [2025-11-25 basic/lifecycle#timeouts]"""
        if self.clock is None or self.clock.expired():
            return  # too late: the time ended in this very turn of the event loop
        if self.seconds is not None and self.deadline is not None:
            self.clock.reschedule(min(asyncio.get_running_loop().time() + self.seconds, self.deadline))


@dataclass(slots=True)
class _Serving:
    """One of the peer's requests, being served."""

    task: asyncio.Task[None] | None = None
    running: bool = False
    cancelled: bool = False

    def stop(self) -> None:
        """Cancel it. A task that has not begun must begin, or its table entry would stay for ever: it sees the flag."""
        self.cancelled = True
        if self.running and self.task is not None:
            self.task.cancel()


@dataclass(slots=True)
class _BatchReply:
    """The answers of one received batch, sent as one array when the last member is done."""

    open: int
    related: RequestId | None
    """Its first request, by which transports with several streams know it."""
    answers: list[Message | Malformed] = field(default_factory=list)


@dataclass(slots=True)
class _Envelope:
    """Requests that `batched` callers wrote, to leave as one array."""

    requests: list[Message | Malformed] = field(default_factory=list)
    sealed: bool = False


_envelope: ContextVar[_Envelope | None] = ContextVar("envelope", default=None)


class Dispatcher:
    """Both tables of one connection. All methods are to be called on the connection's event loop.

    `serve` answers one request of the peer (its return value is the result; a `ProtocolError` is the error);
    `notified` takes its notifications, in order, without waiting; `abandoned(id, reason)` is called when a caller stops
    waiting for one of our requests, so that the peer can be told.
    """

    def __init__(
        self,
        transport: Transport,
        serve: Callable[[Request], Awaitable[Object]],
        notified: Callable[[Notification], None],
        abandoned: Callable[[RequestId, str], None],
        limits: Limits | None = None,
    ) -> None:
        self.accepts_batches = False  # the negotiated revision says; see `Revision.batch`
        self.unbatchable: frozenset[str] = frozenset()  # methods that may not stand in a batch
        self.omits_unknown_ids = False  # see `Revision.error_id_optional`
        self.reports_unreadable = True  # whether what is no message and has no readable id gets an error, or only a log
        self.pending: dict[RequestId, Pending] = {}
        self._limits = limits or Limits()
        self._transport = transport
        self._serve = serve
        self._notified = notified
        self._abandoned = abandoned
        self._ids = itertools.count(1)
        self._serving: dict[RequestId, _Serving] = {}
        self._tasks: set[asyncio.Task[None]] = set()  # the places: those of `_serving`, and answers that wait to leave
        self._places = asyncio.Semaphore(self._limits.max_pending)
        self._patience: asyncio.TimerHandle | None = None
        self._unreachable: McpError | None = None  # why nobody would answer a request any more
        self._closed: McpError | None = None

    # ------------------------------------------------------------------------------------- what comes in

    def receive(self, incoming: Incoming) -> None:
        """Take one frame's content from the transport. Never raises, never waits. After `close`, it is ignored."""
        if self._closed is not None:
            return
        match incoming:
            case Request():
                self._accept(incoming, None)
            case Notification():
                self._notify(incoming)
            case Response() | ErrorResponse():
                self._settle(incoming)
            case Malformed():
                self._refuse(incoming, None)
            case Batch():
                self._receive_batch(incoming)
            case Undelivered():
                pending = self.pending.get(incoming.id)
                if pending is not None and not pending.response.done():
                    kind = ForeignAnswer if incoming.foreign else ConnectionClosed
                    pending.response.set_exception(kind(f"{pending.method}: {incoming.reason}"))

    def _receive_batch(self, batch: Batch) -> None:
        if not self.accepts_batches:
            # [2025-06-18 changelog#major-changes] batching is gone; only 2025-03-26 has it
            text = "Invalid Request: only revision 2025-03-26 has batches; send one message"
            return self._refuse(Malformed(Error(INVALID_REQUEST, text)), None)
        answers = any(isinstance(m, (Response, ErrorResponse)) for m in batch.messages)
        first = next((member.id for member in batch.messages if isinstance(member, Request)), None)
        reply = _BatchReply(open=1, related=first)  # open for this loop, so that the reply waits for all members
        for member in batch.messages:
            if isinstance(member, Request) and answers:
                # [2025-03-26 schema] an array holds requests and notifications, or responses, never both
                text = "Invalid Request: a batch of responses holds no request"
                member = Malformed(Error(INVALID_REQUEST, text), member.id)
            elif isinstance(member, Request) and member.method in self.unbatchable:
                # [2025-03-26 basic/lifecycle#initialization] initialize MUST NOT be part of a JSON-RPC batch
                text = f"Invalid Request: {member.method} must not be part of a batch"
                member = Malformed(Error(INVALID_REQUEST, text), member.id)
            match member:
                case Request():
                    self._accept(member, reply)
                case Notification():
                    self._notify(member)
                case Response() | ErrorResponse():
                    self._settle(member)
                case Malformed():
                    self._refuse(member, reply)
        self._close_one(reply)
        if reply.open == 0 and reply.answers:  # nothing of it is served
            self._await_taking()

    def _accept(self, request: Request, reply: _BatchReply | None) -> None:
        """Start serving a request, if its id is free and there is room."""
        if request.id in self._serving:
            error = Error(INVALID_REQUEST, f"Invalid Request: a request with id {request.id!r} is still in flight")
            return self._refuse(Malformed(error, request.id), reply)
        if len(self._tasks) >= self._limits.max_in_flight:
            text = f"too many requests in flight (at most {self._limits.max_in_flight}); retry later"
            return self._refuse(Malformed(Error(INTERNAL_ERROR, text), request.id), reply)
        if reply is not None:
            reply.open += 1
        entry = self._serving[request.id] = _Serving()
        entry.task = self._occupy(self._run(request, entry, reply))

    async def _run(self, request: Request, entry: _Serving, reply: _BatchReply | None) -> None:
        """Serve one request and send its answer. Its place is held until the peer took the answer."""
        answer: Message | None = None
        entry.running = True
        if not entry.cancelled:
            # [2025-11-25 basic/utilities/cancellation#behavior-requirements] no response for a cancelled request
            with contextlib.suppress(asyncio.CancelledError):
                answer = await respond(request, self._serve(request))
        del self._serving[request.id]
        if entry.cancelled or self._closed:
            answer = None
        try:
            if reply is not None:
                self._close_one(reply, answer)
            elif answer is not None:
                self._answer(answer, request.id)
            else:
                self._transport.no_response(request.id)
            await self._transport.drain(request.id)
        except asyncio.CancelledError:
            pass  # the answer is with the transport already

    def _notify(self, notification: Notification) -> None:
        try:
            self._notified(notification)
        except Exception:
            log.exception("the handler of %s failed", notification.method)

    def _settle(self, answer: Response | ErrorResponse) -> None:
        """Give an answer to whoever waits for it. Late and unknown ones are ignored, as the spec asks."""
        pending = self.pending.get(answer.id) if answer.id is not None else None
        if pending is None or pending.response.done():
            level = logging.WARNING if answer.id is None else logging.DEBUG
            log.log(level, "ignored an answer that nobody waits for: %.200r", answer)
        elif isinstance(answer, Response):
            pending.response.set_result(answer.result)
        else:
            pending.response.set_exception(RemoteError(answer.error.code, answer.error.message, answer.error.data))

    def _refuse(self, malformed: Malformed, reply: _BatchReply | None) -> None:
        """Answer what is no message. An answer that is malformed ends the wait of its request instead."""
        if not malformed.is_response and (malformed.id is not None or self.reports_unreadable):
            answer = ErrorResponse(malformed.id, malformed.error)
            if reply is None:
                self._answer(answer, malformed.id)
                return self._await_taking()
            reply.open += 1
            return self._close_one(reply, answer)
        pending = self.pending.get(malformed.id) if malformed.id is not None else None
        if pending is not None and not pending.response.done():
            pending.response.set_exception(InvalidMessage(f"{pending.method}: {malformed.error.message}"))
        else:
            log.warning("ignored what is no JSON-RPC message: %s", malformed.error.message)

    # ------------------------------------------------------------------------------------- answers that go out

    def _answer(self, answer: Message, related: RequestId | None) -> None:
        if isinstance(answer, ErrorResponse):
            answer.omit_id = self.omits_unknown_ids
        try:
            self._transport.send(answer, related)
        except (ValueError, TypeError, RecursionError):
            self._transport.send(writable(answer), related)

    def _close_one(self, reply: _BatchReply, answer: Message | None = None) -> None:
        """Note that one member of a batch is done; send the array with the last. No answers, no array."""
        reply.open -= 1
        if answer is not None:
            if isinstance(answer, ErrorResponse):
                answer.omit_id = self.omits_unknown_ids
            reply.answers.append(answer)
        if reply.open > 0 or self._closed:
            return
        if not reply.answers and reply.related is not None:
            self._transport.no_response(reply.related)
        elif reply.answers:
            try:
                self._transport.send(Batch(reply.answers), reply.related)
            except (ValueError, TypeError, RecursionError):  # one member spoils the frame
                self._transport.send(Batch([writable(member) for member in reply.answers]), reply.related)

    def _await_taking(self) -> None:
        """An answer to what is not served takes a place too, until the peer took it: or one that sends only rubbish and
        reads nothing would fill our memory."""
        if len(self._tasks) < self._limits.max_in_flight:
            self._occupy(self._transport.drain())
        else:
            self._pause()

    def _occupy(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        """Run something in one of the places; without a free one, nothing more is read."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._vacate)
        if len(self._tasks) >= self._limits.max_in_flight:
            self._pause()
        return task

    def _vacate(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._resume()

    def _pause(self) -> None:
        self._transport.pause_reading()
        if self._patience is None:
            self._patience = asyncio.get_running_loop().call_later(self._limits.patience, self._resume)

    def _resume(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
            self._transport.resume_reading()

    # ------------------------------------------------------------------------------------- what goes out

    async def request(
        self,
        method: str,
        params: Object,
        *,
        timeout: float | None,
        max_timeout: float | None = None,
        on_progress: Callable[[object], None] | None = None,
        related: RequestId | None = None,
        before_send: Callable[[RequestId], None] | None = None,
    ) -> Object:
        """Send a request and wait for its result.

        timeout: seconds to wait, for a place and for the answer, None for no limit. max_timeout: with it,
        `Pending.extend` starts them anew, and in all it is never more than so many seconds. on_progress: see `Pending`;
        it also puts a progress token, the request's id, into the params. before_send: called
        with the id before it is sent. Raises RemoteError (the peer's error),
        RequestTimeout, ConnectionClosed, InvalidMessage.
        """
        loop = asyncio.get_running_loop()
        id, pending = None, Pending(loop.create_future(), method, on_progress)
        now = loop.time()
        end = None if timeout is None else now + timeout
        if max_timeout is not None:
            pending.seconds, pending.deadline = timeout, now + max_timeout
            end = pending.deadline if end is None else min(end, pending.deadline)
        try:
            async with asyncio.timeout_at(end) as pending.clock, self._places:
                await self._transport.drain(related)  # first: who waits for a peer that does not read adds nothing
                gone = self._closed or self._unreachable
                if gone is not None:
                    raise gone.with_traceback(None)  # else each caller's traceback would be added to one exception
                id = next(self._ids)
                self.pending[id] = pending
                if on_progress is not None:
                    meta = params.get("_meta")
                    # [2025-11-25 basic/utilities/progress#progress-flow] unique across all active requests: our id is
                    params = {**params, "_meta": {**(meta if isinstance(meta, dict) else {}), "progressToken": id}}
                if before_send is not None:
                    before_send(id)
                self._post(Request(id, method, params), related)
                return await pending.response
        except TimeoutError:
            if id is not None:
                self._abandoned(id, "the request timed out")
            whole = pending.clock is not None and pending.clock.when() == pending.deadline
            raise RequestTimeout(f"{method}: no answer within {max_timeout if whole else timeout} seconds") from None
        except asyncio.CancelledError:
            if id is not None:
                self._abandoned(id, "the caller stopped waiting")
            raise
        finally:
            if id is not None:
                del self.pending[id]
            if not pending.response.cancel() and not pending.response.cancelled():
                pending.response.exception()  # seen, also where the caller left before it could be

    def _post(self, request: Request, related: RequestId | None) -> None:
        envelope = _envelope.get()
        if envelope is None or envelope.sealed:
            self._transport.send(request, related)
        else:
            envelope.requests.append(request)

    async def batch(self, *calls: Coroutine[object, object, object]) -> list[object]:
        """Run calls that each send one request, putting these requests into one array.

        Gives their results in order, an exception in the place of each that failed. [2025-03-26 basic/index#batching]
        Raises ValueError for more than `MAX_BATCH` calls.
        """
        if len(calls) > MAX_BATCH:
            for call in calls:
                call.close()
            raise ValueError(f"a batch has at most {MAX_BATCH} calls, not {len(calls)}")
        envelope = _Envelope()
        token = _envelope.set(envelope)
        try:
            tasks = [asyncio.ensure_future(call) for call in calls]  # each task copies the context: our envelope
        finally:
            _envelope.reset(token)
        try:
            await asyncio.sleep(0)  # now each has run up to its first wait: its request lies in the envelope
            envelope.sealed = True
            if envelope.requests:
                self._send_batch(envelope.requests)
            return await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            for task in tasks:
                task.cancel()

    def _send_batch(self, requests: list[Message | Malformed]) -> None:
        try:
            self._transport.send(Batch(requests))
        except (ValueError, TypeError, RecursionError):  # one member spoils the frame: send each by itself
            for request in requests:
                assert isinstance(request, Request)
                try:
                    self._transport.send(request)
                except (ValueError, TypeError, RecursionError) as error:
                    self.pending[request.id].response.set_exception(error)

    def notify(self, method: str, params: Object, related: RequestId | None = None) -> None:
        """Send a notification; dropped when the connection is gone, as nobody waits for it."""
        if not self._closed:
            self._transport.send(Notification(method, params), related)

    # ------------------------------------------------------------------------------------- endings

    def cancel(self, id: JSON) -> bool:
        """Stop serving the peer's request `id`; it gets no answer. False when there is none (a lost race, not a
        fault)."""
        entry = self._serving.get(id) if type(id) is str or type(id) is int else None
        if entry is None:
            return False
        entry.stop()
        return True

    def is_serving(self, id: RequestId) -> bool:
        """Whether the peer's request `id` still waits for its answer."""
        entry = self._serving.get(id)
        return entry is not None and not entry.cancelled

    def fail_pending(self, error: McpError) -> None:
        """The peer will not answer any more: end all waits, and later ones, with `error`. What is being served goes
        on."""
        self._unreachable = error
        for pending in self.pending.values():
            if not pending.response.done():
                pending.response.set_exception(error)

    async def finish(self, grace: float) -> None:
        """Let what is being served come to its end, for at most `grace` seconds."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=grace)

    async def close(self, reason: McpError | None = None, grace: float = 0.5) -> None:
        """End all waits with `reason`, stop all that is being served, and wait `grace` seconds for it to stop."""
        if self._closed is None:
            self._closed = reason or ConnectionClosed("the connection was closed")
            if self._patience is not None:
                self._patience.cancel()
                self._patience = None
        self.fail_pending(self._closed)
        me = asyncio.current_task()
        others = [task for task in self._tasks if task is not me]
        serving = [entry for entry in self._serving.values() if entry.task is not me]
        for entry in serving:
            entry.stop()
        for task in set(others) - {entry.task for entry in serving}:  # those whose answer waits to leave
            task.cancel()
        if others:
            _, stuck = await asyncio.wait(others, timeout=grace)
            if stuck:
                log.warning("%d request handlers ignored their cancellation", len(stuck))


async def respond(request: Request, result: Awaitable[Object]) -> Response | ErrorResponse:
    """Await a handler's result, and return the response to its request.

    Every failure becomes an error response. Raise CancelledError if the current task was cancelled; a handler that
    raises it on its own has failed.
    """
    task = asyncio.current_task()
    before = task.cancelling() if task is not None else 0
    try:
        return Response(request.id, await result)
    except ProtocolError as error:
        return ErrorResponse(request.id, error.to_error())
    except BaseException as error:  # also SystemExit and KeyboardInterrupt: a handler must not end the server
        if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > before:
            raise
        # The traceback is for the operator. The peer learns nothing about our internals.
        log.exception("the handler of %s failed", request.method)
        return ErrorResponse(request.id, Error(INTERNAL_ERROR, "Internal error"))


def writable(response: Message | Malformed) -> Message:
    """Return the response, or an error response if JSON cannot hold its result."""
    assert isinstance(response, (Response, ErrorResponse))
    try:
        encode(response)
    except (ValueError, TypeError, RecursionError) as error:
        log.error("the response to request %r cannot be written as JSON: %s", response.id, error)
        text = "Internal error: the result cannot be written as JSON"
        return ErrorResponse(response.id, Error(INTERNAL_ERROR, text))
    return response
