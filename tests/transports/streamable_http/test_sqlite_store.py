"""The event store in an SQLite file: its content for the next process, its limits, its mode, and its faults."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from mcp_ref.transports.streamable_http import durable_store, session_table, sqlite_store
from mcp_ref.transports.streamable_http.durable_store import SessionChange
from mcp_ref.transports.streamable_http.event_store import EVENT_COST, Event, StoredSession
from mcp_ref.transports.streamable_http.sqlite_store import SqliteEventStore
from tests.raw_http_client import HoldingServer, RawSession, call, http_session
from tests.settings import PATIENCE, eventually


@pytest.fixture(autouse=True)
def short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable_store, "RETRY_SECONDS", 0.001)
    monkeypatch.setattr(session_table, "FLUSH_SECONDS", 0.05)
    monkeypatch.setattr(sqlite_store, "BUSY_SECONDS", 0.02)


@contextlib.asynccontextmanager
async def opened(path: Path, **limits: float) -> AsyncIterator[SqliteEventStore]:
    """Yield a store. Save its changes and close it at the end."""
    store = SqliteEventStore(str(path / "events.db"), **limits)  # type: ignore[arg-type]
    try:
        yield store
        await store.flush(5.0)
    finally:
        store.close()


async def continued(store: SqliteEventStore, session: str, principal: str | None = None) -> StoredSession | None:
    """Continue a session of an earlier process, and return what the file had of it."""
    found = await store.find_session(session, principal)
    if found is not None:
        store.restore_session(session, found)
    return found


async def test_file_has_sessions_and_events_for_the_next_process(tmp_path: Path) -> None:
    async with opened(tmp_path) as first:
        first.add_session("s", b'{"a":1}', "me")
        first.add_session("t", b"{}", None)
        ids = [first.append("s", "a", b"1"), first.append("s", "b", b"2"), first.append("s", "a", b"\xc3\xa9\n")]
        await first.flush(5.0)
        first.keep_requests("s", b"[1]")
        first.keep_requests("t", b"")
        await first.flush(5.0)
        async with opened(tmp_path) as second:  # beside the first, which has not closed: like after SIGKILL
            assert await continued(second, "s", "another") is None
            found = await continued(second, "s", "me")
            assert found is not None and (found.initialize, found.principal) == (b'{"a":1}', "me")
            assert found.kept == b"[1]"
            found = await continued(second, "t")
            assert found == StoredSession(b"{}", None, [])
            assert await second.find_session("u", None) is None
            assert second.events_after("s", ids[0]) == [Event(ids[2], b"\xc3\xa9\n")]
            assert second.events_after("s", ids[1]) == []
            third = second.append("s", "a", b"3")
            assert second.events_after("s", ids[2]) == [Event(third, b"3")] and third not in ids


async def test_file_never_gives_an_id_twice_even_if_nothing_was_saved(tmp_path: Path) -> None:
    ids = []
    async with opened(tmp_path) as store:
        store.add_session("s", b"{}", None)
    for _ in range(3):
        store = SqliteEventStore(str(tmp_path / "events.db"))
        await continued(store, "s")
        ids.append(store.append("s", "get", b"x"))
        store.close()  # before the event is saved
        with contextlib.suppress(asyncio.CancelledError):
            assert store._save_task is not None
            store._save_task.cancel()
            await store._save_task
    assert len(set(ids)) == 3


async def test_file_of_an_earlier_version_is_continued(tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / "events.db")
    database.executescript(
        """
        CREATE TABLE sessions (
            session TEXT PRIMARY KEY, opening BLOB NOT NULL, principal TEXT, time REAL NOT NULL
        );
        CREATE TABLE events (
            number INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT NOT NULL, stream TEXT NOT NULL,
            data BLOB NOT NULL, time REAL NOT NULL
        );
        CREATE INDEX events_of_stream ON events (session, stream, number);
        CREATE INDEX events_by_time ON events (time);
        INSERT INTO sessions VALUES ('s', CAST('{}' AS BLOB), NULL, 1e10);
        INSERT INTO events (session, stream, data, time) VALUES ('s', 'a', CAST('1' AS BLOB), 1e10);
        INSERT INTO events (session, stream, data, time) VALUES ('s', 'a', CAST('2' AS BLOB), 1e10);
        """
    )
    database.close()
    (tmp_path / "events.db").chmod(0o600)  # its user follows the advice of the error
    async with opened(tmp_path) as store:
        await continued(store, "s")
        assert store.events_after("s", "a.1") == [Event("a.2", b"2")]
        store.append("s", "a", b"3")


async def test_file_deletes_old_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("time.time", lambda: now)
    async with opened(tmp_path, max_age=60.0) as store:
        store.add_session("s", b"{}", None)
        old = [store.append("s", "a", b"1"), store.append("s", "a", b"2")]
    now += 61.0
    async with opened(tmp_path, max_age=60.0) as store:
        assert await continued(store, "s") == StoredSession(b"{}", None, [])
        new = store.append("s", "a", b"3")
        assert store.events_after("s", old[0]) is None
        assert store.events_after("s", new) == []


async def test_file_continues_a_session_for_some_time_from_its_latest_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr("time.time", lambda: now)
    async with opened(tmp_path, max_session_age=100.0) as store:
        store.add_session("s", b"hello", "alice")
    for _ in range(2):
        now += 99.0
        async with opened(tmp_path, max_session_age=100.0) as store:
            assert await continued(store, "s", "alice") == StoredSession(b"hello", "alice", [])
    now += 101.0
    async with opened(tmp_path, max_session_age=100.0) as store:
        assert await store.find_session("s", "alice") is None
    now = 1200.0
    async with opened(tmp_path) as store:  # it was deleted from the file, too
        assert await store.find_session("s", "alice") is None


def content(path: Path) -> tuple[int, int]:
    """Return the number and the total size of the events in the file."""
    with contextlib.closing(sqlite3.connect(path / "events.db")) as database:
        count, size = database.execute("SELECT COUNT(*), TOTAL(LENGTH(data)) FROM events").fetchone()
        return count, int(size)


async def test_file_has_no_more_events_and_bytes_than_the_memory(tmp_path: Path) -> None:
    size = 1000 + EVENT_COST
    async with opened(tmp_path, max_events=10, max_session_bytes=5 * size, max_bytes=12 * size) as store:
        for session in "stu":
            store.add_session(session, b"{}", None)
            for _ in range(50):
                store.append(session, "a", b"")
            await store.flush(5.0)
        assert content(tmp_path) == (30, 0)
        for session in "stu":
            for _ in range(20):
                store.append(session, "a", b"x" * 1000)
                await store.flush(5.0)
        assert content(tmp_path) == (12, 12_000)


async def test_file_deletes_the_oldest_events_of_earlier_processes_above_its_limit(tmp_path: Path) -> None:
    size = 1000 + EVENT_COST
    for session in "stu":
        async with opened(tmp_path, max_bytes=3 * size) as store:
            store.add_session(session, b"{}", None)
            for _ in range(2):
                store.append(session, "a", b"x" * 1000)
    async with opened(tmp_path, max_bytes=3 * size) as store:
        assert content(tmp_path) == (3, 3000)
        found = [await store.find_session(session, None) for session in "stu"]
        assert [len(each.events) for each in found if each is not None] == [0, 1, 2]


async def test_file_has_a_limited_number_of_sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_store, "MAX_STORED_SESSIONS", 2)
    now = 1000.0
    monkeypatch.setattr("time.time", lambda: now)
    async with opened(tmp_path) as store:
        for session in "stu":
            now += 1
            store.add_session(session, b"{}", None)
            store.append(session, "a", b"x")
            await store.flush(5.0)
    async with opened(tmp_path) as store:
        found = [await store.find_session(session, None) for session in "stu"]
        assert [each is not None for each in found] == [False, True, True]
    assert content(tmp_path) == (2, 2)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no modes of files")
async def test_file_is_readable_only_by_its_owner_from_its_first_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes = []
    connect = sqlite3.connect

    def spy(path: str, **options: object) -> sqlite3.Connection:
        modes.append(os.stat(path).st_mode & 0o777)
        return connect(path, **options)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(sqlite3, "connect", spy)
    before = os.umask(0)
    try:
        async with opened(tmp_path) as store:
            store.add_session("s", b"{}", None)
            await store.flush(5.0)
            files = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert modes == [0o600]
    assert files == {"events.db": 0o600, "events.db-wal": 0o600, "events.db-shm": 0o600}


def open_mode(path: Path) -> None:
    path.touch()
    path.chmod(0o666)


def link(path: Path) -> None:
    path.symlink_to("target")


@pytest.mark.attack("planted-store")
@pytest.mark.skipif(os.name == "nt", reason="Windows has no modes of files")
@pytest.mark.parametrize("ending", ["", "-wal", "-shm", "-journal", "-unsaved"])
@pytest.mark.parametrize(("plant", "why"), [(open_mode, "mode 666"), (link, "not a regular file")])
def test_file_of_a_store_that_another_user_planted_is_refused(
    tmp_path: Path, ending: str, plant: Callable[[Path], None], why: str
) -> None:
    plant(tmp_path / f"events.db{ending}")
    with pytest.raises(PermissionError, match=why) as caught:
        SqliteEventStore(str(tmp_path / "events.db"))
    assert f"events.db{ending}" in str(caught.value)
    assert not (tmp_path / "target").exists()


@pytest.mark.attack("planted-store")
@pytest.mark.skipif(os.name == "nt", reason="Windows has no modes of folders")
def test_file_of_a_store_in_a_folder_of_everybody_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    with pytest.raises(PermissionError, match="choose a folder of your own"):
        SqliteEventStore(str(tmp_path / "events.db"))
    assert not (tmp_path / "events.db").exists()


@pytest.mark.attack("planted-store")
@pytest.mark.skipif(os.name == "nt", reason="Windows has no owners of files")
def test_file_of_a_store_that_belongs_to_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    SqliteEventStore(str(tmp_path / "events.db")).close()
    monkeypatch.setattr(os, "geteuid", lambda: (tmp_path / "events.db").stat().st_uid + 1)
    with pytest.raises(PermissionError, match=r"events\.db belongs to another user"):
        SqliteEventStore(str(tmp_path / "events.db"))


# ------------------------------------------------------------------------------------------------ faults


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    with contextlib.closing(sqlite3.connect(path / "events.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        yield


def fill(store: SqliteEventStore) -> None:
    store._database.execute("PRAGMA max_page_count = 1")  # SQLite never goes below the present number of pages


@contextlib.contextmanager
def full(store: SqliteEventStore) -> Iterator[None]:
    fill(store)
    yield
    store._database.execute("PRAGMA max_page_count = 1000000")


@contextlib.contextmanager
def moved(path: Path) -> Iterator[None]:
    (path / "events.db").rename(path / "elsewhere.db")
    yield
    (path / "elsewhere.db").rename(path / "events.db")


@pytest.mark.parametrize("fault", ["locked", "full", "moved"])
async def test_file_gets_after_a_fault_all_that_happened_meanwhile(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, fault: str
) -> None:
    reason = {"locked": "database is locked", "full": "disk is full", "moved": "No such file"}[fault]
    async with opened(tmp_path) as store, http_session(HoldingServer().server, store=store) as talk:
        await store.flush(5.0)
        broken = {"locked": lambda: locked(tmp_path), "full": lambda: full(store)}
        with broken.get(fault, lambda: moved(tmp_path))():
            last = [await (await talk.post(call("count", to=20))).events() for _ in range(20)][-1]
            gone = RawSession(talk.web)
            await gone.handshake()
            assert (await gone.delete()).status == 204
            await eventually(lambda: reason in caplog.text)
        await store.flush(PATIENCE)
        assert not store.unsaved_sessions
        id = talk.id
    assert not (tmp_path / "events.db-unsaved").exists()
    async with opened(tmp_path) as store:
        assert id is not None and gone.id is not None
        assert await store.find_session(gone.id, None) is None
        assert await continued(store, id) is not None
        later = store.events_after(id, last[0]["id"])
        assert later is not None and [event.id for event in later] == [event["id"] for event in last[1:]]
    failures = caplog.text.count("has failed")
    assert caplog.text.count("works again") == failures
    assert failures == 1 or fault == "full"  # a full file may have room for a small change, before the next one fails


@pytest.mark.parametrize("fault", ["locked", "full"])
async def test_file_that_lacks_events_of_the_last_process_replays_none(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, fault: str
) -> None:
    first = SqliteEventStore(str(tmp_path / "events.db"))
    first.add_session("s", b"{}", None)
    saved = first.append("s", "get", b"1")
    await first.flush(5.0)
    with contextlib.ExitStack() as faults:
        if fault == "locked":
            faults.enter_context(locked(tmp_path))
        else:
            fill(first)
        first.append("s", "get", b"2" * 100_000)
        await eventually(lambda: "has failed" in caplog.text)
        await first.flush(0.01)
        first.close()
    async with opened(tmp_path) as store:
        assert await continued(store, "s") == StoredSession(b"{}", None, [])
        assert store.events_after("s", saved) is None
        saved = store.append("s", "get", b"3")
    async with opened(tmp_path) as store:
        assert await continued(store, "s") is not None
        assert store.events_after("s", saved) == []
    assert not (tmp_path / "events.db-unsaved").exists()


def test_file_lacks_events_until_all_sessions_of_failed_writes_are_saved(tmp_path: Path) -> None:
    bad = SessionChange("bad", initialize=b"{}", events=[(0.0, "get", 2**70, b"1")])  # too large for SQLite
    with contextlib.closing(SqliteEventStore(str(tmp_path / "events.db"))) as store:
        with pytest.raises(OverflowError):
            store.save([SessionChange("good", initialize=b"{}"), bad])
        store.save([SessionChange("good", initialize=b"{}")])
        assert (tmp_path / "events.db-unsaved").exists()
        store.save([SessionChange("bad", is_deleted=True)])
        assert not (tmp_path / "events.db-unsaved").exists()


async def test_file_that_was_replaced_is_an_error_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = SqliteEventStore(str(tmp_path / "events.db"))
    try:
        (tmp_path / "events.db").unlink()
        (tmp_path / "events.db").write_bytes(b"")
        store.add_session("s", b"{}", None)
        await eventually(lambda: "was replaced; restart the server" in caplog.text)
        await store.flush(0.0)
    finally:
        store.close()


async def test_sessions_of_a_damaged_file_are_unknown(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with opened(tmp_path) as store:
        store.add_session("s", b"{}", None)
    async with opened(tmp_path) as store:
        store._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        size = (tmp_path / "events.db").stat().st_size
        with open(tmp_path / "events.db", "r+b") as file:
            file.seek(4096)
            file.write(b"\xff" * (size - 4096))
        assert await store.find_session("s", None) is None
    assert "DatabaseError: database disk image is malformed" in caplog.text


def test_file_that_is_not_sqlite_is_an_error_and_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "events.db"
    path.write_bytes(b"a letter to my aunt " * 100)
    path.chmod(0o600)
    with pytest.raises(sqlite3.DatabaseError, match="not a database"):
        SqliteEventStore(str(path))
    assert path.read_bytes() == b"a letter to my aunt " * 100
    with pytest.raises(OSError, match="No such file"):
        SqliteEventStore(str(tmp_path / "missing" / "events.db"))


@pytest.mark.parametrize("table", ["events", "sessions", "invoices"])
def test_database_of_another_program_is_an_error_and_unchanged(tmp_path: Path, table: str) -> None:
    path = tmp_path / "events.db"
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute(f"CREATE TABLE {table} (amount REAL)")
    path.chmod(0o600)
    before = path.read_bytes()
    with pytest.raises(sqlite3.DatabaseError, match=f"the database of another program: it has the table '{table}'"):
        SqliteEventStore(str(path))
    assert path.read_bytes() == before


async def test_write_ahead_log_is_limited_while_another_program_reads(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_store, "MAX_LOG_BYTES", 200_000)
    async with opened(tmp_path) as store:
        store.add_session("s", b"{}", None)
        await store.flush(5.0)
        with contextlib.closing(sqlite3.connect(tmp_path / "events.db", isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT * FROM sessions").fetchall()
            while "end the program that reads" not in caplog.text:
                last = store.append("s", "a", b"x" * 10_000)
                await eventually(lambda: not (store._changed or store._saving) or "end the program" in caplog.text)
            assert (tmp_path / "events.db-wal").stat().st_size < 300_000
        await store.flush(5.0)
    async with opened(tmp_path) as store:
        assert await continued(store, "s") is not None
        assert store.events_after("s", last) == []
    assert "end the program that reads" in caplog.text


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="only the administrator can give a folder away")
@pytest.mark.attack("planted-store")
def test_store_in_a_folder_that_another_user_can_change_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "other" / "store"
    folder.mkdir(parents=True)
    for changed, mode, owner in ((folder, 0o770, 0), (folder, 0o700, 12345), (folder.parent, 0o755, 12345)):
        changed.chmod(mode)
        os.chown(changed, owner, owner)
        with pytest.raises(PermissionError, match="other users can create files"):
            SqliteEventStore(str(folder / "events.db"))
        changed.chmod(0o700)
        os.chown(changed, 0, 0)
    SqliteEventStore(str(folder / "events.db"))._database.close()
