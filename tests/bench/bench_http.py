"""A benchmark of the HTTP server and client. It compares them with an asyncio.Protocol that parses nothing.

    python3 tests/bench/bench_http.py

A 150-byte JSON body is POSTed, a 100-byte one answered, on 16 keep-alive connections. The load comes from a process of
its own, on a core of its own where there are two: it writes fixed bytes and counts what comes back. Rounds are
interleaved, so that other load on the machine affects all rounds. The output has medians, by the clock and by the
server's processor time, because the client can be slower than the server. Then the benchmark measures the server-sent
events that one stream delivers in a second, and the memory of an idle stream.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import select
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parent.parent.parent

BARE = """
import asyncio
BODY = b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"3"}],"sum":3,"pad":"xxxxxxxx"}}'
ANSWER = b"HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(BODY) + BODY
class Bare(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport
    def data_received(self, data):
        self.transport.write(ANSWER)
async def main():
    server = await asyncio.get_running_loop().create_server(Bare, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""

OURS = """
import asyncio
from mcp_ref.lib.http.server import serve
from mcp_ref.lib.http.sse import encode_event
BODY = b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"3"}],"sum":3,"pad":"xxxxxxxx"}}'
HEADERS = [("Content-Type", "application/json")]
async def handle(exchange):
    if exchange.request.method == "POST":
        return await exchange.respond(200, HEADERS, BODY)
    stream = await exchange.stream(200, [("Content-Type", "text/event-stream")])
    if exchange.request.path == "/events":
        while not stream.ended.done():
            for number in range(100):
                stream.write(encode_event(BODY, id=str(number)))
            await stream.drain()
            await asyncio.sleep(0)
    await stream.ended
async def main():
    server = await serve(handle)
    print(server.address[1], flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""

CLIENT = """
import asyncio, sys, time
from mcp_ref.lib.http.client import HttpClient
async def main():
    url, seconds = sys.argv[1], float(sys.argv[2])
    count, end = 0, time.perf_counter() + seconds
    async def worker():
        nonlocal count
        while time.perf_counter() < end:
            async with client.request("POST", url, {"Content-Type": "application/json"}, b"x" * 150) as response:
                await response.read(1000)
            count += 1
    client = HttpClient()
    await asyncio.gather(*(worker() for _ in range(16)))
    await client.close()
    print(count / seconds)
asyncio.run(main())
"""

HEAD = (
    b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    b"Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2025-11-25\r\n"
    b"Mcp-Session-Id: 0123456789abcdef0123456789abcdef\r\nContent-Length: 150\r\n\r\n"
)


def load(port: int, pid: int, seconds: float) -> tuple[float, float]:
    """Measure 16 connections. Return requests per second, by the clock and by the server's processor time."""
    request = HEAD + b"x" * 150
    made = [socket.create_connection(("127.0.0.1", port)) for _ in range(16)]
    polled = select.epoll()
    by_number = {}
    for one in made:
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        polled.register(one, select.EPOLLIN)
        by_number[one.fileno()] = (one.recv, one.send)
        one.send(request)
    count, used, began = 0, processor_time(pid), time.perf_counter()
    end = began + seconds
    while time.perf_counter() < end:
        for number, _ in polled.poll(1):
            receive, send = by_number[number]
            receive(4096)  # an answer is one segment
            send(request)
            count += 1
    used, passed = processor_time(pid) - used, time.perf_counter() - began
    polled.close()
    for one in made:
        one.close()
    return count / passed, count / used


def processor_time(pid: int) -> float:
    """Return the processor time of a process, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def events(port: int, seconds: float) -> float:
    """Return the number of events per second on one stream."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /events HTTP/1.1\r\nHost: x\r\n\r\n")
    count, end = 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        count += (await reader.read(1 << 18)).count(b"\nid:") + 0
    writer.transport.abort()
    return count / seconds


async def memory(port: int, pid: int, streams: int) -> float:
    """Return the resident memory of one idle stream, in bytes."""
    before = resident(pid)
    made = []
    for _ in range(streams):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(HEAD.replace(b"POST", b"GET").replace(b"Content-Length: 150\r\n", b""))
        await reader.readuntil(b"\r\n\r\n")
        made.append(writer)
    grown = resident(pid) - before
    for writer in made:
        writer.transport.abort()
    return grown / streams


def resident(pid: int) -> int:
    """Return the resident memory of a process, in bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def start(source: str) -> tuple[subprocess.Popen[str], int]:
    """Run a server; its process and port."""
    process = subprocess.Popen(
        [sys.executable, "-c", source], stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    pin(process.pid, 0)
    out: IO[str] | None = process.stdout
    assert out is not None
    return process, int(out.readline())


def pin(pid: int, core: int) -> None:
    """Keep a process on one core, where there are two and the system lets us."""
    if hasattr(os, "sched_setaffinity") and (os.cpu_count() or 1) > 1:
        os.sched_setaffinity(pid, {core})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--streams", type=int, default=400, help="idle streams whose memory is measured")
    options = parser.parse_args()
    pin(0, 1)
    bare_rates: list[tuple[float, float]] = []
    rates: list[tuple[float, float]] = []
    (bare, bare_port), (ours, port) = start(BARE), start(OURS)
    try:
        for _ in range(options.rounds):
            bare_rates.append(load(bare_port, bare.pid, options.seconds))
            rates.append(load(port, ours.pid, options.seconds))
        for what, at in (("clock", 0), ("processor", 1)):
            floor = statistics.median(rate[at] for rate in bare_rates)
            rate = statistics.median(rate[at] for rate in rates)
            print(f"requests a second ({what}): bare {floor:,.0f}, mcp_ref.lib.http {rate:,.0f}: {rate / floor:.2f}")
        print(f"server-sent events      {asyncio.run(events(port, options.seconds)):10,.0f} events/s on one stream")
        print(f"an idle stream          {asyncio.run(memory(port, ours.pid, options.streams)):10,.0f} bytes")
        command = [sys.executable, "-c", CLIENT, f"http://127.0.0.1:{bare_port}/", str(options.seconds)]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
        print(f"mcp_ref.lib.http.client     {float(done.stdout or 'nan'):10,.0f} requests/s, to the bare loop")
    finally:
        for process in (bare, ours):
            process.terminate()
            process.wait(5)
            if process.stdout is not None:
                process.stdout.close()


if __name__ == "__main__":
    main()
