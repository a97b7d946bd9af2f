"""What people see of what a server sends: plain text, one thing a line, and nothing that could steer their terminal.

A server's texts may hold escape sequences; on a terminal they are shown as text. Into a file or pipe they go as they
are. [2025-11-25 server/tools#security-considerations]
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Sequence

from ..basic.content import ContentBlock, ResourceContents, TextResourceContents
from ..features.prompts import Prompt
from ..features.tools import Tool
from ..jsonrpc.messages import JSON, Object


def out(text: str = "") -> None:
    """One line or more on standard output."""
    print(printable(text) if sys.stdout.isatty() else text)


def note(text: str) -> None:
    """One line on standard error, where progress and logs go, so that output stays what was asked for."""
    print(printable(text) if sys.stderr.isatty() else text, file=sys.stderr, flush=True)


def as_json(value: JSON) -> None:
    """One JSON value on standard output."""
    print(json.dumps(value, ensure_ascii=False, indent=2))


def printable(text: str) -> str:
    """The text with control characters shown instead of obeyed, but for newlines and tabs."""
    return "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text)


# ---------------------------------------------------------------------------------------------------- what it offers


def table(title: str, rows: Sequence[tuple[str, str, str | None]]) -> None:
    """A heading and rows of (name, what it takes, description), or nothing where there are no rows."""
    if not rows:
        return
    out(f"\n{title}")
    for name, takes, description in rows:
        out(f"  {name}  {takes}".rstrip())
        for line in (description or "").strip().splitlines()[:1]:
            out(f"      {line}")


def tool_row(tool: Tool) -> tuple[str, str, str | None]:
    """A tool, as it could be called."""
    return tool.name, signature(tool.input_schema), tool.description or tool.title


def signature(schema: Object) -> str:
    """`to: integer, [step: integer]`: an object schema's members, the optional ones in brackets."""
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, dict):
        return ""
    shown = []
    for name, member in properties.items():
        text = f"{name}: {kind(member)}"
        shown.append(text if isinstance(required, list) and name in required else f"[{text}]")
    return ", ".join(shown)


def kind(schema: JSON) -> str:
    """A member's type in a word or two: its choices, where it has some."""
    if not isinstance(schema, dict):
        return "any"
    choices, kinds = schema.get("enum"), schema.get("type")
    if isinstance(choices, list) and len(choices) <= 6:
        return "|".join(json.dumps(choice) for choice in choices)
    if isinstance(kinds, list):
        return "|".join(map(str, kinds))
    for word in ("anyOf", "oneOf"):
        members = schema.get(word)
        if isinstance(members, list):
            return "|".join(dict.fromkeys(kind(member) for member in members))
    return str(kinds) if kinds is not None else "any"


def prompt_row(prompt: Prompt) -> tuple[str, str, str | None]:
    """A prompt, with its arguments; the optional ones in brackets."""
    arguments = ", ".join(a.name if a.required else f"[{a.name}]" for a in prompt.arguments or [])
    return prompt.name, arguments, prompt.description or prompt.title


# ---------------------------------------------------------------------------------------------------- what it gives


def block_text(block: ContentBlock) -> str:
    """A content block in words: its text, or what it is."""
    match block.type:
        case "text":
            return block.text
        case "image" | "audio":
            return f"[{block.type}: {block.mime_type}, {_size(block.data)} bytes]"
        case "resource_link":
            return f"[link: {block.uri}  {block.title or block.name}]"
        case _:
            return contents_text(block.resource)


def contents_text(contents: ResourceContents) -> str:
    """A resource's contents in words: its text, or what it is."""
    if isinstance(contents, TextResourceContents):
        return contents.text
    return f"[{contents.mime_type or 'bytes'}: {contents.uri}, {_size(contents.blob)} bytes]"


def write_contents(contents: ResourceContents) -> None:
    """A resource's contents on standard output: as they are where that is a file or pipe, in words on a terminal."""
    if sys.stdout.isatty():
        return out(contents_text(contents))
    if isinstance(contents, TextResourceContents):
        sys.stdout.write(contents.text)
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(base64.b64decode(contents.blob))
    sys.stdout.buffer.flush()


def _size(data: str) -> int:
    return len(data) * 3 // 4 - data[-2:].count("=")
