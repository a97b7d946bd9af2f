"""The tree of a regular expression, and the automaton that searches a text for a match.

Each class of nodes has three methods:

- `to_re` returns the node in the syntax of Python's `re`.
- `cost` returns two maximums for a text of `length` characters: the number of ways in which the node can match from
  one position, and the number of steps that a backtracking matcher, such as `re`, can need.
- `add_to` adds the node to an automaton, before the state `following`, and returns the number of its first state.

Because an automaton tries all ways at the same time, its time is linear in the length of the text.
"""

from __future__ import annotations

from math import inf, log2
from sys import maxunicode

from .limits import Budget

Ranges = list[tuple[int, int]]
"""Ranges of code points. Each has the first and the last code point of the range."""
MAX_STATES = 4_000
"""Maximum number of states of an automaton. `(a{100}){100}` would need more."""
MAX_TRANSITIONS = 20_000
"""Maximum number of transitions that an automaton stores. An automaton at this limit deletes its transitions."""


class PatternError(ValueError):
    """The error for a regular expression that is malformed or not supported, or whose matching could take too long."""


class CharacterSet:
    """A node that matches one character in its ranges and categories, or, if `negated`, one character outside them."""

    # A category is a pair: True if it is negated (`\P{Lu}`), and its names in Unicode (`Lu`).

    def __init__(self, ranges: Ranges, categories: list[tuple[bool, tuple[str, ...]]], negated: bool = False) -> None:
        self.ranges, self.categories, self.negated = ranges, categories, negated

    @property
    def is_single(self) -> bool:
        """True if the ranges contain exactly one character, and the set has no categories."""
        return not self.categories and len(self.ranges) == 1 and self.ranges[0][0] == self.ranges[0][1]

    def has(self, char: str) -> bool:
        code = ord(char)
        found = any(low <= code <= high for low, high in self.ranges)
        if not found and self.categories:
            from unicodedata import category  # lazy: a large extension module that only `\\p{…}` needs

            found = any(category(char).startswith(names) != negated for negated, names in self.categories)
        return found != self.negated

    def excludes(self, other: CharacterSet) -> bool:
        """Return True if the two sets have no common character. Return False if a set has categories."""
        if self.categories or other.categories:
            return False
        ranges, other_ranges = self._included(), other._included()
        return not any(low <= high2 and low2 <= high for low, high in ranges for low2, high2 in other_ranges)

    def _included(self) -> Ranges:
        return invert(self.ranges) if self.negated else self.ranges

    def to_re(self) -> str:  # without the categories, because a pattern with them always gets an automaton
        if not self.ranges:
            return r"(?s:.)" if self.negated else r"(?!)"
        inside = "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in self.ranges)
        return f"[^{inside}]" if self.negated else f"[{inside}]"

    def cost(self, length: int) -> tuple[float, float]:
        return 1, 1

    def add_to(self, automaton: Automaton, following: int) -> int:
        return automaton.add(self, following)


class Sequence:
    """Several nodes that match one after the other. `captures` is True for a group that backreferences can name."""

    def __init__(self, items: list[Node], *, captures: bool = False) -> None:
        self.items, self.captures = items, captures

    def to_re(self) -> str:
        inside = "".join(item.to_re() for item in self.items)
        return f"({inside})" if self.captures else inside

    def cost(self, length: int) -> tuple[float, float]:
        ways, steps = 1.0, 0.0  # of the items so far
        for index, item in enumerate(self.items):
            item_ways, item_steps = item.cost(length)
            steps += ways * item_steps  # a backtracking matcher tries the item after each way of the items before it
            if isinstance(item, Repeat) and isinstance(item.body, CharacterSet):
                # In `[a-z]*1`, the matcher tries all lengths of `[a-z]*`, one step each, but only the longest lets it
                # go on to the next item.
                following = _first_characters(Sequence(self.items[index + 1 :]))
                if following is not None and item.body.excludes(following):
                    steps += ways * item_ways
                    item_ways = 1
            ways *= item_ways
        return ways, steps

    def add_to(self, automaton: Automaton, following: int) -> int:
        for item in reversed(self.items):
            following = item.add_to(automaton, following)
        return following


class Choice:
    """Several nodes, of which one has to match."""

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
    """A node that repeats its body `least` to `most` times. Without `most`, the number has no maximum."""

    def __init__(self, body: Node, least: int, most: int | None) -> None:
        self.body, self.least, self.most = body, least, most

    def to_re(self) -> str:
        most = "" if self.most is None else self.most
        return f"(?:{self.body.to_re()}){{{self.least},{most}}}"

    def cost(self, length: int) -> tuple[float, float]:
        ways, steps = self.body.cost(length)
        times = length + 1 if self.most is None else self.most
        if isinstance(self.body, CharacterSet):
            times = min(times, length + 1)  # each repetition takes one character of the text
        if ways <= 1:  # one way for each number of repetitions
            return max(times - self.least, 0) + 1, times * steps + 1
        # Each repetition multiplies the ways. More than 2**40 ways would take too long, so the cost is infinite.
        if self.most is None or self.most * log2(ways) > 40:
            return inf, inf
        ways_by_times = [ways**times for times in range(self.most + 1)]  # the ways to match a number of repetitions
        return sum(ways_by_times[self.least :]), steps * sum(ways_by_times)  # the body is tried again after each way

    def add_to(self, automaton: Automaton, following: int) -> int:
        if self.most is None:
            loop = automaton.add(None)  # the state before each repetition, which leads into the body or past it
            automaton.targets[loop] = [self.body.add_to(automaton, loop), following]
            following = loop
        else:
            end = following
            for _ in range(self.most - self.least):  # the optional repetitions, the last one first
                following = automaton.add(None, self.body.add_to(automaton, following), end)
        for _ in range(self.least):
            following = self.body.add_to(automaton, following)
        return following


