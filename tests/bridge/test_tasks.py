"""Tasks through a bridge: those of the server, and those of the bridge itself between the eras."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mcp_ref import Client, Context, ElicitResult, RemoteError, Server, TextContent
from mcp_ref.bridge.back_client import BackClient
from mcp_ref.bridge.bridge import Bridge
from mcp_ref.features.task_augmentation import RELATED_TASK, TASKS_EXTENSION
from mcp_ref.jsonrpc.messages import Object
from tests.bridge.links import linked, two_users
from tests.settings import eventually

CORE, LATEST = "2025-11-25", "2026-07-28"
MIXED = pytest.mark.parametrize(("front", "back"), [(CORE, LATEST), (LATEST, CORE)])
ALL = pytest.mark.parametrize(("front", "back"), [(CORE, LATEST), (LATEST, CORE), (CORE, CORE), (LATEST, LATEST)])


class Back:
    """A server whose tools run as tasks."""

    def __init__(self, revision: str) -> None:
        self.server = server = Server("back", revisions=[revision], page_size=1)
        server.tasks.poll_interval = 20
        self.began, self.half_done, self.go_on, self.stopped = (asyncio.Event() for _ in range(4))

        @server.tool(task="optional")
        async def ask(question: str, context: Context) -> TextContent:
            result = await context.elicit(question, {"type": "object", "properties": {"name": {"type": "string"}}})
            return TextContent(f"{question} {(result.content or {}).get('name')}")

        @server.tool(task="optional")
        async def wait(context: Context) -> str:
            self.began.set()
            try:
                await self.half_done.wait()
                await context.set_status("half done")
                await self.go_on.wait()
            except asyncio.CancelledError:
                self.stopped.set()
                raise
            return "done"

        @server.tool(task="required")
        async def build(context: Context) -> TextContent:
            await context.elicit("Build it?", {"type": "object", "properties": {}})
            return TextContent("built")

        @server.tool(task="optional")
        def fail() -> None:
            raise ValueError("it broke")


async def _echo(request: Any) -> ElicitResult:
    return ElicitResult("accept", {"name": f"to {request.message}"})


@asynccontextmanager
async def two_principals(back: Server, **options: Any) -> AsyncIterator[tuple[Client, Client]]:
    """Return a context manager with the clients of two principals. The server knows only the bridge's credentials."""
    async with (
        back.serve_http(authenticate=lambda request: "bridge") as url,
        two_users(url, **options) as (ann, bob, _),
    ):
        yield ann, bob


@ALL
async def test_bridge_task_gets_input_and_returns_the_result(front: str, back: str) -> None:
    async with linked(Back(back).server, front, elicitation=_echo) as (client, bridge):
        await client.list_tools()
        running = [await client.start_tool("ask", {"question": name}) for name in ("a", "b", "c")]
        assert all(each.id is not None for each in running)
        texts = [(await each.result()).text for each in running]
        assert texts == ["a to a", "b to b", "c to c"]  # each question has reached its own task
        required = await client.start_tool("build")
        assert required.id is not None and (await required.result()).text == "built"
        assert "CallToolRequestParams.task" not in str(bridge.status()[0].losses)


@MIXED
async def test_bridge_task_of_a_tool_that_fails_has_the_status_of_its_revision(front: str, back: str) -> None:
    async with linked(Back(back).server, front) as (client, _):
        running = await client.start_tool("fail")
        assert (await running.result()).is_error
        task = await client.find_task(cast(str, running.id))
        assert task.task is not None and task.task.status == ("failed" if front == CORE else "completed")


@MIXED
async def test_bridge_task_cancellation_reaches_the_server(
    front: str, back: str, caplog: pytest.LogCaptureFixture
) -> None:
    behind = Back(back)
    async with linked(behind.server, front, elicitation=_echo) as (client, _), asyncio.timeout(10):
        running = await client.start_tool("wait")
        await behind.began.wait()
        await running.cancel()
        await behind.stopped.wait()
        assert (await running.status()).status == "cancelled"  # type: ignore[union-attr]
        asking = await client.start_tool("ask", {"question": "?"})
        while (await asking.status()).status != "input_required":  # type: ignore[union-attr]
            pass
        await asking.cancel()
        await eventually(lambda: not behind.server.tasks.live)
    assert "failed" not in caplog.text  # which would blame the handler of the elicitation


@MIXED
async def test_bridge_task_has_the_status_message_of_the_server(front: str, back: str) -> None:
    behind = Back(back)
    behind.half_done.set()  # so a server of 2025-11-25 sends its notification before the bridge waits for the task
    async with linked(behind.server, front) as (client, _), asyncio.timeout(10):
        running = await client.start_tool("wait")
        while (await running.status()).status_message != "half done":  # type: ignore[union-attr]
            pass


