"""Streamable HTTP of the stateless era, the client's side: a request is a POST, and its response is all there is.

    Request -> POST, with headers that repeat what the body says -> JSON: the answer
                                                                   | events: notifications, then the answer
    notifications/cancelled -> the response is closed, and nothing is sent

Spec:  2026-07-28 basic/transports/streamable-http
Above: streamable_http_client.py, which knows the earlier eras too. Below: mcp_ref/http, basic/headers.py
Elsewhere: the server's side (http_alone.py)
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

from ...basic.headers import ParameterHeaders, request_headers
from ...basic.versioning import MODERN_ERRORS
from ...jsonrpc.messages import (
    ErrorResponse,
    Incoming,
    Malformed,
    Request,
    RequestId,
    Response,
    Undelivered,
    decode,
    encode,
)
from ...lib.http.client import HttpError, HttpResponse
from ...lib.http.sse import EventParser, EventTooLarge
from ..base import Receive, Trace
from ..trace import Requests
from .checks import JSON_TYPE, SSE_TYPE, STREAMED, media_type, public_url

log = logging.getLogger(__name__)

MAX_ANSWER: Final = 64 * 1024 * 1024
"""Bytes of one JSON answer, or of one event (64 MiB)."""

MAX_WORDS: Final = 200
"""Characters of what a server says beside a status that an error repeats."""

_NOT_THE_ERA: Final = frozenset({401, 403, 407, 408, 429})
"""Refusals of the one who asks, which say nothing about what the server speaks."""


class StatelessRequests:
    """The requests that stand alone. headers: sent with each. parameters: the headers that a tool's arguments go in."""

    def __init__(
        self, url: str, headers: Mapping[str, str], http: Requests, trace: Trace | None, parameters: ParameterHeaders
    ) -> None:
        self._url = url
        self._headers = headers
        self._http = http
        self._trace = trace
        self._parameters = parameters
        self._asking: dict[RequestId, asyncio.Task[None]] = {}

    def send(self, request: Request, receive: Receive) -> None:
        """POST a request; what comes back is handed to `receive`. Raises what `encode` raises."""
        frame = encode(request)
        headers = {
            **self._headers,
            # [2026-07-28 basic/transports/streamable-http#sending-messages] MUST list both
            "Content-Type": JSON_TYPE,
            "Accept": f"{JSON_TYPE}, {SSE_TYPE}",
            **request_headers(request, self._parameters),
        }
        task = asyncio.get_running_loop().create_task(self._post(request, frame, headers, receive))
        self._asking[request.id] = task
        task.add_done_callback(lambda _: self._forget(request.id, task))

    def _forget(self, id: RequestId, task: asyncio.Task[None]) -> None:
        if self._asking.get(id) is task:
            del self._asking[id]

    def cancel(self, id: object) -> bool:
        """Close the response to a request; False where it is none of these."""
        task = self._asking.get(id) if isinstance(id, (str, int)) else None
        if task is not None:
            # [2026-07-28 basic/patterns/cancellation#transport-specific-cancellation] closing it is the cancellation
            task.cancel()
        return task is not None

    def leave(self) -> list[asyncio.Task[None]]:
        """Close all responses; gives those that are being closed."""
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        return tasks

    async def close(self) -> None:
        """Close all responses."""
        if tasks := self.leave():
            await asyncio.wait(tasks, timeout=5.0)

    async def _post(self, request: Request, frame: bytes, headers: Mapping[str, str], receive: Receive) -> None:
        # one that stays open has a connection of its own, however many are in use
        posting = self._http.request("POST", self._url, headers, frame, extra=request.method in STREAMED)
        if self._trace is not None:
            self._trace("->", frame)
        try:
            async with posting as response:
                why = await self._read(request, response, receive)
                if why is not None:
                    receive(Undelivered(request.id, f"{public_url(self._url)}: {why}", tells_the_era(response.status)))
        except (HttpError, EventTooLarge, ValueError) as error:
            receive(Undelivered(request.id, f"{public_url(self._url)}: {error}"))

    async def _read(self, request: Request, response: HttpResponse, receive: Receive) -> str | None:
        """Hand in what a response carries, until the answer has come; gives the reason where there is none."""
        # [2026-07-28 basic/transports/streamable-http#sending-messages] the client MUST support both
        kind = media_type(response.headers)
        if kind == SSE_TYPE and response.status < 300:
            if await self._follow(request, response, receive):
                return None
            return "the response ended without the answer"
        body = await response.read(MAX_ANSWER)
        message = self._decode(body) if body else None
        if isinstance(message, ErrorResponse):
            message = _answer_of(request, response.status, message)
        if message is not None and _is_answer(message, request.id):
            receive(message)
            return None
        if response.status >= 300:
            return refusal(response, body)
        return f"the answer is {kind or 'of no content type'}, and no message" if body else "the answer is empty"

    async def _follow(self, request: Request, response: HttpResponse, receive: Receive) -> bool:
        """Hand in the events of a response, until the answer has come; False where there is none."""
        parser = EventParser(MAX_ANSWER)
        async for piece in response:
            for event in parser.feed(piece):
                if event.data and event.event == "message":
                    message = self._decode(event.data.encode())
                    if isinstance(message, ErrorResponse):
                        message = _answer_of(request, response.status, message) or message
                    receive(message)
                    if _is_answer(message, request.id):
                        return True
        return False

    def _decode(self, frame: bytes) -> Incoming:
        if self._trace is not None:
            self._trace("<-", frame)
        return decode(frame)


def _is_answer(message: Incoming, id: RequestId) -> bool:
    return isinstance(message, (Response, ErrorResponse, Malformed)) and message.id == id


def tells_the_era(status: int) -> bool:
    """Whether an answer that is no message shows that the server speaks something else than we do.

    [2026-07-28 basic/versioning#compatibility-matrix] a 4xx without a modern error: perhaps of the earlier era. Not one
    that anybody in between may give, nor a server that is out of order.
    """
    return status < 300 or (400 <= status < 500 and status not in _NOT_THE_ERA)


def _answer_of(request: Request, status: int, error: ErrorResponse) -> ErrorResponse | None:
    """An error as the answer to the request of its response; None where it is another's, or says nothing of the era
    to one who asks for that."""
    if error.id is not None and error.id != request.id:
        return None
    refused = status >= 300 and not tells_the_era(status) and error.error.code not in MODERN_ERRORS
    if request.method == "server/discover" and refused:
        return None
    return ErrorResponse(request.id, error.error)  # also one without an id: there is no other request here


def refusal(response: HttpResponse, body: bytes) -> str:
    """What an HTTP error says, in the server's own words where it has any."""
    text, words = f"the server answered HTTP {response.status}", ""
    found = decode(body) if body else None
    if isinstance(found, ErrorResponse):
        words = found.error.message
    elif media_type(response.headers) in (JSON_TYPE, "text/plain"):  # not a page of HTML
        words = body[: 4 * MAX_WORDS].decode("utf-8", "replace")
    words = " ".join(words.split())[:MAX_WORDS]
    return f"{text}: {words}" if words else text
