"""The client's end of a conversation, in either era.

In the earlier era a request is sent, and answered; the server may ask in between, with requests of its own. In the
stateless era a request also says who asks and what it can do; and what the server asks stands in the result:

    params -> stamped -> cached? -> send -> complete
                                         -> input_required: answer the questions, and send it again

Spec:  2026-07-28 basic/versioning, basic/patterns/mrtr, server/utilities/caching
Above: reaching.py. Below: connection.py; answering.py and hearing.py, which take what the server wants and tells
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, cast

from ..basic import mrtr
from ..basic.cancellation import CancelledNotificationParams, receive_cancelled
from ..basic.meta import with_meta
from ..basic.ping import ping
from ..basic.progress import ProgressHandler, ProgressNotificationParams, receive_progress
from ..basic.versioning import SUBSCRIPTION_ID, with_request_meta
from ..codec import ShapeError
from ..extensions.tasks import types as tasks
from ..features.caching import ServerCache
from ..features.task_augmentation import RELATED_TASK
from ..jsonrpc.errors import InvalidMessage, McpError, ProtocolError, RemoteError
from ..jsonrpc.messages import Batch, Incoming, Malformed, Object, Request, RequestId, Response
from ..revisions import METHODS, Method
from ..session import Handler, Send, Session, load

if TYPE_CHECKING:
    from ..features.elicitation import ElicitationCompleteNotificationParams
    from ..jsonrpc.dispatcher import Limits
    from ..transports.base import Transport
    from .handlers import ClientHandlers
    from .hearing import News

log = logging.getLogger(__name__)

MAX_TASK_PROGRESS = 1000
"""Tasks of whose progress a client is told; the oldest are forgotten."""


class Listener(Protocol):
    """Who takes the notifications of one `subscriptions/listen` request."""

    def heard(self, method: str, params: object) -> None:
        """One has come."""


class ClientSession(Session):
    """The client's end of the conversation. lost: called when it has ended."""

    def __init__(
        self,
        transport: Transport,
        limits: Limits | None,
        answers: ClientHandlers,
        news: News,
        cache: ServerCache,
        lost: Callable[[ClientSession], None],
    ) -> None:
        super().__init__("client", transport, limits)
        self.listeners: dict[RequestId, Listener] = {}
        """The subscriptions of the stateless era, by the id of their request."""
        self.log_level: str | None = None
        """The least severe log messages that requests of the stateless era ask for; None for none."""
        self.task_progress: dict[RequestId, ProgressHandler] = {}
        """Who is told how far requests are that have become tasks, by their progress token; the oldest first."""
        self.has_answered = False
        """Whether the server has answered a request, after those that opened the connection."""
        self._answers, self._news = answers, news
        self._cache = cache
        self._lost = lost
        self._info: Object = {}

    async def open(self) -> None:
        """Start the transport."""
        await self.transport.start(self._receive, self.lost)

    def introduce(self, capabilities: Object, info: Object) -> None:
        """What requests of the stateless era say of us."""
        self.capabilities, self._info = capabilities, info

    def take_over(self, other: ClientSession) -> None:
        """Go on as another connection, to a fresh process of the same server: nothing has to be asked again."""
        self.speak(other.revision)
        self.introduce(other.capabilities, other._info)
        self.peer_capabilities, self.peer_info = other.peer_capabilities, other.peer_info
        self.log_level = other.log_level

    def _receive(self, incoming: Incoming) -> None:
        asks = isinstance(incoming, (Request, Batch)) or (isinstance(incoming, Malformed) and not incoming.is_response)
        if asks and self.revision.era == "modern":
            # [2026-07-28 basic/transports/stdio#sending-messages] MUST NOT write responses: nothing may be asked here
            return log.warning("ignored what a server of revision %s may not send: %.200r", self.revision, incoming)
        self.dispatcher.receive(incoming)

    # ------------------------------------------------------------------------------------- what we ask

    async def exchange(self, method: str, params: Object, send: Send) -> Object:
        """See `Session`; in the stateless era, the complete result, whatever the server has asked before."""
        if self.revision.era == "legacy":
            return await send(params)
        params = with_request_meta(params, self.revision, self.capabilities, self._info, self.log_level)
        kept = self._cache.get(method, params)
        if kept is not None:
            return kept
        changes = self._cache.changes
        result = await send(params)
        self.has_answered = True
        self._cache.put(method, params, result, changes)
        if _is_answer(method, result):
            return result
        for _ in range(mrtr.MAX_ROUNDS):
            if _kind(result) != "input_required" or method not in mrtr.METHODS:
                # [2026-07-28 basic/index#result-responses] an unrecognized resultType: MUST consider it invalid
                raise InvalidMessage(
                    f"the result of {method} is of the type {_kind(result)[:80]!r}, which it may not be"
                )
            answers = await self._answer_all(mrtr.read_input_requests(result))
            params = mrtr.retry_params(params, result, answers)
            result = await send(params)
            if _is_answer(method, result):
                return result
        raise InvalidMessage(f"{method}: the server still asks after {mrtr.MAX_ROUNDS} rounds of answers")

    async def _answer_all(self, questions: dict[str, mrtr.InputRequest]) -> Object:
        """The answers, by key. All are asked at once, if all may be. Raises what the first that fails raises."""
        asked = {key: self._handling(question) for key, question in questions.items()}
        answers = {key: asyncio.create_task(self._answer(*each)) for key, each in asked.items()}
        try:
            for answer in asyncio.as_completed(answers.values()):
                await answer
        finally:
            for each in answers.values():
                each.cancel()
            await asyncio.gather(*answers.values(), return_exceptions=True)
        return {key: answer.result() for key, answer in answers.items()}

    async def answer(self, question: mrtr.InputRequest) -> Object:
        """The answer to one question, as on the wire. Raises InvalidMessage for what may not be asked."""
        return await self._answer(*self._handling(question))

    def _handling(self, question: mrtr.InputRequest) -> tuple[Handler, object]:
        """Who answers a question, and its params. Raises InvalidMessage for one that may not be asked."""
        row, handler = QUESTIONS.get(question.method), self._handlers().get(question.method)
        if row is None or handler is None or not self._declared(self.capabilities, row):
            # [2026-07-28 basic/patterns/mrtr#server-requirements-basic-workflow] MUST NOT ask what was not declared
            raise InvalidMessage(f"the server asks for {question.method[:80]}, which this client did not declare")
        try:
            params: object = self.codec.decode(load(row.params), question.params)
            self._answers.check_question(params, self.revision)
        except (ShapeError, ProtocolError) as error:
            raise InvalidMessage(f"the server's {question.method}: {error}") from None
        return handler, params

    async def _answer(self, handler: Handler, params: object) -> Object:
        return self.codec.encode(await handler(params, self))

    def _abandoned(self, id: RequestId, reason: str) -> None:
        pending = self.dispatcher.pending.get(id)
        if pending is not None and pending.method == "server/discover" and self.revision.era == "legacy":
            return  # the first question of all: the server may not know what a cancellation is
        super()._abandoned(id, reason)

    def note_error(self, error: RemoteError) -> None:
        """Note the URLs that the server wants the user to visit before it serves the request."""
        if isinstance(error.data, dict) and "elicitations" in error.data:
            from ..features.elicitation import required_ids

            for id in required_ids(error):
                self._answers.expect_elicitation(id)

    # ------------------------------------------------------------------------------------- what the server says

    def handler(self, method: Method) -> Handler | None:
        """The function that serves a method; the capability was checked, so what it needs is there."""
        feature, _, action = method.name.partition("/")
        if feature == "tasks":
            return cast("Handler", getattr(self._answers.tasks, action))
        return self._handlers().get(method.name)

    @property
    def task_owner(self) -> str:
        """Whose our tasks are: the server's."""
        return "server"

    async def _serve(self, request: Request) -> Object:
        result = await super()._serve(request)
        asked = request.params.get("_meta")
        related = asked.get(RELATED_TASK) if isinstance(asked, dict) else None
        if related is not None:
            # [2025-11-25 basic/utilities/tasks#related-task-metadata] responses MUST have it, like their requests
            result["_meta"] = with_meta(result, {RELATED_TASK: related})
        return result

    def hear_progress(self, token: RequestId, handler: ProgressHandler) -> None:
        """Tell of a request's progress when it is answered by a task, too."""
        self.task_progress[token] = handler
        if len(self.task_progress) > MAX_TASK_PROGRESS:
            del self.task_progress[next(iter(self.task_progress))]

    def _handlers(self) -> dict[str, Handler]:
        handlers = {
            "ping": ping,
            "roots/list": self._answers.list_roots,
            "sampling/createMessage": self._answers.create_message,
            "elicitation/create": self._answers.elicit,
        }
        return cast("dict[str, Handler]", handlers)

    def notified(self, method: str, params: object) -> None:
        """Take one of the server's notifications."""
        listener = self._listener(params)
        if isinstance(params, ProgressNotificationParams):
            handler = self.task_progress.get(params.progress_token)
            if handler is not None and params.progress_token not in self.dispatcher.pending:
                # [2025-11-25 basic/utilities/tasks] valid throughout the task's lifetime
                return handler(params.progress, params.total, params.message)
            receive_progress(params, self.dispatcher)
        elif listener is not None and isinstance(params, CancelledNotificationParams):
            # [2026-07-28 basic/patterns/cancellation#intro] the server tears it down: the same as its answer
            self.dispatcher.receive(Response(params.request_id, {}))
        elif listener is not None:
            listener.heard(method, params)
        elif isinstance(params, CancelledNotificationParams):
            receive_cancelled(params, self.dispatcher)
        elif method == "notifications/elicitation/complete":
            self._answers.elicitation_completed(cast("ElicitationCompleteNotificationParams", params).elicitation_id)
        else:
            self._news.heard(method, params)

    def _listener(self, params: object) -> Listener | None:
        """Whose notification it is. [2026-07-28 basic/transports/stdio#receiving-messages] MUST go by the id in it"""
        meta = getattr(params, "meta", None)
        id = params.request_id if isinstance(params, CancelledNotificationParams) else (meta or {}).get(SUBSCRIPTION_ID)
        return self.listeners.get(id) if type(id) is int else None  # ours are integers

    def lost(self, error: McpError | None) -> None:
        """The server is gone: subscriptions end too, or begin again with a new one."""
        super().lost(error)
        self._lost(self)


QUESTIONS = {
    method.name: method
    for method in METHODS
    if method.name in ("elicitation/create", "sampling/createMessage", "roots/list")
}
"""What may stand in `inputRequests`. [2026-07-28 basic/patterns/mrtr#server-requirements-basic-workflow]"""


def _is_answer(method: str, result: Object) -> bool:
    """Whether it is what was asked for, or a handle by which that can be had."""
    kind = _kind(result)
    return kind == "complete" or (kind == "task" and method in tasks.METHODS)


def _kind(result: Object) -> str:
    # [2026-07-28 basic/index#result-responses] absent, as servers of earlier revisions leave it: "complete"
    kind = result.get("resultType", "complete")
    return kind if isinstance(kind, str) else "no string"
