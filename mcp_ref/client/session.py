"""A client's session: requests to the server, results, and the server's own messages, in both eras.

In the legacy era the server may send requests of its own. In the modern era every request is stateless, and the server
puts its input requests into the result (multi round-trip requests):

    params -> add _meta -> in the cache? -> send -> complete: return it
                                              ^  -> input_required: call the handlers, add their responses --+
                                              +--------------------------------------------------------------+

`mrtr.MAX_ROUNDS` bounds the rounds, so that one request cannot spend the model's tokens or the user's time without end.
A server MUST NOT send an input request for a capability that the client did not declare
[2026-07-28 basic/patterns/mrtr#server-requirements-basic-workflow]; the client refuses it.

Spec:  2026-07-28 basic/versioning, basic/patterns/mrtr, basic/index; basic/lifecycle#operation (legacy)
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, TypeAlias, cast

from ..basic import mrtr
from ..basic.cancellation import CancelledNotificationParams, receive_cancelled
from ..basic.channel import RequestContext
from ..basic.meta import extended_meta
from ..basic.ping import ping
from ..basic.progress import ProgressHandler, ProgressNotificationParams, receive_progress
from ..basic.versioning import SUBSCRIPTION_ID
from ..codec import ShapeError
from ..extensions.tasks.types import TASK_METHODS
from ..features.caching import CACHEABLE, ResponseCache
from ..features.task_augmentation import RELATED_TASK
from ..jsonrpc.dispatcher import Limits
from ..jsonrpc.errors import InvalidMessage, McpError, ProtocolError, RemoteError
from ..jsonrpc.messages import Object, Request, RequestId, Response
from ..revisions import METHODS, Method, Revision
from ..session import Handler, SendRequest, Session, load_type
from ..transports.base import Transport

if TYPE_CHECKING:
    from ..features.elicitation import ElicitationCompleteNotificationParams
    from .handlers import ClientHandlers

log = logging.getLogger(__name__)

MAX_FOLLOWED_TASKS = 1000
"""Maximum number of tasks whose progress is reported. The oldest are forgotten first."""

_INPUT_METHODS = ("elicitation/create", "sampling/createMessage", "roots/list")
INPUT_REQUESTS = {method.name: method for method in METHODS if method.name in _INPUT_METHODS}
"""The methods that `inputRequests` may name. [2026-07-28 basic/patterns/mrtr#server-requirements-basic-workflow]"""

CacheKey: TypeAlias = tuple[Hashable, Hashable]
"""The server and its credentials. A shared cache keeps the results of each pair apart."""

Listener: TypeAlias = Callable[[str, object], None]
"""The receiver of the notifications of a `subscriptions/listen` request: gets the method and the params."""


class ClientSession(Session):
    """A session with one server: one handshake, or the stateless requests over one transport."""

    def __init__(
        self, limits: Limits | None, handlers: ClientHandlers | None, cache: ResponseCache, cache_key: CacheKey,
        on_notification: Callable[[str, object], None], on_end: Callable[[ClientSession], None], transport: Transport,
    ) -> None:  # fmt: skip
        super().__init__("client", transport, limits)
        self.request_meta: Object = {}
        """`_meta` of every stateless request: revision, client info, capabilities and an optional log level."""
        self.listeners: dict[RequestId, Listener] = {}
        """The receivers of the modern era's subscriptions, by the id of the `subscriptions/listen` request."""
        self.has_responded = False
        """True if the server has sent a result since negotiation."""
        self._task_progress: dict[RequestId, ProgressHandler] = {}  # by progress token, the oldest first
        self._handlers, self._cache, self._cache_key = handlers, cache, cache_key
        self._on_notification, self._on_end = on_notification, on_end

    def use_revision(self, revision: Revision) -> None:
        """Use this revision for all messages from now on."""
        super().use_revision(revision)
        self.send_stateless = self._send_stateless if revision.era == "modern" else None
        # [2026-07-28 basic/transports/stdio#sending-messages] a client MUST NOT write responses
        self.dispatcher.may_respond = revision.era == "legacy"

    def continue_from(self, other: ClientSession) -> None:
        """Copy the negotiated state of an earlier session with another process of the same command."""
        self.use_revision(other.revision)
        self.capabilities, self.request_meta = other.capabilities, other.request_meta
        self.peer_capabilities, self.peer_info = other.peer_capabilities, other.peer_info

    async def _send_stateless(self, method: str, params: Object, send: SendRequest) -> Object:
        """Return the complete result of a stateless request: from the cache, or after rounds of input requests."""
        params = {**params, "_meta": {**cast("Object", params.get("_meta", {})), **self.request_meta}}
        if method not in CACHEABLE:
            result = await send(params)
        elif (cached := self._cache.get(*self._cache_key, method, params)) is not None:
            return cached
        else:
            changes = self._cache.invalidations
            result = await send(params)
            self._cache.put(*self._cache_key, method, params, result, changes)
        self.has_responded = True
        for _ in range(mrtr.MAX_ROUNDS):
            if _is_final(method, result):
                return result
            responses = await self._handle_all(mrtr.read_input_requests(result))
            params = mrtr.retry_params(params, result, responses)
            result = await send(params)
        if not _is_final(method, result):
            raise InvalidMessage(f"{method}: the server still requires input after {mrtr.MAX_ROUNDS} rounds")
        return result

    async def _handle_all(self, requests: dict[str, mrtr.InputRequest]) -> Object:
        """Return the responses by key. Check all requests before the first handler runs. Raise the first failure."""
        checked = {key: self._check(request) for key, request in requests.items()}
        tasks = {key: asyncio.create_task(self._handle(*each)) for key, each in checked.items()}
        try:
            for task in asyncio.as_completed(tasks.values()):
                await task
        finally:
            for each in tasks.values():
                each.cancel()
            await asyncio.gather(*tasks.values(), return_exceptions=True)
        return {key: task.result() for key, task in tasks.items()}

    async def handle_input_request(self, request: mrtr.InputRequest) -> Object:
        """Return the response to one input request, as JSON. Raise InvalidMessage if the server may not send it."""
        return await self._handle(*self._check(request))

    def _check(self, request: mrtr.InputRequest) -> tuple[Handler, object]:
        """Return the handler and the params of an input request. Raise InvalidMessage if the server may not send it."""
        row, handlers = INPUT_REQUESTS.get(request.method), self._handlers
        handler = handlers.find(request.method) if handlers is not None and row is not None else None
        if row is None or handlers is None or handler is None or not self._is_declared(self.capabilities, row):
            # [2026-07-28 basic/patterns/mrtr#server-requirements-basic-workflow] only for declared capabilities
            raise InvalidMessage(f"the server asks for {request.method[:80]}, which this client did not declare")
        try:
            params: object = self.codec.decode(load_type(row.params), request.params)
            handlers.check_request(params, self.revision)
        except (ShapeError, ProtocolError) as error:
            raise InvalidMessage(f"the server's {request.method}: {error}") from None
        return handler, params

    async def _handle(self, handler: Handler, params: object) -> Object:
        context = RequestContext(self, 0, None)  # an input request has no id of its own
        return self.codec.encode(await handler(params, context))

    def _send_cancelled(self, id: RequestId, reason: str) -> None:
        pending = self.dispatcher.pending.get(id)
        if pending is not None and pending.method == "server/discover" and self.revision.era == "legacy":
            return  # the probe of negotiation: a legacy server does not know the request that it would cancel
        super()._send_cancelled(id, reason)

    def handle_error_response(self, error: RemoteError) -> None:
        """Remember the URLs that the server wants the user to visit before it serves the request."""
        if self._handlers is not None and isinstance(error.data, dict) and "elicitations" in error.data:
            self._handlers.expect_completions(error)

    def follow_progress(self, token: RequestId, handler: ProgressHandler) -> None:
        """Keep reporting the progress of a request after its response, because the response was a task."""
        self._task_progress[token] = handler
        if len(self._task_progress) > MAX_FOLLOWED_TASKS:
            del self._task_progress[next(iter(self._task_progress))]

    def handler(self, method: Method) -> Handler | None:
        """Return the handler of a request that the server may send. Its capability is declared."""
        if method.name == "ping":
            return cast("Handler", ping)
        return self._handlers.find(method.name) if self._handlers is not None else None

    @property
    def task_owner(self) -> str:
        """The owner of every task on this client: its only server."""
        return "server"

    async def _serve(self, request: Request) -> Object:
        result = await super()._serve(request)
        meta = request.params.get("_meta")
        related = meta.get(RELATED_TASK) if isinstance(meta, dict) else None
        if related is not None:
            # [2025-11-25 basic/utilities/tasks#related-task-metadata] responses MUST have it, like their requests
            result["_meta"] = extended_meta(result, {RELATED_TASK: related})
        return result

    def handle_notification(self, method: str, params: object) -> None:
        """Hand a notification of the server to its receiver."""
        listener = self._listener(params)
        if isinstance(params, ProgressNotificationParams):
            handler = self._task_progress.get(params.progress_token)
            if handler is not None and params.progress_token not in self.dispatcher.pending:
                # [2025-11-25 basic/utilities/tasks] the token stays valid throughout the task's lifetime
                return handler(params.progress, params.total, params.message)
            receive_progress(params, self.dispatcher)
        elif listener is not None and isinstance(params, CancelledNotificationParams):
            # [2026-07-28 basic/patterns/cancellation#intro] the server ends the subscription, as with a result
            self.dispatcher.receive(Response(params.request_id, {}))
        elif listener is not None:
            listener(method, params)
        elif isinstance(params, CancelledNotificationParams):
            receive_cancelled(params, self.dispatcher)
        elif method != "notifications/elicitation/complete":
            self._on_notification(method, params)
        elif self._handlers is not None:
            completed = cast("ElicitationCompleteNotificationParams", params)
            self._handlers.complete_elicitation(completed.elicitation_id)

    def _listener(self, params: object) -> Listener | None:
        """Return the subscription of a notification, or None if it belongs to no subscription."""
        # [2026-07-28 basic/transports/stdio#receiving-messages] MUST use the id in the notification
        meta = getattr(params, "meta", None)
        id = params.request_id if isinstance(params, CancelledNotificationParams) else (meta or {}).get(SUBSCRIPTION_ID)
        return self.listeners.get(id) if type(id) is int else None  # this client's ids are integers

    def transport_ended(self, error: McpError | None) -> None:
        """End the session: the server is gone."""
        super().transport_ended(error)
        self._on_end(self)


def _is_final(method: str, result: Object) -> bool:
    """Return True if a result is the last, False if it requires input. Raise InvalidMessage for any other type."""
    # [2026-07-28 basic/index#result-responses] an absent type, as in earlier revisions, means "complete"
    kind = result.get("resultType", "complete")
    if kind == "input_required" and method in mrtr.INPUT_METHODS:
        return False
    if kind == "complete" or (kind == "task" and method in TASK_METHODS):
        return True
    # [2026-07-28 basic/index#result-responses] an unrecognized resultType: MUST consider it invalid
    raise InvalidMessage(f"the result of {method} is of the type {str(kind)[:80]!r}, which is invalid")
