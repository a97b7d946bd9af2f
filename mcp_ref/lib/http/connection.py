"""One connection of the server: bytes in, exchanges out; answers in, bytes out.

    idle -> head -> body -> answer -> idle        one request after the other
              |       |       |
              +-------+-------+----> leave        nothing more is read; what was written still goes out

Requests are read one at a time: what a client sends ahead of its answers waits, in order and within a bound. The body
is read before the handler is called, so a handler never waits for the client.

Spec:  RFC 9112, sections 6 to 9
Above: server.py, which owns the sockets and the clock. Below: framing.py, parser.py
"""

from __future__ import annotations

import asyncio
import logging
import math
from typing import TYPE_CHECKING, Final

from .framing import CHUNKED, BadMessage, ChunkedBody, find_head_end
from .message import HeaderList, HttpRequest
from .parser import RequestHead, parse_request_head

if TYPE_CHECKING:
    from .server import HttpServer

log = logging.getLogger(__name__)

MAX_AHEAD: Final = 64 * 1024
"""Bytes that a client may send ahead of an answer before we stop reading (64 KiB)."""

MAX_KNOWN_HEADS: Final = 8
"""Heads that a connection remembers. A client repeats itself: what changes is often but the body's length."""

LINGER: Final = 2.0
"""Seconds in which the client may read our last words and close, after which the connection is cut."""

TEXT: Final = [("Content-Type", "text/plain; charset=utf-8")]


