"""An HTTP server that follows a script: its responses are given as bytes, and its requests are recorded."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable

from mcp_ref.jsonrpc.messages import JSON, Object
from mcp_ref.lib.http.message import Exchange, HeaderList, HttpRequest
from mcp_ref.lib.http.server import start_server

SSE: HeaderList = [("Content-Type", "text/event-stream")]
JSON_HEADERS: HeaderList = [("Content-Type", "application/json")]
Step = Callable[[Exchange, Object], Awaitable[None]]


def frame(message: JSON) -> bytes:
    return json.dumps(message).encode()


def result(id: JSON, **members: JSON) -> bytes:
    return frame({"jsonrpc": "2.0", "id": id, "result": members})


def error(id: JSON, message: str) -> bytes:
    return frame({"jsonrpc": "2.0", "id": id, "error": {"code": -32600, "message": message}})


def log_message(text: str) -> bytes:
    return frame({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": text}})


def status(code: int, body: bytes = b"", *headers: tuple[str, str]) -> Step:
    """Respond with a status."""

    async def step(exchange: Exchange, message: Object) -> None:
        exchange.respond(code, list(headers) or JSON_HEADERS, body)

    return step


def respond_with(result: Object, kind: str = "application/json") -> Step:
    """Respond with a result, complete unless it says otherwise, as a server of 2026-07-28."""

    async def step(exchange: Exchange, message: Object) -> None:
        answer: Object = {"jsonrpc": "2.0", "id": message["id"], "result": {"resultType": "complete", **result}}
        exchange.respond(200, [("Content-Type", kind)], frame(answer))

    return step


def events(*pieces: bytes, hold: bool = False, headers: HeaderList = SSE) -> Step:
    """Respond with a stream of these pieces. Then end it, or hold it until the client disconnects."""

    async def step(exchange: Exchange, message: Object) -> None:
        stream = exchange.stream(200, headers)
        for piece in pieces:
            stream.write(piece)
        if hold:
            await stream.ended

    return step


async def silence(exchange: Exchange, message: Object) -> None:
    """Send no response."""
    await asyncio.Event().wait()


def after(event: asyncio.Event, step: Step) -> Step:
    """Respond when an event is set."""

    async def later(exchange: Exchange, message: Object) -> None:
        await event.wait()
        await step(exchange, message)

    return later


class ScriptedServer:
    """A server that takes its responses from steps, one after the other. Without a step it responds like any server.

    Steps are registered for a JSON-RPC method, for "reply" (a message without a method), GET or DELETE.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[str, HttpRequest]] = []
        self.steps: defaultdict[str, list[Step]] = defaultdict(list)
        self.sessions = 0
        self.under_way = 0
        self.url = ""

    def on(self, key: str, *steps: Step) -> None:
        self.steps[key] += steps

    async def handle(self, exchange: Exchange) -> None:
        await exchange.read_body()
        request = exchange.request
        message = json.loads(request.body) if request.body else {}
        first = message[0] if isinstance(message, list) else message
        key = str(first.get("method", "reply")) if request.method == "POST" else request.method
        self.asked.append((key, request))
        step = self.steps[key].pop(0) if self.steps[key] else self.usually
        if step is silence:
            return await step(exchange, message)  # which does not notice that its client leaves
        self.under_way += 1
        try:
            await step(exchange, message)
        finally:
            self.under_way -= 1

    async def usually(self, exchange: Exchange, message: Object) -> None:
        if exchange.request.method != "POST":
            return exchange.respond(405 if exchange.request.method == "GET" else 204, [], b"")
        if isinstance(message, list) or "id" not in message or "method" not in message:
            return exchange.respond(202, [], b"")
        headers, members = list(JSON_HEADERS), Object()
        if message["method"] == "initialize":
            self.sessions += 1
            headers.append(("Mcp-Session-Id", f"s{self.sessions}"))
            params = message["params"]
            assert isinstance(params, dict)
            members = {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {},
                "serverInfo": {"name": "scripted", "version": "1"},
            }
        exchange.respond(200, headers, result(message["id"], **members))

    @property
    def keys(self) -> list[str]:
        return [key for key, _ in self.asked]

    def headers(self, key: str) -> list[dict[str, str]]:
        """Return the headers of the requests of this kind."""
        kept = [request for kind, request in self.asked if kind == key]
        return [{name.lower(): value for name, value in request.headers} for request in kept]


@contextlib.asynccontextmanager
async def scripted() -> AsyncIterator[ScriptedServer]:
    site = ScriptedServer()
    server = await start_server(site.handle)
    site.url = f"http://127.0.0.1:{server.address[1]}/mcp"
    try:
        yield site
    finally:
        await server.close(0.0)
