"""The list of waits in tests/waits.py is complete, and has no stale entry."""

from __future__ import annotations

from tests.waits import WAITS, find_waits


def test_each_wait_is_on_the_list_with_the_reason_why_it_ends() -> None:
    found, listed = find_waits(), WAITS.keys()
    new, stale = found - listed, listed - found
    assert not new, f"add to tests/waits.py, with the reason why they end: {new}"
    assert not stale, f"no longer in the package: {stale}"
    assert all(sentence.endswith(".") for sentence in WAITS.values())
