"""What every message may carry: `_meta`, and the params and results that have nothing else.

`_meta` is the spec's place for what belongs to no feature: the progress token, trace context (`traceparent`), and
whatever two peers agree on under a name with a prefix of their own. It is passed through untouched.

Spec:  basic/index#meta (2025-06-18 on); schema: RequestParams, NotificationParams, Result, PaginatedRequestParams
Wire:  {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"_meta": {"progressToken": "abc123"}}}
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, cast

from ..jsonrpc.messages import Object
from ..revisions import R2024_11_05, Life


@dataclass
class RequestParams:
    """The params of a request that needs none."""

    meta: Object | None = None


@dataclass
class NotificationParams:
    """The params of a notification that needs none."""

    meta: Object | None = None


@dataclass
class EmptyResult:
    """The result of a request that asks for nothing but success."""

    meta: Object | None = None


@dataclass
class PaginatedRequestParams:
    """The params of a list request. `cursor` is the opaque mark of where the next page starts; None for the first."""

    cursor: Annotated[str | None, Life(since=R2024_11_05)] = None
    meta: Object | None = None


_LABEL = r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_KEY = re.compile(rf"(?:({_LABEL}(?:\.{_LABEL})*)/)?(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?)?")


def is_meta_key(key: str) -> bool:
    """True when `key` follows the grammar of `_meta` names: an optional `label.label/` prefix, then a name."""
    # [2025-11-25 basic/index#meta] key name format; the pattern has no two ways to match, so no backtracking to fear
    return len(key) <= 256 and _KEY.fullmatch(key) is not None


def check_meta_keys(meta: Object | None) -> None:
    """Raise ValueError for a `_meta` of our own with a name outside the grammar. What a peer sends is not judged."""
    for key in meta or ():
        if not is_meta_key(key):
            raise ValueError(f"{key[:80]!r} is no name for _meta: write name or, better, com.example/name")


def with_meta(message: Object, more: Object) -> Object:
    """The `_meta` that a message has, and more. One that is no object counts for nothing."""
    given = message.get("_meta")
    return {**given, **more} if isinstance(given, dict) else more


def checked_extensions(extensions: Mapping[str, object] | None) -> Object:
    """Extensions to declare, by name, with their settings. Raises ValueError for a name that is none."""
    for name in extensions or ():
        # [2026-07-28 basic/versioning#extension-negotiation] MUST follow the rules of _meta names, prefix included
        if "/" not in name or not is_meta_key(name):
            raise ValueError(f"{name[:80]!r} is no name for an extension: write com.example/name")
    return cast(Object, dict(extensions or {}))


def is_reserved_meta_key(key: str) -> bool:
    """True when the prefix of `key` belongs to the protocol, under the rule of any revision.

    2025-06-18 reserves prefixes in which `modelcontextprotocol` or `mcp` is followed by one more label, 2025-11-25
    those whose second label is one of the two. A name of one's own keeps clear of both.
    """
    prefix, slash, _ = key.partition("/")
    labels = prefix.split(".")
    ours = {"modelcontextprotocol", "mcp"}
    return bool(slash) and (bool(ours & set(labels[1:2])) or bool(ours & set(labels[:-1])))
