"""HTTP+SSE, the client's side: a GET whose stream names the URL to POST to, and carries what the server says.

The session lasts as long as the stream. Nothing can be resumed.

Spec:  2024-11-05 basic/transports#http-with-sse
Below: mcp_ref/http. Elsewhere: the server's side (http_sse.py); when this is tried (streamable_http_client.py)
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Final
from urllib.parse import urljoin, urlsplit

from ...jsonrpc.errors import ConnectionClosed
from ...jsonrpc.messages import Outgoing, Request, RequestId, Undelivered, decode, encode
from ...lib.http.client import HttpError
from ...lib.http.sse import Event, EventParser, EventTooLarge
from ..base import Lost, Receive, Trace, Transport
from ..streamable_http.checks import JSON_TYPE, SSE_TYPE, media_type, public_url
from ..trace import Requests

log = logging.getLogger(__name__)

MAX_EVENT: Final = 64 * 1024 * 1024
"""Bytes of one message (64 MiB)."""

OPENING_SECONDS: Final = 10.0
"""Seconds that the endpoint event may take."""

POST_SECONDS: Final = 30.0
"""Seconds that a server may take to accept a message."""


class SseClientTransport(Transport):
    """The transport of one session. http: makes the requests; whoever gave it closes it."""

    def __init__(
        self, url: str, *, headers: Mapping[str, str] | None = None, http: Requests, trace: Trace | None = None
    ) -> None:
        self.url = url
        self._headers = dict(headers or {})
        self._http = http
        self._trace = trace
        self._receive: Receive | None = None
        self._lost: Lost | None = None
        self._endpoint: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._reader: asyncio.Task[None] | None = None
        self._last_post: asyncio.Task[None] | None = None
        self._posts: set[asyncio.Task[None]] = set()

    async def start(self, receive: Receive, lost: Lost) -> None:
        """Open the stream. Raises ConnectionClosed where it does not begin with an endpoint."""
        self._receive = receive
        self._reader = asyncio.create_task(self._read())
        await asyncio.wait([self._endpoint], timeout=OPENING_SECONDS)
        if not self._endpoint.done():
            raise ConnectionClosed(f"{public_url(self.url)} sent no endpoint event within {OPENING_SECONDS:g} s")
        self._endpoint.result()
        self._lost = lost

    async def _read(self) -> None:
        why = "the server ended the stream"
        try:
            headers = {**self._headers, "Accept": SSE_TYPE}
            async with self._http.request("GET", self.url, headers, extra=True) as response:
                if response.status != 200 or media_type(response.headers) != SSE_TYPE:
                    raise HttpError(f"a GET is answered by HTTP {response.status}, not by a stream")
                parser = EventParser(MAX_EVENT)
                async for piece in response:
                    for event in parser.feed(piece):
                        self._take(event)
        except (HttpError, EventTooLarge, ConnectionClosed, ValueError) as error:
            why = str(error)
        if not self._endpoint.done():
            self._endpoint.set_exception(ConnectionClosed(f"{public_url(self.url)}: {why}"))
        elif self._lost is not None:
            lost, self._lost = self._lost, None
            lost(ConnectionClosed(f"{public_url(self.url)}: {why}"))

    def _take(self, event: Event) -> None:
        if event.event == "endpoint":
            if not self._endpoint.done():
                self._endpoint.set_result(self._checked(urljoin(self.url, event.data)))
        elif event.event == "message" and self._receive is not None:
            frame = event.data.encode()
            if self._trace is not None:
                self._trace("<-", frame)
            self._receive(decode(frame))

    def _checked(self, endpoint: str) -> str:
        """A server may not send our messages, and our credentials, to somebody else."""
        if _origin(endpoint) != _origin(self.url):
            raise ConnectionClosed(f"its endpoint {endpoint[:200]!r} is of another origin")
        return endpoint

    def send(self, message: Outgoing, related: RequestId | None = None) -> None:
        """POST a message, after those before it."""
        frame = encode(message)
        id = message.id if isinstance(message, Request) else None
        task = asyncio.get_running_loop().create_task(self._post(frame, id, self._last_post))
        self._last_post = task
        self._posts.add(task)
        task.add_done_callback(self._posts.discard)

    async def _post(self, frame: bytes, id: RequestId | None, before: asyncio.Task[None] | None) -> None:
        if before is not None and not before.done():
            await asyncio.wait([before])
        headers = {**self._headers, "Content-Type": JSON_TYPE}
        posting = self._http.request("POST", self._endpoint.result(), headers, frame)
        if self._trace is not None:
            self._trace("->", frame)
        try:
            async with asyncio.timeout(POST_SECONDS):
                async with posting as response:
                    await response.read(MAX_EVENT)
                    why = f"the server answered HTTP {response.status}" if response.status >= 400 else None
        except TimeoutError:
            why = f"the message was not accepted within {POST_SECONDS:g} s"
        except (HttpError, ValueError) as error:
            why = str(error)
        if why is not None and id is not None and self._receive is not None:
            self._receive(Undelivered(id, f"{public_url(self.url)}: {why}"))
        elif why is not None:
            log.warning("a message was not delivered: %s: %s", public_url(self.url), why)

    async def drain(self, related: RequestId | None = None) -> None:
        """Wait until what was sent has been accepted."""
        if self._last_post is not None and not self._last_post.done():
            await asyncio.wait([self._last_post])

    def pause_reading(self) -> None:
        """Nothing: what the server may ask at a time is bounded by the dispatcher, and refused beyond."""

    def resume_reading(self) -> None:
        """See pause_reading."""

    async def close(self) -> None:
        """End the stream, and with it the session."""
        if self._last_post is not None and not self._last_post.done():
            await asyncio.wait([self._last_post], timeout=1.0)
        tasks = [task for task in (*self._posts, self._reader) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=5.0)
        if self._endpoint.done() and not self._endpoint.cancelled():
            self._endpoint.exception()  # seen
        if self._lost is not None:
            lost, self._lost = self._lost, None
            lost(ConnectionClosed("the connection was closed"))


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)
