"""Conversion between dataclasses and JSON, for one revision.

Each type of the protocol is one dataclass, which serves all revisions. From the type and the `Availability` of each
field, a `Codec` builds a writer and a reader for one revision.

- The field `mime_type` is the JSON member `mimeType`, and the field `meta` is the member `_meta`.
- A field with its default value is not written, unless it is a constant such as `type`.
- The peer gets only members that its revision has; `Availability.if_unsupported` decides about the others.
- The reader ignores unknown members, because later revisions can add some. It treats an optional member that is null as
  absent, and reads members of other revisions if they are present, except with `if_unsupported="ignore"`. For a missing
  member or a wrong type, it raises `ShapeError`, because a guess could make a server run a call that nobody meant.
- For other differences between revisions, a dataclass can have two methods: `to_wire(wire, revision)` changes the JSON
  object that the writer made, and the static method `from_wire(wire, revision)` changes an object before it is read.

Spec:  schema/<revision>/schema.json
"""

from __future__ import annotations

import dataclasses
import functools
import json
import types
from collections.abc import Callable
from typing import Annotated, Final, Literal, NamedTuple, TypeVar, Union, cast, get_args, get_origin

from .jsonrpc.messages import JSON, Object
from .lib.fields import QUOTED, dataclasses_of, fits, hints_of, usual_types, without_none, wrong_type
from .revisions import Availability, NotInRevision, Revision

T = TypeVar("T")
_Read = Callable[[JSON], object]
_Write = Callable[[object], JSON]
_WriteObject = Callable[[object], Object]


class ShapeError(ValueError):
    """The error for a JSON value of the wrong type. `path` names the members that lead to the value."""

    def __init__(self, expected: str, got: JSON, path: str = "") -> None:
        self.expected, self.got, self.path = expected, got, path

    def under(self, name: str | int) -> ShapeError:
        """Return this error with the name or index of the enclosing member before its path."""
        separator = "" if not self.path or self.path.startswith("[") else "."
        step = name if isinstance(name, str) else f"[{name}]"
        return ShapeError(self.expected, self.got, f"{step}{separator}{self.path}")

    def __str__(self) -> str:
        return f"{self.path or 'value'}: expected {self.expected}, got {_describe_value(self.got)}"


_MISSING: Final = "\0missing"  # `ShapeError.got` of an absent member: a text, because `got` must be JSON


def _describe_value(value: JSON) -> str:
    if value is _MISSING:
        return "nothing"
    if type(value) is str:
        return f"the string {value[:40]!r}"
    if value is None or type(value) in (bool, int, float):
        return json.dumps(value)[:40]
    return "an array" if type(value) is list else "an object"


