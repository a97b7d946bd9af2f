"""Tasks on the wire: in 2025-11-25, where the client asks for them, and in the extension, where the server decides."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

import pytest

from mcp_ref import Context, MemoryTaskStore, ProtocolError, Server, TextContent, ToolError
from mcp_ref.basic.channel import RequestContext
from mcp_ref.extensions.tasks.types import Task, TaskRequestParams
from mcp_ref.features.task_augmentation import RELATED_TASK, TASKS_EXTENSION
from mcp_ref.jsonrpc.messages import JSON, Object
from mcp_ref.lib.http.message import HttpRequest
from mcp_ref.revisions import LATEST_LEGACY
from mcp_ref.server.http import HttpApp
from mcp_ref.transports.memory import memory_pair
from tests.messages import Received, error_of, initialize, notification, request, result_of, stateless_request
from tests.raw_http_client import RawSession, ServedApp, served_over_http
from tests.raw_peers import Wire, connected_client, raw_client
from tests.settings import PATIENCE, SERVER_TRANSPORTS, STATELESS_TRANSPORTS, eventually

KINDS = pytest.mark.parametrize("kind", SERVER_TRANSPORTS)
ALONE = pytest.mark.parametrize("kind", STATELESS_TRANSPORTS)
ABLE: Object = {"elicitation": {}, "sampling": {}, "roots": {}}
EXTENDED: Object = {**ABLE, "extensions": {TASKS_EXTENSION: {}}}
FORM: Object = {"type": "object", "properties": {"name": {"type": "string"}}}
NOT_FOUND, INVALID, MISSING = -32601, -32602, -32021


@dataclass
class Work:
    """A server whose tools wait until a test lets them go on."""

    server: Server
    begun: asyncio.Queue[str]
    go: asyncio.Event
    ended: asyncio.Queue[str]

    async def has(self, queue: asyncio.Queue[str]) -> str:
        return await asyncio.wait_for(queue.get(), PATIENCE)


def at_work(**options: object) -> Work:
    work = Work(Server("s", **options), asyncio.Queue(), asyncio.Event(), asyncio.Queue())  # type: ignore[arg-type]
    server = work.server

    @server.tool(task="optional")
    async def wait(context: Context, say: str | None = None) -> TextContent:
        if say is not None:
            await context.set_status(say)
            await context.set_status(say)  # which changes nothing, so the client is told once
        work.begun.put_nowait("wait")
        try:
            await work.go.wait()
        except asyncio.CancelledError:
            work.ended.put_nowait("cancelled")
            raise
        work.ended.put_nowait("done")
        return TextContent("done")

    @server.tool(task="optional")
    async def stubborn() -> TextContent:
        work.begun.put_nowait("stubborn")
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        work.ended.put_nowait("went on")
        return TextContent("done all the same")

    server.tool("must", task="required")(lambda: TextContent("a task"))
    server.tool("plain")(lambda: TextContent("plain"))

    @server.tool(task="optional")
    async def ask(context: Context) -> TextContent:
        answer = await context.elicit("Name?", FORM, key="who")
        work.begun.put_nowait("answered")
        await work.go.wait()
        return TextContent(f"{answer.content}")

    @server.tool(task="optional")
    def ask_from_a_thread(context: Context) -> TextContent:
        context.run(context.set_status("in a thread"))
        return TextContent(f"{context.run(context.elicit('Name?', FORM)).content}")

    @server.tool(task="optional")
    async def two(context: Context) -> TextContent:
        found = await context.gather_inputs(
            context.elicit("Name?", FORM, key="a"), context.elicit("Again?", FORM, key="b")
        )
        return TextContent(" ".join(str(getattr(each, "content", each)) for each in found))

    @server.tool(task="optional")
    async def tell(context: Context) -> TextContent:
        await work.go.wait()
        await context.report_progress(1, 2, "halfway")
        await context.log("info", "said")
        return TextContent("told")

    @server.tool(task="optional")
    async def report(context: Context) -> TextContent:
        await context.report_progress(1, 2, "halfway")
        await context.log("info", "said")
        work.begun.put_nowait("report")
        await work.go.wait()
        return TextContent("reported")

    @server.tool(task="required", asks_first=True)
    async def asks_first(context: Context) -> TextContent:
        try:
            first = await context.elicit("Name?", FORM, key="first")
        except asyncio.CancelledError:
            raise ProtocolError(7, "nobody waits for this error") from None
        await context.begin_task()
        second = await context.elicit("Name?", FORM, key="second")
        return TextContent(f"{first.content} {second.content}")

    server.tool("never_begins", task="optional", asks_first=True)(lambda: TextContent("over already"))
    errors = {
        "fail": ToolError("out of paper"),
        "refuse": ProtocolError(7, "not now", {"why": "closed"}),
        "find": ProtocolError(-32002, "not here"),
        "leave": asyncio.CancelledError(),
    }
    for name, error in errors.items():
        server.tool(name, task="optional")(raising(error))
    return work


def raising(error: BaseException) -> Callable[[], Awaitable[TextContent]]:
    async def fail() -> TextContent:
        raise error

    return fail


async def by_authorization(asking: HttpRequest) -> str | None:
    """Take the header as the caller's name."""
    return asking.headers.get("authorization")


