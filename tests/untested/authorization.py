"""MUST sentences about authorization that have no test, with the reason."""

from __future__ import annotations

_INDEX = "2026-07-28/basic/authorization/index#"
_SECURITY = "2026-07-28/basic/authorization/security-considerations#"
_2025_11_25 = "2025-11-25/basic/authorization#"
_2025_03_26 = "2025-03-26/basic/authorization#"

_CHAPTER = "it demands a whole chapter of OAuth 2.1; what the page repeats of this chapter has its own sentences"
_LIST = "it announces other sentences, which have their own tests or reasons"
_THIRD_PARTY = (
    "a duty of an MCP server that issues tokens itself, on the word of a third party; the servers of this package "
    "issue no tokens"
)

UNTESTED: dict[str, str] = {
    f"{_INDEX}protocol-requirements-3": "a duty of the author of another transport; here, only HTTP has authorization",
    f"{_INDEX}security-considerations-1": _LIST,
    f"{_SECURITY}intro-1": _LIST,
    f"{_SECURITY}intro-2": _CHAPTER,
    f"{_SECURITY}authorization-code-protection-8": "a duty of an authorization server with OpenID Connect Discovery; "
    "the one in the examples publishes OAuth metadata only",
    f"{_SECURITY}confused-deputy-problem-1": "a duty of a proxy with a client id of its own at a third party; this "
    "package has no such proxy",
    f"{_2025_11_25}security-considerations-1": _CHAPTER,
    f"{_2025_03_26}overview-5": "a duty of an authorization server without metadata; the one in the examples publishes "
    "metadata",
    f"{_2025_03_26}security-considerations-1": _LIST,
    f"{_2025_03_26}implementation-requirements-1": _CHAPTER,
    **{f"{_2025_03_26}session-binding-requirements-{number}": _THIRD_PARTY for number in range(1, 5)},
    **{f"{_2025_03_26}security-considerations-2-{number}": _THIRD_PARTY for number in range(1, 6)},
}
