"""The server: registration and calls of functions, capabilities, and tools that cannot harm the session."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import queue
import re
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from types import CoroutineType
from typing import Any, ParamSpec, TypeVar, cast
from urllib.parse import urlsplit

import pytest

from mcp_ref import Client, Context, Server
from mcp_ref.basic.meta import RequestParams
from mcp_ref.features.completion import PromptReference, ResourceTemplateReference
from mcp_ref.features.roots import ListRootsResult
from mcp_ref.jsonrpc.messages import INVALID_PARAMS, INVALID_REQUEST, JSON, METHOD_NOT_FOUND, Object, Request
from mcp_ref.revisions import R2024_11_05, R2025_03_26
from mcp_ref.server import announcements
from mcp_ref.server.session import ServerSession
from tests.messages import Received, initialize, notification, request, text_of
from tests.raw_peers import Wire, add_and_remove, connected_client, raw_client
from tests.settings import PATIENCE, SERVER_TRANSPORTS, TASK_FACTORIES

KINDS = pytest.mark.parametrize("kind", SERVER_TRANSPORTS)

P = ParamSpec("P")
R = TypeVar("R")


def calling(name: str, arguments: Object | None = None, id: JSON = "q") -> Object:
    return request("tools/call", {"name": name, "arguments": arguments or {}}, id)


async def text_from(wire: Wire, name: str, arguments: Object | None = None) -> str:
    """Call a tool, and give its one text."""
    await wire.send(calling(name, arguments))
    return text_of(await wire.receive_object())


# ------------------------------------------------------------------------------------------------ registering


async def test_server_without_a_version_has_version_0_0_0() -> None:
    async with Client(Server("s")) as client:
        assert (client.server_info.name, client.server_info.version) == ("s", "0.0.0")


async def test_server_of_legacy_revisions_knows_no_stateless_request() -> None:
    async with raw_client(Server("s", revisions=[R2025_03_26])) as wire:
        error = (await wire.ask_stateless("server/discover"))["error"]
        assert isinstance(error, dict) and error["code"] == INVALID_REQUEST


def test_decorators_return_the_function_unchanged() -> None:
    server = Server("s")

    def f(x: str = "") -> str:
        return x

    assert server.tool()(f) is f
    assert server.prompt()(f) is f
    assert server.resource("test://{x}")(f) is f

    def complete(value: str) -> list[str]:
        return []

    assert server.completion("f", "x")(complete) is complete


def logged(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function with a wrapper, as a decorator does."""

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        return function(*args, **kwargs)

    return wrapped


class Counter:
    """Adds up."""

    def __init__(self) -> None:
        self.count = 0

    def add(self, n: int) -> int:
        "Add n."
        self.count += n
        return self.count

    async def __call__(self, n: int) -> int:
        return self.add(n)


async def test_server_tool_accepts_methods_partials_wrapped_functions_and_callable_objects() -> None:
    server, counter = Server("s"), Counter()
    server.tools.add(counter.add)
    server.tools.add(logged(counter.add), "logged")
    server.tools.add(functools.partial(counter.add, n=10), "ten")
    server.tools.add(counter, "itself")
    async with connected_client(server) as wire:
        listed = (await wire.ask("tools/list"))["result"]
        tools = {tool["name"]: tool for tool in listed["tools"]}
        assert list(tools) == ["add", "logged", "ten", "itself"]
        assert tools["add"]["description"] == tools["logged"]["description"] == "Add n."
        assert tools["add"]["inputSchema"] == tools["logged"]["inputSchema"]
        assert "n" not in tools["ten"]["inputSchema"].get("properties", {})
        for name, n, text in (("add", 1, "1"), ("logged", 2, "3"), ("ten", None, "13"), ("itself", 4, "17")):
            assert await text_from(wire, name, {} if n is None else {"n": n}) == text


# ------------------------------------------------------------------------------------------------ declaring


CHANGING: Object = {"listChanged": True}


