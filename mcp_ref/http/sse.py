"""Server-sent events: reading and writing the text/event-stream format.

    id: 7
    data: {"jsonrpc":"2.0","method":"ping"}

An event is lines of fields, and ends with an empty line. `data` may stand there several times, for several lines.

Spec:  HTML standard, 9.2.5 (parsing) and 9.2.6 (interpretation of an event stream)
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from typing import Final

MAX_EVENT: Final = 64 * 1024 * 1024
"""Characters of one event (64 Mi)."""

_BREAK: Final = re.compile("\r\n|\n|\r")  # not str.splitlines: U+2028 and the like are data


class EventTooLarge(ValueError):
    """An event has more characters than the reader takes."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event. `id` is the last id that the stream gave, also if an earlier event had it."""

    data: str
    event: str = "message"
    id: str = ""


class EventReader:
    """Bytes in, as they come; events out."""

    def __init__(self, max_event: int = MAX_EVENT) -> None:
        self.last_event_id = ""
        self.retry: int | None = None
        """Milliseconds to wait before reconnecting, if the stream said so."""
        self._max_event = max_event
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest: list[str] = []  # of a line that has not ended
        self._began = False
        self._after_cr = False
        self._data: list[str] = []
        self._size = 0
        self._event = ""
        self._id = ""

    def feed(self, data: bytes) -> list[Event]:
        """The events that these bytes complete. Raises EventTooLarge."""
        text = self._decoder.decode(data)
        if not text:
            return []
        if not self._began:
            self._began = True
            text = text.removeprefix("\ufeff")  # one byte order mark may stand at the start
        if self._after_cr:
            text = text.removeprefix("\n")  # the second half of a line break that began in the last chunk
        self._after_cr = text.endswith("\r")
        *lines, rest = _BREAK.split(text)
        events: list[Event] = []
        if lines:
            lines[0] = "".join((*self._rest, lines[0]))
            self._rest.clear()
            self._size = sum(map(len, self._data))
        for line in lines:
            self._take(line, events)
        self._rest.append(rest)
        self._size += len(rest)
        if self._size > self._max_event:
            raise EventTooLarge(f"an event has more than {self._max_event} characters")
        return events

    def _take(self, line: str, events: list[Event]) -> None:
        if not line:
            return self._dispatch(events)
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
            self._size += len(value)
        elif field == "event":
            self._event = value
        elif field == "id" and "\0" not in value:
            self._id = value
        elif field == "retry" and value.isascii() and value.isdigit():
            self.retry = int(value[:9])

    def _dispatch(self, events: list[Event]) -> None:
        self.last_event_id = self._id  # also where there is no data: such an event only says where the stream is
        if self._data:
            events.append(Event("\n".join(self._data), self._event or "message", self._id))
        self._data, self._size, self._event = [], 0, ""


def encode_event(data: bytes, *, id: str | None = None, event: str | None = None, retry: int | None = None) -> bytes:
    """One event. data: UTF-8, of any number of lines; retry: milliseconds."""
    head = ""
    if id is not None:
        head += f"id: {id}\n"
    if event is not None:
        head += f"event: {event}\n"
    if retry is not None:
        head += f"retry: {retry}\n"
    if b"\n" in data or b"\r" in data:
        data = b"\ndata: ".join(re.split(b"\r\n|\n|\r", data))
    return b"%bdata: %b\n\n" % (head.encode(), data)


def encode_comment(text: str = "") -> bytes:
    """A line that readers skip: it shows that the stream is alive."""
    return f": {text}\n\n".encode()
