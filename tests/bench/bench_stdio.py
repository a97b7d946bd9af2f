"""A benchmark of the stdio server. It compares the server with the official SDK and with a bare asyncio loop.

    python3 tests/bench/bench_stdio.py --mcp /path/to/venv/with/mcp/bin/python

All three serve the same tool, `add(a, b)`, to the same raw client, which writes and reads bytes and nothing else.
Rounds are interleaved, so that a noisy machine is noisy for all. Printed are medians, and ratios to the official SDK.
With --stateless the requests are those of 2026-07-28, beside ours of a connection of 2025-11-25.

The bare loop reads lines with asyncio's streams, parses JSON, adds, and answers: no checks, the floor for any server
that uses asyncio. Without --mcp the official SDK's column is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parent.parent.parent

OURS = """
from mcp_ref import Server
server = Server("bench")
@server.tool()
async def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b
@server.tool()
async def echo(text: str) -> str:
    return text
for number in range(EXTRA):
    server.tools.add(add, f"tool_{number}")
server.run()
"""

OFFICIAL = """
from mcp.server.mcpserver import MCPServer
server = MCPServer("bench")
@server.tool()
async def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b
@server.tool()
async def echo(text: str) -> str:
    return text
server.run()
"""

BARE = """
import asyncio, json, sys
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "bare", "version": "1"}}
async def main():
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 26)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    writer, _ = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, sys.stdout)
    while line := await reader.readline():
        request = json.loads(line)
        if "id" not in request:
            continue
        if request["method"] in ("initialize", "server/discover"):
            result = HELLO
        else:
            arguments = request["params"]["arguments"]
            value = arguments["a"] + arguments["b"] if "a" in arguments else arguments["text"]
            result = {"content": [{"type": "text", "text": str(value)}], "structuredContent": {"result": value}}
        writer.write(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}).encode() + b"\\n")
