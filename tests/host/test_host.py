"""The host with real servers: each transport, both eras, names and URIs that two servers share."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mcp_ref import (
    Client,
    ConnectionClosed,
    Context,
    ElicitResult,
    Host,
    InvalidMessage,
    Refused,
    Server,
    ServerUnavailable,
    SyncHost,
    ToolAnnotations,
    ToolError,
    UnknownName,
)
from mcp_ref.client.target import InProcessServer
from mcp_ref.jsonrpc.messages import Object
from mcp_ref.revisions import LATEST_LEGACY
from tests.forked_python import forked
from tests.host.peers import Fragile, LegacyServer, Person, calculator, opened, state, tool
from tests.server_programs import serving
from tests.settings import MODERN, PATIENCE, ROOT, SERVER_TRANSPORTS, eventually

ADD: Object = {"a": 1, "b": 2}
RESULT: Object = {"content": [], "structuredContent": {}}
EVERYTHING = ROOT / "examples" / "everything.py"
TELLS_PROCESS = """
import os, sys
from mcp_ref import Server
print(os.getpid(), file=sys.stderr, flush=True)
server = Server("s")
@server.tool()
def getpid() -> int:
    return os.getpid()
server.run()
"""
KINDS = [kind for kind in SERVER_TRANSPORTS if kind in ("stdio", "http")] or ["stdio"]


@contextmanager
def served(kind: str) -> Iterator[list[str] | str]:
    """Yield a command or a URL of the example server with all features."""
    if kind == "stdio":
        yield forked("-m", "mcp_ref", "run", str(EVERYTHING))
        return
    with serving(EVERYTHING) as program:
        yield program.url


@pytest.mark.parametrize("kind", KINDS)
async def test_host_lists_and_uses_every_feature_of_a_server(kind: str) -> None:
    with served(kind) as target:
        servers: dict[str, list[str] | str | InProcessServer] = {"every thing": target, "calc": calculator()}
        async with opened(Host(servers, startup_wait=15)) as host:
            tools = {each.full_name: each for each in await host.list_tools()}
            assert "calc.add" in tools and len(tools) > 5 and list(tools) == sorted(tools)
            assert tools["calc.add"].model_name == "calc__add" and tools["calc.add"].display_name == "add (calc)"
            assert (await host.call_tool("calc__add", ADD)).text == "3"
            name = "every-thing"
            async with Client(target) as client:
                assert len(await host.list_tools()) == len(await client.list_tools()) + 1
                prompts = sorted(await client.list_prompts(), key=lambda each: each.name)
                assert [each.definition for each in await host.list_prompts()] == prompts
                assert [each.definition for each in await host.list_resources()] == await client.list_resources()
                templates = await client.list_resource_templates()
                assert [each.definition for each in await host.list_resource_templates()] == templates
                uri = (await client.list_resources())[0].uri
                assert await host.read_resource(name, uri) == await client.read_resource(uri)
                found = await host.get_prompt("every-thing.test_simple_prompt")
                assert found.messages == (await client.get_prompt("test_simple_prompt")).messages
            status = host.status()[0]
            assert (status.name, status.transport, status.era) == (name, kind, "modern")
            assert host.client(name).revision.name == status.revision


@pytest.mark.parametrize("revision", [LATEST_LEGACY.name, MODERN])
async def test_watch_yields_the_updates_of_one_server(revision: str) -> None:
    server = Server("notes", revisions=[revision])
    server.resource("note://a")(lambda: "text")

    @server.tool()
    async def change(context: Context) -> None:
        server.resource_updated("note://a")

    async with opened(Host({"s": server})) as host:
        watching = host.watch("s", "note://a")
        first = asyncio.ensure_future(anext(watching))
        while not first.done():
            await host.call_tool("s.change")
        change_seen = await first
        assert (change_seen.server, change_seen.uri) == ("s", "note://a")
        await watching.aclose()  # type: ignore[attr-defined]


async def test_watch_subscribes_again_after_growing_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    script: list[list[str] | ConnectionClosed] = [ConnectionClosed("refused"), [], ["note://a"], ["note://a/b"]]

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    @contextlib.asynccontextmanager
    async def subscribe(uri: str) -> AsyncIterator[AsyncIterator[str]]:
        async def updates(uris: list[str]) -> AsyncIterator[str]:
            for each in uris:
                yield each

        found = script.pop(0)
        if isinstance(found, ConnectionClosed):
            raise found
        yield updates(found)

    async def ready_client(wait: float) -> object:
        return SimpleNamespace(subscribe=subscribe)

    async with opened(Host({"notes": Server("notes")})) as host:
        monkeypatch.setattr(host._server("notes"), "ready_client", ready_client)
        monkeypatch.setattr(asyncio, "sleep", sleep)
        watching = host.watch("notes", "note://a")
        uris = [(await anext(watching)).uri for _ in range(5)]
        monkeypatch.undo()
    assert uris == [*["note://a"] * 4, "note://a/b"]  # three of them because a change may have been missed
    assert pauses == [0.1, 0.2, 0.1]  # short again after an update


@pytest.mark.acceptance("A5")
@pytest.mark.spec("2026-07-28/server/tools#tool-names-6,7")
async def test_servers_with_the_same_names_and_uris_stay_apart() -> None:
    def server(text: str) -> Server:
        made = Server("bank", title="Your bank")

        @made.tool(title="Pay", annotations=ToolAnnotations(read_only_hint=True))
        def pay() -> str:
            return text

        made.resource("bank://account")(lambda: text)
        return made

    async with opened(Host({"bank": server("true"), "evil": server("false")})) as host:
        listed = await host.list_tools()
        assert [each.model_name for each in listed] == ["bank__pay", "evil__pay"]
        assert {each.display_name for each in listed} == {"Pay (bank)", "Pay (evil)"}
        for each in listed:
            assert (await host.call_tool(each.model_name)).text == ("true" if each.server == "bank" else "false")
        for name, text in (("bank", "true"), ("evil", "false")):
            contents = (await host.read_resource(name, "bank://account")).contents
            assert getattr(contents[0], "text", None) == text


@pytest.mark.acceptance("A6")
async def test_forged_names_reach_no_other_server() -> None:
    called: list[str] = []

    def server(name: str, *tools: str) -> LegacyServer:
        def respond(method: str, params: Object) -> Object:
            if method == "tools/list":
                return {"tools": [tool(each) for each in tools]}
            called.append(f"{name}: {params['name']}")
            return {"content": []}

        return LegacyServer(respond)

    servers = {"a": server("a", "x__y", "b.c", "c"), "a-b": server("a-b", "c"), "b": server("b", "c")}
    async with opened(Host(servers)) as host:
        for each in await host.list_tools():
            await host.call_tool(each.model_name)
            assert called.pop() == f"{each.server}: {each.definition.name}"
            await host.call_tool(each.full_name)
            assert called.pop() == f"{each.server}: {each.definition.name}"
        for name in ("a__b__c", "a-b.x__y", "c", "b.b.c", "A.c", "__", "."):
            with pytest.raises(UnknownName, match="unknown"):
                await host.call_tool(name)
    assert called == []


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("add", "unknown tool 'add'; did you mean one.add or two.add?"),
        ("one__ad", "unknown tool 'one__ad'; did you mean one__add or "),
        ("one.ad", "unknown tool 'one.ad'; did you mean one.add?"),
        ("three.add", "unknown server 'three'; did you mean "),
    ],
)
async def test_unknown_name_suggests_names_of_the_same_form(name: str, advice: str) -> None:
    async with opened(Host({"one": calculator(), "two": calculator()})) as host:
        with pytest.raises(UnknownName, match=re.escape(advice)):
            await host.call_tool(name, ADD)


async def test_excluded_tools_are_neither_listed_nor_called() -> None:
    command = forked("-m", "mcp_ref", "run", str(ROOT / "examples" / "weather.py"))
    entry: dict[str, object] = {"command": command[0], "args": command[1:], "excludeTools": ["get_alerts"]}
    async with opened(Host({"s": entry}, startup_wait=15)) as host:
        assert {each.definition.name for each in await host.list_tools()} == {"get_forecast", "get_sunrise"}
        with pytest.raises(UnknownName):
            await host.call_tool("s.get_alerts", {"state": "CA"})


@pytest.mark.spec("2026-07-28/client/roots#implementation-guidelines-3")
@pytest.mark.parametrize("revision", [LATEST_LEGACY.name, MODERN])
async def test_roots_are_existing_directories_and_per_server(revision: str, tmp_path: Path) -> None:
    def server() -> Server:
        made = Server("s", revisions=[revision])

        @made.tool()
        async def show(context: Context) -> list[str]:
            return [root.uri for root in await context.list_roots()]

        return made

    (tmp_path / "link").symlink_to("/")
    (tmp_path / "inner").mkdir()
    wanted: list[Path | str] = [tmp_path / "gone", tmp_path / "inner" / "..", str(tmp_path / "inner")]
    person = Person()
    async with opened(Host({"s": server(), "t": server()}, approve=person, roots={"s": wanted})) as host:
        text = (await host.call_tool("s.show")).text
        assert json.loads(text) == [f"file://{tmp_path}", f"file://{tmp_path / 'inner'}"]
        assert person.asked[0].content == [str(tmp_path), str(tmp_path / "inner")]
        with pytest.raises(Exception):  # noqa: B017  the server needs a capability that it does not get
            result = await host.call_tool("t.show")
            raise RuntimeError(result.text)
    person = Person({"roots": False})
    async with opened(Host({"s": server()}, approve=person, roots={"s": wanted})) as host:
        assert state(host, "s") == "ready" and host.client("s")._handlers is None


@pytest.mark.spec("2026-07-28/client/elicitation#form-mode-security-2")
async def test_values_that_do_not_match_the_form_are_not_sent() -> None:
    server = Server("s", revisions=[LATEST_LEGACY.name])

    @server.tool()
    async def order(context: Context) -> str:
        schema: Object = {"type": "object", "properties": {"number": {"type": "integer", "maximum": 9}}}
        return str(await context.elicit("How many?", schema))

    async def form(name: str, request: object) -> ElicitResult:
        return ElicitResult("accept", {"number": 10})

    async with opened(Host({"s": server}, approve=Person(), elicitation=form)) as host:
        result = await host.call_tool("s.order")
        assert result.is_error and "10" not in result.text


@pytest.mark.spec("2026-07-28/server/tools#security-considerations-8")
async def test_reference_in_a_schema_is_never_fetched() -> None:
    fetched: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        fetched.append(await reader.read(100))
        writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/schema"
    schema: Object = {"type": "object", "$ref": url}
    definition: Object = {"name": "t", "inputSchema": schema, "outputSchema": schema}
    server = LegacyServer(lambda method, params: {"tools": [definition]} if method == "tools/list" else RESULT)
    async with listener, opened(Host({"s": server})) as host:
        assert [each.full_name for each in await host.list_tools()] == ["s.t"]
        await host.call_tool("s.t")
    assert fetched == []


@pytest.mark.spec("2026-07-28/basic/index#statelessness-4")
async def test_host_uses_one_process_for_all_calls_and_turns() -> None:
    said: list[bytes] = []
    command = {"command": sys.executable, "args": ["-c", TELLS_PROCESS], "env": {"PYTHONPATH": str(ROOT)}}
    async with opened(Host({"s": command}, on_stderr=lambda name, data: said.append(data), startup_wait=15)) as host:
        for _ in range(3):
            host.begin_turn()
            assert (await host.call_tool("s.getpid")).text == b"".join(said).decode().strip()


async def test_trace_of_a_host_gets_the_messages_of_all_servers() -> None:
    frames: list[bytes] = []
    command = {"command": sys.executable, "args": ["-c", TELLS_PROCESS], "env": {"PYTHONPATH": str(ROOT)}}
    servers: dict[str, Mapping[str, object] | Server] = {"program": command, "object": Server("object")}
    async with opened(Host(servers, trace=lambda direction, frame: frames.append(frame), startup_wait=15)):
        pass
    assert sum(b'"server/discover"' in frame for frame in frames) == 2


@pytest.mark.usefixtures("short_finish")
async def test_host_closes_while_servers_start_and_calls_run() -> None:
    working = asyncio.Event()
    server = Server("s")

    @server.tool()
    async def work() -> None:
        working.set()
        await asyncio.Event().wait()

    silent = [sys.executable, "-c", "import time; time.sleep(60)"]
    async with opened(Host({"s": server, "silent": silent}, startup_wait=0.05)) as host:
        call = asyncio.create_task(host.call_tool("s.work", wait=5))
        await working.wait()
    with pytest.raises(Exception, match=r"closed|not known"):
        await call
    assert {status.state.value for status in host.status()} == {"stopped"}
    with pytest.raises(ServerUnavailable, match="is stopped"):
        await host.call_tool("s.work")


async def test_import_of_a_plain_server_or_client_does_not_import_the_host() -> None:
    source = "import sys; from mcp_ref import Client, Server; import mcp_ref.server.http; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", source], cwd=ROOT, capture_output=True, text=True, timeout=30, check=True
    )
    assert not [name for name in done.stdout.split() if name.startswith("mcp_ref.host")]


async def test_refused_read_reaches_no_server() -> None:
    server = calculator()
    read: list[int] = []

    @server.resource("note://a")
    def note() -> str:
        read.append(1)
        return "text"

    async with opened(Host({"s": server}, approve=Person({"read": False, "prompt": False}))) as host:
        with pytest.raises(Refused, match='read of "note://a" was refused'):
            await host.read_resource("s", "note://a", origin="model")
        with pytest.raises(Refused, match=r'prompt of "s\.p" was refused'):
            await host.get_prompt("s.p", origin="model")
        assert read == []
        await host.read_resource("s", "note://a")
    assert read == [1]


FAILS = """
import os, sys
from mcp_ref import Server
server = Server("s", revisions=[sys.argv[1]])
server.tool()(lambda: None)
@server.resource("note://a")
def note() -> str:
    print(os.environ["T"], file=sys.stderr, flush=True)
    os._exit(3)
