"""Subscriptions of a client: in both eras, over every transport, and after an interruption."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import signal
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import cast

import pytest

from mcp_ref import (
    Bearer,
    CapabilityError,
    Client,
    ConnectionClosed,
    Context,
    RemoteError,
    RequestTimeout,
    Server,
    TokenRefused,
)
from mcp_ref.basic.authorization.authorization_server_discovery import PeerRequests
from mcp_ref.basic.authorization.client import Authorizer, Need
from mcp_ref.basic.authorization.token_endpoint import Grant
from mcp_ref.client import subscriptions
from mcp_ref.client.connector import MAX_RESTARTS
from mcp_ref.client.requests import ClientRequests
from mcp_ref.client.subscriptions import ListenRequest, Subscription
from mcp_ref.jsonrpc.messages import JSON, Object
from mcp_ref.lib.http.message import Exchange
from mcp_ref.lib.http.sse import encode_event
from mcp_ref.lib.uri import MAX_URI_LENGTH
from mcp_ref.transports.memory import MemoryTransport
from mcp_ref.transports.stdio.client import StdioClientTransport
from mcp_ref.transports.streamable_http import resumption
from tests import raw_peers
from tests.forked_python import python, quick_python
from tests.messages import notification
from tests.raw_peers import Wire, raw_server, raw_session
from tests.raw_stateless_server import META, MODERN, answer, asked_for, discovered, params_of, refusal
from tests.scripted_http_server import (
    JSON_HEADERS,
    SSE,
    ScriptedServer,
    Step,
    error,
    events,
    frame,
    respond_with,
    result,
    scripted,
    status,
)
from tests.settings import PATIENCE, eventually

LEGACY = "2025-11-25"
ERAS = [LEGACY, MODERN]
WATCHED: Object = {"resources": {"subscribe": True, "listChanged": True}, "tools": {"listChanged": True}}


def watchable() -> Server:
    """Return a server with resources to watch."""
    server = Server("s", "1")

    @server.resource("test://a")
    async def a() -> str:
        return "a"

    @server.resource("test://b/{name}")
    async def b(name: str) -> str:
        return name

    @server.tool()
    async def touch(uri: str) -> str:
        server.resource_updated(uri)
        return "touched"

    @server.tool()
    async def grow(name: str) -> str:
        server.tool(name)(touch)
        return "grown"

    @server.tool()
    async def leave() -> None:
        os._exit(3)

    return server


@contextlib.asynccontextmanager
async def watching(kind: str, revision: str, **options: object) -> AsyncIterator[Client]:
    """Connect a client to such a server."""
    options = {"revision": revision, "timeout": PATIENCE, **options}
    if kind == "http":
        async with watchable().serve_http() as url, Client(url, **options) as client:  # type: ignore[arg-type]
            yield client
        return
    server = watchable() if kind == "memory" else quick_python(PROGRAM)
    async with Client(server, **options) as client:  # type: ignore[arg-type]
        yield client


PROGRAM = "from tests.client.test_subscriptions import watchable\nwatchable().run()"
both_eras = pytest.mark.parametrize("revision", ERAS)
everywhere = pytest.mark.parametrize("kind", ["memory", "stdio", "http"])


async def following(updates: Subscription) -> str:
    return await asyncio.wait_for(anext(updates), PATIENCE)


async def touch(client: Client, uri: str) -> None:
    assert (await client.call_tool("touch", {"uri": uri})).text == "touched"


# ------------------------------------------------------------------------------------------------ the same in both eras


@everywhere
@both_eras
async def test_subscription_yields_updates_of_its_resource(revision: str, kind: str) -> None:
    async with watching(kind, revision) as client:
        async with client.subscribe("test://a") as updates:
            await touch(client, "test://b/x")  # nobody watches it
            await touch(client, "test://a")
            assert await following(updates) == "test://a"
            await touch(client, "test://a")
            assert await following(updates) == "test://a"
        async with client.subscribe("test://a") as again:
            await touch(client, "test://a")
            assert await following(again) == "test://a"


@everywhere
@both_eras
async def test_several_subscriptions_at_once_hear_what_is_theirs(revision: str, kind: str) -> None:
    async with watching(kind, revision) as client, client.subscribe("test://a") as first:
        async with client.subscribe("test://a") as second, client.subscribe("test://b/x") as other:
            await touch(client, "test://b/x")
            assert await following(other) == "test://b/x"
            await touch(client, "test://a")
            assert (await following(first), await following(second)) == ("test://a", "test://a")
        await touch(client, "test://a")
        assert await following(first) == "test://a"
        assert not second._changed and not other._changed


@everywhere
@both_eras
async def test_on_tools_changed_is_called_for_a_new_tool(revision: str, kind: str) -> None:
    changes: list[str] = []
    heard = asyncio.Event()

    def changed() -> None:
        changes.append("tools")
        heard.set()

    async with watching(kind, revision, on_tools_changed=changed) as client:
        await client.call_tool("grow", {"name": "new"})
        await heard.wait()
        assert "new" in [tool.name for tool in await client.list_tools()]


@everywhere
@both_eras
async def test_watch_lists_yields_changed_lists_until_it_is_closed(revision: str, kind: str) -> None:
    async with watching(kind, revision) as client:
        async with client.watch_lists("tools", "resources") as changes, client.watch_lists("resources") as others:
            await client.call_tool("grow", {"name": "new"})
            assert await following(changes) == "tools"
        await client.call_tool("grow", {"name": "newer"})
        await client.ping()
        assert not changes._changed and not others._changed


@both_eras
async def test_watch_lists_is_refused_for_a_list_that_the_server_does_not_have(revision: str) -> None:
    async with watching("memory", revision) as client:
        with pytest.raises(CapabilityError, match=r"does not offer prompts\.listChanged"):
            await client.watch_lists("prompts", "tools").__aenter__()
        with pytest.raises(ValueError, match="watch_lists needs the names of the lists"):
            client.watch_lists()


@both_eras
async def test_list_changed_tells_clients_of_a_change_by_hand(revision: str) -> None:
    server = watchable()
    async with Client(server, revision=revision) as client, client.watch_lists("tools", "resources") as changes:
        server.list_changed("resources")
        assert await following(changes) == "resources"
        with pytest.raises(ValueError, match="feature must be tools, resources or prompts, not 'roots'"):
            server.list_changed("roots")  # type: ignore[arg-type]


@both_eras
async def test_subscription_ends_with_connection_closed(revision: str) -> None:
    async with watching("memory", revision) as client:
        updates = await client.subscribe("test://a").__aenter__()
        await touch(client, "test://a")
        await client.close()
        with pytest.raises(ConnectionClosed, match="subscription to test://a"):
            async for _ in updates:
                pass
        await updates.__aexit__()


@both_eras
async def test_subscribe_raises_capability_error_without_the_capability(revision: str) -> None:
    server = Server("s", "1")
    async with Client(server, revision=revision, timeout=PATIENCE) as client:
        with pytest.raises(CapabilityError):
            async with client.subscribe("test://a"):
                pass
        await client.ping()


# ------------------------------------------------------------------------------------------------ on the wire


def told(id: JSON, method: str = "notifications/resources/updated", **params: JSON) -> Object:
    """Return a notification of a subscription."""
    return notification(method, {"_meta": {f"{META}subscriptionId": id}, **params})


def acknowledged(asked: Object, **honored: JSON) -> Object:
    return told(asked["id"], "notifications/subscriptions/acknowledged", notifications=dict(honored))


async def entered(client: Client, wire: Wire, uri: str = "test://a") -> tuple[Subscription, Object]:
    """Enter a subscription, and return it with its request."""
    entering = asyncio.create_task(client.subscribe(uri).__aenter__())
    asked = await asked_for(wire, "subscriptions/listen")
    assert params_of(asked)["notifications"] == {"resourceSubscriptions": [uri]}
    await wire.send(acknowledged(asked, resourceSubscriptions=[uri]))
    return await asyncio.wait_for(entering, PATIENCE), asked


def of(**options: object) -> Callable[[MemoryTransport], Client]:
    return lambda transport: Client(transport, **{"timeout": PATIENCE, **options})  # type: ignore[arg-type]


@pytest.mark.spec(
    "2026-07-28/basic/transports/stdio#receiving-messages-1",
    "2026-07-28/basic/patterns/subscriptions#receiving-notifications-1",
)
async def test_on_one_channel_a_notification_goes_by_the_id_of_its_subscription() -> None:
    async with raw_session(of(), MODERN, WATCHED) as (client, wire):
        one, first = await entered(client, wire, "test://a")
        two, second = await entered(client, wire, "test://a")
        assert first["id"] != second["id"]
        others: list[JSON] = [str(second["id"]), 99, None, True, [], {}, 1.5]
        for id in others:
            await wire.send(told(id, uri="test://a/lost"))
        await wire.send(notification("notifications/resources/updated", {"uri": "test://a/lost"}))
        await wire.send(told(second["id"], uri="test://a/2"))
        await wire.send(told(first["id"], uri="test://a/1"))
        assert (await following(two), await following(one)) == ("test://a/2", "test://a/1")
        assert not one._changed and not two._changed
        await one.__aexit__()
        await two.__aexit__()


async def test_subscription_yields_only_updates_of_its_resource_and_what_is_below() -> None:
    async with raw_session(of(), MODERN, WATCHED) as (client, wire):
        updates, asked = await entered(client, wire, "test://a")
        assert updates._request is not None and updates._request._timer is not None
        assert updates._request._timer.end == math.inf  # the time limit was that of the acknowledgement
        await wire.send(told(asked["id"], "notifications/tools/list_changed"))
        await wire.send(told(asked["id"], "notifications/message", level="info", data="x"))
        await wire.send(told(asked["id"], uri="test://b"))
        await wire.send(told(asked["id"], uri="test://a/below"))
        assert await following(updates) == "test://a/below" and not updates._changed
        await updates.__aexit__()


def logging_server() -> Server:
    server = Server("s")

    @server.tool()
    async def log_and_change(context: Context) -> None:
        await context.log("info", "x")
        server.tools.add(lambda: None, "new")

    return server


@pytest.mark.parametrize("has_callback", [True, False])
async def test_log_messages_go_to_on_log_only_and_list_changes_do_not(
    has_callback: bool, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[str] = []
    changed = asyncio.Event()
    client = Client(
        logging_server(), revision="2025-11-25", on_tools_changed=changed.set,
        on_log=(lambda params: seen.append(str(params.data))) if has_callback else None,
    )  # fmt: skip
    async with client:
        await client.call_tool("log_and_change")
        await asyncio.wait_for(changed.wait(), PATIENCE)
    assert seen == ["x"] * has_callback and not caplog.records


@pytest.mark.parametrize("revision", ERAS)
async def test_subscription_without_async_with_raises_instead_of_waiting(revision: str) -> None:
    async with Client(watchable(), revision=revision) as client:
        with pytest.raises(RuntimeError, match="the subscription is not open: use `async with"):
            await asyncio.wait_for(anext(client.subscribe("test://a")), PATIENCE)


async def test_subscription_that_cannot_be_sent_raises_on_entry() -> None:
    async with raw_session(of(timeout=None), MODERN, WATCHED) as (client, wire):
        with pytest.raises(ValueError, match="surrogate"):
            await asyncio.wait_for(client.subscribe("test://\ud800").__aenter__(), PATIENCE)
        assert not client.session.listeners and wire.frames.empty()


@pytest.mark.spec(
    "2026-07-28/basic/patterns/cancellation#transport-specific-cancellation-2",
    "2026-07-28/basic/transports/stdio#cancellation-1",
)
async def test_leaving_a_subscription_cancels_its_request_once() -> None:
    async with raw_session(of(), MODERN, WATCHED) as (client, wire):
        updates, asked = await entered(client, wire)
        await updates.__aexit__()
        cancelled = await wire.receive_object()
        assert cancelled["method"] == "notifications/cancelled"
        assert params_of(cancelled)["requestId"] == asked["id"]
        await wire.send(told(asked["id"], uri="test://a"))  # too late
        await wire.send(answer(asked, {"resultType": "complete"}))
        await client.close()
        assert wire.frames.empty() and not updates._changed


@pytest.mark.spec("2026-07-28/basic/patterns/cancellation#behavior-requirements-2")
@pytest.mark.parametrize("how", ["an answer", "a cancellation"])
async def test_subscription_that_the_server_completes_ends_after_the_received_updates(how: str) -> None:
    async with raw_session(of(), MODERN, WATCHED) as (client, wire):
        updates, asked = await entered(client, wire)
        await wire.send(told(asked["id"], uri="test://a"))
        if how == "an answer":
            await wire.send(answer(asked, {"resultType": "complete", "_meta": {f"{META}subscriptionId": asked["id"]}}))
        else:
            await wire.send(notification("notifications/cancelled", {"requestId": asked["id"]}))
        assert [uri async for uri in updates] == ["test://a"]
        assert [uri async for uri in updates] == []
        await updates.__aexit__()
        await client.close()
        assert wire.frames.empty()  # nothing is cancelled that has ended


async def test_subscription_that_the_server_has_completed_yields_updates_after_it_is_entered_again() -> None:
    async with raw_session(of(), MODERN, WATCHED) as (client, wire):
        updates, asked = await entered(client, wire)
        await wire.send(answer(asked, {"resultType": "complete"}))
        assert [uri async for uri in updates] == []
        await updates.__aexit__()
        entering = asyncio.create_task(updates.__aenter__())
        again = await asked_for(wire, "subscriptions/listen")
        await wire.send(acknowledged(again, resourceSubscriptions=["test://a"]))
        await entering
        waiting = asyncio.create_task(following(updates))
        other, _ = await entered(client, wire, "test://b")  # meanwhile, `waiting` begins to wait
        await wire.send(told(again["id"], uri="test://a"))
        assert await waiting == "test://a"
        await other.__aexit__()
        await updates.__aexit__()


@pytest.mark.spec("2026-07-28/basic/patterns/subscriptions#acknowledgment-3")
@pytest.mark.parametrize("honored", [{}, {"resourceSubscriptions": []}, {"toolsListChanged": False}])
async def test_subscribe_raises_capability_error_if_the_acknowledgment_omits_the_resource(honored: Object) -> None:
    async with raw_session(of(), MODERN, WATCHED) as (client, wire):
        entering = asyncio.create_task(client.subscribe("test://a").__aenter__())
        asked = await asked_for(wire, "subscriptions/listen")
        await wire.send(acknowledged(asked, **honored))
        with pytest.raises(CapabilityError, match="test://a"):
            await entering
        assert (await wire.receive_object())["method"] == "notifications/cancelled"
        assert not client.session.listeners


@pytest.mark.parametrize("how", ["an error", "an answer at once", "a cancellation at once", "silence", "leaving"])
async def test_subscribe_raises_an_error_if_the_server_does_not_acknowledge(how: str) -> None:
    async with raw_session(of(timeout=PATIENCE), MODERN, WATCHED) as (client, wire):
        if how == "silence":
            client.timeout = 0.1
        entering = asyncio.create_task(client.subscribe("test://a").__aenter__())
        asked = await asked_for(wire, "subscriptions/listen")
        expected: type[BaseException] = ConnectionClosed
        if how == "an error":
            await wire.send(refusal(asked, -32602, "no such resource"))
            expected = RemoteError
        elif how == "an answer at once":
            await wire.send(answer(asked, {"resultType": "complete"}))
        elif how == "a cancellation at once":
            await wire.send(notification("notifications/cancelled", {"requestId": asked["id"]}))
        elif how == "silence":
            expected = RequestTimeout
        else:
            entering.cancel()
            expected = asyncio.CancelledError
        with pytest.raises(expected):
            await entering
        if how in ("silence", "leaving"):
            assert (await wire.receive_object())["method"] == "notifications/cancelled"
        assert wire.frames.empty() and not client.session.listeners


# ------------------------------------------------------------------------------------------------ changed lists


@pytest.mark.spec("2026-07-28/basic/patterns/subscriptions#acknowledgment-3")
async def test_client_listens_to_the_list_changes_that_it_has_callbacks_for_and_the_server_declares() -> None:
    heard: list[str] = []
    make = of(
        on_tools_changed=lambda: heard.append("tools"),
        on_prompts_changed=lambda: heard.append("prompts"),
        on_resources_changed=lambda: heard.append("resources"),
    )
    async with raw_server(make) as (client, wire):
        connecting = asyncio.create_task(client.connect())
        await wire.send(answer(await asked_for(wire, "server/discover"), discovered(capabilities=WATCHED)))
        asked = await asked_for(wire, "subscriptions/listen")
        wanted = {"toolsListChanged": True, "resourcesListChanged": True}  # it has no prompts
        assert params_of(asked)["notifications"] == wanted
        await wire.send(acknowledged(asked, toolsListChanged=True))  # a part of it is enough
        await connecting
        await wire.send(told(asked["id"], "notifications/tools/list_changed"))
        await eventually(lambda: heard == ["tools"])


@pytest.mark.parametrize("how", ["silence", "an error", "nothing honored"])
async def test_client_connects_although_the_server_refuses_to_report_list_changes(
    how: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriptions, "ACKNOWLEDGE_SECONDS", 0.05)
    async with raw_server(of(on_tools_changed=lambda: None)) as (client, wire):
        connecting = asyncio.create_task(client.connect())
        await wire.send(answer(await asked_for(wire, "server/discover"), discovered(capabilities=WATCHED)))
        asked = await asked_for(wire, "subscriptions/listen")
        if how == "an error":
            await wire.send(refusal(asked, -32601))
        elif how == "nothing honored":
            await wire.send(acknowledged(asked))
        await connecting
        assert client.revision.era == "modern"
    assert "does not report changes" in caplog.text


async def test_listening_that_the_server_ends_is_logged_as_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    async with raw_server(of(on_tools_changed=lambda: None)) as (client, wire):
        connecting = asyncio.create_task(client.connect())
        await wire.send(answer(await asked_for(wire, "server/discover"), discovered(capabilities=WATCHED)))
        asked = await asked_for(wire, "subscriptions/listen")
        await wire.send(acknowledged(asked, toolsListChanged=True))
        await connecting
        await wire.send(answer(asked, {"resultType": "complete"}))
        await eventually(lambda: "no longer reports changes" in caplog.text)


# ------------------------------------------------------------------------------------------------ a stream that breaks


def listens(*told_of: str, then: str = "break") -> Step:
    """Acknowledge, tell of these, and break or end the stream, or hold it."""

    async def step(exchange: Exchange, message: Object) -> None:
        stream = exchange.stream(200, SSE)
        wanted = params_of(message)["notifications"]
        stream.write(encode_event(frame(acknowledged(message, **wanted))))
        for uri in told_of:
            stream.write(encode_event(frame(told(message["id"], uri=uri))))
        if then == "end":
            stream.write(encode_event(frame(answer(message, {"resultType": "complete"}))))
        if then == "hold":
            await stream.ended

    return step


GONE = status(503)


@contextlib.asynccontextmanager
async def met(site: ScriptedServer, **options: object) -> AsyncIterator[Client]:
    site.on("server/discover", respond_with(discovered(capabilities=WATCHED)))
    options = {"timeout": PATIENCE, **options}
    async with Client(site.url, **options) as client:  # type: ignore[arg-type]
        yield client


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Request a broken stream again at once."""
    monkeypatch.setattr(subscriptions, "MAX_RETRY_PAUSE", 0.0)


