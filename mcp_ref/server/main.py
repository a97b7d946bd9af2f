"""A server as the whole program: from its start to an end that nothing can hold up.

Spec:  2025-11-25 basic/lifecycle#shutdown: the client expects a server to leave when its input is closed
Above: server.py
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from concurrent.futures import Executor

log = logging.getLogger(__name__)

WORKER_NAME = "mcp-worker"
"""What the names of our worker threads begin with."""


def run_program(serve: Callable[[], Coroutine[object, object, None]], workers: Callable[[], Executor | None]) -> None:
    """Serve until that ends, or until SIGINT or SIGTERM. workers: gives the threads that were started, if any."""

    async def until_terminated() -> None:
        task = asyncio.current_task()
        if task is not None and threading.current_thread() is threading.main_thread():
            with contextlib.suppress(NotImplementedError):  # Windows
                asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        try:
            await serve()
        finally:
            await _end_tasks()

    with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
        asyncio.run(until_terminated())
    executor = workers()
    if executor is not None:
        executor.shutdown(wait=False, cancel_futures=True)
        _leave_if_stuck()


async def _end_tasks() -> None:
    """Cancel what is left, and leave the process although a tool ignores that: asyncio would wait for it."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks and (await asyncio.wait(tasks, timeout=0.2))[1]:
        _leave("a tool ignores that it was cancelled")


def _leave_if_stuck() -> None:
    """Leave the process although a worker thread is still inside a tool: Python cannot stop a thread, and would wait.

    [2025-11-25 basic/lifecycle#shutdown] the client expects the server to exit when its input is closed
    """
    workers = [thread for thread in threading.enumerate() if thread.name.startswith(WORKER_NAME)]
    for thread in workers:
        thread.join(0.2 / len(workers))  # idle ones leave at once
    if any(thread.is_alive() for thread in workers):
        _leave("a tool still runs in a worker thread")


def _leave(why: str) -> NoReturn:
    log.warning("leaving while %s", why)
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
