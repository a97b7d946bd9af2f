"""Announcements: the notifications about changes that sessions and subscriptions send to their clients.

    Announcers.announce, on any thread -> the next iteration of each event loop -> Announcer.announce
        -> send_change, if the client wants the change: at once if there is room for it, otherwise from a queue

Equal queued changes are sent only once, so a server that adds a thousand tools in a row sends one notification.

Spec:  2026-07-28 basic/patterns/subscriptions, server/tools#list-changed-notification, server/resources#subscriptions
       (2024-11-05 to 2025-11-25)
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection
from typing import Final, Protocol
from weakref import WeakKeyDictionary

from ..lib.shares import MAX_QUEUED_BYTES, MAX_QUEUED_BYTES_PER_CALLER, CountedQueue, Shares

log = logging.getLogger(__name__)

MAX_QUEUED_CHANGES: Final = 1000
"""Maximum number of queued changes of one session or subscription. If there are more, the oldest is dropped."""
SUBSCRIPTION_END_SECONDS: Final = 0.5
"""Time to send the results of the open subscriptions when a session or the server ends, in seconds."""
Change = tuple[str, str | None]
"""The method of a notification, and the changed URI or task id (None for a changed list)."""


class Announcer(Protocol):
    """A session or subscription that announces changes to its client."""

    loop: asyncio.AbstractEventLoop
    caller: str = ""  # an `Access.caller`; the queued changes count in this caller's share of the memory
    shares: Shares  # the server's `Announcers.queued`, which limits the memory of all queued changes
    task_ids: Collection[str] = ()  # of the subscribed tasks
    _changes: CountedQueue | None = None  # None if no change is queued
    _sender: asyncio.Task[None] | None = None  # sends the queued changes as fast as the client reads them

    def subscribed_uris(self) -> Collection[str]: ...
    def wants(self, method: str, subject: str | None) -> bool: ...
    def send_change(self, method: str, subject: str | None) -> None: ...
    async def drain_changes(self) -> None: ...

    @property
    def is_ready(self) -> bool:
        """True if notifications are allowed. When this becomes True, the subclass calls `send_queued`."""
        return True

    @property
    def has_room(self) -> bool:
        """True if a change can be sent now. Otherwise it is queued, and an asyncio task sends it."""
        return False

    def announce(self, method: str, subject: str | None) -> None:
        if not self.wants(method, subject):
            return
        if self._changes is None and self.is_ready and self.has_room:
            return self._send(method, subject)
        if self._changes is None:
            self._changes = CountedQueue(self.shares, self.caller, MAX_QUEUED_CHANGES)
        self._changes.add((method, subject))
        self.send_queued()

    def send_queued(self) -> None:
        if self._changes and self._sender is None and self.is_ready:
            sender = self.loop.create_task(self._send_all_queued())
            if not sender.done():  # an eager task may be done already
                self._sender = sender

    def _send(self, method: str, subject: str | None) -> None:
        try:
            self.send_change(method, subject)
        except Exception:  # for example because the URI cannot be written as JSON, or the task store has failed
            log.exception("the notification %s could not be sent, so a client missed a change", method)

    async def _send_all_queued(self) -> None:
        try:
            while self._changes:
                method, subject = self._changes.take()
                self._changes = self._changes or None  # an empty queue is dropped to save memory
                self._send(method, subject)
                await self.drain_changes()
        finally:
            self._sender = None

    def stop_announcing(self) -> None:
        while self._changes:
            self._changes.take()  # gives back the memory that the change took from the caller's share
        if self._sender is not None:
            self._sender.cancel()


class Announcers(set[Announcer]):
    """The open sessions and subscriptions of a server, on all event loops."""

    publish: Callable[[Change], None] | None = None  # announces a change to the server's other processes (broadcast.py)

    def __init__(self) -> None:
        super().__init__()
        self.queued = Shares("queued changes", MAX_QUEUED_BYTES_PER_CALLER, MAX_QUEUED_BYTES)
        self._next_changes: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Change, None]] = WeakKeyDictionary()

    def announce(self, method: str, subject: str | None = None) -> None:
        """Announce a change to all clients, from any thread. `subject` is the changed URI or task id."""
        self.announce_here(method, subject)
        if self.publish is not None:
            self.publish((method, subject))

    def announce_here(self, method: str, subject: str | None = None) -> None:
        for loop in {announcer.loop for announcer in tuple(self)}:
            with contextlib.suppress(RuntimeError):  # the event loop is closed
                loop.call_soon_threadsafe(self._collect, loop, (method, subject))

    def _collect(self, loop: asyncio.AbstractEventLoop, change: Change) -> None:
        if loop not in self._next_changes:
            # Wait for the next iteration, because equal changes often follow. One callback serves all clients.
            self._next_changes[loop] = {}
            loop.call_soon(self._announce_collected, loop)
        self._next_changes[loop][change] = None

    def _announce_collected(self, loop: asyncio.AbstractEventLoop) -> None:
        changes = self._next_changes.pop(loop)
        for announcer in tuple(self):
            if announcer.loop is loop:
                for method, subject in changes:
                    announcer.announce(method, subject)


class Subscription(Protocol):
    """An open `subscriptions/listen` request, which `end` ends with its result."""

    task: asyncio.Task[object] | None  # serves the request; None if the transport holds back the response instead

    def end(self) -> None: ...


class OpenSubscriptions(set[Subscription]):
    """The open `subscriptions/listen` requests of one session or HTTP endpoint."""

    async def end(self) -> None:
        """End each subscription with a result, and give the client `SUBSCRIPTION_END_SECONDS` to read it."""
        serving = {each.task for each in self if each.task is not None}
        for each in tuple(self):
            each.end()
        if serving:
            await asyncio.wait(serving, timeout=SUBSCRIPTION_END_SECONDS)
