"""A server over HTTP. Each of the two HTTP transports has its own paths:

    /mcp                 Streamable HTTP
    /sse, /messages      HTTP+SSE, for clients of 2024-11-05
    /.well-known/oauth-protected-resource/mcp
                         the metadata of a server with `authorization=`, from which clients learn where to get tokens
    others               the author's `routes=` (routes.py)

By default a server listens only on the loopback address 127.0.0.1. The server also refuses a request whose Host or
Origin header names another machine. Without this check, a web page could point its own domain name to 127.0.0.1 (DNS
rebinding). The user's browser would then let the page use the local server
[2025-11-25 basic/transports#security-warning].

Streamable HTTP replaced HTTP+SSE in 2025-03-26 [2025-03-26 changelog#major-changes]. A server can support both
transports, so that old clients still work [2025-11-25 basic/transports#backwards-compatibility].

Spec:  basic/transports#backwards-compatibility (2025-03-26 to 2025-11-25)
Used by: server.py. Uses: transports/streamable_http/, transports/http_sse/, lib/http/.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Collection, Mapping
from functools import partial
from ssl import SSLContext
from typing import TYPE_CHECKING, Final, TypedDict, Unpack

from ..basic.access import Access
from ..jsonrpc.dispatcher import Limits
from ..jsonrpc.messages import Batch, Request, decode
from ..lib.fields import check_options
from ..lib.http.asgi import application as application
from ..lib.http.message import Exchange, HttpLimits, Rest, bracket_ipv6
from ..lib.http.proxies import TrustedProxies
from ..lib.http.server import start_server
from ..transports.base import Trace
from ..transports.http_sse.server import SseEndpoint
from ..transports.streamable_http.checks import (
    JSON_HEADERS,
    LOOPBACK,
    Authenticate,
    Authorize,
    CheckedRequest,
    HttpRefusal,
    RequestChecks,
    authorized_by,
    refuse,
)
from ..transports.streamable_http.posted_session import RETRY_LATER, EndpointLimits
from ..transports.streamable_http.server import StreamableHttpEndpoint
from ..transports.system import trace_from_environment
from . import stateless
from .announcements import OpenSubscriptions
from .catalog import Catalog
from .routes import METHODS, RouteHandler, call_route, check_routes
from .service import Membership
from .session import begin

if TYPE_CHECKING:
    from ..basic.authorization.server import Protection
    from ..transports.streamable_http.event_store import MemoryEventStore

FINISH_SECONDS: Final = 1.0
"""Time for open responses to finish when the server stops, in seconds."""

_ALL_ADDRESSES: Final = frozenset({"", "0.0.0.0", "::"})
_SMALL_RESULTS: Final = frozenset({"ping", "initialize", "server/discover", "logging/setLevel"})


class HttpOptions(TypedDict, total=False):
    """The options of a server over HTTP. The default of each option is in brackets."""

    path: str
    """The path of Streamable HTTP. ["/mcp"]"""
    http_sse: bool
    """True to serve HTTP+SSE too. Its paths are `sse` and `messages` in the parent folder of `path`. [True]"""
    json_responses: bool
    """True to send each response as JSON, not as a stream. In the legacy era, progress and log messages then use the
    stream of a GET request. In the modern era they are dropped. Subscriptions always use a stream. [False]"""
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
    trusted_proxies: Collection[str]
    """Addresses and networks of your proxies, such as "10.0.0.0/8". A client's address, for `context.http` and for all
    limits of a caller, is then the one in their `Forwarded` or `X-Forwarded-For` (lib/http/proxies.py). [none]"""
    limits: EndpointLimits
    """Limits on sessions, streams and times. [`EndpointLimits()`]"""


class HttpApp:
    """A server over HTTP, without sockets. Our own HTTP server or an ASGI server calls `handle` for each request."""

    def __init__(
        self, catalog: Catalog, session_limits: Limits | None = None, trace: Trace | None = None,
        **options: Unpack[HttpOptions],
    ) -> None:  # fmt: skip
        check_options(options, HttpOptions)  # a misspelled `authorization` must not leave the server open
        catalog.check()
        self._catalog = catalog
        self.path = options.get("path", "/mcp")
        self._endpoint_paths = (self.path, self.path + "/")  # users often write a slash at the end
        hosts, origins = options.get("allowed_hosts"), options.get("allowed_origins")
        self._open_endpoints = partial(
            self._open, session_limits, trace or trace_from_environment(), options, self._choose_authorization(options)
        )
        self._open_endpoints()
        # [2026-07-28 basic/authorization/authorization-server-discovery#authorization-server-location]
        # The metadata is public, so a web page of any origin can read it.
        self._document_checks = RequestChecks(hosts, ("*",), ("GET",), has_messages=False)
        self._proxies = TrustedProxies(options["trusted_proxies"]) if "trusted_proxies" in options else None
        self._routes = dict(options.get("routes", {}))
        taken = [*self._endpoint_paths, *(self._http_sse.paths if self._http_sse is not None else ())]
        check_routes(self._routes, [*taken, *(self._protection.paths if self._protection is not None else ())])
        self._route_checks = RequestChecks(hosts, origins, METHODS, has_messages=False)
        self.reopens = False
        """True to serve again after the lifespan has ended by itself."""
        self._membership = Membership(catalog.service, self, self._reopen)

    def _open(
        self, session_limits: Limits | None, trace: Trace | None, options: HttpOptions, authorize: Authorize | None
    ) -> None:
        """Create the endpoints. After `close`, they serve nothing more."""
        catalog, limits = self._catalog, options.get("limits") or EndpointLimits()
        hosts, origins = options.get("allowed_hosts"), options.get("allowed_origins")
        self._subscriptions = OpenSubscriptions(shares_stream=False)
        # [2026-07-28 basic/transports/streamable-http] modern requests use only POST
        methods = ("GET", "POST", "DELETE") if catalog.legacy_revisions else ("POST",)
        # The endpoint itself serves stateless requests, because it must compare them with their HTTP headers.
        begin_session = partial(begin, catalog, limits=session_limits)
        self._endpoint = StreamableHttpEndpoint(
            begin_session,
            checks=RequestChecks(hosts, origins, methods, catalog.revisions),
            json_responses=options.get("json_responses", False), store=options.get("store"), limits=limits,
            authorize=authorize, scopes=catalog, trace=trace,
            stateless=partial(stateless.serve_request, catalog, self._subscriptions) if catalog.is_modern else None,
            parameters=catalog.tools.parameter_headers,
        )  # fmt: skip
        self._http_sse: SseEndpoint | None = None
        if options.get("http_sse", True) and catalog.legacy_revisions:
            parent = self.path.rstrip("/").rpartition("/")[0]
            paths = f"{parent}/sse", f"{parent}/messages"
            if self.path in paths:
                raise ValueError(f"HTTP+SSE uses the path {self.path}: choose another path, or http_sse=False")
            # [2026-07-28 basic/transports/streamable-http#httpsse-transport-2024-11-05] only for legacy clients
            self._http_sse = SseEndpoint(
                begin_session, *paths, hosts=hosts, origins=origins, limits=limits, authorize=authorize,
                scopes=catalog, trace=trace,
            )  # fmt: skip

    def _choose_authorization(self, options: HttpOptions) -> Authorize | None:
        """Return the function that checks callers, if any. Raise ValueError if scopes are needed without it."""
        authenticate, self._protection = options.get("authenticate"), options.get("authorization")
        if self._protection is not None:
            if authenticate is not None:
                raise ValueError("a server has either authorization= or authenticate=, not both")
            return self._protection.authorize
        if authenticate is not None:
            return authorized_by(authenticate)
        if self._catalog.needs_scopes:
            raise ValueError("a tool, resource or prompt has scopes=, so the server needs authorization=Protection(...)"
                             "; the command `run` needs --issuer and --resource")  # fmt: skip
        return None

    async def start(self) -> None:
        """Enter the lifespan of the server, if it is not entered. Raise RuntimeError if the lifespan fails."""
        await self._membership.begin()

    def _reopen(self) -> None:
        if self.reopens:
            self._membership.is_active = False
            self._open_endpoints()

    def handle(self, exchange: Exchange) -> Rest:
        """Serve one HTTP request."""
        if not self._membership.is_active:
            return self._start_and_handle(exchange)
        if self._proxies is not None:
            self._proxies.set_client(exchange.request)
        path = exchange.request.path
        if self._protection is not None and exchange.request.root + path in self._protection.paths:
            return self._document_checks.guard(exchange, None, self._send_metadata)
        if path in self._endpoint_paths:
            return self._endpoint.handle(exchange)
        if self._http_sse is not None and path in self._http_sse.paths:
            return self._http_sse.handle(exchange)
        if path in self._routes:
            return self._route_checks.guard(exchange, None, self._serve_route)
        root = exchange.request.root  # the path at which a framework has mounted `asgi()`
        refused = HttpRefusal(404, f"there is nothing at {root + path[:200]!r}; the MCP endpoint is {root}{self.path}")
        refuse(exchange, refused, [])
        return None

    async def _start_and_handle(self, exchange: Exchange) -> None:
        """Serve the first request without a call of `start` (ASGI without lifespan events), or after a failure."""
        if not await self._membership.try_to_begin():
            return refuse(exchange, HttpRefusal(503, "the server's lifespan failed; try again later", RETRY_LATER), [])
        if (rest := self.handle(exchange)) is not None:
            await rest

    async def _serve_route(self, exchange: Exchange, checked: CheckedRequest, access: Access) -> None:
        handler = self._routes[exchange.request.path]
        status, headers, body = await call_route(handler, exchange.request, self._catalog.service.executor)
        exchange.respond(status, [*headers, *checked.cors], body)

    async def _send_metadata(self, exchange: Exchange, checked: CheckedRequest, access: Access) -> None:
        """Send the protected resource metadata. It names the configured resource, never the host in the request."""
        assert self._protection is not None
        exchange.respond(200, [*JSON_HEADERS, *checked.cors], json.dumps(self._protection.metadata()).encode())

    async def end_sessions(self) -> None:
        """End all sessions and subscriptions, and begin no others."""
        endings = [self._subscriptions.end(), self._endpoint.close()]
        if self._http_sse is not None:
            endings.append(self._http_sse.close())
        await asyncio.gather(*endings)

    async def close(self) -> None:
        """End all sessions, subscriptions and tasks. Requests in flight have `FINISH_SECONDS` to finish."""
        await self.end_sessions()
        await self._endpoint.finish(FINISH_SECONDS)
        await self._catalog.service.remove(self)


def has_small_result(body: bytes) -> bool:
    """Return True if the message in a POST has no result, or a result that is always small."""
    message = decode(body)
    return message.method in _SMALL_RESULTS if isinstance(message, Request) else not isinstance(message, Batch)


@contextlib.asynccontextmanager
async def serve_http(
    catalog: Catalog, session_limits: Limits | None, trace: Trace | None, host: str, port: int,
    ssl: SSLContext | None, http_limits: HttpLimits | None, **options: Unpack[HttpOptions],
) -> AsyncIterator[str]:  # fmt: skip
    """Serve over HTTP while the `async with` block runs. Yield the URL of the MCP endpoint."""
    if "allowed_hosts" not in options and host not in _ALL_ADDRESSES:
        options["allowed_hosts"] = LOOPBACK | {bracket_ipv6(host)}
    app = HttpApp(catalog, session_limits, trace, **options)
    try:
        await app.start()
        listening = await start_server(app.handle, host, port, ssl, http_limits, has_small_result)
        try:
            name, bound_port = listening.address
            shown = "127.0.0.1" if name == "0.0.0.0" else "::1" if name == "::" else name
            yield f"{'https' if ssl else 'http'}://{bracket_ipv6(shown)}:{bound_port}{app.path}"
        finally:
            await app.end_sessions()  # first, because `listening.close` waits until all streams have ended
            await listening.close(FINISH_SECONDS)
    finally:
        await app.close()
