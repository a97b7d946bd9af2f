"""URI templates (RFC 6570). `expand` makes a URI from a template and values. `match` finds the values in a URI.

    template = UriTemplate("repo://{owner}/{name}{/path*}{?ref}")
    template.variables                                                   # ("owner", "name", "path", "ref")
    template.expand({"owner": "ada", "name": "engine", "ref": "v1"})     # "repo://ada/engine?ref=v1"
    template.match("repo://ada/engine/src/main.c")
    # {"owner": "ada", "name": "engine", "path": ["src", "main.c"]}

An expression is a part of a template in braces. An operator (one of `+ # . / ; ? &`) can precede its variables. A
variable with `*` is called exploded: it has several values. Expansion supports the whole RFC (section 3), but the RFC
does not define matching (section 1.4), so this module has its own rules, for a server that gets URIs from clients:

- A value ends **where the text after its variable first occurs**. A text at the end of the template must also be at
  the end of the URI: `{x}.md` finds "a.md" in "a.md.md". In `{x}{y}`, `x` gets as much text as possible; in `{x,y}`,
  `y` gets all texts after the first comma. `{x*,y}` does not match "a,b", because "b" could belong to `x` or to `y`.
  Matching never backtracks, so its time is linear in the length of the URI.
- **A value stays in its directory**, even on Windows. The rules are for the decoded value, so an encoded character
  changes nothing. A value of `{x}`, `{.x}`, `{/x}` or `{;x}` has no slash, no backslash and no colon, because
  `C:secret` is a file on another drive, and `a.txt:x` is a hidden stream of a file. Values of `{+x}`, `{#x}`, `{?x}`
  and `{&x}` can have them, but cannot be an absolute path or begin with a drive (`/etc`, `C:x`). With
  `absolute_paths=True`, colons (as in the time `10:30`) and absolute paths are allowed. No value ever has a NUL
  character or a segment such as "..", and `{x}` never has a slash.
- Expressions with one of the operators `. / ; ? & #` are optional in the URI. Query parameters can have any order.
- The result omits variables that the URI does not contain, and empty values of `{x}` and `{+x}`.

Spec:  RFC 6570 (URI templates), RFC 3986 (URIs)
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import quote, unquote

from .uri import canonical_uri, check_uri

Value: TypeAlias = "str | int | float | Sequence[str] | Mapping[str, str] | None"
"""The value of a variable. None, an empty list and an empty mapping are undefined (RFC 6570, section 2.3)."""

MatchedValue: TypeAlias = "str | list[str] | dict[str, str]"
"""A value found in a URI: a string, or for a variable with `*` a list, or a mapping of names to values."""

MAX_TEMPLATE: Final = 8192
"""Maximum length of a template, in characters."""


class TemplateError(ValueError):
    """A template violates the grammar of RFC 6570, or a value has the wrong type for its expression."""


class Operator(NamedTuple):
    """The way in which an operator writes variables. The fields are those of the table in RFC 6570, appendix A."""

    first: str
    separator: str
    named: bool = False
    if_empty: str = ""
    keeps_reserved: bool = False
    in_segment: bool = True
    """True if a value must stay in its path segment. (This rule is not part of the RFC.)"""


OPERATORS: Final = {
    "": Operator("", ","),
    "+": Operator("", ",", keeps_reserved=True, in_segment=False),
    "#": Operator("#", ",", keeps_reserved=True, in_segment=False),
    ".": Operator(".", "."),
    "/": Operator("/", "/"),
    ";": Operator(";", ";", named=True),
    "?": Operator("?", "&", named=True, if_empty="=", in_segment=False),
    "&": Operator("&", "&", named=True, if_empty="=", in_segment=False),
}


class Variable(NamedTuple):
    """A variable of an expression.

    `{name:3}` has prefix 3: the URI has the value's first 3 characters. `{name*}` has explode True.
    """

    name: str
    prefix: int | None = None
    explode: bool = False


class Expression(NamedTuple):
    """A part of a template in braces: an operator and its variables."""

    operator: Operator
    variables: tuple[Variable, ...]


# RFC 6570, section 2.1: the characters of literal text. The grammar lacks the apostrophe, which the RFC's examples use.
_LITERAL_TEXT: Final = re.compile(r"""(?:[^\x00-\x20\x7f-\x9f\ud800-\udfff"%<>\\^`{|}]|%[0-9A-Fa-f]{2})+""")
# Section 2.2: the operators. The RFC reserves "=,!@|" for extensions, so these are errors.
_EXPRESSION: Final = re.compile(r"\{([+#./;?&]?)([^{}]*)\}")
# Sections 2.3 and 2.4: a name, then at most one modifier: "*", or ":" and a length from 1 to 9999.
_NAME_CHAR: Final = r"(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})"
_VARIABLE: Final = re.compile(rf"({_NAME_CHAR}+(?:\.{_NAME_CHAR}+)*)(?::([1-9][0-9]{{0,3}})|(\*))?")

_TYPES_OF_TEXT: Final = frozenset({"string", "integer", "number", "boolean"})  # see `possible_values`
_RESERVED_CHARS: Final = ":/?#[]@!$&'()*+,;="  # RFC 3986, section 2.2
_STRAY_PERCENT: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_ALL_ASCII: Final = "".join(map(chr, range(128)))


class UriTemplate:
    """A parsed template.

    Args:
        template: The text of the template, of at most `MAX_TEMPLATE` characters.
        absolute_paths: True if values can have colons and, if they can have slashes, be absolute paths. Default: False.

    Raises:
        TemplateError: The template violates the grammar or is too long.
    """

    def __init__(self, template: str, absolute_paths: bool = False) -> None:
        self.template, self._absolute_paths = template, absolute_paths
        self.parts = parse(template)
        """The literal texts and the expressions, in order."""
        names = (variable.name for part in self.parts if isinstance(part, Expression) for variable in part.variables)
        self.variables: tuple[str, ...] = tuple(dict.fromkeys(names))
        """The names of the variables without duplicates, in the order of the template."""

    def __repr__(self) -> str:
        return f"UriTemplate({self.template!r})"

    def expand(self, values: Mapping[str, Value]) -> str:
        """Return the URI for these values, by variable name. Raise TemplateError if `{x:3}` gets a list or mapping."""
        return "".join(_literal(part) if isinstance(part, str) else _expand(part, values) for part in self.parts)

    def match(self, uri: str) -> dict[str, MatchedValue] | None:
        """Return the decoded values of the variables, or None if the URI does not match the template."""
        try:
            found = self._pattern.fullmatch(uri if uri.isascii() else quote(uri, safe=_ALL_ASCII))
            return None if found is None else self._read_values(found)
        except UnicodeError:  # a lone surrogate, or encoded bytes that are not UTF-8
            return None

    def check_types(self, schemas: Mapping[str, Mapping[str, Any]]) -> None:
        """Raise TemplateError if the JSON Schema of a variable excludes all values that a URI can give it.

        A URI without the variable would still match if it is optional. But the author wants its values too, and would
        look for the reason in vain, because a URI with one of them is only "not found".
        """
        for part in self.parts:
            if isinstance(part, str):
                continue
            for name, _, explode in part.variables:
                types = schemas[name].get("type", _TYPES_OF_TEXT | {"array", "object"})
                wanted = {types} if isinstance(types, str) else set(types)
                if not explode:
                    possible, advice = _TYPES_OF_TEXT, f"str, or write {name}* for a list"
                elif part.operator.named:
                    possible, advice = frozenset({"array", "object"}), "list[str] or dict[str, str], or omit the *"
                else:
                    possible, advice = frozenset({"array"}), "list[str], or omit the *"
                if not wanted & possible:
                    raise TemplateError(f"no value of {name} can match {self.template!r}: annotate {name} as {advice}")

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        """The template as a regular expression, with a group for each expression.

        The pattern never backtracks: a lookahead `(?=(...))` finds a text, and a back reference consumes this text.
        (Possessive repetitions such as `*+` would be shorter, but they have a bug before Python 3.11.5.)
        """
        patterns = (_pattern_of(part, self.parts[index + 1 :], index) for index, part in enumerate(self.parts))
        return re.compile("".join(patterns))

    def _read_values(self, found: re.Match[str]) -> dict[str, MatchedValue] | None:
        """Return the values in the texts of all expressions, or None if they break a rule or contradict each other."""
        values: dict[str, MatchedValue] = {}
        prefixes: list[tuple[Variable, str]] = []
        for index, expression in enumerate(self.parts):
            if isinstance(expression, str):
                continue
            text = found[f"text{index}"]
            if text is None or (text == "" and not expression.operator.first):
                continue  # the URI lacks this optional expression, or has an empty value of `{x}` or `{+x}`
            pairs = _read_named(expression, text) if expression.operator.named else _read_unnamed(expression, text)
            if pairs is None:
                return None
            for variable, value in pairs:
                if not _stays_in_directory(value, expression.operator.in_segment, self._absolute_paths):
                    return None
                if variable.prefix and isinstance(value, str):
                    prefixes.append((variable, value))
                elif values.setdefault(variable.name, value) != value:
                    return None  # the variable occurs twice, with two values
        # Check these last, when `values` has the complete values, if the URI has them.
        for variable, text in prefixes:
            if not _prefix_agrees(variable, text, values):
                return None
        return values


def _prefix_agrees(variable: Variable, text: str, values: dict[str, MatchedValue]) -> bool:
    """Return True if the text of `{x:3}` begins the value of `{x}`. If the URI has no `{x}`, the text is the value."""
    complete = values.setdefault(variable.name, text)
    return isinstance(complete, str) and complete[: variable.prefix] == text


def canonical_template(template: str, canonical: Callable[[str], str | None] = canonical_uri) -> str | None:
    """Return a template or URI whose literal texts have the canonical form of a URI. Its expressions are unchanged.

    Return None if it is not a URI template, or if a segment `..` would remove an expression. The function `canonical`
    returns the canonical form of a URI, or None if a text is not a URI.
    """
    if "{" not in template:
        return canonical(template)
    # Marks stand for the expressions: escapes of control characters, which the canonical form does not change.
    expressions = [found[0] for found in _EXPRESSION.finditer(template)]
    with_marks = _EXPRESSION.sub(_mark, template)
    uri = canonical(with_marks)
    if uri is None or len(_MARK.findall(with_marks)) != len(expressions):
        return None  # the template is not a URI, or has such an escape of its own
    if len(_MARK.findall(uri)) != len(expressions):
        return None  # ".." would remove an expression
    in_order = iter(expressions)
    return _MARK.sub(lambda mark: next(in_order), uri)


def checked_template(template: str) -> str:
    """Return the canonical form of a template or URI. Raise ValueError if it has none, TypeError if it is not a str."""
    if not isinstance(template, str):
        raise TypeError(f"a URI or template must be a str, not {template!r:.80}")
    parse(template)
    start, brace, _ = template.partition("{")
    check_uri(_literal(start) if brace else template)  # the text before the first expression must have the scheme
    canonical = canonical_template(template)
    if canonical is None:
        raise TemplateError(f"{template!r} must have no escaped control character, and no '..' after a variable")
    return canonical


_MARK: Final = re.compile("%00|[/?#]%01")
_IN_AUTHORITY: Final = re.compile("[^:/?#]*://[^/?#]*")


def _mark(expression: re.Match[str]) -> str:
    """Return the mark of an expression. It begins a path, query or fragment where the expression can."""
    operator = expression[1]
    if operator == "+" and _IN_AUTHORITY.fullmatch(expression.string, 0, expression.start()):
        operator = "/"  # the value can end the host and begin the path
    return f"{operator}%01" if operator and operator in "/?#" else "%00"


def parse(template: str) -> list[str | Expression]:
    """Split a template into literal texts and expressions. Raise TemplateError if it violates the grammar."""
    if len(template) > MAX_TEMPLATE:
        raise TemplateError(f"the URI template has {len(template)} characters; the limit is {MAX_TEMPLATE}")
    parts: list[str | Expression] = []
    at = 0
    while at < len(template):
        if literal := _LITERAL_TEXT.match(template, at):
            parts.append(literal[0])
            at = literal.end()
        elif expression := _EXPRESSION.match(template, at):
            variables = tuple(_variable(text, template) for text in expression[2].split(","))
            parts.append(Expression(OPERATORS[expression[1]], variables))
            at = expression.end()
        else:
            fault = "an unclosed expression" if template[at] == "{" else f"{template[at]!r}, which must be encoded"
            raise TemplateError(f"bad URI template {template!r}: {fault}, at index {at} (RFC 6570, section 2)")
    return parts


def _variable(text: str, template: str) -> Variable:
    found = _VARIABLE.fullmatch(text)
    if found is None:
        raise TemplateError(
            f"bad URI template {template!r}: {text!r} is not a variable. A name must consist of letters, digits and _, "
            "with single dots inside. Then * or : and a length from 1 to 9999 can follow (RFC 6570, section 2.3, 2.4)"
        )
    return Variable(found[1], int(found[2]) if found[2] else None, bool(found[3]))


def _expand(expression: Expression, values: Mapping[str, Value]) -> str:
    """Return the text of an expression (section 3.2.1). Skip undefined variables and their separators."""
    operator, variables = expression
    texts = [text for variable in variables for text in _expand_variable(variable, values.get(variable.name), operator)]
    return operator.first + operator.separator.join(texts) if texts else ""


def _expand_variable(variable: Variable, value: Value, operator: Operator) -> list[str]:
    """Return the texts of a variable: none if undefined, one for each member of a variable with `*`, else one."""
    keeps = operator.keeps_reserved
    if value is None or (isinstance(value, (Sequence, Mapping)) and not isinstance(value, str) and not value):
        return []  # undefined (section 2.3)
    if isinstance(value, (str, int, float)):
        return [_with_name(variable.name, _encode(str(value)[: variable.prefix], keeps), operator)]
    if variable.prefix:  # section 2.4.1
        raise TemplateError(f"{variable.name}:{variable.prefix} needs a string, not a {type(value).__name__}")
    if isinstance(value, Mapping):
        pairs = [(_encode(name, keeps), _encode(str(member), keeps)) for name, member in value.items()]
        if variable.explode:  # each pair is `name=text`, even for an operator that does not name its variables
            if_empty = operator.if_empty if operator.named else "="
            return [f"{name}={text}" if text else name + if_empty for name, text in pairs]
        return [_with_name(variable.name, ",".join(f"{name},{text}" for name, text in pairs), operator)]
    members = [_encode(str(member), keeps) for member in value]
    if variable.explode:
        return [_with_name(variable.name, member, operator) for member in members]
    return [_with_name(variable.name, ",".join(members), operator)]


def _with_name(name: str, text: str, operator: Operator) -> str:
    if not operator.named:
        return text
    return f"{name}={text}" if text else name + operator.if_empty


def _encode(text: str, keeps_reserved: bool) -> str:
    return _literal(text) if keeps_reserved else quote(text, safe="")


def _literal(text: str) -> str:
    return quote(_STRAY_PERCENT.sub("%25", text), safe=_RESERVED_CHARS + "%")  # section 3.2.1


_ENCODED_CHAR: Final = "%[0-9A-Fa-f]{2}"
_SEGMENT_CHARS: Final = r"A-Za-z0-9\-._~!$&'()*+,;=:@"  # RFC 3986, section 3.3, pchar


def _pattern_of(part: str | Expression, following: list[str | Expression], index: int) -> str:
    """Return the regular expression for a part. A value in the part ends where one of the `following` parts begins."""
    if isinstance(part, str):
        return re.escape(_literal(part))
    operator = part.operator
    characters = _SEGMENT_CHARS
    if operator.keeps_reserved:
        characters += r"/?#\[\]"
    elif operator.separator == "/":
        characters += "/"
    elif operator.separator == "&":
        characters += "/?"  # RFC 3986, section 3.4: a query can contain both
    character = f"{_stop_lookahead(following)}(?:[{characters}]|{_ENCODED_CHAR})"
    text = f"(?P<text{index}>(?:{character})*)"
    if operator.first:
        text = f"(?:{re.escape(operator.first)}{text})?"
    return f"(?=(?P<atomic{index}>{text}))(?P=atomic{index})"  # a lookahead and a back reference, see `_pattern`


def _stop_lookahead(following: list[str | Expression]) -> str:
    """Return a lookahead that fails where the next literal text begins, or the operator of the next expression."""
    for index, part in enumerate(following):
        if isinstance(part, str):
            at_the_end = r"\Z" if index == len(following) - 1 else ""
            return f"(?!{re.escape(_literal(part))}{at_the_end})"
        if part.operator.first:
            return f"(?!{re.escape(part.operator.first)})"
    return ""


def _read_unnamed(expression: Expression, text: str) -> list[tuple[Variable, MatchedValue]] | None:
    """Return the texts between separators, one for each variable. The last variable gets all remaining texts."""
    separator, variables = expression.operator.separator, expression.variables
    if any(variable.explode for variable in variables[:-1]):
        return None  # a text could belong to two variables
    values: list[tuple[Variable, MatchedValue]] = []
    for variable, piece in zip(variables, text.split(separator, len(variables) - 1), strict=False):
        if variable.explode:
            values.append((variable, [_decode(member) for member in piece.split(separator)]))
        else:
            values.append((variable, _decode(piece)))
    return values


def _read_named(expression: Expression, text: str) -> list[tuple[Variable, MatchedValue]] | None:
    """Return the values of `name=value` pairs in any order. A variable with `*` gets the pairs with unknown names."""
    variables = {variable.name: variable for variable in expression.variables}
    exploded = next((variable for variable in expression.variables if variable.explode), None)
    values: dict[str, MatchedValue] = {}
    for pair in text.split(expression.operator.separator):
        encoded_name, _, encoded_value = pair.partition("=")
        value = _decode(encoded_value)
        variable = variables.get(encoded_name)
        if variable is not None and variable.explode:  # the name of a list, which is repeated for each of its members
            members = values.setdefault(variable.name, [])
            if not isinstance(members, list):
                return None  # an unknown name before it has made the variable a mapping
            members.append(value)
        elif variable is not None:
            if variable.name in values:
                return None  # the name occurs twice
            values[variable.name] = value
        elif exploded is not None:  # an unknown name, which belongs to a mapping
            mapping = values.setdefault(exploded.name, {})
            name = _decode(encoded_name)
            if not isinstance(mapping, dict) or name in mapping:
                return None  # the variable is already a list, or the name occurs twice
            mapping[name] = value
        else:
            return None  # no variable gets this pair
    return [(variables[name], value) for name, value in values.items()]


def _decode(text: str) -> str:
    return unquote(text, errors="strict")


def possible_values(value: MatchedValue) -> list[object]:
    """Return the values that a text can mean, because "12" can also mean a number, and "true" a boolean."""
    if isinstance(value, str) and _NUMBER_OR_BOOLEAN.fullmatch(value):
        with contextlib.suppress(ValueError):  # Python refuses integers of more than 4300 digits
            return [value, json.loads(value)]
    return [value]


_NUMBER_OR_BOOLEAN: Final = re.compile(r"true|false|-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")


def _stays_in_directory(value: MatchedValue, in_segment: bool, absolute_paths: bool) -> bool:
    """Return True if a decoded value follows the module's rules on directories and has no NUL character."""
    if not isinstance(value, str):
        members = value if isinstance(value, list) else [*value, *value.values()]
        return all(_stays_in_directory(member, in_segment, absolute_paths) for member in members)
    path = value.replace("\\", "/")
    if "\0" in path or (".." in path and _PARENT_SEGMENT.search(path)):
        return False
    if in_segment:
        return "/" not in path and (absolute_paths or ":" not in path)
    return absolute_paths or not _ABSOLUTE_PATH.match(path)


_PARENT_SEGMENT: Final = re.compile(r"(?:\A|/)\.\.[. ]*(?:/|\Z)")  # Windows ignores final dots and spaces
_ABSOLUTE_PATH: Final = re.compile("/|[A-Za-z]:")
