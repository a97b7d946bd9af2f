"""Stateless requests on the server: each request contains everything that the server needs to serve it.

    request -> read `_meta`: the revision, the client's capabilities -> find the handler by method -> run the handler
            -> result: `complete`, or `input_required` if the handler needs input from the client

A server MUST NOT rely on earlier requests, so any of its processes can serve a request, unless it is about a task
[2026-07-28 basic/index#statelessness]. If a handler needs input, the server stops it, and runs it again from its first
line when the client repeats the request with its responses (basic/mrtr.py).

Spec:  2026-07-28 basic/index#statelessness, basic/versioning, basic/patterns/mrtr
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Coroutine
from functools import cached_property
from typing import Any, TypeVar, cast

from ..basic import mrtr, versioning
from ..basic.channel import Channel, RequestContext
from ..basic.lifecycle import Implementation, declares
from ..basic.versioning import MissingCapability
from ..codec import ShapeError, codec_for
from ..features.caching import CacheableResult
from ..features.task_augmentation import owner_of
from ..jsonrpc.errors import InvalidMessage, McpError, ProtocolError, RemoteError
from ..jsonrpc.messages import INVALID_PARAMS, Object, Request, RequestId
from ..revisions import SPECIFIED, Method, Revision, find_method
from ..session import Handler, Route, find_route
from ..transports.base import Drain, Hold, Notify
from .announcements import OpenSubscriptions
from .catalog import Catalog
from .context import Context

log = logging.getLogger(__name__)
T = TypeVar("T")


class InputRounds:
    """The input requests of one stateless request, and the client's responses in this and earlier rounds, by key."""

    def __init__(self) -> None:
        self.responses: Object = {}
        self._has_state = False  # True if the request has a `requestState`
        self._digests: Object = {}  # key -> digest of each input request of this round so far; "" if it had `key=`
        self._earlier_digests: Object = {}  # the same for the earlier rounds

    def read(self, request: Request, key: bytes, principal: str | None) -> None:
        """Read the responses of all rounds. Raise ProtocolError if a response or `requestState` is invalid."""
        state, responses = request.params.get("requestState"), request.params.get("inputResponses", {})
        if not isinstance(responses, dict) or not all(isinstance(each, dict) for each in responses.values()):
            raise ProtocolError(INVALID_PARAMS, "Invalid params: inputResponses must be an object of objects")
        self.responses = dict(responses)
        if state is None:
            return
        digest = mrtr.request_digest(request.method, request.params)
        try:
            earlier = mrtr.verify_state(key, state, digest, principal, time.time())
        except ProtocolError as error:
            log.info("a requestState was refused: %s (all processes of a server need the same state_key)", error)
            raise
        self._has_state = True
        self.responses |= cast(Object, earlier["answers"])
        self._earlier_digests = cast(Object, earlier["questions"])

    def response_to(self, method: str, params: Object, key: str | None) -> Object:
        """Return the client's response to an input request. Raise HandlerNeedsInput if it has not arrived."""
        digest = ""  # with a key, the response stays valid if the text of the request changes
        if key is None:
            # Without a key, the user's "yes" is valid only for the text that the user saw, which the digest identifies.
            digest = mrtr.request_digest(method, params)
            key = str(len(self._digests) + 1)  # the same in each round, if the handler makes the same requests
        if key in self._digests:
            raise ValueError(f"two input requests of one call have the same key {key!r}: give each request its own key")
        self._digests[key] = digest
        if key in self.responses and digest and not self._has_state:
            raise ProtocolError(INVALID_PARAMS, f"Invalid params: the response {key!r} in inputResponses needs the "
                                "requestState that came with its input request")  # fmt: skip
        if key in self.responses and self._earlier_digests.get(key, "") != digest:
            del self.responses[key]
            log.info("input request %s (%s) has changed, so its response is ignored; key= would keep it", key, method)
        if key not in self.responses:
            raise mrtr.HandlerNeedsInput({key: {"method": method, "params": params}})
        return cast(Object, self.responses[key])

    def signed_state(self, request: Request, key: bytes, principal: str | None) -> str:
        """Return the `requestState` for the next round: the responses so far, and the digests of their requests."""
        digests = {**self._earlier_digests, **self._digests}
        answers = {name: response for name, response in self.responses.items() if name in digests}
        digest = mrtr.request_digest(request.method, request.params)
        return mrtr.sign_state(key, {"questions": digests, "answers": answers}, digest, principal, time.time())


