"""Messages: JSON-RPC 2.0 as the protocol uses it, with its ids, responses, batches and error codes.

Spec:  basic/index#messages (2024-11-05 to 2026-07-28), 2025-03-26 basic/index#batching, 2026-07-28
       basic/index#error-codes; JSON-RPC 2.0
Used by: conversation.py
"""

from __future__ import annotations

from typing import Final

from ..basic.versioning import MODERN_ERROR_CODES, REPLACED_CODES
from ..features.task_augmentation import EXTENSION_CAPABILITY
from ..jsonrpc.messages import is_request_id
from ..revisions import R2025_06_18, SPECIFIED
from .rules import ADVICE, FORM, MUST, ORDER, SHOULD, Fault, Verdict, legacy_rule, modern_rule, rule
from .state import Dialogue, Message, quoted

_PAGE: Final = "2026-07-28/basic/index"


def kind_of_fault(message: Message) -> str:
    """Return the part of JSON-RPC that a malformed message breaks, in one word."""
    raw = message.raw
    if type(raw) is list:
        return "batch"
    if type(raw) is not dict:
        return "utf-8" if "UTF-8" in message.fault else "text"
    if raw.get("jsonrpc") != "2.0":
        return "version"
    if "method" not in raw:
        return _kind_of_response_fault(message)
    if type(raw["method"]) is not str or "result" in raw or "error" in raw:
        return "form"
    if "id" in raw and not is_request_id(raw["id"]):
        return "notification" if raw["method"].startswith("notifications/") else "id"
    return "params"


def _kind_of_response_fault(message: Message) -> str:
    raw = message.raw
    assert type(raw) is dict
    if "result" in raw and "error" in raw:
        return "both"
    if "error" in raw:
        return "error"
    if "result" in raw:
        return "result" if type(raw["result"]) is not dict else "response id"
    return "form"


@rule(MUST, f"{_PAGE}#messages-1", "malformed", stage=FORM)
def json_rpc(message: Message) -> Verdict:
    """A message is a JSON-RPC 2.0 request, notification or response."""
    if kind_of_fault(message) in ("version", "form", "params"):
        return f"the message is not JSON-RPC 2.0: {message.fault.removeprefix('Invalid Request: ')}"
    if message.dialogue.transport != "stdio" and kind_of_fault(message) == "text":
        return f"the content is not a message: {message.fault}"
    return None


@rule(MUST, "2026-07-28/basic/transports/index#messages-1", "malformed", stage=FORM)
def utf_8(message: Message) -> Verdict:
    """A message is encoded as UTF-8."""
    return f"the message is not UTF-8: {message.fault}" if kind_of_fault(message) == "utf-8" else None


@rule(MUST, f"{_PAGE}#requests-1", "malformed", stage=FORM)
def request_id(message: Message) -> Verdict:
    """The id of a request is a string or an integer, and not null."""
    if kind_of_fault(message) != "id" or type(message.raw) is not dict:
        return None
    method, id = message.raw.get("method"), message.raw.get("id")
    return f"the request {quoted(method)} has the id {'null' if id is None else quoted(id)}"


@rule(MUST, f"{_PAGE}#notifications-2", "malformed request", stage=FORM)
def notification_without_id(message: Message) -> Verdict:
    """A notification has no id."""
    if message.kind == "malformed":
        is_wrong = kind_of_fault(message) == "notification"
    else:
        is_wrong = message.method.startswith("notifications/") and message.method in SPECIFIED
    return "a notification is sent with an id, as if it were a request" if is_wrong else None


@rule(MUST, "2025-06-18/basic/index#responses-2", "malformed", stage=FORM)
def result_or_error(message: Message) -> Verdict:
    """A response has a result (an object) or an error, and not both."""
    kind = kind_of_fault(message)
    if kind == "both":
        return "the response has both a result and an error"
    if kind == "result" and type(message.raw) is dict:
        return f"the result of the response is {quoted(message.raw['result'])}, not an object"
    return None


@rule(MUST, f"{_PAGE}#error-responses-2", "malformed", stage=FORM)
def error_object(message: Message) -> Verdict:
    """An error has an integer code and a message (a string)."""
    if kind_of_fault(message) != "error" or type(message.raw) is not dict:
        return None
    return f"the error of the response is {quoted(message.raw['error'], 120)}"


@rule(MUST, f"{_PAGE}#result-responses-1", "malformed result error", stage=FORM)
def response_id(message: Message) -> Verdict:
    """A response has the id of a request that waits for it."""
    if message.kind == "malformed":
        return "the response has no id" if kind_of_fault(message) == "response id" else None
    if message.id is None or message.call is not None or message.id in message.receiver.calls:
        return None
    exchange, dialogue = message.exchange, message.dialogue
    if message.side == "client" and dialogue.revision is None and dialogue.modern is not None:
        return None  # another rule
    if exchange is not None and dialogue.is_shared:
        ids = [request.id for request in exchange.requests if exchange.method == "POST"]
        text = f"the response has the id {quoted(message.id)}, the request in this POST has {quoted(ids[:1])}"
        return text if ids else None
    asked = message.receiver
    if message.id in asked.finished:
        text = f"the request with the id {quoted(message.id)} already has a response"
        return None if message.is_replay else Fault(text, (asked.finished[message.id].event,))
    is_unknown = dialogue.is_whole and asked.never_sent(message.id)
    return f"no request of this conversation has the id {quoted(message.id)}" if is_unknown else None


