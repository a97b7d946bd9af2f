"""The explanation of a bridge: a table of the methods and fields that it passes on, converts or loses between two
revisions, for `mcp_ref bridge --explain`.

The table cannot contradict the code, because its rows come from the method table and from the `Availability` of each
field, which the conversion itself uses.

Spec:  2026-07-28 changelog
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..basic.mrtr import INPUT_REQUESTS
from ..revisions import METHODS, Revision, find_method, load_type
from .conversion import lost_fields
from .front import FRONT_METHODS

_OWN_TASK = "a task of the bridge itself <-> the task of the server, if it creates one"
_MISSING = "not in"
"""The first words of the handling of a method that one side lacks."""
_REPLACED = {
    "logging/setLevel": "<-> the log level in the `_meta` of each request",
    "resources/subscribe": "<-> subscriptions/listen",
    "resources/unsubscribe": "<-> the end of subscriptions/listen",
}
"""The handling of the legacy methods that the modern era replaces, by name."""


class Row(NamedTuple):
    """A method or a field, and the way in which the bridge handles it."""

    name: str
    handling: str


def explain(front: Revision, back: Revision) -> list[Row]:
    """Return the table for clients of the revision `front` and a server of the revision `back`: first a row for each
    method, then one for each field that is lost."""
    rows = list(_method_rows(front, back))
    if front is back:
        return [*rows, Row("all fields", "passed on as they are, also unknown ones")]
    # The bridge converts no message of these methods, so none of their fields is lost.
    not_converted = {row.name for row in rows if row.handling == _OWN_TASK or row.handling.startswith(_MISSING)}
    lost: dict[str, str] = {}  # field -> handling
    for method in METHODS:
        if method.name in FRONT_METHODS or method.name in not_converted:
            continue
        is_from_server = method.name in INPUT_REQUESTS or method.sender == "server"
        sender, receiver = (back, front) if is_from_server else (front, back)
        lost |= lost_fields(load_type(method.params), sender, receiver)
        if method.result is not None:  # a result goes the other way
            lost |= lost_fields(load_type(method.result), receiver, sender)
    # Between the eras, `task` does not reach the server, but makes the bridge create a task of its own.
    if _has_own_tasks(front, back) and "CallToolRequestParams.task" in lost:
        lost["CallToolRequestParams.task"] = _OWN_TASK
    return [*rows, *(Row(name, handling) for name, handling in sorted(lost.items()))]


def _method_rows(front: Revision, back: Revision) -> Iterator[Row]:
    """Yield a row for each method that at least one of the two revisions has."""
    for name in dict.fromkeys(method.name for method in METHODS):
        in_front = any(find_method(name, front, role) for role in ("client", "server"))
        in_back = any(find_method(name, back, role) for role in ("client", "server"))
        if not in_front and not in_back:
            continue
        if name in FRONT_METHODS:
            yield Row(name, "not passed on: the bridge handles it on each side")
        elif "tasks" in name and _has_own_tasks(front, back):
            yield Row(name, _OWN_TASK)
        elif in_front and in_back:
            yield Row(name, "passed on")
        elif name in INPUT_REQUESTS and "modern" in (front.era, back.era):
            yield Row(name, "a request of the server <-> an input request in its result")
        elif name in _REPLACED and front.era != back.era:
            yield Row(name, _REPLACED[name])
        else:
            yield Row(name, f"{_MISSING} {back if in_front else front}: refused, or left out")


def _has_own_tasks(front: Revision, back: Revision) -> bool:
    """Return True if clients get tasks of the bridge itself (tasks.py)."""
    return front.era != back.era and all(find_method("tasks/get", each, "client") is not None for each in (front, back))
