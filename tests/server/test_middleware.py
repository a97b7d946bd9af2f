"""Middleware: it sees, changes and refuses the requests of both eras."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import Any

import pytest

from mcp_ref import (
    CallToolResult,
    Client,
    Context,
    ElicitResult,
    Proceed,
    ProtocolError,
    RemoteError,
    ServedRequest,
    Server,
    TextContent,
)
from mcp_ref.extensions.tasks.types import CreateTaskResult
from mcp_ref.features.tools import CallToolRequestParams
from mcp_ref.jsonrpc.messages import Object
from mcp_ref.revisions import R2025_11_25, REVISIONS, find_method
from tests.messages import stateless_request
from tests.raw_http_client import RawSession, served_over_http
from tests.raw_peers import connected_client, raw_client
from tests.settings import MODERN, SERVER_TRANSPORTS

KINDS = pytest.mark.parametrize("kind", SERVER_TRANSPORTS)
EVERY = pytest.mark.parametrize("revision", [revision.name for revision in REVISIONS])
ERAS = pytest.mark.parametrize("revision", ["2025-11-25", MODERN])


class Site:
    """A server with a tool, and middleware that keeps the methods of the requests and the types of the results."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.server = Server("site")
        self.server.tool()(self.shout)
        self.server.tool()(self.ask)
        self.server.tool(task="required")(self.job)
        self.server.resource("test://a")(self.job)
        self.server.middleware(self.note)

    async def note(self, request: ServedRequest, context: Context, proceed: Proceed) -> object:
        self.seen.append(request.method)
        try:
            result = await proceed(request)
        except Exception as error:
            self.seen.append(type(error).__name__)
            raise
        self.seen.append(type(result).__name__)
        return result

    def shout(self, text: str) -> str:
        return text.upper()

    async def ask(self, context: Context) -> str:
        return (await context.elicit("Sure?", {"type": "object", "properties": {}})).action

    def job(self) -> str:
        return "done"


@KINDS
@EVERY
async def test_middleware_sees_every_request_of_every_revision(kind: str, revision: str) -> None:
    site = Site()
    async with connected_client(site.server, kind, revision) as wire:
        first = [] if revision == MODERN else ["initialize", "InitializeResult"]
        assert site.seen == first
        site.seen.clear()
        for id, (method, params) in enumerate(
            [
                ("server/discover" if revision == MODERN else "ping", {}),
                ("tools/list", {}),
                ("tools/call", {"name": "shout", "arguments": {"text": "a"}}),
                ("tools/call", {"name": "unknown"}),
                ("resources/read", {"uri": "test://a"}),
                ("no/such", {}),
            ]
        ):
            await wire.ask(method, params, id + 10)  # type: ignore[arg-type]
    first = ["server/discover", "DiscoverResult"] if revision == MODERN else ["ping", "EmptyResult"]
    assert site.seen[:2] == first
    assert site.seen[2:] == [
        *("tools/list", "ListToolsResult"),
        *("tools/call", "CallToolResult"),
        *("tools/call", "ProtocolError"),
        *("resources/read", "ReadResourceResult"),
    ]


async def test_middleware_added_first_is_outermost() -> None:
    server, log = Server("s"), list[str]()

    @server.tool()
    def work() -> str:
        log.append("work")
        return ""

    @server.middleware
    async def outer(request: ServedRequest, context: Context, proceed: Proceed) -> object:
        log.append("outer")
        try:
            return await proceed(request)
        finally:
            log.append("outer ends")

    @server.middleware
    async def inner(request: ServedRequest, context: Context[str], proceed: Proceed) -> object:
        log.append("inner")
        return await proceed(request)

    async with Client(server) as client:
        log.clear()
        await client.call_tool("work")
    assert log == ["outer", "inner", "work", "outer ends"]


@KINDS
@EVERY
@pytest.mark.breaks("specified_code")
async def test_middleware_refuses_with_the_error_that_it_raises(kind: str, revision: str) -> None:
    site = Site()

    @site.server.middleware
    async def refuse(request: ServedRequest, context: Context, proceed: Proceed) -> object:
        if request.method == "tools/call":
            raise ProtocolError(-32099, f"{request.params.name} rests", {"until": 6})
        return await proceed(request)

    async with connected_client(site.server, kind, revision) as wire:
        reply = await wire.ask("tools/call", {"name": "shout", "arguments": {"text": "a"}})
    assert reply["error"] == {"code": -32099, "message": "shout rests", "data": {"until": 6}}


