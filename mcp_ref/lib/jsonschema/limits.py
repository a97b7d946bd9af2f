"""Limits on the cost of a schema, and the budget of one validation.

Schemas and instances often come from strangers. A schema of two kilobytes can demand a billion steps, so the standard
warns validators about resources (Core 13). The compiler counts subschemas, and each validation has a budget of steps.
"""

from __future__ import annotations

TOO_DEEP_MESSAGE = "too deeply nested to check against this schema"


class ValidationLimits:
    """Limits of one compiled schema, and of each validation with it. The arguments replace the defaults below.

    Args:
        depth: Maximum nesting, in levels.
        subschemas: Maximum number of subschemas.
        steps: Maximum number of steps.
        patterns: Maximum number of patterns.
        pattern_length: Maximum length of a pattern, in characters.
    """

    depth: int = 100
    """Maximum nesting of subschemas, and of references that are being followed, in levels."""
    subschemas: int = 20_000
    """Maximum number of compiled subschemas, in all documents together."""
    steps: int = 2_000_000
    """Maximum number of steps of one validation. A step applies one subschema. The default takes about a second."""
    patterns: int = 500
    """Maximum number of different regular expressions."""
    pattern_length: int = 2_000
    """Maximum length of one regular expression, in characters."""

    def __init__(
        self,
        *,
        depth: int = depth,
        subschemas: int = subschemas,
        steps: int = steps,
        patterns: int = patterns,
        pattern_length: int = pattern_length,
    ) -> None:
        self.depth, self.subschemas, self.steps = depth, subschemas, steps
        self.patterns, self.pattern_length = patterns, pattern_length


class BudgetExceeded(Exception):
    """A validation that reached one of its limits. The text names the limit."""


class Budget:
    """The remaining depth and steps of one validation."""

    __slots__ = ("depth", "steps")

    def __init__(self, limits: ValidationLimits) -> None:
        self.depth, self.steps = limits.depth, limits.steps

    def spend(self, steps: int) -> None:
        """Subtract steps before the work is done. Raise BudgetExceeded if none are left."""
        self.steps -= steps
        if self.steps < 0:
            raise BudgetExceeded("too costly to check against this schema")
