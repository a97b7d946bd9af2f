"""Serving one request of the stateless era: by what it says itself, and by nothing that came before it.

    request -> its `_meta` (revision, what the client can) -> the method -> the same handler as in the earlier era
            -> complete | input_required, if the handler has asked something that is not answered yet

Whoever carries the request gives a `StatelessRequest` the way to send notifications; `serve` returns the result.

Spec:  2026-07-28 basic/index#statelessness, basic/patterns/mrtr, basic/patterns/subscriptions
Above: server.py, by which server_connection.py and web.py hand in what has come. Below: the pages of server/
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar, cast

from ..basic import mrtr
from ..basic.lifecycle import Implementation, declares
from ..basic.meta import RequestParams, with_meta
from ..basic.versioning import (
    SERVER_INFO,
    MissingCapability,
    RequestMeta,
    is_stateless,
    read_request_meta,
    unsupported_revision,
    without_legacy_codes,
)
from ..codec import ShapeError, codec_for
from ..extensions.tasks.types import owner_of
from ..features.caching import CacheableResult
from ..features.logging import LEVELS
from ..jsonrpc.errors import InvalidMessage, McpError, ProtocolError
from ..jsonrpc.messages import INVALID_PARAMS, METHOD_NOT_FOUND, Object, Request, RequestId
from ..revisions import Method, Revision, find_method
from ..session import Handler, load
from .context import Context

if TYPE_CHECKING:
    from ..extensions.tasks.live_task import LiveTask
    from ..features.logging import LoggingLevel
    from ..transports.base import Drain, Tell
    from .server import Server
    from .subscriptions import Subscriptions

log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(slots=True)
class Route:
    """What serves a method in a revision."""

    method: Method
    params: type
    handler: Handler


class StatelessRequest:
    """A request that stands alone, as the line that its handler's context speaks over."""

    __slots__ = (
        "_answers",
        "_asked",
        "_drain",
        "_info",
        "_questions",
        "_tell",
        "asks",
        "carrier",
        "is_over",
        "logging_level",
        "loop",
        "peer_capabilities",
        "principal",
        "revision",
        "server",
        "subscriptions",
        "task",
    )  # fmt: skip

    def __init__(
        self,
        server: Server,
        meta: RequestMeta,
        tell: Tell,
        drain: Drain,
        principal: str | None,
        subscriptions: Subscriptions | None,
    ) -> None:
        self.server = server
        self.loop = asyncio.get_running_loop()
        self.revision = meta.revision
        self.peer_capabilities = meta.capabilities
        # [2026-07-28 server/utilities/logging#per-request-log-level] no level: MUST NOT send any
        level = cast("LoggingLevel | None", meta.log_level)
        self.logging_level = level if level is not None and server.capabilities().logging is not None else None
        self.subscriptions: set[str] = set()
        self.carrier = subscriptions
        self.principal = principal
        self.task: LiveTask | None = None
        self.is_over = False
        self.asks = False
        """Whether what it serves may be answered by a question."""
        self._info = meta.client_info
        self._tell, self._drain = tell, drain
        self._answers: Object = {}
        self._questions: Object = {}  # what they answer, by key, as a digest
        self._asked: Object = {}  # the same, of the questions of this round

    @property
    def task_owner(self) -> str:
        """See `Line`. Where nobody knows who asks, a task's id alone gives access."""
        return owner_of(self.principal, self.revision.era)

    @property
    def peer_info(self) -> Implementation | None:
        """Who the client says it is; None where it does not, or not in a way that can be read."""
        try:
            return codec_for(self.revision).decode(Implementation, cast(Object, self._info))
        except ShapeError:
            return None

    def notify(self, method: str, params: object, related: RequestId | None = None) -> bool:
        """Send a notification that belongs to the request; False where the revision has none of that name."""
        if find_method(method, self.revision, "server") is None:
            return False
        self._tell(method, codec_for(self.revision).encode(params))
        return True

    async def drain(self, related: RequestId) -> None:
        """Return when the client has taken enough."""
        await self._drain()

    def is_serving(self, id: RequestId) -> bool:
        """Whether it still waits for its answer."""
        return not self.is_over

    def interrupt(self, related: RequestId) -> bool:
        """Nothing can be taken up again in this era."""
        return False

    def missing(self, capability: str) -> McpError:
        """The error for something that the client did not declare."""
        return MissingCapability(capability)

    # ------------------------------------------------------------------------------------- questions

    def remember(self, answers: Object, questions: Object) -> None:
        """What the client has answered, in this round and those before, and a digest of what was asked, by key."""
        self._answers, self._questions = answers, questions

    async def ask(
        self,
        method: str,
        params: object,
        result: type[T],
        timeout: float | None,
        related: RequestId,
        key: str | None,
    ) -> T:
        """The client's answer, if it has come with the request; else the request ends here, with the question."""
        if self.is_over:
            raise McpError(f"{method} was not asked: the request that it would belong to is answered")
        if not self.asks:
            raise McpError(f"{method}: nothing can be asked while this kind of request is served")
        codec = codec_for(self.revision)
        question = codec.encode(params)
        # A "yes" is to what was asked. Where that has changed when the handler runs anew, it is asked anew; a key of
        # the author's own says that it is the same.
        asked = "" if key is not None else mrtr.request_digest(method, question)
        key = key if key is not None else str(len(self._asked) + 1)  # the handler asks in the same order each time
        if key in self._asked:
            raise ValueError(f"two questions of one request have the key {key!r}")
        self._asked[key] = asked
        if self._questions.get(key, asked) != asked and self._answers.pop(key, None) is not None:
            log.info(
                "%s: question %s has changed since it was answered; `key=` says that it means the same", method, key
            )
        if key not in self._answers:
            raise mrtr.InputRequired({key: {"method": method, "params": question}})
        try:
            return codec.decode(result, cast(Object, self._answers[key]))
        except ShapeError as error:
            raise ProtocolError(INVALID_PARAMS, f"Invalid params: the answer to {method}: {error}") from None

    def in_this_era(self, error: ProtocolError) -> BaseException:
        """What an error of a handler's means here: what has to be visited first is asked for in the result."""
        from ..features.elicitation import url_elicitations

        pages = url_elicitations(error) if self.asks else {}
        if not pages:
            return without_legacy_codes(error)
        if not declares(self.peer_capabilities, "elicitation.url"):
            return MissingCapability("elicitation.url")
        for id in pages:
            answer = self._answers.get(id)
            if isinstance(answer, dict) and answer.get("action") != "accept":
                return ProtocolError(INVALID_PARAMS, f"{error.message}; the user did not agree to it")
        codec = codec_for(self.revision)
        # [2026-07-28 client/elicitation#url-mode-elicitation-requests] accept is consent: it may be asked for again
        return mrtr.InputRequired(
            {id: {"method": "elicitation/create", "params": codec.encode(page)} for id, page in pages.items()}
        )

    @property
    def so_far(self) -> Object:
        """What travels with the client to the next round: what was asked, and what has been answered of it."""
        questions = {**self._questions, **self._asked}
        return {"questions": questions, "answers": {k: a for k, a in self._answers.items() if k in questions}}


