"""The parts of HTTP/1.1 that client and server share: header lines, the length of a body, chunks.

    POST /mcp HTTP/1.1            \\
    Host: localhost                > the head: lines that end in CRLF, then an empty line
    Content-Length: 2             /

    {}                              the body: as many bytes as Content-Length says, or chunks, each after its size

A proxy and the server behind it must agree where a request ends. Otherwise an attacker hides a second request in the
body of the first: it evades the proxy's checks, or receives the response of another user (request smuggling, RFC 9112
section 11.2). So a message that two readers could read in two ways is refused, also where the RFC permits a guess:

    Refused                                           Disagreement
    Content-Length and Transfer-Encoding together     one reader counts bytes, the other reads chunks
    Content-Length twice, or with a sign or comma     each reader takes another value
    Transfer-Encoding other than "chunked"            a reader that does not know the coding ignores the header
    LF without CR, CR without LF                      some readers see a line end there
    a line that begins with a space (obs-fold)        a new header, or more of the value above
    a space before the colon                          `Content-Length :` is a header, or is ignored
    a chunk size with a sign, prefix or space         some number parsers accept them

`encode_head` refuses a line break in a header: it would begin another header, or the body (response splitting, 11.1).

Spec:  RFC 9112, sections 2.2 (parsing), 5 (fields), 6 (body length), 7 (transfer codings), 9.3 (persistence)
"""

from __future__ import annotations

import re
import time
from collections.abc import Generator, Iterable
from http import HTTPStatus
from typing import Final

from .message import HeaderList, Headers

CHUNKED: Final = -1
"""Body length that stands for a chunked body."""

MAX_CHUNK_OVERHEAD: Final = 16 * 1024
"""Maximum size of the chunk extensions and trailers of one message, in bytes (as in Go's net/http)."""

MAX_CACHED_RESPONSE_HEADS: Final = 256
"""Maximum number of written response heads that a server keeps for reuse."""

TOKEN: Final = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
"""Pattern of methods and header names [RFC 9110 5.6.2]."""

_HEADER_LINE: Final = re.compile(rb"%b:[\t -~\x80-\xff]*" % TOKEN)
_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_REASON_PHRASES: Final = {status.value: status.phrase for status in HTTPStatus}
_RESERVED_HEADERS: Final = frozenset({"connection", "content-length", "date", "transfer-encoding"})
_HEADER_NAME: Final = re.compile(TOKEN.decode())
_HEADER_VALUE: Final = re.compile("[\t -~\x80-\xff]*")
_STATUS_LINE: Final = re.compile(rb"HTTP/1\.([01]) ([1-9]\d\d)( [\t -~\x80-\xff]*)?")
_CHUNK_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,15})[\t ]*(;[\t -~\x80-\xff]*)?")


