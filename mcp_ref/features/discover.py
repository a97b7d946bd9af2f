"""Discovery: `server/discover` returns a server's name, capabilities, and supported revisions of the protocol.

2026-07-28 has no handshake, and added this method. Servers MUST implement the method; clients MAY call it
[2026-07-28 server/discover]. A client can also start with any other request, because each request names its revision.
If the server does not support that revision, the error -32022 lists the supported revisions.

A client calls the method to show the server's capabilities to the user, or to find out if the server supports only the
handshake: basic/versioning.py describes such clients [2026-07-28 server/discover#when-to-call].

    Fact            InitializeResult (until 2025-11-25)     DiscoverResult (since 2026-07-28)
    revisions       `protocolVersion`: the negotiated one   `supportedVersions`: all supported revisions
    server's name   `serverInfo`: required                  `_meta["io.modelcontextprotocol/serverInfo"]`: SHOULD
    capabilities    `capabilities`: valid for the session   `capabilities`: valid for `ttlMs` milliseconds
    instructions    `instructions`: valid for the session   `instructions`: valid for `ttlMs` milliseconds

Nobody verifies the server's name. Use the name for display and logs. Clients SHOULD NOT base security decisions on it.

Spec:  2026-07-28 server/discover; schema: DiscoverResult
Wire:  {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}}}
       {"jsonrpc": "2.0", "id": 1, "result": {"resultType": "complete", "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {}}, "ttlMs": 3600000, "cacheScope": "public"}}
"""

from __future__ import annotations

from dataclasses import dataclass

from ..basic.lifecycle import ServerCapabilities
from ..jsonrpc.messages import Object
from .caching import CacheableResult


@dataclass
class DiscoverResult(CacheableResult):
    """The revisions and the capabilities of a server."""

    supported_versions: list[str]
    """The names of the revisions that the server supports, the latest first."""
    capabilities: ServerCapabilities
    instructions: str | None = None
    """Advice for the client's model about this server."""
    meta: Object | None = None
    """The object `_meta`, which can contain the server's name and version."""
