"""Tasks at work: those that one receiver runs or keeps, and what can be asked about them.

    tools/call -> Tasks.start -> LiveTask: the handler, with a context as always -> CreateTaskResult, at once
    tasks/get, result, update, cancel, list -> Tasks -> the store, and the task that runs here

Spec:  2025-11-25 basic/utilities/tasks; the extension io.modelcontextprotocol/tasks
Above: server.py, answering.py. Below: live_task.py, basic/patterns/tasks.py
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Protocol, cast

from ...basic.meta import EmptyResult, PaginatedRequestParams, with_meta
from ...features.task_augmentation import RELATED_TASK
from ...jsonrpc.errors import ProtocolError
from ...jsonrpc.messages import INTERNAL_ERROR, INVALID_PARAMS
from ...revisions import Revision
from ...server.context import Context
from .types import (
    POLL_INTERVAL,
    CreateTaskResult,
    GetTaskPayloadResult,
    ListTasksResult,
    MemoryTaskStore,
    Task,
    TaskRequestParams,
    TaskStore,
    UpdateTaskRequestParams,
    unknown_task,
)

if TYPE_CHECKING:
    from ...server.session import ServerSession
    from .live_task import LiveTask

log = logging.getLogger(__name__)

GRACE = 0.5
"""Seconds that tasks may take to stop when nobody serves them any more."""


class Requestor(Protocol):
    """Who asks about tasks."""

    @property
    def revision(self) -> Revision:
        """The revision that is spoken."""

    @property
    def task_owner(self) -> str:
        """Whose tasks are meant; see `TaskStore`."""


class Tasks:
    """The tasks that one receiver runs or keeps, and the methods by which they are asked about.

    store: keeps them. changed: called with the id of a task that has changed.
    """

    def __init__(self, store: TaskStore | None = None, changed: Callable[[str], None] = lambda id: None) -> None:
        self.store = store if store is not None else MemoryTaskStore()
        self.poll_interval = POLL_INTERVAL
        """Milliseconds after which requestors shall ask again."""
        self.live: dict[str, LiveTask] = {}
        """Those that run, in this process."""
        self.changed = changed
        self._working: set[asyncio.Task[object]] = set()  # also those that are cancelled, and still tidy up
        self._ends: dict[str, tuple[str, asyncio.TimerHandle]] = {}  # owner, and when it expires

    async def start(
        self, live: LiveTask, work: Coroutine[object, object, object], late: bool = False
    ) -> CreateTaskResult | object:
        """Serve a request as a task. late: it begins when the work says so.

        Gives its handle once it has begun. Work that ends before that gives its result, or raises what it raises.
        """
        if not late:
            try:
                live.begin()
            except BaseException:
                work.close()
                raise
        running = live.running = live.loop.create_task(live.run(work))
        self._working.add(running)
        running.add_done_callback(self._working.discard)
        if live.seed is None:
            try:
                waits: list[asyncio.Future[Any]] = [running, live.begun]
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            except asyncio.CancelledError:
                running.add_done_callback(_seen)
                running.cancel()
                raise
        return CreateTaskResult(live.seed) if live.seed is not None else running.result()

    def keep(self, live: LiveTask, task: Task) -> None:
        """A task has begun. Raises ProtocolError where there is no room for it."""
        assert task.ttl is not None
        self.store.put(task, live.owner, live.until)
        # [2025-11-25 basic/utilities/tasks#audit-and-logging] SHOULD log it. The whole id would give access.
        log.debug("task %.6s... of %s has begun", task.task_id, live.owner or "nobody in particular")
        self.live[task.task_id] = live
        self._ends[task.task_id] = live.owner, live.loop.call_later(task.ttl / 1000, self._expire, task.task_id)

    def _expire(self, id: str) -> None:
        """A task's time is over, whether it runs or not."""
        # [2025-11-25 basic/utilities/tasks#ttl-and-resource-management] MAY delete it, regardless of the status
        live = self.live.get(id)
        if live is not None:
            live.stop("The task took longer than it was to be kept.")
        self._forget(id)

    def _forget(self, id: str) -> None:
        ending = self._ends.pop(id, None)
        if ending is not None:
            ending[1].cancel()
        self.store.remove(id)

    def abandon(self, owner: str) -> None:
        """An owner is gone, and will not come back: its tasks too."""
        for id in [id for id, (whose, _) in self._ends.items() if whose == owner]:
            self._expire(id)

    async def close(self) -> None:
        """Nobody serves any more: stop what runs."""
        for live in tuple(self.live.values()):
            live.stop("The server has stopped.")
        for _, timer in self._ends.values():
            timer.cancel()
        self._ends.clear()
        if self._working:
            await asyncio.wait(self._working, timeout=GRACE)

    # ------------------------------------------------------------------------------------- what is asked about them

    def _find(self, id: str, requestor: Requestor) -> Task:
        task = self.store.get(id, requestor.task_owner)
        if task is None:
            raise unknown_task()
        return task

    def _running(self, task: Task) -> LiveTask | None:
        """What runs it; None for one that is over. Raises ProtocolError where that is another process."""
        live = self.live.get(task.task_id)
        if live is None and not task.is_over:
            raise ProtocolError(INTERNAL_ERROR, "the task runs in another process of this server: ask that one")
        return live

    async def get(self, params: TaskRequestParams, requestor: Requestor) -> Task:
        """Serve `tasks/get`."""
        return self._find(params.task_id, requestor)

    async def list(self, params: PaginatedRequestParams, requestor: Requestor) -> ListTasksResult:
        """Serve `tasks/list`."""
        return ListTasksResult(*self.store.page(requestor.task_owner, params.cursor))

    async def result(self, params: TaskRequestParams, requestor: Requestor) -> GetTaskPayloadResult:
        """Serve `tasks/result`: wait for the end; meanwhile, this request carries what the task asks."""
        # [2025-11-25 basic/utilities/tasks#result-retrieval] MUST block until the status is terminal
        while not (task := self._find(params.task_id, requestor)).is_over:
            live = self.live.get(task.task_id)
            if live is None:  # another process runs it
                await asyncio.sleep(self.poll_interval / 1000)
            elif isinstance(requestor, Context):
                await live.carry(cast("ServerSession", requestor._channel), requestor.request_id)
            else:
                await asyncio.shield(live.ended)
        if task.error is not None:
            error = cast("dict[str, object]", task.error)
            raise ProtocolError(cast(int, error["code"]), str(error["message"]), task.error.get("data"))
        if task.result is None:
            raise ProtocolError(INVALID_PARAMS, "Invalid params: the task was cancelled, so it has no result")
        # [2025-11-25 basic/utilities/tasks#related-task-metadata] tasks/result MUST say it in its response
        meta = with_meta(task.result, {RELATED_TASK: {"taskId": task.task_id}})
        return GetTaskPayloadResult({**task.result, "_meta": meta})

    async def cancel(self, params: TaskRequestParams, requestor: Requestor) -> Task | EmptyResult:
        """Serve `tasks/cancel`."""
        task = self._find(params.task_id, requestor)
        live = self._running(task)
        if live is not None:
            live.stop("The task was cancelled by request.")
        if not requestor.revision.tasks_are_core:
            return EmptyResult()
        if live is None:
            # [2025-11-25 basic/utilities/tasks#task-cancellation] MUST reject it where the status is terminal
            raise ProtocolError(INVALID_PARAMS, f"Cannot cancel task: already in terminal status {task.status!r}")
        return self._find(params.task_id, requestor)

    async def update(self, params: UpdateTaskRequestParams, requestor: Requestor) -> EmptyResult:
        """Serve `tasks/update`: hand the answers to the task."""
        live = self._running(self._find(params.task_id, requestor))
        if live is not None:
            live.answer(params.input_responses)
        return EmptyResult()


def _seen(task: asyncio.Task[object]) -> None:
    """What it raises is nobody's concern any more."""
    if not task.cancelled():
        task.exception()
