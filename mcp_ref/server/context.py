"""The context of a request: the object with which the function of a tool, resource or prompt can reach the client.

If the function has a parameter with the annotation `Context`, the server passes the context of the current request:

    @server.tool()
    async def count(to: int, context: Context) -> str:
        for number in range(to):
            await context.report_progress(number + 1, to)
        return "done"

A plain `def` function runs in a worker thread, where `await` is impossible. Such a function writes
`context.run(context.log("info", "half done"))`.

A server uses only capabilities that the client declared, because the client decides who uses its model and files
[2025-11-25 basic/lifecycle#operation]. A method that needs an undeclared capability raises `CapabilityError`, and
sends nothing. Sampling, roots and log messages are deprecated since 2026-07-28 [2026-07-28 changelog#major-changes].

Spec:  basic/utilities/progress, server/utilities/logging, client/elicitation, client/sampling, client/roots
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Coroutine, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar, cast, overload

from ..basic.access import HttpCaller, Principal, checked_scopes
from ..basic.channel import RequestContext
from ..basic.lifecycle import Implementation, declares
from ..basic.meta import RequestParams
from ..basic.mrtr import HandlerNeedsInput, collect_input_requests
from ..basic.progress import ProgressReporter, progress_token
from ..features import lazy as features
from ..features.logging import LoggingLevel, LoggingMessageNotificationParams, is_wanted
from ..features.task_augmentation import add_task_field
from ..jsonrpc.errors import InvalidMessage
from ..jsonrpc.messages import JSON, Object
from ..revisions import NotInRevision

if TYPE_CHECKING:
    # Type checkers know this module, even if it is not installed. Before Python 3.13, `typing.TypeVar` has no defaults.
    from typing_extensions import TypeVar as TypeVarWithDefault

    from ..features.elicitation import ElicitResult
    from ..features.roots import Root
    from ..features.sampling import CreateMessageResult, ModelPreferences, SamplingMessage, ToolChoice
    from ..features.tools import Tool

    S = TypeVarWithDefault("S", default=object, covariant=True)
else:
    S = TypeVar("S", covariant=True)

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
InputCoroutine: TypeAlias = Coroutine[object, object, T]

USER_TIMEOUT = 600.0
"""Default time for the user to fill a form or to approve a sampling request, in seconds."""

YIELD_INTERVAL = 32
"""Number of steps (sent notifications, checked URIs) after which a handler lets other handlers run."""


class Context(RequestContext, Generic[S]):
    """The request being served, with methods to report progress, to log, and to request input from the client.

    `Context[Database]` is the context of a server whose lifespan yields a `Database` (lifespan.py). After the response
    to the request, progress reports and log messages are dropped.
    """

    __slots__ = ()

    @property
    def state(self) -> S:
        """The value that the server's lifespan has yielded; None without a lifespan. The type is not checked."""
        return cast(S, self.channel.shared.state if self.channel.shared is not None else None)

    @property
    def principal(self) -> Principal | None:
        """The authenticated caller; None over stdio, and on a server without authentication."""
        return self.access.principal if self.access is not None else None

    @property
    def http(self) -> HttpCaller | None:
        """The headers and the remote address of the HTTP request; None over stdio and in memory.

        A header is a claim of the caller, unless a proxy in front of the server sets it.
        """
        access = self.access
        if access is None or access.headers is None:
            return None
        return HttpCaller(access.headers.without("authorization", "proxy-authorization"), access.address)

    def require(self, *scopes: str) -> None:
        """Refuse the request if the caller lacks a scope, for example a scope that depends on the arguments.

        Call this method first: until the response begins, the client gets HTTP status 403 with the scopes, and can ask
        the user for them. Later, or in a task, the client gets an error that names the scopes. Over stdio, do nothing,
        because the user started this program.

        Args:
            scopes: The scopes.

        Raises:
            AccessRefused: A scope is missing. Let it pass through your function.
        """
        if self.access is not None:
            self.access.require(checked_scopes(scopes))

    @property
    def client_info(self) -> Implementation | None:
        """The name and version that the client claims. They are unverified: do not trust them."""
        return self.channel.peer_info

    @property
    def client_capabilities(self) -> Object:
        """The capabilities that the client declared, as JSON: `{"sampling": {}, ...}`."""
        return self.channel.peer_capabilities

    def client_can(self, capability: str) -> bool:
        """Return True if the client declared a capability.

        Args:
            capability: A path such as `sampling` or `elicitation.url`.
        """
        return declares(self.channel.peer_capabilities, capability)

    async def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Report the progress of the request. If the client did not ask for progress, do nothing.

        Args:
            progress: The progress so far. A report whose value is not higher than the last one is dropped.
            total: The progress value at the end of the work; None if unknown.
            message: A text for people (2025-03-26 and later).

        Raises:
            ValueError: `progress` or `total` is infinite or NaN.
        """
        await self._yield_at_interval()
        if self.progress is None:
            token = progress_token(self.meta)
            if token is None:
                return
            self.progress = ProgressReporter(token)
        notification = self.progress.notification(progress, total, message)
        # [2025-11-25 basic/utilities/progress#implementation-notes] MUST stop when the request is complete
        if notification is not None and self.channel.is_serving(self.request_id):
            self.channel.notify("notifications/progress", notification, self.request_id)
            await self.channel.drain(self.request_id)

    async def log(self, level: LoggingLevel, data: JSON, logger: str | None = None) -> None:
        """Send a log message to the client, if the client wants messages of this level.

        Args:
            level: The severity, from `debug` to `emergency`.
            data: A text, or any other JSON value. Do not log secrets: the client can store or show the message.
            logger: The name of the part of the server that logs.

        Raises:
            ValueError: `level` is not a log level.
        """
        await self._yield_at_interval()
        if is_wanted(level, self.channel.logging_level) and self.channel.is_serving(self.request_id):
            params = LoggingMessageNotificationParams(level, data, logger)
            self.channel.notify("notifications/message", params, self.request_id)
            await self.channel.drain(self.request_id)

    async def _yield_at_interval(self) -> None:
        """Let other handlers run once in `YIELD_INTERVAL` calls. Otherwise one handler could block all others."""
        self.notification_count += 1
        if self.notification_count % YIELD_INTERVAL == 0:
            await asyncio.sleep(0)

    def close_stream(self) -> bool:
        """Close the HTTP stream of this request. The client reconnects later and resumes the stream.

        Use this method when the work takes longer than an HTTP connection can stay open. Call it on the event loop.

        Returns:
            False if no stream was closed: without Streamable HTTP, before 2025-11-25, or for a JSON response.
        """
        # [2025-11-25 basic/transports#sending-messages-to-the-server] MAY close it after an event with an id
        return self.channel.is_serving(self.request_id) and self.channel.close_stream(self.request_id)

    async def set_status(self, message: str) -> None:
        """Set the status message of the task, if the request runs as a task. Otherwise do nothing.

        Args:
            message: A text for people.
        """
        await self._yield_at_interval()
        self.channel.set_status(message)
        await self.channel.drain(self.request_id)

    async def begin_task(self) -> None:
        """Create the task of a tool call now, and send it to the client. Only for tools with the option `asks_first`.

        Call this method after the last input request, and before the long work. For other tools, do nothing.

        Raises:
            ProtocolError: The task store is full.
        """
        self.channel.begin_task()

    @overload
    async def elicit(
        self, message: str, schema: type[T], *,
        timeout: float | None = ..., key: str | None = ..., as_task: bool = ...,
    ) -> ElicitResult[T]: ...  # fmt: skip
    @overload
    async def elicit(
        self, message: str, schema: Mapping[str, object], *,
        timeout: float | None = ..., key: str | None = ..., as_task: bool = ...,
    ) -> ElicitResult: ...  # fmt: skip

    async def elicit(
        self, message: str, schema: Mapping[str, object] | type[object], *,
        timeout: float | None = USER_TIMEOUT, key: str | None = None, as_task: bool = False,
    ) -> ElicitResult:  # fmt: skip
        """Ask the user to fill in a form.

        Args:
            message: The text above the form.
            schema: A flat JSON Schema object, or a dataclass of str, int, float, bool, Literal and Enum fields.
            timeout: Seconds to wait, 600 by default; None for no limit.
            key: A name for the user's response. In 2026-07-28, the function runs again from its first line, and finds
                the response by this name. Without a key, the response is valid only if the form has not changed: a user
                who agreed to "Delete 2 files?" has not agreed to "Delete 8 files?".
            as_task: True to run the request as a task, if the client supports tasks (2025-11-25).

        Returns:
            The user's action: `accept` with the content of the form, `decline` or `cancel`. If `schema` is a class and
            the user accepted, `data` is an object of this class.

        Raises:
            CapabilityError: The client did not declare elicitation by form.
            ValueError: A form cannot show the schema.
            InvalidMessage: The content from the user does not match the schema.
        """
        elicitation = features.elicitation
        self._require("elicitation")
        capability = self.channel.peer_capabilities.get("elicitation")
        if "form" not in elicitation.supported_modes(capability if isinstance(capability, dict) else {}):
            raise self.channel.capability_error("elicitation.form")
        requested = features.typed_json.json_schema(schema) if isinstance(schema, type) else cast(Object, schema)
        if (fault := elicitation.schema_fault(requested, self.revision)) is not None:
            raise ValueError(f"no form can show this schema: {fault}")
        mode = "form" if self.revision.elicitation_modes else None
        form = elicitation.ElicitRequestFormParams(message, requested, mode)  # type: ignore[arg-type]
        params = elicitation.ElicitRequestParams(form)
        result = await self._request("elicitation/create", params, elicitation.ElicitResult, timeout, key, as_task)
        if result.action == "accept":
            errors = elicitation.content_errors(requested, result.content or {})  # type: ignore[arg-type]
            if errors:
                raise InvalidMessage(f"the content of the form does not match the schema: {'; '.join(errors)}")
            if isinstance(schema, type):
                try:
                    data = features.typed_json.read_json(result.content or {}, schema)  # type: ignore[arg-type]
                    return replace(result, data=data)
                except ValueError as error:
                    raise InvalidMessage(f"the content of the form is not valid: {error}") from None
        return result

    async def elicit_url(
        self, message: str, url: str, elicitation_id: str | None = None, *,
        timeout: float | None = USER_TIMEOUT, key: str | None = None, as_task: bool = False,
    ) -> ElicitResult:  # fmt: skip
        """Ask the user to visit a web page (2025-11-25 and later).

        Use a web page for secrets such as passwords, because a form would show them to the client. Call
        `elicitation_complete` when the visit is over.

        Args:
            message: The reason for the visit, for the user.
            url: The address of the page.
            elicitation_id: An id of this visit that cannot be guessed; by default a random one.
            timeout: Seconds to wait, 600 by default; None for no limit.
            key: See `elicit`.
            as_task: See `elicit`.

        Returns:
            The user's action. `accept` means only that the user agrees to visit the page.

        Raises:
            CapabilityError: The client did not declare `elicitation.url`.
            ValueError: The URL is invalid.
        """
        elicitation = features.elicitation
        self._require("elicitation.url")
        if (fault := elicitation.url_fault(url)) is not None:
            raise ValueError(fault)
        page = elicitation.ElicitRequestURLParams(message, url, elicitation_id or secrets.token_urlsafe(16))
        params = elicitation.ElicitRequestParams(page)
        return await self._request("elicitation/create", params, elicitation.ElicitResult, timeout, key, as_task)

    async def elicitation_complete(self, elicitation_id: str) -> None:
        """Tell the client that the user has finished the visit to a web page.

        Args:
            elicitation_id: The id that was given to `elicit_url`.
        """
        params = features.elicitation.ElicitationCompleteNotificationParams(elicitation_id)
        self.channel.notify("notifications/elicitation/complete", params, self.request_id)
        await self.channel.drain(self.request_id)

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
        timeout: float | None = USER_TIMEOUT,
        key: str | None = None,
        as_task: bool = False,
    ) -> CreateMessageResult:
        """Return a message from the client's language model. The client is allowed to change or refuse the request.

        Args:
            messages: The conversation. A str means one message with the role `user`.
            max_tokens: Maximum length of the model's message, in tokens.
            system_prompt: The system prompt. The client is allowed to change it.
            model_preferences: Hints for the choice of a model.
            temperature: The sampling temperature.
            stop_sequences: Texts at which the model stops.
            tools: Tools for the model, for a client that declared `sampling.tools` (2025-11-25 and later).
            tool_choice: The model's use of the tools: auto, required or none.
            timeout: Seconds to wait, 600 by default; None for no limit.
            key: See `elicit`.
            as_task: See `elicit`.

        Raises:
            CapabilityError: The client did not declare `sampling`, or `sampling.tools`.
            ValueError: The messages contain a tool use without its result.
        """
        sampling = features.sampling
        self._require("sampling")
        if tools is not None or tool_choice is not None:
            # [2025-11-25 client/sampling#capabilities] MUST NOT send tools to a client without sampling.tools
            self._require("sampling.tools")
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
        if (fault := sampling.tool_use_fault(params.messages)) is not None:
            raise ValueError(fault)
        result = sampling.CreateMessageResult
        return await self._request("sampling/createMessage", params, result, timeout, key, as_task)

    async def list_roots(self, *, timeout: float | None = 60.0, key: str | None = None) -> list[Root]:
        """Return the roots: the directories and files that this server is allowed to use.

        Args:
            timeout: Seconds to wait, 60 by default; None for no limit.
            key: See `elicit`.

        Raises:
            CapabilityError: The client did not declare `roots`.
            InvalidMessage: A root is invalid.
        """
        self._require("roots")
        result = await self._request("roots/list", RequestParams(), features.roots.ListRootsResult, timeout, key, False)
        try:
            return [features.roots.checked_root(root) for root in result.roots]
        except ValueError as error:
            raise InvalidMessage(f"the client sent an invalid result of roots/list: {error}") from None

    async def request(self, method: str, params: object = None, *, returns: type[T], timeout: float | None = 60.0) -> T:
        """Send a request with a custom method to the client, which the specification does not define.

        Args:
            method: The method, such as `com.example/confirm`.
            params: The params, such as a dataclass or a dict. Default: no params.
            returns: The type of the result, such as a dataclass or `dict`.
            timeout: Seconds to wait, 60 by default; None for no limit.

        Returns:
            The result, an object of the type `returns`.

        Raises:
            NotInRevision: The revision is 2026-07-28, in which servers send no requests.
            RemoteError: The client has no handler for the method, or the handler failed.
            InvalidMessage: The result does not fit the type.
        """
        custom = features.custom_methods
        custom.extension_of(method, None)
        if self.revision.era == "modern":
            raise NotInRevision(f"{method} was not sent: in revision {self.revision}, servers send no requests")
        result = custom.CustomData
        data = await self._request(method, custom.data_of(params), result, timeout, None, False)
        return custom.read_result(method, data, returns)

    async def notify(self, method: str, params: object = None, *, extension: str | None = None) -> None:
        """Send a notification with a custom method to the client.

        Args:
            method: The method, such as `com.example/found`.
            params: The params, such as a dataclass or a dict. Default: no params.
            extension: The extension of the method. Default: the first two parts of the name.

        Raises:
            CapabilityError: The revision is 2026-07-28, and the client did not declare the extension.
        """
        custom = features.custom_methods
        capability = f"extensions.{custom.extension_of(method, extension)}"
        if self.revision.era == "modern":
            self._require(capability)
        if self.channel.is_serving(self.request_id):
            self.channel.notify(method, custom.data_of(params), self.request_id)
            await self.channel.drain(self.request_id)

    async def _request(
        self, method: str, params: object, result: type[T], timeout: float | None, key: str | None, as_task: bool
    ) -> T:
        if as_task and self.revision.tasks_are_core and self.client_can(f"tasks.requests.{method.replace('/', '.')}"):
            add_task_field(params, timeout)
        return await self.channel.request_input(method, params, result, timeout, self.request_id, key)

    def _require(self, capability: str) -> None:
        if not self.client_can(capability):
            raise self.channel.capability_error(capability)

    @overload
    async def gather_inputs(self, a: InputCoroutine[A], b: InputCoroutine[B], /) -> tuple[A, B]: ...
    @overload
    async def gather_inputs(
        self, a: InputCoroutine[A], b: InputCoroutine[B], c: InputCoroutine[C], /
    ) -> tuple[A, B, C]: ...
    @overload
    async def gather_inputs(self, *requests: InputCoroutine[A]) -> tuple[A, ...]: ...

    async def gather_inputs(self, *requests: InputCoroutine[object]) -> tuple[object, ...]:
        """Return the results of several input requests, which are sent to the client together.

            roots, form = await context.gather_inputs(context.list_roots(), context.elicit(...))

        In 2026-07-28, the client repeats its request after each round of input. This method needs only one round.

        Args:
            requests: Coroutines such as `context.elicit(...)`, `context.sample(...)` or `context.list_roots()`.

        Raises:
            McpError: The error of the first request that failed.
        """
        results = await asyncio.gather(*requests, return_exceptions=True)
        failed = [result for result in results if isinstance(result, BaseException)]
        others = [error for error in failed if not isinstance(error, HandlerNeedsInput)]
        if others:
            raise others[0]
        required = collect_input_requests(BaseExceptionGroup("input requests", failed)) if failed else None
        if required is not None:
            raise required
        return tuple(results)

    def run(self, coroutine: Coroutine[object, object, T]) -> T:
        """Return the result of a coroutine of this context. For plain `def` functions.

        Args:
            coroutine: A coroutine such as `context.log("info", "half done")`.

        Raises:
            concurrent.futures.CancelledError: The client cancelled the request.
            RuntimeError: The caller runs on the event loop, as an `async def` function does.
        """
        if _is_running(self.channel.loop):
            coroutine.close()
            raise RuntimeError("context.run() is for plain def functions; in an async def function, await it instead")
        return asyncio.run_coroutine_threadsafe(self._until_cancelled(coroutine), self.channel.loop).result()

    async def _until_cancelled(self, coroutine: Coroutine[object, object, T]) -> T:
        task = cast("asyncio.Task[object]", asyncio.current_task())
        self.worker_tasks = self.worker_tasks or set()
        self.worker_tasks.add(task)
        try:
            return await coroutine
        finally:
            self.worker_tasks.discard(task)


def _is_running(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
