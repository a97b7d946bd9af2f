"""Sampling: the conversations that a server asks the client's model to continue.

Spec:  client/sampling (2024-11-05 to 2026-07-28)
Used by: conversation.py
"""

from __future__ import annotations

import functools
from typing import Final

from ..codec import ShapeError
from ..features.sampling import CreateMessageRequestParams, tool_use_fault
from ..jsonrpc.messages import Object
from ..revisions import R2025_11_25
from .mrtr import input_requests_of
from .rules import MUST, SHOULD, Verdict, rule
from .shapes import decode
from .state import Message, an_object, objects, quoted

_PAGE: Final = "2026-07-28/client/sampling"

input_rule = functools.partial(
    rule, on="request result", by="server", since=R2025_11_25,
    methods="sampling/createMessage elicitation/create tools/call prompts/get resources/read",
)  # fmt: skip
"""Register a rule about requests for input. Results of the last three methods contain them in the modern era."""


def requested_params(message: Message, method: str) -> list[Object]:
    """Return the params of each request for input with this method: the message itself, or those in its result."""
    if message.kind == "request":
        return [message.body] if message.method == method else []
    requests = [request for _, request in input_requests_of(message)]
    return [an_object(request.get("params")) for request in requests if request.get("method") == method]


@input_rule(MUST, f"{_PAGE}#tools-in-sampling-2")
def tools_are_declared(message: Message) -> Verdict:
    """Tools in sampling need the capability sampling.tools."""
    for params in requested_params(message, "sampling/createMessage"):
        if ("tools" in params or "toolChoice" in params) and message.client_lacks("sampling.tools"):
            return "a sampling request has tools, but the client did not declare sampling.tools"
    return None


@input_rule(SHOULD, f"{_PAGE}#capabilities-3")
def context_is_declared(message: Message) -> Verdict:
    """includeContext needs the capability sampling.context."""
    for params in requested_params(message, "sampling/createMessage"):
        value = params.get("includeContext", "none")
        if value in ("thisServer", "allServers") and message.client_lacks("sampling.context"):
            return f"includeContext is {quoted(value)}, but the client did not declare sampling.context"
    return None


@input_rule(MUST, f"{_PAGE}#tool-use-and-result-balance-1")
def tool_uses_have_results(message: Message) -> Verdict:
    """Each tool use is followed by its result, and by nothing else."""
    for params in requested_params(message, "sampling/createMessage"):
        try:
            fault = tool_use_fault(decode(message, CreateMessageRequestParams, params).messages)
        except ShapeError:
            return None  # params_fit or input_requests, which judge the shape, report it
        if fault is not None:
            return fault
    return None


@rule(MUST, f"{_PAGE}#tool-choice-modes-2", "result", methods="sampling/createMessage", needs="call", since=R2025_11_25)
def tool_choice(message: Message) -> Verdict:
    """The model uses no tools if toolChoice is "none", and at least one if it is "required"."""
    params, used = message.request.params, _uses_tool(message.body)
    mode = an_object(params.get("toolChoice")).get("mode")
    if mode == "none" and used:
        return 'the model uses a tool, although toolChoice is "none"'
    is_first = not any(_uses_tool(each) for each in objects(params.get("messages")))
    if mode == "required" and is_first and not used and message.body.get("stopReason") == "endTurn":
        return 'the model uses no tool, although toolChoice is "required"'
    return None


def _uses_tool(message: Object) -> bool:
    content = message.get("content")
    blocks = objects([content] if isinstance(content, dict) else content)
    return any(block.get("type") == "tool_use" for block in blocks)
