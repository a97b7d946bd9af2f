"""The event store: it keeps the events of a session's streams, for a client that missed some of them.

Every event of a stream gets an id that names the stream and the event's place in it. A client whose connection broke
sends a GET with the last id that it received (`Last-Event-ID`). The server replays the later events of that stream.

    id: 5f3a-1.17        the 17th event kept, on the stream 5f3a-1

A server MUST NOT replay events of another stream [2025-11-25 basic/transports#resumability-and-redelivery]. Each
message is sent on one stream. A replay of the client's other streams would deliver their messages twice.

Resumption came with sessions in 2025-03-26. Since 2025-11-25, servers SHOULD give ids that identify the stream.
2026-07-28 has no resumption: a client repeats the request whose response broke [2026-07-28 changelog#major-changes].

Spec:  basic/transports#resumability-and-redelivery (2025-03-26 to 2025-11-25)
Above: session.py, session_table.py, server.py. Elsewhere: a store in a file (sqlite_store.py)
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

MAX_EVENTS = 1000
"""Maximum number of events that `MemoryEventStore` keeps of one session. The oldest are dropped first."""
MAX_BYTES = 64 * 1024 * 1024
"""Maximum total size of the events that `MemoryEventStore` keeps, in bytes (64 MiB). The oldest are dropped first."""
MAX_DROPPED_STREAMS = 1000
"""Maximum number of streams of one session for which `MemoryEventStore` remembers that events were dropped."""
MAX_AGE = 3600.0
"""Time that an event is kept, in seconds (one hour)."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a stream: its id, and its data (a message, or nothing if the event only gives an id)."""

    id: str
    data: bytes


class EventStore(Protocol):
    """The protocol of an event store. Its methods run on the event loop, so they must be quick.

    `session` and `stream` are names without ".". An event's id is `stream.number`. The numbers in a stream increase.
    """

    def append(self, session: str, stream: str, data: bytes) -> str:
        """Keep an event, and return its id."""

    def events_after(self, session: str, event_id: str) -> list[Event] | None:
        """Return the later events of the stream, in order, or None if the id is unknown or one of them was dropped."""

    def add_session(self, session: str, initialize: bytes, principal: str | None) -> None:
        """Keep a new session: its `initialize` message, and its principal."""

    def find_session(self, session: str) -> tuple[bytes, str | None] | None:
        """Return the session's `initialize` message and its principal, or None for an unknown session."""

    def delete_session(self, session: str) -> None:
        """Delete a session that has ended, with its events."""


def stream_of(event_id: str) -> str:
    """Return the name of the event's stream."""
    # [2025-11-25 basic/transports#resumability-and-redelivery] an event id SHOULD identify its stream
    return event_id.rpartition(".")[0]


def number_of(event_id: str) -> int | None:
    """Return the event's number, or None for an id that no store has given."""
    number = event_id.rpartition(".")[2]
    return int(number) if number.isascii() and number.isdigit() and len(number) <= 18 else None


@dataclass
class _SessionEvents:
    """The events of one session."""

    events: deque[tuple[float, str, int, bytes]] = field(default_factory=deque)  # time, stream, number, data
    dropped: dict[str, int] = field(default_factory=dict)  # stream -> highest number dropped; the newest entry is last
    size: int = 0


class MemoryEventStore(EventStore):
    """An event store that lasts as long as the process.

    Args:
        max_events: Maximum number of events of one session. Default: 1000.
        max_bytes: Maximum total size of all events, in bytes. Default: 64 MiB.
        max_age: Time that an event is kept, in seconds. Default: one hour.
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
        self._by_age: OrderedDict[str, _SessionEvents] = (
            OrderedDict()
        )  # sessions with events; that of the latest event is last
        self._number = self._size = 0  # of the latest event; of all events, in bytes

    def add_session(self, session: str, initialize: bytes, principal: str | None) -> None:
        self._sessions[session] = _SessionEvents()

    def find_session(self, session: str) -> tuple[bytes, str | None] | None:
        return None  # no session outlives the process

    def append(self, session: str, stream: str, data: bytes) -> str:
        kept = self._sessions[session]
        self._number += 1
        kept.events.append((self._clock(), stream, self._number, data))
        kept.size += len(data)
        self._size += len(data)
        self._by_age[session] = kept
        self._by_age.move_to_end(session)
        while len(kept.events) > self._max_events:
            self._drop_oldest(session, kept)
        self._drop_aged(session, kept)
        while self._size > self._max_bytes:
            self._drop_oldest(*next(iter(self._by_age.items())))
        return f"{stream}.{self._number}"

    def _drop_aged(self, session: str, kept: _SessionEvents) -> None:
        oldest = self._clock() - self._max_age
        while kept.events and kept.events[0][0] < oldest:
            self._drop_oldest(session, kept)

    def _drop_oldest(self, session: str, kept: _SessionEvents) -> None:
        _, stream, number, data = kept.events.popleft()
        kept.dropped.pop(stream, None)
        kept.dropped[stream] = number
        if len(kept.dropped) > MAX_DROPPED_STREAMS:
            del kept.dropped[next(iter(kept.dropped))]
        kept.size -= len(data)
        self._size -= len(data)
        if not kept.events:
            self._by_age.pop(session, None)

    def events_after(self, session: str, event_id: str) -> list[Event] | None:
        kept, number = self._sessions.get(session), number_of(event_id)
        if kept is None or number is None:
            return None
        self._drop_aged(session, kept)
        stream = stream_of(event_id)
        if kept.dropped.get(stream, 0) > number:
            return None  # the client would miss an event without noticing
        later = [(n, data) for _, other, n, data in kept.events if other == stream and n >= number]
        if kept.dropped.get(stream) == number:
            return [Event(f"{stream}.{n}", data) for n, data in later]
        is_known = bool(later) and later[0][0] == number
        return [Event(f"{stream}.{n}", data) for n, data in later[1:]] if is_known else None

    def delete_session(self, session: str) -> None:
        kept = self._sessions.pop(session, None)
        self._by_age.pop(session, None)
        if kept is not None:
            self._size -= kept.size
