"""A server over HTTP, and clients that leave, stall and flood.

Afterwards a fresh client is served, and tasks, descriptors and memory are back where they were.

The faults of HTTP without MCP are tested in tests/lib/http/test_server.py, and refused requests in test_checks.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import signal
import socket
import tracemalloc
import weakref
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Unpack

import pytest

from mcp_ref import Client, Context, Server
from mcp_ref.lib.http.client import HttpClient
from mcp_ref.lib.http.message import HttpLimits
from mcp_ref.server.http_options import HttpOptions
from mcp_ref.transports.streamable_http.posted_session import EndpointLimits
from mcp_ref.transports.streamable_http.session import HttpSession, StreamState
from tests.messages import initialize, request
from tests.raw_http_client import (
    JSON_TYPE,
    HoldingServer,
    RawSession,
    RawSseSession,
    ServedApp,
    call,
    open_sse_session,
    served_over_http,
    web_at,
)
from tests.server_programs import Program, serving
from tests.settings import PATIENCE, eventually, run

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts what a process holds by /proc")


async def is_served(url: str) -> None:
    """Check that a fresh client is served meanwhile."""
    async with asyncio.timeout(PATIENCE), Client(url) as client:
        assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"


def holdings() -> tuple[int, int]:
    """Return the numbers of tasks and descriptors."""
    return len(asyncio.all_tasks()), len(os.listdir("/proc/self/fd"))


@contextlib.asynccontextmanager
async def served(
    server: Server, http_limits: HttpLimits | None = None, **options: Unpack[HttpOptions]
) -> AsyncIterator[ServedApp]:
    """Serve. Check after the block that a fresh client is served, and that nothing is left after all clients."""
    async with served_over_http(server, http_limits, **options) as web:
        sessions = web.site._endpoint.sessions
        for path in ("/mcp", "/sse"):
            await is_served(web.url.replace("/mcp", path))
        await eventually(lambda: web.http.connection_count == 0 and not sessions)
        tasks, descriptors = holdings()
        yield web
        await is_served(web.url)
        for id in tuple(sessions):
            assert (await RawSession(web, id).delete()).status == 204
        await web.close()
        await eventually(lambda: web.http.connection_count == 0 and not sessions)
        await eventually(lambda: holdings()[0] <= tasks and holdings()[1] <= descriptors)


PROGRAM = """
import asyncio, time
from mcp_ref import Context, Server

server = Server("faults")

@server.tool()
async def add(a: int, b: int) -> int:
    return a + b

@server.tool()
async def waits(context: Context) -> str:
    await context.log("info", "waits")
    await asyncio.sleep(60)
    return "late"

@server.tool()
async def hesitates(context: Context) -> str:
    await context.log("info", "hesitates")
    try:
        await asyncio.sleep(60)
    finally:
        await asyncio.sleep(0.3)
    return "late"

@server.tool()
async def ignores(context: Context) -> str:
    await context.log("info", "ignores")
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass

@server.tool()
def blocks(context: Context) -> str:
    context.run(context.log("info", "blocks"))
    time.sleep(60)
    return "late"

@server.tool()
def asks(context: Context) -> str:
    context.run(context.log("info", "asks"))
    return str(context.run(context.list_roots()))
