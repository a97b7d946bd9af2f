"""The context of a request: all that a tool, resource or prompt may do to the client while it serves one.

A function receives it by asking for it: any parameter annotated with `Context`.

    @server.tool()
    async def count(to: int, context: Context) -> str:
        for number in range(to):
            await context.report_progress(number + 1, to)
        return "done"

A plain `def` function runs in a worker thread, where nothing can be awaited; there, `context.run(...)` does it:

    @server.tool()
    def slow(context: Context) -> str:
        context.run(context.log("info", "still at it"))

Spec:  basic/utilities/progress, server/utilities/logging, client/elicitation, client/sampling, client/roots
"""

from __future__ import annotations

import asyncio
import contextvars
import secrets
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar, cast, overload

from ..basic.lifecycle import Implementation, declares
from ..basic.progress import ProgressReporter, progress_token
from ..jsonrpc.errors import InvalidMessage, McpError
from ..jsonrpc.messages import JSON, Object, RequestId
from ..revisions import Revision

if TYPE_CHECKING:
    from ..extensions.tasks.live_task import LiveTask
    from ..features.elicitation import ElicitResult
    from ..features.logging import LoggingLevel
    from ..features.roots import Root
    from ..features.sampling import CreateMessageResult, ModelPreferences, SamplingMessage, ToolChoice
    from ..features.tools import Tool
    from .server import Server

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
Ask: TypeAlias = Coroutine[object, object, T]

PERSON_TIMEOUT = 600.0
"""Seconds to wait for a person, in elicitation and sampling, by default."""

TURN = 32
"""Progress reports and log messages of a request, or resources that it looks up, after which others have their turn."""


class Channel(Protocol):
    """What a request is served over: a connection that was opened by a handshake, or a request that stands alone."""

    server: Server
    loop: asyncio.AbstractEventLoop
    revision: Revision
    peer_capabilities: Object
    logging_level: LoggingLevel | None
    """The least severe level of messages that the client wants; None for none."""
    subscriptions: set[str]
    task: LiveTask | None
    """The task that the request has become, or may become."""

    @property
    def task_owner(self) -> str:
        """Whose a task is that the request becomes; see `TaskStore`."""

    @property
    def peer_info(self) -> Implementation | None:
        """Who the client says it is."""

    def notify(self, method: str, params: object, related: RequestId | None = None) -> bool:
        """Send a notification that belongs to a request of the client."""

    async def drain(self, related: RequestId) -> None:
        """Return when the client has taken enough of what was sent for a request."""

    def is_serving(self, id: RequestId) -> bool:
        """Whether a request of the client still waits for its answer."""

    def interrupt(self, related: RequestId) -> bool:
        """See `Context.close_stream`."""

    def missing(self, capability: str) -> McpError:
        """The error for something that the client did not declare."""

    async def ask(
        self,
        method: str,
        params: object,
        result: type[T],
        timeout: float | None,
        related: RequestId,
        key: str | None,
    ) -> T:
        """Ask the client, for the sake of a request of its. key: what the answer is found by, where that matters."""


