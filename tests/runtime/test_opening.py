"""How a client finds out what a server speaks, where the server is no clean case: on the wire, with a bare server."""

from __future__ import annotations

import asyncio

import pytest

from mcp_ref import Client, UnsupportedRevision
from mcp_ref.jsonrpc.messages import JSON, Object
from tests.support import MODERN, Wire, raw_server, run


async def refuse(wire: Wire, *supported: JSON) -> None:
    """Answer the next server/discover as a server that does not speak its revision."""
    asked = await wire.receive_object()
    assert asked["method"] == "server/discover"
    data: Object = {"supported": [*supported], "requested": MODERN}
    error: Object = {"code": -32022, "message": "Unsupported protocol version", "data": data}
    await wire.send({"jsonrpc": "2.0", "id": asked["id"], "error": error})


def test_a_server_that_refuses_the_revision_which_it_names_is_asked_once_more() -> None:
    async def test() -> None:
        async with raw_server(Client) as (client, wire):
            connecting = asyncio.create_task(client.connect())
            await refuse(wire, MODERN)
            asked = await wire.receive_object()
            assert asked["method"] == "server/discover"
            found: Object = {"supportedVersions": [MODERN], "capabilities": {}, "ttlMs": 0, "cacheScope": "private"}
            await wire.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"resultType": "complete", **found}})
            await connecting
            assert client.revision.name == MODERN

    run(test())


def test_a_server_that_refuses_it_again_is_not_asked_for_ever() -> None:
    async def test() -> None:
        async with raw_server(Client) as (client, wire):
            connecting = asyncio.create_task(client.connect())
            await refuse(wire, MODERN)
            await refuse(wire, MODERN)
            with pytest.raises(UnsupportedRevision, match=f"the server speaks {MODERN}"):
                await connecting
            assert wire.frames.empty()

    run(test())
