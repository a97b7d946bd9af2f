"""Our server against other projects' clients, and our client against their servers: see tests/installed_peers.py."""

from pathlib import Path

import pytest

from tests.installed_peers import peers
from tests.interop.recorded import Recorded

__all__ = ["peers"]


@pytest.fixture(scope="module")
def shared_record(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """Return the record of servers that all tests of a file use. Those that listen can be shared by many clients."""
    return Recorded(tmp_path_factory.mktemp("shared"))


@pytest.fixture
def recorded(tmp_path: Path) -> Recorded:
    return Recorded(tmp_path)