asyncio.run(main())
"""

INFO = {"name": "bench", "version": "1"}
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": INFO}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": INFO,
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Peer:
    """One server process and the raw client of it. stateless: whether its requests are those of 2026-07-28."""

    def __init__(self, command: list[str], stateless: bool = False) -> None:
        begun = time.perf_counter()
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, env=env)
        assert self.process.stdin is not None and self.process.stdout is not None
        self.stdin: IO[bytes] = self.process.stdin
        self.stdout = os.fdopen(os.dup(self.process.stdout.fileno()), "rb", 1 << 16)
        self.more: dict[str, object] = {"_meta": META} if stateless else {}
        self.ask("server/discover" if stateless else "initialize", self.more or HELLO)
        self.start = time.perf_counter() - begun
        if not stateless:
            self.write({"jsonrpc": "2.0", "method": "notifications/initialized"})
        self.id = 10

    def write(self, message: object) -> None:
        """Write a message as one line."""
        view = memoryview(json.dumps(message).encode() + b"\n")
        while view:
            view = view[self.stdin.write(view) :]

    def ask(self, method: str, params: object) -> dict[str, object]:
        """Send a request and return its response."""
        self.write({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        answer: dict[str, object] = json.loads(self.stdout.readline())
        return answer

    def call_line(self, name: str, arguments: object) -> bytes:
        """Return a tools/call with a new id, as bytes."""
        self.id += 1
        params = {"name": name, "arguments": arguments, **self.more}
        return json.dumps({"jsonrpc": "2.0", "id": self.id, "method": "tools/call", "params": params}).encode() + b"\n"

    def latency(self, calls: int, name: str = "add") -> float:
        """Return the median time of one call, in seconds."""
        lines = [self.call_line(name, {"a": 1, "b": n}) for n in range(calls)]
        times = []
        for line in lines:
            begun = time.perf_counter()
            self.stdin.write(line)
            answer = self.stdout.readline()
            times.append(time.perf_counter() - begun)
            assert b'"result"' in answer, answer
        return statistics.median(times)

    def throughput(self, calls: int, in_flight: int = 64) -> float:
        """Return the number of calls per second, with at most `in_flight` unfinished calls."""
        lines = [self.call_line("add", {"a": 1, "b": n}) for n in range(calls)]
        window = threading.Semaphore(in_flight)

        def feed() -> None:
            for start in range(0, calls, 16):
                for _ in lines[start : start + 16]:
                    window.acquire()
                self.stdin.write(b"".join(lines[start : start + 16]))

        feeder = threading.Thread(target=feed)
        begun = time.perf_counter()
        feeder.start()
        for _ in range(calls):
            self.stdout.readline()
            window.release()
        feeder.join()
        return calls / (time.perf_counter() - begun)

    def resident(self) -> float:
        """Return the resident memory in MiB (Linux)."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1024

    def large(self, size: int) -> float:
        """Return the time to send a text of `size` bytes and to receive it again, in seconds."""
        line = self.call_line("echo", {"text": "x" * size})
        feeder = threading.Thread(target=self._write_all, args=(line,))
        begun = time.perf_counter()
        feeder.start()
        answer = self.stdout.readline()
        feeder.join()
        assert len(answer) > size
        return time.perf_counter() - begun

    def _write_all(self, line: bytes) -> None:
        view = memoryview(line)
        while view:
            view = view[self.stdin.write(view) :]

    def close(self) -> None:
        """End it."""
        self.stdin.close()
        self.stdout.close()
        assert self.process.stdout is not None
        self.process.stdout.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def measure(commands: dict[str, list[str]], rounds: int, calls: int, stateless: bool) -> dict[str, dict[str, float]]:
    """Return the medians of interleaved rounds, by server and by figure."""
    samples: dict[str, dict[str, list[float]]] = {name: {} for name in commands}

    def note(name: str, figure: str, value: float) -> None:
        samples[name].setdefault(figure, []).append(value)

    for _ in range(rounds):
        for name, command in commands.items():
            peer = Peer(command, stateless and name != "in a connection")
            note(name, "spawn to first answer, ms", peer.start * 1000)
            peer.latency(calls // 10)  # warm
            note(name, "resident memory, MiB", peer.resident())
            note(name, "tools/call p50, ms", peer.latency(calls) * 1000)
            note(name, "64 in flight, calls/s", peer.throughput(calls * 2))
            note(name, "16 MiB there and back, s", peer.large(16 * 1024 * 1024))
            peer.close()
    return {name: {f: statistics.median(v) for f, v in figures.items()} for name, figures in samples.items()}


def import_cost(rounds: int) -> float:
    """Return the time to import `Server` and `Client`, minus the time of `import asyncio, json`, in milliseconds."""

    def once(source: str) -> float:
        begun = time.perf_counter()
        subprocess.run([sys.executable, "-c", source], check=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
        return (time.perf_counter() - begun) * 1000

    pairs: list[Callable[[], float]] = [
        lambda: once("import asyncio, json, mcp_ref; mcp_ref.Server, mcp_ref.Client"),
        lambda: once("import asyncio, json"),
    ]
    costs = [[run() for run in pairs] for _ in range(rounds)]
    return statistics.median(a for a, _ in costs) - statistics.median(b for _, b in costs)


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--mcp", help="a Python that has the official SDK (mcp 2.3.0)")
    parser.add_argument("--stateless", action="store_true", help="requests of 2026-07-28")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=2000)
    options = parser.parse_args()
    commands = {
        "mcp_ref": [sys.executable, "-c", OURS.replace("EXTRA", "0")],
        "bare asyncio": [sys.executable, "-c", BARE],
    }
    if options.mcp:
        commands["mcp (official)"] = [options.mcp, "-c", OFFICIAL]
    if options.stateless:
        commands["in a connection"] = commands["mcp_ref"]
    table = measure(commands, options.rounds, options.calls, options.stateless)
    print(f"{'':34}" + "".join(f"{name:>16}" for name in table) + ("        ratio" if options.mcp else ""))
    for figure in table["mcp_ref"]:
        row = f"{figure:34}" + "".join(f"{figures[figure]:16.3f}" for figures in table.values())
        if options.mcp:
            row += f"{table['mcp_ref'][figure] / table['mcp (official)'][figure]:12.2f}x"
        print(row)
    print(f"import mcp_ref over asyncio and json, ms: {import_cost(options.rounds * 2):.1f}")
    crowded = Peer([sys.executable, "-c", OURS.replace("EXTRA", "10000")])
    alone = Peer([sys.executable, "-c", OURS.replace("EXTRA", "0")])
    ratios = [crowded.latency(options.calls) / alone.latency(options.calls) for _ in range(options.rounds)]
    ratio = statistics.median(ratios)
    print(f"tools/call with 10,000 tools beside one, p50 ratio: {ratio:.2f}x")
    crowded.close()
    alone.close()


if __name__ == "__main__":
    main()
