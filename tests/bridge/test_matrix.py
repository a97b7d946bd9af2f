"""The matrix of the bridge, in one process. `python3 -m tests.bridge.matrix` plays all cells with real processes."""

from __future__ import annotations

import pytest

from mcp_ref.revisions import REVISIONS, Revision
from tests.bridge.matrix import outcomes


@pytest.mark.parametrize("back", REVISIONS, ids=str)
@pytest.mark.parametrize("front", REVISIONS, ids=str)
async def test_bridge_between_two_revisions_has_the_predicted_outcomes(front: Revision, back: Revision) -> None:
    assert await outcomes(front, back, "memory", "memory") == {}


@pytest.mark.parametrize(
    ("kind", "front", "back"),
    [
        ("stdio-stdio", 5, 1), ("stdio-http", 1, 5), ("stdio-stdio", 0, 4), ("stdio-http", 5, 3),
        ("http-stdio", 5, 0), ("http-http", 5, 4), ("http-stdio", 2, 5), ("http-http", 1, 5), ("http-http", 4, 1),
    ],
)  # fmt: skip
async def test_bridge_over_real_transports_has_the_predicted_outcomes(kind: str, front: int, back: int) -> None:
    front_transport, _, back_transport = kind.partition("-")
    wrong = await outcomes(REVISIONS[front], REVISIONS[back], front_transport, back_transport)  # type: ignore[arg-type]
    assert wrong == {}
