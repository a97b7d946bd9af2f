"""The time limits of one connection. They stop while a user signs in.

    async with limits.timeout(60.0):     raises TimeoutError after 60 s
        ...
    with limits.stopped():               from here on, no limit of the connection ends: also none that begins now
        ...                              a user types a password
                                         and from here on, each limit has the time left that it had before

Without the stop, every request would time out before its user has found the password, and a protected server would look
like one that does not respond. [2026-07-28 basic/authorization/index#authorization-flow-steps]

Above: `requester.py`, client/negotiation.py, the HTTP transports
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator


class TimeLimits:
    """The running time limits of one connection. Call its methods on the connection's event loop."""

    def __init__(self) -> None:
        self.running: dict[asyncio.Timeout | None, Callable[[float], None] | None] = {}
        """The limits, each with a function that is called after a stop with the duration of the stop, in seconds."""
        self.is_stopped = False
        """True while the limits are stopped. Then call `stop` for a new limit."""
        self._left: dict[asyncio.Timeout, float] = {}  # of the stopped limits: the time left, in seconds
        self._stops = 0
        self._stopped_at = 0.0

    @contextlib.asynccontextmanager
    async def timeout(self, seconds: float | None) -> AsyncIterator[asyncio.Timeout]:
        """Return a context manager like `asyncio.timeout`. It raises TimeoutError at the end of the time."""
        async with asyncio.timeout(seconds) as timer:
            self.running[timer] = None
            if self.is_stopped:
                self.stop(timer)
            try:
                yield timer
            finally:
                del self.running[timer]

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Return a context manager that stops all limits. Several may overlap."""
        if not self.is_stopped:
            self._stopped_at, self.is_stopped = asyncio.get_running_loop().time(), True
            for timer in self.running:
                self.stop(timer)
        self._stops += 1
        try:
            yield
        finally:
            self._stops -= 1
            if not self._stops:
                self._continue()

    def stop(self, timer: asyncio.Timeout | None) -> None:
        """Stop one limit."""
        end = None if timer is None else timer.when()
        if timer is not None and end is not None and not timer.expired():
            self._left[timer] = end - asyncio.get_running_loop().time()
            timer.reschedule(None)

    def _continue(self) -> None:
        now, self.is_stopped = asyncio.get_running_loop().time(), False
        for timer, left in self._left.items():
            if timer in self.running and not timer.expired():
                timer.reschedule(now + left)
                on_stop = self.running[timer]
                if on_stop is not None:
                    on_stop(now - self._stopped_at)
        self._left.clear()
