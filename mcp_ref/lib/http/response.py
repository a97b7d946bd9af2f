"""A response to an HTTP client, and the connection on which it arrives.

`HttpClient` (client.py) sends a request on a `ClientConnection`, and makes an `HttpResponse` from the head that comes
back. The caller then reads the body from the connection through the response.

Because a server can be hostile, a response must match the grammar exactly (framing.py), and its size and time have
limits (`ClientLimits`). Compression is not supported, because a small compressed body could fill the memory.

Spec:  RFC 9112, sections 6 (body length) and 9 (connections)
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import Final, cast

from ..fields import CheckedFields
from .framing import CHUNKED, MAX_RECEIVED_BYTES, BadMessage, ChunkDecoder, body_length, keeps_open, parse_response_head
from .origin import Origin

_END_OF_HEAD: Final = b"\r\n\r\n"


class HttpError(Exception):
    """A request failed. The text says why."""

    unsent = False  # True if no connection was made


class HttpTimeout(HttpError):
    """The server or the proxy took too long, or no connection of the client became free in time."""


class StaleConnection(HttpError):
    """A connection ended before the first byte of the response, for example because it was unused for too long."""


def is_unsent(error: Exception | None) -> bool:
    """Return True if a request failed because no connection was made, so nothing of it was sent."""
    return isinstance(error, HttpError) and error.unsent


@dataclass(frozen=True, slots=True)
class ClientLimits(CheckedFields):
    """Limits on the time and memory that a server can cost a client. `HttpResponse.read` limits the body's size."""

    connect: float = 10.0
    """Seconds to connect, including the proxy and TLS."""
    head_time: float | None = 300.0
    """Seconds from the request to the end of the response's head; None for no limit."""
    idle: float | None = 300.0
    """Seconds between two pieces of a body; None for no limit."""
    keep: float = 4.0
    """Seconds for which the client keeps an unused connection, which Node.js and uvicorn close after 5 s."""
    head_size: int = 64 * 1024
    """Maximum size of the status line and headers, in bytes."""
    header_count: int = 100
    """Maximum number of headers in a response."""
    connections: int = 100
    """Maximum number of connections in use. A further request waits at most `head_time` seconds for one of them."""


def time_limit(seconds: float | None) -> AbstractAsyncContextManager[object]:
    """Return `asyncio.timeout(seconds)`, or a cheaper context manager if no limit is wanted."""
    return contextlib.nullcontext() if seconds is None else asyncio.timeout(seconds)


class ResponseHead:
    """The head of a response. The next response on the connection shares it if the server sends the same bytes again,
    so that they are not parsed twice."""

    def __init__(self, received: bytes, max_headers: int) -> None:
        self.received = received
        self.status, version, self.headers = parse_response_head(received, max_headers)
        self.is_interim = 100 <= self.status < 200 and self.status != 101
        """True if another response follows, as after every status from 100 to 199 but 101."""
        self.coding = (self.headers.get("content-encoding") or "identity").lower()
        """The coding of the body, such as "gzip"; "identity" for none."""
        self.keep_alive = keeps_open(self.headers, version)
        """True if the server keeps the connection open after the response."""

    @cached_property
    def length(self) -> int | None:
        """The body's length in bytes, CHUNKED, or None if the body ends with the connection."""
        # [RFC 9112 6.3, rule 1] these responses have no body, even if they have a Content-Length
        return 0 if self.status in (204, 304) else body_length(self.headers)


