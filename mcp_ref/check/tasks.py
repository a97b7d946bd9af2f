"""Tasks: their statuses, the calls that become tasks, and the metadata of their messages.

Spec:  2025-11-25 basic/utilities/tasks; the extension io.modelcontextprotocol/tasks beside 2026-07-28
Used by: conversation.py
"""

from __future__ import annotations

import functools
import re
from typing import Final

from ..extensions.tasks.types import TERMINAL_STATUSES
from ..features.task_augmentation import RELATED_TASK
from ..jsonrpc.messages import INVALID_PARAMS, METHOD_NOT_FOUND, Object
from ..revisions import R2025_11_25, R2026_07_28
from .memory import tasks_in
from .rules import MUST, SHOULD, Fault, Verdict, rule
from .state import Message, Tool, an_object, quoted
from .tools import tool_of

_PAGE: Final = "2025-11-25/basic/utilities/tasks"
_AUGMENTED: Final = "tools/call sampling/createMessage elicitation/create"
_POLL_FRACTION: Final = 0.9
"""Share of the poll interval that must pass from a poll to the next but one, below 1 because clocks are not exact."""
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d([.,]\d+)?)?(Z|[+-]\d\d:?\d\d)?")
_SHOWN: Final = "tasks/get tasks/cancel tasks/list notifications/tasks/status"
"""The methods whose results and notifications show tasks."""
_OVER: Final = TERMINAL_STATUSES | {"over"}
"""The statuses of a task that has ended. `over` is ours: the result of the task has come, but not its status."""

task_rule = functools.partial(rule, since=R2025_11_25, until=R2026_07_28)
"""Register a rule of the revision whose core has tasks. Later, they are an extension."""


@task_rule(MUST, f"{_PAGE}#task-status-lifecycle-1", "result", methods=_AUGMENTED)
def begins_working(message: Message) -> Verdict:
    """A new task is working."""
    task = an_object(message.body.get("task"))
    is_wrong = "status" in task and task["status"] != "working"
    return f"the new task has the status {quoted(task['status'])}" if is_wrong else None


@task_rule(MUST, f"{_PAGE}#task-id-requirements-3", "result", methods=_AUGMENTED)
def unique_task_id(message: Message) -> Verdict:
    """Each task has an id of its own."""
    id = an_object(message.body.get("task")).get("taskId")
    known = message.dialogue.tasks.get(str(id))
    if known is None or known.created_event is None:
        return None
    return Fault(f"the new task has the id {quoted(id)} of another task", (known.created_event,))


@rule(MUST, f"{_PAGE}#task-status-lifecycle-4",
      "result notification", methods=f"{_SHOWN} notifications/tasks", since=R2025_11_25)  # fmt: skip
def terminal_status(message: Message) -> Verdict:
    """The status of a task that is over does not change."""
    for task in tasks_in(message):
        seen = message.dialogue.tasks.find(task.get("taskId"))
        if seen is None or seen.status not in _OVER:
            continue
        # over HTTP, a message may be older than `seen.event`, unless it responds to a request that came afterwards
        is_later = message.dialogue.is_ordered or (message.call is not None and message.call.event > seen.event)
        now = task.get("status")
        # `over` stands for one of the terminal statuses, which was not seen
        is_same = now in TERMINAL_STATUSES if seen.status == "over" else now == seen.status
        if is_later and not is_same:
            return Fault(f"a task goes from {seen.status} to {quoted(now)}", (seen.event,))
    return None


@rule(MUST, f"{_PAGE}#ttl-and-resource-management-1",
      "result notification", methods=f"{_AUGMENTED} {_SHOWN}", since=R2025_11_25)  # fmt: skip
def task_times(message: Message) -> Verdict:
    """The times of a task are ISO 8601."""
    for task in tasks_in(message):
        for name in ("createdAt", "lastUpdatedAt"):
            if name in task and not _TIME.fullmatch(str(task[name])):
                return f"the {name} of a task is {quoted(task.get(name))}"
    return None


@task_rule(MUST, f"{_PAGE}#tool-level-negotiation-1", "request", methods=_AUGMENTED)
def task_is_declared(message: Message) -> Verdict:
    """A request becomes a task only if its receiver declared that."""
    path = f"tasks.requests.{message.method.replace('/', '.')}"
    is_wrong = "task" in message.body and message.receiver.lacks(path)
    return f"{message.method} has the param task, but its receiver did not declare {path}" if is_wrong else None


def _called_tool(message: Message) -> Tool | None:
    """Return the called tool, if the server declares that calls of tools can become tasks."""
    return tool_of(message) if message.dialogue.server.declares("tasks.requests.tools.call") else None


def _task_support(tool: Tool) -> str:
    return str(an_object(tool.definition.get("execution")).get("taskSupport", "forbidden"))


def _excludes(tool: Tool, params: Object) -> bool:
    """Return True if these params have a `task` that the tool's taskSupport forbids, or lack one that it requires."""
    excluding = "forbidden" if "task" in params else "required"
    return _task_support(tool) == excluding