class Codec:
    """The writers and readers of dataclasses, for one revision."""

    def __init__(self, revision: Revision) -> None:
        self.revision = revision
        self._writers: dict[type, _WriteObject] = {}
        self._readers: dict[type, _Read] = {}

    def encode(self, value: object) -> Object:
        """Return the JSON object of a dataclass.

        Raise TypeError for a field of the wrong type, NotInRevision if the revision lacks a field that must be sent.
        """
        return (self._writers.get(type(value)) or self._class_writer(type(value)))(value)

    def decode(self, cls: type[T], value: JSON) -> T:
        """Return an instance of the dataclass `cls` from a JSON object. Raise ShapeError for a wrong member."""
        return (self._readers.get(cls) or self._class_reader(cls))(value)  # type: ignore[return-value]

    def _class_writer(self, cls: type) -> _WriteObject:
        availability: Availability | None = getattr(cls, "availability", None)
        if availability is None or availability.covers(self.revision):
            write = self._fields_writer(cls)
        else:
            write = functools.partial(self._write_fallback, availability)
        self._writers[cls] = write
        return write

    def _write_fallback(self, availability: Availability, value: object) -> Object:
        if availability.fallback is None:
            raise NotInRevision(f"{type(value).__name__} does not exist in revision {self.revision}")
        return self.encode(availability.fallback(value))

    def _fields_writer(self, cls: type) -> _WriteObject:
        revision = self.revision
        # attribute, the value that is omitted, and how to write another value: `row`, which is unpacked below
        plan: list[tuple[str, object, tuple[str, _Write | None, object, tuple[object, ...], object]]] = []
        refused: list[tuple[str, str, object]] = []
        for each in members_of(cls):
            if each.availability.covers(revision):
                is_always_written = get_origin(each.hint) is Literal or each.availability.requires(revision)
                omitted = dataclasses.MISSING if is_always_written else each.default
                write_member = self._writer(each.hint, f"{cls.__name__}.{each.attribute}")
                usual = usual_types(each.hint)
                plan.append((each.attribute, omitted, (each.name, write_member, each.default, usual, each.hint)))
            elif each.availability.if_unsupported == "refuse":
                refused.append((each.attribute, each.name, each.default))
        adjust = getattr(cls, "to_wire", None)
        has_dict = not hasattr(cls, "__slots__")

        def write(value: object) -> Object:
            wire: Object = {}
            members = value.__dict__ if has_dict else {}
            for attribute, omitted, row in plan:
                try:
                    member = members[attribute]  # faster than `getattr`
                except KeyError:  # the class has slots, or an author's `__init__` does not set a field with a default
                    member = getattr(value, attribute)
                if member is omitted:
                    continue
                name, convert, default, usual, hint = row  # a tuple of its own, because most fields are not written
                # the slow `fits` is needed only if the value is not the default, and its type is unusual
                if member is not default and type(member) not in usual and not fits(hint, member):
                    raise wrong_type(cls, attribute, member)
                wire[name] = convert(member) if convert else member
            for attribute, name, default in refused:
                if getattr(value, attribute) is not default:
                    raise NotInRevision(f"{cls.__name__}.{name} does not exist in revision {revision}")
            return adjust(value, wire, revision) if adjust else wire

        return write

    def _writer(self, hint: object, place: str) -> _Write | None:
        """Return a writer for the values of a field, or None if they are JSON already. `place` names the field."""
        origin, args = get_origin(hint), get_args(hint)
        if origin is list:
            item = self._writer(args[0], place)
            return None if item is None else lambda values: list(map(item, values))  # type: ignore[call-overload]
        if origin is dict:
            member = self._writer(args[1], place)
            return None if member is None else lambda values: {k: member(v) for k, v in cast(Object, values).items()}
        classes = dataclasses_of(hint)  # () unless the type is a dataclass, or a union of nothing but dataclasses
        if classes:
            return self._object_writer(classes, place)
        inner = without_none(hint)
        if inner is not hint:  # an optional type
            write_inner = self._writer(inner, place)
            if write_inner is None:
                return None
            return lambda value: None if value is None else write_inner(value)
        is_union = origin in (Union, types.UnionType)  # of a dataclass and a type that is JSON already
        return self._write_any if is_union and any(map(dataclasses_of, args)) else None

    def _object_writer(self, classes: tuple[type, ...], place: str) -> _Write:
        writers: dict[type, _WriteObject] = {}

        def write(value: object) -> JSON:
            cls = type(value)
            write_object = writers.get(cls)
            if write_object is None:
                if not isinstance(value, classes):
                    expected = " or ".join(each.__name__ for each in classes)
                    raise TypeError(f"{place} must have objects of {expected}, not {value!r:.{QUOTED}}")
                write_object = writers[cls] = self._writers.get(cls) or self._class_writer(cls)
            return write_object(value)

        return write

    def _write_any(self, value: object) -> JSON:
        if dataclasses.is_dataclass(value):
            return self.encode(value)
        if type(value) is list:
            return [self._write_any(item) for item in value]
        return cast(JSON, value)

    def _class_reader(self, cls: type) -> _Read:
        revision = self.revision
        # JSON name -> attribute, reader, type whose values need no reader, True for a required member that may be null
        plan: dict[str, tuple[str, _Read | None, object, bool]] = {}
        required: dict[str, str] = {}  # JSON name -> expected type
        constants: dict[str, JSON] = {}  # JSON name -> the only value, which is also the default
        for each in members_of(cls):
            hint, availability = each.hint, each.availability
            if each.is_optional and availability.if_unsupported == "ignore" and not availability.covers(revision):
                continue  # a member of other revisions only, which stays unread
            if each.is_constant and each.is_optional:
                constants[each.name] = get_args(hint)[0]
                continue  # it needs no reader, because its default is the only value
            if not each.is_optional or availability.requires(revision):
                required[each.name] = _describe_type(hint)
            nullable = not each.is_optional and type(None) in get_args(hint)
            plan[each.name] = each.attribute, self._reader(hint), _unchanged_type(hint), nullable
        adjust = getattr(cls, "from_wire", None)

        def read(value: JSON) -> object:
            if type(value) is not dict:
                raise ShapeError("an object", value)
            wire: Object = adjust(value, revision) if adjust else value
            members: dict[str, object] = {}
            for name, described in required.items():
                if name not in wire:
                    raise ShapeError(described, _MISSING, name)
            for name, constant in constants.items():
                if wire.get(name) != constant:
                    raise ShapeError(repr(constant), wire.get(name, _MISSING), name)
            for name, member in wire.items():
                if name not in plan or (member is None and name not in required):
                    continue  # an unknown member, or null for an absent optional one
                attribute, convert, unchanged, nullable = plan[name]
                if type(member) is unchanged or convert is None or (member is None and nullable):
                    members[attribute] = member
                    continue
                try:
                    members[attribute] = convert(member)
                except ShapeError as error:
                    raise error.under(name) from None
            return cls(**members)

        self._readers[cls] = read
        return read

    def _reader(self, hint: object) -> _Read | None:
        """Return a reader for a type, or None if the type accepts any JSON value."""
        if hint in _SCALARS:
            return functools.partial(_read_scalar, hint, *_SCALARS[hint])
        if isinstance(hint, type) and dataclasses.is_dataclass(hint):
            return lambda value: (self._readers.get(hint) or self._class_reader(hint))(value)
        origin, args = get_origin(hint), get_args(hint)
        if origin is Literal:
            return functools.partial(_read_literal, args)
        if origin is list:
            return functools.partial(_read_list, self._reader(args[0]))
        if origin is dict:
            return functools.partial(_read_dict, self._reader(args[1]))
        if origin in (Union, types.UnionType):
            members = [arg for arg in args if arg is not type(None)]
            return self._reader(members[0]) if len(members) == 1 else self._union_reader(members)
        return None

    def _union_reader(self, members: list[object]) -> _Read | None:
        """Return a reader for a union, which recognizes a class by its members, and other types by the JSON type."""
        objects = [each for each in members if isinstance(each, type) and dataclasses.is_dataclass(each)]
        others = [(_json_kinds(each), self._reader(each)) for each in members if each not in objects]
        if any(kinds is None for kinds, _ in others):  # this member accepts any JSON value, so the union does too
            return None
        expected = " or ".join(_describe_type(each) for each in members)

        def read(value: JSON) -> object:
            if type(value) is dict and objects:
                cls = _choose_class(objects, value, expected)
                return (self._readers.get(cls) or self._class_reader(cls))(value)
            for kinds, convert in others:
                if type(value) in (kinds or ()):
                    return convert(value) if convert else value
            raise ShapeError(expected, value)

        return read