async def test_broken_listening_stream_is_requested_again_and_the_resource_counts_as_changed(no_pauses: None) -> None:
    async with scripted() as site:
        site.on("subscriptions/listen", listens("test://a/1"), GONE, GONE, listens("test://a/2", then="hold"))
        async with met(site) as client, client.subscribe("test://a") as updates:
            assert [await following(updates) for _ in range(3)] == ["test://a/1", "test://a", "test://a/2"]
        assert site.keys.count("subscriptions/listen") == 4
        assert all("last-event-id" not in headers for headers in site.headers("subscriptions/listen"))
        await eventually(lambda: site.under_way == 0)


async def test_callback_that_raises_does_not_keep_a_change_from_the_other_callbacks(
    no_pauses: None, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[str] = []

    def fail() -> None:
        heard.append("tools")
        raise ValueError("the function's own fault")

    async with scripted() as site:
        site.on("subscriptions/listen", listens(), listens(then="hold"))
        others = {f"on_{name}_changed": partial(heard.append, name) for name in ("resources", "prompts")}
        async with met(site, on_tools_changed=fail, **others):
            await eventually(lambda: sorted(heard) == ["resources", "tools"])  # the server has no prompts
    assert "the function's own fault" in caplog.text


async def test_time_to_acknowledge_a_subscription_is_a_limit_that_stops_while_the_user_signs_in() -> None:
    running: list[float | None] = []

    class SignIn(Authorizer):
        async def current(self, peers: PeerRequests, grant: Grant | None) -> Grant | None:
            return grant

        async def obtain(self, need: Need) -> Grant:
            assert client.connector.time_limits.open_stops == 1
            running.extend(limit.seconds for limit in client.connector.time_limits.running)
            return Grant("t")

    async with scripted() as site:
        site.on("subscriptions/listen", status(401), listens(then="hold"))
        async with met(site, authorization=SignIn()) as client, client.subscribe("test://a"):
            assert client.timeout in running


async def test_listening_stream_that_is_not_acknowledged_again_ends_with_that_reason(
    no_pauses: None,
) -> None:
    async def hold(exchange: Exchange, message: Object) -> None:
        stream = exchange.stream(200, SSE)
        await stream.ended

    async with scripted() as site:
        site.on("subscriptions/listen", listens(), hold)
        async with met(site) as client:
            client.timeout = 0.2
            async with client.subscribe("test://a") as updates:
                with pytest.raises(ConnectionClosed, match="did not acknowledge"):
                    await following(updates)
        await eventually(lambda: site.under_way == 0)


async def test_client_close_does_not_wait_for_the_next_attempt_to_listen(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(subscriptions, "MIN_RETRY_PAUSE", 2 * PATIENCE)
    caplog.set_level(logging.INFO)
    async with scripted() as site:
        site.on("subscriptions/listen", listens())
        async with met(site) as client:
            updates = await client.subscribe("test://a").__aenter__()
            reading = asyncio.create_task(anext(updates))
            await eventually(lambda: "requested again" in caplog.text)
            assert not client.connector.ended.is_set()  # which would end the pause
            await client.close()
            with pytest.raises(ConnectionClosed):
                await asyncio.wait_for(reading, PATIENCE)
            await updates.__aexit__()


def opens_session(id: str) -> Step:
    """Open a legacy session of a server with resources to watch."""

    async def step(exchange: Exchange, message: Object) -> None:
        info: Object = {"name": "s", "version": "1"}
        opened: Object = {"protocolVersion": LEGACY, "capabilities": {**WATCHED, "logging": {}}, "serverInfo": info}
        exchange.respond(200, [*JSON_HEADERS, ("Mcp-Session-Id", id)], result(message["id"], **opened))

    return step


async def refuses(exchange: Exchange, message: Object) -> None:
    exchange.respond(200, JSON_HEADERS, error(message["id"], "no longer"))


@pytest.mark.spec("2025-11-25/basic/transports#session-management-7")
async def test_new_session_gets_the_subscriptions_and_the_log_level_of_the_one_that_the_server_has_ended() -> None:
    heard: list[str] = []
    async with scripted() as site:
        site.on(
            "initialize", opens_session("old"), opens_session("new"), opens_session("newest"), opens_session("last")
        )
        options = {"revision": LEGACY, "on_tools_changed": lambda: heard.append("tools"), "timeout": PATIENCE}
        async with Client(site.url, **options) as client:  # type: ignore[arg-type]
            await client.set_logging_level("error")
            async with client.subscribe("test://a") as updates, client.watch_lists("resources") as lists:
                for number, session in enumerate(["new", "newest"], 1):
                    site.on("ping", status(404))
                    await client.ping()
                    assert await following(updates) == "test://a"  # it may have changed
                    assert await following(lists) == "resources"
                    assert heard == ["tools"] * number
                    for key in ("logging/setLevel", "resources/subscribe"):
                        assert site.headers(key)[-1]["mcp-session-id"] == session
                site.on("ping", status(404))
                site.on("resources/subscribe", refuses)
                await client.ping()
                with pytest.raises(ConnectionClosed, match="no longer"):
                    await following(updates)


async def test_new_session_does_not_get_a_subscription_that_has_been_closed_meanwhile() -> None:
    asked, may_answer, restored = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def holds(exchange: Exchange, message: Object) -> None:
        asked.set()
        await may_answer.wait()
        exchange.respond(200, JSON_HEADERS, result(message["id"]))

    async with scripted() as site:
        site.on("initialize", opens_session("old"), opens_session("new"))
        options = {"revision": LEGACY, "on_tools_changed": restored.set, "timeout": PATIENCE}
        async with Client(site.url, **options) as client, client.subscribe("test://a"):  # type: ignore[arg-type]
            async with client.subscribe("test://b"):
                site.on("ping", status(404))
                site.on("resources/subscribe", holds)
                await client.ping()
                await asyncio.wait_for(asked.wait(), PATIENCE)
            may_answer.set()
            await asyncio.wait_for(restored.wait(), PATIENCE)
        assert site.keys.count("resources/subscribe") == 3  # of a and b at first, and of a in the new session


async def test_subscriptions_end_if_the_server_ends_each_session_that_gets_them() -> None:
    async def accepts(exchange: Exchange, message: Object) -> None:
        exchange.respond(200, JSON_HEADERS, result(message["id"]))

    async with scripted() as site:
        site.on("initialize", *[opens_session(f"s{number}") for number in range(100)])
        async with Client(site.url, revision=LEGACY, timeout=PATIENCE) as client:
            async with client.subscribe("test://a") as restored, client.subscribe("test://b") as refused:
                site.on("ping", status(404))
                site.on("resources/subscribe", accepts, *[status(404)] * 100)
                await client.ping()
                assert await following(restored) == "test://a"
                for updates in (restored, refused):
                    with pytest.raises(ConnectionClosed, match="was lost"):
                        await following(updates)
            assert site.keys.count("initialize") == 3  # at first, for the ping, and for the second subscription


async def test_listening_stream_that_the_server_completes_is_not_requested_again(no_pauses: None) -> None:
    async with scripted() as site:
        site.on("subscriptions/listen", listens("test://a", then="end"))
        async with met(site) as client, client.subscribe("test://a") as updates:
            assert [uri async for uri in updates] == ["test://a"]
        assert site.keys.count("subscriptions/listen") == 1


async def test_stream_of_list_changes_is_requested_again_until_the_client_is_closed(no_pauses: None) -> None:
    heard: list[str] = []
    lost = [GONE] * (subscriptions.MAX_ATTEMPTS + 1)
    async with scripted() as site:
        site.on("subscriptions/listen", listens(then="end"), *lost, listens(then="end"), listens(then="hold"))
        async with met(site, on_tools_changed=lambda: heard.append("tools")):
            await eventually(lambda: heard == ["tools", "tools"])


@both_eras
async def test_list_changes_are_reported_after_the_authorization_server_was_out_of_reach(
    revision: str, monkeypatch: pytest.MonkeyPatch, no_pauses: None
) -> None:
    monkeypatch.setattr(resumption, "retry_seconds", lambda *arguments: 0.0)
    outages = [TokenRefused("https://as.example", 0)]
    async with scripted() as site:

        async def token() -> str:
            if {"GET", "subscriptions/listen"} & set(site.keys) and outages:
                raise outages.pop()
            return "t"

        site.on("initialize", opens_session("s"))
        changed = notification("notifications/tools/list_changed")
        site.on("GET", events(), events(encode_event(frame(changed)), hold=True))
        site.on("subscriptions/listen", listens(), listens(then="hold"))
        heard = asyncio.Event()
        options = {"revision": revision, "on_tools_changed": heard.set, "authorization": Bearer(token)}
        async with met(site, **options):
            await asyncio.wait_for(heard.wait(), PATIENCE)
        assert not outages


async def test_listening_stream_ends_with_the_reason_after_too_many_failed_attempts(no_pauses: None) -> None:
    async with scripted() as site:
        site.on("subscriptions/listen", listens(), GONE, listens(), *[GONE] * 20)
        async with met(site) as client, client.subscribe("test://a") as updates:
            with pytest.raises(ConnectionClosed, match="HTTP 503"):
                while True:
                    await following(updates)
        assert site.keys.count("subscriptions/listen") == 3 + subscriptions.MAX_ATTEMPTS


async def test_listen_stream_that_breaks_repeatedly_is_requested_with_growing_pauses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses: list[float] = []

    async def noted(request: ListenRequest, seconds: float) -> None:
        pauses.append(seconds)

    async with scripted() as site:
        site.on("subscriptions/listen", *[listens()] * 8, listens("test://a/x"), listens(then="hold"))
        async with met(site) as client:
            with monkeypatch.context() as patch:
                patch.setattr(ListenRequest, "_wait_to_retry", noted)
                async with client.subscribe("test://a") as updates:
                    while await following(updates) != "test://a/x":
                        pass
                    assert await following(updates) == "test://a"
        assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 0.1]


def test_update_with_a_long_uri_counts_as_an_update_of_the_subscribed_uri() -> None:
    # a server could fill the client's memory with a thousand URIs of a megabyte each
    subscription = Subscription(cast(ClientRequests, None), [], "test://a")
    for uri in ("test://a/" + "x" * MAX_URI_LENGTH, "test://a/b"):
        subscription.receive("notifications/resources/updated", uri)
    assert list(subscription._changed) == ["test://a", "test://a/b"]


# ------------------------------------------------------------------------------------------------ a process that ends


def starts(log: Path, body: str, command: Callable[[str], list[str]] = quick_python) -> list[str]:
    """Return a server program that notes each of its starts."""
    return command(
        f"""
import os, sys
with open({str(log)!r}, "a") as log:
    log.write("x")
started = os.path.getsize({str(log)!r})
from tests.client.test_subscriptions import watchable
server = watchable()
{body}
server.run()
"""
    )


def count(log: Path) -> int:
    return log.stat().st_size


def kill(client: Client) -> None:
    transport = client.session.transport
    assert isinstance(transport, StdioClientTransport) and transport.pid is not None
    os.kill(transport.pid, signal.SIGKILL)


@pytest.mark.spec(
    "2026-07-28/basic/transports/stdio#unexpected-termination-1",
    "2026-07-28/basic/patterns/subscriptions#graceful-closure-2",
    "2026-07-28/basic/index#statelessness-5",
)
async def test_server_process_that_ends_is_started_again_and_subscriptions_continue(
    tmp_path: Path, no_pauses: None, caplog: pytest.LogCaptureFixture
) -> None:
    log = tmp_path / "starts"
    changes: list[str] = []
    async with Client(starts(log, ""), timeout=PATIENCE, on_tools_changed=lambda: changes.append("tools")) as client:
        assert client.revision.era == "modern"
        async with client.subscribe("test://a") as updates:
            for number in range(1, 6):  # more often than MAX_RESTARTS, but it has answered in between
                with pytest.raises(ConnectionClosed, match="exited with code 3"):
                    await client.call_tool("leave")  # requests in flight fail
                await client.ping()
                assert count(log) == number + 1
                assert await following(updates) == "test://a"  # it may have changed
                await touch(client, "test://a")
                assert await following(updates) == "test://a"
                await eventually(lambda number=number: len(changes) == number)  # type: ignore[misc]
    assert caplog.text.count("started again") == 5


async def test_requests_in_flight_fail_and_those_that_come_meanwhile_are_served_by_the_new_process(
    tmp_path: Path,
) -> None:
    log = tmp_path / "starts"
    body = "import asyncio\n@server.tool()\nasync def wait() -> None:\n    await asyncio.Event().wait()"
    async with Client(starts(log, body), timeout=PATIENCE) as client:
        waiting = [asyncio.create_task(client.call_tool("wait")) for _ in range(5)]
        await client.ping()
        kill(client)
        found = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), PATIENCE)
        assert all(isinstance(each, ConnectionClosed) and "SIGKILL" in str(each) for each in found), found
        await asyncio.gather(*(client.ping() for _ in range(5)), touch(client, "test://a"))
        assert count(log) == 2


