"""Tasks in a database that several processes share: each process runs its own tasks, and can read all of them.

    the handler changes its task -> SharedTasks.put: in memory -> a queue -> AsyncTaskStore.put -> the broadcast
    tasks/get, of another process's task -> AsyncTaskStore.get
    tasks/cancel                         -> AsyncTaskStore.put, with the status cancelled -> the broadcast
    tasks/update                         -> AsyncTaskStore.add_responses                  -> the broadcast
    the broadcast, or the next renewal   -> the process that runs the task stops the handler, or takes the responses

The broadcast tells the other processes which task has changed (server/broadcast.py). A handler never waits for the
database, but a client gets a new task only after the database has stored it, because the client may ask another process
for the task at once.

A process holds a lease on each task that it runs, and renews it. If the lease ends, the process is dead or cut off, so
the next process that reads the task changes its status to `failed`. That status is final, because the database refuses
every later change. So a process that was only paused cannot change it back, and stops its handler.

Spec:  2025-11-25 basic/utilities/tasks; the extension io.modelcontextprotocol/tasks (SEP-2663) beside 2026-07-28
Used by: receiver.py. Uses: async_store.py, store.py, types.py
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import suppress
from typing import Final, Protocol, TypeVar

from ...jsonrpc.errors import ProtocolError
from ...jsonrpc.messages import INTERNAL_ERROR, Object
from .async_store import AsyncTaskStore, OwnedTask
from .store import MAX_TASKS, MemoryTaskStore, TaskStore
from .types import Task, with_status

log = logging.getLogger(__name__)
T = TypeVar("T")

CALL_SECONDS: Final = 3.0
"""Time limit of one call of the database, in seconds. A request that needs the database gets an error after that."""
RETRY_SECONDS: Final = 1.0
"""Pause between a failed call and the next attempt to store a change or to read a task, in seconds."""
FLUSH_SECONDS: Final = 1.0
"""Time limit for storing the last changes when the server ends, in seconds."""
LOST: Final = "The process of the server that ran the task has ended."
"""The status message of a task whose lease has ended."""

STATUS_CHANGED: Final = "notifications/tasks"
"""The change that a process broadcasts when the database has a new state of a task."""
INPUT_ADDED: Final = "tasks/update"
"""The change that a process broadcasts when the database has responses for the handler of a task."""


class TaskClient(Protocol):
    """A session or subscription of a client."""

    def wants(self, method: str, subject: str | None) -> bool:
        """Return True if the client wants this notification about the subject, such as a task's id."""


class TaskClients(Protocol):
    """The clients of this process, and the broadcast: `Announcers` of the server."""

    publish: Callable[[tuple[str, str | None]], None] | None
    """Announces a change to the other processes; None without a broadcast."""

    def __iter__(self) -> Iterator[TaskClient]: ...

    def announce_here(self, method: str, subject: str | None = None) -> None:
        """Announce a change to the clients of this process."""


