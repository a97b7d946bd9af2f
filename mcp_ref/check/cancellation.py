"""Cancellation: notifications that end a request before its response.

Spec:  basic/utilities/cancellation (2024-11-05 to 2025-11-25), basic/patterns/cancellation (2026-07-28)
Used by: conversation.py
"""

from __future__ import annotations

from typing import Final

from ..basic.versioning import SUBSCRIPTION_ID
from ..revisions import R2026_07_28
from .rules import MUST, Fault, Verdict, legacy_rule, modern_rule, rule
from .state import Message, quoted

_PAGE: Final = "2025-11-25/basic/utilities/cancellation"
_CANCELLED = "notifications/cancelled"


@rule(MUST, f"{_PAGE}#behavior-requirements-3", "notification", methods=_CANCELLED, by="client")
def initialize_is_not_cancelled(message: Message) -> Verdict:
    """A client does not cancel initialize."""
    opening = message.dialogue.initialize
    if opening is None or message.body.get("requestId") != opening.id:
        return None
    is_open = message.dialogue.client.calls.get(opening.id) is opening
    return Fault("the client cancels initialize", (opening.event,)) if is_open else None


@rule(MUST, f"{_PAGE}#behavior-requirements-1", "notification", methods=_CANCELLED, needs="unshared")
def own_request(message: Message) -> Verdict:
    """A cancellation names a request of its sender."""
    id, sender = message.body.get("requestId"), message.sender
    if not isinstance(id, str | int) or id in sender.calls or id in sender.finished:
        return None
    if message.side == "server" and (message.dialogue.modern_revision is not None or SUBSCRIPTION_ID in message.meta):
        return None  # server_cancels_subscription judges it
    if id in message.receiver.calls:
        text = f"the {message.side} cancels the request {quoted(id)}, which the other side has sent"
        return Fault(text, (message.receiver.calls[id].event,))
    is_unknown = message.dialogue.is_fully_seen and sender.never_sent(id)
    return f"the {message.side} cancels the request {quoted(id)}, which it never sent" if is_unknown else None


@modern_rule(MUST, "2026-07-28/basic/patterns/cancellation#intro-3", "notification", methods=_CANCELLED, by="server")
def server_cancels_subscription(message: Message) -> Verdict:
    """A server cancels only subscriptions/listen."""
    call = message.receiver.calls.find(message.body.get("requestId"))
    if call is None or call.method == "subscriptions/listen":
        return None
    if not call.has_known_params:
        return None  # only the start of the request is recorded, so its method is unknown
    return Fault(f"the server cancels {call.method}", (call.event,))


@legacy_rule(MUST, f"{_PAGE}#behavior-requirements-4", "notification", methods=_CANCELLED)
def task_is_cancelled_as_task(message: Message) -> Verdict:
    """A task is cancelled with tasks/cancel."""
    call = message.sender.finished.find(message.body.get("requestId"))
    if call is None or call.task_id is None:
        return None
    return Fault(f"the {message.side} cancels {call.method}, which has become a task, by its request id", (call.event,))


@rule(MUST, "2026-07-28/basic/transports/stdio#cancellation-3",
      "result error", needs="ordered", should_until=R2026_07_28)  # fmt: skip
def no_response_after_cancellation(message: Message) -> Verdict:
    """A cancelled request gets no response."""
    call = message.call
    if call is None or call.cancelled_event is None or call.method == "subscriptions/listen":
        return None
    # If the other side has responded to a request that was sent after the cancellation, it had read the cancellation.
    request_event, response_event = message.receiver.latest_answered
    if request_event < call.cancelled_event:
        return None  # the response can have crossed the cancellation on the way
    text = f"the {message.side} responds to a cancelled {call.method}, although it has responded to a later request"
    return Fault(text, (call.cancelled_event, response_event))
