"""Tasks in a database that two processes share. Here both are servers in one process, with a database in memory."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import time
from collections.abc import AsyncIterator, Collection, Coroutine, Sequence
from typing import Any
from unittest.mock import MagicMock

import pytest

from mcp_ref import AsyncTaskStore, OwnedTask, ProtocolError, Server
from mcp_ref.extensions.tasks import shared_tasks
from mcp_ref.extensions.tasks.shared_tasks import LOST, SharedTasks
from mcp_ref.extensions.tasks.store import MemoryTaskStore
from mcp_ref.extensions.tasks.types import Task, new_task
from mcp_ref.jsonrpc.messages import INTERNAL_ERROR, JSON, Object
from mcp_ref.lib.http.message import HttpRequest
from mcp_ref.server.announcements import Announcers
from tests.extensions.tasks.test_receiver import EXTENDED, Peer, Work, accept, at_work, text_in
from tests.messages import Received, request, result_of
from tests.raw_http_client import RawSession, served_over_http
from tests.raw_peers import raw_client
from tests.server.test_broadcast import Hub
from tests.settings import PATIENCE, eventually


class Database:
    """The tables that the stores of all processes share."""

    def __init__(self) -> None:
        self.tasks: dict[str, OwnedTask] = {}
        self.leases: dict[str, Store] = {}
        self.responses: dict[str, dict[str, Object]] = {}
        self.is_away = False
        self.max_tasks = 100

    def status(self, id: JSON) -> str:
        """Return the stored status of a task."""
        return self.tasks[str(id)].task.status


class Store(AsyncTaskStore):
    """The store of one process. A lease lasts until a test takes it."""

    lease_seconds = 0.03  # to renew it every 10 ms

    def __init__(self, database: Database) -> None:
        self._database, self.is_closed, self.is_paused = database, False, False

    def _check(self) -> None:
        if self._database.is_away:
            raise ConnectionError("the database is away")

    async def put(self, stored: OwnedTask) -> bool:
        self._check()
        known = self._database.tasks.get(stored.task.task_id)
        if known is not None and known.task.is_over:
            return False
        if known is None and len(self._database.tasks) >= self._database.max_tasks:
            raise ProtocolError(INTERNAL_ERROR, "you have too many tasks")
        self._database.tasks[stored.task.task_id] = stored
        self._database.leases[stored.task.task_id] = self
        return True

    async def get(self, id: str) -> OwnedTask | None:
        self._check()
        stored = self._database.tasks.get(id)
        return dataclasses.replace(stored, has_lease=id in self._database.leases) if stored is not None else None

    async def page(self, owner: str, cursor: str | None) -> tuple[list[OwnedTask], str | None]:
        ids = [id for id, stored in self._database.tasks.items() if stored.owner == owner]
        found = [await self.get(id) for id in ids]
        return [stored for stored in found if stored is not None], None

    async def remove(self, id: str) -> None:
        self._check()
        self._database.tasks.pop(id, None)

    async def renew(self, ids: Sequence[str]) -> Collection[str]:
        self._check()
        if self.is_paused:
            return ()
        running = {id for id in ids if id in self._database.tasks and not self._database.tasks[id].task.is_over}
        self._database.leases.update(dict.fromkeys(running, self))
        return {*ids} - running

    async def add_responses(self, id: str, responses: dict[str, Object]) -> None:
        self._check()
        self._database.responses.setdefault(id, {}).update(responses)

    async def take_responses(self, id: str) -> dict[str, Object]:
        return self._database.responses.pop(id, {})

    async def close(self) -> None:
        self.is_closed = True


class Pair:
    """Two processes of one server: the first one runs the tasks, and the second one gets the requests about them."""

    def __init__(self, database: Database, works: Sequence[Work], peers: Sequence[Peer], stores: Sequence[Store]):
        self.database = database
        self.work, self.other_work = works
        self.first, self.second = peers
        self.store, self.other_store = stores


@contextlib.asynccontextmanager
async def pair(has_broadcast: bool = True) -> AsyncIterator[Pair]:
    """Run two processes."""
    database, hub = Database(), Hub()
    stores = [Store(database), Store(database)]
    channels = [hub.channel() if has_broadcast else None for _ in stores]
    works = [at_work(task_store=store, broadcast=channel) for store, channel in zip(stores, channels, strict=True)]
    async with contextlib.AsyncExitStack() as stack:
        wires = [await stack.enter_async_context(raw_client(work.server, "memory")) for work in works]
        if has_broadcast:
            await hub.wait_for(lambda: hub.listening == 2)
        yield Pair(database, works, [Peer(wire, EXTENDED) for wire in wires], stores)
    assert stores[0].is_closed


BROADCAST = pytest.mark.parametrize("has_broadcast", [True, False], ids=["broadcast", "without broadcast"])


async def test_tasks_get_in_another_process_returns_the_state_and_the_result() -> None:
    async with pair() as both:
        id = (await both.first.start("wait", {"say": "soon"}))["taskId"]
        assert await both.work.has(both.work.begun) == "wait"
        assert (await both.second.get(id))["status"] == "working"  # at once: the client has the id
        both.work.go.set()
        assert text_in((await both.second.until(id, "completed"))["result"]) == "done"
        assert text_in((await both.first.until(id, "completed"))["result"]) == "done"
        assert (await both.second.refused("tasks/get", {"taskId": "x"}))[0] == -32602


@BROADCAST
async def test_tasks_cancel_in_another_process_stops_the_handler(has_broadcast: bool) -> None:
    async with pair(has_broadcast) as both:
        id = (await both.first.start("wait"))["taskId"]
        assert await both.work.has(both.work.begun) == "wait"
        await both.second.ask("tasks/cancel", {"taskId": id})
        assert await both.work.has(both.work.ended) == "cancelled"
        assert both.database.status(id) == "cancelled"
        await both.second.ask("tasks/cancel", {"taskId": id})  # it is over, so nothing changes
        assert (await both.first.until(id, "cancelled"))["statusMessage"] == "The task was cancelled by request."


@BROADCAST
async def test_tasks_update_in_another_process_gives_the_handler_its_input(has_broadcast: bool) -> None:
    async with pair(has_broadcast) as both:
        both.work.go.set()
        id = (await both.first.start("ask"))["taskId"]
        wanted = (await both.second.until(id, "input_required"))["inputRequests"]
        assert [*wanted] == ["who"]
        await both.second.ask("tasks/update", {"taskId": id, "inputResponses": {"x": accept("Bob")}})
        await both.second.ask("tasks/update", {"taskId": id, "inputResponses": {"who": {"action": "sing"}}})
        await both.second.ask("tasks/update", {"taskId": id, "inputResponses": {"who": accept("Ada")}})
        assert text_in((await both.second.until(id, "completed"))["result"]) == "{'name': 'Ada'}"


async def test_input_requests_are_shown_only_when_the_database_has_them() -> None:
    class SlowStore(Store):
        async def put(self, stored: OwnedTask) -> bool:
            if stored.task.status == "input_required":
                begun.set()
                await go.wait()
            return await super().put(stored)

    database, begun, go = Database(), asyncio.Event(), asyncio.Event()
    work, other = (at_work(task_store=store) for store in (SlowStore(database), Store(database)))
    async with raw_client(work.server, "memory") as wire, raw_client(other.server, "memory") as other_wire:
        first, second = Peer(wire, EXTENDED), Peer(other_wire, EXTENDED)
        work.go.set()
        id = (await first.start("ask"))["taskId"]
        await asyncio.wait_for(begun.wait(), PATIENCE)
        asking = asyncio.create_task(first.get(id))
        for _ in range(5):  # so that `asking` could have its response
            await second.ask("tasks/update", {"taskId": id, "inputResponses": {"who": accept("Eve")}})  # ignored
        assert not asking.done()
        go.set()
        assert [*(await asking)["inputRequests"]] == ["who"]
        await second.ask("tasks/update", {"taskId": id, "inputResponses": {"who": accept("Ada")}})
        assert text_in((await first.until(id, "completed"))["result"]) == "{'name': 'Ada'}"


async def test_input_requests_that_the_database_cannot_store_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_tasks, "RETRY_SECONDS", 0.01)

    class PickyStore(Store):
        async def put(self, stored: OwnedTask) -> bool:
            if stored.task.status == "input_required" and not accepts.is_set():
                has_refused.set()
                raise ConnectionError("the database is away")
            return await super().put(stored)

    has_refused, accepts = asyncio.Event(), asyncio.Event()
    work = at_work(task_store=PickyStore(Database()))
    async with raw_client(work.server, "memory") as wire:
        peer = Peer(wire, EXTENDED)
        id = (await peer.start("ask"))["taskId"]
        await asyncio.wait_for(has_refused.wait(), PATIENCE)
        monkeypatch.setattr(shared_tasks, "CALL_SECONDS", 0.1)
        state = await peer.get(id)
        assert (state["status"], state.get("inputRequests")) == ("working", None)
        monkeypatch.setattr(shared_tasks, "CALL_SECONDS", PATIENCE)
        accepts.set()
        assert [*(await peer.get(id))["inputRequests"]] == ["who"]


async def test_subscriber_in_another_process_gets_each_status_with_the_result() -> None:
    async with pair() as both:
        id = (await both.first.start("wait"))["taskId"]
        await both.second.begin("subscriptions/listen", {"notifications": {"taskIds": [id]}})
        acknowledged = await both.second.news("notifications/subscriptions/acknowledged")
        assert acknowledged["notifications"] == {"taskIds": [id]}
        both.work.go.set()
        told: Received = {}
        while told.get("status") != "completed":
            told = await both.second.news("notifications/tasks")
        assert text_in(told["result"]) == "done"


async def test_task_of_a_dead_process_becomes_failed_and_its_process_stops_it_when_it_wakes_up() -> None:
    async with pair() as both:
        id = str((await both.first.start("wait"))["taskId"])
        assert await both.work.has(both.work.begun) == "wait"
        both.store.is_paused = True
        await eventually(lambda: both.database.leases.pop(id, None) is None)
        failed = await both.second.get(id)
        assert (failed["status"], failed["statusMessage"]) == ("failed", LOST)
        assert failed["error"] == {"code": INTERNAL_ERROR, "message": LOST}
        both.store.is_paused = False
        assert await both.work.has(both.work.ended) == "cancelled"
        assert both.database.status(id) == "failed"
        await eventually(lambda: not both.work.server.tasks.live)
        assert (await both.first.get(id))["status"] == "failed"


async def test_result_that_comes_after_the_task_was_cancelled_elsewhere_changes_nothing() -> None:
    async with pair(has_broadcast=False) as both:
        both.store.lease_seconds = 100  # so that the first process only learns it from `put`
        id = (await both.first.start("wait"))["taskId"]
        await both.second.ask("tasks/cancel", {"taskId": id})
        both.work.go.set()
        async with asyncio.timeout(PATIENCE):
            while (await both.first.get(id))["status"] != "cancelled":
                await asyncio.sleep(0.01)
        assert both.database.status(id) == "cancelled"


async def test_database_that_is_away_refuses_new_tasks_and_running_ones_are_stored_when_it_is_back(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(shared_tasks, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(shared_tasks, "CALL_SECONDS", 0.2)
    caplog.set_level(logging.WARNING)
    async with pair() as both:
        id = (await both.first.start("wait"))["taskId"]
        both.database.is_away = True
        code, why = await both.first.refused("tools/call", {"name": "wait", "arguments": {}})
        assert code == INTERNAL_ERROR and "does not respond" in why
        assert (await both.second.refused("tasks/get", {"taskId": id}))[0] == INTERNAL_ERROR
        both.work.go.set()
        assert (await both.first.until(id, "completed"))["status"] == "completed"  # its own process knows it
        both.database.is_away = False
        assert text_in((await both.second.until(id, "completed"))["result"]) == "done"
        assert len(both.database.tasks) == 1
    said = [record.message for record in caplog.records]
    assert sum("the store of tasks has failed" in each for each in said) == 2  # once in each process
    assert sum("the store of tasks works again" in each for each in said) == 2


async def test_store_whose_renew_returns_nothing_has_failed_and_its_process_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(shared_tasks, "RETRY_SECONDS", 0.001)
    calls = 0

    async def renew(ids: Sequence[str]) -> None:  # whose author has forgotten `return`
        nonlocal calls
        calls += 1

    async with pair() as both:
        monkeypatch.setattr(both.store, "renew", renew)
        id = (await both.first.start("wait"))["taskId"]
        await eventually(lambda: calls >= 3)
        both.work.go.set()
        assert text_in((await both.second.until(id, "completed"))["result"]) == "done"
    assert "the store of tasks has failed (TypeError: " in caplog.text


async def test_task_that_the_database_refuses_is_an_error_and_stops() -> None:
    async with pair() as both:
        both.database.max_tasks = 0
        assert await both.first.refused("tools/call", {"name": "wait", "arguments": {}}) == (
            INTERNAL_ERROR, "you have too many tasks",
        )  # fmt: skip
        await eventually(lambda: not both.work.server.tasks.live)
        assert not both.database.tasks


async def test_tasks_result_and_list_of_another_process_work_in_2025_11_25_for_the_same_principal() -> None:
    database, hub = Database(), Hub()
    works = [at_work(task_store=Store(database), broadcast=hub.channel()) for _ in range(2)]
    for work in works:
        work.server.tasks.poll_interval = 60_000  # so that only the broadcast can be in time

    async def ada(request: HttpRequest) -> str:
        return "ada"

    options: Any = {"authenticate": ada}
    async with served_over_http(works[0].server, **options) as one, served_over_http(works[1].server, **options) as two:
        first, second = RawSession(one), RawSession(two)
        for talk in (first, second):
            await talk.handshake("2025-11-25")
        await hub.wait_for(lambda: hub.listening == 2)

        async def ask(talk: RawSession, method: str, params: Object) -> Received:
            return result_of((await talk.post(request(method, params))).json)

        created = await ask(first, "tools/call", {"name": "wait", "arguments": {}, "task": {}})
        id = created["task"]["taskId"]
        waiting = asyncio.create_task(ask(second, "tasks/result", {"taskId": id}))
        listed = await ask(second, "tasks/list", {})
        assert len(listed["tasks"]) == 1
        works[0].go.set()
        assert text_in(await waiting) == "done"


async def test_database_that_has_lost_its_data_gets_the_running_tasks_again() -> None:
    async with pair() as both:
        id = str((await both.first.start("wait"))["taskId"])
        both.database.tasks.clear()
        await eventually(lambda: id in both.database.tasks)
        both.work.go.set()
        assert text_in((await both.second.until(id, "completed"))["result"]) == "done"


@contextlib.asynccontextmanager
async def shared_alone(store: Store) -> AsyncIterator[SharedTasks]:
    """Yield the shared tasks of a process without clients."""
    shared = SharedTasks(store, Announcers())
    try:
        yield shared
    finally:
        await shared.close()


def a_task(id: str = "one", **changes: Any) -> Task:
    task = dataclasses.replace(new_task(60_000, 1000, time.time()), task_id=id)
    return dataclasses.replace(task, **changes)


async def test_task_that_is_removed_while_the_database_stores_it_does_not_stay_there() -> None:
    class SlowStore(Store):
        async def put(self, stored: OwnedTask) -> bool:
            begun.set()
            await go.wait()
            return await super().put(stored)

    begun, go, database = asyncio.Event(), asyncio.Event(), Database()
    async with shared_alone(SlowStore(database)) as shared:
        shared.put(a_task(), "ada", time.time() + 60)
        await begun.wait()
        shared.remove("one")  # the request was cancelled
        go.set()
        await eventually(lambda: shared._asyncio_tasks["changes"].done())
        assert not database.tasks


async def test_change_that_the_database_cannot_store_delays_no_other_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_tasks, "RETRY_SECONDS", 60.0)

    class PickyStore(Store):
        async def put(self, stored: OwnedTask) -> bool:
            if stored.task.task_id in refused:
                raise ValueError("too large")
            return await super().put(stored)

    refused, database = {"bad", "worse"}, Database()
    async with shared_alone(PickyStore(database)) as shared:
        for id in ("bad", "worse", "good"):
            shared.put(a_task(id), "ada", time.time() + 60)
        await asyncio.wait_for(shared.wait_created("good"), PATIENCE)
        refused.clear()
        shared.put(a_task("bad", status="completed"), "ada", time.time() + 60)  # replaces the change that has failed
        await eventually(lambda: "bad" in database.tasks and database.status("bad") == "completed")
        assert [*shared._failed] == ["worse"]


def test_store_whose_put_is_wrapped_in_a_plain_function_is_shared_too() -> None:
    class WrappedStore(Store):
        def put(self, stored: OwnedTask) -> Coroutine[object, object, bool]:
            return super().put(stored)

    assert Server("s", task_store=WrappedStore(Database())).tasks.shared is not None


def test_task_store_is_shared_only_if_it_derives_from_async_task_store() -> None:
    assert Server("s", task_store=MagicMock()).tasks.shared is None
    with pytest.raises(TypeError, match="get of the task_store is an `async def`: write a plain `def`"):
        Server("s", task_store=type("HalfAsync", (MemoryTaskStore,), {"get": Store.get})())


async def test_change_that_failed_is_tried_once_more_when_the_server_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_tasks, "RETRY_SECONDS", 60.0)
    database = Database()
    database.is_away = True
    async with shared_alone(Store(database)) as shared:
        shared.put(a_task(), "ada", time.time() + 60)
        await eventually(lambda: shared._failed)
        database.is_away = False
    assert [*database.tasks] == ["one"]


async def test_state_of_a_task_that_the_database_has_never_stored_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_tasks, "CALL_SECONDS", 0.05)
    database = Database()
    database.is_away = True
    async with shared_alone(Store(database)) as shared:
        asking = a_task(status="input_required")
        shared.put(asking, "ada", time.time() + 60)
        with pytest.raises(ProtocolError, match="does not respond"):
            await shared.wait_stored(asking)


async def test_change_that_is_announced_during_the_read_of_its_task_is_read_too() -> None:
    class ChangingStore(Store):
        async def get(self, id: str) -> OwnedTask | None:
            stored = await super().get(id)
            reads.append(id)
            if len(reads) == 1:
                shared.note_change("one")  # after the database has read the task
            return stored

    database, reads = Database(), list[str]()
    async with shared_alone(ChangingStore(database)) as shared:
        shared.put(a_task(), "ada", time.time() + 60)
        await shared.wait_created("one")
        shared.note_change("one")
        await eventually(lambda: len(reads) >= 2)


async def test_responses_that_the_database_does_not_return_are_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    class FailingStore(Store):
        async def take_responses(self, id: str) -> dict[str, Object]:
            calls.append(id)
            if len(calls) == 1:
                raise ConnectionError("the database is away")
            return await super().take_responses(id)

    monkeypatch.setattr(shared_tasks, "RETRY_SECONDS", 0.01)
    database, calls, given = Database(), list[str](), dict[str, Object]()
    async with shared_alone(FailingStore(database)) as shared:
        shared.on_responses = lambda id, responses: given.update(responses)
        shared.put(a_task(), "ada", time.time() + 60)
        await shared.wait_created("one")
        database.responses["one"] = {"who": {}}
        shared.note_change("one")
        await eventually(lambda: given == {"who": {}})


async def test_responses_for_a_task_that_has_just_ended_are_ignored_and_its_process_goes_on() -> None:
    async with pair() as both:
        both.work.server.tasks._set_responses("ended", {"who": accept("Ada")})


async def test_task_that_another_process_has_ended_leaves_nothing_in_memory() -> None:
    database = Database()
    async with shared_alone(Store(database)) as shared:
        shared.on_over = lambda id: shared.put(a_task(status="cancelled"), "ada", time.time() + 60)
        shared.put(a_task(), "ada", time.time() + 60)
        await shared.wait_created("one")
        database.tasks["one"] = dataclasses.replace(database.tasks["one"], task=a_task(status="cancelled"))
        shared.note_change("one")
        await eventually(lambda: not shared._running)
        await eventually(lambda: shared._asyncio_tasks["changes"].done())
        assert not shared._creations and not shared._running and not shared._unsaved
