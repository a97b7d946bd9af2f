"""The base protocol: requests, answers, notifications and batches, and the dialects of JSON Schema."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest

from mcp_ref import Client, Context, InvalidMessage, ProtocolError, Server
from mcp_ref.jsonrpc.messages import INVALID_PARAMS, INVALID_REQUEST, JSON, METHOD_NOT_FOUND, PARSE_ERROR, Object
from mcp_ref.lib.jsonschema import SchemaError
from tests.matrix import EVERY_REVISION, KINDS, LATEST_OF_BOTH_ERAS, LEGACY_REVISIONS
from tests.messages import Received, notification, request
from tests.raw_peers import (
    Wire,
    connected_client,
    handshake,
    legacy_initialize,
    raw_server,
    raw_session,
    serve_call,
)
from tests.settings import CONNECTED_TRANSPORTS, run


def code_of(answer: Received) -> int:
    """Return the code of an error response. Fail if the response breaks a rule."""
    assert {"error"} <= set(answer) <= {"jsonrpc", "id", "error"} and answer["jsonrpc"] == "2.0", answer
    code, message = answer["error"]["code"], answer["error"]["message"]
    assert type(code) is int and type(message) is str and message, answer
    return code


@pytest.mark.spec(
    "2025-03-26..2026-07-28/basic/index#messages-1",
    "2024-11-05/basic/index#intro-1",
    "2024-11-05/basic/messages#intro-1",
)
@KINDS
@EVERY_REVISION
@pytest.mark.parametrize(
    ("frame", "code", "id"),
    [
        (b'{"jsonrpc":"2.0","id":1,"method":', PARSE_ERROR, 1),
        (b"\xff\xfe", PARSE_ERROR, None),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', INVALID_REQUEST, 1),
        (b'{"id":1,"method":"ping"}', INVALID_REQUEST, 1),
        (b'{"jsonrpc":"2.0","id":"a"}', INVALID_REQUEST, "a"),
        (b'{"jsonrpc":"2.0","id":"a","method":1}', INVALID_REQUEST, "a"),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', INVALID_PARAMS, 1),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":1}', INVALID_REQUEST, 1),
        (b'"ping"', INVALID_REQUEST, None),
        (b"[]", INVALID_REQUEST, None),
    ],
)
async def test_invalid_json_rpc_gets_the_right_error_and_next_message_works(
    kind: str, revision: str, frame: bytes, code: int, id: JSON
) -> None:
    async with connected_client(Server("s"), kind, revision) as wire:
        await wire.send(frame)
        answer = await wire.receive_object()
        assert code_of(answer) == code
        if id is not None or revision < "2025-11-25":
            assert answer["id"] == id  # an id that could not be read is null, as JSON-RPC has it
        else:
            assert "id" not in answer  # ... and from then on left out
        await wire.nothing_more()


# ------------------------------------------------------------------------------------------------ requests


@pytest.mark.spec("2025-03-26..2025-11-25/basic/index#requests-1,2", "2024-11-05/basic/messages#requests-1,2")
@KINDS
@LEGACY_REVISIONS
async def test_request_id_is_a_string_or_integer(kind: str, revision: str) -> None:
    async with connected_client(Server("s"), kind, revision) as wire:
        for id in (0, 1, -1, 2**53, "", "0", "\u00e9"):
            answer = await wire.ask("ping", id=id)
            assert answer == {"jsonrpc": "2.0", "id": id, "result": {}}
            assert type(answer["id"]) is type(id)
        others: list[JSON] = [None, 1.5, True, [], {}]
        for bad in others:
            await wire.send({"jsonrpc": "2.0", "id": bad, "method": "ping"})
            assert code_of(await wire.receive()) == INVALID_REQUEST, bad


@pytest.mark.spec("2025-03-26..2025-11-25/basic/index#requests-1,2,3", "2024-11-05/basic/messages#requests-1,2,3")
@LEGACY_REVISIONS
async def test_request_id_is_never_reused_by_a_client(revision: str) -> None:
    async with raw_server(Client) as (client, wire):
        connecting = asyncio.create_task(client.connect())
        asked = await legacy_initialize(wire)
        info: Object = {"name": "raw", "version": "1"}
        result: Object = {"protocolVersion": revision, "capabilities": {}, "serverInfo": info}
        await wire.send({"jsonrpc": "2.0", "id": asked["id"], "result": result})
        await connecting
        await wire.receive()  # initialized
        ids = [asked["id"]]
        for _ in range(3):  # in flight together, and one after the other
            pings = [asyncio.create_task(client.ping()) for _ in range(5)]
            came = [(await wire.receive_object())["id"] for _ in pings]
            for id in came:
                await wire.send({"jsonrpc": "2.0", "id": id, "result": {}})
            await asyncio.gather(*pings)
            ids += came
        assert len(ids) == len({(type(id), id) for id in ids}) == 16
        assert all(type(id) in (str, int) for id in ids)


@pytest.mark.spec("2025-03-26..2025-11-25/basic/index#requests-1,2,3", "2024-11-05/basic/messages#requests-1,2,3")
@KINDS
@LEGACY_REVISIONS
async def test_request_id_is_never_reused_by_a_server_beside_any_client_ids(kind: str, revision: str) -> None:
    server = Server("s")

    @server.resource("test://roots")
    async def roots(context: Context) -> str:
        return str(len(await context.list_roots()) + len(await context.list_roots()))

    async with connected_client(server, kind, revision, {"roots": {}}) as wire:
        ids = []
        for mine in (1, 2, "x"):
            await wire.send(request("resources/read", {"uri": "test://roots"}, mine))
            for _ in range(2):
                asked = await wire.receive_object()
                assert asked["method"] == "roots/list"
                ids.append(asked["id"])
                await wire.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"roots": []}})
            assert (await wire.receive_object())["id"] == mine
        assert len(set(map(repr, ids))) == 6
        assert all(type(id) in (str, int) for id in ids)


# ------------------------------------------------------------------------------------------------ answers


@pytest.mark.spec(
    "2025-11-25/basic/index#result-responses-1,2",
    "2025-11-25/basic/index#error-responses-1,2,3",
    "2025-03-26..2025-06-18/basic/index#responses-1,2,3,4,5",
    "2024-11-05/basic/messages#responses-1,2,3,4",
)
@KINDS
@LEGACY_REVISIONS
async def test_request_to_server_gets_one_result_or_error(kind: str, revision: str) -> None:
    server = Server("s")

    @server.resource("test://{name}")
    def read(name: str) -> str:
        if name == "bug":
            raise ZeroDivisionError("inner details")
        if name == "refused":
            raise ProtocolError(-32050, "refused", {"why": [1]})
        return name

    def reading(name: str, id: str) -> Object:
        return request("resources/read", {"uri": f"test://{name}"}, id)

    async with connected_client(server, kind, revision) as wire:
        asked: dict[str, Object] = {
            "good": reading("good", "good"),
            "bug": reading("bug", "bug"),
            "refused": reading("refused", "refused"),
            "unknown": request("no/such/method", {}, "unknown"),
            "misplaced": request("notifications/initialized", {}, "misplaced"),
            "params": request("resources/read", {"uri": 1}, "params"),
            "ping": request("ping", None, "ping"),
        }
        for message in asked.values():
            await wire.send(message)
        answers = [await wire.receive_object() for _ in asked]
        await wire.nothing_more()
        by_id = {str(answer["id"]): answer for answer in answers}
        assert set(by_id) == set(asked)
        for id in ("good", "ping"):
            assert set(by_id[id]) == {"jsonrpc", "id", "result"}
            assert isinstance(by_id[id]["result"], dict)
        expected = {"bug": -32603, "refused": -32050, "unknown": METHOD_NOT_FOUND, "misplaced": METHOD_NOT_FOUND}
        assert {id: code_of(by_id[id]) for id in expected} == expected
        assert code_of(by_id["params"]) == INVALID_PARAMS
        assert "inner details" not in str(by_id["bug"])
        assert by_id["refused"]["error"]["data"] == {"why": [1]}


@pytest.mark.spec(
    "2025-11-25/basic/index#result-responses-1",
    "2025-11-25/basic/index#error-responses-1,2,3",
    "2025-03-26..2025-06-18/basic/index#responses-5",
    "2024-11-05/basic/messages#responses-4",
)
@LEGACY_REVISIONS
async def test_request_to_client_gets_one_result_or_error(revision: str) -> None:
    async with raw_session(lambda t: Client(t, roots=[]), revision) as (_, wire):
        assert await wire.ask("roots/list", id="") == {"jsonrpc": "2.0", "id": "", "result": {"roots": []}}
        answer = await wire.ask("no/such/method", id=0)
        assert (answer["id"], code_of(answer)) == (0, METHOD_NOT_FOUND)
        answer = await wire.ask("tools/list", id="wrong way round")
        assert (answer["id"], code_of(answer)) == ("wrong way round", METHOD_NOT_FOUND)
        await wire.nothing_more()


@pytest.mark.spec(
    "2025-03-26..2025-06-18/basic/index#responses-2,3,4,5",
    "2024-11-05/basic/messages#responses-2,3,4",
    "2025-11-25/basic/index#result-responses-2",
    "2025-11-25/basic/index#error-responses-2,3",
)
@pytest.mark.parametrize(
    "answer",
    [
        {}, {"result": {}, "error": {"code": 1, "message": "both"}}, {"result": None}, {"result": []}, {"error": {}},
        {"error": {"code": "1", "message": "no integer"}}, {"error": {"code": 1.5, "message": "no integer"}},
        {"error": {"code": 1}}, {"error": {"message": "no code"}},
    ],
)  # fmt: skip
async def test_response_that_breaks_the_rules_is_never_accepted(answer: Object) -> None:
    async with raw_session(Client) as (client, wire):
        ping = asyncio.create_task(client.ping())
        asked = await wire.receive_object()
        await wire.send({"jsonrpc": "2.0", "id": asked["id"], **answer})
        if answer:
            with pytest.raises(InvalidMessage):
                await ping
        else:  # neither an answer nor a request: refused, and the wait goes on
            assert code_of(await wire.receive()) == INVALID_REQUEST
            await wire.send({"jsonrpc": "2.0", "id": asked["id"], "result": {}})
            await ping
        await wire.nothing_more()  # an answer is never answered


@KINDS
async def test_response_with_unknown_id_is_ignored(kind: str) -> None:
    async with connected_client(Server("s"), kind) as wire:
        await wire.send({"jsonrpc": "2.0", "id": 1, "result": {}})
        await wire.send({"jsonrpc": "2.0", "id": "x", "error": {"code": 1, "message": "x"}})
        await wire.send({"jsonrpc": "2.0", "error": {"code": 1, "message": "x"}})
        await wire.send({"jsonrpc": "2.0", "id": None, "error": {"code": 1, "message": "x"}})
        await wire.nothing_more()


# ------------------------------------------------------------------------------------------------ notifications

STRANGE_NOTIFICATIONS: list[Object] = [
    notification("no/such/notification"), notification("notifications/no-such", {"a": 1}), notification("ping"),
    notification("tools/call", {"name": "x"}), notification("notifications/cancelled", {"requestId": "unknown"}),
    notification("notifications/cancelled", {}),
    notification("notifications/progress", {"progressToken": "unknown", "progress": 1}),
    notification("notifications/progress", {"progress": "x"}),
    {"jsonrpc": "2.0", "method": "notifications/progress", "params": [1]},
    notification("notifications/message", {"level": "loud"}), notification("notifications/initialized"),
    notification("notifications/tools/list_changed"), notification("notifications/roots/list_changed"),
]  # fmt: skip


@pytest.mark.spec("2025-03-26..2026-07-28/basic/index#notifications-1")
@pytest.mark.parametrize("kind", CONNECTED_TRANSPORTS)  # a POST has its own answer, always
@EVERY_REVISION
async def test_notification_to_server_never_gets_a_response(kind: str, revision: str) -> None:
    async with connected_client(Server("s"), kind, revision) as wire:
        for strange in STRANGE_NOTIFICATIONS:
            await wire.send(strange)
        await wire.nothing_more()


@pytest.mark.spec("2025-03-26..2025-11-25/basic/index#notifications-1")
@LEGACY_REVISIONS
async def test_notification_to_client_never_gets_a_response(revision: str) -> None:
    def fails() -> None:
        raise ZeroDivisionError

    async with raw_server(lambda t: Client(t, on_tools_changed=fails)) as (client, wire):
        await handshake(client, wire, revision, {"tools": {"listChanged": True}})
        for strange in STRANGE_NOTIFICATIONS:
            await wire.send(strange)
        await wire.nothing_more()


# ------------------------------------------------------------------------------------------------ batches


async def _exchange(wire: Wire, nameless: bool) -> None:
    """Exchange one array each way, in 2025-03-26. nameless: True if an invalid message without id gets an error."""
    await wire.send(
        [
            request("ping", id=1),
            notification("no/such/notification"),
            request("no/such/method", {}, "2"),
            {"jsonrpc": "2.0", "id": 3},
            7,
        ]
    )
    by_id = {repr(answer.get("id")): answer for answer in await wire.receive()}
    assert set(by_id) == {"1", "'2'", "3", *(["None"] if nameless else [])}
    assert by_id["1"] == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert code_of(by_id["'2'"]) == METHOD_NOT_FOUND
    assert code_of(by_id["3"]) == INVALID_REQUEST
    await wire.send([notification("no/such/notification"), notification("ping")])
    await wire.nothing_more()


@pytest.mark.spec("2025-03-26/basic/index#batching-1")
@KINDS
async def test_batch_to_server_gets_a_batch(kind: str) -> None:
    async with connected_client(Server("s"), kind, "2025-03-26") as wire:
        await _exchange(wire, nameless=True)


@pytest.mark.spec("2025-03-26/basic/index#batching-1")
async def test_batch_to_client_gets_a_batch_and_batch_of_responses_is_read() -> None:
    async with raw_session(Client, "2025-03-26") as (client, wire):
        await _exchange(wire, nameless=False)  # errors would not help a server that prints by mistake
        calling = asyncio.create_task(client.batch(client.ping(), client.ping()))
        first, second = await wire.receive()
        await wire.send([{"jsonrpc": "2.0", "id": one["id"], "result": {}} for one in (first, second)])
        assert await calling == [None, None]


# ------------------------------------------------------------------------------------------------ JSON Schema

# A schema each that only its own dialect reads right. In 2020-12 `prefixItems` is a tuple; in draft-07 it is unknown,
# and an array under `items` is one.
TUPLE_2020: Object = {
    "type": "object",
    "properties": {"pair": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]}},
    "dependentRequired": {"pair": ["why"]},
}
TUPLE_07: Object = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {"pair": {"type": "array", "items": [{"type": "string"}, {"type": "integer"}]}},
    "dependencies": {"pair": ["why"]},
}
GOOD: Object = {"pair": ["a", 1], "why": "x"}
BAD: list[Object] = [{"pair": [1, "a"], "why": "x"}, {"pair": ["a", 1]}]


@pytest.mark.spec(
    "2025-11-25..2026-07-28/basic/index#schema-dialect-1",
    "2025-11-25..2026-07-28/basic/index#implementation-requirements-1,2",
)
@pytest.mark.parametrize(
    "schema",
    [TUPLE_2020, {"$schema": "https://json-schema.org/draft/2020-12/schema", **TUPLE_2020}, TUPLE_07],
    ids=["default", "2020-12", "draft-07"],
)
@LATEST_OF_BOTH_ERAS
async def test_input_schema_is_read_in_its_own_dialect_by_default_2020_12(schema: Object, revision: str) -> None:
    server = Server("s")

    def paired(pair: list[str | int] | None = None, why: str = "") -> str:
        return "called"

    server.tools.add(paired, input_schema=schema)
    async with connected_client(server, revision=revision) as wire:
        good = await wire.ask("tools/call", {"name": "paired", "arguments": GOOD})
        assert "called" in str(good) and "isError" not in str(good)
        for arguments in BAD:
            answer = await wire.ask("tools/call", {"name": "paired", "arguments": arguments})
            assert answer["result"]["isError"] is True and "called" not in str(answer)
        listed = await wire.ask("tools/list")
        assert json.dumps(schema) in json.dumps(listed)  # shown as it is


async def _call_listed(schema: Object, structured: Object) -> None:
    """List one tool with this output schema, call it, and return this content."""
    async with raw_session(Client, capabilities={"tools": {}}) as (client, wire):
        tool: Object = {"name": "t", "inputSchema": {"type": "object"}, "outputSchema": schema}
        listed, _ = await serve_call(client.list_tools(), wire, {"tools": [tool]})
        assert [tool.name for tool in listed] == ["t"]
        result, _ = await serve_call(client.call_tool("t"), wire, {"content": [], "structuredContent": structured})
        assert result.structured_content == structured


@pytest.mark.spec("2025-11-25/basic/index#schema-dialect-1", "2025-11-25/basic/index#implementation-requirements-1,2")
@pytest.mark.parametrize("schema", [TUPLE_2020, TUPLE_07], ids=["default", "draft-07"])
def test_output_schema_is_read_in_its_own_dialect_by_default_2020_12(schema: Object) -> None:
    run(_call_listed(schema, GOOD))
    for bad in BAD:
        with pytest.raises(InvalidMessage, match="does not match its output schema"):
            run(_call_listed(schema, bad))


@pytest.mark.spec("2025-11-25..2026-07-28/basic/index#implementation-requirements-3")
def test_add_tool_with_unknown_schema_dialect_is_refused_by_name() -> None:
    server = Server("s")
    schema: Object = {"$schema": "https://example.org/my-own-dialect", "type": "object"}
    with pytest.raises(SchemaError, match="my-own-dialect"):
        server.tools.add(lambda: None, "t", input_schema=schema)


@pytest.mark.spec("2025-11-25/basic/index#implementation-requirements-3")
def test_client_warns_of_unknown_schema_dialect_and_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        run(_call_listed({"$schema": "https://example.org/my-own-dialect", "type": "object"}, {"a": 1}))
    assert "my-own-dialect" in caplog.text
