"""An HTTP/1.1 server on asyncio.

    async def hello(exchange: Exchange) -> None:
        await exchange.respond(200, [("Content-Type", "text/plain")], b"hello")

    async with await serve(hello) as server:
        print(server.address)
        await asyncio.Event().wait()

Each handler runs in an asyncio task. The server uses no threads. `HttpLimits` limits its memory and time.

Spec:  RFC 9110, RFC 9112
"""

from __future__ import annotations

import asyncio
import logging
from socket import socket
from ssl import SSLContext
from typing import Final, Self

from .connection import LINGER_SECONDS, Connections, HttpConnection
from .message import Handler, HttpLimits

log = logging.getLogger(__name__)

CANCEL_SECONDS: Final = 5.0
"""Seconds for which a stopping server waits for cancelled handlers to end."""


class HttpServer:
    """A listening server. `serve` creates it. The end of an `async with` block closes it."""

    def __init__(self, connections: Connections, listener: asyncio.Server) -> None:
        self._connections, self._listener = connections, listener
        self._time_check = asyncio.create_task(self._check_times())

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the first listening socket. Raises RuntimeError after the server is closed."""
        if not self._listener.sockets:
            raise RuntimeError("the server is closed")
        host, port, *_ = self._listener.sockets[0].getsockname()
        return str(host), int(port)

    @property
    def connections(self) -> int:
        """Number of connections. A closed connection counts until its handler has ended."""
        return len(self._connections.open)

    async def close(self, grace: float = 3.0) -> None:
        """Accept no more connections. Give the handlers `grace` seconds to finish, then cancel unfinished handlers."""
        if not self._listener.is_serving():
            return
        self._listener.close()
        for connection in tuple(self._connections.open):
            connection.close_after_response()
        await self._connections.wait_closed(grace)
        tasks = [task for connection in tuple(self._connections.open) if (task := connection.abort()) is not None]
        if tasks:
            _, running = await asyncio.wait(tasks, timeout=CANCEL_SECONDS)
            for task in running:
                log.error("a handler still runs %g s after it was cancelled: %r", CANCEL_SECONDS, task)
        await self._connections.wait_closed(1.0)
        self._time_check.cancel()
        await asyncio.wait([self._time_check])

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _check_times(self) -> None:
        # One task checks all connections. A timer for each phase would double the time of a short request.
        limits = self._connections.limits
        shortest = min(limits.head_time, limits.body_time, limits.idle_time, limits.write_time, LINGER_SECONDS)
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(min(1.0, shortest / 4))
            now = loop.time()
            for connection in tuple(self._connections.open):
                connection.check_time_limits(now)


async def serve(
    handler: Handler,
    host: str | socket | None = "127.0.0.1",
    port: int = 0,
    ssl: SSLContext | None = None,
    limits: HttpLimits | None = None,
) -> HttpServer:
    """Return a listening server that calls the handler for each valid request. Close the server, or use `async with`.

    Args:
        handler: A coroutine function that responds to one exchange. Each connection runs one handler at a time.
        host: An IP address or name of this machine, or a bound socket; "" or None to listen on all addresses.
        port: The port to listen on; 0 for a free port (see `HttpServer.address`).
        ssl: A context with a certificate, for HTTPS.
        limits: Limits on memory and time. Default: `HttpLimits()`.

    Raises:
        OSError: The port is in use, or the host is not an address of this machine.
    """
    connections = Connections(handler, limits or HttpLimits())
    listener = await connections.loop.create_server(
        lambda: HttpConnection(connections),
        **({"sock": host} if isinstance(host, socket) else {"host": host, "port": port}),
        ssl=ssl,
        backlog=1024,
        ssl_handshake_timeout=connections.limits.head_time if ssl else None,
        ssl_shutdown_timeout=LINGER_SECONDS if ssl else None,
    )
    return HttpServer(connections, listener)
