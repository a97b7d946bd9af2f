"""How a client calls tools, and what it knows of them once they were listed.

    tools/list -> output schemas, which results are held to
                  arguments that go in headers; a tool that asks for that wrongly is left out
                  whether a tool can be, or must be, a task
    tools/call -> a result; a task, which is followed; or a refusal, from which a look at the list may lead on

Spec:  server/tools; 2026-07-28 basic/transports/streamable-http; 2025-11-25 basic/utilities/tasks
Above: client.py. Below: reaching.py, tasks_client.py
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from ..basic.headers import parameter_headers
from ..basic.meta import check_meta_keys
from ..basic.progress import ProgressHandler
from ..basic.versioning import HEADER_MISMATCH
from ..extensions.tasks.types import CreateTaskResult, Task, TaskRequestParams
from ..features.task_augmentation import TaskMetadata
from ..jsonrpc.errors import RemoteError
from ..jsonrpc.messages import METHOD_NOT_FOUND, Object, RequestId

if TYPE_CHECKING:
    from ..extensions.tasks.requestor import CallToolOutcome, RunningTask
    from ..features.tools import CallToolRequestParams, CallToolResult, ResultChecker, Tool
    from .connector import Connector

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a tool, as the program wants it; see `Client.call_tool`."""

    name: str
    arguments: Mapping[str, object] | None
    meta: Mapping[str, object] | None
    on_progress: ProgressHandler | None
    timeout: float | None
    max_timeout: float | None = None


