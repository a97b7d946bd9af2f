"""A server over HTTP. Each of the two HTTP transports has its own paths:

    /mcp                 Streamable HTTP
    /sse, /messages      HTTP+SSE, for clients of 2024-11-05
    /.well-known/oauth-protected-resource/mcp  metadata that tells clients where to get tokens (`authorization=`)
    /livez and others    for load balancers, with `health=True` (health.py)
    others               the author's `routes=` (routes.py)

By default a server listens only on the loopback address 127.0.0.1, and refuses a request whose Host or Origin header
names another machine (DNS rebinding, see checks.py) [2025-11-25 basic/transports#security-warning].

Streamable HTTP replaced HTTP+SSE in 2025-03-26 [2025-03-26 changelog#major-changes], but a server can support both, so
that old clients still work [2025-11-25 basic/transports#backwards-compatibility].

Spec:  basic/transports#backwards-compatibility (2025-03-26 to 2025-11-25)
"""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import Final, Unpack

from ..basic.access import Access
from ..jsonrpc.dispatcher import Limits
from ..lib.http.asgi import application as application  # for server.py
from ..lib.http.message import Exchange, Rest
from ..lib.http.proxies import TrustedProxies
from ..transports.base import Trace
from ..transports.http_sse.server import SseEndpoint
from ..transports.streamable_http.checks import JSON_HEADERS, CheckedRequest, HttpRefusal, RequestChecks, refuse
from ..transports.streamable_http.posted_session import RETRY_LATER, EndpointLimits
from ..transports.streamable_http.server import StreamableHttpEndpoint
from ..transports.system import chosen_trace
from . import stateless
from .announcements import OpenSubscriptions
from .catalog import Catalog
from .health import NOTICE_SECONDS, add_endpoint_stats, health_routes
from .http_options import HttpOptions, authorization_of, check_http_options
from .routes import METHODS, call_route, check_routes
from .service import Membership, ServerStats
from .session import begin

FINISH_SECONDS: Final = 1.0
"""Time for open responses to finish when the server stops, in seconds."""


