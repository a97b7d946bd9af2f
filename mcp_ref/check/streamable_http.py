"""Streamable HTTP: methods, headers, sessions, statuses and streams.

Spec:  basic/transports#streamable-http (2025-03-26 to 2025-11-25), 2026-07-28 basic/transports/streamable-http
Used by: conversation.py
"""

from __future__ import annotations

import re
from typing import Final

from ..basic.headers import check_headers, check_parameters, mirrored_fields, parameter_headers
from ..jsonrpc.errors import ProtocolError
from ..jsonrpc.messages import INVALID_PARAMS, Request
from ..revisions import R2025_03_26, R2025_06_18, R2025_11_25, R2026_07_28, REVISIONS, find_revision
from .meta import missing_meta
from .rules import ADVICE, MUST, SHOULD, Fault, Verdict, rule
from .state import Dialogue, Exchange, Message, StreamEvent, quoted

_SESSION: Final = "mcp-session-id"
_VERSION: Final = "mcp-protocol-version"
_CAUSAL_SECONDS: Final = 2.0
"""Time after which a client has surely read a response, in seconds."""
_RETRY_FRACTION: Final = 0.9
"""Part of `retry` after which a reconnect is not early, because clocks and recorders are not exact."""
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")
STATUS_OF: Final = {-32601: 404, -32020: 400, -32021: 400, -32022: 400}
"""Error code -> the HTTP status of its response in the modern era."""


def _accepts(exchange: Exchange, *types: str) -> bool:
    accepted = ",".join(exchange.headers.get_all("accept")).lower()
    return all(each in accepted or "*/*" in accepted or f"{each.partition('/')[0]}/*" in accepted for each in types)


def _accept_fault(exchange: Exchange, *types: str) -> str | None:
    if _accepts(exchange, *types):
        return None
    return f"the header Accept of a {exchange.method} is {quoted(', '.join(exchange.headers.get_all('accept')))}"


def _is_opening(exchange: Exchange) -> bool:
    return any(message.method == "initialize" for message in exchange.messages)


@rule(MUST, "2026-07-28/basic/transports/streamable-http#sending-messages-2", "exchange")
def post_only(exchange: Exchange) -> Verdict:
    """Messages are sent with POST."""
    is_wrong = exchange.method not in ("POST", "GET", "DELETE", "OPTIONS") and b'"jsonrpc"' in exchange.body
    return f"a message is sent with {exchange.method}" if is_wrong else None


@rule(MUST, "2026-07-28/basic/transports/streamable-http#sending-messages-3",
      "exchange", methods="POST", needs="mcp", since=R2025_03_26)  # fmt: skip
def post_accepts_both(exchange: Exchange) -> Verdict:
    """A POST accepts JSON and event streams."""
    return _accept_fault(exchange, "application/json", "text/event-stream")


@rule(MUST, "2025-11-25/basic/transports#listening-for-messages-from-the-server-1",
      "exchange", methods="GET", needs="mcp", since=R2025_03_26, until=R2026_07_28)  # fmt: skip
def get_accepts_events(exchange: Exchange) -> Verdict:
    """A GET accepts event streams."""
    return _accept_fault(exchange, "text/event-stream")


@rule(SHOULD, "schema/http#content-type", "exchange", methods="POST", needs="endpoint")
def post_is_json(exchange: Exchange) -> Verdict:
    """The body of a POST is application/json."""
    kind = exchange.headers.media_type
    return f"the Content-Type of a POST is {quoted(kind)}" if exchange.messages and kind != "application/json" else None


@rule(MUST, "2025-11-25/basic/transports#protocol-version-header-1",
      "exchange", needs="mcp unshared", since=R2025_06_18, until=R2026_07_28)  # fmt: skip
