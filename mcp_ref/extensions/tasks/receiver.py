"""The receiver of tasks: runs requests as tasks, stores their results, and serves the requests about tasks.

When a request becomes a task, the receiver returns the task at once, while the handler of the request goes on. The
receiver (usually the server) stores the handler's result. The requestor polls the task.

    tools/call -> `Tasks.start` -> `LiveTask` runs the handler; `CreateTaskResult` is returned at once
    tasks/get, tasks/result, ... -> `Tasks` reads the store, and uses the `LiveTask` if the handler still runs

An attacker who knows the id of a task could read the result. So ids are long random strings, and only the owner
of a task can read it [2025-11-25 basic/utilities/tasks#task-isolation-and-access-control]. Each task expires, because
the requestor might never fetch the result [2025-11-25 basic/utilities/tasks#ttl-and-resource-management].

The handler of a task can send requests to the requestor. In 2025-11-25 they are ordinary JSON-RPC requests, on the
response stream of a `tasks/result` request. Since 2026-07-28 they are `inputRequests` in the result of `tasks/get`, and
the requestor sends the responses with `tasks/update`. The table in types.py shows all differences.

Spec:  2025-11-25 basic/utilities/tasks; the extension io.modelcontextprotocol/tasks
Used by: server/catalog.py, client/handlers.py. Uses: types.py, basic/channel.py.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ...basic.channel import Channel, RequestContext
from ...basic.lifecycle import Implementation
from ...basic.meta import EmptyResult, PaginatedRequestParams, extended_meta
from ...basic.mrtr import HandlerNeedsInput
from ...basic.progress import ProgressNotificationParams
from ...basic.versioning import without_legacy_codes
from ...codec import ShapeError, codec_for
from ...features.task_augmentation import RELATED_TASK, TaskMetadata, add_related_task
from ...jsonrpc.errors import ConnectionClosed, McpError, ProtocolError, RequestTimeout
from ...jsonrpc.messages import INTERNAL_ERROR, INVALID_PARAMS, Object, RequestId
from ...revisions import Revision
from .types import (
    DEFAULT_POLL_INTERVAL,
    CreateTaskResult,
    GetTaskPayloadResult,
    ListTasksResult,
    MemoryTaskStore,
    Task,
    TaskRequestParams,
    TaskStatus,
    TaskStore,
    UpdateTaskRequestParams,
    becomes_task,
    chosen_ttl,
    new_task,
    unknown_task,
    with_status,
)

if TYPE_CHECKING:
    from ...features.tools import RegisteredTool, ToolRun

log = logging.getLogger(__name__)
T = TypeVar("T")

STOP_GRACE_SECONDS = 0.5
"""Maximum time that `Tasks.close` waits for cancelled handlers, in seconds."""


class Tasks:
    """The tasks of one receiver, and the handlers of the requests about tasks.

    Args:
        store: The store of the tasks. Defaults to a `MemoryTaskStore`.
        on_change: Called with the id of a task whose state has changed.
    """

    def __init__(self, store: TaskStore | None = None, on_change: Callable[[str], None] = lambda id: None) -> None:
        self.store = store if store is not None else MemoryTaskStore()
        self.poll_interval = DEFAULT_POLL_INTERVAL
        """Suggested time between two `tasks/get` requests, in milliseconds."""
        self.live: dict[str, LiveTask] = {}
        """The tasks that run in this process, by task id."""
        self.on_change = on_change
        self._running: set[asyncio.Task[object]] = set()  # includes cancelled handlers that still run
        self._expiry: dict[str, tuple[str, asyncio.TimerHandle]] = {}  # task id -> owner, timer that ends the task

    async def call_tool(
        self, work: ToolRun, tool: RegisteredTool, wanted: TaskMetadata | None, context: RequestContext
    ) -> object:
        """Call a tool. Run the call as a task if `becomes_task` returns True."""
        channel = context.channel
        if not becomes_task(tool.task, wanted is not None, channel.revision, channel.peer_capabilities):
            return await work(context)
        task = LiveTask(self, channel, wanted.ttl if wanted is not None else None)
        return await self.start(task, work(context.with_channel(task)), begins_late=tool.asks_first)

    async def start(self, live: LiveTask, work: Coroutine[object, object, object], begins_late: bool = False) -> object:
        """Run a handler as a task. Return the `CreateTaskResult`, or the handler's result if no task has begun.

        Args:
            live: The task.
            work: The coroutine of the handler.
            begins_late: True if the task begins when the handler calls `begin_task`, False if it begins at once.

        Raises:
            ProtocolError: The store of tasks is full.
            Exception: An exception of the handler, if no task has begun.
        """
        if not begins_late:
            try:
                live.begin_task()
            except BaseException:
                work.close()
                raise
        running = live.handler = live.loop.create_task(live.run(work))
        self._running.add(running)
        running.add_done_callback(self._running.discard)
        if not live.begun.done():
            try:
                waits: list[asyncio.Future[Any]] = [running, live.begun]
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            except asyncio.CancelledError:
                # the request was cancelled; asyncio would log the handler's exception if nobody retrieved it
                running.add_done_callback(lambda task: None if task.cancelled() else task.exception())
                running.cancel()
                raise
        return CreateTaskResult(live.begun.result()) if live.begun.done() else running.result()

    def store_new(self, live: LiveTask, task: Task) -> None:
        """Store a new task. Raise ProtocolError if the store is full."""
        assert task.ttl is not None
        self.put(task, live)
        # [2025-11-25 basic/utilities/tasks#audit-and-logging] SHOULD log. The whole id must stay secret
        log.debug("task %.6s... of %s has begun", task.task_id, live.owner or "no owner")
        self.live[task.task_id] = live
        timer = live.loop.call_later(task.ttl / 1000, self._expire, task.task_id)
        self._expiry[task.task_id] = live.owner, timer

    def _expire(self, id: str) -> None:
        # [2025-11-25 basic/utilities/tasks#ttl-and-resource-management] MAY delete the task, regardless of its status
        if (live := self.live.get(id)) is not None:
            live.stop("The task expired before it was completed.")
        self.remove(id)

    def remove(self, id: str) -> None:
        """Remove a task from the store."""
        self._forget(id)
        self.store.remove(id)

    def put(self, task: Task, live: LiveTask) -> None:
        """Store a new or changed task. Raise ProtocolError if the store is full."""
        for removed in self.store.put(task, live.owner, live.expires_at):
            self._forget(removed)

    def _forget(self, id: str) -> None:
        if (expiry := self._expiry.pop(id, None)) is not None:
            expiry[1].cancel()

    def remove_all_of(self, owner: str) -> None:
        """Stop and remove all tasks of an owner. Called at the end of a session without a principal."""
        for id in [id for id, (task_owner, _) in self._expiry.items() if task_owner == owner]:
            self._expire(id)

    async def close(self) -> None:
        """Cancel all running tasks, and wait for their handlers, at most `STOP_GRACE_SECONDS`."""
        for live in tuple(self.live.values()):
            live.stop("The receiver of the task has stopped.")
        for _, timer in self._expiry.values():
            timer.cancel()
        self._expiry.clear()
        if self._running:
            await asyncio.wait(self._running, timeout=STOP_GRACE_SECONDS)

    # ------------------------------------------------------------------------------------- requests about tasks

    def _find(self, id: str, context: RequestContext) -> Task:
        if (task := self.store.get(id, context.channel.task_owner)) is None:
            raise unknown_task()
        return task

    def _running_task(self, task: Task) -> LiveTask | None:
        """Return the running task, or None if the task is over. Raise ProtocolError if another process runs it."""
        live = self.live.get(task.task_id)
        if live is None and not task.is_over:
            raise ProtocolError(INTERNAL_ERROR, "another process of this server runs the task; retry the request")
        return live

    async def get(self, params: TaskRequestParams, context: RequestContext) -> Task:
        """Serve `tasks/get`."""
        return self._find(params.task_id, context)

    async def list(self, params: PaginatedRequestParams, context: RequestContext) -> ListTasksResult:
        """Serve `tasks/list`."""
        return ListTasksResult(*self.store.page(context.channel.task_owner, params.cursor))

    async def result(self, params: TaskRequestParams, context: RequestContext) -> GetTaskPayloadResult:
        """Serve `tasks/result`: wait until the task is over. Then return the task's result, or raise its error."""
        # [2025-11-25 basic/utilities/tasks#result-retrieval] MUST wait until the status is terminal
        while not (task := self._find(params.task_id, context)).is_over:
            if (live := self.live.get(task.task_id)) is not None:
                await live.result_requests.wait_until_ended(context, live.ended)
            else:  # another process runs the task
                await asyncio.sleep(self.poll_interval / 1000)
        if task.error is not None:
            error = cast("dict[str, object]", task.error)
            raise ProtocolError(cast(int, error["code"]), str(error["message"]), task.error.get("data"))
        if task.result is None:
            raise ProtocolError(INVALID_PARAMS, "Invalid params: the task was cancelled, so it has no result")
        # [2025-11-25 basic/utilities/tasks#related-task-metadata] the result of tasks/result MUST have the task's id
        meta = extended_meta(task.result, {RELATED_TASK: {"taskId": task.task_id}})
        return GetTaskPayloadResult({**task.result, "_meta": meta})

    async def cancel(self, params: TaskRequestParams, context: RequestContext) -> Task | EmptyResult:
        """Serve `tasks/cancel`."""
        task = self._find(params.task_id, context)
        if (live := self._running_task(task)) is not None:
            live.stop("The task was cancelled by request.")
        if not context.revision.tasks_are_core:
            return EmptyResult()
        if live is None:
            # [2025-11-25 basic/utilities/tasks#task-cancellation] MUST refuse the request if the status is terminal
            raise ProtocolError(INVALID_PARAMS, f"Cannot cancel task: already in terminal status {task.status!r}")
        return self._find(params.task_id, context)

    async def update(self, params: UpdateTaskRequestParams, context: RequestContext) -> EmptyResult:
        """Serve `tasks/update`: pass the requestor's responses to the handler of the task."""
        if (live := self._running_task(self._find(params.task_id, context))) is not None:
            live.inputs.set_responses(params.input_responses, live.revision)
            live.update_input_status()
        return EmptyResult()


