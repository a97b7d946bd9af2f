"""A task that runs: what serves its request, what it asks meanwhile, and what becomes of it.

It is a line of its own, over which its handler's context speaks: what it asks waits in the task until the requestor
comes for it, and its handler goes on when the answer is there.

Spec:  2025-11-25 basic/utilities/tasks; the extension io.modelcontextprotocol/tasks
Above: tasks.py, which keeps all of them. Below: basic/patterns/tasks.py
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

from ...basic.lifecycle import Implementation
from ...basic.mrtr import InputRequired
from ...basic.progress import ProgressNotificationParams
from ...basic.versioning import without_legacy_codes
from ...codec import ShapeError, codec_for
from ...features.task_augmentation import with_related_task
from ...jsonrpc.errors import ConnectionClosed, McpError, ProtocolError, RequestTimeout
from ...jsonrpc.messages import INTERNAL_ERROR, INVALID_PARAMS, Object, RequestId
from ...revisions import Revision
from ...server.context import Channel
from .types import (
    Task,
    TaskStatus,
    chosen_ttl,
    new_task,
    with_status,
)

if TYPE_CHECKING:
    from ...features.logging import LoggingLevel
    from ...server.server import Server
    from ...server.session import ServerSession
    from .receiver import Tasks

log = logging.getLogger(__name__)
T = TypeVar("T")


class Origin(Protocol):
    """Where the request came from that became a task."""

    revision: Revision
    loop: asyncio.AbstractEventLoop

    @property
    def task_owner(self) -> str:
        """Whose task it is."""

    def notify(self, method: str, params: object, related: RequestId | None = None) -> bool:
        """Send a notification."""


@dataclass(slots=True)
class _Question:
    """Something that a task wants to know."""

    request: Object
    accepts: type
    answer: asyncio.Future[object]


class LiveTask:
    """A task, and what serves its request. origin: where the request came from. ttl: milliseconds that are wanted."""

    def __init__(self, tasks: Tasks, origin: Origin, ttl: int | None = None) -> None:
        self.tasks = tasks
        self.origin = origin
        self.revision = origin.revision
        self.loop = origin.loop
        self.owner = origin.task_owner
        self.seed: Task | None = None
        """The task as it began; None before that."""
        self.until = 0.0
        """When it expires, in seconds since the epoch."""
        self.begun: asyncio.Future[None] = self.loop.create_future()
        self.ended: asyncio.Future[None] = self.loop.create_future()
        self.running: asyncio.Task[object] | None = None
        self._ttl = ttl
        self._task: Task | None = None
        self._stopped = False
        self._questions: dict[str, _Question] = {}
        self._keys: set[str] = set()
        self._carriers: list[tuple[ServerSession, RequestId]] = []  # requests for the result, which wait
        self._came = asyncio.Event()

    # ------------------------------------------------------------------------------------- its life

    def begin(self) -> None:
        """Be a task from now on. Raises ProtocolError where there is no room for one more."""
        if self.seed is not None:
            return
        now = time.time()
        task = new_task(chosen_ttl(self._ttl), self.tasks.poll_interval, now)
        self.until = now + (task.ttl or 0) / 1000
        self.tasks.keep(self, task)
        self.seed = self._task = task
        self.begun.set_result(None)

    async def run(self, work: Coroutine[object, object, object]) -> object:
        """Do the work. What becomes of it is the task's outcome; or this call's, where it ends before it has begun."""
        try:
            outcome = await work
            if self._task is None and self.revision.tasks_are_core:
                self.begin()  # the requestor wants a task, and gets one
        except BaseException as error:
            if self._task is None or isinstance(error, InputRequired):
                raise
            if not (isinstance(error, asyncio.CancelledError) and self._stopped):
                self._fail(error)
            return None
        if self._task is None:
            return outcome
        try:
            self._complete(outcome)
        except Exception as error:  # what JSON cannot hold, or the store
            self._fail(error)
        return None

    def _complete(self, outcome: object) -> None:
        result = codec_for(self.revision).encode(outcome)
        if not self.revision.tasks_are_core:
            # [2026-07-28 basic/index#result-responses] MUST be in every result, and this is one, in another
            result = {"resultType": "complete", **result}
        # [2025-11-25 basic/utilities/tasks#task-execution-errors] a tool's isError: failed; in the extension, completed
        failed = self.revision.tasks_are_core and result.get("isError") is True
        text = str(getattr(outcome, "text", "")) if failed else None
        self._move("failed" if failed else "completed", text or None, result=result)

    def _fail(self, error: BaseException) -> None:
        if not isinstance(error, ProtocolError):
            # The traceback is for the operator; the peer learns nothing about our insides.
            log.error("a task failed", exc_info=error)
            error = ProtocolError(INTERNAL_ERROR, "Internal error")
        if self.revision.era == "modern":
            error = without_legacy_codes(error)
        wire: Object = {"code": error.code, "message": error.message}
        if error.data is not None:
            wire["data"] = error.data
        self._give_up("failed", error.message, wire)

    def _give_up(self, status: TaskStatus, message: str, error: Object | None = None) -> None:
        """End it without a result, also where the store cannot keep that."""
        try:
            self._move(status, message, error=error)
        except Exception:
            log.exception("what became of a task cannot be kept")
            self.tasks._forget(cast(Task, self._task).task_id)
            self._end()

    def stop(self, why: str) -> None:
        """Cancel it; its handler is told, and what it still does changes nothing."""
        if self._task is None or self._task.is_over:
            return
        self._stopped = True
        if self.running is not None:
            self.running.cancel()
        self._give_up("cancelled", why)

    def _move(
        self,
        status: TaskStatus,
        message: str | None = None,
        *,
        input_requests: Object | None = None,
        result: Object | None = None,
        error: Object | None = None,
    ) -> None:
        assert self._task is not None
        if self._task.is_over:
            # [2025-11-25 basic/utilities/tasks#task-cancellation] MUST remain cancelled, whatever still happens
            return
        task = with_status(
            self._task, status, time.time(), message, input_requests=input_requests, result=result, error=error
        )
        self.tasks.store.put(task, self.owner, self.until)
        self._task = task
        if task.is_over:
            log.debug("task %.6s... is %s", task.task_id, status)
            self._end()
        # [2025-11-25 basic/utilities/tasks#task-notifications] MAY be sent, and SHOULD NOT have the related task
        if self.revision.tasks_are_core:
            self.origin.notify("notifications/tasks/status", task)
        self.tasks.changed(task.task_id)

    def _end(self) -> None:
        self.tasks.live.pop(cast(Task, self._task).task_id, None)
        if not self.ended.done():
            self.ended.set_result(None)
        for question in self._questions.values():
            question.answer.cancel()

    def set_status(self, message: str) -> None:
        """Say how the work is, to people."""
        if self._task is not None and not self._task.is_over:
            self._move(self._task.status, message, input_requests=self._task.input_requests)

    @property
    def is_open(self) -> bool:
        """Whether the work is still wanted."""
        return self._task is not None and not self._task.is_over

    # ------------------------------------------------------------------------------------- what it wants to know

    def _pose(self, method: str, params: object, accepts: type, key: str | None) -> tuple[str, _Question]:
        key = key or str(len(self._keys) + 1)
        if key in self._keys:
            # The extension: each key MUST be unique over the lifetime of a task
            raise ValueError(f"two questions of one task have the key {key!r}")
        self._keys.add(key)
        wire = codec_for(self.revision).encode(params)
        question = _Question({"method": method, "params": wire}, accepts, self.loop.create_future())
        self._questions[key] = question
        self._show_questions()
        return key, question

    def _show_questions(self) -> None:
        # [2025-11-25 basic/utilities/tasks#input-required-status] SHOULD be input_required, until nothing is
        requests: Object = {key: question.request for key, question in self._questions.items()}
        self._move("input_required" if requests else "working", input_requests=requests or None)

    async def ask_requestor(
        self, method: str, params: object, result: type[T], timeout: float | None, key: str | None
    ) -> T:
        """Ask the requestor, and wait until it has answered. timeout: seconds. Raises RequestTimeout."""
        if not self.is_open:
            raise McpError(f"{method} was not asked: the task that it would belong to is over")
        assert self._task is not None
        if self.revision.tasks_are_core:
            with_related_task(params, self._task.task_id)
        key, question = self._pose(method, params, result, key)
        try:
            async with asyncio.timeout(timeout):
                if self.revision.tasks_are_core:
                    return await self._ask_carrier(method, params, result)
                return cast(T, await question.answer)
        except TimeoutError:
            raise RequestTimeout(f"{method}: no answer within {timeout} seconds") from None
        finally:
            if self._questions.pop(key, None) is not None:
                self._show_questions()

    async def _ask_carrier(self, method: str, params: object, result: type[T]) -> T:
        """Send a request, as soon as there is one of the requestor's that it can go with."""
        while True:
            carrier = self._carrier()
            if carrier is None:
                self._came.clear()
                await self._came.wait()
                continue
            connection, id = carrier
            try:
                return await connection.ask(method, params, result, None, id, None)
            except ConnectionClosed:
                continue  # the requestor may come back, on another one

    def _carrier(self) -> tuple[ServerSession, RequestId] | None:
        """A request for the result that waits, and what it came on: the last of those whose requestor is there."""
        usable = [(c, id) for c, id in self._carriers if c.is_serving(id) and not c.ended.done()]
        return usable[-1] if usable else None

    async def carry(self, connection: ServerSession, id: RequestId) -> None:
        """Wait for the end; meanwhile, the request `id` carries what the task asks."""
        carrier = (connection, id)
        self._carriers.append(carrier)
        self._came.set()
        try:
            await asyncio.shield(self.ended)
        finally:
            self._carriers.remove(carrier)

    def answer(self, answers: dict[str, Object]) -> None:
        """Take answers, by the keys of the questions; those to no question are ignored. Raises ProtocolError."""
        codec = codec_for(self.revision)
        taken: dict[str, object] = {}
        for key in answers.keys() & self._questions.keys():
            try:
                taken[key] = codec.decode(self._questions[key].accepts, answers[key])
            except ShapeError as error:
                text = f"Invalid params: the answer to {self._questions[key].request['method']}: {error}"
                raise ProtocolError(INVALID_PARAMS, text) from None
        for key, value in taken.items():
            question = self._questions.pop(key)
            if not question.answer.done():
                question.answer.set_result(value)
        if taken:
            self._show_questions()


