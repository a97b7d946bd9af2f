"""An HTTP/1.1 server: asyncio owns the sockets, `http.server` parses the heads.

    bytes -> Connection.data_received -> head (HeadHandler, unless it is the same as the one before) -> body
          -> a task runs the handler with an Exchange -> response head (HeadHandler) and body -> the next request

One request of a connection is served at a time; what a client sends ahead waits, within bounds. Strict where two
readers of one request could disagree on where it ends: that is how requests are smuggled.

Spec:  RFC 9112
Above: whoever gives a handler. Below: message.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import time
from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from io import BytesIO
from ssl import SSLContext
from typing import Final

from .message import Handler, HeaderList, Headers, Request

log = logging.getLogger(__name__)


@dataclass
class Limits:
    """The bounds of a server."""

    max_head: int = 32 * 1024
    """Bytes of a request's head; 431 beyond. (It has at most 100 fields, too.)"""
    max_body: int = 64 * 1024 * 1024
    """Bytes of a request's body, as received; 413 beyond."""
    max_connections: int = 10_000
    """Connections at a time; more are closed at once."""
    max_unsent: int = 4 * 1024 * 1024
    """Bytes that wait for a client that does not read, before its connection is dropped."""
    head_seconds: float = 10.0
    """For sending a head, from its first byte, or from connecting."""
    body_seconds: float = 60.0
    """Between two pieces of a body."""
    idle_seconds: float = 120.0
    """Between two requests."""
    stalled_seconds: float = 60.0
    """For a client that has not read anything, while something waits for it."""


class Fault(Exception):
    """A request is not understood, or too large. The connection ends: nobody knows where the next request begins."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status, self.why = status, why


# ------------------------------------------------------------------------------------------------ heads

_HEAD_END: Final = b"\r\n\r\n"
# RFC 9112: 2.2 no bare CR or LF; 5.2 no folded lines; RFC 9110 5.5: no NUL
_BAD_HEAD: Final = re.compile(rb"(?<!\r)\n|\r(?!\n)|\r\n[ \t]|\x00")
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FIELD: Final = re.compile(rb"\r\n(?![!#$%&'*+.^_`|~0-9A-Za-z-]+:)")


class HeadHandler(BaseHTTPRequestHandler):
    """What `http.server` knows of heads, without its sockets."""

    protocol_version = "HTTP/1.1"
    expects_continue = False

    def __init__(self) -> None:  # not super's: it would serve a socket
        self.wfile = self._written = BytesIO()

    def read(self, head: bytes) -> None:
        """Parse a request's head. Raises Fault."""
        if _BAD_HEAD.search(head):
            raise Fault(400, "a head has lines that end in CR LF, none of them folded, and no NUL")
        if _FIELD.search(head[:-4]):
            raise Fault(400, "a field of the head is name, colon, value")
        self.expects_continue = False
        self.rfile = BytesIO(head)
        self.raw_requestline = self.rfile.readline()
        self.parse_request()
        if not _TOKEN.fullmatch(self.command) or self.request_version not in ("HTTP/1.1", "HTTP/1.0"):
            raise Fault(400, "a request begins with a method, a target and HTTP/1.1")

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """http.server: the head is bad."""
        raise Fault(int(code), message or HTTPStatus(code).phrase)

    def handle_expect_100(self) -> bool:
        """http.server: the client waits for a word before it sends the body."""
        self.expects_continue = True
        return True

    def write(self, status: int, headers: HeaderList) -> bytes:
        """A response's head."""
        self.send_response_only(status)
        self.send_header("Date", _date())
        for name, value in headers:
            if "\r" in value or "\n" in value:
                raise ValueError(f"a header's value is one line: {name}")
            self.send_header(name, value)
        self.end_headers()
        head = self._written.getvalue()
        self._written.seek(0)
        self._written.truncate()
        return head


_now: tuple[int, str] = (0, "")


def _date() -> str:
    """The Date of this second."""
    global _now
    second = int(time.time())
    if _now[0] != second:
        _now = (second, formatdate(second, usegmt=True))
    return _now[1]


@dataclass(slots=True)
class Head:
    """What a request's head says."""

    method: str
    path: str
    query: str
    headers: Headers
    is_http_10: bool
    keeps_alive: bool
    expects_continue: bool
    length: int | None
    """Bytes of the body; None for a chunked one."""


def read_head(raw: bytes) -> Head:
    """Parse a head, and find out how long the body is. Raises Fault."""
    parser = HeadHandler()
    parser.read(raw)
    headers = Headers(parser.headers.items())
    path, _, query = parser.path.partition("?")
    is_http_10 = parser.request_version == "HTTP/1.0"
    if len(headers.get_all("host")) != 1 and not is_http_10:
        raise Fault(400, "exactly one Host is needed")  # RFC 9112, 3.2
    return Head(
        parser.command,
        path,
        query,
        headers,
        is_http_10,
        not parser.close_connection,
        parser.expects_continue,
        _body_length(headers, is_http_10),
    )


