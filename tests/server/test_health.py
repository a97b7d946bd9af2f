"""The health of a server over HTTP: its routes, its numbers, and how it drains."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from mcp_ref import Client, HttpClient, Server, ServerStats
from mcp_ref.server import listening, service
from mcp_ref.server.health import METRICS_TYPE
from mcp_ref.server.http import HttpApp
from tests.messages import initialize, stateless_request
from tests.raw_http_client import HoldingServer, RawSession, served_over_http
from tests.settings import MODERN, PATIENCE

LEGACY = "2025-11-25"
ERAS = pytest.mark.parametrize("revision", [MODERN, LEGACY])


@pytest.mark.attack("rebinding-health")
async def test_health_routes_accept_every_host_and_need_no_authentication() -> None:
    async def nobody(request: object) -> None:
        return None

    async with served_over_http(Server("s"), health=True, authenticate=nobody) as web:
        assert (await web.ask("GET", "/livez", host="10.1.2.3:8000")).body == b"live\n"
        assert (await web.ask("GET", "/readyz", host="10.1.2.3:8000")).body == b"ready\n"
        reply = await web.ask("GET", "/metrics", host="10.1.2.3:8000")
        assert (reply.status, reply.kind) == (200, METRICS_TYPE)
        assert (await web.ask("POST", "/livez")).status == 405
        assert (await web.ask("GET", "/livez", b"", "Origin: https://evil.example")).status == 403


async def test_health_routes_are_off_by_default() -> None:
    async with served_over_http(Server("s")) as web:
        for path in ("/livez", "/readyz", "/metrics"):
            assert (await web.ask("GET", path)).status == 404


def test_health_paths_cannot_be_routes_of_the_author() -> None:
    with pytest.raises(ValueError, match="the server itself uses the path /livez"):
        HttpApp(Server("s").catalog, health=True, routes={"/livez": lambda request: "me"})
    HttpApp(Server("s").catalog, routes={"/livez": lambda request: "me"})


def test_health_paths_cannot_be_the_path_of_the_endpoint() -> None:
    with pytest.raises(ValueError, match="the server itself uses the path /livez"):
        HttpApp(Server("s").catalog, health=True, path="/livez")


async def test_livez_responds_and_readyz_refuses_while_the_lifespan_fails() -> None:
    @contextlib.asynccontextmanager
    async def connect(server: Server) -> AsyncIterator[None]:
        raise OSError("no database")
        yield

    async with served_over_http(Server("s", lifespan=connect), health=True) as web:
        assert (await web.ask("GET", "/livez")).status == 200
        reply = await web.ask("GET", "/readyz")
        assert (reply.status, reply.body) == (503, b"not ready: the lifespan of the server has failed\n")


@ERAS
async def test_stats_count_the_requests_of_each_era(revision: str) -> None:
    held = HoldingServer()
    async with held.server.serve_http(health=True) as url, Client(url, revision=revision) as client:
        calling = asyncio.create_task(client.call_tool("hold", {"name": "call"}))
        await held.has_begun()
        stats, before = held.server.stats(), 1 if revision == MODERN else 0
        assert (stats.modern_in_flight, stats.legacy_in_flight) == ((1, 0) if revision == MODERN else (0, 1))
        assert stats.sessions == 1 - before
        held.go.set()
        await calling
        stats = held.server.stats()
        assert (stats.modern_in_flight, stats.legacy_in_flight) == (0, 0)
        assert (stats.modern_served, stats.legacy_served) == ((2, 0) if revision == MODERN else (0, 2))
        async with HttpClient() as http, http.request("GET", url.replace("/mcp", "/metrics"), {}) as response:
            text = (await response.read(100_000)).decode()
        assert f'\nmcp_requests_total{{era="modern"}} {stats.modern_served}\n' in text
        assert f"\nmcp_sessions {stats.sessions}\n" in text and text.endswith("\nmcp_broadcast_lag_seconds 0.0\n")


async def test_stats_count_subscriptions_and_listening_streams() -> None:
    server = Server("s")
    server.tool("a")(lambda: None)
    async with (
        server.serve_http() as url, Client(url) as modern, Client(url, revision=LEGACY) as legacy,
        modern.watch_lists("tools") as lists, legacy.watch_lists("tools") as legacy_lists,
    ):  # fmt: skip
        server.tool("b")(lambda: None)
        async with asyncio.timeout(PATIENCE):  # the listening stream of the legacy client opens by itself
            assert [await anext(lists), await anext(legacy_lists)] == ["tools", "tools"]
        assert (server.stats().streams, server.stats().sessions) == (2, 1)


async def test_drain_refuses_new_sessions_and_serves_stateless_requests() -> None:
    held = HoldingServer()
    async with served_over_http(held.server, health=True) as web:
        await web.site.finish_requests(0)
        talk = RawSession(web)
        refused = await talk.post(initialize())
        assert (refused.status, refused.headers["retry-after"]) == (503, "5")
        assert (await web.ask("GET", "/sse")).status == 503
        reply = await web.ask("GET", "/readyz")
        assert (reply.status, reply.body) == (503, b"not ready: the server is draining\n")
        assert (await web.ask("GET", "/livez")).status == 200
        assert (await talk.post(stateless_request("tools/list"))).status == 200
        assert (await talk.post(stateless_request("subscriptions/listen", {"notifications": {}}))).status == 503


async def test_drain_ends_subscriptions_with_their_result() -> None:
    async with served_over_http(Server("s")) as web:
        talk = RawSession(web)
        stream = await talk.post(stateless_request("subscriptions/listen", {"notifications": {}}))
        draining = asyncio.create_task(web.site.finish_requests(PATIENCE))
        for _ in range(100):
            await asyncio.sleep(0)
        assert draining.done(), "without `health`, no load balancer needs time to notice"
        acknowledged, result = await stream.messages()
        assert str(acknowledged["method"]).endswith("/acknowledged")
        assert result["id"] == 1 and "result" in result


@ERAS
async def test_drain_waits_for_calls_in_flight_at_most_for_its_seconds(revision: str) -> None:
    held = HoldingServer()
    async with held.server.serve_http() as url, Client(url, revision=revision) as client:
        calling = asyncio.create_task(client.call_tool("hold", {"name": "call"}))
        await held.has_begun()
        await held.server.drain(0.01)
        assert not calling.done()
        draining = asyncio.create_task(held.server.drain(PATIENCE))
        await asyncio.sleep(0)
        assert not draining.done()
        held.go.set()
        assert (await calling).text == "call"
        await draining


async def test_server_that_has_not_drained_stops_without_a_wait_for_last_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listening, "LAST_REQUEST_SECONDS", 10 * PATIENCE)
    async with asyncio.timeout(PATIENCE), Server("s").serve_http():
        pass


async def test_drain_waits_for_requests_that_began_while_it_waited_for_others() -> None:
    waited: list[float] = []

    class Busy:
        """A session in which a request is in flight until the second wait."""

        def add_to(self, stats: ServerStats) -> None:
            stats.legacy_in_flight += len(waited) < 2

        async def finish_requests(self, seconds: float) -> None:
            waited.append(seconds)

        async def close(self) -> None: ...

    server = Server("s")
    server.catalog.service.members[Busy()] = None
    await server.drain(PATIENCE)
    assert len(waited) == 2 and 0 < waited[1] <= waited[0] - service.DRAIN_INTERVAL / 2 < PATIENCE
    await server.drain(0.0)
    assert len(waited) == 3