@pytest.mark.parametrize(
    ("used", "declared"),
    [
        ([], {}),
        (["tools"], {"tools": CHANGING}),
        (["resources"], {"resources": {"subscribe": True, "listChanged": True}}),
        (["prompts"], {"prompts": CHANGING}),
        (["completions"], {"completions": {}, "prompts": CHANGING}),
        (["prompts", "tools"], {"prompts": CHANGING, "tools": CHANGING}),
    ],
)
@pytest.mark.parametrize("logging", [True, False])
async def test_server_capabilities_are_those_of_the_features_with_items(
    used: list[str], declared: Object, logging: bool
) -> None:
    server = Server("s", logging=logging)
    for feature in used:
        add_and_remove(server, feature)
    async with raw_client(server) as wire:
        await wire.send(initialize())
        capabilities = (await wire.receive_object())["result"]["capabilities"]
        assert capabilities == {**declared, **({"logging": {}} if logging else {})}


@KINDS
async def test_server_capability_that_is_declared_after_initialize_is_for_the_next_client(kind: str) -> None:
    server = Server("s")
    async with connected_client(server, kind) as wire:
        add_and_remove(server, "tools")
        await wire.nothing_more()  # an undeclared feature is not announced either
        assert (await wire.ask("tools/list"))["error"]["code"] == METHOD_NOT_FOUND
        async with connected_client(server, kind) as later:
            assert "result" in await later.ask("tools/list")


# ------------------------------------------------------------------------------------------------ list_changed

TOOLS_CHANGED = notification("notifications/tools/list_changed")


@KINDS
@pytest.mark.parametrize("task_factory", TASK_FACTORIES)
async def test_tools_list_changed_is_sent_once_for_many_changes_and_again_for_the_next(
    kind: str, task_factory: Any
) -> None:
    asyncio.get_running_loop().set_task_factory(task_factory)
    server = Server("s")
    add_and_remove(server, "tools")
    async with connected_client(server, kind) as wire:
        await wire.nothing_more()
        for first in (0, 100, 200):
            for number in range(100):
                server.tools.add(lambda: "", f"n{first + number}")
            assert await wire.receive() == TOOLS_CHANGED
        assert len((await wire.ask("tools/list"))["result"]["tools"]) == 300
        await wire.nothing_more()


@KINDS
async def test_tools_list_changed_before_initialized_waits_without_a_task(kind: str) -> None:
    server = Server("s")
    add_and_remove(server, "tools")
    async with raw_client(server, kind) as wire:
        await wire.send(initialize())
        await wire.receive()
        server.tools.add(lambda: "", "early")
        await wire.nothing_more()
        coroutines = [cast("CoroutineType[None, None, object]", task.get_coro()) for task in asyncio.all_tasks()]
        assert announcements.__file__ not in {each.cr_code.co_filename for each in coroutines}


@KINDS
async def test_tools_list_changed_is_sent_after_the_handshake_and_not_to_a_client_that_has_left(kind: str) -> None:
    server = Server("s")
    add_and_remove(server, "tools")
    async with raw_client(server, kind) as wire:
        server.tools.add(lambda: "", "before")
        if kind in ("memory", "stdio", "http+sse"):  # elsewhere the client has no stream yet
            await wire.nothing_more()
        await wire.send(initialize())
        await wire.receive()
        server.tools.add(lambda: "", "between")
        await wire.nothing_more()
        await wire.send(notification("notifications/initialized"))
        assert await wire.receive() == TOOLS_CHANGED
    server.tools.add(lambda: "", "afterwards")


@KINDS
async def test_tools_may_add_and_remove_tools_also_from_a_worker_thread(kind: str) -> None:
    server = Server("s")

    @server.tool()
    def grow() -> str:
        add_and_remove(server, "prompts")
        server.tools.add(lambda: "new", "grown")
        server.tools.remove("grow")
        return "done"

    async with connected_client(server, kind) as wire:
        told: list[Object] = []  # how often, and when, depends on how fast the thread is

        async def answer(message: Object) -> Received:
            await wire.send(message)
            while "id" not in (frame := await wire.receive_object()):
                told.append(frame)
            return frame

        assert text_of(await answer(calling("grow"))) == "done"
        assert text_of(await answer(calling("grown"))) == "new"
        assert (await answer(calling("grow")))["error"]["code"] == INVALID_PARAMS
        assert TOOLS_CHANGED in told