class ClientConnection(asyncio.Protocol):
    """A connection to a server, directly or through a proxy."""

    def __init__(self, origin: Origin, limits: ClientLimits) -> None:
        self.origin, self.limits = origin, limits
        self.transport: asyncio.Transport
        self.address: str | None = None
        """The IP address of the server; None behind a proxy."""
        self.used_before = False
        self.free_since = 0.0  # on the clock `time.monotonic`
        self.received = bytearray()
        """The received bytes that are not read yet."""
        self._loop = asyncio.get_running_loop()
        self._last_head: ResponseHead | None = None
        self._arrival: asyncio.Future[None] | None = None  # done when more bytes have arrived, or the connection ends
        self._closed: asyncio.Future[None] = self._loop.create_future()
        self._has_ended = False  # True if the server has closed the connection, or it broke
        self._is_paused = False  # True while nothing is received, because `received` is full
        self._error: Exception | None = None  # the error that ended the connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's class does not inherit from asyncio's
        if hasattr(transport, "max_size"):  # other event loops lack this attribute
            # asyncio would allocate 256 KiB for each read, which takes 15 microseconds.
            transport.max_size = MAX_RECEIVED_BYTES

    def data_received(self, data: bytes) -> None:
        self.received += data
        if len(self.received) >= MAX_RECEIVED_BYTES:
            self._is_paused = True
            self.transport.pause_reading()  # until `arrival` or `keep`
        self._wake()

    def eof_received(self) -> None:
        self._has_ended = True
        self._wake()

    def connection_lost(self, error: Exception | None) -> None:
        self._has_ended, self._error = True, error
        self._closed.set_result(None)
        self._wake()

    def _wake(self) -> None:
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)

    def arrival(self) -> asyncio.Future[None]:
        """Return a future that is done when more bytes are received, or when the connection ends.

        Raise EOFError if it has ended, or OSError if it broke.
        """
        if self._has_ended:
            raise self._error or EOFError
        if self._is_paused:
            self._resume_reading()
        self._arrival = self._loop.create_future()
        return self._arrival

    def keep(self) -> None:
        """Keep the connection for another request."""
        self.used_before, self.free_since = True, time.monotonic()
        if self._is_paused:
            self._resume_reading()  # else the end of the connection would not be noticed

    def _resume_reading(self) -> None:
        self._is_paused = False
        self.transport.resume_reading()

    def is_open(self) -> bool:
        """Return True if the server has not closed the connection, and has sent no unrequested bytes."""
        return not (self._has_ended or self.received or self.transport.is_closing())

    def has_more_to_send(self) -> bool:
        return self.transport.get_write_buffer_size() > 0

    def send_request(self, request: bytes) -> Coroutine[object, object, ResponseHead]:
        """Send a request. Return an awaitable for the head of the final response."""
        # Do not wait until the request is sent, because the server can respond before it has read all of it.
        self.transport.write(request)
        return self.read_head() if self.limits.head_time is None else self._read_head_within(self.limits.head_time)

    async def _read_head_within(self, seconds: float) -> ResponseHead:
        try:
            async with asyncio.timeout(seconds):
                return await self.read_head()
        except TimeoutError:
            raise HttpTimeout(f"the server sent no response within {seconds:g} s") from None

    async def read_head(self) -> ResponseHead:
        """Return the head of the next final response."""
        try:
            head = self._take_head()
            while head is None or head.is_interim:  # [RFC 9110 15.2] interim responses precede the final one
                if head is None:
                    await self.arrival()
                head = self._take_head()
        except EOFError:
            if self.received:
                raise HttpError("the connection ended in the middle of the response's head") from None
            hint = ""
            if self.origin.scheme == "http" and not self.used_before:  # a TLS server closes it on plain HTTP
                hint = "; if the server uses TLS, write https://"
            raise StaleConnection(f"the connection ended without a response{hint}") from None
        except OSError as error:
            raise StaleConnection(f"the connection broke before the response: {error}") from error
        if head.status == 101:
            raise HttpError("the server sent status 101 (Switching Protocols), which the request did not ask for")
        return head

    def _take_head(self) -> ResponseHead | None:
        """Remove a head from `received`. Return None if it is incomplete."""
        if not self.received:  # usual, because the request has just been sent
            return None
        last = self._last_head
        if last is not None and self.received.startswith(last.received):
            del self.received[: len(last.received)]
            return last
        max_size = self.limits.head_size + len(_END_OF_HEAD)
        end = self.received.find(_END_OF_HEAD, 0, max_size)
        if end >= 0:
            head = self._last_head = ResponseHead(self.take(end + len(_END_OF_HEAD)), self.limits.header_count)
            return head
        if len(self.received) >= max_size:
            raise HttpError(f"the head of the response is larger than {self.limits.head_size} bytes")
        return None

    def take(self, size: int) -> bytes:
        """Remove at most `size` bytes from `received`, and return them."""
        if size < len(self.received):
            taken = bytes(self.received[:size])
            del self.received[:size]
        else:  # usual, so avoid the slice, which would copy the bytes once more
            taken = bytes(self.received)
            self.received.clear()
        return taken

    async def close(self) -> None:
        """Close the connection within a second."""
        if self.has_more_to_send():
            self.transport.abort()
        self.transport.close()
        await asyncio.wait([self._closed], timeout=1.0)
        if not self._closed.done():
            self.transport.abort()


