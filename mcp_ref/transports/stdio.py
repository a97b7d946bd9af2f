"""stdio: the client starts the server as a child process, and they talk over the child's standard input and output.

Each message is one line of UTF-8 JSON. The server can write logs to standard error [2025-11-25 basic/transports#stdio].
The server needs neither a port nor authentication, because only the program that started it can write to its input.

Reasons:
- A server writes only messages to stdout, because the client decodes every line. If a tool called `print`, the client
  would decode the output as an invalid message. `claimed_stdio` therefore hides descriptors 0 and 1 from the tools.
- A message contains no newline, because a newline ends the message. JSON writes a line break in a string as `\\n`.
- Servers write all kinds of logs to stderr, so a client SHOULD NOT take text on stderr as an error (since 2025-11-25).
- The client ends the session by closing the server's stdin, which works on every platform. If the server does not exit,
  the client sends SIGTERM, so that the server can clean up, and then SIGKILL [2025-11-25 basic/lifecycle#shutdown].

    Revision             Content of one line
    up to 2024-11-05     one request, notification or response
    2025-03-26           one message, or a batch (an array of messages)
    from 2025-06-18      one message; batches were removed [2025-06-18 changelog#major-changes]
    from 2026-07-28      one message; only the client sends requests, and only the server sends responses
                         [2026-07-28 basic/transports/stdio#receiving-messages]

Wire:  {"jsonrpc":"2.0","id":1,"method":"tools/list"}
       {"jsonrpc":"2.0","id":1,"result":{"tools":[]}}
Spec:  basic/transports#stdio, basic/lifecycle#shutdown (2024-11-05 to 2025-11-25); 2026-07-28 basic/transports/stdio
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import socket
import stat
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import cast

from ..jsonrpc.errors import ConnectionClosed, McpError
from ..jsonrpc.messages import ID_SEARCH_BYTES, Notification, Outgoing, RequestId, decode, encode, oversize
from .base import EndReport, OnEnd, Receive, Trace, Transport
from .system import SYSTEM, ThreadWriter, read_in_thread

MAX_READ = 64 * 1024
"""Maximum number of bytes that asyncio reads from a pipe at once. By default, asyncio reads at most 256 KiB."""
MAX_LINE = 64 * 1024 * 1024
"""Maximum size of one line, in bytes (64 MiB)."""
FLUSH_SECONDS = 0.5
"""Maximum time for sending the last messages in `close`, and for delivering the last lines after EOF, in seconds."""
EXIT_SECONDS = 0.1
"""Time for which a client waits for the last output and the exit code of a server that ends, in seconds."""
MAX_UNWRITTEN = 16
"""Maximum number of messages that wait to be written together."""


class LineReader:
    """A reader that splits a stream of bytes into lines, and delivers one message for each line.

    The reader skips a line longer than `limit` bytes, and delivers a `Malformed` object in place of the message.
    While the reader is paused, complete lines wait in its buffer, and the caller must stop calling `feed`.
    """

    def __init__(self, receive: Receive, limit: int = MAX_LINE, trace: Trace | None = None) -> None:
        self.paused = False
        """True if the lines in the buffer wait until `resume` is called."""
        self.receive = receive
        self._limit, self._trace = limit, trace
        self._buffer = bytearray()
        self._searched = 0  # the buffer has no newline before this index
        self._skipped: bytes | None = None  # the start of the overlong line that is being skipped
        self._ended: Callable[[], None] | None = None

    def feed(self, data: bytes) -> None:
        """Add the next bytes of the stream. They can end in the middle of a line."""
        self._buffer += data
        self._split_buffer()

    def feed_eof(self, ended: Callable[[], None]) -> None:
        """Note the end of the stream. Call `ended` when all lines are delivered. The last line needs no newline."""
        if self._buffer and not self._buffer.endswith(b"\n"):
            self._buffer += b"\n"
        self._ended = ended
        self._split_buffer()

    def resume(self) -> None:
        """End a pause. Deliver the waiting lines a moment later, so that `receive` is never called inside itself."""
        if self.paused:
            self.paused = False
            asyncio.get_running_loop().call_soon(self._split_buffer)

    def _split_buffer(self) -> None:
        while not self.paused:
            end = self._buffer.find(b"\n", self._searched)
            if end < 0:
                self._searched = len(self._buffer)
                if self._searched > self._limit or self._skipped is not None:
                    self._skip_buffer()
                if self._ended is not None:
                    ended, self._ended = self._ended, None
                    ended()
                return
            line = bytes(self._buffer[:end])
            del self._buffer[: end + 1]
            self._searched = 0
            self._deliver_line(line)

    def _skip_buffer(self) -> None:
        """Drop the buffer, except the start of the overlong line, which may contain the message's id."""
        if self._skipped is None:
            self._skipped = bytes(self._buffer[:ID_SEARCH_BYTES])
        self._buffer.clear()
        self._searched = 0

    def _deliver_line(self, line: bytes) -> None:
        if self._skipped is not None or len(line) > self._limit:
            start, self._skipped = self._skipped or line, None
            self.receive(oversize(start, self._limit))
        elif line and not line.isspace():
            if self._trace is not None:
                self._trace("<-", line)
            self.receive(decode(line))


