"""One conversation with one peer, whichever role is ours: messages in, handlers called, dataclasses out.

    transport -> messages.decode -> Dispatcher -> Connection._serve -> the handler of a page
                                                  (may it come? in which shape?)   (params and result are dataclasses)

Spec:  basic/lifecycle#operation: both parties respect the negotiated revision and capabilities
Above: server.py and client.py say which handlers there are. Below: the dispatcher, the codec, the method table.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeVar, cast

from .basic.cancellation import UNCANCELLABLE, CancelledNotificationParams
from .basic.lifecycle import CapabilityError, Implementation, declares
from .basic.progress import ProgressHandler, ProgressNotificationParams
from .codec import ShapeError, codec_for
from .jsonrpc.dispatcher import Dispatcher, Limits
from .jsonrpc.errors import ConnectionClosed, InvalidMessage, McpError, ProtocolError, RemoteError
from .jsonrpc.messages import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    Notification,
    Object,
    Request,
    RequestId,
)
from .revisions import LATEST_LEGACY, Method, NotInRevision, Revision, find_method

if TYPE_CHECKING:
    from .transports.base import Transport

log = logging.getLogger(__name__)
T = TypeVar("T")

Handler = Callable[[object, object], Awaitable[object]]
"""Takes the params of a request and its `Context`, both dataclass instances, and gives its result."""

Send = Callable[[Object], Awaitable[Object]]
"""Sends a request with these params, and gives its result."""

TIMEOUT = 60.0
"""Seconds that a request waits for its answer, by default."""

Role = Literal["client", "server"]


@dataclass(slots=True)
class _Route:
    """What happens to one method's requests in the negotiated revision."""

    params: type
    handler: Handler


def load(path: str) -> type:
    """The dataclass that `page:Type` in the method table names; its page is imported now, if it was not yet."""
    page, _, name = path.partition(":")
    return cast(type, getattr(importlib.import_module(f".{page}", __package__), name))