@task_rule(MUST, f"{_PAGE}#tool-level-negotiation-4", "request", methods="tools/call")
def tool_allows_task(message: Message) -> Verdict:
    """A client calls a tool as a task if the tool requires it, and not if the tool forbids it."""
    tool = _called_tool(message)
    if tool is None or not _excludes(tool, message.body):
        return None
    how = "as a task" if "task" in message.body else "not as a task"
    return Fault(f"the tool is called {how}, but its taskSupport is {_task_support(tool)}", (tool.event,))


@task_rule(MUST, f"{_PAGE}#tool-level-negotiation-5", "result error", methods="tools/call", needs="call")
def wrong_call_is_refused(message: Message) -> Verdict:
    """A call that the tool's taskSupport excludes gets -32601."""
    tool = _called_tool(message)
    if tool is None or not _excludes(tool, message.request.params) or message.code == METHOD_NOT_FOUND:
        return None
    return Fault(f"a call that the taskSupport {_task_support(tool)} excludes gets {message.outcome}", (tool.event,))


@task_rule(MUST, f"{_PAGE}#result-retrieval-1", "result", methods="tools/call", needs="call")
def task_is_returned(message: Message) -> Verdict:
    """A request that is accepted as a task returns the task."""
    tool = _called_tool(message)
    if "task" not in message.request.params or "task" in message.body:
        return None
    if tool is None or _task_support(tool) not in ("optional", "required"):
        return None
    return Fault("the tool allows tasks, but the call returns no task", (tool.event,))


@task_rule(MUST, f"{_PAGE}#related-task-metadata-3", "result", methods="tasks/result", needs="call")
def related_task(message: Message) -> Verdict:
    """The result of tasks/result names its task in _meta."""
    related, wanted = an_object(message.meta.get(RELATED_TASK)).get("taskId"), message.request.params.get("taskId")
    text = f"the _meta of the result names the task {quoted(related)}, not {quoted(wanted)}"
    return None if related == wanted else text


@task_rule(SHOULD, f"{_PAGE}#related-task-metadata-2", "request result notification", methods=_SHOWN)
def no_related_task(message: Message) -> Verdict:
    """Messages with a taskId do not name the task in _meta too."""
    return f"the {message.label} has {RELATED_TASK} in its _meta" if RELATED_TASK in message.meta else None


@task_rule(MUST, f"{_PAGE}#protocol-errors-1",
           "error", methods="tasks/get tasks/result tasks/cancel", needs="seen unshared call")  # fmt: skip
def unknown_task(message: Message) -> Verdict:
    """An unknown task gives the error -32602."""
    dialogue, id = message.dialogue, message.request.params.get("taskId")
    if message.code in (INVALID_PARAMS, METHOD_NOT_FOUND) or not dialogue.tasks.lacks(str(id)):
        return None
    if dialogue.transport == "http":
        return None  # the task can be of another session
    return f"{message.method} for the unknown task {quoted(id)} gets {message.outcome}"


@task_rule(MUST, f"{_PAGE}#task-cancellation-1", "result", methods="tasks/cancel", needs="call")
def ended_task_is_not_cancelled(message: Message) -> Verdict:
    """A task that is over is not cancelled."""
    call = message.request
    task = message.dialogue.tasks.get(str(call.params.get("taskId")))
    if task is None or task.status not in _OVER or call.event < task.event:
        return None
    return Fault(f"tasks/cancel gets a result, although the task was {task.status}", (task.event,))


@task_rule(MUST, f"{_PAGE}#task-cancellation-3", "result", methods="tasks/cancel")
def cancelled_status(message: Message) -> Verdict:
    """The result of tasks/cancel is a cancelled task."""
    status = message.body.get("status")
    return None if status == "cancelled" else f"the task in the result of tasks/cancel is {quoted(status)}"


@task_rule(SHOULD, f"{_PAGE}#task-execution-errors-1", "result", methods="tasks/get")
def failure_has_message(message: Message) -> Verdict:
    """A failed task has a statusMessage."""
    is_silent = message.body.get("status") == "failed" and not message.body.get("statusMessage")
    return "the failed task has no statusMessage" if is_silent else None


@task_rule(SHOULD, f"{_PAGE}#getting-tasks-2", "request", methods="tasks/get", needs="unshared")
def poll_interval(message: Message) -> Verdict:
    """A task is polled no more often than its pollInterval says."""
    task = message.dialogue.tasks.find(message.body.get("taskId"))
    if task is None or task.last_poll <= 0:  # never polled, or the program that recorded this wrote no times
        return None
    waited = message.at - task.poll_before_last  # not since the last poll, because one early poll can have a reason
    if waited >= task.poll_interval * _POLL_FRACTION:
        return None
    return f"a third tasks/get comes after {waited:.3f} seconds, but the pollInterval is {task.poll_interval:g} seconds"
