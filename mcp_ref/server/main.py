"""A program that runs only a server. The program ends when its standard input ends, or when a signal arrives.

To stop a server, a client closes the server's standard input, waits for the process to exit, and finally kills it
[2025-11-25 basic/lifecycle#shutdown]. A running tool must not delay the exit, but Python cannot stop a thread, and
asyncio waits for a task that ignores its cancellation. So the program waits only `STOP_SECONDS` for tasks, and
the service, when it closes, only `WORKER_END_SECONDS` for its threads (service.py).

A server over HTTP is stopped by its operator instead, usually to start a new version. At SIGTERM, it therefore drains:

    /readyz responds with 503, new sessions are refused with 503, and each subscription gets its final result
        -> the requests in flight finish, for at most `drain_seconds`; new stateless requests are still served
        -> the server closes its port, saves its sessions, and ends with exit code 0

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
from contextlib import AbstractAsyncContextManager
from typing import Final, NoReturn

from ..lib.fields import check_arguments
from ..transports.system import describe_bind_error
from .input_requests import running_loop
from .service import Service

log = logging.getLogger(__name__)

STOP_SECONDS: Final = 0.2
"""Time for the cancelled asyncio tasks to end, in seconds."""


def run_http_program(
    listening: AbstractAsyncContextManager[str], service: Service, name: str, address: str, drain_seconds: float
) -> None:
    """Run a program that serves over HTTP until SIGINT or SIGTERM. Print the URL on standard error."""
    check_arguments(run_http_program, {"drain_seconds": drain_seconds})  # now, because SIGTERM would be too late
    if not drain_seconds >= 0:
        raise ValueError(f"drain_seconds must be 0 or more, not {drain_seconds}")

    async def listen() -> None:
        async with listening as url:
            print(f"{name}: {url}", file=sys.stderr, flush=True)
            stop = service.lifespan.ending if service.lifespan is not None else asyncio.Event()
            await stop.wait()  # until the lifespan fails, or a signal cancels this task

    try:
        run_program(listen, service, "`async with server.serve_http(...)`", drain_seconds)
    except (OSError, OverflowError) as error:
        sys.exit(f"{name}: cannot serve on {address}: {describe_bind_error(error)}")


def run_program(
    serve: Callable[[], Coroutine[object, object, None]], service: Service, alternative: str, drain_seconds: float = 0.0
) -> None:
    """Run `serve` until its end, or until SIGINT or SIGTERM. Then exit, even if a tool still runs in a worker thread.

    After SIGTERM, the requests in flight have `drain_seconds` to finish (`Service.drain`), unless SIGINT or a second
    SIGTERM ends them at once.

    Raise RuntimeError, which recommends the `alternative` (a piece of code), if an event loop is already running. Raise
    SystemExit if the lifespan failed.
    """
    if running_loop() is not None:
        raise RuntimeError(f"an event loop is running already, and this method would start another; use {alternative}")
    if sys.stderr is not None and sys.stderr.isatty():
        from ..lib.text import escape_log_records  # lazy: most servers log to a host or a file, not to a terminal

        escape_log_records()
    is_main_thread = threading.current_thread() is threading.main_thread()
    earlier_handler = signal.getsignal(signal.SIGTERM)  # None if C code has set it, so that Python cannot restore it

    async def until_terminated() -> None:
        serving = asyncio.current_task()
        assert serving is not None
        draining: asyncio.Task[None] | None = None

        async def drain() -> None:
            try:
                await service.drain(drain_seconds)
            finally:
                stop()

        def stop() -> None:
            if not serving.cancelling():  # a second cancellation would interrupt the end of the program
                serving.cancel()

        def terminate() -> None:
            """Let the first SIGTERM start to drain. Without time to drain, or at a second SIGTERM, stop serving now."""
            nonlocal draining
            if draining is None and drain_seconds:
                draining = asyncio.create_task(drain())
            else:
                stop()

        if is_main_thread:
            with contextlib.suppress(NotImplementedError):  # Windows
                asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, terminate)
        try:
            await serve()
        finally:
            await _end_tasks()

    try:
        with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
            asyncio.run(until_terminated())
    except RuntimeError as error:  # every failure of a lifespan has this type
        if service.lifespan is None or error is not service.lifespan.failure:
            raise
        log.debug("the lifespan failed", exc_info=error)
        sys.exit(str(error))
    finally:
        if is_main_thread and earlier_handler is not None:
            signal.signal(signal.SIGTERM, earlier_handler)
    if any(thread.is_alive() for thread in service.threads):
        _exit("a tool is still running in a worker thread")  # Python would wait forever for the thread


async def _end_tasks() -> None:
    """Cancel all other asyncio tasks. If a task does not end, exit at once, because asyncio would wait forever."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        _, running = await asyncio.wait(tasks, timeout=STOP_SECONDS)
        if running:
            _exit("a tool that ignores its cancellation is still running")


def _exit(reason: str) -> NoReturn:
    log.warning("the program exits although %s", reason)
    logging.shutdown()  # flushes `sys.stderr` too
    sys.stdout.flush()
    os._exit(0)
