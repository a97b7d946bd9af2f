"""The clients of a bridge towards one server.

A legacy server keeps state for each session, and decides by the capabilities in `initialize`. So the key of a client
decides which callers can use it:

    caller                          legacy server                             modern server
    a legacy session                its own client, for its life              one for each principal
    a modern request                a pool for each principal and set of      one for each principal
                                    client capabilities

A legacy server's request does not say to which call it belongs. So a client of a pool serves one call at a time, if the
caller has declared a capability, which the server could use: the client is *leased*. A held call keeps its client, but
not its place in the pool, because a user can take minutes. Over Streamable HTTP, a request
arrives on the stream of its call, but the lease holds there too, because a server can use the GET stream instead.

Reasons to share no more: a bridge that shares one session sends the messages of one user to others. Every key has the
principal, and the credentials for the server come from the bridge's own configuration, never from the caller.

Threats:
    bridge-shared-session: the messages of another user; a client; uses the same ids and tokens; each principal has its
        own clients, and each client its own ids.
    bridge-restart-loop: the user's computer; a server; ends after each start; the pauses between the starts grow.

Spec:  basic/lifecycle (2024-11-05 to 2025-11-25), 2026-07-28 basic/versioning, basic/index#statelessness
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Final

from ..basic.lifecycle import declares
from ..client.connector import ConnectionState
from ..jsonrpc.errors import ProtocolError
from ..jsonrpc.messages import INTERNAL_ERROR
from ..server.session import ServerSession
from .back_client import BackClient, Caller, PassNotification, ServerNotes

log = logging.getLogger(__name__)

MAX_CLIENTS_PER_KEY: Final = 4
"""Maximum number of clients of one server with the same key. Further calls wait."""
MAX_POOLS: Final = 128
"""Number of keys of one server above which keys without clients are forgotten."""
MAX_CLIENTS: Final = 32
"""Maximum number of clients of one server with all keys."""

POOL_SECONDS: Final = 30.0
"""Time that a call waits for a client of a full pool, in seconds."""

SHORT_LIFE: Final = 10.0
"""Time within which the end of a connection counts as a failure of the server, in seconds."""

MAX_PAUSE: Final = 60.0
"""Longest pause between two attempts to start a server, in seconds. The first pause is one second."""


@dataclass(eq=False)
class _Pool:
    """The clients with one key."""

    slots: asyncio.Semaphore
    clients: list[BackClient] = field(default_factory=list)
    idle: list[BackClient] = field(default_factory=list)
    """The clients that are not leased."""
    connecting: asyncio.Task[BackClient] | None = None
    next_start: float = 0.0
    """Time before which no client connects, in seconds of the monotonic clock."""
    short_lives: int = 0
    """Number of clients in a row whose connections ended within `SHORT_LIFE` seconds."""
    users: int = 0
    """Number of calls that wait for a client, or have one."""

    def connected(self, task: asyncio.Task[BackClient]) -> None:
        """Note the end of an attempt to connect, which continues if the request that began it is cancelled."""
        self.connecting = None
        self.users -= 1
        if not task.cancelled():
            task.exception()  # reading the exception stops asyncio from logging it

    def open_client(self) -> BackClient | None:
        return next((client for client in self.clients if client.is_open), None)


def _pause(failures: int) -> float:
    """Return the pause after a number of earlier failures in a row, in seconds."""
    return min(2.0 ** min(failures, 10), MAX_PAUSE)  # without the inner limit, the power overflows after hours


MakeClient = Callable[["BackServer", Caller], Awaitable[BackClient]]
"""A function that returns a new client for a caller. It is async, because it can ask for consent first."""


class BackServer(ServerNotes):
    """One server behind the bridge, and the clients for it.

    Args:
        name: The server name.
        make: Makes a client, which is not connected yet.
        clients: Maximum number of clients with one key.
        pass_notification: Gets the notifications of all clients that belong to no call.
    """

    def __init__(self, name: str, make: MakeClient, clients: int, pass_notification: PassNotification) -> None:
        super().__init__(name, pass_notification)
        self.is_modern: bool | None = None
        """True if the server speaks the modern era; None until the first client has connected."""
        self.facts: BackClient | None = None
        """The client that has connected last. It knows the server's name, capabilities and instructions."""
        self.on_facts: Callable[[], None] = lambda: None
        """Called when `facts` has changed."""
        self.starts, self.last_error = 0, ""
        self._make, self._most = make, clients
        self._pools: dict[Hashable, _Pool] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._failures, self._next_start = 0, 0.0

    @property
    def clients(self) -> list[BackClient]:
        return [client for pool in self._pools.values() for client in pool.clients]

    def _pool(self, caller: Caller) -> _Pool:
        key = ("modern", caller.principal) if self.is_modern else caller.key
        if key not in self._pools:
            if len(self._pools) >= MAX_POOLS:  # a client can name other capabilities in each request
                self._pools = {key: pool for key, pool in self._pools.items() if pool.clients or pool.users}
            self._pools[key] = _Pool(asyncio.Semaphore(self._most))
        return self._pools[key]

    async def shared(self, caller: Caller) -> BackClient:
        """Return a client that can serve several requests of this caller at the same time. Connect it if necessary."""
        pool = self._pool(caller)
        client = pool.open_client()
        if client is not None:
            return client
        if pool.connecting is None:
            pool.users += 1
            pool.connecting = asyncio.create_task(self._connect(caller))
            pool.connecting.add_done_callback(pool.connected)
        return await asyncio.shield(pool.connecting)

    def needs_lease(self, caller: Caller) -> bool:
        """Return True if a client can serve only one call of this caller at a time. The era must be known."""
        return not self.is_modern and caller.session is None and bool(caller.capabilities)

    @contextlib.asynccontextmanager
    async def leased(self, caller: Caller) -> AsyncIterator[BackClient]:
        """Return a context manager with a client for one call.

        Raise ProtocolError if the pool stays full, or if the server cannot be started.
        """
        pool = self._pool(caller)
        pool.users += 1
        try:
            async with asyncio.timeout(POOL_SECONDS):
                await pool.slots.acquire()
        except BaseException as error:
            pool.users -= 1
            if not isinstance(error, TimeoutError):
                raise
            raise ProtocolError(INTERNAL_ERROR, f"{self.name}: all clients are in use; try again later") from None
        slot = [pool.slots]

        def free_slot() -> None:
            if slot:
                slot.pop().release()

        try:
            client = next((each for each in pool.idle if each.is_open), None) or await self._connect(caller)
            pool.idle.remove(client)
            client.free_slot = free_slot if self._most > 1 else lambda: None
            try:
                yield client
            finally:
                if client.is_open:
                    pool.idle.append(client)
        finally:
            pool.users -= 1
            free_slot()

    async def _connect(self, caller: Caller) -> BackClient:
        """Return a new client, which is idle. Raise ProtocolError if the server cannot be started now."""
        if caller.session is not None and caller.session.ended.done():
            raise ProtocolError(INTERNAL_ERROR, "the session has ended")  # nobody would close its client
        left = max(self._next_start, self._pool(caller).next_start) - time.monotonic()
        if left > 0:
            why = f"{self.name} failed to start ({self.last_error}), and is tried again in {left:.0f} s"
            raise ProtocolError(INTERNAL_ERROR, why)
        if len(self.clients) >= MAX_CLIENTS:
            self._close_an_idle_client()
        self.starts += 1
        try:
            client = await self._make(self, caller)
            client.connector.parameter_headers = self.parameter_headers
            await client.connect()
        except Exception as error:
            self._note_failure(error)
            raise ProtocolError(INTERNAL_ERROR, f"{self.name} could not be started: {self.last_error}") from None
        self.is_modern, self.facts = client.is_modern, client
        if client.is_modern:
            client.caller = replace(caller, session=None)  # all sessions of the principal share it
        self.on_facts()
        pool = self._pool(caller)  # after the line before: the key depends on the era
        pool.clients.append(client)
        pool.idle.append(client)
        began = time.monotonic()
        client.session.ended.add_done_callback(lambda _: self._note_end(client, pool, time.monotonic() - began))
        self._failures = 0
        return client

    def _note_failure(self, error: Exception) -> None:
        self.last_error = type(error).__name__  # its text can quote secrets of the server's standard error
        log.warning("%s could not be started: %s", self.name, self.mask(str(error)))
        self._failures += 1
        self._next_start = time.monotonic() + _pause(self._failures - 1)

    def _note_end(self, client: BackClient, pool: _Pool, seconds: float) -> None:
        """Forget a client whose connection has ended. After short lives, callers with the same key have to wait.

        Callers with other keys do not wait, because one of them could otherwise keep a server away from all others.
        """
        if client.connector.state is ConnectionState.CLOSED:
            return
        self.last_error = "the connection was lost"
        pool.short_lives = pool.short_lives + 1 if seconds < SHORT_LIFE else 0
        if pool.short_lives > 1:
            pool.next_start = time.monotonic() + _pause(pool.short_lives - 2)
        self.discard(client)

    def _close_an_idle_client(self) -> None:
        idle = next((client for pool in self._pools.values() for client in pool.idle if not client.calls), None)
        if idle is None:
            raise ProtocolError(INTERNAL_ERROR, f"{self.name} has {MAX_CLIENTS} clients in use; try again later")
        self.discard(idle)

    def discard(self, client: BackClient) -> None:
        """Forget a client, and close it in the background."""
        for pool in self._pools.values():
            for clients in (pool.clients, pool.idle):
                if client in clients:
                    clients.remove(client)
        task = asyncio.create_task(client.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def end_session(self, session: ServerSession) -> None:
        """Close the client of a legacy session that has ended."""
        pool = self._pools.pop(("session", session), None)
        if pool is None:
            return
        if pool.connecting is not None:
            pool.connecting.cancel()
        for client in tuple(pool.clients):
            self.discard(client)

    def offers(self, capability: str) -> bool:
        return self.facts is not None and declares(self.facts.server_capabilities, capability)

    async def close(self) -> None:
        """Close all clients, also those that are still connecting."""
        connecting = [pool.connecting for pool in self._pools.values() if pool.connecting is not None]
        for task in connecting:
            task.cancel()
        for client in self.clients:
            self.discard(client)
        await asyncio.gather(*connecting, *self._closing, return_exceptions=True)
