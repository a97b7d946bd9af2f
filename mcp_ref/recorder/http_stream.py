"""One connection over HTTP/1.1 as events: requests, and the bodies or server-sent events of their responses.

    bytes of one side -> `MessageReader`: heads and pieces of bodies -> `HttpStream`: events of the recording
                              a response that is an event stream: `_EventReader` finds the events in it

This module reads copies of the bytes that the proxy passes on. When it cannot parse them, it yields a `Gap`, and then
nothing more of this connection.

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
from typing import Final, NamedTuple

from ..check.recording import Content, Ending, Event, Gap, HttpBody, HttpEnd, HttpEvent, HttpRequest, HttpResponse, Side
from ..lib.http.framing import CHUNKED, BadMessage, ChunkDecoder, body_length, parse_headers
from ..lib.http.message import Headers
from .streams import GrowingContent

MAX_HEAD: Final = 256 * 1024
"""Maximum size of a head, in bytes. A connection with a larger one is not recorded from there on."""
MAX_PIPELINED: Final = 1000
"""Maximum number of requests without a response. A connection with more of them is not recorded from there on."""
_ZIPPED: Final = ("gzip", "x-gzip", "deflate")
_GZIP_OR_ZLIB: Final = 15 + 32  # `wbits` of zlib: the largest window, 15, and 32 to detect the header of gzip or zlib
_RAW_DEFLATE: Final = -15  # the same window; negative for no header, as some servers send deflate
MAX_LINE: Final = 64 * 1024
"""Maximum size of a line of an event stream in memory, in bytes. Only lines of data may be longer."""


class HttpStream:
    """The events of one connection.

    Args:
        connection: Number of the connection.
        numbers: The next numbers of requests, which all connections share.
        ends_on_fault: True if the proxy ends the connection after an invalid request.
    """

    def __init__(self, connection: int, numbers: Iterator[int], ends_on_fault: bool = False) -> None:
        self._ends_on_fault = ends_on_fault
        self._connection, self._numbers = connection, numbers
        self._open_requests: deque[_OpenRequest] = deque()  # without a complete response; the oldest is answered next
        self._readers = {"client": MessageReader(None), "server": MessageReader(self._is_head_response)}
        self._request_head: MessageHead | None = None  # of a request that is not yielded yet
        self._request_body = GrowingContent()
        self._response_body: _ResponseBody | None = None  # the response whose body is arriving
        self._has_stopped = False  # True if nothing more of this connection is recorded
        self._ended_first: Side | None = None

    def _is_head_response(self) -> bool:
        """Return True if the current response belongs to a HEAD request, and so has no body."""
        return bool(self._open_requests) and self._open_requests[0].method == "HEAD"

    def receive(self, at: float, side: Side, data: bytes) -> Iterator[Event]:
        if self._has_stopped:
            return
        try:
            for part in self._readers[side].feed(data):
                if side == "client":
                    yield from self._read_request(at, part)
                else:
                    yield from self._read_response(at, part)
                if self._has_stopped:
                    return
        except BadMessage as error:
            if self._ends_on_fault and side == "client":
                self._has_stopped = True
                yield Gap(1, len(data), f"the recorder ended connection {self._connection}: {error}", at=at)
            else:
                yield from self._stop(at, len(data), str(error))

    def _read_request(self, at: float, part: _MessagePart) -> Iterator[Event]:
        if isinstance(part, MessageHead):
            self._request_head = part
        elif part:
            self._request_body.add(part)
        else:  # the end of the body
            yield from self._end_request(at)

    def _end_request(self, at: float) -> Iterator[Event]:
        """Yield the request that is being read, with the body so far. Does nothing between two requests."""
        head, self._request_head = self._request_head, None
        if head is None:
            return
        if len(self._open_requests) >= MAX_PIPELINED:
            yield from self._stop(at, 0, f"{MAX_PIPELINED} requests have no response yet")
            return
        method, _, rest = head.start_line.partition(" ")
        target, _, _ = rest.rpartition(" ")  # the last word is the version of HTTP
        content = _content(self._request_body, is_unreadable=_coding(head) != "identity")
        number = next(self._numbers)
        self._open_requests.append(_OpenRequest(number, method))
        yield HttpRequest(number, method, target, tuple(head.headers), content, at=at, connection=self._connection)

    def _read_response(self, at: float, part: _MessagePart) -> Iterator[Event]:
        if not self._open_requests:
            yield from self._end_request(at)  # the server may respond before it has the request's whole body
        if not self._open_requests:  # not even an unfinished one
            raise BadMessage(502, "a response came without a request")
        number, connection = self._open_requests[0].number, self._connection
        if isinstance(part, MessageHead):
            self._response_body = _ResponseBody(part)
            yield HttpResponse(number, part.status, tuple(part.headers), at=at, connection=connection)
            if part.status == 101:
                yield from self._stop(at, 0, "it changed to another protocol")
        elif not part:  # the end of the body
            yield from self._end_response(at, "complete")
        elif self._response_body is not None:
            for fields in self._response_body.feed(part):
                yield HttpEvent(number, *fields, at=at, connection=connection)

    def _end_response(self, at: float, ending: Ending) -> Iterator[Event]:
        """End the response to the oldest open request. Its head may not have come, if the connection has ended."""
        response, self._response_body = self._response_body, None
        if response is not None:
            body = response.take()
            if body.size:
                yield HttpBody(self._open_requests[0].number, body, at=at, connection=self._connection)
            if ending == "complete" and response.status < 200:
                return  # after a 1xx response, the final one follows
        yield HttpEnd(self._open_requests.popleft().number, ending, at=at, connection=self._connection)

    def lose(self, at: float, side: Side, lines: int, size: int) -> Iterator[Event]:
        yield from self._stop(at, size, "the disk was too slow")

    def _stop(self, at: float, size: int, because: str) -> Iterator[Event]:
        """Yield the gap after which nothing more of this connection is recorded. `size` is in bytes."""
        if not self._has_stopped:
            self._has_stopped = True
            yield Gap(1, size, f"the rest of connection {self._connection} is not recorded: {because}", at=at)

    def end(self, at: float, side: Side) -> Iterator[Event]:
        if self._has_stopped:
            return
        self._ended_first = self._ended_first or side
        if side == "client":
            yield from self._end_request(at)
            return
        if self._open_requests and self._readers["server"].ends_with_connection:
            yield from self._end_response(at, "complete")
        while self._open_requests:
            yield from self._end_response(at, self._ended_first)


class _ResponseBody:
    """The body of a response that is arriving. It is decompressed, and is one content, or server-sent events."""

    def __init__(self, head: MessageHead) -> None:
        coding = _coding(head)
        is_stream = head.headers.media_type == "text/event-stream"
        self.status = head.status
        self._is_unreadable = coding not in (*_ZIPPED, "identity")
        self._kept = GrowingContent()  # a body that is not an event stream
        self._events = _EventReader() if is_stream and not self._is_unreadable else None
        self._unzip = zlib.decompressobj(_GZIP_OR_ZLIB) if coding in _ZIPPED else None
        # the second attempt, if the body does not begin with a header
        self._unzip_raw = zlib.decompressobj(_RAW_DEFLATE) if coding == "deflate" else None

    def feed(self, data: bytes) -> Iterator[_EventFields]:
        """Yield the events that these bytes complete if the body is an event stream; else keep the bytes for `take`."""
        for piece in self._unzipped(data):
            if self._events is None:
                self._kept.add(piece)
            else:
                yield from self._events.feed(piece)

    def _unzipped(self, piece: bytes) -> Iterator[bytes]:
        """Yield the decompressed bytes in small pieces. Bytes that are not compressed come back unchanged."""
        while self._unzip is not None and piece:
            try:
                unzipped = self._unzip.decompress(piece, MAX_LINE)
            except zlib.error:
                # Try the other one next. Without a decompressor, the bytes stay as they are.
                self._unzip, self._unzip_raw = self._unzip_raw, None
                continue
            self._unzip_raw = None
            yield unzipped
            piece = self._unzip.unconsumed_tail
        if piece:
            yield piece

    def take(self) -> Content:
        """Return the kept body. An event stream has none."""
        return _content(self._kept, self._is_unreadable)


def _coding(head: MessageHead) -> str:
    return (head.headers.get("content-encoding") or "identity").strip().lower()


def _content(body: GrowingContent, is_unreadable: bool) -> Content:
    """Return a body; only its size and digest if it is unreadable, because no secrets could be masked in it."""
    content = body.take()
    if not is_unreadable or not content.size:
        return content
    return Content(b"", content.size, content.sha256 or hashlib.sha256(content.data).hexdigest())


@dataclass
class _OpenRequest:
    """A request that has no complete response yet."""

    number: int
    method: str


@dataclass
class MessageHead:
    """The start line and the headers of a message."""

    start_line: str
    headers: Headers
    status: int = 0
    """The status of a response; 0 for a request, and for an invalid status."""


_MessagePart = MessageHead | bytes
"""A head, a piece of a body, or b"" at the end of a body."""


class MessageReader:
    """The messages in one direction, in parts. The bytes of unfinished parts stay in `buffer`.

    Args:
        is_head_response: Function that returns True if the current response belongs to a HEAD request. None if the
            messages are requests.
    """

    def __init__(self, is_head_response: Callable[[], bool] | None) -> None:
        self._is_head_response = is_head_response
        self.buffer = bytearray()
        self.is_in_body = False
        """True if the next byte belongs to a body."""
        self._left = 0  # bytes that a body of a known length still lacks
        self._chunks: ChunkDecoder | None = None  # for a chunked body
        self.ends_with_connection = False
        """True if the end of the connection is the end of the current message."""

    def feed(self, data: bytes) -> Iterator[_MessagePart]:
        """Yield the parts of messages that these bytes complete. Raise BadMessage if they are not HTTP."""
        self.buffer += data
        while True:
            if not self.is_in_body:
                if not self._has_whole_head():
                    return
                yield self._take_head()
            piece, is_done = self._take_body()
            if piece:
                yield piece
            if not is_done:
                return
            self.is_in_body = False
            yield b""

    def _has_whole_head(self) -> bool:
        while self.buffer.startswith(b"\r\n"):
            del self.buffer[:2]  # [RFC 9112 2.2] a server SHOULD ignore an empty line before the request line
        if b"\r\n\r\n" in self.buffer:
            return True
        if len(self.buffer) > MAX_HEAD:
            raise BadMessage(431, "a head is too large")
        return False

    def _take_head(self) -> MessageHead:
        end = self.buffer.index(b"\r\n\r\n")
        start_line, *lines = bytes(self.buffer[:end]).decode("latin-1").split("\r\n")
        del self.buffer[: end + len(b"\r\n\r\n")]
        headers, words = parse_headers(lines, MAX_HEAD), start_line.split(" ")
        is_request = self._is_head_response is None
        version = words[-1] if is_request else words[0]
        if not version.startswith("HTTP/1.") or len(words) < 2:
            raise BadMessage(400, "the bytes are not HTTP/1")
        has_status = not is_request and re.fullmatch("[1-9][0-9][0-9]", words[1])
        status = int(words[1]) if has_status else 0
        self._begin_body(body_length(headers), status)
        return MessageHead(start_line, headers, status)

    def _begin_body(self, length: int | None, status: int) -> None:
        """Note how the body of a message ends: after `length` bytes, with its last chunk, or with the connection.

        `length` is the result of `body_length`.
        """
        is_response = self._is_head_response is not None
        if is_response and self._has_no_body(status):
            length = 0
        self.ends_with_connection = is_response and length is None
        self._chunks = ChunkDecoder(self.buffer) if length == CHUNKED else None
        self._left = length or 0
        self.is_in_body = True  # also for a body of 0 bytes, which `_take_body` ends at once

    def _has_no_body(self, status: int) -> bool:
        """Return True for a response that has no body, even if its headers state a length. [RFC 9112 6.3]"""
        is_head_response = self._is_head_response is not None and self._is_head_response()
        return is_head_response or 100 <= status < 200 or status in (204, 304)

    def _take_body(self) -> tuple[bytes, bool]:
        """Return the next bytes of the body, and True if they are the last."""
        if self._chunks is not None:
            return self._chunks.decode(), self._chunks.done
        size = len(self.buffer) if self.ends_with_connection else self._left
        piece = bytes(self.buffer[:size])
        del self.buffer[:size]
        if self.ends_with_connection:
            return piece, False
        self._left -= len(piece)
        return piece, self._left == 0


class _EventFields(NamedTuple):
    """The fields of one server-sent event, as `HttpEvent` has them. A client carries an earlier id over, but `id` is
    the event's own."""

    data: Content
    id: str | None
    retry: int | None
    type: str


