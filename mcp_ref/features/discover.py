"""Discovery: `server/discover` returns a server's name, capabilities, and supported revisions of the protocol.

2026-07-28 added this method because that revision has no handshake. Servers MUST implement it, but a client MAY also
start with any other request [2026-07-28 server/discover], because each request names its revision. A client calls it
to show the server's capabilities to the user, or to learn that the server is older and needs a handshake
(client/negotiation.py) [2026-07-28 server/discover#when-to-call].

    Fact            InitializeResult (until 2025-11-25)     DiscoverResult (since 2026-07-28)
    revisions       `protocolVersion`: the negotiated one   `supportedVersions`: all supported revisions
    server's name   `serverInfo`: required                  `_meta["io.modelcontextprotocol/serverInfo"]`: SHOULD
    capabilities    `capabilities`: valid for the session   `capabilities`: valid for `ttlMs` milliseconds
    instructions    `instructions`: valid for the session   `instructions`: valid for `ttlMs` milliseconds

Nobody verifies the server's name, so it is for display and logs: clients SHOULD NOT base security decisions on it.

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
    supported_versions: list[str]  # names of revisions, the latest first
    capabilities: ServerCapabilities
    instructions: str | None = None  # for the client's model
    meta: Object | None = None
