"""Typed functions as schemas: the schema of each annotation, conversion in both directions, and refusals."""

from __future__ import annotations

import datetime as dt
import enum
import functools
import inspect
import json
import math
import sys
import types
import typing
from collections import OrderedDict, UserDict, abc, deque
from collections.abc import Callable
from dataclasses import InitVar, dataclass, field
from decimal import Decimal
from pathlib import Path, PurePath, PurePosixPath
from random import Random
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Optional,
    Required,
    TypedDict,
    TypeVar,
    Union,
)
from uuid import UUID

import pytest

from mcp_ref.lib.jsonschema import compile_schema
from mcp_ref.lib.typed import ConversionError, UnsupportedType, reader_of, schema_of, signature_of, to_json
from mcp_ref.lib.typed.annotations import MAX_DEPTH
from mcp_ref.lib.typed.values import JSON, MAX_VALUE_DEPTH

T = TypeVar("T")
UserId = NewType("UserId", int)


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


@dataclass
class Point:
    x: int
    y: Annotated[int, "upwards"] = 0


@dataclass
class Route:
    stops: list[Point]
    name: str | None = None
    options: dict[str, float] = field(default_factory=dict)
    length: int = field(default=0, init=False)


class Range(NamedTuple):
    low: float
    high: Decimal = Decimal("1.5")


class Base(TypedDict):
    name: str


class Person(Base, total=False):
    born: dt.date
    email: Required[str]
    nick: Annotated[NotRequired[str], "what friends say"]


class Loop(TypedDict):
    again: list[Loop]


@dataclass
class Ping:
    pong: Pong | None


@dataclass
class Pong:
    ping: Ping


def read(annotation: object, value: object) -> object:
    """Read a value that must satisfy the annotation's schema, as a caller of `reader_of` does."""
    assert compile_schema(schema_of(annotation)).is_valid(value), (schema_of(annotation), value)  # type: ignore[arg-type]
    reader = reader_of(annotation)
    return reader(value) if reader else value


# ------------------------------------------------------------------------------------------- annotation to schema

INTEGER: dict[str, JSON] = {"type": "integer"}
STRING: dict[str, JSON] = {"type": "string"}
DECIMAL: dict[str, JSON] = {"type": "string", "pattern": r"^-?[0-9]+(\.[0-9]+)?$"}
POINT: dict[str, JSON] = {
    "type": "object",
    "properties": {"x": INTEGER, "y": {"type": "integer", "description": "upwards", "default": 0}},
    "required": ["x"],
}

SCHEMAS: list[tuple[object, dict[str, JSON]]] = [
    (int, INTEGER),
    (float, {"type": "number"}),
    (bool, {"type": "boolean"}),
    (str, STRING),
    (None, {"type": "null"}),
    (types.NoneType, {"type": "null"}),
    (Any, {}),
    (object, {}),
    (bytes, {"type": "string", "contentEncoding": "base64"}),
    (dt.datetime, {"type": "string", "format": "date-time"}),
    (dt.date, {"type": "string", "format": "date"}),
    (UUID, {"type": "string", "format": "uuid"}),
    (Decimal, DECIMAL),
    (Path, STRING),
    (PurePosixPath, STRING),
    (UserId, INTEGER),
    (list, {"type": "array"}),
    (typing.List, {"type": "array"}),  # noqa: UP006
    (list[Any], {"type": "array"}),
    (list[int], {"type": "array", "items": INTEGER}),
    (abc.Sequence[int], {"type": "array", "items": INTEGER}),
    (abc.Iterable[int], {"type": "array", "items": INTEGER}),
    (set[int], {"type": "array", "items": INTEGER, "uniqueItems": True}),
    (frozenset[str], {"type": "array", "items": STRING, "uniqueItems": True}),
    (tuple[int, ...], {"type": "array", "items": INTEGER}),
    (tuple, {"type": "array"}),
    (tuple[()], {"type": "array", "items": False, "minItems": 0}),
    (typing.Tuple, {"type": "array"}),  # noqa: UP006
    (tuple[int, str], {"type": "array", "prefixItems": [INTEGER, STRING], "items": False, "minItems": 2}),
    (tuple[Point, Point], {"type": "array", "prefixItems": [POINT, POINT], "items": False, "minItems": 2}),
    (dict, {"type": "object"}),
    (dict[str, Any], {"type": "object"}),
    (dict[str, int], {"type": "object", "additionalProperties": INTEGER}),
    (abc.Mapping[str, int], {"type": "object", "additionalProperties": INTEGER}),
    (Literal["a"], {"type": "string", "enum": ["a"]}),
    (Literal["a", 1, None, True], {"type": ["string", "integer", "null", "boolean"], "enum": ["a", 1, None, True]}),
    (Color, {"type": "string", "enum": ["red", "blue"]}),
    (Size, {"type": "integer", "enum": [1, 2]}),
    (Point, POINT),
    (
        Route,
        {
            "type": "object",
            "properties": {
                "stops": {"type": "array", "items": POINT},
                "name": {"type": ["string", "null"]},
                "options": {"type": "object", "additionalProperties": {"type": "number"}},
                "length": {"type": "integer", "default": 0, "readOnly": True},
            },
            "required": ["stops"],
        },
    ),
    (
        Person,
        {
            "type": "object",
            "properties": {
                "name": STRING,
                "born": {"type": "string", "format": "date"},
                "email": STRING,
                "nick": {"type": "string", "description": "what friends say"},
            },
            "required": ["name", "email"],
        },
    ),
    (
        Range,
        {
            "type": "object",
            "properties": {"low": {"type": "number"}, "high": {**DECIMAL, "default": "1.5"}},
            "required": ["low"],
        },
    ),
    (Annotated[int, "how many", {"minimum": 1}], {"type": "integer", "description": "how many", "minimum": 1}),
    (Annotated[Point, {"additionalProperties": False}], {**POINT, "additionalProperties": False}),
    (Annotated[Annotated[int, "inner"], "outer"], {"type": "integer", "description": "inner"}),
    # unions
    (int | None, {"type": ["integer", "null"]}),
    (Optional[int], {"type": ["integer", "null"]}),  # noqa: UP045
    (Union[int, str], {"type": ["integer", "string"]}),  # noqa: UP007
    (int | Any, {}),
    (int | float, {"type": "number"}),
    (int | UserId, INTEGER),
    (list[int] | None, {"type": ["array", "null"], "items": INTEGER}),
    (Annotated[int | None, {"minimum": 1}], {"type": ["integer", "null"], "minimum": 1}),
    (Annotated[int, "a count"] | None, {"type": ["integer", "null"], "description": "a count"}),
    (Annotated[int, "a count"] | float, {"anyOf": [{"type": "integer", "description": "a count"}, {"type": "number"}]}),
    (Literal["a", "b"] | None, {"type": ["string", "null"], "enum": ["a", "b", None]}),
    (Color | Size | None, {"type": ["string", "integer", "null"], "enum": ["red", "blue", 1, 2, None]}),
    (Literal["red"] | Color, {"type": "string", "enum": ["red", "blue"]}),
    (Literal[1] | Literal[True], {"type": ["integer", "boolean"], "enum": [1, True]}),
    (Literal["a"] | int, {"anyOf": [{"type": "string", "enum": ["a"]}, INTEGER]}),
    (list[int] | list[str], {"anyOf": [{"type": "array", "items": INTEGER}, {"type": "array", "items": STRING}]}),
    (UUID | str, {"anyOf": [{"type": "string", "format": "uuid"}, STRING]}),
    (Point | None, {**POINT, "type": ["object", "null"]}),
]


