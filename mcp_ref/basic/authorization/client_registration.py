"""Client registration: how a client gets its client id, the name under which an authorization server knows it.

    1  pre-registered    the user registered the client by hand, and configured id and issuer
    2  metadata document the client id is an https URL, under which the client's metadata are published (CIMD)
    3  dynamic           POST to the registration endpoint; deprecated since 2026-07-28 (DCR)
    4  nothing           an error that says how to register by hand

[2026-07-28 basic/authorization/client-registration] The first one that both sides have is used.

A client id, and even more a secret, belongs to the issuer that gave it. A hostile MCP server names its own
authorization server: a client that sent its usual secret there would give it away. So registrations are kept by issuer,
and an id that was registered by hand is used at its own issuer only.
[2026-07-28 basic/authorization/client-registration#authorization-server-binding]

A client of this kind is a program on the user's machine, so `application_type` is "native": an authorization server
that took it for a web site would refuse the redirect URI on loopback.
[2026-07-28 basic/authorization/client-registration#application-type-and-redirect-uri-constraints]

Spec:  2026-07-28 basic/authorization/client-registration; RFC 7591; RFC 8252, sections 7.3 and 8.4;
       draft-ietf-oauth-client-id-metadata-document-00
Above: `client.py`. Below: `metadata.py` (the documents), `authorization_server_discovery.py` (the requests)
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from typing import Final
from urllib.parse import urlsplit

from ...jsonrpc.messages import Object
from ...lib.http.client import HttpError
from .authorization_server_discovery import PeerRequests
from .errors import RegistrationFailed, peer_text, peer_url
from .metadata import ClientMetadata, RegisteredClient, ServerMetadata, parse_oauth_error, parse_registration

REGISTRATION_SECONDS: Final = 30.0
"""Time that an authorization server has to register a client, in seconds."""

AUTH_METHODS: Final = ("client_secret_basic", "client_secret_post", "none")
"""The ways in which this client can authenticate itself at a token endpoint, the preferred one first."""


@dataclass(frozen=True, slots=True)
class OAuthClient:
    """A client as one authorization server knows it."""

    issuer: str
    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    auth_method: str = "none"
    redirect_uri: str = ""
    """The redirect URI that was registered, with its port; "" if the client did not register itself."""
    expires_at: float = 0
    """End of the secret, in seconds since 1970; 0 if it never ends."""

    def is_usable(self) -> bool:
        """Return True if the secret of a registration has not ended."""
        return not self.expires_at or self.expires_at > time.time()

    def to_json(self) -> Object:
        """Return the client for a store."""
        return asdict(self)


def read_client(value: Object | None) -> OAuthClient | None:
    """Return a client of a store, or None if it is missing or cannot be read."""
    members = {} if value is None else value
    texts = {member.name: members.get(member.name) for member in fields(OAuthClient) if member.name != "expires_at"}
    found = {name: text for name, text in texts.items() if isinstance(text, str)}
    ends = members.get("expires_at")
    if "client_id" not in found or "issuer" not in found or not found.get("redirect_uri"):
        return None
    return OAuthClient(**found, expires_at=ends if isinstance(ends, int | float) else 0)


def check_client_metadata_url(url: str) -> None:
    """Raise ValueError unless the URL can be a client id: https, with a path, without fragment or dot segments."""
    parts = urlsplit(url)
    is_plain = parts.scheme == "https" and parts.hostname and not (parts.fragment or "@" in parts.netloc)
    if not is_plain or parts.path in ("", "/") or re.search(r"/\.{1,2}(/|$)", parts.path):
        raise ValueError(f"a client metadata URL must be https, with a path, without fragment: {peer_url(url)}")


def choose_auth_method(metadata: ServerMetadata, has_secret: bool, registered: str | None = None) -> str:
    """Return the way in which a client authenticates itself at the token endpoint.

    Args:
        metadata: metadata of the authorization server.
        has_secret: True if the client has a secret.
        registered: `token_endpoint_auth_method` of the registration response.

    Raises:
        RegistrationFailed: The client cannot do what the authorization server wants.
    """
    offered = metadata.token_endpoint_auth_methods_supported
    if registered is not None:
        method = registered
    elif not has_secret:
        method = "none"
    elif offered is None:  # [RFC 8414 2] the default of an absent list
        method = "client_secret_basic"
    else:
        method = next((one for one in AUTH_METHODS if one in offered), "none")
    if method not in AUTH_METHODS or (method != "none" and not has_secret):
        raise RegistrationFailed(
            metadata.issuer, f'it wants the client authentication "{peer_text(method)}", which this client cannot do'
        )
    return method


async def register(
    peers: PeerRequests, metadata: ServerMetadata, client_name: str, redirect_uri: str, scopes: Iterable[str]
) -> OAuthClient:
    """Register the client dynamically, and return it.

    Raises:
        RegistrationFailed: The authorization server has no registration endpoint, or refuses, or responds wrongly.
    """
    issuer, endpoint = metadata.issuer, metadata.registration_endpoint
    if endpoint is None:
        raise RegistrationFailed(issuer, "it does not let clients register themselves")
    offered = metadata.token_endpoint_auth_methods_supported
    wanted = next((one for one in ("none", *AUTH_METHODS) if offered is None or one in offered), "none")
    document = ClientMetadata(client_name, (redirect_uri,), " ".join(scopes), token_endpoint_auth_method=wanted)
    response = await _post(peers, issuer, endpoint, document.to_json())
    if response.redirect_uris is not None and redirect_uri not in response.redirect_uris:
        # [RFC 7591 3.2.1] the server may change any value
        raise RegistrationFailed(issuer, f"it registered other redirect URIs than {redirect_uri}")
    has_secret = response.client_secret is not None
    method = choose_auth_method(metadata, has_secret, response.token_endpoint_auth_method)
    ends = response.client_secret_expires_at or 0
    return OAuthClient(issuer, response.client_id, response.client_secret, method, redirect_uri, ends)


async def _post(peers: PeerRequests, issuer: str, endpoint: str, document: Object) -> RegisteredClient:
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    try:
        answer = await peers.send("POST", endpoint, headers, json.dumps(document).encode(), REGISTRATION_SECONDS)
        if answer.status in (200, 201):
            return parse_registration(answer.body)
    except (HttpError, ValueError) as error:
        raise RegistrationFailed(issuer, peer_text(str(error))) from None
    # [2026-07-28 basic/authorization/client-registration#application-type-and-redirect-uri-constraints] MUST handle the
    # refusal of a redirect URI, and SHOULD tell the user
    refusal = parse_oauth_error(answer.body)
    raise RegistrationFailed(issuer, f"status {answer.status}", refusal.error, refusal.description)
