"""An HTTP/1.1 client on asyncio.

    async with HttpClient() as http:
        async with http.request("POST", "https://example.com/mcp", {"Accept": "application/json"}, b"{}") as response:
            print(response.status, await response.read(limit=1_000_000))

    async for piece in response: ...        # instead of `read`: get the pieces of a body of any length as they arrive

The client reuses a connection after the response was read to its end. It uses the proxy in the environment variable
HTTPS_PROXY or HTTP_PROXY, except for the hosts in NO_PROXY. It follows 307 and 308 redirects within an origin.

A server can be hostile. So a response must match the grammar exactly (framing.py), and its size and time have limits
(`ClientLimits`). The client does not support compression, because a small compressed body could fill the memory.

Spec:  RFC 9110, sections 9.2.2 (idempotent methods) and 9.3.6 (CONNECT); RFC 9112
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import re
import ssl
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from socket import gaierror
from typing import Final, Protocol, Self, TypeAlias, TypedDict, Unpack
from urllib.parse import SplitResult

from .framing import (
    CHUNKED,
    MAX_RECEIVED_BYTES,
    TOKEN,
    BadMessage,
    ChunkDecoder,
    body_length,
    encode_head,
    keeps_open,
    parse_response_head,
)
from .message import Headers, bracket_ipv6
from .origin import Origin, find_proxy, parse_url, proxy_credentials, redirect_target

MAX_REDIRECTS: Final = 5
"""Default for the maximum number of redirects that one request follows."""

MayConnect: TypeAlias = Callable[[str], bool]
"""A function that gets a server's IP address, and returns True if the client is allowed to send to the server."""

_READ_SIZE: Final = 64 * 1024
_IDEMPOTENT_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE"})
_RESERVED_HEADERS: Final = frozenset({"host", "accept-encoding", "content-length", "transfer-encoding", "connection"})


class HttpError(Exception):
    """A request failed. The error's message gives the reason."""


class HttpTimeout(HttpError):
    """The server or the proxy took too long, or no connection of the client became free in time."""


class ForbiddenAddress(HttpError):
    """The host has an IP address that the request's `may_connect` refused. No byte was sent to it."""


class StaleConnection(HttpError):
    """A connection ended before the first byte of the response, for example because it was unused for too long."""


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """Limits on the time and the memory that a server can cost a client. `HttpResponse.read` limits a body's size."""

    connect: float = 10.0
    """Seconds to connect, including the proxy and TLS."""
    head_time: float | None = 300.0
    """Seconds from the request to the end of the response's head; None for no limit."""
    idle: float | None = 300.0
    """Seconds between two pieces of a body; None for no limit."""
    keep: float = 4.0
    """Seconds for which the client keeps an unused connection. (Node.js and uvicorn close it after 5 s.)"""
    head_size: int = 64 * 1024
    """Maximum size of the status line and headers, in bytes."""
    header_count: int = 100
    """Maximum number of headers in a response."""
    connections: int = 100
    """Maximum number of connections in use. A further request waits at most `head_time` seconds for one of them."""


def _time_limit(seconds: float | None) -> AbstractAsyncContextManager[object]:
    """Return `asyncio.timeout(seconds)`. Without a limit, return a context manager that costs less."""
    return contextlib.nullcontext() if seconds is None else asyncio.timeout(seconds)


