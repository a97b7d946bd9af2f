"""The keywords of JSON Schema 2020-12 and draft-07, in the order of the two documents that define them.

Each function here reads one keyword of the schema at `here` (or the few that belong together), complains with a
SchemaError when its value is not what the standard allows, and makes the `Keyword` that asserts and applies it. What
is computed once is computed here, outside of `check`.

Spec:  JSON Schema Core 2020-12 and Validation 2020-12 ("Core 10.2.1" below), draft-07 ("Draft-07 6.4.1")
Below: model.py, values.py, patterns.py, formats.py. Above: schemas.py finds the schemas and calls these functions.
"""

from __future__ import annotations

import operator
from itertools import islice

from .formats import FORMATS
from .model import TOO_DEEP, Exhausted, Keyword, Node, anything, errors_of, evaluated, part_of, shown
from .patterns import Pattern, PatternError
from .values import TYPES, canonical, is_multiple, is_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeAlias

    from .model import JSON, Run, Step
    from .schemas import Place

    Applied: TypeAlias = "Iterator[tuple[Step | None, Node]]"
    Builder: TypeAlias = "Callable[[Place], Keyword | None]"
    Rows: TypeAlias = "tuple[tuple[Builder, *tuple[str, ...]], ...]"

# ------------------------------------------------------------------------------------ Core 8.2.3: references


def ref(here: Place) -> Keyword:
    """Core 8.2.3.1: `$ref`."""
    return _reference(here, "$ref", dynamic=False)


def dynamic_ref(here: Place) -> Keyword:
    """Core 8.2.3.2: `$dynamicRef`. Which way it leads is decided while compiling; schemas.py says how."""
    return _reference(here, "$dynamicRef", dynamic=True)


def _reference(here: Place, name: str, dynamic: bool) -> Keyword:
    target = here.refer(name, here.text(name), dynamic)

    def check(instance: JSON, run: Run) -> bool:
        if run.depth <= 0:
            raise Exhausted(TOO_DEEP)
        run.depth -= 1
        good = target.check(instance, run)  # looked up late: a recursive schema is not yet compiled here
        run.depth += 1
        return good

    def applied(instance: JSON, run: Run) -> Applied:
        yield None, target

    return Keyword(name, check, applied=applied, conjunctive=True)


# ------------------------------------------------------------------ Core 10.2.1: subschemas combined by logic


def all_of(here: Place) -> Keyword:
    """Core 10.2.1.1."""
    nodes = here.in_place(here.many("allOf"))
    checks = [node.check for node in nodes]

    def check(instance: JSON, run: Run) -> bool:
        run.spend(len(checks))
        for each in checks:  # noqa: SIM110
            if not each(instance, run):
                return False
        return True

    def applied(instance: JSON, run: Run) -> Applied:
        return ((None, node) for node in nodes)

    return Keyword("allOf", check, applied=applied, conjunctive=True)


def any_of(here: Place) -> Keyword:
    """Core 10.2.1.2."""
    nodes = here.in_place(here.many("anyOf"))
    checks = [node.check for node in nodes]

    def check(instance: JSON, run: Run) -> bool:
        run.spend(len(checks))
        for each in checks:  # noqa: SIM110
            if each(instance, run):
                return True
        return False

    return Keyword("anyOf", check, lambda instance, run: _no_match(nodes, instance, run), _those_that_hold(nodes))


def one_of(here: Place) -> Keyword:
    """Core 10.2.1.3."""
    nodes = here.in_place(here.many("oneOf"))
    checks = [node.check for node in nodes]

    def check(instance: JSON, run: Run) -> bool:
        run.spend(len(checks))
        found = 0
        for each in checks:
            if each(instance, run):
                found += 1
                if found > 1:
                    return False
        return found == 1

    def says(instance: JSON, run: Run) -> str:
        matching = [str(number) for number, each in enumerate(checks, 1) if each(instance, run)]
        if not matching:
            return _no_match(nodes, instance, run)
        return f"expected to match exactly one of {len(nodes)} alternatives, but matches {' and '.join(matching)}"

    return Keyword("oneOf", check, says, _those_that_hold(nodes))


