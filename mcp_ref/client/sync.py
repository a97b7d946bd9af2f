"""A client for programs without asyncio, such as scripts and notebooks.

    with SyncClient(["python3", "server.py"]) as client:
        print(client.call_tool("add", {"a": 1, "b": 2}).text)

A `SyncClient` runs a `Client` on an event loop in a second thread, and each of its methods waits for the result from
that thread. It has the same options as `Client`, and runs its callbacks in the second thread too.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import sys
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import CancelledError, Future
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Self, TypeAlias, TypeVar

from ..basic.lifecycle import Implementation
from ..jsonrpc.bounded_waits import retrieve_exception
from ..jsonrpc.errors import ConnectionClosed
from ..revisions import Revision
from .client import Client
from .options import ClientOptions
from .target import InProcessServer

if TYPE_CHECKING:
    from typing import Unpack

T = TypeVar("T")
P = ParamSpec("P")
C = TypeVar("C", covariant=True)
AsyncMethod: TypeAlias = Callable[[], Coroutine[object, object, object]]


def blocking(
    method: Callable[Concatenate[C, P], Coroutine[object, object, T]],
) -> Callable[Concatenate[Synchronous[C], P], T]:
    """Return a method that runs an async method of the wrapped object, and waits for its result."""

    @functools.wraps(method)
    def call(self: Synchronous[C], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.run(method(self.wrapped, *args, **kwargs))

    return call


class Synchronous(Generic[C]):
    """The base class of `SyncClient` and `SyncHost`."""

    def __init__(self, wrapped: C, open: AsyncMethod, close: AsyncMethod) -> None:
        self.wrapped, self._open, self._close = wrapped, open, close
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closing: asyncio.Task[object] | None = None
        self._calls: set[Future[Any]] = set()  # calls that a thread waits for
        self._pid = 0  # the process that has opened the client; a forked process has no second thread

    def __enter__(self) -> Self:
        if self._thread is not None:
            raise RuntimeError(f"a {type(self).__name__} can be opened only once: create a new one")
        self._loop, self._pid = asyncio.new_event_loop(), os.getpid()
        self._thread = threading.Thread(target=self._run_loop, args=(self._loop,), name="mcp-client", daemon=True)
        try:
            self._thread.start()
        except KeyboardInterrupt:  # do not wait for the thread, which may not exist; if it does, it closes the loop
            self._loop.call_soon_threadsafe(self._loop.stop)
            raise
        try:
            self.run(self._open())
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        assert self._thread is not None
        if self._missing_thread_reason() is not None:
            return  # in a forked process, the parent uses the connection; at Python's exit, the exit closes it
        loop = self._loop
        try:
            if loop is not None:
                self.run(self._close_once())
        finally:
            self._loop = None
            if loop is not None:  # None if the loop has ended by itself, because a callback raised SystemExit
                with contextlib.suppress(RuntimeError):  # the event loop is already closed
                    loop.call_soon_threadsafe(loop.stop)
            self._thread.join()

    async def _close_once(self) -> None:
        """Close the wrapped object, once. Closing continues even if Ctrl-C interrupts the thread that waits for it."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)

    def _run_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run the event loop. At its end, close, and cancel all tasks, so that no thread waits forever for a result.

        Each step has 10 seconds, because a handler of the program can ignore its cancellation.
        """
        try:
            loop.run_forever()
        finally:
            self._loop = None
            closing = loop.create_task(self._close_once())
            closing.add_done_callback(retrieve_exception)
            loop.run_until_complete(asyncio.wait([closing], timeout=10.0))
            ending = asyncio.all_tasks(loop)
            for task in ending:
                task.cancel()
            loop.run_until_complete(asyncio.wait({*ending, closing}, timeout=10.0))  # `wait` refuses an empty set
            generators = loop.create_task(loop.shutdown_asyncgens())
            loop.run_until_complete(asyncio.wait([generators], timeout=10.0))
            loop.close()
            for call in tuple(self._calls):  # those that came too late to become a task of the loop
                call.cancel()

    def _missing_thread_reason(self) -> str | None:
        """Return a reason if the second thread is missing, as after a fork or while Python exits; otherwise None."""
        if os.getpid() != self._pid:
            return "another process opened it: open a new one after the fork"
        return "Python is exiting: use it before, in a `with` block or `atexit`" if sys.is_finalizing() else None

    def run(self, call: Coroutine[object, object, T]) -> T:
        """Wait for a coroutine, such as `client.client.start_tool("report")`. Return its result.

        Raises:
            RuntimeError: If the client or host is not open, if one of its callbacks calls this method, or if a forked
                process does, which has no second thread.
            ConnectionClosed: If the client or host is closed before the coroutine ends.
        """
        name = type(self).__name__
        loop = self._loop  # read once, because another thread can close the client at any time
        if loop is None:
            call.close()
            raise RuntimeError(f"not connected: use `with {name}(...) as {name.removeprefix('Sync').lower()}`")
        if threading.current_thread() is self._thread:
            call.close()
            raise RuntimeError(f"a callback must not call the {name}: its thread would wait for itself")
        if (reason := self._missing_thread_reason()) is not None:
            call.close()
            raise RuntimeError(f"the {name} cannot be used, because {reason}")
        try:
            future = asyncio.run_coroutine_threadsafe(call, loop)
        except RuntimeError:  # the event loop was closed after the check above
            call.close()
            raise ConnectionClosed(f"the {name} was closed") from None
        self._calls.add(future)
        if loop.is_closed():
            future.cancel()  # `_run_loop` may have cancelled its calls before this one was added
        try:
            return future.result()
        except CancelledError:
            if self._loop is None:
                call.close()  # else Python warns about a coroutine that was never awaited
                raise ConnectionClosed(f"the {name} was closed") from None
            raise
        except BaseException:
            future.cancel()  # for example after Ctrl-C: cancel the request at the server too
            raise
        finally:
            self._calls.discard(future)


class SyncClient(Synchronous[Client]):
    """A client whose methods block until they have the result. Use it as a context manager.

    The methods have the same arguments as the methods of `Client`. For a method of `Client` that is not in this class,
    write `client.run(client.client.start_tool("report"))`.

    Args:
        server: The server's command as a list, the server's URL, a `Server`, or a new `Client`.
        options: See `ClientOptions`. A `Client` has its own options.

    Raises:
        TypeError: `server` is a `Client` and options are given too, or `Client` refuses the type of an argument.
    """

    def __init__(
        self, server: Client | Sequence[str] | str | InProcessServer, **options: Unpack[ClientOptions]
    ) -> None:
        if isinstance(server, Client) and options:
            raise TypeError(f"give the option {next(iter(options))} to the Client, which exists already")
        self.client = server if isinstance(server, Client) else Client(server, **options)
        super().__init__(self.client, self.client.connect, self.client.close)

    @property
    def revision(self) -> Revision:
        """The negotiated revision."""
        return self.client.revision

    @property
    def server_info(self) -> Implementation:
        """The name and version that the server claims. They are unverified."""
        return self.client.server_info

    ping = blocking(Client.ping)
    list_tools = blocking(Client.list_tools)
    call_tool = blocking(Client.call_tool)
    list_resources = blocking(Client.list_resources)
    list_resource_templates = blocking(Client.list_resource_templates)
    read_resource = blocking(Client.read_resource)
    list_prompts = blocking(Client.list_prompts)
    get_prompt = blocking(Client.get_prompt)
    complete = blocking(Client.complete)
    set_logging_level = blocking(Client.set_logging_level)
