"""Responses of the server: the exchange of one request on a connection, and a response that is sent in pieces.

`HttpConnection` gives an `HttpExchange` to the handler. The handler calls `respond` or `stream`, which write to the
connection, and tell it when the response has ended, so that it can continue with the next request.

Spec:  RFC 9112, section 7.1 (chunks); RFC 9110, section 8.6 (Content-Length)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from .framing import ResponseHeadWriter
from .message import MIN_COUNTED_SIZE, HeaderList, HttpRequest
from .parser import RequestHead, RequestParser


class Connection(Protocol):
    """The connection that sends the responses: `HttpConnection`."""

    head_writer: ResponseHeadWriter
    keep_alive: bool
    """True if the connection stays open after the current response."""
    parser: RequestParser
    client_disconnected: bool
    """True if the connection is closed, or the client has closed its sending side and can only read."""
    response: HttpStreamingResponse | None
    """The response of the current request if it is a stream, which can stay open after its handler has returned."""

    @property
    def has_room(self) -> bool:
        """True if the client has read most of the written bytes."""

    async def read_body(self) -> bytes:
        """Wait for the rest of the current request's body. Raise BodyError if the body cannot be read."""

    def write(self, data: bytes) -> None:
        """Send bytes, without a limit on the unread bytes."""

    def write_piece(self, data: bytes) -> None:
        """Send a piece of a stream. Abort the connection if the client has left too much unread."""

    async def drain(self) -> None:
        """Wait until the client has read most of the written bytes, or has disconnected."""

    def continue_after_response(self) -> None:
        """Continue with the next request, because the response has ended, if the handler has returned too."""

    def forget_body(self) -> None:
        """Stop counting the body for `HttpLimits.bodies_size`."""

    def forget_request(self) -> None:
        """Free the memory of the request if its handler has returned, because a stream can stay open for hours."""


class HttpExchange:
    """The `Exchange` of one request on a connection."""

    __slots__ = ("_body", "_connection", "_head", "_on_disconnect", "on_cancel", "request", "responded")

    def __init__(self, request: HttpRequest, connection: Connection, head: RequestHead, body: bytes | None) -> None:
        self.request, self.responded, self._body = request, False, body
        self._connection, self._head = connection, head
        self._on_disconnect: Callable[[], object] | None = None
        self.on_cancel: Callable[[], object] | None = None
        """The function of `respond_later`; None if the handler has not called it, or after the response has begun."""

    @property
    def has_body(self) -> bool:
        """True if the whole body has arrived."""
        return self._body is not None

    async def read_body(self) -> None:
        if self._body is None:
            self._body = await self._connection.read_body()
        self.request.body = self._body

    def take_body(self) -> bool:
        if self._body is not None:
            self.request.body = self._body
        return self._body is not None

    def forget_body(self) -> None:
        if len(self.request.body) >= MIN_COUNTED_SIZE:
            self.request.body = self._body = b""
            self._connection.forget_body()

    def on_disconnect(self, function: Callable[[], object]) -> None:
        self._on_disconnect = function
        if self._connection.client_disconnected:
            asyncio.get_running_loop().call_soon(self.notify_disconnect)

    def notify_disconnect(self) -> None:
        """Call the function that the handler gave to `on_disconnect`, if any, and never again."""
        function, self._on_disconnect = self._on_disconnect, None
        if function is not None:
            function()

    def respond_later(self, on_cancel: Callable[[], object]) -> None:
        self.on_cancel = on_cancel

    def give_up(self) -> None:
        """Call the function that the handler gave to `respond_later`, if the response has not begun."""
        function, self.on_cancel = self.on_cancel, None
        if function is not None:
            function()

    def respond(self, status: int, headers: HeaderList, body: bytes) -> None:
        head = self._begin_response(status, headers)
        if status in (204, 304):
            head, body = head + b"\r\n", b""  # [RFC 9110 8.6] a 204 MUST NOT have Content-Length
        else:
            head += b"Content-Length: %d\r\n\r\n" % len(body)
        self._connection.write(head if self.request.method == "HEAD" else head + body)
        self._connection.continue_after_response()

    def stream(self, status: int, headers: HeaderList) -> HttpStreamingResponse:
        connection, chunked = self._connection, not self._head.is_http_1_0
        head = self._begin_response(status, headers)
        connection.write(head + (b"Transfer-Encoding: chunked\r\n\r\n" if chunked else b"\r\n"))
        connection.parser.cached_heads.clear()  # to save memory, because a stream can last for hours
        response = connection.response = HttpStreamingResponse(connection, chunked, self.request.method != "HEAD")
        if connection.client_disconnected:
            response.mark_ended()
            connection.keep_alive = False
        return response

    def _begin_response(self, status: int, headers: HeaderList) -> bytes:
        """Return the head of the response without the body's length. Raise ValueError for an invalid header."""
        if self.responded:
            raise RuntimeError("the handler has already sent a response: call `respond` or `stream` only once")
        connection = self._connection
        # If the body was not read, close the connection, because the unread bytes would be taken for the next request.
        keep_alive = connection.keep_alive and self._head.keep_alive and self._body is not None
        head = connection.head_writer.write(status, headers, not keep_alive)
        connection.keep_alive = keep_alive  # only now, because `write` raises for an invalid header
        self.responded = True
        self._on_disconnect = self.on_cancel = None
        return head


class HttpStreamingResponse:
    """The `StreamingResponse` of one request on a connection."""

    __slots__ = ("_chunked", "_connection", "_ended", "_has_body", "_on_end", "has_ended")

    def __init__(self, connection: Connection, chunked: bool, has_body: bool) -> None:
        self._connection, self._chunked, self._has_body = connection, chunked, has_body
        self.has_ended = False
        self._ended: asyncio.Future[None] | None = None  # made at the first use, because many streams need none
        self._on_end: Callable[[HttpStreamingResponse], object] | None = None

    @property
    def ended(self) -> asyncio.Future[None]:
        if self._ended is None:
            self._ended = asyncio.get_running_loop().create_future()
            if self.has_ended:
                self._ended.set_result(None)
        return self._ended

    @property
    def is_kept_open(self) -> bool:
        """True if the response stays open after its handler has returned."""
        return self._on_end is not None

    def keep_open(self, on_end: Callable[[HttpStreamingResponse], object]) -> None:
        if self.has_ended:
            on_end(self)
        else:
            self._on_end = on_end
            self._connection.forget_request()

    def write(self, data: bytes) -> None:
        if data and self._has_body and not self.has_ended:
            # [RFC 9112 7.1] a chunk is its size in hexadecimal, then its data; a chunk of size 0 ends the body
            self._connection.write_piece(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)

    @property
    def has_room(self) -> bool:
        return self.has_ended or self._connection.has_room

    async def drain(self) -> None:
        if not self.has_ended:
            await self._connection.drain()

    def close(self) -> None:
        if not self.has_ended:
            if self._chunked and self._has_body:
                self._connection.write_piece(b"0\r\n\r\n")
            self.mark_ended()

    def mark_ended(self) -> None:
        if self.has_ended:
            return
        self.has_ended = True
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end(self)
        self._connection.continue_after_response()
