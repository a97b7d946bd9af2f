"""Regular expressions of JSON Schema, whose matching takes a limited time.

A matcher that backtracks, such as Python's `re`, can need years to match `^(a+)+$` with a text of fifty characters.
Since an attacker can send such a pattern or text (regular-expression denial of service, ReDoS; Validation 10),
`Pattern` parses the expression and computes the maximum cost of backtracking, which decides between two matchers:

- `re`, if the cost is low. `Pattern` translates the expression first, because JSON Schema uses ECMA-262 (Core 6.4): for
  example, `$` does not match before a final newline, and `\\d` matches only 0 to 9.
- an automaton, if the cost is high or the expression contains `\\p{…}`. Its time is linear in the length of the text.

The automaton supports neither lookaround nor backreferences, and would be too large for `.{9999}`, so such a pattern
always needs `re`. `Pattern` refuses it if `re` could need more than MAX_COST steps for a text of 63 characters, and
`search` refuses each longer text for which `re` could need more.

Threats:
    pattern-cost: A peer that chooses a pattern, a text, or both blocks the processor, by making a matcher try every way
        to divide the text. `Pattern` computes the cost first, and if it is high, uses an automaton or raises an error.

Spec:  Core 6.4, Validation 10
"""

from __future__ import annotations

import re

from .ecma262 import Parser
from .expressions import Automaton, Boundary, Choice, Node, PatternError, Sequence
from .limits import Budget, BudgetExceeded

MAX_CHEAP_COST = 4_096
"""Maximum number of backtracking steps of `re` if a pattern has an automaton. They take tens of microseconds."""
MAX_COST = 1_000_000
"""Maximum number of backtracking steps of `re` if a pattern has no automaton. They take tens of milliseconds."""


class Pattern:
    """A compiled regular expression, from a source in the syntax of ECMA-262.

    Raise PatternError if it is malformed or not supported, or if its matching could take too long.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        parser = Parser(source)
        self._root = parser.parse()
        self._is_anchored = _is_anchored(self._root)
        self._suits_re = not parser.uses_categories
        self._suits_automaton = parser.is_regular  # False as soon as `_make_automaton` finds it too large
        self._costs: dict[int, float] = {}  # the results of `_cost`, by `length_bits`
        self._re: re.Pattern[str] | None = None  # the two matchers, made when they are needed first
        self._automaton: Automaton | None = None
        if not self._suits_re or self._cost(4) > MAX_CHEAP_COST:  # costly even for a text of 15 characters
            self._make_automaton()
        if not self._suits_automaton:  # only `re` is left, so refuse an unsupported pattern here, not in `search`
            if not self._suits_re:
                raise PatternError("\\p is not supported in a large pattern, or with lookaround or backreferences")
            self._make_re()
            if self._cost(6) > MAX_COST:  # for a text of 63 characters
                raise PatternError("matching could take too long with a large pattern, lookaround or backreferences")

    def search(self, text: str, budget: Budget) -> bool:
        """Return True if the pattern matches a part of a text. Raise BudgetExceeded if the search costs too much."""
        length_bits = len(text).bit_length()  # so the cost is computed once for all texts of a similar length
        cost = self._costs.get(length_bits) or self._cost(length_bits)
        if cost > MAX_CHEAP_COST or not self._suits_re:
            automaton = self._automaton or self._make_automaton()
            if automaton is not None:
                return automaton.search(text, budget)
            if cost > MAX_COST:
                raise BudgetExceeded(f"a text of {len(text)} characters is too long for the pattern {self.source}")
        budget.spend(2 + int(cost) // 64)  # few texts need the maximum cost, so only a part counts
        compiled = self._re or self._make_re()
        return (compiled.match(text) if self._is_anchored else compiled.search(text)) is not None

    def _cost(self, length_bits: int) -> float:
        """Return the maximum number of backtracking steps for a text with fewer than 2**length_bits characters."""
        length = (1 << length_bits) - 1
        _, steps = self._root.cost(length)
        starts = 1 if self._is_anchored else length + 1  # positions at which a match can begin
        self._costs[length_bits] = max(steps, 1.0) * starts
        return self._costs[length_bits]

    def _make_automaton(self) -> Automaton | None:
        """Make the automaton, or return None if the pattern has none."""
        if self._suits_automaton:
            try:
                self._automaton = Automaton(self._root)
            except PatternError:  # too large
                self._suits_automaton = False
        return self._automaton

    def _make_re(self) -> re.Pattern[str]:
        try:
            self._re = re.compile(self._root.to_re(), re.ASCII)  # in ASCII, as ECMA-262 defines \b
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