class _EventReader:
    """The events of a stream. Unlike `lib/http/sse.EventParser`, this never holds a large event as a whole."""

    def __init__(self) -> None:
        self._line = bytearray()  # the start of a line whose end has not come
        self._data, self._has_data = GrowingContent(), False
        self._fields: dict[str, str] = {}  # of the current event, without its data
        self._is_in_data = False  # True if `_move_line_to_data` has taken the start of the current line

    def feed(self, data: bytes) -> Iterator[_EventFields]:
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._line += line
            complete = bytes(self._line.removesuffix(b"\r"))
            self._line.clear()
            if complete or self._is_in_data:
                self._read_line(complete)
                self._is_in_data = False
            elif self._has_data or self._fields:  # an empty line ends an event
                yield self._take_event()
        self._line += rest
        if len(self._line) > MAX_LINE:
            self._move_line_to_data()

    def _move_line_to_data(self) -> None:
        """Move the start of a long line to `_data`, which keeps only a part of it in memory."""
        if not self._is_in_data and not self._line.startswith(b"data:"):
            raise BadMessage(502, "a line of an event stream is too long")
        self._read_line(bytes(self._line[:-1]))
        self._is_in_data = True
        del self._line[:-1]  # the last byte may be the CR of a line end

    def _read_line(self, line: bytes) -> None:
        if self._is_in_data:
            return self._data.add(line)
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
        milliseconds = int(retry) if is_number else None
        return _EventFields(self._data.take(), fields.get("id"), milliseconds, fields.get("event") or "message")
