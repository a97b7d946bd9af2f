"""The load of the benchmark: raw sockets and pipes with bytes that are prepared, so that it costs little."""

from __future__ import annotations

import json
import re
import select
import socket
import time
from dataclasses import dataclass
from typing import Any

from tests.bench.implementations import TIMEOUT, Process

INFO = {"name": "bench", "version": "1"}
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": INFO}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": INFO,
    "io.modelcontextprotocol/clientCapabilities": {},
}
ADD = {"name": "add", "arguments": {"a": 1, "b": 2}}
FIRST_ID = 1_000_000_000
"""The first id of a request. All ids have the same length, so all requests and all responses have too."""
IN_FLIGHT = 64
"""The number of unfinished calls over stdio."""


def encode(method: str, params: dict[str, Any], id: int | None, modern: bool) -> bytes:
    """Return a message as JSON. The id None means a notification."""
    message = {"jsonrpc": "2.0", "method": method, "params": params}
    if modern:
        message["params"] = {**params, "_meta": {**params.get("_meta", {}), **META}}
    return json.dumps(message if id is None else {**message, "id": id}).encode()


def connect(port: int) -> socket.socket:
    """Return a connection to this machine. It waits at most TIMEOUT seconds for data."""
    return socket.create_connection(("127.0.0.1", port), TIMEOUT)