# ---------------------------------------------------------------------------------------------------- one task


class TaskPhase(Enum):
    """A phase of a `LiveTask`.

    PENDING -- `begin_task` --> RUNNING -- the handler ends, or `stop` --> OVER
       |-- the handler fails: no task is created, and the request returns the error
       '-- the handler ends (since 2026-07-28): no task is created, and the request returns the result
    """

    PENDING = "the request is not a task yet"
    RUNNING = "the task is in the store; its status is `working` or `input_required`"
    OVER = "the status is `completed`, `failed` or `cancelled`"


@dataclass(slots=True)
class _OpenInputRequest:
    """A request from the handler of a task to the requestor."""

    request: Object
    result_type: type
    response: asyncio.Future[object]


class _OpenInputRequests:
    """The requests without a response that the handler of one task has sent to the requestor, by key."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._open: dict[str, _OpenInputRequest] = {}
        self._used_keys: set[str] = set()

    def add(self, request: Object, result_type: type, key: str | None) -> tuple[str, _OpenInputRequest]:
        key = key or str(len(self._used_keys) + 1)
        if key in self._used_keys:
            # SEP-2663: a task MUST use each key for only one request
            raise ValueError(f"two input requests of one task have the key {key!r}; use another key")
        self._used_keys.add(key)
        added = self._open[key] = _OpenInputRequest(request, result_type, self._loop.create_future())
        return key, added

    def remove(self, key: str) -> bool:
        return self._open.pop(key, None) is not None

    def set_responses(self, responses: dict[str, Object], revision: Revision) -> None:
        """Pass responses to the handler, by key. Ignore unknown keys. Raise ProtocolError for an invalid response."""
        codec, taken = codec_for(revision), dict[str, object]()
        for key in responses.keys() & self._open.keys():
            try:
                taken[key] = codec.decode(self._open[key].result_type, responses[key])
            except ShapeError as error:
                text = f"Invalid params: the response to {self._open[key].request['method']} is invalid: {error}"
                raise ProtocolError(INVALID_PARAMS, text) from None
        for key, value in taken.items():
            response = self._open.pop(key).response
            if not response.done():
                response.set_result(value)

    def as_json(self) -> Object | None:
        """Return the open requests by key, or None if no request is open."""
        return {key: each.request for key, each in self._open.items()} or None

    def cancel(self) -> None:
        for each in self._open.values():
            each.response.cancel()


class _ResultRequests:
    """The open `tasks/result` requests for one task. The handler's messages go on the stream of the latest request."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Channel, RequestId]] = []
        self._new_request = asyncio.Event()

    def latest(self) -> tuple[Channel, RequestId] | None:
        """Return the channel and id of the latest request whose requestor is still connected, or None."""
        for channel, id in reversed(self._waiting):
            if channel.is_serving(id) and not channel.is_disconnected:
                return channel, id
        return None

    async def next(self) -> tuple[Channel, RequestId]:
        """Wait for a `tasks/result` request, and return its channel and id."""
        while (latest := self.latest()) is None:
            self._new_request.clear()
            await self._new_request.wait()
        return latest

    async def wait_until_ended(self, context: RequestContext, ended: asyncio.Future[None]) -> None:
        """Register a `tasks/result` request, and wait until the task has ended."""
        entry = context.channel, context.request_id
        self._waiting.append(entry)
        self._new_request.set()
        try:
            await asyncio.shield(ended)
        finally:
            self._waiting.remove(entry)


