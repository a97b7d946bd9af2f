"""The tools that an author has registered on a server, and the server's part of `tools/list` and `tools/call`.

    tools/call -> find the tool -> check the arguments -> run the function -> check its result -> CallToolResult

Spec:  server/tools (2024-10-07 to 2026-07-28)
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from functools import cached_property, partial
from typing import TypedDict, Unpack, cast, get_args

from ..basic.access import AccessRefused
from ..basic.channel import RequestContext
from ..basic.content import ContentBlock, Icon, TextContent
from ..basic.headers import parameter_headers
from ..basic.meta import PaginatedRequestParams, check_meta_keys
from ..basic.mrtr import HandlerNeedsInput
from ..jsonrpc.errors import ProtocolError, RemoteError
from ..jsonrpc.failures import text_for_peer
from ..jsonrpc.messages import INVALID_PARAMS, JSON, Object, json_writer
from ..lib.fields import check_options, check_unicode
from ..lib.jsonschema import Validator, compile_schema
from ..lib.typed import Signature, to_json
from ..revisions import Revision
from .invoke import call, check_description, handler_signature
from .registry import Registry
from .task_augmentation import TaskSupport
from .tools import CallToolRequestParams, CallToolResult, ListToolsResult, Tool, ToolAnnotations, ToolError, find_fault

log = logging.getLogger(__name__)


class ToolOptions(TypedDict, total=False):
    """Options of a tool. By default, `description` and the schemas come from the function's docstring and signature."""

    title: str | None
    description: str | None
    input_schema: Mapping[str, object]
    output_schema: Mapping[str, object] | None
    """None for a tool without structured content. Clients get the schema unchanged, except as `wraps_result` says."""
    annotations: ToolAnnotations | None
    icons: list[Icon] | None
    meta: Object | None
    task: TaskSupport
    """The tool's support for tasks. Default: "forbidden"."""
    scopes: Collection[str]
    """The scopes that a caller over HTTP needs. The HTTP server then needs `authorization=`. Default: no scopes."""
    asks_first: bool
    """True if the function itself begins the task with `context.begin_task()`, after an elicitation. Default: False."""


class RegisteredTool:
    """A tool of the server. Its validators are compiled at their first use, because most tools are never called."""

    def __init__(self, tool: Tool, function: Callable[..., object], signature: Signature, options: ToolOptions) -> None:
        self.tool, self.function, self.signature = tool, function, signature
        self.headers: dict[str, tuple[str, ...]] = {}  # name after `Mcp-Param-` -> path of the argument
        self.task: TaskSupport = options.get("task", "forbidden")
        self.asks_first = options.get("asks_first", False)
        schema = tool.output_schema
        self._is_wrappable = schema is not None and schema is signature.output_schema and schema.get("type") != "object"

    @cached_property
    def arguments_validator(self) -> Validator:
        return compile_schema(self.tool.input_schema)

    @cached_property
    def result_validator(self) -> Validator | None:
        return compile_schema(self.tool.output_schema) if self.tool.output_schema is not None else None

    def wraps_result(self, revision: Revision) -> bool:
        """Return True if the server sends structured content as `{"result": ...}`.

        Before 2026-07-28, structured content must be an object, so the server wraps other values. But it sends only the
        text if the author wrote the output schema, because a wrapper would break a `$ref` to the root of that schema.
        """
        return self._is_wrappable and revision.structured_results and not revision.structured_content_is_any_json

    def tool_for(self, revision: Revision) -> Tool:
        tool = self.tool  # copied below without `dataclasses.replace`, which takes three times as long
        if not self.wraps_result(revision):
            return tool
        schema: Object = {"type": "object", "properties": {"result": tool.output_schema}, "required": ["result"]}
        return Tool(tool.name, tool.input_schema, tool.description, tool.title, schema, tool.annotations, tool.icons,
                    tool.execution, tool.meta)  # fmt: skip