class _LineTransport(Transport):
    """The common base of the client's and the server's transport: messages as lines, and flow control.

    One piece of input often contains many messages. The messages that are sent in response are written together, with
    fewer system calls: this saves a fifth of the processor time of a server with 64 requests at the same time.
    """

    def __init__(self, max_line: int, trace: Trace | None) -> None:
        self._trace = trace
        self._lines = LineReader(lambda message: None, max_line, trace)
        self._writable = asyncio.Event()  # set while the peer reads fast enough; else senders wait
        self._writable.set()
        self._end = EndReport()
        self._unwritten: list[bytes] | None = None  # the lines to write together; None to write each line at once

    def _feed(self, data: bytes) -> None:
        """Deliver the messages in `data`. Collect what is sent until each receiver of a message has run once."""
        if self._unwritten is None:
            self._unwritten = []
        self._lines.feed(data)  # starts asyncio tasks, which run before `_write_together`
        asyncio.get_running_loop().call_soon(self._write_together)

    def _write_together(self) -> None:
        lines, self._unwritten = self._unwritten, None
        if lines:
            self._write(b"".join(lines))

    def _write(self, line: bytes) -> None:
        """Write a line to the peer."""
        raise NotImplementedError

    def _input(self) -> asyncio.ReadTransport | None:
        """Return the pipe that the peer writes to, or None if the pipe is not open."""
        raise NotImplementedError

    def send(self, message: Outgoing, related: RequestId | None = None) -> None:
        frame = encode(message)
        if self._trace is not None:
            self._trace("->", frame)
        if self._unwritten is None:
            return self._write(frame + b"\n")
        self._unwritten += frame, b"\n"
        # A handler that blocks the event loop must not delay its own progress notifications.
        if isinstance(message, Notification) or len(self._unwritten) >= 2 * MAX_UNWRITTEN:
            self._write(b"".join(self._unwritten))
            self._unwritten.clear()

    async def drain(self, related: RequestId | None = None) -> None:
        """Wait until the peer has read most of the data, if more than 64 KiB (asyncio's default limit) are unsent."""
        if not self._writable.is_set():
            await self._writable.wait()

    def pause_reading(self) -> None:
        if (pipe := self._input()) is not None:
            pipe.pause_reading()
        self._lines.paused = True

    def resume_reading(self) -> None:
        if (pipe := self._input()) is not None:
            pipe.resume_reading()
        self._lines.resume()

    def pause_writing(self) -> None:
        """Make senders wait, because the peer does not read fast enough. Called by asyncio."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Let senders continue. Called by asyncio."""
        self._writable.set()


@contextlib.contextmanager
def claimed_stdio() -> Iterator[tuple[int, int]]:
    """Yield private copies of stdin and stdout, and hide the originals from the program until the block ends.

    In the `with` block, descriptor 0 (stdin) is empty, and descriptor 1 (stdout) leads to standard error. So a `print`,
    an `os.write(1, ...)` or a child process inside a tool can neither write between the messages nor read them.
    """
    # [2025-11-25 basic/transports#stdio] the server MUST NOT write anything to stdout but valid MCP messages
    sys.stdout.flush()
    source, sink = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        yield source, sink
    finally:
        sys.stdout.flush()
        for kept, original in ((source, 0), (sink, 1)):
            SYSTEM.restore_blocking(kept)
            os.dup2(kept, original)
            os.close(kept)
        os.close(nothing)


