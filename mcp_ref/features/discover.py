"""Discovery: `server/discover` returns a server's identity, the revisions that it speaks, and its capabilities.

The method came in 2026-07-28, which has no handshake. Servers MUST implement it; clients MAY call it
[2026-07-28 server/discover]. A client can send any other request first, because each request names its own revision. If
the server does not speak that revision, the error -32022 lists the revisions that the server speaks.

The method has two uses [2026-07-28 server/discover#when-to-call]. A client can show the server's offer after one
request. And a client of both eras can recognize a legacy server on stdio, where no HTTP status helps: the client SHOULD
send `server/discover` first, and sends `initialize` after an error or a timeout.

    until 2025-11-25, InitializeResult          2026-07-28, DiscoverResult
    `protocolVersion`: one, negotiated          `supportedVersions`: all; the client chooses for each request
    `serverInfo`: required, in the body         `_meta["io.modelcontextprotocol/serverInfo"]`: SHOULD
    `capabilities`, `instructions`: session     `capabilities`, `instructions`: cached (`ttlMs`, `cacheScope`)

The identity is not verified. Use it for display and logs. Clients SHOULD NOT base security decisions on it.

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
    """The result of `server/discover`."""

    supported_versions: list[str]
    """Names of the revisions, the latest first."""
    capabilities: ServerCapabilities
    instructions: str | None = None
    """Advice for the model on the use of this server."""
    meta: Object | None = None
    """The server's identity, as in the `_meta` of every result."""
