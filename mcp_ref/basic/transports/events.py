"""What a stream has carried, kept for a client that lost the connection and comes back for the rest.

Every event of a session's streams gets an id that names its stream and its place in it. A client that reconnects with
the last id it saw (`Last-Event-ID`) is given what came after it, on that stream only.

Spec:  basic/transports#resumability-and-redelivery (2025-03-26 to 2025-11-25)
Above: streamable_http.py. The store is asked from the event loop: its methods are quick and never wait for a peer.
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

MAX_EVENTS = 1000
"""Events that the memory store keeps of one session; the oldest go first."""

MAX_BYTES = 64 * 1024 * 1024
"""Bytes of data that the memory store keeps in all; the oldest sessions' events go first (64 MiB)."""

MAX_STREAMS = 1000
"""Streams of one session of which the memory store knows that they have lost events; the oldest are forgotten first."""

MAX_AGE = 3600.0
"""Seconds that an event is kept."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a stream: its id, and its data (a message; empty for the event that only carries an id)."""

    id: str
    data: bytes


class EventStore(Protocol):
    """Keeps events. `session` and `stream` are names without "."; an id is `stream.number`, growing in each stream."""

    def append(self, session: str, stream: str, data: bytes) -> str:
        """Keep an event, and give its id."""

    def after(self, session: str, event_id: str) -> list[Event] | None:
        """The events of the same stream after this one, in order; None where the id is unknown or no longer kept."""

    def open(self, session: str, opening: bytes, principal: str | None) -> None:
        """Note a session: the `initialize` message that opened it, and whose it is."""

    def opening(self, session: str) -> tuple[bytes, str | None] | None:
        """What `open` was told about a session that was not forgotten; None where there is none."""

    def forget(self, session: str) -> None:
        """The session has ended."""


def stream_of(event_id: str) -> str:
    """The stream that an event id names."""
    # [2025-11-25 basic/transports#resumability-and-redelivery] ids encode what identifies the originating stream
    return event_id.rpartition(".")[0]


# ------------------------------------------------------------------------------------------------ in memory


@dataclass
class _Kept:
    """What is kept of one session."""

    events: deque[tuple[float, str, int, bytes]] = field(default_factory=deque)  # time, stream, number, data
    evicted: dict[str, int] = field(default_factory=dict)  # stream -> the highest number that is gone; newest last
    size: int = 0


