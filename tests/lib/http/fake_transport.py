"""A transport without a socket, for the connections of servers and of clients."""

from __future__ import annotations

import asyncio


class FakeTransport(asyncio.Transport):
    """A transport that notes its calls."""

    def __init__(self, peer: object = None, is_tls: bool = False) -> None:
        super().__init__({"peername": peer, "sslcontext": object() if is_tls else None})
        self.calls: list[object] = []
        self.written = bytearray()
        self.unread = self.max_size = 0
        self.is_closed = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.calls.append(high)

    def get_write_buffer_size(self) -> int:
        return self.unread

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def can_write_eof(self) -> bool:
        return True

    def is_closing(self) -> bool:
        return self.is_closed

    def pause_reading(self) -> None:
        self.calls.append("pause")

    def resume_reading(self) -> None:
        self.calls.append("resume")

    def write_eof(self) -> None:
        self.calls.append("eof")

    def close(self) -> None:
        self.calls.append("close")
        self.is_closed = True

    def abort(self) -> None:
        self.calls.append("abort")
        self.is_closed = True
