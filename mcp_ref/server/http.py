"""A server over HTTP: the paths of its endpoints, and the start and end of serving.

    /mcp                 Streamable HTTP
    /sse, /messages      HTTP+SSE, for clients of 2024-11-05

By default a server listens only on loopback, and refuses requests with another host or origin. Otherwise a web page
could point its own domain name to 127.0.0.1 (DNS rebinding), and the user's browser would let the page use the local
server [2025-11-25 basic/transports#security-warning].

Streamable HTTP replaced HTTP+SSE in 2025-03-26 [2025-03-26 changelog#major-changes]. A server may serve both, for old
clients [2025-11-25 basic/transports#backwards-compatibility].

Spec:  basic/transports#backwards-compatibility (2025-03-26 to 2025-11-25)
Above: server.py. Below: transports/streamable_http/, transports/http_sse/, lib/http/.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection
from functools import partial
from ssl import SSLContext
from typing import TYPE_CHECKING, Final, TypedDict, Unpack

from ..jsonrpc.dispatcher import Limits
from ..lib.http.asgi import application as application
from ..lib.http.message import Exchange, HttpLimits, bracket_ipv6
from ..lib.http.server import serve as serve_sockets
from ..transports.base import Trace
from ..transports.http_sse.server import SseEndpoint
from ..transports.streamable_http.checks import JSON_TYPE, LOOPBACK, Authenticate, HttpRefusal, RequestChecks
from ..transports.streamable_http.server import StreamableHttpEndpoint
from ..transports.streamable_http.session import EndpointLimits
from ..transports.trace import trace_from_environment
from . import stateless
from .catalog import Catalog, OpenSubscriptions
from .session import serve

if TYPE_CHECKING:
    from ..transports.streamable_http.event_store import EventStore

FINISH_SECONDS: Final = 1.0
"""Time that responses may still take when the server stops, in seconds."""

_ALL_ADDRESSES: Final = frozenset({"", "0.0.0.0", "::"})


class HttpOptions(TypedDict, total=False):
    """The options of a server over HTTP, with the defaults in brackets."""

    path: str
    """The path of Streamable HTTP. ["/mcp"]"""
    http_sse: bool
    """True to serve HTTP+SSE too, at `sse` and `messages` in the folder of `path`. [True]"""
    json_responses: bool
    """True to send JSON responses only, without streams. Progress and log messages then go to the stream of a GET, or,
    in 2026-07-28, are dropped. Subscriptions are streams anyway. [False]"""
    allowed_hosts: Collection[str]
    """Names of the server, with or without port; "*" for any. [those of loopback, and `host`]"""
    allowed_origins: Collection[str]
    """Origins whose web pages may use the server, such as "https://app.example"; "*" for any. [those of loopback]"""
    authenticate: Authenticate
    """A function that returns the principal of a request, or None to refuse it with 401. [no authentication]"""
    store: EventStore
    """The store of the events that a client can resume from. [in memory]"""
    limits: EndpointLimits
    """Limits on sessions, streams and times."""


class HttpApp:
    """A server over HTTP, without sockets: `handle` serves one HTTP request, from our own sockets or from ASGI."""

    def __init__(
        self,
        catalog: Catalog,
        session_limits: Limits | None = None,
        trace: Trace | None = None,
        **options: Unpack[HttpOptions],
    ) -> None:
        self._catalog = catalog
        self.path = options.get("path", "/mcp")
        trace = trace or trace_from_environment()
        limits = options.get("limits") or EndpointLimits()
        hosts, origins = options.get("allowed_hosts"), options.get("allowed_origins")
        authenticate = options.get("authenticate")
        self._subscriptions = OpenSubscriptions(shares_stream=False)
        # [2026-07-28 basic/transports/streamable-http] the modern era has no GET and no DELETE
        methods = ("GET", "POST", "DELETE") if catalog.legacy_revisions else ("POST",)
        # The endpoint checks a stateless request against its HTTP headers, so a session never serves one.
        serve_session = partial(serve, catalog, limits=session_limits, serves_stateless=False)
        self._endpoint = StreamableHttpEndpoint(
            serve_session,
            checks=RequestChecks(hosts, origins, methods, catalog.legacy_revisions, catalog.is_modern),
            json_responses=options.get("json_responses", False),
            store=options.get("store"),
            limits=limits,
            authenticate=authenticate,
            trace=trace,
            stateless=partial(stateless.serve, catalog, self._subscriptions) if catalog.is_modern else None,
            parameters=catalog.tools.parameter_headers,
            session_revisions=catalog.legacy_revisions,
        )
        self._http_sse: SseEndpoint | None = None
        if options.get("http_sse", True) and catalog.legacy_revisions:
            parent = self.path.rstrip("/").rpartition("/")[0]
            paths = f"{parent}/sse", f"{parent}/messages"
            if self.path in paths:
                raise ValueError(f"{self.path} is where HTTP+SSE is served: choose another path, or http_sse=False")
            # [2026-07-28 basic/transports/streamable-http#httpsse-transport-2024-11-05] for legacy clients only
            self._http_sse = SseEndpoint(
                serve_session,
                *paths,
                hosts=hosts,
                origins=origins,
                limits=limits,
                authenticate=authenticate,
                trace=trace,
            )
        catalog.serving.add(self)

    async def handle(self, exchange: Exchange) -> None:
        """Serve one HTTP request."""
        path = exchange.request.path
        if path == self.path:
            await self._endpoint.handle(exchange)
        elif self._http_sse is not None and path in self._http_sse.paths:
            await self._http_sse.handle(exchange)
        else:
            refused = HttpRefusal(404, f"there is nothing at {path[:200]!r}; the MCP endpoint is {self.path}")
            await exchange.respond(404, [("Content-Type", JSON_TYPE)], refused.body())

    async def close(self) -> None:
        """End all sessions and subscriptions."""
        endings = [self._subscriptions.end(), self._endpoint.close()]
        if self._http_sse is not None:
            endings.append(self._http_sse.close())
        await asyncio.gather(*endings)
        await self._catalog.remove_serving(self)


@contextlib.asynccontextmanager
async def serve_http(
    catalog: Catalog,
    session_limits: Limits | None,
    trace: Trace | None,
    host: str,
    port: int,
    ssl: SSLContext | None,
    http_limits: HttpLimits | None,
    **options: Unpack[HttpOptions],
) -> AsyncIterator[str]:
    """Listen while the `async with` block runs. The value is the URL of the MCP endpoint."""
    if "allowed_hosts" not in options and host not in _ALL_ADDRESSES:
        options["allowed_hosts"] = LOOPBACK | {bracket_ipv6(host)}
    app = HttpApp(catalog, session_limits, trace, **options)
    listening = await serve_sockets(app.handle, host, port, ssl, http_limits)
    try:
        name, actual = listening.address
        shown = "127.0.0.1" if name == "0.0.0.0" else "::1" if name == "::" else name
        yield f"{'https' if ssl else 'http'}://{bracket_ipv6(shown)}:{actual}{app.path}"
    finally:
        await app.close()  # before the sockets: they wait for the streams to end
        await listening.close(FINISH_SECONDS)
        await catalog.remove_serving(app)  # again: a request in flight may have become a task
