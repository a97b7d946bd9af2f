"""Streamable HTTP of the modern era, on the client: each request is one POST, which needs no session.

    request -> POST, with headers that mirror the body -> JSON: the response
                                                        | events: notifications, then the response
    notifications/cancelled -> the client closes the HTTP response, and sends no message

If the connection breaks, a client that repeats the request MUST give it a new id [2026-07-28 changelog#major-changes].

Spec:  2026-07-28 basic/transports/streamable-http
Used by: client.py, which knows the legacy era too
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Final
from urllib.parse import urljoin

from ...basic.headers import ParameterHeaders, request_headers
from ...basic.versioning import MODERN_ERROR_CODES
from ...jsonrpc.errors import McpError
from ...jsonrpc.large_messages import decode_large, responds_to, waits_only_for
from ...jsonrpc.messages import ErrorResponse, Incoming, Request, RequestFailure, Response, decode, encode
from ...jsonrpc.outline import MAX_UNREQUESTED, same_id
from ...lib.http.client import HttpSender
from ...lib.http.origin import public_url
from ...lib.http.response import HttpError, HttpResponse, is_unsent
from ...lib.http.sse import EventParser, EventTooLarge
from ..base import Receive, Trace
from .checks import JSON_TYPE, SSE_TYPE, STREAMED_METHODS

MAX_RESPONSE: Final = 64 * 1024 * 1024
"""Maximum size of a JSON response or of one event, in bytes (64 MiB)."""
MAX_DETAIL: Final = 200
"""Maximum length of a quoted HTTP error body, in characters."""
CLOSE_SECONDS: Final = 5.0
"""Time that cancelled requests have to close their connections, in seconds."""
NOT_AN_ENDPOINT: Final = "is there an MCP server at this URL? Its path is often /mcp"
"""The end of an error message about a response that a web server without MCP may have sent."""
_CALLER_ERRORS: Final = frozenset({401, 403, 407, 408, 429})
"""The HTTP errors that depend on the caller, and so do not show which revisions the server supports."""


class StatelessRequests:
    """The sender of stateless requests, with the arguments of `StreamableHttpClientTransport`."""

    def __init__(
        self, url: str, headers: Mapping[str, str], http: HttpSender, trace: Trace | None, parameters: ParameterHeaders
    ) -> None:
        self._url, self._http = url, http
        # [2026-07-28 basic/transports/streamable-http#sending-messages] the client MUST list both types in Accept
        self.headers = {**headers, "Content-Type": JSON_TYPE, "Accept": f"{JSON_TYPE}, {SSE_TYPE}"}
        self._trace, self._parameters = trace, parameters
        self.readable = asyncio.Event()  # set unless reading is paused
        self.readable.set()

    def round_trip(self, request: Request, receive: Receive) -> Coroutine[object, object, None]:
        """Return a coroutine that POSTs a request and delivers its messages. Raises the exceptions of `encode`."""
        # [2026-07-28 basic/patterns/cancellation#transport-specific-cancellation] closing the response cancels
        frame = encode(request)
        return self._post(request, frame, {**self.headers, **request_headers(request, self._parameters)}, receive)

    async def _post(self, request: Request, frame: bytes, headers: Mapping[str, str], receive: Receive) -> None:
        # A stream that stays open gets an extra connection, because such streams would use up the connection pool.
        posting = self._http.request("POST", self._url, headers, frame, extra=request.method in STREAMED_METHODS)
        if self._trace is not None:
            self._trace("->", frame)
        try:
            async with posting as response:
                if (fault := await self._read(request, response, receive)) is not None:
                    why, status = f"{public_url(self._url)}: {fault}", response.status
                    receive(RequestFailure(request.id, why, suggests_legacy_era(status), http_status=status))
        except (HttpError, EventTooLarge, ValueError) as error:
            receive(RequestFailure(request.id, f"{public_url(self._url)}: {error}", unsent=is_unsent(error)))
        except McpError as error:  # the authorization failed
            receive(RequestFailure(request.id, str(error), error=error))

    async def _read(self, request: Request, response: HttpResponse, receive: Receive) -> str | None:
        """Deliver the messages of an HTTP response. If the JSON-RPC response is missing, return the reason."""
        # [2026-07-28 basic/transports/streamable-http#sending-messages] the client MUST support both types
        kind = response.headers.media_type
        if kind == SSE_TYPE and response.status < 300:
            return await self._read_events(request, response, receive)
        body = await response.read(MAX_RESPONSE if response.status < 300 else MAX_UNREQUESTED)
        if body and self._trace is not None:
            self._trace("<-", body)
        is_large = len(body) > MAX_UNREQUESTED
        message: Incoming | None = decode_large(body, waits_only_for(request.id)) if is_large else decode(body)
        if isinstance(message, ErrorResponse):
            message = _error_for(request, response.status, message)
        is_response = type(message) is Response and message.id == request.id  # as usual; `responds_to` is slower
        if message is not None and (is_response or responds_to(message, request.id)):
            receive(message)
            return None
        if response.status >= 300:
            return http_error_text(response, body)
        return f"the body of type {kind or '(none)'} is not the JSON-RPC response" if body else "the response is empty"

    async def _read_events(self, request: Request, response: HttpResponse, receive: Receive) -> str | None:
        """Deliver the messages of an event stream, and return as `_read` does."""
        parser, waits_for = EventParser(MAX_RESPONSE), waits_only_for(request.id)
        async for piece in response:
            for event in parser.feed(piece):
                frame = event.data
                if frame and event.event == "message":
                    if self._trace is not None:
                        self._trace("<-", frame)
                    message = decode(frame) if len(frame) <= MAX_UNREQUESTED else decode_large(frame, waits_for)
                    if isinstance(message, ErrorResponse):  # one with another id stays as it is
                        message = _error_for(request, response.status, message) or message
                    receive(message)
                    if (type(message) is Response and message.id == request.id) or responds_to(message, request.id):
                        return None
                    await self.readable.wait()
        fault = "the event stream ended without the JSON-RPC response"
        if request.method != "server/discover":  # so the server is known to be modern, and only the response was lost
            raise HttpError(fault)
        return fault


def suggests_legacy_era(status: int) -> bool:
    """Return True if an HTTP response with this status but without JSON-RPC suggests a server of the legacy era."""
    # [2026-07-28 basic/versioning#compatibility-matrix] a legacy server sends 4xx without a modern error. But
    # `_CALLER_ERRORS` may come from a proxy, and a 5xx status means only that the server has a fault.
    return status < 300 or (400 <= status < 500 and status not in _CALLER_ERRORS)


def _error_for(request: Request, status: int, error: ErrorResponse) -> ErrorResponse | None:
    """Return the error with the request's id, or None if it has another id, or tells a probe nothing about the era."""
    if error.id is not None and not same_id(error.id, request.id):
        return None
    is_conclusive = suggests_legacy_era(status) or error.error.code in MODERN_ERROR_CODES
    if request.method == "server/discover" and not is_conclusive:
        return None
    return ErrorResponse(request.id, error.error)  # even without an id, it belongs to the only request of the POST


def error_in(body: bytes) -> ErrorResponse | None:
    message = decode(body)
    return message if isinstance(message, ErrorResponse) else None


def http_error_text(response: HttpResponse, body: bytes) -> str:
    """Return a description of an HTTP error, with the error message that its body may have."""
    text, detail = f"the server answered HTTP {response.status}", ""
    found = error_in(body)
    if found is not None:
        detail = found.error.message
    elif response.headers.media_type in (JSON_TYPE, "text/plain", ""):  # do not quote an HTML page
        detail = body[: 4 * MAX_DETAIL].decode("utf-8", "replace")  # a character has at most 4 bytes
    detail = " ".join(detail.split())[:MAX_DETAIL]
    text += f": {detail}" if detail else ""
    if response.status < 400 and (location := response.headers.get("location")):
        target = public_url(urljoin(response.url, location))
        text += f"; if you trust the URL to which it redirects, use that one: {target!r:.200}"
    return f"{text}; {NOT_AN_ENDPOINT}" if found is None and response.status in (404, 405, 501) else text
