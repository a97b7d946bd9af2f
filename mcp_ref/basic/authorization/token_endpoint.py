"""The token endpoint: a client exchanges a grant, such as an authorization code, for tokens.

    POST /token HTTP/1.1
    Authorization: Basic YzE6czE=
    Content-Type: application/x-www-form-urlencoded

    grant_type=authorization_code&code=k1&code_verifier=...&redirect_uri=...&resource=https%3A%2F%2Fmcp.example%2Fnotes

    200  {"access_token": "t1", "token_type": "Bearer", "expires_in": 3600, "refresh_token": "r1"}

    code_grant          a code, after a sign-in
    refresh_grant       a refresh token, after the access token has ended; the response may hold a new refresh token
    (other grants)      any other form: the extensions have their own

Everything in these requests is a secret. So they go to the checked metadata's endpoint only, follow no redirect, and an
error never repeats a body. `resource` makes the token valid at one MCP server. Without it, a server that receives the
token could use it at others. [2026-07-28 basic/authorization/index#resource-parameter-implementation]

A client with a secret authenticates itself in one of two ways, or signs an assertion: `ClientAuthentication` is the
seam for that.

Spec:  2026-07-28 basic/authorization/index#access-token-usage, #refresh-tokens, #resource-parameter-implementation;
       RFC 6749, sections 2.3.1, 3.2, 5 and 6; RFC 7009 (revocation); RFC 8707, section 2.2
Above: `client.py`. Below: `metadata.py`, `authorization_server_discovery.py` (the requests)
"""

from __future__ import annotations

import base64
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Final, Protocol, TypeAlias
from urllib.parse import quote_plus, urlencode

from ...jsonrpc.messages import Object
from ...lib.http.client import Document, HttpError
from ...lib.http.message import Headers
from .authorization_code import SignIn
from .authorization_server_discovery import PeerRequests
from .challenges import split_scopes
from .client_registration import OAuthClient
from .errors import TokenRefused, peer_text, peer_url
from .metadata import MAX_LIFETIME, TokenResponse, parse_oauth_error, parse_token_response

TOKEN_SECONDS: Final = 30.0
"""Time that an authorization server has to respond to a token request, in seconds."""

EXPIRY_MARGIN: Final = 30.0
"""Time before the end of an access token from which on it is renewed, in seconds; at most half of its lifetime."""

Form: TypeAlias = dict[str, str]
"""The parameters of a token request."""

ClientAuthentication: TypeAlias = Callable[[str], tuple[Mapping[str, str], Mapping[str, str]]]
"""A function from the issuer to the headers and the parameters that authenticate the client, for one request."""


class Prover(Protocol):
    """A key that a client proves to have. Tokens bound to it are useless without it: see `DpopKey`."""

    extension: str
    """The name of the extension."""

    def headers(self, method: str, url: str, token: str = "") -> Mapping[str, str]:
        """Return the headers of one request: a new proof, and the token if there is one."""

    def learn(self, url: str, headers: Headers, error: str = "") -> bool:
        """Read the headers of a response. Return True if the peer demands another proof."""


@dataclass(frozen=True, slots=True)
class TokenEndpoint:
    """The token endpoint of one authorization server, for one client."""

    issuer: str
    url: str
    authenticate: ClientAuthentication
    prover: Prover | None = None


@dataclass(frozen=True, slots=True)
class Grant:
    """The tokens for one MCP server, with all that a refresh needs."""

    access_token: str = field(repr=False)
    issuer: str = ""
    resource: str = ""
    """`resource` as the MCP server publishes it."""
    scopes: tuple[str, ...] = ()
    """All scopes that were asked for so far. The next sign-in asks for them again."""
    token_type: str = "Bearer"
    expires_at: float | None = None
    """End of the access token, in seconds of the monotonic clock; None if unknown."""
    lifetime: float = 0
    refresh_token: str | None = field(default=None, repr=False)
    token_endpoint: str = ""
    revocation_endpoint: str | None = None
    client_id: str = ""
    auth_method: str = "none"
    server_address: str | None = None
    """The IP address of the MCP server at the sign-in. It decides into which networks a refresh may lead."""
    id: str = field(default_factory=lambda: secrets.token_hex(16))
    """A random name of this sign-in, kept over refreshes. It separates the private results of users in caches."""

    def is_fresh(self) -> bool:
        """Return True if the access token will be valid for some time."""
        margin = min(EXPIRY_MARGIN, self.lifetime / 2)
        return self.expires_at is None or time.monotonic() < self.expires_at - margin

    def has_ended(self) -> bool:
        """Return True if the access token is not valid any more."""
        return self.expires_at is not None and time.monotonic() >= self.expires_at

    def renewed(self, response: TokenResponse, asked_at: float) -> Grant:
        """Return the grant with the tokens of a response. `asked_at`: monotonic time before the request."""
        ends = None if response.expires_in is None else asked_at + response.expires_in
        # [RFC 6749 6] without a new refresh token, the old one stays valid
        refresh_token = response.refresh_token or self.refresh_token
        return replace(
            self, access_token=response.access_token, token_type=response.token_type, expires_at=ends,
            lifetime=response.expires_in or 0, refresh_token=refresh_token)  # fmt: skip

    def to_json(self) -> Object:
        """Return the grant for a store. Its end is in seconds since 1970: the monotonic clock ends with the system."""
        ends = None if self.expires_at is None else time.time() + self.expires_at - time.monotonic()
        return {**asdict(self), "scopes": [*self.scopes], "expires_at": ends}


