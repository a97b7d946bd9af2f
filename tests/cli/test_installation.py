"""`record --install` and `--uninstall`: the difference is shown, and the file is written only with consent."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest

from mcp_ref.__main__ import main
from mcp_ref.host.configuration import read_config

NAME = "../b/a"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the configuration file of a host, with one server."""
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {NAME: {"command": "cat"}}}))
    return path


def test_record_install_starts_the_recorded_server_until_it_is_uninstalled(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, file = path.read_text(), path.parent / "_._b_a.jsonl"
    assert main(["record", "--install", str(path), NAME]) == 2
    out, err = capsys.readouterr()
    assert f"-{before}\n" in out and '+{"mcpServers"' in out
    advice = "nothing is changed: to write this, repeat the command with --yes"
    assert (err, path.read_text()) == (f"python3 -m mcp_ref record: {advice}\n", before)

    assert main(["record", "--install", str(path), NAME, "--yes"]) == 0
    advice = "after you have used the server, judge the conversation: python3 -m mcp_ref check"
    written = f"{path} is written; restart the host\n"
    assert capsys.readouterr() == (out, f"{written}{advice} {shlex.quote(str(file))}\n")
    command = read_config(path).servers[0].command
    done = subprocess.run(command, cwd="/", input=b"hello\n", capture_output=True, timeout=30, check=False)
    assert (done.stdout, done.stderr, file.exists()) == (b"hello\n", b"", True)

    assert main(["record", "--uninstall", str(path), NAME, "--yes"]) == 0
    assert (capsys.readouterr().err, path.read_text()) == (written, before)
    assert main(["record", "--uninstall", str(path), NAME, "--yes"]) == 2
    assert "not recorded" in capsys.readouterr().err


def test_record_install_writes_the_recording_to_the_named_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    assert main(["record", "talk.jsonl", "--install", str(path), NAME, "--yes"]) == 0
    assert str(path.parent / "talk.jsonl") in read_config(path).servers[0].command


@pytest.mark.parametrize(("typed", "status"), [("y", 0), (" Yes ", 0), ("n", 1), ("", 1), (None, 1)])
def test_record_install_writes_the_file_only_if_the_user_agrees(
    typed: str | None, status: int, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reply(prompt: str) -> str:
        assert prompt == "Write this? [y/N] "
        if typed is None:
            raise EOFError
        return typed

    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", reply)
    before = path.read_text()
    assert main(["record", "--install", str(path), NAME]) == status
    assert (path.read_text() == before) == (status == 1)


def test_record_install_of_a_file_that_changes_before_the_reply_changes_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda prompt: path.write_text("{}") and "y")
    assert main(["record", "--install", str(path), NAME]) == 2
    assert capsys.readouterr().err.startswith("python3 -m mcp_ref record: nothing is changed: ")
    assert path.read_text() == "{}"
