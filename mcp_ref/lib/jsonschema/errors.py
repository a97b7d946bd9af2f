"""The two exceptions of the package, and the text of their messages.

A message contains the location in the instance, the expected value and the actual value. People and language models
need all three to correct their input. Quoted values are cut, because an instance may be megabytes long.
"""

from __future__ import annotations

import json

from .values import JSON, Path


class SchemaError(ValueError):
    """A schema that cannot be used: malformed, in an unknown dialect, too large, or with an unresolvable reference."""


class ValidationError(ValueError):
    """One fault of an instance. Its text contains the location, the expected value and the actual value.

    Args:
        path: Property names and array indices that lead from the root of the instance to the fault.
        keyword: Name of the keyword that failed, or "limits" if the validation ran out of its budget.
        message: The text of the error, without the path.
    """

    def __init__(self, path: Path, keyword: str, message: str) -> None:
        self.path, self.keyword, self.message = path, keyword, message
        where = format_path(path)
        super().__init__(f"{where}: {message}" if where else message)


def format_path(path: Path) -> str:
    """Return a path as text: `trips[0].days`, with `["odd name"]` for a name that is not an identifier."""
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
    """Return a value as JSON, cut to `max_length` characters."""
    if isinstance(value, str) and len(value) > max_length:
        return json.dumps(value[: max_length - 20], ensure_ascii=False) + f"… ({len(value)} characters)"
    if isinstance(value, list) and len(value) > max_length:
        return f"an array of {len(value)} items"
    if isinstance(value, dict) and len(value) > max_length:
        return f"an object with {len(value)} properties"
    try:
        text = json.dumps(value, ensure_ascii=False)
    except ValueError:  # an integer with more digits than Python writes
        return "a number with too many digits"
    return text if len(text) <= max_length else text[: max_length - 1] + "…"


def quoted_names(names: list[str]) -> list[str]:
    """Return the first thirteen names, quoted. `join_alternatives` prints twelve and replaces the thirteenth by `…`."""
    return [quoted(name) for name in names[:13]]


def join_alternatives(texts: list[str], separator: str = " or ") -> str:
    """Return at most twelve texts as `a, b or c`."""
    texts = texts[:12] + (["…"] if len(texts) > 12 else [])
    if separator != " or " or len(texts) < 2:
        return separator.join(texts)
    return ", ".join(texts[:-1]) + separator + texts[-1]


def format_count(number: int, unit: str) -> str:
    """Return a number with its unit: `1 property`, `2 properties`."""
    return f"{number} {unit}" if number != 1 else "1 " + unit.removesuffix("s").replace("ie", "y")


def missing_properties_message(names: list[str], instance: dict[str, JSON]) -> str:
    """Return the message about required properties that an object lacks."""
    lacking = quoted_names([name for name in names if name not in instance])
    return f"missing required propert{'y' if len(lacking) == 1 else 'ies'} {', '.join(lacking)}"