@pytest.mark.parametrize(("annotation", "schema"), SCHEMAS, ids=lambda value: str(value)[:60])
def test_schema_of_each_annotation_is_simple(annotation: object, schema: dict[str, JSON]) -> None:
    found = schema_of(annotation)
    assert found == schema
    compile_schema(found)
    assert not {"$ref", "$defs", "title"} & set(json.dumps(found).replace('"', " ").split())


@pytest.mark.skipif(sys.version_info < (3, 12), reason="type aliases are from Python 3.12 on")
def test_schema_of_a_type_alias_is_that_of_its_value() -> None:
    space: dict[str, Any] = {}
    exec("type Ids = list[int]\ntype Tree = list[Tree]", space)  # the syntax of a later Python
    assert schema_of(space["Ids"]) == {"type": "array", "items": INTEGER}
    with pytest.raises(UnsupportedType, match="contains itself"):
        schema_of(space["Tree"])


@pytest.mark.skipif(sys.version_info < (3, 12), reason="type aliases are from Python 3.12 on")
def test_signature_of_sees_a_result_type_through_a_type_alias() -> None:
    space: dict[str, Any] = {"Plain": Plain}
    exec("type Reply = list[Plain]\ntype Tree = dict[str, Tree]", space)
    exec("def own() -> Reply | None: ...\ndef endless() -> Tree: ...", space)
    assert signature_of(space["own"], schemaless_types=(Plain,)).output_schema is None
    with pytest.raises(UnsupportedType, match="contains itself"):
        signature_of(space["endless"], schemaless_types=(Plain,))


# ------------------------------------------------------------------------------------------- refused, with advice


@dataclass
class Node:
    children: list[Node]


@dataclass
class WithInitVar:
    seed: InitVar[int]


@dataclass
class Box(Generic[T]):
    inside: T


@dataclass
class Unknown:
    what: Nowhere  # type: ignore[name-defined]  # noqa: F821


class Empty(enum.Enum): ...


class Odd(enum.Enum):
    PAIR = (1, 2)


class Plain: ...


