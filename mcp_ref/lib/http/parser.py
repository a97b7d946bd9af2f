"""The server's parser, which turns the bytes of one connection into requests, without a socket.

This module checks every line of a request's head strictly, because of the attacks that framing.py describes. Only then
does the standard library's `http.server` parse the request line. On its own, `http.server` would be too lenient,
because it accepts LF as a line end.

An HTTP/1.1 request must have exactly one Host header, and a request target that is a URL must have the same host.
Otherwise a proxy and the handler could choose a website by two different host names.

Spec:  RFC 9112, sections 2 to 3; RFC 9110, sections 7.2 (Host) and 10.1.1 (Expect)
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from typing import Final
from urllib.parse import urlsplit

from .framing import CHUNKED, TOKEN, BadMessage, ChunkDecoder, body_length, keeps_open, parse_headers
from .message import Headers, HttpLimits

MAX_CACHED_REQUEST_HEADS: Final = 8
"""Maximum number of parsed heads that the parser of one connection caches."""

MAX_CACHED_HEAD_SIZE: Final = 4 * 1024
"""Maximum size of a cached head, in bytes, or each connection could fill half a megabyte with large heads."""

MAX_CACHED_REQUEST_LINES: Final = 32
"""Maximum number of parsed request lines that all servers cache, since clients send few different ones."""

MAX_SHARED_HEADS: Final = 64
"""Maximum number of parsed heads that a server caches for all its connections, because some clients open a connection
for each request, and send the same head on each."""

_REQUEST_LINE: Final = re.compile(rf"{TOKEN} ([!-~]+) HTTP/([0-9]\.[0-9])")


@dataclass(slots=True)
class RequestHead:
    """A parsed head. `length` is the size of the body that follows, in bytes, or framing.CHUNKED."""

    method: str
    path: str
    query: str
    headers: Headers
    is_http_1_0: bool
    length: int
    keep_alive: bool
    expects_continue: bool


ParseHead = Callable[[bytes, int], RequestHead]
"""A function that parses a head: `parse_request_head`."""


class RequestParser:
    """The parser for the requests of one connection.

    It caches parsed heads, because clients often send the same head again, and parsing it takes half of the time of a
    short request. Requests with equal heads share one `RequestHead` and its `Headers`.

    Args:
        limits: The limits of the server.
        parse_small: A `parse_request_head`, perhaps with a cache, for heads of at most `MAX_CACHED_HEAD_SIZE`.
    """

    def __init__(self, limits: HttpLimits, parse_small: ParseHead | None = None) -> None:
        self.buffer = bytearray()
        """The received bytes that are not yet part of a request."""
        self.head: RequestHead | None = None
        """The head of the current request, while its body is incomplete."""
        self.must_send_continue = False
        """True if the client waits for a 100 (Continue) before it sends the body."""
        self.cached_heads: dict[bytes, RequestHead] = {}
        self._limits, self._parse_small = limits, parse_small or parse_request_head
        self._search_from = 0  # the position at which the search for the end of a head continues
        self._chunk_decoder: ChunkDecoder | None = None
        self._body = bytearray()  # the decoded part of a chunked body

    @property
    def body_bytes(self) -> int:
        """Number of bytes of the current request's body that have arrived."""
        return len(self._body) + len(self.buffer)

    def clear(self) -> None:
        """Drop all bytes, because the connection takes no further request."""
        self.buffer.clear()
        self._body.clear()

    def next_body(self) -> bytes | None:
        """Take the current request's body from the buffer. Return None if it is incomplete. Raise BadMessage."""
        assert self.head is not None
        length, buffer = self.head.length, self.buffer
        if length == CHUNKED:
            body = self._take_chunks()
            if body is None:
                return None
        elif len(buffer) < length:
            return None
        else:
            body = bytes(buffer[:length])
            del buffer[:length]
        self.head = None
        return body

    def next_head(self) -> RequestHead | None:
        """Take a head from the buffer. Return None if it is incomplete. Raise BadMessage if it is invalid."""
        head: RequestHead | None
        for raw in self.cached_heads:
            if self.buffer.startswith(raw):  # faster than to search for the end of the head
                del self.buffer[: len(raw)]
                head = self.cached_heads[raw]
                break
        else:  # it is not cached
            head = self._parse_head()
        if head is not None:
            self._search_from = 0
            # Computed here, because `next_body` takes the first bytes of a chunked body out of the buffer.
            self.must_send_continue = head.expects_continue and not self.buffer
            self.head = head
        return head

    def _parse_head(self) -> RequestHead | None:
        """Take a head from the buffer, parse it and, if it is small, cache it. Return None if it is incomplete."""
        buffer = self.buffer
        while buffer.startswith(b"\r\n"):
            del buffer[:2]  # [RFC 9112 2.2] a server SHOULD ignore empty lines before the request line
            self._search_from = 0
        end = buffer.find(b"\r\n\r\n", self._search_from)
        size = len(buffer) if end < 0 else end + 4
        # [RFC 9112 2.2] a recipient MAY accept LF as a line end, but we refuse it, because some proxies do not see it.
        if end < 0 and buffer.count(b"\n") != buffer.count(b"\r\n"):
            raise BadMessage(400, "a line of the head ends in LF without CR")
        if size > self._limits.head_size:
            raise BadMessage(431, f"the head is larger than {self._limits.head_size} bytes")
        if end < 0:
            self._search_from = max(0, size - 3)  # the last three bytes may begin the empty line
            return None
        raw = bytes(buffer[:size])
        del buffer[:size]
        is_small = size <= MAX_CACHED_HEAD_SIZE
        parse = self._parse_small if is_small else parse_request_head
        head = parse(raw, self._limits.header_count)
        self._check_body_size(head.length)  # before the head is cached, so that a cached head needs no further check
        if is_small:
            if len(self.cached_heads) >= MAX_CACHED_REQUEST_HEADS:
                self.cached_heads.clear()
            self.cached_heads[raw] = head
        return head

    def _take_chunks(self) -> bytes | None:
        self._chunk_decoder = self._chunk_decoder or ChunkDecoder(self.buffer)
        self._body += self._chunk_decoder.decode()
        self._check_body_size(len(self._body))
        if not self._chunk_decoder.done:
            return None
        body, self._chunk_decoder = bytes(self._body), None
        self._body.clear()
        return body

    def _check_body_size(self, size: int) -> None:
        if size > self._limits.body_size:
            raise BadMessage(413, f"the body is larger than {self._limits.body_size} bytes")


