"""A request, and the exchange through which a handler answers it: the same for every kind of server.

    async def handler(exchange: Exchange) -> None:
        await exchange.respond(200, [("Content-Type", "text/plain")], b"hello")

or piece by piece, until we have said everything or the client has left:

        stream = await exchange.stream(200, [("Content-Type", "text/event-stream")])
        stream.write(encode_event(b"hello"))
        await stream.gone

A server presents the same `Headers` object again when a connection repeats a head byte for byte, so what is decided
from headers alone can be remembered by their identity.

Spec:  RFC 9110
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias

HeaderList: TypeAlias = list[tuple[str, str]]
"""Header fields to be sent, in order."""


class Headers:
    """The fields of a head that came, in order. Names are compared in any case. Never changed."""

    __slots__ = ("__weakref__", "_items", "_values")

    def __init__(self, items: Iterable[tuple[str, str]] = ()) -> None:
        # Names are the same from connection to connection: interned, thousands of these share them.
        self._items = tuple((sys.intern(name), value) for name, value in items)
        self._values: dict[str, tuple[str, ...]] = {}
        for name, value in self._items:
            # [RFC 9110 5.1] field names are case-insensitive
            name = sys.intern(name.lower())
            self._values[name] = (*self._values.get(name, ()), value)

    def get(self, name: str) -> str | None:
        """The first value of that name, None where there is none."""
        values = self._values.get(name.lower())
        return values[0] if values else None

    def get_all(self, name: str) -> list[str]:
        """All values of that name, in order; empty where there is none."""
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
    """What a client asks.

    path: without the query, percent-encoded as it came. query: what followed "?", or "".
    body: the whole body, already without chunks. client: the peer's address and port, None where it has none.
    tls: whether it came encrypted. root: what precedes `path` where we are mounted below another application, or "".
    """

    method: str
    path: str
    query: str
    headers: Headers
    body: bytes = b""
    client: tuple[str, int] | None = None
    tls: bool = False
    root: str = ""


class StreamingResponse(Protocol):
    """A response body that is written piece by piece."""

    gone: asyncio.Future[None]
    """Done when the response has ended: we closed it, or the client left. Never fails."""

    def write(self, data: bytes) -> None:
        """Send a piece. Never waits; dropped when the response has ended. A client that leaves too much unread is
        disconnected."""

    async def drain(self) -> None:
        """Wait until the client has read most of what was written, or has left."""

    def close(self) -> None:
        """End the response: nothing more will be written."""


class Exchange(Protocol):
    """One request, to be answered once: with `respond`, or with `stream`. Answering twice is a RuntimeError.

    The length of the body and how the connection goes on are the server's affair: headers that say so
    (Content-Length, Transfer-Encoding, Connection, Date) are a ValueError, as is a line break in any.
    An answer to a client that has left is dropped, without an error; none is needed.
    """

    request: HttpRequest

    def gone(self) -> asyncio.Future[None]:
        """Done when the client has left before its answer has begun. (From then on, the stream's own `gone` tells.)"""

    async def respond(self, status: int, headers: HeaderList, body: bytes) -> None:
        """Answer with a whole body. Does not wait for the client to read it."""

    async def stream(self, status: int, headers: HeaderList) -> StreamingResponse:
        """Answer with a body that is written piece by piece. It ends with the handler, at the latest."""


Handler: TypeAlias = Callable[[Exchange], Awaitable[None]]
"""Answers one exchange, in a task of its own. It goes on when the client leaves. What it raises is logged, and is a 500
to the client."""


def bracketed(host: str) -> str:
    """A host as it stands in a URL: an IPv6 address is put in brackets."""
    return f"[{host}]" if ":" in host else host
