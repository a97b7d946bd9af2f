"""Regular expressions as trees of nodes, and the automaton that is made of them.

Each node does three things; patterns.py says what for:

- `python` writes the node for `re`;
- `cost` bounds the work of a backtracking matcher on a text of so many characters: in how many ways can the node match
  from one position, and in how many steps are all of these tried?
- `states` adds the node to an automaton, which is in several states at once instead of trying one after the other.
  Its time is linear in the text. The sets of states that it comes to are remembered, with what follows each on which
  character (a DFA, built lazily), so that it is also fast.
"""

from __future__ import annotations

from math import inf

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    from .limits import Budget

    Ranges: TypeAlias = "list[tuple[int, int]]"

LAST = 0x10FFFF
"""The last code point."""
STATES = 4_000
"""How many states an automaton may have. `(a{100}){100}` wants more."""
MOVES = 20_000
"""How many moves of the automaton are remembered, before it forgets them all and begins anew."""


class PatternError(ValueError):
    """No regular expression, one with a feature that is not supported, or one that could take too long."""


# ---------------------------------------------------------------------------------------------- the nodes


class CharacterSet:
    """One character of a set: ranges of code points, and general categories (`\\p{Lu}`), or all others."""

    def __init__(self, ranges: Ranges, categories: list[tuple[bool, tuple[str, ...]]], negated: bool = False) -> None:
        self.ranges, self.categories, self.negated = ranges, categories, negated

    @property
    def is_single(self) -> bool:
        """Whether it is one character, rather than a set."""
        return not self.categories and len(self.ranges) == 1 and self.ranges[0][0] == self.ranges[0][1]

    def has(self, char: str) -> bool:
        """Whether a character is in the set."""
        code = ord(char)
        found = any(low <= code <= high for low, high in self.ranges)
        if not found and self.categories:
            from unicodedata import category  # lazy: a large extension module that only `\\p{…}` needs

            found = any(category(char).startswith(names) != negated for negated, names in self.categories)
        return found != self.negated

    def excludes(self, other: CharacterSet) -> bool:
        """Whether no character is in both, as far as that is easily said."""
        if self.categories or other.categories:
            return False
        mine, others = (inverted(chars.ranges) if chars.negated else chars.ranges for chars in (self, other))
        return not any(low <= high2 and low2 <= high for low, high in mine for low2, high2 in others)

    def python(self) -> str:
        if not self.ranges:
            return r"(?s:.)" if self.negated else r"(?!)"
        inside = "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in self.ranges)
        return f"[{'^' * self.negated}{inside}]"

    def cost(self, length: int) -> tuple[float, float]:
        return 1, 1

    def states(self, automaton: Automaton, following: int) -> int:
        return automaton.add(self, following)


class Sequence:
    """One node after the other."""

    def __init__(self, items: list[Item]) -> None:
        self.items = items

    def python(self) -> str:
        return "".join(item.python() for item in self.items)

    def cost(self, length: int) -> tuple[float, float]:
        ways, steps = 1.0, 0.0
        for index, item in enumerate(self.items):
            item_ways, item_steps = item.cost(length)
            steps += ways * item_steps
            if isinstance(item, Repeat) and isinstance(item.body, CharacterSet):
                first = _first(Sequence(self.items[index + 1 :]))
                if first is not None and item.body.excludes(first):
                    steps += ways * item_ways  # each end of the repetition is tried, but only the last can go on
                    item_ways = 1
            ways *= item_ways
        return ways, steps

    def states(self, automaton: Automaton, following: int) -> int:
        for item in reversed(self.items):
            following = item.states(automaton, following)
        return following


class Choice:
    """One of several."""

    def __init__(self, items: list[Item]) -> None:
        self.items = items

    def python(self) -> str:
        return "(?:" + "|".join(item.python() for item in self.items) + ")"

    def cost(self, length: int) -> tuple[float, float]:
        costs = [item.cost(length) for item in self.items]
        return sum(ways for ways, _ in costs), sum(steps for _, steps in costs) + 1

    def states(self, automaton: Automaton, following: int) -> int:
        return automaton.add(None, *[item.states(automaton, following) for item in self.items])


class Group:
    """Parentheses that remember what they matched."""

    def __init__(self, body: Item) -> None:
        self.body = body

    def python(self) -> str:
        return f"({self.body.python()})"

    def cost(self, length: int) -> tuple[float, float]:
        return self.body.cost(length)

    def states(self, automaton: Automaton, following: int) -> int:
        return self.body.states(automaton, following)


class Repeat:
    """A node several times; most is None where there is no end."""

    def __init__(self, body: Item, least: int, most: int | None) -> None:
        self.body, self.least, self.most = body, least, most

    def python(self) -> str:
        return f"(?:{self.body.python()}){{{self.least},{'' if self.most is None else self.most}}}"

    def cost(self, length: int) -> tuple[float, float]:
        ways, steps = self.body.cost(length)
        times = length + 1 if self.most is None else self.most
        if isinstance(self.body, CharacterSet):
            times = min(times, length + 1)
        if ways <= 1:
            return max(times - self.least, 0) + 1, times * steps + 1
        # Each round multiplies: 2 ** 40 ways are as good as endless ones.
        if self.most is None or self.most > 40 or ways > 2**40 or ways**self.most > 2**40:
            return inf, inf
        ways_of = [ways**times for times in range(self.most + 1)]
        return sum(ways_of[self.least :]), steps * sum(ways_of)

    def states(self, automaton: Automaton, following: int) -> int:
        if self.most is None:
            loop = automaton.add(None)
            automaton.moves[loop] = [self.body.states(automaton, loop), following]
            following = loop
        else:
            end = following
            for _ in range(self.most - self.least):
                following = automaton.add(None, self.body.states(automaton, following), end)
        for _ in range(self.least):
            following = self.body.states(automaton, following)
        return following


