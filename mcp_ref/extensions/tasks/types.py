"""Tasks: requests whose answer is a handle, by which the outcome is asked for later.

For work that takes longer than a request should wait. Whoever serves the request, its receiver, answers it at once with
a task, and goes on; whoever sent it, the requestor, asks from time to time how the task is.

    working <-> input_required -> completed | failed | cancelled

There are two shapes of it, over one store here. In 2025-11-25 it is part of the protocol, an experiment: the requestor
asks for a task (`task` in the params), either side may be the receiver, `tasks/result` waits for the outcome, and what
the receiver wants to know meanwhile it asks by ordinary requests. In 2026-07-28 it is an extension: the server decides,
for clients that declare the extension; `tasks/get` has the outcome and the questions, `tasks/update` the answers.

Spec:  2025-11-25 basic/utilities/tasks; the extension io.modelcontextprotocol/tasks (SEP-2663) beside 2026-07-28
Wire:  {"jsonrpc": "2.0", "id": 3, "method": "tasks/get", "params": {"taskId": "786512e2"}}
       {"jsonrpc": "2.0", "id": 4, "method": "tasks/result", "params": {"taskId": "786512e2"}}
       {"jsonrpc": "2.0", "method": "notifications/tasks/status", "params": {"taskId": "786512e2", "status": "working",
        "createdAt": "2025-11-25T10:30:00Z", "lastUpdatedAt": "2025-11-25T10:30:00Z", "ttl": 60000}}
Above: runtime/tasks.py and live_task.py run them, runtime/tasks_client.py follows them. All but the store is pure
"""

from __future__ import annotations

import dataclasses
import json
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Final, Literal, Protocol

from ...basic.lifecycle import declares
from ...basic.versioning import MissingCapability
from ...features.task_augmentation import TaskSupport
from ...jsonrpc.errors import ProtocolError
from ...jsonrpc.messages import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, Object
from ...revisions import R2026_07_28, Life, Revision

EXTENSION: Final = "io.modelcontextprotocol/tasks"
"""The extension's name, in the capabilities of both sides from 2026-07-28 on."""

EXTENSION_CAPABILITY: Final = f"extensions.{EXTENSION}"

SERVER_CAPABILITY: Final[Object] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
"""What a server declares in 2025-11-25 that has tools which can be tasks."""

CLIENT_CAPABILITY: Final[Object] = {
    "list": {},
    "cancel": {},
    "requests": {"sampling": {"createMessage": {}}, "elicitation": {"create": {}}},
}
"""What a client declares in 2025-11-25 that can be asked by tasks."""

MAX_TASKS: Final = 1000
"""Tasks that the memory store keeps, running and ended."""

MAX_TASKS_OF_ONE: Final = 100
"""Those of one requestor, where it is known who that is."""

MAX_TASK_BYTES: Final = 64 * 1024 * 1024
"""Bytes of JSON that they are, results included, in the memory store (64 MiB)."""

MAX_TTL: Final = 24 * 3600 * 1000
"""Milliseconds that a task is kept, at most (a day)."""

TTL: Final = 3600 * 1000
"""Milliseconds that a task is kept where nobody says anything (an hour)."""

POLL_INTERVAL: Final = 1000
"""Milliseconds after which to ask again, by default."""

PAGE: Final = 100
"""Tasks in one page of `tasks/list`."""

TaskStatus = Literal["working", "input_required", "completed", "failed", "cancelled"]

METHODS: Final = frozenset({"tools/call"})
"""The requests that the extension lets a server answer by a task."""

TERMINAL: Final = frozenset({"completed", "failed", "cancelled"})
"""Nothing follows these."""

# ---------------------------------------------------------------------------------------------------- types


@dataclass
class Task:
    """How a task is. Times are in ISO 8601, durations in milliseconds; ttl: from its creation on, null for ever.

    status_message: for people. input_requests: what it waits for, key -> request; result, error: how it ended, as the
    request itself would have been answered. Those three are the extension's; in 2025-11-25 they are asked for by
    `tasks/result`.
    """

    task_id: str
    status: TaskStatus
    created_at: str
    last_updated_at: str
    ttl: int | None
    poll_interval: int | None = None
    status_message: str | None = None
    input_requests: Annotated[Object | None, Life(since=R2026_07_28)] = None
    result: Annotated[Object | None, Life(since=R2026_07_28)] = None
    error: Annotated[Object | None, Life(since=R2026_07_28)] = None
    meta: Object | None = None

    @property
    def is_over(self) -> bool:
        """Whether it has ended, one way or the other."""
        return self.status in TERMINAL

    def to_wire(self, wire: Object, revision: Revision) -> Object:
        """The extension has the unit in the names."""
        return wire if revision.tasks_are_core else {_RENAMED.get(name, name): wire[name] for name in wire}

    @staticmethod
    def from_wire(wire: Object, revision: Revision) -> Object:
        """See `to_wire`."""
        return wire if revision.tasks_are_core else {_NAMES.get(name, name): wire[name] for name in wire}


