"""The JSON Schema of a Python annotation, and its reader: a function that converts JSON to the annotated type.

    schema_of(list[date])      {"type": "array", "items": {"type": "string", "format": "date"}}
    reader_of(list[date])      a function that turns ["2025-01-31"] into [date(2025, 1, 31)]

Language models read the schemas, so they are simple: no `$ref` or `title`, and where possible a list of types, such as
`{"type": ["integer", "null"]}`, instead of an `anyOf`. The schema of an object allows further properties, which a later
version of a program may add. `Annotated[X, {"additionalProperties": False}]` forbids them.
"""

from __future__ import annotations

import re
import types
import typing
from collections import abc
from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING, Field, InitVar, fields, is_dataclass
from enum import Enum
from functools import partial
from itertools import repeat
from math import inf, isfinite
from typing import Annotated, Any, Final, Literal, NamedTuple, NotRequired, Required, Union, get_args, get_origin

from .constraints import add_keywords
from .models import is_model, model_reader, model_schema
from .unions import TYPE_NAMES, Reader, Schema, type_keyword, union_reader, union_schema
from .values import JSON, STRING_TYPES, ConversionError, StringType, to_json

SUPPORTED: Final = (
    "int, float, bool, str, bytes, None, Any, list, set, frozenset, tuple, dict[str, …] and their abstract forms, "
    "Literal, Enum, unions, dataclass, TypedDict, NamedTuple, pydantic models, datetime, date, time, UUID, Decimal, "
    "Path, and Annotated, NewType and type aliases of these"
)

MAX_DEPTH: Final = 90
"""Maximum nesting of types, in levels; a union adds one. It is less than the 100 levels that lib/jsonschema accepts."""


class UnsupportedType(TypeError):
    """The error for an annotation without a JSON Schema."""


class Conversion(NamedTuple):
    """The schema of an annotation, and its reader."""

    schema: Schema
    read: Reader | None = None
    """None if the JSON value needs no conversion."""
    is_generated: bool = True
    """False if a tool author or pydantic wrote a part of the schema, so that it may be malformed."""


class AnnotationScope(NamedTuple):
    """The context of one part of an annotation. `path` is the location of the part, for error messages."""

    path: str
    names: dict[str, object]
    """The local variables of the enclosing functions, by name. Annotations in quotes may use them."""
    enclosing: tuple[object, ...] = ()
    """The types that contain the part. A type that contains itself is refused, because its schema would be infinite."""
    is_result: bool = False
    """True if the program writes values of the type instead of reading them. Pydantic adds computed fields then."""
    depth: int = 0
    """Nesting level of the part. Unlike `enclosing`, it counts unions and containers too."""

    def part(self, step: str) -> AnnotationScope:
        if self.depth >= MAX_DEPTH:
            raise self.error("the type", f"is nested deeper than {MAX_DEPTH} levels")
        return self._replace(path=self.path + step, depth=self.depth + 1)

    def enter(self, annotation: object) -> AnnotationScope:
        if annotation in self.enclosing:
            raise self.error(annotation, "contains itself, which a schema without $ref cannot express")
        return self._replace(enclosing=(*self.enclosing, annotation))

    def error(self, annotation: object, why: str = "") -> UnsupportedType:
        """Return the error for an annotation. Without a reason `why`, the text lists the supported types."""
        shown = annotation.__qualname__ if isinstance(annotation, type) else str(annotation)
        if not why:
            why = f"has no JSON Schema here. Use a supported type, or write the schema by hand. Supported: {SUPPORTED}"
        return UnsupportedType(f"{self.path}: {shown} {why}.")

    def type_hints(self, owner: Any) -> dict[str, Any]:
        """Return the annotations of a function or class, evaluating those in quotes."""
        names = self.names if "<locals>" in owner.__qualname__ else {}
        if isinstance(owner, type):
            names = {**names, owner.__name__: owner}
        try:
            return typing.get_type_hints(owner, localns=names, include_extras=True)
        except (NameError, AttributeError, SyntaxError, TypeError, RecursionError) as error:
            why = "all names in the annotation must be visible in its module"
            if "unhashable" in str(error):  # before Python 3.13, members of a union must be hashable
                why = "write the dict outside the union, as in Annotated[int | None, {…}]"
            why = f"has an annotation that cannot be evaluated ({error}); {why}"
            raise self.error(owner.__qualname__, why) from error


def schema_of(annotation: object) -> Schema:
    """Return the JSON Schema (2020-12) of an annotation.

    Args:
        annotation: A supported annotation. SUPPORTED lists all supported types.

    Raises:
        UnsupportedType: The annotation, or a part of it, has no JSON Schema.
    """
    return conversion_of(annotation, AnnotationScope("annotation", {})).schema


