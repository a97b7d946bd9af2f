"""Store of tasks: the receiver keeps each task here until it expires, so that the requestor can fetch its result.

`TaskStore` is the interface, so that an author can keep the tasks elsewhere. `MemoryTaskStore` is the default.

Threats:
    task-memory: A client fills the server's memory, and displaces the results of others, by starting tasks with large
        results that it never fetches. The store limits the tasks of one caller in number and in bytes.

Spec:  2025-11-25 basic/utilities/tasks; the extension io.modelcontextprotocol/tasks (SEP-2663) beside 2026-07-28
Used by: live_task.py, receiver.py. Uses: types.py
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from ...basic.access import current_access
from ...features.pagination import cursor_of, serial_of
from ...jsonrpc.errors import ProtocolError
from ...jsonrpc.messages import INTERNAL_ERROR
from ...lib.fields import check_arguments
from ...lib.shares import memory_of
from .types import Task

MAX_TASKS: Final = 1000
"""Default maximum number of tasks in a `MemoryTaskStore`, running or over."""

MAX_TASKS_PER_CALLER: Final = 100
"""Default maximum number of tasks of one caller in a `MemoryTaskStore`. Over HTTP, the caller is the principal or the
remote address (`Access.caller`); else it is the owner of the tasks."""

MAX_TASK_BYTES: Final = 256 * 1024 * 1024
"""Default maximum memory of all results, errors, input requests and status messages, in bytes (256 MiB)."""

MAX_TASK_BYTES_PER_CALLER: Final = 64 * 1024 * 1024
"""Default maximum memory of one caller's results, errors, input requests and status messages, in bytes (64 MiB)."""

PAGE_SIZE: Final = 100
"""Maximum number of tasks in one page of `tasks/list`."""


class TaskStore(Protocol):
    """A store of tasks, running or over.

    A task without an owner has the owner "", and every client whose owner is "" too can read it if it knows the id.
    The methods run on the event loop, so they must return quickly. For a database that several processes share, derive
    from `AsyncTaskStore` instead (async_store.py). With a `TaskStore`, `tasks/update` and `tasks/cancel` must reach the
    process that runs the task. With `Server(node=...)`, the task's id begins with the name of that process, so a load
    balancer can find the process by the header `Mcp-Name`, which contains the id.

    Args of methods:
        id: the task's id.
        owner: the task's owner.
    """

    def put(self, task: Task, owner: str, expires_at: float) -> None:
        """Store a new or changed task.

        Args:
            task: the task, which replaces the stored task with the same id.
            expires_at: time of expiry, in seconds since the epoch. The store itself removes an expired task.

        Raises:
            ProtocolError: the store is full.
        """

    def get(self, id: str, owner: str) -> Task | None:
        """Return a task, or None if the task is unknown, has expired, or has another owner."""

    def page(self, owner: str, cursor: str | None) -> tuple[list[Task], str | None]:
        """Return one page of the owner's tasks, and the next cursor (None after the last page).

        Args:
            cursor: the next cursor that the call for the previous page returned; None for the first page.

        Raises:
            ProtocolError: the cursor is unknown.
        """

    def remove(self, id: str) -> None:
        """Remove a task. Do nothing if the store does not have the task."""


@dataclass(slots=True)
class _KeptTask:
    task: Task
    owner: str
    caller: str
    expires_at: float  # in seconds since the epoch
    size: int  # memory of its contents, in bytes
    serial: int  # one more than that of the task created before it


