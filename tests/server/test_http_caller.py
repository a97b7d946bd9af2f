"""`context.http`: the HTTP request that carried a message, for handlers of both eras and of tasks."""

from __future__ import annotations

import contextlib
import json

import pytest

from mcp_ref import Client, Context, EndpointLimits, HttpCaller, Server
from mcp_ref.jsonrpc.messages import JSON
from mcp_ref.revisions import REVISIONS
from mcp_ref.server.listening import has_small_result
from mcp_ref.transports.streamable_http import idle_order
from tests.messages import initialize, notification, request, stateless_request
from tests.raw_http_client import RawSession, served_over_http
from tests.raw_peers import connected_client
from tests.settings import MODERN, SERVER_TRANSPORTS

KINDS = pytest.mark.parametrize("kind", SERVER_TRANSPORTS)
ERAS = pytest.mark.parametrize("revision", ["2025-11-25", MODERN])


class Site:
    """A server that keeps the callers of its tool."""

    def __init__(self) -> None:
        self.callers: list[HttpCaller | None] = []
        self.server = Server("site")
        self.server.tasks.poll_interval = 20
        self.server.tool()(self.note)
        self.server.tool("job", task="optional")(self.note)

    def note(self, context: Context) -> str:
        self.callers.append(context.http)
        return "noted"


@KINDS
@pytest.mark.parametrize("revision", [revision.name for revision in REVISIONS])
async def test_context_http_has_headers_and_address_over_http_alone(kind: str, revision: str) -> None:
    site = Site()
    async with connected_client(site.server, kind, revision) as wire:
        await wire.ask("tools/call", {"name": "note", "arguments": {}})
    (caller,) = site.callers
    if kind in ("memory", "stdio"):
        assert caller is None
    else:
        assert caller is not None and caller.headers.get("Content-Type") == "application/json"
        assert caller.address is not None and caller.address[0] == "127.0.0.1" and caller.address[1] > 0


@ERAS
async def test_context_http_is_the_request_of_each_call_without_its_token(revision: str) -> None:
    site = Site()
    async with site.server.serve_http() as url:
        for tenant in ("a", "b"):
            headers = {"X-Tenant": tenant, "Authorization": "Bearer secret", "Proxy-Authorization": "Basic secret"}
            async with Client(url, revisions=[revision], headers=headers) as client:
                await client.call_tool("note")
                await (await client.start_tool("job")).result()
    callers = [caller for caller in site.callers if caller is not None]
    assert [caller.headers.get("x-tenant") for caller in callers] == ["a", "a", "b", "b"]
    for caller in callers:
        assert "authorization" not in caller.headers and "proxy-authorization" not in caller.headers
        assert "secret" not in str(list(caller.headers)) and "secret" not in repr(caller)


@ERAS
async def test_context_http_of_a_server_in_memory_is_not_the_request_of_the_calling_handler(revision: str) -> None:
    inner, outer = Site(), Server("outer")

    @outer.tool()
    async def forward(context: Context) -> str:
        async with Client(inner.server, revisions=[revision]) as client:
            assert context.http is not None
            return (await client.call_tool("note")).text

    async with outer.serve_http() as url, Client(url, revisions=[revision]) as client:
        assert (await client.call_tool("forward")).text == "noted"
    assert inner.callers == [None]


@pytest.mark.parametrize(
    ("message", "is_small"),
    [
        (request("ping"), True),
        (stateless_request("server/discover"), True),
        (notification("notifications/initialized"), True),
        (request("tools/call", {"name": "large"}), False),
        (request("resources/read"), False),
        ([request("tools/call", {"name": "large"})], False),
    ],
)
def test_only_methods_with_small_results_do_not_wait_for_large_responses(message: JSON, is_small: bool) -> None:
    assert has_small_result(json.dumps(message).encode()) is is_small


@ERAS
async def test_trusted_proxies_give_each_client_its_own_address_and_limits(revision: str) -> None:
    site = Site()
    limits = EndpointLimits(sessions_per_caller=1, requests_per_caller=1)
    async with contextlib.AsyncExitStack() as stack:
        serving = site.server.serve_http(trusted_proxies=["127.0.0.0/8"], limits=limits)
        url = await stack.enter_async_context(serving)
        for address in ("203.0.113.7", "203.0.113.8"):
            headers = {"X-Forwarded-For": f"198.51.100.1, {address}"}
            client = Client(url, revisions=[revision], headers=headers)
            await (await stack.enter_async_context(client)).call_tool("note")
    assert [caller and caller.address for caller in site.callers] == [("203.0.113.7", 0), ("203.0.113.8", 0)]


@ERAS
async def test_forwarded_headers_are_ignored_without_trusted_proxies(revision: str) -> None:
    site = Site()
    async with site.server.serve_http(trusted_proxies=["10.0.0.0/8"]) as url:
        headers = {"X-Forwarded-For": "203.0.113.7", "Forwarded": "for=203.0.113.7"}
        async with Client(url, revisions=[revision], headers=headers) as client:
            await client.call_tool("note")
    assert [caller and caller.address and caller.address[0] for caller in site.callers] == ["127.0.0.1"]


async def test_many_sessions_of_a_private_address_are_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    idle_order.report_crowd.cache_clear()
    async with served_over_http(Server("s")) as web:
        for number in range(idle_order.MANY_SESSIONS + 5):
            assert ("come from 127.0.0.1" in caplog.text) == (number >= idle_order.MANY_SESSIONS)
            assert (await RawSession(web).post(initialize())).status == 200
    assert caplog.text.count('trusted_proxies=["127.0.0.1"]') == 1
    idle_order.report_crowd("8.8.8.8")
    assert "8.8.8.8" not in caplog.text
