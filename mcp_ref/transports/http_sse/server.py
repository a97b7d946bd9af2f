"""HTTP+SSE, the transport of 2024-11-05: a stream that the client opens, and a URL to which it POSTs.

    GET /sse        -> event: endpoint   data: /messages?session=...     where to POST
                       event: message    data: a message, as JSON        each message of the server
    POST /messages?session=...           a message of the client; 202, its answer comes on the stream

Deprecated since 2025-03-26, but servers and clients that know nothing else are still about. The session is the stream:
when that breaks, it is over.

Spec:  2024-11-05 basic/transports#http-with-sse; 2025-11-25 basic/transports#backwards-compatibility
Above: runtime/web.py. Below: http_gate.py, mcp_ref/http. Elsewhere: the client's side (http_sse_client.py)
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Collection
from urllib.parse import parse_qs

from ...jsonrpc.errors import ConnectionClosed
from ...jsonrpc.messages import Incoming, Outgoing, RequestId, decode, encode
from ...lib.http.message import Exchange, StreamingResponse
from ...lib.http.sse import encode_comment, encode_event
from ..base import FlowControl, Lost, Receive, Trace, Transport
from ..streamable_http.checks import (
    JSON_HEADERS,
    SSE_HEADERS,
    Authenticate,
    CheckedRequest,
    HttpRefusal,
    RequestChecks,
    principal_of,
)
from ..streamable_http.server import Serve
from ..streamable_http.session import EndpointLimits
from ..trace import watched_exchange

log = logging.getLogger(__name__)


class SseSession(Transport):
    """One client's stream, as the transport of its connection."""

    def __init__(self, carrier: StreamingResponse, principal: str | None, trace: Trace | None) -> None:
        self.principal = principal
        self._carrier = carrier
        self._trace = trace
        self._receive: Receive | None = None
        self._reading = FlowControl()
        self._reading.shut()  # until `start`
        self._lost: Lost | None = None
        self._left = False

    async def start(self, receive: Receive, lost: Lost) -> None:
        """Deliver what comes."""
        self._receive, self._lost = receive, lost
        self._reading.open()
        if self._left:
            self.leave()

    async def receive(self, message: Incoming, frame: bytes) -> None:
        """Hand in what came, when there is room for it."""
        if self._trace is not None:
            self._trace("<-", frame)
        while not self._reading.is_open:
            await self._reading.wait()
        if self._receive is not None:
            self._receive(message)

    def send(self, message: Outgoing, related: RequestId | None = None) -> None:
        """Put a message on the stream; dropped when the client has left."""
        frame = encode(message)
        if self._trace is not None:
            self._trace("->", frame)
        # [2024-11-05 basic/transports#http-with-sse] server messages are sent as SSE `message` events
        self._carrier.write(encode_event(frame, event="message"))

    async def drain(self, related: RequestId | None = None) -> None:
        """Wait until the client has read enough."""
        await self._carrier.drain()

    def pause_reading(self) -> None:
        """Let no further message in."""
        self._reading.shut()

    def resume_reading(self) -> None:
        """Let messages in again."""
        self._reading.open()

    def keep_alive(self) -> None:
        """Show that we are there."""
        self._carrier.write(encode_comment())

    def leave(self) -> None:
        """The client has left, or is taken to have: the conversation comes to its end."""
        self._left = True
        if self._lost is not None:
            lost, self._lost = self._lost, None
            lost(None)

    async def close(self) -> None:
        """End the stream."""
        self._receive = None
        self._reading.open()
        self._carrier.close()
        if self._lost is not None:
            lost, self._lost = self._lost, None
            lost(ConnectionClosed("the session has ended"))


