"""Raw clients over HTTP for `raw_peers.raw_client`: they POST frames, and read those of all responses.

`send` returns when the server has the frame. So the server gets frames in the order in which they were sent, as on the
other transports.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, MutableMapping
from typing import TYPE_CHECKING

from mcp_ref import Server
from mcp_ref.lib.http.asgi import Application, application
from mcp_ref.lib.http.client import HttpClient
from mcp_ref.lib.http.message import Exchange, Handler, StreamingResponse
from mcp_ref.lib.http.response import ClientLimits, HttpError, HttpResponse
from mcp_ref.lib.http.server import start_server
from mcp_ref.lib.http.sse import Event, EventParser
from mcp_ref.server.http import HttpApp
from mcp_ref.server.http_options import HttpOptions

if TYPE_CHECKING:
    from tests.raw_peers import Wire

PATIENCE = 10.0
MAX_BYTES = 1 << 28
"""Maximum size of a response or of one event, in bytes."""
ACCEPTED_TYPES = "application/json, text/event-stream"


def mirrored_headers(frame: bytes) -> dict[str, str]:
    """Return the headers that repeat members of a stateless request; none for other frames."""
    try:
        message = json.loads(frame)
        params = message["params"]
        version = params["_meta"]["io.modelcontextprotocol/protocolVersion"]
    except (ValueError, KeyError, TypeError):
        return {}
    headers = {"MCP-Protocol-Version": str(version), "Mcp-Method": str(message["method"])}
    members = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
    members |= dict.fromkeys(("tasks/get", "tasks/update", "tasks/cancel"), "taskId")
    name = params.get(members.get(message["method"]))
    if isinstance(name, str):
        plain = name.isascii() and name.isprintable() and name == name.strip() and not name.startswith("=?base64?")
        headers["Mcp-Name"] = name if plain else f"=?base64?{base64.b64encode(name.encode()).decode()}?="
    return headers


class _CountingHandler:
    """A handler that counts the requests that have begun."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._count = 0
        self._changed = asyncio.Event()

    async def __call__(self, exchange: Exchange) -> None:
        """Count the request, and handle it."""
        self._count += 1
        self._changed.set()
        rest = self._handler(exchange)
        if rest is not None:
            await rest

    @property
    def count(self) -> int:
        """The number of requests."""
        return self._count

    async def wait_for(self, count: int) -> None:
        """Wait for that number of requests."""
        async with asyncio.timeout(PATIENCE):
            while self._count < count:
                self._changed.clear()
                await self._changed.wait()


def under_asgi(app: Application) -> Handler:
    """Return a handler that passes each exchange to an ASGI application: a tiny ASGI server."""

    async def handle(exchange: Exchange) -> None:
        await exchange.read_body()
        request = exchange.request
        scope: MutableMapping[str, object] = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": "http",
            "path": request.path,
            "raw_path": request.path.encode("latin-1"),
            "query_string": request.query.encode("latin-1"),
            "root_path": "",
            "headers": [(n.lower().encode("latin-1"), v.encode("latin-1")) for n, v in request.headers],
            "client": request.client,
        }
        unread = [request.body]
        stream: StreamingResponse | None = None  # None until a response in several pieces begins
        status, headers = 0, list[tuple[str, str]]()
        has_stream = asyncio.Event()

        async def receive() -> MutableMapping[str, object]:
            if unread:
                return {"type": "http.request", "body": unread.pop()}
            await has_stream.wait()  # before that, this small server does not notice that a client leaves
            if stream is not None:
                await stream.ended
            return {"type": "http.disconnect"}

        async def send(message: MutableMapping[str, object]) -> None:
            nonlocal stream, status
            if message["type"] == "http.response.start":
                assert isinstance(message["status"], int) and isinstance(message["headers"], list)
                status = message["status"]
                headers.extend((n.decode("latin-1"), v.decode("latin-1")) for n, v in message["headers"])
                return
            body = message.get("body", b"")
            assert isinstance(body, bytes)
            if stream is None and not message.get("more_body"):
                own = [(name, value) for name, value in headers if name != "content-length"]
                return exchange.respond(status, own, body)
            if stream is None:
                stream = exchange.stream(status, headers)
                has_stream.set()
            stream.write(body)
            await stream.drain()
            if not message.get("more_body"):
                stream.close()

        await app(scope, receive, send)

    return handle


