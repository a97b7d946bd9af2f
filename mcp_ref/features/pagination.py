"""Pagination: a server sends a long list in pages, and each page has a cursor for the start of the next page.

The server chooses the size of a page. A cursor, unlike a page number, stays right when the list changes between two
pages. Clients MUST treat cursors as opaque, so that a server can change the format of its cursors
[2025-11-25 server/utilities/pagination#implementation-guidelines]. An invalid cursor SHOULD be -32602.

A cursor of this server holds the serial number of the last item that was sent. New items get higher numbers, and come
at the end. A forged cursor only skips items of the same list, so it reveals nothing. A malicious server could send
pages without end to fill the client's memory; `all_pages` therefore has limits.

    2024-10-07  No pages: one result holds the whole list.
    2024-11-05  `cursor` and `nextCursor` on tools/list, prompts/list, resources/list and resources/templates/list. A
                page without `nextCursor` is the last one. Clients MUST NOT keep cursors for another session.
    2025-11-25  Pages also for `tasks/list`.
    2026-07-28  An empty string is a valid cursor and MUST NOT end the list; only a missing `nextCursor` ends the list.
                All pages share one `cacheScope`. `tasks/list` was removed, and so was the rule about other sessions.

Spec:  server/utilities/pagination (2024-11-05 to 2026-07-28)
Wire:  {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {"cursor": "YWZ0ZXI6Mw=="}}
       {"jsonrpc": "2.0", "id": 2, "result": {"tools": [], "nextCursor": "YWZ0ZXI6Ng=="}}
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ..jsonrpc.errors import InvalidMessage, ProtocolError
from ..jsonrpc.messages import INVALID_PARAMS

T = TypeVar("T")

PAGE_SIZE = 1000
"""Default number of items in a page."""

MAX_PAGES = 10_000
"""Maximum number of pages of one list that a client fetches."""

MAX_ITEMS = 1_000_000
"""Maximum number of items of one list that a client collects."""


def cursor_of(serial: int) -> str:
    """Return the cursor of the page that starts after the item with this serial number."""
    return base64.urlsafe_b64encode(b"after:%d" % serial).decode()


def serial_of(cursor: str) -> int:
    """Return the serial number in a cursor. Raise ProtocolError -32602 for a cursor that this server did not make."""
    try:
        text = base64.b64decode(cursor, altchars=b"-_", validate=True)
        if not text.startswith(b"after:") or len(text) > 26 or not text[6:].isdigit():
            raise ValueError
        return int(text[6:])
    except (ValueError, binascii.Error):
        # [2025-11-25 server/utilities/pagination#error-handling] invalid cursors SHOULD result in -32602
        advice = "use the nextCursor of the last page, or leave the cursor out for the first page"
        raise ProtocolError(INVALID_PARAMS, f"Invalid params: unknown cursor; {advice}") from None


async def all_pages(fetch: Callable[[str | None], Awaitable[tuple[list[T], str | None]]]) -> list[T]:
    """Return all items of a server's list. Raise InvalidMessage if the pages repeat or exceed the limits.

    `fetch` takes a cursor, None for the first page, and returns the items of that page and the next cursor.
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
            raise InvalidMessage(f"the server's pages do not end: cursor {cursor[:40]!r} leads to the same page again")
        cursor = following
    raise InvalidMessage(f"the server's pages do not end: gave up after {MAX_PAGES} pages")
