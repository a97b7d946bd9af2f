"""Servers inside the test's program that a test can end, break and inspect, and people who decide."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from mcp_ref import Allow, Approval, Deny, Host, Server
from mcp_ref.jsonrpc.messages import METHOD_NOT_FOUND, Error, ErrorResponse, Incoming, Object, Request, Response
from mcp_ref.transports.base import Transport
from tests.settings import PATIENCE


def calculator(name: str = "calc") -> Server:
    """Return a server with one tool."""
    server = Server(name)

    @server.tool()
    def add(a: int, b: int) -> int:
        return a + b

    return server


@dataclass(eq=False)
class Fragile:
    """A server that a test can end. Its starts fail while `fails` is True."""

    server: Server = field(default_factory=calculator)
    fails: bool = False
    starts: int = 0
    transport: Transport | None = None

    async def serve(self, transport: Transport) -> None:
        self.starts += 1
        self.transport = transport
        if self.fails:
            await transport.close()
        else:
            await self.server.serve(transport)

    async def die(self) -> None:
        """End the connection, like a killed process."""
        assert self.transport is not None
        await self.transport.close()


@dataclass(eq=False)
class LegacyServer:
    """A legacy server whose results a function returns, by method and params. None means no response."""

    respond: Callable[[str, Object], Object | None]
    received: list[str] = field(default_factory=list)
    transport: Transport | None = None

    async def serve(self, transport: Transport) -> None:
        ended = asyncio.Event()
        self.transport = transport

        def receive(message: Incoming) -> None:
            if not isinstance(message, Request):
                return
            self.received.append(message.method)
            if message.method == "server/discover":
                transport.send(ErrorResponse(message.id, Error(METHOD_NOT_FOUND, "Method not found")))
            elif message.method == "initialize":
                server: Object = {"name": "scripted", "version": "1"}
                tools: Object = {"tools": {"listChanged": True}}
                result: Object = {"protocolVersion": "2025-11-25", "capabilities": tools, "serverInfo": server}
                transport.send(Response(message.id, result))
            elif (found := self.respond(message.method, message.params)) is not None:
                transport.send(Response(message.id, found))

        await transport.start(receive, lambda _: ended.set())
        await ended.wait()


def tool(name: str, description: str = "", **properties: Object) -> Object:
    """Return the definition of a tool, as on the wire."""
    return {"name": name, "description": description, "inputSchema": {"type": "object", "properties": {**properties}}}


@dataclass
class Person:
    """A user whose decision depends on the kind of the request. By default, the user allows everything once."""

    decisions: dict[str, Allow | Deny | bool] = field(default_factory=dict)
    asked: list[Approval] = field(default_factory=list)

    async def __call__(self, request: Approval) -> Allow | Deny | bool:
        self.asked.append(request)
        return self.decisions.get(request.kind, True)

    def kinds(self) -> list[str]:
        """Return the kinds of the requests, in order."""
        return [request.kind for request in self.asked]


def state(host: Host, server: str) -> str:
    return next(status.state.value for status in host.status() if status.name == server)


def error(host: Host, server: str) -> str:
    return next(status.last_error or "" for status in host.status() if status.name == server)


@asynccontextmanager
async def opened(host: Host) -> AsyncIterator[Host]:
    """Open a host, and check at the end that it has closed in time."""
    async with asyncio.timeout(PATIENCE * 2), host:
        yield host


def lines(audit: list[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in audit]
