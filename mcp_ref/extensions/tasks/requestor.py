"""Following a task: for whoever has sent a request, and was answered by a handle.

    tools/call -> a task -> tasks/get ... tasks/get -> its outcome
                            2025-11-25: tasks/result has the outcome, and brings what the task asks
                            2026-07-28: tasks/get has both, and tasks/update takes the answers

Spec:  2025-11-25 basic/utilities/tasks; the extension io.modelcontextprotocol/tasks
Above: calling.py, for tools; server_connection.py, for what a server asks of its client. Below:
basic/patterns/tasks.py
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar

from ...basic.meta import EmptyResult
from ...basic.mrtr import InputRequest, read_input_requests
from ...codec import ShapeError, codec_for
from ...jsonrpc.errors import InvalidMessage, McpError, RemoteError, RequestTimeout
from ...jsonrpc.messages import Object
from ...revisions import Revision
from .types import (
    POLL_INTERVAL,
    Task,
    TaskRequestParams,
    UpdateTaskRequestParams,
    unknown_task,
)

T = TypeVar("T")
R = TypeVar("R")

MIN_POLL = 0.02
"""Seconds between two looks at a task, at least, whatever its server suggests."""

MAX_POLL = 60.0
"""Seconds between two looks at a task, at most."""

MAX_FOLLOWED = 7 * 24 * 3600.0
"""Seconds that a task is waited for which its server keeps for ever, by default (a week)."""

MAX_TASK_QUESTIONS = 1000
"""Questions that one task may ask of us."""

CANCEL_SECONDS = 5.0
"""Seconds that cancelling a task nobody waits for any more may take."""


class Ask(Protocol):
    """Sends a request, and reads its result."""

    async def __call__(self, method: str, params: object, result: type[R], timeout: float | None) -> R:
        """timeout: seconds; None for what is usual."""


Answer = Callable[[InputRequest], Awaitable[Object]]
"""Answers what a task asks of the requestor."""


class RunningTask(Generic[T]):
    """A request that the other side serves as a task; or one that it has answered at once, which is over already."""

    def __init__(
        self,
        ask: Ask,
        revision: Revision,
        task: Task | None,
        outcome: type[T],
        result: T | None = None,
        answer: Answer | None = None,
        check: Callable[[T], None] | None = None,
    ) -> None:
        self.task = task
        """How it was when we last looked; None for a request that never became a task."""
        self._ask = ask
        self._revision = revision
        self._outcome = outcome
        self._result = result
        self._answer = answer
        self._check = check
        self._answering: dict[str, asyncio.Task[None]] = {}

    @property
    def id(self) -> str | None:
        """The task's id, by which any client of the same owner finds it; None for a request that never became one."""
        return self.task.task_id if self.task is not None else None

    async def status(self) -> Task | None:
        """How it is now; None for a request that never became a task. Raises RemoteError where it is not known any
        more."""
        if self.task is not None and not self.task.is_over:
            self.task = await self._ask("tasks/get", TaskRequestParams(self.task.task_id), Task, None)
        return self.task

    async def cancel(self) -> None:
        """Ask for it to be stopped. One that is over stays as it is."""
        if self.task is None or self.task.is_over:
            return
        params = TaskRequestParams(self.task.task_id)
        if not self._revision.tasks_are_core:
            await self._ask("tasks/cancel", params, EmptyResult, None)
            return
        try:
            self.task = await self._ask("tasks/cancel", params, Task, None)
        except RemoteError as error:
            # [2025-11-25 basic/utilities/tasks#task-cancellation] it was over before: MUST be refused
            if error.code != unknown_task().code:
                raise

    async def result(self, timeout: float | None = None) -> T:
        """Wait until it is over, answering what it asks; gives what the request would have given.

        timeout: seconds; by default, as long as the task is kept. It may be asked for again, after a RequestTimeout
        too. Raises what the request would have raised, and McpError for a task that was cancelled.
        """
        if self._result is not None:
            return self._result
        assert self.task is not None
        kept = MAX_FOLLOWED if self.task.ttl is None else min(self.task.ttl / 1000 + MAX_POLL, MAX_FOLLOWED)
        seconds = kept if timeout is None else timeout
        try:
            async with asyncio.timeout(seconds):
                self._result = await (self._of_core() if self._revision.tasks_are_core else self._of_extension())
        except RequestTimeout:
            raise
        except TimeoutError:
            raise RequestTimeout(f"the task {self.id} is not over after {seconds} seconds") from None
        finally:
            await self._stop_answering()
        if self._check is not None:
            self._check(self._result)
        return self._result

    # ------------------------------------------------------------------------------------- looking

    async def _of_core(self) -> T:
        # [2025-11-25 basic/utilities/tasks#getting-tasks] SHOULD poll until it is over or wants something
        while (task := self._known).status == "working":
            await asyncio.sleep(_interval(task))
            await self.status()
        if task.status == "cancelled":
            raise _cancelled(task)
        while True:
            try:
                # [2025-11-25 basic/utilities/tasks#input-required-status] SHOULD preemptively call tasks/result
                return await self._ask("tasks/result", TaskRequestParams(task.task_id), self._outcome, None)
            except RequestTimeout:
                await self.status()  # if that is not answered either, it is what this raises

    async def _of_extension(self) -> T:
        while not (task := self._known).is_over:
            await self._wait(task)
            await self.status()
        if task.error is not None:
            code, message = task.error.get("code"), task.error.get("message")
            raise RemoteError(code if type(code) is int else 0, str(message), task.error.get("data"))
        if task.result is None:
            raise _cancelled(task) if task.status == "cancelled" else InvalidMessage(f"task {self.id} has no outcome")
        try:
            return codec_for(self._revision).decode(self._outcome, task.result)
        except ShapeError as error:
            raise InvalidMessage(f"the result of task {self.id} has the wrong shape: {error}") from None

    @property
    def _known(self) -> Task:
        assert self.task is not None
        return self.task

    async def _wait(self, task: Task) -> None:
        """Until it is time to look again: after a while, or when something that the task has asked is answered."""
        for key, question in read_input_requests({"inputRequests": task.input_requests or {}}).items():
            # The extension: SHOULD NOT answer a key twice, which is the same question as long as the task lives
            if key not in self._answering:
                self._answering[key] = asyncio.create_task(self._answer_one(key, question))
        if len(self._answering) > MAX_TASK_QUESTIONS:
            raise InvalidMessage(f"task {self.id} asks more than {MAX_TASK_QUESTIONS} questions")
        open_ = [each for each in self._answering.values() if not each.done()]
        if not open_:
            return await asyncio.sleep(_interval(task))
        done, _ = await asyncio.wait(open_, timeout=_interval(task), return_when=asyncio.FIRST_COMPLETED)
        for each in done:
            each.result()

    async def _answer_one(self, key: str, question: InputRequest) -> None:
        if self._answer is None:
            raise InvalidMessage(f"task {self.id} asks for {question.method[:80]}")
        params = UpdateTaskRequestParams(self._known.task_id, {key: await self._answer(question)})
        await self._ask("tasks/update", params, EmptyResult, None)

    async def _stop_answering(self) -> None:
        tasks = [each for each in self._answering.values() if not each.done()]
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._answering = {key: each for key, each in self._answering.items() if each not in tasks}


def give_up(running: RunningTask[T], kept: set[asyncio.Task[None]]) -> None:
    """Nobody waits for a task any more: have it cancelled, without waiting for that. kept: the attempts under way."""

    async def cancel() -> None:
        with contextlib.suppress(McpError, TimeoutError):
            async with asyncio.timeout(CANCEL_SECONDS):
                await running.cancel()

    attempt = asyncio.get_running_loop().create_task(cancel())
    kept.add(attempt)
    attempt.add_done_callback(kept.discard)


def _interval(task: Task) -> float:
    """Seconds until the next look."""
    # [2025-11-25 basic/utilities/tasks#getting-tasks] SHOULD respect the interval that the receiver suggests
    suggested = POLL_INTERVAL if task.poll_interval is None else task.poll_interval
    return min(max(suggested / 1000, MIN_POLL), MAX_POLL)


def _cancelled(task: Task) -> McpError:
    return McpError(f"the task was cancelled: {task.status_message or 'nobody says why'}")
