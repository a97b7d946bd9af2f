"""Functions that print the results of commands, as plain text for people or as JSON for programs.

A server can send escape sequences that move the cursor or change colors. On a terminal, these functions show them as
harmless text. A file or pipe receives them unchanged, except in JSON and tables, which always have harmless text.
[2025-11-25 server/tools#security-considerations]
"""

from __future__ import annotations

import base64
import json
import os
import sys
from collections.abc import Sequence
from typing import TextIO

from ..basic.content import ContentBlock, ResourceContents, TextResourceContents
from ..features.prompts import Prompt
from ..jsonrpc.errors import InvalidMessage
from ..jsonrpc.messages import JSON, Object
from ..lib.jsonschema.errors import format_count
from ..lib.text import escape_hidden, fold, hidden_characters, show_text

MAX_QUOTED_NAME = 80
"""Maximum length of a server's name or URI in an error, in characters."""


def out(text: str = "") -> None:
    """Print lines to standard output."""
    show_text(text, sys.stdout)


def note(text: str) -> None:
    """Print lines to standard error, so that standard output contains only results."""
    show_text(text, sys.stderr)


def note_from_server(text: str) -> None:
    """Print a server's text to standard error.

    On a terminal, each row after the first begins with `|`, so that the server cannot imitate a line of this program.
    """
    if not sys.stderr.isatty():
        return note(text)
    width = columns(sys.stderr)
    first, *others = text.split("\n")
    rows = [first, *(f"    | {line}" for line in others)]
    note("\n".join(fold(row, width) for row in rows))  # `fold` begins the rows that it adds with `|`, too


def columns(stream: TextIO) -> int | None:
    """Return the width of a terminal, or None if a stream is not a terminal or its width is unknown."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except (OSError, ValueError):  # not a terminal, or without a descriptor
        return None


def print_json(value: JSON) -> None:
    """Print one JSON value to standard output, with its hidden characters as JSON escapes."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    escapes = {ord(character): json.dumps(character)[1:-1] for character in hidden_characters(text)}
    show_text(text.translate(escapes), sys.stdout)


def table(title: str, rows: Sequence[tuple[str, str, str | None]]) -> None:
    """Print a heading and the rows: name, details, and the description's first line. Without rows, print nothing."""
    if rows:
        out(f"\n{title}")
    for name, details, description in rows:
        # `keep=""` escapes line breaks, too, which could imitate another row
        out(f"  {escape_hidden(name, keep='')}  {escape_hidden(details, keep='')}".rstrip())
        lines = (description or "").strip().splitlines()
        if lines:
            out(fold(f"      {lines[0]}", columns(sys.stdout)))


def signature(schema: Object) -> str:
    """Return the properties of an object schema, such as `to: integer, [step: integer]`. Brackets mean optional."""
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, dict):
        return ""
    shown = []
    for name, member in properties.items():
        text = f"{name}: {type_text(member)}"
        shown.append(text if isinstance(required, list) and name in required else f"[{text}]")
    return ", ".join(shown)


def type_text(schema: JSON) -> str:
    """Return the types that a schema allows, such as `integer|null`, or its values if there are at most six."""
    if not isinstance(schema, dict):
        return "any"
    choices, types = schema.get("enum"), schema.get("type")
    if isinstance(choices, list) and len(choices) <= 6:
        return "|".join(json.dumps(choice) for choice in choices)
    if isinstance(types, list):
        return "|".join(map(str, types))
    for keyword in ("anyOf", "oneOf"):
        alternatives = schema.get(keyword)
        if isinstance(alternatives, list):
            texts = [type_text(alternative) for alternative in alternatives]
            return "|".join(dict.fromkeys(texts))  # without duplicates, in order
    return str(types) if types is not None else "any"


def prompt_row(prompt: Prompt) -> tuple[str, str, str | None]:
    """Return a prompt's row for `table`, with optional arguments in brackets."""
    arguments = ", ".join(a.name if a.required else f"[{a.name}]" for a in prompt.arguments or [])
    return prompt.name, arguments, prompt.description or prompt.title


def block_text(block: ContentBlock) -> str:
    """Return a content block as text: its text, or a short description."""
    match block.type:
        case "text":
            return block.text
        case "image" | "audio":
            return f"[{block.type}: {block.mime_type}, {_decoded_size(block.data)}]"
        case "resource_link":
            return f"[link: {block.uri}  {block.title or block.name}]"
        case _:
            return contents_text(block.resource)


def contents_text(contents: ResourceContents) -> str:
    """Return the contents of a resource if they are text, else a short description."""
    if isinstance(contents, TextResourceContents):
        return contents.text
    return f"[{contents.mime_type or 'bytes'}: {contents.uri}, {_decoded_size(contents.blob)}]"


def write_contents(contents: ResourceContents) -> None:
    """Print the contents of a resource. A file or pipe receives the unchanged bytes, a terminal receives text."""
    if sys.stdout.isatty():
        return out(contents_text(contents))
    if isinstance(contents, TextResourceContents):
        sys.stdout.write(contents.text)
        return
    data = decode_base64(contents.uri, contents.blob)
    sys.stdout.flush()  # the text that was written before comes first
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def decode_base64(name: str, data: str) -> bytes:
    """Decode a server's Base64. If it is invalid, raise InvalidMessage with `name`, the name or URI of the data."""
    try:
        return base64.b64decode("".join(data.split()), validate=True)  # some servers break the lines of Base64
    except ValueError as error:
        raise InvalidMessage(f"the server's data of {name[:MAX_QUOTED_NAME]!r} is not Base64: {error}") from None


def _decoded_size(data: str) -> str:
    """Return the size of Base64 data as text: 4 characters stand for 3 bytes, less one byte for each final `=`."""
    return format_count(len(data) * 3 // 4 - data[-2:].count("="), "bytes")