class BadMessage(Exception):
    """The received bytes are not HTTP, or exceed a limit. `status` is the status of the server's response."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


def check_header_lines(lines: list[bytes], max_headers: int) -> None:
    """Raise BadMessage if a header line, without its CRLF, does not match the grammar exactly."""
    if len(lines) > max_headers:
        raise BadMessage(431, f"more than {max_headers} headers")
    for line in lines:
        if _HEADER_LINE.fullmatch(line):
            continue
        if line[:1] in (b" ", b"\t"):
            # [RFC 9112 5.2] a server MUST reject obs-fold, or unfold it
            raise BadMessage(400, "a header is folded over two lines")
        name, colon, _ = line.partition(b":")
        if colon and re.fullmatch(TOKEN, name):
            raise BadMessage(400, f"the header {name.decode()[:100]} has a control character in its value")
        # [RFC 9112 5.1] whitespace between the name and the colon MUST be rejected
        raise BadMessage(400, f"a header line is not `name: value`: {line[:100]!r}")


def parse_response_head(head: bytes, max_headers: int) -> tuple[int, str, Headers]:
    """Return status, version and headers of a response head, which ends in an empty line. Raise BadMessage."""
    status_line, *lines = head[:-4].split(b"\r\n")
    found = _STATUS_LINE.fullmatch(status_line)
    if found is None:
        raise BadMessage(502, f"the first line is {status_line[:100]!r}, not `HTTP/1.1 status reason`")
    check_header_lines(lines, max_headers)
    pairs = [line.decode("latin-1").split(":", 1) for line in lines]
    return int(found[2]), f"HTTP/1.{found[1].decode()}", Headers((name, value.strip(" \t")) for name, value in pairs)


def is_persistent(headers: Headers, version: str) -> bool:
    """Return True if the sender of a head keeps the connection open. HTTP/1.0 keep-alive is not supported."""
    options = ",".join(headers.get_all("connection")).lower().split(",")
    return version >= "HTTP/1.1" and "close" not in [option.strip() for option in options]


def body_length(headers: Headers) -> int | None:
    """Return the length of a body in bytes, CHUNKED, or None if the head states no length. [RFC 9112 6.3]"""
    lengths, codings = headers.get_all("content-length"), headers.get_all("transfer-encoding")
    if codings:
        if lengths:
            # [RFC 9112 6.1] a server MAY reject a request that has both
            raise BadMessage(400, "Content-Length and Transfer-Encoding exclude each other")
        if [coding.lower() for coding in codings] != ["chunked"]:
            raise BadMessage(501, f"the only supported Transfer-Encoding is one `chunked`, not {codings!r:.100}")
        return CHUNKED
    if not lengths:
        return None
    if len(lengths) > 1:
        raise BadMessage(400, "duplicate header Content-Length")
    if not (lengths[0].isascii() and lengths[0].isdigit()):
        raise BadMessage(400, f"Content-Length is not a number: {lengths[0]!r:.100}")
    if len(lengths[0]) > 15:
        raise BadMessage(413, "the body is too large")
    return int(lengths[0])


class ChunkedBodyDecoder:
    """A decoder for a chunked body that arrives in pieces. Its state is a generator, resumed when more bytes arrive."""

    def __init__(self, buffer: bytearray) -> None:
        self.done = False
        """True if the body is complete."""
        self._buffer = buffer
        self._overhead = 0  # bytes of extensions and trailers so far
        self._pieces = self._decode()

    def decode(self) -> bytes:
        """Remove the body's bytes from the buffer and return the data in them. Raise BadMessage."""
        return b"".join(iter(self._pieces.__next__, b""))

    def _decode(self) -> Generator[bytes, None, None]:
        """Yield pieces of data, and an empty piece when the buffer needs more bytes."""
        while True:
            line = yield from self._read_line()
            found = _CHUNK_SIZE.fullmatch(line)
            if found is None:
                raise BadMessage(400, f"invalid chunk size: {line[:100]!r}")
            left = int(found[1], 16)
            self._count_overhead(len(line) - len(found[1]))  # [RFC 9112 7.1.1] unknown extensions MUST be ignored
            if left == 0:
                break
            while left:
                piece = bytes(self._buffer[:left])
                del self._buffer[: len(piece)]
                left -= len(piece)
                yield piece
            if (yield from self._read_line(must_be_empty=True)):
                raise BadMessage(400, "a chunk does not end where its size says")
        while line := (yield from self._read_line()):
            self._count_overhead(len(line))
            check_header_lines([line], 1)  # [RFC 9112 7.1.2] a recipient MAY discard trailers
        self.done = True

    def _read_line(self, must_be_empty: bool = False) -> Generator[bytes, None, bytes]:
        buffer = self._buffer
        while (end := buffer.find(b"\n")) < 0:
            if len(buffer) > MAX_CHUNK_OVERHEAD or (must_be_empty and bytes(buffer[:2]) not in (b"", b"\r")):
                raise BadMessage(400, "a chunk does not end where its size says")
            yield b""
        line = bytes(buffer[:end])
        del buffer[: end + 1]
        if not line.endswith(b"\r"):
            raise BadMessage(400, "a line between chunks ends in LF without CR")
        return line[:-1]

    def _count_overhead(self, size: int) -> None:
        self._overhead += size
        if self._overhead > MAX_CHUNK_OVERHEAD:
            raise BadMessage(400, f"more than {MAX_CHUNK_OVERHEAD} bytes of chunk extensions and trailers")


def encode_head(lines: list[str], headers: Iterable[tuple[str, str]], reserved: frozenset[str]) -> bytes:
    """Return the lines of a head to send, followed by those of the headers, each with its CRLF.

    Raise ValueError if a header is malformed or `reserved`. The message leaves out the value, a possible secret.
    """
    for name, value in headers:
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            raise ValueError(f"the header {name!r} cannot be sent: its name or value has a forbidden character")
        if name.lower() in reserved:
            raise ValueError(f"the header {name} is written by the library itself: remove it")
        lines.append(f"{name}: {value}")
    return "\r\n".join([*lines, ""]).encode("latin-1")


class ResponseHeadWriter:
    """A writer of response heads. It keeps them: a server repeats a few heads, and only the date changes."""

    def __init__(self) -> None:
        self._cached: dict[tuple[int, tuple[tuple[str, str], ...], bool], bytes] = {}
        self._date_line = (0, b"")  # the second that it is for, and the header line

    def write(self, status: int, headers: HeaderList, close: bool) -> bytes:
        """Return a head that lacks the body's length and the empty line. Raise ValueError for an invalid header."""
        key = (status, tuple(headers), close)
        head = self._cached.get(key)
        if head is None:
            # No Server header: it would help an attacker to find known flaws.
            head = encode_head([f"HTTP/1.1 {status} {_REASON_PHRASES.get(status, '')}"], headers, _RESERVED_HEADERS)
            head += b"Connection: close\r\n" if close else b""
            if len(self._cached) >= MAX_CACHED_RESPONSE_HEADS:
                self._cached.clear()
            self._cached[key] = head
        now = int(time.time())
        if now != self._date_line[0]:
            # [RFC 9110 5.6.7] the names are English; strftime would follow the locale
            t = time.gmtime(now)
            date = f"{_DAYS[t.tm_wday]}, {t.tm_mday:02} {_MONTHS[t.tm_mon - 1]} {time.strftime('%Y %H:%M:%S GMT', t)}"
            self._date_line = (now, f"Date: {date}\r\n".encode())
        return head + self._date_line[1]