@ALL
async def test_bridge_task_reports_progress(front: str, back: str) -> None:
    seen, go_on = asyncio.Queue[str | None](), asyncio.Event()
    server = Server("back", revisions=[back])
    server.tasks.poll_interval = 20

    @server.tool(task="optional")
    async def work(context: Context) -> str:
        await go_on.wait()  # the task exists
        await context.report_progress(1, 2, "half done")
        await asyncio.Event().wait()
        return "done"

    def note(progress: float, total: float | None, message: str | None) -> None:
        seen.put_nowait(message)

    async with linked(server, front) as (client, _), asyncio.timeout(10):
        running = await client.start_tool("work", on_progress=note)
        go_on.set()
        if front == CORE and back == CORE:
            assert await seen.get() == "half done"
        else:
            while (await running.status()).status_message != "half done":  # type: ignore[union-attr]
                pass


def remove_from_tasks(member: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Remove a member from each task that a server sends to the bridge. Return the methods that the bridge sends."""
    send, sent = BackClient.send, list[str]()

    async def send_and_remove(self: BackClient, method: str, *rest: Any) -> Object:
        sent.append(method)
        result: Any = await send(self, method, *rest)
        result.get("task", result).pop(member, None)
        return cast(Object, result)

    monkeypatch.setattr(BackClient, "send", send_and_remove)
    return sent


@MIXED
async def test_bridge_cancels_a_malformed_task(front: str, back: str, monkeypatch: pytest.MonkeyPatch) -> None:
    behind = Back(back)
    remove_from_tasks("status", monkeypatch)
    async with linked(behind.server, front) as (client, _), asyncio.timeout(10):
        running = await client.start_tool("wait")
        with pytest.raises(RemoteError, match="malformed task"):
            await running.result()
        await behind.stopped.wait()


@MIXED
async def test_bridge_sends_no_cancellation_for_a_malformed_task_without_an_id(
    front: str, back: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    behind, sent = Back(back), remove_from_tasks("taskId", monkeypatch)
    async with linked(behind.server, front) as (client, _), asyncio.timeout(10):
        running = await client.start_tool("wait")
        with pytest.raises(RemoteError, match="malformed task"):
            await running.result()
    assert "tools/call" in sent and "tasks/cancel" not in sent


async def test_bridge_task_ends_with_its_session() -> None:
    behind = Back(LATEST)
    bridge = Bridge(servers={"back": behind.server})
    async with bridge.server.serve_http() as url, asyncio.timeout(10):
        async with Client(url, revision=CORE) as client:
            await client.start_tool("wait")
            await behind.began.wait()
        await behind.stopped.wait()


@MIXED
async def test_bridge_task_fails_if_the_server_dies(front: str, back: str) -> None:
    behind = Back(back)
    async with linked(behind.server, front) as (client, bridge), asyncio.timeout(10):
        running = await client.start_tool("wait")
        await behind.began.wait()
        await bridge.backs["back"].clients[0].session.transport.close()
        with pytest.raises(RemoteError, match="the connection was lost"):
            await running.result()
        assert (await client.find_task(cast(str, running.id))).task.status == "failed"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("front", "back"), [(LATEST, CORE), ("2025-06-18", CORE), (CORE, LATEST), ("2025-06-18", LATEST)]
)
async def test_bridge_awaits_the_task_of_a_tool_that_requires_one(front: str, back: str) -> None:
    behind = Back(back)
    async with linked(behind.server, front, elicitation=_echo) as (client, _):
        for _ in range(2):
            assert (await client.call_tool("build")).text == "built"


@pytest.mark.spec("2025-11-25/basic/utilities/progress#behavior-requirements-3,4")
async def test_bridge_awaits_a_task_without_a_time_limit_and_reports_its_progress(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server, is_awaited, reports = Server("back", revisions=[CORE]), asyncio.Event(), list[object]()

    @server.tool(task="required")
    async def work(context: Context) -> str:
        await is_awaited.wait()
        await context.report_progress(1, 2, "half done")
        return "done"

    @server.middleware
    async def note(request: Any, context: Any, proceed: Any) -> object:
        if request.method == "tasks/result":
            is_awaited.set()
        return await proceed(request)

    async with linked(server, "2025-06-18") as (client, _), asyncio.timeout(10):
        await client.list_tools()
        monkeypatch.setattr("mcp_ref.bridge.exchange.QUICK_REQUEST_SECONDS", 0.0)
        await client.call_tool("work", on_progress=lambda *report: reports.append(report))
    assert reports == [(1, 2, "half done")]


async def test_bridge_awaits_a_task_of_the_server_only_while_its_client_waits() -> None:
    behind = Back(CORE)
    behind.server.tools.remove("wait")

    @behind.server.tool(task="required")
    async def wait() -> None:
        behind.began.set()
        try:
            await asyncio.Event().wait()
        finally:
            behind.stopped.set()

    async with linked(behind.server, "2025-06-18") as (client, _), asyncio.timeout(10):
        calling = asyncio.create_task(client.call_tool("wait"))
        await behind.began.wait()
        calling.cancel()
        await behind.stopped.wait()


@MIXED
async def test_bridge_declares_the_tasks_that_it_runs_itself(front: str, back: str) -> None:
    async with linked(Back(back).server, front) as (client, _):
        tools = await client.list_tools()
        if front == CORE:
            assert client.server_can("tasks.requests.tools.call")
            assert {(tool.execution or {}).get("taskSupport") for tool in tools} == {"optional"}
            running = await client.start_tool("build")
            assert [task.task_id for task in await client.list_tasks()] == [running.id]
        else:
            assert client.server_can(f"extensions.{TASKS_EXTENSION}")


@ALL
async def test_bridge_of_several_servers_offers_no_tasks(front: str, back: str) -> None:
    servers = {"one": Back(back).server, "two": Back(back).server}
    async with linked(servers, front, elicitation=_echo) as (client, _):
        assert not client.server_can("tasks") and not client.server_can("extensions")
        assert "a to " in (await client.call_tool("two__ask", {"question": "a"})).text
        if (front, back) != (LATEST, LATEST):
            assert (await client.call_tool("two__build")).text == "built"
        else:  # between equal revisions, the bridge does not wait for a task of the server
            with pytest.raises(RemoteError, match="two runs this tool only as a task"):
                await client.call_tool("two__build")


@pytest.mark.attack("bridge-foreign-task")
@pytest.mark.breaks("capability_of_receiver")
@ALL
async def test_bridge_binds_tasks_to_the_principal(front: str, back: str) -> None:
    behind = Back(back)
    async with two_principals(behind.server, revision=front, elicitation=_echo) as (ann, bob):
        running = await ann.start_tool("ask", {"question": "a"})
        with pytest.raises(RemoteError) as refused:
            await bob.find_task(cast(str, running.id))
        assert refused.value.code == -32602
        assert (await running.result()).text == "a to a"
        if front == CORE:
            assert ann.server_can("tasks.list") == (back == LATEST)  # a server lists those of all principals
            if back == LATEST:
                assert await bob.list_tasks() == []
            else:
                with pytest.raises(RemoteError, match="keep the ids of your tasks"):
                    await ann.session.dispatcher.request("tasks/list", {}, timeout=5.0)


@pytest.mark.parametrize("back", [CORE, LATEST])
async def test_bridge_passes_task_notifications_to_the_client_that_listens(back: str) -> None:
    behind = Back(back)
    async with two_principals(behind.server) as (ann, bob), asyncio.timeout(10):
        running = await ann.start_tool("wait")
        await behind.began.wait()
        async with listening(ann, [cast(str, running.id), "unknown"]) as (accepted, updates):
            assert accepted == [running.id]
            async with listening(bob, [cast(str, running.id)]) as (others, _):
                assert others == []
            behind.half_done.set()
            behind.go_on.set()
            update = await updates.get()
            while update["status"] == "working":  # with a status message
                update = await updates.get()
            assert (update["taskId"], update["status"]) == (running.id, "completed")
            assert update["result"]["content"][0]["text"] == "done"


@asynccontextmanager
async def listening(client: Client, ids: list[str]) -> AsyncIterator[tuple[list[str], asyncio.Queue[Any]]]:
    """Return a context manager with the accepted ids, and the params of the notifications about their tasks."""
    updates: asyncio.Queue[Any] = asyncio.Queue()
    acknowledged: asyncio.Future[Any] = asyncio.Future()
    session, numbers = client.session, list[Any]()

    def register(id: Any) -> None:
        numbers.append(id)
        session.listeners[id] = receive

    def receive(method: str, params: Any) -> None:
        if method == "notifications/tasks":
            updates.put_nowait(session.codec.encode(params))
        else:
            acknowledged.set_result(params.notifications.task_ids)

    params: Object = {"notifications": {"taskIds": cast(Any, ids)}, "_meta": session.request_meta}
    request = session.dispatcher.request("subscriptions/listen", params, timeout=None, before_send=register)
    task = asyncio.create_task(cast(Any, request))
    try:
        yield await acknowledged, updates
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_bridge_seals_the_ids_in_the_messages_about_a_task() -> None:
    seen: list[Any] = []

    async def note(request: Any) -> ElicitResult:
        seen.append(request.meta["io.modelcontextprotocol/related-task"]["taskId"])
        return ElicitResult("decline")

    async with two_principals(Back(CORE).server, revision=CORE, elicitation=note) as (ann, _):
        session: Any = ann.session
        session.handle_notification = lambda method, params: seen.append(params.task_id)
        running = await ann.start_tool("ask", {"question": "a"})
        await running.result()
        assert set(seen) == {running.id} and len(seen) > 1


@pytest.mark.attack("bridge-foreign-task")
@pytest.mark.parametrize(
    ("task_ids", "related", "found"),
    [
        ([None, "a"], "a", 1), ([None], "gone", None), (["a"], "gone", None), ([None, ""], "new", 1),
        ([None], None, 0), (["a"], None, 0), ([None, None], None, None),
    ],
)  # fmt: skip
def test_bridge_gives_a_message_of_a_task_to_no_call_of_another_task(
    task_ids: list[str | None], related: str | None, found: int | None
) -> None:
    calls: list[Any] = [SimpleNamespace(task_id=id) for id in task_ids]
    client: Any = SimpleNamespace(calls=calls, caller=SimpleNamespace(session=None))
    params: Object = {"_meta": {RELATED_TASK: {"taskId": related}}} if related is not None else {}
    assert BackClient._call_of(client, params) is (None if found is None else calls[found])
