"""Target: JSON Schemas and their instances."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable

from mcp_ref.jsonrpc.messages import JSON, Object
from mcp_ref.lib.jsonschema import SchemaError, ValidationLimits, compile_schema
from tests.fuzz.inputs import MAX_INPUT, NUMBERS, value, within_limits, word

PATTERNS = [
    "a", "^a+$", "(a+)+$", "^(a|a)*b", r"\p{L}+", "(?=a)b", r"(a)\1", r"[^\s]{2,999}", "(",
    r"\d{1,3}(?:,\d)*", ".*.*.*x",
]  # fmt: skip
FORMATS = ["date-time", "email", "uri", "ipv6", "regex", "hostname", "unknown", "duration", "uri-template", "idn-email"]
TYPES: list[JSON] = ["object", "array", "string", "integer", "number", "boolean", "null"]


def _keyword(rng: random.Random, depth: int) -> dict[str, JSON]:
    """Return one keyword with a value, which is sometimes invalid."""

    def schema() -> JSON:
        return _schema(rng, depth - 1)

    def schemas() -> JSON:
        return [schema() for _ in range(rng.randint(1, 3))]

    def named() -> JSON:
        return {word(rng): schema() for _ in range(rng.randint(0, 3))}

    values: dict[str, Callable[[], JSON]] = {
        "type": lambda: rng.choice([rng.choice(TYPES), rng.sample(TYPES, 2)]),
        "enum": lambda: [value(rng) for _ in range(3)],
        "const": lambda: value(rng),
        "pattern": lambda: rng.choice(PATTERNS),
        "format": lambda: rng.choice(FORMATS),
        "required": lambda: [word(rng)],
        "dependentRequired": lambda: {word(rng): [word(rng)]},
        "uniqueItems": lambda: True,
        "$ref": lambda: f"#/$defs/{rng.randrange(4)}",
    }
    for name in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"):
        values[name] = lambda: rng.choice(NUMBERS)
    for name in ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxContains", "minContains"):
        values[name] = lambda: rng.choice([0, 1, 2, 3.0, 10**30])
    if depth:
        values |= dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), schemas)
        values |= dict.fromkeys(("properties", "dependentSchemas"), named)
        values["patternProperties"] = lambda: {rng.choice(PATTERNS): schema()}
        for name in ("not", "if", "then", "else", "items", "contains", "propertyNames", "additionalProperties",
                     "unevaluatedItems", "unevaluatedProperties"):  # fmt: skip
            values[name] = schema
    name = rng.choice(sorted(values))
    if rng.random() < 0.02:
        return {rng.choice([name, "$id", "$anchor", "$dynamicRef", "$schema", "$ref"]): value(rng)}
    return {name: values[name]()}


def _schema(rng: random.Random, depth: int) -> Object | bool:
    keywords: Object = {}
    for _ in range(rng.randint(1, 3)):
        keywords |= _keyword(rng, depth)
    boolean: bool = rng.choice([True, False])
    return keywords if rng.random() < 0.95 else boolean


def _doubled(rng: random.Random) -> Object:
    """Return definitions of which each applies the next one twice."""
    keyword = rng.choice(["allOf", "anyOf", "oneOf"])
    names: dict[str, JSON] = {str(number): {keyword: [{"$ref": f"#/$defs/{number + 1}"}] * 2} for number in range(24)}
    return names | {"24": _schema(rng, 1)}


def _large(rng: random.Random) -> JSON:
    """Return an instance of up to `MAX_INPUT` bytes, made of equal or similar parts."""
    part = value(rng)
    count: int = min(MAX_INPUT // max(1, len(json.dumps(part))), 10 ** rng.randint(2, 6))
    match rng.randrange(4):
        case 0:
            return [part] * count
        case 1:
            return {f"{word(rng)}{number}": part for number in range(min(count, MAX_INPUT // 16))}
        case 2:
            return rng.choice(["a", "é", "1,", "a@b.", "::"]) * (count // 2)
    for _ in range(min(count, 1000)):
        part = [part] if rng.random() < 0.5 else {"a": part}
    return part


def check_schema(rng: random.Random) -> None:
    """Check that only SchemaError is raised, that time is bounded, and that `errors`, `not` and `allOf` agree."""
    defs: Object = {str(number): _schema(rng, 2) for number in range(4)}
    if rng.random() < 0.2:
        defs = _doubled(rng)
    schema = _schema(rng, rng.randint(1, 3))
    formats = rng.random() < 0.5
    instance = _large(rng) if rng.random() < 0.2 else value(rng)
    verdicts = []
    wholes: list[JSON] = [schema, {"allOf": [schema]}, {"not": schema}]
    for whole in wholes:
        root: JSON = {**whole, "$defs": defs} if isinstance(whole, dict) else whole
        try:
            with within_limits():
                validator = compile_schema(root, assert_formats=formats)
        except SchemaError:
            return
        start = time.process_time()
        with within_limits():
            is_valid = validator.is_valid(instance)
        with within_limits():
            errors = validator.errors(instance)
        # The limit of time can end one of two equal validations.
        is_slow = time.process_time() - start > ValidationLimits.seconds / 2
        limited = is_slow or any(error.keyword == "limits" for error in errors)
        assert limited or bool(errors) != is_valid, (root, instance, errors)
        assert all(len(str(error)) < 5000 for error in errors), (root, instance, errors)
        verdicts.append((is_valid, limited))
    if not any(limited for _, limited in verdicts):
        valid, repeated, negated = (is_valid for is_valid, _ in verdicts)
        assert valid == repeated != negated, (schema, defs, instance, verdicts)
