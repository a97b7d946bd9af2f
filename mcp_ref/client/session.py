"""A client's session: it sends requests in both eras, and handles the server's requests and notifications.

In the legacy era the server can send requests to the client. In the modern era it puts them into a result instead, as
input requests, and the client sends its own request again with the responses (multi round-trip requests):

    params -> add _meta -> send, unless the result is in the cache -> complete: return the result
                                                                   -> input_required: run the handlers, add their
                                                                      responses to the params, and send again

`mrtr.MAX_ROUNDS` limits these rounds, because otherwise a server could call the model, or prompt the user, forever.

Spec:  2026-07-28 basic/versioning, basic/patterns/mrtr, basic/index; basic/lifecycle#operation (legacy)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from ..basic import mrtr
from ..basic.cancellation import CancelledNotificationParams, receive_cancelled
from ..basic.channel import RequestContext
from ..basic.meta import extended_meta
from ..basic.ping import ping
from ..basic.progress import ProgressHandler, ProgressNotificationParams, receive_progress
from ..basic.versioning import MISSING_REQUIRED_CLIENT_CAPABILITY, SUBSCRIPTION_ID
from ..codec import ShapeError
from ..extensions.tasks.types import TASK_METHODS
from ..features.caching import CACHEABLE, ResponseCache
from ..features.task_augmentation import RELATED_TASK
from ..jsonrpc.bounded_waits import end_handlers, run_handler
from ..jsonrpc.dispatcher import Limits
from ..jsonrpc.errors import ConnectionClosed, InvalidMessage, McpError, ProtocolError, RemoteError
from ..jsonrpc.messages import Object, Request, RequestId, Response
from ..revisions import Method, Revision, load_type
from ..session import Handler, Session
from ..transports.base import Transport
from .options import ClientOptions

if TYPE_CHECKING:
    from ..features.custom_methods import CustomMethod
    from ..features.elicitation import ElicitationCompleteNotificationParams
    from .handlers import ClientHandlers

MAX_FOLLOWED_TASKS = 1000
"""Maximum number of tasks whose progress is reported. Above it, the oldest is dropped."""

CacheKey: TypeAlias = tuple[Hashable, Hashable]
"""Identifies a server and the credentials that we use with it, so that users of a shared cache never share results."""
Listener: TypeAlias = Callable[[str, object], None]
"""A function that gets the notifications of one `subscriptions/listen` request, as method and params."""
OnSessionEnd: TypeAlias = "Callable[[ClientSession], None]"


class ClientSession(Session):
    """The client's end of one transport, for a legacy session or for stateless requests."""

    task_owner = "server"  # the owner of all tasks, because the client runs them only for its one server

    def __init__(
        self, on_end: OnSessionEnd, transport: Transport, *, limits: Limits | None, handlers: ClientHandlers | None,
        cache: ResponseCache, cache_key: Callable[[], CacheKey], on_notification: Callable[[str, object], None],
        custom_methods: Mapping[str, CustomMethod],
    ) -> None:  # fmt: skip
        super().__init__("client", transport, limits)
        self.custom_methods = custom_methods
        self.request_meta: Object = {}  # in each stateless request: revision, client info, capabilities, log level
        self.listeners: dict[RequestId, Listener] = {}  # by the id of their `subscriptions/listen` request
        self.has_responded = False  # True if the server has sent a result since the negotiation
        self.instructions: str | None = None  # the server's instructions for the model, which nobody has verified
        self._task_progress: dict[RequestId, ProgressHandler] = {}  # by progress token, oldest first
        self._handlers, self._cache, self._cache_key = handlers, cache, cache_key
        self._on_notification, self._on_end = on_notification, on_end

    def use_revision(self, revision: Revision) -> None:
        super().use_revision(revision)
        self.send_stateless = self._send_stateless if revision.era == "modern" else None
        # [2026-07-28 basic/transports/stdio#sending-messages] a client MUST NOT send responses
        self.dispatcher.may_respond = revision.era == "legacy"

    def continue_from(self, other: ClientSession) -> None:
        """Copy the negotiated state from the session with the server's previous process."""
        self.use_revision(other.revision)
        self.capabilities, self.request_meta = other.capabilities, other.request_meta
        self.peer_capabilities, self.peer_info = other.peer_capabilities, other.peer_info
        self.instructions = other.instructions

    async def _send_stateless(self, method: str, params: Object, *options: Any) -> Object:  # see `Requester.request`
        params = {**params, "_meta": {**params.get("_meta", {}), **self.request_meta}}  # type: ignore[dict-item]
        if method in CACHEABLE:
            result = await self._send_cacheable(method, params, *options)
        else:
            result = await self.dispatcher.request(method, params, *options)
            self.has_responded = True
        rounds = 0
        while not _is_final(method, result):
            rounds += 1
            if rounds > mrtr.MAX_ROUNDS:
                raise InvalidMessage(f"{method} failed: the server still requires input after {mrtr.MAX_ROUNDS} rounds")
            responses = await self._handle_all(mrtr.read_input_requests(result))
            params = mrtr.retry_params(params, result, responses)
            result = await self.dispatcher.request(method, params, *options)
        return result

    async def _send_cacheable(self, method: str, params: Object, *options: Any) -> Object:
        key = self._cache_key()
        cached = self._cache.get(*key, method, params)
        if cached is not None:
            return cached
        invalidations = self._cache.invalidations
        result = await self.dispatcher.request(method, params, *options)
        self.has_responded = True
        if self._cache_key() == key:  # if a sign-in came between, the result may belong to another user
            self._cache.put(*key, method, params, result, invalidations)
        return result

    async def _handle_all(self, requests: dict[str, mrtr.InputRequest]) -> Object:
        """Return the responses to all input requests, by key. Check all before the first handler runs."""
        calls = {key: self._handler_and_params(request) for key, request in requests.items()}
        tasks = {key: asyncio.create_task(self._handle(*call)) for key, call in calls.items()}
        try:
            for task in asyncio.as_completed(tasks.values()):
                await task  # raises the first failure, without waiting for the other handlers
        finally:
            await end_handlers(tasks.values())
        return {key: task.result() for key, task in tasks.items()}

    async def handle_input_request(self, request: mrtr.InputRequest) -> Object:
        """Return the response to one input request, as JSON. Raise InvalidMessage if the request is not allowed."""
        return await self._handle(*self._handler_and_params(request))

    def _handler_and_params(self, request: mrtr.InputRequest) -> tuple[Handler, object]:
        method, handlers = mrtr.INPUT_REQUESTS.get(request.method), self._handlers
        if method is None or handlers is None or not self._is_declared(self.capabilities, method):
            # [2026-07-28 basic/patterns/mrtr#server-requirements-basic-workflow] a server MUST NOT send this
            hint = f": declare it with Client({method.capability}=...)" if method is not None else ""
            raise InvalidMessage(f"the server requests {request.method[:80]}, which this client did not declare{hint}")
        try:
            params: object = self.codec.decode(load_type(method.params), request.params)
            handlers.check_request(params, self.revision)
        except (ShapeError, ProtocolError) as error:
            raise InvalidMessage(f"the server's input request {request.method} is invalid: {error}") from None
        return cast("Handler", handlers.find(method.name)), params  # `ClientHandlers` has all of `INPUT_REQUESTS`

    async def _handle(self, handler: Handler, params: object) -> Object:
        context = RequestContext(self, 0, None)  # 0, because an input request has no id
        return self.codec.encode(await run_handler(handler(params, context)))

    def _send_cancelled(self, id: RequestId, reason: str) -> None:
        pending = self.dispatcher.pending.get(id)
        if pending is not None and pending.method == "server/discover" and self.revision.era == "legacy":
            return  # a legacy server ignores this probe (negotiation.py), so there is nothing to cancel
        super()._send_cancelled(id, reason)

    def handle_error_response(self, error: RemoteError) -> None:
        """Store the URL elicitations that the error requires, or advise the program to declare a missing capability."""
        data = error.data if isinstance(error.data, dict) else {}
        required = data.get("requiredCapabilities")
        if self._handlers is not None and "elicitations" in data:
            self._handlers.store_elicitations(error)
        elif error.code == MISSING_REQUIRED_CLIENT_CAPABILITY and isinstance(required, dict):
            options = [f"{name}=..." for name in required if name in ClientOptions.__annotations__]
            error.advice = f"create the client with Client({', '.join(options)})" if options else ""

    def follow_progress(self, token: RequestId, handler: ProgressHandler) -> None:
        """Continue to report the progress of a request whose response was a task."""
        self._task_progress[token] = handler
        if len(self._task_progress) > MAX_FOLLOWED_TASKS:
            del self._task_progress[next(iter(self._task_progress))]

    def handler(self, method: Method) -> Handler | None:
        if method.name == "ping":
            return cast("Handler", ping)
        custom = self.custom_methods.get(method.name)
        if custom is not None:
            return custom.serve
        return self._handlers.find(method.name) if self._handlers is not None else None

    async def _serve(self, request: Request) -> Object:
        if request.method in ("server/discover", "initialize"):
            self.transport_ended(ConnectionClosed("the server repeats our messages: it is not an MCP server"))
        result = await super()._serve(request)
        meta = request.params.get("_meta")
        related = meta.get(RELATED_TASK) if isinstance(meta, dict) else None
        if related is not None:
            # [2025-11-25 basic/utilities/tasks#related-task-metadata] a response MUST have the task's id
            result["_meta"] = extended_meta(result, {RELATED_TASK: related})
        return result

    def handle_notification(self, method: str, params: object) -> None:
        if isinstance(params, ProgressNotificationParams):
            return self._receive_progress(params)
        if isinstance(params, CancelledNotificationParams):
            return self._receive_cancelled(params)
        # [2026-07-28 basic/transports/stdio#receiving-messages] the client MUST use the subscription's id in `_meta`
        listener = self._listener((getattr(params, "meta", None) or {}).get(SUBSCRIPTION_ID))
        if listener is not None:
            listener(method, params)
        elif method == "notifications/elicitation/complete":
            elicitation = cast("ElicitationCompleteNotificationParams", params)
            if self._handlers is not None:
                self._handlers.report_elicitation_end(elicitation.elicitation_id)
        else:
            self._on_notification(method, params)

    def _receive_progress(self, params: ProgressNotificationParams) -> None:
        handler = self._task_progress.get(params.progress_token)
        if handler is not None and params.progress_token not in self.dispatcher.pending:
            # [2025-11-25 basic/utilities/tasks] the progress token stays valid after the response, with the task
            handler(params.progress, params.total, params.message)
        else:
            receive_progress(params, self.dispatcher)

    def _receive_cancelled(self, params: CancelledNotificationParams) -> None:
        if self._listener(params.request_id) is not None:
            # [2026-07-28 basic/patterns/cancellation#intro] `cancelled` ends a subscription as a result would
            self.dispatcher.receive(Response(params.request_id, {}))
        else:
            receive_cancelled(params, self.dispatcher)

    def _listener(self, id: object) -> Listener | None:
        return self.listeners.get(id) if type(id) is int else None  # `id` can be any JSON, but our ids are numbers

    def transport_ended(self, error: McpError | None) -> None:
        super().transport_ended(error)
        self._on_end(self)


def _is_final(method: str, result: Object) -> bool:
    """Return True unless the result asks for input. Raise InvalidMessage for an unknown `resultType`."""
    # [2026-07-28 basic/index#result-responses] a result without `resultType` is "complete"
    kind = result.get("resultType", "complete")
    if kind == "input_required" and method in mrtr.MULTI_ROUND_TRIP_METHODS:
        return False
    if kind == "complete" or (kind == "task" and method in TASK_METHODS):
        return True
    # [2026-07-28 basic/index#result-responses] the client MUST treat an unknown type as invalid
    raise InvalidMessage(f"the result of {method} has an unknown type: resultType {str(kind)[:80]!r}")
