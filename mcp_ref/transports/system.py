"""The differences between operating systems: pipes and processes for stdio, and the rights of files.

    POSIX: Linux, macOS                               Windows
    The event loop waits for pipes and terminals.     The event loop cannot wait, so threads read and write.
    `npx` is a program on the PATH.                   `npx` is the batch file npx.cmd on the PATH.
    A server has its own process group. A signal      Groups and signals do not exist.
    to the group reaches its child processes.         `taskkill /T` ends the process and its child processes.
    Non-blocking mode outlives the program.           Consoles do not have this mode: `os.set_blocking` fails.
    Ctrl-C reaches one process group.                 Ctrl-C reaches all programs of a console, so a server gets a
                                                      hidden console. Without any console, it would open a window.
    `Path` and `PATH` are two environment variables.  They are one variable.
    Modes and owners show who can change a file.      The mode shows only if a file is read-only for all users.

The tests use the class `Windows` on Linux. No test has run on Windows.

Threats:
    program-in-current-directory: The author of a downloaded folder runs code in the user's account with an `npx.cmd` or
        `npx`, which the system finds before the real one, or by a relative entry of the PATH. The client searches only
        absolute entries, and gives the system the absolute path.
    batch-file-argument: The author of an argument such as `a&calc` runs code in the user's account, because Windows
        runs batch files in a shell, which obeys it. The client refuses such arguments of batch files.
    file-of-another-user: Another user of the machine forges the user's consent with a file that looks like the user's
        own, or replaces a folder above it. On POSIX, `is_shared` checks owners and modes of file, folders and links.

Spec:  basic/transports#stdio, basic/lifecycle#shutdown (2024-11-05 to 2025-11-25); 2026-07-28 basic/transports/stdio
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import re
import select
import signal
import stat
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from .base import Trace

log = logging.getLogger(__name__)

PIECE: Final = 64 * 1024
"""Maximum size of one read or write by a thread, in bytes."""
MAX_UNSENT: Final = 64 * 1024
"""Size of unsent data above which senders must wait, in bytes. asyncio's own transports have the same limit."""
MAX_NAMES: Final = 1000
"""Maximum number of folders and links above a file that are checked, because a circle of links has no end."""
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

    def is_shared(self, path: str) -> bool:
        """Return True if another user, except the administrator, can change or replace the file. Raise OSError."""
        # From the root down, `checked` grows by one of the `remaining` names. At a link, begin again with its target.
        remaining, checked = _names(os.path.abspath(path)), os.sep
        for _ in range(MAX_NAMES):
            status = os.lstat(checked)
            is_link = stat.S_ISLNK(status.st_mode)  # a link has no mode of its own
            is_sticky = status.st_mode & stat.S_ISVTX  # as /tmp is, where users can replace only their own files
            others_can_write = not is_link and not is_sticky and status.st_mode & 0o022
            if others_can_write or status.st_uid not in (0, os.geteuid()):
                return True
            if is_link:
                target = os.path.join(os.path.dirname(checked), os.readlink(checked))
                remaining, checked = _names(target) + remaining, os.sep
            elif not remaining:
                return False
            else:
                checked = os.path.join(checked, remaining.pop(0))
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)

    def has_hung_up(self, pipe: int) -> bool:
        """Return True if all writers have closed the pipe, even if it still contains data."""
        poll = select.poll()
        poll.register(pipe, 0)
        return any(event & select.POLLHUP for _, event in poll.poll(0))

    def restore_blocking(self, descriptor: int) -> None:
        """Make the descriptor blocking again, as other programs that share it expect, such as a shell."""
        os.set_blocking(descriptor, True)

    def find_program(self, command: Sequence[str], path: str | None, cwd: str | os.PathLike[str] | None) -> list[str]:
        """Return the command with the absolute path of its program. Raise OSError if it is not found or not safe.

        Args:
            command: The program and its arguments.
            path: The PATH of the new process. Relative and empty entries are skipped, because their meaning depends on
                the current directory.
            cwd: Directory of the new process, to which a program with a `/` is relative.
        """
        program, *arguments = command
        here = os.path.join(os.getcwd(), cwd or "")
        entries = os.defpath if path is None else path
        folders = [here] if os.path.dirname(program) else _absolute(entries.split(os.pathsep))
        for folder in folders:
            for ending in self._endings(program):
                found = os.path.join(folder, program + ending)
                if os.path.isfile(found) and os.access(found, os.X_OK):
                    return [found, *arguments]
        if os.path.dirname(program) and os.path.exists(os.path.join(here, program)):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), program)
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), program)

    def _endings(self, program: str) -> Sequence[str]:
        """Return the endings that the system adds to the name of a program."""
        return ("",)

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

    def is_shared(self, path: str) -> bool:
        return False  # not known: the standard library cannot read access lists, which decide this

    def restore_blocking(self, descriptor: int) -> None:
        pass  # threads leave the mode unchanged

    def find_program(self, command: Sequence[str], path: str | None, cwd: str | os.PathLike[str] | None) -> list[str]:
        found = super().find_program(command, path, cwd)
        if found[0].lower().rstrip(" .").endswith((".bat", ".cmd")):  # Windows ignores spaces and dots at the end
            for argument in found[1:]:
                # Windows runs a batch file in its shell, which interprets these characters, even in quotation marks.
                if re.search(r'["%!&|<>^()\r\n]', argument):
                    raise OSError(f"the argument {argument[:80]!r} is not safe for the batch file {found[0]}")
        return found

    def _endings(self, program: str) -> Sequence[str]:
        endings = os.environ.get("PATHEXT", ".COM;.EXE;.BAT;.CMD").split(";")
        has_ending = program.lower().endswith(tuple(ending.lower() for ending in endings if ending))
        return ("",) if has_ending else endings

    async def end_processes(self, pid: int, force: bool, has_exited: bool) -> None:
        if has_exited:
            return  # taskkill finds child processes only while their parent runs
        with contextlib.suppress(OSError, TimeoutError):
            null = asyncio.subprocess.DEVNULL
            # The whole path, because Windows looks for a program in the current directory first
            taskkill = os.path.join(os.environ.get("SYSTEMROOT", r"C:\Windows"), "System32", "taskkill.exe")
            command = [taskkill, "/PID", str(pid), "/T"]
            if force:
                command.append("/F")
            killer = await asyncio.create_subprocess_exec(
                *command, stdin=null, stdout=null, stderr=null, creationflags=self.creation_flags
            )
            await asyncio.wait_for(killer.wait(), TASKKILL_SECONDS)


