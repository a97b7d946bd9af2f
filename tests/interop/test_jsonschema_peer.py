"""Our JSON Schema validator against PyPI `jsonschema`: random schemas and instances, the same from run to run.

Both judge every pair, and any disagreement fails the test. These known differences are not generated:

- `pattern`: PyPI `jsonschema` gives it to Python's `re`. Only expressions that mean the same in ECMA-262 are used.
- `multipleOf` of decimal fractions: PyPI `jsonschema` divides floats, so that 0.3 differs from every multiple of 0.1.
  Halves and quarters are used.
- `uniqueItems` with `true` and 1 nested in arrays, and references that loop: it differs, or never comes back.
- Draft-07 `items: false` beside `additionalItems`: it ends in a TypeError.
"""

import json
import random
import subprocess
from collections.abc import Callable
from pathlib import Path

from mcp_ref.jsonrpc.messages import JSON, Object
from mcp_ref.lib.jsonschema import compile_schema

SCHEMAS, INSTANCES = 8_000, 5
NAMES = ["a", "b", "c", "ab", "long name"]
PATTERNS = ["^a", "b$", "^[a-c]+$", "a.b", "^(a|bc)*$", "[^a]", "^.{2,3}$", "c?b+"]
TYPES = ["object", "array", "string", "integer", "number", "boolean", "null"]
JUDGE = Path(__file__).parent / "peers" / "jsonschema_judge.py"


