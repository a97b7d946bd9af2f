"""Tests of lib/http/client.py, against servers on raw sockets that follow a script."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import pytest

from mcp_ref.lib.http import client as http_client
from mcp_ref.lib.http.client import ForbiddenAddress, HttpClient, fetch
from mcp_ref.lib.http.response import ClientConnection, ClientLimits, HttpError, HttpTimeout, StaleConnection
from tests.settings import PATIENCE, eventually

PEM = Path(__file__).parent / "localhost.pem"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
LIMIT = 1 << 20


@dataclass
class Asked:
    """A received request."""

    line: str
    headers: dict[str, str]
    body: bytes


class Conversation:
    """The server's end of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def request(self) -> Asked | None:
        """Return the next request, or None if the client has left."""
        try:
            head = await self.reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, OSError):
            return None
        line, *fields = head[:-4].decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (one.partition(": ") for one in fields)}
        assert len(headers) == len(fields), fields
        return Asked(line, headers, await self.reader.readexactly(int(headers.get("content-length", "0"))))

    async def say(self, data: bytes) -> None:
        self.writer.write(data)
        with contextlib.suppress(OSError):
            await self.writer.drain()

    async def until_left(self) -> None:
        """Keep the connection open without sending until the client leaves."""
        with contextlib.suppress(OSError):
            while await self.reader.read(1 << 16):
                pass

    def reset(self) -> None:
        own: socket.socket = self.writer.get_extra_info("socket")
        own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


Step = bytes | Callable[[Conversation], Awaitable[None]]


async def hold(conversation: Conversation) -> None:
    """Keep the connection open without a response."""
    await conversation.until_left()


async def hang_up(conversation: Conversation) -> None:
    """Close the connection without a response."""
    conversation.writer.close()


def then_hold(data: bytes) -> Step:
    """Return a step that sends the start of a response and then keeps the connection open."""

    async def step(conversation: Conversation) -> None:
        await conversation.say(data)
        await conversation.until_left()

    return step


def then_close(data: bytes) -> Step:
    """Return a step that sends a response and then closes the connection."""

    async def step(conversation: Conversation) -> None:
        await conversation.say(data)
        conversation.writer.close()

    return step


@dataclass
class Scripted:
    """A server that follows a script: a list of steps for each connection, one step a request.

    After the last step, the connection stays open until the client leaves.
    """

    script: Sequence[Sequence[Step]]
    port: int = 0
    asked: list[Asked] = field(default_factory=list)
    connections: int = 0
    left: int = 0
    scheme: str = "http"

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"{self.scheme}://{host}:{self.port}{path}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        steps = self.script[self.connections] if self.connections < len(self.script) else []
        self.connections += 1
        conversation = Conversation(reader, writer)
        try:
            for step in steps:
                asked = await conversation.request()
                if asked is None:
                    break
                self.asked.append(asked)
                if isinstance(step, bytes):
                    await conversation.say(step)
                else:
                    await step(conversation)
            await conversation.until_left()
        finally:
            self.left += 1
            writer.transport.abort()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


@contextlib.asynccontextmanager
async def listening(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]], tls: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """Accept connections on a free port. At the end, wait until all are closed."""
    tasks: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        await serve(reader, writer)

    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls, limit=1 << 24)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        if tasks:
            done, pending = await asyncio.wait(tasks, timeout=PATIENCE)
            assert not pending, "a connection was left open"
            for task in done:
                task.result()


@contextlib.asynccontextmanager
async def scripted(*script: Sequence[Step], tls: ssl.SSLContext | None = None) -> AsyncIterator[Scripted]:
    server = Scripted(list(script), scheme="https" if tls else "http")
    async with listening(server.serve, tls) as server.port:
        yield server


@contextlib.asynccontextmanager
async def client(
    limits: ClientLimits | None = None, tls: ssl.SSLContext | None = None, proxies: dict[str, str] | None = None
) -> AsyncIterator[HttpClient]:
    limits = limits or ClientLimits(connect=PATIENCE, head_time=PATIENCE, idle=PATIENCE)
    async with asyncio.timeout(2 * PATIENCE), HttpClient(limits=limits, ssl=tls, proxies=proxies or {}) as http:
        yield http


async def get(
    http: HttpClient, url: str, method: str = "GET", body: bytes = b"", /, **headers: str
) -> tuple[int, bytes]:
    async with http.request(method, url, headers, body) as response:
        return response.status, await response.read(LIMIT)


def answer(*fields: str, body: bytes = b"", status: str = "200 OK") -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", *fields, "", ""]).encode("latin-1") + body


def chunked(body: bytes) -> bytes:
    return answer("Transfer-Encoding: chunked", body=body)


