"""Waits for the peer, or for a function of the program, each with a time limit.

Used by: client/, server/ and extensions/tasks/
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from typing import Any, Final

from .errors import RequestTimeout

log = logging.getLogger(__name__)

CANCEL_SECONDS: Final = 0.5
"""Time for a handler of the program to end after its cancellation, in seconds."""


async def wait_done(future: asyncio.Future[None], seconds: float | None, text: str) -> None:
    """Wait for a future that others wait for too. Raise RequestTimeout with the text after a number of seconds."""
    try:
        async with asyncio.timeout(seconds):
            await asyncio.shield(future)
    except TimeoutError:
        raise RequestTimeout(f"{text} within {seconds} seconds") from None


async def end_handlers(handlers: Collection[asyncio.Task[Any]]) -> None:
    """Cancel handlers of input requests, and wait at most `CANCEL_SECONDS` for them. Then they go on without us."""
    for each in handlers:
        each.cancel()
    ended = asyncio.gather(*handlers, return_exceptions=True)
    await asyncio.wait([ended], timeout=CANCEL_SECONDS)
    if not ended.done():
        stuck = sum(not each.done() for each in handlers)
        log.warning("%d handlers of input requests ignore their cancellation, and still run", stuck)
