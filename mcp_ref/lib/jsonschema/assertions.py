"""The keywords without subschemas. Most of them check the type, size, pattern or allowed values of an instance.

Spec:  Validation 6 and 7. "Draft-07 6.5.7" means section 6.5.7 of draft-07's Validation document
"""

from __future__ import annotations

from collections.abc import Callable, Sized
from math import inf
from operator import ge, gt, le, lt

from .errors import format_count, join_alternatives, missing_properties_message, quoted
from .formats import FORMATS
from .limits import Budget
from .model import Keyword, SchemaReader, Vocabulary, VocabularyRow
from .values import JSON, TYPES, canonical_text, is_multiple, is_number


def type_(reader: SchemaReader) -> Keyword:
    """Build `type` (Validation 6.1.1)."""
    value = reader.schema["type"]
    names = value if isinstance(value, list) else [value]
    known = [name for name in names if isinstance(name, str) and name in TYPES]
    if not known or len(set(known)) != len(names):  # a name is unknown or duplicate
        raise reader.error("type", f"one of {', '.join(TYPES)}, or an array of different types")
    checks = [TYPES[name] for name in known]
    text = join_alternatives([_WITH_ARTICLE[name] for name in known])

    def check_any(instance: JSON, budget: Budget) -> bool:
        for check_one in checks:  # noqa: SIM110 - any() with a generator is slower
            if check_one(instance, budget):
                return True
        return False

    check = checks[0] if len(checks) == 1 else check_any
    return Keyword("type", check, f"expected {text}")


_WITH_ARTICLE = {name: ("an " if name[0] in "aeiou" else "a ") + name for name in TYPES} | {"null": "null"}


def enum(reader: SchemaReader) -> Keyword:
    """Build `enum` (Validation 6.1.2). The standard allows an empty array, which no instance matches."""
    values = reader.schema["enum"]
    if not isinstance(values, list):
        raise reader.error("enum", "an array")
    return _allowed_values("enum", values)


def const(reader: SchemaReader) -> Keyword:
    """Build `const` (Validation 6.1.3), which is the same as an `enum` of one value."""
    return _allowed_values("const", [reader.schema["const"]])


def _allowed_values(name: str, values: list[JSON]) -> Keyword:
    strings = {value for value in values if isinstance(value, str)}
    texts_of_others = {canonical_text(value) for value in values if not isinstance(value, str)}
    lengths = {len(value) for value in values if isinstance(value, (list, dict))}
    shown = [quoted(value) for value in values[:20]]
    if len(values) > 20:
        shown.append("…")
    text = f"expected one of {', '.join(shown)}" if len(values) != 1 else f"expected {shown[0]}"

    def check(instance: JSON, budget: Budget) -> bool:
        if isinstance(instance, str):
            return instance in strings
        has_other_length = isinstance(instance, (list, dict)) and len(instance) not in lengths
        if has_other_length or not texts_of_others:  # known without the instance's text, which is costly
            return False
        return canonical_text(instance, budget) in texts_of_others

    return Keyword(name, check, text)


def multiple_of(reader: SchemaReader) -> Keyword:
    """Build `multipleOf` (Validation 6.2.1). Refuse a factor such as 1e999, because it is parsed as infinity."""
    factor = reader.number("multipleOf")
    if not factor > 0:
        raise reader.error("multipleOf", "a number above 0")
    if factor == inf:
        raise reader.unsupported("multipleOf", "a smaller number")

    def check(instance: JSON, budget: Budget) -> bool:
        return not is_number(instance) or is_multiple(instance, factor, budget)  # type: ignore[arg-type]

    return Keyword("multipleOf", check, f"expected a multiple of {quoted(factor)}")


def _bound(name: str, holds: Callable[[int | float, int | float], bool], text: str) -> VocabularyRow:
    """Return the vocabulary row of a limit such as `maximum` (Validation 6.2.2 to 6.2.5).

    `holds` is the operator between the instance and the limit, such as `le` for <=.
    """

    def build(reader: SchemaReader) -> Keyword:
        bound = reader.number(name)

        def check(instance: JSON, budget: Budget) -> bool:
            return not is_number(instance) or holds(instance, bound)  # type: ignore[arg-type]

        return Keyword(name, check, f"expected {text} {quoted(bound)}")

    return build, name


def _size(name: str, kind: type[Sized], holds: Callable[[int, int], bool], unit: str) -> VocabularyRow:
    """Return the vocabulary row of a limit on characters, items or properties (Validation 6.3 to 6.5)."""

    def build(reader: SchemaReader) -> Keyword:
        bound = reader.size(name)

        def check(instance: JSON, budget: Budget) -> bool:
            return not isinstance(instance, kind) or holds(len(instance), bound)

        text = f"expected {'at most' if holds is le else 'at least'} {format_count(bound, unit)}"
        return Keyword(name, check, lambda instance, budget: f"{text}, got {len(instance)}")

    return build, name


