"""Bearer: a token that the program has from elsewhere, such as a personal access token or a platform's identity token.

    async with Client(url, authorization=Bearer("...")) as client: ...

The client knows no authorization server that has issued it. So a refused token is an error, for the program to handle.

Spec:  2026-07-28 basic/authorization/index#token-requirements; RFC 6750, section 2.1
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable

from .authorization_server_discovery import PeerRequests
from .client import Authorizer, Need
from .errors import AuthorizationError, InsufficientScope, peer_url
from .token_endpoint import Grant


class Bearer(Authorizer):
    """Sends a token that the program has from elsewhere. A server that refuses the token causes an error.

    Args:
        token: The token, or an async function that returns the current one. It is called for each request.
    """

    def __init__(self, token: str | Callable[[], Awaitable[str]]) -> None:
        super().__init__()
        self._token = token

    async def current(self, peers: PeerRequests, grant: Grant | None) -> Grant | None:
        token = self._token if isinstance(self._token, str) else await self._token()
        if grant is not None and grant.access_token == token:
            return grant
        ends = None if isinstance(self._token, str) else 0.0  # never fresh: the function is called again
        return Grant(token, id=hashlib.sha256(token.encode()).hexdigest(), expires_at=ends)

    async def obtain(self, need: Need) -> Grant:
        if need.wants_scopes:
            raise InsufficientScope(need.peers.server, need.challenge.scopes)
        raise AuthorizationError(f"{peer_url(need.peers.server)} refuses the token that this program was given: it has "
                                 "ended, or is for another server; get a new one")  # fmt: skip
