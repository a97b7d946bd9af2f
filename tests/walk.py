"""The path of one `tools/call` through the package, for each role, transport and era.

    python3 -m tests.walk            the files, and the functions of each, in order of first entry
    python3 -m tests.walk --json     the same, for programs

One role runs at a time: the peer is raw, so that no code of the package runs on the other side. The call is warm: the
same call was made before. `lib/` is left out, because it holds other people's standards. A file counts if any function
of it runs, including generators and comprehensions.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from types import FrameType

import mcp_ref
from mcp_ref import Client, Server, TextContent
from mcp_ref.jsonrpc.messages import Object
from tests.forked_python import python
from tests.messages import request, stateless_request
from tests.raw_http_client import RawSession, served_over_http
from tests.raw_peers import connected_client
from tests.settings import MODERN

PACKAGE = str(Path(mcp_ref.__file__).parent) + "/"
LEGACY = "2025-11-25"

Walk = dict[str, list[str]]
"""Functions by file, both in order of first entry."""


class Recorder:
    """A profile function that writes down the functions entered while it is on."""

    def __init__(self) -> None:
        self.walk: Walk = {}
        self._is_on = False

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        """Write down a call of a function of the package."""
        code = frame.f_code
        if not self._is_on or event != "call" or not code.co_filename.startswith(PACKAGE):
            return
        path = code.co_filename.removeprefix(PACKAGE)
        if not path.startswith("lib/"):
            functions = self.walk.setdefault(path, [])
            if code.co_qualname not in functions:
                functions.append(code.co_qualname)

    async def record(self, call: Callable[[], Awaitable[object]]) -> Walk:
        """Return the functions that one call enters, until the event loop is idle again."""
        self._is_on = True
        await call()
        for _ in range(10):
            await asyncio.sleep(0)
        self._is_on = False
        return self.walk


def calculator() -> Server:
    """Return a server with one tool."""
    server = Server("s")

    @server.tool()
    async def add(a: int, b: int) -> TextContent:
        return TextContent(str(a + b))

    return server


CALL: Object = {"name": "add", "arguments": {"a": 1, "b": 2}}


async def stdio_legacy_server(recorder: Recorder) -> Walk:
    """Record a server on pipes, after the handshake."""
    async with connected_client(calculator(), "stdio", LEGACY) as wire:
        await wire.ask("tools/call", CALL, 1)
        return await recorder.record(lambda: wire.ask("tools/call", CALL, 2))


async def stdio_modern_server(recorder: Recorder) -> Walk:
    """Record a server on pipes, with stateless requests."""
    async with connected_client(calculator(), "stdio", MODERN) as wire:
        await wire.ask("tools/call", CALL, 1)
        return await recorder.record(lambda: wire.ask("tools/call", CALL, 2))


async def http_session_server(recorder: Recorder) -> Walk:
    """Record a server over Streamable HTTP, in a session."""
    async with served_over_http(calculator()) as web:
        session = RawSession(web)
        await session.handshake(LEGACY)
        version = {"MCP_Protocol_Version": LEGACY}
        return await _posted(recorder, session, lambda id: request("tools/call", CALL, id), version)


async def http_stateless_server(recorder: Recorder) -> Walk:
    """Record a server over Streamable HTTP, with stateless requests."""
    async with served_over_http(calculator()) as web:
        return await _posted(recorder, RawSession(web), lambda id: stateless_request("tools/call", CALL, id))


async def _posted(
    recorder: Recorder, session: RawSession, message: Callable[[int], Object], headers: dict[str, str] | None = None
) -> Walk:
    async def post(id: int) -> None:
        reply = await session.post(message(id), **(headers or {}))
        assert reply.status == 200, (reply.status, reply.body)
        if reply.kind == "text/event-stream":
            await reply.messages()

    await post(1)
    return await recorder.record(lambda: post(2))


_RAW_SERVER = """
import json
revision = {revision!r}
info, declared, hints = {{"name": "raw", "version": "1"}}, {{"tools": {{}}}}, {{"ttlMs": 0, "cacheScope": "private"}}
schema = {{"type": "object", "properties": {{"a": {{"type": "integer"}}, "b": {{"type": "integer"}}}}}}
results = {{
    "initialize": {{"protocolVersion": revision, "capabilities": declared, "serverInfo": info}},
    "server/discover": {{"supportedVersions": [revision], "capabilities": declared, **hints}},
    "tools/list": {{"tools": [{{"name": "add", "inputSchema": schema}}], **hints}},
    "tools/call": {{"content": [{{"type": "text", "text": "3"}}]}},
}}
del results["initialize" if revision == "2026-07-28" else "server/discover"]


