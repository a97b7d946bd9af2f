"""From bytes to judged messages: parse a frame or body, find the revision and the request of each message, judge it.

Used by: exchanges.py, conversation.py
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from ..basic.versioning import PROTOCOL_VERSION, SUBSCRIPTION_ID, is_stateless
from ..jsonrpc.messages import (
    JSON,
    MAX_BATCH,
    MAX_ID_LENGTH,
    ErrorResponse,
    Malformed,
    Notification,
    Object,
    RefusedJSON,
    Request,
    Response,
    parse_json,
    read_message,
)
from ..jsonrpc.outline import search_members
from ..revisions import LATEST_LEGACY, REVISIONS, Revision, find_method, find_revision
from .findings import FindingTable
from .memory import find_call, new_call, remember
from .messages import kind_of_fault
from .recording import Frame, HttpBody, HttpEvent, HttpRequest, Side
from .state import VERSION_HEADER, Call, Dialogue, Exchange, Message, an_object


def opens_session(data: bytes) -> bool:
    """Return True if the bytes are the request `initialize`, perhaps in a batch."""
    if b'"initialize"' not in data:  # most messages need not be parsed for it
        return False
    try:
        value = parse_json(data)
    except ValueError:
        return False
    messages = value if isinstance(value, list) else [value]
    return any(an_object(each).get("method") == "initialize" for each in messages)


@dataclass(frozen=True, slots=True)
class Source:
    """An event with messages: its number, its sender, its dialogue, and, over HTTP, its exchange."""

    event: Frame | HttpRequest | HttpBody | HttpEvent
    number: int
    side: Side
    dialogue: Dialogue
    exchange: Exchange | None = None

    def message(self, raw: JSON, batch_size: int = 0) -> Message:
        """Return a message whose kind, method and body are still to be read from `raw`."""
        return Message(self.number, self.event.at, self.side, self.dialogue, raw, self.event.content.size,
                       exchange=self.exchange, masked=self.event.masked, batch_size=batch_size)  # fmt: skip

    @property
    def revision(self) -> Revision | None:
        """The revision of messages that do not name one themselves."""
        return self.dialogue.known_revision or (self.exchange.revision if self.exchange is not None else None)


class Reader:
    """Reads the messages of all dialogues into one table of findings."""

    def __init__(self, findings: FindingTable) -> None:
        self._findings = findings

    def read(self, source: Source) -> list[Message]:
        """Read, judge and remember the messages in an event. Return them, without malformed ones."""
        content = source.event.content
        if not content.is_whole:
            _remember_unread(content.data, source)
            return []
        try:
            value = parse_json(content.data)
        except RefusedJSON:  # legal JSON beyond a limit of ours
            _remember_unread(content.data, source)
            return []
        except ValueError as error:
            _, id = search_members(content.data.decode("utf-8", "replace"))
            self._judge_malformed(f"it is not JSON: {error}", None, source, id)
            return []
        if type(value) is not list:
            message = self._read_and_judge(value, source)
            return [message] if message is not None else []
        if len(value) > MAX_BATCH:
            _remember_unread(content.data, source)
            return []
        if not value or (source.revision is not None and not source.revision.batch):
            text = f"it is a batch of {len(value)} messages" if value else "it is an empty array"
            self._judge_malformed(text, value, source)
            source.dialogue.is_fully_seen = False  # the members are not judged
            return []
        messages = [self._read_and_judge(each, source, len(value)) for each in value]
        return [message for message in messages if message is not None]

    def _judge_malformed(self, fault: str, raw: JSON, source: Source, id: object = None) -> None:
        message = source.message(raw)
        message.fault, message.revision = fault, source.revision
        self._findings.judge("malformed", message, kind_of_fault(message), source.revision, source.side, source.number)
        _remember_malformed(raw, id, source)

    def _read_and_judge(self, value: JSON, source: Source, batch_size: int = 0) -> Message | None:
        if type(value) is not dict:
            self._judge_malformed("it is not a JSON object", value, source)
            return None
        found = read_message(value)
        if not isinstance(found, Malformed):
            message = source.message(value, batch_size)
            _copy_parts(found, value, message)
            _find_call_and_revision(message, source)
            self._judge(message)
            return message
        if _is_unusual(value):
            _remember_unread(json.dumps(value).encode(), source)
        else:
            self._judge_malformed(found.error.message, value, source, found.id)
        return None

    def _judge(self, message: Message) -> None:
        revision = message.revision
        if revision is not None:
            # a response has the method of its request, which the other side has sent
            method_sender = message.call.sender if message.call is not None else message.side
            message.method_facts = find_method(message.method, revision, method_sender)
        is_broken = self._findings.judge(message.kind, message, message.method, revision, message.side, message.event)
        remember(message, is_broken)


def _copy_parts(parsed: Request | Notification | Response | ErrorResponse, raw: Object, message: Message) -> None:
    """Set the kind of a message, its id, its method, its error code, and the object that the rules read."""
    match parsed:
        case Request():
            message.kind, message.id, message.method, message.body = "request", parsed.id, parsed.method, parsed.params
        case Notification():
            message.kind, message.method, message.body = "notification", parsed.method, parsed.params
        case Response():
            message.kind, message.id, message.body = "result", parsed.id, parsed.result
        case ErrorResponse():
            message.kind, message.id, message.body = "error", parsed.id, an_object(raw["error"])
            message.code = parsed.error.code
    message.meta = an_object(message.body.get("_meta"))


def _find_call_and_revision(message: Message, source: Source) -> None:
    """Set the call to which a message belongs, and the revision whose rules the message must keep."""
    if message.kind in ("request", "notification"):
        message.revision = _revision_of_sent(message, source.revision)
        message.call = new_call(message) if message.kind == "request" else None
    else:
        message.call = find_call(source.dialogue, source.side, message.id, source.exchange)
        message.method = message.call.method if message.call is not None else ""
        message.revision = _revision_of_response(message, source.revision)


def _revision_of_sent(message: Message, known: Revision | None) -> Revision | None:
    """Return the revision of a request or notification."""
    dialogue, exchange = message.dialogue, message.exchange
    if message.side == "server" and SUBSCRIPTION_ID in message.meta and dialogue.modern_revision is not None:
        return dialogue.modern_revision  # only modern subscriptions have ids
    if message.method == "initialize":
        return _named_revision(message.body.get("protocolVersion"))
    if message.side == "client" and is_stateless(message.body):
        return _revision_of_stateless(message, known)
    if exchange is not None and message.side == "server" and exchange.revision is not None:
        return exchange.revision
    if known is None and message.method == "server/discover":
        return REVISIONS[-1]  # the request lacks its required _meta, but only the modern era has the method
    return known


def _is_unusual(value: Object) -> bool:
    """Return True for a legal message that this package refuses: a long id, or an integer that is written as 1.0."""
    id, code = value.get("id"), an_object(value.get("error")).get("code")
    is_long = isinstance(id, str) and len(id) > MAX_ID_LENGTH
    return is_long or any(isinstance(number, float) and number.is_integer() for number in (id, code))


def _remember_unread(data: bytes, source: Source) -> None:
    """Remember a message that is not judged, because it is too large for the recording, or beyond a limit of ours.

    It may have contained tokens, cursors or definitions, so later messages that use them are not blamed.
    """
    keys, id = search_members(data.decode("utf-8", "replace"))
    dialogue = source.dialogue
    dialogue.is_fully_seen = False
    dialogue.unread += 1
    if source.exchange is not None and source.side == "server":
        source.exchange.is_fully_read = False
    if "method" in keys:
        _remember_request(id, source)
        return
    call = find_call(dialogue, source.side, id, source.exchange) if isinstance(id, str | int) else None
    if call is not None:
        dialogue.party(call.sender).calls.pop(call.id, None)
    if call is None or call.method in ("tools/list", ""):  # the method of an unread request is ""
        dialogue.tools.clear()  # because this may have been a newer list of tools


def _remember_malformed(raw: JSON, id: object, source: Source) -> None:
    """Treat a malformed message as the request or response that it seems to be, so that no later message is blamed."""
    dialogue = source.dialogue
    if isinstance(raw, dict):
        dialogue.is_fully_seen = False
    if source.exchange is not None and source.side == "server":
        source.exchange.is_fully_read = False
    if isinstance(raw, dict) and "method" not in raw and isinstance(id, str | int):
        call = find_call(dialogue, source.side, id, source.exchange)
        if call is not None and dialogue.party(call.sender).calls.pop(id, None) is not None:
            dialogue.party(call.sender).finished[id] = call
            call.shrink()
    else:
        _remember_request(id, source)


def _remember_request(id: object, source: Source) -> None:
    """Remember an unreadable request, because the other side can respond to its id."""
    if isinstance(id, str | int) and not isinstance(id, bool):
        call = Call(
            event=source.number, id=id, method="", params={}, sender=source.side, revision=None, capabilities=None,
            exchange=source.exchange, has_known_params=False,
        )  # fmt: skip
        source.dialogue.party(source.side).calls[id] = call


def _revision_of_stateless(message: Message, known: Revision | None) -> Revision | None:
    """Return the revision of a stateless request, and store it as the dialogue's modern revision."""
    dialogue, version = message.dialogue, message.meta[PROTOCOL_VERSION]
    revision = find_revision(version)
    if revision is not None and revision.era == "modern":
        dialogue.modern_revision = revision
    if isinstance(version, str):
        return revision
    return dialogue.modern_revision or known


