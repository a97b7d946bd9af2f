"""`record` and `replay` on the command line: the mistakes of a user, and their advice."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

import pytest

from tests.forked_python import forked
from tests.settings import HOME


def run_command(*words: str) -> subprocess.CompletedProcess[str]:
    command = forked("-m", "mcp_ref", *words)
    return subprocess.run(command, capture_output=True, text=True, timeout=30, cwd=HOME, check=False, input="")


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (["record"], "name the file"),
        (["record", "a.jsonl"], "--http and its URL, or two dashes"),
        (["record", "a.jsonl", "--http", "http://a/", "--", "cat"], "name one server"),
        (["record", "/none/a.jsonl", "--http", "http://a/"], "cannot open /none/a.jsonl: No such file"),
        (["record", "/dev/null", "--http", "ftp://a/"], "must begin with http://"),
        (["record", "/dev/null", "--http", "http://a/", "--max-mb", "0"], "at least 1"),
        (["record", "/dev/null", "--http", "http://a/", "--port", "65536"], "from 0 to 65535, got '65536'"),
        (["replay"], "FILE"),
        (["replay", "/none/a.jsonl"], "cannot read /none/a.jsonl"),
        (["replay", "README.md"], "not a recording"),
        (["replay", "README.md", "--speed", "0"], "above 0"),
    ],
)
def test_record_and_replay_with_a_wrong_command_line_say_what_to_write(words: list[str], advice: str) -> None:
    done = run_command(*words)
    assert done.returncode == 2 and advice in done.stderr and "Traceback" not in done.stderr, done


def test_replay_with_a_server_needs_client_and_client_needs_a_server(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"mcp_recording": 1, "transport": "stdio", "command": ["cat"]}\n')
    assert "only replay --client takes a server" in run_command("replay", str(path), "--", "cat").stderr
    assert "only replay --client takes a server" in run_command("replay", str(path), "http://127.0.0.1:1/").stderr
    assert run_command("replay", str(path), "--client", "http://127.0.0.1:1/").stderr.startswith("0 requests")
    assert "name the server" in run_command("replay", str(path), "--client").stderr
    assert "--client takes no --revision" in run_command("replay", str(path), "--client", "--revision", "x").stderr
    assert "its revision is unknown" in run_command("replay", str(path), "--revision", "2025-06-18").stderr
    done = run_command("replay", str(path), "--client", "--", "no-such-program-here")
    assert done.returncode == 3 and done.stderr.startswith("cannot start the server")


def test_record_and_replay_say_that_the_port_is_in_use(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"mcp_recording": 1, "transport": "stdio", "command": ["cat"]}\n')
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        done = [
            run_command("record", str(tmp_path / "b.jsonl"), "--http", "http://a/", "--port", port),
            run_command("replay", str(path), "--http", "--port", port),
        ]
    for each in done:
        assert each.returncode == 2 and f"cannot serve on 127.0.0.1:{port}: the port is in use; stop" in each.stderr
