"""Waits for the program's handlers, which can ignore their cancellation, or raise CancelledError without one.

Used by: basic/authorization/, bridge/, client/, extensions/tasks/ and host/
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
    """Cancel handlers of input requests. Leave those running that have not ended after `CANCEL_SECONDS`."""
    for each in handlers:
        each.cancel()
    ended = asyncio.gather(*handlers, return_exceptions=True)
    await asyncio.wait([ended], timeout=CANCEL_SECONDS)
    if not ended.done():
        stuck = sum(not each.done() for each in handlers)
        log.warning("handlers of input requests ignore their cancellation, and still run: %d", stuck)


def retrieve_exception(task: asyncio.Task[Any]) -> None:
    """Retrieve the exception of an ended task. Otherwise asyncio would log it if nobody waits for the task."""
    if not task.cancelled():
        task.exception()


async def run_handler(handler: Awaitable[T]) -> T:
    """Return the result of a handler. Raise McpError if the handler itself raises CancelledError.

    It does so if it awaits a dialog that the user closes, for example. If we passed the CancelledError on, our caller
    would seem to be cancelled too.
    """
    try:
        return await handler
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise McpError("the handler of an input request was cancelled") from None