def reader_of(annotation: object) -> Reader | None:
    """Return the function that converts JSON to the annotated type, or None if the JSON value can be used as it is.

    The function expects a value that satisfies `schema_of(annotation)`. For faults that a schema cannot express, such
    as February 30, it raises ConversionError.

    Args:
        annotation: As for `schema_of`.

    Raises:
        UnsupportedType: The annotation, or a part of it, has no JSON Schema.
    """
    return conversion_of(annotation, AnnotationScope("annotation", {})).read


def conversion_of(annotation: Any, scope: AnnotationScope) -> Conversion:
    """Return the schema and the reader of an annotation."""
    if annotation is Any or annotation is object:
        return Conversion({})
    cls = types.NoneType if annotation is None else annotation
    if isinstance(cls, type) and cls in TYPE_NAMES:
        return Conversion({"type": TYPE_NAMES[cls]}, _READERS.get(cls))
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _annotated(arguments, scope)
    if origin is Literal:
        return _literal(arguments, scope)
    if origin is Union or origin is types.UnionType:
        member_scope = scope.part("")  # one level deeper, at the same path
        conversions = [conversion_of(argument, member_scope) for argument in arguments]
        schemas, readers = [member.schema for member in conversions], [member.read for member in conversions]
        return Conversion(union_schema(schemas), union_reader(schemas, readers), _are_generated(conversions))
    if origin in _QUALIFIERS:
        return conversion_of(arguments[0], scope)
    if isinstance(annotation, typing.NewType):
        return conversion_of(annotation.__supertype__, scope)
    if isinstance(annotation, _TYPE_ALIAS):
        return conversion_of(annotation.__value__, scope.enter(annotation))
    return _class(annotation, origin or annotation, arguments, scope)


def _class(annotation: Any, cls: Any, arguments: tuple[Any, ...], scope: AnnotationScope) -> Conversion:
    """Return the conversion of a class, such as `list` with the arguments (int,) for the annotation `list[int]`."""
    if not isinstance(cls, type):
        raise scope.error(annotation)
    if cls in _ARRAY_CLASSES:
        return _array(_ARRAY_CLASSES[cls], arguments[0] if arguments else Any, scope)
    if cls is tuple:
        return _tuple(annotation, arguments, scope)
    if cls in _MAPPING_CLASSES:
        return _mapping(annotation, arguments or (Any, Any), scope)
    if cls is not annotation:  # another class with type arguments, such as Stack[int]
        raise scope.error(annotation)
    if issubclass(cls, Enum):
        return _enum(cls, scope)
    if is_model(cls):
        try:
            return Conversion(model_schema(cls, scope.is_result), model_reader(cls), is_generated=False)
        except ValueError as fault:
            raise scope.error(cls, str(fault)) from None
    if is_dataclass(cls) or hasattr(cls, "_fields") or typing.is_typeddict(cls):
        return _record(cls, scope)
    for string_type in STRING_TYPES:
        if issubclass(cls, string_type.class_if_imported()):
            return Conversion({"type": "string", **string_type.keywords}, _string_reader(string_type, cls))
    raise scope.error(annotation)


def _are_generated(parts: Iterable[Conversion]) -> bool:
    return all(part.is_generated for part in parts)


def _read_float(value: float) -> float:
    try:
        number = float(value)
    except OverflowError:  # an integer with hundreds of digits
        number = inf
    if isfinite(number):  # json.loads turns 1e999 into infinity
        return number
    raise ConversionError("expected a number up to about 1.8e308")


# `int` has a reader because 1.0 is an integer in JSON Schema, and some clients send 1.0 for 1.
_READERS: Final[dict[type, Reader]] = {int: int, float: _read_float}
SIMPLE_CONVERSIONS: Final = {cls: Conversion({"type": name}, _READERS.get(cls)) for cls, name in TYPE_NAMES.items()}
"""Conversions of classes such as `int`. All tools share these schemas, so copy one before you change it."""
_QUALIFIERS: Final = (Required, NotRequired, getattr(typing, "ReadOnly", Required))  # ReadOnly: from Python 3.13 on
_TYPE_ALIAS: Final[Any] = getattr(typing, "TypeAliasType", ())  # from Python 3.12 on


def _string_reader(string_type: StringType, cls: type) -> Reader:
    """Return the reader of a type that is a string in JSON. `cls` is the class of the type, or a subclass."""
    pattern = re.compile(str(string_type.keywords.get("pattern", "")))

    def read(value: str) -> object:
        try:
            if pattern.search(value):  # checked here too, because a schema that the author wrote may lack the pattern
                return string_type.read(cls, value)
        except (ValueError, ArithmeticError):
            pass
        raise ConversionError(f"expected {string_type.expected}, got {value[:60]!r}")

    return read