def route_of(server: Server, name: str, revision: Revision) -> Route:
    """What serves a method. Raises ProtocolError where there is none, or nothing is offered that it would need."""
    route = server.routes.get(name)
    if route is not None:
        return route
    row = find_method(name, revision, "client")
    if row is None or row.is_notification or not server.offers(row):
        raise ProtocolError(METHOD_NOT_FOUND, f"Method not found: {name[:200]}")
    route = server.routes[name] = Route(row, load(row.params), server.handler(row))
    return route


async def serve(
    server: Server,
    request: Request,
    tell: Tell,
    drain: Drain,
    principal: str | None = None,
    subscriptions: Subscriptions | None = None,
) -> Object:
    """Serve one request; gives its result. Raises ProtocolError. tell, drain: for its notifications."""
    if request.method == "initialize" and not is_stateless(request.params):
        # [2026-07-28 basic/versioning#backward-compatibility-with-initialization-based-versions] SHOULD name ours
        raise unsupported_revision(str(request.params.get("protocolVersion")), server.revisions)
    meta = read_request_meta(request.params, server.revisions)
    route = route_of(server, request.method, meta.revision)
    extension = route.method.capability or ""
    if extension.startswith("extensions.") and not declares(meta.capabilities, extension):
        raise MissingCapability(extension)  # an extension is for those who both declare it
    codec = codec_for(meta.revision)
    if meta.log_level is not None and meta.log_level not in LEVELS:
        # [2026-07-28 server/utilities/logging#error-handling] SHOULD be rejected with -32602
        raise ProtocolError(INVALID_PARAMS, f"Invalid params: the log level is one of {', '.join(LEVELS)}")
    call = StatelessRequest(server, meta, tell, drain, principal, subscriptions)
    try:
        params: object = codec.decode(route.params, request.params)
    except ShapeError as error:
        raise ProtocolError(INVALID_PARAMS, f"Invalid params: {error}") from None
    if request.method in mrtr.METHODS:
        call.asks = True
        if "inputResponses" in request.params or "requestState" in request.params:
            call.remember(*_answers_in(server, request, principal))
    try:
        try:
            result = await route.handler(params, Context(call, request.id, cast(RequestParams, params).meta))
        except ProtocolError as error:
            raise call.in_this_era(error) from None
        if isinstance(result, CacheableResult) and request.method in server.cache_hints:
            # [2026-07-28 server/utilities/caching#cacheable-results] MUST include both; a resource has its own
            result.ttl_ms, result.cache_scope = server.cache_hints[request.method]
        wire: Object = {"resultType": "complete", **codec.encode(result)}
    except mrtr.InputRequired as required:
        state = mrtr.seal(
            server.state_key, call.so_far, mrtr.request_digest(request.method, request.params), principal, time.time()
        )
        wire = {"resultType": "input_required", "inputRequests": {**required.requests}, "requestState": state}
    except InvalidMessage as error:
        raise ProtocolError(INVALID_PARAMS, f"Invalid params: {error}") from None
    finally:
        call.is_over = True
    # [2026-07-28 basic/index#meta] servers SHOULD include who they are in every result
    wire["_meta"] = with_meta(wire, {SERVER_INFO: server.info_on_wire(meta.revision)})
    return wire


def _answers_in(server: Server, request: Request, principal: str | None) -> tuple[Object, Object]:
    """What the client has answered, now and before; and a digest of what it was asked, by key."""
    state, answers = request.params.get("requestState"), request.params.get("inputResponses", {})
    if not isinstance(answers, dict) or not all(isinstance(answer, dict) for answer in answers.values()):
        raise ProtocolError(INVALID_PARAMS, "Invalid params: inputResponses is an object of results")
    if state is None:
        return dict(answers), {}
    digest = mrtr.request_digest(request.method, request.params)
    try:
        before = mrtr.unseal(server.state_key, state, digest, principal, time.time())
    except ProtocolError as error:
        log.info("a requestState was refused: %s (servers that answer for each other share a state_key)", error)
        raise
    return {**answers, **cast(Object, before["answers"])}, cast(Object, before["questions"])