class StdioServerTransport(_LineTransport, asyncio.Protocol):
    """The server's transport. It reads messages from the descriptor `source`, and writes messages to `sink`.

    Each descriptor can be a pipe, a socket, a terminal or a plain file. The caller closes both descriptors.
    """

    can_restart = True  # a bridge can share this process among clients, and each client sends `initialize`

    def __init__(self, source: int, sink: int, *, max_line: int = MAX_LINE, trace: Trace | None = None) -> None:
        super().__init__(max_line, trace)
        self._source, self._sink = source, sink
        self._reader: asyncio.ReadTransport | None = None
        self._writer: asyncio.WriteTransport | None = None
        self._closing = False

    async def start(self, receive: Receive, on_end: OnEnd) -> None:
        """Begin to read and write."""
        self._end.deliver_to(on_end)
        self._lines.receive = receive
        loop = asyncio.get_running_loop()
        # Give the event loop copies of the descriptors, because uvloop closes a descriptor itself.
        with contextlib.suppress(ValueError, OSError):
            if SYSTEM.is_pollable(self._sink) and _is_socket(self._sink):
                await self._open_socket()
            elif SYSTEM.is_pollable(self._sink):
                sink = os.fdopen(os.dup(self._sink), "wb", 0)
                self._writer, _ = await loop.connect_write_pipe(lambda: _OutputProtocol(self), sink)
        with contextlib.suppress(ValueError, OSError):
            if self._reader is None and SYSTEM.is_pollable(self._source):
                source = os.fdopen(os.dup(self._source), "rb", 0)
                self._reader, _ = await loop.connect_read_pipe(lambda: self, source)
                _limit_reads(self._reader)
        if self._writer is None:
            self._writer = ThreadWriter(self._sink, _OutputProtocol(self))
        if self._reader is None:
            read_in_thread(self._source, self.data_received, lambda: self._lines.paused, self.eof_received)

    async def _open_socket(self) -> None:
        """Open a socket for output. Read from it too if it is also our input, as for a program that inetd starts."""
        # asyncio closes a write pipe when input arrives on it, and a socket carries both directions.
        is_input = os.path.sameopenfile(self._source, self._sink)
        protocol = self if is_input else _OutputProtocol(self)
        connection = socket.socket(fileno=os.dup(self._sink))
        self._writer, _ = await asyncio.get_running_loop().connect_accepted_socket(lambda: protocol, connection)
        if is_input:
            self._reader = self._writer

    def _write(self, line: bytes) -> None:
        if self._writer is not None:
            self._writer.write(line)

    def _input(self) -> asyncio.ReadTransport | None:
        return self._reader if self._reader is not None and not self._reader.is_closing() else None

    def data_received(self, data: bytes) -> None:
        """Read bytes from the client. Called by asyncio."""
        self._feed(data)

    def eof_received(self) -> bool:
        """End the session, because the client has closed our input. Return True to keep a socket open for output."""
        self._lines.feed_eof(lambda: self.report_end(None))
        # While the dispatcher has paused reading, lines wait. The end waits for them at most `FLUSH_SECONDS` seconds.
        asyncio.get_running_loop().call_later(FLUSH_SECONDS, self.report_end, None)
        return True

    def connection_lost(self, error: Exception | None) -> None:
        """End the session, because our input has ended or failed. Called by asyncio."""
        self.report_end(None)

    def report_end(self, error: McpError | None) -> None:
        """Report the end to the session, unless `close` was called."""
        self._writable.set()
        if not self._closing:
            self._end.send(error)

    async def close(self) -> None:
        """Send the pending messages, for at most `FLUSH_SECONDS` seconds, and close."""
        self._write_together()
        self._closing, writer = True, self._writer
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FLUSH_SECONDS):
                while writer is not None and not writer.is_closing() and writer.get_write_buffer_size():
                    await asyncio.sleep(0.005)
        if writer is not None and not writer.is_closing():
            writer.abort()
        if (reader := self._input()) is not None:
            reader.close()
        await asyncio.sleep(0)  # asyncio calls `connection_lost` in the next turn of the loop
        self._end.send(ConnectionClosed("the connection was closed"))