ToolRun = Callable[[RequestContext], Coroutine[object, object, CallToolResult]]
"""A function that runs one tool call in the context of its request or task."""
TaskStarter = Callable[[ToolRun, RegisteredTool, CallToolRequestParams, RequestContext], Awaitable[object]]
"""The function that decides if a tool call becomes a task, and returns a `CreateTaskResult` or a `CallToolResult`."""


class Tools:
    """The registered tools of a server, with the handlers of `tools/list` and `tools/call`."""

    def __init__(
        self, context_type: type | None, page_size: int, on_change: Callable[[], None], start: TaskStarter
    ) -> None:
        self.can_be_tasks = False  # True if the calls of at least one tool, even a removed one, can be tasks
        self._context_type, self._start_task = context_type, start
        self._registry: Registry[RegisteredTool] = Registry("tool", page_size, on_change)
        self.scopes = self._registry.scopes

    def __len__(self) -> int:
        return len(self._registry)

    def add(self, function: Callable[..., object], name: str | None = None, **options: Unpack[ToolOptions]) -> Tool:
        """Register a function as a tool. Log a warning if clients might refuse the name.

        Raise TypeError for an annotation without a JSON Schema, and ValueError for a taken name or an invalid option.
        """
        check_options(options, ToolOptions)
        check_meta_keys(options.get("meta"))
        task = options.get("task", "forbidden")
        unstructured = (CallToolResult, *get_args(ContentBlock))  # results of these types get no output schema
        signature = handler_signature(function, self._context_type, unstructured)
        tool = Tool(
            name or signature.name, cast(Object, options.get("input_schema", signature.input_schema)),
            description=options.get("description", signature.description) or None, title=options.get("title"),
            output_schema=cast("Object | None", options.get("output_schema", signature.output_schema)),
            annotations=options.get("annotations"), icons=options.get("icons"), meta=options.get("meta"),
            execution={"taskSupport": task} if task != "forbidden" else None)  # fmt: skip
        registered = RegisteredTool(tool, function, signature, options)
        if not signature.is_generated or "input_schema" in options or "output_schema" in options:
            _check_schemas(registered)  # generated schemas need no check, and declare no headers
            registered.headers = parameter_headers(tool.input_schema)
        check_unicode(f"the tool name {tool.name!r:.80}", tool.name)
        check_description(tool, options)
        if not TOOL_NAME.fullmatch(tool.name):
            log.warning("clients may refuse the tool name %.140r: use 1 to 128 of A-Z, a-z, 0-9, _, - and .", tool.name)
        self._registry.add(tool.name, registered, options.get("scopes", ()))
        self.can_be_tasks = self.can_be_tasks or task != "forbidden"
        return tool

    def remove(self, name: str) -> None:
        self._registry.remove(name)

    def parameter_headers(self, name: str) -> dict[str, tuple[str, ...]]:
        """Return the headers that repeat arguments of a tool, or {} if the tool is unknown."""
        registered = self._registry.get(name)
        return registered.headers if registered is not None else {}

    async def list(self, params: PaginatedRequestParams, context: RequestContext) -> ListToolsResult:
        revision = context.revision
        page, next_cursor = self._registry.page(params.cursor, context)
        return ListToolsResult([registered.tool_for(revision) for registered in page], next_cursor)

    def call(self, params: CallToolRequestParams, context: RequestContext) -> Awaitable[object]:
        """Run a tool, as a task if the request or the tool wants one."""
        registered = self._registry.get(params.name)
        if registered is None:
            # [2025-11-25 server/tools#error-handling] an unknown tool is a JSON-RPC error
            raise ProtocolError(INVALID_PARAMS, f"Unknown tool: {params.name[:200]}")
        # [2025-11-25 basic/utilities/tasks#task-support-and-handling] a server without tasks MUST ignore `task`
        if self.can_be_tasks and (registered.task != "forbidden" or params.task is not None):
            return self._start_task(partial(self._call, registered, params), registered, params, context)
        return self._call(registered, params, context)

    async def _call(
        self, registered: RegisteredTool, params: CallToolRequestParams, context: RequestContext
    ) -> CallToolResult:
        arguments = params.arguments or {}
        try:
            registered.arguments_validator.validate(arguments)
            bound = registered.signature.bind(arguments)
        except ValueError as error:
            # [2025-11-25 server/tools#error-handling] a result and not an error, so that the model can try again
            if context.revision.invalid_arguments_are_results:
                return _error_result(f"Invalid arguments: {error}")
            raise ProtocolError(INVALID_PARAMS, f"Invalid arguments: {error}") from None
        try:
            value = await call(registered.function, registered.signature, bound, context)
            return _result_of(registered, value, context.channel.revision)
        except (asyncio.CancelledError, HandlerNeedsInput):
            raise
        except (ToolError, AccessRefused) as error:
            return _error_result(str(error))
        except BaseException as error:  # including SystemExit, which would end the server
            if isinstance(error, ProtocolError) and not isinstance(error, RemoteError):
                raise  # the function chose this error, whereas a RemoteError came from a peer
            text = text_for_peer(error)
            if text is None or text not in str(error):  # the client does not see the error's message
                log.exception("tool %s failed", params.name)
            return _error_result(text or f"Tool {params.name} failed")


