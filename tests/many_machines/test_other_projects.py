"""Four nodes behind nginx, for clients of other projects and the official conformance suite: as good as one node."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from run import HERE, NODES, Cluster

from tests.many_machines.conftest import need, skip
from tests.settings import ROOT

SCRIPTS = ROOT / "tests" / "interop" / "peers"
SECONDS = 100.0

CLIENTS = {
    "python-sdk-1": ("python-sdk-1/bin/python", "python_sdk_1.py", []),
    "python-sdk-2": ("python-sdk-2/bin/python", "python_sdk_2.py", ["legacy"]),
    "python-sdk-2-auto": ("python-sdk-2/bin/python", "python_sdk_2.py", ["auto"]),
    "typescript-sdk-1": ("node_modules/.bin/node", "typescript_sdk_1.mjs", []),
    "typescript-sdk-2": ("node_modules/.bin/node", "typescript_sdk_2.mjs", ["legacy"]),
    "typescript-sdk-2-auto": ("node_modules/.bin/node", "typescript_sdk_2.mjs", ["auto"]),
}
"""Name -> the program, its script, and the era: those of tests/interop/test_foreign_clients.py."""

COUNTERS = ("kept", "passing")
"""The parts of a report that count the reads of one process."""

SUITE = {"2025-11-25": 83, "2026-07-28": 196}
"""Revision -> the number of checks of the official suite, all of which a single node passes."""


class Everything(Cluster):
    """Four nodes of examples/everything.py."""

    async def start_node(self, name: str) -> None:
        self._environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(HERE)])
        program = str(Path(__file__).with_name("everything_node.py"))
        await self.start(name, self.ports[name], sys.executable, program, node=name)


@pytest.fixture
def peers() -> Path:
    """Return the folder of the peers, or skip."""
    need("nginx", "redis-server", "redis", "psycopg")
    if "MCP_REF_PEERS" not in os.environ:
        skip("MCP_REF_PEERS does not name a folder with the programs of other projects")
    return Path(os.environ["MCP_REF_PEERS"])


async def run(*command: str | Path) -> str:
    """Run a program, and return its output."""
    process = await asyncio.create_subprocess_exec(
        *command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    async with asyncio.timeout(SECONDS):
        said, errors = await process.communicate()
    assert process.returncode == 0, (said[-2000:], errors[-2000:])
    return said.decode()


async def test_clients_of_other_projects_report_the_same_of_four_nodes_and_of_one(peers: Path, tmp_path: Path) -> None:
    async with Everything(tmp_path) as cluster:

        async def report(client: str, url: str) -> dict[str, Any]:
            program, script, arguments = CLIENTS[client]
            found: dict[str, Any] = json.loads(await run(peers / program, SCRIPTS / script, *arguments, url))
            return {name: value for name, value in found.items() if name not in COUNTERS}

        for client in CLIENTS:
            one = await report(client, f"http://127.0.0.1:{cluster.ports[NODES[0]]}/mcp")
            assert await report(client, cluster.url) == one, client


@pytest.mark.parametrize("revision", SUITE)
async def test_official_suite_passes_on_four_nodes(revision: str, peers: Path, tmp_path: Path) -> None:
    programs = peers / "node_modules/.bin"
    async with Everything(tmp_path) as cluster:
        suite = (programs / "node", programs / "conformance", "server", "--url", cluster.url)
        command = (*suite, "--requirements", revision, "--output-dir", tmp_path / "results")
        try:
            said = await run(*command)
        except AssertionError as failure:
            # The suite waits 500 ms for some answers, which a busy machine can miss. A fault of ours fails again.
            print(failure)
            said = await run(*command)
    assert f"Total: {SUITE[revision]} passed, 0 failed" in said
