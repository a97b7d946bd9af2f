"""Tools: functions of a server that a language model can call, to look something up or to change something.

The client lists the tools (`tools/list`) and shows the list to its model. The model chooses a tool and its arguments.
The client then calls the tool (`tools/call`). A human SHOULD be able to deny every call
[2025-11-25 server/tools#user-interaction-model].

Two kinds of error [2025-11-25 server/tools#error-handling]. An invalid *request* (unknown tool, malformed params)
returns the JSON-RPC error -32602. Clients MAY show this error to the model, but the model can rarely correct it. A tool
that *fails* returns a result with `isError`. Clients SHOULD show this result to the model, so that the model can try
again. Since 2025-11-25, servers return such a result for invalid arguments too (SEP-1303).

Trust. Clients MUST NOT trust the annotations of an untrusted server [2025-03-26 server/tools#tool]. Otherwise a
malicious server could mark a destructive tool as read-only, and the client would not ask the user before a call.
Clients SHOULD show the arguments to the user before the call, because injected text can make the model send private
data. Clients SHOULD validate results before the model reads the results. Servers MUST validate arguments,
control access, limit the rate of calls and sanitize results [2025-11-25 server/tools#security-considerations].
Structured content MUST match the output schema, so that programs can use it. Servers SHOULD also send structured
content as text, for clients of revisions before 2025-06-18. A parameter that `x-mcp-header` copies to an HTTP header
SHOULD NOT be secret, because proxies can read headers [2026-07-28 server/tools#x-mcp-header].

    2024-10-07  A result has one field: `toolResult`, any JSON. Invalid arguments MUST be -32602. The list has no pages.
    2024-11-05  Adds `content` blocks (text, image, embedded resource), `isError`, pages. Servers SHOULD send
                list_changed. Before 2025-11-25, invalid arguments can be either error; this package uses -32602.
    2025-03-26  Adds `annotations` and audio blocks.
    2025-06-18  Adds `title`, `outputSchema`, `structuredContent` (an object), resource links, `_meta`.
    2025-11-25  Adds `icons` and `execution.taskSupport`. Limits the characters and the length of tool names (SHOULD).
                Invalid arguments are `isError` results. A schema without `$schema` is JSON Schema 2020-12.
    2026-07-28  `outputSchema` can be any schema, and `structuredContent` any JSON (SEP-2106). `inputSchema` still must
                have "type": "object". Adds `x-mcp-header`, `ttlMs` and `cacheScope`. The list SHOULD have a stable
                order, so that caches stay valid. The list MUST NOT depend on the connection, but MAY depend on the
                authorization. The server sends list_changed only on `subscriptions/listen`. `input_required` results
                replace requests to the client. Removes `execution`, because tasks became an extension. Removes
                sessions, so a tool with state returns an identifier. The next call has this identifier as an argument.

Spec:  server/tools (2024-10-07 to 2026-07-28); schema: Tool, CallToolRequest, CallToolResult
Wire:  {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "add", "arguments": {"a": 1, "b": 2}}}
       {"jsonrpc": "2.0", "id": 2, "result": {"content": [{"type": "text", "text": "3"}]}}
       {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Annotated, TypedDict, Unpack, cast, get_args

from ..basic.access import AccessRefused
from ..basic.channel import RequestContext
from ..basic.content import ContentBlock, Icon, TextContent, read_structured_content, write_structured_content
from ..basic.headers import parameter_headers
from ..basic.meta import PaginatedRequestParams, check_meta_keys
from ..basic.mrtr import HandlerNeedsInput
from ..jsonrpc.errors import ConnectionClosed, InvalidMessage, McpError, ProtocolError, RemoteError
from ..jsonrpc.messages import INVALID_PARAMS, JSON, Object, json_writer
from ..lib.jsonschema import SchemaError, Validator, compile_schema
from ..lib.typed import Signature, to_json
from ..revisions import (
    PYTHON_ONLY,
    R2024_11_05,
    R2025_03_26,
    R2025_06_18,
    R2025_11_25,
    R2026_07_28,
    Availability,
    Revision,
)
from .caching import CacheableResult
from .invoke import call, check_options, handler_signature
from .registry import Registry
from .task_augmentation import TaskField, TaskMetadata, TaskSupport, without_task_field

log = logging.getLogger(__name__)


@dataclass
class ToolAnnotations:
    """Hints about a tool's behavior, for the client's user interface. Do not trust the hints of an untrusted server."""

    title: str | None = None
    """The name to show to people if `Tool.title` is missing."""
    read_only_hint: bool | None = None
    """True if the tool does not change its environment. None means False."""
    destructive_hint: bool | None = None
    """True if the tool can delete or overwrite data. None means True. Ignored if the tool is read-only."""
    idempotent_hint: bool | None = None
    """True if a second, equal call changes nothing more. None means False. Ignored if the tool is read-only."""
    open_world_hint: bool | None = None
    """True if the tool reaches things outside its own system, such as the web. None means True."""


@dataclass
class Tool:
    """The description of a tool, as the client and its model see it."""

    name: str
    """The tool's name, unique on its server. A client of several servers SHOULD distinguish equal names by prefixes."""
    input_schema: Object
    """The JSON Schema of the arguments. It must have "type": "object"."""
    description: str | None = None
    """The text that tells the model the purpose and use of the tool."""
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
        """Leave out an output schema that this revision does not allow."""
        is_allowed = revision.structured_content_is_any_json or _is_object_schema(self.output_schema)
        if is_allowed or "outputSchema" not in wire:
            return wire
        return {name: member for name, member in wire.items() if name != "outputSchema"}


