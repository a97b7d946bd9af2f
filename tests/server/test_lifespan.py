"""The lifespan: entered before the first client is served, shared, and left after the last request."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mcp_ref import Client, ConnectionClosed, Context, McpError, Server, SyncClient
from mcp_ref.lib.http.server import start_server
from mcp_ref.revisions import REVISIONS
from mcp_ref.transports.memory import memory_pair
from mcp_ref.transports.streamable_http.event_store import MemoryEventStore
from tests.http_wire import under_asgi
from tests.messages import request
from tests.raw_http_client import RawSession, served_over_http
from tests.raw_peers import connected_client
from tests.server_programs import serving as serving_program
from tests.settings import MODERN, PATIENCE, ROOT, SERVER_TRANSPORTS, TASK_FACTORIES, eventually

KINDS = pytest.mark.parametrize("kind", SERVER_TRANSPORTS)
ERAS = pytest.mark.parametrize("revision", ["2025-11-25", MODERN])


class Site:
    """A server whose lifespan, tools and tasks write to a log."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.begun, self.release = asyncio.Event(), asyncio.Event()
        self.server = Server("site", lifespan=self.connect)
        self.server.tool()(self.look)
        self.server.tool()(self.look_from_a_thread)
        self.server.tool()(self.wait)
        self.server.tool("job", task="optional")(self.wait)

    @asynccontextmanager
    async def connect(self, server: Server) -> AsyncIterator[list[str]]:
        assert server is self.server
        self.log.append("enter")
        async with asyncio.TaskGroup():  # a context manager that one asyncio task must enter and leave
            yield self.log
        self.log.append("leave")

    async def look(self, context: Context[list[str]]) -> str:
        context.state.append("look")
        return "seen"

    def look_from_a_thread(self, context: Context[list[str]] | None = None) -> str:
        assert context is not None
        context.state.append("thread")
        return "seen"

    async def wait(self, context: Context[list[str]]) -> str:
        self.begun.set()
        try:
            await self.release.wait()
        finally:
            context.state.append("waited")
        return "done"


@KINDS
@pytest.mark.parametrize("revision", [revision.name for revision in REVISIONS])
async def test_lifespan_state_reaches_every_handler_and_is_left_at_the_end(kind: str, revision: str) -> None:
    site = Site()
    async with connected_client(site.server, kind, revision) as wire:
        await wire.ask("tools/call", {"name": "look", "arguments": {}})
        await wire.ask("tools/call", {"name": "look_from_a_thread", "arguments": {}}, 2)
        assert site.log == ["enter", "look", "thread"]
    assert site.log == ["enter", "look", "thread", "leave"]


async def test_context_state_without_a_lifespan_is_null() -> None:
    server = Server("s")

    @server.tool()
    def state(context: Context) -> str:
        return repr(context.state)

    async with Client(server) as client:
        assert (await client.call_tool("state")).text == "None"


@ERAS
async def test_lifespan_is_entered_once_for_overlapping_clients(revision: str) -> None:
    site = Site()
    async with site.server.serve_http() as url:
        assert site.log == ["enter"]
        clients = Client(site.server, revisions=[revision]), Client(url, revisions=[revision])
        async with clients[0] as first, clients[1] as second:
            await first.call_tool("look")
            await second.call_tool("look")
        assert site.log == ["enter", "look", "look"]
    assert site.log == ["enter", "look", "look", "leave"]
    async with Client(site.server, revisions=[revision]) as client:
        await client.call_tool("look")
    assert site.log[4:] == ["enter", "look", "leave"]


@ERAS
async def test_lifespan_is_left_after_the_requests_in_flight(revision: str) -> None:
    site = Site()

    async def call(url: str) -> str:
        async with Client(url, revisions=[revision]) as client:
            return (await client.call_tool("wait")).text

    async with site.server.serve_http() as url:
        calling = asyncio.create_task(call(url))
        await site.begun.wait()
        asyncio.get_running_loop().call_later(0.05, site.release.set)
    assert site.log == ["enter", "waited", "leave"]
    assert await calling == "done"


