"""Tests of lib/http/response.py without a socket: heads and bodies at their limits, and the calls of the transport."""

from __future__ import annotations

import asyncio

import pytest

from mcp_ref.lib.http.framing import CHUNKED, MAX_RECEIVED_BYTES, BadMessage
from mcp_ref.lib.http.origin import Origin
from mcp_ref.lib.http.response import (
    ClientConnection,
    ClientLimits,
    HttpError,
    HttpResponse,
    HttpTimeout,
    ResponseHead,
    StaleConnection,
)
from tests.lib.http.fake_transport import FakeTransport


def connect(scheme: str = "http", limits: ClientLimits | None = None) -> tuple[ClientConnection, FakeTransport]:
    connection, transport = ClientConnection(Origin(scheme, "a.example", 1), limits or ClientLimits()), FakeTransport()
    connection.connection_made(transport)
    return connection, transport


@pytest.mark.parametrize(
    ("head", "found"),
    [
        (b"HTTP/1.1 100 x\r\n\r\n", (True, "identity", True, None)),
        (b"HTTP/1.1 199 x\r\n\r\n", (True, "identity", True, None)),
        (b"HTTP/1.1 101 x\r\n\r\n", (False, "identity", True, None)),
        (b"HTTP/1.1 200 x\r\nContent-Encoding: GZip\r\nContent-Length: 5\r\n\r\n", (False, "gzip", True, 5)),
        (b"HTTP/1.1 204 x\r\nContent-Length: 5\r\n\r\n", (False, "identity", True, 0)),
        (b"HTTP/1.1 304 x\r\nTransfer-Encoding: chunked\r\n\r\n", (False, "identity", True, 0)),
        (b"HTTP/1.1 205 x\r\nTransfer-Encoding: chunked\r\n\r\n", (False, "identity", True, CHUNKED)),
        (b"HTTP/1.0 200 x\r\n\r\n", (False, "identity", False, None)),
    ],
)
def test_response_head_has_the_length_the_coding_and_the_end_of_the_connection(
    head: bytes, found: tuple[object, ...]
) -> None:
    parsed = ResponseHead(head, 100)
    assert (parsed.is_interim, parsed.coding, parsed.keep_alive, parsed.length) == found


@pytest.mark.parametrize(
    "head",
    [
        *("", "hello", "SSH-2.0-OpenSSH_9.0", "HTTP/2 200 OK", "HTTP/1.1 2000 OK", "HTTP/1.1 099 OK"),
        *("HTTP/1.1  200 OK", "HTTP/1.1 200 OK\0", "\r\nHTTP/1.1 200 OK"),
        *(
            "HTTP/1.1 200 OK\r\n" + line
            for line in ("no colon", "Name : value", "X: a\r\n folded", "X: \x01", "X: a\nY: b")
        ),
        *("HTTP/1.1 200 OK\r\nContent-Length: " + size for size in ("x", "-1", "+5", "5, 5", "1_0", "\xb2", "9" * 30)),
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        *("HTTP/1.1 200 OK\r\nTransfer-Encoding: " + coding for coding in ("gzip, chunked", "identity")),
        "HTTP/1.1 200 OK" + "\r\nX: y" * 101,
    ],
)
async def test_response_head_that_is_not_http_is_a_bad_message(head: str) -> None:
    connection, _ = connect()
    connection.data_received(f"{head}\r\n\r\n".encode("latin-1"))
    connection.eof_received()
    with pytest.raises(BadMessage):
        print((await connection.read_head()).length)


def test_response_head_keeps_order_duplicates_and_bytes_of_headers() -> None:
    head = ResponseHead(
        b"HTTP/1.1 200\r\nSet: a\r\nFrom: b\r\nSET:\t c \t\r\nEmpty:\r\nLatin: \xe9\x85\xa0x\r\n\r\n", 5
    )
    assert [*head.headers] == [("Set", "a"), ("From", "b"), ("SET", "c"), ("Empty", ""), ("Latin", "\xe9\x85\xa0x")]


async def test_client_connection_pauses_reading_at_max_received_bytes_until_they_are_needed() -> None:
    connection, transport = connect()
    assert transport.max_size == MAX_RECEIVED_BYTES
    connection.data_received(b"x" * (MAX_RECEIVED_BYTES - 1))
    assert transport.calls == []
    connection.data_received(b"x")
    assert transport.calls == ["pause"]
    arrival = connection.arrival()
    assert transport.calls == ["pause", "resume"] and not arrival.done()
    connection.data_received(b"x")
    connection.data_received(b"x")
    assert arrival.done() and transport.calls == ["pause", "resume", "pause", "pause"]
    connection.keep()
    connection.keep()
    assert transport.calls[4:] == ["resume"] and connection.used_before