# ------------------------------------------------------------------------------------------------ threads


async def test_plain_function_that_blocks_does_not_stop_other_requests() -> None:
    server, gate = Server("s"), threading.Event()
    server.tools.add(lambda: "opened" if gate.wait(PATIENCE) else "never opened", "blocked")

    @server.tool()
    def opens() -> str:
        gate.set()
        return "done"

    @server.tool()
    async def quick() -> str:
        return "quick"

    async with connected_client(server) as wire:
        for number in range(5):
            await wire.send(calling("blocked", id=number))
        await wire.nothing_more()
        assert await text_from(wire, "quick") == "quick"
        await wire.send(calling("opens"))
        answers = [await wire.receive_object() for _ in range(6)]
        assert sorted(map(text_of, answers)) == ["done", *["opened"] * 5]


async def test_async_functions_run_concurrently_on_the_event_loop() -> None:
    server, here = Server("s"), threading.current_thread()
    together = asyncio.Barrier(10)

    @server.tool()
    async def meet() -> bool:
        await together.wait()
        return threading.current_thread() is here

    async with connected_client(server) as wire:
        for number in range(10):
            await wire.send(calling("meet", id=number))
        assert {text_of(await wire.receive_object()) for _ in range(10)} == {"true"}


class MainThread(Executor):
    """An executor that queues calls for a thread that fetches them, for a host with an API for its main thread only."""

    def __init__(self) -> None:
        self.calls: queue.Queue[Callable[[], None] | None] = queue.Queue()

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        future: Future[R] = Future()

        def call() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(fn(*args, **kwargs))
                except BaseException as error:
                    future.set_exception(error)

        self.calls.put(call)
        return future

    def serve(self) -> None:
        while (call := self.calls.get()) is not None:
            call()


async def test_executor_of_the_caller_runs_plain_functions_and_is_not_shut_down() -> None:
    executor = MainThread()
    host = threading.Thread(target=executor.serve, name="the host's main thread")
    host.start()
    server = Server("s", executor=executor)
    server.tools.add(lambda: threading.current_thread().name, "where")

    @server.tool()
    def fails() -> str:
        raise StopIteration("secret")

    @server.tool()
    async def on_the_loop() -> str:
        return threading.current_thread().name

    try:
        for _ in range(2):  # a connection that ends takes the executor from no other
            async with connected_client(server) as wire:
                assert await text_from(wire, "where") == "the host's main thread"
                assert await text_from(wire, "fails") == "Tool fails failed"
                assert await text_from(wire, "on_the_loop") == threading.current_thread().name
    finally:
        executor.calls.put(None)
        host.join(PATIENCE)


async def test_worker_thread_has_the_context_variables_of_the_request() -> None:
    server = Server("s")
    variable = contextvars.ContextVar("variable", default="unset")

    @server.tool()
    def read() -> str:
        return variable.get()

    variable.set("set where the server was started")
    async with connected_client(server) as wire:
        assert await text_from(wire, "read") == "set where the server was started"


@pytest.mark.parametrize("error", [StopIteration, StopAsyncIteration, GeneratorExit, SystemExit, KeyboardInterrupt])
async def test_worker_thread_exceptions_of_any_kind_become_responses(error: type[BaseException]) -> None:
    server = Server("s")

    def fails(x: str = "") -> str:
        raise error("secret")

    server.tools.add(fails)
    server.prompts.add(fails)
    server.resources.add("test://a", fails)
    server.completions.add("fails", "x", lambda value: fails())
    requests: dict[str, Object] = {
        "prompts/get": {"name": "fails"},
        "resources/read": {"uri": "test://a"},
        "completion/complete": {
            "ref": {"type": "ref/prompt", "name": "fails"}, "argument": {"name": "x", "value": ""},
        },
    }  # fmt: skip
    async with connected_client(server) as wire:
        assert await text_from(wire, "fails") == "Tool fails failed"
        for method, params in requests.items():
            answer = await wire.ask(method, params)
            assert answer["error"] == {"code": -32603, "message": "Internal error"}