def deep_type(depth: int, *, unions: bool = False) -> Any:
    """Return a type with this nesting, in levels."""
    type_: Any = int
    for _ in range(depth // 2 if unions else depth):
        type_ = list[type_] | list[None] if unions else list[type_]
    return type_


REFUSED: list[tuple[object, str]] = [
    (deep_type(MAX_DEPTH + 1), r"annotation(\[\])+: the type is nested deeper than 90 levels"),
    (deep_type(MAX_DEPTH + 2, unions=True), "the type is nested deeper than 90 levels"),
    (complex, "complex has no JSON Schema"),
    (Plain, "Plain has no JSON Schema"),
    (T, "~T has no JSON Schema"),
    (Box[int], "Box.* has no JSON Schema"),
    (Callable[[int], int], "has no JSON Schema"),
    (OrderedDict[str, int], "has no JSON Schema"),
    ([int], r"\[<class 'int'>\] has no JSON Schema"),
    ({"a": int}, "has no JSON Schema"),
    (dict[int, str], "keys that are not plain strings"),
    (dict[UUID, str], "keys that are not plain strings"),
    (Literal[b"x"], "not strings, integers, booleans or None"),
    (Literal[Color.RED], "not strings, integers, booleans or None"),
    (Odd, "not strings, numbers, booleans or None"),
    (Empty, "has no members"),
    (WithInitVar, "InitVar"),
    (Unknown, "cannot be evaluated .*Nowhere"),
    (Node, r"annotation.children\[\]: Node contains itself, which a schema without \$ref cannot express"),
    (Loop, r"annotation.again\[\]: .*Loop contains itself"),
    (Ping, r"annotation.pong.ping: Ping contains itself"),
]


@pytest.mark.parametrize(("annotation", "words"), REFUSED, ids=lambda value: str(value)[:40])
def test_schema_of_refuses_an_unsupported_type_with_advice(annotation: object, words: str) -> None:
    for work_out in (schema_of, reader_of):
        with pytest.raises(UnsupportedType, match=words) as caught:
            work_out(annotation)
        assert str(caught.value).startswith("annotation")
        gives_no_reason = "has no JSON Schema here" in str(caught.value)
        assert ("write the schema by hand. Supported: int, float" in str(caught.value)) == gives_no_reason


@pytest.mark.parametrize("unions", [False, True])
def test_signature_of_a_function_with_the_deepest_types_has_valid_schemas(unions: bool) -> None:
    def tool(given: Any) -> Any: ...

    tool.__annotations__ = dict.fromkeys(("given", "return"), deep_type(MAX_DEPTH, unions=unions))
    signature = signature_of(tool, schemaless_types=())
    wrapper: Any = {"properties": {"result": signature.output_schema}}  # as tools send it in some revisions
    compile_schema(signature.input_schema)
    compile_schema(wrapper)


# ------------------------------------------------------------------------------------------- JSON to Python

READ: list[tuple[object, object, object]] = [
    (int, 5, 5),
    (int, 5.0, 5),
    (float, 5, 5.0),
    (Any, {"a": [1]}, {"a": [1]}),
    (bytes, "aGk=", b"hi"),
    (dt.datetime, "2025-01-31T09:30:00Z", dt.datetime(2025, 1, 31, 9, 30, tzinfo=dt.UTC)),
    (dt.date, "2025-01-31", dt.date(2025, 1, 31)),
    (dt.time, "09:30", dt.time(9, 30)),
    (UUID, "123e4567-e89b-12d3-a456-426614174000", UUID(int=0x123E4567E89B12D3A456426614174000)),
    (Decimal, "12.50", Decimal("12.50")),
    (Path, "a/b", Path("a/b")),
    (PurePath, "a/b", PurePath("a/b")),
    (UserId, 7.0, 7),
    (list[float], [1, 2], [1.0, 2.0]),
    (abc.Collection[int], [1.0], [1]),
    (set[int], [1, 2], {1, 2}),
    (frozenset, ["a"], frozenset({"a"})),
    (tuple[int, ...], [1, 2.0], (1, 2)),
    (tuple, [], ()),
    (tuple[str, UserId], ["a", 2.0], ("a", 2)),
    (dict[str, int], {"a": 1.0}, {"a": 1}),
    (Literal[1, "a"], 1.0, 1),
    (Literal[1, "a"], "a", "a"),
    (Color, "red", Color.RED),
    (Size, 2.0, Size.LARGE),
    (Point, {"x": 1}, Point(1)),
    (Point, {"x": 1, "y": 2, "more": True}, Point(1, 2)),
    (Route, {"stops": [{"x": 1}], "length": 9}, Route([Point(1)])),
    (Range, {"low": 1, "high": "2"}, Range(1.0, Decimal(2))),
    (
        Person,
        {"name": "A", "email": "e", "born": "2000-01-01", "more": 1},
        {"name": "A", "email": "e", "born": dt.date(2000, 1, 1), "more": 1},
    ),
    # unions: the first member that fits, as written
    (int | None, None, None),
    (int | None, 2.0, 2),
    (int | float, 2, 2),
    (int | float, 2.5, 2.5),
    (UUID | str, "123e4567-e89b-12d3-a456-426614174000", UUID(int=0x123E4567E89B12D3A456426614174000)),
    (UUID | str, "not one", "not one"),
    (str | UUID, "123e4567-e89b-12d3-a456-426614174000", "123e4567-e89b-12d3-a456-426614174000"),
    (Decimal | str, "NaN", "NaN"),
    (Decimal | str, "1_000", "1_000"),
    (dt.time | str, "0930", "0930"),
    (Color | str, "green", "green"),
    (Color | str, "red", Color.RED),
    (bool | Size, True, True),
    (Size | bool, True, True),
    (Size | bool, 1, Size.SMALL),
    (Point | Range, {"low": 1, "high": "2"}, Range(1.0, Decimal(2))),
    (list[dt.date] | list[str], ["x"], ["x"]),
    (list[Point] | dict[str, Point], {"a": {"x": 1}}, {"a": Point(1)}),
    (tuple[int, int] | tuple[int, ...], [1, 2, 3], (1, 2, 3)),
    (set[int] | list[int], [1, 1], [1, 1]),
]


@pytest.mark.parametrize(("annotation", "value", "expected"), READ, ids=lambda value: str(value)[:40])
def test_reader_of_converts_json_to_the_annotated_type(annotation: object, value: object, expected: object) -> None:
    found = read(annotation, value)
    assert found == expected
    assert type(found) is type(expected)


def test_reader_of_returns_none_for_types_of_json() -> None:
    for annotation in (str, bool, None, Any, list[str], dict[str, bool], Literal["a"], str | None, Base):
        assert reader_of(annotation) is None, annotation


@dataclass
class Even:
    number: int

    def __post_init__(self) -> None:
        if self.number % 2:
            raise ValueError("the number must be even")


UNFIT: list[tuple[object, object, str]] = [
    (float, 10**400, "value: expected a number up to about 1.8e308"),
    (float, math.inf, "value: expected a number up to about 1.8e308"),
    (int | float, math.inf, "value: expected a number up to about 1.8e308"),
    (bytes, "not base64!", "value: expected base64, such as aGk=, got 'not base64!'"),
    (bytes, "aGk", "value: expected base64"),
    (bytes, "aGé=", "value: expected base64"),
    (dt.datetime, "2025-01-31T09:30:00", "value: expected a date-time with an offset"),
    (dt.datetime, "yesterday", "value: expected a date-time with an offset"),
    (dt.datetime, "", "value: expected a date-time"),
    (dt.date, "2025-02-30", "value: expected a date, such as 2025-01-31, got '2025-02-30'"),
    (dt.time, "25:00", "value: expected a time of day"),
    (UUID, "123e4567", "value: expected a UUID"),
    (UUID, "x" * 1000, "value: expected a UUID, .* got '" + "x" * 60 + "'"),
    (set[Any], [[]], "value: expected no object or array as an item"),
    (list[dt.date], ["2025-01-01", "?"], r"\[1\]: expected a date"),
    (tuple[dt.date, dt.date], ["2025-01-01", "?"], r"\[1\]: expected a date"),
    (dict[str, list[dt.date]], {"a": ["?"]}, r"a\[0\]: expected a date"),
    (dt.date | None, "?", "value: expected a date"),
    (dt.date | UUID, "?", "value: expected a date"),
    (list[Even], [{"number": 3}], r"\[0\]: the number must be even$"),
]


@pytest.mark.parametrize(("annotation", "value", "words"), UNFIT, ids=lambda value: str(value)[:40])
def test_reader_of_refuses_values_that_the_schema_cannot_exclude(annotation: object, value: object, words: str) -> None:
    with pytest.raises(ConversionError, match="^" + words):
        read(annotation, value)


# ------------------------------------------------------------------------------------------- Python to JSON


def nested(depth: int, value: Any = 1) -> Any:
    for _ in range(depth):
        value = [value]
    return value


WRITTEN: list[tuple[object, JSON]] = [
    (None, None),
    (True, True),
    (5, 5),
    (2.5, 2.5),
    ("é😀", "é😀"),
    (Color.RED, "red"),
    (Size.LARGE, 2),
    (b"hi", "aGk="),
    (bytearray(b"hi"), "aGk="),
    (memoryview(b"hi"), "aGk="),
    (dt.datetime(2025, 1, 31, 9, 30, tzinfo=dt.UTC), "2025-01-31T09:30:00+00:00"),
    (dt.date(2025, 1, 31), "2025-01-31"),
    (dt.time(9, 30), "09:30:00"),
    (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    (Decimal("1E+3"), "1000"),
    (Decimal("-0.50"), "-0.50"),
    (PurePosixPath("a/b"), "a/b"),
    ((1, (2, [3])), [1, [2, [3]]]),
    (frozenset({1}), [1]),
    (deque([1]), [1]),
    (range(3), [0, 1, 2]),
    ({"a": Point(1)}, {"a": {"x": 1, "y": 0}}),
    (UserDict({"a": 1}), {"a": 1}),
    (types.MappingProxyType({"a": 1}), {"a": 1}),
    (Range(1.0), {"low": 1.0, "high": "1.5"}),
    (nested(MAX_VALUE_DEPTH), nested(MAX_VALUE_DEPTH)),
    (Route([Point(1, 2)]), {"stops": [{"x": 1, "y": 2}], "name": None, "options": {}, "length": 0}),
]


@pytest.mark.parametrize(("value", "expected"), WRITTEN, ids=lambda value: str(value)[:40])
def test_to_json_converts_each_type(value: object, expected: JSON) -> None:
    found = to_json(value)
    assert found == expected
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert type(found) is type(expected)


def test_to_json_writes_a_naive_datetime_with_the_local_offset() -> None:
    written = to_json(dt.datetime(2025, 1, 31, 9, 30))
    assert dt.datetime.fromisoformat(str(written)) == dt.datetime(2025, 1, 31, 9, 30).astimezone()
    assert read(dt.datetime, written)


class NeverAwaited:
    """A result such as a coroutine: the author forgot `await`."""

    def __await__(self) -> Any:
        raise AssertionError


ITSELF: list[object] = []
ITSELF.append(ITSELF)

UNWRITABLE: list[tuple[object, str]] = [
    (float("nan"), "value: expected a finite number, got nan"),
    ({"a": [1, float("inf")]}, r"a\[1\]: expected a finite number, got inf"),
    (Decimal("NaN"), "value: expected a finite number, got NaN"),
    ("\ud800", "value: expected Unicode text, got a string with half"),
    ({"\ud800": 1}, ".*half of a surrogate pair"),
    ({1: 2}, "1: expected a string as the key of an object, got int"),
    (10**5000, "value: expected an integer of at most 14000 bits"),
    (-(10**5000), "value: expected an integer"),
    (object(), "value: an object of object has no JSON form; use a dataclass"),
    (NeverAwaited(), "value: an object of NeverAwaited has no JSON form; write `await` before the call"),
    (Point, "value: an object of type has no JSON form"),
    ([Plain()], r"\[0\]: an object of Plain"),
    (len, "value: an object of builtin_function_or_method"),
    ((n for n in [1]), "value: an object of generator"),
    (nested(MAX_VALUE_DEPTH + 1), ".*nested deeper than 100 levels"),
    (nested(MAX_VALUE_DEPTH, {}), ".*nested deeper than 100 levels"),
    (ITSELF, ".*does the value contain itself"),
]


@pytest.mark.parametrize(("value", "words"), UNWRITABLE, ids=[str(number) for number in range(len(UNWRITABLE))])
def test_to_json_refuses_a_value_that_json_cannot_hold_with_its_location(value: object, words: str) -> None:
    with pytest.raises(ConversionError, match="^" + words) as caught:
        to_json(value)
    assert len(str(caught.value)) < 300
    assert "\ud800" not in str(caught.value)


# ------------------------------------------------------------------------------------------- functions


class Context:
    """A stand-in for the context that a caller passes to functions."""


def forecast(city: str, days: Annotated[int, "How far ahead", {"minimum": 1}] = 3) -> list[float]:
    """Tell the weather."""
    return [float(days)]


def test_signature_of_the_example_in_the_docstring() -> None:
    signature = signature_of(forecast, schemaless_types=())
    assert signature.name == "forecast"
    assert signature.description == "Tell the weather."
    assert signature.input_schema == {
        "type": "object",
        "properties": {
            "city": STRING,
            "days": {"type": "integer", "description": "How far ahead", "minimum": 1, "default": 3},
        },
        "required": ["city"],
        "additionalProperties": False,
    }
    assert signature.output_schema == {"type": "array", "items": {"type": "number"}}
    assert not signature.is_async
    assert signature.context_parameter is None
    assert [(p.name, p.required, p.default) for p in signature.parameters] == [("city", True, None), ("days", False, 3)]
    assert signature.bind({"city": "Rome", "days": 2.0}) == {"city": "Rome", "days": 2}


def google(first: int, second: int, *, third: int = 0, fourth: int = 0, **rest: int) -> None:
    """Do it.

    At length.

    Args:
        first: The first value,
            and goes on.
        second (int, optional): With a type: and a colon.
        third:
            On its own line.

            After a blank one.
        **rest: Anything.

    Returns:
        Nothing.
    """


def numpy(first: int, second: int, third: int = 0, fourth: int = 0) -> None:
    """Do it.

    At length.

    Parameters
    ----------
    first : int
        The first value,
        and goes on.
    second, fourth : {1, 2}
        With a type: and a colon.
    third
        On its own line.

        After a
        blank one.

    Returns
    -------
    None
    """


def rest(first: int, second: int, third: int = 0, fourth: int = 0) -> None:
    """Do it.

    At length.

    :param first: The first value,
        and goes on.
    :param int second: With a type: and a colon.
    :type second: int
    :keyword third:
        On its own line.

        After a blank one.
    :returns: nothing
    """


@pytest.mark.parametrize("function", [google, numpy, rest])
def test_signature_of_reads_docstrings_of_three_conventions(function: Callable[..., None]) -> None:
    signature = signature_of(function)
    texts = {parameter.name: parameter.description for parameter in signature.parameters}
    assert texts["first"] == "The first value, and goes on."
    assert texts["second"] == "With a type: and a colon."
    assert texts["third"] == "On its own line. After a blank one."
    assert signature.description.startswith("Do it.\n\nAt length.")
    assert "first" not in signature.description and "\n\n\n" not in signature.description
    assert "eturns" in signature.description, "what is not about parameters stays"


def test_signature_of_prefers_the_description_of_the_annotation() -> None:
    def tool(days: Annotated[int, "from the annotation"]) -> None:
        """Do.

        Args:
            days: from the docstring
        """

    assert signature_of(tool).parameters[0].description == "from the annotation"


def test_signature_of_a_function_without_annotations_accepts_any_json() -> None:
    def tool(a, b=1):  # type: ignore[no-untyped-def]
        return a

    signature = signature_of(tool, schemaless_types=())
    assert signature.input_schema["properties"] == {"a": {}, "b": {"default": 1}}
    assert signature.output_schema is None
    assert signature.description == ""


def test_signature_of_finds_the_parameters_that_inspect_finds() -> None:
    def positional(a: int, b: str = "b", c: bool = False) -> int:
        local = a
        return local

    def by_name(a: int, *, b: str = "b", c: bool) -> None: ...
    def rewritten(a: int) -> None: ...

    rewritten.__signature__ = inspect.signature(by_name)  # type: ignore[attr-defined]  # as decorators set it
    for function in (positional, by_name, rewritten, lambda: None, lambda a, b=None: None):
        expected = inspect.signature(function).parameters.values()
        found = [(each.name, each.required, each.default) for each in signature_of(function).parameters]
        assert found == [
            (each.name, each.default is each.empty, None if each.default is each.empty else each.default)
            for each in expected
        ]


def test_signature_of_reads_the_types_that_a_decorator_has_set() -> None:
    def tool(**options: Any) -> None: ...

    parameters = [inspect.Parameter("a", inspect.Parameter.KEYWORD_ONLY, annotation=dt.date)]
    tool.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    assert signature_of(tool).bind({"a": "2025-01-31"}) == {"a": dt.date(2025, 1, 31)}


class Field:
    """pydantic's FieldInfo, as the default of a parameter."""

    metadata: tuple[object, ...] = ()


def none_for_text(name: str = None) -> None: ...  # type: ignore[assignment]  # noqa: RUF013
def text_for_number(days: int = "3") -> None: ...  # type: ignore[assignment]
def below_the_minimum(days: Annotated[int, {"minimum": 1}] = 0) -> None: ...
def field_for_number(days: int = Field()) -> None: ...  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (none_for_text, r"none_for_text\(name\): the default None .*expected a string, got null; allow None in"),
        (text_for_number, r"text_for_number\(days\): the default '3' .*expected an integer, got \"3\"; change"),
        (below_the_minimum, r"below_the_minimum\(days\): the default 0 .*expected at least 1, got 0"),
        (field_for_number, r"field_for_number\(days\): the default .*Field.* put the Field into the annotation"),
    ],
)
def test_check_defaults_refuses_a_default_that_is_not_a_value_of_the_type(
    function: Callable[..., object], words: str
) -> None:
    with pytest.raises(TypeError, match=words):
        signature_of(function).check_defaults()