@dataclass
class ListToolsResult(CacheableResult):
    """One page of a server's list of tools."""

    tools: list[Tool]
    next_cursor: Annotated[str | None, Availability(since=R2024_11_05)] = None
    meta: Object | None = None


@dataclass
class CallToolRequestParams:
    """The name and the arguments of a tool call."""

    name: str
    arguments: Object | None = None
    meta: Object | None = None
    task: TaskField = None

    @staticmethod
    def from_wire(wire: Object, revision: Revision) -> Object:
        return without_task_field(wire, revision) if "task" in wire else wire


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
        """True if the result has structured content, which can be JSON's null."""
        return self.structured_null or self.structured_content is not None

    @property
    def text(self) -> str:
        """The text of all text blocks, joined with newlines."""
        return "\n".join(block.text for block in self.content if isinstance(block, TextContent))

    def to_wire(self, wire: Object, revision: Revision) -> Object:
        """Write the structured content as the revision allows. 2024-10-07 has only the field `toolResult`."""
        if not revision.tool_result_is_any_json:
            return write_structured_content(wire, self.structured_null, revision)
        return {"toolResult": {"error": self.text} if self.is_error else self._tool_result(wire)}

    def _tool_result(self, wire: Object) -> JSON:
        if self.has_structured_content:
            return self.structured_content
        is_one_text = len(self.content) == 1 and isinstance(self.content[0], TextContent)
        return self.text if is_one_text else wire["content"]

    @staticmethod
    def from_wire(wire: Object, revision: Revision) -> Object:
        """Convert a `toolResult` of 2024-10-07 to content blocks. An object also becomes the structured content."""
        if "toolResult" not in wire or "content" in wire:
            has_data = "structuredContent" in wire or "structuredNull" in wire
            return read_structured_content(wire, revision) if has_data else wire
        tool_result = wire["toolResult"]
        blocks = tool_result if isinstance(tool_result, list) else []
        if blocks and all(isinstance(b, dict) and b.get("type") in _BLOCK_TYPES_2024_10_07 for b in blocks):
            return {**wire, "content": blocks}
        text = tool_result if type(tool_result) is str else json.dumps(tool_result, ensure_ascii=False)
        structured: Object = {"structuredContent": tool_result} if type(tool_result) is dict else {}
        return {**wire, "content": [{"type": "text", "text": text}], **structured}


_BLOCK_TYPES_2024_10_07 = ("text", "image", "resource")