# ------------------------------------------------------------------------------------ requests


async def test_request_has_host_content_length_and_accept_encoding_identity() -> None:
    async with scripted([OK, OK, OK]) as server, client() as http:
        await get(http, server.url("/a%20b?c=d&e#f"), Accept="text/plain")
        await get(http, server.url(), "POST", b"\x00body", X="y")
        await get(http, server.url(), "POST")
        own = {"host": f"127.0.0.1:{server.port}", "accept-encoding": "identity"}
        assert server.asked == [
            Asked("GET /a%20b?c=d&e HTTP/1.1", {**own, "accept": "text/plain"}, b""),
            Asked("POST / HTTP/1.1", {**own, "content-length": "5", "x": "y"}, b"\x00body"),
            Asked("POST / HTTP/1.1", {**own, "content-length": "0"}, b""),
        ]


@pytest.mark.parametrize(
    "url",
    ["", "/path", "ftp://host/", "http://", "http:///path", "http://host:port/", "http://host:99999/", "http://[::1/",
     "http://host/a b", "http://host/ä", "http://host/\x7f", "http://ho st/", "http://h/\r\nX: y", "http://ho\x01st/",
     "http://user@host/", "http://" + "a" * 70 + ".example/"],
)  # fmt: skip
async def test_url_that_is_unusable_is_a_value_error(url: str) -> None:
    async with client(proxies={"http": "http://127.0.0.1:9"}) as http:
        with pytest.raises(ValueError):
            await get(http, url)


@pytest.mark.parametrize("headers", [{"X": "a\r\nY: b"}, {"Host": "elsewhere"}, {"connection": "close"}])
async def test_request_header_with_a_line_break_or_reserved_name_is_a_value_error(headers: dict[str, str]) -> None:
    async with scripted([OK]) as server, client() as http:
        with pytest.raises(ValueError):
            await get(http, server.url(), **headers)
        assert server.asked == []


# ------------------------------------------------------------------------------------ connections


async def test_connection_that_the_server_resets_at_once_is_an_http_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class LostTransport(asyncio.Transport):  # the socket of a peer that has left knows no address of the peer
        aborted = False

        def abort(self) -> None:
            self.aborted = True

    transport = LostTransport()

    async def reach(*args: object) -> asyncio.Transport:
        return transport

    monkeypatch.setattr(http_client, "_reach", reach)
    async with HttpClient(proxies={}) as http:
        with pytest.raises(HttpError, match=r"a:80 cannot be reached: the server has closed the connection at once"):
            await fetch(http, "GET", "http://a/", limit=1, seconds=PATIENCE)
    assert transport.aborted


@pytest.mark.parametrize(
    ("method", "first"),
    [
        ("GET", OK),
        ("POST", chunked(b"5\r\nhello\r\n0\r\n\r\n")),
        ("GET", answer(status="204 No Content")),
        ("HEAD", answer("Content-Length: 5")),
        ("GET", b"HTTP/1.1 100 Continue\r\n\r\n" + OK),
    ],
)
async def test_connection_is_reused_after_a_response_was_read_to_its_end(method: str, first: bytes) -> None:
    async with scripted([first, OK], []) as server, client() as http:
        await get(http, server.url(), method)
        assert await get(http, server.url(), "POST") == (200, b"hello")
        assert server.connections == 1


@pytest.mark.parametrize(
    "first",
    [
        answer("Content-Length: 5", "Connection: close", body=b"hello"),
        b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        chunked(b"5\r\nhello\r\n0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"),
    ],
)
async def test_connection_is_not_reused_after_close_or_unrequested_bytes(first: bytes) -> None:
    async with scripted([first, OK], [OK]) as server, client() as http:
        assert await get(http, server.url()) == (200, b"hello")
        assert await get(http, server.url()) == (200, b"hello")
        assert server.connections == 2


async def test_response_not_read_to_its_end_closes_its_connection() -> None:
    async with scripted([then_hold(answer("Content-Length: 9", body=b"some"))], [OK]) as server, client() as http:
        async with http.request("GET", server.url()) as response:
            assert response.status == 200
        await eventually(lambda: server.left == 1)
        assert await get(http, server.url()) == (200, b"hello")


async def test_connection_closed_by_the_server_while_idle_is_not_reused() -> None:
    async with scripted([then_close(OK)], [OK]) as server, client() as http:
        await get(http, server.url())
        (connection,) = http._all
        await eventually(lambda: not connection.is_open())
        assert await get(http, server.url(), "POST") == (200, b"hello")
        assert [asked.line for asked in server.asked] == ["GET / HTTP/1.1", "POST / HTTP/1.1"]
        assert len(http._all) == 1


