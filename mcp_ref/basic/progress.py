"""Progress: notifications by which the receiver of a long request reports the state of its work.

The sender of a request asks for them with a `progressToken` in the request's `_meta`. The receiver MAY then send any
number of notifications with this token, but MUST stop when it sends the response.

- A token MUST be unique across the sender's active requests, because nothing else in a notification names its request.
- `progress` MUST increase with each notification, and both sides SHOULD limit the rate of notifications.
- A notification MUST have the token of an active request. The sender of the request ignores all others, so that a peer
  cannot extend a time limit with a guessed token.

    2024-10-07, 2024-11-05    both sides can report `progress` and `total`
    2025-03-26                added: `message`, a text for people
    2025-11-25                the token of a task stays valid until the task ends
    2026-07-28                only the server reports, on the stream of the request; never for a subscription

Spec:  basic/utilities/progress (2024-11-05 to 2025-11-25), basic/patterns/progress (2026-07-28)
       [2025-11-25 basic/utilities/progress#progress-flow] [2026-07-28 basic/patterns/progress#behavior-requirements]
Wire:  {"jsonrpc": "2.0", "method": "notifications/progress",
        "params": {"progressToken": "abc123", "progress": 50, "total": 100, "message": "Reticulating splines..."}}
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from ..jsonrpc.dispatcher import Dispatcher
from ..jsonrpc.messages import Object, RequestId, is_request_id
from ..revisions import R2025_03_26, Availability

log = logging.getLogger(__name__)


@dataclass
class ProgressNotificationParams:
    """The params of `notifications/progress`."""

    progress_token: str | int
    progress: float
    total: float | None = None  # None if it is unknown
    message: Annotated[str | None, Availability(since=R2025_03_26)] = None  # for people
    meta: Object | None = None


ProgressHandler = Callable[[float, float | None, str | None], None]  # called with `progress`, `total`, `message`


def progress_token(meta: Object | None) -> RequestId | None:
    """Return the progress token in a request's `_meta`, or None if it is absent or invalid. `0` and `""` are valid."""
    token = (meta or {}).get("progressToken")
    return token if is_request_id(token) else None


class ProgressReporter:
    """The progress notifications about one request of the peer."""

    def __init__(self, token: RequestId) -> None:
        self.token = token
        self._last = -math.inf

    def notification(
        self, progress: float, total: float | None, message: str | None
    ) -> ProgressNotificationParams | None:
        """Return the notification, or None if `progress` did not increase. Raise ValueError for NaN and infinity."""
        if not math.isfinite(progress) or (total is not None and not math.isfinite(total)):
            raise ValueError(f"progress and total must be finite numbers, got {progress} and {total}")
        if progress <= self._last:
            # [2025-11-25 basic/utilities/progress#progress-flow] the value MUST increase with each notification
            log.debug("sent no progress notification: progress %s is not above the previous %s", progress, self._last)
            return None
        self._last = progress
        return ProgressNotificationParams(self.token, progress, total, message)


def receive_progress(params: ProgressNotificationParams, dispatcher: Dispatcher) -> None:
    """Pass a progress notification to the caller of its request, and restart the request's time limit."""
    pending = dispatcher.pending.get(params.progress_token)
    if pending is None or pending.on_progress is None:
        # [2025-11-25 basic/utilities/progress#behavior-requirements] a notification MUST have an active request's token
        log.debug("ignored a progress notification: no active request has the token %.80r", params.progress_token)
        return
    # [2025-11-25 basic/lifecycle#timeouts] senders MAY reset the clock, but SHOULD enforce a maximum (`max_timeout`)
    pending.limit.restart()
    pending.on_progress(params)