def read_grant(value: Object | None) -> Grant | None:
    """Return a grant of a store, or None if it is missing or cannot be read."""
    if value is None:
        return None
    texts = {name: text for name, text in value.items() if isinstance(text, str) and name in _TEXT_FIELDS}
    scopes, ends, lifetime = value.get("scopes"), value.get("expires_at"), value.get("lifetime")
    if not texts.get("access_token") or not texts.get("issuer") or not isinstance(scopes, list):
        return None
    left = min(ends - time.time(), MAX_LIFETIME) if isinstance(ends, int | float) else None
    return Grant(
        **texts, scopes=split_scopes(" ".join(map(str, scopes))),
        expires_at=None if left is None else time.monotonic() + left,
        lifetime=lifetime if isinstance(lifetime, int | float) else 0)  # fmt: skip


_TEXT_FIELDS: Final = tuple(
    member.name for member in fields(Grant) if "str" in str(member.type) and member.name != "scopes"
)


def code_grant(code: str, sign_in: SignIn, resource: str | None) -> Form:
    """Return the token request for an authorization code. The `resource` None leaves the parameter out."""
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": sign_in.redirect_uri,
        "code_verifier": sign_in.verifier,
    }
    return form | _resource(resource)


def refresh_grant(refresh_token: str, resource: str | None) -> Form:
    """Return the token request for a refresh token. The `resource` None leaves the parameter out."""
    # Without `scope`, the new token has the scopes of the old one. [RFC 6749 6]
    return {"grant_type": "refresh_token", "refresh_token": refresh_token} | _resource(resource)


def _resource(resource: str | None) -> Form:
    # [2026-07-28 basic/authorization/index#resource-parameter-implementation] MUST be in token requests
    return {} if resource is None else {"resource": resource}


def authentication(client: OAuthClient) -> ClientAuthentication:
    """Return the authentication of a client by its secret, or without one. [RFC 6749 2.3.1]"""
    secret = client.client_secret or ""

    def authenticate(issuer: str) -> tuple[Mapping[str, str], Mapping[str, str]]:
        if client.auth_method == "client_secret_basic":
            # id and secret are form-encoded before they are joined: a colon in the id would move the border
            pair = f"{quote_plus(client.client_id)}:{quote_plus(secret)}".encode()
            return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}, {}
        parameters = {"client_id": client.client_id}
        return {}, parameters | ({"client_secret": secret} if client.auth_method == "client_secret_post" else {})

    return authenticate


async def request_grant(
    peers: PeerRequests, grant: Grant, authenticate: ClientAuthentication, form: Form, prover: Prover | None = None
) -> Grant:
    """Send a token request, and return the grant with the tokens of the response."""
    endpoint, asked_at = TokenEndpoint(grant.issuer, grant.token_endpoint, authenticate, prover), time.monotonic()
    return grant.renewed(await request_token(peers, endpoint, form), asked_at)


async def request_token(peers: PeerRequests, endpoint: TokenEndpoint, form: Form) -> TokenResponse:
    """Send a token request, and return the tokens.

    Raises:
        TokenRefused: The authorization server refused, is out of order, or responded wrongly. `error` is its code.
    """
    answer = await _post(peers, endpoint, form)
    refusal = parse_oauth_error(answer.body)
    if answer.status == 200 and not refusal.error:
        try:
            found = parse_token_response(answer.body)
        except ValueError as error:
            raise TokenRefused(endpoint.issuer, 200, advice=f"its response is not usable: {error}") from None
        # [RFC 8693 2.2.1] an exchanged token may have no type; [RFC 9449 5] an unbound token would defeat the purpose
        usable = "bearer" if endpoint.prover is None else "dpop"
        if "requested_token_type" not in form and found.token_type.lower() != usable:
            raise TokenRefused(endpoint.issuer, 200, advice="it issued a token of a type that this client cannot use")
        return found
    advice = ""
    if "resource" in form and (refusal.error == "invalid_target" or answer.status == 400):
        is_about_grant = refusal.error in ("invalid_grant", "invalid_client", "invalid_scope", "unauthorized_client")
        advice = "" if is_about_grant else (
            "if it is known to refuse the parameter `resource`, the option `resource_parameter=False` leaves it out"
        )  # fmt: skip
    raise TokenRefused(endpoint.issuer, answer.status, refusal.error, refusal.description, advice)


async def revoke(peers: PeerRequests, endpoint: TokenEndpoint, token: str, hint: str) -> None:
    """Revoke a token: `endpoint` has the URL of the revocation endpoint. [RFC 7009 2.1]

    Args:
        hint: "refresh_token" or "access_token". Most servers revoke the access tokens of a revoked refresh token.

    Raises:
        TokenRefused: The authorization server did not revoke the token.
    """
    answer = await _post(peers, endpoint, {"token": token, "token_type_hint": hint})
    if answer.status != 200:
        refusal = parse_oauth_error(answer.body)
        advice = "the token was not revoked: it is valid until it ends"
        raise TokenRefused(endpoint.issuer, answer.status, refusal.error, refusal.description, advice)


async def _post(peers: PeerRequests, endpoint: TokenEndpoint, form: Form) -> Document:
    for is_last in (False, True):
        headers, parameters = endpoint.authenticate(endpoint.issuer)
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json", **headers}
        if endpoint.prover is not None:
            headers |= endpoint.prover.headers("POST", endpoint.url)
        body = urlencode(form | dict(parameters)).encode()
        try:
            answer = await peers.send("POST", endpoint.url, headers, body, TOKEN_SECONDS)
        except (HttpError, ValueError) as error:
            why = f"{peer_url(endpoint.url)} did not answer: {peer_text(str(error))}; try again later"
            raise TokenRefused(endpoint.issuer, 0, advice=why) from None
        refusal = parse_oauth_error(answer.body)
        if endpoint.prover is None or not endpoint.prover.learn(endpoint.url, answer.headers, refusal.error) or is_last:
            break
    return answer
