"""The exceptions of authorization: their texts name the fault, and repeat nothing dangerous of a peer."""

from __future__ import annotations

import pytest

from mcp_ref import McpError
from mcp_ref.basic.authorization.errors import (
    MAX_PEER_TEXT,
    AuthorizationError,
    DiscoveryFailed,
    InsufficientScope,
    RegistrationFailed,
    SignInNeeded,
    SignInRefused,
    TokenRefused,
    peer_text,
    peer_url,
)

HOSTILE = '\x1b[2J\r\nERROR "all is lost" <script>\u202e' + "x" * 10_000
SECRET_URL = "https://user:secret@auth.example/token?code=secret#secret"


def test_peer_text_is_printable_ascii_without_quotes_and_cut() -> None:
    text = peer_text(HOSTILE)
    assert len(text) == MAX_PEER_TEXT
    assert text.isascii() and text.isprintable() and '"' not in text
    assert text.startswith("?[2J??ERROR ?all is lost? <script>?x")


def test_peer_url_has_no_query_fragment_or_credentials() -> None:
    assert peer_url(SECRET_URL) == "https://auth.example/token"
    assert peer_url("https://auth.example/a@b") == "https://auth.example/a@b"
    assert peer_url("https://user:p@ss@auth.example/a") == "https://auth.example/a"


@pytest.mark.parametrize(
    "error",
    [
        SignInNeeded(SECRET_URL),
        SignInRefused("access was denied", HOSTILE, HOSTILE),
        InsufficientScope(SECRET_URL, [HOSTILE]),
        DiscoveryFailed("metadata", [(SECRET_URL, "status 404"), (HOSTILE, "status 500")]),
        RegistrationFailed(SECRET_URL, "status 400", HOSTILE, HOSTILE),
        TokenRefused(SECRET_URL, 400, HOSTILE, HOSTILE),
    ],
    ids=lambda error: type(error).__name__,
)
def test_authorization_errors_are_short_plain_text_without_secrets(error: AuthorizationError) -> None:
    text = str(error) + repr(error)
    assert isinstance(error, McpError)
    assert "secret" not in text and "\\u" not in text
    assert str(error).isascii() and str(error).isprintable() and len(str(error)) < 1000


def test_authorization_errors_mark_the_words_of_the_server() -> None:
    assert str(TokenRefused("https://auth.example", 400, "invalid_grant", "expired")) == (
        "a token request to https://auth.example failed: status 400 (the authorization server's words: "
        '"invalid_grant", "expired"); check the registration and permissions of this client there'
    )
    assert str(TokenRefused("https://auth.example", 503)) == (
        "a token request to https://auth.example failed: status 503; try again later"
    )


def test_discovery_failed_lists_every_url_with_its_fault() -> None:
    error = DiscoveryFailed("metadata", [("https://a.example/x?k=v", "status 404"), ("https://b.example", "not JSON")])
    assert error.attempts == (("https://a.example/x", "status 404"), ("https://b.example", "not JSON"))
    assert "https://a.example/x: status 404; https://b.example: not JSON" in str(error)
