"""What a compiled schema is: nodes made of keywords, and three walks over them.

A schema (an object or a boolean) becomes a `Node`. Each of its keywords becomes a `Keyword`, which can do three things,
because Core 7 asks three things of a keyword:

- `check` *asserts*: is this instance good? A closure made once; nothing else runs while instances are valid.
- `applied` *applies* subschemas to parts of the instance (or to the instance itself): it lists them. The errors of
  an invalid instance, and what `unevaluatedProperties` must know, are found by walking these lists.
- `says` puts into words what was expected, when the keyword itself is what failed.

Above: applicators.py and assertions.py make the keywords, schemas.py the nodes.
"""

from __future__ import annotations

from .words import written_path

TYPE_CHECKING = False  # `typing` itself, like `dataclasses`, would be most of this package's import time
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import TypeAlias

    JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"
    Step: TypeAlias = "str | int"
    Check: TypeAlias = "Callable[[JSON, Run], bool]"


class SchemaError(ValueError):
    """A schema that cannot be used: malformed, in an unknown dialect, or with a reference that leads nowhere."""


class ValidationError(ValueError):
    """One thing that is wrong with an instance. `str()` of it is a line that a person or a model can act on.

    path: where, from the instance's root, as property names and array indices. keyword: which keyword of the schema
    failed (or "limits", when the instance was too deep or too costly to check). expected: what should have been there.
    """

    def __init__(self, path: tuple[Step, ...], keyword: str, expected: str) -> None:
        self.path, self.keyword, self.expected = path, keyword, expected
        where = written_path(path)
        super().__init__(f"{where}: {expected}" if where else expected)


class Limits:
    """What a hostile schema or instance can make us do at most.

    depth: how deep schemas may nest in each other, and how many references may be open at once while validating.
    subschemas: how many subschemas are compiled at most, references to other documents included.
    steps: how often a subschema may be applied in one validation, or work of that size; the default is about a second.
    patterns: how many regular expressions a schema may have. pattern: how long each may be, in characters.
    """

    def __init__(
        self,
        *,
        depth: int = 100,
        subschemas: int = 20_000,
        steps: int = 2_000_000,
        patterns: int = 500,
        pattern: int = 2_000,
    ) -> None:
        self.depth, self.subschemas, self.steps = depth, subschemas, steps
        self.patterns, self.pattern = patterns, pattern


class Exhausted(Exception):
    """A validation came to one of its limits. The text says which."""


TOO_DEEP = "too deeply nested to check against this schema"


class Run:
    """One validation: what is left of its limits."""

    __slots__ = ("depth", "steps")

    def __init__(self, limits: Limits) -> None:
        self.depth, self.steps = limits.depth, limits.steps

    def spend(self, steps: int) -> None:
        """Pay for work ahead. Raises Exhausted."""
        self.steps -= steps
        if self.steps < 0:
            raise Exhausted("too costly to check against this schema")


class Keyword:
    """One keyword of a schema (or a few that only make sense together, such as if, then and else).

    applied(instance, run): the subschemas that took part, each with the step from this instance to the part of it that
    it looked at, None for the instance itself. conjunctive: these all must hold, so that their errors are the errors.
    """

    __slots__ = ("applied", "check", "conjunctive", "name", "says")

    def __init__(
        self,
        name: str,
        check: Check,
        says: Callable[[JSON, Run], str] | None = None,
        applied: Callable[[JSON, Run], Iterable[tuple[Step | None, Node]]] | None = None,
        conjunctive: bool = False,
    ) -> None:
        self.name, self.check, self.says, self.applied, self.conjunctive = name, check, says, applied, conjunctive


class Node:
    """A compiled schema. `check` is its keywords' checks in one; `never` is there for `false`: the keyword, and why."""

    __slots__ = ("at", "check", "keywords", "neighbours", "never")

    def __init__(self, at: str) -> None:
        self.at = at  # where it stands, as a URI with a JSON pointer: for messages
        self.check: Check = anything
        self.keywords: list[Keyword] = []
        self.never: tuple[str, str] | None = None
        self.neighbours: list[Node] = []  # the nodes that it applies to the same instance

    def assemble(self, keywords: list[Keyword]) -> None:
        """Make one check of all."""
        self.keywords = keywords
        checks = [keyword.check for keyword in keywords]
        match checks:
            case []:
                self.check = anything
            case [one]:
                self.check = one
            case [one, two]:
                self.check = lambda instance, run: one(instance, run) and two(instance, run)
            case [one, two, three]:
                self.check = lambda instance, run: one(instance, run) and two(instance, run) and three(instance, run)
            case _:

                def every(instance: JSON, run: Run) -> bool:
                    for check in checks:  # noqa: SIM110 - all() with a generator is twice as slow
                        if not check(instance, run):
                            return False
                    return True

                self.check = every

    def refuse(self, keyword: str, why: str) -> None:
        """Become the schema `false` (Core 4.3.2), with the words for it."""
        self.check, self.never = nothing, (keyword, why)


def anything(instance: JSON, run: Run) -> bool:
    """The schema `true`."""
    return True


def nothing(instance: JSON, run: Run) -> bool:
    """The schema `false`."""
    return False


def errors_of(node: Node, instance: JSON, run: Run, path: tuple[Step, ...] = ()) -> Iterator[ValidationError]:
    """All that is wrong, in the schema's order. This second walk is for instances that are known to be bad."""
    run.spend(1)
    if node.never:
        yield ValidationError(path, *node.never)
    for keyword in node.keywords:
        if keyword.conjunctive and keyword.applied is not None:
            for step, part in keyword.applied(instance, run):
                inner = path if step is None else (*path, step)
                yield from errors_of(part, instance if step is None else part_of(instance, step), run, inner)
        elif not keyword.check(instance, run):
            yield ValidationError(path, keyword.name, keyword.says(instance, run) if keyword.says else keyword.name)


def evaluated(keywords: list[Keyword], instance: JSON, run: Run) -> set[Step]:
    """Which properties or items of an instance these keywords of a schema, for which it is valid, have looked at.

    Core 11: these are the annotations of properties, items and their like, from this schema and from all that it
    applies in place; a subschema that failed contributes nothing.
    """
    run.spend(1)
    found: set[Step] = set()
    for keyword in keywords:
        if keyword.applied is not None:
            for step, part in keyword.applied(instance, run):
                if step is None:
                    found |= evaluated(part.keywords, instance, run)
                else:
                    found.add(step)
    return found


def part_of(instance: JSON, step: Step) -> JSON:
    """One step down."""
    return instance[step]  # type: ignore[index]
