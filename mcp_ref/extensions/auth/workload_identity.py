"""Workload identity: the platform on which a program runs vouches for it, so the program has no secret.

    the platform (a cluster, a cloud)  ->  an assertion: a signed token for the issuer, which names the program
    POST /token  grant_type=urn:ietf:params:oauth:grant-type:jwt-bearer&assertion=eyJ...&client_id=reports  ->  a token

A refusal is final for the request that needs the token. The same assertion would be refused again, and another kind of
token request would hide a wrong configuration.

Spec:  the extension io.modelcontextprotocol/auth/wif (SEP-1933, draft); RFC 7523, section 2.1
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass
from typing import Final

from ...basic.authorization.authorization_server_discovery import PeerRequests
from ...basic.authorization.token_endpoint import Form, Grant
from .headless import Headless

JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
"""The `grant_type` of a token request with an assertion. [RFC 7523 2.1]"""


@dataclass(repr=False, eq=False)
class WorkloadIdentity(Headless):
    """The identity of a program: `WorkloadIdentity("reports", assertion=read_token, issuer="https://auth.example")`."""

    _: KW_ONLY
    assertion: Callable[[], Awaitable[str]]
    """An async function that returns the platform's assertion. It is called for each token request."""

    extension = "io.modelcontextprotocol/auth/wif"

    async def form(self, peers: PeerRequests, grant: Grant) -> Form:
        return {"grant_type": JWT_BEARER, "assertion": await self.assertion()}