class Boundary:
    """`^`, `$`, `\\b` or `\\B`: a place between characters."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def python(self) -> str:
        # `re` before Python 3.14 says that an empty text has neither a \b nor a \B
        return {"^": r"\A", "$": r"\Z", r"\B": r"(?!\b)"}.get(self.kind, self.kind)

    def cost(self, length: int) -> tuple[float, float]:
        return 1, 1

    def states(self, automaton: Automaton, following: int) -> int:
        return automaton.add(self, following)

    def holds(self, before: str, after: str) -> bool:
        """Whether it is between these two characters, of which one is empty where the text begins or ends."""
        if self.kind == "^":
            return not before
        if self.kind == "$":
            return not after
        return (is_word(before) != is_word(after)) == (self.kind == r"\b")


class NonRegular:
    """Lookaround, which is tried in one way or not at all, or a backreference."""

    def __init__(self, opening: str, body: Item | None = None) -> None:
        self.opening, self.body = opening, body

    def python(self) -> str:
        return f"({self.opening}{self.body.python()})" if self.body is not None else f"(?:{self.opening})"

    def cost(self, length: int) -> tuple[float, float]:
        return (1, self.body.cost(length)[1] + 1) if self.body is not None else (1, length + 1)

    def states(self, automaton: Automaton, following: int) -> int:
        raise AssertionError("there is no automaton for this")


if TYPE_CHECKING:
    Item: TypeAlias = "CharacterSet | Sequence | Choice | Group | Repeat | Boundary | NonRegular"


def _first(item: Item | None) -> CharacterSet | None:
    """The characters that a node must begin with, where that is easily said."""
    if isinstance(item, Repeat) and item.least > 0:
        return _first(item.body)
    if isinstance(item, Group):
        return _first(item.body)
    if isinstance(item, Sequence) and item.items:
        return _first(item.items[0])
    return item if isinstance(item, CharacterSet) else None


# ------------------------------------------------------------------------------------------- the automaton


class State:
    """A set of the automaton's states, after a character of a certain kind. moves: what each character leads to."""

    __slots__ = ("before", "members", "moves")

    def __init__(self, members: frozenset[int], before: str) -> None:
        self.members, self.before = members, before
        self.moves: dict[str, State | None] = {}  # None: it has matched


class Automaton:
    """What Thompson made of a regular expression; state 0 is a match.

    conditions: what it takes to leave a state: a character of a set, which is consumed, an edge, or nothing (None).
    moves: where it goes from there.
    """

    def __init__(self, root: Item) -> None:
        self.conditions: list[CharacterSet | Boundary | None] = [None]
        self.moves: list[list[int]] = [[]]
        self._start = root.states(self, 0)
        self._first = State(frozenset([self._start]), "")
        self._states: dict[tuple[frozenset[int], str], State] = {}
        self._remembered = 0

    def add(self, condition: CharacterSet | Boundary | None, *following: int) -> int:
        """A new state."""
        if len(self.moves) >= STATES:
            raise PatternError("it is too large")
        self.conditions.append(condition)
        self.moves.append(list(following))
        return len(self.moves) - 1

    def search(self, text: str, budget: Budget) -> bool:
        """Whether the pattern matches anywhere: a new beginning joins the set of states at every character."""
        budget.spend(len(text) // 4)
        state = self._first
        for char in text:
            try:
                following = state.moves[char]
            except KeyError:
                following = self._move(state, char, budget)
            if following is None:
                return True
            state = following
        return 0 in self._reached(state, "", budget)

    def _move(self, state: State, char: str, budget: Budget) -> State | None:
        reached = self._reached(state, char, budget)
        following = None
        if 0 not in reached:
            members = {self._start}
            for index in reached:
                condition = self.conditions[index]
                if isinstance(condition, CharacterSet) and condition.has(char):
                    members.update(self.moves[index])
            key = frozenset(members), "a" if is_word(char) else " "  # all that an edge asks of what is before it
            if self._remembered > MOVES:
                self._states.clear()
                self._first, self._remembered = State(frozenset([self._start]), ""), 0
            following = self._states.setdefault(key, State(*key))
        state.moves[char] = following
        self._remembered += 1
        return following

    def _reached(self, state: State, after: str, budget: Budget) -> set[int]:
        """All states that are reached without consuming a character, given the character that comes."""
        reached, ahead = set(state.members), list(state.members)
        while ahead:
            index = ahead.pop()
            condition = self.conditions[index]
            if condition is None or (isinstance(condition, Boundary) and condition.holds(state.before, after)):
                new = [following for following in self.moves[index] if following not in reached]
                reached.update(new)
                ahead += new
        budget.spend(len(reached) * 2)
        return reached


def inverted(ranges: Ranges) -> Ranges:
    """All other code points."""
    found, next_low = [], 0
    for low, high in sorted(ranges):
        if low > next_low:
            found.append((next_low, low - 1))
        next_low = max(next_low, high + 1)
    return [*found, (next_low, LAST)] if next_low <= LAST else found


def is_word(char: str) -> bool:
    """ECMA-262 22.2.2.9.3: what `\\w` matches; False for no character."""
    return char.isascii() and (char.isalnum() or char == "_")