def answer(text):
    message = json.loads(text)
    outcome = {{"error": {{"code": -32601, "message": "Method not found"}}}}
    if message["method"] in results:
        outcome = {{"result": {{"resultType": "complete", **results[message["method"]]}}}}
    return json.dumps({{"jsonrpc": "2.0", "id": message["id"], **outcome}}) if "id" in message else ""
"""

_ON_PIPES = """
for line in sys.stdin:
    if response := answer(line):
        print(response, flush=True)
"""

_OVER_HTTP = """
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event

listening = Event()  # so that the client has no work left over from the handshake when its calls are recorded
if revision == "2026-07-28":
    listening.set()  # a modern client does not listen


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_request(self, *details):
        pass

    def do_POST(self):
        response = answer(self.rfile.read(int(self.headers["Content-Length"]))).encode()
        if b"content" in response:
            listening.wait(10)
        if b'"error"' in response:
            self.send_response(400)
        else:
            self.send_response(200 if response else 202)
        self.send_header("Content-Type", "application/json")
        if b"protocolVersion" in response:
            self.send_header("Mcp-Session-Id", "1")
        self.send_header("Content-Length", str(len(response)))
        self.end_headers()
        self.wfile.write(response)

    def do_GET(self):  # the listening stream, which stays open
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        listening.set()
        self.rfile.read()

    def do_DELETE(self):
        self.close_connection = True


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""


async def stdio_legacy_client(recorder: Recorder) -> Walk:
    """Record a client whose server is a program, after the handshake."""
    return await _called(recorder, python(_RAW_SERVER.format(revision=LEGACY) + _ON_PIPES), LEGACY)


async def stdio_modern_client(recorder: Recorder) -> Walk:
    """Record a client whose server is a program, with stateless requests."""
    return await _called(recorder, python(_RAW_SERVER.format(revision=MODERN) + _ON_PIPES), MODERN)


async def http_legacy_client(recorder: Recorder) -> Walk:
    """Record a client over Streamable HTTP, in a session."""
    return await _called_over_http(recorder, LEGACY)


async def http_modern_client(recorder: Recorder) -> Walk:
    """Record a client over Streamable HTTP, with stateless requests."""
    return await _called_over_http(recorder, MODERN)


async def _called_over_http(recorder: Recorder, revision: str) -> Walk:
    program = _RAW_SERVER.format(revision=revision) + _OVER_HTTP
    with subprocess.Popen([sys.executable, "-c", "import sys\n" + program], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            return await _called(recorder, f"http://127.0.0.1:{int(process.stdout.readline())}/mcp", revision)
        finally:
            process.kill()


async def _called(recorder: Recorder, server: Sequence[str] | str, revision: str) -> Walk:
    async with Client(server) as client:
        assert client.revision.name == revision
        await client.call_tool("add", {"a": 1, "b": 2})
        return await recorder.record(lambda: client.call_tool("add", {"a": 1, "b": 2}))


WALKS = (
    stdio_legacy_server,
    stdio_modern_server,
    http_session_server,
    http_stateless_server,
    stdio_legacy_client,
    stdio_modern_client,
    http_legacy_client,
    http_modern_client,
)


def walks() -> dict[str, Walk]:
    """Return all walks, by name."""
    found = {}
    for walk in WALKS:
        recorder = Recorder()
        threading.setprofile(recorder)  # for worker threads, which begin later
        sys.setprofile(recorder)
        found[walk.__name__] = asyncio.run(walk(recorder))
        sys.setprofile(None)
        threading.setprofile(None)
    return found


def main() -> None:
    """Print the walks."""
    found = walks()
    if "--json" in sys.argv:
        return print(json.dumps(found))
    for name, walk in found.items():
        count = sum(len(functions) for functions in walk.values())
        print(f"{name.replace('_', ' ')}: {len(walk)} files, {count} functions")
        for path, functions in walk.items():
            print(f"    {path:42}{', '.join(functions)}")


if __name__ == "__main__":
    main()
