"""Our server against other people's clients, and our client against other people's servers: see tests/peers.py."""

from pathlib import Path

import pytest

from tests.interop.recorded import Recorded
from tests.peers import peers

__all__ = ["peers"]


@pytest.fixture
def recorded(tmp_path: Path) -> Recorded:
    return Recorded(tmp_path)
