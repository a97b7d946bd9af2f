"""Prompts: message templates that a server offers and a user picks, for example as a slash command.

A client lists the prompts (`prompts/list`). The user chooses a prompt and fills in its arguments. The client fetches
the finished messages (`prompts/get`) for the conversation with its model. Prompts are controlled by the user: the user
decides when a prompt is used, and the server writes its content [2026-07-28 server/prompts]. Arguments are strings,
because people type them. An unknown prompt or a missing argument is -32602 (SHOULD).

Both sides MUST validate the arguments and the messages [2025-11-25 server/prompts#security]. Arguments become part of
the conversation, so an attacker's argument can inject instructions, or name a resource that the user may not read.

    2024-11-05  Text, images and embedded resources; pages.
    2025-03-26  Audio.
    2025-06-18  `title`, `_meta`, resource links (in the schema; the page describes them since 2026-07-28).
    2025-11-25  `icons`.
    2026-07-28  `ttlMs` and `cacheScope` on the list. `prompts/get` may return `input_required`. The list MUST NOT vary
                per connection; it MAY vary by authorization. list_changed is sent only on `subscriptions/listen`.

Spec:  server/prompts (2024-11-05 to 2026-07-28); schema: Prompt, GetPromptRequest, GetPromptResult
Wire:  {"jsonrpc": "2.0", "id": 2, "method": "prompts/get", "params": {"name": "review", "arguments": {"code": "x"}}}
       {"jsonrpc": "2.0", "id": 2, "result": {"messages": [{"role": "user", "content": {"type": "text", "text": "x"}}]}}
       {"jsonrpc": "2.0", "method": "notifications/prompts/list_changed"}
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, TypedDict, Unpack, get_args

from ..basic.channel import RequestContext
from ..basic.content import ContentBlock, Icon, Role, TextContent
from ..basic.meta import PaginatedRequestParams, check_meta_keys
from ..jsonrpc.errors import ProtocolError
from ..jsonrpc.messages import INVALID_PARAMS, Object
from ..lib.jsonschema import Validator, compile_schema
from ..lib.typed import Signature, signature_of
from ..revisions import R2024_11_05, R2025_06_18, R2025_11_25, Availability, Revision
from .caching import CacheableResult
from .invoke import call, check_options
from .registry import Registry


@dataclass
class PromptArgument:
    """One argument of a prompt."""

    name: str
    description: str | None = None
    required: bool | None = None
    title: Annotated[str | None, Availability(since=R2025_06_18)] = None


@dataclass
class Prompt:
    """The description of a prompt, as a client sees it."""

    name: str
    description: str | None = None
    arguments: list[PromptArgument] | None = None
    title: Annotated[str | None, Availability(since=R2025_06_18)] = None
    icons: Annotated[list[Icon] | None, Availability(since=R2025_11_25)] = None
    meta: Annotated[Object | None, Availability(since=R2025_06_18)] = None


@dataclass
class PromptMessage:
    """One message of a conversation."""

    role: Role
    """The speaker: "user" or "assistant"."""
    content: ContentBlock

    def to_wire(self, wire: Object, revision: Revision) -> Object:
        # [2025-11-25 server/prompts#security] MUST carefully validate all prompt inputs and outputs
        if self.role not in get_args(Role):
            raise ValueError(f"the role of a prompt's message must be user or assistant, not {self.role!r:.80}")
        return wire


@dataclass
class ListPromptsResult(CacheableResult):
    """One page of prompts."""

    prompts: list[Prompt]
    next_cursor: Annotated[str | None, Availability(since=R2024_11_05)] = None
    meta: Object | None = None


@dataclass
class GetPromptRequestParams:
    """The name of the prompt to get, and its arguments."""

    name: str
    arguments: dict[str, str] | None = None
    meta: Object | None = None


@dataclass
class GetPromptResult:
    """The finished messages of a prompt."""

    messages: list[PromptMessage]
    description: str | None = None
    meta: Object | None = None


class PromptOptions(TypedDict, total=False):
    """Options of a prompt. `description` defaults to the function's docstring."""

    title: str
    description: str
    icons: list[Icon]
    meta: Object


