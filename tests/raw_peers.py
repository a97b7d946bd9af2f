"""Raw peers: clients and servers that write and read bytes, so that a test asserts what is on the wire."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from mcp_ref import Client, Server
from mcp_ref.jsonrpc.errors import InvalidMessage
from mcp_ref.jsonrpc.messages import INVALID_PARAMS, JSON, Object
from mcp_ref.transports.memory import MemoryTransport, memory_pair
from mcp_ref.transports.stdio.server import StdioServerTransport
from tests.http_wire import http_wire
from tests.messages import CACHEABLE, Received, initialize, notification, request, result_of, stateless_request
from tests.settings import META, MODERN, PATIENCE

T = TypeVar("T")


class Wire:
    """The raw end of a transport: sends any bytes, and queues the frames that it receives."""

    def __init__(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        self._write = write
        self.frames: asyncio.Queue[bytes] = asyncio.Queue()
        self.closed = asyncio.Event()

    async def send(self, frame: JSON | bytes) -> None:
        """Send one frame: bytes as they are (without the newline), other values as JSON."""
        await self._write(frame if isinstance(frame, bytes) else json.dumps(frame).encode())

    async def receive(self) -> Any:
        """Return the next frame, as JSON."""
        async with asyncio.timeout(PATIENCE):
            return json.loads(await self.frames.get())

    async def receive_object(self) -> Received:
        """Return the next frame. Fail if it is not an object."""
        value = await self.receive()
        assert isinstance(value, dict), value
        return value

    async def ask_stateless(
        self, method: str, params: Object | None = None, id: JSON = 1, capabilities: Object | None = None, **meta: JSON
    ) -> Received:
        """Send a stateless request and return its response. Fail if another frame comes first."""
        await self.send(stateless_request(method, params, id, capabilities, **meta))
        return await self.receive_object()

    async def ask(self, method: str, params: Object | None = None, id: JSON = "q") -> Received:
        """Send a request and return its response. Fail if another frame comes first."""
        await self.send(request(method, params, id))
        return await self.receive_object()

    async def nothing_more(self) -> None:
        """Fail if a frame was not received: the next one must be the response to a ping. For the legacy era."""
        answer = await self.ask("ping", id="nothing-more")
        assert answer == {"jsonrpc": "2.0", "id": "nothing-more", "result": {}}, answer

    async def nothing_else(self) -> None:
        """Fail if a frame was not received: the next one must be the response to server/discover. For 2026-07-28."""
        answer = await self.ask_stateless("server/discover", id="nothing-else")
        assert answer["id"] == "nothing-else", answer


class StatelessWire(Wire):
    """A raw client of 2026-07-28 for tests that run in all revisions.

    It adds to each request the `_meta` that the revision requires. It checks the members that every result has, and
    takes them out of the result.
    """

    def __init__(self, wire: Wire, capabilities: Object | None) -> None:
        super().__init__(wire._write)
        self.frames, self.closed = wire.frames, wire.closed
        self._capabilities = capabilities
        self._cacheable: set[str] = set()  # the ids, as JSON, of requests with cacheable results

    async def send(self, frame: JSON | bytes) -> None:
        """Send one frame. Add the required `_meta` to a request."""
        if isinstance(frame, dict) and "method" in frame and "id" in frame:
            asked: Received = {"params": {}, **frame}
            method, params, id = asked["method"], asked["params"], asked["id"]
            # earlier revisions send all log messages unless they are told otherwise
            frame = stamped = stateless_request(method, params, id, self._capabilities, logLevel="debug")
            stamped["params"]["_meta"] |= params.get("_meta", {})
            if method in CACHEABLE:
                self._cacheable.add(json.dumps(id))
            else:
                self._cacheable.discard(json.dumps(id))
        await super().send(frame)

    async def receive(self) -> Any:
        """Return the next frame, without the members that every result has."""
        frame = await super().receive()
        if not isinstance(frame, dict) or "result" not in frame:
            return frame
        result = dict(result_of(frame))
        meta = result.pop("_meta")
        assert isinstance(meta, dict) and isinstance(meta.get(f"{META}serverInfo"), dict), frame
        assert result.pop("resultType") == "complete", frame
        if json.dumps(frame["id"]) in self._cacheable:
            assert type(result.pop("ttlMs")) is int and result.pop("cacheScope") in ("public", "private"), frame
        own: Object = {name: value for name, value in meta.items() if name != f"{META}serverInfo"}
        return {**frame, "result": {**result, "_meta": own} if own else result}

    async def nothing_more(self) -> None:
        """Fail if a frame was not received."""
        await self.nothing_else()


@contextlib.asynccontextmanager
async def raw_client(server: Server, kind: str = "memory") -> AsyncIterator[Wire]:
    """Give a raw client of our server, over one of SERVER_TRANSPORTS, before the handshake."""
    if kind == "memory":
        opened = _memory_wire(server)
    elif kind == "stdio":
        opened = _stdio_wire(server)
    else:
        opened = http_wire(server, kind, Wire)
    async with opened as wire:
        yield wire


@contextlib.asynccontextmanager
async def connected_client(
    server: Server, kind: str = "memory", revision: str = "2025-11-25", capabilities: Object | None = None
) -> AsyncIterator[Wire]:
    """Give a raw client after the handshake. In 2026-07-28, give a `StatelessWire`."""
    async with raw_client(server, kind) as wire:
        if revision == MODERN:
            yield StatelessWire(wire, capabilities)
            return
        await wire.send(initialize(revision, capabilities))
        answer = await wire.receive_object()
        assert isinstance(answer["result"], dict), answer
        await wire.send(notification("notifications/initialized"))
        yield wire


@contextlib.asynccontextmanager
async def _memory_wire(server: Server) -> AsyncIterator[Wire]:
    ours, theirs = memory_pair()
    wire = _wire_of(ours)
    serving = asyncio.create_task(server.serve(theirs))
    ours._deliver_soon()
    try:
        yield wire
    finally:
        await ours.close()
        async with asyncio.timeout(PATIENCE):
            await serving


def _wire_of(end: MemoryTransport) -> Wire:
    """Return the raw end of a memory pair. It takes frames from the inboxes, and puts them there, as bytes."""

    async def write(frame: bytes) -> None:
        end._outbox.put(frame)
        await asyncio.sleep(0)

    wire = Wire(write)

    def pump() -> None:
        end._delivery_scheduled = False
        while (frame := end._inbox.take()) is not None:
            wire.frames.put_nowait(frame)
        if end._inbox.is_closed:
            wire.closed.set()

    end._deliver_inbox = pump  # type: ignore[method-assign]
    end._receive = lambda message: None
    end._inbox.on_change = end._deliver_soon
    return wire


def close_server_end(client: Client) -> None:
    """Close the raw server's end of a memory pair."""
    transport = client.session.transport
    assert isinstance(transport, MemoryTransport)
    transport._outbox.close()
    transport._inbox.close()


