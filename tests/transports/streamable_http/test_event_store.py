"""The event store in memory: the events that it replays and drops."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from mcp_ref.transports.streamable_http.event_store import EVENT_COST, Event, MemoryEventStore, number_of, stream_of
from mcp_ref.transports.streamable_http.sqlite_store import SqliteEventStore


def memory(*, sessions: str = "st", **limits: Any) -> MemoryEventStore:
    """Return a store with a few sessions."""
    store = MemoryEventStore(**limits)
    for session in sessions:
        store.add_session(session, b"{}", None)
    return store


@pytest.mark.spec(
    "2025-03-26..2025-06-18/basic/transports#resumability-and-redelivery-3",
    "2025-11-25/basic/transports#resumability-and-redelivery-4",
)
def test_store_after_returns_the_later_events_of_the_same_stream() -> None:
    store = memory()
    ids = [store.append("s", stream, data) for stream, data in [("a", b"1"), ("b", b"2"), ("a", b""), ("a", b"4")]]
    assert store.events_after("s", ids[0]) == [Event(ids[2], b""), Event(ids[3], b"4")]
    assert store.events_after("s", ids[2]) == [Event(ids[3], b"4")]
    assert store.events_after("s", ids[3]) == []
    assert store.events_after("s", ids[1]) == []


@pytest.mark.spec(
    "2025-03-26..2025-11-25/basic/transports#resumability-and-redelivery-1",
    "2025-11-25/basic/transports#resumability-and-redelivery-2",
)
def test_ids_are_unique_over_all_streams_of_all_sessions_and_name_their_stream() -> None:
    store = memory()
    pairs = [(session, stream) for session in "st" for stream in ("a-1", "get")]
    made = [(stream, store.append(session, stream, b"x")) for session, stream in pairs * 2]
    assert len({id for _, id in made}) == len(made)
    assert all(stream_of(id) == stream for stream, id in made)
    assert len({id.rpartition(".")[2] for _, id in made}) == len(made)  # also without the name of the stream


def test_event_id_that_the_store_did_not_assign_is_unknown() -> None:
    store = memory()
    id = store.append("s", "a", b"1")
    number = id.rpartition(".")[2]
    late = int(number) + 1
    forms = [
        *("", ".", "a", "a.", "N", ".N", "b.N", "a.N.", "x.a.N", "a.-N", "a.+N", "a. N", "a.\u0661", "a.1e0"),
        "get.0",
    ]
    forms += [f"a.{late}", f"a.0{late}", "a." + "9" * 18, "a." + "9" * 5000]
    for wrong in (form.replace("N", number) for form in forms):
        assert store.events_after("s", wrong) is None, wrong
    assert store.events_after("t", id) is None
    assert store.events_after("u", id) is None
    assert store.events_after("s", id) == []


def test_deleted_session_has_no_events() -> None:
    store = memory()
    gone, kept = store.append("s", "a", b"1"), store.append("t", "a", b"2")
    store.delete_session("s")
    store.delete_session("s")
    store.delete_session("never there")
    assert store.events_after("s", gone) is None
    assert store.events_after("t", kept) == []


def test_memory_store_keeps_the_newest_events_of_a_session_up_to_the_maximum() -> None:
    store = memory(max_events=3)
    other = store.append("t", "a", b"")
    ids = [store.append("s", "a", b"%d" % n) for n in range(5)]
    assert store.events_after("s", ids[0]) is None  # the client has not seen the next one, and that is gone too
    assert store.events_after("s", ids[1]) == [
        Event(ids[n], b"%d" % n) for n in (2, 3, 4)
    ]  # dropped, but its successors are kept
    assert store.events_after("s", ids[4]) == []
    assert store.events_after("t", other) == []


def test_dropped_event_of_one_stream_leaves_the_other_streams_resumable() -> None:
    store = memory(max_events=3)
    quiet = store.append("s", "quiet", b"q")
    loud = [store.append("s", "loud", b"%d" % n) for n in range(5)]
    assert store.events_after("s", quiet) == []
    assert store.events_after("s", loud[0]) is None


def test_memory_store_at_its_maximum_size_drops_events_of_the_longest_quiet_session_first() -> None:
    store = memory(max_bytes=3 * (30 + EVENT_COST))
    quiet = [store.append("t", "a", b"x" * 30) for _ in "12"]
    ids = [store.append("s", "a", b"x" * 30) for _ in "12"]
    assert store.events_after("t", quiet[0]) == [Event(quiet[1], b"x" * 30)]
    ids.append(store.append("s", "a", b"x" * 30))
    assert store.events_after("t", quiet[0]) is None
    assert store.events_after("t", quiet[1]) == []
    assert store.events_after("s", ids[0]) == [Event(ids[1], b"x" * 30), Event(ids[2], b"x" * 30)]
    store.delete_session("s")  # its bytes are free again
    more = [store.append("t", "a", b"x" * 30) for _ in "123"]
    assert store.events_after("t", more[0]) == [Event(more[1], b"x" * 30), Event(more[2], b"x" * 30)]


def test_event_larger_than_the_maximum_size_is_not_kept() -> None:
    store = memory(max_bytes=100 + EVENT_COST)
    first = store.append("s", "a", b"x")
    large = store.append("s", "a", b"x" * 101)
    assert store.events_after("s", first) is None
    assert store.events_after("s", large) == []
    last = store.append("s", "a", b"y")
    assert store.events_after("s", large) == [Event(last, b"y")]


def test_memory_store_limits_the_bytes_of_one_session() -> None:
    store = memory(max_session_bytes=2 * (30 + EVENT_COST))
    other = store.append("t", "a", b"x" * 30)
    ids = [store.append("s", "a", b"x" * 30) for _ in "1234"]
    assert store.events_after("s", ids[0]) is None
    assert store.events_after("s", ids[1]) == [Event(ids[2], b"x" * 30), Event(ids[3], b"x" * 30)]
    assert store.events_after("t", other) == []


@pytest.mark.attack("lost-events")
@pytest.mark.parametrize("sessions", [1, 3])
def test_caller_with_more_than_an_equal_share_of_a_full_store_loses_its_own_events(sessions: int) -> None:
    store = MemoryEventStore(max_bytes=10 * (30 + EVENT_COST))
    store.add_session("quiet", b"{}", None, "one")
    quiet = [store.append("quiet", "a", b"x" * 30) for _ in range(4)]
    for number in range(sessions):
        store.add_session(f"loud{number}", b"{}", None, "other")
    loud = [store.append(f"loud{number % sessions}", f"{number % sessions}", b"x" * 30) for number in range(50)]
    assert len(store.events_after("quiet", quiet[0]) or ()) == 3
    assert sum(len(store.events_from(f"loud{number}", f"{number}.0")) for number in range(sessions)) == 6
    assert store.events_after(f"loud{49 % sessions}", loud[-1]) == []  # the newest is there


@pytest.mark.attack("lost-events")
def test_heaviest_callers_lose_events_first_and_each_keeps_its_share() -> None:
    event, store = 30 + EVENT_COST, MemoryEventStore(max_bytes=12 * (30 + EVENT_COST))
    counts = {"heavy": 7, "middle": 5, "light": 0}
    for caller, count in counts.items():
        store.add_session(caller, b"{}", None, caller)
        for _ in range(count):
            store.append(caller, "a", b"x" * 30)

    def kept() -> list[int]:
        return [len(store.events_from(caller, "a.0")) for caller in counts]

    for expected in ([6, 5, 1], [5, 5, 2], [4, 5, 3], [4, 4, 4], [4, 4, 4]):
        store.append("light", "a", b"x" * 30)
        assert kept() == expected
    store.append("middle", "a", b"x" * (30 + 5 * event))  # more than its share: its own events make room
    assert kept() == [4, 0, 4]
    store.delete_session("heavy")
    store.append("middle", "a", b"x" * (30 + 5 * event))
    assert len(store.events_from("middle", "a.0")) == 1  # its share is larger now


def test_memory_store_counts_the_objects_around_small_events() -> None:
    store = MemoryEventStore(max_bytes=100 * EVENT_COST)
    for number in range(200):
        store.add_session(str(number), b"{}", None)
        store.append(str(number), "a", b"")
    assert sum(len(stored.events) for stored in store._sessions.values()) == 100


def test_memory_store_that_keeps_no_events_still_assigns_ids() -> None:
    store = memory(max_events=0)
    first = store.append("s", "a", b"x")
    second = store.append("s", "a", b"y")
    assert store.events_after("s", first) is None
    assert store.events_after("s", second) == []


def test_memory_store_drops_expired_events_of_quiet_sessions_too() -> None:
    now = 1000.0
    store = memory(max_age=60.0, clock=lambda: now)
    ids = [store.append("s", "a", b"1"), store.append("s", "a", b"2")]
    quiet = [store.append("t", "a", b"1"), store.append("t", "a", b"2")]
    now += 60.0
    ids.append(store.append("s", "a", b"3"))
    assert store.events_after("s", ids[0]) == [Event(ids[1], b"2"), Event(ids[2], b"3")]
    assert store.events_after("t", quiet[0]) == [Event(quiet[1], b"2")]
    now += 0.5
    ids.append(store.append("s", "a", b"4"))
    assert store.events_after("s", ids[0]) is None and store.events_after("t", quiet[0]) is None
    assert store.events_after("s", ids[1]) == [Event(ids[2], b"3"), Event(ids[3], b"4")]


def test_memory_store_does_not_grow_with_the_number_of_streams() -> None:
    store = memory(max_events=10)

    def use(first: int) -> None:
        for n in range(first, first + 5_000):
            store.append("s", f"stream-{n}", b"x")

    use(0)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        use(5_000)
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown < 200_000


@pytest.mark.parametrize("kind", [MemoryEventStore, partial(SqliteEventStore, "never-opened.db")])
def test_store_with_an_unknown_limit_is_a_type_error(kind: Callable[..., object]) -> None:
    with pytest.raises(TypeError, match=r"has the limits max_events, .*, not max_event$"):
        kind(max_event=3)


@pytest.mark.parametrize(
    ("event_id", "number"),
    [
        ("a.b.7", 7),
        ("9" * 18, int("9" * 18)),
        ("a." + "9" * 19, None),
        ("a.", None),
        ("a.-1", None),
        ("a.\u0663", None),
    ],
)
def test_number_of_an_event_id_has_at_most_18_digits(event_id: str, number: int | None) -> None:
    assert number_of(event_id) == number
