"""The service of a server: its sessions and HTTP applications, and the objects that their handlers share.

The first session or application enters the lifespan (lifespan.py), and the first plain `def` function starts the worker
threads (workers.py). When the last session or application leaves, the service ends the tasks and the threads, and
leaves the lifespan. A later session starts all of it again.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import re
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from ..basic.access import MAX_SUBSCRIBED_BYTES, MAX_SUBSCRIBED_BYTES_PER_CALLER
from ..lib.shares import Shares
from ..revisions import Era

if TYPE_CHECKING:
    from .broadcast import Broadcaster
    from .lifespan import Lifespan

log = logging.getLogger(__name__)

WORKER_END_SECONDS: Final = 0.2
"""Time for the worker threads to end after the last session or HTTP application, in seconds."""

DRAIN_INTERVAL: Final = 0.01
"""Time between two checks for requests in flight before the server stops, in seconds."""

RETRY_SECONDS: Final = 1.0
"""Time after an attempt to enter the lifespan until an HTTP application may try again, in seconds."""


@dataclass(slots=True)
class ServerStats:
    """The numbers of a server in this process at one moment, from `Server.stats()`."""

    sessions: int = 0
    """Number of open sessions, which only the legacy era has."""
    streams: int = 0
    """Number of open event streams: modern subscriptions, and streams of sessions that a client is reading."""
    legacy_in_flight: int = 0
    """Number of requests of sessions that have no response yet."""
    legacy_served: int = 0
    """Number of requests of sessions since the start of the process."""
    modern_in_flight: int = 0
    """Number of stateless requests over HTTP that have no response yet, except subscriptions."""
    modern_served: int = 0
    """Number of stateless requests since the start of the process."""
    unsaved_sessions: int = 0
    """Number of sessions with changes that the event store has not saved yet. It grows while the storage fails."""
    unpublished_changes: int = 0
    """Number of changes that the broadcast has not sent to the other processes yet, at most 1,000."""
    broadcast_lag: float = 0.0
    """Age of the oldest of these changes, in seconds. It grows while the engine of the broadcast is unreachable."""


class Member(Protocol):
    """A session or an HTTP application."""

    def add_to(self, stats: ServerStats) -> None:
        """Add the member's numbers to those of the server."""

    async def finish_requests(self, seconds: float) -> None:
        """Begin no more sessions and subscriptions, and wait at most `seconds` for the requests in flight to end."""

    async def close(self) -> None:
        """End the session, or all sessions and subscriptions of the application."""


def id_prefix_of(node: str | None) -> str:
    """Return the first part of a node's session ids. Raise ValueError if a load balancer could not read the name."""
    if node is not None and not re.fullmatch(r"[A-Za-z0-9-]{1,32}", node):
        raise ValueError(f"a node's name must have 1 to 32 letters of ASCII, digits and hyphens, not {node[:100]!r}")
    return f"{node}." if node is not None else ""


