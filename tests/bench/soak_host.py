"""A soak test of the host: healthy servers beside two that die in mid-call, one that is silent, and one that floods.

    python3 -m venv venv; venv/bin/pip install mcp-server-git mcp-server-time mcp-server-sqlite "mcp<2"
    python3 tests/bench/soak_host.py --minutes 10 --peers "$(.ci/peers/install python3)" --venv venv

All servers are in one configuration file. The healthy servers are two of ours, one in each era, and those that the
options name: `--peers` is a folder with the npm packages server-filesystem, server-memory and server-everything.

First it measures calls of the healthy servers in a quiet host. Then it measures them beside the unhealthy servers, in
alternating periods, so that a noisy machine is noisy for both. For each server, the 99th percentile of the calls in the
noisy host must be at most twice the 99th percentile in the quiet host. The memory of the host's process must not grow
after the first minute, and all processes must end with the host.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from mcp_ref import Approval, Host, McpError  # noqa: E402

PERIOD = 10.0
"""Time of one period of measurement, in seconds."""

PAUSE = 0.005
"""Pause between two calls, in seconds."""

HEALTHY = """
import sys
from mcp_ref import Server
server = Server("healthy", revisions=sys.argv[1:])
@server.tool()
async def add(a: int, b: int) -> int:
    return a + b
server.run()
"""

DYING = """
import asyncio, os, random, sys
from mcp_ref import Server
server = Server("dying", revisions=sys.argv[1:])
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


Call = tuple[str, dict[str, object]]
"""The name of a tool, and its arguments."""


def entry(source: str, *arguments: str, **options: float) -> dict[str, object]:
    """Return a server that runs a Python program."""
    return {
        "command": sys.executable, "args": ["-c", source, *arguments], "env": {"PYTHONPATH": str(ROOT)}, **options
    }  # fmt: skip


def healthy_servers(folder: Path, peers: Path | None, venv: Path | None) -> dict[str, tuple[dict[str, object], Call]]:
    """Return the configuration of each healthy server, and the call to measure. The servers can write to `folder`."""
    add: Call = ("add", {"a": 1, "b": 2})
    found = {"ours-modern": (entry(HEALTHY, "2026-07-28"), add), "ours-legacy": (entry(HEALTHY, "2025-11-25"), add)}
    npm: dict[str, tuple[list[str], Call]] = {
        "filesystem": ([str(folder)], ("list_directory", {"path": str(folder)})),
        "memory": ([], ("read_graph", {})),
        "everything": ([], ("echo", {"message": "x"})),
    }
    for name, (args, call) in npm.items() if peers is not None else ():
        node, script = f"{peers}/node_modules/node/bin/node", f"{peers}/node_modules/.bin/mcp-server-{name}"
        env = {"MEMORY_FILE_PATH": str(folder / "memory.json")}
        found[name] = {"command": node, "args": [script, *args], "env": env}, call
    pypi: dict[str, tuple[list[str], Call]] = {
        "git": ([], ("git_branch", {"repo_path": str(folder), "branch_type": "local"})),
        "time": ([], ("get_current_time", {"timezone": "Etc/UTC"})),
        "sqlite": (["--db-path", str(folder / "test.db")], ("list_tables", {})),
    }
    for name, (args, call) in pypi.items() if venv is not None else ():
        found[name] = {"command": f"{venv}/bin/mcp-server-{name}", "args": args}, call
    return found


async def allow(request: Approval) -> bool:
    return True


async def measure(host: Host, calls: dict[str, Call], seconds: float, times: dict[str, list[float]]) -> None:
    """Call a tool of each healthy server in turn, and add the time of each call."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for server, (tool, arguments) in calls.items():
            start = time.perf_counter()
            result = await host.call_tool(f"{server}.{tool}", arguments)
            times[server].append(time.perf_counter() - start)
            assert not result.is_error, result.text
            await asyncio.sleep(PAUSE)


async def annoy(host: Host, server: str) -> None:
    """Call the tool that kills its server, again and again, also after the host has given the server up."""
    while True:
        with contextlib.suppress(McpError, LookupError):
            await host.call_tool(f"{server}.work", timeout=2.0)
        if next(status for status in host.status() if status.name == server).state.value == "failed":
            await host.restart(server)
        await asyncio.sleep(0.1)


def percentile(times: list[float]) -> float:
    """Return the 99th percentile, in milliseconds."""
    return statistics.quantiles(times, n=100)[98] * 1000


def memory() -> int:
    """Return the resident memory of this process, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def main(minutes: float, folder: Path, peers: Path | None, venv: Path | None) -> int:
    """Run for some minutes, print the figures, and return 0 if they are within the limits."""
    healthy = healthy_servers(folder, peers, venv)
    servers = {name: server for name, (server, _) in healthy.items()}
    calls = {name: call for name, (_, call) in healthy.items()}
    unhealthy = {
        "dying-modern": entry(DYING, "2026-07-28"),
        "dying-legacy": entry(DYING, "2025-11-25"),
        "silent": entry(SILENT, startup_timeout_sec=3),
        "flooding": entry(FLOODING),
    }
    for name, chosen in (("quiet", servers), ("noisy", {**servers, **unhealthy})):
        (folder / f"{name}.json").write_text(json.dumps({"mcpServers": chosen}))
    quiet: dict[str, list[float]] = defaultdict(list)
    noisy: dict[str, list[float]] = defaultdict(list)
    before = 0
    logs = Counter[str]()

    def count(server: str, message: object) -> None:
        logs[server] += 1

    async with Host(folder / "noisy.json", approve=allow, startup_wait=30, on_log=count) as host:
        annoying = [asyncio.create_task(annoy(host, name)) for name in unhealthy if name.startswith("dying")]
        async with Host(folder / "quiet.json", approve=allow, startup_wait=30) as calm:
            for period in range(max(1, round(minutes * 60 / (2 * PERIOD)))):
                await measure(calm, calls, PERIOD, quiet)
                await measure(host, calls, PERIOD, noisy)
                before = before or (memory() if period == 2 else 0)
        for each in annoying:
            each.cancel()
        for status in host.status():
            dropped = f", dropped {status.dropped}" if any(status.dropped.values()) else ""
            print(f"{status.name}: {status.state.value}, {status.restarts} restarts{dropped}")
    growth = (memory() - before) / 2**20 if before else 0.0
    ratios = []
    for name in calls:
        ratios.append(percentile(noisy[name]) / percentile(quiet[name]))
        medians = f"p50 {statistics.median(quiet[name]) * 1000:.2f} -> {statistics.median(noisy[name]) * 1000:.2f} ms"
        tails = f"p99 {percentile(quiet[name]):.2f} -> {percentile(noisy[name]):.2f} ms, ratio {ratios[-1]:.2f}"
        print(f"{name}: {medians}, {tails}, {len(noisy[name])} calls")
    print(f"largest ratio {max(ratios):.2f} (at most 2), memory growth {growth:.1f} MiB (at most 16)")
    print(f"log messages that were passed on: {dict(logs)}")
    left = [child for task in Path("/proc/self/task").iterdir() for child in (task / "children").read_text().split()]
    print(f"processes left: {len(left)}")
    return 0 if max(ratios) <= 2 and growth <= 16 and not left else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--peers", type=Path)
    parser.add_argument("--venv", type=Path)
    chosen = parser.parse_args()
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory(prefix="mcp_ref-") as temporary:
        subprocess.run(["git", "init", "-q", temporary], check=True)
        sys.exit(asyncio.run(main(chosen.minutes, Path(temporary), chosen.peers, chosen.venv)))
