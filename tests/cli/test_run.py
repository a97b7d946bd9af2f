"""`run` on the command line: the server of a file or module, over stdio, and its options over HTTP."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from mcp_ref.cli.serve import split_target
from tests.cli.exit_codes import exit_code
from tests.forked_python import forked
from tests.settings import ROOT


def serving(tmp_path: Path, source: str) -> str:
    """Write a file with this source."""
    path = tmp_path / "my server.py"
    path.write_text(source, "utf-8")
    return str(path)


def run_file(*words: str) -> subprocess.CompletedProcess[bytes]:
    """Run `run` as a process, with one ping on its input."""
    return subprocess.run(
        forked("-m", "mcp_ref", "run", *words), cwd=ROOT, input=b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n',
        capture_output=True, timeout=30, check=False,
    )  # fmt: skip


PONG = b'{"jsonrpc":"2.0","id":1,"result":{}}\n'


def test_run_serves_the_only_server_of_a_file(tmp_path: Path) -> None:
    source = "import helper\nfrom mcp_ref import Server\napp = Server(helper.NAME)\n"
    source += "if __name__ == '__main__':\n    raise SystemExit(9)\n"
    (tmp_path / "helper.py").write_text("NAME = 'helped'", "utf-8")
    done = run_file(serving(tmp_path, source))
    assert (done.stdout, done.stderr, done.returncode) == (PONG, b"", 0)


def test_run_serves_the_one_that_is_named_of_several(tmp_path: Path) -> None:
    path = serving(tmp_path, "from mcp_ref import Server\na = Server('a')\nb = Server('b')\n")
    assert run_file(f"{path}:b").stdout == PONG
    done = run_file(path)
    assert done.returncode == 2 and f"choose one: {path}:a, {path}:b" in done.stderr.decode()
    done = run_file(f"{path}:c")
    assert done.returncode == 2 and "has no Server called 'c'; the known names are a, b" in done.stderr.decode()


def test_prints_of_an_imported_file_do_not_reach_the_client(tmp_path: Path) -> None:
    source = "import os\nprint('hi')\nos.write(1, b'ho')\nfrom mcp_ref import Server\nserver = Server('s')\n"
    done = run_file(serving(tmp_path, source))
    assert done.stdout == PONG
    assert b"hi" in done.stderr and b"ho" in done.stderr


def test_run_traces_to_standard_error() -> None:
    done = run_file("mcp_ref.demo.server", "--trace")
    assert done.stdout == PONG and b'<-  {"jsonrpc": "2.0", "id": 1, "method": "ping"}' in done.stderr


def test_run_of_a_file_that_fails_exits_with_1_and_the_traceback_of_the_file(tmp_path: Path) -> None:
    done = run_file(serving(tmp_path, "import json\njson.loads('{')\n"))
    err = done.stderr.decode()
    assert done.returncode == 1 and "line 2, in <module>" in err and "JSONDecodeError" in err
    assert "serve.py" not in err and "frozen importlib" not in err
    done = run_file(serving(tmp_path, "import no_such_module\n"))
    assert done.returncode == 1 and b"No module named 'no_such_module'" in done.stderr
    done = run_file(serving(tmp_path, "def\n"))
    assert done.returncode == 1 and b"SyntaxError" in done.stderr


def test_run_names_a_server_of_another_copy_of_the_package(tmp_path: Path) -> None:
    copy = "class Server:\n    def run(self): pass\n\nServer.__module__ = 'vendor.protocol.server.server'\n"
    done = run_file(serving(tmp_path, f"{copy}server = Server()\n"))
    assert done.returncode == 2
    advice = "run it with that copy: python3 -m vendor.protocol"
    assert f"'server' is a Server of another copy of this package; {advice}" in done.stderr.decode()


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("examples/everythin.py", "no file named 'examples/everythin.py'; did you mean 'everything.py'?"),
        ("examples", "'examples' is a folder; name a Python file in it"),
        ("nowhere/x.py", "no file named"),
        ("mcp_ref.nothing", "no file and no module named 'mcp_ref.nothing'"),
        ("mcp_ref.revisions", "has no Server at its top level"),
        ("README.md", "is not a Python file"),
    ],
)
def test_run_of_an_invalid_target_exits_with_2(
    target: str, why: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    assert exit_code("run", target) == 2
    assert why in capsys.readouterr().err


@pytest.mark.parametrize(
    ("target", "parts"),
    [
        ("a.py", ("a.py", None)), ("a.py:b", ("a.py", "b")), ("a.b:c", ("a.b", "c")), ("a.py:", ("a.py:", None)),
        ("a.py:b c", ("a.py:b c", None)), (":b", ("", "b")),
    ],
)  # fmt: skip
def test_run_splits_a_target_into_the_file_and_the_name(target: str, parts: tuple[str, str | None]) -> None:
    assert split_target(target) == parts
