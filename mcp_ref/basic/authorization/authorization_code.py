"""Authorization code flow, without I/O: the URL to open in a browser, and the check of the response.

    attempt = begin_sign_in(metadata, client_id, redirect_uri, resource, scopes)
    ... a browser opens attempt.url; the authorization server redirects it to redirect_uri?code=...&state=...&iss=...
    code = read_response(attempt, query)
    ... the token request sends the code with attempt.verifier

The response comes through the browser, where any web page can send one too. Four values protect the client:

    state      random, one for each sign-in. Without it, a page could send the client the code of an attacker, so that
               the user would work in the attacker's account.
    verifier   random, one for each sign-in. Only its hash is in the URL, while the token endpoint demands the value, so
               that a program that steals the code cannot use it. (PKCE)
    iss        the authorization server that responds, which must be the one that the browser was sent to. It stops a
               hostile server that wants the honest server's code (mix-up attack).
    resource   the MCP server. The token is valid nowhere else, so a hostile MCP server cannot use it at another one.

If `iss` is present, the client MUST compare it with the issuer in the metadata before it sends the code to a token
endpoint, and MUST NOT normalize either string. If the metadata promise `iss` but it is missing, the client refuses the
response. After a refusal, it MUST NOT use or show anything of the response, not even its error.
[2026-07-28 basic/authorization/index#authorization-response-validation]

Spec:  2026-07-28 basic/authorization/index#authorization-response-validation, #resource-parameter-implementation;
       2026-07-28 basic/authorization/security-considerations#authorization-code-protection; RFC 6749, section 4.1;
       RFC 7636; RFC 9207
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qs, parse_qsl, quote, urlencode, urlsplit

from .addresses import browser_url
from .errors import SignInRefused, peer_url
from .metadata import ServerMetadata

RANDOM_BYTES: Final = 32
"""Size of `state` and verifier, in bytes. As text, 43 characters. [RFC 7636 4.1]"""
MAX_RESPONSE: Final = 8 * 1024
"""Maximum length of the query of an authorization response, in characters."""
MAX_PARAMETERS: Final = 50
"""Maximum number of parameters of an authorization response."""


@dataclass(frozen=True, slots=True)
class SignIn:
    """One attempt to sign in. Because it is valid for one response, it must not be kept after the token request."""

    issuer: str
    """The issuer of the checked metadata. [2026-07-28 basic/authorization/index#authorization-response-validation]"""
    promises_iss: bool
    """True if the metadata advertise `iss` in responses."""
    redirect_uri: str
    url: str = field(repr=False)
    """The URL to open in a browser, checked and rebuilt by `addresses.browser_url`."""
    state: str = field(repr=False)
    verifier: str = field(repr=False)


def code_challenge(verifier: str) -> str:
    """Return the S256 challenge of a PKCE verifier. [RFC 7636 4.2]"""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


def begin_sign_in(
    metadata: ServerMetadata, client_id: str, redirect_uri: str, resource: str, scopes: Iterable[str] = ()
) -> SignIn:
    """Return a new sign-in, with the URL to open. Raise ValueError for an endpoint that must not be opened.

    If `resource` is "", the parameter is left out. This breaks a MUST, but some authorization servers refuse requests
    that have it. Without scopes, the authorization server chooses them.
    """
    state, verifier, scope = secrets.token_urlsafe(RANDOM_BYTES), secrets.token_urlsafe(RANDOM_BYTES), " ".join(scopes)
    parameters = {
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": redirect_uri,
        "state": state,
        "code_challenge": code_challenge(verifier),
        "code_challenge_method": "S256",
        # [2026-07-28 basic/authorization/index#resource-parameter-implementation] we MUST send it with the code, too
        "resource": resource,
        "scope": scope,
        "prompt": "consent" if "offline_access" in scope.split() else "",  # [OpenID Connect Core 11] MUST
    }
    url = _with_parameters(metadata.authorization_endpoint, {name: text for name, text in parameters.items() if text})
    promises_iss = metadata.authorization_response_iss_parameter_supported
    return SignIn(metadata.issuer, promises_iss, redirect_uri, url, state, verifier)


def _with_parameters(endpoint: str, parameters: dict[str, str]) -> str:
    """Return the endpoint with more parameters added to its query, ready for a browser. [RFC 6749 3.1]"""
    own = urlsplit(endpoint).query
    names = [name for name, _ in parse_qsl(own, keep_blank_values=True)] + [*parameters]
    duplicates = {name for name in names if names.count(name) > 1}
    if duplicates:  # the server might read the first of two, and this client means the second
        listed = " and ".join(sorted(duplicates))
        raise ValueError(f"the authorization_endpoint must not contain {listed!r:.200}")
    query = urlencode(parameters, quote_via=quote, safe="")
    if not endpoint.endswith("?"):
        endpoint += "&" if own else "?"
    return browser_url(endpoint + query)


def _parameters(query: str) -> dict[str, list[str]]:
    """Return the values of each parameter of a response, or {} if it is too long or not a query."""
    if len(query) > MAX_RESPONSE:
        return {}
    try:
        return parse_qs(query, keep_blank_values=True, errors="strict", max_num_fields=MAX_PARAMETERS)
    except ValueError:
        return {}


def is_response(sign_in: SignIn, query: str) -> bool:
    """Return True if a query is the response to this sign-in: its only `state` is that of the sign-in.

    A receiver ignores other queries and continues to wait, because any web page could otherwise end the sign-in.
    """
    states = _parameters(query).get("state", [])
    return len(states) == 1 and hmac.compare_digest(states[0].encode("utf-8", "replace"), sign_in.state.encode())


def read_response(sign_in: SignIn, query: str) -> str:
    """Return the authorization code of a response.

    Raises:
        SignInRefused: The response is not trusted, or it is an error, or it has no code.
    """
    if not is_response(sign_in, query):
        raise SignInRefused("the response does not belong to this sign-in (its `state` differs)")
    found = _parameters(query)
    issuers, errors, codes = found.get("iss", []), found.get("error", []), found.get("code", [])
    # [2026-07-28 basic/authorization/index#authorization-response-validation] MUST compare as strings, before anything
    # else of the response is used
    if len(issuers) > 1 or (issuers and issuers[0] != sign_in.issuer):
        raise SignInRefused(f"another authorization server than {peer_url(sign_in.issuer)} responded: this may be an "
                            "attack; the response was dropped")  # fmt: skip
    if not issuers and sign_in.promises_iss:
        raise SignInRefused(f"the response lacks `iss`, which {peer_url(sign_in.issuer)} promises; it was dropped")
    if errors:
        reason = "access was denied" if errors == ["access_denied"] else f"{peer_url(sign_in.issuer)} refused it"
        raise SignInRefused(reason, errors[0], found.get("error_description", [""])[0])
    if len(codes) != 1 or not codes[0]:
        raise SignInRefused(f"the response of {peer_url(sign_in.issuer)} must have one `code`")
    return codes[0]