def _those_that_hold(nodes: list[Node]) -> Callable[[JSON, Run], Applied]:
    def applied(instance: JSON, run: Run) -> Applied:
        run.spend(len(nodes))
        return ((None, node) for node in nodes if node.check(instance, run))

    return applied


def _no_match(nodes: list[Node], instance: JSON, run: Run) -> str:
    """Why none of some alternatives matched, in the words of those that were likely meant."""
    failures = [list(islice(errors_of(node, instance, run), 8)) for node in nodes[:20]]
    right_type = [errors for errors in failures if errors[0].keyword != "type" or errors[0].path]
    if not right_type:
        got = f", got {shown(instance)}"
        kinds = [errors[0].expected.removeprefix("expected ").removesuffix(got) for errors in failures]
        return f"expected {_either(list(dict.fromkeys(kinds)))}{got}"
    # Where a property with a fixed value tells the alternatives apart, the one whose value is there was meant.
    telling = [[error for error in errors if error.keyword in ("const", "enum")] for errors in right_type]
    meant = [errors[0] for errors, fixed in zip(right_type, telling, strict=True) if not fixed]
    firsts = meant or [fixed[0] for fixed in telling]
    return _either(list(dict.fromkeys(map(str, firsts)))[:4], " -- or ")


def not_(here: Place) -> Keyword:
    """Core 10.2.1.4. Its subschema never contributes annotations: where it holds, the schema fails."""
    [node] = here.in_place([here.one("not")])
    words = f"expected anything but what matches {shown(here.schema['not'])}"
    return Keyword("not", lambda instance, run: not node.check(instance, run), lambda instance, run: words)


def if_then_else(here: Place) -> Keyword | None:
    """Core 10.2.2.1 to 10.2.2.3. Without `if` the other two mean nothing."""
    names = [name for name in ("if", "then", "else") if name in here]
    nodes = dict(zip(names, here.in_place([here.one(name) for name in names]), strict=True))
    if "if" not in nodes:
        return None
    condition = nodes["if"]
    then, otherwise = nodes.get("then"), nodes.get("else")
    on_true, on_false = (then.check if then else anything), (otherwise.check if otherwise else anything)

    def check(instance: JSON, run: Run) -> bool:
        run.spend(2)
        return on_true(instance, run) if condition.check(instance, run) else on_false(instance, run)

    def applied(instance: JSON, run: Run) -> Applied:
        run.spend(2)
        if condition.check(instance, run):
            yield None, condition
            if then:
                yield None, then
        elif otherwise:
            yield None, otherwise

    return Keyword("if", check, applied=applied, conjunctive=True)


def dependent_schemas(here: Place) -> Keyword:
    """Core 10.2.2.4: the whole object is held to a schema when it has a certain property."""
    return _dependent("dependentSchemas", here, here.by_name("dependentSchemas"))


def _dependent(name: str, here: Place, nodes: dict[str, Node]) -> Keyword:
    here.in_place(list(nodes.values()))

    def applied(instance: JSON, run: Run) -> Applied:
        if isinstance(instance, dict):
            run.spend(len(nodes))
            for trigger, node in nodes.items():
                if trigger in instance:
                    yield None, node

    def check(instance: JSON, run: Run) -> bool:
        return all(node.check(instance, run) for _, node in applied(instance, run))

    return Keyword(name, check, applied=applied, conjunctive=True)


# ---------------------------------------------------------------- Core 10.3: subschemas for items and properties


def items(here: Place) -> Keyword:
    """Core 10.3.1.1 and 10.3.1.2: `prefixItems` for the first items, one by one; `items` for all that follow."""
    return _items(
        here.many("prefixItems") if "prefixItems" in here else [], here.one("items") if "items" in here else None
    )


