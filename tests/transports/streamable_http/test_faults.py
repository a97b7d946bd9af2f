"""A server over HTTP, and clients that leave, stall, flood, lie and attack.

Afterwards a fresh client is served within a second, and tasks, descriptors and memory are back where they were.

The faults of HTTP without MCP are tested in tests/lib/http/test_server.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import signal
import socket
import struct
import tracemalloc
import weakref
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Unpack

import pytest

from mcp_ref import Client, Context, Server
from mcp_ref.jsonrpc.messages import JSON, Object
from mcp_ref.lib.http.message import HttpLimits
from mcp_ref.lib.http.server import HttpServer, start_server
from mcp_ref.server.http import HttpApp, HttpOptions
from mcp_ref.transports.streamable_http.posted_session import EndpointLimits
from mcp_ref.transports.streamable_http.session import HttpSession, StreamState
from tests.messages import initialize, notification, request
from tests.server_programs import Program, serving
from tests.settings import PATIENCE, eventually, run

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts what a process holds by /proc")

BOTH = "application/json, text/event-stream"
"""Within which a fresh client must be served."""


class Raw:
    """The bare end of one HTTP connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.status = 0
        self.headers: dict[str, str] = {}

    async def send(self, method: str, path: str, body: JSON | bytes | None = None, /, **headers: str | None) -> None:
        """Send one request. `headers` have "_" for "-"; None leaves out a header that is usually sent."""
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        usual: dict[str, str | None] = {"Host": "127.0.0.1", "Accept": BOTH}
        if method == "POST":
            usual |= {"Content-Type": "application/json", "Content-Length": str(len(data))}
        fields = usual | {name.replace("_", "-"): value for name, value in headers.items()}
        lines = [f"{method} {path} HTTP/1.1", *(f"{n}: {v}" for n, v in fields.items() if v is not None), "", ""]
        self.writer.write("\r\n".join(lines).encode("latin-1") + data)
        await self.writer.drain()

    async def head(self) -> int:
        """Return the status of the next response, and keep its headers."""
        status, *lines = (await self.reader.readuntil(b"\r\n\r\n"))[:-4].decode("latin-1").split("\r\n")
        self.status = int(status.split()[1])
        self.headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        return self.status

    async def body(self) -> bytes:
        """Return a body that has a length."""
        return await self.reader.readexactly(int(self.headers.get("content-length", 0)))

    async def event(self) -> tuple[str, str]:
        """Return the id and data of the next event that has data; both empty at the end of the stream."""
        while True:
            size = int(await self.reader.readuntil(b"\r\n"), 16)
            chunk = (await self.reader.readexactly(size + 2))[:-2].decode()
            fields = dict(line.partition(": ")[::2] for line in chunk.splitlines() if line)
            if not size or fields.get("data"):
                return fields.get("id", ""), fields.get("data", "")

    async def message(self) -> Object:
        """Return the message in the next event."""
        message = json.loads((await self.event())[1])
        assert isinstance(message, dict)
        return message

    async def ask(self, method: str, path: str, body: JSON | bytes | None = None, /, **headers: str | None) -> Object:
        """Send one request, and return the JSON of its response, or an empty object."""
        await self.send(method, path, body, **headers)
        await self.head()
        text = await self.body()
        answer = json.loads(text) if text else {}
        assert isinstance(answer, dict)
        return answer

    async def cut(self) -> None:
        """Leave with a reset of the connection."""
        own: socket.socket = self.writer.get_extra_info("socket")
        own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await self.close()

    async def close(self) -> None:
        """Leave."""
        self.writer.transport.abort()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()


async def connected(url: str, limit: int = 1 << 20) -> Raw:
    """Return a connection to the server of a URL."""
    host, _, port = url.split("/")[2].rpartition(":")
    return Raw(*await asyncio.open_connection(host, int(port), limit=limit))


async def begin(raw: Raw, path: str = "/mcp", capabilities: Object | None = None) -> str:
    """Begin a session; its id."""
    await raw.ask("POST", path, initialize(capabilities=capabilities))
    assert raw.status == 200
    id = raw.headers["mcp-session-id"]
    await raw.ask("POST", path, notification("notifications/initialized"), Mcp_Session_Id=id)
    assert raw.status == 202
    return id


