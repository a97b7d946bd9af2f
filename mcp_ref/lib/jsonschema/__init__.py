"""JSON Schema 2020-12 and draft-07: is this value what that schema describes, and if not, what is wrong with it?

    check = compile_schema({"type": "object", "properties": {"days": {"type": "integer"}}, "required": ["days"]})
    check.is_valid({"days": 3})                    # True
    [str(e) for e in check.errors({"days": "3"})]  # ['days: expected an integer, got "3"']

A schema is compiled once, to closures; a valid instance costs one pass over it and nothing else. An invalid one is
walked a second time, for the words. Schemas and instances may come from an enemy: nothing is fetched, and depth, work
and patterns are bounded (see `Limits` and patterns.py).

Reading order, nothing used before it is explained, and nothing else of ours is needed:

    values.py, words.py                     JSON's equality and numbers; messages
    model.py                                what a compiled schema is: nodes, keywords, and two walks over them
    expressions.py, ecma262.py, patterns.py regular expressions that cannot hang
    formats.py                              what `format` means where it is asserted
    assertions.py, applicators.py           the keywords, in the order of the standard's two documents
    schemas.py                              URIs, references, dialects: from a document to nodes

Spec:  https://json-schema.org/draft/2020-12/json-schema-core and …/json-schema-validation
"""

from __future__ import annotations

from .model import TOO_DEEP, Exhausted, Limits, Node, Run, SchemaError, ValidationError, errors_of
from .schemas import Compiler

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .model import JSON

__all__ = ["Limits", "SchemaError", "ValidationError", "Validator", "compile_schema"]

_LIMITS = Limits()


class Validator:
    """A compiled schema. It keeps nothing between calls, so that threads may share it."""

    def __init__(self, root: Node, limits: Limits) -> None:
        self._root, self._limits = root, limits

    def is_valid(self, instance: JSON) -> bool:
        """Whether an instance is valid. One that cannot be judged within the limits is not."""
        try:
            return self._root.check(instance, Run(self._limits))
        except (Exhausted, RecursionError):
            return False

    def errors(self, instance: JSON, most: int = 8) -> list[ValidationError]:
        """What is wrong with an instance, at most so many things; empty exactly when it is valid."""
        found: dict[str, ValidationError] = {}  # by their words: what several subschemas complain of is said once
        try:
            if self._root.check(instance, Run(self._limits)):
                return []
            for error in errors_of(self._root, instance, Run(self._limits)):
                found.setdefault(str(error), error)
                if len(found) >= most:
                    break
        except Exhausted as limit:
            found[str(limit)] = ValidationError((), "limits", str(limit))
        except RecursionError:
            found[TOO_DEEP] = ValidationError((), "limits", TOO_DEEP)
        return list(found.values())

    def validate(self, instance: JSON) -> None:
        """Raise a ValidationError for an instance that is not valid: the first, with the others in its text."""
        errors = self.errors(instance)
        if len(errors) == 1:
            raise errors[0]
        if errors:
            raise ValidationError((), errors[0].keyword, "; ".join(map(str, errors)))


def compile_schema(
    schema: JSON,
    *,
    documents: Mapping[str, JSON] | None = None,
    assert_formats: bool = False,
    limits: Limits = _LIMITS,
) -> Validator:
    """Compile a schema: an object or a boolean, as parsed from JSON.

    It is read as 2020-12, unless its `$schema` says draft-07 or names a metaschema among the documents.

    documents: schemas that references may lead to, by URI; nothing else is ever loaded. assert_formats: whether
    `format` is checked, which the standard leaves to be asked for.

    Raises SchemaError: the schema is malformed, in another dialect, beyond the limits, has a reference that leads
    nowhere, one that leads back to itself without end, or a pattern that cannot be matched in bounded time.
    """
    try:
        root = Compiler(documents or {}, assert_formats, limits).root(schema)
    except RecursionError:
        raise SchemaError("the schema is nested too deeply") from None
    return Validator(root, limits)
