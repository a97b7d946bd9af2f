"""Held calls: input requests of a legacy server to a modern client."""

from __future__ import annotations

import asyncio
import random
from typing import Any, cast

import pytest

from mcp_ref import Client, Context, RemoteError, Server, TextContent
from mcp_ref.bridge import held
from mcp_ref.bridge.bridge import Bridge
from mcp_ref.bridge.held import MAX_HELD_PER_PRINCIPAL, MAX_KEPT_LOGS
from mcp_ref.jsonrpc.messages import JSON, Object
from tests import settings
from tests.bridge.back import make_back
from tests.bridge.links import linked, send
from tests.messages import Received, error_of, result_of, stateless_request
from tests.raw_peers import raw_client
from tests.settings import eventually, pass_time

ALL: Object = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
NAME: Object = {"action": "accept", "content": {"name": "Ann"}}
SCHEMA: Object = {"type": "object", "properties": {"name": {"type": "string"}}}
CALL: Object = {"name": "ask_name", "arguments": {}}
ASK: Object = {"name": "ask", "arguments": {}}
YES: Object = {"action": "accept", "content": {"value": True}}


def text_of(result: Received) -> str:
    return str(result["content"][0]["text"])


def retry_of(params: Object, result: Object, responses: JSON) -> Object:
    return {**params, "requestState": result["requestState"], "inputResponses": responses}


async def test_held_call_continues_with_the_responses_of_the_retry() -> None:
    async with linked(make_back("2025-11-25")) as (client, bridge):
        first = await send(client, "tools/call", CALL, ALL)
        requests = first["inputRequests"]
        assert [each["method"] for each in requests.values()] == ["elicitation/create"]
        assert first["resultType"] == "input_required"
        assert len(bridge.relay.held.calls) == 1
        result = await send(client, "tools/call", retry_of(CALL, first, {"1": NAME}), ALL)
        assert text_of(result) == "accept Ann" and not bridge.relay.held.calls


@pytest.mark.breaks("input_is_complete")
async def test_held_call_collects_simultaneous_input_requests_in_one_round() -> None:
    params: Object = {"name": "ask_all", "arguments": {}}
    async with linked(make_back("2025-06-18")) as (client, _):
        first = await send(client, "tools/call", params, ALL)
        methods = {key: each["method"] for key, each in first["inputRequests"].items()}
        assert methods == {"1": "elicitation/create", "2": "roots/list"}
        partly = await send(client, "tools/call", retry_of(params, first, {"1": NAME, "9": NAME}), ALL)
        assert list(partly["inputRequests"]) == ["2"]  # a missing response is requested again
        roots: Object = {"roots": [{"uri": "file:///a"}]}
        result = await send(client, "tools/call", retry_of(params, partly, {"2": roots}), ALL)
        assert text_of(result) == "accept Ann, file:///a"


def _tampered(state: str) -> str:
    return ("A" if state[0] != "A" else "B") + state[1:]


@pytest.mark.attack("bridge-stolen-state")
@pytest.mark.attack("bridge-used-state")
@pytest.mark.breaks("state_is_returned state_of_request input_is_complete")
async def test_held_call_refuses_a_state_that_is_tampered_used_or_of_another_request() -> None:
    async with linked(make_back("2025-11-25")) as (client, bridge):
        first = await send(client, "tools/call", CALL, ALL)
        state = cast(str, first["requestState"])
        for params in (
            {**CALL, "requestState": _tampered(state), "inputResponses": {"1": NAME}},
            {"name": "ask_name", "arguments": {"x": 1}, "requestState": state, "inputResponses": {"1": NAME}},
        ):
            with pytest.raises(RemoteError) as refused:
                await send(client, "tools/call", cast(Object, params), ALL)
            assert refused.value.code == -32602
        assert len(bridge.relay.held.calls) == 1  # the call is untouched
        again = await send(client, "tools/call", retry_of(CALL, first, {}), ALL)
        with pytest.raises(RemoteError, match="used before"):
            await send(client, "tools/call", retry_of(CALL, first, {"1": NAME}), ALL)
        assert text_of(await send(client, "tools/call", retry_of(CALL, again, {"1": NAME}), ALL)) == "accept Ann"
        with pytest.raises(RemoteError, match="not held here"):
            await send(client, "tools/call", retry_of(CALL, again, {"1": NAME}), ALL)


