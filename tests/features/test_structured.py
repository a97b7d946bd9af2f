"""Structured content: data in a tool's result. Any JSON since 2026-07-28, an object before; one tool serves both."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import pytest

from mcp_ref import CallToolResult, Client, InvalidMessage, Server, TextContent, Tool, ToolResultContent
from mcp_ref.codec import codec_for
from mcp_ref.jsonrpc.messages import JSON, Object
from mcp_ref.lib.jsonschema import SchemaError
from mcp_ref.revisions import R2024_10_07, R2025_06_18, R2025_11_25, R2026_07_28
from tests.matrix import STATELESS_KINDS
from tests.messages import Received, request, result_of, shape_of, stateless_request
from tests.raw_peers import (
    Wire,
    connect_modern,
    connected_client,
    raw_client,
    raw_server,
    raw_session,
    reply,
    serve_call,
)
from tests.settings import DATA, MODERN, run

OBJECTS_ONLY = pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])


@dataclass
class Point:
    """A place."""

    x: int


POINT: Object = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
DERIVED: list[tuple[Any, object, Object, JSON]] = [
    (int | None, None, {"type": ["integer", "null"]}, None),
    (bool, False, {"type": "boolean"}, False),
    (int, 0, {"type": "integer"}, 0),
    (str, "", {"type": "string"}, ""),
    (float, 0.5, {"type": "number"}, 0.5),
    (list[int], [], {"type": "array", "items": {"type": "integer"}}, []),
    (list[Point], [Point(1), Point(2)], {"type": "array", "items": POINT}, [{"x": 1}, {"x": 2}]),
    (Point, Point(3), POINT, {"x": 3}),
    (dict[str, int | None], {"a": None}, {"type": "object", "additionalProperties": {"type": ["integer", "null"]}},
     {"a": None}),
]  # fmt: skip
"""Annotations of results, values, the schemas of the annotations, and the values as JSON."""
DERIVATIONS = pytest.mark.parametrize(("annotation", "value", "schema", "data"), DERIVED, ids=repr)

ANY_OBJECT: Object = {"anyOf": [{"type": "object", "required": ["a"]}, {"type": "object", "required": ["b"]}]}
GIVEN: list[tuple[Object, JSON]] = [
    ({}, None),
    ({"type": "null"}, None),
    ({"type": "array", "prefixItems": [{"$ref": "#/$defs/n"}], "$defs": {"n": {"type": "integer"}}}, [1, "x"]),
    ({"const": False}, False),
    ({"enum": [0, ""]}, ""),
]
"""Schemas that are given, and values that conform."""


def returning(annotation: object, value: object) -> Callable[[], object]:
    """Return a function with this return annotation."""

    def t() -> object:
        return value

    t.__annotations__["return"] = annotation
    return t


async def first_tool(wire: Wire, ask: Callable[..., Object]) -> Received:
    """Return the first tool of a list."""
    await wire.send(ask("tools/list"))
    tool: Received = result_of(await wire.receive())["tools"][0]
    return tool


async def called(wire: Wire, ask: Callable[..., Object], name: JSON = "t") -> Object:
    """Return the result of a call."""
    await wire.send(ask("tools/call", {"name": name}))
    return result_of(await wire.receive())


# ------------------------------------------------------------------------------------------------ the server


@pytest.mark.spec("2026-07-28/server/tools#structured-content-1", "2026-07-28/server/tools#output-schema-1")
@STATELESS_KINDS
@DERIVATIONS
async def test_structured_content_is_any_json_with_its_own_schema_and_repeated_as_text(
    kind: str, annotation: object, value: object, schema: Object, data: JSON
) -> None:
    server = Server("s")
    server.tools.add(returning(annotation, value))
    async with raw_client(server, kind) as wire:
        tool, result = await first_tool(wire, stateless_request), await called(wire, stateless_request)
        assert tool["outputSchema"] == schema
        assert json.dumps(result["structuredContent"]) == json.dumps(data), "false is not 0"
        assert result["content"] == [{"type": "text", "text": data if isinstance(data, str) else json.dumps(data)}]


@OBJECTS_ONLY
@DERIVATIONS
async def test_structured_content_is_wrapped_in_an_object_for_revisions_that_allow_only_objects(
    revision: str, annotation: object, value: object, schema: Object, data: JSON
) -> None:
    server = Server("s")
    server.tools.add(returning(annotation, value))
    async with connected_client(server, revision=revision) as wire:
        tool, result = await first_tool(wire, request), await called(wire, request)
        if schema["type"] != "object":
            assert tool["outputSchema"] == {"type": "object", "properties": {"result": schema}, "required": ["result"]}
            assert result["structuredContent"] == {"result": data}
        else:
            assert (tool["outputSchema"], result["structuredContent"]) == (schema, data)
        assert result["content"] == [{"type": "text", "text": data if isinstance(data, str) else json.dumps(data)}]


@pytest.mark.parametrize(("schema", "value"), GIVEN, ids=repr)
@pytest.mark.breaks("structured_content_as_text")
async def test_output_schema_given_is_listed_unchanged_and_checked(schema: Object, value: JSON) -> None:
    server = Server("s")
    server.tools.add(lambda: value, "t", output_schema=schema)
    null = CallToolResult([], value, structured_null=value is None)
    server.tools.add(lambda: null, "own", output_schema=schema)
    async with raw_client(server) as wire:
        assert (await first_tool(wire, stateless_request))["outputSchema"] == schema
        for name in ("t", "own"):
            result = await called(wire, stateless_request, name)
            assert "isError" not in result and result["structuredContent"] == value


@pytest.mark.parametrize("revision", ["2024-10-07", "2024-11-05", "2025-11-25"])
@pytest.mark.parametrize(("schema", "value"), GIVEN, ids=repr)
async def test_output_schema_given_is_hidden_with_its_data_where_only_objects_are_allowed(
    revision: str, schema: Object, value: JSON
) -> None:
    server = Server("s")
    server.tools.add(lambda: value, "t", output_schema=schema)
    async with connected_client(server, revision=revision) as wire:
        assert "outputSchema" not in await first_tool(wire, request)
        result = await called(wire, request)
        if revision == "2024-10-07":
            assert result == {"toolResult": value}
        else:
            assert result == {
                "content": [{"type": "text", "text": value if isinstance(value, str) else json.dumps(value)}]
            }


@OBJECTS_ONLY
async def test_structured_content_object_is_sent_even_if_its_schema_is_hidden(revision: str) -> None:
    server = Server("s")
    server.tools.add(lambda: {"a": 1}, "t", output_schema=ANY_OBJECT)
    async with connected_client(server, revision=revision) as wire:
        assert "outputSchema" not in await first_tool(wire, request)
        assert (await called(wire, request))["structuredContent"] == {"a": 1}


WRONG: list[tuple[Object, object]] = [
    ({}, CallToolResult([TextContent("x")])),
    ({"type": "null"}, CallToolResult([TextContent("x")])),
    ({"type": "null"}, CallToolResult([], 1, structured_null=True)),
    ({"type": "integer"}, None),
    ({"type": "integer"}, False),
    ({"type": "array"}, {}),
    ({"type": "object"}, []),
    ({"type": "string"}, CallToolResult([], structured_null=True)),
]
"""Schemas, and results that break them. False values are data, too."""


@pytest.mark.spec("2026-07-28/server/tools#output-schema-1")
@pytest.mark.parametrize(("schema", "value"), WRONG, ids=repr)
async def test_structured_content_missing_or_invalid_is_not_sent(schema: Object, value: object) -> None:
    server = Server("s")
    server.tools.add(lambda: value, "t", output_schema=schema)
    async with raw_client(server) as wire:
        result = await called(wire, stateless_request)
        assert result["isError"] is True and "structuredContent" not in result


# ------------------------------------------------------------------------------------------------ $ref


@pytest.mark.spec("2026-07-28/basic/index#ref-resolution-1,2,4")
async def test_output_schema_with_a_remote_ref_is_not_fetched(caplog: pytest.LogCaptureFixture) -> None:
    visits: list[object] = []
    listening = await asyncio.start_server(lambda _, writer: visits.append(writer), "127.0.0.1", 0)
    async with listening:
        port = listening.sockets[0].getsockname()[1]
        schema: Object = {"type": "object", "properties": {"a": {"$ref": f"http://127.0.0.1:{port}/a.json"}}}
        for which in ("input_schema", "output_schema"):
            with pytest.raises(SchemaError, match=r"a\.json"):
                Server("s").tools.add(lambda: {}, "t", **{which: schema})  # type: ignore[arg-type]
        with caplog.at_level(logging.WARNING):
            await checked(schema, {"a": 1})
        assert "a.json" in caplog.text
    assert visits == []


# ------------------------------------------------------------------------------------------------ the client


async def checked(schema: Object, *data: JSON) -> CallToolResult:
    """Let a client of 2026-07-28 check a result with these data, or without data, of a tool with this schema."""
    async with raw_server(lambda transport: Client(transport, revision=MODERN)) as (client, wire):
        await connect_modern(client, wire)
        tool: Object = {"name": "t", "inputSchema": {"type": "object"}, "outputSchema": schema}
        listed, _ = await serve_call(client.list_tools(), wire, {"resultType": "complete", "tools": [tool]})
        assert [each.output_schema for each in listed] == [schema]
        structured: Object = {"structuredContent": data[0]} if data else {}
        result, _ = await serve_call(
            client.call_tool("t"), wire, {"resultType": "complete", "content": [], **structured}
        )
        return result


@pytest.mark.spec("2026-07-28/server/tools#output-schema-2")
@pytest.mark.parametrize("value", [None, False, True, 0, 1.5, "", "x", [], [None], {}, {"a": None}], ids=repr)
def test_client_takes_any_structured_content_that_conforms(value: JSON) -> None:
    for schema in ({}, {"const": value}):
        result = run(checked(schema, value))
        assert (result.structured_content, result.structured_null) == (value, value is None)
        assert result.has_structured_content


@pytest.mark.spec("2026-07-28/server/tools#output-schema-2")
@pytest.mark.parametrize(
    ("schema", "data"),
    [
        ({}, ()),
        ({"type": "null"}, ()),
        ({"type": "integer"}, (None,)),
        ({"type": "integer"}, (False,)),
        ({"type": "array"}, ({},)),
        ({"type": "object"}, ([],)),
        ({"not": {}}, (0,)),
    ],
    ids=repr,
)
def test_client_refuses_structured_content_that_is_missing_or_invalid(schema: Object, data: tuple[JSON, ...]) -> None:
    with pytest.raises(InvalidMessage, match=r"tool 't' does not match its output schema: "):
        run(checked(schema, *data))


@pytest.mark.parametrize("value", [0, "x", [], False], ids=repr)
async def test_client_refuses_structured_content_that_is_not_an_object_before_2026_07_28(value: JSON) -> None:
    async with raw_session(lambda transport: Client(transport), capabilities={"tools": {}}) as (client, wire):
        calling = asyncio.create_task(client.call_tool("t"))
        await reply(wire, "tools/call", {"content": [], "structuredContent": value})
        with pytest.raises(InvalidMessage, match="structuredContent: expected an object"):
            await calling


async def test_structured_content_of_one_tool_in_both_eras() -> None:
    server = Server("s")
    server.tools.add(returning(int, 0), "zero")
    server.tools.add(returning(int | None, None), "nothing")
    for revision, data in {
        "2026-07-28": [0, None],
        "2025-11-25": [{"result": 0}, {"result": None}],
        "2025-03-26": [None, None],
        "2024-10-07": [None, None],
    }.items():
        async with Client(server, revision=revision) as client:
            await client.list_tools()  # from here on, results are checked against the schemas
            results = [await client.call_tool(name) for name in ("zero", "nothing")]
            assert [result.structured_content for result in results] == data
            assert [result.text for result in results] == ["0", "null"]
            assert results[1].structured_null is (revision == MODERN)


# ------------------------------------------------------------------------------------------------ the types


@pytest.mark.parametrize("cls", [CallToolResult, ToolResultContent])
def test_structured_content_null_differs_from_none(cls: type[Any]) -> None:
    own = {"tool_use_id": "1"} if cls is ToolResultContent else {}
    null, absent = cls(content=[], structured_null=True, **own), cls(content=[], **own)
    codec = codec_for(R2026_07_28)
    assert codec.encode(null)["structuredContent"] is None
    assert "structuredContent" not in codec.encode(absent)
    assert codec.decode(cls, codec.encode(null)) == null
    assert codec.decode(cls, codec.encode(absent)) == absent
    assert not {"structuredContent", "structuredNull"} & codec_for(R2025_11_25).encode(null).keys()
    spoken = {**codec_for(R2025_11_25).encode(null), "structuredContent": None}
    assert codec_for(R2025_11_25).decode(cls, spoken) == absent, "before, null is as if it were not there"
    foreign = {**codec.encode(absent), "structuredNull": "yes"}
    assert codec.decode(cls, foreign) == absent, "which is our word, and none of the wire's"
    for revision in (R2025_06_18, R2025_11_25, R2026_07_28):
        assert "structuredNull" not in shape_of(cls, revision)


def test_tools_call_in_2024_10_07_has_the_data_as_tool_result() -> None:
    codec = codec_for(R2024_10_07)
    values: list[JSON] = [0, False, [], {"result": 3}, "x", {}]
    for value in values:
        assert codec.encode(CallToolResult([TextContent("text")], value)) == {"toolResult": value}
    assert codec.encode(CallToolResult([TextContent("null")], structured_null=True)) == {"toolResult": None}
    assert codec.encode(CallToolResult([TextContent("text")])) == {"toolResult": "text"}
    failures: list[Object] = [{"error": "no", "status": "empty"}, {"error": "no"}]
    for failure in failures:
        assert codec.encode(codec.decode(CallToolResult, {"toolResult": failure})) == {"toolResult": failure}
    failed = CallToolResult([TextContent("no")], {"status": "empty"}, is_error=True)
    assert codec.encode(failed) == {"toolResult": {"error": "no", "status": "empty"}}


@pytest.mark.skipif(DATA is None, reason="the spec's data are not here; set MCP_REF_DATA")
@pytest.mark.parametrize("cls", [CallToolResult, Tool, ToolResultContent])
def test_call_tool_result_examples_of_the_schema_are_read_and_written_unchanged(cls: type) -> None:
    assert DATA is not None
    paths = sorted((DATA / "mcp-schema" / MODERN / "examples" / cls.__name__).glob("*.json"))
    assert paths
    codec = codec_for(R2026_07_28)
    for path in paths:
        example: Object = json.loads(path.read_text("utf-8"))
        written = codec.encode(codec.decode(cls, example))
        example.pop("resultType", None)  # which is not the page's, but of every result
        if example.get("isError") is False:
            del example["isError"]  # the default, which is not written
        assert written == example, path.name


@pytest.mark.skipif(DATA is None, reason="the spec's data are not here; set MCP_REF_DATA")
async def test_tool_examples_of_the_schema_can_be_registered_and_are_listed_unchanged() -> None:
    assert DATA is not None
    server = Server("s")
    examples: list[Object] = []
    for path in sorted((DATA / "mcp-schema" / MODERN / "examples" / "Tool").glob("*.json")):
        example: Any = json.loads(path.read_text("utf-8"))
        example["name"] = path.stem
        examples.append(example)
        schemas = {"input_schema": example["inputSchema"], "output_schema": example.get("outputSchema")}
        about = {"title": example["title"]} if "title" in example else {}
        server.tools.add(lambda **_: None, path.stem, description=example.get("description", ""), **schemas, **about)
    async with raw_client(server) as wire:
        assert result_of(await wire.ask_stateless("tools/list"))["tools"] == examples


async def test_output_schema_includes_hints_of_the_return_annotation() -> None:
    server = Server("s")

    @server.tool()
    async def share() -> Annotated[float, "of the whole", {"minimum": 0, "maximum": 1}]:
        return 0.5

    schema: Object = {"type": "number", "description": "of the whole", "minimum": 0, "maximum": 1}
    async with Client(server, revision=MODERN) as client:
        assert (await client.list_tools())[0].output_schema == schema
    async with Client(server, revision="2025-11-25") as client:
        wrapped = (await client.list_tools())[0].output_schema
        assert wrapped is not None and wrapped["properties"] == {"result": schema}
