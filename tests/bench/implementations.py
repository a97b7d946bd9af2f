"""The implementations that the benchmark compares, and their processes.

Each has a program in `programs/`, with one interface:

- `PROGRAM http TOOLS` and `PROGRAM sse TOOLS` serve Streamable HTTP and print the URL. `http` responds to a call with
  JSON, `sse` with server-sent events.
- `PROGRAM stdio TOOLS` serves stdio.
- `PROGRAM client TARGET...` connects to the server at a URL, or to the server that a command starts. It prints a line,
  reads a number of calls from stdin, makes them, 64 at a time, prints a line, and so on.
- `PROGRAM host URL` does the same through a host; the limit, which has no host, as a client.

A server has the tools `add(a, b)`, `count(to)`, which reports progress, `join()`, which is called once in each session,
`announce()`, which tells all sessions that the list of tools has changed, and TOOLS more tools.

Other implementations come from the folder that MCP_REF_PEERS names.
"""

from __future__ import annotations

import compileall
import contextlib
import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAMS = Path(__file__).resolve().parent / "programs"
CORES = sorted(os.sched_getaffinity(0))
"""The processor cores for the benchmark. The load gets the last core, and the measured process gets the first."""

TIMEOUT = 120.0
"""Maximum time to wait for output or a response, in seconds."""


@dataclass(frozen=True)
class Implementation:
    """A program of `programs/`."""

    name: str
    command: tuple[str, ...]
    """The interpreter and the program."""
    package: Path = ROOT
    """The folder of the implementation; for mcp_ref, the folder that contains the package."""
    lacks: frozenset[str] = frozenset()
    """The rows that the implementation cannot run."""
    counts_instructions: bool = False
    """True if the program runs under Valgrind, which counts its instructions."""

    def is_installed(self) -> bool:
        """Return True if the interpreter and the implementation exist."""
        return Path(self.command[0]).exists() and self.package.exists()


LIMIT = Implementation("limit", (sys.executable, str(PROGRAMS / "limit.py")))


@cache
def ours(name: str = "mcp_ref", checkout: Path = ROOT) -> Implementation:
    """Return mcp_ref, as it is in a checkout, with cached bytecode: an installed package has it, and starts faster."""
    compileall.compile_dir(checkout / "mcp_ref", quiet=1)
    return Implementation(name, (sys.executable, str(PROGRAMS / "ours.py")), checkout.resolve())


_MODERN = {"http-stateless", "progress-modern", "stdio-modern", "streams-modern"}
_STDIO = {"stdio-legacy", "start", "start-10000", "list-10000"}
_CLIENT = {"client-session", "client-stateless", "client-stdio", "client-host"}


def find_peers() -> list[Implementation]:
    """Return the other implementations, installed or not."""
    folder = Path(os.environ.get("MCP_REF_PEERS", "peers-are-not-installed"))
    node = str(folder / "node_modules/.bin/node")

    def peer(name: str, interpreter: str, program: str, package: str, lacks: set[str]) -> Implementation:
        return Implementation(name, (interpreter, str(PROGRAMS / program)), folder / package, frozenset(lacks))

    return [
        peer("official SDK", str(folder / "python-sdk-2/bin/python"), "python_sdk.py", "python-sdk-2", {"client-host"}),
        peer("TypeScript SDK", node, "typescript_sdk.mjs", "node_modules/@modelcontextprotocol/server",
             {"client-host"}),
        peer("mcp-lite", node, "mcp_lite.mjs", "node_modules/mcp-lite",
             _MODERN | _STDIO | _CLIENT | {"streams-legacy"}),  # under this load it closes idle streams
        peer("zeromcp", str(folder / "zeromcp/bin/python"), "zeromcp_server.py", "zeromcp",
             _MODERN | _CLIENT | {"progress-legacy", "streams-legacy"}),
    ]  # fmt: skip


class Process:
    """A running program, its processor time and its memory."""

    def __init__(self, implementation: Implementation, *arguments: str) -> None:
        env = {**os.environ, "PYTHONPATH": str(implementation.package)}
        self._counts_instructions = implementation.counts_instructions
        counter = ["valgrind", "-q", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
        command = [*(counter if self._counts_instructions else ()), *implementation.command, *arguments]
        self.popen = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, env=env)
        os.sched_setaffinity(self.popen.pid, CORES[:1])
        assert self.popen.stdin is not None and self.popen.stdout is not None
        self.stdin, self.stdout = self.popen.stdin, self.popen.stdout
        self._rest = b""

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[self.stdin.write(view) :]

    def read(self) -> bytes:
        """Return the next output.

        Raises:
            RuntimeError: The program has ended, or is silent for TIMEOUT seconds.
        """
        poll = select.poll()
        poll.register(self.stdout, select.POLLIN)
        ready = poll.poll(TIMEOUT * 1000)
        data = os.read(self.stdout.fileno(), 1 << 20) if ready else b""
        if not data:
            raise RuntimeError(f"{self.popen.args!r} has {'ended' if ready else 'not answered'}")
        return data

    def read_line(self) -> bytes:
        """Return the next line of the output."""
        while b"\n" not in self._rest:
            self._rest += self.read()
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def processor_time(self) -> float:
        """Return the processor time of all threads, in seconds; or their instructions, in thousands of millions.

        An instruction counts as a nanosecond, so that a figure in microseconds has the unit of 1,000 instructions.
        """
        if self._counts_instructions:
            command = ["callgrind_control", "-e", str(self.popen.pid)]
            report = subprocess.run(command, check=True, capture_output=True, text=True, timeout=TIMEOUT).stdout
            return sum(int(count.replace(",", "")) for count in re.findall(r"^ *Th \d+ +([\d,]+)", report, re.M)) / 1e9
        # Linux derives the clock of a process from its id. /proc/PID/stat counts in steps of 10 ms.
        return time.clock_gettime((~self.popen.pid) << 3 | 2)

    def resident(self) -> int:
        """Return the resident memory, in bytes."""
        pages = Path(f"/proc/{self.popen.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")


@contextlib.contextmanager
def running(implementation: Implementation, *arguments: str) -> Iterator[Process]:
    """Run a program until the end of the block."""
    process = Process(implementation, *arguments)
    try:
        yield process
    finally:
        process.popen.kill()
        process.popen.wait()
        process.stdin.close()
        process.stdout.close()
