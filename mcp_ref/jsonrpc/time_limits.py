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
        self._running: dict[asyncio.Timeout, Callable[[float], None] | None] = {}
        self._left: dict[asyncio.Timeout, float] = {}  # of the stopped limits: the time left, in seconds
        self._stops = 0
        self._stopped_at = 0.0

    def add(self, timer: asyncio.Timeout, on_stop: Callable[[float], None] | None = None) -> None:
        """Stop this limit too. `on_stop` is called after each stop, with its duration in seconds."""
        self._running[timer] = on_stop
        if self._stops:
            self._stop(timer)

    def remove(self, timer: asyncio.Timeout | None) -> None:
        """Forget a limit. Do nothing if it is unknown."""
        if timer is not None:
            self._running.pop(timer, None)
            self._left.pop(timer, None)

    @contextlib.asynccontextmanager
    async def timeout(self, seconds: float | None) -> AsyncIterator[asyncio.Timeout]:
        """Return a context manager like `asyncio.timeout`. It raises TimeoutError at the end of the time."""
        async with asyncio.timeout(seconds) as timer:
            self.add(timer)
            try:
                yield timer
            finally:
                self.remove(timer)

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Return a context manager that stops all limits. Several may overlap."""
        if not self._stops:
            self._stopped_at = asyncio.get_running_loop().time()
            for timer in self._running:
                self._stop(timer)
        self._stops += 1
        try:
            yield
        finally:
            self._stops -= 1
            if not self._stops:
                self._continue()

    def _stop(self, timer: asyncio.Timeout) -> None:
        end = timer.when()
        if end is not None and not timer.expired():
            self._left[timer] = end - asyncio.get_running_loop().time()
            timer.reschedule(None)

    def _continue(self) -> None:
        now = asyncio.get_running_loop().time()
        for timer, left in self._left.items():
            if not timer.expired():
                timer.reschedule(now + left)
            on_stop = self._running[timer]
            if on_stop is not None:
                on_stop(now - self._stopped_at)
        self._left.clear()
