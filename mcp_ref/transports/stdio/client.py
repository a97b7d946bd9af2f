"""The client's side of stdio: it starts the server as a child process, and ends it.

To end the session, the client closes the server's stdin, which works on every platform. If the server does not exit, it
gets SIGTERM, so that it can still clean up, and then SIGKILL [2025-11-25 basic/lifecycle#shutdown].

Spec:  basic/transports#stdio, basic/lifecycle#shutdown (2024-11-05 to 2025-11-25); 2026-07-28 basic/transports/stdio
Used by: client/target.py
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import cast

from ...jsonrpc.errors import ConnectionClosed
from ...jsonrpc.large_messages import decode_large
from ...jsonrpc.messages import Batch, Incoming, Request, RequestFailure, decode
from ...jsonrpc.outline import MAX_UNREQUESTED
from .. import system
from ..base import OnEnd, Receive, Trace
from .lines import MAX_LINE, LineTransport, limit_reads

EXIT_SECONDS = 0.1
"""Time for which a client waits for the last output of a server that has exited, in seconds."""
INHERITED_VARIABLES = system.SYSTEM.inherited_variables
"""The environment variables that a server inherits. Others may hold secrets, so a caller must pass them explicitly."""
SILENT_GRACE_SECONDS = 0.2
"""Time before the first signal to a server that has written nothing and so has nothing to clean up, in seconds."""
STDERR_TAIL_BYTES = 8192
"""Maximum number of bytes that an error message quotes from the end of the server's standard error."""


def server_environment(extra: Mapping[str, str | None] | None = None) -> dict[str, str]:
    """Return the environment of a server process: the `INHERITED_VARIABLES`, and `extra`, in which None removes one."""
    variables: dict[str, str | None] = {name: os.environ[name] for name in INHERITED_VARIABLES if name in os.environ}
    variables.update((system.SYSTEM.variable_name(name), value) for name, value in (extra or {}).items())
    return {name: value for name, value in variables.items() if value is not None}


def check_command(command: Sequence[str]) -> None:
    """Raise TypeError if a command is not a list of strings that begins with a program."""
    words = [] if isinstance(command, str) else list(command)
    if not words or not words[0] or not all(isinstance(word, str) for word in words):
        raise TypeError(f'the command must be a list of strings, such as ["python3", "server.py"], not {command!r:.99}')


def corrected_command(word: str) -> str:
    """Return the command or URL that the user probably meant by a word that is not a program, or ""."""
    if re.match(r"[\w.-]+ ", word):
        return word  # a whole command in one string
    interpreter = {".py": "python3", ".js": "node"}.get(os.path.splitext(word)[1])
    if interpreter is not None:
        return f"{interpreter} {word}"
    # A URL without http://: host:port, localhost or host.domain/..., perhaps after another scheme, such as ws://
    word = re.sub(r"^(?!https?:)\w+://", "", word)
    return f"http://{word}" if re.fullmatch(r"([\w.-]+:\d+|localhost|[\w.-]+\.\w+(?=/))(/\S*)?", word) else ""


