"""Where a message ends, and what is not HTTP: checks that come before the standard library's lenient parsers.

Two programs that disagree about where a message ends can be made to disagree about whose the next one is (request
smuggling). So whatever two readers could read in two ways is refused, also where the RFC would let us guess.

    POST /mcp HTTP/1.1            \\
    Host: localhost                > the head: lines that end in CRLF, then an empty one
    Content-Length: 2             /

    {}                              the body: so many bytes; or chunks, each with its size before it

Spec:  RFC 9112, sections 2.2 (parsing), 5 (fields), 6 (body length), 7 (transfer codings)
"""

from __future__ import annotations

import re
from typing import Final

from .message import Headers

CHUNKED: Final = -1
"""In the place of a length: the body comes in chunks."""

UNTIL_CLOSE: Final = -2
"""In the place of a length: the body ends with the connection. Responses only."""

MAX_CHUNK_OVERHEAD: Final = 16 * 1024
"""Bytes of one message that chunk extensions and trailers may take (16 KiB, as in Go's net/http)."""

TOKEN: Final = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
"""[RFC 9110 5.6.2] what methods and field names are made of"""

_REQUEST_LINE: Final = re.compile(rb"(%b) ([!-~]+) HTTP/(\d\.\d)" % TOKEN)
_FIELD: Final = re.compile(rb"%b:[\t -~\x80-\xff]*" % TOKEN)
_CHUNK_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,15})[\t ]*(;[\t -~\x80-\xff]*)?")


class BadMessage(Exception):
    """What came is not HTTP, or too much of it. `status`: how a server answers that."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


def find_head_end(buffer: bytearray, start: int = 0) -> int:
    """The length of the head that `buffer` begins with, its empty line included; 0 while that has not come.

    start: how far an earlier call has looked. Raises BadMessage when it can no longer come: a line ends without CR.
    """
    end = buffer.find(b"\r\n\r\n", max(0, start - 3))
    # [RFC 9112 2.2] MAY recognise a single LF as a line end; others do not, so it is refused
    if end < 0 and buffer.count(b"\n") != buffer.count(b"\r\n"):
        raise BadMessage(400, "a line of the head ends in LF without CR")
    return end + 4 if end >= 0 else 0


def check_request_head(head: bytes, max_headers: int) -> None:
    """Refuse a head that is not exactly what the grammar says."""
    request_line, *fields = head[:-4].split(b"\r\n")
    found = _REQUEST_LINE.fullmatch(request_line)
    if found is None:
        raise BadMessage(400, "the request line is not `method target HTTP/version`, with one space between each")
    if found[3][:1] != b"1":
        raise BadMessage(505, "this is an HTTP/1 server")
    if b"#" in found[2]:
        raise BadMessage(400, "a request target has no fragment")
    check_fields(fields, max_headers)


def check_fields(fields: list[bytes], max_headers: int) -> None:
    """Refuse field lines, without their CRLF, that are not exactly what the grammar says."""
    if len(fields) > max_headers:
        raise BadMessage(431, f"more than {max_headers} header fields")
    for line in fields:
        if _FIELD.fullmatch(line):
            continue
        if line[:1] in (b" ", b"\t"):
            # [RFC 9112 5.2] a server MUST reject obs-fold, or unfold it
            raise BadMessage(400, "a header field is folded over two lines")
        name, colon, _ = line.partition(b":")
        if colon and re.fullmatch(TOKEN, name):
            raise BadMessage(400, f"the header field {name.decode()[:100]} has a control character in its value")
        # [RFC 9112 5.1] whitespace between the name and the colon MUST be rejected
        raise BadMessage(400, f"a header line is not `name: value`: {line[:100]!r}")


def request_length(headers: Headers, version: str) -> int:
    """The length of a request's body, or CHUNKED. version: such as "HTTP/1.1"."""
    length = _stated_length(headers)
    if length == CHUNKED and version < "HTTP/1.1":
        # [RFC 9112 6.1] Transfer-Encoding in an HTTP/1.0 message: framing is faulty
        raise BadMessage(400, "Transfer-Encoding is not for HTTP/1.0")
    return 0 if length is None else length  # [RFC 9112 6.3, rule 7] no length: no body