async def test_get_on_a_stale_connection_is_repeated_on_another() -> None:
    async with scripted([OK, hang_up], [OK]) as server, client() as http:
        await get(http, server.url("/1"))
        assert await get(http, server.url("/2")) == (200, b"hello")
        assert [asked.line for asked in server.asked] == [f"GET /{n} HTTP/1.1" for n in (1, 2, 2)]
        assert server.connections == 2


async def test_post_on_a_stale_connection_is_not_repeated() -> None:
    async with scripted([OK, hang_up], [OK]) as server, client() as http:
        await get(http, server.url())
        with pytest.raises(StaleConnection, match=r"ended without a response$"):  # with no hint to write https://
            await get(http, server.url(), "POST", b"{}")
        assert len(server.asked) == 2 and server.connections == 1


async def test_get_on_a_new_connection_without_response_is_not_repeated() -> None:
    async with scripted([hang_up], [OK]) as server, client() as http:
        with pytest.raises(HttpError, match="ended without a response"):
            await get(http, server.url())
        assert server.connections == 1


async def test_connection_is_not_kept_longer_than_client_limits_keep() -> None:
    async with scripted([OK], [OK]) as server, client(ClientLimits(keep=0.0)) as http:
        await get(http, server.url())
        await get(http, server.url())
        assert server.connections == 2
        await eventually(lambda: server.left == 1)


async def test_request_waits_for_a_connection_if_all_are_in_use() -> None:
    release = asyncio.Event()

    async def late(conversation: Conversation) -> None:
        await release.wait()
        await conversation.say(OK)

    script: list[Step] = [late, OK, OK]  # the first connection to become free can serve both requests that wait
    async with scripted(script, script) as server, client(ClientLimits(connections=2)) as http:
        asking = [asyncio.create_task(get(http, server.url(f"/{n}"))) for n in range(4)]
        await eventually(lambda: len(server.asked) == 2)
        release.set()
        assert await asyncio.gather(*asking) == [(200, b"hello")] * 4
        assert server.connections == 2


async def test_request_waits_first_byte_seconds_for_a_connection_unless_it_is_extra() -> None:
    async with scripted([hold], [OK]) as server, client(ClientLimits(connections=1, head_time=0.2)) as http:
        asking = asyncio.create_task(get(http, server.url()))
        await eventually(lambda: len(server.asked) == 1)
        async with http.request("GET", server.url(), extra=True) as response:
            assert await response.read(100) == b"hello"
        with pytest.raises(HttpTimeout):
            await get(http, server.url())
        asking.cancel()
        await asyncio.wait([asking])


# ------------------------------------------------------------------------------------ bodies


async def test_response_body_of_many_megabytes_arrives_whole() -> None:
    body = bytes(range(256)) * 8_000
    first = answer(f"Content-Length: {len(body)}", body=body)
    second = chunked(b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
    async with scripted([first, second]) as server, client() as http:
        for _ in range(2):
            async with http.request("POST", server.url(), {}, body) as response:
                assert await response.read(len(body)) == body
        assert [asked.body for asked in server.asked] == [body, body]


async def test_response_body_that_is_invalid_is_an_error_at_once() -> None:
    async with scripted([then_hold(chunked(b"x\r\n"))]) as server, client() as http:
        async with http.request("GET", server.url()) as response:
            with pytest.raises(HttpError, match="not HTTP"):
                await response.read(10)
        await eventually(lambda: server.left == 1)


@pytest.mark.parametrize("large", [False, True])
async def test_response_before_the_request_was_read_is_accepted(large: bool) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer("Content-Length: 5", status="413 Too Large", body=b"small") if large else OK)
        await gone.wait()  # the request is never read
        writer.transport.abort()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    gone = asyncio.Event()
    async with listening(refuse) as port, client() as http:
        body = bytes(16 << 20) if large else b"{}"
        assert (await get(http, f"http://127.0.0.1:{port}/", "POST", body))[0] == (413 if large else 200)
        assert not large or not http._free  # the rest of the request body is unsent
        gone.set()


# ------------------------------------------------------------------------------------ invalid responses


@pytest.mark.parametrize(
    "data",
    [b"SSH-2.0-OpenSSH_9.0\r\n\r\n", answer("Content-Length: x"), answer(status="101 Switching Protocols")],
    ids=["line", "length", "status"],
)
async def test_response_that_is_not_http_is_an_error_that_says_so(data: bytes) -> None:
    async with scripted([data]) as server, client() as http:
        with pytest.raises(HttpError) as caught:
            await get(http, server.url())
        assert not isinstance(caught.value, (HttpTimeout, StaleConnection)) and str(caught.value)
        await eventually(lambda: server.left == 1)


# ------------------------------------------------------------------------------------ lost connections and time limits


