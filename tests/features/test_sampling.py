"""Sampling on the wire: a server asks the client's model, with tools where both declared them."""

from __future__ import annotations

import asyncio
import json
import re
from functools import partial
from typing import Any

import pytest

from mcp_ref import (
    Client,
    Context,
    CreateMessageRequestParams,
    CreateMessageResult,
    InvalidMessage,
    ProtocolError,
    SamplingMessage,
    Server,
    TextContent,
    Tool,
    ToolResultContent,
    ToolUseContent,
)
from mcp_ref.features.sampling import ModelHint, ModelPreferences, SamplingHandler, ToolChoice
from mcp_ref.jsonrpc.messages import JSON, Object
from tests.matrix import EVERY_REVISION, KINDS, LATEST_OF_BOTH_ERAS, LEGACY_REVISIONS
from tests.messages import Received, request
from tests.raw_peers import Wire, answer, answer_of, connected_client, handshake, raw_server, raw_session
from tests.settings import MODERN, PATIENCE

CLOCK = Tool("clock", {"type": "object", "properties": {}})
USE: Object = {"type": "tool_use", "id": "u1", "name": "clock", "input": {}}
RESULT: Object = {"type": "tool_result", "toolUseId": "u1", "content": [{"type": "text", "text": "noon"}]}
TEXT: Object = {"type": "text", "text": "What time is it?"}


async def echo(params: CreateMessageRequestParams) -> CreateMessageResult:
    """Return a message that repeats the last text of the request."""
    text = next(block for block in reversed(params.messages[-1].blocks) if isinstance(block, TextContent))
    return CreateMessageResult("assistant", TextContent(f"echo {text.text}"), "a-model", "endTurn")


# ------------------------------------------------------------------------------------------------ the client


async def answer_of_model(model: SamplingHandler, revision: str, params: Object, **options: Any) -> Received:
    """Return the answer of a client with this model. Raise `InvalidMessage` if it refuses the params."""
    make = partial(Client, sampling=model, revision=revision, **options)
    return await answer_of(make, revision, "sampling/createMessage", params)


@pytest.mark.spec(
    "2024-11-05..2025-11-25/client/sampling#capabilities-1", "2025-11-25/client/sampling#tools-in-sampling-1"
)
@LEGACY_REVISIONS
async def test_sampling_capability_is_declared_with_its_use_of_tools(revision: str) -> None:
    async with raw_server(lambda t: Client(t, sampling=echo, revision=revision)) as (client, wire):
        assert (await handshake(client, wire, revision))["capabilities"] == {"sampling": {}}
    async with raw_server(lambda t: Client(t, sampling=echo, sampling_tools=True, revision=revision)) as (c, wire):
        declared = (await handshake(c, wire, revision))["capabilities"]
        assert declared == {"sampling": {"tools": {}} if revision == "2025-11-25" else {}}


@pytest.mark.spec("2026-07-28/client/sampling#sampling-parameters-1")
@EVERY_REVISION
async def test_sampling_create_message_reaches_the_model_and_its_message_returns(revision: str) -> None:
    seen: list[CreateMessageRequestParams] = []

    async def model(params: CreateMessageRequestParams) -> CreateMessageResult:
        seen.append(params)
        return await echo(params)

    params: Object = {
        "messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}],
        "maxTokens": 7,
        "systemPrompt": "be brief",
        "modelPreferences": {"hints": [{"name": "small"}], "speedPriority": 0.5},
        "stopSequences": ["."],
        "temperature": 0.1,
    }
    assert await answer_of_model(model, revision, params) == {
        "role": "assistant",
        "content": {"type": "text", "text": "echo hi"},
        "model": "a-model",
        "stopReason": "endTurn",
    }
    (got,) = seen
    assert (got.max_tokens, got.system_prompt, got.temperature) == (7, "be brief", 0.1)
    assert got.model_preferences == ModelPreferences([ModelHint("small")], speed_priority=0.5)


async def test_sampling_create_message_refused_by_the_user_is_error_minus_1() -> None:
    async def refuse(params: CreateMessageRequestParams) -> CreateMessageResult:
        raise ProtocolError(-1, "User rejected sampling request")

    async with raw_session(lambda t: Client(t, sampling=refuse)) as (_, wire):
        asked = await wire.ask("sampling/createMessage", {"messages": [], "maxTokens": 1})
        assert asked["error"] == {"code": -1, "message": "User rejected sampling request"}


