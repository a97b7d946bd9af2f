"""Limits on the cost of a schema, and the counter of a validation's steps.

An attacker can write a schema of two kilobytes whose validation takes a billion steps (Core 13). So the compiler limits
the number of subschemas, and a `Budget` limits the number of steps of each validation.
"""

from __future__ import annotations

TOO_DEEP_MESSAGE = "too deeply nested to check against this schema"


class ValidationLimits:
    """Limits of one compiled schema, and of each validation with this schema. An argument replaces a default.

    Args:
        depth: Maximum nesting, in levels.
        subschemas: Maximum number of subschemas.
        steps: Maximum number of steps.
        patterns: Maximum number of patterns.
        pattern_length: Maximum length of a pattern, in characters.
    """

    depth: int = 100
    """Maximum nesting of subschemas in a schema, and of references during a validation, in levels."""
    subschemas: int = 20_000
    """Maximum number of compiled subschemas, in all documents together."""
    steps: int = 1_000_000
    """Maximum number of steps of one validation. Each subschema takes a step or more. The default: about 0.1 s."""
    patterns: int = 500
    """Maximum number of different regular expressions in a schema."""
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
    """The error that ends a validation when it exceeds a limit. The text describes the limit."""


class Budget:
    """The levels and steps that one validation still has left."""

    __slots__ = ("depth", "steps")

    def __init__(self, limits: ValidationLimits) -> None:
        self.depth, self.steps = limits.depth, limits.steps

    def spend(self, steps: int) -> None:
        """Subtract steps from the budget. Raise BudgetExceeded if too few steps are left."""
        self.steps -= steps
        if self.steps < 0:
            raise BudgetExceeded("too costly to check against this schema")
