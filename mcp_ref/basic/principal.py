"""Principal: the authenticated caller of a request over HTTP, as a handler sees it.

It does not contain the token, because a handler could pass that on to another server, which would take the handler for
the user.
[2026-07-28 basic/authorization/security-considerations#access-token-privilege-restriction]

Spec:  2026-07-28 basic/authorization/index
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ..jsonrpc.messages import JSON
from ..lib.fields import CheckedFields

if TYPE_CHECKING:
    from ..lib.http.message import Headers


@dataclass(frozen=True, slots=True)
class Principal(CheckedFields):
    """The authenticated caller of a request: a user, and the client that acts for the user."""

    issuer: str
    """The authorization server that knows the user; "" if the server's `authenticate=` function named the user."""
    subject: str
    """The name of the user, or of a program that acts for itself, unique at the issuer."""
    client_id: str = ""
    scopes: frozenset[str] = frozenset()
    claims: Mapping[str, JSON] = field(default_factory=dict, repr=False, hash=False)
    """All members of the token. The `repr` shows none of them, because they can contain private data."""
    expires_at: float | None = None
    """Time when the token expires, in seconds since 1970; None if unknown."""
    audience: str | Collection[str] = ()
    """The server, or all servers, for which the token was issued."""
    audience_checked: bool = False
    """True if the author's own verifier has checked the audience. If not, `audience` must contain the resource."""

    @property
    def id(self) -> str:
        """The owner of sessions and tasks, as JSON: issuer, subject and client id, the same for each new token."""
        return json.dumps([self.issuer, self.subject, self.client_id])


class HttpCaller(NamedTuple):
    """The program that sent a message over HTTP: the headers and the remote address of its request."""

    headers: Headers
    """The headers without `Authorization` and `Proxy-Authorization`, because a handler must not pass a token on."""
    address: tuple[str, int] | None
    """The remote IP address and port, or None if unknown, as on a Unix socket. Behind a proxy, they are the proxy's,
    unless `trusted_proxies=` names it."""
