"""Loopback receiver: how the response of a sign-in gets from the browser to a program on the same machine.

    async with receive("http://127.0.0.1:0/callback") as receiver:
        receiver.expected = begin_sign_in(..., receiver.redirect_uri, ...)
        await open_browser(receiver.expected.url)
        query = await receiver.query

The receiver is an HTTP server for one response. Every web page in the browser, and every program on the machine, can
send requests to it. So it

- begins to listen before the browser opens, or another program could take the port; [RFC 8252 8.1]
- serves one path, GET only, and checks the Host header, or a page could reach it under another name (DNS rebinding);
- ignores a response without the `state` of this sign-in, and continues to wait, or a page could end the sign-in;
- shows constant pages only, because text from a query could contain a script.

Spec:  2026-07-28 basic/authorization/security-considerations#open-redirection; RFC 8252, sections 7.3 and 8.3
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
import threading
import webbrowser
from collections.abc import AsyncIterator
from typing import Final
from urllib.parse import urlsplit

from ...lib.http.message import Exchange, HeaderList, HttpLimits, bracket_ipv6
from ...lib.http.server import start_server
from ...lib.text import show_text
from .authorization_code import SignIn, is_response

LIMITS: Final = HttpLimits(connections=100, body_size=0, head_time=5.0, idle_time=0.2)
"""The limits of the receiver: 100 connections at once, so that requests of others do not keep the response out. The
head has the usual limit, because a browser adds the cookies of all other programs at this address."""

_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
_HEADERS: Final[HeaderList] = [
    ("Content-Type", "text/html; charset=utf-8"),
    ("Cache-Control", "no-store"),
    ("Content-Security-Policy", "default-src 'none'"),
    ("Referrer-Policy", "no-referrer"),
    ("X-Content-Type-Options", "nosniff"),
]
_PAGE: Final = """<!doctype html><html lang=en><meta name=viewport content="width=device-width">
<title>{0}</title><h1>{0}</h1><p>{1}</html>
"""
_DONE: Final = _PAGE.format("You can close this page", "The program has the result of the sign-in.").encode()
_NOT_EXPECTED: Final = _PAGE.format("Nothing to do here", "The program did not ask for this page.").encode()


def check_receivable(uri: str) -> None:
    """Raise ValueError unless the receiver can serve this redirect URI: http, on loopback, without query."""
    # [2026-07-28 basic/authorization/security-considerations#communication-security] MUST be localhost or https
    parts = urlsplit(uri)
    if parts.scheme != "http" or parts.hostname not in _LOOPBACK or parts.query or parts.fragment:
        raise ValueError(f"the redirect URI must be like http://127.0.0.1:0/callback (0: any port): {uri!r:.200}")


class Receiver:
    """A listening receiver, as `receive` returns it."""

    def __init__(self, redirect_uri: str) -> None:
        self.redirect_uri = redirect_uri
        """The redirect URI, with the port in use."""
        self.expected: SignIn | None = None
        """The sign-in whose response is accepted. It must be set before the browser opens."""
        self.query: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """The query of the response to the expected sign-in."""

    async def handle(self, exchange: Exchange) -> None:
        request, parts = exchange.request, urlsplit(self.redirect_uri)
        hosts = request.headers.get_all("host")
        if hosts != (parts.netloc,) or request.path != (parts.path or "/"):
            return exchange.respond(404, _HEADERS, _NOT_EXPECTED)
        if request.method != "GET":
            return exchange.respond(405, [*_HEADERS, ("Allow", "GET")], _NOT_EXPECTED)
        if self.query.done() or self.expected is None or not is_response(self.expected, request.query):
            return exchange.respond(400, _HEADERS, _NOT_EXPECTED)
        self.query.set_result(request.query)
        exchange.respond(200, _HEADERS, _DONE)


@contextlib.asynccontextmanager
async def receive(redirect_uri: str) -> AsyncIterator[Receiver]:
    """Listen at a redirect URI while the block runs. Port 0 means any free port.

    Raises:
        OSError: The port is in use.
    """
    check_receivable(redirect_uri)
    parts = urlsplit(redirect_uri)
    # [RFC 8252 8.3] the literal address, even for `localhost`, because the name could lead to another interface
    address = "::1" if parts.hostname == "::1" else "127.0.0.1"
    receiver = Receiver(redirect_uri)
    listening = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    try:
        # On Windows, SO_EXCLUSIVEADDRUSE stops another program from sharing the port and receiving the code. Elsewhere,
        # SO_REUSEADDR lets the next sign-in use a registered port at once.
        option = getattr(socket, "SO_EXCLUSIVEADDRUSE", socket.SO_REUSEADDR)
        listening.setsockopt(socket.SOL_SOCKET, option, 1)
        listening.bind((address, parts.port or 0))
        server = await start_server(receiver.handle, listening, limits=LIMITS)
    except BaseException as error:
        listening.close()
        if isinstance(error, OSError):
            raise OSError(error.errno, f"cannot listen at the redirect URI {redirect_uri}: {error.strerror}") from None
        raise
    try:
        _, port = server.address
        receiver.redirect_uri = f"http://{bracket_ipv6(parts.hostname or address)}:{port}{parts.path or '/'}"
        yield receiver
    finally:
        await server.close(0.5)


def has_display() -> bool:
    """Return True if a browser can open a window. Otherwise, `webbrowser` could start a text browser in a terminal."""
    return sys.platform in ("win32", "darwin") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


async def print_url(url: str) -> None:
    """Ask the user on standard error to open a URL."""
    show_text(f"To sign in, open this URL in a browser on this machine:\n\n    {url}\n", sys.stderr)


async def open_in_browser(url: str) -> None:
    """Open a URL, which must come from `browser_url`, in the user's browser, and print it on standard error too."""
    await print_url(url)
    if has_display():
        # In a thread that nobody waits for, because some browsers block until their window is closed.
        threading.Thread(target=_open, args=(url,), name="mcp-browser", daemon=True).start()


def _open(url: str) -> None:
    with contextlib.suppress(webbrowser.Error, OSError):  # the user still has the printed URL
        webbrowser.open(url)
