"""JSON Schema: the official suite of 2020-12, the differences of draft-07, formats, messages, and hostile input."""

from __future__ import annotations

import itertools
import json
import random
import re
import subprocess
import sys
from calendar import monthrange
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcp_ref.jsonrpc.messages import JSON
from mcp_ref.lib.jsonschema import SchemaError, ValidationError, ValidationLimits, compile_schema
from mcp_ref.lib.jsonschema.ecma262 import Parser
from mcp_ref.lib.jsonschema.errors import quoted
from mcp_ref.lib.jsonschema.expressions import Automaton, PatternError
from mcp_ref.lib.jsonschema.formats import FORMATS
from mcp_ref.lib.jsonschema.limits import Budget, BudgetExceeded
from mcp_ref.lib.jsonschema.patterns import Pattern
from mcp_ref.lib.jsonschema.resources import resolve_uri
from tests.metaschemas import METASCHEMAS
from tests.settings import DATA, ROOT

SUITE = DATA / "json-schema-suite" if DATA is not None else None
DRAFT_07 = "http://json-schema.org/draft-07/schema#"

# ------------------------------------------------------------------------------------------- the official suite


def _remotes() -> dict[str, JSON]:
    """Return the documents of the suite, by the URIs that its references expect."""
    assert SUITE is not None
    folder = SUITE / "remotes"
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*.json")}
    return {f"http://localhost:1234/{name}": json.loads(path.read_text("utf-8")) for name, path in files.items()}


def _files() -> list[Path]:
    return sorted((SUITE / "draft2020-12").glob("*.json")) if SUITE is not None else []


@pytest.mark.skipif(SUITE is None, reason="the official JSON Schema suite is not reader: set MCP_REF_DATA")
@pytest.mark.parametrize("path", _files(), ids=lambda path: path.stem)
def test_compile_schema_passes_every_required_test_of_the_official_suite(path: Path) -> None:
    documents = {**METASCHEMAS, **_remotes()}
    for group in json.loads(path.read_text("utf-8")):
        validator = compile_schema(group["schema"], documents=documents)
        for case in group["tests"]:
            name = f"{group['description']}: {case['description']}"
            assert validator.is_valid(case["data"]) == case["valid"], name
            assert bool(validator.errors(case["data"])) != case["valid"], name


@pytest.mark.skipif(SUITE is None, reason="the official JSON Schema suite is not reader: set MCP_REF_DATA")
def test_official_suite_is_complete() -> None:
    groups = [group for path in _files() for group in json.loads(path.read_text("utf-8"))]
    assert sum(len(group["tests"]) for group in groups) >= 1_299


# ------------------------------------------------------------------------------------------------- draft-07

DIFFERENCES: list[tuple[str, dict[str, JSON], list[JSON], list[JSON]]] = [
    ("definitions", {"definitions": {"a": {"type": "null"}}, "allOf": [{"$ref": "#/definitions/a"}]}, [None], [1]),
    ("items may be an array", {"items": [{"type": "null"}, {"type": "string"}]}, [[], [None, "a", 1]], [["a"], [None,
        1]]),
    ("additionalItems goes on from it", {"items": [True], "additionalItems": {"type": "null"}}, [[1, None]], [[1, 1]]),
    ("additionalItems may be false", {"items": [{}], "additionalItems": False}, [[1]], [[1, 2]]),
    ("additionalItems needs an array", {"items": {}, "additionalItems": False}, [[1, 2, 3]], []),
    ("additionalItems needs items", {"additionalItems": False}, [[1]], []),
    ("an empty array of items", {"items": [], "additionalItems": False}, [[]], [[1]]),
    ("dependencies of names", {"dependencies": {"a": ["b"]}}, [{}, {"b": 1}, {"a": 1, "b": 1}], [{"a": 1}]),
    ("dependencies of schemas", {"dependencies": {"a": {"required": ["b"]}}}, [{}, {"a": 1, "b": 1}, 1], [{"a": 1}]),
    ("dependencies of booleans", {"dependencies": {"a": False}}, [{}], [{"a": 1}]),
    ("$ref hides its siblings", {"allOf": [{"$ref": "#/definitions/a", "type": "null"}], "definitions": {"a": {}}},
        [1], []),
    ("$ref hides an $id", {"allOf": [{"$ref": "#/definitions/a", "$id": "x"}], "definitions": {"a": {}}}, [1], []),
    ("an $id beside $ref is no anchor", {"allOf": [{"$ref": "#a"}], "definitions": {
        "x": {"$id": "#a", "type": "null"}, "y": {"$id": "#a", "$ref": "#/definitions/z"}, "z": {"type": "integer"}}},
        [None], [1]),
    (
        "$id may be an anchor",
        {"allOf": [{"$ref": "#a"}], "definitions": {"x": {"$id": "#a", "type": "null"}}},
        [None],
        [1],
    ),
    (
        "$id changes the base",
        {
            "$id": "http://x.example/root.json",
            "allOf": [{"$ref": "folder/item.json"}],
            "definitions": {"i": {"$id": "folder/item.json", "items": {"$ref": "other.json"}},
                            "o": {"$id": "folder/other.json", "type": "null"}},
        },
        [[None]],
        [[1]],
    ),
    ("contains counts nothing", {"contains": {"const": 1}, "minContains": 2}, [[1]], [[]]),
    ("later keywords mean nothing", {"dependentRequired": {"a": ["b"]}, "prefixItems": [False]}, [{"a": 1}, [1]], []),
    ("unevaluated ones neither", {"unevaluatedProperties": False, "unevaluatedItems": False}, [{"a": 1}, [1]], []),
    ("$anchor is no name", {"definitions": {"a": {"$anchor": "a"}, "b": {"$anchor": "a"}}}, [1], []),
    ("if, then, else", {"if": {"const": 1}, "then": False, "else": {"type": "integer"}}, [2], [1, "a"]),
    ("propertyNames", {"propertyNames": {"maxLength": 1}}, [{"a": 1}], [{"ab": 1}]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "schema", "good", "bad"), DIFFERENCES, ids=[row[0] for row in DIFFERENCES])