@pytest.mark.spec("2024-11-05..2025-11-25/client/sampling#security-considerations-5")
async def test_sampling_create_message_failure_of_the_model_is_not_disclosed(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(params: CreateMessageRequestParams) -> CreateMessageResult:
        raise RuntimeError("the key sk-123 was not accepted")

    async with raw_session(lambda t: Client(t, sampling=broken)) as (_, wire):
        asked = await wire.ask("sampling/createMessage", {"messages": [], "maxTokens": 1})
        assert asked["error"] == {"code": -32603, "message": "Internal error"}
    caplog.clear()


@pytest.mark.spec("2026-07-28/client/sampling#security-considerations-5")
async def test_sampling_failure_of_the_model_goes_to_the_caller_alone_in_2026_07_28() -> None:
    async def broken(params: CreateMessageRequestParams) -> CreateMessageResult:
        raise RuntimeError("the key sk-123 was not accepted")

    async with raw_session(lambda t: Client(t, sampling=broken), MODERN, {"tools": {}}) as (client, wire):
        calling = asyncio.create_task(client.call_tool("t"))
        question: Object = {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}}
        await answer(wire, "tools/call", {"resultType": "input_required", "inputRequests": {"q": question}})
        with pytest.raises(RuntimeError, match="sk-123"):
            await asyncio.wait_for(calling, PATIENCE)
        assert wire.frames.empty()


@pytest.mark.spec("2025-11-25..2026-07-28/client/sampling#tools-in-sampling-1")
@LATEST_OF_BOTH_ERAS
async def test_sampling_create_message_with_undeclared_tools_is_invalid_params(revision: str) -> None:
    tools: JSON = [{"name": "clock", "inputSchema": {"type": "object"}}]
    params: Object = {"messages": [{"role": "user", "content": TEXT}], "maxTokens": 1, "tools": tools}
    with pytest.raises(InvalidMessage, match=r"sampling\.tools"):
        await answer_of_model(echo, revision, params)


GOOD_CONVERSATION: list[JSON] = [
    {"role": "user", "content": TEXT},
    {"role": "assistant", "content": [USE]},
    {"role": "user", "content": [RESULT]},
]
BAD_CONVERSATIONS: dict[str, list[JSON]] = {
    "a use without its result": [*GOOD_CONVERSATION[:2]],
    "a use followed by text": [*GOOD_CONVERSATION[:2], {"role": "user", "content": TEXT}],
    "a result beside text": [*GOOD_CONVERSATION[:2], {"role": "user", "content": [RESULT, TEXT]}],
    "a result of another use": [*GOOD_CONVERSATION[:2], {"role": "user", "content": [{**RESULT, "toolUseId": "u2"}]}],
    "a result twice": [*GOOD_CONVERSATION[:2], {"role": "user", "content": [RESULT, RESULT]}],
    "a result by the assistant": [*GOOD_CONVERSATION[:2], {"role": "assistant", "content": [RESULT]}],
    "a result without a use": [{"role": "user", "content": [RESULT]}],
    "a use by the user": [{"role": "user", "content": [USE]}, {"role": "user", "content": [RESULT]}],
}


@pytest.mark.spec(
    "2025-11-25/client/sampling#tool-result-messages-1", "2025-11-25/client/sampling#tool-use-and-result-balance-1"
)
@pytest.mark.parametrize("name", BAD_CONVERSATIONS)
@LATEST_OF_BOTH_ERAS
async def test_sampling_create_message_with_unmatched_tool_uses_is_invalid_params(name: str, revision: str) -> None:
    params: Object = {"messages": BAD_CONVERSATIONS[name], "maxTokens": 1}
    with pytest.raises(InvalidMessage):
        await answer_of_model(echo, revision, params, sampling_tools=True)


@LATEST_OF_BOTH_ERAS
async def test_sampling_create_message_with_tools_may_return_a_tool_use(revision: str) -> None:
    async def model(params: CreateMessageRequestParams) -> CreateMessageResult:
        assert params.tools == [CLOCK]
        assert params.tool_choice == ToolChoice("required")
        assert isinstance(params.messages[2].blocks[0], ToolResultContent)
        return CreateMessageResult("assistant", [ToolUseContent("u2", "clock", {})], "a-model", "toolUse")

    params: Object = {
        "messages": GOOD_CONVERSATION,
        "maxTokens": 1,
        "tools": [{"name": "clock", "inputSchema": {"type": "object", "properties": {}}}],
        "toolChoice": {"mode": "required"},
    }
    answer = await answer_of_model(model, revision, params, sampling_tools=True)
    assert answer["stopReason"] == "toolUse" and "tool_use" in json.dumps(answer["content"])


# ------------------------------------------------------------------------------------------------ the server


def server_that_asks(**options: object) -> Server:
    server = Server("s")

    @server.tool()
    async def think(context: Context) -> str:
        answer = await context.sample(max_tokens=5, **{"messages": "hi", **options})  # type: ignore[arg-type]
        return answer.text or str(answer.stop_reason)

    return server


