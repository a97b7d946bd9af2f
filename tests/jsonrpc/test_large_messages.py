"""Large messages of a server: only the response to a waiting request is parsed, in any order of its keys."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import json
import math
import random

import pytest

from mcp_ref import Client
from mcp_ref.jsonrpc import large_messages
from mcp_ref.jsonrpc.large_messages import decode_from_server, is_response
from mcp_ref.jsonrpc.messages import Batch, Incoming, Malformed, Notification, Object, Request, decode, encode
from mcp_ref.jsonrpc.outline import MAX_UNREQUESTED, search_ends
from mcp_ref.lib.http.message import Exchange, StreamingResponse
from mcp_ref.lib.http.server import start_server
from mcp_ref.lib.http.sse import encode_event
from mcp_ref.transports.base import Transport
from mcp_ref.transports.memory import MemoryTransport
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


def flood() -> list[bytes]:
    """Return large messages that nobody has asked for."""
    large = b"x" * 2**20
    return [
        b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"%b"}}' % large,
        b'{"params":{"level":"info","data":"%b"},"method":"notifications/message","jsonrpc":"2.0"}' % large,
        b'{"jsonrpc":"2.0","result":{"x":"%b"},"id":99}' % large,
    ]


def responses(frame: bytes) -> list[bytes]:
    """Return the messages of a server whose only tool returns a large text."""
    asked = json.loads(frame)
    if "id" not in asked:
        return []
    capabilities: dict[str, object] = {"tools": {}, "logging": {}}
    info = {"name": "hostile", "version": "0"}
    results: dict[str, dict[str, object]] = {
        "initialize": {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info},
        "server/discover": {"supportedVersions": ["2026-07-28"], "capabilities": capabilities, "ttlMs": 0},
        "tools/call": {"content": [{"type": "text", "text": "y" * 2**21}]},
    }
    response = {
        "result": {**results[asked["method"]], "resultType": "complete", "cacheScope": "private"},
        "jsonrpc": "2.0",
    }
    return [*flood(), json.dumps({**response, "id": asked["id"]}).encode()]


STDIO = f"""
import json
{inspect.getsource(flood)}
{inspect.getsource(responses)}
for line in sys.stdin.buffer:
    for frame in responses(line):
        sys.stdout.buffer.write(frame + bytes([10]))
        sys.stdout.buffer.flush()
"""


class Site:
    """An HTTP server that floods: on the streams of responses, or over HTTP+SSE."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.stream: StreamingResponse | None = None

    async def handle(self, exchange: Exchange) -> None:
        await exchange.read_body()
        body = exchange.request.body
        if exchange.request.method == "GET":
            self.stream = exchange.stream(200, [("Content-Type", "text/event-stream")])
            self.stream.write(encode_event(b"/messages", event="endpoint"))
            await self.stream.ended
        elif self.kind == "http+sse" and exchange.request.path == "/mcp":
            exchange.respond(404, [], b"")
        elif self.kind == "http+sse":
            exchange.respond(202, [], b"")
            assert self.stream is not None
            await self.write(self.stream, body, "message")
        else:
            stream = exchange.stream(200, [("Content-Type", "text/event-stream")])
            await self.write(stream, body)
            stream.close()

    async def write(self, stream: StreamingResponse, body: bytes, event: str | None = None) -> None:
        for frame in responses(body):
            stream.write(encode_event(frame, event=event))
            await stream.drain()


class Memory:
    """A server in this program that floods."""

    async def serve(self, transport: Transport) -> None:
        ended = asyncio.Event()

        def receive(message: Incoming) -> None:
            if isinstance(message, Request):
                assert isinstance(transport, MemoryTransport)
                for frame in responses(encode(message)):
                    transport._outbox.put(frame)

        await transport.start(receive, lambda _: ended.set())
        await ended.wait()


async def flooded_call(target: object, revision: str) -> None:
    logs: list[object] = []
    async with asyncio.timeout(2 * PATIENCE):
        async with Client(target, revision=revision, on_log=logs.append) as client:  # type: ignore[arg-type]
            assert len((await client.call_tool("t")).text) == 2**21
    assert logs == []


@pytest.mark.attack("large-notification")
@pytest.mark.parametrize("kind", ["memory", "stdio", "sse", "http+sse"])
async def test_flood_of_large_messages_is_not_parsed_on_any_transport(kind: str, parsed: list[int]) -> None:
    if kind == "stdio":
        await flooded_call(python(STDIO), "2025-11-25")
    elif kind == "memory":
        await flooded_call(Memory(), "2025-11-25")
    else:
        server = await start_server(Site(kind).handle)
        try:
            url = f"http://127.0.0.1:{server.address[1]}/mcp"
            await flooded_call(url, MODERN if kind == "sse" else "2025-11-25")
        finally:
            await server.close(0.0)
    assert sum(size > MAX_UNREQUESTED for size in parsed) == 1