def test_draft_07_differs_from_2020_12(name: str, schema: dict[str, JSON], good: list[JSON], bad: list[JSON]) -> None:
    validator = compile_schema({"$schema": DRAFT_07, **schema})
    assert [validator.is_valid(instance) for instance in good] == [True] * len(good)
    assert [validator.is_valid(instance) for instance in bad] == [False] * len(bad)
    assert all(validator.errors(instance) for instance in bad)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("x" * 78, '"' + 78 * "x" + '"'),
        ("x" * 80, '"' + 78 * "x" + "\u2026"),
        ("x" * 81, '"' + 60 * "x" + '"\u2026 (81 characters)'),
        ([0] * 80, "[" + 26 * "0, " + "\u2026"),
        ([0] * 81, "an array of 81 items"),
        ({str(n): 0 for n in range(80)}, ", ".join(f'"{n}": 0' for n in range(10)).join(["{", "\u2026"])),
        ({str(n): 0 for n in range(81)}, "an object with 81 properties"),
        (2**320 - 1, str(2**320 - 1)[:79] + "\u2026"),
        (2**320, "a number with too many digits"),
    ],
)
def test_quoted_value_is_shortened(value: JSON, text: str) -> None:
    assert quoted(value) == text


def test_metaschema_of_each_dialect_is_valid_by_itself() -> None:
    for uri in ("http://json-schema.org/draft-07/schema", "https://json-schema.org/draft/2020-12/schema"):
        validator = compile_schema({"$ref": uri}, documents=METASCHEMAS)
        assert not validator.errors(METASCHEMAS[uri])
        assert validator.errors({"type": "strange"}) and validator.errors({"properties": {"a": {"minLength": -1}}})


def test_schema_keyword_gives_a_subschema_with_id_another_dialect() -> None:
    for uri in (DRAFT_07, DRAFT_07.removesuffix("#")):
        old: JSON = {"$id": "http://x.example/old", "$schema": uri, "items": [{"type": "null"}]}
        validator = compile_schema({"prefixItems": [{"$ref": "http://x.example/old"}], "$defs": {"old": old}})
        assert validator.is_valid([[None]]) and not validator.is_valid([[1]])


def test_ref_to_a_document_without_schema_keyword_keeps_the_dialect() -> None:
    documents: dict[str, JSON] = {"http://x.example/a": {"items": [{"type": "null"}]}}
    schema: JSON = {"$schema": DRAFT_07, "properties": {"a": {"$ref": "http://x.example/a"}}}
    assert not compile_schema(schema, documents=documents).is_valid({"a": [1]})
    with pytest.raises(SchemaError, match="expected a schema"):
        compile_schema({"$ref": "http://x.example/a"}, documents=documents)


# ------------------------------------------------------------------------------------- malformed schemas

MALFORMED: list[tuple[JSON, str]] = [
    (1, "#: expected a schema (an object, true or false), got 1"),
    ({"properties": {"a": 1}}, "#/properties/a: expected a schema"),
    ({"type": "strange"}, '#/type: expected one of object, array, string, integer, number, boolean, null, or an array'),
    ({"type": ["null", "null"]}, "#/type: expected"),
    ({"type": []}, "#/type: expected"),
    ({"minLength": -1}, "#/minLength: expected an integer, at least 0, got -1"),
    ({"minLength": True}, "#/minLength: expected an integer, at least 0, got true"),
    ({"maxItems": 1.5}, "#/maxItems: expected an integer, at least 0, got 1.5"),
    ({"maxContains": "1"}, "#/maxContains: expected"),
    ({"minimum": "1"}, '#/minimum: expected a number, got "1"'),
    ({"multipleOf": 0}, "#/multipleOf: expected a number above 0, got 0"),
    ({"required": "a"}, "#/required: expected an array of different strings"),
    ({"required": ["a", "a"]}, "#/required: expected an array of different strings"),
    ({"enum": 1}, "#/enum: expected an array"),
    ({"uniqueItems": 1}, "#/uniqueItems: expected true or false, got 1"),
    ({"pattern": "("}, "#/pattern: expected a regular expression (missing ) at character 1)"),
    ({"patternProperties": {"[": True}}, "#/patternProperties: expected a regular expression"),
    ({"allOf": []}, "#/allOf: expected an array of schemas"),
    ({"items": [{}]}, "#/items: expected a schema"),
    ({"properties": []}, "#/properties: expected an object"),
    ({"properties": {"a/b~": {"$ref": 1}}}, "#/properties/a~1b~0/$ref: expected a string, got 1"),
    ({"format": 1}, "#/format: expected a string"),
    ({"$ref": "#/$defs/a"}, '#/$ref: the pointer "/$defs/a" names no value in the schema'),
    ({"$ref": "#a"}, '#/$ref: unknown anchor "a" in the schema'),
    ({"$ref": "http://x.example/"}, '#/$ref: unknown schema "http://x.example/": pass it in `documents`, because'),
    ({"$ref": "file:///etc/passwd"}, "no URI is fetched"),
    ({"$id": "http://x.example/", "$ref": "a.json"}, 'unknown schema "http://x.example/a.json"'),
    ({"$id": "http://x.example/#a"}, "allows no fragment"),
    ({"$defs": {"a": {"$anchor": "x"}, "b": {"$anchor": "x"}}}, 'the anchor "x" is defined twice'),
    ({"$schema": "http://json-schema.org/draft-04/schema#"},
        "use https://json-schema.org/draft/2020-12/schema or"),
    ({"$schema": 7}, "$schema: expected a URI, got 7"),
    ({"$ref": "#"}, "refers to itself without end"),
    ({"$defs": {"a": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/b"}]}, "b": {"not": {"$ref": "#/$defs/a"}}},
        "items": {"$ref": "#/$defs/a"}}, "refers to itself without end"),
    ({"$dynamicAnchor": "a", "if": {"$dynamicRef": "#a"}}, "refers to itself without end"),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "words"), MALFORMED, ids=[json.dumps(row[0])[:60] for row in MALFORMED])
