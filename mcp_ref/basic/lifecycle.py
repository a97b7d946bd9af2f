"""The handshake that opens a session in the legacy era, up to 2025-11-25.

The client's first request, `initialize`, names a revision (SHOULD be its latest), itself and its capabilities. The
server responds with the revision of the session: the requested one if it supports it (MUST), else another (SHOULD be
its latest). A client without that revision SHOULD disconnect. Else it sends `notifications/initialized` (MUST).

    NEW --response to initialize--> INITIALIZING --notifications/initialized--> OPERATING

Each side learns the other's capabilities before it can use them, so neither gets a message that it cannot handle. Until
the response, a client SHOULD NOT send requests except pings. Until `initialized`, the client is not ready, and a server
SHOULD only send pings and logs. Do not trust names: each peer chooses its own. [2025-11-25
basic/lifecycle#initialization]

    2024-11-05  `initialize` MUST come first; both sides SHOULD respect the negotiated revision and capabilities;
                shutdown has no message: the transport closes
    2025-03-26  `initialize` MUST NOT be part of a batch; server capability `completions`; each request SHOULD have a
                time limit, which progress MAY restart up to a maximum (SHOULD)
    2025-06-18  both sides MUST (before: SHOULD) respect the negotiation; on HTTP each later request MUST name the
                revision in a header; client capability `elicitation`; `title` of peers
    2025-11-25  client `elicitation` {form, url}, `sampling` {tools, context}; `tasks` on both sides; `description`,
                `icons`, `websiteUrl` of peers
    2026-07-28  replaced: each request carries revision and capabilities (versioning.py). Added: `extensions`
[2025-11-25 basic/lifecycle#version-negotiation] [2025-06-18 basic/lifecycle#operation]

Spec:  basic/lifecycle (2024-11-05 to 2025-11-25); schema: InitializeRequest, InitializeResult, Implementation,
       ClientCapabilities, ServerCapabilities
Wire:  {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25",
           "capabilities": {"roots": {}}, "clientInfo": {"name": "example", "version": "1.0"}}}
       {"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
           "serverInfo": {"name": "weather", "version": "1.0"}}}
       {"jsonrpc": "2.0", "method": "notifications/initialized"}
Above: `client/negotiation.py` and `server/session.py` run the handshake.
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
    Availability,
    Revision,
    find_revision,
)
from .content import Icon


@dataclass
class Implementation:
    """The name and version that a peer claims to have, for display and logs."""

    name: str
    version: str
    title: Annotated[str | None, Availability(since=R2025_06_18)] = None
    description: Annotated[str | None, Availability(since=R2025_11_25)] = None
    icons: Annotated[list[Icon] | None, Availability(since=R2025_11_25)] = None
    website_url: Annotated[str | None, Availability(since=R2025_11_25)] = None


@dataclass
class ClientCapabilities:
    """The features of a client. None means no; an object, even {}, means yes, with these sub-capabilities.

    roots: {"listChanged": bool}; {} from 2026-07-28. sampling: {"tools": {}, "context": {}} from 2025-11-25. Both are
    deprecated since 2026-07-28. elicitation: {"form": {}, "url": {}} from 2025-11-25, where {} means form only. tasks:
    the requests that can be tasks. extensions, experimental: name -> settings.
    """

    experimental: Object | None = None
    roots: Object | None = None
    sampling: Object | None = None
    elicitation: Annotated[Object | None, Availability(since=R2025_06_18)] = None
    tasks: Annotated[Object | None, Availability(since=R2025_11_25, until=R2026_07_28)] = None
    extensions: Annotated[Object | None, Availability(since=R2026_07_28)] = None

    def to_wire(self, wire: Object, revision: Revision) -> Object:
        """Leave out the sub-capabilities that a revision does not know."""
        if not revision.sampling_tools and self.sampling is not None:
            wire["sampling"] = {}
        if not revision.elicitation_modes and "elicitation" in wire:
            wire["elicitation"] = {}
        return wire


@dataclass
class ServerCapabilities:
    """The features of a server. None means no; an object, even {}, means yes, with these sub-capabilities.

    tools, prompts: {"listChanged": bool}. resources: {"subscribe": bool, "listChanged": bool}. logging
    (deprecated since 2026-07-28), completions: {}. tasks: the requests that can be tasks. extensions, experimental:
    name -> settings.
    """

    experimental: Object | None = None
    logging: Object | None = None
    completions: Annotated[Object | None, Availability(since=R2025_03_26)] = None
    prompts: Object | None = None
    resources: Object | None = None
    tools: Object | None = None
    tasks: Annotated[Object | None, Availability(since=R2025_11_25, until=R2026_07_28)] = None
    extensions: Annotated[Object | None, Availability(since=R2026_07_28)] = None


@dataclass
class InitializeRequestParams:
    """The params of `initialize`. `protocol_version` is the revision that the client prefers."""

    protocol_version: str
    capabilities: ClientCapabilities
    client_info: Implementation
    meta: Object | None = None


@dataclass
class InitializeResult:
    """The result of `initialize`. `protocol_version` is the revision to speak; `instructions` are for the model."""

    protocol_version: str
    capabilities: ServerCapabilities
    server_info: Implementation
    instructions: Annotated[str | None, Availability(since=R2024_11_05)] = None
    meta: Object | None = None


class UnsupportedRevision(McpError):
    """A failed negotiation: client and server have no revision in common."""


def choose_revision(requested: str, supported: Sequence[Revision]) -> Revision:
    """Return the revision that a server responds with. `supported` are its legacy revisions, oldest first."""
    # [2025-11-25 basic/lifecycle#version-negotiation] the same version, or another one, the latest that it supports
    wanted = find_revision(requested)
    return wanted if wanted is not None and wanted in supported else supported[-1]


def accept_revision(offered: str, supported: Sequence[Revision]) -> Revision:
    """Return the revision that a server has chosen. Raise UnsupportedRevision if the client does not speak it."""
    revision = find_revision(offered)
    if revision is None or revision not in supported:
        # [2025-11-25 basic/lifecycle#version-negotiation] the client SHOULD disconnect
        ours = ", ".join(known.name for known in supported)
        raise UnsupportedRevision(f"the server speaks revision {offered[:40]!r}; this client speaks {ours}")
    return revision


class Phase(Enum):
    """The state of a handshake, on the server."""

    NEW = "before the response to initialize"
    INITIALIZING = "before notifications/initialized"
    OPERATING = "open"


NEW, INITIALIZING, OPERATING = Phase  # in Python 3.11, a global is far faster than Phase.NEW


def phase_error(phase: Phase, method: str) -> str | None:
    """Return the reason to refuse a request in this phase, or None if the server serves it."""
    if method == "initialize":
        return None if phase is NEW else "the session is initialized already; initialize comes once"
    if phase is NEW and method != "ping":
        # [2025-11-25 basic/lifecycle#initialization] initialization MUST be the first interaction. In INITIALIZING,
        # requests are served: a client SHOULD NOT send them yet, but may.
        return f"{method} came before initialize, which opens every session"
    return None


class CapabilityError(McpError):
    """The use of a feature that the peer did not declare. Nothing was sent."""


def capability_keys(path: str) -> list[str]:
    """Return the keys in a path: `resources.subscribe` has two. An extension's name is one key, with its dots."""
    first, _, extension = path.partition(".")
    return [first, extension] if first == "extensions" and extension else path.split(".")


def declares(capabilities: Object, path: str) -> bool:
    """Return True if capabilities from the wire have a path such as `resources.subscribe`. A value of {} counts."""
    value: object = capabilities
    for name in capability_keys(path):
        value = value.get(name) if isinstance(value, dict) else None
    return value is not None and value is not False
