"""Parsers for words of the command line: arguments such as `NAME=VALUE` and `NAME:=JSON`, headers, and variables.

The tool's input schema gives the type of `VALUE`, so `count=3` means 3 for an integer, and "3" for a string. A `VALUE`
that is not JSON is sent as a string, because the server checks the types. After `:=`, the value must be JSON.
"""

from __future__ import annotations

import json
import os
import re
import shlex

from ..jsonrpc import messages
from ..jsonrpc.messages import JSON, Object
from . import UsageError

_PAIR = re.compile(r"([^=]+?)(:?=)(.*)", re.DOTALL)


def read_arguments(words: list[str], schema: Object | None) -> Object:
    """Return the arguments of a call. Raise UsageError for a malformed word, invalid JSON, or a duplicate name."""
    arguments: Object = {}
    properties = schema.get("properties") if schema is not None else None
    if not isinstance(properties, dict):
        properties = {}
    for name, sign, value in _split_words(words, list(properties)):
        if name in arguments:
            raise UsageError(f"{name} is given twice; write a list as {name}='[1, 2]'")
        arguments[name] = _as_json(name, value) if sign == ":=" else read_value(value, json_types(properties.get(name)))
    return arguments


def read_string_arguments(words: list[str]) -> dict[str, str]:
    """Return the arguments of a prompt, which are strings. Raise UsageError as `read_arguments` does."""
    arguments: dict[str, str] = {}
    for name, _, value in _split_words(words, []):
        if name in arguments:
            raise UsageError(f"{name} is given twice")
        arguments[name] = value
    return arguments


def _split_words(words: list[str], names: list[str]) -> list[tuple[str, str, str]]:
    """Return (name, sign, value) of each word. For a word without a name, raise UsageError, which suggests `names`."""
    for word in words:
        check_utf8(word)
    matches = [_PAIR.fullmatch(word) for word in words]
    parts = [(match[1], match[2], match[3]) for match in matches if match is not None]
    nameless = [word for word, match in zip(words, matches, strict=True) if match is None]
    if not nameless:
        return parts
    if "=" in words[1:-1]:
        at = words.index("=", 1)
        raise UsageError(f"write an argument without spaces, such as {shlex.quote(''.join(words[at - 1 : at + 2]))}")
    # suggest for each word without a name the next of the names that no other word has
    given = {name for name, _, _ in parts}
    unused = iter([name for name in names if name not in given])
    advice = list[str]()
    for word in words:
        if word not in nameless:
            advice.append(word)
        elif members := _members(word):
            advice += members
        else:
            advice.append(f"{next(unused, 'NAME')}={word.lstrip('=')}")
    raise UsageError(f"cannot read the argument {nameless[0]!r}: write {shlex.join(advice)}")


def _members(word: str) -> list[str]:
    """Return a word for each member of a JSON object, or an empty list if `word` is not an object."""
    try:
        value = parse_json(word)
    except ValueError:
        return []
    return [f"{name}:={json.dumps(each)}" for name, each in value.items()] if isinstance(value, dict) else []


def check_utf8(word: str) -> None:
    """Raise UsageError for a word that is not UTF-8, because a message cannot contain it."""
    try:
        word.encode()
    except UnicodeEncodeError:
        raise UsageError(f"cannot send {word!r}, because it is not UTF-8") from None


def parse_json(text: str) -> JSON:
    """Return the value of a JSON text. Raise ValueError for one that no message can contain, such as 1e999."""
    value = messages.parse_json(text.encode())
    json.dumps(value, allow_nan=False)  # Python reads 1e999 as infinity
    return value


def _as_json(name: str, value: str) -> JSON:
    try:
        return parse_json(value)
    except ValueError as error:
        raise UsageError(f"the value of {name} is not JSON: {error}") from None


def read_value(text: str, wanted: set[str] | None) -> JSON:
    """Return the JSON value of a text, or the text if it is not JSON, or if only a string is of a `wanted` type."""
    if wanted == {"string"}:
        return text
    try:
        value = parse_json(text)
    except ValueError:
        return text
    if wanted is not None and "string" in wanted and json_type(value) not in wanted - {"string"}:
        return text
    return value


def json_types(schema: JSON) -> set[str] | None:
    """Return the JSON types that a schema allows, or None if the root of the schema does not tell."""
    if not isinstance(schema, dict):
        return None
    named, choices = schema.get("type"), schema.get("enum")
    if isinstance(named, (str, list)):
        types = {named} if isinstance(named, str) else {str(name) for name in named}
        return types | {"integer"} if "number" in types else types  # an integer is a number too
    if isinstance(choices, list):
        return {json_type(choice) for choice in choices}
    if "const" in schema:
        return {json_type(schema["const"])}
    for keyword in ("anyOf", "oneOf"):
        members = schema.get(keyword)
        if isinstance(members, list):
            found = [json_types(member) for member in members]
            known = [types for types in found if types is not None]
            return set().union(*known) if len(known) == len(found) else None
    return None


def json_type(value: JSON) -> str:
    """Return the JSON type of a value. A whole number such as 3.0 is an integer."""
    if isinstance(value, float) and value.is_integer():
        return "integer"
    names = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}
    return "null" if value is None else names[type(value)]


def parse_headers(words: list[str]) -> dict[str, str]:
    """Return the headers for words such as `Name: value`. Raise UsageError for a malformed word."""
    found = {}
    for word in words:
        name, colon, value = word.partition(":")
        if not colon or not name.strip():
            raise UsageError("--header takes 'Name: value'")  # do not print the value, which can be a secret
        found[name.strip()] = value.strip()
    return found


def parse_environment(words: list[str]) -> dict[str, str]:
    """Return the variables for words such as `NAME=VALUE`. A word `NAME` copies the variable of this process."""
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals and name not in os.environ:
            raise UsageError(f"--env {name}: this environment variable is not set; write {name}=VALUE")
        found[name] = value if equals else os.environ[name]
    return found