def test_compile_schema_refuses_a_malformed_schema_with_location_and_reason(schema: JSON, words: str) -> None:
    with pytest.raises(SchemaError) as caught:
        compile_schema(schema)
    assert words in str(caught.value)


def test_vocabulary_unknown_and_required_is_refused() -> None:
    core = "https://json-schema.org/draft/2020-12/vocab/core"
    for required in (True, False):
        metaschema: JSON = {"$vocabulary": {core: True, "http://x.example/vocabulary": required}}
        documents = {"http://x.example/dialect": metaschema}
        schema: JSON = {"$schema": "http://x.example/dialect", "type": "null"}
        if required:
            with pytest.raises(SchemaError, match=r"requires the unknown vocabulary .http://x\.example/vocabulary"):
                compile_schema(schema, documents=documents)
        else:
            assert compile_schema(schema, documents=documents).is_valid(1)  # it has no `type`


RESOLVED = (
    "g:h|g:h g|http://a/b/c/g ./g|http://a/b/c/g g/|http://a/b/c/g/ /g|http://a/g //g|http://g ?y|http://a/b/c/d;p?y "
    "g?y|http://a/b/c/g?y ;x|http://a/b/c/;x g;x|http://a/b/c/g;x .|http://a/b/c/ ./|http://a/b/c/ ..|http://a/b/ "
    "../|http://a/b/ ../g|http://a/b/g ../..|http://a/ ../../|http://a/ ../../g|http://a/g ../../../g|http://a/g "
    "../../../../g|http://a/g /./g|http://a/g /../g|http://a/g g.|http://a/b/c/g. .g|http://a/b/c/.g "
    "g..|http://a/b/c/g.. ..g|http://a/b/c/..g ./../g|http://a/b/g ./g/.|http://a/b/c/g/ g/./h|http://a/b/c/g/h "
    "g/../h|http://a/b/c/h g;x=1/./y|http://a/b/c/g;x=1/y g;x=1/../y|http://a/b/c/y g?y/./x|http://a/b/c/g?y/./x"
)
"""References and the URIs that they mean, seen from `http://a/b/c/d;p?q`: the examples of RFC 3986 5.4."""


def test_resolve_uri_gives_the_examples_of_rfc_3986() -> None:
    for row in RESOLVED.split():
        reference, _, expected = row.partition("|")
        assert resolve_uri("http://a/b/c/d;p?q", reference) == expected, reference
    assert resolve_uri("http://a/b/c/d;p?q", "") == "http://a/b/c/d;p?q"
    assert resolve_uri("http://a", "g") == "http://a/g"
    assert resolve_uri("urn:example:a", "urn:example:b") == "urn:example:b"
    assert resolve_uri("", "a/../b") == "a/../b"


# ----------------------------------------------------------------------------------------------- numbers


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "integer"}, [1, 1.0, -0.0, 1e300, 10**400], [True, 1.5, "1", None, float("inf")]),
        ({"type": "number"}, [1, 1.5], [True, "1"]),
        ({"const": 1}, [1, 1.0], [True, "1"]),
        ({"const": True}, [True], [1, 1.0, "true"]),
        ({"enum": [[1], {"a": 0}]}, [[1.0], {"a": 0.0}], [[True], {"a": False}, "[1]"]),
        ({"uniqueItems": True}, [[1, True, "1", [1], [True], {"a": 1}, {"a": True}]], [[1, 1.0], [{"a": 1, "b": 2},
            {"b": 2.0, "a": 1}]]),
        ({"multipleOf": 0.1}, [0.3, 0.7, 1.1, 1e22, 5], [0.35, 0.01]),
        ({"multipleOf": 0.0001}, [0.0075, 123456789.1234], [0.00751]),
        ({"multipleOf": 1e-8}, [12391239123], [1e-9]),
        ({"multipleOf": 0.123456789}, [0.123456789, 123.456789], [1e308]),
        ({"multipleOf": 3}, [9 * 10**30, 9.0, 3e30], [10**30, 1e30, float("inf")]),
        ({"multipleOf": 1e300}, [3e300, 10**301], [10**299]),
        ({"maximum": 9007199254740992}, [9007199254740992.0], [9007199254740993]),
        ({"exclusiveMinimum": 0.1}, [0.2], [0.1, 0]),
        ({"maxLength": 2}, ["😀😀"], ["😀😀😀"]),
        ({"minLength": 2.0}, ["ab"], ["a"]),
    ],
)  # fmt: skip
def test_is_valid_compares_numbers_as_json_does(schema: JSON, good: list[JSON], bad: list[JSON]) -> None:
    validator = compile_schema(schema)
    assert [instance for instance in good if not validator.is_valid(instance)] == []
    assert [instance for instance in bad if validator.is_valid(instance)] == []
    assert all(str(error) for instance in bad for error in validator.errors(instance))


# ----------------------------------------------------------------------------------------------- formats

LAST_DAYS = [f"2023-{month:02}-{monthrange(2023, month)[1]}" for month in range(1, 13)]
NO_DAYS = [f"2023-{month:02}-{monthrange(2023, month)[1] + 1}" for month in range(1, 13)]
LONGEST_NAME = ".".join(["a" * 63] * 3 + ["a" * 61])
"""A host name of 253 characters."""

