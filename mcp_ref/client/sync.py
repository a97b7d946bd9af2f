"""The client for programs without asyncio: scripts, notebooks, an application's embedded Python.

    with SyncClient(["python3", "server.py"]) as client:
        print(client.call_tool("add", {"a": 1, "b": 2}).text)

It runs a `Client` on an event loop in a thread of its own; every call waits for that loop. Callbacks (`sampling`,
`on_log`, ...) are called in that thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, TypeVar

from ..basic.lifecycle import Implementation
from ..jsonrpc.errors import ConnectionClosed
from ..revisions import Revision
from .client import Client

if TYPE_CHECKING:
    from ..basic.progress import ProgressHandler
    from ..features.completion import Completion, Reference
    from ..features.logging import LoggingLevel
    from ..features.prompts import GetPromptResult, Prompt
    from ..features.resources import ReadResourceResult, Resource, ResourceTemplate
    from ..features.tools import CallToolResult, Tool
    from ..server.server import Server

T = TypeVar("T")


class SyncClient:
    """A blocking client, a context manager. It takes a `Client` that is not connected yet, or what makes one: a command
    as a list, a URL, a `Server`.

    Its methods are those of `Client` that are asked and answered at once, with their usual arguments; `run` waits for
    anything else: `client.run(client.client.start_tool("report"))`.
    """

    def __init__(self, server: Client | Sequence[str] | str | Server) -> None:
        self.client = server if isinstance(server, Client) else Client(server)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> SyncClient:
        if self._thread is not None or self.client._connector.is_used:
            raise RuntimeError("a client connects once; make a new one for a new connection")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._live, args=(self._loop,), name="mcp-client", daemon=True)
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
                with contextlib.suppress(RuntimeError):  # it has ended by itself
                    loop.call_soon_threadsafe(loop.stop)
            self._thread.join()

    def _live(self, loop: asyncio.AbstractEventLoop) -> None:
        """The life of the thread. Whatever ends it, also a `sys.exit` in a callback, nobody is left waiting."""
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
        """Wait for any call of the underlying client: `sync.run(sync.client.batch(...))`."""
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
            future.cancel()  # Ctrl-C while waiting: the server is told that nobody waits any more
            raise

    @property
    def revision(self) -> Revision:
        """The revision that is spoken."""
        return self.client.revision

    @property
    def server_info(self) -> Implementation:
        """Who the server says it is."""
        return self.client.server_info

    def ping(self) -> None:
        """See `Client.ping`."""
        self.run(self.client.ping())

    def list_tools(self) -> list[Tool]:
        """See `Client.list_tools`."""
        return self.run(self.client.list_tools())

    def call_tool(
        self,
        name: str,
        arguments: Mapping[str, object] | None = None,
        *,
        on_progress: ProgressHandler | None = None,
        timeout: float | None = None,
    ) -> CallToolResult:
        """See `Client.call_tool`."""
        return self.run(self.client.call_tool(name, arguments, on_progress=on_progress, timeout=timeout))

    def list_resources(self) -> list[Resource]:
        """See `Client.list_resources`."""
        return self.run(self.client.list_resources())

    def list_resource_templates(self) -> list[ResourceTemplate]:
        """See `Client.list_resource_templates`."""
        return self.run(self.client.list_resource_templates())

    def read_resource(self, uri: str) -> ReadResourceResult:
        """See `Client.read_resource`."""
        return self.run(self.client.read_resource(uri))

    def list_prompts(self) -> list[Prompt]:
        """See `Client.list_prompts`."""
        return self.run(self.client.list_prompts())

    def get_prompt(self, name: str, arguments: dict[str, str] | None = None) -> GetPromptResult:
        """See `Client.get_prompt`."""
        return self.run(self.client.get_prompt(name, arguments))

    def complete(
        self, ref: Reference, argument: str, value: str, arguments: dict[str, str] | None = None
    ) -> Completion:
        """See `Client.complete`."""
        return self.run(self.client.complete(ref, argument, value, arguments))

    def set_logging_level(self, level: LoggingLevel) -> None:
        """See `Client.set_logging_level`."""
        self.run(self.client.set_logging_level(level))