async def test_subscription_lives_as_long_as_the_process_is_started_again(tmp_path: Path, no_pauses: None) -> None:
    made = Client(starts(tmp_path / "starts", ""), timeout=PATIENCE)
    async with made as client, client.subscribe("test://a") as updates:
        for _ in range(MAX_RESTARTS):  # nothing else is asked in between
            kill(client)
            assert await following(updates) == "test://a"
        kill(client)
        with pytest.raises(ConnectionClosed, match="SIGKILL"):
            await following(updates)


async def test_restart_count_is_not_reset_by_a_result_from_the_cache(tmp_path: Path) -> None:
    log = tmp_path / "starts"
    body = "if started > 1: sys.exit('broken')\nfrom mcp_ref import Server\nserver = Server('s', cache_ttl=60.0)\n"
    async with Client(starts(log, body + "server.tool(name='t')(lambda: 'x')"), timeout=PATIENCE) as client:
        assert len(await client.list_tools()) == 1
        kill(client)
        for _ in range(2 * MAX_RESTARTS):
            await asyncio.wait_for((await client.connector.ready()).ended, PATIENCE)
            assert len(await client.list_tools()) == 1
        with pytest.raises(ConnectionClosed):
            await client.call_tool("t")
        assert count(log) == 1 + MAX_RESTARTS


