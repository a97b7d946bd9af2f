"""Shapes: the rules that check the params and the result of each message against the schema of its revision.

The dataclasses of the package describe the schema of each revision, and the codec decodes messages by them. Here, an
error of the codec is a fault of the message. A member of another revision breaks no MUST, because receivers ignore it,
so `members_of_revision` only advises against it.

Spec:  schema: all types
Used by: conversation.py
"""

from __future__ import annotations

import dataclasses
import functools
import re
import typing
from collections.abc import Iterator
from typing import Final, TypeVar

from ..basic.lifecycle import ClientCapabilities, Implementation
from ..basic.versioning import CLIENT_CAPABILITIES, CLIENT_INFO, SERVER_INFO
from ..codec import ShapeError, codec_for, members_of
from ..features.tools import Tool
from ..jsonrpc.messages import JSON
from ..revisions import PYTHON_ONLY, R2025_11_25, R2026_07_28, Availability, Revision, load_type
from .masking import HIDDEN
from .rules import ADVICE, MUST, SHAPE, Fault, Verdict, modern_rule, rule
from .state import Message, an_object, objects, quoted

T = TypeVar("T")


def decode(message: Message, cls: type[T], value: JSON) -> T:
    """Return a value in a message as an instance of a dataclass. Raise ShapeError if it does not fit the schema."""
    assert message.revision is not None
    return codec_for(message.revision).decode(cls, value)


def _body_fault(message: Message, path: str, part: str) -> Verdict:
    """Decode the params or the result of a message, and return the fault of its shape, or None."""
    cls = load_type(path)
    try:
        message.value = decode(message, cls, message.body)
    except ShapeError as error:
        if message.masked and error.got == HIDDEN:
            return None
        assert message.revision is not None
        foreign = _foreign_members_within(cls, message.revision)
        names_on_path = re.split(r"[.\[\]]+", error.path)
        if any(name in foreign for name in names_on_path):
            return None  # a member of another revision can have any type here
        verb = "does" if part == "result" else "do"
        return f"the {part} of {message.method} {verb} not fit the schema: {error}"
    return None


@functools.lru_cache(maxsize=512)
def _foreign_members_within(cls: type, revision: Revision) -> frozenset[str]:
    """Return the names of the members of a type, and of the types in it, that only other revisions have."""
    found = [cls]
    for each in found:  # the list grows during the loop
        for member in members_of(each):
            for hint in _types_in(member.hint):
                if dataclasses.is_dataclass(hint) and hint not in found:
                    found.append(hint)
    return frozenset().union(*(_foreign_members(each, revision) for each in found))


def _types_in(hint: object) -> Iterator[type]:
    if isinstance(hint, type):
        yield hint
    for each in typing.get_args(hint):
        yield from _types_in(each)


_META_TYPES: Final = {CLIENT_INFO: Implementation, SERVER_INFO: Implementation, CLIENT_CAPABILITIES: ClientCapabilities}


@modern_rule(MUST, "schema/RequestMetaObject", "request result", stage=SHAPE)
def meta_fits(message: Message) -> Verdict:
    """The names and capabilities in _meta fit the schema."""
    for key, cls in _META_TYPES.items():
        if key in message.meta:
            try:
                decode(message, cls, message.meta[key])
            except ShapeError as error:
                return Fault(f"the {key} of the {message.label} does not fit the schema: {error}", key=key)
    return None


_SINCE_2025_11_25: Final = Availability(since=R2025_11_25)
_ONLY_2025_11_25: Final = Availability(since=R2025_11_25, until=R2026_07_28)
_LIST_CHANGED: Final[dict[str, tuple[type, Availability]]] = {"listChanged": (bool, Availability())}
_CAPABILITY_MEMBERS: Final[dict[str, dict[str, tuple[type, Availability]]]] = {
    "tools": _LIST_CHANGED,
    "prompts": _LIST_CHANGED,
    "resources": {**_LIST_CHANGED, "subscribe": (bool, Availability())},
    "roots": {"listChanged": (bool, Availability(until=R2026_07_28))},
    "sampling": {"context": (dict, _SINCE_2025_11_25), "tools": (dict, _SINCE_2025_11_25)},
    "elicitation": {"form": (dict, _SINCE_2025_11_25), "url": (dict, _SINCE_2025_11_25)},
    "tasks": dict.fromkeys(
        ("list", "cancel", "requests.tools.call", "requests.sampling.createMessage", "requests.elicitation.create"),
        (dict, _ONLY_2025_11_25),
    ),
}
"""Capability -> the paths of its members, with their types and the revisions that define them."""


