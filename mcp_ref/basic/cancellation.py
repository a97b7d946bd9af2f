"""Cancellation: a notification by which the sender of a request says that it no longer wants the response.

The receiver SHOULD stop the work and send no response. Because the response may already be on its way, the receiver
ignores the cancellation of a finished request, and the sender ignores a late response. A peer cannot cancel requests of
others, because a request id belongs to one connection.

    2024-10-07                requests cannot be cancelled
    2024-11-05 to 2025-06-18  client and server can cancel their own unfinished requests, except `initialize`
    2025-11-25                to cancel a task, the requestor MUST send `tasks/cancel`; the result is the final state
    2026-07-28                on stdio, a client MUST send the notification to cancel; on HTTP it closes the response
                              stream, and the server MUST stop. A server can cancel only subscriptions
Before 2026-07-28, a server SHOULD NOT treat a lost HTTP connection as a cancellation, because the client can resume the
stream. Since then it cannot, so the server MUST cancel. [2025-11-25 basic/transports#sending-messages-to-the-server]
[2026-07-28 basic/patterns/cancellation#transport-specific-cancellation]

Spec:  basic/utilities/cancellation (2024-11-05 to 2025-11-25), basic/patterns/cancellation (2026-07-28)
Wire:  {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 123, "reason": "took too long"}}
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from ..jsonrpc.dispatcher import Dispatcher
from ..jsonrpc.messages import Object

log = logging.getLogger(__name__)

UNCANCELLABLE = frozenset({"initialize"})
"""Methods that MUST NOT be cancelled. [2025-11-25 basic/utilities/cancellation#behavior-requirements]"""


@dataclass
class CancelledNotificationParams:
    request_id: str | int
    reason: str | None = None
    meta: Object | None = None


def receive_cancelled(params: CancelledNotificationParams, dispatcher: Dispatcher) -> None:
    """Stop serving the request that the peer cancelled. Do nothing if the request is unknown or finished."""
    if dispatcher.cancel(params.request_id):
        # [2025-11-25 basic/utilities/cancellation#implementation-notes] both sides SHOULD log the reason, here with %r
        # so that a line break in it cannot forge a line of the log
        log.info("the peer cancelled request %.80r: %.200r", params.request_id, params.reason)
    else:
        log.debug("ignored the cancellation of request %.80r, which is unknown or finished", params.request_id)
