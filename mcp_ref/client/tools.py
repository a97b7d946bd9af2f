"""The tool calls of a client.

From `tools/list`, the client remembers three things about each tool: the output schema, to check results; which
arguments to copy to HTTP headers (modern era); and whether a call can or must run as a task.

The client repeats a tool call only after an error which proves that the server did not run the tool.

Spec:  server/tools; 2026-07-28 basic/transports/streamable-http; 2025-11-25 basic/utilities/tasks
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from functools import partial
from typing import TypeAlias, TypedDict, TypeVar, cast

from ..basic.headers import parameter_headers
from ..basic.meta import check_meta_keys
from ..basic.progress import ProgressHandler
from ..basic.versioning import HEADER_MISMATCH
from ..extensions.tasks.requestor import RunningTask, result_or_cancel
from ..extensions.tasks.types import CreateTaskResult, Task, TaskRequestParams
from ..features.task_augmentation import TaskMetadata
from ..features.tools import CallToolRequestParams, CallToolResult, ResultChecker, Tool, ToolError
from ..features.typed_json import json_schema, read_json, type_name
from ..jsonrpc.errors import InvalidMessage, RemoteError
from ..jsonrpc.messages import JSON, METHOD_NOT_FOUND, Object, RequestId, parse_json
from ..revisions import Revision
from .requests import ClientRequests

log = logging.getLogger(__name__)
T = TypeVar("T")

OnProgress: TypeAlias = ProgressHandler | None
Seconds: TypeAlias = float | None
CallToolResponse: TypeAlias = CallToolResult | CreateTaskResult


class CallOptions(TypedDict, total=False):
    """The options of `Client.call_tool` besides `returns`."""

    on_progress: OnProgress
    timeout: Seconds
    max_timeout: Seconds
    meta: Mapping[str, object] | None


def _response_type(wire: Object, revision: Revision) -> type[CallToolResponse]:
    # A task is recognized by its members in 2025-11-25, and by `resultType` since 2026-07-28.
    is_built_in_task = revision.built_in_tasks and "task" in wire and "content" not in wire
    return CreateTaskResult if is_built_in_task or wire.get("resultType") == "task" else CallToolResult


class ToolCalls:
    def __init__(self, client: ClientRequests) -> None:
        self._client = client
        self._checker: ResultChecker | None = None
        self._task_support: dict[str, str] = {}  # by tool name
        self._cancellations: set[asyncio.Task[None]] = set()  # each one cancels a task on the server

    @staticmethod
    def params(
        name: str, arguments: Mapping[str, object] | None, meta: Mapping[str, object] | None
    ) -> CallToolRequestParams:
        if arguments is not None and not isinstance(arguments, (dict, Mapping)):  # a dict needs no slow check of an ABC
            raise TypeError(f'the arguments must be a mapping, such as {{"a": 1}}, not {type(arguments).__name__}')
        meta_copy: Object | None = None if meta is None else dict(meta)  # type: ignore[arg-type]
        if meta_copy:
            check_meta_keys(meta_copy)
        return CallToolRequestParams(name, None if arguments is None else dict(arguments), meta_copy)  # type: ignore[arg-type]

    async def close(self) -> None:
        """Wait at most one second until the server has cancelled the tasks whose results nobody waits for."""
        if self._cancellations:
            await asyncio.wait(self._cancellations, timeout=1.0)

    async def list_tools(self, timeout: Seconds) -> list[Tool]:
        """List the tools, leaving out any whose header annotations are invalid, and remember how to call the others."""
        listed = cast("list[Tool]", await self._client.request_all_pages("tools/list", "tools", timeout))
        tools = self._with_valid_headers(listed)
        self._checker = self._checker or ResultChecker()
        self._checker.replace_schemas(tools)
        self._task_support = {tool.name: str((tool.execution or {}).get("taskSupport")) for tool in tools}
        return tools

    def _with_valid_headers(self, tools: list[Tool]) -> list[Tool]:
        """Return the tools with valid `x-mcp-header` annotations, which matter only over HTTP in the modern era."""
        if not self._client.connector.target.is_url or self._client.revision.era == "legacy":
            return tools
        valid, headers = [], {}
        for tool in tools:
            try:
                headers[tool.name] = parameter_headers(tool.input_schema)
                valid.append(tool)
            except ValueError as error:
                # [2026-07-28 basic/transports/streamable-http#schema-extension] we MUST exclude the tool, SHOULD log it
                log.warning("ignored the tool %.100r: its header annotations are invalid: %s", tool.name, error)
        self._client.connector.parameter_headers.clear()  # in place, because the transport reads this dictionary
        self._client.connector.parameter_headers.update(headers)
        return valid

    @property
    def _calls_can_be_tasks(self) -> bool:  # only 2025-11-25 lets the client request a task
        return self._client.revision.built_in_tasks and self._client.server_can("tasks.requests.tools.call")

    def _add_required_task(self, params: CallToolRequestParams) -> None:
        # [2025-11-25 basic/utilities/tasks#tool-level-negotiation] if a tool requires a task, we MUST request one
        if self._task_support.get(params.name) == "required" and self._calls_can_be_tasks:
            params.task = TaskMetadata()

    def _check_result(self, name: str | None, result: CallToolResult) -> None:
        if name is not None and self._checker is not None and self._client.revision.structured_results:
            self._checker.check(name, result)

    async def task_result(self, name: str, response: CreateTaskResult, timeout: Seconds) -> CallToolResult:
        """Return the result of a tool call that has become a task. Cancel the task if this wait fails."""
        return await result_or_cancel(self._running_task(name, response), timeout, self._cancellations)

    @staticmethod
    def read(name: str, result: CallToolResult, returns: type[T]) -> T:
        """Return the data of a tool's result as an object of the type `returns`, as `Client.call_tool` promises."""
        if result.is_error:
            raise ToolError(result.text or f"tool {name!r} failed without an error message")
        faults = []  # the fault of the likeliest data comes first
        for data in _possible_data(result, json_schema(returns)):
            try:
                return read_json(data, returns)
            except ValueError as unfit:
                faults.append(str(unfit))
        fault = faults[0] if faults else "it has neither structured content nor a single text"
        raise InvalidMessage(f"the result of tool {name!r} is not of the type {type_name(returns)}: {fault}")

    async def start_tool(
        self, params: CallToolRequestParams, on_progress: OnProgress, timeout: Seconds, ttl: Seconds
    ) -> RunningTask[CallToolResult]:
        if self._calls_can_be_tasks:
            if params.name not in self._task_support:
                await self.list_tools(timeout)
            # [2025-11-25 basic/utilities/tasks#tool-level-negotiation] we MUST NOT ask for a task that is forbidden
            if self._task_support.get(params.name) in ("optional", "required"):
                params.task = TaskMetadata(None if ttl is None else round(ttl * 1000))
        return self._running_task(params.name, await self.call(params, on_progress, timeout, None))

    async def find_task(self, id: str, timeout: Seconds) -> RunningTask[CallToolResult]:
        task = await self._client.request("tasks/get", TaskRequestParams(id), Task, timeout)
        return self._running_task(None, CreateTaskResult(task))

    async def call(
        self, params: CallToolRequestParams, on_progress: OnProgress, timeout: Seconds, max_timeout: Seconds
    ) -> CallToolResponse:
        """Send `tools/call`, and repeat it once if `_update_for_retry` has removed the cause of an error."""
        if params.task is None and self._task_support:
            self._add_required_task(params)
        session = self._client.connector.ready_session or await self._client.connector.ready()
        tokens: list[RequestId] = []  # the id of each sent request, which is its progress token; a retry has a new id
        for may_retry in (True, False):
            try:
                response = await session.request(
                    "tools/call", params, _response_type,
                    timeout=timeout if timeout is not None else self._client.timeout, max_timeout=max_timeout,
                    on_progress=on_progress, before_send=None if on_progress is None else tokens.append)  # fmt: skip
                break
            except RemoteError as error:
                if not may_retry or not await self._update_for_retry(error, params, timeout):
                    raise
        if isinstance(response, CallToolResult):
            self._check_result(params.name, response)
        elif on_progress is not None:
            latest_token = tokens.pop()
            session.follow_progress(latest_token, on_progress)
        return response

    async def _update_for_retry(self, error: RemoteError, params: CallToolRequestParams, timeout: Seconds) -> bool:
        """List the tools again if that may help. Return True if it has changed the HTTP headers or `params.task`."""
        client, connector = self._client, self._client.connector
        if error.code == HEADER_MISMATCH and connector.target.is_url:
            # [2026-07-28 basic/transports/streamable-http#client-behavior] we SHOULD list the tools and retry
            before = connector.parameter_headers.get(params.name, {})
            client.forget_results("tools/list")
            await self.list_tools(timeout)
            return connector.parameter_headers.get(params.name, {}) != before
        if error.code == METHOD_NOT_FOUND and params.task is None and self._calls_can_be_tasks:
            # [2025-11-25 basic/utilities/tasks#tool-level-negotiation] -32601: the tool may require a task
            await self.list_tools(timeout)
            self._add_required_task(params)
            return params.task is not None
        return False

    def _running_task(self, name: str | None, response: CallToolResponse) -> RunningTask[CallToolResult]:
        client = self._client
        return RunningTask(
            client.request, client.revision, result_type=CallToolResult, ended=client.connector.ended,
            task=response.task if isinstance(response, CreateTaskResult) else None,
            result=response if isinstance(response, CallToolResult) else None,
            handle_input=client.session.handle_input_request, check=partial(self._check_result, name))  # fmt: skip


def _possible_data(result: CallToolResult, schema: Object) -> list[JSON]:
    """Return the possible meanings of a result as JSON, the likeliest for a type with this schema first."""
    data = result.structured_content
    if result.has_structured_content:
        if not isinstance(data, dict) or data.keys() != {"result"}:
            return [data]
        # Before 2026-07-28, servers wrap all data but objects in {"result": ...}, but an object may have such a member.
        members = schema.get("properties")
        lacks_result = isinstance(members, dict) and "result" not in members
        is_likely_wrapped = schema.get("type") != "object" or lacks_result
        return [data["result"], data] if is_likely_wrapped else [data, data["result"]]
    if len(result.content) != 1 or result.content[0].type != "text":
        return [] if result.content else [None]  # a tool without a result returns no content
    # Before 2025-06-18, servers send data as text: a string as it is, anything else as JSON.
    possible: list[JSON] = [result.text]
    if schema.get("type") != "string":
        with contextlib.suppress(ValueError):
            possible.insert(0, parse_json(result.text.encode()))
    return possible
