"""Regular expressions as JSON Schema means them, ECMA-262's, in a time that no pattern and no text can stretch.

Python's `re` differs from ECMA-262 (`\\d` is more than 0 to 9, `$` matches before a last newline, `\\p{…}` is unknown)
and it backtracks: some patterns, such as `^(a+)+$`, take it years over a text of fifty characters. So a pattern is
parsed reader, and then

- a text is matched by `re`, rewritten, where the pattern's structure says that backtracking is cheap for this length;
- otherwise by an automaton, in a time that is linear in the text.

Lookaround and backreferences have no automaton, nor has what is too large, such as `.{9999}`: there `re` is given more
time. Such a pattern is refused when that does not suffice for 63 characters, and a text for which it does not suffice
is invalid.

Spec:  Core 6.4. Below: ecma262.py reads patterns, expressions.py says what they cost, and has the automaton
"""

from __future__ import annotations

import re

from .ecma262 import Parser
from .expressions import Automaton, Boundary, Choice, Group, PatternError, Sequence
from .limits import BudgetExceeded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .expressions import Item
    from .limits import Budget

CHEAP = 4_096
"""Steps of backtracking up to which `re` is used rather than the automaton: some tens of microseconds."""
DEAR = 1_000_000
"""Steps of backtracking up to which `re` is used where there is no automaton: some tens of milliseconds."""


class Pattern:
    """A compiled pattern. Raises PatternError."""

    def __init__(self, source: str) -> None:
        self.source = source
        parser = Parser(source)
        self._root = parser.parse()
        self._anchored = _is_anchored(self._root)
        self._speaks_python, self._has_automaton = not parser.has_property, parser.is_regular
        self._costs: dict[int, float] = {}  # by the number of bits of a text's length
        self._python: re.Pattern[str] | None = None
        self._automaton: Automaton | None = None
        if not self._speaks_python or self._cost(4) > CHEAP:
            self._make_automaton()
        if not self._has_automaton:
            if not self._speaks_python:
                raise PatternError("\\p is not supported with lookaround, backreferences, or in so large a pattern")
            self._make_python()
            if self._cost(6) > DEAR:
                raise PatternError("it could take too long: it backtracks, and is too large or has lookaround")

    def search(self, text: str, budget: Budget) -> bool:
        """Whether the pattern matches anywhere in a text. Raises BudgetExceeded when the budget cannot pay for it."""
        bits = len(text).bit_length()
        cost = self._costs.get(bits) or self._cost(bits)
        if cost > CHEAP or not self._speaks_python:
            automaton = self._automaton or self._make_automaton()
            if automaton is not None:
                return automaton.search(text, budget)
            if cost > DEAR:
                raise BudgetExceeded(f"a text of {len(text)} characters is too long for the pattern {self.source}")
        budget.spend(int(cost) // 64)
        python = self._python or self._make_python()
        return (python.match(text) if self._anchored else python.search(text)) is not None

    def _cost(self, bits: int) -> float:
        """The steps that backtracking may take on a text whose length has so many bits."""
        length = (1 << bits) - 1
        _, steps = self._root.cost(length)
        self._costs[bits] = max(steps, 1.0) * (1 if self._anchored else length + 1)
        return self._costs[bits]

    def _make_automaton(self) -> Automaton | None:
        if self._has_automaton:
            try:
                self._automaton = Automaton(self._root)
            except PatternError:  # too large
                self._has_automaton = False
        return self._automaton

    def _make_python(self) -> re.Pattern[str]:
        try:
            self._python = re.compile(self._root.python(), re.ASCII)  # ASCII: for \\b, all else is written as ranges
        except re.error as error:  # a backreference or a lookbehind that re does not have
            raise PatternError(str(error)) from None
        return self._python


def _is_anchored(item: Item) -> bool:
    """Whether a node can only match at the beginning of a text."""
    if isinstance(item, Sequence):
        return bool(item.items) and _is_anchored(item.items[0])
    if isinstance(item, Choice):
        return all(map(_is_anchored, item.items))
    if isinstance(item, Group):
        return _is_anchored(item.body)
    return isinstance(item, Boundary) and item.kind == "^"
