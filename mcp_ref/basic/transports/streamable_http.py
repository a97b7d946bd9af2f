"""Streamable HTTP, the server's side: one endpoint, sessions, and streams that can be taken up again.

A client POSTs each message. The answer to a request is a JSON body; or, as soon as the server has something to say
before it (progress, a question to the user), a stream of server-sent events that ends with the answer. A GET opens a
stream for what belongs to no request. A session id ties it all together.

    POST -> gate -> Session.receive -> the dispatcher ... Session.send -> the Stream of that request -> JSON or SSE
    GET  -> gate -> the session's listening Stream; with Last-Event-ID: what a broken stream still owes

Spec:  basic/transports#streamable-http (2025-03-26 to 2025-11-25)
Below: http_gate.py (may it come in?), events.py (what was sent), mcp_ref/http (sockets). Above: Server.serve_http.
Elsewhere: the client's side (streamable_http_client.py), the older transport (http_sse.py).
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ...http.message import Exchange, Request
from ...http.message import Stream as Carrier
from ...http.sse import encode_comment, encode_event
from ...jsonrpc.errors import ConnectionClosed
from ...jsonrpc.messages import (
    Batch,
    ErrorResponse,
    Incoming,
    Malformed,
    Notification,
    Outgoing,
    RequestId,
    Response,
    decode,
    encode,
)
from ...jsonrpc.messages import Request as RpcRequest
from ...revisions import LATEST_LEGACY, R2025_03_26, Revision, find_revision
from . import Lost, Receive, Trace, Transport
from .events import Event, EventStore, MemoryEventStore, stream_of
from .http_gate import SESSION_HEADER, Gate, Refused, check_accept, check_content_type, check_version

log = logging.getLogger(__name__)

Serve = Callable[[Transport], Awaitable[None]]
"""Has one conversation over a transport, to its end: `Server.serve`."""

Authenticate = Callable[[Request], Awaitable[str | None]]
"""Who sends this request; None for nobody we know. Sessions are bound to it."""

JSON_HEADERS = [("Content-Type", "application/json")]
SSE_HEADERS = [
    ("Content-Type", "text/event-stream"),
    ("Cache-Control", "no-cache, no-transform"),
    ("X-Accel-Buffering", "no"),  # a proxy must not hold events back
]


@dataclass
class HttpLimits:
    """The bounds of an endpoint."""

    max_sessions: int = 10_000
    """Sessions at a time; then the one that was idle longest makes room, and if none is idle, 503."""
    session_idle: float = 1800.0
    """Seconds after which a session that nobody uses ends; one with a request in flight or a stream open is used."""
    max_waiting: int = 1000
    """Events that wait for a client that has no stream open; the oldest go first."""
    keep_alive: float = 15.0
    """Seconds between comments on a silent stream, so that nobody in between takes it for dead."""
    retry: int = 1000
    """Milliseconds after which a client shall come back for a stream that we closed early."""


class Stream:
    """A flow of messages to the client: of one POST, or the one that listens. Lives longer than what carries it."""

    def __init__(self, session: Session, name: str, ids: tuple[RequestId, ...] = ()) -> None:
        self.session = session
        self.name = name
        self.ids = ids
        self.ended = False
        self.answer: asyncio.Future[bytes | None] | None = None
        """For a POST that has sent nothing yet: the answer if it comes first; None when the stream must open."""
        self._carrier: Carrier | None = None
        self._waiting: deque[Event] = deque(maxlen=session.limits.max_waiting)

    @property
    def is_carried(self) -> bool:
        """Whether a client is reading it now."""
        return self._carrier is not None

    def put(self, frame: bytes, final: bool = False) -> None:
        """Send one message; the final one ends the stream."""
        if self.answer is not None and not self.answer.done():
            if final:
                self.end()
                self.answer.set_result(frame)
                return
            self.answer.set_result(None)
            self.prime()
        self._emit(frame)
        if final:
            self.end()

    def prime(self) -> None:
        """Give the client an event id before there is any message, so that it can come back for the first one."""
        # [2025-11-25 basic/transports#sending-messages-to-the-server] an event id and an empty data field
        if self.session.revision.streams_are_polled:
            self._emit(b"")

    def _emit(self, data: bytes) -> None:
        event = Event(self.session.store.append(self.session.id, self.name, data), data)
        if self._carrier is not None:
            self._carrier.write(encode_event(event.data, id=event.id))
        else:
            self._waiting.append(event)

    def attach(self, carrier: Carrier, missed: list[Event] | None = None) -> None:
        """From now on, this response carries the stream, beginning with what waited or was missed."""
        previous, self._carrier = self._carrier, carrier
        if previous is not None:
            previous.close()
        for event in self._waiting if missed is None else missed:
            carrier.write(encode_event(event.data, id=event.id))
        self._waiting.clear()
        if self.ended:
            carrier.close()

    def detach(self, carrier: Carrier) -> None:
        """The response has ended, for whatever reason. The stream goes on without one."""
        # [2025-11-25 basic/transports#sending-messages-to-the-server] a disconnection is not a cancellation
        if self._carrier is carrier:
            self._carrier = None

    def close_carrier(self, retry: int) -> None:
        """End the response early; the client comes back after `retry` milliseconds."""
        carrier, self._carrier = self._carrier, None
        if carrier is not None:
            carrier.write(encode_event(b"", retry=retry))
            carrier.close()

    def keep_alive(self) -> None:
        """Show that it is there."""
        if self._carrier is not None:
            self._carrier.write(encode_comment())

    async def drain(self) -> None:
        """Wait until the client has read enough."""
        if self._carrier is not None:
            await self._carrier.drain()

    def end(self) -> None:
        """Nothing more will come."""
        self.ended = True
        self.session.forget(self)
        if self._carrier is not None:
            self._carrier.close()
            self._carrier = None


class Session:
    """One client's session, as the transport of its connection."""

    def __init__(
        self,
        id: str,
        principal: str | None,
        store: EventStore,
        limits: HttpLimits,
        json_responses: bool = False,
        trace: Trace | None = None,
    ) -> None:
        self.id = id
        self.principal = principal
        self.revision = LATEST_LEGACY
        self.store = store
        self.limits = limits
        self.established = False
        """Whether `initialize` succeeded."""
        self.listening = Stream(self, "get")
        self.task: asyncio.Task[None] | None = None
        self.used = asyncio.get_running_loop().time()
        self._json_responses = json_responses
        self._trace = trace
        self._streams: dict[str, Stream] = {"get": self.listening}
        self._by_request: dict[RequestId, Stream] = {}
        self._posts = 0
        self._era = secrets.token_hex(4)  # streams of this process are told from those of one before, with the same id
        self._receive: Receive | None = None
        self._lost: Lost | None = None
        self._early: list[Incoming] = []
        self._reading = asyncio.Event()
        self._reading.set()

    # ------------------------------------------------------------------------------------- for the connection

    async def start(self, receive: Receive, lost: Lost) -> None:
        """Deliver what came, and what comes."""
        self._receive, self._lost = receive, lost
        for message in self._early:
            receive(message)

    def send(self, message: Outgoing, related: RequestId | None = None) -> None:
        """Put a message on the stream of the request it belongs to; without one, on the stream that listens."""
        frame = encode(message)
        if self._trace is not None:
            self._trace("->", frame)
        final = isinstance(message, (Response, ErrorResponse, Batch)) and not _asks(message)
        stream = self._by_request.get(related) if related is not None else None
        if stream is not None:
            if isinstance(message, Response) and not self.established:
                self._establish(message)
            if self._json_responses and not final:
                stream = self.listening  # the POST is answered by one JSON body
            stream.put(frame, final)
        elif not final:
            # [2025-11-25 basic/transports#listening-for-messages-from-the-server] no response on this stream
            self.listening.put(frame)

    def _establish(self, answer: Response) -> None:
        """The first answer is that to `initialize`; it says which revision is spoken."""
        self.revision = find_revision(answer.result.get("protocolVersion")) or self.revision
        self.established = True

    def unanswered(self, related: RequestId) -> None:
        """End the stream of a cancelled request."""
        stream = self._by_request.get(related)
        if stream is not None:
            if stream.answer is not None and not stream.answer.done():
                stream.answer.set_result(None)
            stream.end()

    async def drain(self) -> None:
        """Wait for the slowest client of ours that reads a stream now."""
        for stream in tuple(self._streams.values()):
            await stream.drain()

    def pause_reading(self) -> None:
        """Let no further request in."""
        self._reading.clear()

    def resume_reading(self) -> None:
        """Let requests in again."""
        self._reading.set()

    async def close(self) -> None:
        """End all streams."""
        for stream in tuple(self._streams.values()):
            if stream.answer is not None and not stream.answer.done():
                stream.answer.set_exception(Refused(404, "the session has ended"))
                stream.answer.exception()  # seen, also where nobody waits any more
            stream.end()
        self._reading.set()
        if self._lost is not None:
            lost, self._lost = self._lost, None
            lost(ConnectionClosed("the session has ended"))

    # ------------------------------------------------------------------------------------- for the endpoint

    async def receive(self, message: Incoming, body: bytes) -> None:
        """Hand in what came, when there is room for it."""
        self.used = asyncio.get_running_loop().time()
        if self._trace is not None:
            self._trace("<-", body)
        if not self._reading.is_set():
            await self._reading.wait()
        if self._receive is None:
            self._early.append(message)
        else:
            self._receive(message)

    def open_stream(self, ids: tuple[RequestId, ...]) -> Stream:
        """The stream of a POST that asks these requests. Refuses ids that are in use."""
        for id in ids:
            if id in self._by_request:
                raise Refused(400, f"a request with id {id!r} is still in flight; ids are unique in a session")
        self._posts += 1
        stream = Stream(self, f"{self._era}-{self._posts}", ids)
        stream.answer = asyncio.get_running_loop().create_future()
        self._streams[stream.name] = stream
        self._by_request.update(dict.fromkeys(ids, stream))
        return stream

    def stream_named(self, name: str) -> Stream | None:
        """A stream that has not ended."""
        return self._streams.get(name)

    def stream_of(self, id: RequestId) -> Stream | None:
        """The stream that will answer this request."""
        return self._by_request.get(id)

    def forget(self, stream: Stream) -> None:
        """A stream has ended; its events stay in the store."""
        self._streams.pop(stream.name, None)
        for id in stream.ids:
            if self._by_request.get(id) is stream:
                del self._by_request[id]

    @property
    def is_idle(self) -> bool:
        """Whether no request is in flight and no client listens."""
        return not self._by_request and not self.listening.is_carried

    def keep_alive(self) -> None:
        """Show on every stream that we are there."""
        for stream in self._streams.values():
            stream.keep_alive()


