"""The file of a recording, and the thread that writes it.

    conversation -- put --> a queue of at most `QUEUE_BYTES` --> a thread: events, without their secrets --> FILE

The conversation never waits. If the queue is full, because the disk is slow, bytes are dropped. If the disk is full, or
the file has its maximum size, events are dropped. In both cases the recording gets a `Gap` as soon as it can be
written: an event that says how much is missing.

Threats:
    recording-read-by-others: Another user of the machine reads the user's messages by opening the recording, or by
        putting a link in its place. The file is new, belongs to the user, and has the mode 0600.
    recording-stops-conversation: A full or hanging disk stops the conversation by blocking each thread that writes to
        it. Only a thread of the recorder waits for the disk, and the conversation goes on without it.

Used by: pipes.py, proxy.py. Uses: streams.py, check/masking.py
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Final, NamedTuple

from ..check.masking import mask, mask_head
from ..check.recording import Event, Gap, Head, Side, format_event, format_head
from .streams import Stream

QUEUE_BYTES: Final = 32 * 1024 * 1024
"""Maximum size of the queue, in bytes."""
OVERHEAD_BYTES: Final = 256
"""Memory of each piece besides its bytes, in bytes. It counts too, because otherwise many pieces of one byte each
could fill the memory while the disk hangs."""
BATCH_BYTES: Final = 256 * 1024
"""Size of the lines that are written together, in bytes."""
BATCH_SECONDS: Final = 0.01
"""Time for which the thread collects bytes, in seconds. The thread competes with the conversation for Python's global
lock, so it wakes up rarely and then does a lot."""
CLOSE_SECONDS: Final = 2.0
"""Maximum time for which `Tape.close` waits for the last lines, in seconds. The host waits for it to return."""
LAST_SECONDS: Final = 30.0
"""Maximum time for the last lines after `CLOSE_SECONDS`, in seconds. The recorder waits then, but not the host."""
SWITCH_SECONDS: Final = 0.0001
"""Time after which the thread gives up Python's global lock, in seconds. The default is 50 times as long."""
MEGABYTE: Final = 1024 * 1024
"""The unit of `--max-mb`, in bytes."""


@dataclass(frozen=True)
class TapeOptions:
    """The options of a recording."""

    path: str
    max_bytes: int = 256 * MEGABYTE
    """Size of the file above which further events are only counted, in bytes."""
    with_secrets: bool = False
    """True to write secrets unmasked."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """A copy of bytes on their way to the file."""

    at: float
    stream: Stream
    side: Side
    data: bytes
    """The bytes; empty for the end of the side's stream."""
    lost_lines: int = 0
    """Number of line feeds in the bytes that were dropped just before these."""
    lost_bytes: int = 0

    @property
    def memory(self) -> int:
        return len(self.data) + OVERHEAD_BYTES


class _Batch(NamedTuple):
    """The lines that are written together."""

    lines: bytes
    events: int
    is_last: bool


