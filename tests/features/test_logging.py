"""Log messages: the capability, the levels, and the contents, which come from the author alone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import pytest

from mcp_ref import Client, Context, Server, ToolError
from mcp_ref.features.logging import LEVELS, LoggingLevel, LoggingMessageNotificationParams
from mcp_ref.jsonrpc.messages import INTERNAL_ERROR, INVALID_PARAMS, JSON, METHOD_NOT_FOUND, Object
from tests.matrix import EVERY_REVISION, KINDS, LEGACY_REVISIONS
from tests.messages import initialize, notification, request, stateless_request
from tests.raw_peers import Wire, connected_client, handshake, raw_client, raw_server, raw_session, serve_call
from tests.settings import PATIENCE, STATELESS_TRANSPORTS


def message(level: JSON, data: JSON, **more: JSON) -> Object:
    return notification("notifications/message", {"level": level, "data": data, **more})


def verbose_server(logging: bool = True) -> Server:
    """Return a server with one tool, which writes one message of every level, the least severe first."""
    server = Server("s", logging=logging)

    @server.tool()
    async def speak(context: Context) -> str:
        for level in LEVELS:
            await context.log(level, level)
        return "done"

    return server


async def levels(wire: Wire) -> list[JSON]:
    """Have the server speak, and give the levels that came before its answer."""
    await wire.send(request("tools/call", {"name": "speak", "arguments": {}}, "speak"))
    came: list[JSON] = []
    while "method" in (frame := await wire.receive_object()):
        params = frame["params"]
        assert frame == message(params["level"], params["level"])
        came.append(params["level"])
    assert frame["id"] == "speak" and "result" in frame
    return came


# ------------------------------------------------------------------------------------------------ capability


@pytest.mark.spec("2024-11-05..2025-11-25/server/utilities/logging#capabilities-1")
@LEGACY_REVISIONS
async def test_logging_capability_is_declared_and_without_it_no_message_or_level_is_taken(revision: str) -> None:
    for logging in (True, False):
        async with raw_client(verbose_server(logging)) as wire:
            await wire.send(initialize(revision))
            result = (await wire.receive_object())["result"]
            assert ("logging" in result["capabilities"]) is logging
            await wire.send(notification("notifications/initialized"))
            assert await levels(wire) == (list(LEVELS) if logging else [])
            answer = await wire.ask("logging/setLevel", {"level": "info"})
            assert logging or answer["error"]["code"] == METHOD_NOT_FOUND


# ------------------------------------------------------------------------------------------------ levels


@KINDS
@LEGACY_REVISIONS
@pytest.mark.parametrize("level", LEVELS)
async def test_logging_set_level_lets_that_level_and_more_severe_ones_pass(
    kind: str, revision: str, level: str
) -> None:
    async with connected_client(verbose_server(), kind, revision) as wire:
        assert (await wire.ask("logging/setLevel", {"level": level}))["result"] == {}
        assert await levels(wire) == list(LEVELS)[LEVELS.index(level) :]


async def test_logging_set_level_is_per_client_and_the_last_one_counts() -> None:
    server = verbose_server()
    async with connected_client(server) as one, connected_client(server) as other:
        await one.ask("logging/setLevel", {"level": "debug"})
        await one.ask("logging/setLevel", {"level": "emergency"})
        assert await levels(one) == ["emergency"]
        assert await levels(other) == list(LEVELS)


@pytest.mark.spec("2024-11-05..2025-11-25/server/utilities/logging#error-handling-1")
@LEGACY_REVISIONS
async def test_logging_set_level_invalid_level_is_invalid_params(revision: str) -> None:
    wrong: list[JSON] = ["loud", "INFO", "", None, 3, ["info"], {"a": "info"}]
    async with connected_client(verbose_server(), revision=revision) as wire:
        await wire.ask("logging/setLevel", {"level": "alert"})
        for params in ({}, *({"level": level} for level in wrong)):
            error = (await wire.ask("logging/setLevel", params))["error"]
            assert error["code"] == INVALID_PARAMS, params
        assert await levels(wire) == ["alert", "emergency"]


async def test_context_log_unknown_level_raises_in_the_handler() -> None:
    server, seen = Server("s"), []

    @server.tool()
    async def speak(context: Context) -> str:
        try:
            await context.log("warn", "x")  # type: ignore[arg-type]
        except ValueError as error:
            seen.append(str(error))
        return "done"

    async with connected_client(server) as wire:
        await wire.ask("logging/setLevel", {"level": "emergency"})
        assert "result" in await wire.ask("tools/call", {"name": "speak", "arguments": {}})
    assert "'warn'" in seen[0] and "warning" in seen[0]


# ------------------------------------------------------------------------------------------------ messages


@pytest.mark.spec("2024-11-05..2025-11-25/server/utilities/logging#security-5")
@KINDS
@LEGACY_REVISIONS
async def test_notifications_message_data_is_any_json_unchanged(kind: str, revision: str) -> None:
    data: list[JSON] = [
        "text", "", None, 0, -1.5, True, [], [1, [None]], {}, {"error": {"host": "a\nb\u2028💡", "n": 3}},
    ]  # fmt: skip
    server = Server("s")

    @server.tool()
    async def speak(context: Context) -> str:
        for value in data:
            await context.log("info", value, "database")
        return "done"

    async with connected_client(server, kind, revision) as wire:
        await wire.send(request("tools/call", {"name": "speak", "arguments": {}}, "q"))
        for value in data:
            assert await wire.receive() == message("info", value, logger="database")
        assert (await wire.receive_object())["id"] == "q"


@pytest.mark.spec("2024-11-05..2026-07-28/server/utilities/logging#security-1,2,3")
@EVERY_REVISION
async def test_notifications_message_holds_nothing_that_the_author_did_not_log(
    revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    # The author is responsible for logged messages. The package adds none of its own: no arguments, no exception, no
    # traceback and no path, even if it writes them to the operator's log.
    secret = "hunter2-jane@example.org"
    server = Server("s", title="t")

    @server.tool()
    async def failing(password: str) -> str:
        raise RuntimeError(f"cannot log in with {password}")

    @server.tool()
    def failing_in_a_thread(password: str) -> str:
        raise RuntimeError(f"cannot log in with {password}")

    @server.resource("test://failing")
    async def failing_resource() -> str:
        raise RuntimeError(f"cannot read with {secret}")

    @server.prompt()
    async def failing_prompt(password: str) -> str:
        raise RuntimeError(f"cannot ask with {password}")

    async with connected_client(server, revision=revision) as wire:
        await wire.ask("logging/setLevel", {"level": "debug"})
        answers = [
            await wire.ask("tools/call", {"name": "failing", "arguments": {"password": secret}}),
            await wire.ask("tools/call", {"name": "failing_in_a_thread", "arguments": {"password": secret}}),
            await wire.ask("resources/read", {"uri": "test://failing"}),
            await wire.ask("prompts/get", {"name": "failing_prompt", "arguments": {"password": secret}}),
        ]
        assert all(answer["id"] == "q" for answer in answers), "answers alone, no notification before them"
        assert [answer["error"]["code"] for answer in answers[2:]] == [INTERNAL_ERROR] * 2
        told = json.dumps(answers)
        assert secret not in told and "Traceback" not in told and __file__ not in told
        await wire.nothing_more()
    assert secret in caplog.text, "the operator does see it"


async def test_notifications_message_after_the_response_is_dropped() -> None:
    server, kept = Server("s"), []

    @server.tool()
    async def speak(context: Context) -> str:
        kept.append(context)
        return "done"

    async with connected_client(server) as wire:
        await wire.ask("tools/call", {"name": "speak", "arguments": {}})
        await kept[0].log("error", "too late")
        await wire.nothing_more()


def speak_in_a_thread(context: Context) -> str:
    context.run(context.log("notice", "x"))
    return "done"


async def speak_and_fail(context: Context) -> str:
    await context.log("notice", "x")
    raise ToolError("failed")


@pytest.mark.parametrize("speak", [speak_in_a_thread, speak_and_fail])
async def test_notifications_message_of_a_thread_or_a_failing_tool_comes_before_its_result(
    speak: Callable[[Context], object],
) -> None:
    server = Server("s")
    server.tools.add(speak, "speak")
    async with connected_client(server) as wire:
        await wire.send(request("tools/call", {"name": "speak", "arguments": {}}, "q"))
        assert await wire.receive() == message("notice", "x")
        assert (await wire.receive_object())["id"] == "q"


# ------------------------------------------------------------------------------------------------ the client


@LEGACY_REVISIONS
async def test_client_set_logging_level_and_log_handler(revision: str) -> None:
    came: asyncio.Queue[LoggingMessageNotificationParams] = asyncio.Queue()
    async with raw_session(lambda t: Client(t, on_log=came.put_nowait), revision, {"logging": {}}) as (client, wire):
        _, asked = await serve_call(client.set_logging_level("warning"), wire, {})
        assert (asked["method"], asked["params"]) == ("logging/setLevel", {"level": "warning"})
        await wire.send(message("error", {"error": "Connection failed"}, logger="database"))
        await wire.send(message("info", None))
        async with asyncio.timeout(PATIENCE):
            first, second = await came.get(), await came.get()
        assert (first.level, first.data, first.logger) == ("error", {"error": "Connection failed"}, "database")
        assert (second.level, second.data, second.logger) == ("info", None, None)


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_client_set_logging_level_refuses_an_unknown_level(revision: str) -> None:
    async with Client(Server("x"), revision=revision, on_log=print) as client:
        with pytest.raises(ValueError, match=r"the log level must be one of debug, .*, not 'warn'"):
            await client.set_logging_level("warn")  # type: ignore[arg-type]
        await client.ping()


@pytest.mark.spec("2024-11-05..2025-11-25/server/utilities/logging#security-5")
async def test_client_ignores_invalid_notifications_message() -> None:
    wrong: list[Object] = [
        {"level": "loud", "data": 1},
        {"data": 1},
        {"level": "info"},
        {"level": "info", "data": 1, "logger": 2},
    ]
    came: asyncio.Queue[LoggingMessageNotificationParams] = asyncio.Queue()
    async with raw_server(lambda transport: Client(transport, on_log=came.put_nowait)) as (client, wire):
        await handshake(client, wire, "2025-11-25", {"logging": {}})
        for params in wrong:
            await wire.send(notification("notifications/message", params))
        await wire.send(message("info", "right"))
        async with asyncio.timeout(PATIENCE):
            assert (await came.get()).data == "right"
        assert came.empty()


def test_logging_levels_are_those_of_rfc_5424() -> None:
    expected: list[LoggingLevel] = ["emergency", "alert", "critical", "error", "warning", "notice", "info", "debug"]
    assert list(LEVELS) == expected[::-1]


# ------------------------------------------------------------------------------------------------ 2026-07-28


@pytest.mark.parametrize("kind", [kind for kind in STATELESS_TRANSPORTS if kind != "http-json"])
@pytest.mark.parametrize("level", LEVELS)
async def test_log_level_in_meta_lets_that_level_and_more_severe_ones_pass(kind: str, level: str) -> None:
    async with raw_client(verbose_server(), kind) as wire:
        await wire.send(stateless_request("tools/call", {"name": "speak"}, logLevel=level))
        for expected in LEVELS[LEVELS.index(level) :]:
            assert await wire.receive() == message(expected, expected)
        assert "result" in await wire.receive_object()


@pytest.mark.spec("2026-07-28/server/utilities/logging#error-handling-1")
async def test_log_level_in_meta_invalid_level_is_invalid_params() -> None:
    wrong: list[JSON] = ["loud", "INFO", "", 3, True, ["info"], {"a": "info"}]
    async with raw_client(verbose_server()) as wire:
        for level in wrong:
            for method in ("tools/call", "tools/list", "subscriptions/listen"):
                answer = await wire.ask_stateless(method, {"name": "speak", "notifications": {}}, logLevel=level)
                assert answer["error"]["code"] == INVALID_PARAMS and "emergency" in str(answer["error"])


@pytest.mark.spec("2026-07-28/server/utilities/logging#capabilities-1")
async def test_log_level_in_meta_without_the_logging_capability_sends_no_message() -> None:
    async with raw_client(verbose_server(logging=False)) as wire:
        assert "result" in await wire.ask_stateless("tools/call", {"name": "speak"}, logLevel="debug")