WELL_FORMED: dict[str, tuple[list[str], list[str]]] = {
    "date": (["2024-02-29", "2000-02-29", *LAST_DAYS], ["2023-02-29", "1900-02-29", "2024-13-01", "2024-1-01",
        "\u0662024-01-01", *NO_DAYS]),
    "time": (["08:30:06.283185Z", "23:59:60Z", "01:29:60+01:30"], ["24:00:00Z", "08:30:06", "22:59:60Z", "08:30Z"]),
    "date-time": (["1990-12-31T23:59:60Z", "2024-01-01t00:00:00z"], ["2024-01-01 00:00:00Z", "2024-01-01T00:00:00"]),
    "duration": (["P4DT12H30M5S", "P1Y", "P2W", "PT36H"], ["P", "PT", "P1YT", "P1D2H", "P1Y2W", "4D", "PT1H5S"]),
    "email": (["joe@x.example", "te~st@x.example", '"a b"@x.example', "a@[127.0.0.1]", "a@[IPv6:::1]",
        "a" * 64 + "@x"], ["a" * 65 + "@x", "x", "a..b@x.example", ".a@x.example", "ä@x.example", "a b@x.example",
        "a@-x", "@x"]),
    "idn-email": (["실례@실례.테스트"], ["2962"]),
    "hostname": (["www.x.example", "a-1", "xn--4gbwdl.xn--wgbh1c", LONGEST_NAME], ["-a", "a-", "a_b", "", "a..b",
        "a" * 64, "é.example", "xn--X", LONGEST_NAME + "a"]),
    "idn-hostname": (["실례.테스트", "x.example", LONGEST_NAME], ["a b", "-ä", "ä-", "a" * 64, "", LONGEST_NAME + "a"]),
    "ipv4": (["192.168.0.1", "0.0.0.0"], ["256.0.0.1", "1.2.3", "01.2.3.4", "1.2.3.4.5", "1.2.3.\u096a"]),
    "ipv6": (["::1", "::", "1:2:3:4:5:6:7:8", "::ffff:1.2.3.4", "1::8"], ["12345::", "1::2::3", "::1%eth0",
        "1:2:3:4:5:6:7", ":1", "1:2:3:4:5:6:7:1.2.3.4", "1.2.3.4::", "1:::2", ""]),
    "uri": (["http://x.example/?a=b#c", "urn:a:b", "http://[::1]:80/", "mailto:a@b"], ["//x.example/", "/a", "a b:c",
        "http://x.example/<>", "http://[x]/", "http://x:a/", "http://x.example/%zz", "http://ä.example/", ":a",
        "http://x.example/?a=[1]", "http://x.example/#[", "http://x.example/["]),
    "uri-reference": (["/a", "#a", "", "a:b", "?"], ["\\\\a", "#a\\b", "1:b", "#a#b"]),
    "iri": (["http://ƒøø.example/é"], ["/a", "http://x.example/ä b"]),
    "iri-reference": (["/é"], ["\\é"]),
    "uri-template": (["http://x.example/{a}/{b,c*}{?d:3}"], ["http://x.example/{a", "{}", "{a..b}", "}"]),
    "uuid": (["2EB8AA08-AA98-11EA-B4AA-73B441D16380"], ["2eb8aa08aa9811eab4aa73b441d16380",
        "2eb8aa08-aa98-11ea-b4aa-73b441d1638"]),
    "json-pointer": (["", "/a~1b/~0", "/"], ["a", "/~", "#/a"]),
    "relative-json-pointer": (["0#", "1/a", "2+1/a"], ["/a", "01/a", "-1/a", "1##"]),
    "regex": (["a+", "a" * 10_000, r"^\p{L}$", "(?<a>b)\\k<a>", "[]", "[^]", "a{", "]"], ["a" * 10_001, "(", "a**",
        "[b-a]", r"\Z", r"\a", "(?P<a>b)", "(?i)a", r"\p{Strange}", "a{2,1}", r"\2(" , "*", "[a", "\\", r"\k<b>",
        "a{99999}"]),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_format_is_checked_only_with_assert_formats(name: str) -> None:
    good, bad = WELL_FORMED[name]
    asserting = compile_schema({"format": name}, assert_formats=True)
    assert [text for text in good if not asserting.is_valid(text)] == []
    assert [text for text in bad if asserting.is_valid(text)] == []
    assert asserting.is_valid(1)
    assert all(compile_schema({"format": name}).is_valid(text) for text in bad)
    assert str(asserting.errors(bad[0])[0]).startswith(f"expected a valid {name}, got ")


@pytest.mark.parametrize(
    ("name", "text", "is_valid"),
    [
        ("regex", "a" * 80, True),
        ("regex", "a" * 81, False),
        ("json-pointer", "/" * 8_007, True),
        ("json-pointer", "/" * 8_008, False),
    ],
)
def test_format_regex_costs_a_hundred_times_the_steps_of_another_format(name: str, text: str, is_valid: bool) -> None:
    validator = compile_schema({"format": name}, assert_formats=True, limits=ValidationLimits(steps=1_000))
    assert validator.is_valid(text) == is_valid


def test_format_unknown_is_ignored() -> None:
    assert compile_schema({"format": "strange"}, assert_formats=True).is_valid("x")


# ----------------------------------------------------------------------------------------------- patterns


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        (r"^\d$", ["1"], ["१"]),
        (r"^\w$", ["a", "_"], ["é"]),
        (r"^\s$", ["\ufeff", "\u3000", "\n"], ["a", "\u200b"]),
        (r"^\S\W\D$", ["a a"], ["a a "]),
        ("^a$", ["a"], ["a\n", "ba"]),
        ("^.$", ["😀", "a", "\x85"], ["\n", "\u2028", ""]),
        (r"^\p{Lu}\p{Letter}+\P{L}$", ["Éa1"], ["éa1", "Éaa"]),
        (r"[^\p{L}\d]", ["-"], ["a1"]),
        (r"^[\w.-]+$", ["a-b.c"], ["a b"]),
        (r"^\x41\u0042\u{43}\ud83d\ude00\cJ\0\t$", ["ABC😀\n\0\t"], ["ABC"]),
        (r"\bcat\b", ["a cat.", "cat"], ["concat", "cats"]),
        (r"^\B$", [""], ["a"]),
        ("^(a|b|)c{2}?d{2,}?$", ["ccdd", "accddd"], ["cdd", "abccdd"]),
        ("^(?=.*[0-9])(?=.*[a-z]).{4,8}$", ["ab12"], ["abcd", "1234"]),
        (r"^(?<q>['\"])x\k<q>\1$", ["'x''"], ["'x\"'"]),
        ("[^]", ["\n"], [""]),
        ("[]", [], ["", "a"]),
        ("a{,2}", ["a{,2}"], ["aa"]),
    ],
)
def test_pattern_has_the_meaning_of_ecma_262(pattern: str, good: list[str], bad: list[str]) -> None:
    validator = compile_schema({"pattern": pattern})
    assert [text for text in good if not validator.is_valid(text)] == []
    assert [text for text in bad if validator.is_valid(text)] == []


