"""A client without a user: it gets tokens with credentials of its own, and never opens a browser.

Such credentials are valid for months, and no user sees where they go. A server that an attacker has taken over can name
the attacker's authorization server. So the credentials go to one issuer only: the one that the program names, or else
the first one, which the store keeps. The first one may already be wrong, so programs should name theirs.
[2026-07-28 basic/authorization/client-registration#authorization-server-binding]
"""

from __future__ import annotations

from dataclasses import dataclass

from ...basic.authorization.authorization_server_discovery import PeerRequests, discover
from ...basic.authorization.client import Authorizer, Need
from ...basic.authorization.client_registration import OAuthClient, choose_auth_method
from ...basic.authorization.errors import DiscoveryFailed
from ...basic.authorization.token_endpoint import ClientAuthentication, Form, Grant


@dataclass(repr=False, eq=False)
class Headless(Authorizer):
    """The base class of clients without a user. `Authorizer` has further options; `issuer` should be given."""

    client_id: str
    """The name of the program at the authorization server."""
    secret: str | None = None
    """The program's secret there, if it has one."""

    extension = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.extensions[self.extension] = {}

    async def form(self, peers: PeerRequests, grant: Grant) -> Form:
        """Return the parameters of a token request that only this kind of client sends."""
        raise NotImplementedError

    def authenticate(self, grant: Grant) -> ClientAuthentication:
        """Return the authentication of a token request."""
        return OAuthClient(self.client_id, self.secret or "", grant.auth_method).authenticate

    async def current(self, peers: PeerRequests, grant: Grant | None) -> Grant | None:
        """Return a grant with another token if the token ends soon. A refresh token is not needed."""
        return grant if grant is None or grant.is_fresh() else await self._request(peers, grant)

    async def obtain(self, need: Need) -> Grant:
        """Return a new grant: find the authorization server, and request a token."""
        only = self.issuer or await self._first_issuer()
        resource, server = await discover(need.peers, need.challenge.resource_metadata, only, for_user=False)
        if only is None:
            key = f"issuer|{self.client_id}"
            async with self.store.lock(key):
                if await self._first_issuer() not in (None, server.issuer):  # another task has found another one
                    raise DiscoveryFailed("the first authorization server", [(server.issuer, "is another issuer")])
                await self.store.put(key, {"issuer": server.issuer})
        scopes = tuple(one for one in self.choose_scopes(need, resource, server) if one != "offline_access")
        method = choose_auth_method(server, self.secret is not None)
        grant = Grant("", server.issuer, resource.resource, scopes, token_endpoint=server.token_endpoint,
                      client_id=self.client_id, auth_method=method)  # fmt: skip
        return await self._request(need.peers, grant)

    async def _first_issuer(self) -> str | None:
        issuer = (await self.store.get(f"issuer|{self.client_id}") or {}).get("issuer")
        return issuer if isinstance(issuer, str) else None

    async def _request(self, peers: PeerRequests, grant: Grant) -> Grant:
        form = await self.form(peers, grant) | ({"scope": " ".join(grant.scopes)} if grant.scopes else {})
        return await self.request(peers, grant, self.authenticate(grant), form)
