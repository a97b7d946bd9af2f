"""Two peers in one program, and a transport of one's own: the same messages and lifecycle as over every other."""

from __future__ import annotations

import asyncio
import json

import pytest

from mcp_ref import Client, ConnectionClosed, Context, Server
from mcp_ref.basic.access import Access, current_access
from mcp_ref.jsonrpc.messages import JSON, Notification, Outgoing, Request, RequestId, Response, decode, encode
from mcp_ref.revisions import LEGACY
from mcp_ref.transports.base import EndReport, OnEnd, Receive, Trace, Transport, finish
from mcp_ref.transports.memory import MAX_UNREAD, Inbox, MemoryTransport, memory_pair
from tests.messages import notification
from tests.raw_peers import close_server_end, raw_session
from tests.settings import PATIENCE

NAMES = [revision.name for revision in LEGACY]


class Sink:
    """The messages that one end of a pair receives."""

    def __init__(self) -> None:
        self.received: list[object] = []
        self.lost: list[object] = []


# ------------------------------------------------------------------------------------------------ the pair


async def started_pair(trace: Trace | None = None) -> tuple[MemoryTransport, MemoryTransport, Sink, Sink]:
    """Return two connected transports that have started, and their sinks of received messages."""
    (ours, theirs), here, there = memory_pair(trace), Sink(), Sink()
    await ours.start(here.received.append, here.lost.append)
    await theirs.start(there.received.append, there.lost.append)
    return ours, theirs, here, there


async def test_messages_arrive_in_order_also_those_sent_before_the_peer_started() -> None:
    ours, theirs = memory_pair()
    sink, nobody = Sink(), Sink()
    await ours.start(nobody.received.append, nobody.lost.append)
    ours.send(Request(1, "a", {"text": "caf\u00e9"}))
    ours.send(Notification("b"))
    await theirs.start(sink.received.append, sink.lost.append)
    ours.send(Response(2, {}))
    await asyncio.sleep(0)
    assert sink.received == [Request(1, "a", {"text": "caf\u00e9"}), Notification("b"), Response(2, {})]
    await ours.close()


async def test_message_from_the_handler_of_an_http_request_does_not_have_its_rights() -> None:
    ours, theirs = memory_pair()
    accesses: list[Access | None] = []
    await theirs.start(lambda message: accesses.append(current_access.get()), lambda error: None)
    token = current_access.set(Access())
    ours.send(Notification("a"))
    await asyncio.sleep(0)
    assert accesses == [None]
    current_access.reset(token)


async def test_messages_sent_before_close_still_arrive_and_then_the_end() -> None:
    ours, theirs, here, there = await started_pair()
    ours.send(Notification("last"))
    await ours.close()
    await ours.close()
    await asyncio.sleep(0)
    assert there.received == [Notification("last")]
    assert there.lost == [None]  # an orderly end
    assert len(here.lost) == 1 and isinstance(here.lost[0], ConnectionClosed)
    theirs.send(Notification("into the void"))  # dropped
    await theirs.close()
    assert here.received == []


async def test_memory_transport_makes_the_sender_wait_for_a_peer_that_does_not_read() -> None:
    ours, theirs, _, sink = await started_pair()
    theirs.pause_reading()
    count = 0
    draining = asyncio.create_task(ours.drain())
    await draining  # open as long as little is on the way
    while count * 1000 <= MAX_UNREAD:
        ours.send(Notification("x", {"text": "x" * 1000}))
        count += 1
    draining = asyncio.create_task(ours.drain())
    for _ in range(5):
        await asyncio.sleep(0)
    assert not draining.done()
    assert sink.received == []
    theirs.resume_reading()
    await asyncio.wait_for(draining, PATIENCE)
    assert len(sink.received) == count
    await ours.close()


