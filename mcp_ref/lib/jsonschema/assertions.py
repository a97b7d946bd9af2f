"""The keywords that assert something about one value: its type, its size, a set of allowed values, a pattern.

Spec:  Validation 6 and 7. "Draft-07 6.5.7" is a section of that draft's Validation document
Below: model.py, values.py, formats.py. Above: applicators.py, resources.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import ge, gt, le, lt

from .errors import alternatives, format_count, missing_properties, quoted
from .formats import FORMATS
from .limits import Budget
from .model import Keyword, KeywordBuilder, SchemaReader, Vocabulary
from .values import JSON, TYPES, canonical, is_multiple, is_number

# ------------------------------------------------------------------------------ Validation 6.1: any instance


def type_(reader: SchemaReader) -> Keyword:
    """Build `type` (Validation 6.1.1)."""
    value = reader.schema["type"]
    names = value if isinstance(value, list) else [value]
    known = [name for name in names if isinstance(name, str) and name in TYPES]
    if not known or len(set(known)) != len(names):
        raise reader.error("type", f"one of {', '.join(TYPES)}, or an array of different ones")
    checks = [TYPES[name] for name in known]
    text = alternatives([_WITH_ARTICLE[name] for name in known])

    def check_any(instance: JSON, budget: Budget) -> bool:
        for check_one in checks:  # noqa: SIM110
            if check_one(instance, budget):
                return True
        return False

    check = checks[0] if len(checks) == 1 else check_any
    return Keyword("type", check, f"expected {text}")


_WITH_ARTICLE = {name: ("an " if name[0] in "aeiou" else "a ") + name for name in TYPES} | {"null": "null"}


def enum(reader: SchemaReader) -> Keyword:
    """Build `enum` (Validation 6.1.2). Nothing matches an empty array, which the standard discourages but allows."""
    values = reader.schema["enum"]
    if not isinstance(values, list):
        raise reader.error("enum", "an array")
    strings = {value for value in values if isinstance(value, str)}
    others = {canonical(value) for value in values if not isinstance(value, str)}
    has_containers = any(isinstance(value, (list, dict)) for value in values)
    shown = [quoted(value) for value in values[:20]] + (["…"] if len(values) > 20 else [])
    text = f"expected one of {', '.join(shown)}" if len(values) != 1 else f"expected {shown[0]}"

    def check(instance: JSON, budget: Budget) -> bool:
        if isinstance(instance, str):
            return instance in strings
        if not others or (isinstance(instance, (list, dict)) and not has_containers):
            return False
        return canonical(instance, budget) in others

    return Keyword("enum", check, text)


def const(reader: SchemaReader) -> Keyword:
    """Build `const` (Validation 6.1.3), an `enum` of one value."""
    value = reader.schema["const"]
    key, has_container = canonical(value), isinstance(value, (list, dict))

    def check(instance: JSON, budget: Budget) -> bool:
        return isinstance(instance, (list, dict)) == has_container and canonical(instance, budget) == key

    def check_string(instance: JSON, budget: Budget) -> bool:
        return instance == value

    return Keyword("const", check_string if isinstance(value, str) else check, f"expected {quoted(value)}")


# --------------------------------------------------------------------------------- Validation 6.2: numbers


def multiple_of(reader: SchemaReader) -> Keyword:
    """Build `multipleOf` (Validation 6.2.1)."""
    of = reader.number("multipleOf")
    if of <= 0:
        raise reader.error("multipleOf", "a number above 0")

    def check(instance: JSON, budget: Budget) -> bool:
        return not is_number(instance) or is_multiple(instance, of)  # type: ignore[arg-type]

    return Keyword("multipleOf", check, f"expected a multiple of {of}")


def _bound(name: str, holds: Callable[[int | float, int | float], bool], text: str) -> KeywordBuilder:
    """Return the builder of a bound on numbers (Validation 6.2.2 to 6.2.5)."""

    def build(reader: SchemaReader) -> Keyword:
        bound = reader.number(name)

        def check(instance: JSON, budget: Budget) -> bool:
            return not is_number(instance) or holds(instance, bound)  # type: ignore[arg-type]

        return Keyword(name, check, f"expected {text} {quoted(bound)}")

    return build


# ------------------------------------------------------------ Validation 6.3 to 6.5: strings, arrays, objects


def _size(
    name: str, kind: type[str] | type[list[JSON]] | type[dict[str, JSON]], holds: Callable[[int, int], bool], unit: str
) -> KeywordBuilder:
    """Return the builder of a bound on a size. Strings are measured in Unicode characters (Validation 6.3 to 6.5)."""
    bound_text = "at most" if holds is le else "at least"

    def build(reader: SchemaReader) -> Keyword:
        bound = reader.size(name)

        def check(instance: JSON, budget: Budget) -> bool:
            return not isinstance(instance, kind) or holds(len(instance), bound)

        def message(instance: JSON, budget: Budget) -> str:
            assert isinstance(instance, kind)
            return f"expected {bound_text} {format_count(bound, unit)}, got {len(instance)}"

        return Keyword(name, check, message)

    return build


def pattern(reader: SchemaReader) -> Keyword:
    """Build `pattern` (Validation 6.3.3), which may match anywhere in the string."""
    source = reader.string("pattern")
    compiled = reader.pattern("pattern", source)

    def check(instance: JSON, budget: Budget) -> bool:
        return not isinstance(instance, str) or compiled.search(instance, budget)

    return Keyword("pattern", check, f"expected a match of {source}")


def unique_items(reader: SchemaReader) -> Keyword | None:
    """Build `uniqueItems` (Validation 6.4.3)."""
    value = reader.schema["uniqueItems"]
    if not isinstance(value, bool):
        raise reader.error("uniqueItems", "true or false")

    def repetitions(instance: list[JSON], budget: Budget) -> Iterator[JSON]:
        budget.spend(len(instance))
        seen: set[str] = set()
        for item in instance:
            key = canonical(item, budget)
            if key in seen:
                yield item
            seen.add(key)

    def check(instance: JSON, budget: Budget) -> bool:
        return not isinstance(instance, list) or not any(True for _ in repetitions(instance, budget))

    def message(instance: JSON, budget: Budget) -> str:
        assert isinstance(instance, list)
        return f"expected different items, got {quoted(next(repetitions(instance, budget)))} more than once"

    return Keyword("uniqueItems", check, message) if value else None


def contains_bounds(reader: SchemaReader) -> None:
    """Check the values of `minContains` and `maxContains` (Validation 6.4.4, 6.4.5). `contains` evaluates them."""
    for name in ("minContains", "maxContains"):
        if name in reader:
            reader.size(name)


def required(reader: SchemaReader) -> Keyword:
    """Build `required` (Validation 6.5.3)."""
    names = reader.strings("required", reader.schema["required"])
    cost = len(names) // 16

    def check(instance: JSON, budget: Budget) -> bool:
        if isinstance(instance, dict):
            if cost:
                budget.spend(cost)
            for name in names:
                if name not in instance:
                    return False
        return True

    return Keyword("required", check, lambda instance, budget: missing_properties(names, instance))


def dependent_required(reader: SchemaReader) -> Keyword:
    """Build `dependentRequired` (Validation 6.5.4): a property that is present requires others."""
    return _dependent_names("dependentRequired", reader, reader.mapping("dependentRequired"))


def _dependent_names(name: str, reader: SchemaReader, lists: dict[str, JSON]) -> Keyword:
    rows = {trigger: set(reader.strings(name, names)) for trigger, names in lists.items()}
    cost = sum(1 + len(names) for names in rows.values())

    def check(instance: JSON, budget: Budget) -> bool:
        if not isinstance(instance, dict):
            return True
        budget.spend(cost)
        return not any(trigger in instance and not names <= instance.keys() for trigger, names in rows.items())

    def message(instance: JSON, budget: Budget) -> str:
        assert isinstance(instance, dict)
        trigger = next(key for key, names in rows.items() if key in instance and not names <= instance.keys())
        return f"{missing_properties(sorted(rows[trigger]), instance)}, because {quoted(trigger)} is present"

    return Keyword(name, check, message)


def dependency_names(reader: SchemaReader) -> Keyword:
    """Build the arrays of `dependencies` (Draft-07 6.5.7), which 2020-12 calls `dependentRequired`."""
    rows = reader.mapping("dependencies")
    lists: dict[str, JSON] = {key: value for key, value in rows.items() if isinstance(value, list)}
    return _dependent_names("dependencies", reader, lists)


# ------------------------------------------------------------------------------------ Validation 7: format


def format_(reader: SchemaReader) -> Keyword | None:
    """Build `format` (Validation 7). Unknown formats are ignored, as all are unless `asserts_formats` is True."""
    name = reader.string("format")
    is_valid = FORMATS.get(name)
    if is_valid is None or not reader.asserts_formats:
        return None
    cost = 100 if name == "regex" else 1  # parsing in Python is slower than matching with `re`

    def check(instance: JSON, budget: Budget) -> bool:
        if not isinstance(instance, str):
            return True
        budget.spend(cost * len(instance) // 8)
        return is_valid(instance)

    return Keyword("format", check, f"expected a valid {name}")


# ---------------------------------------------------------------------------------------- vocabularies

VALIDATION: Vocabulary = (
    (type_, "type"),
    (enum, "enum"),
    (const, "const"),
    (multiple_of, "multipleOf"),
    (_bound("maximum", le, "at most"), "maximum"),
    (_bound("exclusiveMaximum", lt, "less than"), "exclusiveMaximum"),
    (_bound("minimum", ge, "at least"), "minimum"),
    (_bound("exclusiveMinimum", gt, "more than"), "exclusiveMinimum"),
    (_size("maxLength", str, le, "characters"), "maxLength"),
    (_size("minLength", str, ge, "characters"), "minLength"),
    (pattern, "pattern"),
    (_size("maxItems", list, le, "items"), "maxItems"),
    (_size("minItems", list, ge, "items"), "minItems"),
    (unique_items, "uniqueItems"),
    (_size("maxProperties", dict, le, "properties"), "maxProperties"),
    (_size("minProperties", dict, ge, "properties"), "minProperties"),
    (required, "required"),
)
"""The keywords of Validation 6 that draft-07 has too."""

VALIDATION_2020_12: Vocabulary = (
    *VALIDATION,
    (dependent_required, "dependentRequired"),
    (contains_bounds, "minContains", "maxContains"),
)
"""The validation vocabulary (Validation 6)."""

FORMAT: Vocabulary = ((format_, "format"),)