def items_of_draft_07(here: Place) -> Keyword | None:
    """Draft-07 6.4.1 and 6.4.2: `items` is one schema, or an array that `additionalItems` goes on from."""
    if "items" not in here:
        return None
    if not isinstance(here.schema["items"], list):
        return _items([], here.one("items"))
    rest = here.one("additionalItems") if "additionalItems" in here else None
    return _items(here.many("items", may_be_empty=True), rest)


def _items(first: list[Node], rest: Node | None) -> Keyword:
    if rest is not None and rest.never:
        rest.refuse("items", f"unexpected item, expected at most {len(first)}")
    count, checks = len(first), [node.check for node in first]
    check_rest = rest.check if rest is not None else None

    def check(instance: JSON, run: Run) -> bool:
        if not isinstance(instance, list):
            return True
        run.spend(len(instance))
        for each, item in zip(checks, instance, strict=False):
            if not each(item, run):
                return False
        if check_rest is not None:
            for item in instance[count:] if count else instance:
                if not check_rest(item, run):
                    return False
        return True

    def applied(instance: JSON, run: Run) -> Applied:
        if isinstance(instance, list):
            yield from zip(range(len(instance)), first, strict=False)
            if rest is not None:
                for index in range(count, len(instance)):
                    yield index, rest

    return Keyword("items", check, applied=applied, conjunctive=True)


def contains(here: Place) -> Keyword:
    """Core 10.3.1.3, with Validation 6.4.4 and 6.4.5, minContains and maxContains: how many items must match."""
    node, schema = here.one("contains"), here.schema["contains"]
    least = here.size("minContains") if "minContains" in here else 1
    most = here.size("maxContains") if "maxContains" in here else None

    def matches(instance: list[JSON], run: Run) -> list[int]:
        run.spend(len(instance))
        return [index for index, item in enumerate(instance) if node.check(item, run)]

    def check(instance: JSON, run: Run) -> bool:
        if not isinstance(instance, list):
            return True
        found = len(matches(instance, run))
        return found >= least and (most is None or found <= most)

    def says(instance: JSON, run: Run) -> str:
        assert isinstance(instance, list)
        limits = f"at least {least}" if most is None else f"{least} to {most}"
        return f"expected {limits} matching {shown(schema)}, got {len(matches(instance, run))}"

    def applied(instance: JSON, run: Run) -> Applied:
        if isinstance(instance, list):
            for index in matches(instance, run):
                yield index, node

    return Keyword("contains", check, says, applied)


def contains_bounds(here: Place) -> None:
    """Validation 6.4.4 and 6.4.5: without `contains` they mean nothing, but must be what they should be."""
    for name in ("minContains", "maxContains"):
        if name in here:
            here.size(name)


def properties(here: Place) -> Keyword:
    """Core 10.3.2.1 to 10.3.2.3: `properties` by name, `patternProperties` by pattern, `additionalProperties` the rest.

    A property may fall under its name and several patterns; the rest is what falls under none.
    """
    named = here.by_name("properties") if "properties" in here else {}
    by_pattern = here.by_name("patternProperties") if "patternProperties" in here else {}
    patterns = [(_compiled(here, "patternProperties", source), node) for source, node in by_pattern.items()]
    rest = here.one("additionalProperties") if "additionalProperties" in here else None
    for node in named.values():
        if node.never:
            node.refuse("properties", "this property must not be there")
    if rest is not None and rest.never:
        names = f", expected {_either(_quoted(list(named)))}" if named else ""
        rest.refuse("additionalProperties", f"unexpected property{names}")

    def nodes_for(name: str, run: Run) -> list[Node]:
        found = [named[name]] if name in named else []
        for pattern, node in patterns:
            if pattern.search(name, run):
                found.append(node)
        return found or ([rest] if rest is not None else [])

    def applied(instance: JSON, run: Run) -> Applied:
        if isinstance(instance, dict):
            run.spend(len(instance))
            for name in instance:
                for node in nodes_for(name, run):
                    yield name, node

    checks = {name: node.check for name, node in named.items()}
    check_rest = rest.check if rest is not None else anything

    def check_named(instance: JSON, run: Run) -> bool:
        if isinstance(instance, dict):
            run.spend(len(instance))
            for name, value in instance.items():
                if not checks.get(name, check_rest)(value, run):
                    return False
        return True

    def check_patterns(instance: JSON, run: Run) -> bool:
        if isinstance(instance, dict):
            run.spend(len(instance))
            for name, value in instance.items():
                for node in nodes_for(name, run):
                    if not node.check(value, run):
                        return False
        return True

    return Keyword("properties", check_patterns if patterns else check_named, applied=applied, conjunctive=True)


