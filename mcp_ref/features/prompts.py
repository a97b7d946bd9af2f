"""Prompts: messages that a server has ready for a person to choose, filled in with arguments.

`prompts/list` says which there are and what they ask for; `prompts/get` gives one's messages. Arguments are always
strings.

Spec:  server/prompts (2024-10-07 to 2026-07-28); schema: Prompt, GetPromptRequest, GetPromptResult
Wire:  {"jsonrpc": "2.0", "id": 2, "method": "prompts/get", "params": {"name": "review", "arguments": {"code": "x"}}}
       S->C notifications/prompts/list_changed
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, TypedDict, get_args

from ..basic.content import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    Icon,
    ImageContent,
    ResourceLink,
    Role,
    TextContent,
)
from ..basic.meta import PaginatedRequestParams, check_meta_keys
from ..jsonrpc.errors import ProtocolError
from ..jsonrpc.messages import INVALID_PARAMS, Object
from ..lib.jsonschema import Validator, compile_schema
from ..lib.typed import Signature, signature_of
from ..revisions import R2024_11_05, R2025_06_18, R2025_11_25, Life, Revision
from .caching import CacheableResult
from .invoke import Scope, call, check_options
from .pagination import PAGE_SIZE
from .registry import Registry

if TYPE_CHECKING:
    from typing import Unpack

# ---------------------------------------------------------------------------------------------------- types


@dataclass
class PromptArgument:
    """One thing that a prompt asks for."""

    name: str
    description: str | None = None
    required: bool | None = None
    title: Annotated[str | None, Life(since=R2025_06_18)] = None


@dataclass
class Prompt:
    """What a client learns about a prompt."""

    name: str
    description: str | None = None
    arguments: list[PromptArgument] | None = None
    title: Annotated[str | None, Life(since=R2025_06_18)] = None
    icons: Annotated[list[Icon] | None, Life(since=R2025_11_25)] = None
    meta: Annotated[Object | None, Life(since=R2025_06_18)] = None


@dataclass
class PromptMessage:
    """One message: who speaks, and one content block."""

    role: Role
    content: ContentBlock

    def to_wire(self, wire: Object, revision: Revision) -> Object:
        """Only the roles that there are."""
        # [2025-11-25 server/prompts#security] MUST carefully validate all prompt inputs and outputs
        if self.role not in get_args(Role):
            raise ValueError(f"a prompt's message is of role user or assistant, not {self.role!r:.80}")
        return wire


@dataclass
class ListPromptsResult(CacheableResult):
    """One page of prompts."""

    prompts: list[Prompt]
    next_cursor: Annotated[str | None, Life(since=R2024_11_05)] = None
    meta: Object | None = None


@dataclass
class GetPromptRequestParams:
    """Which prompt to get, filled in with which arguments."""

    name: str
    arguments: dict[str, str] | None = None
    meta: Object | None = None


@dataclass
class GetPromptResult:
    """A prompt's messages."""

    messages: list[PromptMessage]
    description: str | None = None
    meta: Object | None = None


class PromptOptions(TypedDict, total=False):
    """What can be said about a prompt beyond its function."""

    title: str
    description: str
    icons: list[Icon]
    meta: Object


# ---------------------------------------------------------------------------------------------------- server


@dataclass
class RegisteredPrompt:
    """A prompt and the function that makes its messages."""

    prompt: Prompt
    function: Callable[..., object]
    signature: Signature
    check_arguments: Validator
    """The schema of the function's parameters, compiled: which strings are among the choices, or match a pattern."""


class Prompts:
    """A server's prompts: what is registered, `prompts/list` and `prompts/get`."""

    def __init__(
        self, context_type: type | None = None, page_size: int = PAGE_SIZE, changed: Callable[[], None] = lambda: None
    ) -> None:
        self._context_type = context_type
        self._registry: Registry[RegisteredPrompt] = Registry("prompt", page_size, changed)

    def add(
        self,
        function: Callable[..., object],
        name: str | None = None,
        **options: Unpack[PromptOptions],
    ) -> Prompt:
        """Register a function as a prompt; its parameters, which take strings, are the prompt's arguments.

        It returns a str (what the user says), a content block, a PromptMessage, a list of these, or a GetPromptResult.
        Raises TypeError for a parameter that takes no strings, ValueError for a name that is taken.
        """
        check_options(options, PromptOptions)
        check_meta_keys(options.get("meta"))
        signature = signature_of(function, context_type=self._context_type)
        for parameter in signature.parameters:
            types = parameter.schema.get("type", "string")
            if types != "string" and not (isinstance(types, list) and "string" in types):
                raise TypeError(f"{signature.name}({parameter.name}): arguments of prompts are strings; annotate it so")
        arguments = [PromptArgument(p.name, p.description or None, p.required) for p in signature.parameters]
        prompt = Prompt(name or signature.name, signature.description or None, arguments or None)
        prompt = replace(prompt, **options)
        check_arguments = compile_schema(signature.input_schema)
        self._registry.add(prompt.name, RegisteredPrompt(prompt, function, signature, check_arguments))
        return prompt

    def remove(self, name: str) -> None:
        """Remove a prompt; KeyError when there is none."""
        self._registry.remove(name)

    def has(self, name: str) -> bool:
        """Whether there is a prompt of that name."""
        return self._registry.get(name) is not None

    async def list(self, params: PaginatedRequestParams, scope: Scope) -> ListPromptsResult:
        """Serve `prompts/list`."""
        page, following = self._registry.page(params.cursor, scope.revision)
        return ListPromptsResult([registered.prompt for registered in page], following)

    async def get(self, params: GetPromptRequestParams, scope: Scope) -> GetPromptResult:
        """Serve `prompts/get`."""
        registered = self._registry.get(params.name)
        # [2025-11-25 server/prompts#error-handling] invalid prompt name, missing required arguments: -32602
        if registered is None:
            raise ProtocolError(INVALID_PARAMS, f"Unknown prompt: {params.name[:200]}")
        given = params.arguments or {}
        declared = registered.prompt.arguments or []
        missing = [argument.name for argument in declared if argument.required and argument.name not in given]
        if missing:
            raise ProtocolError(INVALID_PARAMS, f"Missing required arguments: {', '.join(missing)}")
        unknown = given.keys() - {argument.name for argument in declared}
        if unknown:
            raise ProtocolError(INVALID_PARAMS, f"Unknown arguments: {', '.join(sorted(unknown))[:200]}")
        try:
            arguments: Object = {**given}
            registered.check_arguments.validate(arguments)
            bound = registered.signature.bind(arguments)
        except ValueError as error:
            raise ProtocolError(INVALID_PARAMS, f"Invalid arguments: {error}") from None
        value = await call(registered.function, registered.signature, bound, scope)
        if isinstance(value, GetPromptResult):
            return value
        return GetPromptResult(_messages_of(value), registered.prompt.description)


def _messages_of(value: object) -> list[PromptMessage]:
    """Make messages of what a prompt's function returned."""
    if isinstance(value, PromptMessage):
        return [value]
    if isinstance(value, str):
        return [PromptMessage("user", TextContent(value))]
    if isinstance(value, (TextContent, ImageContent, AudioContent, ResourceLink, EmbeddedResource)):
        return [PromptMessage("user", value)]
    if isinstance(value, (list, tuple)):
        return [message for item in value for message in _messages_of(item)]
    raise TypeError(f"a prompt's function returns text or messages, not {type(value).__name__}")
