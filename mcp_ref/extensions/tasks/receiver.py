"""Receiver of tasks: it runs requests as tasks, stores their results, and serves the requests about tasks.

    tools/call -> `Tasks.start` -> `LiveTask` runs the handler; `CreateTaskResult` is returned at once
    tasks/get, tasks/result, ... -> `Tasks` reads the store, and uses the `LiveTask` if the handler still runs

Each task expires, because the requestor might never fetch the result
[2025-11-25 basic/utilities/tasks#ttl-and-resource-management].

Spec:  2025-11-25 basic/utilities/tasks; the extension io.modelcontextprotocol/tasks
Used by: server/catalog.py, client/handlers.py. Uses: types.py, store.py, shared_tasks.py, live_task.py
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Collection, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from ...basic.channel import Channel, RequestContext
from ...basic.meta import EmptyResult, PaginatedRequestParams, extended_meta
from ...features.task_augmentation import RELATED_TASK
from ...jsonrpc.bounded_waits import retrieve_exception
from ...jsonrpc.errors import ProtocolError
from ...jsonrpc.messages import INTERNAL_ERROR, INVALID_PARAMS, Object
from ...lib.shares import ShareExceeded, Shares, memory_of
from .async_store import AsyncTaskStore
from .live_task import LiveTask
from .store import MemoryTaskStore, TaskStore
from .types import (
    DEFAULT_POLL_INTERVAL,
    CreateTaskResult,
    GetTaskPayloadResult,
    ListTasksResult,
    Task,
    TaskRequestParams,
    UpdateTaskRequestParams,
    becomes_task,
    unknown_task,
)

if TYPE_CHECKING:
    from ...features.registered_tools import RegisteredTool, ToolRun
    from ...features.tools import CallToolRequestParams
    from .shared_tasks import SharedTasks, TaskClients

log = logging.getLogger(__name__)

MAX_ARGUMENT_BYTES_PER_CALLER: Final = 32 * 1024 * 1024
"""Maximum memory for the arguments of one caller's calls that are or may become tasks, in bytes (32 MiB)."""

MAX_ARGUMENT_BYTES: Final = 128 * 1024 * 1024
"""Maximum memory for the arguments of all such calls, in bytes (128 MiB)."""

STOP_GRACE_SECONDS = 0.5
"""Maximum time that `Tasks.close` waits for cancelled handlers, in seconds."""


