"""An event store whose sessions outlive the process: events in memory, and a copy of them on disk or elsewhere.

The event loop uses only the memory, so a slow disk never blocks it. A thread copies the changes to the storage:

    event loop:  append, delete_session -> the set of changed sessions -> a SessionChange for each -> the thread
    thread:      save(changes), again RETRY_SECONDS after a failure
    event loop:  the first request for a session of an earlier process -> the thread: load(session)

- While the storage fails, sessions go on working, and clients resume from the memory; only a restart would lose the
  changes.
- After a failure, the thread saves the events that the memory still has. If the memory has dropped an unsaved event,
  the storage deletes the session's earlier events too, so that a stored session never has a gap.
- If several processes share a storage (`lease_seconds`), a process serves a session only while it has the session's
  lease (leases.py).
- An event is sent before it is saved. If the process is killed in between, a client that received the event cannot
  resume after it. Its GET is refused, as for a dropped event, and no later event gets the same number.

Threats:
    load-flood: A caller holds up the sessions of others with many requests for unknown session ids, each of which waits
        for a `load` of the storage. A caller has few loads at a time, and saving and renewing go first.

Spec:  basic/transports#resumability-and-redelivery (2025-03-26 to 2025-11-25)
Uses: event_store.py (the store in memory), storage_thread.py (the thread). A storage in a file: sqlite_store.py
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from abc import abstractmethod
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import Final, Unpack

from .event_store import (
    MemoryEventStore,
    SessionEvents,
    SessionOwned,
    StoredEvent,
    StoredSession,
    StoreFailed,
    StoreLimits,
    last_number_of,
)
from .leases import Leases, now
from .storage_thread import StorageThread

log = logging.getLogger(__name__)

RETRY_SECONDS: Final = 1.0
"""Time after a failed `save` until the next `save`, in seconds."""
LOAD_SECONDS: Final = 3.0
"""Maximum time of one `load`, in seconds. After this time, the server refuses the request with 503."""
HANDOVER_SECONDS: Final = 1.0
"""Maximum time that a request waits for another process to give a session back, in seconds."""
HANDOVER_PAUSE: Final = 0.1
"""Time between two attempts to load such a session, in seconds."""
BEGIN_SECONDS: Final = 1.0
"""Maximum time for which the response to `initialize` waits until a shared storage has the session, in seconds."""
ELSEWHERE_SECONDS: Final = 60.0
"""Time for which requests do not wait for a session of another process, after one has waited in vain, in seconds."""
MAX_ELSEWHERE: Final = 1000
"""Maximum number of sessions that are remembered because a request has waited in vain."""
EVENTS_PER_SAVE: Final = 1000
"""Number of sessions and events at which a `save` gets no further session. One session alone may have more."""
MAX_LOADS_PER_CALLER: Final = 64
"""Maximum number of calls of `load` for one caller that run or wait. Further ones fail (503)."""
NUMBERS_PER_PROCESS: Final = 2**32
"""Maximum number of events that one process can number."""


@dataclass(frozen=True, slots=True)
class SessionChange:
    """The changes of one session since the last successful `save`. Those of a failed `save` come again."""

    session: str
    is_deleted: bool = False
    """True if the session has ended: delete the session and its events. Then the other fields are empty."""
    initialize: bytes | None = None
    """The `initialize` message of a new session, or None if it is saved already."""
    principal: str | None = None
    """The principal (the authenticated caller) of a new session."""
    first_number: int = 0
    """Number of the oldest event to keep. Delete the session's earlier events."""
    events: Sequence[StoredEvent] = ()
    """The new events, the oldest first."""
    kept: bytes | None = None
    """The requests that a later process must handle again, or None if they have not changed."""


@dataclass(slots=True)
class _SaveState:
    """The progress of saving a session."""

    unsaved_initialize: tuple[bytes, str | None] | None  # the `initialize` message and the principal, until saved
    last_number: int = 0  # number of the newest saved event
    unsaved_kept: bytes | None = None  # the requests to handle again, until saved
    may_be_stored: bool = False  # True if the storage may know the session, perhaps from a `save` that failed


