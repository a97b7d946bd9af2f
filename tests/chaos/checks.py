"""The checks after each round of faults, and before each row of the table of soak.py."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Sequence

from mcp_ref import Client
from tests.chaos.processes import ServerProcess, State
from tests.chaos.server import held
from tests.settings import MODERN

PATIENCE = 15.0
"""Maximum time for all calls to end after a fault, and for the processes to release their resources, in seconds."""


PER_CHILD = {"tasks": 4, "threads": 1, "descriptors": 3, "children": 1}
"""The resources that a process needs for one child over stdio."""


async def check_service(url: str, tools: Sequence[str] = ("add",)) -> None:
    """Check that new clients of both eras are served."""
    for revision in ("2025-11-25", MODERN):
        async with asyncio.timeout(PATIENCE), Client(url, revision=revision) as client:
            for tool in tools:
                assert (await client.call_tool(tool, {"a": 1, "b": 2})).text == "3"


async def check_rest(process: ServerProcess, server: State, ours: State, most: int = 0) -> None:
    """Wait until the server and this process have no more resources than `server` and `ours`.

    The server can have up to `most` children, and the resources for them.
    """
    deadline = time.monotonic() + PATIENCE
    while True:
        gc.collect()
        now = {"server": await process.get("/state"), "clients": held()}
        kept = max(0, min(now["server"]["children"], most) - server["children"])
        limits = {"server": {kind: server[kind] + kept * PER_CHILD[kind] for kind in PER_CHILD}, "clients": ours}
        extra = {
            f"{name}: {kind}": (limits[name][kind], now[name][kind])
            for name in now
            for kind in PER_CHILD
            if now[name][kind] > limits[name][kind]
        }
        if not extra:
            return
        if time.monotonic() > deadline:
            tasks = "\n".join(map(str, asyncio.all_tasks()))
            raise AssertionError(f"not released (limit, number now): {extra}\n{tasks}")
        await asyncio.sleep(0.05)