@KINDS
@EVERY
async def test_middleware_changes_params_and_result(kind: str, revision: str) -> None:
    site = Site()

    @site.server.middleware
    async def change(request: ServedRequest, context: Context, proceed: Proceed) -> object:
        if not isinstance(request.params, CallToolRequestParams):
            return await proceed(request)
        params = replace(request.params, arguments={"text": "b"})
        result = await proceed(replace(request, params=params))
        assert isinstance(result, CallToolResult)
        return CallToolResult([TextContent(result.text + "!")])

    async with connected_client(site.server, kind, revision) as wire:
        reply = await wire.ask("tools/call", {"name": "shout", "arguments": {"text": "a"}})
    result = reply["result"]
    assert result.get("toolResult", result.get("content")) in ("B!", [{"type": "text", "text": "B!"}])


async def test_middleware_passes_the_need_for_input_and_sees_the_retry() -> None:
    site = Site()

    async def accept(params: object) -> ElicitResult:
        return ElicitResult("accept", {})

    async with Client(site.server, revision=MODERN, elicitation=accept) as client:
        site.seen.clear()
        assert (await client.call_tool("ask")).text == "accept"
    assert site.seen == ["tools/call", "tools/call", "CallToolResult"]


@ERAS
async def test_middleware_sees_the_begin_of_a_task(revision: str) -> None:
    site = Site()
    site.server.tasks.poll_interval = 20
    async with Client(site.server, revision=revision) as client:
        running = await client.start_tool("job")
        assert site.seen[-2:] == ["tools/call", CreateTaskResult.__name__]
        assert (await running.result()).text == "done"


@ERAS
async def test_middleware_sees_custom_methods(revision: str) -> None:
    site = Site()

    @site.server.method("com.example/search")
    def search() -> dict[str, str]:
        return {"found": "it"}

    async with Client(site.server, revision=revision, extensions={"com.example/search": {}}) as client:
        assert await client.request("com.example/search", {}, dict) == {"found": "it"}
    assert site.seen[-2:] == ["com.example/search", "CustomData"]


