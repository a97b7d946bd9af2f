"""Tests of lib/http/server.py over raw sockets: responses, refusals, limits, disconnects and shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import errno
import os
import socket
import ssl
import struct
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import mcp_ref.lib.http.connection as connection_module
import mcp_ref.lib.http.server as server_module
import mcp_ref.lib.turns as turns_module
from mcp_ref.lib.http.connection import MAX_REFUSED, HttpConnection, Phase
from mcp_ref.lib.http.connections import Connections
from mcp_ref.lib.http.framing import MAX_RECEIVED_BYTES
from mcp_ref.lib.http.message import Exchange, Handler, HttpLimits, StreamingResponse
from mcp_ref.lib.http.server import STARTING_BATCH, HttpServer, allow_connections, start_server
from mcp_ref.lib.turns import MAX_WAITING_FULL
from tests.settings import PATIENCE, eventually

OK = [("Content-Type", "text/plain")]

WAYS_TO_LEAVE = ["close", "reset", "half"]
"""The arguments of `Client.leave`."""

needs_resource = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit on file descriptors")


def _open_connections(server: HttpServer) -> list[HttpConnection]:
    return [each for each in server._connections.open if isinstance(each, HttpConnection)]


@dataclass
class Answer:
    """A received response."""

    status: int
    headers: dict[str, str]
    body: bytes = b""


@dataclass
class Client:
    """A client on a raw socket."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def head(self) -> Answer:
        status, *lines = (await self.reader.readuntil(b"\r\n\r\n"))[:-4].decode("latin-1").split("\r\n")
        pairs = [line.split(": ", 1) for line in lines]
        assert len({name.lower() for name, _ in pairs}) == len(pairs), pairs
        return Answer(int(status.split()[1]), {name.lower(): value for name, value in pairs})

    async def answer(self) -> Answer:
        async with asyncio.timeout(PATIENCE):
            return await self._answer()

    async def _answer(self) -> Answer:
        found = await self.head()
        if "content-length" in found.headers:
            found.body = await self.reader.readexactly(int(found.headers["content-length"]))
        elif found.headers.get("transfer-encoding") == "chunked":
            while size := int(await self.reader.readuntil(b"\r\n"), 16):
                found.body += (await self.reader.readexactly(size + 2))[:-2]
            assert await self.reader.readexactly(2) == b"\r\n"
        return found

    async def ask(self, request: bytes) -> Answer:
        await self.send(request)
        return await self.answer()

    async def ended(self) -> bytes:
        """Return the bytes that arrive until the server closes the connection."""
        return await asyncio.wait_for(self.reader.read(), PATIENCE)

    async def cut(self) -> None:
        """Reset the connection."""
        own: socket.socket = self.writer.get_extra_info("socket")
        own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await self.close()

    async def leave(self, how: str) -> None:
        """Disconnect: "close" and "reset" end both directions, "half" only the client's."""
        if how == "half":
            self.writer.write_eof()
        else:
            await (self.cut() if how == "reset" else self.close())

    async def close(self) -> None:
        self.writer.transport.abort()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()


async def echo(exchange: Exchange) -> None:
    """Respond with the method, path, query and body of the request."""
    if not exchange.take_body():
        await exchange.read_body()
    request = exchange.request
    told = f"{request.method} {request.path} {request.query} {len(request.body)} ".encode()
    exchange.respond(200, OK, told + request.body)


@dataclass
class Bench:
    """A server, and the clients of a test."""

    server: HttpServer
    clients: list[Client] = field(default_factory=list)

    async def client(self, limit: int = 1 << 20) -> Client:
        client = Client(*await asyncio.open_connection(*self.server.address, limit=limit))
        self.clients.append(client)
        return client

    async def ask(self, request: bytes) -> Answer:
        """Return the response to a request of a new client."""
        return await (await self.client()).ask(request)

    async def is_well(self) -> None:
        """Assert that a new client is served, and that no other connection is left."""
        for client in self.clients:
            await client.close()
        self.clients.clear()
        await eventually(lambda: self.server.connection_count == 0)
        assert (await self.ask(GET)).status == 200


GET = b"GET /a?b HTTP/1.1\r\nHost: x\r\n\r\n"


