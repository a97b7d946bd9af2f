"""Pagination: a server sends a long list in pages, each with a cursor that the client returns to get the next page.

The server chooses the size of a page. Clients MUST treat a cursor as opaque and neither read nor change it, because
each server has its own format [2025-11-25 server/utilities/pagination#implementation-guidelines].

A cursor of this package contains the serial number of the last item on the page. New items get higher numbers and go to
the end of the list, so a client neither misses an item nor gets it twice when the list changes between two pages. A
client that forges a cursor only skips items. A malicious server could send pages until the client's memory is full, so
`all_pages` limits the length of a list.

    2024-10-07  No pages: one result contains the whole list.
    2024-11-05  Adds `cursor` and `nextCursor` to tools/list, prompts/list, resources/list, resources/templates/list. A
                page without `nextCursor` is the last page. Clients MUST NOT use a cursor in another session.
    2025-11-25  Adds `tasks/list`, which has pages too.
    2026-07-28  An empty string is a valid cursor, which clients MUST NOT treat as the end of the list. All pages MUST
                have the same `cacheScope`. Removes `tasks/list` and the rule about sessions.

Spec:  server/utilities/pagination (2024-11-05 to 2026-07-28)
Wire:  {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {"cursor": "YWZ0ZXI6Mw=="}}
       {"jsonrpc": "2.0", "id": 2, "result": {"tools": [], "nextCursor": "YWZ0ZXI6Ng=="}}
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ..jsonrpc.errors import InvalidMessage, ProtocolError
from ..jsonrpc.messages import INVALID_PARAMS

T = TypeVar("T")

MAX_PAGES = 10_000
"""Maximum number of pages of one list that a client fetches."""
MAX_ITEMS = 1_000_000
"""Maximum number of items of one list that a client fetches."""
MAX_LIST_SIZE = 64 * 1024 * 1024
"""Maximum total size of all pages of one list but the last, in characters of their `repr` (64 Mi)."""


def cursor_of(serial: int) -> str:
    """Return the cursor of the page that begins after the item with this serial number."""
    return base64.urlsafe_b64encode(b"after:%d" % serial).decode()


def serial_of(cursor: str) -> int:
    """Return the serial number in a cursor. Raise ProtocolError -32602 if the cursor has another format."""
    try:
        text = base64.b64decode(cursor, altchars=b"-_", validate=True)
        if not text.startswith(b"after:") or not text[6:].isdigit():
            raise ValueError
        return int(text[6:])
    except ValueError:
        # [2025-11-25 server/utilities/pagination#error-handling] the error for an invalid cursor SHOULD be -32602
        advice = "use the nextCursor of the previous page, or no cursor for the first page"
        raise ProtocolError(INVALID_PARAMS, f"Invalid params: unknown cursor; {advice}") from None


async def all_pages(
    fetch: Callable[[str | None], Awaitable[tuple[list[T], str | None]]], max_pages: int, max_items: int
) -> list[T]:
    """Return all items of a server's list. Raise InvalidMessage if the list is too long, or repeats a cursor.

    `fetch` gets the cursor of a page (None for the first), and returns its items and the next cursor (None at the end).
    """
    items: list[T] = []
    cursor, size = None, 0
    for _ in range(max_pages):
        page, next_cursor = await fetch(cursor)
        items += page
        # [2025-11-25 server/utilities/pagination#implementation-guidelines] a missing nextCursor is the end of the list
        if next_cursor is None:
            return items
        size += len(repr(page))
        if len(items) > max_items or size > MAX_LIST_SIZE:
            raise InvalidMessage(f"the server's pages do not end: stopped after {len(items)} items")
        if next_cursor == cursor:
            raise InvalidMessage(f"the server's pages do not end: the nextCursor {cursor[:40]!r} came twice")
        cursor = next_cursor
    raise InvalidMessage(f"the server's pages do not end: stopped after {max_pages} pages")
