"""`revisions` prints a table of all revisions of the protocol, and `revisions 2025-11-25` the changes of one.

The output comes from the data that the package itself uses: `Revision` has the features of one revision, `METHODS` has
the methods of all of them, and `Availability` names the revisions that have a type or a member.
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
from ..revisions import METHODS, PYTHON_ONLY, REVISIONS, Availability, Method, Revision, load_type, revision_named
from . import show, usage_errors

FEATURES = [field.name for field in dataclasses.fields(Revision) if field.name not in ("index", "name")]
"""The fields of `Revision` that say what is different in a revision."""


def show_revisions(name: str | None, json: bool) -> None:
    """Print the table of all revisions, or the changes of one revision."""
    if name is None:
        return show.print_json({r.name: features(r) for r in REVISIONS}) if json else show_table()
    with usage_errors():
        revision = revision_named(name)
    changed = changes(revision)
    return show.print_json(changed) if json else show_changes(revision, changed)


def features(revision: Revision) -> Object:
    """Return the features of a revision, by name."""
    return {name: getattr(revision, name) for name in FEATURES}


def changes(revision: Revision) -> Object:
    """Return a revision's changes: [before, now] of each changed feature, and the added and removed names."""
    earlier = [r for r in REVISIONS if r < revision]
    previous = earlier[-1] if earlier else None
    features_before: Object = {} if previous is None else features(previous)
    methods_before = [] if previous is None else _methods(previous)
    methods = _methods(revision)
    changed_features: Object = {}
    for name, value in features(revision).items():
        before = features_before.get(name)
        if value != before:
            changed_features[name] = [before, value]
    members_added, members_removed = members(revision)
    is_first_modern = "era" in changed_features and revision.era == "modern"
    return {
        "revision": revision.name,
        "after": None if previous is None else previous.name,
        "behavior": changed_features,
        "methods": {
            "added": [name for name in methods if name not in methods_before],
            "removed": [name for name in methods_before if name not in methods],
        },
        "members": {"added": [*members_added], "removed": [*members_removed]},
        "stateless": stateless_members() if is_first_modern else {},
    }


def stateless_members() -> Object:
    """Return the members and headers that replace the handshake, the sessions and the server's requests."""
    return {
        "_meta of a request": [PROTOCOL_VERSION, CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL],
        "_meta of a result": [SERVER_INFO],
        "headers of a POST": ["MCP-Protocol-Version", METHOD_HEADER, NAME_HEADER, f"{PARAM_PREFIX}*"],
        "requests in an input_required result": [*INPUT_REQUESTS],
    }


def _methods(revision: Revision) -> list[str]:
    return [method.name for method in METHODS if _has_method(revision, method)]


def members(revision: Revision) -> tuple[list[str], list[str]]:
    """Return the types and members (such as `Tool.title`) that a revision added, and those that it removed."""
    availabilities: dict[str, Availability] = {}
    for cls in wire_types():
        if cls.__name__.startswith("_"):  # a base class: its subclasses have its members
            continue
        availability = getattr(cls, "availability", Availability())
        availabilities[cls.__name__] = availability
        is_older_type = availability.since is None or availability.since < revision
        if not is_older_type:
            continue  # the name of a new type stands for all its members
        for member in members_of(cls):
            if member.availability is not PYTHON_ONLY:
                availabilities[f"{cls.__name__}.{member.name}"] = member.availability
    added = sorted(name for name, each in availabilities.items() if each.since is revision)
    removed = sorted(name for name, each in availabilities.items() if each.until is revision)
    return added, removed


def wire_types() -> Iterator[type]:
    """Yield the dataclasses of basic/content.py, and of all modules that the table of methods mentions."""
    type_paths = {"basic.content:TextContent"}
    for method in METHODS:
        type_paths.update(path for path in (method.params, method.result) if path)
    for module in sorted({load_type(path).__module__ for path in type_paths}):
        for cls in vars(sys.modules[module]).values():
            if isinstance(cls, type) and dataclasses.is_dataclass(cls) and cls.__module__ == module:  # not imported
                yield cls


def show_table() -> None:
    rows: dict[str, list[object]] = {name: [getattr(revision, name) for revision in REVISIONS] for name in FEATURES}
    rows["methods"] = [len(_methods(revision)) for revision in REVISIONS]
    show.out(" " * 31 + "  ".join(revision.name for revision in REVISIONS))
    for name, values in rows.items():
        show.out(f"{name.replace('_', ' '):<31}" + "  ".join(f"{_cell(value):<10}" for value in values).rstrip())
    show.out("\nFor the changes of one revision: revisions REVISION")


def _has_method(revision: Revision, method: Method) -> bool:
    return method.since <= revision and (method.until is None or revision < method.until)


def _cell(value: object, false_text: str = "-") -> str:
    if value is False:
        return false_text
    return "yes" if value is True else str(value)


def show_changes(revision: Revision, changed: Object) -> None:
    """Print the `changes` of a revision, with a title above each group that is not empty."""
    previous = changed["after"]
    show.out(f"{revision}, after {previous}" if previous else f"{revision}, the first")
    groups = (
        ("stateless", "Stateless requests, instead of a handshake", _stateless_lines),
        ("behavior", "Behavior", _feature_lines),
        ("methods", "Methods", _name_lines),
        ("members", "Types and members", _name_lines),
    )
    for key, title, lines_of in groups:
        group = changed[key]
        assert isinstance(group, dict)
        lines = list(lines_of(group))
        if lines:
            show.out("\n  ".join([f"\n{title}", *lines]))


def _stateless_lines(members: Object) -> Iterator[str]:
    for part, names in members.items():
        assert isinstance(names, list)
        yield f"{part}:"
        yield from (f"  {name}" for name in names)


def _feature_lines(changed_features: Object) -> Iterator[str]:
    for name, before_and_after in changed_features.items():
        assert isinstance(before_and_after, list)
        before, now = before_and_after
        was = "" if before is None else f", was {_cell(before, 'no')}"
        yield f"{name.replace('_', ' ')}: {_cell(now, 'no')}{was}"


def _name_lines(group: Object) -> Iterator[str]:
    for sign, kind in (("+", "added"), ("-", "removed")):
        names = group[kind]
        assert isinstance(names, list)
        yield from (f"{sign} {name}" for name in names)