def _member(value: object, path: str) -> object:
    """Return the member at a path, or None if it is missing. If an object on the way has a wrong type, return that."""
    for name in path.split("."):
        if not isinstance(value, dict):
            return value
        value = value.get(name)
    return value


@rule(MUST, "schema/ServerCapabilities", "request result", stage=SHAPE)
def capability_members(message: Message) -> Verdict:
    """The members of a capability have the types of the schema."""
    declared, revision = message.declared, message.revision
    if not declared or revision is None:
        return None
    for feature, value in declared.items():
        for path, (kind, availability) in _CAPABILITY_MEMBERS.get(feature, {}).items():
            found = _member(value, path)
            if found is not None and type(found) is not kind and availability.covers(revision):
                text = f"the capability {feature}.{path} of the {message.side} is {quoted(found)}"
                return Fault(text, key=f"{feature}.{path}")
    for path in ("experimental", "extensions"):
        for name, value in an_object(declared.get(path)).items():
            is_judged = value != HIDDEN and (path == "experimental" or revision.era == "modern")
            if is_judged and type(value) is not dict:
                return Fault(f"the settings of {quoted(name)} in {path} are {quoted(value)}", key=name[:80])
    return None


@rule(MUST, "2025-11-25/basic/lifecycle#initialization-2", "request notification", stage=SHAPE)
def params_fit(message: Message) -> Verdict:
    """The params of a message fit the schema of the revision."""
    facts = message.method_facts
    return _body_fault(message, facts.params, "params") if facts is not None else None


@rule(MUST, "2025-11-25/basic/lifecycle#initialization-5", "result", stage=SHAPE)
def result_fits(message: Message) -> Verdict:
    """The result of a request fits the schema of the revision."""
    facts, call = message.method_facts, message.call
    if facts is None or facts.result is None or call is None or message.revision is None:
        return None
    if message.body.get("resultType", "complete") != "complete" and message.revision.era == "modern":
        return None  # an input request or a task, which have rules of their own
    if message.revision.built_in_tasks and "task" in call.params and "task" in message.body:
        return _body_fault(message, "extensions.tasks.types:CreateTaskResult", "result")
    return _body_fault(message, facts.result, "result")


@rule(MUST, "2026-07-28/basic/patterns/progress#progress-flow-1", "request", stage=SHAPE)
def progress_token_type(message: Message) -> Verdict:
    """A progress token is a string or an integer."""
    if message.masked or "progressToken" not in message.meta:
        return None
    token = message.meta["progressToken"]
    return None if is_string_or_integer(token) else f"the progressToken of {message.method} is {quoted(token)}"


def is_string_or_integer(value: object) -> bool:
    """Return True for a string or an integer. 1.0 is an integer too, as in JSON Schema."""
    return type(value) in (str, int) or (type(value) is float and value.is_integer())


@functools.lru_cache(maxsize=512)
def _foreign_members(cls: type, revision: Revision) -> frozenset[str]:
    """Return the names of the members of a type that only other revisions have."""
    members = [each for each in members_of(cls) if each.availability != PYTHON_ONLY]
    return frozenset(each.name for each in members if not each.availability.covers(revision))


@rule(ADVICE, "schema/Result", "request notification result")
def members_of_revision(message: Message) -> Verdict:
    """A message, and each tool in a list, has only members of its revision."""
    facts, revision = message.method_facts, message.revision
    if facts is None or revision is None:
        return None
    path = facts.params if message.kind != "result" else facts.result
    foreign = _foreign_members(load_type(path or "basic.meta:EmptyResult"), revision).intersection(message.body)
    if not foreign and message.method == "tools/list" and message.kind == "result":
        for tool in objects(message.body.get("tools")):
            foreign |= _foreign_members(Tool, revision).intersection(tool)
    if not foreign:
        return None
    return f"{message.label} has the member {min(foreign)}, which revision {revision} does not have"
