"""Syntax of HTTP/1.1 messages, for client and server: heads, the length of a body, and chunks.

    POST /mcp HTTP/1.1            \\
    Host: localhost                > the head: lines that end in CRLF, then an empty line
    Content-Length: 2             /

    {}                              the body: Content-Length states its size, or each chunk states its own size

A proxy and the server behind it must agree where a request ends. Otherwise an attacker can hide a second request in the
body of the first. The proxy does not check the hidden request, and another user may get the response to it (request
smuggling, RFC 9112 section 11.2). So this module refuses messages that two programs could read differently, even where
the RFC allows a guess:

    Refused message                                   Reason
    Content-Length and Transfer-Encoding together     Some programs count bytes, other programs read chunks.
    Content-Length twice, or with a sign or comma     Programs choose different numbers.
    Transfer-Encoding other than "chunked"            Some programs ignore a coding that they do not know.
    LF without CR, CR without LF                      Only some programs see the end of a line here.
    a line that begins with a space (obs-fold)        Some programs see a new header, other programs a longer value.
    a space before the colon                          Some programs ignore the header `Content-Length :`.
    a sign, `0x` or a space before a chunk size       Only some programs accept such a number.

`encode_head` refuses a header with a line break, because the text after the break would be another header (response
splitting).

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
"""The result of `body_length` for a chunked body."""
MAX_CHUNK_OVERHEAD: Final = 16 * 1024
"""Maximum overhead of the chunks of one message, in bytes: the size of the lines around the data, minus twice the size
of the data. It limits very small chunks, because they cost much time. (Go's net/http has a similar limit.)"""
MAX_RECEIVED_BYTES: Final = 64 * 1024
"""Maximum number of bytes that are read from a connection at once."""
MAX_CACHED_RESPONSE_HEADS: Final = 256
"""Maximum number of encoded response heads that a server caches."""
TOKEN: Final = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
"""Regular expression for methods and header names. [RFC 9110 5.6.2]"""

_TEXT: Final = "[\t -~\x80-\xff]*"
_HEADER_LINE: Final = re.compile(f"{TOKEN}:{_TEXT}")
_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_REASON_PHRASES: Final = {status.value: status.phrase for status in HTTPStatus}
RESERVED_HEADERS: Final = frozenset({"connection", "content-length", "date", "transfer-encoding"})  # written by us
_HEADER_NAME: Final = re.compile(TOKEN)
_HEADER_VALUE: Final = re.compile(_TEXT)
_STATUS_LINE: Final = re.compile(rf"HTTP/1\.([01]) ([1-9][0-9][0-9])( {_TEXT})?")
_CHUNK_LINE: Final = re.compile(rb"([0-9A-Fa-f]{1,15})[\t ]*(;[\t -~\x80-\xff]*)?\r\n")


class BadMessage(Exception):
    """A received message is invalid, too large, or not supported. A server responds with the `status`."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


def parse_headers(lines: list[str], max_headers: int) -> Headers:
    """Return the headers of a head. Raise BadMessage for too many lines, or for one that breaks the grammar.

    The lines have no CRLF, and are decoded as latin-1, so that each character is one byte.
    """
    if len(lines) > max_headers:
        raise BadMessage(431, f"the message has {len(lines)} headers; the limit is {max_headers}")
    pairs = []
    for line in lines:
        if not _HEADER_LINE.fullmatch(line):
            raise _header_fault(line)
        name, _, value = line.partition(":")
        pairs.append((name, value.strip(" \t")))
    return Headers(pairs)


def _header_fault(line: str) -> BadMessage:
    if line[:1] in (" ", "\t"):
        # [RFC 9112 5.2] a server MUST reject or unfold a folded header (obs-fold)
        return BadMessage(400, "a header is folded over several lines: send it on one line")
    name, colon, _ = line.partition(":")
    if colon and _HEADER_NAME.fullmatch(name):
        return BadMessage(400, f"the value of the header {name[:100]} contains a control character")
    # [RFC 9112 5.1] whitespace between the name and the colon MUST be rejected
    return BadMessage(400, f"a header line must be `name: value`, not {line[:100]!r}")


def parse_response_head(head: bytes, max_headers: int) -> tuple[int, str, Headers]:
    """Parse a response head, including its empty line. Return status, version and headers. Raise BadMessage."""
    status_line, *lines = head[:-4].decode("latin-1").split("\r\n")
    found = _STATUS_LINE.fullmatch(status_line)
    if found is None:
        raise BadMessage(502, f"the first line must be `HTTP/1.1 status reason`, not {status_line[:100]!r}")
    return int(found[2]), f"HTTP/1.{found[1]}", parse_headers(lines, max_headers)


def keeps_open(headers: Headers, version: str) -> bool:
    """Return True if the sender of a message keeps the connection open. HTTP/1.0 keep-alive is not supported."""
    options = headers.get_all("connection")
    closes = options and "close" in [option.strip() for option in ",".join(options).lower().split(",")]
    return version >= "HTTP/1.1" and not closes


def body_length(headers: Headers) -> int | None:
    """Return the body's length in bytes, CHUNKED, or None if the headers do not state it. Raise BadMessage."""
    lengths, codings = headers.get_all("content-length"), headers.get_all("transfer-encoding")
    if codings:
        if lengths:
            # [RFC 9112 6.1] a server MAY reject a request that has both
            raise BadMessage(400, "the message has Content-Length and Transfer-Encoding: send only one of them")
        if [coding.lower() for coding in codings] != ["chunked"]:
            raise BadMessage(501, f"Transfer-Encoding must be `chunked`, not {codings!r:.100}")
        return CHUNKED
    if not lengths:
        return None
    if len(lengths) > 1:
        raise BadMessage(400, "duplicate header Content-Length: send this header only once")
    if not (lengths[0].isascii() and lengths[0].isdigit()):
        raise BadMessage(400, f"Content-Length must be a number of bytes, not {lengths[0]!r:.100}")
    if len(lengths[0]) > 15:
        raise BadMessage(413, "the body is too large: its Content-Length has more than 15 digits")
    return int(lengths[0])


class ChunkDecoder:
    """A decoder for a chunked body that arrives in pieces, so that `decode` is called again when more bytes arrive."""

    def __init__(self, buffer: bytearray) -> None:
        self.done = False
        self._buffer = buffer
        self._overhead = 0  # bytes, see MAX_CHUNK_OVERHEAD
        self._pieces = self._decode()

    def decode(self) -> bytes:
        """Remove bytes of the body from the buffer, and return the decoded data. Raise BadMessage."""
        decoded = list[bytes]()
        for piece in self._pieces:
            if not piece:  # the buffer needs more bytes
                break
            decoded.append(piece)
        return b"".join(decoded)

    def _decode(self) -> Generator[bytes, None, None]:
        """Yield pieces of data. Yield b"" when the buffer needs more bytes; the next `decode` continues from there."""
        while True:
            data = self._take_whole_chunks()
            if data:
                yield data
            line = yield from self._read_line()
            found = _CHUNK_LINE.fullmatch(line + b"\r\n")
            if found is None:
                raise BadMessage(400, f"invalid chunk size: {line[:100]!r}")
            bytes_left = int(found[1], 16)
            crlfs = 2 * len(b"\r\n")  # one after the line, and one after the data
            self._count_overhead(len(line) + crlfs - 2 * bytes_left)
            if bytes_left == 0:  # the last chunk
                break
            while bytes_left:
                piece = bytes(self._buffer[:bytes_left])  # b"" if the buffer needs more bytes
                del self._buffer[: len(piece)]
                bytes_left -= len(piece)
                yield piece
            if (yield from self._read_line(must_be_empty=True)):
                raise BadMessage(400, "a chunk has more data than its size says")
        while line := (yield from self._read_line()):  # trailers, which are headers after the body
            self._count_overhead(len(line))
            parse_headers([line.decode("latin-1")], 1)  # [RFC 9112 7.1.2] a recipient MAY discard trailers
        self.done = True

    def _take_whole_chunks(self) -> bytes:
        """Remove the complete chunks before the last one, and return their data, 3 times as fast as line by line."""
        received = bytes(self._buffer)
        position = 0  # where the line of the next chunk begins
        overhead = self._overhead
        pieces = list[bytes]()
        # [RFC 9112 7.1.1] unknown extensions MUST be ignored
        while (found := _CHUNK_LINE.match(received, position)) is not None:
            start = found.end()
            end = start + int(found[1], 16)
            line_size = start - position
            if start == end or received[end : end + 2] != b"\r\n" or overhead + line_size > MAX_CHUNK_OVERHEAD:
                break  # `_decode` handles the last chunk, an incomplete one, and errors
            pieces.append(received[start:end])
            overhead += line_size + 2 - 2 * (end - start)  # as `_decode` counts it, with 2 for the CRLF after the data
            if overhead < 0:
                overhead = 0
            position = end + 2
        self._overhead = overhead
        del self._buffer[:position]
        return b"".join(pieces)

    def _read_line(self, must_be_empty: bool = False) -> Generator[bytes, None, bytes]:
        """Remove a line from the buffer, and return it without its CRLF. Yield b"" until it is complete.

        With `must_be_empty`, raise BadMessage as soon as the line has data, instead of buffering all of the line.
        """
        buffer = self._buffer
        while (end := buffer.find(b"\n", 0, MAX_CHUNK_OVERHEAD)) < 0:
            has_data = must_be_empty and bytes(buffer[:2]) not in (b"", b"\r")
            if has_data or len(buffer) >= MAX_CHUNK_OVERHEAD:
                raise BadMessage(400, "a chunk has more data than its size says, or a line between chunks is too long")
            yield b""
        line = bytes(buffer[:end])
        del buffer[: end + 1]
        if not line.endswith(b"\r"):
            raise BadMessage(400, "a line between chunks ends in LF without CR")
        return line[:-1]

    def _count_overhead(self, size: int) -> None:
        """Add to the overhead, in bytes. `size` is negative for a chunk with much data, but the overhead never falls
        below 0, so that a large chunk does not allow many small ones after it."""
        self._overhead = max(0, self._overhead + size)
        if self._overhead > MAX_CHUNK_OVERHEAD:
            raise BadMessage(400, "the chunks are too small, or their extensions or the trailers are too large")


def encode_head(lines: list[str], headers: Iterable[tuple[str, str]], reserved: frozenset[str]) -> bytes:
    """Return the bytes of the given lines, followed by a line for each header. Each line ends in CRLF.

    Raise ValueError if a header is malformed, or if `reserved` contains its name. The error omits its value, which may
    be a secret.
    """
    for name, value in headers:
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            fault = "its name or value contains a forbidden character"
            raise ValueError(f"the header {name!r:.100} cannot be sent: {fault}")
        if name.lower() in reserved:
            raise ValueError(f"the library itself writes the header {name}: do not pass this header")
        lines.append(f"{name}: {value}")
    return "\r\n".join([*lines, ""]).encode("latin-1")


class ResponseHeadWriter:
    """An encoder for response heads, which it caches, because most differ only in the date."""

    def __init__(self) -> None:
        self._cached: dict[tuple[int, tuple[tuple[str, str], ...], bool], bytes] = {}
        self._date_second, self._date_line = 0, b""  # a Unix time, and the Date header for it

    def write(self, status: int, headers: HeaderList, close: bool) -> bytes:
        """Return a head without the body's length and the final empty line. Raise ValueError for an invalid header."""
        key = (status, tuple(headers), close)
        head = self._cached.get(key)
        if head is None:
            # We send no Server header, because it would help an attacker to find known flaws of this server.
            head = encode_head([f"HTTP/1.1 {status} {_REASON_PHRASES.get(status, '')}"], headers, RESERVED_HEADERS)
            head += b"Connection: close\r\n" if close else b""
            if len(self._cached) >= MAX_CACHED_RESPONSE_HEADS:
                self._cached.clear()
            self._cached[key] = head
        now = int(time.time())
        if now != self._date_second:
            # [RFC 9110 5.6.7] the names are English, but those of strftime are in the language of the locale
            utc = time.gmtime(now)
            day = f"{_DAYS[utc.tm_wday]}, {utc.tm_mday:02} {_MONTHS[utc.tm_mon - 1]}"
            date = f"{day} {time.strftime('%Y %H:%M:%S GMT', utc)}"
            self._date_second, self._date_line = now, f"Date: {date}\r\n".encode()
        return head + self._date_line
