"""Faults around the bridge: servers that flood, loop or die, and clients that vanish."""

from __future__ import annotations

import asyncio
import sys
from typing import Any, cast

import pytest

from mcp_ref import Client, ElicitResult, McpError, RemoteError, Server, TextContent
from mcp_ref.bridge.backs import MAX_CLIENTS
from mcp_ref.bridge.bridge import Bridge
from mcp_ref.host.supervisor import MAX_PAGES
from mcp_ref.jsonrpc.messages import Object
from tests.bridge.back import make_back
from tests.bridge.links import busy_server, linked, send
from tests.bridge.test_held import ALL, CALL
from tests.settings import PATIENCE, ROOT

LATEST = "2026-07-28"


def dying_at(method: str, written: int = 0) -> dict[str, Any]:
    """Return the entry of a server that ends at the first request of a method in each life.

    Before its end, it writes the beginning of a response, up to a length in characters.
    """
    script = (
        "import json, os, sys\n"
        "for line in sys.stdin:\n"
        "    message = json.loads(line)\n"
        "    method, id = message.get('method'), message.get('id')\n"
        f"    if method == {method!r}:\n"
        "        response = json.dumps({'jsonrpc': '2.0', 'id': id, 'result': {'content': []}})\n"
        f"        print(end=response[:{written}], flush=True)\n"
        "        os._exit(1)\n"
        "    if method == 'initialize':\n"
        "        result = {'protocolVersion': '2025-11-25', 'serverInfo': {'name': 'd', 'version': '1'},\n"
        "                  'capabilities': {'tools': {}, 'resources': {'subscribe': True}, 'prompts': {},\n"
        "                                   'tasks': {'requests': {'tools': {'call': {}}}}}}\n"
        "    elif method == 'tools/list': result = {'tools': [{'name': 't', 'inputSchema': {'type': 'object'}}]}\n"
        "    elif id is None: continue\n"
        "    else: print(json.dumps({'jsonrpc': '2.0', 'id': id, 'error': {'code': -32601, 'message': 'no'}}),\n"
        "                flush=True); continue\n"
        "    print(json.dumps({'jsonrpc': '2.0', 'id': id, 'result': result}), flush=True)\n"
    )
    return {"command": sys.executable, "args": ["-c", script]}


@pytest.mark.parametrize(
    ("method", "play"),
    [
        ("tools/list", lambda client: client.list_tools()),
        ("tools/call", lambda client: client.call_tool("t")),
        ("prompts/get", lambda client: client.get_prompt("p")),
        ("resources/read", lambda client: client.read_resource("a://b")),
        ("resources/subscribe", lambda client: client.subscribe("a://b").__aenter__()),
        ("tasks/get", lambda client: client.find_task("x")),
    ],
)
@pytest.mark.breaks("unknown_task")
async def test_bridge_reports_a_server_that_dies_at_a_request_and_lives_on(method: str, play: Any) -> None:
    async with linked({"back": dying_at(method)}, "2025-11-25") as (client, bridge):
        with pytest.raises(McpError):
            await asyncio.wait_for(play(client), PATIENCE)
        if method != "tools/list":
            assert [tool.name for tool in await client.list_tools()] == ["t"]
        assert bridge.backs["back"].starts <= 3


@pytest.mark.parametrize("revision", ["2025-11-25", LATEST])
async def test_bridge_names_a_server_that_dies_in_the_middle_of_a_response(revision: str) -> None:
    async with linked({"back": dying_at("tools/call", 50)}, revision) as (client, _):
        with pytest.raises(RemoteError, match=r"back: .*it is not known whether the tool ran"):
            await client.call_tool("t")


@pytest.mark.parametrize("revision", ["2025-11-25", LATEST])
async def test_bridge_says_that_a_tool_did_not_run_if_its_server_could_not_be_reached(revision: str) -> None:
    serving = make_back(revision).serve_http()
    async with linked({"back": {"url": await serving.__aenter__()}}) as (client, _):
        assert (await client.call_tool("echo", {"text": "x"})).text == "x"
        await serving.__aexit__(None, None, None)
        with pytest.raises(RemoteError, match="back: the server could not be reached; the tool did not run"):
            await client.call_tool("echo", {"text": "x"})


@pytest.mark.parametrize("front", ["2025-11-25", LATEST])
async def test_bridge_does_not_say_that_a_tool_did_not_run_if_it_has_required_input_before(front: str) -> None:
    serving = make_back(LATEST).serve_http()

    async def stop_server(request: object) -> ElicitResult:
        await serving.__aexit__(None, None, None)
        return ElicitResult("accept", {"name": "x"})

    async with linked({"back": {"url": await serving.__aenter__()}}, front, elicitation=stop_server) as (client, _):
        with pytest.raises(RemoteError, match=r"back: .*; it is not known whether the tool ran"):
            await client.call_tool("ask_name")


