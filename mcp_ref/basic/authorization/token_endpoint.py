"""Token endpoint: a client exchanges an authorization code, a refresh token, or another credential for tokens.

    POST /token HTTP/1.1
    Authorization: Basic YzE6czE=
    Content-Type: application/x-www-form-urlencoded

    grant_type=authorization_code&code=k1&code_verifier=...&redirect_uri=...&resource=https%3A%2F%2Fmcp.example%2Fnotes

    200  {"access_token": "t1", "token_type": "Bearer", "expires_in": 3600, "refresh_token": "r1"}

Because these requests contain secrets, they go only to an endpoint from checked metadata or configuration, and follow
no redirect. An error never quotes the request, and quotes only the error code and description of the response.

Spec:  2026-07-28 basic/authorization/index#access-token-usage, #refresh-tokens, #resource-parameter-implementation;
       RFC 6749, sections 2.3.1, 3.2, 5 and 6; RFC 7009 (revocation); RFC 8707, section 2.2
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Protocol, TypeAlias
from urllib.parse import urlencode

from ...jsonrpc.messages import Object
from ...lib.http.message import Headers
from ...lib.http.response import HttpError, HttpResponse
from .authorization_server_discovery import PeerRequests
from .errors import TokenRefused, peer_text
from .metadata import MAX_LIFETIME, JsonObject, TokenResponse, parse_oauth_error

EXPIRY_MARGIN: Final = 30.0
"""Time before the expiry of an access token at which it is renewed, in seconds, or half of its lifetime if shorter."""

_MOVED: Final = (404, 405, 410)  # statuses of a token endpoint that has moved

Form: TypeAlias = dict[str, str]
"""The parameters of a token request."""

ClientAuthentication: TypeAlias = Callable[[str], tuple[Mapping[str, str], Mapping[str, str]]]
"""A function that takes the issuer, and returns the headers and parameters that authenticate one request to it."""


class Prover(Protocol):
    """A key, such as a `DpopKey`, to which tokens are bound: each use of a token needs a proof made with the key."""

    extension: str
    """The name of the MCP extension that a client with such a key declares."""

    def headers(self, method: str, url: str, token: str = "") -> Mapping[str, str]:
        """Return the headers of one request: a new proof, and the token if there is one."""

    def learn(self, url: str, headers: Headers, error: str = "") -> bool:
        """Read the headers of a response. Return True if the peer demands another proof."""


@dataclass(frozen=True, slots=True)
class Grant(JsonObject):
    """The outcome of a sign-in: the tokens for one MCP server, with everything needed to refresh them."""

    access_token: str = field(repr=False)
    issuer: str = ""
    resource: str = ""
    """`resource` as the MCP server publishes it."""
    scopes: tuple[str, ...] = ()
    """All scopes requested so far. The next sign-in requests them again."""
    expires_at: float | None = None
    """Time when the access token expires, in seconds of the monotonic clock; None if unknown."""
    lifetime: float = 0
    refresh_token: str = field(default="", repr=False)
    token_endpoint: str = ""
    revocation_endpoint: str = ""
    client_id: str = ""
    auth_method: str = ""
    server_address: str = ""
    """The IP address of the MCP server at the sign-in. A refresh must not let a server on the internet lead the
    client into the private network."""
    id: str = field(default_factory=lambda: secrets.token_hex(16))
    """A random id of this sign-in, kept when it is refreshed. It keeps the private results of users apart in caches."""

    def is_fresh(self, margin: float = EXPIRY_MARGIN) -> bool:
        """Return True unless the token will expire within `margin` seconds, or half of its lifetime if shorter."""
        return self.expires_at is None or time.monotonic() < self.expires_at - min(margin, self.lifetime / 2)

    def renewed(self, response: TokenResponse, asked_at: float) -> Grant:
        """Return the grant with the tokens of a response, requested at the monotonic time `asked_at`."""
        ends = None if response.expires_in is None else asked_at + response.expires_in
        # [RFC 6749 6] without a new refresh token, the old one stays valid
        return replace(self, access_token=response.access_token, expires_at=ends, lifetime=response.expires_in or 0,
                       refresh_token=response.refresh_token or self.refresh_token)  # fmt: skip

    def to_json(self) -> Object:
        """Return the grant for a store, with Unix time in `expires_at`, as a restart resets the monotonic clock."""
        ends = None if self.expires_at is None else time.time() + self.expires_at - time.monotonic()
        return JsonObject.to_json(replace(self, expires_at=ends))


def read_grant(value: Object | None) -> Grant | None:
    """Return a stored grant, or None if it is missing or cannot be read."""
    try:
        grant = Grant.read(value or {})
    except ValueError:
        return None
    if grant.expires_at is None:
        return grant
    left = min(grant.expires_at - time.time(), MAX_LIFETIME)
    return replace(grant, expires_at=time.monotonic() + left)


async def request_token(
    peers: PeerRequests, issuer: str, url: str, authenticate: ClientAuthentication, form: Form,
    prover: Prover | None = None,
) -> TokenResponse:  # fmt: skip
    """Send a token request to an issuer's token endpoint, and return the tokens. Raise TokenRefused."""
    response = await _post(peers, issuer, url, authenticate, form, prover)
    error, description = parse_oauth_error(response.body)
    if response.status == 200 and not error:
        try:
            found = TokenResponse.parse(response.body)
        except ValueError as fault:
            raise TokenRefused(issuer, 200, advice=f"its response is not usable: {fault}") from None
        usable = "bearer" if prover is None else "dpop"  # [RFC 9449 5] a DPoP token is bound to the key
        is_exchange = "requested_token_type" in form  # [RFC 8693 2.2.1] its token may have the type N_A
        if not is_exchange and found.token_type.lower() != usable:
            raise TokenRefused(issuer, 200, advice="it issued a token of a type that this client cannot use")
        return found
    is_about_grant = error in ("invalid_grant", "invalid_client", "invalid_scope", "unauthorized_client")
    advice = ""
    # A server that refuses `resource` says invalid_target, or has status 400 and an error that is not about the grant.
    if "resource" in form and not is_about_grant and (error == "invalid_target" or response.status == 400):
        advice = "if that server is known to refuse `resource`, leave it out with the option `resource_parameter=False`"
    raise TokenRefused(issuer, response.status, error, description, advice)


