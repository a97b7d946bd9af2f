"""Callers: a client's revision, user and capabilities, which decide how the bridge relays its requests to a server.

A request of a legacy session gets these facts from its handshake, and a modern request brings them along. They decide
which connection to a server the request can use (backs.py), and whether the server may ask for input (relay.py).

Spec:  basic/lifecycle (2024-11-05 to 2025-11-25), 2026-07-28 basic/versioning
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from ..basic.channel import RequestContext
from ..basic.lifecycle import declares
from ..basic.mrtr import INPUT_REQUESTS
from ..jsonrpc.messages import Object
from ..revisions import Revision
from ..server.session import ServerSession
from ..server.stateless import StatelessRequest


@dataclass(slots=True)
class Caller:
    """A client in front of the bridge: its revision, user and capabilities."""

    revision: Revision
    principal: str | None
    """The authenticated user; None without authorization."""
    capabilities: Object
    session: ServerSession | None = None
    """The legacy session; None for a modern request."""

    @property
    def key_for_legacy_server(self) -> Hashable:
        """A key that callers have in common if they can share connections to a legacy server (backs.py)."""
        if self.session is not None:
            return session_key(self.session)
        return "pool", self.principal, repr(sorted(self.capabilities.items()))

    @property
    def accepts_input_requests(self) -> bool:
        possible = [method.capability for method in INPUT_REQUESTS.values() if method.capability]
        return any(declares(self.capabilities, capability) for capability in possible)


def session_key(session: ServerSession) -> Hashable:
    return "session", session


def caller_of(context: RequestContext) -> Caller:
    """Return the client that has sent a request."""
    channel = context.channel
    if type(channel) is ServerSession:  # not `isinstance`, which is slow for a subclass of `Protocol`
        return Caller(channel.revision, channel.transport.principal, channel.peer_capabilities, channel)
    principal = channel.principal if type(channel) is StatelessRequest else None
    return Caller(channel.revision, principal, channel.peer_capabilities)
