"""Time limits that share one timer, and that can be stopped, for example while a user signs in.

    limits = TimeLimits()
    with limits.timeout(60.0):           raises TimeoutError after 60 s
        ...
    with limits.stopped():               inside this block, no limit ends
        ...                              a user types a password
                                         after the block, each limit continues with the time that it had left

If the limits went on, every request would time out before its user has found the password, and a protected server would
look like one that does not respond.

Most requests end long before their limit, so a timer for each of them, as `asyncio.timeout` makes it, would waste a
tenth of a client's time.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Iterator
from types import TracebackType


class TimeLimit:
    """A time limit, as a context manager. At its end, the block is cancelled, and TimeoutError is raised after it."""

    __slots__ = ("_earlier_cancels", "_limits", "_task", "deadline", "end", "has_ended", "seconds", "stopped_since")

    def __init__(self, limits: TimeLimits, seconds: float | None, max_seconds: float | None) -> None:
        loop = asyncio.get_running_loop()
        if limits.loop is not loop:
            limits.bind(loop)
        self._limits, self.seconds = limits, seconds
        self.has_ended = False
        now = loop.time()
        self.end = math.inf if seconds is None else now + seconds
        """The end on the event loop's clock; infinity without a limit."""
        self.deadline = math.inf
        """The latest end that `restart` can set, on the event loop's clock."""
        if max_seconds is not None:
            self.deadline = now + max_seconds
            self.end = min(self.end, self.deadline)
        self.stopped_since = 0.0
        """Start of the current `stopped` block, or of this limit if that is later, on the event loop's clock."""

    def __enter__(self) -> TimeLimit:
        limits = self._limits
        task = asyncio.current_task(limits.loop)
        assert task is not None
        self._task, self._earlier_cancels = task, task.cancelling()
        limits.running.add(self)
        if limits.open_stops:
            self.stopped_since = asyncio.get_running_loop().time()
        elif self.end < limits.next_check:
            limits.check_by(self.end)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._limits.running.discard(self)
        if not self.has_ended:
            return
        is_cancelled_by_others = self._task.uncancel() > self._earlier_cancels
        # Others may have cancelled the task as well. Then their CancelledError goes on, and no TimeoutError hides it.
        if kind is asyncio.CancelledError and not is_cancelled_by_others:
            raise TimeoutError from error

    def restart(self) -> None:
        """Begin again with the whole time, up to the deadline. Do nothing without a deadline."""
        if self.seconds is not None and self.deadline < math.inf and not self.has_ended:
            self.end = min(asyncio.get_running_loop().time() + self.seconds, self.deadline)
            self._limits.check_by(self.end)

    def postpone(self, seconds: float) -> None:
        """Move the end and the deadline."""
        self.end += seconds
        self.deadline += seconds

    def interrupt(self) -> None:
        """End the limit now, as if its time were over.

        Do nothing if it has ended, or if its own block calls this, because the block can leave by itself.
        """
        if not self.has_ended and asyncio.current_task() is not self._task:
            self.expire()

    def expire(self) -> None:
        """End the limit, and cancel its block."""
        self.has_ended = True
        self._task.cancel()


class TimeLimits:
    """The running time limits of one connection, which belong to the event loop of the first one."""

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self.running: set[TimeLimit] = set()
        self.open_stops = 0
        """Number of open `stopped` blocks."""
        self._timer: asyncio.TimerHandle | None = None  # calls `_check` at the earliest end, or before it
        self.next_check = math.inf
        """The time at which the timer calls `_check`, on the event loop's clock; infinity without a timer."""

    def timeout(self, seconds: float | None, max_seconds: float | None = None) -> TimeLimit:
        """Return a context manager that raises TimeoutError at the end of the time.

        Args:
            seconds: The time; None for no limit.
            max_seconds: The total time with all restarts, in seconds; None if the time cannot be restarted.
        """
        return TimeLimit(self, seconds, max_seconds)

    def bind(self, loop: asyncio.AbstractEventLoop) -> None:
        """Keep the first event loop. Raise RuntimeError for another one, because the timer of the first may be dead."""
        if self.loop is not None:
            raise RuntimeError("the connection belongs to another event loop: use it only on the loop that opened it")
        self.loop = loop

    def check_by(self, end: float) -> None:
        """Call `_check` at this time, unless the timer calls it earlier anyway."""
        if end >= self.next_check:
            return
        self._stop_timer()
        self.next_check = end
        self._timer = asyncio.get_running_loop().call_at(end, self._check)

    def _check(self) -> None:
        self._stop_timer()
        if self.open_stops:
            return
        now = asyncio.get_running_loop().time()
        next_end = math.inf
        for limit in tuple(self.running):
            if limit.has_ended:
                continue
            if limit.end <= now:
                limit.expire()
            else:
                next_end = min(next_end, limit.end)
        self.check_by(next_end)

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Return a context manager that stops all limits. Several may overlap."""
        self.open_stops += 1
        if self.open_stops == 1:
            now = asyncio.get_running_loop().time()
            for limit in self.running:
                limit.stopped_since = now
        try:
            yield
        finally:
            self.open_stops -= 1
            if not self.open_stops:
                self._continue()

    def _continue(self) -> None:
        now = asyncio.get_running_loop().time()
        for limit in self.running:
            limit.postpone(now - limit.stopped_since)
        # Let the timer do the check. A check here could cancel the current task, and if this task then left its block
        # without an `await`, the cancellation would hit the code after the block.
        self.check_by(now)

    def close(self) -> None:
        """Stop the timer at the end of the connection, unless a limit runs on."""
        self._stop_timer()
        if self.running:  # the failed requests leave their limits in the loop's next iteration, so check after that
            self.check_by(asyncio.get_running_loop().time())

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self.next_check = None, math.inf