def call(tool: str, id: JSON = 1, **arguments: JSON) -> Object:
    """Return a tools/call that wants progress."""
    return request("tools/call", {"name": tool, "arguments": arguments, "_meta": {"progressToken": id}}, id)


async def is_served(url: str) -> None:
    """Check that a fresh client is served meanwhile."""
    async with asyncio.timeout(PATIENCE), Client(url) as client:
        assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"


@dataclass
class Bench:
    """A server with some tools, the clients that a test opens, and how much there was before them."""

    server: Server = field(default_factory=lambda: Server("faults"))
    begun: int = 0
    ended: int = 0
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    clients: list[Raw] = field(default_factory=list)

    def __post_init__(self) -> None:
        @self.server.tool()
        async def add(a: int, b: int) -> int:
            """Add."""
            return a + b

        @self.server.tool()
        async def wait(context: Context) -> str:
            """Report that it has begun, and wait for the test's leave."""
            self.begun += 1
            await context.report_progress(1)
            await self.gate.wait()
            self.ended += 1
            return "done"

        @self.server.tool()
        async def flood(context: Context) -> str:
            """Report without end, until the test has had enough."""
            while not self.gate.is_set() and self.begun < 100_000:
                self.begun += 1
                await context.report_progress(self.begun, None, "x" * 10_000)
            return "done"

        @self.server.tool()
        async def large() -> str:
            """Give much."""
            self.begun += 1
            return "x" * 20_000_000

        @self.server.resource("thing://{id}")
        async def thing(id: str) -> str:
            """Anything."""
            return id

    async def listen(self, http_limits: HttpLimits | None, options: HttpOptions) -> None:
        """Begin, and note what there is once everything has been used."""
        self.site = HttpApp(self.server.catalog, **options)
        self.http: HttpServer = await start_server(self.site.handle, limits=http_limits)
        self.url = f"http://127.0.0.1:{self.http.address[1]}/mcp"
        for url in (self.url, self.url.replace("/mcp", "/sse")):
            await is_served(url)
        await eventually(lambda: self.http.connections == 0 and not self.sessions)
        self.before = self.held()

    @property
    def sessions(self) -> dict[str, HttpSession]:
        """The sessions that there are."""
        return self.site._endpoint.sessions

    def held(self) -> tuple[int, int]:
        """Return the numbers of tasks and descriptors."""
        return len(asyncio.all_tasks()), len(os.listdir("/proc/self/fd"))

    async def raw(self, limit: int = 1 << 20) -> Raw:
        """Return one more connection."""
        self.clients.append(await connected(self.url, limit))
        return self.clients[-1]

    async def is_well(self) -> None:
        """Check that a fresh client is served within a second, and that nothing is left after all clients."""
        await is_served(self.url)
        for client in self.clients:
            await client.close()
        self.clients.clear()
        self.gate.set()
        if self.sessions:
            async with Ender(self.url) as ender:
                for id in tuple(self.sessions):
                    await ender.end(id)
        await eventually(lambda: self.http.connections == 0 and not self.sessions)
        tasks, descriptors = self.before
        await eventually(lambda: self.held()[0] <= tasks and self.held()[1] <= descriptors)


PROGRAM = """
import asyncio, time
from mcp_ref import Context, Server

server = Server("faults")

@server.tool()
async def add(a: int, b: int) -> int:
    return a + b

@server.tool()
async def waits(context: Context) -> str:
    await context.report_progress(1)
    await asyncio.sleep(60)
    return "late"

@server.tool()
async def hesitates(context: Context) -> str:
    await context.report_progress(1)
    try:
        await asyncio.sleep(60)
    finally:
        await asyncio.sleep(0.3)
    return "late"

@server.tool()
async def ignores(context: Context) -> str:
    await context.report_progress(1)
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass

@server.tool()
def blocks(context: Context) -> str:
    context.run(context.report_progress(1))
    time.sleep(60)
    return "late"

@server.tool()
def asks(context: Context) -> str:
    context.run(context.report_progress(1))
    return str(context.run(context.list_roots()))
"""


def server_file(folder: Path) -> Path:
    """Return the path of a server program."""
    path = folder / "faults.py"
    path.write_text(PROGRAM, "utf-8")
    return path


