"""Tools: legal definitions, and results that fit them. The definitions are those of the latest `tools/list`.

Spec:  server/tools (2024-11-05 to 2026-07-28), basic/index#schema-validation (2025-11-25 on)
Used by: conversation.py
"""

from __future__ import annotations

import functools
import json
from collections import Counter
from typing import Final

from ..basic.headers import parameter_headers
from ..features.registered_tools import TOOL_NAME
from ..features.tools import CallToolResult
from ..jsonrpc.messages import JSON, METHOD_NOT_FOUND, Object
from ..lib.jsonschema import IllegalSchemaError, SchemaError, Validator, compile_schema
from ..revisions import R2025_06_18, R2025_11_25
from .masking import HIDDEN
from .rules import ADVICE, MUST, SHOULD, Fault, Verdict, modern_rule, rule
from .state import Message, Tool, objects, quoted

_PAGE: Final = "2026-07-28/server/tools"


@functools.lru_cache(maxsize=1024)
def _compile(text: str) -> Validator | str | None:
    """Return the validator of a schema, the fault of an illegal schema, or None for one that we cannot compile."""
    try:
        return compile_schema(json.loads(text))
    except IllegalSchemaError as error:
        return None if HIDDEN in text else str(error)  # "***" may hide a legal value
    except SchemaError:
        return None


def illegal_schema_fault(schema: JSON) -> str | None:
    """Return the fault of an illegal JSON Schema, or None for any other value."""
    outcome = _compile(json.dumps(schema)) if isinstance(schema, dict) else None
    return outcome if isinstance(outcome, str) else None


def validator_of(tool: Tool, member: str) -> Validator | None:
    """Return the validator of a tool's schema, or None if it is missing or cannot be compiled."""
    if member not in tool.validators:
        schema = tool.definition.get(member)
        outcome = _compile(json.dumps(schema)) if isinstance(schema, dict) else None
        tool.validators[member] = outcome if isinstance(outcome, Validator) else None
    return tool.validators[member]


def tool_of(message: Message) -> Tool | None:
    """Return the tool that a call, or the result of a call, is about."""
    if message.call is None:
        return None
    tool = message.dialogue.tools.get(str(message.call.params.get("name")))
    if tool is not None and message.call.event < tool.event:
        return None  # the call was sent before this definition was listed, so an earlier one may have applied
    return tool


def _definitions(message: Message) -> list[tuple[str, Object]]:
    return [(str(tool.get("name")), tool) for tool in objects(message.body.get("tools"))]


@rule(MUST, f"{_PAGE}#tool-1", "result", methods="tools/list")
def legal_schemas(message: Message) -> Verdict:
    """The schemas of a tool are legal JSON Schema."""
    for name, tool in _definitions(message):
        for member in ("inputSchema", "outputSchema"):
            fault = illegal_schema_fault(tool.get(member))
            if fault is not None:
                return Fault(f"the {member} of tool {quoted(name)} is not legal: {fault}", key=name)
    return None


@rule(MUST, "schema/Tool", "result", methods="tools/list")
def object_schema(message: Message) -> Verdict:
    """The inputSchema of a tool has "type": "object"."""
    for name, tool in _definitions(message):
        schema = tool.get("inputSchema")
        if not isinstance(schema, dict) or schema.get("type") != "object":
            return Fault(f"the inputSchema of tool {quoted(name)} does not have the type object", key=name)
    return None


@rule(SHOULD, f"{_PAGE}#tool-names-1", "result", methods="tools/list", since=R2025_11_25)
def tool_names(message: Message) -> Verdict:
    """A tool's name has 1 to 128 of the characters A-Z a-z 0-9 _ - and dot."""
    wrong = [name for name, _ in _definitions(message) if not TOOL_NAME.fullmatch(name)]
    return Fault(f"the name of tool {quoted(wrong[0])} is not portable", key=wrong[0]) if wrong else None


@rule(SHOULD, f"{_PAGE}#tool-names-5", "result", methods="tools/list", since=R2025_11_25)
def unique_tool_names(message: Message) -> Verdict:
    """The names of a server's tools are unique."""
    names = [name for name, _ in _definitions(message)]
    twice = [name for name, count in Counter(names).items() if count > 1]
    return Fault(f"two tools have the name {quoted(twice[0])}", key=twice[0]) if twice else None


@modern_rule(MUST, f"{_PAGE}#x-mcp-header-1", "result", methods="tools/list")
def parameter_header_names(message: Message) -> Verdict:
    """An x-mcp-header is on a parameter of a primitive type, and its name is unique in the tool."""
    for name, tool in _definitions(message):
        try:
            parameter_headers(tool.get("inputSchema"))
        except ValueError as error:
            return Fault(f"in tool {quoted(name)}: {error}", key=name)
    return None


