"""The input requests of a call that a bridge passes on: their rounds, and their failures."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from mcp_ref import TextContent
from mcp_ref.basic.lifecycle import CapabilityError
from mcp_ref.basic.mrtr import MAX_ROUNDS
from mcp_ref.bridge.calls import complete_call, refusal, with_prefix
from mcp_ref.features.sampling import CreateMessageResult
from mcp_ref.jsonrpc.errors import ConnectionClosed, ProtocolError, RemoteError
from mcp_ref.jsonrpc.messages import Object
from mcp_ref.revisions import revision_named
from tests.bridge.links import linked
from tests.bridge.test_back_client import DONE, SCHEMA, RawServer

MODERN = revision_named("2026-07-28")


class Refusing:
    async def ask(self, *request: object) -> Object:
        raise RemoteError(-1, "no")


class Responding:
    async def ask(self, *request: object) -> Object:
        return {"roots": []}


@pytest.mark.parametrize("rounds", [0, 1, MAX_ROUNDS, MAX_ROUNDS + 1])
async def test_complete_call_responds_to_so_many_rounds_and_no_more(rounds: int) -> None:
    sent: list[Object] = []

    async def send(params: Object) -> Object:
        sent.append(params)
        if len(sent) > rounds:
            return {"resultType": "complete"}
        requests: Object = {"r": {"method": "roots/list"}}
        return {"resultType": "input_required", "requestState": str(len(sent)), "inputRequests": requests}

    completing = complete_call(cast(Any, Responding()), {"name": "t"}, send, MODERN)
    if rounds > MAX_ROUNDS:
        with pytest.raises(ProtocolError, match=f"still requires input after {MAX_ROUNDS} rounds"):
            await completing
    else:
        assert await completing == {"resultType": "complete"}
    retries = [
        {"name": "t", "requestState": str(number), "inputResponses": {"r": {"roots": []}}}
        for number in range(1, min(rounds, MAX_ROUNDS) + 1)
    ]
    assert sent == [{"name": "t"}, *retries]


async def test_complete_call_whose_input_request_is_refused_fails_with_the_refusal() -> None:
    async def send(params: Object) -> Object:
        return {"resultType": "input_required", "inputRequests": {"r": {"method": "roots/list"}}}

    with pytest.raises(ProtocolError, match="the user refused, or the client failed: no"):
        await complete_call(cast(Any, Refusing()), {}, send, MODERN)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (RemoteError(-1, "no"), "the user refused, or the client failed: no"),
        (ProtocolError(-32601, "no roots"), "an input request of the server cannot be passed on: no roots"),
        (CapabilityError("no roots"), "an input request of the server failed: no roots"),
        (ConnectionClosed("secret"), "an input request of the server failed: the client did not respond"),
        (ValueError("secret"), "an input request of the server failed: the client did not respond"),
    ],
)
def test_refusal_of_an_input_request_has_a_text_for_the_peer_only(error: Exception, text: str) -> None:
    found = refusal(error)
    assert (found.code, found.message) == (-32603, text)


def test_prefix_names_the_server_in_a_message_to_the_user() -> None:
    assert with_prefix({"message": "Name?", "x": 1}, "[a] ") == {"message": "[a] Name?", "x": 1}
    assert with_prefix({"message": "Name?"}, "") == {"message": "Name?"}
    assert with_prefix({"messages": []}, "[a] ") == {"messages": []}


@pytest.mark.parametrize(
    ("method", "params", "outcome"),
    [
        (
            "elicitation/create",
            {"message": "?", "requestedSchema": SCHEMA},
            "elicitation/create does not exist in 2025-03-26",
        ),
        ("roots/list", {}, "the client did not declare the capability for roots/list"),
        ("sampling/createMessage", {"messages": [], "maxTokens": 1, "includeContext": "allServers"}, "none"),
        ("sampling/createMessage", {"messages": [], "maxTokens": 1}, "None"),
    ],
)
async def test_call_passes_on_the_input_requests_that_the_client_in_front_accepts(
    method: str, params: Object, outcome: str
) -> None:
    back = RawServer(tools={})

    async def sample(request: Any) -> CreateMessageResult:
        return CreateMessageResult("assistant", TextContent(str(request.include_context)), "m")

    options: Any = {"bridge_options": {"prefix": True}, "sampling": sample}
    async with linked(back, "2025-03-26", **options) as (client, _), asyncio.timeout(10):
        wire = await back.wires.get()
        calling = asyncio.create_task(client.call_tool("back__t"))
        called = await wire.receive_object()
        response = await wire.ask(method, params)
        if "error" in response:
            assert response["error"]["code"] == -32601 and response["error"]["message"].startswith(outcome)
        else:
            assert response["result"]["content"]["text"] == outcome
        await wire.send({"jsonrpc": "2.0", "id": called["id"], "result": DONE})
        await calling
