"""The middleware for OpenTelemetry: its spans continue the trace that a client names in `_meta` or in a header."""

from __future__ import annotations

import pytest

from mcp_ref import Client, RemoteError, Server, ToolError
from tests.many_machines.conftest import need
from tests.settings import MODERN

TRACE = "0af7651916cd43dd8448eb211c80319c"
OTHER = "1" * 32


def named(trace: str) -> str:
    return f"00-{trace}-b7ad6b7169203331-01"


@pytest.mark.breaks("trace_context")
async def test_span_of_a_request_continues_the_trace_of_meta_or_else_of_the_header() -> None:
    need("opentelemetry.sdk")
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    from tracing import traced

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    server = Server("s")
    server.middleware(traced)

    @server.tool()
    async def work(good: bool) -> str:
        if not good:
            raise ToolError("broken")
        return "done"

    async with (
        server.serve_http() as url,
        Client(url, revision=MODERN, headers={"traceparent": named(OTHER)}) as client,
    ):
        await client.call_tool("work", {"good": True}, meta={"traceparent": named(TRACE)})
        await client.call_tool("work", {"good": False}, meta={"traceparent": "rubbish"})
        await client.call_tool("work", {"good": False})
        with pytest.raises(RemoteError):
            await client.call_tool("unknown")
    spans = [span for span in exporter.get_finished_spans() if span.name.startswith("tools/call")]
    assert [span.name for span in spans] == ["tools/call work"] * 3 + ["tools/call unknown"]
    traces = [f"{span.context.trace_id:032x}" for span in spans]
    assert traces[0] == TRACE and traces[1] not in (TRACE, OTHER) and traces[2:] == [OTHER] * 2
    assert [span.status.is_ok for span in spans] == [True, False, False, False]
