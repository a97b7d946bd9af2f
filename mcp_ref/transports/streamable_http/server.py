"""Streamable HTTP on the server: one URL, the MCP endpoint, to which a client POSTs each of its messages.

The response to a request is one JSON object, unless the server sends other messages first, such as progress. Then the
response is a server-sent-event stream, whose last event is the JSON-RPC response.

    POST    checks -> session -> dispatcher -> the request's stream -> JSON or events; 202 without a JSON-RPC request
    GET     checks -> session -> the listening stream; with Last-Event-ID: the later events of a broken stream
    DELETE  checks -> session -> the session ends

A server whose messages all belong to requests may refuse GET with 405, but this one serves it. The modern era has only
POST, of one request or notification (stateless.py). In 2025-03-26, a POST can have a batch of messages.

Wire:  POST /mcp   {"jsonrpc":"2.0","id":2,"method":"tools/list"}
       200         {"jsonrpc":"2.0","id":2,"result":{"tools":[]}}
       POST /mcp   {"jsonrpc":"2.0","method":"notifications/initialized"}
       202
Spec:  basic/transports#streamable-http (2025-03-26 to 2025-11-25); 2026-07-28 basic/transports/streamable-http
"""

from __future__ import annotations

import asyncio

from ...basic.access import Access, ScopeTable
from ...basic.versioning import is_stateless
from ...jsonrpc.errors import ProtocolError
from ...jsonrpc.messages import Batch, ErrorResponse, Incoming, Malformed, Notification, Request, decode, encode
from ...lib.http.message import Exchange, Rest, StreamingResponse
from ...lib.shares import Shares
from ...revisions import LEGACY, find_revision
from ..base import Begin, Trace, finish
from ..trace import traced_exchange
from .checks import JSON_HEADERS, SSE_HEADERS, STREAMED_METHODS, Authorize, CheckedRequest, HttpRefusal, RequestChecks
from .event_store import Event, MemoryEventStore, stream_of
from .handover import shutting_down
from .posted_session import EndpointLimits, Heartbeat, check_initialize
from .restoration import add_error, note_requests
from .session import LISTENING, HttpSession
from .session_table import SessionTable
from .stateless import FindParameters, InFlight, ServeStateless, StatelessExchange, check_request


