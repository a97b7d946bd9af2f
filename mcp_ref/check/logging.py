"""Logging: log messages that the client asked for, at the level that it chose.

Spec:  server/utilities/logging (2024-11-05 to 2026-07-28)
Used by: conversation.py
"""

from __future__ import annotations

from typing import Final

from ..basic.versioning import LOG_LEVEL, SUBSCRIPTION_ID
from ..features.logging import LEVELS, is_wanted
from .rules import MUST, SHOULD, Fault, Verdict, legacy_rule, modern_rule, rule
from .state import Call, Message, an_object, quoted

_PAGE: Final = "2026-07-28/server/utilities/logging"
_LOG: Final = "notifications/message"


@legacy_rule(SHOULD, "schema/SetLevelRequest", "notification", methods=_LOG, needs="ordered")
def level_of_session(message: Message) -> Verdict:
    """Log messages have at least the level that the client chose."""
    dialogue, level = message.dialogue, message.body.get("level")
    if dialogue.modern_revision is not None:
        return None  # the message can belong to a stateless request
    is_unknown = dialogue.log_level not in LEVELS or dialogue.log_level_pending
    if is_unknown or level not in LEVELS or is_wanted(level, dialogue.log_level):
        return None
    return f"a log message has the level {level}, but the client chose {dialogue.log_level}"


def _requested_level(call: Call) -> object:
    return an_object(call.params.get("_meta")).get(LOG_LEVEL)


@modern_rule(MUST, f"{_PAGE}#per-request-log-level-1", "notification", methods=_LOG)
def asked_for_logs(message: Message) -> Verdict:
    """Log messages belong to a request that asked for them."""
    if message.exchange is not None:
        calls = [request.call for request in message.exchange.requests if request.call is not None]
    elif message.dialogue.is_fully_seen and not message.receiver.calls.forgot:
        calls = list(message.receiver.calls.values())
    else:
        return None
    if any(_requested_level(call) is not None or not call.has_known_params for call in calls):
        return None
    text = "a log message is sent, but no request in flight asked for log messages"
    return Fault(text, tuple(call.event for call in calls[:1]))


@modern_rule(MUST, f"{_PAGE}#per-request-log-level-2", "notification", methods=_LOG)
def not_on_subscription(message: Message) -> Verdict:
    """Log messages are not part of a subscription."""
    is_listening = message.exchange is not None and message.exchange.subscription is not None
    return "a log message is part of a subscription" if is_listening or SUBSCRIPTION_ID in message.meta else None


@rule(SHOULD, f"{_PAGE}#error-handling-1", "result", needs="call", by="server")
def unknown_level_is_refused(message: Message) -> Verdict:
    """An unknown log level is refused with -32602."""
    call = message.request
    is_modern = message.revision is not None and message.revision.era == "modern"
    level = _requested_level(call) if is_modern else call.params.get("level")
    if level is None or level in LEVELS or not (is_modern or call.method == "logging/setLevel"):
        return None
    return f"{call.method} with the log level {quoted(level)} gets a result"