class Ender:
    """A client that ends sessions."""

    def __init__(self, url: str) -> None:
        self.url = url

    async def __aenter__(self) -> Ender:
        self.raw = await connected(self.url)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.raw.close()

    async def end(self, id: str) -> None:
        """DELETE a session."""
        await self.raw.ask("DELETE", "/mcp", Mcp_Session_Id=id)
        assert self.raw.status == 204


@contextlib.asynccontextmanager
async def bench(http_limits: HttpLimits | None = None, **options: Unpack[HttpOptions]) -> AsyncIterator[Bench]:
    """Yield a server, and check after the block that it is well."""
    made = Bench()
    await made.listen(http_limits, options)
    try:
        yield made
        await made.is_well()
    finally:
        for client in made.clients:
            await client.close()
        made.gate.set()
        await made.site.close()
        await made.http.close(grace=0.2)


# ------------------------------------------------------------------------------------- clients that leave


@pytest.mark.parametrize("leave", [Raw.cut, Raw.close])
async def test_a_client_that_leaves_in_the_middle_of_a_message_has_said_nothing(leave: Callable[[Raw], None]) -> None:
    async with bench() as b:
        first, second = await b.raw(), await b.raw()
        id = await begin(first)
        body = json.dumps(call("wait")).encode()
        await second.send("POST", "/mcp", body[:-10], Mcp_Session_Id=id, Content_Length=str(len(body)))
        await eventually(lambda: b.http.connections == 2)
        await leave(second)  # type: ignore[misc, func-returns-value]
        await eventually(lambda: b.http.connections == 1)
        answer = await first.ask("POST", "/mcp", request("ping", id=1), Mcp_Session_Id=id)  # the same id: it is free
        assert answer == {"jsonrpc": "2.0", "id": 1, "result": {}} and b.begun == 0


@pytest.mark.spec("2025-11-25/basic/transports#sending-messages-to-the-server-16")
async def test_a_call_goes_on_when_its_client_leaves_and_the_answer_waits_for_it() -> None:
    async with bench() as b:
        first = await b.raw()
        id = await begin(first)
        await first.send("POST", "/mcp", call("wait"), Mcp_Session_Id=id)
        assert await first.head() == 200 and first.headers["content-type"] == "text/event-stream"
        last, progress = await first.event()
        assert json.loads(progress)["method"] == "notifications/progress"
        await first.cut()
        await eventually(lambda: b.http.connections == 0)
        b.gate.set()
        await eventually(lambda: b.ended == 1)
        again = await b.raw()
        await again.send("GET", "/mcp", Mcp_Session_Id=id, Last_Event_ID=last)
        assert await again.head() == 200
        answer = await again.message()
        assert answer["id"] == 1 and "result" in answer
        assert await again.event() == ("", "")


async def test_a_client_that_leaves_in_the_middle_of_a_large_answer_leaves_nothing() -> None:
    async with bench() as b:
        first = await b.raw(limit=1024)
        id = await begin(first)
        tracemalloc.start()
        await first.send("POST", "/mcp", call("large"), Mcp_Session_Id=id)
        assert await first.head() == 200 and int(first.headers["content-length"]) > 20_000_000
        await first.cut()
        await eventually(lambda: b.http.connections == 0)
        assert tracemalloc.get_traced_memory()[1] > 20_000_000
        await eventually(lambda: tracemalloc.get_traced_memory()[0] < 5_000_000)
        tracemalloc.stop()


async def test_200_streams_with_tools_running_reset_at_once_leave_nothing() -> None:
    async with bench() as b:
        for _ in range(100):
            asking, listening = await b.raw(), await b.raw()
            id = await begin(asking)
            await asking.send("POST", "/mcp", call("wait"), Mcp_Session_Id=id)
            await listening.send("GET", "/mcp", Mcp_Session_Id=id)
        for raw in b.clients:
            assert await raw.head() == 200 and raw.headers["content-type"] == "text/event-stream"
        await eventually(lambda: b.begun == 100)
        for raw in b.clients:
            await raw.cut()
        await is_served(b.url)
        await eventually(lambda: b.http.connections == 0)
        assert b.ended == 0 and len(b.sessions) == 100  # no call is cancelled, no session ended
        b.gate.set()
        await eventually(lambda: b.ended == 100)


