"""HTTP exchanges: find the dialogue of each request, and judge heads, bodies and events as they come.

Each session of the legacy era (the revisions with a handshake) is a dialogue; in Streamable HTTP, a header names it.
The requests without a session share one dialogue, and the stateless requests of the modern era another, so both can mix
several clients. In HTTP+SSE, the first event of a stream names the URL of the POST requests that belong to it.

Used by: conversation.py
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urljoin

from ..basic.versioning import PROTOCOL_VERSION
from ..lib.http.message import Headers
from ..revisions import Revision, find_revision
from .findings import FindingTable
from .memory import forget, forget_refused
from .reader import Reader, Source, opens_session
from .recording import Content, HttpBody, HttpEnd, HttpEvent, HttpRequest, HttpResponse, Side
from .rules import On
from .state import (
    SESSION_HEADER,
    VERSION_HEADER,
    Bounded,
    Dialogue,
    Exchange,
    Message,
    SessionEnd,
    StreamEvent,
    url_parts,
)

MAX_SESSIONS: Final = 10_000
"""Maximum number of sessions that are observed at the same time."""
MAX_OPEN: Final = 10_000
"""Maximum number of exchanges without an end."""
_MODERN: Final = " modern"
_SESSIONLESS: Final = " sessionless"
"""The names of the dialogues without a session id. A session id has no space, so it is never one of them."""


class Exchanges:
    """The exchanges and sessions of a recording over HTTP. `named_revision` is for messages that name no revision."""

    def __init__(self, findings: FindingTable, reader: Reader, url: str, named_revision: Revision | None) -> None:
        self._findings, self._reader, self._named_revision = findings, reader, named_revision
        self.dialogues: Bounded[str, Dialogue] = Bounded(MAX_SESSIONS)
        """The session id, `_MODERN`, `_SESSIONLESS`, or the URL for messages in HTTP+SSE -> the dialogue."""
        self.open: Bounded[int, Exchange] = Bounded(MAX_OPEN)
        self._endpoint = url_parts(url).path or ("/" if url else "")
        self._latest_revision: Revision | None = None
        self._latest_session: Dialogue | None = None
        self._has_sessionless_clients = False
        self._has_lost_events = False

    def receive(self, event: HttpRequest | HttpResponse | HttpBody | HttpEvent | HttpEnd, number: int) -> None:
        """Judge a request, a head, a body or an event of a stream, and the messages in it.

        An `HttpEnd` removes the exchange from `open`. An event whose request is not in `open` is ignored.
        """
        if isinstance(event, HttpRequest):
            self._receive_request(event, number)
            return
        exchange = self.open.get(event.number)
        if exchange is None:
            return
        match event:
            case HttpResponse():
                self._receive_head(event, number, exchange)
            case HttpBody():
                self._receive_body(event, number, exchange)
            case HttpEvent():
                self._receive_event(event, number, exchange)
            case HttpEnd():
                self._end(event, number, exchange)

    def _receive_request(self, event: HttpRequest, number: int) -> None:
        body = event.content.data
        placeholder = Dialogue("http")  # until `_dialogue_of` finds the real one, for which it needs the exchange
        exchange = Exchange(
            number, event.method, event.target, Headers(event.headers), placeholder, body, event.content.is_whole,
            event.masked, at=event.at, connection=event.connection,
        )  # fmt: skip
        exchange.is_at_endpoint = self._is_at_endpoint(exchange)
        exchange.dialogue = self._dialogue_of(exchange)
        exchange.revision = self._revision_of(exchange)
        exchange.resumes = exchange.dialogue.stream_of(exchange.header("last-event-id"))
        self.open[event.number] = exchange
        if exchange.is_at_endpoint and event.method == "POST" and body:
            exchange.messages = self._reader.read(Source(event, number, "client", exchange.dialogue, exchange))
            if exchange.requests and exchange.requests[0].revision is not None:
                exchange.revision = exchange.requests[0].revision
        self._latest_revision = exchange.revision or self._latest_revision
        self._judge("exchange", exchange, number)
        if exchange.is_at_endpoint and "authorization" in exchange.headers:
            exchange.dialogue.is_authorized = True
        if event.method == "DELETE":
            exchange.dialogue.is_leaving = True

    def _receive_head(self, event: HttpResponse, number: int, exchange: Exchange) -> None:
        exchange.status = event.status
        exchange.response_headers = Headers(event.headers)
        dialogue = exchange.dialogue
        if exchange.is_opening and dialogue.transport == "http":  # over HTTP+SSE, the stream has begun the dialogue
            self._begin_session(exchange, dialogue)
        self._judge("head", exchange, number)
        end = SessionEnd(number, event.at, event.connection)
        if event.status == 404 and dialogue.session_id is not None:
            dialogue.not_found = end
        elif dialogue.deleted is None and exchange.method == "DELETE" and exchange.is_success:
            dialogue.deleted = end

    def _receive_body(self, event: HttpBody, number: int, exchange: Exchange) -> None:
        exchange.response_body = event.content.data if event.content.is_whole else None
        # a proxy or an authorization layer refuses requests with JSON of its own, which is not a message
        is_message = exchange.is_success or b'"jsonrpc"' in event.content.data
        is_json = exchange.response_headers.media_type == "application/json" and event.content.size > 0
        if exchange.is_at_endpoint and exchange.dialogue.transport == "http" and is_json and is_message:
            source = Source(event, number, "server", exchange.dialogue, exchange)
            exchange.response_messages = self._reader.read(source)

    def _receive_event(self, event: HttpEvent, number: int, exchange: Exchange) -> None:
        exchange.event_count += 1
        messages: list[Message] = []
        if event.type == "endpoint" and exchange.event_count == 1:
            self._begin_sse(exchange, event.content)
        elif event.type == "message" and event.content.size and exchange.is_at_endpoint:
            messages = self._reader.read(Source(event, number, "server", exchange.dialogue, exchange))
        stream_event = StreamEvent(number, exchange, event.id, not event.content.size, messages)
        if exchange.is_at_endpoint:
            revision = exchange.revision or exchange.dialogue.known_revision
            self._findings.judge("event", stream_event, "", revision, "server", number)
        exchange.response_count += sum(message.is_response for message in messages)
        if event.retry is not None:
            exchange.retry = event.retry
        if event.id:
            exchange.last_event_id = event.id
            exchange.dialogue.event_ids[event.id] = exchange

    def _end(self, event: HttpEnd, number: int, exchange: Exchange) -> None:
        del self.open[event.number]
        exchange.end, exchange.ended_at = event.how, event.at
        self._judge("end", exchange, number)
        if not exchange.is_success:
            forget_refused(exchange)
        exchange.body, exchange.response_body = b"", None
        exchange.messages, exchange.response_messages = [], []

    def lose(self) -> None:
        """Forget everything that may no longer be true, because events were lost."""
        self.open.clear()
        self._has_lost_events = True
        for name, dialogue in self.dialogues.items():
            forget(dialogue)
            if name == _SESSIONLESS:
                dialogue.is_shared = True  # a second client may have begun, whose handshake was lost

    def _judge(self, on: On, exchange: Exchange, number: int) -> None:
        revision = exchange.revision or exchange.dialogue.known_revision
        side: Side = "client" if on == "exchange" else "server"
        self._findings.judge(on, exchange, exchange.method, revision, side, number)

    def _is_at_endpoint(self, exchange: Exchange) -> bool:
        """Return True for a request to the MCP server. It goes to the server's URL, or posts a JSON-RPC message. If the
        URL is unknown, the headers decide about a GET or DELETE."""
        path = url_parts(exchange.target).path
        if "/.well-known/" in path:
            return False
        if exchange.target in self.dialogues or (self._endpoint and path == self._endpoint):
            return True
        if exchange.method == "POST":
            return b'"jsonrpc"' in exchange.body
        if self._endpoint:
            return False
        is_stream = exchange.method == "GET" and "text/event-stream" in (exchange.header("accept") or "")
        return is_stream or (exchange.method == "DELETE" and SESSION_HEADER in exchange.headers)

    def _revision_of(self, exchange: Exchange) -> Revision | None:
        """Return the revision of a request. Messages in its body can name another one later."""
        named = exchange.dialogue.revision or find_revision(exchange.header(VERSION_HEADER)) or self._named_revision
        if named is None and not exchange.is_at_endpoint:
            return self._latest_revision  # most requests of authorization name no revision
        return named

    def _dialogue_of(self, exchange: Exchange) -> Dialogue:
        """Return the dialogue of a request. Requests of unknown clients share a dialogue."""
        if exchange.target in self.dialogues:
            return self.dialogues[exchange.target]
        session = exchange.header(SESSION_HEADER)
        if session is None and "session" in url_parts(exchange.target).query.lower():
            # a POST of HTTP+SSE, but the event that named its URL is not in the recording
            dialogue = self.dialogues[exchange.target] = Dialogue("sse", self._named_revision)
            return dialogue
        if self._is_stateless(exchange):
            dialogue = self._dialogue_named(_MODERN)
            dialogue.is_shared = True
            return dialogue
        if opens_session(exchange.body):
            return Dialogue("http", self._named_revision, is_fully_seen=True)
        if session is None and not self._has_sessionless_clients:
            exchange.other_session = self._latest_session  # proves that this server gives out ids
        dialogue = self._dialogue_named(session or _SESSIONLESS)
        dialogue.session_id = session
        if session is None and dialogue.initialize is None:
            dialogue.is_shared = True
        return dialogue

    def _is_stateless(self, exchange: Exchange) -> bool:
        """Return True for a modern request. The version header decides; without a valid one, the body does."""
        version = find_revision(exchange.header(VERSION_HEADER))
        if version is not None:
            return version.era == "modern"
        has_known_session = exchange.header(SESSION_HEADER) in self.dialogues
        return not has_known_session and PROTOCOL_VERSION.encode() in exchange.body

    def _dialogue_named(self, name: str) -> Dialogue:
        dialogue = self.dialogues.get(name)
        if dialogue is None:
            dialogue = self.dialogues[name] = Dialogue("http", self._named_revision)
        return dialogue

    def _begin_session(self, exchange: Exchange, dialogue: Dialogue) -> None:
        """Register the dialogue of an `initialize` request under the session id that later requests will have."""
        session = exchange.response_headers.get(SESSION_HEADER)
        if session is not None:
            dialogue.session_id = session
            self.dialogues[session] = self._latest_session = dialogue
        elif exchange.is_success:
            self._has_sessionless_clients = True
            # clients without session ids cannot be told apart, and the handshake of another one may be lost
            dialogue.is_shared = _SESSIONLESS in self.dialogues or self._has_lost_events
            self.dialogues[_SESSIONLESS] = dialogue

    def _begin_sse(self, exchange: Exchange, content: Content) -> None:
        """Begin a dialogue of HTTP+SSE: its client sends messages to the URL in the event."""
        try:
            url = url_parts(urljoin(exchange.target, content.data.decode("utf-8", "replace")))
        except ValueError:
            return  # the event does not name a URL
        exchange.dialogue = Dialogue("sse", self._named_revision, is_fully_seen=True)
        exchange.is_at_endpoint = True
        self.dialogues[f"{url.path}?{url.query}" if url.query else url.path] = exchange.dialogue
