"""The handshake that opens a connection in the revisions up to 2025-11-25, and what may be said before it is done.

The client's first request, `initialize`, names the revision it would like, itself, and what it can do. The server
answers with the revision that will be spoken, itself, and what *it* can do. The client confirms with
`notifications/initialized`. From then on both keep to that revision and to the capabilities that were declared.

    NEW --initialize answered--> INITIALIZING --initialized--> OPERATING

Spec:  basic/lifecycle (2024-11-05 to 2025-11-25); schema: InitializeRequest, InitializeResult, Implementation,
       ClientCapabilities, ServerCapabilities
Wire:  C->S initialize; C->S notifications/initialized
Above: `runtime/opening.py` and `runtime/server.py` drive it. Elsewhere: shutdown is the transport's closing
(basic/transports/stdio.py); timeouts are the dispatcher's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Annotated

from ..jsonrpc.errors import McpError
from ..jsonrpc.messages import Object
from ..revisions import (
    R2024_11_05,
    R2025_03_26,
    R2025_06_18,
    R2025_11_25,
    R2026_07_28,
    Life,
    Revision,
    find_revision,
)
from .content import Icon

# ---------------------------------------------------------------------------------------------------- types


@dataclass
class Implementation:
    """Who a peer is: a name and version for programs and logs, the rest for display. Never to be trusted."""

    name: str
    version: str
    title: Annotated[str | None, Life(since=R2025_06_18)] = None
    description: Annotated[str | None, Life(since=R2025_11_25)] = None
    icons: Annotated[list[Icon] | None, Life(since=R2025_11_25)] = None
    website_url: Annotated[str | None, Life(since=R2025_11_25)] = None


@dataclass
class ClientCapabilities:
    """What a client can do for a server. None: it cannot; an object, also `{}`: it can, with these sub-capabilities.

    roots: {"listChanged": bool}. sampling: {"tools": {}, "context": {}} (from 2025-11-25). elicitation: {"form": {},
    "url": {}} (from 2025-11-25, where `{}` means form alone). tasks: which requests can be tasks (2025-11-25).
    extensions, experimental: {name: settings}.
    """

    experimental: Object | None = None
    roots: Object | None = None
    sampling: Object | None = None
    elicitation: Annotated[Object | None, Life(since=R2025_06_18)] = None
    tasks: Annotated[Object | None, Life(since=R2025_11_25, until=R2026_07_28)] = None
    extensions: Annotated[Object | None, Life(since=R2026_07_28)] = None

    def to_wire(self, wire: Object, revision: Revision) -> Object:
        """Sub-capabilities that a revision does not know are left out."""
        if not revision.sampling_tools and self.sampling is not None:
            wire["sampling"] = {}
        if not revision.elicitation_modes and "elicitation" in wire:
            wire["elicitation"] = {}
        return wire


@dataclass
class ServerCapabilities:
    """What a server offers. None: it does not; an object, also `{}`: it does, with these sub-capabilities.

    tools, prompts: {"listChanged": bool}. resources: {"subscribe": bool, "listChanged": bool}. logging, completions:
    {}. tasks: which requests can be tasks (2025-11-25). extensions, experimental: {name: settings}.
    """

    experimental: Object | None = None
    logging: Object | None = None
    completions: Annotated[Object | None, Life(since=R2025_03_26)] = None
    prompts: Object | None = None
    resources: Object | None = None
    tools: Object | None = None
    tasks: Annotated[Object | None, Life(since=R2025_11_25, until=R2026_07_28)] = None
    extensions: Annotated[Object | None, Life(since=R2026_07_28)] = None


@dataclass
class InitializeRequestParams:
    """What the client says first. `protocol_version` is the revision it would like to speak."""

    protocol_version: str
    capabilities: ClientCapabilities
    client_info: Implementation
    meta: Object | None = None


@dataclass
class InitializeResult:
    """What the server answers. `protocol_version` is the revision that both will speak; `instructions` is for the
    model."""

    protocol_version: str
    capabilities: ServerCapabilities
    server_info: Implementation
    instructions: Annotated[str | None, Life(since=R2024_11_05)] = None
    meta: Object | None = None


# ---------------------------------------------------------------------------------------------------- revisions


class UnsupportedRevision(McpError):
    """The two peers have no revision in common; the connection is closed."""


def choose_revision(requested: str, supported: Sequence[Revision]) -> Revision:
    """The server's answer to the revision that a client asks for: the same if it can, else the latest it supports.

    supported: oldest first, legacy revisions only, not empty.
    """
    # [2025-11-25 basic/lifecycle#version-negotiation] the same version, or another one, the latest that it supports
    wanted = find_revision(requested)
    return wanted if wanted is not None and wanted in supported else supported[-1]


def accept_revision(offered: str, supported: Sequence[Revision]) -> Revision:
    """The client's reading of the server's answer. Raises UnsupportedRevision, upon which the client disconnects."""
    revision = find_revision(offered)
    if revision is None or revision not in supported:
        # [2025-11-25 basic/lifecycle#version-negotiation] the client SHOULD disconnect
        ours = ", ".join(r.name for r in supported)
        raise UnsupportedRevision(f"the server answers in revision {offered[:40]!r}; this client speaks {ours}")
    return revision


# ---------------------------------------------------------------------------------------------------- phases


class Phase(Enum):
    """How far the handshake has come."""

    NEW = "before initialize"
    INITIALIZING = "initialize is answered, initialized not yet received"
    OPERATING = "open"


def phase_error(phase: Phase, method: str) -> str | None:
    """Why a server does not serve this request in this phase, or None when it does."""
    if method == "initialize":
        return None if phase is Phase.NEW else "the connection is initialized already; initialize comes once"
    if phase is Phase.NEW and method != "ping":
        # [2025-11-25 basic/lifecycle#initialization] initialization MUST be the first interaction. Requests that are
        # pipelined behind initialize come in INITIALIZING and are served: the client only SHOULD NOT send them.
        return f"{method} came before initialize, which opens every connection"
    return None


# ---------------------------------------------------------------------------------------------------- capabilities


class CapabilityError(McpError):
    """A feature was used that the peer did not declare. Nothing was sent."""


def capability_path(path: str) -> list[str]:
    """`resources.subscribe` -> resources, subscribe. An extension's name is one step, dots and all."""
    first, _, extension = path.partition(".")
    return [first, extension] if first == "extensions" and extension else path.split(".")


def declares(capabilities: Object, path: str) -> bool:
    """Whether capabilities, as on the wire, declare a path such as `resources.subscribe`. `{}` declares; false does
    not."""
    value: object = capabilities
    for name in capability_path(path):
        value = value.get(name) if isinstance(value, dict) else None
    return value is not None and value is not False
