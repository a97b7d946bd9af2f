"""A raw HTTP client: a test sees each header, and each line of an event stream, as on the wire."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Unpack
from urllib.parse import urlsplit

from mcp_ref import Context, Server, TextContent
from mcp_ref.jsonrpc.messages import JSON, Object
from mcp_ref.lib.http.message import HttpLimits
from mcp_ref.lib.http.server import HttpServer, start_server
from mcp_ref.revisions import REVISIONS, Revision
from mcp_ref.server.http import HttpApp
from mcp_ref.server.http_options import HttpOptions
from tests.http_wire import mirrored_headers
from tests.messages import Received, initialize, notification, request
from tests.settings import PATIENCE

JSON_TYPE, SSE_TYPE = "application/json", "text/event-stream"
BOTH_TYPES = f"{JSON_TYPE}, {SSE_TYPE}"
LATEST_LEGACY = "2025-11-25"
STREAMABLE = ["2025-03-26", "2025-06-18", LATEST_LEGACY]
"""The revisions that have Streamable HTTP."""


@dataclass
class Reply:
    """A response. Its body has been read, unless it is a stream."""

    status: int
    headers: dict[str, str]
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    body: bytes = b""
    _rest: str = ""
    _ended: bool = False

    @property
    def kind(self) -> str | None:
        return self.headers.get("content-type")

    @property
    def json(self) -> Any:
        assert self.kind == JSON_TYPE, (self.status, self.headers, self.body)
        return json.loads(self.body)

    @property
    def why(self) -> str:
        """The message of the JSON-RPC error without an id that explains a refusal."""
        value = self.json
        assert value.keys() == {"jsonrpc", "error"}, value
        assert value["jsonrpc"] == "2.0" and value["error"]["code"] == (-32600 if self.status < 500 else -32603)
        return str(value["error"]["message"])

    async def block(self) -> str | None:
        """Return the next block of an event stream, without its empty line; None at the end."""
        assert self.kind == SSE_TYPE, (self.status, self.headers, self.body)
        async with asyncio.timeout(PATIENCE):
            while "\n\n" not in self._rest:
                if self._ended:
                    assert not self._rest, self._rest
                    return None
                size = int(await self.reader.readuntil(b"\r\n"), 16)
                self._rest += (await self.reader.readexactly(size + 2))[:-2].decode()
                self._ended = size == 0
        block, _, self._rest = self._rest.partition("\n\n")
        return block

    async def event(self) -> dict[str, str] | None:
        """Return the fields of the next event; None at the end."""
        while (block := await self.block()) is not None:
            if not block.startswith(":"):
                fields = [line.partition(": ")[::2] for line in block.split("\n")]
                assert len(dict(fields)) == len(fields), block
                return dict(fields)
        return None

    async def events(self) -> list[dict[str, str]]:
        """Return all events until the response ends."""
        found = []
        while (event := await self.event()) is not None:
            found.append(event)
        return found

    async def message(self) -> Any:
        """Return the message of the next event that has one."""
        while (event := await self.event()) is not None:
            if event["data"]:
                return json.loads(event["data"])
        raise AssertionError("the stream has ended")

    async def object(self) -> Received:
        """Return the message of the next event. Fail if it is not an object."""
        value = await self.message()
        assert isinstance(value, dict), value
        return value

    async def messages(self) -> list[Any]:
        """Return all messages until the response ends."""
        return messages(await self.events())

    async def cut(self) -> None:
        """Reset the connection."""
        own: socket.socket = self.writer.get_extra_info("socket")
        own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await _close(self.writer)


def messages(events: list[dict[str, str]]) -> list[Any]:
    """Return the messages in events."""
    return [json.loads(event["data"]) for event in events if event["data"]]


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


@dataclass
class ServedApp:
    """An HTTP application, and the connections to it."""

    site: HttpApp
    address: tuple[str, int]
    writers: list[asyncio.StreamWriter] = field(default_factory=list)
    http: HttpServer = field(init=False)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.address[1]}{self.site.path}"

    async def send(self, method: str, path: str, body: bytes = b"", *lines: str, host: str = "127.0.0.1") -> Reply:
        """Send a request on a new connection, without reading the response. `lines` are headers."""
        reader, writer = await asyncio.open_connection(*self.address, limit=1 << 24)
        self.writers.append(writer)
        first = f"{method} {path} HTTP/1.1"
        head = [first, *([f"Host: {host}"] if host else []), *lines, f"Content-Length: {len(body)}", "", ""]
        writer.write("\r\n".join(head).encode("latin-1") + body)
        return Reply(0, {}, reader, writer)

    async def take(self, reply: Reply) -> Reply:
        """Wait for the response, and read it unless it is a stream."""
        async with asyncio.timeout(PATIENCE):
            head = await reply.reader.readuntil(b"\r\n\r\n")
            status, *lines = head[:-4].decode("latin-1").split("\r\n")
            pairs = [line.split(": ", 1) for line in lines]
            reply.status, reply.headers = int(status.split()[1]), {name.lower(): value for name, value in pairs}
            assert len(reply.headers) == len(pairs), pairs
            if "content-length" in reply.headers:
                reply.body = await reply.reader.readexactly(int(reply.headers["content-length"]))
        return reply

    async def ask(self, method: str, path: str, body: bytes = b"", *lines: str, host: str = "127.0.0.1") -> Reply:
        """Send a request, and wait for the response."""
        return await self.take(await self.send(method, path, body, *lines, host=host))

    async def close(self) -> None:
        for writer in self.writers:
            await _close(writer)
        self.writers.clear()


@dataclass
class RawSession:
    """The session of one client, or the attempt to open one."""

    web: ServedApp
    id: str | None = None
    accept: str | None = BOTH_TYPES
    authorization: str | None = None

    def lines(self, **changes: str | None) -> Iterator[str]:
        """Yield the usual headers.

        Args:
            changes: Other headers, by name with "_" for "-"; None leaves a header out.
        """
        usual: dict[str, str | None] = {
            "Accept": self.accept,
            "Content-Type": JSON_TYPE,
            "Mcp-Session-Id": self.id,
            "Authorization": self.authorization,
        }
        for name, value in (usual | {name.replace("_", "-"): value for name, value in changes.items()}).items():
            if value is not None:
                yield f"{name}: {value}"

    async def send(self, message: JSON | bytes, **headers: str | None) -> Reply:
        """POST a message, without waiting for the response. A stateless request gets its mirrored headers."""
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        headers = {**{name.replace("-", "_"): value for name, value in mirrored_headers(body).items()}, **headers}
        return await self.web.send("POST", self.web.site.path, body, *self.lines(**headers))

    async def post(self, message: JSON | bytes, **headers: str | None) -> Reply:
        """POST a message."""
        return await self.web.take(await self.send(message, **headers))

    async def get(self, last: str | None = None, **headers: str | None) -> Reply:
        """Open a stream."""
        lines = self.lines(Content_Type=None, Last_Event_ID=last, **headers)
        return await self.web.ask("GET", self.web.site.path, b"", *lines)

    async def delete(self, **headers: str | None) -> Reply:
        """End the session."""
        return await self.web.ask("DELETE", self.web.site.path, b"", *self.lines(Content_Type=None, **headers))

    async def handshake(self, revision: str = LATEST_LEGACY, capabilities: Object | None = None) -> Received:
        """Make the handshake, and return the InitializeResult."""
        reply = await self.post(initialize(revision, capabilities))
        self.id = reply.headers["mcp-session-id"]
        result: Received = (reply.json if reply.kind == JSON_TYPE else await reply.object())["result"]
        assert result["protocolVersion"] == revision
        assert (await self.post(notification("notifications/initialized"))).status == 202
        return result


@contextlib.asynccontextmanager
async def served_over_http(
    server: Server, http_limits: HttpLimits | None = None, **options: Unpack[HttpOptions]
) -> AsyncIterator[ServedApp]:
    """Serve over HTTP, and give access to the application and raw connections."""
    site = HttpApp(server.catalog, trace=server.trace, **options)
    listening = await start_server(site.handle, limits=http_limits)
    web = ServedApp(site, listening.address)
    web.http = listening
    try:
        yield web
    finally:
        await web.close()
        async with asyncio.timeout(PATIENCE):
            await site.end_sessions()
            await listening.close(0.2)
            await site.close()


@contextlib.asynccontextmanager
async def http_session(
    server: Server, revision: str = LATEST_LEGACY, capabilities: Object | None = None, **options: Unpack[HttpOptions]
) -> AsyncIterator[RawSession]:
    """Serve over HTTP, and give one client after the handshake."""
    async with served_over_http(server, **options) as web:
        session = RawSession(web)
        await session.handshake(revision, capabilities)
        yield session


def web_at(url: str) -> ServedApp:
    """Return the raw connections to a server in another process."""
    parts = urlsplit(url)
    return ServedApp(SimpleNamespace(path=parts.path), ("127.0.0.1", parts.port or 0))  # type: ignore[arg-type]


@dataclass
class RawSseSession:
    """The session of one client over HTTP+SSE."""

    web: ServedApp
    stream: Reply
    endpoint: str
    lines: tuple[str, ...]

    async def post(self, message: JSON | bytes) -> Reply:
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        return await self.web.ask("POST", self.endpoint, body, f"Content-Type: {JSON_TYPE}", *self.lines)

    async def say(self, message: JSON | bytes) -> None:
        """POST a message that is accepted."""
        reply = await self.post(message)
        assert (reply.status, reply.body) == (202, b"")

    async def ask(self, message: JSON) -> Object:
        """POST a request, and return the next message on the stream."""
        await self.say(message)
        return await self.stream.object()

    async def handshake(self, revision: str = "2024-11-05", capabilities: Object | None = None) -> None:
        answer = await self.ask(initialize(revision, capabilities))
        assert isinstance(answer["result"], dict) and answer["result"]["protocolVersion"] == revision
        await self.say(notification("notifications/initialized"))


async def open_sse_session(web: ServedApp, *lines: str, path: str = "/sse") -> RawSseSession:
    """Open the stream of a session over HTTP+SSE. `lines` are the headers of all its requests."""
    stream = await web.ask("GET", path, b"", f"Accept: {SSE_TYPE}", *lines)
    assert (stream.status, stream.kind) == (200, SSE_TYPE)
    event = await stream.event()
    assert event is not None and event.keys() == {"event", "data"} and event["event"] == "endpoint"
    return RawSseSession(web, stream, event["data"], lines)


class HoldingServer:
    """A server with tools that send notifications and wait until the test lets them continue."""

    def __init__(self, revisions: Sequence[Revision | str] = REVISIONS) -> None:
        self.server = Server("s", revisions=revisions)
        self.begun: asyncio.Queue[str] = asyncio.Queue()
        """The names of the calls of `hold` that have begun."""
        self.go = asyncio.Event()
        """Lets all of them end."""
        self.ended: list[str] = []
        """The outcomes of the calls of `hold`."""
        self._announced = 0

        @self.server.tool()
        async def add(a: int, b: int) -> TextContent:
            return TextContent(str(a + b))

        @self.server.tool()
        async def count(to: int, context: Context) -> TextContent:
            for number in range(to):
                await context.log("info", number)
            return TextContent("counted")

        @self.server.tool()
        async def hold(name: str, context: Context, say: bool = False, let_go: bool = False) -> TextContent:
            if say:
                await context.log("info", f"{name} begins")
            if let_go:
                assert context.close_stream()
            self.begun.put_nowait(name)
            try:
                await self.go.wait()
            except asyncio.CancelledError:
                self.ended.append(f"{name} was cancelled")
                raise
            if say:
                await context.log("info", f"{name} goes on")
            self.ended.append(f"{name} came to its end")
            return TextContent(name)

        @self.server.tool()
        async def ask(context: Context) -> TextContent:
            return TextContent(str(len(await context.list_roots())))

    async def has_begun(self) -> str:
        """Wait for one call of `hold`, and return its name."""
        async with asyncio.timeout(PATIENCE):
            return await self.begun.get()

    def announce(self) -> None:
        """Change the list of tools, which every client is notified of."""
        self._announced += 1
        self.server.tool(f"tool-{self._announced}")(_nothing)


def _nothing() -> None:
    """Do nothing."""


def call(tool: str, id: JSON = 1, /, **arguments: JSON) -> Received:
    """Return a request that calls a tool."""
    return request("tools/call", {"name": tool, "arguments": arguments}, id)


def log_message(data: JSON) -> Received:
    """Return the notification that `Context.log` sends."""
    return notification("notifications/message", {"level": "info", "data": data})


def call_result(text: str, id: JSON = 1) -> Received:
    """Return the response to a call."""
    return {"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": text}]}}


TOOLS_CHANGED = notification("notifications/tools/list_changed")
