"""Conversion of Python values to JSON, and the Python types that become strings in JSON (dates, UUIDs, bytes, ...).

Because `to_json` does not need annotations, it also converts the result of a function whose annotation is missing or
wrong. `json.dumps` accepts every value that it returns.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from enum import Enum
from inspect import isawaitable
from math import isfinite
from typing import Any, Final, NamedTuple, TypeAlias

JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"

MAX_VALUE_DEPTH: Final = 100
"""Maximum nesting of arrays and objects, in levels. A value that contains itself exceeds this limit."""
MAX_INTEGER_BITS: Final = 14_000
"""Maximum size of an integer, in bits: about 4,200 decimal digits. Python's JSON parser accepts at most 4,300."""


class ConversionError(ValueError):
    """The error for a value that cannot be converted from or to JSON, or for an argument with a reserved name.

    Args:
        why: The text of the error, without the path.
        path: Location of the value, such as `.stops[2].name`. Default: the outermost value.
    """

    def __init__(self, why: str, path: str = "") -> None:
        self.why, self.path = why, path

    def with_prefix(self, step: str) -> ConversionError:
        """Return a new error with `step`, which is `.name` or `[index]`, in front of the path."""
        return ConversionError(self.why, step + self.path)

    def __str__(self) -> str:
        path = self.path.removeprefix(".").encode(errors="replace").decode() or "value"  # without lone surrogates
        shown = path if len(path) <= 100 else f"{path[:100]}…"
        return f"{shown}: {self.why}"


class StringType(NamedTuple):
    """A Python class whose values become strings in JSON. Its module is named, not imported, because importing them all
    would slow down each start. Until a program imports the module itself, no value of the class can exist."""

    module: str
    name: str
    expected: str
    """A description of the string, for error messages."""
    keywords: dict[str, JSON]
    """The keywords of the JSON Schema of this type, in addition to `type`."""
    read: Callable[[Any, str], object] = lambda cls, text: cls(text)
    """The conversion from a string, which raises ValueError or ArithmeticError if the string is wrong."""
    write: Callable[[Any], str] = str

    def class_if_imported(self) -> type | tuple[()]:
        """Return the class, or () if its module is not imported. `isinstance(x, ())` is always False."""
        return getattr(sys.modules.get(self.module), self.name, ())


def _read_iso(cls: Any, text: str) -> object:
    return cls.fromisoformat(text)


def _read_datetime(cls: Any, text: str) -> object:
    moment = cls.fromisoformat(text)
    if moment.tzinfo is None:  # RFC 3339 5.6: a date-time must have an offset
        raise ValueError("no offset")
    return moment


def _write_datetime(moment: Any) -> str:
    """Return a datetime as text with its UTC offset. A datetime without an offset is a local time."""
    if moment.tzinfo is None:
        moment = moment.astimezone()
    return str(moment.isoformat())


def _read_base64(cls: Any, text: str) -> object:
    return cls(base64.b64decode(text, validate=True))


def _write_base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _write_decimal(number: Any) -> str:
    if not number.is_finite():
        raise ConversionError(f"expected a finite number, got {number}")
    return format(number, "f")


_DATE_TIME: Final = "a date-time with an offset, such as 2025-01-31T09:30:00Z"
# A pattern, because the format "time" requires a UTC offset, which most times of day do not have.
_TIME_OF_DAY: Final = r"^[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?(Z|[+-][0-9]{2}:[0-9]{2})?$"
_DECIMAL: Final[dict[str, JSON]] = {"pattern": r"^-?[0-9]+(\.[0-9]+)?$"}

STRING_TYPES: Final = (
    StringType("datetime", "datetime", _DATE_TIME, {"format": "date-time"}, _read_datetime, _write_datetime),
    StringType("datetime", "date", "a date, such as 2025-01-31", {"format": "date"}, _read_iso),
    StringType("datetime", "time", "a time of day, such as 09:30:00", {"pattern": _TIME_OF_DAY}, _read_iso),
    StringType("uuid", "UUID", "a UUID, such as 123e4567-e89b-12d3-a456-426614174000", {"format": "uuid"}),
    StringType("decimal", "Decimal", "a decimal number in a string, such as 12.50", _DECIMAL, write=_write_decimal),
    StringType("pathlib", "PurePath", "a file path", {}),
    StringType("builtins", "bytes", "base64, such as aGk=", {"contentEncoding": "base64"}, _read_base64, _write_base64),
)
"""All types that become strings in JSON. `datetime` comes before its base class, because the first match is used."""


