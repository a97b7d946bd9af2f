"""The worker threads of a server. They run the author's plain `def` functions, which can block.

If one client could use all threads, its slow calls would stop the calls of all other clients. So a call waits while

    running calls of its caller + running calls of its session  >=  free threads

A client that is alone thus gets a third of the threads: its 32 running calls count as 32 for its caller and as 32 for
its session, and 64 of the 96 threads are free. Every further client finds free threads. The caller is the principal or
the address (`Access.caller`).
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, Final, ParamSpec, TypeAlias, TypeVar

from ..basic.access import current_access

MAX_WORKERS: Final = 96
"""Maximum number of worker threads for plain `def` functions. One client uses at most 32 of them."""

WORKER_NAME_PREFIX: Final = "mcp-worker"
"""The first part of the name of each worker thread."""

P = ParamSpec("P")
T = TypeVar("T")
_Session: TypeAlias = tuple[str, str | None]  # the caller and the id of its session
_Calls: TypeAlias = dict[Future[Any], Callable[[], object]]  # the function of each waiting call, by its future


class Workers(ThreadPoolExecutor):
    """A thread pool in which each client has its share of the threads.

    Args:
        threads: A list to which each new thread adds itself.
    """

    def __init__(self, threads: list[threading.Thread]) -> None:
        super().__init__(MAX_WORKERS, WORKER_NAME_PREFIX, lambda: threads.append(threading.current_thread()))
        self._lock = threading.RLock()  # reentrant, because in `shutdown`, each `cancel` calls `_forget` at once
        self._running = 0
        self._running_by_client: Counter[str | _Session] = Counter()  # by caller, and by session
        self._waiting: dict[_Session, _Calls] = {}  # the session whose turn is next comes first

    def submit(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run a function in a thread, at once or as soon as its client's share allows it."""
        access = current_access.get()
        session = (access.caller, access.session_id) if access is not None else ("", None)
        with self._lock:
            if session in self._waiting or not self._has_share(session):
                waiting: Future[T] = Future()
                self._waiting.setdefault(session, {})[waiting] = partial(function, *args, **kwargs)
                waiting.add_done_callback(partial(self._forget, session))
                return waiting
            future = super().submit(function, *args, **kwargs)
            self._count(session, 1)
        # After the lock, because the callback starts other calls, and runs at once if this call is already over.
        future.add_done_callback(partial(self._call_ended, session))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Cancel the waiting calls, and end the threads."""
        with self._lock:
            for future in [future for calls in self._waiting.values() for future in calls]:
                future.cancel()
        super().shutdown(wait, cancel_futures=cancel_futures)

    def _has_share(self, session: _Session) -> bool:
        caller, _ = session
        running = self._running_by_client
        return running[caller] + running[session] < MAX_WORKERS - self._running

    def _count(self, session: _Session, change: int) -> None:
        caller, _ = session
        running = self._running_by_client
        self._running += change
        running[caller] += change
        running[session] += change
        if not running[session]:
            del running[session]
            if not running[caller]:
                del running[caller]

    def _call_ended(self, session: _Session, _: object) -> None:
        """Count a call that has ended, and start waiting calls, one of each session in turn."""
        started = []
        with self._lock:
            self._count(session, -1)
            while self._waiting:
                next_session = next(filter(self._has_share, self._waiting), None)
                if next_session is None:
                    break
                calls = self._waiting.pop(next_session)
                waiting = next(iter(calls))
                function = calls.pop(waiting)
                if calls:
                    self._waiting[next_session] = calls  # the session goes to the end of the line
                try:
                    started.append((next_session, super().submit(_run, waiting, function)))
                except RuntimeError:  # the program ends, so no thread starts any more
                    waiting.cancel()
                else:
                    self._count(next_session, 1)
        for started_session, future in started:  # after the lock, as in `submit`
            future.add_done_callback(partial(self._call_ended, started_session))

    def _forget(self, session: _Session, future: Future[Any]) -> None:
        """Remove a call that is cancelled while it waits."""
        with self._lock:
            calls = self._waiting.get(session)
            if calls is not None:
                calls.pop(future, None)
                if not calls:
                    del self._waiting[session]


def _run(future: Future[Any], function: Callable[[], object]) -> None:
    if future.set_running_or_notify_cancel():
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)
