"""A soak: many calls in both eras, by clients that come, go and die. Memory and descriptors must not grow.

    python3 -m tests.chaos.soak                         100,000 calls
    python3 -m tests.chaos.soak --calls 10000
    python3 -m tests.chaos.soak --bridge --minutes 30   through a bridge, whose servers are killed

The program prints a table of ten rows. Before each row is printed, all clients leave, and both processes must release
their resources. A third of the clients connect through a proxy, which resets their connections, so that they cannot end
their sessions. The memory must not grow by more than `MAX_GROWTH` after the second row.

The bridge has a server of each era behind it, over stdio. A call fails if its server is killed, and may be refused in
the pause after that, but each call ends. Some clients start a bridge of their own over stdio, which is killed; then its
server must end too.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

from mcp_ref import Client, ElicitRequestFormParams, ElicitRequestURLParams, ElicitResult, McpError, RequestTimeout
from tests.chaos.checks import PATIENCE, check_rest, check_service
from tests.chaos.processes import Proxy, ServerProcess, State
from tests.chaos.server import children, held
from tests.settings import MODERN, ROOT

ROWS = 10
CLIENTS = 20
"""Number of clients at the same time. Through a bridge, which starts a process for most of them, there are fewer."""
BRIDGE_CLIENTS = 8
MAX_GROWTH = 16
"""Maximum growth of the memory of a process after the second row, in megabytes."""
MAX_POOLED = 14
"""Maximum number of children of a bridge without clients: four for each set of capabilities, and a modern server."""
REVISIONS = ["2025-03-26", "2025-06-18", "2025-11-25", MODERN, MODERN, MODERN]
EXCUSES = (
    *("was lost", "was cut off", "is tried again", "could not be started", "clients in use", "not held"),
    "was used",
)
"""The parts of the messages of a bridge about a call whose server was killed."""


async def accept(request: ElicitRequestFormParams | ElicitRequestURLParams) -> ElicitResult:
    return ElicitResult("accept", {"name": "Ada"})


def command_line(pid: int) -> bytes:
    """Return the words of a process's command; nothing for a process that has ended."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


class Soak:
    """The counters of a soak, and the clients of one row."""

    def __init__(self, server: ServerProcess, proxy: Proxy, store: str, is_bridge: bool, seed: int) -> None:
        self._server, self._proxy, self._store, self._is_bridge = server, proxy, store, is_bridge
        self._url, self._rng = f"http://127.0.0.1:{server.port}/mcp", random.Random(seed)
        self.tools = ["legacy__", "modern__"] if is_bridge else [""]
        """The prefix of the names of each server's tools."""
        self.calls = self.failed = self.clients = self.kills = 0

    async def run(self, calls: float, seconds: float) -> None:
        """Call until the row has enough calls or seconds, and cut and kill meanwhile."""
        self._last_call, self._end = self.calls + calls, time.monotonic() + seconds
        async with asyncio.TaskGroup() as group:
            visitors = [group.create_task(self._visit()) for _ in range(BRIDGE_CLIENTS if self._is_bridge else CLIENTS)]
            if self._is_bridge:
                visitors += [group.create_task(self._kill_servers()), group.create_task(self._kill_bridges())]
            while not all(task.done() for task in visitors):
                await asyncio.sleep(self._rng.uniform(0.2, 1))
                self._proxy.cut()

    def _is_over(self) -> bool:
        return self.calls >= self._last_call or time.monotonic() >= self._end

    async def _visit(self) -> None:
        """Run one client after another until the end of the row."""
        while not self._is_over():
            self.clients += 1
            url = self._rng.choice([self._url, self._url, self._proxy.url])
            answer, told = self._rng.choice([None, accept]), self._rng.choice([None, None, lambda: None])
            try:
                async with Client(url, revision=self._rng.choice(REVISIONS), timeout=60 if self._is_bridge else 10,
                                  elicitation=answer, on_resources_changed=told) as client:  # fmt: skip
                    for _ in range(self._rng.randint(1, 200)):
                        if self._is_over():
                            break
                        await self._call(client, can_ask=answer is not None and client.revision.name >= "2025-06-18")
            except McpError as error:
                is_excused = self._is_bridge and any(excuse in str(error) for excuse in EXCUSES)
                assert url == self._proxy.url or is_excused, f"a call of a client that did not die has failed: {error}"
                self.failed += 1
                await asyncio.sleep(0.1)  # a refused client must not spin

    async def _call(self, client: Client, can_ask: bool) -> None:
        self.calls += 1
        number, server, kind = self.calls, self._rng.choice(self.tools), self._rng.random()
        if kind < 0.02:
            assert (await client.call_tool(f"{server}count", {"to": 20, "pause": 0})).text == "20"
        elif not self._is_bridge or kind > 0.2:
            assert (await client.call_tool(f"{server}add", {"a": number, "b": 1})).text == str(number + 1)
        elif kind < 0.1 and can_ask:
            asked = await client.call_tool(f"{server}ask")
            assert asked.is_error or "Ada" in asked.text, asked
        elif kind < 0.12:
            with contextlib.suppress(RequestTimeout):
                await client.call_tool(f"{server}count", {"to": 1000, "pause": 0.01}, timeout=0.05)
        elif kind < 0.14:
            assert len((await client.call_tool(f"{server}large", {"size": 10**6})).text) == 10**6
        elif kind < 0.16:
            assert (await client.call_tool(f"{server}change")).text == "changed"
        else:
            assert len(await client.list_tools()) >= 7

    async def _kill_servers(self) -> None:
        """Kill a server behind the bridge from time to time."""
        while not self._is_over():
            await asyncio.sleep(self._rng.uniform(1, 10))
            servers = children(self._server.process.pid)
            if servers:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._rng.choice(servers), signal.SIGKILL)
                    self.kills += 1

    async def _kill_bridges(self) -> None:
        """Kill a bridge over stdio from time to time, in the middle of a call."""
        back = [sys.executable, "-m", "tests.chaos.server", self._store]
        while not self._is_over():
            await asyncio.sleep(self._rng.uniform(5, 20))
            command = [sys.executable, "-m", "mcp_ref", "bridge", "--", *back, self._rng.choice(["2025-11-25", MODERN])]
            before = set(children())
            with contextlib.suppress(McpError):
                async with Client(command, revision=self._rng.choice(REVISIONS), cwd=ROOT, timeout=60) as client:
                    call = asyncio.create_task(client.call_tool("count", {"to": 1000, "pause": 0.01}))
                    await asyncio.sleep(self._rng.uniform(0, 0.5))
                    for pid in set(children()) - before:
                        os.kill(pid, signal.SIGKILL)
                        self.kills += 1
                    await call

    async def check_strays(self) -> None:
        """Wait until all servers have ended whose bridges were killed."""
        strays = [0]
        async with asyncio.timeout(PATIENCE):
            while strays:
                await asyncio.sleep(0.1)
                known = {os.getpid(), self._server.process.pid, *children(self._server.process.pid)}
                strays = [pid for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))) if pid not in known]
                strays = [pid for pid in strays if self._store.encode() in command_line(pid)]


