"""One connection over HTTP/1.1 as events: requests, and the bodies or server-sent events of their responses.

Both directions are only watched, not parsed on their way, so bytes that are not HTTP reach the other side too. Where
this module cannot follow them, it ends its part of the recording with a `Gap`.

Spec:  RFC 9112, sections 6 (body length) and 9.3 (persistence); HTML standard, 9.2.6 (event streams)
Used by: proxy.py. Uses: streams.py, lib/http/framing.py
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from ..check.recording import Content, Ending, Event, Gap, HttpBody, HttpEnd, HttpEvent, HttpRequest, HttpResponse, Side
from ..lib.http.framing import CHUNKED, BadMessage, ChunkDecoder, body_length, parse_headers
from ..lib.http.message import Headers
from .streams import GrowingContent

MAX_HEAD: Final = 256 * 1024
"""Maximum size of a head that is read, in bytes. The bytes after a larger one are not recorded."""
MAX_PIPELINED: Final = 1000
"""Maximum number of requests without a response. The ones after them are not recorded."""
_ZIPPED: Final = ("gzip", "x-gzip", "deflate")
_ANY_ZIP: Final = 15 + 32  # the largest window, and both the form of gzip and of deflate
_RAW_DEFLATE: Final = -15  # the largest window, and deflate without its head, which some servers send
MAX_FIELD: Final = 64 * 1024
"""Maximum size of a line of an event stream that is kept as a whole, in bytes."""


class HttpStream:
    """The events of one connection.

    Args:
        connection: Number of the connection.
        numbers: Numbers for the requests of all connections.
    """

    def __init__(self, connection: int, numbers: Iterator[int]) -> None:
        self._connection, self._numbers = connection, numbers
        self._waiting: deque[_Waiting] = deque()  # requests without a complete response, without their bodies
        self._readers = {"client": MessageReader(None), "server": MessageReader(self._has_no_body)}
        self._head: MessageHead | None = None  # of the request whose body is arriving
        self._request_body = GrowingContent()
        self._current: _Response | None = None  # the response whose body is arriving
        self._is_lost = False
        self._ended_first: Side | None = None

    def _has_no_body(self) -> bool:
        """Return True if the current response belongs to a HEAD request."""
        return bool(self._waiting) and self._waiting[0].method == "HEAD"

    def receive(self, at: float, side: Side, data: bytes) -> Iterator[Event]:
        if self._is_lost:
            return
        try:
            for part in self._readers[side].feed(data):
                yield from self._request(at, part) if side == "client" else self._response(at, part)
                if self._is_lost:
                    return
        except BadMessage as error:
            yield from self._stop(at, len(data), str(error))

    def _request(self, at: float, part: _Part) -> Iterator[Event]:
        if isinstance(part, MessageHead):
            self._head = part
        elif part:
            self._request_body.add(part)
        else:
            yield from self._end_request(at)

    def _end_request(self, at: float) -> Iterator[Event]:
        """Yield the request whose body has ended, if it was not yielded before."""
        if self._head is None:
            return
        if len(self._waiting) >= MAX_PIPELINED:
            yield from self._stop(at, 0, f"{MAX_PIPELINED} requests have no response yet")
            return
        method, _, rest = self._head.line.partition(" ")
        target, headers = rest.rpartition(" ")[0], tuple(self._head.headers)
        content = _content(self._request_body, _coding(self._head) != "identity")
        self._head, number = None, next(self._numbers)
        self._waiting.append(_Waiting(number, method))
        yield HttpRequest(number, method, target, headers, content, at=at, connection=self._connection)

    def _response(self, at: float, part: _Part) -> Iterator[Event]:
        if not self._waiting:
            yield from self._end_request(at)  # the server can respond before the end of the body
        if not self._waiting:
            raise BadMessage(502, "a response came without a request")
        number, connection = self._waiting[0].number, self._connection
        if isinstance(part, MessageHead):
            self._current = _Response(part)
            yield HttpResponse(number, part.status, tuple(part.headers), at=at, connection=connection)
            if part.status == 101:
                yield from self._stop(at, 0, "it changed to another protocol")
        elif not part:
            yield from self._end_response(at, "complete")
        elif self._current is not None:
            for fields in self._current.feed(part):
                yield HttpEvent(number, *fields, at=at, connection=connection)

    def _end_response(self, at: float, how: Ending) -> Iterator[Event]:
        response, self._current = self._current, None
        body = response.take() if response is not None else Content(b"", 0)
        if body.size:
            yield HttpBody(self._waiting[0].number, body, at=at, connection=self._connection)
        if how == "complete" and response is not None and response.status < 200:
            return  # after a 1xx response, the final one follows
        yield HttpEnd(self._waiting.popleft().number, how, at=at, connection=self._connection)

    def lose(self, at: float, side: Side, lines: int, size: int) -> Iterator[Event]:
        yield from self._stop(at, size, "the disk was too slow")

    def _stop(self, at: float, size: int, because: str) -> Iterator[Event]:
        if not self._is_lost:
            self._is_lost = True
            yield Gap(1, size, f"the rest of connection {self._connection} is not recorded: {because}", at=at)

    def end(self, at: float, side: Side) -> Iterator[Event]:
        if self._is_lost:
            return
        self._ended_first = self._ended_first or side
        if side == "client":
            yield from self._end_request(at)
        if side == "server" and self._waiting and self._readers["server"].ends_with_connection:
            yield from self._end_response(at, "complete")
        while self._waiting and side == "server":
            yield from self._end_response(at, self._ended_first)


class _Response:
    """A response whose body arrives: as a whole, or as server-sent events, in both cases without its compression."""

    def __init__(self, head: MessageHead) -> None:
        coding = _coding(head)
        is_stream = head.headers.media_type == "text/event-stream"
        self.status = head.status
        self._is_unreadable = coding not in (*_ZIPPED, "identity")
        self._whole = GrowingContent()
        self._events = _EventReader() if is_stream and not self._is_unreadable else None
        self._unzip = zlib.decompressobj(_ANY_ZIP) if coding in _ZIPPED else None
        self._unzip_raw = zlib.decompressobj(_RAW_DEFLATE) if coding == "deflate" else None  # for the first piece

    def feed(self, data: bytes) -> Iterator[_EventFields]:
        """Yield the server-sent events that these bytes complete. Keep the bytes of another body."""
        for piece in self._unzipped(data):
            if self._events is None:
                self._whole.add(piece)
            else:
                yield from self._events.feed(piece)

    def _unzipped(self, piece: bytes) -> Iterator[bytes]:
        """Yield a piece of a body without its compression, in small pieces. Bytes that are not compressed stay."""
        while self._unzip is not None and piece:
            try:
                found = self._unzip.decompress(piece, MAX_FIELD)
            except zlib.error:
                self._unzip, self._unzip_raw = self._unzip_raw, None
                continue
            self._unzip_raw = None
            yield found
            piece = self._unzip.unconsumed_tail
        if piece:
            yield piece

    def take(self) -> Content:
        """Return the body that is not an event stream."""
        return _content(self._whole, self._is_unreadable)


def _coding(head: MessageHead) -> str:
    return (head.headers.get("content-encoding") or "identity").strip().lower()


def _content(body: GrowingContent, is_unreadable: bool) -> Content:
    """Return a body. Of a compressed one only size and digest, because nobody could find the secrets in it."""
    whole = body.take()
    if not is_unreadable or not whole.size:
        return whole
    return Content(b"", whole.size, whole.sha256 or hashlib.sha256(whole.data).hexdigest())


@dataclass
class _Waiting:
    """A request that has no complete response yet."""

    number: int
    method: str


@dataclass
class MessageHead:
    """The start line and the headers of a message."""

    line: str
    headers: Headers
    status: int = 0


_Part = MessageHead | bytes
"""A head, a piece of a body, or b"" at the end of a body."""


class MessageReader:
    """The messages in one direction, in parts. The bytes of unfinished parts stay in `buffer`.

    Args:
        has_no_body: Function that returns True if the current response has no body. None for requests.
    """

    def __init__(self, has_no_body: Callable[[], bool] | None) -> None:
        self._has_no_body = has_no_body
        self.buffer = bytearray()
        self._left: int | None = None  # bytes of the body to come, or CHUNKED; None before a head
        self._chunks: ChunkDecoder | None = None
        self.ends_with_connection = False
        """True if the end of the connection is the end of the current message."""

    def feed(self, data: bytes) -> Iterator[_Part]:
        """Yield the parts of messages that these bytes complete. Raise BadMessage if they are not HTTP."""
        self.buffer += data
        while self.buffer or self._left == 0:  # a message without a body ends with its head
            if self._left is None:
                if not self._is_head_whole():
                    return
                yield self._take_head()
                continue
            piece, is_done = self._take_body()
            if piece:
                yield piece
            if not is_done:
                return
            self._left = self._chunks = None
            yield b""

    @property
    def is_in_body(self) -> bool:
        """True if the next byte belongs to a body."""
        return self._left is not None

    def _is_head_whole(self) -> bool:
        while self.buffer.startswith(b"\r\n"):
            del self.buffer[:2]  # [RFC 9112 2.2] a server SHOULD ignore an empty line before the request line
        if b"\r\n\r\n" in self.buffer:
            return True
        if len(self.buffer) > MAX_HEAD:
            raise BadMessage(431, "a head is too large")
        return False

    def _take_head(self) -> MessageHead:
        end = self.buffer.index(b"\r\n\r\n")
        line, *lines = bytes(self.buffer[:end]).decode("latin-1").split("\r\n")
        del self.buffer[: end + 4]
        headers, words = parse_headers(lines, MAX_HEAD), line.split(" ")
        is_request, status = self._has_no_body is None, 0
        if not words[-1 if is_request else 0].startswith("HTTP/1.") or len(words) < 2:
            raise BadMessage(400, "the bytes are not HTTP/1")
        length = body_length(headers)
        self.ends_with_connection = False
        if self._has_no_body is not None:
            status = int(words[1]) if re.fullmatch("[1-9][0-9][0-9]", words[1]) else 0
            if self._has_no_body() or 100 <= status < 200 or status in (204, 304):
                length = 0
            self.ends_with_connection = length is None
        self._chunks = ChunkDecoder(self.buffer) if length == CHUNKED else None
        self._left = length or 0
        return MessageHead(line, headers, status)

    def _take_body(self) -> tuple[bytes, bool]:
        """Return the next bytes of the body, and True if they are the last."""
        if self._chunks is not None:
            return self._chunks.decode(), self._chunks.done
        size = len(self.buffer) if self.ends_with_connection else self._left or 0
        piece = bytes(self.buffer[:size])
        del self.buffer[:size]
        if not self.ends_with_connection:
            self._left = size - len(piece)
        return piece, not self.ends_with_connection and self._left == 0


_EventFields = tuple[Content, str | None, int | None, str]
"""Data, id, retry and type of one server-sent event, without those that a client carries over from an earlier one."""


class _EventReader:
    """The events of a stream. Unlike `lib/http/sse.EventParser`, it never holds a whole large event."""

    def __init__(self) -> None:
        self._line, self._data = bytearray(), GrowingContent()
        self._fields: dict[str, str] = {}
        self._has_data = self._is_in_data = False  # _is_in_data: the start of the current line is already in _data

    def feed(self, data: bytes) -> Iterator[_EventFields]:
        """Yield the events that these bytes complete."""
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._line += line
            whole = bytes(self._line.removesuffix(b"\r"))
            self._line.clear()
            if self._is_in_data:
                self._is_in_data = False
                self._data.add(whole)
            elif whole:
                self._read_field(whole)
            elif self._has_data or self._fields:
                yield self._take_event()
        self._line += rest
        if len(self._line) > MAX_FIELD:  # else a line of 100 MB would be in memory
            if self._is_in_data:
                self._data.add(bytes(self._line[:-1]))
            elif not self._line.startswith(b"data:"):
                raise BadMessage(502, "a line of an event stream is too long")
            else:
                self._read_field(bytes(self._line[:-1]))
                self._is_in_data = True
            del self._line[:-1]  # the last byte can be the CR of a line end

    def _read_field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.add(b"\n" + value if self._has_data else value)
            self._has_data = True
        elif name in (b"id", b"event", b"retry"):
            self._fields[name.decode()] = value.decode("utf-8", "replace")

    def _take_event(self) -> _EventFields:
        fields, self._fields, self._has_data = self._fields, {}, False
        retry = fields.get("retry", "")
        is_number = retry.isascii() and retry.isdigit() and len(retry) < 16
        return self._data.take(), fields.get("id"), int(retry) if is_number else None, fields.get("event") or "message"
