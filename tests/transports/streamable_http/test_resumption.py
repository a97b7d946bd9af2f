"""Calls over Streamable HTTP whose server is killed: its session and its stored events continue after a restart.

Streams that lose only their connection are tested in test_client.py and test_session.py, and in tests/chaos.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3
from pathlib import Path

import pytest

from mcp_ref import Client
from mcp_ref.jsonrpc.errors import RemoteError
from mcp_ref.jsonrpc.messages import Object
from mcp_ref.lib.http.sse import EventParser
from mcp_ref.transports.streamable_http import resumption
from mcp_ref.transports.streamable_http.client import StreamableHttpClientTransport
from mcp_ref.transports.streamable_http.restoration import LOST
from mcp_ref.transports.streamable_http.resumption import resume_header
from mcp_ref.transports.streamable_http.sqlite_store import SqliteEventStore
from tests.messages import error_of
from tests.raw_http_client import LATEST_LEGACY, HoldingServer, RawSession, call, served_over_http
from tests.server_programs import serving
from tests.settings import PATIENCE, eventually

OLDEST_AND_LATEST = pytest.mark.parametrize("revision", ["2025-03-26", LATEST_LEGACY])

PROGRAM = """
import asyncio
from mcp_ref import Context, Server

server = Server("counting", "1")

@server.tool()
async def count(to: int, context: Context, end: bool = True) -> str:
    for step in range(1, to + 1):
        await context.report_progress(step)
    if not end:
        await asyncio.Event().wait()
    return "counted"
"""


def number_of_stored_messages(store: str) -> int:
    """Return the number of messages that a server has stored for streams of calls."""
    with contextlib.closing(sqlite3.connect(store)) as database:
        query = "SELECT COUNT(*) FROM events WHERE stream != 'get' AND data != x''"
        return int(database.execute(query).fetchone()[0])


@OLDEST_AND_LATEST
async def test_server_that_is_killed_in_mid_stream_keeps_its_session_and_stored_events_after_a_restart(
    tmp_path: Path, revision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resumption, "retry_seconds", lambda *_: 0.5)
    program, store, steps, sent = tmp_path / "counting.py", str(tmp_path / "events.sqlite"), list[float](), list[str]()
    program.write_text(PROGRAM, "utf-8")

    def trace(way: str, frame: bytes) -> None:
        if way == "->":
            sent.append(json.loads(frame).get("method", "response"))

    with serving(program, "--store", store, is_forked=False) as first:
        async with Client(first.url, revision=revision, trace=trace) as client:
            transport = client.session.transport
            assert isinstance(transport, StreamableHttpClientTransport)
            session = transport._session
            arguments: Object = {"to": 20, "end": False}
            counting = client.call_tool("count", arguments, on_progress=lambda progress, *_: steps.append(progress))
            calling = asyncio.create_task(counting)
            await eventually(lambda: len(steps) == 20 and number_of_stored_messages(store) == 20)
            first.process.kill()
            first.process.wait(PATIENCE)
            port = first.url.split(":")[2].split("/")[0]
            with serving(program, "--store", store, port=port, is_forked=False):
                with pytest.raises(RemoteError, match="the process that served the request has ended"):
                    await calling
                assert steps == list(range(1, 21))  # each once
                assert (await client.call_tool("count", {"to": 3})).text == "counted"
                assert transport._session == session and sent.count("initialize") == 1
                await client.close()


@OLDEST_AND_LATEST
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
            events = [await reply.event() for _ in range(1 + (revision == LATEST_LEGACY))]
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