class ToolOptions(TypedDict, total=False):
    """Options of a tool. `description` and the schemas come from the function's docstring and signature by default.

    The server checks arguments and results with the schemas. Clients get the schemas unchanged, except that a client
    before 2026-07-28 gets only output schemas of objects.
    """

    title: str
    description: str
    input_schema: Mapping[str, object]
    output_schema: Mapping[str, object]
    annotations: ToolAnnotations
    icons: list[Icon]
    meta: Object
    task: TaskSupport
    """The tool's support for tasks. Default: "forbidden"."""
    scopes: Collection[str]
    """The scopes that a caller over HTTP needs. The HTTP server then needs `authorization=`. Default: no scopes."""
    asks_first: bool
    """True if the function itself begins the task with `context.begin_task()`, for example after an elicitation.
    Default: False. The task then begins before the function starts."""


class ToolError(Exception):
    """A failure of a tool, with a text that the model can read. The server returns it as a result with `isError`."""


# ---------------------------------------------------------------------------------------------------- server


@dataclass(eq=False)
class RegisteredTool:
    """A tool, its function, and the way in which a client can call it."""

    tool: Tool
    function: Callable[..., object]
    signature: Signature
    headers: dict[str, tuple[str, ...]]
    """Name of each HTTP header, without `Mcp-Param-` -> path of the argument that the client copies to the header."""
    task: TaskSupport = "forbidden"
    asks_first: bool = False

    @cached_property
    def check_arguments(self) -> Validator:
        """The validator of the arguments, compiled when it is first used."""
        return compile_schema(self.tool.input_schema)

    @cached_property
    def check_result(self) -> Validator | None:
        """The validator of the structured content, compiled when it is first used; None without an output schema."""
        return compile_schema(self.tool.output_schema) if self.tool.output_schema is not None else None

    def wraps_result(self, revision: Revision) -> bool:
        """Return True if the server sends the structured content as `{"result": ...}`.

        Before 2026-07-28, structured content must be an object, so the server wraps other values. But with an output
        schema that the author wrote, the server sends other values only as text: in a wrapper, a `$ref` to the
        schema's root would fail.
        """
        return self._has_plain_data and revision.structured_results and not revision.structured_content_is_any_json

    @cached_property
    def _has_plain_data(self) -> bool:
        """True if the output schema is generated, and does not describe an object."""
        schema = self.tool.output_schema
        return schema is self.signature.output_schema is not None and not _is_object_schema(schema)

    def tool_for(self, revision: Revision) -> Tool:
        """Return the description of the tool for a client of this revision."""
        if not self.wraps_result(revision):
            return self.tool
        wrapper: Object = {"type": "object", "properties": {"result": self.tool.output_schema}, "required": ["result"]}
        return replace(self.tool, output_schema=wrapper)


ToolRun = Callable[[RequestContext], Coroutine[object, object, CallToolResult]]
"""A function that runs one tool call. Its argument is the context of the request or of the task."""

TaskStarter = Callable[[ToolRun, RegisteredTool, TaskMetadata | None, RequestContext], Awaitable[object]]
"""The function that decides if a tool call becomes a task. It returns a `CreateTaskResult` or a `CallToolResult`."""


