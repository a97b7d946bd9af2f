"""Several processes with one storage of sessions: at most one of them serves a session at a time.

The processes are servers in one, and the storage is a dictionary with a lock of its own.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from mcp_ref import DurableEventStore, Server, SessionChange, SessionOwned, StoredSession
from mcp_ref.server.http_options import HttpOptions
from mcp_ref.transports.streamable_http import durable_store, leases
from mcp_ref.transports.streamable_http.durable_store import MAX_LOADS_PER_CALLER
from mcp_ref.transports.streamable_http.event_store import StoredEvent, StoreFailed
from tests.messages import initialize, notification, request
from tests.raw_http_client import RawSession, ServedApp, served_over_http
from tests.settings import PATIENCE, eventually

LEASE = 0.3


@dataclass
class Row:
    """One session in the storage."""

    initialize: bytes
    principal: str | None
    owner: str
    fence: int = 1
    lease_end: float = 0.0
    events: list[StoredEvent] = field(default_factory=list)


class Shared(DurableEventStore):
    """The store of one process. All stores have the same rows."""

    def __init__(self, name: str, rows: dict[str, Row], lease: float = LEASE) -> None:
        self.lease = self.lease_seconds = lease
        super().__init__(0)
        self.name, self.rows = name, rows
        self.is_away = False
        self.refused_loads = 0
        self.refused: list[SessionChange] = []
        """The changes that came after the lease was lost."""

    def check(self) -> None:
        if self.is_away:
            raise OSError("the storage is away")

    def save(self, changes: Sequence[SessionChange]) -> Collection[str]:
        self.check()
        lost = []
        for change in changes:
            if change.initialize is not None:
                self.rows.setdefault(change.session, Row(change.initialize, change.principal, self.name))
            row = self.rows.get(change.session)
            if row is None or row.owner != self.name:
                self.refused.append(change)
                lost.append(change.session)
            elif change.is_deleted:
                del self.rows[change.session]
            else:
                row.lease_end = time.monotonic() + self.lease
                row.events += change.events
        return lost

    def load(self, session: str, principal: str | None) -> StoredSession | None:
        self.check()
        row = self.rows.get(session)
        if row is None or row.principal != principal:
            return None
        if row.owner != self.name and row.lease_end > time.monotonic():
            self.refused_loads += 1
            raise SessionOwned
        row.owner, row.fence, row.lease_end = self.name, row.fence + 1, time.monotonic() + self.lease
        return StoredSession(row.initialize, row.principal, [*row.events])

    def renew(self, sessions: Sequence[str]) -> Collection[str]:
        self.check()
        lost = [each for each in sessions if each not in self.rows or self.rows[each].owner != self.name]
        for session in {*sessions} - {*lost}:
            self.rows[session].lease_end = time.monotonic() + self.lease
        return lost

    def release(self, sessions: Sequence[str]) -> None:
        self.check()
        for session in sessions:
            if session in self.rows and self.rows[session].owner == self.name:
                self.rows[session].lease_end = 0.0


@dataclass
class Node:
    """One process."""

    server: Server
    store: Shared
    web: ServedApp

    def talk(self, id: str | None = None) -> RawSession:
        """Return a client with the id of a session."""
        return RawSession(self.web, id)


@asynccontextmanager
async def node(name: str, rows: dict[str, Row], has_users: bool = False, lease: float = LEASE) -> AsyncIterator[Node]:
    """Serve as one process. With `has_users`, the header `Authorization` is the name of the principal."""
    store = Shared(name, rows, lease)
    server = Server("s", node=name)
    server.tool("name")(lambda: name)

    options: HttpOptions = {"store": store}
    if has_users:
        options["authenticate"] = lambda request: request.headers.get("authorization")
    async with served_over_http(server, **options) as web:
        yield Node(server, store, web)


async def begun(node: Node, authorization: str | None = None) -> str:
    """Begin a session, wait until it is in the storage, and return its id."""
    talk = node.talk()
    talk.authorization = authorization
    reply = await talk.post(initialize())
    talk.id = reply.headers["mcp-session-id"]
    assert (await talk.post(notification("notifications/initialized"))).status == 202
    await eventually(lambda: talk.id in node.store.rows and not node.store.unsaved_sessions)
    return talk.id


async def status_of(node: Node, id: str) -> int:
    """Return the status of a request in a session."""
    reply = await node.talk(id).post(request("tools/call", {"name": "name"}))
    if reply.status == 503:
        assert reply.headers["retry-after"] == "1" and "another process serves the session" in reply.why
    return reply.status


async def has_status(node: Node, id: str, status: int) -> None:
    """Wait for this status. On a busy machine, a process can lose a short lease until it has renewed it."""
    async with asyncio.timeout(PATIENCE):
        while await status_of(node, id) != status:
            await asyncio.sleep(0.02)


async def test_session_of_a_live_process_is_503_elsewhere_and_continues_there_after_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(durable_store, "HANDOVER_SECONDS", 0.0)
    rows: dict[str, Row] = {}
    async with node("b", rows, lease=3.0) as other:
        async with node("a", rows, lease=3.0) as owner:
            id = await begun(owner)
            first_end = rows[id].lease_end
            await eventually(lambda: rows[id].lease_end > first_end)  # the lease was renewed
            assert [await status_of(each, id) for each in (owner, other, owner)] == [200, 503, 200]
        assert await status_of(other, id) == 200  # at once, because the lease was given back
    assert (rows[id].owner, rows[id].fence) == ("b", 2)


async def test_request_waits_while_another_process_gives_the_session_back() -> None:
    rows: dict[str, Row] = {}
    async with node("a", rows, lease=20.0) as owner, node("b", rows, lease=20.0) as other:
        id = await begun(owner)
        waiting = asyncio.create_task(status_of(other, id))
        await eventually(lambda: other.store.refused_loads > 0)
        owner.store.release([id])  # as a process does at the end of its draining
        assert await waiting == 200
    assert rows[id].owner == "b"


async def test_process_that_drains_gives_a_session_back_before_it_refuses_a_request() -> None:
    rows: dict[str, Row] = {}
    async with node("a", rows, lease=20.0) as owner, node("b", rows, lease=20.0) as other:
        id = await begun(owner)
        stream = await owner.talk(id).get()
        other.store._note_elsewhere(id)  # so that the other process waits for no lease
        await owner.server.drain()
        reply = await owner.talk(id).post(request("ping"))
        assert (reply.status, reply.why) == (503, "the server is shutting down")
        assert await status_of(other, id) == 200
        await stream.events()  # it has ended, so the client opens another one, which reaches the other process
    assert (rows[id].owner, rows[id].fence) == ("b", 2)


async def test_process_that_drains_serves_a_session_until_none_of_its_requests_is_in_flight() -> None:
    rows: dict[str, Row] = {}
    async with node("a", rows, lease=20.0) as owner, node("b", rows, lease=20.0) as other:
        id, gate = await begun(owner), asyncio.Event()
        owner.server.tool("wait")(gate.wait)
        other.store._note_elsewhere(id)
        calling = asyncio.create_task(owner.talk(id).post(request("tools/call", {"name": "wait"}, id=9)))
        await eventually(lambda: owner.server.stats().legacy_in_flight)
        draining = asyncio.create_task(owner.server.drain(PATIENCE))
        await eventually(lambda: owner.web.site.is_draining)
        assert [await status_of(owner, id), await status_of(other, id)] == [200, 503]
        gate.set()
        assert (await calling).status == 200
        assert (await owner.talk(id).post(request("ping"))).status == 503
        assert await status_of(other, id) == 200
        await draining


async def test_process_that_begins_to_drain_during_a_load_gives_the_loaded_session_back() -> None:
    rows: dict[str, Row] = {}
    async with (
        node("a", rows, lease=20.0) as first,
        node("b", rows, lease=20.0) as second,
        node("c", rows, lease=20.0) as third,
    ):
        id = await begun(first)
        first.store.release([id])
        load, loading, gate = second.store.load, threading.Event(), threading.Event()

        def load_late(session: str, principal: str | None) -> StoredSession | None:
            loading.set()
            gate.wait(PATIENCE)
            return load(session, principal)

        second.store.load = load_late  # type: ignore[method-assign]  # a slow storage
        calling = [asyncio.create_task(second.talk(id).post(request("ping"))) for _ in range(2)]
        await asyncio.to_thread(loading.wait, PATIENCE)
        draining = asyncio.create_task(second.server.drain(PATIENCE))
        await eventually(lambda: second.web.site.is_draining)
        gate.set()
        assert [(reply.status, reply.why) for reply in await asyncio.gather(*calling)] == [
            (503, "the server is shutting down")
        ] * 2
        third.store._note_elsewhere(id)  # so that it waits for no lease
        assert await status_of(third, id) == 200
        await draining
    assert rows[id].owner == "c"


async def test_session_that_is_given_back_stays_in_the_storage_although_the_memory_drops_its_events_meanwhile() -> None:
    rows: dict[str, Row] = {}
    store, releasing, gate = Shared("a", rows, lease=20.0), threading.Event(), threading.Event()
    release, store._max_bytes = store.release, 3000
    for session in ("given back", "other"):
        store.add_session(session, b"{}", None)
        store.append(session, "s", b"1" * 500)
    await asyncio.wait([store._start_saving()])

    def release_late(sessions: Sequence[str]) -> None:
        releasing.set()
        gate.wait(PATIENCE)
        release(sessions)

    store.release = release_late  # type: ignore[method-assign]  # a slow storage
    given_back = store.give_back("given back")
    await asyncio.to_thread(releasing.wait, PATIENCE)
    for _ in range(10):
        store.append("other", "s", b"2" * 500)
    gate.set()
    await given_back.wait()
    await store.flush(PATIENCE)
    assert "given back" in rows and rows["given back"].lease_end == 0.0


async def test_session_that_is_given_back_and_lost_meanwhile_is_nothing_to_wait_for() -> None:
    rows: dict[str, Row] = {}
    store = Shared("a", rows, lease=20.0)
    store.add_session("s", b"{}", None)
    await asyncio.wait([store._start_saving()])
    await asyncio.wait_for(store.wait_stored("s"), 0.1)  # at once, because it is stored already
    store.is_away = True
    given_back = store.give_back("s")
    assert store.leases is not None
    store.leases.extend([], 0.0, ["s"])
    assert given_back.is_set()
    store.is_away = False
    await store.flush(PATIENCE)
    assert not store._to_give_back and "s" in rows


@pytest.mark.usefixtures("short_finish")
async def test_call_in_flight_of_a_session_that_another_process_takes_over_is_500_so_that_nobody_repeats_it() -> None:
    async with node("a", {}, lease=20.0) as owner:
        id = await begun(owner)
        owner.server.tool("wait")(asyncio.Event().wait)
        calling = asyncio.create_task(owner.talk(id).post(request("tools/call", {"name": "wait"}, id=9)))
        await eventually(lambda: owner.server.stats().legacy_in_flight)
        assert owner.store.leases is not None
        owner.store.leases.extend([], 0.0, [id])
        reply = await calling
        assert (reply.status, reply.why[:34]) == (500, "the server stopped serving the req")


async def test_request_for_a_session_that_has_moved_waits_only_once() -> None:
    rows: dict[str, Row] = {}
    async with node("a", rows, lease=20.0) as owner, node("b", rows, lease=20.0) as other:
        id = await begun(owner)
        assert await status_of(other, id) == 503
        refused = other.store.refused_loads
        assert refused > 1
        assert await status_of(other, id) == 503
        assert other.store.refused_loads == refused + 1


async def test_process_that_lost_the_storage_serves_no_session_until_it_has_renewed_the_lease() -> None:
    async with node("a", {}) as owner:
        id = await begun(owner)
        owner.store.is_away = True
        await has_status(owner, id, 503)
        owner.store.is_away = False
        await has_status(owner, id, 200)


async def test_store_whose_renew_returns_nothing_has_failed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with node("a", {}) as owner:
        monkeypatch.setattr(owner.store, "renew", lambda sessions: None)
        await begun(owner)
        await eventually(lambda: "renew returned None; it must return the lost sessions, such as ()" in caplog.text)


async def test_process_whose_session_was_taken_over_ends_its_copy_and_changes_nothing() -> None:
    rows: dict[str, Row] = {}
    async with node("a", rows) as paused, node("b", rows) as other:
        id = await begun(paused)
        stream = await paused.talk(id).get()
        while stream.status == 503:  # as in `has_status`
            stream = await paused.talk(id).get()
        paused.store.is_away = True
        await has_status(other, id, 200)
        assert await status_of(paused, id) == 503
        paused.store.is_away = False
        await stream.events()  # the stream ends, so its client opens another one, which reaches the other process
        await eventually(lambda: id not in paused.web.site._endpoint.sessions)
        await has_status(other, id, 200)
        assert await status_of(paused, id) == 503
    assert (rows[id].owner, rows[id].fence) == ("b", 2)
    assert not any(change.is_deleted for change in paused.store.refused)


@pytest.mark.attack("lease-of-another-caller")
async def test_thief_of_a_session_id_gets_404_from_every_process_and_takes_no_lease() -> None:
    rows: dict[str, Row] = {}
    async with node("a", rows, has_users=True) as owner, node("b", rows, has_users=True) as other:
        id = await begun(owner, "ada")
        owner.store.is_away = True
        for lease_has_ended in (False, True):
            if lease_has_ended:
                rows[id].lease_end = 0.0
                while owner.store.leases is not None and owner.store.leases.has(id):
                    await asyncio.sleep(0.02)
            for each in (owner, other):
                thief = each.talk(id)
                thief.authorization = "eve"
                assert (await thief.post(request("ping"))).status == 404
                assert (await thief.delete()).status == 404
        assert (rows[id].owner, rows[id].fence) == ("a", 1)
        owner.store.is_away = False
        user = owner.talk(id)
        user.authorization = "ada"
        while (await user.post(request("ping"))).status == 503:
            await asyncio.sleep(0.02)
        assert (await user.post(request("ping"))).status == 200


@pytest.mark.attack("load-flood")
async def test_caller_has_few_loads_at_a_time_and_renewing_and_saving_go_before_them() -> None:
    calls, gate, is_loading = list[str](), threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    class Slow(Shared):
        def load(self, session: str, principal: str | None) -> None:
            calls.append(session)
            loop.call_soon_threadsafe(is_loading.set)
            gate.wait(PATIENCE)

        def renew(self, sessions: Sequence[str]) -> Collection[str]:
            calls.append("renew")
            return ()

        def save(self, changes: Sequence[SessionChange]) -> Collection[str]:
            calls.append("save")
            return ()

    store = Slow("a", {}, lease=20.0)  # so that it renews no lease by itself
    loads = [asyncio.create_task(store.find_session(str(each), None, "eve")) for each in range(MAX_LOADS_PER_CALLER)]
    await is_loading.wait()
    with pytest.raises(StoreFailed):
        await store.find_session("one more", None, "eve")
    loads.append(asyncio.create_task(store.find_session("of another", None, "ada")))
    renewing = asyncio.create_task(store._renew_leases(["s"]))
    await asyncio.sleep(0)
    store.add_session("s", b"{}", None)
    await asyncio.sleep(0)
    gate.set()
    assert await asyncio.gather(*loads, renewing) == [*[None] * len(loads), ()]
    await store.flush(PATIENCE)
    assert calls.index("renew") < 3 and calls.index("save") < 3 and calls[-1] == "of another"
    assert not store._loads


async def test_lease_has_ended_after_a_suspend_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set only the boot clock forward: the monotonic clock stands still during a suspend."""
    if leases._CLOCK is None:
        pytest.skip("only Linux has this clock")

    async def renew(sessions: Sequence[str]) -> Collection[str]:
        return ()

    held = leases.Leases(30.0, renew, lambda session: None)
    held.begin("s", leases.now() + 30.0)
    assert held.has("s")
    later = SimpleNamespace(monotonic=time.monotonic, clock_gettime=lambda id: time.clock_gettime(id) + 60)
    monkeypatch.setattr(leases, "time", later)
    assert not held.has("s")
    assert held.end_all() == ["s"]


