"""A parser of regular expressions in the syntax of ECMA-262 (JavaScript), which JSON Schema recommends.

`Parser(source).parse()` returns the tree of the expression, whose nodes are in expressions.py. The grammar is that of
patterns with the flag `u` (Unicode). The parser accepts a little more, such as a plain `]`.

Spec:  ECMA-262 22.2.1; Core 6.4
"""

from __future__ import annotations

import re
from sys import maxunicode

from .expressions import Boundary, CharacterSet, Choice, Node, NonRegular, PatternError, Repeat, Sequence, invert

_SYNTAX = frozenset("^$\\.*+?()[]{}|")
_DIGIT = [(0x30, 0x39)]
_WORD = [(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)]
_SPACE = [
    (0x09, 0x0D), (0x20, 0x20), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A), (0x2028, 0x2029), (0x202F, 0x202F),
    (0x205F, 0x205F), (0x3000, 0x3000), (0xFEFF, 0xFEFF),
]  # fmt: skip
_NEWLINE = [(0x0A, 0x0A), (0x0D, 0x0D), (0x2028, 0x2029)]
_CONTROL_ESCAPES = {"t": 0x09, "n": 0x0A, "v": 0x0B, "f": 0x0C, "r": 0x0D}
_NAMES_OF_CATEGORIES = """
    Letter=L Cased_Letter=LC Uppercase_Letter=Lu Lowercase_Letter=Ll Titlecase_Letter=Lt Modifier_Letter=Lm
    Other_Letter=Lo Mark=M Nonspacing_Mark=Mn Spacing_Mark=Mc Enclosing_Mark=Me Number=N Decimal_Number=Nd digit=Nd
    Letter_Number=Nl Other_Number=No Punctuation=P punct=P Connector_Punctuation=Pc Dash_Punctuation=Pd
    Open_Punctuation=Ps Close_Punctuation=Pe Initial_Punctuation=Pi Final_Punctuation=Pf Other_Punctuation=Po
    Symbol=S Math_Symbol=Sm Currency_Symbol=Sc Modifier_Symbol=Sk Other_Symbol=So Separator=Z Space_Separator=Zs
    Line_Separator=Zl Paragraph_Separator=Zp Other=C Control=Cc Format=Cf Surrogate=Cs Private_Use=Co Unassigned=Cn
"""
_CATEGORIES = dict(pair.split("=") for pair in _NAMES_OF_CATEGORIES.split())
"""Unicode's general categories, long name to short name. `\\p{…}` supports only these categories, `Any` and `ASCII`."""


