"""The registration of a client: its document, the response, and the authentication that follows from both."""

from __future__ import annotations

import json
import time

import pytest

from mcp_ref import AuthorizationCode, AuthorizationError, DiscoveryFailed, HttpClient, MemoryStore, RegistrationFailed
from mcp_ref.basic.authorization.authorization_server_discovery import PeerRequests
from mcp_ref.basic.authorization.client_registration import Clients, OAuthClient, choose_auth_method, register
from mcp_ref.basic.authorization.metadata import ServerMetadata, default_server_metadata
from mcp_ref.jsonrpc.messages import JSON, Object
from tests.protected_servers import Step, authorization_server, status

URI = "http://127.0.0.1:4711/callback"


async def _register(registration: Object, methods: tuple[str, ...] = ()) -> tuple[OAuthClient, Object]:
    """Register at a server that offers these methods. Return the client, and the document that it sent."""
    async with authorization_server() as auth, HttpClient() as http:
        auth.registration = registration
        peers = PeerRequests(http, f"{auth.base}/mcp")
        peers.address = "127.0.0.1"
        metadata = ServerMetadata(
            auth.base, registration_endpoint=f"{auth.base}/register", token_endpoint_auth_methods_supported=methods
        )
        client = await register(peers, metadata, "a client", URI, ["read", "write"])
        return client, json.loads(auth.seen[0].body)


@pytest.mark.spec(
    "2026-07-28/basic/authorization/client-registration#application-type-and-redirect-uri-constraints-1,2",
    "2026-07-28/basic/authorization/index#refresh-tokens-2",
)
async def test_registration_sends_the_metadata_of_a_native_client_that_wants_refresh_tokens() -> None:
    client, sent = await _register({})
    assert sent == {
        "client_name": "a client", "redirect_uris": [URI], "scope": "read write", "response_types": ["code"],
        "grant_types": ["authorization_code", "refresh_token"], "token_endpoint_auth_method": "none",
        "application_type": "native",
    }  # fmt: skip
    assert (client.client_id, client.token_endpoint_auth_method, client.redirect_uris) == ("client-1", "none", (URI,))


@pytest.mark.parametrize(
    ("methods", "wanted"),
    [
        (("client_secret_post", "none"), "none"),
        (("client_secret_post", "client_secret_basic"), "client_secret_post"),
        (("private_key_jwt", "client_secret_basic", "client_secret_post"), "client_secret_basic"),
        (("private_key_jwt",), "none"),
        ((), "none"),
        (("client_secret_post",), "client_secret_post"),
    ],
)
async def test_registration_asks_for_an_offered_authentication(methods: tuple[str, ...], wanted: str) -> None:
    secret: Object = {} if wanted == "none" else {"client_secret": "marker"}
    client, sent = await _register(secret, methods)
    assert sent["token_endpoint_auth_method"] == client.token_endpoint_auth_method == wanted
    assert "marker" not in repr(client)


async def test_response_decides_the_authentication_and_the_end_of_the_secret() -> None:
    changed: Object = {"token_endpoint_auth_method": "client_secret_post", "client_secret": "s",
                       "client_secret_expires_at": 1}  # fmt: skip
    client, _ = await _register(changed)
    assert client.token_endpoint_auth_method == "client_secret_post" and not client.is_usable()
    client, _ = await _register({**changed, "client_secret_expires_at": 0})
    assert client.is_usable()


@pytest.mark.parametrize(
    ("registration", "fault"),
    [
        ({"redirect_uris": ["http://127.0.0.1:1/other"]}, "other redirect URIs"),
        ({"client_id": ""}, "client_id"),
        ({"token_endpoint_auth_method": "private_key_jwt"}, "private_key_jwt"),
        ({"token_endpoint_auth_method": "client_secret_basic"}, "client_secret_basic"),
    ],
)
async def test_unusable_response_is_an_error(registration: Object, fault: str) -> None:
    with pytest.raises(RegistrationFailed, match=fault):
        await _register(registration)


@pytest.mark.parametrize("step", [status(500, b"marker"), status(307, b"", ("Location", "/x")), status(200, b"[]")])
async def test_failed_registration_shows_no_body(step: Step) -> None:
    async with authorization_server() as auth, HttpClient() as http:
        auth.always("/register", step)
        peers = PeerRequests(http, f"{auth.base}/mcp")
        peers.address = "127.0.0.1"
        with pytest.raises(RegistrationFailed) as caught:
            await register(
                peers, ServerMetadata(auth.base, registration_endpoint=f"{auth.base}/register"), "x", URI, []
            )
        assert "marker" not in str(caught.value)
        with pytest.raises(RegistrationFailed, match="by hand"):
            await register(peers, ServerMetadata(auth.base), "x", URI, [])


