"""Regular expressions as trees, and the automaton that is made from a tree.

Each kind of node has three methods (patterns.py chooses between `re` and the automaton by the cost):

- `to_re` returns the node in the syntax of Python's `re`.
- `cost` returns two bounds for a backtracking matcher on a text of a given length: the number of ways in which the node
  can match from one position, and the number of steps that trying all of them takes.
- `add_to` adds the node to an automaton. An automaton is in several states at once instead of trying one after the
  other, so its time is linear in the length of the text.
"""

from __future__ import annotations

from math import inf

from .limits import Budget

Ranges = list[tuple[int, int]]
"""Code points, as the first and last of each range."""
LAST_CODE = 0x10FFFF  # the last code point of Unicode
MAX_STATES = 4_000
"""Maximum number of states of an automaton. `(a{100}){100}` would need more."""
MAX_TRANSITIONS = 20_000
"""Maximum number of transitions that an automaton remembers. At the limit, it forgets all of them."""


class PatternError(ValueError):
    """A regular expression that is malformed, that uses an unsupported feature, or that could take too long."""


class CharacterSet:
    """One character of a set: ranges of code points, general categories (`\\p{Lu}`), or the complement of both."""

    def __init__(self, ranges: Ranges, categories: list[tuple[bool, tuple[str, ...]]], negated: bool = False) -> None:
        self.ranges, self.categories, self.negated = ranges, categories, negated

    @property
    def is_single(self) -> bool:
        """True if the set has exactly one character."""
        return not self.categories and len(self.ranges) == 1 and self.ranges[0][0] == self.ranges[0][1]

    def has(self, char: str) -> bool:
        """Return True if a character is in the set."""
        code = ord(char)
        found = any(low <= code <= high for low, high in self.ranges)
        if not found and self.categories:
            from unicodedata import category  # lazy: a large extension module that only `\\p{…}` needs

            found = any(category(char).startswith(names) != negated for negated, names in self.categories)
        return found != self.negated

    def excludes(self, other: CharacterSet) -> bool:
        """Return True if the two sets are known to have no character in common."""
        if self.categories or other.categories:
            return False
        mine, others = (invert(chars.ranges) if chars.negated else chars.ranges for chars in (self, other))
        return not any(low <= high2 and low2 <= high for low, high in mine for low2, high2 in others)

    def to_re(self) -> str:
        if not self.ranges:
            return r"(?s:.)" if self.negated else r"(?!)"
        inside = "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in self.ranges)
        return f"[{'^' * self.negated}{inside}]"

    def cost(self, length: int) -> tuple[float, float]:
        return 1, 1

    def add_to(self, automaton: Automaton, following: int) -> int:
        return automaton.add(self, following)


class Sequence:
    """Several nodes, one after the other. If `captures` is True, a backreference can refer to their match."""

    def __init__(self, items: list[Node], *, captures: bool = False) -> None:
        self.items, self.captures = items, captures

    def to_re(self) -> str:
        inside = "".join(item.to_re() for item in self.items)
        return f"({inside})" if self.captures else inside

    def cost(self, length: int) -> tuple[float, float]:
        ways, steps = 1.0, 0.0
        for index, item in enumerate(self.items):
            item_ways, item_steps = item.cost(length)
            steps += ways * item_steps
            if isinstance(item, Repeat) and isinstance(item.body, CharacterSet):
                first = _first_characters(Sequence(self.items[index + 1 :]))
                if first is not None and item.body.excludes(first):
                    steps += ways * item_ways  # all ends of the repetition are tried, but only the last can continue
                    item_ways = 1
            ways *= item_ways
        return ways, steps

    def add_to(self, automaton: Automaton, following: int) -> int:
        for item in reversed(self.items):
            following = item.add_to(automaton, following)
        return following


class Choice:
    """One of several nodes."""

    def __init__(self, items: list[Node]) -> None:
        self.items = items

    def to_re(self) -> str:
        return "(?:" + "|".join(item.to_re() for item in self.items) + ")"

    def cost(self, length: int) -> tuple[float, float]:
        costs = [item.cost(length) for item in self.items]
        return sum(ways for ways, _ in costs), sum(steps for _, steps in costs) + 1

    def add_to(self, automaton: Automaton, following: int) -> int:
        return automaton.add(None, *[item.add_to(automaton, following) for item in self.items])


class Repeat:
    """A node, repeated from `least` to `most` times (None: without an upper bound)."""

    def __init__(self, body: Node, least: int, most: int | None) -> None:
        self.body, self.least, self.most = body, least, most

    def to_re(self) -> str:
        return f"(?:{self.body.to_re()}){{{self.least},{'' if self.most is None else self.most}}}"

    def cost(self, length: int) -> tuple[float, float]:
        ways, steps = self.body.cost(length)
        times = length + 1 if self.most is None else self.most
        if isinstance(self.body, CharacterSet):
            times = min(times, length + 1)
        if ways <= 1:
            return max(times - self.least, 0) + 1, times * steps + 1
        # Each repetition multiplies the ways. 2**40 of them would take as long as an infinite number.
        if self.most is None or self.most > 40 or ways > 2**40 or ways**self.most > 2**40:
            return inf, inf
        ways_of = [ways**times for times in range(self.most + 1)]
        return sum(ways_of[self.least :]), steps * sum(ways_of)

    def add_to(self, automaton: Automaton, following: int) -> int:
        if self.most is None:
            loop = automaton.add(None)
            automaton.targets[loop] = [self.body.add_to(automaton, loop), following]
            following = loop
        else:
            end = following
            for _ in range(self.most - self.least):
                following = automaton.add(None, self.body.add_to(automaton, following), end)
        for _ in range(self.least):
            following = self.body.add_to(automaton, following)
        return following


