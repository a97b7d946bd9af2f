"""A request, and the exchange through which a handler answers it: the same for every kind of server.

    async def handler(exchange: Exchange) -> None:
        await exchange.respond(200, [("Content-Type", "text/plain")], b"hello")

Spec:  RFC 9110
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

HeaderList: TypeAlias = list[tuple[str, str]]


class Headers:
    """The fields of a head, in order; names in any case. [RFC 9110, 5.1]"""

    __slots__ = ("_items",)

    def __init__(self, items: Iterable[tuple[str, str]] = ()) -> None:
        self._items = [(name.lower(), value) for name, value in items]

    def get(self, name: str) -> str | None:
        """The first value of that name."""
        name = name.lower()
        for known, value in self._items:
            if known == name:
                return value
        return None

    def get_all(self, name: str) -> list[str]:
        """All values of that name."""
        name = name.lower()
        return [value for known, value in self._items if known == name]

    def __contains__(self, name: str) -> bool:
        return self.get(name) is not None

    def __iter__(self) -> Iterable[tuple[str, str]]:
        return iter(self._items)


@dataclass(slots=True)
class Request:
    """What a client asks. `path` is without the query and still encoded; `client` is the peer's address."""

    method: str
    path: str
    query: str
    headers: Headers
    body: bytes = b""
    client: str = ""


class Stream(Protocol):
    """A response that is being written."""

    gone: asyncio.Future[None]
    """Done when the response has ended: we closed it, or the client left."""

    def write(self, data: bytes) -> None:
        """Send bytes; dropped when the client has left."""

    async def drain(self) -> None:
        """Wait until the client has read enough."""

    def close(self) -> None:
        """End the response."""


class Exchange(Protocol):
    """One request, to be answered once: with `respond`, or with `stream`."""

    request: Request

    async def respond(self, status: int, headers: HeaderList, body: bytes) -> None:
        """Answer with a whole body."""

    async def stream(self, status: int, headers: HeaderList) -> Stream:
        """Answer with a body that is written piece by piece."""


Handler: TypeAlias = Callable[[Exchange], Awaitable[None]]
