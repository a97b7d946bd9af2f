"""examples/everything.py against the suite, over Streamable HTTP in each way that it can be served."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.check.foreign import faults_in, known_faults
from tests.conformance.conftest import Suite
from tests.server_programs import Program, recording, serving
from tests.settings import ROOT

EVERYTHING = "examples/everything.py"

CHECKS = 83
"""Of the 33 scenarios that 2025-11-25 requires, or lists as not scored."""

POLLING = 3
"""Of these are about a server that lets go of its connection; they need an event stream."""

ALONE = 196
"""Of the 50 scenarios that 2026-07-28 requires, or lists as not scored."""

SKIPPED = {"tasks-status-notifications": 1}
"""A check that the suite has, and skips: it does not yet hear subscriptions."""


def check_alone(suite: Suite, url: str) -> None:
    """Check that the server passes every check of the modern era."""
    outcome = suite("server", "--url", url, "--requirements", "2026-07-28", unmet=SKIPPED)
    assert len(outcome.passed) == 50
    assert outcome.passed.total() == ALONE, outcome.said


UVICORN = ["uvicorn", "--port", "0", "--no-access-log", "--timeout-graceful-shutdown", "1"]
HYPERCORN = ["hypercorn", "--bind", "127.0.0.1:0", "--graceful-timeout", "1"]


@contextlib.contextmanager
def under_asgi(peers: Path, *arguments: str) -> Iterator[Program]:
    """Serve by an ASGI server for as long as the block runs."""
    command = [str(peers / "asgi/bin/python"), "-m", *arguments]
    with subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        try:
            program = Program(process)
            while "unning on " not in (line := program.line()):
                assert "ERROR" not in line, line
            program.url = line.partition("unning on ")[2].split()[0]
            yield program
        finally:
            process.kill()


def ended(program: Program) -> str:
    """Stop an ASGI server as from the keyboard; gives what it still said."""
    program.process.send_signal(signal.SIGINT)
    _, said = program.process.communicate(timeout=5)
    return said.decode()


def test_our_own_http_server_passes_every_check_with_a_recorder_in_between(suite: Suite, tmp_path: Path) -> None:
    file = tmp_path / "talk.jsonl"
    with serving(EVERYTHING) as program:
        with recording(file, program.url) as url:
            outcome = suite("server", "--url", url, "--requirements", "2025-11-25")
        assert len(outcome.passed) == 33
        assert outcome.passed.total() == CHECKS, outcome.said
        assert program.stop(signal.SIGTERM) == b""
    assert faults_in(file) <= known_faults("@modelcontextprotocol/conformance")


def test_our_own_http_server_passes_every_check_of_the_modern_era(suite: Suite, tmp_path: Path) -> None:
    file = tmp_path / "talk.jsonl"
    with serving(EVERYTHING) as program:
        with recording(file, program.url) as url:
            check_alone(suite, url)
        said = program.stop(signal.SIGTERM).decode()
        assert all("this client cannot be asked" in line for line in said.splitlines()), said
    tested = {
        "required_meta",
        "mirrored_headers",
        "params_fit",
        "method_of_revision",
    }  # the suite breaks them on purpose
    assert faults_in(file) == {f"client: {rule}" for rule in tested}


def test_asgi_application_of_the_modern_era_passes_every_check(suite: Suite, peers: Path) -> None:
    with under_asgi(peers, *UVICORN, "tests.conformance.modern:app") as program:
        check_alone(suite, program.url + "/mcp")
        said = ended(program)
        assert "Traceback" not in said and "ERROR" not in said, said


def test_with_json_responses_only_what_is_about_streams_is_left_out(suite: Suite) -> None:
    with serving(EVERYTHING, "--json-responses") as program:
        outcome = suite("server", "--url", program.url, "--requirements", "2025-11-25")
        assert [scenario for scenario, passed in outcome.passed.items() if passed == 0] == ["server-sse-polling"]
        assert outcome.passed.total() == CHECKS - POLLING, outcome.said
        assert program.stop(signal.SIGTERM) == b""


def test_2025_06_18_passes_every_check_that_there_is_for_it(suite: Suite) -> None:
    with serving(EVERYTHING) as program:
        outcome = suite("server", "--url", program.url, "--suite", "all", "--spec-version", "2025-06-18")
        assert len(outcome.passed) == 27
        assert outcome.passed.total() == 56, outcome.said
        assert program.stop(signal.SIGTERM) == b""


@pytest.mark.parametrize(
    ("application", "path"),
    [
        ([*UVICORN, "--factory", "examples.everything:server.asgi"], "/mcp"),
        ([*UVICORN, "--app-dir", "tests/interop/peers", "mounted:app"], "/apps/everything/mcp"),
        ([*HYPERCORN, "examples.everything:server.asgi()"], "/mcp"),
    ],
    ids=["uvicorn", "uvicorn, below Starlette", "hypercorn"],
)
def test_server_as_an_asgi_application_passes_every_check(
    suite: Suite, peers: Path, application: list[str], path: str
) -> None:
    with under_asgi(peers, *application) as program:
        outcome = suite("server", "--url", program.url + path, "--requirements", "2025-11-25")
        assert outcome.passed.total() == CHECKS, outcome.said
        said = ended(program)
        assert "Traceback" not in said and "ERROR" not in said, said
