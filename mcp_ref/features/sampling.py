"""Sampling: a server asks the client's language model to continue a conversation.

The server needs no model and no API key, and the client keeps control. A human SHOULD be able to see, edit and deny
both the request and the model's message [2025-11-25 client/sampling#user-interaction-model]. Otherwise a malicious
server could spend the user's money, or inject instructions into the user's model. Clients SHOULD limit the rate.

Providers name their models differently, so a server states only preferences: hints, which are parts of model names, and
priorities from 0 to 1 for cost, speed and intelligence. The client chooses the model.

Tools in sampling (since 2025-11-25). The server offers tools for one request. The model replies with `tool_use`. The
*server* runs the tool, and sends the conversation again with a `tool_result`. Each use MUST have one result in the next
message, and that message MUST hold only results [2025-11-25 client/sampling#tool-result-messages]: some providers have
a separate role for results, and parallel uses need all results before the conversation goes on. Servers MUST NOT offer
tools to a client without the capability `sampling.tools`. Both sides SHOULD limit the number of rounds, because model
and tools could go on without end.

Sampling is deprecated since 2026-07-28 (SEP-2577), and may be removed in the first revision on or after 2027-07-28: it
is hard to implement, and few clients have it. Use a model provider's API instead [2026-07-28 changelog#deprecated].

    2024-10-07  Text and images. `stopReason` is one of three values.
    2024-11-05  `modelPreferences`; `stopReason` is optional, any text. A refusal by the user is the error -1.
    2025-03-26  Audio.
    2025-11-25  `tools`, `toolChoice`, stop reason `toolUse`; `content` may be a list. `includeContext` defaults to
                "none". Its ambiguous values "thisServer" and "allServers" are soft-deprecated; servers SHOULD NOT use
                them without the capability `sampling.context`.
    2026-07-28  `sampling/createMessage` is an input request inside an `input_required` result. After a refusal the
                client does not retry the server's request, and -1 is no longer sent. Clients MUST respect `maxTokens`.
                They MAY ignore `systemPrompt`, `temperature`, `stopSequences`, `metadata` and `includeContext`, which
                could share private data with the server. "thisServer" and "allServers" are now Deprecated. Servers
                SHOULD NOT keep the messages between requests.

Spec:  client/sampling (2024-11-05 to 2026-07-28); schema: CreateMessageRequest, SamplingMessage, CreateMessageResult
Wire:  {"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": {"messages": [{"role": "user",
        "content": {"type": "text", "text": "2 + 2?"}}], "maxTokens": 100}}
       {"jsonrpc": "2.0", "id": 1, "result": {"role": "assistant", "content": {"type": "text", "text": "4"},
        "model": "claude-3-sonnet", "stopReason": "endTurn"}}
Above: server/context.py (`Context.sample`), client/handlers.py
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
from ..revisions import PYTHON_ONLY, R2025_11_25, Availability, NotInRevision, Revision
from .task_augmentation import TaskField, without_task_field
from .tools import Tool

USER_REJECTED = -1
"""The error code of a request that the user refused. [2025-11-25 client/sampling#error-handling]"""


@dataclass
class ToolUseContent:
    """The model's request to call one of the offered tools. The next message must hold a `ToolResultContent` for it."""

    type: Literal["tool_use"] = field(default="tool_use", kw_only=True)
    availability: ClassVar[Availability] = Availability(since=R2025_11_25, if_unsupported="refuse")

    id: str
    """The identifier of this use, unique in the conversation."""
    name: str
    input: Object
    """The arguments of the tool."""
    meta: Object | None = None


@dataclass
class ToolResultContent:
    """The result of a tool call that the model requested."""

    type: Literal["tool_result"] = field(default="tool_result", kw_only=True)
    availability: ClassVar[Availability] = Availability(since=R2025_11_25, if_unsupported="refuse")

    tool_use_id: str
    """The `ToolUseContent.id` of the call."""
    content: list[ContentBlock]
    structured_content: JSON = None
    """The data, any JSON; an object before 2026-07-28."""
    is_error: bool = False
    meta: Object | None = None
    structured_null: Annotated[bool, PYTHON_ONLY] = field(default=False, kw_only=True)
    """True if the data are JSON's null."""

    def to_wire(self, wire: Object, revision: Revision) -> Object:
        return write_structured_content(wire, self.structured_null, revision)

    @staticmethod
    def from_wire(wire: Object, revision: Revision) -> Object:
        return read_structured_content(wire, revision)


SamplingBlock: TypeAlias = TextContent | ImageContent | AudioContent | ToolUseContent | ToolResultContent


@dataclass
class _MessageFields:
    role: Role
    """The speaker: "user" or "assistant"."""
    content: SamplingBlock | list[SamplingBlock]
    """One block or, since 2025-11-25, a list of blocks."""

    @property
    def blocks(self) -> list[SamplingBlock]:
        """The content, always as a list."""
        return self.content if isinstance(self.content, list) else [self.content]

    def to_wire(self, wire: Object, revision: Revision) -> Object:
        """Write a list of one block as the block itself: before 2025-11-25, `content` is always one block."""
        content = wire["content"]
        if type(content) is list and len(content) == 1:
            return {**wire, "content": content[0]}
        if type(content) is list and not revision.sampling_tools:
            raise NotInRevision(f"a message must have one content block in revision {revision}, not {len(content)}")
        return wire


@dataclass
class SamplingMessage(_MessageFields):
    """One message of a conversation with the model."""

    meta: Annotated[Object | None, Availability(since=R2025_11_25)] = None


@dataclass
class ModelHint:
    """A part of a model's name, such as "sonnet". The client may choose a similar model with another name."""

    name: str | None = None


@dataclass
class ModelPreferences:
    """The model that the server prefers, with the best hint first. Priorities are from 0 to 1 (most important)."""

    hints: list[ModelHint] | None = None
    cost_priority: float | None = None
    speed_priority: float | None = None
    intelligence_priority: float | None = None


@dataclass
class ToolChoice:
    """The model's use of tools: it may ("auto", the default), must ("required"), or must not ("none")."""

    mode: Literal["auto", "required", "none"] | None = None


@dataclass
class CreateMessageRequestParams:
    """The whole conversation so far, and the server's preferences."""

    messages: list[SamplingMessage]
    max_tokens: int
    """Maximum length of the model's message, in tokens."""
    system_prompt: str | None = None
    model_preferences: ModelPreferences | None = None
    include_context: Literal["none", "thisServer", "allServers"] | None = None
    """Context of MCP servers to add to the prompt. Values other than "none" are deprecated."""
    temperature: float | None = None
    """The randomness of the model's message; the range depends on the provider."""
    stop_sequences: list[str] | None = None
    """Texts at which the model's message ends."""
    metadata: Object | None = None
    """Parameters for the model's provider."""
    tools: Annotated[list[Tool] | None, Availability(since=R2025_11_25, if_unsupported="refuse")] = None
    tool_choice: Annotated[ToolChoice | None, Availability(since=R2025_11_25, if_unsupported="refuse")] = None
    meta: Object | None = None
    task: TaskField = None

    @staticmethod
    def from_wire(wire: Object, revision: Revision) -> Object:
        return without_task_field(wire, revision)


@dataclass
class CreateMessageResult(_MessageFields):
    """The message that the model wrote."""

    model: str
    stop_reason: str | None = None
    """The reason why the message ends: "endTurn", "stopSequence", "maxTokens", "toolUse", or a provider's own text."""
    meta: Object | None = None

    @property
    def text(self) -> str:
        """The text of all text blocks, joined with newlines."""
        return "\n".join(block.text for block in self.blocks if isinstance(block, TextContent))


SamplingHandler: TypeAlias = Callable[[CreateMessageRequestParams], Awaitable[CreateMessageResult]]
"""The client's function that calls the model. Raises `ProtocolError(USER_REJECTED, ...)` if the user refuses."""


def tool_use_fault(messages: list[SamplingMessage]) -> str | None:
    """Return the first breach of the rules for tool uses and results, or None. Both sides check a conversation."""
    open_uses: set[str] = set()
    for number, message in enumerate(messages):
        results = [block for block in message.blocks if isinstance(block, ToolResultContent)]
        if open_uses or results:
            # [2025-11-25 client/sampling#tool-result-messages] a message with results MUST hold only results
            if message.role != "user" or len(results) != len(message.blocks):
                return f"message {number}: tool results belong in a user message of their own, right after the tool use"
            # [2025-11-25 client/sampling#tool-use-and-result-balance] each use MUST be matched by one result
            if sorted(block.tool_use_id for block in results) != sorted(open_uses):
                return f"message {number}: the tool results do not match the tool uses of the message before"
        open_uses = {block.id for block in message.blocks if isinstance(block, ToolUseContent)}
        if open_uses and message.role != "assistant":
            return f"message {number}: only the assistant may use tools"
    return "the tool uses of the last message have no results" if open_uses else None


def check_request(params: CreateMessageRequestParams, capability: Object) -> None:
    """Raise ProtocolError -32602 if a server's request breaks the rules. `capability` is the client's, for sampling."""
    if (params.tools is not None or params.tool_choice is not None) and capability.get("tools") is None:
        # [2025-11-25 client/sampling#capabilities] servers MUST NOT send tool-enabled requests without sampling.tools
        fault: str | None = "tools were offered to the model, but the client did not declare sampling.tools"
    else:
        fault = tool_use_fault(params.messages)
    if fault is not None:
        raise ProtocolError(INVALID_PARAMS, f"Invalid params: {fault}")


def to_messages(prompt: str | list[SamplingMessage]) -> list[SamplingMessage]:
    """Return the messages of a conversation. A text becomes one message of the user."""
    return [SamplingMessage("user", TextContent(prompt))] if isinstance(prompt, str) else prompt
