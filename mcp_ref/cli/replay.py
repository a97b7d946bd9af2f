"""`replay FILE` is the recorded server, and `replay --client FILE` sends the recorded requests to a server again.

With `--revision`, a bridge stands in front of the recorded server, and converts its messages. It sends some requests by
itself, such as `tools/list`. If they were not recorded, that is not a mistake of the client: the list is empty, and the
others are refused.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from contextlib import AbstractAsyncContextManager
from functools import partial

from ..bridge.bridge import Bridge
from ..check.recording import Event
from ..jsonrpc.errors import McpError
from ..recorder.exchanges import Cassette, messages_of
from ..recorder.regression import rerun
from ..recorder.replay import BRIDGE_METHODS, PROBES, Player, replay_http, replay_stdio
from . import UsageError, usage_errors
from .recorder import read_recording, until_signal
from .show import note, out


def replay(options: argparse.Namespace) -> int:
    """Play one side of a recording. Return 1 if a request was not recorded, or if a response differs."""
    _, events = read_recording(options.file)
    if options.client and options.revision:
        raise UsageError("only the recorded server can speak another revision, so --client takes no --revision")
    if options.client:
        return _replay_client(events, options)
    if options.command:
        raise UsageError("only replay --client takes a server")
    cassette = Cassette(events)
    if options.revision not in (None, cassette.revision):
        server = _bridge_to(cassette, options).server
        serve, listen = server.serve_stdio, server.serve_http
    else:
        player = Player(cassette, options.speed)
        if not options.http and sys.stdin.isatty():
            note("replaying the server for a client on standard input; press Ctrl-D to stop")
        serve, listen = partial(replay_stdio, player), partial(replay_http, player)
    asyncio.run(_until_signal(listen(options.host, options.port)) if options.http else serve())
    for line in cassette.unknown:
        note(line)
    return 1 if cassette.unknown else 0


def _bridge_to(cassette: Cassette, options: argparse.Namespace) -> Bridge:
    """Return a bridge to the recorded server, which speaks the revision that the user wants."""
    if not cassette.revision:
        raise UsageError(f"{options.file} has no request with a result, so its revision is unknown")
    with usage_errors():
        player = Player(cassette, options.speed, (*PROBES, *BRIDGE_METHODS))
        return Bridge({"replay": player}, revisions=[options.revision], back_revisions=[cassette.revision])


async def _until_signal(listening: AbstractAsyncContextManager[str]) -> None:
    try:
        async with listening as url:
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
    note(f"{number} requests, {len(found)} with another response")
    return 1 if found else 0