def _random_pattern(source: random.Random, depth: int) -> str:
    def inner() -> str:
        return _random_pattern(source, depth - 1)

    kind = source.randrange(20) if depth else 0
    if kind < 6:
        return source.choice(["a", "b", "[ab]", "[^a]", r"\w", r"\d", "1", r"\s", r"\W", "[b-d1]", "-", r"\D"])
    if kind < 10:
        return inner() + inner()
    if kind < 13:
        return f"(?:{inner()}|{inner()})"
    if kind < 17:
        return f"({inner()})" + source.choice(["*", "+", "?", "{2}", "{1,3}", "{2,}", "*?", "{0,2}", ""])
    return source.choice([r"\b", r"(?!\b)", "^", r"$"]) + inner() if kind < 19 else f"(?:{inner()}|)"


@pytest.mark.attack("pattern-cost")
def test_pattern_with_more_ways_than_a_float_holds_is_refused_or_has_an_automaton() -> None:
    with pytest.raises(SchemaError, match="matching could take too long"):
        compile_schema({"pattern": "^(?:(?:a|b){1,35}x){1,40}$"})
    validator = compile_schema({"pattern": "^(?:(?:a|b){1,11}x){1,40}$"})
    assert not validator.errors("abx" * 3) and validator.errors("a" * 300)


def test_automaton_and_re_agree_on_random_patterns() -> None:
    compared = 0
    for seed in range(250):
        source = random.Random(seed)
        written = _random_pattern(source, 4)
        python = re.compile(written.replace("$", r"\Z"), re.ASCII)
        ours = written.replace(r"(?!\b)", r"\B")
        automaton, pattern = Automaton(Parser(ours).parse()), Pattern(ours)
        for _ in range(4):
            text = "".join(source.choice("ab1- c\n") for _ in range(source.randrange(9)))
            expected = python.search(text) is not None
            assert automaton.search(text, Budget(ValidationLimits())) == expected, (written, text)
            assert pattern.search(text, Budget(ValidationLimits())) == expected, (written, text)
            compared += 1
    assert compared == 1_000


def test_budget_allows_exactly_its_steps() -> None:
    budget = Budget(ValidationLimits(steps=5))
    budget.spend(5)
    with pytest.raises(BudgetExceeded):
        budget.spend(1)


def test_pattern_can_have_a_range_of_one_character_and_named_properties() -> None:
    validator = compile_schema({"pattern": r"^[a-a]\p{Any}\P{ASCII}$"})
    assert [text for text in ("a\u00e9\u00e9", "aa\u00e9", "aaa", "ba\u00e9") if validator.is_valid(text)] == [
        "a\u00e9\u00e9",
        "aa\u00e9",
    ]


EVIL = [
    *("^(a+)+$", "(a|a)*b", "(a*)*b", "(a|aa)+$", "a*a*a*a*a*a*a*b", "(?:a?){40}a{40}b", "(.*)*=.*"),
    "^([a-z]+.)+[A-Z]([a-z])+$",
]


@pytest.mark.parametrize("pattern", EVIL)
def test_pattern_with_catastrophic_backtracking_takes_linear_time(pattern: str) -> None:
    compiled = Pattern(pattern)
    for length in (100, 1_000, 100_000):
        steps = 20_000 + length  # most of it for building the automaton
        compiled.search("a" * length + "!", Budget(ValidationLimits(steps=steps)))  # else it raises BudgetExceeded


@pytest.mark.parametrize(
    "pattern",
    [
        *("^(?=a)(a+)+$", r"(a*)*\1b", r"(?=a)\p{L}", r"\p{L}{5000}", "(?!(x+x+)+y)"),
        *("((a{1,60}){1,60}){1,60}b", "(?<=a+)b", "(?=a)" + "a*b?" * 9),
    ],
)
def test_pattern_with_unbounded_cost_and_no_automaton_is_refused(pattern: str) -> None:
    with pytest.raises(SchemaError, match="expected a regular expression"):
        compile_schema({"pattern": pattern})
    assert compile_schema({"pattern": "(?=a)" + "a*b" * 9}), "after each `a*` comes another character"


def test_pattern_without_automaton_refuses_a_text_that_is_too_long() -> None:
    validator = compile_schema({"pattern": r"(?=a)a+a+b"})
    assert validator.is_valid("aaab")
    assert "too long for the pattern" in str(validator.errors("a" * 10_000 + "b")[0])
    large = Pattern("^[^a]{0,60000}$")  # too large for an automaton, but cheap for `re`
    for length, matches in ((50_000, True), (60_001, False)):
        assert large.search("b" * length, Budget(ValidationLimits())) is matches