class Peer:
    """A bare client that sorts what comes: answers by id, the rest in order."""

    def __init__(self, wire: Wire, capabilities: Object | None = None) -> None:
        self.wire = wire
        self.capabilities = capabilities
        """The capabilities that its requests declare; None for the legacy era."""
        self.told: list[Received] = []
        self.asked: list[Received] = []
        self._answers: dict[JSON, Received] = {}
        self._ids = 0

    async def _take(self) -> None:
        frame = await self.wire.receive_object()
        if "method" not in frame:
            self._answers[frame["id"]] = frame
        else:
            (self.asked if "id" in frame else self.told).append(frame)

    async def begin(self, method: str, params: Object | None = None) -> int:
        """Send a request; gives its id."""
        self._ids += 1
        if self.capabilities is None:
            await self.wire.send(request(method, params or {}, self._ids))
        else:
            await self.wire.send(stateless_request(method, params, self._ids, self.capabilities))
        return self._ids

    async def answer(self, id: JSON) -> Received:
        """Return the response to a request."""
        while id not in self._answers:
            await self._take()
        return self._answers.pop(id)

    async def result(self, id: JSON) -> Received:
        """Return the result of a request."""
        return result_of(await self.answer(id))

    async def ask(self, method: str, params: Object | None = None) -> Received:
        """Send a request; gives its result."""
        return await self.result(await self.begin(method, params))

    async def refused(self, method: str, params: Object | None = None) -> tuple[JSON, str]:
        """Send a request that is refused; gives code and message."""
        error = (await self.answer(await self.begin(method, params)))["error"]
        return error["code"], error["message"]

    async def question(self) -> Received:
        """Return the next request of the server."""
        while not self.asked:
            await self._take()
        return self.asked.pop(0)

    async def respond(self, question: Received, name: str) -> None:
        """Accept an elicitation with a name."""
        await self.wire.send({"jsonrpc": "2.0", "id": question["id"], "result": accept(name)})

    async def news(self, method: str) -> Received:
        """Return the params of the next notification of that name, and drop those before it."""
        while True:
            while not self.told:
                await self._take()
            told = self.told.pop(0)
            if told["method"] == method:
                params: Received = told["params"]
                return params

    async def start(self, tool: str, arguments: Object | None = None, **task: JSON) -> Received:
        """Call a tool as a task; gives the task."""
        params: Object = {"name": tool, "arguments": arguments or {}}
        if self.capabilities is not None:
            created = await self.ask("tools/call", params)
            assert created["resultType"] == "task" and "task" not in created, created
            return created
        created = (await self.ask("tools/call", {**params, "task": {**task}}))["task"]
        return {**created}

    async def get(self, id: JSON) -> Received:
        """Return the state of a task."""
        return await self.ask("tasks/get", {"taskId": id})

    async def until(self, id: JSON, status: str) -> Received:
        """Return the state of a task as soon as it has this status."""
        async with asyncio.timeout(PATIENCE):
            while (task := await self.get(id))["status"] != status:
                assert task["status"] in ("working", "input_required"), task
        return task


@contextlib.asynccontextmanager
async def legacy(work: Work, kind: str = "memory") -> AsyncIterator[Peer]:
    async with connected_client(work.server, kind, capabilities=ABLE) as wire:
        yield Peer(wire)


@contextlib.asynccontextmanager
async def modern(work: Work, kind: str = "memory", capabilities: Object = EXTENDED) -> AsyncIterator[Peer]:
    async with raw_client(work.server, kind) as wire:
        yield Peer(wire, capabilities)


def text_in(result: Received) -> str:
    (block,) = result["content"]
    return str(block["text"])


def related(message: Received) -> str | None:
    """Return the task that a message names as its related task, in its params or its result."""
    task: str | None = message.get("_meta", {}).get(RELATED_TASK, {}).get("taskId")
    return task


def accept(name: str) -> Object:
    return {"action": "accept", "content": {"name": name}}


# ================================================================================================ 2025-11-25


