"""Task augmentation: the fields by which revision 2025-11-25 asks to serve a request as a task.

Spec:  2025-11-25 basic/utilities/tasks; schema: TaskAugmentedRequestParams, TaskMetadata
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Literal, Protocol, cast

from ..jsonrpc.messages import Object
from ..revisions import R2025_11_25, R2026_07_28, Life, Revision

RELATED_TASK: Final = "io.modelcontextprotocol/related-task"
"""In `_meta`, in 2025-11-25: the task that a message belongs to."""

TaskSupport = Literal["forbidden", "optional", "required"]
"""Whether a tool can be called as a task, as an ordinary request, or both."""


@dataclass
class TaskMetadata:
    """In the params of a request, in 2025-11-25: serve it as a task. ttl: how long it is wanted, in milliseconds."""

    ttl: int | None = None


TaskHint = Annotated[TaskMetadata | None, Life(since=R2025_11_25, until=R2026_07_28)]
"""The member `task` of the params of a request that can be a task."""


class TaskAugmented(Protocol):
    """Params of a request that can be a task."""

    task: TaskMetadata | None
    meta: Object | None


def ask_for_task(params: object, timeout: float | None) -> None:
    """Have a request served as a task, in 2025-11-25. timeout: seconds that it will be waited for."""
    holder = cast(TaskAugmented, getattr(params, "request", params))  # elicitation has an envelope for its two kinds
    holder.task = TaskMetadata(None if timeout is None else round(timeout * 1000))


def asks_for_task(params: object) -> bool:
    """Whether it is to be served as a task."""
    return getattr(getattr(params, "request", params), "task", None) is not None


def with_related_task(message: object, id: str) -> None:
    """Say which task a message belongs to, params or result."""
    holder = cast(TaskAugmented, getattr(message, "request", message))
    # [2025-11-25 basic/utilities/tasks#related-task-metadata] all requests, responses, and notifications MUST have it
    holder.meta = {**(holder.meta or {}), RELATED_TASK: {"taskId": id}}


def without_task(wire: Object, revision: Revision) -> Object:
    """Params in which `task`, where tasks are not the protocol's own, is nobody's member, whatever it is."""
    if "task" not in wire or revision.tasks_are_core:
        return wire
    return {name: value for name, value in wire.items() if name != "task"}
