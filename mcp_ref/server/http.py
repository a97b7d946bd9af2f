"""A server on the web: which path leads to which endpoint, and how it begins and ends.

    /mcp                 Streamable HTTP
    /sse, /messages      the older HTTP+SSE, for clients of 2024-11-05

    async with server.serve_http(port=8000) as url: ...       in a program of your own
    server.run_http(port=8000)                                as the whole program
    app = server.asgi()                                       under uvicorn or hypercorn, mounted in Starlette

Spec:  basic/transports#backwards-compatibility (2025-03-26 to 2025-11-25): both transports beside each other
Above: server.py. Below: basic/transports/{streamable_http,http_sse}.py, mcp_ref/http
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Collection
from functools import partial
from ssl import SSLContext
from typing import TYPE_CHECKING, Final, TypedDict, Unpack

from ..lib.http.message import Exchange, HttpLimits, bracketed
from ..lib.http.server import serve
from ..transports.http_sse.server import SseEndpoint
from ..transports.streamable_http.checks import JSON_TYPE, LOOPBACK, Authenticate, HttpRefusal, RequestChecks
from ..transports.streamable_http.server import StreamableHttpEndpoint
from ..transports.streamable_http.session import EndpointLimits
from ..transports.trace import trace_from_environment
from .subscriptions import Subscriptions

if TYPE_CHECKING:
    from ..transports.streamable_http.event_store import EventStore
    from .server import Server

log = logging.getLogger(__name__)

GRACE: Final = 1.0
"""Seconds that answers under way may take when the server stops."""

_EVERYWHERE: Final = frozenset({"", "0.0.0.0", "::"})


class HttpOptions(TypedDict, total=False):
    """How a server is offered over HTTP. What is not said has the value in brackets."""

    path: str
    """Where Streamable HTTP is served. ["/mcp"]"""
    older: bool
    """Whether HTTP+SSE is served too, at /sse and /messages beside that path. [True]"""
    json_responses: bool
    """Answer requests by JSON alone, without streams; see `Endpoint`. In 2026-07-28, where nothing listens beside a
    request, progress and log messages are left out then; subscriptions are streams all the same. [False]"""
    allowed_hosts: Collection[str]
    """Names by which the server may be reached, with or without port; "*" for any. [those of loopback, and `host`]"""
    allowed_origins: Collection[str]
    """Origins whose web pages may use it, such as "https://app.example"; "*" for any. [those of loopback]"""
    authenticate: Authenticate
    """Says who sends a request; None for nobody we know, who gets 401. [everybody is the same]"""
    store: EventStore
    """Keeps events for clients that lost their connection. [in memory]"""
    limits: EndpointLimits
    """Sessions, streams, and times."""


class HttpApp:
    """What a server offers over HTTP. `handle` answers every request, whoever owns the sockets."""

    def __init__(self, server: Server, **options: Unpack[HttpOptions]) -> None:
        self._server = server
        self.path = options.get("path", "/mcp")
        trace = server.trace or trace_from_environment()
        limits = options.get("limits") or EndpointLimits()
        hosts, origins = options.get("allowed_hosts"), options.get("allowed_origins")
        authenticate = options.get("authenticate")
        modern = server.serves_stateless
        self._subscriptions = Subscriptions(shared=False)
        # [2026-07-28 basic/transports/streamable-http] there is no GET in the stateless era, and no DELETE
        methods = ("GET", "POST", "DELETE") if server.handshakes else ("POST",)
        # What stands alone is held to its headers, and so never a session's affair, not even in one of its batches.
        serve_session = partial(server.serve, modern=False)
        self._endpoint = StreamableHttpEndpoint(
            serve_session,
            checks=RequestChecks(hosts, origins, methods, server.handshakes, modern),
            json_responses=options.get("json_responses", False),
            store=options.get("store"),
            limits=limits,
            authenticate=authenticate,
            trace=trace,
            stateless=partial(server.serve_stateless, subscriptions=self._subscriptions) if modern else None,
            parameters=server.parameter_headers,
            handshakes=server.handshakes,
        )
        self._older: SseEndpoint | None = None
        if options.get("older", True) and server.handshakes:
            parent = self.path.rstrip("/").rpartition("/")[0]
            paths = f"{parent}/sse", f"{parent}/messages"
            if self.path in paths:
                raise ValueError(f"{self.path} is where HTTP+SSE is served: choose another path, or older=False")
            self._older = SseEndpoint(
                # [2026-07-28 basic/transports/streamable-http#httpsse-transport-2024-11-05] for older clients alone
                serve_session,
                *paths,
                hosts=hosts,
                origins=origins,
                limits=limits,
                authenticate=authenticate,
                trace=trace,
            )
        server.sites.add(self)

    async def handle(self, exchange: Exchange) -> None:
        """Answer one HTTP request."""
        path = exchange.request.path
        if path == self.path:
            await self._endpoint.handle(exchange)
        elif self._older is not None and path in self._older.paths:
            await self._older.handle(exchange)
        else:
            refused = HttpRefusal(404, f"there is nothing at {path[:200]!r}; the MCP endpoint is {self.path}")
            await exchange.respond(404, [("Content-Type", JSON_TYPE)], refused.body())

    async def close(self) -> None:
        """End all conversations."""
        endings = [self._subscriptions.end(), self._endpoint.close()]
        if self._older is not None:
            endings.append(self._older.close())
        await asyncio.gather(*endings)
        self._server.sites.discard(self)
        await self._server.end_tasks()


@contextlib.asynccontextmanager
async def serving(
    server: Server,
    host: str,
    port: int,
    ssl: SSLContext | None,
    http_limits: HttpLimits | None,
    options: HttpOptions,
) -> AsyncIterator[str]:
    """Listen while the block runs; gives the URL of the MCP endpoint."""
    if "allowed_hosts" not in options and host not in _EVERYWHERE:
        options["allowed_hosts"] = LOOPBACK | {bracketed(host)}
    site = HttpApp(server, **options)
    listening = await serve(site.handle, host, port, ssl, http_limits)
    try:
        name, actual = listening.address
        shown = "127.0.0.1" if name == "0.0.0.0" else "::1" if name == "::" else name
        yield f"{'https' if ssl else 'http'}://{bracketed(shown)}:{actual}{site.path}"
    finally:
        await site.close()  # first: streams would keep the listener waiting
        await listening.close(GRACE)
        await server.end_tasks()  # what was under way may have become one
