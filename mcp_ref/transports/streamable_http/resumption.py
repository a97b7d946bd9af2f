"""Resumption on the client, which continues a broken event stream, and keeps the listening stream open.

A client whose event stream broke sends a GET with the id of the last event that it received, in `Last-Event-ID`, and
the server sends the later events of that stream. Since 2025-11-25 a server MAY also close a connection on
purpose; the client MUST then wait for the stream's `retry` time before it reconnects. 2026-07-28 has no resumption.
The listening stream is the response to a GET without `Last-Event-ID`, for messages that belong to no request. If the
server has ended the session, the client repeats `initialize`.

    stream breaks -> wait for `retry`, longer after each failure -> GET with Last-Event-ID
        -> 200: the stream continues; 408, 429, 500 to 599: the client tries again; another status: the requests fail

Spec:  basic/transports#resumability-and-redelivery, #listening-for-messages-from-the-server (2025-03-26 to 2025-11-25)
Used by: client.py. The server's side: session.py, event_store.py
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Final

from ...jsonrpc.errors import McpError
from ...jsonrpc.messages import ErrorResponse, Incoming, RequestFailure, RequestId, Response
from ...jsonrpc.outline import same_id
from ...lib.http.response import HttpError, HttpResponse
from ...lib.http.sse import EventParser, EventTooLarge
from ..base import Receive
from .checks import SSE_TYPE
from .stateless_client import MAX_RESPONSE

log = logging.getLogger(__name__)

MAX_RETRY: Final = 60.0
"""Maximum time that a server can make the client wait before it reconnects, in seconds."""
MAX_EVENT_ID_BYTES: Final = 4096
"""Maximum size of an event id that the client repeats, in bytes. A stream cannot be resumed after a longer id."""
MIN_RETRY: Final = 0.05
"""Minimum time that the client waits before it reconnects, in seconds."""
MAX_IDLE_RETRY: Final = 5.0
"""Maximum wait after reconnections with new event ids but no message, in seconds. A longer `retry` overrides it."""
MAX_RECONNECTIONS: Final = 5
"""Maximum number of consecutive reconnections without a new event. After them, the stream's requests fail."""
ONE_WAY_SECONDS: Final = 0.5
"""Time for which the client reads an event stream in response to a notification or a response, in seconds."""
_CONTROL_CHARACTERS: Final = re.compile(rb"[\x00-\x1f\x7f]")

Get = Callable[[dict[str, str]], AbstractAsyncContextManager[HttpResponse]]
"""A function that sends a GET in the current session, with additional headers."""
ReadMessage = Callable[[bytes], Awaitable[None]]
"""An async function that handles the data of one event, which is one message. It waits while reading is paused."""


async def read_and_resume(response: HttpResponse, unanswered: set[RequestId], read: ReadMessage, get: Get) -> None:
    """Read a POST's event stream until every request has its response. Resume the stream when it breaks.

    Return early if resuming fails. `unanswered` contains the ids of open requests, and `read` removes those that have
    got their response. Without such ids, read the stream only for `ONE_WAY_SECONDS`.
    """
    if not unanswered:
        # [2025-11-25 basic/transports#sending-messages-to-the-server] a notification or response MUST get 202 without a
        # body. If it gets messages instead, receive them, but not for long, because later messages wait for this POST.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ONE_WAY_SECONDS):
                await _read_events(response, EventParser(MAX_RESPONSE), read, None)
        return
    parser = EventParser(MAX_RESPONSE)
    without_event = without_message = 0  # reconnections in a row without a new event, and without a message
    await _read_events(response, parser, read, unanswered)
    while unanswered and resume_header(parser) and without_event < MAX_RECONNECTIONS:
        before = parser.last_event_id
        await asyncio.sleep(retry_seconds(parser, without_event, without_message))
        parser = parser.resumed()
        try:
            # [2025-11-25 basic/transports#resumability-and-redelivery] the client SHOULD send the last event's id
            async with get(resume_header(parser)) as resumed:
                if _is_stream(resumed):
                    had_message = await _read_events(resumed, parser, read, unanswered)
                    without_message = 0 if had_message else without_message + 1
                elif _is_lasting(resumed.status):
                    return  # the server cannot resume the stream
        except (HttpError, McpError) as error:
            log.debug("a stream was not resumed: %s", error)
        without_event = 0 if parser.last_event_id != before else without_event + 1


async def _read_events(
    response: HttpResponse, parser: EventParser, read: ReadMessage, unanswered: set[RequestId] | None
) -> bool:
    """Read events until the response ends, or until `unanswered` is empty. Return True if there was a message."""
    had_message = False
    try:
        async for piece in response:
            for event in parser.feed(piece):
                if event.data and event.event == "message":  # an event without data only gives an id
                    had_message = True
                    await read(event.data)
            if unanswered is not None and not unanswered:
                break
    except HttpError as error:
        log.debug("a stream broke: %s", error)
    return had_message


