"""Regular expressions as JSON Schema means them, ECMA-262's, in a time that no pattern and no text can stretch.

Python's `re` differs from ECMA-262 (`\\d` is more than 0 to 9, `$` matches before a last newline, `\\p{…}` is unknown)
and it backtracks: some patterns, such as `^(a+)+$`, take it years over a text of fifty characters. So a pattern is
parsed here, into nodes that each can do three things:

- `python` writes the node for `re`;
- `cost` bounds the work of a backtracking matcher on a text of so many characters: in how many ways can the node match
  from one position, and in how many steps are all of these tried?
- `states` adds the node to an automaton, which is in several states at once instead of trying one after the other.
  Its time is linear in the text. The sets of states that it comes to are remembered, with what follows each on which
  character (a DFA, built lazily), so that it is also fast.

A text is matched by `re` where the bound says that this is cheap, and else by the automaton. Lookaround and
backreferences have no automaton, nor has what is too large, such as `.{9999}`: there `re` is given more time. Such a
pattern is refused when that does not suffice for 63 characters, and a text for which it does not suffice is invalid.

Spec:  Core 6.4; ECMA-262 22.2.1 (the Unicode grammar, and what browsers forgive of the older one: a lone `{` or `]`)
"""

from __future__ import annotations

import re
from math import inf

from .model import Exhausted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    from .model import Run

    Ranges: TypeAlias = "list[tuple[int, int]]"

CHEAP = 4_096
"""Steps of backtracking up to which `re` is used rather than the automaton: some tens of microseconds."""
DEAR = 1_000_000
"""Steps of backtracking up to which `re` is used where there is no automaton: some tens of milliseconds."""
STATES = 4_000
"""How many states an automaton may have. `(a{100}){100}` wants more."""
MOVES = 20_000
"""How many moves of the automaton are remembered, before it forgets them all and begins anew."""


class PatternError(ValueError):
    """No regular expression, one with a feature that is not supported, or one that could take too long."""


