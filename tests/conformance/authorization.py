"""The authorization scenarios of the official suite: which there are, and the user's part in them."""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable
from urllib.request import urlopen

from mcp_ref import (
    AuthorizationCode,
    ClientCredentials,
    DpopKey,
    EnterpriseManaged,
    HttpClient,
    WorkloadIdentity,
    es256_signer,
)
from mcp_ref.basic.authorization.client import Authorizer

CLIENT_METADATA_URL = "https://conformance-test.local/client-metadata.json"
"""The client id that the suite expects of a client with a metadata document. It is never fetched."""

FALLBACK = ("auth/2025-03-26-oauth-metadata-backcompat", "auth/2025-03-26-oauth-endpoint-fallback")
TOKEN_ENDPOINT = tuple(f"auth/token-endpoint-auth-{method}" for method in ("basic", "post", "none"))
LEGACY = (
    "auth/metadata-default", "auth/metadata-var1", "auth/metadata-var2", "auth/metadata-var3", "auth/basic-cimd",
    "auth/scope-from-www-authenticate", "auth/scope-from-scopes-supported", "auth/scope-omitted-when-undefined",
    "auth/scope-step-up", "auth/scope-retry-limit", *TOKEN_ENDPOINT, "auth/pre-registration",
)  # fmt: skip
MODERN = (
    *LEGACY, "auth/resource-mismatch", "auth/offline-access-scope", "auth/offline-access-not-supported",
    "auth/authorization-server-migration", "auth/iss-supported", "auth/iss-not-advertised",
    "auth/iss-supported-missing", "auth/iss-wrong-issuer", "auth/iss-unexpected", "auth/iss-normalized",
    "auth/metadata-issuer-mismatch",
)  # fmt: skip
SCENARIOS_OF = {"2026-07-28": MODERN, "2025-11-25": LEGACY, "2025-06-18": TOKEN_ENDPOINT, "2025-03-26": FALLBACK}
"""The scenarios, by the revision whose wire they use."""
EXTENSIONS = (
    "auth/client-credentials-jwt", "auth/client-credentials-basic", "auth/enterprise-managed-authorization",
    "auth/dpop", "auth/dpop-nonce", "auth/wif-jwt-bearer",
)  # fmt: skip
"""The scenarios of extensions. They use the wire of 2025-11-25."""
SCENARIOS = (*MODERN, *FALLBACK, *EXTENSIONS)


async def browse(url: str) -> None:
    """Play the browser: follow the redirects from the authorization server to this program."""
    async with HttpClient() as http:
        async with http.request("GET", url, redirects=0) as response:
            location = response.headers.get("location")
        assert location is not None, response.status
        async with http.request("GET", location) as response:
            await response.read(100_000)


def authorization(url: str) -> Authorizer:
    """Return the client's side of a scenario for the server at a URL."""
    scenario, context = os.environ["MCP_CONFORMANCE_SCENARIO"], os.environ.get("MCP_CONFORMANCE_CONTEXT")
    given = json.loads(context or "{}")
    if scenario == "auth/client-credentials-jwt":
        return ClientCredentials(
            given["client_id"], signer=es256_signer(given["private_key_pem"]), algorithm=given["signing_algorithm"]
        )
    if scenario == "auth/client-credentials-basic":
        return ClientCredentials(given["client_id"], secret=given["client_secret"])
    if scenario == "auth/wif-jwt-bearer":
        return WorkloadIdentity(given["client_id"], assertion=_returning(given["valid_jwt"]))
    if scenario == "auth/enterprise-managed-authorization":
        return EnterpriseManaged(
            given["client_id"], given["client_secret"], idp_token_endpoint=given["idp_token_endpoint"],
            idp_client_id=given["idp_client_id"], id_token=_returning(given["idp_id_token"]))  # fmt: skip
    if "client_secret" in given:
        return AuthorizationCode(
            client_id=given["client_id"], client_secret=given["client_secret"], issuer=_issuer(url),
            open_browser=browse)  # fmt: skip
    dpop = DpopKey() if scenario in ("auth/dpop", "auth/dpop-nonce") else None
    return AuthorizationCode(client_metadata_url=CLIENT_METADATA_URL, open_browser=browse, dpop=dpop)


def _returning(token: str) -> Callable[[], Awaitable[str]]:
    async def function() -> str:
        return token

    return function


def _issuer(url: str) -> str:
    """Return the issuer at which the client was registered. A user knows it; the suite leaves it to the client."""
    origin, _, path = url.partition("//")[2].partition("/")
    with urlopen(f"http://{origin}/.well-known/oauth-protected-resource/{path}", timeout=5) as response:
        return str(json.load(response)["authorization_servers"][0])
