"""The recorder in front of a server over stdio.

The process that the host has started becomes the server: it starts a second process, the pump, and then replaces itself
by the server's program. So the host signals the server itself, and sees its own exit code and process id:

    host --stdin--> pump --pipe--> server        host's child: the server
    host <-stdout-- pump <--pipe-- server        pump: a process of its own session, which no signal of the host reaches
    host <-stderr-- pump <--pipe-- server

The pump passes pieces on as they come, with one thread for each line of this picture. If a side closes its pipe, or
dies, the pump closes the pipe to the other side. It ends when all pipes are closed, so it does not outlive the server
and the host. If the pump dies, both see closed pipes, as if the other side had died.

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
    program = SYSTEM.find_program(command, os.environ.get("PATH"), None)
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
    """Start the pump, and connect the standard streams of this process to it."""
    hosts = [_above_streams(_duplicate(number)) for number in (0, 1, 2)]
    server_input, to_server = _pipe()
    from_server, server_output = _pipe()
    errors_from_server, server_errors = _pipe()
    pump = os.fork()
    if pump == 0:
        # the pump is a grandchild, because the server would get SIGCHLD for a child that it has not started
        os.setsid()
        if os.fork():
            os._exit(0)
        _close_all_but([file, *hosts, to_server, from_server, errors_from_server])
        flows = [_Flow(hosts[0], to_server, "client", LineStream(1)),
                 _Flow(from_server, hosts[1], "server", LineStream(1)),
                 _Flow(errors_from_server, hosts[2], "server", LineStream(1, is_log=True))]  # fmt: skip
        _pump(Tape(file, Head("stdio", now(), tuple(command)), options), flows, hosts[2])
    os.waitpid(pump, 0)
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
    """Return a descriptor above the standard streams, which a host may have closed."""
    if descriptor > 2:
        return descriptor
    higher = _above_streams(os.dup(descriptor))
    os.close(descriptor)
    return higher


def _close_all_but(kept: Sequence[int]) -> None:
    """Close every other file, because an inherited pipe that stays open hides its end from the reader."""
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    for number in [int(name) for name in os.listdir("/dev/fd")]:
        if number > 2 and number not in kept:
            with contextlib.suppress(OSError):  # `listdir` has closed its own descriptor already
                os.close(number)
    os.chdir("/")


@dataclass(frozen=True)
class _Flow:
    """One pipe through the pump."""

    source: int
    sink: int
    side: Side
    """The side that writes to `source`."""
    stream: Stream


def _pump(tape: Tape, flows: Sequence[_Flow], stderr: int) -> NoReturn:
    """Pass bytes on until all pipes are closed. Then end the process."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    report = os.dup(stderr)
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
            data = os.read(flow.source, PIECE)  # as much as a pipe of Linux holds
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
