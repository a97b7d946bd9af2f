"""stdio: the client starts the server as a child process and talks to it over the child's standard input and output.

One message a line, UTF-8, nothing else on either stream; standard error is free for logs. The client ends the
conversation by closing the child's input; a child that stays is asked to leave (SIGTERM), then made to (SIGKILL).

Two classes, one for each side of the pipe:

- `StdioServerTransport` takes the process's real stdin and stdout for the protocol. `claimed_stdio` puts harmless ones
  in their place, so that a `print`, an `os.write(1, ...)` or a child process inside a tool can neither corrupt the
  output nor eat the input.
- `StdioClientTransport` starts the command, drains its standard error and keeps the end of it for error messages, and
  leaves no process behind, grandchildren included.

Spec:  basic/transports#stdio (2024-11-05 to 2025-11-25), basic/lifecycle#shutdown
Below: `lines.py`. Elsewhere: what a server does when its input ends (`runtime/server.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import stat
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import cast

from ..jsonrpc.errors import ConnectionClosed, McpError
from ..jsonrpc.messages import RECOVERY_WINDOW, Outgoing, RequestId, decode, encode, oversize
from .base import FlowControl, Lost, Receive, Trace, Transport

# ---------------------------------------------------------------------------------------------------- lines

MAX_LINE = 64 * 1024 * 1024
"""Bytes in one line, by default (64 MiB)."""


class LineReader:
    """Takes bytes as they come, in pieces of any size, and hands on one message for each line.

    A line of more than `limit` bytes is skipped up to its end, without being kept, and reported as malformed: the next
    line is a message again. While paused, complete lines wait in the buffer; whoever feeds must then stop feeding.
    """

    def __init__(self, receive: Receive, limit: int = MAX_LINE, trace: Trace | None = None) -> None:
        self.paused = False
        self._receive = receive
        self._limit = limit
        self._trace = trace
        self._buffer = bytearray()
        self._searched = 0  # no newline before this index: a long line is not searched again for every piece
        self._skipped: bytes | None = None  # the start of the overlong line that is being skipped
        self._ended: Callable[[], None] | None = None

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the stream."""
        self._buffer += data
        self._cut()

    def feed_eof(self, ended: Callable[[], None]) -> None:
        """The stream has ended; a last line needs no newline. `ended` is called when all lines have been handed on."""
        if self._buffer and not self._buffer.endswith(b"\n"):
            self._buffer += b"\n"
        self._ended = ended
        self._cut()

    def pause(self) -> None:
        """Hand on nothing until `resume`."""
        self.paused = True

    def resume(self) -> None:
        """Go on, in the next turn of the event loop: the caller may be deep inside `receive`."""
        if self.paused:
            self.paused = False
            asyncio.get_running_loop().call_soon(self._cut)

    def _cut(self) -> None:
        while not self.paused:
            end = self._buffer.find(b"\n", self._searched)
            if end < 0:
                self._searched = len(self._buffer)
                if self._searched > self._limit or self._skipped is not None:
                    self._skip()
                if self._ended is not None:
                    ended, self._ended = self._ended, None
                    ended()
                return
            line = bytes(self._buffer[:end])
            del self._buffer[: end + 1]
            self._searched = 0
            self._hand_on(line)

    def _skip(self) -> None:
        """Forget the middle of an overlong line; its start may tell whose answer or request it is."""
        if self._skipped is None:
            self._skipped = bytes(self._buffer[:RECOVERY_WINDOW])
        self._buffer.clear()
        self._searched = 0

    def _hand_on(self, line: bytes) -> None:
        if self._skipped is not None or len(line) > self._limit:
            start, self._skipped = self._skipped or line, None
            self._receive(oversize(start, self._limit))
        elif line and not line.isspace():
            if self._trace is not None:
                self._trace("<-", line)
            self._receive(decode(line))


# ---------------------------------------------------------------------------------------------------- server side


@contextlib.contextmanager
def claimed_stdio() -> Iterator[tuple[int, int]]:
    """Take file descriptors 0 and 1 away from the program, and give them back at the end.

    Gives private copies (input, output). Meanwhile descriptor 0 reads as empty and descriptor 1 goes where standard
    error goes, also for child processes. [2025-11-25 basic/transports#stdio] nothing on stdout that is not a valid MCP
    message
    """
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
            if hasattr(os, "set_blocking"):
                os.set_blocking(kept, True)  # the pipe's other users, such as a shell, expect it so
            os.dup2(kept, original)
            os.close(kept)
        os.close(nothing)