def _body_length(headers: Headers, is_http_10: bool) -> int | None:
    """RFC 9112, section 6: a body is as long as Content-Length says, or chunked; never both."""
    lengths, codings = headers.get_all("content-length"), headers.get_all("transfer-encoding")
    if codings:
        if lengths or is_http_10:
            raise Fault(400, "Transfer-Encoding is for HTTP/1.1, and not beside Content-Length")
        if [coding.strip().lower() for coding in codings] != ["chunked"]:
            raise Fault(501, "the only Transfer-Encoding that is known here is chunked")
        return None
    if not lengths:
        return 0
    if len(lengths) > 1 or not re.fullmatch(r"[0-9]{1,18}", lengths[0]):
        raise Fault(400, "Content-Length is one number")
    return int(lengths[0])


# ------------------------------------------------------------------------------------------------ bodies


@dataclass
class ChunkReader:
    """Takes a chunked body apart. [RFC 9112, 7.1]"""

    max_body: int
    body: bytearray = field(default_factory=bytearray)
    _left: int = 0  # of the current chunk
    _state: str = "size"

    def feed(self, buffer: bytearray) -> bool:
        """Take what there is; True when the body is complete. Raises Fault."""
        while True:
            if self._state == "data":
                piece = buffer[: self._left]
                self.body += piece
                del buffer[: len(piece)]
                self._left -= len(piece)
                if self._left:
                    return False
                self._state = "end"
            end = buffer.find(b"\r\n")
            if end < 0:
                if len(buffer) > 1024:
                    raise Fault(400, "a chunk begins with its size and CR LF")
                return False
            line = bytes(buffer[:end])
            del buffer[: end + 2]
            if self._state == "end":
                if line:
                    raise Fault(400, "a chunk is longer than its size")
                self._state = "size"
            elif self._state == "trailer":
                if not line:
                    return True
            else:
                size = re.fullmatch(rb"([0-9A-Fa-f]{1,15})[ \t]*(;[^\x00-\x08\x0a-\x1f\x7f]*)?", line)
                if size is None:
                    raise Fault(400, "a chunk begins with its size in hexadecimal")
                self._left = int(size[1], 16)
                if len(self.body) + self._left > self.max_body:
                    raise Fault(413, f"the body has more than {self.max_body} bytes")
                self._state = "data" if self._left else "trailer"


# ------------------------------------------------------------------------------------------------ one connection


