"""URLs of authorization: where metadata are found, and which URLs a client may trust, request and open.

    MCP server    https://mcp.example/notes
    its metadata  https://mcp.example/.well-known/oauth-protected-resource/notes      then without /notes
    issuer        https://auth.example/tenant1
    its metadata  https://auth.example/.well-known/oauth-authorization-server/tenant1
                  https://auth.example/.well-known/openid-configuration/tenant1
                  https://auth.example/tenant1/.well-known/openid-configuration

Nearly all URLs here come from a peer, which may be hostile. Five attacks, and the rules against them:

- A server publishes another server's `resource`, to get tokens that the other one accepts. See `accepts_resource`.
- A metadata URL points into the client's own network, which is otherwise out of the attacker's reach. See
  `check_fetchable`, and `may_connect`, which checks the IP address of the open connection, because the host name could
  get another address after an earlier check.
- Metadata are changed on their way over plain http, so https is required except on loopback.
- The authorization URL is not an address but code, such as `javascript:`, or `$(...)` for a shell. See `browser_url`.
- A hostile server names an issuer that differs from the honest one by a slash or by case, and a client that normalizes
  URLs confuses the two. So the client MUST NOT use metadata with another issuer than the expected one, and compares
  them as strings. Issuer and `resource` are sent unchanged. [2026-07-28
  basic/authorization/authorization-server-discovery#authorization-server-metadata-discovery]

Spec:  2026-07-28 basic/authorization/authorization-server-discovery; 2026-07-28
       basic/authorization/index#canonical-server-uri; 2025-03-26 basic/authorization#authorization-base-url;
       RFC 8414, section 3; RFC 8707, section 2; RFC 9728, sections 3 and 7.7; RFC 8252, section 7.3
"""

from __future__ import annotations

import ipaddress
import re
from enum import IntEnum
from typing import Final
from urllib.parse import SplitResult, quote

from ...lib.http.origin import Origin, origin_of, parse_url
from .errors import peer_url

MAX_URL: Final = 2_048
"""Maximum length of a URL that a peer names, in characters."""
MAX_OPENED_URL: Final = 8_192
"""Maximum length of a URL that is opened in a browser, in characters. Larger, because this URL contains the scopes."""

RESOURCE_METADATA_PATH: Final = "/.well-known/oauth-protected-resource"
_SERVER_METADATA_PATH: Final = "/.well-known/oauth-authorization-server"
_OPENID_PATH: Final = "/.well-known/openid-configuration"


def _parse(url: str, limit: int = MAX_URL) -> tuple[SplitResult, Origin]:
    """Return the parts and the origin of a URL. Raise ValueError if no client may use it."""
    # Only visible ASCII characters, but not `#` and the backslash. Checked first, because urlsplit would drop tabs and
    # line breaks, and parse another URL.
    if len(url) > limit or not re.fullmatch(r'[!"$-\[\]-~]+', url):
        raise ValueError(f"a URL must be at most {limit} ASCII characters, without fragment (#): {peer_url(url)}")
    try:
        parts, origin = parse_url(url)
        if re.fullmatch(r"[a-z0-9._-]+|[0-9a-f:.]+", origin.host):
            return parts, origin
    except ValueError:
        pass  # its message contains the query, so raise another error below
    raise ValueError(f"the URL must be http or https, with a valid host, without credentials: {peer_url(url)}")


def _base(origin: Origin) -> str:
    return f"{origin.scheme}://{origin}"  # str(origin) is only the host and port


def canonical_resource(url: str) -> str:
    """Return the canonical URI of the MCP server at a URL, which is its `resource` if it publishes no metadata.

    The query is left out, because it may be a secret. Raise ValueError for a URL that is not http or https.
    """
    # [2026-07-28 basic/authorization/index#canonical-server-uri] lower case, no fragment, no slash after the host
    parts, origin = parse_url(url)
    return _base(origin) + (parts.path if parts.path != "/" else "")


def authorization_base_url(url: str) -> str:
    """Return the authorization server in 2025-03-26, which is the origin of the MCP server's URL."""
    # [2025-03-26 basic/authorization#authorization-base-url] the client MUST discard the path
    return _base(origin_of(url))


def resource_metadata_urls(url: str) -> tuple[str, ...]:
    """Return the well-known URLs of the protected resource metadata of an MCP server, in the order of requests."""
    # [2026-07-28 basic/authorization/authorization-server-discovery#protected-resource-metadata-discovery-requirements]
    parts, origin = parse_url(url)
    root = _base(origin) + RESOURCE_METADATA_PATH
    return tuple(dict.fromkeys((root + parts.path.removesuffix("/"), root)))


def issuer_metadata_urls(issuer: str) -> tuple[str, ...]:
    """Return the URLs of an issuer's metadata, in order. Raise ValueError for a query or fragment. [RFC 8414 2]"""
    parts, origin = _parse(issuer)
    if "?" in issuer:
        raise ValueError(f"an issuer must not have a query: {peer_url(issuer)}")
    # [2026-07-28 basic/authorization/authorization-server-discovery#authorization-server-metadata-discovery] the order
    base, path = _base(origin), parts.path.removesuffix("/")
    inserted = (base + _SERVER_METADATA_PATH + path, base + _OPENID_PATH + path)
    if not path:
        return inserted
    return (*inserted, base + path + _OPENID_PATH)


