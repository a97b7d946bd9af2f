"""The store of tasks of the example against a real Redis, and tasks on four nodes when one of them dies."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from run import ERAS, SECONDS, Cluster, client_of

from mcp_ref import OwnedTask, ProtocolError, Task
from mcp_ref.extensions.tasks.types import new_task, with_status

if TYPE_CHECKING:
    from redis_tasks import RedisTaskStore

pytestmark = pytest.mark.usefixtures("engines")


@asynccontextmanager
async def stores(folder: Path, lease: float = 10.0, max_tasks: int = 1000) -> AsyncIterator[list[RedisTaskStore]]:
    """Run Redis, and give the stores of two processes."""
    from redis_tasks import RedisTaskStore

    cluster = Cluster(folder)
    url = f"redis://127.0.0.1:{cluster.redis_port}"
    made = [RedisTaskStore(url, lease_seconds=lease, max_tasks=max_tasks) for _ in range(2)]
    try:
        await cluster.start_redis()
        yield made
    finally:
        for each in made:
            await each.close()
        await cluster.__aexit__()


def owned(owner: str = "modern:ada", seconds: float = 60.0) -> OwnedTask:
    return OwnedTask(new_task(int(seconds * 1000), 1000, time.time()), owner, time.time() + seconds)


def over(stored: OwnedTask, text: str) -> OwnedTask:
    """Return the same task, completed."""
    task = with_status(stored.task, "completed", time.time(), text, result={"text": "ä\n"})
    return OwnedTask(task, stored.owner, stored.expires_at)


async def test_task_that_is_over_never_changes_whichever_process_is_faster(tmp_path: Path) -> None:
    async with stores(tmp_path) as (a, b):
        task = owned()
        assert await a.put(task) and await b.get(task.task.task_id) is not None
        both = [over(task, "a"), over(task, "b")]
        assert sorted(await asyncio.gather(a.put(both[0]), b.put(both[1]))) == [False, True]
        found = await a.get(task.task.task_id)
        assert found is not None and found.task in [each.task for each in both]
        assert not await a.put(task) and await a.renew([task.task.task_id, "x"]) == [task.task.task_id, "x"]
        assert await b.get(task.task.task_id) == await a.get(task.task.task_id)


async def test_lease_ends_without_renewal(tmp_path: Path) -> None:
    async with stores(tmp_path, lease=0.2) as (a, b):
        kept, dropped = owned(), owned()
        assert await a.put(kept) and await a.put(dropped)
        async with asyncio.timeout(SECONDS):
            while True:
                assert await a.renew([kept.task.task_id]) == []
                found = await b.get(dropped.task.task_id)
                assert found is not None
                if not found.has_lease:
                    break
                await asyncio.sleep(0.05)
        still = await b.get(kept.task.task_id)
        assert still is not None and still.has_lease


async def test_page_has_the_tasks_of_one_owner_and_an_expired_task_is_in_none(tmp_path: Path) -> None:
    async with stores(tmp_path) as (a, _):
        for number in range(101):
            assert await a.put(owned(seconds=60 + number / 10))
        assert await a.put(owned("modern:bob"))
        short = owned(seconds=0.1)
        assert await a.put(short)
        async with asyncio.timeout(SECONDS):
            while await a.get(short.task.task_id) is not None:
                await asyncio.sleep(0.02)
        first, cursor = await a.page("modern:ada", None)
        second, end = await a.page("modern:ada", cursor)
        assert end is None and len({each.task.task_id for each in [*first, *second]}) == 101
        with pytest.raises(ProtocolError, match="unknown cursor"):
            await a.page("modern:ada", "x")
        await a.remove(second[0].task.task_id)
        assert await a.get(second[0].task.task_id) is None
        keys = await a._redis.keys("*")
        assert all([0 < await a._redis.pttl(key) <= 71_000 for key in keys])


async def test_owner_with_too_many_tasks_gets_no_more(tmp_path: Path) -> None:
    async with stores(tmp_path, max_tasks=2) as (a, _):
        tasks = [owned(), owned(seconds=0.1)]
        for each in tasks:
            assert await a.put(each)
        assert await a.put(over(tasks[0], "done"))  # a stored task can change
        third = owned()
        assert await a.put(owned("modern:bob"))
        async with asyncio.timeout(SECONDS):
            while True:
                try:
                    assert await a.put(third)
                    break
                except ProtocolError as error:
                    assert "you already have 2 tasks" in error.message
                    await asyncio.sleep(0.02)  # until one has expired


async def test_responses_are_taken_once(tmp_path: Path) -> None:
    async with stores(tmp_path) as (a, b):
        id = (task := owned()).task.task_id
        assert await a.put(task)
        await b.add_responses(id, {"x": {"action": "accept"}})
        await b.add_responses(id, {"y": {"action": "decline"}})
        assert await a.take_responses(id) == {"x": {"action": "accept"}, "y": {"action": "decline"}}
        assert await a.take_responses(id) == {}


async def test_task_of_a_killed_node_becomes_failed_and_any_node_cancels_a_task(tmp_path: Path) -> None:
    async with Cluster(tmp_path, {"LEASE": "1"}) as cluster, client_of(cluster.url, ERAS[0]) as client:

        async def begin() -> tuple[str, str]:
            """Return the id of a task that runs for hours, and its node."""
            running = await client.start_tool("count_to", {"number": 10**6})
            assert running.id is not None
            return running.id, running.id.partition(".")[0]

        async def ended(id: str) -> Task:
            while True:
                task = await (await client.find_task(id)).status()
                assert task is not None
                if task.is_over:
                    return task
                await asyncio.sleep(0.05)

        async with asyncio.timeout(2 * SECONDS):
            cancelled, node = await begin()
            other = next(name for name in cluster.ports if name != node)
            async with client_of(f"http://127.0.0.1:{cluster.ports[other]}/mcp", ERAS[0]) as direct:
                await (await direct.find_task(cancelled)).cancel()
            assert (await ended(cancelled)).status == "cancelled"
            lost, node = await begin()
            await cluster.stop(node, signal.SIGKILL)
            task = await ended(lost)
            assert task.status == "failed" and "has ended" in str(task.status_message)
