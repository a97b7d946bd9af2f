"""HTTP+SSE on the server: a GET opens a stream, which lasts as long as the session. The client POSTs its messages.

    GET /sse                       event: endpoint    data: /messages?session=...    (the URL for POSTs)
                                   event: message     data: one message     (for each message of the server)
    POST /messages?session=...     202; the JSON-RPC response is an event of the stream

The session id in the URL is random, and the session belongs to one principal (the authenticated caller), so a request
of any other caller gets 404, even with the right id. The server MUST validate `Origin`, and makes all the checks of
Streamable HTTP, because a web page can attack both transports in the same way
[2024-11-05 basic/transports#security-warning].

Wire:  POST /messages?session=Zm9v   {"jsonrpc":"2.0","id":1,"method":"ping"}
       202
       event: message                {"jsonrpc":"2.0","id":1,"result":{}}
Spec:  2024-11-05 basic/transports#http-with-sse; 2025-11-25 basic/transports#backwards-compatibility
Used by: server/http.py. Uses: ../streamable_http/checks.py, ../streamable_http/posted_session.py
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import Counter
from collections.abc import Collection
from urllib.parse import parse_qs

from ...basic.access import Access, ScopeTable
from ...jsonrpc.messages import Outgoing, Request, RequestId, decode, encode
from ...lib.http.message import Exchange, Rest, StreamingResponse
from ...lib.http.sse import encode_comment, encode_event
from ...lib.shares import ShareExceeded, Shares, memory_of
from ...lib.turns import note_size
from ..base import Begin, Trace, finish
from ..streamable_http.checks import SSE_HEADERS, Authorize, CheckedRequest, HttpRefusal, RequestChecks
from ..streamable_http.posted_session import (
    RETRY_LATER,
    SESSION_COST,
    EndpointLimits,
    Heartbeat,
    SessionTransport,
    check_initialize,
)
from ..trace import traced_exchange

log = logging.getLogger(__name__)


class SseSession(SessionTransport):
    """The server's transport of one session. It sends messages on the stream, and receives messages by POST."""

    def __init__(self, response: StreamingResponse, access: Access, trace: Trace | None, in_flight: Shares) -> None:
        super().__init__(access, trace, in_flight)
        self._response = response
        self.size = 0
        """Memory of its `initialize` messages, in bytes."""
        self.ends_at = access.ends_at
        """Time when the newest access token expires and the stream closes, in seconds since 1970; None for no limit."""

    def seconds_left(self) -> float | None:
        """Return the time until the stream closes, in seconds; None for no limit."""
        return None if self.ends_at is None else max(0.0, self.ends_at - time.time())

    def send(self, message: Outgoing, related: RequestId | None = None) -> None:
        frame = encode(message)
        note_size(len(frame))
        if self._trace is not None:
            self._trace("->", frame)
        # [2024-11-05 basic/transports#http-with-sse] server messages are sent as SSE `message` events
        self._response.write(encode_event(frame, event="message"))

    async def drain(self, related: RequestId | None = None) -> None:
        await self._response.drain()

    def keep_alive(self) -> None:
        """Send a comment, so that proxies do not close a silent stream."""
        self._response.write(encode_comment())

    async def close(self) -> None:
        self._response.close()
        await super().close()


