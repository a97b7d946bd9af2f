"""The throttle of one server: a server that sends too many messages waits.

The client's own requests limit the number of responses. Log messages, progress and list changes have no such limit. A
server that sends them without end would use the whole time of the event loop, and the calls of all other servers would
wait. So the host pauses reading. Then the pipe or the connection is full, and the server waits.

Spec:  2026-07-28 server/utilities/logging, basic/patterns/progress
"""

from __future__ import annotations

import asyncio

from ..client.client import Client
from ..transports.base import Direction, Trace

MAX_RATE, MAX_BURST = 1000.0, 20
"""Maximum number of unrequested messages of one server per second, and at once."""


class Throttle:
    """The `trace` of a client. It pauses reading if the server sends many messages that are not responses."""

    def __init__(self, trace: Trace | None) -> None:
        self.client: Client | None = None
        self._trace = trace
        self._excess = self._checked = 0.0  # received minus sent messages, less `MAX_RATE` for each second

    def __call__(self, direction: Direction, frame: bytes) -> None:
        if self._trace is not None:
            self._trace(direction, frame)
        self._excess += 1 if direction == "<-" else -1
        if self._excess > MAX_BURST:
            loop = asyncio.get_running_loop()
            now = loop.time()
            self._excess = max(0.0, self._excess - (now - self._checked) * MAX_RATE)
            self._checked = now
            transport = self.client.transport if self.client is not None else None
            if self._excess > MAX_BURST and transport is not None:
                transport.pause_reading()
                loop.call_later(MAX_BURST / MAX_RATE, transport.resume_reading)
