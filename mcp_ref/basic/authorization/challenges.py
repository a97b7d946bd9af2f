"""WWW-Authenticate: the challenge with which a server refuses a request, read and written.

    HTTP/1.1 401 Unauthorized
    WWW-Authenticate: Bearer resource_metadata="https://mcp.example/.well-known/oauth-protected-resource/mcp",
        scope="files:read"

The server names the document that leads to its authorization server, and the scopes that the operation needs, for which
the client then asks. A client MUST be able to parse the header.
[2026-07-28 basic/authorization/authorization-server-discovery#protected-resource-metadata-discovery-requirements]
[2026-07-28 basic/authorization/index#scope-selection-strategy]

In RFC 9110, a response may have several of these fields, each with several challenges and any text in quotation marks:

    Negotiate dG9rZW4=, Bearer error_description="use scope=\\"all\\", please", scope=files:read

A search for `scope=` would find the text of the description, and the user would be asked for a scope that no server
demanded, so this module parses the field. It ignores a field that breaks the grammar, and a challenge with a duplicate
parameter, which two readers could understand differently. Written values are reduced to the characters of RFC 6750,
section 3, because a quotation mark in a scope would end the string, and an attacker could add parameters after it.

Spec:  2026-07-28 basic/authorization/index#runtime-insufficient-scope-errors, #scope-selection-strategy;
       RFC 9110, section 11; RFC 6750, sections 2.1 and 3; RFC 9449, section 7.1; RFC 9728, section 5.1
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import quote_plus

from ..access import is_scope

MAX_FIELD: Final = 8 * 1024
"""Maximum size of one WWW-Authenticate field, in bytes, above which it is ignored."""
MAX_CHALLENGES: Final = 20
"""Maximum number of challenges in one response. Further ones are ignored."""
MAX_SCOPES: Final = 100
"""Maximum number of scopes in a peer's list."""

_TOKEN: Final = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]++"
_END: Final = r"(?=[ \t]*(?:,|\Z))"  # here an element of the list ends
_TOKEN68: Final = r"[A-Za-z0-9\-._~+/]++=*+"
_TEXT: Final = r'[^"\\\x00-\x08\x0A-\x1F\x7F]'
_SEPARATOR: Final = r"[ \t,]*+"  # a list may have empty elements [RFC 9110 5.6.1.2]
# After a scheme comes a token68, or a space and parameters, which `_PARAMETER` matches, or the end of the element.
_SCHEME: Final = re.compile(rf"(?P<scheme>{_TOKEN})(?: +(?P<token68>{_TOKEN68}){_END}|(?= )|{_END}){_SEPARATOR}")
_QUOTED: Final = rf'"(?P<quoted>(?:{_TEXT}|\\{_TEXT}|\\["\\])*+)"'
_PARAMETER: Final = re.compile(rf"(?P<name>{_TOKEN})[ \t]*=[ \t]*(?:(?P<token>{_TOKEN})|{_QUOTED}){_END}{_SEPARATOR}")
_CREDENTIALS: Final = re.compile(rf"({_TOKEN}) +({_TOKEN68})")


@dataclass(frozen=True, slots=True)
class Challenge:
    """One challenge of a server, with its scheme and the names of its parameters in lower case."""

    scheme: str
    parameters: Mapping[str, str]
    token68: str = ""
    """The data of a scheme without parameters, such as Negotiate."""

    @property
    def resource_metadata(self) -> str:
        """The URL of the protected resource metadata, or ""."""
        return self.parameters.get("resource_metadata", "")

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes that the operation needs, without duplicates."""
        return split_scopes([self.parameters.get("scope", "")])


NO_CHALLENGE: Final = Challenge("", {})


def split_scopes(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the scopes in space-separated lists, at most `MAX_SCOPES`, without duplicates and invalid ones."""
    scopes = " ".join(texts).split(" ")
    return tuple(dict.fromkeys(scope for scope in scopes if is_scope(scope)))[:MAX_SCOPES]


