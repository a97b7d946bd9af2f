"""See the heads of HTTP requests and responses: for a trace that wants to, one with a method `head`.

A head is shown before the frames that it carries; only a server's answer is shown after a frame that was made before
it. Of the headers, those are shown that the protocol gives a meaning; never an Authorization or a cookie.

Above: the transports over HTTP, client's and server's. Below: mcp_ref/http, whose requests and exchanges pass through
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeGuard
from urllib.parse import urlsplit

from ..lib.http.message import Exchange, HeaderList, HttpRequest, StreamingResponse
from .base import Trace

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ..lib.http.client import HttpClient, HttpResponse

SHOWN: Final = frozenset(
    {
        "content-type",
        "last-event-id",
        "mcp-method",
        "mcp-name",
        "mcp-protocol-version",
        "mcp-session-id",
    }
)
"""The headers that are shown; and those that carry a tool's arguments, `Mcp-Param-...`."""


class HeadTrace(Protocol):
    """A trace that sees heads, too: a `Trace` with this method."""

    def __call__(self, direction: Literal["->", "<-"], frame: bytes, /) -> None:
        """See a frame."""

    def head(self, direction: Literal["->", "<-"], line: str, headers: Iterable[tuple[str, str]], /) -> None:
        """See a head: "POST /mcp" or "200", and the headers that matter."""


def sees_heads(trace: Trace | None) -> TypeGuard[HeadTrace]:
    """Whether a trace wants to see heads."""
    return hasattr(trace, "head")


def shown(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The headers that are shown."""
    return [(n, value) for n, value in headers if n.lower() in SHOWN or n.lower().startswith("mcp-param-")]


class Requests(Protocol):
    """What makes HTTP requests: an `HttpClient`, or one that is watched."""

    def request(
        self, method: str, url: str, headers: Mapping[str, str] | None = None, body: bytes = b"", *, extra: bool = False
    ) -> AbstractAsyncContextManager[HttpResponse]:
        """See `HttpClient.request`."""

    async def close(self) -> None:
        """See `HttpClient.close`."""


def _path(url: str) -> str:
    try:
        return urlsplit(url).path or "/"  # without the query, which may hold a secret
    except ValueError:
        return "?"  # no URL at all: whoever makes the request says so


def named(url: str) -> str:
    """A URL as errors and logs name it: without credentials and the query, which may hold a secret."""
    try:
        parts = urlsplit(url)
    except ValueError:  # no URL at all: it cannot be told where credentials would be
        return url if url.isprintable() and not {"@", "?"} & set(url) else "the server's URL"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


class WatchedRequests:
    """A client's requests, and the heads of their responses."""

    def __init__(self, http: HttpClient, trace: HeadTrace) -> None:
        self._http, self._trace = http, trace

    def request(
        self, method: str, url: str, headers: Mapping[str, str] | None = None, body: bytes = b"", *, extra: bool = False
    ) -> AbstractAsyncContextManager[HttpResponse]:
        """See `HttpClient.request`. Its head is shown now, that of the response when it has come."""
        self._trace.head("->", f"{method} {_path(url)}", shown((headers or {}).items()))
        return self._request(method, url, headers, body, extra)

    @asynccontextmanager
    async def _request(
        self, method: str, url: str, headers: Mapping[str, str] | None, body: bytes, extra: bool
    ) -> AsyncIterator[HttpResponse]:
        async with self._http.request(method, url, headers, body, extra=extra) as response:
            self._trace.head("<-", str(response.status), shown(response.headers))
            yield response

    async def close(self) -> None:
        """See `HttpClient.close`."""
        await self._http.close()


def watched(http: HttpClient, trace: Trace | None) -> Requests:
    """What makes the requests, watched if the trace wants to see heads."""
    return WatchedRequests(http, trace) if sees_heads(trace) else http


class WatchedExchange:
    """A request that a server answers, and the head of its answer."""

    def __init__(self, exchange: Exchange, trace: HeadTrace) -> None:
        self.request: HttpRequest = exchange.request
        self._exchange, self._trace = exchange, trace
        trace.head("<-", f"{self.request.method} {self.request.path}", shown(self.request.headers))

    def gone(self) -> asyncio.Future[None]:
        """See `Exchange`."""
        return self._exchange.gone()

    async def respond(self, status: int, headers: HeaderList, body: bytes) -> None:
        """See `Exchange`."""
        self._trace.head("->", str(status), shown(headers))
        await self._exchange.respond(status, headers, body)

    async def stream(self, status: int, headers: HeaderList) -> StreamingResponse:
        """See `Exchange`."""
        self._trace.head("->", str(status), shown(headers))
        return await self._exchange.stream(status, headers)


def watched_exchange(exchange: Exchange, trace: Trace | None) -> Exchange:
    """The exchange, watched if the trace wants to see heads."""
    return WatchedExchange(exchange, trace) if sees_heads(trace) else exchange