class Pattern:
    """A compiled pattern. Raises PatternError."""

    def __init__(self, source: str) -> None:
        self.source = source
        parser = _Parser(source)
        self._root = parser.parse()
        self._anchored = _is_anchored(self._root)
        self._speaks_python, self._has_automaton = not parser.has_property, parser.is_regular
        self._costs: dict[int, float] = {}  # by the number of bits of a text's length
        self._python: re.Pattern[str] | None = None
        self._automaton: Automaton | None = None
        if not self._speaks_python or self._cost(4) > CHEAP:
            self._make_automaton()
        if not self._has_automaton:
            self._make_python()
            if self._cost(6) > DEAR:
                raise PatternError("it could take too long: it backtracks, and is too large or has lookaround")

    def search(self, text: str, run: Run) -> bool:
        """Whether the pattern matches anywhere in a text. Raises Exhausted when the run cannot pay for it."""
        bits = len(text).bit_length()
        cost = self._costs.get(bits) or self._cost(bits)
        if cost > CHEAP or not self._speaks_python:
            automaton = self._automaton or self._make_automaton()
            if automaton is not None:
                return automaton.search(text, run)
            if cost > DEAR or not self._speaks_python:
                raise Exhausted(f"a text of {len(text)} characters is too long for the pattern {self.source}")
        run.spend(int(cost) // 64)
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


# ---------------------------------------------------------------------------------------------- the nodes


class Chars:
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
            from unicodedata import category  # a large module, rarely needed

            found = any(category(char).startswith(names) != negated for negated, names in self.categories)
        return found != self.negated

    def excludes(self, other: Chars) -> bool:
        """Whether no character is in both, as far as that is easily said."""
        if self.categories or other.categories:
            return False
        mine, others = (_inverted(chars.ranges) if chars.negated else chars.ranges for chars in (self, other))
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
            if isinstance(item, Repeat) and isinstance(item.body, Chars):
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
        if isinstance(self.body, Chars):
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


class Edge:
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
        return (_is_word(before) != _is_word(after)) == (self.kind == r"\b")


class Irregular:
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
    Item: TypeAlias = "Chars | Sequence | Choice | Group | Repeat | Edge | Irregular"


def _first(item: Item | None) -> Chars | None:
    """The characters that a node must begin with, where that is easily said."""
    if isinstance(item, Repeat) and item.least > 0:
        return _first(item.body)
    if isinstance(item, Group):
        return _first(item.body)
    if isinstance(item, Sequence) and item.items:
        return _first(item.items[0])
    return item if isinstance(item, Chars) else None


def _is_anchored(item: Item) -> bool:
    """Whether a node can only match at the beginning of a text."""
    if isinstance(item, Sequence):
        return bool(item.items) and _is_anchored(item.items[0])
    if isinstance(item, Choice):
        return all(map(_is_anchored, item.items))
    if isinstance(item, Group):
        return _is_anchored(item.body)
    return isinstance(item, Edge) and item.kind == "^"


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
        self.conditions: list[Chars | Edge | None] = [None]
        self.moves: list[list[int]] = [[]]
        self._start = root.states(self, 0)
        self._first = State(frozenset([self._start]), "")
        self._states: dict[tuple[frozenset[int], str], State] = {}
        self._remembered = 0

    def add(self, condition: Chars | Edge | None, *following: int) -> int:
        """A new state."""
        if len(self.moves) >= STATES:
            raise PatternError("it is too large")
        self.conditions.append(condition)
        self.moves.append(list(following))
        return len(self.moves) - 1

    def search(self, text: str, run: Run) -> bool:
        """Whether the pattern matches anywhere: a new beginning joins the set of states at every character."""
        run.spend(len(text) // 4)
        state = self._first
        for char in text:
            try:
                following = state.moves[char]
            except KeyError:
                following = self._move(state, char, run)
            if following is None:
                return True
            state = following
        return 0 in self._reached(state, "", run)

    def _move(self, state: State, char: str, run: Run) -> State | None:
        reached = self._reached(state, char, run)
        following = None
        if 0 not in reached:
            members = {self._start}
            for index in reached:
                condition = self.conditions[index]
                if isinstance(condition, Chars) and condition.has(char):
                    members.update(self.moves[index])
            key = frozenset(members), "a" if _is_word(char) else " "  # all that an edge asks of what is before it
            if self._remembered > MOVES:
                self._states.clear()
                self._first, self._remembered = State(frozenset([self._start]), ""), 0
            following = self._states.setdefault(key, State(*key))
        state.moves[char] = following
        self._remembered += 1
        return following

    def _reached(self, state: State, after: str, run: Run) -> set[int]:
        """All states that are reached without consuming a character, given the character that comes."""
        reached, ahead = set(state.members), list(state.members)
        while ahead:
            index = ahead.pop()
            condition = self.conditions[index]
            if condition is None or (isinstance(condition, Edge) and condition.holds(state.before, after)):
                new = [following for following in self.moves[index] if following not in reached]
                reached.update(new)
                ahead += new
        run.spend(len(reached) * 2)
        return reached


# ---------------------------------------------------------------------------------------------- the parser

_LAST = 0x10FFFF
_DIGIT: Ranges = [(0x30, 0x39)]
_WORD: Ranges = [(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)]
_SPACE: Ranges = [
    *[(0x09, 0x0D), (0x20, 0x20), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A), (0x2028, 0x2029)],
    *[(0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000), (0xFEFF, 0xFEFF)],
]
_NEWLINE: Ranges = [(0x0A, 0x0A), (0x0D, 0x0D), (0x2028, 0x2029)]
_CONTROLS = {"t": 0x09, "n": 0x0A, "v": 0x0B, "f": 0x0C, "r": 0x0D}
_NAMES_OF_CATEGORIES = """
    Letter=L Cased_Letter=LC Uppercase_Letter=Lu Lowercase_Letter=Ll Titlecase_Letter=Lt Modifier_Letter=Lm
    Other_Letter=Lo Mark=M Nonspacing_Mark=Mn Spacing_Mark=Mc Enclosing_Mark=Me Number=N Decimal_Number=Nd digit=Nd
    Letter_Number=Nl Other_Number=No Punctuation=P punct=P Connector_Punctuation=Pc Dash_Punctuation=Pd
    Open_Punctuation=Ps Close_Punctuation=Pe Initial_Punctuation=Pi Final_Punctuation=Pf Other_Punctuation=Po
    Symbol=S Math_Symbol=Sm Currency_Symbol=Sc Modifier_Symbol=Sk Other_Symbol=So Separator=Z Space_Separator=Zs
    Line_Separator=Zl Paragraph_Separator=Zp Other=C Control=Cc Format=Cf Surrogate=Cs Private_Use=Co Unassigned=Cn
"""
_CATEGORIES = dict(pair.split("=") for pair in _NAMES_OF_CATEGORIES.split())
"""General categories, long name to short; scripts and other properties are not supported."""


def _inverted(ranges: Ranges) -> Ranges:
    found, next_low = [], 0
    for low, high in sorted(ranges):
        if low > next_low:
            found.append((next_low, low - 1))
        next_low = max(next_low, high + 1)
    return [*found, (next_low, _LAST)] if next_low <= _LAST else found


def _is_word(char: str) -> bool:
    return char.isascii() and (char.isalnum() or char == "_")


class _Parser:
    """Recursive descent, with the grammar's own names."""

    def __init__(self, source: str) -> None:
        self.source, self.at = source, 0
        self.is_regular, self.has_property = True, False
        self._names: list[str | None] = []  # of the groups seen so far

    def parse(self) -> Item:
        node = self._disjunction()
        if self.at < len(self.source):
            raise self._error("there is no ( for this )")
        return node

    def _error(self, why: str) -> PatternError:
        return PatternError(f"{why}, at {self.at}")

    def _peek(self, text: str) -> bool:
        return self.source.startswith(text, self.at)

    def _take(self, text: str) -> bool:
        found = self._peek(text)
        self.at += len(text) * found
        return found

    def _next(self) -> str:
        if self.at >= len(self.source):
            raise self._error("it ends too early")
        self.at += 1
        return self.source[self.at - 1]

    def _matched(self, expression: str) -> re.Match[str] | None:
        found = re.compile(expression, re.ASCII).match(self.source, self.at)
        self.at = found.end() if found else self.at
        return found

    def _disjunction(self) -> Item:
        choices = [self._alternative()]
        while self._take("|"):
            choices.append(self._alternative())
        return choices[0] if len(choices) == 1 else Choice(choices)

    def _alternative(self) -> Item:
        items: list[Item] = []
        while self.at < len(self.source) and not self._peek("|") and not self._peek(")"):
            items.append(self._term())
        return items[0] if len(items) == 1 else Sequence(items)

    def _term(self) -> Item:
        for kind in ("^", "$", r"\b", r"\B"):
            if self._take(kind):
                return Edge(kind)
        for opening in ("?=", "?!", "?<=", "?<!"):
            if self._take(f"({opening}"):
                self.is_regular = False
                return Irregular(opening, self._closed(self._disjunction()))
        return self._quantified(self._atom())

    def _quantified(self, atom: Item) -> Item:
        found = self._matched(r"([*+?]|\{(\d+)(,(\d*))?\})\??")  # lazy or greedy: it matches either way, or neither
        if found is None:
            return atom
        if found[2] is None:
            least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}[found[1]]
        else:
            least, most = int(found[2]), int(found[2]) if found[3] is None else int(found[4]) if found[4] else None
        if most is not None and most < least:
            raise self._error("the numbers are out of order")
        if max(least, most or 0) > 65_535:
            raise self._error("the number is too large")
        if self._matched(r"[*+?]|\{\d+(,\d*)?\}"):
            raise self._error("nothing to repeat")
        return Repeat(atom, least, most)

    def _closed(self, body: Item) -> Item:
        if not self._take(")"):
            raise self._error("a ) is missing")
        return body

    def _atom(self) -> Item:
        if self._take("(?:"):
            return Sequence([self._closed(self._disjunction())])
        if self._peek("("):
            named = self._matched(r"\(\?<([A-Za-z_$][\w$]*)>")
            if named is None and (self._peek("(?") or not self._take("(")):
                raise self._error("an unknown kind of group")
            self._names.append(named[1] if named else None)
            return Group(self._closed(self._disjunction()))
        if self._take("."):
            return Chars(_NEWLINE, [], negated=True)
        if self._take("["):
            return self._class()
        if self._peek("\\"):
            reference = self._matched(r"\\(?:([1-9]\d*)|k<([^>]*)>)")
            if reference is None:
                self.at += 1
                return self._escape()
            self.is_regular = False
            if reference[2] is not None and reference[2] not in self._names:
                raise self._error("there is no such group before")
            number = int(reference[1] or 0) or self._names.index(reference[2]) + 1
            return Irregular(f"\\{number}")
        if self.source[self.at] in "*+?" or self._matched(r"\{\d+(,\d*)?\}"):
            raise self._error("nothing to repeat")
        return _one(ord(self._next()))

    def _escape(self, in_class: bool = False) -> Chars:
        """What follows a backslash: a character, or a set of them."""
        char = self._next()
        ranges = {"d": _DIGIT, "w": _WORD, "s": _SPACE}.get(char.lower())
        if ranges is not None:
            return Chars(_inverted(ranges) if char.isupper() else ranges, [])
        if char in "pP":
            return self._property(char == "P")
        if char in _CONTROLS:
            return _one(_CONTROLS[char])
        if char == "b" and in_class:
            return _one(8)
        if char == "0" and not self._matched(r"(?=\d)"):
            return _one(0)
        if char == "c" and (found := self._matched("[A-Za-z]")):
            return _one(ord(found[0]) % 32)
        if char == "x" and (found := self._matched("[0-9a-fA-F]{2}")):
            return _one(int(found[0], 16))
        if char == "u":
            if found := self._matched(r"([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})"):
                return _one(0x10000 + ((int(found[1], 16) & 0x3FF) << 10) + (int(found[2], 16) & 0x3FF))
            if (found := self._matched(r"([0-9a-fA-F]{4})|\{0*([0-9a-fA-F]{1,6})\}")) and (
                int(found[1] or found[2], 16) <= _LAST
            ):
                return _one(int(found[1] or found[2], 16))
        if char.isascii() and char.isalnum():
            raise self._error(f"\\{char} means nothing")
        return _one(ord(char))

    def _property(self, negated: bool) -> Chars:
        found = self._matched(r"\{(?:(?:General_Category|gc)=)?(\w+)\}")
        name = found[1] if found else ""
        if name in ("Any", "ASCII"):
            ranges = [(0, _LAST if name == "Any" else 0x7F)]
            return Chars(_inverted(ranges) if negated else ranges, [])
        short = _CATEGORIES.get(name, name)
        if short not in _CATEGORIES.values():
            raise self._error("an unknown property of characters")
        self.has_property = True
        return Chars([], [(negated, ("Lu", "Ll", "Lt") if short == "LC" else (short,))])

    def _class(self) -> Chars:
        negated = self._take("^")
        parts: list[Chars] = []
        while not self._take("]"):
            part = self._class_atom()
            if self._peek("-") and not self._peek("-]"):
                self.at += 1
                end = self._class_atom()
                if part.is_single and end.is_single:
                    if part.ranges[0][0] > end.ranges[0][0]:
                        raise self._error("the range is out of order")
                    part = Chars([(part.ranges[0][0], end.ranges[0][0])], [])
                else:
                    parts += [_one(ord("-")), end]  # [\w-.]: a forgiven hyphen
            parts.append(part)
        ranges = sorted(each for part in parts for each in part.ranges)
        return Chars(ranges, [each for part in parts for each in part.categories], negated)

    def _class_atom(self) -> Chars:
        char = self._next()
        return self._escape(in_class=True) if char == "\\" else _one(ord(char))


def _one(code: int) -> Chars:
    return Chars([(code, code)], [])