class Parser:
    """A recursive-descent parser. Many methods have the name of the grammar rule that they parse.

    Each method begins at `position`, and moves it past the text that it has parsed.
    """

    def __init__(self, source: str) -> None:
        self.source, self.position = source, 0
        self.is_regular = True  # False if the pattern has lookaround or backreferences
        self.uses_categories = False  # True if the pattern has `\p{…}`, which `re` does not support
        self._names: list[str | None] = []  # the names of the capturing groups; None for a group without a name

    def parse(self) -> Node:
        """Parse the whole source. Raise PatternError if it is malformed."""
        node = self._disjunction()
        if self.position < len(self.source):
            raise self._error("unmatched )")
        return node

    def _error(self, why: str) -> PatternError:
        return PatternError(f"{why} at character {self.position}")

    def _peek(self, text: str) -> bool:
        return self.source.startswith(text, self.position)

    def _take(self, text: str) -> bool:
        """Move past the text and return True. If another text comes next, return False."""
        if not self._peek(text):
            return False
        self.position += len(text)
        return True

    def _next(self) -> str:
        if self.position >= len(self.source):
            raise self._error("unexpected end")
        self.position += 1
        return self.source[self.position - 1]

    def _take_match(self, expression: str) -> re.Match[str] | None:
        """Move past a match of the expression and return it. If none comes next, return None."""
        found = re.compile(expression, re.ASCII).match(self.source, self.position)
        if found is not None:
            self.position = found.end()
        return found

    def _disjunction(self) -> Node:
        choices = [self._alternative()]
        while self._take("|"):
            choices.append(self._alternative())
        return choices[0] if len(choices) == 1 else Choice(choices)

    def _alternative(self) -> Node:
        items: list[Node] = []
        while self.position < len(self.source) and not self._peek("|") and not self._peek(")"):
            items.append(self._term())
        return items[0] if len(items) == 1 else Sequence(items)

    def _term(self) -> Node:
        char = self.source[self.position]
        if char not in _SYNTAX:
            self.position += 1
            return self._quantified(_character(ord(char)))
        for kind in ("^", "$", r"\b", r"\B"):
            if self._take(kind):
                return Boundary(kind)
        for prefix in ("?=", "?!", "?<=", "?<!"):
            if self._take(f"({prefix}"):
                self.is_regular = False
                return NonRegular(prefix, self._closed(self._disjunction()))
        return self._quantified(self._atom())

    def _quantified(self, atom: Node) -> Node:
        """Parse the quantifier after an atom, if there is one, such as `*` or `{2,3}`."""
        if self.position >= len(self.source) or self.source[self.position] not in "*+?{":
            return atom
        # `*?` accepts the same texts as `*`, so the second `?` is dropped
        found = self._take_match(r"([*+?]|\{(\d+)(,(\d*))?\})\??")
        if found is None:
            return atom
        sign, lower, comma_and_upper, upper = found.groups()
        if lower is None:
            least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}[sign]
        elif comma_and_upper is None:  # `{2}`
            least = most = int(lower)
        else:
            least = int(lower)
            most = int(upper) if upper else None  # `{2,}` has no upper bound
        if most is not None and most < least:
            raise self._error("the bounds of {} are in the wrong order")
        if max(least, most or 0) > 65_535:
            raise self._error("a bound of {} is larger than 65535")
        if self._take_match(r"[*+?]|\{\d+(,\d*)?\}"):
            raise self._error("nothing to repeat")
        return Repeat(atom, least, most)

    def _closed(self, body: Node) -> Node:
        """Parse the parenthesis that closes a group, and return the body of the group."""
        if not self._take(")"):
            raise self._error("missing )")
        return body

    def _atom(self) -> Node:
        if self._take("(?:"):
            return self._closed(self._disjunction())
        if group := self._take_match(r"\((?!\?)|\(\?<([A-Za-z_$][\w$]*)>"):  # `(` or `(?<name>`
            self._names.append(group[1])
            return Sequence([self._closed(self._disjunction())], captures=True)
        if self._peek("("):
            raise self._error("unknown kind of group")
        if self._take("."):
            return CharacterSet(_NEWLINE, [], negated=True)
        if self._take("["):
            return self._class()
        if reference := self._take_match(r"\\(?:([1-9]\d*)|k<([^>]*)>)"):
            self.is_regular = False
            name = reference[2]
            if name is not None and name not in self._names:
                raise self._error("unknown group name")
            number = reference[1] or self._names.index(name) + 1
            return NonRegular(f"\\{number}")
        if self._take("\\"):
            return self._escape()
        if self.source[self.position] in "*+?" or self._take_match(r"\{\d+(,\d*)?\}"):
            raise self._error("nothing to repeat")
        return _character(ord(self._next()))

    def _escape(self) -> CharacterSet:
        """Parse the rest of an escape, after the backslash."""
        char = self._next()
        ranges = {"d": _DIGIT, "w": _WORD, "s": _SPACE}.get(char.lower())
        if ranges is not None:
            return CharacterSet(invert(ranges) if char.isupper() else ranges, [])
        if char in "pP":
            return self._property(char == "P")
        if char in _CONTROL_ESCAPES:
            return _character(_CONTROL_ESCAPES[char])
        if char == "b":  # in a class; elsewhere, `_term` has taken it as a boundary
            return _character(8)
        if char == "0" and not self._take_match(r"(?=\d)"):  # the lookahead takes no text
            return _character(0)
        if char == "c" and (found := self._take_match("[A-Za-z]")):
            return _character(ord(found[0]) % 32)  # `\cA` is 1, `\cB` is 2
        if char in "xu" and (code := self._code_point(char)) is not None:
            return _character(code)
        if char.isascii() and char.isalnum():
            raise self._error(f"unknown escape \\{char}")
        return _character(ord(char))

    def _code_point(self, escape: str) -> int | None:
        """Parse the hexadecimal digits after `\\x` or `\\u`. Return None if they are not the number of a character."""
        if escape == "x":
            digits = self._take_match("[0-9a-fA-F]{2}")
            return int(digits[0], 16) if digits else None
        pair = self._take_match(r"([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")
        if pair:  # a surrogate pair: each half has 10 bits of the number
            return 0x10000 + ((int(pair[1], 16) & 0x3FF) << 10) + (int(pair[2], 16) & 0x3FF)
        found = self._take_match(r"([0-9a-fA-F]{4})|\{0*([0-9a-fA-F]{1,6})\}")
        if found is None:
            return None
        code = int(found[1] or found[2], 16)
        return code if code <= maxunicode else None

    def _property(self, negated: bool) -> CharacterSet:
        found = self._take_match(r"\{(?:(?:General_Category|gc)=)?(\w+)\}")
        name = found[1] if found else ""
        if name in ("Any", "ASCII"):
            ranges = [(0, maxunicode if name == "Any" else 0x7F)]
            return CharacterSet(invert(ranges) if negated else ranges, [])
        short = _CATEGORIES.get(name, name)
        if short not in _CATEGORIES.values():
            raise self._error("unknown character property")
        self.uses_categories = True
        categories = ("Lu", "Ll", "Lt") if short == "LC" else (short,)  # no character has LC, which stands for three
        return CharacterSet([], [(negated, categories)])

    def _class(self) -> CharacterSet:
        """Parse the rest of a class such as `[^a-z_]`, after the bracket that opens it."""
        negated = self._take("^")
        parts: list[CharacterSet] = []
        while not self._take("]"):
            part = self._class_atom()
            if self._peek("-") and not self._peek("-]"):
                self.position += 1
                parts += self._range(part, self._class_atom())
            else:
                parts.append(part)
        ranges = sorted(each for part in parts for each in part.ranges)
        categories = [each for part in parts for each in part.categories]
        return CharacterSet(ranges, categories, negated)

    def _range(self, start: CharacterSet, end: CharacterSet) -> list[CharacterSet]:
        """Return the sets for two atoms with a hyphen between them: one range, if each atom is one character."""
        if not (start.is_single and end.is_single):
            return [_character(ord("-")), end, start]  # the hyphen in `[\w-.]` is a plain character
        [(low, _)], [(high, _)] = start.ranges, end.ranges
        if low > high:
            raise self._error("the range is in the wrong order")
        return [CharacterSet([(low, high)], [])]

    def _class_atom(self) -> CharacterSet:
        char = self._next()
        return self._escape() if char == "\\" else _character(ord(char))


def _character(code: int) -> CharacterSet:
    return CharacterSet([(code, code)], [])
