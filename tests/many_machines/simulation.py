"""Measure the load of many nodes on one Redis: 10, 100 and 1,000 nodes, without the nodes' own work.

    python3 -m tests.many_machines.simulation

Each node is a connection that listens to the changes, and 1,000 sessions with 10 events in `RedisEventStore`. The
processor time is that of Redis (`INFO cpu`), so other programs on the machine do not change it much. A limit is the
number at which one core of Redis is busy all the time.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import tempfile
from pathlib import Path

from redis.asyncio import Redis

from mcp_ref import SessionChange
from mcp_ref.transports.streamable_http.event_store import StoredEvent
from tests.settings import ROOT

sys.path.append(str(ROOT / "examples" / "many_machines"))

from redis_store import RedisEventStore
from run import Cluster

NODES = (10, 100, 1000)
SESSIONS = 1000
"""Sessions of the legacy era on each node."""
EVENTS = 10
"""Events of each session, 200 bytes each."""
LEASE_SECONDS = 10.0
"""Time of a lease, in seconds."""
MEASURED_SESSIONS = 5000
"""Number of sessions in one measurement."""
CHANGES = 200
"""Number of published changes in one measurement."""


class Listener(asyncio.Protocol):
    """The connection of one node, which counts the bytes of the changes."""

    received = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(b"SUBSCRIBE mcp\r\n")

    def data_received(self, data: bytes) -> None:
        Listener.received += data.count(b"resources/updated")


async def processor_seconds(redis: Redis) -> float:
    """Return the processor time of Redis."""
    used = await redis.info("cpu")
    return float(used["used_cpu_user"]) + float(used["used_cpu_sys"])


async def measure_changes(redis: Redis, port: int, nodes: int) -> float:
    """Return the processor time of Redis for one change that all nodes receive, in seconds."""
    loop = asyncio.get_running_loop()
    connections = [await loop.create_connection(Listener, "127.0.0.1", port) for _ in range(nodes)]
    while (await redis.pubsub_numsub("mcp"))[0][1] < nodes:
        await asyncio.sleep(0.01)
    Listener.received = 0
    change = json.dumps({"from": "0" * 16, "changes": [["notifications/resources/updated", "notes://some/note"]]})
    before = await processor_seconds(redis)
    for _ in range(CHANGES):
        await redis.publish("mcp", change)
    while Listener.received < nodes * CHANGES:
        await asyncio.sleep(0.01)
    after = await processor_seconds(redis)
    for transport, _ in connections:
        transport.close()
    return (after - before) / CHANGES


async def measure_sessions(redis: Redis, url: str) -> tuple[float, float, float]:
    """Return the processor time of Redis for a saved event and a renewed lease, and the memory of a session."""
    store = RedisEventStore(url, lease_seconds=LEASE_SECONDS)
    empty = int((await redis.info("memory"))["used_memory"])
    names = [f"a.{number:032}" for number in range(MEASURED_SESSIONS)]
    for name in names:
        store.save([SessionChange(name, initialize=b"x" * 300, principal="ada", first_number=1)])
    before = await processor_seconds(redis)
    for number in range(1, EVENTS + 1):
        for name in names:
            event: StoredEvent = (1.5, "5f3a5f3a-1-1", number, b"x" * 200)
            store.save([SessionChange(name, first_number=1, events=[event])])
    saved = await processor_seconds(redis)
    for _ in range(5):
        store.renew(names)
    renewed = await processor_seconds(redis)
    memory = (int((await redis.info("memory"))["used_memory"]) - empty) / MEASURED_SESSIONS
    store.release(names)
    return (saved - before) / (EVENTS * MEASURED_SESSIONS), (renewed - saved) / (5 * MEASURED_SESSIONS), memory


async def main() -> None:
    """Measure, and print a table."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4096)), hard))
    with tempfile.TemporaryDirectory(prefix="mcp_ref-") as folder:
        cluster = Cluster(Path(folder))
        await cluster.start_redis("--maxclients", "2000")
        try:
            url = f"redis://127.0.0.1:{cluster.redis_port}"
            async with Redis.from_url(url) as redis:
                event, lease, memory = await measure_sessions(redis, url)
                print(f"one event costs Redis {event * 1e6:.0f} us, one lease {lease * 1e6:.1f} us;"
                      f" a session with {EVENTS} events has {memory:.0f} bytes")  # fmt: skip
                print(f"limits: {1 / event:,.0f} events a second; {LEASE_SECONDS / 3 / lease:,.0f} sessions by leases")
                print("nodes  messages/change  changes/s, at most  sessions  leases/s  busy with leases  memory")
                for nodes in NODES:
                    change = await measure_changes(redis, cluster.redis_port, nodes)
                    leases = nodes * SESSIONS / (LEASE_SECONDS / 3)
                    print(f"{nodes:5}  1 + {nodes:11}  {1 / change:18,.0f}  {nodes * SESSIONS:8,}  {leases:8,.0f}  "
                          f"{leases * lease:16.1%}  {nodes * SESSIONS * memory / 2**20:,.0f} MiB")  # fmt: skip
        finally:
            await cluster.__aexit__()


if __name__ == "__main__":
    asyncio.run(main())
