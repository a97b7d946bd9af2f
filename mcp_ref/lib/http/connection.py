"""The server's side of one TCP connection. It reads requests, runs the handler, and sends the responses.

The server reads the head of one request, runs the handler, and only then reads the next request, so responses have the
order of their requests. A large body is read only when the handler asks for it, so that a refused head costs no memory
for its body. Requests that arrive while a handler runs wait in a buffer of limited size.

An attacker could hold many connections open by sending one byte now and then, or by never reading. So requests have
time limits that further bytes do not extend (`Phase`), and the server disconnects slow readers (`HttpLimits`).

Spec:  RFC 9112, sections 7.1 (chunks), 9.3 (persistence), 9.6 (closing); RFC 9110, section 10.1.1 (100-continue)
"""

from __future__ import annotations

import asyncio
import logging
import math
import select
import sys
import time
from collections.abc import Coroutine
from enum import Enum
from typing import Final, cast

from ..turns import LARGE_MESSAGE
from .connections import MAX_UNCOUNTED, Connections, SlowReader
from .exchange import HttpExchange, HttpStreamingResponse
from .framing import BadMessage
from .message import CLIENT_DISCONNECTED, MIN_COUNTED_SIZE, SMALL_BODY, BodyError, HttpRequest, Rest
from .parser import RequestHead, RequestParser

log = logging.getLogger(__name__)

MAX_PIPELINED_BYTES: Final = 64 * 1024
"""Maximum size of all requests that arrive while a handler runs, in bytes. Above it, the server stops reading."""

LINGER_SECONDS: Final = 2.0
"""Seconds that a client may take to read the last response and close, before the server aborts the connection."""

MAX_REFUSED: Final = 8
"""Maximum number of connections over the limit that stay open until their clients have read the status 503."""

_EAGER: Final[dict[str, bool]] = {"eager_start": True} if sys.version_info >= (3, 12) else {}
"""Options of an `asyncio.Task` that runs at once until it has to wait. Most requests end before that, and so cost no
iteration of the event loop. Python 3.11 has no such tasks."""

_PLAIN_TEXT: Final = [("Content-Type", "text/plain; charset=utf-8")]


class Phase(Enum):
    """The phase of a connection. A request whose head or body has already arrived skips HEAD or BODY.

    IDLE -> HEAD -> RESPONSE -> BODY -> RESPONSE -> IDLE -> ...     any of these -> CLOSING -> CLOSED, or CLOSED at once

    Phase      The server waits for           Time limit                     After the time limit, the server
    IDLE       the first byte of a request    idle_time (if new: head_time)  closes the connection.
    HEAD       the end of the head            head_time                      sends status 408 and closes.
    RESPONSE   the handler                    (none)
    BODY       the body that the handler      body_time                      sends status 408 and closes.
               has asked for
    CLOSING    the client to read and close   LINGER_SECONDS                 aborts the connection.

    In every phase, the server also aborts the connection of a client that has much unread data, and reads nothing for
    write_time.
    """

    IDLE = "idle"
    HEAD = "head"
    BODY = "body"
    RESPONSE = "response"
    CLOSING = "closing"
    CLOSED = "closed"


IDLE, HEAD, BODY, RESPONSE, CLOSING, CLOSED = Phase  # globals, because `Phase.IDLE` is slow in Python 3.11


