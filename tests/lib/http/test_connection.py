"""Tests of lib/http/connection.py without a socket and without a clock: each call of the transport is seen."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import NoReturn

import pytest

from mcp_ref.lib.http import connection as connection_module
from mcp_ref.lib.http.connection import LINGER_SECONDS, MAX_PIPELINED_BYTES, MAX_REFUSED, HttpConnection
from mcp_ref.lib.http.connections import CROWDED_READ_SECONDS, MAX_UNCOUNTED, Connections, SlowReader
from mcp_ref.lib.http.message import (
    CLIENT_DISCONNECTED,
    MIN_COUNTED_SIZE,
    SMALL_BODY,
    BodyError,
    BodyMemory,
    Exchange,
    Handler,
    HeaderList,
    Headers,
    HttpLimits,
    StreamingResponse,
    network_of,
)
from mcp_ref.lib.http.parser import MAX_CACHED_HEAD_SIZE, MAX_SHARED_HEADS
from mcp_ref.lib.turns import Turns, current_turns
from tests.lib.http.fake_transport import FakeTransport
from tests.settings import PATIENCE

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
LIMITS = HttpLimits(
    head_time=10, body_time=20, idle_time=30, write_time=40, write_buffer=100_000, unread_size=1_000_000
)
NOW = 1000.0


class Wire:
    """A connection, and the client's side of it, which has sent some data."""

    def __init__(
        self, handler: Handler, data: bytes = b"", *, limits: HttpLimits = LIMITS, peer: object = ("192.0.2.1", 5),
        is_tls: bool = False, connections: Connections | None = None,
    ) -> None:  # fmt: skip
        self.connections = connections or Connections(handler, limits, 1, lambda body: False)
        self.connection = HttpConnection(self.connections)
        self.transport = FakeTransport(peer, is_tls)
        self.connection.connection_made(self.transport)
        self.send(data)

    def send(self, data: bytes) -> None:
        """Let data arrive."""
        for start in range(0, len(data), len(self.connections.received)):
            piece = data[start : start + len(self.connections.received)]
            self.connection.get_buffer(-1)[: len(piece)] = piece
            self.connection.buffer_updated(len(piece))

    def take(self) -> tuple[list[object], str]:
        """Return the calls and the first written line since the last time."""
        calls, line = self.transport.calls[:], self.transport.written.partition(b"\r\n")[0].decode()
        self.transport.calls.clear()
        self.transport.written.clear()
        return calls, line


def respond(exchange: Exchange) -> None:
    exchange.respond(200, [], b"")


def hold(exchange: Exchange) -> None:
    """Respond later."""
    held.append(exchange)
    exchange.respond_later(lambda: given_up.append(exchange))


def stream(exchange: Exchange) -> None:
    """Open a stream, and keep it open."""
    streams.append(exchange.stream(200, []))
    streams[-1].keep_open(ended.append)


async def read(exchange: Exchange) -> None:
    """Respond with the size of the body."""
    await exchange.read_body()
    exchange.respond(200, [], b"%d" % len(exchange.request.body))


async def turns() -> None:
    """Let the tasks of handlers run until they wait."""
    for _ in range(5):
        await asyncio.sleep(0)


held: list[Exchange] = []
given_up: list[Exchange] = []
streams: list[StreamingResponse] = []
ended: list[StreamingResponse] = []


