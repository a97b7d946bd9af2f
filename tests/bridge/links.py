"""A client, a bridge and a server in one program, for the tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from mcp_ref import Client
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


async def send(client: Client, method: str, params: Object, capabilities: Object | None = None) -> Received:
    """Send a modern request, and return its result as it is, also an `input_required` result."""
    meta = {**client.session.request_meta, CAPABILITIES: capabilities if capabilities is not None else {}}
    given = params.get("_meta")
    meta |= given if isinstance(given, dict) else {}
    return await client.session.dispatcher.request(method, {**params, "_meta": meta}, timeout=10.0)
