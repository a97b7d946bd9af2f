"""An HTTP/1.1 server on asyncio.

    async def hello(exchange: Exchange) -> None:
        exchange.respond(200, [("Content-Type", "text/plain")], b"hello")

    async with await start_server(hello) as server:
        print(server.address)
        await asyncio.Event().wait()

All handlers run on the event loop: one that has to wait gets an asyncio task, and none gets a thread. `HttpLimits`
limits memory and time.

Each connection needs a file descriptor. If none is free, asyncio's own listener would try again a thousand times a
second, and log each failure, so the server accepts connections itself, and keeps a quarter of the descriptors free.

Spec:  RFC 9110, RFC 9112
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import time
from collections.abc import Callable, Collection
from functools import partial
from socket import socket
from ssl import SSLContext
from typing import Final, Self

from .connection import LINGER_SECONDS, MAX_REFUSED, HttpConnection
from .connections import Connections
from .message import Handler, HttpLimits

log = logging.getLogger(__name__)

CANCEL_SECONDS: Final = 5.0
"""Seconds for which a stopping server waits for cancelled handlers to end."""

MAX_QUEUED_CONNECTIONS: Final = 1024
"""Maximum number of connections that the operating system holds until the server accepts them."""

STARTING_BATCH: Final = 8
"""Number of connections being set up. When there are so many, the server lets them go on before it accepts another."""

ACCEPT_RETRY_SECONDS: Final = 0.1
"""Seconds until the server tries again to accept a connection if no file descriptor is free."""

ACCEPT_LOG_SECONDS: Final = 60.0
"""Minimum time between two log lines about connections that could not be accepted, in seconds."""


class HttpServer:
    """A listening server, which `start_server` creates and the end of an `async with` block closes."""

    def __init__(self, connections: Connections, sockets: list[socket], tls: SSLContext | None) -> None:
        self._connections, self._sockets, self._tls = connections, sockets, tls
        self._starting: set[asyncio.Task[None]] = set()  # tasks of `_start`, which take long only with TLS
        self._quiet_until = 0.0  # no log line about failures to accept until this time
        self._closing: asyncio.Task[None] | None = None  # runs `_close`
        self._time_check = asyncio.create_task(self._check_times())
        self._accepting = [asyncio.create_task(self._accept(listening)) for listening in sockets]

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the first listening socket. Raises RuntimeError after the server is closed."""
        if not self._sockets:
            raise RuntimeError("the server is closed")
        host, port, *_ = self._sockets[0].getsockname()
        return str(host), int(port)

    @property
    def connection_count(self) -> int:
        """Number of connections, including closed ones whose handlers have not ended."""
        return len(self._connections.open)

    async def close(self, grace: float = 3.0, last_request_seconds: float = 0.0) -> None:
        """Accept no more connections, give the handlers `grace` seconds to finish, and then cancel them.

        The server ends even if the caller is cancelled meanwhile.

        Args:
            grace: Time for the handlers, in seconds.
            last_request_seconds: Time in which a connection that has no request yet can still send one, so that a load
                balancer that has just connected does not lose its request.
        """
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(grace, last_request_seconds))
        await asyncio.shield(self._closing)

    async def _close(self, grace: float, last_request_seconds: float) -> None:
        sockets, self._sockets = self._sockets, []
        await end_tasks(self._accepting)
        for listening in sockets:
            if last_request_seconds:
                self._accept_queued(listening)
            listening.close()
        if last_request_seconds:
            await asyncio.sleep(last_request_seconds)
        await end_tasks(self._starting)
        for connection in tuple(self._connections.open):
            connection.close_after_response()
        await self._connections.wait_closed(grace)
        tasks = []
        for connection in tuple(self._connections.open):
            task = connection.abort()
            if task is not None:
                tasks.append(task)
        if tasks:
            _, running = await asyncio.wait(tasks, timeout=CANCEL_SECONDS)
            for task in running:
                log.error("a handler still runs %g s after it was cancelled: %r", CANCEL_SECONDS, task)
        await self._connections.wait_closed(1.0)  # `abort` closes a connection only in the loop's next turn
        await end_tasks([self._time_check])

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _accept(self, listening: socket) -> None:
        """Accept connections until this is cancelled, and set up each of them in a task."""
        loop, connections = self._connections.loop, self._connections
        while True:
            descriptors = len(connections.open) + len(self._starting)
            if descriptors >= connections.max_open + MAX_REFUSED + STARTING_BATCH:
                # Connections above `max_open` are refused, but not before the end of their TLS handshakes. Without this
                # limit, unfinished handshakes would use up the file descriptors that the server keeps free.
                await asyncio.sleep(ACCEPT_RETRY_SECONDS)
                continue
            if len(self._starting) >= STARTING_BATCH:
                await asyncio.sleep(0)  # let `_start` run, because `_next_accepted` does not wait while clients queue
            try:
                accepted = await self._next_accepted(listening)
            except ConnectionAbortedError:
                continue  # the client has already disconnected
            except OSError as error:
                if loop.time() >= self._quiet_until:
                    self._quiet_until = loop.time() + ACCEPT_LOG_SECONDS
                    log.error("new connections must wait, because the system cannot accept them: %s", error)
                await asyncio.sleep(ACCEPT_RETRY_SECONDS)
                continue
            # not an eager task, which could end before it is in `_starting`
            self._starting.add(asyncio.Task(self._start(accepted), loop=loop))

    async def _next_accepted(self, listening: socket) -> socket:
        """Wait for a client, and return the socket of its connection.

        Nothing is awaited after `accept`, so when the server closes, the cancellation of this function loses no
        connection. `sock_accept` could lose one, but on Windows there is nothing else.
        """
        loop = self._connections.loop
        if sys.platform == "win32":
            return (await loop.sock_accept(listening))[0]
        while True:
            try:
                return listening.accept()[0]
            except BlockingIOError:
                has_client = loop.create_future()
                loop.add_reader(listening, _finish, has_client)
                try:
                    await has_client
                finally:
                    loop.remove_reader(listening)

    def _accept_queued(self, listening: socket) -> None:
        """Accept the connections that wait in the operating system, which would be reset by `listening.close()`."""
        with contextlib.suppress(OSError):  # also BlockingIOError: no further connection waits
            while len(self._connections.open) + len(self._starting) < self._connections.max_open:
                accepted, _ = listening.accept()
                self._starting.add(asyncio.Task(self._start(accepted), loop=self._connections.loop))

    async def _start(self, accepted: socket) -> None:
        """Set up an accepted connection, with TLS if the server uses it."""
        try:
            await self._connections.loop.connect_accepted_socket(
                lambda: HttpConnection(self._connections), accepted, ssl=self._tls,
                ssl_handshake_timeout=self._connections.limits.head_time if self._tls else None,
                ssl_shutdown_timeout=LINGER_SECONDS if self._tls else None)  # fmt: skip
        except OSError as error:
            log.debug("a client has left before its connection was set up: %s", error)
        finally:
            self._starting.discard(asyncio.current_task())

    async def _check_times(self) -> None:
        # One task checks all connections, because a timer for each phase would double the time of a short request.
        limits = self._connections.limits
        shortest = min(limits.head_time, limits.body_time, limits.idle_time, limits.write_time, LINGER_SECONDS)
        while True:
            await asyncio.sleep(min(1.0, shortest / 4))
            now = time.monotonic()
            for connection in tuple(self._connections.open):
                connection.check_time_limits(now)


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def start_server(
    handler: Handler, host: str | socket | None = "127.0.0.1", port: int = 0, ssl: SSLContext | None = None,
    limits: HttpLimits | None = None, is_urgent: Callable[[bytes], bool] = lambda body: False,
) -> HttpServer:  # fmt: skip
    """Return a listening server that calls the handler for each valid request. Close the server, or use `async with`.

    Args:
        handler: A function, async or not, that responds to one exchange. Each connection runs one handler at a time.
        host: An IP address or name of this machine, or a bound socket; "" or None to listen on all addresses.
        port: The port to listen on; 0 for a free port (see `HttpServer.address`).
        ssl: A context with a certificate, for HTTPS.
        limits: Limits on memory and time. Default: `HttpLimits()`.
        is_urgent: A function that gets a request's body, and returns True if the response will be small. Such a request
            is handled at once, even while others wait because clients have left too many large responses unread.

    Raises:
        OSError: The port is in use, or the host is not an address of this machine.
        OverflowError: The port is not between 0 and 65535.
    """
    if not (isinstance(port, int) and 0 <= port <= 65535):  # uvloop would listen on another port
        raise OverflowError(f"the port must be an integer from 0 to 65535, not {port!r}")
    limits = limits or HttpLimits()
    if isinstance(host, socket):
        sockets = [host]
    else:
        # Let asyncio find all addresses of the host, but close its listener, which cannot limit the connections.
        listener = await _find_addresses(host, port)
        sockets = [each.dup() for each in listener.sockets]
        listener.close()
    for listening in sockets:
        listening.setblocking(False)
        listening.listen(MAX_QUEUED_CONNECTIONS)
    return HttpServer(Connections(handler, limits, allow_connections(limits.connections), is_urgent), sockets, ssl)


