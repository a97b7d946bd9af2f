"""Heads, by the standard library: `http.server` parses those of requests and writes those of responses.

Its handler class is used without its sockets and threads: bytes in, a RequestHead out; a status and headers in, bytes
out. The same bytes mean the same, so a caller may keep what came out for the next time.

Spec:  RFC 9112, sections 2 to 5; RFC 9110, sections 7.2 (Host) and 10.1.1 (Expect)
Below: framing.py, whose checks come first
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from typing import Final
from urllib.parse import urlsplit

from .framing import TOKEN, BadMessage, check_request_head, request_length
from .message import HeaderList, Headers

_NAME: Final = re.compile(TOKEN.decode())
_VALUE: Final = re.compile("[\t -~\x80-\xff]*")
_OURS: Final = frozenset({"connection", "content-length", "date", "transfer-encoding"})
"""Headers that say how the connection goes on: only who writes to it knows."""


@dataclass(frozen=True, slots=True)
class RequestHead:
    """What the head of a request says. `length`: bytes of the body that follows, or framing.CHUNKED."""

    method: str
    path: str
    query: str
    headers: Headers
    is_http_1_0: bool
    length: int
    keep_alive: bool
    expects_continue: bool


def parse_request_head(head: bytes, max_headers: int) -> RequestHead:
    """Read a head, its empty line included. Raises BadMessage, with the status to answer."""
    check_request_head(head, max_headers)
    parsed = _Head(head)
    if not parsed.parse_request():
        raise BadMessage(400, "the request cannot be understood")
    headers = Headers((name, value.strip(" \t")) for name, value in parsed.headers.items())
    version = parsed.request_version
    hosts = headers.get_all("host")
    if len(hosts) > 1 or (not hosts and version >= "HTTP/1.1"):
        # [RFC 9112 3.2] a server MUST respond with 400
        raise BadMessage(400, "a request has one Host header")
    path, query = _split_target(parsed.command, parsed.target, hosts)
    options = {option.strip().lower() for line in headers.get_all("connection") for option in line.split(",")}
    return RequestHead(
        parsed.command,
        path,
        query,
        headers,
        is_http_1_0=version < "HTTP/1.1",
        length=request_length(headers, version),
        keep_alive=version >= "HTTP/1.1" and "close" not in options,
        expects_continue=parsed.expects_continue,
    )


def _split_target(method: str, target: str, hosts: list[str]) -> tuple[str, str]:
    """Path and query. [RFC 9112 3.2] in origin-form, in absolute-form (as proxies are asked), or `OPTIONS *`."""
    if target.startswith("/"):
        path, _, query = target.partition("?")
        return path, query
    if target == "*" and method == "OPTIONS":
        return target, ""
    try:
        parts = urlsplit(target)
    except ValueError:
        raise BadMessage(400, "the request target is no URL") from None
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise BadMessage(400, "the request target is neither a path nor a URL")
    if [parts.netloc.lower()] != [host.lower() for host in hosts]:
        # [RFC 9112 3.2.2] the target's host wins; where Host says another, somebody would be misled
        raise BadMessage(400, "the request target and Host name different hosts")
    return parts.path or "/", parts.query


def write_response_head(status: int, headers: HeaderList, close: bool) -> bytes:
    """A head up to where Date and what frames the body are added. Raises ValueError for headers that cannot be sent."""
    written = _Head(b"")
    written.send_response_only(status)  # not send_response: that would log, and name this software and its version
    for name, value in headers:
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            # a line break in a value would begin a header of its own, or a body
            raise ValueError(f"not a header that can be sent: {name!r}: {value!r}")
        if name.lower() in _OURS:
            raise ValueError(f"the header {name} is written by the server itself")
        written.send_header(name, value)
    if close:
        written.send_header("Connection", "close")
    written.flush_headers()
    return written.wfile.getvalue()


class _Head(BaseHTTPRequestHandler):
    """The standard library's handler of one request, for the sake of its methods that read and write heads."""

    protocol_version = "HTTP/1.1"
    wfile: io.BytesIO

    def __init__(self, head: bytes) -> None:
        # not super().__init__: it would serve a socket, from the first byte to the last
        self.rfile = io.BytesIO(head)
        self.wfile = io.BytesIO()
        self.raw_requestline = self.rfile.readline()
        self.request_version = "HTTP/1.1"
        self.expects_continue = False
        words = self.raw_requestline.split()
        self.target = words[1].decode("ascii") if head else ""  # `path` has lost the second of two leading slashes

    def handle_expect_100(self) -> bool:
        """Note that the client waits for leave to send the body."""
        self.expects_continue = True
        return True

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Parsing ends here: the answer is written by whoever asked."""
        raise BadMessage(code, message or "the request cannot be understood")