async def test_100_streams_of_the_older_transport_reset_at_once_end_their_sessions_and_calls() -> None:
    async with bench() as b:
        assert b.site._http_sse is not None
        poster = await b.raw()
        for _ in range(100):
            await (stream := await b.raw()).send("GET", "/sse")
            assert await stream.head() == 200
            messages = (await stream.event())[1]
            for message in (initialize(), notification("notifications/initialized"), call("wait")):
                await poster.ask("POST", messages, message)
                assert poster.status == 202
        await eventually(lambda: b.begun == 100)
        assert len(b.site._http_sse.sessions) == 100
        for raw in b.clients[1:]:
            await raw.cut()
        await is_served(b.url)
        await eventually(lambda: b.site._http_sse is not None and not b.site._http_sse.sessions)
        await poster.ask("POST", messages, request("ping"))
        assert poster.status == 404
        await poster.close()
        await eventually(lambda: b.http.connections == 0)  # a call had its grace, and was cancelled
        assert b.ended == 0


def test_500_idle_connections_and_listening_streams_do_not_matter(tmp_path: Path) -> None:
    async def test(program: Program, before: int) -> None:
        async with contextlib.AsyncExitStack() as stack:
            for number in range(500):
                raw = await connected(program.url)
                stack.push_async_callback(raw.close)
                if number % 2:
                    await raw.send("GET", "/mcp", Mcp_Session_Id=await begin(raw))
                    assert await raw.head() == 200
            assert program.descriptors() >= before + 500
            await is_served(program.url)
        await eventually(lambda: program.descriptors() <= before)
        await is_served(program.url)

    with serving(server_file(tmp_path), is_forked=False) as program:
        descriptors = program.descriptors()
        run(is_served(program.url))
        threads = program.threads()
        run(test(program, descriptors))
        assert program.threads() == threads
        (line,) = program.stop(signal.SIGTERM).splitlines()
        assert b"100 sessions come from 127.0.0.1" in line


# ------------------------------------------------------------------------------------- clients that do not read


@pytest.mark.parametrize("older", [False, True])
async def test_a_reader_that_never_reads_its_progress_costs_a_bounded_buffer_then_its_connection(older: bool) -> None:
    async with bench(HttpLimits(write_time=0.5)) as b:
        stuck, beside = await b.raw(limit=1024), await b.raw()
        if older:
            await stuck.send("GET", "/sse")
            assert await stuck.head() == 200
            messages = (await stuck.event())[1]
            await beside.ask("POST", messages, initialize())
            await stuck.event()
            await beside.ask("POST", messages, notification("notifications/initialized"))
            await beside.ask("POST", messages, call("flood"))
            assert beside.status == 202
        else:
            id = await begin(beside)
            await stuck.send("POST", "/mcp", call("flood"), Mcp_Session_Id=id)
        await eventually(lambda: b.begun > 0)
        await is_served(b.url)
        if not older:  # another request of the same session
            answer = await beside.ask("POST", "/mcp", request("ping", id=2), Mcp_Session_Id=id)
            assert answer == {"jsonrpc": "2.0", "id": 2, "result": {}}
        await beside.close()
        assert b.site._http_sse is not None
        held = b.begun
        while b.site._http_sse.sessions if older else b.http.connections:
            held = b.begun
            await asyncio.sleep(0.005)
        assert held < 2_000  # of 10 kB each: the buffers of the kernel, and ours


async def test_a_listening_stream_that_is_never_read_is_cut_and_its_session_goes_on() -> None:
    async with bench(HttpLimits(write_time=0.3)) as b:
        stuck, beside = await b.raw(limit=1024), await b.raw()
        id = await begin(beside)
        uris = [f"thing://{number}{'x' * 8_000}" for number in range(600)]
        for number, uri in enumerate(uris):
            answer = await beside.ask("POST", "/mcp", request("resources/subscribe", {"uri": uri}, number),
                                      Mcp_Session_Id=id)  # fmt: skip
            assert "result" in answer
        await stuck.send("GET", "/mcp", Mcp_Session_Id=id)
        await eventually(lambda: b.sessions[id].listening.state is StreamState.CONNECTED)
        for uri in uris:
            b.server.resource_updated(uri)
        await asyncio.sleep(0)
        answer = await beside.ask("POST", "/mcp", request("ping", id=0), Mcp_Session_Id=id)
        assert answer["result"] == {}
        await eventually(lambda: b.sessions[id].listening.state is not StreamState.CONNECTED)
        b.server.resource_updated(uris[0])
        again = await b.raw()
        await again.send("GET", "/mcp", Mcp_Session_Id=id)
        assert await again.head() == 200
        assert (await again.message())["method"] == "notifications/resources/updated"


