"""Calls over Streamable HTTP that lose their connection, or their server: every message comes once, and in order."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import sqlite3
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest

from mcp_ref import Client, ConnectionClosed, Context, Server
from mcp_ref.jsonrpc.errors import RemoteError
from mcp_ref.lib.http.sse import EventParser
from mcp_ref.transports.streamable_http import resumption
from mcp_ref.transports.streamable_http.client import StreamableHttpClientTransport
from mcp_ref.transports.streamable_http.restoration import LOST
from mcp_ref.transports.streamable_http.resumption import resume_header
from mcp_ref.transports.streamable_http.sqlite_store import SqliteEventStore
from tests.messages import error_of
from tests.raw_http_client import HoldingServer, RawSession, call, served_over_http
from tests.server_programs import serving
from tests.settings import PATIENCE, eventually

SECONDS = 60.0
LATEST = "2025-11-25"
OLDEST_AND_LATEST = ["2025-03-26", LATEST]
STEPS = 6
CALL = (b'"tools/call"', b"Last-Event-ID: ")
"""The text in a connection that carries a call's stream."""


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the client resume streams almost at once."""
    monkeypatch.setattr(resumption, "retry_seconds", lambda *_: 0.01)


# ------------------------------------------------------------------------------------------------ the way in between


@dataclass
class Cutter:
    """A way to a server that lets so many events of a stream through, and then closes the connection, or holds it.

    cuts: for each connection that carries one of the streams, how many; None for all. more: bytes of the next event.
    """

    port: int
    cuts: Iterator[int | None]
    more: int = 0
    holds: bool = False
    marks: tuple[bytes, ...] = CALL
    passed: list[int] = field(default_factory=list)
    """Number of events that each of those connections has carried."""

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there_reader, there = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return await _close(writer)
        cut: list[int | None] = []
        back = asyncio.create_task(self._back(there_reader, writer, cut))
        try:
            with contextlib.suppress(OSError):
                while data := await reader.read(1 << 16):
                    if not cut and any(mark in data for mark in self.marks):
                        cut.append(next(self.cuts))
                    there.write(data)
                    await there.drain()
        finally:
            await _close(there)
            await asyncio.wait([back])
            await _close(writer)

    async def _back(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, cut: list[int | None]) -> None:
        seen, sent, place = b"", 0, None
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                if not cut:
                    writer.write(data)
                    continue
                if place is None:
                    place = len(self.passed)
                    self.passed.append(0)
                seen += data
                end = len(seen) if cut[0] is None else _end_of(seen, cut[0])
                complete = cut[0] is not None and seen.count(b"\n\n") >= cut[0]
                end = min(end + (self.more if complete else 0), len(seen))
                writer.write(seen[sent:end])
                sent = end
                self.passed[place] = seen[:end].count(b"\n\n")
                if complete and not self.holds and (not self.more or len(seen) > _end_of(seen, cut[0] or 0)):
                    break
        writer.close()


def _end_of(seen: bytes, count: int) -> int:
    """Return the end of the event with this number, or of everything if there are fewer."""
    end = -2
    for _ in range(count):
        end = seen.find(b"\n\n", end + 2)
        if end < 0:
            return len(seen)
    return max(end + 2, 0)


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


@contextlib.asynccontextmanager
async def through(cutter: Cutter) -> AsyncIterator[str]:
    """Yield the URL through which the server is reached."""
    tasks: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        await cutter.accept(reader, writer)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
    finally:
        server.close()
        if tasks:
            _, pending = await asyncio.wait(tasks, timeout=PATIENCE)
            assert not pending, "a connection was left open"


class Seen:
    """The frames that a client has received."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.sent: list[str] = []

    def __call__(self, way: Literal["->", "<-"], frame: bytes) -> None:
        if way == "<-":
            self.frames.append(frame)
        else:
            self.sent.append(json.loads(frame).get("method", "answer"))

    @property
    def progress(self) -> list[int]:
        """The progress notifications, as they came."""
        messages = [json.loads(frame) for frame in self.frames]
        return [m["params"]["progress"] for m in messages if m.get("method") == "notifications/progress"]

    @property
    def answers(self) -> int:
        """Number of responses to calls of tools."""
        return sum(b'"content"' in frame for frame in self.frames)


