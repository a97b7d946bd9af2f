"""MUST sentences about the client features that have no test, with the reason."""

from __future__ import annotations

_UI = "the user interface belongs to the program that uses the package; its handler gets everything that it has to show"
_AUTHOR = "the server's author chooses the fields of a form and the URL; the package cannot read intentions"
_IDENTITY = (
    "the author's `authenticate` function identifies the user; sessions, tasks and states are bound to its result"
)
_HOST = "the program that names the roots knows whether they exist and who may open them"

UNTESTED: dict[str, str] = {
    "2026-07-28/client/elicitation#safe-url-handling-1": _AUTHOR,
    "2025-06-18/client/elicitation#security-considerations-1": _AUTHOR,
    "2025-06-18/client/elicitation#user-interaction-model-1": _AUTHOR,
    "2026-07-28/client/elicitation#form-mode-security-1": _AUTHOR,
    "2026-07-28/client/elicitation#identifying-the-user-1": _IDENTITY,
    "2026-07-28/client/elicitation#phishing-1": _IDENTITY,
    "2026-07-28/client/elicitation#phishing-2": _IDENTITY,
    "2026-07-28/client/elicitation#phishing-3": _IDENTITY,
    "2025-11-25/client/elicitation#safe-url-handling-1": _AUTHOR,
    "2026-07-28/client/elicitation#safe-url-handling-2": _AUTHOR,
    "2026-07-28/client/elicitation#safe-url-handling-9": _UI,
    "2026-07-28/client/elicitation#security-considerations-2": _UI,
    "2025-11-25/client/elicitation#statefulness-1": _IDENTITY,
    "2025-11-25/client/elicitation#statefulness-2": _IDENTITY,
    "2026-07-28/client/elicitation#statefulness-2": _IDENTITY,
    "2026-07-28/client/elicitation#statefulness-3": _IDENTITY,
    "2026-07-28/client/elicitation#understanding-the-distinction-1": _AUTHOR,
    "2026-07-28/client/elicitation#understanding-the-distinction-2": _AUTHOR,
    "2026-07-28/client/elicitation#understanding-the-distinction-3": _AUTHOR,
    "2026-07-28/client/elicitation#understanding-the-distinction-4": _AUTHOR,
    "2026-07-28/client/elicitation#url-mode-elicitation-for-oauth-flows-1": _AUTHOR,
    "2026-07-28/client/elicitation#user-interaction-model-1": _AUTHOR,
    "2026-07-28/client/elicitation#user-interaction-model-2": _AUTHOR,
    "2026-07-28/client/roots#security-considerations-3": _HOST,
    "2026-07-28/client/roots#security-considerations-4": _HOST,
}
