"""Client credentials: a program has an account of its own at the authorization server.

    POST /token
    grant_type=client_credentials&resource=https%3A%2F%2Fmcp.example%2Fnotes&scope=notes%3Aread
        &client_assertion_type=urn:ietf:params:oauth:client-assertion-type:jwt-bearer&client_assertion=eyJ...

The program authenticates itself with a secret, or better with an assertion: a token that it has signed. The private key
never leaves the program. An assertion is for one issuer, one minute and one use, so a thief of it gains little.

`es256_signer` uses the code of this package. An attacker on the same machine could measure its time. A program with the
package `cryptography` or with a key server passes a function of its own as `signer`.

Spec:  the extension io.modelcontextprotocol/oauth-client-credentials (SEP-1046); RFC 6749, section 4.4;
       RFC 7523, sections 2.2 and 3
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Final, TypeAlias

from ...basic.authorization.authorization_server_discovery import PeerRequests
from ...basic.authorization.token_endpoint import ClientAuthentication, Form, Grant
from ...lib.jose.keys import JSON, parse_private_key
from ...lib.jose.tokens import sign_jwt
from .headless import Headless

ASSERTION_SECONDS: Final = 60
"""Lifetime of an assertion, in seconds."""
Signer: TypeAlias = Callable[[bytes], bytes]
"""A function that returns the signature of a message."""


def es256_signer(pem: str) -> Signer:
    """Return a function that makes ES256 signatures.

    Args:
        pem: A P-256 private key in PEM (PKCS#8 or SEC1).

    Raises:
        ValueError: The text is not such a key.
    """
    return parse_private_key(pem).sign


@dataclass(repr=False, eq=False)
class ClientCredentials(Headless):
    """The account of a program: `ClientCredentials("reports", secret=..., issuer="https://auth.example")`.

    It has either a secret or a signer. `Headless` has further options.
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
        if (self.secret is None) == (self.signer is None):
            raise ValueError("give either `secret` or `signer`")
        super().__post_init__()

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