class Session:
    """What client and server connections share. `role` is ours; `handlers` of the other's requests come from above."""

    def __init__(self, role: Role, transport: Transport, limits: Limits | None = None) -> None:
        self.role: Role = role
        self.peer_role: Role = "server" if role == "client" else "client"
        self.transport = transport
        self.capabilities: Object = {}
        self.peer_capabilities: Object = {}
        self.peer_info: Implementation | None = None
        self.loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[McpError | None] = self.loop.create_future()
        self.dispatcher = Dispatcher(transport, self._serve, self._notified, self._abandoned, limits)
        self.dispatcher.unbatchable = frozenset({"initialize"})
        # A server that prints to its stdout by mistake is not helped by errors on its stdin: a client only logs these.
        self.dispatcher.reports_unreadable = role == "server"
        self._routes: dict[str, _Route] = {}
        self._sendable: set[str] = set()  # methods that were checked
        self.speak(LATEST_LEGACY)

    def speak(self, revision: Revision) -> None:
        """From now on, this revision is spoken."""
        self.revision = revision
        self.codec = codec_for(revision)
        self.dispatcher.accepts_batches = revision.batch
        self.dispatcher.omits_unknown_ids = revision.error_id_optional
        self._routes.clear()
        self._sendable.clear()

    async def open(self) -> None:
        """Start the transport."""
        await self.transport.start(self.dispatcher.receive, self.lost)

    def lost(self, error: McpError | None) -> None:
        """Nothing more will come from the peer. All our waits end now; what we serve may end by itself."""
        if not self.ended.done():
            self.ended.set_result(error)
        self.dispatcher.fail_pending(error or ConnectionClosed("the peer closed the connection"))

    async def close(self, reason: McpError | None = None) -> None:
        """End everything, and close the transport. Any number of times, from any task."""
        try:
            await self.dispatcher.close(reason)
        finally:
            await self.transport.close()
            if not self.ended.done():
                self.ended.set_result(None)

    # ------------------------------------------------------------------------------------- what we ask

    async def request(
        self,
        method: str,
        params: object,
        result: type[T],
        *,
        timeout: float | None,
        max_timeout: float | None = None,
        on_progress: ProgressHandler | None = None,
        related: RequestId | None = None,
        before_send: Callable[[RequestId], None] | None = None,
    ) -> T:
        """Send a request, and read its result as the dataclass `result`.

        timeout: seconds; max_timeout: with it, progress restarts the time, up to so many seconds in all. before_send:
        called with the request's id, before it is sent.
        Raises CapabilityError and NotInRevision before anything is sent; then RemoteError, RequestTimeout,
        ConnectionClosed, InvalidMessage.
        """
        if method not in self._sendable:
            self._check_sendable(method)

        def progressed(notification: object) -> None:
            assert isinstance(notification, ProgressNotificationParams)
            if on_progress is not None:
                on_progress(notification.progress, notification.total, notification.message)

        # Without a token in the request there is no progress that could start the time anew.
        heard = progressed if on_progress is not None or max_timeout is not None else None
        send = functools.partial(
            self.dispatcher.request,
            method,
            timeout=timeout,
            max_timeout=max_timeout,
            on_progress=heard,
            related=related,
            before_send=before_send,
        )
        try:
            answer = await self.exchange(method, self.codec.encode(params), send)
        except RemoteError as error:
            self.note_error(error)
            raise
        try:
            return self.codec.decode(result, answer)
        except ShapeError as error:
            raise InvalidMessage(f"the result of {method} has the wrong shape: {error}") from None

    def _check_sendable(self, method: str) -> None:
        """Raise NotInRevision or CapabilityError if a request may not be sent. The outcome is kept until `speak`."""
        row = find_method(method, self.revision, self.role)
        if row is None:
            raise NotInRevision(f"{method} does not exist in revision {self.revision}, which this connection speaks")
        if not self._declared(self.peer_capabilities, row):
            raise CapabilityError(f"the {self.peer_role} does not offer {row.capability}, so {method} was not sent")
        self._sendable.add(method)

    async def exchange(self, method: str, params: Object, send: Send) -> Object:
        """The result of a request, as on the wire. Overridden by the client."""
        return await send(params)

    def note_error(self, error: RemoteError) -> None:
        """Take note of an error that the peer answered with. Overridden by the client."""

    def notify(self, method: str, params: object, related: RequestId | None = None) -> bool:
        """Send a notification, if the revision has it and we declared what it belongs to. False when it was not
        sent."""
        row = find_method(method, self.revision, self.role)
        if row is None or not self._declared(self.capabilities, row):
            return False
        self.dispatcher.notify(method, self.codec.encode(params), related)
        return True

    def _abandoned(self, id: RequestId, reason: str) -> None:
        pending = self.dispatcher.pending.get(id)
        if pending is None or (pending.response.done() and not pending.response.cancelled()):
            # [2025-11-25 basic/utilities/cancellation#behavior-requirements] MUST only name what is in progress: this
            # one was answered while its caller left
            return
        if pending.method not in UNCANCELLABLE:
            self.notify("notifications/cancelled", CancelledNotificationParams(id, reason))

    def _declared(self, capabilities: Object, row: Method) -> bool:
        if row.capability is None or (row.capability == "completions" and not self.revision.completions_are_declared):
            return True
        return declares(capabilities, row.capability)

    # ------------------------------------------------------------------------------------- what the peer asks

    def handler(self, method: Method) -> Handler | None:
        """The handler of a method that the peer may send. Overridden by each role."""
        raise NotImplementedError

    def refusal(self, method: str) -> str | None:
        """Why a request may not come now, or None. Overridden where a role has phases."""
        return None

    def context(self, request: Request, params: object) -> object:
        """What a handler gets beside its params. Overridden by the server."""
        return self

    def notified(self, method: str, params: object) -> None:
        """Take a notification of the peer. Overridden by each role."""
        raise NotImplementedError

    async def _serve(self, request: Request) -> Object:
        refused = self.refusal(request.method)
        if refused is not None:
            raise ProtocolError(INVALID_REQUEST, f"Invalid Request: {refused}")
        route = self._routes.get(request.method) or self._find_route(request.method)
        try:
            params: object = self.codec.decode(route.params, request.params)
        except ShapeError as error:
            raise ProtocolError(INVALID_PARAMS, f"Invalid params: {error}") from None
        result = await route.handler(params, self.context(request, params))
        return self.codec.encode(result)

    def _find_route(self, method: str) -> _Route:
        row = find_method(method, self.revision, self.peer_role)
        handler = None
        # A notification's name is no method to be asked for, also where it comes with an id.
        if row is not None and not row.is_notification and self._declared(self.capabilities, row):
            handler = self.handler(row)
        if row is None or handler is None:
            raise ProtocolError(METHOD_NOT_FOUND, f"Method not found: {method[:200]}")
        route = self._routes[method] = _Route(load(row.params), handler)
        return route

    def _notified(self, notification: Notification) -> None:
        row = find_method(notification.method, self.revision, self.peer_role)
        if row is None or not row.is_notification:
            log.debug("ignored the notification %.100r, unknown in revision %s", notification.method, self.revision)
            return
        try:
            params: object = self.codec.decode(load(row.params), notification.params)
        except ShapeError as error:
            log.warning("ignored a malformed %s: %s", notification.method, error)
            return
        self.notified(notification.method, params)
