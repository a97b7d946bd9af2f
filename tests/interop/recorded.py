"""A record of server processes: their process ids, their exit statuses, and their output on stderr."""

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

SCRIPT = Path(__file__).parent / "peers" / "recorded.sh"
ROOT = Path(__file__).parents[2]
PATIENCE = 20.0
"""Seconds for a server to start: some import for long, on a machine that does other things too."""


class Recorded:
    """Servers that were started through `command`. They write their record into `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def command(self, server: Sequence[str | Path]) -> list[str]:
        """Return the command that a client starts instead of the server's own command."""
        return ["sh", str(SCRIPT), str(self.folder), *map(str, server)]

    @contextlib.contextmanager
    def listening(
        self, server: Sequence[str | Path], said: str, env: Mapping[str, str] | None = None
    ) -> Iterator[re.Match[str]]:
        """Run a server that listens, for as long as the block runs, and then end it with SIGTERM.

        said: a regular expression for the output on stderr when the server is ready. The block receives the match.
        """
        with subprocess.Popen(
            self.command(server), cwd=ROOT, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        ) as process:  # fmt: skip
            try:
                deadline = time.monotonic() + PATIENCE
                while (match := re.search(said, self.stderr)) is None:
                    assert process.poll() is None and time.monotonic() < deadline, self.stderr
                    time.sleep(0.02)
                yield match
            finally:
                for number in (signal.SIGTERM, signal.SIGKILL):
                    for pid in self.pids:
                        if _runs(pid):
                            os.kill(pid, number)
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(5)
                        break

    @property
    def stderr(self) -> str:
        return self._read("stderr")

    @property
    def statuses(self) -> list[int]:
        """The exit statuses of the servers, in order. A server that was killed with its shell has no entry."""
        return [int(line) for line in self._read("statuses").split()]

    @property
    def pids(self) -> list[int]:
        return [int(line) for line in self._read("pids").split()]

    def alive(self, within: float = 5.0) -> list[int]:
        """Return the servers that still run after this number of seconds."""
        deadline = time.monotonic() + within
        while True:
            running = [pid for pid in self.pids if _runs(pid)]
            if not running or time.monotonic() >= deadline:
                return running
            time.sleep(0.02)

    def _read(self, name: str) -> str:
        file = self.folder / name
        return file.read_text(encoding="utf-8") if file.exists() else ""


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except ProcessLookupError:
        return False
    except FileNotFoundError:  # it ended just now; or this system has no /proc, and the signal is all we know
        return not Path("/proc/self/stat").exists()
    return stat.rpartition(") ")[2][0] != "Z"  # a zombie has ended, but its parent has not waited for it yet


def run_peer(peers: Path, *command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program of another project until its end. It finds the other programs of the peers in PATH."""
    path = f"{peers / 'node_modules/.bin'}:{os.environ['PATH']}"
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ, "MCP_REF_PEERS": str(peers), "PATH": path, **environment},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, encoding="utf-8", timeout=120, check=False,
    )  # fmt: skip
