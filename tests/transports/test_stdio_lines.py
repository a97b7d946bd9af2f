"""Newline-delimited messages: any cutting of the stream gives the same messages; overlong lines cost no memory."""

from __future__ import annotations

import asyncio
import random
from types import SimpleNamespace

import pytest

from mcp_ref.jsonrpc.messages import (
    ID_SEARCH_BYTES,
    INVALID_REQUEST,
    Incoming,
    Malformed,
    Notification,
    Response,
    encode,
)
from mcp_ref.transports.base import OnEnd, Receive
from mcp_ref.transports.stdio.lines import MAX_LINE, MAX_READ, MAX_UNWRITTEN, LineReader, LineTransport, limit_reads
from tests.settings import PATIENCE

MESSAGES = [
    Notification("n", {"text": text}) for text in ("", "a", "\u2028", "\u0085", "line\nbreak\r", "\U0001f600" * 50)
]
STREAM = b"".join(encode(message) + b"\n" for message in MESSAGES)


@pytest.mark.spec("2026-07-28/basic/transports/stdio#intro-1", "2024-11-05..2025-11-25/basic/transports#stdio-1")
def test_any_cutting_of_the_stream_gives_the_same_messages() -> None:
    random.seed(7)
    for size in (1, 2, 3, 7, 64, len(STREAM)):
        got: list[Incoming] = []
        reader = LineReader(got.append)
        for start in range(0, len(STREAM), size):
            reader.feed(STREAM[start : start + size])
        assert got == MESSAGES


def test_blank_lines_and_crlf_are_ignored() -> None:
    got: list[Incoming] = []
    LineReader(got.append).feed(b"\n  \r\n" + encode(MESSAGES[1]) + b"\r\n\n")
    assert got == [MESSAGES[1]]


def test_line_reader_accepts_a_last_line_without_a_newline() -> None:
    got: list[Incoming] = []
    reader = LineReader(got.append)
    reader.feed(encode(MESSAGES[1]))
    assert got == []
    ended: list[bool] = []
    reader.feed_eof(lambda: ended.append(True))
    assert got == [MESSAGES[1]]
    assert ended == [True]


async def test_line_reader_reports_the_end_after_the_lines_that_it_holds_back() -> None:
    got: list[Incoming] = []
    ended: list[bool] = []

    def take_one(message: Incoming) -> None:
        got.append(message)
        reader.paused = True

    reader = LineReader(take_one)
    reader.feed(STREAM)
    reader.feed_eof(lambda: ended.append(True))
    for _ in MESSAGES:
        assert ended == []
        reader.resume()
        await asyncio.sleep(0)
    assert (got, ended) == (MESSAGES, [True])


def test_line_reader_reports_an_overlong_line_with_its_id_and_reads_the_next_line() -> None:
    got: list[Incoming] = []
    reader = LineReader(got.append, limit=1000)
    reader.feed(b'{"jsonrpc":"2.0","id":"big","method":"x","params":{"a":"')
    for _ in range(100):
        reader.feed(b"x" * 65536)
        assert len(reader._buffer) <= ID_SEARCH_BYTES, "only the start of an overlong line must be kept"
    reader.feed(b'"}}\n' + encode(MESSAGES[1]) + b"\n")
    report, following = got
    assert isinstance(report, Malformed)
    assert (report.id, report.error.code) == ("big", INVALID_REQUEST)
    assert "longer than 1000 bytes" in report.error.message
    assert following == MESSAGES[1]


def test_line_reader_accepts_a_line_of_exactly_the_limit() -> None:
    frame = encode(MESSAGES[1])
    for limit, kind in ((len(frame), Notification), (len(frame) - 1, Malformed)):
        got: list[Incoming] = []
        reader = LineReader(got.append, limit)
        reader.feed(frame + b"\n" + frame)
        reader.feed(b"\n" + frame)
        reader.feed(b"\n")
        assert [type(message) for message in got] == [kind] * 3


async def test_while_paused_nothing_is_handed_on_and_afterwards_everything_in_order() -> None:
    got: list[Incoming] = []

    def take_one(message: Incoming) -> None:
        got.append(message)
        reader.paused = True

    reader = LineReader(take_one)
    reader.feed(STREAM)
    for count in range(1, len(MESSAGES) + 1):
        assert got == MESSAGES[:count]
        reader.resume()
        await asyncio.sleep(0)


def test_line_reader_searches_a_long_line_in_small_pieces_once() -> None:
    """Check that the time is linear: 16 MiB in 64 KiB pieces would take minutes if each search began at the start."""
    got: list[Incoming] = []
    reader = LineReader(got.append)
    reader.feed(b'{"jsonrpc":"2.0","method":"n","params":{"a":"')
    for _ in range(256):
        reader.feed(b"x" * 65536)
        assert reader._searched == len(reader._buffer)
    reader.feed(b'"}}\n')
    assert isinstance(got[0], Notification)


class Written(LineTransport):
    """A transport without a peer, which keeps each write."""

    def __init__(self) -> None:
        super().__init__(MAX_LINE, None)
        self.writes: list[bytes] = []

    def _write(self, line: bytes) -> None:
        self.writes.append(line)

    def _input(self) -> None:
        return None

    async def start(self, receive: Receive, on_end: OnEnd) -> None: ...
    async def close(self) -> None: ...


async def test_responses_to_one_piece_of_input_are_written_together_but_notifications_at_once() -> None:
    transport, response, notification = Written(), Response(1, {}), Notification("n")
    frame, other = encode(response) + b"\n", encode(notification) + b"\n"
    transport.send(response)
    assert transport.writes == [frame]  # it belongs to no piece of input
    transport.data_received(b"\n")
    for _ in range(MAX_UNWRITTEN - 1):
        transport.send(response)
    assert transport.writes == [frame]
    transport.data_received(b"\n")
    transport.send(response)
    assert transport.writes == [frame, frame * MAX_UNWRITTEN]
    transport.send(response)
    transport.send(notification)
    assert transport.writes[2:] == [frame + other]
    transport.send(response)
    await asyncio.sleep(0)
    assert transport.writes[3:] == [frame]
    transport.send(response)
    assert transport.writes[3:] == [frame, frame]


async def test_line_transport_drain_waits_while_the_peer_reads_too_slowly() -> None:
    transport = Written()
    await transport.drain()
    transport.pause_writing()
    draining = asyncio.create_task(transport.drain())
    await asyncio.sleep(0)
    assert not draining.done()
    transport.resume_writing()
    await asyncio.wait_for(draining, PATIENCE)


def test_limit_reads_changes_the_size_only_if_the_event_loop_has_one() -> None:
    pipe = SimpleNamespace(max_size=256 * 1024)
    limit_reads(pipe)
    assert pipe.max_size == MAX_READ
    limit_reads(object())