def _annotated(arguments: tuple[Any, ...], scope: AnnotationScope) -> Conversion:
    conversion = conversion_of(arguments[0], scope)
    try:
        schema = add_keywords(conversion.schema, arguments[1:])
    except ValueError as fault:
        raise UnsupportedType(f"{scope.path}: the Annotated {fault}.") from None  # the fault begins with "has"
    # a text is a description, which cannot make the schema malformed
    has_only_descriptions = all(isinstance(extra, str) for extra in arguments[1:])
    return Conversion(schema, conversion.read, conversion.is_generated and has_only_descriptions)


def _enum_schema(values: Sequence[Any], scope: AnnotationScope, owner: object, number_kind: str) -> Schema:
    """Return an `enum` of the values, even for one value, because language models know `enum` better than `const`."""
    if any(type(value) not in TYPE_NAMES for value in values):
        raise scope.error(owner, f"has values that are not strings, {number_kind}, booleans or None")
    names = list(dict.fromkeys(TYPE_NAMES[type(value)] for value in values))
    return {"type": type_keyword(names), "enum": [*values]}


def _literal(values: tuple[Any, ...], scope: AnnotationScope) -> Conversion:
    schema = _enum_schema(values, scope, f"Literal{list(values)}", "integers")
    if any(type(value) is int for value in values):  # some clients send 1.0 for 1
        return Conversion(schema, lambda value: int(value) if type(value) is float else value)
    return Conversion(schema)


def _enum(cls: type[Enum], scope: AnnotationScope) -> Conversion:
    values = [member.value for member in cls]
    if not values:
        raise scope.error(cls, "has no members")
    return Conversion(_enum_schema(values, scope, cls, "numbers"), cls)


_ARRAY_CLASSES: Final[dict[Any, Callable[[list[Any]], object]]] = {
    **dict.fromkeys((list, abc.Sequence, abc.MutableSequence, abc.Collection, abc.Iterable), list),
    **dict.fromkeys((set, abc.Set, abc.MutableSet), set), frozenset: frozenset,
}  # fmt: skip
_MAPPING_CLASSES: Final = (dict, abc.Mapping, abc.MutableMapping)


def _array(build: Callable[[list[Any]], object], argument: Any, scope: AnnotationScope) -> Conversion:
    """Return the conversion of an array whose items have one type. `build` makes a list or a set of the items."""
    item = conversion_of(argument, scope.part("[]"))
    schema: Schema = {"type": "array", "items": item.schema} if item.schema else {"type": "array"}
    read_list = None if item.read is None else partial(_read_items, repeat(item.read))
    if build is list:
        return Conversion(schema, read_list, item.is_generated)

    def read_set(values: list[Any]) -> object:
        items = values if read_list is None else read_list(values)
        try:
            return build(items)
        except TypeError:
            raise ConversionError("expected no object or array as an item, because sets cannot contain them") from None

    return Conversion({**schema, "uniqueItems": True}, read_set, item.is_generated)


def _read_items(readers: Iterable[Reader], values: list[Any]) -> list[object]:
    """Convert each value with its reader. If a conversion fails, the error's path gets the index of the value."""
    items: list[object] = []
    try:
        for read, value in zip(readers, values, strict=False):
            items.append(read(value))
    except ConversionError as error:
        raise error.with_prefix(f"[{len(items)}]") from None
    return items


def _tuple(annotation: Any, arguments: tuple[Any, ...], scope: AnnotationScope) -> Conversion:
    is_plain = annotation in (tuple, typing.Tuple)  # noqa: UP006
    if is_plain or arguments[-1:] == (...,):  # a tuple of any length, but not `tuple[()]`, which is empty
        array = _array(list, arguments[0] if arguments else Any, scope)

        def read_any_length(values: list[Any]) -> tuple[Any, ...]:
            items: Any = values if array.read is None else array.read(values)
            return tuple(items)

        return Conversion(array.schema, read_any_length, array.is_generated)
    items = [conversion_of(argument, scope.part(f"[{index}]")) for index, argument in enumerate(arguments)]
    readers = [item.read or (lambda value: value) for item in items]
    prefix: Schema = {"prefixItems": [item.schema for item in items]} if items else {}  # an empty one is invalid
    schema: Schema = {"type": "array", **prefix, "items": False, "minItems": len(items)}
    return Conversion(schema, lambda values: tuple(_read_items(readers, values)), _are_generated(items))


