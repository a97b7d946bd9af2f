"""`record` writes a conversation down, without either side noticing it, and `replay` plays one side of it again.

`record` replaces this process by the server, so it returns only for a server with a URL.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import sys

from ..recorder.installation import InstallationError, plan_installation, plan_removal
from ..recorder.pipes import EXIT_CANNOT_START, record_stdio
from ..recorder.proxy import record_http
from ..recorder.tape import MEGABYTE, TapeOptions
from . import UsageError, usage_errors
from .show import note, out


def record(options: argparse.Namespace) -> int:
    """Record a conversation, or edit a host's configuration file. Return the exit code."""
    if options.install or options.uninstall:
        return _edit_configuration(options)
    if options.file is None:
        raise UsageError("name the file of the recording, such as talk.jsonl")
    tape = TapeOptions(options.file, options.max_mb * MEGABYTE, options.with_secrets)
    if bool(options.command) == bool(options.http):
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


async def _record_until_signal(tape: TapeOptions, url: str, host: str, port: int) -> int:
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):  # Windows
            asyncio.get_running_loop().add_signal_handler(number, ended.set)
    try:
        async with record_http(tape, url, host, port) as own_url:
            note(f"recording {url} to {tape.path}; clients connect to: {own_url}")
            await ended.wait()
    except OSError as error:
        raise UsageError(str(error)) from None
    return 0


def _edit_configuration(options: argparse.Namespace) -> int:
    """Show the difference, ask, and write the file."""
    path, server = options.install or options.uninstall
    try:
        if options.install:
            file = options.file or os.path.join(os.path.dirname(os.path.abspath(path)), f"{server}.jsonl")
            plan = plan_installation(path, server, os.path.abspath(file))
        else:
            plan = plan_removal(path, server)
    except InstallationError as error:
        raise UsageError(str(error)) from None
    out(plan.difference())
    if not options.yes:
        if not sys.stdin.isatty():
            raise UsageError("nothing is changed: repeat the command with --yes to write this")
        if input("Write this? [y/N] ").strip().lower() not in ("y", "yes"):
            return 1
    try:
        plan.write()
    except (OSError, InstallationError) as error:
        raise UsageError(f"nothing is changed: {error}") from None
    note(f"{plan.path} is written; restart the host")
    return 0
