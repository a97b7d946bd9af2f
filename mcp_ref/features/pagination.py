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
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ..jsonrpc.errors import InvalidMessage, ProtocolError
from ..jsonrpc.messages import INVALID_PARAMS

T = TypeVar("T")

PAGE_SIZE = 1000
"""Items in a page, by default."""

MAX_PAGES = 10_000
"""Pages that a client follows before it gives up on a server."""

MAX_ITEMS = 1_000_000
"""Items of a list that a client collects before it gives up on a server."""


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
