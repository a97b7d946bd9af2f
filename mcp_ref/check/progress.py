"""Progress: notifications that report on a request, and name it by its progress token.

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
        # Several clients may use this URL, so only the stream of a POST shows which requests its progress can be for.
        if exchange.method == "POST" and exchange.requests:
            return f"the request of this stream did not give the progress token {quoted(token)}"
        return None
    requester = message.receiver
    was_never_given = requester.tokens.lacks(token) and requester.finished_tokens.lacks(token)
    if dialogue.is_fully_seen and was_never_given:
        return f"no request has given the progress token {quoted(token)}"
    return None


@rule(MUST, f"{_PAGE}#implementation-notes-3", "notification", methods=_PROGRESS)
def after_response(message: Message) -> Verdict:
    """Progress stops when the request is complete."""
    dialogue, exchange = message.dialogue, message.exchange
    call = message.receiver.finished_tokens.find(message.body.get("progressToken"))
    if call is None or call_of_token(message) is not None:  # a request in flight can have the token of a finished one
        return None
    became_task = call.task_id is not None or "task" in call.params
    if became_task:  # the token is valid until the task is over
        task = dialogue.tasks.get(call.task_id or "")
        if task is None or task.status not in TERMINAL_STATUSES or not dialogue.is_ordered:
            return None
        return Fault(f"progress comes after the task was {task.status}", (task.event,))
    is_on_same_stream = exchange is not None and exchange is call.exchange
    if not dialogue.is_ordered and not is_on_same_stream:
        return None  # the server may have sent the progress before the response, on another stream
    text = f"progress {quoted(message.body.get('progress'))} comes after the response to {call.method}"
    return Fault(text, (call.event,))


@rule(MUST, f"{_PAGE}#progress-flow-3", "notification", methods=_PROGRESS)
def growing_value(message: Message) -> Verdict:
    """The progress value grows with each notification."""
    call, value = call_of_token(message), message.body.get("progress")
    if call is None or call.progress is None or message.is_replay:  # a replay repeats earlier values
        return None
    if not isinstance(value, int | float) or value > call.progress:
        return None
    return Fault(f"the progress of {call.method} goes from {call.progress} to {value}", (call.event,))


@rule(MUST, f"{_PAGE}#progress-flow-2", "request", needs="unshared")
def unique_token(message: Message) -> Verdict:
    """A progress token is unique across the requests in flight."""
    token = message.request.token
    other = message.sender.tokens.get(token) if token is not None else None
    if other is None or other.cancelled_event is not None:
        return None
    if other.id == message.id:  # `id_in_flight` reports it
        return None
    text = f"{message.method} has the progress token {quoted(token)} of {other.method}, which is unfinished"
    return Fault(text, (other.event,))
