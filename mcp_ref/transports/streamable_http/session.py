"""A Streamable HTTP session on the server: one conversation over many HTTP requests.

The dispatcher uses a session like any other transport. Each POST with requests opens a `Stream`, and a GET opens the
listening stream, for messages that belong to no request. A stream can outlive the HTTP response that sends its events:
if that breaks off, the client resumes the stream with a GET, and gets the events that it missed.

The server MUST send each message on exactly one stream, because a client that received a request on two streams would
serve it twice [2025-11-25 basic/transports#multiple-connections].

Events MAY have ids, with which a client resumes. A server SHOULD NOT close the connection before it has sent the
response. Since 2025-11-25 it MAY do so after an event with an id and a `retry` time. The client reconnects when this
time is over, so a long wait needs no connection [2025-11-25 changelog#minor-changes].

Spec:  basic/transports#streamable-http (2025-03-26 to 2025-11-25): sending, listening, resumability
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable
from enum import Enum, auto

from ...basic.access import Access
from ...jsonrpc.errors import McpError
from ...jsonrpc.messages import Batch, ErrorResponse, Notification, Outgoing, Request, RequestId, Response, encode
from ...lib.http.message import Exchange, HeaderList, StreamingResponse
from ...lib.http.sse import encode_comment, encode_event
from ...lib.shares import Shares
from ...lib.turns import note_size
from ...revisions import LATEST_LEGACY, R2025_03_26, find_revision
from ..base import ServedSession, Trace
from .checks import JSON_HEADERS, SESSION_HEADER, SSE_HEADERS, CheckedRequest, HttpRefusal, refuse, unknown_session
from .event_store import Event, MemoryEventStore
from .kept_requests import KeptRequests, name_with_id
from .posted_session import EndpointLimits, SessionTransport

log = logging.getLogger(__name__)

LISTENING = "get"  # the name of the listening stream, which belongs to no request


class StreamState(Enum):
    """The states of a stream. (`Stream` has the diagram.)"""

    UNDECIDED = auto()  # before the first message, which decides between a JSON response and an event stream
    REPLAYING = auto()  # an HTTP response sends missed events first, while new ones go only to the event store
    CONNECTED = auto()  # an HTTP response sends the events
    DETACHED = auto()  # no HTTP response sends the events; the client can resume from the event store
    ENDED = auto()  # the last message was sent, or the session has ended


UNDECIDED, REPLAYING, CONNECTED, DETACHED, ENDED = StreamState  # as globals, which are faster than attributes


class Stream:
    """The server-sent-event stream that one POST or GET began.

        UNDECIDED --open--> CONNECTED --detach--> DETACHED --begin_replay--> REPLAYING
                                ^                                                |
                                +---------------------attach---------------------+

    `end` leads from each state to ENDED, as a JSON response does from UNDECIDED. `forget_post` leads from UNDECIDED to
    DETACHED, and `begin_replay` from CONNECTED to REPLAYING if the client resumes while the server still sends to its
    old connection. The listening stream begins in DETACHED, so that the store keeps its events for the first GET.
    """

    def __init__(self, session: HttpSession, name: str, ids: tuple[RequestId, ...] = ()) -> None:
        self.session, self.name = session, name
        self.ids = ids  # of the requests whose responses end the stream
        self.accepts_json, self.accepts_sse = True, False  # without SSE, only the response can be sent
        self.state = UNDECIDED if ids else DETACHED
        self._exchange: Exchange | None = None  # the POST, only in UNDECIDED
        self._access: Access | None = None  # the rights of its caller, in which a handler can set a `refusal` to send
        self.headers: HeaderList = []  # further headers of the response
        self.response: StreamingResponse | None = None  # not None in REPLAYING and CONNECTED
        self._expiry: asyncio.TimerHandle | None = None  # closes the response when the access token expires
        self.first_unsent = ""  # the id of the first event that no response has sent; "" if all are sent

    def respond_to(self, exchange: Exchange, checked: CheckedRequest, json_only: bool, access: Access | None) -> None:
        """Respond to this POST with the stream's events, or with its JSON response, or with the refusal in `access`."""
        self.accepts_json, self.accepts_sse = checked.accepts_json, checked.accepts_sse and not json_only
        self._exchange, self.headers, self._access = exchange, checked.cors, access
        exchange.respond_later(self.forget_post)

    def forget_post(self) -> None:
        """Forget the POST, whose request the HTTP server has given up. The stream continues."""
        self._exchange = None
        if self.state is UNDECIDED:
            self.state = DETACHED

    def put(self, frame: bytes, is_last: bool = False) -> None:
        if self.state is UNDECIDED:
            if is_last and self.accepts_json:
                return self._respond(frame)
            self._open()
            self.send_first_id()
        self._emit(frame)
        if is_last:
            self.end()

    def _respond(self, frame: bytes) -> None:
        exchange, self._exchange = self._exchange, None
        self.state = ENDED
        self.session.remove_stream(self)
        if exchange is not None and self._access is not None and self._access.refusal is not None:
            refuse(exchange, self._access.refusal, self.headers)
        elif exchange is not None:
            exchange.respond(200, [*JSON_HEADERS, *self.headers], frame)

    def _open(self) -> None:
        """Begin an event stream as the response to the POST, if it still waits for one."""
        exchange, self._exchange = self._exchange, None
        if self.state is UNDECIDED:
            self.state = DETACHED
            if exchange is not None:
                response = exchange.stream(200, [*SSE_HEADERS, *self.headers])
                self.begin_replay(response)  # without missed events, so attach at once
                self.attach(response)

    def send_first_id(self) -> None:
        """Send an event id (from 2025-11-25), so that the client can resume even before the first message."""
        # [2025-11-25 basic/transports#sending-messages-to-the-server] a server SHOULD send an id with empty data
        if self.session.revision.server_can_close_streams:
            self._emit(b"")

    def _emit(self, data: bytes) -> None:
        id = self.session.store_event(self.name, data)
        if self.state is CONNECTED and self.response is not None:
            return self.response.write(self.session.encode(id, data))
        self.first_unsent = self.first_unsent or id  # the store keeps it for the client's next GET

    def begin_replay(self, response: StreamingResponse, ends_at: float | None = None) -> None:
        """Reserve the stream for this response, which sends missed events until `attach`."""
        self._close_and_enter(REPLAYING)  # closes the response of an earlier GET or POST: the client left it
        self.response = response
        if ends_at is not None:  # the end of the access token, in seconds since 1970; a new one can resume
            self._expiry = asyncio.get_running_loop().call_later(ends_at - time.time(), response.close)

    def attach(self, response: StreamingResponse) -> None:
        """Send all further events on the response of `begin_replay`, unless a later response has replaced it."""
        if self.response is not response:
            return
        if self.state is ENDED:
            return self._close_and_enter(ENDED)
        if not response.ended.done():  # otherwise it may have ended before it sent all missed events
            self.first_unsent = ""
        self.state = CONNECTED
        response.keep_open(self._detach)  # detaches at once if the response has ended

    def _detach(self, response: StreamingResponse) -> None:
        self.session.touch()
        # [2025-11-25 basic/transports#sending-messages-to-the-server] a disconnection is not a cancellation
        if self.response is response:
            self._close_and_enter(DETACHED)

    def interrupt(self) -> bool:
        """End the response but not the stream, so that the client reconnects. Return False if the client cannot."""
        can_resume = self.session.revision.server_can_close_streams and self.session.store is not None
        if self.state is ENDED or not can_resume or not self.accepts_sse:
            return False
        if self.state is UNDECIDED:
            self._open()
            self.send_first_id()
        self._close_and_enter(DETACHED)
        return True

    def end(self) -> None:
        """End the stream and its response. If the session has ended, refuse the POST that still waits."""
        if self._exchange is not None and self.session.has_ended:
            refuse(self._exchange, self.session.refusal_at_end(), self.headers)
            self._exchange = None
        self._open()  # so a POST that still waits gets an event stream, which ends at once
        if self.state is REPLAYING:
            self.state = ENDED  # the response still sends the stored events, and ends in `attach`
        else:
            self._close_and_enter(ENDED)
        self.session.remove_stream(self)

    def _close_and_enter(self, state: StreamState) -> None:
        response, self.response = self.response, None
        self.state = state
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        if response is not None:
            response.close()

    def keep_alive(self) -> None:
        if self.response is not None:
            self.response.write(encode_comment())