class Service:
    """The sessions and HTTP applications of a server, its lifespan, and its worker threads.

    Args:
        executor: The author's executor for plain `def` functions; None for our own threads.
        close_tasks: Called when the last session or application has left, to end the tasks that still run.
        node: The name of this process, if it has one.
    """

    def __init__(
        self, executor: Executor | None, close_tasks: Callable[[], Awaitable[None]], node: str | None = None
    ) -> None:
        self.members: dict[Member, Callable[[], None] | None] = {}
        """The members, each with the function to call after the lifespan has failed, if any.

        An application comes before its sessions, because its `close` decides whether the store keeps them.
        """
        self.subscribed = Shares("subscriptions", MAX_SUBSCRIBED_BYTES_PER_CALLER, MAX_SUBSCRIBED_BYTES)
        self.lifespan: Lifespan | None = None
        """The author's context manager, entered while the service has members."""
        self.broadcaster: Broadcaster | None = None
        """The exchange of changes with the other processes of the server."""
        self.reloads: dict[str, list[Callable[[], object]]] = {}
        """The functions of `@server.on_change`, by the feature whose list they reload (broadcast.py)."""
        self.id_prefix = id_prefix_of(node)
        """The first part of the ids of sessions and tasks of this process: "a." for `Server(node="a")`."""
        self.threads: list[threading.Thread] = []
        """The worker threads, including earlier ones that are still running a function."""
        self._given_executor, self._close_tasks = executor, close_tasks
        self.served: dict[Era, int] = {"legacy": 0, "modern": 0}
        """Number of requests since the start of the process, by the era of the request."""
        self._workers: Executor | None = None  # our own executor; None until a plain `def` function runs

    @property
    def state(self) -> object:
        """The value that the lifespan has yielded; None without a lifespan."""
        return self.lifespan.state if self.lifespan is not None else None

    @property
    def executor(self) -> Executor:
        """The executor for plain `def` functions: the author's, or our own threads, which start at the first use."""
        if self._given_executor is not None:
            return self._given_executor
        if self._workers is None:
            from .workers import Workers  # lazy: most functions are coroutine functions

            self._workers = Workers(self.threads)
        return self._workers

    async def run_in_worker(self, function: Callable[[], object]) -> object:
        """Run a plain `def` function in a worker thread, with the context variables of the caller."""
        run = contextvars.copy_context().run
        return await asyncio.get_running_loop().run_in_executor(self.executor, run, function)

    async def add(self, member: Member, reopen: Callable[[], None] | None = None) -> None:
        """Add a session or an HTTP application that begins to serve. Raise RuntimeError if the lifespan fails.

        `reopen` is called when all members have ended because the lifespan has failed, so that the member can begin
        again.
        """
        self.members[member] = reopen
        if self.lifespan is not None:
            try:
                await self.lifespan.enter()
            except BaseException:
                await self.remove(member)
                raise
        if self.broadcaster is not None:
            self.broadcaster.start()

    async def end(self, member: Member) -> None:
        """Close a session or an HTTP application, and remove it, even if the caller is cancelled meanwhile."""
        try:
            await member.close()
        finally:
            await self.remove(member)

    async def remove(self, member: Member) -> None:
        """Remove a session or an HTTP application.

        When the last one leaves, end the tasks, the worker threads and the lifespan.
        """
        self.members.pop(member, None)
        if self.members:
            return
        try:
            await self._close_tasks()
            await self._end_workers()
            if self.broadcaster is not None and not self.members:
                await self.broadcaster.stop()
        finally:
            has_new_member = bool(self.members)  # one that joined while the tasks and threads were ending
            if self.lifespan is not None and not has_new_member:
                await self.lifespan.leave()

    async def _end_workers(self) -> None:
        """End the worker threads, but wait only `WORKER_END_SECONDS`, because Python cannot stop a thread."""
        workers, self._workers = self._workers, None
        if workers is None:
            return
        workers.shutdown(wait=False, cancel_futures=True)
        for _ in range(50):  # 50 short waits instead of one, because idle threads end at once
            self.threads = [thread for thread in self.threads if thread.is_alive()]
            if not self.threads:
                return
            await asyncio.sleep(WORKER_END_SECONDS / 50)
        log.warning("the server has ended, but a handler still runs in a worker thread")

    def stats(self) -> ServerStats:
        stats = ServerStats(legacy_served=self.served["legacy"], modern_served=self.served["modern"])
        for member in tuple(self.members):
            member.add_to(stats)
        if self.broadcaster is not None:
            stats.unpublished_changes, stats.broadcast_lag = self.broadcaster.waiting, self.broadcaster.lag
        return stats

    async def drain(self, seconds: float) -> None:
        """Begin no more sessions over HTTP, end the subscriptions, and let the requests in flight finish."""
        end = time.monotonic() + seconds
        while True:
            left = max(0.0, end - time.monotonic())
            await asyncio.gather(*(member.finish_requests(left) for member in tuple(self.members)))
            stats = self.stats()
            # Sessions still serve requests, so a new one may have begun in one session while we waited for another.
            if not (stats.legacy_in_flight or stats.modern_in_flight) or time.monotonic() >= end:
                return
            await asyncio.sleep(DRAIN_INTERVAL)

    async def close(self) -> None:
        for member in tuple(self.members):
            await self.end(member)

    async def fail(self) -> None:
        """End all sessions and HTTP applications, because the lifespan has failed, and then reopen the applications."""
        reopening = [reopen for reopen in self.members.values() if reopen is not None]
        try:
            await self.close()
        finally:
            for reopen in reopening:
                reopen()


class Membership:
    """The membership of an HTTP application, which can join the service again after the lifespan has failed.

    To allow that, the application's `reopen` (see `Service.add`) sets `is_active` to False.
    """

    def __init__(self, service: Service, member: Member, reopen: Callable[[], None]) -> None:
        self.is_active = False
        """True from `begin` until `reopen`."""
        self._service, self._member, self._reopen = service, member, reopen
        self._beginning: asyncio.Task[None] | None = None  # the only attempt, for which all requests wait
        self._next_attempt = 0.0  # time (`time.monotonic`) from which `try_to_begin` tries again

    async def begin(self) -> None:
        """Join the service, if the application is not a member. Raise RuntimeError if the lifespan fails."""
        if self._beginning is None:  # a task of its own, because the first request may be cancelled
            self._beginning = asyncio.Task(self._begin())  # an eager task would clear `_beginning` before it is set
        await asyncio.shield(self._beginning)

    async def _begin(self) -> None:
        try:
            await self._service.add(self._member, self._reopen)
            self.is_active = True
        finally:
            self._beginning = None
            self._next_attempt = time.monotonic() + RETRY_SECONDS

    async def try_to_begin(self) -> bool:
        """Join the service for a request. Return False if the lifespan fails, or failed in the last `RETRY_SECONDS`."""
        if self.is_active:
            return True
        starts_attempt = self._beginning is None  # otherwise this request waits for the attempt of another one
        if starts_attempt and time.monotonic() < self._next_attempt:
            return False
        try:
            await self.begin()
        except RuntimeError as error:
            if starts_attempt:  # so that a failed attempt is logged once, not for each request
                log.error("requests get status 503, because the server cannot begin", exc_info=error)
        return self.is_active