def accepts_resource(resource: str, url: str, document: str) -> bool:
    """Return True if the MCP server at `url` may claim the `resource` that its metadata publish.

    The resource must be the URL, perhaps without its query; the case of scheme and host, a default port, and one slash
    at the end make no difference. It may be an ancestor of the URL only if `document`, the URL of the metadata, is at
    the root of the origin, because `/evil/mcp` could otherwise claim the whole host, which it shares with `/bank`.
    [RFC 9728 3.3] [RFC 9728 7.3]
    """
    try:
        claimed, origin = _parse(resource)
        own, own_origin = parse_url(url)
        source, source_origin = _parse(document)
    except ValueError:
        return False
    if origin != own_origin or claimed.query not in ("", own.query):
        return False
    path, own_path = claimed.path.removesuffix("/"), own.path.removesuffix("/")
    is_at_root = (source_origin, source.path, source.query) == (own_origin, RESOURCE_METADATA_PATH, "")
    return path == own_path or (is_at_root and own_path.startswith(path + "/"))


def check_fetchable(url: str, server: str) -> None:
    """Raise ValueError unless a client of the MCP server at `server` may request `url`.

    https is required. [RFC 9728 7.7] Only a server on loopback may name plain http URLs, and only on loopback.
    """
    _, origin = _parse(url)
    if origin.scheme != "https" and not (origin.is_loopback and origin_of(server).is_loopback):
        raise ValueError(f"the URL must begin with https:// (http is for programs on one machine): {peer_url(url)}")


class Reach(IntEnum):
    """The kinds of networks, from outside to inside. No URL should lead to `NOWHERE`, such as a link-local address."""

    INTERNET = 0
    PRIVATE_NETWORK = 1
    THIS_MACHINE = 2
    NOWHERE = 3


# 198.18.0.0/15 is meant for tests, but some VPN programs give such addresses to all names.
_PRIVATE: Final = tuple(map(ipaddress.ip_network, (
    "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "198.18.0.0/15", "fc00::/7")))  # fmt: skip
_GLOBAL_IPV6: Final = ipaddress.IPv6Network("2000::/3")
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")


def reach_of(address: str) -> Reach:
    """Return the kind of network that an IP address belongs to. Raise ValueError if the text is not an IP address."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped is not None:  # a second spelling of an IPv4 address, by which it could evade filters
            return Reach.NOWHERE
        # Packets to a 6to4 or NAT64 address go to the IPv4 address inside it.
        if ip.sixtofour is not None:
            return reach_of(str(ip.sixtofour))
        if ip in _NAT64:
            return reach_of(str(ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)))  # its last 32 bits
    if ip.is_loopback:
        return Reach.THIS_MACHINE
    if any(ip in network for network in _PRIVATE):
        return Reach.PRIVATE_NETWORK
    # Python also counts unassigned and some multicast addresses as global. Of IPv6, only 2000::/3 is assigned.
    is_global = ip.is_global and not ip.is_multicast and not ip.is_reserved
    if is_global and (ip.version == 4 or ip in _GLOBAL_IPV6):
        return Reach.INTERNET
    return Reach.NOWHERE


def may_connect(address: str, server: str, private_networks: bool = False) -> bool:
    """Return True if a client may connect to the IP address `address`, for a URL that an MCP server has named.

    `server` is the IP address of that MCP server. Its URLs may lead the client to its own kind of network or further
    outside, but not further inside, because a server on the internet could otherwise attack the private network through
    the client. With `private_networks`, servers on the internet may lead into the private network, too. A link-local
    address other than `server` is never allowed, because a cloud machine gets its secrets from 169.254.169.254.
    """
    if address == server:
        return address not in ("0.0.0.0", "::")  # some systems take these for this machine
    allowed = Reach.PRIVATE_NETWORK if private_networks else Reach.INTERNET
    server_reach = reach_of(server)
    if server_reach is not Reach.NOWHERE:  # the highest number, which would allow everything
        allowed = max(allowed, server_reach)
    return reach_of(address) <= allowed


def browser_url(url: str) -> str:
    """Return a URL that is safe to hand to a browser, rebuilt from its parts. Raise ValueError for an unsafe one.

    All characters but letters, digits, `-._~/`, escapes and, in the query, `=&+` are percent-encoded, so that no
    quotation mark, `$`, `|` or backquote reaches a shell or a script that opens the browser. http is for loopback only.
    """
    parts, origin = _parse(url, MAX_OPENED_URL)
    if not (origin.scheme == "https" or origin.is_loopback):
        raise ValueError(f"the URL must be https, or http on loopback: {peer_url(url)}")
    query = f"?{_escape(parts.query, '=&+')}" if parts.query else ""
    return f"{_base(origin)}{_escape(parts.path, '/')}{query}"


def _escape(text: str, kept: str) -> str:
    """Encode all but unreserved characters, `kept`, and escapes."""
    return re.sub(r"%(?![0-9A-Fa-f]{2})|[^%]", lambda one: quote(one[0], safe=kept), text)
