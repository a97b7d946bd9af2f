"""The keywords for the properties and items that no other keyword has evaluated.

`unevaluatedProperties` needs to know which properties its sibling keywords, and the subschemas applied in place,
have looked at. Core 11 defines this by annotations. Here a second walk over the schema collects them, and only for
schemas that have one of these keywords.

Spec:  Core 11
Below: model.py. Above: resources.py puts the keywords of all vocabularies together.
"""

from __future__ import annotations

from .model import Keyword, child_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .limits import Budget
    from .model import CompiledSchema, SchemaReader, Vocabulary
    from .values import JSON, Step


def unevaluated_items(reader: SchemaReader) -> Keyword:
    """Build `unevaluatedItems` (Core 11.2)."""
    return _unevaluated("unevaluatedItems", "unexpected item", list, reader)


def unevaluated_properties(reader: SchemaReader) -> Keyword:
    """Build `unevaluatedProperties` (Core 11.3)."""
    return _unevaluated("unevaluatedProperties", "unexpected property", dict, reader)


def _unevaluated(name: str, false_message: str, kind: type, reader: SchemaReader) -> Keyword:
    schema = reader.subschema(name)
    if schema.false_error:
        schema.set_false(name, false_message)
    siblings = list(reader.keywords)  # all of them, and all valid: this vocabulary is evaluated last

    def applied(instance: JSON, budget: Budget) -> Iterator[tuple[Step, CompiledSchema]]:
        if isinstance(instance, kind) and isinstance(instance, (list, dict)):
            seen = _evaluated(siblings, instance, budget)
            budget.spend(len(instance))
            for step in instance if isinstance(instance, dict) else range(len(instance)):
                if step not in seen:
                    yield step, schema

    def check(instance: JSON, budget: Budget) -> bool:
        return all(schema.check(child_of(instance, step), budget) for step, _ in applied(instance, budget))

    return Keyword(name, check, applied=applied, requires_all=True)


def _evaluated(keywords: list[Keyword], instance: JSON, budget: Budget) -> set[Step]:
    """Return the properties or items of a valid instance that these keywords, and their subschemas, have evaluated."""
    budget.spend(1)
    found: set[Step] = set()
    for keyword in keywords:
        if keyword.applied is not None:
            for step, subschema in keyword.applied(instance, budget):
                if step is None:
                    found |= _evaluated(subschema.keywords, instance, budget)
                else:
                    found.add(step)
    return found


UNEVALUATED: Vocabulary = (
    (unevaluated_items, "unevaluatedItems"),
    (unevaluated_properties, "unevaluatedProperties"),
)
"""The vocabulary of Core 11. It must be evaluated last."""
