"""`replay FILE` is the recorded server, and `replay --client FILE` sends the recorded requests to a server again."""

from __future__ import annotations

import argparse
import asyncio

from ..check.recording import Event, Head, RecordingError, parse_head, read_events
from ..jsonrpc.errors import McpError
from ..recorder.exchanges import Cassette, messages_of
from ..recorder.regression import rerun
from ..recorder.replay import Player, replay_http, replay_stdio
from . import UsageError
from .recorder import until_signal
from .show import note, out


def read_recording(path: str) -> tuple[Head, list[Event]]:
    """Return the head and the events of a recording. Raise UsageError if the file is not one."""
    try:
        with open(path, "rb") as file:
            return parse_head(file.readline()), list(read_events(file))
    except (OSError, RecordingError) as error:
        raise UsageError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None


def replay(options: argparse.Namespace) -> int:
    """Play one side of a recording. Return 1 if a request was not recorded, or if a response differs."""
    _, events = read_recording(options.file)
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
            await until_signal().wait()
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
