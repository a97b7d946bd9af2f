"""Cancellation: the requests that each side may cancel, and races between a cancellation and a response."""

from __future__ import annotations

import asyncio
import logging

import pytest

from mcp_ref import Client, Context, CreateMessageResult, RequestTimeout, Server, TextContent
from mcp_ref.jsonrpc.messages import JSON, Object
from mcp_ref.revisions import LEGACY
from tests.matrix import KINDS
from tests.messages import notification, request
from tests.raw_peers import Wire, connected_client, legacy_initialize, raw_server, raw_session
from tests.settings import MODERN, PATIENCE, pass_time

NAMES = [revision.name for revision in LEGACY if revision.name >= "2024-11-05"]
"""The revisions that have cancellation."""


class Waiting:
    """A server with a resource that waits, and tells what becomes of it."""

    def __init__(self) -> None:
        self.server = Server("s")
        self.begun = asyncio.Event()
        self.gate = asyncio.Event()
        self.stopped = asyncio.Event()
        self.server.resource("test://wait")(self.wait)

    async def wait(self, context: Context) -> str:
        self.begun.set()
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.stopped.set()
            raise
        return "done"

    async def begin(self, wire: Wire, id: JSON = 1) -> None:
        """Send the request, and return when it is being served."""
        self.begun.clear()
        await wire.send(request("resources/read", {"uri": "test://wait"}, id))
        await soon(self.begun)


async def soon(event: asyncio.Event) -> None:
    await asyncio.wait_for(event.wait(), PATIENCE)


def cancel(id: JSON, **more: JSON) -> Object:
    return notification("notifications/cancelled", {"requestId": id, **more})


# ------------------------------------------------------------------------------------------------ the receiver


@pytest.mark.spec(
    "2026-07-28/basic/patterns/cancellation#implementation-notes-1",
    "2024-11-05..2025-11-25/basic/utilities/cancellation#behavior-requirements-5,6",
    "2024-11-05..2025-06-18/basic/utilities/cancellation#behavior-requirements-4",
    "2025-11-25/basic/utilities/cancellation#behavior-requirements-7",
    "2024-11-05..2025-11-25/basic/utilities/cancellation#implementation-notes-1",
)
@KINDS
@pytest.mark.parametrize("revision", [*NAMES, MODERN])
@pytest.mark.parametrize("id", [1, 0, "", "1"])
async def test_cancelled_server_stops_request_sends_no_response_and_logs_reason(
    kind: str, revision: str, id: JSON, caplog: pytest.LogCaptureFixture
) -> None:
    if revision == MODERN and kind not in ("memory", "stdio"):
        pytest.skip("over HTTP, leaving is cancelling")
    caplog.set_level(logging.INFO)
    waiting = Waiting()
    async with connected_client(waiting.server, kind, revision) as wire:
        await waiting.begin(wire, id)
        await wire.send(cancel(id, reason="took\nERROR too long"))
        await soon(waiting.stopped)
        await wire.nothing_more()
        await waiting.begin(wire, id)  # its place and its id are free again
        waiting.gate.set()
        answer = await wire.receive_object()
        assert (answer["id"], type(answer["id"])) == (id, type(id))
        assert "done" in str(answer["result"])
    assert r"took\nERROR too long" in caplog.text  # not a line of its own


@pytest.mark.spec(
    "2025-11-25/basic/utilities/cancellation#behavior-requirements-7",
    "2024-11-05..2025-06-18/basic/utilities/cancellation#behavior-requirements-6",
)
@pytest.mark.parametrize("revision", NAMES)
async def test_cancelled_client_stops_request_and_sends_no_response(revision: str) -> None:
    begun, stopped = asyncio.Event(), asyncio.Event()

    async def sampling(params: object) -> CreateMessageResult:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.set()
            raise
        return CreateMessageResult("assistant", TextContent("never"), "model")

    async with raw_session(lambda t: Client(t, sampling=sampling), revision) as (_, wire):
        message: Object = {"role": "user", "content": {"type": "text", "text": "?"}}
        await wire.send(request("sampling/createMessage", {"messages": [message], "maxTokens": 9}, "s"))
        await soon(begun)
        await wire.send(cancel("s"))
        await soon(stopped)
        await wire.nothing_more()