class _OutputProtocol(asyncio.Protocol):
    """The asyncio protocol of a descriptor that a server only writes to. A client sends nothing there.

    It forwards calls to `StdioServerTransport`.
    """

    def __init__(self, owner: StdioServerTransport) -> None:
        self._owner = owner

    def eof_received(self) -> bool:
        return True  # stay open: the client of a socket has only closed its sending side

    def pause_writing(self) -> None:
        self._owner.pause_writing()

    def resume_writing(self) -> None:
        self._owner.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        self._owner.report_end(ConnectionClosed("the client no longer reads our output"))


def _limit_reads(pipe: asyncio.BaseTransport | None) -> None:
    """Make asyncio read at most `MAX_READ` bytes at once."""
    # asyncio allocates its maximum for each read. For 256 KiB the system maps new memory, which takes 15 microseconds.
    if pipe is not None and hasattr(pipe, "max_size"):  # other event loops lack this attribute
        pipe.max_size = MAX_READ


def _is_socket(descriptor: int) -> bool:
    return stat.S_ISSOCK(os.fstat(descriptor).st_mode)


INHERITED_VARIABLES = SYSTEM.inherited_variables
"""The environment variables that a server inherits. Others can hold secrets, so a caller must pass them explicitly."""
SILENT_GRACE_SECONDS = 0.2
"""Time for which `close` waits, before the first signal, for a server that has written no output, in seconds."""
STDERR_TAIL_BYTES = 8192
"""Maximum number of bytes that an error message quotes from the end of the server's standard error."""


def server_environment(extra: Mapping[str, str | None] | None = None) -> dict[str, str]:
    """Return the environment of a server process: the `INHERITED_VARIABLES` that are set, and `extra`.

    None in `extra` removes a variable.
    """
    inherited = {name: os.environ[name] for name in INHERITED_VARIABLES if name in os.environ}
    return {name: value for name, value in {**inherited, **(extra or {})}.items() if value is not None}


def corrected_command(word: str) -> str:
    """Return what the user probably meant by a word that is not a program: a script, or a URL. Else return ""."""
    interpreter = {".py": "python3", ".js": "node"}.get(os.path.splitext(word)[1])
    if interpreter is not None:
        return f"{interpreter} {word}"
    return f"http://{word}" if re.fullmatch(r"([\w.-]+:\d+|localhost|[\w.-]+\.\w+(?=/))(/\S*)?", word) else ""


