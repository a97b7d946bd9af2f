"""The file of a recording, and the thread that writes it.

The conversation puts copies of its bytes into a queue of at most `QUEUE_BYTES`, and never waits. A thread splits them
into events, hides their secrets, and writes lines. If the queue is full, because the disk is slow, bytes are dropped;
if the disk is full or the file has its maximum size, lines are dropped. The recording then has a `Gap`, which says how
much is missing, as soon as it can be written.

Threats:
    recording-read-by-others: the messages of a user; another user of the machine; opens the recording, or puts a link
        in its place; the file is new, belongs to the user, and has the mode 0600.
    recording-stops-conversation: the conversation; a full or hanging disk; blocks each thread that writes to it; only a
        thread of the recorder waits for the disk, and the conversation goes on without it.

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
from typing import Final

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
"""Maximum time for which `Tape.close`, and so the host, waits for the last lines, in seconds."""
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
    lost_lines: int = 0  # line feeds in the bytes that were dropped before these
    lost_bytes: int = 0


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
        self._waiting = 0  # bytes in the queue
        self._lost: dict[tuple[int, Side], tuple[int, int]] = {}  # (stream, side) -> unreported lost lines, bytes
        self._started = time.monotonic()
        self._written = 0
        self._gap = Gap(0)  # counts the events that could not be written, until a line says so
        self._breaks_line = False  # True if the file ends in the middle of a line
        self._head = head if options.with_secrets else mask_head(head)
        self._thread = threading.Thread(target=self._run, name="mcp-recording", daemon=True)
        self._thread.start()

    def put(self, stream: Stream, side: Side, data: bytes) -> None:
        """Record bytes of `side` without waiting. Empty bytes mean the end of its stream."""
        at, key = time.monotonic() - self._started, (id(stream), side)
        with self._lock:
            lines, size = self._lost.pop(key, (0, 0))
            if data and self._waiting + len(data) + OVERHEAD_BYTES > QUEUE_BYTES:
                self._lost[key] = lines + data.count(b"\n"), size + len(data)
                return
            self._waiting += len(data) + OVERHEAD_BYTES
        self._queue.put(_Piece(at, stream, side, data, lines, size))

    def close(self) -> str:
        """Let the thread write the rest and close the file. Return a line for the user if events are missing, or ""."""
        self._queue.put(None)
        self._thread.join(CLOSE_SECONDS)
        if self._thread.is_alive() or not self._gap.events:
            return ""
        return f"mcp_ref record: {self._gap.events} events are missing in the recording: {self._gap.because}\n"

    def wait_until_written(self) -> None:
        """Wait for the last lines after `close`, at most `LAST_SECONDS`."""
        self._thread.join(LAST_SECONDS)
        sys.setswitchinterval(self._switch_seconds)

    def _run(self) -> None:
        self._write(format_head(self._head) + b"\n", 0)
        is_last = False
        while not is_last:
            lines, count, is_last = self._next_lines()
            if lines:
                self._write(lines, count)
        if self._gap.events:
            self._write(b"", 0)  # only the gap
        os.close(self._descriptor)

    def _next_lines(self) -> tuple[bytes, int, bool]:
        """Wait for bytes. Return the lines of their events, the number of lines, and True at the end."""
        lines, size = list[bytes](), 0
        piece = self._queue.get()
        if piece is not None and self._waiting < BATCH_BYTES:
            time.sleep(BATCH_SECONDS)
        while piece is not None:
            with self._lock:
                self._waiting -= len(piece.data) + OVERHEAD_BYTES
            for event in self._events(piece):
                lines.append(format_event(event if self._options.with_secrets else mask(event)))
                size += len(lines[-1])
            if size > BATCH_BYTES:
                break
            try:
                piece = self._queue.get_nowait()
            except Empty:
                break
        return b"".join(line + b"\n" for line in lines), len(lines), piece is None

    def _events(self, piece: _Piece) -> Iterable[Event]:
        stream, at, side = piece.stream, piece.at, piece.side
        try:
            if piece.lost_bytes:
                yield from stream.lose(at, side, piece.lost_lines, piece.lost_bytes)
            yield from (stream.receive(at, side, piece.data) if piece.data else stream.end(at, side))
        except Exception as error:  # a mistake of this package: the recording notes it, and continues
            yield Gap(1, len(piece.data), f"the recorder failed: {type(error).__name__}", at=at)

    def _write(self, lines: bytes, count: int) -> None:
        """Write lines with `count` events. If that fails, count these events as missing."""
        at = round(time.monotonic() - self._started, 6)
        if count and self._written + len(lines) > self._options.max_bytes:
            because = f"the recording has its maximum size of {self._options.max_bytes // MEGABYTE} MB"
            self._gap = Gap(self._gap.events + count, self._gap.size + len(lines), because, at=at)
            return
        before = format_event(self._gap) + b"\n" if self._gap.events else b""
        data = (b"\n" if self._breaks_line else b"") + before + lines
        try:
            while data:
                size = os.write(self._descriptor, data)
                self._written += size
                self._breaks_line = data[size - 1 : size] != b"\n"
                data = data[size:]
            self._gap = Gap(0)
        except OSError as error:  # the disk is full, or the reader of a pipe is gone or slow
            because = f"the file could not be written: {error.strerror}"
            self._gap = Gap(self._gap.events + count, self._gap.size + len(lines), because, at=at)
