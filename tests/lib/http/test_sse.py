"""Tests of lib/http/sse.py, by the rules and examples of the HTML standard."""

from __future__ import annotations

import tracemalloc

import pytest

from mcp_ref.lib.http.sse import Event, EventParser, EventTooLarge, encode_comment, encode_event


def parse(*chunks: bytes) -> list[Event]:
    parser = EventParser()
    return [event for chunk in chunks for event in parser.feed(chunk)]


def data_of(*chunks: bytes) -> list[str]:
    return [event.data.decode("utf-8", "replace") for event in parse(*chunks)]


MARK = "\ufeff".encode()


@pytest.mark.parametrize(
    ("stream", "data"),
    [
        pytest.param(b"data: YHOO\ndata: +2\ndata: 10\n\n", ["YHOO\n+2\n10"], id="lines are joined by line feeds"),
        pytest.param(b"data\n\ndata\ndata\n\ndata:", ["", "\n"], id="empty data is an event"),
        pytest.param(b"event: x\n\n", [], id="missing data is no event"),
        pytest.param(b"data:test\n\ndata: test\n\ndata:  test\n\n", ["test", "test", " test"], id="after one space"),
        pytest.param(b"data: 1\r\ndata: 2\rdata: 3\n\r\ndata: 4\r\r", ["1\n2\n3", "4"], id="mixed line ends"),
        pytest.param(MARK + b"data: 1\n\n", ["1"], id="a byte order mark at the start is skipped"),
        pytest.param(MARK + MARK + b"data: 1\n\ndata: 2\n\n", ["2"], id="a second byte order mark is not"),
        pytest.param(b"\n" + MARK + b"data: 1\n\n", [], id="nor is one after an empty line"),
        pytest.param(b"data: 1\n\n" + MARK + b"data: 2\n\n", ["1"], id="a later byte order mark is not"),
        pytest.param(b"data: 1\n\ndata: 2\n", ["1"], id="an unfinished event is not given"),
        pytest.param(b"Data: 1\n data: 2\nfoo: 3\ndata: 4\n\n", ["4"], id="unknown fields are skipped"),
        pytest.param(encode_event(b"a\rb\r\nc"), ["a\nb\nc"], id="carriage returns become line feeds"),
    ],
)
def test_event_parser_gives_the_data(stream: bytes, data: list[str]) -> None:
    assert data_of(stream) == data


def test_ids_and_comments_follow_the_example_of_the_standard() -> None:
    stream = b": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n"
    assert parse(stream) == [Event(b"first event", id="1"), Event(b"second event"), Event(b" third event")]


def test_event_type_is_not_inherited_by_the_next_event() -> None:
    events = parse(b"event: add\ndata: 1\n\ndata: 2\n\nevent:\ndata: 3\n\n")
    assert [each.event for each in events] == ["add", "message", "message"]


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_event_parser_gives_the_same_events_for_every_line_end_and_cut(end: bytes) -> None:
    stream = "\ufeffid: 7\ndata: ä\u2028é\ndata: 2\n\n: c\nevent: e\ndata: 3\n\n".encode().replace(b"\n", end)
    expected = [Event("ä\u2028é\n2".encode(), "message", "7"), Event(b"3", "e", "7")]
    for cut in range(len(stream) + 1):
        assert parse(stream[:cut], stream[cut:]) == expected, cut
    assert parse(*(stream[at : at + 1] for at in range(len(stream)))) == expected


def test_event_that_ends_in_a_carriage_return_is_given_at_once() -> None:
    parser = EventParser()
    assert [e.data for e in parser.feed(b"data: 1\r\n\r")] == [b"1"]
    assert parser.feed(b"") == []
    assert [e.data for e in parser.feed(b"\ndata: 2\n\n")] == [b"2"]
    assert data_of(b"data: 3\r", b"\n", b"\n") == ["3"]


@pytest.mark.parametrize("character", ["\u2028", "\u2029", "\u0085", "\v", "\f", "\x1c", "\x1d", "\x1e"])
def test_unicode_line_separators_are_data(character: str) -> None:
    text = f"a{character}b"
    assert data_of(f"data: {text}\n\n".encode()) == [text]
    assert data_of(encode_event(text.encode())) == [text]


def test_event_id_stays_until_the_next_id_and_an_id_with_nul_is_ignored() -> None:
    parser = EventParser()
    events = parser.feed(b"id: 1\ndata: a\n\ndata: b\n\nid: 2\0\ndata: c\n\nid\ndata: d\n\n")
    assert [e.id for e in events] == ["1", "1", "1", ""]
    assert parser.last_event_id == ""


