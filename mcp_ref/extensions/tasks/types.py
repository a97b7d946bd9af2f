"""Tasks: requests that return a handle at once, and whose result is fetched later.

Tasks are for long work: builds, batch jobs, approvals. A request that waits so long ties up a connection, exceeds
timeouts, and is lost with the connection. A task outlives the connection. The *requestor* sends the request. The
*receiver* returns a task at once, and goes on working. The requestor polls the status (`tasks/get`):

    working <-> input_required
       both -> completed | failed | cancelled (terminal: they never change)

                  2025-11-25, part of the core, experimental     2026-07-28, extension (SEP-2663)
    decided by    the requestor: `task: {ttl}` in the params,    the server, for a client that declares the extension;
                  if capability and `execution.taskSupport`      no flag in the request, no look at the list of tools
                  allow it. Otherwise -32601                     first. A tool that needs tasks: -32021 to others
    requests      tools/call; to a client: sampling, elicitation tools/call
    first result  `{"task": {...}}`                              the task itself, `"resultType": "task"`
    times, in ms  `ttl`, `pollInterval`                          `ttlMs`, `pollIntervalMs`
    final result  `tasks/result` blocks until the end            in `tasks/get`: `result` or `error`
    input         ordinary requests, on the stream of            `inputRequests` in `tasks/get`; the client sends the
                  `tasks/result`                                 responses with `tasks/update`
    isError       status `failed`                                status `completed`: `failed` is for JSON-RPC errors
    cancel        returns the task; -32602 if it is over         empty result; the server may still finish the task
    list          `tasks/list`                                   removed: without sessions, a list lacks an owner
    notification  `notifications/tasks/status`, MAY              `notifications/tasks`, with `taskIds` in
                                                                 `subscriptions/listen`

The extension only polls, because `tasks/result` kept connections open, and because servers no longer send requests.

Security. A task id gives access to a result. Receivers MUST bind a task to the authorization context. A receiver that
cannot do so MUST have unguessable ids, and SHOULD NOT declare the capability `tasks.list`
[2025-11-25 basic/utilities/tasks#task-isolation-and-access-control]. Receivers SHOULD limit the number of tasks and
their `ttl`, because forgotten tasks would fill the memory [2025-11-25 basic/utilities/tasks#resource-management].

Spec:  2025-11-25 basic/utilities/tasks; the extension io.modelcontextprotocol/tasks (SEP-2663) beside 2026-07-28
Wire:  {"jsonrpc": "2.0", "id": 3, "method": "tasks/get", "params": {"taskId": "786512e2"}}
       {"jsonrpc": "2.0", "id": 4, "method": "tasks/result", "params": {"taskId": "786512e2"}}
       {"jsonrpc": "2.0", "method": "notifications/tasks/status", "params": {"taskId": "786512e2", "status": "working",
        "createdAt": "2025-11-25T10:30:00Z", "lastUpdatedAt": "2025-11-25T10:30:00Z", "ttl": 60000}}
Above: receiver.py runs tasks, requestor.py follows them
"""

from __future__ import annotations

import dataclasses
import json
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Final, Literal, Protocol, cast

from ...basic.lifecycle import declares
from ...basic.versioning import MissingCapability
from ...features.task_augmentation import TaskSupport
from ...jsonrpc.errors import ProtocolError
from ...jsonrpc.messages import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, Object
from ...revisions import R2026_07_28, Availability, Revision

EXTENSION: Final = "io.modelcontextprotocol/tasks"
"""The name of the extension, in the capabilities of both sides since 2026-07-28."""

EXTENSION_CAPABILITY: Final = f"extensions.{EXTENSION}"

SERVER_CAPABILITY: Final[Object] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
"""The capability `tasks` in 2025-11-25 of a server whose tools can be called as tasks."""

_CLIENT_REQUESTS: Final[Object] = {"sampling": {"createMessage": {}}, "elicitation": {"create": {}}}
CLIENT_CAPABILITY: Final[Object] = {"list": {}, "cancel": {}, "requests": _CLIENT_REQUESTS}
"""The capability `tasks` in 2025-11-25 of a client that serves requests as tasks."""