# ------------------------------------------------------------------------------------------------ size


async def test_page_of_a_list_has_1000_items_by_default() -> None:
    server = Server("s")
    for number in range(1001):
        server.prompts.add(lambda: "", f"n{number}")
    async with connected_client(server) as wire:
        result = (await wire.ask("prompts/list"))["result"]
        assert (len(result["prompts"]), "nextCursor" in result) == (1000, True)


async def test_completions_are_for_the_arguments_of_prompts_and_templates_alone() -> None:
    server = Server("s")
    server.resource("notes://{id}")(lambda id: id)
    server.completion("notes://{id}", "id")(lambda value: [value + "1"])
    async with Client(server) as client:
        reference = ResourceTemplateReference("notes://{id}")
        assert (await client.complete(reference, "id", "a")).values == ["a1"]
    server.prompt("greet")(lambda name: name)
    server.completion("greet", "name")(lambda value: [value + "2"])
    async with Client(server) as client:
        assert (await client.complete(PromptReference("greet"), "name", "a")).values == ["a2"]
    server.completion("greet", "other")(lambda value: [])
    for wrong in (Server("empty"), server):
        wrong.completion("greet", "other")(lambda value: [])
        with pytest.raises(ValueError, match="a completion is for 'other' of 'greet'"):
            async with wrong.serve_http():
                pass


def test_server_revisions_may_be_given_by_name() -> None:
    assert Server("s", revisions=["2025-03-26", "2024-11-05"]).revisions == [R2024_11_05, R2025_03_26]
    assert Server("s", revisions=["2026-07-28"]).catalog.legacy_revisions == []


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        ({"titel": "x"}, "unknown option 'titel'; did you mean 'title'?"),
        ({"title": 5}, "the option title must have the type str | None, not int"),
        ({"icons": "x"}, "the option icons must have the type list[Icon] | None, not str"),
        ({"icons": [{"src": "https://x.example/y"}]}, "; write Icon(...) instead of a dict"),
    ],
)
def test_server_decorators_refuse_an_option_of_an_unknown_name_or_of_the_wrong_type(
    options: dict[str, Any], advice: str
) -> None:
    server = Server("s")
    resource, template = server.resource("test://a", **options), server.resource("test://{a}", **options)
    for registering in (server.tool(**options), server.prompt(**options), resource, template):
        with pytest.raises(TypeError, match=re.escape(advice)):
            registering(lambda a="": "x")


@pytest.mark.parametrize(
    ("wrong", "advice"),
    [
        ({"revisions": []}, "revisions must not be empty"),
        ({"revisions": ["1.0"]}, "unknown protocol revision '1.0'"),
        ({"revisions": [1]}, "unknown protocol revision 1; the known revisions are 2024-10-07"),
        ({"page_size": 0}, "page_size"),
        ({"page_size": -1}, "page_size"),
        ({"version": 1.0}, "Implementation.version must be str, not 1.0"),
        ({"name": None}, "Implementation.name must be str, not None"),
        ({"icons": ["x.png"]}, "Implementation.icons must be list[Icon] | None, not ['x.png']"),
        ({"instructions": ["Add."]}, "the option instructions must have the type str | None, not list[str]"),
    ],
)
def test_server_refuses_an_argument_of_the_wrong_type_or_an_impossible_value(
    wrong: dict[str, Any], advice: str
) -> None:
    error = ValueError if wrong.keys() & {"revisions", "page_size"} else TypeError
    with pytest.raises(error, match=re.escape(advice)):
        Server(**{"name": "s", **wrong})
    Server("s", page_size=1)


