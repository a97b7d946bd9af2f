"""The requests of a server for input from the client: elicitation, sampling, roots, and requests of extensions.

A server uses only capabilities that the client declared, because the client decides who uses its model and files
[2025-11-25 basic/lifecycle#operation]. A method that needs any other raises `CapabilityError` instead of sending
a request. Sampling, roots and log messages are deprecated since 2026-07-28 [2026-07-28 changelog#major-changes].

    legacy era  the server sends a request on the stream of the client's request, and waits for the response
    2026-07-28  the handler ends; the client gets `inputRequests` and repeats its request with the responses (mrtr.py)

Spec:  client/elicitation, client/sampling, client/roots; 2026-07-28 basic/patterns/mrtr
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import os
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast, overload

from ..basic.channel import RequestContext
from ..basic.content import TextContent
from ..basic.lifecycle import declares
from ..basic.meta import RequestParams
from ..basic.mrtr import HandlerNeedsInput
from ..features.task_augmentation import add_task_field
from ..jsonrpc.errors import InvalidMessage, McpError
from ..jsonrpc.messages import Object
from ..revisions import NotInRevision

if TYPE_CHECKING:
    from ..features.elicitation import ElicitResult
    from ..features.roots import Root
    from ..features.sampling import CreateMessageResult, ModelPreferences, SamplingMessage, ToolChoice
    from ..features.tools import Tool

log = logging.getLogger(__name__)
T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
InputCoroutine: TypeAlias = Coroutine[object, object, T]

USER_TIMEOUT = 600.0
"""Default time for the user to fill a form or to approve a sampling request, in seconds."""


class InputRequests(RequestContext):
    """The base class of `Context` that requests input from the client."""

    __slots__ = ()

    def client_can(self, capability: str) -> bool:
        """Return True if the client declared a capability.

        Args:
            capability: A path such as `sampling` or `elicitation.url`.
        """
        return declares(self.channel.peer_capabilities, capability)

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
            schema: A flat JSON Schema object, or a dataclass of str, int, float, bool, Literal and Enum fields, or of
                fields such as `str | None = None`, which the user can leave empty. Also one of these types, such as
                `bool`, for a form with the single field `value`.
            timeout: Seconds to wait, 600 by default; None for no limit.
            key: A name for the user's response. In 2026-07-28, the function runs again from its first line, and finds
                the response by this name. Without a key, the response is valid only if the form has not changed,
                because a user who agreed to "Delete 2 files?" has not agreed to "Delete 8 files?".
            as_task: True to run the request as a task, if the client supports tasks (2025-11-25).

        Returns:
            The user's action: `accept` with the content of the form, `decline` or `cancel`. If `schema` is a class and
            the user accepted, `data` is an object of this class, such as True.

        Raises:
            CapabilityError: The client did not declare elicitation with forms.
            ValueError: A form cannot show the schema.
            InvalidMessage: The content from the user does not match the schema.
        """
        from ..features import elicitation, typed_json  # lazy: few handlers need input

        self._require("elicitation")
        declared = self.channel.peer_capabilities.get("elicitation")
        modes = elicitation.supported_modes(declared if isinstance(declared, dict) else {})
        if "form" not in modes:
            raise self._undeclared("elicitation.form")
        has_single_field = False  # True for a type such as `bool`, which becomes the only field of the form
        if isinstance(schema, Mapping):
            form_schema = cast(Object, schema)
        else:
            type_schema = typed_json.json_schema(schema)
            has_single_field = type_schema.get("type") != "object"
            if has_single_field:
                form_schema = {"type": "object", "properties": {"value": type_schema}, "required": ["value"]}
            else:
                form_schema = elicitation.form_of(type_schema)
        fault = elicitation.schema_fault(form_schema, self.revision)
        if fault is not None:
            raise ValueError(f"no form can show this schema: {fault}")
        mode = "form" if self.revision.elicitation_modes else None  # 2025-06-18 has only forms, so it names no mode
        form = elicitation.ElicitRequestFormParams(message, form_schema, mode)  # type: ignore[arg-type]
        params = elicitation.ElicitRequestParams(form)
        result = await self._request("elicitation/create", params, elicitation.ElicitResult, timeout, key, as_task)
        if result.action != "accept":
            return result
        content = cast(Object, result.content or {})
        errors = elicitation.content_errors(form_schema, content)
        if errors:
            text = f"the content of the form does not match the schema: {'; '.join(errors)}"
            raise InvalidMessage(text).show_to_peer()
        if isinstance(schema, Mapping):
            return result
        try:
            value = content["value"] if has_single_field else content
            return replace(result, data=typed_json.read_json(value, schema))
        except ValueError as error:
            raise InvalidMessage(f"the content of the form is not valid: {error}").show_to_peer() from None

    async def elicit_url(
        self, message: str, url: str, elicitation_id: str | None = None, *,
        timeout: float | None = USER_TIMEOUT, key: str | None = None, as_task: bool = False,
    ) -> ElicitResult:  # fmt: skip
        """Ask the user to visit a web page (2025-11-25 and later).

        Secrets such as passwords need a web page, because a form would show them to the client. When the visit is over,
        call `elicitation_complete`.

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
        from ..features import elicitation  # lazy: few handlers need input

        self._require("elicitation.url")
        fault = elicitation.url_fault(url)
        if fault is not None:
            raise ValueError(fault)
        page = elicitation.ElicitRequestURLParams(message, url, elicitation_id or os.urandom(16).hex())
        params = elicitation.ElicitRequestParams(page)
        return await self._request("elicitation/create", params, elicitation.ElicitResult, timeout, key, as_task)

    async def elicitation_complete(self, elicitation_id: str) -> None:
        """Tell the client that the user has finished the visit to a web page.

        Args:
            elicitation_id: The id that `elicit_url` was called with.
        """
        from ..features.elicitation import ElicitationCompleteNotificationParams  # lazy: few handlers need input

        params = ElicitationCompleteNotificationParams(elicitation_id)
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
        """Return a message from the client's language model. The client may change or refuse the request.

        Args:
            messages: The conversation. A str means one message with the role `user`.
            max_tokens: Maximum length of the model's message, in tokens.
            system_prompt: The system prompt, which the client may change.
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
        from ..features import sampling  # lazy: few handlers need input

        self._require("sampling")
        if tools is not None or tool_choice is not None:
            # [2025-11-25 client/sampling#capabilities] a server MUST NOT send tools to a client without sampling.tools
            self._require("sampling.tools")
        params = sampling.CreateMessageRequestParams(
            [sampling.SamplingMessage("user", TextContent(messages))] if isinstance(messages, str) else messages,
            max_tokens,
            system_prompt=system_prompt,
            model_preferences=model_preferences,
            temperature=temperature,
            stop_sequences=stop_sequences,
            tools=tools,
            tool_choice=tool_choice,
        )
        fault = sampling.tool_use_fault(params.messages)
        if fault is not None:
            raise ValueError(fault)
        result_type = sampling.CreateMessageResult
        return await self._request("sampling/createMessage", params, result_type, timeout, key, as_task)

    async def list_roots(self, *, timeout: float | None = 60.0, key: str | None = None) -> list[Root]:
        """Return the roots, which are the directories and files that this server may use.

        Args:
            timeout: Seconds to wait, 60 by default; None for no limit.
            key: See `elicit`.

        Raises:
            CapabilityError: The client did not declare `roots`.
            InvalidMessage: A root is invalid.
        """
        from ..features.roots import ListRootsResult, checked_root  # lazy: few handlers need input

        self._require("roots")
        result = await self._request("roots/list", RequestParams(), ListRootsResult, timeout, key, False)
        try:
            return [checked_root(root) for root in result.roots]
        except ValueError as error:
            fault = f"the client sent an invalid result of roots/list: {error}"
            raise InvalidMessage(fault).show_to_peer() from None

    async def request(self, method: str, params: object = None, *, returns: type[T], timeout: float | None = 60.0) -> T:
        """Send the client a request with a custom method, which the specification does not define.

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
        from ..features import custom_methods  # lazy: few handlers send custom requests

        custom_methods.extension_of(method, None)
        if self.revision.era == "modern":
            raise NotInRevision(f"{method} was not sent: in revision {self.revision}, servers send no requests")
        result_type = custom_methods.CustomData
        data = await self._request(method, custom_methods.data_of(params), result_type, timeout, None, False)
        try:
            return custom_methods.read_result(method, data, returns)
        except InvalidMessage as error:
            raise error.show_to_peer()  # noqa: B904 - the same exception

    async def _request(
        self, method: str, params: object, result_type: type[T], timeout: float | None, key: str | None, as_task: bool
    ) -> T:
        if as_task and self.revision.built_in_tasks and self.client_can(f"tasks.requests.{method.replace('/', '.')}"):
            add_task_field(params, timeout)
        try:
            return await self.channel.request_input(method, params, result_type, timeout, self.request_id, key)
        except McpError as error:
            raise error.show_to_peer()  # noqa: B904 - the same exception

    def _require(self, capability: str) -> None:
        if not self.client_can(capability):
            raise self._undeclared(capability)

    def _undeclared(self, capability: str) -> McpError:
        log.warning(
            "a handler needs %s, but this client cannot be asked, because it did not declare this capability; "
            "find out before with context.client_can(%r)", capability, capability)  # fmt: skip
        return self.channel.capability_error(capability)

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
        required: dict[str, Object] | None = None  # {} if the client only has to repeat its request
        for result in results:
            if isinstance(result, HandlerNeedsInput):
                required = {**(required or {}), **result.requests}
            elif isinstance(result, BaseException):
                raise result
        if required is not None:
            raise HandlerNeedsInput(required)
        return tuple(results)


def call_on_loop(
    wrap: Callable[[Coroutine[object, object, T]], Coroutine[object, object, T]],
    coroutine: Coroutine[object, object, T], loop: asyncio.AbstractEventLoop,
) -> T:  # fmt: skip
    """Run `wrap(coroutine)` on the event loop of another thread, and return its result.

    Raise CancelledError if the loop ends, or has ended.
    """
    wrapped = wrap(coroutine)
    try:
        future = asyncio.run_coroutine_threadsafe(wrapped, loop)
    except RuntimeError:  # the loop is closed
        wrapped.close()
        coroutine.close()
        raise concurrent.futures.CancelledError("the event loop has ended") from None
    while not (future.done() or loop.is_closed()):  # a loop that is ending may never run the coroutine
        concurrent.futures.wait([future], timeout=1.0)
    future.cancel()  # if the loop is closed, so that `result` raises; does nothing to a future that is done
    return future.result()


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the event loop of this thread, or None if no loop runs."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