MAX_TASKS: Final = 1000
"""Maximum number of tasks in the memory store, running and ended."""

MAX_TASKS_PER_OWNER: Final = 100
"""Maximum number of tasks of one owner in the memory store. Tasks without an owner have no such limit."""

MAX_TASK_BYTES: Final = 64 * 1024 * 1024
"""Maximum total size of the results, errors and input requests in the memory store, in bytes of JSON (64 MiB)."""

MAX_TTL: Final = 24 * 3600 * 1000
"""Maximum time to keep a task, in milliseconds (a day)."""

DEFAULT_TTL: Final = 3600 * 1000
"""Default time to keep a task, in milliseconds (an hour)."""

DEFAULT_POLL_INTERVAL: Final = 1000
"""Default time between two `tasks/get`, in milliseconds."""

PAGE_SIZE: Final = 100
"""Number of tasks in one page of `tasks/list`."""

TaskStatus = Literal["working", "input_required", "completed", "failed", "cancelled"]

TASK_METHODS: Final = frozenset({"tools/call"})
"""The requests that the extension lets a server serve as tasks."""

TERMINAL_STATUSES: Final = frozenset({"completed", "failed", "cancelled"})
"""The statuses that never change."""


@dataclass
class Task:
    """The state of a task. Points in time are texts in ISO 8601."""

    task_id: str
    status: TaskStatus
    created_at: str
    last_updated_at: str
    ttl: int | None
    """Time to keep the task, from its creation, in milliseconds; None for no limit."""
    poll_interval: int | None = None
    """Suggested time between two `tasks/get`, in milliseconds."""
    status_message: str | None = None
    """A description of the state, for people."""
    input_requests: Annotated[Object | None, Availability(since=R2026_07_28)] = None
    """The requests that the task waits for: key -> request. 2025-11-25 sends them as ordinary requests."""
    result: Annotated[Object | None, Availability(since=R2026_07_28)] = None
    """The result of the request, once completed. 2025-11-25 sends it for `tasks/result`."""
    error: Annotated[Object | None, Availability(since=R2026_07_28)] = None
    """The JSON-RPC error of the request, once failed. 2025-11-25 sends it for `tasks/result`."""
    meta: Object | None = None

    @property
    def is_over(self) -> bool:
        """True if the status is terminal."""
        return self.status in TERMINAL_STATUSES

    def to_wire(self, wire: Object, revision: Revision) -> Object:
        """Write the extension's names with units: `ttlMs`, `pollIntervalMs`."""
        return (
            wire if revision.tasks_are_core else {_EXTENSION_FIELD_NAMES.get(name, name): wire[name] for name in wire}
        )

    @staticmethod
    def from_wire(wire: Object, revision: Revision) -> Object:
        return wire if revision.tasks_are_core else {_CORE_FIELD_NAMES.get(name, name): wire[name] for name in wire}


_EXTENSION_FIELD_NAMES = {"ttl": "ttlMs", "pollInterval": "pollIntervalMs"}
_CORE_FIELD_NAMES = {new: old for old, new in _EXTENSION_FIELD_NAMES.items()}


@dataclass
class CreateTaskResult:
    """The first result of a request that has become a task. `tasks/get` MUST find the task before this is sent."""

    task: Task
    meta: Object | None = None

    def to_wire(self, wire: Object, revision: Revision) -> Object:
        """Write the extension's shape: the task itself is the result, with `resultType`."""
        if revision.tasks_are_core:
            return wire
        return {"resultType": "task", **cast(Object, wire.pop("task")), **wire}

    @staticmethod
    def from_wire(wire: Object, revision: Revision) -> Object:
        return wire if revision.tasks_are_core else {"task": wire}


@dataclass
class TaskRequestParams:
    """The id of the task to get, wait for, or cancel."""

    task_id: str
    meta: Object | None = None


@dataclass
class UpdateTaskRequestParams:
    """The responses to a task's `input_requests`, under the same keys."""

    task_id: str
    input_responses: dict[str, Object]
    meta: Object | None = None


