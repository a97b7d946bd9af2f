"""Hostile peers: every member of every message in a wrong shape, against both roles; the next message works.

The messages are made, not listed: each starts as a full and valid one, and each of its members in turn is left out or
replaced by JSON of every other kind. One rule holds for all of them. Our side reports the error, or returns an object
with exactly the annotated types; it never fails internally, hangs, or stops reading.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import types
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Literal, Union, get_args, get_origin

import pytest

from mcp_ref import Client, Context, Server
from mcp_ref.basic.content import TextContent
from mcp_ref.basic.lifecycle import Implementation
from mcp_ref.codec import members_of
from mcp_ref.features.completion import Completion, PromptReference
from mcp_ref.features.elicitation import ElicitRequestFormParams, ElicitRequestURLParams, ElicitResult
from mcp_ref.features.logging import LoggingMessageNotificationParams
from mcp_ref.features.prompts import GetPromptResult, Prompt
from mcp_ref.features.resources import ReadResourceResult, Resource, ResourceTemplate
from mcp_ref.features.sampling import CreateMessageRequestParams, CreateMessageResult
from mcp_ref.features.tools import CallToolResult, Tool
from mcp_ref.jsonrpc.errors import InvalidMessage, McpError
from mcp_ref.jsonrpc.messages import INVALID_PARAMS, INVALID_REQUEST, JSON, MAX_DEPTH, Object
from mcp_ref.revisions import LEGACY, revision_named
from tests.messages import Received, notification, request
from tests.raw_peers import Wire, connected_client, raw_client, raw_server, raw_session, serve_call
from tests.raw_stateless_server import answer, asked_for, discovered
from tests.settings import MODERN, PATIENCE, SERVER_TRANSPORTS

KINDS = pytest.mark.parametrize("kind", SERVER_TRANSPORTS)
OLDEST_AND_LATEST = pytest.mark.parametrize("revision", [LEGACY[1].name, LEGACY[-1].name])

# ------------------------------------------------------------------------------------------------ wrong shapes

WRONG: list[JSON] = [None, True, -7, 2.5, 10**30, "", "\0", [], [None], [[]], {}, {"": {}}]


def wrong_shapes(value: JSON) -> Iterator[JSON]:
    """Yield the value with one member, at any depth, left out or replaced."""
    for path in _paths(value):
        for wrong in WRONG:
            yield _replaced(value, path, wrong)
        if path:
            yield _replaced(value, path, None, leave_out=True)


def _paths(value: JSON) -> Iterator[tuple[str | int, ...]]:
    yield ()
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        for path in _paths(child):
            yield (key, *path)


def _replaced(value: Any, path: tuple[str | int, ...], wrong: JSON, leave_out: bool = False) -> Any:
    if not path:
        return wrong
    key, rest = path[0], path[1:]
    changed = value.copy()
    if leave_out and not rest:
        del changed[key]
    else:
        changed[key] = _replaced(value[key], rest, wrong, leave_out)
    return changed


def has_type(value: object, hint: object) -> bool:
    """Return True if a value and all its members have the annotated type."""
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        members = members_of(hint)
        return type(value) is hint and all(has_type(getattr(value, each.attribute), each.hint) for each in members)
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return any(type(value) is type(arg) and value == arg for arg in args)
    if origin in (Union, types.UnionType):
        return any(has_type(value, arg) for arg in args)
    if origin is list:
        return type(value) is list and all(has_type(item, args[0]) for item in value)
    if origin is dict:
        return type(value) is dict and all(type(k) is str and has_type(v, args[1]) for k, v in value.items())
    if hint is float:
        return type(value) in (int, float)
    return True if hint is object else type(value) is (type(None) if hint is None else hint)


def test_has_type_finds_a_wrong_type_at_any_depth() -> None:
    good = CallToolResult([], {"a": 1})
    assert has_type(good, CallToolResult)
    assert not has_type(CallToolResult([], is_error=1), CallToolResult)  # type: ignore[arg-type]
    assert not has_type([Prompt("p", arguments=[{}])], list[Prompt])  # type: ignore[list-item]
    assert not has_type(CallToolResult(["text"]), CallToolResult)  # type: ignore[list-item]


# ------------------------------------------------------------------------------------------------ valid messages

ANNOTATIONS: Object = {"audience": ["user"], "priority": 0.5, "lastModified": "2025-01-12T15:00:58Z"}
ICONS: JSON = [{"src": "https://a.example/i.png", "mimeType": "image/png", "sizes": ["48x48"], "theme": "dark"}]
META: Object = {"example.com/a": 1}
COMMON: Object = {"title": "T", "description": "D", "icons": ICONS, "_meta": META}
BLOCKS: list[JSON] = [
    {"type": "text", "text": "x", "annotations": ANNOTATIONS, "_meta": META},
    {"type": "image", "data": "AA==", "mimeType": "image/png"},
    {"type": "audio", "data": "AA==", "mimeType": "audio/wav"},
    {"type": "resource", "resource": {"uri": "test://a", "text": "x", "mimeType": "text/plain"}},
    {"type": "resource", "resource": {"uri": "test://a", "blob": "AA=="}},
    {"type": "resource_link", "uri": "test://a", "name": "a", "size": 3, "icons": ICONS},
]
SCHEMA: Object = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}

TOOL: Object = {
    **COMMON, "name": "t", "inputSchema": SCHEMA, "outputSchema": SCHEMA, "execution": {"taskSupport": "optional"},
    "annotations": {"title": "T", "readOnlyHint": True, "openWorldHint": False},
}  # fmt: skip
RESOURCE: Object = {**COMMON, "uri": "a://a", "name": "a", "mimeType": "a/b", "size": 3, "annotations": ANNOTATIONS}
TEMPLATE: Object = {**COMMON, "uriTemplate": "test://{a}", "name": "a", "mimeType": "a/b"}
CONTENTS: list[JSON] = [
    {"uri": "a://a", "text": "x", "mimeType": "a/b", "_meta": META},
    {"uri": "a://b", "blob": "AA=="},
]
PROMPT: Object = {
    **COMMON, "name": "p", "arguments": [{"name": "a", "title": "A", "description": "D", "required": True}],
}  # fmt: skip

Call = Callable[[Client], Coroutine[Any, Any, object]]
RESULTS: dict[str, tuple[Call, object, Object]] = {
    "tools/list": (lambda client: client.list_tools(), list[Tool], {"tools": [TOOL], "_meta": META}),
    "tools/call": (
        lambda client: client.call_tool("t"), CallToolResult,
        {"content": BLOCKS, "structuredContent": {"a": "x"}, "isError": False, "_meta": META},
    ),
    "resources/list": (lambda client: client.list_resources(), list[Resource], {"resources": [RESOURCE]}),
    "resources/templates/list": (
        lambda client: client.list_resource_templates(), list[ResourceTemplate], {"resourceTemplates": [TEMPLATE]},
    ),
    "resources/read": (
        lambda client: client.read_resource("test://a"), ReadResourceResult, {"contents": CONTENTS},
    ),
    "prompts/list": (lambda client: client.list_prompts(), list[Prompt], {"prompts": [PROMPT]}),
    "prompts/get": (
        lambda client: client.get_prompt("p"), GetPromptResult,
        {"description": "D", "messages": [{"role": "user", "content": block} for block in BLOCKS[:2]]},
    ),
    "completion/complete": (
        lambda client: client.complete(PromptReference("p"), "a", ""), Completion,
        {"completion": {"values": ["x"], "total": 3, "hasMore": True}, "_meta": META},
    ),
    "logging/setLevel": (lambda client: client.set_logging_level("info"), type(None), {"_meta": META}),
    "ping": (lambda client: client.ping(), type(None), {}),
}  # fmt: skip
EVERYTHING: Object = {"tools": {}, "resources": {"subscribe": True}, "prompts": {}, "logging": {}, "completions": {}}

GREETING: Object = {
    "protocolVersion": "2025-11-25",
    "capabilities": {
        "tools": {"listChanged": True},
        "resources": {"subscribe": True, "listChanged": True},
        "prompts": {"listChanged": True},
        "logging": {},
        "completions": {},
        "experimental": {"x": {}},
    },
    "serverInfo": {**COMMON, "name": "raw", "version": "1", "websiteUrl": "https://a.example"},
    "instructions": "Do.",
    "_meta": META,
}


def no_failure_inside(caplog: pytest.LogCaptureFixture) -> None:
    """Check that no traceback was logged: every fault was found where it was read."""
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []


# ------------------------------------------------------------------------------------------------ hostile servers


async def lives(client: Client, wire: Wire) -> None:
    """Check that the client still sends a request and takes the response, and has sent nothing else."""
    ping = asyncio.create_task(client.ping())
    await wire.send(answer(await asked_for(wire, "server/discover"), discovered()))
    await asyncio.wait_for(ping, PATIENCE)


@pytest.mark.spec(
    "2024-11-05..2025-11-25/server/prompts#security-1",
    "2024-11-05..2025-11-25/server/tools#security-considerations-7",
    "2025-11-25/server/tools#tool-1",
)
@pytest.mark.parametrize(
    ("revision", "method"),
    [
        (revision, method)
        for revision in (LEGACY[1].name, LEGACY[-1].name, MODERN)
        for method in RESULTS
        if revision != MODERN or method not in ("ping", "logging/setLevel")
    ],
)
async def test_client_refuses_malformed_results_or_reads_them_as_annotated_and_goes_on(
    revision: str, method: str, caplog: pytest.LogCaptureFixture
) -> None:
    call, promised, valid = RESULTS[method]
    if revision == MODERN:
        valid = {**valid, "resultType": "complete", "ttlMs": 1000, "cacheScope": "public"}
    async with raw_session(lambda t: Client(t, cache=False), revision, EVERYTHING) as (client, wire):
        found, asked = await serve_call(call(client), wire, valid)
        assert asked["method"] == method and has_type(found, promised)
        refused = 0
        for wrong in wrong_shapes(valid):
            try:
                found, _ = await serve_call(call(client), wire, wrong)
            except InvalidMessage as error:
                assert len(str(error)) < 500
                refused += 1
            else:
                assert has_type(found, promised), (found, wrong)
        assert refused >= len(WRONG) - 2  # at least the results that are not objects
        assert client.session.dispatcher.pending == {}
        await (lives(client, wire) if revision == MODERN else wire.nothing_more())
    no_failure_inside(caplog)


async def test_client_refuses_a_malformed_initialize_result(caplog: pytest.LogCaptureFixture) -> None:
    for wrong in wrong_shapes(GREETING):
        async with raw_server(lambda t: Client(t, timeout=PATIENCE, revisions=LEGACY)) as (client, wire):
            connecting = asyncio.create_task(client.connect())
            asked = await wire.receive_object()
            await wire.send({"jsonrpc": "2.0", "id": asked["id"], "result": wrong})
            await asyncio.wait([connecting], timeout=PATIENCE)
            error = connecting.exception()
            if error is not None:
                assert isinstance(error, McpError), (error, wrong)
                with pytest.raises(RuntimeError, match="not connected"):
                    _ = client.revision
                await asyncio.wait_for(wire.closed.wait(), PATIENCE)
            else:
                assert has_type(client.server_info, Implementation), wrong
                assert has_type(client.instructions, str | None), wrong
                assert (await wire.receive_object())["method"] == "notifications/initialized"
    no_failure_inside(caplog)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "$ref": "#"},
        {"type": "object", "allOf": [{"$ref": "#/allOf/0"}]},
        {"type": "object", "$ref": "#/no/such/place"},
        {"type": "object", "$ref": "https://example.com/elsewhere.json"},
        {"type": "object", "properties": {"a": {"pattern": "(((("}}},
        {"type": "object", "properties": {"a": {"minLength": "many"}}},
        {"type": "object", "$schema": 7},
        {"type": "object", "$defs": {"a": {"$id": "https://["}}},
        {"type": ["object", {}]},
        {"type": 1},
        {},
    ],
)
async def test_client_survives_every_output_schema_in_tools_list(
    schema: Object, caplog: pytest.LogCaptureFixture
) -> None:
    async with raw_session(Client, "2025-11-25", EVERYTHING) as (client, wire):
        for _ in range(2):
            tool: Object = {"name": "t", "inputSchema": schema, "outputSchema": schema}
            with contextlib.suppress(InvalidMessage):
                await serve_call(client.list_tools(), wire, {"tools": [tool]})
            with contextlib.suppress(InvalidMessage):
                await serve_call(client.call_tool("t"), wire, {"content": [], "structuredContent": {"a": "x"}})
        await wire.nothing_more()
    no_failure_inside(caplog)


def nested(levels: int) -> bytes:
    return b'{"a":' * levels + b"1" + b"}" * levels


def answer_with(result: bytes, id: JSON) -> bytes:
    return b'{"jsonrpc":"2.0","id":%s,"result":%s}' % (json.dumps(id).encode(), result)


@pytest.mark.parametrize(
    "result",
    [
        nested(MAX_DEPTH),
        nested(100_000),
        b'{"content":' + b"[" * 100_000,
        b'{"content":[],"content":[]}',
        b'{"content":NaN}',
        b'{"content":[],"isError":' + b"9" * 5000 + b"}",
        b'{"content":[{"type":"text","text":"\\ud800"}]}',
        b'{"content":[{"type":"text","text":"\xff"}]}',
        b"",
    ],
    ids=["too deep", "far too deep", "unclosed", "twice", "NaN", "long number", "surrogate", "no UTF-8", "nothing"],
)
async def test_invalid_json_response_ends_its_call_at_once_and_not_the_others(result: bytes) -> None:
    async with raw_session(lambda t: Client(t, timeout=None), "2025-11-25", EVERYTHING) as (client, wire):
        first, second = asyncio.create_task(client.call_tool("t")), asyncio.create_task(client.call_tool("t"))
        ids = [(await wire.receive_object())["id"] for _ in range(2)]
        await wire.send(answer_with(result, ids[0]))
        with pytest.raises(InvalidMessage, match="tools/call"):
            await asyncio.wait_for(first, PATIENCE)
        await wire.send(answer_with(b'{"content":[]}', ids[1]))
        assert (await asyncio.wait_for(second, PATIENCE)).content == []
        await wire.nothing_more()


async def test_duplicate_response_is_ignored_and_another_id_does_not_match() -> None:
    async with raw_session(lambda t: Client(t, timeout=None), "2025-11-25", EVERYTHING) as (client, wire):
        call = asyncio.create_task(client.call_tool("t"))
        id = (await wire.receive_object())["id"]
        assert isinstance(id, int)
        strangers: list[JSON] = [f"{id}.0", f" {id}", id + 0.5, id + 1, True, None, [id], {"id": id}]
        for other in strangers:  # `True == 1`, but it is not the same id
            await wire.send({"jsonrpc": "2.0", "id": other, "result": {"content": [{"type": "text", "text": "no"}]}})
        for text in ("yes", "too late"):
            await wire.send({"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": text}]}})
        await wire.send({"jsonrpc": "2.0", "id": id, "error": {"code": 1, "message": "changed my mind"}})
        assert (await asyncio.wait_for(call, PATIENCE)).text == "yes"
        await wire.nothing_more()


NOTIFICATIONS: list[Object] = [
    notification("notifications/message", {"level": "info", "logger": "l", "data": {"a": 1}, "_meta": META}),
    notification("notifications/progress", {"progressToken": "p", "progress": 1, "total": 2, "message": "m"}),
    notification("notifications/cancelled", {"requestId": "r", "reason": "why", "_meta": META}),
    notification("notifications/resources/updated", {"uri": "test://a"}),
    notification("notifications/tools/list_changed", {"_meta": META}),
    notification("notifications/elicitation/complete", {"elicitationId": "e"}),
]


@OLDEST_AND_LATEST
async def test_malformed_notifications_do_not_disturb_a_client(revision: str, caplog: pytest.LogCaptureFixture) -> None:
    logged: list[LoggingMessageNotificationParams] = []
    async with raw_session(lambda t: Client(t, on_log=logged.append), revision, EVERYTHING) as (_, wire):
        for valid in NOTIFICATIONS:
            for params in wrong_shapes(valid["params"]):
                await wire.send({**valid, "params": params})
                await wire.nothing_more()
        assert logged, "some are good enough"
        assert all(has_type(each, LoggingMessageNotificationParams) for each in logged)
    no_failure_inside(caplog)


SAMPLING: Object = {
    "messages": [
        {"role": "user", "content": {"type": "text", "text": "x", "annotations": ANNOTATIONS}},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "u", "name": "t", "input": {"a": "x"}}]},
        {"role": "user", "content": [{"type": "tool_result", "toolUseId": "u", "content": BLOCKS[:1]}]},
    ],
    "maxTokens": 5, "systemPrompt": "s", "includeContext": "none", "temperature": 0.5, "stopSequences": ["x"],
    "modelPreferences": {"hints": [{"name": "m"}], "costPriority": 0.5}, "metadata": {"a": 1},
    "tools": [{"name": "t", "inputSchema": SCHEMA}], "toolChoice": {"mode": "auto"},
}  # fmt: skip
FORM: Object = {
    "mode": "form",
    "message": "m",
    "requestedSchema": {
        "type": "object",
        "properties": {
            "a": {"type": "string", "title": "A", "minLength": 1, "format": "email", "default": "a@b.example"},
            "b": {"type": "integer", "minimum": 1, "maximum": 2, "default": 1},
            "c": {"type": "string", "enum": ["x"], "enumNames": ["X"]},
            "d": {"type": "array", "items": {"type": "string", "enum": ["x"]}, "maxItems": 1},
            "e": {"type": "string", "oneOf": [{"const": "x", "title": "X"}]},
            "f": {"type": "boolean", "default": True},
        },
        "required": ["a"],
    },
}
QUESTIONS: list[tuple[str, Object]] = [
    ("sampling/createMessage", SAMPLING),
    ("elicitation/create", FORM),
    ("elicitation/create", {"mode": "url", "message": "m", "url": "https://a.example/", "elicitationId": "e"}),
    ("roots/list", {"_meta": META}),
    ("ping", {"_meta": META}),
]


@pytest.mark.parametrize(("method", "valid"), QUESTIONS, ids=["sampling", "form", "url", "roots", "ping"])
async def test_malformed_requests_to_a_client_are_invalid_params(
    method: str, valid: Object, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[tuple[object, object]] = []

    async def model(params: CreateMessageRequestParams) -> CreateMessageResult:
        asked.append((params, CreateMessageRequestParams))
        return CreateMessageResult("assistant", TextContent("x"), "m")

    async def user(question: ElicitRequestFormParams | ElicitRequestURLParams) -> ElicitResult:
        asked.append((question, type(question)))
        return ElicitResult("decline")

    def client_of(transport: object) -> Client:
        options: dict[str, Any] = {"sampling": model, "elicitation": user, "roots": []}
        return Client(transport, sampling_tools=True, elicitation_url=True, **options)  # type: ignore[arg-type]

    async with raw_session(client_of) as (_, wire):
        good = await wire.ask(method, valid)
        assert "result" in good, good
        for params in wrong_shapes(valid):
            await wire.send({"jsonrpc": "2.0", "id": "q", "method": method, "params": params})
            refused_or_served(await wire.receive_object(), params)
        await wire.nothing_more()
    assert all(has_type(each, promised) for each, promised in asked)
    no_failure_inside(caplog)


def refused_or_served(answer: Received, params: JSON, also: int = INVALID_PARAMS) -> None:
    """Check that a message is a response, and not an internal error."""
    assert answer["id"] == "q", answer
    error = answer.get("error")
    if error is None:
        assert isinstance(answer["result"], dict)
        return
    allowed = (INVALID_PARAMS, also) if isinstance(params, dict | list) else (INVALID_PARAMS, INVALID_REQUEST)
    assert error["code"] in allowed, (error, params)
    assert len(str(error["message"])) < 1000


# ------------------------------------------------------------------------------------------------ hostile clients


def featured() -> Server:
    server = Server("s")

    @server.tool()
    async def t(a: str, context: Context, b: int = 0) -> dict[str, str]:
        return {"a": a}

    @server.resource("test://a")
    async def resource() -> str:
        return "x"

    @server.resource("test://of/{name}")
    async def template(name: str) -> str:
        return name

    @server.prompt()
    async def p(a: str) -> str:
        return a

    @server.completion("p", "a")
    async def complete(value: str) -> list[str]:
        return ["x"]

    return server


REQUESTS: dict[str, Object] = {
    "ping": {"_meta": META},
    "tools/list": {"_meta": {**META, "progressToken": "p"}},
    "tools/call": {"name": "t", "arguments": {"a": "x", "b": 1}, "_meta": {"progressToken": "p"}},
    "resources/list": {"_meta": META},
    "resources/templates/list": {},
    "resources/read": {"uri": "test://of/x", "_meta": META},
    "resources/subscribe": {"uri": "test://a"},
    "resources/unsubscribe": {"uri": "test://a"},
    "prompts/list": {},
    "prompts/get": {"name": "p", "arguments": {"a": "x"}},
    "completion/complete": {
        "ref": {"type": "ref/prompt", "name": "p", "title": "P"},
        "argument": {"name": "a", "value": ""},
        "context": {"arguments": {"b": "x"}},
    },
    "logging/setLevel": {"level": "info"},
}


IN_MEMORY = [("memory", revision.name) for revision in LEGACY]
OVER_OTHERS = [(kind, LEGACY[-1].name) for kind in SERVER_TRANSPORTS if kind != "memory"]


@pytest.mark.parametrize(("transport", "revision"), IN_MEMORY + OVER_OTHERS)
async def test_malformed_requests_to_a_server_get_errors_and_the_next_is_served(
    transport: str, revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    not_found = revision_named(revision).resource_not_found_code
    async with connected_client(featured(), transport, revision) as wire:
        for method in REQUESTS if transport == "memory" else ["tools/call"]:
            for params in [*wrong_shapes(REQUESTS[method]), *wrong_shapes({"cursor": "x"} if "list" in method else {})]:
                await wire.send({"jsonrpc": "2.0", "id": "q", "method": method, "params": params})
                refused_or_served(await wire.receive_object(), params, not_found)
        await wire.send(request("tools/call", {"name": "t", "arguments": {"a": "still"}}))
        assert "still" in str(await wire.receive())
        await wire.nothing_more()
    no_failure_inside(caplog)


@KINDS
async def test_malformed_initialize_requests_do_not_prevent_the_handshake(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    valid: Object = {
        "protocolVersion": "2025-11-25",
        "capabilities": {"sampling": {"tools": {}}, "roots": {"listChanged": True}, "elicitation": {"form": {}}},
        "clientInfo": {**COMMON, "name": "raw", "version": "1"},
    }
    refused = [wrong for wrong in wrong_shapes(valid) if not isinstance(wrong, dict) or len(wrong) < 3]
    server = featured()
    async with raw_client(server, kind) as wire:
        for params in refused:
            await wire.send({"jsonrpc": "2.0", "id": "q", "method": "initialize", "params": params})
            answer = await wire.receive_object()
            assert "error" in answer, params
            refused_or_served(answer, params)
        await wire.send({"jsonrpc": "2.0", "id": "q", "method": "initialize", "params": valid})
        assert "result" in await wire.receive_object()
        await wire.send(notification("notifications/initialized"))
        await wire.nothing_more()
    for params in wrong_shapes(valid) if kind == "memory" else ():  # each handshake needs a session of its own
        async with raw_client(server, kind) as wire:
            await wire.send({"jsonrpc": "2.0", "id": "q", "method": "initialize", "params": params})
            refused_or_served(await wire.receive_object(), params)
            await wire.send(notification("notifications/initialized"))
            await wire.nothing_more()
    no_failure_inside(caplog)


@KINDS
async def test_malformed_notifications_do_not_disturb_a_server(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    valid: list[Object] = [
        *NOTIFICATIONS[1:3],
        notification("notifications/initialized", {"_meta": META}),
        notification("notifications/roots/list_changed", {"_meta": META}),
    ]
    async with connected_client(featured(), kind, capabilities={"roots": {"listChanged": True}}) as wire:
        for each in valid:
            for params in wrong_shapes(each["params"]):
                if isinstance(params, dict):
                    await wire.send({**each, "params": params})
        await wire.nothing_more()
    no_failure_inside(caplog)
    assert "malformed" not in caplog.text  # else a client could fill the log
