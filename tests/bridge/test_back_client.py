"""A client of the bridge towards a server that speaks no rules of this package: the test writes its messages."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from mcp_ref import ElicitResult
from mcp_ref.bridge.bridge import Bridge
from mcp_ref.jsonrpc.messages import JSON, Object
from mcp_ref.transports.memory import MemoryTransport
from tests.bridge.links import linked
from tests.messages import Received, notification, request, result_of
from tests.raw_peers import Wire, _wire_of, answer, legacy_initialize, raw_client

CORE, LATEST = "2025-11-25", "2026-07-28"
DONE: Object = {"content": [{"type": "text", "text": "done"}]}
SCHEMA: Object = {"type": "object", "properties": {}}


class RawServer:
    """A server of one legacy revision, whose messages after the handshake a test writes."""

    def __init__(self, revision: str = CORE, **capabilities: Object) -> None:
        self.revision, self.capabilities = revision, capabilities
        self.wires = asyncio.Queue[Wire]()
        self.declared: list[Received] = []
        """The capabilities of its clients."""

    async def serve(self, transport: Any) -> None:
        assert isinstance(transport, MemoryTransport)
        wire = _wire_of(transport)
        transport._deliver_soon()
        asked = await legacy_initialize(wire)
        self.declared.append(asked["params"]["capabilities"])
        info: Object = {"name": "raw", "version": "1"}
        result: Object = {"protocolVersion": self.revision, "capabilities": {**self.capabilities}, "serverInfo": info}
        await wire.send({"jsonrpc": "2.0", "id": asked["id"], "result": result})
        assert (await wire.receive_object())["method"] == "notifications/initialized"
        self.wires.put_nowait(wire)
        await wire.closed.wait()


@pytest.mark.spec(
    "2025-11-25/basic/utilities/progress#progress-flow-3",
    "2025-11-25/basic/utilities/progress#behavior-requirements-1",
)
async def test_back_client_reports_progress_to_the_server_while_the_user_thinks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mcp_ref.bridge.back_client.KEEP_ALIVE_SECONDS", 0.01)
    back, decide, steps = RawServer(tools={}), asyncio.Event(), asyncio.Queue[str]()

    async def think(params: object) -> ElicitResult:
        steps.put_nowait("began")
        try:
            await decide.wait()
        except asyncio.CancelledError:
            steps.put_nowait("cancelled")
            raise
        return ElicitResult("decline")

    async with linked(back, CORE, elicitation=think) as (client, _), asyncio.timeout(10):
        wire = await back.wires.get()
        calling = asyncio.create_task(client.call_tool("t"))
        called = await wire.receive_object()
        await wire.send(request("elicitation/create", {"message": "?", "requestedSchema": SCHEMA}, "withdrawn"))
        assert await steps.get() == "began"
        await wire.send(notification("notifications/cancelled", {"requestId": "withdrawn"}))
        assert await steps.get() == "cancelled"
        question: Object = {"message": "?", "requestedSchema": SCHEMA, "_meta": {"progressToken": "p"}}
        await wire.send(request("elicitation/create", question, "e"))
        for number in (1, 2):
            reported = await wire.receive_object()
            assert reported == notification("notifications/progress", {"progressToken": "p", "progress": number})
        decide.set()
        while "id" not in (last := await wire.receive_object()):
            pass
        assert (last["id"], last["result"]) == ("e", {"action": "decline"})
        await wire.send({"jsonrpc": "2.0", "id": called["id"], "result": DONE})
        assert (await calling).text == "done"


@pytest.mark.spec("2024-11-05..2025-11-25/client/roots#error-handling-1")
@pytest.mark.parametrize("roots", [[], None])
async def test_back_client_serves_no_request_outside_of_a_call_but_that_for_roots(
    monkeypatch: pytest.MonkeyPatch, roots: list[str] | None
) -> None:
    monkeypatch.setattr("mcp_ref.bridge.back_client.NEXT_CALL_SECONDS", 0.01)
    back = RawServer(tools={})
    async with linked(back, LATEST, roots=roots):
        wire = await back.wires.get()
        responses = [
            await wire.ask(method, {}) for method in ("sampling/createMessage", "com.example/odd", "roots/list")
        ]
        codes = [each["error"]["code"] if "error" in each else each["result"] for each in responses]
        assert codes == [-32601, -32601, -32601 if roots is None else {"roots": []}]


@pytest.mark.breaks("meta_fits")
async def test_back_client_declares_the_capabilities_of_the_client_in_front_unless_they_are_malformed() -> None:
    back = RawServer(tools={})
    given: list[Object] = [{"sampling": {"x": 1}, "tasks": {}}, {"sampling": 5}]
    async with raw_client(Bridge(servers={"back": back}).server) as client, asyncio.timeout(10):
        await client.ask_stateless("server/discover")
        await back.wires.get()
        for capabilities in given:
            calling = asyncio.create_task(client.ask_stateless("tools/call", {"name": "t"}, capabilities=capabilities))
            await answer(await back.wires.get(), "tools/call", DONE)
            assert result_of(await calling)["content"] == DONE["content"]
    assert back.declared[1:] == [{"sampling": {"x": 1}}, {}]


async def test_back_client_passes_the_level_and_the_roots_of_its_session_on_when_they_change() -> None:
    back = RawServer(tools={}, logging={})
    async with linked(back, CORE, roots=[]) as (client, _), asyncio.timeout(10):
        wire = await back.wires.get()
        setting = asyncio.create_task(client.set_logging_level("error"))
        assert await answer(wire, "logging/setLevel", {}) == {"level": "error"}
        await setting
        await client.set_logging_level("error")
        await client.set_roots(["file:///work"])
        assert await wire.receive() == notification("notifications/roots/list_changed")
        assert (await wire.ask("roots/list"))["result"] == {"roots": [{"uri": "file:///work"}]}
        assert (await wire.ask("com.example/odd", {}))["error"]["code"] == -32601


@pytest.mark.spec("2026-07-28/basic/transports/streamable-http#schema-extension-10,11")
async def test_back_client_leaves_out_a_tool_without_name_or_with_invalid_headers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    back = RawServer(tools={})
    header: Object = {"type": "object", "x-mcp-header": "Object"}
    tools: list[JSON] = [
        {"name": "good", "inputSchema": {"type": "object"}},
        {"name": "bad", "inputSchema": {"type": "object", "properties": {"a": header}}},
        {"inputSchema": {"type": "object"}},
        5,
    ]
    async with linked(back, CORE) as (client, bridge), asyncio.timeout(10):
        wire = await back.wires.get()
        changed: list[JSON] = [{**cast(Object, tools[1]), "name": "good"}]
        for listed, names in ((tools, ["good"]), (changed, list[str]())):
            listing = asyncio.create_task(client.session.dispatcher.request("tools/list", {}, timeout=5.0))
            await answer(wire, "tools/list", {"tools": listed})
            assert [tool["name"] for tool in cast(Any, await listing)["tools"]] == names
            assert list(bridge.backs["back"].task_support)[:2] == ["good", "bad"]
    assert "left out the tool 'bad' of back" in caplog.text
