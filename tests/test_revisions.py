"""The revisions as data: the table of methods and the shapes of all types against the official schemas."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterator

import pytest

from mcp_ref.codec import members_of
from mcp_ref.revisions import (
    LEGACY,
    METHODS,
    REVISIONS,
    Revision,
    find_method,
    find_revision,
    load_type,
    revision_named,
)
from tests import frame_schema
from tests.messages import shape_of
from tests.settings import DATA

needs_data = pytest.mark.skipif(DATA is None, reason="the spec's data are not here; set MCP_REF_DATA")
PUBLISHED = [revision for revision in LEGACY if revision.name != "2024-10-07"]


def _sent_by(revision: Revision, side: str) -> set[str]:
    methods = set()
    for union in (f"{side}Request", f"{side}Notification"):
        definition = frame_schema.definitions(revision.name)[union]
        assert isinstance(definition, dict)
        members = definition["anyOf"]
        assert isinstance(members, list)
        for member in members:
            assert isinstance(member, dict)
            name = str(member["$ref"]).rpartition("/")[2]
            methods.add(_method_of(revision, name))
    return methods


def _method_of(revision: Revision, name: str) -> str:
    definition: typing.Any = frame_schema.definitions(revision.name)[name]
    return str(definition["properties"]["method"]["const"])


@needs_data
@pytest.mark.parametrize("revision", PUBLISHED, ids=str)
def test_methods_are_those_of_the_schema(revision: Revision) -> None:
    for side, sender in (("Client", "client"), ("Server", "server")):
        ours = {m.name for m in METHODS if find_method(m.name, revision, sender)}  # type: ignore[arg-type]
        assert ours == _sent_by(revision, side)


def _types() -> dict[str, type]:
    """Return the dataclasses that a message can hold, by their name in the schema."""
    found: dict[str, type] = {}

    def visit(hint: object) -> None:
        if isinstance(hint, type) and dataclasses.is_dataclass(hint) and hint.__name__ not in found:
            found[hint.__name__] = hint
            for member in members_of(hint):
                visit(member.hint)
        for argument in typing.get_args(hint):
            visit(argument)

    for method in METHODS:
        visit(load_type(method.params))
        if method.result is not None:
            visit(load_type(method.result))
    return found


def _schema_shapes(revision: Revision, cls: type) -> Iterator[dict[str, bool]]:
    """Return the members of the type of that name -> True if required; params are also read off their request."""
    definitions = frame_schema.definitions(revision.name)
    names = {"RequestParams", "NotificationParams", "EmptyResult", "ElicitRequestParams", "GetTaskPayloadResult"}
    name = cls.__name__
    availability = getattr(cls, "availability", None)
    if name in names or (availability is not None and not availability.covers(revision)):
        return
    if name == "ElicitRequestFormParams" and name not in definitions:
        name = "ElicitRequestParams"
    candidates: list[typing.Any] = [definitions.get(name)]
    if name.endswith("Params") and name not in definitions:
        outer: typing.Any = definitions.get(name.removesuffix("Params"))
        candidates = [outer and outer["properties"].get("params")]
    for definition in candidates:
        if isinstance(definition, dict) and "properties" in definition:
            required = set(definition.get("required", []))
            yield {member: member in required for member in definition["properties"]}


# Where a type of ours is wider or narrower than the schema's on purpose.
KNOWN = {
    ("CancelledNotificationParams", "requestId"): "optional in the schema of 2025-11-25, for tasks; else needed",
    ("Annotations", "lastModified"): "in prose since 2025-06-18",
}


@needs_data
@pytest.mark.parametrize("revision", PUBLISHED, ids=str)
@pytest.mark.parametrize("cls", _types().values(), ids=lambda cls: cls.__name__)
def test_types_have_the_members_of_the_schema(cls: type, revision: Revision) -> None:
    for expected in _schema_shapes(revision, cls):
        ours = shape_of(cls, revision)
        # Every params and result may carry _meta, also where the schema leaves it to the base type.
        if "_meta" not in expected:
            ours.pop("_meta", None)
        ours = {m: r for m, r in ours.items() if (cls.__name__, m) not in KNOWN}
        theirs = {m: r for m, r in expected.items() if (cls.__name__, m) not in KNOWN}
        assert ours == theirs


def test_lives_refer_to_known_revisions() -> None:
    for cls in _types().values():
        for member in members_of(cls):
            assert member.availability.since is None or member.availability.since in REVISIONS
            assert member.availability.until is None or member.availability.until in REVISIONS


def test_find_revision_takes_exact_names() -> None:
    assert [find_revision(r.name) for r in REVISIONS] == list(REVISIONS)
    for name in ("v999", "2025-11-26", "", None, 20251125, "2025-11-25 "):
        assert find_revision(name) is None


def test_revision_named_lists_the_known_ones_for_an_unknown_name() -> None:
    with pytest.raises(ValueError, match="2024-10-07, 2024-11-05"):
        revision_named("1.0")


def test_find_method_without_a_row_is_none() -> None:
    latest = LEGACY[-1]
    assert find_method("tools/call", latest, "client") is not None
    assert find_method("tools/call", latest, "server") is None
    assert find_method("tools/fly", latest, "client") is None
    assert find_method("elicitation/create", LEGACY[2], "server") is None
    assert find_method("notifications/cancelled", LEGACY[0], "client") is None
    assert find_method("ping", REVISIONS[-1], "client") is None


def test_methods_are_named_once_in_a_revision() -> None:
    for revision in REVISIONS:
        names = [m.name for m in METHODS if m.since <= revision and (m.until is None or revision < m.until)]
        assert len(names) == len(set(names))
