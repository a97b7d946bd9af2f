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
from ..revisions import R2025_03_26, R2025_06_18, R2025_11_25, REVISIONS, find_revision
from .masking import HIDDEN
from .meta import missing_meta
from .rules import ADVICE, MUST, SHOULD, Fault, Verdict, legacy_rule, modern_rule, rule
from .state import SESSION_HEADER, VERSION_HEADER, Call, Exchange, StreamEvent, quoted

_LEGACY: Final = "2025-11-25/basic/transports"
_MODERN: Final = "2026-07-28/basic/transports/streamable-http"
"""The pages of the specification that the rules are from."""
_SURELY_READ_SECONDS: Final = 2.0
"""Time after which a client has surely read a response, in seconds."""
_RETRY_FRACTION: Final = 0.9
"""Share of the time in `retry` that a client must wait. It is less than 1, because clocks are not exact."""
_CAUSE_LENGTH: Final = 40
"""Length of the start of a fault that names the header and the cause, without the values, in characters."""
_STATUS_OF: Final = {-32601: 404, -32020: 400, -32021: 400, -32022: 400}
"""Error code -> the HTTP status of its response in the modern era."""


def _accepts(exchange: Exchange, *types: str) -> bool:
    accepted = ",".join(exchange.headers.get_all("accept")).lower()
    for each in types:
        main_type = each.partition("/")[0]
        if not any(form in accepted for form in (each, f"{main_type}/*", "*/*")):
            return False
    return True


def _accept_fault(exchange: Exchange, *types: str) -> str | None:
    if _accepts(exchange, *types):
        return None
    return f"the header Accept of a {exchange.method} is {quoted(', '.join(exchange.headers.get_all('accept')))}"


@rule(MUST, f"{_MODERN}#sending-messages-2", "exchange")
def post_only(exchange: Exchange) -> Verdict:
    """Messages are sent with POST."""
    is_wrong = exchange.method not in ("POST", "GET", "DELETE", "OPTIONS") and b'"jsonrpc"' in exchange.body
    return f"a message is sent with {exchange.method}" if is_wrong else None


@rule(MUST, f"{_MODERN}#sending-messages-3", "exchange", methods="POST", needs="mcp", since=R2025_03_26)
def post_accepts_both(exchange: Exchange) -> Verdict:
    """A POST accepts JSON and event streams."""
    return _accept_fault(exchange, "application/json", "text/event-stream")


@legacy_rule(MUST, f"{_LEGACY}#listening-for-messages-from-the-server-1", "exchange", methods="GET", needs="mcp")
def get_accepts_events(exchange: Exchange) -> Verdict:
    """A GET accepts event streams."""
    return _accept_fault(exchange, "text/event-stream")


@rule(SHOULD, "schema/http#content-type", "exchange", methods="POST", needs="endpoint")
def post_is_json(exchange: Exchange) -> Verdict:
    """The body of a POST is application/json."""
    kind = exchange.headers.media_type
    return f"the Content-Type of a POST is {quoted(kind)}" if exchange.messages and kind != "application/json" else None


@legacy_rule(MUST, f"{_LEGACY}#protocol-version-header-1", "exchange", needs="mcp unshared", since=R2025_06_18)
def version_header(exchange: Exchange) -> Verdict:
    """After the handshake, each request names the revision in a header."""
    revision = exchange.dialogue.revision if exchange.dialogue.negotiated_event is not None else None
    if exchange.is_opening or revision is None or VERSION_HEADER in exchange.headers:
        return None
    if exchange.method == "GET" and SESSION_HEADER not in exchange.headers:
        return None  # it can be the first request of a client that speaks HTTP+SSE
    return f"a {exchange.method} has no MCP-Protocol-Version, after revision {revision} was negotiated"


@legacy_rule(SHOULD, f"{_LEGACY}#protocol-version-header-2", "exchange", needs="unshared", since=R2025_06_18)
def negotiated_header(exchange: Exchange) -> Verdict:
    """MCP-Protocol-Version is the negotiated revision."""
    dialogue, name = exchange.dialogue, exchange.header(VERSION_HEADER)
    if dialogue.negotiated_event is None or dialogue.revision is None or exchange.is_opening:
        return None
    if name is None or name == dialogue.revision.name:
        return None
    text = f"MCP-Protocol-Version is {quoted(name)}, but the session has revision {dialogue.revision}"
    return Fault(text, (dialogue.negotiated_event,))


