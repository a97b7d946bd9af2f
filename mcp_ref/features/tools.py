"""Tools: functions of a server that a language model can call, to look something up or to change something.

The client shows its model the list of tools (`tools/list`), and calls the tool that the model chooses, with the model's
arguments (`tools/call`). A human SHOULD be able to deny every call [2025-11-25 server/tools#user-interaction-model].

Errors are of two kinds [2025-11-25 server/tools#error-handling]. For an invalid *request* (unknown tool, malformed
params) the server returns the JSON-RPC error -32602; clients MAY show it to the model, which can rarely correct it. If
a tool *fails*, it returns a result with `isError`, which clients SHOULD show to the model so that it can try again.

Trust. Clients MUST NOT trust the annotations of an untrusted server [2025-03-26 server/tools#tool]. Otherwise a
malicious server could mark a destructive tool as read-only, and the client would call it without asking the user.
Clients SHOULD show the arguments to the user before the call, because injected text can make the model send private
data, and SHOULD validate results before the model reads them. Servers MUST validate arguments, control access, limit
the rate of calls and sanitize results [2025-11-25 server/tools#security-considerations]. Structured content MUST match
the output schema, so that programs can rely on it; servers SHOULD also send it as text, for clients before 2025-06-18.

    2024-10-07  A result has one field: `toolResult`, any JSON. Invalid arguments MUST be -32602. The list has no pages.
    2024-11-05  Adds `content` blocks (text, image, embedded resource), `isError`, pages. Servers SHOULD send
                list_changed. The response to invalid arguments is left open; this package sends -32602.
    2025-03-26  Adds `annotations` and audio blocks.
    2025-06-18  Adds `title`, `outputSchema`, `structuredContent` (an object), resource links, `_meta`.
    2025-11-25  Adds `icons` and `execution.taskSupport`. Limits the characters and the length of tool names (SHOULD).
                Invalid arguments give `isError` results (SEP-1303). A schema without `$schema` is JSON Schema 2020-12.
    2026-07-28  `outputSchema` can be any schema, and `structuredContent` any JSON (SEP-2106), while `inputSchema` still
                must have "type": "object". Adds `x-mcp-header`, `ttlMs` and `cacheScope`. The list SHOULD have a stable
                order, so that caches stay valid; it MUST NOT depend on the connection, but MAY depend on the
                authorization. The server sends list_changed only on `subscriptions/listen`. `input_required` results
                replace requests to the client. Removes `execution`, because tasks are now an extension. Removes
                sessions, so a tool with state returns an identifier, which the model passes to the next call.

Spec:  server/tools (2024-10-07 to 2026-07-28); schema: Tool, CallToolRequest, CallToolResult
Used by: registered_tools.py (the server's side), client/tools.py
Wire:  {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "add", "arguments": {"a": 1, "b": 2}}}
       {"jsonrpc": "2.0", "id": 2, "result": {"content": [{"type": "text", "text": "3"}]}}
       {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field
from typing import Annotated

from ..basic.content import ContentBlock, Icon, TextContent, read_structured_content, write_structured_content
from ..basic.meta import Cursor
from ..jsonrpc.errors import InvalidMessage
from ..jsonrpc.messages import JSON, Object
from ..lib.jsonschema import SchemaError, Validator, compile_schema
from ..revisions import PYTHON_ONLY, R2025_03_26, R2025_06_18, R2025_11_25, R2026_07_28, Availability, Revision
from .caching import CacheableResult
from .task_augmentation import TaskField

log = logging.getLogger(__name__)


@dataclass
class ToolAnnotations:
    """Hints about a tool's behavior, for the client's user interface. Those of an untrusted server can be lies."""

    title: str | None = None
    """The name to show to people if `Tool.title` is missing."""
    read_only_hint: bool | None = None
    """True if the tool does not change its environment. None means False."""
    destructive_hint: bool | None = None
    """True if the tool can delete or overwrite data. None means True. Ignored if the tool is read-only."""
    idempotent_hint: bool | None = None
    """True if an equal second call has no further effect. None means False. Ignored if the tool is read-only."""
    open_world_hint: bool | None = None
    """True if the tool reaches things outside its own system, such as the web. None means True."""


@dataclass
class Tool:
    """The description of a tool, as the client and its model see it."""

    name: str
    """The tool's name, unique on its server. A client of several servers SHOULD distinguish equal names by prefixes."""
    input_schema: Object
    """The JSON Schema of the arguments, which must have "type": "object"."""
    description: str | None = None
    """The text that tells the model what the tool does and when to use it."""
    title: Annotated[str | None, Availability(since=R2025_06_18)] = None
    output_schema: Annotated[Object | None, Availability(since=R2025_06_18)] = None
    """The JSON Schema of `structured_content`. Before 2026-07-28 it is sent only if it has "type": "object"."""
    annotations: Annotated[ToolAnnotations | None, Availability(since=R2025_03_26)] = None
    icons: Annotated[list[Icon] | None, Availability(since=R2025_11_25)] = None
    execution: Annotated[Object | None, Availability(since=R2025_11_25, until=R2026_07_28)] = None
    """`{"taskSupport": ...}`, see `TaskSupport`. None means "forbidden"."""
    meta: Annotated[Object | None, Availability(since=R2025_06_18)] = None

    @property
    def display_name(self) -> str:
        """The name to show to people: `title`, else `annotations.title`, else `name`."""
        return self.title or (self.annotations.title if self.annotations else None) or self.name

    def to_wire(self, wire: Object, revision: Revision) -> Object:
        is_object_schema = self.output_schema is not None and self.output_schema.get("type") == "object"
        if not is_object_schema and not revision.structured_content_is_any_json:
            wire.pop("outputSchema", None)
        return wire


