"""Keywords that lead to other schemas: references, logic, items and properties, and what nothing else has evaluated.

Each function here, and in assertions.py, reads one keyword of the schema at `here` (or the few that belong together),
complains with a SchemaError when its value is not what the standard allows, and makes the `Keyword` that asserts and
applies it. What can be computed once is computed here, outside of `check`.

Spec:  Core 8.2.3, 10 and 11; "Draft-07 6.4.1" is a section of the older Validation document
Below: model.py. Above: schemas.py finds the schemas and calls these functions.
"""

from __future__ import annotations

from itertools import islice

from .model import TOO_DEEP, Exhausted, Keyword, Node, anything, errors_of, evaluated, part_of
from .words import either, quoted, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeAlias

    from .model import JSON, Run, Step
    from .schemas import Place, Rows

    Applied: TypeAlias = "Iterator[tuple[Step | None, Node]]"

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
        return f"expected {either(list(dict.fromkeys(kinds)))}{got}"
    # Where a property with a fixed value tells the alternatives apart, the one whose value is there was meant.
    telling = [[error for error in errors if error.keyword in ("const", "enum")] for errors in right_type]
    meant = [errors[0] for errors, fixed in zip(right_type, telling, strict=True) if not fixed]
    firsts = meant or [fixed[0] for fixed in telling]
    return either(list(dict.fromkeys(map(str, firsts)))[:4], " -- or ")


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


def dependencies_on_schemas(here: Place) -> Keyword:
    """Draft-07 6.5.7, where a value is a schema: what later became dependentSchemas."""
    rows = here.mapping("dependencies")
    nodes = {key: here.child(value, "dependencies", key) for key, value in rows.items() if not isinstance(value, list)}
    return _dependent("dependencies", here, nodes)


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


def properties(here: Place) -> Keyword:
    """Core 10.3.2.1 to 10.3.2.3: `properties` by name, `patternProperties` by pattern, `additionalProperties` the rest.

    A property may fall under its name and several patterns; the rest is what falls under none.
    """
    named = here.by_name("properties") if "properties" in here else {}
    by_pattern = here.by_name("patternProperties") if "patternProperties" in here else {}
    patterns = [(here.pattern("patternProperties", source), node) for source, node in by_pattern.items()]
    rest = here.one("additionalProperties") if "additionalProperties" in here else None
    for node in named.values():
        if node.never:
            node.refuse("properties", "this property must not be there")
    if rest is not None and rest.never:
        names = f", expected {either(quoted(list(named)))}" if named else ""
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


# ---------------------------------------------------------------------------------------- vocabularies

# Which function reads which keywords. Rows are evaluated in order: what fails cheaply and tells most comes first.

CORE: Rows = ((ref, "$ref"), (dynamic_ref, "$dynamicRef"))
"""Core 8. The other keywords of this vocabulary name schemas; schemas.py reads them."""

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
