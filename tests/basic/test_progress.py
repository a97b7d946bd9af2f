"""Progress: which tokens may be named, in which order values come, and when they stop."""

from __future__ import annotations

import asyncio
import math

import pytest

from mcp_ref import Client, Context, Server
from mcp_ref.basic.progress import ProgressReporter
from mcp_ref.jsonrpc.messages import JSON, Object
from tests.matrix import EVERY_REVISION, KINDS
from tests.messages import Received, notification, request
from tests.raw_peers import Wire, connected_client, raw_session, serve_call
from tests.settings import MODERN, PATIENCE


def reading(uri: str, id: JSON, token: JSON) -> Object:
    """Return a request that asks for progress."""
    return request("resources/read", {"uri": uri, "_meta": {"progressToken": token}}, id)


def progress(token: JSON, value: JSON, **more: JSON) -> Object:
    return notification("notifications/progress", {"progressToken": token, "progress": value, **more})


# ------------------------------------------------------------------------------------------------ the receiver


@pytest.mark.spec(
    "2026-07-28/basic/patterns/progress#progress-flow-1,3,4",
    "2026-07-28/basic/patterns/progress#behavior-requirements-1",
    "2024-11-05..2025-11-25/basic/utilities/progress#progress-flow-1,3",
    "2025-03-26..2025-11-25/basic/utilities/progress#progress-flow-4",
    "2024-11-05..2025-11-25/basic/utilities/progress#behavior-requirements-1",
)
@KINDS
@EVERY_REVISION
@pytest.mark.parametrize("token", ["abc123", "", 0, 7, "7"])
async def test_progress_from_server_has_the_token_of_the_request_and_increasing_values(
    kind: str, revision: str, token: JSON, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "mcp_ref.basic.progress")
    if kind == "http-json" and revision == MODERN:
        pytest.skip("answers by JSON alone leave no way to tell")
    server = Server("s")

    @server.resource("test://steps")
    async def steps(context: Context) -> str:
        for value in (0, 1, 1, 0.5, -3, 1.25, 1.25, 4):
            await context.report_progress(value, 4, f"step {value}")
        return "done"

    async with connected_client(server, kind, revision) as wire:
        await wire.send(reading("test://steps", "q", token))
        # With JSON responses, the progress comes on another stream than the response, so either can be the first.
        messages = [await wire.receive_object() for _ in range(5)]
        came = [message for message in messages if "method" in message]
        [answer] = [message for message in messages if "method" not in message]
        more: Object = {"total": 4}
        if revision >= "2025-03-26":
            assert came == [progress(token, v, **more, message=f"step {v}") for v in (0, 1, 1.25, 4)]
        else:  # which had no messages yet
            assert came == [progress(token, v, **more) for v in (0, 1, 1.25, 4)]
        params = came[0]["params"]
        assert type(params["progressToken"]) is type(token)
        assert answer["id"] == "q"
        assert caplog.text.count("is not above the previous") == 4


@pytest.mark.spec(
    "2026-07-28/basic/patterns/progress#behavior-requirements-1",
    "2024-11-05..2025-11-25/basic/utilities/progress#behavior-requirements-1",
    "2024-11-05..2025-11-25/basic/utilities/progress#progress-flow-1",
)
@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25", MODERN])
@pytest.mark.parametrize("token", ["absent", None, True, 1.5, [1], {}, "x" * 1001], ids=lambda token: repr(token)[:9])
async def test_progress_is_not_sent_without_a_token_of_the_right_type_and_length(revision: str, token: JSON) -> None:
    server = Server("s")

    @server.resource("test://steps")
    async def steps(context: Context) -> str:
        await context.report_progress(1, 2)
        return "done"

    async with connected_client(server, revision=revision) as wire:
        meta: Object = {"other": 1} if token == "absent" else {"progressToken": token}
        answer = await wire.ask("resources/read", {"uri": "test://steps", "_meta": meta})
        assert "done" in str(answer["result"])
        await wire.nothing_more()


