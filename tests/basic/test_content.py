"""Content blocks: the result of one handler, as each revision writes it and as a client reads it."""

from __future__ import annotations

import base64

import pytest

from mcp_ref import (
    Annotations,
    AudioContent,
    BlobResourceContents,
    Client,
    EmbeddedResource,
    Icon,
    ImageContent,
    InvalidMessage,
    PromptMessage,
    ResourceLink,
    Server,
    TextContent,
    TextResourceContents,
)
from mcp_ref.jsonrpc.messages import JSON, Object
from tests.matrix import EVERY_REVISION, KINDS, LEGACY_REVISIONS
from tests.raw_peers import connected_client, raw_session, serve_call

HINTS = Annotations(["user"], 1, "2025-01-12T15:00:58Z")
BLOCKS: list[TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource] = [
    TextContent("text", HINTS, {"com.example/x": 1}),
    ImageContent.of(b"image", "image/png"),
    AudioContent.of(b"sound", "audio/wav"),
    ResourceLink("test://r", "r", description="about", icons=[Icon("https://example.org/i.png")]),
    EmbeddedResource(BlobResourceContents.of("test://blob", b"\x00\xff", "a/b")),
]


def on_the_wire(revision: str) -> list[JSON]:
    """Return the blocks above in the shape of a revision."""
    text: Object = {"type": "text", "text": "text"}
    if revision >= "2024-11-05":
        hints: Object = {"audience": ["user"], "priority": 1}
        text["annotations"] = hints
        if revision >= "2025-06-18":
            hints["lastModified"] = "2025-01-12T15:00:58Z"
            text["_meta"] = {"com.example/x": 1}
    image: Object = {"type": "image", "data": base64.b64encode(b"image").decode(), "mimeType": "image/png"}
    audio: Object = {"type": "audio", "data": base64.b64encode(b"sound").decode(), "mimeType": "audio/wav"}
    if revision < "2025-03-26":
        audio = {"type": "text", "text": "[audio, audio/wav: this protocol revision cannot carry it]"}
    link: Object = {"type": "resource_link", "uri": "test://r", "name": "r", "description": "about"}
    if revision < "2025-06-18":
        link = {"type": "text", "text": "r <test://r>: about"}
    elif revision >= "2025-11-25":
        link["icons"] = [{"src": "https://example.org/i.png"}]
    blob: Object = {"uri": "test://blob", "blob": "AP8=", "mimeType": "a/b"}
    return [text, image, audio, link, {"type": "resource", "resource": blob}]


@pytest.mark.spec(
    "2024-11-05..2026-07-28/server/prompts#image-content-1", "2025-03-26..2026-07-28/server/prompts#audio-content-1"
)
@KINDS
@EVERY_REVISION
@pytest.mark.breaks("embedded_resources")
async def test_content_blocks_are_written_in_the_shape_of_each_revision(kind: str, revision: str) -> None:
    server = Server("s")
    server.prompts.add(lambda: [PromptMessage("assistant", block) for block in BLOCKS], "blocks")
    server.tools.add(lambda: BLOCKS, "blocks")
    async with connected_client(server, kind, revision) as wire:
        answer = await wire.ask("prompts/get", {"name": "blocks"})
        expected: JSON = [{"role": "assistant", "content": block} for block in on_the_wire(revision)]
        assert answer["result"]["messages"] == expected
        answer = await wire.ask("tools/call", {"name": "blocks"})
        key = "toolResult" if revision == "2024-10-07" else "content"
        assert answer["result"] == {key: on_the_wire(revision)}


@LEGACY_REVISIONS
async def test_content_blocks_are_read_by_a_client_of_each_revision(revision: str) -> None:
    async with raw_session(Client, revision, {"prompts": {}}) as (client, wire):
        messages: JSON = [{"role": "user", "content": block} for block in on_the_wire(revision)]
        result, _ = await serve_call(client.get_prompt("p"), wire, {"messages": messages})
        read = [message.content for message in result.messages]
        assert read[1] == BLOCKS[1]
        assert read[4] == BLOCKS[4]
        assert isinstance(read[0], TextContent) and read[0].text == "text"
        assert isinstance(read[2], AudioContent if revision >= "2025-03-26" else TextContent)
        assert isinstance(read[3], ResourceLink if revision >= "2025-06-18" else TextContent)


@pytest.mark.parametrize(
    "block",
    [{"type": "hologram"}, {"text": "no type"}, {"type": "text"}, {"type": "image", "data": "aGk="}, None, "text"],
    ids=str,
)
async def test_content_block_of_unknown_shape_is_invalid_message_with_its_place(block: JSON) -> None:
    async with raw_session(Client, capabilities={"prompts": {}}) as (client, wire):
        with pytest.raises(InvalidMessage, match=r"messages\[0\]\.content"):
            await serve_call(client.get_prompt("p"), wire, {"messages": [{"role": "user", "content": block}]})


async def test_embedded_resource_annotations_are_read_from_both_places() -> None:
    """Read annotations inside the resource, as in the prose, and beside it, as in the schema."""
    async with raw_session(Client, capabilities={"prompts": {}}) as (client, wire):
        for inside in (True, False):
            hints: Object = {"annotations": {"priority": 0.5}}
            resource: Object = {"uri": "test://r", "text": "t", **(hints if inside else {})}
            block: Object = {"type": "resource", "resource": resource, **({} if inside else hints)}
            sent: Object = {"messages": [{"role": "user", "content": block}]}
            result, _ = await serve_call(client.get_prompt("p"), wire, sent)
            expected = EmbeddedResource(TextResourceContents("test://r", "t"), Annotations(priority=0.5))
            assert result.messages[0].content == expected