class HttpConnection(asyncio.BufferedProtocol):
    """The server's side of one TCP connection.

    A request is over when its handler has returned (`_end_handler`) and its response has ended
    (`continue_after_response`), in either order. Only then does the next request begin.

    `Connection` (exchange.py) documents the methods that the exchange calls, and `OpenConnection` (connections.py)
    those that the server calls.
    """

    def __init__(self, connections: Connections) -> None:
        self._connections, self.head_writer = connections, connections.head_writer
        self._transport: asyncio.Transport
        self._client: tuple[str, int] | None = None  # address and port
        self._reading_paused = self.client_disconnected = False
        self._buffer_is_counted = False  # True if `Connections.bodies` counts the parser's buffer
        self._phase, self._deadline = IDLE, math.inf
        self.parser = RequestParser(connections.limits, connections.parse_head)
        self.keep_alive = True
        self._stopping = False  # True while the server stops
        self._exchange: HttpExchange | None = None  # None between requests, and after `forget_request`
        self._body: asyncio.Future[bytes] | None = None  # set when a handler asks for the body, or it is refused
        self._task: asyncio.Task[None] | None = None  # runs the rest of a handler that has to wait for something
        self.response: HttpStreamingResponse | None = None
        self._handler_returned = False  # True while the response lasts longer than its handler
        self._response_size = LARGE_MESSAGE + 1  # of the last response, in bytes; the first may be large
        self._slow_reader: SlowReader | None = None  # not None while the client reads too slowly

    def _enter_phase(self, phase: Phase, seconds: float = math.inf) -> None:
        self._phase = phase
        self._deadline = time.monotonic() + seconds

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's class does not inherit from asyncio's
        # By default, asyncio calls `pause_writing` only above 64 KiB of unread data (512 KiB with TLS). 10,000 slow
        # clients could have ten times `HttpLimits.unread_size` before we know of them.
        self._transport.set_write_buffer_limits(min(MAX_UNCOUNTED, self._connections.limits.write_buffer))
        peer = transport.get_extra_info("peername")
        self._client = (str(peer[0]), int(peer[1])) if isinstance(peer, tuple) else None
        self._enter_phase(IDLE, self._connections.limits.head_time)
        why_refused = self._connections.add(self, self._client[0] if self._client is not None else "")
        if why_refused is not None:
            self._refuse(503, why_refused)
            self._connections.refused.append(self)
            if len(self._connections.refused) > MAX_REFUSED:
                self._connections.refused.popleft().abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._connections.received

    def buffer_updated(self, nbytes: int) -> None:
        """Take the bytes that have arrived, and do what the phase needs."""
        if self._phase is CLOSING:  # the client's further requests are dropped
            return
        self.parser.buffer += self._connections.received[:nbytes]
        if self._phase is BODY:
            return self._read_body()
        if self._phase is not RESPONSE:
            self._read()
        elif len(self.parser.buffer) > MAX_PIPELINED_BYTES:
            self._transport.pause_reading()
            self._reading_paused = True
        if len(self.parser.buffer) > MIN_COUNTED_SIZE:
            self._count_buffer()

    def _count_buffer(self) -> None:
        """Count a large buffer for `bodies_size` while it waits for the rest of a head or for the end of a handler."""
        if self._phase is not BODY:  # then `_read_body` counts these bytes
            self._buffer_is_counted = True
            # the owner is the parser, because `_read_body` counts what `self` owns
            self._connections.bodies.update(self.parser, len(self.parser.buffer), self._refuse_buffer)

    def _refuse_buffer(self, error: BodyError) -> None:
        """Refuse a body that its handler has not asked for yet, or end the connection if the buffer is not a body."""
        # the current request has a body that has not arrived, and that its handler has not asked for
        is_body = self._exchange is not None and not self._exchange.has_body and self._body is None
        if not is_body:  # but a head, or requests that follow the current one
            return self._transport.abort()
        self.parser.clear()
        self._transport.pause_reading()
        self._reading_paused = True
        self._body = self._connections.loop.create_future()
        self._body.set_exception(error)  # `read_body` raises it
        self._body.exception()  # or asyncio would log it as never retrieved if the handler asks for no body

    def _forget_buffer(self) -> None:
        if self._buffer_is_counted:
            self._buffer_is_counted = False
            self._connections.bodies.remove(self.parser)

    def _read(self) -> None:
        """Start the handler of the next request, or wait for the rest of its head."""
        try:
            head = self.parser.next_head()
            # A small body usually arrives together with its head. A larger one waits until the handler asks for it.
            body = self.parser.next_body() if head is not None and head.length <= SMALL_BODY else None
        except BadMessage as bad:
            return self._refuse(bad.status, str(bad))
        if head is not None:
            self._start_handler(head, body)
        elif self.parser.buffer and self._phase is IDLE:
            self._enter_phase(HEAD, self._connections.limits.head_time)

    async def read_body(self) -> bytes:
        if self._phase is not RESPONSE:
            raise BodyError(CLIENT_DISCONNECTED, "the client has disconnected")
        if self._body is not None:
            return await self._body  # `_refuse_buffer` has refused it
        self._forget_buffer()  # `_read_body` counts its bytes from now on, as a body
        body: asyncio.Future[bytes] = self._connections.loop.create_future()
        self._body = body
        self._enter_phase(BODY, self._connections.limits.body_time)
        if self.parser.must_send_continue and not self.parser.buffer:
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n")  # [RFC 9110 10.1.1] the client waits for this
        self._read_body()
        if self.client_disconnected:
            self._refuse_body(BodyError(400, "the client has closed the connection before the end of the body"))
        elif self._reading_paused:
            self._reading_paused = False
            self._transport.resume_reading()
        return await body

    def _read_body(self) -> None:
        try:
            body = self.parser.next_body()
        except BadMessage as bad:
            return self._refuse_body(BodyError(bad.status, str(bad)))
        size = self.parser.body_bytes if body is None else len(body)
        self._connections.bodies.update(self, size, self._refuse_body)  # may call `_refuse_body`
        if body is not None and self._body is not None and not self._body.done():  # complete, and not refused just now
            self._connections.bodies.update(self, size, None)  # from now on, it counts, but is no longer refused
            self._phase, self._deadline = RESPONSE, math.inf
            self._body.set_result(body)

    def _refuse_body(self, error: BodyError) -> None:
        """Raise an error in the handler that waits for its body, if any."""
        if self._body is not None and not self._body.done():
            self._deadline = math.inf
            if self._phase is not CLOSED:
                self._phase = RESPONSE
            self.parser.clear()
            self._body.set_exception(error)

    def _start_handler(self, head: RequestHead, body: bytes | None) -> None:
        """Call the handler of a request, and run the rest of its work, if any, in a task.

        The `body` is missing if it has not arrived, or is large.
        """
        self._forget_buffer()
        request = HttpRequest(head.method, head.path, head.query, head.headers, b"", self._client)
        exchange = self._exchange = HttpExchange(request, self, head, body)
        self._phase, self._deadline = RESPONSE, math.inf
        self._handler_returned = False
        connections = self._connections
        context = connections.context.copy()  # so that a handler's context variables do not leak into the next request
        was_large = self._response_size > LARGE_MESSAGE  # then the next response probably is large too
        self._response_size = 0
        # if the memory is full of large responses (turns.py), wait before another one, unless the request is urgent
        if was_large and connections.turns.is_crowded and (body is None or not connections.is_urgent(body)):
            rest: Rest = self._wait_and_handle(exchange)
        else:
            try:
                rest = context.run(connections.handler, exchange)
            except Exception as error:
                self._respond_to_failure(exchange, error)
                rest = None
        if rest is None:
            return self._end_handler(exchange)
        # An eager task would start the next handler inside this one, so with many requests in the buffer their handlers
        # would be nested.
        options = {} if self.parser.buffer else _EAGER
        task = asyncio.Task(self._serve(exchange, rest), loop=connections.loop, context=context, **options)  # type: ignore[arg-type]
        if not task.done():
            self._task = task

    async def _wait_and_handle(self, exchange: HttpExchange) -> None:
        await self._connections.turns.wait_to_start()
        rest = self._connections.handler(exchange)
        if rest is not None:
            await rest

    def eof_received(self) -> bool:
        """Notify the handler. Return True if the connection stays open for a response."""
        self.client_disconnected = True
        if self._exchange is not None:
            # Perhaps the client has only stopped sending, but a false notification costs less than a late one.
            self._exchange.notify_disconnect()
        # Stay open for a short response, but not for a stream, which could last until the server stops.
        is_tls = self._transport.get_extra_info("sslcontext") is not None  # asyncio cannot keep TLS half open
        return self._phase is RESPONSE and not is_tls and self.response is None

    def _check_client(self) -> None:
        """Notify the handler if the client has left, which the event loop does not notice while reading is paused."""
        # Peeking at the next byte is not enough, because unread requests may precede the end of the input. POLLRDHUP,
        # which finds this end, is Linux only.
        if sys.platform != "linux":
            return
        poll = select.poll()
        poll.register(self._transport.get_extra_info("socket").fileno(), select.POLLRDHUP)
        events = poll.poll(0)
        if not events:
            return
        is_tls = self._transport.get_extra_info("sslcontext") is not None
        if is_tls or self.response is not None or events[0][1] & (select.POLLERR | select.POLLHUP):
            self._transport.abort()
        elif self._exchange is not None:
            self._exchange.notify_disconnect()  # the requests before the end still get their responses

    def connection_lost(self, exc: Exception | None) -> None:
        """Release the connection's resources. A running handler is notified, but continues."""
        self._enter_phase(CLOSED)
        self.client_disconnected = True
        if self._body is not None:
            self._refuse_body(BodyError(CLIENT_DISCONNECTED, "the client has disconnected"))
        self.parser.clear()
        self._forget_buffer()
        self.resume_writing()  # so that nobody waits for the client to read
        if self._exchange is not None:
            self._exchange.notify_disconnect()
        if self.response is not None:
            self.response.mark_ended()
        if self._exchange is None and (self._task is None or self._task.done()):
            self._connections.remove(self)

    async def _serve(self, exchange: HttpExchange, rest: Coroutine[object, object, None]) -> None:
        """Run the rest of a handler to its end. This is the coroutine of `_task`."""
        try:
            try:
                await rest
            except (Exception, SystemExit) as error:  # SystemExit in an asyncio task would end the server
                self._respond_to_failure(exchange, error)
            self._end_handler(exchange)
        except BaseException:  # the server is stopping, or the handler has cancelled its own task
            exchange.give_up()
            self._exchange = None
            self.forget_body()
            self._transport.abort()
            if self._phase is CLOSED:
                self._connections.remove(self)
            raise

    def _end_handler(self, exchange: HttpExchange) -> None:
        """Note that the handler has returned, and continue if its response has ended, too."""
        self._task = None  # or the task would keep the handler's context variables in memory
        responds_later = exchange.on_cancel is not None  # the handler has called `respond_later`
        if not responds_later and not exchange.responded:
            self._respond_to_silence(exchange)
        self._handler_returned = True  # only now, so that `_respond_to_silence` does not continue, but the code below
        if responds_later:
            return  # the response will call `continue_after_response`
        if self.response is None or self.response.has_ended:
            self.continue_after_response()
        elif self.response.is_kept_open:
            self.forget_request()
        else:
            self.response.close()  # which calls `continue_after_response`

    def continue_after_response(self) -> None:
        if not self._handler_returned:
            return  # `_end_handler` calls this again
        self._handler_returned, self._exchange, self.response = False, None, None
        self.forget_body()  # before the next request, whose handler may ask for its own body at once
        if self._phase is CLOSED:
            self._connections.remove(self)
        elif self.keep_alive and self._slow_reader is not None:
            # Run no further handler for a client that does not read.
            self._slow_reader.drained.add_done_callback(self._next_request)
        elif self.parser.buffer:
            self._connections.loop.call_soon(self._next_request)  # direct calls would nest, one inside the other
        else:
            self._next_request()

    def forget_request(self) -> None:
        if self._handler_returned:
            self._exchange = None
            self.forget_body()

    def forget_body(self) -> None:
        if self._body is not None:
            self._body = None
            self._connections.bodies.remove(self)

    def _respond_to_failure(self, exchange: HttpExchange, error: Exception | SystemExit) -> None:
        """Log the error of a handler, and send it as the response, unless the response has begun."""
        if isinstance(error, BodyError):
            log.debug("refused the body of a request of %s with status %d: %s", self._client, error.status, error)
            status, why = error.status, str(error)
        else:
            request = exchange.request
            log.error("the handler of %s %s failed", request.method, request.path, exc_info=error)
            status, why = 500, "the server failed"
            if self.response is not None and not self.response.has_ended:
                self._transport.abort()  # a normal close would make the body look complete
        if not exchange.responded:
            exchange.give_up()
            exchange.respond(status, _PLAIN_TEXT, f"{why}\n".encode())

    def _respond_to_silence(self, exchange: HttpExchange) -> None:
        """Send status 500 for a handler that has returned without a response, unless the client has left."""
        if self.client_disconnected:
            self.keep_alive = False
        else:
            request = exchange.request
            log.error("the handler of %s %s returned without a response", request.method, request.path)
            exchange.respond(500, _PLAIN_TEXT, b"the server did not send a response\n")

    def _next_request(self, drained: object = None) -> None:
        """Begin with the next request, or close the connection. `drained` is the future that calls this, if any."""
        if self._phase is not RESPONSE or self._transport.is_closing():
            return
        if not self.keep_alive:
            # A stopping server lingers only if TCP could discard the response, because we have not read all bytes.
            return self._close(linger=not self._stopping or bool(self.parser.buffer))
        self._phase, self._deadline = IDLE, time.monotonic() + self._connections.limits.idle_time
        if self._reading_paused:
            self._reading_paused = False
            self._transport.resume_reading()
        if self.parser.buffer:
            self._read()
            self._count_buffer()
        if self._exchange is None and self.client_disconnected:
            self._close()

    def write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._response_size += len(data)
            self._transport.write(data)
            if self._slow_reader is not None:
                self._slow_reader.note_written(len(data))

    def write_piece(self, data: bytes) -> None:
        if self._slow_reader is None:
            return self.write(data)
        limit = self._connections.limits.write_buffer
        if self._transport.get_write_buffer_size() > limit:
            log.info("disconnected %s, which left more than %d bytes unread", self._client, limit)
            self._transport.abort()
        else:
            self.write(data)

    def pause_writing(self) -> None:
        self._slow_reader = SlowReader(self._connections, self._transport, self._client)

    def resume_writing(self) -> None:
        if self._slow_reader is not None:
            self._slow_reader.end()
            self._slow_reader = None

    @property
    def has_room(self) -> bool:
        return self._slow_reader is None

    async def drain(self) -> None:
        if self._slow_reader is not None:
            await asyncio.shield(self._slow_reader.drained)

    def _refuse(self, status: int, why: str) -> None:
        log.debug("refused a request of %s with status %d: %s", self._client, status, why)
        body = f"{why}\n".encode()
        head = self.head_writer.write(status, _PLAIN_TEXT, close=True)
        self.write(b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body))
        self._close()

    def _close(self, linger: bool = True) -> None:
        """Close after all written bytes are sent and, with `linger`, the client has read them and closed."""
        # [RFC 9112 9.6] if we closed with unread bytes of the client, TCP could discard our response
        self._enter_phase(CLOSING, LINGER_SECONDS)
        self.parser.clear()
        if self._reading_paused:
            self._transport.resume_reading()
        if self.client_disconnected or not linger or not self._transport.can_write_eof():
            return self._transport.close()
        try:
            self._transport.write_eof()
        except OSError:  # the client has reset the connection, but the event loop has not noticed yet
            self._transport.abort()

    def close_after_response(self) -> None:
        self.keep_alive, self._stopping = False, True
        if self._phase in (IDLE, HEAD):
            self._close(linger=self._phase is HEAD)  # in IDLE, we have read all of the client's bytes
        elif self._phase is BODY:
            self._refuse_body(BodyError(503, "the server is shutting down"))

    def abort(self) -> asyncio.Task[None] | None:
        self._transport.abort()
        exchange, self._exchange = self._exchange, None  # so that a cancelled handler is not notified as well
        if self._task is not None and not self._task.done():
            self._task.cancel()
            return self._task
        if exchange is not None:
            exchange.give_up()
        if self._phase is CLOSED:
            self._connections.remove(self)
        return None

    def check_time_limits(self, now: float) -> None:
        if self._slow_reader is not None:
            self._slow_reader.check(now)
        if self._reading_paused and self._phase is RESPONSE:
            self._check_client()
        if now < self._deadline:
            return
        if self._phase is IDLE:
            self._close(linger=False)
        elif self._phase is HEAD:
            self._refuse(408, f"the head of the request did not arrive within {self._connections.limits.head_time:g} s")
        elif self._phase is BODY:
            why = f"the body of the request did not arrive within {self._connections.limits.body_time:g} s"
            self._refuse_body(BodyError(408, why))
        else:  # CLOSING
            self._transport.abort()
