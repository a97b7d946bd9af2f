"""A parser and an encoder for server-sent events, the format `text/event-stream`.

    id: 7
    data: {"some": "json"}
                                    <- an empty line ends the event
    : a comment, which shows that the stream is alive

An event is a list of lines `field: value`, in which several `data` lines make a text of several lines. The encoder
refuses an id with a line break, because the text after it would become another field. The parser limits the size of an
event.

Threats:
    event-of-many-lines: A hostile server fills the client's memory with one event of millions of `data` lines. The
        parser joins the lines as bytes, which takes at most three times the size of the event.

Spec:  HTML standard, 9.2.5 "Parsing an event stream" and 9.2.6 "Interpreting an event stream"
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

MAX_EVENT_BYTES: Final = 64 * 1024 * 1024
"""Maximum size of one event, in bytes."""

# Not `bytes.splitlines`, which hides whether the last line has ended.
_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
_LF, _CR = b"\n\r"  # the integers 10 and 13, because `10 in data` is faster than `b"\n" in data`
_FORBIDDEN_IN_FIELD: Final = re.compile(r"[\r\n\0]")


class EventTooLarge(ValueError):
    """An event exceeds the parser's limit, so the rest of the stream cannot be read."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event. If it has no id of its own, `id` is the latest one before it in the stream, or ""."""

    data: bytes
    """The data lines, joined by line feeds: UTF-8, unless the server has sent invalid bytes."""
    event: str = "message"
    id: str = ""


class EventParser:
    """A parser for a stream that arrives in pieces. `max_event` is the maximum size of an event, in bytes."""

    def __init__(self, max_event: int = MAX_EVENT_BYTES) -> None:
        self.last_event_id = ""
        """The last id in the stream, even of an event without data. To resume, clients send it as Last-Event-ID."""
        self.retry: int | None = None
        """Milliseconds to wait before reconnecting, or None if the stream had no field `retry`."""
        self._max_event = max_event
        self._line = bytearray()  # the start of a line whose end has not arrived
        self._after_cr = False  # True after CR, when a line feed that follows belongs to the same line end
        self._at_stream_start = True
        self._data: bytes | bytearray | None = None  # the data lines of the incomplete event; None before the first one
        self._size, self._event, self._id = 0, "", ""  # of the incomplete event; _size is in bytes

    def resumed(self) -> EventParser:
        """Return a parser for the same stream on a new connection, with the last id but no incomplete event."""
        new = EventParser(self._max_event)
        new.last_event_id, new._id, new.retry = self.last_event_id, self.last_event_id, self.retry
        return new

    def feed(self, data: bytes) -> list[Event]:
        """Return the events that these bytes complete. Raise EventTooLarge if an event exceeds the limit."""
        if self._after_cr and data.startswith(b"\n"):
            data = data[1:]
            self._after_cr = False
        if not data:
            return []
        self._after_cr = data.endswith(b"\r")
        # `split` is faster, but knows only LF. `rest` is a line whose end has not arrived, or b"".
        *lines, rest = _LINE_END.split(data) if _CR in data else data.split(b"\n")
        events: list[Event] = []
        for line in lines:
            if self._line:
                self._line += line
                started, self._line = self._line, bytearray()
                self._read_line(started, events)
                del started  # it may have 64 MiB
            else:
                self._read_line(line, events)
        self._line += rest
        self._check_size(len(self._line))
        return events

    def _read_line(self, line: bytes | bytearray, events: list[Event]) -> None:
        if self._at_stream_start:
            self._at_stream_start = False
            if line.startswith(b"\xef\xbb\xbf"):  # a byte order mark can precede the stream
                line = line[3:]
        if not line:
            return self._dispatch(events)
        self._check_size(len(line))
        if line.startswith(b"data:"):  # the most frequent field, so its line is not copied here
            return self._add_data(line, len(b"data: ") if line.startswith(b"data: ") else len(b"data:"))
        name, _, value = line.partition(b":")
        # Decoding line by line is safe, because the bytes of a line end are never part of a UTF-8 character.
        text = value.removeprefix(b" ").decode("utf-8", "replace")
        if name == b"data":  # a line without a colon, which is an empty line of data
            self._add_data(line, len(b"data"))
        elif name == b"event":
            self._event = text
        elif name == b"id" and "\0" not in text:
            self._id = text
        elif name == b"retry" and text.isascii() and text.isdigit() and len(text) < 16:
            self.retry = int(text)

    def _add_data(self, line: bytes | bytearray, start: int) -> None:
        """Add a line to the data of the event. Its text begins at the index `start`."""
        self._size += len(line)
        if self._data is None:
            self._data = line[start:]
            return
        if isinstance(self._data, bytes):  # a single line stays bytes; a bytearray can grow
            self._data = bytearray(self._data)
        self._data += b"\n"
        self._data += line[start:]

    def _dispatch(self, events: list[Event]) -> None:
        """Add the event that an empty line has ended to `events`, unless it has no data."""
        self.last_event_id = self._id  # an event without data still sets the id
        if self._data is not None:
            events.append(Event(bytes(self._data), self._event or "message", self._id))
            self._data = None
        self._size, self._event = 0, ""

    def _check_size(self, new_bytes: int) -> None:
        if self._size + new_bytes > self._max_event:
            raise EventTooLarge(f"a server-sent event has more than {self._max_event} bytes")


def encode_event(data: bytes, *, id: str | None = None, event: str | None = None, retry: int | None = None) -> bytes:
    """Return the bytes of one event. Raise ValueError for an id or event name with a line break or NUL.

    `data` is UTF-8 text, and can contain line breaks. The client waits `retry` milliseconds before it reconnects.
    """
    head = f"id: {_checked_line(id)}\n" if id is not None else ""
    if event is not None:
        head += f"event: {_checked_line(event)}\n"
    if retry is not None:
        head += f"retry: {retry}\n"
    if _LF in data or _CR in data:
        data = b"\ndata: ".join(_LINE_END.split(data))
    return b"%bdata: %b\n\n" % (head.encode(), data)


def encode_comment(text: str = "") -> bytes:
    """Return the bytes of a comment, which parsers skip. Raise ValueError for a text with a line break or NUL."""
    return f": {_checked_line(text)}\n\n".encode()


def _checked_line(text: str) -> str:
    if not text.isprintable() and _FORBIDDEN_IN_FIELD.search(text):  # `isprintable` is faster
        raise ValueError(f"a field of a server-sent event must be one line without NUL, not {text[:100]!r}")
    return text
