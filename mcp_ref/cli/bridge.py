"""`bridge`: serves a server of any revision and transport to clients of any revision, over stdio or HTTP.

    bridge -- COMMAND      one server, under its own names
    bridge URL             one server; the bridge signs in with the tokens that `login` has stored
    bridge --config FILE   all servers of a file as one server, whose tools have the server's name as a prefix

Standard input belongs to the client, so nobody can be asked here. The servers of a file start only if the user has
allowed them before, for example at `list --config FILE`, or with `--yes`.
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
from . import UsageError, show, usage_errors
from .authorization import authorizer_for
from .client_commands import show_stderr
from .host_commands import kept_approvals, refuse_single_server_options
from .serve import check_http_options, serve_http
from .values import parse_environment, parse_headers

NOTICE_SECONDS: Final = 3.0
"""Time after which `--explain` says that it waits for the server, in seconds."""


def run_bridge(options: argparse.Namespace) -> int:
    """Serve until the client disconnects, or over HTTP until a signal. Return the exit code."""
    check_http_options(options)
    with usage_errors():
        front = revision_named(options.revision) if options.revision else None
        back = revision_named(options.back_revision) if options.back_revision else None
        if options.explain and back is not None:
            return _show_fates(front or REVISIONS[-1], back)
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
            return _show_fates(front or REVISIONS[-1], asyncio.run(_revision_of_server(bridge)))
        except McpError:  # the log has the reason
            name = next(iter(bridge.backs))
            show.note(f"the revision of {name} is unknown: name it with --back-revision, which needs no server")
            return 3
    if options.http:
        return serve_http(bridge.server, options)
    bridge.server.run()
    return 0


def servers_of(options: argparse.Namespace) -> Configuration:
    """Return the servers that the options name. Raise UsageError for a contradiction."""
    if options.config is not None:
        refuse_single_server_options(options, allowed=("revision",))
        return read_config(options.config)
    if not options.command:
        raise UsageError("the server is missing: add its URL, or two dashes and its command")
    words = [escaped(word) for word in options.command]
    entry: Entry = {"command": words[0], "args": words[1:], "env": {**parse_environment(options.env)}}
    if words[0].startswith(("http://", "https://")):
        headers = parse_headers(options.header)
        entry = {"url": words[0], "headers": {name: escaped(text) for name, text in headers.items()}}
    return read_servers({"server": entry})


async def _allow(request: Approval) -> Allow | Deny:
    if request.kind == "variable":  # a file that is not the user's own sets a dangerous variable, such as PATH
        return Deny(f"--yes does not allow it: {'; '.join(request.warnings)}")
    return Allow()


async def _refuse(request: Approval) -> Deny:
    return Deny("nobody can be asked here; allow the server with `list --config FILE` first, or give --yes")


async def _stored_approvals() -> dict[str, str]:
    async with kept_approvals() as approvals:
        return approvals


async def _revision_of_server(bridge: Bridge) -> Revision:
    """Connect to the first server as a bridge does, which needs the user's consent, and return its revision."""
    text = "waiting for the server, at most a minute; with --back-revision, no server is needed"
    notice = asyncio.get_running_loop().call_later(NOTICE_SECONDS, show.note, text)
    try:
        server = next(iter(bridge.backs.values()))
        return (await server.shared(Caller(REVISIONS[-1], None, {}))).revision
    finally:
        notice.cancel()
        await bridge.close()


def _show_fates(front: Revision, back: Revision) -> int:
    """Print the fates of all methods and fields between two revisions."""
    show.out(f"client {front}, server {back}")
    rows = explain(front, back)
    width = max(len(row.name) for row in rows)
    for row in rows:
        show.out(f"{row.name:{width}}  {row.handling}")
    return 0
