"""Prompts: message templates of a server, which the user picks, for example as a slash command.

The client lists the prompts (`prompts/list`), and the user chooses one and types its arguments, which are therefore
strings. The client then gets the finished messages (`prompts/get`) and adds them to the conversation with its model. So
the server writes the messages, but only the user decides to use them [2026-07-28 server/prompts].

Both sides MUST validate the arguments and the messages [2025-11-25 server/prompts#security]. As arguments become part
of the conversation, an attacker's argument can inject instructions, or name a resource that is forbidden to the user.

    2024-11-05  Messages have text, images and embedded resources. The list has pages.
    2025-03-26  Messages have audio.
    2025-06-18  Messages have resource links (until 2025-11-25 only in the schema). Adds `title` and `_meta`.
    2025-11-25  Prompts have `icons`.
    2026-07-28  `prompts/get` can return `input_required`. The list has `ttlMs` and `cacheScope`. It MUST NOT depend on
                the connection, but MAY depend on the authorization. list_changed comes only on `subscriptions/listen`.

Spec:  server/prompts (2024-11-05 to 2026-07-28); schema: Prompt, GetPromptRequest, GetPromptResult
Wire:  {"jsonrpc": "2.0", "id": 2, "method": "prompts/get", "params": {"name": "review", "arguments": {"code": "x"}}}
       {"jsonrpc": "2.0", "id": 2, "result": {"messages": [{"role": "user", "content": {"type": "text", "text": "x"}}]}}
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Annotated, TypedDict, Unpack, get_args

from ..basic.channel import RequestContext
from ..basic.content import ContentBlock, Icon, Role, TextContent
from ..basic.meta import Cursor, PaginatedRequestParams, check_meta_keys
from ..jsonrpc.errors import ProtocolError
from ..jsonrpc.messages import INVALID_PARAMS, Object
from ..lib.fields import check_options, check_unicode
from ..lib.jsonschema import Validator, compile_schema
from ..lib.typed import Signature
from ..revisions import R2025_06_18, R2025_11_25, Availability, Revision
from .caching import CacheableResult
from .invoke import call, check_description, handler_signature
from .registry import Registry


@dataclass
class PromptArgument:
    name: str
    description: str | None = None
    required: bool | None = None
    title: Annotated[str | None, Availability(since=R2025_06_18)] = None


@dataclass
class Prompt:
    name: str
    description: str | None = None
    arguments: list[PromptArgument] | None = None
    title: Annotated[str | None, Availability(since=R2025_06_18)] = None
    icons: Annotated[list[Icon] | None, Availability(since=R2025_11_25)] = None
    meta: Annotated[Object | None, Availability(since=R2025_06_18)] = None


@dataclass
class PromptMessage:
    """One message for the conversation with the model."""

    role: Role
    content: ContentBlock

    def to_wire(self, wire: Object, revision: Revision) -> Object:
        # [2025-11-25 server/prompts#security] both sides MUST validate all prompt inputs and outputs
        if self.role not in get_args(Role):
            raise ValueError(f'the role of a prompt message must be "user" or "assistant", not {self.role!r:.80}')
        return wire


@dataclass
class ListPromptsResult(CacheableResult):
    """One page of a server's list of prompts."""

    prompts: list[Prompt]
    next_cursor: Cursor = None
    meta: Object | None = None


@dataclass
class GetPromptRequestParams:
    name: str
    arguments: dict[str, str] | None = None
    meta: Object | None = None


@dataclass
class GetPromptResult:
    """The finished messages of a prompt, with the arguments filled in."""

    messages: list[PromptMessage]
    description: str | None = None
    meta: Object | None = None


class PromptOptions(TypedDict, total=False):
    """Options of a prompt. By default, `description` is the function's docstring."""

    title: str | None
    description: str | None
    icons: list[Icon] | None
    meta: Object | None
    scopes: Collection[str]
    """The scopes that a caller over HTTP needs. The HTTP server then needs `authorization=`. Default: no scopes."""


