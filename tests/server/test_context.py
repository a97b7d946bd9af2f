"""The context: facts about the request, requests to the client, and their end."""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import threading
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Annotated, cast

import pytest

from mcp_ref import Client, ConnectionClosed, Context, McpError, RemoteError, RequestTimeout, Server
from mcp_ref.basic.channel import Channel
from mcp_ref.jsonrpc.messages import JSON, Object
from mcp_ref.revisions import LEGACY
from mcp_ref.server.context import YIELD_INTERVAL
from tests.messages import initialize, notification, request, text_of
from tests.raw_peers import answer, connected_client, raw_client
from tests.settings import MODERN, PATIENCE, SERVER_TRANSPORTS

KINDS = pytest.mark.parametrize("kind", SERVER_TRANSPORTS)
REVISIONS = pytest.mark.parametrize("revision", [revision.name for revision in LEGACY])
EVERY = pytest.mark.parametrize("revision", [*[revision.name for revision in LEGACY], MODERN])


def calling(name: str, arguments: Object | None = None, id: JSON = "q", **more: JSON) -> Object:
    return request("tools/call", {"name": name, "arguments": arguments or {}, **more}, id)


# ------------------------------------------------------------------------------------------ facts about the request


@KINDS
@EVERY
async def test_context_has_client_info_capabilities_and_revision(kind: str, revision: str) -> None:
    server = Server("s")
    kept: list[Context] = []

    @server.tool()
    async def look(context: Context) -> None:
        assert kind not in ("memory", "stdio") or not context.close_stream()  # these have no HTTP stream
        kept.append(context)

    capabilities: Object = {"sampling": {}, "roots": {"listChanged": False}}
    meta: Object = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"}
    async with connected_client(server, kind, revision, capabilities) as wire:
        for id in ("a", 0):
            await wire.send(calling("look", id=id, _meta=meta))
            await wire.receive()
        (first, second) = kept
        assert (first.request_id, second.request_id) == ("a", 0)
        assert type(second.request_id) is int
        assert first.revision.name == revision
        assert first.meta.items() >= meta.items()
        assert first.client_info is not None
        assert (first.client_info.name, first.client_info.version) == ("raw", "1")
        assert first.channel.peer_capabilities == capabilities
        can = ["sampling", "roots", "roots.listChanged", "elicitation", "sampling.tools", ""]
        assert [first.client_can(name) for name in can] == [True, True, False, False, False, False]
        assert (first.http is None) == (kind in ("memory", "stdio"))


def test_context_progress_is_an_attribute_error() -> None:
    context: Context = Context(cast(Channel, SimpleNamespace(principal=None)), 1, None)
    with pytest.raises(AttributeError, match="'Context' object has no attribute 'progress'"):
        context.progress(1)  # type: ignore[attr-defined]  # its name is report_progress


async def test_context_parameter_may_have_any_name_and_is_not_in_the_schema() -> None:
    server = Server("s")
    seen: list[object] = []

    @server.tool()
    async def tool(a: str, here: Context) -> None:
        seen.append(here)

    @server.tool()
    async def optional(ctx: Context | None = None) -> None:
        seen.append(ctx)

    @server.tool()
    def annotated(*, ctx: Annotated[Context, "the request"]) -> None:
        seen.append(ctx)

    @server.resource("test://of/{name}")
    def template(context: Context, name: str) -> str:
        seen.append(context)
        return ""

    @server.resource("test://a")
    @server.prompt()
    async def prompt(context: Context, x: str = "") -> str:
        seen.append(context)
        return ""

    @server.completion("prompt", "x")
    async def complete(value: str, context: Context) -> list[str]:
        seen.append(context)
        return []

    async with connected_client(server) as wire:
        for method in ("tools/list", "prompts/list"):
            listed = str((await wire.ask(method))["result"])
            assert "here" not in listed and "ctx" not in listed and "context" not in listed
        reference: Object = {"type": "ref/prompt", "name": "prompt"}
        requests: list[tuple[str, Object]] = [
            ("tools/call", {"name": "tool", "arguments": {"a": ""}}),
            ("tools/call", {"name": "optional"}),
            ("tools/call", {"name": "annotated"}),
            ("resources/read", {"uri": "test://a"}),
            ("resources/read", {"uri": "test://of/x"}),
            ("prompts/get", {"name": "prompt"}),
            ("completion/complete", {"ref": reference, "argument": {"name": "x", "value": ""}}),
        ]
        for number, (method, params) in enumerate(requests):
            result = (await wire.ask(method, params, number))["result"]
            assert "isError" not in result
        assert [each.request_id for each in seen if isinstance(each, Context)] == list(range(7))
        for forged in ("here", "ctx", "context"):
            for name in ("tool", "optional", "annotated"):
                arguments: Object = {forged: {}, **({"a": ""} if name == "tool" else {})}
                assert text_of(await wire.ask("tools/call", {"name": name, "arguments": arguments}))
        assert len(seen) == 7, "none of the forged ones came through"


