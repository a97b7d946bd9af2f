"""Sign-in: a user grants this client access in a browser. These are steps 2 to 7 of the package's docstring.

    discover                   which authorization server, and which endpoints    authorization_server_discovery.py
    a stored refresh token?    then a new token, without the user                 token_endpoint.py
    a client id                configured, or registered                          client_registration.py
    receive, open the browser  the user signs in                                  loopback.py, authorization_code.py
    exchange the code          the tokens, which the store keeps                  token_endpoint.py, store.py

Spec:  2026-07-28 basic/authorization/index#authorization-flow-steps, #scope-selection-strategy, #refresh-tokens
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import Final, TypeAlias

from ...jsonrpc.bounded_waits import retrieve_exception
from ...lib.http.client import HttpSender
from .addresses import canonical_resource
from .authorization_code import begin_sign_in, read_response
from .authorization_server_discovery import PeerRequests, discover
from .client import Authorizer, Need
from .client_registration import Clients
from .errors import DiscoveryFailed, SignInRefused, TokenRefused
from .loopback import Receiver, open_in_browser, print_url
from .metadata import ResourceMetadata, ServerMetadata
from .token_endpoint import Grant, grant_to_keep, read_grant, revoke

MAX_SIGN_INS: Final = 4
"""Maximum number of sign-ins of one `AuthorizationCode` at once. Further ones wait."""

PERSON_TIMEOUT: Final = 600.0
"""Time that a user has to sign in, in seconds."""

OpenBrowser: TypeAlias = Callable[[str], Awaitable[None]]
"""An async function that lets the user open a URL."""


@dataclass(repr=False, eq=False)
class AuthorizationCode(Authorizer):
    """An `Authorizer` whose user signs in with a browser on this machine.

        async with Client(url, authorization=AuthorizationCode(store=FileStore())) as client: ...

    It has the options of `Authorizer` too, such as `store`. Without a refresh token, an access token is used until the
    MCP server refuses it, even after its lifetime, because the user would have to sign in for another one. Also, some
    authorization servers write `expires_in: 0` for a token that does not expire.

    Raises:
        ValueError: An option is not usable.
    """

    _: KW_ONLY
    client_id: str | None = None
    """A client id that was registered by hand. It needs `issuer`, the only issuer to which it is sent."""
    client_secret: str | None = field(default=None, repr=False)
    """The secret of that client, if it has one."""
    client_metadata_url: str | None = None
    """An https URL at which the client's metadata are published, to be used as client id."""
    client_name: str = "mcp_ref"
    """The name under which the client registers itself."""
    redirect_uri: str = "http://127.0.0.1:0/callback"
    """URI of the receiver. Port 0 means any free port."""
    open_browser: OpenBrowser | None = open_in_browser
    """Async function that lets the user open a URL; None to print the URL only."""
    timeout: float = PERSON_TIMEOUT
    """Time that the user has to sign in, in seconds."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.client_id is not None and self.issuer is None:
            raise ValueError("a client id belongs to one authorization server: give its `issuer` too")
        self._clients = Clients(self.store, self.client_id, self.client_secret or "", self.client_metadata_url,
                                self.client_name, self.redirect_uri)  # fmt: skip
        self._sign_ins = asyncio.Semaphore(MAX_SIGN_INS)
        self._refreshes: set[asyncio.Task[Grant | None]] = set()  # because asyncio keeps no reference to them

    async def current(self, peers: PeerRequests, grant: Grant | None) -> Grant | None:
        grant = grant or await self._load(peers)
        if grant is None or grant.is_fresh() or not grant.refresh_token:
            return grant
        try:
            return await self._refresh(peers, grant)
        except TokenRefused as refusal:
            return grant_to_keep(refusal, grant)

    async def obtain(self, need: Need) -> Grant:
        old = need.grant or await self._load(need.peers)
        old_issuer = old.issuer if old else ""
        resource, server = await discover(need.peers, need.challenge.resource_metadata, self.issuer, old_issuer)
        if old is not None and old.issuer == server.issuer and not need.wants_scopes:
            refreshed = await self._refresh(need.peers, old, server.token_endpoint)
            if refreshed is not None:
                return refreshed
        async with self._sign_ins:
            return await self._sign_in(need, resource, server)

    async def discard(self, peers: PeerRequests, grant: Grant) -> None:
        async with self.store.lock(grant_key(peers.server)):
            stored = await self.stored(peers.server)
            if stored is not None and stored.access_token == grant.access_token:
                await self._keep(peers.server, replace(grant, refresh_token=""))

    async def sign_out(self, url: str, http: HttpSender) -> bool:
        """Forget the tokens for an MCP server, and revoke them if possible. Return False if the store has no tokens.

        Args:
            url: URL of the MCP server.
            http: HTTP client for the revocation.

        Raises:
            TokenRefused: The authorization server did not revoke a token. Both are forgotten nevertheless.
        """
        peers = PeerRequests(http, url, self.private_networks)
        async with self.store.lock(grant_key(url)):
            grant = await self._load(peers)
            self.server(url).grant = None
            if grant is None:
                return False
            await self.store.delete(grant_key(url))
            client = await self._clients.find(grant.issuer, grant.client_id, grant.auth_method)
            if grant.revocation_endpoint and client is not None:
                send = partial(revoke, peers, grant.issuer, grant.revocation_endpoint, client.authenticate)
                refusals: list[TokenRefused] = []
                for token, hint in ((grant.refresh_token, "refresh_token"), (grant.access_token, "access_token")):
                    try:
                        if token:
                            await send(token, hint)
                    except TokenRefused as error:  # the server may still revoke the other token
                        refusals.append(error)
                if refusals:
                    raise refusals[0]
        return True

    async def stored(self, url: str) -> Grant | None:
        """Return the stored grant for an MCP server, unless the program is configured for another issuer or client id.

        Args:
            url: URL of the MCP server.
        """
        grant = read_grant(await self.store.get(grant_key(url)))
        if grant is None:
            return None
        is_for_issuer = self.issuer is None or self.issuer == grant.issuer
        is_for_client = self.client_id is None or self.client_id == grant.client_id
        return grant if is_for_issuer and is_for_client else None

    async def _keep(self, url: str, grant: Grant) -> Grant:
        await self.store.put(grant_key(url), grant.to_json())
        return grant

    async def _load(self, peers: PeerRequests) -> Grant | None:
        grant = await self.stored(peers.server)
        if grant is not None and not peers.address:  # before a refusal has told the present address
            peers.address = grant.server_address
        return grant

    async def _sign_in(self, need: Need, resource: ResourceMetadata, server: ServerMetadata) -> Grant:
        peers, scopes = need.peers, self.choose_scopes(need, resource, server)
        target = resource.resource if self.resource_parameter else ""
        async with contextlib.AsyncExitStack() as stack:
            to_register = dict.fromkeys((*scopes, *resource.scopes_supported))
            client, receiver = await self._clients.begin(stack, peers, server, to_register)
            try:
                sign_in = begin_sign_in(server, client.client_id, receiver.redirect_uri, target, scopes)
            except ValueError as error:
                raise DiscoveryFailed("usable authorization server", [(server.issuer, str(error))]) from None
            receiver.expected = sign_in
            try:
                code = read_response(sign_in, await self._ask_user(sign_in.url, receiver))
            except SignInRefused:
                # Perhaps the server has forgotten this client or its scopes, so it registers again the next time.
                await self._clients.forget(server.issuer)
                raise
        grant = Grant("", server.issuer, resource.resource, scopes, token_endpoint=server.token_endpoint,
                      revocation_endpoint=server.revocation_endpoint, client_id=client.client_id,
                      auth_method=client.token_endpoint_auth_method, server_address=peers.address)  # fmt: skip
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": sign_in.redirect_uri,
                "code_verifier": sign_in.verifier}  # fmt: skip
        try:
            return await self._keep(peers.server, await self.request(peers, grant, client.authenticate, form))
        except TokenRefused as refusal:
            refusal.is_temporary = False  # a retry would open the browser again
            raise

    async def _ask_user(self, url: str, receiver: Receiver) -> str:
        """Open the URL for the user, and return the query of the response."""
        try:
            async with asyncio.timeout(self.timeout):
                await (self.open_browser or print_url)(url)
                return await receiver.query
        except TimeoutError:
            raise SignInRefused(f"nobody signed in within {self.timeout:g} s") from None

    async def _refresh(self, peers: PeerRequests, grant: Grant, url: str = "") -> Grant | None:
        """Return a grant with a new token from the endpoint `url`, or None if the user has to sign in.

        If the caller is cancelled, the refresh goes on and stores the new tokens, because the server may accept each
        refresh token only once.
        """
        refresh = asyncio.create_task(self._refresh_and_store(peers, grant, url))
        self._refreshes.add(refresh)
        refresh.add_done_callback(self._refreshes.discard)
        refresh.add_done_callback(retrieve_exception)  # the caller may have left
        return await asyncio.shield(refresh)

    async def _refresh_and_store(self, peers: PeerRequests, grant: Grant, url: str) -> Grant | None:
        async with self.store.lock(grant_key(peers.server)):
            stored = await self._load(peers)
            if stored is None or stored.issuer != grant.issuer:
                return None  # another process has signed out, or signed in elsewhere
            if stored.access_token != grant.access_token and stored.is_fresh():
                return stored  # another process has refreshed it
            client = await self._clients.find(stored.issuer, stored.client_id, stored.auth_method)
            if not stored.refresh_token or client is None:
                return None
            grant = replace(stored, token_endpoint=url or stored.token_endpoint)
            # [RFC 6749 6] without `scope`, so that the new token has the scopes of the old one
            form = {"grant_type": "refresh_token", "refresh_token": grant.refresh_token}
            try:
                grant = await self.request(peers, grant, client.authenticate, form)
            except TokenRefused as refusal:
                if refusal.error in ("invalid_client", "unauthorized_client"):
                    await self._clients.forget(grant.issuer)
                elif refusal.error != "invalid_grant":
                    raise  # but keep the refresh token, because the failure may be temporary
                await self._keep(peers.server, replace(grant, refresh_token=""))
                return None
            return await self._keep(peers.server, grant)


def grant_key(url: str) -> str:
    return f"grant|{canonical_resource(url)}"