def test_check_defaults_accepts_defaults_that_json_cannot_hold_if_the_type_has_them() -> None:
    def tool(a: float = math.inf, b: Any = len, c: str | None = None, d: Color = Color.RED) -> None: ...

    signature = signature_of(tool)
    signature.check_defaults()
    properties: Any = signature.input_schema["properties"]
    assert {name: schema["default"] for name, schema in properties.items() if "default" in schema} == {"d": "red"}
    assert properties["a"] == {"type": "number"} and properties["b"] == {}


def test_signature_of_kwargs_allows_and_reads_further_arguments() -> None:
    def tool(name: str, when: dt.date, **scores: int) -> None: ...

    signature = signature_of(tool)
    assert signature.input_schema["additionalProperties"] == INTEGER
    assert signature.bind({"name": "Ann", "when": "2025-01-01", "a": 1.0}) == {
        "name": "Ann",
        "when": dt.date(2025, 1, 1),
        "a": 1,
    }

    def anything(**options: Any) -> None: ...

    assert "additionalProperties" not in signature_of(anything).input_schema


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("def tool(a, /): ...", "positional-only "),
        ("def tool(*a, **b): ...", r"\*"),  # often the wrapper of a decorator
    ],
)
def test_signature_of_refuses_a_parameter_without_a_name(source: str, kind: str) -> None:
    space: dict[str, Any] = {}
    exec(source, space)
    why = rf"a {kind}parameter is not supported, .* by name; if a decorator .* needs @functools\.wraps\.$"
    with pytest.raises(UnsupportedType, match=rf"tool\(a\): {why}"):
        signature_of(space["tool"])


