"""A benchmark of the Streamable HTTP server. It compares it with the official SDK and with a bare asyncio loop.

    python3 tests/bench/bench_streamable_http.py --mcp /path/to/venv/with/mcp/bin/python

All three serve `async def add(a: int, b: int) -> int` with structured content, in sessions of 2025-11-25; or, with
--stateless, by requests of 2026-07-28, which have more to say and to check: then what that costs is measured too, and
the streams are those of `subscriptions/listen`. The server has a core to itself, and the load comes from a process on
another: it writes fixed bytes on 16 keep-alive connections, and counts what comes back. Rounds are interleaved, so that
a noisy machine is noisy for all. Printed are medians of the rounds; the bare loop, which reads JSON and knows where its
bytes are but checks nothing, is the limit for any server on asyncio.

Then: progress notifications that arrive a second as server-sent events; the memory of a session with an idle GET
stream, and how long one `list_changed` takes to reach 1,000 of them; the memory after many calls.
"with a token" is our server with `authorization=`: the same token on all requests, verified once a minute.
Without --mcp the official SDK's column is left out. Needs Linux.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import select
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parent.parent.parent

OURS = """
import asyncio, os
from mcp_ref import Context, HttpLimits, Server
server = Server("bench")
@server.tool()
async def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b
@server.tool()
async def count(to: int, context: Context) -> int:
    for number in range(to):
        await context.report_progress(number + 1, to)
    return to
@server.tool()
async def announce() -> int:
    server.tools.add(announce, f"another_{os.urandom(4).hex()}")
    return 0
async def main():
    async with server.serve_http(json_responses=JSON, http_sse=False) as url:
        print(url, flush=True)
        await asyncio.Event().wait()
asyncio.run(main())
"""

PROTECTED = (
    OURS.partition("async def main")[0]
    + """
import json, time
from mcp_ref import JwtVerifier, Protection
from mcp_ref.lib.http.server import serve
from mcp_ref.lib.jose.keys import make_private_key
from mcp_ref.lib.jose.tokens import sign_jwt
KEY = make_private_key()
async def publish(exchange):
    keys = {"keys": [{**KEY.public.members, "kid": "1"}]}
    body = keys if exchange.request.path == "/jwks" else {"issuer": ISSUER, "jwks_uri": ISSUER + "/jwks"}
    await exchange.respond(200, [("Content-Type", "application/json")], json.dumps(body).encode())
async def main():
    global ISSUER
    ISSUER = f"http://127.0.0.1:{(await serve(publish)).address[1]}"
    resource, scopes = "http://127.0.0.1/mcp", {"bench:read", "bench:write"}
    claims = {"iss": ISSUER, "aud": resource, "sub": "alice", "client_id": "bench", "exp": time.time() + 3600,
              "scope": "bench:read bench:write", "jti": "0123456789abcdef" * 8}
    token = sign_jwt({"alg": "ES256", "typ": "at+jwt", "kid": "1"}, claims, KEY.sign)
    protection = Protection(resource, [ISSUER], JwtVerifier(), scopes)
    async with server.serve_http(json_responses=JSON, http_sse=False, authorization=protection) as url:
        print(url, token, flush=True)
        await asyncio.Event().wait()
asyncio.run(main())
"""
)

OFFICIAL = """
import asyncio, socket, uvicorn
from mcp.server.mcpserver import Context, MCPServer
server = MCPServer("bench", log_level="ERROR")
@server.tool()
async def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b
@server.tool()
async def count(to: int, context: Context) -> int:
    for number in range(to):
        await context.report_progress(number + 1, to)
    return to
app = server.streamable_http_app(json_response=JSON)
listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # or asyncio leaves Nagle's delay on
listener.bind(("127.0.0.1", 0))
listener.listen(1024)
print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listener])
"""

BARE = """
import asyncio, json
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "bare", "version": "1"}}
class Bare(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport, self.rest = transport, b""
    def data_received(self, data):
        data = self.rest + data
        head, _, body = data.partition(b"\\r\\n\\r\\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\\r\\n")[0] or 0)
        if len(body) < length:
            self.rest = data
            return
        self.rest = b""
        request = json.loads(body)
        if "id" not in request:
            return self.transport.write(b"HTTP/1.1 202 Accepted\\r\\nContent-Length: 0\\r\\n\\r\\n")
        if request["method"] == "initialize":
            result = HELLO
        else:
            arguments = request["params"]["arguments"]
            value = arguments["a"] + arguments["b"]
            result = {"content": [{"type": "text", "text": str(value)}], "structuredContent": {"result": value}}
            if "_meta" in request["params"]:
                result["resultType"] = "complete"
                result["_meta"] = {"io.modelcontextprotocol/serverInfo": {"name": "bare", "version": "1"}}
        answer = json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}, separators=(",", ":")).encode()
        self.transport.write(
            b"HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\nMcp-Session-Id: bare\\r\\n"
            b"Content-Length: %d\\r\\n\\r\\n%b"
            % (len(answer), answer)
        )