def ignore(progress: float, total: float | None, message: str | None) -> None:
    """Ignore progress: the test reads it from the frames."""


# ------------------------------------------------------------------------------------------------ lost connections


@contextlib.asynccontextmanager
async def counting(patient: list[Seen]) -> AsyncIterator[int]:
    """Return a server whose tool counts. With a client in the list, each step waits until it has seen the last."""
    server = Server("counting", "1")

    @server.tool()
    async def count(context: Context) -> str:
        for step in range(1, STEPS + 1):
            await context.report_progress(step)
            if patient:
                await eventually(lambda step=step: len(patient[0].progress) >= step)  # type: ignore[misc]
        return "counted"

    async with server.serve_http() as url:
        yield int(url.split(":")[2].split("/")[0])


@pytest.mark.spec(
    "2025-11-25/basic/transports#resumability-and-redelivery-3",
    "2025-03-26/basic/transports#resumability-and-redelivery-2",
)
@pytest.mark.parametrize("revision", OLDEST_AND_LATEST)
@pytest.mark.parametrize("pace", ["all at once", "step by step"])
@pytest.mark.parametrize("more", [0, 20], ids=["after it", "in the middle of the next one"])
async def test_call_that_loses_its_connection_after_any_event_receives_each_message_once_in_order(
    revision: str, pace: str, more: int
) -> None:
    events = STEPS + (2 if revision == LATEST else 1)  # the answer; and the one that primes
    patient: list[Seen] = []
    async with counting(patient) as port:
        for cut in range(1, events + 1):
            seen = Seen()
            patient[:] = [seen] if pace == "step by step" else []
            cutter = Cutter(port, iter([cut, *[None] * 9]), more)
            async with through(cutter) as url, Client(url, revision=revision, trace=seen) as client:
                assert (await client.call_tool("count", on_progress=ignore)).text == "counted"
            assert seen.progress == list(range(1, STEPS + 1)), cut
            assert seen.answers == 1 and seen.sent.count("tools/call") == 1
            # the first connection brought so many, and the second one the rest
            assert cutter.passed == ([cut, events - cut] if cut < events else [cut])


@pytest.mark.parametrize("revision", OLDEST_AND_LATEST)
async def test_call_that_loses_its_connection_before_any_event_fails_and_the_next_one_works(revision: str) -> None:
    """Expect a failure: without an event id, the client cannot name the stream to resume."""
    async with (
        counting([]) as port,
        through(Cutter(port, iter([0, None]))) as url,
        Client(url, revision=revision) as client,
    ):
        with pytest.raises(ConnectionClosed):
            await client.call_tool("count", on_progress=ignore)
        assert (await client.call_tool("count", on_progress=ignore)).text == "counted"


async def test_many_calls_at_a_time_that_all_lose_their_connections_get_what_is_theirs() -> None:
    server = Server("echo", "1")

    @server.tool()
    async def echo(n: int, context: Context) -> str:
        for step in range(1, STEPS + 1):
            await context.report_progress(step, message=f"{n}.{step}")
        return str(n)

    async with server.serve_http() as direct:
        port = int(direct.split(":")[2].split("/")[0])
        cutter = Cutter(port, itertools.cycle([1, 3, 2]))
        async with through(cutter) as url, Client(url, revision=LATEST) as client:

            async def call(n: int) -> None:
                told: list[str | None] = []

                def note(progress: float, total: float | None, message: str | None) -> None:
                    told.append(message)

                result = await client.call_tool("echo", {"n": n}, on_progress=note)
                assert result.text == str(n)
                await eventually(lambda: len(told) == STEPS)
                assert told == [f"{n}.{step}" for step in range(1, STEPS + 1)]

            await asyncio.gather(*(call(n) for n in range(20)))


# ------------------------------------------------------------------------------------------------ lost servers

