"""A server as the whole program: it ends with its input or by a signal, and no tool can delay the end.

A client closes the server's input, waits for the process to exit, and then kills it [2025-11-25
basic/lifecycle#shutdown]. Python cannot stop a thread, and asyncio waits for a task that ignores its cancellation. So
the program exits without waiting for them longer than `STOP_SECONDS`.

Spec:  basic/lifecycle#shutdown (2024-11-05 to 2025-11-25)
Above: server.py.
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
from typing import Final, NoReturn

from .catalog import WORKER_NAME_PREFIX, Catalog

log = logging.getLogger(__name__)

STOP_SECONDS: Final = 0.2
"""Time that cancelled tasks, and then worker threads, may take to end, in seconds."""


def run_program(serve: Callable[[], Coroutine[object, object, None]], catalog: Catalog) -> None:
    """Run `serve` until it ends, or until SIGINT or SIGTERM. Then end the threads of the catalog."""

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
    if catalog.workers is not None:
        catalog.workers.shutdown(wait=False, cancel_futures=True)
        _end_threads()


async def _end_tasks() -> None:
    """Cancel all other asyncio tasks. Exit if one ignores its cancellation, because asyncio would wait for it."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks and (await asyncio.wait(tasks, timeout=STOP_SECONDS))[1]:
        _exit("a tool ignores that it was cancelled")


def _end_threads() -> None:
    """Exit if a worker thread is still in a tool, because Python would wait for it."""
    workers = [thread for thread in threading.enumerate() if thread.name.startswith(WORKER_NAME_PREFIX)]
    for thread in workers:
        thread.join(STOP_SECONDS / len(workers))  # an idle thread ends at once
    if any(thread.is_alive() for thread in workers):
        _exit("a tool still runs in a worker thread")


def _exit(reason: str) -> NoReturn:
    log.warning("leaving while %s", reason)
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