class HttpConnection(asyncio.Protocol):
    """One client's connection."""

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._loop = server.loop
        self._limits = server.limits
        self._transport: asyncio.Transport
        self._client: tuple[str, int] | None = None
        self._tls = False

        self._phase = "idle"
        self._deadline = math.inf  # when this phase has lasted too long
        self._buffer = bytearray()  # what has come and was not taken yet
        self._looked = 0  # how much of it was searched for the end of the head
        self._known_heads: dict[bytes, RequestHead] = {}
        self._head: RequestHead | None = None  # of the request whose body is being read
        self._chunks: ChunkedBody | None = None
        self._body = bytearray()
        self._reading_paused = False
        self._half_closed = False  # the client will send no more, but may still read

        self._keep_alive = True
        self._finishing = False  # the server stops
        self._exchange: ServerExchange | None = None  # the one to be answered
        self._task: asyncio.Task[None] | None = None  # that answers it
        self._lost = False
        self._written = 0
        self._drained: asyncio.Future[None] | None = None  # while the client reads too slowly
        self._progress = (0, 0.0)  # bytes that had been read by the client, and when that was seen first

    # ------------------------------------------------------------------------------------- reading

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has come."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        peer = transport.get_extra_info("peername")
        self._client = (str(peer[0]), int(peer[1])) if isinstance(peer, tuple) else None
        self._tls = transport.get_extra_info("sslcontext") is not None
        self._deadline = self._loop.time() + self._limits.head_time
        if not self._server.admit(self):
            self._refuse(503, "all connections are in use; try again later")

    def data_received(self, data: bytes) -> None:
        """Bytes have come."""
        if self._phase == "leave":
            return
        self._buffer += data
        if self._phase != "answer":
            self._read()
        elif len(self._buffer) > MAX_AHEAD:
            self._transport.pause_reading()
            self._reading_paused = True

    def _read(self) -> None:
        """Take the next request, if all of it has come."""
        try:
            self._exchange = self._take_exchange()
        except BadMessage as bad:
            return self._refuse(bad.status, str(bad))
        if self._exchange is None:
            return
        self._phase, self._deadline = "answer", math.inf
        # A task and a context of its own: what a handler sets there is no affair of the next one's. Not by the loop's
        # factory: an eager one would begin to answer here, each request of a pipeline within the one before.
        self._task = asyncio.Task(self._serve(self._exchange), loop=self._loop, context=self._server.context.copy())

    def _take_exchange(self) -> ServerExchange | None:
        head = self._head
        if head is None:
            head = self._head = self._take_head()
            if head is None:
                return None
        body = self._take_body(head)
        if body is None:
            return None
        self._head, self._looked = None, 0
        request = HttpRequest(head.method, head.path, head.query, head.headers, body, self._client, self._tls)
        return ServerExchange(request, self, head)

    def _take_head(self) -> RequestHead | None:
        if self._phase == "idle" and self._buffer[:2] == b"\r\n":
            del self._buffer[:2]  # [RFC 9112 2.2] SHOULD ignore at least one empty line before the request line
        size = find_head_end(self._buffer, self._looked)
        if (size or len(self._buffer)) > self._limits.head_size:
            raise BadMessage(431, f"the head is larger than {self._limits.head_size} bytes")
        if not size:
            self._looked = len(self._buffer)
            if self._phase == "idle" and self._buffer:
                self._phase, self._deadline = "head", self._loop.time() + self._limits.head_time
            return None
        raw = bytes(self._buffer[:size])
        del self._buffer[:size]
        head = self._known_heads.get(raw)
        if head is None:
            head = parse_request_head(raw, self._limits.header_count)
            if len(self._known_heads) >= MAX_KNOWN_HEADS:
                self._known_heads.clear()
            self._known_heads[raw] = head
        if head.length > self._limits.body_size:
            raise BadMessage(413, f"the body is larger than {self._limits.body_size} bytes")
        return head

    def _take_body(self, head: RequestHead) -> bytes | None:
        """The body, if all of it has come."""
        if head.length == 0:
            return b""
        if self._phase != "body" and (head.length == CHUNKED or len(self._buffer) < head.length):
            self._phase, self._deadline = "body", self._loop.time() + self._limits.body_time
            if head.expects_continue and not self._buffer:
                # [RFC 9110 10.1.1] the client waits for leave to send the body
                self._write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if head.length != CHUNKED:
            if len(self._buffer) < head.length:
                return None
            body = bytes(self._buffer[: head.length])
            del self._buffer[: head.length]
            return body
        self._chunks = self._chunks or ChunkedBody()
        self._body += self._chunks.feed(self._buffer)
        if len(self._body) > self._limits.body_size:
            raise BadMessage(413, f"the body is larger than {self._limits.body_size} bytes")
        if not self._chunks.done:
            return None
        body = bytes(self._body)
        self._chunks = None
        self._body.clear()
        return body

    def eof_received(self) -> bool:
        """The client will send no more. True where it may still wait for an answer."""
        self._half_closed = True
        exchange = self._exchange
        if exchange is not None and exchange.watched is not None:
            exchange.leave()  # who asks whether the client has left is told too often rather than too late
        # A client that has left looks the same. It may keep us from reading an answer, but not from ending a stream.
        return self._phase == "answer" and not self._tls and (exchange is None or exchange.carrier is None)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has gone, or we have closed. A handler that is at work goes on."""
        self._lost = True
        self._phase, self._deadline = "leave", math.inf
        self._buffer.clear()
        if self._drained is not None:
            self._drained.set_result(None)
            self._drained = None
        if self._exchange is not None:
            self._exchange.leave()
            if self._exchange.carrier is not None:
                self._exchange.carrier.end()
        if self._task is None or self._task.done():
            self._server.release(self)

    @property
    def is_left(self) -> bool:
        """Whether the client has left, as far as can be seen."""
        return self._lost or self._half_closed

    # ------------------------------------------------------------------------------------- answering

    async def _serve(self, exchange: ServerExchange) -> None:
        """Answer an exchange, and go on to the next."""
        try:
            await self._answer(exchange)
            self._exchange = None
            if self._drained is not None and self._keep_alive:
                await self.drain()  # who does not read gets no further answers
            self._turn()
        except BaseException:  # the server stops, or a handler has cancelled itself
            self._transport.abort()
            raise
        finally:
            if self._lost:
                self._server.release(self)

    async def _answer(self, exchange: ServerExchange) -> None:
        try:
            await self._server.handler(exchange)
        except Exception:
            log.exception("the handler of %s %s failed", exchange.request.method, exchange.request.path)
            if not exchange.answered:
                self.respond(exchange, 500, TEXT, b"the server failed\n")
            elif exchange.carrier is not None and not exchange.carrier.gone.done():
                self._transport.abort()  # an end that looks orderly would pass for a whole answer
            return
        if not exchange.answered and self.is_left:
            self._keep_alive = False
        elif not exchange.answered:
            log.error("the handler of %s %s did not answer", exchange.request.method, exchange.request.path)
            self.respond(exchange, 500, TEXT, b"the server did not answer\n")
        elif exchange.carrier is not None:
            exchange.carrier.close()

    def _turn(self) -> None:
        """After an answer: on to the next request, or away."""
        self._task = None  # with what the handler has set in its context
        if self._lost or self._phase == "leave" or self._transport.is_closing():
            return
        if not self._keep_alive:
            return self._leave(linger=not self._finishing or bool(self._buffer))
        self._phase, self._deadline = "idle", self._loop.time() + self._limits.idle_time
        if self._reading_paused:
            self._reading_paused = False
            self._transport.resume_reading()
        if self._buffer:
            self._read()
        if self._exchange is None and self._half_closed:
            self._leave()

    def respond(self, exchange: ServerExchange, status: int, headers: HeaderList, body: bytes) -> None:
        """Write a whole answer."""
        head = self._begin(exchange, status, headers)
        if status == 204 or status == 304:
            head += b"\r\n"  # [RFC 9110 8.6] MUST NOT send Content-Length in a 204
            body = b""
        else:
            head += b"Content-Length: %d\r\n\r\n" % len(body)
        self._write(head if exchange.request.method == "HEAD" else head + body)

    def stream(self, exchange: ServerExchange, status: int, headers: HeaderList) -> ServerStreamingResponse:
        """Write the head of an answer that is written piece by piece."""
        chunked = not exchange.head.is_http_1_0
        head = self._begin(exchange, status, headers)
        self._write(head + (b"Transfer-Encoding: chunked\r\n\r\n" if chunked else b"\r\n"))
        self._known_heads.clear()  # a stream may last for hours, and there may be thousands of them
        carrier = ServerStreamingResponse(self, chunked, exchange.request.method != "HEAD")
        if self._lost or self._half_closed:
            carrier.end()
            self._keep_alive = False
        return carrier

    def _begin(self, exchange: ServerExchange, status: int, headers: HeaderList) -> bytes:
        if exchange.answered:
            raise RuntimeError("the exchange was answered before")
        self._keep_alive = self._keep_alive and exchange.head.keep_alive
        head = self._server.response_head(status, headers, not self._keep_alive)
        exchange.answered = True
        return head

    # ------------------------------------------------------------------------------------- writing

    def _write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._written += len(data)
            self._transport.write(data)

    def write_piece(self, data: bytes) -> None:
        """Write a piece of a stream, unless the client has left too much unread: then cut the connection."""
        if self._transport.get_write_buffer_size() > self._limits.write_buffer:
            log.info("%s does not read its stream: disconnected", self._client)
            self._transport.abort()
        else:
            self._write(data)

    def pause_writing(self) -> None:
        """The client reads too slowly."""
        self._drained = self._loop.create_future()
        self._progress = (-1, 0.0)

    def resume_writing(self) -> None:
        """The client has read."""
        if self._drained is not None:
            self._drained.set_result(None)
            self._drained = None

    async def drain(self) -> None:
        """Wait until the client has read most of what was written, or has gone."""
        if self._drained is not None:
            await asyncio.shield(self._drained)

    # ------------------------------------------------------------------------------------- ending

    def _refuse(self, status: int, why: str) -> None:
        """Say what was wrong, and leave."""
        log.debug("refused %s: %s", self._client, why)
        body = f"{why}\n".encode()
        head = self._server.response_head(status, TEXT, True)
        self._write(b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body))
        self._leave()

    def _leave(self, linger: bool = True) -> None:
        """Send what was written, and close; lingering: when the client has, so that it can read our last words."""
        # [RFC 9112 9.6] closing at once, with bytes of the client's unread, could destroy the answer on its way
        self._phase, self._deadline = "leave", self._loop.time() + LINGER
        self._buffer.clear()
        if self._reading_paused:
            self._transport.resume_reading()
        if self._half_closed or not linger or not self._transport.can_write_eof():
            return self._transport.close()
        try:
            self._transport.write_eof()
        except OSError:  # the client has reset the connection, and we have not read of it yet
            self._transport.abort()

    def finish(self) -> None:
        """The server stops: leave when the present answer has been given."""
        self._keep_alive, self._finishing = False, True
        if self._phase not in ("answer", "leave"):
            self._leave(linger=self._phase != "idle")

    def abort(self) -> asyncio.Task[None] | None:
        """Cut the connection and cancel the handler; the task that still has to end, if any."""
        self._transport.abort()
        if self._task is None or self._task.done():
            return None
        self._exchange = None  # it is cancelled once, and not again when the connection is lost
        self._task.cancel()
        return self._task

    def check_time(self, now: float) -> None:
        """End what has lasted too long. Called by the server's clock."""
        if self._drained is not None and not self._lost:
            read = self._written - self._transport.get_write_buffer_size()
            if read != self._progress[0]:
                self._progress = (read, now)
            elif now >= self._progress[1] + self._limits.write_time:
                log.info("%s has read nothing for %s s: disconnected", self._client, self._limits.write_time)
                return self._transport.abort()
        if now < self._deadline:
            return
        if self._phase in ("head", "body"):
            seconds = self._limits.head_time if self._phase == "head" else self._limits.body_time
            self._refuse(408, f"the {self._phase} of the request did not come within {seconds:g} s")
        elif self._phase == "idle":
            self._leave(linger=False)
        else:
            self._transport.abort()