PROGRAM = """
import asyncio
from mcp_ref import Context, Server

server = Server("counting", "1")

@server.tool()
async def count(to: int, context: Context) -> str:
    for step in range(1, to + 1):
        await context.report_progress(step)
    return "counted"

@server.tool()
async def count_and_wait(to: int, context: Context) -> str:
    for step in range(1, to + 1):
        await context.report_progress(step)
    await asyncio.Event().wait()
    return "never"
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "counting.py"
    path.write_text(PROGRAM, "utf-8")
    return path


def stored(store: Path) -> list[bytes]:
    """Return the messages that a server has stored for streams of calls, in order."""
    with contextlib.closing(sqlite3.connect(store)) as database:
        rows: Iterable[tuple[bytes]] = database.execute(
            "SELECT data FROM events WHERE stream != 'get' AND data != x'' ORDER BY number"
        ).fetchall()
    return [bytes(data) for (data,) in rows]


def of_call(seen: Seen) -> list[bytes]:
    return [frame for frame in seen.frames if b'"content"' in frame or b"notifications/progress" in frame]


@pytest.mark.parametrize("revision", OLDEST_AND_LATEST)
@pytest.mark.parametrize("finished", [True, False], ids=["that has finished", "that has not"])
async def test_server_that_is_killed_in_mid_stream_keeps_its_session_and_stored_events_after_a_restart(
    program: Path, tmp_path: Path, revision: str, finished: bool
) -> None:
    store = tmp_path / "events.sqlite"
    steps = 20

    seen = Seen()
    with serving(program, "--store", str(store), is_forked=False) as first:
        port = first.url.split(":")[2].split("/")[0]
        cutter = Cutter(int(port), iter([3, *[None] * 99]), holds=True)
        async with through(cutter) as url, Client(url, revision=revision, trace=seen) as client:
            transport = client.session.transport
            assert isinstance(transport, StreamableHttpClientTransport)
            session = transport._session
            tool = "count" if finished else "count_and_wait"
            call = asyncio.create_task(client.call_tool(tool, {"to": steps}, on_progress=ignore))
            # all is stored, and the client has a part of it
            await eventually(lambda: store.exists() and len(stored(store)) == steps + finished)
            await eventually(lambda: cutter.passed == [3] and len(of_call(seen)) == 3 - (revision == LATEST))
            first.process.kill()
            first.process.wait(PATIENCE)
            with serving(program, "--store", str(store), port=port, is_forked=False) as second:
                assert second.url == first.url
                if finished:
                    assert (await call).text == "counted"
                else:
                    with pytest.raises(RemoteError, match="the process that served the request has ended"):
                        await call
                assert seen.progress == list(range(1, steps + 1))
                assert of_call(seen) == stored(store)[: steps + finished]  # without the error
                result = await client.call_tool("count", {"to": 3}, on_progress=ignore)
                assert result.text == "counted" and seen.progress[steps:] == [1, 2, 3]
                assert transport._session == session and seen.sent.count("initialize") == 1
                await client.close()


@pytest.mark.parametrize("revision", OLDEST_AND_LATEST)
async def test_last_event_id_of_a_request_that_was_lost_with_its_server_gets_an_error_once(
    revision: str, tmp_path: Path
) -> None:
    held, path = HoldingServer(), str(tmp_path / "events.sqlite")
    with contextlib.closing(SqliteEventStore(path)) as store, contextlib.closing(SqliteEventStore(path)) as next_store:
        async with (  # as after SIGKILL, because the first server deletes nothing
            served_over_http(held.server, store=store) as web,
            served_over_http(held.server, store=next_store) as next_web,
        ):
            talk = RawSession(web)
            await talk.handshake(revision)
            reply = await talk.post(call("hold", name="a", say=True))
            events = [await reply.event() for _ in range(1 + (revision == LATEST))]
            await store.flush(PATIENCE)
            next_talk = RawSession(next_web, talk.id)
            ids = [event["id"] for event in events if event is not None]
            for number, id in enumerate(ids):
                *missed, lost = await (await next_talk.get(id)).events()
                assert missed == events[number + 1 :]
                assert error_of(json.loads(lost["data"]), -32603)["message"] == LOST
            refused = await next_talk.get(lost["id"])
            assert refused.status == 400 and "a restart ended it" in refused.why
            held.go.set()


@pytest.mark.parametrize(("length", "is_repeated"), [(4096, True), (4097, False)])
def test_resume_header_repeats_event_ids_of_limited_length(length: int, is_repeated: bool) -> None:
    parser = EventParser(10_000)
    list(parser.feed(b"id: " + b"x" * length + b"\ndata: 1\n\n"))
    assert resume_header(parser) == ({"Last-Event-ID": "x" * length} if is_repeated else {})
