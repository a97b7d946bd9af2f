"""The same exchanges under an ASGI server: uvicorn, hypercorn, granian; or mounted in Starlette or FastAPI.

ASGI is a calling convention: an application is a coroutine function of a scope and two callables, so nothing has to be
imported. Requests are read whole, within the same bound as by our own server.

    app = application(handler)        uvicorn module:app

Spec:  ASGI 3.0, the HTTP and lifespan protocols
Beside: server.py, where the sockets are ours
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Final, TypeAlias, cast

from .message import Handler, HeaderList, Headers, HttpLimits, HttpRequest

Scope: TypeAlias = MutableMapping[str, object]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, object]]]
Send: TypeAlias = Callable[[MutableMapping[str, object]], Awaitable[None]]
Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

MAX_QUEUED: Final = 4 * 1024 * 1024
"""Bytes of a stream that wait for a client that reads too slowly; when more are written, the response ends (4 MiB)."""


def application(
    handler: Handler,
    close: Callable[[], Awaitable[None]] | None = None,
    limits: HttpLimits | None = None,
) -> Application:
    """An ASGI application that answers every request with `handler`.

    close: awaited when the server shuts down, where it tells (lifespan). Nothing needs to be awaited to start, so it
    also works mounted below an application that keeps lifespan to itself.
    """
    body_size = (limits or HttpLimits()).body_size

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await _live(receive, send, close)
        if scope["type"] != "http":
            raise ValueError(f"only HTTP is served here, not {scope['type']}")
        body = await _read_body(receive, body_size)
        if body is None:
            return  # the client has left
        exchange = AsgiExchange(_request(scope, body), receive, send)
        if len(body) > body_size:
            text = f"the body is larger than {body_size} bytes\n".encode()
            return await exchange.respond(413, [("Content-Type", "text/plain; charset=utf-8")], text)
        try:
            # Who calls an application need not give it a task of its own: middleware, tests.
            await asyncio.ensure_future(handler(exchange))
        finally:
            await exchange.finish()

    return app


async def _live(receive: Receive, send: Send, close: Callable[[], Awaitable[None]] | None) -> None:
    """The lifespan protocol: say that we have started, and that we have stopped."""
    while True:
        message = await receive()
        if message["type"] == "lifespan.shutdown" and close is not None:
            await close()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


async def _read_body(receive: Receive, limit: int) -> bytes | None:
    """The body: whole, or more than `limit` bytes of it. None when the client has left."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += cast(bytes, message.get("body", b""))
        if len(body) > limit or not message.get("more_body", False):
            return bytes(body)


def _request(scope: Scope, body: bytes) -> HttpRequest:
    headers = cast("list[tuple[bytes, bytes]]", scope["headers"])
    path = cast("bytes | None", scope.get("raw_path")) or cast(str, scope["path"]).encode()
    root = cast(str, scope.get("root_path", "")).encode()
    return HttpRequest(
        cast(str, scope["method"]),
        path.removeprefix(root).partition(b"?")[0].decode("latin-1") or "/",
        cast(bytes, scope.get("query_string", b"")).decode("latin-1"),
        Headers((name.decode("latin-1"), value.decode("latin-1").strip(" \t")) for name, value in headers),
        body,
        cast("tuple[str, int] | None", scope.get("client")),
        scope.get("scheme") == "https",
        root.decode("latin-1"),
    )


class AsgiExchange:
    """The Exchange of one ASGI request."""

    def __init__(self, request: HttpRequest, receive: Receive, send: Send) -> None:
        self.request = request
        self._receive, self._send = receive, send
        self._answered = False
        self._stream: AsgiStreamingResponse | None = None
        self._gone: asyncio.Future[None] | None = None
        self._watcher: asyncio.Task[None] | None = None

    def gone(self) -> asyncio.Future[None]:
        """See Exchange."""
        if self._gone is None:
            self._gone = asyncio.get_running_loop().create_future()
            self._watcher = asyncio.create_task(self._watch(self._gone))
        return self._gone

    async def _watch(self, gone: asyncio.Future[None]) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        if not gone.done():
            gone.set_result(None)

    async def _stop_watching(self) -> None:
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.wait([self._watcher])

    async def respond(self, status: int, headers: HeaderList, body: bytes) -> None:
        """See Exchange."""
        framed = headers if status in (204, 304) else [*headers, ("content-length", str(len(body)))]
        with contextlib.suppress(OSError):  # [ASGI 3.0, Send] the client has left
            await self._begin(status, framed)
            await self._send({"type": "http.response.body", "body": b"" if self.request.method == "HEAD" else body})

    async def stream(self, status: int, headers: HeaderList) -> AsgiStreamingResponse:
        """See Exchange."""
        await self._stop_watching()
        left = self._gone is not None and self._gone.done()
        try:
            await self._begin(status, headers)
            # [ASGI 3.0, Response Start] the head is not sent before the first piece of the body, be it empty
            await self._send({"type": "http.response.body", "body": b"", "more_body": True})
        except OSError:
            left = True
        self._stream = AsgiStreamingResponse(self._receive, self._send)
        if left:
            self._stream.leave()
        return self._stream

    async def _begin(self, status: int, headers: HeaderList) -> None:
        if self._answered:
            raise RuntimeError("the exchange was answered before")
        self._answered = True
        raw = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        await self._send({"type": "http.response.start", "status": status, "headers": raw})

    async def finish(self) -> None:
        """The handler has returned: end what it began."""
        await self._stop_watching()
        if self._stream is not None:
            self._stream.close()
            await self._stream.end()


class AsgiStreamingResponse:
    """The StreamingResponse of one ASGI response. What is written is sent by a task, as `send` has to be awaited."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._send = send
        self._pieces: list[bytes] = []
        self._size = 0
        self._changed = asyncio.Event()
        self._taken = asyncio.Event()
        self._closed = False
        self._sender = asyncio.create_task(self._send_all())
        self._watcher = asyncio.create_task(self._watch(receive))

    def write(self, data: bytes) -> None:
        if self.gone.done() or self._closed:
            return
        if self._size and self._size + len(data) > MAX_QUEUED:
            return self.leave()  # the client reads too slowly
        self._pieces.append(data)
        self._size += len(data)
        self._taken.clear()
        self._changed.set()

    async def drain(self) -> None:
        if self._size and not self.gone.done():
            await self._taken.wait()

    def close(self) -> None:
        self._closed = True
        self._changed.set()

    async def end(self) -> None:
        """Return when all has been sent, or the client has left."""
        await self.gone
        self._watcher.cancel()
        self._sender.cancel()  # where it is not done, it waits for a client that does not read, perhaps for ever
        await asyncio.wait([self._watcher, self._sender])

    async def _send_all(self) -> None:
        try:
            while not self.gone.done():
                if self._pieces:
                    data = b"".join(self._pieces)
                    self._pieces.clear()
                    await self._send({"type": "http.response.body", "body": data, "more_body": True})
                    self._size -= len(data)
                    self._taken.set()
                elif self._closed:
                    await self._send({"type": "http.response.body", "body": b""})
                    return
                else:
                    self._changed.clear()
                    await self._changed.wait()
        except Exception:  # OSError by the ASGI specification; servers raise others, too
            pass
        finally:
            self.leave()

    async def _watch(self, receive: Receive) -> None:
        """Notice when the client leaves."""
        with contextlib.suppress(asyncio.CancelledError):
            while (await receive())["type"] != "http.disconnect":
                pass
            self.leave()

    def leave(self) -> None:
        """The client has left, or is taken to have."""
        self._taken.set()
        self._changed.set()
        if not self.gone.done():
            self.gone.set_result(None)
