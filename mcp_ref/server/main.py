"""A program that runs only a server. The program ends when its standard input ends, or when a signal arrives.

To stop a server, a client closes the server's standard input, waits for the process to exit, and finally kills the
process [2025-11-25 basic/lifecycle#shutdown]. A running tool must not delay the exit. But Python cannot stop a thread,
and asyncio waits for a task that ignores its cancellation. So the program waits only `STOP_SECONDS` for each of them.

Spec:  basic/lifecycle#shutdown (2024-11-05 to 2025-11-25)
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
"""Time for the cancelled asyncio tasks to end, and then for the worker threads, in seconds."""


def run_program(serve: Callable[[], Coroutine[object, object, None]], catalog: Catalog) -> None:
    """Run `serve` until its end, or until SIGINT or SIGTERM. Then end the worker threads of the catalog."""

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
    """Cancel all other asyncio tasks. If a task does not end, exit at once: asyncio would wait without end."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks and (await asyncio.wait(tasks, timeout=STOP_SECONDS))[1]:
        _exit("a tool that ignores its cancellation is still running")


def _end_threads() -> None:
    """Exit at once if a worker thread still runs a tool: Python would wait for the thread without end."""
    workers = [thread for thread in threading.enumerate() if thread.name.startswith(WORKER_NAME_PREFIX)]
    for thread in workers:
        thread.join(STOP_SECONDS / len(workers))  # an idle thread ends immediately
    if any(thread.is_alive() for thread in workers):
        _exit("a tool is still running in a worker thread")


def _exit(reason: str) -> NoReturn:
    log.warning("the program exits although %s", reason)
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
