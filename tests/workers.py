"""Processes that share the tests of one run: two more than cores, at most four, because many tests wait.

pytest collects as usual. Then each worker, a fork of this process, takes one test file after another, and sends its
reports to this process, which shows them as usual. The variable MCP_REF_WORKERS is the number of workers; 1 means that
this process runs the tests itself. Few tests, a debugger and `-s` also need no workers.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import sys
import traceback

import pytest

FEW = 300
"""Maximum number of tests that one process runs alone."""
MOST = 4
"""Maximum number of worker processes."""


def count(session: pytest.Session) -> int:
    """Return the number of workers for a run."""
    option = session.config.option
    if option.collectonly or option.usepdb or option.trace or option.capture == "no" or len(session.items) <= FEW:
        return 1
    if not hasattr(os, "sched_getaffinity") or not hasattr(os, "fork"):
        return 1
    return max(1, int(os.environ.get("MCP_REF_WORKERS", min(MOST, len(os.sched_getaffinity(0)) + 2))))


def run(session: pytest.Session, workers: int) -> None:
    """Run all tests in worker processes, and show their reports."""
    files: dict[str, list[pytest.Item]] = {}
    for item in session.items:
        files.setdefault(item.nodeid.partition("::")[0], []).append(item)
    groups = [files[name] for name in sorted(files, reverse=True)]  # the slowest files are last in the alphabet
    queue, queue_writer = os.pipe()  # the numbers of the files that no worker has taken, two bytes each
    os.write(queue_writer, b"".join(number.to_bytes(2, "big") for number in range(len(groups))))
    os.close(queue_writer)
    processes: dict[int, int] = {}  # the pipe from which a worker's reports are read -> its process id
    try:
        for _ in range(workers):
            reader, writer = os.pipe()
            process = os.fork()
            if process == 0:
                # Only the parent may read, so that a worker that still writes after it has stopped gets an error.
                for inherited in (reader, *processes):
                    os.close(inherited)
                _work(session, groups, queue, writer)
            os.close(writer)
            processes[reader] = process
        _show(session, processes)
    except BaseException:
        for process in processes.values():
            os.kill(process, signal.SIGINT)  # the worker ends the processes of its tests
        raise
    finally:
        os.close(queue)
        for reader in processes:
            os.close(reader)
        for process in processes.values():
            os.waitpid(process, 0)


def _show(session: pytest.Session, processes: dict[int, int]) -> None:
    """Pass the reports of the workers to pytest, until all workers have ended."""
    unfinished_lines: dict[int, bytes] = dict.fromkeys(processes, b"")  # by pipe, while its worker runs
    ended = 0  # number of tests
    while unfinished_lines:
        for reader in select.select(list(unfinished_lines), [], [])[0]:
            received = os.read(reader, 1 << 20)
            *lines, unfinished_lines[reader] = (unfinished_lines[reader] + received).split(b"\n")
            for line in lines:
                data = json.loads(line)
                if data is None:  # the worker has run all its tests
                    del unfinished_lines[reader]
                    break
                report = session.config.hook.pytest_report_from_serializable(config=session.config, data=data)
                session.config.hook.pytest_runtest_logreport(report=report)
                if report.when == "teardown":
                    ended += 1
            if not received and reader in unfinished_lines:
                raise RuntimeError(f"a worker died: process {processes[reader]}")
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
    if ended != len(session.items):
        raise RuntimeError(f"{len(session.items)} tests were collected, but {ended} have ended")


class _Reports:
    """The plugin of a worker that sends its reports."""

    def __init__(self, config: pytest.Config, pipe: int) -> None:
        self._config, self._pipe = config, pipe

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.send(self._config.hook.pytest_report_to_serializable(config=self._config, report=report))

    def send(self, data: object) -> None:
        """Write one line of JSON, in several pieces if the pipe takes only a part of it."""
        rest = json.dumps(data, default=str).encode() + b"\n"
        while rest:
            written = os.write(self._pipe, rest)
            rest = rest[written:]


def _work(session: pytest.Session, groups: list[list[pytest.Item]], queue: int, pipe: int) -> None:
    """Run the tests of one file after another until the queue is empty, and end this process."""
    status = 1
    try:
        plugins = session.config.pluginmanager
        plugins.unregister(name="terminalreporter")
        capture = plugins.getplugin("capturemanager")
        assert capture is not None
        capture.stop_global_capturing()  # its files are shared with the other processes
        capture.start_global_capturing()
        reports = _Reports(session.config, pipe)
        plugins.register(reports)
        while number := os.read(queue, 2):
            items = groups[int.from_bytes(number, "big")]
            for item, following in zip(items, [*items[1:], None], strict=True):
                session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        reports.send(None)
        status = 0
    except (KeyboardInterrupt, BrokenPipeError):
        pass  # the parent has stopped the run, and reads no more reports
    except BaseException:
        traceback.print_exc(file=sys.__stderr__)
    finally:
        atexit._run_exitfuncs()  # ends the processes that the tests share
        os._exit(status)
