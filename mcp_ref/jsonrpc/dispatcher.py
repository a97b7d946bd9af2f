"""The dispatcher of one connection: pairs requests with responses, in both directions. It knows no method names.

    the peer's request  -> receive() -> a task runs serve(request) -> Response | ErrorResponse -> Transport.send
    our request         -> request() -> Transport.send ... receive(Response) -> the caller gets the result

A fast peer must not fill our memory, so it gets at most `Limits.max_in_flight` slots for requests. When all are used,
the transport stops reading, and the peer's own buffers fill. If no slot becomes free within `Limits.patience` seconds,
reading continues and further requests are refused. Without that, a cancellation behind them could never free a slot.

Spec:  basic/index#messages; 2025-03-26 basic/index#batching; JSON-RPC 2.0
Above: `session.py` gives it `serve` and `on_notification`. Below: `requester.py` has the table of our requests.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field

from .errors import ConnectionClosed, McpError, ProtocolError
from .messages import (
    INTERNAL_ERROR,
    JSON,
    Batch,
    Error,
    ErrorResponse,
    Incoming,
    Malformed,
    Message,
    Notification,
    Object,
    Request,
    RequestFailure,
    RequestId,
    Response,
    encode,
    invalid_request,
    is_request_id,
)
from .requester import Requester, Transport

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Limits:
    """The bounds of one connection, in both directions."""

    max_in_flight: int = 256
    """Maximum number of the peer's requests that are served at a time."""
    patience: float = 1.0
    """Time that reading pauses when all slots are used, in seconds. Then reading goes on, and requests are refused."""
    max_pending: int = 1024
    """Maximum number of our requests that wait for a response. Further callers wait for a slot."""


@dataclass(slots=True)
class _ActiveRequest:
    """A request of the peer that is being served."""

    task: asyncio.Task[None] | None = None
    running: bool = False
    cancelled: bool = False

    def stop(self) -> None:
        """Cancel the task if it has begun. Else only set a flag: a cancelled new task would never leave the table."""
        self.cancelled = True
        if self.running and self.task is not None:
            self.task.cancel()


@dataclass(slots=True)
class _ReceivedBatch:
    """The responses to one received batch. They are sent as one array when no member is `open` any more."""

    unfinished: int
    related: RequestId | None
    """Id of the first request. A transport with several streams finds the stream of the batch by it."""
    responses: list[Message | Malformed] = field(default_factory=list)