class _Connection:
    """A connection to a server, directly or through a proxy."""

    def __init__(self, origin: Origin, limits: ClientLimits, reader: StreamReader, writer: StreamWriter) -> None:
        self.origin, self.reader, self.writer, self._limits = origin, reader, writer, limits
        self.address: str | None = None
        """The IP address of the server; None behind a proxy."""
        self.used_before = False
        self.free_since = 0.0  # the event loop's time

    def is_open(self) -> bool:
        """Return True if the server has not closed the connection, and has sent no unrequested bytes."""
        return not (self.reader.at_eof() or self.reader._buffer or self.writer.is_closing())  # type: ignore[attr-defined]

    def has_more_to_send(self) -> bool:
        return self.writer.transport.get_write_buffer_size() > 0

    async def send_request(self, request: bytes) -> tuple[int, str, Headers]:
        """Send a request. Return status, version and headers of the final response."""
        try:
            async with _time_limit(self._limits.head_time):
                # Do not wait until the request is sent: the server can respond before it has read the whole request.
                self.writer.write(request)
                head = await self.read_head()
                while 100 <= head[0] < 200 and head[0] != 101:
                    head = await self.read_head()  # [RFC 9110 15.2] interim responses precede the final one
        except TimeoutError:
            raise HttpTimeout(f"the server sent no response within {self._limits.head_time:g} s") from None
        if head[0] == 101:
            raise HttpError("the server sent status 101 (Switching Protocols), which the request did not ask for")
        return head

    async def read_head(self) -> tuple[int, str, Headers]:
        """Return status, version and headers of the next response."""
        try:
            head = await self.reader.readuntil(b"\r\n\r\n")
            return parse_response_head(head, self._limits.header_count)
        except asyncio.LimitOverrunError:
            raise HttpError(f"the head of the response is larger than {self._limits.head_size} bytes") from None
        except asyncio.IncompleteReadError as incomplete:
            if incomplete.partial:
                raise HttpError("the connection ended in the middle of the response's head") from None
            is_tls = self.used_before or self.origin.scheme == "https"
            hint = "" if is_tls else "; if the server uses TLS, write https://"
            raise StaleConnection(f"the connection ended without a response{hint}") from None
        except OSError as error:
            raise StaleConnection(f"the connection broke before the response: {error}") from error

    async def read(self, size: int) -> bytes:
        """Return at most `size` bytes of a body, or b"" at the end of the connection."""
        try:
            async with _time_limit(self._limits.idle):
                return await self.reader.read(size)
        except TimeoutError:
            raise HttpTimeout(f"no further byte of the response came within {self._limits.idle:g} s") from None
        except OSError as error:
            raise HttpError(f"the connection broke in the middle of the response: {error}") from error

    async def close(self) -> None:
        """Close the connection within a second."""
        if self.has_more_to_send():
            self.writer.transport.abort()
        self.writer.close()
        try:
            async with asyncio.timeout(1.0):
                await self.writer.wait_closed()
        except (OSError, TimeoutError):
            self.writer.transport.abort()