class HttpApp:
    """A server over HTTP, without sockets: our own HTTP server or an ASGI server calls `handle` for each request."""

    def __init__(
        self, catalog: Catalog, session_limits: Limits | None = None, trace: Trace | None = None,
        **options: Unpack[HttpOptions],
    ) -> None:  # fmt: skip
        check_http_options(options)
        catalog.check()
        self._catalog, self._options, self._session_limits = catalog, options, session_limits
        self.path = options.get("path", "/mcp")
        self._endpoint_paths = (self.path, self.path + "/")  # users often write a slash at the end
        self._hosts, self._origins = options.get("allowed_hosts"), options.get("allowed_origins")
        self._protection, self._authorize = authorization_of(options, catalog.needs_scopes)
        self._trace = chosen_trace(trace, "server")
        self._open_endpoints()  # reads the attributes above
        # [2026-07-28 basic/authorization/authorization-server-discovery#authorization-server-location]
        # The metadata is public, so a web page of any origin can read it.
        self._document_checks = RequestChecks(self._hosts, ("*",), ("GET",), has_messages=False)
        self._proxies = TrustedProxies(options["trusted_proxies"]) if "trusted_proxies" in options else None
        self._membership = Membership(catalog.service, self, self._reopen)  # the service runs the lifespan
        health = health_routes(self._membership, lambda: self.is_draining, catalog.service.stats)
        self._health = health if options.get("health", False) else {}
        taken = [*self._endpoint_paths]
        for part in (self._http_sse, self._protection):
            taken += part.paths if part is not None else ()
        check_routes([*self._health, *options.get("routes", {})], taken)
        self._routes = {**options.get("routes", {}), **self._health}
        self._route_checks = RequestChecks(self._hosts, self._origins, METHODS, has_messages=False)
        self._health_checks = RequestChecks(("*",), self._origins, ("GET", "HEAD"), has_messages=False)
        self.reopens = False  # True to serve again after the lifespan has failed

    def _open_endpoints(self) -> None:
        catalog, options, limits = self._catalog, self._options, self._options.get("limits") or EndpointLimits()
        self._subscriptions = OpenSubscriptions()
        # [2026-07-28 basic/transports/streamable-http] modern requests use only POST
        methods = ("GET", "POST", "DELETE") if catalog.legacy_revisions else ("POST",)
        # The endpoint gets `stateless`, because it first compares a stateless request with its HTTP headers.
        begin_session = partial(begin, catalog, limits=self._session_limits)
        self._endpoint = StreamableHttpEndpoint(
            begin_session,
            checks=RequestChecks(self._hosts, self._origins, methods, catalog.revisions),
            json_responses=options.get("json_responses", False), store=options.get("store"), limits=limits,
            authorize=self._authorize, scopes=catalog, trace=self._trace,
            stateless=partial(stateless.serve_request, catalog, self._subscriptions) if catalog.serves_modern else None,
            parameters=catalog.tools.parameter_headers, id_prefix=catalog.service.id_prefix)  # fmt: skip
        self._http_sse: SseEndpoint | None = None
        if options.get("http_sse", True) and catalog.legacy_revisions:
            parent = self.path.rstrip("/").rpartition("/")[0]
            paths = f"{parent}/sse", f"{parent}/messages"
            if self.path in paths:
                raise ValueError(f"HTTP+SSE uses the path {self.path}: choose another path, or http_sse=False")
            # [2026-07-28 basic/transports/streamable-http#httpsse-transport-2024-11-05] only for legacy clients
            self._http_sse = SseEndpoint(
                begin_session, *paths, hosts=self._hosts, origins=self._origins, limits=limits, scopes=catalog,
                authorize=self._authorize, trace=self._trace, id_prefix=catalog.service.id_prefix)  # fmt: skip

    async def start(self) -> None:
        """Enter the server's lifespan (lifespan.py), unless it has been entered. Raise RuntimeError if it fails."""
        await self._membership.begin()

    def _reopen(self) -> None:  # called by `Service.fail`, when the lifespan has failed and all sessions have ended
        if self.reopens:
            self._membership.is_active = False  # so that the next request enters the lifespan again
            self._open_endpoints()

    def handle(self, exchange: Exchange) -> Rest:
        path = exchange.request.path
        if path in self._health:  # first, because `/livez` must respond even after a failed lifespan
            return self._health_checks.guard(exchange, None, self._serve_route)
        if not self._membership.is_active:
            return self._start_and_handle(exchange)
        if self._proxies is not None:
            self._proxies.set_client(exchange.request)
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
        """Serve the first request if `start` was not called (ASGI without lifespan events), or after a failure."""
        if not await self._membership.try_to_begin():
            return refuse(exchange, HttpRefusal(503, "the server's lifespan failed; try again later", RETRY_LATER), [])
        rest = self.handle(exchange)
        if rest is not None:
            await rest

    async def _serve_route(self, exchange: Exchange, checked: CheckedRequest, access: Access) -> None:
        handler = self._routes[exchange.request.path]
        status, headers, body = await call_route(handler, exchange.request, self._catalog.service.executor)
        exchange.respond(status, [*headers, *checked.cors], body)

    async def _send_metadata(self, exchange: Exchange, checked: CheckedRequest, access: Access) -> None:
        """Send the protected resource metadata, which names the configured resource, never the host in the request."""
        assert self._protection is not None
        exchange.respond(200, [*JSON_HEADERS, *checked.cors], json.dumps(self._protection.metadata()).encode())

    async def finish_requests(self, seconds: float) -> None:
        if self._http_sse is not None:
            self._http_sse.is_draining = True
        self._endpoint.table.drain()
        await self._subscriptions.end()
        notice = min(seconds, NOTICE_SECONDS) if self._health else 0.0  # for load balancers (health.py)
        await asyncio.gather(self._endpoint.wait_served(seconds), asyncio.sleep(notice))

    @property
    def is_draining(self) -> bool:
        return self._endpoint.table.is_draining

    def add_to(self, stats: ServerStats) -> None:
        stats.streams += len(self._subscriptions) + (len(self._http_sse.sessions) if self._http_sse else 0)
        add_endpoint_stats(self._endpoint, stats)

    async def end_sessions(self) -> None:
        """End the subscriptions, the sessions, and the stateless requests that last more than `FINISH_SECONDS`."""
        http_sse = [self._http_sse.close()] if self._http_sse is not None else []
        endpoint = self._endpoint
        await asyncio.gather(self._subscriptions.end(), endpoint.close(), endpoint.finish(FINISH_SECONDS), *http_sse)

    async def close(self) -> None:
        try:
            await self.end_sessions()
        finally:  # even if this task is cancelled meanwhile
            await self._catalog.service.remove(self)
