"""The command `bridge`: its options, its servers, and its explanation."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from mcp_ref import Client, RemoteError
from mcp_ref.__main__ import main
from mcp_ref.bridge.explain import explain
from mcp_ref.codec import members_of
from mcp_ref.features.tools import Tool
from mcp_ref.revisions import METHODS, REVISIONS
from tests.cli.exit_codes import exit_code
from tests.forked_python import forked
from tests.server_programs import serving
from tests.settings import ROOT

BRIDGE = forked("-m", "mcp_ref", "bridge")
BACK = forked("-m", "tests.bridge.back")


def entry(revision: str) -> dict[str, object]:
    command, *arguments = [*BACK, revision]
    return {"command": command, "args": arguments, "cwd": str(ROOT)}


async def test_bridge_serves_one_server_over_stdio_in_every_revision() -> None:
    command = [*BRIDGE, "--back-revision", "2024-11-05", "--", *BACK]
    for revision in ("2024-10-07", "2026-07-28"):
        async with Client(command, revision=revision, cwd=ROOT) as client:
            assert (await client.call_tool("echo", {"text": revision})).text == revision


async def test_bridge_serves_the_servers_of_a_file_with_their_names(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"old": entry("2024-11-05"), "new": entry("2026-07-28")}}))
    async with Client([*BRIDGE, "--config", str(file), "--yes"], cwd=ROOT) as client:
        assert (await client.call_tool("old__echo", {"text": "x"})).text == "x"
        assert {"old__add", "new__add"} <= {tool.name for tool in await client.list_tools()}


async def test_bridge_starts_no_server_of_a_foreign_file_without_consent(tmp_path: Path) -> None:
    marker = tmp_path / "started"
    file = tmp_path / "mcp.json"
    command = ["-c", f"open({str(marker)!r}, 'w')"]
    file.write_text(json.dumps({"mcpServers": {"hostile": {"command": sys.executable, "args": command}}}))
    with pytest.raises(RemoteError, match="hostile"):
        async with Client([*BRIDGE, "--config", str(file)], cwd=ROOT, revision="2025-11-25"):
            pass
    assert not marker.exists()


def test_bridge_explains_a_foreign_file_without_a_start_that_nobody_allowed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)  # so the file is not the user's own
    marker, file = tmp_path / "started", tmp_path / "mcp.json"
    words = ["-c", f"open({str(marker)!r}, 'w')"]
    file.write_text(json.dumps({"mcpServers": {"hostile": {"command": sys.executable, "args": words}}}))
    assert main(["bridge", "--explain", "--config", str(file)]) == 3
    assert capsys.readouterr().err.startswith("the revision of hostile is unknown: name it with --back-revision")
    assert "nobody can be asked here" in caplog.text and not marker.exists()


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["bridge"], "the server is missing"),
        (["bridge", "--port", "1", "--", "x"], "--port needs --http"),
        (["bridge", "--revision", "2020-01-01", "--", "x"], "unknown protocol revision"),
        (["bridge", "--config", "x.json", "--", "x"], "the server's command or URL does not work with --config"),
        (["bridge", "--config", "x.json", "--token-env", "TOKEN"], "--token-env does not work with --config"),
        (["bridge", "--clients", "0", "--", "x"], "at least 1"),
        (["bridge", "--timeout", "5", "--", "x"], "unrecognized arguments: --timeout 5"),
    ],
)
def test_bridge_says_the_fault_of_a_wrong_command_line(
    words: list[str], fault: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(*words) == 2 and fault in capsys.readouterr().err


def test_bridge_explain_prints_the_fate_of_each_method_and_lost_field(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bridge", "--explain", "--revision", "2024-11-05", "--back-revision", "2026-07-28"]) == 0
    printed = capsys.readouterr().out
    assert "client 2024-11-05, server 2026-07-28" in printed
    assert "Tool.outputSchema" in printed and "left out" in printed
    assert "<-> subscriptions/listen" in printed
    assert main(["bridge", "--explain", "--revision", "2025-11-25", "--back-revision", "2026-07-28"]) == 0
    own = [line for line in capsys.readouterr().out.splitlines() if "a task of the bridge itself" in line]
    assert len(own) == 8  # the methods of both revisions, and the field `task` of a call
    handling = dict(explain(REVISIONS[-1], REVISIONS[-2]))["roots/list"]
    assert handling == "a request of the server <-> an input request in its result"
    with serving("mcp_ref.demo.server") as program:
        assert main(["bridge", "--explain", program.url]) == 0
    assert capsys.readouterr().out.startswith("client 2026-07-28, server 2026-07-28\n")
    assert main(["bridge", "--explain", "--", *BACK, "2024-11-05"]) == 0  # and leaves no process behind
    assert capsys.readouterr().out.startswith("client 2026-07-28, server 2024-11-05\n")
    assert main(["bridge", "--explain", "--", "no-such-program"]) == 3
    assert capsys.readouterr().err.startswith("the revision of server is unknown: name it with --back-revision")


def test_bridge_explain_says_that_it_waits_for_a_server_that_does_not_respond(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("mcp_ref.cli.bridge.NOTICE_SECONDS", 0.0)
    silent = [sys.executable, "-c", "input()"]  # which ends at the first message
    assert main(["bridge", "--explain", "--", *silent]) == 3
    assert "waiting for the server, at most a minute; with --back-revision" in capsys.readouterr().err


@pytest.mark.parametrize("back", REVISIONS, ids=str)
@pytest.mark.parametrize("front", REVISIONS, ids=str)
def test_explain_has_a_row_for_each_method_and_each_field_that_one_side_lacks(front: object, back: object) -> None:
    assert front in REVISIONS and back in REVISIONS
    rows = {row.name: row.handling for row in explain(front, back)}
    for method in METHODS:
        if any(method.since <= each and (method.until is None or each < method.until) for each in (front, back)):
            assert method.name in rows
    for member in members_of(Tool):
        is_lost = member.availability.covers(back) and not member.availability.covers(front)
        assert (f"Tool.{member.name}" in rows) == is_lost
