"""Discovery: how a client finds the authorization server of an MCP server, and which documents it trusts.

    the 401's resource_metadata, else the well-known URLs  ->  protected resource metadata: resource, issuers, scopes
    the well-known URLs of an issuer                       ->  its metadata: endpoints and abilities

Both documents are requested from URLs that a peer chose. So each request is checked by `PeerRequests`: https, a network
that the server may point into, no redirect, a small body, a short time, and none of the headers that the program sends
to the MCP server. A redirect would lead past all these checks.

A server that is out of order must not look like a server without metadata. Else an attacker who disturbs a few
requests makes the client fall back to an older, weaker way. So a document is absent only if all URLs respond with 4xx.
Only then, and only for a client that speaks 2025-03-26, the MCP server's own origin is the authorization server. That
leads to no third party: the client asked this origin anyway.
[2025-03-26 basic/authorization#fallbacks-for-servers-without-metadata-discovery]

Spec:  2026-07-28 basic/authorization/authorization-server-discovery; 2025-03-26
       basic/authorization#server-metadata-discovery; RFC 8414, section 3; RFC 9728, sections 3 and 7.7
Above: `client.py`. Below: `addresses.py` (which URLs, which are trusted), `metadata.py` (how they are read)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from ...lib.http.client import Document, HttpError, HttpSender, fetch
from ...revisions import R2025_03_26
from .addresses import (
    accepts_resource,
    authorization_base_url,
    canonical_resource,
    check_fetchable,
    issuer_metadata_urls,
    may_connect,
    resource_metadata_urls,
)
from .errors import DiscoveryFailed, peer_text, peer_url
from .metadata import (
    MAX_DOCUMENT,
    ResourceMetadata,
    ServerMetadata,
    default_server_metadata,
    parse_resource_metadata,
    parse_server_metadata,
)

T = TypeVar("T")

DOCUMENT_SECONDS: Final = 5.0
"""Time that a server has to send a metadata document, in seconds."""
MAX_TRIED_ISSUERS: Final = 4
"""Maximum number of authorization servers of one MCP server that are tried."""
_UNKNOWN_ADDRESS: Final = "0.0.0.0"  # an MCP server behind a proxy: its documents may lead into the internet only
_ORIGIN_HEADERS: Final = {"MCP-Protocol-Version": R2025_03_26.name}


class PeerRequests:
    """Requests to URLs that a peer named, on behalf of the client of one MCP server.

    Args:
        http: The HTTP client. A proxy that it uses must itself refuse addresses of private networks.
        server: URL of the MCP server.
        private_networks: True if a server on the internet may name servers of the private network.
    """

    def __init__(self, http: HttpSender, server: str, private_networks: bool = False) -> None:
        self.server = server
        self.address: str | None = None
        """The IP address of the MCP server, from its latest response."""
        self.http, self._private_networks = http, private_networks

    async def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes = b"", seconds: float = DOCUMENT_SECONDS
    ) -> Document:
        """Send a request and return the response, of any status.

        Raises:
            ValueError: The URL must not be used.
            HttpError: The response is incomplete or too long, or the address must not be used.
        """
        check_fetchable(url, self.server)
        allowed = partial(may_connect, server=self.address or _UNKNOWN_ADDRESS, private_networks=self._private_networks)
        return await fetch(
            self.http, method, url, headers, body, limit=MAX_DOCUMENT, seconds=seconds, may_connect=allowed
        )


class _Search:
    """A search through URLs, and the fault of each."""

    def __init__(self, peers: PeerRequests, headers: Mapping[str, str] | None = None) -> None:
        self.attempts: list[tuple[str, str]] = []
        self.is_absent = True
        """True if all responses so far were 4xx."""
        self._peers, self._headers = peers, {"Accept": "application/json", **(headers or {})}

    async def first(self, urls: Iterable[str], read: Callable[[bytes, str], T]) -> T | None:
        """Return the first usable document. `read` takes a body and its URL, and raises ValueError for its fault."""
        for url in urls:
            fault = status = None
            try:
                found = await self._peers.send("GET", url, self._headers)
                status = found.status
                if status == 200:
                    return read(found.body, url)
                fault = f"status {status}"
            except (HttpError, ValueError) as error:
                fault = peer_text(str(error))
            self.is_absent = self.is_absent and status is not None and 400 <= status < 500
            self.attempts.append((url, fault))
        return None


@dataclass(frozen=True, slots=True)
class Discovered:
    """The result of a search."""

    resource: str
    """`resource` for the requests to the authorization server, as the MCP server publishes it."""
    scopes: tuple[str, ...] | None
    """All scopes of the MCP server; None if it does not tell."""
    server: ServerMetadata


async def discover(
    peers: PeerRequests,
    named: str | None,
    prefer: Callable[[tuple[str, ...]], Sequence[str]],
    *,
    at_origin: bool = False,
    needs_pkce: bool = True,
) -> Discovered:
    """Find the authorization server of an MCP server, and check both documents.

    Args:
        peers: the requests for the client of this MCP server.
        named: URL in the `resource_metadata` of the 401.
        prefer: function that orders the issuers, and may leave some out or raise.
        at_origin: True if the client speaks 2025-03-26, so that the origin may be the authorization server.
        needs_pkce: True if metadata without PKCE are unusable, because a user will sign in.

    Raises:
        DiscoveryFailed: No usable metadata. It names every URL with its fault.
    """
    published = await _find_resource_metadata(peers, named, at_origin)
    if published is None:
        return Discovered(canonical_resource(peers.server), None, await _find_at_origin(peers, prefer, needs_pkce))
    search = _Search(peers)
    for issuer in prefer(published.authorization_servers)[:MAX_TRIED_ISSUERS]:
        try:
            check_fetchable(issuer, peers.server)
            urls = issuer_metadata_urls(issuer)
        except ValueError as error:
            search.attempts.append((issuer, peer_text(str(error))))
            continue
        found = await search.first(urls, partial(_read_server, issuer, peers.server, needs_pkce))
        if found is not None:
            return Discovered(published.resource, published.scopes_supported, found)
    raise DiscoveryFailed(f"metadata of an authorization server of {peer_url(peers.server)}", search.attempts)


async def _find_resource_metadata(peers: PeerRequests, named: str | None, at_origin: bool) -> ResourceMetadata | None:
    """Return the protected resource metadata, or None if the origin of the MCP server takes their place."""

    def read(body: bytes, url: str) -> ResourceMetadata:
        found = parse_resource_metadata(body)
        if not accepts_resource(found.resource, peers.server, url):
            # [2026-07-28 basic/authorization/security-considerations#access-token-privilege-restriction]
            raise ValueError(f'its resource is "{peer_text(found.resource)}", and not the server that was asked for')
        return found

    search = _Search(peers)
    # [2026-07-28 basic/authorization/authorization-server-discovery#protected-resource-metadata-discovery-requirements]
    # the URL in the challenge, else the well-known URLs, in this order
    urls = dict.fromkeys(((named,) if named else ()) + resource_metadata_urls(peers.server))
    found = await search.first(urls, read)
    if found is None and not (search.is_absent and at_origin):
        subject = f"protected resource metadata of {peer_url(peers.server)}"
        raise DiscoveryFailed(subject, search.attempts)
    return found


async def _find_at_origin(
    peers: PeerRequests, prefer: Callable[[tuple[str, ...]], Sequence[str]], needs_pkce: bool
) -> ServerMetadata:
    """Return the metadata of an MCP server of 2025-03-26, which is its own authorization server."""
    # [2025-03-26 basic/authorization#authorization-base-url] the origin, without a path; no OpenID document
    base = authorization_base_url(peers.server)
    prefer((base,))  # raises if the program expects another issuer
    search = _Search(peers, _ORIGIN_HEADERS)
    found = await search.first(issuer_metadata_urls(base)[:1], partial(_read_server, base, peers.server, needs_pkce))
    if found is None and not search.is_absent:
        raise DiscoveryFailed(f"metadata of the authorization server {base}", search.attempts)
    # [2025-03-26 basic/authorization#fallbacks-for-servers-without-metadata-discovery] MUST use the default endpoints
    return found or default_server_metadata(base)


def _read_server(issuer: str, server: str, needs_pkce: bool, body: bytes, url: str) -> ServerMetadata:
    found = parse_server_metadata(body, issuer, server)
    if needs_pkce and not found.supports_pkce:
        # [2026-07-28 basic/authorization/security-considerations#authorization-code-protection] MUST refuse
        raise ValueError("code_challenge_methods_supported must contain S256: without PKCE, codes can be stolen")
    return found
