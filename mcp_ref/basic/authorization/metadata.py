"""JSON documents of authorization: which members a client or server uses, and how each is read.

Peers differ in everything optional, so checking members that the client does not use would reject servers that work.
Therefore unknown members are ignored, and null, "" and unusable items of a list count as absent. A used member of the
wrong type is an error that names it. Identifiers are kept as they came, to be compared as strings.

Spec:  2026-07-28 basic/authorization/authorization-server-discovery; 2026-07-28
       basic/authorization/client-registration; RFC 6749, sections 5.1 and 5.2; RFC 7591,
       sections 2 and 3.2.1; RFC 8414 and OpenID Connect Discovery; RFC 9207, section 3; RFC 9728
"""

from __future__ import annotations

import re
from dataclasses import MISSING, dataclass, field, fields
from typing import Final, Self

from ...jsonrpc.messages import JSON, Object, parse_json
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
"""Maximum lifetime of a token, in seconds, to which longer ones are cut."""


def _fault(name: str, expected: str) -> ValueError:
    """Return the error for a member, without its value, which may be a secret."""
    return ValueError(f"the member {name!r} must be {expected}")


def _members(body: bytes) -> Object:
    """Return the JSON object in a body, or raise ValueError."""
    if len(body) > MAX_DOCUMENT:
        raise ValueError(f"the document is longer than {MAX_DOCUMENT} bytes")
    members: JSON = None
    fault = "a JSON object is expected"
    try:
        members = parse_json(body)
    except ValueError as error:
        fault = peer_text(str(error))
    if not isinstance(members, dict):
        # Not raised inside `except`, because `__context__`, the parser's error, could hold the document's secrets.
        raise ValueError(f"the document cannot be read: {fault}")
    return members


def _text(name: str, value: JSON) -> str:
    limit = MAX_TOKEN if name.endswith("_token") else MAX_URL
    if name == "scope":
        limit = MAX_DOCUMENT
    # Identifiers, tokens and secrets are ASCII in all standards.
    if isinstance(value, str) and len(value) <= limit and re.fullmatch("[ -~]+", value):
        return value
    raise _fault(name, f"ASCII text of at most {limit} characters")


def _value(name: str, kind: str, value: JSON) -> str | bool | int | tuple[str, ...]:
    """Return the value of a member. `kind` is the text of the field's annotation; any other one is a number."""
    if kind == "str":
        return _text(name, value)
    if kind == "tuple[str, ...]":
        if isinstance(value, list):
            return tuple(item for item in value if isinstance(item, str) and 0 < len(item) <= MAX_URL)
        raise _fault(name, "a list of strings")
    if kind == "bool":
        if isinstance(value, bool):
            return value
        raise _fault(name, "true or false")
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,20}(\.[0-9]{1,9})?", value):
        value = float(value)  # because some servers send a number as a text
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _fault(name, "a number of seconds")
    limit = MAX_LIFETIME if name == "expires_in" else 2**53  # beyond any date
    return int(max(0, min(value, limit)))


@dataclass(frozen=True, slots=True)
class JsonObject:
    """A JSON object. Each field of a subclass is a member, which may be missing if the field has a default value."""

    @classmethod
    def parse(cls, body: bytes) -> Self:
        """Return the document in a body. Raise ValueError if a member is missing or unusable."""
        return cls.read(_members(body))

    @classmethod
    def read(cls, members: Object) -> Self:
        """Return the document with these members. Raise ValueError if a member is missing or unusable."""
        found: dict[str, object] = {}
        for member in fields(cls):
            name, value, is_required = member.name, members.get(member.name), member.default is MISSING
            is_missing = value in (None, "")
            if is_missing and is_required:
                raise _fault(name, "present")
            if is_missing or not member.init:
                continue
            if is_required and isinstance(value, str) and " " in value:  # a token with a space would break the header
                raise _fault(name, "without spaces")
            found[name] = _value(name, str(member.type), value)
        return cls(**found)

    def to_json(self) -> Object:
        """Return the JSON object, leaving out empty members."""
        values = ((member.name, getattr(self, member.name)) for member in fields(self))
        return {name: [*value] if isinstance(value, tuple) else value for name, value in values if value}


@dataclass(frozen=True, slots=True)
class ResourceMetadata(JsonObject):
    """The protected resource metadata of an MCP server."""

    resource: str
    authorization_servers: tuple[str, ...]
    scopes_supported: tuple[str, ...] = ()
    bearer_methods_supported: tuple[str, ...] = field(default=("header",), init=False)  # written, never read


