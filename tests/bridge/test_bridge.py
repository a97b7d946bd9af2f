"""The bridge: its rows, its keys, several servers, and the death of a server."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from typing import Any, cast

import pytest

from mcp_ref import (
    Budget,
    Client,
    Context,
    ElicitRequestURLParams,
    ElicitResult,
    PromptReference,
    RemoteError,
    Server,
    TextContent,
)
from mcp_ref.bridge.bridge import Bridge
from mcp_ref.features.elicitation import url_required
from mcp_ref.features.task_augmentation import TASKS_EXTENSION
from mcp_ref.jsonrpc.messages import Object
from mcp_ref.transports.memory import memory_pair
from tests.bridge.back import make_back
from tests.bridge.links import busy_server, linked, send, two_users
from tests.bridge.test_held import ALL, CALL, NAME, retry_of
from tests.forked_python import forked
from tests.messages import initialize, notification
from tests.raw_peers import connected_client, raw_client
from tests.settings import PATIENCE, ROOT, eventually

LATEST = "2026-07-28"


async def test_bridge_to_one_server_has_its_name_instructions_and_capabilities() -> None:
    async with linked(make_back("2024-11-05"), "2025-11-25") as (client, _):
        assert (client.server_info.name, client.instructions) == ("back", "Use it well.")
        # completions are not declared before 2025-03-26
        assert client.server_can("resources.subscribe") and client.server_can("completions")
    async with linked(make_back(LATEST), "2024-11-05") as (client, _):
        assert (client.server_info.name, client.instructions) == ("back", "Use it well.")


RAW = [sys.executable, str(ROOT / "tests" / "bridge" / "raw_server.py")]


def back_process(revision: str) -> dict[str, Any]:
    """Return the entry of a server in a process of its own."""
    command, *arguments = forked("-m", "tests.bridge.back", revision)
    return {"command": command, "args": arguments, "cwd": str(ROOT)}


async def test_bridge_between_equal_revisions_keeps_unknown_members() -> None:
    command = forked("-m", "mcp_ref", "bridge", "--", *RAW)
    arguments: Object = {"z": 1, "a": [1, 2.25, "\u2028"], "b": None}
    results, notified = [], []
    for server in (command, RAW):
        client = Client(server, revision="2025-06-18", cwd=ROOT)

        @client.method("notifications/com.example/odd", notification=True)
        def note(params: dict[str, Any]) -> None:
            notified.append(json.dumps(params))

        async with client:
            params: Object = {"name": "strange", "arguments": arguments}
            results.append(await client.session.dispatcher.request("tools/call", params, timeout=10.0))
    assert notified == ['{"x": [1.5], "com.example": null}'] * 2
    assert [json.dumps(result) for result in results] == [json.dumps(results[1])] * 2  # the order of members too
    assert cast(Any, results[0])["content"][0] == {"type": "hologram", "x": 1.5} and results[0]["seen"] == arguments


async def test_bridge_sends_nothing_before_the_response_to_initialize() -> None:
    # The server sends a notification that no specification defines, while the bridge connects to it.
    command = forked("-m", "mcp_ref", "bridge", "--", *RAW)
    bridge = await asyncio.create_subprocess_exec(*command, stdin=-1, stdout=-1, cwd=ROOT)
    assert bridge.stdin is not None and bridge.stdout is not None
    bridge.stdin.write(json.dumps(initialize("2025-06-18")).encode() + b"\n")
    first = json.loads(await bridge.stdout.readline())
    bridge.stdin.close()
    await bridge.wait()
    assert first["id"] == "init" and "result" in first


async def test_bridge_ignores_a_notification_that_comes_before_initialize(caplog: pytest.LogCaptureFixture) -> None:
    async with raw_client(Bridge(servers={"back": make_back("2025-11-25")}).server) as wire:
        await wire.send(notification("notifications/roots/list_changed"))
        await wire.nothing_more()
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


@pytest.mark.parametrize(("front", "code"), [("2024-10-07", -32001), ("2025-06-18", -32002), (LATEST, -32602)])
@pytest.mark.parametrize("back", ["2024-10-07", "2025-06-18", LATEST])
async def test_bridge_translates_the_code_of_an_unknown_resource(front: str, code: int, back: str) -> None:
    async with linked(make_back(back), front) as (client, _):
        with pytest.raises(RemoteError) as refused:
            await client.read_resource("nothing://x")
        assert refused.value.code == code


TASKS: Object = {"extensions": {TASKS_EXTENSION: {}}}


@pytest.mark.parametrize(
    ("front", "back", "method", "params", "capabilities", "code"),
    [
        ("2025-06-18", "2025-11-25", "tasks/get", {"taskId": "x"}, {}, -32601),
        ("2025-11-25", "2025-06-18", "tasks/get", {"taskId": "x"}, {}, -32601),
        ("2025-11-25", LATEST, "logging/setLevel", {"level": "loud"}, {}, -32602),
        (LATEST, "2025-11-25", "logging/setLevel", {"level": "info"}, {}, -32601),
        (LATEST, "2025-11-25", "resources/subscribe", {"uri": "note://1"}, {}, -32601),
        (LATEST, "2025-11-25", "tasks/get", {"taskId": "x"}, {}, -32021),
        (LATEST, "2025-11-25", "tasks/get", {"taskId": 5}, TASKS, -32602),
        (LATEST, "2025-11-25", "com.example/odd", {}, {}, -32601),
        (LATEST, LATEST, "com.example/odd", {}, {}, -32601),
    ],
)
async def test_bridge_refuses_a_request_with_the_code_of_its_fault(
    front: str, back: str, method: str, params: Object, capabilities: Object, code: int
) -> None:
    async with connected_client(
        Bridge(servers={"back": make_back(back)}).server, "memory", front, capabilities
    ) as wire:
        assert (await wire.ask(method, params))["error"]["code"] == code


TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


async def test_bridge_passes_trace_context_on_and_no_fields_of_a_hop() -> None:
    server, seen = Server("back", revisions=["2025-11-25"]), []

    @server.tool()
    async def look(context: Context) -> str:
        seen.append(dict(context.meta))
        return "ok"

    async with linked(server, LATEST) as (client, _):
        await client.call_tool("look", meta={"traceparent": TRACE, "com.example/x": {"a": 1}})
    assert seen == [{"traceparent": TRACE, "com.example/x": {"a": 1}}]


@pytest.mark.attack("bridge-shared-session")
async def test_bridge_keeps_equal_ids_and_tokens_of_two_clients_apart() -> None:
    server = Server("back", revisions=["2025-11-25"])
    both, count = asyncio.Event(), []

    @server.tool()
    async def work(who: str, context: Context) -> str:
        count.append(who)
        if len(count) == 2:
            both.set()
        await both.wait()
        await context.report_progress(1, message=who)
        return who

    async def play(client: Client, who: str) -> list[object]:
        reports: list[object] = []
        result = await client.call_tool("work", {"who": who}, on_progress=lambda *report: reports.append(report[2]))
        return [result.text, *reports]

    bridge = Bridge(servers={"back": server})
    async with Client(bridge, revision="2025-11-25") as one, Client(bridge, revision="2025-11-25") as two:
        assert list(await asyncio.gather(play(one, "a"), play(two, "b"))) == [["a", "a"], ["b", "b"]]


async def test_bridge_cancels_the_call_of_the_right_client() -> None:
    server, events, release = busy_server("2025-11-25")
    bridge = Bridge(servers={"back": server})
    async with Client(bridge, revision="2024-11-05") as one, Client(bridge) as two, asyncio.timeout(10):
        calls = [asyncio.create_task(each.call_tool("work", {"who": who})) for each, who in ((one, "a"), (two, "b"))]
        assert {await events.get(), await events.get()} == {"a began", "b began"}
        calls[1].cancel()
        assert await events.get() == "b cancelled"
        release.set()
        assert (await calls[0]).text == "a"


async def test_bridge_sends_log_messages_of_the_wanted_level_only() -> None:
    server, texts = Server("back", revisions=["2025-11-25"]), []

    @server.tool()
    async def work(context: Context) -> str:
        await context.log("debug", "small")
        await context.log("error", "large")
        return "ok"

    async with linked(server, LATEST, on_log=lambda message: texts.append(message.data)) as (client, _):
        await client.set_logging_level("warning")
        await client.call_tool("work")
    async with linked(server, "2025-11-25", on_log=lambda message: texts.append(message.data)) as (client, _):
        await client.set_logging_level("error")
        await client.call_tool("work")
    assert texts == ["large", "large"]


@pytest.mark.parametrize("front", ["2024-11-05", LATEST])
@pytest.mark.parametrize("back", ["2025-11-25", LATEST])
async def test_bridge_reports_a_changed_list_to_all_clients(front: str, back: str) -> None:
    changed = asyncio.Event()
    async with linked(make_back(back), front, on_tools_changed=changed.set) as (client, _), asyncio.timeout(10):
        await client.call_tool("grow")
        await changed.wait()
        assert "grown" in [tool.name for tool in await client.list_tools()]


@pytest.mark.parametrize("front", ["2025-11-25", LATEST])
async def test_bridge_ends_a_subscription_of_the_server_with_that_of_the_client(front: str) -> None:
    server = make_back("2025-11-25")
    async with linked(server, front) as (client, _):
        async with client.subscribe("note://1"):
            sessions = [each for each in server.catalog.announcers if each.subscribed_uris()]
            assert [list(each.subscribed_uris()) for each in sessions] == [["note://1"]]
        await eventually(lambda: not any(each.subscribed_uris() for each in server.catalog.announcers))


async def test_bridge_accepts_only_the_subscriptions_that_the_server_accepts() -> None:
    async with linked(make_back("2025-11-25"), LATEST) as (client, _):
        with pytest.raises(Exception, match="does not report changes"):
            await client.subscribe("nothing://x").__aenter__()


@pytest.mark.parametrize("front", ["2024-10-07", "2025-11-25", LATEST])
async def test_bridge_lists_all_pages(front: str) -> None:
    server = Server("back", revisions=["2025-11-25"], page_size=2)
    for number in range(5):
        server.tools.add(lambda: "x", f"tool{number}")
    async with linked(server, front) as (client, _):
        assert len(await client.list_tools()) == 5


async def test_bridge_requests_urls_of_a_modern_server_from_a_legacy_client_and_reports_the_end() -> None:
    server, completed = Server("back", revisions=[LATEST]), asyncio.Queue[str]()

    @server.tool()
    async def sign(context: Context) -> str:
        return (await context.elicit_url("Please sign in", "https://example.com/in")).action

    ids = []

    async def visit(request: Any) -> ElicitResult:
        ids.append(request.elicitation_id)
        return ElicitResult("accept")

    options: Any = {"elicitation": visit, "elicitation_url": True, "on_elicitation_complete": completed.put_nowait}
    async with linked(server, "2025-11-25", **options) as (client, _), asyncio.timeout(10):
        assert (await client.call_tool("sign")).text == "accept"
        assert [await completed.get()] == ids


def _server_with_visit() -> Server:
    server = Server("back", revisions=["2025-11-25"])
    visits: list[int] = []

    @server.tool()
    async def sign() -> str:
        visits.append(1)
        if len(visits) < 2:
            raise url_required("Sign in first", [ElicitRequestURLParams("Sign in", "https://example.com/in", "id-1")])
        return "signed"

    return server


async def test_bridge_turns_the_error_32042_into_an_input_request_without_holding_the_call() -> None:
    params: Object = {"name": "sign", "arguments": {}}
    async with linked(_server_with_visit(), LATEST) as (client, bridge):
        first = await send(client, "tools/call", params, ALL)
        assert first["inputRequests"]["id-1"]["params"]["url"] == "https://example.com/in"
        assert not bridge.relay.held.calls
        visited: Object = {"id-1": {"action": "accept"}}
        result = await send(client, "tools/call", retry_of(params, first, visited), ALL)
        assert result["content"][0]["text"] == "signed"


async def test_bridge_gives_an_old_client_the_urls_as_text() -> None:
    async with linked(_server_with_visit(), "2025-06-18") as (client, _):
        with pytest.raises(RemoteError, match=r"https://example\.com/in") as refused:
            await client.call_tool("sign")
        assert refused.value.code == -32603


async def test_bridge_ends_the_call_if_a_legacy_user_refuses_a_modern_server() -> None:
    async def refuse(params: Any) -> Any:
        raise RemoteError(-1, "User rejected sampling request")

    async with linked(make_back(LATEST), "2025-11-25", sampling=refuse) as (client, _):
        with pytest.raises(RemoteError) as refused:
            await client.call_tool("ask_model")
        assert refused.value.code == -32603


async def test_bridge_serves_roots_that_a_server_requests_before_any_call() -> None:
    async with linked(RAW, "2025-06-18", roots=["file:///work"]) as (client, _):
        assert (await client.call_tool("roots")).text == "file:///work"
    async with linked(RAW, LATEST, roots=["file:///work"]) as (client, _):
        await client.list_tools()  # the server has requested the roots before it responds
        assert (await client.call_tool("roots_now")).text == "file:///work"
        assert (await client.call_tool("roots")).text == "file:///work"


# ---------------------------------------------------------------------------------------------------- several servers


async def test_bridge_of_several_servers_has_names_and_uris_for_each() -> None:
    servers = {"one": make_back("2024-11-05"), "Two!": make_back(LATEST)}
    async with linked(servers, LATEST) as (client, _):
        names = [tool.name for tool in await client.list_tools()]
        assert {"one__echo", "Two__echo"} <= set(names) and len(set(names)) == len(names)
        assert (await client.call_tool("Two__echo", {"text": "x"})).text == "x"
        uris = [each.uri for each in await client.list_resources()]
        assert uris == ["mcp://one/file:///list", "mcp://Two/file:///list"]
        found = (await client.read_resource("mcp://one/file:///list")).contents[0]
        assert (found.uri, cast(Any, found).text) == ("mcp://one/file:///list", "listed")
        assert (await client.complete(PromptReference("one__greet"), "name", "b")).values == ["bob"]
        assert [each.uri_template for each in await client.list_resource_templates()] == [
            "mcp://one/note://{id}", "mcp://Two/note://{id}"]  # fmt: skip
        async with client.subscribe("mcp://Two/note://3") as updates, asyncio.timeout(10):
            await client.call_tool("Two__touch", {"uri": "mcp://Two/note://3"})  # the argument is changed back
            assert await anext(updates) == "mcp://Two/note://3"
        with pytest.raises(RemoteError, match="no server has"):
            await client.read_resource("file:///list")


async def test_bridge_of_several_servers_names_the_server_in_each_message_to_the_user() -> None:
    messages = []

    async def answer(request: Any) -> ElicitResult:
        messages.append(request.message)
        return ElicitResult("accept", {"name": "Ann"})

    servers = {"one": make_back("2025-06-18"), "two": make_back(LATEST)}
    for front in ("2025-11-25", LATEST):
        async with linked(servers, front, elicitation=answer) as (client, _):
            await client.call_tool("one__ask_name")
            await client.call_tool("two__ask_name")
    assert messages == ["[one] Your name?", "[two] Your name?"] * 2


async def test_bridge_of_several_servers_serves_the_others_if_one_cannot_start(
    caplog: pytest.LogCaptureFixture,
) -> None:
    servers = {"gone": ["/no/such/program"], "one": make_back("2025-06-18")}
    async with linked(servers, LATEST) as (client, bridge):
        assert (await client.list_tools())[0].name.startswith("one__")
        with pytest.raises(RemoteError, match="gone"):
            await client.call_tool("gone__x")
        assert bridge.server.catalog.tools.parameter_headers("unknown__x") == {}
        assert bridge.status()[0].last_error and "gone could not be started: " in caplog.text


async def test_bridge_offers_only_the_tools_that_the_configuration_allows(tmp_path: Any) -> None:
    entry = {**back_process("2025-06-18"), "includeTools": ["echo"]}
    async with linked({"back": entry}, LATEST) as (client, _):
        assert [tool.name for tool in await client.list_tools()] == ["echo"]
        with pytest.raises(RemoteError, match="Unknown tool"):
            await client.call_tool("add", {"a": 1, "b": 2})


# ---------------------------------------------------------------------------------------------------- principals


@pytest.mark.attack("bridge-stolen-state")
@pytest.mark.breaks("state_is_returned")
async def test_bridge_binds_states_and_clients_to_the_principal() -> None:
    for revision in ("2025-11-25", LATEST):
        async with two_users(make_back(revision)) as (ann, bob, bridge):
            first = await send(ann, "tools/call", CALL, ALL)
            with pytest.raises(RemoteError) as refused:
                await send(bob, "tools/call", retry_of(CALL, first, {"1": NAME}), ALL)
            assert refused.value.code == -32602
            result = await send(ann, "tools/call", retry_of(CALL, first, {"1": NAME}), ALL)
            assert result["content"][0]["text"] == "accept Ann"
            assert len({client.caller.principal for client in bridge.backs["back"].clients}) == 2


@pytest.mark.attack("bridge-foreign-cursor")
async def test_bridge_refuses_the_cursor_of_another_principal() -> None:
    server = Server("back", revisions=[LATEST], page_size=1)
    for number in range(2):
        server.tools.add(lambda: "x", f"tool{number}")
    async with two_users(server) as (ann, bob, _):
        page = await send(ann, "tools/list", {})
        with pytest.raises(RemoteError, match="not issued to this caller"):
            await send(bob, "tools/list", {"cursor": page["nextCursor"]})
        following = await send(ann, "tools/list", {"cursor": page["nextCursor"]})
        assert [tool["name"] for tool in following["tools"]] == ["tool1"]


async def test_bridge_checks_mirrored_headers_of_a_tool_and_makes_its_own() -> None:
    server = Server("back", revisions=[LATEST])
    schema = {"type": "object", "properties": {"city": {"type": "string", "x-mcp-header": "City"}}}

    @server.tool(input_schema=schema)
    async def look(city: str) -> str:
        return city

    async with server.serve_http() as back:
        bridge = Bridge(servers={"back": back})
        async with bridge.server.serve_http() as url, Client(url) as client:
            assert "look" not in bridge.backs["back"].parameter_headers
            with pytest.raises(RemoteError) as refused:  # this client does not know the tool: it sends no header
                await send(client, "tools/call", {"name": "look", "arguments": {"city": "Ghent"}})
            assert refused.value.code == -32020
            await client.list_tools()
            assert (await client.call_tool("look", {"city": "Ghent"})).text == "Ghent"


# ---------------------------------------------------------------------------------------------------- death


@pytest.mark.parametrize("front", ["2025-11-25", LATEST])
@pytest.mark.parametrize("back", ["2025-06-18", LATEST])
async def test_bridge_reports_the_death_of_a_server_at_once_and_starts_it_again(front: str, back: str) -> None:
    reached = asyncio.Event()
    async with linked({"back": back_process(back)}, front) as (client, bridge):

        async def connected(reader: Any, writer: Any) -> None:
            await reader.read(1)
            reached.set()
            await reader.read()
            writer.close()

        async with await asyncio.start_server(connected, "127.0.0.1", 0) as listener, asyncio.timeout(20):
            port = listener.sockets[0].getsockname()[1]
            calling = asyncio.create_task(client.call_tool("sleep", {"port": port}))
            await reached.wait()
            for each in bridge.backs["back"].clients:
                if each.calls:
                    os.kill(cast(Any, each.transport)._process.get_pid(), signal.SIGKILL)
            with pytest.raises(RemoteError, match="not known whether the tool ran"):
                await calling
            assert (await client.call_tool("echo", {"text": "again"})).text == "again"


async def test_bridge_ends_a_held_call_whose_server_dies() -> None:
    async with linked({"back": back_process("2025-06-18")}) as (client, bridge), asyncio.timeout(20):
        first = await send(client, "tools/call", CALL, ALL)
        [held] = bridge.relay.held.calls.values()
        for each in bridge.backs["back"].clients:
            os.kill(cast(Any, each.transport)._process.get_pid(), signal.SIGKILL)
        await held.wait_ended()
        with pytest.raises(RemoteError, match=r"not known whether the tool ran|not held here"):
            await send(client, "tools/call", retry_of(CALL, first, {"1": NAME}), ALL)


@pytest.mark.attack("bridge-restart-loop")
async def test_bridge_does_not_start_a_failing_server_for_every_request() -> None:
    bridge = Bridge(servers={"back": [sys.executable, "-c", "raise SystemExit(3)"]})
    for _ in range(5):
        with pytest.raises(Exception, match="back"):
            async with Client(bridge, revision="2025-11-25", timeout=10.0):
                pass
    assert bridge.backs["back"].starts == 1


@pytest.mark.usefixtures("short_finish")
@pytest.mark.parametrize("turns", range(1, 7))
async def test_bridge_closes_its_connections_although_its_front_is_cancelled_again(turns: int) -> None:
    bridge, ends = Bridge({"back": make_back()}), memory_pair()
    serving = asyncio.create_task(bridge.serve(ends[1]))
    async with Client(ends[0]) as client:
        await client.list_tools()
        assert bridge.status()[0].connections == 1
        for _ in range(2):
            serving.cancel()
            for _ in range(turns):
                await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await serving
    await eventually(lambda: bridge.status()[0].connections == 0)


async def test_bridge_closes_the_client_of_a_session_that_has_ended() -> None:
    bridge = Bridge(servers={"back": make_back("2025-11-25")})
    async with bridge.server.serve_http() as url:
        async with Client(url, revision="2025-11-25") as client:
            await client.list_tools()
            assert len(bridge.backs["back"].clients) == 1
        await eventually(lambda: not bridge.backs["back"].clients)


def test_bridge_with_a_secret_of_the_wrong_type_is_refused_without_the_secret() -> None:
    options: dict[str, Any] = {"state_key": "hunter2", "authorization": "Bearer hunter2"}
    for name, value in options.items():
        with pytest.raises(TypeError, match=name) as refused:
            Bridge(servers={"back": Server("back")}, **{name: value})
        assert "hunter2" not in str(refused.value)


def test_bridge_refuses_a_configuration_without_servers_and_without_clients() -> None:
    with pytest.raises(ValueError, match="at least one server"):
        Bridge(servers={})
    with pytest.raises(ValueError, match="clients must be"):
        Bridge(servers={"a": ["x"]}, clients=0)


async def test_bridge_passes_an_input_request_on_although_the_client_of_an_older_call_has_left() -> None:
    server, begun = Server("back", revisions=["2024-11-05"]), asyncio.Event()

    @server.tool()
    async def count(waits: bool, context: Context) -> str:
        begun.set()
        if waits:
            await asyncio.Event().wait()
        return str(len(await context.list_roots()))

    bridge = Bridge(servers={"back": server})
    async with bridge.server.serve_http() as url, Client(url, revision="2024-10-07", roots=["/"]) as client:
        older = asyncio.create_task(client.call_tool("count", {"waits": True}))
        await begun.wait()
        older.cancel()  # of which a client of this revision cannot tell the server
        await asyncio.wait([older])
        assert (await client.call_tool("count", {"waits": False}, timeout=PATIENCE)).text == "1"


async def test_bridge_status_lists_the_losses() -> None:
    async with linked(make_back(LATEST), "2024-11-05") as (client, bridge):
        await client.list_tools()
        [status] = bridge.status()
        assert (status.revision, status.connections) == (LATEST, 1)
        assert status.losses["Tool.icons is not in 2024-11-05"] == 1


@pytest.mark.breaks("known_elicitation")
@pytest.mark.parametrize("front", ["2025-06-18", LATEST])
async def test_bridge_drops_a_notification_that_the_client_of_another_revision_does_not_know(front: str) -> None:
    server = Server("back", revisions=["2025-11-25"])

    @server.tool()
    async def complete(context: Context) -> str:
        await context.elicitation_complete("visit")
        return "ok"

    async with linked(server, front) as (client, bridge):
        assert (await client.call_tool("complete")).content == [TextContent("ok")]
        lost = "notifications/elicitation/complete outside of a call reaches no client"
        assert bridge.status()[0].losses == {lost: 1}


@pytest.mark.parametrize("front", ["2025-11-25", LATEST])
@pytest.mark.parametrize("back", ["2025-06-18", LATEST])
async def test_bridge_counts_each_call_in_the_budget_and_writes_it_to_the_audit_log(front: str, back: str) -> None:
    lines: list[str] = []
    options = {"budget": Budget(calls=2), "audit": lines.append}
    async with linked(make_back(back), front, options) as (client, _):
        for _ in range(2):
            await client.call_tool("echo", {"text": "x"})
        with pytest.raises(RemoteError, match="the budget calls=2 of the server back is used up"):
            await client.call_tool("echo", {"text": "x"})
    events = [(line["event"], line["name"]) for line in map(json.loads, lines)]
    assert events == [("call", "back.echo")] * 2 + [("budget", "")]


async def test_bridge_refuses_a_call_that_cannot_be_written_to_the_audit_log() -> None:
    def fail(line: str) -> None:
        raise OSError("the disk is full")

    async with linked(make_back(LATEST), LATEST, {"audit": fail}) as (client, _):
        with pytest.raises(RemoteError, match="the audit log cannot be written"):
            await client.call_tool("echo", {"text": "x"})


async def test_bridge_counts_the_rounds_of_one_call_once() -> None:
    lines: list[str] = []
    async with linked(make_back("2025-11-25"), bridge_options={"audit": lines.append}) as (client, _):
        first = await send(client, "tools/call", CALL, ALL)
        await send(client, "tools/call", retry_of(CALL, first, {"1": NAME}), ALL)
    assert len(lines) == 1
