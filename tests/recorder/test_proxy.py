"""The recorder over HTTP: the bytes of both directions arrive as they were sent, and the events describe them."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import hashlib
import itertools
import json
import os
import random
import re
import socket
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from mcp_ref import Client
from mcp_ref.check.recording import Content, Event, Gap, HttpBody, HttpEnd, HttpEvent, HttpRequest, HttpResponse
from mcp_ref.recorder.http_stream import MAX_PIPELINED, HttpStream
from mcp_ref.recorder.proxy import HostReplacer, record_http
from mcp_ref.recorder.tape import TapeOptions
from tests.recorder.recordings import events_of, hostile
from tests.server_programs import serving
from tests.settings import MODERN, PATIENCE, run

INPUTS = int(os.environ.get("MCP_REF_HOSTILE_INPUTS", "300"))
"""Number of hostile inputs. By hand, 10,000: MCP_REF_HOSTILE_INPUTS=10000."""
PER_CONNECTION = 5
"""Number of inputs on one connection."""


def port_of(url: str) -> int:
    return int(url.partition("//")[2].partition("/")[0].rpartition(":")[2])


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@contextlib.asynccontextmanager
async def connected(url: str) -> AsyncIterator[Streams]:
    """Connect to the proxy at a URL."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(url))
    try:
        yield reader, writer
    finally:
        writer.close()
        await writer.wait_closed()


