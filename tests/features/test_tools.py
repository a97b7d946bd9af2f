"""Tools: the list with its schemas, the check of arguments, the results and the errors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal, NewType, TypedDict

import pytest

from mcp_ref import (
    CallToolResult,
    CapabilityError,
    Client,
    ConnectionClosed,
    Context,
    EmbeddedResource,
    Icon,
    ImageContent,
    InvalidMessage,
    ProtocolError,
    RemoteError,
    RequestTimeout,
    Server,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
    ToolError,
)
from mcp_ref.features import registered_tools
from mcp_ref.jsonrpc.messages import INTERNAL_ERROR, INVALID_PARAMS, JSON, Object
from mcp_ref.lib.jsonschema import SchemaError, Validator, compile_schema
from tests import messages
from tests.matrix import EVERY_REVISION, KINDS, LATEST_OF_BOTH_ERAS, LEGACY_REVISIONS, NAMES
from tests.messages import Received, notification
from tests.raw_peers import Wire, connected_client, raw_session, serve_call
from tests.settings import MODERN, PATIENCE

CHANGED = notification("notifications/tools/list_changed")


def tool_giving(value: object, **options: Object) -> Server:
    """Return a server with one tool, `t`, that returns a value and promises no schema of its own."""
    server = Server("s")

    async def t():  # type: ignore[no-untyped-def]
        return value

    server.tools.add(t, **options)  # type: ignore[arg-type]
    return server


async def call(wire: Wire, name: str = "t", arguments: JSON = None) -> Received:
    """Return the whole response to a call."""
    return await wire.ask("tools/call", {"name": name, **({} if arguments is None else {"arguments": arguments})})


async def result_of(wire: Wire, name: str = "t", arguments: JSON = None) -> Received:
    return messages.result_of(await call(wire, name, arguments))


def code_of(answer: Received) -> int:
    return int(answer["error"]["code"])


def failed(answer: Received, revision: str, saying: str = "") -> bool:
    """Return True if a response is a tool's failure, in the shape of the revision, with some text."""
    result = messages.result_of(answer)
    if revision == "2024-10-07":
        return saying in result["toolResult"]["error"]
    (block,) = result["content"]
    assert block["type"] == "text" and "structuredContent" not in result
    return result["isError"] is True and saying in str(block["text"])


def text(value: str) -> Object:
    return {"type": "text", "text": value}


# ------------------------------------------------------------------------------------------------ tools/list


@KINDS
@EVERY_REVISION
async def test_tools_list_shows_the_members_that_the_revision_has(kind: str, revision: str) -> None:
    server = Server("s")

    @server.tool(
        "get_weather",
        title="Weather",
        annotations=ToolAnnotations("Old title", read_only_hint=True, open_world_hint=False),
        icons=[Icon("https://example.com/w.png", "image/png", ["48x48"])],
        meta={"com.example/x": 1},
    )
    async def weather(location: str, days: int = 1) -> int:
        """Get the weather.

        Args:
            location: City name or zip code
        """
        return days

    schema: Object = {
        "type": "object",
        "properties": {
            "location": {"type": "string", "description": "City name or zip code"},
            "days": {"type": "integer", "default": 1},
        },
        "required": ["location"],
        "additionalProperties": False,
    }
    listed: Object = {"name": "get_weather", "description": "Get the weather.", "inputSchema": schema}
    if revision >= "2025-03-26":
        listed["annotations"] = {"title": "Old title", "readOnlyHint": True, "openWorldHint": False}
    if revision >= "2025-06-18":
        bare: Object = {"type": "integer"}
        wrapped: Object = {"type": "object", "properties": {"result": bare}, "required": ["result"]}
        output = bare if revision == MODERN else wrapped
        listed |= {"title": "Weather", "outputSchema": output, "_meta": {"com.example/x": 1}}
    if revision >= "2025-11-25":
        icon: Object = {"src": "https://example.com/w.png", "mimeType": "image/png", "sizes": ["48x48"]}
        listed["icons"] = [icon]
    async with connected_client(server, kind, revision) as wire:
        assert (await wire.ask("tools/list"))["result"] == {"tools": [listed]}


@dataclass
class Node:
    name: str
    leaves: list[Leaf]


@dataclass
class Leaf:
    size: int