@pytest.mark.spec(
    "2024-11-05..2025-11-25/basic/utilities/progress#behavior-requirements-1,2",
    "2024-11-05..2025-11-25/basic/utilities/progress#implementation-notes-1",
)
@KINDS
async def test_progress_of_concurrent_requests_has_their_own_tokens(kind: str) -> None:
    server = Server("s")
    gates = {name: asyncio.Event() for name in ("a", "b")}

    @server.resource("test://{name}")
    async def steps(name: str, context: Context) -> str:
        await context.report_progress(1)
        await gates[name].wait()
        await context.report_progress(2)
        return name

    async with connected_client(server, kind) as wire:
        for name in gates:
            await wire.send(reading(f"test://{name}", name, f"token {name}"))
        first = [await wire.receive_object() for _ in gates]  # in any order if they come on different streams
        assert sorted(first, key=str) == [progress("token a", 1), progress("token b", 1)]
        for name in ("b", "a"):
            gates[name].set()
            reported, answer = sorted(
                [await wire.receive_object() for _ in range(2)], key=lambda message: "id" in message
            )
            assert reported == progress(f"token {name}", 2) and answer["id"] == name


@pytest.mark.spec(
    "2026-07-28/basic/patterns/progress#implementation-notes-3",
    "2026-07-28/basic/patterns/progress#behavior-requirements-2",
    "2024-11-05..2025-11-25/basic/utilities/progress#implementation-notes-3",
    "2024-11-05..2025-11-25/basic/utilities/progress#behavior-requirements-2",
)
@KINDS
@EVERY_REVISION
@pytest.mark.parametrize("ending", ["answered", "failed", "cancelled"])
async def test_progress_stops_with_the_response(kind: str, revision: str, ending: str) -> None:
    if ending == "cancelled" and revision == "2024-10-07":
        pytest.skip("2024-10-07 has no cancellation")
    if ending == "cancelled" and revision == MODERN and kind not in ("memory", "stdio"):
        pytest.skip("over HTTP, leaving is cancelling")
    if kind == "http-json" and revision == MODERN:
        pytest.skip("answers by JSON alone leave no way to tell")
    server = Server("s")
    kept: list[Context] = []
    begun = asyncio.Event()

    @server.resource("test://kept")
    async def keep(context: Context) -> str:
        kept.append(context)
        await context.report_progress(1)
        begun.set()
        if ending == "cancelled":
            try:
                await asyncio.Event().wait()
            finally:
                await context.report_progress(2)  # while it is being stopped
        if ending == "failed":
            raise ZeroDivisionError
        return "done"

    async with connected_client(server, kind, revision) as wire:
        await wire.send(reading("test://kept", "q", "t"))
        assert await wire.receive() == progress("t", 1)
        await asyncio.wait_for(begun.wait(), PATIENCE)
        if ending == "cancelled":
            await wire.send(notification("notifications/cancelled", {"requestId": "q"}))
        else:
            assert (await wire.receive_object())["id"] == "q"
        await wire.nothing_more()
        await kept[0].report_progress(3)
        await wire.nothing_more()


