"""The recorder in front of a server over HTTP: a reverse proxy that changes nothing.

    client --TCP--> recorder --TCP or TLS--> server       one connection to the server for each connection of a client

It passes the bytes of both directions on as they are, so a status, the order of headers, the moment of a server-sent
event and even bytes that are not HTTP arrive as the other side has sent them. Hop-by-hop headers stay too, because both
connections of a pair begin and end together.

There is one exception: the header `Host` of requests to another machine. A web server there chooses the site by this
header, but the client has put the address of the recorder into it. If this is an IP address, a name without a dot (such
as localhost), or a name of the recorder's machine, the recorder puts the server's name in its place. Any other name may
be the domain of a web page that attacks the server through the recorder, so it stays, and the server can refuse it. If
the recorder cannot tell where a request to another machine begins or ends, it could miss a `Host`, so it sends its
client a 400 response, and ends the connection.

Threats:
    recorder-as-open-proxy: A client of the recorder reaches any machine that this one can reach, by asking for another
        server. The recorder connects to the one server of its command line only.
    recorder-rebinding: A web page reads the server's data by making its own domain resolve to the address of the
        recorder. The recorder leaves a domain of somebody else in `Host`, so the server can refuse the request.

Spec:  RFC 9110, section 7.6 (forwarding); RFC 9112, section 3.2 (Host)
Used by: cli/recorder.py, drive.py. Uses: http_stream.py, tape.py
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass, field
from typing import Final, cast

from ..check.recording import Head, Side
from ..lib.http.framing import BadMessage, ResponseHeadWriter
from ..lib.http.message import bracket_ipv6
from ..lib.http.origin import Origin, parse_url
from ..lib.text import show_text
from ..transports.base import finish
from ..transports.recorded import now, open_recording
from .http_stream import HttpStream, MessageHead, MessageReader
from .tape import Tape, TapeOptions

CONNECT_SECONDS: Final = 10.0
"""Time limit for a connection to the server, in seconds."""
_HOST_LINE: Final = re.compile(rb"(?im)^host:[ \t]*(?P<name>[^\r\n]*?)(?::[0-9]*)?[ \t]*(?=\r|$)")
"""The line `Host: localhost:8000` of a head, without its line end. Its `name` is localhost."""


@contextlib.asynccontextmanager
async def record_http(options: TapeOptions, url: str, host: str, port: int) -> AsyncIterator[str]:
    """Listen, pass bytes on and record them until the end of the `async with`. Yield the URL for clients.

    Args:
        options: The options of the recording.
        url: The server's URL.
        host: The address to listen on.
        port: The port to listen on. 0 chooses a free one.

    Raises:
        OSError: The file or the port cannot be opened.
        ValueError: The URL is invalid.
    """
    parts, origin = parse_url(url)
    own_names = {host.lower(), socket.gethostname().lower()}
    proxy = _Proxy(origin, own_names, Tape(open_recording(options.path), Head("http", now(), url=url), options))
    try:
        listening = await asyncio.get_running_loop().create_server(proxy.accept, host, port)
        try:
            own_host, own_port, *_ = listening.sockets[0].getsockname()
            query = f"?{parts.query}" if parts.query else ""
            yield f"http://{bracket_ipv6(own_host)}:{own_port}{parts.path}{query}"
        finally:
            listening.close()
            await proxy.close()
    finally:
        show_text(proxy.tape.close(), sys.stderr, end="")  # a warning if events are missing
        proxy.tape.wait_until_written()


@dataclass
class _Proxy:
    """Everything that the connections share."""

    origin: Origin
    own_names: Collection[str]
    """The names of the recorder's machine, in lower case."""
    tape: Tape
    request_numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    connection_numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    connecting: set[asyncio.Task[None]] = field(default_factory=set)
    """The tasks that connect to the server."""
    open_connections: set[_Connection] = field(default_factory=set)

    def accept(self) -> _Connection:
        """Return the protocol for a connection of a client. `create_server` calls this for each of them."""
        is_remote = not self.origin.is_loopback
        stream = HttpStream(next(self.connection_numbers), self.request_numbers, ends_on_fault=is_remote)
        client, server = _Connection(self, stream, "client"), _Connection(self, stream, "server")
        client.other, server.other = server, client
        if is_remote:
            client.replacer = HostReplacer(str(self.origin).encode(), self.own_names)
        return client

    def connect(self, client: _Connection) -> None:
        """Start a task that connects to the server for a client, whose bytes wait until the task has succeeded."""
        task = asyncio.get_running_loop().create_task(self._connect(client))
        self.connecting.add(task)
        task.add_done_callback(self.connecting.discard)

    async def _connect(self, client: _Connection) -> None:
        origin = self.origin
        context = ssl.create_default_context() if origin.scheme == "https" else None
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                loop = asyncio.get_running_loop()
                # asyncio passes the connection to `client.other.connection_made`, so the result is not needed
                await loop.create_connection(lambda: client.other, origin.host, origin.port, ssl=context)
        except (OSError, TimeoutError):
            client.abort()  # so the client sees that the server cannot be reached
        else:
            client.resume_reading()

    async def close(self) -> None:
        await finish(*self.connecting, cancel=True)
        for connection in list(self.open_connections):
            connection.abort()
        await asyncio.sleep(0)  # asyncio reports closed connections in the next turn of the loop