class SseEndpoint:
    """Both endpoints of the older transport."""

    def __init__(
        self,
        serve: Serve,
        stream_path: str = "/sse",
        post_path: str = "/messages",
        *,
        hosts: Collection[str] | None = None,
        origins: Collection[str] | None = None,
        limits: EndpointLimits | None = None,
        authenticate: Authenticate | None = None,
        trace: Trace | None = None,
    ) -> None:
        self.sessions: dict[str, SseSession] = {}
        self.paths = (stream_path, post_path)
        self._checks = {
            stream_path: RequestChecks(hosts, origins, ("GET",)),
            post_path: RequestChecks(hosts, origins, ("POST",)),
        }
        self._serve = serve
        self._post_path = post_path
        self._limits = limits or EndpointLimits()
        self._authenticate = authenticate
        self._trace = trace
        self._tasks: set[asyncio.Task[None]] = set()
        self._keeper: asyncio.Task[None] | None = None
        self._closing = False

    async def handle(self, exchange: Exchange) -> None:
        """Answer one HTTP request to either path."""
        exchange = watched_exchange(exchange, self._trace)
        request = exchange.request
        checks = self._checks[request.path]
        checked = None
        try:
            # [2025-11-25 basic/transports#security-warning] the same check on every way in
            checked = checks.check(request)
            if request.method == "OPTIONS":
                return await exchange.respond(204, checks.preflight(exchange.request, checked), b"")
            principal = await principal_of(request, self._authenticate)
            if checked.fault is not None:
                raise checked.fault.again()
            if request.method == "GET":
                await self._stream(exchange, checked, principal)
            else:
                await self._post(exchange, checked, principal)
        except HttpRefusal as refused:
            cors = checked.cors if checked is not None else []
            await exchange.respond(refused.status, [*JSON_HEADERS, *refused.headers, *cors], refused.body())

    async def _stream(self, exchange: Exchange, checked: CheckedRequest, principal: str | None) -> None:
        """A conversation, from the first event to the last."""
        if self._closing or len(self.sessions) >= self._limits.sessions:
            raise HttpRefusal(503, "no session can begin now; try again later", [("Retry-After", "5")])
        carrier = await exchange.stream(200, [*SSE_HEADERS, *checked.cors])
        id = secrets.token_urlsafe(24)
        session = self.sessions[id] = SseSession(carrier, principal, self._trace)
        # [2024-11-05 basic/transports#http-with-sse] MUST send an `endpoint` event: a URI for the client's messages
        endpoint = f"{exchange.request.root}{self._post_path}?session={id}"
        carrier.write(encode_event(endpoint.encode(), event="endpoint"))
        task = asyncio.create_task(self._serve(session))
        self._tasks.add(task)
        self._keep()
        try:
            await asyncio.wait([task, carrier.gone], return_when=asyncio.FIRST_COMPLETED)
        finally:
            del self.sessions[id]
            session.leave()
            await asyncio.wait([task])
            self._tasks.discard(task)
            if not task.cancelled() and task.exception() is not None:
                log.error("a session failed", exc_info=task.exception())

    async def _post(self, exchange: Exchange, checked: CheckedRequest, principal: str | None) -> None:
        """One message of the client."""
        try:
            names = parse_qs(exchange.request.query, max_num_fields=10).get("session", [])
        except ValueError:
            names = []  # more fields than that
        session = self.sessions.get(names[0]) if len(names) == 1 else None
        if session is None or session.principal != principal:
            raise HttpRefusal(
                404, "there is no such session: GET the stream first, and POST to the endpoint that it names"
            )
        # What is no message gets its error where all answers are: on the stream.
        await session.receive(decode(exchange.request.body), exchange.request.body)
        await exchange.respond(202, checked.cors, b"")

    def _keep(self) -> None:
        if self._keeper is None or self._keeper.done():
            self._keeper = asyncio.create_task(self._keep_alive())

    async def _keep_alive(self) -> None:
        while self.sessions:
            await asyncio.sleep(self._limits.keep_alive)
            for session in self.sessions.values():
                session.keep_alive()

    async def close(self) -> None:
        """End all conversations."""
        self._closing = True
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])
        for session in tuple(self.sessions.values()):
            session.leave()
        if self._tasks:
            await asyncio.wait(self._tasks)
