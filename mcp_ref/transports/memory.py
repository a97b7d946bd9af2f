"""Two peers in one program, for tests and for servers that live inside their client.

The frames are real: every message is written to bytes and read again, so that what works here works on a wire.

Spec:  basic/transports#custom-transports
"""

from __future__ import annotations

import asyncio
from collections import deque

from ..jsonrpc.errors import ConnectionClosed
from ..jsonrpc.messages import Outgoing, RequestId, decode, encode
from .base import FlowControl, Lost, Receive, Trace, Transport

HIGH_WATER = 64 * 1024
"""Bytes on the way to a peer before those who send to it wait (64 KiB)."""


class MemoryTransport(Transport):
    """One end of a pair; see `memory_pair`."""

    def __init__(self, trace: Trace | None = None) -> None:
        self.peer: MemoryTransport | None = None
        self._trace = trace
        self._receive: Receive | None = None
        self._lost: Lost | None = None
        self._inbox: deque[bytes] = deque()
        self._size = 0
        self._paused = False
        self._pumping = False
        self._valve = FlowControl()  # of those who send to this end
        self._closed = False

    async def start(self, receive: Receive, lost: Lost) -> None:
        """Begin to deliver, also what was sent before."""
        self._receive, self._lost = receive, lost
        self._pump_soon()

    def send(self, message: Outgoing, related: RequestId | None = None) -> None:
        """Write a message to the peer's inbox; dropped when the connection is closed."""
        frame = encode(message)
        peer = self.peer
        if self._trace is not None:
            self._trace("->", frame)
        if peer is None or peer._closed or self._closed:
            return
        peer._inbox.append(frame)
        peer._size += len(frame)
        if peer._size > HIGH_WATER:
            peer._valve.shut()
        peer._pump_soon()

    async def drain(self, related: RequestId | None = None) -> None:
        """Wait until the peer has read enough."""
        if self.peer is not None:
            await self.peer._valve.wait()

    def pause_reading(self) -> None:
        """Leave what comes in the inbox."""
        self._paused = True

    def resume_reading(self) -> None:
        """Go on delivering, in the next turn of the event loop."""
        self._paused = False
        self._pump_soon()

    def _pump_soon(self) -> None:
        if not self._pumping and self._receive is not None:
            self._pumping = True
            asyncio.get_running_loop().call_soon(self._pump)

    def _pump(self) -> None:
        self._pumping = False
        while self._inbox and not self._paused and self._receive is not None:
            frame = self._inbox.popleft()
            self._size -= len(frame)
            if self._size <= HIGH_WATER // 2:
                self._valve.open()
            if self._trace is not None:
                self._trace("<-", frame)
            self._receive(decode(frame))
        if self._closed and not self._inbox and self._lost is not None:
            lost, self._lost = self._lost, None
            lost(None)

    async def close(self) -> None:
        """Close both ends. What is on the way still arrives at the peer; nothing more arrives here."""
        for end in (self, self.peer):
            if end is not None and not end._closed:
                end._closed = True
                end._valve.open()
                end._pump_soon()
        self._inbox.clear()
        self._receive = None
        if self._lost is not None:
            lost, self._lost = self._lost, None
            lost(ConnectionClosed("the connection was closed"))


def memory_pair(trace: Trace | None = None) -> tuple[MemoryTransport, MemoryTransport]:
    """Two ends of one connection, client's and server's. `trace` sees the frames from the client's end."""
    client, server = MemoryTransport(trace), MemoryTransport()
    client.peer, server.peer = server, client
    return client, server
