"""The JSON documents of authorization: which members a client or server uses, and how each is read.

    ResourceMetadata   an MCP server's: its authorization servers and scopes           RFC 9728
    ServerMetadata     an authorization server's: its endpoints and abilities          RFC 8414, OpenID Discovery
    ClientMetadata     this client's, for a registration                               RFC 7591, section 2
    RegisteredClient   the response: the client id, perhaps a secret                   RFC 7591, section 3.2.1
    TokenResponse      the tokens and their lifetime                                   RFC 6749, section 5.1
    OAuthError         a refusal of a registration or token request                    RFC 6749, section 5.2

Peers differ in everything that is optional. A reader that demands valid values in members that it does not use fails at
servers that work. So unknown members are ignored, and null, "" and unusable items of a list count as absent. A member
that is used and has another type is an error that names the member. An identifier is kept as it came, byte for byte.

The issuer in the metadata MUST be identical to the one that was asked for. Else a hostile server could publish the
honest server's name with its own token endpoint, and so receive codes and secrets: a mix-up attack.
[2026-07-28 basic/authorization/authorization-server-discovery#authorization-server-metadata-discovery]

Spec:  2026-07-28 basic/authorization/authorization-server-discovery; 2026-07-28
       basic/authorization/client-registration; the RFCs above; RFC 9207, section 3
Above: `authorization_server_discovery.py`, `client_registration.py`, `token_endpoint.py` and `server.py`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from typing import Final

from ...jsonrpc.messages import Object, parse_json
from .addresses import MAX_URL, check_fetchable
from .challenges import MAX_SCOPES, split_scopes
from .errors import peer_text

MAX_DOCUMENT: Final = 64 * 1024
"""Maximum size of a metadata document or of a response of an authorization server, in bytes."""
MAX_ISSUERS: Final = 16
"""Maximum number of authorization servers of one MCP server."""
MAX_TOKEN: Final = 16 * 1024
"""Maximum length of a token, in characters."""
MAX_LIFETIME: Final = 365 * 24 * 3600
"""Maximum lifetime of a token, in seconds. A longer one is cut."""


def _members(body: bytes) -> Object:
    """Return the JSON object of a document. Raise ValueError if the body is too long or not an object."""
    if len(body) > MAX_DOCUMENT:
        raise ValueError(f"the document is longer than {MAX_DOCUMENT} bytes")
    try:
        members, fault = parse_json(body), "a JSON object is expected"
    except ValueError as error:
        members, fault = None, peer_text(str(error))
    if not isinstance(members, dict):
        raise ValueError(f"the document cannot be read: {fault}")
    return members


def _fault(name: str, expected: str) -> ValueError:
    """Return the error for a member. The value is not quoted: it may be a secret."""
    return ValueError(f"the member {name!r} must be {expected}")


def _text(members: Object, name: str, limit: int = MAX_URL) -> str | None:
    """Return a string. Identifiers, tokens and secrets are ASCII in all standards."""
    value = members.get(name)
    if value is None or value == "":
        return None
    if not isinstance(value, str) or len(value) > limit or not re.fullmatch("[ -~]+", value):
        raise _fault(name, f"ASCII text of at most {limit} characters")
    return value


def _required(members: Object, name: str, limit: int = MAX_URL) -> str:
    value = _text(members, name, limit)
    if value is None:
        raise _fault(name, "present")
    if " " in value:  # a token becomes a part of a header
        raise _fault(name, "without spaces")
    return value


def _texts(members: Object, name: str, limit: int = MAX_DOCUMENT) -> tuple[str, ...] | None:
    value = members.get(name)
    if value is None:
        return None
    if not isinstance(value, list) or len(value) > limit:
        raise _fault(name, f"a list of at most {limit} strings")
    return tuple(item for item in value if isinstance(item, str) and 0 < len(item) <= MAX_URL)


def _flag(members: Object, name: str) -> bool:
    value = members.get(name)
    if value is not None and not isinstance(value, bool):
        raise _fault(name, "true or false")
    return value is True


def _seconds(members: Object, name: str, limit: int) -> int | None:
    """Return a number within 0 and `limit`. Some servers send it as a text."""
    value = members.get(name)
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,20}(\.[0-9]{1,9})?", value):
        value = float(value)
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _fault(name, "a number of seconds")
    return int(max(0, min(value, limit)))


@dataclass(frozen=True, slots=True)
class _Document:
    """A document that this package writes."""

    def to_json(self) -> Object:
        """Return the document. Empty members are left out."""
        values = ((member.name, getattr(self, member.name)) for member in fields(self))
        return {name: [*value] if isinstance(value, tuple) else value for name, value in values if value}


@dataclass(frozen=True, slots=True)
class ResourceMetadata(_Document):
    """The protected resource metadata of an MCP server."""

    resource: str
    authorization_servers: tuple[str, ...]
    scopes_supported: tuple[str, ...] | None = None
    bearer_methods_supported: tuple[str, ...] = ("header",)


def parse_resource_metadata(body: bytes) -> ResourceMetadata:
    """Return the metadata of an MCP server. Raise ValueError for a missing or wrong member.

    The caller checks `resource` with `addresses.accepts_resource`.
    """
    members = _members(body)
    issuers = _texts(members, "authorization_servers", MAX_ISSUERS)
    if not issuers:  # [2026-07-28 basic/authorization/authorization-server-discovery#authorization-server-location]
        raise _fault("authorization_servers", "a list with at least one issuer")
    scopes = _texts(members, "scopes_supported", MAX_SCOPES)
    usable = None if scopes is None else split_scopes(" ".join(scopes))
    return ResourceMetadata(_required(members, "resource"), issuers, usable)


@dataclass(frozen=True, slots=True)
class ServerMetadata:
    """The metadata of an authorization server. An ability that is not advertised is missing."""

    issuer: str
    authorization_endpoint: str | None = None
    token_endpoint: str | None = None
    registration_endpoint: str | None = None
    revocation_endpoint: str | None = None
    introspection_endpoint: str | None = None
    jwks_uri: str | None = None
    scopes_supported: tuple[str, ...] = ()
    token_endpoint_auth_methods_supported: tuple[str, ...] | None = None
    code_challenge_methods_supported: tuple[str, ...] = ()
    client_id_metadata_document_supported: bool = False
    authorization_response_iss_parameter_supported: bool = False

    @property
    def supports_pkce(self) -> bool:
        """True if the server advertises the one PKCE method that does not reveal the verifier."""
        return "S256" in self.code_challenge_methods_supported


def parse_server_metadata(body: bytes, issuer: str, server: str) -> ServerMetadata:
    """Return the metadata of the authorization server `issuer`, which the MCP server at the URL `server` named.

    Raise ValueError for another issuer, for a wrong member, and for an endpoint that must not be used.
    """
    members = _members(body)

    def endpoint(name: str) -> str | None:
        url = _text(members, name)
        if url is not None:
            try:
                check_fetchable(url, server)
            except ValueError as error:
                raise _fault(name, f"a usable URL ({error})") from None
        return url

    check_fetchable(issuer, server)
    # [2026-07-28 basic/authorization/authorization-server-discovery#authorization-server-metadata-discovery] identical
    named = _required(members, "issuer")
    if named != issuer:
        raise _fault("issuer", f'"{peer_text(issuer)}", character by character, but it is "{peer_text(named)}"')
    return ServerMetadata(
        issuer=issuer,
        authorization_endpoint=endpoint("authorization_endpoint"),
        token_endpoint=endpoint("token_endpoint"),
        registration_endpoint=endpoint("registration_endpoint"),
        revocation_endpoint=endpoint("revocation_endpoint"),
        introspection_endpoint=endpoint("introspection_endpoint"),
        jwks_uri=endpoint("jwks_uri"),
        scopes_supported=_texts(members, "scopes_supported") or (),
        token_endpoint_auth_methods_supported=_texts(members, "token_endpoint_auth_methods_supported"),
        code_challenge_methods_supported=_texts(members, "code_challenge_methods_supported") or (),
        client_id_metadata_document_supported=_flag(members, "client_id_metadata_document_supported"),
        authorization_response_iss_parameter_supported=_flag(members, "authorization_response_iss_parameter_supported"),
    )


def default_server_metadata(base: str) -> ServerMetadata:
    """Return the endpoints of an MCP server of 2025-03-26 without metadata, from its `authorization_base_url`."""
    # [2025-03-26 basic/authorization#fallbacks-for-servers-without-metadata-discovery] MUST use these paths. PKCE is
    # REQUIRED in that revision, so it is used although no metadata advertise it.
    return ServerMetadata(base, f"{base}/authorize", f"{base}/token", f"{base}/register",
                          code_challenge_methods_supported=("S256",))  # fmt: skip


@dataclass(frozen=True, slots=True)
class ClientMetadata(_Document):
    """The metadata of this client, a program on the user's machine, as it registers itself."""

    client_name: str
    redirect_uris: tuple[str, ...]
    scope: str = ""
    # [2026-07-28 basic/authorization/index#refresh-tokens] SHOULD name refresh_token
    grant_types: tuple[str, ...] = ("authorization_code", "refresh_token")
    response_types: tuple[str, ...] = ("code",)
    token_endpoint_auth_method: str = "none"
    # [2026-07-28 basic/authorization/client-registration#application-type-and-redirect-uri-constraints] MUST be named
    application_type: str = "native"