class StdioClientTransport(_LineTransport, asyncio.SubprocessProtocol):
    """The client's transport. It starts a server process. `close` ends the process and its child processes.

    Args:
        command: The program and its arguments. No shell interprets them.
        env: Environment variables in addition to `INHERITED_VARIABLES`. None removes a variable.
        cwd: Directory to run the server in. Default: the current directory.
        on_stderr: Function that is called with each piece of the server's standard error.
        max_line: Maximum size of one message, in bytes. Default: 64 MiB.
        grace: Time for which `close` waits for the server's exit before each signal, in seconds. Default: 2.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str | None] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        on_stderr: Callable[[bytes], None] | None = None,
        max_line: int = MAX_LINE,
        grace: float = 2.0,
        trace: Trace | None = None,
    ) -> None:
        if isinstance(command, str) or not command:
            raise TypeError(f'command must be a list such as ["python3", "server.py"], got {command!r}')
        super().__init__(max_line, trace)
        self.command = list(command)
        self.stderr_tail = b""
        self._env, self._cwd, self._on_stderr, self._grace = env, cwd, on_stderr, grace
        self._process: asyncio.SubprocessTransport | None = None
        self._stdin: asyncio.WriteTransport | None = None
        self._exited: asyncio.Future[None] | None = None
        self._has_spoken = False  # True if the server has written to its output
        self._closing: asyncio.Task[None] | None = None

    async def start(self, receive: Receive, on_end: OnEnd) -> None:
        """Start the server process. Raises ConnectionClosed if it cannot start, or if `close` is called meanwhile."""
        loop = asyncio.get_running_loop()
        self._end.deliver_to(on_end)
        self._lines.receive = receive
        self._exited = loop.create_future()
        environment = server_environment(self._env)
        try:
            command = SYSTEM.find_program(self.command, environment.get("PATH"))
            own_group = SYSTEM.has_process_groups  # signals then reach the processes that the server starts
            process, _ = await loop.subprocess_exec(
                lambda: self, *command, env=environment, cwd=self._cwd, start_new_session=own_group
            )
        except (OSError, ValueError) as error:
            better = corrected_command(self.command[0])
            hint = "; is it installed, and on the PATH?" if isinstance(error, FileNotFoundError) else ""
            hint = f"; write {better}" if better else hint
            raise ConnectionClosed(f"cannot start the server {self.command[0]!r}: {error}{hint}") from error
        self._process = process
        self._stdin = cast(asyncio.WriteTransport, self._process.get_pipe_transport(0))
        _limit_reads(self._process.get_pipe_transport(1))
        if self._closing is not None:
            await self._stop_process()
            raise ConnectionClosed("the connection was closed while the server was starting")

    @property
    def pid(self) -> int | None:
        """The server's process id, or None before it is started."""
        return self._process.get_pid() if self._process is not None else None

    def _write(self, line: bytes) -> None:
        if self._stdin is not None and not self._stdin.is_closing():
            self._stdin.write(line)

    def _input(self) -> asyncio.ReadTransport | None:
        pipe = self._process.get_pipe_transport(1) if self._process is not None else None
        return cast(asyncio.ReadTransport, pipe) if pipe is not None and not pipe.is_closing() else None

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Read bytes that the server wrote to its stdout (1) or stderr (2)."""
        if fd == 1:
            self._has_spoken = True
            self._feed(data)
        elif fd == 2:
            self.stderr_tail = (self.stderr_tail + data)[-STDERR_TAIL_BYTES:]
            if self._on_stderr is not None:
                self._on_stderr(data)

    def pipe_connection_lost(self, fd: int, error: Exception | None) -> None:
        """Note that one of the pipes was closed."""
        if fd == 1:
            self._lines.feed_eof(self._report_end_soon)
        elif fd == 0:
            self._writable.set()

    def process_exited(self) -> None:
        """Note that the server process has ended."""
        if self._exited is not None and not self._exited.done():
            self._exited.set_result(None)
        self._report_end_soon()

    def _report_end_soon(self) -> None:
        # asyncio reports the closed output before or after the exit. Do not wait for both: a process that the server
        # started can keep the output open, and a server can close its output without exiting.
        asyncio.get_running_loop().call_later(EXIT_SECONDS, self._report_end)

    def _report_end(self) -> None:
        self._writable.set()
        if self._closing is None and not self._end.is_sent:
            self._end.send(ConnectionClosed(self._describe_end()))

    def _describe_end(self) -> str:
        code = self._process.get_returncode() if self._process is not None else None
        how = "closed its output" if code is None else f"exited with code {code}"
        if code is not None and code < 0:
            names = {member.value: member.name for member in signal.Signals}  # real-time signals have no names
            how = f"was killed by signal {names.get(-code, -code)}"
        tail = self.stderr_tail.decode("utf-8", "replace").strip()
        logs = f"; its standard error ends with:\n{tail}" if tail else " and wrote nothing to standard error"
        return f"the server {self.command[0]!r} {how}{logs}"

    async def close(self) -> None:
        """Close the server's input. Send signals if the server does not exit. Then kill the rest of its group."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        await self._stop_process()
        self._writable.set()
        self._end.send(ConnectionClosed("the connection was closed"))

    async def _stop_process(self) -> None:
        process, exited = self._process, self._exited
        if process is None or exited is None:
            return
        # [2025-11-25 basic/lifecycle#shutdown] close the input and wait; SIGTERM and wait; SIGKILL
        self._write_together()
        if self._stdin is not None:
            self._stdin.close()
        for step in ("wait", "ask", "kill"):
            if step != "wait":
                await SYSTEM.end_processes(process.get_pid(), step == "kill", exited.done())
            # A server that has not begun to work has nothing to clean up.
            is_working = step != "wait" or self._has_spoken
            await asyncio.wait([exited], timeout=self._grace if is_working else min(self._grace, SILENT_GRACE_SECONDS))
            if exited.done():
                break
        await SYSTEM.end_processes(process.get_pid(), True, exited.done())  # the processes that the server left running
        process.close()
        await asyncio.sleep(0)  # asyncio reports the closed pipes in the next turn of the loop
