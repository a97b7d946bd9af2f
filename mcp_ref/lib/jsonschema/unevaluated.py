"""`unevaluatedProperties` and `unevaluatedItems`: the keywords for the properties and items that are left over.

A property is *evaluated* if a keyword applies a subschema to it. The keyword belongs to the schema itself, or to a
subschema for the same object, such as those in `allOf`. `unevaluatedProperties` applies to all other properties, and
`unevaluatedItems` does the same for items. Core 11 finds the evaluated parts by annotations. This module instead asks
the `applied` function of each keyword (model.py) for the parts that have a subschema.

Spec:  Core 11
"""

from __future__ import annotations

from collections.abc import Iterator

from .limits import Budget
from .model import CompiledSchema, Keyword, SchemaReader, Vocabulary, VocabularyRow
from .values import JSON, Step

_EVALUATED_COST = 8
"""Steps of one call of `_evaluated`, which takes the time of this many calls of a simple keyword."""


def _unevaluated(name: str, container_type: type, false_message: str) -> VocabularyRow:
    """Return the row of a keyword for the instances of one container type, which is list or dict."""

    def build(reader: SchemaReader) -> Keyword:
        schema = reader.subschema(name)
        if schema.false_error:  # for the usual value `false`, the error names this keyword
            schema.set_false(name, false_message)
        siblings = list(reader.compiled.keywords)  # complete, because this vocabulary is built last

        def applied(instance: JSON, budget: Budget) -> Iterator[tuple[Step, CompiledSchema]]:
            if isinstance(instance, container_type) and isinstance(instance, (list, dict)):  # the latter is for mypy
                evaluated = _evaluated(siblings, instance, budget)
                budget.spend(len(instance) * schema.cost)
                steps = instance if isinstance(instance, dict) else range(len(instance))
                for step in steps:
                    if step not in evaluated:
                        yield step, schema

        def check(instance: JSON, budget: Budget) -> bool:
            if not isinstance(instance, container_type):
                return True
            parts = applied(instance, budget)
            return all(schema.check(instance[step], budget) for step, _ in parts)  # type: ignore[index]

        return Keyword(name, check, applied=applied)

    return build, name


def _evaluated(keywords: list[Keyword], instance: JSON, budget: Budget) -> set[Step]:
    """Return the properties or items to which these keywords apply subschemas, directly or for the whole instance."""
    budget.spend(_EVALUATED_COST)
    found: set[Step] = set()
    for keyword in keywords:
        if keyword.applied is not None:
            for step, subschema in keyword.applied(instance, budget):
                if step is None:  # the subschema is for the whole instance, and may evaluate parts of it
                    of_subschema = _evaluated(subschema.keywords, instance, budget)
                    found |= of_subschema
                    budget.spend(len(of_subschema))
                else:
                    found.add(step)
    return found


UNEVALUATED: Vocabulary = (
    _unevaluated("unevaluatedItems", list, "unexpected item"),
    _unevaluated("unevaluatedProperties", dict, "unexpected property"),
)
"""The unevaluated vocabulary (Core 11), which must be built last."""
