"""An event store in an SQLite file: sessions and their streams outlive the process.

A new process that opens the same file can continue the sessions in it, even if the earlier process was killed. When a
client sends its next request, `SessionTable` handles the stored `initialize` message of the session again.

Spec:  basic/transports#resumability-and-redelivery (2025-03-26 to 2025-11-25)
Uses: event_store.py (the interface, and the store in memory)
"""

from __future__ import annotations

import sqlite3
import time

from .event_store import MAX_AGE, Event, EventStore, number_of, stream_of

MAX_SESSION_AGE = 7 * 24 * 3600.0
"""Time for which a later process can continue a session, in seconds (a week)."""
MAX_FILED_EVENTS = 10_000
"""Maximum number of events of one session in the file. The oldest are deleted first."""


class SqliteEventStore(EventStore):
    """An event store in a file, for one process at a time.

    Args:
        path: The SQLite file. The store creates a missing file.
        max_age: Minimum time for which an event is stored, in seconds. Default: one hour.
        max_session_age: Time for which a later process can continue a session, in seconds. Default: a week,
            counted from the beginning or the latest continuation.
        max_events: Maximum number of events of one session, checked at every hundredth event. Default: 10,000.

    Raises:
        sqlite3.Error: SQLite cannot open the file, or it is not an SQLite file.
    """

    def __init__(
        self,
        path: str,
        max_age: float = MAX_AGE,
        max_session_age: float = MAX_SESSION_AGE,
        max_events: int = MAX_FILED_EVENTS,
    ) -> None:
        self._database = sqlite3.connect(path, isolation_level=None)
        self._max_age, self._max_session_age, self._max_events = max_age, max_session_age, max_events
        # With write-ahead logging, each event is in a file before the server sends it, so SIGKILL loses no event.
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

    def add_session(self, session: str, initialize: bytes, principal: str | None) -> None:
        now = time.time()
        self._database.execute("DELETE FROM sessions WHERE time < ?", (now - self._max_session_age,))
        row = (session, initialize, principal, now)
        self._database.execute("INSERT OR REPLACE INTO sessions VALUES (?, ?, ?, ?)", row)

    def find_session(self, session: str) -> tuple[bytes, str | None] | None:
        now = time.time()
        query = "SELECT opening, principal FROM sessions WHERE session = ? AND time >= ?"
        row = self._database.execute(query, (session, now - self._max_session_age)).fetchone()
        if row is None:
            return None
        self._database.execute("UPDATE sessions SET time = ? WHERE session = ?", (now, session))
        return bytes(row[0]), row[1]

    def append(self, session: str, stream: str, data: bytes) -> str:
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

    def events_after(self, session: str, event_id: str) -> list[Event] | None:
        number, stream = number_of(event_id), stream_of(event_id)
        rows = self._database.execute(
            "SELECT number, data FROM events WHERE session = ? AND stream = ? AND number >= ? ORDER BY number",
            (session, stream, -1 if number is None else number),
        ).fetchall()
        if number is None or not rows or rows[0][0] != number:
            return None
        return [Event(f"{stream}.{n}", bytes(data)) for n, data in rows[1:]]

    def delete_session(self, session: str) -> None:
        self._database.execute("DELETE FROM sessions WHERE session = ?", (session,))
        self._database.execute("DELETE FROM events WHERE session = ?", (session,))

    def close(self) -> None:
        """Close the file."""
        self._database.close()
