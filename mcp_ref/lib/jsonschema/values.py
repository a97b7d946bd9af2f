"""The types and the equality of JSON values. Python differs: in JSON, `1.0` is an integer, and `true` is not `1`.

JSON Schema's Core 4.2.2 defines the equality that `enum`, `const` and `uniqueItems` use, and its Validation 6.1.1 the
types. The larger a value is, the more steps of the `Budget` a function spends, so that no value takes too long.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite

from .limits import Budget

JSON = bool | int | float | str | list["JSON"] | dict[str, "JSON"] | None
Object = dict[str, JSON]
Step = str | int
"""A property name or an array index."""
Path = tuple[Step, ...]
"""The steps from the root of an instance to one of its parts."""
Check = Callable[[JSON, Budget], bool]
"""A function that returns True if an instance is valid."""


def is_number(value: JSON, budget: Budget | None = None) -> bool:
    """Return True for a JSON number. `True` is an int in Python, but not a number in JSON."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_integer(value: JSON, budget: Budget | None = None) -> bool:
    """Return True for a number without a fractional part, such as 1 or 1.0 (Core 4.2.3)."""
    if type(value) is int:
        return True  # most values; the rest is for floats, and for a subclass of int such as IntEnum
    if isinstance(value, float):
        return value.is_integer()
    return isinstance(value, int) and not isinstance(value, bool)


TYPES: dict[str, Check] = {
    "object": lambda value, budget: isinstance(value, dict),
    "array": lambda value, budget: isinstance(value, list),
    "string": lambda value, budget: isinstance(value, str),
    "integer": is_integer,
    "number": is_number,
    "boolean": lambda value, budget: value is True or value is False,
    "null": lambda value, budget: value is None,
}
"""A check for each type that `type` can name: the six types of Core 4.2.1, and `integer` (Validation 6.1.1)."""


def canonical_text(value: JSON, budget: Budget | None = None) -> str:
    """Return the canonical text of a value. Two JSON values are equal if and only if their canonical texts are equal.

    Callers put these texts into sets. A set of the numbers themselves would be unsafe, because Python's hashes of
    numbers are predictable, so an attacker could send many with the same hash, which would make each look-up slow.
    """
    if isinstance(value, str):
        if budget is not None:
            budget.spend(len(value) // 64)  # a step for 64 characters
        return repr(value)  # six times as fast as json.dumps
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return hex(value)  # str is slow for a long integer, and fails above 4300 digits
    if isinstance(value, float):
        return hex(int(value)) if value.is_integer() else value.hex()
    if value is None:
        return "null"
    if budget is not None:
        budget.spend(3 * len(value) + 3)  # three for each item, and for the value itself
    if isinstance(value, list):
        return "[" + ",".join([canonical_text(item, budget) for item in value]) + "]"
    members = [repr(name) + ":" + canonical_text(member, budget) for name, member in value.items()]
    return "{" + ",".join(sorted(members)) + "}"


def is_multiple(value: int | float, factor: int | float, budget: Budget) -> bool:
    """Return True for an exact multiple of `factor` (Validation 6.2.1). In decimal, 0.3 is a multiple of 0.1."""
    if isinstance(value, int):
        budget.spend(value.bit_length() // 128)  # a step for 128 bits
        if isinstance(factor, int):
            return value % factor == 0
    if isinstance(value, float) and not isfinite(value):
        return False  # the JSON number was too large for a float, so its digits are unknown
    budget.spend(20)  # for the decimal digits
    digits, exponent = _decimal(value)
    factor_digits, factor_exponent = _decimal(factor)
    least = min(exponent, factor_exponent)  # both numbers are integers, times ten to this power
    dividend = digits * int(10 ** (exponent - least))
    divisor = factor_digits * int(10 ** (factor_exponent - least))
    budget.spend((dividend.bit_length() + divisor.bit_length()) // 128)
    return dividend % divisor == 0


def _decimal(value: int | float) -> tuple[int, int]:
    """Return the decimal digits of a number as an integer, and the exponent of ten."""
    if isinstance(value, int):
        return value, 0
    mantissa, _, exponent = repr(value).partition("e")
    integer_digits, _, fraction_digits = mantissa.partition(".")
    return int(integer_digits + fraction_digits), int(exponent or 0) - len(fraction_digits)