class Boundary:
    """A node that matches a position between two characters: `^`, `$`, `\\b` or `\\B`."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def to_re(self) -> str:
        # Before Python 3.14, \B does not match an empty text in `re`, but (?!\b) does.
        return {"^": r"\A", "$": r"\Z", r"\b": r"\b", r"\B": r"(?!\b)"}[self.kind]

    def cost(self, length: int) -> tuple[float, float]:
        return 1, 1

    def add_to(self, automaton: Automaton, following: int) -> int:
        return automaton.add(self, following)

    def holds(self, before: str, after: str) -> bool:
        """Return True if the node matches between two characters. "" stands for the beginning or end of the text."""
        if self.kind == "^":
            return not before
        if self.kind == "$":
            return not after
        is_edge_of_word = is_word(before) != is_word(after)
        return is_edge_of_word if self.kind == r"\b" else not is_edge_of_word


class NonRegular:
    """A lookaround such as `(?=a)` with the prefix `?=`, or a backreference such as `\\1`, a prefix without a body."""

    def __init__(self, prefix: str, body: Node | None = None) -> None:
        self.prefix, self.body = prefix, body

    def to_re(self) -> str:
        return f"({self.prefix}{self.body.to_re()})" if self.body is not None else f"(?:{self.prefix})"

    def cost(self, length: int) -> tuple[float, float]:
        if self.body is None:
            return 1, length + 1
        _, steps = self.body.cost(length)
        return 1, steps + 1

    def add_to(self, automaton: Automaton, following: int) -> int:
        raise AssertionError("a pattern with lookaround or backreferences has no automaton")


Node = CharacterSet | Sequence | Choice | Repeat | Boundary | NonRegular
"""A node of the tree."""


def _first_characters(item: Node) -> CharacterSet | None:
    """Return the set of characters that can begin a match of the node, or None if the set is unknown."""
    if isinstance(item, Repeat) and item.least > 0:
        return _first_characters(item.body)
    if isinstance(item, Sequence) and item.items:
        return _first_characters(item.items[0])
    return item if isinstance(item, CharacterSet) else None


class _StateSet:
    """The states that an automaton is in at one position of a text, with the transitions that were computed so far."""

    __slots__ = ("before", "members", "transitions")

    def __init__(self, members: frozenset[int], before: str) -> None:
        self.members = members
        # Boundaries need to know whether the character before the position belongs to a word, so this is "a" for such a
        # character, " " for any other, and "" at the beginning of the text.
        self.before = before
        self.transitions: dict[str, _StateSet | None] = {}  # by the next character; None: the pattern has matched


class Automaton:
    """A nondeterministic automaton (Thompson's construction). A search follows all its states at the same time.

    If the automaton reaches state 0, the pattern has matched. For each state, `conditions` contains the node that must
    match before the automaton leaves the state, or None. `targets` contains the states that follow.
    """

    def __init__(self, root: Node) -> None:
        self.conditions: list[CharacterSet | Boundary | None] = [None]
        self.targets: list[list[int]] = [[]]
        self._start_state = root.add_to(self, 0)
        self._initial_states = _StateSet(frozenset([self._start_state]), "")
        self._sets: dict[tuple[frozenset[int], str], _StateSet] = {}  # by `members` and `before`, to reuse equal sets
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
        budget.spend(len(text) // 4)  # one step for four characters, because a stored transition is one lookup
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
        """Compute and store the states after a character, or None if the pattern has matched before it."""
        reachable = self._reachable(states, char, budget)
        following = None if 0 in reachable else self._after(reachable, char)
        states.transitions[char] = following
        self._transition_count += 1
        return following

    def _after(self, reachable: set[int], char: str) -> _StateSet:
        """Return the states after the automaton has consumed a character in one of the reachable states."""
        members = {self._start_state}  # a match can also begin after this character
        for state in reachable:
            condition = self.conditions[state]
            if isinstance(condition, CharacterSet) and condition.has(char):
                members.update(self.targets[state])
        if self._transition_count > MAX_TRANSITIONS:  # forget all transitions, to free their memory
            self._sets.clear()
            self._initial_states = _StateSet(frozenset([self._start_state]), "")
            self._transition_count = 0
        new = _StateSet(frozenset(members), "a" if is_word(char) else " ")
        return self._sets.setdefault((new.members, new.before), new)

    def _reachable(self, states: _StateSet, after: str, budget: Budget) -> set[int]:
        """Return the states, and all states that the automaton can reach before it consumes the character `after`."""
        reached = set(states.members)
        unvisited = list(states.members)
        while unvisited:
            state = unvisited.pop()
            condition = self.conditions[state]
            if condition is None or (isinstance(condition, Boundary) and condition.holds(states.before, after)):
                new = [following for following in self.targets[state] if following not in reached]
                reached.update(new)
                unvisited += new
        budget.spend(30 + len(reached) * 4)  # about the time of this search, in steps
        return reached


def invert(ranges: Ranges) -> Ranges:
    """Return the ranges of all code points that are not in these ranges."""
    gaps: Ranges = []
    next_low = 0  # the first code point above all ranges so far
    for low, high in sorted(ranges):
        if low > next_low:
            gaps.append((next_low, low - 1))
        next_low = max(next_low, high + 1)
    if next_low <= maxunicode:
        gaps.append((next_low, maxunicode))
    return gaps


def is_word(char: str) -> bool:
    """Return True for a character that `\\w` matches (ECMA-262 22.2.2.9.3), and False for ""."""
    return char.isascii() and (char.isalnum() or char == "_")