class StreamableHttpEndpoint:
    """The MCP endpoint of one server, whose `handle` serves every HTTP request.

    Args:
        scopes: The scopes that messages need.
        json_responses: True to respond with JSON to each POST, except `subscriptions/listen` and POSTs that accept only
            events. Messages before a response then go to the listening stream or, in the modern era, are dropped.
        authorize: Function that returns the rights of a request's caller. Default: no authentication.
        stateless: Function that serves one stateless request. Default: the endpoint does not serve the modern era.
        parameters: Function that takes a tool's name, and returns the headers that mirror the tool's arguments.
    """

    def __init__(
        self, begin: Begin, *, scopes: ScopeTable, checks: RequestChecks | None = None, json_responses: bool = False,
        store: MemoryEventStore | None = None, limits: EndpointLimits | None = None, authorize: Authorize | None = None,
        trace: Trace | None = None, stateless: ServeStateless | None = None,
        parameters: FindParameters = lambda name: {}, id_prefix: str = "",
    ) -> None:  # fmt: skip
        self._checks, self._authorize, self._scopes = checks or RequestChecks(), authorize, scopes
        self._limits = limits = limits or EndpointLimits()
        self._trace, self._json_responses = trace, json_responses
        self._serve_request, self._parameters = stateless, parameters
        shares = Shares("requests in flight", limits.request_bytes_per_caller, limits.request_bytes)
        self.table = SessionTable(begin, store or MemoryEventStore(), limits, trace, shares, id_prefix, scopes)
        self.sessions, self._keeps_requests = self.table.by_id, self.table.store.is_durable
        self.requests = InFlight(limits.requests, limits.requests_per_caller, shares)
        self._subscriptions = InFlight(limits.subscriptions, limits.subscriptions_per_caller, shares)
        self._heartbeat = Heartbeat(min(limits.keep_alive, limits.session_idle), self._keep_alive)

    def handle(self, exchange: Exchange) -> Rest:
        if self._trace is not None:
            exchange = traced_exchange(exchange, self._trace)
        return self._checks.guard(exchange, self._authorize, self._route)

    def _route(self, exchange: Exchange, checked: CheckedRequest, access: Access) -> Rest:
        # Not a coroutine function, because its frame would take memory while the response's stream is open.
        if self.table.is_closing:
            raise shutting_down()
        if checked.method == "POST":
            return self._post(exchange, checked, access)
        access.require(())  # only the scopes that every request needs
        if checked.method == "GET":
            return self._get(exchange, checked, access)
        return self._delete(exchange, checked, access)

    async def _delete(self, exchange: Exchange, checked: CheckedRequest, access: Access) -> None:
        self.table.end(await self._find_session(checked, access))
        exchange.respond(204, checked.cors, b"")

    def _keep_alive(self) -> bool:
        for stateless in (*self.requests, *self._subscriptions):
            stateless.keep_alive()
        self.table.keep_alive()
        return bool(self.sessions or self.requests or self._subscriptions)  # False stops the heartbeat

    async def close(self) -> None:
        self._heartbeat.close()
        await self.table.close()

    async def wait_served(self, seconds: float) -> None:
        await finish(*[each.task for each in self.requests], timeout=seconds)

    async def finish(self, seconds: float) -> None:
        """Wait at most `seconds` for the stateless requests in flight, then cancel the rest."""
        await self.wait_served(seconds)
        await finish(*[each.task for each in self.requests], cancel=True, timeout=seconds)

    def _post(self, exchange: Exchange, checked: CheckedRequest, access: Access) -> Rest:
        message = decode(exchange.request.body)
        if access.checks_every_message or self._scopes.needs_scopes:
            access.check_scopes(message, self._scopes)
        if self._serve_request is not None and self._is_stateless(message, checked):
            return self._post_stateless(exchange, checked, message, access)
        if isinstance(message, Request) and message.method == "initialize":
            check_initialize(exchange.request.body, self._limits)
            if checked.session_id is None:
                return self._initialize(exchange, checked, message, access)
        return self._post_in_session(exchange, checked, message, access)

    def _post_in_session(self, exchange: Exchange, checked: CheckedRequest, message: Incoming, access: Access) -> Rest:
        session = None
        if checked.session_id is not None:
            session = self._find_ready(checked.session_id)
            if session is None or checked.session_failure is not None:
                return self._wait_and_post(exchange, checked, access)  # which finds the session, or refuses
            session.admit(access)
            self._heartbeat.start()
        frame = exchange.request.body
        errors = None if isinstance(message, Request) else _encoded_errors(message, session)
        if errors is not None:
            if session is not None and isinstance(message, Malformed) and message.expects_no_response:
                session.receive(message, frame)  # an invalid response, which makes our request fail
            # [2025-11-25 basic/transports#sending-messages-to-the-server] a refused message MUST get an HTTP error
            exchange.respond(400, [*JSON_HEADERS, *checked.cors], errors)
            return None
        if session is None:
            raise _session_missing()
        ids = (message.id,) if isinstance(message, Request) else session.ids_in(message)
        if not ids:
            # [2025-11-25 basic/transports#sending-messages-to-the-server] without a request, the response MUST be 202
            session.receive(message, frame)
            exchange.respond(202, checked.cors, b"")
            return None
        if not session.streams_by_request.keys().isdisjoint(ids):
            in_flight = next(id for id in ids if id in session.streams_by_request)
            raise HttpRefusal(400, f"a request with id {in_flight!r} is still in flight; use another id")
        if len(session.streams) >= self._limits.streams:
            raise HttpRefusal(429, f"the session has {self._limits.streams} streams already; wait for a response")
        # Through the access, a handler can refuse the whole POST, which would lose the other responses of a batch.
        refusable = access if isinstance(message, Request) else None
        session.open_stream(ids).respond_to(exchange, checked, self._json_responses, refusable)
        session.was_used = True
        if self._keeps_requests:
            note_requests(session, message)
        session.receive(message, frame)
        exchange.forget_body()  # from now on, `EndpointLimits.request_bytes_per_caller` counts the message
        return None

    def _find_ready(self, id: str) -> HttpSession | None:
        session, leases = self.table.by_id.get(id), self.table.store.leases
        if session is None or session.is_paused or session.restoration is not None or not session.initialized.done():
            return None  # `_wait_and_post` loads it, or waits for it
        return session if leases is None or leases.has(id) else None

    async def _wait_and_post(self, exchange: Exchange, checked: CheckedRequest, access: Access) -> None:
        await (await self._find_session(checked, access)).wait_until_reading()
        if self.table.is_closing:
            raise shutting_down()
        message = decode(exchange.request.body)  # again, because keeping it during the wait would need much more memory
        rest = self._post_in_session(exchange, checked, message, access)
        if rest is not None:  # the session was paused again, or restored again, meanwhile
            await rest

    async def _initialize(self, exchange: Exchange, checked: CheckedRequest, message: Request, access: Access) -> None:
        session = self.table.begin(exchange.request.body, access)
        self._heartbeat.start()
        session.open_stream((message.id,)).respond_to(exchange, checked, self._json_responses, None)
        try:
            await session.wait_until_reading()
            await self.table.store.wait_stored(session.id)
            session.receive(message, exchange.request.body)
            await asyncio.shield(session.initialized)
        finally:
            if not (session.initialized.done() and session.initialized.result()):  # also after an error response
                self.table.end(session)

    async def _find_session(self, checked: CheckedRequest, access: Access) -> HttpSession:
        if checked.session_id is None:
            raise _session_missing()
        if checked.session_failure is not None:
            raise checked.session_failure.copy()
        self._heartbeat.start()
        return await self.table.find(checked.session_id, access)

    def _is_stateless(self, message: Incoming, checked: CheckedRequest) -> bool:
        params = message.params if isinstance(message, (Request, Notification)) else {}
        if ("_meta" in params and is_stateless(params)) or not self._checks.session_revisions:  # (no legacy revision)
            return True
        # `initialize` names its revision in the body, so its header does not count
        return checked.may_be_modern and not (isinstance(message, Request) and message.method == "initialize")

    def _post_stateless(self, exchange: Exchange, checked: CheckedRequest, message: Incoming, access: Access) -> Rest:
        if self._trace is not None:
            self._trace("<-", exchange.request.body)
        match message:
            case Request():
                return self._serve_stateless(exchange, checked, message, access)
            case Notification():  # ignored, because in the modern era no notification of a client has a meaning
                name, revision = checked.revision, find_revision(checked.revision)
                if name is not None and (revision is None or revision in LEGACY):
                    raise HttpRefusal(400, f"MCP-Protocol-Version must be a modern revision, not {name[:100]!r}")
                # [2026-07-28 basic/transports/streamable-http#sending-messages] the server MUST send 202, no body
                exchange.respond(202, checked.cors, b"")
                return None
            case Malformed():
                id = None if message.expects_no_response else message.id
                body = encode(ErrorResponse(id, message.error, omit_id=True))
                exchange.respond(400, [*JSON_HEADERS, *checked.cors], body)
                return None
            case _:
                # [2026-07-28 basic/transports/streamable-http#sending-messages] the client MUST NOT send responses
                raise HttpRefusal(400, "the body must be a single request or notification")

    def _serve_stateless(self, exchange: Exchange, checked: CheckedRequest, request: Request, access: Access) -> Rest:
        assert self._serve_request is not None
        accepts_sse = checked.accepts_sse and not self._json_responses
        in_flight = self.requests
        if request.method in STREAMED_METHODS:
            if self.table.is_draining:
                raise shutting_down()
            if not checked.accepts_sse:
                raise HttpRefusal(406, f"Accept must list text/event-stream: {request.method} responds with a stream")
            accepts_sse, in_flight = True, self._subscriptions
        reply = StatelessExchange(exchange, request, checked, self._trace, accepts_sse, in_flight)
        try:
            check_request(request, checked, exchange.request.headers, self._parameters)
        except ProtocolError as error:
            reply.refuse(error)
            return None
        self._heartbeat.start()
        return reply.serve(self._serve_request, access)

    async def _get(self, exchange: Exchange, checked: CheckedRequest, access: Access) -> None:
        session = await self._find_session(checked, access)
        last = checked.last_event_id
        # [2025-11-25 basic/transports#resumability-and-redelivery] a server MUST NOT replay messages of another stream
        if last is not None:
            name, missed = stream_of(last), session.events_after(last)
        else:
            name, missed = LISTENING, session.events_from(session.listening.first_unsent)
        if missed is None:
            raise HttpRefusal(400, f"event {last!r:.102} is unknown in this session, or a later event was dropped")
        stream = session.streams.get(name)  # None after its end
        if stream is None and last is not None:
            missed = add_error(session, name, last, missed)  # for a request that a restart of the server has ended
        response = exchange.stream(200, [*SSE_HEADERS, *checked.cors])
        if stream is None:
            return await _replay(session, response, missed)
        stream.begin_replay(response, access.ends_at)
        try:
            await _replay(session, response, missed)
        finally:
            stream.attach(response)
        if last is None:
            stream.send_first_id()