def _named_revision(value: JSON) -> Revision | None:
    """Return the revision that a handshake names, or the latest legacy one if the name is not a string."""
    return find_revision(value) if isinstance(value, str) else LATEST_LEGACY


def _revision_of_response(message: Message, known: Revision | None) -> Revision | None:
    """Return the revision by which a response is judged.

    A legacy server can respond to a stateless request although it does not know the revision of the request. So the
    response is judged by that revision only if it has a `resultType`, or if the server is known to serve the revision.
    """
    if message.method == "initialize" and message.kind == "result":
        chosen = _named_revision(message.body.get("protocolVersion"))
        # no handshake can choose a modern revision, so a result that names one is judged like any other response
        if chosen is None or chosen.era == "legacy":
            return chosen
    dialogue, call = message.dialogue, message.call
    if call is None:
        return dialogue.revision
    if call.revision is None:
        return known
    if call.revision.era == "legacy" or "resultType" in message.body or _is_served(call.revision, dialogue, call):
        return call.revision
    return dialogue.revision


def _is_served(revision: Revision, dialogue: Dialogue, call: Call) -> bool:
    """Return True if the server surely took the request as a stateless one.

    It has served one before, or the caller of `Conversation` has named this revision.
    """
    if dialogue.transport == "http" and call.exchange is not None and VERSION_HEADER not in call.exchange.headers:
        return False  # without the header, the server can take the request for one of 2025-03-26
    return dialogue.served_modern_event is not None or dialogue.named_revision is revision
