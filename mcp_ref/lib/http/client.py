"""An HTTP/1.1 client on asyncio.

    async with HttpClient() as http:
        async with http.request("POST", "https://example.com/mcp", {"Accept": "application/json"}, b"{}") as response:
            print(response.status, await response.read(limit=1_000_000))

    async for piece in response: ...        # instead of `read`: get the pieces of a body of any length as they arrive

A connection is reused after its response was read to the end. The client uses the proxy in the environment variable
HTTPS_PROXY or HTTP_PROXY, except for the hosts in NO_PROXY, and follows 307 and 308 redirects within an origin.

Spec:  RFC 9110, sections 9.2.2 (idempotent methods) and 9.3.6 (CONNECT); RFC 9112
"""

from __future__ import annotations

import asyncio
import re
import ssl
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import lru_cache
from socket import SOCK_STREAM, gaierror
from typing import Final, Protocol, Self, TypeAlias, TypedDict, Unpack
from urllib.parse import SplitResult

from ..fields import check_arguments
from ..slots import Slots
from .framing import TOKEN, BadMessage, encode_head
from .message import bracket_ipv6
from .origin import Origin, find_proxy, parse_url, proxy_credentials, redirect_target
from .response import ClientConnection, ClientLimits, HttpError, HttpResponse, HttpTimeout, StaleConnection, time_limit

MAX_REDIRECTS: Final = 5
"""Default for the maximum number of redirects that one request follows."""

ADDRESS_SECONDS: Final = 2.0
"""Time to connect to one address of a host that has further addresses, in seconds."""

MayConnect: TypeAlias = Callable[[str], bool]
"""A function that gets a server's IP address, and returns True if the client may send to it."""

MAX_CACHED_HEADS: Final = 64
"""Maximum number of encoded request heads that one client keeps, because many requests differ only in their bodies."""

_UNKNOWN_ISSUER: Final = (18, 19, 20, 21)
"""Codes of OpenSSL for a certificate that is signed by itself, or by an issuer that the system does not know."""
_IDEMPOTENT_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE"})
_RESERVED_HEADERS: Final = frozenset({"host", "accept-encoding", "content-length", "transfer-encoding", "connection"})


class ForbiddenAddress(HttpError):
    """The host has an IP address that the request's `may_connect` refused, so nothing was sent to it."""


def check_request(url: str, headers: Iterable[tuple[str, str]]) -> None:
    """Raise ValueError if a client cannot send requests to the URL with these headers. No connection is opened."""
    parse_url(url)
    encode_head([], headers, _RESERVED_HEADERS)


