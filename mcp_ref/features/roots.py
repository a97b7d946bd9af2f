"""Roots: the directories and files that a server should work on, such as the project that is open in the client.

The server requests the list with `roots/list`. Before a client exposes a root, it SHOULD ask the user for consent
[2025-11-25 client/roots#implementation-guidelines].

Roots are deprecated since 2026-07-28 (SEP-2577), because few clients support them and their meaning stayed vague. The
first revision on or after 2027-07-28 can remove them, so use tool parameters, resource URIs or the server's
configuration instead [2026-07-28 changelog#deprecated].

Roots are not access control, because the protocol cannot prevent a server from reading other directories. A server
SHOULD respect the roots, and check its paths against them. A client MUST expose only roots for which it has permission,
and MUST validate their URIs against path traversal [2025-11-25 client/roots#security-considerations], since
`file:///home/ada/project/../..` would expose more directories than the user chose.

    2024-10-07  Adds `roots/list` (the early schemas of this revision lack it).
    2024-11-05  A client that declares `listChanged` MUST send `notifications/roots/list_changed`. The URI MUST be a
                `file://` URI. If a client does not support roots, it SHOULD return -32601.
    2025-06-18  Roots have `_meta`.
    2026-07-28  The specification calls roots "informational guidance", no longer "boundaries". `roots/list` is an input
                request inside an `input_required` result. A client that cannot list its roots does not retry the
                request that got this result. `listChanged` and its notification were removed.

Spec:  client/roots (2024-11-05 to 2026-07-28); schema: Root, ListRootsResult
Wire:  {"jsonrpc": "2.0", "id": 1, "method": "roots/list"}
       {"jsonrpc": "2.0", "id": 1, "result": {"roots": [{"uri": "file:///home/user/project", "name": "My Project"}]}}
       {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from inspect import isawaitable
from typing import Annotated, TypeAlias
from urllib.parse import quote, unquote, urlsplit

from ..jsonrpc.failures import handler_fault
from ..jsonrpc.messages import Object
from ..lib.uri import canonical_uri
from ..revisions import R2025_06_18, Availability


@dataclass
class Root:
    """One directory or file that the server should work on."""

    uri: str
    """An absolute `file://` URI that contains no "..", not even percent-encoded."""
    name: str | None = None
    """The name to show to people."""
    meta: Annotated[Object | None, Availability(since=R2025_06_18)] = None


@dataclass
class ListRootsResult:
    roots: list[Root]
    meta: Object | None = None


RootPaths: TypeAlias = Iterable[Root | str | os.PathLike[str]]
LazyRoots: TypeAlias = Callable[[], RootPaths | Awaitable[RootPaths]]
"""A function that returns the roots. The client calls it each time the server asks for them."""


def to_roots(roots: RootPaths) -> list[Root]:
    """Convert paths, `file://` URIs and `Root` objects to roots. Raise ValueError for an invalid URI."""
    if isinstance(roots, str):  # each of its characters would become a root: "/tmp" would expose "/"
        raise TypeError(f"roots must be a list, such as [{roots!r}], even for one root")
    return [checked_root(root if isinstance(root, Root) else Root(_uri_of(root))) for root in roots]


async def called_roots(function: LazyRoots) -> list[Root]:
    """Return the roots that a function of the program returns. Raise InvalidMessage if one of them is invalid."""
    found = function()
    paths = await found if isawaitable(found) else found
    try:
        return to_roots(paths)
    except (TypeError, ValueError) as error:
        raise handler_fault(f"the roots handler must return a list of paths: {error}") from None


def checked_root(root: Root) -> Root:
    """Return the root unchanged. Raise ValueError if its URI is not an absolute `file://` URI, or contains ".."."""
    parts = urlsplit(root.uri)
    # [2025-11-25 client/roots#root] the URI MUST be a file:// URI
    if parts.scheme != "file" or not parts.path.startswith("/"):
        raise ValueError(f"a root must be a file:// URI with an absolute path, not {root.uri[:200]!r}")
    # [2025-11-25 client/roots#security-considerations] MUST validate root URIs against path traversal
    path = unquote(parts.path).replace("\\", "/")
    if ".." in path.split("/") or "\0" in path:
        raise ValueError(f"a root's URI must contain neither '..' nor a NUL character: {root.uri[:200]!r}")
    return root


def path_of(root: str | os.PathLike[str]) -> str:
    """Return the path of a root, which is given as a path, or as a `file://` URI in any spelling."""
    text = os.fspath(root)
    uri = canonical_uri(text) if "://" in text else None
    if uri is None or not uri.startswith("file:///"):
        return text
    return unquote(urlsplit(uri).path)


def _uri_of(path: str | os.PathLike[str]) -> str:
    text = os.fspath(path)
    if "://" in text:
        return text
    absolute = os.path.abspath(text).replace(os.sep, "/")
    return "file://" + quote(absolute if absolute.startswith("/") else "/" + absolute)  # "C:/" on Windows