class Tools:
    """The registered tools of a server. Serves `tools/list` and `tools/call`."""

    def __init__(
        self, context_type: type | None, page_size: int, on_change: Callable[[], None], start: TaskStarter
    ) -> None:
        self.can_be_tasks = False
        """True if the calls of at least one tool, even a removed tool, can be tasks."""
        self._context_type = context_type
        self._start_task = start
        self._registry: Registry[RegisteredTool] = Registry("tool", page_size, on_change)
        self.scopes = self._registry.scopes
        """Name of each tool that needs scopes -> the scopes that a caller needs."""

    def add(self, function: Callable[..., object], name: str | None = None, **options: Unpack[ToolOptions]) -> Tool:
        """Register a function as a tool. Log a warning if clients could refuse the name.

        Raise TypeError for an annotation without a JSON Schema. Raise ValueError for a taken name or an invalid option.
        """
        check_options(options, ToolOptions)
        check_meta_keys(options.get("meta"))
        task = options.get("task", "forbidden")
        if task not in get_args(TaskSupport):
            raise ValueError(f"task must be one of {', '.join(get_args(TaskSupport))}, not {task!r}")
        results = (CallToolResult, *get_args(ContentBlock))
        signature = handler_signature(function, self._context_type, results)
        tool = Tool(
            name or signature.name,
            cast(Object, options.get("input_schema", signature.input_schema)),
            options.get("description", signature.description) or None,
            options.get("title"),
            cast("Object | None", options.get("output_schema", signature.output_schema)),
            options.get("annotations"),
            options.get("icons"),
            {"taskSupport": task} if task != "forbidden" else None,
            options.get("meta"),
        )
        asks_first = options.get("asks_first", False)
        registered = RegisteredTool(tool, function, signature, {}, task, asks_first)
        if not signature.is_generated or "input_schema" in options or "output_schema" in options:
            _check_schemas(registered)
        if not _TOOL_NAME.fullmatch(tool.name):
            rule = "use 1 to 128 of the characters A-Z, a-z, 0-9, _, - and ."
            log.warning("clients can refuse the tool name %.140r: %s", tool.name, rule)
        self._registry.add(tool.name, registered, options.get("scopes", ()))
        self.can_be_tasks = self.can_be_tasks or task != "forbidden"
        return tool

    def remove(self, name: str) -> None:
        """Remove a tool. Raise KeyError if the name is unknown."""
        self._registry.remove(name)

    def parameter_headers(self, name: str) -> dict[str, tuple[str, ...]]:
        """Return `RegisteredTool.headers`, or an empty dict for an unknown tool."""
        return registered.headers if (registered := self._registry.get(name)) is not None else {}

    async def list(self, params: PaginatedRequestParams, context: RequestContext) -> ListToolsResult:
        """Serve `tools/list`."""
        page, following = self._registry.page(params.cursor, context)
        return ListToolsResult([registered.tool_for(context.revision) for registered in page], following)

    async def call(self, params: CallToolRequestParams, context: RequestContext) -> object:
        """Serve `tools/call`: find the tool, check the arguments, run the function, build the result."""
        if (registered := self._registry.get(params.name)) is None:
            # [2025-11-25 server/tools#error-handling] an unknown tool is a JSON-RPC error
            raise ProtocolError(INVALID_PARAMS, f"Unknown tool: {params.name[:200]}")
        # [2025-11-25 basic/utilities/tasks#task-support-and-handling] MUST ignore `task` if tasks are not declared
        may_become_task = registered.task != "forbidden" or params.task is not None
        if self.can_be_tasks and may_become_task:
            return await self._start_task(partial(self._call, registered, params), registered, params.task, context)
        return await self._call(registered, params, context)

    async def _call(
        self, registered: RegisteredTool, params: CallToolRequestParams, context: RequestContext
    ) -> CallToolResult:
        arguments = params.arguments or {}
        if not registered.check_arguments.is_valid(arguments):
            return _invalid_arguments([str(error) for error in registered.check_arguments.errors(arguments)], context)
        try:
            bound = registered.signature.bind(arguments)
        except ValueError as error:
            return _invalid_arguments([str(error)], context)
        try:
            value = await call(registered.function, registered.signature, bound, context)
            return _result_of(registered, value, context.revision)
        except (asyncio.CancelledError, HandlerNeedsInput):
            raise
        except ToolError as error:
            return _error_result(str(error))
        except AccessRefused as error:
            return _error_result(str(error))
        except RemoteError as error:  # the client, or another server that the tool calls, returned this error
            return _error_result(f"a request of the tool returned an error: {error.message}")
        except ProtocolError:
            raise
        except BaseException as error:  # also SystemExit, which would end the server
            if isinstance(error, McpError) and not isinstance(error, ConnectionClosed):
                return _error_result(str(error))  # for example a timeout
            # The client does not get the text, which can contain secrets. ConnectionClosed quotes a standard error.
            log.exception("tool %s failed", params.name)
            return _error_result(f"Tool {params.name} failed")


_TOOL_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")  # [2025-11-25 server/tools#tool-names] SHOULD


