"""Tasks: requests that return a task id at once, and whose result the requestor fetches later.

The *requestor* sends a request, and the *receiver* (usually the server) returns a task before it does the work. Then
the requestor polls the task's status with `tasks/get`:

    working        -> input_required, completed, failed or cancelled
    input_required -> working, completed, failed or cancelled
    completed, failed and cancelled are terminal: the status of such a task never changes

                  2025-11-25: experimental part of the core      2026-07-28: extension (SEP-2663)
    decision      The requestor decides, by sending `task` in    The server decides, if the client declares the
                  the params. A receiver without the capability  extension. For a tool that requires tasks, the server
                  ignores it; a tool can refuse it with -32601.  returns -32021 to other clients.
    requests      tools/call, sampling, elicitation              tools/call
    first result  `{"task": {...}}`                              fields of the task, and `"resultType": "task"`
    times in ms   `ttl`, `pollInterval`                          `ttlMs`, `pollIntervalMs`
    final result  The result of `tasks/result`, which waits      The field `result` or `error` in the result of
                  until the task is over.                        `tasks/get`, so no request has to wait.
    input         The receiver sends ordinary requests, here on  The field `inputRequests` in the result of `tasks/get`.
                  the response stream of `tasks/result`.         The client sends responses with `tasks/update`.
    `isError`     The status becomes `failed`.                   The status becomes `completed`.
    cancellation  Returns the task; -32602 if the task is over.  Returns {}; the server can still complete the task.
    list          `tasks/list`                                   No method, because a task may have no owner.
    notification  `notifications/tasks/status` (MAY)             `notifications/tasks` on `subscriptions/listen`

Security. An attacker who knows the id of a task could read its result, so receivers MUST bind a task to the
authorization context. If a receiver cannot do so, it MUST use ids that nobody can guess, and SHOULD NOT declare the
capability `tasks.list` [2025-11-25 basic/utilities/tasks#task-isolation-and-access-control]. Because tasks take up
memory, receivers SHOULD limit their number and their `ttl` [2025-11-25 basic/utilities/tasks#resource-management].

Spec:  2025-11-25 basic/utilities/tasks; the extension io.modelcontextprotocol/tasks (SEP-2663) beside 2026-07-28
Wire:  {"jsonrpc": "2.0", "id": 3, "method": "tasks/get", "params": {"taskId": "786512e2"}}
       {"jsonrpc": "2.0", "id": 4, "method": "tasks/result", "params": {"taskId": "786512e2"}}
       {"jsonrpc": "2.0", "method": "notifications/tasks/status", "params": {"taskId": "786512e2", "status": "working",
        "createdAt": "2025-11-25T10:30:00Z", "lastUpdatedAt": "2025-11-25T10:30:00Z", "ttl": 60000}}
Used by: store.py, live_task.py, receiver.py, requestor.py
"""

from __future__ import annotations

import dataclasses
import secrets
import time
from dataclasses import dataclass
from typing import Annotated, Final, Literal, cast

from ...basic.lifecycle import declares
from ...basic.versioning import MissingCapability
from ...features.task_augmentation import TASKS_CAPABILITY, TaskSupport
from ...jsonrpc.errors import ProtocolError
from ...jsonrpc.messages import INVALID_PARAMS, METHOD_NOT_FOUND, Object
from ...revisions import R2026_07_28, Availability, Revision

CLIENT_TASKS: Final[Object] = {
    "list": {}, "cancel": {}, "requests": {"sampling": {"createMessage": {}}, "elicitation": {"create": {}}},
}  # fmt: skip
"""The capability `tasks` of a client that runs sampling and elicitation as tasks (2025-11-25)."""

MAX_TTL: Final = 24 * 3600 * 1000
"""Maximum time from the creation of a task to its deletion, in milliseconds (a day)."""

DEFAULT_TTL: Final = 3600 * 1000
"""Default time from the creation of a task to its deletion, in milliseconds (an hour)."""

DEFAULT_POLL_INTERVAL: Final = 1000
"""Default time between two `tasks/get` requests, in milliseconds."""

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
    """The requests that the requestor has not responded to yet, by key. Not in the JSON of 2025-11-25."""
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
        return wire if revision.built_in_tasks else _renamed(wire, _EXTENSION_NAMES)

    @staticmethod
    def from_wire(wire: Object, revision: Revision) -> Object:
        return wire if revision.built_in_tasks else _renamed(wire, _BUILT_IN_NAMES)


