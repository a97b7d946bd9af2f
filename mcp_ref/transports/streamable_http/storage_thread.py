"""A thread that calls the functions of a storage, which can block, so that the event loop never waits for a disk.

    event loop:  await run(function) -> the queue, in which urgent functions come first
    thread:      one function after the other -> the event loop gets each result; the thread ends after the last one

A function that hangs also delays those behind it. Each caller sets the time limit of its own wait. While
`MAX_WAITING_CALLS` calls wait for the thread, every further call fails at once.

Used by: durable_store.py
"""

from __future__ import annotations

import _thread
import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

from .event_store import StoreFailed

T = TypeVar("T")

MAX_WAITING_CALLS: Final = 10_000
"""Maximum number of calls of the storage that wait for the thread. Further calls fail (503)."""


class StorageThread:
    """A thread that calls functions, one at a time, the urgent ones first, and ends after the last one.

    It is a bare thread of `_thread`, because one of `concurrent.futures` would delay the end of the process, and
    `threading.Thread.start` would block the event loop until the thread runs.
    """

    def __init__(self) -> None:
        self._lock = _thread.allocate_lock()
        self._jobs: deque[Callable[[], None]] = deque()
        self._is_running = False

    async def run(self, function: Callable[[], T], is_urgent: bool = False) -> T:
        """Return the result of a function. Raise StoreFailed if the function fails, or if the thread cannot call it."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        with self._lock:
            if len(self._jobs) >= MAX_WAITING_CALLS:
                raise StoreFailed("an earlier call has not ended")
            if not self._is_running:
                try:
                    _thread.start_new_thread(self._run_jobs, ())
                except RuntimeError as error:
                    raise StoreFailed(str(error)) from error
                self._is_running = True
            add = self._jobs.appendleft if is_urgent else self._jobs.append
            add(partial(_call, function, future))
        return await future

    def _run_jobs(self) -> None:
        while True:
            with self._lock:
                if not self._jobs:
                    self._is_running = False
                    return
                job = self._jobs.popleft()
            job()


def _call(function: Callable[[], T], future: asyncio.Future[T]) -> None:
    """Call a function in this thread, and report its outcome to the event loop of the future."""
    if future.cancelled():
        return  # the caller no longer waits
    try:
        report = partial(future.set_result, function())
    except BaseException as error:  # also SystemExit, which would end only the thread
        failure = StoreFailed(f"{type(error).__name__}: {error}")
        failure.__cause__ = error
        report = partial(future.set_exception, failure)

    def report_if_awaited() -> None:
        if not future.done():
            report()

    with suppress(RuntimeError):  # the event loop is closed
        future.get_loop().call_soon_threadsafe(report_if_awaited)
