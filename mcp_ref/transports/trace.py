"""See the wire: every frame on standard error, with its time, direction and revision, secrets left out.

    12:00:01.234  2025-11-25  ->  {"jsonrpc":"2.0","id":1,"method":"ping"}

Over HTTP, the heads too: what is asked for and what was answered, with the headers that the protocol gives a meaning.

    12:00:01.234  2026-07-28  ->  POST /mcp  MCP-Protocol-Version: 2026-07-28  Mcp-Method: tools/call  Mcp-Name: add

Switched on by `--trace` on the command line, by `MCP_REF_TRACE=1` in the environment, or by handing `tracer()` to a
`Server` or `Client`. It costs nothing when off.

Elsewhere: which heads are shown, and when (trace.py)
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Final, Literal, Protocol, TextIO, TypeGuard

from ..basic.versioning import PROTOCOL_VERSION
from ..jsonrpc.messages import JSON
from .base import Trace

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator

    from ..lib.http.client import HttpClient, HttpResponse
    from ..lib.http.message import Exchange, HeaderList, HttpRequest, StreamingResponse

SECRET_NAMES = (
    "authorization",
    "password",
    "passwd",
    "secret",
    "token",
    "apikey",
    "api_key",
    "api-key",
    "cookie",
    "credential",
)
"""A member whose name contains one of these is shown as "***". Progress tokens are no secrets."""

_HARMLESS = ("progresstoken", "maxtokens", "inputtokens", "outputtokens")

MAX_SHOWN = 4000
"""Characters of a frame that are shown."""


class Tracer:
    """Writes one line for each frame, and for each HTTP head. To be given as `trace`."""

    def __init__(self, out: TextIO | None = None, color: bool | None = None) -> None:
        self._out, self._color = out, color
        self._revision = "-"

    def __call__(self, direction: Literal["->", "<-"], frame: bytes) -> None:
        """Show a frame."""
        try:
            value = json.loads(frame)
            self._revision = _named(value) or self._revision
            text = json.dumps(redact(value), ensure_ascii=False)
        except (ValueError, RecursionError):
            text = f"(no JSON, {len(frame)} bytes) {frame[:200].decode('utf-8', 'backslashreplace')}"
        self._write(direction, text)

    def head(self, direction: Literal["->", "<-"], line: str, headers: Iterable[tuple[str, str]]) -> None:
        """Show a head: its first line, "POST /mcp" or "200", and the headers that matter."""
        fields = [f"{name}: {'***' if _sounds_secret(name) else value}" for name, value in headers]
        self._write(direction, "  ".join([line, *fields]))

    def _write(self, direction: Literal["->", "<-"], text: str) -> None:
        stream = self._out or sys.stderr
        if len(text) > MAX_SHOWN:
            text = f"{text[:MAX_SHOWN]}... ({len(text)} characters)"
        now = time.time()
        clock = f"{time.strftime('%H:%M:%S', time.localtime(now))}.{int(now * 1000) % 1000:03d}"
        paint = stream.isatty() if self._color is None else self._color
        arrow = {"->": "\x1b[32m->\x1b[0m", "<-": "\x1b[36m<-\x1b[0m"}[direction] if paint else direction
        stream.write(f"{clock}  {self._revision:<10}  {arrow}  {printable(text)}\n")


def tracer(out: TextIO | None = None, color: bool | None = None) -> Tracer:
    """What to give as `trace`: writes one line for each frame and HTTP head to `out`, standard error by default.

    The revision in a line is the one that was named last. color: by default, on a terminal.
    """
    return Tracer(out, color)


def trace_from_environment() -> Trace | None:
    """The tracer that MCP_REF_TRACE=1 asks for, or None."""
    return tracer() if os.environ.get("MCP_REF_TRACE", "") not in ("", "0") else None


def redact(value: JSON) -> JSON:
    """A copy in which the members that look like secrets read "***"."""
    if isinstance(value, list):
        return [redact(item) for item in value]
    if isinstance(value, dict):
        return {name: "***" if _is_secret(name, member) else redact(member) for name, member in value.items()}
    return value


def _is_secret(name: str, member: JSON) -> bool:
    return isinstance(member, (str, list)) and name.lower() not in _HARMLESS and _sounds_secret(name)


def _sounds_secret(name: str) -> bool:
    return any(word in name.lower() for word in SECRET_NAMES)


def _named(value: JSON) -> str | None:
    """The revision that a frame is in, where it says so; "-" for a handshake that is yet to agree on one."""
    if not isinstance(value, dict):
        return None
    params, result = value.get("params"), value.get("result")
    meta = params.get("_meta") if isinstance(params, dict) else None
    version = meta.get(PROTOCOL_VERSION) if isinstance(meta, dict) else None
    if version is None and isinstance(result, dict):
        version = result.get("protocolVersion")
    if version is None and value.get("method") == "initialize":
        return "-"
    return version[:10] if isinstance(version, str) else None


def printable(text: str) -> str:
    """The text with control characters shown: those of a hostile peer must not reach the terminal."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


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
    """Return a URL's path without its query, which may hold a secret."""
    return "/" + url.partition("://")[2].partition("?")[0].partition("/")[2]


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
