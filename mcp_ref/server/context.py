"""The context of a request: the object with which the function of a tool, resource or prompt can reach the client.

If the function has a parameter with the annotation `Context`, the server passes the context of the current request:

    @server.tool()
    async def count(to: int, context: Context) -> str:
        for number in range(to):
            await context.report_progress(number + 1, to)
        return "done"

A plain `def` function runs in a worker thread, where `await` is impossible, so it writes
`context.run(context.log("info", "half done"))`. Methods that request input, such as `elicit`, are in input_requests.py.

Spec:  basic/utilities/progress, server/utilities/logging
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Final, Generic, TypeVar, cast

from ..basic.access import checked_scopes
from ..basic.lifecycle import Implementation
from ..basic.progress import ProgressReporter, progress_token
from ..jsonrpc.messages import JSON
from .input_requests import InputRequests, call_on_loop, running_loop

if TYPE_CHECKING:
    # Type checkers know typing_extensions even if it is not installed. `typing.TypeVar` has no default before 3.13.
    from typing_extensions import TypeVar as TypeVarWithDefault

    from ..basic.principal import HttpCaller, Principal
    from ..features.logging import LoggingLevel

    S = TypeVarWithDefault("S", default=object, covariant=True)
else:
    S = TypeVar("S", covariant=True)

T = TypeVar("T")

YIELD_INTERVAL = 32
"""Number of steps (notifications sent, URIs checked) after which a handler lets other handlers run."""
_yielding: Final[set[Context[object]]] = set()  # the contexts whose handlers are letting others run


class Context(InputRequests, Generic[S]):
    """The request being served, with methods to report progress, to log, and to request input from the client.

    `Context[Database]` is the context of a server whose lifespan yields a `Database` (lifespan.py). Progress reports
    and log messages after the response are dropped.
    """

    __slots__ = ()

    @property
    def state(self) -> S:
        """The value that the server's lifespan has yielded; None without a lifespan. Its type is not checked."""
        return cast(S, self.channel.shared.state if self.channel.shared is not None else None)

    @property
    def principal(self) -> Principal | None:
        """The authenticated caller; None over stdio, and on a server without authentication."""
        return self.access.principal if self.access is not None else None

    @property
    def http(self) -> HttpCaller | None:
        """The headers and the remote address of the HTTP request; None over stdio and in memory.

        A caller can write anything into a header, unless a proxy in front of the server sets it.
        """
        access = self.access
        if access is None or access.headers is None:
            return None
        from ..basic.principal import HttpCaller  # lazy: a server on stdio has no HTTP callers

        return HttpCaller(access.headers.without("authorization", "proxy-authorization"), access.address)

    def require(self, *scopes: str) -> None:
        """Refuse the request if the caller lacks one of the `scopes`, for example one that depends on the arguments.

        Call this first, because until the response begins, the client gets HTTP status 403 with the scopes, and can ask
        the user for them. Later, or in a task, it gets only an error that names them. Over stdio, nothing is refused,
        because the user started this program. Let the exception, AccessRefused, pass through your function.
        """
        if self.access is not None:
            self.access.require(checked_scopes(scopes))

    @property
    def client_info(self) -> Implementation | None:
        """The name and version that the client claims to have, which nobody has verified."""
        return self.channel.peer_info

    async def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Report the progress of the request, if the client asked for it.

        Args:
            progress: The progress so far, a finite number. A report that is not higher than the last one is dropped.
            total: The value of `progress` at the end of the work; None if unknown.
            message: A text for people (2025-03-26 and later).
        """
        if self._ends_turn():
            await self._let_others_run()
        if self._reporter is None:
            token = progress_token(self.meta)
            if token is None:
                return
            self._reporter = ProgressReporter(token)
        notification = self._reporter.notification(progress, total, message)
        # [2025-11-25 basic/utilities/progress#implementation-notes] reports MUST stop when the request is complete
        if notification is not None and self.channel.is_serving(self.request_id):
            self.channel.notify("notifications/progress", notification, self.request_id)
            await self.channel.drain(self.request_id)

    async def log(self, level: LoggingLevel, data: JSON, logger: str | None = None) -> None:
        """Send a log message to the client, if the client wants messages of this level.

        Args:
            level: The severity, from `debug` to `emergency`. Raise ValueError for any other.
            data: A text, or any other JSON value, without secrets, because the client may store or show it.
            logger: The name of the part of the server that logs.
        """
        from ..features import logging  # lazy: few handlers send log messages

        if self._ends_turn():
            await self._let_others_run()
        if logging.is_wanted(level, self.channel.logging_level) and self.channel.is_serving(self.request_id):
            params = logging.LoggingMessageNotificationParams(level, data, logger)
            self.channel.notify("notifications/message", params, self.request_id)
            await self.channel.drain(self.request_id)

    def _ends_turn(self) -> bool:
        """Count a step. Return True after `YIELD_INTERVAL` steps of this handler and those in `_yielding` together."""
        self.sent += 1
        return self.sent * (len(_yielding) + 1) >= YIELD_INTERVAL

    async def _let_others_run(self) -> None:
        self.sent = 0
        _yielding.add(self)
        try:
            await asyncio.sleep(0)
        finally:
            _yielding.discard(self)

    def close_stream(self) -> bool:
        """Close the HTTP stream of this request, which the client resumes later. Call this on the event loop.

        Use it for long work. Return False before 2025-11-25, for a JSON response, or without Streamable HTTP.
        """
        # [2025-11-25 basic/transports#sending-messages-to-the-server] a server MAY close it after an event with an id
        return self.channel.is_serving(self.request_id) and self.channel.close_stream(self.request_id)

    async def set_status(self, message: str) -> None:
        """Set the status of the task, a `message` for people, if the request runs as a task."""
        if self._ends_turn():
            await self._let_others_run()
        self.channel.set_status(message)
        await self.channel.drain(self.request_id)

    async def begin_task(self) -> None:
        """Create the task of a tool call now, and send it to the client, if the tool has the option `asks_first`.

        Call this after the last input request, and before the long work. Raise ProtocolError if the task store is full.
        """
        self.channel.begin_task()

    async def notify(self, method: str, params: object = None, *, extension: str | None = None) -> None:
        """Send a notification with a custom `method`, such as `com.example/found`. `params` is a dataclass or a dict.

        Default `extension`: the method's first two parts. Raise CapabilityError if a modern client did not declare it.
        """
        from ..features import custom_methods  # lazy: few handlers send custom notifications

        capability = f"extensions.{custom_methods.extension_of(method, extension)}"
        if self.revision.era == "modern":
            self._require(capability)
        if self._ends_turn():
            await self._let_others_run()
        if self.channel.is_serving(self.request_id):
            self.channel.notify(method, custom_methods.data_of(params), self.request_id)
            await self.channel.drain(self.request_id)

    def run(self, coroutine: Coroutine[object, object, T]) -> T:
        """Run a `coroutine` of this context in a plain `def` function, and return its result.

        Raise concurrent.futures.CancelledError if the client has cancelled the request or the event loop has ended,
        and RuntimeError if the caller runs on the event loop, as an `async def` function does.
        """
        if running_loop() is self.channel.loop:
            coroutine.close()
            raise RuntimeError("context.run() is for plain def functions; in an async def function, await it instead")
        return call_on_loop(self._run_cancellable, coroutine, self.channel.loop)

    async def _run_cancellable(self, coroutine: Coroutine[object, object, T]) -> T:
        if self.worker_is_cancelled:  # before this call, when no task could be cancelled
            return cast(T, coroutine.throw(asyncio.CancelledError()))  # raised here: the coroutine has not begun
        tasks = self.worker_tasks = self.worker_tasks or set()  # the end of the request cancels them
        task = cast("asyncio.Task[object]", asyncio.current_task())
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        return await coroutine