@ERAS
async def test_lifespan_is_left_after_the_tasks(revision: str) -> None:
    site = Site()
    async with Client(site.server, revisions=[revision]) as client:
        await client.start_tool("job")
        await site.begun.wait()
    assert site.log == ["enter", "waited", "leave"]


async def test_lifespan_of_a_new_client_waits_until_the_previous_entry_is_left() -> None:
    log, leaving = list[str](), asyncio.Event()

    @asynccontextmanager
    async def slow(server: Server) -> AsyncIterator[None]:
        log.append("enter")
        yield
        leaving.set()
        await asyncio.sleep(0.01)
        log.append("leave")

    server = Server("s", lifespan=slow)
    first = Client(server)
    await first.connect()
    closing = asyncio.create_task(first.close())
    await leaving.wait()
    async with Client(server):
        assert log == ["enter", "leave", "enter"]
    await closing
    assert log == ["enter", "leave"] * 2


# ------------------------------------------------------------------------------------------------ failures


def failing(before: bool = True) -> Server:
    """Return a server whose lifespan fails before or after it yields."""

    @asynccontextmanager
    async def fail(server: Server) -> AsyncIterator[None]:
        if before:
            raise OSError("no database")
        yield
        raise OSError("cannot close")

    return with_a_tool(Server("notes", lifespan=fail))


def with_a_tool(server: Server) -> Server:
    server.tools.add(lambda: "ok", "ok")
    return server


REASON = "the server 'notes' cannot serve: its lifespan failed: OSError: no database"
REASON_AT_THE_END = "the server 'notes' could not end: its lifespan failed: OSError: cannot close"


@ERAS
async def test_lifespan_that_fails_is_an_error_of_the_client_in_memory(revision: str) -> None:
    with pytest.raises(RuntimeError, match=REASON):
        async with Client(failing(), revisions=[revision]):
            raise AssertionError
    with pytest.raises(RuntimeError, match=REASON_AT_THE_END):
        async with Client(failing(before=False), revisions=[revision]) as client:
            assert (await client.call_tool("ok")).text == "ok"


async def test_lifespan_that_fails_is_an_error_of_serve_http() -> None:
    with pytest.raises(RuntimeError, match=REASON):
        async with failing().serve_http():
            raise AssertionError
    with pytest.raises(RuntimeError, match=REASON_AT_THE_END):
        async with failing(before=False).serve_http() as url, Client(url) as client:
            assert (await client.call_tool("ok")).text == "ok"


async def test_lifespan_is_left_if_the_port_is_in_use() -> None:
    site = Site()
    async with Server("other").serve_http() as url:
        with pytest.raises(OSError, match="in use"):
            async with site.server.serve_http(port=int(url.rpartition(":")[2].partition("/")[0])):
                raise AssertionError
    assert site.log == ["enter", "leave"]


async def test_serve_http_ends_its_sessions_once() -> None:
    flushes: list[float] = []

    class Store(MemoryEventStore):
        async def flush(self, seconds: float) -> None:
            flushes.append(seconds)

    async with Server("s").serve_http(store=Store()):
        assert flushes == []
    assert len(flushes) == 1


STOPPED = "the server 'notes' stopped: its lifespan failed: OSError: lost the database"


@asynccontextmanager
async def losing(server: Server) -> AsyncIterator[asyncio.Event]:
    """Fail after the yielded event is set."""
    lost = asyncio.Event()

    async def work() -> None:
        await lost.wait()
        raise OSError("lost the database")

    async with asyncio.TaskGroup() as group:
        working = group.create_task(work())
        yield lost
        working.cancel()


def losing_server() -> Server:
    server = with_a_tool(Server("notes", lifespan=losing))

    @server.tool()
    async def lose(context: Context[asyncio.Event]) -> None:
        context.state.set()
        await asyncio.Event().wait()

    return server


