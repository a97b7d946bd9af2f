"""A tap on the endpoints of the package over HTTP: each exchange with a test's client is judged, also its heads.

Only findings about the server count, because the client of a test can be wrong on purpose.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import Any

from mcp_ref.check.conversation import Conversation
from mcp_ref.check.recording import Event, Head, HttpBody, HttpEnd, HttpEvent, HttpRequest, HttpResponse, content
from mcp_ref.check.rules import ADVICE, Finding
from mcp_ref.lib.http.message import Exchange, Rest

_judges: weakref.WeakKeyDictionary[Any, Conversation] = weakref.WeakKeyDictionary()
_numbers = itertools.count(1)


class WatchedExchange:
    """An exchange whose parts are judged when the server writes them."""

    def __init__(self, exchange: Exchange, conversation: Conversation, findings: list[Finding]) -> None:
        self._exchange, self._conversation, self._findings = exchange, conversation, findings
        self._number, self._is_seen = next(_numbers), False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._exchange, name)

    async def read_body(self) -> None:
        await self._exchange.read_body()
        self._see_request()

    def take_body(self) -> bool:
        if self._exchange.take_body():
            self._see_request()
            return True
        return False

    def _see_request(self) -> None:
        request = self._exchange.request
        if not self._is_seen:
            self._is_seen = True
            body = content(bytes(request.body))
            target = f"{request.path}?{request.query}" if request.query else request.path
            self.see(HttpRequest(self._number, request.method, target, tuple(request.headers), body))

    def see(self, event: Event) -> None:
        found = self._conversation.receive(event)
        self._findings.extend(each for each in found if each.side == "server" and each.level != ADVICE)

    def respond(self, status: int, headers: Any, body: bytes) -> None:
        self._see_request()
        self.see(HttpResponse(self._number, status, tuple(headers)))
        if body:
            self.see(HttpBody(self._number, content(bytes(body))))
        self.see(HttpEnd(self._number, "complete"))
        self._exchange.respond(status, headers, body)

    def stream(self, status: int, headers: Any) -> Any:
        self._see_request()
        self.see(HttpResponse(self._number, status, tuple(headers)))
        return WatchedStream(self._exchange.stream(status, headers), self, self._number)


class WatchedStream:
    """The stream of a response. Each event is judged when the server writes it."""

    def __init__(self, stream: Any, exchange: WatchedExchange, number: int) -> None:
        self._stream, self._watched, self._number, self._rest = stream, exchange, number, b""
        self._is_over = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def keep_open(self, on_end: Callable[[Any], object]) -> None:
        self._stream.keep_open(lambda _: on_end(self))

    def write(self, data: bytes) -> None:
        *blocks, self._rest = (self._rest + bytes(data)).split(b"\n\n")
        for block in blocks if not self._stream.ended.done() else ():
            lines = [line.partition(b":") for line in block.split(b"\n")]
            fields = {name: value.strip() for name, _, value in lines}
            if not fields.keys() & {b"data", b"id", b"retry", b"event"}:
                continue  # a comment
            id = fields[b"id"].decode() if b"id" in fields else None
            retry = int(fields[b"retry"]) if b"retry" in fields else None
            kind = fields.get(b"event", b"message").decode()
            self._watched.see(HttpEvent(self._number, content(fields.get(b"data", b"")), id, retry, kind))
        self._stream.write(data)

    def close(self) -> None:
        if not self._is_over and not self._stream.ended.done():
            self._is_over = True
            self._watched.see(HttpEnd(self._number, "complete"))
        self._stream.close()


def watched_handle(handle: Callable[[Any, Exchange], Rest], findings: list[Finding]) -> Callable[[Any, Exchange], Rest]:
    """Return an endpoint's `handle` that judges each exchange. Each endpoint has a judge of its own."""

    def watched(endpoint: Any, exchange: Exchange) -> Rest:
        conversation = _judges.get(endpoint)
        if conversation is None:
            conversation = _judges[endpoint] = Conversation(head=Head("http"))
        return handle(endpoint, WatchedExchange(exchange, conversation, findings))

    return watched
