"""A client without a user: it gets tokens with credentials of its own, and never opens a browser.

Such credentials are valid for months, and no user sees where they go. A server that an attacker has taken over can name
the attacker's authorization server. So the credentials go to one issuer only: the one that the program names, or else
the first one, which the store keeps. The first one may already be wrong, so programs should name theirs.
[2026-07-28 basic/authorization/client-registration#authorization-server-binding]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial

from ...basic.authorization.authorization_server_discovery import PeerRequests, discover
from ...basic.authorization.challenges import split_scopes
from ...basic.authorization.client import Authorizer, Need
from ...basic.authorization.client_registration import OAuthClient, choose_auth_method
from ...basic.authorization.errors import DiscoveryFailed
from ...basic.authorization.sign_in import choose_scopes, prefer_issuer
from ...basic.authorization.store import MemoryStore
from ...basic.authorization.token_endpoint import (
    ClientAuthentication,
    Form,
    Grant,
    Prover,
    authentication,
    request_grant,
)


@dataclass(repr=False, eq=False)
class Headless(Authorizer):
    """The base class of clients without a user, with their common options."""

    client_id: str
    """The name of the program at the authorization server."""
    secret: str | None = None
    """The program's secret there, if it has one."""
    _: KW_ONLY
    issuer: str | None = None
    """The only authorization server to use. Default: the first one."""
    scopes: Sequence[str] = ()
    """Scopes to ask for in addition to those that the server demands."""
    store: MemoryStore = field(default_factory=MemoryStore)
    """The place where the first issuer is kept."""
    dpop: Prover | None = None
    """A `DpopKey`, to bind tokens to its key."""
    resource_parameter: bool = True
    """False to leave out `resource`, which breaks a MUST, for servers that refuse it."""
    private_networks: bool = False
    """True if servers on the internet may name servers of the private network."""

    extension = ""

    def __post_init__(self) -> None:
        super().__init__(self.private_networks, self.dpop)
        self.extensions[self.extension] = {}

    async def form(self, peers: PeerRequests, grant: Grant) -> Form:
        """Return the parameters of a token request that only this kind of client sends."""
        raise NotImplementedError

    def authenticate(self, grant: Grant) -> ClientAuthentication:
        """Return the authentication of a token request."""
        return authentication(OAuthClient(grant.issuer, self.client_id, self.secret, grant.auth_method))

    async def current(self, peers: PeerRequests, grant: Grant | None) -> Grant | None:
        """Return a grant with another token if the token ends soon. A refresh token is not needed."""
        return grant if grant is None or grant.is_fresh() else await self._request(peers, grant)

    async def obtain(self, need: Need) -> Grant:
        """Return a new grant: find the authorization server, and request a token."""
        named = None if need.challenge is None else need.challenge.parameters.get("resource_metadata")
        prefer = partial(prefer_issuer, self.issuer or await self._first_issuer(), None)
        found = await discover(need.peers, named, prefer, at_origin=need.at_origin, needs_pkce=False)
        server, scopes = found.server, choose_scopes(found, need, split_scopes(" ".join(self.scopes)))
        if server.token_endpoint is None:
            raise DiscoveryFailed("a token endpoint", [(server.issuer, "its metadata have no token_endpoint")])
        if self.issuer is None:
            key = f"issuer|{self.client_id}"
            async with self.store.lock(key):
                prefer_issuer(await self._first_issuer(), None, (server.issuer,))  # raises for another one
                await self.store.put(key, {"issuer": server.issuer})
        grant = Grant("", server.issuer, found.resource, tuple(one for one in scopes if one != "offline_access"),
                      token_endpoint=server.token_endpoint, client_id=self.client_id,
                      auth_method=choose_auth_method(server, self.secret is not None))  # fmt: skip
        return await self._request(need.peers, grant)

    async def _first_issuer(self) -> str | None:
        issuer = (await self.store.get(f"issuer|{self.client_id}") or {}).get("issuer")
        return issuer if isinstance(issuer, str) else None

    async def _request(self, peers: PeerRequests, grant: Grant) -> Grant:
        form = await self.form(peers, grant) | ({"scope": " ".join(grant.scopes)} if grant.scopes else {})
        # DEVIATION: a program may leave out `resource`, a MUST, because some authorization servers refuse it.
        form |= {"resource": grant.resource} if self.resource_parameter else {}
        return await request_grant(peers, grant, self.authenticate(grant), form, self.dpop)
