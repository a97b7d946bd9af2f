"""The requests of one connection: bytes go in, requests come out. Nothing here touches a socket.

First every line of a head is checked strictly (framing.py names the attacks). Then the standard library's `http.server`
parses the head. Alone it would be too lenient: it accepts LF as a line end, for example.

A request must have exactly one Host header, and an absolute target must name the same host. Otherwise a proxy could
choose a website by one name, and the handler by the other.

Spec:  RFC 9112, sections 2 to 3; RFC 9110, sections 7.2 (Host) and 10.1.1 (Expect)
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from typing import Final
from urllib.parse import urlsplit

from .framing import CHUNKED, TOKEN, BadMessage, ChunkedBodyDecoder, body_length, check_header_lines, is_persistent
from .message import Headers, HttpLimits

MAX_CACHED_REQUEST_HEADS: Final = 8
"""Maximum number of parsed heads that a connection keeps for reuse."""

_REQUEST_LINE: Final = re.compile(rb"(%b) ([!-~]+) HTTP/(\d\.\d)" % TOKEN)


@dataclass(frozen=True, slots=True)
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


class RequestParser:
    """The parser for the requests of one connection.

    It keeps parsed heads. A client often repeats a head byte for byte, and parsing is half of the time that a short
    request takes. So a repeated head is not parsed again: both requests share one `RequestHead` and its `Headers`.
    """

    def __init__(self, limits: HttpLimits) -> None:
        self.buffer = bytearray()
        """The received bytes that are not yet part of a request."""
        self.head: RequestHead | None = None
        """The head of the request whose body is incomplete."""
        self.must_send_continue = False
        """True if the client sends that body only after a 100 response."""
        self.cached_heads: dict[bytes, RequestHead] = {}
        self._limits = limits
        self._searched_bytes = 0  # length of the buffer that has no end of a head
        self._chunk_decoder: ChunkedBodyDecoder | None = None
        self._body = bytearray()  # the data of the chunks so far

    def next_request(self) -> tuple[RequestHead, bytes] | None:
        """Remove a request from the buffer and return it, or None until it is complete. Raise BadMessage."""
        self.head = self.head or self._take_head()
        if self.head is None:
            return None
        body = self._take_chunks() if self.head.length == CHUNKED else self._take_bytes(self.head.length)
        if body is None:
            return None
        request, self.head = (self.head, body), None
        return request

    def _take_head(self) -> RequestHead | None:
        buffer = self.buffer
        if not self._searched_bytes and buffer[:2] == b"\r\n":
            del buffer[:2]  # [RFC 9112 2.2] SHOULD ignore at least one empty line before the request line
        end = buffer.find(b"\r\n\r\n", max(0, self._searched_bytes - 3))
        # [RFC 9112 2.2] a recipient MAY accept a single LF as a line end; others do not, so it is refused
        if end < 0 and buffer.count(b"\n") != buffer.count(b"\r\n"):
            raise BadMessage(400, "a line of the head ends in LF without CR")
        if (len(buffer) if end < 0 else end + 4) > self._limits.head_size:
            raise BadMessage(431, f"the head is larger than {self._limits.head_size} bytes")
        if end < 0:
            self._searched_bytes = len(buffer)
            return None
        self._searched_bytes = 0
        raw = bytes(buffer[: end + 4])
        del buffer[: end + 4]
        head = self.cached_heads.get(raw)
        if head is None:
            head = parse_request_head(raw, self._limits.header_count)
            if len(self.cached_heads) >= MAX_CACHED_REQUEST_HEADS:
                self.cached_heads.clear()
            self.cached_heads[raw] = head
        self._check_body_size(head.length)
        self.must_send_continue = head.expects_continue and not buffer
        return head

    def _take_bytes(self, length: int) -> bytes | None:
        if len(self.buffer) < length:
            return None
        body = bytes(self.buffer[:length])
        del self.buffer[:length]
        return body

    def _take_chunks(self) -> bytes | None:
        self._chunk_decoder = self._chunk_decoder or ChunkedBodyDecoder(self.buffer)
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
    """Parse a head, which ends in an empty line. Raise BadMessage with the status of the response."""
    request_line, *lines = head[:-4].split(b"\r\n")
    found = _REQUEST_LINE.fullmatch(request_line)
    if found is None:
        raise BadMessage(400, "the request line is not `method target HTTP/version`, with one space between each")
    if found[3][:1] != b"1":
        raise BadMessage(505, "this server speaks HTTP/1.1 only")
    check_header_lines(lines, max_headers)
    parsed = _HeadParser(head)
    if not parsed.parse_request():
        raise BadMessage(400, "the head of the request is invalid")
    headers = Headers((name, value.strip(" \t")) for name, value in parsed.headers.items())
    version = parsed.request_version
    hosts = headers.get_all("host")
    if len(hosts) > 1 or (not hosts and version >= "HTTP/1.1"):
        # [RFC 9112 3.2] a server MUST respond with 400
        raise BadMessage(400, f"a request needs exactly one Host header, not {len(hosts)}")
    length = body_length(headers) or 0  # [RFC 9112 6.3, rule 7] a request without a length has no body
    if length == CHUNKED and version < "HTTP/1.1":
        # [RFC 9112 6.1] Transfer-Encoding in an HTTP/1.0 message: the framing is faulty
        raise BadMessage(400, "HTTP/1.0 has no Transfer-Encoding: send Content-Length")
    path, query = _split_target(parsed.command, found[2].decode("ascii"), hosts)
    expects_continue = version >= "HTTP/1.1" and (headers.get("expect") or "").lower() == "100-continue"
    keep_alive = is_persistent(headers, version)
    return RequestHead(parsed.command, path, query, headers, version < "HTTP/1.1", length, keep_alive, expects_continue)


def _split_target(method: str, target: str, hosts: list[str]) -> tuple[str, str]:
    """Return path and query. [RFC 9112 3.2] in origin-form, in absolute-form (sent to proxies), or `OPTIONS *`."""
    if "#" in target:
        raise BadMessage(400, "the request target has a fragment")
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
        # DEVIATION: [RFC 9112 3.2.2] the target's host replaces Host; a difference is refused as a likely attack
        raise BadMessage(400, "the request target and Host name different hosts")
    return parts.path or "/", parts.query


class _HeadParser(BaseHTTPRequestHandler):
    """The standard library's request handler, used for its method `parse_request` alone."""

    def __init__(self, head: bytes) -> None:
        # The base class's constructor is not called: it would serve a socket.
        self.rfile = io.BytesIO(head)
        self.raw_requestline = self.rfile.readline()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        raise BadMessage(code, message or "the head of the request is invalid")
