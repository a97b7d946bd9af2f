"""Large responses take turns, so that a client that asks for many of them does not delay other clients."""

from __future__ import annotations

import asyncio

import pytest

from mcp_ref import Server, TextContent
from mcp_ref.basic.access import Access
from mcp_ref.jsonrpc.messages import Object
from mcp_ref.lib.http.message import Exchange, Headers, HttpRequest
from mcp_ref.lib.turns import LARGE_MESSAGE, Turns, current_turns
from mcp_ref.transports.base import Direction
from mcp_ref.transports.streamable_http.checks import CheckedRequest, RequestChecks
from tests.messages import request, stateless_request
from tests.raw_http_client import RawSession, call, served_over_http
from tests.settings import MODERN

COUNT = 20
SIZE = 250_000
"""Size of a large response, in bytes."""


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
async def test_small_response_is_sent_between_large_responses(revision: str) -> None:
    sent: list[str] = []
    go, large_sent = asyncio.Event(), asyncio.Event()

    def trace(direction: Direction, frame: bytes) -> None:
        if direction == "->":
            sent.append("large" if len(frame) > SIZE else "small")
            if sent[-1] == "large":
                large_sent.set()

    server = Server("s", trace=trace)
    begun = 0

    @server.tool()
    async def large() -> TextContent:
        nonlocal begun
        begun += 1
        await go.wait()
        return TextContent("x" * SIZE)

    async with served_over_http(server) as web:
        talks = [RawSession(web) for _ in range(COUNT + 1)]
        question: Object = stateless_request("tools/call", {"name": "large", "arguments": {}})
        small: Object = stateless_request("tools/list")
        if revision != MODERN:
            for talk in talks:
                await talk.handshake(revision)
            question, small = call("large"), request("ping")
        *others, own = talks
        assert (await own.post(small)).status == 200
        sent.clear()
        replies = [await talk.send(question) for talk in others]
        while begun < COUNT:
            await asyncio.sleep(0)
        go.set()
        await large_sent.wait()
        assert (await own.post(small)).status == 200
        assert sent.count("large") < COUNT
        for reply in replies:
            assert len((await web.take(reply)).body) > SIZE
    assert sent.count("large") == COUNT and sent.count("small") == 1


class Upload:
    """The `Exchange` of a POST with a body of this size, in bytes."""

    def __init__(self, size: int) -> None:
        headers = Headers([("Host", "localhost"), ("Content-Type", "application/json")])
        self.request, self.size = HttpRequest("POST", "/mcp", "", headers), size

    def take_body(self) -> bool:
        return False

    async def read_body(self) -> None:
        self.request.body = b"x" * self.size


async def test_large_requests_are_served_in_several_iterations_of_the_event_loop_and_small_requests_at_once() -> None:
    served: list[int] = []

    async def serve(exchange: Exchange, checked: CheckedRequest, access: Access) -> None:
        served.append(len(exchange.request.body))

    current_turns.set(Turns())
    uploads = [*[Upload(LARGE_MESSAGE + 1) for _ in range(20)], Upload(1)]
    checks = RequestChecks()
    tasks = [asyncio.create_task(checks.guard(upload, None, serve)) for upload in uploads]  # type: ignore[arg-type]
    await asyncio.sleep(0)
    assert served == [LARGE_MESSAGE + 1, 1]
    while not all(task.done() for task in tasks):
        before = len(served)
        await asyncio.sleep(0)
        assert len(served) <= before + 2
    assert len(served) == len(uploads)
