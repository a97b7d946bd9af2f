"""Task augmentation: the fields of revision 2025-11-25 by which a request becomes a task.

The requestor (the sender of the request) adds `task` to the params of `tools/call`, `sampling/createMessage` or
`elicitation/create`. The receiver then returns a task at once, and the requestor fetches the result later. The field
`execution.taskSupport` of a tool says if a call of that tool can become a task. A message about a task has the task's
id in `_meta`, if no other field contains the id. 2026-07-28 removed these fields: tasks are an extension, and the
server decides if a request becomes a task. The modules in extensions/tasks run the tasks. This module has the names
that a server needs before its first task, so that a server without tasks never loads extensions/tasks.

Spec:  2025-11-25 basic/utilities/tasks, server/tools; schema: TaskAugmentedRequestParams, TaskMetadata
Wire:  {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "build", "task": {"ttl": 60000}}}
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Literal, Protocol, cast

from ..jsonrpc.messages import Object
from ..revisions import R2025_11_25, R2026_07_28, Availability

EXTENSION: Final = "io.modelcontextprotocol/tasks"
"""The name of the extension in the capability `extensions` (2026-07-28)."""

EXTENSION_CAPABILITY: Final = f"extensions.{EXTENSION}"

SERVER_CAPABILITY: Final[Object] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
"""The capability `tasks` of a server whose tools can be called as tasks (2025-11-25)."""

RELATED_TASK: Final = "io.modelcontextprotocol/related-task"
"""The key of the task's id in a message's `_meta`."""

TaskSupport = Literal["forbidden", "optional", "required"]
"""A tool's support for tasks: a call cannot be a task (the default), can be a task, or must be a task."""


@dataclass
class TaskMetadata:
    """The value of the field `task` in params."""

    ttl: int | None = None
    """The time from the creation of the task to its deletion, in milliseconds. None lets the receiver choose."""


TaskField = Annotated[TaskMetadata | None, Availability(since=R2025_11_25, until=R2026_07_28, if_unsupported="ignore")]
"""The type of the field `task` in params."""


class TaskAugmented(Protocol):
    """The params of a request that can be a task."""

    task: TaskMetadata | None
    meta: Object | None


def add_task_field(params: object, timeout: float | None) -> None:
    """Add `task` to the params. `timeout` is the task's `ttl` in seconds; None lets the receiver choose the `ttl`."""
    holder = cast(TaskAugmented, getattr(params, "request", params))  # ElicitRequestParams has the fields in `request`
    holder.task = TaskMetadata(None if timeout is None else round(timeout * 1000))


def has_task_field(params: object) -> bool:
    """Return True if the params have `task`."""
    return getattr(getattr(params, "request", params), "task", None) is not None


def add_related_task(message: object, id: str) -> None:
    """Add the task's id to the `_meta` of params or of a result."""
    holder = cast(TaskAugmented, getattr(message, "request", message))
    # [2025-11-25 basic/utilities/tasks#related-task-metadata] all messages about a task MUST have the id
    holder.meta = {**(holder.meta or {}), RELATED_TASK: {"taskId": id}}


def owner_of(principal: str | None, era: str, session: str = "") -> str:
    """Return the owner of new tasks: "era:principal", or "session:id" without a principal, or "" without both.

    A task's result has the JSON of its era. With the era in the owner, clients of the other era cannot get the result.
    """
    # [2025-11-25 basic/utilities/tasks#task-isolation-and-access-control] MUST bind tasks to the authorization context
    return f"{era}:{principal}" if principal is not None else session and f"session:{session}"