def _mapping(annotation: Any, arguments: tuple[Any, ...], scope: AnnotationScope) -> Conversion:
    if conversion_of(arguments[0], scope).schema not in ({}, {"type": "string"}):
        raise scope.error(annotation, "has keys that are not plain strings, but a JSON object has only string keys")
    member = conversion_of(arguments[1], scope.part("{}"))
    schema: Schema = {"type": "object", "additionalProperties": member.schema} if member.schema else {"type": "object"}
    read_member = member.read
    if read_member is None:
        return Conversion(schema, None, member.is_generated)

    def read(members: dict[str, Any]) -> object:
        return convert_members(members, dict.fromkeys(members, read_member))

    return Conversion(schema, read, member.is_generated)


def convert_members(members: dict[str, Any], readers: dict[str, Reader]) -> dict[str, Any]:
    """Return a copy of an object. Convert each member that has a reader."""
    result = members.copy()
    name = ""
    try:
        for name, read in readers.items():
            if name in members:
                result[name] = read(members[name])
    except ConversionError as error:
        raise error.with_prefix(f".{name}") from None
    return result


class _Field(NamedTuple):
    """A field of a dataclass, TypedDict or NamedTuple."""

    name: str
    required: bool
    default: object = None
    read_only: bool = False
    """True if only the class itself sets the field. A value in JSON is ignored."""


def _fields(cls: Any, hints: dict[str, Any]) -> list[_Field]:
    if is_dataclass(cls):
        return [_dataclass_field(each) for each in fields(cls)]
    if hasattr(cls, "_fields"):  # a NamedTuple
        defaults = cls._field_defaults
        return [_Field(name, name not in defaults, defaults.get(name)) for name in cls._fields]
    return [_Field(name, _is_required(hint, name in cls.__required_keys__)) for name, hint in hints.items()]


def _dataclass_field(each: Field[Any]) -> _Field:
    has_default = each.default is not MISSING or each.default_factory is not MISSING
    return _Field(
        each.name, required=each.init and not has_default, default=None if each.default is MISSING else each.default,
        read_only=not each.init,
    )  # fmt: skip


def _is_required(hint: Any, default: bool) -> bool:
    """Return True if a TypedDict's key is required. Python's `__required_keys__` ignores annotations in quotes."""
    while True:
        origin = get_origin(hint)
        if origin in (Required, NotRequired):
            return origin is Required
        if origin is not Annotated and origin not in _QUALIFIERS:
            return default
        hint = get_args(hint)[0]  # `Required` can be inside, as in Annotated[Required[int], ...]


def _record(cls: Any, scope: AnnotationScope) -> Conversion:
    """Return the conversion of a dataclass, TypedDict or NamedTuple, which is an object in JSON."""
    scope = scope.enter(cls)
    hints = scope.type_hints(cls)
    if any(isinstance(hint, InitVar) for hint in hints.values()):
        raise scope.error(cls, "has an InitVar, which is not supported")
    record_fields = _fields(cls, hints)
    properties: dict[str, JSON] = {}
    readers: dict[str, Reader] = {}
    conversions = [conversion_of(hints.get(each.name, Any), scope.part(f".{each.name}")) for each in record_fields]
    for each, conversion in zip(record_fields, conversions, strict=True):
        schema = with_default(conversion.schema, each.default)
        properties[each.name] = {**schema, "readOnly": True} if each.read_only else schema
        if conversion.read and not each.read_only:
            readers[each.name] = conversion.read
    schema = object_schema(properties, [each.name for each in record_fields if each.required])
    is_generated = _are_generated(conversions)
    if typing.is_typeddict(cls):
        if not readers:
            return Conversion(schema, None, is_generated)
        return Conversion(schema, lambda members: convert_members(members, readers), is_generated)
    names = [each.name for each in record_fields if not each.read_only]

    def read(members: dict[str, Any]) -> object:
        given = convert_members({name: members[name] for name in names if name in members}, readers)
        try:
            return cls(**given)
        except ValueError as error:  # `__post_init__` of a dataclass refuses the values
            raise ConversionError(str(error)) from error

    return Conversion(schema, read, is_generated)


def object_schema(properties: dict[str, JSON], required: list[str]) -> Schema:
    schema: Schema = {"type": "object", "properties": properties}
    return {**schema, "required": [*required]} if required else schema


def with_default(schema: Schema, default: object) -> Schema:
    """Add a default to the schema, if the default is not None and has a JSON form."""
    if default is None:
        return schema
    try:
        return {**schema, "default": to_json(default)}
    except ConversionError:
        return schema
