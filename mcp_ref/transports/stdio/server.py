"""The server's side of stdio: it reads messages from its standard input, and writes messages to its standard output.

Only messages may go to stdout, because the client decodes every line, even the output of a `print` in a tool or of a
tool's child process. So `claimed_stdio` hides descriptors 0 and 1 from the tools.

Spec:  basic/transports#stdio (2024-11-05 to 2025-11-25); 2026-07-28 basic/transports/stdio
Used by: server/server.py
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import socket
import stat
import sys
import time
from collections.abc import Iterator

from ...jsonrpc.errors import ConnectionClosed, McpError
from .. import system
from ..base import OnEnd, Receive, Trace
from .lines import MAX_LINE, LineTransport, limit_reads

FLUSH_SECONDS = 2.0
"""Longest time that an ending server waits for a client that reads nothing, in seconds."""
PAUSED_CHECK_SECONDS = 1.0
"""Interval at which a transport that has paused reading checks if the client has left, in seconds."""


@contextlib.contextmanager
def claimed_stdio() -> Iterator[tuple[int, int]]:
    """Yield private copies of stdin and stdout. Until the block ends, stdin is empty and stdout leads to stderr."""
    if sys.stdin is None or sys.stdout is None:
        raise RuntimeError("standard input and standard output must be open")
    # [2025-11-25 basic/transports#stdio] the server MUST NOT write anything to stdout but valid MCP messages
    sys.stdout.flush()
    nothing, source, sink = os.open(os.devnull, os.O_RDWR), os.dup(0), os.dup(1)
    try:
        os.dup2(nothing, 0)
        os.dup2(nothing if sys.stderr is None else 2, 1)  # without stderr, descriptor 2 can be any file
        yield source, sink
    finally:
        with contextlib.suppress(ValueError):  # a tool has closed it
            sys.stdout.flush()
        for kept, original in ((source, 0), (sink, 1)):
            system.SYSTEM.restore_blocking(kept)
            os.dup2(kept, original)
            os.close(kept)
        os.close(nothing)


class StdioServerTransport(LineTransport, asyncio.Protocol):
    """The server's transport. It reads and writes two descriptors: pipes, sockets, terminals or plain files."""

    may_initialize_again = True  # a bridge may share this process among clients, each of which sends `initialize`

    def __init__(self, source: int, sink: int, *, max_line: int = MAX_LINE, trace: Trace | None = None) -> None:
        super().__init__(max_line, trace)
        self._source, self._sink = source, sink
        self._reader: asyncio.ReadTransport | None = None
        self._writer: asyncio.WriteTransport | None = None
        self._paused_check: asyncio.TimerHandle | None = None
        self._written = 0  # bytes
        self._closing = False

    async def start(self, receive: Receive, on_end: OnEnd) -> None:
        self._end_report.deliver_to(on_end)
        self._lines.receive = receive
        loop = asyncio.get_running_loop()
        # Give the event loop copies of the descriptors, because uvloop closes its own, and our caller closes these.
        with contextlib.suppress(ValueError, OSError):  # if the loop cannot use `sink`, a thread will write
            if system.SYSTEM.is_pollable(self._sink) and stat.S_ISSOCK(os.fstat(self._sink).st_mode):
                await self._open_socket()
            elif system.SYSTEM.is_pollable(self._sink):
                sink = os.fdopen(os.dup(self._sink), "wb", 0)
                self._writer, _ = await loop.connect_write_pipe(lambda: _OutputProtocol(self), sink)
        with contextlib.suppress(ValueError, OSError):  # if it cannot use `source`, a thread will read
            if self._reader is None and system.SYSTEM.is_pollable(self._source):
                source = os.fdopen(os.dup(self._source), "rb", 0)
                self._reader, _ = await loop.connect_read_pipe(lambda: self, source)
                limit_reads(self._reader)
        if self._writer is None:
            self._writer = system.ThreadWriter(self._sink, _OutputProtocol(self))
        if self._reader is None:
            system.read_in_thread(self._source, self.data_received, lambda: self._lines.paused, self.eof_received)

    async def _open_socket(self) -> None:
        """Open a socket for output, and for input too if both are one socket, as for a program that inetd starts."""
        # Not a write pipe, because asyncio would close it when input arrives on the socket.
        is_input = os.path.sameopenfile(self._source, self._sink)
        protocol = self if is_input else _OutputProtocol(self)
        connection = socket.socket(fileno=os.dup(self._sink))
        self._writer, _ = await asyncio.get_running_loop().connect_accepted_socket(lambda: protocol, connection)
        if is_input:
            self._reader = self._writer

    def _write(self, line: bytes) -> None:
        if self._writer is not None and not self._writer.is_closing():
            self._written += len(line)
            self._writer.write(line)

    def _unread(self) -> int:
        """Return the number of bytes that still wait in this process, because the system's pipe is full."""
        return 0 if self._writer is None or self._writer.is_closing() else self._writer.get_write_buffer_size()

    def _input(self) -> asyncio.ReadTransport | None:
        return self._reader if self._reader is not None and not self._reader.is_closing() else None

    def pause_reading(self) -> None:
        super().pause_reading()
        self._check_later(math.inf)  # no count reaches this, so the first check only counts the unread bytes

    def resume_reading(self) -> None:
        super().resume_reading()
        if self._paused_check is not None:
            self._paused_check.cancel()

    def _check_later(self, unread_now: float) -> None:
        if self._input() is not None:
            loop = asyncio.get_running_loop()
            self._paused_check = loop.call_later(PAUSED_CHECK_SECONDS, self._check_paused_input, unread_now)

    def _check_paused_input(self, unread_before: float) -> None:
        unread = self._unread()
        # End the session if the client has closed our input, which asyncio does not notice in a pause, and also reads
        # nothing. The closed input alone says little, because `cat requests | server | less` closes it early too.
        if unread >= unread_before and system.SYSTEM.has_hung_up(self._source):
            self.report_end(None)
        else:
            self._check_later(unread)

    def eof_received(self) -> bool:
        """End the session, because the client has closed our input. Return True to keep a socket open for output."""
        self._lines.feed_eof(lambda: self.report_end(None))
        # If reading is paused, the waiting lines are still served, as long as the client reads the responses.
        self._end_unless_read(-1)  # the first call always waits, because every count is above this
        return True

    def _end_unless_read(self, read_before: int) -> None:
        read = self._written - self._unread()
        if read > read_before and not self._closing:
            asyncio.get_running_loop().call_later(FLUSH_SECONDS, self._end_unless_read, read)
        else:
            self.report_end(None)

    def connection_lost(self, error: Exception | None) -> None:
        self.report_end(None)  # our input has ended or failed

    def report_end(self, error: McpError | None) -> None:
        self._writable.set()  # no sender may wait for a client when the session has ended
        if not self._closing:
            self._end_report.send(error)

    async def close(self) -> None:
        """Send the pending messages, unless the client reads nothing for `FLUSH_SECONDS` seconds, and close."""
        self._write_together()
        self._closing = True
        if self._paused_check is not None:
            self._paused_check.cancel()
        fewest_unread, give_up_at = self._unread(), time.monotonic() + FLUSH_SECONDS
        while self._unread() > 0 and time.monotonic() < give_up_at:
            await asyncio.sleep(0.005)
            if self._unread() < fewest_unread:
                fewest_unread, give_up_at = self._unread(), time.monotonic() + FLUSH_SECONDS
        if self._writer is not None and not self._writer.is_closing():
            self._writer.abort()
        if (reader := self._input()) is not None:
            reader.close()
        await asyncio.sleep(0)  # asyncio calls `connection_lost` in the next turn of the loop
        self._end_report.send(ConnectionClosed("the connection was closed"))


class _OutputProtocol(asyncio.Protocol):
    def __init__(self, owner: StdioServerTransport) -> None:
        self._owner = owner

    def eof_received(self) -> bool:
        return True  # stay open: the client of a socket has only closed its sending side

    def pause_writing(self) -> None:
        self._owner.pause_writing()

    def resume_writing(self) -> None:
        self._owner.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        self._owner.report_end(ConnectionClosed("the client no longer reads our output"))