class StdioServerTransport(asyncio.Protocol, Transport):
    """The server's end: reads messages from one file descriptor and writes them to another.

    They may be pipes, sockets, terminals or plain files. source, sink: the descriptors, which stay the caller's to
    close. max_line: bytes in one message. Both ends of flow control work: see `drain` and `pause_reading`.
    """

    def __init__(self, source: int, sink: int, *, max_line: int = MAX_LINE, trace: Trace | None = None) -> None:
        self._source, self._sink = source, sink
        self._max_line, self._trace = max_line, trace
        self._valve = FlowControl()
        self._lines: LineReader | None = None
        self._reader: asyncio.ReadTransport | None = None
        self._writer: asyncio.WriteTransport | None = None
        self._lost: Lost | None = None

    async def start(self, receive: Receive, lost: Lost) -> None:
        """Begin to read and write."""
        self._lost = lost
        self._lines = LineReader(receive, self._max_line, self._trace)
        loop = asyncio.get_running_loop()
        if _can_be_awaited(self._sink):
            with contextlib.suppress(ValueError, OSError):
                self._writer = await self._open_writer()
        if _can_be_awaited(self._source):
            with contextlib.suppress(ValueError, OSError):
                self._reader, _ = await loop.connect_read_pipe(
                    lambda: self, os.fdopen(self._source, "rb", 0, closefd=False)
                )
        if self._reader is None:
            # A thread reads what cannot be waited for.
            threading.Thread(target=self._read_blocking, args=(loop,), name="mcp-stdin", daemon=True).start()

    async def _open_writer(self) -> asyncio.WriteTransport:
        loop = asyncio.get_running_loop()
        end = _WriteEnd(self._valve, self._end)
        if stat.S_ISSOCK(os.fstat(self._sink).st_mode):
            # asyncio takes whatever comes in at the writing end of a pipe for its closing. In a socket, which may be
            # our input too, that would be the client's first message.
            connection, _ = await loop.connect_accepted_socket(lambda: end, socket.socket(fileno=os.dup(self._sink)))
            return connection
        pipe, _ = await loop.connect_write_pipe(lambda: end, os.fdopen(self._sink, "wb", 0, closefd=False))
        return pipe

    def send(self, message: Outgoing, related: RequestId | None = None) -> None:
        """Write one line."""
        frame = encode(message)
        if self._trace is not None:
            self._trace("->", frame)
        if self._writer is not None:
            self._writer.write(frame + b"\n")
        else:
            self._write_blocking(frame + b"\n")

    def _write_blocking(self, line: bytes) -> None:
        view = memoryview(line)
        try:
            while view:
                view = view[os.write(self._sink, view) :]
        except OSError as error:
            self._end(ConnectionClosed(f"our output cannot be written: {error}"))

    async def drain(self, related: RequestId | None = None) -> None:
        """Wait while more than asyncio's high-water mark (64 KiB) is unread by the client."""
        await self._valve.wait()

    def pause_reading(self) -> None:
        """Leave the client's messages in the pipe."""
        if self._lines is not None:
            self._lines.pause()
        if self._reader is not None:
            self._reader.pause_reading()

    def resume_reading(self) -> None:
        """Go on reading."""
        if self._reader is not None and not self._reader.is_closing():
            self._reader.resume_reading()
        if self._lines is not None:
            self._lines.resume()

    def data_received(self, data: bytes) -> None:
        """asyncio: bytes from the client."""
        if self._lines is not None:
            self._lines.feed(data)

    def eof_received(self) -> None:
        """asyncio: the client closed our input."""
        if self._lines is not None:
            self._lines.feed_eof(lambda: self._end(None))
            # Requests that wait for a place to be served in have had their chance by then.
            asyncio.get_running_loop().call_later(0.5, self._end, None)

    def connection_lost(self, error: Exception | None) -> None:
        """asyncio: the input broke."""
        self._end(None)

    def _end(self, error: McpError | None) -> None:
        self._valve.open()
        lost, self._lost = self._lost, None
        if lost is not None:
            lost(error)

    def _read_blocking(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            while data := os.read(self._source, 65536):
                asyncio.run_coroutine_threadsafe(self._take(data), loop).result()
            loop.call_soon_threadsafe(self.eof_received)
        except (OSError, RuntimeError):  # closed under us, or the loop is gone
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self.connection_lost, None)

    async def _take(self, data: bytes) -> None:
        while self._lines is not None and self._lines.paused:
            await asyncio.sleep(0.01)  # a plain file has no other way to be told to wait
        self.data_received(data)

    async def close(self) -> None:
        """Send what is written, as far as the client takes it within half a second, and stop."""
        lost, self._lost = self._lost, None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.5):
                while (
                    self._writer is not None and not self._writer.is_closing() and self._writer.get_write_buffer_size()
                ):
                    await asyncio.sleep(0.005)
        if self._writer is not None and not self._writer.is_closing():
            self._writer.abort()
        if self._reader is not None and not self._reader.is_closing():
            self._reader.close()
        await asyncio.sleep(0)  # asyncio reports the closing in the next turn of the loop
        if lost is not None:
            lost(ConnectionClosed("the connection was closed"))


