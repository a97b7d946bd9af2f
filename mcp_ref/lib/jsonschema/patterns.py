"""Compiled regular expressions whose matching time is bounded, with the meaning that JSON Schema gives them.

A matcher that backtracks, such as Python's `re`, can take years for `^(a+)+$` and a text of fifty characters. Pattern
and text may come from an attacker (regular-expression denial of service, ReDoS; Validation 10). So each pattern is
parsed. Its structure gives an upper bound on the cost of matching a text. This bound decides between two matchers:

- `re`, if backtracking is cheap. The pattern is translated first: JSON Schema uses ECMA-262 (Core 6.4), where `\\d` is
  only 0 to 9, `$` does not match before a last newline, and `\\p{…}` exists.
- an automaton otherwise. Its time is linear in the length of the text.

Lookaround and backreferences have no automaton, and the automaton of `.{9999}` would be too large. For such patterns
`re` may take more steps (MAX_COST). A pattern is refused if these steps do not suffice for 63 characters. A text is
invalid if they do not suffice for its length.

Spec:  Core 6.4, Validation 10
"""

from __future__ import annotations

import re

from .ecma262 import Parser
from .expressions import Automaton, Boundary, Choice, Node, PatternError, Sequence
from .limits import Budget, BudgetExceeded

MAX_CHEAP_COST = 4_096
"""Maximum number of backtracking steps for which `re` is preferred to the automaton (some tens of microseconds)."""
MAX_COST = 1_000_000
"""Maximum number of backtracking steps if a pattern has no automaton (some tens of milliseconds)."""


class Pattern:
    """A compiled pattern.

    Args:
        source: A regular expression in the syntax of ECMA-262.

    Raises:
        PatternError: The expression is malformed or not supported, or its matching time cannot be bounded.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        parser = Parser(source)
        self._root = parser.parse()
        self._is_anchored = _is_anchored(self._root)
        self._suits_re, self._suits_automaton = not parser.uses_categories, parser.is_regular
        self._costs: dict[int, float] = {}  # by the bit length of a text's length
        self._re: re.Pattern[str] | None = None
        self._automaton: Automaton | None = None
        if not self._suits_re or self._cost(4) > MAX_CHEAP_COST:
            self._make_automaton()
        if not self._suits_automaton:
            if not self._suits_re:
                raise PatternError("\\p is not supported with lookaround, backreferences, or in so large a pattern")
            self._make_re()
            if self._cost(6) > MAX_COST:
                raise PatternError("it could take too long: it backtracks, and is too large or has lookaround")

    def search(self, text: str, budget: Budget) -> bool:
        """Return True if the pattern matches anywhere in a text. Raise BudgetExceeded if that would cost too much."""
        bits = len(text).bit_length()
        cost = self._costs.get(bits) or self._cost(bits)
        if cost > MAX_CHEAP_COST or not self._suits_re:
            automaton = self._automaton or self._make_automaton()
            if automaton is not None:
                return automaton.search(text, budget)
            if cost > MAX_COST:
                raise BudgetExceeded(f"a text of {len(text)} characters is too long for the pattern {self.source}")
        budget.spend(int(cost) // 64)
        compiled = self._re or self._make_re()
        return (compiled.match(text) if self._is_anchored else compiled.search(text)) is not None

    def _cost(self, bits: int) -> float:
        """Return the maximum number of backtracking steps on a text whose length has so many bits."""
        length = (1 << bits) - 1
        _, steps = self._root.cost(length)
        self._costs[bits] = max(steps, 1.0) * (1 if self._is_anchored else length + 1)
        return self._costs[bits]

    def _make_automaton(self) -> Automaton | None:
        if self._suits_automaton:
            try:
                self._automaton = Automaton(self._root)
            except PatternError:  # too large
                self._suits_automaton = False
        return self._automaton

    def _make_re(self) -> re.Pattern[str]:
        try:
            self._re = re.compile(self._root.to_re(), re.ASCII)  # ASCII matters only for \\b
        except re.error as error:  # a backreference or a lookbehind that re does not support
            raise PatternError(str(error)) from None
        return self._re


def _is_anchored(item: Node) -> bool:
    """Return True if an expression can only match at the beginning of a text."""
    if isinstance(item, Sequence):
        return bool(item.items) and _is_anchored(item.items[0])
    if isinstance(item, Choice):
        return all(map(_is_anchored, item.items))
    return isinstance(item, Boundary) and item.kind == "^"