def _asks(message: Outgoing) -> bool:
    return isinstance(message, Batch) and any(isinstance(member, RpcRequest) for member in message.messages)


class Endpoint:
    """The MCP endpoint of one server. `handle` takes every HTTP exchange on its path."""

    def __init__(
        self,
        serve: Serve,
        *,
        gate: Gate | None = None,
        json_responses: bool = False,
        store: EventStore | None = None,
        limits: HttpLimits | None = None,
        authenticate: Authenticate | None = None,
        trace: Trace | None = None,
    ) -> None:
        self._serve = serve
        self.gate = gate or Gate()
        self._json_responses = json_responses
        self._store = store or MemoryEventStore()
        self._limits = limits or HttpLimits()
        self._authenticate = authenticate
        self._trace = trace
        self.sessions: dict[str, Session] = {}
        self._keeper: asyncio.Task[None] | None = None
        self._closing = False

    async def handle(self, exchange: Exchange) -> None:
        """Answer one HTTP request."""
        request = exchange.request
        cors: list[tuple[str, str]] = []
        try:
            self.gate.check(request.headers)
            cors = self.gate.cors(request.headers)
            await self._route(exchange, request, cors)
        except Refused as refused:
            headers = [*JSON_HEADERS, *refused.headers, *cors]
            await exchange.respond(refused.status, headers, refused.body())

    async def _route(self, exchange: Exchange, request: Request, cors: list[tuple[str, str]]) -> None:
        if request.method == "OPTIONS":
            return await exchange.respond(204, self.gate.preflight(request.headers), b"")
        if request.method not in ("POST", "GET", "DELETE"):
            raise Refused(405, f"{request.method} is not for an MCP endpoint", [("Allow", "GET, POST, DELETE, OPTIONS")])
        principal = None
        if self._authenticate is not None:
            principal = await self._authenticate(request)
            if principal is None:
                raise Refused(401, "authentication is required", [("WWW-Authenticate", "Bearer")])
        check_version(request)
        if request.method == "POST":
            await self._post(exchange, request, principal, cors)
        elif request.method == "GET":
            await self._get(exchange, request, principal, cors)
        else:
            await self._delete(exchange, request, principal, cors)

    # ------------------------------------------------------------------------------------- POST

    async def _post(
        self, exchange: Exchange, request: Request, principal: str | None, cors: list[tuple[str, str]]
    ) -> None:
        check_content_type(request)
        check_accept(request, *(["application/json"] if self._json_responses else ["application/json", "text/event-stream"]))
        message = decode(request.body)
        if isinstance(message, Malformed) and not message.answer:
            error = ErrorResponse(message.id, message.error, omit_id=message.id is None)
            return await exchange.respond(400, [*JSON_HEADERS, *cors], encode(error))
        if isinstance(message, RpcRequest) and message.method == "initialize" and SESSION_HEADER not in request.headers:
            return await self._initialize(exchange, request, message, principal, cors)
        session = await self._session(request, principal)
        ids = self._ids(message, session.revision)
        if not ids:
            # [2025-11-25 basic/transports#sending-messages-to-the-server] only notifications or responses: 202
            await session.receive(message, request.body)
            return await exchange.respond(202, cors, b"")
        await self._answer(exchange, session, session.open_stream(ids), message, cors)

    def _ids(self, message: Incoming, revision: Revision) -> tuple[RequestId, ...]:
        """The requests in a body. Refuses a batch where the revision has none."""
        if isinstance(message, RpcRequest):
            return (message.id,)
        if not isinstance(message, Batch):
            return ()
        if not revision.batch:
            raise Refused(400, f"revision {revision} has no batches (only {R2025_03_26} has): send one message a POST")
        ids = [member.id for member in message.messages if isinstance(member, RpcRequest)]
        if len(set(ids)) < len(ids):
            raise Refused(400, "two requests of the batch have the same id")
        return tuple(ids)

    async def _answer(
        self, exchange: Exchange, session: Session, stream: Stream, message: Incoming, cors: list[tuple[str, str]]
    ) -> None:
        """Hand in the requests of a POST, and carry their answer: as JSON if it comes first, as a stream otherwise."""
        assert stream.answer is not None
        await session.receive(message, exchange.request.body)
        answer = await stream.answer
        if answer is not None:
            return await exchange.respond(200, [*JSON_HEADERS, *cors], answer)
        await self._carry(exchange, stream, None, cors)

    async def _carry(
        self, exchange: Exchange, stream: Stream, missed: list[Event] | None, cors: list[tuple[str, str]]
    ) -> None:
        """Answer with a stream of events, until it ends or the client leaves."""
        carrier = await exchange.stream(200, [*SSE_HEADERS, *cors])
        stream.attach(carrier, missed)
        self._keep()
        try:
            await carrier.gone
        finally:
            stream.detach(carrier)
            stream.session.used = asyncio.get_running_loop().time()

    # ------------------------------------------------------------------------------------- sessions

    async def _initialize(
        self,
        exchange: Exchange,
        request: Request,
        message: RpcRequest,
        principal: str | None,
        cors: list[tuple[str, str]],
    ) -> None:
        """Begin a session. It exists for others only once `initialize` has succeeded."""
        self._make_room()
        # [2025-11-25 basic/transports#session-management] globally unique, cryptographically secure, visible ASCII
        session = self._begin(secrets.token_urlsafe(24), principal)
        self._store.open(session.id, request.body, principal)
        try:
            # [2025-11-25 basic/transports#session-management] the id is on the response that has the InitializeResult
            headers = [*cors, (SESSION_HEADER, session.id)]
            await self._answer(exchange, session, session.open_stream((message.id,)), message, headers)
        finally:
            if not session.established:
                session.task.cancel()

    def _begin(self, id: str, principal: str | None) -> Session:
        session = Session(id, principal, self._store, self._limits, self._json_responses, self._trace)
        session.task = asyncio.create_task(self._converse(session))
        self.sessions[id] = session
        return session

    async def _converse(self, session: Session) -> None:
        try:
            await self._serve(session)
        finally:
            self.sessions.pop(session.id, None)
            if not self._closing:  # a store that outlives this process keeps its sessions for the next one
                self._store.forget(session.id)
            await session.close()

    async def _session(self, request: Request, principal: str | None) -> Session:
        """The session that the request belongs to."""
        id = request.headers.get(SESSION_HEADER)
        if id is None:
            # [2025-11-25 basic/transports#session-management] without the header: SHOULD be 400
            raise Refused(400, f"{SESSION_HEADER} is missing: begin with an initialize request, whose answer has it")
        session = self.sessions.get(id) or await self._revive(id)
        if session is None or not session.established or session.principal != principal:
            # [2025-11-25 basic/transports#session-management] an ended session: MUST be 404. Another's looks the same.
            raise Refused(404, "there is no such session, or it has ended: begin a new one with an initialize request")
        return session

    async def _revive(self, id: str) -> Session | None:
        """A session of the process before this one, as the store remembers it: its handshake is repeated, unheard."""
        found = self._store.opening(id)
        if found is None:
            return None
        body, principal = found
        message = decode(body)
        assert isinstance(message, RpcRequest)
        session = self._begin(id, principal)
        stream = session.open_stream((message.id,))
        await session.receive(message, body)
        assert stream.answer is not None
        await stream.answer
        await session.receive(Notification("notifications/initialized"), b"")
        return session

    def _make_room(self) -> None:
        if len(self.sessions) < self._limits.max_sessions:
            return
        idle = min((s for s in self.sessions.values() if s.is_idle), key=lambda s: s.used, default=None)
        if idle is None or idle.task is None:
            raise Refused(503, f"all {self._limits.max_sessions} sessions are in use; try again later", [("Retry-After", "5")])
        self.sessions.pop(idle.id, None)
        idle.task.cancel()

    async def _delete(
        self, exchange: Exchange, request: Request, principal: str | None, cors: list[tuple[str, str]]
    ) -> None:
        """End a session at once."""
        session = await self._session(request, principal)
        self.sessions.pop(session.id, None)
        if session.task is not None:
            session.task.cancel()
        await exchange.respond(204, cors, b"")

    # ------------------------------------------------------------------------------------- GET

    async def _get(
        self, exchange: Exchange, request: Request, principal: str | None, cors: list[tuple[str, str]]
    ) -> None:
        """Carry what belongs to no request, or what a broken stream still owes."""
        check_accept(request, "text/event-stream")
        session = await self._session(request, principal)
        last = request.headers.get("last-event-id")
        if last is None:
            if not session.listening.is_carried:
                session.listening.prime()
            return await self._carry(exchange, session.listening, None, cors)
        missed = self._store.after(session.id, last)
        if missed is None:
            raise Refused(400, f"event {last[:100]!r} is not known here, or what came after it is no longer kept")
        # [2025-11-25 basic/transports#resumability-and-redelivery] MUST NOT replay what belongs to another stream
        stream = session.stream_named(stream_of(last))
        if stream is not None:
            return await self._carry(exchange, stream, missed, cors)
        carrier = await exchange.stream(200, [*SSE_HEADERS, *cors])
        for event in missed:
            carrier.write(encode_event(event.data, id=event.id))
        carrier.close()
        await carrier.gone

    # ------------------------------------------------------------------------------------- time

    def _keep(self) -> None:
        if self._keeper is None or self._keeper.done():
            self._keeper = asyncio.create_task(self._keep_on())

    async def _keep_on(self) -> None:
        """Keep streams alive, and end sessions that nobody uses."""
        loop = asyncio.get_running_loop()
        while self.sessions:
            await asyncio.sleep(self._limits.keep_alive)
            for session in tuple(self.sessions.values()):
                session.keep_alive()
                if session.is_idle and session.used < loop.time() - self._limits.session_idle and session.task:
                    session.task.cancel()

    async def close(self) -> None:
        """End all sessions."""
        self._closing = True
        tasks = [session.task for session in self.sessions.values() if session.task is not None]
        if self._keeper is not None:
            tasks.append(self._keeper)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=5.0)


def close_stream(session: Session, id: RequestId) -> bool:
    """End the response that carries this request's stream; the client comes back for the rest. False if it cannot."""
    stream = session.stream_of(id)
    if stream is None or not stream.is_carried or not session.revision.streams_are_polled:
        return False
    stream.close_carrier(session.limits.retry)
    return True
