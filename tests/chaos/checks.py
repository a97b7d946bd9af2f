"""The checks after each round of faults, and before each row of the table of soak.py."""

from __future__ import annotations

import asyncio
import gc
import time
from pathlib import Path

from mcp_ref import Client
from tests.chaos.processes import ServerProcess, State
from tests.chaos.server import held
from tests.settings import MODERN

PATIENCE = 15.0
"""Maximum time for all calls to end after a fault, and for the processes to release their resources, in seconds."""


def children() -> list[int]:
    """Return the ids of this process's children."""
    return [int(pid) for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()]


async def check_service(url: str) -> None:
    """Check that new clients of both eras are served."""
    for revision in ("2025-11-25", MODERN):
        async with asyncio.timeout(PATIENCE), Client(url, revision=revision) as client:
            assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"


async def check_rest(process: ServerProcess, server: State, ours: State) -> None:
    """Wait until the server and this process have no more resources than `server` and `ours`, and one child."""
    deadline = time.monotonic() + PATIENCE
    while True:
        gc.collect()
        now = {"server": await process.get("/state"), "clients": held()}
        before = {"server": server, "clients": ours}
        extra = {
            f"{name}: {kind}": (before[name][kind], now[name][kind])
            for name in now
            for kind in ("tasks", "threads", "descriptors")
            if now[name][kind] > before[name][kind]
        }
        if len(children()) > 1:
            extra["children"] = (1, len(children()))
        if not extra:
            return
        if time.monotonic() > deadline:
            tasks = "\n".join(map(str, asyncio.all_tasks()))
            raise AssertionError(f"not released (number before, number now): {extra}\n{tasks}")
        await asyncio.sleep(0.05)