class Boundary:
    """A condition on a position between two characters: `^`, `$`, `\\b` or `\\B`."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def to_re(self) -> str:
        # Before Python 3.14, an empty text matches neither \b nor \B in `re`.
        return {"^": r"\A", "$": r"\Z", r"\B": r"(?!\b)"}.get(self.kind, self.kind)

    def cost(self, length: int) -> tuple[float, float]:
        return 1, 1

    def add_to(self, automaton: Automaton, following: int) -> int:
        return automaton.add(self, following)

    def holds(self, before: str, after: str) -> bool:
        """Return True if the condition holds between two characters. "" stands for the beginning or end of the text."""
        if self.kind in "^$":
            return not (before if self.kind == "^" else after)
        return (is_word(before) != is_word(after)) == (self.kind == r"\b")


class NonRegular:
    """A lookaround or a backreference, which no automaton can match. A lookaround matches in at most one way."""

    def __init__(self, prefix: str, body: Node | None = None) -> None:
        self.prefix, self.body = prefix, body

    def to_re(self) -> str:
        return f"({self.prefix}{self.body.to_re()})" if self.body is not None else f"(?:{self.prefix})"

    def cost(self, length: int) -> tuple[float, float]:
        return (1, self.body.cost(length)[1] + 1) if self.body is not None else (1, length + 1)

    def add_to(self, automaton: Automaton, following: int) -> int:
        raise AssertionError("a pattern with lookaround or backreferences has no automaton")


Node = CharacterSet | Sequence | Choice | Repeat | Boundary | NonRegular
"""A node of the tree."""


def _first_characters(item: Node) -> CharacterSet | None:
    """Return the characters that a match of a node must begin with, if they are known."""
    if isinstance(item, Repeat) and item.least > 0:
        return _first_characters(item.body)
    if isinstance(item, Sequence) and item.items:
        return _first_characters(item.items[0])
    return item if isinstance(item, CharacterSet) else None


class _StateSet:
    """The states that an automaton is in at one position, with the next set for each character that has followed."""

    __slots__ = ("before", "members", "transitions")

    def __init__(self, members: frozenset[int], before: str) -> None:
        self.members = members
        self.before = before  # the preceding character, or one of the same kind (a word character or not)
        self.transitions: dict[str, _StateSet | None] = {}  # None: the pattern has matched


class Automaton:
    """A nondeterministic automaton (Thompson's construction), run as a deterministic one that is built on demand.

    State 0 is the match. `conditions` has the condition for leaving each state: a character of a set (consumed), a
    boundary, or None (always). `targets` has the states that follow each state.
    """

    def __init__(self, root: Node) -> None:
        self.conditions: list[CharacterSet | Boundary | None] = [None]
        self.targets: list[list[int]] = [[]]
        self._start_state = root.add_to(self, 0)
        self._initial_states = _StateSet(frozenset([self._start_state]), "")
        self._sets: dict[tuple[frozenset[int], str], _StateSet] = {}
        self._transition_count = 0

    def add(self, condition: CharacterSet | Boundary | None, *following: int) -> int:
        """Add a state and return its number."""
        if len(self.targets) >= MAX_STATES:
            raise PatternError("it is too large")
        self.conditions.append(condition)
        self.targets.append(list(following))
        return len(self.targets) - 1

    def search(self, text: str, budget: Budget) -> bool:
        """Return True if the pattern matches anywhere in a text."""
        budget.spend(len(text) // 4)
        states = self._initial_states
        for char in text:
            try:
                following = states.transitions[char]
            except KeyError:
                following = self._next(states, char, budget)
            if following is None:
                return True
            states = following
        return 0 in self._reachable(states, "", budget)

    def _next(self, states: _StateSet, char: str, budget: Budget) -> _StateSet | None:
        """Compute and remember the transition for a character."""
        reachable = self._reachable(states, char, budget)
        following = None
        if 0 not in reachable:
            members = {self._start_state}  # a match may also begin after this character
            for state in reachable:
                condition = self.conditions[state]
                if isinstance(condition, CharacterSet) and condition.has(char):
                    members.update(self.targets[state])
            key = frozenset(members), "a" if is_word(char) else " "
            if self._transition_count > MAX_TRANSITIONS:
                self._sets.clear()
                self._initial_states, self._transition_count = _StateSet(frozenset([self._start_state]), ""), 0
            following = self._sets.setdefault(key, _StateSet(*key))
        states.transitions[char] = following
        self._transition_count += 1
        return following

    def _reachable(self, states: _StateSet, after: str, budget: Budget) -> set[int]:
        """Return all states that are reachable without consuming a character, given the character that follows."""
        reached, ahead = set(states.members), list(states.members)
        while ahead:
            state = ahead.pop()
            condition = self.conditions[state]
            if condition is None or (isinstance(condition, Boundary) and condition.holds(states.before, after)):
                new = [following for following in self.targets[state] if following not in reached]
                reached.update(new)
                ahead += new
        budget.spend(len(reached) * 2)
        return reached


def invert(ranges: Ranges) -> Ranges:
    """Return the ranges of all other code points."""
    found, next_low = [], 0
    for low, high in sorted(ranges):
        if low > next_low:
            found.append((next_low, low - 1))
        next_low = max(next_low, high + 1)
    return [*found, (next_low, LAST_CODE)] if next_low <= LAST_CODE else found


def is_word(char: str) -> bool:
    """Return True for a character that `\\w` matches (ECMA-262 22.2.2.9.3), and False for ""."""
    return char.isascii() and (char.isalnum() or char == "_")
