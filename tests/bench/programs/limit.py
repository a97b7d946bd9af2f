"""The limit for any implementation on asyncio: `limit.py http|legacy|sse|stdio|client`, without validation.

`limit.py legacy` is a server without stateless requests, so a client of it begins a session. Its URL ends in `/legacy`.

It knows the tools and the messages of the benchmark, and trusts that each message is one of them, whole, and with its
headers in the spelling of `tests/bench/load.py`. So it builds no header objects, reads one header, and writes once. The
docstring of `tests/bench/implementations.py` describes the messages.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

HELLO = {
    "protocolVersion": "2025-11-25",
    "supportedVersions": ["2026-07-28", "2025-11-25"],
    "capabilities": {"tools": {"listChanged": True}},
    "serverInfo": {"name": "limit", "version": "1"},
    "ttlMs": 0,
    "cacheScope": "private",
}
INTEGER = {"type": "integer"}
ADD = {
    "name": "add",
    "inputSchema": {"type": "object", "properties": {"a": INTEGER, "b": INTEGER}, "required": ["a", "b"],
                    "additionalProperties": False},
    "description": "Add two numbers.",
    "outputSchema": {"type": "object", "properties": {"result": INTEGER}, "required": ["result"]},
}  # fmt: skip
META = {"io.modelcontextprotocol/serverInfo": HELLO["serverInfo"]}
CLIENT_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": HELLO["serverInfo"],
    "io.modelcontextprotocol/clientCapabilities": {},
}
CHANGED = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: "
EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
encode_json = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
"""Made once: `json.dumps` with other separators than its own makes an encoder for each call."""


def encode(message: object) -> bytes:
    return encode_json(message).encode()


def respond(request: dict[str, Any]) -> bytes:
    """Return the response to a request, as JSON."""
    params = request.get("params") or {}
    if PATH == "legacy" and request["method"] == "server/discover":
        error = {"code": -32601, "message": "Method not found"}
        return encode({"jsonrpc": "2.0", "id": request["id"], "error": error})
    if request["method"] == "tools/call":
        arguments = params["arguments"]
        value = arguments["a"] + arguments["b"] if "a" in arguments else 0
        result = {"content": [{"type": "text", "text": str(value)}], "structuredContent": {"result": value}}
    elif request["method"] == "tools/list":
        result = {"tools": TOOLS, "ttlMs": 0, "cacheScope": "private"}
    else:
        result = dict(HELLO)
    if "_meta" in params and "io.modelcontextprotocol/protocolVersion" in params["_meta"]:
        result["resultType"] = "complete"
        result["_meta"] = META
    return encode({"jsonrpc": "2.0", "id": request["id"], "result": result})


def sse_chunk(data: bytes) -> bytes:
    """Return a server-sent event as a chunk."""
    return b"%x\r\ndata: %b\n\n\r\n" % (len(data) + 8, data)


class HttpServer(asyncio.Protocol):
    """A connection of the HTTP server."""

    __slots__ = ("rest", "subscription", "transport")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.rest = b""

    def connection_lost(self, error: Exception | None) -> None:
        STREAMS.discard(self)

    def data_received(self, data: bytes) -> None:
        if self.rest:
            data = self.rest + data
        end = data.find(b"\r\n\r\n") + 4
        begin = data.find(b"Content-Length: ", 0, end)
        if begin < 0:
            self.subscription: object = None
            return self.open_stream()
        if len(data) - end < int(data[begin + 16 : data.find(b"\r", begin)]):
            self.rest = data
            return
        self.rest = b""
        request = json.loads(data[end:])
        if "id" not in request:
            return self.transport.write(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")
        method = request["method"]
        if method == "subscriptions/listen":
            self.subscription = request["id"]
            self.open_stream()
            told = {"notifications": {"toolsListChanged": True}, "_meta": self.label()}
            notification = {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": told}
            return self.transport.write(sse_chunk(encode(notification)))
        name = request["params"].get("name")
        if name == "count":
            return self.count(request)
        if name == "announce":
            self.announce()
        response = respond(request)
        session = b"\r\nMcp-Session-Id: " + os.urandom(16).hex().encode() if method == "initialize" else b""
        self.transport.write(b"%b%d%b\r\n\r\n%b" % (HEAD, len(response), session, response))

    def label(self) -> dict[str, object]:
        """Return the metadata of a notification to this subscription."""
        return {"io.modelcontextprotocol/subscriptionId": self.subscription}

    def start_events(self) -> None:
        """Send the head of a response with server-sent events."""
        self.transport.write(EVENTS)

    def open_stream(self) -> None:
        """Begin a stream that stays open."""
        self.start_events()
        STREAMS.add(self)

    def count(self, request: dict[str, Any]) -> None:
        """Send progress, and then the result, as server-sent events."""
        self.start_events()
        to, token = request["params"]["arguments"]["to"], request["params"]["_meta"]["progressToken"]
        for number in range(to):
            params = {"progressToken": token, "progress": number + 1, "total": to}
            self.transport.write(
                sse_chunk(encode({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}))
            )
        self.transport.write(sse_chunk(respond(request)) + b"0\r\n\r\n")

    def announce(self) -> None:
        """Send a change of the tools to all streams."""
        chunk = sse_chunk(encode(CHANGED))
        for stream in STREAMS:
            if stream.subscription is None:
                stream.transport.write(chunk)
            else:
                stream.transport.write(sse_chunk(encode({**CHANGED, "params": {"_meta": stream.label()}})))


STREAMS: set[HttpServer] = set()
TOOLS: list[dict[str, Any]] = [ADD]
PATH = "legacy" if sys.argv[1] == "legacy" else "mcp"


async def serve_http() -> None:
    """Serve until the process is killed."""
    server = await asyncio.get_running_loop().create_server(HttpServer, "127.0.0.1", 0, backlog=1024)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/{PATH}", flush=True)
    await server.serve_forever()


class Lines(asyncio.Protocol):
    """A reader of lines from a pipe."""

    rest = b""

    def data_received(self, data: bytes) -> None:
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            self.line_received(line)

    def line_received(self, line: bytes) -> None:
        raise NotImplementedError


class StdioServer(Lines):
    """The server's end of stdin."""

    def __init__(self, ended: asyncio.Event) -> None:
        self.ended = ended
        self.out: asyncio.WriteTransport | None = None

    def line_received(self, line: bytes) -> None:
        request = json.loads(line)
        if "id" in request:
            assert self.out is not None
            self.out.write(respond(request) + b"\n")

    def connection_lost(self, error: Exception | None) -> None:
        self.ended.set()


