"""Cancellation: a notification by which the sender of a request says that it no longer wants the response.

The receiver SHOULD stop the work and send no response. The cancellation and the response may cross on the wire. So the
receiver ignores a cancellation of an unknown or finished request, and the sender ignores a late response. A peer can
only cancel its own requests on its own connection: the id is looked up there.

    2024-10-07                no cancellation
    2024-11-05 to 2025-06-18  either side; MUST only name an own request in progress; never `initialize`
    2025-11-25                also: a task MUST be cancelled by `tasks/cancel`, which returns its final state
    2026-07-28                the client cancels: on stdio by the notification (MUST); on HTTP by closing the response
                              stream, which the server MUST treat as cancellation. A server cancels subscriptions only
Before 2026-07-28 a lost HTTP connection SHOULD NOT count as cancellation, because the client could resume the stream.
In the modern era a stream cannot be resumed, so the response is lost with the connection anyway.
[2025-11-25 basic/transports#sending-messages-to-the-server]
[2026-07-28 basic/patterns/cancellation#transport-specific-cancellation]

Spec:  basic/utilities/cancellation (2024-11-05 to 2025-11-25), basic/patterns/cancellation (2026-07-28)
Wire:  {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 123, "reason": "took too long"}}
Below: `Requester.request` has the time limit, and tells the peer when it ends.
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
    """The id of the cancelled request, and a reason for logs and people."""

    request_id: str | int
    reason: str | None = None
    meta: Object | None = None


def receive_cancelled(params: CancelledNotificationParams, dispatcher: Dispatcher) -> None:
    """Stop the peer's request that a cancellation names, if it is still being served."""
    if dispatcher.cancel(params.request_id):
        # [2025-11-25 basic/utilities/cancellation#implementation-notes] SHOULD log the reason
        # %r escapes line breaks: a peer could forge log entries with them
        log.info("the peer cancelled request %.80r: %.200r", params.request_id, params.reason)
    else:
        log.debug("ignored the cancellation of request %.80r, which is unknown or done", params.request_id)
