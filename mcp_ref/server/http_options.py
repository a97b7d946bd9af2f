"""The options of a server over HTTP: `Server.run_http`, `Server.serve_http` and `Server.asgi` have them all.

Spec:  basic/transports#streamable-http (2025-03-26 to 2025-11-25); 2026-07-28 basic/transports/streamable-http
"""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TYPE_CHECKING, Final, TypedDict

from ..basic.access import Access, AccessRefused
from ..basic.principal import Principal
from ..lib.fields import check_options
from ..lib.http.message import HttpRequest
from ..transports.streamable_http.checks import Authorize
from ..transports.streamable_http.posted_session import EndpointLimits
from .routes import RouteHandler, is_path

if TYPE_CHECKING:
    from ..basic.authorization.server import Protection
    from ..transports.streamable_http.event_store import MemoryEventStore

log = logging.getLogger(__name__)

Authenticate = Callable[[HttpRequest], Awaitable[str | None] | str | None]
"""A function, async or not, that returns a request's caller (principal: a non-empty string), or None for a 401.

The body of the request has not arrived yet, so `request.body` is empty.
"""


class HttpOptions(TypedDict, total=False):
    """The options of a server over HTTP. The default of each option is in brackets."""

    path: str
    """The path of Streamable HTTP. ["/mcp"]"""
    http_sse: bool
    """True to serve HTTP+SSE too. Its paths are `sse` and `messages` in the parent folder of `path`. [True]"""
    json_responses: bool
    """True to send each response as JSON, not as a stream. Progress and log messages then use the stream of a GET
    request in the legacy era, and are dropped in the modern era. Subscriptions always use a stream. [False]"""
    allowed_hosts: Collection[str]
    """Allowed values of the Host header, with or without port; "*" for any. [the loopback names, and `host`]"""
    allowed_origins: Collection[str]
    """Origins of the web pages that can use the server, such as "https://app.example"; "*" for any. [loopback]"""
    authenticate: Authenticate
    """A function that returns the principal of a request, or None to refuse the request with 401. [none]"""
    authorization: Protection
    """The protection of this server by access tokens, instead of `authenticate`. [no authorization]"""
    store: MemoryEventStore
    """The store of sent events. After a lost connection, a client resumes its stream from this store. [in memory]"""
    routes: Mapping[str, RouteHandler]
    """Further paths and their handlers, such as `{"/health": health}`, without authentication. [none]"""
    health: bool
    """True to serve `/livez`, `/readyz` and `/metrics` too, for load balancers (health.py). [False]"""
    trusted_proxies: Collection[str]
    """Addresses and networks of your proxies, such as "10.0.0.0/8". A client's address, for `context.http` and for all
    limits of a caller, is then the one in their `Forwarded` or `X-Forwarded-For` (lib/http/proxies.py). [none]"""
    limits: EndpointLimits
    """Limits on sessions, streams and times. [`EndpointLimits()`]"""


_HOST: Final = re.compile(r"\*|[^\s/*@]+")
_ORIGIN: Final = re.compile(r"(?i)\*|null|file://|(?!https://.*:443$|http://.*:80$)[a-z][a-z0-9+.-]*://[^\s/?#*@]+")
"""The form of the `Origin` header: neither a path nor the default port. Android's web views send `file://`."""


def check_http_options(options: HttpOptions) -> None:
    """Raise TypeError for a wrong name or type, and ValueError for a path, host or origin that no request can have."""
    check_options(options, HttpOptions)  # a misspelled `authorization` must not leave the server open
    path = options.get("path", "")
    if path and not is_path(path):  # an empty path is requested as "/"
        raise ValueError(f"path must be like '/mcp', percent-encoded, not {path[:100]!r}")
    for host in options.get("allowed_hosts", ()):
        if not _HOST.fullmatch(host):
            raise ValueError(f"an allowed host must be like 'app.example' or 'app.example:8000', not {host[:100]!r}")
    for origin in options.get("allowed_origins", ()):
        if not _ORIGIN.fullmatch(origin):
            why = "without a path and a default port"
            raise ValueError(f"an allowed origin must be like 'https://app.example', {why}, not {origin[:100]!r}")


def authorization_of(options: HttpOptions, needs_scopes: bool) -> tuple[Protection | None, Authorize | None]:
    """Return the protection, and the function that checks callers, if any. Raise ValueError for a contradiction.

    Args:
        options: The options of the server.
        needs_scopes: True if a tool, resource or prompt needs scopes, so that the server needs the protection.
    """
    authenticate, protection = options.get("authenticate"), options.get("authorization")
    if protection is not None:
        if authenticate is not None:
            raise ValueError("a server has either authorization= or authenticate=, not both")
        return protection, protection.authorize
    if authenticate is not None:
        return None, authorized_by(authenticate)
    if needs_scopes:
        raise ValueError("a tool, resource or prompt has scopes=, so the server needs authorization=Protection(...)"
                         "; the command `run` needs --issuer and --resource")  # fmt: skip
    return None, None


def authorized_by(authenticate: Authenticate) -> Authorize:
    """Return the `Authorize` function for an author's `authenticate` function. Its principals have no scopes."""
    reported: set[type] = set()  # types of wrong results, each of which is logged once

    async def authorize(request: HttpRequest) -> Access:
        name = authenticate(request)
        if inspect.isawaitable(name):
            name = await name
        if not isinstance(name, str) or not name:
            if name is not None and type(name) not in reported:
                reported.add(type(name))
                log.error("authenticate returned %.100r; it must return a non-empty string, or None to refuse", name)
            headers = [("WWW-Authenticate", "Bearer")]
            raise AccessRefused(401, "authentication required: send an Authorization header", headers)
        access = Access()
        access.principal = Principal("", name)
        access.id = access.principal.id
        return access

    return authorize