def grant_to_keep(refusal: TokenRefused, grant: Grant) -> Grant | None:
    """Return the grant if its token is still valid, although its refresh was refused. Otherwise, raise the refusal.

    If the token endpoint has moved, return None. Then the next request has no token, so it gets a 401, from which the
    client learns the new endpoint.
    """
    if refusal.status in _MOVED:
        return None
    if not grant.is_fresh(margin=0):
        raise refusal
    return grant


async def revoke(
    peers: PeerRequests, issuer: str, url: str, authenticate: ClientAuthentication, token: str, hint: str
) -> None:
    """Revoke a token at the revocation endpoint. `hint` is "refresh_token" or "access_token". [RFC 7009 2.1]"""
    response = await _post(peers, issuer, url, authenticate, {"token": token, "token_type_hint": hint}, None)
    error, description = parse_oauth_error(response.body)
    # [RFC 7009 2.2.1] a server need not be able to revoke access tokens, which are valid only for a short time
    if response.status != 200 and error != "unsupported_token_type":
        advice = "the token was not revoked: it is valid until it expires"
        raise TokenRefused(issuer, response.status, error, description, advice)


async def _post(
    peers: PeerRequests, issuer: str, url: str, authenticate: ClientAuthentication, form: Form, prover: Prover | None
) -> HttpResponse:
    for _ in range(2):  # a second time if the server demands another proof
        headers, parameters = authenticate(issuer)
        headers = {"Content-Type": "application/x-www-form-urlencoded", **headers}
        proof = {} if prover is None else prover.headers("POST", url)
        try:
            response = await peers.send("POST", url, {**headers, **proof}, urlencode({**form, **parameters}).encode())
        except HttpError as fault:
            raise TokenRefused(issuer, 0, advice=f"{peer_text(str(fault))}; try again later") from None
        error, _description = parse_oauth_error(response.body)
        if prover is None or not prover.learn(url, response.headers, error):
            break
    return response