async def test_client_connection_is_open_until_the_server_sends_or_ends_something() -> None:
    for change in ("eof", "data", "closing", "none"):
        connection, transport = connect()
        if change == "eof":
            connection.eof_received()
        elif change == "data":
            connection.data_received(b"x")
        transport.is_closed = change == "closing"
        assert connection.is_open() is (change == "none")


@pytest.mark.parametrize(("unsent", "calls"), [(0, ["close"]), (1, ["abort", "close"])])
async def test_client_connection_close_aborts_only_if_data_is_unsent(unsent: int, calls: list[str]) -> None:
    connection, transport = connect()
    transport.unread = unsent
    assert connection.has_more_to_send() is bool(unsent)
    closing = asyncio.create_task(connection.close())
    await asyncio.sleep(0)
    connection.connection_lost(None)
    await closing
    assert transport.calls == calls


OK = b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n"


async def test_final_head_is_returned_however_it_arrives_and_is_parsed_once() -> None:
    connection, transport = connect()
    heads = []
    for pieces in ([b"HTTP/1.1 102 x\r\n\r\n" + OK + b"r"], [OK[:-1], b"\nr"], [OK + b"r"]):
        reading = asyncio.create_task(connection.send_request(b"GET"))
        for piece in pieces:
            await asyncio.sleep(0)
            connection.data_received(piece)
        heads.append(await reading)
        assert connection.take(9) == b"r" and connection.take(9) == b""
    assert [head.status for head in heads] == [200, 200, 200] and heads[1] is heads[2]
    assert transport.written == b"GETGETGET" and transport.calls == []


@pytest.mark.parametrize(
    ("scheme", "is_used", "data", "end", "error"),
    [
        ("http", False, b"", None, StaleConnection("the connection ended without a response; if the server uses TLS, "
                                                   "write https://")),
        ("http", True, b"", None, StaleConnection("the connection ended without a response")),
        ("https", False, b"", None, StaleConnection("the connection ended without a response")),
        ("http", False, b"HTTP", None, HttpError("the connection ended in the middle of the response's head")),
        ("http", False, b"", OSError("reset"), StaleConnection("the connection broke before the response: reset")),
        ("http", False, b"HTTP/1.1 101 x\r\n\r\n", None,
         HttpError("the server sent status 101 (Switching Protocols), which the request did not ask for")),
    ],
)  # fmt: skip
async def test_connection_without_a_final_head_is_an_error(
    scheme: str, is_used: bool, data: bytes, end: OSError | None, error: HttpError
) -> None:
    connection, _ = connect(scheme)
    connection.used_before = is_used
    connection.data_received(data)
    connection.connection_lost(end)
    with pytest.raises(HttpError) as caught:
        await connection.read_head()
    assert (type(caught.value), str(caught.value)) == (type(error), str(error))


@pytest.mark.parametrize("is_whole", [True, False])
async def test_head_has_at_most_head_size_bytes_without_its_empty_line(is_whole: bool) -> None:
    for size in (len(OK) - 4, len(OK) - 5):
        connection, _ = connect(limits=ClientLimits(head_size=size, head_time=0.001 if not is_whole else None))
        connection.data_received(OK if is_whole else OK[: size + 3])
        if is_whole and size == len(OK) - 4:
            assert (await connection.read_head()).status == 200
        elif is_whole:
            with pytest.raises(HttpError, match=f"the head of the response is larger than {size} bytes"):
                await connection.read_head()
        else:
            with pytest.raises(HttpTimeout, match=r"the server sent no response within 0\.001 s"):
                await connection.send_request(b"")


async def test_head_has_at_most_header_count_headers() -> None:
    connection, _ = connect(limits=ClientLimits(header_count=2))
    connection.data_received(b"HTTP/1.1 200 OK\r\nA: b\r\nA: b\r\n\r\nHTTP/1.1 200 OK\r\nA: b\r\nA: b\r\nA: b\r\n\r\n")
    assert (await connection.read_head()).headers.get_all("A") == ("b", "b")
    with pytest.raises(BadMessage, match="the message has 3 headers; the limit is 2"):
        await connection.read_head()


