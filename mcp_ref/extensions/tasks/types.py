"""Tasks: requests that return a task id at once. The requestor fetches the result later.

Tasks are for long work, such as builds. An ordinary request occupies a connection until the work is done, and can
exceed time limits or lose its result if the connection breaks. A task continues without a connection. The *requestor*
sends the request. The *receiver* returns a task at once and then works. The requestor polls with `tasks/get`:

    working        -> input_required, completed, failed or cancelled
    input_required -> working, completed, failed or cancelled
    completed, failed and cancelled are terminal: the status of such a task never changes

                  2025-11-25: experimental part of the core      2026-07-28: extension (SEP-2663)
    decision      The requestor decides: params have `task`.     The server decides, if the client declares the
                  A receiver without the capability ignores      extension. For a tool that requires tasks, the server
                  `task`. Tools can refuse a task with -32601.   returns -32021 to other clients.
    requests      tools/call, sampling, elicitation              tools/call
    first result  `{"task": {...}}`                              fields of the task, and `"resultType": "task"`
    times in ms   `ttl`, `pollInterval`                          `ttlMs`, `pollIntervalMs`
    final result  The result of `tasks/result`, which waits      The field `result` or `error` in the result of
                  until the task is over.                        `tasks/get`, so no request has to wait.
    input         The receiver sends ordinary requests, here on  The field `inputRequests` in the result of `tasks/get`.
                  the response stream of `tasks/result`.         The client sends responses with `tasks/update`.
    `isError`     The status becomes `failed`.                   The status becomes `completed`.
    cancellation  Returns the task; -32602 if the task is over.  Returns {}; the server can still complete the task.
    list          `tasks/list`                                   No method, because tasks can be without an owner.
    notification  `notifications/tasks/status` (MAY)             `notifications/tasks` on `subscriptions/listen`

Security. An attacker who knows the id of a task could read its result. So receivers MUST bind a task to the
authorization context. A receiver that cannot do so MUST use ids that nobody can guess, and SHOULD NOT declare the
capability `tasks.list` [2025-11-25 basic/utilities/tasks#task-isolation-and-access-control]. Receivers SHOULD limit the
number of tasks and the `ttl`. Otherwise tasks fill the memory [2025-11-25 basic/utilities/tasks#resource-management].

Spec:  2025-11-25 basic/utilities/tasks; the extension io.modelcontextprotocol/tasks (SEP-2663) beside 2026-07-28
Wire:  {"jsonrpc": "2.0", "id": 3, "method": "tasks/get", "params": {"taskId": "786512e2"}}
       {"jsonrpc": "2.0", "id": 4, "method": "tasks/result", "params": {"taskId": "786512e2"}}
       {"jsonrpc": "2.0", "method": "notifications/tasks/status", "params": {"taskId": "786512e2", "status": "working",
        "createdAt": "2025-11-25T10:30:00Z", "lastUpdatedAt": "2025-11-25T10:30:00Z", "ttl": 60000}}
Used by: receiver.py, requestor.py
"""

from __future__ import annotations

import dataclasses
import json
import secrets
import time
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Annotated, Final, Literal, Protocol, cast

from ...basic.access import current_access
from ...basic.lifecycle import declares
from ...basic.versioning import MissingCapability
from ...features.task_augmentation import EXTENSION_CAPABILITY, TaskSupport
from ...jsonrpc.errors import ProtocolError
from ...jsonrpc.messages import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, Object
from ...revisions import R2026_07_28, Availability, Revision

_CLIENT_REQUESTS: Final[Object] = {"sampling": {"createMessage": {}}, "elicitation": {"create": {}}}
CLIENT_CAPABILITY: Final[Object] = {"list": {}, "cancel": {}, "requests": _CLIENT_REQUESTS}
"""The capability `tasks` of a client that runs sampling and elicitation as tasks (2025-11-25)."""

MAX_TASKS: Final = 1000
"""Default maximum number of tasks in a `MemoryTaskStore`, running or over."""

MAX_TASKS_PER_CALLER: Final = 100
"""Default maximum number of tasks of one caller in a `MemoryTaskStore`. Over HTTP, the caller is the principal or the
remote address (`Access.caller`); else it is the owner of the tasks."""

MAX_TASK_BYTES: Final = 64 * 1024 * 1024
"""Default maximum size of all results, errors, input requests and status messages, in bytes of JSON (64 MiB)."""

MAX_TTL: Final = 24 * 3600 * 1000
"""Maximum time from the creation of a task to its deletion, in milliseconds (a day)."""

DEFAULT_TTL: Final = 3600 * 1000
"""Default time from the creation of a task to its deletion, in milliseconds (an hour)."""

