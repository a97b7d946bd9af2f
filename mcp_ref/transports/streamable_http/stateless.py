"""Streamable HTTP of the modern era, on the server: each POST is one request, which needs no session.

Any process behind a load balancer can serve it. The headers of a request repeat parts of its body (basic/headers.py).
The status of the response is 200 even if the method fails, but 404 for an unknown method, and 400 for the errors that
are new in the modern era (basic/versioning.py). If the client closes the response, the server MUST cancel the request.

Spec:  2026-07-28 basic/transports/streamable-http
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

from ...basic.access import Access
from ...basic.headers import ArgumentPath, check_headers, check_parameters, mirrored_fields
from ...basic.versioning import MODERN_ERROR_CODES, MalformedRequest, is_stateless, unsupported_revision
from ...jsonrpc.errors import ProtocolError
from ...jsonrpc.failures import error_response, interrupted_response, writable_response
from ...jsonrpc.messages import METHOD_NOT_FOUND, ErrorResponse, Notification, Object, Request, Response, encode
from ...lib.http.message import Exchange, Headers, StreamingResponse
from ...lib.http.sse import encode_comment, encode_event
from ...lib.shares import ShareExceeded, Shares
from ...lib.turns import note_size, turn_for
from ...revisions import find_revision
from ..base import Drain, HeldResponse, Hold, Notify, Trace
from .checks import JSON_HEADERS, SSE_HEADERS, CheckedRequest, HttpRefusal
from .posted_session import RETRY_LATER

ServeStateless = Callable[[Request, Notify, Drain, str | None, Hold], Coroutine[object, object, Object]]
"""A function that serves one stateless request: `server.stateless.serve_request`."""
FindParameters = Callable[[str], dict[str, ArgumentPath]]
"""A function that takes a tool's name, and returns the headers that mirror the tool's arguments."""


def status_of(response: Response | ErrorResponse) -> int:
    code = response.error.code if isinstance(response, ErrorResponse) else 0
    if code == METHOD_NOT_FOUND:
        return 404  # [2026-07-28 basic/transports/streamable-http#protocol-version-header] the status MUST be 404
    return 400 if code in MODERN_ERROR_CODES else 200


def check_request(request: Request, checked: CheckedRequest, headers: Headers, parameters: FindParameters) -> None:
    """Raise ProtocolError if a request has no valid `_meta`, or if its headers differ from its body."""
    if request.method == "initialize" and not is_stateless(request.params):
        return  # a legacy client, which does not send these headers
    try:
        mirrored = mirrored_fields(request)
    except MalformedRequest:  # from a legacy client, which has to learn our revisions, or from a modern one
        named, supported = checked.revision, checked.checks.revisions
        if named is not None and find_revision(named) not in supported and not is_stateless(request.params):
            # [2026-07-28 basic/transports/streamable-http#protocol-version-header] the error MUST list our versions
            raise unsupported_revision(named, supported) from None
        raise
    if request.method == "initialize":
        return  # a modern revision has no such method, so no headers have to match
    if checked.compared_fields != mirrored:  # otherwise an earlier request has passed the same comparison
        check_headers(headers, mirrored)
        checked.compared_fields = mirrored
    _, method, name = mirrored
    if method == "tools/call" and name is not None and (paths := parameters(name)):
        check_parameters(headers, request.params.get("arguments"), paths)


class InFlight(dict["StatelessExchange", str]):
    """The stateless requests in flight: exchange -> caller, whose share of memory (lib/shares.py) the request uses."""

    def __init__(self, limit: int, limit_per_caller: int, shares: Shares) -> None:
        self._limit, self._limit_per_caller, self._shares = limit, limit_per_caller, shares
        self._counts: dict[str, int] = {}  # by caller

    def add(self, exchange: StatelessExchange, caller: str) -> None:
        """Add an exchange. Raise HttpRefusal if the caller's places, or all places, are taken."""
        count = self._counts.get(caller, 0)
        if count >= self._limit_per_caller:
            why = f"your {self._limit_per_caller} requests are still in flight"
            raise HttpRefusal(503, f"{why}; try again later", RETRY_LATER)
        if len(self) >= self._limit:
            raise HttpRefusal(503, f"the server already serves {self._limit} requests; try again later", RETRY_LATER)
        try:
            self._shares.take(caller, exchange.memory)
        except ShareExceeded as error:
            raise HttpRefusal(503, f"{error}; try again later", RETRY_LATER) from None
        self[exchange] = caller
        self._counts[caller] = count + 1

    def remove(self, exchange: StatelessExchange) -> None:
        caller = self.pop(exchange)
        self._shares.give_back(caller, exchange.memory)
        self._counts[caller] -= 1
        if not self._counts[caller]:
            del self._counts[caller]


