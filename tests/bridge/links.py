"""A client, a bridge and a server in one program, for the tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from mcp_ref import Client, Server
from mcp_ref.bridge.bridge import Bridge
from mcp_ref.jsonrpc.messages import Object
from tests.messages import Received

CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"


@asynccontextmanager
async def linked(
    server: Any, front: str = "2026-07-28", bridge_options: Mapping[str, Any] | None = None, **options: Any
) -> AsyncIterator[tuple[Client, Bridge]]:
    """Return a context manager with a client of a revision, and the bridge to which it is connected."""
    servers = server if isinstance(server, dict) else {"back": server}
    bridge = Bridge(servers=servers, **(bridge_options or {}))
    bridge.server.tasks.poll_interval = 20  # milliseconds
    async with Client(bridge, revision=front, timeout=10.0, **options) as client:
        yield client, bridge


@asynccontextmanager
async def two_users(server: Any, **options: Any) -> AsyncIterator[tuple[Client, Client, Bridge]]:
    """Return a context manager with the clients of two principals, over HTTP, and their bridge."""
    bridge = Bridge(servers={"back": server})
    bridge.server.tasks.poll_interval = 20
    async with bridge.server.serve_http(authenticate=lambda request: request.headers.get("authorization") or "") as url:
        ann, bob = (Client(url, headers={"Authorization": name}, timeout=10.0, **options) for name in ("ann", "bob"))
        async with ann, bob:
            yield ann, bob, bridge


def note_requests(server: Server) -> list[Any]:
    """Return a list to which a server adds each of its requests."""
    requests: list[Any] = []

    @server.middleware
    async def note(request: Any, context: Any, proceed: Any) -> object:
        requests.append(request)
        return await proceed(request)

    return requests


def busy_server(*revisions: str) -> tuple[Server, asyncio.Queue[str], asyncio.Event]:
    """Return a server whose tool `work` waits for an event, and a queue of the calls that begin or are cancelled."""
    server, events, release = Server("back", revisions=[*revisions]), asyncio.Queue[str](), asyncio.Event()

    @server.tool()
    async def work(who: str = "it") -> str:
        events.put_nowait(f"{who} began")
        try:
            await release.wait()
        except asyncio.CancelledError:
            events.put_nowait(f"{who} cancelled")
            raise
        return who

    return server, events, release


async def send(client: Client, method: str, params: Object, capabilities: Object | None = None) -> Received:
    """Send a modern request, and return its result as it is, also an `input_required` result."""
    meta = {**client.session.request_meta, CAPABILITIES: capabilities if capabilities is not None else {}}
    given = params.get("_meta")
    meta |= given if isinstance(given, dict) else {}
    return await client.session.dispatcher.request(method, {**params, "_meta": meta}, timeout=10.0)