class HttpSession(SessionTransport):
    """The server's transport of one Streamable HTTP session."""

    def __init__(
        self, id: str, access: Access, store: MemoryEventStore, limits: EndpointLimits, trace: Trace | None,
        in_flight: Shares, on_end: Callable[[HttpSession], None], size: int = 0,
    ) -> None:  # fmt: skip
        super().__init__(access, trace, in_flight)
        self.size = size  # its memory as the table counts it, in bytes
        self.served: ServedSession | None = None  # None until the session has begun
        self.restoration: asyncio.Task[None] | None = None  # not None while stored requests are handled again
        self.kept: KeptRequests | None = None  # the requests that a later process must handle again
        self.refusal_at_end: Callable[[], HttpRefusal] = unknown_session  # for POSTs that wait when the session ends
        self.id, self.limits, self._on_end = id, limits, on_end
        self.store: MemoryEventStore | None = store  # None after the session has ended or the store has failed
        self.revision = LATEST_LEGACY
        # pending until the response to `initialize` is sent, then True if that succeeded
        self.initialized: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.listening = Stream(self, LISTENING)
        self.last_used = time.monotonic()
        self.was_used = False  # True after a request other than `initialize`
        self.at_next_use: list[Callable[[HttpSession], None]] = []  # functions to call once, at the next use
        self.streams: dict[str, Stream] = {LISTENING: self.listening}  # those that have not ended, by name
        self.streams_by_request: dict[RequestId, Stream] = {}  # those of the requests in flight, by request id
        self.stream_prefix = secrets.token_hex(4)  # random, so that no stream has a name of an earlier process
        self._stream_number = 0

    def send(self, message: Outgoing, related: RequestId | None = None) -> None:
        """Put a message on the stream of the request that caused it, or else on the listening stream."""
        frame = encode(message)
        note_size(len(frame))
        if self._trace is not None:
            self._trace("->", frame)
        # `_ends_stream` alone would do, but most messages have one of the two types, which saves them the call.
        is_last = type(message) is Response or (type(message) is not Notification and _ends_stream(message))
        if is_last and self.kept is not None:
            self.kept.settle(message)
        stream = self.streams_by_request.get(related) if related is not None else None
        if stream is not None and (is_last or stream.accepts_sse):
            if self.initialized.done():
                stream.put(frame, is_last)
            else:
                self._put_during_initialize(message, frame, stream, is_last)
        elif not is_last:
            # [2025-11-25 basic/transports#listening-for-messages-from-the-server] a server MUST NOT send responses here
            self.listening.put(frame)

    def _put_during_initialize(self, message: Outgoing, frame: bytes, stream: Stream, is_last: bool) -> None:
        """Send a message during `initialize`. If it is the response, store the outcome."""
        if isinstance(message, Response):
            self.revision = find_revision(message.result.get("protocolVersion")) or self.revision
            # [2025-11-25 basic/transports#session-management] the id is on the response with the InitializeResult
            stream.headers = [*stream.headers, (SESSION_HEADER, self.id)]
            self.initialized.set_result(stream.state is UNDECIDED)  # otherwise the head was sent without the id
        elif isinstance(message, ErrorResponse):
            self.initialized.set_result(False)
        stream.put(frame, is_last)
        if self.initialized.done() and not self.initialized.result():
            self.end()

    @property
    def has_ended(self) -> bool:  # even if some of its requests are still in flight
        return self._end_report.is_sent

    def end(self, error: McpError | None = None) -> None:
        if not self.has_ended:
            super().end(error)
            self._on_end(self)

    def end_without_response(self, related: RequestId) -> None:
        if (stream := self.streams_by_request.get(related)) is not None:
            stream.end()

    def close_stream(self, related: RequestId) -> bool:
        stream = self.streams_by_request.get(related)
        return stream is not None and stream.interrupt()

    @property
    def has_room(self) -> bool:
        return self.listening.response is None or self.listening.response.has_room

    async def drain(self, related: RequestId | None = None) -> None:
        stream = self.listening if related is None else self.streams_by_request.get(related)
        if stream is None:
            return
        if stream.response is None:
            await asyncio.sleep(0)  # no client reads the stream, so only let other tasks run
        elif not stream.response.has_room:
            await stream.response.drain()

    async def close(self) -> None:
        if not self.initialized.done():
            self.initialized.set_result(False)
        await super().close()
        for stream in tuple(self.streams.values()):
            stream.end()

    def ids_in(self, message: object) -> tuple[RequestId, ...]:
        """Return the ids of a batch's requests. Raise HttpRefusal for a forbidden batch or a duplicate id."""
        if not isinstance(message, Batch):
            return ()
        if not self.revision.batch:
            why = f"revision {self.revision} has no batches (only {R2025_03_26} has them)"
            raise HttpRefusal(400, f"{why}: send each message in a separate POST")
        ids = tuple(member.id for member in message.messages if isinstance(member, Request))
        if len(set(ids)) < len(ids):
            raise HttpRefusal(400, "two requests of the batch have the same id; use a different id for each")
        return ids

    def open_stream(self, ids: tuple[RequestId, ...]) -> Stream:
        """Return a new stream for the requests of one POST. `ids` must not contain the id of a request in flight."""
        self._stream_number += 1
        if len(ids) == 1 and type(ids[0]) is int and 0 <= ids[0] < 2**63:  # as usual; faster than `name_with_id`
            name = f"{self.stream_prefix}-{self._stream_number}-{ids[0]}"  # restoration.py reads the id
        else:
            name = name_with_id(f"{self.stream_prefix}-{self._stream_number}", ids)
        stream = self.streams[name] = Stream(self, name, ids)
        for id in ids:
            self.streams_by_request[id] = stream
        return stream

    def store_event(self, stream: str, data: bytes) -> str:
        """Store an event, and return its id. Return "" if the client cannot resume after this event."""
        if self.store is None:
            return ""
        try:
            return self.store.append(self.id, stream, data)
        except Exception:
            log.exception("an event could not be stored; from now on, clients cannot resume streams of this session")
            self.store = None  # a replay would have a gap
            return ""

    def encode(self, id: str, data: bytes) -> bytes:
        # [2025-11-25 basic/transports#sending-messages-to-the-server] a server SHOULD send `retry` before it closes
        retry = self.limits.retry if not data else None  # only the event of `send_first_id` has no data
        return encode_event(data, id=id or None, retry=retry)

    def events_after(self, event_id: str) -> list[Event] | None:
        """Return the later events of an event's stream, or None if some of them are lost."""
        return self.store.events_after(self.id, event_id) if self.store is not None else None

    def events_from(self, event_id: str) -> list[Event]:
        """Return an event and the later ones of its stream that are still stored; none for the id ""."""
        return self.store.events_from(self.id, event_id) if self.store is not None and event_id else []

    def remove_stream(self, stream: Stream) -> None:
        self.touch()
        self.streams.pop(stream.name, None)  # its events stay in the store
        for id in stream.ids:
            self.streams_by_request.pop(id, None)

    def admit(self, access: Access) -> None:
        """Note the use of this session. Raise HttpRefusal for another caller, or if `initialize` has failed."""
        if not self.initialized.result() or self.principal != access.id:
            raise unknown_session()  # for another caller, too, because another status would say that it exists
        access.session_id = self.id
        if access.ends_at is not None:
            self.latest_access = access.to_keep(self.latest_access)  # a subscription can outlive its own token
        self.touch()

    def touch(self) -> None:
        self.last_used = time.monotonic()
        while self.at_next_use:
            self.at_next_use.pop()(self)

    @property
    def is_idle(self) -> bool:
        return not self.streams_by_request and self.listening.state is DETACHED


def _ends_stream(message: Outgoing) -> bool:
    if isinstance(message, Batch):
        return not any(isinstance(member, Request) for member in message.messages)
    return isinstance(message, (Response, ErrorResponse))