# ---------------------------------------------------------------------------------------------------- a context's line


class TaskChannel(LiveTask):
    """What the context of a task speaks over: until it begins, the line that its request came on; then, itself."""

    origin: Channel

    def __init__(self, tasks: Tasks, origin: Channel, ttl: int | None) -> None:
        super().__init__(tasks, origin, ttl)
        self.server: Server = origin.server
        self.peer_capabilities = origin.peer_capabilities
        self.subscriptions = origin.subscriptions
        self.task: LiveTask | None = self

    @property
    def task_owner(self) -> str:
        """See `Channel`."""
        return self.owner

    @property
    def logging_level(self) -> LoggingLevel | None:
        """See `Channel`."""
        return self.origin.logging_level

    @logging_level.setter
    def logging_level(self, level: LoggingLevel | None) -> None:
        self.origin.logging_level = level

    @property
    def peer_info(self) -> Implementation | None:
        """See `Channel`."""
        return self.origin.peer_info

    def notify(self, method: str, params: object, related: RequestId | None = None) -> bool:
        """See `Channel`. Once it is a task, what it says goes with a request for its result, or on its own."""
        if self._task is None:
            return self.origin.notify(method, params, related)
        if not self.revision.tasks_are_core:
            # The extension: progress and log messages are not supported on tasks. What progress says in words is.
            if isinstance(params, ProgressNotificationParams) and params.message is not None:
                self.set_status(params.message)
            return False
        with_related_task(params, self._task.task_id)
        connection, id = self._carrier() or (self.origin, None)
        return connection.notify(method, params, id)

    async def drain(self, related: RequestId) -> None:
        """See `Channel`."""
        if self._task is None or self.revision.tasks_are_core:
            connection, id = self._carrier() or (self.origin, related)
            return await connection.drain(id)
        await asyncio.sleep(0)

    def is_serving(self, id: RequestId) -> bool:
        """See `Channel`."""
        return self.origin.is_serving(id) if self._task is None else self.is_open

    def interrupt(self, related: RequestId) -> bool:
        """See `Channel`."""
        return self._task is None and self.origin.interrupt(related)

    def missing(self, capability: str) -> McpError:
        """See `Channel`."""
        return self.origin.missing(capability)

    async def ask(
        self,
        method: str,
        params: object,
        result: type[T],
        timeout: float | None,
        related: RequestId,
        key: str | None,
    ) -> T:
        """See `Channel`."""
        if self._task is None:
            return await self.origin.ask(method, params, result, timeout, related, key)
        return await self.ask_requestor(method, params, result, timeout, key)