@contextlib.asynccontextmanager
async def _stdio_wire(server: Server) -> AsyncIterator[Wire]:
    """Serve on real pipes, in this process."""
    to_server, from_client = os.pipe()
    to_client, from_server = os.pipe()
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 28)
    incoming, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(to_client, "rb", 0)
    )
    outgoing, protocol = await loop.connect_write_pipe(
        asyncio.streams.FlowControlMixin, os.fdopen(from_client, "wb", 0)
    )
    writer = asyncio.StreamWriter(outgoing, protocol, None, loop)

    async def write(frame: bytes) -> None:
        writer.write(frame + b"\n")
        await writer.drain()

    wire = Wire(write)

    async def pump() -> None:
        while line := await reader.readline():
            assert line.endswith(b"\n"), line
            wire.frames.put_nowait(line[:-1])
        wire.closed.set()

    pumping = asyncio.create_task(pump())
    serving = asyncio.create_task(server.serve(StdioServerTransport(to_server, from_server)))
    try:
        yield wire
    finally:
        outgoing.close()
        async with asyncio.timeout(PATIENCE):
            await serving
            os.close(to_server)
            os.close(from_server)
            await pumping
        incoming.close()
        await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def raw_server(client: Callable[[MemoryTransport], Client]) -> AsyncIterator[tuple[Client, Wire]]:
    """Give our client, made by `client(transport)` and not connected yet, and its raw server."""
    ours, theirs = memory_pair()
    made, wire = client(ours), _wire_of(theirs)
    try:
        yield made, wire
    finally:
        await made.close()


async def legacy_initialize(wire: Wire) -> Received:
    """Return the client's `initialize`. Refuse `server/discover` first, as a server of the legacy era does."""
    asked = await wire.receive_object()
    if asked["method"] == "server/discover":
        error: Object = {"code": -32601, "message": "Method not found"}
        await wire.send({"jsonrpc": "2.0", "id": asked["id"], "error": error})
        asked = await wire.receive_object()
    assert asked["method"] == "initialize", asked
    return asked


