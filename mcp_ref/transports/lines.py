"""Newline-delimited messages: cuts a stream of bytes into lines and decodes each.

Spec:  basic/transports#stdio: messages are delimited by newlines, and MUST NOT contain embedded newlines
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ..jsonrpc.messages import RECOVERY_WINDOW, decode, oversize
from .base import Receive, Trace

MAX_LINE = 64 * 1024 * 1024
"""Bytes in one line, by default (64 MiB)."""


class LineReader:
    """Takes bytes as they come, in pieces of any size, and hands on one message for each line.

    A line of more than `limit` bytes is skipped up to its end, without being kept, and reported as malformed: the next
    line is a message again. While paused, complete lines wait in the buffer; whoever feeds must then stop feeding.
    """

    def __init__(self, receive: Receive, limit: int = MAX_LINE, trace: Trace | None = None) -> None:
        self.paused = False
        self._receive = receive
        self._limit = limit
        self._trace = trace
        self._buffer = bytearray()
        self._searched = 0  # no newline before this index: a long line is not searched again for every piece
        self._skipped: bytes | None = None  # the start of the overlong line that is being skipped
        self._ended: Callable[[], None] | None = None

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the stream."""
        self._buffer += data
        self._cut()

    def feed_eof(self, ended: Callable[[], None]) -> None:
        """The stream has ended; a last line needs no newline. `ended` is called when all lines have been handed on."""
        if self._buffer and not self._buffer.endswith(b"\n"):
            self._buffer += b"\n"
        self._ended = ended
        self._cut()

    def pause(self) -> None:
        """Hand on nothing until `resume`."""
        self.paused = True

    def resume(self) -> None:
        """Go on, in the next turn of the event loop: the caller may be deep inside `receive`."""
        if self.paused:
            self.paused = False
            asyncio.get_running_loop().call_soon(self._cut)

    def _cut(self) -> None:
        while not self.paused:
            end = self._buffer.find(b"\n", self._searched)
            if end < 0:
                self._searched = len(self._buffer)
                if self._searched > self._limit or self._skipped is not None:
                    self._skip()
                if self._ended is not None:
                    ended, self._ended = self._ended, None
                    ended()
                return
            line = bytes(self._buffer[:end])
            del self._buffer[: end + 1]
            self._searched = 0
            self._hand_on(line)

    def _skip(self) -> None:
        """Forget the middle of an overlong line; its start may tell whose answer or request it is."""
        if self._skipped is None:
            self._skipped = bytes(self._buffer[:RECOVERY_WINDOW])
        self._buffer.clear()
        self._searched = 0

    def _hand_on(self, line: bytes) -> None:
        if self._skipped is not None or len(line) > self._limit:
            start, self._skipped = self._skipped or line, None
            self._receive(oversize(start, self._limit))
        elif line and not line.isspace():
            if self._trace is not None:
                self._trace("<-", line)
            self._receive(decode(line))
