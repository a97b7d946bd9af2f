"""The requests that we send: each waits in a table until its response arrives or its wait ends.

    request() -> id, table entry -> Transport.send ... settle(Response) -> the caller gets the result
    batch()   -> the requests of several calls leave as one JSON array

A response, the time limit, the caller's cancellation or a lost connection ends the wait. Late responses are ignored.

Each request SHOULD have a time limit, or a silent peer would block its caller. At its end the sender SHOULD cancel the
request. Progress MAY restart the limit, up to a maximum (SHOULD): else a peer could block the caller by progress alone.
2024-11-05 only asks for time limits; 2025-03-26 added the rest. [2025-11-25 basic/lifecycle#timeouts]

Spec:  basic/index#messages; basic/lifecycle#timeouts (2025-03-26 to 2025-11-25); 2026-07-28
       basic/patterns/cancellation#timeouts; 2025-03-26 basic/index#batching
Above: `dispatcher.py` adds the requests that the peer sends. Below: a `Transport` moves the messages.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Protocol

from .errors import ConnectionClosed, InvalidMessage, McpError, RemoteError, RequestTimeout, UnrecognizedReply
from .messages import (
    MAX_BATCH,
    Batch,
    ErrorResponse,
    Malformed,
    Object,
    Outgoing,
    Request,
    RequestFailure,
    RequestId,
    Response,
)

log = logging.getLogger(__name__)


class Transport(Protocol):
    """The sending part of a transport. `related` is the peer's request on whose stream a message is sent."""

    def send(self, message: Outgoing, related: RequestId | None = None) -> None:
        """Queue one message. Raises ValueError, TypeError or RecursionError if JSON cannot hold it."""

    async def drain(self, related: RequestId | None = None) -> None:
        """Wait until the queue of messages that the peer has not read is short."""

    def pause_reading(self) -> None:
        """Deliver no further message until `resume_reading`."""

    def resume_reading(self) -> None: ...

    def end_without_response(self, related: RequestId) -> None:
        """End the stream of the peer's request, which was cancelled. Do nothing if requests have no own streams."""
        return None


@dataclass(slots=True)
class Pending:
    """One of our requests that waits for its response."""

    response: asyncio.Future[Object]
    method: str
    on_progress: Callable[[object], None] | None = None
    timer: asyncio.Timeout | None = None
    timeout: float | None = None
    """Time limit that each progress notification restarts, in seconds."""
    deadline: float | None = None
    """Latest end of the wait, even with progress, in seconds of the event loop's clock."""

    def extend(self) -> None:
        """Restart the time limit, up to the deadline."""
        # [2025-11-25 basic/lifecycle#timeouts] MAY reset the clock on progress, SHOULD enforce a maximum. The timer may
        # have expired already in this turn of the event loop.
        if self.timer and not self.timer.expired() and self.timeout is not None and self.deadline is not None:
            self.timer.reschedule(min(asyncio.get_running_loop().time() + self.timeout, self.deadline))

    def fail(self, error: Exception) -> None:
        """End the wait with an error, unless it has ended."""
        if not self.response.done():
            self.response.set_exception(error)


@dataclass(slots=True)
class _UnsentBatch:
    """The requests of one `batch` call, until the array is sent."""

    unfinished: int
    """Number of calls that have neither made their request nor ended."""
    requests: dict[RequestId, Request] = field(default_factory=dict)