class _Connection(asyncio.Protocol):
    """The recorder's connection with one side. It passes the bytes that it receives to the connection with the other
    side, `other`."""

    def __init__(self, proxy: _Proxy, stream: HttpStream, side: Side) -> None:
        self._proxy, self._stream, self._side = proxy, stream, side
        self._transport: asyncio.Transport | None = None
        self._has_ended = False  # True if this side has sent its last byte
        self.other: _Connection = self  # until `_Proxy.accept` sets it
        self.replacer: HostReplacer | None = None
        """Changes the bytes on their way to the other side."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._proxy.open_connections.add(self)
        if self._side == "client":
            self._transport.pause_reading()
            self._proxy.connect(self)
        elif self.other._transport is None or self.other._transport.is_closing():
            self.abort()  # the client has left in the meantime

    def data_received(self, data: bytes) -> None:
        replacer = self.replacer
        self.other.write(data if replacer is None else replacer.feed(data))
        self._proxy.tape.put(self._stream, self._side, data)
        if replacer is not None and replacer.fault is not None:
            self._refuse(f"mcp_ref record cannot replace Host in this request: {replacer.fault}\n".encode())

    def _refuse(self, body: bytes) -> None:
        # A client that pipelines could take this for the response to an earlier request, but no MCP client pipelines.
        head = ResponseHeadWriter().write(400, [("Content-Type", "text/plain; charset=utf-8")], close=True)
        self.write(head + b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        self.close()

    def eof_received(self) -> bool:
        self._note_end()
        if self.replacer is not None:
            self.other.write(self.replacer.take_unsent())
        # If this returns False, asyncio closes this connection, after which `connection_lost` closes the other.
        return self.other.write_eof()

    def connection_lost(self, error: Exception | None) -> None:
        self._proxy.open_connections.discard(self)
        self._note_end()
        if error is None:
            self.other.close()
        else:
            self.other.abort()

    def _note_end(self) -> None:
        if not self._has_ended:
            self._has_ended = True
            self._proxy.tape.put(self._stream, self._side, b"")

    def pause_writing(self) -> None:
        if self.other._transport is not None:
            self.other._transport.pause_reading()

    def resume_writing(self) -> None:
        self.other.resume_reading()

    def resume_reading(self) -> None:
        """Read again, because the other connection has been made, or can take more bytes."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def write_eof(self) -> bool:
        """Tell this side that no more bytes follow. Return False if only closing can tell it, as over TLS."""
        if self._transport is None or not self._transport.can_write_eof():
            return False
        self._transport.write_eof()
        return True

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()


class HostReplacer:
    """Replaces the value of `Host` in each request of a stream of bytes, which come in any pieces.

    Args:
        host: The new value.
        own_names: The names of this machine that are replaced, in lower case and without a port. IP addresses and
            names without a dot are replaced too, because no attacker can make them resolve to this machine.
    """

    def __init__(self, host: bytes, own_names: Collection[str] = ()) -> None:
        self._host, self._own_names = host, own_names
        self._reader = MessageReader(None)
        self._unsent = bytearray()  # the raw bytes that `feed` has not returned
        self.fault: BadMessage | None = None
        """The first fault of the stream, after which nothing more can be sent, because later heads cannot be found."""

    def feed(self, data: bytes) -> bytes:
        """Return the bytes to send. The start of a head is held back until its end arrives."""
        self._unsent += data
        sent = bytearray()
        try:
            for part in self._reader.feed(data):
                # Send all bytes that the reader has read, because the part lacks those around it, such as chunk sizes.
                raw = self._take_unsent_but(len(self._reader.buffer))
                if isinstance(part, MessageHead):
                    raw = _HOST_LINE.sub(self._replaced_line, raw, count=1)
                sent += raw
        except BadMessage as error:
            self.fault = error
        if self.fault is None and self._reader.is_in_body:
            sent += self.take_unsent()  # nothing in a body is replaced, so the rest of these bytes need not wait
        return bytes(sent)

    def take_unsent(self) -> bytes:
        """Return the bytes that are held back, such as the start of a head whose end will not come."""
        return self._take_unsent_but(0)

    def _take_unsent_but(self, unread: int) -> bytes:
        """Return the bytes that are held back, except for the last ones, which the reader has not read yet.

        In a body, `feed` sends even unread bytes, such as half a line with a chunk size. So fewer bytes than `unread`
        can be held back, and then this returns none.
        """
        size = max(len(self._unsent) - unread, 0)
        taken = bytes(self._unsent[:size])
        del self._unsent[:size]
        return taken

    def _replaced_line(self, line: re.Match[bytes]) -> bytes:
        name = line["name"].decode("latin-1").lower()
        is_address = name.startswith("[") or name.replace(".", "").isdigit()
        is_replaced = is_address or "." not in name or name in self._own_names
        return b"Host: " + self._host if is_replaced else line[0]