class Tasks:
    """The tasks of one receiver, and the handlers of the requests about tasks.

    Args:
        store: The store of the tasks. Defaults to a `MemoryTaskStore`.
        on_change: Called with the id of a task whose state has changed; unused with an `AsyncTaskStore`.
        clients: The clients of this process, and the broadcast to the others; required for an `AsyncTaskStore`.
    """

    def __init__(
        self, store: TaskStore | AsyncTaskStore | None = None, on_change: Callable[[str], None] = lambda id: None,
        clients: TaskClients | None = None,
    ) -> None:  # fmt: skip
        self.shared: SharedTasks | None = None
        """The tasks of all processes that share an `AsyncTaskStore`; None with a `TaskStore`."""
        if clients is not None and isinstance(store, AsyncTaskStore):
            from .shared_tasks import SharedTasks  # lazy: few servers have several processes

            self.shared = SharedTasks(store, clients)
            self.shared.on_over, self.shared.on_responses = self._stop_ended_elsewhere, self._set_responses
            # The clients here learn of a change at once, those of other processes when the database has stored it.
            on_change = self.shared.announce_here
            store = self.shared
        self.store: TaskStore = cast(TaskStore, store) if store is not None else MemoryTaskStore()
        self.poll_interval = DEFAULT_POLL_INTERVAL
        """Suggested time between two `tasks/get` requests, in milliseconds."""
        self.live: dict[str, LiveTask] = {}
        """The tasks that run in this process, by task id."""
        self._arguments = Shares("arguments of running tasks", MAX_ARGUMENT_BYTES_PER_CALLER, MAX_ARGUMENT_BYTES)
        self._on_change = on_change
        self._running: set[asyncio.Task[object]] = set()  # includes cancelled handlers that still run

    async def call_tool(
        self, work: ToolRun, tool: RegisteredTool, params: CallToolRequestParams, context: RequestContext
    ) -> object:
        """Call a tool, as a task if the tool and the client support it (see `becomes_task`)."""
        channel = context.channel
        if not becomes_task(tool.task, params.task is not None, channel.revision, channel.peer_capabilities):
            return await work(context)
        ttl = params.task.ttl if params.task is not None else None
        # The arguments stay in memory for as long as the tool runs, so they count in the caller's share.
        caller = context.access.caller if context.access is not None else channel.task_owner
        size = memory_of(json.dumps(params.arguments).encode())
        try:
            self._arguments.take(caller, size)
        except ShareExceeded as error:
            raise ProtocolError(INTERNAL_ERROR, f"{error}; retry later") from None
        return await self.start(
            lambda task: work(context.with_channel(task)), channel, ttl, begins_late=tool.asks_first,
            on_end=partial(self._arguments.give_back, caller, size),
        )  # fmt: skip

    async def start(
        self, work: Callable[[Channel], Coroutine[object, object, object]], origin: Channel, ttl: int | None,
        begins_late: bool = False, on_end: Callable[[], object] = lambda: None,
    ) -> object:  # fmt: skip
        """Run a handler as a task. Return the `CreateTaskResult`, or the handler's result if no task has begun.

        Args:
            work: The function that calls the handler, with the channel to the requestor.
            origin: The channel of the request that becomes a task.
            ttl: Requested time from the creation of the task to its deletion, in milliseconds; None for the default.
            begins_late: True if the task begins only when the handler calls `begin_task`, False if it begins at once.
            on_end: Called when the handler has ended, or cannot begin.

        Raises:
            ProtocolError: The store of tasks is full.
            Exception: An exception of the store, or of the handler if no task has begun.
        """
        live = LiveTask(origin, ttl, self.poll_interval, self.store, self._note_change)
        if not begins_late:
            try:
                live.begin_task()
            except BaseException:  # an author's store may raise any exception
                on_end()
                raise
        running = live.handler = live.loop.create_task(live.run(work))
        self._running.add(running)
        running.add_done_callback(self._running.discard)
        running.add_done_callback(lambda _: on_end())
        if not live.begun.done():
            try:
                waits: list[asyncio.Future[Any]] = [running, live.begun]
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            except asyncio.CancelledError:
                # The request was cancelled, so the client would never learn of a task that begins now. Nobody awaits
                # the handler either, so its exception is retrieved only to keep asyncio from logging it.
                live.begun.cancel()
                running.add_done_callback(retrieve_exception)
                running.cancel()
                raise
        if not live.begun.done():  # the handler has ended without beginning a task
            return running.result()
        task = live.begun.result()
        if self.shared is not None:
            try:
                await self.shared.wait_created(task.task_id)
            except BaseException:
                live.expire("The task was not created.")
                raise
        return CreateTaskResult(task)

    def _note_change(self, live: LiveTask) -> None:
        assert live.task is not None
        id = live.task.task_id
        if live.is_running:
            self.live[id] = live
        else:
            self.live.pop(id, None)
        self._on_change(id)

    def remove_all_of(self, owner: str) -> None:
        """Stop and remove the tasks of an ended session without a principal, because nobody can fetch them now."""
        for live in [live for live in self.live.values() if live.task_owner == owner]:
            live.stop("The session of the task has ended.")
        try:
            self._remove_stored(owner)
        except Exception:  # an author's store may raise any exception
            log.exception("the store of tasks has failed, and keeps the tasks of an ended session until they expire")

    def _remove_stored(self, owner: str) -> None:
        page, cursor = self.store.page(owner, None)
        ids = [task.task_id for task in page]
        while cursor is not None:
            page, cursor = self.store.page(owner, cursor)
            ids += [task.task_id for task in page]
        for id in ids:
            self.store.remove(id)

    async def close(self) -> None:
        """Cancel all running tasks, and wait at most `STOP_GRACE_SECONDS` for their handlers."""
        for live in tuple(self.live.values()):
            live.stop("The receiver of the task has stopped.")
        if self._running:
            await asyncio.wait(self._running, timeout=STOP_GRACE_SECONDS)
        if self.shared is not None:
            await self.shared.close()

    def _stop_ended_elsewhere(self, id: str) -> None:
        live = self.live.get(id)
        if live is not None:
            live.stop("Another process of the server has ended the task.")

    def _set_responses(self, id: str, responses: dict[str, Object]) -> None:
        """Give the handler of a task that runs here the responses that another process has received."""
        live = self.live.get(id)
        if live is None:
            return  # the handler has ended in the meantime
        try:
            live.inputs.set_responses(responses, live.revision)
        except ProtocolError as error:  # only this process knows the types of the responses, and can check them
            log.warning("the responses to a task's input requests were ignored: %s", error.message)
        live.update_input_status()

    # ------------------------------------------------------------------------------------- requests about tasks

    async def find(self, id: str, owner: str) -> Task | None:
        """Return a task of this process, or of any process that shares the store; None if `owner` has no such task."""
        if self.shared is not None:
            return await self.shared.find(id, owner)
        return self.store.get(id, owner)

    async def known(self, ids: Collection[str], owner: str) -> list[str]:
        """Return those of the ids that belong to tasks of the owner."""
        return [id for id in ids if await self.find(id, owner) is not None]

    async def _find_or_refuse(self, id: str, context: RequestContext) -> Task:
        task = await self.find(id, context.channel.task_owner)
        if task is None:
            raise unknown_task()
        return task

    def _running_task(self, task: Task) -> LiveTask | None:
        """Return the `LiveTask`; None if the task is over, or runs in another process that shares our database.

        Raise ProtocolError if the task runs in another process, and we share no database with that process.
        """
        live = self.live.get(task.task_id)
        if live is None and not task.is_over and self.shared is None:
            raise ProtocolError(INTERNAL_ERROR, "another process of this server runs the task; retry the request")
        return live

    async def get(self, params: TaskRequestParams, context: RequestContext) -> Task:
        task = await self._find_or_refuse(params.task_id, context)
        if self.shared is not None and task.status == "input_required":
            # The client may send its response to another process, which needs the request in the database to accept it.
            return await self.shared.wait_stored(task)
        return task

    async def list(self, params: PaginatedRequestParams, context: RequestContext) -> ListTasksResult:
        owner = context.channel.task_owner
        if self.shared is not None:
            return ListTasksResult(*await self.shared.find_page(owner, params.cursor))
        return ListTasksResult(*self.store.page(owner, params.cursor))

    async def result(self, params: TaskRequestParams, context: RequestContext) -> GetTaskPayloadResult:
        """Serve `tasks/result`: wait until the task is over. Then return the task's result, or raise its error."""
        # [2025-11-25 basic/utilities/tasks#result-retrieval] MUST wait until the status is terminal
        task = await self._find_or_refuse(params.task_id, context)
        while not task.is_over:
            live = self.live.get(task.task_id)
            if live is not None:
                await live.result_requests.wait_until_ended(context)
            elif self.shared is not None:
                await self.shared.wait_change(task.task_id, self.poll_interval / 1000)
            else:  # another process runs the task, and cannot announce its changes
                await asyncio.sleep(self.poll_interval / 1000)
            task = await self._find_or_refuse(params.task_id, context)
        if task.error is not None:
            code, message = cast(int, task.error["code"]), str(task.error["message"])
            raise ProtocolError(code, message, task.error.get("data"))
        if task.result is None:
            raise ProtocolError(INVALID_PARAMS, "Invalid params: the task was cancelled, so it has no result")
        # [2025-11-25 basic/utilities/tasks#related-task-metadata] the result of tasks/result MUST have the task's id
        meta = extended_meta(task.result, {RELATED_TASK: {"taskId": task.task_id}})
        return GetTaskPayloadResult({**task.result, "_meta": meta})

    async def cancel(self, params: TaskRequestParams, context: RequestContext) -> Task | EmptyResult:
        reason = "The task was cancelled by request."
        task = await self._find_or_refuse(params.task_id, context)
        live = self._running_task(task)
        was_running = live is not None
        if live is not None:
            live.stop(reason)
        elif self.shared is not None and not task.is_over:
            was_running = await self.shared.cancel(task.task_id, reason)
        if not context.revision.built_in_tasks:
            return EmptyResult()  # the extension only acknowledges the request, even for a task that is over
        latest = await self._find_or_refuse(params.task_id, context)
        if not was_running:
            # [2025-11-25 basic/utilities/tasks#task-cancellation] MUST refuse the request if the status is terminal
            raise ProtocolError(INVALID_PARAMS, f"Cannot cancel task: already in terminal status {latest.status!r}")
        return latest

    async def update(self, params: UpdateTaskRequestParams, context: RequestContext) -> EmptyResult:
        """Serve `tasks/update`: pass the requestor's responses to the handler of the task."""
        task = await self._find_or_refuse(params.task_id, context)
        live, responses = self._running_task(task), params.input_responses
        if live is not None:
            live.inputs.set_responses(responses, live.revision)
            live.update_input_status()
        elif self.shared is not None and not task.is_over:
            requests = task.input_requests or {}
            requested = {key: response for key, response in responses.items() if key in requests}
            await self.shared.add_responses(task.task_id, requested)
        return EmptyResult()
