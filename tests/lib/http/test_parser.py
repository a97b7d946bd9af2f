"""Tests of lib/http/framing.py and lib/http/parser.py without a socket."""

from __future__ import annotations

import time

import pytest

from mcp_ref.lib.http.framing import (
    MAX_CACHED_RESPONSE_HEADS,
    MAX_CHUNK_OVERHEAD,
    RESERVED_HEADERS,
    BadMessage,
    ChunkDecoder,
    ResponseHeadWriter,
    encode_head,
    keeps_open,
    parse_response_head,
)
from mcp_ref.lib.http.message import MAX_SHARED_NAMES, Headers, HttpLimits, _shared_name
from mcp_ref.lib.http.parser import MAX_CACHED_HEAD_SIZE, MAX_CACHED_REQUEST_HEADS, RequestHead, RequestParser


def received(data: bytes, limits: HttpLimits | None = None) -> RequestParser:
    """Return a parser that has received some bytes."""
    parser = RequestParser(limits or HttpLimits())
    parser.buffer += data
    return parser


def next_request(parser: RequestParser) -> tuple[RequestHead, bytes] | None:
    head = parser.head or parser.next_head()
    body = parser.next_body() if head is not None else None
    return (head, body) if head is not None and body is not None else None


HEAD = b"POST /mcp?a=1 HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n"


def test_request_parser_returns_none_until_the_body_is_complete() -> None:
    parser = RequestParser(HttpLimits())
    for byte in HEAD + b"{":
        parser.buffer.append(byte)
        assert next_request(parser) is None
    assert parser.head is not None and parser.head.length == 2
    parser.buffer += b"}GET"
    request = next_request(parser)
    assert request is not None
    head, body = request
    assert (head.method, head.path, head.query, body) == ("POST", "/mcp", "a=1", b"{}")
    assert parser.buffer == b"GET" and parser.head is None


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_request_parser_ignores_empty_lines_before_a_request_however_they_arrive(size: int) -> None:
    parser, data = RequestParser(HttpLimits()), b"\r\n\r\n\r\n" + HEAD + b"{}"
    requests = []
    for start in range(0, 2 * len(data), size):
        parser.buffer += (2 * data)[start : start + size]
        while (request := next_request(parser)) is not None:
            requests.append(request[1])
    assert requests == [b"{}", b"{}"]


def test_request_parser_parses_a_repeated_head_once_and_keeps_few_heads() -> None:
    parser = RequestParser(HttpLimits())
    heads = []
    for _ in range(2):
        parser.buffer += HEAD + b"{}"
        request = next_request(parser)
        assert request is not None
        heads.append(request[0])
    assert heads[0] is heads[1]
    for number in range(2 * MAX_CACHED_REQUEST_HEADS - 1):
        parser.buffer += b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n" % number
        assert next_request(parser) is not None
    assert len(parser.cached_heads) == MAX_CACHED_REQUEST_HEADS


def test_request_parser_finds_a_short_head_after_a_repeated_head_that_arrived_in_two_pieces() -> None:
    parser = RequestParser(HttpLimits())
    for piece in (HEAD + b"{}", HEAD[:-1], b"\n{}GET / HTTP/1.1\r\nHost: x\r\n\r\n"):
        parser.buffer += piece
        request = next_request(parser)
    assert request is not None and request[0].path == "/mcp"
    request = next_request(parser)
    assert request is not None and request[0].method == "GET"


def test_request_parser_does_not_keep_large_heads() -> None:
    parser = RequestParser(HttpLimits())
    for size in (MAX_CACHED_HEAD_SIZE, MAX_CACHED_HEAD_SIZE + 1):
        head = b"GET / HTTP/1.1\r\nHost: x\r\nX: \r\n\r\n"
        parser.buffer += head.replace(b"X: ", b"X: " + b"x" * (size - len(head)))
        assert next_request(parser) is not None
    assert [len(raw) for raw in parser.cached_heads] == [MAX_CACHED_HEAD_SIZE]


