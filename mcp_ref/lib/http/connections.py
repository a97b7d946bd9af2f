"""The open connections of one server, and the memory and the limits that they share.

Used by: connection.py, server.py
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import time
from collections import deque
from typing import Protocol

from ..turns import Turns, current_turns
from .framing import MAX_RECEIVED_BYTES, ResponseHeadWriter
from .message import BodyMemory, Handler, HttpLimits
from .parser import MAX_SHARED_HEADS, parse_request_head


class OpenConnection(Protocol):
    """A connection, as its server sees it: `HttpConnection`."""

    def check_time_limits(self, now: float) -> None:
        """End a phase or a write that has exceeded its time limit. The server calls this at regular intervals."""

    def check_reading(self, now: float) -> None:
        """Disconnect a client that has much unread data, and has read too little for too long."""

    def close_after_response(self) -> None:
        """Close the connection after the current response, or now if no handler runs. Called when the server stops."""

    def abort(self) -> asyncio.Task[None] | None:
        """Abort the connection and cancel its handler. Return the handler's task, or None if no handler runs."""


class Connections:
    """The open connections of one server, and the data that they share."""

    def __init__(self, handler: Handler, limits: HttpLimits, max_open: int) -> None:
        self.handler, self.limits, self.max_open = handler, limits, max_open
        self.loop = asyncio.get_running_loop()
        self.turns = Turns(self.has_room)
        self.unread_bytes = 0
        """Number of unread bytes of the `slow` connections."""
        self.slow: dict[OpenConnection, int] = {}
        """The connections whose clients have more than 64 KiB unread (512 KiB with TLS), and the number of
        unread bytes of each connection."""
        self.context = contextvars.copy_context()
        self.context.run(current_turns.set, self.turns)
        """The context variables at the start of the server. Each handler gets a copy."""
        self.received = memoryview(bytearray(MAX_RECEIVED_BYTES))
        """The bytes of the latest `recv`. asyncio would allocate 256 KiB for each `recv`, in 15 microseconds."""
        self.parse_head = functools.lru_cache(maxsize=MAX_SHARED_HEADS)(parse_request_head)
        self.head_writer, self.bodies = ResponseHeadWriter(), BodyMemory(limits.bodies_size)
        self.open: set[OpenConnection] = set()
        """The connections that are open, or whose handler still runs."""
        self.refused: deque[OpenConnection] = deque()
        """The latest connections over the limit."""
        self._all_closed = asyncio.Event()

    def has_room(self) -> bool:
        """Return True if clients have less than `unread_size` unread. If not, disconnect slow readers."""
        if self.unread_bytes >= self.limits.unread_size:
            for connection in tuple(self.slow):
                connection.check_reading(time.monotonic())
        return self.unread_bytes < self.limits.unread_size

    def count_unread(self, connection: OpenConnection, size: int) -> None:
        """Set the number of unread bytes of a connection; 0 if it is not slow."""
        self.unread_bytes += size - self.slow.pop(connection, 0)
        if size:
            self.slow[connection] = size

    def remove(self, connection: OpenConnection) -> None:
        """Remove a connection that is closed and whose handler has ended."""
        self.open.discard(connection)
        if not self.open:
            self._all_closed.set()

    async def wait_closed(self, seconds: float) -> None:
        """Wait until all connections are removed, at most for a number of seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.open:
                    self._all_closed.clear()
                    await self._all_closed.wait()