"""


def server_file(folder: Path) -> Path:
    """Return the path of a server program."""
    path = folder / "faults.py"
    path.write_text(PROGRAM, "utf-8")
    return path


# ------------------------------------------------------------------------------------- clients that leave


async def test_disconnection_in_the_middle_of_a_large_response_leaves_nothing_behind() -> None:
    held = HoldingServer()

    @held.server.tool()
    async def large() -> str:
        return "x" * 8_000_000

    async with served(held.server) as web:
        talk = RawSession(web)
        await talk.handshake()
        tracemalloc.start()
        sent = await talk.send(call("large"))
        await sent.reader.readuntil(b"\r\n\r\n")
        sent.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await sent.cut()
        assert tracemalloc.get_traced_memory()[1] > 8_000_000
        await eventually(lambda: tracemalloc.get_traced_memory()[0] < 2_000_000)
        tracemalloc.stop()


async def test_streams_with_tools_running_that_are_all_reset_at_once_leave_nothing() -> None:
    held = HoldingServer()
    async with served(held.server) as web:
        streams = []
        for number in range(20):
            talk = RawSession(web)
            await talk.handshake()
            streams += [await talk.post(call("hold", name=str(number), say=True)), await talk.get()]
            await held.has_begun()
        for stream in streams:
            await stream.cut()
        await is_served(web.url)
        await web.close()
        await eventually(lambda: web.http.connection_count == 0)
        assert not held.ended and len(web.site._endpoint.sessions) == 20  # no call is cancelled, no session ended
        held.go.set()
        await eventually(lambda: len(held.ended) == 20)


# ------------------------------------------------------------------------------------- clients that do not read


@pytest.mark.parametrize("older", [False, True])
async def test_client_that_never_reads_costs_a_limited_buffer_and_loses_its_connection(older: bool) -> None:
    held, logged = HoldingServer(), 0

    @held.server.tool()
    async def flood(context: Context) -> None:
        nonlocal logged
        while not held.go.is_set():
            logged += 1
            await context.log("info", "x" * 10_000)

    async with served(held.server, HttpLimits(write_time=0.5)) as web:
        talk = await open_sse_session(web) if older else RawSession(web)
        await talk.handshake()
        if isinstance(talk, RawSseSession):
            stuck = talk.stream
            stuck.writer.transport.pause_reading()  # type: ignore[attr-defined]
            await talk.say(call("flood"))
        else:
            stuck = await talk.send(call("flood"))
            stuck.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await eventually(lambda: logged > 0)
        await is_served(web.url)
        if not older:  # another request of the same session
            assert (await talk.post(request("ping", id=2))).json == {"jsonrpc": "2.0", "id": 2, "result": {}}
        web.writers.remove(stuck.writer)
        await web.close()
        before = logged
        assert web.site._http_sse is not None
        while web.site._http_sse.sessions if older else web.http.connection_count:
            before = logged
            await asyncio.sleep(0.005)
        assert before < 2_000  # of 10 kB each: the buffers of the kernel, and ours
        held.go.set()
        await stuck.cut()


async def test_listening_stream_that_is_never_read_is_closed_and_its_session_goes_on() -> None:
    held = HoldingServer()
    held.server.resource("thing://{id}")(lambda id: id)
    async with served(held.server, HttpLimits(write_time=0.3)) as web:
        web.http._sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)  # accepted connections have it too
        talk = RawSession(web)
        await talk.handshake()
        session = web.site._endpoint.sessions[talk.id or ""]
        uris = [f"thing://{number}{'x' * 8_000}" for number in range(40)]
        for uri in uris:
            assert (await talk.post(request("resources/subscribe", {"uri": uri}))).status == 200
        (await talk.get()).writer.transport.pause_reading()  # type: ignore[attr-defined]

        def is_cut() -> bool:
            for uri in uris:
                held.server.resource_updated(uri)
            return session.listening.state is not StreamState.CONNECTED

        await eventually(is_cut)
        assert (await talk.post(request("ping"))).status == 200
        assert (await (await talk.get()).object())["method"] == "notifications/resources/updated"


# ------------------------------------------------------------------------------------- clients that never end


async def test_sessions_without_an_end_make_room_for_each_other_at_the_cap() -> None:
    async with served(HoldingServer().server, limits=EndpointLimits(sessions=20)) as web:
        kept, sessions = RawSession(web), weakref.WeakSet[HttpSession]()
        await kept.handshake()
        listening = await kept.get()  # in use all the time: never the one to go
        before = len(asyncio.all_tasks())
        for _ in range(60):
            begun = await RawSession(web).post(initialize())
            sessions.add(web.site._endpoint.sessions[begun.headers["mcp-session-id"]])
            await begun.cut()
        assert len(web.site._endpoint.sessions) == 20 and kept.id in web.site._endpoint.sessions
        gc.collect()
        assert len(sessions) <= 20
        assert len(asyncio.all_tasks()) < before + 25
        await listening.cut()


def test_sessions_without_an_end_need_at_most_20_kb_each(tmp_path: Path) -> None:
    async def test(program: Program) -> None:
        await is_served(program.url)
        before, body = program.memory(), json.dumps(initialize()).encode()
        async with HttpClient() as http:
            for _ in range(300):
                async with http.request("POST", program.url, {"Content-Type": JSON_TYPE}, body) as response:
                    assert response.status == 200 and await response.read(1000)
        assert program.memory() - before < 300 * 20_000
        await is_served(program.url)

    with serving(server_file(tmp_path), is_forked=False) as program:
        run(test(program))
        (line,) = program.stop(signal.SIGTERM).splitlines()  # soon, however many there are
        assert b"100 sessions come from 127.0.0.1" in line


# ---------------------------------------------------------------------------------------------------- the end


@pytest.mark.parametrize("tool", ["waits", "hesitates", "ignores", "blocks", "asks"])
def test_signal_ends_a_server_with_streams_open_and_a_tool_running(tool: str, tmp_path: Path) -> None:
    async def test(program: Program, number: signal.Signals) -> None:
        async with contextlib.AsyncExitStack() as stack:
            web = web_at(program.url)
            stack.push_async_callback(web.close)
            talk, older = RawSession(web), await open_sse_session(web)
            await talk.handshake(capabilities={"roots": {}})
            await older.handshake(capabilities={"roots": {}})
            listening, asking = await talk.get(), await talk.post(call(tool))
            await older.say(call(tool))
            for stream in (asking, older.stream):
                assert (await stream.object())["method"] == "notifications/message"
            said = await asyncio.to_thread(program.stop, number)  # soon, and with exit code 0
            if tool in ("ignores", "blocks"):  # such a handler cannot be ended, and is left
                assert b"the program exits although" in said and b"Traceback" not in said
            else:
                assert said == b""
            for stream in (listening, asking, older.stream):
                await stream.reader.read()  # every connection has come to its end

    async def both(terminated: Program, interrupted: Program) -> None:
        await asyncio.gather(test(terminated, signal.SIGTERM), test(interrupted, signal.SIGINT))

    file = server_file(tmp_path)
    with serving(file, "--drain", "0.2") as terminated, serving(file) as interrupted:
        run(both(terminated, interrupted))