@dataclass
class GetTaskPayloadResult:
    """The result of `tasks/result`: the result that the request would have had without a task."""

    payload: Object

    def to_wire(self, wire: Object, revision: Revision) -> Object:
        return self.payload

    @staticmethod
    def from_wire(wire: Object, revision: Revision) -> Object:
        return {"payload": wire}


@dataclass
class ListTasksResult:
    """One page of the requestor's tasks."""

    tasks: list[Task]
    next_cursor: str | None = None
    meta: Object | None = None


def timestamp(now: float) -> str:
    """Return the ISO 8601 text of a time in seconds since the epoch."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now * 1000) % 1000:03}Z"


def chosen_ttl(wanted: int | None) -> int:
    """Return the time to keep a task, in milliseconds: from `DEFAULT_POLL_INTERVAL` to `MAX_TTL`."""
    # [2025-11-25 basic/utilities/tasks#ttl-and-resource-management] MAY override the requested ttl
    return DEFAULT_TTL if wanted is None else min(max(wanted, DEFAULT_POLL_INTERVAL), MAX_TTL)


def new_task(ttl: int, poll_interval: int, now: float) -> Task:
    """Return a new task with a random id. `now` is in seconds since the epoch."""
    # [2025-11-25 basic/utilities/tasks#task-isolation-and-access-control] MUST have enough entropy not to be guessed
    id, at = secrets.token_urlsafe(24), timestamp(now)
    # [2025-11-25 basic/utilities/tasks#task-status-lifecycle] MUST begin as working
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
    """Return the task in another status. Raise ValueError if the present status is terminal.

    `now` is in seconds since the epoch. A `message` of None keeps the present message, unless `status` is terminal.
    """
    # [2025-11-25 basic/utilities/tasks#task-status-lifecycle] a terminal status MUST NOT change
    if task.is_over:
        raise ValueError(f"a task cannot go from {task.status} to {status}")
    if message is None and status not in TERMINAL_STATUSES:
        message = task.status_message
    task = dataclasses.replace(task, status=status, last_updated_at=timestamp(now), status_message=message)
    return dataclasses.replace(task, input_requests=input_requests, result=result, error=error)


def becomes_task(support: TaskSupport, wanted: bool, revision: Revision, capabilities: Object) -> bool:
    """Return True if a tool call becomes a task. Raise ProtocolError if the tool's support for tasks forbids the call.

    `wanted` is True if the params have `task`. `capabilities` are those of the client.
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


def owner_of(principal: str | None, era: str, session: str = "") -> str:
    """Return the owner of new tasks: the principal, else the session, else "" for no owner.

    A principal's owner includes the era, because neither era can serve the tasks of the other era.
    """
    # [2025-11-25 basic/utilities/tasks#task-isolation-and-access-control] MUST bind tasks to the authorization context
    return f"{era}:{principal}" if principal is not None else session and f"session:{session}"


def unknown_task() -> ProtocolError:
    """Return the error for a task that is unknown, is expired, or has another owner."""
    # [2025-11-25 basic/utilities/tasks#protocol-errors] MUST be -32602, also for the tasks of other owners
    return ProtocolError(INVALID_PARAMS, "Invalid params: there is no such task, or it has expired")


class TaskStore(Protocol):
    """A store of tasks, running and ended, by id and owner. Access to tasks without an owner ("") needs only the id.

    The methods run on the event loop, so they must return quickly. Several processes may share a store. Each process
    can return the status of any task, but only the process that runs a task takes its input and cancellation.
    """

    def put(self, task: Task, owner: str, expires_at: float) -> None:
        """Keep a new or changed task.

        Args:
            task: replaces the stored task with the same id.
            owner: the owner, without whom `get` does not return the task.
            expires_at: time of expiry, in seconds since the epoch.

        Raises:
            ProtocolError: the store is full.
        """

    def get(self, id: str, owner: str) -> Task | None:
        """Return a task, or None if the task is unknown, is expired, or has another owner.

        Args:
            id: the task's id.
            owner: the owner that the task was stored with.
        """

    def page(self, owner: str, cursor: str | None) -> tuple[list[Task], str | None]:
        """Return one page of the owner's tasks, and the next cursor (None after the last page).

        Args:
            owner: the owner that the tasks were stored with.
            cursor: the cursor that the previous page returned; None for the first page.

        Raises:
            ProtocolError: the cursor is unknown.
        """

    def remove(self, id: str) -> None:
        """Remove a task, if it is stored.

        Args:
            id: the task's id.
        """


