"""A span of OpenTelemetry for each request, so that a trace of the client continues in the node that serves it.

    server.middleware(traced)

A client names its trace in `traceparent`: in the `_meta` of a request (2026-07-28), or in a header of its HTTP request.
The header can also come from the load balancer. `_meta` is the client's own, so it counts if both are present.
Configure the exporter as usual, for example with `opentelemetry-instrument`. Needs the package opentelemetry-api.
"""

from __future__ import annotations

from typing import Any, Final

from opentelemetry import trace
from opentelemetry.propagate import extract
from opentelemetry.trace import SpanKind, Status, StatusCode

from mcp_ref import Context, Proceed, ServedRequest

FIELDS: Final = ("traceparent", "tracestate", "baggage")


async def traced(request: ServedRequest, context: Context, proceed: Proceed) -> object:
    """Serve a request in a span, whose parent is the client's span."""
    headers: Any = context.http.headers if context.http is not None else {}
    given = {name: context.meta.get(name) or headers.get(name) for name in FIELDS}
    parent = extract({name: value for name, value in given.items() if isinstance(value, str)})
    tool = getattr(request.params, "name", None)  # or a prompt
    span_name = request.method if tool is None else f"{request.method} {tool}"
    with trace.get_tracer("mcp_ref").start_as_current_span(
        span_name,
        parent,
        kind=SpanKind.SERVER,
        attributes={"mcp.method.name": request.method, "mcp.protocol.version": context.revision.name},
    ) as span:
        result = await proceed(request)
        if getattr(result, "is_error", False):  # a failed tool call is a result, not an exception
            span.set_status(Status(StatusCode.ERROR))
        return result