codec_for = functools.cache(Codec)


def _choose_class(classes: list[type], value: Object, expected: str) -> type:
    """Return the first class that fits `value`, by its constant or, without one, by its required members."""
    for cls in classes:
        tag, constant, required = _distinguishing_members(cls)
        matches = (value.get(tag) == constant) if tag else (required <= value.keys())
        if matches:
            return cls
    tag, _, _ = _distinguishing_members(classes[0])
    if tag:  # such as `type`, which then has a wrong value
        raise ShapeError(expected, value.get(tag, _MISSING), tag)
    raise ShapeError(expected, value)


@functools.cache
def _distinguishing_members(cls: type) -> tuple[str, JSON, frozenset[str]]:
    """Return the name and the value of a class's constant. Without one, return "", None and the required members."""
    members = members_of(cls)
    for member in members:
        if member.is_constant:  # enough to choose the class, whose reader then says if another member is missing
            return member.name, get_args(member.hint)[0], frozenset()
    return "", None, frozenset(member.name for member in members if not member.is_optional)


class Member(NamedTuple):
    """A field of a dataclass, as a member of a JSON object."""

    attribute: str
    name: str  # in JSON: `mimeType` for the attribute `mime_type`, `_meta` for `meta`
    hint: object  # the type, without the `Availability`
    availability: Availability
    default: object  # `dataclasses.MISSING` for a field without a default, or with a factory
    is_optional: bool  # True if there is a default, or a factory for it
    is_constant: bool  # True for a Literal of one value, such as the `type` of a content block


