"""The authorization code flow: the URL that is opened, and the responses that are trusted."""

from __future__ import annotations

import re
from dataclasses import replace
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import pytest

from mcp_ref.basic.authorization.authorization_code import (
    MAX_RESPONSE,
    SignIn,
    begin_sign_in,
    code_challenge,
    is_response,
    read_response,
)
from mcp_ref.basic.authorization.errors import SignInRefused
from mcp_ref.basic.authorization.metadata import ServerMetadata

ISSUER = "https://auth.example/tenant1"
METADATA = ServerMetadata(
    ISSUER, authorization_endpoint=f"{ISSUER}/authorize", code_challenge_methods_supported=("plain", "S256")
)
PROMISING = replace(METADATA, authorization_response_iss_parameter_supported=True)
REDIRECT = "http://127.0.0.1:4711/callback"
RESOURCE = "https://mcp.example/notes"
ISS = f"iss={quote(ISSUER, safe='')}"
HTML = "error=%3Cscript%3E&error_description=marker%1B%5B2J&error_uri=https%3A%2F%2Fevil.example"


def _begin(metadata: ServerMetadata = METADATA, *scopes: str) -> SignIn:
    return begin_sign_in(metadata, "c1", REDIRECT, RESOURCE, ["notes:read", "notes:write", *scopes])


def _query(url: str) -> dict[str, str]:
    pairs = parse_qsl(urlsplit(url).query, strict_parsing=True)
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


def test_code_challenge_is_the_example_of_rfc_7636() -> None:
    verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
    assert code_challenge(verifier) == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"


@pytest.mark.spec(
    "2026-07-28/basic/authorization/security-considerations#authorization-code-protection-1,3",
    "2025-06-18..2025-11-25/basic/authorization#authorization-code-protection-1",
    "2025-11-25/basic/authorization#authorization-code-protection-3",
    "2025-03-26/basic/authorization#implementation-requirements-2",
)
def test_begin_sign_in_builds_the_authorization_request() -> None:
    sign_in = _begin()
    assert sign_in.url.startswith(f"{ISSUER}/authorize?")
    assert _query(sign_in.url) == {
        "response_type": "code",
        "client_id": "c1",
        "redirect_uri": REDIRECT,
        "state": sign_in.state,
        "code_challenge": code_challenge(sign_in.verifier),
        "code_challenge_method": "S256",
        "resource": RESOURCE,
        "scope": "notes:read notes:write",
    }
    assert sign_in.verifier not in sign_in.url
    assert (sign_in.issuer, sign_in.promises_iss, sign_in.redirect_uri) == (ISSUER, False, REDIRECT)


def test_begin_sign_in_leaves_out_empty_parameters() -> None:
    url = begin_sign_in(METADATA, "c1", REDIRECT, "").url
    assert not {"scope", "resource", "prompt"} & _query(url).keys()
    assert _query(_begin(METADATA, "offline_access").url)["prompt"] == "consent"


def test_begin_sign_in_makes_state_and_verifier_of_32_random_bytes_each() -> None:
    attempts = [_begin() for _ in range(50)]
    secrets = {text for attempt in attempts for text in (attempt.state, attempt.verifier)}
    assert len(secrets) == 100
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{43}", text) for text in secrets)


def test_begin_sign_in_keeps_the_query_of_the_endpoint() -> None:
    endpoint = "https://auth.example/authorize?tenant=a%26b&empty=&flag"
    url = _begin(replace(METADATA, authorization_endpoint=endpoint)).url
    assert url.startswith(f"{endpoint}&response_type=code&")
    bare = _begin(replace(METADATA, authorization_endpoint="https://auth.example/authorize?")).url
    assert bare.startswith("https://auth.example/authorize?response_type=code&")


@pytest.mark.parametrize("query", ["state=x", "a=1&a=2", "client%5fid=evil", "code_challenge_method=plain&x", "scope"])
def test_begin_sign_in_with_a_duplicate_parameter_is_an_error(query: str) -> None:
    with pytest.raises(ValueError, match="must not contain"):
        _begin(replace(METADATA, authorization_endpoint=f"https://auth.example/authorize?{query}"))


