"""An HTTP/1.1 client on asyncio.

    async with HttpClient() as http:
        async with http.request("POST", "https://example.com/mcp", {"Accept": "application/json"}, b"{}") as response:
            print(response.status, await response.read(limit=1_000_000))

    async for piece in response: ...        a body as it comes; of any length

A connection is used again when its response was read to the end. Through a proxy, where the environment names one
(HTTPS_PROXY, HTTP_PROXY, NO_PROXY; in small letters, too). A redirect is followed within the origin that was asked.

Spec:  RFC 9110, RFC 9112
Below: framing.py. Elsewhere: cookies, compression, HTTP/2: nothing here has them
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import re
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

from .framing import CHUNKED, UNTIL_CLOSE, BadMessage, ChunkedBody, check_fields, response_length
from .message import Headers, bracketed

MAX_REDIRECTS: Final = 5
PIECE: Final = 64 * 1024
_IDEMPOTENT: Final = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE"})
_STATUS_LINE: Final = re.compile(rb"HTTP/1\.([01]) ([1-9]\d\d)( [\t -~\x80-\xff]*)?")
_NAME: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE: Final = re.compile("[\t -~\x80-\xff]*")
_PORTS: Final = {"http": 80, "https": 443}
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class HttpError(Exception):
    """There is no whole response: the message says why."""


class HttpTimeout(HttpError):
    """The server, or the way to it, took too long."""


class BrokenUse(HttpError):
    """A connection ended before a byte of the response, as one does that was left open too long."""


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """What a server may make us wait for (in seconds) and hold (in bytes; a body's bound is given where it is read)."""

    connect: float = 10.0
    """To connect, proxy and TLS included."""
    first_byte: float | None = 300.0
    """From the request to the head of the response; None for no limit."""
    idle: float | None = 300.0
    """Between two pieces of a body; None for no limit."""
    keep: float = 4.0
    """How long an unused connection is kept for the next request. (Node.js and uvicorn close theirs after 5 s.)"""
    head_size: int = 64 * 1024
    """The status line and the headers."""
    header_count: int = 100
    """Headers of one response."""
    connections: int = 100
    """Connections at a time; the next request waits for one, as long as for the first byte of its response."""


@dataclass(frozen=True, slots=True)
class _Origin:
    """Where a connection leads."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        return bracketed(self.host) + (f":{self.port}" if self.port != _PORTS[self.scheme] else "")


class _Connection:
    """One connection to an origin, or to the proxy before it."""

    def __init__(self, origin: _Origin, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.origin = origin
        self.reader = reader
        self.writer = writer
        self.used_before = False
        self.free_since = 0.0

    def is_open(self) -> bool:
        """Whether the server has neither closed it nor sent what nobody asked for."""
        return not (self.reader.at_eof() or self.reader._buffer or self.writer.is_closing())  # type: ignore[attr-defined]

    def has_more_to_send(self) -> bool:
        """Whether a part of the request is still here."""
        return self.writer.transport.get_write_buffer_size() > 0

    async def close(self) -> None:
        """Close it, politely for a second at most."""
        if self.has_more_to_send():
            self.writer.transport.abort()
        self.writer.close()
        try:
            async with asyncio.timeout(1.0):
                await self.writer.wait_closed()
        except (OSError, TimeoutError):
            self.writer.transport.abort()


class HttpResponse:
    """A response whose head has come. The body is read once: with `read`, or with `async for`."""

    def __init__(
        self,
        url: str,
        status: int,
        headers: Headers,
        connection: _Connection,
        length: int,
        idle: float | None,
        keep_alive: bool,
    ) -> None:
        self.url = url
        """Where it came from, after redirects."""
        self.status = status
        self.headers = headers
        self.is_complete = length == 0
        """Whether the body was read to its end."""
        self.keep_alive = keep_alive and length != UNTIL_CLOSE
        self._connection = connection
        self._length = length
        self._left = max(length, 0)
        self._chunks = ChunkedBody()
        self._buffer = bytearray()  # of a chunked body: what has come and was not taken apart yet
        self._idle = idle

    async def read(self, limit: int) -> bytes:
        """The body. Raises HttpError when it has more than `limit` bytes, or ends before its end."""
        if self._length > limit:
            raise HttpError(f"the response has {self._length} bytes, more than the {limit} that were expected")
        body = bytearray()
        async for piece in self:
            body += piece
            if len(body) > limit:
                raise HttpError(f"the response has more than {limit} bytes")
        return bytes(body)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """The pieces of the body, as they come. Raises HttpError when it ends before its end."""
        coding = self.headers.get("content-encoding") or "identity"
        if coding.lower() != "identity":
            raise HttpError(f"the response is encoded ({coding[:40]}), which was not asked for")
        while not self.is_complete:
            piece = await self._read_some()
            if self._length == CHUNKED:
                self._buffer += piece
                try:
                    piece = self._chunks.feed(self._buffer)
                except BadMessage as bad:
                    raise HttpError(f"the response is not HTTP: {bad}") from bad
                self.is_complete = self._chunks.done
                self.keep_alive = self.keep_alive and not self._buffer
            elif self._length >= 0:
                self._left -= len(piece)
                self.is_complete = self._left == 0
            if piece:
                yield piece

    async def _read_some(self) -> bytes:
        size = min(self._left, PIECE) if self._length >= 0 else PIECE
        try:
            async with asyncio.timeout(self._idle):
                piece = await self._connection.reader.read(size)
        except TimeoutError:
            raise HttpTimeout(f"nothing more of the response came for {self._idle:g} s") from None
        except OSError as error:
            raise HttpError(f"the connection broke in the middle of the response: {error}") from error
        if not piece:
            if self._length != UNTIL_CLOSE:
                raise HttpError("the connection ended in the middle of the response")
            self.is_complete = True
        return piece


class HttpClient:
    """Makes requests. One for a program, or one for each server: connections are shared within it.

    ssl: a context for https; by default one that verifies certificates as the system does.
    proxies: {"http": url, "https": url, "no": "host,.domain,…"}; by default what the environment says. {} for none.
    """

    def __init__(
        self,
        *,
        limits: ClientLimits | None = None,
        ssl: ssl.SSLContext | None = None,
        proxies: Mapping[str, str] | None = None,
    ) -> None:
        self._limits = limits or ClientLimits()
        self._ssl = ssl
        self._proxies = proxies
        self._free: dict[_Origin, list[_Connection]] = {}
        self._all: set[_Connection] = set()
        self._slots = asyncio.Semaphore(self._limits.connections)
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections; a response that is being read breaks."""
        self._closed = True
        self._free.clear()
        await asyncio.gather(*(self._discard(connection) for connection in tuple(self._all)))

    @contextlib.asynccontextmanager
    async def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        extra: bool = False,
    ) -> AsyncIterator[HttpResponse]:
        """Make a request; the response as soon as its head has come, of whatever status. Closed with the block.

        extra: make it also when all connections are in use, with one more: for what those may be waiting for.
        Raises HttpError (HttpTimeout) when there is none, ValueError for a URL or header that cannot be sent.
        """
        for _ in range(MAX_REDIRECTS + 1):
            async with self._once(method, url, headers or {}, body, extra) as response:
                target = _redirection(response)
                if target is None:
                    yield response
                    return
                url = target
        raise HttpError(f"more than {MAX_REDIRECTS} redirects, the last to {url}")

    @contextlib.asynccontextmanager
    async def _once(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, extra: bool
    ) -> AsyncIterator[HttpResponse]:
        parts, origin = _parse(url)
        try:
            async with asyncio.timeout(self._limits.first_byte):
                if not extra:
                    await self._slots.acquire()
        except TimeoutError:
            raise HttpTimeout(f"all {self._limits.connections} connections are in use") from None
        connection = None
        response = None
        try:
            while response is None:
                connection = await self._connection(origin)
                try:
                    response = await self._exchange(connection, method, url, parts, headers, body)
                except BrokenUse:
                    # [RFC 9110 9.2.2] what is not idempotent SHOULD NOT be sent again: it may have been done already
                    if not connection.used_before or method not in _IDEMPOTENT:
                        raise
                    await self._discard(connection)
            yield response
        finally:
            if not extra:
                self._slots.release()
            if connection is not None:
                done = response is not None and response.is_complete and response.keep_alive
                if done and not self._closed and not connection.has_more_to_send():
                    connection.used_before, connection.free_since = True, asyncio.get_running_loop().time()
                    self._free.setdefault(origin, []).append(connection)
                else:
                    await self._discard(connection)

    # ------------------------------------------------------------------------------------- connections

    async def _connection(self, origin: _Origin) -> _Connection:
        """One that is free, or a new one."""
        if self._closed:
            raise HttpError("the client is closed")
        now = asyncio.get_running_loop().time()
        stale = []
        found = None
        for key, free in list(self._free.items()):
            fresh = [c for c in free if c.is_open() and now < c.free_since + self._limits.keep]
            stale += [c for c in free if c not in fresh]
            if key == origin and fresh:
                found = fresh.pop()
            if fresh:
                self._free[key] = fresh
            else:
                del self._free[key]
        for connection in stale:  # nothing is under way on them, and nothing is waited for: `found` cannot get lost
            self._all.discard(connection)
            connection.writer.transport.abort()
        return found or await self._connect(origin)

    async def _discard(self, connection: _Connection) -> None:
        self._all.discard(connection)
        await connection.close()

    async def _connect(self, origin: _Origin) -> _Connection:
        proxy = self._proxy_for(origin)
        host, port = (proxy.hostname or "", proxy.port or 80) if proxy else (origin.host, origin.port)
        writer = None
        try:
            async with asyncio.timeout(self._limits.connect):
                context = self._context() if origin.scheme == "https" else None
                direct = context is not None and proxy is None
                reader, writer = await asyncio.open_connection(
                    host,
                    port,
                    limit=self._limits.head_size,
                    ssl=context if direct else None,
                    ssl_shutdown_timeout=1.0 if direct else None,
                )
                if proxy is not None and context is not None:
                    await self._tunnel(reader, writer, proxy, origin)
                    await writer.start_tls(context, server_hostname=origin.host)
        except BaseException as error:
            if writer is not None:
                writer.transport.abort()
            if isinstance(error, TimeoutError):
                raise HttpTimeout(f"{host}:{port} was not reached within {self._limits.connect:g} s") from None
            if isinstance(error, (OSError, UnicodeError)):
                raise HttpError(f"{host}:{port} cannot be reached: {error}") from error
            raise
        connection = _Connection(origin, reader, writer)
        self._all.add(connection)
        return connection

    def _context(self) -> ssl.SSLContext:
        if self._ssl is None:
            self._ssl = ssl.create_default_context()
        return self._ssl

    def _proxy_for(self, origin: _Origin) -> SplitResult | None:
        if origin.host in _LOOPBACK:
            return None  # a proxy's loopback is not ours
        if self._proxies is None:
            from urllib.request import getproxies_environment  # it imports much, and few need it

            self._proxies = getproxies_environment()
        url = self._proxies.get(origin.scheme)
        if not url or _is_excepted(origin, self._proxies.get("no", "")):
            return None
        try:
            proxy = urlsplit(url if "://" in url else f"http://{url}")
            if proxy.scheme == "http" and proxy.hostname and proxy.port != 0:
                return proxy
        except ValueError:
            pass  # its text may hold a part of the password
        raise HttpError(f"the proxy for {origin.scheme} is not of the form http://host:port")

    async def _tunnel(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, proxy: SplitResult, origin: _Origin
    ) -> None:
        """Ask a proxy for a way through. [RFC 9110 9.3.6]"""
        target = f"{bracketed(origin.host)}:{origin.port}"
        lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}", *_proxy_credentials(proxy), "", ""]
        writer.write("\r\n".join(lines).encode("ascii"))
        status, *_ = await self._read_head(reader)
        if not 200 <= status < 300:
            raise HttpError(f"the proxy {proxy.hostname} answered {status} when asked for {target}")
        if reader._buffer:  # type: ignore[attr-defined]
            # It would be read as if it had come through the tunnel.
            raise HttpError(f"the proxy {proxy.hostname} spoke before {target} could")

    # ------------------------------------------------------------------------------------- one request

    async def _exchange(
        self,
        connection: _Connection,
        method: str,
        url: str,
        parts: SplitResult,
        headers: Mapping[str, str],
        body: bytes,
    ) -> HttpResponse:
        """Send a request, and read the head of its response."""
        proxy = self._proxy_for(connection.origin) if connection.origin.scheme == "http" else None
        request = _request_head(method, parts, connection.origin, headers, body, proxy)
        try:
            async with asyncio.timeout(self._limits.first_byte):
                # Not drained: an answer, a refusal say, may come before the server has taken everything.
                connection.writer.write(request + body)
                status, version, response_headers = await self._read_head(connection.reader)
                while 100 <= status < 200 and status != 101:
                    # [RFC 9110 15.2] interim responses come before the one that counts
                    status, version, response_headers = await self._read_head(connection.reader)
        except TimeoutError:
            raise HttpTimeout(f"no response within {self._limits.first_byte:g} s") from None
        if status == 101:
            raise HttpError("the server changed to another protocol, which nobody asked for")
        try:
            length = response_length(response_headers, status, method)
        except BadMessage as bad:
            raise HttpError(f"the response is not HTTP: {bad}") from bad
        options = ",".join(response_headers.get_all("connection")).lower()
        keep_alive = version == 1 and "close" not in [option.strip() for option in options.split(",")]
        return HttpResponse(url, status, response_headers, connection, length, self._limits.idle, keep_alive)

    async def _read_head(self, reader: asyncio.StreamReader) -> tuple[int, int, Headers]:
        """Status, minor version and headers."""
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            raise HttpError(f"the head of the response is larger than {self._limits.head_size} bytes") from None
        except asyncio.IncompleteReadError as incomplete:
            if incomplete.partial:
                raise HttpError("the connection ended in the middle of the response's head") from None
            raise BrokenUse("the connection ended without a response") from None
        except OSError as error:
            raise BrokenUse(f"the connection broke before the response: {error}") from error
        status_line, *fields = head[:-4].split(b"\r\n")
        found = _STATUS_LINE.fullmatch(status_line)
        if found is None:
            raise HttpError(f"the response is not HTTP/1: {status_line[:100]!r}")
        try:
            check_fields(fields, self._limits.header_count)
        except BadMessage as bad:
            raise HttpError(f"the response is not HTTP: {bad}") from bad
        pairs = [line.decode("latin-1").split(":", 1) for line in fields]
        return int(found[2]), int(found[1]), Headers((name, value.strip(" \t")) for name, value in pairs)


