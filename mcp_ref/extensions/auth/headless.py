"""Clients without a user at a browser: they get tokens with credentials of their own.

`ClientCredentials`: the program has an account at the authorization server.

    POST /token
    grant_type=client_credentials&resource=https%3A%2F%2Fmcp.example%2Fnotes&scope=notes%3Aread
        &client_assertion_type=urn:ietf:params:oauth:client-assertion-type:jwt-bearer&client_assertion=eyJ...

The program authenticates itself with a secret or, better, with an assertion: a token that it signs with a private key,
which it never sends. An assertion is valid for one issuer, for one minute, and once, so stealing it gains little.

`WorkloadIdentity`: the platform of the program, such as a cluster, vouches for it, so the program has no secret.

    the platform  ->  an assertion: a signed token for the issuer, which names the program
    POST /token  grant_type=urn:ietf:params:oauth:grant-type:jwt-bearer&assertion=eyJ...&client_id=reports  ->  a token

If no token is issued, the client does not try again, because the same assertion would be refused again, and another
kind of token request would hide a wrong configuration.

`EnterpriseManaged`: a company's identity provider decides which MCP servers its people may use.

1   the user signs in at the identity provider; the program gets an ID token (outside this package)
2   POST https://login.company.example/token
    grant_type=urn:ietf:params:oauth:grant-type:token-exchange&subject_token=eyJ...&audience=https%3A%2F%2Fauth.example
        &requested_token_type=urn:ietf:params:oauth:token-type:id-jag&resource=https%3A%2F%2Fmcp.example%2Fnotes
    200  {"issued_token_type": "urn:ietf:params:oauth:token-type:id-jag", "access_token": "eyJ...", "token_type": "N_A"}
3   POST https://auth.example/token  grant_type=urn:ietf:params:oauth:grant-type:jwt-bearer&assertion=eyJ...

The result of step 2 is an assertion (ID-JAG): it tells one authorization server that this user may use this MCP server.
No browser opens in step 3. The provider is asked for each token, so a user who has left the company loses access.

A server that an attacker has taken over could name the attacker's authorization server, and no user would notice. So
these credentials, which may be valid for months, are sent to one issuer only: the one that the program names, or else
the first one, which the store remembers. That may be the attacker's, so a program should name its issuer.
[2026-07-28 basic/authorization/client-registration#authorization-server-binding]

Spec:  the extensions oauth-client-credentials (SEP-1046), enterprise-managed-authorization (SEP-990), and auth/wif
       (SEP-1933, draft); RFC 6749, section 4.4; RFC 7523, sections 2 and 3; RFC 8693, section 2
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Final, TypeAlias

from ...basic.authorization.addresses import check_fetchable
from ...basic.authorization.authorization_server_discovery import PeerRequests, discover
from ...basic.authorization.client import Authorizer, Need
from ...basic.authorization.client_registration import OAuthClient, choose_auth_method
from ...basic.authorization.errors import DiscoveryFailed, TokenRefused
from ...basic.authorization.token_endpoint import ClientAuthentication, Form, Grant, grant_to_keep, request_token
from ...lib.jose.keys import JSON, parse_private_key
from ...lib.jose.tokens import sign_jwt

ASSERTION_SECONDS: Final = 60
"""Lifetime of an assertion, in seconds."""
Signer: TypeAlias = Callable[[bytes], bytes]
"""A function that returns the signature of a message."""
JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
"""The `grant_type` of a token request that contains an assertion. [RFC 7523 2.1]"""
_ID_TOKEN: Final = "urn:ietf:params:oauth:token-type:id_token"
_ID_JAG: Final = "urn:ietf:params:oauth:token-type:id-jag"


@dataclass(repr=False, eq=False)
class Headless(Authorizer):
    """The base class of clients without a user. They have the options of `Authorizer`, and should get an `issuer`."""

    client_id: str
    """The name of the program at the authorization server."""
    secret: str | None = field(default=None, repr=False)
    """The program's secret at the authorization server, if it has one."""

    extension = ""  # each subclass has its own

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
        """Return the grant, with a new token if the token expires soon. No refresh token is needed for that."""
        if grant is None or grant.is_fresh():
            return grant
        try:
            return await self._request(peers, grant)
        except TokenRefused as refusal:
            return grant_to_keep(refusal, grant)

    async def obtain(self, need: Need) -> Grant:
        """Return a new grant: find the authorization server, and request a token."""
        issuer = self.issuer or await self._first_issuer()
        resource, server = await discover(need.peers, need.challenge.resource_metadata, issuer, for_user=False)
        if issuer is None:
            key = f"issuer|{self.client_id}"
            async with self.store.lock(key):
                if await self._first_issuer() not in (None, server.issuer):  # another task has stored another issuer
                    raise DiscoveryFailed("known issuer", [(server.issuer, "is not the stored one")])
                await self.store.put(key, {"issuer": server.issuer})
        chosen = self.choose_scopes(need, resource, server)
        scopes = tuple(scope for scope in chosen if scope != "offline_access")  # it would request a refresh token
        method = choose_auth_method(server, self.secret is not None)
        grant = Grant("", server.issuer, resource.resource, scopes, token_endpoint=server.token_endpoint,
                      client_id=self.client_id, auth_method=method)  # fmt: skip
        return await self._request(need.peers, grant)

    async def _first_issuer(self) -> str | None:
        stored = await self.store.get(f"issuer|{self.client_id}") or {}
        issuer = stored.get("issuer")
        return issuer if isinstance(issuer, str) else None

    async def _request(self, peers: PeerRequests, grant: Grant) -> Grant:
        form = await self.form(peers, grant)
        if grant.scopes:
            form = {**form, "scope": " ".join(grant.scopes)}
        return await self.request(peers, grant, self.authenticate(grant), form)


