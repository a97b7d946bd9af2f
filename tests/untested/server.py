"""MUSTs about the server features that no test holds, and why."""

from __future__ import annotations

_POLICY = "who may do what is known to a server's author alone; the package runs the author's function and no other"

UNTESTED: dict[str, str] = {
    "2026-07-28/server/tools#security-considerations-2": _POLICY,
    "2026-07-28/server/utilities/completion#security-3": _POLICY,
}