def property_names(here: Place) -> Keyword:
    """Core 10.3.2.4."""
    node = here.one("propertyNames")

    def check(instance: JSON, run: Run) -> bool:
        if not isinstance(instance, dict):
            return True
        run.spend(len(instance))
        return all(node.check(name, run) for name in instance)

    def says(instance: JSON, run: Run) -> str:
        assert isinstance(instance, dict)
        bad = next(name for name in instance if not node.check(name, run))
        return f"the property name {shown(bad)} is not allowed: {next(errors_of(node, bad, run))}"

    return Keyword("propertyNames", check, says)


# ------------------------------------------------------------------- Core 11: what nothing else has evaluated


def unevaluated_items(here: Place) -> Keyword:
    """Core 11.2."""
    return _unevaluated("unevaluatedItems", "unexpected item", list, here)


def unevaluated_properties(here: Place) -> Keyword:
    """Core 11.3."""
    return _unevaluated("unevaluatedProperties", "unexpected property", dict, here)


def _unevaluated(name: str, refusal: str, kind: type, here: Place) -> Keyword:
    node = here.one(name)
    if node.never:
        node.refuse(name, refusal)
    neighbours = list(here.keywords)  # these two come last, so that all others of the schema are there, and have held

    def applied(instance: JSON, run: Run) -> Applied:
        if isinstance(instance, kind) and isinstance(instance, (list, dict)):
            seen = evaluated(neighbours, instance, run)
            run.spend(len(instance))
            for step in instance if isinstance(instance, dict) else range(len(instance)):
                if step not in seen:
                    yield step, node

    def check(instance: JSON, run: Run) -> bool:
        return all(step is None or node.check(part_of(instance, step), run) for step, _ in applied(instance, run))

    return Keyword(name, check, applied=applied, conjunctive=True)


# ------------------------------------------------------------------------------ Validation 6.1: any instance


def type_(here: Place) -> Keyword:
    """Validation 6.1.1."""
    value = here.schema["type"]
    names = value if isinstance(value, list) else [value]
    known = [name for name in names if isinstance(name, str) and name in TYPES]
    if not known or len(set(known)) != len(names):
        raise here.error("type", f"one of {', '.join(TYPES)}, or an array of different ones")
    tests = [TYPES[name] for name in known]
    words = _either([_A_TYPE[name] for name in known])

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
            return f"expected {words} {_counted(bound, unit)}, got {len(instance)}"

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
    compiled = _compiled(here, "pattern", source)

    def check(instance: JSON, run: Run) -> bool:
        return not isinstance(instance, str) or compiled.search(instance, run)

    return Keyword("pattern", check, lambda instance, run: f"expected a match of {source}, got {shown(instance)}")


def _compiled(here: Place, name: str, source: str) -> Pattern:
    if len(source) > here.limits.pattern:
        raise here.error(name, f"patterns of at most {here.limits.pattern} characters")
    try:
        return Pattern(source)
    except PatternError as error:
        raise here.error(name, f"a regular expression ({error})") from None


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

    return Keyword("required", check, lambda instance, run: _missing(names, instance))


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
        return f"{_missing(sorted(rows[trigger]), instance)}, which {shown(trigger)} demands"

    return Keyword(name, check, says)