def post(body: bytes = b"", *fields: str, length: int | None = None) -> bytes:
    lines = ["POST / HTTP/1.1", "Host: x", f"Content-Length: {len(body) if length is None else length}", *fields]
    return "\r\n".join([*lines, "", ""]).encode() + body


def chunked(body: bytes) -> bytes:
    return b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + body


@contextlib.asynccontextmanager
async def bench(
    handler: Handler = echo, limits: HttpLimits | None = None, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Bench]:
    server = await start_server(handler, limits=limits, ssl=tls)
    made = Bench(server)
    try:
        yield made
    finally:
        async with asyncio.timeout(PATIENCE):
            for client in made.clients:
                await client.close()
            await server.close(grace=0.2)
        assert server.connection_count == 0


@contextlib.asynccontextmanager
async def bench_client(
    handler: Handler = echo, limits: HttpLimits | None = None, buffer: int = 1 << 20
) -> AsyncIterator[tuple[Bench, Client]]:
    """Yield a bench and one client of it, which buffers so many bytes, and twice as many before it stops to read."""
    async with bench(handler, limits) as b:
        yield b, await b.client(buffer)


@pytest.mark.parametrize("port", [-1, 65536, "8000"])
async def test_serve_port_out_of_range_is_an_error(port: int) -> None:
    with pytest.raises(OverflowError, match=f"an integer from 0 to 65535, not {port!r}"):
        await start_server(echo, port=port)


# ------------------------------------------------------------------------------------ requests and responses


async def test_request_reaches_the_handler_as_it_was_sent() -> None:
    seen: list[Exchange] = []

    async def keep(exchange: Exchange) -> None:
        seen.append(exchange)
        assert exchange.request.body == b""
        await exchange.read_body()
        exchange.respond(204, [], b"")

    async with bench_client(keep) as (_, client):
        own = client.writer.get_extra_info("sockname")
        raw = b"PUT //a%20b/c?d=%3F&e? HTTP/1.1\r\nHost: x\r\nA:  1 \r\nb: 2\r\na: \xe9\r\nContent-Length: 3\r\n\r\n"
        answer = await client.ask(raw + b"xyz")
        assert (answer.status, answer.body) == (204, b"")
        assert "content-length" not in answer.headers  # [RFC 9110 8.6]
        request = seen[0].request
        assert (request.method, request.path, request.query) == ("PUT", "//a%20b/c", "d=%3F&e?")
        assert (request.body, request.client) == (b"xyz", own)
        headers = request.headers
        assert list(headers) == [("Host", "x"), ("A", "1"), ("b", "2"), ("a", "é"), ("Content-Length", "3")]
        assert (headers.get("a"), headers.get_all("A"), headers.get("c")) == ("1", ("1", "é"), None)
        assert "B" in headers and len(headers) == 5


async def test_pipelined_requests_are_handled_in_order_one_at_a_time() -> None:
    running = 0

    async def slow_first(exchange: Exchange) -> None:
        nonlocal running
        running += 1
        assert running == 1
        for _ in range(20 - 10 * len(exchange.request.body)):
            await asyncio.sleep(0)
        await echo(exchange)
        running -= 1

    async with bench_client(slow_first) as (_, client):
        await client.send(post(b"") + post(b"1") + chunked(b"2\r\nab\r\n0\r\n\r\n") + GET)
        bodies = [(await client.answer()).body for _ in range(4)]
        assert bodies == [b"POST /  0 ", b"POST /  1 1", b"POST /  2 ab", b"GET /a b 0 "]


async def test_context_variables_of_a_request_do_not_leak_into_the_next() -> None:
    variable = contextvars.ContextVar("variable", default="unset")
    seen = []

    async def sets(exchange: Exchange) -> None:
        seen.append(variable.get())
        variable.set("set by a request")
        await asyncio.sleep(0)
        await echo(exchange)

    variable.set("set where the server was started")
    async with bench_client(sets) as (_, client):
        await client.send(GET + GET)  # the second request starts when the first ends
        assert [(await client.answer()).status for _ in range(2)] == [200, 200]
        assert (await client.ask(GET)).status == 200
    assert seen == ["set where the server was started"] * 3


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks are of Python 3.12")
async def test_pipelined_requests_work_with_an_eager_task_factory() -> None:
    asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)  # type: ignore[attr-defined,unused-ignore]
    async with bench_client() as (_, client):
        await client.send(GET * 1500)
        assert [(await client.answer()).status for _ in range(1500)] == [200] * 1500


