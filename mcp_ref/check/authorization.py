"""Authorization: tokens, challenges, metadata documents, and the requests of the OAuth flow.

A finding never quotes a token, a code or a verifier. Exchanges with an authorization server are judged if the recording
has them.

Spec:  basic/authorization (2025-03-26 to 2025-11-25), 2026-07-28 basic/authorization/index
Used by: conversation.py
"""

from __future__ import annotations

import json
from typing import Final
from urllib.parse import parse_qs

from ..basic.authorization.addresses import RESOURCE_METADATA_PATH
from ..basic.authorization.challenges import NO_CHALLENGE, Challenge, token_challenge
from ..jsonrpc.messages import Object
from ..revisions import R2025_03_26, R2025_06_18, R2025_11_25
from .masking import HIDDEN
from .rules import ADVICE, MUST, SHOULD, Fault, Verdict, legacy_rule, modern_rule, rule
from .state import LOOPBACK, Exchange, an_object, quoted, url_parts

_INDEX: Final = "2026-07-28/basic/authorization/index"
_SECURITY: Final = "2026-07-28/basic/authorization/security-considerations"
_DISCOVERY: Final = "2026-07-28/basic/authorization/authorization-server-discovery"
_REGISTRATION: Final = "2026-07-28/basic/authorization/client-registration"

_OPENID_METADATA: Final = "/.well-known/openid-configuration"
_SERVER_METADATA: Final = ("/.well-known/oauth-authorization-server", _OPENID_METADATA)
_STATUS_OF_ERROR: Final = {"insufficient_scope": 403, "invalid_token": 401}


def _query(exchange: Exchange) -> dict[str, list[str]]:
    return parse_qs(url_parts(exchange.target).query, keep_blank_values=True)


def _form(exchange: Exchange) -> dict[str, list[str]]:
    is_form = (exchange.header("content-type") or "").startswith("application/x-www-form-urlencoded")
    return parse_qs(exchange.body.decode("utf-8", "replace"), keep_blank_values=True) if is_form else {}


def _authorization_request(exchange: Exchange) -> dict[str, list[str]]:
    """Return the query of an authorization request, or {} for another request."""
    query = {} if exchange.is_at_endpoint or exchange.method != "GET" else _query(exchange)
    return query if query.get("response_type") == ["code"] else {}


def _grant(exchange: Exchange) -> str:
    if exchange.is_at_endpoint or exchange.method != "POST":
        return ""
    return _form(exchange).get("grant_type", [""])[0]


def _document(exchange: Exchange, *paths: str) -> Object | None:
    """Return the JSON object that is served at one of the well-known paths, or None."""
    is_served = exchange.status == 200 and any(path in exchange.target for path in paths)
    return _json_object(exchange.response_body or b"") if is_served else None


def _json_object(data: bytes) -> Object | None:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _challenge(exchange: Exchange) -> Challenge:
    return token_challenge(exchange.response_headers.get_all("www-authenticate"))


@rule(MUST, f"{_INDEX}#token-requirements-4", "exchange")
def no_token_in_query(exchange: Exchange) -> Verdict:
    """An access token is not in the query of a URL."""
    return "the query has an access_token" if "access_token" in _query(exchange) else None


@legacy_rule(MUST, f"{_INDEX}#token-requirements-3", "exchange", needs="endpoint unshared")
def authorization_in_each_request(exchange: Exchange) -> Verdict:
    """Each request of a session has the Authorization header."""
    dialogue = exchange.dialogue
    is_missing = dialogue.is_authorized and "authorization" not in exchange.headers and exchange.method != "OPTIONS"
    if not is_missing or dialogue.session_id is None:
        return None
    return f"a {exchange.method} has no Authorization header, unlike earlier requests of the session"


@rule(MUST, "2025-06-18/basic/authorization#authorization-server-location-3",
      "head", needs="endpoint", since=R2025_06_18, until=R2025_11_25)  # fmt: skip
def challenge_of_401(exchange: Exchange) -> Verdict:
    """The WWW-Authenticate header of a 401 names the metadata of the resource."""
    is_missing = exchange.status == 401 and not _challenge(exchange).resource_metadata
    return "the response 401 has no resource_metadata in WWW-Authenticate" if is_missing else None


@rule(MUST, f"{_INDEX}#error-handling-1", "head", needs="endpoint", since=R2025_03_26)
def status_of_challenge(exchange: Exchange) -> Verdict:
    """Insufficient scope is 403, an invalid token 401."""
    error = _challenge(exchange).parameters.get("error", "")
    is_wrong = error in _STATUS_OF_ERROR and exchange.status != _STATUS_OF_ERROR[error]
    return f"the challenge {error} has the status {exchange.status}" if is_wrong else None


