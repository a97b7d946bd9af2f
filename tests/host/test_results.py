"""The part of a server's data that a model gets: `Budget.result_characters`."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from mcp_ref import Budget, Host, ProtocolError, RemoteError, Server, TextContent
from mcp_ref.basic.content import ContentBlock, EmbeddedResource, ImageContent, ResourceLink, TextResourceContents
from mcp_ref.features.prompts import GetPromptResult, PromptMessage
from mcp_ref.features.resources import ReadResourceResult
from mcp_ref.features.tools import CallToolResult
from mcp_ref.host.results import cut_error, cut_prompt, cut_resource, cut_result, cut_text
from tests.host.peers import opened


@pytest.mark.acceptance("21")
@pytest.mark.attack("long-result")
def test_cut_result_cuts_every_text_and_leaves_out_structured_content_that_is_too_long() -> None:
    note = "[cut: the result has more than 40 characters]"
    page = EmbeddedResource(TextResourceContents("a://b", "c" * 50))
    link, image = ResourceLink("l", "a://b", description="d" * 50), ImageContent("A" * 100, "image/png")
    cut = cut_result(CallToolResult([image, page, link], {"x": "e" * 50}), 40)
    assert cut.content[0] == image and cut.structured_content is None
    assert isinstance(cut.content[1], EmbeddedResource) and isinstance(cut.content[1].resource, TextResourceContents)
    counted = len("image/png" + "a://b")
    assert cut.content[1].resource.text == f"{'c' * (40 - counted)}\n{note}"
    assert cut.content[2:] == [TextContent(f"{note} (the structured content)")]
    # All of the limit: the texts with the link, the structured content, and `_meta` have 100 characters each.
    whole = CallToolResult([image, TextContent("x" * 20), link], {"x": "e" * 91}, meta={"y": "f" * 99})
    assert cut_result(whole, 100) == whole


LONG = "x" * 5000
LONG_BLOCKS: dict[str, ContentBlock] = {
    "text": TextContent(LONG),
    "meta": TextContent("a", meta={LONG: LONG}),
    "MIME type": ImageContent("AA==", LONG),
    "URI of a text": EmbeddedResource(TextResourceContents("a://" + LONG, "a")),
    "MIME type of a text": EmbeddedResource(TextResourceContents("a://b", "a", LONG)),
    "link": ResourceLink("l", "a://b", mime_type=LONG),
}


@pytest.mark.attack("long-result")
@pytest.mark.parametrize("block", LONG_BLOCKS.values(), ids=LONG_BLOCKS)
def test_results_for_a_model_are_cut_wherever_their_length_is(block: ContentBlock) -> None:
    """Cut a block alone and after a thousand small ones, in a result, a prompt and a resource."""
    for blocks in ([block], [TextContent("ab")] * 1000 + [block], [block] * 3):
        cut = cut_result(CallToolResult([*blocks], meta={LONG: 1}), 100)
        assert len(json.dumps(asdict(cut))) < 100 * 60  # a small block has 60 characters of JSON around its text
        assert sum("[cut: " in json.dumps(asdict(each)) for each in cut.content) == 1
        prompt = cut_prompt(GetPromptResult([PromptMessage("user", each) for each in blocks], LONG, {LONG: 1}), 100)
        assert len(json.dumps(asdict(prompt))) < 100 * 100
    if isinstance(block, EmbeddedResource):
        resource = cut_resource(ReadResourceResult([block.resource] * 3, meta={LONG: 1}), 100)
        assert len(json.dumps(asdict(resource))) < 500


@pytest.mark.attack("long-result")
@pytest.mark.breaks("reserved_code")
async def test_errors_resources_prompts_and_instructions_for_a_model_are_cut() -> None:
    server = Server("s", instructions=LONG)

    @server.prompt()
    async def say() -> str:
        return LONG

    @server.resource("a://b")
    async def page() -> str:
        return LONG

    @server.tool()
    async def fail() -> str:
        raise ProtocolError(-32000, LONG)

    budget = Budget(result_characters=100)
    async with opened(Host({"s": server}, approve=lambda request: allowed(), budget=budget)) as host:
        assert len(host.instructions()["s"]) < 200
        with pytest.raises(RemoteError, match="cut: ") as failure:
            await host.call_tool("s.fail", origin="model")
        assert len(str(failure.value)) < 200
        texts = [
            json.dumps(asdict(await host.read_resource("s", "a://b", origin="model"))),
            json.dumps(asdict(await host.get_prompt("s.say", origin="model"))),
        ]
        assert all("[cut: " in text and len(text) < 600 for text in texts)
        assert LONG in json.dumps(asdict(await host.get_prompt("s.say")))


async def allowed() -> bool:
    return True


def test_text_and_data_of_exactly_the_limit_are_not_cut() -> None:
    for text, data in (("abcd", "ab"), ("abcde", "abc")):  # as JSON, the data have two quotes more
        cut = cut_error(RemoteError(-32603, text, data), 4)
        assert (cut.code, str(cut).startswith("abcd"), cut.data) == (-32603, True, data if text == "abcd" else None)
        assert (cut_text(text, 4) == text) == (text == "abcd")
