"""The handshake that opens a session in the legacy era, up to 2025-11-25.

With its first request, `initialize`, the client sends its name, its capabilities, and a revision, which SHOULD be its
latest. The server MUST choose this revision for the session if it supports it, and otherwise SHOULD choose its own
latest. A client that does not support the choice SHOULD disconnect; any other MUST send `notifications/initialized`.

    NEW --response to initialize--> INITIALIZING --notifications/initialized--> OPERATING

From then on each side knows the capabilities of its peer, and sends nothing that the peer cannot handle. Until then,
both may send pings. A client SHOULD NOT send other requests before the response to `initialize`, and a server SHOULD
NOT send any before `notifications/initialized`, except log messages. [2025-11-25 basic/lifecycle#initialization]

    2024-11-05  `initialize` MUST come first. Both sides SHOULD respect the negotiated revision and capabilities.
                Closing the transport ends the session
    2025-03-26  `initialize` MUST NOT be part of a batch
    2025-06-18  Both sides MUST respect the negotiation. On HTTP, each later request MUST have the revision in a header
    2026-07-28  The handshake is removed (see versioning.py)
[2025-11-25 basic/lifecycle#version-negotiation] [2025-06-18 basic/lifecycle#operation]

Spec:  basic/lifecycle (2024-11-05 to 2025-11-25); schema: InitializeRequest, InitializeResult, Implementation,
       ClientCapabilities, ServerCapabilities
Wire:  {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25",
           "capabilities": {"roots": {}}, "clientInfo": {"name": "example", "version": "1.0"}}}
       {"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
           "serverInfo": {"name": "weather", "version": "1.0"}}}
       {"jsonrpc": "2.0", "method": "notifications/initialized"}
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Annotated

from ..jsonrpc.errors import McpError
from ..jsonrpc.messages import Object
from ..lib.fields import CheckedFields
from ..revisions import R2024_11_05, R2025_03_26, R2025_06_18, R2025_11_25, R2026_07_28, Availability, Revision
from .content import Icon


@dataclass
class Implementation(CheckedFields):
    """The name and version that a client or server claims to have, to be used only for display and logs."""

    name: str
    version: str
    title: Annotated[str | None, Availability(since=R2025_06_18)] = None
    description: Annotated[str | None, Availability(since=R2025_11_25)] = None
    icons: Annotated[list[Icon] | None, Availability(since=R2025_11_25)] = None
    website_url: Annotated[str | None, Availability(since=R2025_11_25)] = None


@dataclass
class ClientCapabilities:
    """The features that a client supports. A member that is an object, even {}, declares its feature; None does not.

    `roots` is {"listChanged": bool}, but {} in 2026-07-28. `sampling` is {"tools": {}, "context": {}} since 2025-11-25.
    `elicitation` is {"form": {}, "url": {}} since then, where {} means form only. `tasks` has `list`, `cancel` and
    `requests`. `extensions` and `experimental` map names to settings. 2026-07-28 deprecates `roots` and `sampling`.
    """

    experimental: Object | None = None
    roots: Object | None = None
    sampling: Object | None = None
    elicitation: Annotated[Object | None, Availability(since=R2025_06_18)] = None
    tasks: Annotated[Object | None, Availability(since=R2025_11_25, until=R2026_07_28)] = None
    extensions: Annotated[Object | None, Availability(since=R2026_07_28)] = None

    def to_wire(self, wire: Object, revision: Revision) -> Object:
        if not revision.sampling_tools and "sampling" in wire:  # earlier revisions declare a feature just as {}
            wire["sampling"] = {}
        if not revision.elicitation_modes and "elicitation" in wire:
            wire["elicitation"] = {}
        return wire


@dataclass
class ServerCapabilities:
    """The features that a server supports, declared as in `ClientCapabilities`.

    `tools` and `prompts` are {"listChanged": bool}. `resources` is {"subscribe": bool, "listChanged": bool}. `logging`
    (deprecated since 2026-07-28) and `completions` are {}.
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
    protocol_version: str  # the revision that the client prefers
    capabilities: ClientCapabilities
    client_info: Implementation
    meta: Object | None = None


@dataclass
class InitializeResult:
    """The result of `initialize`, which fixes the session's revision."""

    protocol_version: str  # the session's revision
    capabilities: ServerCapabilities
    server_info: Implementation
    instructions: Annotated[str | None, Availability(since=R2024_11_05)] = None  # for the client's model
    meta: Object | None = None


class UnsupportedRevision(McpError):
    """The error if client and server have no revision in common."""


def choose_revision(requested: str, supported: Sequence[Revision]) -> Revision:
    """Return the revision that a server chooses from its `supported` legacy revisions, oldest first."""
    # [2025-11-25 basic/lifecycle#version-negotiation] it MUST be the requested one, else it SHOULD be the latest
    return next((revision for revision in supported if revision.name == requested), supported[-1])


def accept_revision(chosen: str, supported: Sequence[Revision]) -> Revision:
    """Return the revision that the server chose. Raise UnsupportedRevision if the client does not support it."""
    ours = {revision.name: revision for revision in supported}
    if chosen not in ours:
        # [2025-11-25 basic/lifecycle#version-negotiation] the client SHOULD disconnect
        raise UnsupportedRevision(f"the server speaks revision {chosen[:40]!r}; this client speaks {', '.join(ours)}")
    return ours[chosen]


class Phase(Enum):
    """The state of a session's handshake on the server."""

    NEW = "before the response to initialize"
    INITIALIZING = "before notifications/initialized"
    OPERATING = "open"


NEW, INITIALIZING, OPERATING = Phase  # Python 3.11 reads these faster than `Phase.NEW`


def phase_error(phase: Phase, method: str, may_initialize_again: bool = False) -> str | None:
    """Return the reason to refuse a request, or None. On stdio and in memory, a client may initialize again."""
    if method == "initialize":
        if phase is NEW or may_initialize_again:
            return None
        return "initialize must be sent only once; this session is already initialized"
    if phase is NEW and method != "ping":
        # [2025-11-25 basic/lifecycle#initialization] initialization MUST be the first interaction. Requests between
        # the response to `initialize` and `notifications/initialized` are not forbidden, so they are served.
        return f"{method} came before initialize; a session must begin with initialize"
    return None


class CapabilityError(McpError):
    """The error for the use of a feature that the peer did not declare. Nothing was sent."""

    is_for_peer = True  # if a peer's request caused this error, the peer gets its text


def capability_keys(path: str) -> list[str]:
    """Return the keys in a path such as `resources.subscribe`. The name of an extension is one key, dots or not."""
    first, _, extension = path.partition(".")
    return [first, extension] if first == "extensions" and extension else path.split(".")


def declares(capabilities: Object, path: str) -> bool:
    """Return True if the capabilities, as JSON, have anything but null or false at `path`."""
    value: object = capabilities
    for name in capability_keys(path):
        value = value.get(name) if isinstance(value, dict) else None
    return value is not None and value is not False
