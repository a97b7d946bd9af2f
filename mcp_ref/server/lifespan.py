"""The lifespan of a server: a context manager for the objects that its handlers share, such as a database connection.

    @asynccontextmanager
    async def connect(server: Server) -> AsyncIterator[Database]:
        async with open_database("notes.db") as database:
            yield database

    server = Server("notes", lifespan=connect)

    @server.tool()
    async def search(text: str, context: Context[Database]) -> list[str]:
        return await context.state.search(text)

The server enters the context manager before it serves the first client, and all its sessions and HTTP applications
share the object. When the last of them has ended, with all its requests and tasks, the server leaves the context
manager. For a later client, it enters a new one.

    no client --enter--> entering --> entered --leave, after the last client--> leaving --> no client
                            '-- an exception --> no client: the server serves nothing, and raises RuntimeError

If the context manager ends while the server serves, for example because a task of its TaskGroup fails, the server ends
all sessions and HTTP applications, and a method that was serving, such as `serve_http`, raises RuntimeError. Only an
ASGI application survives this: at its next request, the server enters a new context manager. If that fails, later
requests try again, but at most once a second (service.py).
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
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
        end_serving: Called when the context manager ends while the server serves. Ends all sessions and applications.

    Raises:
        TypeError: `function` is an async generator function without its decorator, or was called already.
    """

    def __init__(
        self, name: str, function: Callable[[ServerT], AbstractAsyncContextManager[object]], server: ServerT,
        end_serving: Callable[[], Awaitable[None]],
    ) -> None:  # fmt: skip
        if inspect.isasyncgenfunction(function):
            advice = f"write @contextlib.asynccontextmanager above `async def {function.__name__}`"
            raise TypeError(f"{advice}, the lifespan of the server {name!r}")
        if not callable(function) or isinstance(function, AbstractAsyncContextManager):
            advice = "write the name of the function without parentheses"
            raise TypeError(f"the lifespan of the server {name!r} must be a function, not {function!r:.80}; {advice}")
        self.state: object = None
        """The value that the context manager has yielded; None while the context manager is not entered."""
        self.ending = asyncio.Event()
        """Set when the context manager is being left, or has ended by itself. Each context manager has a new event."""
        self.failure: RuntimeError | None = None
        """The latest failure of the context manager, which `enter` or `leave` raises; None if it never failed."""
        self._name, self._open, self._end_serving = name, partial(function, server), end_serving
        self._task: asyncio.Task[None] | None = None  # runs the context manager
        self._entered: asyncio.Future[None]  # done when `_task` has entered the context manager
        self._failure_for_leave: RuntimeError | None = None  # raised by the next `leave`

    async def enter(self) -> None:
        """Enter the context manager, unless it is entered already. Wait until it is entered.

        Raises:
            RuntimeError: The context manager raised an exception, or it was entered on another event loop.
        """
        loop = asyncio.get_running_loop()
        while (task := self._task) is not None:
            if task.get_loop() is not loop:
                rule = "use one Server object for each event loop"
                raise RuntimeError(f"the lifespan of the server {self._name!r} belongs to another event loop; {rule}")
            if not self.ending.is_set():  # entered, or being entered
                break
            await asyncio.wait([task])  # it is still leaving the previous context manager
        if task is None:
            self._entered, self.ending, self._failure_for_leave = loop.create_future(), asyncio.Event(), None
            # A context manager with a TaskGroup must be entered and left in the same task, so it gets one of its own.
            self._task = asyncio.Task(self._run(self._entered, self.ending), loop=loop)
        await asyncio.shield(self._entered)

    async def _run(self, entered: asyncio.Future[None], ending: asyncio.Event) -> None:
        try:
            async with self._open() as self.state:
                entered.set_result(None)
                await ending.wait()
        except (Exception, SystemExit, asyncio.CancelledError) as error:
            # SystemExit in an asyncio task would stop the event loop at once. CancelledError is an error too if nobody
            # has cancelled this task: the author has awaited a cancelled one, for example.
            if isinstance(error, asyncio.CancelledError) and self._task is not None and self._task.cancelling():
                raise
            if not entered.done():
                entered.set_exception(self._note_failure("cannot serve", error))
            elif ending.is_set():  # by `leave`
                self._failure_for_leave = self._note_failure("could not end", error)
            else:
                log.exception("the lifespan of the server %r failed while the server was serving", self._name)
                self._failure_for_leave = self._note_failure("stopped", error)
                self.state = None
                ending.set()
                await self._end_serving()
        finally:
            self.state, self._task = None, None
            entered.cancel()  # if this task was cancelled before it had entered, so that `enter` does not wait forever

    async def leave(self) -> None:
        """Leave the context manager, if it is entered. Raise RuntimeError if it has raised an exception."""
        task = self._task
        if task is asyncio.current_task():  # `_run` calls `end_serving`, which calls `leave`
            return
        if task is not None:
            self.ending.set()
            if not self._entered.done():  # it is still being entered, which may never end
                task.cancel()
            await asyncio.wait([task])
        failure, self._failure_for_leave = self._failure_for_leave, None
        if failure is not None:
            raise failure

    def _note_failure(self, event: str, error: BaseException) -> RuntimeError:
        """Set `failure` to an error with the reason, and return it."""
        cause = error
        while isinstance(cause, BaseExceptionGroup) and len(cause.exceptions) == 1:  # a TaskGroup wraps its errors
            cause = cause.exceptions[0]
        try:
            reason = f"{type(cause).__name__}: {cause}".removesuffix(": ")
        except Exception:  # of the author's `__str__`
            reason = f"{type(cause).__name__}, whose text cannot be read"
        self.failure = RuntimeError(f"the server {self._name!r} {event}: its lifespan failed: {reason}")
        self.failure.__cause__ = error
        return self.failure