def parse_resource_metadata(body: bytes) -> ResourceMetadata:
    """Return the metadata of an MCP server. The caller checks `resource` with `addresses.accepts_resource`."""
    found = ResourceMetadata.parse(body)
    # [2026-07-28 basic/authorization/authorization-server-discovery#authorization-server-location] it MUST have one
    if not 1 <= len(found.authorization_servers) <= MAX_ISSUERS:
        raise _fault("authorization_servers", f"a list of 1 to {MAX_ISSUERS} issuers")
    if len(found.scopes_supported) > MAX_SCOPES:
        raise _fault("scopes_supported", f"a list of at most {MAX_SCOPES} scopes")
    return ResourceMetadata(found.resource, found.authorization_servers, split_scopes(found.scopes_supported))


@dataclass(frozen=True, slots=True)
class ServerMetadata(JsonObject):
    """The metadata of an authorization server. An ability that they do not mention counts as missing."""

    issuer: str
    authorization_endpoint: str = ""
    token_endpoint: str = ""
    registration_endpoint: str = ""
    revocation_endpoint: str = ""
    introspection_endpoint: str = ""
    jwks_uri: str = ""
    scopes_supported: tuple[str, ...] = ()
    token_endpoint_auth_methods_supported: tuple[str, ...] = ()
    code_challenge_methods_supported: tuple[str, ...] = ()
    client_id_metadata_document_supported: bool = False
    authorization_response_iss_parameter_supported: bool = False


_URLS: Final = [one.name for one in fields(ServerMetadata) if one.name.endswith(("_endpoint", "_uri"))]


def parse_server_metadata(body: bytes, issuer: str, server: str) -> ServerMetadata:
    """Return the metadata of the authorization server `issuer`, which the MCP server at the URL `server` named.

    Raise ValueError for another issuer, for a wrong member, and for an endpoint that must not be used.
    """
    check_fetchable(issuer, server)
    found = ServerMetadata.parse(body)
    # [2026-07-28 basic/authorization/authorization-server-discovery#authorization-server-metadata-discovery] it MUST be
    # identical, or a hostile server could name an honest issuer, but endpoints of its own that get codes and secrets
    if found.issuer != issuer:
        expected = f"{peer_text(issuer)}, character by character, but it is {peer_text(found.issuer)}"
        raise _fault("issuer", expected)
    for name in _URLS:
        url = getattr(found, name)
        try:
            if url:
                check_fetchable(url, server)
        except ValueError as error:
            raise _fault(name, f"a usable URL ({error})") from None
    return found


def default_server_metadata(base: str) -> ServerMetadata:
    """Return the endpoints of an MCP server of 2025-03-26 without metadata, from its `authorization_base_url`."""
    # [2025-03-26 basic/authorization#fallbacks-for-servers-without-metadata-discovery] clients MUST use these paths
    return ServerMetadata(base, f"{base}/authorize", f"{base}/token", f"{base}/register")


@dataclass(frozen=True, slots=True)
class ClientMetadata(JsonObject):
    """The metadata with which this client, a program on the user's machine, registers itself."""

    client_name: str
    redirect_uris: tuple[str, ...]
    scope: str = ""
    # [2026-07-28 basic/authorization/index#refresh-tokens] clients SHOULD name refresh_token
    grant_types: tuple[str, ...] = ("authorization_code", "refresh_token")
    response_types: tuple[str, ...] = ("code",)
    token_endpoint_auth_method: str = "none"
    # [2026-07-28 basic/authorization/client-registration#application-type-and-redirect-uri-constraints] MUST be named
    application_type: str = "native"


@dataclass(frozen=True, slots=True)
class TokenResponse(JsonObject):
    """The tokens that an authorization server has issued."""

    access_token: str = field(repr=False)
    token_type: str
    expires_in: int | None = None
    """Lifetime of the access token, in seconds; None if the server does not say."""
    refresh_token: str = field(default="", repr=False)
    issued_token_type: str = ""
    """The type of a token that was exchanged for another. [RFC 8693 2.2.1]"""


def parse_oauth_error(body: bytes) -> tuple[str, str]:
    """Return the error code and description of a response, cleaned by `peer_text`; "" if missing, as in HTML pages."""
    try:
        members = _members(body)
    except ValueError:
        return "", ""
    error, description = members.get("error"), members.get("error_description")
    return (
        peer_text(error) if isinstance(error, str) else "",
        peer_text(description) if isinstance(description, str) else "",
    )
