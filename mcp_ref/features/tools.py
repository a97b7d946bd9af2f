"""Tools: functions of a server that a language model may call.

`tools/list` says which there are, each with a JSON Schema for its arguments and, from 2025-06-18 on, for its result.
`tools/call` calls one. What goes wrong *inside* a tool is part of the result (`isError`), so that the model can see it
and do better; what is wrong with the *request* is a JSON-RPC error.

Spec:  server/tools (2024-10-07 to 2026-07-28); schema: Tool, CallToolRequest, CallToolResult
Wire:  {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "add", "arguments": {"a": 1, "b": 2}}}
       {"jsonrpc": "2.0", "id": 2, "result": {"content": [{"type": "text", "text": "3"}]}}
       S->C notifications/tools/list_changed
Below: typed/ (a function's schema), jsonschema/ (validation). Elsewhere: `Context`, what a tool may do besides.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, TypedDict, cast, get_args

from ..basic.content import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    Icon,
    ImageContent,
    ResourceLink,
    TextContent,
    read_structured_content,
    write_structured_content,
)
from ..basic.headers import parameter_headers
from ..basic.meta import PaginatedRequestParams, check_meta_keys
from ..basic.mrtr import InputRequired
from ..jsonrpc.errors import InvalidMessage, McpError, ProtocolError, RemoteError
from ..jsonrpc.messages import INVALID_PARAMS, JSON, Object
from ..lib.jsonschema import SchemaError, Validator, compile_schema
from ..lib.typed import Signature, signature_of, to_json
from ..revisions import NOT_ON_THE_WIRE, R2024_11_05, R2025_03_26, R2025_06_18, R2025_11_25, R2026_07_28, Life, Revision
from .caching import CacheableResult
from .invoke import Scope, call, check_options
from .pagination import PAGE_SIZE
from .registry import Registry
from .task_augmentation import TaskHint, TaskMetadata, TaskSupport, without_task

if TYPE_CHECKING:
    from typing import Unpack

log = logging.getLogger(__name__)

# ---------------------------------------------------------------------------------------------------- types


@dataclass
class ToolAnnotations:
    """Hints about a tool's behaviour. They are not to be trusted, unless the server is. None means the spec's default.

    read_only_hint: it changes nothing (default: false). destructive_hint: it may destroy (true). idempotent_hint: twice
    is like once (false). open_world_hint: it reaches beyond its own domain (true).
    """

    title: str | None = None
    read_only_hint: bool | None = None
    destructive_hint: bool | None = None
    idempotent_hint: bool | None = None
    open_world_hint: bool | None = None


@dataclass
class Tool:
    """What a client learns about a tool.

    input_schema: a JSON Schema whose type is "object". output_schema: any JSON Schema; hidden from peers before
    2026-07-28 unless its type is "object".
    """

    name: str
    input_schema: Object
    description: str | None = None
    title: Annotated[str | None, Life(since=R2025_06_18)] = None
    output_schema: Annotated[Object | None, Life(since=R2025_06_18)] = None
    annotations: Annotated[ToolAnnotations | None, Life(since=R2025_03_26)] = None
    icons: Annotated[list[Icon] | None, Life(since=R2025_11_25)] = None
    execution: Annotated[Object | None, Life(since=R2025_11_25, until=R2026_07_28)] = None
    meta: Annotated[Object | None, Life(since=R2025_06_18)] = None

    @property
    def display_name(self) -> str:
        """What to show to people: the title, the annotations' title, or the name, whichever is there first."""
        return self.title or (self.annotations.title if self.annotations else None) or self.name

    def to_wire(self, wire: Object, revision: Revision) -> Object:
        """Older peers take only output schemas of objects."""
        if "outputSchema" not in wire or revision.structured_content_is_any_json or _is_of_object(self.output_schema):
            return wire
        return {name: member for name, member in wire.items() if name != "outputSchema"}


@dataclass
class ListToolsResult(CacheableResult):
    """One page of tools."""

    tools: list[Tool]
    next_cursor: Annotated[str | None, Life(since=R2024_11_05)] = None
    meta: Object | None = None


@dataclass
class CallToolRequestParams:
    """Which tool to call, with which arguments."""

    name: str
    arguments: Object | None = None
    meta: Object | None = None
    task: TaskHint = None

    @staticmethod
    def from_wire(wire: Object, revision: Revision) -> Object:
        """See `without_task`."""
        return without_task(wire, revision)