def test_bind_names_the_wrong_argument_and_does_not_change_the_arguments() -> None:
    def tool(when: dt.date, where: list[Even]) -> None: ...

    signature = signature_of(tool)
    arguments = {"when": "2025-01-01", "where": [{"number": 2}, {"number": 1}]}
    with pytest.raises(ConversionError, match=r"^where\[1\]: the number must be even$"):
        signature.bind(arguments)
    assert arguments["when"] == "2025-01-01"


def test_signature_of_leaves_out_the_context_parameter() -> None:
    def plain(context: Context, a: int) -> None: ...
    def optional(a: int, *, ctx: Context | None = None) -> None: ...
    def described(a: int, ctx: Annotated[Context, "the request"]) -> None: ...

    for function, name in ((plain, "context"), (optional, "ctx"), (described, "ctx")):
        signature = signature_of(function, context_type=Context)
        assert signature.context_parameter == name
        assert [parameter.name for parameter in signature.parameters] == ["a"]
        assert signature.input_schema["required"] == ["a"]
        with pytest.raises(ConversionError, match=f"^{name}: not an argument$"):
            signature.bind({"a": 1, name: None})


def test_signature_of_refuses_a_parameter_context_without_a_type_and_a_second_context() -> None:
    def untyped(context) -> None: ...  # type: ignore[no-untyped-def]
    def two(a: Context, b: Context) -> None: ...

    with pytest.raises(UnsupportedType, match=r"untyped\(context\): .* is ambiguous: write `context: Context`, or"):
        signature_of(untyped, context_type=Context)
    assert signature_of(untyped).input_schema["required"] == ["context"]
    with pytest.raises(UnsupportedType, match="a and b cannot both be the context"):
        signature_of(two, context_type=Context)