def test_inbox_has_room_up_to_its_limit_and_again_when_half_of_it_is_left() -> None:
    inbox, sizes, half = Inbox(), list[int](), b"x" * (MAX_UNREAD // 2)
    inbox.on_change = lambda: sizes.append(inbox._size)
    inbox.put(half)
    inbox.put(b"y")
    inbox.put(half[1:])
    assert inbox.has_room.is_set()
    inbox.put(b"y")
    assert not inbox.has_room.is_set()
    assert inbox.take() == half and not inbox.has_room.is_set()
    assert inbox.take() == b"y" and inbox.has_room.is_set()
    inbox.put(half + b"y")
    assert not inbox.has_room.is_set()
    inbox.close()
    assert inbox.has_room.is_set()
    inbox.put(b"dropped")
    assert [inbox.take() for _ in range(4)] == [half[1:], b"y", half + b"y", None]
    assert [size - len(half) for size in sizes] == [0, 1, len(half), len(half) + 1, len(half) + 1, len(half) + 1]


@pytest.mark.parametrize("is_sent_first", [True, False])
def test_end_report_is_delivered_once(is_sent_first: bool) -> None:
    report, received, error = EndReport(), list[object](), ConnectionClosed("lost")
    if is_sent_first:
        report.send(error)
    report.deliver_to(received.append)
    report.send(error)
    report.send(None)
    assert received == [error] and report.is_sent


async def test_finish_waits_for_tasks_or_cancels_them() -> None:
    waiting, ready = (asyncio.create_task(asyncio.sleep(seconds)) for seconds in (PATIENCE, 0))
    await finish(None, ready)
    await finish(waiting, timeout=0)
    assert ready.done() and not waiting.done() and not waiting.cancelling()
    await finish(waiting, cancel=True)
    assert waiting.cancelled()


async def test_closing_frees_a_sender_that_waits() -> None:
    ours, theirs, _, _ = await started_pair()
    theirs.pause_reading()
    ours.send(Notification("x", {"text": "x" * 2 * MAX_UNREAD}))
    draining = asyncio.create_task(ours.drain())
    await asyncio.sleep(0)
    assert not draining.done()
    await theirs.close()
    await asyncio.wait_for(draining, PATIENCE)


async def test_memory_transport_traces_each_frame_as_bytes() -> None:
    seen: list[tuple[str, JSON]] = []
    ours, theirs, _, _ = await started_pair(lambda direction, frame: seen.append((direction, json.loads(frame))))
    ours.send(Request(1, "ping"))
    theirs.send(Response(1, {}))
    await asyncio.sleep(0)
    await ours.close()
    assert seen == [
        ("->", {"jsonrpc": "2.0", "id": 1, "method": "ping"}),
        ("<-", {"jsonrpc": "2.0", "id": 1, "result": {}}),
    ]
    with pytest.raises(ValueError, match="JSON compliant"):
        ours.send(Response(1, {"value": float("nan")}))


async def test_client_connects_to_a_server_object_of_the_same_program() -> None:
    server = Server("within", "1")
    server.prompts.add(lambda: "Hello", "greeting")
    async with Client(server) as client:
        assert client.server_info.name == "within"
        assert [prompt.name for prompt in await client.list_prompts()] == ["greeting"]
    with pytest.raises(ConnectionClosed):
        await client.ping()


async def test_closed_memory_transport_fails_the_present_and_the_later_requests() -> None:
    async with raw_session(lambda t: Client(t, timeout=None)) as (client, wire):
        ping = asyncio.create_task(client.ping())
        assert (await wire.receive_object())["method"] == "ping"
        close_server_end(client)
        with pytest.raises(ConnectionClosed):
            await ping
        with pytest.raises(ConnectionClosed):
            await client.ping()


# ------------------------------------------------------------------------------------------------ a custom transport


class Queues(Transport):
    """The smallest transport that keeps the contract: two queues of frames, no flow control."""

    def __init__(self, out: asyncio.Queue[bytes | None], into: asyncio.Queue[bytes | None]) -> None:
        self.out, self.into = out, into
        self.sent: list[JSON] = []
        self._reading: asyncio.Task[None] | None = None

    async def start(self, receive: Receive, on_end: OnEnd) -> None:
        async def read() -> None:
            while (frame := await self.into.get()) is not None:
                receive(decode(frame))
            on_end(None)

        self._reading = asyncio.create_task(read())

    def send(self, message: Outgoing, related: RequestId | None = None) -> None:
        frame = encode(message)
        self.sent.append(json.loads(frame))
        self.out.put_nowait(frame)

    async def drain(self, related: RequestId | None = None) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    async def close(self) -> None:
        self.out.put_nowait(None)
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])


@pytest.mark.spec("2024-11-05..2025-11-25/basic/transports#custom-transports-1")
@pytest.mark.parametrize("revision", NAMES)
async def test_custom_transport_carries_the_same_messages_in_the_same_order(revision: str) -> None:
    server = Server("s", "1")

    @server.resource("test://roots")
    async def roots(context: Context) -> str:
        return str(len(await context.list_roots()))

    to_server: asyncio.Queue[bytes | None] = asyncio.Queue()
    to_client: asyncio.Queue[bytes | None] = asyncio.Queue()
    ours, theirs = Queues(to_server, to_client), Queues(to_client, to_server)
    assert not ours.has_room and not ours.close_stream(1)
    serving = asyncio.create_task(server.serve(theirs))
    async with Client(ours, revision=revision, roots=["/tmp"]) as client:
        contents = (await client.read_resource("test://roots")).contents
        assert [getattr(part, "text", None) for part in contents] == ["1"]
    await asyncio.wait_for(serving, PATIENCE)
    methods = [message.get("method", "answer") for message in ours.sent if isinstance(message, dict)]
    assert methods == ["initialize", "notifications/initialized", "resources/read", "answer"]
    assert ours.sent[1] == notification("notifications/initialized")
    asked = [message.get("method", "answer") for message in theirs.sent if isinstance(message, dict)]
    assert asked == ["answer", "roots/list", "answer"]
    for message in [*ours.sent, *theirs.sent]:
        assert isinstance(message, dict)
        assert message["jsonrpc"] == "2.0"
