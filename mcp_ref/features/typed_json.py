"""Conversion of JSON to an object of the Python type that a program names, such as `returns=Seat`.

The type is a dataclass, a model of pydantic, or any other type that lib/typed supports.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache
from typing import NamedTuple, TypeVar, cast

from ..jsonrpc.messages import JSON, Object
from ..lib.jsonschema import Validator, compile_schema
from ..lib.typed import reader_of, schema_of
from ..lib.typed.unions import Reader

T = TypeVar("T")

MAX_TYPES = 256
"""Maximum number of types whose compiled schemas are stored."""


class _CompiledType(NamedTuple):
    schema: Object
    validator: Validator
    read: Reader | None  # None if the JSON needs no conversion


@lru_cache(MAX_TYPES)
def _compile(type_: Hashable, name: str) -> _CompiledType:
    # `name` is only a part of the cache's key: without it, `A | B` and `B | A` would share an entry, because they are
    # equal, although JSON that fits both A and B is read as the first of them.
    schema = schema_of(type_)
    return _CompiledType(schema, compile_schema(schema), reader_of(type_))


def _compile_once(type_: type[object]) -> _CompiledType:
    name = type_name(type_)
    try:
        return _compile(cast(Hashable, type_), name)
    except TypeError:  # the type has no hash, as an `Annotated` with a dict, or it has no schema
        return _compile.__wrapped__(type_, name)  # without the cache; raises again if the type has no schema


def json_schema(type_: type[object]) -> Object:
    """Return the JSON Schema of a type. Raise TypeError if the type has none."""
    return _compile_once(type_).schema


def read_json(value: JSON, type_: type[T]) -> T:
    """Convert JSON to an object of a type. Raise ValueError if the JSON does not fit the type."""
    compiled = _compile_once(type_)
    compiled.validator.validate(value)
    return cast(T, value if compiled.read is None else compiled.read(value))


def type_name(type_: type[object]) -> str:
    """Return the name of a type for an error, such as `Seat`, `list[int]` or `int | None`."""
    return type_.__name__ if isinstance(type_, type) else str(type_)
