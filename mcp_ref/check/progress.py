"""Progress: notifications about a request, by the token that the request has given.

Spec:  basic/utilities/progress (2024-11-05 to 2025-11-25), basic/patterns/progress (2026-07-28)
Used by: conversation.py
"""

from __future__ import annotations

from typing import Final

from ..extensions.tasks.types import TERMINAL_STATUSES
from .memory import call_of_token
from .rules import MUST, Fault, Verdict, rule
from .state import Message, quoted

_PAGE: Final = "2026-07-28/basic/patterns/progress"
_PROGRESS = "notifications/progress"


@rule(MUST, f"{_PAGE}#behavior-requirements-1", "notification", methods=_PROGRESS)
def known_token(message: Message) -> Verdict:
    """Progress has the token of a request in flight."""
    token, dialogue, exchange = message.body.get("progressToken"), message.dialogue, message.exchange
    if call_of_token(message) is not None or not isinstance(token, str | int):
        return None
    if exchange is not None and dialogue.is_shared:
        is_wrong = exchange.method == "POST" and bool(exchange.requests)
        return f"the request of this stream did not give the progress token {quoted(token)}" if is_wrong else None
    requester = message.receiver
    is_unknown = dialogue.is_fully_seen and requester.tokens.lacks(token) and requester.finished_tokens.lacks(token)
    return f"no request has given the progress token {quoted(token)}" if is_unknown else None


@rule(MUST, f"{_PAGE}#implementation-notes-3", "notification", methods=_PROGRESS)
def after_response(message: Message) -> Verdict:
    """Progress stops when the request is complete."""
    exchange, call = message.exchange, message.receiver.finished_tokens.find(message.body.get("progressToken"))
    if call is None or call_of_token(message) is not None:
        return None
    became_task = call.task_id is not None or "task" in call.params
    if became_task:  # the token is valid until the task is over
        task = message.dialogue.tasks.get(call.task_id or "")
        if task is None or task.status not in TERMINAL_STATUSES or not message.dialogue.is_ordered:
            return None
        return Fault(f"progress comes after the task was {task.status}", (task.event,))
    if not message.dialogue.is_ordered and (exchange is None or call.exchange is not exchange):
        return None  # the server may have sent it before the response, on another stream
    text = f"progress {quoted(message.body.get('progress'))} comes after the response to {call.method}"
    return Fault(text, (call.event,))


@rule(MUST, f"{_PAGE}#progress-flow-3", "notification", methods=_PROGRESS)
def growing_value(message: Message) -> Verdict:
    """The progress value grows with each notification."""
    call, value = call_of_token(message), message.body.get("progress")
    if call is None or call.progress is None or not isinstance(value, int | float) or value > call.progress:
        return None
    text = f"the progress of {call.method} goes from {call.progress} to {value}"
    return None if message.is_replay else Fault(text, (call.event,))


@rule(MUST, f"{_PAGE}#progress-flow-2", "request", needs="unshared")
def unique_token(message: Message) -> Verdict:
    """A progress token is unique across the requests in flight."""
    token = message.request.token
    other = message.sender.tokens.get(token) if token is not None else None
    if other is None or other.id == message.id or other.cancelled_event is not None:
        return None
    text = f"{message.method} has the progress token {quoted(token)} of {other.method}, which is unfinished"
    return Fault(text, (other.event,))
