"""The state of an observed conversation: its declarations, and its requests in flight.

A *dialogue* is a session of the legacy era, or the stateless requests on one pipe or to one URL. All tables are
bounded, so that a long recording needs no more memory than a short one. A fact that the recording cannot show is
unknown (None), and rules do not judge by it. Fields `event` and `..._event` are numbers of events in the recording, but
`event_id` and `event_count` are about server-sent events. `masked` is True if `***` replaces a secret.

Used by: the modules of check/ that have rules, memory.py, reader.py, exchanges.py, findings.py, conversation.py
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Literal, TypeVar
from urllib.parse import SplitResult, urlsplit

from ..basic.lifecycle import declares
from ..basic.versioning import CLIENT_CAPABILITIES
from ..jsonrpc.messages import JSON, Object, RequestId
from ..lib.http.message import Headers
from ..lib.jsonschema import Validator
from ..revisions import Method, Revision
from .recording import Side

K = TypeVar("K")
V = TypeVar("V")

MAX_REMEMBERED: Final = 2000
"""Maximum number of finished ids, cursors, tools, tasks and event ids that a dialogue remembers."""
MAX_KEPT_PARAMS: Final = 8192
"""Maximum size of a finished request whose params are remembered, in bytes."""
MAX_IN_FLIGHT: Final = 10_000
"""Maximum number of requests without a response that a dialogue remembers."""

SESSION_HEADER: Final = "mcp-session-id"
VERSION_HEADER: Final = "mcp-protocol-version"

LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
"""The hosts that need no https."""

LISTS: Final = ("tools/list", "resources/list", "resources/templates/list", "prompts/list", "tasks/list")
"""The methods whose results come in pages."""

OTHER_SIDE: Final[dict[Side, Side]] = {"client": "server", "server": "client"}

Kind = Literal["malformed", "request", "notification", "result", "error"]


class Bounded(OrderedDict[K, V], Generic[K, V]):
    """A dictionary that forgets its oldest items."""

    def __init__(self, limit: int = MAX_REMEMBERED) -> None:
        super().__init__()
        self._limit = limit
        self.forgot = False
        """True if an item was forgotten. A missing key then proves nothing."""

    def lacks(self, key: K) -> bool:
        """Return True if the key surely was never set."""
        return key not in self and not self.forgot

    def find(self, key: Any) -> V | None:
        """Return the value of a key, or None. The key can be any JSON; an array or an object is never found."""
        return self.get(key) if isinstance(key, str | int | float) else None  # type: ignore[arg-type]

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        if len(self) > self._limit:
            self.popitem(last=False)
            self.forgot = True


@dataclass(slots=True, eq=False)
class Call:
    """A request, before and after its response."""

    event: int
    id: RequestId
    method: str
    params: Object
    sender: Side
    revision: Revision | None
    capabilities: Object | None
    """The capabilities of the client in the `_meta` of a stateless request; None in the legacy era."""
    exchange: Exchange | None = None
    token: RequestId | None = None
    """The progress token in its `_meta`."""
    progress: float | None = None
    """The latest `progress` that was reported."""
    cancelled_event: int | None = None
    is_answered: bool = False
    acknowledged: Object | None = None
    """The filter that the server acknowledged (subscriptions/listen)."""
    copies: int = 0
    """Number of further requests in flight with the same id."""
    task_id: str | None = None
    """The id of the task, if the response was a task."""
    digest: str = ""
    """Digest of the method and the params. Set once the result asks for input."""
    input_keys: tuple[str, ...] = ()
    """The keys of the input requests in the result."""
    has_known_params: bool = True
    """False if the params are unknown: the recording has only the start of the message, or they were forgotten."""
    masked: bool = False
    size: int = 0
    """Size of the message or its batch, in bytes."""

    def shrink(self) -> None:
        """Forget the params of a request that has its response, if they are large."""
        if self.size > MAX_KEPT_PARAMS:
            self.params, self.has_known_params = {}, False


@dataclass(slots=True)
class Tool:
    """A tool of the latest list."""

    event: int
    name: str
    definition: Object
    validators: dict[str, Validator | None] = field(default_factory=dict)
    """`inputSchema` or `outputSchema` -> its validator, compiled when needed; None without a legal schema."""


@dataclass(slots=True)
class SeenTask:
    """A task, as the latest messages about it describe it."""

    event: int = 0
    """The event with the latest status."""
    status: str = ""
    created_event: int | None = None
    """The event with the result that created the task."""
    poll_interval: float = 0.0
    """The latest `pollInterval`, in seconds; 0 without one."""
    last_poll: float = -math.inf
    """Time of the latest `tasks/get`, in seconds since the start of the recording."""
    poll_before_last: float = -math.inf


@dataclass(frozen=True, slots=True)
class SessionEnd:
    """A response that says that a session is over."""

    event: int
    at: float
    """Time of the response, in seconds."""
    connection: int
    """Number of its TCP connection, or 0 if unknown."""

    def was_read_before(self, exchange: Exchange) -> bool:
        """Return True for an exchange on the same connection, whose client had to read this response first."""
        return self.connection != 0 and exchange.connection == self.connection


@dataclass(slots=True)
class Party:
    """One side of a dialogue."""

    side: Side
    capabilities: Object | None = None
    """None if unknown. In the modern era, the capabilities of a client are in each request."""
    calls: Bounded[RequestId, Call] = field(default_factory=lambda: Bounded(MAX_IN_FLIGHT))
    """The requests of this side that wait for their responses, by id."""
    finished: Bounded[RequestId, Call] = field(default_factory=Bounded)
    """The latest requests of this side that have got their responses."""
    tokens: Bounded[RequestId, Call] = field(default_factory=lambda: Bounded(MAX_IN_FLIGHT))
    """The progress tokens of `calls`."""
    finished_tokens: Bounded[RequestId, Call] = field(default_factory=Bounded)
    """The progress tokens of the latest finished requests."""

    latest_answered: tuple[int, int] = 0, 0
    """The numbers of two events: the latest request of this side that has its response, and that response."""

    def never_sent(self, id: RequestId) -> bool:
        """Return True if the side surely sent no request with this id since the dialogue began."""
        return self.calls.lacks(id) and self.finished.lacks(id)

    def declares(self, path: str) -> bool:
        """Return True if the side surely declared a capability."""
        return self.capabilities is not None and declares(self.capabilities, path)

    def lacks(self, path: str | None) -> bool:
        """Return True if the side surely did not declare a capability. False for None, which means no capability."""
        return path is not None and self.capabilities is not None and not declares(self.capabilities, path)


@dataclass(slots=True, eq=False)
class Dialogue:
    """A session, or the stateless requests of one pipe or URL."""

    transport: Literal["stdio", "http", "sse", "messages"]
    named_revision: Revision | None = None
    """The revision that the caller of `Conversation` named."""
    revision: Revision | None = None
    """The revision that the handshake negotiated, or None without a handshake."""
    modern_revision: Revision | None = None
    """The revision of the latest stateless request."""
    unread: int = 0
    """Number of messages that are not judged: cut off in the recording, or larger than this package accepts."""
    is_fully_seen: bool = False
    """True if the dialogue was seen from its beginning, and nothing of it was lost."""
    is_shared: bool = False
    """True if messages of several clients can be mixed here, so that ids, order and capabilities prove nothing."""
    client: Party = field(default_factory=lambda: Party("client"))
    server: Party = field(default_factory=lambda: Party("server"))
    initialize: Call | None = None
    initialized_event: int | None = None
    """The event of `notifications/initialized`."""
    negotiated_event: int | None = None
    """The event of the result of `initialize`."""
    early_request_event: int | None = None
    """The first request of the client after the result of `initialize`, and before `notifications/initialized`."""
    served_modern_event: int | None = None
    """The latest event that shows a modern server: a result that only such a server sends."""
    discover_event: int | None = None
    """The event of the first `server/discover`."""
    discover_refused_event: int | None = None
    """The event in which the server said that it does not have `server/discover`."""
    first_event: int | None = None
    session_id: str | None = None
    is_leaving: bool = False
    """True once the client has sent a DELETE of the session, whose streams then end."""
    deleted: SessionEnd | None = None
    """The response that accepted a DELETE of the session."""
    not_found: SessionEnd | None = None
    """The latest response 404 to a request of the session. It ends the session only for the client that received it,
    because a stranger who sends the session's id may get 404, too."""
    is_authorized: bool = False
    """True if a request of the session had an Authorization header."""
    log_level: str | None = None
    log_level_pending: bool = False
    """True while a `logging/setLevel` has no response, so that the old or the new level can be in force."""
    tools: Bounded[str, Tool] = field(default_factory=Bounded)
    tools_are_complete: bool = False
    cursors: Bounded[tuple[str, str], tuple[int, JSON]] = field(default_factory=Bounded)
    """Method and cursor -> the event that gave the cursor, and the `cacheScope` of that page."""
    tasks: Bounded[str, SeenTask] = field(default_factory=Bounded)
    subscribed: Bounded[str, int] = field(default_factory=Bounded)
    """URI of a resource -> the event that subscribed to it."""
    elicitations: Bounded[str, int] = field(default_factory=Bounded)
    """Id of a URL elicitation -> the event that requested it."""
    states: Bounded[str, Call | None] = field(default_factory=Bounded)
    """The `requestState` of each `input_required` result -> the call that got it; None if different calls got it."""
    input_rounds: Bounded[str, tuple[int, bool]] = field(default_factory=Bounded)
    """Digest of a request that got an `input_required` result -> its event, and True if the result had a state."""
    event_ids: Bounded[str, Exchange] = field(default_factory=Bounded)
    """Event id -> the exchange that carried the event most recently."""

    @property
    def known_revision(self) -> Revision | None:
        """The revision of messages that do not name one themselves."""
        return self.revision or self.named_revision or self.modern_revision

    @property
    def is_modern(self) -> bool:
        """True if the dialogue has stateless requests, and no handshake."""
        return self.revision is None and self.modern_revision is not None

    def stream_of(self, event_id: str | None) -> Exchange | None:
        """Return the exchange that began the stream of an event, or None if no event had this id."""
        latest = self.event_ids.get(event_id) if event_id is not None else None
        if latest is None:
            return None
        return latest.resumes or latest  # `resumes` is the first exchange of the stream

    def party(self, side: Side) -> Party:
        return self.client if side == "client" else self.server

    @property
    def is_ordered(self) -> bool:
        """True if all messages travel on one pipe, so that a reader reads them in the order of the recording."""
        return self.transport in ("stdio", "messages") and not self.is_shared


