"""The recorder in front of a server over HTTP: a reverse proxy that changes nothing.

    client --TCP--> recorder --TCP or TLS--> server       one connection to the server for each connection of a client

It passes the bytes of both directions on as they are, so a status, the order of headers, the moment of a server-sent
event and even bytes that are not HTTP arrive as the other side has sent them. Hop-by-hop headers stay too, because both
connections of a pair begin and end together. There is one exception. A web server on another machine chooses the site
by `Host`, and does not know the recorder's address, so the recorder puts the server's own name there. It replaces only
its own name, so that the server still sees a name that a web page has given to this machine.

Threats:
    recorder-as-open-proxy: the machines that this one can reach; any client of the recorder; asks for another server;
        the recorder connects to the one server of its command line only.
    recorder-rebinding: the data of the server; a web page; points its own name to 127.0.0.1 and asks the recorder under
        this name; the recorder leaves such a `Host` as it is, and the server does not know it.

Spec:  RFC 9110, section 7.6 (forwarding); RFC 9112, section 3.2 (Host)
Used by: cli/recorder.py, drive.py. Uses: http_stream.py, tape.py
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
import ssl
import sys
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass, field
from typing import Final, cast

from ..check.recording import Head, Side
from ..lib.http.framing import BadMessage
from ..lib.http.message import bracket_ipv6
from ..lib.http.origin import Origin, parse_url
from ..lib.text import show_text
from ..transports.recorded import now, open_recording
from ..transports.streamable_http.checks import LOOPBACK
from .http_stream import HttpStream, MessageHead, MessageReader
from .tape import Tape, TapeOptions

CONNECT_SECONDS: Final = 10.0
"""Time limit for a connection to the server, in seconds."""
_HOST: Final = re.compile(rb"(?im)^host:[ \t]*(?P<name>[^\r\n]*?)(?::[0-9]*)?[ \t]*(?=\r|$)")


@contextlib.asynccontextmanager
async def record_http(options: TapeOptions, url: str, host: str, port: int) -> AsyncIterator[str]:
    """Listen, pass on and record until the end of the `async with`. Yield the URL for clients.

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
    names = LOOPBACK if bracket_ipv6(host) in LOOPBACK else None
    proxy = _Proxy(origin, names, Tape(open_recording(options.path), Head("http", now(), url=url), options))
    try:
        listening = await asyncio.get_running_loop().create_server(proxy.accept, host, port)
        try:
            address = listening.sockets[0].getsockname()
            yield f"http://{bracket_ipv6(address[0])}:{address[1]}{parts.path}"
        finally:
            listening.close()
            await proxy.close()
    finally:
        show_text(proxy.tape.close(), sys.stderr, end="")
        proxy.tape.finish()


@dataclass
class _Proxy:
    """Everything that the connections share."""

    origin: Origin
    names: Collection[str] | None
    """The host names of the recorder, in lower case; None if it listens for other machines, which use other names."""
    tape: Tape
    numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    """Numbers for the requests."""
    connections: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    """The connections to the server that are being made."""
    open_ends: set[_End] = field(default_factory=set)

    def accept(self) -> _End:
        """Return the protocol for a new connection of a client."""
        stream = HttpStream(next(self.connections), self.numbers)
        client, server = _End(self, stream, "client"), _End(self, stream, "server")
        client.other, server.other = server, client
        if not self.origin.is_loopback:
            client.replacer = HostReplacer(str(self.origin).encode(), self.names)
        return client

    def connect(self, client: _End) -> None:
        """Connect to the server, and then read from the client."""
        task = asyncio.get_running_loop().create_task(self._connect(client))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _connect(self, client: _End) -> None:
        origin, context = self.origin, ssl.create_default_context() if self.origin.scheme == "https" else None
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                loop = asyncio.get_running_loop()
                await loop.create_connection(lambda: client.other, origin.host, origin.port, ssl=context)
        except (OSError, TimeoutError):
            client.abort()  # so the client sees that the server cannot be reached
        else:
            client.resume_reading()

    async def close(self) -> None:
        """End all connections."""
        tasks = list(self.tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for end in list(self.open_ends):
            end.abort()
        await asyncio.sleep(0)  # asyncio reports closed connections in the next turn of the loop


class _End(asyncio.Protocol):
    """One end of a connection: the client's or the server's. Received bytes go to the other end."""

    def __init__(self, proxy: _Proxy, stream: HttpStream, side: Side) -> None:
        self._proxy, self._stream, self._side = proxy, stream, side
        self._transport: asyncio.Transport | None = None
        self._has_ended = False
        self.other: _End = self
        self.replacer: HostReplacer | None = None
        """Changes the bytes on their way to the other end."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._proxy.open_ends.add(self)
        if self._side == "client":
            self._transport.pause_reading()
            self._proxy.connect(self)
        elif self.other._transport is None or self.other._transport.is_closing():
            self.abort()  # the client has left in the meantime

    def data_received(self, data: bytes) -> None:
        self.other.write(data if self.replacer is None else self.replacer.feed(data))
        self._proxy.tape.put(self._stream, self._side, data)

    def eof_received(self) -> bool:
        self._note_end()
        if self.replacer is not None:
            self.other.write(self.replacer.rest())
        return self.other.write_eof()

    def connection_lost(self, error: Exception | None) -> None:
        self._proxy.open_ends.discard(self)
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
        """Receive again, after `pause_writing` of the other end, or the connection to the server."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def write(self, data: bytes) -> None:
        """Send bytes, unless the connection is closed."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def write_eof(self) -> bool:
        """Send the end of the bytes. Return False if that closes the connection, as with TLS."""
        if self._transport is None or not self._transport.can_write_eof():
            return False
        self._transport.write_eof()
        return True

    def close(self) -> None:
        """Close the connection after everything is sent."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._transport.abort()


class HostReplacer:
    """Replaces the value of `Host` in each request of a stream. Bytes that are not HTTP stay as they are.

    Args:
        host: The new value.
        names: The host names that are replaced, in lower case and without a port; None for all.
    """

    def __init__(self, host: bytes, names: Collection[str] | None = None) -> None:
        self._host, self._names = host, names
        self._reader: MessageReader | None = MessageReader(None)  # None after bytes that are not HTTP
        self._unsent = bytearray()

    def feed(self, data: bytes) -> bytes:
        """Return the bytes to send. The start of a head is held back until its end arrives."""
        if self._reader is None:
            return data
        self._unsent += data
        sent = bytearray()
        try:
            for part in self._reader.feed(data):
                raw = self._take(len(self._unsent) - len(self._reader.buffer))
                sent += _HOST.sub(self._replaced, raw, count=1) if isinstance(part, MessageHead) else raw
        except BadMessage:
            self._reader = None
        return bytes(sent) + (self.rest() if self._reader is None or self._reader.is_in_body else b"")

    def rest(self) -> bytes:
        """Return the bytes that are held back, because no more bytes will follow."""
        return self._take(len(self._unsent))

    def _take(self, size: int) -> bytes:
        size = max(size, 0)  # the reader can still hold bytes of a body that are already sent
        taken = bytes(self._unsent[:size])
        del self._unsent[:size]
        return taken

    def _replaced(self, line: re.Match[bytes]) -> bytes:
        name = line["name"].decode("latin-1").lower()
        return b"Host: " + self._host if self._names is None or name in self._names else line[0]