def es256_signer(pem: str) -> Signer:
    """Return a function that makes ES256 signatures, with the code of this package.

    An attacker on the same machine could learn about the key from the time that a signature takes. So a program that
    has the package `cryptography`, or a key server, should pass a function of its own as `signer` instead.

    Args:
        pem: A P-256 private key in PEM (PKCS#8 or SEC1).

    Raises:
        ValueError: The text is not a P-256 private key.
    """
    return parse_private_key(pem).sign


@dataclass(repr=False, eq=False)
class ClientCredentials(Headless):
    """The account of a program: `ClientCredentials("reports", secret=..., issuer="https://auth.example")`.

    It has either a secret or a signer.
    """

    _: KW_ONLY
    signer: Signer | None = None
    """A function that signs with the program's private key."""
    algorithm: str = "ES256"
    """The algorithm of the signer."""
    kid: str | None = None
    """The name of the key, if the authorization server knows several."""

    extension = "io.modelcontextprotocol/oauth-client-credentials"

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.secret is None) == (self.signer is None):
            raise ValueError("give either `secret` or `signer`")

    async def form(self, peers: PeerRequests, grant: Grant) -> Form:
        return {"grant_type": "client_credentials"}

    def authenticate(self, grant: Grant) -> ClientAuthentication:
        return super().authenticate(grant) if self.signer is None else self._signed_assertion

    def _signed_assertion(self, issuer: str) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Return no headers, and the form parameters with a new assertion. [RFC 7523 2.2] [RFC 7523 3]"""
        assert self.signer is not None
        header: dict[str, JSON] = {"typ": "JWT", "alg": self.algorithm}
        if self.kid:
            header["kid"] = self.kid
        now = int(time.time())
        claims: dict[str, JSON] = {"iss": self.client_id, "sub": self.client_id, "aud": issuer, "iat": now,
                                   "exp": now + ASSERTION_SECONDS, "jti": secrets.token_urlsafe(16)}  # fmt: skip
        return {}, {"client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
                    "client_assertion": sign_jwt(header, claims, self.signer)}  # fmt: skip


@dataclass(repr=False, eq=False)
class WorkloadIdentity(Headless):
    """The identity of a program: `WorkloadIdentity("reports", assertion=read_token, issuer="https://auth.example")`."""

    _: KW_ONLY
    assertion: Callable[[], Awaitable[str]]
    """An async function that returns the platform's assertion. It is called for each token request."""

    extension = "io.modelcontextprotocol/auth/wif"

    async def form(self, peers: PeerRequests, grant: Grant) -> Form:
        return {"grant_type": JWT_BEARER, "assertion": await self.assertion()}


@dataclass(repr=False, eq=False)
class EnterpriseManaged(Headless):
    """The access of a user through a company's identity provider."""

    _: KW_ONLY
    idp_token_endpoint: str
    """The token endpoint of the identity provider."""
    idp_client_id: str
    """The name of the program at the identity provider."""
    id_token: Callable[[], Awaitable[str]]
    """An async function that returns the user's ID token. It is called for each token request."""
    idp_secret: str | None = field(default=None, repr=False)
    """The program's secret at the identity provider, if it has one."""

    extension = "io.modelcontextprotocol/enterprise-managed-authorization"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fetchable(self.idp_token_endpoint, self.idp_token_endpoint)

    async def form(self, peers: PeerRequests, grant: Grant) -> Form:
        url, method = self.idp_token_endpoint, "none" if self.idp_secret is None else "client_secret_basic"
        client = OAuthClient(self.idp_client_id, self.idp_secret or "", method)
        form = {"grant_type": "urn:ietf:params:oauth:grant-type:token-exchange", "requested_token_type": _ID_JAG,
                "subject_token": await self.id_token(), "subject_token_type": _ID_TOKEN, "audience": grant.issuer,
                "resource": grant.resource}  # fmt: skip
        if grant.scopes:
            form["scope"] = " ".join(grant.scopes)
        idp_requests = PeerRequests(peers.http, url)
        # As if a server on this machine had named the URL, which allows every network: the program itself has named it.
        idp_requests.address = "127.0.0.1"
        response = await request_token(idp_requests, url, url, client.authenticate, form)
        if response.issued_token_type != _ID_JAG:  # [RFC 8693 2.2.1] REQUIRED
            raise TokenRefused(url, 200, advice="it issued another type of token than an ID-JAG")
        return {"grant_type": JWT_BEARER, "assertion": response.access_token}
