"""Roots: the directories and files that a client's user has opened to the server.

Spec:  client/roots (2024-11-05 to 2025-11-25); schema: Root, ListRootsResult
Wire:  {"jsonrpc": "2.0", "id": 1, "method": "roots/list"}
       {"jsonrpc": "2.0", "id": 1, "result": {"roots": [{"uri": "file:///home/user/project", "name": "My Project"}]}}
       C->S notifications/roots/list_changed
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import quote, urlsplit

from ..jsonrpc.messages import Object
from ..revisions import R2025_06_18, Life


@dataclass
class Root:
    """One root. `uri` is a `file://` URI; `name` is for people."""

    uri: str
    name: str | None = None
    meta: Annotated[Object | None, Life(since=R2025_06_18)] = None


@dataclass
class ListRootsResult:
    """The answer to `roots/list`."""

    roots: list[Root]
    meta: Object | None = None


def to_roots(roots: Iterable[Root | str | os.PathLike[str]]) -> list[Root]:
    """Roots from paths, `file://` URIs and `Root`s. Raises ValueError for what is no `file://` URI without `..`."""
    return [checked(root if isinstance(root, Root) else Root(_uri_of(root))) for root in roots]


def checked(root: Root) -> Root:
    """The root, if its URI is one. [2025-11-25 client/roots#security-considerations] validate against path traversal"""
    parts = urlsplit(root.uri)
    # [2025-11-25 client/roots#root] the URI MUST be a file:// URI
    if parts.scheme != "file" or not parts.path.startswith("/"):
        raise ValueError(f"a root is a file:// URI with an absolute path, not {root.uri[:200]!r}")
    if ".." in parts.path.lower().replace("%2e", ".").split("/"):
        raise ValueError(f"a root must not climb with '..': {root.uri[:200]!r}")
    return root


def _uri_of(path: str | os.PathLike[str]) -> str:
    text = os.fspath(path)
    if "://" in text:
        return text
    absolute = os.path.abspath(text).replace(os.sep, "/")
    return "file://" + quote(absolute if absolute.startswith("/") else "/" + absolute)