async def test_session_is_in_the_storage_before_its_client_has_the_response_to_initialize() -> None:
    rows: dict[str, Row] = {}
    async with node("b", rows) as other, node("a", rows) as owner:
        save = owner.store.save

        def save_late(changes: Sequence[SessionChange]) -> Collection[str]:
            time.sleep(0.05)
            return save(changes)

        owner.store.save = save_late  # type: ignore[method-assign]  # a slow storage
        id = (await owner.talk().post(initialize())).headers["mcp-session-id"]
        owner.store.is_away = True  # as if the process were killed now
        rows[id].lease_end = 0.0
        assert await status_of(other, id) == 200


async def test_new_session_is_served_although_the_storage_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable_store, "BEGIN_SECONDS", 0.05)
    async with node("a", {}) as owner:
        owner.store.is_away = True
        talk = owner.talk()
        talk.id = (await talk.post(initialize())).headers["mcp-session-id"]
        await talk.post(notification("notifications/initialized"))
        await asyncio.sleep(1.5 * LEASE)
        assert await status_of(owner, talk.id) == 200
        owner.store.is_away = False


async def test_delete_in_the_new_process_ends_a_session_everywhere() -> None:
    rows: dict[str, Row] = {}
    async with node("b", rows, lease=20.0) as other:
        async with node("a", rows, lease=20.0) as owner:
            id = await begun(owner)
        assert (await other.talk(id).delete()).status == 204
        assert other.store.leases is not None and not other.store.leases.has(id)
        await eventually(lambda: id not in rows)
        assert (await other.talk(id).post(request("ping"))).status == 404


@pytest.mark.spec("2025-11-25/basic/transports#resumability-and-redelivery-4")
async def test_events_of_a_process_are_resumed_in_another_and_later_numbers_are_higher() -> None:
    rows: dict[str, Row] = {}
    async with node("b", rows, lease=20.0) as other:
        other.store._number = 0
        async with node("a", rows, lease=20.0) as owner:
            owner.store._number = 1000
            id = await begun(owner)
            talk = owner.talk(id)
            talk.accept = "text/event-stream"
            reply = await talk.post(request("tools/call", {"name": "name"}))
            first = await reply.event()
            assert first is not None
            last = first["id"]
            assert [each["data"] for each in await reply.events()]
            await eventually(lambda: not owner.store.unsaved_sessions)
        resumed = await other.talk(id).get(last)
        (event,) = await resumed.events()
        assert '"a"' in event["data"]
        assert other.store._number > int(event["id"].rpartition(".")[2])
