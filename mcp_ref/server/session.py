"""The server's end of one conversation, in either era: how far the handshake is, and what this client asked for.

    request -> says its revision itself? -> stateless.py, and nothing here matters
            -> else: may it come in this phase? -> the handler, in the revision of the handshake

Spec:  basic/lifecycle (2024-11-05 to 2025-11-25), 2026-07-28 basic/versioning
Above: server.py. Below: connection.py
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from functools import cached_property, partial
from typing import TYPE_CHECKING, TypeVar, cast

from ..basic import lifecycle
from ..basic.cancellation import CancelledNotificationParams, receive_cancelled
from ..basic.lifecycle import (
    InitializeRequestParams,
    InitializeResult,
    Phase,
)
from ..basic.meta import RequestParams
from ..basic.ping import ping
from ..basic.progress import ProgressNotificationParams, receive_progress
from ..basic.subscriptions import covers
from ..basic.versioning import is_stateless
from ..extensions.tasks.types import CreateTaskResult, owner_of
from ..features.task_augmentation import asks_for_task
from ..jsonrpc.errors import McpError
from ..jsonrpc.messages import Object, Request, RequestId
from ..revisions import Method
from ..session import TIMEOUT, Handler, Session
from .context import Context

if TYPE_CHECKING:
    from ..extensions.tasks.live_task import LiveTask
    from ..features.logging import LoggingLevel
    from ..transports.base import Transport
    from .server import Server
    from .subscriptions import Subscriptions

log = logging.getLogger(__name__)
T = TypeVar("T")

MAX_ANNOUNCEMENTS = 10_000
"""Changes that wait to be announced to one client; when it reads too slowly, the oldest are forgotten."""


class ServerSession(Session):
    """The server's end of one conversation: how far the handshake is, and what this client asked for."""

    def __init__(self, server: Server, transport: Transport, modern: bool = True) -> None:
        super().__init__("server", transport, server.limits)
        self.server = server
        self._modern = modern
        self.phase = Phase.NEW
        self.ready = asyncio.Event()
        self.logging_level: LoggingLevel | None = "debug"
        self.task: LiveTask | None = None
        self.principal = transport.principal
        self.subscriptions: set[str] = set()
        self._announcements: dict[tuple[str, str | None], None] = {}  # method and URI, in order, each once
        self._announcer: asyncio.Task[None] | None = None
        self._listening: Subscriptions | None = None
        self._farewells: set[asyncio.Task[None]] = set()  # to tasks of the client's that nobody waits for

    async def _serve(self, request: Request) -> Object:
        # [2026-07-28 basic/versioning#backward-compatibility-with-initialization-based-versions] decided by request
        server = self.server
        alone = is_stateless(request.params) and server.serves_stateless
        if self._modern and (alone or not server.handshakes):
            if self._listening is None:
                from .subscriptions import Subscriptions

                self._listening = Subscriptions(shared=True)
            return await server.serve_stateless(
                request,
                partial(self._tell, request.id),
                lambda: self.transport.drain(request.id),
                self.principal,
                self._listening,
            )
        return await super()._serve(request)

    def _tell(self, related: RequestId, method: str, params: Object) -> None:
        # [2026-07-28 basic/transports/stdio#cancellation] MUST NOT send any further messages for a cancelled request
        if self.dispatcher.is_serving(related):
            self.dispatcher.notify(method, params, related)

    async def farewell(self) -> None:
        """End the subscriptions of the stateless era, while their client may still hear it."""
        if self._listening is not None:
            await self._listening.end()

    # ------------------------------------------------------------------------------------- what a context speaks over

    @cached_property
    def task_owner(self) -> str:
        """See `Line`."""
        return owner_of(self.principal, self.revision.era, secrets.token_hex(8))

    async def drain(self, related: RequestId) -> None:
        """See `Line`."""
        await self.transport.drain(related)

    def is_serving(self, id: RequestId) -> bool:
        """See `Line`."""
        return self.dispatcher.is_serving(id)

    def interrupt(self, related: RequestId) -> bool:
        """See `Line`."""
        return self.transport.interrupt(related)

    def missing(self, capability: str) -> McpError:
        """See `Line`."""
        return lifecycle.CapabilityError(f"the client did not declare {capability}, which this needs")

    async def ask(
        self,
        method: str,
        params: object,
        result: type[T],
        timeout: float | None,
        related: RequestId,
        key: str | None,
    ) -> T:
        """See `Line`."""
        # [2025-11-25 basic/lifecycle#initialization] no requests but pings before the client is initialized
        await self.ready.wait()
        if not self.is_serving(related) and not self.ended.done():
            raise McpError(f"{method} was not sent: the request that it would belong to is cancelled or answered")
        if not asks_for_task(params):
            return await self.request(method, params, result, timeout=timeout, related=related)
        from ..extensions.tasks.requestor import RunningTask, give_up

        created = await self.request(method, params, CreateTaskResult, timeout=timeout, related=related)
        running = RunningTask(partial(self._ask_about, related), self.revision, created.task, result)
        try:
            return await running.result(timeout)
        except BaseException:
            give_up(running, self._farewells)
            raise

    async def _ask_about(
        self, related: RequestId, method: str, params: object, result: type[T], timeout: float | None
    ) -> T:
        """A request about a task of the client's. While its outcome is waited for, that may take its time."""
        return await self.request(method, params, result, timeout=timeout or TIMEOUT, related=related)

    # ------------------------------------------------------------------------------------- the handshake

    def refusal(self, method: str) -> str | None:
        """See `lifecycle.phase_error`."""
        return lifecycle.phase_error(self.phase, method)

    def context(self, request: Request, params: object) -> Context:
        """The context of one request."""
        return Context(self, request.id, cast(RequestParams, params).meta)

    def handler(self, method: Method) -> Handler | None:
        """The page's function that serves a method."""
        server = self.server
        feature, _, action = method.name.partition("/")
        match feature, action:
            case "initialize", _:
                return cast(Handler, self._initialize)
            case "ping", _:
                return cast(Handler, ping)
            case "logging", "setLevel":
                from ..features.logging import set_level

                return cast(Handler, set_level)
            case "completion", "complete":
                # an early client asks without its being declared
                return server.handler(method) if server._offers("completions") else None
            case _:
                return server.handler(method)

    async def _initialize(self, params: InitializeRequestParams, context: Context) -> InitializeResult:
        revision = lifecycle.choose_revision(params.protocol_version, self.server.handshakes)
        self.speak(revision)
        declared = self.server.capabilities()
        self.capabilities = self.codec.encode(declared)
        self.peer_capabilities = self.codec.encode(params.capabilities)
        self.peer_info = params.client_info
        self.phase = Phase.OPERATING if self.ready.is_set() else Phase.INITIALIZING
        return InitializeResult(revision.name, declared, self.server.info, self.server.instructions)

    def notified(self, method: str, params: object) -> None:
        """Take one of the client's notifications."""
        if isinstance(params, CancelledNotificationParams):
            receive_cancelled(params, self.dispatcher)
        elif isinstance(params, ProgressNotificationParams):
            receive_progress(params, self.dispatcher)
        elif method == "notifications/initialized":
            if self.phase is Phase.INITIALIZING:
                self.phase = Phase.OPERATING
            self.ready.set()  # it may also stand right behind an initialize that is still to be served

    # ------------------------------------------------------------------------------------- what has changed

    def announce(self, method: str, uri: str | None = None) -> None:
        """Tell the client that a list or a resource has changed: once, however often that happens before it can be
        told."""
        if self.phase is Phase.NEW or self.ended.done():
            return
        self._announcements[method, uri] = None
        if len(self._announcements) > MAX_ANNOUNCEMENTS:
            del self._announcements[next(iter(self._announcements))]
        if self._announcer is None:
            self._announcer = self.loop.create_task(self._announce())

    async def _announce(self) -> None:
        from ..basic.meta import NotificationParams
        from ..features.resources import ResourceUpdatedNotificationParams

        try:
            # [2025-11-25 basic/lifecycle#initialization] only pings and logging before the client is initialized
            await self.ready.wait()
            while self._announcements:
                method, uri = next(iter(self._announcements))
                del self._announcements[method, uri]
                try:
                    self.notify(method, NotificationParams() if uri is None else ResourceUpdatedNotificationParams(uri))
                except Exception:  # a URI that JSON cannot hold
                    log.exception("a client was not told that something has changed (%s)", method)
                await self.transport.drain()
        finally:
            self._announcer = None

    def resource_updated(self, uri: str) -> None:
        """Tell the client that a resource has changed, if it watches it."""
        if any(covers(subscribed, uri) for subscribed in self.subscriptions):
            self.announce("notifications/resources/updated", uri)

    async def close(self, reason: McpError | None = None) -> None:
        """Also stop announcing."""
        if self._announcer is not None:
            self._announcer.cancel()
        await super().close(reason)
        if self.principal is None and "task_owner" in self.__dict__:
            self.server.tasks.abandon(self.task_owner)
