"""Streams: they turn the recorded bytes into the events of a recording. Nothing here does I/O, waits or fails.

The bytes come in pieces that can begin and end anywhere. A stream keeps at most `MAX_CONTENT` bytes of an event, so a
large result does not fill the memory. If bytes were lost, because the disk was too slow for them, the stream yields a
`Gap`, and skips what follows until it knows again where an event begins.

Used by: tape.py, http_stream.py. Uses: check/recording.py
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Final, Protocol

from ..check.recording import KEPT_START, MAX_CONTENT, Content, End, ErrorOutput, Event, Frame, Gap, Side

MAX_LOG: Final = 64 * 1024
"""Maximum size of one line of standard error, in bytes. A longer line becomes several events."""


class Stream(Protocol):
    """A source of bytes that become events."""

    def receive(self, at: float, side: Side, data: bytes) -> Iterator[Event]:
        """Yield the events that these bytes complete. `side` has sent the bytes."""

    def lose(self, at: float, side: Side, lines: int, size: int) -> Iterator[Event]:
        """Yield the events that report a loss of `size` bytes, among them `lines` line feeds."""

    def end(self, at: float, side: Side) -> Iterator[Event]:
        """Yield the last events of a side that has sent its last byte."""


class GrowingContent:
    """The content of an event, which arrives in pieces. Above `MAX_CONTENT`, only its start stays in memory."""

    def __init__(self) -> None:
        self._data = bytearray()
        self.size = 0
        """Number of bytes so far."""
        self._digest: hashlib._Hash | None = None  # of all bytes; None up to MAX_CONTENT bytes

    def add(self, piece: bytes | memoryview) -> None:
        """Add the next bytes."""
        self.size += len(piece)
        if self._digest is not None:
            self._digest.update(piece)
            return
        self._data += piece
        if self.size > MAX_CONTENT:
            self._digest = hashlib.sha256(self._data)
            del self._data[KEPT_START:]

    def take(self) -> Content:
        """Return the content, and begin the next one."""
        digest = "" if self._digest is None else self._digest.hexdigest()
        content = Content(bytes(self._data), self.size, digest)
        self._data.clear()
        self.size, self._digest = 0, None
        return content

    @property
    def start(self) -> bytes:
        """The bytes that are in memory."""
        return bytes(self._data)


class LineStream:
    """One direction of stdio: each line is one message (a frame), or a line of standard error.

    Args:
        connection: Number of the process.
        is_log: True for standard error.
    """

    def __init__(self, connection: int, is_log: bool = False) -> None:
        self._connection, self._is_log = connection, is_log
        self._line = GrowingContent()
        self._skipped: int | None = None  # bytes so far of a line whose start was lost; None if nothing was lost

    def receive(self, at: float, side: Side, data: bytes) -> Iterator[Event]:
        if self._skipped is not None:  # skip the rest of this line
            skipped, newline, data = data.partition(b"\n")
            self._skipped += len(skipped)
            if not newline:
                return
            yield from self._end_skipping(at)
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._line.add(line)
            if self._is_log:
                self._line.add(b"\n")  # the content of an `ErrorOutput` includes the line feed
                if self._is_in_key():
                    continue
            yield self._event(at, side)
        if rest:
            self._line.add(rest)
            if self._is_log and self._line.size >= MAX_LOG:
                yield self._event(at, side)

    def _is_in_key(self) -> bool:
        """Return True inside a private key.

        Its lines stay in one event, because masking takes one event at a time, and finds a key by its first line.
        """
        if self._line.size >= MAX_LOG:
            return False
        _, begun, key = self._line.start.rpartition(b"-----BEGIN ")
        return bool(begun) and b"PRIVATE KEY" in key and b"-----END " not in key

    def _end_skipping(self, at: float) -> Iterator[Event]:
        skipped, self._skipped = self._skipped, None
        if skipped:  # neither None nor 0
            # `lose` has counted this line already
            yield Gap(0, skipped, "the start of this line was lost", at=at)

    def _event(self, at: float, side: Side, partial: bool = False) -> Event:
        content = self._line.take()
        if self._is_log:
            return ErrorOutput(content, at=at, connection=self._connection)
        return Frame(side, content, partial, at=at, connection=self._connection)

    def lose(self, at: float, side: Side, lines: int, size: int) -> Iterator[Event]:
        line_start = self._line.take()  # the end of this line is lost, so its start counts as lost too
        yield from self._end_skipping(at)
        self._skipped = 0  # the next bytes are in the middle of a line, so skip them until its end
        # each line feed ends a line that has lost bytes, and one more such line begins after the last line feed
        yield Gap(lines + 1, size + line_start.size, "the disk was too slow", at=at)

    def end(self, at: float, side: Side) -> Iterator[Event]:
        yield from self._end_skipping(at)
        if self._line.size:
            yield self._event(at, side, partial=True)
        if not self._is_log:
            yield End(side, at=at, connection=self._connection)