@contextlib.asynccontextmanager
async def proxied(
    path: Path | str, respond: Callable[..., Awaitable[None]], host: str = "127.0.0.1", listens_at: str = "127.0.0.1"
) -> AsyncIterator[Streams]:
    """Serve, record at `path`, and connect to the recorder. `host` is the name of the server in the recorder's URL."""
    async with await asyncio.start_server(respond, "127.0.0.1", 0) as server:
        target = f"http://{host}:{server.sockets[0].getsockname()[1]}/mcp"
        async with record_http(TapeOptions(str(path)), target, listens_at, 0) as url, connected(url) as streams:
            yield streams


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send every byte back."""
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


def test_proxy_passes_hostile_bytes_in_both_directions(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"

    async def send_all() -> None:
        async with await asyncio.start_server(echo, "127.0.0.1", 0) as server:
            target = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
            async with record_http(TapeOptions(str(path)), target, "127.0.0.1", 0) as url:
                for first in range(0, INPUTS, PER_CONNECTION):
                    sent = b"".join(hostile(seed) for seed in range(first, first + PER_CONNECTION))
                    async with connected(url) as (reader, writer):
                        writer.write(sent)
                        writer.write_eof()
                        assert await reader.read() == sent

    run(send_all(), 110.0)
    kinds = {type(event) for event in events_of(path)}
    assert Gap in kinds and kinds <= {Gap, HttpRequest, HttpEnd}, kinds


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN, "2024-11-05"])
async def test_proxy_records_a_whole_conversation(tmp_path: Path, revision: str) -> None:
    path = tmp_path / "a.jsonl"
    with serving("examples/everything.py") as program:
        target = program.url.replace("/mcp", "/sse") if revision == "2024-11-05" else program.url
        async with record_http(TapeOptions(str(path)), target, "127.0.0.1", 0) as url:
            headers = {"Authorization": "Bearer hunter2-a"}
            async with Client(url, revision=revision, headers=headers) as client:
                names = [tool.name for tool in await client.list_tools()]
                result = await client.call_tool("add", {"a": 1, "b": 2})
    assert getattr(result.content[0], "text", None) == "3" and names
    assert b"hunter2" not in path.read_bytes()
    events = events_of(path)
    requests = {event.number: event for event in events if isinstance(event, HttpRequest)}
    calls = [number for number, event in requests.items() if b'"tools/call"' in event.content.data]
    assert len(calls) == 1 and {event.how for event in events if isinstance(event, HttpEnd)} <= {"complete", "client"}
    assert ("Authorization", "***") in requests[calls[0]].headers
    answers = [event.content.data for event in events if isinstance(event, HttpBody | HttpEvent)]
    results = [data for data in answers if b'"content"' in data]
    assert json.loads(results[-1])["result"]["content"] == [{"type": "text", "text": "3"}]


@pytest.mark.attack("recording-stops-conversation")
async def test_proxy_with_a_full_disk_goes_on_and_says_so_at_the_end(capfd: pytest.CaptureFixture[str]) -> None:
    async with proxied("/dev/full", echo) as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        assert await reader.readexactly(18) == b"GET / HTTP/1.1\r\n\r\n"
    err = capfd.readouterr().err
    assert re.search(r"events are missing in the recording \(\d+\): the file could not be written: No space left", err)


@pytest.mark.attack("recorder-as-open-proxy")
async def test_proxy_connects_to_its_own_server_only(tmp_path: Path) -> None:
    async with proxied(tmp_path / "a.jsonl", echo) as (reader, writer):
        sent = b"CONNECT mcp.example:443 HTTP/1.1\r\nHost: mcp.example\r\n\r\nGET http://mcp.example/ HTTP/1.1\r\n\r\n"
        writer.write(sent)
        assert await reader.readexactly(len(sent)) == sent


async def test_proxy_of_a_server_that_is_not_there_closes_the_connection(tmp_path: Path) -> None:
    target = "http://127.0.0.1:9/mcp?a=b"
    async with record_http(TapeOptions(str(tmp_path / "a.jsonl")), target, "127.0.0.1", 0) as url:
        assert url.endswith("/mcp?a=b")
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(url))
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()


async def test_proxy_passes_each_event_when_it_comes(tmp_path: Path) -> None:
    seen = asyncio.Event()

    async def stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(
            b"HTTP/1.1 200 OK\r\nx-Odd:  a\r\nContent-Type: text/event-stream\r\n\r\n"
            b"id: 1\nretry: 1000000000000000\ndata: {}\n\n"
        )
        await seen.wait()  # the second event is sent after the client has the first one
        writer.write(b"retry: 999999999999999\nevent: ping\ndata: a\ndata: b\n\n")
        writer.close()

    path = tmp_path / "a.jsonl"
    async with proxied(path, stream) as (reader, writer):
        writer.write(b"GET /mcp HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reader.readuntil(b"{}\n\n")).startswith(b"HTTP/1.1 200 OK\r\nx-Odd:  a\r\n")
        seen.set()
        assert await reader.read() == b"retry: 999999999999999\nevent: ping\ndata: a\ndata: b\n\n"
    events = [event for event in events_of(path) if isinstance(event, HttpEvent)]
    assert [(event.id, event.retry, event.type, event.content.data) for event in events] == [
        ("1", None, "message", b"{}"),
        (None, 999999999999999, "ping", b"a\nb"),
    ]


async def test_proxy_reads_from_the_server_only_what_the_client_can_take(tmp_path: Path) -> None:
    sent, enough, limit = 0, False, 64 << 20  # more than all buffers of the system

    async def stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        while not enough and sent < limit:
            writer.write(b"a" * 65536)
            sent += 65536
            await writer.drain()
        writer.close()

    async with proxied(tmp_path / "a.jsonl", stream) as (reader, _):
        for _ in range(3000):  # turns of the event loop, in which the bytes would pass if nothing held them up
            await asyncio.sleep(0)
        assert 0 < sent < limit
        enough = True
        assert len(await reader.read()) == sent


PIPELINED = (
    b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    b"\r\nHEAD /b HTTP/1.1\r\nHost: x\r\n\r\n"
    b"POST /c HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"
)
RESPONSES = (
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
    b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n"
    b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\ngone"
)


def test_http_stream_records_nothing_after_a_change_to_another_protocol() -> None:
    stream = HttpStream(1, iter([1]))
    events = [*stream.receive(0.0, "client", b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n\r\n")]
    for data in (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n", b"\x81\x00"):
        events += stream.receive(0.0, "server", data)
    because = "the rest of connection 1 is not recorded: it changed to another protocol"
    assert events[2:] == [Gap(1, 0, because)] and isinstance(events[1], HttpResponse)


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_http_stream_reads_pieces_of_any_size(size: int) -> None:
    stream = HttpStream(1, iter(range(1, 9)))
    events: list[Event] = []
    for side, data in (("client", PIPELINED), ("server", RESPONSES)):
        for start in range(0, len(data), size):
            events += stream.receive(0.0, "client" if side == "client" else "server", data[start : start + size])
    shown = [
        (event.method, event.target, event.content.data) if isinstance(event, HttpRequest)
        else event.status if isinstance(event, HttpResponse)
        else event.content.data if isinstance(event, HttpBody)
        else (event.number, event.how) if isinstance(event, HttpEnd) else event
        for event in events
    ]  # fmt: skip
    assert shown == [
        ("POST", "/a", b"abc"), ("HEAD", "/b", b""), ("POST", "/c", b"{}"),
        100, 200, b"ok", (1, "complete"), 200, (2, "complete"), 404, b"gone", (3, "complete"),
    ]  # fmt: skip


@pytest.mark.parametrize("status", [199, 204, 304])
def test_http_stream_expects_no_body_of_a_status_without_one(status: int) -> None:
    stream = HttpStream(1, iter(range(1, 9)))
    list(stream.receive(0.0, "client", b"GET / HTTP/1.1\r\n\r\n"))
    heads = b"HTTP/1.1 %d x\r\nContent-Length: 9\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" % status
    events = list(stream.receive(0.0, "server", heads))
    assert isinstance(events[0], HttpResponse) and events[0].status == status
    assert not any(isinstance(event, HttpBody) for event in events)


def test_http_stream_stops_at_too_many_requests_without_a_response() -> None:
    events = list(HttpStream(1, itertools.count(1)).receive(0.0, "client", b"GET / HTTP/1.1\r\n\r\n" * 3000))
    assert len(events) == MAX_PIPELINED + 1 and isinstance(events[-1], Gap)


def test_http_stream_survives_broken_http_in_both_directions() -> None:
    random_ = random.Random(221_125)
    sse = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    sse += b"e\r\nid: 1\ndata: a\n\r\n8\r\nretry: 1\r\n2\r\n\n\n\r\n0\r\n\r\n"
    for _ in range(2000):
        stream = HttpStream(1, iter(range(1, 99)))
        for side, whole in (("client", PIPELINED), ("server", random_.choice((RESPONSES, sse + RESPONSES)))):
            data = bytearray(whole)
            for _ in range(random_.randrange(4)):
                at = random_.randrange(len(data))
                data[at : at + random_.randrange(3)] = random_.choice(
                    (b"", b"\r\n", b"\n", b"\0", b"9", b": ", b"data:")
                )
            cut, sender = random_.randrange(len(data)), "client" if side == "client" else "server"
            for piece in (bytes(data[:cut]), bytes(data[cut:])):
                assert all(isinstance(event, Event) for event in stream.receive(0.0, sender, piece))  # type: ignore[arg-type]
        for sender in ("client", "server"):
            assert all(isinstance(event, Event) for event in stream.end(0.0, sender))  # type: ignore[arg-type]


def test_http_stream_reads_compressed_bodies() -> None:
    raw = zlib.compressobj(wbits=-15)
    for coding, body, shown in (
        (b"gzip", gzip.compress(b"a" * 300_000), b"a" * 300_000),
        (b"gzip", b"not compressed", b"not compressed"),
        (b"deflate", zlib.compress(b"a" * 300_000), b"a" * 300_000),
        (b"deflate", raw.compress(b"a" * 300_000) + raw.flush(), b"a" * 300_000),
        (b"deflate", b"not compressed", b"not compressed"),
        (b"deflate", b'{"a": 1}', b'{"a": 1}'),
    ):
        stream = HttpStream(1, iter(range(1, 9)))
        list(stream.receive(0.0, "client", b"GET / HTTP/1.1\r\n\r\n"))
        head = b"HTTP/1.1 200 OK\r\nContent-Encoding: %b\r\nContent-Length: %d\r\n\r\n" % (coding, len(body))
        events = list(stream.receive(0.0, "server", head + body))
        assert [event.content.data for event in events if isinstance(event, HttpBody)] == [shown]


@pytest.mark.attack("recording-secrets")
@pytest.mark.parametrize("coding", [b"br", b"zstd, gzip"])
def test_http_stream_withholds_bodies_whose_compression_hides_their_secrets(coding: bytes) -> None:
    stream, length = HttpStream(1, itertools.count(1)), b"Content-Encoding: %s\r\nContent-Length: 7\r\n\r\n" % coding
    events = [*stream.receive(0.0, "client", b"POST / HTTP/1.1\r\n" + length + b"hunter2")]
    events += stream.receive(0.0, "server", b"HTTP/1.1 200 OK\r\n" + length + b"hunter2")
    contents = [event.content for event in events if isinstance(event, HttpRequest | HttpBody)]
    assert contents == [Content(b"", 7, hashlib.sha256(b"hunter2").hexdigest())] * 2


def test_http_stream_says_which_side_left_a_response_without_an_end() -> None:
    for first, second in (("client", "server"), ("server", "client")):
        stream = HttpStream(1, iter(range(1, 9)))
        list(stream.receive(0.0, "client", b"GET / HTTP/1.1\r\n\r\n"))
        list(stream.receive(0.0, "server", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"))
        ends = []
        for side in (first, second):
            ends += list(stream.end(1.0, "client" if side == "client" else "server"))
        assert [event.how for event in ends if isinstance(event, HttpEnd)] == [first]
        assert [event.content.data for event in ends if isinstance(event, HttpBody)] == [b"abc"]


@pytest.mark.parametrize("size", [1, 9, 1000])
def test_host_replacer_changes_the_host_of_each_request_only(size: int) -> None:
    body = b"POST /d HTTP/1.1\r\nhost:y\r\nContent-Length: 9\r\n\r\nHost: abc"
    sent, replacer = PIPELINED + body, HostReplacer(b"mcp.example")
    got = b"".join(replacer.feed(sent[start : start + size]) for start in range(0, len(sent), size))
    assert got == sent.replace(b"Host: x", b"Host: mcp.example").replace(b"host:y", b"Host: mcp.example")


def test_host_replacer_passes_on_every_byte_of_hostile_input() -> None:
    for seed in range(INPUTS):
        sent = PIPELINED + hostile(seed)
        cut, replacer = random.Random(seed).randrange(len(sent)), HostReplacer(b"x")
        assert replacer.feed(sent[:cut]) + replacer.feed(sent[cut:]) + replacer.take_unsent() == sent


@pytest.mark.parametrize("line", [b"GET /b HTTP/1.1 ", b"GET /b HTTP/1.1\r\nno-colon", b"PRI * HTTP/2.0"])
async def test_proxy_ends_a_connection_on_which_it_cannot_replace_the_host(tmp_path: Path, line: bytes) -> None:
    path, received = tmp_path / "a.jsonl", list[bytes]()

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            received.append(data)
            writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        writer.close()

    # 127.1 is another spelling of 127.0.0.1, so the recorder takes it for the name of another machine
    async with proxied(path, respond, "127.1") as (reader, writer):
        writer.write(b"GET /a HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 204 No Content\r\n\r\n"
        writer.write(line + b"\r\nHost: 127.0.0.1\r\n\r\nGET /c HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    fields = b"Content-Type: text/plain; charset=utf-8\r\nConnection: close\r\nContent-Length: %d" % len(body)
    assert re.sub(rb"Date: .*\r\n", b"", head) == b"HTTP/1.1 400 Bad Request\r\n" + fields
    assert body.startswith(b"mcp_ref record cannot replace Host in this request: ")
    assert b"/a" in received[0] and b"Host: 127.1" in received[0] and len(received) == 1
    gaps = [event.because for event in events_of(path) if isinstance(event, Gap)]
    assert len(gaps) == 1 and gaps[0].startswith("the recorder ended connection 1: ")


async def test_proxy_records_the_end_of_a_response_that_ends_with_its_connection(tmp_path: Path) -> None:
    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nhi")
        writer.close()

    path = tmp_path / "a.jsonl"
    async with proxied(path, respond) as (reader, writer):
        writer.write(b"GET /a HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert (await reader.read()).endswith(b"\r\n\r\nhi")
    shown = [(event.content.data, "") if isinstance(event, HttpBody) else (b"", event.how)
             for event in events_of(path) if isinstance(event, HttpBody | HttpEnd)]  # fmt: skip
    assert shown == [(b"hi", ""), (b"", "complete")]


def test_host_replacer_sends_a_body_before_its_end() -> None:
    replacer, sent = HostReplacer(b"mcp.example"), PIPELINED.index(b"bc\r\n0")
    assert replacer.feed(PIPELINED[:sent]).endswith(b"\r\n\r\n3\r\na")
    assert replacer.feed(PIPELINED[sent : sent + 5]) == b"bc\r\n0"


@pytest.mark.attack("recorder-rebinding")
@pytest.mark.parametrize("name", ["evil.example", socket.gethostname(), "127.0.0.1"])
async def test_recorder_that_listens_to_other_machines_passes_on_a_foreign_name(tmp_path: Path, name: str) -> None:
    received = asyncio.Queue[bytes]()

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.put_nowait(await reader.readuntil(b"\r\n\r\n"))
        writer.close()

    path = tmp_path / "a.jsonl"
    async with asyncio.timeout(PATIENCE), proxied(path, respond, "127.1", "0.0.0.0") as (_, writer):
        writer.write(f"GET /a HTTP/1.1\r\nHost: {name}\r\n\r\n".encode())
        host = (await received.get()).partition(b"\r\nHost: ")[2].partition(b"\r\n")[0].decode()
        assert host == name if name == "evil.example" else re.fullmatch(r"127\.1:\d+", host)


@pytest.mark.attack("recorder-rebinding")
@pytest.mark.parametrize(
    ("host", "sent"),
    [
        ("127.0.0.1:8000", "mcp.example"),
        ("LOCALHOST", "mcp.example"),
        ("[::1]:8000", "mcp.example"),
        ("evil.example:8000", "evil.example:8000"),
        ("127.0.0.1.evil.example", "127.0.0.1.evil.example"),
        ("192.0.2.7:8000", "mcp.example"),
        ("[2001:db8::7]:8000", "mcp.example"),
        ("recorder:8000", "mcp.example"),
        ("Laptop.Example:8000", "mcp.example"),
    ],
)
def test_host_replacer_leaves_a_name_that_is_not_the_recorders(host: str, sent: str) -> None:
    replacer = HostReplacer(b"mcp.example", {"laptop.example"})
    assert replacer.feed(f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()) == (
        f"GET / HTTP/1.1\r\nHost: {sent}\r\n\r\n".encode()
    )
