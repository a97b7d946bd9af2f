"""Streamable HTTP of the stateless era: a POST is a request, its response is the answer, and that is all.

No sessions, no GET, nothing to take up again. A client that closes the connection cancels its request. What a proxy may
want to know of the body stands in headers too, and must be the same there:

    MCP-Protocol-Version: 2026-07-28        _meta."io.modelcontextprotocol/protocolVersion"
    Mcp-Method: tools/call                  method
    Mcp-Name: execute_sql                   params.name, or params.uri of resources/read
    Mcp-Param-Region: us-west1              an argument that the tool's schema marks with x-mcp-header

Spec:  2026-07-28 basic/transports/streamable-http
Above: streamable_http.py, which tells the eras apart. Below: mcp_ref/http
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Final

from ...basic.headers import ParameterHeaders, check_headers, check_parameters, mirrored_fields
from ...basic.versioning import (
    HEADER_MISMATCH,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    UNSUPPORTED_PROTOCOL_VERSION,
    MalformedRequest,
    is_stateless,
    read_required_meta,
)
from ...jsonrpc.dispatcher import respond, writable
from ...jsonrpc.errors import ProtocolError
from ...jsonrpc.messages import (
    METHOD_NOT_FOUND,
    ErrorResponse,
    Notification,
    Object,
    Request,
    Response,
    encode,
)
from ...lib.http.message import Exchange, HeaderList, Headers, StreamingResponse
from ...lib.http.sse import encode_comment, encode_event
from ..base import Trace
from .checks import JSON_HEADERS, SSE_HEADERS, CheckedRequest

log = logging.getLogger(__name__)

_BAD_REQUEST: Final = (HEADER_MISMATCH, MISSING_REQUIRED_CLIENT_CAPABILITY, UNSUPPORTED_PROTOCOL_VERSION)


def status_of(response: Response | ErrorResponse) -> int:
    """Return the HTTP status of a response that is the whole body."""
    code = response.error.code if isinstance(response, ErrorResponse) else 0
    if code == METHOD_NOT_FOUND:
        return 404  # [2026-07-28 basic/transports/streamable-http#protocol-version-header] MUST be 404
    return 400 if code in _BAD_REQUEST else 200


def check_request(request: Request, checked: CheckedRequest, headers: Headers, parameters: ParameterHeaders) -> None:
    """Hold a request to what it must carry, and its headers to what it says. Raises ProtocolError."""
    if request.method == "initialize" and not is_stateless(request.params):
        return  # a client of the legacy era does not know these headers
    read_required_meta(request.params)  # first: who does not know of them is not to be told of headers
    if request.method == "initialize":
        return  # no method of this era
    said = mirrored_fields(request)
    if checked.repeats != said:  # else the same head has repeated the same before
        check_headers(headers, said)
        checked.repeats = said
    name = request.params.get("name")
    if request.method == "tools/call" and isinstance(name, str):
        check_parameters(headers, request.params.get("arguments"), parameters(name))


class StatelessExchange:
    """One request and its response: JSON, or events if there is something to say before the answer."""

    def __init__(
        self,
        exchange: Exchange,
        request: Request,
        headers: HeaderList,
        trace: Trace | None,
        takes_json: bool,
        takes_sse: bool,
    ) -> None:
        self._exchange = exchange
        self._request = request
        self._headers = headers
        self._trace = trace
        self._takes_json, self._takes_sse = takes_json, takes_sse
        self._carrier: StreamingResponse | None = None
        self._waiting: list[bytes] = []
        self._serving: asyncio.Task[object] | None = None  # the task that we run in, while the handler is at work
        self._left = False
        self._cancelling = 0  # cancellations that are not the server's end: of the client's leaving, or old ones
        self._beginning: asyncio.Task[None] | None = None

    async def serve(self, answer: Coroutine[object, object, Object]) -> None:
        """Answer with what a coroutine gives, or raises. The client's leaving is its cancellation."""
        task = self._serving = asyncio.current_task()
        assert task is not None
        self._cancelling = task.cancelling()
        gone = self._exchange.gone()
        gone.add_done_callback(self._leave)
        response: Response | ErrorResponse | None = None
        try:
            response = await respond(self._request, answer)
        except asyncio.CancelledError:
            if task.cancelling() > self._cancelling:
                raise  # the server stops
        finally:
            self._serving = None
            gone.remove_done_callback(self._leave)
            if self._left:
                task.uncancel()
            if self._beginning is not None:
                await asyncio.wait([self._beginning])
        if response is not None and not self._left:
            await self._respond(response, status_of(response))

    async def refuse(self, error: ProtocolError) -> None:
        """Respond with an error, without serving the request."""
        response = ErrorResponse(self._request.id, error.to_error())
        await self._respond(response, 400 if isinstance(error, MalformedRequest) else status_of(response))

    def _leave(self, _: object) -> None:
        # [2026-07-28 basic/transports/streamable-http#cancellation] MUST be treated as cancellation
        if self._serving is not None and not self._left:
            self._left = True
            self._serving.cancel()
            self._cancelling = self._serving.cancelling()

    async def _begin(self) -> None:
        """Begin a stream of events, with those that wait."""
        carrier = await self._exchange.stream(200, [*SSE_HEADERS, *self._headers])
        carrier.gone.add_done_callback(self._leave)
        for piece in self._waiting:
            carrier.write(piece)
        self._carrier = carrier

    async def _respond(self, response: Response | ErrorResponse, status: int) -> None:
        try:
            frame = encode(response)
        except (ValueError, TypeError, RecursionError):
            frame = encode(writable(response))
        if self._trace is not None:
            self._trace("->", frame)
        if not self._waiting and (self._takes_json or status != 200):
            return await self._exchange.respond(status, [*JSON_HEADERS, *self._headers], frame)
        if self._beginning is None:
            await self._begin()
        else:
            await self._beginning
        if self._carrier is not None:
            self._carrier.write(encode_event(frame))
            self._carrier.close()

    def tell(self, method: str, params: Object) -> None:
        """Send a notification; to a client that has left, or takes JSON alone, nothing."""
        if self._left or not self._takes_sse:
            return
        frame = encode(Notification(method, params))
        if self._trace is not None:
            self._trace("->", frame)
        piece = encode_event(frame)
        if self._carrier is not None:
            return self._carrier.write(piece)
        self._waiting.append(piece)
        if self._beginning is None:
            self._beginning = asyncio.get_running_loop().create_task(self._begin())

    async def drain(self) -> None:
        """Wait until the client has taken enough of what was sent."""
        if self._beginning is not None and self._carrier is None:
            await asyncio.wait([self._beginning])
        if self._carrier is not None:
            await self._carrier.drain()

    def keep_alive(self) -> None:
        """Show that we are there."""
        if self._carrier is not None:
            self._carrier.write(encode_comment())
