"""The tape: it never makes the conversation wait, and says what is missing."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcp_ref.check.masking import mask
from mcp_ref.check.recording import MAX_CONTENT, ErrorOutput, Event, Frame, Gap, Head, Side, parse_head, read_events
from mcp_ref.recorder import tape as tape_module
from mcp_ref.recorder.streams import GrowingContent, LineStream
from mcp_ref.recorder.tape import Tape, TapeOptions
from tests.settings import PATIENCE


class SlowStream(LineStream):
    """A stream whose first bytes are read only after a signal, as with a disk that hangs."""

    def __init__(self) -> None:
        super().__init__(1)
        self.goes_on = threading.Event()

    def receive(self, at: float, side: Side, data: bytes) -> Iterator[Event]:
        assert self.goes_on.wait(PATIENCE)
        yield from super().receive(at, side, data)


def open_tape(path: Path) -> Tape:
    return Tape(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), Head("stdio"), TapeOptions(str(path)))


@pytest.mark.attack("recording-stops-conversation")
def test_tape_with_a_full_queue_drops_bytes_and_goes_on_at_the_next_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tape_module, "QUEUE_BYTES", 20 + tape_module.OVERHEAD_BYTES)
    path, stream = tmp_path / "a.jsonl", SlowStream()
    tape = open_tape(path)
    for data in (b"first\nstart of", b" a line\nlost\nthe start", b"x" * 21):  # the second and the third do not fit
        tape.put(stream, "client", data)
    stream.goes_on.set()
    tape.put(stream, "client", b"")
    assert tape.close() == ""
    tape.wait_until_written()
    head, *lines = path.read_bytes().splitlines()
    assert parse_head(head)
    events = list(read_events(lines))
    assert [event.content.data for event in events if isinstance(event, Frame)] == [b"first"]
    gaps = [event for event in events if isinstance(event, Gap)]
    assert sum(gap.size for gap in gaps) == len(b"start of a line\nlost\nthe start") + 21
    assert sum(gap.events for gap in gaps) == 3


@pytest.mark.attack("recording-stops-conversation")
def test_tape_behind_a_hanging_disk_holds_few_pieces_even_if_each_is_one_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tape_module, "QUEUE_BYTES", 2000)
    path, stream = tmp_path / "a.jsonl", SlowStream()
    tape = open_tape(path)
    for _ in range(100):
        tape.put(stream, "client", b"x")
    stream.goes_on.set()
    tape.put(stream, "client", b"")
    tape.close()
    tape.wait_until_written()
    lost = [event.size for event in read_events(path.read_bytes().splitlines()[1:]) if isinstance(event, Gap)]
    assert sum(lost) > 80


def test_line_stream_after_a_loss_begins_with_the_next_whole_line() -> None:
    stream = LineStream(1)
    events = list(stream.receive(0.0, "server", b"a\nhal"))
    events += stream.lose(1.0, "server", 2, 30)
    events += [*stream.receive(2.0, "server", b"rest\nb\nc"), *stream.receive(3.0, "server", b"d\n")]
    events += stream.end(4.0, "server")
    shown = [event.content.data if isinstance(event, Frame) else event for event in events]
    assert shown[0] == b"a" and shown[3:5] == [b"b", b"cd"]
    assert [(gap.events, gap.size) for gap in shown if isinstance(gap, Gap)] == [(3, 33), (0, 4)]


@pytest.mark.attack("recording-secrets")
def test_line_stream_of_standard_error_keeps_a_private_key_in_one_event() -> None:
    stream = LineStream(1, is_log=True)
    lines = b"a\n-----BEGIN RSA PRIVATE KEY-----\nhunter2\n-----END RSA PRIVATE KEY-----\nb\n"
    events = [event for line in lines.splitlines(True) for event in stream.receive(0.0, "server", line)]
    shown = [event.content.data for event in map(mask, events) if isinstance(event, ErrorOutput)]
    assert shown == [b"a\n", b"-----BEGIN RSA PRIVATE KEY***\n", b"b\n"]


def test_content_above_the_limit_has_the_digest_of_all_its_bytes() -> None:
    growing = GrowingContent()
    for _ in range(3):
        growing.add(b"a" * MAX_CONTENT)
    content = growing.take()
    assert (content.size, content.sha256) == (3 * MAX_CONTENT, hashlib.sha256(b"a" * 3 * MAX_CONTENT).hexdigest())