def dependencies_on_names(here: Place) -> Keyword:
    """Draft-07 6.5.7, where a value is an array: what later became dependentRequired."""
    rows = here.mapping("dependencies")
    lists: dict[str, JSON] = {key: value for key, value in rows.items() if isinstance(value, list)}
    return _dependent_names("dependencies", here, lists)


def dependencies_on_schemas(here: Place) -> Keyword:
    """Draft-07 6.5.7, where a value is a schema: what later became dependentSchemas."""
    rows = here.mapping("dependencies")
    nodes = {key: here.child(value, "dependencies", key) for key, value in rows.items() if not isinstance(value, list)}
    return _dependent("dependencies", here, nodes)


# ------------------------------------------------------------------------------------ Validation 7: format


def format_(here: Place) -> Keyword | None:
    """Validation 7: an annotation, unless the dialect's vocabulary or the caller asks that it is asserted.

    A format that is not known is an annotation in any case (7.2.3).
    """
    name = here.text("format")
    test = FORMATS.get(name)
    if test is None or not here.asserts_formats:
        return None

    def check(instance: JSON, run: Run) -> bool:
        if not isinstance(instance, str):
            return True
        run.spend(len(instance) // 16)
        return test(instance)

    return Keyword("format", check, lambda instance, run: f"expected a valid {name}, got {shown(instance)}")


# ----------------------------------------------------------------------------------------------- words


def _either(words: list[str], between: str = " or ") -> str:
    """`a, b or c`."""
    words = words[:12] + (["…"] if len(words) > 12 else [])
    if between != " or " or len(words) < 2:
        return between.join(words)
    return ", ".join(words[:-1]) + between + words[-1]


def _counted(number: int, unit: str) -> str:
    return f"{number} {unit}" if number != 1 else "1 " + unit.removesuffix("s").replace("ie", "y")


def _quoted(words: list[str]) -> list[str]:
    return [shown(word) for word in words[:13]]


def _missing(names: list[str], instance: JSON) -> str:
    assert isinstance(instance, dict)
    missing = _quoted([name for name in names if name not in instance])
    return f"missing required propert{'y' if len(missing) == 1 else 'ies'} {', '.join(missing)}"


# ---------------------------------------------------------------------------------------- vocabularies

# Which function reads which keywords. Rows are evaluated in order: what fails cheaply and tells most comes first.

CORE: Rows = ((ref, "$ref"), (dynamic_ref, "$dynamicRef"))
"""Core 8. The other keywords of this vocabulary name schemas; schemas.py reads them."""

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

APPLICATOR: Rows = (
    (items, "prefixItems", "items"),
    (contains, "contains"),
    (properties, "properties", "patternProperties", "additionalProperties"),
    (property_names, "propertyNames"),
    (dependent_schemas, "dependentSchemas"),
    (if_then_else, "if", "then", "else"),
    (all_of, "allOf"),
    (any_of, "anyOf"),
    (one_of, "oneOf"),
    (not_, "not"),
)
"""Core 10."""

UNEVALUATED: Rows = ((unevaluated_items, "unevaluatedItems"), (unevaluated_properties, "unevaluatedProperties"))
"""Core 11. These must be the last."""

FORMAT: Rows = ((format_, "format"),)

DRAFT_07: Rows = (
    (ref, "$ref"),
    *VALIDATION,
    *FORMAT,
    (items_of_draft_07, "items", "additionalItems"),
    *(row for row in APPLICATOR if row[0] not in (items, dependent_schemas)),
    (dependencies_on_names, "dependencies"),
    (dependencies_on_schemas, "dependencies"),
)
"""Draft-07 has no vocabularies: this is all of it."""
