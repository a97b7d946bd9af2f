"""`bridge` serves a server of any revision and transport to clients of any revision, over stdio or HTTP.

    bridge -- COMMAND      one server, under its own names
    bridge URL             one server; the bridge signs in with the tokens that `login` has stored
    bridge --config FILE   all servers of a file as one server, whose tools have the server's name as a prefix

The bridge cannot ask the user for consent, because its standard input belongs to the client. So a server of a file
starts only if the user has allowed it before, for example during `list --config FILE`, or with `--yes`.
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Final

from ..bridge.bridge import Bridge
from ..bridge.callers import Caller
from ..bridge.explain import explain
from ..host.approval import Allow, Approval, Deny
from ..host.configuration import Configuration, Entry, escaped, read_config, read_servers
from ..jsonrpc.errors import McpError
from ..revisions import REVISIONS, Revision, revision_named
from ..transports.trace import tracer
from . import EXIT_NOT_CONNECTED, UsageError, show, usage_errors
from .authorization import authorizer_for
from .client_commands import show_stderr
from .host_commands import kept_approvals, refuse_single_server_options
from .serve import check_http_options, serve_http
from .values import parse_environment, parse_headers

NOTICE_SECONDS: Final = 3.0
"""Time after which `--explain` says that it waits for the server, in seconds."""


def run_bridge(options: argparse.Namespace) -> int:
    """Serve until the client disconnects, or over HTTP until a signal. With `--explain`, only print the conversions.

    `front` is the revision that the bridge speaks with clients, and `back` the one that it speaks with the server. If
    one of them is not given, the bridge speaks all revisions on this side.
    """
    check_http_options(options)
    with usage_errors():
        front = revision_named(options.revision) if options.revision else None
        back = revision_named(options.back_revision) if options.back_revision else None
        if options.explain and back is not None:
            return _explain(front or REVISIONS[-1], back)
        bridge = Bridge(
            servers=servers_of(options), revisions=[front] if front else None, back_revisions=[back] if back else None,
            approve=_allow if options.yes else _refuse, approvals=asyncio.run(_stored_approvals()),
            prefix=options.prefix, hold=not options.no_hold, replay=options.replay, clients=options.clients,
            authorization=lambda url: authorizer_for(url, options),
            on_stderr=(lambda name, data: show_stderr(data)) if options.stderr else None,
            trace=tracer() if options.trace else None,
        )  # fmt: skip
    if options.explain:
        try:
            back = asyncio.run(_revision_of_server(bridge))
        except McpError:  # the log has the reason
            name = next(iter(bridge.backs))
            show.note(f"the revision of {name} is unknown: name it with --back-revision, which needs no server")
            return EXIT_NOT_CONNECTED
        return _explain(front or REVISIONS[-1], back)
    if options.http:
        return serve_http(bridge.server, options)
    bridge.server.run()
    return 0


def servers_of(options: argparse.Namespace) -> Configuration:
    """Return the servers that the options name. Raise UsageError for a missing server or a contradiction."""
    if options.config is not None:
        refuse_single_server_options(options, allowed=("revision",))
        return read_config(options.config)
    if not options.command:
        raise UsageError("the server is missing: add its URL, or two dashes and its command")
    words = [escaped(word) for word in options.command]  # so that `${NAME}` is not replaced, unlike in a file
    if words[0].startswith(("http://", "https://")):
        headers = parse_headers(options.header)
        entry: Entry = {"url": words[0], "headers": {name: escaped(text) for name, text in headers.items()}}
    else:
        entry = {"command": words[0], "args": words[1:], "env": {**parse_environment(options.env)}}
    return read_servers({"server": entry})


async def _allow(request: Approval) -> Allow | Deny:
    if request.kind == "variable":  # a dangerous variable, such as PATH, in a file that is not the user's own
        return Deny(f"--yes does not allow it: {'; '.join(request.warnings)}")
    return Allow()


async def _refuse(request: Approval) -> Deny:
    return Deny("nobody can be asked here; allow the server with `list --config FILE` first, or give --yes")


async def _stored_approvals() -> dict[str, str]:
    async with kept_approvals() as approvals:
        return approvals


async def _revision_of_server(bridge: Bridge) -> Revision:
    """Connect to the first server with the user's consent, as the bridge does for a client, and return its revision."""
    text = "waiting for the server, at most a minute; with --back-revision, no server is needed"
    notice = asyncio.get_running_loop().call_later(NOTICE_SECONDS, show.note, text)
    try:
        server = next(iter(bridge.backs.values()))
        client = await server.shared(Caller(REVISIONS[-1], None, {}))
        return client.revision
    finally:
        notice.cancel()
        await bridge.close()


def _explain(front: Revision, back: Revision) -> int:
    """Print for each method and field whether a bridge keeps, converts or loses it between two revisions."""
    show.out(f"client {front}, server {back}")
    rows = explain(front, back)
    width = max(len(row.name) for row in rows)
    for row in rows:
        show.out(f"{row.name:{width}}  {row.handling}")
    return 0
