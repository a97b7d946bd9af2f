"""The sign-in: a user grants this client access, in a browser. All steps of the package's docstring, in order.

    discover                   which authorization server, and which endpoints    authorization_server_discovery.py
    a stored refresh token?    then a new token, without the user                 token_endpoint.py
    a client id                configured, or registered                          client_registration.py
    receive, open the browser  the user signs in                                  loopback.py, authorization_code.py
    exchange the code          the tokens, which the store keeps                  token_endpoint.py, store.py

`resource`, issuer and client id are kept with the tokens, so that a refresh after a restart needs no discovery, and no
token, code or secret gets to another authorization server than its own.

Spec:  2026-07-28 basic/authorization/index#authorization-flow-steps, #scope-selection-strategy, #refresh-tokens
Above: the program makes an `AuthorizationCode`; `client.py` calls it when a request needs a token.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from typing import Final, TypeAlias

from ...lib.http.client import HttpClient, HttpSender
from .addresses import canonical_resource
from .authorization_code import begin_sign_in, read_response
from .authorization_server_discovery import Discovered, PeerRequests, discover
from .challenges import MAX_SCOPES, split_scopes
from .client import Authorizer, Need
from .client_registration import Clients
from .errors import DiscoveryFailed, SignInRefused, TokenRefused, peer_url
from .loopback import open_in_browser, print_url
from .store import MemoryStore
from .token_endpoint import (
    Grant,
    Prover,
    TokenEndpoint,
    authentication,
    code_grant,
    read_grant,
    refresh_grant,
    request_grant,
    revoke,
)

MAX_SIGN_INS: Final = 4
"""Maximum number of sign-ins of one `AuthorizationCode` at once. Further ones wait."""

PERSON_TIMEOUT: Final = 600.0
"""Time that a user has to sign in, in seconds."""
_MOVED: Final = (404, 405, 410)

OpenBrowser: TypeAlias = Callable[[str], Awaitable[None]]
"""An async function that lets the user open a URL."""


def choose_scopes(found: Discovered, need: Need, extra: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the scopes to ask for: those of before, the challenge's or else the server's, and the program's."""
    # [2026-07-28 basic/authorization/index#scope-selection-strategy] the challenge's, else all of the metadata's
    challenged = need.challenge.scopes if need.challenge is not None else ()
    first = challenged or (() if need.scopes else found.scopes or ())
    # [2026-07-28 basic/authorization/index#step-up-authorization-flow] the union with the scopes of before
    scopes = dict.fromkeys((*need.scopes, *first, *extra))
    if scopes and "offline_access" in found.server.scopes_supported:
        # [2026-07-28 basic/authorization/index#refresh-tokens] MAY add it if the authorization server lists it
        scopes["offline_access"] = None
    return tuple(scopes)[:MAX_SCOPES]


def prefer_issuer(configured: str | None, known: str | None, issuers: tuple[str, ...]) -> Sequence[str]:
    """Return the issuers to try: the configured one, or all, the known one first."""
    if configured is None:
        return sorted(issuers, key=lambda issuer: issuer != known)
    # one slash at the end may differ, because servers and their metadata often do; the option says which holds
    if configured.removesuffix("/") not in {issuer.removesuffix("/") for issuer in issuers}:
        raise DiscoveryFailed(
            "the configured authorization server", [(issuer, "is another issuer") for issuer in issuers],
            f"The client is configured for {peer_url(configured)}, which the server no longer names.",
        )  # fmt: skip
    return [configured]


