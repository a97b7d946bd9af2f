"""The rules that `conftest.py` holds for every test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.forked_python import forked
from tests.settings import ROOT

TESTS = """
import signal, subprocess, sys

PROGRAM = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"]

def test_interrupt_ends_a_program():
    program = subprocess.Popen(PROGRAM)
    program.send_signal(signal.SIGINT)
    assert program.wait(10) in (1, -signal.SIGINT)

def test_without_end():
    with subprocess.Popen(PROGRAM):
        signal.setitimer(signal.ITIMER_REAL, 0.01)  # instead of two minutes
"""
LEAVES_A_VARIABLE = """
import os

def test_leaves(): os.environ["LEFT"] = "1"
def test_sets(monkeypatch): monkeypatch.setenv("SET", "1")
def test_next(): assert "LEFT" not in os.environ
"""

FAILS = """
def test_fails():
    open({fifo!r}).close()  # waits until the other worker would survive an interrupt
    assert False
"""
CATCHES_INTERRUPT = """
import signal, threading, pytest

interrupted = threading.Event()

def test_catches_interrupt():
    signal.signal(signal.SIGINT, lambda *_: interrupted.set())
    open({fifo!r}, "w").close()
    assert interrupted.wait(60)

@pytest.mark.parametrize("number", range(400))
def test_passes(number): pass
"""


@pytest.mark.skipif(sys.platform == "win32", reason="a shell and signals")
def test_pytest_with_sigint_ignored_interrupts_programs_and_ends_tests_that_wait(tmp_path: Path) -> None:
    (tmp_path / "test_waits.py").write_text(TESTS)
    command = f"trap '' INT; exec {sys.executable} -m pytest -q -p tests.conftest -c pyproject.toml {tmp_path}"
    done = subprocess.run(["sh", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert "1 failed, 1 passed" in done.stdout and "took longer than 120 seconds" in done.stdout, done.stdout


def test_variable_of_the_environment_that_a_test_leaves_is_an_error_and_the_next_test_does_not_see_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "test_leaves.py").write_text(LEAVES_A_VARIABLE)
    command = forked("-m", "pytest", "-q", "-p", "tests.conftest", "-c", "pyproject.toml", str(tmp_path))
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert "3 passed, 1 error" in done.stdout and "changed variables of the environment: ['LEFT']" in done.stdout


@pytest.mark.skipif(not hasattr(os, "fork"), reason="workers are forks")
def test_exitfirst_ends_a_run_whose_other_worker_survives_the_interrupt(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    (tmp_path / "test_catches.py").write_text(CATCHES_INTERRUPT.format(fifo=str(fifo)))
    (tmp_path / "test_fails.py").write_text(FAILS.format(fifo=str(fifo)))
    command = forked("-m", "pytest", "-qx", "-p", "tests.conftest", "-c", "pyproject.toml", str(tmp_path))
    environment = {**os.environ, "MCP_REF_WORKERS": "2"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)
    assert "1 failed" in done.stdout and "Traceback" not in done.stderr, done
