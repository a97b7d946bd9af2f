"""The explanation of a bridge: for two revisions, the data that pass, are converted, and are lost.

The rows come from the method table and from `Availability`, which the conversion itself uses. So the table cannot
contradict the code.

Spec:  2026-07-28 changelog
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import is_dataclass
from typing import NamedTuple, get_args

from ..basic.mrtr import INPUT_REQUESTS
from ..codec import members_of
from ..revisions import METHODS, Availability, Revision, find_method, load_type
from .front import NATIVE


class Row(NamedTuple):
    """A method or a field, and its fate between two revisions."""

    name: str
    fate: str


def explain(front: Revision, back: Revision) -> list[Row]:
    """Return the methods and fields of two revisions, with their fates. `front` is the client's revision."""
    rows = [Row(name, fate) for name, fate in _methods(front, back)]
    if front is back:
        return [*rows, Row("all fields", "passed on as they are, also unknown ones")]
    unconverted = NATIVE.union(row.name for row in rows if row.fate.startswith(_NOT_CONVERTED))
    lost: dict[str, str] = {}
    for method in METHODS:
        if method.name in unconverted:
            continue
        is_input = method.name in INPUT_REQUESTS
        sent, returned = (back, front) if is_input or method.sender == "server" else (front, back)
        lost |= _lost(load_type(method.params), sent, returned, set())
        if method.result is not None:
            lost |= _lost(load_type(method.result), returned, sent, set())
    if _has_own_tasks(front, back) and "CallToolRequestParams.task" in lost:
        lost["CallToolRequestParams.task"] = _OWN_TASK
    return [*rows, *(Row(name, fate) for name, fate in sorted(lost.items()))]


def _methods(front: Revision, back: Revision) -> Iterator[tuple[str, str]]:
    """Yield each method that at least one of the two revisions has, with its fate."""
    for name in dict.fromkeys(method.name for method in METHODS):
        sides = [any(find_method(name, each, role) for role in ("client", "server")) for each in (front, back)]
        if not any(sides):
            continue
        if name in NATIVE:
            yield name, "each side for itself"
        elif "tasks" in name and _has_own_tasks(front, back):
            yield name, _OWN_TASK
        elif all(sides):
            yield name, "passed on"
        elif name in INPUT_REQUESTS and any(each.era == "modern" for each in (front, back)):
            legacy = front if front.era == "legacy" else back
            exists = find_method(name, legacy, "server") is not None
            yield name, "request <-> input request of a result" if exists else f"not in {legacy}: never requested"
        elif name in _REPLACED and front.era != back.era:
            yield name, _REPLACED[name]
        else:
            yield name, f"not in {front if not sides[0] else back}: refused, or left out"


def _has_own_tasks(front: Revision, back: Revision) -> bool:
    """Return True if clients get tasks of the bridge itself (tasks.py)."""
    return front.era != back.era and all(find_method("tasks/get", each, "client") is not None for each in (front, back))


_OWN_TASK = "a task of the bridge itself <-> the task of the server, if it creates one"
_NOT_CONVERTED = ("not in", _OWN_TASK)
_REPLACED = {
    "logging/setLevel": "<-> the log level in the `_meta` of each request",
    "resources/subscribe": "<-> subscriptions/listen",
    "resources/unsubscribe": "<-> the end of subscriptions/listen",
}


def _dataclasses_in(hint: object) -> Iterator[type]:
    if isinstance(hint, type) and is_dataclass(hint):
        yield hint
    for part in get_args(hint):
        yield from _dataclasses_in(part)


def _lost(cls: type, source: Revision, target: Revision, seen: set[type]) -> dict[str, str]:
    """Return the fields that the source has and the target lacks, with their fates, also in nested dataclasses."""
    of_class: Availability = getattr(cls, "availability", Availability())
    if cls in seen or not of_class.covers(source):
        return {}
    if not of_class.covers(target):
        return {cls.__name__: f"{source} -> {target}: {'as text' if of_class.fallback else 'refused'}"}
    seen.add(cls)
    found: dict[str, str] = {}
    for member in members_of(cls):
        if not member.availability.covers(source):
            continue
        if not member.availability.covers(target):
            fate = "refused" if member.availability.if_unsupported == "refuse" else "left out"
            found[f"{cls.__name__}.{member.name}"] = f"{source} -> {target}: {fate}"
            continue
        for nested in _dataclasses_in(member.hint):
            found |= _lost(nested, source, target, seen)
    return found
