"""A soak: many calls in both eras, by clients that come, go and die. Memory and descriptors must not grow.

    python3 -m tests.chaos.soak                  100,000 calls
    python3 -m tests.chaos.soak --calls 10000

The program prints a table of ten rows. Before each row is printed, all clients leave, and both processes must release
their resources. A third of the clients connect through a proxy, which resets their connections, so that they cannot end
their sessions. The memory must not grow by more than `MAX_GROWTH` after the second row.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import random
import signal
import tempfile
import time

from mcp_ref import Client, McpError
from tests.chaos.checks import check_rest, check_service
from tests.chaos.processes import Proxy, ServerProcess, State
from tests.chaos.server import held
from tests.settings import MODERN

ROWS = 10
CLIENTS = 20
"""Number of clients at the same time."""
MAX_GROWTH = 16
"""Maximum growth of the memory of a process after the second row, in megabytes."""
REVISIONS = ["2025-03-26", "2025-06-18", "2025-11-25", MODERN, MODERN, MODERN]


class Soak:
    """The counters of a soak, and the clients of one row."""

    def __init__(self, url: str, proxy: Proxy) -> None:
        self._url, self._proxy, self._rng = url, proxy, random.Random(1)
        self.calls = self.failed = self.clients = 0

    async def run(self, calls: int) -> None:
        """Make this number of calls, and cut the connections of the clients that die meanwhile."""
        end = self.calls + calls
        async with asyncio.TaskGroup() as group:
            visitors = [group.create_task(self._visit(end)) for _ in range(CLIENTS)]
            while not all(task.done() for task in visitors):
                await asyncio.sleep(self._rng.uniform(0.2, 1))
                self._proxy.cut()

    async def _visit(self, end: int) -> None:
        """Run one client after another, until `end` calls are made."""
        while self.calls < end:
            self.clients += 1
            url = self._rng.choice([self._url, self._url, self._proxy.url])
            try:
                async with Client(url, revision=self._rng.choice(REVISIONS), timeout=10) as client:
                    for _ in range(min(self._rng.randint(1, 200), end - self.calls)):
                        self.calls += 1
                        if self._rng.random() < 0.02:
                            assert (await client.call_tool("count", {"to": 20, "pause": 0})).text == "20"
                        else:
                            assert (await client.call_tool("add", {"a": self.calls, "b": 1})).text
            except McpError:
                assert url == self._proxy.url, "a call of a client that did not die has failed"
                self.failed += 1


async def main(calls: int) -> None:
    """Print the table. Raise AssertionError if a process does not release its resources, or if its memory grows."""
    with tempfile.TemporaryDirectory() as folder:
        server = ServerProcess(os.path.join(folder, "store.db"))
        await server.start()
        proxy = Proxy(server)
        await proxy.start()
        url = f"http://127.0.0.1:{server.port}/mcp"
        try:
            await check_service(url)
            soak, before, ours, start = Soak(url, proxy), await server.get("/state"), held(), time.monotonic()
            print("                                 |            server             |            clients")
            print(
                "  calls  clients  died  calls/s  | MiB  descriptors  tasks  threads | MiB  descriptors  tasks  threads"
            )
            first: list[State] = []
            for row in range(ROWS):
                await soak.run(calls // ROWS)
                await check_rest(server, before, ours)
                now = [await server.get("/state"), held()]
                cells = [f"{n['memory']:4} {n['descriptors']:12} {n['tasks']:6} {n['threads']:8}" for n in now]
                rate = soak.calls / (time.monotonic() - start)
                print(f"{soak.calls:7} {soak.clients:8} {soak.failed:5} {rate:8.0f}  |{' |'.join(cells)}", flush=True)
                first = now if row == 1 else first
                for then, state in zip(first, now, strict=False):
                    assert state["memory"] <= then["memory"] + MAX_GROWTH, "the memory of a process has grown too much"
            await check_service(url)
        finally:
            await proxy.close()
            assert await server.stop(signal.SIGTERM) == 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=100_000)
    logging.disable(logging.WARNING)
    asyncio.run(main(parser.parse_args().calls))
