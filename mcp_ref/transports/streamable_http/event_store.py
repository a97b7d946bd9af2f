"""The event store: it stores the events of a session's streams, for clients that missed some events.

Every event of a stream has an id, which names the stream and the event's number. If the stream's connection breaks, the
client sends a GET with the id of the last event that it received (`Last-Event-ID`), and the server sends the later
events of that stream (a replay).

    id: 5f3a-1.17        event number 17 of the store, on the stream 5f3a-1

A server MUST NOT replay events of another stream [2025-11-25 basic/transports#resumability-and-redelivery], because the
client would receive the messages of its other streams twice.

The store drops the oldest events of a session first, so if it still has an event, it has all later ones too. A client
that missed a dropped event gets no replay, because the replay would have a gap.

Revision 2025-03-26 added resumption, and since 2025-11-25 servers SHOULD give ids that identify the stream. 2026-07-28
removed it: a client repeats a request whose response broke off [2026-07-28 changelog#major-changes].

Threats:
    foreign-events: Another client of the server gets a session's events by sending an event id of that session in
        `Last-Event-ID`. The store looks for an event only among those of the request's own session.
    lost-events: A client with many sessions pushes out the events of others, by making the server store events until
        the store is full. A client that has more than an equal share of a full store loses its own events first.

Spec:  basic/transports#resumability-and-redelivery (2025-03-26 to 2025-11-25)
Used by: session.py, session_table.py, server.py. Stores that outlive the process: durable_store.py, sqlite_store.py
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypedDict, Unpack

from ...lib.fields import CheckedFields, check_arguments, check_options
from .leases import Leases

EVENT_COST = 300
"""Memory that an event needs in addition to its data, in bytes: its number, its time, and the Python objects."""
NUMBERS_PER_TAKEOVER = 2**20
"""The jump in the event numbers when another process continues a session, to skip those of sent but unsaved events."""
MAX_DROPPED_STREAMS = 100
"""Maximum number of streams of one session for which a store remembers that it dropped events."""


class StoreLimits(TypedDict, total=False):
    """The limits of an event store, as arguments of its class. `STORE_LIMITS` has the defaults."""

    max_events: int
    """Maximum number of events of one session. The store drops the oldest events first."""
    max_session_bytes: int
    """Maximum total size of the events of one session, in bytes. The store drops the oldest events first."""
    max_bytes: int
    """Maximum total size of all events, in bytes. The callers with more than an equal share lose events first: the
    oldest events of their least recently used session, then those of the next session."""
    max_age: float
    """Time for which an event is stored, in seconds."""


STORE_LIMITS: Final[StoreLimits] = {
    "max_events": 1000, "max_session_bytes": 16 * 1024 * 1024, "max_bytes": 64 * 1024 * 1024, "max_age": 3600.0,
}  # fmt: skip
"""The default limits of an event store."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a stream: its id, and its data. The data is a message, or empty if the event only gives an id."""

    id: str
    data: bytes


StoredEvent = tuple[float, str, int, bytes]
"""An event in a store: time (in seconds, of the store's clock), name of the stream, number, data."""


@dataclass(frozen=True, slots=True)
class StoredSession(CheckedFields):
    """A session of an earlier process: its `initialize` message, its principal, and its events, the oldest first."""

    initialize: bytes
    principal: str | None
    events: Sequence[StoredEvent] = ()
    last_number: int = 0
    """Number of the latest event, even if it is no longer among the `events`; 0 if the storage does not know it."""
    kept: bytes = b""
    """The requests to handle again, as `SessionChange.kept` had them; b"" without any."""


class SessionOwned(Exception):
    """Another process serves the session now: its lease has not ended."""


class StoreFailed(Exception):
    """The storage of an event store has failed. `__cause__` is the exception of the storage, if any."""


def stream_of(event_id: str) -> str:
    """Return the name of the event's stream."""
    # [2025-11-25 basic/transports#resumability-and-redelivery] an event id SHOULD identify its stream
    return event_id.rpartition(".")[0]


def number_of(event_id: str) -> int | None:
    """Return the event's number, or None if the id has no valid number."""
    number = event_id.rpartition(".")[2]
    return int(number) if number.isascii() and number.isdigit() and len(number) <= 18 else None


def last_number_of(events: Sequence[StoredEvent]) -> int:
    """Return the number of the last event, or 0 without events."""
    return events[-1][2] if events else 0