@rule(SHOULD, f"{_INDEX}#runtime-insufficient-scope-errors-2", "head", needs="endpoint", since=R2025_11_25)
def insufficient_scope(exchange: Exchange) -> Verdict:
    """The challenge of a 403 names its error, the scopes and the metadata."""
    challenge = _challenge(exchange)
    if challenge is NO_CHALLENGE or exchange.status != 403:
        return None
    missing = [name for name in ("error", "scope", "resource_metadata") if not challenge.parameters.get(name)]
    return f"the challenge of the response 403 has no {missing[0]}" if missing else None


@rule(ADVICE, f"{_INDEX}#scope-selection-strategy-1", "head", needs="endpoint", since=R2025_11_25)
def scope_of_401(exchange: Exchange) -> Verdict:
    """The challenge of a 401 names the scopes of the resource."""
    challenge = _challenge(exchange)
    is_missing = exchange.status == 401 and challenge is not NO_CHALLENGE and not challenge.scopes
    return "the challenge of the response 401 has no scope" if is_missing else None


@modern_rule(SHOULD, f"{_INDEX}#refresh-tokens-4", "head end")
def no_offline_access(exchange: Exchange) -> Verdict:
    """A resource does not ask for offline_access."""
    supported = an_object(_document(exchange, RESOURCE_METADATA_PATH)).get("scopes_supported")
    scopes = [*_challenge(exchange).scopes, *(supported if isinstance(supported, list) else ())]
    # with one key, because one setting of the server puts the scope into its challenges and its metadata
    return Fault("the server asks for the scope offline_access", key="") if "offline_access" in scopes else None


@rule(MUST, f"{_DISCOVERY}#authorization-server-location-2", "end")
def resource_metadata(exchange: Exchange) -> Verdict:
    """Protected resource metadata names the resource and an authorization server."""
    document = _document(exchange, RESOURCE_METADATA_PATH)
    if document is None:
        return None
    servers = document.get("authorization_servers")
    if servers != HIDDEN and (not isinstance(servers, list) or not servers):
        return f"the authorization_servers of the metadata are {quoted(servers)}"
    return None if isinstance(document.get("resource"), str) else "the metadata have no resource"


def _is_insecure(url: object) -> bool:
    parts = url_parts(url) if isinstance(url, str) else None
    return parts is not None and parts.scheme == "http" and parts.hostname not in LOOPBACK


@rule(MUST, f"{_SECURITY}#communication-security-2", "end")
def secure_endpoints(exchange: Exchange) -> Verdict:
    """The endpoints of an authorization server begin with https."""
    document = an_object(_document(exchange, *_SERVER_METADATA))
    insecure = [name for name, url in document.items() if name.endswith("_endpoint") and _is_insecure(url)]
    return f"the {insecure[0]} of the metadata does not begin with https" if insecure else None


@modern_rule(MUST, f"{_DISCOVERY}#authorization-server-metadata-discovery-4", "end")
def issuer(exchange: Exchange) -> Verdict:
    """Authorization server metadata is served at the well-known URL of the issuer that it names."""
    document = _document(exchange, *_SERVER_METADATA)
    if document is None or document.get("issuer") == HIDDEN:
        return None
    path = url_parts(exchange.target).path  # the issuer's path, with the well-known part before or after it
    for each in _SERVER_METADATA:
        path = path.replace(each, "")
    found = url_parts(str(document.get("issuer")))
    # only the paths are compared, because a proxy such as the recorder has another host
    if found.scheme != "" and found.path.rstrip("/") == path.rstrip("/"):
        return None
    return f"the metadata at {url_parts(exchange.target).path} have the issuer {quoted(document.get('issuer'))}"


@modern_rule(SHOULD, f"{_INDEX}#authorization-response-validation-2", "head")
def iss_parameter(exchange: Exchange) -> Verdict:
    """An authorization response has the parameter iss, the issuer of its server."""
    uris = _authorization_request(exchange).get("redirect_uri")
    location = exchange.response_headers.get("location")
    # the authorization response is a redirect to the client; others lead to pages of the authorization server
    if not uris or location is None or not location.startswith(uris[0]):
        return None
    query = parse_qs(url_parts(location).query)
    is_missing = ("code" in query or "error" in query) and "iss" not in query
    return "the authorization response has no iss" if is_missing else None


