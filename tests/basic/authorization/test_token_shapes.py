"""The access tokens and metadata of common authorization servers, written by hand in their shapes."""

from __future__ import annotations

import json
import time

import pytest

from mcp_ref import JwtVerifier
from mcp_ref.jsonrpc.messages import Object
from mcp_ref.lib.jose.keys import JoseError
from tests.basic.authorization.key_server import RESOURCE, KeyServer, key_server, saying

NOW = int(time.time())
"""The time of issue. `KeyServer.token` adds the end, because the tests can run a long time after the import."""
USER = "f:0b7f6a52-3f0e-4a57-8f0c-6d2f0f3e5f11:alice"
TENANT = "72f988bf-0000-4000-8000-2d7cd011db47"

#: A realm of Keycloak, whose issuer has a path. The mapper "Audience" has added the resource to `aud`.
KEYCLOAK: Object = {
    "iat": NOW, "auth_time": NOW - 5, "jti": "onrtac:5d1d3c41-7d6e-4b0e-9a2d-0f7a3a8a3f3e",
    "aud": [RESOURCE, "account"], "sub": USER,
    "typ": "Bearer", "azp": "mcp-client", "sid": "0e6a4a5b", "acr": "1", "client_id": None,
    "allowed-origins": ["http://127.0.0.1"], "scope": "openid profile notes:read email", "email_verified": True,
    "realm_access": {"roles": ["offline_access", "default-roles-notes"]}, "preferred_username": "alice",
    "resource_access": {"account": {"roles": ["manage-account", "view-profile"]}},
}  # fmt: skip

#: Entra, version 2.0. It knows no `resource`, so `aud` is the id of the application that stands for the server.
ENTRA_2: Object = {
    "iat": NOW, "nbf": NOW, "aud": "6e74172b-0000-4000-8000-f0cf8f25a8f1", "aio": "AXQAi/8TAAAA", "azpacr": "0",
    "azp": "29d9ed98-0000-4000-8000-a66a6c0f5d42", "name": "Alice", "oid": "690222be-0000-4000-8000-76dc6e2e2b3f",
    "preferred_username": "alice@notes.example", "rh": "0.ARoAv4j5", "scp": "notes.read notes.write",
    "sub": "HKZpfaHyWadeOouYlitjrI-KffTm222X5rrV3xDqfKQ", "tid": TENANT, "uti": "fqiBqXLPj0eQa82S", "ver": "2.0",
    "client_id": None,
}  # fmt: skip

#: Entra, version 1.0: a program that acts for itself, with roles, and without scopes.
ENTRA_1: Object = {
    "iat": NOW, "nbf": NOW, "aud": "api://notes", "aio": "E2ZgYDjS", "appid": "0f3c4e2a-0000-4000-8000-1c9d7e1f3b55",
    "appidacr": "1", "idp": f"https://sts.windows.net/{TENANT}/", "oid": "5f1d0000-0000-4000-8000-9a3f2f0c7a10",
    "roles": ["Notes.Read.All"], "sub": "5f1d0000-0000-4000-8000-9a3f2f0c7a10", "tid": TENANT, "ver": "1.0",
    "client_id": None,
}  # fmt: skip


def publish(issuer: KeyServer, path: str, keys: str) -> None:
    """Give the issuer a path. It has only the metadata of OpenID Connect, below that path, as these servers do."""
    base = issuer.issuer
    issuer.issuer = f"{base}{path}"
    document: Object = {"issuer": issuer.issuer, "jwks_uri": f"{base}{keys}"}
    well_known = f"{path.removesuffix('/')}/.well-known/openid-configuration"
    issuer.documents["/.well-known/oauth-authorization-server"] = saying(b"{}")
    issuer.documents[well_known] = saying(json.dumps(document).encode())
    issuer.documents[keys] = saying(json.dumps(issuer.jwks()).encode())


async def test_keycloak_token_has_azp_scope_and_a_list_of_audiences() -> None:
    async with key_server() as issuer:
        publish(issuer, "/realms/notes", "/realms/notes/protocol/openid-connect/certs")
        verify = JwtVerifier().for_server(RESOURCE, [issuer.issuer])
        found = await verify(issuer.token(KEYCLOAK, header={"typ": "JWT"}))
        assert found is not None and found.issuer.endswith("/realms/notes")
        assert (found.subject, found.client_id) == (USER, "mcp-client")
        assert "notes:read" in found.scopes and [*found.audience] == [RESOURCE, "account"]
        # without that mapper, the token is made for "account" only
        with pytest.raises(JoseError):
            await verify(issuer.token({**KEYCLOAK, "aud": "account"}, header={"typ": "JWT"}))


async def test_entra_token_of_version_2_needs_its_audience_by_name() -> None:
    async with key_server() as issuer:
        publish(issuer, f"/{TENANT}/v2.0", f"/{TENANT}/discovery/v2.0/keys")
        token = issuer.token(ENTRA_2, header={"typ": "JWT"})
        verifier = JwtVerifier(audiences={str(ENTRA_2["aud"])})
        found = await verifier.for_server(RESOURCE, [issuer.issuer])(token)
        assert found is not None and found.client_id == ENTRA_2["azp"]
        assert found.subject == ENTRA_2["sub"] and found.scopes == {"notes.read", "notes.write"}
        with pytest.raises(JoseError):
            await JwtVerifier().for_server(RESOURCE, [issuer.issuer])(token)


async def test_entra_token_of_version_1_has_an_issuer_with_a_slash_and_appid() -> None:
    async with key_server() as issuer:
        publish(issuer, f"/{TENANT}/", f"/{TENANT}/discovery/keys")
        token = issuer.token(ENTRA_1, header={"typ": "JWT", "x5t": "nOo3ZDrODXEK1jKWhXslHR_KXEg"})
        found = await JwtVerifier(audiences={"api://notes"}).for_server(RESOURCE, [issuer.issuer])(token)
        assert found is not None and found.issuer.endswith("/")
        assert (found.client_id, found.scopes) == (ENTRA_1["appid"], frozenset())
        assert found.claims["roles"] == ["Notes.Read.All"]
        without_slash = issuer.issuer.removesuffix("/")
        with pytest.raises(JoseError):
            await JwtVerifier(audiences={"api://notes"}).for_server(RESOURCE, [without_slash])(token)