_RENAMED = {"ttl": "ttlMs", "pollInterval": "pollIntervalMs"}
_NAMES = {new: old for old, new in _RENAMED.items()}


@dataclass
class CreateTaskResult:
    """The answer to a request that has become a task."""

    task: Task
    meta: Object | None = None

    def to_wire(self, wire: Object, revision: Revision) -> Object:
        """The extension's has no envelope, and a mark of its own."""
        if revision.tasks_are_core:
            return wire
        inner = wire.pop("task")
        assert isinstance(inner, dict)
        return {"resultType": "task", **inner, **wire}

    @staticmethod
    def from_wire(wire: Object, revision: Revision) -> Object:
        """See `to_wire`."""
        return wire if revision.tasks_are_core else {"task": wire}


@dataclass
class TaskRequestParams:
    """Which task to get, wait for, or cancel."""

    task_id: str
    meta: Object | None = None


@dataclass
class UpdateTaskRequestParams:
    """Answers to what a task waits for, by the keys of its `input_requests`."""

    task_id: str
    input_responses: dict[str, Object]
    meta: Object | None = None


@dataclass
class GetTaskPayloadResult:
    """What the request would have been answered with, had it not become a task."""

    payload: Object

    def to_wire(self, wire: Object, revision: Revision) -> Object:
        """The wire has no such envelope."""
        return self.payload

    @staticmethod
    def from_wire(wire: Object, revision: Revision) -> Object:
        """See `to_wire`."""
        return {"payload": wire}


@dataclass
class ListTasksResult:
    """One page of the requestor's tasks."""

    tasks: list[Task]
    next_cursor: str | None = None
    meta: Object | None = None


# ---------------------------------------------------------------------------------------------------- its life

# [2025-11-25 basic/utilities/tasks#task-status-lifecycle] the only ways to go
_WAYS: Final[dict[TaskStatus, frozenset[TaskStatus]]] = {
    "working": frozenset({"working", "input_required", "completed", "failed", "cancelled"}),
    "input_required": frozenset({"working", "input_required", "completed", "failed", "cancelled"}),
    "completed": frozenset(),
    "failed": frozenset(),
    "cancelled": frozenset(),
}


def timestamp(now: float) -> str:
    """Seconds since the epoch, in ISO 8601."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now * 1000) % 1000:03}Z"


def chosen_ttl(wanted: int | None) -> int:
    """The time that a task gets, in milliseconds: what is wanted, within reason."""
    # [2025-11-25 basic/utilities/tasks#ttl-and-resource-management] MAY override the requested ttl
    return TTL if wanted is None else min(max(wanted, POLL_INTERVAL), MAX_TTL)


def new_task(ttl: int, poll_interval: int, now: float) -> Task:
    """A task that begins. now: seconds since the epoch."""
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
    """The task in another state. message: None leaves what was there, while it goes on. Raises ValueError where there
    is no such way."""
    if status not in _WAYS[task.status]:
        raise ValueError(f"a task that is {task.status} does not become {status}")
    if message is None and status not in TERMINAL:
        message = task.status_message
    return dataclasses.replace(
        task,
        status=status,
        last_updated_at=timestamp(now),
        status_message=message,
        input_requests=input_requests,
        result=result,
        error=error,
    )


def becomes_task(support: TaskSupport, wanted: bool, revision: Revision, capabilities: Object) -> bool:
    """Whether a call of a tool is served as a task. wanted: it has a member `task`. capabilities: the client's.

    Raises ProtocolError where it has to be a task and cannot, or the other way round. For a server that has tasks.
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
    """Whose a task is: a principal's, where requests have one; else a session's, in the era that has them; else
    nobody's in particular. A principal's tasks of one era are not shown in the other, which asks and answers in other
    ways than they do."""
    # [2025-11-25 basic/utilities/tasks#task-isolation-and-access-control] MUST bind tasks to the authorization context
    return f"{era}:{principal}" if principal is not None else session and f"session:{session}"


