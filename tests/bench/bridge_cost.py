"""The cost of the bridge: a call through it, as a multiple of a direct call, and the memory of an idle session.

    python3 -m tests.bench.bridge_cost          all combinations of transports and eras
    python3 -m tests.bench.bridge_cost memory   the memory of an idle session of a client over HTTP
    python3 -m tests.bench.bridge_cost cpu      the processor time, which other programs disturb less

The base of a ratio is a direct call over the same transport; for different transports, the slower of the two direct
calls. `naive` is the simplest possible bridge: a tool of a `Server` that calls the same tool with a `Client`.
"""

from __future__ import annotations

import asyncio
import math
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, cast

from mcp_ref import Client, Context, Server, TextContent
from mcp_ref.bridge.bridge import Bridge
from mcp_ref.lib.http.client import HttpClient
from tests.settings import ROOT

CALLS, ROUNDS, SESSIONS = 150, 4, 200
LIMITS = {True: 2.2, False: 2.5}
"""The highest allowed ratio: for equal transports, and for different ones."""


def make_server(revision: str) -> Server:
    server = Server("back", revisions=[revision])

    @server.tool()
    async def echo(text: str) -> TextContent:
        return TextContent(text)

    return server


def naive(target: Any, revision: str) -> Server:
    """Return a server whose tool calls the tool of another server."""

    @asynccontextmanager
    async def connected(server: Server) -> AsyncIterator[Client]:
        async with Client(target, revision=revision, cwd=ROOT if isinstance(target, list) else None) as client:
            yield client

    server = Server("naive", revisions=[revision], lifespan=connected)

    @server.tool()
    async def echo(text: str, context: Context) -> TextContent:
        return TextContent((await cast(Client, context.state).call_tool("echo", {"text": text})).text)

    return server


async def seconds_per_call(client: Client) -> float:
    """Return the best median of several rounds, so that other programs on the machine matter less."""
    medians = []
    for _ in range(ROUNDS):
        times = []
        for _ in range(CALLS):
            start = time.perf_counter()
            await client.call_tool("echo", {"text": "hello"})
            times.append(time.perf_counter() - start)
        medians.append(statistics.median(times))
    return min(medians)


def program(*words: str) -> list[str]:
    return [sys.executable, "-m", "tests.bench.bridge_cost", *words]


