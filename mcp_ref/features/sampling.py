"""Sampling: a server asks the client's language model to continue a conversation.

So the server needs neither a model nor an API key of its own. Because a malicious server could spend the user's money,
or inject instructions into the user's model, a human SHOULD be able to see, edit and deny the request and the model's
message [2025-11-25 client/sampling#user-interaction-model], and clients SHOULD limit the rate of requests.

The client chooses the model, because the server does not know which models the client's provider has. The server sends
only preferences: parts of model names (hints), and priorities from 0 to 1 for cost, speed and intelligence.

Since 2025-11-25, a server can add tools to a request. If the model wants to call one of them, its message has a
`tool_use` block. It is then the *server* that runs the tool, and sends the conversation again with a `tool_result`
block at the end. The message after a tool use MUST contain one result for each tool use, and no other blocks
[2025-11-25 client/sampling#tool-result-messages], because the APIs of some providers require this. Servers MUST NOT
add tools if the client did not declare the capability `sampling.tools`. Because a model could go on calling tools
forever, both sides SHOULD limit the number of rounds.

Sampling is deprecated since 2026-07-28 (SEP-2577), because it is hard to implement and few clients support it. The
first revision on or after 2027-07-28 can remove it, so use a model provider's API instead
[2026-07-28 changelog#deprecated].

    2024-10-07  Messages have text and images. `stopReason` is one of three values.
    2024-11-05  Adds `modelPreferences`, and error -1: the user refused. `stopReason` can be absent or any string.
    2025-03-26  Messages have audio.
    2025-11-25  Adds `tools`, `toolChoice` and the stop reason "toolUse". `content` can be a list. The default of
                `includeContext` is "none". Servers SHOULD avoid "thisServer" and "allServers", because their meaning is
                unclear, and SHOULD NOT use them without the capability `sampling.context`.
    2026-07-28  `sampling/createMessage` is an input request inside an `input_required` result, after which the client
                retries its own request, with the model's message. The error -1 was removed, because a client whose
                user refuses just does not retry. Clients MUST respect `maxTokens`, but MAY ignore `systemPrompt`,
                `temperature`, `stopSequences`, `metadata` and `includeContext`. "thisServer" and "allServers" are
                deprecated. Servers SHOULD NOT store messages between requests.

Spec:  client/sampling (2024-11-05 to 2026-07-28); schema: CreateMessageRequest, SamplingMessage, CreateMessageResult
Wire:  {"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": {"messages": [{"role": "user",
        "content": {"type": "text", "text": "2 + 2?"}}], "maxTokens": 100}}
       {"jsonrpc": "2.0", "id": 1, "result": {"role": "assistant", "content": {"type": "text", "text": "4"},
        "model": "claude-3-sonnet", "stopReason": "endTurn"}}
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
from .task_augmentation import TaskField
from .tools import Tool

USER_REJECTED = -1
"""Error code: the user refused the request. [2025-11-25 client/sampling#error-handling]"""


@dataclass
class ToolUseContent:
    """The model's request to call a tool. The next message must contain the `ToolResultContent` of this call."""

    type: Literal["tool_use"] = field(default="tool_use", kw_only=True)
    availability: ClassVar[Availability] = Availability(since=R2025_11_25, if_unsupported="refuse")

    id: str
    """The identifier of this tool call, unique in the conversation."""
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
    """The `id` of the `ToolUseContent`."""
    content: list[ContentBlock]
    structured_content: JSON = None
    """Any JSON, or None if the result has no structured content. Before 2026-07-28 only an object is sent."""
    is_error: bool = False
    meta: Object | None = None
    structured_null: Annotated[bool, PYTHON_ONLY] = field(default=False, kw_only=True)
    """True if the structured content is JSON's null. `structured_content` is then None."""

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
        """The content as a list, even if it is one block."""
        return self.content if isinstance(self.content, list) else [self.content]

    def to_wire(self, wire: Object, revision: Revision) -> Object:
        """Replace a list of one block with the block. Before 2025-11-25, raise NotInRevision for any other list."""
        content = wire["content"]
        if type(content) is list and len(content) == 1:
            return {**wire, "content": content[0]}
        if type(content) is list and not revision.sampling_tools:
            raise NotInRevision(f"in revision {revision}, a message must have one content block, not {len(content)}")
        return wire


@dataclass
class SamplingMessage(_MessageFields):
    """One message of the conversation with the model."""

    meta: Annotated[Object | None, Availability(since=R2025_11_25)] = None


@dataclass
class ModelHint:
    """A part of a model's name, such as "sonnet". The client can choose a similar model with another name."""

    name: str | None = None


@dataclass
class ModelPreferences:
    """The server's preferences for a model. A priority is a number from 0 (not important) to 1 (most important)."""

    hints: list[ModelHint] | None = None
    """Parts of model names, the preferred name first."""
    cost_priority: float | None = None
    speed_priority: float | None = None
    intelligence_priority: float | None = None


@dataclass
class ToolChoice:
    """A rule for the model: "auto" (default) allows tool calls, "required" demands a call, "none" forbids calls."""

    mode: Literal["auto", "required", "none"] | None = None


@dataclass
class CreateMessageRequestParams:
    """The conversation that the model should continue, and the server's preferences."""

    messages: list[SamplingMessage]
    max_tokens: int
    """Maximum length of the model's message, in tokens."""
    system_prompt: str | None = None
    model_preferences: ModelPreferences | None = None
    include_context: Literal["none", "thisServer", "allServers"] | None = None
    """The MCP servers whose context the client adds to the prompt. "thisServer" and "allServers" are deprecated."""
    temperature: float | None = None
    """The randomness of the model's message. Its range depends on the model's provider."""
    stop_sequences: list[str] | None = None
    """Strings at which the model stops writing."""
    metadata: Object | None = None
    """Parameters for the model's provider."""
    tools: Annotated[list[Tool] | None, Availability(since=R2025_11_25, if_unsupported="refuse")] = None
    tool_choice: Annotated[ToolChoice | None, Availability(since=R2025_11_25, if_unsupported="refuse")] = None
    meta: Object | None = None
    task: TaskField = None


@dataclass
class CreateMessageResult(_MessageFields):
    """The message that the model wrote."""

    model: str
    stop_reason: str | None = None
    """The reason why the message ends: "endTurn", "stopSequence", "maxTokens", "toolUse", or a provider's string."""
    meta: Object | None = None

    @property
    def text(self) -> str:
        """The text of all text blocks, joined with newlines."""
        return "\n".join(block.text for block in self.blocks if isinstance(block, TextContent))


SamplingHandler: TypeAlias = Callable[[CreateMessageRequestParams], Awaitable[CreateMessageResult]]
"""The client's function that calls the model. It raises `ProtocolError(USER_REJECTED, ...)` if the user refuses."""


def tool_use_fault(messages: list[SamplingMessage]) -> str | None:
    """Return the first tool use or tool result that is out of place, or None if the conversation is valid."""
    open_uses: set[str] = set()  # ids of the tool uses without a result
    for index, message in enumerate(messages):
        results = [block for block in message.blocks if isinstance(block, ToolResultContent)]
        if open_uses or results:
            # [2025-11-25 client/sampling#tool-result-messages] a user message with results MUST contain only results
            if message.role != "user" or len(results) != len(message.blocks):
                return f"messages[{index}]: tool results must be in a separate user message, after the tool use"
            # [2025-11-25 client/sampling#tool-use-and-result-balance] each tool use MUST have one result
            if sorted(block.tool_use_id for block in results) != sorted(open_uses):
                return f"messages[{index}]: the tool results do not match the tool uses in the previous message"
        open_uses = {block.id for block in message.blocks if isinstance(block, ToolUseContent)}
        if open_uses and message.role != "assistant":
            return f"messages[{index}]: a tool use must be in a message with the role assistant"
    return "the tool uses of the last message have no results" if open_uses else None


def check_request(params: CreateMessageRequestParams, capability: Object) -> None:
    """Raise ProtocolError -32602 for an invalid request. `capability` is the client's capability `sampling`."""
    if (params.tools is not None or params.tool_choice is not None) and capability.get("tools") is None:
        # [2025-11-25 client/sampling#capabilities] servers MUST NOT send tool-enabled requests without sampling.tools
        fault: str | None = "the request has tools or toolChoice, but the client did not declare sampling.tools"
    else:
        fault = tool_use_fault(params.messages)
    if fault is not None:
        raise ProtocolError(INVALID_PARAMS, f"Invalid params: {fault}")
