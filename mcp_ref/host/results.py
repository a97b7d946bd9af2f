"""A limit for the length of results, because one of 5 MB would fill the model's context, and cost a lot.

`Budget.result_characters` limits everything that a model reads: texts, but also URIs, names, MIME types and `_meta`, in
which a hostile server could send the 5 MB just as well. Only the data of images, audio and binary resources do not
count. A note replaces everything beyond the limit.

Threats:
    long-result: A server fills the model's context, at the user's cost, with megabytes in a text, in many small blocks,
        in a field that is not a text, or in an error. The limit counts everything but binary data.

Used by: hosted.py, host.py
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass, replace

from ..basic.content import ContentBlock, EmbeddedResource, ResourceContents, TextContent, TextResourceContents
from ..features.prompts import GetPromptResult, PromptMessage
from ..features.resources import ReadResourceResult
from ..features.tools import CallToolResult
from ..jsonrpc.errors import RemoteError
from ..jsonrpc.messages import Object

_UNCOUNTED = ("data", "blob", "type")
"""The fields of content blocks that do not count: binary data, and the name of the block's type."""


def cut_result(result: CallToolResult, limit: int) -> CallToolResult:
    """Return a result with at most `limit` characters, and a note where something was left out.

    The structured content may have `limit` characters too, because it repeats the texts, and a model gets only one of
    the two.
    """
    content = list(_cut_blocks(result.content, limit))
    if len(json.dumps(result.structured_content)) > limit:
        content.append(TextContent(f"{_note(limit)} (the structured content)"))
        result = replace(result, structured_content=None)
    return replace(result, content=content, meta=_meta_within_limit(result.meta, limit))


def cut_resource(result: ReadResourceResult, limit: int) -> ReadResourceResult:
    """Return the contents of a resource with at most `limit` characters."""
    blocks = [EmbeddedResource(resource) for resource in result.contents]  # because `_cut_blocks` takes only blocks
    contents: list[ResourceContents] = []
    for block in _cut_blocks(blocks, limit):
        if isinstance(block, EmbeddedResource):
            contents.append(block.resource)
        elif isinstance(block, TextContent):  # the note that replaces the contents beyond the limit
            contents.append(TextResourceContents("", block.text))
    return replace(result, contents=contents, meta=_meta_within_limit(result.meta, limit))


def cut_prompt(result: GetPromptResult, limit: int) -> GetPromptResult:
    """Return the messages of a prompt with at most `limit` characters."""
    roles = [message.role for message in result.messages]
    blocks = _cut_blocks([message.content for message in result.messages], limit)
    messages = [PromptMessage(role, block) for role, block in zip(roles, blocks, strict=False)]  # the rest is cut off
    description = None if result.description is None else cut_text(result.description, limit)
    return replace(result, messages=messages, description=description, meta=_meta_within_limit(result.meta, limit))


def cut_text(text: str, limit: int) -> str:
    """Return a text with at most `limit` characters, and a note if it was longer."""
    return text if len(text) <= limit else f"{text[:limit]}\n{_note(limit)}"


def cut_error(error: RemoteError, limit: int) -> RemoteError:
    """Return an error with at most `limit` characters of text, and as many of data."""
    data = error.data if len(json.dumps(error.data)) <= limit else None
    return RemoteError(error.code, cut_text(error.message, limit), data)


def _meta_within_limit(meta: Object | None, limit: int) -> Object | None:
    return meta if _characters(meta) <= limit else None


def _cut_blocks(blocks: Sequence[ContentBlock], limit: int) -> Iterator[ContentBlock]:
    """Yield the blocks up to the limit. Cut the block that exceeds it, and leave out the others."""
    left = limit
    for block in blocks:
        size = max(1, _characters(block))  # at least 1, because even an empty block needs memory
        if size > left:
            yield _cut_block(block, left, limit)
            return
        left -= size
        yield block


def _cut_block(block: ContentBlock, left: int, limit: int) -> ContentBlock:
    """Return a text block cut to `left` characters, with a note. Return only the note for any other block."""
    if isinstance(block, TextContent):
        return TextContent(f"{block.text[:left]}\n{_note(limit)}")
    if isinstance(block, EmbeddedResource) and isinstance(block.resource, TextResourceContents):
        without_text = TextResourceContents(block.resource.uri, "", block.resource.mime_type)
        left_for_text = left - _characters(without_text)  # its URI and MIME type count, too
        if left_for_text >= 0:
            text = f"{block.resource.text[:left_for_text]}\n{_note(limit)}"
            return EmbeddedResource(replace(without_text, text=text))
    return TextContent(_note(limit))


def _characters(value: object) -> int:
    """Return the number of characters in all texts and numbers of a value, except binary data."""
    if is_dataclass(value):
        names = [field.name for field in fields(value) if field.name not in _UNCOUNTED]
        return sum(_characters(getattr(value, name)) for name in names)
    if isinstance(value, dict):
        return sum(len(str(name)) + _characters(item) for name, item in value.items())
    if isinstance(value, list):
        return sum(map(_characters, value))
    if value is None or isinstance(value, bool):
        return 0
    return len(str(value))


def _note(limit: int) -> str:
    return f"[cut: the result has more than {limit} characters]"