@dataclass
class ListToolsResult(CacheableResult):
    """One page of a server's list of tools."""

    tools: list[Tool]
    next_cursor: Cursor = None
    meta: Object | None = None


@dataclass
class CallToolRequestParams:
    """The params of `tools/call`."""

    name: str
    arguments: Object | None = None
    meta: Object | None = None
    task: TaskField = None


@dataclass
class CallToolResult:
    """The result of a call: content blocks for the model, and structured content if the tool has an output schema."""

    content: list[ContentBlock]
    structured_content: Annotated[JSON, Availability(since=R2025_06_18)] = None
    """Any JSON, or None if the result has no structured content. Before 2026-07-28 only an object is sent."""
    is_error: bool = False
    """True if the tool failed. The content then tells the model the reason."""
    meta: Object | None = None
    structured_null: Annotated[bool, PYTHON_ONLY] = field(default=False, kw_only=True)
    """True if the structured content is JSON's null. `structured_content` is then None."""

    @property
    def has_structured_content(self) -> bool:
        """True if the result has structured content, even if that is JSON's null."""
        return self.structured_null or self.structured_content is not None

    @property
    def text(self) -> str:
        """The text of all text blocks, joined with newlines."""
        return "\n".join(block.text for block in self.content if isinstance(block, TextContent))

    def to_wire(self, wire: Object, revision: Revision) -> Object:
        """Write the structured content as the revision allows. In 2024-10-07, a result has only a `toolResult`."""
        if not revision.tool_result_is_any_json:
            return write_structured_content(wire, self.structured_null, revision)
        structured = self.structured_content
        if self.is_error:
            return {"toolResult": {"error": self.text, **(structured if isinstance(structured, dict) else {})}}
        if self.has_structured_content:
            return {"toolResult": structured}
        is_one_text = len(self.content) == 1 and isinstance(self.content[0], TextContent)
        return {"toolResult": self.text if is_one_text else wire["content"]}

    @staticmethod
    def from_wire(wire: Object, revision: Revision) -> Object:
        """Convert the `toolResult` of 2024-10-07 to content blocks. An object also becomes the structured content."""
        if "toolResult" not in wire or "content" in wire:  # a result of a later revision
            needs_reading = "structuredContent" in wire or "structuredNull" in wire
            return read_structured_content(wire, revision) if needs_reading else wire
        tool_result = wire["toolResult"]
        blocks = tool_result if isinstance(tool_result, list) else []
        if blocks and all(isinstance(b, dict) and b.get("type") in ("text", "image", "resource") for b in blocks):
            return {**wire, "content": blocks}
        text = tool_result if type(tool_result) is str else json.dumps(tool_result, ensure_ascii=False)
        structured: Object = {"structuredContent": tool_result} if type(tool_result) is dict else {}
        has_failed = isinstance(tool_result, dict) and isinstance(tool_result.get("error"), str)  # see `to_wire`
        return {**wire, "content": [{"type": "text", "text": text}], "isError": has_failed, **structured}


class ToolError(Exception):
    """A failure of a tool, with a text for the model. The server returns it as a result with `isError`."""


def find_fault(validator: Validator | None, result: CallToolResult) -> str | None:
    """Return the errors that the output schema finds in a result, or None if it is valid or has no output schema."""
    if validator is None:
        return None
    if not result.has_structured_content:
        return "it has no structuredContent"
    return "; ".join(map(str, validator.errors(result.structured_content))) or None


class ResultChecker:
    """The client's check of results against the output schemas that the server has listed."""

    def __init__(self) -> None:
        self._schemas: dict[str, Object] = {}
        self._validators: dict[str, Validator | None] = {}

    def replace_schemas(self, tools: list[Tool]) -> None:
        """Use the output schemas of these tools, and no others."""
        self._schemas = {tool.name: tool.output_schema for tool in tools if tool.output_schema is not None}
        self._validators.clear()

    def check(self, name: str, result: CallToolResult) -> None:
        """Raise InvalidMessage if a successful result does not match the output schema of its tool."""
        schema = self._schemas.get(name)
        if schema is None or result.is_error:
            return
        if name not in self._validators:
            try:
                self._validators[name] = compile_schema(schema)
            except SchemaError as error:
                log.warning("the client cannot check results of tool %s: its output schema is invalid: %s", name, error)
                self._validators[name] = None
        # [2025-11-25 server/tools#output-schema] clients SHOULD validate structured results against this schema
        fault = find_fault(self._validators[name], result)
        if fault is not None:
            raise InvalidMessage(f"the result of tool {name!r} does not match its output schema: {fault}")
