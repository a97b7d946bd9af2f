"""An event store in an SQLite file: sessions and their streams outlive the process.

A new process that opens the same file can continue the sessions in it, even if the earlier process was killed. When a
client sends its next request, `SessionTable` handles the stored `initialize` message of the session again.

After a failed write, the empty file FILE-unsaved marks that events are missing, until later writes have saved them. A
process that finds this file when it starts deletes the stored events, because a replay would have a gap.

The file contains session ids and messages, so only its owner can read it. Its size has a bound: the events of live
sessions take at most `max_bytes`, those of earlier processes as much again, and each session has one `initialize`
message.

Threats:
    planted-store: Another user of the machine reads all sessions, or adds some, by creating the file, a log of it, or a
        link at its path before the server starts. The store uses a file only if it is regular, the server's own, closed
        to others, and in a folder where other users cannot create files.

Spec:  basic/transports#resumability-and-redelivery (2025-03-26 to 2025-11-25)
Uses: durable_store.py (the thread that calls `save` and `load`)
"""

from __future__ import annotations

import errno
import math
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, Unpack

from ...lib.fields import check_arguments
from ..system import SYSTEM
from .durable_store import NUMBERS_PER_PROCESS, DurableEventStore, SessionChange
from .event_store import EVENT_COST, StoredSession, StoreFailed, StoreLimits

MAX_SESSION_AGE: Final = 7 * 24 * 3600.0
"""Time for which a later process can continue a session, in seconds (a week)."""
MAX_STORED_SESSIONS: Final = 10_000
"""Maximum number of sessions of earlier processes in the file. Opening the file deletes older sessions."""
OPEN_SECONDS: Final = 5.0
"""Time for which `SqliteEventStore(...)` waits if another program has locked the file, in seconds."""
BUSY_SECONDS: Final = 0.5
"""Time for which the store's thread waits if another program has locked the file, in seconds; the loop never waits."""
MAX_LOG_BYTES: Final = 256 * 1024 * 1024
"""Maximum size of the file's write-ahead log, in bytes (256 MiB). The log grows while another program reads."""

_NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0)  # a link could lead to a file of another user's choice
_ENDINGS: Final = ("", "-wal", "-shm", "-journal", "-unsaved")
"""The endings of the names of all files that belong to a store."""


