"""`context.http`: the HTTP request that carried a message, for handlers of both eras and of tasks."""

from __future__ import annotations

import json

import pytest

from mcp_ref import Client, Context, HttpCaller, Server
from mcp_ref.jsonrpc.messages import JSON
from mcp_ref.revisions import REVISIONS
from mcp_ref.server.http import has_small_result
from tests.messages import notification, request, stateless_request
from tests.raw_peers import connected_client
from tests.settings import MODERN, SERVER_TRANSPORTS

KINDS = pytest.mark.parametrize("kind", SERVER_TRANSPORTS)
ERAS = pytest.mark.parametrize("revision", ["2025-11-25", MODERN])


class Site:
    """A server that keeps the callers of its tool."""

    def __init__(self) -> None:
        self.callers: list[HttpCaller | None] = []
        self.server = Server("site")
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