@dataclass
class RegisteredPrompt:
    """A prompt, and the author's function that makes its messages."""

    prompt: Prompt
    function: Callable[..., object]
    signature: Signature
    check_arguments: Validator
    """Checks the arguments against the schema of the function's parameters, for example the choices."""


class Prompts:
    """The prompts of a server: those registered, and the handlers of `prompts/list` and `prompts/get`."""

    def __init__(self, context_type: type | None, page_size: int, on_change: Callable[[], None]) -> None:
        self._context_type = context_type
        self._registry: Registry[RegisteredPrompt] = Registry("prompt", page_size, on_change)

    def add(self, function: Callable[..., object], name: str | None = None, **options: Unpack[PromptOptions]) -> Prompt:
        """Register a function as a prompt. The function's parameters, which are strings, are the prompt's arguments.

        The function returns a str (a message of the user), a content block, a PromptMessage, a list of these, or a
        GetPromptResult. Raise TypeError for a parameter of another type than str, ValueError for a taken name.
        """
        check_options(options, PromptOptions)
        check_meta_keys(options.get("meta"))
        signature = signature_of(function, context_type=self._context_type)
        for parameter in signature.parameters:
            types = parameter.schema.get("type", "string")
            if types != "string" and not (isinstance(types, list) and "string" in types):
                raise TypeError(f"{signature.name}({parameter.name}): a prompt takes strings; annotate it as str")
        arguments = [PromptArgument(p.name, p.description or None, p.required) for p in signature.parameters]
        prompt = Prompt(name or signature.name, signature.description or None, arguments or None)
        prompt = replace(prompt, **options)
        check_arguments = compile_schema(signature.input_schema)
        self._registry.add(prompt.name, RegisteredPrompt(prompt, function, signature, check_arguments))
        return prompt

    def remove(self, name: str) -> None:
        """Remove a prompt. Raise KeyError if the name is unknown."""
        self._registry.remove(name)

    def has(self, name: str) -> bool:
        """Return True if a prompt has this name."""
        return self._registry.get(name) is not None

    async def list(self, params: PaginatedRequestParams, context: RequestContext) -> ListPromptsResult:
        """Serve `prompts/list`."""
        page, following = self._registry.page(params.cursor, context.revision)
        return ListPromptsResult([registered.prompt for registered in page], following)

    async def get(self, params: GetPromptRequestParams, context: RequestContext) -> GetPromptResult:
        """Serve `prompts/get`."""
        registered = self._registry.get(params.name)
        # [2025-11-25 server/prompts#error-handling] invalid names and missing arguments are -32602
        if registered is None:
            raise ProtocolError(INVALID_PARAMS, f"Unknown prompt: {params.name[:200]}")
        given = params.arguments or {}
        declared = registered.prompt.arguments or []
        if missing := [argument.name for argument in declared if argument.required and argument.name not in given]:
            raise ProtocolError(INVALID_PARAMS, f"Missing required arguments: {', '.join(missing)}")
        if unknown := given.keys() - {argument.name for argument in declared}:
            raise ProtocolError(INVALID_PARAMS, f"Unknown arguments: {', '.join(sorted(unknown))[:200]}")
        arguments: Object = {**given}
        try:
            registered.check_arguments.validate(arguments)
            bound = registered.signature.bind(arguments)
        except ValueError as error:
            raise ProtocolError(INVALID_PARAMS, f"Invalid arguments: {error}") from None
        value = await call(registered.function, registered.signature, bound, context)
        if isinstance(value, GetPromptResult):
            return value
        return GetPromptResult(_messages_of(value), registered.prompt.description)


def _messages_of(value: object) -> list[PromptMessage]:
    """Convert the value that a prompt's function returned to messages."""
    if isinstance(value, PromptMessage):
        return [value]
    if isinstance(value, str | ContentBlock):
        return [PromptMessage("user", TextContent(value) if isinstance(value, str) else value)]
    if isinstance(value, (list, tuple)):
        return [message for item in value for message in _messages_of(item)]
    raise TypeError(f"a prompt's function must return text or messages, not {type(value).__name__}")