class SqliteEventStore(DurableEventStore):
    """An event store in a file, for one process at a time.

    Args:
        path: The SQLite file. The store creates a missing file.
        max_session_age: Time for which a later process can continue a session, in seconds. Default: a week,
            counted from the latest event.
        limits: The limits in `StoreLimits`.

    Raises:
        OSError: The file cannot be created, is a link, belongs to another user, can be read or changed by others, or is
            in a folder such as /tmp.
        sqlite3.Error: SQLite cannot open the file, or it is not a database, or another program has its tables there.
    """

    def __init__(
        self, path: str | os.PathLike[str], max_session_age: float = MAX_SESSION_AGE, **limits: Unpack[StoreLimits]
    ) -> None:
        check_arguments(SqliteEventStore.__init__, {"path": path, "max_session_age": max_session_age})
        super().__init__(process_number=0, **limits)  # below, `_prepare` reads the true number from the file
        self._path, self._max_session_age = os.path.abspath(path), max_session_age
        self._lock = threading.Lock()  # so that `close` waits for the thread
        self._unsaved_path = f"{self._path}-unsaved"
        self._unsaved: set[str] = set()  # the sessions of the failed writes
        _check_private(self._path)
        # SQLite would create the file with the mode 0644. Its logs have the mode of the file.
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT | _NO_LINK, 0o600)
        self._file = os.fstat(handle)
        os.close(handle)
        self._database = sqlite3.connect(
            self._path, timeout=OPEN_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            process_number = self._prepare(time.time())
            self._number = process_number * NUMBERS_PER_PROCESS  # its events have higher numbers than all earlier ones
            self._check_file()
            self._database.execute(f"PRAGMA busy_timeout = {int(BUSY_SECONDS * 1000)}")
        except BaseException:
            self._database.close()
            raise

    def _prepare(self, now: float) -> int:
        """Create the tables, delete old sessions and events, and return the number of this process (1 is the first)."""
        # SQLite's own tables have names that begin with "sqlite_", and all of ours have a column `session`.
        foreign_table = self._database.execute(
            "SELECT name FROM sqlite_master AS stored WHERE type = 'table' AND name NOT LIKE 'sqlite_%' "
            "AND 'session' NOT IN (SELECT name FROM pragma_table_info(stored.name))"
        ).fetchone()
        if foreign_table is not None:
            raise sqlite3.DatabaseError(
                f"the file is the database of another program: it has the table {foreign_table[0]!r:.100}"
            )
        # `opening` is the `initialize` message, and `kept` the requests that a later process must handle again.
        self._database.executescript(
            """
            PRAGMA journal_mode = WAL;
            PRAGMA synchronous = NORMAL;
            CREATE TABLE IF NOT EXISTS sessions (
                session TEXT PRIMARY KEY, opening BLOB NOT NULL, principal TEXT, time REAL NOT NULL,
                kept BLOB
            );
            CREATE TABLE IF NOT EXISTS events (
                number INTEGER PRIMARY KEY, session TEXT NOT NULL, stream TEXT NOT NULL, data BLOB NOT NULL,
                time REAL NOT NULL
            );
            DROP INDEX IF EXISTS events_of_stream;
            DROP INDEX IF EXISTS events_by_time;
            CREATE INDEX IF NOT EXISTS events_of_session ON events (session, number);
            """
        )
        with suppress(sqlite3.OperationalError):  # the column exists, as in all but old stores
            self._database.execute("ALTER TABLE sessions ADD COLUMN kept BLOB")
        lacks_events = os.path.exists(self._unsaved_path)
        process_number = int(self._database.execute("PRAGMA user_version").fetchone()[0]) + 1
        with self._database:
            run = self._database.execute
            run("BEGIN IMMEDIATE")
            run(f"PRAGMA user_version = {process_number}")
            run("DELETE FROM sessions WHERE time < ?", (now - self._max_session_age,))
            newest = "SELECT session FROM sessions ORDER BY time DESC LIMIT ?"
            run(f"DELETE FROM sessions WHERE session NOT IN ({newest})", (MAX_STORED_SESSIONS,))
            oldest = math.inf if lacks_events else now - self._max_age  # infinity deletes all events
            run("DELETE FROM events WHERE time < ?", (oldest,))
            run("DELETE FROM events WHERE session NOT IN (SELECT session FROM sessions)")
            # Keep the newest events, up to `max_bytes` in all. `size` is that of an event and all newer ones.
            sums = f"SELECT number, SUM(LENGTH(data) + {EVENT_COST}) OVER (ORDER BY number DESC) AS size FROM events"
            too_old = f"SELECT MAX(number) FROM ({sums}) WHERE size > ?"
            run(f"DELETE FROM events WHERE number <= ({too_old})", (self._max_bytes,))
        return process_number

    def save(self, changes: Sequence[SessionChange]) -> None:
        sessions = {change.session for change in changes}
        try:
            self._write(changes)
        except Exception:
            self._unsaved |= sessions
            with suppress(OSError):
                os.close(os.open(self._unsaved_path, os.O_CREAT | os.O_WRONLY | _NO_LINK, 0o600))
            raise
        self._unsaved -= sessions
        if not self._unsaved:
            with suppress(FileNotFoundError):
                os.unlink(self._unsaved_path)

    def _write(self, changes: Sequence[SessionChange]) -> None:
        self._check_file()
        now = time.time()
        with self._lock, self._database:
            run = self._database.execute
            run("BEGIN IMMEDIATE")
            for change in changes:
                if change.is_deleted:
                    run("DELETE FROM sessions WHERE session = ?", (change.session,))
                    run("DELETE FROM events WHERE session = ?", (change.session,))
                    continue
                if change.initialize is not None:
                    row = (change.session, change.initialize, change.principal, now)
                    run("INSERT OR REPLACE INTO sessions (session, opening, principal, time) VALUES (?, ?, ?, ?)", row)
                else:
                    run("UPDATE sessions SET time = ? WHERE session = ?", (now, change.session))
                if change.kept is not None:
                    run("UPDATE sessions SET kept = ? WHERE session = ?", (change.kept, change.session))
                run("DELETE FROM events WHERE session = ? AND number < ?", (change.session, change.first_number))
                self._database.executemany(
                    "INSERT OR REPLACE INTO events (session, time, stream, number, data) VALUES (?, ?, ?, ?, ?)",
                    ((change.session, *event) for event in change.events),  # in the order of `StoredEvent`
                )

    def _check_file(self) -> None:
        """Raise OSError if another file is at the path now, or if the write-ahead log is too large."""
        if not os.path.samestat(self._file, os.lstat(self._path)):
            raise OSError(f"{self._path} was replaced; restart the server to use the new file")
        log_path = f"{self._path}-wal"
        if os.path.exists(log_path) and os.path.getsize(log_path) > MAX_LOG_BYTES:
            self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            if os.path.getsize(log_path) > MAX_LOG_BYTES:
                advice = f"end the program that reads {self._path}"
                raise OSError(f"{log_path} has more than {MAX_LOG_BYTES} bytes; {advice}")

    def load(self, session: str, principal: str | None) -> StoredSession | None:
        oldest = time.time() - self._max_session_age
        sessions = "SELECT opening, principal, kept FROM sessions WHERE session = ? AND principal IS ? AND time >= ?"
        events = "SELECT time, stream, number, data FROM events WHERE session = ? ORDER BY number"
        with self._lock:
            row = self._database.execute(sessions, (session, principal, oldest)).fetchone()
            if row is None:
                return None
            found = self._database.execute(events, (session,)).fetchall()
        initialize, owner, kept = row
        return StoredSession(initialize, owner, found, kept=kept or b"")

    async def find_session(self, session: str, principal: str | None, caller: str = "") -> StoredSession | None:
        try:
            return await super().find_session(session, principal, caller)
        except StoreFailed as failure:
            error = failure.__cause__
            if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
                return None  # the file is damaged: with 404 instead of 503, the client begins a new session
            raise

    def close(self) -> None:
        """Close the file. End the server first, because the server saves its last changes when it ends."""
        with self._lock:
            self._database.close()


def _check_private(store: str) -> None:
    """Raise PermissionError if other users can read, change or plant a file of the store."""
    for ending in _ENDINGS:
        with suppress(FileNotFoundError):
            why = _exposure(os.path.basename(store + ending), os.lstat(store + ending))
            if why is not None:
                raise PermissionError(errno.EPERM, why, store)
    folder = os.path.dirname(store)
    # In a folder such as /tmp everybody can plant a log.
    is_world_writable = os.name != "nt" and os.stat(folder).st_mode & stat.S_IWOTH
    if is_world_writable or SYSTEM.is_shared(folder):
        why = f"other users can create files in {folder}; choose a folder of your own"
        raise PermissionError(errno.EPERM, why, store)


def _exposure(name: str, status: os.stat_result) -> str | None:
    """Return why a file is not private, or None. Windows protects the folders of a user, not the files."""
    if not stat.S_ISREG(status.st_mode):
        return f"{name} is not a regular file; give the path of a file, not of a link"
    if os.name != "nt" and status.st_uid != os.geteuid():
        return f"{name} belongs to another user; choose a path in a folder of your own"
    mode = stat.S_IMODE(status.st_mode)
    if os.name != "nt" and mode & 0o077:
        return f"other users may access {name} (mode {mode:o}); if you trust its content, run: chmod 600 {name}"
    return None
