"""The server of the chaos program and of the soak.

    python3 -m tests.chaos.server                        serves over stdio
    python3 -m tests.chaos.server store.db               serves over HTTP, with an event store in this file
    python3 -m tests.chaos.server store.db 2025-11-25    serves one revision over stdio
    python3 -m tests.chaos.server store.db bridge        serves a bridge over HTTP to a server of each era over stdio

The path /state returns the resources of the process (`held`). The path /step moves the clock by a number of seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import os
import sys
import threading
import time
from pathlib import Path

_clock, _offset = time.time, [0.0]
time.time = lambda: _clock() + _offset[0]  # before the package is imported

from mcp_ref import Context, EndpointLimits, HttpRequest, Server, SqliteEventStore  # noqa: E402
from mcp_ref.bridge.bridge import Bridge  # noqa: E402

LIBC = ctypes.CDLL(None)
"""The C library. glibc has `malloc_trim`."""

ROLE = sys.argv[2] if __name__ == "__main__" and len(sys.argv) > 2 else ""
server = Server("chaos", revisions=[ROLE] if ROLE.startswith("20") else None)


@server.tool()
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
async def count(to: int, pause: float, context: Context) -> int:
    """Log the numbers from 0 to `to` - 1, with pauses in seconds between them."""
    for number in range(to):
        await context.log("info", number)
        await asyncio.sleep(pause)
    return to


@server.tool()
def block(seconds: float) -> str:
    """Block a worker thread."""
    time.sleep(seconds)
    return "done"


@server.tool()
async def stall(seconds: float) -> str:
    """Block the event loop, as a wrong `async def` tool does."""
    time.sleep(seconds)
    return "done"


@server.tool()
async def ask(context: Context) -> str:
    """Ask the user for a name."""
    form = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    return str((await context.elicit("Your name?", form)).content)


@server.tool()
async def large(size: int) -> str:
    """Return a text of this length."""
    return "x" * size


@server.tool()
async def change(context: Context) -> str:
    """Add and remove a resource, so that all subscribed clients are notified."""
    server.resources.add("chaos://new", lambda: "")
    server.resources.remove("chaos://new")
    return "changed"


async def state(request: HttpRequest) -> dict[str, object]:
    """Return the resources of this process."""
    return dict(held())


async def step(request: HttpRequest) -> dict[str, object]:
    """Move the clock."""
    _offset[0] += float(request.query)
    return {}


def children(pid: int | str = "self") -> list[int]:
    """Return the ids of the children of a process."""
    found: list[int] = []
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended meanwhile
            found += map(int, (thread / "children").read_text().split())
    return found


def held() -> dict[str, int]:
    """Return the numbers of tasks, threads (without workers), descriptors and children of this process, and its memory
    in MiB. The allocator first gives back the pages of memory that is free already, which it would keep otherwise."""
    try:
        tasks = len(asyncio.all_tasks())
    except RuntimeError:
        tasks = 0
    gc.collect()
    if hasattr(LIBC, "malloc_trim"):
        LIBC.malloc_trim(0)
    memory = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 2**20
    return {
        "tasks": tasks,
        "threads": sum(not each.name.startswith("mcp-worker") for each in threading.enumerate()),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "children": len(children()),
        "memory": memory,
    }


def bridged(store: str) -> Bridge:
    """Return a bridge to a server of each era. A held call ends after three seconds instead of 15 minutes."""
    command = [sys.executable, "-m", "tests.chaos.server", store]
    bridge = Bridge({"legacy": [*command, "2025-11-25"], "modern": [*command, "2026-07-28"]})
    bridge.relay.held.seconds = 3.0
    return bridge


if __name__ == "__main__":
    if len(sys.argv) == 1 or ROLE.startswith("20"):
        server.run()
    else:
        limits = EndpointLimits(session_idle=1.0, keep_alive=0.25, retry=50)
        routes = {"/state": state, "/step": step}
        served = bridged(sys.argv[1]).server if ROLE == "bridge" else server
        served.run_http(port=0, store=SqliteEventStore(sys.argv[1]), limits=limits, routes=routes, drain_seconds=1)