@pytest.mark.spec(
    "2026-07-28/basic/patterns/cancellation#error-handling-1,2,3",
    "2026-07-28/basic/patterns/cancellation#timing-considerations-1",
    "2024-11-05..2025-11-25/basic/utilities/cancellation#error-handling-1,2,3",
    "2024-11-05..2025-11-25/basic/utilities/cancellation#timing-considerations-1",
)
@KINDS
@pytest.mark.parametrize("revision", [*NAMES, MODERN])
async def test_cancelled_unknown_request_is_ignored_and_others_go_on(kind: str, revision: str) -> None:
    if revision == MODERN and kind not in ("memory", "stdio"):
        pytest.skip("over HTTP, leaving is cancelling")
    waiting = Waiting()
    async with connected_client(waiting.server, kind, revision) as wire:
        assert "result" in await wire.ask("resources/list", {}, "done")
        await waiting.begin(wire, 1)
        await wire.send(cancel("done"))  # it lost the race with the answer
        await wire.send(cancel("never asked"))
        others: list[JSON] = ["1", True, 1.5, None, [1], {"id": 1}]
        for other in others:  # values that Python or JavaScript might take for 1
            await wire.send(cancel(other))
        await wire.send(notification("notifications/cancelled"))
        await wire.send(notification("notifications/cancelled", {"reason": "which?"}))
        await wire.send(cancel(1, reason=7))  # malformed: not half obeyed
        await wire.nothing_more()
        assert not waiting.stopped.is_set()
        waiting.gate.set()
        assert (await wire.receive_object())["id"] == 1


@pytest.mark.spec("2024-11-05..2025-11-25/basic/utilities/cancellation#behavior-requirements-1")
@KINDS
async def test_cancelled_reaches_only_requests_of_its_own_direction(kind: str) -> None:
    """Cancel the client's request 1: both sides count from 1, and the server's own request 1 must go on."""

    server = Server("s")

    @server.resource("test://roots")
    async def roots(context: Context) -> str:
        return f"{len(await context.list_roots())} roots"

    async with connected_client(server, kind, capabilities={"roots": {}}) as wire:
        await wire.send(request("resources/read", {"uri": "test://roots"}, "mine"))
        asked = await wire.receive_object()
        assert asked["method"] == "roots/list"
        await wire.send(cancel(asked["id"]))
        await wire.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"roots": []}})
        assert "0 roots" in str(await wire.receive_object())


@pytest.mark.spec("2024-11-05..2025-11-25/basic/utilities/cancellation#timing-considerations-1")
@KINDS
async def test_cancelled_right_behind_its_request_gives_at_most_one_response(kind: str) -> None:
    waiting = Waiting()
    waiting.gate.set()
    async with connected_client(waiting.server, kind) as wire:
        for id in range(50):  # the cancellation or the response wins the race
            await wire.send(request("resources/read", {"uri": "test://wait"}, id))
            for _ in range(id % 5):
                await asyncio.sleep(0)
            await wire.send(cancel(id))
        await wire.send(request("ping", id="end"))
        ids = []
        while (answer := await wire.receive_object())["id"] != "end":
            assert "result" in answer
            ids.append(answer["id"])
        assert len(ids) == len(set(map(str, ids)))


# ------------------------------------------------------------------------------------------------ the sender


