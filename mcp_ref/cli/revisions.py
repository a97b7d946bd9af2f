"""`revisions [REVISION]` prints a table of all revisions, or the changes of one revision.

The output comes from the data that the package itself uses: `Revision` has the features of one revision, `METHODS` has
the methods of all of them, and `Availability` says which revisions have a type or a member.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator

from ..basic.headers import METHOD_HEADER, NAME_HEADER, PARAM_PREFIX
from ..basic.mrtr import INPUT_REQUESTS
from ..basic.versioning import CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, PROTOCOL_VERSION, SERVER_INFO
from ..codec import members_of
from ..jsonrpc.messages import Object
from ..revisions import METHODS, PYTHON_ONLY, REVISIONS, Availability, Revision, load_type, revision_named
from . import show, usage_errors


def show_revisions(name: str | None, json: bool) -> None:
    """Print the table of all revisions, or the changes of one revision."""
    if name is None:
        return show.as_json({r.name: behavior(r) for r in REVISIONS}) if json else show_table()
    with usage_errors():
        revision = revision_named(name)
    changed = changes(revision)
    return show.as_json(changed) if json else show_changes(revision, changed)


def behavior(revision: Revision) -> Object:
    """Return the features of a revision, by name."""
    names = [field.name for field in dataclasses.fields(revision) if field.name not in ("index", "name")]
    return {name: getattr(revision, name) for name in names}


def changes(revision: Revision) -> Object:
    """Return a revision's changes: [before, after] of each changed feature, and the added and removed names."""
    earlier = [r for r in REVISIONS if r < revision]
    before: Object = behavior(earlier[-1]) if earlier else {}
    now = behavior(revision)
    altered: Object = {name: [before.get(name), value] for name, value in now.items() if before.get(name) != value}
    methods_before, methods = _methods(earlier[-1]) if earlier else [], _methods(revision)
    added = [name for name in methods if name not in methods_before]
    removed = [name for name in methods_before if name not in methods]
    members_added, members_removed = members(revision)
    return {
        "revision": revision.name,
        "after": earlier[-1].name if earlier else None,
        "behavior": altered,
        "methods": {"added": [*added], "removed": [*removed]},
        "members": {"added": [*members_added], "removed": [*members_removed]},
        "stateless": modern_requirements() if "era" in altered and revision.era == "modern" else {},
    }


def modern_requirements() -> Object:
    """Return the parts of a modern request or result that replace the handshake, sessions, and server requests."""
    return {
        "_meta of a request": [PROTOCOL_VERSION, CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL],
        "_meta of a result": [SERVER_INFO],
        "headers of a POST": ["MCP-Protocol-Version", METHOD_HEADER, NAME_HEADER, f"{PARAM_PREFIX}*"],
        "requests in an input_required result": [*INPUT_REQUESTS],
    }


def _methods(revision: Revision) -> list[str]:
    return [method.name for method in METHODS if _is_defined_in(method.since, method.until, revision)]


def members(revision: Revision) -> tuple[list[str], list[str]]:
    """Return the types and members (such as `Tool.title`) that a revision added, and those that it removed."""
    added, removed = [], []
    for cls in wire_types():
        if cls.__name__.startswith("_"):  # a base class, whose members its subclasses have
            continue
        availability = getattr(cls, "availability", Availability())
        listed = [(cls.__name__, availability)]
        if availability.since is None or availability.since < revision:  # do not list the members of a new type
            listed += [
                (f"{cls.__name__}.{member.name}", member.availability)
                for member in members_of(cls) if member.availability is not PYTHON_ONLY
            ]  # fmt: skip
        added += [name for name, each in listed if each.since is revision]
        removed += [name for name, each in listed if each.until is revision]
    return sorted(added), sorted(removed)


def wire_types() -> Iterator[type]:
    """Yield the dataclasses of basic/content.py, and of all modules that the table of methods mentions."""
    paths = {"basic.content:TextContent"} | {path for m in METHODS for path in (m.params, m.result) if path}
    for module in sorted({load_type(path).__module__ for path in paths}):
        for cls in vars(sys.modules[module]).values():
            if isinstance(cls, type) and dataclasses.is_dataclass(cls) and cls.__module__ == module:
                yield cls


def show_table() -> None:
    names = behavior(REVISIONS[0])
    rows: dict[str, list[object]] = {name: [behavior(revision)[name] for revision in REVISIONS] for name in names}
    rows["methods"] = [sum(_is_defined_in(method.since, method.until, r) for method in METHODS) for r in REVISIONS]
    show.out(" " * 31 + "  ".join(revision.name for revision in REVISIONS))
    for name, values in rows.items():
        show.out(f"{name.replace('_', ' '):<31}" + "  ".join(f"{_cell(value):<10}" for value in values).rstrip())
    show.out("\nFor the changes of one revision: revisions REVISION")


def _is_defined_in(since: Revision, until: Revision | None, revision: Revision) -> bool:
    return since <= revision and (until is None or revision < until)


def _cell(value: object, no: str = "-") -> str:
    if value is False:
        return no
    return "yes" if value is True else str(value)


def show_changes(revision: Revision, changed: Object) -> None:
    since = f"after {changed['after']}" if changed["after"] else "the first"
    show.out(f"{revision}, {since}")
    titles = {"stateless": "Instead of a handshake", "behavior": "Behavior", "methods": "Methods"}
    for key, title in {**titles, "members": "Types and members"}.items():
        group = changed[key]
        assert isinstance(group, dict)
        if lines := list(_lines(key, group)):
            show.out("\n  ".join([f"\n{title}", *lines]))


def _lines(key: str, group: Object) -> Iterator[str]:
    if key == "behavior":
        for name, pair in group.items():
            assert isinstance(pair, list)
            was = "" if pair[0] is None else f", was {_cell(pair[0], 'no')}"
            yield f"{name.replace('_', ' ')}: {_cell(pair[1], 'no')}{was}"
        return
    if key == "stateless":
        for name, values in group.items():
            assert isinstance(values, list)
            yield f"{name}:"
            yield from (f"  {value}" for value in values)
        return
    for sign, kind in (("+", "added"), ("-", "removed")):
        names = group[kind]
        assert isinstance(names, list)
        yield from (f"{sign} {name}" for name in names)
