"""A client for programs without asyncio, such as scripts and notebooks.

    with SyncClient(["python3", "server.py"]) as client:
        print(client.call_tool("add", {"a": 1, "b": 2}).text)

It runs a `Client` on an event loop in a second thread, and each call waits for that loop. Callbacks (`sampling`,
`on_log`, ...) run in the second thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import CancelledError
from typing import Concatenate, ParamSpec, TypeVar

from ..basic.lifecycle import Implementation
from ..jsonrpc.errors import ConnectionClosed
from ..revisions import Revision
from .client import Client
from .connector import InProcessServer

T = TypeVar("T")
P = ParamSpec("P")


def _blocking(
    method: Callable[Concatenate[Client, P], Coroutine[object, object, T]],
) -> Callable[Concatenate[SyncClient, P], T]:
    """Return a method of `SyncClient` that waits for a method of `Client`, with its arguments and docstring."""

    @functools.wraps(method)
    def call(self: SyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.run(method(self.client, *args, **kwargs))

    return call


class SyncClient:
    """A blocking client, to be used as a context manager.

    The methods take the arguments of the methods of `Client`. `run` waits for any other method:
    `client.run(client.client.start_tool("report"))`.

    Args:
        server: A command as a list, a URL, a `Server`, or a `Client` that is not connected yet.
    """

    def __init__(self, server: Client | Sequence[str] | str | InProcessServer) -> None:
        self.client = server if isinstance(server, Client) else Client(server)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> SyncClient:
        if self._thread is not None or self.client.is_used:
            raise RuntimeError("a client connects once; make a new one for a new connection")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run_loop, args=(self._loop,), name="mcp-client", daemon=True)
        self._thread.start()
        try:
            self.run(self.client.connect())
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        assert self._thread is not None
        loop = self._loop
        try:
            if loop is not None:
                self.run(self.client.close())
        finally:
            self._loop = None
            if loop is not None:
                with contextlib.suppress(RuntimeError):  # the loop has ended by itself
                    loop.call_soon_threadsafe(loop.stop)
            self._thread.join()

    def _run_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run the event loop. If a `sys.exit` in a callback ends it, no caller is left waiting."""
        try:
            loop.run_forever()
        finally:
            self._loop = None
            waiting = asyncio.all_tasks(loop)
            for task in waiting:
                task.cancel()
            waiting.add(loop.create_task(self.client.close()))
            loop.run_until_complete(asyncio.wait(waiting, timeout=10.0))
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    def run(self, call: Coroutine[object, object, T]) -> T:
        """Return the result of a call of the underlying client, after waiting for it.

        Args:
            call: A coroutine, such as `client.client.start_tool("report")`.

        Raises:
            RuntimeError: If the client is not connected, or if a callback of the client waits for the client.
            ConnectionClosed: If the client is closed before the call is done.
        """
        if self._loop is None:
            call.close()
            raise RuntimeError("not connected: use `with SyncClient(...) as client`")
        if threading.current_thread() is self._thread:
            call.close()
            raise RuntimeError("a callback runs in the client's own thread, which cannot wait for itself")
        future = asyncio.run_coroutine_threadsafe(call, self._loop)
        try:
            return future.result()
        except CancelledError:
            if self._loop is None:
                raise ConnectionClosed("the client was closed") from None
            raise
        except BaseException:
            future.cancel()  # such as Ctrl-C: the server is told that the request is cancelled
            raise

    @property
    def revision(self) -> Revision:
        """The negotiated revision."""
        return self.client.revision

    @property
    def server_info(self) -> Implementation:
        """The server's name and version, as it claims."""
        return self.client.server_info

    ping = _blocking(Client.ping)
    list_tools = _blocking(Client.list_tools)
    call_tool = _blocking(Client.call_tool)
    list_resources = _blocking(Client.list_resources)
    list_resource_templates = _blocking(Client.list_resource_templates)
    read_resource = _blocking(Client.read_resource)
    list_prompts = _blocking(Client.list_prompts)
    get_prompt = _blocking(Client.get_prompt)
    complete = _blocking(Client.complete)
    set_logging_level = _blocking(Client.set_logging_level)
