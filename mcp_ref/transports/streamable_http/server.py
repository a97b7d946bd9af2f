"""Streamable HTTP, the server's side: one endpoint, sessions, and streams that can be taken up again.

A client POSTs each message. The answer to a request is a JSON body; or, as soon as the server has something to say
before it (progress, a question to the user), a stream of server-sent events that ends with the answer. A GET opens a
stream for what belongs to no request. A session id ties it all together.

    POST    gate -> session -> the dispatcher ... the request's stream -> JSON, or events, or 202 where nothing is asked
    GET     gate -> session -> its listening stream; with Last-Event-ID: the rest of a stream that broke
    DELETE  gate -> session -> its end

Spec:  basic/transports#streamable-http (2025-03-26 to 2025-11-25)
Below: http_gate.py (may it come in?), http_session.py (its streams), events.py (what they carried), mcp_ref/http
       (sockets). Above: runtime/web.py
Elsewhere: the client's side (streamable_http_client.py); the older transport (http_sse.py)
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Coroutine, Sequence
from weakref import WeakKeyDictionary

from ...basic.headers import ArgumentPath
from ...basic.versioning import is_stateless
from ...jsonrpc.errors import ProtocolError
from ...jsonrpc.messages import (
    Batch,
    ErrorResponse,
    Incoming,
    Malformed,
    Notification,
    Object,
    Request,
    RequestId,
    decode,
    encode,
)
from ...lib.http.message import Exchange, HeaderList, Headers
from ...lib.http.sse import encode_event
from ...revisions import LATEST_LEGACY, LEGACY, R2025_03_26, Revision, find_revision
from ..base import Drain, Tell, Trace, Transport
from ..trace import watched_exchange
from .checks import (
    JSON_HEADERS,
    SESSION_HEADER,
    SSE_HEADERS,
    SSE_TYPE,
    STREAMED,
    VERSION_HEADER,
    Authenticate,
    CheckedRequest,
    HttpRefusal,
    RequestChecks,
    principal_of,
)
from .event_store import EventStore, MemoryEventStore, stream_of
from .session import EndpointLimits, HttpSession, Stream
from .stateless import StatelessExchange, check_request

log = logging.getLogger(__name__)

Serve = Callable[[Transport], Coroutine[object, object, None]]
"""Has one conversation over a transport, to its end: `Server.serve`."""

ServeStateless = Callable[[Request, Tell, Drain, str | None], Coroutine[object, object, Object]]
"""Serves one request of the stateless era: `Server.serve_stateless`."""


class StreamableHttpEndpoint:
    """The MCP endpoint of one server: `handle` answers the HTTP requests on its path.

    serve: has one session's conversation. json_responses: answer by JSON alone; what a request causes before its answer
    goes to the listening stream, or in the stateless era nowhere. store: keeps events for clients that come back.
    alone: serves requests of the stateless era. parameters: the headers that a tool's arguments stand in, by its name.
    handshakes: the revisions that a session can be in; none where the earlier era is not served.
    """

    def __init__(
        self,
        serve: Serve,
        *,
        checks: RequestChecks | None = None,
        json_responses: bool = False,
        store: EventStore | None = None,
        limits: EndpointLimits | None = None,
        authenticate: Authenticate | None = None,
        trace: Trace | None = None,
        stateless: ServeStateless | None = None,
        parameters: Callable[[str], dict[str, ArgumentPath]] = lambda name: {},
        handshakes: Sequence[Revision] = LEGACY,
    ) -> None:
        self.sessions: dict[str, HttpSession] = {}
        self._serve = serve
        self._checks = checks or RequestChecks()
        self._json_responses = json_responses
        self._store = store or MemoryEventStore()
        self._limits = limits or EndpointLimits()
        self._authenticate = authenticate
        self._trace = trace
        self._admitted: WeakKeyDictionary[Headers, CheckedRequest] = WeakKeyDictionary()
        self._stateless = stateless
        self._parameters = parameters
        self._handshakes = handshakes
        self._requests: set[StatelessExchange] = set()
        self._subscriptions: set[StatelessExchange] = set()
        self._conversations: set[asyncio.Task[None]] = set()
        self._keeper: asyncio.Task[None] | None = None
        self._closing = False

    async def handle(self, exchange: Exchange) -> None:
        """Answer one HTTP request."""
        exchange = watched_exchange(exchange, self._trace)
        request = exchange.request
        # The same Headers object again means the same head, byte for byte, on the same connection: decided once.
        checked = self._admitted.get(request.headers)
        try:
            if checked is None:
                checked = self._admitted[request.headers] = self._checks.check(request)
            await self._route(exchange, checked)
        except HttpRefusal as refused:
            cors = checked.cors if checked is not None else []
            await exchange.respond(refused.status, [*JSON_HEADERS, *refused.headers, *cors], refused.body())

    async def _route(self, exchange: Exchange, checked: CheckedRequest) -> None:
        request = exchange.request
        if request.method == "OPTIONS":
            return await exchange.respond(204, self._checks.preflight(request, checked), b"")
        principal = await principal_of(request, self._authenticate)
        if checked.fault is not None:
            raise checked.fault.again()
        if self._closing:
            raise HttpRefusal(503, "the server is shutting down", [("Retry-After", "5")])
        match request.method:
            case "POST":
                await self._post(exchange, checked, principal)
            case "GET":
                await self._get(exchange, checked, principal)
            case _:
                await self._delete(exchange, checked, principal)

    # ------------------------------------------------------------------------------------- POST

    async def _post(self, exchange: Exchange, checked: CheckedRequest, principal: str | None) -> None:
        frame = exchange.request.body
        message = decode(frame)
        if self._stateless is not None and self._is_stateless(message, checked):
            return await self._post_stateless(exchange, checked, message, principal)
        if isinstance(message, Request) and message.method == "initialize" and checked.session is None:
            return await self._initialize(exchange, checked, message, principal)
        session = await self._session(checked, principal) if checked.session is not None else None
        refusal = _unreadable(message, session.revision if session is not None else LATEST_LEGACY)
        if refusal is not None:
            # [2025-11-25 basic/transports#sending-messages-to-the-server] what is not accepted: an HTTP error
            if isinstance(message, Malformed) and message.is_response and session is not None:
                await session.receive(message, frame)  # it ends a wait of ours
            return await exchange.respond(400, [*JSON_HEADERS, *checked.cors], refusal)
        session = session or await self._session(checked, principal)
        ids = _asked(message, session.revision)
        if not ids:
            # [2025-11-25 basic/transports#sending-messages-to-the-server] no request in it: MUST be 202 with no body
            await session.receive(message, frame)
            return await exchange.respond(202, checked.cors, b"")
        for id in ids:
            if session.is_asked(id):
                raise HttpRefusal(400, f"a request with id {id!r} is still in flight; ids are unique in a session")
        if session.stream_count >= self._limits.streams:
            raise HttpRefusal(429, f"the session has {self._limits.streams} streams already; wait for an answer")
        await self._answer(exchange, session, self._open(session, checked, ids), message, checked.cors)

    def _is_stateless(self, message: Incoming, checked: CheckedRequest) -> bool:
        """Whether a message is of the stateless era: it says so, or its header does; or there is no other here."""
        if isinstance(message, (Request, Notification)) and is_stateless(message.params):
            return True
        named = checked.revision is not None and find_revision(checked.revision) not in LEGACY
        return named or not self._handshakes

    async def _post_stateless(
        self, exchange: Exchange, checked: CheckedRequest, message: Incoming, principal: str | None
    ) -> None:
        """Take a message that stands alone."""
        if self._trace is not None:
            self._trace("<-", exchange.request.body)
        match message:
            case Request():
                await self._answer_stateless(exchange, checked, message, principal)
            case Notification():
                named = find_revision(checked.revision)
                if checked.revision is not None and (named is None or named in LEGACY):
                    raise HttpRefusal(400, f"{VERSION_HEADER} {checked.revision[:100]!r} is not supported here")
                # [2026-07-28 basic/transports/streamable-http#sending-messages] 202 with no body. This revision has
                # none that means anything over HTTP; they are ignored, also what a later one may have.
                await exchange.respond(202, checked.cors, b"")
            case Malformed():
                id = None if message.is_response else message.id
                refusal = encode(ErrorResponse(id, message.error, omit_id=True))
                await exchange.respond(400, [*JSON_HEADERS, *checked.cors], refusal)
            case _:
                # the same page: MUST be a single request or notification, and no response
                raise HttpRefusal(400, "the body is to be a single request or notification")

    async def _answer_stateless(
        self, exchange: Exchange, checked: CheckedRequest, request: Request, principal: str | None
    ) -> None:
        """Serve a request that stands alone."""
        assert self._stateless is not None
        takes_sse = checked.takes_sse and not self._json_responses
        posts, most = self._requests, self._limits.requests
        if request.method in STREAMED:
            if not checked.takes_sse:
                raise HttpRefusal(406, f"Accept must list {SSE_TYPE}: {request.method} is answered by a stream")
            takes_sse = True
            posts, most = self._subscriptions, self._limits.subscriptions
        if len(posts) >= most:
            raise HttpRefusal(503, f"{most} of these are served at a time; try again later", [("Retry-After", "5")])

        takes_json = checked.takes_json or not checked.takes_sse
        post = StatelessExchange(exchange, request, checked.cors, self._trace, takes_json, takes_sse)
        try:
            check_request(request, checked, exchange.request.headers, self._parameters)
        except ProtocolError as error:
            return await post.refuse(error)
        posts.add(post)
        self._keep()
        try:
            await post.serve(self._stateless(request, post.tell, post.drain, principal))
        finally:
            posts.discard(post)

    def _open(self, session: HttpSession, checked: CheckedRequest, ids: tuple[RequestId, ...]) -> Stream:
        takes_json = checked.takes_json or not checked.takes_sse
        return session.open_stream(ids, takes_json, checked.takes_sse and not self._json_responses)

    async def _answer(
        self, exchange: Exchange, session: HttpSession, stream: Stream, message: Incoming, headers: HeaderList
    ) -> None:
        """Hand in what was asked, and carry the answer: as JSON if nothing comes before it, else as events."""
        assert stream.answer is not None
        await session.receive(message, exchange.request.body)
        answer = await stream.answer
        if answer is not None:
            await exchange.respond(200, [*JSON_HEADERS, *headers], answer)
        else:
            await self._carry(exchange, stream, headers)

    async def _carry(self, exchange: Exchange, stream: Stream, headers: HeaderList, last: str | None = None) -> None:
        """Answer with a stream of events, until it ends or the client leaves. last: the event to go on after."""
        session = stream.session
        try:
            carrier = await exchange.stream(200, [*SSE_HEADERS, *headers])
        except BaseException:
            stream.expect_no_more()
            raise
        if last is None:
            stream.attach(carrier)
            if stream is session.listening:
                stream.prime()
        else:
            # Asked here, with nothing awaited before `attach`: no event is lost in between, and none comes twice.
            missed = self._store.after(session.id, last)
            if missed is None:
                return carrier.close()
            stream.attach(carrier, missed)
        try:
            await carrier.gone
        finally:
            stream.detach(carrier)
            session.used = asyncio.get_running_loop().time()

    # ------------------------------------------------------------------------------------- GET, DELETE

    async def _get(self, exchange: Exchange, checked: CheckedRequest, principal: str | None) -> None:
        """Carry what belongs to no request, or the rest of a stream that broke."""
        session = await self._session(checked, principal)
        last = checked.last_event_id
        if last is None:
            return await self._carry(exchange, session.listening, checked.cors)
        missed = self._store.after(session.id, last)
        if missed is None:
            raise HttpRefusal(400, f"event {last[:100]!r} is not known in this session, or what followed it is gone")
        # [2025-11-25 basic/transports#resumability-and-redelivery] MUST NOT replay what belongs to a different stream
        stream = session.stream(stream_of(last))
        if stream is not None:
            return await self._carry(exchange, stream, checked.cors, last)
        carrier = await exchange.stream(200, [*SSE_HEADERS, *checked.cors])
        for event in missed:
            carrier.write(encode_event(event.data, id=event.id))
            await carrier.drain()
        carrier.close()

    async def _delete(self, exchange: Exchange, checked: CheckedRequest, principal: str | None) -> None:
        """End a session at once."""
        session = await self._session(checked, principal)
        self._end(session)
        await exchange.respond(204, checked.cors, b"")

    # ------------------------------------------------------------------------------------- sessions

    async def _initialize(
        self, exchange: Exchange, checked: CheckedRequest, message: Request, principal: str | None
    ) -> None:
        """Begin a session. It exists for others only once `initialize` has succeeded."""
        self._make_room()
        # [2025-11-25 basic/transports#session-management] SHOULD be unique and cryptographically secure; visible ASCII
        session = self._begin(secrets.token_urlsafe(24), principal)
        # [2025-11-25 basic/transports#session-management] its id is on the response that has the InitializeResult
        stream = self._open(session, checked, (message.id,))
        assert stream.answer is not None
        try:
            self._store.open(session.id, exchange.request.body, principal)
            await session.receive(message, exchange.request.body)
            answer = await stream.answer
            headers = checked.cors
            if session.opened.done() and session.opened.result():
                headers = [*headers, (SESSION_HEADER, session.id)]
            if answer is not None:
                await exchange.respond(200, [*JSON_HEADERS, *headers], answer)
            else:
                await self._carry(exchange, stream, headers)
        finally:
            if not (session.opened.done() and session.opened.result()):
                self._end(session)

    def _begin(self, id: str, principal: str | None) -> HttpSession:
        session = self.sessions[id] = HttpSession(id, principal, self._store, self._limits, self._trace)
        task = asyncio.create_task(self._converse(session))
        self._conversations.add(task)
        task.add_done_callback(self._conversations.discard)
        self._keep()
        return session

    async def _converse(self, session: HttpSession) -> None:
        try:
            await self._serve(session)
        except Exception:
            log.exception("a session failed")
        finally:
            if not self._closing:  # a store that outlives this process keeps its sessions for the next one
                self._forget(session)
            await session.close()

    def _forget(self, session: HttpSession) -> None:
        if self.sessions.pop(session.id, None) is not None:
            session.is_kept = False
            self._store.forget(session.id)

    def _end(self, session: HttpSession) -> None:
        self._forget(session)
        session.leave()

    async def _session(self, checked: CheckedRequest, principal: str | None) -> HttpSession:
        """The session that a request belongs to."""
        id = checked.session
        if id is None:
            # [2025-11-25 basic/transports#session-management] without the header: SHOULD be 400
            raise HttpRefusal(
                400, f"{SESSION_HEADER} is missing: begin with an initialize request, whose answer has it"
            )
        if checked.revision is not None and find_revision(checked.revision) not in self._handshakes:
            raise self._checks.unsupported(checked.revision)
        session = self.sessions.get(id) or await self._revive(id, principal)
        if session is None or not await asyncio.shield(session.opened) or session.principal != principal:
            # [2025-11-25 basic/transports#session-management] an ended session: MUST be 404. Another's looks the same.
            raise HttpRefusal(
                404, "there is no such session, or it has ended: begin a new one with an initialize request"
            )
        return session

    async def _revive(self, id: str, principal: str | None) -> HttpSession | None:
        """A session of the process before this one, as the store remembers it: its handshake is repeated, unheard."""
        found = self._store.opening(id)
        if found is None or found[1] != principal:
            return None
        message = decode(found[0])
        if not isinstance(message, Request):
            return None
        self._make_room()
        session = self._begin(id, principal)
        session.open_stream((message.id,), True, False)
        await session.receive(message, b"")
        if not await asyncio.shield(session.opened):
            self._end(session)
            return None
        await session.receive(Notification("notifications/initialized"), b"")
        return session

    def _make_room(self) -> None:
        if len(self.sessions) < self._limits.sessions:
            return
        idle = min((session for session in self.sessions.values() if session.is_idle), key=_last_use, default=None)
        if idle is None:
            why = f"all {self._limits.sessions} sessions are in use; try again later"
            raise HttpRefusal(503, why, [("Retry-After", "5")])
        self._end(idle)

    # ------------------------------------------------------------------------------------- time

    def _keep(self) -> None:
        if self._keeper is None or self._keeper.done():
            self._keeper = asyncio.create_task(self._keep_on())

    async def _keep_on(self) -> None:
        """Keep streams alive, and end sessions that nobody uses."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(min(self._limits.keep_alive, self._limits.session_idle))
            oldest = loop.time() - self._limits.session_idle
            for post in (*self._requests, *self._subscriptions):
                post.keep_alive()
            for session in tuple(self.sessions.values()):
                session.keep_alive()
                if session.is_idle and session.used < oldest:
                    self._end(session)
            if not (self.sessions or self._requests or self._subscriptions):
                return

    async def close(self) -> None:
        """End all sessions. A store that outlives the process keeps them for the next one."""
        self._closing = True
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])
        for session in tuple(self.sessions.values()):
            session.leave()
        if self._conversations:
            await asyncio.wait(self._conversations)


def _last_use(session: HttpSession) -> float:
    return session.used


def _unreadable(message: Incoming, revision: Revision) -> bytes | None:
    """The errors for what is no message; None where there is something to hand in."""
    members = message.messages if isinstance(message, Batch) else [message]
    faults = [member for member in members if isinstance(member, Malformed)]
    if not faults or any(isinstance(member, Request) for member in members):
        return None  # beside a request, the dispatcher answers for all
    errors: list[ErrorResponse] = [ErrorResponse(f.id, f.error, omit_id=revision.error_id_optional) for f in faults]
    return encode(Batch([*errors])) if isinstance(message, Batch) else encode(errors[0])


def _asked(message: Incoming, revision: Revision) -> tuple[RequestId, ...]:
    """The ids of the requests in a body. Refuses a batch where the revision has none."""
    if isinstance(message, Request):
        return (message.id,)
    if not isinstance(message, Batch):
        return ()
    if not revision.batch:
        raise HttpRefusal(
            400, f"revision {revision} has no batches (only {R2025_03_26} has): send each message by itself"
        )
    ids = tuple(member.id for member in message.messages if isinstance(member, Request))
    if len(set(ids)) < len(ids):
        raise HttpRefusal(400, "two requests of the batch have the same id")
    return ids