async def listen(
    get: Get, read: ReadMessage, session_id: Callable[[], str | None], renew: Callable[[str | None], Awaitable[None]]
) -> None:
    """Keep the listening stream open. Return if the server does not offer one, or if no new session can begin.

    `session_id` returns the id of the current session. `renew` begins a new session, given the id of the ended session.
    """
    parser, loop = EventParser(MAX_RESPONSE), asyncio.get_running_loop()
    without_event = without_message = 0  # reconnections in a row without a new event, and without a message
    listened_session = None  # id of the latest session in which the server opened the stream
    while True:
        began, last_id, session = loop.time(), parser.last_event_id, session_id()
        parser = parser.resumed()
        refusal: int | None = None  # the HTTP status, if the response is not an event stream
        try:
            async with get(resume_header(parser)) as response:
                if _is_stream(response):
                    listened_session = session
                    had_message = await _read_events(response, parser, read, None)
                    without_message = 0 if had_message else without_message + 1
                else:
                    refusal = response.status
            # a server that opened the stream in this session before, and now responds with 404, has ended the session
            has_ended = refusal == 404 and session is not None and session == listened_session
            if has_ended:  # only here, because `renew` may need the connection that the response has just freed
                parser = EventParser(MAX_RESPONSE)
                await renew(session)
            elif refusal is not None and _is_lasting(refusal):
                if not last_id:
                    # [2025-11-25 basic/transports#listening-for-messages-from-the-server] 405: no stream is offered
                    return
                parser = EventParser(MAX_RESPONSE)  # the missed events are lost, so listen without an event id
        except (HttpError, McpError, EventTooLarge) as error:
            if not _is_temporary(error):
                return  # no new session began; the next request tries again
            # warn once in an outage, at its third failure, because a restart of the server usually ends earlier
            level = logging.WARNING if without_event == 2 else logging.DEBUG
            log.log(level, "the listening stream broke, and will be opened again: %s", error)
        if loop.time() > began + MAX_RETRY / 2:  # the stream was open for some time, so the server works
            without_event = without_message = 0
        else:
            without_event = 0 if parser.last_event_id != last_id else without_event + 1
        await asyncio.sleep(retry_seconds(parser, without_event, without_message))


class HandshakeReceiver:
    """The receiver of the messages of a repeated handshake. It passes on all but the response."""

    def __init__(self, id: RequestId, others: Receive) -> None:
        self.failure: str | None = "the server did not respond to `initialize`"
        """The reason why no new session has begun; None after a result."""
        self._id, self._others = id, others

    def __call__(self, message: Incoming) -> None:
        if not isinstance(message, (Response, ErrorResponse, RequestFailure)) or not same_id(message.id, self._id):
            self._others(message)
        elif isinstance(message, RequestFailure):
            self.failure = message.reason
        elif isinstance(message, ErrorResponse):
            self.failure = f"the server refused `initialize`: {message.error.message} (error {message.error.code})"
        else:
            self.failure = None


def _is_temporary(error: Exception) -> bool:
    return not isinstance(error, McpError) or error.is_temporary


def _is_stream(response: HttpResponse) -> bool:
    return response.status == 200 and response.headers.media_type == SSE_TYPE


def _is_lasting(refusal: int) -> bool:
    """Return True if a later GET of the stream would fail too, unlike after an overload of the server or a proxy."""
    return refusal < 500 and refusal not in (408, 429)


def resume_header(parser: EventParser) -> dict[str, str]:
    """Return the header `Last-Event-ID`, or {} if the stream cannot be resumed."""
    # An event id is sent as UTF-8. The HTTP client encodes headers as Latin-1, so each byte is one character here.
    last = parser.last_event_id.encode()
    is_header = 0 < len(last) <= MAX_EVENT_ID_BYTES and not _CONTROL_CHARACTERS.search(last)
    return {"Last-Event-ID": last.decode("latin-1")} if is_header else {}


def retry_seconds(parser: EventParser, without_event: int, without_message: int) -> float:
    """Return the time to wait before the next GET, in seconds: `retry`, doubled after each useless reconnection.

    A reconnection with new events but no message counts too (`without_message`), because otherwise a server with
    `retry: 0` could make the client reconnect twenty times a second.
    """
    # [2025-11-25 basic/transports#sending-messages-to-the-server] the client MUST respect the retry field
    retry = max(parser.retry / 1000 if parser.retry is not None else 1.0, MIN_RETRY)
    after_failures = retry * 2 ** min(without_event, 10)  # at most 1024 times as long
    idle_limit = max(retry, MAX_IDLE_RETRY)
    after_idle = min(retry * 2 ** min(without_message, 10), idle_limit)
    return float(min(max(after_failures, after_idle), MAX_RETRY))
