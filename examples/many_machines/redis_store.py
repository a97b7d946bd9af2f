"""An event store in Redis: sessions of the legacy era outlive their node, and continue on another one.

    server.run_http(store=RedisEventStore("redis://10.0.0.5:6379"))

Each session has three keys, which expire a day after its last change:

    mcp:{ID}:session   a hash: its `initialize` message, its principal, its owner, and the fence (see below)
    mcp:{ID}:events    a stream: its events. The id of an entry is the number of the event.
    mcp:{ID}:lease     the process that serves the session now, for 10 seconds

The owner is the process that has the session. It stays the owner after its lease has ended, until another process takes
over the session. Each takeover increments the fence, and each write first compares the owner, in one script with the
write. So a process that was paused, and does not know that it has lost the session, writes nothing.

If Redis loses its data, the sessions of running nodes end, and their clients begin new ones.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Sequence
from typing import Any, Final, Unpack

from redis import Redis

from mcp_ref import DurableEventStore, SessionChange, SessionOwned, StoredSession
from mcp_ref.transports.streamable_http.event_store import StoreLimits

SECONDS: Final = 2.0
"""Time limit of a connection and of a command, in seconds."""
EXPIRY: Final = 24 * 3600
"""Time for which a session is stored after its last change, in seconds."""

# KEYS: session, events, lease. ARGV: owner, milliseconds of the lease, principal or ''.
LOAD: Final = """
if redis.call('HGET', KEYS[1], 'principal') ~= ARGV[3] then return false end
local holder = redis.call('GET', KEYS[3])
if holder and holder ~= ARGV[1] then return 'owned' end
redis.call('HSET', KEYS[1], 'owner', ARGV[1])
redis.call('HINCRBY', KEYS[1], 'fence', 1)
redis.call('SET', KEYS[3], ARGV[1], 'PX', ARGV[2])
return {redis.call('HMGET', KEYS[1], 'initialize', 'last', 'kept'), redis.call('XRANGE', KEYS[2], '-', '+')}
"""

# ARGV: owner, milliseconds of the lease, expiry, `initialize` or '', principal or '', number of the oldest event to
# keep, log level and subscriptions or '', and for each event: number, time, stream, data. Returns 1 for another owner.
SAVE: Final = """
if ARGV[4] ~= '' and redis.call('EXISTS', KEYS[1]) == 0 then
    redis.call('HSET', KEYS[1], 'initialize', ARGV[4], 'principal', ARGV[5], 'owner', ARGV[1], 'fence', 1)
end
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then return 1 end
if ARGV[7] ~= '' then redis.call('HSET', KEYS[1], 'kept', ARGV[7]) end
for i = 8, #ARGV, 4 do
    local last = tonumber(redis.call('HGET', KEYS[1], 'last') or '0')
    if tonumber(ARGV[i]) > last then
        redis.call('XADD', KEYS[2], ARGV[i] .. '-0', 't', ARGV[i + 1], 's', ARGV[i + 2], 'd', ARGV[i + 3])
        redis.call('HSET', KEYS[1], 'last', ARGV[i])
    end
end
redis.call('XTRIM', KEYS[2], 'MINID', ARGV[6] .. '-0')
redis.call('SET', KEYS[3], ARGV[1], 'PX', ARGV[2])
redis.call('EXPIRE', KEYS[1], ARGV[3])
redis.call('EXPIRE', KEYS[2], ARGV[3])
return 0
"""

# ARGV: owner, milliseconds of the lease, expiry.
RENEW: Final = """
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then return 1 end
redis.call('SET', KEYS[3], ARGV[1], 'PX', ARGV[2])
redis.call('EXPIRE', KEYS[1], ARGV[3])
redis.call('EXPIRE', KEYS[2], ARGV[3])
return 0
"""

# ARGV: owner, '1' to delete the session too.
END: Final = """
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then return 1 end
redis.call('DEL', KEYS[3])
if ARGV[2] == '1' then redis.call('DEL', KEYS[1], KEYS[2]) end
return 0
"""


class RedisEventStore(DurableEventStore):
    """An event store in Redis, for several processes.

    Args:
        url: The URL of Redis, such as "redis://:password@10.0.0.5:6379".
        prefix: The first part of each key, different for each server that uses the same Redis.
        lease_seconds: Time after which another node can continue the sessions of a dead node, in seconds.
        limits: The limits in `StoreLimits`.
    """

    def __init__(
        self, url: str, prefix: str = "mcp", lease_seconds: float = 10.0, **limits: Unpack[StoreLimits]
    ) -> None:
        self.lease_seconds = lease_seconds
        super().__init__(0, **limits)
        self._redis = Redis.from_url(url, socket_connect_timeout=SECONDS, socket_timeout=SECONDS)
        self._prefix, self._owner, self._lease_ms = prefix, secrets.token_hex(8), int(lease_seconds * 1000)

    def load(self, session: str, principal: str | None) -> StoredSession | None:
        found: Any = self._redis.eval(LOAD, 3, *self._keys(session), self._owner, self._lease_ms, principal or "")
        if found == b"owned":
            raise SessionOwned
        if found is None:
            return None
        (initialize, last, kept), entries = found
        events = []
        for id, fields in entries:  # `fields` has names and values in turn
            values = dict(zip(fields[::2], fields[1::2], strict=True))
            events.append((float(values[b"t"]), values[b"s"].decode(), int(id.split(b"-")[0]), values[b"d"]))
        return StoredSession(initialize, principal, events, int(last or 0), kept or b"")

    def save(self, changes: Sequence[SessionChange]) -> Collection[str]:
        with self._redis.pipeline(transaction=False) as pipeline:
            for change in changes:
                keys = self._keys(change.session)
                if change.is_deleted:
                    pipeline.eval(END, 3, *keys, self._owner, "1")
                    continue
                opening = (change.initialize or b"", change.principal or "")
                start = (self._owner, self._lease_ms, EXPIRY, *opening, change.first_number, change.kept or b"")
                events: list[Any] = []
                for time, stream, number, data in change.events:
                    events += (number, time, stream, data)
                pipeline.eval(SAVE, 3, *keys, *start, *events)
            results = pipeline.execute()
        return [change.session for change, lost in zip(changes, results, strict=True) if lost and not change.is_deleted]

    def renew(self, sessions: Sequence[str]) -> Collection[str]:
        with self._redis.pipeline(transaction=False) as pipeline:
            for session in sessions:
                pipeline.eval(RENEW, 3, *self._keys(session), self._owner, self._lease_ms, EXPIRY)
            results = pipeline.execute()
        return [session for session, lost in zip(sessions, results, strict=True) if lost]

    def release(self, sessions: Sequence[str]) -> None:
        with self._redis.pipeline(transaction=False) as pipeline:
            for session in sessions:
                pipeline.eval(END, 3, *self._keys(session), self._owner, "0")
            pipeline.execute()

    def _keys(self, session: str) -> tuple[str, str, str]:
        # the braces make Redis Cluster store the three keys on one machine, because a script cannot use several
        key = f"{self._prefix}:{{{session}}}"
        return f"{key}:session", f"{key}:events", f"{key}:lease"