class ServerExchange:
    """The Exchange of one request on a connection."""

    __slots__ = ("_connection", "answered", "carrier", "head", "request", "watched")

    def __init__(self, request: HttpRequest, connection: HttpConnection, head: RequestHead) -> None:
        self.request = request
        self.head = head
        self.answered = False
        self.carrier: ServerStreamingResponse | None = None
        self.watched: asyncio.Future[None] | None = None
        self._connection = connection

    def gone(self) -> asyncio.Future[None]:
        """See Exchange."""
        if self.watched is None:
            self.watched = asyncio.get_running_loop().create_future()
            if self._connection.is_left:
                self.watched.set_result(None)
        return self.watched

    def leave(self) -> None:
        """The client has left."""
        if self.watched is not None and not self.watched.done():
            self.watched.set_result(None)

    async def respond(self, status: int, headers: HeaderList, body: bytes) -> None:
        """See Exchange."""
        self._connection.respond(self, status, headers, body)

    async def stream(self, status: int, headers: HeaderList) -> ServerStreamingResponse:
        """See Exchange."""
        self.carrier = self._connection.stream(self, status, headers)
        return self.carrier


class ServerStreamingResponse:
    """The StreamingResponse of one response on a connection."""

    __slots__ = ("_chunked", "_connection", "_has_body", "gone")

    def __init__(self, connection: HttpConnection, chunked: bool, has_body: bool) -> None:
        self._connection = connection
        self._chunked = chunked
        self._has_body = has_body
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def write(self, data: bytes) -> None:
        if data and self._has_body and not self.gone.done():
            # [RFC 9112 7.1] a chunk: its size in hexadecimal, and its data. One of size 0 is the end.
            self._connection.write_piece(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)

    async def drain(self) -> None:
        if not self.gone.done():
            await self._connection.drain()

    def close(self) -> None:
        if not self.gone.done():
            if self._chunked and self._has_body:
                self._connection.write_piece(b"0\r\n\r\n")
            self.end()

    def end(self) -> None:
        """Nothing more can be written."""
        if not self.gone.done():
            self.gone.set_result(None)