@dataclass(slots=True)
class _StoredTask:
    task: Task
    owner: str
    expires_at: float
    size: int
    serial: int


class MemoryTaskStore(TaskStore):
    """A store of tasks in the memory of this process. A full store refuses new tasks, and keeps all old tasks.

    Args:
        max_tasks: maximum number of tasks.
        max_tasks_per_owner: maximum number of tasks of one owner; tasks without an owner are not limited.
        max_bytes: maximum total size of results, errors and input requests, in bytes of JSON.
        clock: returns the time, in seconds since the epoch.
    """

    def __init__(
        self,
        max_tasks: int = MAX_TASKS,
        max_tasks_per_owner: int = MAX_TASKS_PER_OWNER,
        max_bytes: int = MAX_TASK_BYTES,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._max_tasks, self._max_tasks_per_owner, self._max_bytes = max_tasks, max_tasks_per_owner, max_bytes
        self._clock = clock
        self._tasks: dict[str, _StoredTask] = {}
        self._bytes = 0
        self._serial = 0

    def put(self, task: Task, owner: str, expires_at: float) -> None:
        if (before := self._tasks.get(task.task_id)) is None:
            self._check_space(owner)
            self._serial += 1
        size = len(json.dumps([task.input_requests, task.result, task.error, task.status_message]))
        grown = self._bytes + size - (before.size if before is not None else 0)
        if grown > self._max_bytes and (before is None or size > before.size):
            raise ProtocolError(INTERNAL_ERROR, "the store of tasks has no room for this result; retry later")
        serial = before.serial if before is not None else self._serial
        self._tasks[task.task_id] = _StoredTask(task, owner, expires_at, size, serial)
        self._bytes = grown

    def _check_space(self, owner: str) -> None:
        # [2025-11-25 basic/utilities/tasks#resource-management] SHOULD limit tasks, and remove expired ones
        now = self._clock()
        for id in [id for id, kept in self._tasks.items() if kept.expires_at <= now]:
            self.remove(id)
        if len(self._tasks) >= self._max_tasks:
            raise ProtocolError(INTERNAL_ERROR, f"the store of tasks is full ({self._max_tasks} tasks); retry later")
        if owner and sum(kept.owner == owner for kept in self._tasks.values()) >= self._max_tasks_per_owner:
            raise ProtocolError(INTERNAL_ERROR, f"you already have {self._max_tasks_per_owner} tasks; retry later")

    def get(self, id: str, owner: str) -> Task | None:
        kept = self._tasks.get(id)
        # [2025-11-25 basic/utilities/tasks#task-isolation-and-access-control] MUST reject the tasks of another context
        return kept.task if kept is not None and kept.owner == owner and kept.expires_at > self._clock() else None

    def page(self, owner: str, cursor: str | None) -> tuple[list[Task], str | None]:
        if cursor is not None and not (cursor.isascii() and cursor.isdigit() and len(cursor) < 20):
            raise ProtocolError(INVALID_PARAMS, "Invalid params: unknown cursor; use the last page's nextCursor")
        after, now = int(cursor or 0), self._clock()
        found = [kept for kept in self._tasks.values() if kept.owner == owner and kept.expires_at > now]
        rest = [kept for kept in found if kept.serial > after]
        # [2025-11-25 basic/utilities/tasks#task-listing] MUST have nextCursor if there are more
        following = str(rest[PAGE_SIZE - 1].serial) if len(rest) > PAGE_SIZE else None
        return [kept.task for kept in rest[:PAGE_SIZE]], following

    def remove(self, id: str) -> None:
        if (kept := self._tasks.pop(id, None)) is not None:
            self._bytes -= kept.size
