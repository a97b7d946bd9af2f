"""The event store of the example against a real Redis: leases, fencing, and the failures of Redis and of nodes."""

from __future__ import annotations

import asyncio
import random
import signal
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from run import ERAS, SECONDS, Cluster, client_of

from mcp_ref import SessionChange, SessionOwned
from tests.messages import initialize, notification, request
from tests.raw_http_client import RawSession, ServedApp
from tests.settings import PATIENCE

if TYPE_CHECKING:
    from redis_store import RedisEventStore

pytestmark = pytest.mark.usefixtures("engines")


@asynccontextmanager
async def stores(folder: Path, count: int, lease: float) -> AsyncIterator[tuple[Cluster, list[RedisEventStore]]]:
    """Run Redis, and give the stores of some processes."""
    from redis_store import RedisEventStore

    cluster = Cluster(folder)
    made = [RedisEventStore(f"redis://127.0.0.1:{cluster.redis_port}", lease_seconds=lease) for _ in range(count)]
    try:
        await cluster.start_redis()
        yield cluster, made
    finally:
        for each in made:
            each._redis.close()
        await cluster.__aexit__()


def opened(session: str) -> SessionChange:
    """Return the change that stores a new session."""
    return SessionChange(session, False, b"{}", "ada", 1, [(1.5, "get", 7, b"\xffdata")])


async def test_saved_session_is_loaded_with_its_events_and_last_number(tmp_path: Path) -> None:
    async with stores(tmp_path, 2, 10) as (_, (a, b)):
        assert a.save([opened("s"), opened("t")]) == []
        assert a.save([opened("s")]) == []  # after a failure, a change comes again
        with pytest.raises(SessionOwned):
            b.load("s", "ada")
        a.release(["s"])
        stored = b.load("s", "ada")
        assert stored is not None and (stored.initialize, stored.principal, stored.last_number) == (b"{}", "ada", 7)
        assert [*stored.events] == [(1.5, "get", 7, b"\xffdata")]
        assert a.save([SessionChange("s", first_number=8), SessionChange("t", is_deleted=True)]) == ["s"]
        assert a.renew(["s"]) == ["s"] and b.renew(["s"]) == []
        assert b.save([SessionChange("s", first_number=8, kept=b"[1]")]) == []
        assert b.save([SessionChange("s", first_number=8)]) == []
        again = b.load("s", "ada")
        assert stored.kept == b"" and again is not None
        assert (again.events, again.last_number, again.kept) == ([], 7, b"[1]")
        assert a.load("t", "ada") is None and b.load("unknown", "ada") is None
        keys = list(b._redis.keys("*"))
        assert all(0 < b._redis.ttl(key) <= 24 * 3600 for key in keys) and len(keys) == 3


async def test_lease_is_never_given_to_two_processes_that_race_for_it(tmp_path: Path) -> None:
    async with stores(tmp_path, 2, 10) as (_, pair):
        sessions = [f"s{number}" for number in range(1000)]
        pair[0].save([opened(each) for each in sessions])
        pair[0].release(sessions)
        for each in pair:  # new owners, because the first one still is the owner in the storage
            each._owner += "-new"
        won: list[list[str]] = [[], []]

        def race(index: int) -> None:
            order = random.Random(index).sample(sessions, len(sessions))
            for session in order:
                try:
                    pair[index].load(session, "ada")
                except SessionOwned:
                    continue
                won[index].append(session)
                assert pair[index].save([SessionChange(session, events=[(0.0, "get", 100 + index, b"")])]) == []

        threads = [threading.Thread(target=race, args=(index,)) for index in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            await asyncio.to_thread(thread.join, PATIENCE)
        assert sorted(won[0] + won[1]) == sorted(sessions) and all(won)
        fences = [pair[0]._redis.hget(f"mcp:{{{each}}}:session", "fence") for each in sessions]
        assert {*fences} == {b"2"}  # each session was taken over exactly once


async def _begin(web: ServedApp) -> RawSession:
    talk = RawSession(web)
    reply = await talk.post(initialize())
    talk.id = reply.headers["mcp-session-id"]
    assert (await talk.post(notification("notifications/initialized"))).status == 202
    return talk


def _web(port: int) -> ServedApp:
    class Site:
        path = "/mcp"

    return ServedApp(Site(), ("127.0.0.1", port))  # type: ignore[arg-type]


async def test_node_that_was_stopped_while_its_lease_was_taken_ends_its_copy(tmp_path: Path) -> None:
    async with Cluster(tmp_path, {"LEASE": "1"}) as cluster:
        first, second = _web(cluster.ports["a"]), _web(cluster.ports["b"])
        try:
            talk = await _begin(first)
            other = RawSession(second, talk.id)
            async with asyncio.timeout(SECONDS):
                # a thread of the first node stores the session, in its own time
                while (status := (await other.post(request("ping"))).status) == 404:
                    await asyncio.sleep(0.05)
            assert status == 503
            cluster.processes["a"].send_signal(signal.SIGSTOP)
            async with asyncio.timeout(SECONDS):
                while (await other.post(request("ping"))).status == 503:
                    await asyncio.sleep(0.05)
            cluster.processes["a"].send_signal(signal.SIGCONT)
            refused = await talk.post(request("ping"))  # at once: before it could ask Redis
            assert (refused.status, refused.headers["retry-after"]) == (503, "1")
            assert (await other.post(request("ping"))).status == 200
        finally:
            await first.close()
            await second.close()


async def test_redis_that_was_restarted_empty_ends_the_sessions_and_clients_begin_new_ones(tmp_path: Path) -> None:
    async with Cluster(tmp_path, {"LEASE": "1"}) as cluster, client_of(cluster.url, ERAS[1]) as client:
        await client.call_tool("which_node")
        await cluster.stop("redis", signal.SIGKILL)
        await client.call_tool("which_node")  # the session works without Redis, until its lease ends
        await cluster.start_redis()
        async with asyncio.timeout(SECONDS):
            while True:
                try:
                    await client.call_tool("write", {"name": "x", "text": "y"})
                    break
                except Exception:
                    await asyncio.sleep(0.1)


async def test_full_redis_ends_no_session(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster, client_of(cluster.url, ERAS[1]) as client:
        from redis.asyncio import Redis

        async with Redis.from_url(f"redis://127.0.0.1:{cluster.redis_port}") as redis:
            await redis.config_set("maxmemory", "1")
            assert (await client.call_tool("which_node")).text in cluster.ports
            async with client_of(cluster.url, ERAS[1]) as another:
                assert (await another.call_tool("which_node")).text in cluster.ports
            await redis.config_set("maxmemory", "0")
            assert (await client.call_tool("which_node")).text in cluster.ports