class Connection:
    """A keep-alive HTTP connection with its own session, or one for stateless requests."""

    def __init__(self, port: int, modern: bool) -> None:
        self.port, self.modern, self.session = port, modern, ""
        self.socket = connect(port)
        if not modern:
            self.open_session()

    def reconnect(self) -> None:
        """Replace the connection. Servers close a connection that is not used for some seconds."""
        self.socket.close()
        self.socket = connect(self.port)

    def close(self) -> None:
        self.socket.close()

    def open_session(self) -> None:
        """Open a session. Later messages are in this session."""
        self.session = ""
        head, body = self.ask("initialize", HELLO, 1)
        session = re.search(rb"(?i)mcp-session-id: (\S+)", head)
        revision = re.search(rb'"protocolVersion": ?"([^"]+)"', body)
        assert session is not None and revision is not None, head + body
        self.session = f"Mcp-Session-Id: {session[1].decode()}\r\nMCP-Protocol-Version: {revision[1].decode()}\r\n"
        self.ask("notifications/initialized", {}, None)

    def post(self, method: str, params: dict[str, Any], id: int | None) -> bytes:
        body = encode(method, params, id, self.modern)
        headers = self.session
        if self.modern:
            headers = f"MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n"
            headers += f"Mcp-Name: {params['name']}\r\n" if "name" in params else ""
        return (
            f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nAccept: application/json, text/event-stream\r\n"
            f"Content-Type: application/json\r\n{headers}Content-Length: {len(body)}\r\n\r\n"
        ).encode() + body

    def ask(self, method: str, params: dict[str, Any], id: int | None) -> tuple[bytes, bytes]:
        """Send a message. Return the head and the body of the response."""
        self.socket.sendall(self.post(method, params, id))
        data = b""
        while b"\r\n\r\n" not in data:
            data += self.read()
        head, _, body = data.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: (\d+)", head)
        chunked = b"chunked" in head.lower()
        pieces, received, last = [body], len(body), body[-5:]
        while received < int(length[1]) if length else chunked and last != b"0\r\n\r\n":
            pieces.append(self.read())
            received, last = received + len(pieces[-1]), (last + pieces[-1])[-5:]
        return head, b"".join(pieces)

    def read(self) -> bytes:
        """Return the next bytes of the response."""
        data = self.socket.recv(1 << 20)
        assert data, "the server closed the connection"
        return data

    def open_stream(self, session: str) -> socket.socket:
        """Open a session's GET stream, or a subscription to changes of the tools, on another connection."""
        request, end = (
            (
                f"GET /mcp HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nAccept: text/event-stream\r\n{session}\r\n"
            ).encode(),
            b"\r\n\r\n",
        )
        if self.modern:
            request = self.post("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, 1)
            end = b"acknowledged"
        stream, data = connect(self.port), b""
        stream.sendall(request)
        while end not in data:
            data += stream.recv(1 << 16)
        assert b"text/event-stream" in data, data
        return stream


@dataclass(slots=True)
class _Caller:
    """A connection under load."""

    connection: Connection
    before: bytes
    """The request, up to its id."""
    after: bytes
    size: int
    """The size of a response, in bytes."""
    received: int = 0


class HttpLoad:
    """Some connections, each with one unfinished call."""

    def __init__(self, port: int, modern: bool, connections: int) -> None:
        self._id = FIRST_ID
        self._callers: list[_Caller] = []
        for _ in range(connections):
            connection = Connection(port, modern)
            before, after = connection.post("tools/call", ADD, FIRST_ID).split(str(FIRST_ID).encode())
            connection.ask("tools/call", ADD, FIRST_ID)  # the first response can have more headers
            head, body = connection.ask("tools/call", ADD, FIRST_ID)
            assert re.search(rb'"structuredContent": ?(3|{"result": ?3})', body), body
            connection.close()
            self._callers.append(_Caller(connection, before, after, len(head) + 4 + len(body)))

    def run(self, seconds: float, reconnect: bool, at_least: int = 0) -> int:
        """Make calls for some seconds, and at least a number of them. Return their number.

        With `reconnect`, use a new connection for each call; else a new one for each caller.
        """
        poll, count = select.epoll(), 0
        by_descriptor: dict[int, _Caller] = {}

        def renew(caller: _Caller) -> None:
            caller.connection.reconnect()
            by_descriptor[caller.connection.socket.fileno()] = caller
            poll.register(caller.connection.socket, select.EPOLLIN)

        def call(caller: _Caller) -> None:
            self._id += 1
            caller.received = 0
            caller.connection.socket.send(caller.before + str(self._id).encode() + caller.after)

        for caller in self._callers:
            renew(caller)
            call(caller)
        end, busy = time.perf_counter() + seconds, len(self._callers)
        while busy:
            for descriptor, _ in poll.poll(TIMEOUT):
                caller = by_descriptor[descriptor]
                data = caller.connection.read()
                caller.received += len(data)
                if caller.received < caller.size:
                    continue
                assert caller.received == caller.size, data
                count += 1
                if count >= at_least and time.perf_counter() >= end:
                    busy -= 1
                    caller.connection.close()
                    continue
                if reconnect:
                    renew(caller)
                call(caller)
        poll.close()
        return count


class Streams:
    """Open streams that wait for changes of the tools."""

    def __init__(self, streams: list[socket.socket]) -> None:
        self._sockets = {stream.fileno(): stream for stream in streams}
        self._poll = select.epoll()
        for descriptor in self._sockets:
            self._poll.register(descriptor, select.EPOLLIN)

    def wait_for_change(self) -> None:
        """Wait until each stream has received a change of the tools."""
        missing = set(self._sockets)
        while missing:
            ready = self._poll.poll(TIMEOUT)
            assert ready, f"{len(missing)} streams received no change of the tools"
            for descriptor, _ in ready:
                data = self._sockets[descriptor].recv(1 << 16)
                assert data, "the server closed a stream"
                if b"tools/list_changed" in data:
                    missing.discard(descriptor)

    def close(self) -> None:
        self._poll.close()
        for each in self._sockets.values():
            each.close()


def call_over_stdio(server: Process, modern: bool, calls: int) -> None:
    """Make some calls over stdio, with at most IN_FLIGHT unfinished calls."""
    lines = [encode("tools/call", ADD, FIRST_ID + number, modern) + b"\n" for number in range(calls)]
    received, sent = 0, min(IN_FLIGHT, calls)
    server.write(b"".join(lines[:sent]))
    while received < calls:
        data = server.read()
        assert b'"error"' not in data, data
        received += data.count(b"\n")
        until = min(received + IN_FLIGHT, calls)
        server.write(b"".join(lines[sent:until]))
        sent = max(sent, until)