class Connection(asyncio.Protocol):
    """One client's connection: requests in, one after the other, and their responses."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.limits = server.limits
        self.deadline: float | None = None
        """When it is dropped, unless something happens before."""
        self.transport: asyncio.Transport | None = None
        self.peer = ""
        self._buffer = bytearray()
        self._raw_head = b""
        self._head: Head | None = None  # the last one; kept for the next request, which is often the same
        self._in_body = False
        self._chunks: ChunkReader | None = None
        self._exchange: HttpExchange | None = None
        self._task: asyncio.Task[None] | None = None
        self._writable: asyncio.Future[None] | None = None
        self._closing = False
        self._paused = False

    # ------------------------------------------------------------------------------------- from asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio: a client has connected."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.peer = str((transport.get_extra_info("peername") or ("",))[0])
        self._expect(self.limits.head_seconds)
        if not self.server.admit(self):
            transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        """asyncio: the client has left."""
        self.server.connections.discard(self)
        self.deadline = None
        self._closing = True
        self.resume_writing()
        if self._exchange is not None:
            self._exchange.lost()

    def data_received(self, data: bytes) -> None:
        """asyncio: bytes have come."""
        self._buffer += data
        if self._exchange is None:
            self._advance()
        elif len(self._buffer) > self.limits.max_head and self.transport is not None:
            self.transport.pause_reading()  # it sends ahead of our answers
            self._paused = True

    def eof_received(self) -> bool:
        """asyncio: the client sends no more. It may still wait for an answer."""
        if self._exchange is None:
            return False
        self._closing = True
        return True

    def pause_writing(self) -> None:
        """asyncio: the client does not read fast enough."""
        if self._writable is None:
            self._writable = asyncio.get_running_loop().create_future()
            self._expect(self.limits.stalled_seconds)

    def resume_writing(self) -> None:
        """asyncio: it has read enough."""
        if self._writable is not None:
            self.deadline = None
            if not self._writable.done():
                self._writable.set_result(None)
            self._writable = None

    # ------------------------------------------------------------------------------------- requests

    def _expect(self, seconds: float) -> None:
        self.deadline = asyncio.get_running_loop().time() + seconds

    def _advance(self) -> None:
        """Take the next request out of the buffer, if it is all there."""
        try:
            if not self._in_body and not self._begin():
                return
            body = self._take_body()
        except Fault as fault:
            self._refuse(fault)
            return
        if body is None:
            return
        self._in_body = False
        head = self._head
        assert head is not None
        self.deadline = None
        request = Request(head.method, head.path, head.query, head.headers, body, self.peer)
        exchange = self._exchange = HttpExchange(self, request, head)
        self._task = asyncio.get_running_loop().create_task(self._serve(exchange))

    def _begin(self) -> bool:
        """Take a head. False where there is none yet."""
        buffer = self._buffer
        while buffer.startswith(b"\r\n"):  # RFC 9112, 2.2: an empty line before a request is ignored
            del buffer[:2]
        end = buffer.find(_HEAD_END) + 4
        if end < 4 or end > self.limits.max_head:
            if len(buffer) > self.limits.max_head:
                raise Fault(431, f"the head has more than {self.limits.max_head} bytes")
            if buffer and self._raw_head:
                self._raw_head = b""
                self._expect(self.limits.head_seconds)
            if buffer and _BAD_HEAD.search(bytes(buffer[:-1])):
                raise Fault(400, "a head has lines that end in CR LF, none of them folded, and no NUL")
            return False
        raw = bytes(buffer[:end])
        del buffer[:end]
        if raw != self._raw_head or self._head is None:
            self._head = read_head(raw)
            self._raw_head = raw
        head = self._head
        if head.length is not None and head.length > self.limits.max_body:
            raise Fault(413, f"the body has more than {self.limits.max_body} bytes")
        self._chunks = ChunkReader(self.limits.max_body) if head.length is None else None
        self._in_body = True
        if head.length != 0:
            self._expect(self.limits.body_seconds)
            if head.expects_continue and not buffer and self.transport is not None:
                self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return True

    def _take_body(self) -> bytes | None:
        """The body, when it is all there."""
        assert self._head is not None
        if self._chunks is not None:
            if self._chunks.feed(self._buffer):
                return bytes(self._chunks.body)
        else:
            length = self._head.length or 0
            if len(self._buffer) >= length:
                body = bytes(self._buffer[:length])
                del self._buffer[:length]
                return body
        self._expect(self.limits.body_seconds)
        return None

    async def _serve(self, exchange: HttpExchange) -> None:
        try:
            await self.server.handler(exchange)
            if not exchange.is_answered:
                log.error("%s %s was not answered", exchange.request.method, exchange.request.path)
                await exchange.respond(500, [], b"")
        except Exception:
            log.exception("%s %s failed", exchange.request.method, exchange.request.path)
            if not exchange.is_answered:
                await exchange.respond(500, [], b"")
            else:
                self.abort()
        finally:
            exchange.close()
            self._exchange = self._task = None
        self._go_on(exchange.head.keeps_alive)

    def _go_on(self, keeps_alive: bool) -> None:
        """After a response: the next request, or the end."""
        if self.transport is None or self.transport.is_closing():
            return
        if not keeps_alive or self._closing or self.server.is_closing:
            self.transport.close()
            self._expect(self.limits.stalled_seconds)  # for what is still to be sent
            return
        self._expect(self.limits.idle_seconds)
        if self._paused:
            self._paused = False
            self.transport.resume_reading()
        if self._buffer:
            self._advance()

    def _refuse(self, fault: Fault) -> None:
        """Say what is wrong, and end."""
        if self.transport is None or self.transport.is_closing():
            return
        body = fault.why.encode() + b"\n"
        headers = [
            ("Content-Type", "text/plain; charset=utf-8"),
            ("Content-Length", str(len(body))),
            ("Connection", "close"),
        ]
        self.transport.write(HeadHandler().write(fault.status, headers) + body)
        self.transport.close()
        self._buffer.clear()
        self._expect(1.0)

    # ------------------------------------------------------------------------------------- for the exchange

    def write(self, data: bytes) -> None:
        """Send bytes. A client that lets too many wait is dropped."""
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        waiting = transport.get_write_buffer_size()
        if waiting > self.limits.max_unsent:
            log.warning("dropped %s: %d bytes wait for it", self.peer, waiting)
            return self.abort()
        transport.write(data)

    async def drain(self) -> None:
        """Wait until the client has read enough."""
        if self._writable is not None:
            await asyncio.shield(self._writable)

    def abort(self) -> None:
        """End at once."""
        if self.transport is not None:
            self.transport.abort()

    def close(self) -> None:
        """End when the current response has ended; at once if there is none."""
        self._closing = True
        if self._exchange is None and self.transport is not None:
            self.transport.close()

    @property
    def task(self) -> asyncio.Task[None] | None:
        """What serves the current request."""
        return self._task


class HttpExchange:
    """One request on a connection, and its response."""

    def __init__(self, connection: Connection, request: Request, head: Head) -> None:
        self.request = request
        self.head = head
        self.is_answered = False
        self._connection = connection
        self._stream: HttpStream | None = None

    async def respond(self, status: int, headers: HeaderList, body: bytes) -> None:
        """Answer with a whole body."""
        has_body = status >= 200 and status not in (204, 304)
        if has_body:
            headers = [*headers, ("Content-Length", str(len(body)))]
        head = self._head(status, headers)
        self._connection.write(head if self.request.method == "HEAD" or not has_body else head + body)

    async def stream(self, status: int, headers: HeaderList) -> HttpStream:
        """Answer with a body that is written piece by piece."""
        chunked = not self.head.is_http_10
        if not chunked:
            self.head.keeps_alive = False  # the end of the connection is the end of the body
        head = self._head(status, [*headers, ("Transfer-Encoding", "chunked")] if chunked else headers)
        self._connection.write(head)
        self._stream = HttpStream(self._connection, chunked)
        if self._connection.transport is None or self._connection.transport.is_closing():
            self._stream.lost()
        return self._stream

    def _head(self, status: int, headers: HeaderList) -> bytes:
        if self.is_answered:
            raise RuntimeError("a request is answered once")
        self.is_answered = True
        if not self.head.keeps_alive:
            headers = [*headers, ("Connection", "close")]
        return HeadHandler().write(status, headers)

    def lost(self) -> None:
        """The client has left."""
        if self._stream is not None:
            self._stream.lost()

    def close(self) -> None:
        """End the response."""
        if self._stream is not None:
            self._stream.close()


class HttpStream:
    """A response that is being written."""

    def __init__(self, connection: Connection, chunked: bool) -> None:
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._connection = connection
        self._chunked = chunked

    def write(self, data: bytes) -> None:
        """Send bytes; dropped when the client has left."""
        if data and not self.gone.done():
            self._connection.write(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)

    async def drain(self) -> None:
        """Wait until the client has read enough."""
        if not self.gone.done():
            await self._connection.drain()

    def close(self) -> None:
        """End the response."""
        if not self.gone.done():
            if self._chunked:
                self._connection.write(b"0\r\n\r\n")
            self.gone.set_result(None)

    def lost(self) -> None:
        """The client has left."""
        if not self.gone.done():
            self.gone.set_result(None)


# ------------------------------------------------------------------------------------------------ the server


class Server:
    """Serves one handler on one address; `serve` makes it."""

    def __init__(self, handler: Handler, limits: Limits) -> None:
        self.handler = handler
        self.limits = limits
        self.connections: set[Connection] = set()
        self.is_closing = False
        self._listener: asyncio.Server | None = None
        self._watch: asyncio.Task[None] | None = None

    async def start(self, host: str, port: int, ssl: SSLContext | None) -> None:
        """Listen."""
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(lambda: Connection(self), host, port, ssl=ssl, backlog=1024)
        self._watch = loop.create_task(self._drop_the_late())

    @property
    def address(self) -> tuple[str, int]:
        """Host and port; the port that was chosen, where 0 was asked for."""
        assert self._listener is not None
        name = self._listener.sockets[0].getsockname()
        return str(name[0]), int(name[1])

    def admit(self, connection: Connection) -> bool:
        """Whether there is room for one more."""
        if self.is_closing or len(self.connections) >= self.limits.max_connections:
            return False
        self.connections.add(connection)
        return True

    async def _drop_the_late(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(0.5)
            now = loop.time()
            for connection in tuple(self.connections):
                if connection.deadline is not None and connection.deadline < now:
                    connection.abort()

    async def close(self, grace: float = 1.0) -> None:
        """Stop listening, let responses end for `grace` seconds, then drop what is left."""
        self.is_closing = True
        if self._listener is not None:
            self._listener.close()
        if self._watch is not None:
            self._watch.cancel()
        for connection in tuple(self.connections):
            connection.close()
        tasks = [connection.task for connection in self.connections if connection.task is not None]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=grace)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=1.0)
        for connection in tuple(self.connections):
            connection.abort()
        if self._watch is not None:
            with contextlib.suppress(asyncio.CancelledError):
                await self._watch
        await asyncio.sleep(0)


async def serve(
    handler: Handler,
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    ssl: SSLContext | None = None,
    limits: Limits | None = None,
) -> Server:
    """Start serving. port 0 takes a free one; `server.address` says which. Raises OSError where it cannot listen."""
    server = Server(handler, limits or Limits())
    await server.start(host, port, ssl)
    return server
