"""Objects that HTTP servers and handlers share. An exchange is one request with its response.

The servers in server.py and asgi.py call the handler with an exchange:

    async def handler(exchange: Exchange) -> None:
        exchange.respond(200, [("Content-Type", "text/plain")], b"hello")

A handler can also write the body in pieces, until the handler returns or the client disconnects:

        response = exchange.stream(200, [("Content-Type", "text/event-stream")])
        response.write(encode_event(b"hello"))
        await response.ended

Spec:  RFC 9110, sections 5 (fields), 6 (messages) and 15 (status codes)
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass
from socket import AF_INET6, inet_pton
from typing import Final, Protocol, TypeAlias

from ..fields import CheckedTimes

HeaderList: TypeAlias = list[tuple[str, str]]
"""Headers to send, as (name, value) pairs, in order."""

MAX_SHARED_NAMES: Final = 128
"""Maximum number of header names that all `Headers` share, so that the few usual names are stored only once."""
_IPV4_MAPPED: Final = bytes(10) + b"\xff\xff"


@functools.lru_cache(maxsize=MAX_SHARED_NAMES)
def _shared_name(name: str) -> tuple[str, str]:
    """Return a header's name, and the name in lower case, because names are case-insensitive. [RFC 9110 5.1]"""
    return name, name.lower()


class Headers:
    """The headers of a received message, in order and immutable. Lookups ignore the case of names."""

    __slots__ = ("__weakref__", "_items", "_values", "attachment", "media_type")

    def __init__(self, items: Iterable[tuple[str, str]] = ()) -> None:
        self.attachment: object = None
        """An object that a handler stores with these headers, which all requests with the same head share."""
        self._items: list[tuple[str, str]] = []
        self._values: dict[str, tuple[str, ...]] = {}
        for name, value in items:
            name, key = _shared_name(name)
            self._items.append((name, value))
            self._values[key] = (*self._values[key], value) if key in self._values else (value,)
        self.media_type = (self.get("content-type") or "").partition(";")[0].strip().lower()
        """The content type without its parameters, in lower case, or "" if the header is missing."""

    def get(self, name: str) -> str | None:
        """Return the first value of a header, or None if the header is missing."""
        values = self._values.get(name.lower())
        return values[0] if values else None

    def get_all(self, name: str) -> tuple[str, ...]:
        """Return all values of a header, in order."""
        return self._values.get(name.lower(), ())

    def duplicates(self) -> list[str]:
        """Return the names, in lower case, of the headers that occur more than once."""
        return [name for name, values in self._values.items() if len(values) > 1]

    def without(self, *names: str) -> Headers:
        """Return a copy without the headers of these names, which must be in lower case."""
        return Headers((name, value) for name, value in self._items if name.lower() not in names)

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._values

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return f"Headers({list(self._values)})"  # without values, which can be secrets


@dataclass(slots=True)
class HttpRequest:
    """A received request."""

    method: str
    path: str
    """The path without the query, percent-encoded as sent. Some ASGI servers provide only the decoded path."""
    query: str
    """The text after "?", or ""."""
    headers: Headers
    body: bytes = b""
    """The whole body after `Exchange.read_body`, without chunk sizes; before, b""."""
    client: tuple[str, int] | None = None
    """The client's address and port; None if unknown, for example for a Unix socket."""
    root: str = ""
    """The path at which an outer application has mounted the handler, or "". `path` begins after this prefix."""


@dataclass(frozen=True, slots=True)
class HttpLimits(CheckedTimes):
    """Limits on the memory and the time that clients can cost a server. Sizes are in bytes, times in seconds."""

    connections: int = 10_000
    """Maximum number of connections, of which one public address can have three quarters; more get status 503. A
    connection counts until its handler has ended. If the limit on file descriptors is too low, the server raises the
    soft limit, or else allows fewer connections."""
    head_size: int = 32 * 1024
    """Maximum size of a head (the request line and headers), in bytes. A larger head gets status 431."""
    header_count: int = 100
    """Maximum number of headers; more get status 431."""
    body_size: int = 4 * 1024 * 1024
    """Maximum size of a body without its chunk sizes, in bytes. A larger body gets status 413."""
    bodies_size: int = 64 * 1024 * 1024
    """Maximum total size of unfinished heads, large bodies, and requests that wait, in bytes (64 MiB). Connections that
    have less than 4 KiB of them do not count. If more arrives, the largest unfinished one is refused: a body gets
    status 503, and for anything else the connection ends."""
    head_time: float = 10.0
    """Seconds for a head to arrive, else status 408. After this time, a new connection without any byte is closed."""
    body_time: float = 60.0
    """Seconds in which a body must arrive after the handler has asked for it, else status 408."""
    idle_time: float = 75.0
    """Seconds that a connection stays open between two requests. (nginx has the same default.)"""
    write_buffer: int = 4 * 1024 * 1024
    """Size of the unread part of a streamed body at which a further piece ends the connection, in bytes."""
    unread_size: int = 64 * 1024 * 1024
    """Size of all unread responses at which large responses wait, and clients that read less than 1/16 of their unread
    data in 1 s are disconnected, in bytes (64 MiB). Only unread parts over 16 KiB count."""
    write_time: float = 30.0
    """Seconds in which a client that has over 16 KiB of unread data must read some of it, or it is disconnected."""


class BodyError(Exception):
    """The body of a request is invalid, too large or too late, or the client has disconnected.

    If the handler does not catch this error, the server responds with `status`.
    """

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