def test_last_event_id_is_set_by_a_finished_event_even_without_data() -> None:
    parser = EventParser()
    assert parser.feed(b"id: 1\ndata: a\n\nid: 2\n") != []
    assert parser.last_event_id == "1"
    assert parser.feed(b"\n") == []
    assert parser.last_event_id == "2"


@pytest.mark.parametrize(
    ("value", "retry"),
    [("1500", 1500), ("0", 0), ("9" * 15, 10**15 - 1), ("9" * 16, None)]
    + [(invalid, None) for invalid in ("", "1.5", "-1", "٣", "9" * 5000)],
)
def test_retry_accepts_digits_only(value: str, retry: int | None) -> None:
    parser = EventParser()
    parser.feed(f"retry: {value}\n".encode())
    assert parser.retry == retry


def test_invalid_utf8_is_replaced_at_every_cut() -> None:
    assert data_of(b"data: \xc3", b"\n\n") == ["\ufffd"]
    assert data_of(b"data: \xc3", b"\xa4\n\n") == ["ä"]
    assert parse(b"event: \xc3\nid: \xc3\ndata\n\n") == [Event(b"", "\ufffd", "\ufffd")]


def test_event_over_max_event_is_an_error_for_every_cut() -> None:
    assert len(EventParser(100).feed((b"data: " + b"x" * 94 + b"\n\n") * 2)) == 2
    for chunk in (b"data: " + b"x" * 100 + b"\n\n", b"x" * 101, b"data: 123456789\n" * 8, b": " + b"x" * 100 + b"\n"):
        with pytest.raises(EventTooLarge):
            EventParser(100).feed(chunk)
    parser = EventParser(100)
    with pytest.raises(EventTooLarge):
        for _ in range(101):
            parser.feed(b"x")


def test_events_within_max_event_are_unlimited_in_number() -> None:
    parser = EventParser(100)
    assert sum(len(parser.feed(b"data: 1\n\n" * 50)) for _ in range(50)) == 2500


def test_long_line_in_small_pieces_takes_linear_time() -> None:
    parser = EventParser()
    parser.feed(b"data: ")
    for _ in range(50_000):  # scanning the earlier pieces again and again would take minutes
        parser.feed(b"x" * 200)
    assert len(parser.feed(b"\n\n")[0].data) == 10_000_000


def test_encode_event_writes_the_given_fields() -> None:
    assert encode_event(b"{}") == b"data: {}\n\n"
    assert encode_event(b"", id="1.2") == b"id: 1.2\ndata: \n\n"
    assert encode_event(b"1", id="7", event="endpoint", retry=10) == b"id: 7\nevent: endpoint\nretry: 10\ndata: 1\n\n"
    assert encode_comment() == b": \n\n"
    assert encode_comment("ping") == b": ping\n\n"


@pytest.mark.parametrize("data", ["", "a", "a\nb", "\n", " a", ": a", "data: a", "ä\n\nö", "id: 3\n\n"])
def test_encoded_event_is_parsed_back(data: str) -> None:
    assert parse(encode_event(data.encode(), id="5", event="e")) == [Event(data.encode(), "e", "5")]


@pytest.mark.parametrize("value", ["1\n", "1\r", "1\ndata: forged", "\0"])
def test_encode_event_refuses_line_breaks_and_nul_in_fields(value: str) -> None:
    with pytest.raises(ValueError, match="one line"):
        encode_event(b"", id=value)
    with pytest.raises(ValueError, match="one line"):
        encode_event(b"", event=value)
    with pytest.raises(ValueError, match="one line"):
        encode_comment(value)


@pytest.mark.attack("event-of-many-lines")
@pytest.mark.parametrize("line", [b"data:\n", b"data\n", b"data: " + b"\xc3" * 30 + "😀\n".encode(), b"data: x"])
def test_event_of_many_data_lines_takes_three_times_its_size(line: bytes) -> None:
    size, piece = 200_000, line * (50_000 // len(line))
    parser = EventParser()
    tracemalloc.start()
    try:
        for _ in range(size // len(piece)):
            assert parser.feed(piece) == []
        parser.feed(b"\n\n")
        assert tracemalloc.get_traced_memory()[1] <= 3 * size
    finally:
        tracemalloc.stop()


def test_event_of_many_data_lines_is_not_copied_for_each_line() -> None:
    parser = EventParser()
    parser.feed(b"data: a\ndata: b\n")
    data = parser._data
    parser.feed(b"data: c\n")
    assert parser._data is data