@pytest.mark.spec("2025-11-25..2026-07-28/server/tools#tool-1")
@EVERY_REVISION
async def test_tools_list_input_schemas_are_valid_and_of_type_object(revision: str) -> None:
    server = Server("s")
    given: list[Object] = [
        {"type": "object", "additionalProperties": False},
        {"type": "object"},
        {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "definitions": {"a": True}},
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "$defs": {"a": True}},
    ]
    for number, schema in enumerate(given):
        server.tools.add(lambda **anything: "", f"given{number}", input_schema=schema)

    @server.tool()
    async def nothing() -> None: ...

    @server.tool()
    async def untyped(a, b=None, **rest):  # type: ignore[no-untyped-def]
        return 1

    @server.tool()
    async def nested(node: Node, mode: Literal["deep", "flat"] = "deep") -> Node:
        return node

    @server.tool()
    async def with_context(context: Context, number: float | None = None) -> str:
        return ""

    async with connected_client(server, revision=revision) as wire:
        tools = (await wire.ask("tools/list"))["result"]["tools"]
        assert len(tools) == 8
        for tool in tools:
            assert tool["inputSchema"]["type"] == "object"
            compile_schema(tool["inputSchema"])
        assert [tool["inputSchema"] for tool in tools[:4]] == given
        assert "context" not in json.dumps(tools[-1]["inputSchema"])


ANY_OUTPUT: list[Object] = [{}, {"type": "string"}, {"type": ["object", "null"]}, {"properties": {}}]
"""Schemas that are good for an output, not for an input."""


@pytest.mark.spec(
    "2025-11-25..2026-07-28/server/tools#tool-1", "2025-11-25..2026-07-28/basic/index#schema-validation-1"
)
@pytest.mark.parametrize("which", ["input_schema", "output_schema"])
@pytest.mark.parametrize(
    "schema",
    [
        None,
        True,
        [],
        *ANY_OUTPUT,
        {"type": "object", "properties": []},
        {"type": "object", "required": "a"},
        {"type": "object", "properties": {"a": {"type": "text"}}},
        {"type": "object", "properties": {"a": {"minimum": "0"}}},
        {"type": "object", "properties": {"a": {"pattern": "("}}},
        {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "dependencies": 1},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/absent"}}},
    ],
    ids=repr,
)
def test_tools_add_invalid_schema_or_input_that_is_not_an_object_raises(which: str, schema: Object) -> None:
    if which == "output_schema" and (schema is None or schema in ANY_OUTPUT):
        return  # None means no output schema
    server = Server("s")
    with pytest.raises((ValueError, TypeError)):
        server.tools.add(lambda: {}, "t", **{which: schema})  # type: ignore[arg-type]
    server.tools.add(lambda: {}, "t")  # nothing half-done stayed behind


Malformed = Annotated[int, {"minimum": "one"}]
NEW_MALFORMED = NewType("NEW_MALFORMED", Malformed)


@dataclass
class MalformedField:
    inner: list[Malformed]


class MalformedKey(TypedDict):
    inner: Malformed


@pytest.mark.parametrize(
    "annotation",
    [Malformed, MalformedField | int, NEW_MALFORMED, set[Malformed], tuple[int, Malformed],
     tuple[Malformed, ...], dict[str, Malformed], MalformedField, MalformedKey],
)  # fmt: skip
def test_tools_add_annotation_with_malformed_keywords_raises(annotation: object) -> None:
    async def argument(count): ...  # type: ignore[no-untyped-def]
    async def arguments(**counts): ...  # type: ignore[no-untyped-def]
    async def result(): ...  # type: ignore[no-untyped-def]

    server = Server("s")
    for function, name in ((argument, "count"), (arguments, "counts"), (result, "return")):
        function.__annotations__[name] = annotation
        with pytest.raises(SchemaError, match="minimum"):
            server.tools.add(function)


