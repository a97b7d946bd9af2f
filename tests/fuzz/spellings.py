"""Random URIs, and other spellings of a URI that are equal by RFC 3986, section 6.2."""

from __future__ import annotations

import random
import re

SEGMENTS = [
    *("admin", "keys", "open", "r&d", "r%26d", "a%2Fb", "a.b", "é", "%C3%A9", "Payroll", "~x", "a:b", "%25"),
    *("..a", "%3F", "[x]"),
]
PORTS = {"http": "80", "https": "443", "ws": "80", "wss": "443", "ftp": "21"}


def random_uri(rng: random.Random) -> str:
    """Return a URI with an authority, which can have a port, a query and a fragment."""
    scheme = rng.choice(["docs", "notes", "http", "https", "file"])
    host = "" if scheme == "file" else rng.choice(["admin", "open", "h-1", "caf%C3%A9", "[::1]", "me@Host"])
    port = rng.choice(["", "", ":8080", ":443"]) if host else ""
    path = "".join("/" + rng.choice(SEGMENTS) for _ in range(rng.randrange(4)))
    if scheme == "file" and not path:
        path = "/a"
    return f"{scheme}://{host}{port}{path}{rng.choice(['', '', '', '/', '?q=%26', '?a=b&c', '#f'])}"


def other_spelling(rng: random.Random, uri: str) -> str:
    """Return an equal URI, in a spelling that the parts of the URI allow."""
    found = re.fullmatch(r"([^:]*)://([^/?#]*)([^?#]*)(.*)", uri)
    assert found is not None, uri
    scheme, authority, path, rest = found.groups()
    user, at, host = authority.rpartition("@")
    name, colon, port = host, "", ""
    with_port = re.fullmatch(r"(.*?):([0-9]*)", host)
    # A colon inside the brackets of an IPv6 address begins no port.
    if with_port is not None and not host.endswith("]"):
        name, colon, port = with_port[1], ":", with_port[2]
    if not colon and name and rng.random() < 0.3:
        colon, port = ":", rng.choice(["", PORTS.get(scheme.lower(), "")])
    elif colon and port == PORTS.get(scheme.lower()) and rng.random() < 0.5:
        colon, port = "", ""
    elif port and rng.random() < 0.3:
        port = "0" * rng.randint(1, 3) + port
    if scheme == "file" and not name and rng.random() < 0.3:
        name = "LocalHost"
    name = _other_case(rng, name)
    if not name.startswith("["):  # an IP address has no escapes
        name = _escaped(rng, name)
    path = _with_dot_segments(rng, "/".join(_escaped(rng, segment) for segment in path.split("/")))
    spelled = f"{_other_case(rng, scheme)}://{_escaped(rng, user)}{at}{name}{colon}{port}{path}"
    return spelled + "".join(_escaped(rng, part) for part in re.split("([?#&=])", rest))


def _other_case(rng: random.Random, text: str) -> str:
    return "".join(rng.choice([letter, letter.upper(), letter.lower()]) for letter in text)


def _escaped(rng: random.Random, text: str) -> str:
    """Escape some unreserved characters, write some escapes with other digits, and some bytes as characters."""
    parts = re.findall("%[0-9A-Fa-f]{2}|.", text)
    share, written = rng.choice([0.0, 0.2, 1.0]), []
    for part in parts:
        if len(part) == 3:
            part = rng.choice([part.upper(), part.lower()])
        elif re.fullmatch("[A-Za-z0-9._~-]", part) and rng.random() < share:
            part = rng.choice(["%{:02x}", "%{:02X}"]).format(ord(part))
        elif not part.isascii() and rng.random() < 0.5:
            part = "".join(f"%{byte:02X}" for byte in part.encode())
        written.append(part)
    return "".join(written)


def _with_dot_segments(rng: random.Random, path: str) -> str:
    """Insert `.`, and segments that the next segment `..` removes, before some of the slashes of a path."""
    while path and rng.random() < 0.4:
        at = rng.choice([index for index, letter in enumerate(path) if letter == "/"])
        inserted = rng.choice(["/.", "/%2e", "/x/..", "/x/y/%2E./..", "/../x/.."] if at == 0 else ["/.", "/x/%2e%2E"])
        path = path[:at] + inserted + path[at:]
    return path
