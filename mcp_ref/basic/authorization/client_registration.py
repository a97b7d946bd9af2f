"""Client registration: how a client gets its client id, the name under which an authorization server knows it.

    1  pre-registered      the user registered the client by hand, and configured id and issuer
    2  metadata document   the client id is an https URL, under which the client's metadata are published (CIMD)
    3  dynamic             POST to the registration endpoint; deprecated since 2026-07-28 (DCR)
    4  none of these       an error that says how to register by hand

The client uses the first way that both sides support. [2026-07-28 basic/authorization/client-registration]

A client id and a secret belong to the issuer that gave them. A hostile MCP server can name an authorization server of
its own, which would learn any secret that the client sends there. So the client MUST store registrations by issuer, and
MUST NOT use an id at another issuer, not even an id that was registered by hand.
[2026-07-28 basic/authorization/client-registration#authorization-server-binding]

Spec:  2026-07-28 basic/authorization/client-registration; RFC 7591; RFC 8252, sections 7.3 and 8.4;
       draft-ietf-oauth-client-id-metadata-document-00
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final
from urllib.parse import urlsplit

from ...lib.http.response import HttpError
from .authorization_server_discovery import PeerRequests
from .challenges import basic_credentials, split_scopes
from .errors import AuthorizationError, DiscoveryFailed, RegistrationFailed, peer_text, peer_url
from .loopback import Receiver, check_receivable, receive
from .metadata import ClientMetadata, JsonObject, ServerMetadata, default_server_metadata, parse_oauth_error
from .store import MemoryStore

AUTH_METHODS: Final = ("client_secret_basic", "client_secret_post", "none")
"""The ways in which this client can authenticate itself at a token endpoint, the preferred one first."""


@dataclass(frozen=True, slots=True)
class OAuthClient(JsonObject):
    """A client as one authorization server knows it: the response to a registration. [RFC 7591 3.2.1]"""

    client_id: str
    client_secret: str = field(default="", repr=False)
    token_endpoint_auth_method: str = ""
    redirect_uris: tuple[str, ...] = ()
    """The redirect URI that was registered, with its port; empty if the client did not register itself."""
    client_secret_expires_at: int = 0
    """Time when the secret expires, in seconds since 1970; 0 if it never does."""
    scope: str = ""
    """The scopes that were registered; "" if the client may ask for any."""

    def is_usable(self) -> bool:
        """Return True unless the secret has expired."""
        return not self.client_secret_expires_at or self.client_secret_expires_at > time.time()

    def may_request(self, scopes: Collection[str]) -> bool:
        """Return True if all `scopes` were registered, or if the client may ask for any."""
        registered = split_scopes([self.scope])
        return not registered or set(scopes) <= set(registered)

    def authenticate(self, issuer: str) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Return the headers and the parameters that authenticate the client at an issuer. [RFC 6749 2.3.1]"""
        if self.token_endpoint_auth_method == "client_secret_basic":
            return {"Authorization": basic_credentials(self.client_id, self.client_secret)}, {}
        parameters = {"client_id": self.client_id}
        if self.token_endpoint_auth_method == "client_secret_post":
            parameters["client_secret"] = self.client_secret
        return {}, parameters


@dataclass(frozen=True, slots=True)
class Clients:
    """The client ids of one program: a configured one, or one for each authorization server."""

    store: MemoryStore
    client_id: str | None
    client_secret: str = field(repr=False)
    metadata_url: str | None
    client_name: str
    redirect_uri: str

    def __post_init__(self) -> None:
        check_receivable(self.redirect_uri)
        if self.client_secret and self.client_id is None:
            raise ValueError("a client secret needs the `client_id` to which it belongs")
        if self.metadata_url is not None:
            parts = urlsplit(self.metadata_url)
            is_https = parts.scheme == "https" and parts.hostname
            has_path = parts.path not in ("", "/")
            has_dot_segment = re.search(r"/\.{1,2}(/|$)", parts.path)
            if not is_https or not has_path or has_dot_segment or parts.fragment or "@" in parts.netloc:
                raise ValueError("a client metadata URL must be https, with a path, without fragment or dot segments: "
                                 f"{peer_url(self.metadata_url)}")  # fmt: skip

    async def begin(
        self, stack: contextlib.AsyncExitStack, peers: PeerRequests, metadata: ServerMetadata, scopes: Iterable[str]
    ) -> tuple[OAuthClient, Receiver]:
        """Return the client for an authorization server, and a receiver at its redirect URI, which `stack` closes."""
        # [2026-07-28 basic/authorization/client-registration] pre-registered, metadata document, dynamic, else an error
        configured = self._configured(metadata)
        if configured is not None:
            return configured, await stack.enter_async_context(receive(self.redirect_uri))
        wanted = dict.fromkeys(scopes)
        stored = await self._registered(metadata.issuer)
        if stored is not None:
            [uri] = stored.redirect_uris  # `_registered` has checked that there is exactly one
            if stored.may_request(wanted) and stored.is_usable() and _fits(uri, self.redirect_uri):
                with contextlib.suppress(OSError):  # if another program uses this port, register a new URI
                    return stored, await stack.enter_async_context(receive(uri))
            # Keep the scopes of the old registration, because the new one replaces it. Otherwise two MCP servers that
            # need different scopes from one authorization server would make the client register again and again.
            wanted = dict.fromkeys((*split_scopes([stored.scope]), *wanted))
        receiver = await stack.enter_async_context(receive(self.redirect_uri))
        client = await register(peers, metadata, self.client_name, receiver.redirect_uri, wanted)
        await self.store.put(f"client|{metadata.issuer}", client.to_json())
        return client, receiver

    def _configured(self, metadata: ServerMetadata) -> OAuthClient | None:
        """Return the client with the configured id or metadata document, or None if it has to be registered."""
        if self.client_id is not None:
            method = choose_auth_method(metadata, self.client_secret != "")
            return OAuthClient(self.client_id, self.client_secret, method)
        if self.metadata_url is not None and metadata.client_id_metadata_document_supported:
            return OAuthClient(self.metadata_url)
        return None

    async def find(self, issuer: str, client_id: str, auth_method: str) -> OAuthClient | None:
        """Return the client that got a token with this client id, or None if the program uses another id now."""
        if self.client_id is not None:
            client: OAuthClient | None = OAuthClient(self.client_id, self.client_secret, auth_method)
        elif client_id == self.metadata_url:
            client = OAuthClient(client_id)
        else:
            client = await self._registered(issuer)
        return client if client is not None and client.client_id == client_id else None

    async def forget(self, issuer: str) -> None:
        """Forget the registration at an authorization server, so that the client registers again."""
        await self.store.delete(f"client|{issuer}")

    async def _registered(self, issuer: str) -> OAuthClient | None:
        try:
            client = OAuthClient.read(await self.store.get(f"client|{issuer}") or {})
        except ValueError:
            return None
        return client if len(client.redirect_uris) == 1 else None