@dataclass(frozen=True, slots=True)
class RegisteredClient:
    """A client id, with the secret and the terms that the authorization server has set."""

    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    client_secret_expires_at: int | None = None
    """End of the secret, in seconds since 1970; 0 if it never ends."""
    token_endpoint_auth_method: str | None = None
    redirect_uris: tuple[str, ...] | None = None
    names_scopes: bool = False
    """True if the response has a `scope`: the authorization server may refuse other scopes."""


def parse_registration(body: bytes) -> RegisteredClient:
    """Return the response to a registration. Raise ValueError if a member is missing or has a wrong type."""
    members = _members(body)
    return RegisteredClient(
        client_id=_required(members, "client_id"),
        client_secret=_text(members, "client_secret"),
        client_secret_expires_at=_seconds(members, "client_secret_expires_at", 2**53),
        token_endpoint_auth_method=_text(members, "token_endpoint_auth_method"),
        redirect_uris=_texts(members, "redirect_uris"),
        names_scopes=isinstance(members.get("scope"), str),
    )


@dataclass(frozen=True, slots=True)
class TokenResponse:
    """The tokens that an authorization server has issued."""

    access_token: str = field(repr=False)
    token_type: str
    expires_in: int | None = None
    """Lifetime of the access token, in seconds; None if the server does not tell."""
    refresh_token: str | None = field(default=None, repr=False)
    scopes: tuple[str, ...] | None = None
    """The granted scopes; None if they are the requested ones. [RFC 6749 5.1]"""
    issued_token_type: str | None = None
    """The type of a token that was exchanged for another. [RFC 8693 2.2.1]"""


def parse_token_response(body: bytes) -> TokenResponse:
    """Return the tokens of a response. Raise ValueError if a member is missing or has a wrong type."""
    members = _members(body)
    token, scope = _required(members, "access_token", MAX_TOKEN), _text(members, "scope", MAX_DOCUMENT)
    return TokenResponse(
        access_token=token,
        token_type=_required(members, "token_type"),
        expires_in=_seconds(members, "expires_in", MAX_LIFETIME),
        refresh_token=_text(members, "refresh_token", MAX_TOKEN),
        scopes=None if scope is None else split_scopes(scope),
        issued_token_type=_text(members, "issued_token_type"),
    )


@dataclass(frozen=True, slots=True)
class OAuthError:
    """An error code and a text for developers, both fit for an error message. `error` is "" without a code."""

    error: str
    description: str = ""


def parse_oauth_error(body: bytes) -> OAuthError:
    """Return the refusal in a response of any status. Never raise: many servers respond with HTML."""
    try:
        members = _members(body)
    except ValueError:
        return OAuthError("")
    texts = (members.get(name) for name in ("error", "error_description"))
    return OAuthError(*(peer_text(text) if isinstance(text, str) else "" for text in texts))