@dataclass(slots=True)
class SessionEvents:
    """The events of one session."""

    caller: str
    events: list[StoredEvent] = field(default_factory=list)  # an empty deque takes 700 bytes
    dropped: dict[str, int] = field(default_factory=dict)  # stream -> last dropped number; the newest entry is last
    size: int = 0


@dataclass(slots=True)
class CallerEvents:
    """The events of one caller."""

    sessions: OrderedDict[str, SessionEvents] = field(default_factory=OrderedDict)
    """The sessions with events, by id. The session of the latest event is last."""
    size: int = 0


class MemoryEventStore:
    """An event store in memory. Its methods run on the event loop, so they must be quick.

    Args:
        clock: Function that returns the time, in seconds. Default: `time.monotonic`.
        limits: The limits in `StoreLimits`.

    Args of methods:
        session: The id of the session.
        caller: The caller whose share of the store the events use: see `Access.caller`.

    Raises:
        TypeError: A limit has an unknown name, or is not a number.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, **limits: Unpack[StoreLimits]) -> None:
        names = STORE_LIMITS.keys()
        unknown = limits.keys() - names
        if unknown:
            raise TypeError(f"an event store has the limits {', '.join(names)}, not {', '.join(sorted(unknown))}")
        check_options(limits, StoreLimits)
        check_arguments(MemoryEventStore.__init__, {"clock": clock})
        limits = {**STORE_LIMITS, **limits}
        self._clock = clock
        self._max_events, self._max_age = limits["max_events"], limits["max_age"]
        self._max_session_bytes, self._max_bytes = limits["max_session_bytes"], limits["max_bytes"]
        self._sessions: dict[str, SessionEvents] = {}
        self._by_caller: dict[str, CallerEvents] = {}  # the callers with events
        self._number = self._size = 0  # number of the latest event; size of all events, in bytes

    is_durable = False
    """True if a later process can restore the sessions."""
    on_lost: Callable[[str], None] = staticmethod(lambda session: None)
    """Called with the id of a session that another process has taken over."""

    leases: Leases | None = None
    """The leases of the sessions, if several processes share the storage. Serve a session only during its lease."""

    def add_session(self, session: str, initialize: bytes, principal: str | None, caller: str = "") -> None:
        """Store a new session.

        Args:
            initialize: The `initialize` message, as JSON.
            principal: The authenticated caller, or None.
        """
        self._sessions[session] = SessionEvents(caller)

    def keep_requests(self, session: str, kept: bytes) -> None:
        """Store the requests that a later process must handle again (kept_requests.py). This store has no use for them.

        Args:
            kept: The requests, which replace the stored ones, as JSON.
        """

    def append(self, session: str, stream: str, data: bytes) -> str:
        """Store an event.

        Args:
            stream: The name of the stream, without ".".
            data: The message, as JSON, or b"" if the event only gives the client an id.

        Returns:
            The id of the event: `stream.number`.
        """
        stored, now = self._sessions[session], self._clock()
        self._number += 1
        stored.events.append((now, stream, self._number, data))
        self._add_size(session, stored, len(data) + EVENT_COST)
        self._drop_excess(session, stored, now)
        return f"{stream}.{self._number}"

    def _add_size(self, session: str, stored: SessionEvents, size: int) -> None:
        """Add the size of new events to those of the session, of its caller, and of all."""
        of_caller = self._by_caller.get(stored.caller)
        if of_caller is None:
            of_caller = self._by_caller[stored.caller] = CallerEvents()
        if stored.size:
            of_caller.sessions.move_to_end(session)
        else:
            of_caller.sessions[session] = stored
        stored.size += size
        of_caller.size += size
        self._size += size

    def _drop_excess(self, session: str, stored: SessionEvents, now: float) -> None:
        events, min_time = stored.events, now - self._max_age
        while events and (  # [0][0]: the time of the first event
            len(events) > self._max_events or stored.size > self._max_session_bytes or events[0][0] < min_time
        ):
            self._drop_oldest(session, stored)
        if self._size > self._max_bytes:
            share = self._max_bytes / len(self._by_caller)  # at least one caller has more than this average
            greedy = [each for each in self._by_caller.values() if each.size > share]
            for each in sorted(greedy, key=lambda each: each.size, reverse=True):
                while self._size > self._max_bytes and each.size > share:
                    least_recent, its_events = next(iter(each.sessions.items()))
                    self._drop_oldest(least_recent, its_events)

    def _drop_oldest(self, session: str, stored: SessionEvents) -> None:
        _, stream, number, data = stored.events.pop(0)
        stored.dropped.pop(stream, None)
        stored.dropped[stream] = number
        if len(stored.dropped) > MAX_DROPPED_STREAMS:
            del stored.dropped[next(iter(stored.dropped))]
        self._subtract_size(session, stored, len(data) + EVENT_COST)

    def _subtract_size(self, session: str, stored: SessionEvents, size: int) -> None:
        of_caller = self._by_caller[stored.caller]
        stored.size -= size
        of_caller.size -= size
        self._size -= size
        if not stored.size:
            of_caller.sessions.pop(session, None)
            if not of_caller.sessions:
                del self._by_caller[stored.caller]

    def events_after(self, session: str, event_id: str) -> list[Event] | None:
        """Return the events that follow an event on its stream, in order.

        Args:
            event_id: The id of the last event that the client received.

        Returns:
            The events, or None if `event_id` is unknown or a later event was dropped.
        """
        stored, number = self._sessions.get(session), number_of(event_id)
        if stored is None or number is None:
            return None
        later = self.events_from(session, event_id)
        last_dropped = stored.dropped.get(stream_of(event_id))  # looked up last, because `events_from` can drop events
        if last_dropped is not None and last_dropped > number:
            return None  # otherwise the client would miss an event without noticing
        if last_dropped == number:  # the event itself is dropped, but all later ones are stored
            return later
        is_known = bool(later) and later[0].id == event_id  # then `later` begins with the event itself
        return later[1:] if is_known else None

    def events_from(self, session: str, event_id: str) -> list[Event]:
        """Return an event and the later ones of its stream, without those that were dropped.

        Args:
            event_id: The id of an event.
        """
        stored, number, stream = self._sessions[session], number_of(event_id) or 0, stream_of(event_id)
        self._drop_excess(session, stored, self._clock())
        return [Event(f"{stream}.{n}", data) for _, name, n, data in stored.events if name == stream and n >= number]

    def delete_session(self, session: str) -> None:
        """Delete a session and its events. Do nothing if the session is unknown."""
        stored = self._sessions.pop(session, None)
        if stored is not None and stored.events:
            self._subtract_size(session, stored, stored.size)

    async def wait_stored(self, session: str) -> None:
        """Wait until a new session is saved, so that another process could continue it, or until the storage fails."""

    async def find_session(self, session: str, principal: str | None, caller: str = "") -> StoredSession | None:
        """Find a session of an earlier process.

        Args:
            principal: The principal that asks for it.
            caller: The caller, for the limit of loads at the same time: see `Access.caller`.

        Returns:
            The session, or None if it is unknown or has another principal. A store in memory knows no session of an
            earlier process.

        Raises:
            SessionOwned: Another process serves the session now.
            StoreFailed: The storage of a `DurableEventStore` has failed.
        """
        return None

    def restore_session(self, session: str, stored: StoredSession, caller: str = "") -> None:
        """Continue a session of an earlier process.

        Args:
            stored: The session that `find_session` has returned.
        """
        MemoryEventStore.delete_session(self, session)  # a subclass's own method would delete the stored session, too
        restored = self._sessions[session] = SessionEvents(caller, list(stored.events))
        latest = max(stored.last_number, last_number_of(stored.events))
        if latest >= self._number:
            self._number = latest + NUMBERS_PER_TAKEOVER
        if restored.events:
            self._add_size(session, restored, sum(len(data) + EVENT_COST for _, _, _, data in stored.events))
        self._drop_excess(session, restored, self._clock())

    def give_back(self, session: str) -> asyncio.Event:
        """Let another process continue a session, if several share the storage. `delete_session` then leaves it stored.

        Returns:
            The event that is set as soon as another process can continue the session.
        """
        raise NotImplementedError

    @property
    def unsaved_sessions(self) -> int:
        """Number of sessions with changes that are not saved yet. This store saves nothing."""
        return 0

    async def flush(self, seconds: float) -> None:
        """Save all changes for the next process. This store has nothing to save.

        Args:
            seconds: Maximum time to wait, in seconds.
        """
