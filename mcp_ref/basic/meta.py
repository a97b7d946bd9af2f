"""`_meta`: an object in any message for data that belongs to no feature, such as a progress token or trace context.

Peers may agree on further keys. A key is `name` or `prefix/name`.
The prefix keeps the keys of different vendors apart; the reserved prefixes leave the protocol room for new keys.
Implementations MUST NOT make assumptions about values at reserved keys. [2026-07-28 basic/index#_meta]

    2024-10-07 to 2025-03-26  on params and results; `progressToken` is the only key with a meaning
    2025-06-18                rules for keys; also on tools, prompts, resources, roots and content blocks. Reserved:
                              prefixes in which `modelcontextprotocol` or `mcp` is followed by one more label (mcp.dev/)
    2025-11-25                reserved: prefixes whose second label is one of the two (io.modelcontextprotocol/);
                              prefixes SHOULD be reverse DNS names (com.example/). Tasks add `related-task`
    2026-07-28                on requests: revision and client capabilities (MUST), client name (SHOULD); on results:
                              server name (SHOULD); see versioning.py. On messages of a subscription: its id (MUST).
                              `traceparent`, `tracestate`, `baggage` are reserved without a prefix

Spec:  basic/index#_meta (2025-06-18 on); schema: RequestParams, NotificationParams, Result, PaginatedRequestParams
Wire:  {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"_meta": {"progressToken": "abc123"}}}
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, cast

from ..jsonrpc.messages import Object
from ..revisions import R2024_11_05, Availability


@dataclass
class RequestParams:
    """The params of a request without other params."""

    meta: Object | None = None


@dataclass
class NotificationParams:
    """The params of a notification without other params."""

    meta: Object | None = None


@dataclass
class EmptyResult:
    """The result of a request that returns no data, only success."""

    meta: Object | None = None


@dataclass
class PaginatedRequestParams:
    """The params of a list request. `cursor` is the opaque start of a page; None for the first page."""

    cursor: Annotated[str | None, Availability(since=R2024_11_05)] = None
    meta: Object | None = None


_LABEL = r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_KEY = re.compile(rf"(?:({_LABEL}(?:\.{_LABEL})*)/)?(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?)?")


def is_meta_key(key: str) -> bool:
    """Return True if `key` follows the grammar of `_meta` keys: an optional `label.label/` prefix, then a name."""
    # [2025-11-25 basic/index#_meta] label: letters, digits, inner hyphens, a letter first. name: also "_" and "."
    # inside. No text matches the pattern in two ways, so a hostile key cannot make it slow.
    return len(key) <= 256 and _KEY.fullmatch(key) is not None


def check_meta_keys(meta: Object | None) -> None:
    """Raise ValueError if a `_meta` that we send has an invalid key. A received `_meta` is not checked."""
    for key in meta or ():
        if not is_meta_key(key):
            raise ValueError(f"{key[:80]!r} is not a valid _meta key: write name or, better, com.example/name")


def extended_meta(message: Object, more: Object) -> Object:
    """Return the `_meta` of params or a result, with `more` added. A `_meta` that is not an object is ignored."""
    given = message.get("_meta")
    return {**given, **more} if isinstance(given, dict) else more


def checked_extensions(extensions: Mapping[str, object] | None) -> Object:
    """Return the extensions to declare: name -> settings. Raise ValueError for an invalid name."""
    for name in extensions or ():
        # [2026-07-28 basic/versioning#extension-negotiation] MUST follow the rules of _meta keys, with a prefix
        if "/" not in name or not is_meta_key(name):
            raise ValueError(f"{name[:80]!r} is not a valid extension name: write com.example/name")
    return cast(Object, dict(extensions or {}))


def is_reserved_meta_key(key: str) -> bool:
    """Return True if any revision reserves the prefix of `key` for the protocol."""
    prefix, slash, _ = key.partition("/")
    labels = prefix.split(".")
    ours = {"modelcontextprotocol", "mcp"}
    return bool(slash) and (bool(ours & set(labels[1:2])) or bool(ours & set(labels[:-1])))