async def main(calls: float, seconds: float, is_bridge: bool, seed: int) -> None:
    """Print the table. Raise AssertionError if a process does not release its resources, or if its memory grows."""
    with tempfile.TemporaryDirectory() as folder:
        store = os.path.join(folder, "store.db")
        server = ServerProcess(store, *(["bridge"] if is_bridge else []))
        await server.start()
        proxy = Proxy(server)
        await proxy.start()
        soak = Soak(server, proxy, store, is_bridge, seed)
        url, tools = f"http://127.0.0.1:{server.port}/mcp", [f"{prefix}add" for prefix in soak.tools]
        try:
            await check_service(url, tools)
            most_children = 2 if is_bridge else 0
            before = await server.get("/state")
            while before["children"] > most_children:  # until the processes of `check_service` have ended
                await asyncio.sleep(0.1)
                before = await server.get("/state")
            ours, start = held(), time.monotonic()
            print(
                "                                        |                 server                  |            clients"
            )
            print("  calls  clients  failed  kills  calls/s  |"
                  + " MiB  descriptors  tasks  threads  children |" * 2)  # fmt: skip
            first: list[State] = []
            for row in range(ROWS):
                await soak.run(calls / ROWS, seconds / ROWS)
                await check_rest(server, before, ours, MAX_POOLED if is_bridge else 0)
                now = [await server.get("/state"), held()]
                cells = [
                    f"{n['memory']:4} {n['descriptors']:12} {n['tasks']:6} {n['threads']:8} {n['children']:9} "
                    for n in now
                ]
                rate = soak.calls / (time.monotonic() - start)
                print(f"{soak.calls:7} {soak.clients:8} {soak.failed:7} {soak.kills:6} {rate:8.0f}  |{'|'.join(cells)}",
                      flush=True)  # fmt: skip
                await soak.check_strays()
                server.check_log()
                first = now if row == 1 else first
                for then, state in zip(first, now, strict=False):
                    assert state["memory"] <= then["memory"] + MAX_GROWTH, "the memory of a process has grown too much"
        except BaseException:
            print(f"seed {seed} failed; the end of the server's log:\n{server.log[-8000:].decode()}")
            raise
        finally:
            await proxy.close()
            assert await server.stop(signal.SIGTERM) == 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=float, help="number of calls; 100,000 without --minutes")
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--bridge", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    calls = options.calls or (float("inf") if options.minutes else 100_000.0)
    logging.disable(logging.WARNING)
    asyncio.run(main(calls, 60 * (options.minutes or float("inf")), options.bridge, options.seed))
