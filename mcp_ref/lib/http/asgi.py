"""An adapter that runs a `Handler` (message.py) under an ASGI server such as uvicorn, or in Starlette or FastAPI.

An ASGI server calls the application, a coroutine function, with three arguments: a dictionary (the scope) that
describes the request, and two functions that receive the body and send the response.

    app = application(handler)        # start the server with `uvicorn module:app`

Spec:  ASGI 3.0, the HTTP and lifespan protocols
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Final, TypeAlias, cast
from urllib.parse import quote

from ..turns import Turns, current_turns
from .message import (
    CLIENT_DISCONNECTED,
    MIN_COUNTED_SIZE,
    BodyError,
    BodyMemory,
    Exchange,
    Handler,
    HeaderList,
    Headers,
    HttpLimits,
    HttpRequest,
)

Scope: TypeAlias = MutableMapping[str, object]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, object]]]
Send: TypeAlias = Callable[[MutableMapping[str, object]], Awaitable[None]]
Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

MAX_UNSENT_BYTES: Final = 4 * 1024 * 1024
"""Maximum size of the unsent pieces of a body, in bytes. If a further piece exceeds it, the response ends."""


def application(
    handler: Handler, close: Callable[[], Awaitable[None]] | None = None, limits: HttpLimits | None = None,
    start: Callable[[], Awaitable[None]] | None = None,
) -> Application:  # fmt: skip
    """Return an ASGI application that serves HTTP requests with the handler.

    It works without ASGI's lifespan events too, because some frameworks do not forward them to a mounted application.

    Args:
        handler: A function that responds to one exchange.
        close: A coroutine function to call when the ASGI server sends the event `lifespan.shutdown`.
        limits: Only `body_size` and `bodies_size` are used. The ASGI server has its own limits on connections, heads
            and times.
        start: A coroutine function to call when the ASGI server sends the event `lifespan.startup`.
    """
    limits = limits or HttpLimits()
    bodies, turns = BodyMemory(limits.bodies_size), Turns()
    functions = {"lifespan.startup": start, "lifespan.shutdown": close}

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await _serve_lifespan(receive, send, functions)
        if scope["type"] != "http":
            raise ValueError(f"this application supports only HTTP, not {scope['type']}")
        current_turns.set(turns)
        exchange = AsgiExchange(_http_request(scope), receive, send, limits.body_size, bodies)
        own_task = cast("asyncio.Task[None]", asyncio.current_task())
        earlier_cancellations = own_task.cancelling()
        try:
            # In a task of its own, because a handler that cancels its task must not cancel the caller of `app`.
            await asyncio.create_task(_handle(handler, exchange))
            await exchange.wait_responded()
        except BodyError as error:
            if error.status != CLIENT_DISCONNECTED:
                exchange.respond(error.status, [("Content-Type", "text/plain")], f"{error}\n".encode())
        except BaseException:
            # The ASGI server aborts a response that has no last piece, so the client sees that the body is incomplete.
            exchange.end_stream()
            raise
        finally:
            bodies.remove(exchange)
            await exchange.finish()
        if own_task.cancelling() > earlier_cancellations:
            raise asyncio.CancelledError  # again, because the handler has caught it, and sent a response

    return app


async def _handle(handler: Handler, exchange: Exchange) -> None:
    try:
        rest = handler(exchange)
        if rest is not None:
            await rest
    except SystemExit as error:  # it would end the ASGI server, because this is an asyncio task
        request = exchange.request
        raise RuntimeError(f"the handler of {request.method} {request.path} raised {error!r}") from error


async def _serve_lifespan(
    receive: Receive, send: Send, functions: Mapping[str, Callable[[], Awaitable[None]] | None]
) -> None:
    """Call the function of each lifespan event, and report its success or failure, until the ASGI server stops."""
    event = ""
    while event != "lifespan.shutdown":
        event = cast(str, (await receive())["type"])
        function = functions.get(event)
        if function is not None:
            try:
                await function()
            except Exception as error:
                # [ASGI 3.0, Lifespan] the ASGI server logs the message, and exits
                await send({"type": f"{event}.failed", "message": str(error)})
                raise
        await send({"type": f"{event}.complete"})


def _http_request(scope: Scope) -> HttpRequest:
    headers = cast("list[tuple[bytes, bytes]]", scope["headers"])
    raw_path = cast("bytes | None", scope.get("raw_path"))  # the path as sent, which some ASGI servers leave out
    path = raw_path.decode("latin-1") if raw_path else _escaped(scope["path"])
    root = _escaped(scope.get("root_path", ""))
    return HttpRequest(
        method=cast(str, scope["method"]),
        path=path.removeprefix(root).partition("?")[0] or "/",  # some servers leave the query in `raw_path`
        query=cast(bytes, scope.get("query_string", b"")).decode("latin-1"),
        headers=Headers((name.decode("latin-1"), value.decode("latin-1").strip(" \t")) for name, value in headers),
        client=cast("tuple[str, int] | None", scope.get("client")),
        root=root,
    )


def _escaped(path: object) -> str:
    """Return a path as in a URL, whether or not the ASGI server has decoded the escapes in it."""
    return quote(cast(str, path), safe="/%:@!$&'()*+,;=~")


class AsgiExchange:
    """The `Exchange` of one ASGI request."""

    def __init__(self, request: HttpRequest, receive: Receive, send: Send, body_size: int, bodies: BodyMemory) -> None:
        self.request, self._receive, self._send = request, receive, send
        self._body_size, self._bodies = body_size, bodies  # the limit for this body, and for all bodies together
        self._body = bytearray()  # the part that has arrived
        self._has_more_body = True
        self._body_refusal: BodyError | None = None  # set by `_bodies`, when all bodies together are too large
        self._responded = False
        self._events: list[MutableMapping[str, object]] = []  # the response of `respond`, which `finish` sends
        self._late: asyncio.Future[None] | None = None  # done when the response of `respond_later` has begun
        self._on_cancel: Callable[[], object] | None = None
        self._response: AsgiStreamingResponse | None = None
        self._on_disconnect: Callable[[], object] | None = None
        self._is_disconnected = False
        self._disconnect_watcher: asyncio.Task[None] | None = None  # waits for the client to disconnect

    async def read_body(self) -> None:
        declared = self.request.headers.get("content-length") or ""
        is_too_long = len(declared) > 15  # tested first, because `int` raises for thousands of digits
        if declared.isdecimal() and (is_too_long or int(declared) > self._body_size):
            raise BodyError(413, f"the body is larger than {self._body_size} bytes")
        while self._has_more_body:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise BodyError(CLIENT_DISCONNECTED, "the client has disconnected")
            self._body += cast(bytes, message.get("body", b""))
            self._has_more_body = cast(bool, message.get("more_body", False))
            if len(self._body) > self._body_size:
                raise BodyError(413, f"the body is larger than {self._body_size} bytes")
            self._bodies.update(self, len(self._body), self._refuse_body)
            if self._body_refusal is not None:
                raise self._body_refusal
        self._bodies.update(self, len(self._body), None)  # a complete body still counts, but is never refused
        if self._body:
            self.request.body = bytes(self._body)
            self._body.clear()

    def take_body(self) -> bool:
        return False  # an ASGI application always has to wait for a body

    def forget_body(self) -> None:
        if len(self.request.body) >= MIN_COUNTED_SIZE:
            self.request.body = b""
            self._bodies.remove(self)

    def _refuse_body(self, error: BodyError) -> None:
        self._body_refusal = error
        self._body.clear()

    def on_disconnect(self, function: Callable[[], object]) -> None:
        self._on_disconnect = function
        if self._is_disconnected:
            asyncio.get_running_loop().call_soon(function)
        self._disconnect_watcher = self._disconnect_watcher or asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        """Wait until the client disconnects, skipping the body, and then call the handler's function."""
        message = await self._receive()
        while message["type"] != "http.disconnect":
            if not self._has_more_body:
                return  # (middleware that returns the body at every call would make this loop endless)
            self._has_more_body = cast(bool, message.get("more_body", False))
            message = await self._receive()
        self._is_disconnected = True
        self.end_stream()
        if self._response is None and self._on_disconnect is not None:  # a stream says by `ended` that it has ended
            self._on_disconnect()

    def end_stream(self) -> None:
        """End the streaming response, if any, without its last piece."""
        if self._response is not None:
            self._response.end()

    def respond_later(self, on_cancel: Callable[[], object]) -> None:
        self._late, self._on_cancel = asyncio.get_running_loop().create_future(), on_cancel

    def respond(self, status: int, headers: HeaderList, body: bytes) -> None:
        if status not in (204, 304):
            headers = [*headers, ("content-length", str(len(body)))]
        start = self._begin(status, headers)
        sent_body = b"" if self.request.method == "HEAD" else body
        self._events = [start, {"type": "http.response.body", "body": sent_body}]

    def stream(self, status: int, headers: HeaderList) -> AsgiStreamingResponse:
        self._disconnect_watcher = self._disconnect_watcher or asyncio.create_task(self._watch())
        self._response = AsgiStreamingResponse(self._send, self._begin(status, headers))
        if self._is_disconnected:
            self._response.end()
        return self._response

    def _begin(self, status: int, headers: HeaderList) -> MutableMapping[str, object]:
        """Return the event that begins the response. Raise RuntimeError for a second response."""
        if self._responded:
            raise RuntimeError("the handler has already sent a response: call `respond` or `stream` only once")
        self._responded = True
        if self._late is not None and not self._late.done():
            self._late.set_result(None)
        raw = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        return {"type": "http.response.start", "status": status, "headers": raw}

    async def wait_responded(self) -> None:
        """Wait until a late response has begun, and until a response that is kept open has ended.

        This is necessary because the ASGI server ends a response when `app` returns.
        """
        if self._late is not None:
            await self._late
        if self._response is not None and self._response.is_kept_open:
            await asyncio.wait([self._response.ended])

    async def finish(self) -> None:
        """Send or close the response, and wait until it is sent. Called when the handler has ended or is cancelled."""
        if self._on_cancel is not None and not self._responded:
            self._on_cancel()
        with contextlib.suppress(OSError):  # [ASGI 3.0, Send] OSError: the client has disconnected
            for event in self._events:
                await self._send(event)
        if self._response is not None:
            self._response.close()
            await self._response.wait_sent()
        if self._disconnect_watcher is not None:
            self._disconnect_watcher.cancel()
            await asyncio.wait([self._disconnect_watcher])


