"""MUST sentences about the server features that have no test, with the reason."""

from __future__ import annotations

_POLICY = "only the server's author knows the permissions of a user; the package runs the author's function"

_POLLING = "the client does not poll: it requests a stale result again when the program wants it again"
_AWARE = "it demands knowledge, not behavior; the author of a list says if it differs between callers"

UNTESTED: dict[str, str] = {
    "2026-07-28/server/utilities/caching#freshness-calculation-3": _POLLING,
    "2026-07-28/server/utilities/caching#security-considerations-1": _AWARE,
    "2026-07-28/server/utilities/caching#security-considerations-2": _POLICY,
    "2026-07-28/server/utilities/caching#security-considerations-3": _POLICY,
    "2026-07-28/server/tools#security-considerations-2": _POLICY,
    "2026-07-28/server/utilities/completion#security-3": _POLICY,
}