class Tape:
    """A recording that is being written.

    Args:
        descriptor: The open file. `close` closes it.
        head: The first line.
        options: The limits, and the choice about secrets.
    """

    def __init__(self, descriptor: int, head: Head, options: TapeOptions) -> None:
        self._switch_seconds = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_SECONDS)
        self._descriptor, self._options = descriptor, options
        self._queue: SimpleQueue[_Piece | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._queued_bytes = 0  # the memory of the queue
        self._lost: dict[tuple[int, Side], tuple[int, int]] = {}  # (stream, side) -> unreported lost lines, bytes
        self._started = time.monotonic()
        self._written = 0  # bytes in the file
        self._gap = Gap(0)  # counts the events that could not be written, until `_write` has reported them
        self._ends_in_line = False  # True if the file ends in the middle of a line, after a failure
        self._head = head if options.with_secrets else mask_head(head)
        self._thread = threading.Thread(target=self._run, name="mcp-recording", daemon=True)
        self._thread.start()

    def put(self, stream: Stream, side: Side, data: bytes) -> None:
        """Record bytes of `side` without waiting. Empty bytes mean the end of its stream."""
        at, key = time.monotonic() - self._started, (id(stream), side)
        with self._lock:
            lost_lines, lost_bytes = self._lost.pop(key, (0, 0))
            piece = _Piece(at, stream, side, data, lost_lines, lost_bytes)
            if data and self._queued_bytes + piece.memory > QUEUE_BYTES:
                self._lost[key] = lost_lines + data.count(b"\n"), lost_bytes + len(data)
                return
            self._queued_bytes += piece.memory
        self._queue.put(piece)

    def close(self) -> str:
        """Let the thread write the rest and close the file. Return a line for the user if events are missing, or ""."""
        self._queue.put(None)
        self._thread.join(CLOSE_SECONDS)
        if self._thread.is_alive() or not self._gap.events:
            return ""
        return f"mcp_ref record: events are missing in the recording ({self._gap.events}): {self._gap.because}\n"

    def wait_until_written(self) -> None:
        """Wait for the last lines after `close`, at most `LAST_SECONDS`."""
        self._thread.join(LAST_SECONDS)
        sys.setswitchinterval(self._switch_seconds)

    def _run(self) -> None:
        """Write the recording until `close`. The thread of the recording runs this."""
        self._write(format_head(self._head) + b"\n", 0)
        is_last = False
        while not is_last:
            batch = self._next_batch()
            if batch.lines:
                self._write(batch.lines, batch.events)
            is_last = batch.is_last
        if self._gap.events:
            self._write(b"", 0)  # only the gap
        os.close(self._descriptor)

    def _next_batch(self) -> _Batch:
        """Wait for a piece. Return its events, and those of all pieces within `BATCH_SECONDS`, as lines."""
        lines, size = list[bytes](), 0
        piece = self._queue.get()
        if piece is not None and self._queued_bytes < BATCH_BYTES:
            time.sleep(BATCH_SECONDS)
        while piece is not None:
            with self._lock:
                self._queued_bytes -= piece.memory
            for event in self._events(piece):
                line = format_event(event if self._options.with_secrets else mask(event)) + b"\n"
                lines.append(line)
                size += len(line)
            if size > BATCH_BYTES:
                break
            try:
                piece = self._queue.get_nowait()
            except Empty:
                break
        return _Batch(b"".join(lines), len(lines), is_last=piece is None)

    def _events(self, piece: _Piece) -> Iterable[Event]:
        stream, at, side = piece.stream, piece.at, piece.side
        try:
            if piece.lost_bytes:
                yield from stream.lose(at, side, piece.lost_lines, piece.lost_bytes)
            if piece.data:
                yield from stream.receive(at, side, piece.data)
            else:
                yield from stream.end(at, side)
        except Exception as error:  # a mistake of this package: the recording notes it, and continues
            yield Gap(1, len(piece.data), f"the recorder failed: {type(error).__name__}", at=at)

    def _write(self, lines: bytes, events: int) -> None:
        """Write lines after the gap, if there is one. If that is impossible, count their `events` as missing.

        `events` is 0 for the head, and to write only the gap. The maximum size does not apply to these.
        """
        if events and self._written + len(lines) > self._options.max_bytes:
            most = f"{self._options.max_bytes // MEGABYTE} MB"
            return self._count_missing(lines, events, f"the recording has its maximum size of {most}")
        line_end = b"\n" if self._ends_in_line else b""
        gap = format_event(self._gap) + b"\n" if self._gap.events else b""
        unwritten = line_end + gap + lines
        try:
            while unwritten:
                size = os.write(self._descriptor, unwritten)
                self._written += size
                self._ends_in_line = unwritten[size - 1 : size] != b"\n"
                unwritten = unwritten[size:]
        except OSError as error:  # the disk is full, or the reader of a pipe is gone or slow
            return self._count_missing(lines, events, f"the file could not be written: {error.strerror}")
        self._gap = Gap(0)

    def _count_missing(self, lines: bytes, events: int, because: str) -> None:
        at = round(time.monotonic() - self._started, 6)
        self._gap = Gap(self._gap.events + events, self._gap.size + len(lines), because, at=at)
