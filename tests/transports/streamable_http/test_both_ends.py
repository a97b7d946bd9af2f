"""Our client and our server over Streamable HTTP."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mcp_ref import Client, ClientLimits, Context, HttpClient, Server
from tests.settings import PATIENCE


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


def test_endpoint_at_the_path_of_http_sse_is_refused() -> None:
    with pytest.raises(ValueError, match="uses the path /sse"):
        Server("s").asgi(path="/sse")
    Server("s").asgi(path="/sse", http_sse=False)
