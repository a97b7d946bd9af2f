"""Chaos on many machines: nodes, Redis and the load balancer fail while clients of both eras work.

    python3 -m tests.many_machines.chaos                         twenty minutes, with a new seed
    python3 -m tests.many_machines.chaos --seed 7 --seconds 30   the same faults in the same order for the same seed

Each round applies one fault to the four nodes of examples/many_machines/, and ends it. A call can fail during a fault,
but it must end. After each round, these must be true:

    served      a new client of each era can call a tool
    updates     a client of each era that has subscribed gets an update which another client causes now
    one owner   the events of a session in Redis were written by one process after another, never by two in turn
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from itertools import groupby
from pathlib import Path

from mcp_ref import McpError
from tests.settings import ROOT

sys.path.append(str(ROOT / "examples" / "many_machines"))

import run
from run import ERAS, NODES, SECONDS, Cluster, client_of

HEAL_SECONDS = 60.0
"""Maximum time after the end of a fault until all is right again, in seconds: long, for a busy machine."""
CALL_SECONDS = 3 * SECONDS
"""Maximum time of one call, in seconds. The client's own limit is `SECONDS`."""
run.PROCESS_SECONDS = 300.0

Fault = Callable[[Cluster, random.Random], Awaitable[None]]


async def kill_node(cluster: Cluster, rng: random.Random) -> None:
    """Kill a node, and start it again."""
    await restart(cluster, rng, signal.SIGKILL)


async def terminate_node(cluster: Cluster, rng: random.Random) -> None:
    """End a node by SIGTERM, and start it again."""
    await restart(cluster, rng, signal.SIGTERM)


async def restart(cluster: Cluster, rng: random.Random, number: int) -> None:
    """End a node by a signal, and start it again after up to two leases."""
    name = rng.choice(NODES)
    code = await cluster.stop(name, number)
    assert code == (0 if number == signal.SIGTERM else -number), f"node {name} ended with exit code {code}"
    await asyncio.sleep(rng.uniform(0, 2))
    await cluster.start_node(name)


async def stop_node(cluster: Cluster, rng: random.Random) -> None:
    """Stop a node for up to three leases. The load balancer does not notice it, so calls wait for the node."""
    await pause(cluster, rng.choice(NODES), rng.uniform(0.1, 3))


async def stop_redis(cluster: Cluster, rng: random.Random) -> None:
    """Stop Redis for up to five seconds."""
    await pause(cluster, "redis", rng.uniform(0.1, 5))


async def pause(cluster: Cluster, name: str, seconds: float) -> None:
    """Stop a program for some time."""
    cluster.processes[name].send_signal(signal.SIGSTOP)
    await asyncio.sleep(seconds)
    cluster.processes[name].send_signal(signal.SIGCONT)


async def empty_redis(cluster: Cluster, rng: random.Random) -> None:
    """Kill Redis, and start an empty one."""
    await cluster.stop("redis", signal.SIGKILL)
    await asyncio.sleep(rng.uniform(0, 2))
    await cluster.start_redis()


async def fill_redis(cluster: Cluster, rng: random.Random) -> None:
    """Let Redis refuse all writes for a while."""
    from redis.asyncio import Redis

    async with Redis.from_url(f"redis://127.0.0.1:{cluster.redis_port}") as redis:
        await redis.config_set("maxmemory", "1")
        await asyncio.sleep(rng.uniform(0.1, 3))
        await redis.config_set("maxmemory", "0")


async def kill_balancer(cluster: Cluster, rng: random.Random) -> None:
    """Kill the load balancer, and start it again."""
    await cluster.stop("balancer", signal.SIGTERM)
    await asyncio.sleep(rng.uniform(0, 1))
    await cluster.start_balancer()


FAULTS: dict[str, Fault] = {
    each.__name__: each
    for each in (kill_node, terminate_node, stop_node, stop_redis, empty_redis, fill_redis, kill_balancer)
}