GET_HEAD = b"GET / HTTP/1.1\r\nHost: x\r\n"
POST = b"POST / HTTP/1.1\r\nHost: x\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
REQUEST_LINE = "the request line must be `method target HTTP/version`, with single spaces"
LONG_LINE = "a chunk has more data than its size says, or a line between chunks is too long"
SMALL_CHUNKS = "the chunks are too small, or their extensions or the trailers are too large"
CHUNK_LF = "a line between chunks ends in LF without CR"
LENGTH = "Content-Length must be a number of bytes, not %r"
LENGTH_TWICE = "duplicate header Content-Length: send this header only once"
FOLDED = "a header is folded over several lines: send it on one line"
HEAD_LF = "a line of the head ends in LF without CR"
HEADER_LINE = "a header line must be `name: value`, not %r"
CONTROL = "the value of the header %s contains a control character"
TARGET = "the request target is neither a path nor a URL"
VERSION = "this server speaks only HTTP/1.0 and HTTP/1.1"
LARGE_HEAD = "the head is larger than 32768 bytes"
CHUNK_SIZE = "invalid chunk size: %r"
LONG_CHUNK = "a chunk has more data than its size says"
REFUSED = {
    "Content-Length with Transfer-Encoding": (
        400,
        "the message has Content-Length and Transfer-Encoding: send only one of them",
        POST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
    ),
    "Content-Length twice, different": (400, LENGTH_TWICE, POST + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\n"),
    "Content-Length twice, equal": (400, LENGTH_TWICE, POST + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc"),
    "Content-Length with a list": (400, LENGTH % "3, 3", POST + b"Content-Length: 3, 3\r\n\r\nabc"),
    "Content-Length with a sign": (400, LENGTH % "+3", POST + b"Content-Length: +3\r\n\r\nabc"),
    "Content-Length negative": (400, LENGTH % "-1", POST + b"Content-Length: -1\r\n\r\n"),
    "Content-Length with underscores": (400, LENGTH % "1_0", POST + b"Content-Length: 1_0\r\n\r\n"),
    "Content-Length in hexadecimal": (400, LENGTH % "0x3", POST + b"Content-Length: 0x3\r\n\r\nabc"),
    "Content-Length empty": (400, LENGTH % "", POST + b"Content-Length:\r\n\r\n"),
    "Content-Length huge": (
        413,
        "the body is too large: its Content-Length has more than 15 digits",
        POST + b"Content-Length: 1000000000000000\r\n\r\n",
    ),
    "Transfer-Encoding gzip": (
        501,
        "Transfer-Encoding must be `chunked`, not ('gzip, chunked',)",
        POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n",
    ),
    "Transfer-Encoding chunked twice": (
        501,
        "Transfer-Encoding must be `chunked`, not ('chunked', 'chunked')",
        POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
    ),
    "Transfer-Encoding with a control character": (
        400,
        CONTROL % "Transfer-Encoding",
        POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n",
    ),
    "Transfer-Encoding in HTTP/1.0": (
        400,
        "HTTP/1.0 has no Transfer-Encoding: send Content-Length instead",
        b"POST / HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ),
    "folded header": (400, FOLDED, GET_HEAD + b"A: b\r\n c\r\n\r\n"),
    "folded line before the first header": (400, FOLDED, b"GET / HTTP/1.1\r\n Host: x\r\n\r\n"),
    "header folded by a tab": (400, FOLDED, GET_HEAD + b"A: b\r\n\tc\r\n\r\n"),
    "bare LF everywhere": (400, HEAD_LF, b"GET / HTTP/1.1\nHost: x\n\n"),
    "bare LF in one line": (400, CONTROL % "Host", b"GET / HTTP/1.1\r\nHost: x\nA: b\r\n\r\n"),
    "bare LF at the end": (400, HEAD_LF, GET_HEAD + b"\n"),
    "bare CR": (400, CONTROL % "Host", b"GET / HTTP/1.1\r\nHost: x\rA: b\r\n\r\n"),
    "NUL in a value": (400, CONTROL % "A", GET_HEAD + b"A: b\0c\r\n\r\n"),
    "NUL in a name": (400, HEADER_LINE % "A\x00: b", GET_HEAD + b"A\0: b\r\n\r\n"),
    "NUL in the target": (400, REQUEST_LINE, b"GET /\0 HTTP/1.1\r\nHost: x\r\n\r\n"),
    "header with a space before the colon": (
        400,
        HEADER_LINE % "Content-Length : 3",
        POST + b"Content-Length : 3\r\n\r\nabc",
    ),
    "header without colon": (400, HEADER_LINE % "A", GET_HEAD + b"A\r\n\r\n"),
    "header without name": (400, HEADER_LINE % ": b", GET_HEAD + b": b\r\n\r\n"),
    "method with an invalid character": (400, REQUEST_LINE, b"G@T / HTTP/1.1\r\nHost: x\r\n\r\n"),
    "method missing": (400, REQUEST_LINE, b" / HTTP/1.1\r\nHost: x\r\n\r\n"),
    "request line with two spaces": (400, REQUEST_LINE, b"GET  / HTTP/1.1\r\nHost: x\r\n\r\n"),
    "target with a space": (400, REQUEST_LINE, b"GET /a b HTTP/1.1\r\nHost: x\r\n\r\n"),
    "target with a byte outside ASCII": (400, REQUEST_LINE, b"GET /\xe9 HTTP/1.1\r\nHost: x\r\n\r\n"),
    "target with a fragment": (
        400,
        "the request target contains a fragment: remove `#` and the text after it",
        b"GET /a#b HTTP/1.1\r\nHost: x\r\n\r\n",
    ),
    "target * of another method than OPTIONS": (400, TARGET, b"GET * HTTP/1.1\r\nHost: x\r\n\r\n"),
    "target of another host": (
        400,
        "the host in the request target must be equal to the Host header",
        b"GET http://y/ HTTP/1.1\r\nHost: x\r\n\r\n",
    ),
    "target neither path nor URL": (400, TARGET, b"GET a HTTP/1.1\r\nHost: x\r\n\r\n"),
    "target a broken URL": (400, "the request target is an invalid URL", b"GET http://[x HTTP/1.1\r\nHost: x\r\n\r\n"),
    "target of another scheme": (400, TARGET, b"GET ftp://x/ HTTP/1.1\r\nHost: x\r\n\r\n"),
    "CONNECT": (400, TARGET, b"CONNECT x:443 HTTP/1.1\r\nHost: x:443\r\n\r\n"),
    "version missing": (400, REQUEST_LINE, b"GET /\r\nHost: x\r\n\r\n"),
    "version in lower case": (400, REQUEST_LINE, b"GET / http/1.1\r\nHost: x\r\n\r\n"),
    "version HTTP/1.10": (400, REQUEST_LINE, b"GET / HTTP/1.10\r\nHost: x\r\n\r\n"),
    "HTTP/2": (505, VERSION, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    "HTTP/0.9": (505, VERSION, b"GET / HTTP/0.9\r\n\r\n"),
    "Host missing": (400, "the request has 0 Host headers: send exactly one", b"GET / HTTP/1.1\r\n\r\n"),
    "Host twice": (400, "the request has 2 Host headers: send exactly one", GET_HEAD + b"Host: x\r\n\r\n"),
    "TLS": (400, REQUEST_LINE, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\x0a\x0d\x0a\r\n\r\n"),
    "too many headers": (
        431,
        "the message has 101 headers; the limit is 100",
        GET_HEAD + b"" + b"A: b\r\n" * 100 + b"\r\n",
    ),
    "head too large": (431, LARGE_HEAD, GET_HEAD + b"A: " + b"b" * (32 * 1024 - 31) + b"\r\n\r\n"),
    "head too large without an end": (431, LARGE_HEAD, GET_HEAD + b"A: " + b"b" * (32 * 1024 - 27)),
    "body too large": (413, "the body is larger than 4194304 bytes", POST + b"Content-Length: 4194305\r\n\r\n"),
    "chunk size not a number": (400, CHUNK_SIZE % b"g", CHUNKED + b"g\r\n"),
    "chunk size empty": (400, CHUNK_SIZE % b"", CHUNKED + b"\r\n"),
    "chunk size with a prefix": (400, CHUNK_SIZE % b"0x3", CHUNKED + b"0x3\r\nabc\r\n0\r\n\r\n"),
    "chunk size with a sign": (400, CHUNK_SIZE % b"+3", CHUNKED + b"+3\r\nabc\r\n0\r\n\r\n"),
    "chunk size with a space before": (400, CHUNK_SIZE % b" 3", CHUNKED + b" 3\r\nabc\r\n0\r\n\r\n"),
    "chunk size of many digits": (400, CHUNK_SIZE % b"1111111111111111", CHUNKED + b"1" * 16 + b"\r\n"),
    "chunk larger than its size": (400, LONG_CHUNK, CHUNKED + b"3\r\nabcd\r\n0\r\n\r\n"),
    "chunk larger than its size, without more bytes": (400, LONG_LINE, CHUNKED + b"3\r\nabcd"),
    "chunk smaller than its size": (400, LONG_CHUNK, CHUNKED + b"5\r\nabc\r\n0\r\n\r\n"),
    "chunk that ends in LF": (400, CHUNK_LF, CHUNKED + b"3\r\nabc\n0\r\n\r\n"),
    "chunk size that ends in LF": (400, CHUNK_LF, CHUNKED + b"3\nabc\r\n0\r\n\r\n"),
    "LF in a chunk extension": (400, CHUNK_LF, CHUNKED + b"3;a\nb\r\nabc\r\n0\r\n\r\n"),
    "NUL in a chunk extension": (400, CHUNK_SIZE % b"3;a\x00", CHUNKED + b"3;a\0\r\nabc\r\n0\r\n\r\n"),
    "chunk extension too large": (400, LONG_LINE, CHUNKED + b"3;" + b"a" * 17_000),
    "chunks too small": (400, SMALL_CHUNKS, CHUNKED + b"1\r\nx\r\n" * 6000),
    "chunk extensions too many": (400, SMALL_CHUNKS, CHUNKED + (b"1;" + b"a" * 100 + b"\r\nx\r\n") * 200),
    "trailers too many": (400, SMALL_CHUNKS, CHUNKED + b"0\r\n" + b"A: b\r\n" * 5000),
    "trailer without colon": (400, HEADER_LINE % "A b", CHUNKED + b"0\r\nA b\r\n\r\n"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_request_parser_raises_bad_message_with_the_status_and_the_text_of_the_response(case: str) -> None:
    status, fault, data = REFUSED[case]
    parser = received(data)
    with pytest.raises(BadMessage) as caught:
        next_request(parser)
    assert (caught.value.status, str(caught.value)) == (status, fault)


@pytest.mark.parametrize(
    "data",
    [
        GET_HEAD + b"A: b\r\n" * 99 + b"\r\n",
        GET_HEAD + b"A: " + b"b" * (32 * 1024 - 32) + b"\r\n\r\n",
        POST + b"Content-Length: 4194304\r\n\r\n" + b"x" * 4194304,
        CHUNKED + b"400000\r\n" + b"x" * 4194304 + b"\r\n0\r\n\r\n",
    ],
    ids=["headers", "head", "body", "chunked body"],
)
def test_request_parser_accepts_what_is_as_large_as_the_limits(data: bytes) -> None:
    parser = received(data)
    assert next_request(parser) is not None and not parser.buffer


def test_request_parser_refuses_a_chunked_body_as_soon_as_it_is_too_large() -> None:
    parser = received(CHUNKED + b"ffffffffffffff\r\nabc", HttpLimits(body_size=3))
    assert next_request(parser) is None and parser.body_bytes == 3
    parser.buffer += b"d"
    with pytest.raises(BadMessage, match="the body is larger than 3 bytes") as caught:
        next_request(parser)
    assert caught.value.status == 413
    parser.clear()
    assert parser.body_bytes == 0


@pytest.mark.parametrize(
    ("line", "head"),
    [
        (b"GET /a?b?c HTTP/1.1\r\nHost: x", ("GET", "/a", "b?c", False, True)),
        (b"GET / HTTP/1.0", ("GET", "/", "", True, False)),
        (b"GET / HTTP/1.1\r\nHost: x\r\nConnection: a,\tClose", ("GET", "/", "", False, False)),
        (b"GET / HTTP/1.1\r\nHost: x\r\nConnection: closed", ("GET", "/", "", False, True)),
        (b"OPTIONS * HTTP/1.1\r\nHost: x", ("OPTIONS", "*", "", False, True)),
        (b"GET HTTP://X?b HTTP/1.1\r\nHost: x", ("GET", "/", "b", False, True)),
        (b"GET https://x:1/a HTTP/1.1\r\nHost: X:1", ("GET", "/a", "", False, True)),
    ],
)
def test_request_head_has_the_path_the_query_and_the_version(line: bytes, head: tuple[object, ...]) -> None:
    parser = received(line + b"\r\n\r\n")
    found = parser.next_head()
    assert found is not None
    assert (found.method, found.path, found.query, found.is_http_1_0, found.keep_alive) == head
    assert (found.length, found.expects_continue, parser.must_send_continue) == (0, False, False)


@pytest.mark.parametrize(
    ("version", "value", "body", "expects", "must_send"),
    [
        (b"1", b"100-Continue", b"", True, True),
        (b"1", b"100-continue", b"x", True, False),
        (b"1", b"101-continue", b"", False, False),
        (b"0", b"100-continue", b"", False, False),
    ],
)
def test_100_continue_is_sent_only_if_the_client_waits_for_it(
    version: bytes, value: bytes, body: bytes, expects: bool, must_send: bool
) -> None:
    parser = received(
        b"POST / HTTP/1.%b\r\nHost: x\r\nContent-Length: 1\r\nExpect: %b\r\n\r\n" % (version, value) + body
    )
    head = parser.next_head()
    assert head is not None and (head.expects_continue, parser.must_send_continue) == (expects, must_send)


SMALL = b"1\r\nx\r\n"  # its lines are 3 bytes larger than twice its data
SMALL_COUNT = (MAX_CHUNK_OVERHEAD - 5) // 3  # the last chunk counts 5
LONGEST = b"a;" + b"x" * (MAX_CHUNK_OVERHEAD - 4) + b"\r\n" + b"y" * 10 + b"\r\n0\r\n\r\n"
TRAILER_COUNT = (MAX_CHUNK_OVERHEAD - 5) // 4


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (SMALL * SMALL_COUNT + b"0\r\n\r\n", None),
        (SMALL * (SMALL_COUNT + 1) + b"0\r\n\r\n", SMALL_CHUNKS),
        (b"2000\r\n" + b"x" * 8192 + b"\r\n" + SMALL * SMALL_COUNT + b"0\r\n\r\n", None),
        (b"2000\r\n" + b"x" * 8192 + b"\r\n" + SMALL * (SMALL_COUNT + 1) + b"0\r\n\r\n", SMALL_CHUNKS),
        (LONGEST, None),
        (LONGEST.replace(b";", b";x"), LONG_LINE),
        (b"0\r\n" + b"A: b\r\n" * TRAILER_COUNT + b"\r\n", None),
        (b"0\r\n" + b"A: b\r\n" * (TRAILER_COUNT + 1) + b"\r\n", SMALL_CHUNKS),
    ],
    ids=["small", "too small", "small after a large one", "too small after a large one", "line", "too long a line",
         "trailers", "too many trailers"],
)  # fmt: skip
@pytest.mark.parametrize("size", [1, 1 << 20])
def test_chunk_decoder_limits_the_size_of_all_lines_however_they_arrive(
    data: bytes, fault: str | None, size: int
) -> None:
    buffer = bytearray()
    decoder = ChunkDecoder(buffer)

    def decode() -> None:
        for start in range(0, len(data), size):
            buffer.extend(data[start : start + size])
            decoder.decode()

    if fault is None:
        decode()
        assert decoder.done and not buffer
    else:
        with pytest.raises(BadMessage) as caught:
            decode()
        assert (caught.value.status, str(caught.value)) == (400, fault) and not decoder.done


def test_response_head_has_a_status_of_three_digits_and_an_optional_reason() -> None:
    status, version, headers = parse_response_head(b"HTTP/1.0 204\r\nA: \tb \r\n\r\n", 1)
    assert (status, version, [*headers]) == (204, "HTTP/1.0", [("A", "b")])
    assert not keeps_open(headers, version)
    for head, why in (
        (b"HTTP/1.1 99 x\r\n\r\n", "the first line must be `HTTP/1.1 status reason`, not 'HTTP/1.1 99 x'"),
        (b"HTTP/2.0 200 x\r\n\r\n", "the first line must be `HTTP/1.1 status reason`, not 'HTTP/2.0 200 x'"),
    ):
        with pytest.raises(BadMessage) as caught:
            parse_response_head(head, 1)
        assert (caught.value.status, str(caught.value)) == (502, why)


@pytest.mark.parametrize(
    ("name", "value", "fault"),
    [
        ("A", "b\r\nSet-Cookie: forged", "the header 'A' cannot be sent: its name or value contains a forbidden char"),
        ("A", "b\nc", "the header 'A' cannot be sent"),
        ("A b", "c", "the header 'A b' cannot be sent"),
        ("", "c", "the header '' cannot be sent"),
        ("A", "€", "the header 'A' cannot be sent"),
        ("A", "\0", "the header 'A' cannot be sent"),
        ("Content-Length", "5", "the library itself writes the header Content-Length: do not pass this header"),
        ("transfer-encoding", "chunked", "the library itself writes the header transfer-encoding"),
        ("Connection", "close", "the library itself writes the header Connection"),
        ("DATE", "x", "the library itself writes the header DATE"),
    ],
)
def test_response_header_with_a_line_break_or_reserved_name_is_a_value_error(name: str, value: str, fault: str) -> None:
    assert encode_head(["X"], [("B", "ä")], RESERVED_HEADERS) == b"X\r\nB: \xe4\r\n"
    with pytest.raises(ValueError) as caught:
        encode_head([], [(name, value)], RESERVED_HEADERS)
    assert str(caught.value).startswith(fault)


def test_response_head_writer_keeps_few_heads_and_writes_the_date_of_each_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 784111777.9
    monkeypatch.setattr(time, "time", lambda: now)
    writer = ResponseHeadWriter()
    date = b"Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
    assert writer.write(200, [("A", "b")], close=False) == b"HTTP/1.1 200 OK\r\nA: b\r\n" + date
    now = 784111778.0
    date = date.replace(b"37", b"38")
    assert writer.write(299, [], close=True) == b"HTTP/1.1 299 \r\nConnection: close\r\n" + date
    for number in range(MAX_CACHED_RESPONSE_HEADS - 2):
        writer.write(200, [("A", str(number))], close=False)
    assert len(writer._cached) == MAX_CACHED_RESPONSE_HEADS
    writer.write(200, [], close=False)
    assert len(writer._cached) == 1


@pytest.mark.parametrize(
    ("data", "body"),
    [
        (b"5\r\nhello\r\n0\r\n\r\n", b"hello"),
        (b"30\r\n%b\r\n5\r\nhello\r\n0\r\n\r\n" % (b"x" * 48), b"x" * 48 + b"hello"),
        (b"1a\r\n%b\r\nB\r\n%b\r\n0\r\n\r\n" % (b"x" * 26, b"y" * 11), b"x" * 26 + b"y" * 11),
        (b'005;name=value;other="x y"\r\nhello\r\n000\r\n\r\n', b"hello"),
        (b"5 ; a\r\nhello\r\n0\r\nTrailer: 1\r\nOther: 2\r\n\r\n", b"hello"),
        (b"3\r\nabc\r\n" * 20_000 + b"0\r\n\r\n", b"abc" * 20_000),
    ],
    ids=["one", "two", "hexadecimal sizes in either case", "extensions", "trailers", "many"],
)
def test_chunked_body_is_the_data_of_its_chunks(data: bytes, body: bytes) -> None:
    parser = received(CHUNKED + data)
    request = next_request(parser)
    assert request is not None and request[1] == body


def test_headers_share_their_names_and_a_client_cannot_fill_the_memory_with_names() -> None:
    first, second = (next(iter(Headers([("".join(["X-", "Name"]), "1")]))) for _ in range(2))
    assert first[0] is second[0]
    Headers((f"X-{number}", "1") for number in range(3 * MAX_SHARED_NAMES))
    assert _shared_name.cache_info().currsize <= MAX_SHARED_NAMES


def test_headers_duplicates_are_the_names_that_were_sent_more_than_once() -> None:
    assert Headers([("A", "1"), ("B", "2"), ("a", "1")]).duplicates() == ["a"]


def test_headers_without_names_are_the_others() -> None:
    assert [*Headers([("A", "1"), ("B", "2"), ("a", "1")]).without("a")] == [("B", "2")]
