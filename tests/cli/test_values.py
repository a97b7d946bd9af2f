"""Arguments on the command line: each word becomes the value that the schema asks for."""

from __future__ import annotations

import re

import pytest

from mcp_ref.cli import UsageError
from mcp_ref.cli.values import json_types, read_arguments, read_string_arguments
from mcp_ref.jsonrpc.messages import JSON, Object

SCHEMA: Object = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "count": {"type": "integer"},
        "ratio": {"type": "number"},
        "flag": {"type": "boolean"},
        "list": {"type": "array"},
        "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "either": {"type": ["number", "string"]},
        "mixed": {"type": ["string", "boolean", "array", "object", "null"]},
        "choice": {"enum": ["1", "2"]},
        "fixed": {"const": "7"},
        "linked": {"$ref": "#/$defs/x"},
        "open": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/x"}]},
    },
}


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("text=3", "3"), ("text=", ""), ("text=a=b:=c", "a=b:=c"), ("text:=3", 3), ("count=3", 3),
        ("count=three", "three"), ("count=", ""), ("ratio=3", 3), ("ratio=0.5", 0.5), ("flag=true", True),
        ("flag=yes", "yes"), ("list=[1, 2]", [1, 2]), ("maybe=null", None), ("maybe=5", "5"), ("either=5", 5),
        ("either=3.0", 3.0), ("either=five", "five"), ("either=true", "true"), ("mixed=true", True),
        ("mixed=[1]", [1]), ("mixed={}", {}), ("mixed=null", None), ("mixed=1", "1"), ("choice=1", "1"),
        ("fixed=7", "7"), ("linked=7", 7), ("linked=seven", "seven"), ("open={}", {}), ("unknown=7", 7),
        ("unknown=seven", "seven"), ('unknown={"a": [1]}', {"a": [1]}), ("unknown=NaN", "NaN"),
        ("ratio=1e999", "1e999"),
    ],
)  # fmt: skip
def test_read_arguments_converts_a_value_by_the_schema(word: str, value: JSON) -> None:
    (found,) = read_arguments([word], SCHEMA).values()
    assert found == value and type(found) is type(value)


def test_without_a_schema_a_value_is_json_or_text() -> None:
    assert read_arguments(["a=1", "b=x"], None) == {"a": 1, "b": "x"}
    assert read_arguments([], None) == {}
    assert json_types(True) is None


def test_read_arguments_refuses_a_name_that_is_given_twice() -> None:
    with pytest.raises(UsageError, match="a is given twice"):
        read_arguments(["a=1", "a=2"], None)
    with pytest.raises(UsageError, match="the value of a is not JSON: the key 'b' must not appear twice"):
        read_arguments(['a:={"b": 1, "b": 2}'], None)


def test_read_string_arguments_leaves_values_as_text() -> None:
    assert read_string_arguments(["a=1", "b=[x"]) == {"a": "1", "b": "[x"}


ADD: Object = {"properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]}


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (["a", "=", "1"], "write an argument without spaces, such as a=1"),
        (['{"a": 1, "b": [2]}'], "write a:=1 'b:=[2]'"),
        (["1", "2"], "cannot read the argument '1': write a=1 b=2"),
        (["b=2", "1", "3"], "cannot read the argument '1': write b=2 a=1 NAME=3"),
        (["a:=NaN"], "the value of a is not JSON: "),
        (["a:=[1e999]"], "the value of a is not JSON: "),
    ],
)
def test_read_arguments_says_what_to_write(words: list[str], advice: str) -> None:
    with pytest.raises(UsageError, match=re.escape(advice)):
        read_arguments(words, ADD)
