"""A trace that writes a recording: each message of a program, with the side that sent it."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from mcp_ref import Client, Server
from mcp_ref.check.recording import Frame, parse_head, read_events
from mcp_ref.recorder.exchanges import Sent, messages_of
from mcp_ref.transports import recorded
from mcp_ref.transports.recorded import open_recording
from mcp_ref.transports.system import trace_from_environment
from tests.forked_python import forked
from tests.settings import HOME


def conversation(path: Path) -> list[Sent]:
    head, *lines = path.read_bytes().splitlines()
    assert parse_head(head).transport == "messages"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", parse_head(head).started)
    assert all(isinstance(event, Frame) and event.connection == 1 for event in read_events(lines))
    return list(messages_of(read_events(lines)))


async def test_mcp_ref_trace_with_a_file_name_records_which_side_sent_each_message_of_a_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, path = Server("s"), tmp_path / "a.jsonl"

    @server.tool()
    def login(password: str) -> str:
        return "welcome"

    monkeypatch.setenv("MCP_REF_TRACE", str(path))
    async with Client(server, revision="2025-11-25") as client:
        await client.call_tool("login", {"password": "hunter2"})
    sent = [(each.sender, each.value.get("method", "response")) for each in conversation(path)]
    assert sent[:3] == [("client", "initialize"), ("server", "response"), ("client", "notifications/initialized")]
    assert ("client", "tools/call") in sent and sent[-1] == ("server", "response")
    assert "hunter2" not in path.read_text() and path.stat().st_mode & 0o777 == 0o600


def test_mcp_ref_trace_with_a_file_that_cannot_be_written_leaves_the_program_without_a_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "gone" / "a.jsonl"
    monkeypatch.setenv("MCP_REF_TRACE", str(path))
    assert trace_from_environment("server") is None
    assert caplog.messages == [f"MCP_REF_TRACE: cannot record to {path}: No such file or directory"]


def test_mcp_ref_trace_with_a_file_name_records_the_server(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    ping = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode() + b"\n"
    words = forked("-m", "mcp_ref", "run", "examples/everything.py")
    done = subprocess.run(
        words, cwd=HOME, input=ping, capture_output=True, timeout=30, check=True, env={"MCP_REF_TRACE": str(path)}
    )
    assert done.stderr == b""
    assert [each.sender for each in conversation(path)] == ["client", "server"]


@pytest.mark.attack("recording-read-by-others")
def test_open_recording_refuses_a_pipe_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    if os.geteuid() == 0:
        os.chown(path, 12345, 12345)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(PermissionError, match="another user"):
        open_recording(str(path))
    os.close(reader)


def test_open_recording_accepts_a_device_of_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    os.close(open_recording(os.devnull))


def test_open_recording_numbers_the_recordings_of_one_name_up_to_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorded, "MAX_SAME_NAMES", 3)
    for _ in range(3):
        os.close(open_recording(str(tmp_path / "a.jsonl")))
    with pytest.raises(FileExistsError):
        open_recording(str(tmp_path / "a.jsonl"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a-2.jsonl", "a-3.jsonl", "a.jsonl"]