class LiveTask(Channel):
    """A task that runs in this process, and the channel from its handler to the requestor.

    Before the task begins, messages from the handler go to the channel of the request. After that, requests from the
    handler stay in `inputs` until the requestor responds.

    Args:
        tasks: The tasks of this receiver.
        origin: The channel of the request that becomes a task.
        ttl: Requested time from the creation of the task to its deletion, in milliseconds; None for the default.
    """

    def __init__(self, tasks: Tasks, origin: Channel, ttl: int | None = None) -> None:
        self.tasks, self.origin = tasks, origin
        self.revision, self.loop, self.shared = origin.revision, origin.loop, origin.shared
        self.peer_capabilities, self.subscriptions = origin.peer_capabilities, origin.subscriptions
        self.owner = origin.task_owner
        self.phase = TaskPhase.PENDING
        self.begun: asyncio.Future[Task] = self.loop.create_future()
        """Done when the task begins. The value is the state of the new task."""
        self.ended: asyncio.Future[None] = self.loop.create_future()
        """Done when the task is over."""
        self.expires_at = 0.0
        """The time at which the task expires, in seconds since the epoch."""
        self.handler: asyncio.Task[object] | None = None
        self.inputs = _OpenInputRequests(self.loop)
        self._ttl = ttl
        self.result_requests = _ResultRequests()

    def begin_task(self) -> None:
        if self.phase is not TaskPhase.PENDING:
            return
        now = time.time()
        self.task = new_task(chosen_ttl(self._ttl), self.tasks.poll_interval, now)
        self.expires_at = now + (self.task.ttl or 0) / 1000
        self.tasks.store_new(self, self.task)
        self.phase = TaskPhase.RUNNING
        self.begun.set_result(self.task)

    async def run(self, work: Coroutine[object, object, object]) -> object:
        """Run the handler. Store its result in the task, or return the result if the task has not begun."""
        try:
            outcome = await work
            if self.phase is TaskPhase.PENDING and self.revision.tasks_are_core:
                self.begin_task()  # the requestor asked for a task, so the result must be a task
        except BaseException as error:
            if self.phase is TaskPhase.PENDING or isinstance(error, HandlerNeedsInput):
                raise
            if not (isinstance(error, asyncio.CancelledError) and self.phase is TaskPhase.OVER):
                self._fail(error)
            return None
        if self.phase is TaskPhase.PENDING:
            return outcome
        try:
            self._complete(outcome)
        except Exception as error:  # for example: the result cannot be written as JSON, or the store is full
            self._fail(error)
        return None

    def _complete(self, outcome: object) -> None:
        result = codec_for(self.revision).encode(outcome)
        if not self.revision.tasks_are_core:
            # [2026-07-28 basic/index#result-responses] every result MUST have `resultType`
            result = {"resultType": "complete", **result}
        # [2025-11-25 basic/utilities/tasks#task-execution-errors] `isError` means failed; in the extension, completed
        failed = self.revision.tasks_are_core and result.get("isError") is True
        text = str(getattr(outcome, "text", "")) if failed else None
        self._change("failed" if failed else "completed", text or None, result=result)

    def _fail(self, error: BaseException) -> None:
        if not isinstance(error, ProtocolError):
            # The requestor does not get the text of the exception, which can contain secrets
            log.error("the handler of a task failed", exc_info=error)
            error = ProtocolError(INTERNAL_ERROR, "Internal error")
        if self.revision.era == "modern":
            error = without_legacy_codes(error)
        wire: Object = {"code": error.code, "message": error.message}
        if error.data is not None:
            wire["data"] = error.data
        self._end_without_result("failed", error.message, wire)

    def _end_without_result(self, status: TaskStatus, message: str, error: Object | None = None) -> None:
        try:
            self._change(status, message, error=error)
        except Exception:
            log.exception("the store of tasks refused the new status of a task, so the task was removed")
            self.tasks.remove(self.task.task_id)
            self._end()

    def stop(self, reason: str) -> None:
        """Cancel the task and its handler. `reason` becomes the status message."""
        if self.phase is not TaskPhase.RUNNING:
            return
        if self.handler is not None:
            self.handler.cancel()
        self._end_without_result("cancelled", reason)

    def _change(self, status: TaskStatus, message: str | None = None, **fields: Object | None) -> None:
        if self.phase is not TaskPhase.RUNNING:
            # [2025-11-25 basic/utilities/tasks#task-cancellation] MUST stay cancelled, even if the handler continues
            return
        task = with_status(self.task, status, time.time(), message, **fields)
        self.tasks.put(task, self)
        self.task = task
        if task.is_over:
            log.debug("task %.6s... is %s", task.task_id, status)
            self._end()
        # [2025-11-25 basic/utilities/tasks#task-notifications] MAY notify. SHOULD NOT add the task's id to `_meta`
        if self.revision.tasks_are_core:
            self.origin.notify("notifications/tasks/status", task)
        self.tasks.on_change(task.task_id)

    def _end(self) -> None:
        self.phase = TaskPhase.OVER
        self.tasks.live.pop(self.task.task_id, None)
        if not self.ended.done():
            self.ended.set_result(None)
        self.inputs.cancel()

    # --------------------------------------------------------------------------------------- methods of `Channel`

    @property
    def task_owner(self) -> str:
        return self.owner

    @property
    def logging_level(self) -> str | None:  # type: ignore[override]  # read-only: a task cannot set the level
        return self.origin.logging_level

    @property
    def peer_info(self) -> Implementation | None:
        return self.origin.peer_info

    def capability_error(self, capability: str) -> McpError:
        return self.origin.capability_error(capability)

    def is_serving(self, id: RequestId) -> bool:
        return self.origin.is_serving(id) if self.phase is TaskPhase.PENDING else self.phase is TaskPhase.RUNNING

    def close_stream(self, related: RequestId) -> bool:
        return self.phase is TaskPhase.PENDING and self.origin.close_stream(related)

    def set_status(self, message: str) -> None:
        if self.phase is TaskPhase.RUNNING:
            self._change(self.task.status, message, input_requests=self.task.input_requests)

    def notify(self, method: str, params: object, related: RequestId | None = None) -> bool:
        if self.phase is TaskPhase.PENDING:
            return self.origin.notify(method, params, related)
        if not self.revision.tasks_are_core:
            # SEP-2663: a task sends neither progress nor log messages. So progress becomes the status message.
            if isinstance(params, ProgressNotificationParams) and params.message is not None:
                self.set_status(params.message)
            return False
        add_related_task(params, self.task.task_id)
        channel, id = self.result_requests.latest() or (self.origin, None)
        return channel.notify(method, params, id)

    async def drain(self, related: RequestId | None = None) -> None:
        if self.phase is TaskPhase.PENDING or self.revision.tasks_are_core:
            channel, id = self.result_requests.latest() or (self.origin, related)
            return await channel.drain(id)
        await asyncio.sleep(0)

    async def request_input(
        self, method: str, params: object, result: type[T], timeout: float | None, related: RequestId, key: str | None
    ) -> T:
        if self.phase is TaskPhase.PENDING:
            return await self.origin.request_input(method, params, result, timeout, related, key)
        if self.phase is TaskPhase.OVER:
            raise McpError(f"{method} was not sent, because the task is over")
        if self.revision.tasks_are_core:
            add_related_task(params, self.task.task_id)
        wire = codec_for(self.revision).encode(params)
        key, added = self.inputs.add({"method": method, "params": wire}, result, key)
        self.update_input_status()
        try:
            async with asyncio.timeout(timeout):
                if self.revision.tasks_are_core:
                    return await self._request_on_result_stream(method, params, result)
                return cast(T, await added.response)
        except TimeoutError:
            raise RequestTimeout(f"{method}: no response within {timeout} seconds") from None
        finally:
            if self.inputs.remove(key):
                self.update_input_status()

    async def _request_on_result_stream(self, method: str, params: object, result: type[T]) -> T:
        """Wait for a `tasks/result` request, and send a request on its response stream."""
        while True:
            channel, id = await self.result_requests.next()
            try:
                return await channel.request_input(method, params, result, None, id, None)
            except ConnectionClosed:
                continue  # the requestor can reconnect and send `tasks/result` again

    def update_input_status(self) -> None:
        """Set the status to `input_required` if requests to the requestor have no response yet, else to `working`."""
        requests = self.inputs.as_json()
        # [2025-11-25 basic/utilities/tasks#input-required-status] SHOULD be input_required if the task needs input
        self._change("working" if requests is None else "input_required", input_requests=requests)