class ToolCalls:
    """The calls of one client."""

    def __init__(self, reach: Connector) -> None:
        self._connector = reach
        self._checker: ResultChecker | None = None
        self._task_support: dict[str, str] = {}  # of the tools that were listed
        self._farewells: set[asyncio.Task[None]] = set()  # to tasks that nobody waits for

    async def close(self) -> None:
        """Give the server a moment to be told of tasks that nobody waits for."""
        if self._farewells:
            await asyncio.wait(self._farewells, timeout=1.0)

    # ------------------------------------------------------------------------------------- what is known of tools

    async def list_tools(self, timeout: float | None) -> list[Tool]:
        """See `Client.list_tools`."""
        from ..features.tools import ListToolsResult, ResultChecker

        tools = await self._connector.ask_all("tools/list", ListToolsResult, lambda page: page.tools, timeout)
        tools = self._with_good_headers(tools)
        self._checker = self._checker or ResultChecker()
        self._checker.learn(tools)
        self._task_support = {tool.name: str((tool.execution or {}).get("taskSupport")) for tool in tools}
        return tools

    def _with_good_headers(self, tools: list[Tool]) -> list[Tool]:
        """Over HTTP, in the stateless era: learn which arguments go in headers; leave out tools that ask wrongly."""
        if not self._connector.address.is_url or self._connector.revision.era == "legacy":
            return tools
        good, parameters = [], {}
        for tool in tools:
            try:
                parameters[tool.name] = parameter_headers(tool.input_schema)
                good.append(tool)
            except ValueError as error:
                # [2026-07-28 basic/transports/streamable-http#schema-extension] MUST exclude it, SHOULD log a warning
                log.warning("the tool %.100r is left out: %s", tool.name, error)
        self._connector.parameters = parameters
        return good

    def _needed_task(self, name: str) -> TaskMetadata | None:
        """`task` for a tool that can be called in no other way."""
        # [2025-11-25 basic/utilities/tasks#tool-level-negotiation] MUST be called as a task where that is required, and
        # MUST NOT where the server does not declare it
        needed = self._connector.revision.tasks_are_core and self._task_support.get(name) == "required"
        return TaskMetadata() if needed and self._connector.server_can("tasks.requests.tools.call") else None

    def _check(self, name: str | None, result: CallToolResult) -> None:
        if name is not None and self._checker is not None and self._connector.revision.structured_results:
            self._checker.check(name, result)

    # ------------------------------------------------------------------------------------- calls

    async def call_tool(self, call: ToolCall) -> CallToolResult:
        """See `Client.call_tool`."""
        answer = await self._ask(call, None)
        if answer.result is not None:
            self._check(call.name, answer.result)
            return answer.result
        from ..extensions.tasks.requestor import give_up

        running = self._running(call.name, answer)
        try:
            return await running.result(call.max_timeout if call.max_timeout is not None else call.timeout)
        except BaseException:
            give_up(running, self._farewells)
            raise

    async def start_tool(self, call: ToolCall, ttl: float | None) -> RunningTask[CallToolResult]:
        """See `Client.start_tool`."""
        wanted: TaskMetadata | None = None
        if self._connector.revision.tasks_are_core and self._connector.server_can("tasks.requests.tools.call"):
            if call.name not in self._task_support:
                await self.list_tools(call.timeout)
            # [2025-11-25 basic/utilities/tasks#tool-level-negotiation] MUST NOT be tried where it is forbidden
            if self._task_support.get(call.name) in ("optional", "required"):
                wanted = TaskMetadata(None if ttl is None else round(ttl * 1000))
        answer = await self._ask(call, wanted)
        if answer.result is not None:
            self._check(call.name, answer.result)
        return self._running(call.name, answer)

    async def find_task(self, id: str, timeout: float | None) -> RunningTask[CallToolResult]:
        """See `Client.find_task`."""
        from ..extensions.tasks.requestor import CallToolOutcome

        task = await self._connector.ask("tasks/get", TaskRequestParams(id), Task, timeout)
        return self._running(None, CallToolOutcome(task=CreateTaskResult(task)))

    async def _ask(self, call: ToolCall, wanted: TaskMetadata | None) -> CallToolOutcome:
        """What the server answers to `tools/call`."""
        from ..extensions.tasks.requestor import CallToolOutcome
        from ..features.tools import CallToolRequestParams

        check_meta_keys(_object(call.meta))
        task = wanted or self._needed_task(call.name)
        params = CallToolRequestParams(call.name, _object(call.arguments), _object(call.meta), task)
        ids: list[RequestId] = []

        async def ask() -> CallToolOutcome:
            return await self._connector.ask(
                "tools/call", params, CallToolOutcome, call.timeout, call.max_timeout, call.on_progress, ids.append
            )

        try:
            answer = await ask()
        except RemoteError as error:
            if not await self._learns_better(error, params, call.timeout):
                raise
            answer = await ask()
        if answer.task is not None and call.on_progress is not None:
            self._connector.session.hear_progress(ids[-1], call.on_progress)
        return answer

    async def _learns_better(self, error: RemoteError, params: CallToolRequestParams, timeout: float | None) -> bool:
        """Whether a call that was refused can be made in another way, after a look at the list of tools."""
        reach = self._connector
        if error.code == HEADER_MISMATCH and reach.address.is_url:
            # [2026-07-28 basic/transports/streamable-http#client-behavior] SHOULD list the tools, and try again
            before = reach.parameters.get(params.name, {})
            reach.cache.forget("tools/list")
            await self.list_tools(timeout)
            return reach.parameters.get(params.name, {}) != before
        if error.code == METHOD_NOT_FOUND and params.task is None and reach.server_can("tasks.requests.tools.call"):
            await self.list_tools(timeout)
            params.task = self._needed_task(params.name)
            return params.task is not None
        return False

    def _running(self, name: str | None, answer: CallToolOutcome) -> RunningTask[CallToolResult]:
        from ..extensions.tasks.requestor import RunningTask
        from ..features.tools import CallToolResult

        return RunningTask(
            self._connector.ask,
            self._connector.revision,
            answer.task.task if answer.task is not None else None,
            CallToolResult,
            answer.result,
            self._connector.session.answer,
            lambda result: self._check(name, result),
        )


def _object(members: Mapping[str, object] | None) -> Object | None:
    """A JSON object of what the caller gave. Whether JSON can hold the values shows when they are written."""
    return None if members is None else cast("Object", dict(members))