class StatelessExchange:
    """One stateless request and its response: JSON, or events if notifications come first or the client takes no JSON.

        served --result--> JSON response
           | `notify`
           v
        the event stream opens --> notifications ... --result--> the last event
           | result after `hold`                                    ^
           v                                                        | `release`
        the stream stays open without a task --> notifications -----+

    In each state the client can disconnect, which cancels the request.
    """

    def __init__(
        self, exchange: Exchange, request: Request, checked: CheckedRequest, trace: Trace | None, accepts_sse: bool,
        in_flight: InFlight,
    ) -> None:  # fmt: skip
        self._exchange, self._request, self._cors, self._trace = exchange, request, checked.cors, trace
        self._accepts_json, self._accepts_sse, self._in_flight = checked.accepts_json, accepts_sse, in_flight
        self.memory = request.memory
        self._response: StreamingResponse | None = None
        self.task: asyncio.Task[object] | None = None  # runs this exchange, while the request is served
        self._client_left = False  # True if the disconnection has cancelled the task
        self._stream_has_ended = False
        self._on_end: Callable[[], object] | None = None  # not None while the response is held back
        self._held_response = b""  # the response, from the end of `serve` until `release`

    async def serve(self, serve_request: ServeStateless, access: Access) -> None:
        """Serve the request and respond, or hold back the response. Cancel the request if the client disconnects.

        Raise HttpRefusal if too many requests are in flight, and AccessRefused for missing scopes if nothing was sent.
        """
        self._in_flight.add(self, access.caller)
        self._exchange.forget_body()  # the message counts in the caller's share now
        task = self.task = asyncio.current_task()
        assert task is not None
        self._exchange.on_disconnect(self._cancel)
        response: Response | ErrorResponse | None = None
        try:
            result = await serve_request(self._request, self.notify, self.drain, access.id, self.hold)
            if (turn := turn_for(result)) is not None:
                await turn  # large results take turns with other work (lib/turns.py)
            response = Response(self._request.id, result)
        except BaseException as error:  # SystemExit too: a handler must not end the server
            response = error_response(self._request, error, task.cancelling() > 0)
            if response is None:  # the client has left, the server stops, or the handler has cancelled its own task
                response = interrupted_response(self._request)
        finally:
            self.task = None
            if self._client_left:
                task.uncancel()  # the cancellation was ours, and has done its work
                response = None  # which nobody would read
            stream_is_open = self._response is not None and not self._stream_has_ended
            is_held = self._on_end is not None and stream_is_open and response is not None
            if not is_held:  # otherwise the request ends with the stream, in `_stream_ended`
                self._end_request()
        if response is None:
            return
        if access.refusal is not None and self._response is None:
            raise access.refusal
        if not is_held:
            return self._respond(response, status_of(response))
        self._held_response = self._encode(response)
        del self._exchange, self._request, self._cors  # to save memory, because the stream may last for hours

    def hold(self, on_end: Callable[[], object]) -> HeldResponse:
        """Hold back the response until `release`, so no task has to wait. Call `on_end` if the client leaves first."""
        self._on_end = on_end
        return self

    def release(self) -> None:
        """Send the response that is held back, as soon as it is ready."""
        self._on_end = None
        if self._response is not None and self._held_response:
            self._send_last(self._response, self._held_response)

    def _end_request(self) -> None:
        self._in_flight.remove(self)
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end()

    def refuse(self, error: ProtocolError) -> None:
        response = ErrorResponse(self._request.id, error.to_error())
        self._respond(response, 400 if isinstance(error, MalformedRequest) else status_of(response))

    def _cancel(self) -> None:
        # [2026-07-28 basic/transports/streamable-http#cancellation] a disconnection MUST cancel the request
        if self.task is not None and not self._client_left:
            self._client_left = True
            self.task.cancel()

    def _stream_ended(self, response: StreamingResponse) -> None:
        self._stream_has_ended = True
        self._cancel()
        if self._held_response:  # otherwise `serve` still runs, and ends the request
            self._end_request()

    def _open(self) -> StreamingResponse:
        if self._response is None:
            self._response = self._exchange.stream(200, [*SSE_HEADERS, *self._cors])
            self._response.keep_open(self._stream_ended)
        return self._response

    def _respond(self, response: Response | ErrorResponse, status: int) -> None:
        frame = self._encode(response)
        if self._response is None and (self._accepts_json or status != 200):
            self._trace_sent(frame)
            self._exchange.respond(status, [*JSON_HEADERS, *self._cors], frame)
        else:
            self._send_last(self._open(), frame)

    def _encode(self, response: Response | ErrorResponse) -> bytes:
        try:
            frame = encode(response)
        except (ValueError, TypeError, RecursionError):
            frame = encode(writable_response(response))
        note_size(len(frame))
        return frame

    def _trace_sent(self, frame: bytes) -> None:
        if self._trace is not None:
            self._trace("->", frame)

    def _send_last(self, response: StreamingResponse, frame: bytes) -> None:
        self._trace_sent(frame)
        response.write(encode_event(frame))
        response.close()

    def notify(self, method: str, params: Object) -> None:
        """Send a notification. Drop it if the client has disconnected or the response must be JSON."""
        if self._client_left or not self._accepts_sse:
            return
        frame = encode(Notification(method, params))
        self._trace_sent(frame)
        self._open().write(encode_event(frame))

    @property
    def has_room(self) -> bool:
        return self._response is not None and self._response.has_room

    async def drain(self) -> None:
        if self._response is not None and not self._response.has_room:
            await self._response.drain()

    def keep_alive(self) -> None:
        if self._response is not None:
            self._response.write(encode_comment())
