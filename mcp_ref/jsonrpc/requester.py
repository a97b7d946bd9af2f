"""The requests that we send, in a table that holds each one until its response arrives.

    request() -> id, table entry -> Transport.send ... settle(id, result) -> the caller gets the result
    batch()   -> the requests of several calls are sent as one JSON array

A sender SHOULD set a time limit for each request, because a silent peer would otherwise block the caller forever. Since
2025-03-26, it SHOULD also cancel the request when the limit ends. It MAY restart the limit when progress is reported,
but then SHOULD enforce a maximum time, because progress can be endless. [2025-11-25 basic/lifecycle#timeouts]

Spec:  basic/index#messages; basic/lifecycle#timeouts (2025-03-26 to 2025-11-25); 2026-07-28
       basic/patterns/cancellation#timeouts; 2025-03-26 basic/index#batching
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from functools import cached_property
from typing import Final, Protocol

from ..lib.shares import Shares
from ..lib.slots import Slots
from ..lib.time_limits import TimeLimit, TimeLimits
from .errors import ConnectionClosed, InvalidMessage, McpError, RequestTimeout, UnrecognizedReply
from .messages import MAX_BATCH, Batch, Malformed, Object, Outgoing, Request, RequestFailure, RequestId

log = logging.getLogger(__name__)

MAX_WARNINGS: Final = 100
"""Maximum number of warnings about one peer's faults, which could fill the log. Later ones have the level DEBUG."""


class MessageTransport(Protocol):
    """The methods of a transport that the dispatcher calls.

    `related` is the id of the peer's request to which a message belongs: over HTTP, it goes on that request's stream.
    """

    shares_and_caller: tuple[Shares, str] | None = None
    """The shares that count the memory of the peer's requests, and their caller; None if each session has its own."""

    def send(self, message: Outgoing, related: RequestId | None = None) -> None:
        """Queue one message. Raise ValueError, TypeError or RecursionError if the message has no JSON form."""

    def round_trip(self, request: Request) -> Awaitable[None] | None:
        """Return a coroutine that sends a request, and delivers the messages of the peer up to the response.

        The caller awaits it, so cancelling the caller ends the round trip. Return None if all requests use `send`.
        """
        return None

    async def drain(self, related: RequestId | None = None) -> None:
        """Wait until the peer has read most of the queued messages."""

    def pause_reading(self) -> None:
        """Deliver no more received messages until `resume_reading` is called."""

    def resume_reading(self) -> None: ...

    def end_without_response(self, related: RequestId) -> None:
        """Close the stream of the cancelled request `related`. Do nothing if all requests share one stream."""
        return None


class Pending:
    """A request that we sent and that has no response yet."""

    def __init__(self, method: str, limit: TimeLimit, on_progress: Callable[[object], None] | None) -> None:
        self.method = method
        self.limit = limit  # restarted by progress notifications
        self.on_progress = on_progress
        self.outcome: Object | Exception | None = None  # the result, or the error to raise, once one has come
        self.obstacle = "it was not sent, because the peer has not yet accepted or answered earlier messages"
        """A likely reason why no response comes, for the error of a timeout; "" if nothing is known."""
        self.arrival: asyncio.Future[None] | None = None  # done when `outcome` is set; the caller waits for it
        self.in_round_trip = False  # True while the caller runs a `round_trip` instead

    def end(self, outcome: Object | Exception) -> None:
        """Return a result to the caller, or raise an error in it, unless an earlier one has come."""
        if self.outcome is not None:
            return
        self.outcome = outcome
        if self.in_round_trip:
            self.limit.interrupt()  # does nothing if the round trip itself has called `end`
        if self.arrival is not None and not self.arrival.done():
            self.arrival.set_result(None)

    def timeout_error(self, timeout: float | None, max_timeout: float | None) -> RequestTimeout:
        obstacle = f"; {self.obstacle}" if self.obstacle else ""
        seconds = max_timeout if self.limit.end == self.limit.deadline else timeout
        return RequestTimeout(f"{self.method}: no response within {seconds} seconds{obstacle}")


class _UnsentBatch:
    """The requests that one `batch` call has collected and not yet sent."""

    def __init__(self, unfinished: int) -> None:
        self.unfinished = unfinished  # number of calls that can still add a request
        self.requests: dict[RequestId, Request] = {}


