"""A session on the server: the handshake, and the state of one client.

A server that speaks both eras can get requests of both on one transport. A request that names its revision in `_meta`
is stateless (stateless.py). Any other belongs to the session, whose phase decides if it is allowed.

Before the client sends `notifications/initialized`, a server SHOULD send only pings and log messages
[2025-11-25 basic/lifecycle#initialization], so it queues its notifications about changes until then.

Spec:  basic/lifecycle (2024-11-05 to 2025-11-25), 2026-07-28 basic/versioning
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Coroutine
from functools import cached_property, partial
from typing import TypeVar

from ..basic import lifecycle
from ..basic.cancellation import CancelledNotificationParams, receive_cancelled
from ..basic.lifecycle import INITIALIZING, NEW, OPERATING, InitializeRequestParams, InitializeResult
from ..basic.progress import ProgressNotificationParams, receive_progress
from ..basic.versioning import is_stateless
from ..features.task_augmentation import has_task_field, owner_of
from ..jsonrpc.dispatcher import Limits
from ..jsonrpc.errors import McpError, ProtocolError, RequestTimeout
from ..jsonrpc.messages import INTERNAL_ERROR, Object, Request, RequestId
from ..revisions import Method
from ..session import DEFAULT_TIMEOUT, Handler, Session
from ..transports.base import Transport
from . import stateless
from .announcements import Announcer, OpenSubscriptions
from .catalog import Catalog
from .context import Context
from .service import ServerStats

T = TypeVar("T")

FINISH_SECONDS = 0.75
"""Time for open requests to finish after the transport has ended, in seconds."""


async def begin(
    catalog: Catalog, transport: Transport, limits: Limits | None = None, *, serves_stateless: bool = False
) -> ServerSession:
    """Begin to serve one client, including its stateless requests if `serves_stateless`. Then await its `finish`."""
    session = ServerSession(catalog, transport, limits, serves_stateless and catalog.serves_modern)
    try:
        await catalog.service.add(session)
        catalog.announcers.add(session)
        await session.open()
    except BaseException:
        await session.leave()
        raise
    return session


class ServerSession(Session, Announcer):
    """The server's end of one transport: a legacy session, which leaves stateless requests to stateless.py."""

    def __init__(self, catalog: Catalog, transport: Transport, limits: Limits | None, serves_stateless: bool) -> None:
        super().__init__("server", transport, limits)
        self.catalog, self.shared, self.custom_methods = catalog, catalog.service, catalog.custom_methods
        self.phase = NEW
        self.initialized: asyncio.Future[None] = self.loop.create_future()  # done at `notifications/initialized`
        self.logging_level = "debug"
        self.shares = catalog.announcers.queued
        _, self.caller = transport.shares_and_caller or (None, "")
        self._serves_stateless, self._serves_sessions = serves_stateless, bool(catalog.legacy_revisions)
        self._initialize_id: RequestId | None = None

    async def finish(self) -> None:
        """Wait until the transport has ended, give open requests `FINISH_SECONDS` to finish, and end the session."""
        try:
            try:
                await self.ended
            finally:
                await self.open_subscriptions.end()
            await self.dispatcher.finish(FINISH_SECONDS)
        finally:
            await self.leave()

    def add_to(self, stats: ServerStats) -> None:
        if self.phase is not NEW:
            stats.sessions += 1
        stats.legacy_in_flight += len(self.dispatcher.serving)

    async def finish_requests(self, seconds: float) -> None:
        await self.dispatcher.finish(seconds)

    async def leave(self) -> None:
        self.catalog.announcers.discard(self)
        await self.catalog.service.end(self)

    def _serve(self, request: Request) -> Coroutine[object, object, Object]:
        # [2026-07-28 basic/versioning#backward-compatibility-with-initialization-based-versions] `_meta` names the era
        names_revision = "_meta" in request.params and is_stateless(request.params)  # most need no call
        if self._serves_stateless and (names_revision or not self._serves_sessions):
            notify, drain = partial(self._notify_for, request.id), partial(self.transport.drain, request.id)
            principal = self.transport.principal
            return stateless.serve_request(self.catalog, self.open_subscriptions, request, notify, drain, principal)
        self.catalog.service.served["legacy"] += 1
        return super()._serve(request)

    def _notify_for(self, related: RequestId, method: str, params: Object) -> None:
        # [2026-07-28 basic/transports/stdio#cancellation] we MUST NOT send anything more for a cancelled request
        if self.dispatcher.is_serving(related):
            self.dispatcher.notify(method, params, related)

    @cached_property
    def open_subscriptions(self) -> OpenSubscriptions:
        return OpenSubscriptions()

    @cached_property
    def _cancelling(self) -> set[asyncio.Task[None]]:
        return set()  # asyncio tasks, each of which cancels an MCP task on the client

    @cached_property
    def task_owner(self) -> str:
        return owner_of(self.transport.principal, self.revision.era, os.urandom(8).hex())

    async def request_input(
        self, method: str, params: object, result: type[T], timeout: float | None, related: RequestId, key: str | None
    ) -> T:
        # [2025-11-25 basic/lifecycle#initialization] a server SHOULD send no request before `initialized`, except pings
        if related == self._initialize_id and self.is_serving(related):
            why = "the client sends `initialized` only after the response to `initialize`"
            raise ProtocolError(INTERNAL_ERROR, f"{method} was not sent: {why}; send it during a later request")
        try:
            async with asyncio.timeout(timeout):
                await asyncio.shield(self.initialized)
        except TimeoutError:
            why = f"the client has not sent `initialized` within {timeout} seconds"
            raise RequestTimeout(f"{method} was not sent: {why}") from None
        if not self.is_serving(related) and not self.is_disconnected:  # a disconnected session raises its error below
            raise McpError(f"{method} was not sent: the client's request that needs this input is no longer served")
        if not has_task_field(params):
            return await self.request(method, params, result, timeout=timeout, related=related)
        from ..extensions.tasks import requestor  # lazy: few servers request tasks of their clients

        created = await self.request(method, params, requestor.CreateTaskResult, timeout=timeout, related=related)
        send = partial(self.request, timeout=DEFAULT_TIMEOUT, related=related)
        running = requestor.RunningTask(send, self.revision, created.task, result)
        return await requestor.result_or_cancel(running, timeout, self._cancelling)

    def phase_error(self, method: str) -> str | None:
        if self.phase is OPERATING and method != "initialize":
            return None
        return lifecycle.phase_error(self.phase, method, self.transport.may_initialize_again)

    def context(self, request: Request, params: object) -> Context:
        if request.method == "initialize":
            self._initialize_id = request.id
        return Context(self, request.id, params.meta, self.transport.principal)  # type: ignore[attr-defined]

    def handler(self, method: Method) -> Handler | None:
        if method.name == "initialize":
            return self.catalog.with_middleware(method.name, self._initialize)
        return self.catalog.handler(method)

    async def _initialize(self, params: InitializeRequestParams, context: Context) -> InitializeResult:
        if self.phase is not NEW:  # the client begins a new session on this transport
            self.dispatcher.cancel_others(context.request_id)
            if self.initialized.done():
                self.initialized = self.loop.create_future()
            self.subscriptions.clear()
            self.logging_level = "debug"
            self._remove_tasks()
        self.use_revision(lifecycle.choose_revision(params.protocol_version, self.catalog.legacy_revisions))
        declared = self.catalog.capabilities()
        self.capabilities = self.codec.encode(declared)
        self.peer_capabilities = self.codec.encode(params.capabilities)
        self.peer_info = params.client_info
        self.phase = OPERATING if self.initialized.done() else INITIALIZING  # done if the client sent it too early
        return InitializeResult(self.revision.name, declared, self.catalog.info, self.catalog.instructions)

    def handle_notification(self, method: str, params: object) -> None:
        if isinstance(params, CancelledNotificationParams):
            receive_cancelled(params, self.dispatcher)
        elif isinstance(params, ProgressNotificationParams):
            receive_progress(params, self.dispatcher)
        elif method == "notifications/initialized":
            if self.phase is INITIALIZING:
                self.phase = OPERATING
            if not self.initialized.done():
                self.initialized.set_result(None)  # even in phase NEW, because `_initialize` may still be running
                self.send_queued()

    @property
    def is_ready(self) -> bool:
        return self.initialized.done()

    @property
    def has_room(self) -> bool:
        return self.transport.has_room

    async def drain_changes(self) -> None:
        await self.transport.drain()

    def subscribed_uris(self) -> Collection[str]:
        return self.subscriptions

    def wants(self, method: str, subject: str | None) -> bool:
        if self.phase is NEW or self.is_disconnected or method == "notifications/tasks":  # (the modern era's)
            return False
        return subject is None or self._update_params(subject) is not None

    def send_change(self, method: str, subject: str | None) -> None:
        update = self._update_params(subject) if subject is not None else None
        if subject is None or update is not None:  # no `update` for the subject: the client has unsubscribed meanwhile
            self.notify(method, update)

    def _update_params(self, uri: str) -> object:
        if not self.subscriptions:
            return None
        return self.catalog.resources.update_for(self.subscriptions, uri, latest=self.transport.latest_access)

    async def close(self, reason: McpError | None = None) -> None:
        self.stop_announcing()
        await super().close(reason)
        self.subscriptions.clear()
        self._remove_tasks()

    def _remove_tasks(self) -> None:
        if self.transport.principal is None and (owner := self.__dict__.pop("task_owner", None)):  # cached if used
            self.catalog.tasks.remove_all_of(owner)