@dataclass
class CallToolResult:
    """What a tool gives back: blocks for the model, the same as data where the tool has an output schema.

    structured_content: any JSON; peers before 2026-07-28 are not sent what is no object. None where there are no data.
    structured_null: there are, and they are JSON's null.
    """

    content: list[ContentBlock]
    structured_content: Annotated[JSON, Life(since=R2025_06_18)] = None
    is_error: bool = False
    meta: Object | None = None
    structured_null: Annotated[bool, NOT_ON_THE_WIRE] = field(default=False, kw_only=True)

    @property
    def has_structured_content(self) -> bool:
        """Whether there are data, be they null."""
        return self.structured_null or self.structured_content is not None

    @property
    def text(self) -> str:
        """The text blocks, one below the other."""
        return "\n".join(block.text for block in self.content if isinstance(block, TextContent))

    def to_wire(self, wire: Object, revision: Revision) -> Object:
        """2024-10-07 has no content blocks: the result is `toolResult`, any JSON."""
        if not revision.tool_result_is_bare:
            return write_structured_content(wire, self.structured_null, revision)
        return {"toolResult": {"error": self.text} if self.is_error else self._bare(wire)}

    def _bare(self, wire: Object) -> JSON:
        """The value that was meant, where that can be seen."""
        if self.has_structured_content:
            return self.structured_content
        alone = len(self.content) == 1 and isinstance(self.content[0], TextContent)
        return self.text if alone else wire["content"]

    @staticmethod
    def from_wire(wire: Object, revision: Revision) -> Object:
        """A bare result becomes one text block, and data where it is an object; blocks stay blocks."""
        if "toolResult" not in wire or "content" in wire:
            return read_structured_content(wire, revision)
        bare = wire["toolResult"]
        if isinstance(bare, list) and bare and all(isinstance(b, dict) and b.get("type") in _BARE_BLOCKS for b in bare):
            return {**wire, "content": bare}
        text = bare if type(bare) is str else json.dumps(bare, ensure_ascii=False)
        structured: Object = {"structuredContent": bare} if type(bare) is dict else {}
        return {**wire, "content": [{"type": "text", "text": text}], **structured}


_BARE_BLOCKS = ("text", "image", "resource")


class ToolOptions(TypedDict, total=False):
    """What can be said about a tool beyond its function; what is not said is read off signature and docstring.

    A schema that is given is shown to clients as it is, and arguments or results are checked against it.
    """

    title: str
    description: str
    input_schema: Mapping[str, object]
    output_schema: Mapping[str, object]
    annotations: ToolAnnotations
    icons: list[Icon]
    meta: Object
    task: TaskSupport
    """Whether it can be a task, "optional", or must, "required"; for work that takes long. ["forbidden"]"""
    asks_first: bool
    """The task begins when the function says so, `context.begin_task()`: what it asks before that, it asks as an
    ordinary request. [False: it begins at once]"""


class ToolError(Exception):
    """Raised by a tool to tell the model what went wrong: the text becomes the result, with `isError`."""


# ---------------------------------------------------------------------------------------------------- server


@dataclass
class RegisteredTool:
    """A tool, the function behind it, and its schemas compiled."""

    tool: Tool
    function: Callable[..., object]
    signature: Signature
    check_arguments: Validator
    check_result: Validator | None
    headers: dict[str, tuple[str, ...]]
    """The headers that carry arguments over HTTP, and the path to each argument."""
    task: TaskSupport = "forbidden"
    asks_first: bool = False

    def wraps_result(self, revision: Revision) -> bool:
        """Whether data are shown as {"result": …}, for a peer to whom they are objects: so it gets them all the same.

        Only where the schema was derived. One that was given may refer to its own root, and so cannot be put into
        another; it is hidden, and the peer has the text.
        """
        schema = self.tool.output_schema
        objects_only = revision.structured_results and not revision.structured_content_is_any_json
        return objects_only and schema is self.signature.output_schema is not None and not _is_of_object(schema)

    def listed(self, revision: Revision) -> Tool:
        """The tool as a peer is to see it."""
        if not self.wraps_result(revision):
            return self.tool
        wrapping: Object = {
            "type": "object",
            "properties": {"result": self.tool.output_schema},
            "required": ["result"],
        }
        return replace(self.tool, output_schema=wrapping)


Work = Callable[[Scope], Coroutine[object, object, CallToolResult]]
"""Calls a tool, within the scope of a request or of a task."""

TaskStarter = Callable[[Work, RegisteredTool, TaskMetadata | None, Scope], Awaitable[object]]
"""Calls a tool as a task or directly: the tasks extension. Returns a `CreateTaskResult` or a `CallToolResult`."""