def parse_challenges(fields: Iterable[str]) -> list[Challenge]:
    """Return the challenges in the WWW-Authenticate fields of a response, in order. Ignore invalid fields."""
    found: list[Challenge] = []
    for field in fields:
        if len(field) <= MAX_FIELD:
            found += _parse_field(field)
    return found[:MAX_CHALLENGES]


def _parse_field(field: str) -> list[Challenge]:
    """Return the challenges of one field, or [] if it breaks the grammar of RFC 9110, section 11.6.1."""
    found: list[Challenge] = []
    field, position = field.lstrip(" \t,"), 0
    while position < len(field):
        scheme = _SCHEME.match(field, position)
        if scheme is None:
            return []
        pairs: list[tuple[str, str]] = []
        position = scheme.end()
        pair = None if scheme["token68"] else _PARAMETER.match(field, position)  # no parameters follow a token68
        while pair is not None:
            value = pair["token"] or re.sub(r"\\(.)", r"\1", pair["quoted"])  # a backslash escapes the next character
            pairs.append((pair["name"].lower(), value))  # [RFC 9110 11.2] the names are case-insensitive
            position = pair.end()
            pair = _PARAMETER.match(field, position)
        parameters = dict(pairs)
        if len(parameters) == len(pairs):  # [RFC 9110 11.2] each name MUST occur only once
            found.append(Challenge(scheme["scheme"].lower(), parameters, scheme["token68"] or ""))
    return found


def token_challenge(fields: Iterable[str]) -> Challenge:
    """Return the Bearer or DPoP challenge to follow, or NO_CHALLENGE. Prefer one that names a metadata document."""
    usable = [one for one in parse_challenges(fields) if one.scheme in ("bearer", "dpop") and not one.token68]
    with_document = [one for one in usable if one.resource_metadata]
    return (with_document or usable or [NO_CHALLENGE])[0]


def write_challenge(
    scheme: Literal["Bearer", "DPoP"], *, resource_metadata: str = "", scopes: Iterable[str] = (), error: str = "",
    description: str = "", algorithms: Iterable[str] = (),
) -> str:  # fmt: skip
    """Return the value of a WWW-Authenticate field with one challenge, leaving out empty parameters.

    `error` is a code of RFC 6750, section 3.1, which a request without credentials does not get. `algorithms` are those
    for DPoP proofs.
    """
    # "?" instead of forbidden characters, because a scope with a space would become two scopes.
    parameters = {
        "error": error,
        "error_description": description,
        "scope": " ".join(re.sub(r"[^!#-\[\]-~]", "?", scope) for scope in scopes),
        "resource_metadata": resource_metadata,
        "algs": " ".join(algorithms),
    }
    cleaned = {name: re.sub(r"[^ !#-\[\]-~]", "?", value) for name, value in parameters.items() if value}
    pairs = [f'{name}="{value}"' for name, value in cleaned.items()]
    return f"{scheme} {', '.join(pairs)}".rstrip()  # without parameters, the scheme alone


def read_credentials(field: str) -> tuple[str, str]:
    """Return the scheme, in lower case, and the token of an Authorization field.

    Raise ValueError, whose text does not quote the field, if the field is not a scheme and a token68.
    """
    match = _CREDENTIALS.fullmatch(field.strip(" \t"))
    if match is None:
        raise ValueError('the Authorization header must be a scheme and a token, such as "Bearer abc"')
    return match[1].lower(), match[2]


def basic_credentials(client_id: str, secret: str) -> str:
    """Return the Authorization field of a client that has a secret. [RFC 6749 2.3.1]"""
    credentials = f"{quote_plus(client_id)}:{quote_plus(secret)}"  # encoded, because a colon in the id would end it
    return f"Basic {base64.b64encode(credentials.encode()).decode()}"
