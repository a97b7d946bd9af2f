"""Channel: the object through which a handler sends messages to the peer whose request it serves.

A `Channel` is a session (legacy era), a stateless request (modern era), or a task. A handler reaches it through its
`RequestContext` and need not know which of the three it is, so it works in both eras and on every transport.

Spec:  basic/lifecycle#operation (2024-11-05 to 2025-11-25), 2026-07-28 basic/index#statelessness
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Collection
from concurrent.futures import Executor
from functools import cached_property
from typing import Protocol, Self, TypeVar

from ..jsonrpc.errors import McpError
from ..jsonrpc.messages import Object, RequestId
from ..lib.shares import Shares
from ..revisions import Revision
from .access import Subscriptions, current_access
from .lifecycle import Implementation
from .progress import ProgressReporter

T = TypeVar("T")


class SharedObjects(Protocol):
    """The objects that all handlers of a server share."""

    subscribed: Shares  # counts the memory of all subscribed URIs
    id_prefix: str  # the first part of the ids of sessions and tasks: "a." for `Server(node="a")`, else ""

    @property
    def executor(self) -> Executor:
        """The threads in which handlers that are plain functions run."""

    @property
    def state(self) -> object:
        """The value that the server's lifespan has yielded; None without a lifespan."""


class Channel(Protocol):
    """An object that sends messages to the peer while a request of the peer is served."""

    loop: asyncio.AbstractEventLoop
    revision: Revision
    peer_capabilities: Object  # as JSON
    logging_level: str | None  # the lowest level of the log messages that the client wants; None if it wants none
    shared: SharedObjects | None = None  # None on a client

    @cached_property
    def subscriptions(self) -> Subscriptions:
        return Subscriptions(self.shared.subscribed if self.shared is not None else None)

    @property
    def peer_info(self) -> Implementation | None:
        """The name and version that the peer claims to have; None if unknown."""
        return None

    @property
    def task_owner(self) -> str:
        """The owner of new tasks, which only requests with the same owner can read (`TaskStore`)."""

    @property
    def is_disconnected(self) -> bool:
        return False

    def is_serving(self, id: RequestId) -> bool:
        """Return True if the peer's request `id` has no response yet and is not cancelled."""

    def notify(self, method: str, params: object, related: RequestId | None = None) -> bool:
        """Send a notification about the peer's request `related`. Return False if the peer does not support it."""

    async def drain(self, related: RequestId | None = None) -> None:
        """Wait until the peer has read most of the messages about its request `related`."""

    def close_stream(self, related: RequestId) -> bool:
        """Close the HTTP stream of the request `related`, so that the client reconnects. Return False if impossible."""
        return False

    def capability_error(self, capability: str) -> McpError:
        """Return the error for the use of a capability that the peer did not declare."""

    async def request_input(
        self, method: str, params: object, result: type[T], timeout: float | None, related: RequestId, key: str | None
    ) -> T:
        """Request input from the peer while its request `related` is served. Return the result, a dataclass.

        `timeout` is in seconds. `key` names the request in `inputRequests` (2026-07-28); None to number them instead.
        """

    def set_status(self, message: str) -> None:
        """Set the status message of a task. Do nothing for other channels."""
        return None

    def begin_task(self) -> None:
        """Create the task now, if that has waited for a request for input. Do nothing for other channels."""
        return None


class RequestContext:
    """The id, `_meta` and channel of a request that a handler serves."""

    __slots__ = ("_reporter", "access", "channel", "meta", "request_id", "sent", "worker_is_cancelled", "worker_tasks")

    def __init__(self, channel: Channel, id: RequestId, meta: Object | None, principal: str | None = None) -> None:
        self.channel = channel
        self.request_id = id
        self.meta: Object = meta or {}  # it can contain trace context, such as `traceparent`
        self._reporter: ProgressReporter | None = None  # None until the handler reports progress
        self.sent = 0  # steps (`YIELD_INTERVAL`) since the handler last let others run
        self.worker_tasks: set[asyncio.Task[object]] | None = None  # those that a handler in a thread waits for
        self.worker_is_cancelled = False  # True if the request was cancelled while its handler ran in a thread
        access = current_access.get()
        # A handler may call another server in this process, where the rights of the handler's own caller do not hold.
        self.access = access if access is not None and access.id == principal else None  # the caller's rights over HTTP

    @property
    def revision(self) -> Revision:
        return self.channel.revision

    def with_channel(self, channel: Channel) -> Self:
        """Return a context of this request with another channel, and with a copy of the rights."""
        context = type(self)(channel, self.request_id, self.meta)
        context.access = self.access.copy() if self.access is not None else None  # replaces those that `__init__` took
        return context

    def caller_may_see(self, key: str, scopes_of: Callable[[str], Collection[str]]) -> bool:
        """Return True if a list may show the caller the item with this key, which needs the scopes `scopes_of(key)`."""
        if self.access is None or not self.access.hides_forbidden:
            return True
        return self.access.refusal_for(scopes_of(key)) is None

    async def run_in_worker(self, function: Callable[[], object]) -> object:
        shared, variables = self.channel.shared, contextvars.copy_context()
        executor = shared.executor if shared is not None else None  # None: the default pool of the event loop
        try:
            value, error = await self.channel.loop.run_in_executor(executor, variables.run, _result_and_error, function)
        except asyncio.CancelledError:
            # Python cannot stop a thread, but one that waits for the peer ends when that wait is cancelled.
            self.worker_is_cancelled = True
            for task in self.worker_tasks or ():
                task.cancel()
            raise
        if error is not None:
            raise error
        return value


def _result_and_error(function: Callable[[], object]) -> tuple[object, BaseException | None]:
    """Return a function's result and its exception, because an asyncio future cannot raise StopIteration."""
    try:
        return function(), None
    except BaseException as error:
        return None, error