class StatelessRequest(Channel):
    """The channel of one stateless request, through which its handler reaches the client."""

    def __init__(
        self, catalog: Catalog, params: Object, notify: Notify, drain: Drain, hold: Hold | None,
        principal: str | None, open_subscriptions: OpenSubscriptions,
    ) -> None:  # fmt: skip
        meta, self.revision, self.peer_capabilities = versioning.read_request_meta(params, catalog.revisions)
        self.codec = codec_for(self.revision)
        self.catalog, self.principal, self.open_subscriptions = catalog, principal, open_subscriptions
        self.shared = catalog.service
        self.loop = asyncio.get_running_loop()
        self._info, self.wanted_level = meta.get(versioning.CLIENT_INFO), meta.get(versioning.LOG_LEVEL)
        # [2026-07-28 server/utilities/logging#per-request-log-level] without a level, we MUST NOT send log messages
        self.logging_level = self.wanted_level if catalog.logging and isinstance(self.wanted_level, str) else None
        self.is_over = False
        self.may_need_input = False  # True if the result of the method can be `input_required`
        self.send_notification, self.drain_notifications, self.hold = notify, drain, hold

    @cached_property
    def rounds(self) -> InputRounds:
        return InputRounds()

    @property
    def task_owner(self) -> str:
        # Without authentication, we cannot tell clients apart, so each one that knows a task's id can use it.
        return owner_of(self.principal, self.revision.era)

    @property
    def peer_info(self) -> Implementation | None:
        try:
            return self.codec.decode(Implementation, cast(Object, self._info))
        except ShapeError:
            return None

    def notify(self, method: str, params: object, related: RequestId | None = None) -> bool:
        if find_method(method, self.revision, "server") is None and method in SPECIFIED:
            return False  # only other revisions have this notification
        self.send_notification(method, self.codec.encode(params))
        return True

    def drain(self, related: RequestId | None = None) -> Coroutine[object, object, None]:
        return self.drain_notifications()

    def is_serving(self, id: RequestId) -> bool:
        return not self.is_over

    def capability_error(self, capability: str) -> McpError:
        return MissingCapability(capability)

    async def request_input(
        self, method: str, params: object, result: type[T], timeout: float | None, related: RequestId, key: str | None
    ) -> T:
        if self.is_over:
            raise McpError(f"{method} was not sent: the request that needs this input is complete")
        if not self.may_need_input:
            raise McpError(f"{method} was not sent: only handlers of tools, prompts and resources can request input")
        try:
            response = self.rounds.response_to(method, self.codec.encode(params), key)
        except mrtr.HandlerNeedsInput:
            await asyncio.sleep(0)  # so that a TaskGroup starts all its tasks before an eager one ends it by failing
            raise
        try:
            return self.codec.decode(result, response)
        except ShapeError as error:
            raise ProtocolError(INVALID_PARAMS, f"Invalid params: invalid response to {method}: {error}") from None

    def read(self, request: Request, params_type: type[T]) -> T:
        """Return the params, after reading the responses of a retry. Raise ProtocolError if any of this is invalid."""
        try:
            params = self.codec.decode(params_type, request.params)
        except ShapeError as error:
            raise ProtocolError(INVALID_PARAMS, f"Invalid params: {error}") from None
        self.may_need_input = request.method in mrtr.MULTI_ROUND_TRIP_METHODS
        is_retry = "inputResponses" in request.params or "requestState" in request.params
        # A bridge passes the responses for its custom methods on to another server, which reads them.
        if self.may_need_input and is_retry and request.method not in self.catalog.custom_methods:
            self.rounds.read(request, self.catalog.state_key, self.principal)
        return params

    def to_modern_error(self, error: ProtocolError) -> BaseException:
        """Return the modern form of an error: input requests for -32042 (URLs to visit), another error otherwise."""
        from ..features.elicitation import url_elicitations  # lazy: few requests fail

        visits = url_elicitations(error) if self.may_need_input else {}
        if not visits:
            return versioning.without_legacy_codes(error)
        if not declares(self.peer_capabilities, "elicitation.url"):
            return MissingCapability("elicitation.url")
        for id in visits:
            response = self.rounds.responses.get(id)
            if isinstance(response, dict) and response.get("action") != "accept":
                return ProtocolError(INVALID_PARAMS, f"{error.message}; the user did not agree to visit the URL")
        # [2026-07-28 client/elicitation#url-mode-elicitation-requests] ask again, because `accept` proves no visit
        return mrtr.HandlerNeedsInput(
            {id: {"method": "elicitation/create", "params": self.codec.encode(visit)} for id, visit in visits.items()}
        )


