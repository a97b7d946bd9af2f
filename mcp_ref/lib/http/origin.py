"""The client's rules for URLs, redirects and proxies. An origin is the scheme, host and port of a server.

An attacker can choose a URL, and a hostile server can send redirects. Three rules limit the damage:

- A request's URL must not contain credentials, because logs and error messages show it. Use a header for credentials.
- A redirect must stay within its origin, because another one would receive the credentials and the body that were meant
  for the first. It could also make the client send requests into a network that is out of the attacker's reach. The
  only exception is a redirect from http to https on the same host, with the default ports.
- The client follows only the redirects 307 and 308, which keep method and body, while others can turn a POST into a
  GET.

Spec:  RFC 9110, sections 4.3 (origin), 15.4 (redirects); RFC 9112, section 3.2.2
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

from .message import bracket_ipv6

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}

MAX_PARSED: Final = 256
"""Maximum number of parsed URLs that are kept, because a client often sends many requests to one URL."""


class Origin(NamedTuple):
    """The scheme, host and port of a server, whose `str` is the value of the Host header."""

    scheme: str
    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """True for localhost, 127.0.0.1 and ::1, which a proxy would take for itself. So no proxy is used for them."""
        return self.host in ("localhost", "127.0.0.1", "::1")

    def __str__(self) -> str:
        return bracket_ipv6(self.host) + (f":{self.port}" if self.port != _DEFAULT_PORTS[self.scheme] else "")


@lru_cache(MAX_PARSED)
def parse_url(url: str) -> tuple[SplitResult, Origin]:
    """Return the parts of a URL and its origin. Raise ValueError for an unusable URL."""
    try:
        parts = urlsplit(url)
        port = parts.port
        host = (parts.hostname or "").encode("idna").decode("ascii")
    except ValueError:  # not chained, because its message may contain a part of a password
        raise ValueError("invalid URL: the host or port cannot be parsed") from None
    if parts.username is not None or parts.password is not None:
        raise ValueError("the URL contains credentials, which logs would show: send them in a header instead")
    if parts.scheme not in _DEFAULT_PORTS or not host:
        raise ValueError(f"the URL must begin with http:// or https:// and a host: {url!r:.200}")
    if not re.fullmatch("[!-~]+", host + parts.path + parts.query):
        raise ValueError(f"the URL contains characters that must be percent-encoded: {url!r:.200}")
    return parts, Origin(parts.scheme, host, port or _DEFAULT_PORTS[parts.scheme])


def origin_of(url: str) -> Origin:
    """Return the origin of a URL. Raise ValueError for an unusable URL."""
    _, origin = parse_url(url)
    return origin


def redirect_target(url: str, location: str) -> str:
    """Return the URL to which a redirect leads. Raise ValueError if this URL is unusable or has a forbidden origin."""
    try:
        target = urljoin(url, location)
        old, new = origin_of(url), origin_of(target)
    except ValueError as error:
        raise ValueError(f"the server redirects to an unusable URL: {error}") from None
    is_upgrade = old.port == 80 and new == Origin("https", old.host, 443)
    if new != old and not is_upgrade:
        raise ValueError(f"the server redirects to another origin; if you trust that URL, use it: {target!r:.200}")
    return target


def find_proxy(origin: Origin, proxies: Mapping[str, str]) -> SplitResult | None:
    """Return the URL of the proxy for an origin, or None for a direct connection. Raise ValueError for a bad URL."""
    url = proxies.get(origin.scheme)
    if not url or origin.is_loopback or _is_in_no_proxy(origin, proxies.get("no", "")):
        return None
    try:
        proxy = urlsplit(url if "://" in url else f"http://{url}")
        if proxy.scheme == "http" and proxy.hostname and proxy.port != 0:
            return proxy
    except ValueError:
        pass  # its message may contain a part of the password
    raise ValueError(f"the URL of the proxy for {origin.scheme} must have the form http://host:port")


def _is_in_no_proxy(origin: Origin, exceptions: str) -> bool:
    """Return True if NO_PROXY has "*", the host, or a domain above it. An item with another port is ignored."""
    for item in exceptions.lower().replace(" ", ",").split(","):
        name, port = item, ""
        if re.fullmatch(r"[^:]*:\d+", item):  # an IPv6 address has more colons
            name, _, port = item.rpartition(":")
        if port and int(port) != origin.port:
            continue
        name = name.removeprefix("*.").lstrip(".")
        if item == "*" or (name and (origin.host == name or origin.host.endswith("." + name))):
            return True
    return False


def proxy_credentials(proxy: SplitResult) -> list[str]:
    """Return the Proxy-Authorization header line if the proxy's URL has a user name, else an empty list."""
    if proxy.username is None:
        return []
    pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}".encode()
    return [f"Proxy-Authorization: Basic {base64.b64encode(pair).decode()}"]


def public_url(url: str) -> str:
    """Return a URL for errors and logs, without credentials and query, which may contain secrets."""
    try:
        parts = urlsplit(url)
    except ValueError:  # the URL is invalid, so its credentials cannot be found
        return url if url.isprintable() and not {"@", "?"} & set(url) else "the server's URL"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
