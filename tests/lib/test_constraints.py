"""Constraints in `Annotated`: objects shaped as those of annotated-types and pydantic become keywords of the schema."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal

import pytest

from mcp_ref.lib.jsonschema import compile_schema
from mcp_ref.lib.typed import UnsupportedType, schema_of, signature_of


@dataclass(frozen=True, slots=True)
class Ge:
    ge: Any


@dataclass(frozen=True, slots=True)
class Gt:
    gt: Any


@dataclass(frozen=True, slots=True)
class Interval:
    """A group: it has the attributes, and iterates over the single constraints."""

    gt: Any = None
    le: Any = None

    def __iter__(self) -> Iterator[object]:
        yield Gt(self.gt)
        yield General(le=self.le)


@dataclass(frozen=True, slots=True)
class Len:
    min_length: int = 0
    max_length: int | None = None


@dataclass(frozen=True)
class Predicate:
    func: object


class Color(Enum):
    RED = 1


class General:
    """Any attributes, as in pydantic's general metadata."""

    def __init__(self, **attributes: object) -> None:
        self.__dict__.update(attributes)


class PydanticUndefinedType: ...


@dataclass(frozen=True)
class Field:
    """pydantic's FieldInfo."""

    metadata: list[object] = field(default_factory=list)
    default: object = PydanticUndefinedType()
    alias: str | None = None
    description: str | None = None
    title: str | None = None
    json_schema_extra: dict[str, object] | None = None
    repr: bool = True

    __hash__ = object.__hash__


class Documentation:
    def __init__(self, documentation: str) -> None:
        self.documentation = documentation


INTEGER = {"type": "integer"}
NUMBER = {"type": "number"}
STRING = {"type": "string"}


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (Annotated[int, Ge(1), "how many"], {**INTEGER, "minimum": 1, "description": "how many"}),
        (Annotated[int, Gt(0)], {**INTEGER, "exclusiveMinimum": 0}),
        (Annotated[int | None, Ge(0)], {"type": ["integer", "null"], "minimum": 0}),
        (Annotated[float, General(lt=1.5, multiple_of=0.5)], {**NUMBER, "exclusiveMaximum": 1.5, "multipleOf": 0.5}),
        (Annotated[int, Interval(gt=0, le=9)], {**INTEGER, "exclusiveMinimum": 0, "maximum": 9}),
        (Annotated[str, Len(2, 5)], {**STRING, "minLength": 2, "maxLength": 5}),
        (Annotated[list[int], Len(1)], {"type": "array", "items": INTEGER, "minItems": 1}),
        (Annotated[dict[str, int], Len(1)], {"type": "object", "additionalProperties": INTEGER, "minProperties": 1}),
        (Annotated[int | str, Len(1)], {"type": ["integer", "string"], "minLength": 1}),
        (Annotated[str, General(pattern="^a+$")], {**STRING, "pattern": "^a+$"}),
        (Annotated[str, General(pattern=re.compile("^a+$"))], {**STRING, "pattern": "^a+$"}),
        (Annotated[Literal[1, 2], Ge(1)], {**INTEGER, "enum": [1, 2], "minimum": 1}),
        (Annotated[int, Field([Ge(1)], description="d")], {**INTEGER, "minimum": 1, "description": "d"}),
        (Annotated[int, Field(title="T")], {**INTEGER, "title": "T"}),
        (Annotated[int, Field(json_schema_extra={"x-mcp-header": "Days"})], {**INTEGER, "x-mcp-header": "Days"}),
        (Annotated[int, General(strict=True), Documentation("a count")], {**INTEGER, "description": "a count"}),
        (Annotated[int, None], INTEGER),
    ],
    ids=lambda value: str(value)[-50:],
)  # fmt: skip
def test_schema_of_an_annotated_has_the_keywords_of_its_constraints(annotation: object, schema: object) -> None:
    found = schema_of(annotation)
    assert found == schema
    compile_schema(found)


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (Annotated[int, Color.RED], r"has the object <Color.RED: 1>, which JSON Schema cannot express"),
        (Annotated[int, ValueError], r"has the object <class 'ValueError'>, which JSON Schema cannot express"),
        (Annotated[int, Predicate(abs)], r"has func=<built-in function abs>, which JSON Schema cannot express"),
        (Annotated[int, len], "has the object <built-in function len>.*check the value in your code"),
        (Annotated[int, 5], "has the object 5"),
        (Annotated[Decimal, General(max_digits=3)], "has max_digits=3"),
        (Annotated[str, General(strip_whitespace=True)], "has strip_whitespace=True"),
        (Annotated[str, Gt(3)], "has gt=3, but gt is for integer or number, and in JSON this type is string"),
        (Annotated[Any, Gt(3)], "in JSON this type is any value"),
        (Annotated[date, Gt(date(2025, 1, 1))], "in JSON this type is string"),
        (Annotated[int, Gt(Decimal(3))], r"has gt=Decimal\('3'\), but gt must be a number"),
        (Annotated[int, Ge(float("inf"))], "ge must be a number"),
        (Annotated[str, Len(True)], "min_length must be a number"),
        (Annotated[str, General(max_length=2.5)], "max_length must be a number"),
        (Annotated[str, General(pattern=re.compile("a", re.IGNORECASE))], "write the pattern without flags"),
        (Annotated[int, Ge(1), Ge(3)], "has minimum 1 and 3: remove one of them"),
        (Annotated[int, Field(default=3)], "has default=3.*write the default after `=`"),
        (Annotated[int, Field(alias="x")], "has alias='x'.*rename the parameter"),
    ],
    ids=lambda value: str(value)[-50:],
)
def test_schema_of_refuses_a_constraint_that_no_keyword_expresses(annotation: object, words: str) -> None:
    with pytest.raises(UnsupportedType, match=words):
        schema_of(annotation)


def test_signature_of_names_the_parameter_of_a_refused_constraint() -> None:
    def tool(days: list[Annotated[int, Predicate(abs)]]) -> None: ...

    with pytest.raises(UnsupportedType, match=r"tool\(days\)\[\]: the Annotated has func="):
        signature_of(tool)
