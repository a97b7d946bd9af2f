"""`_meta`: an object in any message for data that belongs to no feature, such as a progress token or trace context.

A key is `name` or `prefix/name`. A prefix is a list of labels with dots between them, and each vendor has its own, so
that the keys of two vendors never collide. Keys with some prefixes are reserved for the protocol, and implementations
MUST NOT make assumptions about their values. [2026-07-28 basic/index#_meta]

    2024-10-07 to 2025-03-26  params and results can have `_meta`. The protocol defines one key, `progressToken`
    2025-06-18                so can tools, prompts, resources, roots and content blocks. A prefix is reserved if
                              `modelcontextprotocol` or `mcp` is a label before the last label (mcp.dev/)
    2025-11-25                a prefix is reserved if its second label is `modelcontextprotocol` or `mcp`
                              (io.modelcontextprotocol/). Prefixes SHOULD be reverse DNS names (com.example/)
    2026-07-28                a client MUST put its revision and capabilities into the `_meta` of a request, and SHOULD
                              add its name, as a server SHOULD in results (versioning.py). The messages of a
                              subscription MUST have its id. Keys `traceparent`, `tracestate`, `baggage` are reserved

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
    """The params of a request that has no other params than `_meta`."""

    meta: Object | None = None


@dataclass
class NotificationParams:
    """The params of a notification that has no other params than `_meta`."""

    meta: Object | None = None


@dataclass
class EmptyResult:
    """The result of a request that returns no data."""

    meta: Object | None = None


Cursor = Annotated[str | None, Availability(since=R2024_11_05)]


@dataclass
class PaginatedRequestParams:
    """The params of a list request. `cursor` is the `nextCursor` of the previous page; None for the first page."""

    cursor: Cursor = None
    meta: Object | None = None


_LABEL = r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_KEY = rf"(?:{_LABEL}(?:\.{_LABEL})*/)?(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?)?"


def is_meta_key(key: str) -> bool:
    """Return True if `key` follows the grammar of `_meta` keys: an optional `label.label/` prefix, then a name."""
    # [2025-11-25 basic/index#_meta] A label starts with a letter; letters, digits and inner hyphens follow. A name may
    # also contain "_" and ".", or be empty. A text matches in one way only, so backtracking cannot slow the match.
    return len(key) <= 256 and re.fullmatch(_KEY, key) is not None


def check_meta_keys(meta: Object | None) -> None:
    """Raise ValueError if a `_meta` that we send has an invalid key. Keys that a peer sends are not checked."""
    for key in meta or ():
        if not is_meta_key(key):
            raise ValueError(f"{key[:80]!r} is not a valid _meta key: write it as name or, better, com.example/name")


def extended_meta(params_or_result: Object, added: Object) -> Object:
    """Return the `_meta` of params or of a result together with the members of `added`."""
    given = params_or_result.get("_meta")
    return {**given, **added} if isinstance(given, dict) else added


def checked_extensions(extensions: Mapping[str, object] | None) -> Object:
    """Return a copy of `extensions`: name -> settings. Raise ValueError for an invalid name."""
    for name in extensions or ():
        # [2026-07-28 basic/versioning#extension-negotiation] names MUST follow the rules of _meta keys, with a prefix
        if "/" not in name or not is_meta_key(name):
            raise ValueError(f"{name[:80]!r} is not a valid extension name: write it as com.example/name")
    return cast(Object, dict(extensions or {}))