@pytest.mark.parametrize("decorator", ["tool", "resource", "prompt"])
@pytest.mark.parametrize("wrong", [len, 5], ids=["a function, as without parentheses", "a number"])
def test_server_decorators_refuse_a_first_argument_that_is_not_a_text(decorator: str, wrong: object) -> None:
    with pytest.raises(TypeError, match=rf"write @server.{decorator}\(\.\.\.\), with parentheses, and a str in them"):
        getattr(Server("s"), decorator)(wrong)(lambda: "x")


def test_tool_annotations_in_a_dict_are_refused() -> None:
    mistake: dict[str, Any] = {"annotations": {"readOnlyHint": True}}
    with pytest.raises(TypeError, match=re.escape("; write ToolAnnotations(...) instead of a dict")):
        Server("s").tool(**mistake)(lambda: "x")


async def test_server_over_http_refuses_a_misspelled_option() -> None:
    misspelled: dict[str, Any] = {"authorisation": object()}
    for serving in (lambda: Server("s").asgi(**misspelled), lambda: Server("s").run_http(**misspelled)):
        with pytest.raises(TypeError, match=r"unknown option 'authorisation'; did you mean 'authorization'\?"):
            await asyncio.to_thread(serving)


@pytest.mark.parametrize(
    ("name", "wrong", "right"),
    [
        ("path", ["mcp", "/m cp", "/\u00e9", "/a?b"], ["", "/", "/mcp", "/m%20cp/"]),
        ("allowed_hosts", ["", "http://a", "*.a", "a b"], ["*", "a", "a:80", "[::1]", "A.example", "a_b"]),
        (
            "allowed_origins",
            ["", "a.example", "https://a/", "https://a:443", "http://a:80", "https://*.a"],
            ["*", "null", "https://a", "https://a:444", "http://[::1]:8000", "https://a:80", "app://1", "file://"],
        ),
    ],
)
def test_server_over_http_refuses_a_path_host_or_origin_that_no_request_can_have(
    name: str, wrong: list[str], right: list[str]
) -> None:
    def serve(value: str) -> None:
        options: dict[str, Any] = {name: value if name == "path" else [value]}
        Server("s").asgi(**options)

    for each in wrong:
        with pytest.raises(ValueError, match=rf"must be like .*, not {re.escape(repr(each))}$"):
            serve(each)
    for each in right:
        serve(each)


def test_endpoint_at_the_path_of_http_sse_is_refused() -> None:
    with pytest.raises(ValueError, match="uses the path /sse"):
        Server("s").asgi(path="/sse")
    Server("s").asgi(path="/sse", http_sse=False)


@pytest.mark.parametrize("wrong", [{"ssl": True}, {"http_limits": 5}, {"host": ["127.0.0.1"]}])
async def test_serve_http_refuses_an_argument_of_the_wrong_type(wrong: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=f"the option {next(iter(wrong))} must have the type "):
        async with Server("s").serve_http(**wrong):
            raise AssertionError


@pytest.mark.parametrize("name", ["allowed_hosts", "allowed_origins"])
def test_server_over_http_refuses_one_text_as_allowed_names(name: str) -> None:
    options: dict[str, Any] = {name: "app.example"}
    with pytest.raises(TypeError, match=rf"the option {name} must have the type .*; write \['app.example'\]"):
        Server("s").asgi(**options)


def test_repr_of_server_counts_the_items_of_its_features_and_its_sessions() -> None:
    server = Server("calc", state_key=b"hunter2 hunter2 hunter2")
    assert repr(server) == "<Server 'calc', sessions and HTTP applications: 0>"
    server.tool("a")(lambda: "x")
    server.resource("test://a")(lambda: "x")
    server.resource("test://{name}")(lambda name: "x")
    assert repr(server) == "<Server 'calc', tools: 1, resources: 2, sessions and HTTP applications: 0>"


