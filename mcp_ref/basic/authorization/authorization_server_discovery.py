"""Discovery: how a client finds the authorization server of an MCP server, and which documents it trusts.

    the 401's resource_metadata, else the well-known URLs  ->  protected resource metadata: resource, issuers, scopes
    the well-known URLs of an issuer                       ->  its metadata: endpoints and abilities

Because a peer chose the URLs of both documents, `PeerRequests` requires https, connects only to the networks that
`may_connect` allows, follows no redirects, limits the body's size and the time, and sends none of the headers that the
program sends to the MCP server.

A failing server must not look like a server without metadata, or an attacker who disturbs a few requests could make the
client fall back to older, weaker rules. So a document is absent only if all URLs respond with 4xx. A client that speaks
2025-03-26 MUST then take the MCP server's own origin for the authorization server. This is safe, because the client
already talks to that origin, so the fallback cannot lead it to a third party.
[2025-03-26 basic/authorization#fallbacks-for-servers-without-metadata-discovery]

Spec:  2026-07-28 basic/authorization/authorization-server-discovery; 2025-03-26
       basic/authorization#server-metadata-discovery; RFC 8414, section 3; RFC 9728, sections 3 and 7.7
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final, TypeVar

from ...lib.http.client import HttpSender, fetch
from ...lib.http.response import HttpError, HttpResponse, HttpTimeout
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
POST_SECONDS: Final = 30.0
"""Time that an authorization server has to register a client, or to issue a token, in seconds."""
MAX_TRIED_ISSUERS: Final = 4
"""Maximum number of authorization servers of one MCP server that are tried."""
_UNKNOWN_ADDRESS: Final = "0.0.0.0"  # if a proxy hides the server's address; it may then lead only to the internet


class PeerRequests:
    """A client's requests to URLs that an MCP server or its authorization server has named.

    `server` is the URL of the MCP server. If the client uses a proxy, the proxy must check the IP addresses, because
    only the proxy knows them. `at_origin` is True if the client speaks 2025-03-26, in which the origin of the MCP
    server may be its authorization server.
    """

    def __init__(self, http: HttpSender, server: str, private_networks: bool = False, at_origin: bool = False) -> None:
        self.http, self.server, self.at_origin = http, server, at_origin
        self.address = ""
        """The IP address of the MCP server, from its latest 401 or 403, or from the stored grant; "" if unknown."""
        self._private_networks = private_networks

    async def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes = b"") -> HttpResponse:
        """Send a request that accepts JSON, and return the response, of any status. Raise HttpError."""
        allowed = partial(may_connect, server=self.address or _UNKNOWN_ADDRESS, private_networks=self._private_networks)
        seconds = POST_SECONDS if method == "POST" else DOCUMENT_SECONDS
        try:
            check_fetchable(url, self.server)
            return await fetch(self.http, method, url, {"Accept": "application/json", **headers}, body,
                               limit=MAX_DOCUMENT, seconds=seconds, may_connect=allowed)  # fmt: skip
        except ValueError as error:
            raise HttpError(str(error)) from None


class _Search:
    """A search for a document at several URLs, and the fault of each."""

    def __init__(self, peers: PeerRequests, headers: Mapping[str, str]) -> None:
        self.attempts: list[tuple[str, str]] = []
        self.is_absent = True  # all attempts so far got a 4xx
        self.is_disturbed = False  # a server was out of reach, or responded with 5xx
        self._peers, self._headers = peers, headers

    async def first(self, urls: Iterable[str], read: Callable[[bytes, str], T]) -> T | None:
        """Return the first usable document, or None. `read` takes a body and its URL, and raises ValueError."""
        for url in urls:
            try:
                found = await self._peers.send("GET", url, self._headers)
                if found.status == 200:
                    return read(found.body, url)
                fault = f"status {found.status}"
                is_absent, is_disturbed = 400 <= found.status < 500, found.status >= 500
            except (HttpError, ValueError) as error:
                fault = peer_text(str(error))
                is_absent = False
                # an OSError is the cause if the server was out of reach, or the connection broke
                is_disturbed = isinstance(error, HttpTimeout) or isinstance(error.__cause__, OSError)
            self.attempts.append((url, fault))
            self.is_absent = self.is_absent and is_absent
            self.is_disturbed = self.is_disturbed or is_disturbed
        return None

    def failure(self, subject: str) -> DiscoveryFailed:
        failure = DiscoveryFailed(subject, self.attempts)
        failure.is_temporary = self.is_disturbed
        return failure


async def discover(
    peers: PeerRequests, named: str = "", configured: str | None = None, known: str = "", *, for_user: bool = True
) -> tuple[ResourceMetadata, ServerMetadata]:
    """Find the authorization server of an MCP server, and check both documents.

    Args:
        named: URL in the `resource_metadata` of the challenge.
        configured: The only issuer to use; None for all that the MCP server names.
        known: The issuer to try first.
        for_user: True if a user will sign in, so that metadata without PKCE are unusable.

    Raises:
        DiscoveryFailed: No usable metadata. It names every URL with its fault.
    """
    search = _Search(peers, {})
    # [2026-07-28 basic/authorization/authorization-server-discovery#protected-resource-metadata-discovery-requirements]
    # the URL in the challenge, else the well-known URLs, in this order
    urls = dict.fromkeys((named, *resource_metadata_urls(peers.server)))
    resource = await search.first(filter(None, urls), partial(_read_resource, peers.server))
    if resource is None and search.is_absent and peers.at_origin:
        return await _discover_at_origin(peers, configured, for_user)
    if resource is None:
        raise search.failure(f"protected resource metadata of {peer_url(peers.server)}")
    search = _Search(peers, {})
    for issuer in _in_order(resource.authorization_servers, configured, known)[:MAX_TRIED_ISSUERS]:
        try:
            metadata_urls = issuer_metadata_urls(issuer)
        except ValueError as error:
            search.attempts.append((issuer, peer_text(str(error))))
            continue
        found = await search.first(metadata_urls, partial(_read_server, issuer, peers.server, for_user))
        if found is not None:
            return resource, found
    raise search.failure(f"metadata of an authorization server of {peer_url(peers.server)}")


async def _discover_at_origin(
    peers: PeerRequests, configured: str | None, for_user: bool
) -> tuple[ResourceMetadata, ServerMetadata]:
    """Return the documents of an MCP server of 2025-03-26, whose authorization server is at its own origin."""
    # [2025-03-26 basic/authorization#authorization-base-url] the origin, without a path
    origin = authorization_base_url(peers.server)
    [issuer] = _in_order((origin,), configured, known="")  # the origin, in the configured spelling if there is one
    metadata_url, *_ = issuer_metadata_urls(issuer)  # without the OpenID document, which that revision does not know
    search = _Search(peers, {"MCP-Protocol-Version": R2025_03_26.name})
    found = await search.first([metadata_url], partial(_read_server, issuer, peers.server, for_user))
    if found is None and search.is_absent:
        # [2025-03-26 basic/authorization#fallbacks-for-servers-without-metadata-discovery] we MUST use the defaults
        found = default_server_metadata(origin)
    if found is None:
        raise search.failure(f"metadata of an authorization server of {peer_url(peers.server)}")
    return ResourceMetadata(canonical_resource(peers.server), (origin,)), found


def _in_order(issuers: tuple[str, ...], configured: str | None, known: str) -> list[str]:
    """Return the issuers to try: the configured one, or all, the known one first. Raise DiscoveryFailed for another."""
    if configured is None:
        return sorted(dict.fromkeys(issuers), key=lambda issuer: issuer != known)
    # MCP servers and issuers often disagree about a slash at the end, so the configured spelling is used.
    if configured.removesuffix("/") not in {issuer.removesuffix("/") for issuer in issuers}:
        raise DiscoveryFailed(
            f"authorization server {peer_url(configured)}", [(issuer, "is another issuer") for issuer in issuers],
            "The client is configured for an issuer that the MCP server does not name: correct one of the two.",
        )  # fmt: skip
    return [configured]


def _read_resource(server: str, body: bytes, url: str) -> ResourceMetadata:
    found = parse_resource_metadata(body)
    if not accepts_resource(found.resource, server, url):
        # [2026-07-28 basic/authorization/security-considerations#access-token-privilege-restriction]
        raise ValueError(f"its resource is {peer_text(found.resource)}, and not the server that was asked for")
    return found


def _read_server(issuer: str, server: str, for_user: bool, body: bytes, url: str) -> ServerMetadata:
    found = parse_server_metadata(body, issuer, server)
    if not found.token_endpoint:
        raise ValueError("token_endpoint is missing")
    if for_user and not found.authorization_endpoint:
        raise ValueError("authorization_endpoint is missing")
    if for_user and "S256" not in found.code_challenge_methods_supported:
        # [2026-07-28 basic/authorization/security-considerations#authorization-code-protection] we MUST refuse this
        raise ValueError("code_challenge_methods_supported must contain S256: without PKCE, codes can be stolen")
    return found
