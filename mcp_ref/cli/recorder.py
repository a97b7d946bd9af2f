"""`record FILE -- COMMAND` and `record FILE --http URL` write a conversation to a file, unnoticed by both sides.

A host starts `record FILE -- COMMAND` instead of the server. This process starts another one, which records, and then
replaces itself by the server, so that the host sees the server's own process (`recorder/pipes.py`). A host waits only a
short time for a server, so this module imports nothing that only `replay` or `check` needs. They import the functions
that read a recording, or wait for a signal, from here.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
from collections.abc import Iterator

from ..check.recording import Event, Head, RecordingError, parse_head, read_events
from ..recorder.pipes import EXIT_CANNOT_START, record_stdio
from ..recorder.proxy import record_http
from ..recorder.tape import MEGABYTE, TapeOptions
from ..transports.system import describe_bind_error
from . import UsageError, usage_errors
from .show import note


def record(options: argparse.Namespace) -> int:
    """Record a conversation. Return the exit code, unless this process becomes the server."""
    if options.file is None:
        raise UsageError("name the file of the recording, such as talk.jsonl")
    complete_address(options)
    tape = TapeOptions(options.file, options.max_mb * MEGABYTE, options.with_secrets)
    if bool(options.command) == bool(options.http):  # both, or neither of them
        raise UsageError("name one server: --http and its URL, or two dashes and its command")
    if options.http:
        with usage_errors():
            return asyncio.run(_record_until_signal(tape, options.http, options.host, options.port))
    if not hasattr(os, "fork"):
        raise UsageError("this system cannot record a command; set MCP_REF_TRACE=talk.jsonl, or record over HTTP")
    try:
        record_stdio(tape, options.command)
    except OSError as error:
        note(f"cannot start {options.command[0]!r}: {error.strerror}")
        return EXIT_CANNOT_START


def complete_address(options: argparse.Namespace) -> None:
    """Set the default address to listen on. Raise UsageError if one is given without `--http`, where it has no use."""
    for name, default in (("host", "127.0.0.1"), ("port", 0)):
        if getattr(options, name) is None:
            setattr(options, name, default)
        elif not options.http:
            raise UsageError(f"--{name} needs --http")


async def _record_until_signal(tape: TapeOptions, url: str, host: str, port: int) -> int:
    ended = stop_event()
    with listening_errors(host, port):
        async with record_http(tape, url, host, port) as own_url:
            note(f"recording {url} to {tape.path}; clients connect to: {own_url}")
            await ended.wait()
    return 0


@contextlib.contextmanager
def listening_errors(host: str, port: int) -> Iterator[None]:
    """Turn an OSError into a UsageError, which names the file of the recording or the address to listen on."""
    try:
        yield
    except OSError as error:
        if error.filename:  # the error is about a file, not about the address
            raise UsageError(f"cannot open {error.filename}: {error.strerror}") from None
        raise UsageError(f"cannot serve on {host}:{port}: {describe_bind_error(error)}") from None


def stop_event() -> asyncio.Event:
    """Return an event that Ctrl-C and SIGTERM set."""
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):  # Windows
            asyncio.get_running_loop().add_signal_handler(number, ended.set)
    return ended


def read_recording(path: str) -> tuple[Head, list[Event]]:
    """Return the head and the events of a recording. Raise UsageError if the file cannot be read as one."""
    try:
        with open(path, "rb") as file:
            return parse_head(file.readline()), list(read_events(file))
    except (OSError, RecordingError) as error:
        raise UsageError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