# --- the results


def test_signature_of_has_an_output_schema_only_for_data() -> None:
    def nothing() -> None: ...
    def anything() -> Any: ...
    def unannotated(): ...  # type: ignore[no-untyped-def]
    def own() -> list[Plain]:
        return []

    def sometimes() -> dict[str, int | Plain]:
        return {}

    for function in (nothing, anything, unannotated, own, sometimes):
        assert signature_of(function, schemaless_types=(Plain,)).output_schema is None
    assert signature_of(own).output_schema is None, "and what is not asked for may have no schema"
    with pytest.raises(UnsupportedType, match=r"own\(\) result\[\]: Plain has no JSON Schema"):
        signature_of(own, schemaless_types=())


# --- the callables


class Greeter:
    """A friendly object."""

    def __call__(self, name: str) -> str:
        return name

    def method(self, name: str) -> str:
        """Return a name, by a method."""
        return name

    @classmethod
    def of_class(cls, name: str) -> str:
        return name

    @staticmethod
    def static(name: str) -> str:
        return name


class AsyncGreeter:
    async def __call__(self, name: str) -> str:
        return name


def undocumented(name: str, times: int = 1) -> str:
    return name * times


def logged(function: Callable[..., T]) -> Callable[..., T]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> T:
        return function(*args, **kwargs)

    return wrapper


