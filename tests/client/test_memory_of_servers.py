"""The memory that one hostile server can fill in a client stays below the figures of `python3 -m mcp_ref limits`."""

from __future__ import annotations

import asyncio
import json

import pytest

from mcp_ref import Client, ElicitRequestFormParams, ElicitRequestURLParams, ElicitResult, Limits, Server
from mcp_ref.basic.content import ResourceContents
from mcp_ref.client import handlers, subscriptions
from mcp_ref.features import caching
from mcp_ref.features.caching import ResponseCache
from mcp_ref.jsonrpc.messages import MAX_ID_LENGTH, Object
from mcp_ref.lib.uri import MAX_URI_LENGTH
from tests.messages import request
from tests.raw_peers import answer, handshake, raw_server, raw_session
from tests.server.test_memory_of_callers import FIGURES, HOSTILE_TEXTS, growth
from tests.settings import MODERN, eventually

Question = ElicitRequestFormParams | ElicitRequestURLParams
pytestmark = pytest.mark.breaks("everything")


async def test_requests_of_a_server_in_flight_need_at_most_the_memory_that_is_counted() -> None:
    go, limit = asyncio.Event(), 2_500_000

    async def user(question: Question) -> ElicitResult:
        await go.wait()
        return ElicitResult("decline")

    async with raw_server(lambda end: Client(end, elicitation=user, limits=Limits(max_bytes_in_flight=limit))) as both:
        client, wire = both
        await handshake(client, wire, "2025-11-25")

        async def fill() -> None:
            for id in range(100, 110):
                meta: Object = {"x": json.loads(HOSTILE_TEXTS["lists"])}
                form: Object = {"message": "", "requestedSchema": {"type": "object", "properties": {}}, "_meta": meta}
                await wire.send(request("elicitation/create", form, id))
            refused = [await wire.receive_object() for _ in range(7)]
            assert all("error" in each and "requests in flight need more" in json.dumps(each) for each in refused)

        assert await growth(fill) <= limit
        go.set()
        answered = [await wire.receive_object() for _ in range(3)]
        assert all("result" in each for each in answered)


async def test_unread_updates_of_a_subscription_need_at_most_the_memory_in_the_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    figure, count = FIGURES["unread updates of one subscription"].one_peer, 10
    assert figure == 4 * MAX_URI_LENGTH * subscriptions.MAX_UPDATES
    monkeypatch.setattr(subscriptions, "MAX_UPDATES", count)
    async with raw_session(Client, "2025-11-25", {"resources": {"subscribe": True}}) as (client, wire):
        updates = client.subscribe("test://a")
        entering = asyncio.ensure_future(updates.__aenter__())
        await answer(wire, "resources/subscribe", {})
        await entering

        async def fill() -> None:
            for number in range(4 * count):
                uri = f"test://a/{number}/" + "\N{PILE OF POO}" * (MAX_URI_LENGTH - 30)
                await wire.send({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uri}})
            await wire.nothing_more()

        assert await growth(fill) <= 4 * MAX_URI_LENGTH * count + 50_000
        assert len(updates._changed) <= count


async def test_ids_of_open_elicitations_need_at_most_the_memory_in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    figure, count = FIGURES["ids of open elicitations"].one_peer, 50
    assert figure == 4 * MAX_ID_LENGTH * handlers.MAX_ELICITATIONS
    monkeypatch.setattr(handlers, "MAX_ELICITATIONS", count)

    async def user(question: Question) -> ElicitResult:
        return ElicitResult("accept")

    async with raw_session(lambda end: Client(end, elicitation=user, elicitation_url=True)) as (client, wire):

        async def fill(number: int = 4 * count) -> None:
            for each in range(number):
                id = f"{each}" + "\N{PILE OF POO}" * (MAX_ID_LENGTH - 10)
                url: Object = {"mode": "url", "message": "", "elicitationId": id, "url": "https://example.com/"}
                await wire.send(request("elicitation/create", url, each))
                assert "result" in await wire.receive_object()

        await fill(1)  # the first request fills caches, such as that of the codec
        assert await growth(fill) <= 4 * MAX_ID_LENGTH * count + 50_000
        assert client._handlers is not None and len(client._handlers._open_elicitations) == count


async def test_cached_results_need_at_most_the_memory_in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    assert FIGURES["cached results, as text"].one_peer == caching.MAX_CACHED_BYTES
    monkeypatch.setattr(caching, "MAX_CACHED_BYTES", 1_000_000)
    server, cache = Server("s"), ResponseCache()

    @server.resource("a://{name}", cache_ttl=3600.0)
    def read(name: str) -> str:
        return "x" * 50_000 + name

    async with Client(server, cache=cache, revision=MODERN) as client:
        await client.read_resource("a://warm")

        async def fill() -> None:
            for number in range(60):
                contents: list[ResourceContents] = [*(await client.read_resource(f"a://{number}")).contents]
                assert contents
            await eventually(lambda: cache._size <= 1_000_000)

        assert 500_000 < await growth(fill) <= 1_000_000 + 50_000
