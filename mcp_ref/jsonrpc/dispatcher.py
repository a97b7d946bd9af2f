"""The dispatcher of one transport, which serves the peer's requests and matches its responses to our requests.

    the peer's request -> receive() -> a task runs serve(request) -> Response | ErrorResponse -> Transport.send

A peer that sends many requests must not fill our memory. So there are `Limits.max_in_flight` slots, and each request
uses one until the peer has read the response. When all are used, further requests wait (request_queue.py). Because even
a few requests can be very large, their estimated memory is limited too (lib/shares.py).

Spec:  basic/index#messages; 2025-03-26 basic/index#batching; JSON-RPC 2.0
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sized
from contextvars import Context, copy_context
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from ..lib.fields import CheckedFields
from ..lib.shares import ShareExceeded, Shares
from ..lib.turns import turn_for
from .errors import ConnectionClosed, McpError, RemoteError
from .failures import error_response, log_notification_failure, writable_response
from .messages import (
    INTERNAL_ERROR,
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
    invalid_request,
    is_request_id,
)
from .request_queue import RequestQueue
from .requester import MessageTransport, Requester

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Limits(CheckedFields):
    """The limits of one connection."""

    max_in_flight: int = 256
    """Maximum number of the peer's requests that are served at the same time. As many again can wait."""
    patience: float = 1.0
    """Time in seconds after which all waiting requests are refused if no served request has ended."""
    max_bytes_in_flight: int = 512 * 1024 * 1024
    """Maximum memory of the peer's requests in flight, in bytes (512 MiB). Over HTTP, see `EndpointLimits` instead."""
    max_pending: int = 1024
    """Maximum number of our requests that wait for a response. Further callers wait until one has ended."""


DEFAULT_LIMITS: Final = Limits()  # for each connection that sets none of its own


class _ActiveRequest:
    def __init__(self, got_slot: asyncio.Future[bool] | None) -> None:
        self.got_slot = got_slot  # the result of `RequestQueue.add`; None if a slot was free at once
        self.task: asyncio.Task[None] | None = None  # runs `Dispatcher._run`
        self.running = False  # True as soon as the first line of `_run` has run
        self.cancelled = False

    def stop(self) -> None:
        """Cancel the request. If its task has not begun, only set a flag, because `_run` must still free the id."""
        self.cancelled = True
        if self.running and self.task is not None:
            self.task.cancel()


class _ReceivedBatch:
    """The responses to one received batch, which are sent as one array when no member is `unfinished`."""

    def __init__(self, related: RequestId | None) -> None:
        self.related = related  # id of the first request in the batch, on whose stream the array is sent
        self.unfinished = 1  # starts at 1, so that nothing is sent while the loop over the members runs
        self.responses: list[Message | Malformed] = []


