"""Pagination: cursors go back to the server as they came.

Spec:  server/utilities/pagination (2024-11-05 to 2026-07-28)
Used by: conversation.py
"""

from __future__ import annotations

from typing import Final

from ..revisions import R2024_11_05, R2026_07_28
from .rules import MUST, SHOULD, Fault, Verdict, rule
from .state import LISTS, Call, Dialogue, Message, quoted

_LISTS: Final = " ".join(LISTS)


def _unknown_cursor(call: Call | None, dialogue: Dialogue) -> str | None:
    """Return the cursor of a request, if the server surely never gave it in this session."""
    cursor = call.params.get("cursor") if call is not None else None
    if call is None or not isinstance(cursor, str) or not dialogue.is_whole or dialogue.is_shared:
        return None
    return None if (call.method, cursor) in dialogue.cursors or dialogue.cursors.forgot else cursor


@rule(MUST, "2026-07-28/server/utilities/pagination#implementation-guidelines-6",
      "request", methods=_LISTS, until=R2026_07_28)  # fmt: skip
def known_cursor(message: Message) -> Verdict:
    """A client sends cursors unchanged."""
    cursor = _unknown_cursor(message.call, message.dialogue)
    return None if cursor is None else f"{message.method} has the cursor {quoted(cursor)}, which the server never gave"


@rule(SHOULD, "2026-07-28/server/utilities/pagination#error-handling-1",
      "result error", methods=_LISTS, since=R2024_11_05, until=R2026_07_28)  # fmt: skip
def invalid_cursor_is_refused(message: Message) -> Verdict:
    """An invalid cursor gives the error -32602."""
    cursor, code = _unknown_cursor(message.call, message.dialogue), message.body.get("code")
    if cursor is None or message.call is None or (message.kind == "error" and code in (-32602, -32601)):
        return None
    got = f"the error {code}" if message.kind == "error" else "a result"
    return Fault(
        f"{message.method} with the cursor {quoted(cursor)}, which no page had, gets {got}", (message.call.event,)
    )


@rule(SHOULD, "2026-07-28/server/utilities/pagination#implementation-guidelines-1", "result", methods=_LISTS)
def cursor_moves(message: Message) -> Verdict:
    """The cursor of a page leads to the next page."""
    cursor = message.call.params.get("cursor") if message.call is not None else None
    if message.call is None or not isinstance(cursor, str) or message.body.get("nextCursor") != cursor:
        return None
    return Fault(
        f"the nextCursor of {message.method} is the cursor of the request, {quoted(cursor)}", (message.call.event,)
    )
