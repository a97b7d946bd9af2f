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
from mcp_ref.server.http import HttpApp, HttpOptions

if TYPE_CHECKING:
    from tests.raw_peers import Wire

PATIENCE = 10.0
MAX = 1 << 28
BOTH = "application/json, text/event-stream"


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


class _Begun:
    """A handler that counts its requests."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._count = 0
        self._changed = asyncio.Event()

    async def __call__(self, exchange: Exchange) -> None:
        """Count the request, and handle it."""
        self._count += 1
        self._changed.set()
        if (rest := self._handler(exchange)) is not None:
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
        bodies = [request.body]
        stream: StreamingResponse | None = None
        status, headers = 0, list[tuple[str, str]]()
        told = asyncio.Event()

        async def receive() -> MutableMapping[str, object]:
            if bodies:
                return {"type": "http.request", "body": bodies.pop()}
            await told.wait()  # the answer has begun, so there is something that can be left
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
                told.set()
            stream.write(body)
            await stream.drain()
            if not message.get("more_body"):
                stream.close()

        await app(scope, receive, send)

    return handle


class _Talk:
    """The part that both transports share: HTTP requests under way, and the frames that their responses bring."""

    wire: Wire

    def __init__(self, base: str, http: HttpClient, begun: _Begun) -> None:
        self.base, self.http, self.begun = base, http, begun
        self.tasks: set[asyncio.Task[None]] = set()

    def ask(self, exchange: Coroutine[object, object, None]) -> asyncio.Task[None]:
        """Make a request in the background."""
        task = asyncio.create_task(exchange)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    async def take(self, response: HttpResponse) -> None:
        """Read all frames of a response."""
        if (response.headers.get("content-type") or "").startswith("text/event-stream"):
            parser = EventParser(MAX)
            async for piece in response:
                for event in parser.feed(piece):
                    self.event(event)
        elif body := await response.read(MAX):
            self.wire.frames.put_nowait(body)

    def event(self, event: Event) -> None:
        """Read the frame of one event."""
        if event.data:
            self.wire.frames.put_nowait(event.data)


class _Streamable(_Talk):
    """A bare client of Streamable HTTP."""

    session: str | None = None

    async def begin(self) -> None:
        """Do nothing: the first POST opens the session."""

    async def write(self, frame: bytes) -> None:
        """POST a frame, and return when the server has it."""
        count = self.begun.count
        answered = asyncio.Event()
        task = self.ask(self._post(frame, answered))
        await self.begun.wait_for(count + 1)
        if b'"initialize"' in frame and self.session is None:
            async with asyncio.timeout(PATIENCE):
                await task
            if self.session is not None:
                opened = asyncio.Event()
                self.ask(self._listen(opened))
                async with asyncio.timeout(PATIENCE):
                    await opened.wait()
        elif b'"method"' not in frame or b'"id"' not in frame:
            async with asyncio.timeout(PATIENCE):
                await answered.wait()

    async def _post(self, frame: bytes, answered: asyncio.Event) -> None:
        headers = {"Accept": BOTH, "Content-Type": "application/json", **mirrored_headers(frame)}
        if self.session is not None:
            headers["Mcp-Session-Id"] = self.session
        with contextlib.suppress(HttpError):
            async with self.http.request("POST", f"{self.base}/mcp", headers, frame) as response:
                answered.set()
                self.session = response.headers.get("mcp-session-id") or self.session
                await self.take(response)
        answered.set()

    async def _listen(self, opened: asyncio.Event) -> None:
        assert self.session is not None
        headers = {"Accept": "text/event-stream", "Mcp-Session-Id": self.session}
        with contextlib.suppress(HttpError):
            async with self.http.request("GET", f"{self.base}/mcp", headers) as response:
                opened.set()
                await self.take(response)
        self.wire.closed.set()


class _OverSse(_Talk):
    """A bare client of HTTP+SSE."""

    async def begin(self) -> None:
        """Open the stream, and wait for its endpoint."""
        self._endpoint: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.ask(self._listen())
        async with asyncio.timeout(PATIENCE):
            await self._endpoint

    async def _listen(self) -> None:
        with contextlib.suppress(HttpError):
            async with self.http.request("GET", f"{self.base}/sse", {"Accept": "text/event-stream"}) as response:
                await self.take(response)
        self.wire.closed.set()

    def event(self, event: Event) -> None:
        """Read the frame of one event, or the address for POSTs."""
        if event.event == "endpoint":
            self._endpoint.set_result(event.data.decode())
        else:
            super().event(event)

    async def write(self, frame: bytes) -> None:
        """POST a frame, and return when the server has it."""
        headers = {"Content-Type": "application/json"}
        async with self.http.request("POST", self.base + self._endpoint.result(), headers, frame) as response:
            await self.take(response)


@contextlib.asynccontextmanager
async def http_wire(
    server: Server, kind: str, make: Callable[[Callable[[bytes], Awaitable[None]]], Wire]
) -> AsyncIterator[Wire]:
    """Serve over Streamable HTTP ("http", "http-json", "asgi") or HTTP+SSE ("http+sse"), and give a raw client."""
    options = HttpOptions(json_responses=kind == "http-json")
    site = HttpApp(server.catalog, server.limits, server.trace, **options)
    handler = _Begun(under_asgi(application(site.handle)) if kind == "asgi" else site.handle)
    listening = await start_server(handler)
    base = f"http://127.0.0.1:{listening.address[1]}"
    http = HttpClient(limits=ClientLimits(head_time=None, idle=None))
    talk = _OverSse(base, http, handler) if kind == "http+sse" else _Streamable(base, http, handler)
    wire = make(talk.write)
    talk.wire = wire
    await talk.begin()
    try:
        yield wire
    finally:
        await site.end_sessions()
        async with asyncio.timeout(PATIENCE):
            for task in (tasks := tuple(talk.tasks)):
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)
            await http.close()
            await listening.close(0.1)
            await site.close()
