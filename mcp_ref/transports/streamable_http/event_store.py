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

MAX_SESSION_AGE = 7 * 24 * 3600.0
"""Seconds that a session in a file can be taken up by a later process (a week)."""

MAX_FILED_EVENTS = 10_000
"""Events that a file keeps of one session."""


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
        self._sessions: dict[str, _Kept] = {}
        self._by_age: OrderedDict[str, _Kept] = OrderedDict()  # those with events, the one with the newest last
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
        self._by_age[session] = kept
        self._by_age.move_to_end(session)
        while len(kept.events) > self._max_events:
            self._drop_oldest(session, kept)
        self._drop_aged(session, kept)
        while self._size > self._max_bytes:
            self._drop_oldest(*next(iter(self._by_age.items())))
        return f"{stream}.{self._number}"

    def _drop_aged(self, session: str, kept: _Kept) -> None:
        oldest = self._clock() - self._max_age
        while kept.events and kept.events[0][0] < oldest:
            self._drop_oldest(session, kept)

    def _drop_oldest(self, session: str, kept: _Kept) -> None:
        _, stream, number, data = kept.events.popleft()
        kept.evicted.pop(stream, None)
        kept.evicted[stream] = number
        if len(kept.evicted) > MAX_STREAMS:
            del kept.evicted[next(iter(kept.evicted))]
        kept.size -= len(data)
        self._size -= len(data)
        if not kept.events:
            self._by_age.pop(session, None)

    def after(self, session: str, event_id: str) -> list[Event] | None:
        """See EventStore."""
        kept = self._sessions.get(session)
        number = _number_of(event_id)
        if kept is None or number is None:
            return None
        self._drop_aged(session, kept)
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
        self._by_age.pop(session, None)
        if kept is not None:
            self._size -= kept.size


def _number_of(event_id: str) -> int | None:
    number = event_id.rpartition(".")[2]
    return int(number) if number.isascii() and number.isdigit() and len(number) <= 18 else None


# ------------------------------------------------------------------------------------------------ in a file


class SqliteEventStore:
    """Keeps events and sessions in an SQLite file, so that they outlive the process.

    max_age, max_session_age: seconds that an event is kept, and that a session can be taken up by a later process,
    counted from when it began or was last taken up. max_events: of one session; the oldest go first, now and then.
    """

    def __init__(
        self,
        path: str,
        max_age: float = MAX_AGE,
        max_session_age: float = MAX_SESSION_AGE,
        max_events: int = MAX_FILED_EVENTS,
    ) -> None:
        import sqlite3

        self._database = sqlite3.connect(path, isolation_level=None)
        self._max_age, self._max_session_age, self._max_events = max_age, max_session_age, max_events
        # Write-ahead logging: an event is with the operating system before it is sent, and SIGKILL loses none.
        self._database.executescript(
            """
            PRAGMA journal_mode = WAL;
            PRAGMA synchronous = NORMAL;
            CREATE TABLE IF NOT EXISTS sessions (
                session TEXT PRIMARY KEY, opening BLOB NOT NULL, principal TEXT, time REAL NOT NULL
            );
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
        now = time.time()
        self._database.execute("DELETE FROM sessions WHERE time < ?", (now - self._max_session_age,))
        row = (session, opening, principal, now)
        self._database.execute("INSERT OR REPLACE INTO sessions VALUES (?, ?, ?, ?)", row)

    def opening(self, session: str) -> tuple[bytes, str | None] | None:
        """See EventStore."""
        now = time.time()
        found = "SELECT opening, principal FROM sessions WHERE session = ? AND time >= ?"
        row = self._database.execute(found, (session, now - self._max_session_age)).fetchone()
        if row is None:
            return None
        self._database.execute("UPDATE sessions SET time = ? WHERE session = ?", (now, session))
        return bytes(row[0]), row[1]

    def append(self, session: str, stream: str, data: bytes) -> str:
        """See EventStore."""
        now = time.time()
        self._written += 1
        if self._written % 1000 == 1:
            self._database.execute("DELETE FROM events WHERE time < ?", (now - self._max_age,))
        if self._written % 100 == 0:
            last = "SELECT number FROM events WHERE session = ? ORDER BY number DESC LIMIT 1 OFFSET ?"
            drop = f"DELETE FROM events WHERE session = ? AND number <= ({last})"
            self._database.execute(drop, (session, session, self._max_events))
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