@functools.cache
def members_of(cls: type) -> list[Member]:
    hints, members = hints_of(cls), []
    for field in dataclasses.fields(cls):
        hint, availability = hints[field.name], Availability()
        if get_origin(hint) is Annotated:
            hint, *extras = get_args(hint)
            availability = next((extra for extra in extras if isinstance(extra, Availability)), availability)
        first, *rest = field.name.split("_")
        name = "_meta" if field.name == "meta" else first + "".join(word.capitalize() for word in rest)
        is_optional = not (field.default is field.default_factory is dataclasses.MISSING)
        is_constant = get_origin(hint) is Literal and len(get_args(hint)) == 1
        members.append(Member(field.name, name, hint, availability, field.default, is_optional, is_constant))
    return members


_SCALARS: dict[object, tuple[str, tuple[type, ...]]] = {
    str: ("a string", (str,)),
    int: ("an integer", (int,)),
    float: ("a number", (int, float)),
    bool: ("true or false", (bool,)),
}
"""Scalar type -> its description, and the types of its values in parsed JSON."""


def _unchanged_type(hint: object) -> object:
    """Return the type of the values that need no reader, because they stay as they are; None if all need one."""
    inner = without_none(hint)
    if inner == dict[str, object]:
        return dict
    return inner if inner in _SCALARS else None


def _read_scalar(hint: object, expected: str, kinds: tuple[type, ...], value: JSON) -> object:
    if type(value) in kinds:
        return value
    if hint is int and type(value) is float and value.is_integer():
        return int(value)  # JSON Schema counts 1.0 as an integer
    raise ShapeError(expected, value)


def _read_literal(options: tuple[JSON, ...], value: JSON) -> object:
    if type(value) is not str or value not in options:  # all constants of the protocol are strings
        raise ShapeError(" or ".join(repr(option) for option in options), value)
    return value


def _read_list(item: _Read | None, value: JSON) -> object:
    if type(value) is not list:
        raise ShapeError("an array", value)
    if item is None:
        return value
    items: list[object] = []
    try:
        for member in value:
            items.append(item(member))
    except ShapeError as error:
        raise error.under(len(items)) from None  # the first item that was not read has this index
    return items


def _read_dict(item: _Read | None, value: JSON) -> object:
    if type(value) is not dict:
        raise ShapeError("an object", value)
    if item is None:
        return value
    members: dict[str, object] = {}
    try:
        for name, member in value.items():
            members[name] = item(member)
    except ShapeError as error:
        raise error.under(name) from None
    return members


def _json_kinds(hint: object) -> tuple[type, ...] | None:
    """Return the types of a field's values in parsed JSON; None if the field accepts any JSON value."""
    if hint in _SCALARS:
        return _SCALARS[hint][1]
    origin = get_origin(hint)
    if origin is Literal:
        return tuple({type(arg) for arg in get_args(hint)})
    return (origin,) if origin in (list, dict) else None


def _describe_type(hint: object) -> str:
    if get_origin(hint) is Literal:
        return " or ".join(repr(arg) for arg in get_args(hint))
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join(_describe_type(arg) for arg in get_args(hint) if arg is not type(None))
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return f"an object ({hint.__name__})"
    if hint in _SCALARS:
        return _SCALARS[hint][0]
    kind = get_origin(hint) or hint
    if kind is list:
        return "an array"
    return "an object" if kind is dict else "a value"