@rule(MUST, f"{_SECURITY}#authorization-code-protection-8", "end", since=R2025_11_25)
def pkce_in_metadata(exchange: Exchange) -> Verdict:
    """OpenID metadata names the methods of PKCE."""
    document = _document(exchange, _OPENID_METADATA)
    is_missing = document is not None and "code_challenge_methods_supported" not in document
    return "the metadata have no code_challenge_methods_supported" if is_missing else None


@rule(MUST, f"{_SECURITY}#authorization-code-protection-1", "exchange", since=R2025_03_26)
def pkce(exchange: Exchange) -> Verdict:
    """The authorization flow is protected by PKCE, with S256."""
    if _grant(exchange) == "authorization_code":
        return None if "code_verifier" in _form(exchange) else "the token request has no code_verifier"
    query = _authorization_request(exchange)
    if not query:
        return None
    if "code_challenge" not in query:
        return "the authorization request has no code_challenge"
    method = query.get("code_challenge_method", ["plain"])[0]  # the default is that of RFC 7636
    return f"the code_challenge_method is {quoted(method)}" if method not in ("S256", HIDDEN) else None


@rule(MUST, f"{_INDEX}#resource-parameter-implementation-2", "exchange", since=R2025_06_18)
def resource_parameter(exchange: Exchange) -> Verdict:
    """Authorization and token requests name the MCP server as their resource."""
    is_grant = _grant(exchange) in ("authorization_code", "refresh_token")
    fields = _form(exchange) if is_grant else _authorization_request(exchange)
    if not fields:
        return None
    if "resource" not in fields:
        return f"the request to {url_parts(exchange.target).path} has no parameter resource"
    resource = fields["resource"][0]
    if ("#" not in resource and "://" in resource) or resource == HIDDEN:
        return None
    return f"the parameter resource is {quoted(resource)}, not an absolute URI without a fragment"


@rule(SHOULD, f"{_SECURITY}#open-redirection-3", "exchange", since=R2025_06_18)
def state_parameter(exchange: Exchange) -> Verdict:
    """An authorization request has a state."""
    query = _authorization_request(exchange)
    return "the authorization request has no state" if query and "state" not in query else None


@rule(MUST, f"{_SECURITY}#communication-security-3", "exchange", since=R2025_03_26)
def redirect_uri(exchange: Exchange) -> Verdict:
    """A redirect URI is on localhost, or begins with https."""
    registered = an_object(_registration(exchange)).get("redirect_uris")
    uris: list[object] = [*_authorization_request(exchange).get("redirect_uri", [])]
    uris += registered if isinstance(registered, list) else []
    wrong = [uri for uri in uris if _is_insecure(uri)]
    return f"the redirect URI {quoted(wrong[0])} is neither local nor https" if wrong else None


def _registration(exchange: Exchange) -> Object | None:
    """Return the client metadata in a request of dynamic client registration, or None for another request."""
    if exchange.is_at_endpoint or exchange.method != "POST" or b'"redirect_uris"' not in exchange.body:
        return None
    return _json_object(exchange.body)


@modern_rule(MUST, f"{_REGISTRATION}#application-type-and-redirect-uri-constraints-1", "exchange")
def application_type(exchange: Exchange) -> Verdict:
    """A client that registers names its application_type."""
    client = _registration(exchange)
    is_wrong = client is not None and client.get("application_type") not in ("native", "web")
    return "the registration has no application_type, or an unknown one" if is_wrong else None


@modern_rule(SHOULD, f"{_INDEX}#refresh-tokens-2", "exchange")
def refresh_grant(exchange: Exchange) -> Verdict:
    """A client that registers names the grant type refresh_token."""
    client = _registration(exchange)
    if client is None:
        return None
    grants = client.get("grant_types")
    is_given = isinstance(grants, list) and ("refresh_token" in grants or HIDDEN in grants)
    return None if is_given else "the grant_types lack refresh_token"


@rule(MUST, f"{_REGISTRATION}#implementation-requirements-3", "exchange", since=R2025_11_25)
def client_id_url(exchange: Exchange) -> Verdict:
    """A client_id that is a URL begins with https, and has a path."""
    id = _authorization_request(exchange).get("client_id", [""])[0]
    parts = url_parts(id)
    is_valid = "://" not in id or (parts.scheme == "https" and parts.path not in ("", "/"))
    return None if is_valid else f"the client_id is {quoted(id)}"