async def serve_stdio() -> None:
    """Serve until the end of stdin."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    protocol = StdioServer(ended)
    protocol.out, _ = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, sys.stdout)
    await loop.connect_read_pipe(lambda: protocol, sys.stdin)
    await ended.wait()


class HttpClient(asyncio.Protocol):
    """A connection that makes one call after another."""

    def __init__(self, turn: Turn, url: str) -> None:
        self.turn, self.rest = turn, b""
        host, _, path = url.removeprefix("http://").partition("/")
        own = "Mcp-Session-Id: 0\r\nMCP-Protocol-Version: 2025-11-25"
        if path != "legacy":
            own = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: add"
        self.head = (
            f"POST /{path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
            f"Accept: application/json, text/event-stream\r\n{own}\r\nContent-Length: "
        ).encode()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def call(self) -> None:
        """Send a request."""
        body = encode(self.turn.next_request())
        self.transport.write(b"%b%d\r\n\r\n%b" % (self.head, len(body), body))

    def data_received(self, data: bytes) -> None:
        if self.rest:
            data = self.rest + data
        end = data.find(b"\r\n\r\n") + 4
        begin = data.find(b"Content-Length: ", 0, end) + 16
        if begin < 16 or len(data) - end != int(data[begin : data.find(b"\r", begin)]):
            self.rest = data
            return
        self.rest = b""
        self.turn.finish(json.loads(data[end:]), self)


class StdioClient(asyncio.SubprocessProtocol):
    """A server process with many requests in flight."""

    def __init__(self, turn: Turn) -> None:
        self.turn, self.rest = turn, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.SubprocessTransport)
        self.out = transport.get_pipe_transport(0)

    def call(self) -> None:
        """Send a request."""
        assert isinstance(self.out, asyncio.WriteTransport)
        self.out.write(encode(self.turn.next_request()) + b"\n")

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            self.turn.finish(json.loads(line), self)


class Turn:
    """The calls of a turn: how many are left to begin and to finish."""

    def __init__(self, modern: bool) -> None:
        self.meta = {"_meta": CLIENT_META} if modern else {}
        self.id = self.to_begin = self.to_finish = 0
        self.done = asyncio.Event()

    def next_request(self) -> dict[str, object]:
        self.id += 1
        self.to_begin -= 1
        params = {"name": "add", "arguments": {"a": 1, "b": 2}, **self.meta}
        return {"jsonrpc": "2.0", "id": self.id, "method": "tools/call", "params": params}

    def finish(self, response: dict[str, Any], by: HttpClient | StdioClient) -> None:
        """Count a response, and begin another call."""
        assert response["result"]["structuredContent"]["result"] == 3
        self.to_finish -= 1
        if self.to_begin:
            by.call()
        elif not self.to_finish:
            self.done.set()


async def run_client(target: list[str]) -> None:
    """Make as many calls as each line of stdin says, 64 at a time, and print a line after each turn."""
    loop, turn = asyncio.get_running_loop(), Turn(modern=target[0].endswith("/mcp"))
    callers: list[HttpClient | StdioClient] = []
    if target[0].startswith("http"):
        host, port = target[0].split("/")[2].split(":")
        for _ in range(64):
            _, caller = await loop.create_connection(lambda: HttpClient(turn, target[0]), host, int(port))
            callers.append(caller)
    else:
        _, only = await loop.subprocess_exec(lambda: StdioClient(turn), *target, stderr=None)
        callers = [only] * 64
    print("ready", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        turn.to_begin = turn.to_finish = int(line)
        turn.done.clear()
        for caller in callers[: turn.to_begin]:
            caller.call()
        await turn.done.wait()
        print("done", flush=True)


def main(kind: str, *rest: str) -> None:
    """Run as a server or as a client."""
    if kind in ("client", "host"):
        return asyncio.run(run_client(list(rest)))
    for number in range(int(rest[0])):
        TOOLS.append({**ADD, "name": f"tool_{number}", "description": "Add three numbers."})
    asyncio.run(serve_stdio() if kind == "stdio" else serve_http())


main(*sys.argv[1:])