def test_automaton_forgets_its_transitions_at_the_limit_and_continues() -> None:
    source = random.Random(1)
    pattern = Pattern("(?:a|b)*a(?:a|b){12}c")
    text = "".join(source.choice("ab") for _ in range(40_000))
    assert not pattern.search(text, Budget(ValidationLimits(steps=10**9, seconds=60)))
    assert pattern.search(text + "a" + "b" * 12 + "c", Budget(ValidationLimits(steps=10**9, seconds=60)))
    with pytest.raises(BudgetExceeded):
        pattern.search(text, Budget(ValidationLimits(steps=10_000)))


def test_pattern_too_long_or_nested_too_deeply_is_refused() -> None:
    for pattern in ("a" * 2_001, "(" * 2_000, "(?:" * 600 + ")" * 600):
        with pytest.raises(SchemaError):
            compile_schema({"pattern": pattern})
    with pytest.raises(PatternError, match="nothing to repeat"):
        Pattern("a|*")


# ------------------------------------------------------------------------------------------------- limits


def _nested(levels: int, inner: JSON, wrap: str) -> JSON:
    for _ in range(levels):
        inner = [inner] if wrap == "[]" else {wrap: inner}
    return inner


def test_limits_depth_refuses_a_deeply_nested_schema() -> None:
    compile_schema(_nested(90, True, "items"))
    for levels in (102, 5_000):
        with pytest.raises(SchemaError, match="nested"):
            compile_schema(_nested(levels, True, "items"))
    with pytest.raises(SchemaError, match="nested deeper than 3 levels"):
        compile_schema(_nested(5, True, "items"), limits=ValidationLimits(depth=3))


def test_limits_subschemas_and_patterns_refuse_a_large_schema() -> None:
    with pytest.raises(SchemaError, match="more than 10 subschemas"):
        compile_schema({"allOf": [{}] * 20}, limits=ValidationLimits(subschemas=10))
    many: JSON = {"allOf": [{"pattern": f"a{number}"} for number in range(5)]}
    with pytest.raises(SchemaError, match="more than 4 patterns"):
        compile_schema(many, limits=ValidationLimits(patterns=4))


def test_limits_depth_makes_a_deeply_nested_instance_invalid() -> None:
    validator = compile_schema({"items": {"$ref": "#"}})
    assert validator.is_valid(_nested(90, 1, "[]"))
    for levels in (200, 100_000):
        instance = _nested(levels, 1, "[]")
        assert not validator.is_valid(instance)
        assert [str(error) for error in validator.errors(instance)] == [
            "too deeply nested to check against this schema"
        ]
    unbounded = compile_schema({"items": {"$ref": "#"}, "uniqueItems": True}, limits=ValidationLimits(depth=10**9))
    assert not unbounded.is_valid(_nested(100_000, 1, "[]"))


@pytest.mark.parametrize(
    ("schema", "instance"),
    [
        # each definition applies the next one twice: 2 ** 30 applications
        ({"$defs": {str(n): {"allOf": [{"$ref": f"#/$defs/{n + 1}"}] * 2} for n in range(30)} | {"30": {}},
            "$ref": "#/$defs/0"}, 1),
        ({"$defs": {str(n): {"anyOf": [{"$ref": f"#/$defs/{n + 1}"}] * 2} for n in range(30)} | {"30": False},
            "$ref": "#/$defs/0"}, 1),
        ({"$defs": {str(n): {"oneOf": [{"$ref": f"#/$defs/{n + 1}"}] * 2} for n in range(30)} | {"30": {}},
            "$ref": "#/$defs/0"}, 1),
        ({"allOf": [{"items": {"type": "integer"}}] * 1000}, list(range(10_000))),
        ({"items": {"pattern": "^[a-z]*[a-m]*[k-z]*$"}}, ["ab" * 1000] * 5_000),
        ({"allOf": [{"uniqueItems": True}] * 1000}, [[n] for n in range(5_000)]),
        ({"items": {"enum": [["a" * 10_000]]}}, [["a" * 10_000]] * 10_000),
    ],
    ids=["allOf", "anyOf", "oneOf", "items", "pattern", "uniqueItems", "enum"],
)  # fmt: skip
def test_limits_steps_bound_the_work_of_a_validation(schema: JSON, instance: JSON) -> None:
    validator = compile_schema(schema, limits=ValidationLimits(steps=100_000))
    assert not validator.is_valid(instance)
    assert "too costly to check against this schema" in [str(error) for error in validator.errors(instance)]


