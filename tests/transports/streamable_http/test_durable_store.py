"""Event stores whose sessions outlive the process: the saved changes, and a storage that fails or blocks."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from mcp_ref import Context, DurableEventStore, Proceed, ServedRequest, SessionChange, StoredSession
from mcp_ref.basic.access import Access
from mcp_ref.basic.lifecycle import OPERATING
from mcp_ref.jsonrpc.errors import ProtocolError
from mcp_ref.server import session as server_session
from mcp_ref.transports.streamable_http import durable_store, session_table, storage_thread
from mcp_ref.transports.streamable_http.event_store import EVENT_COST, Event, MemoryEventStore, StoreFailed
from tests.messages import initialize, request
from tests.raw_http_client import (
    HoldingServer,
    RawSession,
    call,
    call_result,
    http_session,
    log_message,
    served_over_http,
)
from tests.settings import TASK_FACTORIES, eventually


class Storage(DurableEventStore):
    """A store with its storage in a table, which can fail or block."""

    def __init__(self, process_number: int = 0, **limits: int) -> None:
        super().__init__(process_number, **limits)
        self.table: dict[str, StoredSession] = {}
        self.obstacle: Callable[[str], object] = lambda session: None
        """Called first in `save` and `load` with the id of a session."""
        self.saved = 0

    def save(self, changes: Sequence[SessionChange]) -> None:
        for change in changes:
            self.obstacle(change.session)
        for change in changes:
            before = self.table.pop(change.session, StoredSession(b"", None))
            if not change.is_deleted:
                initialize, principal = change.initialize, change.principal
                if initialize is None:
                    initialize, principal = before.initialize, before.principal
                kept = [event for event in before.events if event[2] >= change.first_number]
                self.table[change.session] = StoredSession(initialize, principal, [*kept, *change.events])
                self.saved += len(change.events)

    def load(self, session: str, principal: str | None) -> StoredSession | None:
        self.obstacle(session)
        stored = self.table.get(session)
        return stored if stored is not None and stored.principal == principal else None

    def data(self, session: str) -> list[bytes]:
        return [data for _, _, _, data in self.table[session].events]


@pytest.fixture(autouse=True)
def short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable_store, "RETRY_SECONDS", 0.001)
    monkeypatch.setattr(session_table, "FLUSH_SECONDS", 0.05)
    monkeypatch.setattr(server_session, "FINISH_SECONDS", 0.01)


@pytest.mark.parametrize("task_factory", TASK_FACTORIES)
async def test_store_saves_the_changes_after_a_flush_without_changes(task_factory: Any) -> None:
    asyncio.get_running_loop().set_task_factory(task_factory)
    store = Storage()
    await store.flush(5.0)
    store.add_session("s", b"{}", None)
    store.append("s", "a", b"x")
    await store.flush(5.0)
    assert store.data("s") == [b"x"]


def fail(session: str) -> None:
    raise OSError("the disk is full")


async def test_durable_store_saves_each_event_once_and_deletes_with_the_session() -> None:
    store = Storage()
    store.add_session("s", b"{}", "me")
    store.append("s", "a", b"1")
    await store.flush(5.0)
    assert (store.table["s"].initialize, store.table["s"].principal) == (b"{}", "me")
    latest = store.append("s", "a", b"2")
    await store.flush(5.0)
    assert store.data("s") == [b"1", b"2"] and store.saved == 2
    assert store.events_after("s", latest) == []
    store.delete_session("s")
    assert store.events_after("s", latest) is None
    await store.flush(5.0)
    assert not store.table


async def test_durable_store_deletes_from_the_storage_what_the_memory_drops() -> None:
    store = Storage(max_events=2)
    for session in "st":
        store.add_session(session, b"{}", None)
    for data in (b"1", b"2", b"3"):
        store.append("s", "a", data)
        await store.flush(5.0)
    assert store.data("s") == [b"2", b"3"]


async def test_durable_store_saves_after_a_failure_what_the_memory_still_has(caplog: pytest.LogCaptureFixture) -> None:
    store = Storage(max_events=3)
    store.add_session("s", b"{}", None)
    ids = [store.append("s", "a", b"1"), store.append("s", "a", b"2")]
    await store.flush(5.0)
    store.obstacle = fail
    ids += [store.append("s", "a", b"3")]
    await eventually(lambda: "the disk is full" in caplog.text)
    store.obstacle = lambda session: None
    await store.flush(5.0)
    assert store.data("s") == [b"1", b"2", b"3"]  # without a gap
    store.obstacle = fail
    ids += [store.append("s", "a", b"%d" % number) for number in range(4, 9)]
    assert store.events_after("s", ids[4]) == [Event(ids[n], b"%d" % (n + 1)) for n in (5, 6, 7)]
    await eventually(lambda: caplog.text.count("has failed") == 2)
    store.obstacle = lambda session: None
    await store.flush(5.0)
    assert store.data("s") == [b"6", b"7", b"8"]  # the events before the gap are gone too
    again = Storage(1)
    again.restore_session("s", store.table["s"])
    assert [again.events_after("s", id) is None for id in ids] == [True] * 5 + [False] * 3
    await again.flush(5.0)
    assert caplog.text.count("has failed") == caplog.text.count("works again") == 2  # not for each attempt


async def test_durable_store_saves_other_sessions_while_one_cannot_be_saved(caplog: pytest.LogCaptureFixture) -> None:
    store = Storage()

    def refuse(session: str) -> None:
        if session == "bad":
            raise SystemExit("no such principal")

    store.obstacle = refuse
    for session in ("a", "bad", *map(str, range(50))):
        store.add_session(session, b"{}", None)
    await eventually(lambda: len(store.table) == 51)
    store.delete_session("bad")
    store.obstacle = lambda session: None
    await store.flush(5.0)
    assert "no such principal" in caplog.text


@pytest.mark.parametrize("process_number", [0, 1], ids=["equal process numbers", "other process numbers"])
async def test_durable_store_uses_no_number_of_another_process_again(process_number: int) -> None:
    first, second = Storage(0), Storage(process_number)
    for store, session in ((first, "s"), (second, "t")):  # as many events in each of them
        store.add_session(session, b"{}", None)
        store.append(session, "get", b"1")
        await store.flush(5.0)
    lost = [first.append("s", "get", b"2"), first.append("s", "get", b"3")]  # sent, but not saved
    second.restore_session("s", first.table["s"])
    assert second.append("s", "get", b"4") not in lost
    assert all(second.events_after("s", id) is None for id in lost)
    await first.flush(5.0)
    await second.flush(5.0)


async def test_durable_store_never_returns_a_session_whose_deletion_is_not_saved_yet() -> None:
    store, gate = Storage(), threading.Event()
    store.add_session("s", b"{}", None)
    await store.flush(5.0)
    store.obstacle = lambda session: gate.wait(5.0)
    store.delete_session("s")
    finding = asyncio.create_task(store.find_session("s", None))
    await asyncio.sleep(0)
    gate.set()
    assert await finding is None
    await store.flush(5.0)
    assert await store.find_session("s", None) is None


async def test_durable_store_flush_ends_although_save_blocks(caplog: pytest.LogCaptureFixture) -> None:
    store, gate = Storage(), threading.Event()
    store.obstacle = lambda session: gate.wait(5.0)
    store.add_session("s", b"{}", None)
    try:
        await store.flush(0.01)
        assert not store.table
    finally:
        gate.set()
    store.append("s", "a", b"1")  # the next change saves the earlier ones too
    await store.flush(5.0)
    assert store.data("s") == [b"1"]
    assert "the changes of sessions (1) were not saved within 0.01 s" in caplog.text


async def test_durable_store_keeps_the_sessions_when_the_program_closes_the_server() -> None:
    held, store = HoldingServer(), Storage()
    async with served_over_http(held.server, store=store) as web:
        for _ in range(10):
            await RawSession(web).handshake()
        await held.server.close()
    assert len(store.table) == 10


@pytest.mark.parametrize("obstacle", ["fails", "blocks"])
async def test_sessions_work_and_the_server_ends_while_the_store_fails(
    caplog: pytest.LogCaptureFixture, obstacle: str
) -> None:
    held, store, gate = HoldingServer(), Storage(), threading.Event()
    store.obstacle = fail if obstacle == "fails" else lambda session: gate.wait(5.0)
    try:
        async with asyncio.timeout(5.0):
            async with http_session(held.server, store=store) as talk:
                events = await (await talk.post(call("count", to=2))).events()
                resumed = await talk.get(events[0]["id"])
                assert await resumed.messages() == [log_message(0), log_message(1), call_result("counted")]
                await talk.post(call("hold", name="x", say=True))
                await held.has_begun()
                other = RawSession(talk.web)
                await other.handshake()
                assert (await other.delete()).status == 204
                assert list(talk.web.site._endpoint.sessions) == [talk.id]
    finally:
        gate.set()
    assert held.ended  # the handler in flight was cancelled
    assert caplog.text.count("the store of sessions and events has failed") == 1


class Rubbish(Storage):
    """A store whose storage returns an object of a wrong type."""

    result: object = None

    def load(self, session: str, principal: str | None) -> StoredSession | None:
        super().load(session, principal)
        return self.result  # type: ignore[return-value]


@pytest.mark.parametrize("obstacle", ["fails", "blocks", "rubbish"])
async def test_session_that_the_store_cannot_load_is_503(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, obstacle: str
) -> None:
    if obstacle == "blocks":
        monkeypatch.setattr(durable_store, "LOAD_SECONDS", 0.02)
    store, gate = Rubbish(), threading.Event()
    store.obstacle = {"fails": fail, "blocks": lambda session: gate.wait(5.0)}.get(obstacle, lambda session: None)
    store.result = (b"{}", None)
    async with served_over_http(HoldingServer().server, store=store) as web:
        talk = RawSession(web, "earlier")
        try:
            for _ in range(3):
                reply = await talk.post(request("ping"))
                assert (reply.status, reply.headers["retry-after"]) == (503, "5")
                assert reply.why == "the server cannot read its stored sessions now; try again later"
        finally:
            gate.set()
        store.obstacle, store.result = lambda session: None, None
        monkeypatch.setattr(durable_store, "LOAD_SECONDS", 5.0)
        assert (await talk.post(request("ping"))).status == 404
        assert not web.site._endpoint.sessions and not store._sessions
    assert caplog.text.count("the store of sessions and events has failed") == 1


@pytest.mark.parametrize("turns", range(6))
async def test_restored_session_serves_other_requests_if_the_first_is_cancelled(turns: int) -> None:
    held, store = HoldingServer(), Storage()
    store.table["earlier"] = StoredSession(json.dumps(initialize()).encode(), None)
    async with served_over_http(held.server, store=store) as web:
        finding = asyncio.create_task(web.site._endpoint.table.find("earlier", Access()))
        while "earlier" not in web.site._endpoint.sessions:
            await asyncio.sleep(0)  # `eventually` would wait too long
        for _ in range(turns):
            await asyncio.sleep(0)
        finding.cancel()
        assert (await RawSession(web, "earlier").post(request("ping"))).status == 200
        served = web.site._endpoint.sessions["earlier"].served
        assert isinstance(served, server_session.ServerSession) and served.phase is OPERATING


async def test_session_that_is_deleted_while_another_request_loads_it_is_404() -> None:
    held, store, loads, gates = HoldingServer(), Storage(), list[str](), [threading.Event(), threading.Event()]
    store.table["earlier"] = StoredSession(json.dumps(initialize()).encode(), None)

    def block(session: str) -> None:
        loads.append(session)
        if len(loads) <= 2:
            gates[len(loads) - 1].wait(5.0)

    store.obstacle = block
    async with served_over_http(held.server, store=store) as web:
        sent = [await RawSession(web, "earlier").send(request("ping")) for _ in range(2)]
        replies = [asyncio.create_task(web.take(each)) for each in sent]  # either request can be the first to load
        await eventually(lambda: store._loads.total() == 2)  # neither has found the session in memory
        gates[0].set()
        (first,), (second,) = await asyncio.wait(replies, return_when=asyncio.FIRST_COMPLETED)
        assert first.result().status == 200
        assert (await RawSession(web, "earlier").delete()).status == 204
        gates[1].set()
        assert (await second).status == 404
        await store.flush(5.0)
        assert loads[:2] == ["earlier", "earlier"] and not store.table and not web.site._endpoint.sessions


@pytest.mark.parametrize("step", ["load", "handshake"])
async def test_session_that_is_restored_while_the_server_stops_is_503_and_stays_in_the_store(step: str) -> None:
    held, store, begun, gate = HoldingServer(), Storage(), threading.Event(), threading.Event()
    store.table["earlier"] = StoredSession(json.dumps(initialize()).encode(), None)

    def block(session: str) -> None:
        begun.set()
        gate.wait(5.0)

    @held.server.middleware
    async def wait(request: ServedRequest, context: Context, proceed: Proceed) -> object:
        begun.set()
        await asyncio.Event().wait()
        return await proceed(request)

    if step == "load":
        store.obstacle = block
    async with served_over_http(held.server, store=store) as web:
        sent = await RawSession(web, "earlier").send(request("ping"))
        await eventually(begun.is_set)
        await web.site.end_sessions()
        gate.set()
        refused = await web.take(sent)
        assert (refused.status, refused.why) == (503, "the server is shutting down")
        assert ("earlier" in web.site._endpoint.sessions) == (step == "handshake") and list(store.table) == ["earlier"]


async def test_restored_session_counts_toward_the_limits_of_bytes() -> None:
    events = [(0.0, "a", number, b"x" * 800) for number in range(1, 6)]
    size = 800 + EVENT_COST
    store = Storage(1, max_session_bytes=3 * size, max_bytes=5 * size)
    store._max_age = float("inf")
    for session in "st":
        store.restore_session(session, StoredSession(b"{}", None, events))
    store.restore_session("t", StoredSession(b"{}", None, events))
    assert [len(store._sessions[session].events) for session in "st"] == [2, 3]
    assert store._size == 5 * size
    await store.flush(5.0)


@pytest.mark.parametrize("wrong", ["events.db", object()])
async def test_store_of_another_type_is_a_type_error(wrong: MemoryEventStore) -> None:
    with pytest.raises(TypeError, match=r"the option store must have the type MemoryEventStore, not (str|object)"):
        async with served_over_http(HoldingServer().server, store=wrong):
            pass


async def test_find_session_names_the_failure_of_the_storage() -> None:
    store = Storage()
    store.obstacle = fail
    with pytest.raises(StoreFailed, match="OSError: the disk is full"):
        await store.find_session("s", None)


async def test_durable_store_limits_the_calls_that_wait_for_the_storage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage_thread, "MAX_WAITING_CALLS", 2)
    store, gate = Storage(), threading.Event()
    store.obstacle = lambda session: gate.wait(5.0)
    calls = [asyncio.create_task(store.find_session("s", None)) for _ in range(8)]
    await eventually(lambda: any(call.done() for call in calls))
    gate.set()
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert {str(result) for result in results} == {"None", "an earlier call has not ended"}


async def test_durable_store_forgets_sessions_that_began_and_ended_while_the_storage_failed() -> None:
    store, gate = Storage(), threading.Event()
    store.obstacle = lambda session: gate.wait(5.0)
    for number in range(1000):
        store.add_session(str(number), b"{}", None)
        await asyncio.sleep(0)
        store.delete_session(str(number))
    assert len(store._changed) <= 1
    gate.set()
    await store.flush(5.0)
    assert not store.table


async def test_durable_store_deletes_a_session_that_a_failed_save_has_written(caplog: pytest.LogCaptureFixture) -> None:
    class Partial(Storage):
        def save(self, changes: Sequence[SessionChange]) -> None:
            super().save(changes)
            if not any(change.is_deleted for change in changes):
                raise OSError("the connection broke before the database had confirmed the changes")

    store = Partial()
    store.add_session("s", b"{}", None)
    await eventually(lambda: "the connection broke" in caplog.text)
    store.delete_session("s")
    await store.flush(5.0)
    assert not store.table


async def test_session_whose_restoration_is_refused_for_now_is_404_and_stays_in_the_store() -> None:
    held, store, refusals = HoldingServer(), Storage(), [ProtocolError(-32603, "later")]
    store.table["earlier"] = StoredSession(json.dumps(initialize()).encode(), None)

    @held.server.middleware
    async def refuse_once(request: ServedRequest, context: Context, proceed: Proceed) -> object:
        if request.method == "initialize" and refusals:
            raise refusals.pop()
        return await proceed(request)

    async with served_over_http(held.server, store=store) as web:
        assert (await RawSession(web, "earlier").post(request("ping"))).status == 404
        await store.flush(5.0)
        assert list(store.table) == ["earlier"] and not web.site._endpoint.sessions
        assert (await RawSession(web, "earlier").post(request("ping"))).status == 200


@pytest.mark.parametrize("kept", [b"\xff", b"5", b'[["logging/setLevel"]]', b"[[[], {}]]", b"[" * 100_000])
async def test_session_whose_kept_requests_are_unreadable_ends(kept: bytes, caplog: pytest.LogCaptureFixture) -> None:
    store = Storage()
    store.table["earlier"] = StoredSession(json.dumps(initialize()).encode(), None, kept=kept)
    async with served_over_http(HoldingServer().server, store=store) as web:
        for _ in range(2):
            assert (await RawSession(web, "earlier").post(request("ping"))).status == 404
        assert not web.site._endpoint.sessions and not store._sessions
    assert caplog.text.count("a stored session could not be restored, so it has ended") == 1


@pytest.mark.parametrize("method", ["save", "load", "renew", "release"])
def test_durable_store_with_an_async_method_is_refused(method: str) -> None:
    async def call(*args: object) -> None: ...

    call.__name__ = method
    methods = {"save": lambda self, changes: None, "load": lambda self, session, principal: None, method: call}
    store: type[DurableEventStore] = type("Store", (DurableEventStore,), methods)
    with pytest.raises(TypeError, match=f"^{method} must be a plain `def`, because a thread calls it$"):
        store(process_number=1)
