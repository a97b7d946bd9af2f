"""HTTP servers as processes: `python3 -m mcp_ref run FILE --http --port 0`."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.forked_python import forked
from tests.settings import PATIENCE, ROOT


@dataclass
class Program:
    """A server's process."""

    process: subprocess.Popen[bytes]
    url: str = ""

    def line(self) -> str:
        """Return the next line on its standard error."""
        return self.until(b"\n").decode()

    def until(self, end: bytes) -> bytes:
        """Return its standard error up to `end`."""
        assert self.process.stderr is not None
        source, found, deadline = self.process.stderr.fileno(), b"", time.monotonic() + PATIENCE
        while not found.endswith(end):
            ready, _, _ = select.select([source], [], [], max(0.0, deadline - time.monotonic()))
            piece = os.read(source, 1) if ready else b""
            assert piece, f"the standard error ended with {found!r}"
            found += piece
        return found

    def descriptors(self) -> int:
        """Return the number of its file descriptors."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def threads(self) -> int:
        """Return the number of its threads."""
        return len(os.listdir(f"/proc/{self.process.pid}/task"))

    def memory(self) -> int:
        """Return its resident memory, in bytes."""
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def stop(self, number: int, seconds: float = PATIENCE) -> bytes:
        """End it by a signal, within `seconds` and with exit code 0. Return the rest of its standard error."""
        self.process.send_signal(number)
        _, said = self.process.communicate(timeout=seconds)
        assert self.process.returncode == 0, (self.process.returncode, said)
        return said


@contextlib.contextmanager
def serving(target: str | Path, *options: str, port: str = "0", is_forked: bool = True) -> Iterator[Program]:
    """Serve a file, or a module by its dotted name, until the block ends.

    A test that kills or measures the process itself says that it is not to be forked.
    """
    arguments = ("-m", "mcp_ref", "run", str(target), "--http", "--port", port, *options)
    with _listening(forked(*arguments) if is_forked else [sys.executable, *arguments]) as program:
        yield program


@contextlib.contextmanager
def recording(file: Path, url: str) -> Iterator[str]:
    """Record in front of a server until the block ends, and yield the URL for clients."""
    with _listening(forked("-m", "mcp_ref", "record", str(file), "--http", url)) as program:
        yield program.url
        assert program.stop(signal.SIGTERM) == b""


@contextlib.contextmanager
def _listening(command: list[str]) -> Iterator[Program]:
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        try:
            program = Program(process)
            program.url = program.line().rpartition(" ")[2].strip()
            yield program
        finally:
            process.kill()
