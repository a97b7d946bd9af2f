"""The faults. Each fault begins while the clients work, and ends before its function returns."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import resource
import signal
import socket
import sqlite3
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from mcp_ref import Client, McpError
from mcp_ref.lib.http.response import HttpError
from tests.chaos.processes import Proxy, ServerProcess


@dataclass
class World:
    """The server, the proxy, and the outcomes of all rounds."""

    server: ServerProcess
    proxy: Proxy
    store: str
    outcomes: Counter[str] = field(default_factory=Counter)
    only_one: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while the process restarts or the store is locked: a process cannot start with a locked store."""


async def kill_server(world: World, rng: random.Random) -> None:
    """Kill the server's process, and start it again with the same store."""
    async with world.only_one:
        await world.server.stop(signal.SIGKILL)
        await asyncio.sleep(rng.uniform(0, 0.3))
        await world.server.start()


async def terminate_server(world: World, rng: random.Random) -> None:
    """End the server by SIGTERM, which must take less than five seconds, and start it again."""
    async with world.only_one:
        code = await world.server.stop(signal.SIGTERM, 5)
        assert code == 0, f"the server ended with exit code {code}: {world.server.log[-1000:].decode()}"
        await world.server.start()


async def fill_disk(world: World, rng: random.Random) -> None:
    """Let each write to a file fail. Sometimes also cut the connections."""
    with contextlib.suppress(ProcessLookupError):
        world.server.limit(resource.RLIMIT_FSIZE, 0)
        await asyncio.sleep(rng.uniform(0.1, 1))
        if rng.random() < 0.5:
            world.proxy.cut()
            await asyncio.sleep(rng.uniform(0.1, 1))
        world.server.limit(resource.RLIMIT_FSIZE, None)


async def lock_store(world: World, rng: random.Random) -> None:
    """Lock the file of the event store, as a backup does."""
    async with world.only_one:
        with contextlib.closing(sqlite3.connect(world.store, timeout=0, isolation_level=None)) as database:
            with contextlib.suppress(sqlite3.OperationalError):  # the server is writing
                database.execute("BEGIN EXCLUSIVE")
            await asyncio.sleep(rng.uniform(0.2, 3))


async def cut_connections(world: World, rng: random.Random) -> None:
    """Reset all connections a few times."""
    for _ in range(rng.randint(1, 5)):
        world.proxy.cut()
        await asyncio.sleep(rng.uniform(0.01, 0.3))


async def delay_connections(world: World, rng: random.Random) -> None:
    """Delay all data between the clients and the server."""
    world.proxy.delay = rng.uniform(0.05, 0.3)
    await asyncio.sleep(rng.uniform(0.2, 1))
    world.proxy.delay = 0.0


async def step_clock(world: World, rng: random.Random) -> None:
    """Move the server's clock forwards or backwards, and back again."""
    seconds = rng.choice([-86400, -3600, -1, 1, 3600, 86400])
    for each in (seconds, -seconds):
        with contextlib.suppress(HttpError, OSError, TimeoutError):
            await world.server.get(f"/step?{each}")
        await asyncio.sleep(rng.uniform(0.1, 1))


async def exhaust_descriptors(world: World, rng: random.Random) -> None:
    """Lower the limit of file descriptors, and open more connections than the limit allows."""
    pid = world.server.process.pid
    with contextlib.suppress(ProcessLookupError, FileNotFoundError):
        world.server.limit(resource.RLIMIT_NOFILE, len(os.listdir(f"/proc/{pid}/fd")) + rng.randint(0, 5))
        connections = []
        for _ in range(50):
            connections.append(socket.socket())
            connections[-1].setblocking(False)
            connections[-1].connect_ex(("127.0.0.1", world.server.port))
        await asyncio.sleep(rng.uniform(0.2, 1.5))
        for connection in connections:
            connection.close()
        world.server.limit(resource.RLIMIT_NOFILE, None)


async def stop_server(world: World, rng: random.Random) -> None:
    """Suspend the server's process for a moment, like a laptop that sleeps."""
    with contextlib.suppress(ProcessLookupError):
        world.server.process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(rng.uniform(0.2, 2))
        world.server.process.send_signal(signal.SIGCONT)


async def stall_server(world: World, rng: random.Random) -> None:
    """Call a tool that blocks the event loop of the server."""
    with contextlib.suppress(McpError):
        async with Client(world.proxy.url, timeout=5) as client:
            await client.call_tool("stall", {"seconds": rng.uniform(0.2, 1.5)})


async def stall_clients(world: World, rng: random.Random) -> None:
    """Block the event loop of all clients."""
    time.sleep(rng.uniform(0.2, 1.5))


Fault = Callable[[World, random.Random], Awaitable[None]]
FAULTS: dict[str, Fault] = {
    function.__name__: function
    for function in (
        kill_server, terminate_server, fill_disk, lock_store, cut_connections, delay_connections, step_clock,
        exhaust_descriptors, stop_server, stall_server, stall_clients,
    )
}  # fmt: skip