class AuthorizationCode(Authorizer):
    """Lets a user sign in with a browser on this machine.

        async with Client(url, authorization=AuthorizationCode(store=FileStore())) as client: ...

    Args:
        store: Keeps client ids and tokens. Default: a `MemoryStore`, so that the user signs in after each start.
        client_id: A client id that was registered by hand. It needs `issuer`, the only issuer to which it is sent.
        client_secret: The secret of that client, if it has one.
        issuer: The only authorization server to use. Default: one that the MCP server names.
        client_metadata_url: An https URL at which the client's metadata are published, to be used as client id.
        client_name: The name under which the client registers itself.
        scopes: Scopes to ask for in addition to those that the server demands.
        redirect_uri: URI of the receiver. Port 0 means any free port.
        open_browser: Async function that lets the user open a URL; None to print the URL only.
        timeout: Time that the user has to sign in, in seconds.
        resource_parameter: False to leave out `resource`, which breaks a MUST, for servers that refuse it.
        private_networks: True if servers on the internet may name servers of the private network.
        dpop: A `DpopKey`, so that tokens are useless without its private key.

    Raises:
        ValueError: An argument is not usable.
    """

    def __init__(
        self, *, store: MemoryStore | None = None, client_id: str | None = None, client_secret: str | None = None,
        issuer: str | None = None, client_metadata_url: str | None = None, client_name: str = "mcp_ref",
        scopes: Sequence[str] = (), redirect_uri: str = "http://127.0.0.1:0/callback",
        open_browser: OpenBrowser | None = open_in_browser, timeout: float = PERSON_TIMEOUT,
        resource_parameter: bool = True, private_networks: bool = False, dpop: Prover | None = None,
    ) -> None:  # fmt: skip
        super().__init__(private_networks, dpop)
        if client_id is not None and issuer is None:
            raise ValueError("a client id belongs to one authorization server: give its `issuer` too")
        self._store = MemoryStore() if store is None else store
        self._clients = Clients(self._store, client_id, client_secret, client_metadata_url, client_name, redirect_uri)
        self._client_id, self._issuer, self._extra_scopes = client_id, issuer, split_scopes(" ".join(scopes))
        self._open_browser, self._timeout = open_browser or print_url, timeout
        self._resource_parameter = resource_parameter
        self._sign_ins = asyncio.Semaphore(MAX_SIGN_INS)

    async def current(self, peers: PeerRequests, grant: Grant | None) -> Grant | None:
        """Return the stored grant, refreshed if its token ends soon. Return None if the user has to sign in.

        Args:
            peers: The requests to peers.
            grant: The latest grant, whose token has ended; None before the first request.
        """
        grant = grant or await self._stored(peers)
        if grant is None or grant.is_fresh():
            return grant
        try:
            return await self._refresh(peers, grant)
        except TokenRefused as refusal:
            if refusal.status in _MOVED:
                return None  # the 401 of a request without token leads to the new endpoint
            if grant.has_ended():
                raise
            return grant  # still good for some seconds; the next request tries again

    async def obtain(self, need: Need) -> Grant:
        """Return a new grant: find the authorization server, and refresh the token or let the user sign in.

        Args:
            need: The refusal that makes a new grant necessary.

        Raises:
            AuthorizationError: A step failed. The subclass tells which one.
        """
        named = None if need.challenge is None else need.challenge.parameters.get("resource_metadata")
        old = need.grant or await self._stored(need.peers)
        prefer = partial(prefer_issuer, self._issuer, None if old is None else old.issuer)
        found = await discover(need.peers, named, prefer, at_origin=need.at_origin)
        if old is not None and old.issuer == found.server.issuer and not need.wants_scopes:
            refreshed = await self._refresh(need.peers, old, found.server.token_endpoint)
            if refreshed is not None:
                return refreshed
        async with self._sign_ins:
            return await self._sign_in(need, found, choose_scopes(found, need, self._extra_scopes))

    async def discard(self, peers: PeerRequests, grant: Grant) -> None:
        """Forget the refresh token, so that the user signs in next time.

        Args:
            peers: The requests to peers.
            grant: The grant that the server refuses.
        """
        async with self._lock(peers, grant.issuer):
            stored = await self._stored(peers)
            if stored is not None and stored.access_token == grant.access_token:
                await self.keep(peers.server, replace(grant, refresh_token=None))

    async def sign_out(self, url: str, http: HttpSender) -> bool:
        """Forget the tokens for an MCP server, and revoke them if its authorization server can do that.

        Args:
            url: URL of the MCP server.
            http: HTTP client for the revocation.

        Returns:
            True if the client was signed in.

        Raises:
            TokenRefused: The authorization server did not revoke the tokens. They are forgotten nevertheless.
        """
        peers = PeerRequests(http, url, self.private_networks)
        self.server(url).grant = None
        grant = await self._stored(peers)
        if grant is None:
            return False
        async with self._lock(peers, grant.issuer):
            grant = await self._stored(peers) or grant
            await self._store.delete(f"server|{canonical_resource(url)}")
            await self._store.delete(f"grant|{canonical_resource(url)}|{grant.issuer}")
            client = await self._clients.find(grant.issuer, grant.client_id, grant.auth_method)
            if grant.revocation_endpoint is not None and client is not None:
                endpoint = TokenEndpoint(grant.issuer, grant.revocation_endpoint, authentication(client))
                if grant.refresh_token is not None:
                    await revoke(peers, endpoint, grant.refresh_token, "refresh_token")
                await revoke(peers, endpoint, grant.access_token, "access_token")
        return True

    async def stored(self, url: str) -> Grant | None:
        """Return the stored grant for an MCP server, or None.

        Args:
            url: URL of the MCP server.
        """
        return await self._stored(PeerRequests(HttpClient(), url))

    def _lock(self, peers: PeerRequests, issuer: str) -> AbstractAsyncContextManager[None]:
        return self._store.lock(f"grant|{canonical_resource(peers.server)}|{issuer}")

    async def _sign_in(self, need: Need, found: Discovered, scopes: tuple[str, ...]) -> Grant:
        """Let the user sign in, and exchange the code for tokens."""
        server, peers = found.server, need.peers
        if server.token_endpoint is None:
            raise DiscoveryFailed("a token endpoint", [(server.issuer, "its metadata have no token_endpoint")])
        # DEVIATION: a program may leave out `resource`, a MUST, because some authorization servers refuse it.
        resource = found.resource if self._resource_parameter else None
        async with contextlib.AsyncExitStack() as stack:
            wanted = dict.fromkeys((*scopes, *(found.scopes or ())))
            client, receiver = await self._clients.begin(stack, peers, server, wanted)
            prompt = "consent" if "offline_access" in scopes else ""  # [OpenID Connect Core 11] MUST
            try:
                sign_in = begin_sign_in(server, client.client_id, receiver.redirect_uri, resource, scopes, prompt)
            except ValueError as error:
                raise DiscoveryFailed("a usable authorization server", [(server.issuer, str(error))]) from None
            receiver.expect(sign_in)
            try:
                async with asyncio.timeout(self._timeout):
                    await self._open_browser(sign_in.url)
                    query = await receiver.response()
                code = read_response(sign_in, query)
            except (TimeoutError, SignInRefused) as error:
                # perhaps the server has forgotten this client, or knows it for other scopes: it registers again
                await self._clients.forget(server.issuer)
                if isinstance(error, SignInRefused):
                    raise
                raise SignInRefused(f"nobody signed in within {self._timeout:g} s") from None
        grant = Grant(
            "", server.issuer, found.resource, scopes, token_endpoint=server.token_endpoint,
            revocation_endpoint=server.revocation_endpoint, client_id=client.client_id,
            auth_method=client.auth_method, server_address=peers.address)  # fmt: skip
        form = code_grant(code, sign_in, resource)
        return await self.keep(peers.server, await request_grant(peers, grant, authentication(client), form, self.dpop))

    async def _refresh(self, peers: PeerRequests, grant: Grant, url: str | None = None) -> Grant | None:
        """Return a grant with a new token, or None if the user has to sign in. `url`: the current token endpoint."""
        async with self._lock(peers, grant.issuer):
            stored = await self._stored(peers)
            if stored is None or stored.issuer != grant.issuer:
                return None  # another process has signed out, or signed in elsewhere
            if stored.access_token != grant.access_token and stored.is_fresh():
                return stored  # another process has refreshed it
            grant = stored
            client = await self._clients.find(grant.issuer, grant.client_id, grant.auth_method)
            if grant.refresh_token is None or client is None:
                return None
            form = refresh_grant(grant.refresh_token, grant.resource if self._resource_parameter else None)
            grant = replace(grant, token_endpoint=url or grant.token_endpoint)
            try:
                renewed = await request_grant(peers, grant, authentication(client), form, self.dpop)
            except TokenRefused as refusal:
                if refusal.error in ("invalid_client", "unauthorized_client"):
                    await self._clients.forget(grant.issuer)
                elif refusal.error != "invalid_grant":
                    raise  # perhaps the server is out of order: the refresh token stays
                await self.keep(peers.server, replace(grant, refresh_token=None))
                return None
            return await self.keep(peers.server, renewed)

    async def _stored(self, peers: PeerRequests) -> Grant | None:
        """Return the stored grant for an MCP server, if it is from the configured issuer and client."""
        url = canonical_resource(peers.server)
        issuer = (await self._store.get(f"server|{url}") or {}).get("issuer")
        grant = read_grant(await self._store.get(f"grant|{url}|{issuer}"))
        if grant is None or grant.issuer != issuer or self._issuer not in (None, issuer):
            return None
        if self._client_id not in (None, grant.client_id):
            return None
        peers.address = peers.address or grant.server_address
        return grant

    async def keep(self, url: str, grant: Grant) -> Grant:
        """Return a grant after it is stored.

        Args:
            url: URL of the MCP server.
            grant: The grant.
        """
        url = canonical_resource(url)
        await self._store.put(f"grant|{url}|{grant.issuer}", grant.to_json())
        await self._store.put(f"server|{url}", {"issuer": grant.issuer})
        return grant