class MemoryTaskStore(TaskStore):
    """A store of tasks in the memory of this process.

    A caller at its own limit, in tasks or in bytes, loses its oldest ended tasks. A full store removes the oldest ended
    tasks of the caller whose ended tasks need the most memory. Without enough ended tasks, the store refuses the new
    task, or the larger result. An expired task is hidden at once, and removed when the next task is created.

    Args:
        max_tasks: maximum number of tasks.
        max_tasks_per_caller: maximum number of tasks of one caller (see `MAX_TASKS_PER_CALLER`).
        max_bytes: maximum memory of all tasks, in bytes, as estimated by `memory_of` (see `MAX_TASK_BYTES`).
        max_bytes_per_caller: maximum memory of one caller's tasks, in bytes.
        clock: function that returns the time, in seconds since the epoch.
    """

    def __init__(
        self, max_tasks: int = MAX_TASKS, max_tasks_per_caller: int = MAX_TASKS_PER_CALLER,
        max_bytes: int = MAX_TASK_BYTES, clock: Callable[[], float] = time.time,
        max_bytes_per_caller: int = MAX_TASK_BYTES_PER_CALLER,
    ) -> None:  # fmt: skip
        check_arguments(MemoryTaskStore.__init__, locals())
        self._max_tasks, self._max_tasks_per_caller, self._max_bytes = max_tasks, max_tasks_per_caller, max_bytes
        self._max_bytes_per_caller, self._clock = max_bytes_per_caller, clock
        self._tasks: dict[str, _KeptTask] = {}
        self._bytes = 0
        self._serial = 0

    def put(self, task: Task, owner: str, expires_at: float) -> None:
        contents = [task.input_requests, task.result, task.error, task.status_message]
        size = memory_of(json.dumps(contents, ensure_ascii=False).encode("utf-8", "surrogatepass"))
        old = self._tasks.get(task.task_id)
        if old is not None:
            caller, serial, growth = old.caller, old.serial, size - old.size
        else:
            access = current_access.get()
            caller = access.caller if access is not None else owner
            self._free_place(caller)
            self._serial += 1
            serial, growth = self._serial, size
        self._free_bytes(growth, self._max_bytes_per_caller, caller)
        self._free_bytes(growth, self._max_bytes)
        self._tasks[task.task_id] = _KeptTask(task, owner, caller, expires_at, size, serial)
        self._bytes += growth

    def _free_place(self, caller: str) -> None:
        """Remove expired tasks, and also an ended task if the caller's new task exceeds a limit on their number.

        Raise ProtocolError if such a limit is reached and no task has ended.
        """
        # [2025-11-25 basic/utilities/tasks#resource-management] SHOULD limit tasks, and remove expired tasks
        now = self._clock()
        for kept in [kept for kept in self._tasks.values() if kept.expires_at <= now]:
            self.remove(kept.task.task_id)
        if sum(kept.caller == caller for kept in self._tasks.values()) >= self._max_tasks_per_caller:
            if not self._remove_ended(caller):
                text = f"you already have {self._max_tasks_per_caller} tasks; retry later"
                raise ProtocolError(INTERNAL_ERROR, text)
        elif len(self._tasks) >= self._max_tasks and not self._remove_ended():
            raise ProtocolError(INTERNAL_ERROR, f"the store of tasks is full ({self._max_tasks} tasks); retry later")

    def _free_bytes(self, growth: int, limit: int, caller: str | None = None) -> None:
        """Remove ended tasks, of one caller or of all, until `growth` more bytes fit, or raise ProtocolError."""
        used = self._bytes
        if caller is not None:
            used = sum(kept.size for kept in self._tasks.values() if kept.caller == caller)
        excess = used + growth - limit
        if growth <= 0 or excess <= 0:
            return
        if sum(kept.size for kept in self._ended(caller)) < excess:
            tasks = "the store of tasks" if caller is None else "your tasks"
            raise ProtocolError(INTERNAL_ERROR, f"{tasks} would exceed {limit} bytes; retry later")
        most_bytes_kept = self._bytes - excess
        while self._bytes > most_bytes_kept:
            self._remove_ended(caller)

    def _ended(self, caller: str | None) -> list[_KeptTask]:
        """Return the ended tasks of a caller, or without a caller those of all, the oldest first."""
        ended = [kept for kept in self._tasks.values() if kept.task.is_over]
        return ended if caller is None else [kept for kept in ended if kept.caller == caller]

    def _remove_ended(self, caller: str | None = None) -> bool:
        """Remove the oldest ended task of a caller, by default the caller whose ended tasks need the most memory.

        Return False if no task has ended.
        """
        ended = self._ended(caller)
        if not ended:
            return False
        needed: Counter[str] = Counter()
        share_of_a_task = self._max_bytes // self._max_tasks  # counted too, because even an empty task fills a place
        for kept in ended:
            needed[kept.caller] += kept.size + share_of_a_task
        [(largest_caller, _)] = needed.most_common(1)
        self.remove(next(kept.task.task_id for kept in ended if kept.caller == largest_caller))
        return True

    def get(self, id: str, owner: str) -> Task | None:
        kept = self._tasks.get(id)
        # [2025-11-25 basic/utilities/tasks#task-isolation-and-access-control] we MUST NOT return tasks of other owners
        if kept is None or kept.owner != owner or kept.expires_at <= self._clock():
            return None
        return kept.task

    def page(self, owner: str, cursor: str | None) -> tuple[list[Task], str | None]:
        now = self._clock()
        previous = 0 if cursor is None else serial_of(cursor)  # the last serial of the previous page
        own = [kept for kept in self._tasks.values() if kept.owner == owner and kept.expires_at > now]
        unlisted = [kept for kept in own if kept.serial > previous]
        # [2025-11-25 basic/utilities/tasks#task-listing] a page MUST have nextCursor if more tasks follow
        next_cursor = cursor_of(unlisted[PAGE_SIZE - 1].serial) if len(unlisted) > PAGE_SIZE else None
        return [kept.task for kept in unlisted[:PAGE_SIZE]], next_cursor

    def remove(self, id: str) -> None:
        kept = self._tasks.pop(id, None)
        if kept is not None:
            self._bytes -= kept.size
