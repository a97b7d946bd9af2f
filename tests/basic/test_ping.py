"""Ping: either side asks whether the other still answers."""

from __future__ import annotations

import asyncio

import pytest

from mcp_ref import Client, Context, Server
from mcp_ref.jsonrpc.messages import Object
from tests.matrix import KINDS, LEGACY_REVISIONS
from tests.messages import initialize, notification, request
from tests.raw_peers import connected_client, raw_client, raw_session
from tests.settings import CONNECTED_TRANSPORTS


@pytest.mark.spec(
    "2024-11-05..2025-11-25/basic/utilities/ping#behavior-requirements-1",
    "2025-03-26..2025-11-25/basic/index#intro-1",
    "2024-11-05/basic/index#protocol-layers-1",
)
@KINDS
@LEGACY_REVISIONS
async def test_ping_to_server_gets_an_empty_result(kind: str, revision: str) -> None:
    async with connected_client(Server("s"), kind, revision) as wire:
        meta: Object = {"progressToken": 1, "traceparent": "00-1-1-00"}
        some: list[Object | None] = [None, {}, {"_meta": meta}]
        for params in some:
            assert await wire.ask("ping", params, "123") == {"jsonrpc": "2.0", "id": "123", "result": {}}


@pytest.mark.spec(
    "2024-11-05..2025-11-25/basic/utilities/ping#behavior-requirements-1",
    "2025-03-26..2025-11-25/basic/index#intro-1",
    "2024-11-05/basic/index#protocol-layers-1",
)
@LEGACY_REVISIONS
async def test_ping_to_client_gets_an_empty_result(revision: str) -> None:
    async with raw_session(Client, revision) as (_, wire):
        assert await wire.ask("ping", id=0) == {"jsonrpc": "2.0", "id": 0, "result": {}}


@pytest.mark.spec("2024-11-05..2025-11-25/basic/utilities/ping#behavior-requirements-1")
@KINDS
async def test_ping_gets_a_prompt_response_while_other_requests_are_served(kind: str) -> None:
    server = Server("s")
    gate = asyncio.Event()

    @server.resource("test://slow")
    async def slow(context: Context) -> str:
        await gate.wait()
        return "done"

    async with connected_client(server, kind) as wire:
        for id in range(20):
            await wire.send(request("resources/read", {"uri": "test://slow"}, id))
        await wire.nothing_more()  # the ping's answer comes before any other
        gate.set()
        assert {str((await wire.receive_object())["id"]) for _ in range(20)} == {str(id) for id in range(20)}


@pytest.mark.spec(
    "2024-11-05..2025-11-25/basic/utilities/ping#behavior-requirements-1",
    "2025-06-18..2025-11-25/basic/lifecycle#initialization-7",
    "2024-11-05/basic/lifecycle#initialization-7",
    "2025-03-26/basic/lifecycle#initialization-8",
)
@pytest.mark.parametrize("kind", CONNECTED_TRANSPORTS)
async def test_ping_gets_a_response_in_each_phase_of_the_handshake(kind: str) -> None:
    async with raw_client(Server("s"), kind) as wire:
        await wire.nothing_more()
        await wire.send(initialize())
        assert "result" in await wire.receive_object()
        await wire.nothing_more()
        await wire.send(notification("notifications/initialized"))
        await wire.nothing_more()


@KINDS
async def test_ping_with_invalid_meta_is_refused(kind: str) -> None:
    async with connected_client(Server("s"), kind) as wire:
        assert "_meta" in str((await wire.ask("ping", {"_meta": 7}))["error"])
