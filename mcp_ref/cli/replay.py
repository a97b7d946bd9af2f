"""`replay FILE` plays the recorded server, and `replay --client FILE` sends the recorded requests to a server again.

With `--revision`, a bridge in front of the played server converts its messages to that revision. The bridge sends some
requests of its own, such as `tools/list`. They need not be in the recording: without a recorded response, they get an
empty list or an error, and the command does not report them, since the client has not sent them.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from contextlib import AbstractAsyncContextManager

from ..bridge.bridge import Bridge
from ..check.recording import Event
from ..jsonrpc.errors import McpError
from ..lib.jsonschema.errors import format_count
from ..lib.text import escape_hidden
from ..recorder.exchanges import Cassette, messages_of
from ..recorder.regression import rerun
from ..recorder.replay import BRIDGE_METHODS, PROBES, Player, replay_http, replay_stdio
from . import EXIT_ERROR, EXIT_NOT_CONNECTED, UsageError, usage_errors
from .client_commands import parse_server
from .recorder import complete_address, listening_errors, read_recording, stop_event
from .show import note, out


def replay(options: argparse.Namespace) -> int:
    """Play one side of a recording. Return the exit code."""
    complete_address(options)
    _, events = read_recording(options.file)
    if options.client:
        if options.revision:
            raise UsageError("only the recorded server can speak another revision, so --client takes no --revision")
        return _replay_client(events, options)
    if options.command:
        raise UsageError("only replay --client takes a server")
    return _replay_server(Cassette(events), options)


def _replay_server(cassette: Cassette, options: argparse.Namespace) -> int:
    """Play the recorded server until the client disconnects, or over HTTP until a signal.

    Return 1 if the client sent a request that was not recorded, because such a request gets only an error.
    """
    if options.revision in (None, cassette.revision):
        _play(Player(cassette, options.speed), options)
    else:
        _play_through_bridge(_bridge_to(cassette, options), options)
    for line in cassette.unrecorded:
        note(line)
    return EXIT_ERROR if cassette.unrecorded else 0


def _play(player: Player, options: argparse.Namespace) -> None:
    """Play the recorded server as it was, without a bridge."""
    if options.http:
        _serve_until_signal(replay_http(player, options.host, options.port), options)
        return
    if sys.stdin.isatty():
        note("replaying the server for a client on standard input; press Ctrl-D to stop")
    asyncio.run(replay_stdio(player))


def _play_through_bridge(bridge: Bridge, options: argparse.Namespace) -> None:
    if options.http:
        _serve_until_signal(bridge.server.serve_http(options.host, options.port), options)
    else:
        asyncio.run(bridge.server.serve_stdio())


def _bridge_to(cassette: Cassette, options: argparse.Namespace) -> Bridge:
    """Return a bridge that speaks the revision of `--revision` with clients, and the recorded one with the server."""
    if not cassette.revision:
        raise UsageError(f"{options.file} has no request with a result, so its revision is unknown")
    with usage_errors():
        player = Player(cassette, options.speed, tolerated=(*PROBES, *BRIDGE_METHODS))
        return Bridge({"replay": player}, revisions=[options.revision], back_revisions=[cassette.revision])


def _serve_until_signal(listening: AbstractAsyncContextManager[str], options: argparse.Namespace) -> None:
    """Serve HTTP until Ctrl-C or SIGTERM. `listening` serves while it is entered, and its value is the URL."""

    async def serve() -> None:
        async with listening as url:
            note(f"replaying: {url}")
            await stop_event().wait()

    with listening_errors(options.host, options.port):
        asyncio.run(serve())


def _replay_client(events: list[Event], options: argparse.Namespace) -> int:
    """Send the recorded requests to a server, and print each response that differs. Return 1 if one does."""
    if not options.command:
        raise UsageError("name the server: its URL, or two dashes and its command")
    messages = list(messages_of(events))
    try:
        differences = asyncio.run(rerun(messages, parse_server(options.command)))
    except McpError as error:
        note(str(error))
        return EXIT_NOT_CONNECTED
    for difference in differences:
        for line in [difference.request, *(f"  {line}" for line in difference.lines)]:
            out(escape_hidden(line, keep=""))  # a name in a message must not look like another line
    requests = [sent for sent in messages if sent.sender == "client" and {"id", "method"} <= sent.value.keys()]
    note(f"{format_count(len(requests), 'requests')}, {len(differences)} with a different response")
    return EXIT_ERROR if differences else 0