async def _find_addresses(host: str | None, port: int) -> asyncio.Server:
    """Return a listener on all addresses of a host. A free port is the same for all, because the URL has only one."""
    bind = partial(asyncio.get_running_loop().create_server, asyncio.Protocol, host, start_serving=False)
    listener = await bind(port)
    ports = [each.getsockname()[1] for each in listener.sockets]
    if len(set(ports)) == 1:
        return listener
    listener.close()  # asyncio has chosen another free port for each address
    try:
        return await bind(ports[0])
    except OSError:  # another program uses this port of another address
        return await bind(port)


def allow_connections(wanted: int) -> int:
    """Return the number of connections for which there are file descriptors, at most `wanted`.

    If the process's soft limit on file descriptors is too low, first raise it as far as the hard limit allows.
    """
    if sys.platform == "win32":
        return wanted
    import resource  # lazy: Windows has no such module

    soft_limit, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)  # a negative number means no limit
    # Connections may use three quarters of the descriptors, so 4/3 of their number are needed, rounded up.
    needed_files = (wanted + MAX_REFUSED + STARTING_BATCH) * 4 // 3 + 1
    if 0 <= soft_limit < needed_files:
        raised = min(needed_files, hard_limit) if hard_limit >= 0 else needed_files
        with contextlib.suppress(ValueError, OSError):  # the system may allow less than its hard limit says
            resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard_limit))
            soft_limit = raised
    if soft_limit < 0 or soft_limit >= needed_files:
        return wanted
    allowed = max(1, soft_limit * 3 // 4 - MAX_REFUSED - STARTING_BATCH)
    log.warning("only %d connections are possible, because this process can open only %d files: raise `ulimit -n`",
                allowed, soft_limit)  # fmt: skip
    return allowed


async def end_tasks(tasks: Collection[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
