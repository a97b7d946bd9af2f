"""Task augmentation: the fields by which revision 2025-11-25 asks for a request to be served as a task.

The requestor adds `task` to the params of `tools/call`, `sampling/createMessage` or `elicitation/create`. The receiver
then returns a task at once, and the requestor fetches the result later. A tool allows that with
`execution.taskSupport`. Every message of a task has the task's id in `_meta`. 2026-07-28 removed all these fields:
tasks are an extension, and the server alone decides. extensions/tasks serves and follows the tasks.

Spec:  2025-11-25 basic/utilities/tasks, server/tools; schema: TaskAugmentedRequestParams, TaskMetadata
Wire:  {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "build", "task": {"ttl": 60000}}}
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Literal, Protocol, cast

from ..jsonrpc.messages import Object
from ..revisions import R2025_11_25, R2026_07_28, Availability, Revision

RELATED_TASK: Final = "io.modelcontextprotocol/related-task"
"""The key in a message's `_meta` that names the task of the message."""

TaskSupport = Literal["forbidden", "optional", "required"]
"""A tool's support for tasks: a call is never a task (the default), may be a task, or must be a task."""


@dataclass
class TaskMetadata:
    """The field `task` in the params, which asks for a task."""

    ttl: int | None = None
    """The time to keep the task from its creation, in milliseconds; with None the receiver chooses the time."""


TaskField = Annotated[TaskMetadata | None, Availability(since=R2025_11_25, until=R2026_07_28)]
"""The type of the field `task` in params."""


class TaskAugmented(Protocol):
    """The params of a request that can be a task."""

    task: TaskMetadata | None
    meta: Object | None


def ask_for_task(params: object, timeout: float | None) -> None:
    """Add `task` to the params. The receiver keeps the task for `timeout` seconds; None: the receiver chooses."""
    holder = cast(TaskAugmented, getattr(params, "request", params))  # ElicitRequestParams has the fields in `request`
    holder.task = TaskMetadata(None if timeout is None else round(timeout * 1000))


def asks_for_task(params: object) -> bool:
    """Return True if the params ask for a task."""
    return getattr(getattr(params, "request", params), "task", None) is not None


def add_related_task(message: object, id: str) -> None:
    """Mark params or a result as part of a task."""
    holder = cast(TaskAugmented, getattr(message, "request", message))
    # [2025-11-25 basic/utilities/tasks#related-task-metadata] all messages of a task MUST have it
    holder.meta = {**(holder.meta or {}), RELATED_TASK: {"taskId": id}}


def without_task_field(wire: Object, revision: Revision) -> Object:
    """Return the params without `task` if the revision does not know the field. Unknown fields are not checked."""
    if "task" not in wire or revision.tasks_are_core:
        return wire
    return {name: value for name, value in wire.items() if name != "task"}
