"""The event store: it stores the events of a session's streams, for clients that missed some events.

Every event of a stream has an id, which names the stream and the event's number. If the stream's connection breaks, the
client sends a GET with the id of the last event that it received (`Last-Event-ID`). The server then sends the later
events of that stream (a replay).

    id: 5f3a-1.17        event number 17 of the store, on the stream 5f3a-1

A server MUST NOT replay events of another stream [2025-11-25 basic/transports#resumability-and-redelivery]. Otherwise
the client would receive the messages of its other streams twice.

Revision 2025-03-26 added resumption. Since 2025-11-25, servers SHOULD give ids that identify the stream. 2026-07-28
removed resumption: a client repeats a request whose response broke off [2026-07-28 changelog#major-changes].

Spec:  basic/transports#resumability-and-redelivery (2025-03-26 to 2025-11-25)
Used by: session.py, session_table.py, server.py. A store in a file: sqlite_store.py
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

MAX_EVENTS = 1000
"""Maximum number of events that `MemoryEventStore` stores for one session. It drops the oldest events first."""
MAX_BYTES = 64 * 1024 * 1024
"""Maximum total size of the events in a `MemoryEventStore`, in bytes (64 MiB). It drops the oldest events first."""
MAX_DROPPED_STREAMS = 1000
"""Maximum number of streams of one session for which a `MemoryEventStore` remembers that it dropped events."""
MAX_AGE = 3600.0
"""Time for which an event is stored, in seconds (one hour)."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a stream: its id, and its data. The data is a message, or empty if the event only gives an id."""

    id: str
    data: bytes


class EventStore(Protocol):
    """The interface of an event store. Its methods run on the event loop, so they must be quick.

    `session` and `stream` are ids without ".". An event's id is `stream.number`. The numbers in a stream increase.
    """

    def append(self, session: str, stream: str, data: bytes) -> str:
        """Store an event, and return its id."""

    def events_after(self, session: str, event_id: str) -> list[Event] | None:
        """Return the stream's later events, in order, or None if `event_id` is unknown or a later event was dropped."""

    def add_session(self, session: str, initialize: bytes, principal: str | None) -> None:
        """Store a new session: its `initialize` message and its principal (the authenticated caller)."""

    def find_session(self, session: str) -> tuple[bytes, str | None] | None:
        """Return the session's `initialize` message and its principal, or None if the session is unknown."""

    def delete_session(self, session: str) -> None:
        """Delete a session and its events. Do nothing if the session is unknown."""


def stream_of(event_id: str) -> str:
    """Return the name of the event's stream."""
    # [2025-11-25 basic/transports#resumability-and-redelivery] an event id SHOULD identify its stream
    return event_id.rpartition(".")[0]


def number_of(event_id: str) -> int | None:
    """Return the event's number, or None if the id has no valid number."""
    number = event_id.rpartition(".")[2]
    return int(number) if number.isascii() and number.isdigit() and len(number) <= 18 else None


@dataclass
class _SessionEvents:
    """The events of one session."""

    events: deque[tuple[float, str, int, bytes]] = field(default_factory=deque)  # time, stream, number, data
    dropped: dict[str, int] = field(default_factory=dict)  # stream -> last dropped number; the newest entry is last
    size: int = 0


class MemoryEventStore(EventStore):
    """An event store in memory.

    Args:
        max_events: Maximum number of events of one session. Default: 1000.
        max_bytes: Maximum total size of all events, in bytes. Default: 64 MiB.
        max_age: Time for which an event is stored, in seconds. Default: one hour.
        clock: Function that returns the time, in seconds. Default: `time.monotonic`.
    """

    def __init__(
        self,
        max_events: int = MAX_EVENTS,
        max_bytes: int = MAX_BYTES,
        max_age: float = MAX_AGE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_events, self._max_bytes, self._max_age, self._clock = max_events, max_bytes, max_age, clock
        self._sessions: dict[str, _SessionEvents] = {}
        self._by_age: OrderedDict[str, _SessionEvents] = OrderedDict()  # the session of the latest event is last
        self._number = self._size = 0  # number of the latest event; size of all events, in bytes

    def add_session(self, session: str, initialize: bytes, principal: str | None) -> None:
        self._sessions[session] = _SessionEvents()

    def find_session(self, session: str) -> tuple[bytes, str | None] | None:
        return None  # the store ends with its process, so no later process can restore a session from it

    def append(self, session: str, stream: str, data: bytes) -> str:
        stored = self._sessions[session]
        self._number += 1
        stored.events.append((self._clock(), stream, self._number, data))
        stored.size += len(data)
        self._size += len(data)
        self._by_age[session] = stored
        self._by_age.move_to_end(session)
        while len(stored.events) > self._max_events:
            self._drop_oldest(session, stored)
        self._drop_aged(session, stored)
        while self._size > self._max_bytes:
            self._drop_oldest(*next(iter(self._by_age.items())))
        return f"{stream}.{self._number}"

    def _drop_aged(self, session: str, stored: _SessionEvents) -> None:
        oldest = self._clock() - self._max_age
        while stored.events and stored.events[0][0] < oldest:
            self._drop_oldest(session, stored)

    def _drop_oldest(self, session: str, stored: _SessionEvents) -> None:
        _, stream, number, data = stored.events.popleft()
        stored.dropped.pop(stream, None)
        stored.dropped[stream] = number
        if len(stored.dropped) > MAX_DROPPED_STREAMS:
            del stored.dropped[next(iter(stored.dropped))]
        stored.size -= len(data)
        self._size -= len(data)
        if not stored.events:
            self._by_age.pop(session, None)

    def events_after(self, session: str, event_id: str) -> list[Event] | None:
        stored, number = self._sessions.get(session), number_of(event_id)
        if stored is None or number is None:
            return None
        self._drop_aged(session, stored)
        stream = stream_of(event_id)
        if stored.dropped.get(stream, 0) > number:
            return None  # the client would miss an event without noticing
        later = [(n, data) for _, other, n, data in stored.events if other == stream and n >= number]
        if stored.dropped.get(stream) == number:
            return [Event(f"{stream}.{n}", data) for n, data in later]
        is_known = bool(later) and later[0][0] == number
        return [Event(f"{stream}.{n}", data) for n, data in later[1:]] if is_known else None

    def delete_session(self, session: str) -> None:
        stored = self._sessions.pop(session, None)
        self._by_age.pop(session, None)
        if stored is not None:
            self._size -= stored.size