_EXTENSION_NAMES = {"ttl": "ttlMs", "pollInterval": "pollIntervalMs"}
_BUILT_IN_NAMES = {new: old for old, new in _EXTENSION_NAMES.items()}


def _renamed(wire: Object, names: dict[str, str]) -> Object:
    return {names.get(name, name): value for name, value in wire.items()}


@dataclass
class CreateTaskResult:
    """The result of a request that has become a task. The receiver MUST store the task before it sends this result."""

    task: Task
    meta: Object | None = None

    def to_wire(self, wire: Object, revision: Revision) -> Object:
        """Put the fields of the task beside `resultType` for the extension."""
        if revision.built_in_tasks:
            return wire
        task = cast(Object, wire.pop("task"))
        return {"resultType": "task", **task, **wire}

    @staticmethod
    def from_wire(wire: Object, revision: Revision) -> Object:
        return wire if revision.built_in_tasks else {"task": wire}


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
    """The result of `tasks/result`: the result that the request would have had without becoming a task."""

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
    """Return a time as a string in ISO 8601, with milliseconds. `now` is in seconds since the epoch."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now * 1000) % 1000:03}Z"


def chosen_ttl(requested: int | None) -> int:
    """Return the `ttl` of a new task, in milliseconds. Without a `requested` one, it is the default."""
    # [2025-11-25 basic/utilities/tasks#ttl-and-resource-management] the receiver MAY override the requested `ttl`.
    # A task that expired before its first `tasks/get` would be useless, so the minimum is one poll interval.
    return DEFAULT_TTL if requested is None else min(max(requested, DEFAULT_POLL_INTERVAL), MAX_TTL)


def new_task(ttl: int, poll_interval: int, now: float, id_prefix: str = "") -> Task:
    """Return a new task with a random id. `ttl` and `poll_interval` are in milliseconds, `now` is in seconds."""
    # [2025-11-25 basic/utilities/tasks#task-isolation-and-access-control] a task MUST have an id that nobody can guess
    id, created_at = id_prefix + secrets.token_urlsafe(24), timestamp(now)
    # [2025-11-25 basic/utilities/tasks#task-status-lifecycle] a task MUST begin with the status working
    return Task(id, "working", created_at, last_updated_at=created_at, ttl=ttl, poll_interval=poll_interval)


def with_status(
    task: Task, status: TaskStatus, now: float, message: str | None = None, *, input_requests: Object | None = None,
    result: Object | None = None, error: Object | None = None,
) -> Task:  # fmt: skip
    """Return a copy of the task with a new status and new contents. Raise ValueError if the task is over.

    `now` is in seconds since the epoch. Without a new `message`, a task that goes on keeps its old one.
    """
    # [2025-11-25 basic/utilities/tasks#task-status-lifecycle] a terminal status MUST NOT change
    if task.is_over:
        raise ValueError(f"the status of a task cannot change from {task.status} to {status}")
    if message is None and status not in TERMINAL_STATUSES:
        message = task.status_message
    task = dataclasses.replace(task, status=status, last_updated_at=timestamp(now), status_message=message)
    return dataclasses.replace(task, input_requests=input_requests, result=result, error=error)


def becomes_task(support: TaskSupport, requested: bool, revision: Revision, capabilities: Object) -> bool:
    """Return True if a tool call becomes a task. `requested` is True if the params have `task`.

    Raise ProtocolError if the tool forbids the task that the params request. If the tool requires a task, raise
    ProtocolError if the params do not request one or, in 2026-07-28, the client's `capabilities` lack the extension.
    """
    if revision.built_in_tasks and requested:
        if support == "forbidden":
            # [2025-11-25 basic/utilities/tasks#tool-level-negotiation] the error SHOULD be -32601
            raise ProtocolError(METHOD_NOT_FOUND, "Method not found: this tool cannot be called as a task")
        return True
    if revision.era == "modern" and declares(capabilities, TASKS_CAPABILITY):
        return support != "forbidden"
    if support != "required":
        return False
    if revision.era == "modern":
        raise MissingCapability(TASKS_CAPABILITY)
    # [2025-11-25 basic/utilities/tasks#tool-level-negotiation] the error MUST be -32601
    raise ProtocolError(METHOD_NOT_FOUND, "Method not found: this tool can only be called as a task")


def unknown_task() -> ProtocolError:
    """Return the error for a task that is unknown, has expired, or belongs to another owner."""
    # [2025-11-25 basic/utilities/tasks#protocol-errors] MUST be -32602. The same text hides which tasks exist
    return ProtocolError(INVALID_PARAMS, "Invalid params: no such task, or the task has expired")