def version_header(exchange: Exchange) -> Verdict:
    """After the handshake, each request names the revision in a header."""
    revision = exchange.dialogue.revision if exchange.dialogue.negotiated is not None else None
    if _is_opening(exchange) or revision is None or _VERSION in exchange.headers:
        return None
    if exchange.method == "GET" and _SESSION not in exchange.headers:
        return None  # it can be the first request of a client that speaks HTTP+SSE
    return f"a {exchange.method} has no MCP-Protocol-Version, after revision {revision} was negotiated"


@rule(SHOULD, "2025-11-25/basic/transports#protocol-version-header-2",
      "exchange", needs="unshared", since=R2025_06_18, until=R2026_07_28)  # fmt: skip
def negotiated_header(exchange: Exchange) -> Verdict:
    """MCP-Protocol-Version is the negotiated revision."""
    dialogue, name = exchange.dialogue, exchange.header(_VERSION)
    if dialogue.negotiated is None or dialogue.revision is None or name in (None, dialogue.revision.name):
        return None
    text = f"MCP-Protocol-Version is {quoted(name)}, but the session has revision {dialogue.revision}"
    return None if _is_opening(exchange) else Fault(text, (dialogue.negotiated,))


def _header_fault(exchange: Exchange, message: Message) -> str | None:
    """Return the difference between the headers of a stateless request and its body."""
    request = Request(message.id or 0, message.method, message.body)
    try:
        check_headers(exchange.headers, mirrored_fields(request))
        tool = exchange.dialogue.tools.get(str(message.body.get("name"))) if message.method == "tools/call" else None
        if tool is not None and not exchange.masked:
            wanted = parameter_headers(tool.definition.get("inputSchema"))
            check_parameters(exchange.headers, message.body.get("arguments"), wanted)
    except ProtocolError as error:
        return error.message.removeprefix("Header mismatch: ")
    except ValueError:  # an invalid x-mcp-header
        return None
    return None


@rule(MUST, "2026-07-28/basic/transports/streamable-http#protocol-version-header-1",
      "exchange", needs="mcp", since=R2026_07_28)  # fmt: skip
def mirrored_headers(exchange: Exchange) -> Verdict:
    """The headers of a stateless request mirror its body."""
    if len(exchange.messages) != 1 or exchange.messages[0].kind != "request":
        return None
    message = exchange.messages[0]
    if message.method == "initialize" or missing_meta(message.body) is not None:
        return None
    if exchange.masked and b"***" in exchange.body:
        return None  # a header can have the same value in Base64, where no secret is found
    exchange.header_fault = _header_fault(exchange, message)
    return Fault(exchange.header_fault, key=exchange.header_fault[:40]) if exchange.header_fault else None


@rule(MUST, "2026-07-28/basic/transports/streamable-http#server-validation-1", "head", since=R2026_07_28)
def mismatch_is_refused(exchange: Exchange) -> Verdict:
    """A server refuses a request whose headers differ from its body."""
    # without this header, a server of both eras may take the request for one of 2025-03-26
    is_wrong = exchange.header_fault is not None and 200 <= exchange.status < 300 and _VERSION in exchange.headers
    text = f"the status is {exchange.status}, although {exchange.header_fault}"
    return text if is_wrong else None


@rule(MUST, "2025-11-25/basic/transports#session-management-4", "exchange", needs="mcp")
def session_header(exchange: Exchange) -> Verdict:
    """All requests of a session have its Mcp-Session-Id."""
    known = exchange.known_session
    # a GET without these headers can be the first request of a client that speaks HTTP+SSE
    is_message = exchange.method == "DELETE" or _VERSION in exchange.headers or bool(exchange.messages)
    is_legacy = exchange.dialogue.modern is None and not any(m.method == "server/discover" for m in exchange.messages)
    if known is None or known.initialize is None or not is_message or not is_legacy:
        return None
    text = f"a {exchange.method} has no Mcp-Session-Id, although this server gives one to its clients"
    return Fault(text, (known.initialize.event,))


