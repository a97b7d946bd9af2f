"""MUST sentences of the base protocol that have no test, with the reason; for tasks, SHOULD sentences too."""

from __future__ import annotations

_ICONS = (
    "2026-07-28/basic/index#icons-1",
    "2026-07-28/basic/index#icons-2",
    "2026-07-28/basic/index#icons-5",
    "2026-07-28/basic/index#icons-6",
    "2026-07-28/basic/index#icons-7",
    "2026-07-28/basic/index#icons-8",
    "2026-07-28/basic/index#icons-9",
    "2026-07-28/basic/index#icons-10",
    "2026-07-28/basic/index#icons-11",
    "2026-07-28/basic/index#icons-12",
)

_TASKS = "2025-11-25/basic/utilities/tasks#"
_OPERATOR = "a duty of the operator, whose program owns the logs and their policy"

_BETWEEN = "a duty of a proxy between client and server; this package is the client or the server"

UNTESTED: dict[str, str] = {
    "2026-07-28/basic/patterns/mrtr#server-requirements-basic-workflow-9": "only the tool's author knows an action "
    "that may happen once; a `requestState` only repeats the input that its client has given",
    "2026-07-28/basic/transports/streamable-http#server-behavior-for-custom-headers-1": _BETWEEN,
    "2026-07-28/basic/transports/streamable-http#server-validation-6": _BETWEEN,
    "2025-11-25/basic/transports#session-management-3": "it points to advice and demands nothing that a test can see",
    **dict.fromkeys(
        _ICONS, "a duty of the program that fetches and shows icons; this package hands icons on and does neither"
    ),
    f"{_TASKS}getting-tasks-1": "it points to the page about Streamable HTTP, whose own sentences have tests",
    f"{_TASKS}getting-tasks-4": "the client always waits for a tasks/result that it has sent",
    f"{_TASKS}input-required-status-1": "the client has one handler for the messages of all its streams",
    f"{_TASKS}task-cancellation-5": "advice to the program; the client asks nothing about a cancelled task",
    f"{_TASKS}task-isolation-and-access-control-2": "in this revision each task belongs to a session or to a principal",
    f"{_TASKS}task-isolation-and-access-control-4": "every requestor is known: by its session, or as a principal",
    f"{_TASKS}task-isolation-and-access-control-7": "limits of requests in flight and of tasks have tests; a rate is "
    "a matter of the proxy in front of the server",
    f"{_TASKS}resource-management-6": _OPERATOR,
    f"{_TASKS}audit-and-logging-1": _OPERATOR,
    f"{_TASKS}audit-and-logging-2": _OPERATOR,
    f"{_TASKS}audit-and-logging-3": _OPERATOR,
    f"{_TASKS}audit-and-logging-4": _OPERATOR,
    f"{_TASKS}audit-and-logging-5": _OPERATOR,
}