@legacy_rule(MUST, "2025-11-25/basic/index#requests-3", "request", needs="unshared")
def id_used_once(message: Message) -> Verdict:
    """An id is used for one request of a session."""
    earlier = message.sender.finished.get(message.request.id) or message.sender.calls.get(message.request.id)
    if earlier is None or message.method == "initialize" or earlier.id != message.id:
        return None
    text = f"the id {quoted(message.id)} of {message.method} was used before, for {earlier.method or 'a request'}"
    return Fault(text, (earlier.event,))


@modern_rule(MUST, f"{_PAGE}#requests-3", "request", needs="unshared")
def id_in_flight(message: Message) -> Verdict:
    """The id of a request is not that of another request that still waits."""
    earlier = message.sender.calls.get(message.request.id)
    if earlier is None or earlier.cancelled is not None:
        return None
    text = f"the id {quoted(message.id)} of {message.method} is that of {earlier.method}, which still waits"
    return Fault(text, (earlier.event,))


@rule(MUST, "2026-07-28/basic/transports/streamable-http#sending-messages-1",
      "malformed", should_until=R2025_06_18, stage=FORM)  # fmt: skip
def no_batch(message: Message) -> Verdict:
    """In this revision, a frame is one message, not a batch."""
    if kind_of_fault(message) != "batch":
        return None
    revision = message.revision
    return f"{message.fault}, but revision {revision} has no batches" if revision else message.fault


@modern_rule(MUST, f"{_PAGE}#error-codes-4", "error")
def specified_code(message: Message) -> Verdict:
    """Only codes that the specification defines are in -32020 to -32099."""
    code = message.body.get("code")
    is_defined = code in MODERN_ERROR_CODES or code in REPLACED_CODES
    if isinstance(code, int) and code in range(-32099, -32019) and not is_defined:
        return Fault(f"the {message.sent} has the code {code}, which the specification does not define", key=str(code))
    return None


@modern_rule(MUST, f"{_PAGE}#error-codes-6", "error")
def replaced_code(message: Message) -> Verdict:
    """The codes -32002 and -32042 of earlier revisions are not sent."""
    code = message.body.get("code")
    if not isinstance(code, int) or code not in REPLACED_CODES:
        return None
    return Fault(f"the {message.sent} has the code {code} of an earlier revision", key=str(code))


@modern_rule(SHOULD, f"{_PAGE}#error-codes-2", "error")
def reserved_code(message: Message) -> Verdict:
    """An application's own error codes are outside -32768 to -32000."""
    code = message.body.get("code")
    if not isinstance(code, int) or code in REPLACED_CODES or code in range(-32099, -32019):
        return None
    if code in range(-32768, -31999) and code not in (-32700, *range(-32603, -32599)):
        return Fault(f"the {message.sent} has the code {code}, which is reserved", key=str(code))
    return None


@modern_rule(MUST, f"{_PAGE}#result-responses-3", "result", by="server")
def result_type(message: Message) -> Verdict:
    """Each result has a resultType."""
    has_type = type(message.body.get("resultType")) is str
    return None if has_type else f"the {message.sent} has no resultType"


@modern_rule(MUST, f"{_PAGE}#resulttype-1", "result", by="server")
def known_result_type(message: Message) -> Verdict:
    """A resultType is that of the protocol, or of a declared extension."""
    kind = message.body.get("resultType")
    if type(kind) is not str or kind in ("complete", "input_required"):
        return None
    capability = EXTENSION_CAPABILITY if kind == "task" else "extensions"
    if message.client_declares(capability) is not False:
        return None
    return f"the {message.sent} has the resultType {quoted(kind)}, which no declared extension has"


@modern_rule(MUST, "2026-07-28/basic/patterns/index#intro-1", "request", by="server", stage=ORDER)
def no_request_of_server(message: Message) -> Verdict:
    """A server sends no requests in the modern era."""
    return f"the server sends the request {message.method[:80]}"


@rule(MUST, "2026-07-28/basic/transports/stdio#sending-messages-1", "result error", by="client", stage=FORM)
def no_response_of_client(message: Message) -> Verdict:
    """A client sends no responses in the modern era."""
    is_modern = message.dialogue.revision is None and message.dialogue.modern is not None
    is_wrong = message.call is None and is_modern
    return f"the client sends a response with the id {quoted(message.id)}" if is_wrong else None


@rule(ADVICE, "schema/JSONRPCResponse", "close")
def never_answered(dialogue: Dialogue) -> Verdict:
    """Each request gets a response."""
    waiting = [call for call in dialogue.client.calls.values()
               if call.cancelled is None and call.method != "subscriptions/listen"]  # fmt: skip
    if not waiting or not dialogue.is_whole:
        return None
    some = ", ".join(f"{call.method or 'a request'} (id {call.id!r})" for call in waiting[:3])
    return Fault(f"{len(waiting)} requests never got a response: {some}", tuple(call.event for call in waiting[:3]))
