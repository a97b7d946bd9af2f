"""`Bridge`: one MCP server that is made of other servers, of any revision and transport.

    bridge = Bridge({"old": ["npx", "some-old-server"]})
    bridge.server.run()              # or run_http, serve_http, asgi: the front is a usual `Server`

The front is the server that clients see; the backs are the servers behind it. This module only puts the parts together.

Spec:  basic/lifecycle (2024-11-05 to 2025-11-25), 2026-07-28 basic/versioning
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ..basic.lifecycle import Implementation
from ..basic.mrtr import checked_key
from ..host.configuration import read_servers
from ..host.hosted import HostedServer
from ..host.policy import Account, HostOptions, Policy
from ..revisions import REVISIONS, Revision, sorted_revisions
from ..server.options import ServerOptions
from ..server.server import Server
from ..transports.base import Transport
from ..version import __version__
from .backs import MAX_CLIENTS_PER_KEY, BackServer
from .front import FrontCatalog
from .held import HeldCalls
from .namespaces import Namespace
from .relay import Relay


@dataclass(frozen=True)
class BridgeStatus:
    """The state of one server behind a bridge."""

    name: str
    revision: str | None
    """The revision that the server speaks; None before the first connection."""
    connections: int
    """Number of open connections to the server, for all clients of the bridge together."""
    starts: int
    """Number of attempts to connect since the start of the bridge."""
    held_calls: int
    """Number of calls, to any server behind the bridge, that wait until their users respond."""
    losses: dict[str, int]
    """Number of values that could not be converted to a client's revision, by kind."""
    last_error: str
    """The latest failure of a connection or of a start, or ""."""


@dataclass(eq=False, kw_only=True)
class Bridge(HostOptions):
    """A bridge: clients of any revision use servers of any other revision.

                                        server behind the bridge (the back)
                           legacy                              modern
                         +-----------------------------------+-----------------------------------+
        client   legacy  | a session on each side;           | each request to the server names  |
        in front         | requests of the server go to      | the session's capabilities; input |
        (the             | the client                        | requests become requests to the   |
        front)           |                                   | client, and the call is repeated  |
                         +-----------------------------------+-----------------------------------+
                 modern  | sessions in a pool; the server's  | nothing is converted              |
                         | requests become input requests,   |                                   |
                         | and the call is held meanwhile    |                                   |
                         +-----------------------------------+-----------------------------------+

    A call that the client wants to run as a task becomes a task of the server, or, if the client and the server speak
    different revisions, a task of the bridge itself (tasks.py).

    `server` is the front. A bridge takes the options of a `Host` and keeps the same policy: consent before it starts a
    server from a file, allowed tools, the credentials for a server, the budgets of calls (`calls` and
    `calls_per_minute`), and the audit log, with a line for each call. It does not ask for approval of a call, because
    the client does that, so `approve` decides only about starts. Each message of a server to the user names the server.
    Sampling, elicitation and roots are those of the client.

    Args:
        servers: As for `Host`.
        revisions: The revisions of the front. Default: all.
        back_revisions: The revisions to speak with the servers. Default: all.
        prefix: True to put the server's name into names and URIs even if there is only one server. As with several
            servers, the bridge then offers no tasks, because it does not translate the names and URIs in their results.
        hold: What to do if a legacy server requests input during a modern client's call. True to keep the call open
            while the client's user responds (held.py), False to refuse the request.
        replay: The tools to run again from their start after an input request, instead of holding their calls. Their
            names are those that clients see.
        clients: Maximum number of connections to a legacy server for modern clients of one principal (authenticated
            caller) that declare the same capabilities.
        state_key: As for `Server`: processes that serve the same clients need the same key.
    """

    revisions: Sequence[Revision | str] | None = None
    back_revisions: Sequence[Revision | str] | None = None
    prefix: bool = False
    hold: bool = True
    replay: Collection[str] = ()
    clients: int = MAX_CLIENTS_PER_KEY
    state_key: bytes | None = None

    def __post_init__(self) -> None:
        self.state_key = checked_key(self.state_key)  # first, because the check of all fields would quote this secret
        super().__post_init__()
        if self.clients < 1:
            raise ValueError(f"clients must be at least 1, not {self.clients}")
        configs = [config for config in read_servers(self.servers).servers if not config.is_disabled]
        if not configs:
            raise ValueError("a bridge needs at least one server")
        front_revisions = sorted_revisions(REVISIONS if self.revisions is None else self.revisions)
        info = self.info or Implementation("mcp_ref bridge", __version__)
        policy = Policy(self)
        account = Account(policy)
        start_limit = asyncio.Semaphore(1)  # unused, because a `BackServer` connects, not the supervisor of a host
        hosted = [HostedServer(config, policy, account, start_limit) for config in configs]
        self.backs = {each.config.name: BackServer(each, info, self.clients, self.back_revisions) for each in hosted}
        """The servers behind the bridge, by server name."""
        keeps_names = len(configs) == 1 and not self.prefix
        names = Namespace(self.backs, keeps_names)
        self.relay = Relay(self.backs, names, HeldCalls(self.state_key), self.hold, frozenset(self.replay))
        self.server = Server(info.name, info.version, revisions=front_revisions)
        """The front. Use its methods to serve, such as `run` and `serve_http`."""
        # in place of the usual catalog, which would serve the tools that an author registers
        server_options = ServerOptions(state_key=self.state_key)
        self.server.catalog = FrontCatalog(self.relay, info, front_revisions, server_options, self.close)

    def __repr__(self) -> str:
        return f"<Bridge to {', '.join(self.backs)}>"

    async def serve(self, transport: Transport) -> None:
        """Serve one client until it closes the transport. `Client(bridge)` calls this method."""
        await self.server.serve(transport)

    def status(self) -> list[BridgeStatus]:
        """Return the state of each server behind the bridge, as plain data without secrets."""
        return [self._status_of(name, back) for name, back in self.backs.items()]

    def _status_of(self, name: str, back: BackServer) -> BridgeStatus:
        latest = back.latest_client
        return BridgeStatus(
            name=name,
            revision=latest.revision.name if latest is not None else None,
            connections=sum(client.is_open for client in back.clients),
            starts=back.starts,
            held_calls=len(self.relay.held.calls),
            losses=dict(back.losses.counts),
            last_error=back.last_error,
        )

    async def close(self) -> None:
        """End the held calls, and close the connections. The front calls this when its last client has left."""
        await asyncio.shield(asyncio.create_task(self._close()))  # which continues even if the caller is cancelled

    async def _close(self) -> None:
        await self.relay.held.close()
        await self.relay.changes.close()
        await asyncio.gather(*(back.close() for back in self.backs.values()))