TOOL_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")  # [2025-11-25 server/tools#tool-names] names SHOULD match this


def _check_schemas(registered: RegisteredTool) -> None:
    """Raise ValueError for an invalid schema. Called only if the author has written at least a part of one."""
    tool = registered.tool
    registered.arguments_validator, registered.result_validator  # noqa: B018 - compile the schemas now
    # [2026-07-28 server/tools#tool] it MUST be a JSON Schema object; schema.ts also requires "type": "object"
    if not isinstance(tool.input_schema, dict) or tool.input_schema.get("type") != "object":
        raise ValueError(f'input_schema must have "type": "object", not {str(tool.input_schema)[:80]}')
    if not isinstance(tool.output_schema, dict | None):  # JSON Schema allows true and false, but MCP does not
        raise ValueError(f"output_schema must be a JSON object, not {tool.output_schema}")


def _error_result(text: str) -> CallToolResult:
    return CallToolResult([TextContent(text)], is_error=True)


def _result_of(registered: RegisteredTool, value: object, revision: Revision) -> CallToolResult:
    if isinstance(value, CallToolResult):
        result = value
        if not all(isinstance(block, ContentBlock) for block in result.content):
            raise TypeError("the content of a CallToolResult must be a list of content blocks, such as TextContent")
        if not isinstance(result.structured_content, dict | list | str | int | float | None):
            raise TypeError("the structured content of a CallToolResult must be JSON, such as a dict")
        if result.structured_null and result.structured_content is not None:
            raise TypeError("a CallToolResult with structured_null must not have other structured content")
    elif registered.result_validator is None:
        result = CallToolResult(_blocks_of(value))
    else:
        data = to_json(value)
        # [2025-11-25 server/tools#structured-content] the tool SHOULD also return the JSON in a TextContent block
        result = CallToolResult([TextContent(_text_of(data))], data, structured_null=data is None)
        if registered.result_validator.is_valid(data):  # the usual case; the lines below would do the same more slowly
            if registered.wraps_result(revision):
                result.structured_content, result.structured_null = {"result": data}, False
            return result
    # [2025-11-25 server/tools#output-schema] structured content MUST conform to the output schema
    fault = None if result.is_error else find_fault(registered.result_validator, result)
    if fault is not None:
        advice = "; is `return` missing?" if value is None else ""
        log.error("the result of tool %s does not match its output schema: %s%s", registered.tool.name, fault, advice)
        return _error_result(f"Tool {registered.tool.name} returned a result that does not match its output schema")
    if result.has_structured_content and registered.wraps_result(revision):
        return CallToolResult(result.content, {"result": result.structured_content}, result.is_error, result.meta)
    return result


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
