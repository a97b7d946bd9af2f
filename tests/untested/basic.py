"""MUSTs of the base protocol that no test holds, and why."""

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

_TASKS = (
    "2025-11-25/basic/utilities/cancellation#behavior-requirements-4",
    "2025-11-25/basic/utilities/progress#behavior-requirements-3",
    "2025-11-25/basic/utilities/progress#behavior-requirements-4",
    "2025-11-25/basic/utilities/progress#behavior-requirements-5",
)

_BETWEEN = "a duty of who stands between client and server and reads their headers; this package is either end"

UNTESTED: dict[str, str] = {
    "2026-07-28/basic/patterns/mrtr#server-requirements-basic-workflow-9": "what may happen once only is known to a "
    "tool's author alone; a state of ours only repeats what its client has answered",
    "2026-07-28/basic/transports/streamable-http#server-behavior-for-custom-headers-1": _BETWEEN,
    "2026-07-28/basic/transports/streamable-http#server-validation-6": _BETWEEN,
    "2025-11-25/basic/transports#session-management-3": "it demands nothing that could be seen: it points to advice",
    **dict.fromkeys(_ICONS, "a duty of who fetches and shows icons; this package hands them on and does neither"),
    **dict.fromkeys(_TASKS, "about tasks, which are not implemented, so that no request is ever task-augmented"),
}
