"""Tasks on a client: calls that follow them, running tasks, and tasks that the server creates on the client."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
from collections.abc import AsyncIterator
from functools import partial

import pytest

from mcp_ref import (
    CallToolResult,
    Client,
    ConnectionClosed,
    Context,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    InvalidMessage,
    McpError,
    ProtocolError,
    RemoteError,
    RequestTimeout,
    RunningTask,
    Server,
    TextContent,
    ToolError,
)
from mcp_ref.basic.access import Access
from mcp_ref.basic.channel import RequestContext
from mcp_ref.basic.mrtr import InputRequest
from mcp_ref.extensions.tasks.requestor import MAX_POLL_SECONDS, MAX_REPETITIONS, MIN_POLL_SECONDS, _interval
from mcp_ref.extensions.tasks.types import Task, TaskRequestParams
from mcp_ref.features.task_augmentation import RELATED_TASK, TASKS_EXTENSION, TaskMetadata
from mcp_ref.jsonrpc import bounded_waits
from mcp_ref.jsonrpc.messages import INTERNAL_ERROR, INVALID_PARAMS, Object
from mcp_ref.lib.http.message import Exchange, Rest
from mcp_ref.revisions import R2025_11_25, R2026_07_28
from mcp_ref.transports.streamable_http.checks import CheckedRequest
from mcp_ref.transports.streamable_http.handover import shutting_down
from mcp_ref.transports.streamable_http.server import StreamableHttpEndpoint
from tests.messages import request
from tests.raw_http_client import served_over_http
from tests.raw_peers import Wire, answer, handshake, raw_server, raw_session, serve_call
from tests.settings import PATIENCE, eventually

ERAS = pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
KINDS = pytest.mark.parametrize("kind", ["memory", "http"])
FORM: Object = {"type": "object", "properties": {"name": {"type": "string"}}}


class Work:
    """A server whose tools are tasks."""

    def __init__(self) -> None:
        server = self.server = Server("s")
        server.tasks.poll_interval = 20
        self.begun: asyncio.Queue[str] = asyncio.Queue()
        self.ended: asyncio.Queue[str] = asyncio.Queue()
        self.go = asyncio.Event()
        self.looked: asyncio.Queue[str] = asyncio.Queue()
        """The ids of the tasks that a client has looked at."""
        look = server.tasks.get

        async def get(params: TaskRequestParams, context: RequestContext) -> Task:
            self.looked.put_nowait(params.task_id)
            return await look(params, context)

        server.tasks.get = get  # type: ignore[method-assign]

        @server.tool(task="optional")
        async def wait(context: Context) -> TextContent:
            await context.report_progress(1, 2, "halfway")
            self.begun.put_nowait("wait")
            try:
                await self.go.wait()
            except asyncio.CancelledError:
                self.ended.put_nowait("cancelled")
                raise
            return TextContent("done")

        server.tool("must", task="required")(lambda: 7)
        server.tool("plain")(lambda: TextContent("plain"))

        @server.tool(task="required")
        async def ask(context: Context) -> TextContent:
            first, second = await context.gather_inputs(
                context.elicit("Name?", FORM), context.sample("hello", max_tokens=5)
            )
            third = await context.elicit("Again?", FORM)
            assert isinstance(first, ElicitResult) and isinstance(second, CreateMessageResult)
            return TextContent(f"{first.content} {second.text} {third.action}")

        @server.tool(task="optional")
        async def fail() -> TextContent:
            raise ToolError("out of paper")

        @server.tool(task="optional")
        async def refuse() -> TextContent:
            raise ProtocolError(7, "not now", {"why": "closed"})

        @server.tool()
        async def ask_by_task(context: Context) -> TextContent:
            said = await context.sample("hello", max_tokens=5, as_task=True)
            answer = await context.elicit("Name?", FORM, as_task=True, timeout=None)
            return TextContent(f"{said.text} {answer.content}")

        @server.tool()
        async def ask_briefly(context: Context) -> TextContent:
            return TextContent((await context.sample("hello", max_tokens=5, as_task=True, timeout=0.2)).text)

    async def has(self, queue: asyncio.Queue[str]) -> str:
        return await asyncio.wait_for(queue.get(), PATIENCE)


async def model(params: CreateMessageRequestParams) -> CreateMessageResult:
    return CreateMessageResult("assistant", TextContent("hi"), "m")


async def user(params: ElicitRequestFormParams | ElicitRequestURLParams) -> ElicitResult:
    return ElicitResult("accept", {"name": params.message})


@contextlib.asynccontextmanager
async def meet(work: Work, kind: str, revision: str, **options: object) -> AsyncIterator[Client]:
    given: dict[str, object] = {"revision": revision, "sampling": model, "elicitation": user, **options}
    async with contextlib.AsyncExitStack() as stack:
        server: Server | str = work.server
        if kind == "http":
            server = await stack.enter_async_context(work.server.serve_http())
        yield await stack.enter_async_context(Client(server, **given))  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------------ following


@KINDS
@ERAS
@pytest.mark.spec(
    "2025-11-25/basic/utilities/tasks#tool-level-negotiation-4",
    "2025-11-25/basic/utilities/tasks#getting-tasks-3",
    "2025-11-25/basic/utilities/tasks#input-required-status-6",
)
async def test_call_tool_follows_its_task_and_responds_to_the_input_requests(kind: str, revision: str) -> None:
    work = Work()
    work.go.set()
    async with meet(work, kind, revision) as client:
        assert (await client.call_tool("ask")).text == "{'name': 'Name?'} hi accept"
        assert (await client.call_tool("wait")).text == "done"
        assert (await client.call_tool("plain")).text == "plain"
        await client.list_tools()
        assert (await client.call_tool("must")).text == "7"


@KINDS
@ERAS
async def test_call_tool_ends_with_the_outcome_of_its_task(kind: str, revision: str) -> None:
    async with meet(Work(), kind, revision) as client:
        for begin in (client.call_tool, client.start_tool):
            answer = await begin("fail")
            result = answer if isinstance(answer, CallToolResult) else await answer.result()
            assert result.is_error and result.text == "out of paper"
            with pytest.raises(RemoteError) as caught:
                refused = await begin("refuse")
                assert isinstance(refused, RunningTask)
                await refused.result()
            assert (caught.value.code, caught.value.message) == (7, "not now")
            assert caught.value.data == {"why": "closed"}


@KINDS
@ERAS
async def test_call_tool_cancels_its_task_when_it_is_cancelled_or_times_out(kind: str, revision: str) -> None:
    work = Work()
    async with meet(work, kind, revision) as client:
        for name in ("must", "wait"):  # so that both eras make a task of it
            client._tools._task_support[name] = "required"
        call = asyncio.create_task(client.call_tool("wait"))
        await work.has(work.begun)
        await work.has(work.looked)  # so the client knows of its task
        call.cancel()
        await asyncio.wait([call])
        assert call.cancelled() and await work.has(work.ended) == "cancelled"
        with pytest.raises(RequestTimeout, match=r"not complete after 0\.1 seconds"):
            await client.call_tool("wait", timeout=0.1)
        assert await work.has(work.ended) == "cancelled"
        while not work.looked.empty():
            work.looked.get_nowait()
        call = asyncio.create_task(client.call_tool("wait"))
        await work.has(work.looked)
        call.cancel()  # and the client leaves at once
    assert await work.has(work.ended) == "cancelled"


@KINDS
@ERAS
async def test_running_task_returns_the_status_and_returns_the_result_repeatedly(kind: str, revision: str) -> None:
    work = Work()
    async with meet(work, kind, revision) as client:
        running = await client.start_tool("wait", ttl=90)
        await work.has(work.begun)
        seen = await running.status()
        assert seen is not None and (seen.task_id, seen.status) == (running.id, "working")
        assert seen.ttl == (90_000 if revision == "2025-11-25" else 3_600_000)
        with pytest.raises(RequestTimeout):
            await running.result(timeout=0.1)
        assert work.ended.empty()  # it goes on
        work.go.set()
        for _ in range(2):
            assert (await running.result()).text == "done"
        seen = await running.status()
        assert seen is not None and seen.status == "completed"
        await running.cancel()
        assert running.id is not None
        found = await client.find_task(running.id)
        assert (await found.result()).text == "done"
        with pytest.raises(RemoteError, match="no such task"):
            await client.find_task("none")


@KINDS
@ERAS
async def test_running_task_cancel_ends_the_task_without_a_result(kind: str, revision: str) -> None:
    work = Work()
    async with meet(work, kind, revision) as client:
        running = await client.start_tool("wait")
        await work.has(work.begun)
        await running.cancel()
        assert await work.has(work.ended) == "cancelled"
        with pytest.raises(McpError, match="the task was cancelled: The task was cancelled by request"):
            await running.result()
        await running.cancel()


@KINDS
@ERAS
@pytest.mark.spec("2025-11-25/basic/utilities/tasks#tool-level-negotiation-2")
async def test_start_tool_of_a_tool_without_task_support_returns_the_result_without_a_task(
    kind: str, revision: str
) -> None:
    async with meet(Work(), kind, revision) as client:
        running = await client.start_tool("plain")
        assert running.id is None and await running.status() is None
        await running.cancel()
        assert (await running.result()).text == "plain"


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-06-18"])
async def test_start_tool_in_a_revision_without_tasks_returns_the_result_without_a_task(revision: str) -> None:
    work = Work()
    work.go.set()
    async with meet(work, "memory", revision) as client:
        running = await client.start_tool("wait", ttl=5)
        assert running.id is None and (await running.result()).text == "done"


@KINDS
async def test_tasks_of_2025_11_25_are_listed_and_report_progress(kind: str) -> None:
    work = Work()
    async with meet(work, kind, "2025-11-25") as client:
        heard: asyncio.Queue[str] = asyncio.Queue()

        def hear(progress: float, total: float | None, message: str | None) -> None:
            heard.put_nowait(f"{progress} {total} {message}")

        running = await client.start_tool("wait", on_progress=hear)
        assert await work.has(heard) == "1 2 halfway"
        (listed,) = await client.list_tasks()
        assert (listed.task_id, listed.status) == (running.id, "working")


# ------------------------------------------------------------------------------------------------ other servers


def task(status: str = "working", **more: object) -> Object:
    at = "2025-11-25T10:30:00Z"
    found: Object = {"taskId": "t", "status": status, "createdAt": at, "lastUpdatedAt": at, **more}  # type: ignore[dict-item]
    return found


TASKS: Object = {"tools": {}, "tasks": {"requests": {"tools": {"call": {}}}, "cancel": {}, "list": {}}}
TOOL: Object = {"name": "t", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "required"}}
DONE: Object = {"content": [{"type": "text", "text": "done"}]}
ELICITATION: Object = {
    "method": "elicitation/create",
    "params": {"mode": "form", "message": "Name?", "requestedSchema": FORM},
}


@contextlib.asynccontextmanager
async def client_of_tasks() -> AsyncIterator[tuple[Client, Wire]]:
    """Give a connected client, and its raw server, which declares tasks."""
    async with raw_session(partial(Client, revision="2025-11-25"), capabilities=TASKS) as (client, wire):
        yield client, wire


@pytest.mark.spec(
    "2025-11-25/basic/utilities/tasks#capability-negotiation-1,2",
    "2025-11-25/basic/utilities/tasks#tool-level-negotiation-1",
)
async def test_client_requests_no_task_from_a_server_that_does_not_declare_tasks() -> None:
    async with raw_server(partial(Client, revision="2025-11-25")) as (client, wire):
        params = await handshake(client, wire, capabilities={"tools": {}})
        assert "tasks" not in params["capabilities"]
        await serve_call(client.list_tools(), wire, {"tools": [TOOL]})
        for begin in (client.call_tool, client.start_tool):
            _, asked = await serve_call(begin("t"), wire, DONE)
            assert asked["method"] == "tools/call" and "task" not in asked["params"]


@pytest.mark.spec("2025-11-25/basic/utilities/tasks#associating-task-related-messages-4")
async def test_call_tool_repeats_the_call_as_a_task_if_the_server_requires_one() -> None:
    async with client_of_tasks() as (client, wire):
        calling = asyncio.create_task(client.call_tool("t"))
        asked = await wire.receive_object()
        refusal: Object = {"code": -32601, "message": "Task augmentation required"}
        await wire.send({"jsonrpc": "2.0", "id": asked["id"], "error": refusal})
        await answer(wire, "tools/list", {"tools": [TOOL]})
        again = await answer(wire, "tools/call", {"task": task("completed", ttl=None)})
        assert again["task"] == {}
        asked = await answer(wire, "tasks/result", DONE)
        assert asked == {"taskId": "t"}  # and no tag
        assert (await calling).text == "done"


@pytest.mark.spec(
    "2025-11-25/basic/utilities/tasks#getting-tasks-2", "2025-11-25/basic/utilities/tasks#ttl-and-resource-management-4"
)
async def test_poll_interval_is_the_one_that_the_server_suggests_within_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    async def pause(running: RunningTask[object], waiting: Task) -> None:
        waits.append(_interval(waiting))

    monkeypatch.setattr(RunningTask, "_pause", pause)
    async with client_of_tasks() as (client, wire):
        client._tools._task_support["t"] = "required"
        calling = asyncio.create_task(client.call_tool("t"))
        await answer(wire, "tools/call", {"task": task(ttl=10**400)})
        for interval in (5000, 0, -3, 10**400, 250):  # no float can be so large
            await answer(wire, "tasks/get", task(ttl=60_000, pollInterval=interval))
        await answer(wire, "tasks/get", task("completed", ttl=60_000))
        await answer(wire, "tasks/result", DONE)
        await calling
        assert waits == [1.0, 5.0, MIN_POLL_SECONDS, MIN_POLL_SECONDS, MAX_POLL_SECONDS, 0.25]


@ERAS
async def test_result_of_a_short_task_comes_before_a_long_poll_interval_is_over(revision: str) -> None:
    server = Server("s")
    server.tasks.poll_interval = 60_000
    server.tool("short", task="required")(lambda: "done")
    async with Client(server, revision=revision) as client:
        async with asyncio.timeout(PATIENCE):
            assert (await client.call_tool("short")).text == "done"


@pytest.mark.spec("2025-11-25/basic/utilities/cancellation#behavior-requirements-4")
async def test_leaving_the_block_closes_all_also_when_that_is_cancelled_while_the_server_is_told_of_a_task() -> None:
    async with client_of_tasks() as (client, wire):
        client._tools._task_support["t"] = "required"
        calling = asyncio.create_task(client.call_tool("t"))
        await answer(wire, "tools/call", {"task": task(ttl=60_000, pollInterval=1)})
        await answer(wire, "tasks/get", task(ttl=60_000, pollInterval=60_000))
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        assert (await wire.receive_object())["method"] == "tasks/cancel"  # which is never answered
        leaving = asyncio.create_task(client.__aexit__())
        for _ in range(20):
            await asyncio.sleep(0)
        assert not wire.closed.is_set()  # it waits for the response
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        await asyncio.wait_for(wire.closed.wait(), PATIENCE)


@pytest.mark.spec(
    "2025-11-25/basic/utilities/tasks#task-status-notification-1,2",
    "2025-11-25/basic/utilities/tasks#task-notifications-1",
)
async def test_client_polls_although_a_status_notification_says_that_the_task_is_complete() -> None:
    async with client_of_tasks() as (client, wire):
        client._tools._task_support["t"] = "required"
        calling = asyncio.create_task(client.call_tool("t"))
        await answer(wire, "tools/call", {"task": task(ttl=60_000, pollInterval=20)})
        told: Object = {"method": "notifications/tasks/status", "params": task("completed", ttl=60_000)}
        await wire.send({"jsonrpc": "2.0", **told})
        await answer(wire, "tasks/get", task("completed", ttl=60_000))
        await answer(wire, "tasks/result", DONE)
        assert (await calling).text == "done"


@pytest.mark.spec("2025-11-25/basic/utilities/tasks#task-listing-3")
async def test_list_tasks_sends_each_cursor_back_unchanged() -> None:
    async with client_of_tasks() as (client, wire):
        listing = asyncio.create_task(client.list_tasks())
        cursors = ["", "after 1", "\u00e4\n"]
        await answer(wire, "tasks/list", {"tasks": [task(ttl=None)], "nextCursor": cursors[0]})
        for cursor, following in itertools.pairwise(cursors):
            more: Object = {"tasks": [task(ttl=None)], "nextCursor": following}
            assert (await answer(wire, "tasks/list", more))["cursor"] == cursor
        assert (await answer(wire, "tasks/list", {"tasks": []}))["cursor"] == cursors[-1]
        assert len(await listing) == 3


@contextlib.asynccontextmanager
async def discovered(**options: object) -> AsyncIterator[tuple[Client, Wire]]:
    """Connect a client of 2026-07-28 to a bare server."""
    given: dict[str, object] = {"revision": "2026-07-28", **options}
    async with raw_server(partial(Client, **given)) as (client, wire):  # type: ignore[arg-type]
        connecting = asyncio.create_task(client.connect())
        declared: Object = {"tools": {}, "extensions": {TASKS_EXTENSION: {}}}
        found: Object = {"supportedVersions": ["2026-07-28"], "capabilities": declared, "ttlMs": 0}
        asked = await answer(wire, "server/discover", {**found, "resultType": "complete", "cacheScope": "public"})
        said = asked["_meta"]["io.modelcontextprotocol/clientCapabilities"]
        assert said["extensions"] == {"io.modelcontextprotocol/tasks": {}}
        await connecting
        yield client, wire


def extended(status: str = "working", **more: object) -> Object:
    return {"resultType": "complete", **task(status, ttlMs=60_000, pollIntervalMs=20, **more)}


CREATED: Object = {**extended(), "resultType": "task"}


async def test_task_as_the_result_of_another_method_is_invalid() -> None:
    async with discovered() as (client, wire):
        with pytest.raises(InvalidMessage, match="'task'"):
            await serve_call(client.list_tools(), wire, CREATED)


async def test_input_request_that_several_responses_contain_is_handled_once() -> None:
    seen: list[str] = []
    go = asyncio.Event()

    async def slow(params: ElicitRequestFormParams | ElicitRequestURLParams) -> ElicitResult:
        seen.append(params.message)
        await go.wait()
        return ElicitResult("accept", {"name": "Ada"})

    async with discovered(elicitation=slow) as (client, wire):
        calling = asyncio.create_task(client.call_tool("t"))
        await answer(wire, "tools/call", CREATED)
        shown = extended("input_required", inputRequests={"k": ELICITATION})
        for _ in range(3):
            await answer(wire, "tasks/get", shown)
        go.set()
        asked = await wire.receive_object()
        while asked["method"] == "tasks/get":
            await wire.send({"jsonrpc": "2.0", "id": asked["id"], "result": shown})
            asked = await wire.receive_object()
        assert asked["method"] == "tasks/update"
        assert asked["params"]["inputResponses"] == {"k": {"action": "accept", "content": {"name": "Ada"}}}
        await wire.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"resultType": "complete"}})
        await answer(wire, "tasks/get", shown)  # the server may be slow to see the response
        await answer(wire, "tasks/get", extended("completed", result=DONE))
        assert (await calling).text == "done" and seen == ["Name?"]


@pytest.mark.parametrize(
    ("shown", "why"),
    [
        ({"k": {"method": "sampling/createMessage", "params": {}}}, "did not declare"),
        ({"k": {"method": "tools/call", "params": {}}}, "did not declare"),
        ({"k": 5}, "must have a method"),
    ],
)
async def test_task_with_a_forbidden_input_request_is_cancelled(shown: Object, why: str) -> None:
    async with discovered(elicitation=user) as (client, wire):
        calling = asyncio.create_task(client.call_tool("t"))
        await answer(wire, "tools/call", CREATED)
        await answer(wire, "tasks/get", extended("input_required", inputRequests=shown))
        assert (await answer(wire, "tasks/cancel", {"resultType": "complete"}))["taskId"] == "t"
        with pytest.raises(InvalidMessage, match=why):
            await calling


async def test_call_ends_although_a_handler_ignores_its_cancellation_after_the_end_of_the_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bounded_waits, "CANCEL_SECONDS", 0.02)
    go = asyncio.Event()

    async def user(question: ElicitRequestFormParams | ElicitRequestURLParams) -> ElicitResult:
        while not go.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await go.wait()
        return ElicitResult("decline")

    async with discovered(elicitation=user) as (client, wire):
        calling = asyncio.create_task(client.call_tool("t"))
        await answer(wire, "tools/call", CREATED)
        await answer(wire, "tasks/get", extended("input_required", inputRequests={"k": ELICITATION}))
        await answer(wire, "tasks/get", extended("completed", result=DONE))
        async with asyncio.timeout(PATIENCE):
            assert (await calling).text == "done"
        go.set()


async def test_input_request_whose_handler_fails_during_tasks_get_cancels_the_task() -> None:
    go, failed = asyncio.Event(), asyncio.Event()

    async def fail(params: ElicitRequestFormParams | ElicitRequestURLParams) -> ElicitResult:
        await go.wait()
        failed.set()
        raise RuntimeError("broken")

    async with discovered(elicitation=fail) as (client, wire):
        calling = asyncio.create_task(client.call_tool("t"))
        await answer(wire, "tools/call", CREATED)
        await answer(wire, "tasks/get", extended("input_required", inputRequests={"k": ELICITATION}))
        asked = await wire.receive_object()
        go.set()
        await failed.wait()
        await wire.send({"jsonrpc": "2.0", "id": asked["id"], "result": extended("input_required")})
        assert (await answer(wire, "tasks/cancel", {"resultType": "complete"}))["taskId"] == "t"
        with pytest.raises(RuntimeError, match="broken"):
            await calling


@pytest.mark.parametrize(
    ("last", "error"),
    [
        (extended("failed", error={"code": -32603, "message": "broken"}), RemoteError),
        (extended("failed", error={}), RemoteError),
        (extended("failed"), InvalidMessage),
        (extended("completed"), InvalidMessage),
        (extended("completed", result={"content": 5}), InvalidMessage),
        (extended("cancelled", statusMessage="why not"), McpError),
        (extended("perhaps"), InvalidMessage),
        ({"resultType": "complete", "taskId": "t"}, InvalidMessage),
    ],
)
async def test_task_that_is_over_without_a_result_is_an_error(last: Object, error: type[Exception]) -> None:
    async with discovered() as (client, wire):
        running = asyncio.create_task(client.start_tool("t"))
        await answer(wire, "tools/call", CREATED)
        ending = asyncio.create_task((await running).result())
        await answer(wire, "tasks/get", last)
        with pytest.raises(error):
            await ending


# ------------------------------------------------------------------------------------------------ tasks of the client's


@KINDS
async def test_server_requests_tasks_only_from_a_client_that_declares_them(kind: str) -> None:
    given = list[TaskMetadata | None]()

    async def noting(params: CreateMessageRequestParams) -> CreateMessageResult:
        given.append(params.task)
        return await model(params)

    for tasks in (True, False):
        async with meet(Work(), kind, "2025-11-25", tasks=tasks, sampling=noting) as client:
            if tasks:
                client.tasks.poll_interval = 20
            assert (await client.call_tool("ask_by_task")).text == "hi {'name': 'Name?'}"
            assert bool(client.tasks.store.page("server", None)[0]) is tasks
    assert given == [TaskMetadata(600_000), None]  # the time limit of a user, in milliseconds


async def test_server_cancels_the_task_of_a_client_that_takes_too_long() -> None:
    ended: asyncio.Queue[str] = asyncio.Queue()

    async def slow(params: CreateMessageRequestParams) -> CreateMessageResult:
        try:
            await asyncio.Event().wait()
        finally:
            ended.put_nowait("stopped")
        raise AssertionError

    work = Work()
    async with meet(work, "memory", "2025-11-25", tasks=True, sampling=slow) as client:
        result = await client.call_tool("ask_briefly")
        assert result.is_error and "not complete after 0.2 seconds" in result.text
        assert await work.has(ended) == "stopped"


@pytest.mark.spec("2025-11-25/basic/utilities/tasks#capabilities-1")
async def test_client_with_tasks_serves_the_requests_about_tasks() -> None:
    go = asyncio.Event()

    async def slow(params: CreateMessageRequestParams) -> CreateMessageResult:
        await go.wait()
        return await model(params)

    options = partial(Client, revision="2025-11-25", sampling=slow, elicitation=user, tasks=True)
    async with raw_server(options) as (client, wire):
        params = await handshake(client, wire)
        requests: Object = {"sampling": {"createMessage": {}}, "elicitation": {"create": {}}}
        assert params["capabilities"]["tasks"] == {"list": {}, "cancel": {}, "requests": requests}
        say: Object = {"messages": [], "maxTokens": 5, "task": {"ttl": 60_000}}
        created = (await wire.ask("sampling/createMessage", say))["result"]
        id = created["task"]["taskId"]
        assert (created["task"]["status"], created["task"]["ttl"]) == ("working", 60_000)
        assert (await wire.ask("tasks/list"))["result"]["tasks"] == [created["task"]]
        go.set()
        told = await wire.receive_object()
        assert (told["method"], told["params"]["status"]) == ("notifications/tasks/status", "completed")
        said = (await wire.ask("tasks/result", {"taskId": id}))["result"]
        assert (said["model"], said["_meta"]) == ("m", {RELATED_TASK: {"taskId": id}})
        assert (await wire.ask("tasks/cancel", {"taskId": id}))["error"]["code"] == -32602
        go.clear()
        created = (await wire.ask("sampling/createMessage", say))["result"]
        await wire.send(request("tasks/cancel", {"taskId": created["task"]["taskId"]}))
        assert (await wire.receive_object())["params"]["status"] == "cancelled"
        assert (await wire.receive_object())["result"]["status"] == "cancelled"


@pytest.mark.spec("2025-11-25/basic/utilities/tasks#task-support-and-handling-1")
async def test_client_without_tasks_ignores_the_task_member_of_a_request() -> None:
    async with raw_session(partial(Client, revision="2025-11-25", sampling=model)) as (_, wire):
        say: Object = {"messages": [], "maxTokens": 5, "task": {"ttl": 60_000}}
        assert (await wire.ask("sampling/createMessage", say))["result"]["model"] == "m"
        assert (await wire.ask("tasks/list"))["error"]["code"] == -32601


@pytest.mark.spec("2025-11-25/basic/utilities/tasks#related-task-metadata-1")
async def test_client_response_repeats_the_related_task_of_the_request() -> None:
    async with raw_session(partial(Client, revision="2025-11-25", elicitation=user)) as (_, wire):
        tag: Object = {RELATED_TASK: {"taskId": "t"}}
        form: Object = {"mode": "form", "message": "Name?", "requestedSchema": FORM, "_meta": tag}
        assert (await wire.ask("elicitation/create", form))["result"]["_meta"] == tag


async def test_running_task_without_a_handler_refuses_an_input_request() -> None:
    async def ask(method: str, params: object, result: type, timeout: float | None) -> object:
        raise AssertionError(method)

    at = "2025-11-25T10:30:00Z"
    asking = Task("t", "input_required", at, at, 5000, input_requests={"k": {"method": "roots/list"}})
    running = RunningTask(ask, R2026_07_28, asking, CallToolResult)  # type: ignore[arg-type]
    with pytest.raises(InvalidMessage, match="no handler serves the request roots/list"):
        await running.result()


@pytest.mark.parametrize("outages", [1, MAX_REPETITIONS, MAX_REPETITIONS + 1])
@pytest.mark.parametrize(
    ("method", "lost"),
    [
        *itertools.product(
            ["tasks/get", "tasks/result", "tasks/update"],
            [ConnectionClosed("the network is away"), RequestTimeout("no response")],
        ),
        *itertools.product(["tasks/get", "tasks/update"], [RemoteError(INTERNAL_ERROR, "the store is away")]),
    ],
    ids=repr,
)
async def test_running_task_repeats_a_request_that_an_outage_has_lost(
    method: str, outages: int, lost: McpError
) -> None:
    is_built_in = method == "tasks/result"
    at = "2025-11-25T10:30:00Z"
    begun = Task("t", "working", at, at, 5000, poll_interval=20)
    if method == "tasks/update":
        begun.input_requests = {"k": {"method": "roots/list"}}
    done = Task("t", "completed", at, at, 5000, poll_interval=20, result={"content": []})
    sent: list[str] = []

    async def send(asked: str, params: object, result: type) -> object:
        sent.append(asked)
        if asked == method and sent.count(method) <= outages:
            raise lost
        if asked == "tasks/get":
            return begun if begun.input_requests and sent.count("tasks/update") <= outages else done
        return result([]) if is_built_in else result()

    async def handle(request: InputRequest) -> Object:
        return {"roots": []}

    revision = R2025_11_25 if is_built_in else R2026_07_28
    running = RunningTask(send, revision, begun, CallToolResult, handle_input=handle)  # type: ignore[arg-type]
    if outages <= MAX_REPETITIONS:
        assert (await running.result(PATIENCE)).content == []
        assert sent.count(method) == outages + 1
    else:
        with pytest.raises(type(lost), match=re.escape(str(lost))):
            await running.result(PATIENCE)
        assert sent.count(method) == MAX_REPETITIONS + 1


async def test_running_task_sends_tasks_result_again_as_long_as_the_task_requires_input() -> None:
    at = "2025-11-25T10:30:00Z"
    states = [Task("t", "input_required", at, at, 5000, poll_interval=20) for _ in range(2 * MAX_REPETITIONS)]
    sent: list[str] = []

    async def send(asked: str, params: object, result: type) -> object:
        sent.append(asked)
        if asked == "tasks/get":
            return states.pop()
        if states:
            raise ConnectionClosed("a proxy ends each long response")
        return result([])

    running = RunningTask(send, R2025_11_25, states.pop(), CallToolResult)  # type: ignore[arg-type]
    assert (await running.result(PATIENCE)).content == []
    assert sent == ["tasks/result", "tasks/get"] * (2 * MAX_REPETITIONS - 1) + ["tasks/result"]


@KINDS
@ERAS
async def test_closing_the_client_ends_the_wait_for_a_task(
    kind: str, revision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Work()
    lost: list[str] = []
    request = Client.request

    async def noting(client: Client, method: str, *arguments: object) -> object:
        try:
            return await request(client, method, *arguments)  # type: ignore[arg-type]
        except ConnectionClosed:
            lost.append(method)
            raise

    monkeypatch.setattr(Client, "request", noting)
    async with meet(work, kind, revision) as client:
        waiting = asyncio.create_task((await client.start_tool("wait")).result())
        await work.begun.get()
    with pytest.raises(ConnectionClosed):
        await waiting
    assert lost in ([], ["tasks/get"])  # which is not repeated


@KINDS
@ERAS
@pytest.mark.parametrize("how", ["closed", "closing", "lost"])
async def test_end_of_the_connection_ends_the_wait_for_a_task_before_the_next_poll(
    kind: str, revision: str, how: str
) -> None:
    work = Work()
    work.server.tasks.poll_interval = 60_000
    async with meet(work, kind, revision) as client:
        waiting = asyncio.create_task((await client.start_tool("wait")).result())
        await work.begun.get()
        if how == "lost":
            client.session.transport_ended(ConnectionClosed("the server has ended"))
            await asyncio.wait([waiting], timeout=PATIENCE)
        elif how == "closing":
            await client.connector.stop_reconnecting()
            await asyncio.wait([waiting], timeout=PATIENCE)
            assert waiting.done()  # after one last poll
    await asyncio.wait([waiting], timeout=PATIENCE)
    assert waiting.done() and isinstance(waiting.exception(), ConnectionClosed)


@pytest.mark.parametrize(
    ("error", "times_asked"),
    [(ConnectionClosed("the network is away"), 1), (RemoteError(INVALID_PARAMS, "the response is not valid"), 2)],
    ids=repr,
)
async def test_result_called_again_repeats_a_lost_response_but_not_a_refused_one(
    error: McpError, times_asked: int
) -> None:
    at = "2025-11-25T10:30:00Z"
    waiting = Task(
        "t", "input_required", at, at, 5000, poll_interval=20, input_requests={"k": {"method": "roots/list"}}
    )
    done = Task("t", "completed", at, at, 5000, poll_interval=20, result={"content": []})
    asked: list[InputRequest] = []
    attempts = iter([error])
    updates: list[object] = []

    async def send(method: str, params: object, result: type) -> object:
        if method == "tasks/get":
            return done if updates else waiting
        for failure in attempts:
            raise failure
        updates.append(params)
        return result()

    async def handle(request: InputRequest) -> Object:
        asked.append(request)
        return {"roots": []}

    ended = asyncio.Event()
    ended.set()
    given: dict[str, object] = {"handle_input": handle, "ended": ended}
    running = RunningTask(send, R2026_07_28, waiting, CallToolResult, **given)  # type: ignore[arg-type]
    with pytest.raises(type(error)):
        await running.result(PATIENCE)
    assert (await running.result(PATIENCE)).content == []
    assert len(asked) == times_asked and len(updates) == 1


async def test_result_raises_the_error_of_an_input_handler_before_the_next_pause() -> None:
    at = "2025-11-25T10:30:00Z"
    questions: Object = {"first": {"method": "roots/list"}, "second": {"method": "roots/list"}}
    waiting = Task("t", "input_required", at, at, 5000, poll_interval=60_000, input_requests=questions)
    polling, failing, handled = asyncio.Event(), asyncio.Event(), list[InputRequest]()

    async def send(method: str, params: object, result: type) -> object:
        if method != "tasks/get":
            return result()
        polling.set()
        await failing.wait()
        return waiting

    async def handle(request: InputRequest) -> Object:
        handled.append(request)
        if len(handled) == 1:
            return {"roots": []}
        await polling.wait()
        failing.set()
        raise ValueError("no roots")

    running = RunningTask(send, R2026_07_28, waiting, CallToolResult, handle_input=handle)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no roots"):
        await asyncio.wait_for(running.result(), PATIENCE)


async def test_result_refuses_an_invalid_result_each_time() -> None:
    async def ask(method: str, params: object, result: type) -> object:
        raise AssertionError(method)

    def check(result: CallToolResult) -> None:
        raise InvalidMessage("not 7")

    at = "2025-11-25T10:30:00Z"
    completed = Task("t", "completed", at, at, 5000, result={"content": []})
    running = RunningTask(ask, R2026_07_28, completed, CallToolResult, check=check)  # type: ignore[arg-type]
    for _ in range(2):
        with pytest.raises(InvalidMessage, match="not 7"):
            await running.result()


@ERAS
async def test_poll_that_a_stopping_process_refuses_is_repeated(revision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    route, refused = StreamableHttpEndpoint._route, list[bytes]()

    def refuse_first_poll(
        endpoint: StreamableHttpEndpoint, exchange: Exchange, checked: CheckedRequest, access: Access
    ) -> Rest:
        if b'"tasks/get"' in exchange.request.body and not refused:
            refused.append(exchange.request.body)
            raise shutting_down()
        return route(endpoint, exchange, checked, access)

    monkeypatch.setattr(StreamableHttpEndpoint, "_route", refuse_first_poll)
    server, go = Server("s"), asyncio.Event()
    server.tasks.poll_interval = 1

    @server.tool(task="required")
    async def wait() -> str:
        await go.wait()
        return "done"

    async with served_over_http(server) as web, Client(web.url, revision=revision) as client:
        running = await client.start_tool("wait")
        waiting = asyncio.create_task(running.result())
        await eventually(lambda: refused)
        go.set()
        assert (await asyncio.wait_for(waiting, PATIENCE)).text == "done"
