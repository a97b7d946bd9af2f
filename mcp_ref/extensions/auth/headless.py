"""Clients without a user: they get tokens with credentials of their own, and never open a browser.

`ClientCredentials`: the program has an account at the authorization server.

    POST /token
    grant_type=client_credentials&resource=https%3A%2F%2Fmcp.example%2Fnotes&scope=notes%3Aread
        &client_assertion_type=urn:ietf:params:oauth:client-assertion-type:jwt-bearer&client_assertion=eyJ...

The program authenticates itself with a secret, or better with an assertion: a token that it has signed, with a private
key that never leaves it. An assertion is for one issuer, one minute and one use, so a thief of it gains little.

`WorkloadIdentity`: the platform of the program, such as a cluster, vouches for it, so the program has no secret.

    the platform  ->  an assertion: a signed token for the issuer, which names the program
    POST /token  grant_type=urn:ietf:params:oauth:grant-type:jwt-bearer&assertion=eyJ...&client_id=reports  ->  a token

A refusal is final for the request that needs the token, because the same assertion would be refused again, and another
kind of token request would hide a wrong configuration.

`EnterpriseManaged`: the identity provider of a company decides which MCP servers its people may use.

1   the user signs in at the identity provider; the program gets an ID token (outside this package)
2   POST https://login.company.example/token
    grant_type=urn:ietf:params:oauth:grant-type:token-exchange&subject_token=eyJ...&audience=https%3A%2F%2Fauth.example
        &requested_token_type=urn:ietf:params:oauth:token-type:id-jag&resource=https%3A%2F%2Fmcp.example%2Fnotes
    200  {"issued_token_type": "urn:ietf:params:oauth:token-type:id-jag", "access_token": "eyJ...", "token_type": "N_A"}
3   POST https://auth.example/token  grant_type=urn:ietf:params:oauth:grant-type:jwt-bearer&assertion=eyJ...

The result of step 2 is an assertion (ID-JAG): it tells one authorization server that this user may use this MCP server.
No browser opens in step 3. The provider is asked for each token, so a user who has left the company loses access.

Such credentials can be valid for months, and no user sees where they go, although a server that an attacker has taken
over can name the attacker's authorization server. So the credentials go to one issuer only: the one that the program
names, or else the first one, which the store keeps. Since that may already be wrong, programs should name theirs.
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
"""The `grant_type` of a token request with an assertion. [RFC 7523 2.1]"""
_ID_TOKEN: Final = "urn:ietf:params:oauth:token-type:id_token"
_ID_JAG: Final = "urn:ietf:params:oauth:token-type:id-jag"


@dataclass(repr=False, eq=False)
class Headless(Authorizer):
    """The base class of clients without a user. `Authorizer` has further options; `issuer` should be given."""

    client_id: str
    """The name of the program at the authorization server."""
    secret: str | None = field(default=None, repr=False)
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
        if grant is None or grant.is_fresh():
            return grant
        try:
            return await self._request(peers, grant)
        except TokenRefused as refusal:
            return grant_to_keep(refusal, grant)

    async def obtain(self, need: Need) -> Grant:
        """Return a new grant: find the authorization server, and request a token."""
        only = self.issuer or await self._first_issuer()
        resource, server = await discover(need.peers, need.challenge.resource_metadata, only, for_user=False)
        if only is None:
            key = f"issuer|{self.client_id}"
            async with self.store.lock(key):
                if await self._first_issuer() not in (None, server.issuer):  # another task has found another issuer
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


def es256_signer(pem: str) -> Signer:
    """Return a function that makes ES256 signatures, with the code of this package.

    An attacker on the same machine could learn about the key from the time that a signature takes. So a program with
    the package `cryptography`, or with a key server, should pass a function of its own as `signer` instead.

    Args:
        pem: A P-256 private key in PEM (PKCS#8 or SEC1).

    Raises:
        ValueError: The text is not such a key.
    """
    return parse_private_key(pem).sign


@dataclass(repr=False, eq=False)
class ClientCredentials(Headless):
    """The account of a program: `ClientCredentials("reports", secret=..., issuer="https://auth.example")`.

    It has either a secret or a signer. `Authorizer` has further options.
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
        return super().authenticate(grant) if self.signer is None else self._assert

    def _assert(self, issuer: str) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Return the parameters with a new assertion. [RFC 7523 2.2] [RFC 7523 3]"""
        assert self.signer is not None
        header: dict[str, JSON] = {"typ": "JWT", "alg": self.algorithm, **({"kid": self.kid} if self.kid else {})}
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
    """The access of a user whom a company's identity provider knows. `Authorizer` has further options."""

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
        form |= {"scope": " ".join(grant.scopes)} if grant.scopes else {}
        own = PeerRequests(peers.http, url)
        own.address = "127.0.0.1"  # the program itself named this URL, so it may lead into every network
        response = await request_token(own, url, url, client.authenticate, form)
        if response.issued_token_type != _ID_JAG:  # [RFC 8693 2.2.1] REQUIRED
            raise TokenRefused(url, 200, advice="it issued another type of token than an ID-JAG")
        return {"grant_type": JWT_BEARER, "assertion": response.access_token}
