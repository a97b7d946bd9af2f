"""The differences between operating systems: pipes and processes for stdio, and the rights of files.

    POSIX: Linux, macOS                               Windows
    The event loop waits for pipes and terminals.     The event loop cannot wait, so threads read and write.
    `exec` finds `npx` on the PATH.                   Only .exe files are found. `npx` is the batch file npx.cmd.
    A server has its own process group. A signal      Groups and signals do not exist.
    to the group reaches its child processes.         `taskkill /T` ends the process and its child processes.
    Non-blocking mode stays when the program ends.    Consoles do not have this mode: `os.set_blocking` fails.
    Ctrl-C reaches one process group.                 Ctrl-C reaches all programs of a console, and a server without a
                                                      console opens a window. So a server gets a hidden console.
    Names of variables have case.                     `Path` and `PATH` are one variable.
    A file's mode shows who can write to it.          The mode shows only if a file is read-only for all users.

The tests use the class `Windows` on Linux. No test has run on Windows.

Spec:  basic/transports#stdio, basic/lifecycle#shutdown (2024-11-05 to 2025-11-25); 2026-07-28 basic/transports/stdio
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import select
import signal
import stat
import threading
from collections.abc import Callable, Sequence
from typing import Final

PIECE: Final = 64 * 1024
"""Maximum size of one read or write by a thread, in bytes."""
MAX_UNSENT: Final = 64 * 1024
"""Size of unsent data above which senders must wait, in bytes. asyncio's own transports have the same limit."""
TASKKILL_SECONDS: Final = 5.0
"""Maximum time for which the client waits for `taskkill`, in seconds."""


