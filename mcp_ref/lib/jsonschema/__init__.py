"""JSON Schema, dialects 2020-12 and draft-07: validate a JSON value against a schema, and report its faults.

    check = compile_schema({"type": "object", "properties": {"days": {"type": "integer"}}, "required": ["days"]})
    check.is_valid({"days": 3})                    # True
    [str(e) for e in check.errors({"days": "3"})]  # ['days: expected an integer, got "3"']

A *schema* is an object whose *keywords* constrain a value, the *instance*. Keywords may contain *subschemas*. A schema
is compiled once, to Python functions. One pass over them validates an instance. A second pass collects the errors.

Schemas and instances may come from an attacker (Core 13). So nothing is ever fetched (resources.py), the work of a
validation is bounded (limits.py), and a regular expression cannot hang the process (patterns.py).

Reading order:

    limits.py                               limits, and the budget of one validation
    values.py, errors.py                    JSON's types and equality; exceptions and their messages
    expressions.py, ecma262.py, patterns.py regular expressions with bounded time
    formats.py                              the values of `format`
    model.py                                a schema before and after compilation
    assertions.py                           keywords about one value
    applicators.py, unevaluated.py          keywords that apply subschemas
    resources.py, compiler.py               dialects, URIs and references; from a document to compiled schemas

Spec:  https://json-schema.org/draft/2020-12/json-schema-core ("Core") and …/json-schema-validation ("Validation")
"""

from __future__ import annotations

from collections.abc import Mapping

from .compiler import Compiler
from .errors import SchemaError, ValidationError
from .limits import TOO_DEEP_MESSAGE, Budget, BudgetExceeded, ValidationLimits
from .model import CompiledSchema, find_errors
from .values import JSON

__all__ = ["SchemaError", "ValidationError", "ValidationLimits", "Validator", "compile_schema"]

_LIMITS = ValidationLimits()


class Validator:
    """A compiled schema that validates instances. It keeps no state between calls, so threads may share it.

    Args:
        root: The compiled schema.
        limits: Limits of each validation.
    """

    def __init__(self, root: CompiledSchema, limits: ValidationLimits) -> None:
        self._root, self._limits = root, limits

    def is_valid(self, instance: JSON) -> bool:
        """Return True if an instance is valid. An instance that exceeds the limits is invalid.

        Args:
            instance: A value as `json.loads` returns it.
        """
        try:
            return self._root.check(instance, Budget(self._limits))
        except (BudgetExceeded, RecursionError):
            return False

    def errors(self, instance: JSON, max_errors: int = 8) -> list[ValidationError]:
        """Return the errors of an instance. The list is empty exactly if the instance is valid.

        Args:
            instance: A value as `json.loads` returns it.
            max_errors: Maximum number of errors to return. Default 8.
        """
        found: dict[str, ValidationError] = {}  # by text: several subschemas may report the same error
        try:
            if self._root.check(instance, Budget(self._limits)):
                return []
            for error in find_errors(self._root, instance, Budget(self._limits)):
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

        Args:
            instance: A value as `json.loads` returns it.

        Raises:
            ValidationError: The instance is invalid. The text of the exception contains up to eight errors.
        """
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
    limits: ValidationLimits = _LIMITS,
) -> Validator:
    """Return the validator of a schema.

    Args:
        schema: An object or a boolean, as `json.loads` returns it. Its dialect is 2020-12, unless its `$schema` names
            draft-07 or a metaschema among the documents.
        documents: The schemas that references may lead to, by URI. Nothing else is loaded. Default: no documents.
        assert_formats: True if `format` is checked. By default `format` only annotates, as in the standard.
        limits: Limits of the schema and of each validation. Default: `ValidationLimits()`.

    Raises:
        SchemaError: The schema is malformed or in an unknown dialect. It exceeds the limits. It has a reference that
            leads nowhere, or back to itself without end, or a pattern whose matching time cannot be bounded.
    """
    try:
        root = Compiler(documents or {}, assert_formats, limits).compile_document(schema)
    except RecursionError:
        raise SchemaError("the schema is nested too deeply") from None
    return Validator(root, limits)
