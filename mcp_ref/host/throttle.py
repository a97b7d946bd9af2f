"""A limit on the messages that a server sends unasked, so that it leaves time for the other servers.

Log messages, progress and list changes have no limit of their own, so a server that never stops sending them would use
all the time of the event loop. The client therefore stops reading from such a server for a while. Then the pipe or
connection fills up, and the server has to wait.

Used by: hosted.py
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ..jsonrpc.large_messages import is_response
from ..jsonrpc.outline import MAX_UNREQUESTED
from ..transports.base import Direction, Trace, Transport

if TYPE_CHECKING:
    from ..client.client import Client

MAX_RATE = 1000.0
"""Maximum rate of one server's messages that are not responses, per second."""
MAX_BURST = 20
"""Maximum number of such messages that arrive before the rate is measured."""
MESSAGE_BYTES = 1024
"""Size of a message that counts as one, in bytes. Larger ones count more, so a server sends at most 1 MB per second."""


class Throttle:
    """The `trace` of a client, which pauses reading if the server sends many messages that are not responses."""

    def __init__(self, trace: Trace | None) -> None:
        self.client: Client | None = None
        self._trace = trace
        # The number of received messages beyond those that are allowed. Each sent message allows one, because it may
        # bring a response. Each second allows `MAX_RATE`, which `_pause_if_too_fast` subtracts.
        self._excess = 0.0
        self._subtracted_at = 0.0  # by the event loop's clock

    def __call__(self, direction: Direction, frame: bytes) -> None:
        if self._trace is not None:
            self._trace(direction, frame)
        if direction == "->":
            self._excess -= 1
        else:
            self._excess += 1
            if len(frame) > MESSAGE_BYTES:
                self._excess += self._surcharge(frame)
        if self._excess > MAX_BURST:  # only then, because reading the clock for each message takes time
            self._pause_if_too_fast()

    def _surcharge(self, frame: bytes) -> float:
        """Return the number of further messages that a large one counts as, unless it is a response."""
        transport = self._transport()
        if transport is None or is_response(frame, transport.waits_for):
            return 0.0
        # A message above `MAX_UNREQUESTED` costs no more, because it is refused without being read.
        return min(len(frame), MAX_UNREQUESTED) / MESSAGE_BYTES

    def _pause_if_too_fast(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._excess = max(0.0, self._excess - (now - self._subtracted_at) * MAX_RATE)
        self._subtracted_at = now
        transport = self._transport()
        if self._excess > MAX_BURST and transport is not None:
            transport.pause_reading()
            loop.call_later(self._excess / MAX_RATE, transport.resume_reading)

    def _transport(self) -> Transport | None:
        return None if self.client is None else self.client.transport