def test_limits_seconds_bound_the_processor_time_of_a_validation(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count(step=0.15)  # seconds
    monkeypatch.setattr("mcp_ref.lib.jsonschema.limits._clock", lambda: next(clock))
    validator = compile_schema({"items": {"allOf": [{"minimum": 0}] * 10}})
    assert validator.is_valid([1] * 1_200)
    assert not validator.is_valid([1] * 60_000)
    assert [error.keyword for error in validator.errors([1] * 60_000)] == ["limits"]


def _doubled(leaf: JSON) -> JSON:
    """Return a schema that applies another schema 2 ** 40 times."""
    names: dict[str, JSON] = {str(n): {"allOf": [{"$ref": f"#/$defs/{n + 1}"}] * 2} for n in range(40)}
    return {"$defs": {**names, "40": leaf}, "$ref": "#/$defs/0"}


INTEGERS: JSON = list(range(3_000))
OBJECT: JSON = {f"property{n}": n for n in range(3_000)}


@pytest.mark.parametrize(
    ("schema", "instance"),
    [
        (_doubled({"type": "string"}), 1),
        (_doubled({"type": "string"}), _nested(90, 1, "[]")),
        (_doubled({"not": {"type": "integer"}}), 1),
        (_doubled({"pattern": "b|c"}), "a" * 50),
        (_doubled({"contains": {"type": "string"}}), [1, 2, 3]),
        (_doubled({"required": [str(n) for n in range(1_000)]}), {}),
        (_doubled({"enum": [[1], {"a": 1}]}), [1, 2]),
        (_doubled({"multipleOf": 7e-300}), 10**4_200),
        (_doubled({"dependentRequired": {"a": ["b"]}}), {"a": 1}),
        ({"items": {"minimum": 0, "maximum": 1e9, "minLength": 0, "maxLength": 9, "minItems": 0}}, INTEGERS),
        ({"items": {"multipleOf": 0.125}}, INTEGERS),
        ({"contains": {"minimum": 0, "maximum": 1e9, "minLength": 0, "maxLength": 9}, "minContains": 9_000}, INTEGERS),
        ({"additionalProperties": {"minimum": 0, "maximum": 1e9, "minLength": 0, "maxLength": 9}}, OBJECT),
        ({"propertyNames": {"pattern": "^[a-z0-9]+$", "minLength": 1, "maxLength": 99}}, OBJECT),
        ({"patternProperties": {f"{n}[a-z]": {} for n in range(100)}}, OBJECT),
        ({"allOf": [{"additionalProperties": {}}] * 50, "unevaluatedProperties": False}, OBJECT),
        ({"items": {"anyOf": [{"type": "null"}, {"minLength": 1, "maxLength": 0, "type": "string"}]}}, INTEGERS),
        ({"items": {"if": {"minimum": 0, "maximum": 9}, "then": {"type": "null"}, "else": {"minimum": 1}}}, INTEGERS),
        ({"uniqueItems": True}, [{"a": n} for n in range(3_000)]),
        ({"pattern": "\\p{L}+\\d"}, "".join(chr(0x4E00 + n) for n in range(3_000))),
    ],
    ids=["repeated type", "nested value", "repeated not", "repeated pattern", "repeated contains", "repeated required",
         "repeated enum",
         "repeated multipleOf", "repeated dependentRequired", "items", "multipleOf", "contains", "additionalProperties",
         "propertyNames", "patternProperties", "unevaluatedProperties", "anyOf", "if", "uniqueItems", "category"],
)  # fmt: skip
def test_limits_steps_are_proportional_to_the_calls_of_a_validation(schema: JSON, instance: JSON) -> None:
    # Time varies from run to run, the number of function calls does not. An error text costs steps too.
    steps = 40_000
    validator = compile_schema(schema, limits=ValidationLimits(steps=steps))
    for validate in (validator.is_valid, validator.errors):
        calls = 0

        def count(frame: object, event: str, argument: object) -> None:
            nonlocal calls
            calls += event in ("call", "c_call")

        sys.setprofile(count)
        try:
            validate(instance)
        finally:
            sys.setprofile(None)
        assert calls < 5 * steps, f"{calls} calls for at most {steps} steps"


class Watched(list[JSON]):
    """A list that counts the items that are read."""

    read = 0

    def __iter__(self) -> Iterator[JSON]:
        for item in super().__iter__():
            self.read += 1
            yield item


def test_enum_and_const_do_not_read_an_array_of_another_length() -> None:
    items = Watched([0] * 70)
    assert not compile_schema({"enum": [[0], {"a": 0}]}).is_valid(items) and items.read == 0
    assert compile_schema({"const": [0] * 70}).is_valid(items) and items.read == 70


def test_errors_quotes_no_more_of_a_large_value_than_it_shows() -> None:
    items = Watched([0] * 70)
    value: JSON = {"text": "x" * 1_000_000, "items": items}
    [error] = compile_schema({"type": "null"}).errors(value)
    assert str(error) == 'expected null, got {"text": "' + "x" * 69 + "…" and items.read == 0
    [error] = compile_schema({"type": "null"}).errors([items, items, items])
    assert len(str(error)) < 120 and items.read < 60


def test_unique_items_with_colliding_hashes_takes_linear_time() -> None:
    # hash(-1) == hash(-2), so that all these arrays would have the same hash as tuples
    rows: list[JSON] = [[-1 - (n >> bit & 1) for bit in range(13)] for n in range(8_192)]
    assert compile_schema({"uniqueItems": True}).is_valid(rows)
    assert not compile_schema({"uniqueItems": True}).is_valid([*rows, rows[5]])


# ------------------------------------------------------------------------------------------------- messages

CIRCLE: JSON = {"type": "object", "properties": {"kind": {"const": "circle"}, "r": {}}, "required": ["kind", "r"]}
SQUARE: JSON = {"type": "object", "properties": {"kind": {"const": "square"}, "side": {}}, "required": ["kind", "side"]}

WORDS: list[tuple[JSON, JSON, list[str]]] = [
    ({"properties": {"days": {"type": "integer"}}}, {"days": "3"}, ['days: expected an integer, got "3"']),
    ({"type": ["string", "null"]}, 3, ["expected a string or null, got 3"]),
    ({"required": ["a", "b"]}, {}, ['missing required properties "a", "b"']),
    ({"properties": {"a": True}, "additionalProperties": False}, {"b": 1}, ['b: unexpected property, expected "a"']),
    ({"additionalProperties": False}, {"odd name": 1}, ['["odd name"]: unexpected property']),
    ({"properties": {"a": False}}, {"a": 1}, ["a: this property is not allowed"]),
    ({"prefixItems": [True], "items": False}, [1, 2], ["[1]: unexpected item, expected at most 1 item"]),
    ({"unevaluatedItems": False}, [1], ["[0]: unexpected item"]),
    ({"unevaluatedProperties": False}, {"a": 1}, ["a: unexpected property"]),
    ({"items": {"properties": {"a": {"items": {"type": "null"}}}}}, [{"a": [None, 1]}],
        ["[0].a[1]: expected null, got 1"]),
    ({"enum": ["C", "F"]}, "K", ['expected one of "C", "F", got "K"']),
    ({"enum": [1]}, 2, ["expected 1, got 2"]),
    ({"enum": [*range(20)]}, -1, [f"expected one of {', '.join(map(str, range(20)))}, got -1"]),
    ({"enum": [*range(21)]}, -1, [f"expected one of {', '.join(map(str, range(20)))}, …, got -1"]),
    ({"const": {"a": 1}}, 2, ['expected {"a": 1}, got 2']),
    ({"minimum": 1}, 0, ["expected at least 1, got 0"]),
    ({"exclusiveMaximum": 1.5}, 2, ["expected less than 1.5, got 2"]),
    ({"multipleOf": 2}, 3, ["expected a multiple of 2, got 3"]),
    ({"minLength": 1}, "", ["expected at least 1 character, got 0"]),
    ({"maxItems": 2}, [1, 2, 3], ["expected at most 2 items, got 3"]),
    ({"minProperties": 1}, {}, ["expected at least 1 property, got 0"]),
    ({"uniqueItems": True}, [1, 2, 1.0], ["expected different items, got 1.0 more than once"]),
    ({"pattern": "^[A-Z]"}, "x", ['expected a match of ^[A-Z], got "x"']),
    ({"contains": {"const": 1}}, [2], ['expected at least 1 item matching {"const": 1}, got 0']),
    ({"contains": {"const": 1}, "maxContains": 1}, [1, 1], ['expected 1 to 1 items matching {"const": 1}, got 2']),
    ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, ['missing required property "b", because "a" is present']),
    ({"propertyNames": {"maxLength": 1}}, {"ab": 1},
        ['the property name "ab" is not allowed: expected at most 1 character, got 2']),
    ({"not": {"type": "null"}}, None, ['expected no match of {"type": "null"}, got null']),
    ({"if": {"required": ["a"]}, "then": {"required": ["b"]}}, {"a": 1}, ['missing required property "b"']),
    (False, 1, ["no value is allowed here"]),
    ({"anyOf": [{"type": "string"}, {"type": "null"}]}, 3, ["expected a string or null, got 3"]),
    ({"anyOf": [CIRCLE, {"type": "null"}]}, {}, ['missing required properties "kind", "r"']),
    ({"oneOf": [CIRCLE, SQUARE]}, {"kind": "circle"}, ['missing required property "r"']),
    ({"oneOf": [CIRCLE, SQUARE]}, {"kind": "x", "r": 1},
        ['kind: expected "circle", got "x" -- or kind: expected "square", got "x"']),
    ({"oneOf": [True, {"type": "null"}, True]}, 1,
        ["expected a match of only one of 3 alternatives, but 1 and 3 match"]),
    ({"allOf": [{"type": "null"}, {"type": "null"}]}, 1, ["expected null, got 1"]),
    ({"type": "null"}, "x" * 1000, ['expected null, got "' + "x" * 60 + '"… (1000 characters)']),
    ({"type": "null"}, [0] * 100, ["expected null, got an array of 100 items"]),
    ({"type": "null"}, {str(n): n for n in range(100)}, ["expected null, got an object with 100 properties"]),
    ({"type": "null"}, 10**5000, ["expected null, got a number with too many digits"]),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "instance", "words"), WORDS, ids=[str(row[2])[:60] for row in WORDS])