def pattern(reader: SchemaReader) -> Keyword:
    """Build `pattern` (Validation 6.3.3). The pattern can match any part of the string."""
    source = reader.string("pattern")
    compiled = reader.pattern("pattern", source)

    def check(instance: JSON, budget: Budget) -> bool:
        return not isinstance(instance, str) or compiled.search(instance, budget)

    return Keyword("pattern", check, f"expected a match of {source}")


def unique_items(reader: SchemaReader) -> Keyword | None:
    """Build `uniqueItems` (Validation 6.4.3)."""
    is_demanded = reader.schema["uniqueItems"]
    if not isinstance(is_demanded, bool):
        raise reader.error("uniqueItems", "true or false")

    def first_duplicate(instance: list[JSON], budget: Budget) -> int | None:
        budget.spend(len(instance))
        seen: set[str] = set()
        for index, item in enumerate(instance):
            text = canonical_text(item, budget)
            if text in seen:
                return index
            seen.add(text)
        return None

    def check(instance: JSON, budget: Budget) -> bool:
        return not isinstance(instance, list) or first_duplicate(instance, budget) is None

    def message(instance: list[JSON], budget: Budget) -> str:
        index = first_duplicate(instance, budget) or 0  # never None, because `check` has failed
        return f"expected different items, got {quoted(instance[index])} more than once"

    return Keyword("uniqueItems", check, message) if is_demanded else None


def contains_bounds(reader: SchemaReader) -> None:
    """Refuse wrong values of `minContains` and `maxContains` (Validation 6.4.4, 6.4.5). `contains` uses the values."""
    for name in ("minContains", "maxContains"):
        if name in reader:
            reader.size(name)


def required(reader: SchemaReader) -> Keyword:
    """Build `required` (Validation 6.5.3)."""
    names = reader.strings("required", reader.schema["required"])
    cost = len(names) // 4  # in steps: looking up four names takes about as long as one step

    def check(instance: JSON, budget: Budget) -> bool:
        if isinstance(instance, dict):
            if cost:
                budget.spend(cost)
            for name in names:
                if name not in instance:
                    return False
        return True

    def message(instance: dict[str, JSON], budget: Budget) -> str:
        budget.spend(cost)
        return missing_properties_message(names, instance)

    return Keyword("required", check, message)


def dependent_names(keyword: str) -> VocabularyRow:
    """Return the row of `dependentRequired` (Validation 6.5.4), or of the arrays in `dependencies` (Draft-07 6.5.7)."""

    def build(reader: SchemaReader) -> Keyword:
        lists = reader.mapping(keyword)
        if keyword == "dependencies":  # its other members are schemas
            lists = {key: names for key, names in lists.items() if isinstance(names, list)}
        required = {key: set(reader.strings(keyword, names)) for key, names in lists.items()}
        cost = len(required) + sum(map(len, required.values()))

        def violated_key(instance: dict[str, JSON], budget: Budget) -> str | None:
            budget.spend(cost)
            broken = (key for key, names in required.items() if key in instance and not names <= instance.keys())
            return next(broken, None)

        def check(instance: JSON, budget: Budget) -> bool:
            return not isinstance(instance, dict) or violated_key(instance, budget) is None

        def message(instance: dict[str, JSON], budget: Budget) -> str:
            key = violated_key(instance, budget) or ""  # never None, because `check` has failed
            return f"{missing_properties_message(sorted(required[key]), instance)}, because {quoted(key)} is present"

        return Keyword(keyword, check, message)

    return build, keyword


def format_(reader: SchemaReader) -> Keyword | None:
    """Build `format` (Validation 7), ignoring unknown formats, or all formats if `asserts_formats` is False."""
    name = reader.string("format")
    is_valid = FORMATS.get(name)
    if is_valid is None or not reader.asserts_formats:
        return None
    cost = 100 if name == "regex" else 1  # in steps for 8 characters. The check of the format "regex" is slow

    def check(instance: JSON, budget: Budget) -> bool:
        if not isinstance(instance, str):
            return True
        budget.spend(cost * len(instance) // 8)
        return is_valid(instance)

    return Keyword("format", check, f"expected a valid {name}")


VALIDATION: Vocabulary = (
    (type_, "type"), (enum, "enum"), (const, "const"), (multiple_of, "multipleOf"),
    _bound("maximum", le, "at most"), _bound("exclusiveMaximum", lt, "less than"),
    _bound("minimum", ge, "at least"), _bound("exclusiveMinimum", gt, "more than"),
    _size("maxLength", str, le, "characters"), _size("minLength", str, ge, "characters"), (pattern, "pattern"),
    _size("maxItems", list, le, "items"), _size("minItems", list, ge, "items"), (unique_items, "uniqueItems"),
    _size("maxProperties", dict, le, "properties"), _size("minProperties", dict, ge, "properties"),
    (required, "required"),
)  # fmt: skip
"""The keywords of Validation 6 that also exist in draft-07."""
VALIDATION_2020_12: Vocabulary = (
    *VALIDATION, dependent_names("dependentRequired"), (contains_bounds, "minContains", "maxContains"),
)  # fmt: skip
"""The validation vocabulary (Validation 6)."""
FORMAT: Vocabulary = ((format_, "format"),)