def response_length(headers: Headers, status: int, method: str) -> int:
    """The length of a response's body, CHUNKED or UNTIL_CLOSE. method: that of the request."""
    if method == "HEAD" or status < 200 or status in (204, 304):
        return 0  # [RFC 9112 6.3, rule 1]
    length = _stated_length(headers)
    return UNTIL_CLOSE if length is None else length


def _stated_length(headers: Headers) -> int | None:
    lengths, codings = headers.get_all("content-length"), headers.get_all("transfer-encoding")
    if codings:
        if lengths:
            # [RFC 9112 6.1] a server MAY reject a message with both; each is how requests are smuggled past the other
            raise BadMessage(400, "Content-Length and Transfer-Encoding exclude each other")
        if [coding.lower() for coding in codings] != ["chunked"]:
            raise BadMessage(501, f"Transfer-Encoding may be chunked, once, and nothing else: {codings!r:.100}")
        return CHUNKED
    if not lengths:
        return None
    if len(lengths) > 1:
        raise BadMessage(400, "Content-Length stands there twice")
    if not (lengths[0].isascii() and lengths[0].isdigit()):
        raise BadMessage(400, f"Content-Length is not a number: {lengths[0]!r:.100}")
    if len(lengths[0]) > 15:
        raise BadMessage(413, "the body is too large")
    return int(lengths[0])


class ChunkedBody:
    """Takes a chunked body apart, as it comes."""

    def __init__(self) -> None:
        self.done = False
        self._left = 0  # bytes of the current chunk that have not come
        self._next = "size"  # what stands next, when no chunk data do: its size, the CRLF after it, or a trailer
        self._overhead = 0

    def feed(self, buffer: bytearray) -> bytes:
        """Take what has come out of `buffer`, and give the data in it. Bytes after the body stay. Raises BadMessage."""
        data = bytearray()
        while not self.done:
            if self._left:
                piece = buffer[: self._left]
                if not piece:
                    break
                del buffer[: len(piece)]
                self._left -= len(piece)
                data += piece
            elif (line := self._take_line(buffer)) is None:
                break
            else:
                self._take(line)
        return bytes(data)

    def _take_line(self, buffer: bytearray) -> bytes | None:
        end = buffer.find(b"\n")
        if end < 0:
            if len(buffer) > MAX_CHUNK_OVERHEAD or (self._next == "end" and bytes(buffer[:2]) not in (b"", b"\r")):
                raise BadMessage(400, "a chunk does not end where its size says")
            return None
        line = bytes(buffer[:end])
        del buffer[: end + 1]
        if not line.endswith(b"\r"):
            raise BadMessage(400, "a line between chunks ends in LF without CR")
        return line[:-1]

    def _take(self, line: bytes) -> None:
        if self._next == "size":
            found = _CHUNK_SIZE.fullmatch(line)
            if found is None:
                raise BadMessage(400, f"not the size of a chunk: {line[:100]!r}")
            self._left = int(found[1], 16)
            self._spend(len(line) - len(found[1]))  # [RFC 9112 7.1.1] unknown extensions MUST be ignored; but not many
            self._next = "end" if self._left else "trailer"
        elif self._next == "end":
            if line:
                raise BadMessage(400, "a chunk does not end where its size says")
            self._next = "size"
        elif line:
            self._spend(len(line))
            check_fields([line], 1)  # [RFC 9112 7.1.2] trailers MAY be discarded
        else:
            self.done = True

    def _spend(self, size: int) -> None:
        self._overhead += size
        if self._overhead > MAX_CHUNK_OVERHEAD:
            raise BadMessage(400, f"chunk extensions and trailers of more than {MAX_CHUNK_OVERHEAD} bytes")