def _header_fault(exchange: Exchange) -> str | None:
    """Return the difference between the headers of a stateless request and its body, or None."""
    message = exchange.messages[0] if len(exchange.messages) == 1 else None
    if message is None or message.kind != "request" or message.method == "initialize":
        return None
    if missing_meta(message.body) is not None:
        return None  # required_meta reports it
    if exchange.masked and HIDDEN.encode() in exchange.body:
        return None  # a header may have the hidden value in Base64, which masking cannot find
    tool = exchange.dialogue.tools.find(message.body.get("name")) if message.method == "tools/call" else None
    try:
        check_headers(exchange.headers, mirrored_fields(Request(message.id or 0, message.method, message.body)))
        if tool is not None and not exchange.masked:
            paths = parameter_headers(tool.definition.get("inputSchema"))
            check_parameters(exchange.headers, message.body.get("arguments"), paths)
    except ProtocolError as error:
        return error.message.removeprefix("Header mismatch: ")
    except ValueError:
        return None  # an invalid x-mcp-header, which parameter_header_names reports
    return None


@modern_rule(MUST, f"{_MODERN}#protocol-version-header-1", "exchange", needs="mcp")
def mirrored_headers(exchange: Exchange) -> Verdict:
    """The headers of a stateless request mirror its body."""
    fault = _header_fault(exchange)
    if fault is None:
        return None
    return Fault(fault, key=fault[:_CAUSE_LENGTH])  # the values at the end of the text differ each time


@modern_rule(MUST, f"{_MODERN}#server-validation-1", "head", needs="mcp")
def mismatch_is_refused(exchange: Exchange) -> Verdict:
    """A server refuses a request whose headers differ from its body."""
    if not exchange.is_success or VERSION_HEADER not in exchange.headers:
        return None  # without the header, a server of both eras may take the request for one of 2025-03-26
    fault = _header_fault(exchange)
    return f"the status is {exchange.status}, although {fault}" if fault is not None else None


@rule(MUST, f"{_LEGACY}#session-management-4", "exchange", needs="mcp")
def session_header(exchange: Exchange) -> Verdict:
    """All requests of a session have its Mcp-Session-Id."""
    other = exchange.other_session
    if other is None or other.initialize is None or exchange.dialogue.modern_revision is not None:
        return None
    if any(message.method == "server/discover" for message in exchange.messages):
        return None
    if exchange.method != "DELETE" and VERSION_HEADER not in exchange.headers and not exchange.messages:
        return None  # it can be the first GET of a client that speaks HTTP+SSE
    text = f"a {exchange.method} has no Mcp-Session-Id, although this server gives one to its clients"
    return Fault(text, (other.initialize.event,))


@rule(MUST, f"{_LEGACY}#session-management-7", "exchange")
def ended_session(exchange: Exchange) -> Verdict:
    """A session that has ended is not used, and initialize has no session id."""
    dialogue = exchange.dialogue
    if exchange.is_opening and SESSION_HEADER in exchange.headers and exchange.is_mcp:
        return "initialize has an Mcp-Session-Id"
    if dialogue.session_id is None or exchange.method == "DELETE":
        return None
    deleted, not_found = dialogue.deleted, dialogue.not_found
    if deleted is not None:
        is_late = deleted.was_read_before(exchange) or exchange.at - deleted.at > _SURELY_READ_SECONDS
        return Fault(f"a {exchange.method} uses a session that has ended", (deleted.event,)) if is_late else None
    if not_found is not None and not_found.was_read_before(exchange):
        return Fault(f"a {exchange.method} uses a session after the response 404", (not_found.event,))
    return None


@rule(MUST, f"{_LEGACY}#session-management-6", "head")
def ended_session_is_404(exchange: Exchange) -> Verdict:
    """A request of a session that has ended gets 404."""
    session_id, deleted = exchange.dialogue.session_id, exchange.dialogue.deleted
    if session_id is None or deleted is None or exchange.event < deleted.event or exchange.status >= 300:
        return None
    return Fault(f"the status is {exchange.status}, although the session has ended", (deleted.event,))


@rule(MUST, f"{_LEGACY}#session-management-2", "head", needs="unmasked")
def visible_session_id(exchange: Exchange) -> Verdict:
    """A session id has only visible ASCII characters."""
    id = exchange.response_headers.get(SESSION_HEADER)
    is_wrong = id is not None and re.fullmatch("[!-~]+", id) is None
    return f"the session id is {quoted(id)}" if is_wrong else None


@legacy_rule(SHOULD, f"{_LEGACY}#session-management-5", "head")
def missing_session_is_400(exchange: Exchange) -> Verdict:
    """A request without a session id is refused with 400."""
    # Only statuses with which a server may mean "no session": 401, 403, 429 and 5xx have other causes.
    is_refused = exchange.other_session is not None and exchange.messages and exchange.status in (402, 404, 405, 422)
    return f"the status is {exchange.status} for a request without a session id" if is_refused else None