async def test_held_call_ignores_a_malformed_response_and_stays_held() -> None:
    async with linked(make_back("2025-11-25")) as (client, _):
        first = await send(client, "tools/call", CALL, ALL)
        with pytest.raises(RemoteError):
            await send(client, "tools/call", retry_of(CALL, first, {"1": {"roots": []}}), ALL)
        assert text_of(await send(client, "tools/call", retry_of(CALL, first, {"1": NAME}), ALL)) == "accept Ann"


@pytest.mark.parametrize("responses", [[], {"1": 5}])
async def test_held_call_refuses_malformed_input_responses_and_stays_held(responses: JSON) -> None:
    async with raw_client(Bridge(servers={"back": make_back("2025-11-25")}).server) as wire:
        first = result_of(await wire.ask_stateless("tools/call", CALL, capabilities=ALL))
        wrong = await wire.ask_stateless("tools/call", retry_of(CALL, first, responses), capabilities=ALL)
        error_of(wrong, -32602)
        retry = await wire.ask_stateless("tools/call", retry_of(CALL, first, {"1": NAME}), capabilities=ALL)
        assert text_of(result_of(retry)) == "accept Ann"


async def test_held_call_keeps_log_messages_and_the_latest_progress_for_the_retry() -> None:
    server, is_held = Server("back", revisions=["2025-11-25"]), asyncio.Event()

    @server.tool()
    async def ask(context: Context) -> TextContent:
        asking = asyncio.create_task(context.elicit("Go on?", bool))
        await is_held.wait()
        for number in range(MAX_KEPT_LOGS + 1):
            await context.log("error", number)
        for number in (1, 2):
            await context.report_progress(number)
        return TextContent((await asking).action)

    bridge = Bridge(servers={"back": server})
    meta: Any = {"progressToken": "p", "logLevel": "error", "capabilities": ALL}
    async with raw_client(bridge.server) as wire:
        first = result_of(await wire.ask_stateless("tools/call", ASK, **meta))
        is_held.set()
        [held] = bridge.relay.held.calls.values()
        await eventually(lambda: held._kept[-1:] and held._kept[-1][1].get("progress") == 2)
        await wire.send(stateless_request("tools/call", retry_of(ASK, first, {"1": YES}), 2, **meta))
        kept = [(await wire.receive())["params"] for _ in range(MAX_KEPT_LOGS + 1)]
        assert [each["data"] for each in kept[:-1]] == list(range(MAX_KEPT_LOGS))
        assert kept[-1] == {"progressToken": "p", "progress": 2}
        assert text_of(result_of(await wire.receive())) == "accept"


@pytest.mark.attack("bridge-abandoned-calls")
@pytest.mark.parametrize(("tool", "response"), [("ask", "cancel"), ("sample", "the user did not respond in time")])
async def test_held_call_expires_and_the_server_gets_a_response_and_a_cancellation(tool: str, response: str) -> None:
    seen: asyncio.Queue[str] = asyncio.Queue()
    server = Server("back", revisions=["2025-11-25"])

    @server.tool()
    async def ask(context: Context) -> str:
        try:
            seen.put_nowait((await context.elicit("Go on?", bool)).action)
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            seen.put_nowait("cancelled")
            raise
        return "done"

    @server.tool()
    async def sample(context: Context) -> str:
        try:
            await context.sample("Go on?", max_tokens=1)
        except RemoteError as error:
            seen.put_nowait(error.message)
        await asyncio.Event().wait()
        return "done"

    params: Object = {"name": tool, "arguments": {}}
    async with linked(server) as (client, bridge):
        bridge.relay.held.seconds = 0.05
        first = await send(client, "tools/call", params, ALL)
        assert await seen.get() == response
        assert tool == "sample" or await seen.get() == "cancelled"
        assert not bridge.relay.held.calls
        with pytest.raises(RemoteError, match="may have run in part"):
            await send(client, "tools/call", retry_of(params, first, {"1": NAME}), ALL)


