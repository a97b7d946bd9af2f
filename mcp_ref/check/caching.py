"""Caching: the hints that tell a client how long it can keep a result, and which users can share it.

Spec:  2026-07-28 server/utilities/caching
Used by: conversation.py
"""

from __future__ import annotations

from typing import Final

from ..features.caching import CACHEABLE
from .mrtr import asks_for_input
from .rules import MUST, Fault, Verdict, modern_rule
from .state import Message, quoted

_PAGE: Final = "2026-07-28/server/utilities/caching"
_METHODS: Final = " ".join(CACHEABLE)


@modern_rule(MUST, f"{_PAGE}#cacheable-results-1", "result", methods=_METHODS)
def hints(message: Message) -> Verdict:
    """A cacheable result has ttlMs and cacheScope."""
    ttl, scope = message.body.get("ttlMs"), message.body.get("cacheScope")
    if asks_for_input(message):
        return None
    if type(ttl) not in (int, float):
        return f"the ttlMs of the {message.label} is {quoted(ttl)}"
    return None if scope in ("public", "private") else f"the cacheScope of the {message.label} is {quoted(scope)}"


@modern_rule(MUST, f"{_PAGE}#time-to-live-ttl-field-5", "result", methods=_METHODS)
def negative_ttl(message: Message) -> Verdict:
    """ttlMs is not negative."""
    ttl = message.body.get("ttlMs")
    return f"the ttlMs of the {message.label} is {ttl}" if isinstance(ttl, int | float) and ttl < 0 else None


@modern_rule(MUST, f"{_PAGE}#interaction-with-pagination-4", "result", methods=_METHODS, needs="call")
def scope_of_pages(message: Message) -> Verdict:
    """All pages of a list have one cacheScope."""
    cursor, scope = message.request.params.get("cursor"), message.body.get("cacheScope")
    page_before = message.dialogue.cursors.get((message.method, str(cursor)))
    if page_before is None:
        return None
    event, before = page_before
    if before is None or scope is None or before == scope:
        return None
    return Fault(f"the cacheScope of this page is {quoted(scope)}, that of the page before {quoted(before)}", (event,))