async def test_bridge_reports_a_server_that_dies_in_the_handshake() -> None:
    bridge = Bridge(servers={"back": dying_at("initialize")})
    for reason in ("back could not be started", "back failed to start .*, and is tried again in"):
        with pytest.raises(RemoteError, match=reason):
            await Client(bridge, revision="2025-11-25").connect()


@pytest.mark.breaks("cursor_moves")
async def test_bridge_lists_an_endless_server_for_a_client_without_pages_only_to_the_limit() -> None:
    server = make_back("2025-11-25")

    @server.middleware
    async def endless(request: Any, context: Any, proceed: Any) -> object:
        if request.method != "tools/list":
            return await proceed(request)
        request.params.cursor = None
        result = await proceed(request)
        result.next_cursor = "again"
        return result

    async with linked(server, "2024-10-07") as (client, _):
        tools = await client.session.dispatcher.request("tools/list", {}, timeout=20.0)
        assert len(cast(Any, tools)["tools"]) <= (MAX_PAGES + 1) * 20


@pytest.mark.parametrize("front", ["2025-11-25", LATEST])
@pytest.mark.parametrize("back", ["2025-06-18", LATEST])
@pytest.mark.usefixtures("short_finish")
async def test_bridge_cancels_the_call_of_a_client_that_vanishes(front: str, back: str) -> None:
    server, events, _ = busy_server(back)
    bridge = Bridge(servers={"back": server})
    async with asyncio.timeout(10):
        client = Client(bridge, revision=front)
        await client.connect()
        calling = asyncio.create_task(client.call_tool("work"))
        assert await events.get() == "it began"
        await client.connector.negotiated_session.transport.close()  # without a cancellation
        assert await events.get() == "it cancelled"
        with pytest.raises(McpError):
            await calling
        await client.close()
        assert bridge.backs["back"].clients == []


async def test_bridge_ends_its_held_calls_and_processes_with_the_last_client() -> None:
    entry = {"command": sys.executable, "args": ["-m", "tests.bridge.back", "2025-06-18"], "cwd": str(ROOT)}
    async with linked({"back": entry}) as (client, bridge):
        assert (await send(client, "tools/call", CALL, ALL))["resultType"] == "input_required"
        processes = [cast(Any, each.transport)._process for each in bridge.backs["back"].clients]
    assert not bridge.relay.held.calls and bridge.backs["back"].clients == []
    assert processes and all(process.get_returncode() is not None for process in processes)


async def test_bridge_passes_a_large_result_on() -> None:
    server = Server("back", revisions=["2025-11-25"])

    @server.tool()
    async def large() -> TextContent:
        return TextContent("x" * 2_000_000)

    async with linked(server, LATEST) as (client, _):
        assert len((await client.call_tool("large")).text) == 2_000_000


async def test_bridge_waits_for_a_free_client_of_a_full_pool() -> None:
    server, running, most = Server("back", revisions=["2025-06-18"]), [], []

    @server.tool()
    async def work() -> TextContent:
        running.append(1)
        most.append(len(running))
        await asyncio.sleep(0.01)
        running.pop()
        return TextContent("done")

    params: Object = {"name": "work", "arguments": {}}
    async with linked(server, bridge_options={"clients": 1}) as (client, _):
        await asyncio.gather(*(send(client, "tools/call", params, ALL) for _ in range(5)))
        assert max(most) == 1
        most.clear()
        await asyncio.gather(*(send(client, "tools/call", params, {}) for _ in range(5)))
        assert max(most) > 1  # without capabilities, the server cannot ask, and calls overlap


async def test_bridge_forgets_the_keys_of_clients_that_name_other_capabilities_in_each_request() -> None:
    params: Object = {"name": "echo", "arguments": {"text": "x"}}
    async with linked(make_back("2025-11-25")) as (client, bridge), Client(bridge, revision="2025-11-25"):
        back = bridge.backs["back"]
        before = [each for each in back.clients if each.caller.session is not None]
        for number in range(2 * MAX_CLIENTS):
            await send(client, "tools/call", params, {"experimental": {str(number): {}}})
        assert len(back.clients) == MAX_CLIENTS + 1 and not back._places
        # a session keeps its client
        assert [each for each in back.clients if each.caller.session is not None] == before