@pytest.mark.spec("2025-11-25/basic/utilities/tasks#capabilities-1")
async def test_tasks_capability_is_declared_by_servers_with_task_tools() -> None:
    async with raw_client(at_work().server) as wire:
        await wire.send(initialize())
        declared = (await wire.receive_object())["result"]["capabilities"]
        assert "extensions" not in declared
        assert declared["tasks"] == {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
        await wire.send(notification("notifications/initialized"))
        support = {tool["name"]: tool.get("execution") for tool in (await Peer(wire).ask("tools/list"))["tools"]}
        assert (support["wait"], support["must"]) == ({"taskSupport": "optional"}, {"taskSupport": "required"})
        assert support["plain"] is None


@pytest.mark.spec("2025-11-25/basic/utilities/tasks#task-support-and-handling-1")
async def test_tools_call_with_task_on_a_server_without_tasks_is_served_directly() -> None:
    server = Server("s")
    server.tool("plain")(lambda: TextContent("plain"))
    async with connected_client(server) as wire:
        peer = Peer(wire)
        assert text_in(await peer.ask("tools/call", {"name": "plain", "task": {"ttl": 5000}})) == "plain"
        for method in ("tasks/get", "tasks/result", "tasks/cancel", "tasks/list"):
            assert (await peer.refused(method, {"taskId": "x"}))[0] == NOT_FOUND


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18"])
async def test_tasks_methods_are_unknown_before_2025_11_25(revision: str) -> None:
    async with connected_client(at_work().server, revision=revision) as wire:
        peer = Peer(wire)
        assert text_in(await peer.ask("tools/call", {"name": "plain", "task": "whatever"})) == "plain"
        assert (await peer.refused("tools/call", {"name": "must", "task": {}}))[0] == NOT_FOUND
        assert (await peer.refused("tasks/get", {"taskId": "x"}))[0] == NOT_FOUND


@KINDS
@pytest.mark.spec(
    "2025-11-25/basic/utilities/tasks#task-id-requirements-2",
    "2025-11-25/basic/utilities/tasks#result-retrieval-1,2,3,5",
    "2025-11-25/basic/utilities/tasks#related-task-metadata-2,3",
    "2025-11-25/basic/utilities/tasks#associating-task-related-messages-6",
    "2025-11-25/basic/utilities/tasks#task-execution-errors-3",
)
async def test_tools_call_as_task_returns_a_task_at_once_and_tasks_result_its_result(kind: str) -> None:
    work = at_work()
    async with legacy(work, kind) as peer:
        created = await peer.start("wait", ttl=60_000)
        assert (created["status"], created["ttl"]) == ("working", 60_000)
        assert await work.has(work.begun) == "wait" and work.ended.empty()
        seen = await peer.get(created["taskId"])
        assert seen == created and related(seen) is None
        work.go.set()
        done = await peer.until(created["taskId"], "completed")
        assert done.keys() - created.keys() == set() and done["createdAt"] == created["createdAt"]
        for _ in range(2):  # as often as one likes
            result = await peer.ask("tasks/result", {"taskId": created["taskId"]})
            assert text_in(result) == "done" and related(result) == created["taskId"]


@KINDS
@pytest.mark.spec(
    "2025-11-25/basic/utilities/tasks#result-retrieval-4", "2025-11-25/basic/utilities/tasks#input-required-status-2"
)
async def test_tasks_result_waits_while_tasks_get_is_served(kind: str) -> None:
    work = at_work()
    async with legacy(work, kind) as peer:
        id = (await peer.start("wait"))["taskId"]
        waiting = [await peer.begin("tasks/result", {"taskId": id}) for _ in range(2)]
        assert (await peer.get(id))["status"] == "working"
        work.go.set()
        for each in waiting:
            assert text_in(await peer.result(each)) == "done"


@pytest.mark.spec("2025-11-25/basic/utilities/tasks#tool-level-negotiation-3,5")
async def test_tools_call_follows_the_task_support_of_the_tool() -> None:
    work = at_work()
    work.go.set()
    async with legacy(work) as peer:
        assert text_in(await peer.ask("tools/call", {"name": "wait"})) == "done"
        assert text_in(await peer.ask("tools/call", {"name": "plain"})) == "plain"
        assert (await peer.refused("tools/call", {"name": "plain", "task": {}}))[0] == NOT_FOUND
        assert (await peer.refused("tools/call", {"name": "must"}))[0] == NOT_FOUND
        id = (await peer.start("must"))["taskId"]
        assert text_in(await peer.ask("tasks/result", {"taskId": id})) == "a task"
        assert (await peer.refused("tools/call", {"name": "none", "task": {}}))[0] == INVALID
        assert (await peer.refused("tools/call", {"name": "wait", "task": {"ttl": "long"}}))[0] == INVALID


@pytest.mark.spec("2025-11-25/basic/utilities/tasks#task-execution-errors-1")
async def test_task_of_a_tool_with_is_error_fails_with_its_result() -> None:
    async with legacy(at_work()) as peer:
        id = (await peer.start("fail"))["taskId"]
        assert (await peer.until(id, "failed"))["statusMessage"] == "out of paper"
        result = await peer.ask("tasks/result", {"taskId": id})
        assert result["isError"] is True and text_in(result) == "out of paper"


@pytest.mark.spec(
    "2025-11-25/basic/utilities/tasks#task-execution-errors-2", "2025-11-25/basic/utilities/tasks#protocol-errors-4"
)
async def test_tasks_result_of_a_failed_request_is_its_error(caplog: pytest.LogCaptureFixture) -> None:
    async with legacy(at_work()) as peer:
        id = (await peer.start("refuse"))["taskId"]
        assert (await peer.until(id, "failed"))["statusMessage"] == "not now"
        answer = await peer.answer(await peer.begin("tasks/result", {"taskId": id}))
        assert answer["error"] == {"code": 7, "message": "not now", "data": {"why": "closed"}}
        id = (await peer.start("leave"))["taskId"]
        await peer.until(id, "failed")
        assert "the handler of a task failed" in caplog.text and "CancelledError" in caplog.text
        assert await peer.refused("tasks/result", {"taskId": id}) == (-32603, "Internal error")


@KINDS
@pytest.mark.spec(
    "2025-11-25/basic/utilities/tasks#task-cancellation-1,2,3", "2025-11-25/basic/utilities/tasks#protocol-errors-3"
)
async def test_tasks_cancel_stops_the_handler_and_returns_the_cancelled_task(kind: str) -> None:
    work = at_work()
    async with legacy(work, kind) as peer:
        id = (await peer.start("wait"))["taskId"]
        await work.has(work.begun)
        waiting = await peer.begin("tasks/result", {"taskId": id})
        cancelled = await peer.ask("tasks/cancel", {"taskId": id})
        assert (cancelled["taskId"], cancelled["status"]) == (id, "cancelled")
        assert await work.has(work.ended) == "cancelled"
        assert "error" in await peer.answer(waiting)
        assert (await peer.get(id))["status"] == "cancelled"
        code, message = await peer.refused("tasks/cancel", {"taskId": id})
        assert code == INVALID and "'cancelled'" in message
        id = (await peer.start("must"))["taskId"]
        await peer.until(id, "completed")
        assert (await peer.refused("tasks/cancel", {"taskId": id}))[0] == INVALID
        assert (await peer.get(id))["status"] == "completed"


@pytest.mark.spec("2025-11-25/basic/utilities/tasks#task-cancellation-4")
async def test_task_stays_cancelled_when_its_handler_goes_on() -> None:
    work = at_work()
    async with legacy(work) as peer:
        id = (await peer.start("stubborn"))["taskId"]
        await work.has(work.begun)
        await peer.ask("tasks/cancel", {"taskId": id})
        assert await work.has(work.ended) == "went on"
        assert (await peer.get(id))["status"] == "cancelled"
        assert (await peer.refused("tasks/result", {"taskId": id}))[0] == INVALID


@pytest.mark.spec("2025-11-25/basic/utilities/tasks#protocol-errors-1,2,5")
async def test_tasks_methods_with_an_unknown_task_are_invalid_params() -> None:
    async with legacy(at_work()) as peer:
        for method in ("tasks/get", "tasks/result", "tasks/cancel"):
            code, message = await peer.refused(method, {"taskId": "none"})
            assert code == INVALID and "no such task" in message
            assert (await peer.refused(method, {}))[0] == INVALID
            assert (await peer.refused(method, {"taskId": 5}))[0] == INVALID
        assert (await peer.refused("tasks/list", {"cursor": "nonsense"}))[0] == INVALID
        assert (await peer.refused("tasks/update", {"taskId": "x", "inputResponses": {}}))[0] == NOT_FOUND


@pytest.mark.spec("2025-11-25/basic/utilities/tasks#associating-task-related-messages-3,5")
async def test_tasks_methods_use_the_task_id_of_the_params_not_of_meta() -> None:
    work = at_work()
    async with legacy(work) as peer:
        first, second = [(await peer.start("wait"))["taskId"] for _ in range(2)]
        said: Object = {"_meta": {RELATED_TASK: {"taskId": second}}}
        assert (await peer.ask("tasks/get", {"taskId": first, **said}))["taskId"] == first
        assert (await peer.ask("tasks/cancel", {"taskId": first, **said}))["taskId"] == first
        assert (await peer.get(second))["status"] == "working"


@pytest.mark.parametrize("kind", ["memory", "http"])
@pytest.mark.spec(
    "2025-11-25/basic/utilities/tasks#task-listing-4",
    "2025-11-25/basic/utilities/tasks#task-isolation-and-access-control-5,6",
)
async def test_tasks_of_another_session_are_unknown(kind: str) -> None:
    work = at_work()
    async with legacy(work, kind) as ours, legacy(work, kind) as theirs:
        mine = [(await ours.start("wait"))["taskId"] for _ in range(3)]
        other = (await theirs.start("wait"))["taskId"]
        for peer, expected, foreign in ((ours, mine, other), (theirs, [other], mine[0])):
            listed = await peer.ask("tasks/list")
            assert "nextCursor" not in listed
            assert [task["taskId"] for task in listed["tasks"]] == expected
            for method in ("tasks/get", "tasks/result", "tasks/cancel"):
                assert (await peer.refused(method, {"taskId": foreign}))[0] == INVALID
        assert (await theirs.get(other))["status"] == "working"
    for _ in range(4):
        assert await work.has(work.ended) == "cancelled"  # their sessions are gone, and so are they


@pytest.mark.spec("2025-11-25/basic/utilities/tasks#task-isolation-and-access-control-1")
async def test_task_of_an_authenticated_principal_is_known_in_all_its_sessions() -> None:
    work = at_work()
    async with served_over_http(work.server, authenticate=by_authorization) as web:
        talks = [RawSession(web, authorization=name) for name in ("ann", "ann", "bob")]
        for talk in talks:
            await talk.handshake()
        created = (await talks[0].post(request("tools/call", {"name": "wait", "task": {}}))).json
        asking = request("tasks/get", {"taskId": created["result"]["task"]["taskId"]})
        assert ["result" in (await talk.post(asking)).json for talk in talks] == [True, True, False]
        await talks[0].delete()  # a session's end is not the principal's
        assert "result" in (await talks[1].post(asking)).json
    assert await work.has(work.ended) == "cancelled"


async def test_task_of_one_era_is_unknown_in_the_other() -> None:
    async with served_over_http(at_work().server, authenticate=by_authorization) as web:
        talk = RawSession(web, authorization="ann")
        await talk.handshake(capabilities=ABLE)
        created = (await talk.post(request("tools/call", {"name": "ask", "task": {}}))).json
        earlier = created["result"]["task"]["taskId"]
        answer: Object = {"taskId": earlier, "inputResponses": {"who": {"action": "decline"}}}
        for method in ("tasks/get", "tasks/update"):
            error_of((await talk.post(stateless_request(method, answer, 2, EXTENDED))).json, INVALID, 2)
        created = (await talk.post(stateless_request("tools/call", {"name": "must"}, 3, EXTENDED))).json
        later = result_of(created)["taskId"]
        listed = result_of((await talk.post(request("tasks/list", {}, 4))).json)["tasks"]
        assert [each["taskId"] for each in listed] == [earlier]
        error_of((await talk.post(request("tasks/result", {"taskId": later}, 5))).json, INVALID, 5)


async def test_task_input_request_is_sent_again_in_the_next_session_of_the_requestor() -> None:
    work = at_work()
    work.go.set()
    async with served_over_http(work.server, authenticate=by_authorization) as web:
        first, second = (RawSession(web, authorization="ann") for _ in range(2))
        for talk in (first, second):
            await talk.handshake(capabilities=ABLE)
        created = (await first.post(request("tools/call", {"name": "ask", "task": {}}))).json
        for talk in (first, second):
            reply = await talk.post(request("tasks/result", {"taskId": created["result"]["task"]["taskId"]}))
            question = await reply.object()
            assert question["method"] == "elicitation/create"
            if talk is first:
                assert (await first.delete()).status == 204
        await second.post({"jsonrpc": "2.0", "id": question["id"], "result": accept("Ada")})
        assert text_in((await reply.object())["result"]) == "{'name': 'Ada'}"


@KINDS
@pytest.mark.spec(
    "2025-11-25/basic/utilities/tasks#input-required-status-4,5,7",
    "2025-11-25/basic/utilities/tasks#associating-task-related-messages-1,2",
)
async def test_task_input_request_is_sent_beside_tasks_result(kind: str) -> None:
    work = at_work()
    async with legacy(work, kind) as peer:
        id = (await peer.start("ask"))["taskId"]
        await peer.until(id, "input_required")
        assert peer.asked == []
        waiting = await peer.begin("tasks/result", {"taskId": id})
        question = await peer.question()
        assert question["method"] == "elicitation/create" and related(question["params"]) == id
        await peer.respond(question, "Ada")
        assert await work.has(work.begun) == "answered"
        assert (await peer.get(id))["status"] == "working"
        work.go.set()
        assert text_in(await peer.result(waiting)) == "{'name': 'Ada'}"


async def test_task_may_send_several_input_requests_also_from_a_worker_thread() -> None:
    async with legacy(at_work()) as peer:
        waiting = await peer.begin("tasks/result", {"taskId": (await peer.start("two"))["taskId"]})
        both = [await peer.question(), await peer.question()]
        for question in reversed(both):
            await peer.respond(question, question["params"]["message"])
        assert text_in(await peer.result(waiting)) == "{'name': 'Name?'} {'name': 'Again?'}"
        id = (await peer.start("ask_from_a_thread"))["taskId"]
        assert (await peer.until(id, "input_required"))["statusMessage"] == "in a thread"
        waiting = await peer.begin("tasks/result", {"taskId": id})
        question = await peer.question()
        await peer.respond(question, "Ada")
        assert text_in(await peer.result(waiting)) == "{'name': 'Ada'}"


@KINDS
async def test_task_input_request_waits_for_the_next_tasks_result(kind: str) -> None:
    work = at_work()
    work.go.set()
    async with legacy(work, kind) as peer:
        await peer.start("wait")
        id = (await peer.start("ask"))["taskId"]
        waiting = await peer.begin("tasks/result", {"taskId": "no such"})
        await peer.answer(waiting)
        await peer.until(id, "input_required")
        waiting = await peer.begin("tasks/result", {"taskId": id})
        question = await peer.question()
        await peer.wire.send(notification("notifications/cancelled", {"requestId": waiting}))
        again = await peer.begin("tasks/result", {"taskId": id})
        # It is still the same question, and its answer counts.
        await peer.respond(question, "Ada")
        assert text_in(await peer.result(again)) == "{'name': 'Ada'}"


@KINDS
@pytest.mark.spec(
    "2025-11-25/basic/utilities/tasks#related-task-metadata-1",
    "2025-11-25/basic/utilities/progress#behavior-requirements-3,4",
)
async def test_task_progress_and_log_messages_name_the_related_task(kind: str) -> None:
    work = at_work()
    async with legacy(work, kind) as peer:
        created = await peer.ask("tools/call", {"name": "tell", "task": {}, "_meta": {"progressToken": "p"}})
        id = created["task"]["taskId"]
        waiting = await peer.begin("tasks/result", {"taskId": id})
        await peer.get(id)  # the request for the result is served by now
        work.go.set()
        progress = await peer.news("notifications/progress")
        assert related(progress) == id and (progress["progressToken"], progress["message"]) == ("p", "halfway")
        said = await peer.news("notifications/message")
        assert related(said) == id and said["data"] == "said"
        assert text_in(await peer.result(waiting)) == "told"


@pytest.mark.spec("2025-11-25/basic/utilities/progress#behavior-requirements-5")
async def test_task_progress_stops_when_the_task_is_cancelled() -> None:
    work = at_work()

    @work.server.tool(task="optional")
    async def late(context: Context) -> TextContent:
        await work.go.wait()
        await context.report_progress(1)
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await context.report_progress(2)
        work.ended.put_nowait("reported")
        return TextContent("late")

    async with legacy(work) as peer:
        created = await peer.ask("tools/call", {"name": "late", "task": {}, "_meta": {"progressToken": "p"}})
        id = created["task"]["taskId"]
        await peer.begin("tasks/result", {"taskId": id})
        await peer.get(id)  # the request for the result is served by now
        work.go.set()
        assert (await peer.news("notifications/progress"))["progress"] == 1
        assert (await peer.ask("tasks/cancel", {"taskId": id}))["status"] == "cancelled"
        assert await work.has(work.ended) == "reported"
        await peer.get(id)
        assert [told for told in peer.told if told["method"] == "notifications/progress"] == []


@KINDS
@pytest.mark.spec("2025-11-25/basic/utilities/tasks#task-notifications-2")
async def test_tasks_status_notification_has_the_task(kind: str) -> None:
    work = at_work()
    async with legacy(work, kind) as peer:
        created = await peer.start("wait", {"say": "warming up"})
        told = await peer.news("notifications/tasks/status")
        assert told["taskId"] == created["taskId"]
        assert (told["status"], told["statusMessage"]) == ("working", "warming up")
        work.go.set()
        told = await peer.news("notifications/tasks/status")
        assert (told["status"], related(told), "_meta" in told) == ("completed", None, False)


@KINDS
async def test_begin_task_after_input_requests_makes_the_task_late(kind: str) -> None:
    async with legacy(at_work(), kind) as peer:
        calling = await peer.begin("tools/call", {"name": "asks_first", "task": {}})
        question = await peer.question()
        assert related(question["params"]) is None
        await peer.respond(question, "Ada")
        created = (await peer.result(calling))["task"]
        assert created["status"] == "working"
        waiting = await peer.begin("tasks/result", {"taskId": created["taskId"]})
        question = await peer.question()
        assert related(question["params"]) == created["taskId"]
        await peer.respond(question, "Bob")
        assert text_in(await peer.result(waiting)) == "{'name': 'Ada'} {'name': 'Bob'}"
        id = (await peer.start("never_begins"))["taskId"]
        assert text_in(await peer.ask("tasks/result", {"taskId": id})) == "over already"


async def test_tools_call_cancelled_before_begin_task_leaves_no_task() -> None:
    work = at_work()
    async with legacy(work) as peer:
        calling = await peer.begin("tools/call", {"name": "asks_first", "task": {}})
        await peer.question()
        await peer.wire.send(notification("notifications/cancelled", {"requestId": calling}))
        assert (await peer.ask("tasks/list"))["tasks"] == [] and work.server.tasks.live == {}


async def test_tools_call_cancelled_before_begin_task_leaves_no_task_even_if_its_tool_goes_on() -> None:
    work = at_work()

    @work.server.tool(task="required", asks_first=True)
    async def goes_on(context: Context) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            work.begun.put_nowait("begun")
            await asyncio.Event().wait()
        work.ended.put_nowait("ended")

    async with legacy(work) as peer:
        calling = await peer.begin("tools/call", {"name": "goes_on", "task": {}})
        await work.has(work.begun)
        await peer.wire.send(notification("notifications/cancelled", {"requestId": calling}))
        await work.has(work.ended)
        assert (await peer.ask("tasks/list"))["tasks"] == [] and work.server.tasks.live == {}


async def test_task_store_that_is_full_refuses_a_new_task() -> None:
    work = at_work(task_store=MemoryTaskStore(max_tasks=2))
    async with legacy(work) as peer:
        for _ in range(2):
            await peer.start("wait")
            await work.has(work.begun)
        code, message = await peer.refused("tools/call", {"name": "wait", "task": {}})
        assert code == -32603 and "retry later" in message
        assert work.begun.empty()
        code, message = await peer.refused("tools/call", {"name": "never_begins", "task": {}})
        assert code == -32603 and "retry later" in message


async def test_task_store_that_fails_gives_the_share_of_the_arguments_back() -> None:
    class BrokenStore(MemoryTaskStore):
        def put(self, task: Task, owner: str, expires_at: float) -> None:
            raise OSError("the disk is full")

    work = at_work(task_store=BrokenStore())
    async with legacy(work) as peer:
        assert (await peer.refused("tools/call", {"name": "wait", "task": {}}))[0] == -32603
        assert work.server.tasks._arguments.used == 0


async def test_task_store_that_is_full_fails_the_task_with_the_result() -> None:
    work = at_work(task_store=MemoryTaskStore(max_bytes=1500))
    work.server.tool("long", task="optional")(lambda: TextContent("x" * 2000))
    async with legacy(work) as peer:
        id = (await peer.start("long"))["taskId"]
        assert "would exceed" in str((await peer.until(id, "failed"))["statusMessage"])
        code, message = await peer.refused("tasks/result", {"taskId": id})
        assert code == -32603 and "would exceed" in message


async def test_task_store_that_is_full_does_not_prevent_cancellation() -> None:
    work = at_work(task_store=MemoryTaskStore(max_bytes=300))
    async with legacy(work) as peer:
        id = (await peer.start("wait"))["taskId"]
        await work.has(work.begun)
        waiting = await peer.begin("tasks/result", {"taskId": id})
        assert (await peer.refused("tasks/cancel", {"taskId": id}))[0] == INVALID  # it is gone, as nobody keeps it
        assert await work.has(work.ended) == "cancelled" and work.server.tasks.live == {}
        assert "error" in await peer.answer(waiting)


@pytest.mark.spec("2025-11-25/basic/utilities/tasks#resource-management-3")
async def test_task_that_expires_is_removed_and_its_handler_cancelled() -> None:
    store = MemoryTaskStore()
    work = at_work(task_store=store)
    async with legacy(work) as peer:
        running = (await peer.start("wait", ttl=1))["taskId"]
        await work.has(work.begun)
        over = (await peer.start("must"))["taskId"]
        await peer.until(over, "completed")
        waiting = await peer.begin("tasks/result", {"taskId": running})
        store._max_bytes = store._bytes  # full: a longer status message would remove the completed task
        assert await work.has(work.ended) == "cancelled"  # after a second, the shortest time there is
        assert "error" in await peer.answer(waiting)
        assert (await peer.refused("tasks/get", {"taskId": running}))[0] == INVALID
        assert (await peer.get(over))["status"] == "completed"


async def test_task_store_shared_by_servers_has_the_tasks_of_all() -> None:
    store = MemoryTaskStore()
    ours, theirs = at_work(task_store=store), at_work(task_store=store)
    theirs.server.tasks.poll_interval = 20
    async with modern(ours) as near, modern(theirs) as far:
        id = (await near.start("ask"))["taskId"]
        asking = await near.until(id, "input_required")
        assert await far.get(id) == {**asking, "_meta": (await far.get(id))["_meta"]}
        for method in ("tasks/update", "tasks/cancel"):
            code, message = await far.refused(method, {"taskId": id, "inputResponses": {"who": accept("Ada")}})
            assert code == -32603 and "another process" in message
        ours.go.set()
        context = RequestContext(Nobody(), 1, None)  # type: ignore[arg-type]
        waiting = asyncio.create_task(theirs.server.tasks.result(TaskRequestParams(str(id)), context))
        await near.ask("tasks/update", {"taskId": id, "inputResponses": {"who": accept("Ada")}})
        async with asyncio.timeout(PATIENCE):
            assert text_in((await waiting).payload) == "{'name': 'Ada'}"
        assert (await far.get(id))["status"] == "completed"
        await far.ask("tasks/cancel", {"taskId": id})


class Nobody:
    """The channel of a legacy requestor whose name is not known."""

    revision = LATEST_LEGACY
    task_owner = ""


@KINDS
async def test_tasks_are_stopped_with_the_last_session(kind: str) -> None:
    work = at_work()
    for meet in (legacy, modern) if kind in STATELESS_TRANSPORTS else (legacy,):
        async with meet(work, kind) as peer:
            await peer.start("wait")
            await peer.start("ask")
            await work.has(work.begun)
        assert await work.has(work.ended) == "cancelled"
        assert work.server.tasks.live == {} and asyncio.all_tasks() == {asyncio.current_task()}


@KINDS
async def test_tasks_of_a_session_without_a_principal_end_with_it_and_those_of_others_go_on(kind: str) -> None:
    work = at_work()
    async with legacy(work, kind) as theirs:
        other = (await theirs.start("wait"))["taskId"]
        async with legacy(work, kind) as ours:
            await ours.start("wait")
        await eventually(lambda: [*work.server.tasks.live] == [other])


@pytest.mark.parametrize("methods", [["page"], ["remove"], ["put", "remove"], ["put", "page", "remove"]])
async def test_session_whose_store_of_tasks_fails_at_its_end_stops_its_tasks_and_is_forgotten(
    methods: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*args: object) -> None:
        raise OSError("the disk is full")

    store = MemoryTaskStore()
    work = at_work(task_store=store)
    async with legacy(work) as peer:
        for _ in range(2):
            await peer.start("wait")
            await work.has(work.begun)
        for method in methods:
            monkeypatch.setattr(store, method, fail)
    assert [await work.has(work.ended) for _ in range(2)] == ["cancelled", "cancelled"]
    assert not work.server.catalog.service.members and not work.server.tasks.live
    assert "the store of tasks has failed" in caplog.text


async def test_task_that_is_stopped_before_its_handler_begins_leaves_no_coroutine_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = MemoryTaskStore()
    work, put = at_work(task_store=store), store.put

    def stop_at_once(task: Task, owner: str, expires_at: float) -> None:
        put(task, owner, expires_at)
        if not task.is_over:
            asyncio.get_running_loop().call_soon(lambda: work.server.tasks.live[task.task_id].stop("at once"))

    monkeypatch.setattr(store, "put", stop_at_once)
    async with legacy(work) as peer:
        id = (await peer.start("wait"))["taskId"]
        assert (await peer.get(id))["status"] == "cancelled"
    assert work.begun.empty()


async def test_task_that_cleans_up_is_waited_for_with_the_last_session() -> None:
    work, tidied = at_work(), asyncio.Event()

    @work.server.tool(task="optional")
    async def tidy() -> None:
        work.begun.put_nowait("tidy")
        try:
            await asyncio.Event().wait()
        finally:
            await work.go.wait()
            tidied.set()

    async with legacy(work) as peer:
        id = (await peer.start("tidy"))["taskId"]
        await work.has(work.begun)
        await peer.ask("tasks/cancel", {"taskId": id})
        asyncio.get_running_loop().call_later(0.05, work.go.set)
    assert tidied.is_set() and asyncio.all_tasks() == {asyncio.current_task()}


async def test_task_that_begins_while_the_http_server_stops_is_stopped() -> None:
    work = at_work()

    @work.server.tool(task="optional", asks_first=True)
    async def late(context: Context) -> None:
        work.begun.put_nowait("late")
        await work.go.wait()
        await context.begin_task()
        try:
            await asyncio.Event().wait()
        finally:
            work.ended.put_nowait("late")

    serving = work.server.serve_http()
    port = urlsplit(await serving.__aenter__()).port
    [site] = work.server.catalog.service.members
    assert isinstance(site, HttpApp)
    web = ServedApp(site, ("127.0.0.1", port or 0))
    reply = await RawSession(web).send(stateless_request("tools/call", {"name": "late"}, capabilities=EXTENDED))
    await work.has(work.begun)
    stopping = asyncio.create_task(serving.__aexit__(None, None, None))
    await eventually(lambda: site._endpoint.table.is_closing)
    work.go.set()  # the site is closed, and answers under way have their grace
    assert (await web.take(reply)).status == 200
    await asyncio.wait_for(stopping, PATIENCE)
    assert work.ended.get_nowait() == "late" and work.server.tasks.live == {}
    await web.close()


# ================================================================================================ the extension


async def test_tasks_extension_is_declared_by_servers_with_task_tools() -> None:
    async with modern(at_work()) as peer:
        declared = (await peer.ask("server/discover"))["capabilities"]
        assert "tasks" not in declared and declared["extensions"] == {"io.modelcontextprotocol/tasks": {}}
        assert not any("execution" in tool for tool in (await peer.ask("tools/list"))["tools"])
    async with raw_client(Server("s")) as wire:
        peer = Peer(wire, EXTENDED)
        assert "extensions" not in (await peer.ask("server/discover"))["capabilities"]
        assert (await peer.refused("tasks/get", {"taskId": "x"}))[0] == NOT_FOUND


async def test_tasks_extension_undeclared_client_gets_the_result_or_missing_capability() -> None:
    work = at_work()
    work.go.set()
    async with modern(work, capabilities=ABLE) as peer:
        result = await peer.ask("tools/call", {"name": "wait", "task": {"ttl": 5}})
        assert (result["resultType"], text_in(result)) == ("complete", "done")
        asked: list[tuple[str, Object]] = [
            ("tools/call", {"name": "must"}),
            ("tasks/get", {"taskId": "x"}),
            ("tasks/update", {"taskId": "x", "inputResponses": {}}),
            ("tasks/cancel", {"taskId": "x"}),
            ("subscriptions/listen", {"notifications": {"taskIds": ["x"]}}),
        ]
        for method, params in asked:
            error = (await peer.answer(await peer.begin(method, params)))["error"]
            assert error["code"] == MISSING, method
            assert error["data"] == {"requiredCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}}


@ALONE
async def test_tasks_extension_tools_call_becomes_a_task_and_tasks_get_has_the_result(kind: str) -> None:
    work = at_work()
    async with modern(work, kind) as peer:
        created = await peer.start("wait", {"say": "warming up"})
        assert created["status"] == "working" and (created["ttlMs"], created["pollIntervalMs"]) == (3_600_000, 1000)
        assert not created.keys() & {"ttl", "pollInterval", "result", "error", "inputRequests", "requestState"}
        await work.has(work.begun)
        seen = await peer.get(created["taskId"])
        assert (seen["resultType"], seen["status"], seen["statusMessage"]) == ("complete", "working", "warming up")
        work.go.set()
        done = await peer.until(created["taskId"], "completed")
        # the result that the request itself would have had, with its type, but without the related task
        assert done["result"] == {"resultType": "complete", "content": [{"type": "text", "text": "done"}]}
        assert done["resultType"] == "complete" and "error" not in done
        for method in ("tasks/result", "tasks/list"):
            assert (await peer.refused(method, {"taskId": created["taskId"]}))[0] == NOT_FOUND
        assert text_in(await peer.ask("tools/call", {"name": "plain", "task": 5})) == "plain"


async def test_tasks_extension_is_error_completes_and_a_json_rpc_error_fails() -> None:
    async with modern(at_work()) as peer:
        done = await peer.until((await peer.start("fail"))["taskId"], "completed")
        assert done["result"]["isError"] is True
        failed = await peer.until((await peer.start("refuse"))["taskId"], "failed")
        assert failed["error"] == {"code": 7, "message": "not now", "data": {"why": "closed"}}
        assert "result" not in failed and failed["statusMessage"] == "not now"
        absent = await peer.until((await peer.start("find"))["taskId"], "failed")
        assert absent["error"] == {"code": -32602, "message": "not here"}


@ALONE
async def test_tasks_extension_input_requests_are_in_tasks_get_and_tasks_update_has_responses(kind: str) -> None:
    work = at_work()
    work.go.set()
    async with modern(work, kind) as peer:
        id = (await peer.start("ask"))["taskId"]
        for _ in range(2):  # the same question, as often as one looks
            asking = await peer.until(id, "input_required")
            assert asking["inputRequests"].keys() == {"who"}
            assert asking["inputRequests"]["who"]["method"] == "elicitation/create"
        wrong: list[Object] = [{"who": {"action": "perhaps"}}, {"who": 5}]
        for answers in wrong:
            assert (await peer.refused("tasks/update", {"taskId": id, "inputResponses": answers}))[0] == INVALID
        without: list[Object] = [{}, {"else": accept("Bob")}]
        for answers in without:
            ack = await peer.ask("tasks/update", {"taskId": id, "inputResponses": answers})
            assert ack.keys() == {"resultType", "_meta"} and ack["resultType"] == "complete"
        assert (await peer.get(id))["status"] == "input_required"
        await peer.ask("tasks/update", {"taskId": id, "inputResponses": {"who": accept("Ada")}})
        done = await peer.until(id, "completed")
        assert text_in(done["result"]) == "{'name': 'Ada'}" and "inputRequests" not in done
        await peer.ask("tasks/update", {"taskId": id, "inputResponses": {"who": accept("Bob")}})
        assert await peer.get(id) == done
        assert (await peer.refused("tasks/update", {"taskId": "x", "inputResponses": {}}))[0] == INVALID


async def test_tasks_extension_input_requests_may_get_responses_one_by_one() -> None:
    async with modern(at_work()) as peer:
        id = (await peer.start("two"))["taskId"]
        asking = await peer.until(id, "input_required")
        assert asking["inputRequests"].keys() == {"a", "b"}
        await peer.ask("tasks/update", {"taskId": id, "inputResponses": {"b": accept("B")}})
        asking = await peer.get(id)
        assert asking["status"] == "input_required" and isinstance(asking["inputRequests"], dict)
        assert asking["inputRequests"].keys() == {"a"}
        await peer.ask("tasks/update", {"taskId": id, "inputResponses": {"a": accept("A"), "b": accept("no")}})
        assert text_in((await peer.until(id, "completed"))["result"]) == "{'name': 'A'} {'name': 'B'}"


@ALONE
async def test_tasks_extension_tasks_cancel_is_acknowledged_in_every_status(kind: str) -> None:
    work = at_work()
    async with modern(work, kind) as peer:
        id = (await peer.start("wait"))["taskId"]
        await work.has(work.begun)
        for _ in range(2):
            ack = await peer.ask("tasks/cancel", {"taskId": id})
            assert ack.keys() == {"resultType", "_meta"} and ack["resultType"] == "complete"
            assert (await peer.get(id))["status"] == "cancelled"
        assert await work.has(work.ended) == "cancelled"
        asking = (await peer.start("ask"))["taskId"]
        await peer.until(asking, "input_required")
        await peer.ask("tasks/cancel", {"taskId": asking})
        seen = await peer.get(asking)
        assert seen["status"] == "cancelled" and not seen.keys() & {"inputRequests", "result", "error"}
        assert (await peer.refused("tasks/cancel", {"taskId": "x"}))[0] == INVALID


@pytest.mark.parametrize("kind", ["memory", "stdio"])
async def test_tasks_extension_notifications_cancelled_for_the_first_request_is_ignored(kind: str) -> None:
    work = at_work()
    async with modern(work, kind) as peer:
        id = (await peer.start("wait"))["taskId"]
        await peer.wire.send(notification("notifications/cancelled", {"requestId": 1}))
        assert (await peer.get(id))["status"] == "working"


@ALONE
async def test_subscriptions_listen_with_task_ids_sends_the_whole_task(kind: str) -> None:
    work = at_work()
    async with modern(work, kind) as peer:
        id = (await peer.start("ask"))["taskId"]
        await peer.until(id, "input_required")
        other = (await peer.start("wait"))["taskId"]
        listening = await peer.begin("subscriptions/listen", {"notifications": {"taskIds": [id, "none"]}})
        acknowledged = await peer.news("notifications/subscriptions/acknowledged")
        assert acknowledged["notifications"] == {"taskIds": [id]}
        await peer.ask("tasks/cancel", {"taskId": other})  # nobody is told
        await peer.ask("tasks/update", {"taskId": id, "inputResponses": {"who": accept("Ada")}})
        told = await peer.news("notifications/tasks")
        assert (told["taskId"], told["status"]) == (id, "working")
        assert told["_meta"]["io.modelcontextprotocol/subscriptionId"] == listening
        work.go.set()
        told = await peer.news("notifications/tasks")
        assert told["status"] == "completed" and text_in(told["result"]) == "{'name': 'Ada'}"
        assert {key: told[key] for key in told if key != "_meta"} == {
            key: value for key, value in (await peer.get(id)).items() if key not in ("_meta", "resultType")
        }


async def test_tasks_extension_progress_message_becomes_the_status_message() -> None:
    work = at_work()
    async with modern(work) as peer:
        for token, message in (({"progressToken": "p"}, "halfway"), ({}, None)):
            params: Object = {"name": "report"}
            await peer.wire.send(stateless_request("tools/call", params, "call", EXTENDED, logLevel="debug", **token))
            created = await peer.result("call")
            await work.has(work.begun)
            assert (await peer.get(created["taskId"])).get("statusMessage") == message
        assert peer.told == []  # neither progress nor log messages are for tasks


async def test_handler_can_close_its_stream_until_its_task_begins() -> None:
    work, closed = at_work(), list[bool]()

    @work.server.tool(task="optional", asks_first=True)
    async def let_go(context: Context) -> TextContent:
        closed.append(context.close_stream())
        await context.begin_task()
        closed.append(context.close_stream())
        return TextContent("done")

    async with served_over_http(work.server) as web:
        talk = RawSession(web)
        await talk.handshake("2025-11-25")
        reply = await talk.post(request("tools/call", {"name": "let_go", "arguments": {}, "task": {}}))
        assert await reply.messages() == []  # the client resumes the stream for the response
    assert closed == [True, False]


@pytest.mark.parametrize("method", ["log", "report_progress", "notify"])
@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_handler_with_task_waits_while_its_client_does_not_read(era: str, method: str) -> None:
    work = at_work()

    @work.server.tool(task="optional", asks_first=era == "modern")  # in the modern era, before the task begins
    async def talk_on(context: Context) -> TextContent:
        for number in range(100):
            if method == "log":
                await context.log("info", "x" * 10_000)
            elif method == "report_progress":
                await context.report_progress(number, message="x" * 10_000)
            else:
                await context.notify("com.example/x", {"text": "x" * 10_000}, extension=TASKS_EXTENSION)
            work.begun.put_nowait(f"{number}")
        return TextContent("said")

    ours, theirs = memory_pair()
    serving = asyncio.create_task(work.server.serve(theirs))
    params: Object = {"name": "talk_on", "arguments": {}, "_meta": {"progressToken": "t"}}
    messages: list[Object] = [stateless_request("tools/call", params, 1, EXTENDED, logLevel="debug", progressToken="t")]
    if era == "legacy":
        opening = [initialize("2025-11-25", ABLE), notification("notifications/initialized")]
        messages = [*opening, request("tools/call", {**params, "task": {}})]
    for message in messages:
        ours._outbox.put(json.dumps(message).encode())
    await work.has(work.begun)
    for _ in range(100):
        await asyncio.sleep(0)
    assert work.begun.qsize() < 20
    await ours.close()
    await serving


async def test_task_that_ends_cancels_its_open_input_requests() -> None:
    work, asking = at_work(), list[asyncio.Task[object]]()

    @work.server.tool(task="optional")
    async def leave_open(context: Context) -> TextContent:
        asking.append(asyncio.create_task(context.elicit("Name?", FORM)))
        await work.go.wait()
        return TextContent("done")

    async with modern(work) as peer:
        id = (await peer.start("leave_open"))["taskId"]
        await peer.until(id, "input_required")
        work.go.set()
        assert "inputRequests" not in await peer.until(id, "completed")
        await eventually(asking[0].cancelled)


@ALONE
async def test_tasks_extension_input_before_begin_task_uses_retries_and_later_tasks_get(kind: str) -> None:
    async with modern(at_work(), kind) as peer:
        first = await peer.ask("tools/call", {"name": "asks_first"})
        assert first["resultType"] == "input_required" and "taskId" not in first
        again: Object = {"inputResponses": {"first": accept("Ada")}, "requestState": first["requestState"]}
        created = await peer.ask("tools/call", {"name": "asks_first", **again})
        assert created["resultType"] == "task" and not created.keys() & {"requestState", "inputRequests"}
        asking = await peer.until(created["taskId"], "input_required")
        assert asking["inputRequests"].keys() == {"second"}
        answers: Object = {"second": accept("Bob")}
        await peer.ask("tasks/update", {"taskId": created["taskId"], "inputResponses": answers})
        done = await peer.until(created["taskId"], "completed")
        assert text_in(done["result"]) == "{'name': 'Ada'} {'name': 'Bob'}"
        at_once = await peer.ask("tools/call", {"name": "never_begins"})
        assert at_once["resultType"] == "complete" and text_in(at_once) == "over already"


async def test_begin_task_while_an_elicitation_ends_the_handler_fails_the_task() -> None:
    work = at_work()

    @work.server.tool(task="optional", asks_first=True)
    async def too_early(context: Context) -> None:
        asking = asyncio.create_task(context.elicit("Name?", FORM))
        await asyncio.sleep(0)  # `asking` has no task yet, so it needs a retry, which a task cannot have
        await context.begin_task()
        await asking

    async with modern(work) as peer:
        created = await peer.ask("tools/call", {"name": "too_early"})
        failed = await peer.until(created["taskId"], "failed")
        assert failed["error"] == {"code": -32603, "message": "Internal error"}


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
async def test_tasks_extension_mcp_name_header_has_the_task_id(method: str) -> None:
    async with served_over_http(at_work().server) as web:
        asking = stateless_request(method, {"taskId": "abc", "inputResponses": {}}, 1, EXTENDED)
        for name, code in (("abc", INVALID), ("abd", -32020), (None, -32020)):
            reply = await RawSession(web).post(asking, Mcp_Name=name)
            assert reply.json["error"]["code"] == code
            assert reply.status == (400 if code == -32020 else 200)
