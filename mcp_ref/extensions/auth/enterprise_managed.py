"""Enterprise-managed authorization: the identity provider of a company decides which MCP servers its people may use.

1   the user signs in at the identity provider; the program gets an ID token (outside this package)
2   POST https://login.company.example/token
    grant_type=urn:ietf:params:oauth:grant-type:token-exchange&subject_token=eyJ...&audience=https%3A%2F%2Fauth.example
        &requested_token_type=urn:ietf:params:oauth:token-type:id-jag&resource=https%3A%2F%2Fmcp.example%2Fnotes
    200  {"issued_token_type": "urn:ietf:params:oauth:token-type:id-jag", "access_token": "eyJ...", "token_type": "N_A"}
3   POST https://auth.example/token  grant_type=urn:ietf:params:oauth:grant-type:jwt-bearer&assertion=eyJ...

Step 2 gives an assertion (ID-JAG): this user may use this server, says the provider to one authorization server. No
browser opens in step 3. The provider is asked for each token, so a user who has left the company loses access.

Spec:  the extension io.modelcontextprotocol/enterprise-managed-authorization (SEP-990);
       RFC 8693, section 2; RFC 7523, section 2.1
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass
from typing import Final

from ...basic.authorization.addresses import check_fetchable
from ...basic.authorization.authorization_server_discovery import PeerRequests
from ...basic.authorization.client_registration import OAuthClient
from ...basic.authorization.errors import TokenRefused
from ...basic.authorization.token_endpoint import Form, Grant, TokenEndpoint, request_token
from .headless import Headless
from .workload_identity import JWT_BEARER

_ID_TOKEN: Final = "urn:ietf:params:oauth:token-type:id_token"
_ID_JAG: Final = "urn:ietf:params:oauth:token-type:id-jag"


@dataclass(repr=False, eq=False)
class EnterpriseManaged(Headless):
    """The access of a user whom a company's identity provider knows. `Headless` has further options."""

    _: KW_ONLY
    idp_token_endpoint: str
    """The token endpoint of the identity provider."""
    idp_client_id: str
    """The name of the program at the identity provider."""
    id_token: Callable[[], Awaitable[str]]
    """An async function that returns the user's ID token. It is called for each token request."""
    idp_secret: str | None = None
    """The program's secret at the identity provider, if it has one."""

    extension = "io.modelcontextprotocol/enterprise-managed-authorization"

    def __post_init__(self) -> None:
        check_fetchable(self.idp_token_endpoint, self.idp_token_endpoint)
        super().__post_init__()

    async def form(self, peers: PeerRequests, grant: Grant) -> Form:
        url, method = self.idp_token_endpoint, "none" if self.idp_secret is None else "client_secret_basic"
        client = OAuthClient(self.idp_client_id, self.idp_secret or "", method)
        form = {"grant_type": "urn:ietf:params:oauth:grant-type:token-exchange", "requested_token_type": _ID_JAG,
                "subject_token": await self.id_token(), "subject_token_type": _ID_TOKEN, "audience": grant.issuer,
                "resource": grant.resource}  # fmt: skip
        form |= {"scope": " ".join(grant.scopes)} if grant.scopes else {}
        own = PeerRequests(peers.http, url)
        own.address = "127.0.0.1"  # the program itself named this URL, so it may lead into every network
        response = await request_token(own, TokenEndpoint(url, url, client.authenticate), form)
        if response.issued_token_type != _ID_JAG:  # [RFC 8693 2.2.1] REQUIRED
            raise TokenRefused(url, 200, advice="it issued another type of token than an ID-JAG")
        return {"grant_type": JWT_BEARER, "assertion": response.access_token}
