"""Task augmentation: the fields of revision 2025-11-25 by which a request becomes a task.

The requestor (the sender of the request) adds `task` to the params of `tools/call`, `sampling/createMessage` or
`elicitation/create`. The receiver then returns a task at once, and the requestor fetches the result later. The field
`execution.taskSupport` of a tool says if its calls can become tasks. A message about a task has the task's id in
`_meta`, unless another field contains it. 2026-07-28 removed these fields, because there tasks are an extension, and
the server decides if a request becomes one. Tasks run in extensions/tasks; this module has only the names that every
server needs, so that a server without tasks never loads that folder.

Spec:  2025-11-25 basic/utilities/tasks, server/tools; schema: TaskAugmentedRequestParams, TaskMetadata
Wire:  {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "build", "task": {"ttl": 60000}}}
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Literal, Protocol, cast

from ..jsonrpc.messages import Object
from ..revisions import R2025_11_25, R2026_07_28, Availability

TASKS_EXTENSION: Final = "io.modelcontextprotocol/tasks"
"""The name of the extension in the capability `extensions` (2026-07-28)."""

TASKS_CAPABILITY: Final = f"extensions.{TASKS_EXTENSION}"  # a path in the capabilities

SERVER_TASKS: Final[Object] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
"""The capability `tasks` of a server whose tools can be called as tasks (2025-11-25)."""

RELATED_TASK: Final = "io.modelcontextprotocol/related-task"
"""The key of the task's id in a message's `_meta`."""

TaskSupport = Literal["forbidden", "optional", "required"]
"""A tool's support for tasks: a call cannot be a task (the default), can be one, or must be one."""


@dataclass
class TaskMetadata:
    """The value of the field `task` in params."""

    ttl: int | None = None
    """Time from the creation of the task to its deletion, in milliseconds; None to let the receiver choose."""


TaskField = Annotated[TaskMetadata | None, Availability(since=R2025_11_25, until=R2026_07_28, if_unsupported="ignore")]
"""The type of the field `task` in params."""


class TaskAugmented(Protocol):
    """The params of a request that can be a task."""

    task: TaskMetadata | None
    meta: Object | None


def add_task_field(params: object, ttl: float | None) -> None:
    """Add `task` to the params. `ttl` is the task's time to live in seconds; None to let the receiver choose it."""
    holder = cast(TaskAugmented, getattr(params, "request", params))  # ElicitRequestParams has the fields in `request`
    holder.task = TaskMetadata(None if ttl is None else round(ttl * 1000))


def has_task_field(params: object) -> bool:
    return getattr(getattr(params, "request", params), "task", None) is not None


def add_related_task(message: object, id: str) -> None:
    """Add the task's id to the `_meta` of params or of a result."""
    holder = cast(TaskAugmented, getattr(message, "request", message))
    # [2025-11-25 basic/utilities/tasks#related-task-metadata] all messages about a task MUST have the id
    holder.meta = {**(holder.meta or {}), RELATED_TASK: {"taskId": id}}


def owner_of(principal: str | None, era: str, session: str = "") -> str:
    """Return the owner of new tasks: "era:principal", or "session:id" without a principal, or "" without both.

    A principal's clients can be of both eras. The owner contains the era, because the task's result is JSON of this
    era, which a client of the other era must not get. A session has only one era.
    """
    # [2025-11-25 basic/utilities/tasks#task-isolation-and-access-control] MUST bind a task to its authorization context
    if principal is not None:
        return f"{era}:{principal}"
    return f"session:{session}" if session else ""
