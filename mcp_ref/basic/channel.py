"""The channel: the way from the handler of a request back to the peer that sent the request.

A request belongs to a session (legacy era), is stateless (modern era), or has become a task. Each of the three is a
`Channel`, and a `RequestContext` holds the channel of its request. So a handler works in both eras and on every
transport.

Spec:  basic/lifecycle#operation (2024-11-05 to 2025-11-25), 2026-07-28 basic/index#statelessness
Above: the pages in features/; server/context.py adds the methods that authors use.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

from ..jsonrpc.errors import McpError
from ..jsonrpc.messages import Object, RequestId
from ..revisions import Revision
from .lifecycle import Implementation
from .progress import ProgressReporter

if TYPE_CHECKING:
    from concurrent.futures import Executor

T = TypeVar("T")


class Channel(Protocol):
    """The way to the peer while its request is served: a session, a stateless request, or a task."""

    loop: asyncio.AbstractEventLoop
    revision: Revision
    peer_capabilities: Object
    """The capabilities that the peer declared, as JSON."""
    subscriptions: set[str]
    """The URIs that the client subscribed to with `resources/subscribe`."""
    logging_level: str | None
    """The lowest level of the log messages that the client wants; None if it wants no log messages."""

    @property
    def peer_info(self) -> Implementation | None:
        """The name and version that the peer claims."""
        return None

    @property
    def task_owner(self) -> str:
        """The owner of the tasks that requests on this channel create; see `TaskStore`."""

    @property
    def executor(self) -> Executor | None:
        """The threads in which plain functions run; None for those of the event loop."""
        return None

    @property
    def is_disconnected(self) -> bool:
        """True if the peer sends nothing more."""
        return False

    def is_serving(self, id: RequestId) -> bool:
        """Return True if the peer's request `id` has no response yet, and is not cancelled."""

    def notify(self, method: str, params: object, related: RequestId | None = None) -> bool:
        """Send a notification that belongs to the request `related`. Return False if the revision lacks the method."""

    async def drain(self, related: RequestId | None = None) -> None:
        """Wait until the peer has read enough of the messages that belong to the request `related`."""

    def close_stream(self, related: RequestId) -> bool:
        """Close the HTTP stream of the request `related`; the client resumes it. Return False if that is impossible."""
        return False

    def capability_error(self, capability: str) -> McpError:
        """Return the error for a capability that the peer did not declare."""

    async def request_input(
        self, method: str, params: object, result: type[T], timeout: float | None, related: RequestId, key: str | None
    ) -> T:
        """Send a request to the peer while its request `related` is served. Return the result, a dataclass.

        `timeout` is in seconds. A retry finds the response by its `key` (2026-07-28); None for a number.
        """

    def set_status(self, message: str) -> None:
        """Set the status message of the task that the request has become. Do nothing for other requests."""
        return None

    def begin_task(self) -> None:
        """Make the request a task now, if its task waited for input. Do nothing for other requests."""
        return None


class RequestContext:
    """The request being served: its id, its `_meta`, and its channel."""

    __slots__ = ("channel", "meta", "notification_count", "progress", "request_id", "worker_tasks")

    def __init__(self, channel: Channel, request_id: RequestId, meta: Object | None) -> None:
        self.channel = channel
        self.request_id = request_id
        """The request's JSON-RPC id."""
        self.meta: Object = meta or {}
        """The request's `_meta`, unchanged. Trace context such as `traceparent` is in it."""
        self.progress: ProgressReporter | None = None
        """The progress of the request; None until the handler reports progress."""
        self.notification_count = 0
        """Number of progress reports, log messages and status messages so far."""
        self.worker_tasks: set[asyncio.Task[object]] | None = None
        """The asyncio tasks that worker threads wait for."""

    @property
    def revision(self) -> Revision:
        """The revision that the peer speaks."""
        return self.channel.revision

    def with_channel(self, channel: Channel) -> Self:
        """Return a context of the same request on the channel of its task."""
        return type(self)(channel, self.request_id, self.meta)

    async def run_in_worker(self, function: Callable[[], object]) -> object:
        """Run a blocking function in a worker thread, and return its result."""
        executor, within = self.channel.executor, contextvars.copy_context()
        try:
            value, error = await self.channel.loop.run_in_executor(executor, within.run, _result_and_error, function)
        except asyncio.CancelledError:
            # Python cannot stop a thread. Ending its wait for the peer frees it for the next request.
            for task in self.worker_tasks or ():
                task.cancel()
            raise
        if error is not None:
            raise error
        return value


def _result_and_error(function: Callable[[], object]) -> tuple[object, BaseException | None]:
    """Return a function's result and its exception. A future refuses StopIteration, and its waiter would hang."""
    try:
        return function(), None
    except BaseException as error:
        return None, error