DEFAULT_POLL_INTERVAL: Final = 1000
"""Default time between two `tasks/get` requests, in milliseconds."""

PAGE_SIZE: Final = 100
"""Maximum number of tasks in one page of `tasks/list`."""

TaskStatus = Literal["working", "input_required", "completed", "failed", "cancelled"]

TASK_METHODS: Final = frozenset({"tools/call"})
"""The methods whose requests can become tasks in the extension."""

TERMINAL_STATUSES: Final = frozenset({"completed", "failed", "cancelled"})
"""The statuses of a task that is over."""


@dataclass
class Task:
    """The state of a task. Timestamps are strings in ISO 8601."""

    task_id: str
    status: TaskStatus
    created_at: str
    last_updated_at: str
    ttl: int | None
    """Time from the creation of the task to its deletion, in milliseconds; None for no limit."""
    poll_interval: int | None = None
    """Suggested time between two `tasks/get` requests, in milliseconds."""
    status_message: str | None = None
    """A description of the state, for people."""
    input_requests: Annotated[Object | None, Availability(since=R2026_07_28)] = None
    """The requests that the requestor has not responded to: key -> request. Not in the JSON of 2025-11-25."""
    result: Annotated[Object | None, Availability(since=R2026_07_28)] = None
    """The result, if the status is `completed`, or `failed` because of `isError`. Not in the JSON of 2025-11-25."""
    error: Annotated[Object | None, Availability(since=R2026_07_28)] = None
    """The JSON-RPC error, if the request failed with an error instead of a result. Not in the JSON of 2025-11-25."""
    meta: Object | None = None

    @property
    def is_over(self) -> bool:
        """True if the status is terminal."""
        return self.status in TERMINAL_STATUSES

    def to_wire(self, wire: Object, revision: Revision) -> Object:
        """Rename `ttl` to `ttlMs` and `pollInterval` to `pollIntervalMs` for the extension."""
        return wire if revision.tasks_are_core else {_EXTENSION_NAMES.get(name, name): wire[name] for name in wire}

    @staticmethod
    def from_wire(wire: Object, revision: Revision) -> Object:
        return wire if revision.tasks_are_core else {_CORE_NAMES.get(name, name): wire[name] for name in wire}


_EXTENSION_NAMES = {"ttl": "ttlMs", "pollInterval": "pollIntervalMs"}
_CORE_NAMES = {new: old for old, new in _EXTENSION_NAMES.items()}


@dataclass
class CreateTaskResult:
    """The first result of a request that has become a task. The task MUST be in the store before the result is sent."""

    task: Task
    meta: Object | None = None

    def to_wire(self, wire: Object, revision: Revision) -> Object:
        """Put the fields of the task beside `resultType` for the extension."""
        if revision.tasks_are_core:
            return wire
        return {"resultType": "task", **cast(Object, wire.pop("task")), **wire}

    @staticmethod
    def from_wire(wire: Object, revision: Revision) -> Object:
        return wire if revision.tasks_are_core else {"task": wire}


@dataclass
class TaskRequestParams:
    """The params of `tasks/get`, `tasks/result` and `tasks/cancel`."""

    task_id: str
    meta: Object | None = None


@dataclass
class UpdateTaskRequestParams:
    """The responses to a task's `input_requests`. Each response has the key of its request."""

    task_id: str
    input_responses: dict[str, Object]
    meta: Object | None = None


@dataclass
class GetTaskPayloadResult:
    """The result of `tasks/result`: the result that the request would have without a task."""

    payload: Object

    def to_wire(self, wire: Object, revision: Revision) -> Object:
        return self.payload

    @staticmethod
    def from_wire(wire: Object, revision: Revision) -> Object:
        return {"payload": wire}


@dataclass
class ListTasksResult:
    tasks: list[Task]
    next_cursor: str | None = None
    meta: Object | None = None