def _names(path: str) -> list[str]:
    return [name for name in path.split(os.sep) if name]


def _absolute(entries: Sequence[str]) -> list[str]:
    # not `isabs`: on Windows, a path such as `\\tools` means another folder on each drive
    return [entry for entry in entries if os.path.abspath(entry) == os.path.normpath(entry)]


SYSTEM = Windows() if os.name == "nt" else Posix()
"""The behavior on this system."""


def read_in_thread(descriptor: int, feed: Callable[[bytes], None], is_paused: Callable[[], bool],
                   ended: Callable[[], object]) -> None:  # fmt: skip
    """Read a descriptor for which the event loop cannot wait. Call `feed` in the event loop, and `ended` at the end.

    The thread reads a copy of the descriptor. On Windows, a descriptor can be closed only after its read has returned,
    so without the copy, the program would not end on Ctrl-C before the next input.
    """
    loop, source = asyncio.get_running_loop(), os.dup(descriptor)

    async def feed_later(data: bytes) -> None:
        while is_paused():
            await asyncio.sleep(0.01)  # the thread waits for this coroutine, and reads no further
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


def describe_bind_error(error: OSError | OverflowError) -> str:
    """Return the reason why a server cannot listen on an address."""
    number = getattr(error, "errno", None)
    if number == errno.EADDRINUSE:
        return "the port is in use; stop the other program, or choose another port"
    # From Python 3.13 on, asyncio raises an error without a number if the machine has none of a host's addresses.
    if number == errno.EADDRNOTAVAIL or str(error).startswith("could not bind on any address"):
        return "this machine does not have this address; 0.0.0.0 listens on all addresses that it has"
    return str(getattr(error, "strerror", None) or error)


def chosen_trace(trace: Trace | None, side: Literal["client", "server"]) -> Trace | None:
    """Return the given trace, or else `trace_from_environment`. Its exceptions are logged, and do not stop messages."""
    trace = trace or trace_from_environment(side)
    if trace is None:
        return None
    from .trace import guarded_trace  # lazy: few programs are traced

    return guarded_trace(trace)


def trace_from_environment(side: Literal["client", "server"]) -> Trace | None:
    """Return a trace, or None if the environment variable MCP_REF_TRACE is missing, empty or 0.

    The trace writes to standard error, or to a recording if the variable is the name of a `.jsonl` file. A file that
    cannot be written is logged, and leaves the program without a trace.

    Args:
        side: The side of the program that is traced.
    """
    wanted = os.environ.get("MCP_REF_TRACE", "")
    if wanted in ("", "0"):
        return None
    if wanted.endswith(".jsonl"):
        from .recorded import recording_trace  # lazy: few programs are recorded

        try:
            return recording_trace(wanted, side)
        except OSError as error:  # a wrong variable must not stop a server
            log.warning("MCP_REF_TRACE: cannot record to %s: %s", wanted, error.strerror)
            return None
    from .trace import tracer  # lazy: few programs are traced

    return tracer()