@pytest.mark.attack("bridge-abandoned-calls")
async def test_expired_held_call_is_forgotten_although_the_server_asks_again() -> None:
    server, cancelled = Server("back", revisions=["2025-11-25"]), asyncio.Event()

    @server.tool()
    async def ask(context: Context) -> str:
        try:
            while (await context.elicit("Go on?", bool)).action == "cancel":
                pass
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return "done"

    async with linked(server) as (client, bridge), asyncio.timeout(10):
        bridge.relay.held.seconds = 0.05
        await send(client, "tools/call", ASK, ALL)
        await cancelled.wait()
        await eventually(lambda: not bridge.relay.held.calls)


def waiting_server() -> tuple[Server, asyncio.Event, asyncio.Event]:
    """Return a server whose tool waits after its elicitation, and the events that tell so and let it end."""
    server, resumed, go_on = Server("back", revisions=["2025-11-25"]), asyncio.Event(), asyncio.Event()

    @server.tool()
    async def ask(context: Context) -> str:
        await context.elicit("Go on?", bool)
        resumed.set()
        try:
            await go_on.wait()
        except asyncio.CancelledError:
            go_on.set()
            raise
        return "done"

    return server, resumed, go_on


@pytest.mark.parametrize("by", ["client", "bridge"])
async def test_held_call_ends_if_the_client_cancels_its_retry_or_the_bridge_ends(by: str) -> None:
    server, resumed, cancelled = waiting_server()
    async with linked(server) as (client, bridge), asyncio.timeout(10):
        first = await send(client, "tools/call", ASK, ALL)
        retry = asyncio.create_task(send(client, "tools/call", retry_of(ASK, first, {"1": YES}), ALL))
        await resumed.wait()
        if by == "client":
            retry.cancel()
        else:
            [held] = bridge.relay.held.calls.values()
            await bridge.relay.held.close()
            assert held._task.done()
            with pytest.raises(RemoteError, match="the bridge has ended this call"):
                await retry
        await cancelled.wait()
        assert not bridge.relay.held.calls


@pytest.mark.parametrize(("options", "capabilities"), [({"hold": False}, ALL), ({}, {})], ids=["hold", "capabilities"])
async def test_call_is_not_held_without_the_option_hold_or_without_capabilities(
    options: Object, capabilities: Object
) -> None:
    async with linked(make_back("2025-11-25"), bridge_options=options) as (client, bridge):
        result = await send(client, "tools/call", CALL, capabilities)
        assert result.get("isError") is True and not bridge.relay.held.calls


async def test_held_call_is_gone_if_the_bridge_restarts() -> None:
    key = {"state_key": bytes(32)}
    async with linked(make_back("2025-11-25"), bridge_options=key) as (client, _):
        first = await send(client, "tools/call", CALL, ALL)
    async with linked(make_back("2025-11-25"), bridge_options=key) as (client, _):
        with pytest.raises(RemoteError, match="not held here"):
            await send(client, "tools/call", retry_of(CALL, first, {"1": NAME}), ALL)


