"""Discovery: a client asks a server who it is, which revisions it speaks, and what it offers, before anything else.

It takes the place of the handshake's answer, but nothing has to be asked: any request may come first.

Spec:  2026-07-28 server/discover
Wire:  C->S server/discover
"""

from __future__ import annotations

from dataclasses import dataclass

from ..basic.lifecycle import ServerCapabilities
from ..jsonrpc.messages import Object
from .caching import CacheableResult


@dataclass
class DiscoverResult(CacheableResult):
    """Revisions by name, the latest first. Who the server is stands in `_meta`, as in every result."""

    supported_versions: list[str]
    capabilities: ServerCapabilities
    instructions: str | None = None
    meta: Object | None = None
