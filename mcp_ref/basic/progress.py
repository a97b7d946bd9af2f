"""Progress: notifications about a long request, by which its receiver reports how much is done.

The sender asks for reports with a `progressToken` in the request's `_meta`. The receiver MAY then send any number of
notifications with this token, until it sends the response.

- A token MUST be unique across the sender's active requests: else a report could belong to two of them.
- `progress` MUST increase with each report, even without a `total`: a late report must not move a display backwards.
- A report MUST name a token of an active request, and reports MUST stop with the response. Others are ignored,
  so that a peer cannot extend a time limit by guessing tokens. `max_timeout` bounds the extension anyway.
- Both sides SHOULD limit the rate of reports.

    2024-10-07, 2024-11-05    token, `progress`, `total`; either side may report
    2025-03-26                added: `message`, a text for people
    2025-11-25                a task keeps its token until it ends, also after its `CreateTaskResult`
    2026-07-28                only the server reports, on the stream of the request; never on a subscription

Spec:  basic/utilities/progress (2024-11-05 to 2025-11-25), basic/patterns/progress (2026-07-28)
       [2025-11-25 basic/utilities/progress#progress-flow] [2026-07-28 basic/patterns/progress#behavior-requirements]
Wire:  {"jsonrpc": "2.0", "method": "notifications/progress",
        "params": {"progressToken": "abc123", "progress": 50, "total": 100, "message": "Reticulating splines..."}}
Above: a tool calls `Context.report_progress`. Below: `Requester.request` uses the request's id as its token.
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
    """The progress of the request with this token. An unknown `total` is left out. `message` is for people."""

    progress_token: str | int
    progress: float
    total: float | None = None
    message: Annotated[str | None, Availability(since=R2025_03_26)] = None
    meta: Object | None = None


ProgressHandler = Callable[[float, float | None, str | None], None]
"""A function that is called with progress, total and message of each report."""


def progress_token(meta: Object | None) -> RequestId | None:
    """Return the token of a request, or None. `0` and `""` are valid tokens."""
    token = (meta or {}).get("progressToken")
    return token if is_request_id(token) else None


class ProgressReporter:
    """The progress of one request, on its receiver's side. Values that do not increase are left out."""

    def __init__(self, token: RequestId) -> None:
        self.token = token
        self._last = -math.inf

    def notification(
        self, progress: float, total: float | None, message: str | None
    ) -> ProgressNotificationParams | None:
        """Return the notification to send, or None if the value did not increase. Raise ValueError for NaN."""
        if not math.isfinite(progress) or not math.isfinite(total or 0):
            raise ValueError(f"progress and total are finite numbers, not {progress} of {total}")
        if progress <= self._last:
            # [2025-11-25 basic/utilities/progress#progress-flow] the value MUST increase with each notification
            log.debug("left out a progress of %s after one of %s", progress, self._last)
            return None
        self._last = progress
        return ProgressNotificationParams(self.token, progress, total, message)


def receive_progress(params: ProgressNotificationParams, dispatcher: Dispatcher) -> None:
    """Pass a report to the caller of its request, and restart the request's time limit."""
    pending = dispatcher.pending.get(params.progress_token)
    if pending is None or pending.on_progress is None:
        # [2025-11-25 basic/utilities/progress#behavior-requirements] only tokens of active requests
        log.debug("ignored progress for the token %.80r, which no active request has", params.progress_token)
        return
    pending.extend()
    pending.on_progress(params)