# ------------------------------------------------------------------------------------------ requests to the client


"""By capability: a function that needs it, its request, the params, a client's answer, and a word of that."""


def asking_server() -> Server:
    """Return a server that requests the roots of the client in an async tool, `here`, and in a plain one, `there`."""
    server = Server("s")

    @server.tool()
    async def here(context: Context) -> str:
        return str([root.uri for root in await context.list_roots()])

    @server.tool()
    def there(context: Context) -> str:
        return str([root.uri for root in context.run(context.list_roots())])

    return server


@REVISIONS
@KINDS
@pytest.mark.parametrize("tool", ["here", "there"])
async def test_context_request_returns_the_result_of_the_client(kind: str, tool: str, revision: str) -> None:
    async with connected_client(asking_server(), kind, revision, {"roots": {}}) as wire:
        await wire.send(calling(tool))
        assert await answer(wire, "roots/list", {"roots": [{"uri": "file:///a"}]}) == {}
        assert text_of(await wire.receive_object()) == "['file:///a']"


@REVISIONS
@pytest.mark.parametrize("tool", ["here", "there"])
async def test_context_request_without_the_capability_is_not_sent_and_the_tool_fails(revision: str, tool: str) -> None:
    async with connected_client(asking_server(), "memory", revision, {}) as wire:
        await wire.send(calling(tool))
        assert "did not declare roots" in text_of(await wire.receive_object())
        await wire.nothing_more()


