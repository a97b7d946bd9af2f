"""The transport between a client and a server in one program.

Tests use this transport, and so do clients that run a server inside their own process. The transport encodes every
message to bytes and decodes the bytes again, so that a message which JSON cannot hold fails here too.

Spec:  basic/transports#custom-transports (all revisions)
"""

from __future__ import annotations

import asyncio
from collections import deque

from ..basic.access import current_access
from ..jsonrpc.errors import ConnectionClosed
from ..jsonrpc.messages import Outgoing, RequestId, decode, encode
from .base import EndReport, OnEnd, Receive, Trace, Transport, no_trace

MAX_UNREAD = 64 * 1024
"""Maximum total size of the messages that one end has not read, in bytes (64 KiB). Above it, `drain` waits."""


class MemoryTransport(Transport):
    """One of the two connected transports that `memory_pair` returns."""

    can_restart = True

    def __init__(self, trace: Trace | None = None) -> None:
        self.peer: MemoryTransport | None = None
        self._trace = trace or no_trace
        self._receive: Receive | None = None
        self._end = EndReport()
        self._inbox: deque[bytes] = deque()
        self._size = 0  # total size of the messages in the inbox, in bytes
        self._paused = self._closed = False
        self._delivery_scheduled = False  # True while a call of `_deliver_inbox` is scheduled
        self._writable = asyncio.Event()  # set while the inbox is small; else the peer's `drain` waits
        self._writable.set()

    async def start(self, receive: Receive, on_end: OnEnd) -> None:
        """Begin to deliver messages, including the messages that the peer sent before this call."""
        self._receive = receive
        self._end.deliver_to(on_end)
        self._deliver_soon()

    def send(self, message: Outgoing, related: RequestId | None = None) -> None:
        """Put a message into the peer's inbox. Drop it if either end is closed."""
        frame, peer = encode(message), self.peer
        self._trace("->", frame)
        if peer is None or peer._closed or self._closed:
            return
        peer._inbox.append(frame)
        peer._size += len(frame)
        if peer._size > MAX_UNREAD:
            peer._writable.clear()
        peer._deliver_soon()

    async def drain(self, related: RequestId | None = None) -> None:
        if self.peer is not None:
            await self.peer._writable.wait()

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        self._deliver_soon()

    def _deliver_soon(self) -> None:
        """Deliver the inbox in the next turn of the event loop, so that `receive` is never called inside itself."""
        if not self._delivery_scheduled and self._receive is not None:
            self._delivery_scheduled = True
            asyncio.get_running_loop().call_soon(self._deliver_inbox)

    def _deliver_inbox(self) -> None:
        self._delivery_scheduled = False
        current_access.set(None)  # the sender can be the handler of an HTTP request, but this message is not HTTP
        while self._inbox and not self._paused and self._receive is not None:
            frame = self._inbox.popleft()
            self._size -= len(frame)
            if self._size <= MAX_UNREAD // 2:
                self._writable.set()
            self._trace("<-", frame)
            self._receive(decode(frame))
        if self._closed and not self._inbox:
            self._end.send(None)

    async def close(self) -> None:
        """Close both ends. The peer still receives the messages in its inbox. This end receives no more messages."""
        for end in (self, self.peer):
            if end is not None and not end._closed:
                end._closed = True
                end._writable.set()
                end._deliver_soon()
        self._inbox.clear()
        self._receive = None
        self._end.send(ConnectionClosed("the connection was closed"))


def memory_pair(trace: Trace | None = None) -> tuple[MemoryTransport, MemoryTransport]:
    """Return two connected transports: the client's and the server's. `trace` logs the frames at the client's end."""
    client, server = MemoryTransport(trace), MemoryTransport()
    client.peer, server.peer = server, client
    return client, server