async def test_tools_call_first_call_compiles_generated_schemas(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[JSON] = []

    def counted(schema: JSON) -> Validator:
        compiled.append(schema)
        return compile_schema(schema)

    monkeypatch.setattr(registered_tools, "compile_schema", counted)
    server = Server("s")

    @server.tool()
    async def t(limit: int = 1, name: str | None = None) -> int:
        return limit

    async with connected_client(server) as wire:
        await wire.ask("tools/list", {})
        assert compiled == []
        for _ in range(2):
            assert (await result_of(wire, "t"))["structuredContent"] == {"result": 1}
        assert len(compiled) == 2  # the schemas of the arguments and of the result


@pytest.mark.spec("2025-11-25/server/tools#tool-names-1,3,4")
async def test_tools_add_name_outside_the_rules_is_logged_and_served(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("s")
    for name in ("getUser", "DATA_EXPORT_v2", "admin.tools.list", "a", "0-_.", "n" * 128):
        server.tools.add(lambda: "", name)
    assert caplog.text == ""
    for name in ("with space", "a,b", "é", "n" * 129, "a/b", "<lambda>"):
        caplog.clear()
        server.tools.add(lambda: "", name)
        assert "1 to 128" in caplog.text and name[:40] in caplog.text
    async with connected_client(server) as wire:
        assert "isError" not in await result_of(wire, "a,b")


@pytest.mark.spec("2025-11-25/server/tools#tool-names-2,5")
async def test_tool_names_are_case_sensitive_and_unique() -> None:
    server = Server("s")
    server.tools.add(lambda: "small", "get_user")
    server.tools.add(lambda: "large", "GET_USER")
    with pytest.raises(ValueError, match="already registered"):
        server.tools.add(lambda: "", "get_user")
    async with connected_client(server) as wire:
        assert (await result_of(wire, "get_user"))["content"] == [text("small")]
        assert (await result_of(wire, "GET_USER"))["content"] == [text("large")]
        assert code_of(await call(wire, "Get_User")) == INVALID_PARAMS


# ------------------------------------------------------------------------------------------------ arguments


@EVERY_REVISION
async def test_tools_call_malformed_params_or_unknown_tool_is_invalid_params(revision: str) -> None:
    names: list[JSON] = [None, 3, ["t"], "", "absent", "T", "__class__", "absent" * 4_000]
    arguments: list[JSON] = [[], "x", 3]
    wrong: list[JSON] = [None, {}, {"arguments": {}}, *({"name": name} for name in names)]
    async with connected_client(tool_giving("x"), revision=revision) as wire:
        for params in [*wrong, *({"name": "t", "arguments": each} for each in arguments)]:
            answer = await wire.ask("tools/call", params)  # type: ignore[arg-type]
            assert code_of(answer) == INVALID_PARAMS, params
            assert len(json.dumps(answer)) < 1000, "an error does not repeat all that it was sent"
        assert await result_of(wire) == await result_of(wire, arguments={})


@pytest.mark.spec("2024-11-05..2026-07-28/server/tools#security-considerations-1")
@EVERY_REVISION
async def test_tools_call_invalid_arguments_are_refused_as_the_revision_says(revision: str) -> None:
    wrong: list[Object] = [
        {}, {"a": "x"}, {"a": 1, "mode": "fats"}, {"a": None, "mode": "fast"}, {"a": "1", "mode": "fast"},
        {"a": True, "mode": "fast"}, {"a": 1.5, "mode": "fast"}, {"a": [1], "mode": "fast"},
        {"a": 1, "mode": "fast", "extra": 1}, {"a": 1, "mode": "fast", "context": {}},
        {"a": 1, "mode": "fast", "self": 1}, {"a": 1, "mode": "fast", "items": ["x", 2]},
        {"a": 1, "mode": "fast", "node": {"name": "x"}},
        {"a": 1, "mode": "fast", "node": {"name": "x", "leaves": [{"size": "2"}]}},
    ]  # fmt: skip
    server = Server("s")
    seen: list[object] = []

    @server.tool()
    async def t(
        context: Context,
        a: int,
        mode: Literal["fast", "slow"],
        items: list[str] | None = None,
        node: Node | None = None,
    ) -> str:
        seen.append((a, mode, items, node))
        return "done"

    async with connected_client(server, revision=revision) as wire:
        for arguments in wrong:
            answer = await call(wire, "t", arguments)
            if revision >= "2025-11-25":
                assert failed(answer, revision, "Invalid arguments"), arguments
            else:
                assert code_of(answer) == INVALID_PARAMS, arguments
        assert seen == []
        node: Object = {"name": "x", "leaves": [{"size": 2}]}
        await call(wire, "t", {"a": 1, "mode": "fast", "items": ["x"], "node": node})
        assert seen == [(1, "fast", ["x"], Node("x", [Leaf(2)]))]


@pytest.mark.spec("2024-11-05..2026-07-28/server/tools#security-considerations-1")
@EVERY_REVISION
async def test_tools_call_arguments_are_checked_against_the_given_schema(revision: str) -> None:
    server = Server("s")
    schema: Object = {
        "type": "object",
        "properties": {"a": {"type": "integer", "minimum": 1, "maximum": 9}},
        "required": ["a"],
    }

    @server.tool(input_schema=schema)
    async def t(**arguments: object) -> TextContent:
        return TextContent(json.dumps(arguments))

    async with connected_client(server, revision=revision) as wire:
        wrong: list[Object] = [{}, {"a": 0}, {"a": 10}, {"a": "5"}]
        for arguments in wrong:
            answer = await call(wire, "t", arguments)
            assert failed(answer, revision) if revision >= "2025-11-25" else code_of(answer) == INVALID_PARAMS
        result = await result_of(wire, "t", {"a": 5, "b": [None]})
        shown = '{"a": 5, "b": [null]}'
        assert result == ({"toolResult": shown} if revision == "2024-10-07" else {"content": [text(shown)]})


# ------------------------------------------------------------------------------------------------ results


@KINDS
@EVERY_REVISION
@pytest.mark.breaks("embedded_resources")
async def test_tools_call_makes_content_of_the_returned_value(kind: str, revision: str) -> None:
    odd = 'line\nbreak\r\n\u2028 "quotes" \\ é 💡 \x00'
    image: Object = {"type": "image", "data": "AP8=", "mimeType": "image/png"}
    embedded: Object = {"uri": "file:///a", "mimeType": "text/plain", "text": "A"}
    cases: list[tuple[object, list[JSON], JSON]] = [
        (odd, [text(odd)], odd),
        ("", [text("")], ""),
        (None, [], []),
        (3, [text("3")], "3"),
        (True, [text("true")], "true"),
        ({"a": [1, None, "é"]}, [text('{"a": [1, null, "é"]}')], '{"a": [1, null, "é"]}'),
        ([], [text("[]")], "[]"),
        (b"\x00\xff", [text("AP8=")], "AP8="),
        (TextContent("x"), [text("x")], "x"),
        (ImageContent.of(b"\x00\xff", "image/png"), [image], [image]),
        (["a", ImageContent("AP8=", "image/png"), 3], [text("a"), image, text("3")], [text("a"), image, text("3")]),
        (
            EmbeddedResource(TextResourceContents("file:///a", "A", "text/plain")),
            [{"type": "resource", "resource": embedded}],
            [{"type": "resource", "resource": embedded}],
        ),
        (CallToolResult([TextContent("x"), TextContent("y")]), [text("x"), text("y")], [text("x"), text("y")]),
    ]
    for value, content, bare in cases:
        async with connected_client(tool_giving(value), kind, revision) as wire:
            expected: Object = {"toolResult": bare} if revision == "2024-10-07" else {"content": content}
            assert await result_of(wire) == expected


@pytest.mark.spec(
    "2025-06-18..2026-07-28/server/tools#structured-content-1", "2025-06-18..2026-07-28/server/tools#output-schema-1"
)
@EVERY_REVISION
async def test_tools_call_structured_content_conforms_and_is_repeated_as_text(revision: str) -> None:
    server = Server("s")
    schema: Object = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    own = CallToolResult([TextContent("one")], {"n": 1}, meta={"com.example/x": 1})
    server.tools.add(lambda: {"n": 1}, "given", output_schema=schema)
    server.tools.add(lambda: own, "own", output_schema=schema)
    async with connected_client(server, revision=revision) as wire:
        tools = (await wire.ask("tools/list"))["result"]["tools"]
        results = [await result_of(wire, tool["name"]) for tool in tools]
        if revision < "2025-06-18":
            assert not any("outputSchema" in tool for tool in tools)
            assert not any("structuredContent" in result for result in results)
        else:
            assert [tool["outputSchema"] for tool in tools] == [schema, schema]
            data: Object = {"structuredContent": {"n": 1}}
            assert results == [
                {"content": [text('{"n": 1}')], **data},
                {"content": [text("one")], **data, "_meta": {"com.example/x": 1}},
            ]


def wrong_results() -> dict[str, Callable[[], object]]:
    """Return functions that break the schema {"n": integer}."""
    return {
        "none": lambda: None,
        "a text": lambda: "x",
        "a list": lambda: [{"n": 1}],
        "without n": lambda: {"m": 1},
        "n is no integer": lambda: {"n": "secret"},
        "no structured content": lambda: CallToolResult([TextContent("x")]),
        "structured content that does not conform": lambda: CallToolResult([TextContent("x")], {"n": "secret"}),
    }


@pytest.mark.spec("2025-06-18..2026-07-28/server/tools#output-schema-1")
@LATEST_OF_BOTH_ERAS
@pytest.mark.parametrize("wrong", wrong_results())
async def test_tools_call_result_that_breaks_the_output_schema_is_not_sent(
    revision: str, wrong: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("s")
    schema: Object = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    server.tools.add(wrong_results()[wrong], "t", output_schema=schema)
    async with connected_client(server, revision=revision) as wire:
        answer = await call(wire)
        assert failed(answer, revision) and "secret" not in json.dumps(answer)
    assert "output schema" in caplog.text, "the operator learns which tool is wrong"
    assert ("is `return` missing?" in caplog.text) == (wrong == "none")


@EVERY_REVISION
async def test_tools_call_error_result_need_not_match_the_output_schema(revision: str) -> None:
    schema: Object = {"type": "object", "required": ["n"]}
    value = CallToolResult([TextContent("no such city")], is_error=True)
    async with connected_client(tool_giving(value, output_schema=schema), revision=revision) as wire:
        assert failed(await call(wire), revision, "no such city")


# ------------------------------------------------------------------------------------------------ failures


@EVERY_REVISION
async def test_tools_call_tool_error_is_a_result_with_is_error(revision: str) -> None:
    server = Server("s")

    @server.tool()
    async def on_the_loop(date: str) -> int:
        raise ToolError(f"{date} is in the past")

    @server.tool()
    def in_a_thread(date: str) -> int:
        raise ToolError(f"{date} is in the past")

    async with connected_client(server, revision=revision) as wire:
        for name in ("on_the_loop", "in_a_thread"):
            answer = await call(wire, name, {"date": "1970-01-01"})
            assert failed(answer, revision, "1970-01-01 is in the past")


def raising(where: str, make: Callable[[], BaseException]) -> Server:
    """Return a server with one tool, `t`, that raises a new error at each call."""

    def in_a_thread() -> object:
        raise make()

    async def on_the_loop() -> object:
        raise make()

    server = Server("s")
    server.tools.add(on_the_loop if where == "on the loop" else in_a_thread, "t")
    return server


WHERE = pytest.mark.parametrize("where", ["on the loop", "in a thread"])


@pytest.mark.spec("2024-11-05..2025-11-25/server/tools#security-considerations-4")
@KINDS
@WHERE
@pytest.mark.parametrize(
    "error",
    [
        RuntimeError, SystemExit, KeyboardInterrupt, StopIteration, GeneratorExit, TimeoutError, ConnectionError,
        RecursionError, MemoryError, ConnectionClosed, lambda text: ExceptionGroup(text, [ValueError(text)]),
    ],
)  # fmt: skip
async def test_tools_call_exception_is_a_plain_error_for_the_model_and_a_traceback_in_the_log(
    kind: str, where: str, error: Callable[[str], BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    name = type(error("")).__name__
    async with connected_client(raising(where, lambda: error("secret")), kind) as wire:
        answer = await call(wire)
        told = json.dumps(answer)
        assert failed(answer, "2025-11-25", "failed")
        assert "secret" not in told and name not in told and "Traceback" not in told
        assert failed(await call(wire), "2025-11-25"), "and the server lives on"
    assert "Traceback" in caplog.text and "secret" in caplog.text and name in caplog.text


@pytest.mark.spec("2024-11-05..2026-07-28/server/tools#security-considerations-4")
@KINDS
@EVERY_REVISION
@pytest.mark.parametrize(
    "value",
    [
        "\ud800",
        float("nan"),
        {"a": float("inf")},
        object(),
        {1: object()},
        TextContent(3),  # type: ignore[arg-type]
        ImageContent("no base64", "image/png"),
        ImageContent("AAAA", "png\n"),
        [ImageContent("AAAA", "image/png"), object()],
        CallToolResult(None),  # type: ignore[arg-type]
        CallToolResult([3]),  # type: ignore[list-item]
        CallToolResult([], object()),  # type: ignore[arg-type]
    ],
    ids=repr,
)
async def test_tools_call_output_that_json_cannot_hold_is_an_error_and_the_session_goes_on(
    kind: str, revision: str, value: object
) -> None:
    async with connected_client(tool_giving(value), kind, revision) as wire:
        answer = await call(wire)
        if "error" in answer:
            assert code_of(answer) == INTERNAL_ERROR
        else:
            assert failed(answer, revision)
        await wire.nothing_more()


def first_failure(error: Exception) -> ExceptionGroup[Exception]:
    """Let a task of a TaskGroup within a TaskGroup fail, and then another task while it is stopped."""
    return ExceptionGroup("outer", [ExceptionGroup("inner", [error]), ValueError("the second")])


@WHERE
@pytest.mark.parametrize(
    ("error", "told"),
    [
        (lambda: ToolError("the date is in the past"), "the date is in the past"),
        (lambda: CapabilityError("the client has no model"), "the client has no model"),
        (lambda: RemoteError(-1, "the user said no"), "a request of the handler returned the error -1"),
    ],
    ids=["ToolError", "McpError", "RemoteError"],
)
async def test_tools_call_exception_group_reports_the_first_and_logs_the_rest(
    where: str, error: Callable[[], Exception], told: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = raising(where, lambda: first_failure(error()))

    @server.tool()
    async def alone() -> None:
        async def one() -> None:
            raise error()

        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(PATIENCE))
            group.create_task(one())

    async with connected_client(server) as wire:
        assert failed(await call(wire, "alone"), "2025-11-25", told)
        is_told = told in str(error())
        assert not caplog.records or not is_told, "nothing that the operator does not expect"
        assert failed(await call(wire), "2025-11-25", told)
    assert "ValueError: the second" in caplog.text


@pytest.mark.parametrize("within", [lambda error: error, first_failure], ids=["itself", "in a group"])
async def test_tools_call_protocol_error_is_the_response(within: Callable[[Exception], Exception]) -> None:
    error = ProtocolError(-32050, "not today", {"until": "tomorrow"})
    async with connected_client(raising("on the loop", lambda: within(error))) as wire:
        sent: Object = {"code": -32050, "message": "not today", "data": {"until": "tomorrow"}}
        assert (await call(wire))["error"] == sent


# ------------------------------------------------------------------------------------------------ the client


async def test_client_prefers_the_content_of_a_result_that_has_two_forms() -> None:
    async with raw_session(Client, "2024-10-07", {"tools": {}}) as (client, wire):
        both: Object = {"content": [text("new")], "toolResult": "old"}
        result, _ = await serve_call(client.call_tool("add"), wire, both)
        assert result.text == "new"


@LEGACY_REVISIONS
async def test_client_call_tool_returns_the_result(revision: str) -> None:
    async with raw_session(Client, revision, {"tools": {}}) as (client, wire):
        sent: Object = {"content": [text("3"), text("three")], "structuredContent": {"\u03a3": 3}}
        if revision == "2024-10-07":
            sent = {"toolResult": {"\u03a3": 3}}
        result, asked = await serve_call(client.call_tool("add", {"a": 1}), wire, sent)
        assert (asked["method"], asked["params"]) == ("tools/call", {"name": "add", "arguments": {"a": 1}})
        assert result.text == ('{"\u03a3": 3}' if revision == "2024-10-07" else "3\nthree")
        assert result.structured_content == {"\u03a3": 3} and not result.is_error


@pytest.mark.parametrize(
    ("tool_result", "is_error"),
    [({"error": "no such city", "status": "empty"}, True), ({"error": None}, False), ({"city": "Bern"}, False),
     ("error", False), (["error"], False)],
)  # fmt: skip
async def test_client_result_of_2024_10_07_is_an_error_if_it_has_an_error_text(
    tool_result: JSON, is_error: bool
) -> None:
    async with raw_session(Client, "2024-10-07", {"tools": {}}) as (client, wire):
        result, _ = await serve_call(client.call_tool("t"), wire, {"toolResult": tool_result})
        assert result.is_error is is_error
        assert result.text == tool_result or json.loads(result.text) == tool_result


@pytest.mark.spec("2025-11-25/server/tools#error-handling-1")
@pytest.mark.parametrize("revision", NAMES[1:])
async def test_client_call_tool_returns_tool_errors_and_raises_protocol_errors(revision: str) -> None:
    async with raw_session(Client, revision, {"tools": {}}) as (client, wire):
        sent: Object = {"content": [text("no such city")], "isError": True}
        result, _ = await serve_call(client.call_tool("t"), wire, sent)
        assert result.is_error and result.text == "no such city"
        calling = asyncio.create_task(client.call_tool("absent"))
        asked = await wire.receive_object()
        error: Object = {"code": INVALID_PARAMS, "message": "Unknown tool: absent"}
        await wire.send({"jsonrpc": "2.0", "id": asked["id"], "error": error})
        with pytest.raises(RemoteError, match="Unknown tool: absent"):
            await calling


@pytest.mark.spec(
    "2025-06-18..2025-11-25/server/tools#output-schema-2",
    "2025-06-18..2025-11-25/server/tools#security-considerations-7",
)
@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
async def test_client_call_tool_checks_structured_content_against_the_listed_schema(revision: str) -> None:
    schema: Object = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    tool: Object = {"name": "t", "inputSchema": {"type": "object"}, "outputSchema": schema}
    structures: list[JSON] = [{}, {"n": "1"}, None, [1]]
    wrong: list[Object] = [{"content": [], "structuredContent": each} for each in structures]
    async with raw_session(Client, revision, {"tools": {}}) as (client, wire):
        await serve_call(client.list_tools(), wire, {"tools": [tool]})
        for each in [*wrong, Object(content=[]), Object(content=[text('{"n": 1}')])]:
            with pytest.raises(InvalidMessage):
                await serve_call(client.call_tool("t"), wire, each)
        right, _ = await serve_call(client.call_tool("t"), wire, {"content": [], "structuredContent": {"n": 1}})
        assert right.structured_content == {"n": 1}
        failure, _ = await serve_call(client.call_tool("t"), wire, {"content": [text("failed")], "isError": True})
        assert failure.is_error, "an error needs not conform"


@pytest.mark.spec("2025-11-25..2026-07-28/server/tools#tool-2", "2025-03-26..2025-06-18/server/tools#tool-1")
@pytest.mark.parametrize("revision", [*NAMES[2:], MODERN])
@pytest.mark.parametrize(
    "annotations",
    [
        {"readOnlyHint": True, "idempotentHint": True, "destructiveHint": False, "openWorldHint": False},
        {"readOnlyHint": False, "idempotentHint": False, "destructiveHint": True, "openWorldHint": True},
    ],
)
async def test_client_ignores_tool_annotations(revision: str, annotations: Object) -> None:
    # The hints reach the program, for people to see. The messages are the same with every hint: no call is served
    # from a cache because the tool is "read-only", or sent again because the tool is "idempotent".
    async with raw_session(Client, revision, {"tools": {}}) as (client, wire):
        tool: Object = {"name": "t", "inputSchema": {"type": "object"}, "annotations": annotations}
        (listed,), _ = await serve_call(client.list_tools(), wire, {"tools": [tool]})
        assert listed.annotations is not None
        assert listed.annotations.read_only_hint is annotations["readOnlyHint"]
        for _ in range(2):
            _, asked = await serve_call(client.call_tool("t", {"a": 1}), wire, {"content": [text("x")]})
            said = {name: value for name, value in asked["params"].items() if name != "_meta"}
            assert (asked["method"], said) == ("tools/call", {"name": "t", "arguments": {"a": 1}})
        with pytest.raises(RequestTimeout):
            await client.call_tool("t", {"a": 1}, timeout=0.01)
        frames = [(await wire.receive_object())["method"] for _ in range(2)]
        assert frames == ["tools/call", "notifications/cancelled"] and wire.frames.empty()
