"""The session: one conversation with one peer, with the same code for a client and for a server.

A request of the peer passes through these parts:

    transport -> Dispatcher -> Session._serve: is the request allowed now? -> codec: JSON to dataclass -> handler

Each side declares its capabilities, and uses only those that the peer declared [2025-11-25 basic/lifecycle#operation].
If the peer did not declare the capability for our request, the session raises an exception and sends nothing. If we did
not declare the capability for the peer's request, the session responds with the error "method not found".

Spec:  basic/lifecycle#operation (2024-11-05 to 2025-11-25)
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Final, Literal, TypeVar, cast

from .basic.cancellation import UNCANCELLABLE, CancelledNotificationParams
from .basic.channel import Channel, RequestContext
from .basic.lifecycle import CapabilityError, Implementation, declares
from .basic.progress import ProgressHandler, ProgressNotificationParams
from .codec import ShapeError, codec_for
from .jsonrpc import messages
from .jsonrpc.dispatcher import Dispatcher, Limits
from .jsonrpc.errors import ConnectionClosed, InvalidMessage, McpError, ProtocolError, RemoteError
from .jsonrpc.messages import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, Object, Request, RequestId
from .lib.fields import not_async
from .revisions import LATEST_LEGACY, SPECIFIED, Method, NotInRevision, Revision, find_method, load_type
from .transports.base import Transport

if TYPE_CHECKING:
    from .features.custom_methods import CustomData, CustomMethod

log = logging.getLogger(__name__)
T = TypeVar("T")

_NO_METHODS: Final[frozenset[str]] = frozenset()  # shared: `frozenset()` would build a new 200-byte object every time
_INITIALIZE: Final = frozenset({"initialize"})
DEFAULT_TIMEOUT = 60.0
"""Default time to wait for a response, in seconds."""

Handler = Callable[..., Awaitable[object]]
"""A function that serves a request: params (a dataclass) and `RequestContext` -> result (a dataclass)."""
Role = Literal["client", "server"]


class Route:  # how a session serves one method
    def __init__(self, method: Method, params_type: type, handler: Handler) -> None:
        self.method, self.params_type, self.handler = method, params_type, handler


@functools.lru_cache(maxsize=64)  # cached, so that sessions which send the same methods share one set
def _with_method(methods: frozenset[str], method: str) -> frozenset[str]:
    return methods | {method}


def find_route(
    name: str, revision: Revision, sender: Role, is_declared: Callable[[Method], bool],
    handler_of: Callable[[Method], Handler | None], custom: CustomMethod | None,
) -> Route:  # fmt: skip
    """Return the route of a request. Raise ProtocolError -32601 for an unknown method or an undeclared capability."""
    method = find_method(name, revision, sender) if custom is None else custom.method
    handler = None
    # The peer may send the method of a notification with an id, so as a request, which no handler can serve.
    if method is not None and not method.is_notification and (custom is not None or is_declared(method)):
        handler = handler_of(method)
    if method is None or handler is None:
        raise ProtocolError(METHOD_NOT_FOUND, f"Method not found: {name[:200]}")
    return Route(method, load_type(method.params), handler)


def _report_progress(on_progress: ProgressHandler | None, notification: object) -> None:
    assert isinstance(notification, ProgressNotificationParams)
    if on_progress is not None:
        on_progress(notification.progress, notification.total, notification.message)


class Session(Channel):
    """One conversation with one peer. `role` is our own role, client or server."""

    send_stateless: Callable[..., Coroutine[object, object, Object]] | None = None
    """On a modern client, sends a request in place of the dispatcher, and repeats it if the server requires input."""
    peer_info: Implementation | None = None

    def __init__(self, role: Role, transport: Transport, limits: Limits | None = None) -> None:
        self.role: Role = role  # our own
        self.peer_role: Role = "server" if role == "client" else "client"
        self.transport = transport
        self.capabilities: Object = {}
        self.peer_capabilities: Object = {}
        self.custom_methods: Mapping[str, CustomMethod] = {}
        self.logging_level: str | None = None
        self.loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[McpError | None] = self.loop.create_future()
        """Done when the transport has ended or is closed. The result is the error that ended it, or None."""
        self.dispatcher = Dispatcher(transport, self._serve, self._receive_notification, self._send_cancelled, limits)
        self.dispatcher.unbatchable = _INITIALIZE
        # A client sends no error for unreadable input, because it is often the output of a `print` in a stdio server.
        self.dispatcher.reports_unreadable = role == "server"
        if role == "server":
            self.dispatcher.blocking_methods = _INITIALIZE  # later messages wait until the revision is agreed
            self.dispatcher.warnings_left = 0  # over HTTP anybody can be a client, and could fill the log
        else:
            transport.waits_for = self.dispatcher.waits_for  # only a response that we wait for may be large
        self.use_revision(LATEST_LEGACY)

    def __repr__(self) -> str:
        peer = self.peer_info.name if self.peer_info is not None else "unknown"
        state = f"ended, {self.revision}" if self.ended.done() else f"{self.revision}"
        return f"<{type(self).__name__} with {peer!r:.80}, {state}, open requests: {len(self.dispatcher.pending)}>"

    def use_revision(self, revision: Revision) -> None:
        """Send and read all further messages in this revision."""
        self.revision = revision
        self.codec = codec_for(revision)
        self.dispatcher.accepts_batches = revision.batch
        self.dispatcher.omits_unknown_ids = revision.error_id_optional
        self._routes: dict[str, Route] = {}  # cache
        self._sendable = _NO_METHODS  # cache: the methods that passed the checks of `request` or `notify`

    async def open(self) -> None:
        await self.transport.start(self.dispatcher.receive, self.transport_ended)

    def transport_ended(self, error: McpError | None) -> None:
        """Fail our open requests, because no response can come. Handlers of the peer's requests continue to run."""
        if not self.ended.done():
            self.ended.set_result(error)
        self.dispatcher.fail_pending(error or ConnectionClosed("the peer closed the connection"))

    async def close(self, reason: McpError | None = None) -> None:
        """End all requests, and close the transport. Safe to call from any task, and more than once."""
        try:
            await self.dispatcher.close(reason)
        finally:
            await self.transport.close()
            if not self.ended.done():
                self.ended.set_result(None)

    async def request(
        self, method: str, params: object, returns: type[T] | Callable[[Object, Revision], type[T]], *,
        timeout: float | None, max_timeout: float | None = None, on_progress: ProgressHandler | None = None,
        related: RequestId | None = None, before_send: Callable[[RequestId], None] | None = None,
    ) -> T:  # fmt: skip
        """Send a request, and return its result. `returns` is the type of the result, or a function that finds it.

        Raise CapabilityError or NotInRevision if the peer cannot serve the request. `Requester.request` (jsonrpc/)
        documents the other arguments and exceptions. The timeouts begin again when a retry brings the server its input.
        """
        if method not in self._sendable:
            self._check_sendable(method)
        # With a `max_timeout`, each progress report restarts `timeout`, so ask for reports even without `on_progress`.
        wants_progress = on_progress is not None or max_timeout is not None
        report = functools.partial(_report_progress, not_async("on_progress", on_progress)) if wants_progress else None
        send = self.send_stateless or self.dispatcher.request
        try:
            wire = await send(method, self.codec.encode(params), timeout, max_timeout, report, related, before_send)
        except RemoteError as error:
            self.handle_error_response(error)
            raise
        try:
            result_type = returns if isinstance(returns, type) else returns(wire, self.revision)
            return self.codec.decode(result_type, wire)
        except ShapeError as error:
            raise InvalidMessage(f"the result of {method} has the wrong shape: {error}") from None

    def _check_sendable(self, name: str) -> None:
        method = find_method(name, self.revision, self.role)
        if method is None and name in SPECIFIED:
            raise NotInRevision(f"{name} does not exist in revision {self.revision}, the revision of this session")
        if method is not None and not self._is_declared(self.peer_capabilities, method):
            raise CapabilityError(f"the {self.peer_role} does not offer {method.capability}, so {name} was not sent")
        self._sendable = _with_method(self._sendable, name)  # also a custom name, as our own program chooses these

    def handle_error_response(self, error: RemoteError) -> None:
        """Take note of an error response to one of our requests. Only the client does so."""

    def notify(self, method: str, params: object = None, related: RequestId | None = None) -> bool:
        """Send a notification. Return False, and send nothing, if our revision or our capabilities lack it."""
        if method not in self._sendable:
            found = find_method(method, self.revision, self.role)
            if found is not None:
                if not self._is_declared(self.capabilities, found):
                    return False
                self._sendable = _with_method(self._sendable, method)
            elif method in SPECIFIED:
                return False  # our revision lacks it
            # Other methods are custom ones, whose names are not cached, because a bridge passes on any number of them.
        self.dispatcher.notify(method, {} if params is None else self.codec.encode(params), related)
        return True

    def _send_cancelled(self, id: RequestId, reason: str) -> None:
        pending = self.dispatcher.pending.get(id)
        # [2025-11-25 basic/utilities/cancellation#behavior-requirements] a cancellation MUST name a request in progress
        if pending is not None and pending.outcome is None and pending.method not in UNCANCELLABLE:
            self.notify("notifications/cancelled", CancelledNotificationParams(id, reason))

    def _is_declared(self, capabilities: Object, method: Method) -> bool:
        needed = method.capability
        if needed is None or (needed == "completions" and not self.revision.completions_are_declared):
            return True
        return declares(capabilities, needed)

    @property
    def is_disconnected(self) -> bool:
        return self.ended.done()

    def is_serving(self, id: RequestId) -> bool:
        return self.dispatcher.is_serving(id)

    def drain(self, related: RequestId | None = None) -> Coroutine[object, object, None]:
        return self.transport.drain(related)

    def close_stream(self, related: RequestId) -> bool:
        return self.transport.close_stream(related)

    def capability_error(self, capability: str) -> McpError:
        return CapabilityError(f"the {self.peer_role} did not declare {capability}, which this request needs")

    async def request_input(
        self, method: str, params: object, result: type[T], timeout: float | None, related: RequestId, key: str | None
    ) -> T:
        return await self.request(method, params, result, timeout=timeout, related=related)

    def handler(self, method: Method) -> Handler | None:
        raise NotImplementedError

    def phase_error(self, method: str) -> str | None:
        """Return the reason to refuse a request now, or None to serve it. Only the server refuses requests."""
        return None

    def context(self, request: Request, params: object) -> RequestContext:
        return RequestContext(self, request.id, cast("Object | None", request.params.get("_meta")))

    def handle_notification(self, method: str, params: object) -> None:
        raise NotImplementedError

    async def _serve(self, request: Request) -> Object:
        if (fault := self.phase_error(request.method)) is not None:
            raise ProtocolError(INVALID_REQUEST, f"Invalid Request: {fault}")
        route = self._routes.get(request.method)
        if route is None:
            is_declared = functools.partial(self._is_declared, self.capabilities)
            custom = self.custom_methods.get(request.method)
            route = find_route(request.method, self.revision, self.peer_role, is_declared, self.handler, custom)
            if request.method in SPECIFIED:  # a custom name is not cached, because a bridge serves any number of them
                self._routes[request.method] = route
        try:
            params: object = self.codec.decode(route.params_type, request.params)
        except ShapeError as error:
            raise ProtocolError(INVALID_PARAMS, f"Invalid params: {error}") from None
        result = await route.handler(params, self.context(request, params))
        return self.codec.encode(result)  # read `self.codec` again: the handler of `initialize` replaces it

    def _receive_notification(self, notification: messages.Notification) -> None:
        custom = self.custom_methods.get(notification.method)
        if custom is None:
            method = find_method(notification.method, self.revision, self.peer_role)
        else:
            method = custom.method if self.phase_error(notification.method) is None else None
        if method is None or not method.is_notification:
            text = "ignored the notification %.100r: revision %s lacks it, or it came before initialize"
            return log.debug(text, notification.method, self.revision)
        try:
            params: object = self.codec.decode(load_type(method.params), notification.params)
        except ShapeError as error:
            return self.dispatcher.log_fault("ignored the malformed notification %s: %s", notification.method, error)
        if custom is not None:
            return custom.receive(cast("CustomData", params))
        self.handle_notification(notification.method, params)
