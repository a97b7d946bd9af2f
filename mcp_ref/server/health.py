"""The health of a server over HTTP, for load balancers, Kubernetes and Prometheus: `server.run_http(health=True)`.

    GET /livez      200 as long as the process responds. If it does not, restart the process.
    GET /readyz     200 if new clients can connect. 503 while the lifespan (lifespan.py) fails, and after SIGTERM:
                    a load balancer then sends requests to another process.
    GET /metrics    the numbers of `Server.stats()`, in the text format of Prometheus

A load balancer and Kubernetes send the address of the process as `Host`, which `allowed_hosts=` rarely contains, so
these paths accept every `Host`. They need no authentication either, because they show nothing but counts. If the counts
are a secret, do not let the load balancer forward `/metrics` to the internet.

Threats:
    rebinding-health: A web page whose host name points to its visitor's machine reads the state of a server there,
        because the paths accept every `Host`. They change nothing and show nothing but counts, and the server refuses a
        request whose `Origin` is not allowed.

Used by: http.py. Uses: service.py (`ServerStats`)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..lib.http.message import HttpRequest
from ..transports.streamable_http.server import StreamableHttpEndpoint
from ..transports.streamable_http.session import CONNECTED
from .routes import RouteHandler, RouteResponse
from .service import Membership, ServerStats

NOTICE_SECONDS: Final = 1.0
"""Minimum time from SIGTERM to the end of the server, in seconds, in which load balancers notice that `/readyz` has
changed. Until then, they still send requests, which the server still serves."""

METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
"""The media type of the text format of Prometheus."""

METRICS: Final = (
    ("mcp_sessions", "gauge", "Open sessions of the legacy era.", {"": "sessions"}),
    ("mcp_streams", "gauge", "Open event streams of both eras.", {"": "streams"}),
    ("mcp_requests_in_flight", "gauge", "Requests without a response yet.",
     {'{era="legacy"}': "legacy_in_flight", '{era="modern"}': "modern_in_flight"}),
    ("mcp_requests_total", "counter", "Requests since the start of the process.",
     {'{era="legacy"}': "legacy_served", '{era="modern"}': "modern_served"}),
    ("mcp_unsaved_sessions", "gauge", "Sessions with changes that are not in the event store yet.",
     {"": "unsaved_sessions"}),
    ("mcp_unpublished_changes", "gauge", "Changes that the other processes do not know yet.",
     {"": "unpublished_changes"}),
    ("mcp_broadcast_lag_seconds", "gauge", "Age of the oldest unpublished change.", {"": "broadcast_lag"}),
)  # fmt: skip
"""Name, type and meaning of each metric, and its values: the label of each value -> the field of `ServerStats`."""


def metrics_text(stats: ServerStats) -> str:
    """Return the numbers in the text format of Prometheus."""
    lines = []
    for name, kind, meaning, values in METRICS:
        lines += [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}"]
        lines += [f"{name}{label} {getattr(stats, field)}" for label, field in values.items()]
    return "\n".join(lines) + "\n"


def add_endpoint_stats(endpoint: StreamableHttpEndpoint, stats: ServerStats) -> None:
    """Add the streams, requests and unsaved sessions of an endpoint to the numbers of its server."""
    for session in endpoint.sessions.values():
        stats.streams += sum(stream.state is CONNECTED for stream in session.streams.values())
    stats.modern_in_flight += len(endpoint.requests)
    stats.unsaved_sessions += endpoint.table.store.unsaved_sessions


def health_routes(
    membership: Membership, is_draining: Callable[[], bool], stats: Callable[[], ServerStats]
) -> dict[str, RouteHandler]:
    """Return the handlers of `/livez`, `/readyz` and `/metrics`.

    Args:
        membership: Lets the HTTP application join the service, whose first member starts the lifespan.
        is_draining: Function that returns True when the application begins no more sessions.
        stats: Function that returns the numbers for `/metrics`.
    """

    async def live(request: HttpRequest) -> str:
        return "live\n"

    async def ready(request: HttpRequest) -> RouteResponse:
        if is_draining():
            return RouteResponse(503, {}, "not ready: the server is draining\n")
        if not await membership.try_to_begin():
            return RouteResponse(503, {}, "not ready: the lifespan of the server has failed\n")
        return RouteResponse(body="ready\n")

    async def metrics(request: HttpRequest) -> RouteResponse:
        return RouteResponse(200, {"Content-Type": METRICS_TYPE}, metrics_text(stats()))

    return {"/livez": live, "/readyz": ready, "/metrics": metrics}
