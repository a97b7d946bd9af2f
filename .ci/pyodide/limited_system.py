"""A pytest plugin for a Python without threads, processes and sockets. A test that fails because of that is skipped."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import NoReturn

import pytest

missing: set[str] = set()
"""What the current test needs, but this system does not have."""
passed = skipped = 0


class Loop(asyncio.BaseEventLoop):
    """An event loop with timers and callbacks only. (Pyodide's own event loop cannot run until a task is done.)"""

    def __init__(self) -> None:
        super().__init__()
        self._selector = self

    def select(self, timeout: float | None) -> list[object]:
        if timeout is None:
            raise RuntimeError("the event loop would wait for ever")
        time.sleep(timeout)
        return []

    def _process_events(self, events: list[object]) -> None: ...

    def _write_to_self(self) -> None: ...

    async def _refuse(self, *args: object, **options: object) -> NoReturn:
        refuse("sockets and pipes")()

    subprocess_exec = connect_read_pipe = connect_write_pipe = create_server = create_connection = _refuse


def refuse(what: str) -> Callable[..., NoReturn]:
    """Return a function that fails because the system does not have something."""

    def fail(*args: object, **options: object) -> NoReturn:
        missing.add(what)
        raise OSError(f"this system does not have {what}")

    return fail


asyncio._set_running_loop(None)
asyncio.new_event_loop = asyncio.events.new_event_loop = Loop
threading.Thread.start = refuse("threads")
subprocess.Popen.__init__ = refuse("processes")
socket.socket.__init__ = refuse("sockets and pipes")
# A program that can be found, so that a test fails because it cannot start
sys.executable = "/tmp/python"
Path(sys.executable).touch(0o755)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport]:
    report = yield
    if missing and report.failed:
        report.outcome = "skipped"
        report.longrepr = (str(item.path), 0, f"Skipped: needs {', '.join(sorted(missing))}")
    if call.when == "teardown":
        missing.clear()
    return report


def pytest_runtest_logstart(nodeid: str) -> None:
    """Write the test's name to a file, because a fatal error of the interpreter does not name the test."""
    Path("last_test").write_text(nodeid)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    global passed, skipped
    passed += report.passed and report.when == "call"
    skipped += report.skipped


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail if fewer tests have passed than were skipped, or no test at all."""
    if passed <= skipped and session.exitstatus == 0:
        session.exitstatus = 1
