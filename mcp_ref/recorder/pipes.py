"""The recorder in front of a server over stdio.

The process that the host has started becomes the server: it starts a second process, the pump, and then replaces itself
by the server's program. So the host signals the server itself, and sees the server's exit code and process id:

    host --stdin--> pump --pipe--> server        host's child: the server
    host <-stdout-- pump <--pipe-- server        pump: a process of its own session, which no signal of the host reaches
    host <-stderr-- pump <--pipe-- server

The pump passes bytes on as they come, with one thread for each line of this picture. If a side closes its pipe, or
dies, the pump closes the pipe to the other side. The pump ends when all pipes are closed, so it does not outlive the
server and the host. If it dies, both see closed pipes, as if the other side had died.

Spec:  basic/transports#stdio, basic/lifecycle#shutdown (2024-11-05 to 2025-11-25); 2026-07-28 basic/transports/stdio
Used by: cli/recorder.py. Uses: streams.py, tape.py, transports/system.py
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

from ..check.recording import Head, Side
from ..lib.text import show_text
from ..transports.recorded import now, open_recording
from ..transports.system import PIECE, SYSTEM
from .streams import LineStream, Stream
from .tape import Tape, TapeOptions

EXIT_CANNOT_START: Final = 127
"""Exit code if the server's program cannot be started. A shell uses the same code."""


def record_stdio(options: TapeOptions, command: Sequence[str]) -> NoReturn:
    """Replace this process by the server, with a recorder between its standard streams and the host.

    Raises:
        OSError: The program does not exist.
    """
    program = SYSTEM.find_program(command, os.environ.get("PATH"), None)  # before the pump, because it can fail
    try:
        file = _above_streams(open_recording(options.path))
    except OSError as error:
        # the host needs its server more than its recording
        show_text(f"cannot record to {options.path}: {error.strerror}; the server runs without a recording", sys.stderr)
    else:
        _put_pump_between(file, options, command)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these two, and the server would inherit it
        signal.signal(number, signal.SIG_DFL)
    os.execv(program[0], [command[0], *program[1:]])


def _put_pump_between(file: int, options: TapeOptions, command: Sequence[str]) -> None:
    """Start the pump, and connect the standard streams of this process, which becomes the server, to it."""
    host_input, host_output, host_errors = [_above_streams(_duplicate(number)) for number in (0, 1, 2)]
    server_input, to_server = _pipe()
    from_server, server_output = _pipe()
    errors_from_server, server_errors = _pipe()
    child = os.fork()
    if child == 0:
        # The pump is the child's child, because the server would get SIGCHLD at the end of a child that it has not
        # started. The child ends at once.
        os.setsid()
        if os.fork() != 0:
            os._exit(0)
        _close_all_but([file, host_input, host_output, host_errors, to_server, from_server, errors_from_server])
        flows = [_Flow(host_input, to_server, "client", LineStream(1)),
                 _Flow(from_server, host_output, "server", LineStream(1)),
                 _Flow(errors_from_server, host_errors, "server", LineStream(1, is_log=True))]  # fmt: skip
        _run_pump(Tape(file, Head("stdio", now(), tuple(command)), options), flows, host_errors)
    os.waitpid(child, 0)
    for number, descriptor in enumerate((server_input, server_output, server_errors)):
        os.dup2(descriptor, number)


def _pipe() -> tuple[int, int]:
    reader, writer = os.pipe()
    return _above_streams(reader), _above_streams(writer)


def _duplicate(number: int) -> int:
    """Return a copy of a standard stream, or of the null device if the host has closed it."""
    try:
        return os.dup(number)
    except OSError:
        return os.open(os.devnull, os.O_RDWR)


def _above_streams(descriptor: int) -> int:
    """Return the descriptor, or a copy with a number above those of the standard streams, which will be replaced. It
    has such a number if the host has closed one of them."""
    if descriptor > 2:
        return descriptor
    higher = _above_streams(os.dup(descriptor))  # closed only afterwards, so that each copy has another number
    os.close(descriptor)
    return higher


def _close_all_but(kept: Sequence[int]) -> None:
    """Close every other file, because the reader of a pipe sees no end while the pump has inherited its writing end."""
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    for number in [int(name) for name in os.listdir("/dev/fd")]:
        if number > 2 and number not in kept:
            with contextlib.suppress(OSError):  # `listdir` has closed its own descriptor already
                os.close(number)
    os.chdir("/")  # so that the server's folder can be deleted or unmounted


@dataclass(frozen=True)
class _Flow:
    """One direction through the pump, from the descriptor `source` to the descriptor `sink`."""

    source: int
    sink: int
    side: Side
    """The side that writes to `source`."""
    stream: Stream


def _run_pump(tape: Tape, flows: Sequence[_Flow], host_errors: int) -> NoReturn:
    """Pass bytes on until all pipes are closed. Then end the process."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    report = os.dup(host_errors)  # because `_forward` closes its own
    threads = [threading.Thread(target=_forward, args=(flow, tape)) for flow in flows]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with contextlib.suppress(OSError):
        os.write(report, tape.close().encode())
    os.close(report)  # now the host sees the end of standard error
    tape.wait_until_written()
    os._exit(0)


def _forward(flow: _Flow, tape: Tape) -> None:
    """Pass the bytes of one pipe on, until its writer or its reader is gone."""
    poll = select.poll()
    poll.register(flow.source, select.POLLIN)
    poll.register(flow.sink, 0)  # reports only that nobody reads any more
    with contextlib.suppress(OSError):
        while not any(number == flow.sink for number, _ in poll.poll()):
            data = os.read(flow.source, PIECE)
            if not data:
                break
            # before the write, or else the response to these bytes could be recorded before them
            tape.put(flow.stream, flow.side, data)
            _write_all(flow.sink, data)
    tape.put(flow.stream, flow.side, b"")  # before the other side can see the end
    os.close(flow.source)
    os.close(flow.sink)


def _write_all(sink: int, data: bytes) -> None:
    """Write all bytes, also if the host has made its own pipe or terminal non-blocking."""
    unwritten = memoryview(data)
    while unwritten:
        try:
            unwritten = unwritten[os.write(sink, unwritten) :]
        except BlockingIOError:
            writable = select.poll()
            writable.register(sink, select.POLLOUT)
            writable.poll()