async def serve_request(
    catalog: Catalog, subscriptions: OpenSubscriptions, request: Request, notify: Notify, drain: Drain,
    principal: str | None, hold: Hold | None = None,
) -> Object:  # fmt: skip
    """Serve one stateless request, and return its result. Raise ProtocolError for an error response."""
    catalog.service.served["modern"] += 1
    if request.method == "initialize" and not versioning.is_stateless(request.params):
        # [2026-07-28 basic/versioning#backward-compatibility-with-initialization-based-versions] we SHOULD name ours
        raise versioning.unsupported_revision(str(request.params.get("protocolVersion")), catalog.revisions)
    channel = StatelessRequest(catalog, request.params, notify, drain, hold, principal, subscriptions)
    revision = channel.revision
    route = catalog.routes.get(request.method) or _find_route(catalog, request.method, revision)
    _check_meta(channel, route.method)
    params: object = channel.read(request, route.params_type)
    try:
        try:  # inside the other `try`, which also handles the HandlerNeedsInput that `to_modern_error` may return
            context = Context(channel, request.id, params.meta, principal)  # type: ignore[attr-defined]
            result = await route.handler(params, context)
        except RemoteError:
            raise  # from another server that the handler called, so its code is not for this client
        except ProtocolError as error:
            raise channel.to_modern_error(error) from None
        if isinstance(result, CacheableResult) and request.method in catalog.cache_hints:
            # [2026-07-28 server/utilities/caching#cacheable-results] the result MUST have `ttlMs` and `cacheScope`
            result.ttl_ms, result.cache_scope = catalog.cache_hints[request.method]
            if context.access is not None and context.access.hides_forbidden:
                result.cache_scope = "private"  # because callers with other scopes may get another list
        encoded: Object = {"resultType": "complete", **channel.codec.encode(result)}
    except mrtr.HandlerNeedsInput as required:
        state = channel.rounds.signed_state(request, catalog.state_key, principal)
        encoded = {"resultType": "input_required", "inputRequests": {**required.requests}, "requestState": state}
    except InvalidMessage as error:
        if not error.is_for_peer:
            raise  # it is not about this client's input, but about another server that the handler called
        raise ProtocolError(INVALID_PARAMS, f"Invalid params: {error}") from None
    finally:
        channel.is_over = True
    if revision not in catalog.info_as_json:
        catalog.info_as_json[revision] = channel.codec.encode(catalog.info)
    # [2026-07-28 basic/index#_meta] every result SHOULD contain the server's info
    info: Object = {versioning.SERVER_INFO: catalog.info_as_json[revision]}
    meta_of_handler = encoded.get("_meta")
    encoded["_meta"] = {**meta_of_handler, **info} if isinstance(meta_of_handler, dict) else info
    return encoded


def _check_meta(channel: StatelessRequest, method: Method) -> None:
    capability = method.capability or ""
    if capability.startswith("extensions.") and not declares(channel.peer_capabilities, capability):
        raise MissingCapability(capability)  # the server has declared the extension, but the client must too
    if channel.wanted_level is not None:
        from ..features.logging import LEVELS  # lazy: few clients want log messages

        # [2026-07-28 server/utilities/logging#error-handling] an invalid level SHOULD be rejected with -32602
        if channel.wanted_level not in LEVELS:
            raise ProtocolError(INVALID_PARAMS, f"Invalid params: the log level must be one of {', '.join(LEVELS)}")


def _find_route(catalog: Catalog, name: str, revision: Revision) -> Route:
    def handler_of(method: Method) -> Handler | None:
        return catalog.with_middleware(name, _listen) if name == "subscriptions/listen" else catalog.handler(method)

    route = find_route(name, revision, "client", catalog.declares, handler_of, catalog.custom_methods.get(name))
    if name in SPECIFIED:  # a bridge serves all names, and storing those that clients invent would fill the memory
        catalog.routes[name] = route
    return route


def _listen(params: Any, context: RequestContext) -> Awaitable[object]:
    from .subscriptions import listen  # lazy: most clients never subscribe

    return listen(cast(StatelessRequest, context.channel), params.notifications, context)
