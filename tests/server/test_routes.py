"""Routes: the author's own paths, beside the MCP endpoint."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mcp_ref import Client, HttpLimits, HttpRequest, Protection, RouteResponse, Server
from mcp_ref.lib.http.server import start_server
from mcp_ref.server.http import HttpApp
from mcp_ref.server.routes import METHODS, RouteHandler
from tests.http_wire import under_asgi
from tests.raw_http_client import ServedApp

KINDS = pytest.mark.parametrize("kind", ["http", "asgi"])


async def echo(request: HttpRequest) -> RouteResponse:
    seen = [request.method, request.path, request.query, request.headers.get("x-a"), request.body.decode()]
    return RouteResponse(201, {"X-B": "b", "Content-Type": "application/json"}, json.dumps(seen))


async def health(request: HttpRequest) -> dict[str, str]:
    return {"status": "ok"}


def text(request: HttpRequest) -> str:
    return f"<b>{threading.current_thread().name.rpartition('_')[0]}"


class Callable:
    async def __call__(self, request: HttpRequest) -> RouteResponse:
        return RouteResponse(body=b"\x00")


def wrong(result: object) -> RouteHandler:
    async def handler(request: HttpRequest) -> Any:
        return result

    return handler


ROUTES: Mapping[str, RouteHandler] = {
    "/echo": echo,
    "/health": health,
    "/text": text,
    "/callable": Callable(),
    "/none": wrong(None),
    "/nan": wrong({"load": float("nan")}),
    "/599": wrong(RouteResponse(599)),
    "/199": wrong(RouteResponse(199)),
    "/600": wrong(RouteResponse(600)),
    "/split": wrong(RouteResponse(headers={"X-A": "a\r\nSet-Cookie: b"})),
    "/length": wrong(RouteResponse(headers={"Content-Length": "7"})),
}


@asynccontextmanager
async def site(kind: str, server: Server | None = None, **options: Any) -> AsyncIterator[ServedApp]:
    """Serve the routes over our sockets, or as an ASGI application. Give a raw HTTP client."""
    server = server or Server("s")
    app = HttpApp(server.catalog, routes=ROUTES, **options)
    handler = app.handle if kind == "http" else under_asgi(server.asgi(routes=ROUTES, **options))
    listening = await start_server(handler, limits=HttpLimits(body_size=8 << 20))
    web = ServedApp(app, listening.address)
    try:
        yield web
    finally:
        await web.close()
        await listening.close(0.1)
        await server.close()


@KINDS
async def test_route_gets_the_request_and_returns_a_response(kind: str) -> None:
    async with site(kind) as web:
        reply = await web.ask("PUT", "/echo?a=1&b=%20", b"body", "X-A: a")
        assert (reply.status, reply.headers["x-b"]) == (201, "b")
        assert reply.json == ["PUT", "/echo", "a=1&b=%20", "a", "body"]
        reply = await web.ask("GET", "/health")
        assert (reply.status, reply.json) == (200, {"status": "ok"})
        reply = await web.ask("GET", "/text")
        assert (reply.status, reply.kind, reply.body) == (200, "text/plain; charset=utf-8", b"<b>mcp-worker")
        assert reply.headers["x-content-type-options"] == "nosniff"
        reply = await web.ask("GET", "/callable")
        assert (reply.status, reply.kind, reply.body) == (200, "application/octet-stream", b"\x00")
        assert (await web.ask("GET", "/health/")).status == 404


@KINDS
async def test_route_checks_host_origin_and_method(kind: str) -> None:
    async with site(kind) as web:
        assert (await web.ask("GET", "/health", host="evil.example")).status == 403
        assert (await web.ask("GET", "/health", b"", "Origin: https://evil.example")).status == 403
        reply = await web.ask("GET", "/health", b"", "Origin: http://localhost:5173")
        assert (reply.status, reply.headers["access-control-allow-origin"]) == (200, "http://localhost:5173")
        reply = await web.ask("OPTIONS", "/health", b"", "Origin: http://localhost:5173")
        assert (reply.status, reply.headers["access-control-allow-methods"]) == (204, ", ".join(METHODS))
        assert (await web.ask("TRACE", "/health")).status == 405
    async with site(kind, allowed_hosts=["api.example"], allowed_origins=["https://app.example"]) as web:
        assert (await web.ask("GET", "/health", b"", "Origin: https://app.example", host="api.example")).status == 200
        assert (await web.ask("GET", "/health", b"", "Origin: http://localhost:5173", host="api.example")).status == 403
        assert (await web.ask("GET", "/health")).status == 403


@KINDS
async def test_route_is_not_authenticated(kind: str) -> None:
    async def nobody(request: HttpRequest) -> str | None:
        return None

    async with site(kind, authenticate=nobody) as web:
        assert (await web.ask("GET", "/health")).status == 200
        assert (await web.ask("POST", "/mcp", b"{}", "Content-Type: application/json")).status == 401


async def test_route_body_is_limited_under_asgi() -> None:
    async with site("asgi") as web:
        assert (await web.ask("POST", "/echo", b"a" * (4 << 20))).status == 201
        assert (await web.ask("POST", "/echo", b"a" * (4 << 20) + b"a")).status == 413


async def test_route_body_is_limited_over_sockets() -> None:
    app = HttpApp(Server("s").catalog, routes=ROUTES)
    async with await start_server(app.handle, limits=HttpLimits(body_size=10)) as listening:
        web = ServedApp(app, listening.address)
        assert (await web.ask("POST", "/echo", b"a" * 10)).status == 201
        assert (await web.ask("POST", "/echo", b"a" * 11)).status == 413
        await web.close()
    await app.close()


async def test_route_responds_to_head_without_a_body() -> None:
    async with Server("s").serve_http(routes=ROUTES) as url:
        web = ServedApp(None, ("127.0.0.1", int(url.split(":")[2].split("/")[0])))  # type: ignore[arg-type]
        reply = await web.send("HEAD", "/health", b"", "Connection: close")
        head = await reply.reader.read()
        assert head.startswith(b"HTTP/1.1 200 ") and head.endswith(b"Content-Length: 16\r\n\r\n")
        await web.close()


@pytest.mark.parametrize(
    ("path", "fault"),
    [
        ("/none", "the route /none returned NoneType: it must return a str, a dict or a RouteResponse"),
        ("/nan", "Out of range float values are not JSON compliant"),
        ("/199", "the status of a response must be between 200 and 599, not 199"),
        ("/600", "the status of a response must be between 200 and 599, not 600"),
        ("/split", "the header 'X-A' cannot be sent"),
        ("/length", "the library itself writes the header Content-Length"),
    ],
)
@KINDS
async def test_route_with_an_invalid_response_is_status_500(
    kind: str, path: str, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with site(kind) as web:
        assert (await web.ask("GET", path)).status == 500
        assert (await web.ask("GET", "/599")).status == 599
    assert fault in caplog.text


@pytest.mark.parametrize("path", ["health", "", "/a?b", "/a#b", "/a b", "/ä", "/a\n"])
def test_route_with_a_path_that_cannot_be_requested_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="the path of a route must be like '/health'"):
        Server("s").asgi(routes={path: health})


@pytest.mark.parametrize("path", ["/mcp", "/mcp/", "/sse", "/messages", "/.well-known/oauth-protected-resource/mcp"])
def test_route_with_a_path_of_the_server_is_refused(path: str) -> None:
    async def verify(token: str) -> None:
        return None

    protection = Protection("https://api.example/mcp", ["https://login.example"], verify)
    with pytest.raises(ValueError, match=f"the server itself uses the path {path}"):
        Server("s").asgi(routes={path: health}, authorization=protection)
    Server("s").asgi(routes={"/sse": health}, http_sse=False)


async def test_route_reaches_the_state_of_the_lifespan() -> None:
    @asynccontextmanager
    async def connect(server: Server) -> AsyncIterator[str]:
        yield "connected"

    async def ready(request: HttpRequest) -> str:
        return str(server.state)

    server = Server("s", lifespan=connect)
    assert server.state is None
    async with server.serve_http(routes={"/ready": ready}) as url:
        web = ServedApp(None, ("127.0.0.1", int(url.split(":")[2].split("/")[0])))  # type: ignore[arg-type]
        assert (await web.ask("GET", "/ready")).body == b"connected"
        await web.close()
    assert server.state is None


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_route_leaves_the_mcp_endpoint_unchanged(revision: str) -> None:
    server = Server("s")
    server.tools.add(lambda: "ok", "work")
    async with server.serve_http(routes=ROUTES) as url, Client(url, revision=revision) as client:
        assert (await client.call_tool("work")).text == "ok"
