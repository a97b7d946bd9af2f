"""The list of waits in tests/waits.py is complete, and has no stale entry."""

from __future__ import annotations

from tests.waits import WAITS, find_waits


def test_each_wait_is_on_the_list_with_the_reason_why_it_ends() -> None:
    found, listed = find_waits(), WAITS.keys()
    assert not found - listed, "add these waits to tests/waits.py, and say why they end"
    assert not listed - found, "these waits are no longer in the package"
    assert all(sentence.endswith(".") for sentence in WAITS.values())