@pytest.mark.parametrize("politely", [True, False])
async def test_connection_lost_in_a_response_is_an_error(politely: bool) -> None:
    async def part(conversation: Conversation) -> None:
        await conversation.say(answer("Content-Length: 9", body=b"hello"))
        if politely:
            return conversation.writer.close()
        # an empty buffer means that the client's machine has received everything; the reset comes after that
        await eventually(lambda: conversation.writer.transport.get_write_buffer_size() == 0)
        conversation.reset()

    async with scripted([part], [OK]) as server, client() as http:
        with pytest.raises(HttpError, match="connection"):
            await get(http, server.url())
        assert await get(http, server.url()) == (200, b"hello")


async def test_connect_to_a_closed_port_is_an_error_that_names_it() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]  # bound, but not listening
        async with client() as http:
            why = re.escape(f"127.0.0.1:{port} cannot be reached: no program listens there (is the server running?)")
            with pytest.raises(HttpError, match=why):
                await get(http, f"http://127.0.0.1:{port}/")


async def test_connect_through_a_proxy_that_does_not_run_is_an_error_that_asks_for_the_proxy() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        proxy = f"127.0.0.1:{taken.getsockname()[1]}"  # bound, but not listening
        async with client(proxies={"http": f"http://{proxy}"}) as http:
            why = re.escape(f"through the proxy {proxy}: no program listens there (is the proxy running?)")
            with pytest.raises(HttpError, match=why):
                await get(http, "http://mcp.example.test/")


async def test_ipv6_address_that_cannot_be_reached_is_named_in_brackets(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: object, **__: object) -> NoReturn:
        raise ConnectionRefusedError

    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", refuse)
    async with client() as http:
        with pytest.raises(HttpError, match=r"^\[::1\]:80 cannot be reached"):
            await get(http, "http://[::1]/")


async def test_connect_to_an_unknown_name_says_what_to_check(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: object, **__: object) -> NoReturn:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", refuse)
    async with client() as http:
        with pytest.raises(
            HttpError, match=r"mcp\.invalid:80 cannot be reached: its name has no address: check the name"
        ):
            await get(http, "http://mcp.invalid/")


def resolve_and_connect(
    monkeypatch: pytest.MonkeyPatch, addresses: list[Any], allow: Callable[[str], bool]
) -> list[str]:
    """Let each name have these addresses, which connect if allowed, else never. Return the list of those tried."""
    loop = asyncio.get_running_loop()
    connect = loop.create_connection
    tried: list[str] = []

    async def resolve(*_: object, **__: object) -> object:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", address) for address in addresses]

    async def connect_or_wait(protocol: Any, host: str, port: int, **options: Any) -> Any:
        tried.append(host)
        return await (connect(protocol, host, port, **options) if allow(host) else asyncio.Event().wait())

    monkeypatch.setattr(loop, "getaddrinfo", resolve)
    monkeypatch.setattr(loop, "create_connection", connect_or_wait)
    monkeypatch.setattr(http_client, "ADDRESS_SECONDS", 0.01)
    return tried


