"""Pagination: a client sends the cursors of a server back unchanged.

Spec:  server/utilities/pagination (2024-11-05 to 2026-07-28)
Used by: conversation.py
"""

from __future__ import annotations

from typing import Final

from ..jsonrpc.messages import INVALID_PARAMS, METHOD_NOT_FOUND
from ..revisions import R2024_11_05
from .masking import HIDDEN
from .rules import MUST, SHOULD, Verdict, legacy_rule, rule
from .state import LISTS, Message, quoted

_PAGE: Final = "2026-07-28/server/utilities/pagination"
_LISTS: Final = " ".join(LISTS)


def _unknown_cursor(message: Message) -> str | None:
    """Return the cursor of a request, if the server surely never gave it in this session."""
    cursor = message.request.params.get("cursor")
    is_unknown = isinstance(cursor, str) and message.dialogue.cursors.lacks((message.method, cursor))
    return str(cursor) if is_unknown else None


@legacy_rule(MUST, f"{_PAGE}#implementation-guidelines-6", "request", methods=_LISTS, needs="seen unshared call")
def known_cursor(message: Message) -> Verdict:
    """A client sends cursors unchanged."""
    cursor = _unknown_cursor(message)
    return None if cursor is None else f"{message.method} has the cursor {quoted(cursor)}, which the server never gave"


@legacy_rule(SHOULD, f"{_PAGE}#error-handling-1",
             "result error", methods=_LISTS, needs="seen unshared call", since=R2024_11_05)  # fmt: skip
def invalid_cursor_is_refused(message: Message) -> Verdict:
    """An invalid cursor gives the error -32602."""
    cursor = _unknown_cursor(message)
    if cursor is None or message.code in (INVALID_PARAMS, METHOD_NOT_FOUND):
        return None
    return f"{message.method} with the cursor {quoted(cursor)}, which no page had, gets {message.outcome}"


@rule(SHOULD, f"{_PAGE}#implementation-guidelines-1", "result", methods=_LISTS, needs="call")
def cursor_moves(message: Message) -> Verdict:
    """The cursor of a page leads to the next page."""
    cursor = message.request.params.get("cursor")
    if not isinstance(cursor, str) or message.body.get("nextCursor") != cursor or HIDDEN in cursor:
        return None
    return f"the nextCursor of {message.method} is the cursor of the request, {quoted(cursor)}"