CHUNKED_HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
INTERIM = b"HTTP/1.1 102 Processing\r\nX: y\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n"


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello world",
        CHUNKED_HEAD + b"5\r\nhello\r\n6;a=b\r\n world\r\n000\r\nT: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\nB\r\nhello world\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nhello world",
        b"HTTP/1.0 200\r\n\r\nhello world",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: identity\r\nContent-Length: 11\r\n\r\nhello world",
        INTERIM + b"HTTP/1.1 200 OK\r\n\r\nhello world",
    ],
    ids=["length", "chunks", "one chunk", "until close", "HTTP/1.0", "identity", "after 102 and 103"],
)
@pytest.mark.parametrize("size", [1, 7, 1000])
async def test_response_body_is_the_same_for_every_framing_and_every_cut(data: bytes, size: int) -> None:
    connection, _ = connect()

    async def receive() -> bytes:
        return await HttpResponse("", "GET", await connection.read_head(), connection).read(11)

    reading = asyncio.create_task(receive())
    for start in range(0, len(data), size):
        connection.data_received(data[start : start + size])
        await asyncio.sleep(0)
    connection.connection_lost(None)
    assert await reading == b"hello world"


def respond(head: bytes, body: bytes = b"", method: str = "GET", idle: float | None = None) -> HttpResponse:
    connection, _ = connect(limits=ClientLimits(idle=idle))
    connection.received += body
    return HttpResponse("http://a.example", method, ResponseHead(head + b"\r\n\r\n", 100), connection)


@pytest.mark.parametrize(
    ("fields", "framed"),
    [
        (b"\r\nContent-Length: 5", b"hello"),
        (b"\r\nTransfer-Encoding: chunked", b"5\r\nhello\r\n0\r\n\r\n"),
        (b"", b"hello"),
    ],
    ids=["length", "chunked", "until the end"],
)
async def test_body_may_have_the_size_of_the_limit(fields: bytes, framed: bytes) -> None:
    for limit, arrives_later in ((5, False), (5, True), (4, False), (4, True)):
        response = respond(b"HTTP/1.1 200 x" + fields, b"" if arrives_later else framed)
        reading = asyncio.create_task(response.read(limit))
        await asyncio.sleep(0)
        if arrives_later:
            response.connection.data_received(framed)
        await asyncio.sleep(0)
        response.connection.eof_received()
        if limit == 5:
            assert await reading == response.body == b"hello" and response.is_complete
            assert response.keep_alive is (fields != b"")
        else:
            why = "has 5 bytes, more than the limit of 4" if b"Length" in fields else "has more than 4 bytes, which is"
            with pytest.raises(HttpError, match=f"the response {why}"):
                await reading


async def test_body_is_yielded_as_it_arrives() -> None:
    response = respond(b"HTTP/1.1 200 x\r\nTransfer-Encoding: chunked")
    pieces = aiter(response)
    for piece in (b"one", b"two" * 1000, b"three"):
        arriving = asyncio.ensure_future(anext(pieces))
        await asyncio.sleep(0)
        response.connection.data_received(b"%x\r\n%b\r\n" % (len(piece), piece))
        assert await arriving == piece
    response.connection.data_received(b"0\r\n\r\n")
    assert [piece async for piece in pieces] == [] and response.keep_alive


@pytest.mark.parametrize(
    ("method", "status", "is_empty"), [("HEAD", 200, True), ("GET", 204, True), ("GET", 200, False)]
)
async def test_response_to_head_and_status_204_have_no_body(method: str, status: int, is_empty: bool) -> None:
    response = respond(b"HTTP/1.1 %d x\r\nContent-Length: 5" % status, b"hello", method)
    assert response.is_complete is is_empty and response.address is None
    assert [piece async for piece in response] == ([] if is_empty else [b"hello"])
    assert response.keep_alive and response.is_complete


@pytest.mark.parametrize(
    ("fields", "body", "end", "error"),
    [
        ("Content-Encoding: gzip", b"", None, HttpError("the response is encoded with gzip, which")),
        ("Content-Length: 5", b"hell", None, HttpError("the connection ended in the middle of the response")),
        ("Content-Length: 5", b"hell", OSError("reset"),
         HttpError("the connection broke in the middle of the response: reset")),
        ("Transfer-Encoding: chunked", b"5\r\nhello\r\n0\r\n", None,
         HttpError("the connection ended in the middle of the response")),
        ("Transfer-Encoding: chunked", b"x\r\n", None,
         HttpError("the response is not HTTP/1: invalid chunk size: b'x'")),
        ("Content-Length: 5", b"hell", "wait", HttpTimeout("no further byte of the response came within 0.001 s")),
    ],
)  # fmt: skip
async def test_body_that_cannot_be_read_to_its_end_is_an_error(
    fields: str, body: bytes, end: OSError | str | None, error: HttpError
) -> None:
    response = respond(f"HTTP/1.1 200 x\r\n{fields}".encode(), body, idle=0.001)
    if not isinstance(end, str):
        response.connection.connection_lost(end)
    with pytest.raises(HttpError) as caught:
        await response.read(100)
    assert type(caught.value) is type(error) and str(caught.value).startswith(str(error))
    assert not response.is_complete
