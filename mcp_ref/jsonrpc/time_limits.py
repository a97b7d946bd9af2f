"""The time limits of one connection. They stop while a user signs in.

    async with limits.timeout(60.0):     raises TimeoutError after 60 s
        ...
    with limits.stopped():               inside this block, no limit of the connection runs out
        ...                              a user types a password
                                         after the block, each limit continues with the time that it had left

Otherwise requests would time out while the user is still looking for the password, and a protected server would seem
not to respond. [2026-07-28 basic/authorization/index#authorization-flow-steps]
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from typing import Any, Final

from .errors import RequestTimeout

log = logging.getLogger(__name__)

CANCEL_SECONDS: Final = 0.5
"""Time for a handler of the program to end after its cancellation, in seconds."""


class TimeLimits:
    """The running time limits of one connection. Call its methods on the connection's event loop."""

    def __init__(self) -> None:
        self.running: dict[asyncio.Timeout, Callable[[float], None] | None] = {}
        """The limits, each with a function that is told, after a stop, how many seconds the stop took."""
        self.stops = 0
        """Number of open `stopped` blocks. While there is one, call `stop` for each new limit."""
        self._stopped: dict[asyncio.Timeout, tuple[float, float]] = {}  # when each would have ended, and was stopped

    @contextlib.asynccontextmanager
    async def timeout(self, seconds: float | None) -> AsyncIterator[asyncio.Timeout]:
        """Return a context manager like `asyncio.timeout`. It raises TimeoutError at the end of the time."""
        async with asyncio.timeout(seconds) as timer:
            self.running[timer] = None
            if self.stops:
                self.stop(timer)
            try:
                yield timer
            finally:
                del self.running[timer]

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Return a context manager that stops all limits. Several blocks may overlap."""
        self.stops += 1
        for timer in self.running:
            self.stop(timer)
        try:
            yield
        finally:
            self.stops -= 1
            if not self.stops:
                self._continue()

    def stop(self, timer: asyncio.Timeout) -> None:
        end = timer.when()
        if end is not None and not timer.expired():
            self._stopped[timer] = end, asyncio.get_running_loop().time()
            timer.reschedule(None)

    def _continue(self) -> None:
        now = asyncio.get_running_loop().time()
        stopped, self._stopped = self._stopped, {}
        for timer, (end, stopped_at) in stopped.items():
            if timer in self.running and not timer.expired():
                duration = now - stopped_at
                timer.reschedule(end + duration)
                on_stop = self.running[timer]
                if on_stop is not None:
                    on_stop(duration)


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
