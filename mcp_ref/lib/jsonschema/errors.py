"""The public exceptions of the package, and functions that write their messages.

People and language models correct their input by these messages, so they contain the location in the instance, the
expected value, and often the actual one. Long values are shortened, because an instance can have megabytes.
"""

from __future__ import annotations

import json

from .values import JSON, Path

_write = json.JSONEncoder(ensure_ascii=False).encode


class SchemaError(ValueError):
    """The error of an unusable schema, such as a malformed schema or one that exceeds a limit. See `compile_schema`."""


class IllegalSchemaError(SchemaError):
    """The error of a schema that no implementation may accept, because the value of one of its keywords is illegal."""


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
    text = _start_of(value, max_length)
    return text if len(text) <= max_length else text[: max_length - 1] + "…"


def _start_of(value: JSON, size: int) -> str:
    """Return the JSON text of a value, or a part from its start that has more than `size` characters."""
    if isinstance(value, dict):
        text = "{"
        for name, member in value.items():
            if len(text) > size:
                return text
            text += (", " if len(text) > 1 else "") + _write(name[:size]) + ": "
            text += _start_of(member, size - len(text))
        return text + "}"
    if isinstance(value, list):
        text = "["
        for item in value:
            if len(text) > size:
                return text
            text += (", " if len(text) > 1 else "") + _start_of(item, size - len(text))
        return text + "]"
    if isinstance(value, int) and value.bit_length() > 320:  # slow to write in decimal digits
        return "a number with too many digits"
    if isinstance(value, str):
        value = value[: max(0, size)]  # with its quotation marks, longer than `size`
    return _write(value)


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
    if number != 1:
        return f"{number} {unit}"
    return "1 " + unit.removesuffix("s").replace("ie", "y")  # "properties" becomes "property"


def missing_properties_message(names: list[str], instance: dict[str, JSON]) -> str:
    """Return the error text with the required properties that an object lacks, at most thirteen."""
    lacking = quoted_names([name for name in names if name not in instance])
    noun = "property" if len(lacking) == 1 else "properties"
    return f"missing required {noun} {', '.join(lacking)}"