@modern_rule(SHOULD, f"{_PAGE}#capabilities-4", "result", methods="tools/list", needs="call")
def stable_order(message: Message) -> Verdict:
    """If the tools are the same, tools/list returns them in the same order."""
    if not message.dialogue.tools_are_complete or "nextCursor" in message.body or "cursor" in message.request.params:
        return None  # only lists of one page are compared
    before, now = list(message.dialogue.tools), [name for name, _ in _definitions(message)]
    if before == now or sorted(before) != sorted(now):
        return None
    earlier_list = message.dialogue.tools[now[0]].event
    return Fault(f"{len(now)} tools come in another order than before", (earlier_list,))


@rule(MUST, f"{_PAGE}#output-schema-1", "result", methods="tools/call", needs="unmasked", since=R2025_06_18)
def structured_content_fits(message: Message) -> Verdict:
    """The structured content of a result fits the tool's outputSchema."""
    tool, value = tool_of(message), message.value
    if tool is None or not isinstance(value, CallToolResult) or value.is_error:
        return None
    if value.has_structured_content:
        fault = _instance_fault(tool, "outputSchema", value.structured_content)
    else:
        fault = "it has no structuredContent" if validator_of(tool, "outputSchema") is not None else ""
    if not fault:
        return None
    text = f"the result of tool {quoted(tool.name)} does not fit its outputSchema: {fault}"
    return Fault(text[:500], (tool.event,), key=tool.name)


def _instance_fault(tool: Tool, member: str, instance: JSON) -> str:
    """Return the errors of a value; "" if it fits a tool's schema, or cannot be validated within our limits."""
    validator = validator_of(tool, member)
    errors = validator.errors(instance) if validator is not None else []
    return "" if any(error.keyword == "limits" for error in errors) else "; ".join(map(str, errors))


@rule(SHOULD, f"{_PAGE}#structured-content-1", "result", methods="tools/call", since=R2025_06_18)
def structured_content_as_text(message: Message) -> Verdict:
    """Structured content comes also as a text block."""
    has_text = any(block.get("type") == "text" for block in objects(message.body.get("content")))
    is_missing = message.body.get("structuredContent") is not None and not has_text
    return "the result has structuredContent, but no text block with its JSON" if is_missing else None


@rule(ADVICE, f"{_PAGE}#security-considerations-1", "result", methods="tools/call", needs="call unmasked")
def arguments_fit(message: Message) -> Verdict:
    """A server refuses arguments that do not fit the inputSchema."""
    tool = tool_of(message)
    if tool is None or message.body.get("isError") or message.request.masked:
        return None
    fault = _instance_fault(tool, "inputSchema", message.request.params.get("arguments", {}))
    if not fault:
        return None
    text = f"tool {quoted(tool.name)} accepts arguments that do not fit its inputSchema: {fault}"
    return Fault(text[:500], (tool.event,), key=tool.name)


@rule(SHOULD, f"{_PAGE}#embedded-resources-1", "result", methods="tools/call", since=R2025_06_18)
def embedded_resources(message: Message) -> Verdict:
    """A server whose tools embed resources declares resources."""
    if not message.sender.lacks("resources"):
        return None
    embeds_one = any(block.get("type") == "resource" for block in objects(message.body.get("content")))
    return "a tool embeds a resource, but the server did not declare resources" if embeds_one else None


@rule(MUST, f"{_PAGE}#capabilities-2", "error", methods="tools/list prompts/list resources/list", needs="unshared")
def declared_list_is_served(message: Message) -> Verdict:
    """A server that declares a feature serves its list."""
    capability = message.capability
    is_declared = capability is not None and message.sender.declares(capability)
    if not is_declared or message.code != METHOD_NOT_FOUND:
        return None
    return f"the server declares {capability}, but {message.method} is unknown to it"


@modern_rule(MUST, f"{_PAGE}#x-mcp-header-9", "request", methods="tools/call")
def excluded_tool(message: Message) -> Verdict:
    """A client over HTTP leaves out tools with an invalid x-mcp-header."""
    tool = tool_of(message)
    if tool is None or message.exchange is None:  # not over HTTP
        return None
    try:
        parameter_headers(tool.definition.get("inputSchema"))
    except ValueError as error:
        return Fault(f"the client calls {quoted(tool.name)}, although {error}", (tool.event,))
    return None
