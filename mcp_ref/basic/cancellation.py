"""Cancellation: the sender of a request no longer wants its answer.

Either side says so with `notifications/cancelled`. The receiver stops the work if it still goes on, and sends no
answer. The two messages may cross on the wire; then the answer is ignored, and the cancellation too. A notification
gets no reply, so nothing here is an error.

Spec:  basic/utilities/cancellation (2024-11-05 to 2025-11-25), basic/patterns/cancellation (2026-07-28)
Wire:  {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 123, "reason": "took too long"}}
Elsewhere: the timer that cancels a request whose answer takes too long is `Dispatcher.request`'s.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from ..jsonrpc.dispatcher import Dispatcher
from ..jsonrpc.messages import Object

log = logging.getLogger(__name__)

UNCANCELLABLE = frozenset({"initialize"})
"""[2025-11-25 basic/utilities/cancellation#behavior-requirements] initialize MUST NOT be cancelled by clients."""


@dataclass
class CancelledNotificationParams:
    """Which of the sender's own requests is cancelled, and, for logs and people, why."""

    request_id: str | int
    reason: str | None = None
    meta: Object | None = None


def receive_cancelled(params: CancelledNotificationParams, dispatcher: Dispatcher) -> None:
    """Stop the peer's request that it names, if it is still being served."""
    if dispatcher.cancel(params.request_id):
        # [2025-11-25 basic/utilities/cancellation#implementation-notes] SHOULD log the reason
        # %r, as a reason with line breaks could look like other lines of the log
        log.info("request %.80r was cancelled by the peer: %.200r", params.request_id, params.reason)
    else:
        log.debug("ignored the cancellation of request %.80r: it is unknown, or done", params.request_id)