class Maker:
    """Makes random schemas and instances, from few names and values, so that they often have to do with each other."""

    def __init__(self, seed: int, draft_07: bool) -> None:
        self.random, self.draft_07 = random.Random(seed), draft_07
        self.definitions = "definitions" if draft_07 else "$defs"

    def value(self, depth: int = 3) -> JSON:
        """Return a random instance."""
        kind = self.random.randrange(9 if depth else 5)
        if kind > 6:
            return {name: self.value(depth - 1) for name in self.random.sample(NAMES, self.random.randrange(4))}
        if kind > 4:
            return [self.value(depth - 1) for _ in range(self.random.randrange(4))]
        numbers: list[JSON] = [0, 1, 2, 3, -1, 1.0, 1.5, 2.25, 1e3, 10**20]
        others: list[JSON] = [None, True, False, "", "a", "ab", "abc", "bc", "ä"]
        return self.random.choice(numbers + others)

    def document(self) -> JSON:
        """Return a random schema with definitions. The schema and the definitions refer to the definitions."""
        if self.random.random() < 0.02:
            return self.random.random() < 0.5
        schema = self.schema(3)
        assert isinstance(schema, dict)
        schema[self.definitions] = {name: self.schema(2) for name in ("x", "y")}
        if self.draft_07:
            schema["$schema"] = "http://json-schema.org/draft-07/schema#"
        else:
            schema[self.definitions]["z"] = {"$anchor": "z", **self.keywords(1)}  # type: ignore[index, call-overload]
        return schema

    def schema(self, depth: int) -> JSON:
        """Return a random subschema."""
        if depth < 3 and self.random.random() < 0.1:
            return self.random.random() < 0.7
        return self.keywords(depth)

    def keywords(self, depth: int) -> Object:
        """Return a schema of a few keywords. References are only in subschemas for parts, so that none loops."""
        makers = {**self.assertions(), **(self.applicators(depth - 1) if depth else {})}
        chosen = self.random.sample(sorted(makers), self.random.randrange(1, 4))
        if depth and not self.draft_07 and self.random.random() < 0.2:
            chosen.append(self.random.choice(["unevaluatedProperties", "unevaluatedItems"]))
        return {name: makers[name]() for name in chosen}

    def assertions(self) -> dict[str, Callable[[], JSON]]:
        """Return the functions that make keywords without subschemas, by keyword."""
        pick, size = self.random.choice, self.random.randrange
        names: Callable[[], list[JSON]] = lambda: [*self.random.sample(NAMES, size(1, 3))]  # noqa: E731
        number: Callable[[], JSON] = lambda: pick([-1, 0, 1, 1.5, 2, 2.0, 1000, 10**20])  # noqa: E731
        makers: dict[str, Callable[[], JSON]] = {
            "type": lambda: pick(TYPES) if size(3) else [*self.random.sample(TYPES, 2)],
            "enum": lambda: [self.value(1) for _ in range(3)],
            "const": lambda: self.value(1),
            "multipleOf": lambda: pick([1, 2, 0.5, 0.25, 3, 2.0]),
            "pattern": lambda: pick(PATTERNS),
            "uniqueItems": lambda: bool(size(2)),
            "required": names,
            **dict.fromkeys(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"], number),
            **dict.fromkeys(
                ["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"], lambda: size(3)
            ),
        }
        if not self.draft_07:
            makers["dependentRequired"] = lambda: {pick(NAMES): names()}
        return makers

    def applicators(self, depth: int) -> dict[str, Callable[[], JSON]]:
        """Return the functions that make keywords with subschemas, by keyword."""
        one: Callable[[], JSON] = lambda: self.schema(depth)  # noqa: E731
        many: Callable[[], JSON] = lambda: [one() for _ in range(self.random.randrange(1, 3))]  # noqa: E731
        makers: dict[str, Callable[[], JSON]] = {
            "properties": lambda: {name: self.part(depth) for name in self.random.sample(NAMES, 2)},
            "patternProperties": lambda: {self.random.choice(PATTERNS): self.part(depth)},
            **dict.fromkeys(["additionalProperties", "items", "contains"], lambda: self.part(depth)),
            **dict.fromkeys(["propertyNames", "not", "if", "then", "else"], one),
            **dict.fromkeys(["allOf", "anyOf", "oneOf"], many),
        }
        if self.draft_07:
            demanded: list[JSON] = ["a"]
            makers["dependencies"] = lambda: {self.random.choice(NAMES): self.random.choice([one(), demanded])}
            makers["additionalItems"] = lambda: self.part(depth)
            makers["items"] = lambda: self.random.choice([self.keywords(depth), many()])
        else:
            makers["prefixItems"] = many
            makers["dependentSchemas"] = lambda: {self.random.choice(NAMES): one()}
            makers["minContains"] = makers["maxContains"] = lambda: self.random.randrange(3)
            makers["unevaluatedItems"] = makers["unevaluatedProperties"] = one
        return makers

    def part(self, depth: int) -> JSON:
        """Return a schema for a part of the instance. It can be a reference."""
        if self.random.random() < 0.3:
            references = [f"#/{self.definitions}/x", f"#/{self.definitions}/y", "#"] + ["#z"] * (not self.draft_07)
            return {"$ref": self.random.choice(references)}
        return self.schema(depth)


def test_validator_agrees_with_the_jsonschema_package(peers: Path) -> None:
    cases: list[tuple[JSON, list[JSON]]] = []
    for seed in range(SCHEMAS):
        maker = Maker(seed, draft_07=seed % 5 == 0)
        cases.append((maker.document(), [maker.value() for _ in range(INSTANCES)]))
    lines = [json.dumps({"schema": schema, "instances": instances}) for schema, instances in cases]
    command = [peers / "jsonschema/bin/python", JUDGE]
    judged = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=True, timeout=300)
    verdicts = [json.loads(line) for line in judged.stdout.splitlines()]
    assert len(verdicts) == len(cases)
    counts = {True: 0, False: 0}
    for (schema, instances), theirs in zip(cases, verdicts, strict=True):
        ours = compile_schema(schema)
        for instance, verdict in zip(instances, theirs, strict=True):
            counts[verdict] += 1
            assert ours.is_valid(instance) == verdict, f"{json.dumps(schema)} of {json.dumps(instance)}"
            assert bool(ours.errors(instance)) != verdict
    assert sum(counts.values()) >= 20_000
    assert min(counts.values()) > 4_000, counts  # neither verdict is rare