@rule(MUST, "2025-11-25/basic/transports#session-management-7", "exchange")
def ended_session(exchange: Exchange) -> Verdict:
    """A session that has ended is not used, and initialize has no session id."""
    dialogue = exchange.dialogue
    if _is_opening(exchange) and _SESSION in exchange.headers and exchange.is_mcp:
        return "initialize has an Mcp-Session-Id"
    if dialogue.session is None or exchange.method == "DELETE":
        return None
    if dialogue.ended is None:
        is_gone = dialogue.gone is not None and exchange.connection == dialogue.gone_connection != 0
        text = f"a {exchange.method} uses a session after the response 404"
        return Fault(text, (dialogue.gone or 0,)) if is_gone else None
    is_same = exchange.connection == dialogue.ended_connection != 0
    is_causal = is_same or exchange.at - dialogue.ended_at > _CAUSAL_SECONDS
    return Fault(f"a {exchange.method} uses a session that has ended", (dialogue.ended,)) if is_causal else None


@rule(MUST, "2025-11-25/basic/transports#session-management-6", "head")
def ended_session_is_404(exchange: Exchange) -> Verdict:
    """A request of a session that has ended gets 404."""
    dialogue = exchange.dialogue
    if dialogue.ended is None or dialogue.session is None or exchange.event < dialogue.ended or exchange.status >= 300:
        return None
    return Fault(f"the status is {exchange.status}, although the session has ended", (dialogue.ended,))


@rule(MUST, "2025-11-25/basic/transports#session-management-2", "head", needs="unmasked")
def visible_session_id(exchange: Exchange) -> Verdict:
    """A session id has only visible ASCII characters."""
    id = exchange.response_headers.get(_SESSION)
    is_wrong = id is not None and re.fullmatch("[!-~]+", id) is None
    return f"the session id is {quoted(id)}" if is_wrong else None


@rule(SHOULD, "2025-11-25/basic/transports#session-management-5", "head", until=R2026_07_28)
def missing_session_is_400(exchange: Exchange) -> Verdict:
    """A request without a session id is refused with 400."""
    is_refused = exchange.known_session is not None and exchange.messages and exchange.status in (402, 404, 405, 422)
    return f"the status is {exchange.status} for a request without a session id" if is_refused else None


@rule(MUST, "2025-11-25/basic/transports#protocol-version-header-4",
      "head", needs="mcp", since=R2025_06_18, until=R2026_07_28)  # fmt: skip
def invalid_version_is_refused(exchange: Exchange) -> Verdict:
    """An invalid MCP-Protocol-Version is refused with 400."""
    name = exchange.header(_VERSION)
    if name is None or find_revision(name) is not None or exchange.status >= 300:
        return None
    is_invalid = not _DATE.fullmatch(name[:10]) or name < REVISIONS[0].name
    text = f"the status is {exchange.status} for the revision {quoted(name)}"
    return text if is_invalid else None


@rule(MUST, "2026-07-28/basic/transports/streamable-http#sending-messages-7",
      "head end", methods="POST", needs="mcp", since=R2025_03_26)  # fmt: skip
def accepted(exchange: Exchange) -> Verdict:
    """A POST of notifications or responses gets 202 without a body."""
    if not exchange.messages or exchange.requests:
        return None
    if exchange.status == 202 and exchange.response_body:
        return Fault("the response 202 has a body", key="body")
    is_wrong = exchange.end == "" and exchange.is_success and exchange.status != 202
    text = f"the status for {exchange.messages[0].sent} is {exchange.status}"
    return text if is_wrong else None


@rule(MUST, "2026-07-28/basic/transports/streamable-http#sending-messages-9",
      "head end", needs="mcp", since=R2025_03_26)  # fmt: skip
def response_type(exchange: Exchange) -> Verdict:
    """The response to a request is JSON or an event stream."""
    if not exchange.requests or not exchange.is_success:
        return None
    kind = exchange.response_headers.media_type
    if exchange.end == "" and kind not in ("application/json", "text/event-stream"):
        return f"the status is {exchange.status}, the Content-Type {quoted(kind)}"
    if exchange.end == "complete" and kind == "application/json" and exchange.response_body == b"":
        return Fault("the response is JSON, but has no body", key="body")
    return None


