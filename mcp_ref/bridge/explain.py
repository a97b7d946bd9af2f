"""The explanation of a bridge: the data that it passes on, converts or loses between two revisions.

The rows come from the method table and from `Availability`, which the conversion itself uses. So the table cannot
contradict the code.

Spec:  2026-07-28 changelog
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..basic.mrtr import INPUT_REQUESTS
from ..revisions import METHODS, Revision, find_method, load_type
from .conversion import lost_fields
from .front import NATIVE


class Row(NamedTuple):
    """A method or a field, and its fate between two revisions."""

    name: str
    fate: str


def explain(front: Revision, back: Revision) -> list[Row]:
    """Return what happens to each method and field between the client's revision `front` and the server's `back`."""
    rows = list(_methods(front, back))
    if front is back:
        return [*rows, Row("all fields", "passed on as they are, also unknown ones")]
    unconverted = NATIVE.union(row.name for row in rows if row.fate.startswith(_NOT_CONVERTED))
    lost: dict[str, str] = {}
    for method in METHODS:
        if method.name in unconverted:
            continue
        is_from_server = method.name in INPUT_REQUESTS or method.sender == "server"
        sender, receiver = (back, front) if is_from_server else (front, back)
        lost |= lost_fields(load_type(method.params), sender, receiver)
        if method.result is not None:
            lost |= lost_fields(load_type(method.result), receiver, sender)
    if _has_own_tasks(front, back) and "CallToolRequestParams.task" in lost:
        lost["CallToolRequestParams.task"] = _OWN_TASK
    return [*rows, *(Row(name, fate) for name, fate in sorted(lost.items()))]


def _methods(front: Revision, back: Revision) -> Iterator[Row]:
    """Yield each method that at least one of the two revisions has, with its fate."""
    for name in dict.fromkeys(method.name for method in METHODS):
        in_front = any(find_method(name, front, role) for role in ("client", "server"))
        in_back = any(find_method(name, back, role) for role in ("client", "server"))
        if not in_front and not in_back:
            continue
        if name in NATIVE:
            yield Row(name, "each side for itself")
        elif "tasks" in name and _has_own_tasks(front, back):
            yield Row(name, _OWN_TASK)
        elif in_front and in_back:
            yield Row(name, "passed on")
        elif name in INPUT_REQUESTS and "modern" in (front.era, back.era):
            yield Row(name, "request <-> input request of a result")
        elif name in _REPLACED and front.era != back.era:
            yield Row(name, _REPLACED[name])
        else:
            yield Row(name, f"not in {back if in_front else front}: refused, or left out")


def _has_own_tasks(front: Revision, back: Revision) -> bool:
    """Return True if clients get tasks of the bridge itself (tasks.py)."""
    return front.era != back.era and all(find_method("tasks/get", each, "client") is not None for each in (front, back))


_OWN_TASK = "a task of the bridge itself <-> the task of the server, if it creates one"
_NOT_CONVERTED = ("not in", _OWN_TASK)  # prefixes of the fates of methods whose fields are not converted
_REPLACED = {
    "logging/setLevel": "<-> the log level in the `_meta` of each request",
    "resources/subscribe": "<-> subscriptions/listen",
    "resources/unsubscribe": "<-> the end of subscriptions/listen",
}
