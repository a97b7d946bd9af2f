"""A soak test of the host: three healthy servers beside one that dies, one that is silent, and one that floods.

    python3 tests/bench/soak_host.py --minutes 10

First it measures calls of the healthy servers in a quiet host. Then it measures them beside the unhealthy servers, in
alternating periods, so that a noisy machine is noisy for both. The 99th percentile of the calls in the noisy host must
be at most twice the 99th percentile in the quiet host. The memory of the host's process must not grow after the first
minute, and all processes must end with the host.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from mcp_ref import Host, McpError  # noqa: E402

PERIOD = 10.0
"""Time of one period of measurement, in seconds."""

PAUSE = 0.005
"""Pause between two calls, in seconds."""

HEALTHY = """
from mcp_ref import Server
server = Server("healthy")
@server.tool()
async def add(a: int, b: int) -> int:
    return a + b
server.run()
"""

DYING = """
import asyncio, os, random
from mcp_ref import Server
server = Server("dying")
@server.tool()
async def work() -> str:
    await asyncio.sleep(random.random())
    os._exit(9)
server.run()
"""

SILENT = "import sys\nfor line in sys.stdin: pass"

FLOODING = """
import json, sys
def send(message): print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "initialize":
        server = {"name": "flooding", "version": "1"}
        capabilities = {"logging": {}, "tools": {"listChanged": True}}
        send({"id": message["id"], "result": {
            "protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": server}})
    elif message.get("method") == "tools/list":
        send({"id": message["id"], "result": {"tools": []}})
        log = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x" * 100}}
        changed = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
        frames = "".join(json.dumps(each) + "\\n" for each in [log] * 99 + [changed])
        while True:
            sys.stdout.write(frames)
            sys.stdout.flush()
    elif "id" in message:
        send({"id": message["id"], "error": {"code": -32601, "message": "Method not found"}})
"""


def entry(source: str, **options: float) -> dict[str, object]:
    """Return a server that runs a Python program."""
    return {"command": sys.executable, "args": ["-c", source], "env": {"PYTHONPATH": str(ROOT)}, **options}


async def measure(host: Host, seconds: float, times: list[float]) -> None:
    """Call the tool of each healthy server in turn, and add the time of each call."""
    end = time.perf_counter() + seconds
    while (start := time.perf_counter()) < end:
        for number in range(3):
            await host.call_tool(f"healthy-{number}.add", {"a": 1, "b": 2})
            now = time.perf_counter()
            times.append(now - start)
            await asyncio.sleep(PAUSE)
            start = time.perf_counter()


async def annoy(host: Host) -> None:
    """Call the tool that kills its server, again and again, also after the host has given the server up."""
    while True:
        with contextlib.suppress(McpError, LookupError):
            await host.call_tool("dying.work", timeout=2.0)
        if next(status for status in host.status() if status.name == "dying").state.value == "failed":
            await host.restart("dying")
        await asyncio.sleep(0.1)


def percentile(times: list[float]) -> float:
    """Return the 99th percentile, in milliseconds."""
    return statistics.quantiles(times, n=100)[98] * 1000


def memory() -> int:
    """Return the resident memory of this process, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def main(minutes: float) -> int:
    """Run for some minutes, print the figures, and return 0 if they are within the limits."""
    healthy = {f"healthy-{number}": entry(HEALTHY) for number in range(3)}
    unhealthy = {
        "dying": entry(DYING),
        "silent": entry(SILENT, startup_timeout_sec=3),
        "flooding": entry(FLOODING),
    }
    quiet: list[float] = []
    noisy: list[float] = []
    before, logs = 0, 0

    def count(server: str, message: object) -> None:
        nonlocal logs
        logs += 1

    async with Host({**healthy, **unhealthy}, startup_wait=20, on_log=count) as host:
        annoying = asyncio.create_task(annoy(host))
        async with Host(healthy, startup_wait=20) as calm:
            for period in range(max(1, round(minutes * 60 / (2 * PERIOD)))):
                await measure(calm, PERIOD, quiet)
                await measure(host, PERIOD, noisy)
                before = before or (memory() if period == 2 else 0)
        annoying.cancel()
        for status in host.status():
            dropped = f", dropped {status.dropped}" if any(status.dropped.values()) else ""
            print(f"{status.name}: {status.state.value}, {status.restarts} restarts{dropped}")
    growth = (memory() - before) / 2**20 if before else 0.0
    ratio = percentile(noisy) / percentile(quiet)
    print(f"quiet p50 {statistics.median(quiet) * 1000:.2f} ms, p99 {percentile(quiet):.2f} ms, {len(quiet)} calls")
    print(f"noisy p50 {statistics.median(noisy) * 1000:.2f} ms, p99 {percentile(noisy):.2f} ms, {len(noisy)} calls")
    print(f"p99 ratio {ratio:.2f} (at most 2), memory growth {growth:.1f} MiB (at most 16), {logs} log messages")
    left = [child for task in Path("/proc/self/task").iterdir() for child in (task / "children").read_text().split()]
    print(f"processes left: {len(left)}")
    return 0 if ratio <= 2 and growth <= 16 and not left else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    logging.disable(logging.WARNING)
    sys.exit(asyncio.run(main(parser.parse_args().minutes)))
