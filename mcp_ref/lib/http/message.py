"""One HTTP request, and the exchange through which a handler sends the response (server.py, asgi.py).

    async def handler(exchange: Exchange) -> None:
        await exchange.respond(200, [("Content-Type", "text/plain")], b"hello")

A body can also be written piece by piece, until the handler closes it or the client disconnects:

        response = await exchange.stream(200, [("Content-Type", "text/event-stream")])
        response.write(encode_event(b"hello"))
        await response.ended

Spec:  RFC 9110, sections 5 (fields), 6 (messages) and 15 (status codes)
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias

HeaderList: TypeAlias = list[tuple[str, str]]
"""Headers to send, as (name, value) pairs, in order."""


class Headers:
    """The headers of a received head, in order. Names compare without regard to case. Immutable."""

    __slots__ = ("__weakref__", "_items", "_values")

    def __init__(self, items: Iterable[tuple[str, str]] = ()) -> None:
        # Clients send the same few names. Interning lets thousands of Headers share the strings.
        self._items = tuple((sys.intern(name), value) for name, value in items)
        self._values: dict[str, tuple[str, ...]] = {}
        for name, value in self._items:
            # [RFC 9110 5.1] field names are case-insensitive
            name = sys.intern(name.lower())
            self._values[name] = (*self._values.get(name, ()), value)

    def get(self, name: str) -> str | None:
        """Return the first value of a header, or None without the header."""
        values = self._values.get(name.lower())
        return values[0] if values else None

    def get_all(self, name: str) -> list[str]:
        """Return all values of a header, in order."""
        return list(self._values.get(name.lower(), ()))

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._values

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return f"Headers({list(self._values)})"  # names only: values may be secrets


@dataclass(slots=True)
class HttpRequest:
    """A request, with its whole body."""

    method: str
    path: str
    """The path without the query, percent-encoded as the client sent it."""
    query: str
    """The text after "?", or ""."""
    headers: Headers
    body: bytes = b""
    """The whole body. Chunk sizes are already removed."""
    client: tuple[str, int] | None = None
    """The client's address and port. None for a connection without them, such as a Unix socket."""
    tls: bool = False
    """True if the request came over TLS."""
    root: str = ""
    """The path below which an outer application has mounted the handler, or ""."""


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """Bounds on the memory and the time that one client can cost a server. Sizes are in bytes, times in seconds."""

    connections: int = 10_000
    """Maximum number of connections, else 503. A connection whose client has left counts until its handler ends."""
    head_size: int = 32 * 1024
    """Maximum size of the request line and headers, in bytes, else 431."""
    header_count: int = 100
    """Maximum number of headers, else 431. `http.client`, which parses them, accepts at most 100."""
    body_size: int = 4 * 1024 * 1024
    """Maximum size of a body without its chunk sizes, in bytes, else 413, if possible before the body is read."""
    head_time: float = 10.0
    """Seconds for a whole head, from its first byte, else 408. Also the time in which a new connection must send it."""
    body_time: float = 60.0
    """Seconds for a whole body, from the end of the head, else 408."""
    idle_time: float = 75.0
    """Seconds that a connection stays open without a request (as in nginx)."""
    write_buffer: int = 4 * 1024 * 1024
    """Maximum size of the unread part of a streamed body, in bytes. Then the client is disconnected."""
    write_time: float = 30.0
    """Seconds without reading, after which a client that has more than 64 KiB to read is disconnected."""


class StreamingResponse(Protocol):
    """A response whose body is written piece by piece. A client that leaves too much unread is disconnected."""

    ended: asyncio.Future[None]
    """Done when the response has ended: it was closed, or the client disconnected. Never fails."""

    def write(self, data: bytes) -> None:
        """Send a piece of the body, without waiting. Do nothing if the response has ended."""

    async def drain(self) -> None:
        """Wait until the client has read most of the body written so far, or has disconnected."""

    def close(self) -> None:
        """End the body."""


class Exchange(Protocol):
    """One request and its response. A handler calls `respond` or `stream`, once; a second call is a RuntimeError.

    The server itself writes Content-Length, Transfer-Encoding, Connection and Date. A handler that sets one of them,
    or a header with a line break, gets a ValueError. If the client has disconnected, the response is dropped without
    an error, and the handler may also return without one.
    """

    request: HttpRequest

    def disconnected(self) -> asyncio.Future[None]:
        """Return a future that is done if the client disconnects before the response has begun."""

    async def respond(self, status: int, headers: HeaderList, body: bytes) -> None:
        """Send a whole response. Do not wait until the client has read it."""

    async def stream(self, status: int, headers: HeaderList) -> StreamingResponse:
        """Send the head of a response, and return an object that writes the body. The body ends with the handler."""


Handler: TypeAlias = Callable[[Exchange], Awaitable[None]]
"""A coroutine function that serves one exchange, in its own task. It continues if the client disconnects. An exception
is logged, and the client gets a 500 response."""


def bracket_ipv6(host: str) -> str:
    """Return the host as a URL spells it: an IPv6 address stands in brackets."""
    return f"[{host}]" if ":" in host else host