@pytest.mark.breaks("state_is_returned")
async def test_replayed_call_is_served_by_another_process_with_the_same_key() -> None:
    runs = []

    def back() -> Server:
        server = Server("back", revisions=["2025-11-25"])

        @server.tool()
        async def book(context: Context) -> str:
            runs.append(1)
            city = (await context.elicit("City?", SCHEMA)).content
            day = (await context.elicit("Day?", SCHEMA)).content
            return f"{city} {day}"

        return server

    options = {"state_key": bytes(32), "replay": ["book"]}
    params: Object = {"name": "book", "arguments": {}}
    async with (
        linked(back(), bridge_options=options) as (one, _),
        linked(back(), bridge_options=options) as (two, bridge),
    ):
        first = await send(one, "tools/call", params, ALL)
        second = await send(two, "tools/call", retry_of(params, first, {"1": NAME}), ALL)
        assert list(second["inputRequests"]) == ["2"] and not bridge.relay.held.calls
        day: Object = {"action": "accept", "content": {"name": "Monday"}}
        result = await send(one, "tools/call", retry_of(params, second, {"2": day}), ALL)
        assert text_of(result) == "{'name': 'Ann'} {'name': 'Monday'}" and len(runs) == 3


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
async def test_concurrent_calls_get_their_own_input_requests_in_random_interleavings(
    revision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Play 50 pairs of calls of each revision, five pairs at once, or 500 with MCP_REF_COMBINATIONS=all."""
    monkeypatch.setattr("mcp_ref.bridge.held.QUIET_SECONDS", 0.001)
    server = Server("back", revisions=[revision])

    @server.tool()
    async def ask(who: str, pauses: list[int], context: Context) -> str:
        texts = []
        for number, pause in enumerate(pauses):
            for _ in range(pause):
                await asyncio.sleep(0)
            content = (await context.elicit(f"{who} {number}", SCHEMA)).content
            texts.append(str((content or {}).get("name")))
        return " ".join(texts)

    async def play(client: Any, who: str, dice: random.Random) -> str:
        pauses = [dice.randrange(4) for _ in range(2)]
        params: Object = {"name": "ask", "arguments": {"who": who, "pauses": cast(Any, pauses)}}
        result = await send(client, "tools/call", params, ALL)
        while result["resultType"] == "input_required":
            for _ in range(dice.randrange(4)):
                await asyncio.sleep(0)
            asked = result["inputRequests"]
            assert all(each["params"]["message"].startswith(who) for each in asked.values()), asked
            responses = {
                key: {"action": "accept", "content": {"name": each["params"]["message"]}} for key, each in asked.items()
            }
            result = await send(client, "tools/call", retry_of(params, result, cast(Object, responses)), ALL)
        return text_of(result)

    dice = random.Random(7)
    async with linked(server) as (client, _):
        for _ in range(100 if settings.COMBINATIONS == "all" else 10):
            texts = await asyncio.gather(*(play(client, who, dice) for who in "abcdefghij"))
            assert texts == [f"{who} 0 {who} 1" for who in "abcdefghij"]


@pytest.mark.attack("bridge-used-state")
async def test_held_call_refuses_a_second_retry_while_the_first_is_served_and_does_not_expire(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server, resumed, go_on = waiting_server()
    async with linked(server) as (client, bridge), asyncio.timeout(10):
        bridge.relay.held.seconds = 5.0
        first = await send(client, "tools/call", ASK, ALL)
        retry = asyncio.create_task(send(client, "tools/call", retry_of(ASK, first, {"1": YES}), ALL))
        await resumed.wait()
        second = asyncio.create_task(send(client, "tools/call", retry_of(ASK, first, {"1": YES}), ALL))
        pass_time(monkeypatch, 5.0)
        await asyncio.wait([second, retry], timeout=0.2)  # `retry` waits, although the time of the held call is over
        go_on.set()
        with pytest.raises(RemoteError, match="used before"):
            await second
        assert text_of(await retry) == "done"


@pytest.mark.breaks("input_is_complete")
async def test_held_call_responds_to_input_requests_that_a_finished_server_left_open() -> None:
    server, actions = Server("back", revisions=["2025-11-25"]), asyncio.Queue[str]()
    asking: list[asyncio.Task[None]] = []

    @server.tool()
    async def ask(context: Context) -> TextContent:
        async def elicit() -> None:
            actions.put_nowait((await context.elicit("Your name?", SCHEMA)).action)

        asking.append(asyncio.create_task(elicit()))
        await asyncio.sleep(0.05)
        return TextContent("done")

    async with linked(server) as (client, _), asyncio.timeout(5):
        first = await send(client, "tools/call", ASK, ALL)
        if first["resultType"] == "input_required":
            await asyncio.sleep(0.1)
            await send(client, "tools/call", retry_of(ASK, first, {}), ALL)
        assert await actions.get() == "cancel"


async def test_held_calls_are_limited_also_if_they_begin_at_once_and_the_server_gets_an_error() -> None:
    async with linked(make_back("2025-11-25"), bridge_options={"clients": 32}) as (client, bridge):
        calls = [send(client, "tools/call", CALL, ALL) for _ in range(MAX_HELD_PER_PRINCIPAL + 8)]
        results = await asyncio.gather(*calls)
        assert sum(result["resultType"] == "input_required" for result in results) == MAX_HELD_PER_PRINCIPAL
        assert sum(result.get("isError", False) for result in results) == 8
        assert len(bridge.relay.held.calls) == MAX_HELD_PER_PRINCIPAL


@pytest.mark.attack("bridge-abandoned-calls")
async def test_params_of_held_calls_have_a_limit_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held, "MAX_HELD_BYTES_PER_PRINCIPAL", 250_000)
    large: Object = {**CALL, "unused": "x" * 100_000}
    async with linked(make_back("2025-11-25")) as (client, bridge):
        first, second, third = [await send(client, "tools/call", large, ALL) for _ in range(3)]
        assert len(bridge.relay.held.calls) == 2
        assert "your held calls need more than 250000 bytes" in text_of(third)
        for result in (first, second):
            await send(client, "tools/call", retry_of(large, result, {"1": NAME}), ALL)
        assert (await send(client, "tools/call", large, ALL))["resultType"] == "input_required"


@pytest.mark.breaks("state_is_returned state_of_request")
async def test_bridge_refuses_the_state_of_a_bridge_with_another_configuration() -> None:
    backs = {"legacy": make_back("2025-11-25"), "modern": make_back("2026-07-28")}
    states: dict[str, Object] = {}
    for kind in ("legacy", "modern", "legacy", "modern"):
        bridge = Bridge(servers={"back": backs[kind]}, state_key=bytes(32))
        options: Any = {"authenticate": lambda request: "ann"}
        async with bridge.server.serve_http(**options) as url, Client(url) as client:
            other = states.get("modern" if kind == "legacy" else "legacy")
            if other is not None:
                with pytest.raises(RemoteError, match="was not issued") as refused:
                    await send(client, "tools/call", retry_of(CALL, other, {"1": NAME}), ALL)
                assert refused.value.code == -32602
            states[kind] = await send(client, "tools/call", CALL, ALL)


async def test_held_call_continues_after_the_server_has_withdrawn_its_first_input_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mcp_ref.bridge.held.QUIET_SECONDS", 2.0)
    server, go_on = Server("back", revisions=["2025-11-25"]), asyncio.Event()
    withdrawn = asyncio.Event()

    def is_open() -> bool:
        return any(call._open for call in bridge.relay.held.calls.values())

    @server.tool()
    async def ask(context: Context) -> str:
        wrong = asyncio.create_task(context.elicit("Wrong", SCHEMA))
        await eventually(is_open)
        wrong.cancel()
        withdrawn.set()
        await go_on.wait()
        return str((await context.elicit("Your name?", SCHEMA)).action)

    async with linked(server) as (client, bridge):
        calling = asyncio.create_task(send(client, "tools/call", ASK, ALL))
        await withdrawn.wait()
        await eventually(lambda: not is_open())
        pass_time(monkeypatch, 2.0)  # the bridge has collected the requests, none of which is open
        await asyncio.wait([calling], timeout=0.05)
        go_on.set()
        await eventually(is_open)
        pass_time(monkeypatch, 2.0)
        first = await calling
        [[key, request]] = first["inputRequests"].items()
        assert request["params"]["message"] == "Your name?"
        assert text_of(await send(client, "tools/call", retry_of(ASK, first, {key: NAME}), ALL)) == "accept"