class Posix:
    """The behavior on Linux, macOS and similar systems."""

    inherited_variables: tuple[str, ...] = (
        "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER",
    )  # fmt: skip
    has_process_groups = True
    """True if a server can have a process group of its own."""
    creation_flags = 0
    """The `creationflags` of `subprocess.Popen` for a server."""

    def variable_name(self, name: str) -> str:
        """Return the spelling of an environment variable's name that `os.environ` uses."""
        return name

    def is_pollable(self, descriptor: int) -> bool:
        """Return True if the event loop can wait for the descriptor (not for plain files and /dev/null)."""
        mode = os.fstat(descriptor).st_mode
        return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)

    def is_shared(self, status: os.stat_result) -> bool:
        """Return True if other users can write to the file with this status."""
        return bool(status.st_mode & 0o022)

    def has_hung_up(self, pipe: int) -> bool:
        """Return True if all writers have closed the pipe, even if it still contains data."""
        poll = select.poll()
        poll.register(pipe, 0)
        return any(event & select.POLLHUP for _, event in poll.poll(0))

    def restore_blocking(self, descriptor: int) -> None:
        """Make the descriptor blocking again, as other programs that share it expect, such as a shell."""
        os.set_blocking(descriptor, True)

    def find_program(self, command: Sequence[str], path: str | None) -> list[str]:
        """Return a command that the system can start. Raise OSError if the arguments are not safe."""
        return list(command)

    async def end_processes(self, pid: int, force: bool, has_exited: bool) -> None:
        """End a server and the processes that it has started. Without `force`, only ask them to end."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL if force else signal.SIGTERM)


class Windows(Posix):
    """The behavior on Windows."""

    inherited_variables = (
        "APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH", "PATHEXT", "PROCESSOR_ARCHITECTURE",
        "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP", "USERNAME", "USERPROFILE",
    )  # fmt: skip
    has_process_groups = False
    creation_flags = 0x08000000  # CREATE_NO_WINDOW; `subprocess` has this name only on Windows

    def variable_name(self, name: str) -> str:
        return name.upper()

    def is_pollable(self, descriptor: int) -> bool:
        return False

    def is_shared(self, status: os.stat_result) -> bool:
        return False  # an access list decides, which the standard library cannot read

    def restore_blocking(self, descriptor: int) -> None:
        pass  # threads leave the mode unchanged

    def find_program(self, command: Sequence[str], path: str | None) -> list[str]:
        import shutil  # lazy: it loads the modules for compression, which takes 3 ms

        program = shutil.which(command[0], path=path) or command[0]  # adds .cmd and the other endings of PATHEXT
        if program.lower().endswith((".bat", ".cmd")):
            for argument in command[1:]:
                # Windows runs a batch file in its shell, which interprets these characters, even in quotation marks.
                if re.search(r'["%!&|<>^()\r\n]', argument):
                    raise OSError(f"the argument {argument[:80]!r} is not safe for the batch file {program}")
        return [program, *command[1:]]

    async def end_processes(self, pid: int, force: bool, has_exited: bool) -> None:
        if has_exited:
            return  # taskkill finds child processes only while their parent runs
        with contextlib.suppress(OSError, TimeoutError):
            null = asyncio.subprocess.DEVNULL
            # The whole path, because Windows looks for a program in the current directory first
            taskkill = os.path.join(os.environ.get("SYSTEMROOT", r"C:\Windows"), "System32", "taskkill.exe")
            command = (taskkill, "/PID", str(pid), "/T", *(("/F",) if force else ()))
            killer = await asyncio.create_subprocess_exec(
                *command, stdin=null, stdout=null, stderr=null, creationflags=self.creation_flags
            )
            await asyncio.wait_for(killer.wait(), TASKKILL_SECONDS)


SYSTEM = Windows() if os.name == "nt" else Posix()
"""The behavior on this system."""


def read_in_thread(descriptor: int, feed: Callable[[bytes], None], is_paused: Callable[[], bool],
                   ended: Callable[[], object]) -> None:  # fmt: skip
    """Read a descriptor for which the event loop cannot wait. Call `feed` in the event loop, and `ended` at the end.

    The thread reads a copy of the descriptor. On Windows, closing a descriptor waits until its read has returned. So
    without the copy, Ctrl-C would not end the program.
    """
    loop, source = asyncio.get_running_loop(), os.dup(descriptor)

    async def feed_later(data: bytes) -> None:
        while is_paused():
            await asyncio.sleep(0.01)  # the thread waits for this coroutine
        feed(data)

    def read() -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            with contextlib.suppress(OSError):
                while data := os.read(source, PIECE):
                    asyncio.run_coroutine_threadsafe(feed_later(data), loop).result()
            loop.call_soon_threadsafe(ended)
        os.close(source)

    threading.Thread(target=read, name="mcp-stdin", daemon=True).start()


class ThreadWriter(asyncio.WriteTransport):
    """A writer to a descriptor for which the event loop cannot wait. A peer that does not read blocks only a thread."""

    def __init__(self, descriptor: int, protocol: asyncio.BaseProtocol) -> None:
        super().__init__()
        from queue import SimpleQueue  # lazy: on POSIX, few servers need these threads

        self._loop, self._protocol = asyncio.get_running_loop(), protocol
        self._queue: SimpleQueue[bytes | None] = SimpleQueue()
        self._unsent = 0  # bytes
        self._is_paused = self._is_closing = False
        threading.Thread(target=self._run, args=(os.dup(descriptor),), name="mcp-stdout", daemon=True).start()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._is_closing:
            self._unsent += len(data)
            self._queue.put(bytes(data))
            if self._unsent > MAX_UNSENT and not self._is_paused:
                self._is_paused = True
                self._protocol.pause_writing()

    def get_write_buffer_size(self) -> int:
        return self._unsent

    def is_closing(self) -> bool:
        return self._is_closing

    def abort(self) -> None:
        """End the thread. Unsent data is lost."""
        self._is_closing = True
        self._queue.put(None)

    def _run(self, sink: int) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            try:
                while (data := self._queue.get()) is not None and not self._is_closing:
                    unwritten = memoryview(data)
                    while unwritten:
                        unwritten = unwritten[os.write(sink, unwritten[:PIECE]) :]
                    self._loop.call_soon_threadsafe(self._note_sent, len(data))
            except OSError as error:
                self._loop.call_soon_threadsafe(self._protocol.connection_lost, error)
        os.close(sink)

    def _note_sent(self, size: int) -> None:
        self._unsent -= size
        if self._is_paused and self._unsent <= MAX_UNSENT // 4:
            self._is_paused = False
            self._protocol.resume_writing()
