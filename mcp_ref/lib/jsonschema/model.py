"""A schema before and after compilation: `SchemaReader` gives access to its keywords, `CompiledSchema` validates.

Each keyword of a schema becomes a `Keyword` with up to three functions:

- `check` *asserts* (Core 7.6): it returns True if an instance is valid. Validation calls only this function.
- `applied` returns the subschemas that the keyword *applies* (Core 7.5), each with a part of the instance. If an
  instance is invalid, a second walk finds the errors of these subschemas. unevaluated.py uses the function too.
- `message` returns the text of the error, if the keyword itself is violated and not one of its subschemas.

A `KeywordBuilder` is a function that builds one keyword, or a few that belong together. It reads their values with the
`SchemaReader` and prepares all that does not depend on the instance. It returns None if there is nothing to check.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator

from .errors import SchemaError, ValidationError, quoted
from .limits import Budget
from .patterns import Pattern
from .values import JSON, Check, Path, Step, is_integer, is_number

Applied = Iterable[tuple[Step | None, "CompiledSchema"]]
"""Subschemas that were applied, each with the step to its part of the instance, or None for the instance itself."""
Apply = Callable[[JSON, Budget], Applied]
Message = str | Callable[..., str]
"""The beginning of an error text, before the instance. Or a function that returns the whole text for an instance."""
KeywordBuilder = Callable[["SchemaReader"], "Keyword | None"]
VocabularyRow = tuple[KeywordBuilder, *tuple[str, ...]]
"""A function, and the names of the keywords that it builds."""
Vocabulary = tuple[VocabularyRow, ...]
"""The rows of a vocabulary, in the order of evaluation."""


class Keyword:
    """One keyword of a schema, or several that are evaluated together, such as `if`, `then` and `else`.

    Args:
        name: Name of the keyword, for errors.
        check: Returns True if the instance is valid.
        message: Text of the error. Without it, the keyword fails exactly when a subschema that it applies fails.
        applied: Returns the subschemas that the keyword applies to an instance.
    """

    __slots__ = ("applied", "check", "message", "name")

    def __init__(self, name: str, check: Check, message: Message = "", applied: Apply | None = None) -> None:
        self.name, self.check, self.message, self.applied = name, check, message, applied


class CompiledSchema:
    """A schema or subschema that can validate instances. `check` combines the checks of all its keywords."""

    __slots__ = ("check", "false_error", "in_place", "keywords", "location")

    def __init__(self, location: str) -> None:
        self.location = location  # a URI with a JSON Pointer, for messages
        self.check: Check = accept_any
        self.keywords: list[Keyword] = []
        self.false_error: tuple[str, str] | None = None  # keyword and message, if this is the schema `false`
        self.in_place: list[CompiledSchema] = []  # the schemas that this schema applies to the same instance

    def set_keywords(self, keywords: list[Keyword]) -> None:
        """Set the keywords of the schema, and combine their checks into one."""
        self.keywords = keywords
        checks = [keyword.check for keyword in keywords]
        match checks:
            case []:
                self.check = accept_any
            case [one]:
                self.check = one
            case [one, two]:
                self.check = lambda instance, budget: one(instance, budget) and two(instance, budget)
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
        """Turn this schema into `false` (Core 4.3.2), which reports this message."""
        self.check, self.false_error = lambda instance, budget: False, (keyword, message)


def accept_any(instance: JSON, budget: Budget) -> bool:
    """Return True for every instance, as the schema `true` does."""
    return True


def find_errors(schema: CompiledSchema, instance: JSON, budget: Budget, path: Path = ()) -> Iterator[ValidationError]:
    """Yield all errors of an instance that is known to be invalid, in the order of the keywords."""
    budget.spend(1)
    if schema.false_error:
        yield ValidationError(path, *schema.false_error)
    for keyword in schema.keywords:
        if keyword.applied is not None and not keyword.message:
            for step, subschema in keyword.applied(instance, budget):
                if step is None:
                    yield from find_errors(subschema, instance, budget, path)
                else:
                    yield from find_errors(subschema, instance[step], budget, (*path, step))  # type: ignore[index]
        elif not keyword.check(instance, budget):
            text = keyword.message
            text = f"{text}, got {quoted(instance)}" if isinstance(text, str) else text(instance, budget)
            yield ValidationError(path, keyword.name, text)


class SchemaReader:
    """Access to the keywords of one schema object, for the functions that build them.

    A method returns a keyword's value in its standard form, or raises SchemaError. The compiler has the last three.
    """

    __slots__ = ("asserts_formats", "compiled", "keywords", "location", "schema", "supported")

    def __init__(
        self, schema: dict[str, JSON], location: str, supported: Container[str], asserts_formats: bool
    ) -> None:
        self.schema, self.location = schema, location
        self.supported = supported  # the keywords of the schema's dialect
        self.asserts_formats = asserts_formats
        self.keywords: list[Keyword] = []  # the keywords that are already built
        self.compiled = CompiledSchema(location)

    def __contains__(self, keyword: str) -> bool:
        return keyword in self.schema and keyword in self.supported

    def error(self, keyword: str, expected: str) -> SchemaError:
        """Return the error for a keyword whose value is not as expected."""
        return SchemaError(f"{self.location}/{keyword}: expected {expected}, got {quoted(self.schema[keyword])}")

    def string(self, keyword: str) -> str:
        """Return a value that must be a string."""
        value = self.schema[keyword]
        if not isinstance(value, str):
            raise self.error(keyword, "a string")
        return value

    def mapping(self, keyword: str) -> dict[str, JSON]:
        """Return a value that must be an object."""
        value = self.schema[keyword]
        if not isinstance(value, dict):
            raise self.error(keyword, "an object")
        return value

    def strings(self, keyword: str, value: JSON) -> list[str]:
        """Return a value, or a part of one, that must be an array of different strings."""
        if isinstance(value, list):
            found = [item for item in value if isinstance(item, str)]
            if len(set(found)) == len(value):
                return found
        raise self.error(keyword, "an array of different strings")

    def number(self, keyword: str) -> int | float:
        """Return a value that must be a number."""
        value = self.schema[keyword]
        if not is_number(value):
            raise self.error(keyword, "a number")
        return value  # type: ignore[return-value]

    def size(self, keyword: str) -> int:
        """Return a value that must be an integer, at least 0."""
        value = self.schema[keyword]
        if not is_integer(value) or value < 0:  # type: ignore[operator]
            raise self.error(keyword, "an integer, at least 0")
        return int(value)  # type: ignore[arg-type]

    def subschema(self, keyword: str) -> CompiledSchema:
        """Compile a value that must be a schema."""
        return self.compile(self.schema[keyword], keyword)

    def subschemas(self, keyword: str, may_be_empty: bool = False) -> list[CompiledSchema]:
        """Compile a value that must be an array of schemas."""
        value = self.schema[keyword]
        if not isinstance(value, list) or not (value or may_be_empty):
            raise self.error(keyword, "an array of schemas")
        return [self.compile(schema, keyword, index) for index, schema in enumerate(value)]

    def subschemas_by_name(self, keyword: str) -> dict[str, CompiledSchema]:
        """Compile a value that must be an object of schemas."""
        return {name: self.compile(schema, keyword, name) for name, schema in self.mapping(keyword).items()}

    def apply_in_place(self, schemas: list[CompiledSchema]) -> list[CompiledSchema]:
        """Return these schemas, and record that they are applied to the same instance as this schema."""
        self.compiled.in_place += schemas
        return schemas

    def compile(self, schema: JSON, *steps: str | int) -> CompiledSchema:
        """Compile a subschema, to which the steps of a JSON Pointer lead from this schema."""
        raise NotImplementedError

    def resolve(self, keyword: str, *, dynamic: bool) -> CompiledSchema:
        """Return the schema that a reference names. Its `check` is set later, when the schema is compiled."""
        raise NotImplementedError

    def pattern(self, keyword: str, source: str) -> Pattern:
        """Compile a regular expression."""
        raise NotImplementedError