@dataclass(slots=True, eq=False)
class Message:
    """A message under judgment."""

    event: int
    at: float
    """Time since the start of the recording, in seconds; 0 if the recording has no times."""
    side: Side
    dialogue: Dialogue
    raw: JSON
    """The whole message as JSON."""
    size: int
    """Size of the frame, body or event that has the message, in bytes."""
    kind: Kind = "malformed"
    method: str = ""
    """The method; of a response, the method of its request, or "" if unknown."""
    id: RequestId | None = None
    body: Object = field(default_factory=dict)
    """The params, the result, or the error object."""
    code: int | None = None
    """The code of an error; None for a message of another kind."""
    meta: Object = field(default_factory=dict)
    """The `_meta` of the params or the result, or {}."""
    revision: Revision | None = None
    method_facts: Method | None = None
    """The definition of the method in the revision, or None if the sender of the request must not send it there."""
    call: Call | None = None
    """The call of a request, or the one to which a response belongs."""
    exchange: Exchange | None = None
    """The HTTP exchange that has the message."""
    value: object = None
    """The params or the result as a dataclass, if the shape is right."""
    masked: bool = False
    fault: str = ""
    """The fault of a malformed message."""
    batch_size: int = 0
    """Number of messages in the batch that has this message; 0 without a batch."""

    @property
    def declared(self) -> Object:
        """The capabilities that the message declares for its sender, or {}."""
        match self.kind, self.method:
            case ("request" | "result", "initialize") | ("result", "server/discover"):
                return an_object(self.body.get("capabilities"))
            case "request", _:  # only a stateless request declares capabilities in `_meta`
                return an_object(self.meta.get(CLIENT_CAPABILITIES))
        return {}

    @property
    def is_response(self) -> bool:
        return self.kind in ("result", "error")

    @property
    def sender(self) -> Party:
        return self.dialogue.party(self.side)

    @property
    def receiver(self) -> Party:
        return self.dialogue.party(OTHER_SIDE[self.side])

    @property
    def request(self) -> Call:
        """The `call`, for rules that judge only messages that have one (`needs="call"`)."""
        assert self.call is not None
        return self.call

    @property
    def capability(self) -> str | None:
        """The capability that the method needs in its revision, or None."""
        if self.method_facts is None or self.revision is None:
            return None
        capability = self.method_facts.capability
        if capability == "completions" and not self.revision.completions_are_declared:
            return None  # early revisions have completion, but no capability of that name
        return capability

    @property
    def is_replay(self) -> bool:
        """True if the message may be a repetition, because a GET can resume a stream that broke."""
        return self.exchange is not None and self.exchange.method == "GET"

    @property
    def label(self) -> str:
        """A short name of the message, for the text of a finding."""
        name = self.method[:80] or "a request that was not recorded"
        return f"{self.kind} of {name}" if self.is_response else name

    @property
    def outcome(self) -> str:
        """The words "a result", or the error with its code, for the text of a finding."""
        return "a result" if self.kind == "result" else f"the error {self.code}"

    @property
    def client_capabilities(self) -> Object | None:
        """The capabilities that the client declared for this message, or None if unknown."""
        if self.call is not None and self.call.capabilities is not None:
            return self.call.capabilities
        return None if self.dialogue.is_shared else self.dialogue.client.capabilities

    def client_lacks(self, path: str) -> bool:
        """Return True if the client surely did not declare a capability for this message."""
        capabilities = self.client_capabilities
        return capabilities is not None and not declares(capabilities, path)


