"""JSON's own values, where they differ from Python's: `1.0` is an integer and equals `1`; `true` is neither.

Core 4.2.2 has the equality that `enum`, `const` and `uniqueItems` use; Validation 6.1.1 the types. These
take a `Run` that they do not need, so that they are checks as they stand.
"""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .model import JSON, Check, Run


def is_number(value: JSON, run: Run | None = None) -> bool:
    """Python counts bool among the ints; JSON does not."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_integer(value: JSON, run: Run | None = None) -> bool:
    """Core 4.2.3: any number without a fractional part is an integer, however it is written."""
    return (isinstance(value, int) and not isinstance(value, bool)) or (isinstance(value, float) and value.is_integer())


def is_string(value: JSON, run: Run | None = None) -> bool:
    """A string."""
    return isinstance(value, str)


def is_object(value: JSON, run: Run | None = None) -> bool:
    """An object."""
    return isinstance(value, dict)


def is_array(value: JSON, run: Run | None = None) -> bool:
    """An array."""
    return isinstance(value, list)


def is_boolean(value: JSON, run: Run | None = None) -> bool:
    """True or false."""
    return value is True or value is False


def is_null(value: JSON, run: Run | None = None) -> bool:
    """Null."""
    return value is None


TYPES: dict[str, Check] = {
    "object": is_object,
    "array": is_array,
    "string": is_string,
    "integer": is_integer,
    "number": is_number,
    "boolean": is_boolean,
    "null": is_null,
}
"""Validation 6.1.1, with Core 4.2.1's six types and `integer`."""


def canonical(value: JSON, run: Run | None = None) -> str:
    """A text that two values share exactly when they are equal in JSON.

    A text, because Python salts the hashes of strings: whoever chooses the items of an array to make their hashes
    collide (easily done with numbers and tuples of them) cannot make a set of these slow.
    """
    if isinstance(value, str):
        if run is not None:
            run.spend(len(value) // 64)
        return json.dumps(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return hex(value)
    if isinstance(value, float):
        return hex(int(value)) if value.is_integer() else value.hex()
    if value is None:
        return "null"
    if run is not None:
        run.spend(len(value) + 1)
    if isinstance(value, list):
        return "[" + ",".join([canonical(item, run) for item in value]) + "]"
    return "{" + ",".join(sorted([json.dumps(key) + ":" + canonical(item, run) for key, item in value.items()])) + "}"


def is_multiple(value: int | float, of: int | float) -> bool:
    """Validation 6.2.1, exactly: 0.3 is a multiple of 0.1, as these numbers are written."""
    if isinstance(value, int) and isinstance(of, int):
        return value % of == 0
    if isinstance(value, float) and value - value != 0:
        return False  # infinity: a number too large for a float, whose digits are lost
    (digits, exponent), (of_digits, of_exponent) = _decimal(value), _decimal(of)
    least = min(exponent, of_exponent)
    dividend, divisor = digits * int(10 ** (exponent - least)), of_digits * int(10 ** (of_exponent - least))
    return dividend % divisor == 0


def _decimal(value: int | float) -> tuple[int, int]:
    """A number as digits and a power of ten. A float means the shortest text that reads as it: what was written."""
    if isinstance(value, int):
        return value, 0
    mantissa, _, exponent = repr(value).partition("e")
    whole, _, fraction = mantissa.partition(".")
    return int(whole + fraction), int(exponent or 0) - len(fraction)