class Tools:
    """A server's tools: what is registered, `tools/list` and `tools/call`. start: begins tasks, if there are any."""

    def __init__(
        self,
        context_type: type | None = None,
        page_size: int = PAGE_SIZE,
        changed: Callable[[], None] = lambda: None,
        start: TaskStarter | None = None,
    ) -> None:
        self.can_be_tasks = False
        """Whether there is, or was, a tool that can be a task."""
        self._context_type = context_type
        self._start = start
        self._registry: Registry[RegisteredTool] = Registry("tool", page_size, changed)

    def add(
        self,
        function: Callable[..., object],
        name: str | None = None,
        **options: Unpack[ToolOptions],
    ) -> Tool:
        """Register a function as a tool.

        Raises TypeError for annotations that JSON Schema cannot express, ValueError for a name that is taken, for a
        schema that is none (SchemaError), and for an input schema whose type is not "object". Warns of a name that
        clients may not take.
        """
        check_options(options, ToolOptions)
        check_meta_keys(options.get("meta"))
        task = options.get("task", "forbidden")
        if task not in get_args(TaskSupport):
            raise ValueError(f"task is one of {', '.join(get_args(TaskSupport))}, not {task!r}")
        signature = signature_of(function, context_type=self._context_type, result_types=(CallToolResult, *_BLOCKS))
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
        check_arguments, check_result = compile_schema(tool.input_schema), None
        # [2026-07-28 server/tools#tool] MUST be a valid JSON Schema object, and schema.json wants the type "object"
        if not _is_of_object(tool.input_schema):
            wrong = str(tool.input_schema)[:80]
            raise ValueError(f'input_schema is to be a JSON Schema with "type": "object", not {wrong}')
        if tool.output_schema is not None:
            check_result = compile_schema(tool.output_schema)
            if not isinstance(tool.output_schema, dict):  # true and false are schemas too, but have no place in a Tool
                raise ValueError(f"output_schema is to be a JSON object, not {tool.output_schema}")
        headers = parameter_headers(tool.input_schema)  # wrong ones are found now, not when a client refuses the tool
        if not _NAME.fullmatch(tool.name):
            rule = "SHOULD be 1 to 128 of A-Z, a-z, 0-9, _, - and ."
            log.warning("the tool name %.140r may be refused by clients: names %s", tool.name, rule)
        asks_first = options.get("asks_first", False)
        registered = RegisteredTool(tool, function, signature, check_arguments, check_result, headers, task, asks_first)
        self._registry.add(tool.name, registered)
        self.can_be_tasks = self.can_be_tasks or task != "forbidden"
        return tool

    def remove(self, name: str) -> None:
        """Remove a tool; KeyError when there is none."""
        self._registry.remove(name)

    def parameter_headers(self, name: str) -> dict[str, tuple[str, ...]]:
        """The headers that carry a tool's arguments over HTTP, and the path to each argument."""
        registered = self._registry.get(name)
        return registered.headers if registered is not None else {}

    async def list(self, params: PaginatedRequestParams, scope: Scope) -> ListToolsResult:
        """Serve `tools/list`."""
        page, following = self._registry.page(params.cursor, scope.revision)
        return ListToolsResult([registered.listed(scope.revision) for registered in page], following)

    async def call(self, params: CallToolRequestParams, scope: Scope) -> object:
        """Serve `tools/call`: find the tool, check the arguments, run it, make a result of what it gives."""
        registered = self._registry.get(params.name)
        if registered is None:
            # [2025-11-25 server/tools#error-handling] an unknown tool is a protocol error
            raise ProtocolError(INVALID_PARAMS, f"Unknown tool: {params.name[:200]}")
        # [2025-11-25 basic/utilities/tasks#task-support-and-handling] MUST ignore `task` where nothing is declared
        if (
            self._start is not None
            and self.can_be_tasks
            and (registered.task != "forbidden" or params.task is not None)
        ):
            return await self._start(partial(self._call, registered, params), registered, params.task, scope)
        return await self._call(registered, params, scope)

    async def _call(self, registered: RegisteredTool, params: CallToolRequestParams, scope: Scope) -> CallToolResult:
        arguments = params.arguments or {}
        if not registered.check_arguments.is_valid(arguments):
            return _invalid_arguments([str(error) for error in registered.check_arguments.errors(arguments)], scope)
        try:
            bound = registered.signature.bind(arguments)
        except ValueError as error:
            return _invalid_arguments([str(error)], scope)
        try:
            value = await call(registered.function, registered.signature, bound, scope)
            return _result_of(registered, value, scope.revision)
        except (asyncio.CancelledError, InputRequired):
            raise
        except ToolError as error:
            return _error(str(error))
        except ProtocolError as error:
            if isinstance(error, RemoteError):  # the client refused what the tool asked of it
                return _error(f"the client answered: {error.message}")
            raise
        except McpError as error:  # a missing capability, a timeout: our texts, made to be read
            return _error(str(error))
        except BaseException:
            # The traceback is for the operator; the model learns only that it failed. SystemExit must not end the
            # server.
            log.exception("tool %s failed", params.name)
            return _error(f"Tool {params.name} failed")


