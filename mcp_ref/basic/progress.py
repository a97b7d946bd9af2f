"""Progress: the receiver of a long request tells its sender how far it has come.

The sender asks for it by putting a `progressToken` into the request's `_meta`. The receiver may then send
notifications that carry the token, with a value that always increases, until it answers.

Spec:  basic/utilities/progress (2024-11-05 to 2025-11-25), basic/patterns/progress (2026-07-28)
Wire:  {"jsonrpc": "2.0", "method": "notifications/progress",
        "params": {"progressToken": "abc123", "progress": 50, "total": 100, "message": "Reticulating splines..."}}
Elsewhere: the token is the request's id (`Dispatcher.request`); what a tool calls is `Context.report_progress`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from ..jsonrpc.dispatcher import Dispatcher
from ..jsonrpc.messages import Object, RequestId, is_request_id
from ..revisions import R2025_03_26, Life

log = logging.getLogger(__name__)


@dataclass
class ProgressNotificationParams:
    """How far the request with this token has come. `total` is None where it is unknown; `message` is for people."""

    progress_token: str | int
    progress: float
    total: float | None = None
    message: Annotated[str | None, Life(since=R2025_03_26)] = None
    meta: Object | None = None


ProgressHandler = Callable[[float, float | None, str | None], None]
"""Called with progress, total and message for each progress notification of a request."""


def progress_token(meta: Object | None) -> RequestId | None:
    """The token that a request carries, or None. `0` and `""` are tokens like any other."""
    token = (meta or {}).get("progressToken")
    return token if is_request_id(token) else None


class ProgressReporter:
    """The receiver's side: makes the notifications of one request, and holds its values to the rule that they
    increase."""

    def __init__(self, token: RequestId) -> None:
        self.token = token
        self._last = -math.inf

    def notification(
        self, progress: float, total: float | None, message: str | None
    ) -> ProgressNotificationParams | None:
        """The notification to send, or None where the value did not increase. Raises ValueError for NaN and
        infinity."""
        if not math.isfinite(progress) or not math.isfinite(total or 0):
            raise ValueError(f"progress and total are finite numbers, not {progress} of {total}")
        if progress <= self._last:
            # [2025-11-25 basic/utilities/progress#progress-flow] the value MUST increase with each notification
            log.debug("left out a progress of %s after one of %s", progress, self._last)
            return None
        self._last = progress
        return ProgressNotificationParams(self.token, progress, total, message)


def receive_progress(params: ProgressNotificationParams, dispatcher: Dispatcher) -> None:
    """The sender's side: hand a notification to the request it belongs to, and start its time limit anew."""
    pending = dispatcher.pending.get(params.progress_token)
    if pending is None or pending.on_progress is None:
        # [2025-11-25 basic/utilities/progress#behavior-requirements] only tokens of active requests
        log.debug("ignored progress for the token %.80r, which no active request has", params.progress_token)
        return
    pending.extend()
    pending.on_progress(params)