# ------------------------------------------------------------------------------------- clients that never end


async def test_200_sessions_without_an_end_make_room_for_each_other_at_the_cap() -> None:
    async with bench(limits=EndpointLimits(sessions=50)) as b:
        client = await b.raw()
        kept = await begin(client)  # in use all the time: never the one to go
        await (listening := await b.raw()).send("GET", "/mcp", Mcp_Session_Id=kept)
        assert await listening.head() == 200
        sessions: weakref.WeakSet[HttpSession] = weakref.WeakSet()
        for _ in range(200):
            await client.ask("POST", "/mcp", initialize())
            assert client.status == 200
            sessions.add(b.sessions[client.headers["mcp-session-id"]])
        assert len(b.sessions) == 50 and kept in b.sessions
        gc.collect()
        assert len(sessions) <= 50
        assert len(asyncio.all_tasks()) < b.before[0] + 60


async def test_session_beyond_the_limit_is_503_and_leaves_nothing() -> None:
    async with bench(limits=EndpointLimits(sessions=2)) as b:
        for _ in range(2):
            busy = await b.raw()
            await busy.send("POST", "/mcp", call("wait"), Mcp_Session_Id=await begin(busy))
            assert await busy.head() == 200
        refused = await b.raw()
        answer = await refused.ask("POST", "/mcp", initialize())
        assert refused.status == 503 and refused.headers["retry-after"] == "5" and "in use" in str(answer["error"])
        b.gate.set()
        await eventually(lambda: b.ended == 2)


def test_200_sessions_without_an_end_are_gone_after_their_time() -> None:
    async def test() -> None:
        async with bench(limits=EndpointLimits(session_idle=2.0)) as b:
            client = await b.raw()
            for _ in range(200):
                await client.ask("POST", "/mcp", initialize())
                assert client.status == 200
            last, sessions = list(b.sessions)[-1], weakref.WeakSet(b.sessions.values())
            await is_served(b.url)
            await eventually(lambda: not b.sessions and len(asyncio.all_tasks()) <= b.before[0] + 1)  # our connection
            gc.collect()
            assert not sessions
            await client.ask("POST", "/mcp", request("ping"), Mcp_Session_Id=last)
            assert client.status == 404

    run(test(), 60.0)


def test_1000_sessions_without_an_end_fit_within_the_default_cap(tmp_path: Path) -> None:
    async def test(program: Program) -> None:
        await is_served(program.url)
        before, client = program.memory(), await connected(program.url)
        for _ in range(1000):
            await client.ask("POST", "/mcp", initialize())
            assert client.status == 200
        assert program.memory() - before < 1000 * 20_000
        await is_served(program.url)
        await client.close()

    with serving(server_file(tmp_path), is_forked=False) as program:
        run(test(program))
        (line,) = program.stop(signal.SIGTERM).splitlines()  # within 3 s, however many there are
        assert b"100 sessions come from 127.0.0.1" in line


# ------------------------------------------------------------------------------------- clients that attack

REBOUND = [
    "attacker.example",
    "attacker.example:{port}",  # the page's own name, that now leads to this machine: DNS rebinding
    "localhost.attacker.example",
    "127.0.0.1.attacker.example",
    "localhost@attacker.example",
    "attacker.example@localhost",
    "attacker.example#localhost",
    "localhost:80:80",
    "localhost:port",
    "localhost.",
    "[::1].attacker.example",
    "[::ffff:127.0.0.1]",
    "0.0.0.0",  # leads to this machine, and a browser may take it for another site
    "192.168.0.1",
    "127.1",
    "",
    None,
]

