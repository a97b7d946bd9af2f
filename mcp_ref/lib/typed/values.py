"""Python values as JSON, and the types whose JSON is a string.

`to_json` looks at the value, not at an annotation, so it also writes what was returned by a function that promises
nothing, or something else. What it gives can always be put on the wire.

Below: nothing. Above: annotations.py reads the text types back.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from math import isfinite
from typing import Any, Final, TypeAlias

JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"

MAX_DEPTH: Final = 100
"""Arrays and objects within each other, at most. A value that contains itself is caught here too."""

MAX_BITS: Final = 14_000
"""Of an integer, at most: some 4,200 digits. Python itself, for one, reads no more than 4,300."""


class UnfitValue(ValueError):
    """A value cannot become what its type asks for, or cannot be JSON.

    why: what was expected. path: where, such as `.stops[2].name`; empty for the value itself.
    """

    def __init__(self, why: str, path: str = "") -> None:
        self.why, self.path = why, path

    def under(self, step: str) -> UnfitValue:
        """The same error, seen from one level further out. A step is `.name` or `[index]`."""
        return UnfitValue(self.why, step + self.path)

    def __str__(self) -> str:
        path = self.path.removeprefix(".").encode(errors="replace").decode() or "value"  # itself no lone surrogates
        return f"{path if len(path) <= 100 else path[:100] + '…'}: {self.why}"


# --- types whose JSON is a string ---


@dataclass(frozen=True)
class TextType:
    """A class that is a string in JSON. It is named, not imported: who uses the class has imported its module."""

    module: str
    name: str
    expected: str
    """The string in words, for who sent another one."""
    keywords: dict[str, JSON]
    """What its schema says beyond "type": "string"."""
    read: Callable[[Any, str], object]
    """The class (perhaps a subclass) and the string, to the value; a ValueError or ArithmeticError refuses."""
    write: Callable[[Any], str]

    def loaded(self) -> type | tuple[()]:
        """The class, or what nothing is an instance of while its module is not imported."""
        found: type | tuple[()] = getattr(sys.modules.get(self.module), self.name, ())
        return found


def _read_datetime(cls: Any, text: str) -> object:
    moment = cls.fromisoformat(text)
    if moment.tzinfo is None:  # RFC 3339, section 5.6: a date-time has an offset
        raise ValueError("no offset")
    return moment


def _write_datetime(moment: Any) -> str:
    """A naive datetime is local time, as for all of Python's own methods; the wire says so."""
    text: str = (moment if moment.tzinfo else moment.astimezone()).isoformat()
    return text


def _write_decimal(number: Any) -> str:
    if not number.is_finite():
        raise UnfitValue(f"{number} cannot be JSON")
    return format(number, "f")


_CLOCK: Final = r"^[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?(Z|[+-][0-9]{2}:[0-9]{2})?$"
# The format "time" would ask for an offset, which a time of day seldom has.

TEXT_TYPES: Final = (
    TextType(
        *("datetime", "datetime", "a date-time with an offset, such as 2025-01-31T09:30:00Z"),
        {"format": "date-time"},
        _read_datetime,
        _write_datetime,
    ),  # before date, whose subclass it is
    TextType(
        *("datetime", "date", "a date, such as 2025-01-31"),
        {"format": "date"},
        lambda cls, text: cls.fromisoformat(text),
        lambda day: str(day.isoformat()),
    ),
    TextType(
        *("datetime", "time", "a time of day, such as 09:30:00"),
        {"pattern": _CLOCK},
        lambda cls, text: cls.fromisoformat(text),
        lambda time: str(time.isoformat()),
    ),
    TextType(
        *("uuid", "UUID", "a UUID, such as 123e4567-e89b-12d3-a456-426614174000"),
        {"format": "uuid"},
        lambda cls, text: cls(text),
        str,
    ),
    TextType(
        *("decimal", "Decimal", "a decimal number in a string, such as 12.50"),
        {"pattern": r"^-?[0-9]+(\.[0-9]+)?$"},
        lambda cls, text: cls(text),
        _write_decimal,
    ),
    TextType("pathlib", "PurePath", "a file path", {}, lambda cls, text: cls(text), str),
    TextType(
        *("builtins", "bytes", "base64, such as aGk="),
        {"contentEncoding": "base64"},
        lambda cls, text: cls(base64.b64decode(text, validate=True)),
        lambda data: base64.b64encode(data).decode("ascii"),
    ),
)