server.run()
"""


@pytest.mark.acceptance("7")
@pytest.mark.parametrize("revision", [LATEST_LEGACY.name, MODERN])
async def test_error_of_a_lost_request_shows_no_secret(revision: str, caplog: pytest.LogCaptureFixture) -> None:
    env = {"PYTHONPATH": str(ROOT), "T": "${TOKEN}"}
    entry = {"command": sys.executable, "args": ["-c", FAILS, revision], "env": env}
    async with opened(Host({"s": entry}, environment={"TOKEN": "MARKER"}, startup_wait=15)) as host:
        with pytest.raises(ConnectionClosed, match=r"\*\*\*") as failure:
            await host.read_resource("s", "note://a")
    assert "MARKER" not in str(failure.value) + caplog.text


async def test_prompt_is_found_by_its_model_name() -> None:
    server = calculator()

    @server.prompt()
    def greet() -> str:
        return "hello"

    async with opened(Host({"s": server})) as host:
        (prompt,) = await host.list_prompts()
        assert prompt.model_name.startswith("s__")
        assert (await host.get_prompt(prompt.model_name)).messages == (await host.get_prompt(prompt.full_name)).messages


def supervisions() -> list[asyncio.Task[Any]]:
    return [task for task in asyncio.all_tasks() if task.get_name().startswith("supervise ")]


@pytest.mark.parametrize("ends", ["close", "restart"])
async def test_host_waits_for_the_end_of_a_failed_client(ends: str, monkeypatch: pytest.MonkeyPatch) -> None:
    closing, release, close = asyncio.Event(), asyncio.Event(), Client._close

    async def close_slowly(client: Client) -> None:
        closing.set()
        await release.wait()
        await close(client)

    fragile = Fragile()
    async with opened(Host({"s": fragile})) as host:
        monkeypatch.setattr(Client, "_close", close_slowly)
        await fragile.die()
        await closing.wait()
        ending = asyncio.create_task(host.close() if ends == "close" else host.restart("s"))
        done, _ = await asyncio.wait([ending], timeout=0.05)
        assert not done
        release.set()
        await ending


async def test_two_restarts_that_wait_for_a_failed_client_leave_one_supervision(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closing, release, close = asyncio.Event(), asyncio.Event(), Client._close

    async def close_slowly(client: Client) -> None:
        closing.set()
        await release.wait()
        await close(client)

    fragile = Fragile()
    async with opened(Host({"s": fragile})) as host:
        monkeypatch.setattr(Client, "_close", close_slowly)
        await fragile.die()
        await closing.wait()
        restarts = asyncio.gather(host.restart("s"), host.restart("s"))
        done, _ = await asyncio.wait([restarts], timeout=0.05)
        assert not done
        release.set()
        await restarts
        await asyncio.sleep(0)
        assert len(supervisions()) == 1


async def test_two_restarts_at_once_leave_one_supervision_of_the_server() -> None:
    async with opened(Host({"s": calculator()})) as host:
        await asyncio.gather(host.restart("s"), host.restart("s"))
        assert len(supervisions()) == 1
        assert (await host.call_tool("s.add", ADD, wait=PATIENCE)).text == "3"
    assert not supervisions()


@pytest.mark.parametrize("turns", range(4))
async def test_host_that_is_closed_starts_no_server_again(turns: int) -> None:
    async with Host({"s": calculator()}) as host:
        closing = asyncio.create_task(host.close())
        for _ in range(turns):
            await asyncio.sleep(0)
        reloading = host.reload({"s": calculator(), "t": calculator()})
        await asyncio.gather(closing, host.restart("s"), reloading, return_exceptions=True)
    with pytest.raises(ServerUnavailable, match="cannot be started again"):
        await host.restart("s")
    with pytest.raises(RuntimeError, match="the host is closed"):
        await host.reload({"s": calculator()})
    assert not supervisions() and {status.state.value for status in host.status()} == {"stopped"}


@pytest.mark.parametrize("turns", range(4))
async def test_host_closes_its_servers_although_it_is_cancelled_again(turns: int) -> None:
    async def use() -> None:
        async with Host({"s": calculator()}):
            ready.set()
            await asyncio.Event().wait()

    ready = asyncio.Event()
    using = asyncio.create_task(use())
    await ready.wait()
    for _ in range(2):
        using.cancel()
        for _ in range(turns):
            await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await using
    await eventually(lambda: not supervisions())


async def test_reload_replaces_another_server_object_of_the_same_name() -> None:
    first, second = Fragile(), Fragile()
    async with opened(Host({"s": first})) as host:
        await host.reload({"s": second})
        assert (first.starts, second.starts) == (1, 1)


async def test_host_lists_tools_in_linear_time() -> None:
    async def calls_to_list(number: int) -> int:
        server = LegacyServer(lambda method, params: {"tools": [tool(f"tool-{each}") for each in range(number)]})
        async with opened(Host({"s": server}, startup_wait=15)) as host:
            events = list[str]()
            sys.setprofile(lambda frame, event, argument: events.append(event))
            try:
                assert len(await host.list_tools()) == number
            finally:
                sys.setprofile(None)
            return sum(event in ("call", "c_call") for event in events)

    assert await calls_to_list(1000) < 12 * await calls_to_list(100)


async def test_lazy_host_starts_a_server_at_its_first_request() -> None:
    used, unused = Fragile(), Fragile()
    async with opened(Host({"used": used, "unused": unused}, lazy=True)) as host:
        assert [status.state.value for status in host.status()] == ["idle", "idle"]
        results = await asyncio.gather(*(host.call_tool("used.add", ADD) for _ in range(2)))
        assert [result.text for result in results] == ["3", "3"]
        assert [each.full_name for each in await host.list_tools()] == ["used.add"]
    assert (used.starts, unused.starts) == (1, 0)
    with pytest.raises(ServerUnavailable, match="unused is stopped"):
        await host.call_tool("unused.add")


@pytest.mark.parametrize("revision", [LATEST_LEGACY.name, MODERN])
async def test_call_tool_returns_an_object_of_the_given_type(revision: str) -> None:
    server = Server("s", revisions=[revision])

    @server.tool()
    def numbers() -> list[int]:
        return [1, 2]

    @server.tool()
    def fail() -> int:
        raise ToolError("no number")

    async with opened(Host({"s": server})) as host:
        assert await host.call_tool("s.numbers", returns=list[int]) == [1, 2]
        with pytest.raises(InvalidMessage, match=re.escape("the result of tool 's.numbers' is not of the type int")):
            await host.call_tool("s.numbers", returns=int)
        with pytest.raises(ToolError, match="no number"):
            await host.call_tool("s.fail", returns=int)
        assert (await host.call_tool("s.fail")).is_error
    with SyncHost({"s": calculator()}) as sync_host:
        assert sync_host.call_tool("s.add", ADD, returns=int) == 3


def test_sync_host_has_the_methods_of_host() -> None:
    server = calculator()
    server.resource("note://a")(lambda: "text")

    @server.prompt()
    def greet() -> str:
        return "hello"

    person = Person()
    with SyncHost(Host({"s": server}, approve=person)) as host:
        assert [each.full_name for each in host.list_tools()] == ["s.add"]
        assert host.call_tool("s.add", ADD, origin="model").text == "3"
        assert [each.full_name for each in host.list_resources()] == ["s.note://a"]
        assert host.read_resource("s", "note://a").contents
        assert host.get_prompt(host.list_prompts()[0].full_name).messages
        host.restart("s")
        assert host.call_tool("s.add", ADD, wait=5).text == "3"
        host.reload({"t": calculator()})
        assert [status.name for status in host.status()] == ["t"]
    assert person.kinds() == ["call", "call"]
    with pytest.raises(RuntimeError, match="not connected: use `with SyncHost"):
        host.list_tools()
    with pytest.raises(RuntimeError, match="opened only once"), host:
        raise AssertionError


async def test_repr_of_host_names_the_servers_and_their_states_without_secrets() -> None:
    host = Host({"calc": calculator()}, environment={"TOKEN": "hunter2"})
    assert repr(host) == "<Host: no servers>"
    async with host:
        assert repr(host) == "<Host: calc READY>"