@dataclass
class RegisteredPrompt:
    prompt: Prompt
    function: Callable[..., object]
    signature: Signature
    arguments_validator: Validator


class Prompts:
    """The registered prompts of a server, with the handlers of `prompts/list` and `prompts/get`."""

    def __init__(self, context_type: type | None, page_size: int, on_change: Callable[[], None]) -> None:
        self._context_type = context_type
        self._registry: Registry[RegisteredPrompt] = Registry("prompt", page_size, on_change)
        self.scopes = self._registry.scopes

    def __len__(self) -> int:
        return len(self._registry)

    def add(self, function: Callable[..., object], name: str | None = None, **options: Unpack[PromptOptions]) -> Prompt:
        """Register a function as a prompt. The function's parameters become the prompt's arguments.

        The function returns a str or a content block (either becomes a message of the user), a PromptMessage, a list of
        these, or a GetPromptResult. Raise TypeError if a parameter does not accept a str.
        """
        check_options(options, PromptOptions)
        check_meta_keys(options.get("meta"))
        scopes = options.pop("scopes", ())
        signature = handler_signature(function, self._context_type)
        arguments: list[PromptArgument] = []
        for parameter in signature.parameters:
            types = parameter.schema.get("type", "string")
            if types != "string" and not (isinstance(types, list) and "string" in types):
                raise TypeError(f"{signature.name}({parameter.name}): annotate the parameter of a prompt as str")
            arguments.append(PromptArgument(parameter.name, parameter.description or None, parameter.required))
        prompt = Prompt(name or signature.name, signature.description or None, arguments or None)
        prompt = replace(prompt, **options)  # type: ignore[misc]  # mypy counts the popped options
        check_unicode(f"the prompt name {prompt.name!r:.80}", prompt.name)
        check_description(prompt, options)
        arguments_validator = compile_schema(signature.input_schema)
        self._registry.add(prompt.name, RegisteredPrompt(prompt, function, signature, arguments_validator), scopes)
        return prompt

    def remove(self, name: str) -> None:
        self._registry.remove(name)

    def arguments_of(self, name: str) -> list[str] | None:
        """Return the names of a prompt's arguments; None for an unknown prompt."""
        registered = self._registry.get(name)
        return None if registered is None else [parameter.name for parameter in registered.signature.parameters]

    async def list(self, params: PaginatedRequestParams, context: RequestContext) -> ListPromptsResult:
        page, next_cursor = self._registry.page(params.cursor, context)
        return ListPromptsResult([registered.prompt for registered in page], next_cursor)

    async def get(self, params: GetPromptRequestParams, context: RequestContext) -> GetPromptResult:
        registered = self._registry.get(params.name)
        # [2025-11-25 server/prompts#error-handling] an invalid name or a missing argument SHOULD be -32602
        if registered is None:
            raise ProtocolError(INVALID_PARAMS, f"Unknown prompt: {params.name[:200]}")
        arguments: Object = {**(params.arguments or {})}
        try:
            registered.arguments_validator.validate(arguments)
            bound = registered.signature.bind(arguments)
        except ValueError as error:
            raise ProtocolError(INVALID_PARAMS, f"Invalid arguments: {error}") from None
        value = await call(registered.function, registered.signature, bound, context)
        if isinstance(value, GetPromptResult):
            return value
        return GetPromptResult(_messages_of(params.name, value), registered.prompt.description)


def _messages_of(name: str, value: object) -> list[PromptMessage]:
    if isinstance(value, PromptMessage):
        return [value]
    if isinstance(value, str):
        return [PromptMessage("user", TextContent(value))]
    if isinstance(value, ContentBlock):
        return [PromptMessage("user", value)]
    if isinstance(value, (list, tuple)):
        return [message for item in value for message in _messages_of(name, item)]
    raise TypeError(f"the prompt {name} must return str, messages or content, not {type(value).__name__}")