async def work(cluster: Cluster, revision: str, done: asyncio.Event, outcomes: Counter[str]) -> None:
    """Call tools until `done`. Each call must end with a result or an exception of the package."""
    while not done.is_set():
        try:
            async with client_of(cluster.url, revision) as client:
                for _ in range(10):
                    async with asyncio.timeout(CALL_SECONDS):
                        await client.call_tool("greet")
                    outcomes["calls"] += 1
                async with asyncio.timeout(CALL_SECONDS):
                    done_task = await client.call_tool("count_to", {"number": 5})
                outcomes["failed tasks" if done_task.is_error else "tasks"] += 1
        except McpError:
            outcomes["failed calls"] += 1
            await asyncio.sleep(0.1)


async def check_served(cluster: Cluster, revision: str) -> None:
    """Call a tool on each node."""
    for _ in NODES:
        async with client_of(cluster.url, revision) as client:
            await client.call_tool("which_node")


async def check_updates(cluster: Cluster, revision: str) -> None:
    """Subscribe, and receive an update that another client causes."""
    async with client_of(cluster.url, revision) as client, client.subscribe("notes://chaos") as updates:
        async with client_of(cluster.url, ERAS[0]) as writer:
            written = await writer.call_tool("write", {"name": "chaos", "text": str(time.time())})
        if written.is_error:
            raise McpError(written.text)
        async with asyncio.timeout(2.0):
            await anext(updates)


async def check_owners(cluster: Cluster) -> int:
    """Check that no two processes have written the events of a session in turn. Return the number of sessions."""
    from redis.asyncio import Redis

    async with Redis.from_url(f"redis://127.0.0.1:{cluster.redis_port}") as redis:
        keys = [key async for key in redis.scan_iter("mcp:*:events")]
        for key in keys:
            entries = await redis.xrange(key)
            # the name of a stream begins with a random text of the process, except that of the listening stream
            streams = [fields[b"s"] for _, fields in entries if b"-" in fields[b"s"]]
            writers = [writer for writer, _ in groupby(stream.split(b"-")[0] for stream in streams)]
            assert len(writers) == len({*writers}), f"two processes have written {key!r} in turn: {writers}"
    return len(keys)


async def heal(cluster: Cluster) -> None:
    """Wait until all is right, or raise the last failure."""
    deadline = time.monotonic() + HEAL_SECONDS
    for check in (check_served, check_updates):
        for revision in ERAS:
            while True:
                try:
                    await check(cluster, revision)
                    break
                except (McpError, TimeoutError):
                    if time.monotonic() > deadline:
                        raise
                    await asyncio.sleep(0.2)


async def play(seed: int, seconds: float, only: str | None = None) -> None:
    """Apply faults until the time is over."""
    rng, outcomes, sessions = random.Random(seed), Counter[str](), 0
    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory(prefix="mcp_ref-") as folder:
        async with Cluster(Path(folder), {"LEASE": "1"}) as cluster:
            while time.monotonic() < end:
                name = only or rng.choice([*FAULTS])
                fault_rng = random.Random(rng.random())
                done, began = asyncio.Event(), time.monotonic()
                async with asyncio.TaskGroup() as group:
                    for revision in ERAS:
                        group.create_task(work(cluster, revision, done, outcomes))
                    await asyncio.sleep(0.2)
                    await FAULTS[name](cluster, fault_rng)
                    await asyncio.sleep(0.2)
                    sessions += await check_owners(cluster)  # before the clients delete their sessions
                    done.set()
                await heal(cluster)
                outcomes["rounds"] += 1
                print(f"{time.monotonic() - began:5.1f} s  {name}", flush=True)
    print(f"seed {seed}: {dict(outcomes)}, {sessions} sessions checked")
    assert sessions and outcomes["calls"], "nothing was checked"


def main() -> None:
    """Run the program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--seconds", type=float, default=1200.0)
    parser.add_argument("--fault", choices=[*FAULTS], help="apply only this fault")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(play(options.seed, options.seconds, options.fault))


if __name__ == "__main__":
    main()
