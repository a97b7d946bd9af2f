"""MUSTs of the base protocol that no test holds, and why."""

from __future__ import annotations

_ICONS = (
    "2025-11-25/basic/index#icons-1",
    "2025-11-25/basic/index#icons-2",
    "2025-11-25/basic/index#icons-5",
    "2025-11-25/basic/index#icons-6",
    "2025-11-25/basic/index#icons-7",
    "2025-11-25/basic/index#icons-8",
    "2025-11-25/basic/index#icons-9",
    "2025-11-25/basic/index#icons-10",
    "2025-11-25/basic/index#icons-11",
    "2025-11-25/basic/index#icons-12",
)

_TASKS = (
    "2025-11-25/basic/utilities/cancellation#behavior-requirements-4",
    "2025-11-25/basic/utilities/progress#behavior-requirements-3",
    "2025-11-25/basic/utilities/progress#behavior-requirements-4",
    "2025-11-25/basic/utilities/progress#behavior-requirements-5",
)

UNTESTED: dict[str, str] = {
    "2025-11-25/basic/transports#session-management-3": "it demands nothing that could be seen: it points to advice",
    **dict.fromkeys(_ICONS, "a duty of who fetches and shows icons; this package hands them on and does neither"),
    **dict.fromkeys(_TASKS, "about tasks, which are not implemented, so that no request is ever task-augmented"),
}