class HttpClient:
    """A client with a pool of connections, for one server or for many.

    Args:
        limits: Limits on time and memory. Default: `ClientLimits()`.
        ssl: The TLS context for https. Default: a context that accepts the certificates that the system trusts.
        proxies: {"http": url, "https": url, "no": "host,.domain"}; {} for no proxy. Default: the environment variables.
    """

    def __init__(
        self, *, limits: ClientLimits | None = None, ssl: ssl.SSLContext | None = None,
        proxies: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        check_arguments(HttpClient.__init__, locals())
        self._limits, self._ssl, self._proxies = limits or ClientLimits(), ssl, proxies
        self._free: list[ClientConnection] = []
        self._all: set[ClientConnection] = set()
        self._slots = Slots(self._limits.connections)
        self._closed = False
        self._cached_head = lru_cache(MAX_CACHED_HEADS)(self._write_head)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections, so that reading an incomplete response raises HttpError."""
        self._closed = True
        self._free.clear()
        await asyncio.gather(*(self._discard(connection) for connection in tuple(self._all)))

    def request(
        self, method: str, url: str, headers: Mapping[str, str] | None = None, body: bytes = b"", *,
        extra: bool = False, redirects: int = MAX_REDIRECTS, may_connect: MayConnect | None = None,
    ) -> AbstractAsyncContextManager[HttpResponse]:  # fmt: skip
        """Return a context manager that sends the request and yields the response after its head has arrived.

        Args:
            method: The request method, such as "POST".
            url: An http or https URL.
            headers: Headers in addition to those that the client writes.
            body: The whole body.
            extra: True if a running request may be waiting for this one, which then ignores `ClientLimits.connections`.
            redirects: Maximum number of redirects to follow. With 0, the redirect itself is the response.
            may_connect: A check of the server's IP address before anything is sent, which is impossible with a proxy.

        Raises:
            HttpError: The connection failed, or the response is invalid. HttpTimeout if the server was too slow.
            ValueError: The URL, the method or a header is invalid.
        """
        return _RequestContext(self, method, url, headers or {}, body, extra, redirects, may_connect)

    async def _send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, extra: bool,
        may_connect: MayConnect | None,
    ) -> HttpResponse:  # fmt: skip
        """Send a request, and return its response, after whose body the caller calls `_release`."""
        origin, head = self._cached_head(method, url, tuple(headers.items()))
        size = len(body)
        length = b"Content-Length: %d\r\n" % size if size or method in ("POST", "PUT", "PATCH") else b""
        request = b"%b%b\r\n%b" % (head, length, body)
        if not extra and not self._slots.take_now():
            await self._wait_for_slot()
        connection = None
        try:
            while True:  # again if the server has closed the free connection, of which there may be several
                try:
                    connection = self._free_connection(origin, may_connect) or await self._connect(origin, may_connect)
                except HttpError as error:
                    error.unsent = connection is None  # else an earlier attempt has sent the request
                    raise
                try:
                    return HttpResponse(url, method, await connection.send_request(request), connection)
                except StaleConnection:
                    # [RFC 9110 9.2.2] a client SHOULD NOT repeat a POST, because the server could perform it twice
                    if not connection.used_before or method not in _IDEMPOTENT_METHODS:
                        raise
                    await self._discard(connection)
        except BaseException as error:
            if not extra:
                self._slots.give_back()
            if connection is not None:
                self._abort(connection)
            if isinstance(error, BadMessage):
                raise HttpError(f"the response is not HTTP/1: {error}") from error
            raise

    def _write_head(self, method: str, url: str, headers: tuple[tuple[str, str], ...]) -> tuple[Origin, bytes]:
        """Return the origin of a URL, and a request's head without the body's length and the final empty line."""
        if not re.fullmatch(TOKEN, method):
            raise ValueError(f"invalid request method: {method!r:.100}")
        parts, origin = parse_url(url)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        proxy = self._proxy_for(origin) if origin.scheme == "http" else None
        if proxy is not None:
            target = f"{origin.scheme}://{origin}{target}"  # [RFC 9112 3.2.2] a request to a proxy has the whole URL
        lines = [f"{method} {target} HTTP/1.1", f"Host: {origin}", "Accept-Encoding: identity"]
        if proxy is not None:
            lines += proxy_credentials(proxy)
        return origin, encode_head(lines, headers, _RESERVED_HEADERS)

    async def _wait_for_slot(self) -> None:
        try:
            async with time_limit(self._limits.head_time):
                await self._slots.take()
        except TimeoutError:
            raise HttpTimeout(f"all {self._limits.connections} connections of this client are in use") from None

    def _release(self, connection: ClientConnection, extra: bool, reusable: bool) -> bool:
        """Free the slot of a request. Return True if the connection is kept for another request."""
        if not extra:
            self._slots.give_back()
        if not reusable or self._closed or connection.has_more_to_send():
            return False
        connection.keep()
        self._free.append(connection)
        return True

    def _free_connection(self, origin: Origin, may_connect: MayConnect | None) -> ClientConnection | None:
        """Return a free connection to the origin, or None. Close connections that were unused for too long."""
        if self._closed:
            raise HttpError("the client is closed")
        free = self._free
        earliest = time.monotonic() - self._limits.keep
        while free and free[0].free_since <= earliest:  # the first is the one that was unused the longest
            self._abort(free.pop(0))
        for connection in reversed(free):
            if connection.origin == origin and (may_connect is None or _is_allowed(connection.address, may_connect)):
                free.remove(connection)
                if connection.is_open():
                    return connection
                self._abort(connection)
        return None

    def _abort(self, connection: ClientConnection) -> None:
        self._all.discard(connection)
        connection.transport.abort()  # no request uses this connection, and the end of TLS could take a second

    async def _discard(self, connection: ClientConnection) -> None:
        self._all.discard(connection)
        await connection.close()

    async def _connect(self, origin: Origin, may_connect: MayConnect | None) -> ClientConnection:
        """Return a new connection to the origin, ready for a request."""
        proxy, name = self._proxy_for(origin), f"{bracket_ipv6(origin.host)}:{origin.port}"
        peer, through = "server", ""
        try:
            async with asyncio.timeout(self._limits.connect):
                if proxy is None:
                    connection = await self._connect_directly(origin, may_connect)
                else:
                    host, port = proxy.hostname or "", proxy.port or 80
                    peer, through = "proxy", f" through the proxy {bracket_ipv6(host)}:{port}"
                    connection = await self._connect_through(proxy, host, port, origin)
        except TimeoutError:
            raise HttpTimeout(f"{name} was not reached{through} within {self._limits.connect:g} s") from None
        except (OSError, UnicodeError) as error:
            raise HttpError(f"{name} cannot be reached{through}: {_reason(error, peer)}") from error
        self._all.add(connection)
        return connection

    async def _connect_directly(self, origin: Origin, may_connect: MayConnect | None) -> ClientConnection:
        """Connect to the origin without a proxy.

        With `may_connect`, TLS begins only when the address is allowed. The check has to wait until the connection is
        made, because after an earlier check, the host name could get another address.
        """
        connection = ClientConnection(origin, self._limits)
        context = self._tls_context() if origin.scheme == "https" else None
        transport = await _reach(origin.host, origin.port, connection, context if may_connect is None else None)
        try:
            connection.address = address = _peer_address(transport)
            if may_connect is not None:
                if not may_connect(address):
                    raise ForbiddenAddress(f"{origin.host} has the address {address}, which is not allowed")
                if context is not None:
                    await self._begin_tls(connection, transport, context, origin.host)
        except BaseException:
            transport.abort()
            raise
        return connection

    async def _connect_through(self, proxy: SplitResult, host: str, port: int, origin: Origin) -> ClientConnection:
        """Connect to a proxy, which for https then opens a tunnel to the origin, in which TLS begins."""
        connection = ClientConnection(origin, self._limits)
        transport = await _reach(host, port, connection, None)
        if origin.scheme == "https":
            try:
                await self._open_tunnel(connection, proxy, origin)
                await self._begin_tls(connection, transport, self._tls_context(), host)
            except BaseException:
                transport.abort()
                raise
        return connection

    def _tls_context(self) -> ssl.SSLContext:
        if self._ssl is None:
            self._ssl = ssl.create_default_context()
        return self._ssl

    async def _begin_tls(
        self, connection: ClientConnection, transport: asyncio.Transport, context: ssl.SSLContext, peer: str
    ) -> None:
        if connection.received:  # uvloop receives before it begins TLS
            raise HttpError(f"{peer} sent data before TLS began")
        loop, name = asyncio.get_running_loop(), connection.origin.host
        secured = await loop.start_tls(transport, connection, context, server_hostname=name)
        assert secured is not None
        connection.transport = secured

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

    async def _open_tunnel(self, connection: ClientConnection, proxy: SplitResult, origin: Origin) -> None:
        target = f"{bracket_ipv6(origin.host)}:{origin.port}"
        lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}", *proxy_credentials(proxy), "", ""]
        connection.transport.write("\r\n".join(lines).encode("ascii"))
        head = await connection.read_head()
        if not 200 <= head.status < 300:
            raise HttpError(f"the proxy {proxy.hostname} answered {head.status} to CONNECT {target}")


async def _reach(host: str, port: int, connection: ClientConnection, tls: ssl.SSLContext | None) -> asyncio.Transport:
    """Connect to the first address of a host that responds, which is the second one if IPv6 is broken, for example."""
    loop = asyncio.get_running_loop()
    is_address = ":" in host or host.replace(".", "").isdigit()
    found = [] if is_address else await loop.getaddrinfo(host, port, type=SOCK_STREAM)
    *others, last = list(dict.fromkeys(_address_text(address) for *_, address in found)) or [host]

    async def connect(address: str, seconds: float | None) -> asyncio.Transport:
        async with time_limit(seconds):
            transport, _ = await loop.create_connection(
                lambda: connection, address, port, ssl=tls, server_hostname=host if tls else None,
                ssl_shutdown_timeout=1.0 if tls else None)  # fmt: skip
        return transport

    slow_address = ""  # the first address that did not respond in time
    for address in others:
        try:
            return await connect(address, ADDRESS_SECONDS)
        except ssl.SSLError:  # the server has responded, so do not try another address
            raise
        except TimeoutError:
            slow_address = slow_address or address
        except OSError:
            pass
    try:
        return await connect(last, None)
    except OSError as error:
        if isinstance(error, ssl.SSLError) or not slow_address:
            raise
    return await connect(slow_address, None)  # perhaps it only needs more time, for example for the TLS handshake


def _address_text(address: tuple[object, ...]) -> str:
    is_local = len(address) == 4 and address[3]  # IPv6 on one of the local networks
    return f"{address[0]}%{address[3]}" if is_local else str(address[0])


def _reason(error: OSError | UnicodeError, peer: str) -> str:
    """Return the reason why no connection to a "server" or "proxy" was made and, for the common ones, what to do."""
    if isinstance(error, ConnectionRefusedError):
        return f"no program listens there (is the {peer} running?)"
    if isinstance(error, ssl.SSLError) and error.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"):
        return f"the server does not use TLS: write http:// in place of https:// ({error.reason})"
    if isinstance(error, ssl.SSLCertVerificationError):
        advice = ""
        if error.verify_code in _UNKNOWN_ISSUER:
            advice = "; if you trust its issuer, set SSL_CERT_FILE to a file with the issuer's certificate"
        return f"its certificate is refused: {error.verify_message.rstrip('.')}{advice}"
    if isinstance(error, gaierror):
        return "its name has no address: check the name, and the network"
    return str(error)


def _peer_address(transport: asyncio.Transport) -> str:
    peer = transport.get_extra_info("peername")
    if peer is None:
        raise ConnectionResetError("the server has closed the connection at once")
    return str(peer[0])


def _is_allowed(address: str | None, may_connect: MayConnect) -> bool:
    return address is None or may_connect(address)  # None behind a proxy, which alone knows the address


class _RequestContext:
    """The context manager of one request, which follows redirects, and releases the connection at the end."""

    __slots__ = ("_body", "_client", "_extra", "_headers", "_may_connect", "_method", "_redirects", "_response", "_url")

    def __init__(
        self, client: HttpClient, method: str, url: str, headers: Mapping[str, str], body: bytes, extra: bool,
        redirects: int, may_connect: MayConnect | None,
    ) -> None:  # fmt: skip
        self._client, self._method, self._url, self._headers, self._body = client, method, url, headers, body
        self._extra, self._redirects, self._may_connect = extra, redirects, may_connect
        self._response: HttpResponse

    async def __aenter__(self) -> HttpResponse:
        for _ in range(self._redirects + 1):
            self._response = response = await self._client._send(
                self._method, self._url, self._headers, self._body, self._extra, self._may_connect
            )
            location = response.headers.get("location") if response.status in (307, 308) else None
            if location is None or self._redirects == 0:
                return response
            await self.__aexit__()  # release the connection before the next request
            try:
                self._url = redirect_target(response.url, location)
            except ValueError as error:
                raise HttpError(str(error)) from None
        last = f"the last redirect leads to {self._url}"
        raise HttpError(f"the server sent more than {self._redirects} redirects; {last}")

    async def __aexit__(self, *_: object) -> None:
        response = self._response
        reusable = response.is_complete and response.keep_alive
        if not self._client._release(response.connection, self._extra, reusable):
            self._client._abort(response.connection)


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


async def fetch(
    http: HttpSender, method: str, url: str, headers: Mapping[str, str] | None = None, body: bytes = b"", *,
    limit: int, seconds: float, may_connect: MayConnect | None = None,
) -> HttpResponse:  # fmt: skip
    """Send a request whose response is a small document, and return it with its body. Redirects are not followed.

    Args:
        limit: Maximum size of the body, in bytes.
        seconds: Time limit for the whole exchange, in seconds.

    Raises:
        HttpError: As for `HttpClient.request`. HttpTimeout if the response is not complete in time.
    """
    sending = http.request(method, url, headers, body, extra=True, redirects=0, may_connect=may_connect)
    try:
        async with asyncio.timeout(seconds), sending as response:
            await response.read(limit)
            return response
    except TimeoutError:
        raise HttpTimeout(f"the server sent no complete response within {seconds:g} s") from None
