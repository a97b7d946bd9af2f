"""A schema before compilation (`SchemaReader`) and after compilation (`CompiledSchema`).

Compilation turns each keyword of a schema into a `Keyword` with up to three functions:

- `check` returns True if an instance is valid (Core 7.6). A validation calls the `check` functions first.
- `message` returns the error text of the keyword. `properties` has none, because its subschemas report all errors.
- `applied` returns the subschemas that the keyword *applies* to the instance or to parts of it (Core 7.5). If there is
  no `message`, `find_errors` looks for the errors in these subschemas. unevaluated.py calls `applied`, too.

A `KeywordBuilder` is a function that builds a `Keyword` from the values that a `SchemaReader` returns. Some builders
build several keywords as one, such as `if`, `then` and `else`. A builder returns None if there is nothing to check.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from .errors import IllegalSchemaError, SchemaError, ValidationError, quoted
from .limits import Budget
from .values import JSON, Check, Path, Step, is_integer, is_number

if TYPE_CHECKING:
    from .patterns import Pattern

Applied = Iterable[tuple[Step | None, "CompiledSchema"]]
"""Applied subschemas, each with the name or index of the part that it checks. None means the whole instance."""
Apply = Callable[[JSON, Budget], Applied]
ERROR_COST = 200
"""The cost of one error text, in steps. Several subschemas can report the same error, so there can be millions."""
Message = str | Callable[..., str]
"""An error text, to which `find_errors` adds the instance, or a function that returns the complete error text."""
KeywordBuilder = Callable[["SchemaReader"], "Keyword | None"]
VocabularyRow = tuple[KeywordBuilder, *tuple[str, ...]]
"""A builder, and the names of the keywords that it builds."""
Vocabulary = tuple[VocabularyRow, ...]
"""A set of keywords (Core 8.1.2), in the order in which a validation checks the keywords."""


class Keyword(NamedTuple):
    """One keyword of a schema, or several that are checked together, such as `if`, `then` and `else`."""

    name: str
    """Name of the keyword, for errors."""
    check: Check
    """A function that returns True if the instance is valid."""
    message: Message = ""
    """Text of the error. If it is empty, the applied subschemas report the errors."""
    applied: Apply | None = None
    """A function that returns the subschemas that the keyword applies to an instance."""


class CompiledSchema:
    """A schema or subschema that can validate instances. `check` calls the checks of all its keywords."""

    __slots__ = ("check", "cost", "false_error", "in_place", "keywords", "location")

    def __init__(self, location: str) -> None:
        self.location = location  # URI and JSON Pointer of the schema, for error messages
        self.check: Check = accept_any
        self.cost = 1  # the steps that a caller of `check` spends for it; the functions of the keywords may spend more
        self.keywords: list[Keyword] = []
        self.false_error: tuple[str, str] | None = None  # for the schema `false`: the keyword and the message
        self.in_place: list[CompiledSchema] = []  # schemas that are applied to the same instance as this schema

    def combine_checks(self) -> None:
        """Combine the checks of all keywords into one function. Up to three are called without a loop, to save time."""
        self.cost = 1 + len(self.keywords)
        checks = [keyword.check for keyword in self.keywords]
        match checks:
            case []:
                self.check = accept_any
            case [one]:
                self.check = one
            case [one, two]:
                self.check = lambda value, budget: one(value, budget) and two(value, budget)
            case [one, two, three]:
                self.check = lambda value, budget: one(value, budget) and two(value, budget) and three(value, budget)
            case _:

                def check_all(instance: JSON, budget: Budget) -> bool:
                    for check in checks:  # noqa: SIM110 - all() with a generator is twice as slow
                        if not check(instance, budget):
                            return False
                    return True

                self.check = check_all

    def set_false(self, keyword: str, message: str) -> None:
        """Turn this schema into the schema `false` (Core 4.3.2). It refuses every instance with this message."""
        self.check, self.false_error = lambda instance, budget: False, (keyword, message)


def accept_any(instance: JSON, budget: Budget) -> bool:
    """Return True for every instance, as the schema `true` does."""
    return True


def find_errors(schema: CompiledSchema, instance: JSON, budget: Budget, path: Path = ()) -> Iterator[ValidationError]:
    """Yield all errors of an invalid instance, in the order of the keywords."""
    budget.spend(schema.cost)
    if schema.false_error:
        budget.spend(ERROR_COST)
        yield ValidationError(path, *schema.false_error)
    for keyword in schema.keywords:
        if not keyword.message and keyword.applied is not None:  # the subschemas report the errors
            for step, subschema in keyword.applied(instance, budget):
                if step is None:  # the subschema applies to the whole instance
                    yield from find_errors(subschema, instance, budget, path)
                else:
                    yield from find_errors(subschema, instance[step], budget, (*path, step))  # type: ignore[index]
        elif not keyword.check(instance, budget):  # the keyword itself reports the error
            budget.spend(ERROR_COST)
            if isinstance(keyword.message, str):
                text = f"{keyword.message}, got {quoted(instance)}"
            else:
                text = keyword.message(instance, budget)
            yield ValidationError(path, keyword.name, text)


class SchemaReader:
    """Access to the keywords of one schema object, for the builders.

    Most methods check and return a keyword's value, or raise SchemaError. compiler.py implements the last three.
    """

    __slots__ = ("asserts_formats", "compiled", "known", "location", "schema")

    def __init__(self, schema: dict[str, JSON], location: str, known: Container[str], asserts_formats: bool) -> None:
        self.schema, self.location = schema, location
        self.known = known  # the keywords of the schema's dialect
        self.asserts_formats = asserts_formats
        self.compiled = CompiledSchema(location)

    def __contains__(self, keyword: str) -> bool:
        return keyword in self.schema and keyword in self.known

    def error(self, keyword: str, expected: str) -> IllegalSchemaError:
        return IllegalSchemaError(self._fault(keyword, expected))

    def unsupported(self, keyword: str, expected: str) -> SchemaError:
        """Return the error for a value that may be legal, but that this package does not accept."""
        return SchemaError(self._fault(keyword, expected))

    def _fault(self, keyword: str, expected: str) -> str:
        return f"{self.location}/{keyword}: expected {expected}, got {quoted(self.schema[keyword])}"

    def string(self, keyword: str) -> str:
        value = self.schema[keyword]
        if not isinstance(value, str):
            raise self.error(keyword, "a string")
        return value

    def mapping(self, keyword: str) -> dict[str, JSON]:
        value = self.schema[keyword]
        if not isinstance(value, dict):
            raise self.error(keyword, "an object")
        return value

    def strings(self, keyword: str, value: JSON) -> list[str]:
        """Return `value`, which must be an array of different strings. The keyword's name is for the error."""
        if isinstance(value, list):
            found = [item for item in value if isinstance(item, str)]
            if len(set(found)) == len(value):
                return found
        raise self.error(keyword, "an array of different strings")

    def number(self, keyword: str) -> int | float:
        value = self.schema[keyword]
        if not is_number(value):
            raise self.error(keyword, "a number")
        return value  # type: ignore[return-value]

    def size(self, keyword: str) -> int:
        value = self.schema[keyword]
        if not is_integer(value) or value < 0:  # type: ignore[operator]
            raise self.error(keyword, "an integer, at least 0")
        return int(value)  # type: ignore[arg-type]

    def subschema(self, keyword: str) -> CompiledSchema:
        """Compile the value of a keyword, which must be a schema."""
        return self.compile(self.schema[keyword], keyword)

    def subschemas(self, keyword: str, may_be_empty: bool = False) -> list[CompiledSchema]:
        """Compile the value of a keyword, which must be an array of schemas."""
        value = self.schema[keyword]
        if not isinstance(value, list) or not (value or may_be_empty):
            raise self.error(keyword, "an array of schemas")
        return [self.compile(schema, keyword, index) for index, schema in enumerate(value)]

    def subschemas_by_name(self, keyword: str) -> dict[str, CompiledSchema]:
        """Compile the value of a keyword, which must be an object whose members are schemas."""
        return {name: self.compile(schema, keyword, name) for name, schema in self.mapping(keyword).items()}

    def record_in_place(self, schemas: list[CompiledSchema]) -> list[CompiledSchema]:
        """Record that subschemas are applied to the same instance as this schema, and return the subschemas."""
        self.compiled.in_place += schemas
        return schemas

    def compile(self, schema: JSON, *steps: str | int) -> CompiledSchema:
        """Compile a subschema. `steps` is the path from this schema to the subschema, as in a JSON Pointer."""
        raise NotImplementedError

    def resolve(self, keyword: str, *, dynamic: bool) -> CompiledSchema:
        """Return the target of a reference. A builder must not read the target's `check`, which can be set later."""
        raise NotImplementedError

    def pattern(self, keyword: str, source: str) -> Pattern:
        """Compile a regular expression."""
        raise NotImplementedError
