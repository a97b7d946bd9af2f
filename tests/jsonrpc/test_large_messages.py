"""Large messages of a server: only the response to a waiting request is parsed, in any order of its keys."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import math
import random
from typing import Any

import pytest

from mcp_ref import Client, Server
from mcp_ref.jsonrpc import large_messages
from mcp_ref.jsonrpc.large_messages import decode_from_server, is_response
from mcp_ref.jsonrpc.messages import Batch, Incoming, Malformed, Notification, Object, decode
from mcp_ref.jsonrpc.outline import MAX_UNREQUESTED, search_ends
from mcp_ref.lib.http.server import start_server
from mcp_ref.server.http import HttpApp
from mcp_ref.transports.stdio import client as stdio_client
from tests.forked_python import python
from tests.settings import MODERN, PATIENCE

LARGE = "x" * MAX_UNREQUESTED
RESULT: Object = {"content": [{"type": "text", "text": LARGE}]}


def never(id: object) -> bool:
    return False


def waits_for_1(id: object) -> bool:
    return str(id) == "1"


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the sizes of the messages that were parsed."""
    sizes: list[int] = []

    def counted(frame: bytes) -> Incoming:
        sizes.append(len(frame))
        return decode(frame)

    for module in (large_messages, stdio_client):
        monkeypatch.setattr(module, "decode", counted)
    return sizes


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("id", [1, "1", 1.0])
@pytest.mark.parametrize("outcome", [{"result": RESULT}, {"error": {"code": 1, "message": "m", "data": LARGE}}])
def test_large_response_to_a_waiting_request_is_decoded_in_every_order_of_its_keys(
    outcome: Object, id: float | str, indent: int | None
) -> None:
    members: Object = {"jsonrpc": "2.0", "id": id, **outcome}
    for order in itertools.permutations(members.items()):
        found = decode_from_server(json.dumps(dict(order), indent=indent).encode(), waits_for_1)
        assert getattr(found, "id", None) == id and not isinstance(found, Malformed), found
        batch = json.dumps([dict(order)], indent=indent).encode()
        assert isinstance(decode_from_server(batch, waits_for_1), Batch)
        assert is_response(batch, waits_for_1) and not is_response(batch, never)


@pytest.mark.attack("large-notification")
def test_decode_refuses_a_large_notification_unparsed_in_every_order_of_its_keys(parsed: list[int]) -> None:
    methods: Object = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": LARGE}}
    for members in (methods, {**methods, "id": 1}, {**methods, "result": {}}, {"jsonrpc": "2.0", "result": RESULT}):
        for order in itertools.permutations(members.items()):
            frame = json.dumps(dict(order)).encode()
            assert isinstance(decode_from_server(frame, never), Malformed)
            if "id" not in members:  # a request with the id of ours shows its method, or ends our request
                assert isinstance(decode_from_server(frame, waits_for_1), Malformed)
                assert not is_response(frame, waits_for_1)
    late = json.dumps({"jsonrpc": "2.0", "id": 2, "result": RESULT}).encode()
    assert isinstance(decode_from_server(late, waits_for_1), Malformed)
    assert parsed == []


@pytest.mark.attack("large-notification")
def test_large_message_with_the_id_of_a_request_is_its_response_or_ends_it() -> None:
    rng = random.Random(7)
    choices: list[tuple[str, object]] = [
        ("jsonrpc", "2.0"), ("id", 1), ("id", 2), ("id", None), ("result", RESULT), ("result", {}), ("method", "m"),
        ("params", {"x": LARGE}), ("error", {"code": 1, "message": "m"}), ("padding", LARGE), ("more", [{"id": 1}]),
    ]  # fmt: skip
    pool = [f'"{name}":{json.dumps(value)}'.encode() for name, value in choices]
    for _ in range(300):
        members = rng.choices(pool, k=rng.randint(1, 6))
        frame = b"{%b}" % b",".join(members)
        found = decode_from_server(frame, waits_for_1)
        if len(frame) > MAX_UNREQUESTED:
            refused = isinstance(found, Malformed) and (found.id is None or b'"method":"m"' in members)
            ends = isinstance(found, Malformed) and found.id == 1 and found.expects_no_response
            assert refused or ends or (getattr(found, "id", None) == 1 and not isinstance(found, Notification)), found


def test_refusal_of_a_large_request_names_the_limit_and_its_id() -> None:
    request = {"jsonrpc": "2.0", "id": 9, "method": "sampling/createMessage", "params": {"x": LARGE}}
    found = decode_from_server(json.dumps(request).encode(), never)
    assert isinstance(found, Malformed) and found.id == 9 and not found.expects_no_response
    assert str(MAX_UNREQUESTED) in found.error.message


def test_search_ends_finds_the_members_in_front_the_next_key_and_the_members_behind() -> None:
    assert search_ends(b'{"id":9, "result": {"x":1}, "a":"b"}') == ({"id", "result", "a"}, 9)
    assert search_ends(b'[{"jsonrpc":"2.0","params":[]}]') == ({"jsonrpc", "params"}, None)
    assert search_ends(b'{"id":%b.0,"result":{}}' % (b"9" * 400)) == ({"id", "result"}, math.inf)


# --------------------------------------------------------------------------------------------- on each transport


PROGRAM = """
from mcp_ref import Context, Server, TextContent

server = Server("hostile")

@server.tool()
async def flood(context: Context) -> TextContent:
    for _ in range(3):
        await context.log("info", "x" * 2**20)
    return TextContent("y" * 2**21)
"""


@pytest.mark.attack("large-notification")
@pytest.mark.parametrize(
    ("place", "revision"),
    [
        ("memory", "2025-11-25"),
        ("stdio", "2025-11-25"),
        ("/mcp", "2025-11-25"),
        ("/mcp", MODERN),
        ("/sse", "2025-11-25"),
    ],
)
async def test_flood_of_large_messages_is_not_parsed_on_any_transport(
    place: str, revision: str, parsed: list[int]
) -> None:
    space: dict[str, Any] = {}
    exec(PROGRAM, space)
    server: Server = space["server"]
    logs: list[object] = []
    async with contextlib.AsyncExitStack() as ends:
        target: Any = server
        if place == "stdio":
            target = python(PROGRAM + "server.run()")
        elif place != "memory":
            app = HttpApp(server.catalog, server.limits, server.trace)
            ends.push_async_callback(app.close)
            ends.push_async_callback(app.end_sessions)
            listening = await start_server(app.handle)
            ends.push_async_callback(listening.close, 0.0)
            target = f"http://127.0.0.1:{listening.address[1]}{place}"
        async with (
            asyncio.timeout(2 * PATIENCE),
            Client(target, revision=revision, on_log=logs.append) as client,
        ):
            assert len((await client.call_tool("flood")).text) == 2**21
    assert logs == []
    assert sum(size > MAX_UNREQUESTED for size in parsed) == 1
