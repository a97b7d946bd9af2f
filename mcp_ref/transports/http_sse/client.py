"""HTTP+SSE on the client: a GET opens the event stream. Its first event, `endpoint`, contains the URL for POSTs.

The session ends with the stream, because the stream cannot be resumed. The URL for POSTs must have the stream's origin,
because otherwise a hostile server could direct the client's messages and its `Authorization` header to another host.

Spec:  2024-11-05 basic/transports#http-with-sse
Used by: ../streamable_http/client.py, which tries this transport when a server refuses `initialize`
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urljoin, urlsplit

from ...jsonrpc.errors import ConnectionClosed, InvalidMessage, McpError
from ...jsonrpc.large_messages import decode_from_server
from ...jsonrpc.messages import Outgoing, Request, RequestFailure, RequestId, encode
from ...lib.http.client import HttpSender
from ...lib.http.origin import public_url
from ...lib.http.response import HttpError
from ...lib.http.sse import Event, EventParser, EventTooLarge
from ...lib.time_limits import TimeLimits
from ..base import EndReport, OnEnd, Receive, Trace, finish
from ..streamable_http.checks import JSON_TYPE, SSE_TYPE

log = logging.getLogger(__name__)

MAX_REFUSAL: Final = 1024 * 1024
"""Maximum size of the response to a POST, in bytes (1 MiB). The response has a body only if it refuses the message."""
MAX_EVENT: Final = 64 * 1024 * 1024
"""Maximum size of one message, in bytes (64 MiB)."""
ENDPOINT_SECONDS: Final = 10.0
"""Time that a server has to send the `endpoint` event, in seconds."""
POST_SECONDS: Final = 30.0
"""Time that a server has to accept a message, in seconds."""
CLOSE_ACCEPT_SECONDS: Final = 1.0
"""Time for the server to accept the last message when the client closes, in seconds."""


class SseClientTransport:
    """The client's side of one session. `http` makes the HTTP requests; the caller closes it.

    `readable` is not set while reading is paused. `waits_for` returns True if the request with this id still waits for
    its response, because only such responses may be large.
    """

    def __init__(
        self, url: str, *, http: HttpSender, readable: asyncio.Event, headers: Mapping[str, str] | None = None,
        trace: Trace | None = None, time_limits: TimeLimits | None = None,
        waits_for: Callable[[RequestId], bool] | None = None,
    ) -> None:  # fmt: skip
        self.url, self._time_limits, self._waits_for = url, time_limits or TimeLimits(), waits_for
        self._headers, self._http, self._trace, self._readable = dict(headers or {}), http, trace, readable
        self._receive: Receive | None = None
        self._end_report = EndReport()
        self._endpoint: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._reader: asyncio.Task[None] | None = None
        self._last_post: asyncio.Task[None] | None = None
        self._posts: set[asyncio.Task[None]] = set()

    async def start(self, receive: Receive, on_end: OnEnd) -> None:
        """Open the stream, and wait for its `endpoint` event.

        Raises:
            ConnectionClosed: The server does not open the stream, or ends it before the endpoint event.
            InvalidMessage: The endpoint event names an endpoint of another origin.
            McpError: The authorization failed.
        """
        self._receive = receive
        self._reader = asyncio.create_task(self._read())
        try:
            with contextlib.suppress(TimeoutError), self._time_limits.timeout(ENDPOINT_SECONDS):
                await asyncio.wait([self._endpoint])
            if not self._endpoint.done():
                raise ConnectionClosed(f"{public_url(self.url)} sent no endpoint event within {ENDPOINT_SECONDS:g} s")
            self._endpoint.result()
        except BaseException:
            await self.close()
            raise
        self._end_report.deliver_to(on_end)

    async def _read(self) -> None:
        reason: McpError
        try:
            await self._read_stream()
            reason = ConnectionClosed(f"{public_url(self.url)}: the server ended the stream")
        except (HttpError, EventTooLarge, ValueError) as error:
            reason = ConnectionClosed(f"{public_url(self.url)}: {error}")
        except McpError as error:  # the authorization failed, or the endpoint has another origin
            reason = error
        if self._endpoint.done():
            self._end_report.send(reason)
        else:
            self._endpoint.set_exception(reason)  # which `start` raises

    async def _read_stream(self) -> None:
        headers = {**self._headers, "Accept": SSE_TYPE}
        # `extra`: the limit of connections does not count the stream, because POSTs that have reached the limit may be
        # waiting for it
        async with self._http.request("GET", self.url, headers, extra=True) as response:
            if response.status != 200 or response.headers.media_type != SSE_TYPE:
                raise HttpError(f"the server answered a GET with HTTP {response.status}, not with an event stream")
            parser = EventParser(MAX_EVENT)
            async for piece in response:
                for event in parser.feed(piece):
                    self._take_event(event, response.url)
                    await self._readable.wait()

    def _take_event(self, event: Event, url: str) -> None:
        """Take an event of the stream at `url`, which differs from `self.url` after a redirect."""
        if event.event == "endpoint":
            if not self._endpoint.done():
                self._endpoint.set_result(_endpoint_at(url, event.data.decode("utf-8", "replace")))
        elif event.event == "message" and self._receive is not None:
            frame = event.data
            if self._trace is not None:
                self._trace("<-", frame)
            self._receive(decode_from_server(frame, self._waits_for))

    def send(self, message: Outgoing) -> None:
        """POST a message, after the server has accepted the earlier messages."""
        frame = encode(message)
        id = message.id if isinstance(message, Request) else None
        task = asyncio.get_running_loop().create_task(self._post(frame, id, self._last_post))
        self._last_post = task
        self._posts.add(task)
        task.add_done_callback(self._posts.discard)

    async def _post(self, frame: bytes, id: RequestId | None, before: asyncio.Task[None] | None) -> None:
        await finish(before)
        headers, failure, status = {**self._headers, "Content-Type": JSON_TYPE}, None, 0
        posting = self._http.request("POST", self._endpoint.result(), headers, frame)
        if self._trace is not None:
            self._trace("->", frame)
        try:
            with self._time_limits.timeout(POST_SECONDS):
                async with posting as response:
                    await response.read(MAX_REFUSAL)
                    status = response.status
                    why = f"the server answered HTTP {status}" if status >= 300 else None
        except TimeoutError:
            why = f"the message was not accepted within {POST_SECONDS:g} s"
        except (HttpError, ValueError) as error:
            why = str(error)
        except McpError as error:  # the authorization failed
            why, failure = str(error), error
        if why is not None and id is not None and self._receive is not None:
            self._receive(RequestFailure(id, f"{public_url(self.url)}: {why}", error=failure, http_status=status))
        elif why is not None:
            log.warning("a message was not delivered: %s: %s", public_url(self.url), why)

    async def drain(self) -> None:
        """Wait until the server has accepted the last message."""
        await finish(self._last_post)

    async def close(self) -> None:
        """Send the pending messages for at most `CLOSE_ACCEPT_SECONDS`, then end the stream and the session."""
        await finish(self._last_post, timeout=CLOSE_ACCEPT_SECONDS)
        await finish(*self._posts, self._reader, cancel=True, timeout=5.0)
        if self._endpoint.done() and not self._endpoint.cancelled():
            self._endpoint.exception()  # otherwise asyncio warns that nobody retrieved the exception
        self._end_report.send(ConnectionClosed("the connection was closed"))


def _endpoint_at(url: str, reference: str) -> str:
    """Return the URL for POSTs. Raise InvalidMessage if its origin is not that of the stream, whose URL is `url`."""
    endpoint = urljoin(url, reference)
    if _origin(endpoint) != _origin(url):
        named = f"the endpoint event names {endpoint[:200]!r}, which has another origin than its stream"
        advice = "a server behind a proxy must send only a path, or a URL of the proxy"
        raise InvalidMessage(f"{public_url(url)}: {named}; {advice}")
    return endpoint


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)