@logged
def decorated(name: str) -> str:
    """Return a name, decorated."""
    return name


async def waits(name: str) -> str:
    return name


CALLABLES: list[tuple[Callable[..., object], str, str]] = [
    (Greeter(), "Greeter", "A friendly object."),
    (Greeter().method, "method", "Return a name, by a method."),
    (Greeter.of_class, "of_class", ""),
    (Greeter.static, "static", ""),
    (AsyncGreeter(), "AsyncGreeter", ""),
    (functools.partial(undocumented, times=2), "undocumented", ""),
    (functools.partial(Greeter().method), "method", "Return a name, by a method."),
    (functools.partial(Greeter()), "Greeter", "A friendly object."),
    (decorated, "decorated", "Return a name, decorated."),
    (logged(functools.partial(undocumented, times=2)), "undocumented", ""),
    (functools.partial(logged(undocumented), times=2), "undocumented", ""),
    (logged(Greeter().method), "method", "Return a name, by a method."),
    (waits, "waits", ""),
    (functools.lru_cache(undocumented), "undocumented", ""),
]


@pytest.mark.parametrize(("function", "name", "description"), CALLABLES, ids=lambda value: str(value)[:40])
def test_signature_of_a_callable_is_that_of_the_function_inside(
    function: Callable[..., object], name: str, description: str
) -> None:
    signature = signature_of(function)
    assert (signature.name, signature.description) == (name, description)
    assert signature.parameters[0].name == "name"
    assert signature.parameters[0].schema == STRING
    if not signature.is_async:
        assert function(**signature.bind({"name": "Ann"})) in ("Ann", "AnnAnn")


def test_signature_of_a_partial_leaves_out_its_fixed_arguments() -> None:
    signature = signature_of(functools.partial(undocumented, times=2))
    assert [parameter.name for parameter in signature.parameters] == ["name"]
    with pytest.raises(ConversionError, match=r"^times: not an argument$"):
        signature.bind({"name": "a", "times": 3})
    assert [p.name for p in signature_of(functools.partial(undocumented, "Ann")).parameters] == ["times"]


def test_signature_is_async_for_partials_methods_and_objects() -> None:
    for function in (waits, AsyncGreeter(), AsyncGreeter().__call__, functools.partial(waits, "a")):
        assert signature_of(function).is_async, function
    for other in (undocumented, Greeter(), Greeter().method, functools.partial(undocumented, "a")):
        assert not signature_of(other).is_async, other


@functools.singledispatch
def by_type(value: int) -> int:
    return value


@functools.wraps(by_type)
def around_by_type(value: int) -> int:
    return by_type(value)


class _Router:
    """Has the same attributes as a singledispatch function."""

    registry = dispatch = None

    def __call__(self, value: int) -> int:
        return value


@pytest.mark.parametrize("function", [around_by_type, _Router()], ids=["wraps", "attributes"])
def test_signature_of_a_function_that_only_resembles_a_singledispatch_function(function: Callable[..., int]) -> None:
    assert [parameter.name for parameter in signature_of(function).parameters] == ["value"]


@pytest.mark.parametrize("function", [len, dict, print, by_type, functools.partial(by_type)])
def test_signature_of_refuses_a_function_not_written_in_python(function: Callable[..., object]) -> None:
    with pytest.raises(UnsupportedType, match=r"is (not a Python|a singledispatch) function.*; wrap it in a def"):
        signature_of(function)


def test_signature_of_finds_names_in_the_closure_before_the_module_and_builtins() -> None:
    space: dict[str, Any] = {"int": Color, "bool": Color}
    lines = [
        "from __future__ import annotations",
        "def make(bool):",
        "    def tool(a: int, b: bool, c: str) -> None: bool",
        "    return tool",
    ]
    exec(compile("\n".join(lines), "tool.py", "exec"), space)
    signature = signature_of(space["make"](Size))
    assert {parameter.name: parameter.schema for parameter in signature.parameters} == {
        "a": schema_of(Color),
        "b": schema_of(Size),
        "c": schema_of(str),
    }