@rule(MUST, "2025-11-25/basic/transports#listening-for-messages-from-the-server-2",
      "head", methods="GET", needs="mcp", since=R2025_03_26, until=R2026_07_28)  # fmt: skip
def get_is_stream(exchange: Exchange) -> Verdict:
    """A GET gets an event stream, or 405."""
    if not exchange.is_success or exchange.is_stream or not _accepts(exchange, "text/event-stream"):
        return None
    return f"the response to a GET is {quoted(exchange.response_headers.media_type)}"


@rule(ADVICE, "2026-07-28/basic/transports/streamable-http#receiving-messages-4",
      "head", needs="mcp", since=R2026_07_28)  # fmt: skip
def buffering(exchange: Exchange) -> Verdict:
    """The head of a stream forbids buffering."""
    is_missing = exchange.is_stream and exchange.response_headers.get("x-accel-buffering") != "no"
    return Fault("the event stream has no X-Accel-Buffering: no", key="") if is_missing else None


@rule(MUST, "2026-07-28/basic/transports/streamable-http#protocol-version-header-5",
      "end", needs="mcp", since=R2026_07_28)  # fmt: skip
def status_of_error(exchange: Exchange) -> Verdict:
    """An error has the HTTP status of its code."""
    if exchange.is_stream or len(exchange.responses) != 1 or len(exchange.requests) != 1:
        return None
    code, request = exchange.responses[0].body.get("code"), exchange.requests[0]
    if exchange.responses[0].kind != "error" or not isinstance(code, int) or request.method == "initialize":
        return None
    is_malformed = code == INVALID_PARAMS and missing_meta(request.body) is not None
    wanted = 400 if is_malformed else STATUS_OF.get(code, exchange.status)
    text = f"the error {code} has the status {exchange.status}, not {wanted}"
    return None if exchange.status == wanted else Fault(text, key=str(code))


@rule(SHOULD, "2025-11-25/basic/transports#sending-messages-to-the-server-13", "end", needs="mcp", since=R2025_03_26)
def stream_brings_response(exchange: Exchange) -> Verdict:
    """The stream of a request brings its response."""
    unanswered = _unanswered(exchange)
    if not unanswered or exchange.last_id is not None:
        return None  # with an id, the client can resume the stream
    return f"the stream ends without the response to {unanswered[0].method}"


def _unanswered(exchange: Exchange) -> list[Message]:
    """Return the requests of a stream, if the server has closed it although it still owes a response."""
    waiting = [request for request in exchange.requests if request.method != "subscriptions/listen"]
    if not exchange.ends_stream or exchange.response_count >= len(waiting) or exchange.dialogue.is_leaving:
        return []
    is_cancelled = any(request.call is not None and request.call.cancelled is not None for request in waiting)
    return [] if is_cancelled else waiting


@rule(SHOULD, "2025-11-25/basic/transports#sending-messages-to-the-server-11",
      "end", needs="mcp", since=R2025_11_25, until=R2026_07_28)  # fmt: skip
def retry_before_close(exchange: Exchange) -> Verdict:
    """Before a server closes a stream, it sends retry."""
    if exchange.last_id is None or exchange.retry is not None or not _unanswered(exchange):
        return None
    return "the server closes the stream of an unfinished request without retry"


@rule(MUST, "2025-11-25/basic/transports#sending-messages-to-the-server-12",
      "exchange", methods="GET", since=R2025_11_25, until=R2026_07_28)  # fmt: skip
def waits_for_retry(exchange: Exchange) -> Verdict:
    """A client waits for retry before it reconnects."""
    before = exchange.dialogue.last_stream.get(exchange.header("last-event-id") or "")
    if before is None or before.ended_at is None or before.retry is None or before.end != "complete":
        return None
    waited = exchange.at - before.ended_at
    if waited * 1000 / _RETRY_FRACTION >= before.retry:  # without a float of `retry`, which can be larger than a float
        return None
    return Fault(f"the client reconnects after {waited:.3f} seconds, but retry is {before.retry} ms", (before.event,))