# ------------------------------------------------------------------------------------ streams


def streaming(use: Callable[[StreamingResponse], object]) -> Handler:
    async def handler(exchange: Exchange) -> None:
        if exchange.request.path != "/s":
            return await echo(exchange)
        stream = exchange.stream(200, OK)
        use(stream)
        await stream.ended

    return handler


STREAM = b"GET /s HTTP/1.1\r\nHost: x\r\n\r\n"


async def test_stream_is_chunked_and_the_connection_is_reused() -> None:
    def use(stream: StreamingResponse) -> None:
        stream.write(b"one")
        stream.write(b"two")
        stream.close()

    async with bench_client(streaming(use)) as (_, client):
        for _ in range(2):
            answer = await client.ask(STREAM)
            assert answer.body == b"onetwo" and "content-length" not in answer.headers
        assert (await client.ask(GET)).status == 200


async def test_server_close_ends_streams_that_are_kept_open_and_gives_up_late_responses() -> None:
    begun: list[object] = []
    ended: list[object] = []

    def handle(exchange: Exchange) -> None:
        if exchange.request.path == "/s":
            stream = exchange.stream(200, OK)
            stream.keep_open(ended.append)
            begun.append(stream)
        else:
            begun.append(exchange)
            exchange.respond_later(lambda: ended.append(exchange))

    async with bench(handle) as b:
        for number, request in enumerate((STREAM, GET), 1):
            await (await b.client()).send(request)
            await eventually(lambda count=number: len(begun) == count)  # type: ignore[misc]
        await b.server.close(grace=0.01)
        assert len(ended) == 2 and set(ended) == set(begun) and b.server.connection_count == 0


@pytest.mark.parametrize("how", WAYS_TO_LEAVE)
async def test_stream_is_gone_after_a_disconnect(how: str) -> None:
    streams: list[StreamingResponse] = []
    async with bench_client(streaming(streams.append)) as (b, client):
        await client.send(STREAM)
        await client.head()
        assert not streams[0].ended.done()
        await client.leave(how)
        await streams[0].ended
        streams[0].write(b"nobody reads this")
        streams[0].close()
        await streams[0].drain()
        await b.is_well()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows the end behind unread bytes")
@pytest.mark.parametrize("streams", [False, True], ids=["before a response", "in a stream"])
@pytest.mark.parametrize("how", WAYS_TO_LEAVE)
async def test_disconnect_is_noticed_while_reading_is_paused(how: str, streams: bool) -> None:
    left = asyncio.Event()

    async def wait(exchange: Exchange) -> None:
        if exchange.request.path != "/s":
            return await echo(exchange)
        if streams:
            await exchange.stream(200, OK).ended
        else:
            gone = asyncio.Event()
            exchange.on_disconnect(gone.set)
            await gone.wait()
            exchange.respond(200, OK, b"")
        left.set()

    async with bench_client(wait, HttpLimits(write_time=0.04)) as (b, client):
        count = 2 * MAX_RECEIVED_BYTES // 10_000
        client.writer.write(STREAM + post(b"x" * 10_000) * count)
        await eventually(lambda: b.server.connection_count == 1)
        [connection] = _open_connections(b.server)
        await eventually(lambda: connection._reading_paused)
        await eventually(lambda: client.writer.transport.get_write_buffer_size() == 0)
        await client.leave(how)
        await left.wait()
        if how == "half" and not streams:
            assert [(await client.answer()).status for _ in range(1 + count)] == [200] * (1 + count)
        await b.is_well()


async def test_response_to_a_client_that_stops_reading_is_cut_after_write_time() -> None:
    async def large(exchange: Exchange) -> None:
        size = 20_000_000 if exchange.request.path == "/s" else 1
        exchange.respond(200, OK, b"x" * size)

    async with bench_client(large, HttpLimits(write_time=0.1), buffer=1024) as (b, client):
        await client.send(STREAM + GET)
        await eventually(lambda: b.server.connection_count == 0)
        await b.is_well()