class MemoryEventStore:
    """Keeps events until the process ends, within `max_events` a session, `max_bytes` in all, `max_age` seconds."""

    def __init__(
        self,
        max_events: int = MAX_EVENTS,
        max_bytes: int = MAX_BYTES,
        max_age: float = MAX_AGE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_events, self._max_bytes, self._max_age, self._clock = max_events, max_bytes, max_age, clock
        self._sessions: OrderedDict[str, _Kept] = OrderedDict()  # the one with the newest event last
        self._number = 0
        self._size = 0

    def open(self, session: str, opening: bytes, principal: str | None) -> None:
        """See EventStore."""
        self._sessions[session] = _Kept()

    def opening(self, session: str) -> tuple[bytes, str | None] | None:
        """Always None: what this store knows ends with the sessions' own process."""
        return None

    def append(self, session: str, stream: str, data: bytes) -> str:
        """See EventStore."""
        kept = self._sessions[session]
        now = self._clock()
        self._number += 1
        kept.events.append((now, stream, self._number, data))
        kept.size += len(data)
        self._size += len(data)
        self._sessions.move_to_end(session)
        while kept.events and (len(kept.events) > self._max_events or kept.events[0][0] < now - self._max_age):
            self._drop_oldest(kept)
        while self._size > self._max_bytes:
            self._drop_oldest(next(other for other in self._sessions.values() if other.events))
        return f"{stream}.{self._number}"

    def _drop_oldest(self, kept: _Kept) -> None:
        _, stream, number, data = kept.events.popleft()
        kept.evicted.pop(stream, None)
        kept.evicted[stream] = number
        if len(kept.evicted) > MAX_STREAMS:
            del kept.evicted[next(iter(kept.evicted))]
        kept.size -= len(data)
        self._size -= len(data)

    def after(self, session: str, event_id: str) -> list[Event] | None:
        """See EventStore."""
        kept = self._sessions.get(session)
        number = _number_of(event_id)
        if kept is None or number is None:
            return None
        stream = stream_of(event_id)
        if kept.evicted.get(stream, 0) > number:
            return None  # something that the client has not seen is gone
        known = kept.evicted.get(stream) == number
        events = []
        for _, other, n, data in kept.events:
            if other == stream and n > number:
                events.append(Event(f"{stream}.{n}", data))
            known = known or (other == stream and n == number)
        return events if known else None

    def forget(self, session: str) -> None:
        """See EventStore."""
        kept = self._sessions.pop(session, None)
        if kept is not None:
            self._size -= kept.size


def _number_of(event_id: str) -> int | None:
    number = event_id.rpartition(".")[2]
    return int(number) if number.isascii() and number.isdigit() and len(number) <= 18 else None


# ------------------------------------------------------------------------------------------------ in a file


class SqliteEventStore:
    """Keeps events and sessions in an SQLite file, so that they outlive the process. `max_age` in seconds."""

    def __init__(self, path: str, max_age: float = MAX_AGE) -> None:
        import sqlite3

        self._database = sqlite3.connect(path, isolation_level=None)
        self._max_age = max_age
        # Write-ahead logging: an event is with the operating system before it is sent, and SIGKILL loses none.
        self._database.executescript(
            """
            PRAGMA journal_mode = WAL;
            PRAGMA synchronous = NORMAL;
            CREATE TABLE IF NOT EXISTS sessions (session TEXT PRIMARY KEY, opening BLOB NOT NULL, principal TEXT);
            CREATE TABLE IF NOT EXISTS events (
                number INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT NOT NULL, stream TEXT NOT NULL,
                data BLOB NOT NULL, time REAL NOT NULL
            );
            CREATE INDEX IF NOT EXISTS events_of_stream ON events (session, stream, number);
            CREATE INDEX IF NOT EXISTS events_by_time ON events (time);
            """
        )
        self._written = 0

    def open(self, session: str, opening: bytes, principal: str | None) -> None:
        """See EventStore."""
        row = (session, opening, principal)
        self._database.execute("INSERT OR REPLACE INTO sessions VALUES (?, ?, ?)", row)

    def opening(self, session: str) -> tuple[bytes, str | None] | None:
        """See EventStore."""
        found = "SELECT opening, principal FROM sessions WHERE session = ?"
        row = self._database.execute(found, (session,)).fetchone()
        return (bytes(row[0]), row[1]) if row else None

    def append(self, session: str, stream: str, data: bytes) -> str:
        """See EventStore."""
        now = time.time()
        self._written += 1
        if self._written % 1000 == 1:
            self._database.execute("DELETE FROM events WHERE time < ?", (now - self._max_age,))
        row = "INSERT INTO events (session, stream, data, time) VALUES (?, ?, ?, ?)"
        return f"{stream}.{self._database.execute(row, (session, stream, data, now)).lastrowid}"

    def after(self, session: str, event_id: str) -> list[Event] | None:
        """See EventStore."""
        number, stream = _number_of(event_id), stream_of(event_id)
        rows = self._database.execute(
            "SELECT number, data FROM events WHERE session = ? AND stream = ? AND number >= ? ORDER BY number",
            (session, stream, -1 if number is None else number),
        ).fetchall()
        if number is None or not rows or rows[0][0] != number:
            return None
        return [Event(f"{stream}.{n}", bytes(data)) for n, data in rows[1:]]

    def forget(self, session: str) -> None:
        """See EventStore."""
        self._database.execute("DELETE FROM sessions WHERE session = ?", (session,))
        self._database.execute("DELETE FROM events WHERE session = ?", (session,))

    def close(self) -> None:
        """Close the file."""
        self._database.close()