class Dispatcher(Requester):
    """The requests of both directions of one connection. Call its methods on the connection's event loop.

    `serve` serves a request of the peer: it returns the result, or raises `ProtocolError`. `on_notification` takes the
    peer's notifications, in order, without waiting. `on_abandoned` is called when a caller of ours stops waiting.
    """

    def __init__(
        self,
        transport: Transport,
        serve: Callable[[Request], Awaitable[Object]],
        on_notification: Callable[[Notification], None],
        on_abandoned: Callable[[RequestId, str], None],
        limits: Limits | None = None,
    ) -> None:
        self._limits = limits or Limits()
        super().__init__(transport, on_abandoned, self._limits.max_pending)
        self.accepts_batches = False
        """True if a frame may be an array (`Revision.batch`)."""
        self.unbatchable: frozenset[str] = frozenset()
        """Methods that must not be part of a batch."""
        self.omits_unknown_ids = False
        """True if an error for an unreadable request has no `id` (`Revision.error_id_optional`); else it is null."""
        self.reports_unreadable = True
        """True if a message without a readable id gets an error response. Else it is only logged."""
        self.may_respond = True
        """False if the peer must not be sent responses: its requests are ignored."""
        self._serve = serve
        self._on_notification = on_notification
        self._serving: dict[RequestId, _ActiveRequest] = {}
        self._tasks: set[asyncio.Task[None]] = set()  # the used slots: requests, and errors that the peer has not read
        self._pause_timer: asyncio.TimerHandle | None = None
        self._closed = False

    def receive(self, incoming: Incoming) -> None:
        """Take the content of one frame from the transport. Never raises, never waits, does nothing once closed."""
        if self._closed:
            return
        match incoming:
            case Batch():
                self._receive_batch(incoming)
            case RequestFailure():
                self.fail(incoming)
            case _:
                self._receive_one(incoming, None)

    def _receive_one(self, message: Message | Malformed, batch: _ReceivedBatch | None) -> None:
        match message:
            case Request() if self.may_respond:
                self._accept(message, batch)
            case Notification():
                try:
                    self._on_notification(message)
                except Exception:
                    log.exception("the handler of %s failed", message.method)
            case Response() | ErrorResponse():
                self.settle(message)
            case Malformed() if message.is_response or self.may_respond:
                self._refuse(message, batch)
            case _:
                log.warning("ignored a request that the peer must not send in this revision: %.200r", message)

    def _receive_batch(self, batch: Batch) -> None:
        if not self.accepts_batches:
            # [2025-06-18 changelog#major-changes] batching was removed; only 2025-03-26 has it
            return self._refuse(invalid_request("only revision 2025-03-26 has batches; send one message"), None)
        is_reply = any(isinstance(member, (Response, ErrorResponse)) for member in batch.messages)
        first = next((member.id for member in batch.messages if isinstance(member, Request)), None)
        received = _ReceivedBatch(
            unfinished=1, related=first
        )  # 1 for this loop: the array waits until all members are read
        for member in batch.messages:
            if isinstance(member, Request) and is_reply:
                # [2025-03-26 schema] an array holds requests and notifications, or responses, never both
                member = invalid_request("a batch of responses holds no request", member.id)
            elif isinstance(member, Request) and member.method in self.unbatchable:
                # [2025-03-26 basic/lifecycle#initialization] initialize MUST NOT be part of a JSON-RPC batch
                member = invalid_request(f"{member.method} must not be part of a batch", member.id)
            self._receive_one(member, received)
        self._finish_member(received)
        if received.unfinished == 0 and received.responses:  # none of its members is served
            self._hold_slot()

    def _accept(self, request: Request, batch: _ReceivedBatch | None) -> None:
        """Start to serve a request, if its id is unused and a slot is free."""
        if request.id in self._serving:
            # [2025-11-25 basic/index#requests] MUST NOT have been used: else a response or cancellation is ambiguous.
            # Ids of finished requests are not remembered: that table would grow with the session.
            rule = f"a request with id {request.id!r} is still in flight"
            return self._refuse(invalid_request(rule, request.id), batch)
        if len(self._tasks) >= self._limits.max_in_flight:
            text = f"too many requests in flight (at most {self._limits.max_in_flight}); retry later"
            return self._refuse(Malformed(Error(INTERNAL_ERROR, text), request.id), batch)
        if batch is not None:
            batch.unfinished += 1
        entry = self._serving[request.id] = _ActiveRequest()
        entry.task = self._run_in_slot(self._run(request, entry, batch))

    async def _run(self, request: Request, entry: _ActiveRequest, batch: _ReceivedBatch | None) -> None:
        """Serve one request and send its response. The slot is held until the peer has read the response."""
        response: Message | None = None
        entry.running = True
        if not entry.cancelled:
            try:
                response = await respond(request, self._serve(request))
            except asyncio.CancelledError:
                # [2025-11-25 basic/utilities/cancellation#behavior-requirements] no response for a cancelled request
                response = None
        del self._serving[request.id]
        if entry.cancelled or self._closed:
            response = None
        try:
            if batch is not None:
                self._finish_member(batch, response)
            elif response is not None:
                self._send(response, request.id)
            else:
                self._transport.end_without_response(request.id)
            await self._transport.drain(request.id)
        except asyncio.CancelledError:
            pass  # the response is queued already

    def _refuse(self, malformed: Malformed, batch: _ReceivedBatch | None) -> None:
        """Respond with an error to an invalid message. An invalid response ends the wait of its request instead."""
        if malformed.is_response or (malformed.id is None and not self.reports_unreadable):
            if not self.fail(malformed):
                log.warning("ignored an invalid JSON-RPC message: %s", malformed.error.message)
            return
        response = ErrorResponse(malformed.id, malformed.error, self.omits_unknown_ids)
        if batch is None:
            self._send(response, malformed.id)
            self._hold_slot()
        else:
            batch.unfinished += 1
            self._finish_member(batch, response)

    def _send(self, message: Message | Batch, related: RequestId | None) -> None:
        try:
            self._transport.send(message, related)
        except (ValueError, TypeError, RecursionError):  # JSON cannot hold the result, or one member of the batch
            if isinstance(message, Batch):
                self._transport.send(Batch([writable(member) for member in message.messages]), related)
            else:
                self._transport.send(writable(message), related)

    def _finish_member(self, batch: _ReceivedBatch, response: Message | None = None) -> None:
        """Count one member of a batch as done. After the last one, send the array if it holds a response."""
        batch.unfinished -= 1
        if response is not None:
            batch.responses.append(response)
        if batch.unfinished > 0 or self._closed:
            return
        if batch.responses:
            self._send(Batch(batch.responses), batch.related)
        elif batch.related is not None:
            self._transport.end_without_response(batch.related)

    def notify(self, method: str, params: Object, related: RequestId | None = None) -> None:
        """Send a notification. Once closed, drop it: nobody waits for it."""
        if not self._closed:
            self._transport.send(Notification(method, params), related)

    def _hold_slot(self) -> None:
        """Hold a slot until the peer has read an error. A peer that sends garbage must not fill our buffer."""
        if len(self._tasks) < self._limits.max_in_flight:
            self._run_in_slot(self._transport.drain())
        else:
            self._pause()

    def _run_in_slot(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        """Run a coroutine in a slot. If no slot is free after that, pause reading."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._resume)
        if len(self._tasks) >= self._limits.max_in_flight:
            self._pause()
        return task

    def _pause(self) -> None:
        self._transport.pause_reading()
        if self._pause_timer is None:
            self._pause_timer = asyncio.get_running_loop().call_later(self._limits.patience, self._resume)

    def _resume(self, done: asyncio.Task[None] | None = None) -> None:
        if done is not None:
            self._tasks.discard(done)
        if self._pause_timer is not None:
            self._pause_timer.cancel()
            self._pause_timer = None
            self._transport.resume_reading()

    def cancel(self, id: JSON) -> bool:
        """Stop serving the peer's request `id`, which gets no response. Return False if it is not being served."""
        entry = self._serving.get(id) if is_request_id(id) else None
        if entry is not None:
            entry.stop()
        return entry is not None

    def is_serving(self, id: RequestId) -> bool:
        """Return True if the peer's request `id` still waits for its response."""
        entry = self._serving.get(id)
        return entry is not None and not entry.cancelled

    async def finish(self, grace: float) -> None:
        """Wait until all served requests have ended, for at most `grace` seconds."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=grace)

    async def close(self, reason: McpError | None = None, grace: float = 0.5) -> None:
        """End all waits with `reason`, stop all handlers, and wait `grace` seconds for them to stop."""
        if not self._closed:
            self._closed = True
            if self._pause_timer is not None:
                self._pause_timer.cancel()
                self._pause_timer = None
            self.fail_pending(reason or ConnectionClosed("the connection was closed"))
        others = self._tasks - {asyncio.current_task()}
        serving = {entry.task: entry for entry in self._serving.values()}
        for task in others:
            if task in serving:
                serving[task].stop()
            else:  # its response waits to be read
                task.cancel()
        if others:
            _, stuck = await asyncio.wait(others, timeout=grace)
            if stuck:
                log.warning("%d request handlers ignored their cancellation", len(stuck))


async def respond(request: Request, result: Awaitable[Object]) -> Response | ErrorResponse:
    """Await a handler's result, and return the response to its request. Every failure becomes an error response.

    Raise CancelledError if the current task was cancelled. A handler that raises it on its own has failed.
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
