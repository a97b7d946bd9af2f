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
from collections.abc import Callable, Coroutine
from typing import Final

from ...http.message import Exchange, HeaderList
from ...http.message import Stream as Carrier
from ...http.sse import encode_comment, encode_event
from ...jsonrpc.errors import ProtocolError
from ...jsonrpc.messages import (
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    Error,
    ErrorResponse,
    Notification,
    Object,
    Request,
    Response,
    encode,
)
from ..versioning import (
    HEADER_MISMATCH,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    UNSUPPORTED_PROTOCOL_VERSION,
    MalformedRequest,
)
from . import Drain, Tell, Trace
from .http_gate import JSON_HEADERS, SSE_HEADERS

log = logging.getLogger(__name__)

_BAD_REQUEST: Final = (HEADER_MISMATCH, MISSING_REQUIRED_CLIENT_CAPABILITY, UNSUPPORTED_PROTOCOL_VERSION)


def status_of(error: ProtocolError) -> int:
    """The HTTP status of an error that is the whole response."""
    if error.code == METHOD_NOT_FOUND:
        return 404  # [2026-07-28 basic/transports/streamable-http#protocol-version-header] MUST be 404
    return 400 if error.code in _BAD_REQUEST or isinstance(error, MalformedRequest) else 200


# ---------------------------------------------------------------------------------------------------- one request

Answer = Callable[[Tell, Drain], Coroutine[object, object, Object]]
"""Serves a request, given ways to send notifications and to wait until the client takes them; gives its result."""


class Post:
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
        self._carrier: Carrier | None = None
        self._waiting: list[bytes] = []
        self._serving: asyncio.Task[tuple[int, bytes]] | None = None
        self._beginning: asyncio.Task[None] | None = None

    async def serve(self, answer: Answer) -> None:
        """Serve it. The client's leaving is its cancellation."""
        self._serving = asyncio.get_running_loop().create_task(self._answer(answer))
        gone = self._exchange.gone()
        gone.add_done_callback(self._leave)
        try:
            status, frame = await self._serving
        except asyncio.CancelledError:
            if not gone.done() and (self._carrier is None or not self._carrier.gone.done()):
                raise  # not the client has left: the server stops
        else:
            await self._respond(status, frame)
        finally:
            gone.remove_done_callback(self._leave)
            if self._beginning is not None:
                await asyncio.wait([self._beginning])

    def _leave(self, _: object) -> None:
        # [2026-07-28 basic/transports/streamable-http#cancellation] MUST be treated as cancellation
        if self._serving is not None:
            self._serving.cancel()

    async def _begin(self) -> None:
        """Begin a stream of events, with those that wait."""
        carrier = await self._exchange.stream(200, [*SSE_HEADERS, *self._headers])
        carrier.gone.add_done_callback(self._leave)
        for piece in self._waiting:
            carrier.write(piece)
        self._carrier = carrier

    async def _answer(self, answer: Answer) -> tuple[int, bytes]:
        """The status of the answer, and itself."""
        try:
            result = await answer(self._tell if self._takes_sse else _say_nothing, self._drain)
            return 200, encode(Response(self._request.id, result))
        except ProtocolError as error:
            return status_of(error), encode(ErrorResponse(self._request.id, error.to_error()))
        except asyncio.CancelledError:
            if self._serving is not None and self._serving.cancelling():
                raise
            return self._failed()  # a handler that raises it by itself has failed like any other
        except BaseException:  # SystemExit and KeyboardInterrupt out of a handler must not end the server
            return self._failed()

    def _failed(self) -> tuple[int, bytes]:
        # The traceback is for the operator; the client learns nothing about our insides.
        log.exception("the handler of %s failed", self._request.method)
        return 200, encode(ErrorResponse(self._request.id, Error(INTERNAL_ERROR, "Internal error")))

    async def _respond(self, status: int, frame: bytes) -> None:
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

    def _tell(self, method: str, params: Object) -> None:
        frame = encode(Notification(method, params))
        if self._trace is not None:
            self._trace("->", frame)
        piece = encode_event(frame)
        if self._carrier is not None:
            return self._carrier.write(piece)
        self._waiting.append(piece)
        if self._beginning is None:
            self._beginning = asyncio.get_running_loop().create_task(self._begin())

    async def _drain(self) -> None:
        if self._beginning is not None and self._carrier is None:
            await asyncio.wait([self._beginning])
        if self._carrier is not None:
            await self._carrier.drain()

    def keep_alive(self) -> None:
        """Show that we are there."""
        if self._carrier is not None:
            self._carrier.write(encode_comment())


def _say_nothing(method: str, params: Object) -> None:
    """For a client that takes JSON alone."""
