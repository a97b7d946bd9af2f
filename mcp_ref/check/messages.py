"""Messages: JSON-RPC 2.0 as the protocol uses it, with its ids, responses, batches and error codes.

Spec:  basic/index#messages (2024-11-05 to 2026-07-28), 2025-03-26 basic/index#batching, 2026-07-28
       basic/index#error-codes; JSON-RPC 2.0
Used by: conversation.py
"""

from __future__ import annotations

from typing import Final

from ..basic.versioning import MODERN_ERROR_CODES, REPLACED_CODES
from ..features.task_augmentation import TASKS_CAPABILITY
from ..jsonrpc.messages import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    is_request_id,
)
from ..lib.jsonschema.errors import format_count
from ..revisions import R2025_06_18, SPECIFIED
from .rules import ADVICE, FORM, MUST, ORDER, SHOULD, Fault, Verdict, legacy_rule, modern_rule, rule
from .state import Dialogue, Exchange, Message, an_object, quoted

_PAGE: Final = "2026-07-28/basic/index"
_SPECIFIED_CODES: Final = range(-32099, -32019)
"""The error codes that only the specification may define."""
_RESERVED_CODES: Final = range(-32768, -31999)
"""The error codes that JSON-RPC reserves."""
_JSON_RPC_CODES: Final = frozenset({PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR})
"""The error codes that JSON-RPC defines."""


def kind_of_fault(message: Message) -> str:
    """Return the part of JSON-RPC that a malformed message breaks, in one word."""
    match message.raw:
        case list():
            return "batch"
        case {"jsonrpc": "2.0", "method": str(method), **members} if members.keys().isdisjoint(("result", "error")):
            if "id" not in members or is_request_id(members["id"]):
                return "params"  # because its other members are right
            return "notification" if method.startswith("notifications/") else "id"
        case {"jsonrpc": "2.0", "method": _}:
            return "form"
        case {"jsonrpc": "2.0", "result": _, "error": _}:
            return "both"
        case {"jsonrpc": "2.0", "error": _}:
            return "error"
        case {"jsonrpc": "2.0", "result": dict()}:
            return "response id"  # because the result is right
        case {"jsonrpc": "2.0", "result": _}:
            return "result"
        case {"jsonrpc": "2.0"}:
            return "form"
        case dict():
            return "version"
    return "utf-8" if "UTF-8" in message.fault else "text"


@rule(MUST, f"{_PAGE}#messages-1", "malformed", methods="version form params text", stage=FORM)
def json_rpc(message: Message) -> Verdict:
    """A message is a JSON-RPC 2.0 request, notification or response."""
    if kind_of_fault(message) == "text":  # over stdio, such a line breaks rules of stdio.py
        return f"the content is not a message: {message.fault}" if message.dialogue.transport != "stdio" else None
    return f"the message is not JSON-RPC 2.0: {message.fault.removeprefix('Invalid Request: ')}"


@rule(MUST, "2026-07-28/basic/transports/index#messages-1", "malformed", methods="utf-8", stage=FORM)
def utf_8(message: Message) -> Verdict:
    """A message is encoded as UTF-8."""
    return f"the message is not UTF-8: {message.fault}"


@rule(MUST, f"{_PAGE}#requests-1", "malformed", methods="id", stage=FORM)
def request_id(message: Message) -> Verdict:
    """The id of a request is a string or an integer, and not null."""
    raw = an_object(message.raw)
    return f"the request {quoted(raw['method'])} has the id {'null' if raw['id'] is None else quoted(raw['id'])}"


@rule(MUST, f"{_PAGE}#notifications-2", "malformed request", stage=FORM)
def notification_without_id(message: Message) -> Verdict:
    """A notification has no id."""
    if message.kind == "malformed":
        is_wrong = kind_of_fault(message) == "notification"
    else:
        is_wrong = message.method.startswith("notifications/") and message.method in SPECIFIED
    return "a notification is sent with an id, as if it were a request" if is_wrong else None


@rule(MUST, "2025-06-18/basic/index#responses-2", "malformed", methods="both result", stage=FORM)
def result_or_error(message: Message) -> Verdict:
    """A response has a result (an object) or an error, and not both."""
    if kind_of_fault(message) == "both":
        return "the response has both a result and an error"
    return f"the result of the response is {quoted(an_object(message.raw)['result'])}, not an object"


@rule(MUST, f"{_PAGE}#error-responses-2", "malformed", methods="error", stage=FORM)
def error_object(message: Message) -> Verdict:
    """An error has an integer code and a message (a string)."""
    return f"the error of the response is {quoted(an_object(message.raw)['error'], 120)}"


@rule(MUST, f"{_PAGE}#result-responses-1", "malformed result error", stage=FORM)
def response_id(message: Message) -> Verdict:
    """A response has the id of a request that waits for it."""
    if message.kind == "malformed":
        return "the response has no id" if kind_of_fault(message) == "response id" else None
    if message.id is None or message.call is not None or message.id in message.receiver.calls:
        return None
    dialogue, requester = message.dialogue, message.receiver
    if message.side == "client" and dialogue.is_modern:
        return None  # no_response_of_client reports it
    if message.exchange is not None and dialogue.is_shared:
        return _fault_of_id_in_post(message, message.exchange)
    if message.id in requester.finished:
        text = f"the request with the id {quoted(message.id)} already has a response"
        return None if message.is_replay else Fault(text, (requester.finished[message.id].event,))
    is_unknown = dialogue.is_fully_seen and requester.never_sent(message.id)
    return f"no request of this conversation has the id {quoted(message.id)}" if is_unknown else None


