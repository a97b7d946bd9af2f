"""Lifecycle: the handshake of the legacy era, and the revision and the capabilities that it negotiates.

Spec:  basic/lifecycle (2024-11-05 to 2025-11-25)
Used by: conversation.py
"""

from __future__ import annotations

from typing import Final

from ..basic.versioning import is_stateless
from ..jsonrpc.messages import METHOD_NOT_FOUND
from ..revisions import R2025_06_18, SPECIFIED, find_revision
from .rules import MUST, ORDER, SHOULD, Fault, Verdict, legacy_rule, rule
from .state import Dialogue, Message

_PAGE: Final = "2025-11-25/basic/lifecycle"
_ALLOWED_EARLY: Final = ("initialize", "ping", "server/discover")
"""Requests that a client can send before it has the result of initialize. A client of both eras sends server/discover
first, to find out the server's era."""


@rule(MUST, f"{_PAGE}#initialization-1", "request", needs="seen", by="client", stage=ORDER)
def initialize_first(message: Message) -> Verdict:
    """The first request of a session is initialize."""
    is_first = message.dialogue.first_event is None
    is_wrong = is_first and message.method not in _ALLOWED_EARLY and not is_stateless(message.body)
    return f"the first request is {message.method[:80]}" if is_wrong else None


@rule(MUST, "2025-03-26/basic/lifecycle#initialization-5", "request", methods="initialize", stage=ORDER)
def initialize_alone(message: Message) -> Verdict:
    """initialize is not part of a batch."""
    return f"initialize is in a batch of {message.batch_size} messages" if message.batch_size else None


@rule(SHOULD, f"{_PAGE}#initialization-7", "request", by="client")
def client_waits_for_initialize(message: Message) -> Verdict:
    """Before the response to initialize, a client sends only pings."""
    dialogue, initialize = message.dialogue, message.dialogue.initialize
    if initialize is None or dialogue.client.calls.get(initialize.id) is not initialize:
        return None  # initialize was not sent, or has its response
    if initialize.exchange is not None and initialize.exchange.status:
        return None  # initialize got an HTTP response without a JSON-RPC message
    if is_stateless(message.body) or dialogue.negotiated_event is not None or message.method in _ALLOWED_EARLY:
        return None
    text = f"the client sends {message.method[:80]} before the server has responded to initialize"
    return Fault(text, (initialize.event,), key="")  # one finding for all methods


@legacy_rule(SHOULD, f"{_PAGE}#initialization-8", "request", needs="seen unshared", by="server")
def server_waits_for_initialized(message: Message) -> Verdict:
    """Before notifications/initialized, a server sends only pings and log messages."""
    if message.method == "ping" or message.dialogue.initialized_event is not None:
        return None
    text = f"the server sends {message.method[:80]} before the client has sent notifications/initialized"
    return Fault(text, key="")  # one finding for all methods


@rule(MUST, f"{_PAGE}#initialization-6", "close")
def initialized_is_sent(dialogue: Dialogue) -> Verdict:
    """After the result of initialize, the client sends notifications/initialized."""
    early = dialogue.early_request_event
    if early is None or dialogue.initialized_event is not None or not dialogue.is_fully_seen or dialogue.is_shared:
        return None
    return Fault("the client used the session, but never sent notifications/initialized", (early,), "client")


@rule(MUST, f"{_PAGE}#version-negotiation-4", "result", methods="initialize")
def negotiated_revision(message: Message) -> Verdict:
    """The server chooses a revision that has a handshake."""
    chosen = find_revision(message.body.get("protocolVersion"))
    is_wrong = chosen is not None and chosen.era != "legacy"
    return f"the server chooses {chosen} for a session, but this revision has no handshake" if is_wrong else None


@rule(MUST, f"{_PAGE}#operation-1", "request notification", should_until=R2025_06_18, stage=ORDER)
def method_of_revision(message: Message) -> Verdict:
    """Both sides use only messages of the negotiated revision."""
    if message.method_facts is not None or message.revision is None:
        return None  # the side may send it, or the revision is unknown
    if message.method not in SPECIFIED:
        return None  # perhaps an extension has it
    if message.side == "server" and message.kind == "request" and message.revision.era == "modern":
        return None  # the rule no_request_of_server reports it
    if "tasks/" in message.method and not message.revision.built_in_tasks:
        return None  # a method of the extension for tasks
    return f"the {message.side} sends {message.method}, which it cannot send in revision {message.revision}"


@legacy_rule(MUST, f"{_PAGE}#operation-2", "request", needs="unshared", should_until=R2025_06_18, stage=ORDER)
def capability_of_receiver(message: Message) -> Verdict:
    """A request needs a capability that its receiver declared."""
    receiver, capability = message.receiver, message.capability
    if not receiver.lacks(capability):
        return None
    return f"the {message.side} sends {message.method}, but the {receiver.side} did not declare {capability}"


@rule(MUST, f"{_PAGE}#operation-2", "notification", needs="unshared", should_until=R2025_06_18, stage=ORDER)
def capability_of_sender(message: Message) -> Verdict:
    """A notification needs a capability that its sender declared."""
    if message.method.startswith("notifications/tasks"):
        return None  # the rule task_is_declared reports the request that became the task
    if not message.sender.lacks(message.capability):
        return None
    return f"the {message.side} sends {message.method}, but did not declare {message.capability}"


@rule(MUST, "2026-07-28/server/tools#capabilities-1", "result", needs="unshared")
def feature_is_declared(message: Message) -> Verdict:
    """A side that serves a feature declares its capability."""
    if message.capability is None:
        return None
    feature = message.capability.partition(".")[0]  # for example, `resources` for `resources.subscribe`
    if feature == "extensions" or not message.sender.lacks(feature):  # the name of an extension follows
        return None
    return Fault(f"the {message.side} serves {message.method}, but did not declare {feature}", key=feature)


@rule(SHOULD, "2026-07-28/server/utilities/completion#error-handling-1",
      "error", methods="completion/complete roots/list")  # fmt: skip
def code_for_undeclared_feature(message: Message) -> Verdict:
    """A request for a feature that is not declared gets the error -32601."""
    if message.code == METHOD_NOT_FOUND or not message.sender.lacks(message.capability):
        return None
    return f"the error for {message.method}, which is not declared, has the code {message.code}"


@rule(MUST, "2025-11-25/basic/utilities/ping#behavior-requirements-1", "result", methods="ping")
def empty_pong(message: Message) -> Verdict:
    """The result of a ping is empty."""
    extra = message.body.keys() - {"_meta", "resultType"}
    return f"the result of ping has the member {min(extra)}" if extra else None
