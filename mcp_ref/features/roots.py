"""Roots: the directories and files that a client considers relevant for a server, such as the open project.

The server asks for the list (`roots/list`). The user controls it: clients SHOULD ask for consent before they expose a
root [2025-11-25 client/roots#implementation-guidelines].

Roots are deprecated since 2026-07-28 (SEP-2577), and may be removed in the first revision on or after 2027-07-28: few
clients support roots, and their meaning stayed vague. Use tool parameters, resource URIs or the server's configuration
instead [2026-07-28 changelog#deprecated].

Roots are guidance, not access control: the protocol cannot keep a server inside the roots. A server SHOULD respect
roots and check its paths against them. A client MUST expose only roots that it has permission for. It MUST validate the
URIs against path traversal [2025-11-25 client/roots#security-considerations]: `file:///home/ada/project/../..` would
open more than the user chose.

    2024-11-05  `roots/list`. A client that declares `listChanged` MUST send `notifications/roots/list_changed`. The URI
                MUST be `file://`. The page calls roots "boundaries". A client without roots returns -32601 (SHOULD).
    2025-06-18  `_meta` of a root.
    2026-07-28  Roots become "informational guidance". `roots/list` is an input request inside an `input_required`
                result; a client that fails does not retry. `listChanged` and its notification were removed.

Spec:  client/roots (2024-11-05 to 2026-07-28); schema: Root, ListRootsResult
Wire:  {"jsonrpc": "2.0", "id": 1, "method": "roots/list"}
       {"jsonrpc": "2.0", "id": 1, "result": {"roots": [{"uri": "file:///home/user/project", "name": "My Project"}]}}
       {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import quote, urlsplit

from ..jsonrpc.messages import Object
from ..revisions import R2025_06_18, Availability


@dataclass
class Root:
    """One directory or file that the client opens to the server."""

    uri: str
    """An absolute `file://` URI, without ".."."""
    name: str | None = None
    """The name to show to people."""
    meta: Annotated[Object | None, Availability(since=R2025_06_18)] = None


@dataclass
class ListRootsResult:
    """The result of `roots/list`."""

    roots: list[Root]
    meta: Object | None = None


def to_roots(roots: Iterable[Root | str | os.PathLike[str]]) -> list[Root]:
    """Convert paths, `file://` URIs and `Root`s to roots. Raise ValueError for an invalid URI."""
    return [checked_root(root if isinstance(root, Root) else Root(_uri_of(root))) for root in roots]


def checked_root(root: Root) -> Root:
    """Return the root. Raise ValueError if its URI is not an absolute `file://` URI, or contains ".."."""
    parts = urlsplit(root.uri)
    # [2025-11-25 client/roots#root] the URI MUST be a file:// URI
    if parts.scheme != "file" or not parts.path.startswith("/"):
        raise ValueError(f"a root must be a file:// URI with an absolute path, not {root.uri[:200]!r}")
    # [2025-11-25 client/roots#security-considerations] MUST validate root URIs against path traversal
    if ".." in parts.path.lower().replace("%2e", ".").split("/"):
        raise ValueError(f"a root must not contain '..': {root.uri[:200]!r}")
    return root


def _uri_of(path: str | os.PathLike[str]) -> str:
    text = os.fspath(path)
    if "://" in text:
        return text
    absolute = os.path.abspath(text).replace(os.sep, "/")
    return "file://" + quote(absolute if absolute.startswith("/") else "/" + absolute)