async def measure(revision: str) -> bool:
    """Print the ratios for one revision on both sides. Return False if one is above its limit."""
    good = True
    async with AsyncExitStack() as stack:
        ports: dict[str, str] = {}
        for name in ("server", "bridge-stdio", "bridge-http", "naive-stdio", "naive-http"):
            words = program("http", name, revision, ports.get("server", ""))
            process = await asyncio.create_subprocess_exec(*words, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
            assert process.stdout is not None
            ports[name] = (await process.stdout.readline()).decode().strip()
            stack.push_async_callback(process.wait)
            stack.callback(process.kill)
        direct = program("stdio", "server", revision, "")
        targets: dict[str, Any] = {"direct stdio": direct, "direct http": ports["server"]}
        for kind in ("bridge", "naive"):
            for back in ("stdio", "http"):
                targets[f"{kind} stdio-{back}"] = program("stdio", f"{kind}-{back}", revision, ports["server"])
                targets[f"{kind} http-{back}"] = ports[f"{kind}-{back}"]
        times: dict[str, float] = {}
        for name, target in targets.items():
            print(".", end="", flush=True, file=sys.stderr)
            async with Client(target, revision=revision, cwd=ROOT if isinstance(target, list) else None) as client:
                times[name] = await seconds_per_call(client)
    for name, value in times.items():
        print(f"{revision}  {name:18} {value * 1e3:6.3f} ms", end="")
        kind, _, sides = name.partition(" ")
        if kind != "direct":
            front, _, back = sides.partition("-")
            ratio = value / max(times[f"direct {front}"], times[f"direct {back}"])
            print(f"  {ratio:.2f} times a direct call", end="")
            if kind == "bridge":
                is_good = ratio <= LIMITS[front == back]
                good = good and is_good
                print("" if is_good else f", above {LIMITS[front == back]}", end="")
        print()
    return good


async def serve(transport: str, name: str, revision: str, url: str) -> None:
    kind, _, back = name.partition("-")
    target: Any = url if back == "http" else program("stdio", "server", revision, "")
    server = make_server(revision)
    if kind == "naive":
        server = naive(target, revision)
    elif kind == "bridge":
        entry = {"url": url} if back == "http" else {"command": target[0], "args": target[1:], "cwd": str(ROOT)}
        server = Bridge(servers={"back": entry}, revisions=[revision], back_revisions=[revision]).server
    if transport == "stdio":
        await server.serve_stdio()
        return
    async with server.serve_http() as url:
        print(url, flush=True)
        await asyncio.Event().wait()


async def memory() -> bool:
    """Print the memory of an idle session, with the client of the bridge for it. Return False if it is too large."""
    bridge = Bridge(servers={"back": make_server("2025-11-25")})
    async with bridge.server.serve_http() as url:

        async def opened() -> None:
            headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
            http = HttpClient()
            body = (b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",'
                    b'"capabilities":{},"clientInfo":{"name":"c","version":"1"}}}')  # fmt: skip
            async with http.request("POST", url, headers, body) as response:
                session = response.headers.get("mcp-session-id")
                await response.read(100_000)
            headers["Mcp-Session-Id"] = str(session)
            done = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
            async with http.request("POST", url, headers, done) as response:
                await response.read(100_000)
            await http.close()

        await opened()
        tracemalloc.start()
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(SESSIONS):
            await opened()
        await asyncio.sleep(0.5)
        size = (tracemalloc.get_traced_memory()[0] - before) / SESSIONS
    print(
        f"{size / 1024:.1f} KiB for each idle session; the server's sessions are in this process too (limit: 100 KiB)"
    )
    return size <= 100 * 1024


async def cpu_seconds(kind: str, front: str, back: str) -> float:
    """Return the lowest processor time of a call over several rounds, with client and server in this program."""
    server = make_server(back)
    target: Any = {"direct": server, "naive": naive(server, front), "bridge": Bridge(servers={"back": server})}[kind]
    times = []
    async with Client(target, revision=front) as client:
        for _ in range(2 * ROUNDS):
            start = time.process_time()
            for _ in range(CALLS):
                await client.call_tool("echo", {"text": "hello"})
            times.append((time.process_time() - start) / CALLS)
    return min(times)


def cpu() -> bool:
    """Print the processor time of a call: direct, through the bridge, and through the naive bridge.

    Each has programs of its own, which take turns, because code that serves all of them is slower in Python.
    """
    good = True
    for front in ("2025-11-25", "2026-07-28"):
        for back in ("2025-11-25", "2026-07-28"):
            runs = [("direct", front, front), ("direct", back, back), ("bridge", front, back)]
            runs += [("naive", front, front)] if front == back else []
            best = dict.fromkeys(runs, math.inf)
            for run in ROUNDS * runs:
                output = subprocess.run(program("cpu", *run), cwd=ROOT, capture_output=True, check=True, timeout=60)
                best[run] = min(best[run], float(output.stdout))
            direct = max(best[run] for run in runs[:2])
            line = f"client {front}, server {back}: {direct * 1e6:.0f} µs, bridge {best[runs[2]] / direct:.2f} times"
            if front == back:
                line += f", naive {best[runs[3]] / direct:.2f} times"
            print(line, flush=True)
            good = good and (front != back or best[runs[2]] / direct <= LIMITS[True])
    return good


async def main() -> bool:
    results = [await measure(revision) for revision in ("2025-11-25", "2026-07-28")]
    return all(results)


if __name__ == "__main__":
    if len(sys.argv) == 5:
        if sys.argv[1] == "cpu":
            print(asyncio.run(cpu_seconds(*sys.argv[2:5])))
        else:
            asyncio.run(serve(*sys.argv[1:5]))
    elif sys.argv[1:] == ["cpu"]:
        sys.exit(not cpu())
    elif sys.argv[1:] == ["memory"]:
        sys.exit(not asyncio.run(memory()))
    else:
        sys.exit(not asyncio.run(main()))
