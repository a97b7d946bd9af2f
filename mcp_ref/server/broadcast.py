"""Broadcast: each process of a server announces its changes to the other processes, so that their clients get them too.

Behind a load balancer, a client's stream comes from one process, while a resource can change in another. So the
processes share a channel of an engine, such as Redis or PostgreSQL, to which `Broadcast` is the interface.

    resource_updated, list_changed, a task's status
        -> the clients of this process, at once (announcements.py)
        -> Broadcaster.publish -> a queue without duplicates -> Broadcast.publish -> the engine
    the engine -> Broadcast.listen -> receive -> `@server.on_change`, for a changed list -> the clients of this process

    Wire between the processes:  {"from": "c2f1", "changes": [["notifications/resources/updated", "notes://1"]]}
                                 {"from": "c2f1", "all": true}       everything may have changed

- Most engines send a message back to its own process, too. It has the process's random name, so it is ignored there.
- While the engine is unreachable, local clients still get their changes. Those for the other processes wait in a queue.
  If it is full, they are replaced by a single message, which says that everything may have changed.
- A process that did not listen for a while has missed changes, so when listening begins again, it tells its own clients
  that everything may have changed: each list, and each resource or task with a subscription.
- A function of `@server.on_change` can add and remove tools. The changes that it causes stay in this process, because
  otherwise two processes would announce them to each other forever.

Threats:
    hostile-message: Another program that can write into the channel of the engine sends malformed messages, so that our
        clients miss changes. A process ignores a message that is not of this package, and listens on. But such a
        program can announce changes that did not happen: give each server a channel of its own, with a password.

Used by: service.py, which runs it while the server has sessions or HTTP applications. See examples/many_machines/
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import json
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Final, Protocol

from ..jsonrpc.messages import JSON
from .announcements import MAX_QUEUED_CHANGES, Announcers, Change

log = logging.getLogger(__name__)

COALESCE_SECONDS: Final = 0.01
"""Time for which changes are collected before they are published, in seconds. Equal ones are published once."""
PUBLISH_SECONDS: Final = 5.0
"""Maximum time of one `publish`, in seconds."""
RETRY_SECONDS: Final = 1.0
"""Time after a failure of the engine until the next attempt, in seconds."""
STOP_SECONDS: Final = 1.0
"""Time to publish the last changes when the server ends, and again for `publish` and `listen` to stop, in seconds."""
MAX_MESSAGE_BYTES: Final = 7500
"""Maximum size of one message, in bytes. A payload of PostgreSQL's `NOTIFY` must be shorter than 8,000 bytes."""

LISTS: Final = {f"notifications/{feature}/list_changed": feature for feature in ("tools", "resources", "prompts")}
"""The notification of a changed list -> the name of the list."""
UPDATED: Final = "notifications/resources/updated"
TASK_STATUS: Final = "notifications/tasks"
TASKS: Final = (TASK_STATUS, "tasks/update")
"""A task has a new state in the store of tasks, or new responses for its handler (extensions/tasks/shared_tasks.py)."""

_is_reloading = contextvars.ContextVar("is_reloading", default=False)
"""True while a function of `@server.on_change` runs. Its changes are not published."""


class Broadcast(Protocol):
    """A channel of an engine, which all processes of a server share. Both methods can raise any exception."""

    async def publish(self, change: bytes) -> None:
        """Send a message to all processes that listen.

        Args:
            change: The message, at most `MAX_MESSAGE_BYTES` bytes of JSON.
        """

    async def listen(self, receive: Callable[[bytes], None], gap: Callable[[], None]) -> None:
        """Listen until the task is cancelled. If this method ends before, it is called again after a second.

        Args:
            receive: Call it on the event loop, with each message, including those of this process.
            gap: Call it whenever listening has begun, also after a lost connection, because messages may be missing.
        """


