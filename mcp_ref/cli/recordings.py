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

from ..check.recording import Event, RecordingError, parse_head, read_events
from ..jsonrpc.errors import McpError
from ..recorder.exchanges import Cassette, messages_of
from ..recorder.installation import InstallationError, plan_installation, plan_removal
from ..recorder.pipes import EXIT_CANNOT_START, record_stdio
from ..recorder.proxy import record_http
from ..recorder.regression import rerun
from ..recorder.replay import Player, replay_http, replay_stdio
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


def read_recording(path: str) -> list[Event]:
    """Return the events of a recording. Raise UsageError if the file is not one."""
    try:
        with open(path, "rb") as file:
            parse_head(file.readline())
            return list(read_events(file))
    except (OSError, RecordingError) as error:
        raise UsageError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None


def replay(options: argparse.Namespace) -> int:
    """Play one side of a recording. Return 1 if a request was not recorded, or if a response differs."""
    events = read_recording(options.file)
    if options.client:
        return _replay_client(events, options)
    if options.command:
        raise UsageError("only replay --client takes a server")
    cassette = Cassette(events)
    player = Player(cassette, options.speed)
    if options.http:
        asyncio.run(_replay_until_signal(player, options.host, options.port))
    else:
        asyncio.run(replay_stdio(player))
    for line in cassette.unknown:
        note(line)
    return 1 if cassette.unknown else 0


async def _replay_until_signal(player: Player, host: str, port: int) -> None:
    try:
        async with replay_http(player, host, port) as url:
            note(f"replaying: {url}")
            await _signal().wait()
    except OSError as error:
        raise UsageError(str(error)) from None


def _replay_client(events: list[Event], options: argparse.Namespace) -> int:
    if not options.command:
        raise UsageError("name the server: its URL, or two dashes and its command")
    url = options.command[0] if options.command[0].startswith(("http://", "https://")) else None
    messages = list(messages_of(events))
    try:
        found = asyncio.run(rerun(messages, url or options.command))
    except McpError as error:
        raise UsageError(str(error)) from None
    for difference in found:
        out(difference.request)
        for line in difference.lines:
            out(f"  {line}")
    number = sum(sent.sender == "client" and "id" in sent.value and "method" in sent.value for sent in messages)
    note(f"{number} requests, {len(found)} with another answer")
    return 1 if found else 0


async def _record_until_signal(tape: TapeOptions, url: str, host: str, port: int) -> int:
    ended = _signal()
    try:
        async with record_http(tape, url, host, port) as own_url:
            note(f"recording {url} to {tape.path}; clients connect to: {own_url}")
            await ended.wait()
    except OSError as error:
        raise UsageError(str(error)) from None
    return 0


def _signal() -> asyncio.Event:
    """Return an event that Ctrl-C and SIGTERM set."""
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):  # Windows
            asyncio.get_running_loop().add_signal_handler(number, ended.set)
    return ended


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
