"""An HTTP/1.1 server on asyncio.

    async def hello(exchange: Exchange) -> None:
        await exchange.respond(200, [("Content-Type", "text/plain")], b"hello")

    async with await serve(hello) as server:
        print(server.address)
        await asyncio.Event().wait()

asyncio owns the sockets; `http.server` parses and writes heads (parser.py). A connection's requests are answered one
after the other, each by a task of its own; no thread. What a client can make us hold or wait for is bounded by
`HttpLimits`.

Spec:  RFC 9110, RFC 9112
Below: connection.py, what happens on one connection. Beside: asgi.py, the same exchanges under another server
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import time
from dataclasses import dataclass
from email.utils import formatdate
from ssl import SSLContext
from types import TracebackType
from typing import Final, Self

from .connection import LINGER, HttpConnection
from .message import Handler, HeaderList
from .parser import write_response_head

log = logging.getLogger(__name__)

MAX_KNOWN_HEADS: Final = 256
"""Response heads that are kept for the next time."""

STUBBORN: Final = 5.0
"""Seconds that a cancelled handler may take to end, before the server stops without it."""


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """What a client may make the server hold (in bytes), and wait for (in seconds)."""

    connections: int = 10_000
    """Connections at a time; the next one is answered 503. One whose handler still runs counts, also without client."""
    head_size: int = 32 * 1024
    """The request line and the headers: 431."""
    header_count: int = 100
    """Headers of one request: 431. `http.client`, which reads them, takes no more than 100."""
    body_size: int = 4 * 1024 * 1024
    """The body, without chunk sizes: 413, before it is read where it says its length."""
    head_time: float = 10.0
    """From the first byte of a request to the end of its head (408), and from the connection to its first request."""
    body_time: float = 60.0
    """From the end of the head to the end of the body: 408."""
    idle_time: float = 75.0
    """From an answer to the next request; then the connection is closed. (75 s, as in nginx.)"""
    write_buffer: int = 4 * 1024 * 1024
    """What a client may leave unread of a stream; when more is written it is disconnected."""
    write_time: float = 30.0
    """How long a client with more than 64 KiB to read may read nothing; then it is disconnected."""


class HttpServer:
    """A server that listens. Get one from `serve`."""

    def __init__(self, handler: Handler, limits: HttpLimits) -> None:
        self.handler = handler
        self.limits = limits
        self.loop = asyncio.get_running_loop()
        self.context = contextvars.copy_context()
        """What was set where the server was started; every request begins with that."""
        self._connections: set[HttpConnection] = set()
        self._heads: dict[tuple[int, tuple[tuple[str, str], ...], bool], bytes] = {}
        self._date = (0, b"")
        self._listener: asyncio.Server | None = None
        self._clock: asyncio.Task[None] | None = None
        self._emptied = asyncio.Event()

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the (first) listening socket. Raises RuntimeError when the server is closed."""
        if self._listener is None or not self._listener.sockets:
            raise RuntimeError("the server is closed")
        host, port, *_ = self._listener.sockets[0].getsockname()
        return str(host), int(port)

    @property
    def connections(self) -> int:
        """How many connections there are, those included that are being closed."""
        return len(self._connections)

    async def listen(self, host: str | None, port: int, ssl: SSLContext | None) -> None:
        """Begin to accept connections."""
        self._listener = await self.loop.create_server(
            lambda: HttpConnection(self),
            host,
            port,
            ssl=ssl,
            backlog=1024,
            ssl_handshake_timeout=self.limits.head_time if ssl else None,
            ssl_shutdown_timeout=LINGER if ssl else None,
        )
        self._clock = asyncio.create_task(self._check_times())

    async def close(self, grace: float = 3.0) -> None:
        """Stop: accept nothing more, give answers under way `grace` seconds, then cut off and cancel what is left."""
        if self._listener is None:
            return
        listener, self._listener = self._listener, None
        listener.close()
        for connection in tuple(self._connections):
            connection.finish()
        await self._until_empty(grace)
        tasks = [task for connection in tuple(self._connections) if (task := connection.abort()) is not None]
        if tasks:
            _, stubborn = await asyncio.wait(tasks, timeout=STUBBORN)
            for task in stubborn:
                log.error("a handler does not end when it is cancelled: %r", task)
        await self._until_empty(1.0)
        if self._clock is not None:
            self._clock.cancel()
            await asyncio.wait([self._clock])

    async def _until_empty(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                while self._connections:
                    self._emptied.clear()
                    await self._emptied.wait()
        except TimeoutError:
            pass

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # ------------------------------------------------------------------------------------- for its connections

    def admit(self, connection: HttpConnection) -> bool:
        """Note a connection. False when there are too many; it will leave."""
        self._connections.add(connection)
        return len(self._connections) <= self.limits.connections

    def release(self, connection: HttpConnection) -> None:
        """A connection is closed, and its handler has ended."""
        self._connections.discard(connection)
        if not self._connections:
            self._emptied.set()

    def response_head(self, status: int, headers: HeaderList, close: bool) -> bytes:
        """A head, up to what frames the body. Raises ValueError for headers that cannot be sent."""
        key = (status, tuple(headers), close)
        head = self._heads.get(key)
        if head is None:
            head = write_response_head(status, headers, close)
            if len(self._heads) >= MAX_KNOWN_HEADS:
                self._heads.clear()
            self._heads[key] = head
        now = int(time.time())
        if now != self._date[0]:
            self._date = (now, f"Date: {formatdate(now, usegmt=True)}\r\n".encode())
        return head + self._date[1]

    async def _check_times(self) -> None:
        """One clock for all connections: timers of their own would cost more than all else on a quick request."""
        limits = self.limits
        shortest = min(limits.head_time, limits.body_time, limits.idle_time, limits.write_time, LINGER)
        while True:
            await asyncio.sleep(min(1.0, shortest / 4))
            now = self.loop.time()
            for connection in tuple(self._connections):
                connection.check_time(now)


async def serve(
    handler: Handler,
    host: str | None = "127.0.0.1",
    port: int = 0,
    ssl: SSLContext | None = None,
    limits: HttpLimits | None = None,
) -> HttpServer:
    """Listen, and answer every request with `handler`.

    host: an address or name of this machine; "" or None for all of them. port: 0 for any that is free; see `address`.
    ssl: a context with a certificate, for HTTPS. Raises OSError when the port is in use.
    """
    server = HttpServer(handler, limits or HttpLimits())
    await server.listen(host, port, ssl)
    return server