async def test_connect_to_a_host_tries_its_next_address_if_one_does_not_respond(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    addresses = [("fe80::1", 80, 0, 2), ("127.0.0.1", 80)]
    tried = resolve_and_connect(monkeypatch, addresses, lambda host: host == "127.0.0.1")
    async with scripted([OK]) as server, client(ClientLimits(connect=PATIENCE)) as http:
        assert await get(http, f"http://mcp.example.test:{server.port}/") == (200, b"hello")
    assert tried == ["fe80::1%2", "127.0.0.1"]


async def test_connect_to_a_host_returns_to_a_slow_address_after_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    def allow(host: str) -> bool:
        if host == "127.0.0.2":
            raise ConnectionRefusedError
        return len(tried) > 2

    tried = resolve_and_connect(monkeypatch, [("127.0.0.1", 80), ("127.0.0.2", 80)], allow)
    async with scripted([OK]) as server, client(ClientLimits(connect=PATIENCE)) as http:
        assert await get(http, f"http://mcp.example.test:{server.port}/") == (200, b"hello")
    assert tried == ["127.0.0.1", "127.0.0.2", "127.0.0.1"]


async def test_response_head_later_than_first_byte_is_a_timeout() -> None:
    async def forever(conversation: Conversation) -> None:
        with contextlib.suppress(OSError):
            while not conversation.writer.is_closing():
                await conversation.say(b"HTTP/1.1 102 Processing\r\n\r\n")
                await asyncio.sleep(0)

    limits = ClientLimits(head_time=0.05)
    slow: list[Step] = [hold, then_hold(b"HTTP/1.1 200 OK\r\n"), forever]
    async with scripted(*([step] for step in slow)) as server, client(limits) as http:
        for _ in slow:
            with pytest.raises(HttpTimeout, match=r"no response within 0.05 s"):
                await get(http, server.url())
        await eventually(lambda: server.left == len(slow))


@pytest.mark.parametrize("state", ["before the answer", "in its body", "left by the caller", "complete"])
async def test_cancelled_request_leaves_no_connection_and_does_not_wait_for_its_end(
    state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(connection: ClientConnection) -> None:
        await asyncio.Event().wait()  # as a server that does not end TLS

    monkeypatch.setattr(ClientConnection, "close", never)
    body = b"completed" if state == "complete" else b"hello"
    half = then_hold(answer("Connection: close", "Content-Length: 9", body=body))
    step = hold if state == "before the answer" else half
    async with scripted([step], [OK]) as server, client(ClientLimits(connections=1)) as http:
        if state in ("left by the caller", "complete"):
            async with asyncio.timeout(PATIENCE), http.request("GET", server.url()) as response:
                if state == "complete":
                    await response.read(9)
        else:
            asking = asyncio.create_task(get(http, server.url()))
            await eventually(lambda: len(server.asked) == 1)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
        await eventually(lambda: server.left == 1)
        assert await get(http, server.url()) == (200, b"hello")  # the cancelled request has freed its slot
        monkeypatch.undo()


async def test_closed_client_breaks_its_requests_and_accepts_no_more() -> None:
    half = then_hold(answer("Content-Length: 9", body=b"hello"))
    async with scripted([OK], [hold], [half]) as server, client() as http:
        await get(http, server.url())
        one = asyncio.create_task(get(http, server.url()))
        await eventually(lambda: server.connections == 1)
        other = asyncio.create_task(get(http, server.url()))
        await eventually(lambda: server.connections >= 2)
        await http.close()
        for task in (one, other):
            with pytest.raises(HttpError):
                await task
        await eventually(lambda: server.left == server.connections)
        with pytest.raises(HttpError, match="closed"):
            await get(http, server.url())


# ------------------------------------------------------------------------------------ redirects


@pytest.mark.parametrize("status", ["307 Temporary Redirect", "308 Permanent Redirect"])
async def test_redirect_is_a_response_if_no_redirects_are_allowed(status: str) -> None:
    async with scripted([answer("Location: /there", "Content-Length: 0", status=status)]) as server, client() as http:
        async with http.request("POST", server.url(), body=b"x", redirects=0) as response:
            assert (response.status, response.headers.get("location")) == (int(status[:3]), "/there")
        assert len(server.asked) == 1


@pytest.mark.parametrize("location", ["../b?c", "{url}"], ids=["relative", "absolute"])
@pytest.mark.parametrize("status", ["307 Temporary Redirect", "308 Permanent Redirect"])
async def test_redirect_307_within_the_origin_repeats_method_body_and_headers(status: str, location: str) -> None:
    async with scripted([]) as server, client() as http:
        place = location.format(url=server.url("/b?c"))
        server.script = [[answer(f"Location: {place}", "Content-Length: 0", status=status), OK]]
        async with http.request("POST", server.url("/x/a"), {"Authorization": "Bearer t"}, b"{}") as response:
            assert (response.status, response.url) == (200, server.url("/b?c"))
            assert await response.read(LIMIT) == b"hello"
        first, second = server.asked
        assert second == Asked("POST /b?c HTTP/1.1", first.headers, b"{}")
        assert first.headers["authorization"] == "Bearer t" and server.connections == 1


async def test_redirect_loop_is_an_error_after_five() -> None:
    away = answer("Location: /", "Content-Length: 0", status="308 P")
    async with scripted([away] * 5 + [OK], [away] * 6) as server, client() as http:
        assert await get(http, server.url()) == (200, b"hello")
        await http.close()
    async with scripted([away] * 6) as server, client() as http:
        with pytest.raises(HttpError, match="more than 5 redirects"):
            await get(http, server.url())
        assert len(server.asked) == 6


async def test_redirect_to_another_origin_is_an_error_and_nothing_is_sent_there() -> None:
    async with scripted([]) as server, client() as http:
        server.script = [
            [answer(f"Location: http://localhost:{server.port}/", "Content-Length: 0", status="307 T"), OK]
        ]
        with pytest.raises(HttpError, match="the server redirects to another origin"):
            await get(http, server.url(), "POST", b"{}", Authorization="Bearer secret")
        assert len(server.asked) == server.connections == 1


@pytest.mark.parametrize(
    "data",
    [
        *(answer("Location: /b", "Content-Length: 0", status=f"{n} x") for n in (300, 301, 302, 303, 304)),
        answer("Content-Length: 0", status="307 x"),
    ],
    ids=["300", "301", "302", "303", "304", "307 without Location"],
)
async def test_redirects_301_302_303_are_returned_as_responses(data: bytes) -> None:
    async with scripted([data]) as server, client() as http:
        assert (await get(http, server.url(), "POST", b"{}"))[0] == int(data.split()[1])
        assert len(server.asked) == 1


# ------------------------------------------------------------------------------------ TLS


def server_tls() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(PEM)
    return context


def trust() -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(PEM))


@pytest.mark.parametrize(
    ("why", "text"),
    [
        (
            "unknown authority",
            "its certificate is refused: self-signed certificate; if .*, set SSL_CERT_FILE",
        ),
        ("another name", "its certificate is refused: Hostname mismatch, .* 'mcp.example.test'$"),
    ],
)
async def test_tls_certificate_that_fails_verification_is_an_error_and_nothing_is_sent(
    why: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if why == "another name":
        resolve_everything(monkeypatch)
    async with (
        scripted([OK], tls=server_tls()) as server,
        client(tls=trust() if why == "another name" else None) as http,
    ):
        host = "mcp.example.test" if why == "another name" else "127.0.0.1"
        with pytest.raises(HttpError, match=text):
            await get(http, server.url(host=host), Authorization="Bearer x")
        assert server.asked == []


async def test_https_to_a_server_without_tls_and_http_to_a_server_with_tls_suggest_the_other_scheme() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with listening(refuse) as port, client(tls=trust()) as http:
        with pytest.raises(HttpError, match="does not use TLS: write http:// in place of https://"):
            await get(http, f"https://127.0.0.1:{port}/")
    async with scripted([OK], tls=server_tls()) as server, client() as http:
        with pytest.raises(HttpError, match="if the server uses TLS, write https://"):
            await get(http, server.url().replace("https://", "http://"))


async def test_address_is_checked_between_connect_and_tls() -> None:
    seen: list[str] = []

    def allow(address: str) -> bool:
        seen.append(address)
        return True

    async with scripted([OK, OK], tls=server_tls()) as server, client(tls=trust()) as http:
        for _ in range(2):  # also when the connection is used again
            async with http.request("GET", server.url(), may_connect=allow) as response:
                assert (await response.read(LIMIT), response.address) == (b"hello", "127.0.0.1")
        assert (seen, server.connections) == (["127.0.0.1"] * 2, 1)


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_refused_address_gets_no_byte(scheme: str) -> None:
    received = asyncio.Queue[bytes]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.put_nowait(await reader.read())
        writer.close()

    async with listening(serve) as port, client() as http:
        with pytest.raises(ForbiddenAddress, match=r"127\.0\.0\.1"):
            async with http.request("POST", f"{scheme}://localhost:{port}/", body=b"x", may_connect=lambda _: False):
                pass
        assert await asyncio.wait_for(received.get(), PATIENCE) == b""


async def test_open_connection_to_a_refused_address_is_not_reused() -> None:
    async with scripted([OK]) as server, client() as http:
        await get(http, server.url())
        with pytest.raises(ForbiddenAddress):
            async with http.request("GET", server.url(), may_connect=lambda _: False):
                pass
        assert len(server.asked) == 1


async def test_document_is_fetched_with_its_status_and_body() -> None:
    data = answer("Content-Length: 4", body=b"gone", status="404 Not Found")
    async with scripted([data]) as server, client() as http:
        found = await fetch(http, "GET", server.url(), {"Accept": "a/b"}, limit=4, seconds=PATIENCE)
        assert (found.status, found.body, server.asked[0].headers["accept"]) == (404, b"gone", "a/b")


@pytest.mark.parametrize(
    ("step", "error"),
    [
        (OK, "5 bytes"),
        (then_hold(answer("Content-Length: 3", body=b"a")), "within 0.1 s"),
        (hang_up, "without a response"),
    ],
)
async def test_document_that_is_too_large_or_too_slow_is_an_error(step: Step, error: str) -> None:
    async with scripted([step]) as server, client() as http:
        with pytest.raises(HttpError, match=error):
            await fetch(http, "GET", server.url(), limit=4, seconds=0.1 if "within" in error else PATIENCE)


async def test_tls_handshake_that_fails_is_an_error() -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(OK)
        await Conversation(reader, writer).until_left()
        writer.transport.abort()

    async with listening(plain) as port, client(tls=trust()) as http:
        with pytest.raises(HttpError, match="cannot be reached"):
            await get(http, f"https://127.0.0.1:{port}/")
    async with scripted([]) as server, client(ClientLimits(connect=0.05), tls=trust()) as http:
        with pytest.raises(HttpTimeout, match=r"not reached within 0.05 s"):
            await get(http, f"https://127.0.0.1:{server.port}/")
        await eventually(lambda: server.left == 1)


# ------------------------------------------------------------------------------------ proxies


def resolve_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Resolve every host name to this machine."""
    loop = asyncio.get_running_loop()
    resolve = loop.getaddrinfo

    async def resolve_here(host: str, port: int, **options: Any) -> Any:
        return await resolve("127.0.0.1", port, **options)

    monkeypatch.setattr(loop, "getaddrinfo", resolve_here)


SECRET = "p%40ss-word"
BASIC = "Basic dXNlcjpwQHNzLXdvcmQ="  # user:p@ss-word


async def test_http_proxy_of_the_environment_gets_http_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    async with scripted([OK], [OK]) as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://us%65r:{SECRET}@127.0.0.1:{proxy.port}")
        monkeypatch.delenv("http_proxy", raising=False)
        monkeypatch.delenv("REQUEST_METHOD", raising=False)
        async with asyncio.timeout(PATIENCE), HttpClient() as http:
            assert await get(http, "http://mcp.example.test/a?b", Authorization="Bearer x") == (200, b"hello")
            assert await get(http, "http://bücher.example:8080", "POST", b"{}") == (200, b"hello")
        first, second = proxy.asked
        assert first.line == "GET http://mcp.example.test/a?b HTTP/1.1"
        assert (first.headers["host"], first.headers["proxy-authorization"]) == ("mcp.example.test", BASIC)
        assert second.line == "POST http://xn--bcher-kva.example:8080/ HTTP/1.1"
        assert second.headers["host"] == "xn--bcher-kva.example:8080"


@dataclass
class Tunnel:
    """A proxy that connects every CONNECT to one server."""

    target: int
    answer: bytes = b"HTTP/1.1 200 Connection established\r\n\r\n"
    asked: list[Asked] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await Conversation(reader, writer).request()
        assert asked is not None
        self.asked.append(asked)
        there_reader, there = await asyncio.open_connection("127.0.0.1", self.target)
        writer.write(self.answer)

        async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError):
                while data := await source.read(1 << 16):
                    sink.write(data)
                    await sink.drain()
            sink.close()

        await asyncio.gather(pump(reader, there), pump(there_reader, writer))
        for end in (writer, there):
            with contextlib.suppress(OSError):
                await end.wait_closed()


def names_asked(context: ssl.SSLContext) -> list[str | None]:
    """Return the list that receives the host names for which TLS clients ask."""
    names: list[str | None] = []

    def note(_: ssl.SSLObject | ssl.SSLSocket, name: str | None, __: ssl.SSLContext) -> None:
        names.append(name)

    context.sni_callback = note
    return names


def nameless_trust() -> ssl.SSLContext:
    context = trust()
    context.check_hostname = False  # the certificate is for localhost, which is never reached through a proxy
    return context


async def test_https_proxy_of_the_environment_opens_a_tunnel(monkeypatch: pytest.MonkeyPatch) -> None:
    tls = server_tls()
    names = names_asked(tls)
    async with scripted([OK, OK], tls=tls) as server, listening((tunnel := Tunnel(server.port)).serve) as port:
        monkeypatch.setenv("https_proxy", f"user:{SECRET}@127.0.0.1:{port}")
        async with asyncio.timeout(PATIENCE), HttpClient(ssl=nameless_trust()) as http:
            assert await get(http, "https://mcp.example.test/a?b") == (200, b"hello")
            assert await get(http, "https://mcp.example.test/c") == (200, b"hello")
        assert [asked.line for asked in server.asked] == ["GET /a?b HTTP/1.1", "GET /c HTTP/1.1"]
        assert all("proxy-authorization" not in asked.headers for asked in server.asked)
        host = {"host": "mcp.example.test:443", "proxy-authorization": BASIC}
        assert tunnel.asked == [Asked("CONNECT mcp.example.test:443 HTTP/1.1", host, b"")]
        assert names == ["mcp.example.test"]


async def test_proxy_bytes_before_the_tls_handshake_are_an_error() -> None:
    async with scripted([OK], tls=server_tls()) as server:
        evil = answer("Content-Length: 4", body=b"evil")
        tunnel = Tunnel(server.port, b"HTTP/1.1 200 OK\r\n\r\n" + evil)
        async with (
            listening(tunnel.serve) as port,
            client(tls=nameless_trust(), proxies={"https": f"http://127.0.0.1:{port}"}) as http,
        ):
            with pytest.raises(HttpError, match="before TLS"):
                await get(http, "https://mcp.example.test/")


async def test_bytes_before_the_tls_handshake_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = ClientConnection.connection_made

    def receive_at_once(connection: ClientConnection, transport: asyncio.BaseTransport) -> None:
        connect(connection, transport)
        connection.data_received(answer("Content-Length: 4", body=b"evil"))  # as uvloop does, if the data is there

    monkeypatch.setattr(ClientConnection, "connection_made", receive_at_once)
    async with scripted([OK], tls=server_tls()) as server, client(tls=trust()) as http:
        with pytest.raises(HttpError, match="before TLS"):
            async with http.request("GET", server.url(), may_connect=lambda address: True):
                pass


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (answer("Proxy-Authenticate: Basic", "Content-Length: 0", status="407 Auth"), "127.0.0.1 answered 407"),
        (answer("Content-Length: 0", status="502 Bad Gateway"), "127.0.0.1 answered 502"),
        (b"nonsense\r\n\r\n", "not HTTP/1"),
        (hang_up, "ended without a response"),
        (hold, r"mcp.example.test:443 was not reached through the proxy 127.0.0.1:\d+ within 0.2 s"),
        (then_close(answer()), r"mcp.example.test:443 cannot be reached through the proxy 127.0.0.1:\d+:"),
    ],
)
async def test_proxy_that_refuses_connect_is_an_error_without_the_password(step: Step, why: str) -> None:
    async with scripted([step]) as proxy:
        named = {"https": f"http://user:{SECRET}@127.0.0.1:{proxy.port}"}
        async with client(ClientLimits(connect=0.2 if step is hold else PATIENCE), trust(), named) as http:
            with pytest.raises(HttpError, match=why) as caught:
                await get(http, "https://mcp.example.test/")
            assert "ss-word" not in str(caught.value)
        await eventually(lambda: proxy.left == 1)


async def test_proxy_url_that_is_unusable_is_an_error_without_the_password() -> None:
    async with client(ClientLimits(connect=1.0), proxies={"http": "http://user:s3cret@127.0.0.1:s3cret"}) as http:
        with pytest.raises(HttpError, match=r"must have the form http://host:port$") as caught:
            await get(http, "http://mcp.example.test/")
        assert "s3cret" not in repr(caught.value.__cause__)


@pytest.mark.parametrize(("host", "target"), [("mcp.example.test", "/a"), ("b.test", "http://b.test:{port}/a")])
async def test_client_connects_directly_to_the_hosts_of_no_proxy(
    host: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve_everything(monkeypatch)
    async with scripted([OK]) as server:  # one server plays both: a proxy gets absolute targets
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{server.port}")
        monkeypatch.setenv("no_proxy", "example.test")
        async with asyncio.timeout(PATIENCE), HttpClient() as http:
            assert await get(http, server.url("/a", host)) == (200, b"hello")
        assert server.asked[0].line == f"GET {target.format(port=server.port)} HTTP/1.1"


async def test_redirect_from_http_to_https_on_the_same_host_is_followed() -> None:
    away = answer("Location: https://mcp.example.test/a", "Content-Length: 0", status="308 P")
    async with (
        scripted([OK], tls=server_tls()) as server,
        scripted([away]) as plain,
        listening((tunnel := Tunnel(server.port)).serve) as port,
    ):
        proxies = {"http": f"http://127.0.0.1:{plain.port}", "https": f"http://127.0.0.1:{port}"}
        async with client(tls=nameless_trust(), proxies=proxies) as http:
            assert await get(http, "http://mcp.example.test/a", "POST", b"{}") == (200, b"hello")
        assert [asked.line for asked in tunnel.asked] == ["CONNECT mcp.example.test:443 HTTP/1.1"]
        assert server.asked[0].body == b"{}"


# ------------------------------------------------------------------------------------ secrets


async def test_credentials_appear_in_no_error_and_no_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    told = []
    headers = {"Authorization": "Bearer s3cret"}
    bad: list[Step] = [b"no\r\n\r\n", hang_up, answer("Content-Length: x"), chunked(b"x\r\n"), hold]
    async with scripted(*([step] for step in bad)) as server, client(ClientLimits(head_time=0.05)) as http:
        for _ in bad:
            with pytest.raises(HttpError) as caught:
                await get(http, server.url("/?key=s3cret"), "POST", b"s3cret", **headers)
            told.append(caught.value)
        for url, more in [
            (server.url(), {"X": "s3cret\n"}),
            ("http://user:s3cret@127.0.0.1/", {}),
            ("ftp://user:s3cret@127.0.0.1/", {}),
            ("http://user:s3cret@127.0.0.1:x/", {}),
        ]:
            with pytest.raises(ValueError) as refused:
                await get(http, url, **{**headers, **more})
            told.append(refused.value)  # type: ignore[arg-type]
    for error in told:
        assert "s3cret" not in f"{error!r} {error.__cause__!r}", error
    assert "s3cret" not in caplog.text
