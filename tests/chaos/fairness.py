"""Fairness: the time of a small request while another client asks for 400 results of 1 MB, and reads none.

    python3 -m tests.chaos.fairness

The server, and the client that does not read, have a process each. The table shows the time of `ping` (legacy era) or
`server/discover` (modern era), each on a new connection or all on one. The 99th percentile must be below `MAX_SECONDS`.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time

from mcp_ref.jsonrpc.messages import Object
from tests.http_wire import mirrored_headers
from tests.messages import initialize, notification, request, stateless_request
from tests.settings import ROOT

MAX_SECONDS = 0.25
"""Maximum 99th percentile, in seconds."""
SECONDS = 6.0
"""Time of each measurement, in seconds. The server disconnects the client that does not read after 1 to 2 s."""
REQUESTS = 400
"""Number of large results that the other client asks for."""

SERVER = """
import mcp_ref, sys
server = mcp_ref.Server("fairness")
@server.tool()
async def large() -> str:
    return "x" * 1_000_000
server.run_http(port=0, json_responses=True)
"""
GREEDY = """
import json, socket, sys, time
port, requests = json.load(sys.stdin)
held = []
for text in requests:
    held.append(socket.create_connection(("127.0.0.1", port)))
    held[-1].sendall(text.encode())
time.sleep(1000)
"""


def post(message: Object, session: str) -> str:
    data = json.dumps(message)
    headers = {"Host": "127.0.0.1", "Content-Type": "application/json", "Content-Length": str(len(data))}
    headers |= mirrored_headers(data.encode())
    if session:
        headers |= {"Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-11-25"}
    return "".join(["POST /mcp HTTP/1.1\r\n", *(f"{k}: {v}\r\n" for k, v in headers.items()), "\r\n", data])


class Connection:
    """A connection that is opened at its first use."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def send(self, message: Object, session: str = "") -> str:
        """POST a message. Return the session of the response, or ""."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        writer.write(post(message, session).encode())
        first, *lines = (await reader.readuntil(b"\r\n\r\n"))[:-4].decode().split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        assert first.split()[1] in ("200", "202"), first
        await reader.readexactly(int(headers.get("content-length", "0")))
        return headers.get("mcp-session-id", "")

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()


async def begin(connection: Connection) -> str:
    """Make the handshake. Return the session."""
    session = await connection.send(initialize())
    await connection.send(notification("notifications/initialized"), session)
    return session


async def measure(port: int, is_modern: bool, is_new: bool) -> list[float]:
    """Return the times of small requests, in order."""
    connection = Connection(port)
    ours, theirs = await begin(connection), await begin(connection)
    call: Object = {"name": "large", "arguments": {}}
    calls = [stateless_request("tools/call", call, n) if is_modern else request("tools/call", call, n)
             for n in range(REQUESTS)]  # fmt: skip
    small = stateless_request("server/discover") if is_modern else request("ping")
    session = "" if is_modern else ours
    greedy = subprocess.Popen([sys.executable, "-c", GREEDY], stdin=subprocess.PIPE, text=True)
    assert greedy.stdin is not None
    json.dump([port, [post(each, "" if is_modern else theirs) for each in calls]], greedy.stdin)
    greedy.stdin.close()
    times, end = [], time.monotonic() + SECONDS
    while (start := time.monotonic()) < end:
        if is_new:
            connection.close()
            connection = Connection(port)
        await connection.send(small, session)
        times.append(time.monotonic() - start)
        await asyncio.sleep(0.005)
    greedy.kill()
    greedy.wait()
    connection.close()
    return sorted(times)


async def main() -> None:
    """Print the table. Raise AssertionError if a time is too long."""
    print(f"{'era':8} {'connection':11} {'requests':>8} {'median':>9} {'99 %':>9} {'longest':>9}")
    for is_modern in (False, True):
        for is_new in (False, True):
            environment = {**os.environ, "PYTHONPATH": str(ROOT)}
            server = subprocess.Popen(
                [sys.executable, "-c", SERVER], stderr=subprocess.PIPE, text=True, env=environment
            )
            assert server.stderr is not None
            port = int(server.stderr.readline().rpartition(":")[2].partition("/")[0])
            try:
                times = await measure(port, is_modern, is_new)
            finally:
                server.kill()
                server.wait()
            shown = [f"{1000 * times[int(share * (len(times) - 1))]:6.0f} ms" for share in (0.5, 0.99, 1)]
            print(f"{'modern' if is_modern else 'legacy':8} {'new' if is_new else 'kept':11} {len(times):8}", *shown)
            assert times[int(0.99 * (len(times) - 1))] < MAX_SECONDS, "the 99th percentile is too long"


if __name__ == "__main__":
    asyncio.run(main())