async def _replay(session: HttpSession, response: StreamingResponse, missed: list[Event] | None) -> None:
    """Send missed events as fast as the client reads. Close the response if the store drops one meanwhile."""
    while missed:
        for event in missed:
            response.write(session.encode(event.id, event.data))
            last_sent = event.id
            if not response.has_room:
                break
        missed = None  # free the list, so that only the store, with its limits, keeps events for a slow client
        await response.drain()
        missed = session.events_after(last_sent) if not response.ended.done() else []  # None if one was dropped
    if missed is None:
        response.close()


def _session_missing() -> HttpRefusal:
    # [2025-11-25 basic/transports#session-management] a request without the header SHOULD get 400
    return HttpRefusal(400, "Mcp-Session-Id is missing: begin with an initialize request, whose response has it")


def _encoded_errors(message: Incoming, session: HttpSession | None) -> bytes | None:
    """Return the errors for a body that has invalid messages but no request, else None."""
    members = message.messages if isinstance(message, Batch) else [message]
    faults = [member for member in members if isinstance(member, Malformed)]
    if not faults or any(isinstance(member, Request) for member in members):
        return None  # in a batch with a request, the dispatcher sends the errors together with the responses
    omit_id = session is None or session.revision.error_id_optional
    errors = [ErrorResponse(fault.id, fault.error, omit_id=omit_id) for fault in faults]
    return encode(Batch([*errors])) if isinstance(message, Batch) else encode(errors[0])
