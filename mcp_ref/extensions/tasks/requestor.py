"""The requestor of a task: the side that sends the request which becomes a task, and then waits for the result.

The table in types.py shows how the requestor gets the result, and the input requests, in each revision.

The requestor polls at the interval that the receiver suggests. It MUST NOT rely on status notifications, because
receivers do not have to send them [2025-11-25 basic/utilities/tasks#task-status-notification]. A task has a time limit
and a maximum number of input requests, because a malicious receiver could make the requestor poll or respond forever.

Spec:  2025-11-25 basic/utilities/tasks; the extension io.modelcontextprotocol/tasks (SEP-2663) beside 2026-07-28
Used by: client/tools.py, server/session.py. Uses: types.py
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar

from ...basic.meta import EmptyResult
from ...basic.mrtr import InputRequest, read_input_requests
from ...codec import ShapeError, codec_for
from ...jsonrpc.bounded_waits import end_handlers
from ...jsonrpc.errors import ConnectionClosed, InvalidMessage, McpError, RemoteError, RequestTimeout
from ...jsonrpc.messages import INTERNAL_ERROR, INVALID_PARAMS, Object
from ...revisions import Revision
from .types import DEFAULT_POLL_INTERVAL, Task, TaskRequestParams, UpdateTaskRequestParams
from .types import CreateTaskResult as CreateTaskResult

T = TypeVar("T")
R = TypeVar("R")

MIN_POLL_SECONDS = 0.02
"""Minimum poll interval, in seconds, even if the receiver suggests a shorter one."""

FIRST_POLL_SECONDS = 0.1
"""Time until the first poll, in seconds, unless the poll interval is shorter. Many tasks end long before it."""

MAX_POLL_SECONDS = 60.0
"""Maximum poll interval, in seconds."""

MAX_REPETITIONS = 3
"""Maximum number of times that a request about a task is repeated because the connection or the response was lost."""

MAX_RESULT_SECONDS = 7 * 24 * 3600.0
"""Longest time that `RunningTask.result` waits if its caller gives no `timeout`, in seconds (a week)."""

MAX_INPUT_REQUESTS = 1000
"""Maximum number of input requests of one task."""

CANCEL_TIMEOUT_SECONDS = 5.0
"""Time limit of the cancellation that `result_or_cancel` sends, in seconds."""


class SendRequest(Protocol):
    """A function that sends a request to the receiver of the task."""

    async def __call__(self, method: str, params: object, result: type[R], /) -> R:
        """Send a request with the default time limit, and return its result."""


class RunningTask(Generic[T]):
    """A request that has become a task, or whose receiver has returned the result at once.

    Args:
        send_request: Function that sends a request about the task.
        revision: The negotiated revision.
        task: The new task. None if the request did not become a task.
        result_type: Dataclass of the request's result.
        result: The result if the request did not become a task, else None.
        handle_input: Function that returns the response to an input request, as JSON.
        check: Function that raises an exception if the result is invalid.
        ended: Event that is set when the connection has ended for good. Then no request is repeated.
    """

    def __init__(
        self, send_request: SendRequest, revision: Revision, task: Task | None, result_type: type[T],
        result: T | None = None, handle_input: Callable[[InputRequest], Awaitable[Object]] | None = None,
        check: Callable[[T], None] | None = None, ended: asyncio.Event | None = None,
    ) -> None:  # fmt: skip
        self.task = task
        """The state of the task in the latest response; None if the request did not become a task."""
        self._send_request, self._revision = send_request, revision
        self._result_type, self._result = result_type, result
        self._handle_input, self._check, self._ended = handle_input, check, ended or asyncio.Event()
        self._responding: dict[str, asyncio.Task[None]] = {}  # key of an input request -> asyncio task that responds
        self._has_paused = False
        self._unsent: dict[str, Object] = {}  # key -> response that was not sent, because the connection was lost

    @property
    def id(self) -> str | None:
        """The id of the task; None if the request did not become a task."""
        return self.task.task_id if self.task is not None else None

    async def status(self) -> Task | None:
        """Return the current state of the task, or None without a task. Raise RemoteError for an unknown task."""
        if self.task is not None and not self.task.is_over:
            self.task = await self._send_request("tasks/get", TaskRequestParams(self.task.task_id), Task)
        return self.task

    async def cancel(self) -> None:
        """Request the cancellation of the task, unless it is over."""
        if self.task is None or self.task.is_over:
            return
        params = TaskRequestParams(self.task.task_id)
        if not self._revision.built_in_tasks:
            await self._send_request("tasks/cancel", params, EmptyResult)
            return
        try:
            self.task = await self._send_request("tasks/cancel", params, Task)
        except RemoteError as error:
            # [2025-11-25 basic/utilities/tasks#task-cancellation] the task is over or unknown, so nothing is left
            if error.code != INVALID_PARAMS:
                raise

    async def result(self, timeout: float | None = None) -> T:
        """Return the result of the request when the task is over. Until then, handle the task's input requests.

        Args:
            timeout: Time limit in seconds. The default is the task's `ttl` plus one minute, but at most a week.

        Raises:
            RequestTimeout: The task is not over after `timeout` seconds. This method may then be called again.
            ConnectionClosed: The connection has ended for good, or a request was lost again after `MAX_REPETITIONS`.
            RemoteError: The request failed, or the receiver does not know the task.
            InvalidMessage: The result or an input request is invalid.
            McpError: The task was cancelled.
        """
        if self._result is not None:
            return self._result
        assert self.task is not None
        seconds = _default_timeout(self.task) if timeout is None else timeout
        try:
            async with asyncio.timeout(seconds):
                if self._revision.built_in_tasks:
                    result = await self._built_in_result(self.task)
                else:
                    result = await self._extension_result(self.task)
        except RequestTimeout:  # of one `tasks/...` request; it is a TimeoutError too, but `seconds` are not over
            raise
        except TimeoutError:
            raise RequestTimeout(f"task {self.id} is not complete after {seconds} seconds") from None
        finally:
            await self._stop_responding()
        if self._check is not None:
            self._check(result)
        self._result = result
        return result

    async def _built_in_result(self, task: Task) -> T:
        params = TaskRequestParams(task.task_id)
        # [2025-11-25 basic/utilities/tasks#getting-tasks] we SHOULD poll until the task is over or requires input
        while not task.is_over:
            if task.status == "input_required":
                # [2025-11-25 basic/utilities/tasks#input-required-status] we SHOULD send `tasks/result` then, so
                # that the receiver can send its input requests while it serves this one
                result = await self._send_or_pause(task, "tasks/result", params, self._result_type)
                if result is not None:
                    return result
            else:
                await self._pause(task)
            task = await self._poll(task)
        if task.status == "cancelled":
            raise _cancelled(task)
        return await self._send_and_repeat(task, "tasks/result", params, self._result_type)

    async def _extension_result(self, task: Task) -> T:
        while not task.is_over:
            await self._respond_and_wait(task)
            task = await self._poll(task)
        if task.error is not None:
            code, message = task.error.get("code"), task.error.get("message")
            raise RemoteError(code if type(code) is int else 0, str(message), task.error.get("data"))
        if task.result is None:
            if task.status == "cancelled":
                raise _cancelled(task)
            raise InvalidMessage(f"task {self.id} has no result")
        try:
            return codec_for(self._revision).decode(self._result_type, task.result)
        except ShapeError as error:
            raise InvalidMessage(f"the result of task {self.id} has the wrong shape: {error}") from None

    async def _respond_and_wait(self, task: Task) -> None:
        """Start to handle new input requests. Return after the poll interval, or as soon as a response was sent."""
        for key, request in read_input_requests({"inputRequests": task.input_requests or {}}).items():
            # SEP-2663: we SHOULD NOT respond to a key twice, because a task uses each key for only one request
            if key not in self._responding:
                self._responding[key] = asyncio.create_task(self._respond(task, key, request))
        if len(self._responding) > MAX_INPUT_REQUESTS:
            raise InvalidMessage(f"task {self.id} has more than {MAX_INPUT_REQUESTS} input requests")
        # With a handler that has already failed, the wait ends at once, and its exception is raised below.
        awaited = [each for each in self._responding.values() if not each.done() or each.exception() is not None]
        pause = asyncio.create_task(self._pause(task))
        try:
            await asyncio.wait([pause, *awaited], return_when=asyncio.FIRST_COMPLETED)
        finally:
            pause.cancel()
        for key, responding in self._responding.items():
            if responding.done() and responding.exception() is not None:
                return await self._responding.pop(key)  # raises the exception

    async def _respond(self, task: Task, key: str, request: InputRequest) -> None:
        if self._handle_input is None:
            raise InvalidMessage(f"no handler serves the request {request.method[:80]} of task {self.id}")
        response = self._unsent.pop(key, None)
        if response is None:
            response = await self._handle_input(request)
        params = UpdateTaskRequestParams(task.task_id, {key: response})
        try:
            await self._send_and_repeat(task, "tasks/update", params, EmptyResult)
        except (ConnectionClosed, RequestTimeout, asyncio.CancelledError):
            self._unsent[key] = response  # the next call of `result` sends it, and need not ask the user again
            raise

    async def _poll(self, task: Task) -> Task:
        """Return the new state. Raise ConnectionClosed if the connection has ended for good, but not the task."""
        # After that end, this poll must be the last, because `_pause` no longer waits.
        is_last = self._ended.is_set()
        self.task = await self._send_and_repeat(task, "tasks/get", TaskRequestParams(task.task_id), Task)
        if is_last and not self.task.is_over:
            raise ConnectionClosed(f"the client was closed before task {self.id} was complete")
        return self.task

    async def _send_and_repeat(self, task: Task, method: str, params: object, result: type[R]) -> R:
        """Send a request, and repeat it if the connection or the response is lost. It must be safe to send twice.

        A short interruption must not fail the call, because the task goes on at the receiver. An internal error counts
        as an interruption, because a receiver sends it if its store is unreachable or another process runs the task.
        """
        for _ in range(MAX_REPETITIONS):
            response = await self._send_or_pause(task, method, params, result)
            if response is not None:
                return response
        return await self._send_request(method, params, result)

    async def _send_or_pause(self, task: Task, method: str, params: object, result: type[R]) -> R | None:
        """Send a request. If it fails for a reason that can pass, return None after the poll interval."""
        try:
            return await self._send_request(method, params, result)
        except (ConnectionClosed, RequestTimeout):
            if self._ended.is_set():
                raise
        except RemoteError as error:
            if error.code != INTERNAL_ERROR or method == "tasks/result":  # whose error is that of the task itself
                raise
        await self._pause(task)
        return None

    async def _pause(self, task: Task) -> None:
        """Wait for the poll interval (less at first), or until the connection has ended for good."""
        seconds = _interval(task) if self._has_paused else min(_interval(task), FIRST_POLL_SECONDS)
        self._has_paused = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._ended.wait()

    async def _stop_responding(self) -> None:
        running = {key: response for key, response in self._responding.items() if not response.done()}
        for key in running:
            del self._responding[key]
        await end_handlers(running.values())


async def result_or_cancel(running: RunningTask[T], timeout: float | None, in_background: set[asyncio.Task[None]]) -> T:
    """Return the result of a task. If this fails or is cancelled, cancel the task in the background.

    `in_background` holds the asyncio task that does so, because asyncio keeps no reference to it.
    """
    try:
        return await running.result(timeout)
    except BaseException:
        cancellation = asyncio.get_running_loop().create_task(_cancel(running))
        in_background.add(cancellation)
        cancellation.add_done_callback(in_background.discard)
        raise


async def _cancel(running: RunningTask[T]) -> None:
    with contextlib.suppress(McpError, TimeoutError):
        async with asyncio.timeout(CANCEL_TIMEOUT_SECONDS):
            await running.cancel()


def _default_timeout(task: Task) -> float:
    """Return the task's `ttl` plus the longest poll interval, at most a week, in seconds."""
    if task.ttl is None:
        return MAX_RESULT_SECONDS
    # Take the minimum before the division, because a huge `ttl` cannot be converted to a float.
    lifetime = min(task.ttl, (MAX_RESULT_SECONDS - MAX_POLL_SECONDS) * 1000) / 1000
    return lifetime + MAX_POLL_SECONDS


def _interval(task: Task) -> float:
    """Return the time until the next `tasks/get` request, in seconds."""
    # [2025-11-25 basic/utilities/tasks#getting-tasks] we SHOULD respect the interval that the receiver suggests
    suggested = DEFAULT_POLL_INTERVAL if task.poll_interval is None else task.poll_interval
    return min(max(suggested, MIN_POLL_SECONDS * 1000), MAX_POLL_SECONDS * 1000) / 1000


def _cancelled(task: Task) -> McpError:
    return McpError(f"the task was cancelled: {task.status_message or 'the receiver sent no reason'}")