# ------------------------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("request_", "status", "why"),
    [
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501, "must be `chunked`"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n", 400, "folded"),
        (chunked(b"3\r\nabcd"), 400, "a chunk has more data than its size says"),
    ],
    ids=["Transfer-Encoding", "folded header", "chunk"],
)
async def test_invalid_request_is_refused_with_the_reason_and_the_connection_closed(
    request_: bytes, status: int, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", connection_module.__name__)
    async with bench_client() as (b, client):
        answer = await client.ask(request_ + GET)
        assert (answer.status, answer.headers["connection"]) == (status, "close")
        assert answer.headers["content-type"].startswith("text/plain")
        assert why in answer.body.decode() and answer.body.endswith(b"\n") and why in caplog.messages[-1]
        assert await client.ended() == b""  # the next bytes are not parsed as a request
        await b.is_well()


async def test_refusal_reaches_a_client_that_still_sends() -> None:
    # Closing at once would reset the connection, and the client would lose the response.
    async with bench_client(limits=HttpLimits(body_size=1000)) as (_, client):
        await client.send(post(b"", length=3_000_000))
        for _ in range(300):
            await client.send(b"x" * 10_000)
        assert (await client.answer()).status == 413
        assert await client.ended() == b""


# ------------------------------------------------------------------------------------ limits of time and number


async def test_idle_connection_is_closed_without_a_response() -> None:
    async with bench_client(limits=HttpLimits(head_time=0.1, idle_time=0.1)) as (b, client):
        assert await client.ended() == b""
        client = await b.client()
        await client.ask(GET)
        assert await client.ended() == b""
        await eventually(lambda: b.server.connection_count < 2)


@pytest.mark.attack("connections-of-one-address")
@pytest.mark.parametrize(
    ("addresses", "accepted"),
    [
        pytest.param(["8.8.8.8"] * 5, 3, id="one public address"),
        pytest.param(["2001:4860::1"] * 5, 3, id="one public address of IPv6"),
        pytest.param(["::ffff:8.8.8.8"] * 5, 3, id="an IPv4 address on an IPv6 socket"),
        pytest.param([f"2600:1:2:3::{each}" for each in range(5)], 3, id="one network of IPv6"),
        pytest.param([f"2600:1:2:{each}::1" for each in range(5)], 4, id="networks of IPv6"),
        pytest.param([f"8.8.8.{each}" for each in range(5)], 4, id="public addresses"),
        pytest.param(["10.0.0.5"] * 5, 4, id="a private address, as of a proxy"),
        pytest.param(["::ffff:10.0.0.5"] * 5, 4, id="a private address on an IPv6 socket"),
        pytest.param(["fe80::1%eth0"] * 5, 4, id="a link-local address"),
        pytest.param(["::1"] * 5, 4, id="loopback"),
        pytest.param([""] * 5, 4, id="a Unix socket"),
        pytest.param(["x"] * 5, 4, id="no address"),
    ],
)
async def test_connections_add_refuses_those_over_the_share_of_a_public_address(
    addresses: list[str], accepted: int
) -> None:
    connections = Connections(echo, HttpLimits(), 4, lambda body: False)
    reasons = [connections.add(HttpConnection(connections), address) for address in addresses]
    assert [reason is None for reason in reasons] == [True] * accepted + [False] * (5 - accepted)
    assert sum(connections._networks.values()) == 5
    for each in 2 * [*connections.open]:
        connections.remove(each)
    assert not connections.open and not connections._networks


@needs_resource
@pytest.mark.parametrize(
    ("soft", "hard", "new_soft", "allowed"),
    [
        (20_000, 20_000, 20_000, 10_000),
        (256, 1 << 20, 13_355, 10_000),
        (256, -1, 13_355, 10_000),
        (-1, -1, -1, 10_000),
        (64, 64, 64, 32),
        (64, 1024, 1024, 752),
        (13_355, 20_000, 13_355, 10_000),
        (13_354, 13_354, 13_354, 9_999),
        (8, 8, 8, 1),
        (0, 0, 0, 1),
    ],
)
def test_connection_limit_follows_the_limit_on_file_descriptors(
    soft: int, hard: int, new_soft: int, allowed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = [(soft, hard)]
    monkeypatch.setattr("resource.getrlimit", lambda _: limits[-1])
    monkeypatch.setattr("resource.setrlimit", lambda _, pair: limits.append(pair))
    assert (allow_connections(10_000), limits[-1]) == (allowed, (new_soft, hard))


@needs_resource
def test_connection_limit_is_lower_if_the_system_refuses_more_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ValueError("current limit exceeds maximum limit")

    monkeypatch.setattr("resource.getrlimit", lambda _: (256, -1))
    monkeypatch.setattr("resource.setrlimit", refuse)
    assert allow_connections(10_000) == 176


@needs_resource
async def test_server_without_a_free_file_descriptor_logs_once_and_serves_later(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    import resource

    monkeypatch.setattr(server_module, "ACCEPT_RETRY_SECONDS", 0.01)
    loop, limits = asyncio.get_running_loop(), resource.getrlimit(resource.RLIMIT_NOFILE)
    async with bench() as b:
        own = socket.socket()
        own.setblocking(False)
        lowest_free = os.dup(own.fileno())
        os.close(lowest_free)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, limits[1]))
            await loop.sock_connect(own, b.server.address)
            await eventually(lambda: bool(caplog.records))
            await asyncio.sleep(0.1)  # about ten further attempts
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        assert [record.getMessage()[:28] for record in caplog.records] == ["new connections must wait, b"]
        client = Client(*await asyncio.open_connection(sock=own))
        b.clients.append(client)
        assert (await client.ask(GET)).status == 200


async def test_idle_connections_cost_no_tasks() -> None:
    async with bench() as b:
        for _ in range(100):
            await b.client()
        await eventually(lambda: b.server.connection_count == 100)
        assert len(asyncio.all_tasks()) < 10  # a connection has no task before its first request
        assert (await b.ask(GET)).status == 200
        await b.is_well()


# ------------------------------------------------------------------------------------ shutdown


async def test_server_close_lets_running_handlers_finish() -> None:
    began, gate = asyncio.Event(), asyncio.Event()

    async def slow(exchange: Exchange) -> None:
        began.set()
        await gate.wait()
        await echo(exchange)

    server = await start_server(slow)
    address = server.address
    busy, idle = [Client(*await asyncio.open_connection(*address)) for _ in range(2)]
    await busy.send(GET)
    await began.wait()
    closing = asyncio.create_task(server.close(grace=1000.0))
    assert await idle.ended() == b""
    await idle.close()
    with pytest.raises(OSError):
        await asyncio.open_connection(*address)
    with pytest.raises(RuntimeError):
        print(server.address)
    gate.set()
    answer = await busy.answer()
    assert answer.headers["connection"] == "close" and answer.body == b"GET /a b 0 "
    await busy.close()
    await asyncio.wait_for(closing, PATIENCE)
    assert server.connection_count == 0
    await server.close()


async def test_server_close_cancels_a_handler_once_and_waits_for_its_cleanup() -> None:
    began = asyncio.Event()
    cleaned: list[bool] = []
    told = asyncio.Event()

    async def careful(exchange: Exchange) -> None:
        exchange.on_disconnect(told.set)
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.05)
            cleaned.append(True)

    async with await start_server(careful) as server:
        client = Client(*await asyncio.open_connection(*server.address))
        await client.send(GET)
        await began.wait()
        await server.close(grace=0.05)
    assert cleaned and not told.is_set() and server.connection_count == 0
    await client.close()