def _fault_of_id_in_post(response: Message, exchange: Exchange) -> Verdict:
    if exchange.method != "POST" or not exchange.requests:
        return None
    ids = [exchange.requests[0].id]
    return f"the response has the id {quoted(response.id)}, the request in this POST has {quoted(ids)}"


@legacy_rule(MUST, "2025-11-25/basic/index#requests-3", "request", needs="unshared")
def id_used_once(message: Message) -> Verdict:
    """An id is used for only one request of a session."""
    earlier = message.sender.finished.get(message.request.id) or message.sender.calls.get(message.request.id)
    if earlier is None or message.method == "initialize":
        return None
    text = f"the id {quoted(message.id)} of {message.method} was used before, for {earlier.method or 'a request'}"
    return Fault(text, (earlier.event,))


@modern_rule(MUST, f"{_PAGE}#requests-3", "request", needs="unshared")
def id_in_flight(message: Message) -> Verdict:
    """The id of a request is not that of another request that still waits."""
    earlier = message.sender.calls.get(message.request.id)
    if earlier is None or earlier.cancelled_event is not None:
        return None
    text = f"the id {quoted(message.id)} of {message.method} is that of {earlier.method}, which still waits"
    return Fault(text, (earlier.event,))


@rule(MUST, "2026-07-28/basic/transports/streamable-http#sending-messages-1",
      "malformed", methods="batch", should_until=R2025_06_18, stage=FORM)  # fmt: skip
def no_batch(message: Message) -> Verdict:
    """In this revision, a frame is one message, not a batch."""
    return f"{message.fault}, but revision {message.revision} has no batches" if message.revision else message.fault


@modern_rule(MUST, f"{_PAGE}#error-codes-4", "error")
def specified_code(message: Message) -> Verdict:
    """Only codes that the specification defines are in -32020 to -32099."""
    code = message.code
    if code not in _SPECIFIED_CODES or code in MODERN_ERROR_CODES or code in REPLACED_CODES:
        return None
    return Fault(f"the {message.label} has the code {code}, which the specification does not define", key=str(code))


@modern_rule(MUST, f"{_PAGE}#error-codes-6", "error")
def replaced_code(message: Message) -> Verdict:
    """The codes -32002 and -32042 of earlier revisions are not sent."""
    if message.code not in REPLACED_CODES:
        return None
    return Fault(f"the {message.label} has the code {message.code} of an earlier revision", key=str(message.code))


@modern_rule(SHOULD, f"{_PAGE}#error-codes-2", "error")
def reserved_code(message: Message) -> Verdict:
    """An application's own error codes are outside -32768 to -32000."""
    code = message.code
    if code not in _RESERVED_CODES or code in _JSON_RPC_CODES:
        return None
    if code in _SPECIFIED_CODES or code in REPLACED_CODES:
        return None  # specified_code and replaced_code judge it
    return Fault(f"the {message.label} has the code {code}, which is reserved", key=str(code))


@modern_rule(MUST, f"{_PAGE}#result-responses-3", "result", by="server")
def result_type(message: Message) -> Verdict:
    """Each result has a resultType."""
    has_type = type(message.body.get("resultType")) is str
    return None if has_type else f"the {message.label} has no resultType"


@modern_rule(MUST, f"{_PAGE}#resulttype-1", "result", by="server")
def known_result_type(message: Message) -> Verdict:
    """A resultType is that of the protocol, or of a declared extension."""
    kind = message.body.get("resultType")
    if type(kind) is not str or kind in ("complete", "input_required"):
        return None
    capability = TASKS_CAPABILITY if kind == "task" else "extensions"
    text = f"the {message.label} has the resultType {quoted(kind)}, which no declared extension has"
    return text if message.client_lacks(capability) else None


@modern_rule(MUST, "2026-07-28/basic/patterns/index#intro-1", "request", by="server", stage=ORDER)
def no_request_of_server(message: Message) -> Verdict:
    """A server sends no requests in the modern era."""
    return f"the server sends the request {message.method[:80]}"


@rule(MUST, "2026-07-28/basic/transports/stdio#sending-messages-1", "result error", by="client", stage=FORM)
def no_response_of_client(message: Message) -> Verdict:
    """A client sends no responses in the modern era."""
    is_wrong = message.call is None and message.dialogue.is_modern
    return f"the client sends a response with the id {quoted(message.id)}" if is_wrong else None


@rule(ADVICE, "schema/JSONRPCResponse", "close")
def never_answered(dialogue: Dialogue) -> Verdict:
    """Each request gets a response."""
    waiting = [call for call in dialogue.client.calls.values()
               if call.cancelled_event is None and call.method != "subscriptions/listen"]  # fmt: skip
    if not waiting or not dialogue.is_fully_seen:
        return None
    some = ", ".join(f"{call.method or 'a request'} (id {call.id!r})" for call in waiting[:3])
    return Fault(
        f"{format_count(len(waiting), 'requests')} never got a response: {some}",
        tuple(call.event for call in waiting[:3]),
    )