async def call_and_answer(wire: Wire, result: Object) -> tuple[Object, Object]:
    """Call `think`, answer what it asks the model; the params of that, and the tool's result."""
    await wire.send(request("tools/call", {"name": "think", "arguments": {}}))
    asked = await wire.receive_object()
    assert asked["method"] == "sampling/createMessage"
    await wire.send({"jsonrpc": "2.0", "id": asked["id"], "result": result})
    answer = await wire.receive_object()
    params = asked["params"]
    return params, answer


@KINDS
@LEGACY_REVISIONS
async def test_context_sample_returns_the_message_of_the_model(kind: str, revision: str) -> None:
    async with connected_client(server_that_asks(system_prompt="s"), kind, revision, {"sampling": {}}) as wire:
        result: Object = {"role": "assistant", "content": {"type": "text", "text": "42"}, "model": "m"}
        params, answer = await call_and_answer(wire, result)
        message: Object = {"role": "user", "content": {"type": "text", "text": "hi"}}
        assert params == {"messages": [message], "maxTokens": 5, "systemPrompt": "s"}
        assert "42" in str(answer["result"])


@pytest.mark.spec("2025-11-25/client/sampling#tools-in-sampling-2", "2025-11-25/client/sampling#tool-choice-modes-1,2")
@LEGACY_REVISIONS
@pytest.mark.parametrize("mode", ["required", "none"])
async def test_context_sample_with_tools_needs_the_sampling_tools_capability(revision: str, mode: str) -> None:
    server = server_that_asks(tools=[CLOCK], tool_choice=ToolChoice(mode))  # type: ignore[arg-type]
    async with connected_client(server, "memory", revision, {"sampling": {}}) as wire:
        assert "sampling.tools" in str(await wire.ask("tools/call", {"name": "think", "arguments": {}}))
        await wire.nothing_more()
    if revision != "2025-11-25":
        return
    async with connected_client(server, "memory", revision, {"sampling": {"tools": {}}}) as wire:
        result: Object = {"role": "assistant", "content": [USE], "model": "m", "stopReason": "toolUse"}
        params, answer = await call_and_answer(wire, result)
        # toolChoice reaches the client unchanged: the client has to enforce it.
        assert params["toolChoice"] == {"mode": mode}
        assert "toolUse" in str(answer["result"])


@pytest.mark.spec(
    "2025-11-25..2026-07-28/client/sampling#security-considerations-6",
    "2026-07-28/client/sampling#tool-result-messages-1",
    "2026-07-28/client/sampling#tool-use-and-result-balance-1",
)
@LATEST_OF_BOTH_ERAS
@pytest.mark.parametrize(
    "reply",
    [
        [TextContent("noon")],
        [ToolResultContent("u1", [TextContent("noon")]), TextContent("and more")],
        [ToolResultContent("u2", [TextContent("noon")])],
        [],
    ],
    ids=["text", "text beside it", "another id", "nothing"],
)
async def test_context_sample_tool_use_must_be_followed_by_its_results(reply: list[object], revision: str) -> None:
    messages = [
        SamplingMessage("user", TextContent("What time is it?")),
        SamplingMessage("assistant", [ToolUseContent("u1", "clock", {})]),
        *([SamplingMessage("user", reply)] if reply else []),  # type: ignore[arg-type]
    ]
    server = Server("s")

    @server.tool()
    async def think(context: Context) -> str:
        with pytest.raises(ValueError, match="tool"):
            await context.sample(messages, max_tokens=1, tools=[CLOCK])
        return "refused"

    async with connected_client(server, "memory", revision, {"sampling": {"tools": {}}}) as wire:
        assert "refused" in str(await wire.ask("tools/call", {"name": "think", "arguments": {}}))
        await wire.nothing_more()


def saying(result: Any) -> SamplingHandler:
    """Return a model whose messages are always this."""

    async def model(params: CreateMessageRequestParams) -> Any:
        return result

    return model


BARE = CreateMessageResult("assistant", "noon", "m")  # type: ignore[arg-type]


@LATEST_OF_BOTH_ERAS
@pytest.mark.parametrize(
    ("model", "fault"),
    [
        (lambda params: None, "the sampling handler must be an `async def` function, not a plain `def` function"),
        (saying("noon"), "the sampling handler must return CreateMessageResult(...), not str"),
        (saying(BARE), "the sampling handler returned an invalid result: CreateMessageResult.content must be "),
    ],
)
async def test_sampling_handler_that_is_invalid_is_the_same_error_in_both_eras(
    model: SamplingHandler, fault: str, revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with Client(server_that_asks(), sampling=model, revision=revision) as client:
        if revision == "2025-11-25":
            assert fault in (await client.call_tool("think")).text
        else:
            with pytest.raises(InvalidMessage, match=re.escape(fault)):
                await client.call_tool("think")
    assert [record.getMessage()[: len(fault)] for record in caplog.records] == [fault]