async def test_serve_http_with_allowed_hosts_accepts_only_those() -> None:
    async with Server("s").serve_http(allowed_hosts=["app.example"]) as url:
        address = urlsplit(url)
        for host, status in (("app.example", b"204"), (address.netloc, b"403")):
            reader, writer = await asyncio.open_connection(address.hostname, address.port)
            writer.write(f"OPTIONS /mcp HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
            assert (await reader.read()).split()[1] == status
            writer.close()
            await writer.wait_closed()


@pytest.mark.spec("2024-11-05..2025-11-25/basic/utilities/progress#progress-flow-1,2")
async def test_session_request_hears_the_progress_that_the_client_reports() -> None:
    server, heard = Server("s"), list[object]()

    @server.tool()
    async def ask(context: Context) -> str:
        assert isinstance(context.channel, ServerSession)
        found = await context.channel.request(
            "roots/list", RequestParams(), ListRootsResult, timeout=PATIENCE, related=context.request_id,
            on_progress=lambda *values: heard.append(values),
        )  # fmt: skip
        return f"{len(found.roots)} roots"

    async with connected_client(server, capabilities={"roots": {}}) as wire:
        await wire.send(request("tools/call", {"name": "ask"}))
        asked = await wire.receive_object()
        token = asked["params"]["_meta"]["progressToken"]
        await wire.send(notification("notifications/progress", {"progressToken": token, "progress": 1, "total": 2}))
        await wire.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"roots": []}})
        assert text_of(await wire.receive_object()) == "0 roots"
    assert heard == [(1, 2, None)]


@pytest.mark.parametrize("begins_another", [True, False])
async def test_session_without_a_principal_ends_its_tasks_when_it_ends_or_initialize_begins_another(
    begins_another: bool,
) -> None:
    server, ended = Server("s"), asyncio.Event()

    @server.tool(task="required")
    async def wait() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        raise AssertionError

    async with connected_client(server):  # otherwise the end of the last session would end all tasks
        async with connected_client(server) as wire:
            await wire.ask("tools/call", {"name": "wait", "task": {}})
            assert server.tasks.live
            if begins_another:
                await wire.ask("initialize", initialize()["params"])
                assert not server.tasks.live
        assert not server.tasks.live
        await asyncio.wait_for(ended.wait(), PATIENCE)


@pytest.mark.parametrize(
    ("method", "params", "scopes"),
    [
        ("tools/call", {"name": "x"}, {"tool"}),
        ("tools/call", {"name": "y"}, set()),
        ("tools/call", {"name": 1}, set()),
        ("tools/list", {"name": "x"}, set()),
        ("prompts/get", {"name": "x"}, {"prompt"}),
        ("prompts/get", {"name": 1}, set()),
        ("prompts/list", {"name": "x"}, set()),
        ("completion/complete", {"ref": {"type": "ref/prompt", "name": "x"}}, {"prompt"}),
        ("completion/complete", {"ref": {"type": "ref/resource", "uri": "x://{id}"}}, {"resource"}),
        ("completion/complete", {"ref": 1}, set()),
        ("resources/read", {"uri": "x://1"}, {"resource"}),
        ("resources/subscribe", {"uri": "x://1"}, {"resource"}),
        ("resources/unsubscribe", {"uri": "x://1"}, set()),
        ("resources/read", {"uri": 1}, set()),
        ("ping", {"ref": {"name": "x"}, "name": "x", "uri": "x://1"}, set()),
    ],
)
def test_scopes_of_a_request_are_those_of_its_tool_prompt_or_resource(
    method: str, params: Object, scopes: set[str]
) -> None:
    server = Server("s")
    server.tool("x", scopes={"tool"})(lambda: None)
    server.prompt("x", scopes={"prompt"})(lambda: "")
    server.resource("x://{id}", scopes={"resource"})(lambda id: id)
    assert {*server.catalog.scopes_of(Request(1, method, params))} == scopes
    assert not Server("empty").catalog.scopes_of(Request(1, method, params))
