"""A session of Streamable HTTP: one client's conversation, spread over many HTTP requests.

    POST a request   -> Session.open_stream -> a Stream, until its answer was sent
    GET              -> the listening Stream, for what belongs to no request
    Session.send     -> the Stream of the request that caused the message; for others, the listening one

To the dispatcher a session is a transport like any other. A stream is the flow of messages that one POST (or GET)
began; an HTTP response only carries it for a while. When the response breaks, the stream goes on: what it sends is in
the event store, and waits for the client to come back.

Spec:  basic/transports#streamable-http, its parts on sending, listening and resuming (2025-03-26 to 2025-11-25)
Above: streamable_http.py, which answers the HTTP requests. Below: events.py
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from dataclasses import dataclass

from ...jsonrpc.errors import ConnectionClosed
from ...jsonrpc.messages import Batch, ErrorResponse, Incoming, Outgoing, Request, RequestId, Response, encode
from ...lib.http.message import StreamingResponse
from ...lib.http.sse import encode_comment, encode_event
from ...revisions import LATEST_LEGACY, find_revision
from ..base import FlowControl, Lost, Receive, Trace, Transport
from .event_store import Event, EventStore

log = logging.getLogger(__name__)

LISTENING = "get"
"""The name of the stream that belongs to no request."""


@dataclass(frozen=True, slots=True)
class EndpointLimits:
    """What clients may make an endpoint hold, and for how long."""

    sessions: int = 10_000
    """Sessions at a time. Then the one that was idle longest makes room; when none is idle, 503."""
    session_idle: float = 1800.0
    """Seconds that a session may be unused: without request in flight and without stream open. Then it ends."""
    streams: int = 512
    """Streams of one session at a time: 429."""
    requests: int = 1000
    """Requests of the stateless era served at a time, those of `subscriptions` aside: 503."""
    subscriptions: int = 10_000
    """Subscriptions of the stateless era open at a time: 503."""
    waiting_events: int = 1000
    """Messages that wait for a client without a listening stream; the oldest go first."""
    waiting_bytes: int = 4 * 1024 * 1024
    """Their size."""
    keep_alive: float = 15.0
    """Seconds between comments on a silent stream, so that nobody on the way takes it for dead."""
    retry: int = 1000
    """Milliseconds after which a client comes back for a stream whose connection ended early."""


class Stream:
    """The flow of messages that one POST or GET began. Outlives the HTTP responses that carry it."""

    def __init__(self, session: HttpSession, name: str, ids: tuple[RequestId, ...] = ()) -> None:
        self.session = session
        self.name = name
        self.ids = ids
        """The requests that it answers."""
        self.ended = False
        self.takes_json = False
        """Whether the client takes its answer as JSON."""
        self.takes_sse = True
        """Whether it takes messages before that."""
        self.answer: asyncio.Future[bytes | None] | None = None
        """The answer, if it is the first thing that is sent; None when a stream of events must carry it."""
        self._carrier: StreamingResponse | None = None
        self._was_carried = False
        self._interrupted = False
        self._attached: asyncio.Event | None = None  # while a response is about to carry it
        self._waiting: list[Event] = []
        self._waiting_bytes = 0

    @property
    def is_carried(self) -> bool:
        """Whether an HTTP response carries it now."""
        return self._carrier is not None

    def put(self, frame: bytes, final: bool = False) -> None:
        """Send one message; the final one ends the stream."""
        if final and self.takes_json and self.answer is not None and not self.answer.done():
            self.answer.set_result(frame)
            return self.end()
        self.open()
        self._emit(frame)
        if final:
            self.end()

    def open(self) -> None:
        """Events will carry it, if that is not decided yet."""
        if self.answer is not None and not self.answer.done():
            self.answer.set_result(None)
            self._attached = asyncio.Event()
            self.prime()

    def prime(self) -> None:
        """Give the client an event id before there is any message, so that it can come back for the first one."""
        # [2025-11-25 basic/transports#sending-messages-to-the-server] SHOULD: an event id and an empty data field
        if self.session.revision.streams_are_polled:
            self._emit(b"")

    def _emit(self, data: bytes) -> None:
        event = Event(self.session.keep(self.name, data), data)
        if self._carrier is not None:
            self._carrier.write(self._written(event))
            return
        if self._was_carried and self.name != LISTENING:
            return  # its client knows an event id, and will ask the store
        self._waiting.append(event)
        self._waiting_bytes += len(data)
        limits = self.session.limits
        while len(self._waiting) > limits.waiting_events or self._waiting_bytes > limits.waiting_bytes:
            self._waiting_bytes -= len(self._waiting.pop(0).data)

    def _written(self, event: Event) -> bytes:
        # [2025-11-25 basic/transports#sending-messages-to-the-server] SHOULD send retry before closing a connection
        return encode_event(
            event.data, id=event.id or None, retry=self.session.limits.retry if not event.data else None
        )

    def attach(self, carrier: StreamingResponse, missed: list[Event] | None = None) -> None:
        """From now on, this response carries the stream, beginning with `missed`; by default, with what waited."""
        previous, self._carrier, self._was_carried = self._carrier, carrier, True
        self.expect_no_more()
        if previous is not None:
            previous.close()  # a client that comes again has lost its connection, whether we have noticed or not
        for event in self._waiting if missed is None else missed:
            carrier.write(self._written(event))
        self._waiting.clear()
        self._waiting_bytes = 0
        if self.ended or self._interrupted:
            self._interrupted = False
            self._release()

    def expect_no_more(self) -> None:
        """No response is about to carry it any more: it does, or never will."""
        if self._attached is not None:
            self._attached.set()
            self._attached = None

    def detach(self, carrier: StreamingResponse) -> None:
        """The response has ended, for whatever reason."""
        # [2025-11-25 basic/transports#sending-messages-to-the-server] a disconnection is not a cancellation
        if self._carrier is carrier:
            self._carrier = None

    def interrupt(self) -> bool:
        """End the response, not the stream: the client comes back for the rest. False where it cannot."""
        if self.ended or not self.session.revision.streams_are_polled or not self.takes_sse:
            return False
        self.open()
        self._interrupted = self._attached is not None  # its response is about to begin, and ends then
        self._release()
        return True

    def _release(self) -> None:
        carrier, self._carrier = self._carrier, None
        if carrier is not None:
            carrier.close()

    def keep_alive(self) -> None:
        """Show that it is there."""
        if self._carrier is not None:
            self._carrier.write(encode_comment())

    async def drain(self) -> None:
        """Wait until the client has read enough."""
        if self._attached is not None:
            await self._attached.wait()
        if self._carrier is not None:
            await self._carrier.drain()
        else:
            await asyncio.sleep(0)  # nobody reads: then let others have their turn, at least

    def end(self) -> None:
        """Nothing more will come."""
        if self.answer is not None and not self.answer.done():
            self.answer.set_result(None)
        self.ended = True
        self.expect_no_more()
        self.session.forget(self)
        self._release()


class HttpSession(Transport):
    """One client's session, as the transport of its connection."""

    def __init__(
        self,
        id: str,
        principal: str | None,
        store: EventStore,
        limits: EndpointLimits,
        trace: Trace | None = None,
    ) -> None:
        self.id = id
        self.principal = principal
        """Whose it is, where clients are asked to authenticate."""
        self.revision = LATEST_LEGACY
        self.store = store
        self.limits = limits
        self.opened: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        """Whether `initialize` succeeded, once that is known."""
        self.is_kept = True
        """Whether the store keeps its events: until the session ends. What is still said then has no id."""
        self.listening = Stream(self, LISTENING)
        self.used = asyncio.get_running_loop().time()
        self._trace = trace
        self._streams: dict[str, Stream] = {LISTENING: self.listening}
        self._by_request: dict[RequestId, Stream] = {}
        self._posts = 0
        self._run = secrets.token_hex(4)  # tells our streams from those of an earlier process with the same session
        self._receive: Receive | None = None
        self._lost: Lost | None = None
        self._left = False
        self._reading = FlowControl()
        self._reading.shut()  # until `start`

    # ------------------------------------------------------------------------------------- for the connection

    async def start(self, receive: Receive, lost: Lost) -> None:
        """Deliver what comes."""
        self._receive, self._lost = receive, lost
        self._reading.open()
        if self._left:
            self.leave()

    def send(self, message: Outgoing, related: RequestId | None = None) -> None:
        """Put a message on the stream of the request that caused it; without one, on the stream that listens."""
        frame = encode(message)
        if self._trace is not None:
            self._trace("->", frame)
        final = _is_answer(message)
        # [2025-11-25 basic/transports#multiple-connections] MUST send each message on only one of the streams
        stream = self._by_request.get(related) if related is not None else None
        if stream is not None and (final or stream.takes_sse):
            if not self.opened.done():
                self._establish(message)
            stream.put(frame, final)
        elif not final:
            # [2025-11-25 basic/transports#listening-for-messages-from-the-server] MUST NOT send a response on it
            self.listening.put(frame)

    def _establish(self, answer: Outgoing) -> None:
        """The first answer is that to `initialize`; it says which revision is spoken."""
        if isinstance(answer, Response):
            self.revision = find_revision(answer.result.get("protocolVersion")) or self.revision
            self.opened.set_result(True)
        elif isinstance(answer, ErrorResponse):
            self.opened.set_result(False)

    def no_response(self, related: RequestId) -> None:
        """A cancelled request: its stream ends without an answer."""
        stream = self._by_request.get(related)
        if stream is not None:
            stream.end()

    def interrupt(self, related: RequestId) -> bool:
        """End the response that carries a request's stream; the client comes back for the rest."""
        stream = self._by_request.get(related)
        return stream is not None and stream.interrupt()

    async def drain(self, related: RequestId | None = None) -> None:
        """Wait until the client has read enough of the stream that `send` would choose."""
        stream = self._by_request.get(related) if related is not None else self.listening
        if stream is not None:
            await stream.drain()

    def pause_reading(self) -> None:
        """Let no further message in."""
        self._reading.shut()

    def resume_reading(self) -> None:
        """Let messages in again."""
        self._reading.open()

    async def close(self) -> None:
        """End all streams."""
        self._receive = None
        if not self.opened.done():
            self.opened.set_result(False)
        for stream in tuple(self._streams.values()):
            stream.end()
        self._reading.open()
        if self._lost is not None:
            lost, self._lost = self._lost, None
            lost(ConnectionClosed("the session has ended"))

    # ------------------------------------------------------------------------------------- for the endpoint

    async def receive(self, message: Incoming, frame: bytes) -> None:
        """Hand in what came, when there is room for it."""
        self.used = asyncio.get_running_loop().time()
        if self._trace is not None and frame:
            self._trace("<-", frame)
        while not self._reading.is_open:
            await self._reading.wait()
        if self._receive is not None:
            self._receive(message)

    def leave(self) -> None:
        """The client has left, or is taken to have: the conversation comes to its end."""
        self._left = True
        if self._lost is not None:
            lost, self._lost = self._lost, None
            lost(None)

    def open_stream(self, ids: tuple[RequestId, ...], takes_json: bool, takes_sse: bool) -> Stream:
        """The stream of a POST that asks these requests. None of the ids may be in use, see `is_asked`."""
        self._posts += 1
        stream = Stream(self, f"{self._run}-{self._posts}", ids)
        stream.takes_json, stream.takes_sse = takes_json, takes_sse
        stream.answer = asyncio.get_running_loop().create_future()
        self._streams[stream.name] = stream
        for id in ids:
            self._by_request[id] = stream
        return stream

    def is_asked(self, id: RequestId) -> bool:
        """Whether a request of this id is in flight."""
        return id in self._by_request

    def stream(self, name: str) -> Stream | None:
        """A stream that has not ended."""
        return self._streams.get(name)

    def keep(self, stream: str, data: bytes) -> str:
        """Put an event into the store; gives its id, empty where it cannot be had again."""
        if not self.is_kept:
            return ""
        try:
            return self.store.append(self.id, stream, data)
        except Exception:
            log.exception("an event cannot be stored, so no client can come back to it")
            return ""

    def forget(self, stream: Stream) -> None:
        """A stream has ended; its events stay in the store."""
        self.used = asyncio.get_running_loop().time()
        self._streams.pop(stream.name, None)
        for id in stream.ids:
            self._by_request.pop(id, None)

    @property
    def stream_count(self) -> int:
        """How many streams have not ended."""
        return len(self._streams)

    @property
    def is_idle(self) -> bool:
        """Whether no request is in flight and no client listens."""
        return not self._by_request and not self.listening.is_carried

    def keep_alive(self) -> None:
        """Show on every stream that we are there."""
        for stream in self._streams.values():
            stream.keep_alive()


def _is_answer(message: Outgoing) -> bool:
    if isinstance(message, Batch):
        return not any(isinstance(member, Request) for member in message.messages)
    return isinstance(message, (Response, ErrorResponse))