def parse_request_head(head: bytes, max_headers: int) -> RequestHead:
    """Parse a head, including its empty line. Raise BadMessage, with the status for the response."""
    request_line, *lines = head[:-4].decode("latin-1").split("\r\n")
    found = _REQUEST_LINE.fullmatch(request_line)
    if found is None:
        raise BadMessage(400, "the request line must be `method target HTTP/version`, with single spaces")
    if found[2][0] != "1":
        raise BadMessage(505, "this server speaks only HTTP/1.0 and HTTP/1.1")
    headers = parse_headers(lines, max_headers)
    method, version = _parse_request_line(request_line)
    is_http_1_0 = version < "HTTP/1.1"
    hosts = headers.get_all("host")
    if len(hosts) > 1 or not (hosts or is_http_1_0):
        # [RFC 9112 3.2] a server MUST respond with 400 to a missing or duplicate Host
        raise BadMessage(400, f"the request has {len(hosts)} Host headers: send exactly one")
    length = body_length(headers) or 0  # [RFC 9112 6.3, rule 7] a request without a length has no body
    if length == CHUNKED and is_http_1_0:
        # [RFC 9112 6.1] a server MUST treat Transfer-Encoding in an HTTP/1.0 message as faulty
        raise BadMessage(400, "HTTP/1.0 has no Transfer-Encoding: send Content-Length instead")
    path, query = _split_target(method, found[1], hosts)
    expects_continue = not is_http_1_0 and (headers.get("expect") or "").lower() == "100-continue"
    keep_alive = keeps_open(headers, version)
    return RequestHead(method, path, query, headers, is_http_1_0, length, keep_alive, expects_continue)


@functools.lru_cache(maxsize=MAX_CACHED_REQUEST_LINES)
def _parse_request_line(request_line: str) -> tuple[str, str]:
    """Return the method and the version. Raise BadMessage for an invalid line."""
    parsed = _RequestLineParser(request_line)
    try:
        parsed.parse_request()
    except _HeadersReached:
        return parsed.command, parsed.request_version
    raise BadMessage(400, "the request line is invalid")  # the parser has ended before the headers


def _split_target(method: str, target: str, hosts: tuple[str, ...]) -> tuple[str, str]:
    """Return path and query of a target, which is a path, a URL (for proxies), or `*` for OPTIONS. [RFC 9112 3.2]"""
    if "#" in target:
        raise BadMessage(400, "the request target contains a fragment: remove `#` and the text after it")
    if target.startswith("/"):
        path, _, query = target.partition("?")
        return path, query
    if target == "*" and method == "OPTIONS":
        return target, ""
    try:
        parts = urlsplit(target)
    except ValueError:
        raise BadMessage(400, "the request target is an invalid URL") from None
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise BadMessage(400, "the request target is neither a path nor a URL")
    if [parts.netloc.lower()] != [host.lower() for host in hosts]:
        # DEVIATION: [RFC 9112 3.2.2] a server must ignore Host if the target is a URL, but we refuse different hosts.
        raise BadMessage(400, "the host in the request target must be equal to the Host header")
    return parts.path or "/", parts.query


class _HeadersReached(Exception):
    """The standard library has parsed a valid request line, and wants to read the headers."""


class _RequestLineParser(BaseHTTPRequestHandler):
    """The standard library's request handler, whose method `parse_request` is used for the request line alone.

    The headers come from `parse_headers`, because parsing them here too would take 40 microseconds.
    """

    def __init__(self, request_line: str) -> None:
        # Do not call the constructor of the base class, which needs a socket.
        self.raw_requestline = request_line.encode("latin-1")
        self.rfile = self  # type: ignore[assignment]  # so that the base class reads the headers with `readline` below

    def readline(self, size: int) -> bytes:
        raise _HeadersReached

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        raise BadMessage(code, message or "the request line is invalid")
