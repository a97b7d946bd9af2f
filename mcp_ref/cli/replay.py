"""`replay FILE` plays the recorded server, and `replay --client FILE` sends the recorded requests to a server again.

With `--revision`, a bridge in front of the recorded server converts its messages. It sends some requests of its own,
such as `tools/list`. One that was not recorded gets an empty list or an error, and is not reported as a mistake.
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
from .recorder import listening_errors, read_recording, stop_event
from .show import note, out


def replay(options: argparse.Namespace) -> int:
    """Play one side of a recording. Return 1 if a request was not recorded, or a response differs; 3 for no server."""
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
        serve_stdio, serve_http = server.serve_stdio, server.serve_http
    else:
        player = Player(cassette, options.speed)
        if not options.http and sys.stdin.isatty():
            note("replaying the server for a client on standard input; press Ctrl-D to stop")
        serve_stdio, serve_http = partial(replay_stdio, player), partial(replay_http, player)
    if options.http:
        with listening_errors(options.host, options.port):
            asyncio.run(_serve_until_signal(serve_http(options.host, options.port)))
    else:
        asyncio.run(serve_stdio())
    for line in cassette.unknown:
        note(line)
    return 1 if cassette.unknown else 0


def _bridge_to(cassette: Cassette, options: argparse.Namespace) -> Bridge:
    """Return a bridge that speaks the revision of the user with clients, and the recorded one with the server."""
    if not cassette.revision:
        raise UsageError(f"{options.file} has no request with a result, so its revision is unknown")
    with usage_errors():
        player = Player(cassette, options.speed, (*PROBES, *BRIDGE_METHODS))
        return Bridge({"replay": player}, revisions=[options.revision], back_revisions=[cassette.revision])


async def _serve_until_signal(listening: AbstractAsyncContextManager[str]) -> None:
    async with listening as url:
        note(f"replaying: {url}")
        await stop_event().wait()


def _replay_client(events: list[Event], options: argparse.Namespace) -> int:
    if not options.command:
        raise UsageError("name the server: its URL, or two dashes and its command")
    url = options.command[0] if options.command[0].startswith(("http://", "https://")) else None
    messages = list(messages_of(events))
    try:
        differences = asyncio.run(rerun(messages, url or options.command))
    except McpError as error:
        note(str(error))
        return 3
    for difference in differences:
        out(difference.request)
        for line in difference.lines:
            out(f"  {line}")
    number = sum(sent.sender == "client" and "id" in sent.value and "method" in sent.value for sent in messages)
    note(f"{number} requests, {len(differences)} with a different response")
    return 1 if differences else 0