async def answer(wire: Wire, method: str, result: Object) -> Received:
    """Respond to the client's next request, and return its params."""
    asked = await wire.receive_object()
    assert asked["method"] == method, asked
    await wire.send({"jsonrpc": "2.0", "id": asked["id"], "result": result})
    params: Received = asked.get("params", {})
    return params


async def serve_call(calling: Coroutine[object, object, T], wire: Wire, result: JSON) -> tuple[T, Received]:
    """Serve the next request, which a client's call sends. Return the outcome of the call, and the request."""
    task = asyncio.create_task(calling)
    asked = await wire.receive_object()
    await wire.send({"jsonrpc": "2.0", "id": asked["id"], "result": result})
    async with asyncio.timeout(PATIENCE):
        return await task, asked


async def handshake(
    client: Client, wire: Wire, revision: str = "2025-11-25", capabilities: Object | None = None
) -> Received:
    """Connect a client to a raw server, in any revision. Return the params of the client's first request."""
    if revision == MODERN:
        return await connect_modern(client, wire, capabilities or {})
    connecting = asyncio.create_task(client.connect())
    asked = await legacy_initialize(wire)
    info: Object = {"name": "raw", "version": "1"}
    result: Object = {"protocolVersion": revision, "capabilities": capabilities or {}, "serverInfo": info}
    await wire.send({"jsonrpc": "2.0", "id": asked["id"], "result": result})
    async with asyncio.timeout(PATIENCE):
        await connecting
    assert (await wire.receive_object())["method"] == "notifications/initialized"
    params: Received = asked["params"]
    return params


@contextlib.asynccontextmanager
async def raw_session(
    client: Callable[[MemoryTransport], Client], revision: str = "2025-11-25", capabilities: Object | None = None
) -> AsyncIterator[tuple[Client, Wire]]:
    """Give our client, connected in any revision, and its raw server with these capabilities."""
    async with raw_server(client) as (made, wire):
        await handshake(made, wire, revision, capabilities)
        yield made, wire


async def connect_modern(client: Client, wire: Wire, capabilities: Object | None = None) -> Received:
    """Connect a client to a raw server of 2026-07-28. Return the params of the client's first request."""
    connecting = asyncio.create_task(client.connect())
    declared: Object = capabilities if capabilities is not None else {"tools": {"listChanged": True}}
    about: Object = {"supportedVersions": [MODERN], "capabilities": declared, "ttlMs": 0, "cacheScope": "private"}
    params = await reply(wire, "server/discover", about)
    async with asyncio.timeout(PATIENCE):
        await connecting
    return params


async def reply(wire: Wire, method: str, result: Object) -> Received:
    """Respond to the client's next request as a server of 2026-07-28, and return its params."""
    return await answer(wire, method, {"resultType": "complete", **result})


async def answer_of(
    client: Callable[[MemoryTransport], Client], revision: str, method: str, params: Object
) -> Received:
    """Send a request to a client, and return the result. Raise `InvalidMessage` if the client refuses the params.

    In 2026-07-28, the request is an input request in the result of a `tools/call`.
    """
    async with raw_session(client, revision, {"tools": {}}) as (made, wire):
        if revision != MODERN:
            response = await wire.ask(method, params)
            if "error" in response:
                assert response["error"]["code"] == INVALID_PARAMS, response
                raise InvalidMessage(response["error"]["message"])
            return result_of(response)
        calling = asyncio.create_task(made.call_tool("t"))
        input_request: Object = {"method": method, "params": params}
        await answer(wire, "tools/call", {"resultType": "input_required", "inputRequests": {"q": input_request}})
        retry = asyncio.create_task(reply(wire, "tools/call", {"content": []}))
        await asyncio.wait([retry, calling], timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        if not retry.done():  # the call has failed, which `wait_for` raises
            retry.cancel()
        await asyncio.wait_for(calling, PATIENCE)
        input_response: Received = (await retry)["inputResponses"]["q"]
        return input_response


def add_and_remove(server: Server, feature: str) -> None:
    """Make a server declare a feature that has no items. Completions need a prompt, which stays."""
    match feature:
        case "tools":
            server.tools.add(lambda: None, "gone")
            server.tools.remove("gone")
        case "prompts":
            server.prompts.add(lambda: "", "gone")
            server.prompts.remove("gone")
        case "resources":
            server.resources.add("gone://x", lambda: "")
            server.resources.remove("gone://x")
        case _:
            server.prompts.add(lambda x: x, "p")
            server.completions.add("p", "x", lambda value: [])