@pytest.mark.spec(
    "2024-11-05..2025-11-25/basic/utilities/cancellation#behavior-requirements-1,2",
    "2025-11-25/basic/utilities/cancellation#behavior-requirements-8",
    "2024-11-05..2025-06-18/basic/utilities/cancellation#behavior-requirements-7",
    "2024-11-05..2025-11-25/basic/utilities/cancellation#timing-considerations-1",
)
@pytest.mark.parametrize("revision", NAMES)
async def test_cancelled_from_client_names_only_own_requests_in_flight(revision: str) -> None:
    async with raw_session(Client, revision) as (client, wire):
        calls = [asyncio.create_task(client.ping()) for _ in range(3)]
        ids = [(await wire.receive_object())["id"] for _ in calls]
        await wire.send({"jsonrpc": "2.0", "id": ids[0], "result": {}})
        await calls[0]
        for call in calls:
            call.cancel()  # for the first, nothing is left to cancel
        await asyncio.wait(calls)
        cancelled = [await wire.receive_object() for _ in range(2)]
        reason = "the caller stopped waiting"
        assert cancelled == [cancel(id, reason=reason) for id in ids[1:]]
        for id in ids:  # answers that crossed the cancellation, and one that comes twice
            await wire.send({"jsonrpc": "2.0", "id": id, "result": {}})
        await wire.nothing_more()


@pytest.mark.spec(
    "2024-11-05..2025-11-25/basic/utilities/cancellation#behavior-requirements-1,2",
    "2025-11-25/basic/utilities/cancellation#behavior-requirements-8",
    "2024-11-05..2025-06-18/basic/utilities/cancellation#behavior-requirements-7",
)
@KINDS
@pytest.mark.parametrize("revision", NAMES)
async def test_cancelled_from_server_follows_a_caller_that_stopped_waiting(kind: str, revision: str) -> None:
    server = Server("s")

    @server.resource("test://impatient")
    async def impatient(context: Context) -> str:
        with pytest.raises(RequestTimeout):
            await context.list_roots(timeout=0.01)
        return "went on"

    async with connected_client(server, kind, revision, {"roots": {}}) as wire:
        await wire.send(request("resources/read", {"uri": "test://impatient"}, "mine"))
        asked = await wire.receive_object()
        assert asked["method"] == "roots/list"
        # Over HTTP, the two come on different streams, in any order.
        cancelled, answer = sorted([await wire.receive_object() for _ in range(2)], key=lambda message: "id" in message)
        assert cancelled == cancel(asked["id"], reason="the request timed out")
        assert "went on" in str(answer)
        await wire.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"roots": []}})
        await wire.nothing_more()


@pytest.mark.spec("2024-11-05..2025-11-25/basic/utilities/cancellation#behavior-requirements-2")
@KINDS
async def test_cancelled_request_cancels_the_requests_that_it_caused(kind: str) -> None:
    server = Server("s")

    @server.resource("test://roots")
    async def roots(context: Context) -> str:
        return str(await context.list_roots())

    async with connected_client(server, kind, capabilities={"roots": {}}) as wire:
        await wire.send(request("resources/read", {"uri": "test://roots"}, "mine"))
        asked = await wire.receive_object()
        await wire.send(cancel("mine"))
        assert (await wire.receive_object())["params"] == {
            "requestId": asked["id"],
            "reason": "the caller stopped waiting",
        }
        await wire.nothing_more()


@pytest.mark.spec(
    "2024-11-05..2025-11-25/basic/utilities/cancellation#behavior-requirements-3",
    "2024-11-05/basic/lifecycle#error-handling-3",
)
@pytest.mark.parametrize("how", ["timeout", "cancel"])
async def test_cancelled_from_client_never_names_initialize(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with raw_server(lambda t: Client(t, timeout=5.0 if how == "timeout" else None)) as (client, wire):
        connecting = asyncio.create_task(client.connect())
        await legacy_initialize(wire)
        if how == "cancel":
            connecting.cancel()
        else:
            pass_time(monkeypatch, 5.0)
        with pytest.raises(RequestTimeout if how == "timeout" else asyncio.CancelledError):
            await connecting
        await soon(wire.closed)
        assert wire.frames.empty()  # it just leaves