class Broadcaster:
    """The publisher of this process's changes, which also announces the other processes' changes to our clients.

    Args:
        broadcast: The author's channel.
        announcers: The sessions and subscriptions of this process.
        features: The features that the server has. Changes of other lists are not announced.
        reloads: The author's functions that reload a list (`@server.on_change`), by list.
        run_in_worker: Runs a plain `def` function in a worker thread.
    """

    def __init__(
        self, broadcast: Broadcast, announcers: Announcers, features: Collection[str],
        reloads: Mapping[str, Sequence[Callable[[], object]]],
        run_in_worker: Callable[[Callable[[], object]], Awaitable[object]],
    ) -> None:  # fmt: skip
        self._broadcast, self._announcers, self._features, self._reloads = broadcast, announcers, features, reloads
        self._run_in_worker = run_in_worker
        announcers.publish = self.publish
        self.note_task: Callable[[str], None] = lambda id: announcers.announce_here(TASK_STATUS, id)
        """Called with the id of a task that another process has changed."""
        self._process_name = secrets.token_hex(8)
        self._loop: asyncio.AbstractEventLoop | None = None  # not None while it runs
        self._tasks: list[asyncio.Task[None]] = []
        self._queue: dict[Change, float] = {}  # change -> time when it was queued (`time.monotonic`); the oldest first
        self._all_since: float | None = None  # time from which everything may have changed, because the queue was full
        self._filled = asyncio.Event()  # set while changes wait to be published
        self._published = asyncio.Event()  # set while none wait
        self._received: asyncio.Queue[Change | None] = asyncio.Queue(MAX_QUEUED_CHANGES)  # None: all may have changed
        self._failed: set[str] = set()  # the methods of the channel that failed the last time

    @property
    def waiting(self) -> int:
        """Number of changes that are not published yet."""
        return len(self._queue) + (0 if self._all_since is None else 1)

    @property
    def lag(self) -> float:
        """Age of the oldest change that is not published yet, in seconds; 0.0 without one."""
        oldest = next(iter(self._queue.values()), None)
        times = [since for since in (oldest, self._all_since) if since is not None]
        return time.monotonic() - min(times) if times else 0.0

    def start(self) -> None:
        """Begin to publish and to listen, if this has not begun."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._filled, self._published = asyncio.Event(), asyncio.Event()
            self._published.set()
            self._received = asyncio.Queue(MAX_QUEUED_CHANGES)
            self._tasks = [self._loop.create_task(run()) for run in (self._publish, self._listen, self._deliver)]

    async def stop(self) -> None:
        """Publish the last changes, within `STOP_SECONDS`, unless the engine is unreachable. Then stop."""
        if self._loop is None:
            return
        self._loop = None
        if "publish" not in self._failed:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STOP_SECONDS):
                    await self._published.wait()
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks, timeout=STOP_SECONDS)
        self._tasks.clear()

    def publish(self, change: Change) -> None:
        """Queue a change for the other processes, from any thread. Do nothing unless the server is serving."""
        if self._loop is not None and not _is_reloading.get():
            with contextlib.suppress(RuntimeError):  # the event loop is closed
                self._loop.call_soon_threadsafe(self._put, change)

    def _put(self, change: Change) -> None:
        self._queue.setdefault(change, time.monotonic())
        self._clear_if_full()
        self._filled.set()
        self._published.clear()

    def _clear_if_full(self) -> None:
        """Clear the queue if it is full, or if everything may have changed anyway. Keep the oldest change's time."""
        if self._queue and (self._all_since is not None or len(self._queue) > MAX_QUEUED_CHANGES):
            self._all_since = self._all_since or next(iter(self._queue.values()))
            self._queue.clear()

    async def _publish(self) -> None:
        while True:
            await self._filled.wait()
            await asyncio.sleep(COALESCE_SECONDS)
            # Take the changes first, because one that happens again during the publication must be published again.
            changes, all_since = self._take_changes()
            content = {"all": True} if all_since is not None else {"changes": [*changes]}
            try:
                async with asyncio.timeout(PUBLISH_SECONDS):
                    await self._broadcast.publish(json.dumps({"from": self._process_name, **content}).encode())
            except Exception as error:
                self._queue = {**changes, **self._queue}  # put them back; the oldest are first
                self._all_since = all_since or self._all_since
                self._clear_if_full()
                await self._wait_after("publish", error)
            else:
                self._note_success("publish")
                if not self.waiting:
                    self._filled.clear()
                    self._published.set()

    def _take_changes(self) -> tuple[dict[Change, float], float | None]:
        """Take the changes for one message from the queue. If everything may have changed, return {} and since when."""
        if self._all_since is not None:  # so the queue is empty
            all_since, self._all_since = self._all_since, None
            return {}, all_since
        taken: dict[Change, float] = {}
        size = len(json.dumps({"from": self._process_name, "changes": []}))
        while self._queue:
            change = next(iter(self._queue))
            size += len(json.dumps(change)) + len(", ")
            if size > MAX_MESSAGE_BYTES and taken:
                break  # the next message has the rest
            since = self._queue.pop(change)
            if size > MAX_MESSAGE_BYTES:  # too long even alone, so the message says that everything may have changed
                return {}, since
            taken[change] = since
        return taken, None

    async def _listen(self) -> None:
        while True:
            try:
                await self._broadcast.listen(self._receive, self._note_gap)
            except Exception as error:
                await self._wait_after("listen", error)
            else:
                fault = ConnectionError("`listen` has returned, although it must listen until it is cancelled")
                await self._wait_after("listen", fault)

    def _note_gap(self) -> None:
        self._note_success("listen")
        self._deliver_later(None)

    def _receive(self, message: bytes) -> None:
        try:
            if len(message) > MAX_MESSAGE_BYTES:
                raise ValueError("too long")
            value: JSON = json.loads(message)
            if not isinstance(value, dict) or value["from"] == self._process_name:
                return
            changes = [(method, subject) for method, subject in value.get("changes", ())]  # type: ignore[union-attr, misc, str-unpack]
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            log.warning("ignored a message of the broadcast that is not of this package: %.200r", message)
            return
        for method, subject in changes:
            if not isinstance(method, str):
                continue
            if method in LISTS or (method in (UPDATED, *TASKS) and isinstance(subject, str)):
                self._deliver_later((method, subject if isinstance(subject, str) else None))
        if value.get("all") is True:
            self._deliver_later(None)

    def _deliver_later(self, change: Change | None) -> None:
        """Queue a received change, because a function of `@server.on_change` can block."""
        if self._received.full():
            while not self._received.empty():
                self._received.get_nowait()
            change = None  # everything may have changed
        self._received.put_nowait(change)

    async def _deliver(self) -> None:
        while True:
            change = await self._received.get()
            if change is None:
                await self._deliver_all()
                continue
            method, subject = change
            if method in LISTS:
                await self._deliver_list(method)
            elif method in TASKS and subject is not None:
                self.note_task(subject)
            else:
                self._announcers.announce_here(method, subject)

    async def _deliver_list(self, method: str) -> None:
        await self._reload(LISTS[method])
        if LISTS[method] in self._features:
            self._announcers.announce_here(method)

    async def _deliver_all(self) -> None:
        """Announce that everything may have changed: each list, each subscribed resource, and each subscribed task."""
        for method in LISTS:
            await self._deliver_list(method)
        announcers = tuple(self._announcers)
        for uri in {uri for announcer in announcers for uri in tuple(announcer.subscribed_uris())}:
            self._announcers.announce_here(UPDATED, uri)
        for id in {id for announcer in announcers for id in announcer.task_ids}:
            self.note_task(id)

    async def _reload(self, feature: str) -> None:
        for function in self._reloads.get(feature, ()):
            token = _is_reloading.set(True)
            try:
                if inspect.iscoroutinefunction(function):
                    await function()
                else:
                    value = await self._run_in_worker(function)
                    if inspect.isawaitable(value):  # of an object whose `__call__` is async, for example
                        await value
            except Exception:
                log.exception("a function of @server.on_change(%r) failed, so clients can get an old list", feature)
            finally:
                _is_reloading.reset(token)

    async def _wait_after(self, method: str, error: Exception) -> None:
        """Wait until the next attempt. Log only the first failure after a success."""
        if method not in self._failed:
            self._failed.add(method)
            why = f"{type(error).__name__}: {error}"
            log.error("the broadcast has failed (%s: %s); it is tried again every second", method, why, exc_info=error)
        await asyncio.sleep(RETRY_SECONDS)

    def _note_success(self, method: str) -> None:
        if method in self._failed:
            self._failed.discard(method)
            log.warning("the broadcast works again (%s)", method)
