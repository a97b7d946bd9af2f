"""The open connections of one server, and the memory and the limits that they share.

Each connection has a reference to the one `Connections` object of its server. It adds itself there, and finds there the
handler, the limits, and the buffers and caches that are too large for every connection to have its own.

Threats:
    connections-of-one-address: A client shuts others out by opening all connections that the server allows. One public
        address can have only a part of them. The addresses of private networks have no such limit, because they are
        often those of proxies and address translators, so there the proxy or the firewall must set one.

Used by: connection.py, server.py
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import logging
import math
import time
from collections import deque
from collections.abc import Callable
from ipaddress import ip_address
from typing import Final, Protocol

from ..turns import Turns, current_turns
from .framing import MAX_RECEIVED_BYTES, ResponseHeadWriter
from .message import BodyMemory, Handler, HttpLimits, network_of
from .parser import MAX_SHARED_HEADS, parse_request_head

log = logging.getLogger(__name__)

ADDRESS_SHARE: Final = 3 / 4
"""The part of all connections that one public IPv4 address, or one IPv6 network of 64 bits, may have before its further
connections get status 503."""

MAX_UNCOUNTED: Final = 16 * 1024
"""Size up to which a client's unread data do not count for `unread_size`, in bytes (16 KiB). With TLS, asyncio keeps
64 KiB more."""

CROWDED_READ_SECONDS: Final = 1.0
"""Seconds in which a client must read a part of its data while all clients together have over `unread_size` unread."""

CROWDED_READ_SHARE: Final = 1 / 16
"""The part of its unread data that a client must read in that time, so that slow readers cannot keep the memory."""


class OpenConnection(Protocol):
    """A connection, as its server sees it: `HttpConnection`."""

    def check_time_limits(self, now: float) -> None:
        """End a phase or a write that has exceeded its time limit. Called at regular intervals."""

    def close_after_response(self) -> None:
        """Close the connection after the current response, or now if no handler runs, because the server stops."""

    def abort(self) -> asyncio.Task[None] | None:
        """Abort the connection and cancel its handler. Return the handler's task, if it still runs."""


class SlowReader:
    """A client that has more than `MAX_UNCOUNTED` bytes of unread data, until it has read most of them."""

    def __init__(self, connections: Connections, transport: asyncio.Transport, client: object) -> None:
        self._connections, self._transport, self._client = connections, transport, client
        self.drained: asyncio.Future[None] = connections.loop.create_future()
        """Done when the client has read most of the data, or has disconnected."""
        self._written = 0  # bytes that were written since this object was made
        # number of bytes read at the client's last progress, and its time; the first `check` counts as progress
        self._read_at_progress, self._progress_at = -math.inf, 0.0

    def note_written(self, size: int) -> None:
        self._written += size
        self._connections.count_unread(self, self._transport.get_write_buffer_size())

    def check(self, now: float) -> None:
        """Disconnect the client if it has read too little for too long."""
        limits = self._connections.limits
        unread = self._transport.get_write_buffer_size()
        # the client must read this many bytes in this time: usually one, but a share when the server runs out of memory
        least_bytes, seconds = 1.0, limits.write_time
        if self._connections.unread_bytes >= limits.unread_size:
            least_bytes, seconds = unread * CROWDED_READ_SHARE, min(seconds, CROWDED_READ_SECONDS)
        self._connections.count_unread(self, unread)
        read = self._written - unread  # negative at first, because `unread` includes what was written before
        if read - self._read_at_progress >= least_bytes:
            self._read_at_progress, self._progress_at = read, now
        elif now >= self._progress_at + seconds:
            log.info("disconnected %s, which read less than %d bytes in %s s", self._client, least_bytes, seconds)
            self._transport.abort()

    def end(self) -> None:
        """Let the requests that wait for this client continue, because it has read enough or has disconnected."""
        self.drained.set_result(None)
        self._connections.count_unread(self, 0)


class Connections:
    """The open connections of one server, and the data that they share."""

    def __init__(self, handler: Handler, limits: HttpLimits, max_open: int, is_urgent: Callable[[bytes], bool]) -> None:
        self.handler, self.limits, self.max_open, self.is_urgent = handler, limits, max_open, is_urgent
        self.loop = asyncio.get_running_loop()
        self.turns = Turns(self.has_room)
        self.unread_bytes = 0
        """Number of unread bytes of all `slow` readers."""
        self.slow: dict[SlowReader, int] = {}
        """The number of unread bytes of each slow reader."""
        self.context = contextvars.copy_context()
        """The context variables at the server's start, of which each handler gets a copy."""
        self.context.run(current_turns.set, self.turns)
        self.received = memoryview(bytearray(MAX_RECEIVED_BYTES))
        """The buffer of each `recv`, because asyncio would allocate 256 KiB for it, which takes 15 microseconds."""
        self.parse_head = functools.lru_cache(maxsize=MAX_SHARED_HEADS)(parse_request_head)
        self.head_writer, self.bodies = ResponseHeadWriter(), BodyMemory(limits.bodies_size)
        self.open: dict[OpenConnection, str] = {}
        """The connections that are open, or whose handler still runs, each with the network of its client."""
        self._networks: dict[str, int] = {}
        """The number of open connections of each network."""
        self.refused: deque[OpenConnection] = deque()
        """The latest connections that got status 503, while their clients read it."""
        self._all_closed = asyncio.Event()

    def has_room(self) -> bool:
        """Return True if clients have less than `unread_size` unread. Above it, disconnect slow readers first."""
        if self.unread_bytes >= self.limits.unread_size:
            for reader in tuple(self.slow):
                reader.check(time.monotonic())
        return self.unread_bytes < self.limits.unread_size

    def count_unread(self, reader: SlowReader, size: int) -> None:
        """Set the number of unread bytes of a slow reader; 0 when it is no longer slow."""
        self.unread_bytes += size - self.slow.pop(reader, 0)
        if size:
            self.slow[reader] = size

    def add(self, connection: OpenConnection, address: str) -> str | None:
        """Add a new connection of a client. Return the reason to refuse it, if there is one.

        Args:
            connection: The connection.
            address: The client's IP address, or "" if it has none.
        """
        network = self.open[connection] = network_of(address)
        self._networks[network] = self._networks.get(network, 0) + 1
        if len(self.open) > self.max_open:
            return "all connections are in use; try again later"
        if self._networks[network] > math.ceil(self.max_open * ADDRESS_SHARE) and is_public(address):
            return "your address has too many connections; close some of them"
        return None

    def remove(self, connection: OpenConnection) -> None:
        """Remove a connection that is closed and whose handler has ended."""
        network = self.open.pop(connection, None)
        if network is not None:
            self._networks[network] -= 1
            if not self._networks[network]:
                del self._networks[network]
        if not self.open:
            self._all_closed.set()

    async def wait_closed(self, seconds: float) -> None:
        """Wait until all connections are removed, but at most `seconds`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.open:
                    self._all_closed.clear()
                    await self._all_closed.wait()


def is_public(address: str) -> bool:
    """Return True if an IP address is reachable from the Internet, unlike those of loopback and private networks."""
    try:
        return ip_address(address.removeprefix("::ffff:")).is_global
    except ValueError:
        return False