async def test_middleware_sees_the_whole_subscription() -> None:
    site = Site()
    async with connected_client(site.server, "memory", MODERN) as wire:
        await wire.send(stateless_request("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, 1))
        assert (await wire.receive_object())["method"] == "notifications/subscriptions/acknowledged"
        assert site.seen == ["subscriptions/listen"]
    assert site.seen == ["subscriptions/listen", "EmptyResult"]


async def test_middleware_sees_the_whole_subscription_over_http() -> None:
    site = Site()
    async with served_over_http(site.server) as web:
        params: Object = {"notifications": {"toolsListChanged": True}}
        reply = await RawSession(web).post(stateless_request("subscriptions/listen", params, 1))
        assert (await reply.object())["method"] == "notifications/subscriptions/acknowledged"
        assert site.seen == ["subscriptions/listen"]
        await web.site.end_sessions()
        assert "result" in await reply.object()
        assert site.seen == ["subscriptions/listen", "EmptyResult"]


@ERAS
async def test_middleware_that_requires_a_scope_refuses_with_status_403(revision: str) -> None:
    server = Server("s")
    server.tools.add(lambda: "", "work")

    @server.middleware
    async def only_for_writers(request: ServedRequest, context: Context, proceed: Proceed) -> object:
        if request.method == "tools/call":
            context.require("write")
        return await proceed(request)

    async with served_over_http(server) as web:
        talk = RawSession(web)
        if revision == MODERN:
            reply = await talk.post(stateless_request("tools/call", {"name": "work"}))
        else:
            await talk.handshake(revision)
            reply = await talk.post({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "work"}})
    assert reply.status == 403


@KINDS
@ERAS
async def test_middleware_that_times_out_is_an_error_that_says_so(kind: str, revision: str) -> None:
    server = Server("s")

    @server.resource("test://slow")
    async def slow() -> str:
        await asyncio.Event().wait()
        return ""

    @server.middleware
    async def limit(request: ServedRequest, context: Context, proceed: Proceed) -> object:
        async with asyncio.timeout(0.01 if request.method == "resources/read" else None):
            return await proceed(request)

    async with connected_client(server, kind, revision) as wire:
        reply = await wire.ask("resources/read", {"uri": "test://slow"})
    assert reply["error"] == {"code": -32603, "message": "resources/read timed out on the server"}


@pytest.mark.parametrize("before", [True, False])
async def test_middleware_that_requests_input_during_initialize_gets_an_error_at_once(before: bool) -> None:
    server = Server("s")

    @server.middleware
    async def ask(request: ServedRequest, context: Context, proceed: Proceed) -> object:
        if before:
            await context.request("com.example/license", returns=dict)
        result = await proceed(request)
        await context.request("com.example/license", returns=dict)
        return result

    with pytest.raises(RemoteError, match="was not sent: the client sends `initialized` only after the response"):
        async with Client(server, revision="2025-11-25"):
            raise AssertionError


# ------------------------------------------------------------------------------------------------ mistakes


def test_middleware_costs_nothing_without_middleware() -> None:
    server = Server("s")
    server.tools.add(lambda: "", "work")
    method = find_method("tools/call", R2025_11_25, "client")
    assert method is not None
    assert server.catalog.handler(method) == server.catalog.tools.call


def test_middleware_must_be_async() -> None:
    def plain(request: ServedRequest, context: Context, proceed: Proceed) -> object:
        return proceed(request)

    class Policy:
        def method(self, request: ServedRequest, context: Context, proceed: Proceed) -> object:
            return proceed(request)

    for function in (plain, Policy().method):
        text = rf"write `async def {function.__name__}\(request, context, proceed\)`"
        with pytest.raises(TypeError, match=text):
            Server("s").middleware(function)  # type: ignore[type-var]
    mistakes: list[tuple[Any, str]] = [(Policy, "Policy"), (5, "name")]  # a class instead of its object; not a function
    for wrong, name in mistakes:
        with pytest.raises(TypeError, match=rf"write `async def {name}\(request, context, proceed\)`, not "):
            Server("s").middleware(wrong)


async def test_middleware_cannot_be_added_while_the_server_serves() -> None:
    site = Site()
    async with Client(site.server):
        with pytest.raises(RuntimeError, match="add middleware before it serves"):
            site.server.middleware(site.note)
    site.server.middleware(site.note)
    async with Client(site.server) as client:
        site.seen.clear()
        await client.call_tool("shout", {"text": "a"})
    assert site.seen == ["tools/call", "tools/call", "CallToolResult", "CallToolResult"]


@ERAS
async def test_middleware_mistakes_are_logged_and_become_internal_errors(
    revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("s")
    server.tools.add(lambda: "", "forget")
    server.tools.add(lambda: "", "rename")

    @server.middleware
    async def mistaken(request: ServedRequest, context: Context, proceed: Proceed) -> object:
        if request.method != "tools/call":
            return await proceed(request)
        if request.params.name == "forget":
            await proceed(request)
            return None
        return await proceed(replace(request, method="tools/list"))

    async with Client(server, revision=revision) as client:
        with caplog.at_level(logging.ERROR):
            for tool in ("forget", "rename"):
                with pytest.raises(RemoteError, match="Internal error"):
                    await client.call_tool(tool)
    assert "the middleware mistaken returned NoneType: it must return the result of `proceed`" in caplog.text
    assert "middleware can change the params of tools/call, but not the method" in caplog.text


async def test_middleware_added_after_the_server_has_served_sees_the_requests_of_the_next_time() -> None:
    server, seen = Server("s"), list[str]()

    async def note(request: ServedRequest, context: Context, proceed: Proceed) -> object:
        seen.append(request.method)
        return await proceed(request)

    async with raw_client(server, "memory") as wire:
        await wire.ask_stateless("server/discover")
    server.middleware(note)
    async with raw_client(server, "memory") as wire:
        await wire.ask_stateless("server/discover")
    assert seen == ["server/discover"]
