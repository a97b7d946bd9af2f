"""Announcements: telling a client that a list or a resource of the server has changed.

A change is announced once, however often it happens before the client has read about it, so that a slow client does not
make the server's memory grow. A session announces without a request; a client of the modern era opens
`subscriptions/listen` for it. Both use an `Announcer`.

    Server -> Offer.announce, from any thread -> each Announcer, on its event loop -> the client

Spec:  server/tools#list-changed-notification, server/resources#subscriptions (2024-11-05 to 2025-11-25),
       2026-07-28 basic/patterns/subscriptions
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

log = logging.getLogger(__name__)

MAX_CHANGES = 10_000
"""Maximum number of changes that wait for one client; when it reads too slowly, the oldest are dropped."""

END_SECONDS = 0.5
"""Time that the results of open subscriptions may take when the server stops, in seconds."""


class Announcer:
    """The changes that one client is still to be told of, and the task that sends them.

    `wants` and `send` take a method, and the URI or task id that changed. Sending begins when `ready` is set.
    """

    def __init__(
        self,
        wants: Callable[[str, str | None], bool],
        send: Callable[[str, str | None], None],
        drain: Callable[[], Awaitable[object]],
        ready: asyncio.Event | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._wants, self._send, self._drain, self._ready = wants, send, drain, ready
        self._changes: dict[tuple[str, str | None], None] = {}  # in order, each once
        self._task: asyncio.Task[None] | None = None

    def announce_soon(self, method: str, subject: str | None) -> None:
        """Announce a change on the event loop of the client. Call it from any thread."""
        with contextlib.suppress(RuntimeError):  # the event loop has ended, and its clients with it
            self._loop.call_soon_threadsafe(self._announce, method, subject)

    def _announce(self, method: str, subject: str | None) -> None:
        if not self._wants(method, subject):
            return
        self._changes[method, subject] = None
        if len(self._changes) > MAX_CHANGES:
            del self._changes[next(iter(self._changes))]
        if self._task is None:
            self._task = self._loop.create_task(self._run())

    async def _run(self) -> None:
        try:
            if self._ready is not None:
                await self._ready.wait()
            while self._changes:
                method, subject = next(iter(self._changes))
                del self._changes[method, subject]
                try:
                    self._send(method, subject)
                except Exception:  # JSON cannot hold the URI, or the task store failed
                    log.exception("a client was not told of a change: %s was not sent", method)
                await self._drain()
        finally:
            self._task = None

    def close(self) -> None:
        """Announce nothing more."""
        self._changes.clear()
        if self._task is not None:
            self._task.cancel()


class OpenSubscriptions:
    """The open `subscriptions/listen` requests of one session or HTTP endpoint.

    `shared` is True if all of them use one stream, as on stdio.
    """

    def __init__(self, shared: bool) -> None:
        self.shared = shared
        self.open: dict[asyncio.Future[None], asyncio.Task[object]] = {}
        """The task that serves each subscription, by the future that ends it."""

    async def end(self) -> None:
        """End them all, each with its result, if the clients read these within `END_SECONDS`."""
        serving = set(self.open.values())
        for ended in self.open:
            if not ended.done():
                ended.set_result(None)
        if serving:
            await asyncio.wait(serving, timeout=END_SECONDS)
