"""Models: classes that have their own JSON Schema and reader, such as pydantic's `BaseModel`.

This module does not import pydantic. It uses any class with the class methods `model_json_schema(mode=...)` and
`model_validate(value)`. To write an object of the class as JSON, values.py calls the object's own
`model_dump(mode="json", by_alias=True)`.
"""

from __future__ import annotations

from typing import Any, Final

from .unions import Reader, Schema
from .values import JSON, ConversionError

_DATA: Final = ("const", "default", "enum", "examples")
"""Keywords that hold data, so a `$ref` or `title` in them stays."""


def is_model(cls: type) -> bool:
    return hasattr(cls, "model_json_schema") and hasattr(cls, "model_validate")


def model_schema(model: Any, is_result: bool) -> Schema:
    """Return a model's JSON Schema: that of its output if `is_result` is True, otherwise that of its input.

    A language model reads the schema, so to keep it simple, each `$ref` is replaced by its definition, and titles are
    left out. Raise ValueError for a model that contains itself, with a text that the caller puts behind its name.
    """
    schema = model.model_json_schema(mode="serialization" if is_result else "validation")
    inlined: Schema = _inlined(schema, schema.get("$defs", {}), ())
    return inlined


def _inlined(schema: Any, definitions: Schema, enclosing: tuple[str, ...]) -> Any:
    """Return a subschema without `$ref` and titles. `enclosing` are the names of the definitions that contain it."""
    if isinstance(schema, list):
        return [_inlined(item, definitions, enclosing) for item in schema]
    if not isinstance(schema, dict):
        return schema
    result: Schema = {}
    for keyword, value in schema.items():
        if keyword == "$ref":
            name = value.removeprefix("#/$defs/")
            if name in enclosing:
                raise ValueError("contains itself, which a schema without $ref cannot express")
            definition = _inlined(definitions[name], definitions, (*enclosing, name))
            result = {**definition, **result}  # keywords beside `$ref`, before or after it, override the definition's
        elif keyword in ("properties", "patternProperties"):  # the keys are names of members, perhaps "title" or "$ref"
            result[keyword] = {key: _inlined(each, definitions, enclosing) for key, each in value.items()}
        elif keyword in _DATA:
            result[keyword] = value
        elif keyword not in ("$defs", "title", "discriminator"):  # a discriminator names definitions
            result[keyword] = _inlined(value, definitions, enclosing)
    return result


def model_reader(model: Any) -> Reader:
    """Return the function that converts JSON to a model. It raises ConversionError for a value that is not valid."""

    def read(value: JSON) -> object:
        try:
            return model.model_validate(value)
        except ValueError as error:
            details = error.errors() if hasattr(error, "errors") else []  # pydantic's ValidationError has them
            if not details:
                raise ConversionError(str(error)) from error
            faults = [ConversionError(each["msg"], _path(each["loc"])) for each in details]
            others = "".join(f"; {fault}" for fault in faults[1:])
            raise ConversionError(faults[0].why + others, faults[0].path) from error

    return read


def _path(steps: tuple[str | int, ...]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