def test_signature_of_refuses_local_types_outside_the_closure() -> None:
    class Hidden(enum.Enum):
        A = "a"

    def tool(value: Hidden) -> None: ...

    with pytest.raises(UnsupportedType, match=r"tool\(\): .*tool has an annotation that cannot be evaluated .*Hidden"):
        signature_of(tool)


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="Python 3.13 takes it")
def test_signature_of_refuses_a_dict_inside_a_union_with_advice() -> None:
    def tool(days: Annotated[int, {"minimum": 1}] | None) -> None: ...

    with pytest.raises(UnsupportedType, match=r"unhashable.*outside the union, as in Annotated\[int \| None, {…}\]"):
        signature_of(tool)


def test_signature_of_evaluated_annotations_equals_that_of_quoted_ones() -> None:
    space: dict[str, Any] = {"Annotated": Annotated, "Point": Point}
    source = "def tool(a: Annotated[int, 'n'], b: 'Point', c: list['Point']) -> 'Point': ..."
    exec(compile(source, "tool.py", "exec", dont_inherit=True), space)
    signature = signature_of(space["tool"], schemaless_types=())
    properties = {"a": {"type": "integer", "description": "n"}, "b": POINT, "c": {"type": "array", "items": POINT}}
    assert signature.input_schema["properties"] == properties
    assert signature.output_schema == POINT


# ------------------------------------------------------------------------------------------- schema and reader agree

LEAVES: list[object] = [
    *(int, float, bool, str, bytes, None, Any, dt.date, dt.datetime, dt.time, UUID, Decimal, Path, UserId),
    *(Color, Size, Literal["a", "b"], Literal[1, True, None], Point, Range, Person, list, dict, set, tuple),
]


def some_annotation(random: Random, depth: int) -> object:
    """Return an annotation of any supported kind, with containers and unions up to a depth."""

    def part() -> Any:
        return some_annotation(random, depth - 1)

    if not depth:
        return random.choice(LEAVES)
    match random.randrange(8):
        case 0:
            return list[part()]  # type: ignore[misc]
        case 1:
            return dict[str, part()]  # type: ignore[misc]
        case 2:
            return tuple[part(), part()]  # type: ignore[misc]
        case 3:
            return tuple[part(), ...]  # type: ignore[misc]
        case 4:
            return set[part()]  # type: ignore[misc]
        case 5:
            return Annotated[part(), "described"]
        case _:
            return Union[part(), part(), random.choice([None, part()])]  # noqa: UP007


SOME_JSON: list[JSON] = [
    *(None, True, False, 0, 1, 2, -1, 1.0, 2.5, 10**400, 1e300, math.inf),
    *("", "a", "b", "red", "NaN", "1_0", "12.5", "0930", "09:30", "aGk=", "2025-01-31", "2025-01-31T09:30:00Z"),
    *("2025-02-30", "123e4567-e89b-12d3-a456-426614174000", "\0", "é"),
]


def some_json(random: Random, depth: int) -> JSON:
    """Return JSON as callers send it, hostile callers included. Names are those of the records above."""
    kind = random.randrange(4) if depth else 0
    if kind == 1:
        return [some_json(random, depth - 1) for _ in range(random.randrange(4))]
    if kind == 2:
        names = random.sample(["x", "y", "low", "high", "name", "born", "email", "more"], random.randrange(5))
        return {name: some_json(random, depth - 1) for name in names}
    return random.choice(SOME_JSON)


def fitting_json(random: Random, schema: Any) -> JSON:
    """Return JSON that often fits a schema."""
    if "anyOf" in schema:
        return fitting_json(random, random.choice(schema["anyOf"]))
    if "enum" in schema:
        return random.choice(schema["enum"])  # type: ignore[no-any-return]
    names = schema.get("type", "null")
    match random.choice(names) if isinstance(names, list) else names:
        case "array" if "prefixItems" in schema:
            return [fitting_json(random, item) for item in schema["prefixItems"]]
        case "array":
            return [fitting_json(random, schema.get("items", {})) for _ in range(random.randrange(3))]
        case "object" if "properties" in schema:
            return {
                name: fitting_json(random, member)
                for name, member in schema["properties"].items()
                if name in schema.get("required", []) or random.random() < 0.5
            }
        case "object":
            return {name: fitting_json(random, schema.get("additionalProperties", {})) for name in ("x", "é")}
        case name:
            return random.choice([value for value in SOME_JSON if compile_schema({"type": name}).is_valid(value)])


def test_schema_of_reader_of_and_to_json_agree_on_random_annotations() -> None:
    random = Random(20251125)
    read_back = 0
    for _ in range(250):
        annotation = some_annotation(random, random.randrange(4))
        schema = schema_of(annotation)
        validator, reader = compile_schema(schema), reader_of(annotation)
        for value in [some_json(random, 3), *(fitting_json(random, schema) for _ in range(4))]:
            says = f"{annotation}: {value!r}"
            if not validator.is_valid(value):
                continue
            before = json.dumps(value)
            try:
                found = reader(value) if reader else value
                again = to_json(found)
            except ConversionError:
                continue
            assert json.dumps(value) == before, says
            assert validator.is_valid(again), f"{says} became {found!r}, then {again!r}"
            read_back += 1
    assert read_back > 500
