"""Shares of memory, which queued changes take and give back."""

from __future__ import annotations

from mcp_ref.lib.shares import QUEUED_COST, CountedQueue, Shares


def test_counted_queue_gives_the_share_of_each_change_back() -> None:
    size = QUEUED_COST + 4
    shares = Shares("changes", 2 * size, 10 * size)
    queue, other = CountedQueue(shares, "caller", 10), CountedQueue(shares, "caller", 10)
    for uri in ("a://", "b://", "b://", "c://"):
        queue.add(("updated", uri))
    assert [*queue] == [("updated", "b://"), ("updated", "c://")] and shares.used == 2 * size
    other.add(("updated", "d://"))
    assert not other, "the first queue has used up the share of the caller"
    assert queue.take() == ("updated", "b://") and shares.used == size
    other.add(("updated", "d://"))
    assert other.take() == ("updated", "d://") and queue.take() == ("updated", "c://")
    assert shares.used == 0 and not shares.by_caller


def test_counted_queue_keeps_at_most_its_length_of_changes() -> None:
    queue = CountedQueue(Shares("changes", 1000, 1000), "caller", 2)
    for name in ("a", "b", "c"):
        queue.add((name, None))
    assert [*queue] == [("b", None), ("c", None)]