class AsgiStreamingResponse:
    """The `StreamingResponse` of one ASGI request. A task sends the pieces that `write` has queued."""

    def __init__(self, send: Send, start: MutableMapping[str, object]) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._send, self._start = send, start
        self._pieces: list[bytes] = []  # that the sender has not taken yet
        self._size = 0  # size of all pieces that are not sent yet, in bytes
        self._closed = False
        self._wake_sender = asyncio.Event()  # set when there are pieces, or the response is closed
        self._sent = asyncio.Event()  # set when the pieces are sent, or the response has ended
        self._sender = asyncio.create_task(self._send_all())
        self.is_kept_open = False
        """True if the response stays open after its handler has returned."""

    def keep_open(self, on_end: Callable[[AsgiStreamingResponse], object]) -> None:
        self.is_kept_open = True
        self.ended.add_done_callback(lambda _: on_end(self))

    def write(self, data: bytes) -> None:
        if self.ended.done() or self._closed:
            return
        if self._size and self._size + len(data) > MAX_UNSENT_BYTES:
            return self.end()  # the client reads too slowly
        self._pieces.append(data)
        self._size += len(data)
        self._sent.clear()
        self._wake_sender.set()

    @property
    def has_room(self) -> bool:
        return not self._size or self.ended.done()

    async def drain(self) -> None:
        if not self.has_room:
            await self._sent.wait()

    def close(self) -> None:
        self._closed = True
        self._wake_sender.set()

    async def wait_sent(self) -> None:
        """Wait until all pieces are sent and the response is closed, or until it has ended early."""
        await self.ended
        self._sender.cancel()  # if the client does not read, it would wait forever
        await asyncio.wait([self._sender])

    async def _send_all(self) -> None:
        """Send the head, and then all pieces as they are written, until the response is closed or ends early."""
        try:
            await self._send(self._start)
            # [ASGI 3.0, Response Start] the server sends the head only with a first piece, so send an empty one
            await self._send({"type": "http.response.body", "body": b"", "more_body": True})
            while not self.ended.done():
                if self._pieces:
                    data = b"".join(self._pieces)
                    self._pieces.clear()
                    await self._send({"type": "http.response.body", "body": data, "more_body": True})
                    self._size -= len(data)
                    self._sent.set()
                elif self._closed:
                    await self._send({"type": "http.response.body", "body": b""})
                    return
                else:
                    self._wake_sender.clear()
                    await self._wake_sender.wait()
        except Exception:  # the ASGI specification names OSError, but some servers raise others
            pass
        finally:
            self.end()

    def end(self) -> None:
        """End the response, because all is sent, or the client has disconnected or reads too slowly."""
        self._sent.set()
        self._wake_sender.set()
        if not self.ended.done():
            self.ended.set_result(None)