class Dispatcher(Requester):
    """The requests of one transport, the peer's and ours. Call its methods on the transport's event loop.

    `serve` returns the result of a request, or raises `ProtocolError`. `on_notification` gets notifications in order.
    """

    def __init__(
        self, transport: MessageTransport, serve: Callable[[Request], Awaitable[Object]],
        on_notification: Callable[[Notification], None], on_abandoned: Callable[[RequestId, str], None],
        limits: Limits | None = None,
    ) -> None:  # fmt: skip
        self._limits = limits or DEFAULT_LIMITS
        super().__init__(transport, on_abandoned, self._limits.max_pending)
        self.accepts_batches = False  # True if the peer can send batches (`Revision.batch`)
        self.unbatchable: frozenset[str] = frozenset()  # methods whose requests MUST NOT be part of a batch
        self.blocking_methods: frozenset[str] = frozenset()  # later messages wait for the responses to these
        self.omits_unknown_ids = False  # True to omit an unreadable `id` in the error response, False to send null
        self.reports_unreadable = True  # True to send an error for an id that is unreadable or in use, False to log it
        self.may_respond = True  # False if this side must not send responses, so that the peer's requests are ignored
        self._serve = serve
        self._on_notification = on_notification
        self.serving: dict[RequestId, _ActiveRequest] = {}  # the peer's requests that have no response yet, by id
        limit = self._limits.max_bytes_in_flight  # of the connection, and of its only caller, here ""
        self._shares, self._caller = transport.shares_and_caller or (Shares("requests in flight", limit, limit), "")
        self._tasks: set[asyncio.Task[None]] = set()  # one task for each used slot, and for each waiting request
        self._held: list[tuple[Incoming, Context]] | None = None  # received while a blocking method is served
        self._closed = False

    @cached_property  # because few connections ever need the queue
    def _queue(self) -> RequestQueue:
        slots, patience = self._limits.max_in_flight, self._limits.patience
        return RequestQueue(slots, patience, self._transport, self._tasks, self.serving)

    def receive(self, incoming: Incoming) -> None:
        """Handle the content of one received frame, without waiting. Do nothing after `close`."""
        if self._closed:
            return
        if self._held is not None:
            self._held.append((incoming, copy_context()))  # over HTTP, the context says which caller sent it
            if self._must_pause_for(self._held):
                self._transport.pause_reading()
            return
        self._receive_one(incoming, None)

    def _receive_one(self, message: Incoming, batch: _ReceivedBatch | None) -> None:
        if isinstance(message, Request) and self.may_respond:
            self._accept(message, batch)
        elif isinstance(message, Response):
            self.settle(message.id, message.result)
        elif isinstance(message, ErrorResponse):
            self.settle(message.id, RemoteError(message.error.code, message.error.message, message.error.data))
        elif isinstance(message, Notification):
            try:
                self._on_notification(message)
            except BaseException as error:  # including CancelledError, because the next messages must be received
                log_notification_failure(message.method, error)
        elif isinstance(message, Batch):
            self._receive_batch(message)
        elif isinstance(message, RequestFailure):
            self.fail(message)
        elif isinstance(message, Malformed) and (message.expects_no_response or self.may_respond):
            self._refuse(message, batch)
        else:
            self.log_fault("ignored a request: servers must not send requests in this revision: %.200r", message)

    def _receive_batch(self, batch: Batch) -> None:
        responses = [member for member in batch.messages if isinstance(member, (Response, ErrorResponse))]
        if not self.accepts_batches:
            # [2025-06-18 changelog#major-changes] only 2025-03-26 has batches
            refusal = invalid_request("only revision 2025-03-26 has batches; send each message alone")
            malformed = [each for each in batch.messages if isinstance(each, Malformed) and each.expects_no_response]
            for response in (*responses, *malformed):  # our requests with these ids get no other response, so they fail
                self.fail(Malformed(refusal.error, response.id, expects_no_response=True))
            return self._refuse(refusal, None)
        received = _ReceivedBatch(next((member.id for member in batch.messages if isinstance(member, Request)), None))
        for member in batch.messages:
            if isinstance(member, Request) and responses:
                # [2025-03-26 schema] an array has either requests and notifications, or responses
                member = invalid_request("a batch must not have both requests and responses", member.id)
            elif isinstance(member, Request) and member.method in self.unbatchable:
                # [2025-03-26 basic/lifecycle#initialization] initialize MUST NOT be part of a JSON-RPC batch
                member = invalid_request(f"{member.method} must not be part of a batch", member.id)
            self._receive_one(member, received)
        self._finish_member(received)
        if received.unfinished == 0 and received.responses:  # all members were refused, so none of them uses a slot
            self._hold_slot()

    def _accept(self, request: Request, batch: _ReceivedBatch | None) -> None:
        """Start to serve a request, or let it wait for a slot. Refuse it if its id is in use."""
        if request.id in self.serving:
            # [2025-11-25 basic/index#requests] the id MUST be new in the session. It is compared only with those of
            # unfinished requests, because a table of all earlier ids would grow forever.
            if not self.reports_unreadable:  # a proxy may have sent it twice; an error would end the first one
                return self.log_fault("ignored a request with the id of another unfinished one: %.200r", request)
            rule = f"the id {request.id!r} belongs to another unfinished request; use a new id"
            return self._refuse(invalid_request(rule, request.id), batch)
        # A method of `blocking_methods` never waits, because it can cancel the very requests that use the slots.
        must_wait = len(self._tasks) >= self._limits.max_in_flight and request.method not in self.blocking_methods
        if must_wait and self._queue.is_full:  # the request is part of a batch, or the transport could not stop reading
            return self._refuse(Malformed(self._no_slot_error(), request.id), batch)
        try:
            self._shares.take(self._caller, request.memory)
        except ShareExceeded as error:
            return self._refuse(Malformed(Error(INTERNAL_ERROR, f"{error}; retry later"), request.id), batch)
        if batch is not None:
            batch.unfinished += 1
        if request.method in self.blocking_methods:
            self._held = []
        got_slot = self._queue.add(request.id) if must_wait else None
        entry = self.serving[request.id] = _ActiveRequest(got_slot)
        # Not an eager task, so that handlers that were cancelled earlier see that before this handler starts.
        entry.task = asyncio.Task(self._run(request, entry, batch), name=request.method)
        self._use_slot(entry.task)

    async def _run(self, request: Request, entry: _ActiveRequest, batch: _ReceivedBatch | None) -> None:
        """Serve one request and send its response, then wait until the peer has read it."""
        response: Message | None = None
        entry.running = True
        if not entry.cancelled:
            try:
                if entry.got_slot is None or await entry.got_slot:
                    result = await self._serve(request)
                    if (turn := turn_for(result)) is not None:  # large messages are sent in turns
                        await turn
                    response = Response(request.id, result)
                else:
                    response = ErrorResponse(request.id, self._no_slot_error())
            except BaseException as error:  # including SystemExit, because a handler must not end the server
                response = error_response(request, error, entry.cancelled or self._closed)
        del self.serving[request.id]
        if entry.got_slot is not None:
            self._queue.remove(request.id)
        if entry.cancelled or self._closed:
            response = None
        try:
            if batch is not None:
                self._finish_member(batch, response)
            elif response is not None:
                self._send(response, request.id)
            else:
                self._transport.end_without_response(request.id)
            if request.method in self.blocking_methods:
                self._receive_held()
            await self._transport.drain(request.id)
        except asyncio.CancelledError:
            pass  # nothing is lost, because the transport has queued the response already
        finally:
            self._shares.give_back(self._caller, request.memory)
            self._free_slot(entry.task)  # here, because a done callback would cost another turn of the event loop

    def _no_slot_error(self) -> Error:
        return Error(INTERNAL_ERROR, f"at most {self._limits.max_in_flight} requests are served together; retry later")

    def _must_pause_for(self, held: Sized) -> bool:
        return len(held) >= self._limits.max_in_flight - 1  # one slot is used by the request that they wait for

    def _receive_held(self) -> None:
        held, self._held = self._held or [], None
        if self._must_pause_for(held):  # then `receive` has paused reading
            self._transport.resume_reading()
        for incoming, context in held:
            context.run(self.receive, incoming)

    def _refuse(self, malformed: Malformed, batch: _ReceivedBatch | None) -> None:
        """Respond to an invalid request. For an invalid response, raise an error in the waiting caller, or log it."""
        if malformed.expects_no_response or (malformed.id is None and not self.reports_unreadable):
            if not self.fail(malformed):  # no caller of ours waits for it
                text, advice = malformed.text, "if a `print` in the server wrote this, print to standard error"
                why = f"{text!r}; {advice}" if text else malformed.error.message
                self.log_fault("ignored an invalid JSON-RPC message: %s", why)
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
        except (ValueError, TypeError, RecursionError):  # a result has no JSON form
            if isinstance(message, Batch):
                self._transport.send(Batch([writable_response(member) for member in message.messages]), related)
            else:
                self._transport.send(writable_response(message), related)

    def _finish_member(self, batch: _ReceivedBatch, response: Message | None = None) -> None:
        """Count a finished member of a batch. After the last one, send the array of responses."""
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
        if not self._closed:
            self._transport.send(Notification(method, params), related)

    def _hold_slot(self) -> None:
        """Use a slot until the peer has read an error, because a peer that sends only garbage could fill our buffer."""
        if not self._queue.is_full:  # if it is full, the transport was told to stop reading
            task = asyncio.get_running_loop().create_task(self._transport.drain())
            task.add_done_callback(self._free_slot)
            self._use_slot(task)

    def _use_slot(self, task: asyncio.Task[None]) -> None:
        if not task.done():  # done already if the loop's task factory is eager
            self._tasks.add(task)
        if len(self._tasks) >= self._limits.max_in_flight:
            self._queue.pause_if_full()

    def _free_slot(self, task: asyncio.Task[None] | None) -> None:
        were_all_used = len(self._tasks) >= self._limits.max_in_flight
        self._tasks.discard(task)
        if were_all_used:
            self._queue.give_free_slots()

    def cancel(self, id: object) -> bool:
        """Stop serving the peer's request `id`, and send no response. Return False if it is not being served."""
        entry = self.serving.get(id) if is_request_id(id) else None
        if entry is not None:
            entry.stop()
        return entry is not None

    def cancel_others(self, id: RequestId) -> None:
        for other, entry in self.serving.items():
            if other != id:
                entry.stop()

    def is_serving(self, id: RequestId) -> bool:
        entry = self.serving.get(id)
        return entry is not None and not entry.cancelled

    async def finish(self, grace: float) -> None:
        """Wait at most `grace` seconds until each of the peer's requests has ended, and its response is read."""
        loop = asyncio.get_running_loop()
        end = loop.time() + grace
        while self._tasks and (left := end - loop.time()) > 0:
            await asyncio.wait(self._tasks, timeout=left)

    async def close(self, reason: McpError | None = None, grace: float = 0.5) -> None:
        """Raise `reason` in all waiting callers, cancel all handlers, and give them `grace` seconds to end."""
        if not self._closed:
            self._closed = True
            self._queue.close()
            self.fail_pending(reason or ConnectionClosed("the connection was closed"))
            self.time_limits.close()
        others = self._tasks - {asyncio.current_task()}
        serving = {entry.task: entry for entry in self.serving.values()}
        for task in others:
            if task in serving:
                serving[task].stop()
            else:  # it only waits for the peer to read
                task.cancel()
        if others:
            _, stuck = await asyncio.wait(others, timeout=grace)
            if stuck:
                log.warning("the connection is closed, but cancelled request handlers still run: %d", len(stuck))