class SseEndpoint:
    """Both URLs of HTTP+SSE. For the parameters, see `RequestChecks` (hosts, origins) and `StreamableHttpEndpoint`."""

    def __init__(
        self,
        begin: Begin,
        stream_path: str,
        post_path: str,
        *,
        scopes: ScopeTable,
        hosts: Collection[str] | None = None,
        origins: Collection[str] | None = None,
        limits: EndpointLimits | None = None,
        authorize: Authorize | None = None,
        trace: Trace | None = None,
        id_prefix: str = "",
    ) -> None:
        self.sessions: dict[str, SseSession] = {}
        self.paths = (stream_path, post_path)
        methods = {stream_path: "GET", post_path: "POST"}
        self._checks = {path: RequestChecks(hosts, origins, (method,)) for path, method in methods.items()}
        self._begin, self._authorize, self._scopes, self._trace = begin, authorize, scopes, trace
        self._limits = limits or EndpointLimits()
        limits = self._limits
        self._in_flight = Shares("requests in flight", limits.request_bytes_per_caller, limits.request_bytes)
        self._memory = Shares("sessions", limits.session_bytes_per_caller, limits.session_bytes)
        self._callers: Counter[str] = Counter()  # number of sessions by caller
        self._tasks: set[asyncio.Task[None]] = set()
        self._heartbeat = Heartbeat(self._limits.keep_alive, self._keep_alive)
        self._closing, self._id_prefix = False, id_prefix
        self.is_draining = False
        """True if no session begins any more, because the server will stop soon."""

    def handle(self, exchange: Exchange) -> Rest:
        """Serve one HTTP request to either path."""
        exchange = traced_exchange(exchange, self._trace)
        # [2025-11-25 basic/transports#security-warning] the same checks on both paths
        return self._checks[exchange.request.path].guard(exchange, self._authorize, self._route)

    async def _route(self, exchange: Exchange, checked: CheckedRequest, access: Access) -> None:
        if checked.method == "POST":
            return await self._post(exchange, checked, access)
        access.require(())  # the scopes that every request needs
        limits, callers = self._limits, self._callers
        is_ending = self._closing or self.is_draining
        is_full = callers.total() >= limits.sessions or callers[access.caller] >= limits.sessions_per_caller
        if is_ending or is_full:
            raise HttpRefusal(503, "no session can begin now; try again later", RETRY_LATER)
        self._take(access.caller, SESSION_COST)
        callers[access.caller] += 1  # before the stream opens, because parallel requests must not exceed the limits
        try:
            await self._stream(exchange, checked, access)
        finally:
            self._memory.give_back(access.caller, SESSION_COST)
            callers[access.caller] -= 1
            if not callers[access.caller]:
                del callers[access.caller]

    async def _stream(self, exchange: Exchange, checked: CheckedRequest, access: Access) -> None:
        """Begin a session, and serve it until the session or its stream ends, or the last token expires."""
        response = exchange.stream(200, [*SSE_HEADERS, *checked.cors])
        id = self._id_prefix + secrets.token_urlsafe(24)
        session = self.sessions[id] = SseSession(response, access, self._trace, self._in_flight)
        # [2024-11-05 basic/transports#http-with-sse] the server MUST send an `endpoint` event with a URI for POSTs
        endpoint = f"{exchange.request.root}{self.paths[1]}?session={id}"
        response.write(encode_event(endpoint.encode(), event="endpoint"))
        task = asyncio.create_task(self._serve(session))
        self._tasks.add(task)
        self._heartbeat.start()
        try:
            ended: list[asyncio.Future[None]] = [task, response.ended]
            while not any(each.done() for each in ended):
                left = session.seconds_left()  # read after each wait, because a POST with a newer token extends it
                if left == 0:
                    break
                await asyncio.wait(ended, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        finally:
            del self.sessions[id]
            self._memory.give_back(session.caller, session.size)
            session.end()
            await asyncio.wait([task])
            self._tasks.discard(task)
            if not task.cancelled() and task.exception() is not None:
                log.error("a session failed and has ended", exc_info=task.exception())

    async def _serve(self, session: SseSession) -> None:
        served = await self._begin(session)
        await served.finish()

    async def _post(self, exchange: Exchange, checked: CheckedRequest, access: Access) -> None:
        body = exchange.request.body
        message = decode(body)
        if access.checks_every_message or self._scopes.needs_scopes:
            access.check_scopes(message, self._scopes)
        try:
            ids = parse_qs(exchange.request.query, max_num_fields=10).get("session", [])
        except ValueError:
            ids = []  # too many fields
        id = ids[0] if len(ids) == 1 else ""
        session = self.sessions.get(id)
        if session is None or session.principal != access.id:
            raise _unknown_session()
        access.session_id = id
        session.latest_access = access.to_keep(session.latest_access)
        if session.ends_at is not None and access.ends_at is not None:
            session.ends_at = max(session.ends_at, access.ends_at)
        if session.is_paused:
            del message  # during the wait, its objects would need much more memory than its text
            await session.wait_until_reading()
            if id not in self.sessions:
                raise _unknown_session()
            message = decode(body)
        if isinstance(message, Request) and message.method == "initialize":
            check_initialize(body, self._limits)
            size = memory_of(body)
            self._take(session.caller, size)
            session.size += size
        # Every response goes to the stream, even the error for an invalid message.
        session.receive(message, body)
        exchange.respond(202, checked.cors, b"")

    def _take(self, caller: str, size: int) -> None:
        """Count the memory of a session. Raise HttpRefusal if it exceeds the share of the caller."""
        try:
            self._memory.take(caller, size)
        except ShareExceeded as error:
            raise HttpRefusal(503, f"{error}; try again later", RETRY_LATER) from None

    def _keep_alive(self) -> bool:
        for session in self.sessions.values():
            session.keep_alive()
        return bool(self.sessions)

    async def close(self) -> None:
        """End all sessions."""
        self._closing = True
        self._heartbeat.close()
        for session in tuple(self.sessions.values()):
            session.end()
        await finish(*self._tasks)


def _unknown_session() -> HttpRefusal:
    return HttpRefusal(404, "unknown session: GET the stream first, then POST to the URL in its endpoint event")
