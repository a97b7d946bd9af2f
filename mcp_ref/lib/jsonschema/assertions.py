"""Keywords that look at one value: its type, its size, which of some values it is, what a string must look like.

See applicators.py for how the functions here are made.

Spec:  Validation 6 and 7; "Draft-07 6.5.7" is a section of the older Validation document
Below: model.py, values.py, patterns.py, formats.py. Above: schemas.py.
"""

from __future__ import annotations

import operator

from .formats import FORMATS
from .model import Keyword
from .values import TYPES, canonical, is_multiple, is_number
from .words import counted, either, missing, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .model import JSON, Run
    from .schemas import Builder, Place, Rows

# ------------------------------------------------------------------------------ Validation 6.1: any instance


def type_(here: Place) -> Keyword:
    """Validation 6.1.1."""
    value = here.schema["type"]
    names = value if isinstance(value, list) else [value]
    known = [name for name in names if isinstance(name, str) and name in TYPES]
    if not known or len(set(known)) != len(names):
        raise here.error("type", f"one of {', '.join(TYPES)}, or an array of different ones")
    tests = [TYPES[name] for name in known]
    words = either([_A_TYPE[name] for name in known])

    def any_type(instance: JSON, run: Run) -> bool:
        for test in tests:  # noqa: SIM110
            if test(instance, run):
                return True
        return False

    check = tests[0] if len(tests) == 1 else any_type
    return Keyword("type", check, lambda instance, run: f"expected {words}, got {shown(instance)}")


_A_TYPE = {name: ("an " if name[0] in "aeiou" else "a ") + name for name in TYPES} | {"null": "null"}


def enum(here: Place) -> Keyword:
    """Validation 6.1.2. An empty array is discouraged, but allowed: nothing matches it."""
    values = here.schema["enum"]
    if not isinstance(values, list):
        raise here.error("enum", "an array")
    strings = {value for value in values if isinstance(value, str)}
    others = {canonical(value) for value in values if not isinstance(value, str)}
    has_containers = any(isinstance(value, (list, dict)) for value in values)
    shown_values = [shown(value) for value in values[:20]] + (["…"] if len(values) > 20 else [])
    words = f"expected one of {', '.join(shown_values)}" if len(values) != 1 else f"expected {shown_values[0]}"

    def check(instance: JSON, run: Run) -> bool:
        if isinstance(instance, str):
            return instance in strings
        if not others or (isinstance(instance, (list, dict)) and not has_containers):
            return False
        return canonical(instance, run) in others

    return Keyword("enum", check, lambda instance, run: f"{words}, got {shown(instance)}")


def const(here: Place) -> Keyword:
    """Validation 6.1.3: an enum of one value."""
    value = here.schema["const"]
    key, has_container = canonical(value), isinstance(value, (list, dict))

    def check(instance: JSON, run: Run) -> bool:
        return isinstance(instance, (list, dict)) == has_container and canonical(instance, run) == key

    def equal_text(instance: JSON, run: Run) -> bool:
        return instance == value

    says = f"expected {shown(value)}, got "
    return Keyword(
        "const", equal_text if isinstance(value, str) else check, lambda instance, run: says + shown(instance)
    )


# --------------------------------------------------------------------------------- Validation 6.2: numbers


def multiple_of(here: Place) -> Keyword:
    """Validation 6.2.1."""
    of = here.number("multipleOf")
    if of <= 0:
        raise here.error("multipleOf", "a number above 0")

    def check(instance: JSON, run: Run) -> bool:
        return not is_number(instance) or is_multiple(instance, of)  # type: ignore[arg-type]

    return Keyword("multipleOf", check, lambda instance, run: f"expected a multiple of {of}, got {shown(instance)}")


def _bound(name: str, holds: Callable[[int | float, int | float], bool], words: str) -> Builder:
    """Validation 6.2.2 to 6.2.5."""

    def build(here: Place) -> Keyword:
        bound = here.number(name)

        def check(instance: JSON, run: Run) -> bool:
            return not is_number(instance) or holds(instance, bound)  # type: ignore[arg-type]

        return Keyword(name, check, lambda instance, run: f"expected {words} {shown(bound)}, got {shown(instance)}")

    return build


maximum = _bound("maximum", operator.le, "at most")
exclusive_maximum = _bound("exclusiveMaximum", operator.lt, "less than")
minimum = _bound("minimum", operator.ge, "at least")
exclusive_minimum = _bound("exclusiveMinimum", operator.gt, "more than")

# ----------------------------------------------------- Validation 6.3 to 6.5: strings, arrays, objects: sizes


def _size(
    name: str, kind: type[str] | type[list[JSON]] | type[dict[str, JSON]], holds: Callable[[int, int], bool], unit: str
) -> Builder:
    """Validation 6.3.1, 6.3.2 (lengths are in Unicode characters, as Python's are), 6.4.1, 6.4.2, 6.5.1, 6.5.2."""
    words = "at most" if holds is operator.le else "at least"

    def build(here: Place) -> Keyword:
        bound = here.size(name)

        def check(instance: JSON, run: Run) -> bool:
            return not isinstance(instance, kind) or holds(len(instance), bound)

        def says(instance: JSON, run: Run) -> str:
            assert isinstance(instance, kind)
            return f"expected {words} {counted(bound, unit)}, got {len(instance)}"

        return Keyword(name, check, says)

    return build


