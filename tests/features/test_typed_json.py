"""Results as objects of Python types: `call_tool(..., returns=T)` and `elicit(..., T)`, in every revision."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Literal, Optional, assert_type

import pytest

from mcp_ref import (
    CallToolResult,
    Client,
    Context,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    InvalidMessage,
    Server,
    SyncClient,
    ToolError,
)
from mcp_ref.features.elicitation import ElicitationHandler
from mcp_ref.features.typed_json import read_json
from mcp_ref.jsonrpc.messages import Object
from tests.matrix import EVERY_REVISION
from tests.messages import request, result_of
from tests.raw_peers import connected_client, raw_session, reply

ELICITING = pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25", "2026-07-28"])


@dataclass
class Seat:
    """A place on a train."""

    row: Annotated[int, {"minimum": 1}]
    side: Literal["window", "aisle"] = "aisle"

    def __post_init__(self) -> None:
        if self.row == 13:
            raise ValueError("row 13 does not exist")


@dataclass
class Odd:
    """An object with a member that is named as the wrapper of older revisions."""

    result: int


def make_server() -> Server:
    server = Server("trains")
    data: dict[str, tuple[Any, object]] = {
        "seat": (Seat, Seat(4, "window")),
        "seats": (list[Seat], [Seat(1), Seat(2)]),
        "perhaps_seat": (Seat | None, Seat(3)),
        "no_seat": (Seat | None, None),
        "nothing": (None, None),
        "number": (int, 5),
        "text": (str, "5"),
        "day": (date, date(2025, 1, 31)),
        "odd": (Odd, Odd(7)),
        "counts": (dict[str, int], {"result": 2}),
    }
    for name, (type_, value) in data.items():

        def give(value: Any = value) -> Any:
            return value

        give.__annotations__ = {"value": Any, "return": type_}
        server.tools.add(give, name)

    @server.tool()
    def fails() -> Seat:
        raise ToolError("the train is full")

    @server.tool()
    async def ask(context: Context) -> str:
        result = await context.elicit("Which seat?", Seat)
        assert_type(result, ElicitResult[Seat])
        assert_type(result.data, Seat | None)
        untyped = await context.elicit("Which seat?", {"type": "object", "properties": {"row": {"type": "integer"}}})
        assert_type(untyped, ElicitResult)
        return f"{result.data} {result.action} {untyped.data}"

    return server


def client_of(revision: str, **options: Any) -> Client:
    return Client(make_server(), revision=revision, **options)


# ------------------------------------------------------------------------------------------------ tools


@EVERY_REVISION
async def test_call_tool_returns_the_same_object_in_every_revision(revision: str) -> None:
    async with client_of(revision) as client:
        assert_type(await client.call_tool("number"), CallToolResult)
        assert_type(await client.call_tool("seat", returns=Seat), Seat)
        assert await client.call_tool("seat", returns=Seat) == Seat(4, "window")
        assert await client.call_tool("seats", {}, returns=list[Seat]) == [Seat(1), Seat(2)]
        assert await client.call_tool("perhaps_seat", returns=Seat) == Seat(3)
        nothing: Any = type(None)
        assert await client.call_tool("no_seat", returns=nothing) is None
        if revision > "2024-10-07":  # in this revision, a result without content is an empty list
            assert await client.call_tool("nothing", returns=nothing) is None
        assert await client.call_tool("number", returns=int) == 5
        small: Any = Annotated[int, {"maximum": 9}]  # has no hash
        assert await client.call_tool("number", returns=small) == 5
        assert await client.call_tool("text", returns=str) == "5"
        assert await client.call_tool("day", returns=date) == date(2025, 1, 31)
        assert await client.call_tool("odd", returns=Odd) == Odd(7)
        assert await client.call_tool("counts", returns=dict[str, int]) == {"result": 2}


@EVERY_REVISION
async def test_call_tool_raises_the_error_of_the_tool_and_names_a_result_of_another_type(revision: str) -> None:
    async with client_of(revision) as client:
        with pytest.raises(InvalidMessage, match="the result of tool 'seats' is not of the type Seat: expected an obj"):
            await client.call_tool("seats", returns=Seat)
        with pytest.raises(InvalidMessage, match="the result of tool 'seat' is not of the type int: expected an integ"):
            await client.call_tool("seat", returns=int)
        if revision > "2024-10-07":  # this revision has no mark for an error
            with pytest.raises(ToolError, match=r"^the train is full$"):
                await client.call_tool("fails", returns=Seat)
        with pytest.raises(TypeError, match="complex has no JSON Schema"):
            await client.call_tool("seat", returns=complex)


RESULTS: list[tuple[Object, Any, object]] = [
    ({"structuredContent": {"result": 5}}, int, 5),
    ({"structuredContent": {"row": 5, "more": 1}}, Seat, Seat(5)),
    ({"structuredContent": {"result": {"a": 1}}}, dict[str, int], {"a": 1}),
    ({"content": [{"type": "text", "text": "[1]"}]}, list[int], [1]),
    ({"content": [{"type": "text", "text": "[1"}]}, list[int], "expected an array"),
    ({"content": [{"type": "text", "text": "[" * 100_000}]}, list[int], "expected an array"),
    ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, str, "nor a single text"),
    ({"content": [{"type": "image", "data": "", "mimeType": "image/png"}]}, str, "nor a single text"),
    ({"content": []}, type(None), None),
    ({"content": []}, Seat | None, None),
    ({"content": []}, int, "expected an integer, got null"),
    ({"structuredContent": {"row": 13}}, Seat, "row 13 does not exist"),
    ({"structuredContent": {"row": 0}}, Seat, "row: expected at least 1, got 0"),
]


@pytest.mark.parametrize(("result", "returns", "expected"), RESULTS, ids=lambda value: str(value)[:80])
async def test_call_tool_reads_results_of_other_servers(result: Object, returns: Any, expected: object) -> None:
    async with raw_session(lambda t: Client(t, revision="2025-11-25"), "2025-11-25", {"tools": {}}) as (client, wire):
        calling = asyncio.create_task(client.call_tool("t", returns=returns))
        await reply(wire, "tools/call", {"content": [], **result})
        if isinstance(expected, str):
            with pytest.raises(InvalidMessage, match=expected):
                await calling
        else:
            assert await calling == expected


@dataclass
class Bench:
    """A place with the fields of `Seat`."""

    row: int


def test_read_json_of_a_union_reads_the_first_type_that_fits() -> None:
    for first, second in ((Seat, Bench), (Bench, Seat)):
        type_: Any = list[first | second]  # type: ignore[valid-type]
        assert read_json({"row": 1}, first | second) == first(1)  # type: ignore[arg-type]
        assert read_json([{"row": 1}], type_) == [first(1)]


def test_sync_client_call_tool_returns_objects() -> None:
    with SyncClient(make_server()) as client:
        assert_type(client.call_tool("seat"), CallToolResult)
        assert_type(client.call_tool("seat", {}, returns=Seat, timeout=5.0), Seat)
        assert client.call_tool("seats", returns=list[Seat]) == [Seat(1), Seat(2)]
        with pytest.raises(ToolError, match="the train is full"):
            client.call_tool("fails", returns=Seat)


# ------------------------------------------------------------------------------------------------ elicitation


def answering(*results: ElicitResult) -> ElicitationHandler:
    remaining = list(results)

    async def answer(request: ElicitRequestFormParams | ElicitRequestURLParams) -> ElicitResult:
        return remaining.pop(0)

    return answer


@ELICITING
@pytest.mark.parametrize(
    ("first", "expected"),
    [
        (ElicitResult("accept", {"row": 2, "side": "window"}), "Seat(row=2, side='window') accept None"),
        (ElicitResult("accept", {"row": 2}), "Seat(row=2, side='aisle') accept None"),
        (ElicitResult("decline"), "None decline None"),
        (ElicitResult("cancel"), "None cancel None"),
    ],
    ids=str,
)
async def test_elicit_returns_an_object_of_the_class_of_the_form(
    revision: str, first: ElicitResult, expected: str
) -> None:
    answers = answering(first, ElicitResult("accept", {"row": 1}))
    async with client_of(revision, elicitation=answers) as client:
        assert await client.call_tool("ask", returns=str) == expected


@ELICITING
async def test_elicit_refuses_content_that_the_class_refuses(revision: str) -> None:
    async with client_of(revision, elicitation=answering(ElicitResult("accept", {"row": 13}))) as client:
        refused = await client.call_tool("ask")
        assert refused.text == "the content of the form is not valid: value: row 13 does not exist"


@dataclass
class Wishes:
    """Fields that the user can leave empty."""

    seats: int | None = None
    side: Literal["window", "aisle"] | None = None
    name: Optional[str] = None  # noqa: UP045 - as many programs write it


@ELICITING
async def test_elicit_of_a_class_leaves_null_out_of_the_form_but_reads_none(revision: str) -> None:
    forms: list[Object] = []
    server = Server("s")

    @server.tool()
    async def ask(context: Context) -> str:
        return repr((await context.elicit("What do you like?", Wishes)).data)

    async def accept(form: Any) -> ElicitResult:
        forms.append(form.requested_schema)
        return ElicitResult("accept", {"seats": 2})

    async with Client(server, revision=revision, elicitation=accept) as client:
        assert (await client.call_tool("ask")).text == "Wishes(seats=2, side=None, name=None)"
    sides: Object = {"type": "string", "enum": ["window", "aisle"]}
    fields: Object = {"seats": {"type": "integer"}, "side": sides, "name": {"type": "string"}}
    assert forms == [{"type": "object", "properties": fields}]


@pytest.mark.parametrize("action", ["accept", "decline"])
async def test_elicit_result_takes_no_data_from_the_client(action: str) -> None:
    async with connected_client(make_server(), "memory", "2025-11-25", {"elicitation": {}}) as wire:
        await wire.send(request("tools/call", {"name": "ask"}, 1))
        await reply(wire, "elicitation/create", {"action": "cancel", "data": {"row": 1}})
        await reply(wire, "elicitation/create", {"action": action, "content": {"row": 1}, "data": "forged"})
        result = result_of(await wire.receive())
        assert result["content"] == [{"type": "text", "text": "None cancel None"}]


@ELICITING
@pytest.mark.parametrize(
    ("type_", "member", "value"),
    [
        (bool, {"type": "boolean"}, True),
        (int, {"type": "integer"}, 3),
        (Literal["window", "aisle"], {"type": "string", "enum": ["window", "aisle"]}, "aisle"),
    ],
)
async def test_elicitation_of_a_single_value_is_a_form_with_one_field(
    type_: Any, member: Object, value: Any, revision: str
) -> None:
    forms: list[Object] = []
    server = Server("s")

    @server.tool()
    async def ask(context: Context) -> str:
        result = await context.elicit("Which?", type_)
        return f"{result.action} {result.data!r} {result.content}"

    async def accept(form: Any) -> ElicitResult:
        forms.append(form.requested_schema)
        return ElicitResult("accept", {"value": value})

    async with Client(server, revision=revision, elicitation=accept) as client:
        assert (await client.call_tool("ask")).text == f"accept {value!r} {{'value': {value!r}}}"
    assert forms == [{"type": "object", "properties": {"value": member}, "required": ["value"]}]