def _parse(url: str) -> tuple[SplitResult, _Origin]:
    try:
        parts = urlsplit(url)
        port = parts.port
        host = (parts.hostname or "").encode("idna").decode("ascii")
    except ValueError:  # its text may hold a part of a password
        raise ValueError("not a URL: its host or port is none") from None
    if parts.username is not None or parts.password is not None:
        raise ValueError("a URL with credentials: send them in a header instead, where they do not show in logs")
    if parts.scheme not in _PORTS or not host:
        raise ValueError(f"not an http or https URL: {url!r}")
    if not re.fullmatch("[!-~]+", host + parts.path + parts.query):
        raise ValueError(f"a URL is percent-encoded ASCII: {url!r}")
    return parts, _Origin(parts.scheme, host, port or _PORTS[parts.scheme])


def _request_head(
    method: str,
    parts: SplitResult,
    origin: _Origin,
    headers: Mapping[str, str],
    body: bytes,
    proxy: SplitResult | None,
) -> bytes:
    if not _NAME.fullmatch(method):
        raise ValueError(f"not a method: {method!r}")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if proxy is not None:
        target = f"{origin.scheme}://{origin}{target}"  # [RFC 9112 3.2.2] a proxy is asked in absolute-form
    lines = [f"{method} {target} HTTP/1.1", f"Host: {origin}", "Accept-Encoding: identity"]
    if body or method in ("POST", "PUT", "PATCH"):
        lines.append(f"Content-Length: {len(body)}")
    if proxy is not None:
        lines += _proxy_credentials(proxy)
    for name, value in headers.items():
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise ValueError(f"not a header that can be sent: {name!r}")  # without its value, which may be a secret
        if name.lower() in ("host", "accept-encoding", "content-length", "transfer-encoding", "connection"):
            raise ValueError(f"the header {name} is written by the client itself")
        lines.append(f"{name}: {value}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def _redirection(response: HttpResponse) -> str | None:
    """Where to ask again, with the same method and body; None where the response is the answer."""
    location = response.headers.get("location")
    if response.status not in (307, 308) or location is None:
        return None
    try:
        target = urljoin(response.url, location)
        old, new = _parse(response.url)[1], _parse(target)[1]
    except ValueError as error:
        raise HttpError(f"the server redirects to where we do not go: {error}") from None
    upgraded = _Origin("https", old.host, 443)
    if new != old and not (new == upgraded and old.port == 80):
        # Whoever may name another place to send to would get what was meant for this one: the credentials, or a
        # request from inside this network. And never from https to http.
        raise HttpError(f"the server redirects to another origin; if you trust it, use its URL: {target!r:.200}")
    return target


def _is_excepted(origin: _Origin, exceptions: str) -> bool:
    """Whether NO_PROXY names the host: "*", "host", ".domain" or "domain" (with all below it), each perhaps ":port"."""
    for item in exceptions.lower().replace(" ", ",").split(","):
        name, _, port = item.rpartition(":") if re.search(r":\d+$", item) and item.count(":") == 1 else (item, "", "")
        if port and int(port) != origin.port:
            continue
        name = name.removeprefix("*.").lstrip(".")
        if item == "*" or (name and (origin.host == name or origin.host.endswith("." + name))):
            return True
    return False


def _proxy_credentials(proxy: SplitResult) -> list[str]:
    if proxy.username is None:
        return []
    pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}".encode()
    return [f"Proxy-Authorization: Basic {base64.b64encode(pair).decode()}"]