class DurableEventStore(MemoryEventStore):
    """An event store whose sessions outlive the process. For your own storage, override `save` and `load`.

    A thread calls both methods, one call at a time, so they can block, and raise any exception. For a storage that
    several processes share, set `lease_seconds`, and override `renew` and `release` too.

    Args:
        process_number: Number of earlier processes that used the storage, even if they saved nothing. It makes the ids
            of events unique.
        limits: The limits in `StoreLimits`.
    """

    is_durable = True
    lease_seconds: float | None = None
    """Time for which a process has a session after its last `load`, `save` or `renew`, in seconds. None if only one
    process uses the storage."""

    def __init__(self, process_number: int, **limits: Unpack[StoreLimits]) -> None:
        for method in (self.save, self.load, self.renew, self.release):
            if inspect.iscoroutinefunction(method):
                raise TypeError(f"{method.__name__} must be a plain `def`, because a thread calls it")
        super().__init__(time.time, **limits)
        self._number = process_number * NUMBERS_PER_PROCESS
        self._save_states: dict[str, _SaveState] = {}
        self._changed: dict[str, None] = {}  # the sessions with changes for the next `save`
        self._saving: dict[str, SessionChange] = {}  # the changes in the current `save`, by session
        self._save_task: asyncio.Task[None] | None = None  # runs while there are changes
        self._has_failed = False  # True from a failure to the next successful `save`
        self._thread = StorageThread()
        self._loads: Counter[str] = Counter()  # calls of `load` that run or wait, by caller
        self._waiting_to_begin: dict[str, asyncio.Event] = {}  # by new session; set when `initialize` may return
        self._to_give_back: dict[str, asyncio.Event] = {}  # by session; set when another process can load it
        self._elsewhere: dict[str, float] = {}  # session of another process -> time until which no request waits for it
        if self.lease_seconds is not None:
            self.leases = Leases(self.lease_seconds, self._renew_leases, self._lose)

    @abstractmethod
    def save(self, changes: Sequence[SessionChange]) -> Collection[str] | None:
        """Save all changes, or raise any exception. A thread calls this method.

        Args:
            changes: The changes, at most one for each session.

        Returns:
            With `lease_seconds`: the sessions that another process has taken over. Their changes MUST NOT be saved.
        """
        raise NotImplementedError

    @abstractmethod
    def load(self, session: str, principal: str | None) -> StoredSession | None:
        """Find a saved session. A thread calls this method.

        Args:
            session: The id of the session.
            principal: The principal that asks for it. A stolen id alone must not move a lease to another process.

        Returns:
            The session with its events, or None if it is unknown or has another principal. With `lease_seconds`, this
            process then has its lease.

        Raises:
            SessionOwned: Another process has its lease.
        """
        raise NotImplementedError

    def renew(self, sessions: Sequence[str]) -> Collection[str]:
        """Renew the leases of sessions, or raise any exception. A thread calls this method.

        Args:
            sessions: The ids of all sessions that this process has in memory and in the storage.

        Returns:
            The sessions that another process has taken over, or that the storage has lost.
        """
        return ()

    def release(self, sessions: Sequence[str]) -> None:
        """End the leases of sessions, because the process will end soon. A thread calls this method.

        Args:
            sessions: The ids of the sessions.
        """

    async def _renew_leases(self, sessions: Sequence[str]) -> Collection[str] | None:
        try:
            return await self._thread.run(partial(self._renew_checked, sessions), is_urgent=True)
        except StoreFailed as failure:
            self._note_failure(failure)
            return None

    def _renew_checked(self, sessions: Sequence[str]) -> Collection[str]:
        lost: object = self.renew(sessions)
        if isinstance(lost, Collection):
            return lost
        raise TypeError(f"renew returned {lost!r:.100}; it must return the lost sessions, such as ()")

    def _lose(self, session: str) -> None:
        log.warning("another process has taken over a session of this process, so its copy here ends")
        self._save_states.pop(session, None)
        self._changed.pop(session, None)
        self._note_given_back(session)
        super().delete_session(session)
        self.on_lost(session)

    def add_session(self, session: str, initialize: bytes, principal: str | None, caller: str = "") -> None:
        super().add_session(session, initialize, principal, caller)
        self._save_states[session] = _SaveState((initialize, principal))
        if self.leases is not None:
            self.leases.begin(session)
        self._note_change(session)

    async def wait_stored(self, session: str) -> None:
        state = self._save_states.get(session)
        if self.leases is None or self._has_failed or state is None or state.unsaved_initialize is None:
            return
        may_begin = self._waiting_to_begin[session] = asyncio.Event()
        try:
            async with asyncio.timeout(BEGIN_SECONDS):
                await may_begin.wait()
        except TimeoutError:
            pass  # serve the session anyway, from the memory
        finally:
            del self._waiting_to_begin[session]

    def keep_requests(self, session: str, kept: bytes) -> None:
        if (state := self._save_states.get(session)) is not None:  # None: another process has taken it over
            state.unsaved_kept = kept
            self._note_change(session)

    def append(self, session: str, stream: str, data: bytes) -> str:
        id = super().append(session, stream, data)
        self._note_change(session)
        return id

    def _drop_oldest(self, session: str, stored: SessionEvents) -> None:
        super()._drop_oldest(session, stored)
        self._note_change(session)

    def delete_session(self, session: str) -> None:
        if self.leases is not None:
            if session not in self._sessions or session in self._to_give_back:
                return  # another process has taken it over, or can do so soon
            self.leases.end(session)
        super().delete_session(session)
        state = self._save_states.pop(session, None)
        if state is not None and not state.may_be_stored:
            self._changed.pop(session, None)
        else:
            self._note_change(session)  # the next `save` finds no state of it, and so deletes it from the storage

    async def find_session(self, session: str, principal: str | None, caller: str = "") -> StoredSession | None:
        if self._loads[caller] >= MAX_LOADS_PER_CALLER:
            raise StoreFailed("too many sessions are being loaded for this caller")
        self._loads[caller] += 1
        # A process that drains still has the leases of its sessions when the load balancer already sends their requests
        # elsewhere. Without this wait, each rolling restart would refuse some of them.
        give_up_at = now() + min(HANDOVER_SECONDS, self.lease_seconds or 0.0)
        if self._elsewhere.get(session, 0.0) > now():
            # The session has moved for good, although the load balancer still tries this process first.
            give_up_at = 0.0
        try:
            while True:
                try:
                    return await self._load_session(session, principal)
                except SessionOwned:
                    if now() >= give_up_at:
                        self._note_elsewhere(session)
                        raise
                await asyncio.sleep(HANDOVER_PAUSE)
        finally:
            self._loads -= Counter((caller,))  # which also forgets a caller whose count is 0

    def _note_elsewhere(self, session: str) -> None:
        self._elsewhere.pop(session, None)
        if len(self._elsewhere) >= MAX_ELSEWHERE:
            del self._elsewhere[next(iter(self._elsewhere))]
        self._elsewhere[session] = now() + ELSEWHERE_SECONDS

    async def _load_session(self, session: str, principal: str | None) -> StoredSession | None:
        began = now()
        try:
            async with asyncio.timeout(LOAD_SECONDS):
                stored = await self._thread.run(partial(self._load_checked, session, principal))
        except TimeoutError:
            failure = StoreFailed(f"no result within {LOAD_SECONDS:g} s")
            self._note_failure(failure)
            raise failure from None
        except StoreFailed as failure:
            self._note_failure(failure)
            raise
        if isinstance(stored, SessionOwned):
            raise stored
        if session in self._sessions:  # another request has restored it meanwhile
            return stored
        if stored is not None and self.leases is not None:
            self.leases.note_loaded(session, began)
        # The session is not in memory, so a change of it that is not saved yet can only be its deletion.
        is_deleted = session in self._changed or session in self._saving
        return None if is_deleted else stored

    def _load_checked(self, session: str, principal: str | None) -> StoredSession | SessionOwned | None:
        try:
            stored = self.load(session, principal)
        except SessionOwned as owned:
            return owned  # raised in the thread, it would become a StoreFailed
        if stored is None or isinstance(stored, StoredSession):
            return stored
        raise TypeError(f"load returned {stored!r:.100}; it must return a StoredSession or None")

    def restore_session(self, session: str, stored: StoredSession, caller: str = "") -> None:
        super().restore_session(session, stored, caller)
        self._save_states[session] = _SaveState(None, last_number_of(stored.events), may_be_stored=True)
        if self.leases is not None:
            self.leases.keep(session)
        self._note_change(session)

    def give_back(self, session: str) -> asyncio.Event:
        self._to_give_back[session] = asyncio.Event()
        self._note_change(session)  # so that a `save` runs, after which `_give_back_saved` ends the lease
        return self._to_give_back[session]

    async def _give_back_saved(self, leases: Leases) -> None:
        """Give back the sessions of `give_back`, except those with unsaved changes."""
        if saved := [session for session in self._to_give_back if session not in self._changed]:
            with suppress(StoreFailed):  # the leases end later by themselves
                await self._thread.run(partial(self.release, saved))  # not urgent, so a `renew` that waits runs first
            for session in saved:
                leases.end(session)
                self._save_states.pop(session, None)  # None: another process has taken it over
                self._changed.pop(session, None)  # changed meanwhile; without its state, a `save` would delete it
                super().delete_session(session)
                self._note_given_back(session)

    def _note_given_back(self, session: str) -> None:
        if (given_back := self._to_give_back.pop(session, None)) is not None:
            given_back.set()

    def _note_change(self, session: str) -> None:
        self._changed[session] = None
        self._start_saving()

    def _start_saving(self) -> asyncio.Task[None]:
        """Return the task that saves the changes. Start it if it does not run."""
        if self._save_task is None or self._save_task.done():
            self._save_task = asyncio.create_task(self._save_changes())
        return self._save_task

    async def _save_changes(self) -> None:
        """Save until all changes are saved. After a failure, save one session alone, because it may be the cause."""
        max_count = EVENTS_PER_SAVE
        try:
            while self._changed:
                self._take_changes(max_count)
                began = now()
                try:
                    lost = await self._thread.run(partial(self.save, [*self._saving.values()]), is_urgent=True)
                except StoreFailed as failure:
                    self._note_failure(failure)
                    max_count = 0
                    self._return_changes()
                    await asyncio.sleep(RETRY_SECONDS)
                else:
                    saved = [*self._saving]
                    self._note_saved()
                    if self.leases is not None:
                        self.leases.extend(saved, began, lost or ())
                        await self._give_back_saved(self.leases)
                    max_count = min(2 * max_count + 1, EVENTS_PER_SAVE)  # after a failure: 0, 1, 3, 7, ...
        finally:
            self._return_changes()

    def _take_changes(self, max_count: int) -> None:
        """Move at least one session from `_changed` to `_saving`. Stop at `max_count` sessions and events."""
        count = 0
        while self._changed and (not self._saving or count < max_count):
            session = next(iter(self._changed))
            del self._changed[session]
            change = self._saving[session] = self._change_of(session)
            count += 1 + len(change.events)

    def _change_of(self, session: str) -> SessionChange:
        state = self._save_states.get(session)
        if state is None:
            return SessionChange(session, is_deleted=True)
        state.may_be_stored = True
        events, last_saved = self._sessions[session].events, state.last_number
        # Search from the newest on, by their numbers, because there may be many saved events.
        newest_first = [*takewhile(lambda event: event[2] > last_saved, reversed(events))]  # [2]: the number
        unsaved = newest_first[::-1]
        first_number = events[0][2] if events else self._number + 1
        initialize, principal = state.unsaved_initialize or (None, None)
        return SessionChange(session, False, initialize, principal, first_number, unsaved, state.unsaved_kept)

    def _note_failure(self, failure: StoreFailed) -> None:
        """Log the first failure after a success. New sessions no longer wait for their `save`."""
        for waiting in self._waiting_to_begin.values():
            waiting.set()
        if not self._has_failed:
            self._has_failed = True
            advice = "while it fails, changes are only in memory, and are lost when the server ends"
            text = "the store of sessions and events has failed: %s; %s"
            log.error(text, failure, advice, exc_info=failure.__cause__)

    def _note_saved(self) -> None:
        if self._has_failed:
            self._has_failed = False
            log.warning("the store of sessions and events works again")
        for session, change in self._saving.items():
            if (state := self._save_states.get(session)) is not None:
                state.unsaved_initialize = None
                if (waiting := self._waiting_to_begin.get(session)) is not None:
                    waiting.set()
                if state.unsaved_kept is change.kept:  # else they have changed during the call
                    state.unsaved_kept = None
                if change.events:
                    state.last_number = last_number_of(change.events)
        self._saving.clear()

    def _return_changes(self) -> None:
        self._changed.update(dict.fromkeys(self._saving))
        self._saving.clear()

    @property
    def unsaved_sessions(self) -> int:
        return len(self._changed) + len(self._saving)

    async def flush(self, seconds: float) -> None:
        task = self._start_saving()
        await asyncio.wait([task], timeout=seconds)
        if task.cancel():  # False if the task has ended, so that all is saved
            await asyncio.wait([task])
            count = len(self._changed)
            self._note_failure(StoreFailed(f"the changes of sessions ({count}) were not saved within {seconds:g} s"))
        if self.leases is not None:
            with suppress(StoreFailed, TimeoutError):  # the leases end later by themselves
                async with asyncio.timeout(seconds):
                    await self._thread.run(partial(self.release, self.leases.end_all()), is_urgent=True)
            for session in tuple(self._to_give_back):
                self._note_given_back(session)