def _fits(registered_uri: str, configured_uri: str) -> bool:
    """Return True if a registered redirect URI is the configured one. The port may differ if none is configured."""
    registered, configured = urlsplit(registered_uri), urlsplit(configured_uri)
    has_right_port = configured.port in (None, 0, registered.port)
    has_right_path = registered.path == (configured.path or "/")
    return has_right_port and has_right_path and registered.hostname == configured.hostname


def choose_auth_method(metadata: ServerMetadata, has_secret: bool, registered: str = "") -> str:
    """Return the way in which a client authenticates itself at the token endpoint, preferring the `registered` one."""
    if registered:
        method = registered
    elif has_secret:
        # [RFC 8414 2] a server that does not list its methods supports client_secret_basic
        offered = metadata.token_endpoint_auth_methods_supported or ("client_secret_basic",)
        method = next((one for one in AUTH_METHODS if one in offered), "")
        if not method:
            listed = peer_text(" or ".join(offered))
            raise AuthorizationError(f'{peer_url(metadata.issuer)} accepts no client secret, only "{listed}": register '
                                     "this client there for client_secret_basic or client_secret_post")  # fmt: skip
    else:
        method = "none"
    if method not in AUTH_METHODS or (method != "none" and not has_secret):
        reason = f'it wants the client authentication "{peer_text(method)}", which this client cannot do'
        raise RegistrationFailed(metadata.issuer, reason)
    return method


async def register(
    peers: PeerRequests, metadata: ServerMetadata, client_name: str, redirect_uri: str, scopes: Iterable[str]
) -> OAuthClient:
    """Register the client dynamically, and return it. Raise RegistrationFailed or another AuthorizationError."""
    issuer = metadata.issuer
    if not metadata.registration_endpoint:
        raise RegistrationFailed(issuer, "it does not let clients register themselves")
    # Unless "none" will do, follow the server's order instead of AUTH_METHODS, because some servers list
    # client_secret_basic last, and refuse to register a client with it.
    usable = [one for one in metadata.token_endpoint_auth_methods_supported if one in AUTH_METHODS]
    wanted = "none" if not usable or "none" in usable else usable[0]
    scope = " ".join(scopes)
    document = ClientMetadata(client_name, (redirect_uri,), scope, token_endpoint_auth_method=wanted)
    body, headers = json.dumps(document.to_json()).encode(), {"Content-Type": "application/json"}
    try:
        response = await peers.send("POST", metadata.registration_endpoint, headers, body)
        if response.status in (401, 403, 404, 405) and metadata == default_server_metadata(issuer):
            raise DiscoveryFailed(
                f"authorization server of {peer_url(peers.server)}",
                [(metadata.registration_endpoint, f"status {response.status}")],
                "It publishes no metadata either, so perhaps it wants an API key, or a token that you get elsewhere.",
            )
        if response.status not in (200, 201):
            # [2026-07-28 basic/authorization/client-registration#application-type-and-redirect-uri-constraints] MUST
            # handle the refusal of a redirect URI, and SHOULD tell the user
            raise RegistrationFailed(issuer, f"status {response.status}", *parse_oauth_error(response.body))
        client = OAuthClient.parse(response.body)
    except (HttpError, ValueError) as error:
        raise RegistrationFailed(issuer, peer_text(str(error))) from None
    if client.redirect_uris and redirect_uri not in client.redirect_uris:
        # [RFC 7591 3.2.1] the server may change any value
        raise RegistrationFailed(issuer, f"it registered other redirect URIs than {redirect_uri}")
    method = choose_auth_method(metadata, client.client_secret != "", client.token_endpoint_auth_method)
    # [RFC 7591 2] a client may ask for registered scopes only; a server that names none here is taken not to enforce it
    return replace(client, token_endpoint_auth_method=method, redirect_uris=(redirect_uri,),
                   scope=scope if client.scope else "")  # fmt: skip
