"""Server-sent events, by the rules and examples of the HTML standard."""

from __future__ import annotations

import pytest

from mcp_ref.lib.http.sse import Event, EventParser, EventTooLarge, encode_comment, encode_event


def parse(*chunks: bytes) -> list[Event]:
    parser = EventParser()
    return [event for chunk in chunks for event in parser.feed(chunk)]


def data_of(*chunks: bytes) -> list[str]:
    return [event.data for event in parse(*chunks)]


def test_the_data_of_several_lines_is_joined_by_line_feeds() -> None:
    assert data_of(b"data: YHOO\ndata: +2\ndata: 10\n\n") == ["YHOO\n+2\n10"]


def test_the_standards_example_of_ids_and_a_comment() -> None:
    stream = b": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n"
    assert parse(stream) == [Event("first event", id="1"), Event("second event"), Event(" third event")]


def test_empty_data_is_an_event_and_no_data_is_none() -> None:
    assert data_of(b"data\n\ndata\ndata\n\ndata:") == ["", "\n"]
    assert data_of(b"event: x\n\n") == []


def test_a_space_after_the_colon_is_not_data_but_a_second_one_is() -> None:
    assert data_of(b"data:test\n\ndata: test\n\ndata:  test\n\n") == ["test", "test", " test"]


def test_events_have_their_type_and_the_next_one_does_not_inherit_it() -> None:
    assert [e.event for e in parse(b"event: add\ndata: 1\n\ndata: 2\n\nevent:\ndata: 3\n\n")] == [
        "add",
        "message",
        "message",
    ]


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_every_line_end_at_every_cut_gives_the_same_events(end: bytes) -> None:
    stream = "\ufeffid: 7\ndata: ä\u2028é\ndata: 2\n\n: c\nevent: e\ndata: 3\n\n".encode().replace(b"\n", end)
    expected = [Event("ä\u2028é\n2", "message", "7"), Event("3", "e", "7")]
    for cut in range(len(stream) + 1):
        assert parse(stream[:cut], stream[cut:]) == expected, cut
    assert parse(*(stream[at : at + 1] for at in range(len(stream)))) == expected


def test_line_ends_may_be_mixed() -> None:
    assert data_of(b"data: 1\r\ndata: 2\rdata: 3\n\r\ndata: 4\r\r") == ["1\n2\n3", "4"]


def test_an_event_that_a_carriage_return_ends_does_not_wait_for_what_follows() -> None:
    parser = EventParser()
    assert [e.data for e in parser.feed(b"data: 1\r\n\r")] == ["1"]
    assert parser.feed(b"") == []
    assert [e.data for e in parser.feed(b"\ndata: 2\n\n")] == ["2"]


@pytest.mark.parametrize("character", ["\u2028", "\u2029", "\u0085", "\v", "\f", "\x1c", "\x1d", "\x1e"])
def test_what_python_takes_for_line_ends_is_data(character: str) -> None:
    text = f"a{character}b"
    assert data_of(f"data: {text}\n\n".encode()) == [text]
    assert data_of(encode_event(text.encode())) == [text]


def test_a_byte_order_mark_is_skipped_once_and_only_at_the_start() -> None:
    mark = "\ufeff".encode()
    assert data_of(mark + b"data: 1\n\n") == ["1"]
    assert data_of(mark + mark + b"data: 1\n\ndata: 2\n\n") == ["2"]
    assert data_of(b"data: 1\n\n" + mark + b"data: 2\n\n") == ["1"]


def test_an_unfinished_event_is_not_given() -> None:
    assert data_of(b"data: 1\n\ndata: 2\n") == ["1"]


def test_an_id_stays_until_another_one_comes_and_one_with_nul_does_not_count() -> None:
    parser = EventParser()
    events = parser.feed(b"id: 1\ndata: a\n\ndata: b\n\nid: 2\0\ndata: c\n\nid\ndata: d\n\n")
    assert [e.id for e in events] == ["1", "1", "1", ""]
    assert parser.last_event_id == ""


def test_an_id_counts_when_its_event_has_ended_also_without_data() -> None:
    parser = EventParser()
    assert parser.feed(b"id: 1\ndata: a\n\nid: 2\n") != []
    assert parser.last_event_id == "1"
    assert parser.feed(b"\n") == []
    assert parser.last_event_id == "2"


@pytest.mark.parametrize(
    ("value", "retry"),
    [("1500", 1500), ("0", 0), ("", None), ("1.5", None), ("-1", None), ("٣", None), ("9" * 5000, None)],
)
def test_retry_is_taken_where_it_is_digits_and_nothing_else(value: str, retry: int | None) -> None:
    parser = EventParser()
    parser.feed(f"retry: {value}\n".encode())
    assert parser.retry == retry


def test_unknown_fields_are_skipped() -> None:
    assert data_of(b"Data: 1\n data: 2\nfoo: 3\ndata: 4\n\n") == ["4"]


def test_bytes_that_are_no_utf8_are_replaced_also_at_a_cut() -> None:
    assert data_of(b"data: \xc3", b"\n\n") == ["\ufffd"]
    assert data_of(b"data: \xc3", b"\xa4\n\n") == ["ä"]


def test_an_event_has_a_bound_however_it_comes() -> None:
    assert len(EventParser(100).feed(b"data: " + b"x" * 90 + b"\n\n")) == 1
    for chunk in (b"data: " + b"x" * 100 + b"\n\n", b"x" * 101, b"data: 123456789\n" * 8, b": " + b"x" * 100 + b"\n"):
        with pytest.raises(EventTooLarge):
            EventParser(100).feed(chunk)
    parser = EventParser(100)
    with pytest.raises(EventTooLarge):
        for _ in range(101):
            parser.feed(b"x")


def test_many_events_each_within_the_bound_are_fine() -> None:
    parser = EventParser(100)
    assert sum(len(parser.feed(b"data: 1\n\n" * 50)) for _ in range(50)) == 2500


def test_a_long_line_in_small_pieces_takes_time_in_proportion() -> None:
    parser = EventParser()
    parser.feed(b"data: ")
    for _ in range(50_000):  # each piece looked at once: scanning all that came before would take minutes
        parser.feed(b"x" * 200)
    assert len(parser.feed(b"\n\n")[0].data) == 10_000_000


def test_an_event_is_written_with_what_it_has() -> None:
    assert encode_event(b"{}") == b"data: {}\n\n"
    assert encode_event(b"", id="1.2") == b"id: 1.2\ndata: \n\n"
    assert encode_event(b"1", id="7", event="endpoint", retry=10) == b"id: 7\nevent: endpoint\nretry: 10\ndata: 1\n\n"
    assert encode_comment() == b": \n\n"
    assert encode_comment("ping") == b": ping\n\n"


@pytest.mark.parametrize("data", ["", "a", "a\nb", "\n", " a", ": a", "data: a", "ä\n\nö", "id: 3\n\n"])
def test_what_is_written_is_read_back(data: str) -> None:
    assert parse(encode_event(data.encode(), id="5", event="e")) == [Event(data, "e", "5")]


def test_carriage_returns_in_data_become_line_feeds() -> None:
    assert data_of(encode_event(b"a\rb\r\nc")) == ["a\nb\nc"]


@pytest.mark.parametrize("value", ["1\n", "1\r", "1\ndata: forged", "\0"])
def test_nothing_can_be_smuggled_into_a_field(value: str) -> None:
    with pytest.raises(ValueError, match="one line"):
        encode_event(b"", id=value)
    with pytest.raises(ValueError, match="one line"):
        encode_event(b"", event=value)
    with pytest.raises(ValueError, match="one line"):
        encode_comment(value)
