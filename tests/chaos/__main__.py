"""Chaos: a server and its clients under faults, and the same checks after each fault.

    python3 -m tests.chaos                          ten minutes, with a new seed
    python3 -m tests.chaos --seed 7 --seconds 20    the same faults in the same order for the same seed

Each round starts a few clients (workload.py), applies one or two faults (faults.py) while the clients work, and ends
the faults. Then all calls must have ended, with a result or an exception of the package. The events of a call must have
arrived in order and once, up to its end or failure. A new client must be served. The server and this process must have
no more tasks, threads, descriptors and children than before the first round. Their memory can grow by `MAX_GROWTH`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import random
import signal
import tempfile
import time

from tests.chaos.checks import PATIENCE, check_rest, check_service
from tests.chaos.faults import FAULTS, World
from tests.chaos.processes import Proxy, ServerProcess
from tests.chaos.server import held
from tests.chaos.workload import JOBS, Outcomes

MAX_GROWTH = 48
"""Maximum growth of the memory of a process after `WARM_ROUNDS`, in megabytes."""
WARM_ROUNDS = 5
"""Number of rounds after which the memory is measured for the first time."""


async def play_round(world: World, rng: random.Random, faults: list[str]) -> None:
    """Run some clients under the faults, and check that all their calls end."""
    outcomes = Outcomes()
    jobs = [asyncio.create_task(rng.choice(JOBS)(world, random.Random(rng.random()), outcomes)) for _ in range(6)]
    await asyncio.sleep(rng.uniform(0, 0.5))
    await asyncio.gather(*(FAULTS[name](world, random.Random(rng.random())) for name in faults))
    _, pending = await asyncio.wait(jobs, timeout=PATIENCE)
    assert not pending, f"calls that never end: {[task.get_coro() for task in pending]}"
    for job in jobs:
        job.result()
    world.outcomes.update(outcomes)


async def play(world: World, seed: int, seconds: float, names: list[str]) -> None:
    """Play rounds until the time is over. Raise AssertionError if a check fails."""
    errors: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
    await check_service(world.proxy.url)
    server, ours = await world.server.get("/state"), held()
    first: dict[str, int] = {}
    rng, end, rounds = random.Random(seed), time.monotonic() + seconds, 0
    while (start := time.monotonic()) < end:
        faults = rng.sample(names, min(len(names), rng.choice([1, 1, 2])))
        print(f"{rounds:4} {' + '.join(faults)}", end="", flush=True)
        await play_round(world, rng, faults)
        await check_service(world.proxy.url)
        await check_rest(world.server, server, ours)
        world.server.check_log()
        assert not errors, f"the event loop of the clients reports {errors}"
        rounds += 1
        memory = {"server": (await world.server.get("/state"))["memory"], "clients": held()["memory"]}
        first = memory if rounds == WARM_ROUNDS else first
        print(f": {time.monotonic() - start:.1f} s, memory in MiB {memory}", flush=True)
        for name, size in first.items():
            assert memory[name] <= size + MAX_GROWTH, f"the memory of the {name} grew from {size} MiB: {memory}"
    print(f"seed {seed}: {rounds} rounds, {dict(world.outcomes)}")


async def run(seed: int, seconds: float, names: list[str]) -> None:
    """Start the server and the proxy, play, and end both."""
    with tempfile.TemporaryDirectory() as folder:
        store = os.path.join(folder, "store.db")
        server = ServerProcess(store)
        world = World(server, Proxy(server), store)
        await server.start()
        await world.proxy.start()
        try:
            await play(world, seed, seconds, names)
        except BaseException:
            print(f"\nseed {seed} failed; the end of the server's log:\n{server.log[-2000:].decode()}")
            raise
        finally:
            await world.proxy.close()
            with contextlib.suppress(ProcessLookupError):
                await server.stop(signal.SIGKILL)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9))
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--fault", action="append", choices=FAULTS, help="apply only this fault")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    print(f"seed {options.seed}", flush=True)
    asyncio.run(run(options.seed, options.seconds, options.fault or sorted(FAULTS)))