@pytest.mark.parametrize("how", ["before it reads", "when it is asked", "it is not there any more"])
async def test_server_process_that_keeps_ending_is_started_again_max_restarts_times(
    how: str, tmp_path: Path, no_pauses: None
) -> None:
    log, gone = tmp_path / "starts", tmp_path / "gone"
    body = {
        "before it reads": "if started > 1: sys.exit('broken')",
        "when it is asked": "if started > 1:\n    sys.stdin.readline()\n    sys.exit('broken')",
        "it is not there any more": "",
    }[how]
    program = starts(log, body)
    if how == "it is not there any more":
        gone.write_text(f'#!/bin/sh\nexec "{program[0]}" "$@"\n')
        gone.chmod(0o755)
        program[0] = str(gone)
    async with Client(program, timeout=PATIENCE) as client:
        async with client.subscribe("test://a") as updates:
            if how == "it is not there any more":
                gone.unlink()
            kill(client)
            with pytest.raises(ConnectionClosed):
                while True:
                    await following(updates)
            for _ in range(3):
                with pytest.raises(ConnectionClosed):
                    await client.ping()
        assert count(log) == 1 + (0 if how == "it is not there any more" else MAX_RESTARTS)
        assert client.connector.starts == 1 + MAX_RESTARTS


async def test_client_closed_during_a_restart_leaves_nothing(tmp_path: Path) -> None:
    for turns in (0, 1, 5, 50):
        client = Client(starts(tmp_path / "starts", ""), timeout=PATIENCE)
        await client.connect()
        updates = await client.subscribe("test://a").__aenter__()
        kill(client)
        await client.session.ended
        for _ in range(turns):
            await asyncio.sleep(0)
        await client.close()
        await updates.__aexit__()
        with pytest.raises(ConnectionClosed):
            await client.ping()