@pytest.mark.spec(
    "2026-07-28/basic/authorization/index#authorization-response-validation-1,4,5",
    "2026-07-28/changelog#minor-changes-3",
)
@pytest.mark.parametrize(
    ("metadata", "iss", "accepted"),
    [
        (PROMISING, ISS, True),
        (PROMISING, "", False),
        (METADATA, ISS, True),
        (METADATA, "", True),
        *[
            (metadata, wrong, False)
            for metadata in (METADATA, PROMISING)
            for wrong in (
                "iss=https%3A%2F%2Fevil.example", f"{ISS}%2F", ISS.replace("auth.example", "AUTH.example"),
                ISS.replace("auth.example", "auth.example%3A443"), ISS.replace("https", "HTTPS"),
                ISS.replace("tenant1", "ten%2561nt1"), "iss=", f"{ISS}&{ISS}", f"{ISS}&iss=https%3A%2F%2Fevil.example",
            )
        ],
    ],
)  # fmt: skip
@pytest.mark.attack("A4")
def test_read_response_compares_iss_by_the_table(metadata: ServerMetadata, iss: str, accepted: bool) -> None:
    """Stop the response of another authorization server."""
    sign_in = _begin(metadata)
    query = f"code=k1&state={sign_in.state}&{iss}"
    assert is_response(sign_in, query)
    if accepted:
        assert read_response(sign_in, query) == "k1"
    else:
        with pytest.raises(SignInRefused) as caught:
            read_response(sign_in, query)
        assert "k1" not in str(caught.value) and "evil" not in str(caught.value)


@pytest.mark.spec("2026-07-28/basic/authorization/index#authorization-response-validation-6")
@pytest.mark.parametrize(("metadata", "iss"), [(METADATA, "iss=https%3A%2F%2Fevil.example"), (PROMISING, "")])
@pytest.mark.attack("A4")
def test_read_response_with_a_wrong_iss_shows_nothing_of_an_error(metadata: ServerMetadata, iss: str) -> None:
    sign_in = _begin(metadata)
    with pytest.raises(SignInRefused) as caught:
        read_response(sign_in, f"{HTML}&state={sign_in.state}&{iss}")
    assert caught.value.error == ""
    assert not re.search("script|marker|evil", str(caught.value))


def test_read_response_with_an_error_marks_and_cuts_the_words_of_the_server() -> None:
    sign_in = _begin()
    with pytest.raises(SignInRefused, match="the authorization server's words") as caught:
        read_response(sign_in, f"{HTML}&state={sign_in.state}&{ISS}")
    assert str(caught.value).isprintable() and "evil.example" not in str(caught.value)
    assert '"marker?[2J"' in str(caught.value)
    with pytest.raises(SignInRefused, match="access was denied") as caught:
        read_response(sign_in, f"error=access_denied&state={sign_in.state}&code=k1")
    assert caught.value.error == "access_denied"


@pytest.mark.spec(
    "2026-07-28/basic/authorization/security-considerations#open-redirection-3",
    "2025-06-18..2025-11-25/basic/authorization#open-redirection-3",
)
@pytest.mark.parametrize(
    "state",
    [
        "", "state=", "state=wrong", "state={state}&state={state}", "state={state}x", "state={upper}",
        "state={state}%00", "state=%ff", "state=\u20ac", "state=\ud800", "STATE={state}",
        "state={state}" + "&a" * 60, "state={state}" + "x" * 9000,
    ],
)  # fmt: skip
@pytest.mark.attack("A4")
def test_read_response_without_the_state_of_the_sign_in_is_refused(state: str) -> None:
    sign_in, other = _begin(), _begin()
    query = "code=k1&" + state.format(state=sign_in.state, upper=sign_in.state.swapcase())
    assert not is_response(sign_in, query)
    with pytest.raises(SignInRefused, match="does not belong"):
        read_response(sign_in, query)
    replayed = f"code=k1&state={sign_in.state}"
    assert is_response(sign_in, replayed) and not is_response(other, replayed)
    with pytest.raises(SignInRefused):
        read_response(other, replayed)


@pytest.mark.parametrize("code", ["", "code=", "code=k1&code=k2", "code=k1&code=k1"])
def test_read_response_without_exactly_one_code_is_refused(code: str) -> None:
    sign_in = _begin()
    with pytest.raises(SignInRefused, match="one `code`"):
        read_response(sign_in, f"{code}&state={sign_in.state}")


def test_read_response_decodes_the_code_once() -> None:
    sign_in = _begin(PROMISING)
    code = "4/0A%dQ+ =&x"
    query = urlencode({"code": code, "state": sign_in.state, "iss": ISSUER, "session_state": "ignored"})
    assert read_response(sign_in, query) == code
    assert len(query) < MAX_RESPONSE


@pytest.mark.attack("A14")
def test_sign_in_repr_has_no_secrets() -> None:
    sign_in = _begin()
    shown = f"{sign_in!r} {sign_in}"
    assert sign_in.state not in shown and sign_in.verifier not in shown and "code_challenge" not in shown
    assert ISSUER in shown
