"""Tests of lib/http/parser.py without a socket."""

from __future__ import annotations

import pytest

from mcp_ref.lib.http.framing import BadMessage
from mcp_ref.lib.http.message import MAX_SHARED_NAMES, Headers, HttpLimits, _shared_name
from mcp_ref.lib.http.parser import MAX_CACHED_HEAD_SIZE, MAX_CACHED_REQUEST_HEADS, RequestHead, RequestParser


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
    for number in range(3 * MAX_CACHED_REQUEST_HEADS):
        parser.buffer += b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n" % number
        assert next_request(parser) is not None
    assert len(parser.cached_heads) <= MAX_CACHED_REQUEST_HEADS


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


def test_request_parser_raises_bad_message_with_the_status_of_the_response() -> None:
    parser = RequestParser(HttpLimits(body_size=1))
    parser.buffer += HEAD
    with pytest.raises(BadMessage, match="larger than 1 bytes") as caught:
        next_request(parser)
    assert caught.value.status == 413


def test_chunk_sizes_are_hexadecimal_also_if_several_chunks_are_complete() -> None:
    parser = RequestParser(HttpLimits())
    parser.buffer += b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    parser.buffer += b"30\r\n%b\r\n5\r\nhello\r\n0\r\n\r\n" % (b"x" * 48)
    request = next_request(parser)
    assert request is not None and request[1] == b"x" * 48 + b"hello"


def test_headers_share_their_names_and_a_client_cannot_fill_the_memory_with_names() -> None:
    first, second = (next(iter(Headers([("".join(["X-", "Name"]), "1")]))) for _ in range(2))
    assert first[0] is second[0]
    Headers((f"X-{number}", "1") for number in range(3 * MAX_SHARED_NAMES))
    assert _shared_name.cache_info().currsize <= MAX_SHARED_NAMES


def test_headers_duplicates_are_the_names_that_were_sent_more_than_once() -> None:
    assert Headers([("A", "1"), ("B", "2"), ("a", "1")]).duplicates() == ["a"]


def test_headers_without_names_are_the_others() -> None:
    assert [*Headers([("A", "1"), ("B", "2"), ("a", "1")]).without("a")] == [("B", "2")]