max_length = _size("maxLength", str, operator.le, "characters")
min_length = _size("minLength", str, operator.ge, "characters")
max_items = _size("maxItems", list, operator.le, "items")
min_items = _size("minItems", list, operator.ge, "items")
max_properties = _size("maxProperties", dict, operator.le, "properties")
min_properties = _size("minProperties", dict, operator.ge, "properties")


def pattern(here: Place) -> Keyword:
    """Validation 6.3.3. The pattern may match anywhere in the string."""
    source = here.text("pattern")
    compiled = here.pattern("pattern", source)

    def check(instance: JSON, run: Run) -> bool:
        return not isinstance(instance, str) or compiled.search(instance, run)

    return Keyword("pattern", check, lambda instance, run: f"expected a match of {source}, got {shown(instance)}")


def unique_items(here: Place) -> Keyword | None:
    """Validation 6.4.3."""
    value = here.schema["uniqueItems"]
    if not isinstance(value, bool):
        raise here.error("uniqueItems", "true or false")

    def repeated(instance: list[JSON], run: Run) -> JSON | None:
        run.spend(len(instance))
        seen: set[str] = set()
        for item in instance:
            key = canonical(item, run)
            if key in seen:
                return [item]
            seen.add(key)
        return None

    def check(instance: JSON, run: Run) -> bool:
        return not isinstance(instance, list) or repeated(instance, run) is None

    def says(instance: JSON, run: Run) -> str:
        assert isinstance(instance, list)
        twice = repeated(instance, run)
        assert isinstance(twice, list)
        return f"expected different items, got {shown(twice[0])} more than once"

    return Keyword("uniqueItems", check, says) if value else None


def contains_bounds(here: Place) -> None:
    """Validation 6.4.4 and 6.4.5: without `contains` they mean nothing, but must be what they should be."""
    for name in ("minContains", "maxContains"):
        if name in here:
            here.size(name)


def required(here: Place) -> Keyword:
    """Validation 6.5.3."""
    names = here.texts("required", here.schema["required"])
    cost = len(names) // 16

    def check(instance: JSON, run: Run) -> bool:
        if isinstance(instance, dict):
            if cost:
                run.spend(cost)
            for name in names:
                if name not in instance:
                    return False
        return True

    return Keyword("required", check, lambda instance, run: missing(names, instance))


def dependent_required(here: Place) -> Keyword:
    """Validation 6.5.4: some properties are required when a certain property is there."""
    return _dependent_names("dependentRequired", here, here.mapping("dependentRequired"))


def _dependent_names(name: str, here: Place, lists: dict[str, JSON]) -> Keyword:
    rows = {trigger: set(here.texts(name, names)) for trigger, names in lists.items()}
    cost = sum(1 + len(names) for names in rows.values())

    def check(instance: JSON, run: Run) -> bool:
        if not isinstance(instance, dict):
            return True
        run.spend(cost)
        return not any(trigger in instance and not names <= instance.keys() for trigger, names in rows.items())

    def says(instance: JSON, run: Run) -> str:
        assert isinstance(instance, dict)
        trigger = next(key for key, names in rows.items() if key in instance and not names <= instance.keys())
        return f"{missing(sorted(rows[trigger]), instance)}, which {shown(trigger)} demands"

    return Keyword(name, check, says)


def dependencies_on_names(here: Place) -> Keyword:
    """Draft-07 6.5.7, where a value is an array: what later became dependentRequired."""
    rows = here.mapping("dependencies")
    lists: dict[str, JSON] = {key: value for key, value in rows.items() if isinstance(value, list)}
    return _dependent_names("dependencies", here, lists)


# ------------------------------------------------------------------------------------ Validation 7: format


def format_(here: Place) -> Keyword | None:
    """Validation 7: an annotation, unless the dialect's vocabulary or the caller asks that it is asserted.

    A format that is not known is an annotation in any case (7.2.3).
    """
    name = here.text("format")
    test = FORMATS.get(name)
    if test is None or not here.asserts_formats:
        return None
    cost = 100 if name == "regex" else 1  # which is read by a parser in Python

    def check(instance: JSON, run: Run) -> bool:
        if not isinstance(instance, str):
            return True
        run.spend(cost * len(instance) // 8)
        return test(instance)

    return Keyword("format", check, lambda instance, run: f"expected a valid {name}, got {shown(instance)}")


# ---------------------------------------------------------------------------------------- vocabularies

VALIDATION: Rows = (
    (type_, "type"),
    (enum, "enum"),
    (const, "const"),
    (multiple_of, "multipleOf"),
    (maximum, "maximum"),
    (exclusive_maximum, "exclusiveMaximum"),
    (minimum, "minimum"),
    (exclusive_minimum, "exclusiveMinimum"),
    (max_length, "maxLength"),
    (min_length, "minLength"),
    (pattern, "pattern"),
    (max_items, "maxItems"),
    (min_items, "minItems"),
    (unique_items, "uniqueItems"),
    (max_properties, "maxProperties"),
    (min_properties, "minProperties"),
    (required, "required"),
)
"""Validation 6, as far as draft-07 has it too."""

VALIDATION_2020_12: Rows = (
    *VALIDATION,
    (dependent_required, "dependentRequired"),
    (contains_bounds, "minContains", "maxContains"),
)

FORMAT: Rows = ((format_, "format"),)