@legacy_rule(MUST, f"{_LEGACY}#protocol-version-header-4", "head", needs="mcp", since=R2025_06_18)
def invalid_version_is_refused(exchange: Exchange) -> Verdict:
    """An invalid MCP-Protocol-Version is refused with 400."""
    name = exchange.header(VERSION_HEADER)
    if name is None or find_revision(name) is not None or exchange.status >= 300:
        return None
    if re.match(r"\d{4}-\d\d-\d\d", name) and name >= REVISIONS[0].name:
        return None  # a server can know drafts and later revisions
    return f"the status is {exchange.status} for the revision {quoted(name)}"


@rule(MUST, f"{_MODERN}#sending-messages-7", "head end", methods="POST", needs="mcp", since=R2025_03_26)
def accepted(exchange: Exchange) -> Verdict:
    """A POST of notifications or responses gets 202 without a body."""
    if not exchange.messages or exchange.requests:
        return None
    if exchange.is_over:  # the moment `end`, at which the body is known
        has_body = exchange.status == 202 and exchange.response_body
        return Fault("the response 202 has a body", key="body") if has_body else None
    if not exchange.is_success or exchange.status == 202:
        return None
    return f"the status for {exchange.messages[0].label} is {exchange.status}"


@rule(MUST, f"{_MODERN}#sending-messages-9", "head end", needs="mcp", since=R2025_03_26)
def response_type(exchange: Exchange) -> Verdict:
    """The response to a request is JSON or an event stream."""
    if not exchange.requests or not exchange.is_success:
        return None
    media_type = exchange.response_headers.media_type
    if not exchange.is_over and media_type not in ("application/json", "text/event-stream"):
        return f"the status is {exchange.status}, the Content-Type {quoted(media_type)}"
    if exchange.end == "complete" and media_type == "application/json" and exchange.response_body == b"":
        return Fault("the response is JSON, but has no body", key="body")
    return None


@legacy_rule(MUST, f"{_LEGACY}#listening-for-messages-from-the-server-2",
             "head", methods="GET", needs="mcp", since=R2025_03_26)  # fmt: skip
def get_is_stream(exchange: Exchange) -> Verdict:
    """A GET gets an event stream, or 405."""
    if not exchange.is_success or exchange.is_stream or not _accepts(exchange, "text/event-stream"):
        return None
    return f"the response to a GET is {quoted(exchange.response_headers.media_type)}"


@modern_rule(ADVICE, f"{_MODERN}#receiving-messages-4", "head", needs="mcp")
def buffering(exchange: Exchange) -> Verdict:
    """The head of a stream forbids buffering."""
    is_missing = exchange.is_stream and exchange.response_headers.get("x-accel-buffering") != "no"
    return Fault("the event stream has no X-Accel-Buffering: no", key="") if is_missing else None


@modern_rule(MUST, f"{_MODERN}#protocol-version-header-5", "end", needs="mcp")
def status_of_error(exchange: Exchange) -> Verdict:
    """An error has the HTTP status of its code."""
    if exchange.is_stream or len(exchange.response_messages) != 1 or len(exchange.requests) != 1:
        return None
    code, request = exchange.response_messages[0].code, exchange.requests[0]
    if code is None or request.method == "initialize":
        return None
    lacks_meta = code == INVALID_PARAMS and missing_meta(request.body) is not None
    wanted = 400 if lacks_meta else _STATUS_OF.get(code)
    if wanted is None or exchange.status == wanted:
        return None
    return Fault(f"the error {code} has the status {exchange.status}, not {wanted}", key=str(code))


@rule(SHOULD, f"{_LEGACY}#sending-messages-to-the-server-13", "end", needs="mcp", since=R2025_03_26)
def stream_brings_response(exchange: Exchange) -> Verdict:
    """The stream of a request brings its response."""
    unanswered = _unanswered(exchange)
    if not unanswered or exchange.last_event_id is not None:
        return None  # with an id, the client can resume the stream
    return f"the stream ends without the response to {unanswered[0].method}"


def _unanswered(exchange: Exchange) -> list[Call]:
    """Return the requests that have no response on a stream that the server has ended, or []."""
    calls = [message.request for message in exchange.requests if message.method != "subscriptions/listen"]
    if not exchange.ends_stream or exchange.response_count >= len(calls) or exchange.dialogue.is_leaving:
        return []
    is_cancelled = any(call.cancelled_event is not None for call in calls)
    return [] if is_cancelled else [call for call in calls if not call.is_answered]


