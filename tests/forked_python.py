"""Python programs that start quickly, as the other end of a test: `forked("-m", "mcp_ref", "run", "server.py")`.

Most of the time of a test with a server process goes into the import of asyncio and the package. Here one process, the
parent, has imported them already. The command that `forked` returns starts a small program that hands its standard
streams, arguments, environment and folder to the parent. The parent forks, the fork runs the Python program, and the
small program ends with its exit code. If either is killed, so is the other.

Use it where the process is a means. A test about the process itself (its start, memory, signals or process group)
starts `sys.executable`. For a shell, and for programs that start further ones by `sys.executable`, `forking_script`
writes a file that can be called like Python.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import io
import marshal
import os
import runpy
import select
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import warnings
from functools import cache
from pathlib import Path
from typing import NoReturn

from tests.settings import HOME

CAN_FORK = hasattr(os, "fork") and hasattr(socket, "recv_fds")
"""True if the system has what this module needs. Without it, `forked` starts Python as usual."""

PRELOADED = (
    "mcp_ref.cli.bridge",
    "mcp_ref.cli.client_commands",
    "mcp_ref.cli.drive",
    "mcp_ref.cli.recorder",
    "mcp_ref.cli.replay",
    "mcp_ref.cli.serve",
    "mcp_ref.client.client",
    "mcp_ref.demo.server",
    "mcp_ref.features.completion",
    "mcp_ref.features.elicitation",
    "mcp_ref.features.prompts",
    "mcp_ref.features.registered_tools",
    "mcp_ref.features.resources",
    "mcp_ref.features.sampling",
    "mcp_ref.server.server",
    "mcp_ref.transports.stdio.server",
    "pytest",
    "tests.conformance.authorization",
    "tests.raw_peers",
)
"""The modules that the parent imports before it forks. Servers of test modules import pytest."""

STUB = """
import sys, os, _signal, _socket, marshal
connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
connection.connect(sys.argv[1])
for number in (_signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP):
    _signal.signal(number, lambda number, frame: connection.send(bytes([number])))
