"""Parsers for words of the command line: arguments such as `NAME=VALUE` and `NAME:=JSON`, headers, and variables.

The tool's input schema gives the type of `VALUE`, so `count=3` sends the number 3 if the schema wants an integer, and
"3" if it wants a string. A `VALUE` that is not JSON is sent as a string, because it is the server that checks the
types. After `:=`, the value must be JSON.
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
"""A name, the sign `=` or `:=`, and a value."""


def read_arguments(words: list[str], schema: Object | None) -> Object:
    """Return the arguments of a call. Raise UsageError for a malformed word, invalid JSON, or a duplicate name."""
    arguments: Object = {}
    properties = schema.get("properties") if schema is not None else None
    if not isinstance(properties, dict):
        properties = {}
    for name, sign, value in _split_words(words, list(properties)):
        if name in arguments:
            raise UsageError(f"{name} is given twice; write a list as {name}='[1, 2]'")
        if sign == ":=":
            arguments[name] = _as_json(name, value)
        else:
            arguments[name] = read_value(value, json_types(properties.get(name)))
    return arguments


def read_string_arguments(words: list[str]) -> dict[str, str]:
    """Return the arguments of a prompt, which are strings. Raise UsageError as `read_arguments` does."""
    arguments: dict[str, str] = {}
    for name, _, value in _split_words(words, []):
        if name in arguments:
            raise UsageError(f"{name} is given twice")
        arguments[name] = value
    return arguments


def _split_words(words: list[str], parameters: list[str]) -> list[tuple[str, str, str]]:
    """Return (name, sign, value) of each word.

    For a word without a name, raise UsageError, whose advice takes the missing names from `parameters`.
    """
    parts = list[tuple[str, str, str]]()
    nameless = list[str]()
    for word in words:
        check_utf8(word)
        match = _PAIR.fullmatch(word)
        if match is None:
            nameless.append(word)
        else:
            parts.append((match[1], match[2], match[3]))
    if not nameless:
        return parts
    if "=" in words[1:-1]:  # `a = 1` is three words
        at = words.index("=", 1)
        raise UsageError(f"write an argument without spaces, such as {shlex.quote(''.join(words[at - 1 : at + 2]))}")
    given = {name for name, _, _ in parts}
    unused = [name for name in parameters if name not in given]
    raise UsageError(f"cannot read the argument {nameless[0]!r}: write {_with_names(words, nameless, unused)}")


def _with_names(words: list[str], nameless: list[str], unused: list[str]) -> str:
    """Return the words as the user could write them: each nameless one with the next of the `unused` parameters."""
    names = iter(unused)
    advice = list[str]()
    for word in words:
        members = _members(word) if word in nameless else {}
        if members:
            advice += [f"{name}:={json.dumps(value)}" for name, value in members.items()]
        elif word in nameless:
            advice.append(f"{next(names, 'NAME')}={word.lstrip('=')}")
        else:
            advice.append(word)
    return shlex.join(advice)


def _members(word: str) -> Object:
    """Return the members of a word that is a JSON object, such as `{"a": 1}`, and none for any other word."""
    try:
        value = parse_json(word)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


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


def read_value(text: str, allowed_types: set[str] | None) -> JSON:
    """Return the JSON value of a text, or the text itself if it is not JSON, or if the schema wants a string instead.

    A schema wants a string if it allows one, and does not allow the type of the JSON value.
    """
    if allowed_types == {"string"}:
        return text
    try:
        value = parse_json(text)
    except ValueError:
        return text
    if allowed_types is not None and "string" in allowed_types:
        other_types = allowed_types - {"string"}  # even a quoted text such as "3" is sent as it was typed
        return value if json_type(value) in other_types else text
    return value


def json_types(schema: JSON) -> set[str] | None:
    """Return the JSON types that a schema allows, or None if its keywords `type`, `enum` and so on do not say."""
    if not isinstance(schema, dict):
        return None
    type_names, choices = schema.get("type"), schema.get("enum")
    if isinstance(type_names, (str, list)):
        types = {type_names} if isinstance(type_names, str) else {str(name) for name in type_names}
        return types | {"integer"} if "number" in types else types  # an integer is a number too
    if isinstance(choices, list):
        return {json_type(choice) for choice in choices}
    if "const" in schema:
        return {json_type(schema["const"])}
    for keyword in ("anyOf", "oneOf"):
        alternatives = schema.get(keyword)
        if isinstance(alternatives, list):
            return _types_of_any(alternatives)
    return None


def _types_of_any(schemas: list[JSON]) -> set[str] | None:
    """Return the JSON types that at least one of the schemas allows, or None if one of them does not say."""
    found = set[str]()
    for schema in schemas:
        types = json_types(schema)
        if types is None:
            return None
        found |= types
    return found


def json_type(value: JSON) -> str:
    """Return the JSON type of a value. A whole number such as 3.0 is an integer."""
    if isinstance(value, float) and value.is_integer():
        return "integer"
    if value is None:
        return "null"
    names = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}
    return names[type(value)]


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
        if not name:
            raise UsageError("--env takes NAME=VALUE or NAME")  # do not print the value, which can be a secret
        if not equals and name not in os.environ:
            raise UsageError(f"--env {name}: this environment variable is not set; write {name}=VALUE")
        found[name] = value if equals else os.environ[name]
    return found