@pytest.mark.spec("2024-11-05..2025-11-25/basic/utilities/progress#implementation-notes-3")
@KINDS
async def test_progress_from_a_thread_that_outlives_its_request_is_dropped(kind: str) -> None:
    server = Server("s")
    loop = asyncio.get_running_loop()
    kept: list[Context] = []

    @server.resource("test://thread")
    def in_thread(context: Context) -> str:
        kept.append(context)
        context.run(context.report_progress(1))
        return "done"

    async with connected_client(server, kind) as wire:
        await wire.send(reading("test://thread", "q", "t"))
        assert await wire.receive() == progress("t", 1)
        assert (await wire.receive_object())["id"] == "q"
        await loop.run_in_executor(None, lambda: kept[0].run(kept[0].report_progress(2)))
        await wire.nothing_more()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_progress_is_a_finite_number(value: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        ProgressReporter("t").notification(value, None, None)
    with pytest.raises(ValueError, match="finite"):
        ProgressReporter("t").notification(1, value, None)


# ------------------------------------------------------------------------------------------------ the sender


async def _calling(client: Client, wire: Wire, calls: list[asyncio.Task[object]], **options: object) -> Object:
    """Begin one more call; gives the request as it was sent."""
    calls.append(asyncio.create_task(client.call_tool("t", **options)))  # type: ignore[call-overload]
    return await wire.receive_object()


def token_of(asked: Received) -> JSON:
    token: JSON = asked["params"]["_meta"]["progressToken"]
    return token


def result_of(revision: str) -> Object:
    return {"toolResult": "x"} if revision == "2024-10-07" else {"content": []}


@pytest.mark.spec(
    "2024-11-05..2025-11-25/basic/utilities/progress#progress-flow-1,2",
    "2026-07-28/basic/patterns/progress#progress-flow-2",
    "2024-11-05..2025-11-25/basic/utilities/progress#implementation-notes-1",
)
@EVERY_REVISION
async def test_progress_token_of_a_client_is_unique_and_reports_reach_only_its_request(revision: str) -> None:
    async with raw_session(Client, revision, {"tools": {}}) as (client, wire):
        heard: list[list[object]] = [[], [], []]
        calls: list[asyncio.Task[object]] = []
        asked = []
        for index in range(3):

            def hear(*values: object, index: int = index) -> None:
                heard[index].append(values)

            asked.append(await _calling(client, wire, calls, on_progress=hear, meta={"mine": index}))
        tokens = [token_of(one) for one in asked]
        assert len(set(map(repr, tokens))) == 3
        assert all(type(token) in (str, int) for token in tokens)
        assert [one["params"]["_meta"]["mine"] for one in asked] == [0, 1, 2]  # type: ignore[index, call-overload]
        await wire.send(progress(tokens[1], 1, total=3, message="one"))
        await wire.send(progress(tokens[2], 0.5))
        for one in asked:
            await wire.send({"jsonrpc": "2.0", "id": one["id"], "result": result_of(revision)})
        await asyncio.gather(*calls)  # progress before a response is handled before it
        assert heard == [[], [(1, 3, "one")], [(0.5, None, None)]]


@pytest.mark.spec("2024-11-05..2025-11-25/basic/utilities/progress#behavior-requirements-1,2")
async def test_progress_token_is_absent_without_a_progress_handler() -> None:
    async with raw_session(Client, capabilities={"tools": {}}) as (client, wire):
        _, asked = await serve_call(client.call_tool("t"), wire, {"content": []})
        assert "_meta" not in str(asked)
        await wire.send(progress(asked["id"], 1))  # unasked for: ignored
        await wire.nothing_more()


@pytest.mark.spec(
    "2024-11-05..2025-11-25/basic/utilities/progress#behavior-requirements-2",
    "2024-11-05..2025-11-25/basic/utilities/progress#implementation-notes-3",
)
async def test_progress_with_unknown_finished_or_mistyped_token_is_ignored(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    async with raw_session(Client, capabilities={"tools": {}}) as (client, wire):
        heard: list[object] = []
        calls: list[asyncio.Task[object]] = []
        asked = await _calling(client, wire, calls, on_progress=lambda *values: heard.append(values))
        token = token_of(asked)
        for other in (f"{token}", "unknown", 10**6, True, 1.5, None):
            await wire.send(progress(other, 1))
        for value in ("1", None, True):
            await wire.send(progress(token, value))
        await wire.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"content": []}})
        await calls[0]
        await wire.send(progress(token, 2))
        await wire.nothing_more()
        assert heard == []
        assert "no active request has the token 'unknown'" in caplog.text and "failed" not in caplog.text


async def test_progress_handler_that_fails_does_not_end_the_call() -> None:
    def fails(*values: object) -> None:
        raise ZeroDivisionError

    async with raw_session(Client, capabilities={"tools": {}}) as (client, wire):
        calls: list[asyncio.Task[object]] = []
        asked = await _calling(client, wire, calls, on_progress=fails)
        await wire.send(progress(token_of(asked), 1))
        await wire.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"content": []}})
        await calls[0]