class _WriteEnd(asyncio.BaseProtocol):
    """asyncio's view of the pipe that we write to."""

    def __init__(self, valve: FlowControl, lost: Callable[[McpError | None], None]) -> None:
        self._valve, self._lost = valve, lost

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if transport.get_extra_info("socket") is not None:
            # A socket can be read here too, but what comes in is for the other protocol.
            cast(asyncio.ReadTransport, transport).pause_reading()

    def pause_writing(self) -> None:
        self._valve.shut()

    def resume_writing(self) -> None:
        self._valve.open()

    def connection_lost(self, error: Exception | None) -> None:
        self._lost(ConnectionClosed("the client no longer reads our output"))


def _can_be_awaited(descriptor: int) -> bool:
    """Whether the event loop can wait for it: not for plain files, devices such as /dev/null, or pipes on Windows."""
    mode = os.fstat(descriptor).st_mode
    return os.name != "nt" and (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor))


# ---------------------------------------------------------------------------------------------------- client side

INHERITED = (
    ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")
    if os.name != "nt"
    else ("APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH", "PATHEXT", "PROCESSOR_ARCHITECTURE",
          "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP", "USERNAME", "USERPROFILE")
)  # fmt: skip
"""The environment variables that a server inherits. All others, which may hold secrets, are the caller's to pass."""

STDERR_TAIL = 8192
"""Bytes of the server's standard error that are kept for error messages."""


