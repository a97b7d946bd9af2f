"""The applicators: keywords that apply subschemas, such as `$ref`, `allOf`, `items` and `properties`.

An *in-place* applicator, such as `allOf` or `$ref`, applies subschemas to the whole instance. Other applicators, such
as `items`, apply subschemas to the items, properties or property names of the instance.

Each function here builds a `Keyword` (model.py): it compiles the subschemas once, and defines the functions `check`,
`applied` and `message`, which each validation calls. `applied` returns pairs of a step and a subschema. The step is the
index or name of the part to which the subschema applies, or None for the whole instance.

Spec:  Core 8.2.3 and 10. "Draft-07 6.4.1" means section 6.4.1 of draft-07's Validation document
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from .errors import format_count, join_alternatives, quoted, quoted_names
from .limits import TOO_DEEP_MESSAGE, Budget, BudgetExceeded
from .model import Applied, CompiledSchema, Keyword, SchemaReader, Vocabulary, VocabularyRow, accept_any, find_errors
from .values import JSON, Check


def _reference(name: str, *, dynamic: bool) -> VocabularyRow:
    """Return the vocabulary row of `$ref` or `$dynamicRef` (Core 8.2.3)."""

    def build(reader: SchemaReader) -> Keyword:
        target = reader.resolve(name, dynamic=dynamic)

        def check(instance: JSON, budget: Budget) -> bool:
            if budget.depth <= 0:
                raise BudgetExceeded(TOO_DEEP_MESSAGE)
            budget.spend(target.cost)
            budget.depth -= 1
            valid = target.check(instance, budget)  # `build` cannot read `target.check`, which may not be set yet
            budget.depth += 1
            return valid

        return Keyword(name, check, applied=lambda instance, budget: ((None, target),))

    return build, name


def _all_or_any(name: str, *, deciding: bool) -> VocabularyRow:
    """Return the row of `allOf` (Core 10.2.1.1) or `anyOf` (10.2.1.2).

    The keyword's result is `deciding` as soon as one subschema returns it: False for `allOf`, True for `anyOf`.
    """

    def build(reader: SchemaReader) -> Keyword:
        schemas = reader.record_in_place(reader.subschemas(name))
        checks, cost = _checks_and_cost(schemas)

        def check(instance: JSON, budget: Budget) -> bool:
            budget.spend(cost)
            for check_one in checks:
                if check_one(instance, budget) is deciding:
                    return deciding
            return not deciding

        if deciding:  # `anyOf`
            return Keyword(name, check, lambda *args: _no_match_message(schemas, *args), _applied_if_valid(schemas))
        applied = [(None, schema) for schema in schemas]
        return Keyword(name, check, applied=lambda instance, budget: applied)

    return build, name


def one_of(reader: SchemaReader) -> Keyword:
    """Build `oneOf` (Core 10.2.1.3)."""
    schemas = reader.record_in_place(reader.subschemas("oneOf"))
    checks, cost = _checks_and_cost(schemas)

    def check(instance: JSON, budget: Budget) -> bool:
        budget.spend(cost)
        found = 0
        for check_one in checks:
            if check_one(instance, budget):
                found += 1
                if found > 1:
                    return False
        return found == 1

    def message(instance: JSON, budget: Budget) -> str:
        budget.spend(cost)
        matching = [str(number) for number, check_one in enumerate(checks, 1) if check_one(instance, budget)]
        if not matching:
            return _no_match_message(schemas, instance, budget)
        return f"expected a match of only one of {len(checks)} alternatives, but {' and '.join(matching)} match"

    return Keyword("oneOf", check, message, _applied_if_valid(schemas))


def _checks_and_cost(schemas: list[CompiledSchema]) -> tuple[list[Check], int]:
    """Return the checks of subschemas, and the steps of calling each of them once."""
    return [schema.check for schema in schemas], sum(schema.cost for schema in schemas)


def _applied_if_valid(schemas: list[CompiledSchema]) -> Callable[[JSON, Budget], Applied]:
    """Return the function `applied` of a keyword that applies only the subschemas under which the instance is valid."""
    _, cost = _checks_and_cost(schemas)

    def applied(instance: JSON, budget: Budget) -> Applied:
        budget.spend(cost)
        return ((None, schema) for schema in schemas if schema.check(instance, budget))

    return applied


def _no_match_message(schemas: list[CompiledSchema], instance: JSON, budget: Budget) -> str:
    """Return an error text about the alternatives that the author of the instance probably wanted to match."""
    # The text shows few alternatives, so a part of the errors is enough.
    errors_by_schema = [list(islice(find_errors(schema, instance, budget), 8)) for schema in schemas[:20]]
    # If the first error is about `type` and has no path, the whole instance has the wrong type for this alternative.
    right_type = [errors for errors in errors_by_schema if errors[0].keyword != "type" or errors[0].path]
    if not right_type:  # no alternative has its type, so only list the types, from "expected TYPE, got INSTANCE"
        got = f", got {quoted(instance)}"
        types = [errors[0].message.removeprefix("expected ").removesuffix(got) for errors in errors_by_schema]
        return f"expected {join_alternatives(list(dict.fromkeys(types)))}{got}"
    # Alternatives often differ in a property with a fixed value, such as "kind". If the instance has the value of some
    # alternatives, show only their errors. Otherwise, show the values that the alternatives expect.
    errors_of_right_kind, wrong_kinds = list[str](), list[str]()
    for errors in right_type:
        wrong_values = [error for error in errors if error.keyword in ("const", "enum")]
        if wrong_values:
            wrong_kinds.append(str(wrong_values[0]))
        else:
            errors_of_right_kind.append(str(errors[0]))
    shown = list(dict.fromkeys(errors_of_right_kind or wrong_kinds))  # without duplicates
    return join_alternatives(shown[:4], " -- or ")


def not_(reader: SchemaReader) -> Keyword:
    """Build `not` (Core 10.2.1.4). It has no `applied`, because a valid instance must violate the subschema."""
    [schema] = reader.record_in_place([reader.subschema("not")])
    text = f"expected no match of {quoted(reader.schema['not'])}"

    def check(instance: JSON, budget: Budget) -> bool:
        budget.spend(schema.cost)
        return not schema.check(instance, budget)

    return Keyword("not", check, text)


def if_then_else(reader: SchemaReader) -> Keyword | None:
    """Build `if`, `then` and `else` (Core 10.2.2.1 to 10.2.2.3). A schema without `if` ignores `then` and `else`."""
    schemas = {name: reader.subschema(name) for name in ("if", "then", "else") if name in reader}
    reader.record_in_place(list(schemas.values()))
    if "if" not in schemas:
        return None  # only now, because even an ignored `then` or `else` must be a legal schema
    condition = schemas["if"]
    then, otherwise = schemas.get("then"), schemas.get("else")
    on_true = then.check if then else accept_any
    on_false = otherwise.check if otherwise else accept_any
    _, cost = _checks_and_cost(list(schemas.values()))

    def check(instance: JSON, budget: Budget) -> bool:
        budget.spend(cost)
        return on_true(instance, budget) if condition.check(instance, budget) else on_false(instance, budget)

    def applied(instance: JSON, budget: Budget) -> Applied:
        budget.spend(cost)
        if condition.check(instance, budget):
            yield None, condition
            if then:
                yield None, then
        elif otherwise:
            yield None, otherwise

    return Keyword("if", check, applied=applied)


def dependent_schemas(keyword: str) -> VocabularyRow:
    """Return the row of `dependentSchemas` (Core 10.2.2.4), or of the schemas in `dependencies` (Draft-07 6.5.7)."""

    def build(reader: SchemaReader) -> Keyword:
        values = reader.mapping(keyword)
        if keyword == "dependencies":  # `dependent_names` (assertions.py) checks the values that are arrays
            values = {name: value for name, value in values.items() if not isinstance(value, list)}
        schemas = {name: reader.compile(value, keyword, name) for name, value in values.items()}
        _, cost = _checks_and_cost(reader.record_in_place(list(schemas.values())))

        def applied(instance: JSON, budget: Budget) -> Applied:
            if isinstance(instance, dict):
                budget.spend(cost)
                for name, schema in schemas.items():
                    if name in instance:
                        yield None, schema

        def check(instance: JSON, budget: Budget) -> bool:
            if not isinstance(instance, dict):
                return True
            return all(schema.check(instance, budget) for _, schema in applied(instance, budget))

        return Keyword(keyword, check, applied=applied)

    return build, keyword


def items(reader: SchemaReader) -> Keyword:
    """Build `prefixItems`, a schema for each of the first items, and `items` for the rest (Core 10.3.1.1, 10.3.1.2)."""
    first = reader.subschemas("prefixItems") if "prefixItems" in reader else []
    return _items(first, reader.subschema("items") if "items" in reader else None)


def items_of_draft_07(reader: SchemaReader) -> Keyword | None:
    """Build `items`, a schema or an array of schemas, and `additionalItems` (Draft-07 6.4.1, 6.4.2)."""
    if "items" not in reader:
        return None
    if not isinstance(reader.schema["items"], list):
        return _items([], reader.subschema("items"))
    rest = reader.subschema("additionalItems") if "additionalItems" in reader else None
    return _items(reader.subschemas("items", may_be_empty=True), rest)


def _items(first: list[CompiledSchema], rest: CompiledSchema | None) -> Keyword:
    """Build a keyword with a schema for each of the first items, and a schema for all items after them, if any."""
    count = len(first)
    if rest is not None and rest.false_error:  # the schema `false`, which gets a message that says more
        rest.set_false("items", f"unexpected item, expected at most {format_count(count, 'items')}")
    checks, cost = _checks_and_cost(first)
    check_rest, cost_of_rest = (rest.check, rest.cost) if rest is not None else (None, 1)

    def check(instance: JSON, budget: Budget) -> bool:
        if not isinstance(instance, list):
            return True
        budget.spend(cost + len(instance) * cost_of_rest)
        for check_one, item in zip(checks, instance, strict=False):
            if not check_one(item, budget):
                return False
        if check_rest is not None:
            for item in instance[count:] if count else instance:
                if not check_rest(item, budget):
                    return False
        return True

    def applied(instance: JSON, budget: Budget) -> Applied:
        if isinstance(instance, list):
            yield from zip(range(len(instance)), first, strict=False)
            if rest is not None:
                for index in range(count, len(instance)):
                    yield index, rest

    return Keyword("items", check, applied=applied)


def contains(reader: SchemaReader) -> Keyword:
    """Build `contains` (Core 10.3.1.3) with `minContains` and `maxContains` (Validation 6.4.4, 6.4.5)."""
    schema, source = reader.subschema("contains"), reader.schema["contains"]
    least = reader.size("minContains") if "minContains" in reader else 1
    most = reader.size("maxContains") if "maxContains" in reader else None

    def matches(instance: list[JSON], budget: Budget) -> list[int]:
        budget.spend(len(instance) * schema.cost)
        return [index for index, item in enumerate(instance) if schema.check(item, budget)]

    def check(instance: JSON, budget: Budget) -> bool:
        if not isinstance(instance, list):
            return True
        found = len(matches(instance, budget))
        return found >= least and (most is None or found <= most)

    def message(instance: list[JSON], budget: Budget) -> str:
        bounds = f"at least {format_count(least, 'items')}" if most is None else f"{least} to {most} items"
        return f"expected {bounds} matching {quoted(source)}, got {len(matches(instance, budget))}"

    def applied(instance: JSON, budget: Budget) -> Applied:
        return ((index, schema) for index in matches(instance, budget)) if isinstance(instance, list) else ()

    return Keyword("contains", check, message, applied)


def properties(reader: SchemaReader) -> Keyword:
    """Build `properties`, `patternProperties` and `additionalProperties` (Core 10.3.2.1 to 10.3.2.3).

    One property can have several schemas: one for its name, and one for each matching pattern. `additionalProperties`
    applies only to properties without such a schema.
    """
    named = reader.subschemas_by_name("properties") if "properties" in reader else {}
    by_pattern = reader.subschemas_by_name("patternProperties") if "patternProperties" in reader else {}
    patterns = [(reader.pattern("patternProperties", source), schema) for source, schema in by_pattern.items()]
    rest = reader.subschema("additionalProperties") if "additionalProperties" in reader else None
    for schema in named.values():
        if schema.false_error:  # the schema `false`
            schema.set_false("properties", "this property is not allowed")
    if rest is not None and rest.false_error:
        names = f", expected {join_alternatives(quoted_names(list(named)))}" if named else ""
        rest.set_false("additionalProperties", f"unexpected property{names}")

    def schemas_for(name: str, budget: Budget) -> list[CompiledSchema]:
        """Return the schemas that apply to the property of this name."""
        found = [named[name]] if name in named else []
        budget.spend(4 * len(patterns))  # the calls of `search`, which spends its own steps too
        for pattern, schema in patterns:
            if pattern.search(name, budget):
                found.append(schema)
        if not found and rest is not None:
            found.append(rest)
        return found

    def applied(instance: JSON, budget: Budget) -> Applied:
        if isinstance(instance, dict):
            budget.spend(len(instance))
            for name in instance:
                for schema in schemas_for(name, budget):
                    yield name, schema

    checks = {name: schema.check for name, schema in named.items()}
    check_rest, cost_of_rest = (rest.check, rest.cost) if rest is not None else (accept_any, 1)
    highest_cost = max([cost_of_rest, *(schema.cost for schema in named.values())])  # an upper bound for each

    def check_named(instance: JSON, budget: Budget) -> bool:  # for schemas without `patternProperties`, which are usual
        if isinstance(instance, dict):
            budget.spend(len(instance) * highest_cost)
            for name, value in instance.items():
                if not checks.get(name, check_rest)(value, budget):
                    return False
        return True

    def check_patterns(instance: JSON, budget: Budget) -> bool:
        if isinstance(instance, dict):
            budget.spend(len(instance) * highest_cost)
            for name, value in instance.items():
                for schema in schemas_for(name, budget):
                    if not schema.check(value, budget):
                        return False
        return True

    return Keyword("properties", check_patterns if patterns else check_named, applied=applied)


def property_names(reader: SchemaReader) -> Keyword:
    """Build `propertyNames` (Core 10.3.2.4)."""
    schema = reader.subschema("propertyNames")

    def check(instance: JSON, budget: Budget) -> bool:
        if not isinstance(instance, dict):
            return True
        budget.spend(len(instance) * schema.cost)
        return all(schema.check(name, budget) for name in instance)

    def message(instance: dict[str, JSON], budget: Budget) -> str:
        budget.spend(len(instance) * schema.cost)
        bad = next(name for name in instance if not schema.check(name, budget))
        return f"the property name {quoted(bad)} is not allowed: {next(find_errors(schema, bad, budget))}"

    return Keyword("propertyNames", check, message)


REFERENCE: Vocabulary = (_reference("$ref", dynamic=False),)
CORE: Vocabulary = (*REFERENCE, _reference("$dynamicRef", dynamic=True))
"""The references of the core vocabulary (Core 8). resources.py reads the other core keywords, such as `$id`."""

APPLICATOR: Vocabulary = (
    (items, "prefixItems", "items"), (contains, "contains"),
    (properties, "properties", "patternProperties", "additionalProperties"), (property_names, "propertyNames"),
    dependent_schemas("dependentSchemas"), (if_then_else, "if", "then", "else"), _all_or_any("allOf", deciding=False),
    _all_or_any("anyOf", deciding=True), (one_of, "oneOf"), (not_, "not"),
)  # fmt: skip
"""The applicator vocabulary (Core 10). Keywords with a cheap check and a clear error message come first."""