def unknown_task() -> ProtocolError:
    """The error for a task that there is not, or not any more, or not for this requestor."""
    # [2025-11-25 basic/utilities/tasks#protocol-errors] MUST be -32602; others' tasks look the same as none
    return ProtocolError(INVALID_PARAMS, "Invalid params: there is no such task, or it has expired")


# ---------------------------------------------------------------------------------------------------- the store


class TaskStore(Protocol):
    """Keeps tasks, running and ended, each for whom it belongs to.

    owner: who that is; "" where nobody knows, and the id alone gives access. It is asked from the event loop: its
    methods are quick and never wait for a peer. Several servers may share one: then each can say how a task is, and the
    one that runs it takes its answers and its cancellation.
    """

    def put(self, task: Task, owner: str, until: float) -> None:
        """Keep a task, new or changed, until then: seconds since the epoch. Raises ProtocolError without room."""

    def get(self, id: str, owner: str) -> Task | None:
        """The task of that id, if it is this owner's, and not expired."""

    def page(self, owner: str, cursor: str | None) -> tuple[list[Task], str | None]:
        """The owner's tasks after `cursor`, and the cursor after those. Raises ProtocolError for an unknown one."""

    def remove(self, id: str) -> None:
        """Forget a task, if it is there."""


@dataclass(slots=True)
class _Kept:
    task: Task
    owner: str
    until: float
    size: int
    serial: int


class MemoryTaskStore:
    """Keeps tasks until the process ends, at most `max_tasks`, `max_tasks_of_one` of each owner that is known, and
    `max_bytes`. What is kept is not given up before its time: without room there are no new ones."""

    def __init__(
        self,
        max_tasks: int = MAX_TASKS,
        max_tasks_of_one: int = MAX_TASKS_OF_ONE,
        max_bytes: int = MAX_TASK_BYTES,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._max_tasks, self._max_tasks_of_one, self._max_bytes = max_tasks, max_tasks_of_one, max_bytes
        self._clock = clock
        self._kept: dict[str, _Kept] = {}
        self._bytes = 0
        self._serial = 0

    def put(self, task: Task, owner: str, until: float) -> None:
        """See `TaskStore`."""
        before = self._kept.get(task.task_id)
        if before is None:
            self._make_room(owner)
            self._serial += 1
        size = len(json.dumps([task.input_requests, task.result, task.error, task.status_message]))
        grown = self._bytes + size - (before.size if before is not None else 0)
        if grown > self._max_bytes and (before is None or size > before.size):
            raise ProtocolError(INTERNAL_ERROR, "there is no room for what the task has to say; retry later")
        serial = before.serial if before is not None else self._serial
        self._kept[task.task_id] = _Kept(task, owner, until, size, serial)
        self._bytes = grown

    def _make_room(self, owner: str) -> None:
        # [2025-11-25 basic/utilities/tasks#resource-management] SHOULD limit tasks per requestor, and clean up
        now = self._clock()
        for id in [id for id, kept in self._kept.items() if kept.until <= now]:
            self.remove(id)
        if len(self._kept) >= self._max_tasks:
            raise ProtocolError(INTERNAL_ERROR, f"there are {self._max_tasks} tasks already; retry later")
        if owner and sum(kept.owner == owner for kept in self._kept.values()) >= self._max_tasks_of_one:
            raise ProtocolError(INTERNAL_ERROR, f"you have {self._max_tasks_of_one} tasks already; retry later")

    def get(self, id: str, owner: str) -> Task | None:
        """See `TaskStore`."""
        kept = self._kept.get(id)
        # [2025-11-25 basic/utilities/tasks#task-isolation-and-access-control] MUST reject those of another context
        return kept.task if kept is not None and kept.owner == owner and kept.until > self._clock() else None

    def page(self, owner: str, cursor: str | None) -> tuple[list[Task], str | None]:
        """See `TaskStore`."""
        if cursor is not None and not (cursor.isascii() and cursor.isdigit() and len(cursor) < 20):
            raise ProtocolError(
                INVALID_PARAMS, "Invalid params: unknown cursor; use nextCursor as the last page gave it"
            )
        after, now = int(cursor or 0), self._clock()
        found = [kept for kept in self._kept.values() if kept.owner == owner and kept.until > now]
        rest = [kept for kept in found if kept.serial > after]
        # [2025-11-25 basic/utilities/tasks#task-listing] MUST have nextCursor if there are more
        following = str(rest[PAGE - 1].serial) if len(rest) > PAGE else None
        return [kept.task for kept in rest[:PAGE]], following

    def remove(self, id: str) -> None:
        """See `TaskStore`."""
        kept = self._kept.pop(id, None)
        if kept is not None:
            self._bytes -= kept.size
