"""Pagination: a long list is handed out in pages, each with a cursor that says where the next one starts.

A cursor is opaque to the client. Here it names the last item that was handed out by its place in the order of
registration, so it stays good when the list changes in between: what was removed is not missed, what was added comes
at the end.

Spec:  server/utilities/pagination (2024-11-05 on)
Wire:  {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {"cursor": "eyJwYWdlIjogM30="}}
"""

from __future__ import annotations

import base64
import binascii
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from typing import Generic, TypeVar

from ..jsonrpc.errors import InvalidMessage, ProtocolError
from ..jsonrpc.messages import INVALID_PARAMS
from ..revisions import Revision

T = TypeVar("T")

PAGE_SIZE = 1000
"""Items in a page, by default."""

MAX_PAGES = 10_000
"""Pages that a client follows before it gives up on a server."""

MAX_ITEMS = 1_000_000
"""Items of a list that a client collects before it gives up on a server."""


class Registry(Generic[T]):
    """Items under unique keys, in the order of their registration. `changed` is called after every change."""

    def __init__(self, kind: str, page_size: int = PAGE_SIZE, changed: Callable[[], None] = lambda: None) -> None:
        self._kind, self._page_size, self._changed = kind, page_size, changed
        self._items: dict[str, tuple[int, T]] = {}
        self._serials = count(1)

    def add(self, key: str, item: T) -> None:
        """Register an item. Raises ValueError when the key is taken."""
        if key in self._items:
            raise ValueError(f"a {self._kind} {key!r} is registered already; remove it first, or choose another name")
        self._items[key] = (next(self._serials), item)
        self._changed()

    def remove(self, key: str) -> None:
        """Remove an item. Raises KeyError when there is none."""
        del self._items[key]
        self._changed()

    def get(self, key: str) -> T | None:
        """The item of that key, or None."""
        entry = self._items.get(key)
        return entry[1] if entry is not None else None

    def __iter__(self) -> Iterator[T]:
        return (item for _, item in self._items.values())

    def __len__(self) -> int:
        return len(self._items)

    def page(self, cursor: str | None, revision: Revision) -> tuple[list[T], str | None]:
        """The items after `cursor`, and the cursor of the page after, None for the last page.

        Raises ProtocolError -32602 for a cursor that this server did not make.
        """
        entries = list(self._items.values())
        if not revision.pagination:
            return [item for _, item in entries], None
        # An empty cursor is a cursor like any other: only None is the first page.
        start = 0 if cursor is None else bisect_right(entries, _serial_of(cursor), key=lambda entry: entry[0])
        page = entries[start : start + self._page_size]
        more = start + len(page) < len(entries)
        return [item for _, item in page], _cursor_of(page[-1][0]) if more else None


def _cursor_of(serial: int) -> str:
    return base64.urlsafe_b64encode(b"after:%d" % serial).decode()


def _serial_of(cursor: str) -> int:
    try:
        text = base64.b64decode(cursor, altchars=b"-_", validate=True)
        if not text.startswith(b"after:") or len(text) > 26 or not text[6:].isdigit():
            raise ValueError
        return int(text[6:])
    except (ValueError, binascii.Error):
        # [2025-11-25 server/utilities/pagination#error-handling] invalid cursors SHOULD result in -32602
        text_ = "Invalid params: unknown cursor; use nextCursor as the last page gave it, or none for the first page"
        raise ProtocolError(INVALID_PARAMS, text_) from None


async def all_pages(fetch: Callable[[str | None], Awaitable[tuple[list[T], str | None]]]) -> list[T]:
    """The client's part: follow the cursors to the end of a list. `fetch(cursor)` gives a page and the next cursor.

    Raises InvalidMessage when a server sends the same cursor twice in a row, more than `MAX_PAGES` pages or more than
    `MAX_ITEMS` items.
    """
    items: list[T] = []
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page, following = await fetch(cursor)
        items += page
        # [2025-11-25 server/utilities/pagination#implementation-guidelines] a missing nextCursor is the end of results
        if following is None:
            return items
        if len(items) > MAX_ITEMS:
            raise InvalidMessage(f"the server's pages do not end: gave up after {len(items)} items")
        if following == cursor:
            raise InvalidMessage(f"the server's pages do not end: cursor {cursor[:40]!r} leads to itself")
        cursor = following
    raise InvalidMessage(f"the server's pages do not end: gave up after {MAX_PAGES}")
