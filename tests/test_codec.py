"""The codec: every message in the shape of every revision, written exactly and read leniently."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, is_dataclass
from typing import Annotated, Literal

import pytest

from mcp_ref.basic.cancellation import CancelledNotificationParams
from mcp_ref.basic.content import (
    Annotations,
    AudioContent,
    BlobResourceContents,
    EmbeddedResource,
    Icon,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from mcp_ref.basic.lifecycle import (
    ClientCapabilities,
    Implementation,
    InitializeRequestParams,
    InitializeResult,
    ServerCapabilities,
)
from mcp_ref.basic.meta import EmptyResult, PaginatedRequestParams
from mcp_ref.basic.progress import ProgressNotificationParams
from mcp_ref.codec import ShapeError, codec_for, members_of
from mcp_ref.features.completion import (
    CompleteArgument,
    CompleteContext,
    CompleteRequestParams,
    CompleteResult,
    Completion,
    PromptReference,
    ResourceTemplateReference,
)
from mcp_ref.features.elicitation import (
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitRequestURLParams,
    ElicitResult,
)
from mcp_ref.features.logging import LoggingMessageNotificationParams
from mcp_ref.features.prompts import (
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    Prompt,
    PromptArgument,
    PromptMessage,
)
from mcp_ref.features.resources import (
    ListResourcesResult,
    ListResourceTemplatesResult,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    ResourceUpdatedNotificationParams,
)
from mcp_ref.features.roots import ListRootsResult, Root
from mcp_ref.features.sampling import (
    CreateMessageRequestParams,
    CreateMessageResult,
    ModelHint,
    ModelPreferences,
    SamplingMessage,
    ToolChoice,
    ToolResultContent,
    ToolUseContent,
)
from mcp_ref.features.tools import CallToolRequestParams, CallToolResult, ListToolsResult, Tool, ToolAnnotations
from mcp_ref.jsonrpc.messages import JSON, Object
from mcp_ref.revisions import (
    LEGACY,
    METHODS,
    R2024_10_07,
    R2024_11_05,
    R2025_03_26,
    R2025_06_18,
    R2025_11_25,
    Availability,
    NotInRevision,
    Revision,
    load_type,
)
from tests import settings
from tests.frame_schema import definitions, name_of_method, validator
from tests.messages import shape_of

ICON = Icon("https://example.org/i.png", "image/png", ["48x48"], "dark")
HINTS = Annotations(["user", "assistant"], 0.5, "2025-01-12T15:00:58Z")
META: Object = {"com.example/x": [1, None]}
EXPERIMENTAL: Object = {"com.example/x": {"a": 1}}
TEXT = TextContent("text", HINTS, META)
IMAGE = ImageContent("aGk=", "image/png", HINTS, META)
AUDIO = AudioContent("aGk=", "audio/wav", HINTS, META)
LINK = ResourceLink("test://r", "r", "R", "about", "text/plain", HINTS, 3, [ICON], META)
EMBEDDED = EmbeddedResource(TextResourceContents("test://r", "text", "text/plain", META), HINTS, META)
OBJECT: Object = {"type": "object", "properties": {"a": {"type": "string"}}}
TOOL = Tool("t", OBJECT, "about", "T", OBJECT, ToolAnnotations("A", True, False, True, False), [ICON], meta=META)
ARGUMENT = CompleteArgument("a", "x")
INFO = Implementation("n", "1", "N", "about", [ICON], "https://example.org")

FULL: list[object] = [
    *(INFO, ICON, HINTS, TEXT, IMAGE, AUDIO, LINK, EMBEDDED),
    EmbeddedResource(BlobResourceContents("test://r", "aGk=", "image/png", META)),
    TOOL,
    InitializeResult(
        "2025-11-25", ServerCapabilities(EXPERIMENTAL, {}, {}, {"listChanged": True}, {}, {}), INFO, "read", META
    ),
    ListToolsResult([TOOL], "next", META),
    CallToolResult([TEXT, IMAGE, AUDIO, LINK, EMBEDDED], {"a": 1}, False, META),
    CallToolResult([TEXT], None, True),
    ListPromptsResult([Prompt("p", "about", [PromptArgument("a", "about", True, "A")], "P", [ICON], META)], "n", META),
    GetPromptResult([PromptMessage("user", TEXT), PromptMessage("assistant", EMBEDDED)], "about", META),
    ListResourcesResult([Resource("test://r", "r", "R", "about", "text/plain", HINTS, 3, [ICON], META)], "n", META),
    ListResourceTemplatesResult(
        [ResourceTemplate("test://{r}", "r", "R", "about", "text/plain", HINTS, [ICON], META)], "next", META
    ),
    ReadResourceResult([TextResourceContents("test://r", "t", "a/b", META), BlobResourceContents("test://b", "aGk=")]),
    CompleteResult(Completion(["a"], 2, True), META),
    ListRootsResult([Root("file:///tmp", "tmp", META)], META),
    CreateMessageResult("assistant", TEXT, "model", "endTurn", META),
    ElicitResult("accept", {"a": "x", "b": 1, "c": True}, META),
    EmptyResult(META),
]
"""An instance of each type with everything in it that it can have."""

PARAMS: dict[str, object] = {
    "initialize": InitializeRequestParams(
        "2025-11-25", ClientCapabilities(EXPERIMENTAL, {}, {"tools": {}}, {"url": {}}), INFO
    ),
    "tools/list": PaginatedRequestParams("cursor", META),
    "tools/call": CallToolRequestParams("t", {"a": 1}, META),
    "prompts/get": GetPromptRequestParams("p", {"a": "x"}, META),
    "resources/read": ReadResourceRequestParams("test://r", META),
    "completion/complete": CompleteRequestParams(
        PromptReference("p", "P"), ARGUMENT, CompleteContext({"b": "y"}), META
    ),
    "notifications/cancelled": CancelledNotificationParams(1, "why", META),
    "notifications/progress": ProgressNotificationParams("t", 1.5, 2, "half", META),
    "notifications/message": LoggingMessageNotificationParams("info", [1, None], "logger", META),
    "notifications/resources/updated": ResourceUpdatedNotificationParams("test://r", META),
    "sampling/createMessage": CreateMessageRequestParams(
        [SamplingMessage("user", TEXT)], 9, "system", ModelPreferences([ModelHint("m")], 0, 0.5, 1), "none", 0.5, ["x"]
    ),
    "elicitation/create": ElicitRequestParams(ElicitRequestFormParams("?", OBJECT, "form")),
}

PLAIN = [
    value
    for value in [*FULL, *PARAMS.values()]
    if not isinstance(value, (AudioContent, ResourceLink, CallToolResult, ElicitRequestParams))
]
"""Results that are an object of their own members in each revision; the others have their own tests."""


def write(value: object, revision: Revision) -> Object:
    wire = codec_for(revision).encode(value)
    assert json.loads(json.dumps(wire, allow_nan=False)) == wire
    return wire


# ------------------------------------------------------------------------------------------------ writing


@pytest.mark.skipif(settings.DATA is None, reason="the official schemas are not here")
@pytest.mark.parametrize("revision", LEGACY, ids=str)
def test_encode_result_is_valid_in_each_revision(revision: Revision) -> None:
    checked = set[str]()
    for value in FULL:
        name = type(value).__name__
        if name in definitions(revision.name) and (name, revision) != ("CallToolResult", R2024_10_07):
            assert validator(revision.name, name).errors(write(value, revision)) == [], name
            checked.add(name)
    assert len(checked) >= 16


@pytest.mark.skipif(settings.DATA is None, reason="the official schemas are not here")
@pytest.mark.parametrize("revision", LEGACY, ids=str)
def test_encode_params_are_valid_in_each_revision(revision: Revision) -> None:
    for method in [row.name for row in METHODS if row.name in PARAMS and row.since <= revision]:
        name = name_of_method("2024-11-05" if revision is R2024_10_07 else revision.name, method)
        assert name is not None
        message: Object = {"method": method, "params": write(PARAMS[method], revision)}
        if "jsonrpc" in str(definitions(revision.name)[name]):  # from 2025-11-25 on, the envelope is in the definition
            message |= {"jsonrpc": "2.0"} | ({} if method.startswith("notifications/") else {"id": 1})
        assert validator(revision.name, name).errors(message) == [], method


@pytest.mark.parametrize("revision", LEGACY, ids=str)
def test_encode_writes_no_member_that_the_revision_lacks(revision: Revision) -> None:
    for value in PLAIN:
        assert set(write(value, revision)) <= set(shape_of(type(value), revision)), type(value).__name__


@pytest.mark.parametrize("value", [*FULL, *PARAMS.values()], ids=lambda value: type(value).__name__)
def test_encode_in_the_latest_revision_loses_nothing(value: object) -> None:
    codec = codec_for(R2025_11_25)
    assert codec.decode(type(value), codec.encode(value)) == value
    cls: type = type(value)
    for member in members_of(cls) if cls is not ElicitRequestParams else ():
        if getattr(value, member.attribute) not in (None, member.default):
            assert member.name in codec.encode(value)


@pytest.mark.parametrize("revision", LEGACY, ids=str)
def test_decode_and_encode_give_the_same_object(revision: Revision) -> None:
    codec = codec_for(revision)
    result = CallToolResult([TEXT] if revision.tool_result_is_any_json else [TEXT, IMAGE, AUDIO, LINK, EMBEDDED])
    for value in [*PLAIN, result, PARAMS["elicitation/create"]]:
        wire = codec.encode(value)
        assert codec.encode(codec.decode(type(value), wire)) == wire, type(value).__name__


def test_methods_have_types_for_params_and_result() -> None:
    for method in METHODS:
        for path in (method.params, method.result):
            assert path is None or is_dataclass(load_type(path)), method.name


# ------------------------------------------------------------------------------------------------ down-conversion


@pytest.mark.parametrize(
    ("value", "member", "since"),
    [
        (INFO, "title", R2025_06_18),
        (INFO, "description", R2025_11_25),
        (INFO, "icons", R2025_11_25),
        (INFO, "websiteUrl", R2025_11_25),
        (TOOL, "title", R2025_06_18),
        (TOOL, "annotations", R2025_03_26),
        (TOOL, "outputSchema", R2025_06_18),
        (TOOL, "icons", R2025_11_25),
        (TOOL, "_meta", R2025_06_18),
        (TEXT, "annotations", R2024_11_05),
        (TEXT, "_meta", R2025_06_18),
        (HINTS, "lastModified", R2025_06_18),
        (Resource("test://r", "r", size=3), "size", R2024_11_05),
        (Resource("test://r", "r", "R"), "title", R2025_06_18),
        (Resource("test://r", "r", icons=[ICON]), "icons", R2025_11_25),
        (ResourceTemplate("test://{r}", "r", "R"), "title", R2025_06_18),
        (Prompt("p", title="P"), "title", R2025_06_18),
        (PromptArgument("a", title="A"), "title", R2025_06_18),
        (PromptReference("p", "P"), "title", R2025_06_18),
        (Root("file:///", meta=META), "_meta", R2025_06_18),
        (ListToolsResult([], "next"), "nextCursor", R2024_11_05),
        (PaginatedRequestParams("cursor"), "cursor", R2024_11_05),
        (InitializeResult("2025-11-25", ServerCapabilities(), INFO, "read"), "instructions", R2024_11_05),
        (ServerCapabilities(completions={}), "completions", R2025_03_26),
        (ClientCapabilities(elicitation={}), "elicitation", R2025_06_18),
        (ProgressNotificationParams(1, 1, 2, "half"), "message", R2025_03_26),
        (CompleteRequestParams(PromptReference("p"), ARGUMENT, CompleteContext({})), "context", R2025_06_18),
        (CallToolResult([], {"a": 1}), "structuredContent", R2025_06_18),
        (ElicitRequestFormParams("?", OBJECT, "form"), "mode", R2025_11_25),
    ],
    ids=lambda value: str(value) if isinstance(value, (str, Revision)) else type(value).__name__,
)
def test_encode_drops_a_member_for_revisions_before_it(value: object, member: str, since: Revision) -> None:
    for revision in LEGACY:
        assert (member in write(value, revision)) is (since <= revision), revision


@dataclass(slots=True)
class _Slotted:
    name: str
    note: str | None = None


@dataclass
class _Fixed:
    name: str
    kind: str = field(default="fixed", init=False)
    note: str | None = None


@pytest.mark.parametrize("value", [_Slotted("a", "b"), _Fixed("a", "b")])
def test_encode_reads_fields_that_are_not_in_the_dict_of_the_object(value: object) -> None:
    assert codec_for(R2025_11_25).encode(value) == {"name": "a", "note": "b"}


class _Failure(CallToolResult):
    """A result of an author who sets only some of the fields."""

    def __init__(self) -> None:
        self.content, self.is_error = [TEXT], True


def test_encode_reads_the_defaults_of_fields_that_an_author_does_not_set() -> None:
    codec = codec_for(R2025_11_25)
    assert codec.encode(_Failure()) == codec.encode(CallToolResult([TEXT], is_error=True))


def test_encode_meta_exists_in_all_revisions() -> None:
    for value in (CallToolRequestParams("t", meta=META), CancelledNotificationParams(1, meta=META), EmptyResult(META)):
        for revision in LEGACY:
            assert write(value, revision)["_meta"] == META


@pytest.mark.parametrize("revision", LEGACY, ids=str)
def test_encode_audio_and_links_become_text_for_revisions_without_them(revision: Revision) -> None:
    audio, link = write(AUDIO, revision), write(LINK, revision)
    if revision < R2025_03_26:
        assert audio == {"type": "text", "text": "[audio, audio/wav: this protocol revision cannot carry it]"}
    else:
        assert (audio["type"], audio["data"]) == ("audio", "aGk=")
    if revision < R2025_06_18:
        assert link == {"type": "text", "text": "R <test://r>: about"}
    else:
        assert (link["type"], link["uri"]) == ("resource_link", "test://r")


def test_encode_refuses_a_value_whose_loss_changes_the_meaning() -> None:
    asked = CreateMessageRequestParams([SamplingMessage("user", TEXT)], 9)
    use, result = ToolUseContent("1", "t", {}), ToolResultContent("1", [TEXT])
    refused: list[object] = [
        CreateMessageRequestParams(asked.messages, 9, tools=[TOOL]),
        CreateMessageRequestParams(asked.messages, 9, tool_choice=ToolChoice("auto")),
        SamplingMessage("assistant", use),
        SamplingMessage("user", [result]),
        SamplingMessage("user", [TEXT, TEXT]),
    ]
    for value in refused:
        assert write(value, R2025_11_25)
        for revision in LEGACY[:-1]:
            with pytest.raises(NotInRevision, match=str(revision)):
                write(value, revision)


@pytest.mark.parametrize("revision", LEGACY, ids=str)
def test_encode_sampling_content_of_one_block_is_that_block_in_older_revisions(revision: Revision) -> None:
    for value in (SamplingMessage("user", [TEXT]), CreateMessageResult("user", [TEXT], "m")):
        assert write(value, revision)["content"] == write(TEXT, revision)


@pytest.mark.parametrize(
    ("result", "bare"),
    [
        (CallToolResult([TextContent("a")]), "a"),
        (CallToolResult([]), []),
        (CallToolResult([TextContent("a"), TextContent("b")]), [{"type": "text", "text": t} for t in "ab"]),
        (CallToolResult([TextContent("{}")], {"a": 1}), {"a": 1}),
        (CallToolResult([TextContent("no")], is_error=True), {"error": "no"}),
    ],
    ids=str,
)
def test_encode_tool_result_of_2024_10_07_is_bare(result: CallToolResult, bare: JSON) -> None:
    assert write(result, R2024_10_07) == {"toolResult": bare}


@pytest.mark.parametrize("revision", LEGACY, ids=str)
def test_decode_tool_result_takes_both_shapes_in_each_revision(revision: Revision) -> None:
    codec = codec_for(revision)
    assert codec.decode(CallToolResult, {"content": [{"type": "text", "text": "a"}]}).text == "a"
    assert codec.decode(CallToolResult, {"toolResult": "a"}).text == "a"
    image: Object = {"type": "image", "data": "AP8=", "mimeType": "image/png"}
    assert codec.decode(CallToolResult, {"toolResult": [image]}).content == [ImageContent("AP8=", "image/png")]
    bare = codec.decode(CallToolResult, {"toolResult": {"a": [1]}})
    assert (json.loads(bare.text), bare.structured_content) == ({"a": [1]}, {"a": [1]})


@pytest.mark.parametrize("revision", LEGACY, ids=str)
def test_encode_leaves_out_sub_capabilities_of_later_revisions(revision: Revision) -> None:
    wire = write(ClientCapabilities(sampling={"tools": {}}, elicitation={"url": {}}), revision)
    later = revision.name >= "2025-11-25"
    assert wire["sampling"] == ({"tools": {}} if later else {})
    if revision.name >= "2025-06-18":
        assert wire["elicitation"] == ({"url": {}} if later else {})


# ------------------------------------------------------------------------------------------------ reading


@pytest.mark.parametrize("revision", LEGACY, ids=str)
def test_decode_ignores_unknown_members_and_takes_null_for_absent(revision: Revision) -> None:
    codec = codec_for(revision)
    wire: Object = {"name": "t", "inputSchema": {}, "description": None, "title": None, "x-unknown": {"a": [1]}}
    assert codec.decode(Tool, wire) == Tool("t", {})


@pytest.mark.parametrize("revision", LEGACY, ids=str)
def test_decode_takes_members_of_other_revisions(revision: Revision) -> None:
    codec = codec_for(revision)
    wire = write(TOOL, R2025_11_25)
    assert codec.decode(Tool, wire) == TOOL
    blocks = [write(block, R2025_11_25) for block in (TEXT, IMAGE, AUDIO, LINK, EMBEDDED)]
    assert codec.decode(CallToolResult, {"content": blocks}).content == [TEXT, IMAGE, AUDIO, LINK, EMBEDDED]  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("cls", "wire", "fault"),
    [
        (Tool, {"inputSchema": {}}, "name: expected a string, got nothing"),
        (Tool, {"name": 7, "inputSchema": {}}, "name: expected a string, got 7"),
        (Tool, {"name": "t", "inputSchema": []}, "inputSchema: expected an object, got an array"),
        (Tool, [], "value: expected an object, got an array"),
        (ListToolsResult, {"tools": {}}, "tools: expected an array, got an object"),
        (ListToolsResult, {"tools": [{"name": "t"}]}, "tools[0].inputSchema: expected"),
        (ProgressNotificationParams, {"progressToken": True, "progress": 1}, "progressToken: expected"),
        (ProgressNotificationParams, {"progressToken": 1.5, "progress": 1}, "progressToken: expected"),
        (ProgressNotificationParams, {"progressToken": 1, "progress": "1"}, "progress: expected a number"),
        (ProgressNotificationParams, {"progressToken": 1, "progress": True}, "progress: expected a number"),
        (CallToolResult, {"content": [{"type": "video"}]}, "content[0].type"),
        (CallToolResult, {"content": [{"text": "x"}]}, "content[0].type"),
        (CallToolResult, {"content": [{"type": "text"}]}, "content[0].text: expected a string, got nothing"),
        (CallToolResult, {"content": [], "isError": 1}, "isError: expected true or false, got 1"),
        (GetPromptResult, {}, "messages: expected an array, got nothing"),
        (GetPromptResult, {"messages": [{"role": "system", "content": {}}]}, "messages[0].role"),
        (ReadResourceResult, {}, "contents: expected an array, got nothing"),
        (ReadResourceResult, {"contents": [{"uri": "x"}]}, "contents[0]"),
        (ReadResourceResult, {"contents": [{"text": "no URI"}]}, "contents[0]"),
        (CompleteResult, {"completion": {}}, "completion.values: expected an array, got nothing"),
        (ElicitResult, {"action": "maybe"}, "action: expected 'accept' or 'decline' or 'cancel', got the string"),
        (ElicitResult, {"action": "accept", "content": {"a": {}}}, "content.a"),
        (CompleteResult, {"completion": {"values": [1]}}, "completion.values[0]: expected a string, got 1"),
    ],
    ids=str,
)
def test_decode_shape_error_names_place_and_expected_shape(cls: type, wire: Object, fault: str) -> None:
    with pytest.raises(ShapeError) as caught:
        codec_for(R2025_11_25).decode(cls, wire)
    assert str(caught.value).startswith(fault), str(caught.value)


def test_decode_integer_may_be_a_float_and_number_an_integer() -> None:
    codec = codec_for(R2025_11_25)
    size = codec.decode(Resource, {"uri": "x", "name": "r", "size": 3.0}).size
    assert (size, type(size)) == (3, int)
    with pytest.raises(ShapeError, match=r"size: expected an integer, got 3\.5"):
        codec.decode(Resource, {"uri": "x", "name": "r", "size": 3.5})
    assert codec.decode(Annotations, {"priority": 1}).priority == 1


def test_decode_completion_reference_is_chosen_by_its_type() -> None:
    codec = codec_for(R2025_11_25)
    argument: Object = {"name": "a", "value": ""}
    for ref in (PromptReference("p"), ResourceTemplateReference("test://{x}")):
        wire: Object = {"ref": codec.encode(ref), "argument": argument}
        assert codec.decode(CompleteRequestParams, wire).ref == ref


def test_decode_elicitation_without_a_mode_is_a_form() -> None:
    codec = codec_for(R2025_11_25)
    form = codec.decode(ElicitRequestParams, {"message": "?", "requestedSchema": OBJECT})
    assert form.request == ElicitRequestFormParams("?", OBJECT)
    page = ElicitRequestParams(ElicitRequestURLParams("?", "https://example.org", "1"))
    assert codec.decode(ElicitRequestParams, codec.encode(page)) == page


# ------------------------------------------------------------------------------------------------ the annotations


@dataclass
class Example:
    """One of each kind of life."""

    always: str
    later: Annotated[str | None, Availability(since=R2025_06_18, required_since=R2025_11_25)] = None
    once: Annotated[str | None, Availability(until=R2025_03_26)] = None
    precious: Annotated[str | None, Availability(since=R2025_03_26, if_unsupported="refuse")] = None
    kind: Literal["example"] = "example"


def test_shape_of_follows_the_annotations() -> None:
    assert shape_of(Example, R2024_11_05) == {"always": True, "once": False, "kind": True}
    assert shape_of(Example, R2025_11_25) == {"always": True, "later": True, "precious": False, "kind": True}


def test_life_decides_what_is_written_read_and_required() -> None:
    value = Example("a", "b", "c", None)
    assert write(value, R2024_11_05) == {"always": "a", "once": "c", "kind": "example"}
    assert write(value, R2025_11_25) == {"always": "a", "later": "b", "kind": "example"}
    with pytest.raises(NotInRevision, match=r"Example.precious does not exist in revision 2024-11-05"):
        write(Example("a", precious="x"), R2024_11_05)
    with pytest.raises(ShapeError, match="later: expected"):
        codec_for(R2025_11_25).decode(Example, {"always": "a", "kind": "example"})
    assert codec_for(R2025_06_18).decode(Example, {"always": "a", "kind": "example"}) == Example("a")


@dataclass
class Ignoring:
    """A field that some revisions ignore, with and without a default."""

    needed: Annotated[str, Availability(since=R2025_03_26, if_unsupported="ignore")]
    optional: Annotated[str | None, Availability(since=R2025_03_26, if_unsupported="ignore")] = None


def test_decode_ignores_a_member_of_other_revisions_only_if_the_field_has_a_default() -> None:
    codec = codec_for(R2024_11_05)
    assert codec.decode(Ignoring, {"needed": "a", "optional": "b"}) == Ignoring("a")
    with pytest.raises(ShapeError, match="needed: expected a string, got nothing"):
        codec.decode(Ignoring, {"optional": "b"})
