"""Limits on the cost of a schema, and the counter of a validation's steps.

Because an attacker can write a schema of two kilobytes whose validation takes a billion steps (Core 13), the compiler
limits the number of subschemas, and a `Budget` limits the steps and the processor time of each validation.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

TOO_DEEP_MESSAGE = "too deeply nested to check against this schema"


@dataclass(frozen=True, kw_only=True)
class ValidationLimits:
    """Limits of one compiled schema, and of each validation with this schema. An argument replaces a default."""

    depth: int = 100
    """Maximum nesting of subschemas in a schema, and of references during a validation, in levels."""
    subschemas: int = 20_000
    """Maximum number of compiled subschemas, in all documents together."""
    steps: int = 1_000_000
    """Maximum number of steps of one validation. Each subschema takes a step or more. The default takes about 0.1 s."""
    seconds: float = 0.2
    """Maximum processor time of one validation, in seconds. Most validations reach the maximum of steps first, but a
    step takes 30 times longer at some depths of the stack, where CPython asks the system for memory at each call."""
    patterns: int = 500
    """Maximum number of different regular expressions in a schema."""
    pattern_length: int = 2_000
    """Maximum length of one regular expression, in characters."""


class BudgetExceeded(Exception):
    """The error that ends a validation when it exceeds a limit. The text describes the limit."""


_SLICE = 10_000
"""Number of steps that a validation takes from its budget at once. Only then does it read the clock, which is slow."""
_clock = getattr(time, "thread_time", time.process_time)  # WebAssembly has no clock for a thread


class Budget:
    """The levels, steps and processor time that one validation still has left.

    `end` is the time on the clock when it must end. It comes from an earlier part of the same validation, if that has
    started the clock.
    """

    __slots__ = ("_limits", "_reserve", "depth", "end", "steps")

    def __init__(self, limits: ValidationLimits, end: float | None = None) -> None:
        self._limits, self.depth = limits, limits.depth
        self.end = end  # None at first: the clock starts with the second slice, because few validations need one
        self.steps = _SLICE if limits.steps > _SLICE else limits.steps  # left of the current slice
        self._reserve = limits.steps - self.steps  # steps for further slices

    def spend(self, steps: int) -> None:
        """Subtract steps from the budget. Raise BudgetExceeded if too few steps are left, or no time."""
        self.steps -= steps
        if self.steps < 0:
            self._take_slice()

    def _take_slice(self) -> None:
        """Take steps from the reserve, if it has enough and there is time left."""
        now = _clock()
        if self.end is None:
            self.end = now + self._limits.seconds
        needed = max(_SLICE, -self.steps)  # one call can spend more than a slice
        taken = min(needed, self._reserve)
        self._reserve -= taken
        self.steps += taken
        if self.steps < 0 or now > self.end:
            raise BudgetExceeded("too costly to check against this schema")