class HttpResponse:
    """A response whose head has arrived. Read its body once: with `read`, or with `async for`.

    Attributes:
        url: The URL of the response, after redirects.
        connection: The connection that the rest of the body comes on.
        address: The IP address of the server. None behind a proxy, which alone knows the address.
        is_complete: True if the body was read to its end.
        keep_alive: True if the connection can be reused after the body.
    """

    def __init__(self, url: str, method: str, head: tuple[int, str, Headers], connection: _Connection) -> None:
        self.url, self.address, self.connection = url, connection.address, connection
        self.status, version, self.headers = head
        # [RFC 9112 6.3, rule 1] these responses have no body, even if they have a Content-Length
        length = 0 if method == "HEAD" or self.status in (204, 304) else body_length(self.headers)
        self.is_complete = length == 0
        self.keep_alive = keeps_open(self.headers, version) and length is not None
        self._length = length  # None: the body ends with the connection
        self._left = _READ_SIZE if length is None or length == CHUNKED else length
        self._buffer = bytearray()  # the received bytes of a chunked body that are not decoded yet
        self._chunk_decoder = ChunkDecoder(self._buffer)

    async def read(self, limit: int) -> bytes:
        """Return the whole body.

        Args:
            limit: Maximum size of the body, in bytes.

        Raises:
            HttpError: The body is larger than `limit`, or cannot be read to its end.
        """
        if self._length is not None and self._length > limit:
            raise HttpError(f"the response has {self._length} bytes, more than the limit of {limit}")
        body = bytearray()
        while not self.is_complete:
            body += await self._read_piece()
            if len(body) > limit:
                raise HttpError(f"the response has more than {limit} bytes, which is the limit")
        return bytes(body)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the pieces of the body as they arrive. Raise HttpError for an incomplete, invalid or encoded body."""
        while not self.is_complete:
            if piece := await self._read_piece():
                yield piece

    async def _read_piece(self) -> bytes:
        coding = self.headers.get("content-encoding") or "identity"
        if coding.lower() != "identity":
            raise HttpError(f"the response is encoded with {coding[:40]}, which the request did not accept")
        piece = await self.connection.read(min(self._left, _READ_SIZE))
        if self._length is None:
            self.is_complete = not piece
        elif not piece:
            raise HttpError("the connection ended in the middle of the response")
        elif self._length == CHUNKED:
            self._buffer += piece
            try:
                piece = self._chunk_decoder.decode()
            except BadMessage as bad:
                raise HttpError(f"the response is not HTTP/1: {bad}") from bad
            self.is_complete = self._chunk_decoder.done
            self.keep_alive = self.keep_alive and not self._buffer
        else:
            self._left -= len(piece)
            self.is_complete = self._left == 0
        return piece


class HttpClient:
    """A client with a pool of connections. A program can use one client for all servers, or one for each server.

    Args:
        limits: Limits on time and memory. Default: `ClientLimits()`.
        ssl: The TLS context for https. Default: a context that accepts the certificates that the system trusts.
        proxies: {"http": url, "https": url, "no": "host,.domain"}; {} for no proxy. Default: the environment variables.
    """

    def __init__(
        self,
        *,
        limits: ClientLimits | None = None,
        ssl: ssl.SSLContext | None = None,
        proxies: Mapping[str, str] | None = None,
    ) -> None:
        self._limits, self._ssl, self._proxies = limits or ClientLimits(), ssl, proxies
        self._free: list[_Connection] = []
        self._all: set[_Connection] = set()
        self._slots = asyncio.Semaphore(self._limits.connections)
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections. Then reading an incomplete response raises HttpError."""
        self._closed = True
        self._free.clear()
        await asyncio.gather(*(self._discard(connection) for connection in tuple(self._all)))

    @contextlib.asynccontextmanager
    async def request(
        self, method: str, url: str, headers: Mapping[str, str] | None = None, body: bytes = b"", *,
        extra: bool = False, redirects: int = MAX_REDIRECTS, may_connect: MayConnect | None = None,
    ) -> AsyncIterator[HttpResponse]:  # fmt: skip
        """Return a context manager that sends the request and yields the response after its head has arrived.

        Args:
            method: The request method, such as "POST".
            url: An http or https URL.
            headers: Headers in addition to those that the client writes.
            body: The whole body.
            extra: True if a running request can be waiting for this one, which then ignores `ClientLimits.connections`.
            redirects: Maximum number of redirects to follow. With 0, the redirect itself is the response.
            may_connect: A check of the server's IP address before anything is sent. A proxy disables the check.

        Raises:
            HttpError: The connection failed, or the response is invalid. HttpTimeout if the server was too slow.
            ValueError: The URL, the method or a header is invalid.
        """
        for _ in range(redirects + 1):
            response = await self._send(method, url, headers or {}, body, extra, may_connect)
            try:
                location = response.headers.get("location")
                if response.status not in (307, 308) or location is None or redirects == 0:
                    yield response
                    return
            finally:
                await self._release(response.connection, extra, response.is_complete and response.keep_alive)
            try:
                url = redirect_target(response.url, location)
            except ValueError as error:
                raise HttpError(str(error)) from None
        raise HttpError(f"the server sent more than {redirects} redirects; the last redirect leads to {url}")

    async def _send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, extra: bool,
        may_connect: MayConnect | None,
    ) -> HttpResponse:  # fmt: skip
        """Send a request, and return its response, after whose body the caller calls `_release`."""
        parts, origin = parse_url(url)
        proxy = self._proxy_for(origin) if origin.scheme == "http" else None
        request = _request_head(method, parts, origin, headers, len(body), proxy) + body
        try:
            async with _time_limit(self._limits.head_time if self._slots.locked() else None):
                if not extra:
                    await self._slots.acquire()
        except TimeoutError:
            raise HttpTimeout(f"all {self._limits.connections} connections of this client are in use") from None
        connection = None
        try:
            while True:
                connection = await self._take_connection(origin, may_connect)
                try:
                    return HttpResponse(url, method, await connection.send_request(request), connection)
                except StaleConnection:
                    # [RFC 9110 9.2.2] a client SHOULD NOT repeat a POST: the server could perform it twice
                    if not connection.used_before or method not in _IDEMPOTENT_METHODS:
                        raise
                    await self._discard(connection)
        except BaseException as error:
            await self._release(connection, extra, reusable=False)
            if isinstance(error, BadMessage):
                raise HttpError(f"the response is not HTTP/1: {error}") from error
            raise

    async def _release(self, connection: _Connection | None, extra: bool, reusable: bool) -> None:
        """Free the slot of a request, and keep its connection for another request, or close the connection."""
        if not extra:
            self._slots.release()
        if connection is None:
            return
        if reusable and not self._closed and not connection.has_more_to_send():
            connection.used_before, connection.free_since = True, asyncio.get_running_loop().time()
            self._free.append(connection)
        else:
            await self._discard(connection)

    async def _take_connection(self, origin: Origin, may_connect: MayConnect | None) -> _Connection:
        """Return a free or a new connection. Close connections that were unused for too long."""
        if self._closed:
            raise HttpError("the client is closed")
        oldest = asyncio.get_running_loop().time() - self._limits.keep
        while self._free and self._free[0].free_since <= oldest:  # the longest unused connection is the first
            self._abort(self._free.pop(0))
        for index in reversed(range(len(self._free))):
            connection = self._free[index]
            if connection.origin == origin and _is_allowed(connection.address, may_connect):
                del self._free[index]
                if connection.is_open():
                    return connection
                self._abort(connection)
        return await self._connect(origin, may_connect)

    def _abort(self, connection: _Connection) -> None:
        self._all.discard(connection)
        connection.writer.transport.abort()  # no request uses this connection

    async def _discard(self, connection: _Connection) -> None:
        self._all.discard(connection)
        await connection.close()

    async def _connect(self, origin: Origin, may_connect: MayConnect | None) -> _Connection:
        proxy = self._proxy_for(origin)
        host, port = (proxy.hostname or "", proxy.port or 80) if proxy else (origin.host, origin.port)
        writer = None
        try:
            async with asyncio.timeout(self._limits.connect):
                if origin.scheme == "https" and self._ssl is None:
                    self._ssl = ssl.create_default_context()
                context = self._ssl if origin.scheme == "https" else None
                tls = context if proxy is None and may_connect is None else None
                reader, writer = await asyncio.open_connection(
                    host, port, limit=self._limits.head_size, ssl=tls, ssl_shutdown_timeout=1.0 if tls else None
                )
                if hasattr(writer.transport, "max_size"):  # other event loops lack this attribute
                    # asyncio would allocate 256 KiB for each read, which takes 15 microseconds.
                    writer.transport.max_size = MAX_RECEIVED_BYTES
                connection = _Connection(origin, self._limits, reader, writer)
                if proxy is not None and context is not None:
                    await self._open_tunnel(connection, proxy, origin)
                elif proxy is None:
                    connection.address = str(writer.get_extra_info("peername")[0])
                    if not _is_allowed(connection.address, may_connect):
                        # An earlier check is not safe, because the host name could get another address after the check.
                        raise ForbiddenAddress(f"{host} has the address {connection.address}, which is not allowed")
                if context is not None and tls is None:
                    await writer.start_tls(context, server_hostname=origin.host)
        except BaseException as error:
            if writer is not None:
                writer.transport.abort()
            if isinstance(error, TimeoutError):
                raise HttpTimeout(f"{host}:{port} was not reached within {self._limits.connect:g} s") from None
            if isinstance(error, (OSError, UnicodeError)):
                raise HttpError(f"{host}:{port} cannot be reached: {_reason(error)}") from error
            raise
        self._all.add(connection)
        return connection

    def _proxy_for(self, origin: Origin) -> SplitResult | None:
        if self._proxies is None:
            if origin.is_loopback:
                return None
            from urllib.request import getproxies_environment  # lazy: it loads http.client and email

            self._proxies = getproxies_environment()
        try:
            return find_proxy(origin, self._proxies)
        except ValueError as error:
            raise HttpError(str(error)) from None

    async def _open_tunnel(self, connection: _Connection, proxy: SplitResult, origin: Origin) -> None:
        """Open a tunnel through a proxy. [RFC 9110 9.3.6]"""
        target = f"{bracket_ipv6(origin.host)}:{origin.port}"
        lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}", *proxy_credentials(proxy), "", ""]
        connection.writer.write("\r\n".join(lines).encode("ascii"))
        status, *_ = await connection.read_head()
        if not 200 <= status < 300:
            raise HttpError(f"the proxy {proxy.hostname} answered {status} to CONNECT {target}")
        if connection.reader._buffer:  # type: ignore[attr-defined]
            # The client would take these bytes of the proxy for bytes of the server.
            raise HttpError(f"the proxy {proxy.hostname} sent data before the client used the tunnel to {target}")