def server_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment that a server is started with: the `INHERITED` variables that are set, and `extra`."""
    return {name: os.environ[name] for name in INHERITED if name in os.environ} | dict(extra or {})


class StdioClientTransport(asyncio.SubprocessProtocol, Transport):
    """The client's end: starts `command` and speaks over its stdin and stdout.

    command: the program and its arguments; no shell is involved. env: variables beside the `INHERITED` ones. cwd: where
    to run it. on_stderr: sees the server's standard error as it comes, in pieces. max_line: bytes in one message.
    grace: seconds that each step of closing may take.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        on_stderr: Callable[[bytes], None] | None = None,
        max_line: int = MAX_LINE,
        grace: float = 2.0,
        trace: Trace | None = None,
    ) -> None:
        if isinstance(command, str) or not command:
            raise TypeError(f'command is a list such as ["python3", "server.py"], not {command!r}')
        self.command = list(command)
        self.stderr_tail = b""
        self._env, self._cwd, self._on_stderr = env, cwd, on_stderr
        self._max_line, self._grace, self._trace = max_line, grace, trace
        self._valve = FlowControl()
        self._lines: LineReader | None = None
        self._process: asyncio.SubprocessTransport | None = None
        self._stdin: asyncio.WriteTransport | None = None
        self._lost: Lost | None = None
        self._exited: asyncio.Future[None] | None = None
        self._closing: asyncio.Task[None] | None = None

    async def start(self, receive: Receive, lost: Lost) -> None:
        """Start the server process. Raises ConnectionClosed, naming the command, when that cannot be done."""
        loop = asyncio.get_running_loop()
        self._lost = lost
        self._lines = LineReader(receive, self._max_line, self._trace)
        self._exited = loop.create_future()
        try:
            process, _ = await loop.subprocess_exec(
                lambda: self,
                *self.command,
                env=server_environment(self._env),
                cwd=self._cwd,
                start_new_session=os.name != "nt",  # a group of its own, so that closing reaches grandchildren
            )
        except (OSError, ValueError) as error:
            hint = "; is it installed, and on the PATH?" if isinstance(error, FileNotFoundError) else ""
            raise ConnectionClosed(f"cannot start the server {self.command[0]!r}: {error}{hint}") from error
        self._process = process
        self._stdin = cast(asyncio.WriteTransport, self._process.get_pipe_transport(0))
        if self._closing is not None:
            await self._stop()
            raise ConnectionClosed("the connection was closed while the server was started")

    @property
    def pid(self) -> int | None:
        """The server's process id, None before it is started."""
        return self._process.get_pid() if self._process is not None else None

    def send(self, message: Outgoing, related: RequestId | None = None) -> None:
        """Write one line to the server."""
        frame = encode(message)
        if self._trace is not None:
            self._trace("->", frame)
        if self._stdin is not None and not self._stdin.is_closing():
            self._stdin.write(frame + b"\n")

    async def drain(self, related: RequestId | None = None) -> None:
        """Wait while more than asyncio's high-water mark (64 KiB) is unread by the server."""
        await self._valve.wait()

    def pause_reading(self) -> None:
        """Leave the server's messages in the pipe."""
        self._steer_reading("pause_reading")
        if self._lines is not None:
            self._lines.pause()

    def resume_reading(self) -> None:
        """Go on reading."""
        self._steer_reading("resume_reading")
        if self._lines is not None:
            self._lines.resume()

    def _steer_reading(self, action: str) -> None:
        pipe = self._process.get_pipe_transport(1) if self._process is not None else None
        if pipe is not None and not pipe.is_closing():
            getattr(pipe, action)()

    # ------------------------------------------------------------------ what asyncio tells us about the process

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """asyncio: the server wrote to its stdout (1) or stderr (2)."""
        if fd == 1 and self._lines is not None:
            self._lines.feed(data)
        elif fd == 2:
            self.stderr_tail = (self.stderr_tail + data)[-STDERR_TAIL:]
            if self._on_stderr is not None:
                self._on_stderr(data)

    def pipe_connection_lost(self, fd: int, error: Exception | None) -> None:
        """asyncio: one of the pipes was closed."""
        if fd == 1:
            if self._lines is not None:
                self._lines.feed_eof(self._wait_for_the_end)
        elif fd == 0:
            self._valve.open()

    def process_exited(self) -> None:
        """asyncio: the server's process ended."""
        if self._exited is not None and not self._exited.done():
            self._exited.set_result(None)
        self._wait_for_the_end()

    def pause_writing(self) -> None:
        """asyncio: the server does not read fast enough."""
        self._valve.shut()

    def resume_writing(self) -> None:
        """asyncio: the server reads again."""
        self._valve.open()

    def _wait_for_the_end(self) -> None:
        # Output and exit are reported in either order, the last words a moment later. A grandchild may hold the pipes
        # open for ever, and a server may close its output without leaving: neither is waited for longer than this.
        asyncio.get_running_loop().call_later(0.1, self._report_end)

    def _report_end(self) -> None:
        lost, self._lost = self._lost, None
        self._valve.open()
        if lost is not None:
            lost(ConnectionClosed(self._last_words()))

    def _last_words(self) -> str:
        code = self._process.get_returncode() if self._process is not None else None
        if code is None:
            how = "closed its output"
        elif code < 0:
            how = f"was killed by signal {signal.Signals(-code).name}"
        else:
            how = f"exited with code {code}"
        tail = self.stderr_tail.decode("utf-8", "replace").strip()
        said = f"; its standard error ends with:\n{tail}" if tail else " and wrote nothing to standard error"
        return f"the server {self.command[0]!r} {how}{said}"

    # ------------------------------------------------------------------ closing

    async def close(self) -> None:
        """Close the server's input, and wait until it and its descendants are gone: SIGTERM, then SIGKILL, if need
        be."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        lost, self._lost = self._lost, None
        await self._stop()
        self._valve.open()
        if lost is not None:
            lost(ConnectionClosed("the connection was closed"))

    async def _stop(self) -> None:
        process, exited = self._process, self._exited
        if process is not None and exited is not None:
            # [2025-11-25 basic/lifecycle#shutdown] close the input, wait; SIGTERM, wait; SIGKILL
            if self._stdin is not None:
                self._stdin.close()
            for step in (None, signal.SIGTERM, getattr(signal, "SIGKILL", signal.SIGTERM)):
                if step is not None:
                    self._signal(step)
                await asyncio.wait([exited], timeout=self._grace)
                if exited.done():
                    break
            self._signal(getattr(signal, "SIGKILL", signal.SIGTERM))  # what the server itself started and left behind
            process.close()
            await asyncio.sleep(0)  # the pipes report their closing in the next turn of the loop

    def _signal(self, number: int) -> None:
        """Signal the server's whole process group."""
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.name == "nt":
                self._process.send_signal(number)
            else:
                os.killpg(self._process.get_pid(), number)