@ERAS
async def test_lifespan_that_fails_while_the_server_serves_ends_the_sessions(
    revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = losing_server()
    with pytest.raises(RuntimeError, match=STOPPED):
        async with Client(server, revisions=[revision]) as client:
            with pytest.raises(ConnectionClosed):
                await client.call_tool("lose")
    assert not server.catalog.service.members and server.state is None
    assert "the lifespan of the server 'notes' failed while the server was serving" in caplog.text
    async with Client(server, revisions=[revision]) as client:  # a new entry
        assert (await client.call_tool("ok")).text == "ok"


@ERAS
@pytest.mark.usefixtures("short_finish")
async def test_lifespan_that_fails_while_the_server_serves_ends_the_http_application(revision: str) -> None:
    server, errors = losing_server(), list[Exception]()
    with pytest.raises(RuntimeError, match=STOPPED):
        async with server.serve_http() as url, Client(url, revisions=[revision], timeout=3 * PATIENCE) as client:
            for name in ("lose", "ok"):
                try:
                    async with asyncio.timeout(PATIENCE):  # the server ends the request, not the client's time limit
                        await client.call_tool(name)
                except (McpError, TimeoutError) as error:
                    errors.append(error)
    assert [type(error) is TimeoutError for error in errors] == [False, False], errors
    assert "shutting down" in str(errors[1])


async def test_lifespan_that_calls_sys_exit_is_an_error_of_the_server() -> None:
    @asynccontextmanager
    async def leave_program(server: Server) -> AsyncIterator[None]:
        sys.exit("NOTES_DB is not set")
        yield

    with pytest.raises(RuntimeError, match="its lifespan failed: SystemExit: NOTES_DB is not set"):
        async with Client(Server("s", lifespan=leave_program)):
            raise AssertionError


async def test_lifespan_whose_exception_has_no_readable_text_is_an_error_of_the_server() -> None:
    class UnreadableError(Exception):
        def __str__(self) -> str:
            raise KeyError

    @asynccontextmanager
    async def fail(server: Server) -> AsyncIterator[None]:
        raise UnreadableError
        yield

    with pytest.raises(RuntimeError, match=r"its lifespan failed: UnreadableError, whose text cannot be read$"):
        async with Server("notes", lifespan=fail).serve_http():
            pass


@pytest.mark.parametrize(("moment", "event"), [("start", "cannot serve"), ("end", "could not end")])
async def test_lifespan_that_awaits_a_cancelled_task_is_an_error_of_the_server(moment: str, event: str) -> None:
    @asynccontextmanager
    async def fail(server: Server) -> AsyncIterator[None]:
        task = asyncio.create_task(asyncio.sleep(PATIENCE))
        if moment == "end":
            yield
        task.cancel()
        await task
        yield

    with pytest.raises(RuntimeError, match=rf"^the server 'notes' {event}: its lifespan failed: CancelledError$"):
        async with Server("notes", lifespan=fail).serve_http():
            pass


async def test_lifespan_that_begins_is_cancelled_with_its_only_user() -> None:
    log, entering = list[str](), asyncio.Event()

    @asynccontextmanager
    async def connect(server: Server) -> AsyncIterator[None]:
        entering.set()
        try:
            await asyncio.Event().wait()
            yield
        finally:
            log.append("cancelled")

    server = Server("s", lifespan=connect)
    for serving in (server.serve(memory_pair()[1]), server.serve_http().__aenter__()):
        session = asyncio.ensure_future(serving)
        await entering.wait()
        session.cancel()
        with pytest.raises(asyncio.CancelledError):
            await session
        assert log == ["cancelled"] and not server.catalog.service.members
        log.clear()
        entering.clear()


@pytest.mark.parametrize("over_http", [False, True], ids=["memory", "HTTP"])
@pytest.mark.parametrize("turns", [0, 1, 3])
async def test_server_that_is_cancelled_again_while_it_ends_still_ends_completely(over_http: bool, turns: int) -> None:
    site, urls, ends = Site(), asyncio.Queue[str](), memory_pair()

    async def serve() -> None:
        if not over_http:
            return await site.server.serve(ends[1])
        async with site.server.serve_http() as url:
            urls.put_nowait(url)
            await asyncio.Event().wait()

    serving = asyncio.create_task(serve())
    target = await urls.get() if over_http else ends[0]
    async with Client(target, timeout=PATIENCE) as client:
        calling = asyncio.create_task(client.call_tool("wait"))
        await site.begun.wait()
        for _ in range(2):
            serving.cancel()
            for _ in range(1 + turns):
                await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await serving
        with pytest.raises(McpError):
            await calling
    await eventually(lambda: not site.server.catalog.service.members and site.log[-1] == "leave")
    if over_http:
        with pytest.raises(ConnectionClosed, match="cannot be reached"):
            await Client(target).connect()


async def test_lifespan_refuses_another_event_loop() -> None:
    site = Site()
    async with Client(site.server):

        def connect() -> None:
            with pytest.raises(RuntimeError, match="use one Server object for each event loop"):
                SyncClient(site.server).__enter__()

        await asyncio.to_thread(connect)
    assert site.log == ["enter", "leave"]


def test_lifespan_without_its_decorator_raises_type_error() -> None:
    async def connect(server: Server) -> AsyncIterator[None]:
        yield

    with pytest.raises(TypeError, match=r"write @contextlib\.asynccontextmanager above `async def connect`"):
        Server("s", lifespan=connect)  # type: ignore[arg-type]


@pytest.mark.parametrize("mistake", [5, contextlib.AsyncExitStack()])
def test_lifespan_that_is_not_a_function_raises_type_error(mistake: Any) -> None:
    with pytest.raises(TypeError, match=r"lifespan of the server 's' must be a function, not .*without parentheses"):
        Server("s", lifespan=mistake)


# ------------------------------------------------------------------------------------------------ ASGI


STARTED, STOPPED_WELL = {"type": "lifespan.startup.complete"}, {"type": "lifespan.shutdown.complete"}


async def test_asgi_lifespan_events_enter_and_leave_the_lifespan_and_report_its_failure() -> None:
    site = Site()
    cases = [
        (site.server, STARTED, STOPPED_WELL),
        (failing(), {"type": "lifespan.startup.failed", "message": REASON}, None),
        (failing(before=False), STARTED, {"type": "lifespan.shutdown.failed", "message": REASON_AT_THE_END}),
    ]
    for server, started, stopped in cases:
        incoming, outgoing = asyncio.Queue[MutableMapping[str, object]](), asyncio.Queue[MutableMapping[str, object]]()
        running = asyncio.ensure_future(server.asgi()({"type": "lifespan"}, incoming.get, outgoing.put))
        await incoming.put({"type": "lifespan.startup"})
        assert await outgoing.get() == started
        if server is site.server:
            assert site.log == ["enter"]
        if stopped is not None:
            await incoming.put({"type": "lifespan.shutdown"})
            assert await outgoing.get() == stopped
        await asyncio.wait([running])
        assert isinstance(running.exception(), type(None) if stopped is STOPPED_WELL else RuntimeError)
    assert site.log == ["enter", "leave"]


@asynccontextmanager
async def mounted(server: Server) -> AsyncIterator[str]:
    """Serve a server's ASGI application without lifespan events. Give the URL."""
    listening = await start_server(under_asgi(server.asgi()))
    try:
        yield f"http://127.0.0.1:{listening.address[1]}/mcp"
    finally:
        await listening.close(0.1)


@ERAS
async def test_asgi_without_lifespan_events_enters_at_the_first_request_and_leaves_at_close(revision: str) -> None:
    site = Site()
    async with mounted(site.server) as url:
        assert site.log == []
        async with Client(url, revisions=[revision]) as client:
            await asyncio.gather(client.call_tool("look"), client.call_tool("look"))
        assert site.log == ["enter", "look", "look"]
        await site.server.close()
        with pytest.raises(McpError, match="shutting down"):
            await Client(url, revisions=[revision]).connect()
        assert site.log == ["enter", "look", "look", "leave"]


@pytest.mark.parametrize("task_factory", TASK_FACTORIES)
async def test_asgi_without_lifespan_events_tries_again_after_a_failure(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, task_factory: Any
) -> None:
    asyncio.get_running_loop().set_task_factory(task_factory)
    fails = [True]

    @asynccontextmanager
    async def connect(server: Server) -> AsyncIterator[None]:
        if fails:
            fails.pop()
            raise OSError("no database")
        yield

    monkeypatch.setattr("mcp_ref.server.service.RETRY_SECONDS", 0)
    server = with_a_tool(Server("notes", lifespan=connect))
    async with mounted(server) as url:
        with pytest.raises(Exception, match="503"):
            async with Client(url):
                raise AssertionError
        assert REASON in caplog.text
        async with Client(url) as client:
            assert (await client.call_tool("ok")).text == "ok"
        await server.close()


@ERAS
async def test_asgi_serves_again_after_the_lifespan_has_failed(revision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("http", "session"):
        monkeypatch.setattr(f"mcp_ref.server.{module}.FINISH_SECONDS", 0.05)
    monkeypatch.setattr("mcp_ref.server.service.RETRY_SECONDS", 0)
    server, failures = losing_server(), 0
    async with mounted(server) as url:
        while failures < 3:
            with contextlib.suppress(McpError):  # until the old sessions have ended, the server refuses the client
                async with Client(url, revisions=[revision]) as client:
                    await asyncio.gather(client.call_tool("ok"), client.call_tool("ok"))
                    with pytest.raises(McpError):
                        await client.call_tool("lose")
                    failures += 1
        await server.close()


@pytest.mark.parametrize("first", ["another application", "a client in memory"])
async def test_asgi_serves_again_although_another_member_has_entered_the_lifespan_first(
    first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_ref.server.service.RETRY_SECONDS", 0)
    server = losing_server()
    async with mounted(server) as url, mounted(server) as other:
        for each in (url, other):
            async with Client(each, revisions=[MODERN]) as client:
                await client.call_tool("ok")
        assert isinstance(server.state, asyncio.Event)
        server.state.set()
        await eventually(lambda: server.catalog.service.lifespan._task is None)  # type: ignore[union-attr]
        async with Client(other if first == "another application" else server) as client:
            await client.call_tool("ok")
            async with Client(url, revisions=[MODERN]) as late:
                assert (await late.call_tool("ok")).text == "ok"
        await server.close()


async def test_asgi_tries_one_entry_at_a_time_with_a_pause_and_is_503_meanwhile(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts, is_broken, release = list[str](), [True], asyncio.Event()

    @asynccontextmanager
    async def connect(server: Server) -> AsyncIterator[None]:
        attempts.append("enter")
        await release.wait()
        if is_broken:
            raise OSError("no database")
        yield

    server = with_a_tool(Server("notes", lifespan=connect))
    async with served_over_http(server) as web:
        web.site.reopens = True
        waiting = [await RawSession(web).send(request("ping")) for _ in range(3)]
        await eventually(lambda: attempts)
        monkeypatch.setattr("mcp_ref.server.service.RETRY_SECONDS", math.inf)
        release.set()
        replies = [await web.take(each) for each in waiting]
        is_broken.clear()
        replies += [await RawSession(web).post(request("ping")) for _ in range(2)]  # in the pause
        assert [(reply.status, "retry-after" in reply.headers) for reply in replies] == [(503, True)] * 5
        assert {reply.why for reply in replies} == {"the server's lifespan failed; try again later"}
        assert attempts == ["enter"] and caplog.text.count("requests get status 503") == 1
        web.site._membership._next_attempt = 0.0  # the end of the pause
        await RawSession(web).handshake()
        assert attempts == ["enter"] * 2


# ------------------------------------------------------------------------------------------------ the end


@ERAS
async def test_server_close_ends_open_sessions_and_the_lifespan(revision: str) -> None:
    site = Site()
    async with Client(site.server, revisions=[revision]) as client:
        calling = asyncio.create_task(client.call_tool("wait"))
        await site.begun.wait()
        await site.server.close()
        assert site.log == ["enter", "waited", "leave"]
        with pytest.raises(Exception, match="closed"):
            await calling


def worker_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("mcp-worker")]


@ERAS
@pytest.mark.parametrize("over_http", [False, True])
async def test_worker_threads_end_with_the_server(revision: str, over_http: bool) -> None:
    site = Site()
    async with site.server.serve_http() as url:
        async with Client(url if over_http else site.server, revisions=[revision]) as client:
            await client.call_tool("look_from_a_thread")
        assert worker_threads()
    assert not worker_threads()


async def test_worker_thread_that_does_not_end_delays_the_lifespan_only_briefly(
    caplog: pytest.LogCaptureFixture,
) -> None:
    site, begun, release = Site(), threading.Event(), threading.Event()

    def hang() -> None:
        begun.set()
        release.wait(PATIENCE)

    site.server.tool()(hang)
    async with Client(site.server) as client:
        calling = asyncio.create_task(client.call_tool("hang"))
        await asyncio.to_thread(begun.wait)
        calling.cancel()
    assert site.log == ["enter", "leave"]
    assert "a handler still runs in a worker thread" in caplog.text
    release.set()


PROGRAM = """
import asyncio, sys
from contextlib import asynccontextmanager
from mcp_ref import Context, Server

FAILS = ""

async def work():
    raise OSError("lost the database")

@asynccontextmanager
async def connect(server):
    print("enter", file=sys.stderr, flush=True)
    if FAILS == "at the start":
        raise OSError("no database")
    async with asyncio.TaskGroup() as group:
        if FAILS == "meanwhile":
            group.create_task(work())
        yield "state"
    print("leave", file=sys.stderr, flush=True)

server = Server("notes", lifespan=connect)

@server.tool()
def state(context: Context[str]) -> str:
    return context.state
"""


def program(folder: Path, fails: str = "") -> Path:
    file = folder / "notes.py"
    file.write_text(PROGRAM.replace('FAILS = ""', f"FAILS = {fails!r}"), "utf-8")
    return file


@ERAS
async def test_run_command_over_stdio_enters_and_leaves_the_lifespan(tmp_path: Path, revision: str) -> None:
    errors = list[bytes]()
    command = [sys.executable, "-m", "mcp_ref", "run", str(program(tmp_path))]
    env = {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}  # CI runs this test with the package in a zip
    async with Client(command, cwd=ROOT, env=env, revisions=[revision], on_stderr=errors.append) as client:
        assert (await client.call_tool("state")).text == "state"
    assert b"".join(errors).split() == [b"enter", b"leave"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_run_command_over_http_leaves_the_lifespan_at_a_signal(tmp_path: Path, number: int) -> None:
    file = program(tmp_path)
    file.write_text(file.read_text("utf-8").replace('print("enter"', 'print("url", "enter"'), "utf-8")
    with serving_program(file) as served:
        assert served.line().startswith("notes: http")
        assert served.stop(number).split() == [b"leave"]


@pytest.mark.parametrize("over_http", [[], ["--http", "--port", "0"]])
@pytest.mark.parametrize(("fails", "why"), [("at the start", REASON), ("meanwhile", STOPPED)])
def test_run_command_with_a_failing_lifespan_says_why_and_exits(
    tmp_path: Path, over_http: list[str], fails: str, why: str
) -> None:
    command = [sys.executable, "-m", "mcp_ref", "run", str(program(tmp_path, fails)), *over_http]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe) as running:
        assert running.stdout is not None and running.stderr is not None  # its input stays open
        lines = running.stderr.read().decode().splitlines()
        assert (running.wait(PATIENCE), running.stdout.read()) == (1, b"")
    assert lines[-1] == why and (fails == "meanwhile" or lines == ["enter", why])
