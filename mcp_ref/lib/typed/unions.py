"""The JSON Schema of a union `A | B`, and its reader: a function that converts JSON to a member of the union.

The reader chooses the **first member of the union whose schema fits the value** and whose own reader accepts the value.
So write the narrower type first: `UUID | str` can return a UUID, but `str | UUID` always returns a string.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import NoneType
from typing import Any, Final, TypeAlias

from ..jsonschema import Validator, compile_schema
from .values import JSON, ConversionError

Schema: TypeAlias = dict[str, JSON]
Reader: TypeAlias = Callable[[Any], object]
"""A function that converts a JSON value to a Python value. The JSON value must satisfy the schema."""

TYPE_NAMES: Final = {str: "string", bool: "boolean", int: "integer", float: "number", NoneType: "null"}
"""Python type -> the JSON type of its values."""
_NULL: Final[Schema] = {"type": "null"}
_SINGLE_TYPE_KEYWORDS: Final = {
    "type", "description",
    "format", "pattern", "minLength", "maxLength", "contentEncoding", "contentMediaType",
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
    "items", "prefixItems", "minItems", "maxItems", "uniqueItems",
    "properties", "required", "additionalProperties", "propertyNames", "minProperties", "maxProperties",
}  # fmt: skip
"""`type` and `description`, and the keywords that constrain only values of one type."""


def union_schema(schemas: list[Schema]) -> Schema:
    """Return the simplest schema for all values that satisfy at least one of the schemas."""
    schemas = [schema for index, schema in enumerate(schemas) if schema not in schemas[:index]]
    if {} in schemas:
        return {}
    if len(schemas) == 1:
        return schemas[0]
    return _merge_enums(schemas) or _merge_types(schemas) or {"anyOf": [*schemas]}


def _merge_enums(schemas: list[Schema]) -> Schema | None:
    """Return one `enum` with the values of all schemas, if each schema is an `enum` or null."""
    if not all(schema.keys() == {"type", "enum"} or schema == _NULL for schema in schemas):
        return None
    values = [value for schema in schemas for value in _as_list(schema.get("enum", [None]))]
    different: list[JSON] = []
    for value in values:
        if not any(_are_equal(value, known) for known in different):
            different.append(value)
    return {"type": type_keyword(_types(schemas)), "enum": different}


def _are_equal(value: JSON, other: JSON) -> bool:
    """Return True if two values are equal in JSON, where `true` does not equal 1, as it does in Python."""
    return value == other and isinstance(value, bool) == isinstance(other, bool)


def _merge_types(schemas: list[Schema]) -> Schema | None:
    """Return one schema with a list of types. Return None if it would allow other values than the schemas do, or if
    several schemas have keywords besides `type`."""
    can_merge = all("type" in schema and schema.keys() <= _SINGLE_TYPE_KEYWORDS for schema in schemas)
    detailed = [schema for schema in schemas if len(schema) > 1]  # those with keywords besides `type`
    if not can_merge or len(detailed) > 1:
        return None
    types = _types(schemas)
    if "number" in types and "integer" in types:
        if detailed:
            return None  # its keywords, such as `maximum`, could then limit the values of the other type
        types.remove("integer")  # every integer is a number
    if not detailed:
        return {"type": type_keyword(types)}
    if len(types) < sum(len(_types([schema])) for schema in schemas):
        return None  # a type occurs twice, so the keywords of one schema would also limit the values of the other
    return {**detailed[0], "type": type_keyword(types)}


def _types(schemas: list[Schema]) -> list[JSON]:
    """Return the JSON types that the schemas name, without duplicates."""
    return list(dict.fromkeys(name for schema in schemas for name in _as_list(schema.get("type", []))))


def json_types(schema: Any) -> set[str]:
    """Return the JSON types of the values that a schema from `schema_of` allows. An empty set means any JSON."""
    members = schema.get("anyOf", ())
    return {str(name) for name in _types([schema])}.union(*map(json_types, members))


def _as_list(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else [value]


def type_keyword(names: Sequence[JSON]) -> JSON:
    """Return the value of `type`: one name, or a list of names."""
    return names[0] if len(names) == 1 else [*names]


def union_reader(schemas: list[Schema], readers: list[Reader | None]) -> Reader | None:
    """Return the reader of a union, or None if no member needs a conversion."""
    if not any(readers):
        return None
    readers_besides_null = [read for schema, read in zip(schemas, readers, strict=True) if schema != _NULL]
    only = readers_besides_null[0] if len(readers_besides_null) == 1 else None
    if only is not None:  # `X | None`
        return lambda value: None if value is None else only(value)

    @functools.cache
    def validators() -> list[Validator]:
        return [compile_schema(schema) for schema in schemas]  # at the first use, so that the server starts faster

    def read(value: JSON) -> object:
        refused: ConversionError | None = None
        for validator, read_member in zip(validators(), readers, strict=True):
            if validator.is_valid(value):
                try:
                    return value if read_member is None else read_member(value)
                except ConversionError as unfit:
                    refused = refused or unfit
        raise refused or ConversionError("expected a value of one of the types in the union")

    return read
