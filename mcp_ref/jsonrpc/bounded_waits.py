"""The wait for cancelled handlers of the program, with a time limit, because a handler can ignore its cancellation.

Used by: client/, extensions/tasks/ and host/
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from typing import Any, Final

log = logging.getLogger(__name__)

CANCEL_SECONDS: Final = 0.5
"""Time for a handler of the program to end after its cancellation, in seconds."""


async def end_handlers(handlers: Collection[asyncio.Task[Any]]) -> None:
    """Cancel handlers of input requests, and wait at most `CANCEL_SECONDS` for them. Then they go on without us."""
    for each in handlers:
        each.cancel()
    ended = asyncio.gather(*handlers, return_exceptions=True)
    await asyncio.wait([ended], timeout=CANCEL_SECONDS)
    if not ended.done():
        stuck = sum(not each.done() for each in handlers)
        log.warning("%d handlers of input requests ignore their cancellation, and still run", stuck)
