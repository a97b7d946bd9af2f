"""A store of tasks in Redis: any node can return the state and the result of a task, cancel it, and give it its input.

    Server("notes", task_store=RedisTaskStore("redis://10.0.0.5:6379"), broadcast=...)

Each task has three keys, which expire, and each owner has one:

    mcp:task:{ID}             a hash: the task as JSON, its owner, and "1" in the field `over` if it is over
    mcp:task:{ID}:lease       the node that runs the task is alive, for 10 seconds
    mcp:task:{ID}:responses   a list: the responses of the client that the node has not taken yet
    mcp:tasks:OWNER           a sorted set: the ids of the owner's tasks, by their time of expiry

A task that is over never changes. The script `PUT` checks this in one step with the write, so it does not matter which
node is faster: the one that completes a task, the one that cancels it, or the one that finds its lease ended.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time
from collections.abc import Collection, Sequence
from typing import Any, Final

from redis.asyncio import Redis

from mcp_ref import AsyncTaskStore, OwnedTask, ProtocolError, Task
from mcp_ref.jsonrpc.messages import INTERNAL_ERROR, INVALID_PARAMS

SECONDS: Final = 2.0
"""Time limit of a command, in seconds."""
PAGE_SIZE: Final = 100  # tasks in one page of `tasks/list`
EXPIRY: Final = 3600
"""Time for which responses are stored that no node takes, in seconds."""

# KEYS: task, lease. ARGV: task, owner, '1' if it is over, expiry in milliseconds since 1970, milliseconds of the lease.
PUT: Final = """
if redis.call('HGET', KEYS[1], 'over') == '1' then return 0 end
redis.call('HSET', KEYS[1], 'task', ARGV[1], 'owner', ARGV[2], 'over', ARGV[3], 'expires', ARGV[4])
redis.call('PEXPIREAT', KEYS[1], ARGV[4])
if ARGV[3] == '1' then redis.call('DEL', KEYS[2]) else redis.call('SET', KEYS[2], '1', 'PX', ARGV[5]) end
return 1
"""

# KEYS: task, lease. ARGV: milliseconds of the lease. Returns 1 if the task is over or unknown.
RENEW: Final = """
if redis.call('HGET', KEYS[1], 'over') ~= '0' then return 1 end
redis.call('SET', KEYS[2], '1', 'PX', ARGV[1])
return 0
"""


class RedisTaskStore(AsyncTaskStore):
    """A store of tasks in Redis, for several processes.

    Args:
        url: The URL of Redis, such as "redis://:password@10.0.0.5:6379".
        prefix: The first part of each key, different for each server that uses the same Redis.
        lease_seconds: Time after which the tasks of a dead node become failed, in seconds.
        max_tasks: Maximum number of tasks of one owner. All clients without authentication have the same owner.
    """

    def __init__(self, url: str, prefix: str = "mcp", lease_seconds: float = 10.0, max_tasks: int = 1000) -> None:
        self.lease_seconds, self._prefix, self._max_tasks = lease_seconds, prefix, max_tasks
        self._redis = Redis.from_url(url, decode_responses=True, socket_connect_timeout=SECONDS, socket_timeout=SECONDS)

    async def put(self, stored: OwnedTask) -> bool:
        task, owner_key = stored.task, self._key_of_owner(stored.owner)
        async with self._redis.pipeline(transaction=False) as pipeline:
            pipeline.zremrangebyscore(owner_key, "-inf", time.time())
            pipeline.zscore(owner_key, task.task_id)
            pipeline.zcard(owner_key)
            _, earlier_expiry, count = await pipeline.execute()
        if earlier_expiry is None and count >= self._max_tasks:
            raise ProtocolError(INTERNAL_ERROR, f"you already have {self._max_tasks} tasks; retry later")
        expiry, lease = int(stored.expires_at * 1000), int(self.lease_seconds * 1000)
        text, is_over = json.dumps(dataclasses.asdict(task)), "1" if task.is_over else "0"
        async with self._redis.pipeline(transaction=False) as pipeline:
            pipeline.eval(PUT, 2, *self._keys(task.task_id)[:2], text, stored.owner, is_over, expiry, lease)
            pipeline.zadd(owner_key, {task.task_id: stored.expires_at})
            pipeline.pexpireat(owner_key, expiry, nx=True)
            pipeline.pexpireat(owner_key, expiry, gt=True)  # so the key expires with its last task
            has_changed, *_ = await pipeline.execute()
        return bool(has_changed)

    async def get(self, id: str) -> OwnedTask | None:
        return (await self._get_all([id]))[0]

    async def _get_all(self, ids: Sequence[str]) -> list[OwnedTask | None]:
        async with self._redis.pipeline(transaction=False) as pipeline:
            for id in ids:
                key, lease, _ = self._keys(id)
                pipeline.hgetall(key)
                pipeline.exists(lease)
            found: list[Any] = await pipeline.execute()
        stored: list[OwnedTask | None] = []
        for fields, has_lease in zip(found[::2], found[1::2], strict=True):  # `hgetall` and `exists` in turn
            if fields:
                task, expires_at = Task(**json.loads(fields["task"])), int(fields["expires"]) / 1000
                stored.append(OwnedTask(task, fields["owner"], expires_at, bool(has_lease)))
            else:
                stored.append(None)
        return stored

    async def page(self, owner: str, cursor: str | None) -> tuple[list[OwnedTask], str | None]:
        owner_key = self._key_of_owner(owner)
        last: Any = await self._redis.zrank(owner_key, cursor) if cursor is not None else -1
        if last is None:
            raise ProtocolError(INVALID_PARAMS, "Invalid params: unknown cursor; begin again without a cursor")
        ids: Any = await self._redis.zrange(owner_key, last + 1, last + PAGE_SIZE + 1)  # one more than a page
        next_cursor = ids[PAGE_SIZE - 1] if len(ids) > PAGE_SIZE else None
        return [stored for stored in await self._get_all(ids[:PAGE_SIZE]) if stored is not None], next_cursor

    async def remove(self, id: str) -> None:
        key, *others = self._keys(id)
        owner: Any = await self._redis.hget(key, "owner")
        async with self._redis.pipeline(transaction=False) as pipeline:
            pipeline.delete(key, *others)
            if owner is not None:
                pipeline.zrem(self._key_of_owner(owner), id)
            await pipeline.execute()

    async def renew(self, ids: Sequence[str]) -> Collection[str]:
        async with self._redis.pipeline(transaction=False) as pipeline:
            for id in ids:
                pipeline.eval(RENEW, 2, *self._keys(id)[:2], int(self.lease_seconds * 1000))
            results = await pipeline.execute()
        return [id for id, is_over in zip(ids, results, strict=True) if is_over]

    async def add_responses(self, id: str, responses: dict[str, dict[str, Any]]) -> None:
        _, _, waiting = self._keys(id)
        async with self._redis.pipeline(transaction=False) as pipeline:
            pipeline.rpush(waiting, json.dumps(responses))
            pipeline.expire(waiting, EXPIRY)
            await pipeline.execute()

    async def take_responses(self, id: str) -> dict[str, dict[str, Any]]:
        _, _, waiting = self._keys(id)
        async with self._redis.pipeline(transaction=True) as pipeline:
            pipeline.lrange(waiting, 0, -1)
            pipeline.delete(waiting)
            texts, _ = await pipeline.execute()
        return {key: response for text in texts for key, response in json.loads(text).items()}

    async def close(self) -> None:
        await self._redis.aclose()

    def _keys(self, id: str) -> tuple[str, str, str]:
        key = f"{self._prefix}:task:{{{id}}}"
        return key, f"{key}:lease", f"{key}:responses"  # the braces put all on one machine of a Redis Cluster

    def _key_of_owner(self, owner: str) -> str:
        return f"{self._prefix}:tasks:{hashlib.sha256(owner.encode()).hexdigest()[:32]}"