@rule(SHOULD, "2025-11-25/basic/transports#sending-messages-to-the-server-15", "event", since=R2025_03_26)
def response_is_last(event: StreamEvent) -> Verdict:
    """The response ends the stream of its request."""
    exchange = event.exchange
    waiting = len(exchange.requests)
    is_after = waiting and exchange.response_count >= waiting and bool(event.messages) and exchange.method == "POST"
    return f"{event.messages[0].sent} comes after the response" if is_after else None


@rule(MUST, "2025-11-25/basic/transports#listening-for-messages-from-the-server-4",
      "event", since=R2025_03_26, until=R2026_07_28)  # fmt: skip
def no_response_on_get(event: StreamEvent) -> Verdict:
    """A stream of GET has no responses, unless it resumes the stream of a request."""
    exchange = event.exchange
    is_resumed = "last-event-id" in exchange.headers or exchange.dialogue.transport != "http"
    responses = [message for message in event.messages if message.kind in ("result", "error")]
    if exchange.method != "GET" or is_resumed or not responses:
        return None
    return f"{responses[0].sent} comes on the stream of a GET"


def _stream_of(dialogue: Dialogue, id: str | None) -> Exchange | None:
    return dialogue.event_ids.get(id) if id and not dialogue.is_shared else None


@rule(MUST, "2025-11-25/basic/transports#resumability-and-redelivery-1", "event", until=R2026_07_28)
def unique_event_id(event: StreamEvent) -> Verdict:
    """The id of an event is unique in its session."""
    exchange = event.exchange
    other = _stream_of(exchange.dialogue, event.id)
    if other is None or "last-event-id" in exchange.headers or exchange.dialogue.transport != "http":
        return None
    if other.method == exchange.method == "GET":
        return None  # an event can be sent again on the next stream of GET
    return Fault(f"the event id {quoted(event.id)} was used before", (other.event,))


@rule(MUST, "2025-11-25/basic/transports#resumability-and-redelivery-4", "event", until=R2026_07_28)
def events_of_stream(event: StreamEvent) -> Verdict:
    """A resumed stream has only events of that stream."""
    exchange = event.exchange
    other = _stream_of(exchange.dialogue, event.id)
    if other is None or exchange.resumes is None or other in (exchange.resumes, exchange):
        return None
    return Fault(f"the event {quoted(event.id)} belongs to another stream", (other.event,))


@rule(SHOULD, "2025-11-25/basic/transports#resumability-and-redelivery-3",
      "exchange", methods="GET", needs="whole unshared", until=R2026_07_28)  # fmt: skip
def known_event_id(exchange: Exchange) -> Verdict:
    """Last-Event-ID is the id of an event of the session."""
    id = exchange.header("last-event-id")
    is_unknown = id is not None and exchange.dialogue.event_ids.lacks(id)
    return f"Last-Event-ID is {quoted(id)}, which no event had" if is_unknown else None


@rule(ADVICE, "2025-11-25/basic/transports#sending-messages-to-the-server-9",
      "event", since=R2025_11_25, until=R2026_07_28)  # fmt: skip
def priming_event(event: StreamEvent) -> Verdict:
    """A stream begins with an event id and empty data."""
    # Advice, although it is a SHOULD: most servers cannot resume a stream, and a warning for each would hide others.
    exchange = event.exchange
    is_first = exchange.events == 1 and exchange.method == "POST" and exchange.is_mcp
    return Fault("the stream begins with a message", key="") if is_first and not (event.is_empty and event.id) else None


@rule(ADVICE, "2026-07-28/basic/transports/streamable-http#httpsse-transport-2024-11-05-1", "event")
def http_sse(event: StreamEvent) -> Verdict:
    """HTTP+SSE is deprecated."""
    return Fault("the server uses HTTP+SSE", key="") if event.exchange.dialogue.transport == "sse" else None