def _reason(error: OSError | UnicodeError) -> str:
    """Return the reason why no connection was made, in words that say what to do, if the reason is a common one."""
    # asyncio joins the errors of a host with several addresses to the text of one OSError without a number.
    if isinstance(error, ConnectionRefusedError) or f"[Errno {errno.ECONNREFUSED}]" in str(error):
        return "no program listens there (is the server running?)"
    if isinstance(error, ssl.SSLError) and error.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"):
        return f"the server does not use TLS: write http:// in place of https:// ({error.reason})"
    return "its name has no address: check the name, and the network" if isinstance(error, gaierror) else str(error)


def _is_allowed(address: str | None, may_connect: MayConnect | None) -> bool:
    return address is None or may_connect is None or may_connect(address)


class RequestOptions(TypedDict, total=False):
    """The options of `HttpClient.request`."""

    extra: bool
    redirects: int
    may_connect: MayConnect | None


class HttpSender(Protocol):
    """An object that makes HTTP requests: an `HttpClient`, or a wrapper of one."""

    def request(
        self, method: str, url: str, headers: Mapping[str, str] | None = None, body: bytes = b"", /,
        **options: Unpack[RequestOptions],
    ) -> AbstractAsyncContextManager[HttpResponse]: ...  # fmt: skip

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Document:
    """A response with its whole body."""

    status: int
    headers: Headers
    body: bytes = field(repr=False)


