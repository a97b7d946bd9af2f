"""Routes: further paths of a server over HTTP, for example for a health check or the callback of another service.

    async def health(request: HttpRequest) -> dict[str, object]:
        return {"status": "ok"}

    server.run_http(routes={"/health": health})

The server checks `Host` and `Origin` of every request, even for a route, so a load balancer that sends another `Host`
needs `allowed_hosts=`. But it never authenticates the caller of a route, not even with `authorization=`. If a handler
needs to know its caller, it must check the request itself.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from ..lib.fields import CheckedFields
from ..lib.http.framing import RESERVED_HEADERS, encode_head
from ..lib.http.message import HeaderList, HttpRequest

METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
"""The HTTP methods that reach a route's handler. The server responds to `OPTIONS` itself, and refuses any other."""


@dataclass(frozen=True, slots=True)
class RouteResponse(CheckedFields):
    """The response of a route. A str is sent as UTF-8."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    """The headers. Without `Content-Type`, a str is `text/plain`, and bytes are `application/octet-stream`."""
    body: str | bytes = b""


RouteResult: TypeAlias = RouteResponse | str | Mapping[str, object]
"""The return value of a handler. A str is a body of type `text/plain`, and a dict one of type `application/json`."""

RouteHandler: TypeAlias = Callable[[HttpRequest], Awaitable[RouteResult] | RouteResult]
"""An author's function that responds to the requests of one path. A plain `def` function runs in a worker thread.

`HttpLimits.body_size` limits the size of the request's body.
"""


def is_path(path: str) -> bool:
    """Return True if a request can have this path."""
    return path.startswith("/") and path.isascii() and path.isprintable() and not set(path) & set("?# ")


def check_routes(routes: Iterable[str], taken: Iterable[str]) -> None:
    """Raise ValueError for a path that cannot be requested, that is one of the `taken` paths, or that is repeated."""
    used = {*taken}
    for path in routes:
        if not is_path(path):
            raise ValueError(f"the path of a route must be like '/health', percent-encoded, not {path[:100]!r}")
        if path in used:
            raise ValueError(f"the server itself uses the path {path}: choose another path")
        used.add(path)


async def call_route(handler: RouteHandler, request: HttpRequest, executor: Executor) -> tuple[int, HeaderList, bytes]:
    """Call the handler of a route, and return status, headers and body of the response.

    Raises:
        TypeError: The handler returned something other than a str, a dict or a RouteResponse.
        ValueError: The status or a header is invalid, or a dict contains NaN or infinity.
    """
    if inspect.iscoroutinefunction(handler):
        result: object = await handler(request)
    else:
        run = contextvars.copy_context().run
        result = await asyncio.get_running_loop().run_in_executor(executor, run, handler, request)
        if inspect.isawaitable(result):  # a callable object with `async def __call__`
            result = await result
    if isinstance(result, Mapping):
        text = json.dumps(dict(result), allow_nan=False)
        result = RouteResponse(headers={"Content-Type": "application/json"}, body=text)
    elif isinstance(result, str):
        result = RouteResponse(body=result)
    elif not isinstance(result, RouteResponse):
        kind = type(result).__name__
        raise TypeError(f"the route {request.path} returned {kind}: it must return a str, a dict or a RouteResponse")
    return _encoded(result)


def _encoded(response: RouteResponse) -> tuple[int, HeaderList, bytes]:
    if not 200 <= response.status <= 599:
        raise ValueError(f"the status of a response must be between 200 and 599, not {response.status}")
    body, media_type = response.body, "application/octet-stream"
    if isinstance(body, str):
        body, media_type = body.encode(), "text/plain; charset=utf-8"
    headers = [*response.headers.items()]
    if body and "content-type" not in {name.lower() for name, _ in headers}:
        headers.append(("Content-Type", media_type))
    headers.append(("X-Content-Type-Options", "nosniff"))  # a browser must not treat a text as a web page
    encode_head([], headers, RESERVED_HEADERS)  # check the headers here, because ASGI servers do not check them
    return response.status, headers, body
