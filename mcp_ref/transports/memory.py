"""The transport between a client and a server in one program.

Tests use this transport, and so do clients that run a server inside their own process. Every message is encoded to
bytes and decoded again, so a message that cannot be serialised fails here, as it would on a real transport.

    client --send--> Inbox of the server --> server         server --send--> Inbox of the client --> client

Spec:  basic/transports#custom-transports (all revisions)
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from ..basic.access import current_access
from ..jsonrpc.errors import ConnectionClosed
from ..jsonrpc.large_messages import decode_from_server
from ..jsonrpc.messages import Outgoing, RequestId, encode
from .base import EndReport, OnEnd, Receive, Trace, Transport

MAX_UNREAD = 64 * 1024
"""Total size of the messages in one inbox above which the sender's `drain` waits, in bytes (64 KiB)."""


class Inbox:
    """The messages, as bytes, that the other end has put in and this end has not yet read."""

    def __init__(self) -> None:
        self.has_room = asyncio.Event()
        """Set while the inbox is small, and after it is closed."""
        self.has_room.set()
        self.is_closed = False
        """True after either end was closed, though the reader still gets the messages that are in the inbox."""
        self.on_change: Callable[[], None] = lambda: None
        """The reader's function, called when a message has arrived or the inbox is closed."""
        self._frames: deque[bytes] = deque()
        self._size = 0  # of all frames, in bytes

    def put(self, frame: bytes) -> None:
        """Add a message, or drop it if the inbox is closed."""
        if self.is_closed:
            return
        self._frames.append(frame)
        self._size += len(frame)
        if self._size > MAX_UNREAD:
            self.has_room.clear()
        self.on_change()

    def take(self) -> bytes | None:
        if not self._frames:
            return None
        frame = self._frames.popleft()
        self._size -= len(frame)
        if self._size <= MAX_UNREAD // 2:
            self.has_room.set()
        return frame

    def close(self) -> None:
        self.is_closed = True
        self.has_room.set()
        self.on_change()


class MemoryTransport(Transport):
    """One of the two connected transports that `memory_pair` returns."""

    may_initialize_again = True

    def __init__(self, inbox: Inbox, outbox: Inbox, trace: Trace | None) -> None:
        self._inbox, self._outbox = inbox, outbox  # the outbox is the inbox of the other end
        self._trace = trace
        self._receive: Receive | None = None  # not None while this end is open
        self._end_report = EndReport()
        self._paused = False
        self._delivery_scheduled = False  # True while a call of `_deliver_inbox` is scheduled

    async def start(self, receive: Receive, on_end: OnEnd) -> None:
        """Begin to deliver messages, including the messages that the peer sent before this call."""
        self._receive = receive
        self._end_report.deliver_to(on_end)
        self._inbox.on_change = self._deliver_soon
        self._deliver_soon()

    def send(self, message: Outgoing, related: RequestId | None = None) -> None:
        """Put a message into the peer's inbox. Drop it if either end is closed."""
        frame = encode(message)
        if self._trace is not None:
            self._trace("->", frame)
        self._outbox.put(frame)

    async def drain(self, related: RequestId | None = None) -> None:
        await self._outbox.has_room.wait()

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        self._deliver_soon()

    def _deliver_soon(self) -> None:
        """Deliver the inbox in the next iteration of the event loop, so that `receive` never runs inside itself."""
        if not self._delivery_scheduled and self._receive is not None:
            self._delivery_scheduled = True
            asyncio.get_running_loop().call_soon(self._deliver_inbox)

    def _deliver_inbox(self) -> None:
        self._delivery_scheduled = False
        current_access.set(None)  # otherwise a message from an HTTP request's handler would have its rights
        while self._receive is not None and not self._paused:
            frame = self._inbox.take()
            if frame is None:
                if self._inbox.is_closed:
                    self._end_report.send(None)
                return
            if self._trace is not None:
                self._trace("<-", frame)
            self._receive(decode_from_server(frame, self.waits_for))

    async def close(self) -> None:
        """Close both ends. The peer still receives the messages in its inbox, but this end receives no more."""
        self._receive = None
        self._inbox.close()
        self._outbox.close()
        self._end_report.send(ConnectionClosed("the connection was closed"))


def memory_pair(trace: Trace | None = None) -> tuple[MemoryTransport, MemoryTransport]:
    """Return two connected transports, the client's and the server's. `trace` logs the frames at the client's end."""
    client, server = Inbox(), Inbox()
    return MemoryTransport(client, server, trace), MemoryTransport(server, client, None)