async def fetch(
    http: HttpSender, method: str, url: str, headers: Mapping[str, str] | None = None, body: bytes = b"", *,
    limit: int, seconds: float, may_connect: MayConnect | None = None,
) -> Document:  # fmt: skip
    """Send a request whose response is a small document, and return the response. Follow no redirect.

    Args:
        limit: Maximum size of the body, in bytes.
        seconds: Time limit for the whole exchange, in seconds.

    Raises:
        HttpError: As for `HttpClient.request`. HttpTimeout if the response is not complete in time.
    """
    sending = http.request(method, url, headers, body, extra=True, redirects=0, may_connect=may_connect)
    try:
        async with asyncio.timeout(seconds), sending as response:
            return Document(response.status, response.headers, await response.read(limit))
    except TimeoutError:
        raise HttpTimeout(f"the server sent no complete response within {seconds:g} s") from None


def _request_head(
    method: str, parts: SplitResult, origin: Origin, headers: Mapping[str, str], size: int, proxy: SplitResult | None
) -> bytes:
    if not re.fullmatch(TOKEN, method):
        raise ValueError(f"invalid request method: {method!r:.100}")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if proxy is not None:
        target = f"{origin.scheme}://{origin}{target}"  # [RFC 9112 3.2.2] a request to a proxy has the whole URL
    lines = [f"{method} {target} HTTP/1.1", f"Host: {origin}", "Accept-Encoding: identity"]
    if size or method in ("POST", "PUT", "PATCH"):
        lines.append(f"Content-Length: {size}")
    if proxy is not None:
        lines += proxy_credentials(proxy)
    return encode_head(lines, headers.items(), _RESERVED_HEADERS) + b"\r\n"