CLIENT_DISCONNECTED: Final = 499
"""The `status` of a BodyError if the client has disconnected. It is never sent."""


class StreamingResponse(Protocol):
    """A response whose body the handler writes in pieces. The server disconnects a client that reads too slowly."""

    @property
    def ended(self) -> asyncio.Future[None]:
        """A future, without an exception, that is done when the response is closed or the client has disconnected."""

    def keep_open(self, on_end: Callable[[StreamingResponse], object]) -> None:
        """Keep the response open after the handler has returned, so that no task waits for its end.

        Args:
            on_end: A function that is called once with the response, when it is closed or the client has disconnected.
        """

    @property
    def has_room(self) -> bool:
        """True if `drain` need not wait."""

    def write(self, data: bytes) -> None:
        """Send a piece of the body, without waiting. Do nothing if the response has ended."""

    async def drain(self) -> None:
        """Wait until the client has read most of the body written so far, or has disconnected."""

    def close(self) -> None:
        """End the body."""


class Exchange(Protocol):
    """One request and its response. A handler calls `respond` or `stream` once; a second call raises RuntimeError.

    The server itself writes Content-Length, Transfer-Encoding, Connection and Date, and raises ValueError if a handler
    sends one of these, or a header with a line break. If the client disconnects, the handler continues, but its
    response is optional, and dropped without an error.
    """

    request: HttpRequest

    async def read_body(self) -> None:
        """Wait for the whole body, and set `request.body`. A handler that refuses the head need not do so.

        Raises:
            BodyError: The body is invalid, too large or too late, or the client has disconnected.
        """

    def take_body(self) -> bool:
        """Set `request.body` if the whole body has arrived. Return False if `read_body` has to wait for it."""

    def forget_body(self) -> None:
        """Free a large `request.body` before the handler ends, so that it no longer counts for `bodies_size`."""

    def on_disconnect(self, function: Callable[[], object]) -> None:
        """Call a function if the client disconnects before the response has begun."""

    def respond_later(self, on_cancel: Callable[[], object]) -> None:
        """Allow the handler to return before it has called `respond` or `stream`, so that no task waits for that.

        Args:
            on_cancel: A function that is called if the server gives up the request before the response has begun.
        """

    def respond(self, status: int, headers: HeaderList, body: bytes) -> None:
        """Send a complete response."""

    def stream(self, status: int, headers: HeaderList) -> StreamingResponse:
        """Send status and headers. Return an object that writes the body.

        The body ends when the handler returns, unless the handler has called `StreamingResponse.keep_open`.
        """


SMALL_BODY: Final = 64 * 1024
"""Maximum size of a body that is read together with its head, in bytes."""

MIN_COUNTED_SIZE: Final = 4 * 1024
"""Minimum size of a body, head or waiting request that counts for `HttpLimits.bodies_size`, in bytes."""


class BodyMemory:
    """The memory of the unfinished requests of one server, and of the bodies that have arrived, under one limit.

    If it is exceeded, the largest unfinished body is refused. So a client that fills the memory is the first to lose a
    body, and small bodies are always accepted.
    """

    def __init__(self, limit: int) -> None:
        self._limit, self._used = limit, 0  # bytes
        self._sizes: dict[object, int] = {}  # by owner, in bytes
        self._refusals: dict[object, Callable[[BodyError], None]] = {}  # by owner, of the unfinished bodies

    def update(self, owner: object, size: int, refuse: Callable[[BodyError], None] | None) -> None:
        """Set the size of the owner's body, in bytes. Refuse the largest unfinished body if the limit is exceeded.

        Args:
            owner: The connection or exchange that receives the body.
            size: The size of the part that has arrived, in bytes.
            refuse: A function that refuses the body; None if the body is complete.
        """
        if size < MIN_COUNTED_SIZE:
            return
        self.remove(owner)
        self._sizes[owner] = size
        self._used += size
        if refuse is not None:
            self._refusals[owner] = refuse
        if self._used > self._limit and self._refusals:
            largest = max(self._refusals, key=self._sizes.__getitem__)
            refuse_largest = self._refusals[largest]
            self.remove(largest)
            refuse_largest(BodyError(503, "the server receives too many large bodies; try again later"))

    def remove(self, owner: object) -> None:
        """Forget the owner's body, because its request is served, or its handler has freed it."""
        self._used -= self._sizes.pop(owner, 0)
        self._refusals.pop(owner, None)


Rest: TypeAlias = Coroutine[object, object, None] | None
"""The rest of a handler's work: a coroutine if the handler has to wait for something; None if no work is left."""

Handler: TypeAlias = Callable[[Exchange], Rest]
"""A function, async or not, that responds to one exchange. The rest of its work, if any, runs in a task.

If the handler raises before it responds, the client gets status 500. If it raises while it streams a response, the
connection ends without the end of the body."""


@functools.lru_cache(maxsize=256)  # because a server asks for each request
def network_of(address: str) -> str:
    """Return the network of one IPv6 client, as hexadecimal digits, or an IPv4 address as it is."""
    try:
        packed = inet_pton(AF_INET6, address.partition("%")[0]) if ":" in address else b""
    except OSError:
        return address
    if not packed or packed.startswith(_IPV4_MAPPED):
        return address
    return packed[:8].hex()  # a client usually has all addresses of its network of 64 bits


def bracket_ipv6(host: str) -> str:
    """Return the host as a URL needs it: an IPv6 address gets brackets."""
    return f"[{host}]" if ":" in host else host
