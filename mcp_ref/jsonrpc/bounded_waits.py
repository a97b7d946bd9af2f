"""The waits for handlers of the program, which can ignore their cancellation, or look cancelled when nobody did that.

Used by: client/, extensions/tasks/ and host/
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Collection
from typing import Any, Final, TypeVar

from .errors import McpError

T = TypeVar("T")
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


async def run_handler(handler: Awaitable[T]) -> T:
    """Return the result of a handler. Raise McpError if the handler itself raises CancelledError.

    It may have awaited a dialog that the user has closed. Our caller would wrongly seem to be cancelled.
    """
    try:
        return await handler
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise McpError("the handler of an input request was cancelled") from None
