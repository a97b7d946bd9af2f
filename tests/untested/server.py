"""MUSTs about the server features that no test holds, and why."""

from __future__ import annotations

_POLICY = "who may do what is known to a server's author alone; the package runs the author's function and no other"

_POLLING = "nobody polls here: a result that has grown stale is asked for again when the program wants it again"
_AWARE = "it demands that something be known; whether a list differs from caller to caller is its author's to say"

UNTESTED: dict[str, str] = {
    "2026-07-28/server/utilities/caching#freshness-calculation-3": _POLLING,
    "2026-07-28/server/utilities/caching#security-considerations-1": _AWARE,
    "2026-07-28/server/utilities/caching#security-considerations-2": _POLICY,
    "2026-07-28/server/utilities/caching#security-considerations-3": _POLICY,
    "2026-07-28/server/tools#security-considerations-2": _POLICY,
    "2026-07-28/server/utilities/completion#security-3": _POLICY,
}