class HttpResponse:
    """A response whose head has arrived. Read its body once: with `read`, or with `async for`.

    Attributes:
        url: The URL of the response, after redirects.
        connection: The connection on which the rest of the body arrives.
        body: The whole body, after `read`; else b"".
        is_complete: True if the body was read to its end.
    """

    def __init__(self, url: str, method: str, head: ResponseHead, connection: ClientConnection) -> None:
        self.url, self.connection, self._head = url, connection, head
        self.status, self.headers = head.status, head.headers
        self.body = b""
        length = self._length = 0 if method == "HEAD" else head.length  # None: the body ends with the connection
        self.is_complete = length == 0
        self._left = length  # bytes of the body that are not read yet
        self._chunk_decoder = ChunkDecoder(connection.received) if length == CHUNKED else None

    @property
    def address(self) -> str | None:
        """The IP address of the server. None behind a proxy, which alone knows the address."""
        return self.connection.address

    @property
    def keep_alive(self) -> bool:
        """True if the connection can be reused after the body."""
        return self._head.keep_alive and self._length is not None

    async def read(self, limit: int) -> bytes:
        """Return the whole body.

        Args:
            limit: Maximum size of the body, in bytes.

        Raises:
            HttpError: The body is larger than `limit`, or cannot be read to its end.
        """
        if self._length is not None and self._length > limit:  # never for CHUNKED, which is -1
            raise HttpError(f"the response has {self._length} bytes, more than the limit of {limit}")
        body: bytes | bytearray = b"" if self.is_complete else self._take_piece()
        if not self.is_complete:  # rare, because most bodies arrive whole, with their head
            body = bytearray(body)  # to which pieces can be added without a copy of the rest
            while not self.is_complete and len(body) <= limit:
                body += await self._read_piece()
        if len(body) > limit:
            raise HttpError(f"the response has more than {limit} bytes, which is the limit")
        self.body = bytes(body)
        return self.body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the pieces of the body as they arrive. Raise HttpError for an incomplete, invalid or encoded body."""
        while not self.is_complete:
            if piece := await self._read_piece():
                yield piece

    async def _read_piece(self) -> bytes:
        """Return the next bytes of the body; b"" at its end."""
        piece = self._take_piece()
        while not piece and not self.is_complete:
            idle = self.connection.limits.idle
            try:
                async with time_limit(idle):
                    await self.connection.arrival()
            except TimeoutError:
                raise HttpTimeout(f"no further byte of the response came within {idle:g} s") from None
            except OSError as error:
                raise HttpError(f"the connection broke in the middle of the response: {error}") from error
            except EOFError:
                if self._length is not None:
                    raise HttpError("the connection ended in the middle of the response") from None
                self.is_complete = True
            piece = self._take_piece()
        return piece

    def _take_piece(self) -> bytes:
        """Return the received bytes of the body. Set `is_complete` at its stated length or its last chunk."""
        if self._head.coding != "identity":
            raise HttpError(f"the response is encoded with {self._head.coding[:40]}, which the request did not accept")
        if self._chunk_decoder is not None:
            try:
                piece = self._chunk_decoder.decode()
            except BadMessage as bad:
                raise HttpError(f"the response is not HTTP/1: {bad}") from bad
            self.is_complete = self._chunk_decoder.done
            return piece
        if self._left is None:
            return self.connection.take(MAX_RECEIVED_BYTES)
        piece = self.connection.take(self._left)
        self._left -= len(piece)
        self.is_complete = self._left == 0
        return piece