# --- writing ---


def to_json(value: object) -> JSON:
    """The JSON of a value: one made of dicts, lists, strings, finite numbers, booleans and None.

    A dataclass instance or named tuple becomes an object of its fields, a mapping with string keys an object, a
    sequence or set an array, an Enum member its value, and a text type (datetime, UUID, Path, bytes, …) a string.
    Raises UnfitValue, a ValueError, for what JSON cannot hold (NaN, Infinity, a lone surrogate, keys that are not
    strings, nesting beyond MAX_DEPTH or without end, an object of another class); its text says where.
    """
    return _write(value, MAX_DEPTH)


def _write(value: Any, depth: int) -> JSON:
    kind = type(value)
    if kind is str:
        return _checked(value)
    if value is None or kind is bool:
        return value  # type: ignore[no-any-return]
    if kind is int:
        return _bounded(value)
    if kind is float:
        if isfinite(value):
            return value  # type: ignore[no-any-return]
        raise UnfitValue(f"{value} cannot be JSON")
    if kind is dict:
        return _write_object(value.items(), depth - 1)
    if kind is list or kind is tuple:
        return _write_array(value, depth - 1)
    return _write_instance(value, depth)


def _write_instance(value: Any, depth: int) -> JSON:
    """What is not of one of JSON's own types, the more specific classes first."""
    if isinstance(value, Enum):
        return _write(value.value, depth)
    if isinstance(value, str):
        return _checked(str.__str__(value))
    if isinstance(value, int):
        return _bounded(int(value))
    if isinstance(value, float):
        return _write(float(value), depth)
    if is_dataclass(value) and not isinstance(value, type):
        return _write_object(((field.name, getattr(value, field.name)) for field in fields(value)), depth - 1)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return _write_object(zip(value._fields, value, strict=True), depth - 1)
    if isinstance(value, Mapping):
        return _write_object(value.items(), depth - 1)
    if isinstance(value, (bytearray, memoryview)):
        value = bytes(value)  # else they would be sequences of integers
    for text in TEXT_TYPES:
        if isinstance(value, text.loaded()):
            return _checked(text.write(value))
    if isinstance(value, (Sequence, Set)):
        return _write_array(value, depth - 1)
    raise UnfitValue(
        f"an object of {type(value).__qualname__} has no JSON form; make it a dataclass, dict, list or string"
    )


def _write_array(items: Iterable[object], depth: int) -> JSON:
    _check_depth(depth)
    written: list[JSON] = []
    try:
        for item in items:
            written.append(_write(item, depth))
    except UnfitValue as unfit:
        raise unfit.under(f"[{len(written)}]") from None
    return written


def _write_object(members: Iterable[tuple[object, object]], depth: int) -> JSON:
    _check_depth(depth)
    written: dict[str, JSON] = {}
    name: object = ""
    try:
        for name, member in members:
            if not isinstance(name, str):
                raise UnfitValue(f"the names in a JSON object are strings, not {type(name).__qualname__}")
            name = _checked(str.__str__(name))
            written[name] = _write(member, depth)
    except UnfitValue as unfit:
        raise unfit.under(f".{name}") from None
    return written


def _check_depth(depth: int) -> None:
    if depth < 0:
        raise UnfitValue(f"nested deeper than {MAX_DEPTH} levels; does it contain itself?")


def _bounded(number: int) -> int:
    if number.bit_length() > MAX_BITS:
        raise UnfitValue("an integer of more digits than JSON readers take")
    return number


def _checked(text: str) -> str:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise UnfitValue("a string with half of a surrogate pair cannot be JSON") from None
    return text