def to_json(value: object) -> JSON:
    """Return a value as JSON: dicts, lists, strings, finite numbers, booleans and None.

    Args:
        value: A dataclass, named tuple or mapping becomes an object, a sequence or set becomes an array, and an Enum
            member becomes its value. A value of one of the STRING_TYPES becomes a string. An object with a method
            `model_dump`, such as a pydantic model, becomes the result of this method.

    Raises:
        ConversionError: JSON cannot express the value. Examples are NaN and Infinity, half of a surrogate pair, a dict
            key that is not a string, an object of any other class, and more than MAX_VALUE_DEPTH levels.
    """
    return _write(value, MAX_VALUE_DEPTH)


def _write(value: Any, levels: int) -> JSON:
    """Convert a value in which at most `levels` arrays and objects are nested. The most frequent types come first."""
    kind = type(value)
    if kind is str:
        return _checked_text(value)
    if value is None or kind is bool:
        return value  # type: ignore[no-any-return]
    if kind is int:
        return _checked_integer(value)
    if kind is float:
        if isfinite(value):
            return value  # type: ignore[no-any-return]
        raise ConversionError(f"expected a finite number, got {value}")
    if kind is dict:
        return _write_object(value.items(), levels - 1)
    if kind is list or kind is tuple:
        return _write_array(value, levels - 1)
    return _write_instance(value, levels)


def _write_instance(value: Any, levels: int) -> JSON:
    """Convert a value of any other class, such as a subclass of `str`. The more specific classes come first."""
    if isinstance(value, Enum):
        return _write(value.value, levels)
    if isinstance(value, str):
        return _checked_text(str.__str__(value))  # a subclass may have another `__str__`
    if isinstance(value, int):
        return _checked_integer(int(value))
    if isinstance(value, float):
        return _write(float(value), levels)
    if hasattr(type(value), "model_dump"):  # a model, such as pydantic's BaseModel
        return _write(value.model_dump(mode="json", by_alias=True), levels)
    if is_dataclass(value) and not isinstance(value, type):
        return _write_object(((field.name, getattr(value, field.name)) for field in fields(value)), levels - 1)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return _write_object(zip(value._fields, value, strict=True), levels - 1)
    if isinstance(value, Mapping):
        return _write_object(value.items(), levels - 1)
    if isinstance(value, (bytearray, memoryview)):
        value = bytes(value)  # `bytes` becomes a string; the others would become arrays
    for string_type in STRING_TYPES:
        if isinstance(value, string_type.class_if_imported()):
            return _checked_text(string_type.write(value))
    if isinstance(value, (Sequence, Set)):
        return _write_array(value, levels - 1)
    name = type(value).__qualname__
    advice = "write `await` before the call" if isawaitable(value) else "use a dataclass, dict, list or string instead"
    raise ConversionError(f"an object of {name} has no JSON form; {advice}")


def _write_array(items: Iterable[object], levels: int) -> JSON:
    _check_levels(levels)
    written: list[JSON] = []
    try:
        for item in items:
            written.append(_write(item, levels))
    except ConversionError as error:
        raise error.with_prefix(f"[{len(written)}]") from None
    return written


def _write_object(members: Iterable[tuple[object, object]], levels: int) -> JSON:
    _check_levels(levels)
    written: dict[str, JSON] = {}
    name: object = ""
    try:
        for name, member in members:
            if not isinstance(name, str):
                raise ConversionError(f"expected a string as the key of an object, got {type(name).__qualname__}")
            name = _checked_text(str.__str__(name))
            written[name] = _write(member, levels)
    except ConversionError as error:
        raise error.with_prefix(f".{name}") from None
    return written


def _check_levels(levels: int) -> None:
    if levels < 0:
        raise ConversionError(f"nested deeper than {MAX_VALUE_DEPTH} levels; does the value contain itself?")


def _checked_integer(number: int) -> int:
    if number.bit_length() > MAX_INTEGER_BITS:
        raise ConversionError(f"expected an integer of at most {MAX_INTEGER_BITS} bits: JSON parsers have limits")
    return number


def _checked_text(text: str) -> str:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ConversionError("expected Unicode text, got a string with half of a surrogate pair") from None
    return text
