"""The conversion of messages between two revisions by a bridge, with its losses and refusals."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mcp_ref.bridge.conversion import Losses, convert_error, convert_params, convert_result, lost_fields
from mcp_ref.features.sampling import CreateMessageRequestParams
from mcp_ref.features.tools import CallToolResult, Tool
from mcp_ref.jsonrpc.errors import ProtocolError
from mcp_ref.jsonrpc.messages import JSON, Object
from mcp_ref.revisions import revision_named

LATEST = "2026-07-28"
TOOL: Object = {"name": "t", "inputSchema": {"type": "object"}}
Convert = Callable[..., Object]


@pytest.mark.parametrize(
    ("convert", "method", "wire", "source", "target", "converted", "losses"),
    [
        (convert_result, "tools/list",
         {"tools": [{**TOOL, "icons": [{"src": "https://a/"}]}], "ttlMs": 5, "cacheScope": "public"},
         LATEST, "2024-11-05", {"tools": [TOOL]}, {"Tool.icons is not in 2024-11-05": 1}),
        (convert_result, "tools/list", {"tools": [TOOL], "ttlMs": 5, "cacheScope": "public"}, LATEST, LATEST,
         {"tools": [TOOL], "ttlMs": 5, "cacheScope": "public"}, {}),
        (convert_result, "tools/list", {"tools": [TOOL]}, "2024-11-05", LATEST,
         {"tools": [TOOL], "ttlMs": 0, "cacheScope": "private"}, {}),
        (convert_result, "tools/call",
         {"content": [{"type": "hologram"}, {"type": "text", "text": "ok"}],
          "_meta": {"io.modelcontextprotocol/related-task": {}, "a.b/c": 1}},
         "2025-06-18", "2025-11-25",
         {"content": [{"type": "text", "text": '[hologram {"type": "hologram"}]'}, {"type": "text", "text": "ok"}],
          "_meta": {"a.b/c": 1}}, {}),
        (convert_result, "tools/call", {"content": [{"type": "audio", "data": "", "mimeType": "audio/wav"}]},
         "2025-03-26", "2024-11-05",
         {"content": [{"type": "text", "text": "[audio, audio/wav: this protocol revision cannot carry it]"}]},
         {"AudioContent is not in 2024-11-05": 1}),
        (convert_params, "sampling/createMessage",
         {"messages": [{"role": "user", "content": {"type": "hologram"}}], "maxTokens": 1}, "2025-06-18", "2025-11-25",
         {"messages": [{"role": "user", "content": {"type": "text", "text": '[hologram {"type": "hologram"}]'}}],
          "maxTokens": 1}, {}),
    ],
)  # fmt: skip
def test_message_for_another_revision_has_what_that_revision_has(
    convert: Convert, method: str, wire: Object, source: str, target: str, converted: Object, losses: dict[str, int]
) -> None:
    lost = Losses("back")
    assert convert(method, wire, revision_named(source), revision_named(target), lost) == converted
    assert lost.counts == losses


def test_losses_are_counted_and_the_first_of_each_kind_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    lost = Losses("back")
    for kind in ("a", "b", "a"):
        lost.add(kind)
    assert lost.counts == {"a": 2, "b": 1} and [each.args for each in caplog.records] == [("back", "a"), ("back", "b")]


@pytest.mark.parametrize(
    ("cls", "name", "source", "target", "fate"),
    [
        (Tool, "Tool.icons", LATEST, "2024-11-05", "left out"),
        (CallToolResult, "AudioContent", "2025-03-26", "2024-11-05", "as text"),
        (CreateMessageRequestParams, "ToolUseContent", "2025-11-25", "2025-06-18", "refused"),
        (CreateMessageRequestParams, "CreateMessageRequestParams.tools", "2025-11-25", "2025-06-18", "refused"),
    ],
)
def test_lost_field_has_the_fate_that_its_availability_names(
    cls: type, name: str, source: str, target: str, fate: str
) -> None:
    assert lost_fields(cls, revision_named(source), revision_named(target))[name] == f"{source} -> {target}: {fate}"


@pytest.mark.parametrize(
    ("convert", "method", "wire", "code", "text"),
    [
        (convert_params, "sampling/createMessage", {"messages": [{"role": "user", "content": [
            {"type": "tool_use", "id": "1", "name": "t", "input": {}}]}], "maxTokens": 1},
         -32602, "Invalid params: ToolUseContent does not exist in revision 2025-06-18"),
        (convert_params, "tools/call", {"name": 5}, -32602, "Invalid params: name: expected a string, got 5"),
        (convert_result, "tools/list", {"tools": 5}, -32603,
         "the result of back for tools/list cannot be passed on: tools: expected an array, got 5"),
    ],
)  # fmt: skip
def test_message_that_another_revision_cannot_express_is_refused(
    convert: Convert, method: str, wire: Object, code: int, text: str
) -> None:
    with pytest.raises(ProtocolError) as refused:
        convert(method, wire, revision_named("2025-11-25"), revision_named("2025-06-18"), Losses("back"))
    assert (refused.value.code, refused.value.message) == (code, text)


@pytest.mark.parametrize(
    ("source", "target", "code", "data", "converted"),
    [
        (LATEST, "2025-06-18", -32602, {"uri": "a:b"}, (-32002, {"uri": "a:b"})),
        (LATEST, "2025-06-18", -32602, {}, (-32602, {})),
        (LATEST, "2025-06-18", -32603, {"uri": "a:b"}, (-32603, {"uri": "a:b"})),
        ("2025-11-25", "2025-06-18", -32602, {"uri": "a:b"}, (-32602, {"uri": "a:b"})),
        ("2025-11-25", LATEST, -32000, 1, (-32603, {"code": -32000, "data": 1})),
        ("2025-11-25", LATEST, -32019, 1, (-32603, {"code": -32019, "data": 1})),
        ("2025-11-25", LATEST, -31999, 1, (-31999, 1)),
        ("2025-11-25", LATEST, -32020, 1, (-32020, 1)),
        (LATEST, "2025-11-25", -32021, 1, (-32603, 1)),
        ("2025-11-25", "2025-06-18", -32042, {"elicitations": 1}, (-32603, None)),
    ],
)
def test_convert_error_takes_a_code_for_one_of_the_other_revision(
    source: str, target: str, code: int, data: JSON, converted: tuple[int, JSON]
) -> None:
    error = ProtocolError(code, "no", data)
    found = convert_error(error, "resources/read", revision_named(source), revision_named(target))
    assert (found.code, found.data) == converted