class _RawClient:
    """The part that both transports share: HTTP requests under way, and the frames that their responses bring."""

    wire: Wire

    def __init__(self, base: str, http: HttpClient, handler: _CountingHandler) -> None:
        self.base, self.http, self.handler = base, http, handler
        self.tasks: set[asyncio.Task[None]] = set()

    def run_in_background(self, exchange: Coroutine[object, object, None]) -> asyncio.Task[None]:
        """Run a request in an asyncio task, which `http_wire` cancels at the end."""
        task = asyncio.create_task(exchange)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    async def read_frames(self, response: HttpResponse) -> None:
        """Read all frames of a response."""
        if (response.headers.get("content-type") or "").startswith("text/event-stream"):
            parser = EventParser(MAX_BYTES)
            async for piece in response:
                for event in parser.feed(piece):
                    self.receive_event(event)
        else:
            body = await response.read(MAX_BYTES)
            if body:
                self.wire.frames.put_nowait(body)

    def receive_event(self, event: Event) -> None:
        """Read the frame of one event."""
        if event.data:
            self.wire.frames.put_nowait(event.data)


class _StreamableHttpClient(_RawClient):
    """A bare client of Streamable HTTP."""

    session: str | None = None

    async def begin(self) -> None:
        """Do nothing: the first POST opens the session."""

    async def write(self, frame: bytes) -> None:
        """POST a frame, and return when the server has it. After the handshake, open the stream of GET too."""
        earlier = self.handler.count
        has_response = asyncio.Event()
        task = self.run_in_background(self._post(frame, has_response))
        await self.handler.wait_for(earlier + 1)
        if b'"initialize"' in frame and self.session is None:
            async with asyncio.timeout(PATIENCE):
                await task
            if self.session is not None:
                is_open = asyncio.Event()
                self.run_in_background(self._listen(is_open))
                async with asyncio.timeout(PATIENCE):
                    await is_open.wait()
        elif b'"method"' not in frame or b'"id"' not in frame:  # a notification or a response is served at once
            async with asyncio.timeout(PATIENCE):
                await has_response.wait()

    async def _post(self, frame: bytes, has_response: asyncio.Event) -> None:
        headers = {"Accept": ACCEPTED_TYPES, "Content-Type": "application/json", **mirrored_headers(frame)}
        if self.session is not None:
            headers["Mcp-Session-Id"] = self.session
        with contextlib.suppress(HttpError):
            async with self.http.request("POST", f"{self.base}/mcp", headers, frame) as response:
                has_response.set()
                self.session = response.headers.get("mcp-session-id") or self.session
                await self.read_frames(response)
        has_response.set()  # after an error, too

    async def _listen(self, is_open: asyncio.Event) -> None:
        assert self.session is not None
        headers = {"Accept": "text/event-stream", "Mcp-Session-Id": self.session}
        with contextlib.suppress(HttpError):
            async with self.http.request("GET", f"{self.base}/mcp", headers) as response:
                is_open.set()
                await self.read_frames(response)
        self.wire.closed.set()


class _HttpSseClient(_RawClient):
    """A bare client of HTTP+SSE."""

    async def begin(self) -> None:
        """Open the stream, and wait for its endpoint."""
        self._endpoint: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.run_in_background(self._listen())
        async with asyncio.timeout(PATIENCE):
            await self._endpoint

    async def _listen(self) -> None:
        with contextlib.suppress(HttpError):
            async with self.http.request("GET", f"{self.base}/sse", {"Accept": "text/event-stream"}) as response:
                await self.read_frames(response)
        self.wire.closed.set()

    def receive_event(self, event: Event) -> None:
        """Read the frame of one event, or the address for POSTs."""
        if event.event == "endpoint":
            self._endpoint.set_result(event.data.decode())
        else:
            super().receive_event(event)

    async def write(self, frame: bytes) -> None:
        """POST a frame, and return when the server has it."""
        headers = {"Content-Type": "application/json"}
        async with self.http.request("POST", self.base + self._endpoint.result(), headers, frame) as response:
            await self.read_frames(response)


@contextlib.asynccontextmanager
async def http_wire(
    server: Server, kind: str, make_wire: Callable[[Callable[[bytes], Awaitable[None]]], Wire]
) -> AsyncIterator[Wire]:
    """Serve over Streamable HTTP ("http", "http-json", "asgi") or HTTP+SSE ("http+sse"), and give a raw client."""
    options = HttpOptions(json_responses=kind == "http-json")
    site = HttpApp(server.catalog, server.limits, server.trace, **options)
    handler = _CountingHandler(under_asgi(application(site.handle)) if kind == "asgi" else site.handle)
    listening = await start_server(handler)
    base = f"http://127.0.0.1:{listening.address[1]}"
    http = HttpClient(limits=ClientLimits(head_time=None, idle=None))
    client_class = _HttpSseClient if kind == "http+sse" else _StreamableHttpClient
    client = client_class(base, http, handler)
    wire = make_wire(client.write)
    client.wire = wire
    await client.begin()
    try:
        yield wire
    finally:
        await site.end_sessions()
        async with asyncio.timeout(PATIENCE):
            tasks = tuple(client.tasks)
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)
            await http.close()
            await listening.close(0.1)
            await site.close()
