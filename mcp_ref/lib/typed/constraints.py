"""Objects in an `Annotated`, as keywords of JSON Schema.

    Annotated[int, "How far ahead", {"minimum": 1}]      a text and a dict of keywords
    Annotated[int, Interval(ge=1, le=9)]                 objects of the package annotated-types
    Annotated[str, Field(max_length=9, title="Name")]    `Field` of the package pydantic

This module imports neither package. It knows an object by its attributes, such as `ge` or `max_length`. An object that
no keyword can express is an error, because otherwise nobody would check the constraint.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from math import isfinite
from typing import Any, Final

from .unions import Schema, json_types

_NUMBERS: Final = ("integer", "number")
_KEYWORDS: Final[dict[str, dict[str, str]]] = {
    "gt": dict.fromkeys(_NUMBERS, "exclusiveMinimum"),
    "ge": dict.fromkeys(_NUMBERS, "minimum"),
    "lt": dict.fromkeys(_NUMBERS, "exclusiveMaximum"),
    "le": dict.fromkeys(_NUMBERS, "maximum"),
    "multiple_of": dict.fromkeys(_NUMBERS, "multipleOf"),
    "min_length": {"string": "minLength", "array": "minItems", "object": "minProperties"},
    "max_length": {"string": "maxLength", "array": "maxItems", "object": "maxProperties"},
    "pattern": {"string": "pattern"},
}
"""Attribute of a constraint -> JSON type -> the keyword that expresses the constraint for this type."""
_NOTES: Final = {"description": "description", "documentation": "description", "title": "title", "examples": "examples"}
"""Attribute -> a keyword that constrains nothing. If two objects have the attribute, the first one wins."""
_NEEDLESS: Final = ("strict", "allow_inf_nan")
"""Constraints without a keyword that always hold: JSON has no infinity, and a text is never converted to a number."""
_FIELD: Final[tuple[str, ...]] = (
    "description", "title", "examples", "json_schema_extra", "default", "default_factory", "alias", "validation_alias",
)  # fmt: skip
"""The attributes of a pydantic `Field` that concern its JSON, besides the constraints."""
_ADVICE: Final = {"default": "write the default after `=`", "alias": "rename the parameter or field"}
_GENERAL_ADVICE: Final = "check the value in your code, or write keywords as a dict, such as {'minimum': 1}"


def add_keywords(schema: Schema, extras: Iterable[object]) -> Schema:
    """Return a schema with the keywords of all objects in an `Annotated`. A dict replaces keywords of the schema.

    Raise ValueError if an object contradicts another one, does not fit the type, or has no keyword.
    """
    schema = dict(schema)
    for extra in extras:
        for name, value in _attributes(extra):
            if name == "json_schema_extra" and isinstance(value, dict):
                schema.update(value)
            elif name in _NOTES:
                schema.setdefault(_NOTES[name], value)
            elif name in _KEYWORDS:
                for keyword, checked in _constraint(name, value, schema).items():
                    if schema.setdefault(keyword, checked) != checked:  # another object has set the keyword
                        raise ValueError(f"has {keyword} {schema[keyword]!r} and {checked!r}: remove one of them")
            elif name not in _NEEDLESS:
                shown = f"{name}={value!r:.100}" if name else f"the object {value!r:.100}"
                advice = _ADVICE.get(name, _GENERAL_ADVICE)
                raise ValueError(f"has {shown}, which JSON Schema cannot express: {advice}")
    return schema


def _attributes(extra: Any) -> Iterator[tuple[str, Any]]:
    """Yield the name and value of each attribute that is set. An object without attributes has the name ""."""
    if isinstance(extra, str):
        yield "description", extra
        return
    if isinstance(extra, dict):
        yield "json_schema_extra", extra
        return
    if hasattr(extra, "metadata"):  # pydantic's Field, which keeps its constraints as further objects in `metadata`
        parts, names = extra.metadata, _FIELD
    else:
        parts = extra if isinstance(extra, Iterable) else ()  # the constraints in a group, such as Interval
        names = _public_names(extra)
    for part in parts:
        yield from _attributes(part)
    for name in names:
        value = getattr(extra, name, None)
        is_unset = value is None or value is False or value is ... or type(value).__name__ == "PydanticUndefinedType"
        if not is_unset:
            yield name, value
    if not names and extra is not None:  # `conint` of pydantic writes None for a constraint that is not set
        yield "", extra


def _public_names(extra: object) -> tuple[str, ...]:
    """Return the names of an object's public attributes, which are in its `__dict__` or in slots."""
    slots = [name for cls in type(extra).__mro__ for name in getattr(cls, "__slots__", ())]
    names = dict.fromkeys((*getattr(extra, "__dict__", ()), *slots))  # each name once
    return tuple(name for name in names if not name.startswith("_"))


def _constraint(name: str, value: Any, schema: Schema) -> Schema:
    """Return the keywords of one constraint. Raise ValueError if the type or the value is wrong."""
    types = json_types(schema)
    keywords = {keyword for kind, keyword in _KEYWORDS[name].items() if kind in types}
    if not keywords:
        kinds, got = " or ".join(_KEYWORDS[name]), " or ".join(sorted(types)) or "any value"
        raise ValueError(f"has {name}={value!r:.100}, but {name} is for {kinds}, and in JSON this type is {got}")
    if name == "pattern":
        if isinstance(value, re.Pattern) and value.flags == re.UNICODE:
            value = value.pattern
        if not isinstance(value, str):
            raise ValueError(f"has {value!r:.100}, which JSON Schema cannot express: write the pattern without flags")
        return dict.fromkeys(keywords, value)
    is_valid = type(value) is int
    if not name.endswith("_length"):
        is_valid = is_valid or (type(value) is float and isfinite(value))
    if not is_valid:
        raise ValueError(f"has {name}={value!r:.100}, but {name} must be a number that JSON can hold, such as an int")
    return dict.fromkeys(keywords, value)
