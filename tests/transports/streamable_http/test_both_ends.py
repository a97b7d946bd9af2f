"""Our client and our server over Streamable HTTP: the requests of each revision, as the server sees them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from mcp_ref import Client, ClientLimits, Context, HttpClient, Server
from mcp_ref.lib.http.message import HttpRequest
from tests.raw_http_client import JSON_TYPE, SSE_TYPE, STREAMABLE, Held, Web, served_over_http
from tests.settings import PATIENCE, eventually


class Seen:
    """The HTTP requests that a server has received."""

    def __init__(self) -> None:
        self.requests: list[HttpRequest] = []

    async def note(self, request: HttpRequest) -> str:
        """Authenticate everybody, and keep the request."""
        self.requests.append(request)
        return "anybody"

    def posts(self) -> list[tuple[HttpRequest, str]]:
        """Return the POSTs, each with the method of its message."""
        found = []
        for request in self.requests:
            if request.method == "POST":
                message = json.loads(request.body)
                found.append((request, message.get("method", "an answer")))
        return found


def url(web: Web) -> str:
    return f"http://127.0.0.1:{web.address[1]}{web.site.path}"


def accepted(request: HttpRequest) -> set[str]:
    return {kind.strip() for kind in (request.headers.get("accept") or "").split(",")}


@pytest.mark.spec(
    "2025-03-26..2025-11-25/basic/transports#sending-messages-to-the-server-1,2,3,8",
    "2025-03-26..2025-11-25/basic/transports#listening-for-messages-from-the-server-1",
    "2025-03-26..2025-06-18/basic/transports#session-management-3,7",
    "2025-06-18..2025-11-25/basic/transports#protocol-version-header-1,2",
    "2025-06-18..2025-11-25/basic/lifecycle#version-negotiation-7",
    "2025-11-25/basic/transports#session-management-4,8",
)
@pytest.mark.parametrize("revision", STREAMABLE)
async def test_a_whole_conversation_is_asked_as_its_revision_wants_it(revision: str) -> None:
    seen = Seen()
    async with served_over_http(Held().server, authenticate=seen.note) as web:
        async with Client(url(web), revision=revision, roots=[]) as client:
            await eventually(lambda: any(request.method == "GET" for request in seen.requests))
            assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"  # answered as JSON
            assert (await client.call_tool("count", {"to": 2})).text == "counted"  # answered as events
            assert (await client.call_tool("ask")).text == "0"  # with a question that comes back
            (id,) = web.site._endpoint.sessions
        assert not web.site._endpoint.sessions
    methods = [method for _, method in seen.posts()]
    assert methods[:2] == ["initialize", "notifications/initialized"]
    assert sorted(methods[2:]) == ["an answer", *["tools/call"] * 3]
    assert {request.path for request in seen.requests} == {"/mcp"}
    assert sorted({request.method for request in seen.requests}) == ["DELETE", "GET", "POST"]
    first, *others = seen.requests
    for request, _ in seen.posts():
        assert accepted(request) == {JSON_TYPE, SSE_TYPE}
    assert all(SSE_TYPE in accepted(request) for request in seen.requests if request.method == "GET")
    assert (first.headers.get("mcp-session-id"), first.headers.get("mcp-protocol-version")) == (None, None)
    named = None if revision == "2025-03-26" else revision
    for request in others:
        assert request.headers.get("mcp-session-id") == id
        assert request.headers.get("mcp-protocol-version") == named


@pytest.mark.spec(
    "2025-03-26..2025-06-18/basic/transports#session-management-6", "2025-11-25/basic/transports#session-management-7"
)
@pytest.mark.parametrize("revision", STREAMABLE)
async def test_a_client_whose_session_the_server_has_ended_begins_a_new_one(revision: str) -> None:
    seen = Seen()
    async with served_over_http(Held().server, authenticate=seen.note) as web:
        async with Client(url(web), revision=revision) as client:
            await eventually(lambda: any(request.method == "GET" for request in seen.requests))
            endpoint = web.site._endpoint
            (former,) = endpoint.sessions.values()
            endpoint.table.end(former)
            seen.requests.clear()
            assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"
            (latter,) = endpoint.sessions
        begun = [request for request, method in seen.posts() if method == "initialize"]
        assert [request.headers.get("mcp-session-id") for request in begun] == [None]
        asked = [request.headers.get("mcp-session-id") for request, method in seen.posts() if method == "tools/call"]
        assert asked in ([former.id, latter], [latter])  # its listening stream may have learnt of it before


async def test_more_calls_that_ask_back_than_there_are_connections_are_all_answered(tmp_path: Path) -> None:
    server = Server("s")

    @server.tool()
    async def roots(context: Context) -> int:
        return len(await context.list_roots())

    async with server.serve_http() as url:
        http = HttpClient(limits=ClientLimits(head_time=None, idle=None, connections=5))
        async with Client(url, roots=[tmp_path], http=http, timeout=PATIENCE) as client:
            results = await asyncio.gather(*(client.call_tool("roots") for _ in range(20)))
            assert [result.structured_content for result in results] == [1] * 20


def test_the_endpoint_is_not_where_the_older_transport_is() -> None:
    with pytest.raises(ValueError, match="uses the path /sse"):
        Server("s").asgi(path="/sse")
    Server("s").asgi(path="/sse", http_sse=False)
