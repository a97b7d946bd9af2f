"""The folder of the peers: MCP clients, servers and tests of other projects.

They are not part of this package: `.ci/peers/install PYTHON` puts them, at pinned versions, into a folder outside the
tree and prints its name, which goes into the environment variable MCP_REF_PEERS. Without it the tests that need them
skip; in continuous integration (CI is set) they fail.
"""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def peers() -> Path:
    """Return the folder in which the peers are installed."""
    folder = os.environ.get("MCP_REF_PEERS")
    if not folder and os.environ.get("CI"):
        pytest.fail("MCP_REF_PEERS is not set: the peers were not installed")
    if not folder:
        pytest.skip("no peers: MCP_REF_PEERS is not set (.ci/peers/install PYTHON installs them and prints it)")
    return Path(folder)