@dataclass(slots=True, eq=False)
class Exchange:
    """An HTTP request and its response."""

    event: int
    method: str
    target: str
    headers: Headers
    dialogue: Dialogue
    body: bytes = b""
    is_fully_read: bool = True
    """False if a message in its response was not read, because it is malformed or too large for the recording."""
    masked: bool = False
    messages: list[Message] = field(default_factory=list)
    """The messages in the body of the request."""
    status: int = 0
    response_headers: Headers = field(default_factory=Headers)
    response_messages: list[Message] = field(default_factory=list)
    """The messages in the body of the response. Those of a stream are not kept."""
    response_count: int = 0
    """Number of JSON-RPC responses in the stream."""
    event_count: int = 0
    """Number of events in the stream."""
    last_event_id: str | None = None
    retry: int | None = None
    """The latest `retry` of the stream, in milliseconds."""
    resumes: Exchange | None = None
    """The exchange whose stream this one continues."""
    response_body: bytes | None = None
    end: str = ""
    """`HttpEnd.how`: "complete", or the side that closed the connection too early. "" until the exchange ends."""
    at: float = 0.0
    """Time of the request, in seconds."""
    ended_at: float | None = None
    """Time of the end, in seconds."""
    connection: int = 0
    other_session: Dialogue | None = None
    """For a request without a session id, the latest session: it shows that the server gives out ids."""
    revision: Revision | None = None
    is_at_endpoint: bool = True
    """False for exchanges that are not at the MCP endpoint, such as those of authorization."""

    def header(self, name: str) -> str | None:
        """Return a header of the request, or None if it is missing or comes more than once."""
        values = self.headers.get_all(name)
        return values[0] if len(values) == 1 else None

    @property
    def is_mcp(self) -> bool:
        """True for Streamable HTTP, except for OPTIONS and HEAD, which browsers and proxies send for themselves."""
        is_mcp_method = self.method in ("POST", "GET", "DELETE")
        return is_mcp_method and self.is_at_endpoint and self.dialogue.transport == "http"

    @property
    def is_stream(self) -> bool:
        return self.response_headers.media_type == "text/event-stream"

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300

    @property
    def is_opening(self) -> bool:
        """True if the request begins a session."""
        return any(message.method == "initialize" for message in self.messages)

    @property
    def is_over(self) -> bool:
        """True if the response is complete, or never will be."""
        return self.end != ""

    @property
    def ends_stream(self) -> bool:
        """True if the server has ended an event stream, all of which is known."""
        return self.end == "complete" and self.is_stream and self.is_fully_read

    @property
    def requests(self) -> list[Message]:
        return [message for message in self.messages if message.kind == "request"]

    @property
    def subscription(self) -> Call | None:
        """The `subscriptions/listen` request whose stream this is."""
        return next((each.call for each in self.requests if each.method == "subscriptions/listen"), None)


@dataclass(slots=True, eq=False)
class StreamEvent:
    """One event of an event stream (SSE)."""

    event: int
    exchange: Exchange
    id: str | None
    is_empty: bool
    messages: list[Message]


def url_parts(url: str) -> SplitResult:
    """Return the parts of a URL, all of them empty if it is malformed, like `http://[`."""
    try:
        return urlsplit(url)
    except ValueError:
        return SplitResult("", "", "", "", "")


def an_object(value: object) -> Object:
    """Return a JSON object, or {} for any other value."""
    return value if isinstance(value, dict) else {}


def objects(value: object) -> Iterator[Object]:
    """Yield the objects of a list."""
    for item in value if isinstance(value, list) else ():
        if isinstance(item, dict):
            yield item


def quoted(value: object, length: int = 80) -> str:
    """Return a value for a sentence, cut to `length` characters."""
    text = repr(value)
    return text if len(text) <= length else f"{text[:length]}…"
