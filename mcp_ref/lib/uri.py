"""URIs (RFC 3986): one canonical form for all spellings of a URI.

    canonical_uri("DOCS://%61dmin:/a/../keys%2f1")     # "docs://admin/keys%2F1"

Two programs that compare URIs must agree which ones are equal: if one compares `%61dmin` with `admin` as sent and the
other decodes it first, an attacker gets past the first program. So a program makes the canonical form where a URI
enters, and from then on compares only canonical forms. The form follows section 6.2.2:

- The scheme and the host are in lower case, in every scheme: `notes://Payroll` equals `notes://payroll`. The path, the
  query and the fragment keep their case.
- Letters, digits and `- . _ ~` are not escaped. Other escapes stay, because `%2F` means something else than `/`, but
  with upper-case digits.
- The path has no segments `.` and `..`. Removing them never turns a path into a host.
- An empty port and the default port of the scheme are left out (6.2.3), and so is the host of `file://localhost`
  (RFC 8089). `file:/a` becomes `file:///a`. Other rules of a scheme are not applied: an empty path is not `/`.
- A non-ASCII character becomes the escapes of its UTF-8 bytes (RFC 3987, section 3.1), without normalization.

A text with an invalid escape, with a space, or without a scheme is not a URI, so it has no canonical form.

Even so, a server that decodes parts of a URI can take one URI for another, such as `r%26d` for `r&d`. Where such a
mistake would give a client more rights, compare the texts that `readings` returns instead.

Spec:  RFC 3986, sections 3, 5.2.4, 6.2; RFC 3987, section 3.1; RFC 8089, section 2
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple
from urllib.parse import quote

MAX_URI_LENGTH: Final = 8192
"""Maximum length of a URI that a server or a client accepts from its peer, in characters."""

_CHARS: Final = r"A-Za-z0-9._~!$&'()*+,;=:@/?\[\]-"
# RFC 3986, appendix A, except that "[" and "]" are allowed before the fragment
_URI: Final = re.compile(
    rf"[A-Za-z][A-Za-z0-9+.-]*:(?:[{_CHARS}]|%[0-9A-Fa-f]{{2}})*"
    r"(?:#(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*)?"
)
# Most URIs are canonical. This pattern matches only canonical ones: no escape, port, user or capital letter in the
# authority, no dot segment, and `file:` only before `///`.
_SURELY_CANONICAL: Final = re.compile(
    r"(?!file:(?!///))[a-z][a-z0-9+.-]*:(?!(?:[^?#]*/)?\.\.?(?:[/?#]|\Z))"
    rf"(?://[a-z0-9._~!$&'()*+,;=-]*(?=[/?#]|\Z)|(?!//))[{_CHARS}]*"
)
# The escapes that a canonical URI does not have: with a lower-case digit, or of an unreserved character.
# Replacing every escape would have the same result, but takes more than five times as long for 2,700 canonical ones.
_NOT_CANONICAL: Final = re.compile("%(?:[0-9A-Fa-f][a-f]|[a-f][0-9A-Fa-f]|2[DE]|3[0-9]|[46][1-9A-F]|[57][0-9A]|5F|7E)")
_PARTS: Final = re.compile(r"(?P<scheme>[^:]*):(?://(?P<authority>[^/?#]*))?(?P<path>[^?#]*)(?P<rest>.*)")
_HOST_AND_PORT: Final = re.compile(r"([^:\[]*|\[[^\]]*\])(?::([0-9]*))?")
_ESCAPE: Final = re.compile("%[0-9A-Fa-f]{2}")
_UNRESERVED: Final = re.compile("[A-Za-z0-9._~-]")
# The reserved characters that a path segment can contain (section 3.3, pchar), the slash, and the backslash
_PLAIN_IN_PATH: Final = re.compile("%(?:2[146789ABCF]|3[ABD]|40|5C)")
_ESCAPED_DELIMITER: Final = re.compile("%3F|%23")  # "?", which begins the query, and "#", which begins the fragment
_ALL_ASCII: Final = "".join(map(chr, range(128)))
_DEFAULT_PORTS: Final = {"http": "80", "ws": "80", "https": "443", "wss": "443", "ftp": "21"}


def check_uri(uri: str) -> None:
    """Raise ValueError if a URI breaks RFC 3986."""
    if not _URI.fullmatch(uri):
        raise ValueError(f"{uri[:200]!r} is not a URI: it must have a scheme, as in file:///a, and %20 for a space")


def canonical_uri(uri: str) -> str | None:
    """Return the canonical form of a URI, or None if the text is not a URI."""
    if _SURELY_CANONICAL.fullmatch(uri):
        return uri
    try:
        encoded = uri if uri.isascii() else quote(uri, safe=_ALL_ASCII)
    except UnicodeEncodeError:  # a lone surrogate
        return None
    if not _URI.fullmatch(encoded):
        return None
    parts = _PARTS.fullmatch(_NOT_CANONICAL.sub(_unreserved_or_upper, encoded))
    assert parts is not None  # every text with a colon matches
    scheme, authority = parts["scheme"].lower(), parts["authority"]
    path = _without_dot_segments(parts["path"])
    if scheme == "file" and parts["path"].startswith("/") and (authority is None or authority.lower() == "localhost"):
        authority = ""
    if authority is not None:
        return f"{scheme}://{_canonical_authority(scheme, authority)}{path}{parts['rest']}"
    if path.startswith("//"):
        path = f"/.{path}"  # "//" would begin an authority
    return f"{scheme}:{path}{parts['rest']}"


class Reading(NamedTuple):
    """One way in which a program that decodes the parts of a URI could read it."""

    path: str
    """The scheme, the host and the path. Reserved characters are plain if a path can contain them, and else escaped; a
    backslash is a slash; and the path has no dot segment, no empty segment and no slash at its end."""
    rest: frozenset[str]
    """The parts of the query and the fragment, between the characters `? # & ;`, in no order. `%20` replaces `+`."""


class Readings(NamedTuple):
    """The ways in which a program that decodes the parts of a URI could read it."""

    as_sent: Reading
    decoded: Reading
    """An escaped `?` or `#` of the path begins the query or the fragment, as if it were plain."""
    as_path: Reading
    """The query and the fragment belong to the path."""


def readings(uri: str) -> Readings:
    """Return the readings of a canonical URI.

    Because URIs with different canonical forms can have equal readings, use them only to refuse, never to find.
    """
    with_plain_delimiters = _ESCAPED_DELIMITER.sub(_decoded, uri)
    with_escaped_delimiters = with_plain_delimiters.replace("?", "%3F").replace("#", "%23")
    as_sent = decoded = _reading(uri)
    if with_plain_delimiters != uri:  # which is rare, so two readings are nearly always enough
        decoded = _reading(with_plain_delimiters)
    return Readings(as_sent, decoded, _reading(with_escaped_delimiters))


def _reading(uri: str) -> Reading:
    delimiter = re.search(r"[?#]|\Z", uri)
    assert delimiter is not None  # \Z always matches
    before, query_and_fragment = uri[: delimiter.start()], uri[delimiter.start() :]
    scheme, _, host_and_path = _with_plain_characters(before).partition(":")
    host_and_path = _without_dot_segments(re.sub("/+", "/", host_and_path)).rstrip("/")
    return Reading(f"{scheme}:{host_and_path}", parts_of_query(query_and_fragment))


def parts_of_query(text: str) -> frozenset[str]:
    """Return the parts of a query and a fragment, in the form of `Reading.rest`."""
    text = _with_plain_characters(_ESCAPED_DELIMITER.sub(_decoded, text)).replace("+", "%20")
    return frozenset(part for part in re.split("[?#&;]", text) if part)


def bare_path(path: str) -> str:
    """Return the path of a reading without a user before the host, and without dots and spaces that end a segment.

    Windows ignores such dots and spaces, as the domain name system ignores a dot that ends a host.
    """
    scheme, _, host_and_path = path.partition(":")
    # a reading has one slash before the host, so the first segment is empty, and the host is the next one
    first, *others = [segment.rstrip(". ") for segment in host_and_path.replace("%20", " ").split("/")]
    if others:
        others[0] = others[0].rpartition("@")[2]
    bare = "/".join([first, *filter(None, others)])
    return f"{scheme}:{bare}".replace(" ", "%20")


def _with_plain_characters(text: str) -> str:
    return _PLAIN_IN_PATH.sub(_decoded, text).replace("[", "%5B").replace("]", "%5D").replace("\\", "/")


def parents(uri: str) -> Iterator[str]:
    """Yield a canonical URI and the URIs above it, the longest first: `a:/b/c`, `a:/b/`, `a:/b`, `a:/`, `a:`."""
    yield uri
    end = len(uri)
    while (slash := uri.rfind("/", 0, end)) >= 0:
        if slash + 1 < end:
            yield uri[: slash + 1]
        yield uri[:slash]
        end = slash


def includes_uri(parent: str, uri: str) -> bool:
    """Return True if a canonical URI equals the canonical URI `parent` or is below it."""
    return uri == parent or uri.startswith(parent if parent.endswith("/") else f"{parent}/")


def respelled(uri: str, parent: str, spelling: str) -> str:
    """Return a canonical URI as a client would write it, if the client writes `spelling` for `parent`.

    `parent` is the canonical form of this URI, or of one above it.
    """
    rest = uri[len(parent) :]
    needs_slash = rest and parent.endswith("/") and not spelling.endswith("/")  # as "a:/b/.", which spells "a:/b/"
    return spelling + ("/" if needs_slash else "") + rest


def _unreserved_or_upper(escape: re.Match[str]) -> str:
    character = _decoded(escape)
    return character if _UNRESERVED.fullmatch(character) else escape[0].upper()


def _decoded(escape: re.Match[str]) -> str:
    return chr(int(escape[0][1:], 16))


def _canonical_authority(scheme: str, authority: str) -> str:
    user, at, host = authority.rpartition("@")
    host = _ESCAPE.sub(lambda escape: escape[0].upper(), host.lower())
    found = _HOST_AND_PORT.fullmatch(host)
    if found is None:  # a host of another form stays as it is
        return user + at + host
    name, port = found[1], found[2] or ""
    port = re.sub("^0+(?=[0-9])", "", port)  # without the zeros before it
    if port in ("", _DEFAULT_PORTS.get(scheme)):
        return user + at + name
    return f"{user}{at}{name}:{port}"


def _without_dot_segments(path: str) -> str:
    """Return a path without the segments "." and "..", as in section 5.2.4. A relative path stays relative."""
    if "." not in path:
        return path
    root = "/" if path.startswith("/") else ""
    segments = path.removeprefix("/").split("/")
    kept: list[str] = []
    for segment in segments:
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    if segments[-1] in (".", ".."):
        kept.append("")  # "/a/." is "/a/"
    return root + "/".join(kept)