class Requester:
    """The table of our requests on one connection. Call its methods on the connection's event loop.

    `on_abandoned(id, reason)` is called when a caller stops waiting for a request, so that the peer can be told.
    """

    def __init__(self, transport: Transport, on_abandoned: Callable[[RequestId, str], None], max_pending: int) -> None:
        self.pending: dict[RequestId, Pending] = {}
        self._transport = transport
        self._on_abandoned = on_abandoned
        self._ids = itertools.count(1)
        self._slots = asyncio.Semaphore(max_pending)
        self._batches: dict[asyncio.Task[object] | None, _UnsentBatch] = {}  # by the task of a call
        self._no_more_responses: McpError | None = None  # the reason why no request will get a response

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
        """Send a request and return its result.

        Args:
            timeout: seconds to wait for a slot and for the response; None for no limit.
            max_timeout: seconds in all. With it, each progress notification restarts `timeout`.
            on_progress: called for each progress notification. With it, the request has its id as progress token.
            related: the request of the peer that caused this one.
            before_send: called with the request's id.
        Raises RemoteError, RequestTimeout, ConnectionClosed, or InvalidMessage for a malformed response.
        """
        loop = asyncio.get_running_loop()
        now = loop.time()
        end = None if timeout is None else now + timeout
        pending = Pending(loop.create_future(), method, on_progress)
        if max_timeout is not None:
            pending.timeout, pending.deadline = timeout, now + max_timeout
            end = pending.deadline if end is None else min(end, pending.deadline)
        id, batch = None, None
        try:
            async with asyncio.timeout_at(end) as pending.timer, self._slots:
                await self._transport.drain(related)  # before sending: a peer that does not read gets nothing more
                if self._no_more_responses is not None:
                    raise self._no_more_responses.with_traceback(None)  # else every caller's traceback is added to it
                id = next(self._ids)
                self.pending[id] = pending
                if on_progress is not None:
                    meta = params.get("_meta")
                    # [2025-11-25 basic/utilities/progress#progress-flow] unique across active requests, as our id is
                    params = {**params, "_meta": {**(meta if isinstance(meta, dict) else {}), "progressToken": id}}
                if before_send is not None:
                    before_send(id)
                batch = self._send_or_collect(Request(id, method, params), related)
                return await pending.response
        except TimeoutError:
            self._give_up(id, batch, "the request timed out")
            at_deadline = pending.timer is not None and pending.timer.when() == pending.deadline
            seconds = max_timeout if at_deadline else timeout
            raise RequestTimeout(f"{method}: no response within {seconds} seconds") from None
        except asyncio.CancelledError:
            self._give_up(id, batch, "the caller stopped waiting")
            raise
        finally:
            if id is not None:
                del self.pending[id]
                if batch is not None:
                    batch.requests.pop(id, None)
            if not pending.response.cancel() and not pending.response.cancelled():
                pending.response.exception()  # marks it as seen, so that asyncio does not log it

    def _give_up(self, id: RequestId | None, batch: _UnsentBatch | None, reason: str) -> None:
        if id is not None and (batch is None or id not in batch.requests):
            self._on_abandoned(id, reason)  # only a request that was sent

    async def batch(self, *calls: Coroutine[object, object, object]) -> list[object]:
        """Run calls, and send the first request of each in one array. [2025-03-26 basic/index#batching]

        The array is sent when each call has made its request or ended. Requests of tasks that a call starts are sent
        separately. Return each call's result or exception, in order. Raise ValueError for more than `MAX_BATCH` calls.
        """
        if len(calls) > MAX_BATCH:
            for call in calls:
                call.close()
            raise ValueError(f"a batch has at most {MAX_BATCH} calls, not {len(calls)}")
        batch = _UnsentBatch(len(calls))
        tasks = [asyncio.get_running_loop().create_task(call) for call in calls]
        for task in tasks:
            self._batches[task] = batch
            task.add_done_callback(self._leave_batch)
        try:
            return await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            for task in tasks:
                task.cancel()

    def _send_or_collect(self, request: Request, related: RequestId | None) -> _UnsentBatch | None:
        """Send a request, or add it to the batch that the calling task belongs to. Return that batch."""
        task = asyncio.current_task() if self._batches else None
        batch = self._batches.get(task)
        if batch is None:
            self._transport.send(request, related)
        else:
            batch.requests[request.id] = request
            self._leave_batch(task)
        return batch

    def _leave_batch(self, task: asyncio.Task[object] | None) -> None:
        """Count a call as done: it has made its request, or ended. After the last one, send the array."""
        batch = self._batches.pop(task, None)
        if batch is None:
            return
        batch.unfinished -= 1
        if batch.unfinished or not batch.requests:
            return
        requests, batch.requests = list(batch.requests.values()), {}
        try:
            self._transport.send(Batch([*requests]))
        except (ValueError, TypeError, RecursionError):  # JSON cannot hold one of them: send each alone
            for request in requests:
                try:
                    self._transport.send(request)
                except (ValueError, TypeError, RecursionError) as error:
                    self.pending[request.id].fail(error)

    def settle(self, response: Response | ErrorResponse) -> None:
        """Give a response to the caller that waits for it. A late or unknown one is ignored."""
        pending = self.pending.get(response.id) if response.id is not None else None
        if pending is None or pending.response.done():
            level = logging.WARNING if response.id is None else logging.DEBUG
            log.log(level, "ignored a response that no request waits for: %.200r", response)
        elif isinstance(response, Response):
            pending.response.set_result(response.result)
        else:
            error = response.error
            pending.response.set_exception(RemoteError(error.code, error.message, error.data))

    def fail(self, failure: Malformed | RequestFailure) -> bool:
        """End the wait of a request whose response is malformed or will not come. Return False if nobody waits."""
        pending = self.pending.get(failure.id) if failure.id is not None else None
        if pending is None or pending.response.done():
            return False
        if isinstance(failure, Malformed):
            pending.fail(InvalidMessage(f"{pending.method}: {failure.error.message}"))
        else:
            kind = UnrecognizedReply if failure.unrecognized else ConnectionClosed
            pending.fail(kind(f"{pending.method}: {failure.reason}"))
        return True

    def fail_pending(self, error: McpError) -> None:
        """Fail all requests with `error`, also future ones: the peer will send no response any more."""
        self._no_more_responses = error
        for pending in self.pending.values():
            pending.fail(error)