@legacy_rule(SHOULD, f"{_LEGACY}#sending-messages-to-the-server-11", "end", needs="mcp", since=R2025_11_25)
def retry_before_close(exchange: Exchange) -> Verdict:
    """Before a server closes a stream, it sends retry."""
    is_missing = exchange.last_event_id is not None and exchange.retry is None and _unanswered(exchange)
    return "the server closes the stream of an unfinished request without retry" if is_missing else None


@legacy_rule(MUST, f"{_LEGACY}#sending-messages-to-the-server-12", "exchange", methods="GET", since=R2025_11_25)
def waits_for_retry(exchange: Exchange) -> Verdict:
    """A client waits as long as retry says before it reconnects."""
    before = exchange.dialogue.event_ids.get(exchange.header("last-event-id") or "")
    if before is None or before.ended_at is None or before.retry is None or before.end != "complete":
        return None
    waited = exchange.at - before.ended_at
    if waited * 1000 / _RETRY_FRACTION >= before.retry:  # `retry` is never multiplied: it can be too large for a float
        return None
    return Fault(f"the client reconnects after {waited:.3f} seconds, but retry is {before.retry} ms", (before.event,))


@rule(SHOULD, f"{_LEGACY}#sending-messages-to-the-server-15", "event", since=R2025_03_26)
def response_is_last(event: StreamEvent) -> Verdict:
    """The response ends the stream of its request."""
    exchange, request_count = event.exchange, len(event.exchange.requests)
    if request_count == 0 or exchange.response_count < request_count or not event.messages or exchange.method != "POST":
        return None
    return f"{event.messages[0].label} comes after the response"


@legacy_rule(MUST, f"{_LEGACY}#listening-for-messages-from-the-server-4", "event", since=R2025_03_26)
def no_response_on_get(event: StreamEvent) -> Verdict:
    """A stream of GET has no responses, unless it resumes the stream of a request."""
    exchange = event.exchange
    is_resumed = "last-event-id" in exchange.headers or exchange.dialogue.transport != "http"
    responses = [message for message in event.messages if message.is_response]
    if exchange.method != "GET" or is_resumed or not responses:
        return None
    return f"{responses[0].label} comes on the stream of a GET"


@legacy_rule(MUST, f"{_LEGACY}#resumability-and-redelivery-1", "event")
def unique_event_id(event: StreamEvent) -> Verdict:
    """The id of an event is unique in its session."""
    exchange = event.exchange
    other = exchange.dialogue.stream_of(event.id)
    if other is None or "last-event-id" in exchange.headers or exchange.dialogue.transport != "http":
        return None
    if exchange.dialogue.is_shared or other.method == exchange.method == "GET":
        return None  # an event can be sent again on the next stream of GET
    return Fault(f"the event id {quoted(event.id)} was used before", (other.event,))


@legacy_rule(MUST, f"{_LEGACY}#resumability-and-redelivery-4", "event")
def events_of_stream(event: StreamEvent) -> Verdict:
    """A resumed stream has only events of that stream."""
    exchange = event.exchange
    other = exchange.dialogue.stream_of(event.id)
    if other is None or exchange.resumes is None or other is exchange.resumes or exchange.dialogue.is_shared:
        return None
    return Fault(f"the event {quoted(event.id)} belongs to another stream", (other.event,))


@legacy_rule(SHOULD, f"{_LEGACY}#resumability-and-redelivery-3", "exchange", methods="GET", needs="seen unshared")
def known_event_id(exchange: Exchange) -> Verdict:
    """Last-Event-ID is the id of an event of the session."""
    id = exchange.header("last-event-id")
    is_unknown = id is not None and exchange.dialogue.event_ids.lacks(id)
    return f"Last-Event-ID is {quoted(id)}, which no event had" if is_unknown else None


@legacy_rule(ADVICE, f"{_LEGACY}#sending-messages-to-the-server-9", "event", since=R2025_11_25)
def priming_event(event: StreamEvent) -> Verdict:
    """A stream begins with an event id and empty data."""
    # Advice, although it is a SHOULD: most servers cannot resume a stream, and a warning for each would hide others.
    exchange = event.exchange
    is_first = exchange.event_count == 1 and exchange.method == "POST" and exchange.is_mcp
    is_missing = is_first and not (event.is_empty and event.id)
    return Fault("the stream begins with a message", key="") if is_missing else None


@rule(ADVICE, f"{_MODERN}#httpsse-transport-2024-11-05-1", "event")
def http_sse(event: StreamEvent) -> Verdict:
    """HTTP+SSE is deprecated."""
    return Fault("the server uses HTTP+SSE", key="") if event.exchange.dialogue.transport == "sse" else None