def test_errors_name_the_location_and_the_expected_value(schema: JSON, instance: JSON, words: list[str]) -> None:
    assert [str(error) for error in compile_schema(schema).errors(instance)] == words


def test_validation_error_has_path_and_keyword() -> None:
    schema: JSON = {"properties": {"a": {"items": {"minimum": 2}}, "b": False}, "additionalProperties": False}
    errors = compile_schema(schema).errors({"a": [2, 1], "b": 1, "c": 1})
    assert [(error.path, error.keyword) for error in errors] == [
        (("a", 1), "minimum"),
        (("b",), "properties"),
        (("c",), "additionalProperties"),
    ]
    assert errors[0].message == "expected at least 2, got 1"


def test_errors_returns_at_most_as_many_errors_as_requested() -> None:
    validator = compile_schema({"items": {"type": "null"}})
    assert len(validator.errors([1] * 50)) == 8
    assert len(validator.errors([1] * 50, max_errors=1)) == 1
    assert validator.errors([None]) == []


def test_validate_raises_one_error_that_lists_all_faults() -> None:
    validator = compile_schema({"properties": {"a": {"type": "null"}, "b": {"type": "null"}}})
    validator.validate({"a": None})
    with pytest.raises(ValidationError, match=r"^a: expected null, got 1$") as caught:
        validator.validate({"a": 1})
    assert caught.value.path == ("a",)
    with pytest.raises(ValidationError, match=r"^a: expected null, got 1; b: expected null, got 2$"):
        validator.validate({"a": 1, "b": 2})


# ------------------------------------------------------------------------------------------------- alone


def test_jsonschema_package_works_alone_under_another_name_with_few_imports(tmp_path: Path) -> None:
    subprocess.run(["cp", "-r", str(ROOT / "mcp_ref" / "lib" / "jsonschema"), str(tmp_path / "vendored")], check=True)
    program = (
        "import sys, json; before = set(sys.modules); import vendored;"
        "v = vendored.compile_schema({'properties': {'a': {'type': 'null', 'pattern': '^a+$'}}, 'required': ['a']});"
        "assert v.is_valid({'a': None}) and not v.is_valid({});"
        "print(sorted(name for name in set(sys.modules) - before if not name.startswith('vendored')))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {program}"],
        capture_output=True,
        text=True,
        check=True,
    )
    heavy = ("decimal", "fractions", "urllib", "datetime", "ipaddress", "unicodedata")
    assert not [name for name in heavy if f"'{name}" in done.stdout], done.stdout
