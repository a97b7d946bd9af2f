"""The lifespan of a server: a context manager for the objects that its handlers share, such as a database connection.

    @asynccontextmanager
    async def connect(server: Server) -> AsyncIterator[Database]:
        async with open_database("notes.db") as database:
            yield database

    server = Server("notes", lifespan=connect)

    @server.tool()
    async def search(text: str, context: Context[Database]) -> list[str]:
        return await context.state.search(text)

The server enters the context manager before it serves the first client. All sessions and HTTP applications of the
server share this entry. The server leaves the context manager when the last of them has ended, with its requests and
tasks. After that, a new client begins a new entry.

    no client --enter--> entering --> entered --leave, after the last client--> leaving --> no client
                            '-- an exception --> no client: the server serves nothing, and raises RuntimeError
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TypeVar

log = logging.getLogger(__name__)
ServerT = TypeVar("ServerT")


class Lifespan:
    """The context manager of a server.

    Args:
        name: The name of the server, for errors.
        function: The author's function that returns a context manager.
        server: The argument of the function.

    Raises:
        TypeError: `function` is an async generator function without its decorator.
    """

    def __init__(
        self, name: str, function: Callable[[ServerT], AbstractAsyncContextManager[object]], server: ServerT
    ) -> None:
        if inspect.isasyncgenfunction(function):
            text = f"write @contextlib.asynccontextmanager above `async def {function.__name__}`, the lifespan"
            raise TypeError(f"{text} of the server {name!r}")
        self.state: object = None
        """The value that the context manager has yielded; None while the context manager is not entered."""
        self._name, self._open = name, partial(function, server)
        self._task: asyncio.Task[None] | None = None  # runs the context manager
        self._entered: asyncio.Future[None]  # these two belong to `_task`
        self._stop: asyncio.Event

    async def enter(self) -> None:
        """Enter the context manager, unless it is entered already. Wait until it is entered.

        Raises:
            RuntimeError: The context manager raised an exception, or it was entered on another event loop.
        """
        loop = asyncio.get_running_loop()
        while (task := self._task) is not None and task.get_loop() is loop and self._stop.is_set():
            await asyncio.wait([task])  # the previous entry is being left
        if task is not None and task.get_loop() is not loop:
            rule = "use one Server object for each event loop"
            raise RuntimeError(f"the lifespan of the server {self._name!r} belongs to another event loop; {rule}")
        if task is None:
            self._entered, self._stop = loop.create_future(), asyncio.Event()
            # A task of its own, because a context manager with a TaskGroup must be entered and left in the same task.
            self._task = loop.create_task(self._run(self._entered, self._stop))
        try:
            await asyncio.shield(self._entered)
        except Exception as error:
            raise self._failure("cannot serve", error) from error

    async def _run(self, entered: asyncio.Future[None], stop: asyncio.Event) -> None:
        try:
            async with self._open() as self.state:
                entered.set_result(None)
                await stop.wait()
        except Exception as error:
            if stop.is_set():
                raise  # in `leave`
            if entered.done():
                log.exception("the lifespan of the server %r failed while the server was serving", self._name)
            else:
                entered.set_exception(error)
        finally:
            self.state, self._task = None, None
            entered.cancel()

    async def leave(self) -> None:
        """Leave the context manager, if it is entered. Raise RuntimeError if it raises an exception."""
        task = self._task
        if task is None:
            return
        is_first = not self._stop.is_set()
        self._stop.set()
        if not self._entered.done():
            task.cancel()
        await asyncio.wait([task])
        if is_first and not task.cancelled() and (error := task.exception()) is not None:
            raise self._failure("could not end", error) from error

    def _failure(self, event: str, error: BaseException) -> RuntimeError:
        reason = f"{type(error).__name__}: {error}"
        return RuntimeError(f"the server {self._name!r} {event}: its lifespan failed: {reason}")