@pytest.mark.parametrize("code", [401, 404])
async def test_server_with_neither_metadata_nor_registration_perhaps_wants_an_api_key(code: int) -> None:
    async with authorization_server() as auth, HttpClient() as http:
        auth.always("/register", status(code))
        peers = PeerRequests(http, f"{auth.base}/mcp")
        peers.address = "127.0.0.1"
        with pytest.raises(DiscoveryFailed, match=f"/register: status {code}.*perhaps it wants an API key"):
            await register(peers, default_server_metadata(auth.base), "x", URI, [])


@pytest.mark.parametrize(
    ("offered", "has_secret", "registered", "chosen"),
    [
        ((), False, "", "none"),
        ((), True, "", "client_secret_basic"),
        (("client_secret_post", "client_secret_basic"), True, "", "client_secret_basic"),
        (("client_secret_post",), True, "", "client_secret_post"),
        (("none",), True, "", "none"),
        (("client_secret_basic",), True, "client_secret_post", "client_secret_post"),
        (("client_secret_basic",), True, "none", "none"),
    ],
)
def test_auth_method_follows_the_response_else_the_metadata(
    offered: tuple[str, ...], has_secret: bool, registered: str, chosen: str
) -> None:
    metadata = ServerMetadata("https://auth.example", token_endpoint_auth_methods_supported=offered)
    assert choose_auth_method(metadata, has_secret, registered) == chosen


@pytest.mark.spec(
    "2026-07-28/basic/authorization/client-registration#implementation-requirements-1,2,3",
    "2025-11-25/basic/authorization#implementation-requirements-1,2,3",
)
@pytest.mark.parametrize(
    "url",
    ["http://client.example/x", "https://client.example", "https://client.example/", "https://client.example/x#y",
     "https://u@client.example/x", "https://client.example/a/../b", "https://client.example/./b", "https:///x"],
)  # fmt: skip
def test_client_metadata_url_must_be_https_with_a_path(url: str) -> None:
    with pytest.raises(ValueError, match="client metadata URL"):
        AuthorizationCode(client_metadata_url=url)
    AuthorizationCode(client_metadata_url="https://client.example/client.json")


@pytest.mark.parametrize(
    "arguments", [{"client_id": "c"}, {"client_secret": "s"}, {"redirect_uri": "https://client.example/"}]
)
def test_configuration_that_could_leak_or_fail_is_refused(arguments: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"issuer|client_id|redirect URI"):
        AuthorizationCode(**arguments)  # type: ignore[arg-type]


def test_scopes_as_a_string_are_refused() -> None:
    with pytest.raises(TypeError, match=r"must be Sequence\[str\], not 'a b'; write \['a b'\]"):
        AuthorizationCode(scopes="a b")


def test_stored_client_is_read_again() -> None:
    client = OAuthClient("c1", "marker", "client_secret_basic", (URI,), int(time.time()) + 100)
    assert OAuthClient.read(json.loads(json.dumps(client.to_json()))) == client


@pytest.mark.parametrize("change", [{"client_id": None}, {"client_id": ""}, {"redirect_uris": None}])
async def test_stored_client_that_is_incomplete_is_ignored(change: dict[str, JSON]) -> None:
    clients = Clients(MemoryStore(), None, "", None, "a client", URI)
    stored = OAuthClient("c1", redirect_uris=(URI,))
    await clients.store.put("client|https://auth.example", stored.to_json())
    assert await clients.find("https://auth.example", "c1", "none") == stored
    await clients.store.put("client|https://auth.example", {**stored.to_json(), **change})
    assert await clients.find("https://auth.example", "c1", "none") is None
    assert await clients.find("https://other.example", "c1", "none") is None


async def test_token_is_refreshed_only_by_the_client_id_that_got_it() -> None:
    store, issuer, url = MemoryStore(), "https://auth.example", "https://c.example/c"
    configured = Clients(store, "c1", "s", None, "a client", URI)
    published = Clients(store, None, "", url, "a client", URI)
    assert await configured.find(issuer, "c1", "client_secret_post") == OAuthClient("c1", "s", "client_secret_post")
    assert await published.find(issuer, url, "") == OAuthClient(url)
    assert [await each.find(issuer, "other", "") for each in (configured, published)] == [None, None]


def test_auth_method_of_a_secret_that_the_server_does_not_accept_is_an_error_that_lists_its_methods() -> None:
    offered = ("private_key_jwt", "tls_client_auth")
    metadata = ServerMetadata("https://auth.example", token_endpoint_auth_methods_supported=offered)
    with pytest.raises(AuthorizationError, match='accepts no client secret, only "private_key_jwt or tls'):
        choose_auth_method(metadata, has_secret=True)