@pytest.fixture(autouse=True)
def fixed_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop the clock of connections, and begin with empty lists."""
    monkeypatch.setattr(connection_module, "time", SimpleNamespace(monotonic=lambda: NOW))
    for each in (held, given_up, streams, ended):
        each.clear()


def post(size: int, field: bytes = b"") -> bytes:
    return b"POST / HTTP/1.1\r\nHost: x\r\n%bContent-Length: %d\r\n\r\n" % (field, size)


@pytest.mark.parametrize(
    ("handler", "data", "seconds", "calls", "line"),
    [
        (respond, b"", LIMITS.head_time, ["close"], ""),
        (respond, b"GET", LIMITS.head_time, ["eof"], "HTTP/1.1 408 Request Timeout"),
        (read, post(1 << 20), LIMITS.body_time, ["eof"], "HTTP/1.1 408 Request Timeout"),
        (respond, GET, LIMITS.idle_time, ["close"], ""),
        (respond, GET + b"GET", LIMITS.head_time, ["eof"], "HTTP/1.1 408 Request Timeout"),
        (respond, b"\0\r\n\r\n", LINGER_SECONDS, ["abort"], ""),
    ],
    ids=["new", "head", "body", "idle", "next head", "closing"],
)
async def test_connection_ends_exactly_at_the_time_limit_of_its_phase(
    handler: Handler, data: bytes, seconds: float, calls: list[str], line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = Wire(handler, data)
    await turns()
    wire.take()
    monkeypatch.setattr(connection_module, "time", SimpleNamespace(monotonic=lambda: NOW + 1))
    if data and not data.endswith(b"\n"):
        wire.send(b"x")  # this does not extend the time
    wire.connection.check_time_limits(NOW + seconds - 0.001)
    assert wire.take() == ([], "")
    wire.connection.check_time_limits(NOW + seconds)
    await turns()
    assert wire.take() == (calls, line)


async def test_handler_has_no_time_limit() -> None:
    wire = Wire(hold, GET)
    wire.take()
    wire.connection.check_time_limits(NOW + 1e9)
    assert wire.take() == ([], "") and not given_up
    held[0].respond(200, [], b"")
    assert wire.take() == ([], "HTTP/1.1 200 OK")


async def test_requests_that_wait_for_a_handler_pause_reading_above_max_pipelined_bytes() -> None:
    size = MAX_PIPELINED_BYTES - len(post(99999))
    wire = Wire(hold, GET + post(size) + b"x" * size)
    assert wire.take() == ([MAX_UNCOUNTED], "")
    wire.send(b"G")
    assert wire.take() == (["pause"], "")
    for exchange, calls in ((0, ["resume"]), (1, [])):
        held[exchange].respond(200, [], b"")
        await asyncio.sleep(0)
        assert wire.take() == (calls, "HTTP/1.1 200 OK")
    assert len(held) == 2 and wire.connection.parser.buffer == b"G"


@pytest.mark.parametrize(("write_buffer", "limit"), [(100, 100), (MAX_UNCOUNTED + 1, MAX_UNCOUNTED)])
async def test_transport_pauses_the_writer_early(write_buffer: int, limit: int) -> None:
    assert Wire(respond, limits=HttpLimits(write_buffer=write_buffer)).take() == ([limit], "")


@pytest.mark.parametrize(("peer", "client"), [(("192.0.2.1", 5), ("192.0.2.1", 5)), ("", None), (None, None)])
async def test_request_has_the_address_of_the_client_if_there_is_one(peer: object, client: object) -> None:
    Wire(hold, GET, peer=peer)
    assert held[0].request.client == client


async def test_response_has_the_handlers_headers_date_and_content_length() -> None:
    wire = Wire(lambda exchange: exchange.respond(200, [("A", "b")], b"yes"), GET)
    head, _, body = wire.transport.written.decode().partition("\r\n\r\n")
    line, first, date, length = head.split("\r\n")
    assert (line, first, length, body) == ("HTTP/1.1 200 OK", "A: b", "Content-Length: 3", "yes")
    assert re.fullmatch(r"Date: .* GMT", date)


async def test_response_to_head_has_no_body() -> None:
    wire = Wire(read, GET.replace(b"GET", b"HEAD"))
    await turns()
    assert wire.transport.written.endswith(b"\r\nContent-Length: 1\r\n\r\n")


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.0\r\n\r\n",
        b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
        GET[:-2] + b"Connection: foo, Close\r\n\r\n",
    ],
    ids=["HTTP/1.0", "keep-alive of HTTP/1.0", "close"],
)
async def test_connection_closes_after_the_response_if_the_client_expects_it(data: bytes) -> None:
    wire = Wire(respond, data + GET)
    await turns()
    assert wire.transport.written.count(b"200 OK") == 1 and b"\r\nConnection: close\r\n" in wire.transport.written
    assert wire.take()[0] == [MAX_UNCOUNTED, "eof"]


async def test_connections_over_the_limit_get_503_and_the_oldest_of_many_is_aborted() -> None:
    first = Wire(respond)
    others = [Wire(respond, connections=first.connections) for _ in range(MAX_REFUSED)]
    assert [each.take() for each in others] == [
        ([MAX_UNCOUNTED, "eof"], "HTTP/1.1 503 Service Unavailable")
    ] * MAX_REFUSED
    Wire(respond, connections=first.connections)
    assert [each.take()[0] for each in others] == [["abort"]] + [[]] * (MAX_REFUSED - 1)
    others[1].send(GET)  # it is ignored
    assert others[1].take() == ([], "")


@pytest.mark.parametrize(
    ("size", "arrived", "is_read"),
    [(SMALL_BODY, SMALL_BODY, True), (SMALL_BODY + 1, SMALL_BODY + 1, False), (SMALL_BODY, SMALL_BODY - 1, False)],
    ids=["small", "large", "incomplete"],
)
async def test_small_body_is_read_together_with_its_head(size: int, arrived: int, is_read: bool) -> None:
    wire = Wire(hold, GET + post(size) + b"x" * arrived)
    held[0].respond(200, [], b"")
    await asyncio.sleep(0)
    assert held[1].take_body() is is_read
    wire.take()
    held[1].respond(200, [], b"")
    assert (b"Connection: close" in wire.transport.written) is not is_read
    await asyncio.sleep(0)
    assert wire.take()[0] == ([] if is_read else ["eof"])  # an unread body would be taken for a request


async def test_pipelined_request_gets_its_own_body_if_this_arrives_later() -> None:
    wire = Wire(read, post(1) + b"1" + post(2) + b"2")
    for more, end in ((b"", b"\r\n\r\n1"), (b"3", b"\r\n\r\n2")):
        wire.send(more)
        await turns()
        assert wire.transport.written.endswith(end)
        wire.take()


async def test_large_body_stays_with_the_client_until_the_handler_asks_for_it() -> None:
    wire = Wire(hold)
    body = b"x" * (MAX_PIPELINED_BYTES + 2)
    wire.send(post(len(body)) + body[1:])
    assert wire.take() == ([MAX_UNCOUNTED, "pause"], "")
    reading = asyncio.create_task(held[0].read_body())
    await asyncio.sleep(0)
    assert wire.take() == (["resume"], "")
    wire.send(b"x")
    await reading
    assert held[0].request.body == body


async def test_body_over_bodies_size_that_its_handler_has_not_asked_for_is_refused_when_it_asks() -> None:
    wire = Wire(hold, post(30_000) + b"x" * 20_001, limits=HttpLimits(bodies_size=20_000))
    assert wire.take() == ([MAX_UNCOUNTED, "pause"], "")
    with pytest.raises(BodyError, match="too many large bodies") as caught:
        await held[0].read_body()
    assert caught.value.status == 503


@pytest.mark.parametrize(("size", "line"), [(10, "HTTP/1.1 200 OK"), (11, "HTTP/1.1 413 ")], ids=["handler", "size"])
async def test_request_that_is_refused_on_its_head_gets_no_100_continue(size: int, line: str) -> None:
    wire = Wire(respond, post(size, b"Expect: 100-continue\r\n"), limits=HttpLimits(body_size=10))
    assert wire.take()[1].startswith(line)


@pytest.mark.parametrize(("arrived", "line"), [(b"", "HTTP/1.1 100 Continue"), (b"x", "")])
async def test_100_continue_is_sent_when_the_handler_asks_for_the_body(arrived: bytes, line: str) -> None:
    wire = Wire(read)
    body = b"x" * (SMALL_BODY + 1)
    wire.send(post(len(body), b"Expect: 100-continue\r\n") + arrived)
    await asyncio.sleep(0)
    assert wire.take()[1] == line
    wire.send(body[len(arrived) :])
    await turns()
    assert wire.take()[1] == "HTTP/1.1 200 OK"


@pytest.mark.parametrize(("arrived", "line"), [(b"", "HTTP/1.1 100 Continue"), (b"1\r\n", ""), (b"1\r\nx\r\n", "")])
async def test_100_continue_is_not_sent_after_the_first_bytes_of_a_chunked_body(arrived: bytes, line: str) -> None:
    wire = Wire(read)
    head = b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n"
    wire.send(head + arrived)
    await asyncio.sleep(0)
    assert wire.take()[1] == line
    wire.send(b"1\r\nx\r\n0\r\n\r\n"[len(arrived) :])
    await turns()
    assert wire.take()[1] == "HTTP/1.1 200 OK"


@pytest.mark.parametrize(
    ("handler", "data", "is_tls", "stays"),
    [
        (hold, b"", False, False),
        (hold, b"GET", False, False),
        (hold, GET, False, True),
        (hold, GET, True, False),
        (stream, GET, False, False),
    ],
    ids=["idle", "head", "response", "tls", "stream"],
)
async def test_half_closed_connection_stays_open_only_for_a_short_response(
    handler: Handler, data: bytes, is_tls: bool, stays: bool
) -> None:
    wire = Wire(handler, data, is_tls=is_tls)
    left: list[bool] = []
    for exchange in held:
        exchange.on_disconnect(lambda: left.append(True))
    assert wire.connection.eof_received() is stays
    assert left == [True] * len(held)
    wire.take()
    for exchange in held:
        exchange.respond(200, [], b"")
        assert wire.take() == (["close"], "HTTP/1.1 200 OK")


async def test_half_closed_connection_still_gets_the_responses_to_its_requests() -> None:
    wire = Wire(hold, GET + GET + b"GET / HT")
    assert wire.connection.eof_received()
    for number in range(2):
        held[number].respond(200, [], b"")
        await turns()
    assert wire.transport.written.count(b"200 OK") == 2
    assert wire.take()[0] == [MAX_UNCOUNTED, "close"]


async def test_lost_connection_fails_the_body_and_leaves_nothing() -> None:
    errors: list[BodyError] = []

    async def handler(exchange: Exchange) -> None:
        for _ in range(2):
            with pytest.raises(BodyError) as caught:
                await exchange.read_body()
            errors.append(caught.value)

    wire = Wire(handler, post(SMALL_BODY + 1) + b"x" * MIN_COUNTED_SIZE)
    await asyncio.sleep(0)
    assert wire.connections.bodies._used == MIN_COUNTED_SIZE
    wire.connection.connection_lost(None)
    assert wire.connections.open
    await turns()
    assert [(each.status, str(each)) for each in errors] == [(CLIENT_DISCONNECTED, "the client has disconnected")] * 2
    assert not wire.connections.open and wire.connections.bodies._used == 0
    assert not wire.connections._networks and wire.take()[1] == ""


async def test_late_response_after_a_lost_connection_frees_it() -> None:
    wire = Wire(hold, GET)
    wire.transport.is_closed = True
    wire.connection.connection_lost(None)
    assert wire.connections.open
    held[0].respond(200, [], b"")
    assert wire.take()[1] == "" and not wire.connections.open and not given_up


@pytest.mark.parametrize("is_half_closed", [True, False])
async def test_handler_whose_client_has_left_needs_no_response(
    is_half_closed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def wait(exchange: Exchange) -> None:
        for _ in range(2):  # the second function is given to `on_disconnect` after the disconnect
            left = asyncio.Event()
            exchange.on_disconnect(left.set)
            await left.wait()

    wire = Wire(wait, GET)
    await asyncio.sleep(0)
    wire.take()
    if is_half_closed:
        assert wire.connection.eof_received()
    else:
        wire.connection.connection_lost(None)
    await turns()
    assert wire.take() == (["close"] if is_half_closed else [], "") and not caplog.records
    assert is_half_closed or not wire.connections.open


async def hold_with_body(exchange: Exchange) -> None:
    """Read the body, and respond later."""
    await exchange.read_body()
    hold(exchange)


def open_wires(count: int, limits: HttpLimits, handler: Handler, peer: object = None) -> list[Wire]:
    """Return as many connections as one server allows."""
    connections = Connections(handler, limits, count, lambda body: False)
    return [Wire(handler, connections=connections, peer=peer) for _ in range(count)]


async def test_late_stream_that_is_kept_open_holds_neither_its_request_nor_its_body() -> None:
    wire, size = Wire(hold_with_body), SMALL_BODY + 1
    wire.send(post(size) + b"x" * size)
    await turns()
    assert wire.connections.bodies._used == size
    held[0].stream(200, []).keep_open(ended.append)
    assert wire.connections.bodies._used == 0 and wire.connection._exchange is None


async def test_bodies_in_progress_share_bodies_size_and_the_largest_is_refused() -> None:
    size = SMALL_BODY + 1
    wires = open_wires(5, HttpLimits(body_size=10 * size, bodies_size=5 * size), read)
    bodies = wires[0].connections.bodies

    async def send(number: int, data: bytes) -> str:
        wires[number].send(data)
        await turns()
        return wires[number].take()[1]

    for number, share in enumerate((1, 2, 1, 1)):
        assert await send(number, post(share * size + 1) + b"x" * share * size) == ""
    assert bodies._used == 5 * size
    assert await send(3, b"x") == "HTTP/1.1 200 OK"
    assert await send(4, post(3 * size) + b"x" * 2 * size) == ""
    assert b"too many large bodies" in wires[1].transport.written
    assert wires[1].take() == (["eof"], "HTTP/1.1 503 Service Unavailable")
    for number in (0, 2):
        assert await send(number, b"x") == "HTTP/1.1 200 OK"
    assert await send(4, b"x" * size) == "HTTP/1.1 200 OK"
    assert (bodies._used, bodies._sizes) == (0, {})


async def test_body_of_a_running_handler_counts_for_bodies_size_until_the_handler_forgets_it() -> None:
    size = SMALL_BODY + 2
    wires = open_wires(4, HttpLimits(bodies_size=2 * size), hold_with_body)
    bodies = wires[0].connections.bodies
    for wire, length in zip(wires, (size + 1, size, size - 1), strict=False):
        wire.send(post(length) + b"x" * length)
        await turns()
    assert [wire.take()[1][:12] for wire in wires[:3]] == ["", "HTTP/1.1 503", ""]
    assert bodies._used == 2 * size
    for exchange in held:
        exchange.forget_body()
        assert exchange.request.body == b""
    assert bodies._used == 0
    wires[3].send(post(2 * size) + b"x" * 2 * size)
    await turns()
    assert len(held) == 3
    held[0].respond(200, [], b"")
    assert wires[0].take() == ([], "HTTP/1.1 200 OK")  # the connection stays open


@pytest.mark.parametrize("first", [b"", GET], ids=["unfinished heads", "later requests"])
async def test_heads_and_later_requests_share_bodies_size_and_the_largest_connection_ends(first: bytes) -> None:
    wires = open_wires(6, HttpLimits(bodies_size=100_000), hold)
    memory = wires[0].connections.bodies
    for wire in wires:
        wire.send(first + GET[:-2] + b"X: " + b"x" * (22_000 if wire is wires[1] else 17_000))
        if wire is wires[5]:
            assert wires[1].take()[0] == [MAX_UNCOUNTED, "abort"]
            wires[1].connection.connection_lost(None)
    assert memory._used <= 100_000 and len(memory._sizes) == 5
    wires[5].send(b"\r\n\r\n")
    held[-1].respond(200, [], b"")
    await turns()
    assert len(memory._sizes) == 4 and wires[5].take()[1] == "HTTP/1.1 200 OK"
    for wire in (wires[0], *wires[2:]):
        wire.connection.connection_lost(None)
    assert memory._used == 0


@pytest.mark.parametrize("client_leaves", [False, True])
async def test_handler_that_cancels_its_own_task_ends_its_connection_without_a_response(client_leaves: bool) -> None:
    async def cancel_itself(exchange: Exchange) -> None:
        await hold_with_body(exchange)
        if client_leaves:
            left = asyncio.Event()
            exchange.on_disconnect(left.set)
            await left.wait()
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.Event().wait()

    wire, size = Wire(cancel_itself), SMALL_BODY + 1
    wire.send(post(size) + b"x" * size)
    await turns()
    if client_leaves:
        wire.connection.connection_lost(None)
        await turns()
        assert not wire.connections.open
    assert wire.take()[1] == "" and wire.transport.is_closed and given_up == held
    assert wire.connections.bodies._used == 0


@pytest.mark.parametrize(
    ("data", "head", "body", "calls"),
    [
        (GET, b"Transfer-Encoding: chunked", b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n", []),
        (b"GET / HTTP/1.0\r\n\r\n", b"Connection: close", b"onetwo", ["eof"]),
        (GET.replace(b"GET", b"HEAD"), b"Transfer-Encoding: chunked", b"", []),
    ],
    ids=["HTTP/1.1", "HTTP/1.0", "HEAD"],
)
async def test_stream_is_chunked_or_ends_with_the_connection(
    data: bytes, head: bytes, body: bytes, calls: list[str]
) -> None:
    wire = Wire(stream, data)
    for piece in (b"one", b"", b"two"):  # as a chunk, an empty piece would end the body
        streams[0].write(piece)
    streams[0].close()
    streams[0].close()
    streams[0].write(b"dropped")
    fields, _, rest = bytes(wire.transport.written).partition(b"\r\n\r\n")
    assert head in fields and (b"chunked" in fields) is (b"chunked" in head) and rest == body
    assert wire.take()[0] == [MAX_UNCOUNTED, *calls]


async def test_stream_ends_with_its_handler() -> None:
    wire = Wire(lambda exchange: exchange.stream(200, []).write(b"x"))
    wire.send(GET)
    assert wire.transport.written.endswith(b"\r\n\r\n1\r\nx\r\n0\r\n\r\n")


async def test_keep_open_stream_needs_no_task_and_precedes_the_next_request() -> None:
    tasks = asyncio.all_tasks()
    wire = Wire(stream, GET + GET)
    await turns()
    assert len(streams) == 1 and asyncio.all_tasks() == tasks and not ended
    streams[0].write(b"later")
    assert wire.transport.written.endswith(b"5\r\nlater\r\n")
    streams[0].close()
    assert ended == streams and wire.transport.written.endswith(b"0\r\n\r\n")
    await turns()
    assert len(streams) == 2


async def test_stream_of_a_handler_that_fails_does_not_look_complete_and_ends_the_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def begin_and_fail(exchange: Exchange) -> None:
        stream(exchange)
        streams[-1].write(b"half")
        fail(exchange)

    wire = Wire(begin_and_fail, GET + GET)
    await turns()
    assert wire.transport.written.endswith(b"4\r\nhalf\r\n") and wire.take()[0] == [MAX_UNCOUNTED, "abort"]
    assert len(streams) == 1 and "broken" in caplog.text
    caplog.clear()


@pytest.mark.parametrize("headers", [[("A", "b\r\nSet-Cookie: forged")], [("Content-Length", "5")]])
async def test_response_header_with_a_line_break_or_reserved_name_is_a_value_error(headers: HeaderList) -> None:
    wire = Wire(hold, GET)
    for method in (lambda: held[0].respond(200, headers, b""), lambda: held[0].stream(200, headers)):
        with pytest.raises(ValueError, match="header"):
            method()
    held[0].respond(200, [], b"")
    assert wire.take() == ([MAX_UNCOUNTED], "HTTP/1.1 200 OK")
    with pytest.raises(RuntimeError, match="already sent a response"):
        held[0].respond(200, [], b"")


async def test_lost_connection_ends_its_stream_once() -> None:
    wire = Wire(stream, GET)
    wire.connection.connection_lost(None)
    assert ended == streams and streams[0].ended.done() and not wire.connections.open
    streams[0].write(b"x")
    streams[0].close()
    assert len(ended) == 1


async def test_stream_that_begins_after_the_client_has_left_has_ended_and_the_next_request_is_not_served() -> None:
    wire = Wire(hold, GET + GET)
    assert wire.connection.eof_received()
    late = held[0].stream(200, [])
    assert late.ended.done()
    late.keep_open(ended.append)
    assert ended == [late]
    await asyncio.sleep(0)
    assert len(held) == 1 and wire.take()[0] == [MAX_UNCOUNTED, "close"]


def fail(exchange: Exchange) -> NoReturn:
    raise ValueError("broken")


def hold_and_fail(exchange: Exchange) -> NoReturn:
    hold(exchange)
    fail(exchange)


async def exit_python(exchange: Exchange) -> None:
    raise SystemExit("broken")


def refuse(exchange: Exchange) -> NoReturn:
    raise BodyError(413, "too large")


@pytest.mark.parametrize(
    ("handler", "response", "logged"),
    [
        (fail, b"500 Internal Server Error", ["the handler of GET / failed"]),
        (exit_python, b"500 Internal Server Error", ["the handler of GET / failed"]),
        (hold_and_fail, b"500 Internal Server Error", ["the handler of GET / failed"]),
        (refuse, b"413 ", []),
        (lambda exchange: None, b"500 Internal Server Error", ["the handler of GET / returned without a response"]),
    ],
)
async def test_handler_that_fails_or_is_silent_gets_a_response_and_the_connection_goes_on(
    handler: Handler, response: bytes, logged: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    wire = Wire(handler)
    for _ in range(2):
        wire.send(GET)
        await turns()
        assert wire.transport.written.startswith(b"HTTP/1.1 " + response) and b"broken" not in wire.transport.written
        assert b"\r\nContent-Type: text/plain; charset=utf-8\r\n" in wire.transport.written
        assert b"Connection: close" not in wire.transport.written
        wire.take()
    assert caplog.messages == logged * 2 and given_up == held
    caplog.clear()


@pytest.mark.parametrize(
    ("handler", "data", "calls", "line"),
    [
        (hold, b"", ["close"], ""),
        (hold, b"GET", ["eof"], ""),
        (read, post(1 << 20), ["close"], "HTTP/1.1 503 Service Unavailable"),
        (hold, GET, ["close"], "HTTP/1.1 200 OK"),
        (hold, GET + b"GET", ["eof"], "HTTP/1.1 200 OK"),
    ],
    ids=["idle", "head", "body", "response", "response and next head"],
)
async def test_server_that_stops_closes_each_connection_after_its_response(
    handler: Handler, data: bytes, calls: list[str], line: str
) -> None:
    wire = Wire(handler, data)
    await asyncio.sleep(0)
    wire.take()
    wire.connection.close_after_response()
    for exchange in held:
        assert wire.take() == ([], "")
        exchange.respond(200, [], b"")
    await turns()
    assert wire.take() == (calls, line) and not wire.connection.parser.buffer


async def test_abort_gives_up_a_late_response_and_cancels_a_handler() -> None:
    wire = Wire(hold, GET)
    assert wire.connection.abort() is None and given_up == held
    assert wire.take()[0] == [MAX_UNCOUNTED, "abort"]
    wire = Wire(hold, GET)
    wire.connection.connection_lost(None)
    assert wire.connection.abort() is None and given_up == held and not wire.connections.open
    wire = Wire(read, post(1 << 20))
    await asyncio.sleep(0)
    task = wire.connection.abort()
    assert task is not None
    await asyncio.wait([task])
    assert task.cancelled()
    wire.connection.connection_lost(None)
    assert not wire.connections.open


@pytest.mark.parametrize(("unread", "calls"), [(LIMITS.write_buffer, []), (LIMITS.write_buffer + 1, ["abort"])])
async def test_stream_of_a_client_that_leaves_more_than_write_buffer_unread_is_aborted(
    unread: int, calls: list[str]
) -> None:
    wire = Wire(stream, GET)
    assert streams[0].has_room
    wire.transport.unread = unread
    streams[0].write(b"x")  # the transport has not said that it is full
    wire.connection.pause_writing()
    wire.take()
    assert not streams[0].has_room
    streams[0].write(b"x")
    assert wire.take() == (calls, "" if calls else "1")
    assert wire.connections.unread_bytes == (0 if calls else unread)


async def test_next_request_waits_until_the_client_has_read_the_response() -> None:
    wire = Wire(hold, GET + GET)
    wire.connection.pause_writing()
    held[0].respond(200, [], b"")
    await asyncio.sleep(0)
    assert len(held) == 1
    wire.connection.resume_writing()
    await turns()
    assert len(held) == 2 and wire.connections.unread_bytes == 0


async def test_stream_drain_waits_until_the_client_has_read() -> None:
    wire = Wire(stream, GET)
    wire.connection.pause_writing()
    draining = asyncio.create_task(streams[0].drain())
    await asyncio.sleep(0)
    assert not draining.done()
    wire.connection.resume_writing()
    await asyncio.wait_for(draining, PATIENCE)


async def test_slow_reader_must_read_a_byte_in_write_time_and_a_sixteenth_if_all_clients_have_much_unread(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    wire = Wire(respond)

    def reader(unread: int, written: int) -> SlowReader:
        wire.transport.unread = unread
        found = SlowReader(wire.connections, wire.transport, None)
        found.note_written(written)
        found.check(NOW)
        wire.take()
        return found

    slow = reader(1000, 1600)
    slow.check(NOW + LIMITS.write_time - 0.001)
    wire.transport.unread -= 1
    slow.check(NOW + LIMITS.write_time)  # it has read a byte
    slow.check(NOW + 2 * LIMITS.write_time - 0.001)
    assert wire.take() == ([], "") and wire.connections.unread_bytes == 999
    slow.check(NOW + 2 * LIMITS.write_time)
    assert wire.take() == (["abort"], "")
    assert caplog.messages == ["disconnected None, which read less than 1 bytes in 40 s"]
    slow.end()
    assert wire.connections.unread_bytes == 0 and not wire.connections.slow
    for unread, read_bytes, calls in ((999_999, 1, []), (1_000_000, 62_437, ["abort"]), (1_000_000, 62_500, [])):
        slow = reader(unread + read_bytes, unread + read_bytes)
        wire.transport.unread = unread
        wire.connections.count_unread(slow, unread)
        slow.check(NOW + CROWDED_READ_SECONDS)
        assert wire.take() == (calls, ""), unread
        slow.end()


@pytest.mark.parametrize(("unread", "has_room"), [(LIMITS.unread_size - 1, True), (LIMITS.unread_size, False)])
async def test_slow_readers_are_checked_when_all_clients_have_unread_size_unread(unread: int, has_room: bool) -> None:
    checked: list[float] = []

    class Slow(SlowReader):
        def check(self, now: float) -> None:
            checked.append(now)

    wire = Wire(respond)
    wire.connections.count_unread(Slow(wire.connections, wire.transport, None), unread)
    assert wire.connections.has_room() is has_room and len(checked) == (not has_room)


async def test_handlers_of_one_server_share_its_turns() -> None:
    found: list[Turns | None] = []

    def handler(exchange: Exchange) -> None:
        found.append(current_turns.get())
        respond(exchange)

    wire = Wire(handler, GET)
    assert found == [wire.connections.turns]


@pytest.mark.parametrize(("sizes", "refused"), [((50_000, 50_000), []), ((50_001, 50_000), [0]), ((5000, 99_999), [1])])
def test_body_memory_refuses_the_largest_body_above_its_limit(sizes: tuple[int, ...], refused: list[int]) -> None:
    memory, found = BodyMemory(100_000), list[int]()

    def refuse(number: int) -> Callable[[BodyError], None]:
        return lambda error: found.append(number) if error.status == 503 else None

    for number, size in enumerate((*sizes, MIN_COUNTED_SIZE - 1)):
        memory.update(number, size, refuse(number))
    assert found == refused and memory._used == sum(sizes) - sum(sizes[each] for each in refused)
    memory.update(9, MIN_COUNTED_SIZE, None)
    assert 9 in memory._sizes and 9 not in found


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "20010db800010002"),
        ("fe80::1%eth0", "fe80000000000000"),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.1"),
        ("a:b", "a:b"),
        ("", ""),
    ],
)
def test_network_of_an_ipv6_address_has_64_bits(address: str, network: str) -> None:
    assert network_of(address) == network


@pytest.mark.attack("connections-of-one-address")
async def test_connection_over_the_share_of_a_public_address_gets_503_until_others_have_ended() -> None:
    peer = ("8.8.8.8", 5)
    wires = open_wires(4, LIMITS, respond, peer)
    assert wires[3].transport.written.endswith(b"your address has too many connections; close some of them\n")
    assert [wire.take()[1][:12] for wire in wires] == ["", "", "", "HTTP/1.1 503"]
    for wire in (wires[0], wires[3]):
        wire.connection.connection_lost(None)
    later = Wire(respond, GET, peer=peer, connections=wires[1].connections)
    assert later.take()[1] == "HTTP/1.1 200 OK"


async def test_repeated_head_gives_the_same_headers_object_on_another_connection_but_a_large_head_does_not() -> None:
    connections = Connections(hold, LIMITS, 1000, lambda body: False)

    def headers_of(field: bytes) -> Headers:
        Wire(hold, GET[:-2] + field + b"\r\n\r\n", connections=connections)
        return held[-1].request.headers

    first, large = headers_of(b"A: b"), b"X: " + b"x" * MAX_CACHED_HEAD_SIZE
    assert headers_of(b"A: b") is first and headers_of(large) is not headers_of(large)
    for number in range(MAX_SHARED_HEADS):
        headers_of(b"A: %d" % number)
    assert headers_of(b"A: b") is not first