async def main():
    server = await asyncio.get_running_loop().create_server(Bare, "127.0.0.1", 0)
    print("http://127.0.0.1:%d/mcp" % server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""

INFO = {"name": "bench", "version": "1"}
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": INFO}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": INFO,
    "io.modelcontextprotocol/clientCapabilities": {},
}
FIRST_ID = 1_000_000_000
"""So that all ids, and with them all requests and answers, have the same length."""


class Peer:
    """A server process, its memory and its processor time."""

    def __init__(self, python: str, source: str, json_responses: bool, core: int | None) -> None:
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = [python, "-c", f"JSON = {json_responses}\n{source}"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, env=env)
        if core is not None:
            os.sched_setaffinity(self.process.pid, {core})
        assert self.process.stdout is not None
        out: IO[bytes] = self.process.stdout
        url = out.readline().decode().strip()
        found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)(/\S*)(?: (\S+))?", url)
        assert found is not None, url
        self.port, self.path = int(found[1]), found[2]
        self.credentials = f"Authorization: Bearer {found[3]}\r\n" if found[3] else ""

    def close(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()

    def rss(self) -> int:
        """Return the resident memory of the process, in bytes."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise AssertionError

    def cpu(self) -> float:
        """Return the processor time of the process, in seconds."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Session:
    """One keep-alive connection, with a session of its own."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.socket = socket.create_connection(("127.0.0.1", peer.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.id = ""
        head, _ = self.ask({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO})
        found = re.search(r"(?i)mcp-session-id: (\S+)", head)
        assert found is not None, head
        self.id = found[1]
        self.ask({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def request(self, message: dict[str, Any]) -> bytes:
        """Return the POST of a message, as bytes."""
        body = json.dumps(message).encode()
        session = f"Mcp-Session-Id: {self.id}\r\nMCP-Protocol-Version: 2025-11-25\r\n" if self.id else ""
        head = (
            f"POST {self.peer.path} HTTP/1.1\r\nHost: 127.0.0.1:{self.peer.port}\r\n"
            "Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n"
            f"{session}{self.peer.credentials}Content-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body

    def ask(self, message: dict[str, Any]) -> tuple[str, bytes]:
        """Send a message. Return the head and the body of the response."""
        self.socket.sendall(self.request(message))
        data = b""
        while b"\r\n\r\n" not in data:
            data += self._more()
        head, _, body = data.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: (\d+)", head)
        while (len(body) < int(length[1])) if length is not None else not body.endswith(b"0\r\n\r\n"):
            body += self._more()
        return head.decode(), body

    def _more(self) -> bytes:
        data = self.socket.recv(1 << 16)
        assert data, "the server closed the connection"
        return data

    def call(self, id: int, tool: str = "add", arguments: object = None) -> bytes:
        """Return the POST of a tools/call, as bytes."""
        params = {"name": tool, "arguments": {"a": 1, "b": 2} if arguments is None else arguments}
        return self.request({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})


class Alone(Session):
    """One keep-alive connection for stateless requests."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.socket = socket.create_connection(("127.0.0.1", peer.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def request(self, message: dict[str, Any]) -> bytes:
        """Return the POST of a message, as bytes."""
        params = message.get("params", {})
        meta = {**params.get("_meta", {}), **META}
        body = json.dumps({**message, "params": {**params, "_meta": meta}}).encode()
        name = f"Mcp-Name: {params['name']}\r\n" if "name" in params else ""
        head = (
            f"POST {self.peer.path} HTTP/1.1\r\nHost: 127.0.0.1:{self.peer.port}\r\n"
            "Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n"
            f"MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {message['method']}\r\n{name}{self.peer.credentials}"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body


@dataclass(slots=True)
class Caller:
    """A connection under load: the request around its id, how long an answer is, and how much of it has come."""

    socket: socket.socket
    before: bytes
    after: bytes
    size: int
    begun: float
    received: int = 0


def requests_a_second(peer: Peer, connections: int, seconds: float, kind: type[Session]) -> tuple[float, float, float]:
    """Return requests per second, the 99th percentile of latencies in seconds, and requests per processor second."""
    sessions = [kind(peer) for _ in range(connections)]
    parts = []
    for session in sessions:
        before, after = session.call(FIRST_ID).split(str(FIRST_ID).encode())
        head, body = session.ask({"jsonrpc": "2.0", "id": FIRST_ID, "method": "tools/call",
                                  "params": {"name": "add", "arguments": {"a": 1, "b": 2}}})  # fmt: skip
        assert b'"structuredContent":' in body and b'"text":"3"' in body.replace(b" ", b""), body
        parts.append((before, after, len(head.encode()) + 4 + len(body)))
    poll = select.epoll()
    by_descriptor: dict[int, Caller] = {}
    times: list[float] = []
    id = FIRST_ID
    cpu, begun = peer.cpu(), time.perf_counter()
    for session, (before, after, size) in zip(sessions, parts, strict=True):
        poll.register(session.socket.fileno(), select.EPOLLIN)
        id += 1
        by_descriptor[session.socket.fileno()] = Caller(session.socket, before, after, size, time.perf_counter())
        session.socket.sendall(before + str(id).encode() + after)
    end = begun + seconds
    while (now := time.perf_counter()) < end:
        for descriptor, _ in poll.poll(1):
            caller = by_descriptor[descriptor]
            data = caller.socket.recv(1 << 16)
            assert data, "the server closed the connection"
            caller.received += len(data)
            if caller.received < caller.size:
                continue
            assert caller.received == caller.size, data
            now = time.perf_counter()
            times.append(now - caller.begun)
            id += 1
            caller.received, caller.begun = 0, now
            caller.socket.send(caller.before + str(id).encode() + caller.after)
    elapsed, worked = time.perf_counter() - begun, peer.cpu() - cpu
    for session in sessions:
        session.socket.close()
    times.sort()
    return len(times) / elapsed, times[int(len(times) * 0.99)], len(times) / worked


def events_a_second(peer: Peer, events: int, kind: type[Session]) -> float:
    """Return the number of progress notifications of one call that arrive in a second."""
    session = kind(peer)
    params = {"name": "count", "arguments": {"to": events}, "_meta": {"progressToken": "t"}}
    begun = time.perf_counter()
    _, body = session.ask({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params})
    elapsed = time.perf_counter() - begun
    assert body.count(b"notifications/progress") == events, body[:500]
    session.socket.close()
    return events / elapsed


LISTEN = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen",
          "params": {"notifications": {"toolsListChanged": True}}}  # fmt: skip


def idle_streams(peer: Peer, count: int, kind: type[Session]) -> tuple[float, float | None]:
    """Return the memory of an idle stream with its session, in bytes, and the seconds until a change reaches all."""
    teller = kind(peer)
    before = peer.rss()
    streams = []
    for _ in range(count):
        session = kind(peer)
        if kind is Alone:
            session.socket.sendall(session.request(LISTEN))
        else:
            head = (
                f"GET {peer.path} HTTP/1.1\r\nHost: 127.0.0.1:{peer.port}\r\nAccept: text/event-stream\r\n"
                f"Mcp-Session-Id: {session.id}\r\nMCP-Protocol-Version: 2025-11-25\r\n\r\n"
            )
            session.socket.sendall(head.encode())
        while b"text/event-stream" not in session.socket.recv(1 << 16):
            pass
        streams.append(session.socket)
    size = (peer.rss() - before) / count
    time.sleep(0.5)  # wait for messages that have not arrived yet
    poll = select.epoll()
    waiting = {stream.fileno(): stream for stream in streams}
    for stream in streams:
        stream.setblocking(False)
        poll.register(stream.fileno(), select.EPOLLIN)
    for descriptor, _ in poll.poll(0):
        waiting[descriptor].recv(1 << 16)
    begun = time.perf_counter()
    teller.socket.sendall(teller.call(9, "announce", {}))
    while waiting and time.perf_counter() < begun + 30:
        for descriptor, _ in poll.poll(1):
            if descriptor in waiting and b"list_changed" in waiting[descriptor].recv(1 << 16):
                poll.unregister(descriptor)
                del waiting[descriptor]
    reached = None if waiting else time.perf_counter() - begun
    for stream in streams:
        stream.close()
    teller.socket.close()
    return size, reached


def growth(peer: Peer, calls: int, kind: type[Session]) -> tuple[float, float]:
    """Return the memory after 2,000 calls, and its growth after 2,000 more calls, in bytes."""
    session = kind(peer)

    def make(first: int, count: int) -> None:
        for id in range(first, first + count):
            session.ask({"jsonrpc": "2.0", "id": id, "method": "tools/call",
                         "params": {"name": "add", "arguments": {"a": 1, "b": id}}})  # fmt: skip

    make(10, 2000)
    before = peer.rss()
    make(10_000, calls)
    after = peer.rss()
    session.socket.close()
    return before, after - before


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mcp", metavar="PYTHON", help="a Python that has the official SDK and uvicorn")
    parser.add_argument("--stateless", action="store_true", help="requests of 2026-07-28")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--calls", type=int, default=50_000)
    options = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    theirs, mine = (cores[0], cores[-1]) if len(cores) > 1 else (None, None)
    if mine is not None:
        os.sched_setaffinity(0, {mine})
    kinds = {"mcp_ref": (sys.executable, OURS), "bare asyncio": (sys.executable, BARE)}
    kinds["with a token"] = (sys.executable, PROTECTED)
    if options.mcp:
        kinds["official SDK"] = (options.mcp, OFFICIAL)

    def rounds(
        json_responses: bool, measure: Callable[[Peer], tuple[float, ...]], *names: str
    ) -> dict[str, list[float]]:
        """Return the medians of each measure, by server."""
        found: dict[str, list[tuple[float, ...]]] = {name: [] for name in names if name in kinds}
        for _ in range(options.rounds):
            for name, results in found.items():
                peer = Peer(*kinds[name], json_responses, theirs)
                try:
                    results.append(measure(peer))
                finally:
                    peer.close()
        return {name: [statistics.median(column) for column in zip(*rows, strict=True)] for name, rows in found.items()}

    def show(what: str, unit: str, values: dict[str, float], scale: float = 1.0) -> None:
        ours = values["mcp_ref"]
        others = "  ".join(
            f"{name} {value * scale:,.1f} ({ours / value:.2f}x)" for name, value in values.items() if name != "mcp_ref"
        )
        print(f"{what}: {ours * scale:,.1f} {unit}  {others}", flush=True)

    kind = Alone if options.stateless else Session
    warm = 0.5
    for connections in (16, 1):

        def load(peer: Peer, connections: int = connections) -> tuple[float, ...]:
            requests_a_second(peer, connections, warm, kind)
            return requests_a_second(peer, connections, options.seconds, kind)

        found = rounds(True, load, "mcp_ref", "with a token", "bare asyncio", "official SDK")
        label = f"tools/call, {connections} connection{'s' if connections > 1 else ''}"
        show(f"{label}", "requests/s", {name: values[0] for name, values in found.items()})
        show(f"{label}, 99th percentile", "ms", {name: values[1] for name, values in found.items()}, 1000)
        show(f"{label}, by processor time", "requests/s", {name: values[2] for name, values in found.items()})
    if options.stateless:

        def both(peer: Peer) -> tuple[float, ...]:
            requests_a_second(peer, 16, warm, Alone)
            alone = requests_a_second(peer, 16, options.seconds, Alone)[2]
            return alone, requests_a_second(peer, 16, options.seconds, Session)[2]

        alone, in_session = rounds(True, both, "mcp_ref")["mcp_ref"]
        print(f"by processor time, stateless: {alone / in_session:.2f}x the requests/s of sessions", flush=True)
    found = rounds(False, lambda peer: (events_a_second(peer, 5000, kind),), "mcp_ref", "official SDK")
    show("progress as events", "events/s", {name: values[0] for name, values in found.items()})

    peer = Peer(*kinds["mcp_ref"], False, theirs)
    size, reached = idle_streams(peer, options.sessions, kind)
    shown = "not all were reached" if reached is None else f"list_changed reaches all in {reached * 1000:.0f} ms"
    what = "subscriptions" if options.stateless else "sessions with an idle GET stream"
    print(f"{options.sessions} {what}: {size / 1000:.1f} kB each; {shown}")
    peer.close()
    peer = Peer(*kinds["mcp_ref"], True, theirs)
    base, more = growth(peer, options.calls, kind)
    print(f"memory: {base / 2**20:.1f} MiB; {more / 1024:+.0f} KiB after {options.calls} calls")
    peer.close()


if __name__ == "__main__":
    main()