FOREIGN = [
    "http://attacker.example",
    "http://attacker.example:{port}",
    "http://localhost.attacker.example",
    "http://127.0.0.1.attacker.example",
    "http://localhost@attacker.example",
    "http://attacker.example@localhost",
    "http://attacker.example/http://localhost",
    "http://attacker.example#@localhost",
    "http://0.0.0.0:{port}",
    "http://localhost:80:80",
    "http://[::1",
    "http://",
    "//localhost",
    "localhost",
    "file://localhost",
    "file://",
    "chrome-extension://localhost",
    "null",
    "",
    "http://localhost, http://attacker.example",
    "http://localhost http://attacker.example",
]

WAYS_IN = [
    ("POST", "/mcp"),
    ("GET", "/mcp"),
    ("DELETE", "/mcp"),
    ("OPTIONS", "/mcp"),
    ("GET", "/sse"),
    ("OPTIONS", "/sse"),
    ("POST", "/messages"),
    ("OPTIONS", "/messages"),
]


async def attack(header: str, values: Sequence[str | None], setting: str) -> None:
    """Try every value on every way in, with a session that exists: none gets further than the head."""
    async with bench() as b:
        id = await begin(await b.raw())
        for value in values:
            for method, path in WAYS_IN:
                shown = value.format(port=b.http.address[1]) if value is not None else None
                attacker = await connected(b.url)
                await attacker.send(method, path, call("wait") if method == "POST" else None,
                                    **{"Mcp_Session_Id": id, header: shown})  # fmt: skip
                status, said = await attacker.head(), await attacker.body()
                await attacker.close()
                assert status == 403 or (status == 400 and header == "Host"), (status, method, path, shown)
                assert setting.encode() in said or status == 400, said
                assert not any(name.startswith("access-control") for name in attacker.headers), (shown, path)
            answer = await attacker_begins(b, header, shown)
            assert answer in (400, 403), shown
        assert list(b.sessions) == [id] and b.begun == 0


async def attacker_begins(b: Bench, header: str, value: str | None) -> int:
    """Return the status for an attempt to begin a session."""
    attacker = await connected(b.url)
    await attacker.send("POST", "/mcp", initialize(), **{header: value})
    status = await attacker.head()
    await attacker.close()
    return status


def test_a_host_that_is_not_ours_gets_nowhere_on_any_way_in() -> None:
    run(attack("Host", REBOUND, "allowed_hosts"))


@pytest.mark.spec(
    "2025-03-26..2025-11-25/basic/transports#security-warning-1", "2025-11-25/basic/transports#security-warning-2"
)
def test_an_origin_that_is_not_allowed_is_403_on_every_way_in() -> None:
    run(attack("Origin", FOREIGN, "allowed_origins"))


@pytest.mark.parametrize("kind", ["text/plain", "text/plain; application/json", "application/x-www-form-urlencoded",
                                  "multipart/form-data; boundary=x", "", None])  # fmt: skip
async def test_request_that_a_web_page_can_send_without_preflight_never_reaches_a_tool(kind: str | None) -> None:
    async with bench() as b:
        raw = await b.raw()
        id = await begin(raw)
        for path in ("/mcp", "/messages"):
            answer = await raw.ask("POST", path, call("wait"), Mcp_Session_Id=id, Content_Type=kind)
            assert raw.status == 415 and "application/json" in str(answer["error"])
        assert b.begun == 0


async def test_a_last_event_id_of_20_kb_is_400_and_not_repeated() -> None:
    async with bench() as b:
        raw = await b.raw()
        id = await begin(raw)
        for last in ("x" * 20_000, "get." + "9" * 20_000, "get.\u00b2", ".", "get.-1", "get.1e3"):
            answer = await raw.ask("GET", "/mcp", Mcp_Session_Id=id, Last_Event_ID=last)
            assert raw.status == 400 and "is unknown in this session" in str(answer["error"])
            assert len(json.dumps(answer)) < 500
        await raw.ask("GET", "/mcp", Mcp_Session_Id="x" * 20_000)
        assert raw.status == 404