class Requester:
    """The table of the requests that we send through one transport. Call its methods on the transport's event loop.

    When a caller stops waiting, `on_abandoned(id, reason)` is called, so that the session can cancel the request.
    """

    def __init__(
        self, transport: MessageTransport, on_abandoned: Callable[[RequestId, str], None], max_pending: int
    ) -> None:
        self.pending: dict[RequestId, Pending] = {}
        self._transport = transport
        self._on_abandoned = on_abandoned
        self._max_pending, self._last_id = max_pending, 0
        self._closing_error: McpError | None = None  # why the connection has ended; raised in all later callers
        self.warnings_left = MAX_WARNINGS
        self._batches: dict[asyncio.Task[object] | None, _UnsentBatch] = {}  # asyncio task of a call -> its batch

    @cached_property  # made at its first use, as `_slots` is, because most servers send no requests
    def time_limits(self) -> TimeLimits:
        return TimeLimits()

    @cached_property
    def _slots(self) -> Slots:
        return Slots(self._max_pending)

    async def request(
        self, method: str, params: Object, timeout: float | None, max_timeout: float | None = None,
        on_progress: Callable[[object], None] | None = None, related: RequestId | None = None,
        before_send: Callable[[RequestId], None] | None = None,
    ) -> Object:  # fmt: skip
        """Send a request and return its result.

        Args:
            timeout: time limit from this call to the response, in seconds; None for no limit.
            max_timeout: total time limit in seconds. If given, each progress notification restarts `timeout`.
            on_progress: called for each progress notification. If given, the request's id is its progress token.
            related: id of the peer's request whose handler sends this request; None outside of handlers.
            before_send: called with the id of this request, before it is sent.
        Raises RemoteError, RequestTimeout, ConnectionClosed, or InvalidMessage for a malformed response.
        """
        pending = Pending(method, self.time_limits.timeout(timeout, max_timeout), on_progress)
        slots, has_slot, id, batch = self._slots, False, None, None
        cancel_reason = ""  # set when the caller leaves without an outcome
        try:
            with pending.limit:
                if not slots.take_now():
                    self._leave_batch(asyncio.current_task())  # because requests of this batch may use the slots
                    await slots.take()
                has_slot = True
                await self._transport.drain(related)  # do not pile up messages for a peer that does not read
                if self._closing_error is not None:
                    raise self._closing_error.with_traceback(None)  # the traceback belongs to another caller
                id = self._last_id = self._last_id + 1
                self.pending[id], pending.obstacle = pending, ""
                if on_progress is not None:
                    meta = params.get("_meta")
                    # [2025-11-25 basic/utilities/progress#progress-flow] tokens MUST be unique, as our ids are
                    params = {**params, "_meta": {**(meta if isinstance(meta, dict) else {}), "progressToken": id}}
                if before_send is not None:
                    before_send(id)
                request = Request(id, method, params)
                batch = self._batches.get(asyncio.current_task()) if self._batches else None
                round_trip = None
                if batch is not None:
                    batch.requests[id] = request
                    self._leave_batch(asyncio.current_task())
                else:
                    round_trip = self._send_request(request, related)
                if round_trip is not None:
                    pending.in_round_trip = True
                    await round_trip  # usually delivers the response to `settle`, which sets `outcome`
                    pending.in_round_trip = False
                if pending.outcome is None:
                    pending.arrival = asyncio.get_running_loop().create_future()
                    await pending.arrival
        except TimeoutError:
            if pending.outcome is None:  # otherwise it came in time, or has interrupted the round trip
                cancel_reason = "the request timed out"
                raise pending.timeout_error(timeout, max_timeout) from None
        except asyncio.CancelledError:
            cancel_reason = "the caller stopped waiting"
            raise
        finally:
            if has_slot:
                slots.give_back()
            if id is not None:
                self._forget(id, batch, cancel_reason)
        assert pending.outcome is not None
        if isinstance(pending.outcome, Exception):
            raise pending.outcome.with_traceback(None)  # several callers may raise the same object (`fail_pending`)
        return pending.outcome

    def _forget(self, id: RequestId, batch: _UnsentBatch | None, cancel_reason: str) -> None:
        was_unsent = batch is not None and batch.requests.pop(id, None) is not None
        try:
            if cancel_reason and not was_unsent:
                self._on_abandoned(id, cancel_reason)
        finally:
            del self.pending[id]

    async def batch(self, *calls: Coroutine[object, object, object]) -> list[object]:
        """Run several calls, and send their first requests as one array. [2025-03-26 basic/index#batching]

        Return each call's result or exception, in the order of the calls. The array is sent as soon as every call has
        made a request, waits for a slot, or has ended. Later requests are sent separately, and so are the requests of
        other asyncio tasks that a call starts. Raise ValueError for more than `MAX_BATCH` calls.
        """
        if len(calls) > MAX_BATCH:
            for call in calls:
                call.close()
            raise ValueError(f"a batch must have at most {MAX_BATCH} calls, got {len(calls)}")
        batch = _UnsentBatch(len(calls))
        tasks = [asyncio.Task(call) for call in calls]  # never eager tasks, which would send before they join `batch`
        for task in tasks:
            self._batches[task] = batch
            task.add_done_callback(self._leave_batch)
        try:
            return await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            for task in tasks:
                task.cancel()

    def _send_request(self, request: Request, related: RequestId | None) -> Awaitable[None] | None:
        """Send a request, or return the round trip that sends it."""
        try:
            round_trip = self._transport.round_trip(request)
            if round_trip is None:
                self._transport.send(request, related)
            return round_trip
        except (ValueError, TypeError, RecursionError) as error:
            error.add_note(f"{request.method} was not sent, because its params must be JSON")
            raise

    def _leave_batch(self, task: asyncio.Task[object] | None) -> None:
        """Count a call that adds no further request to its batch. After the last call, send the array."""
        batch = self._batches.pop(task, None)
        if batch is None:
            return
        batch.unfinished -= 1
        if batch.unfinished or not batch.requests:
            return
        requests, batch.requests = list(batch.requests.values()), {}
        try:
            self._transport.send(Batch([*requests]))
        except (ValueError, TypeError, RecursionError):  # at least one has no JSON form, so send them one by one
            for request in requests:
                try:
                    self._transport.send(request)
                except (ValueError, TypeError, RecursionError) as error:
                    self.pending[request.id].end(error)

    def settle(self, id: RequestId | None, outcome: Object | Exception) -> None:
        """Return a result to the caller that waits for the response `id`, or raise an error in it, if there is one."""
        pending = self._pending_request(id)
        if pending is not None and pending.outcome is None:
            pending.end(outcome)
        else:
            level = logging.WARNING if id is None else logging.DEBUG
            log.log(level, "ignored the response with id %.80r, for which no request waits: %.200r", id, outcome)

    def fail(self, failure: Malformed | RequestFailure) -> bool:
        """Fail a request whose response is malformed or will not come. Return False if no caller waits for it."""
        pending = self._pending_request(failure.id)
        if pending is None or pending.outcome is not None:
            if isinstance(failure, Malformed):
                for waiting in self.pending.values():  # we cannot tell which of them waits for this response
                    waiting.obstacle = f"the peer sent an unusable response: {failure.error.message}"
            return False
        if isinstance(failure, Malformed):
            pending.end(InvalidMessage(f"{pending.method}: {failure.error.message}"))
        elif failure.error is not None:
            pending.end(failure.error)
        else:
            kind = UnrecognizedReply if failure.unrecognized_reply else ConnectionClosed
            error = kind(f"{pending.method}: {failure.reason}")
            error.is_unsent, error.http_status = failure.unsent, failure.http_status
            pending.end(error)
        return True

    def log_fault(self, text: str, *arguments: object) -> None:
        """Log a fault of the peer that has no other effect, as a warning unless there were too many already."""
        log.log(logging.WARNING if self.warnings_left > 0 else logging.DEBUG, text, *arguments)
        self.warnings_left -= 1

    def _pending_request(self, id: RequestId | None) -> Pending | None:
        """Return the request that waits for the response `id`. Some peers send `"1"` in response to `1`."""
        if id is None:  # an error whose id the peer could not read
            return None
        pending = self.pending.get(id)
        if pending is None and isinstance(id, str) and id.isascii() and id.isdigit() and len(id) < 16:
            pending = self.pending.get(int(id))
            if pending is not None:
                self.log_fault("the peer sent the id %r as a string in its response to %s", id, pending.method)
        return pending

    def waits_for(self, id: RequestId) -> bool:
        pending = self._pending_request(id)
        return pending is not None and pending.outcome is None

    def fail_pending(self, error: McpError) -> None:
        """Raise `error` in all waiting callers and all future callers, because the connection has ended."""
        self._closing_error = error
        for pending in self.pending.values():
            pending.end(error)