async def test_server_process_that_ends_is_not_started_again_in_the_legacy_era(tmp_path: Path) -> None:
    log = tmp_path / "starts"
    async with Client(starts(log, "", python), revision="2025-11-25", timeout=PATIENCE) as client:
        kill(client)
        for _ in range(2):
            with pytest.raises(ConnectionClosed):
                await client.ping()
        assert count(log) == 1


@pytest.mark.parametrize("revision", ERAS)
async def test_iteration_of_a_subscription_whose_block_has_ended_raises_an_error(revision: str) -> None:
    async with asyncio.timeout(PATIENCE), Client(watchable(), revision=revision) as client:
        async with client.subscribe("test://a") as updates:
            waiting = asyncio.ensure_future(anext(updates))
            await asyncio.sleep(0)
        for late in (waiting, anext(updates)):
            with pytest.raises(RuntimeError, match="the subscription is not open"):
                await late


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_subscription_whose_unsubscribe_fails_does_not_hide_the_exception_of_its_block(
    is_cancelled: bool,
) -> None:
    async with raw_session(of(), "2025-11-25", WATCHED) as (client, wire):

        async def watch() -> None:
            async with client.subscribe("note://1"):
                begun.set()
                if is_cancelled:
                    await asyncio.Event().wait()
                raise KeyError("the reader of updates failed")

        begun = asyncio.Event()
        watching = asyncio.create_task(watch())
        await raw_peers.answer(wire, "resources/subscribe", {})
        await begun.wait()
        if is_cancelled:
            watching.cancel()
        unsubscribe = await wire.receive_object()
        failure: Object = {"code": -32603, "message": "Internal error"}
        await wire.send({"jsonrpc": "2.0", "id": unsubscribe["id"], "error": failure})
        with pytest.raises(asyncio.CancelledError if is_cancelled else KeyError):
            await watching
