"""Values, paths and lists in words, for the messages of errors."""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .model import JSON, Step


def written_path(path: tuple[Step, ...]) -> str:
    """`trips[0].days`, and `["odd name"]` for what is no plain name."""
    written = ""
    for step in path:
        if isinstance(step, int):
            written += f"[{step}]"
        elif step.isidentifier():
            written += f".{step}" if written else step
        else:
            written += f"[{shown(step)}]"
    return written


def shown(value: JSON, most: int = 80) -> str:
    """A value as JSON, cut to a length that does not drown the message."""
    if isinstance(value, str) and len(value) > most:
        return json.dumps(value[: most - 20], ensure_ascii=False) + f"… ({len(value)} characters)"
    if isinstance(value, list) and len(value) > most:
        return f"an array of {len(value)} items"
    if isinstance(value, dict) and len(value) > most:
        return f"an object with {len(value)} properties"
    try:
        text = json.dumps(value, ensure_ascii=False)
    except ValueError:  # an integer of more digits than Python writes
        return "a number beyond all measure"
    return text if len(text) <= most else text[: most - 1] + "…"


def either(words: list[str], between: str = " or ") -> str:
    """`a, b or c`, and no more than twelve of them."""
    words = words[:12] + (["…"] if len(words) > 12 else [])
    if between != " or " or len(words) < 2:
        return between.join(words)
    return ", ".join(words[:-1]) + between + words[-1]


def counted(number: int, unit: str) -> str:
    """`1 property`, `2 properties`."""
    return f"{number} {unit}" if number != 1 else "1 " + unit.removesuffix("s").replace("ie", "y")


def quoted(words: list[str]) -> list[str]:
    """Names in quotes: as many as a message has room for."""
    return [shown(word) for word in words[:13]]


def missing(names: list[str], instance: JSON) -> str:
    """Which of the required properties an object does not have."""
    assert isinstance(instance, dict)
    lacking = quoted([name for name in names if name not in instance])
    return f"missing required propert{'y' if len(lacking) == 1 else 'ies'} {', '.join(lacking)}"