class StdioClientTransport(LineTransport, asyncio.SubprocessProtocol):
    """The client's transport, which starts a server process. `close` ends this process and its child processes.

    No shell interprets the command. `env` is the `extra` of `server_environment`. `grace` is the time, in seconds, for
    which `close` waits for the exit before each signal, and open requests after the server has closed a pipe.
    """

    def __init__(
        self, command: Sequence[str], *, env: Mapping[str, str | None] | None = None,
        cwd: str | os.PathLike[str] | None = None, on_stderr: Callable[[bytes], None] | None = None,
        max_line: int = MAX_LINE, grace: float = 2.0, trace: Trace | None = None,
    ) -> None:  # fmt: skip
        check_command(command)
        super().__init__(max_line, trace)
        self.command, self.stderr_tail = list(command), b""
        self._env, self._cwd, self._on_stderr, self._grace = env, cwd, on_stderr, grace
        self._process: asyncio.SubprocessTransport | None = None
        self._stdin: asyncio.WriteTransport | None = None
        self._exited = asyncio.Event()
        self._has_spoken = False  # True if the server has written to its output
        self._closing: asyncio.Task[None] | None = None

    async def start(self, receive: Receive, on_end: OnEnd) -> None:
        """Start the server process. Raise ConnectionClosed if it cannot start, or if `close` is called meanwhile."""
        loop = asyncio.get_running_loop()
        self._end_report.deliver_to(on_end)
        self._lines.receive, self._lines.decode = receive, self._decode
        environment = server_environment(self._env)
        try:
            command = system.SYSTEM.find_program(self.command, environment.get("PATH"), self._cwd)
            process, _ = await loop.subprocess_exec(
                lambda: self, *command, env=environment, cwd=self._cwd, creationflags=system.SYSTEM.creation_flags,
                start_new_session=system.SYSTEM.has_process_groups,  # for signals to the server's own processes
            )  # fmt: skip
        except (OSError, ValueError, NotImplementedError) as error:
            raise ConnectionClosed(f"cannot start the server {self.command[0]!r}: {self._explain(error)}") from error
        self._process = process
        self._stdin = cast(asyncio.WriteTransport, process.get_pipe_transport(0))
        limit_reads(process.get_pipe_transport(1))
        if self._closing is not None:
            await self._stop(process)
            raise ConnectionClosed("the connection was closed while the server was starting")

    def _explain(self, error: Exception) -> str:
        if isinstance(error, NotImplementedError):
            return "this event loop cannot start processes; on Windows, use asyncio's default loop (ProactorEventLoop)"
        correction = corrected_command(self.command[0])
        if correction:
            separately = ", as separate words" if correction == self.command[0] else ""
            return f"{error}; write {correction}{separately}"
        if not isinstance(error, FileNotFoundError):
            return str(error)
        is_folder = self._cwd is not None and error.filename == self._cwd
        return f"{error}; {'its working directory must exist' if is_folder else 'is it installed, and on the PATH?'}"

    def _decode(self, line: bytes) -> Incoming:
        return decode(line) if len(line) <= MAX_UNREQUESTED else decode_large(line, self.waits_for)

    @property
    def pid(self) -> int | None:
        return self._process.get_pid() if self._process is not None else None

    def _write(self, line: bytes) -> None:
        if self._stdin is not None and not self._stdin.is_closing():
            return self._stdin.write(line)
        loop = asyncio.get_running_loop()
        loop.call_later(EXIT_SECONDS, self._fail_requests, line)  # by then we have read its standard error
        loop.call_later(self._grace, self._report_end)  # by then it has sent its responses to earlier requests

    def _fail_requests(self, lines: bytes) -> None:
        for message in map(decode, lines.splitlines()):  # decoded, because queued messages are kept only as lines
            for member in message.messages if isinstance(message, Batch) else [message]:
                if isinstance(member, Request) and self._closing is None:
                    self._lines.receive(RequestFailure(member.id, self._describe_end(), unsent=True))

    def _input(self) -> asyncio.ReadTransport | None:
        pipe = self._process.get_pipe_transport(1) if self._process is not None else None
        return cast(asyncio.ReadTransport, pipe) if pipe is not None and not pipe.is_closing() else None

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 1:  # the server's stdout
            self._has_spoken = True
            if self._closing is None or self._trace is not None:  # a closed session uses no messages, but a trace does
                self.data_received(data)
        elif fd == 2:  # its stderr
            self.stderr_tail = (self.stderr_tail + data)[-STDERR_TAIL_BYTES:]
            if self._on_stderr is not None:
                self._on_stderr(data)

    def pipe_connection_lost(self, fd: int, error: Exception | None) -> None:
        # asyncio reports the closed output before or after the exit, but one of them may never come: a process that the
        # server started can keep the output open, and a server can close its output without exiting.
        if fd == 1:
            self._lines.feed_eof(lambda: asyncio.get_running_loop().call_later(self._grace, self._report_end))
        elif fd == 0:
            if error is not None:  # a message was lost at least in part, so its response will never come
                asyncio.get_running_loop().call_later(self._grace, self._report_end)
            self._writable.set()

    def pause_reading(self) -> None:
        if not self._exited.is_set():  # the last output of an ended process is short, and its end is reported soon
            super().pause_reading()

    def process_exited(self) -> None:
        self._exited.set()
        self.resume_reading()
        asyncio.get_running_loop().call_later(EXIT_SECONDS, self._report_end)

    def _report_end(self) -> None:
        self._writable.set()
        if self._closing is None and not self._end_report.is_sent:
            self._end_report.send(ConnectionClosed(self._describe_end()))

    def _describe_end(self) -> str:
        code = self._process.get_returncode() if self._process is not None else None
        closed = "input" if self._stdin is not None and self._stdin.is_closing() else "output"
        how = f"closed its {closed}" if code is None else f"exited with code {code}"
        if code is not None and code < 0:
            names = {member.value: member.name for member in signal.Signals}  # real-time signals have no names
            how = f"was killed by signal {names.get(-code, -code)}"
        tail = self.stderr_tail.decode("utf-8", "replace").strip()
        logs = f"; its standard error ends with:\n{tail}" if tail else " and wrote nothing to standard error"
        if code == 0 and not tail and not self._has_spoken:
            logs += "; is a call such as `server.run()` missing?"
        return f"the server {self.command[0]!r} {how}{logs}"

    async def close(self) -> None:
        """Close the server's input, send signals if it does not exit, and kill the processes that it left running."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        if self._process is not None:
            await self._stop(self._process)
        self._end_report.send(ConnectionClosed("the connection was closed"))

    async def _stop(self, process: asyncio.SubprocessTransport) -> None:
        pid = process.get_pid()
        # [2025-11-25 basic/lifecycle#shutdown] we SHOULD close the input and wait, then SIGTERM and wait, then SIGKILL
        self._write_together()
        if self._stdin is not None:
            self._stdin.close()
        if not await self._exits_within(self._grace if self._has_spoken else min(self._grace, SILENT_GRACE_SECONDS)):
            await system.SYSTEM.end_processes(pid, force=False, has_exited=False)
            if not await self._exits_within(self._grace):
                await system.SYSTEM.end_processes(pid, force=True, has_exited=False)
                await self._exits_within(self._grace)
        await system.SYSTEM.end_processes(pid, force=True, has_exited=self._exited.is_set())  # its children
        if self._stdin is not None and self._stdin.get_write_buffer_size():
            self._stdin.abort()  # unsent data keeps a closed pipe open while any process can read it
        process.close()
        await asyncio.sleep(0)  # asyncio reports the closed pipes in the next turn of the loop

    async def _exits_within(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._exited.wait()
        return self._exited.is_set()
