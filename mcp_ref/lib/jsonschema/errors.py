"""The two public exceptions of the package, and functions that write their messages.

People and language models correct their input by these messages. So the messages contain the location in the instance,
the expected value, and often the actual value. Long values are shortened, because an instance can have megabytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from .values import JSON, Path


class SchemaError(ValueError):
    """The error of an unusable schema, such as a malformed schema or one that exceeds a limit. See `compile_schema`."""


class ValidationError(ValueError):
    """One error of an instance. The text contains the path and the message.

    Args:
        path: Property names and array indices, from the root of the instance to the wrong value.
        keyword: Name of the violated keyword, "false" for the schema `false`, or "limits" for an exceeded limit.
        message: The text of the error, without the path.
    """

    def __init__(self, path: Path, keyword: str, message: str) -> None:
        self.path, self.keyword, self.message = path, keyword, message
        where = format_path(path)
        super().__init__(f"{where}: {message}" if where else message)


def format_path(path: Path) -> str:
    """Return a path as text, such as `trips[0].days`. A name that is not an identifier becomes `["odd name"]`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif step.isidentifier():
            text += f".{step}" if text else step
        else:
            text += f"[{quoted(step)}]"
    return text


def quoted(value: JSON, max_length: int = 80) -> str:
    """Return a value as JSON. A value with more than `max_length` characters or members is shortened."""
    if isinstance(value, str) and len(value) > max_length:
        return json.dumps(value[: max_length - 20], ensure_ascii=False) + f"… ({len(value)} characters)"
    if isinstance(value, list) and len(value) > max_length:
        return f"an array of {len(value)} items"
    if isinstance(value, dict) and len(value) > max_length:
        return f"an object with {len(value)} properties"
    text = ""
    for piece in _pieces_of(value, max_length):
        text += piece
        if len(text) > max_length:
            return text[: max_length - 1] + "…"
    return text


def _pieces_of(value: JSON, max_length: int) -> Iterator[str]:
    """Yield the JSON text of a value, piece by piece, so that the caller can stop. Long strings lose their end."""
    if isinstance(value, dict):
        opening = "{"
        for name, member in value.items():
            yield opening + json.dumps(name[:max_length], ensure_ascii=False) + ": "
            yield from _pieces_of(member, max_length)
            opening = ", "
        yield "}" if value else "{}"
    elif isinstance(value, list):
        opening = "["
        for item in value:
            yield opening
            yield from _pieces_of(item, max_length)
            opening = ", "
        yield "]" if value else "[]"
    elif isinstance(value, int) and value.bit_length() > 4 * max_length:  # slow to write in decimal digits
        yield "a number with too many digits"
    else:
        yield json.dumps(value[:max_length] if isinstance(value, str) else value, ensure_ascii=False)


def quoted_names(names: list[str]) -> list[str]:
    """Return at most thirteen names, quoted. `join_alternatives` shows twelve of them, and `…` if there are more."""
    return [quoted(name) for name in names[:13]]


def join_alternatives(texts: list[str], separator: str = " or ") -> str:
    """Return at most twelve texts as `a, b or c`. `…` replaces all further texts."""
    texts = texts[:12] + (["…"] if len(texts) > 12 else [])
    if separator != " or " or len(texts) < 2:
        return separator.join(texts)
    return ", ".join(texts[:-1]) + separator + texts[-1]


def format_count(number: int, unit: str) -> str:
    """Return a number with its unit, such as `1 property` or `2 properties`. `unit` is a plural."""
    return f"{number} {unit}" if number != 1 else "1 " + unit.removesuffix("s").replace("ie", "y")


def missing_properties_message(names: list[str], instance: dict[str, JSON]) -> str:
    """Return the error text that lists the required properties that an object lacks, at most thirteen."""
    lacking = quoted_names([name for name in names if name not in instance])
    return f"missing required propert{'y' if len(lacking) == 1 else 'ies'} {', '.join(lacking)}"