class SharedTasks(TaskStore):
    """The tasks of this process, in memory, and their copies in the author's database."""

    def __init__(self, database: AsyncTaskStore, clients: TaskClients) -> None:
        self._database, self._clients = database, clients
        self._local = MemoryTaskStore()
        self._running: dict[str, OwnedTask] = {}  # this process's tasks, until the database has their final state
        self._subscribed = MemoryTaskStore(max_tasks_per_caller=MAX_TASKS)  # tasks that clients here follow
        self._unsaved: dict[str, OwnedTask | None] = {}  # the changes that the database lacks; None: remove the task
        self._failed: dict[str, OwnedTask | None] = {}  # the unsaved changes that the database has failed to store
        self._stored: dict[str, OwnedTask] = {}  # the latest states of `_running` that the database has
        self._creations: dict[str, asyncio.Future[None]] = {}  # done when the database has stored the new task
        self._to_read: dict[str, None] = {}  # tasks that other processes have changed, the oldest change first
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}  # requests that wait for a change of a task
        self._asyncio_tasks: dict[str, asyncio.Task[None]] = {}  # by name
        self._wake = asyncio.Event()  # wakes `_watch`
        self._has_failed = False  # True from a failure of the database to its next success
        self.on_over: Callable[[str], None] = lambda id: None
        """Called with the id of a task that runs in this process, when another process has ended the task."""
        self.on_responses: Callable[[str, dict[str, Object]], None] = lambda id, responses: None
        """Called with the id of a task that runs in this process, and the responses to its input requests."""

    # ----------------------------------------------------------------------------------- the tasks of this process

    def put(self, task: Task, owner: str, expires_at: float) -> None:
        self._local.put(task, owner, expires_at)
        stored, id = OwnedTask(task, owner, expires_at), task.task_id
        if id not in self._running:
            self._creations[id] = asyncio.get_running_loop().create_future()
        self._running[id] = stored
        self._save(id, stored)
        self._start("renewals", self._watch)

    def get(self, id: str, owner: str) -> Task | None:
        """Return a task of this process, or one that a client of this process has subscribed to."""
        return self._local.get(id, owner) or self._subscribed.get(id, owner)

    def page(self, owner: str, cursor: str | None) -> tuple[list[Task], str | None]:
        """Return only the tasks of this process. `find_page` returns those of all processes."""
        return self._local.page(owner, cursor)

    def remove(self, id: str) -> None:
        self._local.remove(id)
        self._running.pop(id, None)
        self._stored.pop(id, None)
        if id in self._creations:  # the database has not stored the new task yet
            self._refuse(id, ProtocolError(INTERNAL_ERROR, "the task has ended"))
            del self._creations[id]
            self._unsaved.pop(id, None)
            self._failed.pop(id, None)
        else:
            self._save(id, None)

    async def wait_created(self, id: str) -> None:
        """Wait until the database has stored a new task. Raise ProtocolError if it refuses, or does not respond."""
        created = self._creations.get(id)
        if created is not None:
            await self._bounded(asyncio.shield(created))

    def _save(self, id: str, stored: OwnedTask | None) -> None:
        self._failed.pop(id, None)  # an older change
        self._unsaved[id] = stored
        self._start("changes", self._save_all)

    async def _save_all(self) -> None:
        while self._unsaved:
            id, stored = next(iter(self._unsaved.items()))
            del self._unsaved[id]  # first, because a change during the call must be saved too
            try:
                async with asyncio.timeout(CALL_SECONDS):
                    await self._save_one(id, stored)
                self._note_success()
            except ProtocolError as refusal:
                self._refuse(id, refusal)
            except Exception as error:
                self._note_failure(error)
                if id not in self._unsaved:  # else a newer change has come during the call
                    self._failed[id] = stored
                    self._start("retries", self._save_failed)

    async def _save_failed(self) -> None:
        """Store the failed changes again, after a pause in which they delay no other change."""
        while self._failed:
            await asyncio.sleep(RETRY_SECONDS)
            failed, self._failed = self._failed, {}
            for id, stored in failed.items():
                self._save(id, stored)

    async def _save_one(self, id: str, stored: OwnedTask | None) -> None:
        if stored is None:
            await self._database.remove(id)
            return
        if stored.expires_at <= time.time():
            self._forget(id)
            return
        was_stored = await self._database.put(stored)
        if was_stored and id not in self._running:  # `remove` was called during `put`
            await self._database.remove(id)
            return
        if was_stored:
            self._note_stored(id, stored)
        else:
            self._lose(id)
        # Also if `put` has refused, because our earlier `put` may have ended the task, although it raised an exception.
        self._publish(STATUS_CHANGED, id)

    def _note_stored(self, id: str, stored: OwnedTask) -> None:
        created = self._creations.pop(id, None)
        if created is not None and not created.done():
            created.set_result(None)
        if stored.task.is_over:
            self._forget(id)
            return
        self._stored[id] = stored
        self._wake_waiting(id)
        if stored.task.status == "input_required":
            self.announce_here(id)  # which did nothing before the database had this state

    async def wait_stored(self, task: Task) -> Task:
        """Wait until the database has the latest state of a task of this process, for at most `CALL_SECONDS`.

        Return the task, or after that time its older state in the database. Raise ProtocolError without such a state.
        """
        id = task.task_id
        await self.wait_created(id)
        with suppress(TimeoutError):
            async with asyncio.timeout(CALL_SECONDS):
                while not self._is_stored(id):
                    await self.wait_change(id, CALL_SECONDS)
        return task if self._is_stored(id) else self._stored[id].task

    def _is_stored(self, id: str) -> bool:
        return self._stored.get(id) is self._running.get(id)

    def _refuse(self, id: str, refusal: ProtocolError) -> None:
        """Pass a refusal of the database to the request that creates the task; log the refusal of a later change."""
        created = self._creations.get(id)
        if created is None:
            log.error("the store of tasks has refused a new state of a task: %s", refusal.message)
        elif not created.done():
            created.set_exception(refusal)
            created.exception()  # so that asyncio does not log it if the request has ended

    def _forget(self, id: str) -> None:
        """Drop the copy in memory of a task that has expired, or whose final state the database has."""
        self._running.pop(id, None)
        self._stored.pop(id, None)
        self._local.remove(id)
        self._wake_waiting(id)

    def _lose(self, id: str) -> None:
        """End a task that another process has ended."""
        if id in self._running:
            self.on_over(id)
            self._unsaved.pop(id, None)  # `on_over` has queued the final state, which the database would refuse
        self._forget(id)

    # --------------------------------------------------------------------------------- the tasks of other processes

    async def find(self, id: str, owner: str) -> Task | None:
        """Return a task of any process, or None. Raise ProtocolError if the database does not respond."""
        return self._local.get(id, owner) or await self._bounded(self._find(id, owner))

    async def _find(self, id: str, owner: str) -> Task | None:
        stored = await self._database.get(id)
        # [2025-11-25 basic/utilities/tasks#task-isolation-and-access-control] MUST NOT return tasks of another owner
        if stored is None or stored.owner != owner:
            return None
        return await self._check_lease(stored)

    async def find_page(self, owner: str, cursor: str | None) -> tuple[list[Task], str | None]:
        """Return one page of the tasks of all processes. Raise ProtocolError if the database does not respond."""
        found, next_cursor = await self._bounded(self._database.page(owner, cursor))
        tasks = []
        for stored in found:
            task = self._local.get(stored.task.task_id, owner)  # if it runs here, this state is the latest
            if task is None:
                task = await self._bounded(self._check_lease(stored))
            tasks.append(task)
        return tasks, next_cursor

    async def _check_lease(self, stored: OwnedTask) -> Task:
        """Return a task of the database. If its lease has ended, first change its status to failed."""
        task = stored.task
        if task.is_over or stored.has_lease:
            return task
        error: Object = {"code": INTERNAL_ERROR, "message": LOST}
        failed = with_status(task, "failed", time.time(), LOST, error=error)
        if await self._put_final(failed, stored):
            return failed
        latest = await self._database.get(task.task_id)
        return latest.task if latest is not None else failed

    async def _put_final(self, task: Task, stored: OwnedTask) -> bool:
        """Store a final state of a task of another process. Return False if the task was already over."""
        final = OwnedTask(task, stored.owner, stored.expires_at)
        was_stored = await self._database.put(final)
        if was_stored:
            self._publish(STATUS_CHANGED, task.task_id)
            if self._is_wanted(task.task_id):
                self._show(final)
        return was_stored

    async def cancel(self, id: str, reason: str) -> bool:
        """Cancel a task that another process runs. Return False if it is over."""
        stored = await self._bounded(self._database.get(id))
        if stored is None or stored.task.is_over:
            return False
        cancelled = with_status(stored.task, "cancelled", time.time(), reason)
        return await self._bounded(self._put_final(cancelled, stored))

    async def add_responses(self, id: str, responses: dict[str, Object]) -> None:
        """Pass the requestor's responses to the process that runs the task."""
        await self._bounded(self._database.add_responses(id, responses))
        self._publish(INPUT_ADDED, id)

    async def wait_change(self, id: str, seconds: float) -> None:
        """Wait until another process announces a change of a task, for at most `seconds`."""
        changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = self._waiting.setdefault(id, set())
        waiting.add(changed)
        try:
            await asyncio.wait([changed], timeout=seconds)
        finally:
            waiting.discard(changed)
            if not waiting:
                self._waiting.pop(id, None)

    # --------------------------------------------------------------------------------- changes by other processes

    def note_change(self, id: str) -> None:
        """Note a change that another process has announced."""
        self._wake_waiting(id)
        if id in self._running or self._is_wanted(id):
            self._to_read[id] = None
            if len(self._to_read) > MAX_TASKS:  # drop the oldest change, which a renewal or a polling client finds
                del self._to_read[next(iter(self._to_read))]
            self._wake.set()
            self._start("renewals", self._watch)

    def _wake_waiting(self, id: str) -> None:
        for changed in self._waiting.get(id, ()):
            if not changed.done():
                changed.set_result(None)

    async def _watch(self) -> None:
        """Renew the leases of our tasks, and read the tasks that other processes have changed."""
        self._wake = asyncio.Event()  # not the old one, which may belong to the event loop of an earlier run
        next_renewal = 0.0
        while self._running or self._to_read:
            self._wake.clear()
            try:
                if time.monotonic() >= next_renewal:
                    next_renewal = time.monotonic() + self._database.lease_seconds / 3  # so that one renewal may fail
                    await self._renew()
                while self._to_read:
                    await self._read(next(iter(self._to_read)))
            except Exception as error:
                if not isinstance(error, ProtocolError):  # `_bounded` has logged these; others are wrong values
                    self._note_failure(error)
                await asyncio.sleep(RETRY_SECONDS)
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, next_renewal - time.monotonic())):
                    await self._wake.wait()

    async def _renew(self) -> None:
        """Renew the leases, and have the tasks read that may have changed, because an announcement can get lost."""
        saved = [id for id in self._running if id not in self._creations]
        if saved:
            over = await self._bounded(self._database.renew(saved))
            input_required = [id for id, stored in self._running.items() if stored.task.status == "input_required"]
            self._to_read.update(dict.fromkeys([*over, *input_required]))

    async def _read(self, id: str) -> None:
        """Read a task that another process has changed, or has responses for."""
        del self._to_read[id]  # first, because a change during the calls must be read too
        try:
            await self._take_change(id)
        except ProtocolError:
            self._to_read[id] = None
            raise

    async def _take_change(self, id: str) -> None:
        stored = await self._bounded(self._database.get(id))
        if id not in self._running:
            if stored is not None:
                self._show(stored)
        elif stored is None:
            self._save(id, self._running[id])  # the database has lost its data
        elif stored.task.is_over:
            self._lose(id)
        else:
            responses = await self._bounded(self._database.take_responses(id))
            if responses:
                self.on_responses(id, responses)

    def _is_wanted(self, id: str) -> bool:
        return any(client.wants(STATUS_CHANGED, id) for client in tuple(self._clients))

    def announce_here(self, id: str) -> None:
        running = self._running.get(id)
        if running is not None and running.task.status == "input_required" and not self._is_stored(id):
            return  # `_save_one` announces it later, for the reason in `Tasks.get`
        self._clients.announce_here(STATUS_CHANGED, id)

    def _publish(self, change: str, id: str) -> None:
        if self._clients.publish is not None:
            self._clients.publish((change, id))

    def _show(self, stored: OwnedTask) -> None:
        """Announce a task of another process to the clients of this process."""
        with suppress(ProtocolError):  # raised by a full table; the clients must then poll the task
            self._subscribed.put(stored.task, stored.owner, stored.expires_at)
            self.announce_here(stored.task.task_id)

    # --------------------------------------------------------------------------------------------- the database

    def _start(self, name: str, work: Callable[[], Coroutine[object, object, None]]) -> None:
        """Run a function in an asyncio task, unless it already runs."""
        if name not in self._asyncio_tasks or self._asyncio_tasks[name].done():
            # Not `create_task`, because an eager task could call `_start` again before it is stored here.
            self._asyncio_tasks[name] = asyncio.Task(work())

    async def _bounded(self, call: Awaitable[T]) -> T:
        """Wait for the database, at most `CALL_SECONDS`. Raise ProtocolError if it fails."""
        try:
            async with asyncio.timeout(CALL_SECONDS):
                result = await call
        except ProtocolError:
            raise
        except Exception as error:
            self._note_failure(error)
            raise ProtocolError(INTERNAL_ERROR, "the store of tasks does not respond; retry later") from None
        self._note_success()
        return result

    def _note_failure(self, error: Exception) -> None:
        """Log the first failure after a success."""
        if not self._has_failed:
            self._has_failed = True
            text = "the store of tasks has failed (%s: %s); until it works, no task begins, and changes stay in memory"
            log.error(text, type(error).__name__, error, exc_info=error)

    def _note_success(self) -> None:
        if self._has_failed:
            self._has_failed = False
            log.warning("the store of tasks works again")

    async def close(self) -> None:
        """Save the last changes, for at most `FLUSH_SECONDS`. Tasks that still run fail when their leases end."""
        for id, stored in tuple(self._failed.items()):
            self._save(id, stored)  # now, because the pause before the next attempt may be longer
        saving = self._asyncio_tasks.get("changes")
        if saving is not None:
            await asyncio.wait([saving], timeout=FLUSH_SECONDS)
        tasks = [*self._asyncio_tasks.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=FLUSH_SECONDS)
        tables = (self._running, self._stored, self._unsaved, self._failed, self._creations, self._to_read)
        for table in (self._asyncio_tasks, *tables):
            table.clear()
        with suppress(Exception):  # `_bounded` has logged it
            await self._bounded(self._database.close())
