"""Our host with eight servers of one configuration file: six of other projects, and one of ours in each era."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from mcp_ref import Allow, Approval, Host, ServerState
from tests.interop.recorded import Recorded
from tests.settings import ROOT

HELD = 90.0
"""Maximum time of the test, in seconds."""

OWN = """
from mcp_ref import Server
server = Server("own", revisions=[{revision!r}])
@server.tool()
def add(a: int, b: int) -> int:
    return a + b
server.run()
"""


def configuration(peers: Path, recorded: Recorded, folder: Path) -> dict[str, object]:
    """Return the servers of a file, as a user writes it."""
    node, packages = peers / "node_modules/.bin/node", peers / "node_modules/@modelcontextprotocol"
    commands: dict[str, list[str | Path]] = {
        "filesystem": [node, packages / "server-filesystem/dist/index.js", "${workspaceFolder}"],
        "memory": [node, packages / "server-memory/dist/index.js"],
        "everything": [node, packages / "server-everything/dist/index.js", "stdio"],
        "git": [peers / "python-sdk-2/bin/mcp-server-git", "-r", folder],
        "time": [peers / "python-sdk-2/bin/mcp-server-time", "--local-timezone", "UTC"],
        "sqlite": [peers / "python-sdk-1/bin/mcp-server-sqlite", "--db-path", folder / "data.sqlite"],
        "legacy": [sys.executable, "-c", OWN.format(revision="2025-11-25")],
        "modern": [sys.executable, "-c", OWN.format(revision="2026-07-28")],
    }
    entries: dict[str, object] = {}
    for name, words in commands.items():
        command, *args = recorded.command(words)
        env = {"PYTHONPATH": str(ROOT), "MEMORY_FILE_PATH": str(folder / "memory.jsonl")}
        entries[name] = {"command": command, "args": args, "env": env}
    return {"mcpServers": entries}


CALLS: dict[str, tuple[dict[str, object], str]] = {
    "filesystem.read_text_file": ({"path": "a.txt"}, "one"),
    "memory.read_graph": ({}, "entities"),
    "everything.echo": ({"message": "hello"}, "hello"),
    "git.git_status": ({"repo_path": ""}, "a.txt"),
    "time.convert_time": ({"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}, "T21:00:00"),
    "sqlite.read_query": ({"query": "SELECT name FROM people"}, "Ada"),
    "legacy.add": ({"a": 1, "b": 2}, "3"),
    "modern.add": ({"a": 1, "b": 2}, "3"),
}
"""A call of each server, and a part of the text of its result."""


async def use(host: Host, folder: Path) -> None:
    """Call a tool of each server, all at the same time."""

    async def call(name: str, arguments: dict[str, object], part: str) -> None:
        places = {"path": str(folder / "a.txt"), "repo_path": str(folder)}
        arguments |= {key: value for key, value in places.items() if key in arguments}
        assert part in (await host.call_tool(name, arguments, origin="model", wait=20)).text, name

    await asyncio.gather(*(call(name, dict(arguments), part) for name, (arguments, part) in CALLS.items()))


def test_host_with_a_file_of_eight_servers_survives_the_death_of_each(
    peers: Path, recorded: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "project"
    subprocess.run(["git", "init", "-q", folder], check=True)
    (folder / "a.txt").write_text("one\n")
    with sqlite3.connect(folder / "data.sqlite") as database:
        database.execute("CREATE TABLE people AS SELECT 'Ada' AS name")
    database.close()
    path = folder / "mcp.json"
    path.write_text(json.dumps(configuration(peers, recorded, folder)))
    monkeypatch.chdir(folder)
    asked: list[Approval] = []

    async def approve(request: Approval) -> Allow:
        asked.append(request)
        return Allow("run")

    async def test() -> None:
        async with asyncio.timeout(HELD), Host("mcp.json", approve=approve, startup_wait=40) as host:
            states = {status.name: status for status in host.status()}
            assert {name: status.last_error for name, status in states.items() if status.tools == 0} == {}
            assert {name: status.era for name, status in states.items() if status.era == "modern"} == {
                "modern": "modern", "git": "modern", "time": "modern",
            }  # fmt: skip
            listed = await host.list_tools()
            assert len({tool.model_name for tool in listed}) == len(listed) > 50
            assert sorted(request.server for request in asked if request.kind == "start") == sorted(states)
            await use(host, folder)
            calls = [request for request in asked if request.kind == "call"]
            assert len(calls) == len(CALLS)
            for pid in recorded.pids:
                os.kill(pid, signal.SIGKILL)
            while any(status.state is ServerState.READY and not status.restarts for status in host.status()):
                await asyncio.sleep(0.05)
            await use(host, folder)
            assert {status.restarts for status in host.status()} == {1}
            assert len([request for request in asked if request.kind == "call"]) == len(CALLS)

    asyncio.run(test())
    assert recorded.alive() == []