async def test_server_close_survives_a_connection_reset() -> None:
    server = await start_server(echo)
    client = socket.create_connection(server.address)
    client.sendall(GET[:10])
    await eventually(lambda: any(connection._phase is Phase.HEAD for connection in _open_connections(server)))
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    await server.close(grace=0.1)  # before the event loop has noticed the reset
    assert server.connection_count == 0


async def test_serve_on_a_port_in_use_is_an_os_error() -> None:
    async with bench() as b:
        with pytest.raises(OSError):
            await start_server(echo, port=b.server.address[1])


async def test_server_on_all_addresses_has_the_same_free_port_on_each() -> None:
    async with await start_server(echo, "") as server:
        assert len({each.getsockname()[1] for each in server._sockets}) == 1


async def test_server_on_all_addresses_starts_although_another_program_has_its_port_of_one_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = asyncio.get_running_loop()
    create_server = loop.create_server

    async def refuse_given_ports(factory: Any, host: str, port: int, **options: Any) -> asyncio.Server:
        if port:
            raise OSError(errno.EADDRINUSE, "")
        return await create_server(factory, host, port, **options)

    monkeypatch.setattr(loop, "create_server", refuse_given_ports)
    async with await start_server(echo, "") as server:
        assert server.address[1] > 0


# ------------------------------------------------------------------------------------ TLS

