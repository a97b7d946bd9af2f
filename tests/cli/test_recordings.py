"""`record` and `replay` on the command line: the mistakes of a user, and their advice."""

from __future__ import annotations

import contextlib
import json
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from mcp_ref.__main__ import main
from mcp_ref.cli.show import note
from mcp_ref.recorder.pipes import EXIT_CANNOT_START
from mcp_ref.recorder.replay import Player
from mcp_ref.recorder.tape import MEGABYTE, TapeOptions
from tests.cli.exit_codes import exit_code
from tests.forked_python import quick_python

Captured = pytest.CaptureFixture[str]
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
ECHO = """import json
for line in sys.stdin:
    print(json.dumps({"jsonrpc": "2.0", "id": json.loads(line)["id"], "result": %s}), flush=True)"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a recording of one ping."""
    path = tmp_path / "a.jsonl"
    lines: list[object] = [
        {"mcp_recording": 1, "transport": "stdio", "command": ["cat"]},
        {"from": "client", "frame": json.dumps(PING)},
        {"from": "server", "frame": json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"a": 1}})},
    ]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


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
        (["record", "/dev/null", "--port", "9", "--", "cat"], "--port needs --http"),
        (["replay", "README.md", "--host", "::1"], "--host needs --http"),
        (["replay", "README.md", "--host", "127.0.0.1"], "--host needs --http"),
        (["record", "/dev/null", "--port", "0", "--", "cat"], "--port needs --http"),
        (["replay"], "FILE"),
        (["replay", "/none/a.jsonl"], "cannot read /none/a.jsonl"),
        (["replay", "README.md"], "not a recording"),
        (["replay", "README.md", "--speed", "0"], "above 0"),
    ],
)
def test_record_and_replay_with_a_wrong_command_line_say_what_to_write(
    words: list[str], advice: str, capsys: Captured
) -> None:
    assert (exit_code(*words), advice in capsys.readouterr().err) == (2, True)


@pytest.mark.parametrize(
    ("words", "status", "advice"),
    [
        (["--", "cat"], 2, "python3 -m mcp_ref replay: only replay --client takes a server\n"),
        (["http://127.0.0.1:1/"], 2, "python3 -m mcp_ref replay: only replay --client takes a server\n"),
        (["--client"], 2, "python3 -m mcp_ref replay: name the server: its URL, or two dashes and its command\n"),
        (["--client", "--revision", "x"], 2, "python3 -m mcp_ref replay: only the recorded server can speak another "
                                             "revision, so --client takes no --revision\n"),
        (["--client", "http://127.0.0.1:1/"], 3, "no program listens there"),
        (["--client", "--", "no-such-program-here"], 3, "cannot start the server"),
    ],
)  # fmt: skip
def test_replay_with_a_server_needs_client_and_client_needs_a_server(
    words: list[str], status: int, advice: str, path: Path, capsys: Captured
) -> None:
    assert main(["replay", str(path), *words]) == status
    assert advice in capsys.readouterr().err


def test_replay_client_of_a_recording_without_requests_connects_to_nobody(path: Path, capsys: Captured) -> None:
    path.write_text('{"mcp_recording": 1, "transport": "stdio", "command": ["cat"]}\n')
    assert main(["replay", str(path), "--client", "http://127.0.0.1:1/"]) == 0
    assert capsys.readouterr() == ("", "0 requests, 0 with a different response\n")
    assert main(["replay", str(path), "--revision", "2025-06-18"]) == 2
    advice = f"{path} has no request with a result, so its revision is unknown"
    assert capsys.readouterr().err == f"python3 -m mcp_ref replay: {advice}\n"


@pytest.mark.attack("terminal-escapes")
@pytest.mark.parametrize(
    ("result", "shown"),
    [
        ({"a": 1}, ""),
        ({"a": 2}, "ping\n  result.a: 1 -> 2\n"),
        ({"a": 1, "b\nping": 2}, "ping\n  result.b\\u{a}ping: (missing) -> 2\n"),
    ],
)
def test_replay_client_prints_each_request_with_a_different_response_and_one_line_for_each_difference(
    result: dict[str, int], shown: str, path: Path, capsys: Captured
) -> None:
    status = 1 if shown else 0
    assert main(["replay", str(path), "--client", "--", *quick_python(ECHO % result)]) == status
    assert capsys.readouterr() == (shown, f"1 request, {status} with a different response\n")


class Stop:
    """A signal that has come before a command waits for it."""

    async def wait(self) -> None:
        note("waiting")


@pytest.mark.parametrize(
    ("is_terminal", "words", "said"),
    [
        (True, [], "replaying the server for a client on standard input; press Ctrl-D to stop\n"),
        (False, [], ""),
        (True, ["--http"], "replaying: http://127.0.0.1:0/\nwaiting\n"),
        (False, ["--http", "--host", "::1", "--port", "9"], "replaying: http://::1:9/\nwaiting\n"),
    ],
)
@pytest.mark.parametrize("unknown", [[], ["tools/list was not recorded"]])
def test_replay_says_where_it_serves_and_which_requests_were_not_recorded(
    is_terminal: bool, words: list[str], said: str, unknown: list[str], path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: Captured,
) -> None:  # fmt: skip
    async def stdio(player: Player) -> None:
        player.cassette.unrecorded.extend(unknown)

    @contextlib.asynccontextmanager
    async def http(player: Player, host: str, port: int) -> AsyncIterator[str]:
        yield f"http://{host}:{port}/"
        player.cassette.unrecorded.extend(unknown)

    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: is_terminal))
    for name, replaced in (("replay_stdio", stdio), ("replay_http", http), ("stop_event", Stop)):
        monkeypatch.setattr(f"mcp_ref.cli.replay.{name}", replaced)
    assert main(["replay", str(path), *words]) == len(unknown)
    assert capsys.readouterr() == ("", said + "".join(f"{line}\n" for line in unknown))


def test_record_gives_the_tape_its_options_and_waits_for_a_signal(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    @contextlib.asynccontextmanager
    async def http(*given: object) -> AsyncIterator[str]:
        assert given == (TapeOptions("f", 3 * MEGABYTE, True), "http://a/", "127.0.0.1", 0)
        yield "http://b/"

    def stdio(*given: object) -> None:
        assert given == (TapeOptions("f", 256 * MEGABYTE, False), ["a", "b"])
        raise OSError(2, "No such file")

    for name, replaced in (("record_http", http), ("record_stdio", stdio), ("stop_event", Stop)):
        monkeypatch.setattr(f"mcp_ref.cli.recorder.{name}", replaced)
    assert main(["record", "f", "--http", "http://a/", "--max-mb", "3", "--with-secrets"]) == 0
    assert capsys.readouterr().err == "recording http://a/ to f; clients connect to: http://b/\nwaiting\n"
    assert main(["record", "f", "--", "a", "b"]) == EXIT_CANNOT_START
    assert capsys.readouterr().err == "cannot start 'a': No such file\n"
    monkeypatch.delattr("os.fork")
    assert main(["record", "f", "--", "a", "b"]) == 2
    assert "this system cannot record a command" in capsys.readouterr().err


def test_record_and_replay_say_that_the_port_is_in_use(path: Path, tmp_path: Path, capsys: Captured) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        for words in (["record", str(tmp_path / "b.jsonl"), "--http", "http://a/"], ["replay", str(path), "--http"]):
            assert main([*words, "--port", port]) == 2
            assert f"cannot serve on 127.0.0.1:{port}: the port is in use; stop" in capsys.readouterr().err
