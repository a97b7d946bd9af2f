"""Sampling: a server asks the client's language model for a completion; the client's user stays in control.

Spec:  client/sampling (2024-10-07 to 2025-11-25); schema: CreateMessageRequest, SamplingMessage, CreateMessageResult
Wire:  {"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": {"messages": [{"role": "user",
        "content": {"type": "text", "text": "What is the capital of France?"}}], "maxTokens": 100}}
Elsewhere: what a tool calls is `Context.sample`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal, TypeAlias

from ..basic.content import (
    AudioContent,
    ContentBlock,
    ImageContent,
    Role,
    TextContent,
    read_structured_content,
    write_structured_content,
)
from ..jsonrpc.errors import ProtocolError
from ..jsonrpc.messages import INVALID_PARAMS, JSON, Object
from ..revisions import NOT_ON_THE_WIRE, R2025_11_25, Life, NotInRevision, Revision
from .task_augmentation import TaskHint, without_task
from .tools import Tool

USER_REJECTED = -1
"""[2025-11-25 client/sampling#error-handling] the error code for "User rejected sampling request\""""

# ---------------------------------------------------------------------------------------------------- types


@dataclass
class ToolUseContent:
    """The model wants to call a tool that the request offered. Every use is answered by a `ToolResultContent`."""

    type: Literal["tool_use"] = field(default="tool_use", kw_only=True)
    life: ClassVar[Life] = Life(since=R2025_11_25, loss="refuse")

    id: str
    name: str
    input: Object
    meta: Object | None = None


@dataclass
class ToolResultContent:
    """What a tool gave, back to the model that asked for it. structured_null: see `CallToolResult`."""

    type: Literal["tool_result"] = field(default="tool_result", kw_only=True)
    life: ClassVar[Life] = Life(since=R2025_11_25, loss="refuse")

    tool_use_id: str
    content: list[ContentBlock]
    structured_content: JSON = None
    is_error: bool = False
    meta: Object | None = None
    structured_null: Annotated[bool, NOT_ON_THE_WIRE] = field(default=False, kw_only=True)

    def to_wire(self, wire: Object, revision: Revision) -> Object:
        """See `write_structured_content`."""
        return write_structured_content(wire, self.structured_null, revision)

    @staticmethod
    def from_wire(wire: Object, revision: Revision) -> Object:
        """See `read_structured_content`."""
        return read_structured_content(wire, revision)


SamplingBlock: TypeAlias = TextContent | ImageContent | AudioContent | ToolUseContent | ToolResultContent


def _unwrapped(wire: Object, revision: Revision, what: str) -> Object:
    """`content` is one block or, from 2025-11-25 on, a list; older peers get the one block of a list of one."""
    content = wire["content"]
    if type(content) is list and len(content) == 1:
        return {**wire, "content": content[0]}
    if type(content) is list and not revision.sampling_tools:
        raise NotInRevision(f"{what} holds exactly one content block in revision {revision}, not {len(content)}")
    return wire


@dataclass
class SamplingMessage:
    """One message of the conversation."""

    role: Role
    content: SamplingBlock | list[SamplingBlock]
    meta: Annotated[Object | None, Life(since=R2025_11_25)] = None

    @property
    def blocks(self) -> list[SamplingBlock]:
        """The content as a list."""
        return self.content if isinstance(self.content, list) else [self.content]

    def to_wire(self, wire: Object, revision: Revision) -> Object:
        """See `_unwrapped`."""
        return _unwrapped(wire, revision, "a message")


@dataclass
class ModelHint:
    """A part of a model's or family's name, such as "sonnet"; the client may map it to another provider's."""

    name: str | None = None


@dataclass
class ModelPreferences:
    """Which model the server would like: hints in order of preference, and priorities from 0 to 1."""

    hints: list[ModelHint] | None = None
    cost_priority: float | None = None
    speed_priority: float | None = None
    intelligence_priority: float | None = None


@dataclass
class ToolChoice:
    """Whether the model may, must or must not use the tools."""

    mode: Literal["auto", "required", "none"] | None = None


@dataclass
class CreateMessageRequestParams:
    """What to ask the model. `max_tokens` bounds the answer; `include_context` other than none is deprecated."""

    messages: list[SamplingMessage]
    max_tokens: int
    system_prompt: str | None = None
    model_preferences: ModelPreferences | None = None
    include_context: Literal["none", "thisServer", "allServers"] | None = None
    temperature: float | None = None
    stop_sequences: list[str] | None = None
    metadata: Object | None = None
    tools: Annotated[list[Tool] | None, Life(since=R2025_11_25, loss="refuse")] = None
    tool_choice: Annotated[ToolChoice | None, Life(since=R2025_11_25, loss="refuse")] = None
    meta: Object | None = None
    task: TaskHint = None

    @staticmethod
    def from_wire(wire: Object, revision: Revision) -> Object:
        """See `without_task`."""
        return without_task(wire, revision)


@dataclass
class CreateMessageResult:
    """What the model said. `stop_reason` is endTurn, stopSequence, maxTokens, toolUse, or the model's own."""

    role: Role
    content: SamplingBlock | list[SamplingBlock]
    model: str
    stop_reason: str | None = None
    meta: Object | None = None

    @property
    def blocks(self) -> list[SamplingBlock]:
        """The content as a list."""
        return self.content if isinstance(self.content, list) else [self.content]

    @property
    def text(self) -> str:
        """The text blocks, one below the other."""
        return "\n".join(block.text for block in self.blocks if isinstance(block, TextContent))

    def to_wire(self, wire: Object, revision: Revision) -> Object:
        """See `_unwrapped`."""
        return _unwrapped(wire, revision, "a result")


SamplingHandler: TypeAlias = Callable[[CreateMessageRequestParams], Awaitable[CreateMessageResult]]
"""The client's model. Raises `ProtocolError(USER_REJECTED, ...)` when the user says no."""

# ---------------------------------------------------------------------------------------------------- both sides


def tool_use_fault(messages: list[SamplingMessage]) -> str | None:
    """What breaks the rules of tool use in a conversation, or None. Servers check before sending, clients on
    receipt."""
    open_uses: set[str] = set()
    for number, message in enumerate(messages):
        results = [block for block in message.blocks if isinstance(block, ToolResultContent)]
        if open_uses or results:
            # [2025-11-25 client/sampling#tool-result-messages] a user message that holds nothing but tool results
            if message.role != "user" or len(results) != len(message.blocks):
                return f"message {number}: tool results stand alone in a user message right after the tool use"
            # [2025-11-25 client/sampling#tool-use-and-result-balance] each use is answered by exactly one result
            if sorted(block.tool_use_id for block in results) != sorted(open_uses):
                return f"message {number}: the tool results do not answer the tool uses before, one by one"
        open_uses = {block.id for block in message.blocks if isinstance(block, ToolUseContent)}
        if open_uses and message.role != "assistant":
            return f"message {number}: only the assistant uses tools"
    return "the last message's tool uses are not answered" if open_uses else None


def request_fault(params: CreateMessageRequestParams, capability: Object) -> str | None:
    """What a server asks for beyond the client's `sampling` capability, or what it got wrong; None for nothing."""
    if (params.tools is not None or params.tool_choice is not None) and capability.get("tools") is None:
        # [2025-11-25 client/sampling#capabilities] servers MUST NOT send tool-enabled requests without sampling.tools
        return "tools were offered to the model, but the client did not declare sampling.tools"
    return tool_use_fault(params.messages)


def check_request(params: CreateMessageRequestParams, capability: Object) -> None:
    """The client's part: refuse, with -32602, a request that breaks the rules."""
    fault = request_fault(params, capability)
    if fault is not None:
        raise ProtocolError(INVALID_PARAMS, f"Invalid params: {fault}")


def to_messages(prompt: str | list[SamplingMessage]) -> list[SamplingMessage]:
    """A conversation; a text alone is what the user says."""
    return [SamplingMessage("user", TextContent(prompt))] if isinstance(prompt, str) else prompt