PEM = Path(__file__).parent / "localhost.pem"


def server_tls() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(PEM)
    return context


async def tls_client(b: Bench) -> Client:
    trust = ssl.create_default_context(cafile=str(PEM))
    client = Client(*await asyncio.open_connection(*b.server.address, ssl=trust, server_hostname="localhost"))
    b.clients.append(client)
    return client


async def test_tls_connection_serves_requests() -> None:
    async with bench(tls=server_tls()) as b:
        client = await tls_client(b)
        assert (await client.ask(post(b"x" * 100_000))).body[:20] == b"POST /  100000 xxxxx"
        assert (await client.ask(post(b"1", "Connection: close"))).status == 200
        assert await client.ended() == b""


async def test_tls_server_drops_a_client_without_tls() -> None:
    async with bench(tls=server_tls(), limits=HttpLimits(head_time=0.1)) as b:
        client = await b.client()
        await client.send(GET)
        with contextlib.suppress(ConnectionResetError):
            await client.ended()
        silent = await b.client()
        with contextlib.suppress(ConnectionResetError):
            assert await silent.ended() == b""


async def test_tls_server_with_too_many_unfinished_handshakes_waits_for_their_end_unless_it_closes() -> None:
    async with bench(tls=server_tls(), limits=HttpLimits(connections=1, head_time=PATIENCE)) as b:
        silent = [await b.client() for _ in range(1 + MAX_REFUSED + STARTING_BATCH)]
        await eventually(lambda: len(b.server._starting) == len(silent))
        connecting = asyncio.create_task(tls_client(b))
        await silent[0].close()
        assert (await (await connecting).ask(GET)).status == 200
        await b.server.close(grace=0.0)
        assert not b.server._starting


async def test_urgent_request_on_a_new_connection_does_not_wait_while_large_responses_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turns_module, "FULL_SECONDS", 1000.0)
    async with await start_server(echo, is_urgent=lambda body: body == b"urgent") as server:
        turns = server._connections.turns
        monkeypatch.setattr(turns, "_has_room", lambda: False)
        waiting = [asyncio.create_task(turns.wait()) for _ in range(MAX_WAITING_FULL)]
        await asyncio.sleep(0)
        streams = [await asyncio.open_connection(*server.address) for _ in range(3)]
        clients = [Client(*each) for each in streams]
        for client in clients[:2]:
            await client.send(post(b"normal"))
        await eventually(lambda: turns._starting)
        assert (await clients[2].ask(post(b"urgent"))).status == 200
        assert turns._starting
        for task in waiting:
            task.cancel()
        for client in clients:
            await client.close()
        await server.close(grace=0.0)


@pytest.mark.parametrize("turns", range(3))
async def test_server_closes_although_the_caller_of_close_is_cancelled(turns: int) -> None:
    server = await start_server(lambda exchange: exchange.respond(200, OK, b"ok"), "127.0.0.1")
    address, closing = server.address, asyncio.create_task(server.close())
    for _ in range(turns):
        await asyncio.sleep(0)
    closing.cancel()
    await asyncio.wait([closing])
    await server.close()  # waits for the end of the first call, if there was one
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(*address)


@pytest.mark.parametrize("turns", range(6))
async def test_server_loses_no_connection_that_it_accepts_while_it_closes(turns: int) -> None:
    """Close the server in each turn of the event loop around the acceptance, which cancels the task that accepts."""
    server = await start_server(lambda exchange: exchange.respond(200, OK, b"ok"), "127.0.0.1")
    for _ in range(5):  # until the task waits for a connection
        await asyncio.sleep(0)
    with socket.create_connection(server.address) as client:
        client.setblocking(False)
        client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        for _ in range(turns):
            await asyncio.sleep(0)
        await server.close(last_request_seconds=0.2)
        assert client.recv(100).startswith(b"HTTP/1.1 200")