@pytest.mark.parametrize(
    ("revision", "extensions", "is_sent"),
    [("2025-11-25", {}, True), (MODERN, {}, False), (MODERN, {"com.example/search": {}}, True)],
)
async def test_context_notify_needs_the_extension_of_a_modern_client(
    revision: str, extensions: Object, is_sent: bool
) -> None:
    server = Server("s")

    @server.tool()
    async def tell(context: Context) -> str:
        await context.notify("com.example/search/found", {"count": 1})
        return "told"

    async with connected_client(server, "memory", revision, {"extensions": extensions}) as wire:
        await wire.send(calling("tell"))
        if is_sent:
            assert await wire.receive_object() == notification("com.example/search/found", {"count": 1})
        expected = "told" if is_sent else "needs the client capability extensions.com.example/search"
        assert expected in str(await wire.receive_object())


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
async def test_context_elicit_without_a_handler_tells_the_author_and_the_modern_client_what_to_do(
    revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("s")

    @server.tool()
    async def ask(context: Context) -> str:
        return (await context.elicit("Name?", {"type": "object", "properties": {}})).action

    async with Client(server, revision=revision) as client:
        if revision == MODERN:
            with pytest.raises(RemoteError, match=r"create the client with Client\(elicitation=\.\.\.\)$"):
                await client.call_tool("ask")
        else:
            assert "did not declare elicitation" in (await client.call_tool("ask")).text
    (logged,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert logged.startswith("a handler needs elicitation, but this client cannot be asked")


@pytest.mark.parametrize("tool", ["here", "there"])
@pytest.mark.parametrize(
    ("response", "reason"),
    [
        ({"error": {"code": -1, "message": "User rejected the request"}}, "User rejected the request"),
        ({"result": {"nonsense": True}}, "wrong shape"),
    ],
)
async def test_context_request_with_an_error_or_a_malformed_result_fails_the_tool(
    tool: str, response: Object, reason: str
) -> None:
    async with connected_client(asking_server(), capabilities={"roots": {}}) as wire:
        await wire.send(calling(tool))
        asked = await wire.receive_object()
        await wire.send({"jsonrpc": "2.0", "id": asked["id"], **response})
        assert reason in text_of(await wire.receive_object())


@KINDS
async def test_context_request_before_initialized_waits_for_the_handshake(kind: str) -> None:
    async with raw_client(asking_server(), kind) as wire:
        await wire.send(initialize(capabilities={"roots": {}}))
        await wire.receive()
        await wire.send(calling("here"))
        await wire.nothing_more()
        await wire.send(notification("notifications/initialized"))
        await answer(wire, "roots/list", {"roots": []})
        assert text_of(await wire.receive_object()) == "[]"


@KINDS
async def test_context_request_before_initialized_has_the_time_limit_of_the_request(kind: str) -> None:
    server = Server("s")

    @server.tool()
    async def ask(context: Context) -> str:
        try:
            return str(await context.list_roots(timeout=0.05))
        except RequestTimeout as error:
            return str(error)

    async with raw_client(server, kind) as wire:
        await wire.send(initialize(capabilities={"roots": {}}))
        await wire.receive()
        await wire.send(calling("ask"))
        text = text_of(await wire.receive_object())
        assert text == "roots/list was not sent: the client has not sent `initialized` within 0.05 seconds"


# ------------------------------------------------------------------------------------------------ how it ends


@KINDS
async def test_context_request_ends_when_the_client_leaves(kind: str) -> None:
    server, ended = Server("s"), []

    @server.tool()
    async def ask(context: Context) -> None:
        try:
            await context.list_roots()
        except ConnectionClosed as error:
            ended.append(error)
            raise

    async with connected_client(server, kind, capabilities={"roots": {}}) as wire:
        await wire.send(calling("ask"))
        assert (await wire.receive_object())["method"] == "roots/list"
    assert len(ended) == 1


@KINDS
@pytest.mark.usefixtures("short_finish")
async def test_context_run_in_a_worker_thread_ends_when_the_client_leaves(kind: str) -> None:
    server, outcome = Server("s"), list[object]()
    begun, gate, done = threading.Event(), threading.Event(), threading.Event()

    @server.tool()
    def outlive(context: Context) -> None:
        begun.set()
        gate.wait(PATIENCE)
        for attempt in (context.log("info", "x"), context.report_progress(1), context.list_roots()):
            try:
                outcome.append(context.run(attempt))
            except BaseException as error:
                outcome.append(type(error))
        done.set()

    async with connected_client(server, kind, capabilities={"roots": {}}) as wire:
        await wire.send(calling("outlive"))
        assert await asyncio.to_thread(begun.wait, PATIENCE)
        await wire.nothing_more()
    gate.set()
    assert await asyncio.to_thread(done.wait, PATIENCE)
    assert outcome == [concurrent.futures.CancelledError] * 3


@KINDS
async def test_context_run_in_a_worker_thread_ends_when_the_call_is_cancelled(kind: str) -> None:
    done, outcome = threading.Event(), []

    server = Server("s")

    @server.tool()
    def ask(context: Context) -> None:
        try:
            context.run(context.list_roots(timeout=None))
        except BaseException as error:
            outcome.append(type(error))
        done.set()

    async with connected_client(server, kind, capabilities={"roots": {}}) as wire:
        await wire.send(calling("ask"))
        asked = await wire.receive_object()
        assert asked["method"] == "roots/list"
        await wire.send(notification("notifications/cancelled", {"requestId": "q"}))
        told = await wire.receive_object()
        assert (told["method"], told["params"]["requestId"]) == ("notifications/cancelled", asked["id"])
        assert await asyncio.to_thread(done.wait, PATIENCE)
        await wire.nothing_more()
    assert outcome == [concurrent.futures.CancelledError]


async def test_context_run_on_the_event_loop_raises_runtime_error() -> None:
    server = Server("s")

    @server.tool()
    async def confused(context: Context) -> str:
        with pytest.raises(RuntimeError, match="await it instead"):
            context.run(context.log("info", "x"))
        return "told"

    async with connected_client(server) as wire:
        await wire.send(calling("confused"))
        assert text_of(await wire.receive_object()) == "told"


def test_context_run_after_the_end_of_the_loop_is_cancelled_and_closes_its_coroutine() -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    context = Context(cast(Channel, SimpleNamespace(loop=loop)), 1, None)
    coroutine = context.log("info", "x")
    with pytest.raises(concurrent.futures.CancelledError):
        context.run(coroutine)
    assert inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED


def test_context_run_whose_coroutine_the_loop_never_begins_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, submitted = asyncio.new_event_loop(), threading.Event()
    monkeypatch.setattr(loop, "call_soon_threadsafe", lambda *_: submitted.set())  # too late for the last turn
    channel = SimpleNamespace(loop=loop)
    context = cast(Context, SimpleNamespace(channel=channel, _run_cancellable=lambda coroutine: coroutine))
    coroutine = asyncio.sleep(0)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        running = pool.submit(Context.run, context, coroutine)
        assert submitted.wait(PATIENCE)
        loop.close()
        with pytest.raises(concurrent.futures.CancelledError):
            running.result(PATIENCE)
    coroutine.close()


@KINDS
async def test_cancelled_tool_may_clean_up_and_sends_nothing_more(kind: str) -> None:
    server, tidied = Server("s"), asyncio.Event()

    @server.tool()
    async def wait(context: Context) -> str:
        await context.log("info", "begun")
        try:
            await asyncio.Event().wait()
        finally:
            await context.log("info", "cancelled")
            await context.report_progress(1)
            tidied.set()
        return "never"

    async with connected_client(server, kind) as wire:
        await wire.send(calling("wait", _meta={"progressToken": "t"}))
        assert (await wire.receive_object())["method"] == "notifications/message"
        await wire.send(notification("notifications/cancelled", {"requestId": "q"}))
        await asyncio.wait_for(tidied.wait(), PATIENCE)
        await wire.nothing_more()


async def test_context_request_after_the_response_is_not_sent() -> None:
    server = Server("s")
    kept: list[Context] = []

    @server.tool()
    async def keep(context: Context) -> str:
        kept.append(context)
        return "kept"

    async with connected_client(server, capabilities={"roots": {}}) as wire:
        await wire.ask("tools/call", {"name": "keep"})
        with pytest.raises(McpError, match="roots/list was not sent"):
            await kept[0].list_roots()
        await wire.nothing_more()


async def test_context_request_of_a_method_of_the_specification_is_refused() -> None:
    server = Server("s")

    @server.tool()
    async def look(context: Context) -> None:
        with pytest.raises(ValueError, match="'roots/list' belongs to a specification"):
            await context.request("roots/list", returns=dict)

    async with connected_client(server, capabilities={"roots": {}}) as wire:
        answered = await wire.ask("tools/call", {"name": "look"})
        assert "isError" not in answered["result"], answered


# ------------------------------------------------------------------------------------------ many at once


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda context: context.report_progress(1), id="report_progress"),
        pytest.param(lambda context: context.log("info", "x"), id="log"),
        pytest.param(lambda context: context.set_status("x"), id="set_status"),
        pytest.param(lambda context: context.notify("com.example/x"), id="notify"),
    ],
)
async def test_context_methods_let_others_run_after_few_steps_of_all_handlers(
    call: Callable[[Context], Awaitable[None]],
) -> None:
    server = Server("s")
    steps, stop = 0, False

    @server.tool()
    async def chat(context: Context) -> None:
        nonlocal steps
        while not stop and steps < 100_000:
            steps += 1
            await call(context)

    async with connected_client(server, "memory") as wire:
        for number in range(50):
            await wire.send(calling("chat", id=number))
        most = 0
        for _ in range(30):
            before = steps
            await asyncio.sleep(0)
            most = max(most, steps - before)
        assert 50 <= most < 5 * YIELD_INTERVAL
        stop = True