job = marshal.dumps((sys.argv[2:], dict(os.environ), os.getcwd()))
streams = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
connection.sendmsg([len(job).to_bytes(4, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
nothing = os.open(os.devnull, os.O_RDWR)
for number in (0, 1, 2):
    os.dup2(nothing, number)
connection.sendall(job)
status = int.from_bytes(connection.recv(4), "big", signed=True)
if status < 0:
    if -status != _signal.SIGKILL:
        _signal.signal(-status, _signal.SIG_DFL)
    os.kill(os.getpid(), -status)
os._exit(status)
"""
"""The small program. It imports only built-in modules and `os`, because `json` would double the time of its start."""


def forked(*arguments: str) -> list[str]:
    """Return the command that runs Python with these arguments: `-m MODULE ...`, `-c SOURCE` or `FILE ...`."""
    if not CAN_FORK:
        return [sys.executable, *arguments]
    return [sys.executable, "-I", "-S", "-c", STUB, _parent()[1], *arguments]


EXECUTABLE = "MCP_REF_FORKING_SCRIPT"
"""The variable of the environment with the file that a program starts as `sys.executable`."""


def forking_script(folder: Path) -> dict[str, str]:
    """Write the program `python3` into a folder. Return the environment in which it runs Python by a fork."""
    script = folder / "python3"
    command = shlex.join(forked())
    script.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    script.chmod(0o755)
    return {EXECUTABLE: str(script)} if CAN_FORK else {}


def quick_python(source: str) -> list[str]:
    """Return a command like that of `python`, for a process that starts quickly; see `tests/forked_python.py`."""
    return forked(*python(source)[1:])


def python(source: str) -> list[str]:
    """Return the command that runs a piece of Python, with this project importable."""
    return [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(HOME)!r})\n{source}"]


def process_ids() -> set[str]:
    """Return the id of the parent if it runs, which lives until the last test has ended."""
    return {str(_parent()[0])} if _parent.cache_info().currsize else set()


@cache
def _parent() -> tuple[int, str]:
    """Start the parent. Return its process id and the path of its socket."""
    folder = tempfile.mkdtemp(prefix="forked-")
    path = os.path.join(folder, "socket")
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.forked_python", path, str(os.getpid())],
        cwd=Path(__file__).resolve().parent.parent,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.read() == b"ready\n"

    owner = os.getpid()

    def stop() -> None:
        if os.getpid() != owner:
            return  # a worker, which shares the parent with other workers
        process.kill()
        process.wait()
        with contextlib.suppress(OSError):
            os.unlink(path)
            os.rmdir(folder)

    atexit.register(stop)
    return process.pid, path


class _Parent:
    """The process that forks."""

    def __init__(self, path: str) -> None:
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(path)
        self._listener.listen(64)
        self._pids: dict[socket.socket, int] = {}  # the connection of each small program -> its fork
        self._woken, waker = os.pipe()  # can be read when a fork has ended, because SIGCHLD writes to it
        os.set_blocking(waker, False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(waker)

    def run(self, owner: int) -> list[str]:
        """Fork for each connection, until the owner has ended. Return only in the fork, with its arguments."""
        while os.getppid() == owner:
            watched: list[socket.socket | int] = [self._listener, self._woken, *self._pids]
            readable, _, _ = select.select(watched, [], [], 5.0)
            for source in readable:
                if source is self._listener:
                    arguments = self._accept()
                    if arguments is not None:
                        return arguments
                elif source == self._woken:
                    os.read(self._woken, 4096)
                    self._reap()
                elif isinstance(source, socket.socket) and source in self._pids:  # `_reap` may just have removed it
                    self._pass_on(source)
        os._exit(0)

    def _accept(self) -> list[str] | None:
        connection, _ = self._listener.accept()
        connection.settimeout(5.0)
        length, streams, _, _ = socket.recv_fds(connection, 4, 3)
        job = b""
        while len(job) < int.from_bytes(length, "big"):
            job += connection.recv(65536)  # sent when the small program has closed its own streams
        streams_closed, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(writer)
            os.read(streams_closed, 1)  # so that a stream that the program closes is closed for its peer, too
            os.close(streams_closed)
            return self._become(marshal.loads(job), streams)
        self._pids[connection] = pid
        for descriptor in (*streams, streams_closed, writer):
            os.close(descriptor)
        return None

    def _become(self, job: tuple[list[str], dict[str, str], str], streams: list[int]) -> list[str]:
        """Take over the streams, environment and folder of the small program."""
        arguments, environment, folder = job
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._listener.close()
        for connection in self._pids:
            connection.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(folder)
        sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), "utf-8")
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "w", closefd=False)), "utf-8")
        error = io.BufferedWriter(io.FileIO(2, "w", closefd=False))
        sys.stderr = io.TextIOWrapper(error, "utf-8", "backslashreplace", line_buffering=True)
        return arguments

    def _reap(self) -> None:
        """Send the exit code of each process that has ended."""
        for connection, pid in list(self._pids.items()):
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                del self._pids[connection]
                with contextlib.suppress(OSError):
                    connection.sendall(os.waitstatus_to_exitcode(status).to_bytes(4, "big", signed=True))
                connection.close()

    def _pass_on(self, connection: socket.socket) -> None:
        """Pass a signal on to the fork; kill it if the small program was killed."""
        try:
            received = connection.recv(1)
        except OSError:
            received = b""
        os.kill(self._pids[connection], received[0] if received else signal.SIGKILL)
        if not received:
            os.waitpid(self._pids.pop(connection), 0)
            connection.close()


def _execute(arguments: list[str]) -> None:
    """Run a program as `python ARGUMENTS` does."""
    first, *rest = arguments
    sys.executable = os.environ.get(EXECUTABLE, sys.executable)
    if os.environ.get("PYTHONWARNINGS") == "error":
        warnings.simplefilter("error")
    sys.path[0] = os.getcwd()
    sys.path[1:1] = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if first == "-m":
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif first == "-c":
        sys.argv = ["-c", *rest[1:]]
        exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv, sys.path[0] = arguments, os.path.dirname(os.path.abspath(first))
        runpy.run_path(first, run_name="__main__")


def _end(status: int) -> NoReturn:
    """End a fork like Python, except that the parent's modules stay: their teardown would copy all of their memory."""
    vars(threading)["_shutdown"]()  # waits for the threads
    atexit._run_exitfuncs()
    gc.collect()  # so that what the program has not closed is reported
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def main() -> None:
    """Run the parent. In a fork, run the requested program."""
    for name in PRELOADED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    parent = _Parent(sys.argv[1])
    os.write(1, b"ready\n")
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.close(nothing)
    arguments = parent.run(int(sys.argv[2]))
    try:
        _execute(arguments)
    except SystemExit as end:
        if not isinstance(end.code, int | None):
            raise  # a text, which Python prints
        status = end.code or 0
    else:
        status = 0
    _end(status)


if __name__ == "__main__":
    main()
