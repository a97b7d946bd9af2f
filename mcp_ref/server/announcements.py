"""Announcements: the notifications about changes that sessions and subscriptions send to their clients.

    Catalog.announce, on any thread -> announce_to, on each event loop -> Announcer.queue_change, if the client wants it
        -> Announcer.send_changes: now, while the client has room; the rest when the client has read more

Equal changes that wait are sent once. So a server that adds a thousand tools in a row sends one notification, and a
client that reads slowly gets each notification once, however often the list changes.

Spec:  2026-07-28 basic/patterns/subscriptions, server/tools#list-changed-notification, server/resources#subscriptions
       (2024-11-05 to 2025-11-25)
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, Protocol

log = logging.getLogger(__name__)

MAX_QUEUED_CHANGES: Final = 10_000
"""Maximum number of queued changes of one session or subscription. If there are more, the oldest is dropped."""

SUBSCRIPTION_END_SECONDS: Final = 0.5
"""Time to send the results of the open subscriptions when a session or the server ends, in seconds."""


class Announcer:
    """A session or subscription that announces changes to its client. Equal queued changes are sent once.

    A change is the method of a notification, and the changed URI or task id (None for a changed list).
    """

    loop: asyncio.AbstractEventLoop
    _changes: dict[tuple[str, str | None], None] | None = None  # an ordered set; None if no change is queued
    _sender: asyncio.Task[None] | None = None  # sends the changes while the client does not read

    def wants(self, method: str, subject: str | None) -> bool:
        """Return True if the client wants the notification."""
        raise NotImplementedError

    def send_change(self, method: str, subject: str | None) -> None:
        """Send the notification."""
        raise NotImplementedError

    @property
    def has_room(self) -> bool:
        """True if a change can be sent now. If False, an asyncio task sends the changes."""
        return False

    async def wait_ready(self) -> None:
        """Wait until the first notification is allowed."""

    async def drain_changes(self) -> None:
        """Wait until the client has read most notifications."""
        raise NotImplementedError

    def queue_change(self, method: str, subject: str | None) -> bool:
        """Queue a change, if the client wants it. Return True if `send_changes` must be called."""
        if not self.wants(method, subject):
            return False
        is_first = self._changes is None and self._sender is None
        if self._changes is None:
            self._changes = {}
        self._changes[method, subject] = None
        if len(self._changes) > MAX_QUEUED_CHANGES:
            del self._changes[next(iter(self._changes))]
        return is_first

    def send_changes(self) -> None:
        """Send the queued changes, as far as the client has room. An asyncio task sends the rest."""
        while self._changes is not None:
            if not self.has_room:
                self._sender = self.loop.create_task(self._send_slowly())
                return
            self._send_first(self._changes)

    def _send_first(self, changes: dict[tuple[str, str | None], None]) -> None:
        method, subject = next(iter(changes))
        del changes[method, subject]
        if not changes:
            self._changes = None  # save memory
        try:
            self.send_change(method, subject)
        except Exception:  # the URI cannot be written as JSON, or the task store failed
            log.exception("the notification %s could not be sent, so a client missed a change", method)

    async def _send_slowly(self) -> None:
        try:
            await self.wait_ready()
            while self._changes is not None:
                self._send_first(self._changes)
                await self.drain_changes()
        finally:
            self._sender = None

    def stop_announcing(self) -> None:
        """Drop the queued changes, and stop the asyncio task that sends them."""
        self._changes = None
        if self._sender is not None:
            self._sender.cancel()


def announce_to(announcers: list[Announcer], method: str, subject: str | None) -> None:
    """Let all announcers of this event loop announce a change."""
    # Send in the next iteration of the event loop, because equal changes often follow. One callback sends to all
    # clients: a task for each client would double the time of a notification.
    if waiting := [announcer for announcer in announcers if announcer.queue_change(method, subject)]:
        asyncio.get_running_loop().call_soon(_send_changes, waiting)


def _send_changes(announcers: list[Announcer]) -> None:
    for announcer in announcers:
        announcer.send_changes()


class Subscription(Protocol):
    """An open `subscriptions/listen` request."""

    task: asyncio.Task[object] | None
    """The asyncio task that serves the request; None if no task waits for the end of the subscription."""

    def end(self) -> None:
        """End the subscription with its result."""


class OpenSubscriptions:
    """The open `subscriptions/listen` requests of one session or HTTP endpoint."""

    def __init__(self, shares_stream: bool) -> None:
        self.shares_stream = shares_stream
        """True if all subscriptions use one stream, as on stdio. Over HTTP, each subscription has its own stream."""
        self.members: set[Subscription] = set()

    async def end(self) -> None:
        """End each subscription with a result. Clients have `SUBSCRIPTION_END_SECONDS` to read the results."""
        serving = {each.task for each in self.members if each.task is not None}
        for each in tuple(self.members):
            each.end()
        if serving:
            await asyncio.wait(serving, timeout=SUBSCRIPTION_END_SECONDS)
