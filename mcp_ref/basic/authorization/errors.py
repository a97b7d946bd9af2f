"""Exceptions of authorization. Each text says which side failed and, if there is a remedy, names it.

Because an exception can end up in a log, a bug report or a model's context, none contains a token, code, verifier,
secret, query or body. A peer's own text is cut and reduced to printable ASCII. Otherwise it could forge log lines, or
control a terminal.

Spec:  2026-07-28 basic/authorization/index#error-handling; RFC 6749, sections 4.1.2.1 and 5.2
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from ...jsonrpc.errors import McpError

MAX_PEER_TEXT: Final = 200
"""Maximum length of a peer's text that an error repeats, in characters."""


def peer_text(text: str) -> str:
    """Return a peer's text for an error: printable ASCII without double quotes, cut to `MAX_PEER_TEXT`."""
    return re.sub(r"[^ !#-~]", "?", text[:MAX_PEER_TEXT])


def peer_url(url: str) -> str:
    """Return a peer's URL for an error, without query, fragment and credentials."""
    return peer_text(re.sub(r"//[^/]*@", "//", re.split(r"[?#]", url, maxsplit=1)[0]))


def _words(error: str, description: str = "") -> str:
    """Return an OAuth error code and its description, marked as the words of the authorization server."""
    said = f'"{peer_text(error)}"' + (f', "{peer_text(description)}"' if description else "")
    return f" (the authorization server's words: {said})" if error or description else ""


class AuthorizationError(McpError):
    """The base class of the exceptions about authorization."""


class SignInNeeded(AuthorizationError):
    """A request that needs a user to sign in, on a client that may not open a browser.

    Args:
        resource: URL of the MCP server.
    """

    def __init__(self, resource: str) -> None:
        super().__init__(
            f"{peer_url(resource)} requires a user to sign in, and this client cannot ask one: sign in first"
        )
        self.resource = resource


class SignInRefused(AuthorizationError):
    """A sign-in that failed.

    Args:
        reason: The reason, in this client's words.
        error: The OAuth error code of the authorization server, or "".
        description: The authorization server's text for developers.
    """

    def __init__(self, reason: str, error: str = "", description: str = "") -> None:
        super().__init__(f"the sign-in failed: {reason}{_words(error, description)}")
        self.error = peer_text(error)


class InsufficientScope(AuthorizationError):
    """A request that the server refuses because the access token lacks scopes.

    Args:
        resource: URL of the MCP server.
        scopes: The scopes that the server named.
    """

    def __init__(self, resource: str, scopes: Iterable[str]) -> None:
        self.scopes = tuple(scopes)
        needed = peer_text(" ".join(self.scopes))
        super().__init__(f'{peer_url(resource)} refuses the request: the access token lacks scopes of "{needed}"')


class DiscoveryFailed(AuthorizationError):
    """A failed search for metadata.

    Args:
        subject: The document that was searched for.
        attempts: Each URL with its status or fault, in order.
        advice: What to do, as a sentence.
    """

    def __init__(self, subject: str, attempts: Iterable[tuple[str, str]], advice: str = "") -> None:
        self.attempts = tuple((peer_url(url), fault) for url, fault in attempts)
        tried = "; ".join(f"{url}: {fault}" for url, fault in self.attempts) or "no URL to request"
        super().__init__(f"found no {subject} ({tried}). {advice or 'Ask the operator of the server.'}")


class RegistrationFailed(AuthorizationError):
    """A failed registration of this client at an authorization server.

    Args:
        issuer: The authorization server.
        reason: The reason, in this client's words.
        error: The OAuth error code of the authorization server, or "".
        description: The authorization server's text for developers.
    """

    def __init__(self, issuer: str, reason: str, error: str = "", description: str = "") -> None:
        super().__init__(f"cannot register this client at {peer_url(issuer)}: {reason}{_words(error, description)}; "
                         "register one by hand, and configure its client id")  # fmt: skip
        self.error = peer_text(error)


class TokenRefused(AuthorizationError):
    """A failed request for a token, or for its revocation.

    Args:
        issuer: The authorization server.
        status: The HTTP status; 0 without a response.
        error: The OAuth error code, or "".
        description: The authorization server's text for developers.
        advice: The user's next step. For a response with status 200, the reason why it cannot be used.
    """

    def __init__(self, issuer: str, status: int, error: str = "", description: str = "", advice: str = "") -> None:
        outcome = f"status {status}" if status else "no response"
        self.error, self.status = peer_text(error), status
        self.is_temporary = status == 0 or status >= 500
        own_fault = "check the registration and permissions of this client there"
        remedy = advice or ("try again later" if self.is_temporary else own_fault)
        super().__init__(f"a token request to {peer_url(issuer)} failed: {outcome}{_words(error, description)}"
                         f"; {remedy}")  # fmt: skip


class VerificationUnavailable(AuthorizationError):
    """A token that cannot be verified now. The client gets 503, and may retry after `retry_after` seconds."""

    def __init__(self, reason: str, retry_after: int = 30) -> None:
        super().__init__(reason)
        self.retry_after = retry_after
