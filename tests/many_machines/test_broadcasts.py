"""The broadcasts of the example against real engines: Redis and PostgreSQL, and their failures."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mcp_ref import Client, Server
from mcp_ref.server import broadcast
from mcp_ref.server.broadcast import MAX_MESSAGE_BYTES, Broadcast
from tests.many_machines.conftest import need
from tests.settings import PATIENCE

URI = "notes://1"


class Ears:
    """The messages and gaps of one channel."""

    def __init__(self) -> None:
        self.heard: list[bytes | None] = []
        """The messages; None for a gap."""
        self._changed = asyncio.Event()

    def receive(self, message: bytes) -> None:
        self.heard.append(message)
        self._changed.set()

    def gap(self) -> None:
        self.heard.append(None)
        self._changed.set()

    async def wait_for(self, *heard: bytes | None) -> None:
        """Wait until exactly these messages and gaps have come since the last call."""
        async with asyncio.timeout(PATIENCE):
            while len(self.heard) < len(heard):
                self._changed.clear()
                await self._changed.wait()
        assert self.heard == [*heard]
        self.heard.clear()


@asynccontextmanager
async def listening(channel: Broadcast) -> AsyncIterator[Ears]:
    """Listen while the block runs."""
    ears = Ears()
    task = asyncio.create_task(channel.listen(ears.receive, ears.gap))
    try:
        await ears.wait_for(None)
        yield ears
    finally:
        task.cancel()
        await asyncio.wait([task])


async def check(channel: Broadcast, other: Broadcast) -> None:
    """Check that messages of the largest size arrive in order, at all channels, and once."""
    async with listening(channel) as ears, listening(other) as others:
        sent = [b"1", b'"' + b"x" * (MAX_MESSAGE_BYTES - 2) + b'"', b"2"]
        for message in sent:
            await channel.publish(message)
        await ears.wait_for(*sent)
        await others.wait_for(*sent)


async def test_redis_delivers_messages_in_order_to_every_channel(tmp_path: Path) -> None:
    need("redis-server", "redis")
    from redis_broadcast import RedisBroadcast
    from run import Cluster

    cluster = Cluster(tmp_path)
    try:
        await cluster.start_redis()
        url = f"redis://127.0.0.1:{cluster.redis_port}"
        await check(RedisBroadcast(url), RedisBroadcast(url))
    finally:
        await cluster.__aexit__()


async def test_postgres_delivers_messages_in_order_to_every_channel(postgres: str) -> None:
    from postgres_broadcast import PostgresBroadcast

    await check(PostgresBroadcast(postgres), PostgresBroadcast(postgres))


@pytest.mark.parametrize("failure", ["killed", "stopped"])
async def test_update_during_a_failure_of_redis_arrives_when_redis_is_back(
    failure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    need("redis-server", "redis")
    from redis_broadcast import RedisBroadcast
    from run import Cluster

    monkeypatch.setattr(broadcast, "RETRY_SECONDS", 0.05)
    monkeypatch.setattr("redis_broadcast.CONNECT_SECONDS", 0.3)
    cluster = Cluster(tmp_path)
    url = f"redis://127.0.0.1:{cluster.redis_port}"
    a, b = [Server("s", broadcast=RedisBroadcast(url)) for _ in range(2)]
    b.resource("notes://{id}")(lambda id: id)
    try:
        await cluster.start_redis()
        async with a.serve_http(), b.serve_http() as served, Client(served) as client, client.subscribe(URI) as updates:
            async with asyncio.timeout(2 * PATIENCE):
                a.resource_updated(URI)
                assert await anext(updates) == URI
                if failure == "killed":
                    await cluster.stop("redis", signal.SIGKILL)
                else:
                    cluster.processes["redis"].send_signal(signal.SIGSTOP)
                a.resource_updated(URI)
                while a.stats().broadcast_lag < 0.5:  # longer than one attempt
                    await asyncio.sleep(0.05)
                if failure == "killed":
                    await cluster.start_redis()
                else:
                    cluster.processes["redis"].send_signal(signal.SIGCONT)
                assert await anext(updates) == URI
                while a.stats().unpublished_changes:
                    await asyncio.sleep(0.05)
    finally:
        await cluster.__aexit__()
    assert caplog.text.count("the broadcast has failed (publish") == 1
    caplog.clear()


async def test_update_reaches_another_process_after_postgres_has_ended_the_connections(
    postgres: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from postgres_broadcast import PostgresBroadcast
    from psycopg import AsyncConnection

    monkeypatch.setattr(broadcast, "RETRY_SECONDS", 0.05)
    a, b = [Server("s", broadcast=PostgresBroadcast(postgres, "lost")) for _ in range(2)]
    b.resource("notes://{id}")(lambda id: id)
    async with a.serve_http(), b.serve_http() as url, Client(url) as client, client.subscribe(URI) as updates:
        async with asyncio.timeout(PATIENCE):
            a.resource_updated(URI)
            assert await anext(updates) == URI
            async with await AsyncConnection.connect(postgres, autocommit=True) as admin:
                ending = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
                await admin.execute(f"{ending} AND backend_type = 'client backend'")
            assert await anext(updates) == URI  # the gap
            a.resource_updated(URI)
            assert await anext(updates) == URI
    caplog.clear()