def _check_schemas(registered: RegisteredTool) -> None:
    """Check the schemas that the author has written, at least in part. Raise ValueError for a malformed schema."""
    tool = registered.tool
    registered.check_arguments, registered.check_result  # noqa: B018 - compile the schemas now
    # [2026-07-28 server/tools#tool] MUST be a JSON Schema object; schema.ts also requires "type": "object"
    if not _is_object_schema(tool.input_schema):
        raise ValueError(f'input_schema must have "type": "object", not {str(tool.input_schema)[:80]}')
    if not isinstance(tool.output_schema, dict | None):  # JSON Schema allows true and false, but MCP does not
        raise ValueError(f"output_schema must be a JSON object, not {tool.output_schema}")
    registered.headers = parameter_headers(tool.input_schema)  # raises ValueError for an invalid `x-mcp-header`


def _is_object_schema(schema: object) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "object"


def _invalid_arguments(errors: list[str], context: RequestContext) -> CallToolResult:
    text = "Invalid arguments: " + "; ".join(errors)
    if context.revision.invalid_arguments_are_results:
        # [2025-11-25 server/tools#error-handling] a result, so that the model can read the errors and try again
        return _error_result(text)
    raise ProtocolError(INVALID_PARAMS, text)


def _error_result(text: str) -> CallToolResult:
    return CallToolResult([TextContent(text)], is_error=True)


def _result_of(registered: RegisteredTool, value: object, revision: Revision) -> CallToolResult:
    """Convert the return value of a tool's function to a result."""
    if isinstance(value, CallToolResult):
        result = value
        if not all(isinstance(block, ContentBlock) for block in result.content):
            raise TypeError("the content of a CallToolResult must be a list of content blocks, such as TextContent")
        if not isinstance(result.structured_content, dict | list | str | int | float | None):
            raise TypeError("the structured content of a CallToolResult must be JSON, such as a dict")
        if result.structured_null and result.structured_content is not None:
            raise TypeError("a CallToolResult with structured_null must not have other structured content")
    elif registered.check_result is None:
        result = CallToolResult(_blocks_of(value))
    else:
        data = to_json(value)
        # [2025-11-25 server/tools#structured-content] SHOULD also return the serialized JSON in a TextContent block
        result = CallToolResult([TextContent(_text_of(data))], data, structured_null=data is None)
    # [2025-11-25 server/tools#output-schema] structured content MUST conform to the output schema
    if not result.is_error and (fault := _result_fault(registered.check_result, result)) is not None:
        log.error("the result of tool %s does not match its output schema: %s", registered.tool.name, fault)
        return _error_result(f"Tool {registered.tool.name} returned a result that does not match its output schema")
    if result.has_structured_content and registered.wraps_result(revision):
        return CallToolResult(result.content, {"result": result.structured_content}, result.is_error, result.meta)
    return result


def _result_fault(validator: Validator | None, result: CallToolResult) -> str | None:
    """Return the errors that the output schema finds in a result, or None if the result is valid."""
    if validator is None:
        return None
    if not result.has_structured_content:
        return "it has no structuredContent"
    if validator.is_valid(result.structured_content):
        return None
    return "; ".join(map(str, validator.errors(result.structured_content)))


def _blocks_of(value: object) -> list[ContentBlock]:
    if value is None:
        return []
    if isinstance(value, ContentBlock):
        return [value]
    if isinstance(value, (list, tuple)) and any(isinstance(item, ContentBlock) for item in value):
        return [block for item in value for block in _blocks_of(item)]
    return [TextContent(_text_of(to_json(value)))]


_write_json = json_writer((", ", ": "))


def _text_of(value: JSON) -> str:
    return value if type(value) is str else _write_json(value)


# ---------------------------------------------------------------------------------------------------- client


class ResultChecker:
    """The client's validator of results. It uses the output schemas from `tools/list`."""

    def __init__(self) -> None:
        self._schemas: dict[str, Object] = {}
        self._validators: dict[str, Validator | None] = {}

    def replace_schemas(self, tools: list[Tool]) -> None:
        """Replace all output schemas with the output schemas of a new list of tools."""
        self._schemas = {tool.name: tool.output_schema for tool in tools if tool.output_schema is not None}
        self._validators.clear()

    def check(self, name: str, result: CallToolResult) -> None:
        """Raise InvalidMessage if a successful result does not match the tool's output schema, if the tool has one."""
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
        if (fault := _result_fault(self._validators[name], result)) is not None:
            raise InvalidMessage(f"the result of tool {name!r} does not match its output schema: {fault}")
