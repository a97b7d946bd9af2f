"""The documents of authorization: tolerant of members that are not used, exact about identifiers, bounded."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest

from mcp_ref.basic.authorization.addresses import MAX_URL
from mcp_ref.basic.authorization.client_registration import OAuthClient
from mcp_ref.basic.authorization.metadata import (
    MAX_DOCUMENT,
    MAX_ISSUERS,
    MAX_LIFETIME,
    MAX_TOKEN,
    ResourceMetadata,
    ServerMetadata,
    TokenResponse,
    default_server_metadata,
    parse_oauth_error,
    parse_resource_metadata,
    parse_server_metadata,
)
from mcp_ref.jsonrpc.messages import JSON, Object

ISSUER = "https://auth.example/tenant1"
URL = "https://mcp.example/notes"
RESOURCE: Object = {"resource": URL, "authorization_servers": [ISSUER]}
SERVER: Object = {
    "issuer": ISSUER,
    "authorization_endpoint": f"{ISSUER}/authorize?kept=1",
    "token_endpoint": f"{ISSUER}/token",
    "code_challenge_methods_supported": ["S256"],
}
TOKENS: Object = {"access_token": "marker-access", "token_type": "Bearer"}
CLIENT: Object = {"client_id": "c1"}
UNUSED: Object = {
    "logo_uri": "", "policy_uri": 5, "contacts": None, "jwks": [], "service_documentation": {"a": []},
    "\u00e9": "\u20ac",
}  # fmt: skip


def _bytes(*parts: Object) -> bytes:
    return json.dumps({name: value for part in parts for name, value in part.items()}).encode()


def _server(**members: JSON) -> ServerMetadata:
    return parse_server_metadata(_bytes(SERVER, members), ISSUER, URL)


def test_resource_metadata_keep_identifiers_byte_for_byte() -> None:
    odd: Object = {
        "resource": "HTTPS://Mcp.Example:443/notes/",
        "authorization_servers": ["https://Auth.example/%7Ea/"],
    }
    found = parse_resource_metadata(_bytes(odd, UNUSED))
    assert found == ResourceMetadata("HTTPS://Mcp.Example:443/notes/", ("https://Auth.example/%7Ea/",))


@pytest.mark.parametrize(
    ("scopes", "expected"),
    [(None, ()), ([], ()), (["a", "b", "a"], ("a", "b")), (["a", 5, None, "", 'b"', "c" * 201], ("a",))],
)
def test_resource_metadata_scopes_skip_unusable_items(scopes: JSON, expected: tuple[str, ...]) -> None:
    assert parse_resource_metadata(_bytes(RESOURCE, {"scopes_supported": scopes})).scopes_supported == expected


@pytest.mark.spec(
    "2026-07-28/basic/authorization/authorization-server-discovery#authorization-server-location-2",
    "2025-06-18..2025-11-25/basic/authorization#authorization-server-location-2",
)
@pytest.mark.parametrize(
    "members",
    [
        {"resource": None}, {"resource": ""}, {"resource": [URL]}, {"resource": URL + "/\u00e9"},
        {"resource": URL + "/a b"}, {"authorization_servers": None}, {"authorization_servers": []},
        {"authorization_servers": [5, ""]}, {"authorization_servers": ISSUER},
        {"authorization_servers": [ISSUER] * (MAX_ISSUERS + 1)}, {"scopes_supported": "a b"}, {"scopes_supported": 5},
        {"scopes_supported": [str(number) for number in range(101)]},
    ],
    ids=lambda members: str(members)[:60],
)  # fmt: skip
def test_resource_metadata_with_an_unusable_member_name_it(members: Object) -> None:
    with pytest.raises(ValueError, match=f"'{next(iter(members))}'"):
        parse_resource_metadata(_bytes(RESOURCE, members))


def test_resource_metadata_of_a_server_can_be_read_again() -> None:
    published = ResourceMetadata(URL, (ISSUER,), ("notes:read",))
    assert published.to_json() == {
        "resource": URL,
        "authorization_servers": [ISSUER],
        "scopes_supported": ["notes:read"],
        "bearer_methods_supported": ["header"],
    }
    assert parse_resource_metadata(_bytes(published.to_json())) == published
    assert "scopes_supported" not in ResourceMetadata(URL, (ISSUER,)).to_json()


@pytest.mark.spec(
    "2026-07-28/basic/authorization/authorization-server-discovery#authorization-server-metadata-discovery-4,5,6,7"
)
@pytest.mark.parametrize(
    "issuer",
    [
        "https://honest.example", ISSUER + "/", ISSUER.upper(), "https://auth.example:443/tenant1", None, [ISSUER],
        "https://auth.example/ten%61nt1", ISSUER + "#", ISSUER + "\n", "http://auth.example/tenant1", "",
    ],
)  # fmt: skip
@pytest.mark.attack("A3")
def test_server_metadata_of_another_issuer_are_refused(issuer: JSON) -> None:
    with pytest.raises(ValueError, match="'issuer' must be"):
        _server(issuer=issuer)
    assert _server().issuer == ISSUER


def test_server_metadata_have_the_used_members_and_ignore_the_rest() -> None:
    found = parse_server_metadata(
        _bytes(SERVER, UNUSED, {
            "registration_endpoint": "",
            "revocation_endpoint": f"{ISSUER}/revoke",
            "jwks_uri": "https://keys.example/jwks",
            "scopes_supported": ["a", None, "offline_access"],
            "token_endpoint_auth_methods_supported": ["none", 5],
            "client_id_metadata_document_supported": True,
            "authorization_response_iss_parameter_supported": None,
        }), ISSUER, URL)  # fmt: skip
    assert found == ServerMetadata(
        ISSUER,
        authorization_endpoint=f"{ISSUER}/authorize?kept=1",
        token_endpoint=f"{ISSUER}/token",
        revocation_endpoint=f"{ISSUER}/revoke",
        jwks_uri="https://keys.example/jwks",
        scopes_supported=("a", "offline_access"),
        token_endpoint_auth_methods_supported=("none",),
        code_challenge_methods_supported=("S256",),
        client_id_metadata_document_supported=True,
    )
    assert parse_server_metadata(_bytes({"issuer": ISSUER}), ISSUER, URL) == ServerMetadata(ISSUER)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("authorization_endpoint", "javascript:alert(1)"), ("authorization_endpoint", "http://auth.example/authorize"),
        ("authorization_endpoint", "https://auth.example/#x"), ("token_endpoint", 5),
        ("token_endpoint", "http://127.0.0.1/token"), ("registration_endpoint", "https://u:p@auth.example/"),
        ("revocation_endpoint", "https://auth.example/" + "x" * 2048), ("introspection_endpoint", {"url": "x"}),
        ("jwks_uri", "file:///etc/passwd"), ("scopes_supported", "a b"), ("code_challenge_methods_supported", "S256"),
        ("token_endpoint_auth_methods_supported", {"none": 1}), ("client_id_metadata_document_supported", "true"),
        ("authorization_response_iss_parameter_supported", 1),
    ],
)  # fmt: skip
def test_server_metadata_with_an_unusable_member_name_it(name: str, value: JSON) -> None:
    with pytest.raises(ValueError, match=f"'{name}'") as caught:
        _server(**{name: value})
    assert len(str(caught.value)) < 500


@pytest.mark.spec("2026-07-28/basic/authorization/security-considerations#communication-security-2")
def test_server_metadata_may_use_http_between_programs_of_one_machine() -> None:
    local: Object = {"issuer": "http://127.0.0.1:9000", "token_endpoint": "http://127.0.0.1:9000/token"}
    assert parse_server_metadata(_bytes(local), "http://127.0.0.1:9000", "http://127.0.0.1:8000/mcp").token_endpoint
    with pytest.raises(ValueError, match="https"):
        parse_server_metadata(_bytes(local), "http://127.0.0.1:9000", URL)
    with pytest.raises(ValueError, match="https"):  # the issuer itself
        parse_server_metadata(_bytes({"issuer": "http://auth.example"}), "http://auth.example", URL)


@pytest.mark.spec(
    "2025-03-26/basic/authorization#fallbacks-for-servers-without-metadata-discovery-1",
    "2025-03-26/basic/authorization#server-metadata-discovery-3",
)
def test_default_server_metadata_have_the_three_default_paths() -> None:
    base = "https://api.example.com"
    assert default_server_metadata(base) == ServerMetadata(
        base,
        authorization_endpoint=f"{base}/authorize",
        token_endpoint=f"{base}/token",
        registration_endpoint=f"{base}/register",
    )


def test_registration_has_the_used_members() -> None:
    answer: Object = {"client_secret": "marker-secret", "client_secret_expires_at": 0, "scope": "a b"}
    answer["redirect_uris"] = ["a"]
    found = OAuthClient.parse(_bytes(CLIENT, UNUSED, answer))
    assert found == OAuthClient("c1", "marker-secret", "", ("a",), 0, "a b")
    assert OAuthClient.parse(_bytes(CLIENT)) == OAuthClient("c1")
    long = "a" * (MAX_URL + 1)
    assert OAuthClient.parse(_bytes(CLIENT, {"scope": long})).scope == long
    faults: list[Object] = [{"client_id": wrong} for wrong in (None, 5, long)]
    faults += [{"client_secret": ["x"]}, {"redirect_uris": "x"}]
    for wrong in faults:
        with pytest.raises(ValueError, match=f"'{next(iter(wrong))}'"):
            OAuthClient.parse(_bytes(CLIENT, wrong))


def test_token_response_has_the_used_members() -> None:
    found = TokenResponse.parse(_bytes(TOKENS, UNUSED, {"expires_in": 3600, "refresh_token": "marker-refresh"}))
    assert (found.access_token, found.token_type) == ("marker-access", "Bearer")
    assert (found.expires_in, found.refresh_token) == (3600, "marker-refresh")
    assert TokenResponse.parse(_bytes(TOKENS, {"scope": ["a"], "refresh_token": None})).refresh_token == ""
    exchanged = TokenResponse.parse(_bytes(TOKENS, {"issued_token_type": "urn:x", "token_type": "N_A"}))
    assert exchanged.issued_token_type == "urn:x"
    assert TokenResponse.parse(_bytes(TOKENS, {"access_token": "x" * MAX_TOKEN})).access_token == "x" * MAX_TOKEN


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (3600, 3600), ("3600", 3600), (3600.9, 3600), ("60.5", 60), (-5, 0), ("-5", 0), (0, 0), (None, None),
        ("", None), (10**300, MAX_LIFETIME), ("9" * 20, MAX_LIFETIME), (1e308, MAX_LIFETIME),
    ],
)  # fmt: skip
def test_token_response_lifetime_may_be_a_text_and_is_clamped(given: JSON, expected: int | None) -> None:
    assert TokenResponse.parse(_bytes(TOKENS, {"expires_in": given})).expires_in == expected


def test_token_response_lifetime_beyond_floats_is_clamped() -> None:
    body = _bytes(TOKENS)[:-1] + b', "expires_in": 1e999}'
    assert TokenResponse.parse(body).expires_in == MAX_LIFETIME


UNUSABLE: dict[str, list[JSON]] = {
    "expires_in": [True, "soon", "1e5", "nan", [], "9" * 5000],
    "access_token": [None, "", 5, "marker a", "marker\r\nX: y", "marker\u00e9", "x" * 16385],
    "token_type": [None, 5],
    "refresh_token": [5, "x" * 16385],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in UNUSABLE.items() for value in values])
def test_token_response_with_an_unusable_member_names_it_and_quotes_nothing(name: str, value: JSON) -> None:
    with pytest.raises(ValueError, match=f"'{name}'") as caught:
        TokenResponse.parse(_bytes(TOKENS, {name: value}))
    assert "marker" not in str(caught.value) and caught.value.__cause__ is None


def test_reprs_have_no_secrets() -> None:
    tokens = TokenResponse("marker-access", "Bearer", 60, "marker-refresh")
    client = OAuthClient("c1", "marker-secret")
    assert "marker" not in f"{tokens!r} {tokens} {client!r} {client}"
    assert "Bearer" in repr(tokens) and "c1" in repr(client)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"error": "invalid_grant", "error_description": "expired"}', ("invalid_grant", "expired")),
        (b'{"error": "x\\u001b[2J", "error_description": "\\u00e9\\u202e\\n"}', ("x?[2J", "???")),
        (b'{"error": 5, "error_description": ["x"]}', ("", "")),
        (b"<html>not found</html>", ("", "")),
        (b"[]", ("", "")),
        (b"", ("", "")),
        (b"\xff", ("", "")),
        (b'{"error": "' + b"x" * MAX_DOCUMENT + b'"}', ("", "")),
        (b'{"error": "' + b"x" * 1000 + b'"}', ("x" * 200, "")),
    ],
)
def test_parse_oauth_error_never_fails_and_gives_plain_text(body: bytes, expected: tuple[str, str]) -> None:
    assert parse_oauth_error(body) == expected


def _parse_server(body: bytes) -> ServerMetadata:
    return parse_server_metadata(body, ISSUER, URL)


@pytest.mark.parametrize("parse", [parse_resource_metadata, _parse_server, OAuthClient.parse, TokenResponse.parse])
@pytest.mark.parametrize(
    "body",
    [
        b"", b"<html>", b"null", b"[]", b'"x"', b"\xff\xfe{}", b'{"resource": NaN}', b'{"issuer": "\\ud800"}',
        b'{"issuer": "a", "issuer": "b"}', b"[" * 10_000 + b"]" * 10_000, b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
        b'{"expires_in": ' + b"9" * 50_000 + b"}", b'{"a": "' + b"x" * 10_000_000 + b'"}',
        b'{"scopes_supported": [' + b'"a",' * 10**6 + b'"a"]}', b"{}",
    ],
    ids=lambda body: repr(body[:20]) if isinstance(body, bytes) else "",
)  # fmt: skip
@pytest.mark.attack("A13")
def test_hostile_documents_are_an_error_within_the_limits(parse: Callable[[bytes], object], body: bytes) -> None:
    begin = time.process_time()
    with pytest.raises(ValueError) as caught:
        parse(body)
    assert len(str(caught.value)) < 400 and caught.value.__context__ is None
    assert time.process_time() - begin < 0.5