def timestamp(now: float) -> str:
    """Return a time as a string in ISO 8601. `now` is in seconds since the epoch."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now * 1000) % 1000:03}Z"


def chosen_ttl(wanted: int | None) -> int:
    """Return the `ttl` of a new task, in milliseconds. `wanted` is the requested `ttl`; None for the default."""
    # [2025-11-25 basic/utilities/tasks#ttl-and-resource-management] MAY override the requested `ttl`
    return DEFAULT_TTL if wanted is None else min(max(wanted, DEFAULT_POLL_INTERVAL), MAX_TTL)


def new_task(ttl: int, poll_interval: int, now: float) -> Task:
    """Return a new task with a random id. `ttl` and `poll_interval` are in milliseconds, `now` is in seconds."""
    # [2025-11-25 basic/utilities/tasks#task-isolation-and-access-control] MUST have an id that nobody can guess
    id, at = secrets.token_urlsafe(24), timestamp(now)
    # [2025-11-25 basic/utilities/tasks#task-status-lifecycle] MUST begin with the status working
    return Task(id, "working", at, at, ttl, poll_interval)


def with_status(
    task: Task,
    status: TaskStatus,
    now: float,
    message: str | None = None,
    *,
    input_requests: Object | None = None,
    result: Object | None = None,
    error: Object | None = None,
) -> Task:
    """Return a copy of the task with a new status, input requests, result and error. Raise ValueError if it is over.

    `now` is in seconds since the epoch. Without a `message`, the old message stays if `status` is not terminal.
    """
    # [2025-11-25 basic/utilities/tasks#task-status-lifecycle] a terminal status MUST NOT change
    if task.is_over:
        raise ValueError(f"the status of a task cannot change from {task.status} to {status}")
    if message is None and status not in TERMINAL_STATUSES:
        message = task.status_message
    task = dataclasses.replace(task, status=status, last_updated_at=timestamp(now), status_message=message)
    return dataclasses.replace(task, input_requests=input_requests, result=result, error=error)


def becomes_task(support: TaskSupport, wanted: bool, revision: Revision, capabilities: Object) -> bool:
    """Return True if a tool call becomes a task. `wanted` is True if the params have `task`.

    Raise ProtocolError if the tool forbids the task that the params request. If the tool requires a task, raise
    ProtocolError if the params do not request a task or, in 2026-07-28, the client's `capabilities` lack the extension.
    """
    if revision.tasks_are_core:
        if wanted and support == "forbidden":
            # [2025-11-25 basic/utilities/tasks#tool-level-negotiation] SHOULD be -32601
            raise ProtocolError(METHOD_NOT_FOUND, "Method not found: this tool cannot be called as a task")
        if wanted:
            return True
    elif revision.era == "modern":
        if declares(capabilities, EXTENSION_CAPABILITY):
            return support != "forbidden"
        if support == "required":
            raise MissingCapability(EXTENSION_CAPABILITY)
    if support == "required":
        # [2025-11-25 basic/utilities/tasks#tool-level-negotiation] MUST be -32601
        raise ProtocolError(METHOD_NOT_FOUND, "Method not found: this tool can only be called as a task")
    return False


def unknown_task() -> ProtocolError:
    """Return the error for a task that is unknown, is expired, or has another owner."""
    # [2025-11-25 basic/utilities/tasks#protocol-errors] MUST be -32602. The text must not reveal if an id exists
    return ProtocolError(INVALID_PARAMS, "Invalid params: no such task, or the task has expired")


class TaskStore(Protocol):
    """A store of tasks, running or over.

    A task without an owner has the owner "". Every client with the same owner "" can read such a task by its id.
    The methods run on the event loop, so they must return quickly. Several processes can share a store. Then every
    process can return the status of a task. But `tasks/update` and `tasks/cancel` must reach the process of the task.
    """

    def put(self, task: Task, owner: str, expires_at: float) -> Collection[str]:
        """Store a new or changed task.

        Args:
            task: the task, which replaces the stored task with the same id.
            owner: the task's owner.
            expires_at: time of expiry, in seconds since the epoch.

        Returns:
            The ids of the ended tasks that the store removed to make room.

        Raises:
            ProtocolError: the store is full.
        """

    def get(self, id: str, owner: str) -> Task | None:
        """Return a task, or None if the task is unknown, is expired, or has another owner.

        Args:
            id: the task's id.
            owner: the task's owner, as in `put`.
        """

    def page(self, owner: str, cursor: str | None) -> tuple[list[Task], str | None]:
        """Return one page of the owner's tasks, and the next cursor (None after the last page).

        Args:
            owner: the tasks' owner, as in `put`.
            cursor: the next cursor that the call for the previous page returned; None for the first page.

        Raises:
            ProtocolError: the cursor is unknown.
        """

    def remove(self, id: str) -> None:
        """Remove a task. Do nothing if the store does not have the task.

        Args:
            id: the task's id.
        """


@dataclass(slots=True)
class _StoredTask:
    task: Task
    owner: str
    caller: str
    expires_at: float
    size: int
    serial: int


class MemoryTaskStore(TaskStore):
    """A store of tasks in the memory of this process.

    A full store removes the oldest ended task of the caller whose tasks need most memory. A caller at its own limit
    loses its own oldest ended task. If no task has ended, the store refuses the new task, or the larger result.

    Args:
        max_tasks: maximum number of tasks.
        max_tasks_per_caller: maximum number of tasks of one caller (see `MAX_TASKS_PER_CALLER`).
        max_bytes: maximum total size of results, errors, input requests and status messages, in bytes of JSON.
        clock: function that returns the time, in seconds since the epoch.
    """

    def __init__(
        self,
        max_tasks: int = MAX_TASKS,
        max_tasks_per_caller: int = MAX_TASKS_PER_CALLER,
        max_bytes: int = MAX_TASK_BYTES,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._max_tasks, self._max_tasks_per_caller, self._max_bytes = max_tasks, max_tasks_per_caller, max_bytes
        self._clock = clock
        self._tasks: dict[str, _StoredTask] = {}
        self._bytes = 0
        self._serial = 0

    def put(self, task: Task, owner: str, expires_at: float) -> Collection[str]:
        removed = []
        if (before := self._tasks.get(task.task_id)) is None:
            access = current_access.get()
            caller = access.caller if access is not None else owner
            removed += self._make_place(caller)
            self._serial += 1
        else:
            caller = before.caller
        size = len(json.dumps([task.input_requests, task.result, task.error, task.status_message]))
        growth = size - (before.size if before is not None else 0)
        if growth > 0 and self._bytes + growth > self._max_bytes:
            ended = sum(kept.size for kept in self._tasks.values() if kept.task.is_over)
            if self._bytes + growth - ended > self._max_bytes:  # keep the ended tasks, because they do not suffice
                why = f"the store of tasks would exceed {self._max_bytes} bytes; retry later"
                raise ProtocolError(INTERNAL_ERROR, why)
            while self._bytes + growth > self._max_bytes:
                removed += self._remove_ended()
        serial = before.serial if before is not None else self._serial
        self._tasks[task.task_id] = _StoredTask(task, owner, caller, expires_at, size, serial)
        self._bytes += growth
        return removed

    def _make_place(self, caller: str) -> list[str]:
        """Remove an ended task if a new task needs its place. Return its id. Raise ProtocolError if none has ended."""
        # [2025-11-25 basic/utilities/tasks#resource-management] SHOULD limit tasks, and remove expired tasks
        now = self._clock()
        for id in [id for id, kept in self._tasks.items() if kept.expires_at <= now]:
            self.remove(id)
        if sum(kept.caller == caller for kept in self._tasks.values()) >= self._max_tasks_per_caller:
            removed, why = self._remove_ended(caller), f"you already have {self._max_tasks_per_caller} tasks"
        elif len(self._tasks) >= self._max_tasks:
            removed, why = self._remove_ended(), f"the store of tasks is full ({self._max_tasks} tasks)"
        else:
            return []
        if not removed:
            raise ProtocolError(INTERNAL_ERROR, f"{why}; retry later")
        return removed

    def _remove_ended(self, caller: str | None = None) -> list[str]:
        """Remove the oldest ended task of a caller, by default of the one whose ended tasks need most memory."""
        ended = [kept for kept in self._tasks.values() if kept.task.is_over and caller in (None, kept.caller)]
        if not ended:
            return []
        needed: Counter[str] = Counter()
        for kept in ended:  # a task without a result needs memory too
            needed[kept.caller] += kept.size + self._max_bytes // self._max_tasks
        largest = needed.most_common(1)[0][0]
        id = next(kept.task.task_id for kept in ended if kept.caller == largest)
        self.remove(id)
        return [id]

    def get(self, id: str, owner: str) -> Task | None:
        kept = self._tasks.get(id)
        # [2025-11-25 basic/utilities/tasks#task-isolation-and-access-control] MUST NOT return tasks of another owner
        return kept.task if kept is not None and kept.owner == owner and kept.expires_at > self._clock() else None

    def page(self, owner: str, cursor: str | None) -> tuple[list[Task], str | None]:
        if cursor is not None and not (cursor.isascii() and cursor.isdigit() and len(cursor) < 20):
            raise ProtocolError(INVALID_PARAMS, "Invalid params: unknown cursor; use the previous page's nextCursor")
        after, now = int(cursor or 0), self._clock()
        found = [kept for kept in self._tasks.values() if kept.owner == owner and kept.expires_at > now]
        rest = [kept for kept in found if kept.serial > after]
        # [2025-11-25 basic/utilities/tasks#task-listing] MUST have nextCursor if more tasks follow
        following = str(rest[PAGE_SIZE - 1].serial) if len(rest) > PAGE_SIZE else None
        return [kept.task for kept in rest[:PAGE_SIZE]], following

    def remove(self, id: str) -> None:
        if (kept := self._tasks.pop(id, None)) is not None:
            self._bytes -= kept.size