# [2025-11-25 server/tools#tool-names] characters and length
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")


def _is_of_object(schema: object) -> bool:
    """Whether a schema says at its root that it is of an object."""
    return isinstance(schema, dict) and schema.get("type") == "object"


def _invalid_arguments(errors: list[str], scope: Scope) -> CallToolResult:
    text = "Invalid arguments: " + "; ".join(errors)
    if scope.revision.invalid_arguments_are_results:
        # [2025-11-25 server/tools#error-handling] so that the model can correct itself
        return _error(text)
    raise ProtocolError(INVALID_PARAMS, text)


def _error(text: str) -> CallToolResult:
    return CallToolResult([TextContent(text)], is_error=True)


_BLOCKS = (TextContent, ImageContent, AudioContent, ResourceLink, EmbeddedResource)


def _result_of(registered: RegisteredTool, value: object, revision: Revision) -> CallToolResult:
    """Make a result of what a tool's function returned."""
    if isinstance(value, CallToolResult):
        result = value
        if not all(isinstance(block, _BLOCKS) for block in result.content):
            raise TypeError("the content of a CallToolResult is a list of content blocks, such as TextContent")
        if not isinstance(result.structured_content, dict | list | str | int | float | None):
            raise TypeError("the structured content of a CallToolResult is JSON, such as a dict")
        if result.structured_null and result.structured_content is not None:
            raise TypeError("a CallToolResult with structured_null has no other structured content")
    elif registered.check_result is None:
        result = CallToolResult(_blocks_of(value))
    else:
        data = to_json(value)
        # [2025-11-25 server/tools#structured-content] SHOULD also return the serialized JSON in a TextContent block
        result = CallToolResult([TextContent(_text_of(data))], data, structured_null=data is None)
    if registered.check_result is not None and not result.is_error:
        # [2025-11-25 server/tools#output-schema] servers MUST provide structured results that conform to this schema
        fault = _fault(registered.check_result, result)
        if fault is not None:
            log.error("tool %s broke its own output schema: %s", registered.tool.name, fault)
            return _error(f"Tool {registered.tool.name} gave a result that does not match its output schema")
    if result.has_structured_content and registered.wraps_result(revision):
        return CallToolResult(result.content, {"result": result.structured_content}, result.is_error, result.meta)
    return result


def _fault(validator: Validator, result: CallToolResult) -> str | None:
    """What is wrong with the data of a result, by the schema of its tool; None for nothing."""
    # What counts is whether there are data: null, false, 0 and [] are some, and may be what the schema wants.
    if not result.has_structured_content:
        return "it has no structuredContent"
    if validator.is_valid(result.structured_content):
        return None
    return "; ".join(map(str, validator.errors(result.structured_content)))


def _blocks_of(value: object) -> list[ContentBlock]:
    if value is None:
        return []
    if isinstance(value, _BLOCKS):
        return [value]
    if isinstance(value, (list, tuple)) and any(isinstance(item, _BLOCKS) for item in value):
        return [block for item in value for block in _blocks_of(item)]
    return [TextContent(_text_of(to_json(value)))]


_write_json = json.JSONEncoder(ensure_ascii=False).encode  # made once, and not for each result


def _text_of(value: JSON) -> str:
    return value if type(value) is str else _write_json(value)


# ---------------------------------------------------------------------------------------------------- client


class ResultChecker:
    """The client's part: holds results to the output schemas that the server's tools were listed with."""

    def __init__(self) -> None:
        self._schemas: dict[str, Object] = {}
        self._validators: dict[str, Validator | None] = {}

    def learn(self, tools: list[Tool]) -> None:
        """Take the schemas of a freshly listed set of tools, in place of all earlier ones."""
        self._schemas = {tool.name: tool.output_schema for tool in tools if tool.output_schema is not None}
        self._validators.clear()

    def check(self, name: str, result: CallToolResult) -> None:
        """Raise InvalidMessage when a result does not conform. Tools that were never listed are not checked."""
        schema = self._schemas.get(name)
        if schema is None or result.is_error:
            return
        if name not in self._validators:
            self._validators[name] = self._compile(name, schema)
        validator = self._validators[name]
        if validator is None:
            return
        # [2025-11-25 server/tools#output-schema] clients SHOULD validate structured results against this schema
        fault = _fault(validator, result)
        if fault is not None:
            raise InvalidMessage(f"the result of tool {name!r} does not match its output schema: {fault}")

    @staticmethod
    def _compile(name: str, schema: Object) -> Validator | None:
        try:
            return compile_schema(schema)
        except SchemaError as error:
            log.warning("results of tool %s are not checked, its output schema cannot be used: %s", name, error)
            return None