HOSTILE = {
    "nothing": b"",
    "no JSON": b"hello",
    "half a message": b'{"jsonrpc":"2.0","id":1,"method":"ping"',
    "two messages": b'{"jsonrpc":"2.0","id":1,"method":"ping"}{"jsonrpc":"2.0","id":2,"method":"ping"}',
    "nested arrays": b"[" * 100_000 + b"]" * 100_000,
    "nested objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "nested in a message": b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":' + b"[" * 300 + b"]" * 300 + b"}}",
    "a huge integer": b'{"jsonrpc":"2.0","id":' + b"9" * 1_000_000 + b',"method":"ping"}',
    "a huge exponent": b'{"jsonrpc":"2.0","id":1e999,"method":"ping"}',
    "invalid UTF-8": b'{"jsonrpc":"2.0","id":1,"method":"p\xffng"}',
    "overlong UTF-8": b'{"jsonrpc":"2.0","id":1,"method":"p\xc0\xafng"}',
    "a surrogate in UTF-8": b'{"jsonrpc":"2.0","id":1,"method":"p\xed\xa0\x80ng"}',
    "UTF-16": '{"jsonrpc":"2.0","id":1,"method":"ping"}'.encode("utf-16"),
    "duplicate keys": b'{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}',
    "NaN": b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":NaN}}',
    "a control character": b'{"jsonrpc":"2.0","id":1,"method":"p\x00ng"}',
    "no version": b'{"id":1,"method":"ping"}',
    "no message": b"{}",
    "a number": b"1",
    "null": b"null",
    "an id that is none": b'{"jsonrpc":"2.0","id":{},"method":"ping"}',
    "a method that is none": b'{"jsonrpc":"2.0","id":1,"method":7}',
    "an empty batch": b"[]",
}


@pytest.mark.spec("2025-11-25/basic/transports#intro-1", "2025-11-25/basic/transports#sending-messages-to-the-server-6")
async def test_a_hostile_body_is_400_with_the_json_rpc_error_and_its_session_goes_on() -> None:
    async with bench() as b:
        raw = await b.raw()
        for id in (None, await begin(raw)):
            for name, body in HOSTILE.items():
                answer = await raw.ask("POST", "/mcp", body, Mcp_Session_Id=id)
                assert raw.status == 400 and raw.headers["content-type"] == "application/json", name
                error = answer["error"]
                assert isinstance(error, dict) and error["code"] in (-32700, -32600), (name, answer)
                assert len(json.dumps(answer)) < 1000, name
        answer = await raw.ask("POST", "/mcp", request("ping", id=2), Mcp_Session_Id=id)
        assert answer == {"jsonrpc": "2.0", "id": 2, "result": {}}
        assert len(b.sessions) == 1


# ---------------------------------------------------------------------------------------------------- the end


@pytest.mark.parametrize("tool", ["waits", "hesitates", "ignores", "blocks", "asks"])
def test_signal_ends_a_server_with_streams_open_and_a_tool_running(tool: str, tmp_path: Path) -> None:
    async def test(program: Program, number: signal.Signals) -> None:
        async with contextlib.AsyncExitStack() as stack:

            async def raw() -> Raw:
                made = await connected(program.url)
                stack.push_async_callback(made.close)
                return made

            idle, asking, listening, older, poster = [await raw() for _ in range(5)]
            id = await begin(idle, capabilities={"roots": {}})
            await listening.send("GET", "/mcp", Mcp_Session_Id=id)
            assert await listening.head() == 200
            await asking.send("POST", "/mcp", call(tool), Mcp_Session_Id=id)
            assert await asking.head() == 200
            assert (await asking.message())["method"] == "notifications/progress"
            await older.send("GET", "/sse")
            assert await older.head() == 200
            messages = (await older.event())[1]
            for message in (
                initialize(capabilities={"roots": {}}),
                notification("notifications/initialized"),
                call(tool),
            ):
                await poster.ask("POST", messages, message)
                assert poster.status == 202
            assert "result" in await older.message()
            assert (await older.message())["method"] == "notifications/progress"
            said = await asyncio.to_thread(program.stop, number)  # within 3 s, and with exit code 0
            if tool in ("ignores", "blocks"):  # such a handler cannot be ended, and is left
                assert b"the program exits although" in said and b"Traceback" not in said
            else:
                assert said == b""
            for client in (idle, asking, listening, older, poster):
                await client.reader.read()  # every connection has come to its end

    async def both(terminated: Program, interrupted: Program) -> None:
        await asyncio.gather(test(terminated, signal.SIGTERM), test(interrupted, signal.SIGINT))

    file = server_file(tmp_path)
    with serving(file, "--drain", "0.2") as terminated, serving(file) as interrupted:
        run(both(terminated, interrupted))