class Context:
    """The request being served. Not to be kept beyond it: once it is answered, progress and log messages are
    dropped."""

    __slots__ = ("_channel", "_progress", "_runs", "_told", "meta", "request_id")

    def __init__(self, line: Channel, request_id: RequestId, meta: Object | None) -> None:
        self.request_id = request_id
        """The request's JSON-RPC id."""
        self.meta: Object = meta or {}
        """The request's `_meta`, untouched; trace context such as `traceparent` is here."""
        self._channel = line
        self._progress: ProgressReporter | None = None
        self._told = 0
        self._runs: set[asyncio.Task[object]] | None = None  # what worker threads wait for

    # ------------------------------------------------------------------------------------- who asks

    @property
    def revision(self) -> Revision:
        """The revision that the client speaks."""
        return self._channel.revision

    @property
    def client_info(self) -> Implementation | None:
        """Who the client says it is. For display and logs, never for decisions of trust."""
        return self._channel.peer_info

    @property
    def client_capabilities(self) -> Object:
        """What the client declared, as on the wire: `{"sampling": {}, ...}`."""
        return self._channel.peer_capabilities

    def client_can(self, capability: str) -> bool:
        """Whether the client declared a capability, such as "sampling" or "elicitation"."""
        return declares(self._channel.peer_capabilities, capability)

    # ------------------------------------------------------------------------------------- telling

    async def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Say how far the request has come; nothing is sent unless the client asked for it.

        progress must increase from call to call; a value that does not is left out. total: None where unknown.
        """
        await self._take_turns()
        if self._progress is None:
            token = progress_token(self.meta)
            if token is None:
                return
            self._progress = ProgressReporter(token)
        notification = self._progress.notification(progress, total, message)
        # [2025-11-25 basic/utilities/progress#implementation-notes] MUST stop after completion
        if notification is not None and self._is_open():
            self._channel.notify("notifications/progress", notification, self.request_id)
            await self._channel.drain(self.request_id)

    async def log(self, level: LoggingLevel, data: JSON, logger: str | None = None) -> None:
        """Send a log message to the client, if it wants this level. `data` is any JSON: a text, or an object of
        details."""
        from ..features.logging import LoggingMessageNotificationParams, is_wanted

        await self._take_turns()
        if is_wanted(level, self._channel.logging_level) and self._is_open():
            params = LoggingMessageNotificationParams(level, data, logger)
            self._channel.notify("notifications/message", params, self.request_id)
            await self._channel.drain(self.request_id)

    async def _take_turns(self) -> None:
        """Who tells much lets others have their turn, also where nothing is sent and nothing makes it wait."""
        self._told += 1
        if self._told % TURN == 0:
            await asyncio.sleep(0)

    def _is_open(self) -> bool:
        return self._channel.is_serving(self.request_id)

    def close_stream(self) -> bool:
        """Over HTTP, close the connection that waits for this request's answer; the client comes back for the rest
        after a while. For work that takes longer than a connection lasts. From the event loop.

        False where that cannot be: before 2025-11-25, for an answer in JSON, and on other transports.
        """
        # [2025-11-25 basic/transports#sending-messages-to-the-server] MAY close it after an event with an id
        return self._is_open() and self._channel.interrupt(self.request_id)

    # ------------------------------------------------------------------------------------- for what takes long

    async def set_status(self, message: str) -> None:
        """Say in words how the work is, to whoever asks about the task that the request has become. For a request that
        is no task, nothing happens."""
        await self._take_turns()
        if self._channel.task is not None:
            self._channel.task.set_status(message)
            await self._channel.drain(self.request_id)

    async def begin_task(self) -> None:
        """The questions are asked, the long work begins: the client gets its task now. For tools with `asks_first`; for
        others, and for a request that is to be no task, nothing happens. Raises ProtocolError without room."""
        if self._channel.task is not None:
            self._channel.task.begin()

    @property
    def task_owner(self) -> str:
        """Whose tasks are meant when the client asks about them."""
        return self._channel.task_owner

    # ------------------------------------------------------------------------------------- asking

    async def elicit(
        self,
        message: str,
        schema: Mapping[str, object] | type,
        *,
        timeout: float | None = PERSON_TIMEOUT,
        key: str | None = None,
        as_task: bool = False,
    ) -> ElicitResult:
        """Ask the user to fill in a form, and wait for what they do.

        schema: a flat JSON Schema object, or a dataclass of str, int, float, bool, Literal and Enum fields. The
        answer's content, where its action is "accept", matches the schema. key: what the answer is found by when it
        comes, in 2026-07-28. By default that is the number of the question in this call, and an answer counts only for
        the very same question: where "Delete 2 files?" has become "Delete 8 files?" meanwhile, the user is asked again.
        A key of your own says that questions under it mean the same, however they read. as_task: where the client can,
        it makes a task of it, and no request has to wait for the person (2025-11-25). Raises ValueError for a schema
        that no form can show.
        """
        from ..features import elicitation
        from ..lib.typed import schema_of

        self._needs("elicitation")
        capability = self._channel.peer_capabilities.get("elicitation")
        if "form" not in elicitation.supported_modes(capability if isinstance(capability, dict) else {}):
            raise self._channel.missing("elicitation.form")
        requested = schema_of(schema) if isinstance(schema, type) else cast(Object, schema)
        fault = elicitation.schema_fault(requested, self.revision)
        if fault is not None:
            raise ValueError(f"no form can show this schema: {fault}")
        mode = "form" if self.revision.elicitation_modes else None
        form = elicitation.ElicitRequestFormParams(message, requested, mode)  # type: ignore[arg-type]
        result = await self._ask(
            "elicitation/create", elicitation.ElicitRequestParams(form), elicitation.ElicitResult, timeout, key, as_task
        )
        if result.action == "accept":
            errors = elicitation.content_errors(requested, result.content or {})  # type: ignore[arg-type]
            if errors:
                raise InvalidMessage(f"the user's answers do not match the schema: {'; '.join(errors)}")
        return result

    async def elicit_url(
        self,
        message: str,
        url: str,
        elicitation_id: str | None = None,
        *,
        timeout: float | None = PERSON_TIMEOUT,
        key: str | None = None,
        as_task: bool = False,
    ) -> ElicitResult:
        """Ask the user to visit a web page. "accept" means that they agreed to; see `elicitation_complete` for done.

        elicitation_id: a name for this visit that nobody can guess, in 2025-11-25; by default a random one. key: as for
        `elicit`. Revision 2025-11-25 and later.
        """
        from ..features import elicitation

        self._needs("elicitation.url")
        fault = elicitation.url_fault(url)
        if fault is not None:
            raise ValueError(fault)
        page = elicitation.ElicitRequestURLParams(message, url, elicitation_id or secrets.token_urlsafe(16))
        return await self._ask(
            "elicitation/create", elicitation.ElicitRequestParams(page), elicitation.ElicitResult, timeout, key, as_task
        )

    async def elicitation_complete(self, elicitation_id: str) -> None:
        """Tell the client that what the user did at the URL is done."""
        from ..features.elicitation import ElicitationCompleteNotificationParams

        params = ElicitationCompleteNotificationParams(elicitation_id)
        self._channel.notify("notifications/elicitation/complete", params, self.request_id)
        await self._channel.drain(self.request_id)

    async def sample(
        self,
        messages: str | list[SamplingMessage],
        *,
        max_tokens: int,
        system_prompt: str | None = None,
        model_preferences: ModelPreferences | None = None,
        temperature: float | None = None,
        stop_sequences: list[str] | None = None,
        tools: list[Tool] | None = None,
        tool_choice: ToolChoice | None = None,
        timeout: float | None = PERSON_TIMEOUT,
        key: str | None = None,
        as_task: bool = False,
    ) -> CreateMessageResult:
        """Ask the client's language model to go on with a conversation; a text alone is what the user says.

        tools, tool_choice: for a client that declared `sampling.tools` (2025-11-25 and later). as_task: see `elicit`.
        """
        from ..features import sampling

        self._needs("sampling")
        params = sampling.CreateMessageRequestParams(
            sampling.to_messages(messages),
            max_tokens,
            system_prompt=system_prompt,
            model_preferences=model_preferences,
            temperature=temperature,
            stop_sequences=stop_sequences,
            tools=tools,
            tool_choice=tool_choice,
        )
        capability = self._channel.peer_capabilities.get("sampling")
        fault = sampling.request_fault(params, capability if isinstance(capability, dict) else {})
        if fault is not None:
            raise self._channel.missing("sampling.tools") if "declare" in fault else ValueError(fault)
        return await self._ask("sampling/createMessage", params, sampling.CreateMessageResult, timeout, key, as_task)

    async def list_roots(self, *, timeout: float | None = 60.0, key: str | None = None) -> list[Root]:
        """The directories and files that the user has opened to this server."""
        from ..basic.meta import RequestParams
        from ..features.roots import ListRootsResult, checked

        self._needs("roots")
        result = await self._ask("roots/list", RequestParams(), ListRootsResult, timeout, key)
        try:
            return [checked(root) for root in result.roots]
        except ValueError as error:
            raise InvalidMessage(f"the client's answer to roots/list: {error}") from None

    async def _ask(
        self,
        method: str,
        params: object,
        result: type[T],
        timeout: float | None,
        key: str | None = None,
        as_task: bool = False,
    ) -> T:
        if as_task and self.revision.tasks_are_core and self.client_can(f"tasks.requests.{method.replace('/', '.')}"):
            from ..features.task_augmentation import ask_for_task

            ask_for_task(params, timeout)
        return await self._channel.ask(method, params, result, timeout, self.request_id, key)

    @overload
    async def gather_inputs(self, a: Ask[A], b: Ask[B], /) -> tuple[A, B]: ...

    @overload
    async def gather_inputs(self, a: Ask[A], b: Ask[B], c: Ask[C], /) -> tuple[A, B, C]: ...

    @overload
    async def gather_inputs(self, a: Ask[A], b: Ask[B], c: Ask[C], d: Ask[D], /) -> tuple[A, B, C, D]: ...

    @overload
    async def gather_inputs(self, *questions: Ask[A]) -> tuple[A, ...]: ...

    async def gather_inputs(self, *questions: Ask[object]) -> tuple[object, ...]:
        """Ask several things at once, and wait for all answers:

            roots, answer = await context.gather_inputs(context.list_roots(), context.elicit(...))

        In 2026-07-28, where each round of questions is a request of its own, that is one round instead of several.
        """
        from ..basic.mrtr import InputRequired, merge_input_required

        answers = await asyncio.gather(*questions, return_exceptions=True)
        failed = [answer for answer in answers if isinstance(answer, BaseException)]
        others = [error for error in failed if not isinstance(error, InputRequired)]
        if others:
            raise others[0]
        required = merge_input_required(BaseExceptionGroup("questions", failed)) if failed else None
        if required is not None:
            raise required
        return tuple(answers)

    def _needs(self, capability: str) -> None:
        if not self.client_can(capability):
            raise self._channel.missing(capability)

    # ------------------------------------------------------------------------------------- from a worker thread

    def run(self, coroutine: Coroutine[object, object, T]) -> T:
        """Run one of the methods above from a plain `def` function, and wait for it.

        Raises `concurrent.futures.CancelledError` when the request is cancelled meanwhile.
        """
        if _on(self._channel.loop):
            coroutine.close()
            raise RuntimeError("context.run() is for plain def functions; in an async def function, await it instead")
        return asyncio.run_coroutine_threadsafe(self._until_cancelled(coroutine), self._channel.loop).result()

    async def _until_cancelled(self, coroutine: Coroutine[object, object, T]) -> T:
        task = cast("asyncio.Task[object]", asyncio.current_task())
        self._runs = self._runs or set()
        self._runs.add(task)
        try:
            return await coroutine
        finally:
            self._runs.discard(task)

    # ------------------------------------------------------------------------------------- for the pages

    async def in_worker(self, function: Callable[[], object]) -> object:
        """Run a blocking function in one of the server's worker threads."""
        executor, within = self._channel.server.executor, contextvars.copy_context()
        try:
            value, error = await self._channel.loop.run_in_executor(executor, within.run, _outcome, function)
        except asyncio.CancelledError:
            # A thread cannot be stopped, but it need not wait for an answer that nobody wants: that would keep its
            # place among the workers for minutes.
            for task in self._runs or ():
                task.cancel()
            raise
        if error is not None:
            raise error
        return value

    @property
    def subscriptions(self) -> set[str]:
        """The resources that the client watches."""
        return self._channel.subscriptions

    @property
    def logging_level(self) -> LoggingLevel | None:
        """The least severe level of log messages that the client receives."""
        return self._channel.logging_level

    @logging_level.setter
    def logging_level(self, level: LoggingLevel) -> None:
        self._channel.logging_level = level


def _outcome(function: Callable[[], object]) -> tuple[object, BaseException | None]:
    """What a function returns or raises. No future takes a StopIteration, and who awaits one that was given it waits
    for ever; so a worker's exceptions come as values."""
    try:
        return function(), None
    except BaseException as error:
        return None, error


def _on(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
