"""Hostile servers of the modern era: a client refuses a malformed message, or reads its valid part, and goes on."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from mcp_ref import Client, ElicitRequestFormParams, ElicitRequestURLParams, ElicitResult, InvalidMessage, McpError
from mcp_ref.basic.lifecycle import Implementation
from mcp_ref.jsonrpc.messages import JSON, Object
from tests.messages import notification
from tests.raw_peers import raw_server, raw_session
from tests.raw_stateless_server import META, answer, asked_for, discovered, params_of, refusal
from tests.server.test_hostile import EVERYTHING, NOTIFICATIONS, has_type, lives, no_failure_inside, wrong_shapes
from tests.settings import MODERN, PATIENCE

FORM: Object = {"type": "object", "properties": {"name": {"type": "string", "title": "Name"}}, "required": ["name"]}
QUESTIONS: Object = {
    "resultType": "input_required",
    "requestState": "s",
    "inputRequests": {
        "form": {"method": "elicitation/create", "params": {"mode": "form", "message": "m", "requestedSchema": FORM}},
        "url": {"method": "elicitation/create", "params": {"mode": "url", "message": "m", "url": "https://a.example"}},
        "roots": {"method": "roots/list", "params": {}},
    },
}


async def user(question: ElicitRequestFormParams | ElicitRequestURLParams) -> ElicitResult:
    assert has_type(question, type(question)), question
    return ElicitResult("decline")


async def test_malformed_input_requests_are_refused_or_served(caplog: pytest.LogCaptureFixture) -> None:
    made = {"elicitation": user, "elicitation_url": True, "roots": [], "timeout": PATIENCE}
    async with raw_session(lambda t: Client(t, **made), MODERN, EVERYTHING) as (client, wire):  # type: ignore[arg-type]
        again = 0
        for wrong in wrong_shapes(QUESTIONS):
            calling = asyncio.create_task(client.call_tool("t"))
            asked = await asked_for(wire, "tools/call")
            await wire.send({"jsonrpc": "2.0", "id": asked["id"], "result": wrong})
            receiving = asyncio.create_task(wire.receive_object())
            await asyncio.wait([calling, receiving], timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
            if receiving.done():
                again += 1
                await wire.send(answer(receiving.result(), {"resultType": "complete", "content": []}))
                await asyncio.wait_for(calling, PATIENCE)
                continue
            receiving.cancel()
            assert isinstance(calling.exception(), InvalidMessage), (calling, wrong)
        assert again > 5
        await lives(client, wire)
    no_failure_inside(caplog)


GREETING = discovered(
    "2026-07-28",
    "2025-11-25",
    capabilities={**EVERYTHING, "experimental": {"x": {}}, "extensions": {"a.example/x": {}}},
    instructions="Do.",
)


@pytest.mark.parametrize("how", ["result", "error"])
async def test_malformed_discover_results_are_accepted_or_refused_or_lead_to_a_handshake(
    how: str, caplog: pytest.LogCaptureFixture
) -> None:
    data: Object = {"supported": ["2026-07-28", "2025-11-25"], "requested": "2026-07-28"}
    error: Object = {"code": -32022, "message": "Unsupported protocol version", "data": data}

    async def meets(wrong: JSON) -> str:
        async with raw_server(lambda t: Client(t, timeout=PATIENCE)) as (client, wire):
            connecting = asyncio.create_task(client.connect())
            asked = await asked_for(wire, "server/discover")
            receiving = None
            for _ in range(4):
                await wire.send({"jsonrpc": "2.0", "id": asked["id"], how: wrong})
                receiving = asyncio.create_task(wire.receive_object())
                await asyncio.wait([connecting, receiving], timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
                if connecting.done():
                    break
                asked = receiving.result()
                if asked["method"] == "initialize":
                    await wire.send(refusal(asked, -32601))
                    await asyncio.wait([connecting], timeout=PATIENCE)
                    break
            assert receiving is not None and connecting.done(), wrong
            receiving.cancel()
            if connecting.exception() is not None:
                assert isinstance(connecting.exception(), McpError), (connecting, wrong)
                await asyncio.wait_for(wire.closed.wait(), PATIENCE)
                return "handshake" if asked["method"] == "initialize" else "refused"
            assert has_type(client.server_info, Implementation), wrong
            assert has_type(client.instructions, str | None), wrong
            return "met"

    found = [await meets(wrong) for wrong in wrong_shapes(GREETING if how == "result" else error)]
    assert set(found) == ({"met", "handshake", "refused"} if how == "result" else {"handshake", "refused"})
    no_failure_inside(caplog)


async def test_malformed_notifications_do_not_disturb_a_subscription(caplog: pytest.LogCaptureFixture) -> None:
    options: dict[str, Any] = {"timeout": PATIENCE, "on_log": lambda _: None}
    async with raw_session(lambda t: Client(t, **options), MODERN, EVERYTHING) as (client, wire):
        entering = asyncio.create_task(client.subscribe("test://a").__aenter__())
        asked = await asked_for(wire, "subscriptions/listen")
        own: Object = {f"{META}subscriptionId": asked["id"]}
        honored: Object = {"resourceSubscriptions": ["test://a"], "toolsListChanged": True}
        acknowledged: Object = {"_meta": own, "notifications": honored}
        await wire.send(notification("notifications/subscriptions/acknowledged", acknowledged))
        updates = await asyncio.wait_for(entering, PATIENCE)
        tagged: list[Object] = [
            notification("notifications/resources/updated", {"uri": "test://a", "_meta": own}),
            notification("notifications/tools/list_changed", {"_meta": own}),
            notification("notifications/subscriptions/acknowledged", acknowledged),
        ]
        for valid in (*tagged, *NOTIFICATIONS):
            for params in wrong_shapes(valid["params"]):
                await wire.send({**valid, "params": params})
            await lives(client, wire)
        assert updates._changed.keys() <= {"test://a"}
        await updates.__aexit__()
        cancelled = await wire.receive_object()
        assert params_of(cancelled)["requestId"] == asked["id"]
    no_failure_inside(caplog)


async def test_malformed_subscription_acknowledgements_are_ignored(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    async with raw_session(lambda t: Client(t, timeout=PATIENCE), MODERN, EVERYTHING) as (client, wire):
        method = "notifications/subscriptions/acknowledged"
        entered = 0
        valid: Object = {"_meta": {f"{META}subscriptionId": 0}, "notifications": {"resourceSubscriptions": ["x"]}}
        for wrong in wrong_shapes(valid):
            entering = asyncio.create_task(client.subscribe("test://a").__aenter__())
            asked = await asked_for(wire, "subscriptions/listen")
            meta = wrong.get("_meta") if isinstance(wrong, dict) else None
            if isinstance(wrong, dict) and isinstance(meta, dict) and meta.get(f"{META}subscriptionId") == 0:
                wrong["_meta"] = {**meta, f"{META}subscriptionId": asked["id"]}
            await wire.send(notification(method) | {"params": wrong})
            await wire.send(answer(asked, {"resultType": "complete"}))
            await asyncio.wait([entering], timeout=PATIENCE)
            if entering.exception() is None:
                entered += 1
                await entering.result().__aexit__()
            else:
                assert isinstance(entering.exception(), McpError), wrong
            assert not client.session.listeners
        assert entered
        await lives(client, wire)
