"""Messages of a raw server of 2026-07-28, and checks of the requests that it receives."""

from __future__ import annotations

import asyncio

from mcp_ref import Client
from mcp_ref.jsonrpc.messages import JSON, Object
from tests.messages import Received
from tests.raw_peers import Wire
from tests.settings import PATIENCE

MODERN = "2026-07-28"
META = "io.modelcontextprotocol/"
INFO: Object = {"name": "raw", "version": "1"}


def discovered(*versions: str, capabilities: Object | None = None, **members: JSON) -> Object:
    """Return a DiscoverResult."""
    return {
        "resultType": "complete",
        "supportedVersions": list(versions or (MODERN,)),
        "capabilities": capabilities or {},
        "ttlMs": 0,
        "cacheScope": "public",
        "_meta": {f"{META}serverInfo": INFO},
        **members,
    }


def answer(asked: Object, result: Object) -> Object:
    """Return the response to a request."""
    return {"jsonrpc": "2.0", "id": asked["id"], "result": result}


def refusal(asked: Object, code: int, message: str = "no", data: JSON = None) -> Object:
    """Return the error response to a request."""
    error: Object = {"code": code, "message": message, **({} if data is None else {"data": data})}
    return {"jsonrpc": "2.0", "id": asked["id"], "error": error}


def params_of(asked: Received) -> Received:
    """Return the params of a request."""
    params: Received = asked["params"]
    return params


def meta_of(asked: Received) -> Received:
    """Return the `_meta` of a stateless request. Fail if a required member is missing."""
    meta: Received = asked["params"]["_meta"]
    assert meta[f"{META}protocolVersion"] == MODERN, asked
    assert isinstance(meta[f"{META}clientCapabilities"], dict) and isinstance(meta[f"{META}clientInfo"], dict), asked
    return meta


async def asked_for(wire: Wire, method: str) -> Received:
    """Return the next frame, which must be a stateless request of that method."""
    asked = await wire.receive_object()
    assert asked["method"] == method, asked
    meta_of(asked)
    return asked


async def connect_modern(client: Client, wire: Wire, capabilities: Object | None = None, **members: JSON) -> None:
    """Connect a client to a raw server of 2026-07-28."""
    connecting = asyncio.create_task(client.connect())
    asked = await asked_for(wire, "server/discover")
    await wire.send(answer(asked, discovered(capabilities=capabilities, **members)))
    async with asyncio.timeout(PATIENCE):
        await connecting
    assert client.revision.era == "modern"


async def in_time(task: asyncio.Future[object] | asyncio.Task[object]) -> object:
    """Return the result of a task, within `PATIENCE` seconds."""
    async with asyncio.timeout(PATIENCE):
        return await task
