"""JSON Schema (dialects 2020-12 and draft-07): a validator that checks a JSON value against a schema.

    check = compile_schema({"type": "object", "properties": {"days": {"type": "integer"}}, "required": ["days"]})
    check.is_valid({"days": 3})                    # True
    [str(e) for e in check.errors({"days": "3"})]  # ['days: expected an integer, got "3"']

A *schema* is a JSON object, `true` or `false`. Each *keyword* of the object is a rule for a JSON value, the *instance*,
and can contain further schemas, the *subschemas*. `compile_schema` turns a schema into Python functions once, and each
validation calls them. If the instance is invalid, `errors` finds the errors in a second pass.

Because an attacker can send a schema or an instance (Core 13), the package never fetches a URI (resources.py), limits
the work of a validation (limits.py), and limits the time for matching a regular expression (patterns.py).

Reading order:

    limits.py                               the limits, and the counter of a validation's steps
    values.py, errors.py                    JSON's types and equality, and the exceptions
    expressions.py, ecma262.py, patterns.py regular expressions with limited matching time
    formats.py                              the formats that the keyword `format` can name
    model.py                                a schema before and after compilation
    assertions.py                           the keywords without subschemas
    applicators.py, unevaluated.py          the keywords with subschemas
    resources.py, compiler.py               URIs and dialects, and the compiler of a schema

Spec:  https://json-schema.org/draft/2020-12/json-schema-core ("Core") and …/json-schema-validation ("Validation")
"""

from __future__ import annotations

from collections.abc import Mapping

from .errors import IllegalSchemaError, SchemaError, ValidationError
from .limits import TOO_DEEP_MESSAGE, Budget, BudgetExceeded, ValidationLimits
from .model import CompiledSchema, find_errors
from .values import JSON

__all__ = ["IllegalSchemaError", "SchemaError", "ValidationError", "ValidationLimits", "Validator", "compile_schema"]

_LIMITS = ValidationLimits()


class Validator:
    """A compiled schema that validates instances. Several threads can share one validator.

    Args:
        root: The compiled schema.
        limits: Limits of each validation.

    Args of methods:
        instance: A value as `json.loads` returns it.
    """

    def __init__(self, root: CompiledSchema, limits: ValidationLimits) -> None:
        self._root, self._limits = root, limits

    def is_valid(self, instance: JSON) -> bool:
        """Return True if an instance is valid. An instance whose validation exceeds a limit is invalid."""
        try:
            return self._root.check(instance, Budget(self._limits))
        except (BudgetExceeded, RecursionError):
            return False

    def errors(self, instance: JSON, max_errors: int = 8) -> list[ValidationError]:
        """Return the errors of an instance, or an empty list if the instance is valid.

        Args:
            max_errors: Maximum number of errors to return. Default 8.
        """
        found: dict[str, ValidationError] = {}  # by text, because several subschemas can report the same error
        budget = Budget(self._limits)
        try:
            if self._root.check(instance, budget):
                return []
            # the search for the errors has all steps again, but no more time
            for error in find_errors(self._root, instance, Budget(self._limits, budget.end)):
                found.setdefault(str(error), error)
                if len(found) >= max_errors:
                    break
        except BudgetExceeded as limit:
            found[str(limit)] = ValidationError((), "limits", str(limit))
        except RecursionError:
            found[TOO_DEEP_MESSAGE] = ValidationError((), "limits", TOO_DEEP_MESSAGE)
        return list(found.values())

    def validate(self, instance: JSON) -> None:
        """Raise a ValidationError if an instance is invalid.

        Raises:
            ValidationError: The instance is invalid. The text of the exception contains up to eight errors.
        """
        errors = self.errors(instance)
        if len(errors) == 1:
            raise errors[0]
        if errors:
            raise ValidationError((), errors[0].keyword, "; ".join(map(str, errors)))


def compile_schema(
    schema: JSON, *, documents: Mapping[str, JSON] | None = None, assert_formats: bool = False,
    limits: ValidationLimits = _LIMITS,
) -> Validator:  # fmt: skip
    """Return the validator of a schema.

    Args:
        schema: An object or a boolean, as `json.loads` returns it. The member `$schema` names the dialect: 2020-12 (the
            default), draft-07, or a metaschema in `documents`.
        documents: The schemas that a reference can name, by URI. The validator loads no other schema. Default: none.
        assert_formats: True to check `format`. Default: False; the vocabulary `format-assertion` makes it True.
        limits: Limits of the schema and of each validation. Default: `ValidationLimits()`.

    Raises:
        SchemaError: The schema exceeds a limit, has an unknown dialect, or contains a reference without a target, an
            endless loop of references, or a pattern whose matching could take too long.
        IllegalSchemaError: A kind of SchemaError. The schema has a keyword with an illegal value.
    """
    from .compiler import Compiler  # lazy: a server starts before it compiles the schemas of its tools

    try:
        root = Compiler(documents or {}, assert_formats, limits).compile_document(schema)
    except RecursionError:
        raise SchemaError("the schema is nested too deeply") from None
    return Validator(root, limits)
