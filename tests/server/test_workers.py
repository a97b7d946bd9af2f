"""The worker threads of a server: each client has a share, so that its slow calls do not stop other clients."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future, thread
from contextlib import AsyncExitStack

import pytest

from mcp_ref import Client, Server
from mcp_ref.basic.access import Access, current_access
from mcp_ref.lib.http.message import HttpRequest
from mcp_ref.server.workers import MAX_WORKERS, Workers
from tests.settings import MODERN, PATIENCE

SHARE = MAX_WORKERS // 3


class Pool:
    """Workers whose calls wait until the test releases them. Callers are IP addresses."""

    def __init__(self) -> None:
        self.workers = Workers([])
        self.release = threading.Event()
        self.started = threading.Semaphore(0)

    def call(self, address: str, session: str | None = None) -> Future[str]:
        access = Access()
        access.caller, access.session_id = address, session
        token = current_access.set(access)
        try:
            return self.workers.submit(self._block, address)
        finally:
            current_access.reset(token)

    def _block(self, address: str) -> str:
        self.started.release()
        assert self.release.wait(PATIENCE)
        return address

    def running(self, calls: list[Future[str]]) -> int:
        return sum(call.running() for call in calls)


@pytest.fixture
def pool() -> Iterator[Pool]:
    made = Pool()
    yield made
    made.release.set()
    made.workers.shutdown(cancel_futures=True)


def test_workers_run_a_third_of_the_threads_for_a_client_alone_and_leave_some_to_the_next(pool: Pool) -> None:
    first = [pool.call("192.0.2.1") for _ in range(2 * MAX_WORKERS)]
    for count, caller in ((SHARE, "192.0.2.1"), (22, "192.0.2.2"), (14, "192.0.2.3")):
        calls = first if caller == "192.0.2.1" else [pool.call(caller) for _ in range(MAX_WORKERS)]
        for _ in range(count):
            assert pool.started.acquire(timeout=PATIENCE)
        assert pool.running(calls) == count


def test_workers_share_the_part_of_a_caller_among_its_sessions(pool: Pool) -> None:
    first = [pool.call("192.0.2.1", "a") for _ in range(MAX_WORKERS)]
    second = [pool.call("192.0.2.1", "b") for _ in range(MAX_WORKERS)]
    for _ in range(SHARE + 11):
        assert pool.started.acquire(timeout=PATIENCE)
    assert (pool.running(first), pool.running(second)) == (SHARE, 11)


def test_workers_run_waiting_calls_of_all_clients_in_turn(pool: Pool) -> None:
    calls = [pool.call(f"192.0.2.{number % 5}") for number in range(5 * MAX_WORKERS)]
    pool.release.set()
    assert [call.result(PATIENCE) for call in calls] == [f"192.0.2.{number % 5}" for number in range(5 * MAX_WORKERS)]
    pool.workers.shutdown()  # waits until each thread has counted the end of its last call
    assert (pool.workers._running, pool.workers._running_by_client, pool.workers._waiting) == (0, {}, {})


def test_workers_forget_a_waiting_call_that_is_cancelled(pool: Pool) -> None:
    calls = [pool.call("192.0.2.1") for _ in range(SHARE + 10)]
    for call in calls[SHARE:]:
        assert call.cancel()
    assert not pool.workers._waiting
    pool.release.set()
    assert [call.result(PATIENCE) for call in calls[:SHARE]] == ["192.0.2.1"] * SHARE
    assert pool.call("192.0.2.1").result(PATIENCE) == "192.0.2.1"


def test_workers_forget_a_client_whose_calls_never_ran(pool: Pool) -> None:
    for number in range(2 * MAX_WORKERS):  # all threads are busy
        pool.call(f"192.0.2.{number}")
    known = len(pool.workers._running_by_client)
    for number in range(10):
        assert pool.call("198.51.100.1", f"session {number}").cancel()
    assert len(pool.workers._running_by_client) == known


def test_workers_cancel_waiting_calls_at_their_end(pool: Pool) -> None:
    calls = [pool.call("192.0.2.1") for _ in range(SHARE + 10)]
    pool.workers.shutdown(wait=False, cancel_futures=True)
    assert all(call.cancelled() for call in calls[SHARE:])


def test_workers_cancel_waiting_calls_when_python_ends(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = [pool.call(address) for address in ["192.0.2.1"] * (SHARE + 10) + ["192.0.2.2"]]
    monkeypatch.setattr(thread, "_shutdown", True)  # set by `concurrent.futures` when Python ends
    pool.release.set()
    assert [call.result(PATIENCE) for call in [*calls[:SHARE], calls[-1]]] == ["192.0.2.1"] * SHARE + ["192.0.2.2"]
    for call in calls[SHARE:-1]:
        with pytest.raises(CancelledError):
            call.result(PATIENCE)
    assert (pool.workers._running, pool.workers._waiting) == (0, {})


def principal_in(request: HttpRequest) -> str | None:
    return request.headers.get("x-user")


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
async def test_blocking_tools_of_one_principal_do_not_delay_another(revision: str) -> None:
    server, release = Server("s"), threading.Event()

    @server.tool()
    def block() -> str:
        return str(release.wait(PATIENCE))

    @server.tool()
    def answer() -> int:
        return 42

    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(server.serve_http(authenticate=principal_in))
        one, other = [
            await stack.enter_async_context(Client(url, revisions=[revision], headers={"X-User": user}))
            for user in ("one", "other")
        ]
        blocked = [asyncio.create_task(one.call_tool("block")) for _ in range(2 * SHARE)]
        async with asyncio.timeout(PATIENCE / 2):
            assert (await other.call_tool("answer")).text == "42"
        assert not any(call.done() for call in blocked)
        release.set()
        assert {(await call).text for call in blocked} == {"True"}


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
async def test_session_id_that_a_client_invents_gives_it_no_share(revision: str) -> None:
    server, found = Server("s"), list[str | None]()

    @server.tool()
    async def look() -> None:
        access = current_access.get()
        assert access is not None
        found.append(access.session_id)

    async with server.serve_http() as url:
        headers = {"Mcp-Session-Id": "invented"} if revision == MODERN else {}
        async with Client(url, revisions=[revision], headers=headers) as client:
            await client.call_tool("look")
    assert [id is None for id in found] == [revision == MODERN]
