"""The client apart from the features, which are tested with their pages.

Subscriptions as iterators, batches, requests refused before they are sent, callbacks that fail, and the remains of a
client that is not connected, or not any more.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import re
import warnings
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import pytest

from mcp_ref import Client, CreateMessageRequestParams, CreateMessageResult, Server, SyncClient, __version__
from mcp_ref.basic.lifecycle import CapabilityError
from mcp_ref.client import subscriptions as subscribing
from mcp_ref.client.subscriptions import Subscription
from mcp_ref.features.elicitation import ElicitRequestFormParams, ElicitRequestURLParams, ElicitResult
from mcp_ref.features.tools import CallToolResult
from mcp_ref.jsonrpc.errors import ConnectionClosed, InvalidMessage, McpError, RemoteError, RequestTimeout
from mcp_ref.jsonrpc.messages import INTERNAL_ERROR, JSON, Object
from mcp_ref.revisions import LEGACY
from mcp_ref.transports.memory import MemoryTransport
from tests.messages import notification, request
from tests.raw_peers import Wire, answer, close_server_end, handshake, raw_server, raw_session
from tests.settings import PATIENCE, run

EVERYTHING: Object = {"tools": {}, "resources": {"subscribe": True}, "prompts": {}, "logging": {}, "completions": {}}


def patient(transport: MemoryTransport) -> Client:
    return Client(transport, timeout=PATIENCE)


# ------------------------------------------------------------------------------------------------ lists


@pytest.mark.parametrize(
    ("method", "member", "lister"),
    [
        ("tools/list", "tools", lambda client: client.list_tools()),
        ("resources/list", "resources", lambda client: client.list_resources()),
        ("resources/templates/list", "resourceTemplates", lambda client: client.list_resource_templates()),
        ("prompts/list", "prompts", lambda client: client.list_prompts()),
    ],
)
async def test_list_methods_stop_at_the_maximum_number_of_pages_if_the_cursors_repeat(
    method: str, member: str, lister: Callable[[Client], Awaitable[object]]
) -> None:
    async with raw_server(Client) as (client, wire):
        client.max_pages = 5
        await handshake(client, wire, "2025-11-25", EVERYTHING)
        listing = asyncio.ensure_future(lister(client))
        for page in range(5):
            await answer(wire, method, {member: [], "nextCursor": "ab"[page % 2]})
        with pytest.raises(InvalidMessage, match="do not end"):
            await asyncio.wait_for(listing, PATIENCE)
        await wire.nothing_more()


async def test_list_that_the_server_lacks_is_empty_without_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    async with raw_session(Client, "2025-11-25", EVERYTHING) as (client, wire):
        listing = asyncio.ensure_future(client.list_resource_templates())
        asked = await wire.receive_object()
        await wire.send({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32601, "message": "Method not found"}})
        assert await asyncio.wait_for(listing, PATIENCE) == []
    assert caplog.text == ""


async def test_list_tools_that_fails_on_a_later_page_keeps_the_known_schemas() -> None:
    schema: Object = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    tool: Object = {"name": "t", "inputSchema": {"type": "object"}, "outputSchema": schema}
    async with raw_session(Client, "2025-11-25", EVERYTHING) as (client, wire):
        listing = asyncio.create_task(client.list_tools())
        await answer(wire, "tools/list", {"tools": [tool]})
        await listing
        listing = asyncio.create_task(client.list_tools())
        await answer(wire, "tools/list", {"tools": [], "nextCursor": "more"})
        asked = await wire.receive_object()
        await wire.send({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32602, "message": "gone"}})
        with pytest.raises(RemoteError, match="gone"):
            await listing
        calling = asyncio.create_task(client.call_tool("t"))
        await answer(wire, "tools/call", {"content": [], "structuredContent": {"n": "no number"}})
        with pytest.raises(InvalidMessage, match="output schema"):
            await calling
        listing = asyncio.create_task(client.list_tools())  # a new list takes the place of the old one
        await answer(wire, "tools/list", {"tools": []})
        await listing
        calling = asyncio.create_task(client.call_tool("t"))
        await answer(wire, "tools/call", {"content": [], "structuredContent": {"n": "no number"}})
        assert (await calling).structured_content == {"n": "no number"}


# ------------------------------------------------------------------------------------------------ subscriptions


def updated(uri: str) -> Object:
    return notification("notifications/resources/updated", {"uri": uri})


async def entered(client: Client, wire: Wire, uri: str) -> Subscription:
    entering = asyncio.create_task(client.subscribe(uri).__aenter__())
    assert await answer(wire, "resources/subscribe", {}) == {"uri": uri}
    return await asyncio.wait_for(entering, PATIENCE)


async def following(updates: Subscription) -> str:
    return await asyncio.wait_for(anext(updates), PATIENCE)


async def test_subscription_yields_a_resource_with_several_unread_updates_once() -> None:
    async with raw_session(Client, "2025-11-25", EVERYTHING) as (client, wire):
        updates = await entered(client, wire, "test://a")
        for uri in ("test://a/1", "test://a/2", "test://a/1", "test://a/2", "test://a"):
            await wire.send(updated(uri))
        await wire.nothing_more()
        assert [await following(updates) for _ in range(3)] == ["test://a/1", "test://a/2", "test://a"]
        await wire.send(updated("test://a/1"))  # it has changed since
        assert await following(updates) == "test://a/1"


async def test_updates_that_nobody_reads_are_bounded_and_the_oldest_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(subscribing, "MAX_UPDATES", 3)
    async with raw_session(Client, "2025-11-25", EVERYTHING) as (client, wire):
        updates = await entered(client, wire, "test://a")
        for number in range(10):
            await wire.send(updated(f"test://a/{number}"))
        await wire.nothing_more()
        assert len(updates._changed) == 3
        assert [await following(updates) for _ in range(3)] == ["test://a/7", "test://a/8", "test://a/9"]


async def test_two_subscriptions_to_one_resource_both_yield_its_updates_and_the_last_to_end_unsubscribes() -> None:
    async with raw_session(Client, "2025-11-25", EVERYTHING) as (client, wire):
        first, second = await entered(client, wire, "test://a"), await entered(client, wire, "test://a")
        await wire.send(updated("test://a"))
        assert [await following(first), await following(second)] == ["test://a", "test://a"]
        await first.__aexit__()
        await wire.send(updated("test://a"))
        await wire.nothing_more()
        assert await following(second) == "test://a"
        assert first._changed == {}
        leaving = asyncio.create_task(second.__aexit__())
        assert await answer(wire, "resources/unsubscribe", {}) == {"uri": "test://a"}
        await leaving
        assert client._notifications.subscriptions == []


@pytest.mark.parametrize("how", ["refused", "cancelled", "timed out"])
async def test_subscription_that_fails_to_begin_is_removed(how: str) -> None:
    timeout = 0.01 if how == "timed out" else PATIENCE
    async with raw_session(patient, "2025-11-25", EVERYTHING) as (client, wire):
        client.timeout = timeout
        entering = asyncio.create_task(client.subscribe("test://a").__aenter__())
        asked = await wire.receive_object()
        if how == "refused":
            await wire.send({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32602, "message": "no"}})
            with pytest.raises(RemoteError, match="no"):
                await entering
        else:
            if how == "cancelled":
                entering.cancel()
            with pytest.raises((RequestTimeout, asyncio.CancelledError)):
                await entering
            assert (await wire.receive_object())["method"] == "notifications/cancelled"
        assert client._notifications.subscriptions == []
        await wire.send(updated("test://a"))
        await wire.nothing_more()


@pytest.mark.parametrize("how", ["the server leaves", "the client closes"])
async def test_subscription_yields_the_received_updates_before_it_raises_that_the_connection_has_ended(
    how: str,
) -> None:
    async with raw_session(Client, "2025-11-25", EVERYTHING) as (client, wire):
        updates, other = await entered(client, wire, "test://a"), await entered(client, wire, "test://b")
        waiting = asyncio.create_task(anext(other))
        await wire.send(updated("test://a"))
        await wire.nothing_more()
        if how == "the server leaves":
            close_server_end(client)
        else:
            await client.close()
        with pytest.raises(ConnectionClosed, match="subscription to test://b"):
            await asyncio.wait_for(waiting, PATIENCE)
        assert await following(updates) == "test://a"
        for _ in range(2):
            with pytest.raises(ConnectionClosed, match="subscription to test://a"):
                await following(updates)
        for left in (updates, other):
            await left.__aexit__()  # nobody is there to unsubscribe from
        assert client._notifications.subscriptions == []
        with pytest.raises(ConnectionClosed):
            await client.subscribe("test://a").__aenter__()
        assert client._notifications.subscriptions == []


# ------------------------------------------------------------------------------------------------ batches


async def test_batch_is_sent_as_one_array_and_returns_a_result_or_exception_for_each_call() -> None:
    async with raw_session(patient, "2025-03-26", {"tools": {}}) as (client, wire):
        batch = asyncio.create_task(
            client.batch(
                client.ping(),
                client.list_prompts(),  # never sent: the server declared none
                client.call_tool("refused"),
                client.call_tool("late", timeout=0.05),
                client.list_tools(),
                client.call_tool("wrong"),
            )
        )
        asked = await wire.receive()
        named: dict[str, JSON] = {}
        for each in asked:
            params = each.get("params", {})
            named[str(params.get("name", each["method"]))] = each["id"]
        assert list(named) == ["ping", "refused", "late", "tools/list", "wrong"]
        good: dict[str, Object] = {
            "ping": {"result": {}},
            "refused": {"error": {"code": -5, "message": "no", "data": [1]}},
            "tools/list": {"result": {"tools": [], "nextCursor": "more"}},
            "wrong": {"result": {"content": 7}},
        }
        answers: list[JSON] = [{"jsonrpc": "2.0", "id": named[name], **good[name]} for name in reversed(good)]
        await wire.send(answers)
        later = {str(each["method"]): each for each in [await wire.receive_object(), await wire.receive_object()]}
        assert set(later) == {"tools/list", "notifications/cancelled"}  # by themselves: the array has been sent
        assert later["tools/list"]["params"] == {"cursor": "more"}
        await wire.send({"jsonrpc": "2.0", "id": later["tools/list"]["id"], "result": {"tools": []}})
        results = await asyncio.wait_for(batch, PATIENCE)
        kinds = [type(None), CapabilityError, RemoteError, RequestTimeout, list, InvalidMessage]
        assert [type(result) for result in results] == kinds
        refused = results[2]
        assert isinstance(refused, RemoteError)
        assert (refused.code, refused.message, refused.data) == (-5, "no", [1])
        await wire.nothing_more()


async def test_batch_of_the_server_with_initialize_is_refused_and_the_session_goes_on() -> None:
    async with raw_session(Client, "2025-03-26", {}) as (_, wire):
        await wire.send([request("initialize", {}, 9)])
        [answer] = await wire.receive()
        assert (answer["id"], answer["error"]["code"]) == (9, -32600)
        await wire.nothing_more()


async def test_batch_without_a_request_to_send_sends_nothing() -> None:
    async with raw_session(Client, "2025-03-26", {}) as (client, wire):
        assert await client.batch() == []
        (refused,) = await client.batch(client.list_tools())
        assert isinstance(refused, CapabilityError)
        await wire.nothing_more()


@pytest.mark.parametrize("revision", [None, *(each.name for each in LEGACY if not each.batch)])
def test_batch_in_a_revision_without_batches_sends_nothing_and_leaves_no_call_behind(revision: str | None) -> None:
    async def test() -> None:
        async with raw_server(Client) as (client, wire):
            if revision is not None:
                await handshake(client, wire, revision)
            with pytest.raises(CapabilityError if revision else RuntimeError, match=revision or "not connected"):
                await client.batch(client.ping(), client.list_tools())
            if revision is not None:
                await wire.nothing_more()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run(test())
        gc.collect()
    assert [str(each.message) for each in caught if "never awaited" in str(each.message)] == []


# ------------------------------------------------------------------------------------------------ local mistakes


@pytest.mark.parametrize(
    ("arguments", "meta", "error"),
    [
        ({"a": object()}, None, TypeError),
        ({"a": {1, 2}}, None, TypeError),
        ({"a": float("nan")}, None, ValueError),
        ({"a": "\ud800"}, None, ValueError),
        ({}, {"a": b"bytes"}, TypeError),
        ({}, {"no name at all": 1}, ValueError),
        (7, None, TypeError),
    ],
)
async def test_request_that_json_cannot_hold_raises_sends_nothing_and_leaves_nothing_pending(
    arguments: dict[str, object], meta: dict[str, object] | None, error: type[Exception]
) -> None:
    async with raw_session(Client, "2025-11-25", EVERYTHING) as (client, wire):
        with pytest.raises(error) as raised:
            await client.call_tool("t", arguments, meta=meta)
        if "a" in (arguments if isinstance(arguments, dict) else {}):
            assert raised.value.__notes__ == ["tools/call was not sent, because its params must be JSON"]
        with pytest.raises(TypeError, match="the arguments must be a mapping"):
            await client.call_tool("t", [1, 2])  # type: ignore[call-overload]
        assert client.session.dispatcher.pending == {}
        await wire.nothing_more()
        calling = asyncio.create_task(client.call_tool("t", {"a": None}, meta={"example.com/a": 1}))
        asked = await answer(wire, "tools/call", {"content": []})
        assert asked == {"name": "t", "arguments": {"a": None}, "_meta": {"example.com/a": 1}}
        assert isinstance(await calling, CallToolResult)


async def test_client_that_is_not_connected_raises_runtime_error_with_advice() -> None:
    client = Client(Server("s"))
    attempts: list[Callable[[], object]] = [
        lambda: client.revision,
        lambda: client.server_info,
        lambda: client.server_capabilities,
        lambda: client.instructions,
        lambda: client.server_can("tools"),
    ]
    for attempt in attempts:
        with pytest.raises(RuntimeError, match="use `async with Client"):
            attempt()
    calls = [client.ping(), client.list_tools(), client.call_tool("t"), client.subscribe("test://a").__aenter__()]
    for call in calls:
        with pytest.raises(RuntimeError, match="use `async with Client"):
            await call
    await client.close()  # which does nothing


async def test_client_close_cancels_a_sampling_that_became_a_task() -> None:
    begun, ended = asyncio.Event(), list[str]()

    async def model(params: CreateMessageRequestParams) -> CreateMessageResult:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("sampling")
        raise AssertionError

    async with raw_session(partial(Client, sampling=model, tasks=True)) as (_, wire):
        params: Object = {"messages": [], "maxTokens": 5, "task": {}}
        assert (await wire.ask("sampling/createMessage", params))["result"]["task"]["status"] == "working"
        await asyncio.wait_for(begun.wait(), PATIENCE)
    assert ended == ["sampling"]


async def test_client_request_on_another_event_loop_raises_runtime_error() -> None:
    async with Client(Server("x")) as client:
        with pytest.raises(RuntimeError, match="the connection belongs to another event loop"):
            await asyncio.to_thread(asyncio.run, client.ping())


async def test_client_connects_only_once_even_if_the_connection_has_failed() -> None:
    client = Client(Server("s"))
    async with client:
        with pytest.raises(RuntimeError, match="connect only once"):
            await client.connect()
        await client.ping()
    with pytest.raises(RuntimeError, match="connect only once"):
        await client.connect()
    failed = Client(["no-such-command-anywhere"])
    with pytest.raises(ConnectionClosed):
        await failed.connect()
    with pytest.raises(RuntimeError, match="connect only once"):
        await failed.connect()


@pytest.mark.parametrize("revision", ["2025-12-31", ""])
def test_client_refuses_an_unknown_revision_at_construction(revision: str) -> None:
    with pytest.raises(ValueError, match="revision"):
        Client(Server("s"), revision=revision)


# ------------------------------------------------------------------------------------------------ errors


@pytest.mark.parametrize("data", [None, 0, "", [], {}, {"a": [1]}, False])
async def test_error_response_raises_remote_error_with_its_code_message_and_data(data: JSON) -> None:
    async with raw_session(Client, "2025-11-25", EVERYTHING) as (client, wire):
        calls: list[Awaitable[object]] = [
            client.call_tool("t"),
            client.read_resource("test://a"),
            client.get_prompt("p"),
            client.set_logging_level("info"),
        ]
        for call in calls:
            calling = asyncio.ensure_future(call)
            asked = await wire.receive_object()
            error: Object = {"code": -32099, "message": "no", "data": data}
            await wire.send({"jsonrpc": "2.0", "id": asked["id"], "error": error})
            with pytest.raises(RemoteError, match=r"no \(error -32099\)") as caught:
                await calling
            assert isinstance(caught.value, McpError)
            assert (caught.value.code, caught.value.message) == (-32099, "no")
            assert caught.value.data == data and type(caught.value.data) is type(data)


class Failed(BaseException):
    """An exception like those of pytest, which `except Exception` does not catch."""


@pytest.mark.parametrize("error", [OSError("the display is gone"), asyncio.CancelledError(), Failed()])
async def test_callbacks_that_raise_are_logged_and_harm_nothing(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*anything: object) -> NoReturn:
        raise error

    async def user(question: ElicitRequestFormParams | ElicitRequestURLParams) -> ElicitResult:
        return ElicitResult("accept")

    heard = asyncio.Event()
    wanted = [
        notification("notifications/message", {"level": "info", "data": 1}),
        notification("notifications/tools/list_changed"),
        notification("notifications/resources/list_changed"),
        notification("notifications/elicitation/complete", {"elicitationId": "e"}),
    ]

    def client_of(transport: object) -> Client:
        return Client(
            transport,  # type: ignore[arg-type]
            on_log=fail,
            on_tools_changed=fail,
            on_resources_changed=fail,
            on_prompts_changed=heard.set,
            elicitation=user,
            elicitation_url=True,
            on_elicitation_complete=fail,
        )

    async with raw_session(client_of) as (_, wire):
        visit: Object = {"mode": "url", "message": "m", "url": "https://a.example/", "elicitationId": "e"}
        assert (await wire.ask("elicitation/create", visit))["result"] == {"action": "accept"}
        for each in wanted:
            await wire.send(each)
        await wire.send(notification("notifications/prompts/list_changed"))
        await asyncio.wait_for(heard.wait(), PATIENCE)
        await wire.nothing_more()
    assert [record.getMessage() for record in caplog.records] == [
        f"the handler of {each['method']} failed" for each in wanted
    ]


async def test_elicitation_handler_that_raises_hides_the_reason_from_the_server(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def user(question: ElicitRequestFormParams | ElicitRequestURLParams) -> ElicitResult:
        raise OSError("secret")

    caplog.set_level(logging.CRITICAL)
    async with raw_session(lambda transport: Client(transport, elicitation=user)) as (_, wire):
        question: Object = {"message": "m", "requestedSchema": {"type": "object", "properties": {}}}
        answer = await wire.ask("elicitation/create", question)
        assert answer["error"] == {"code": INTERNAL_ERROR, "message": "Internal error"}
        await wire.nothing_more()


async def test_client_and_server_know_each_others_info_and_capabilities_after_connect() -> None:
    capabilities: Object = {"tools": {"listChanged": False}, "resources": {"subscribe": True}}
    async with raw_server(partial(Client, tasks=True)) as (client, wire):
        sent = await handshake(client, wire, "2025-11-25", capabilities)
        assert sent["clientInfo"] == {"name": "mcp_ref", "version": __version__}
        assert sent["capabilities"].keys() == {"tasks"}
        assert (client.server_info.name, client.server_info.version) == ("raw", "1")
        assert client.server_capabilities == capabilities
        assert client.instructions is None
        asked = ["tools", "tools.listChanged", "resources.subscribe", "prompts", ""]
        assert [client.server_can(name) for name in asked] == [True, False, True, False, False]


@pytest.mark.parametrize("client", [Client, SyncClient])
@pytest.mark.parametrize(
    ("server", "error", "why"),
    [
        (None, TypeError, "a transport or a Server(), not None"),
        (Path("server.py"), TypeError, "a transport or a Server(), not "),
        (Server, TypeError, "a transport or a Server(), not <class 'mcp_ref.server.server.Server'>"),
        ("server.py", TypeError, 'the server must be a command such as ["python3", "server.py"], an http:// or https:'),
        ([], TypeError, 'the command must be a list of strings, such as ["python3", "server.py"], not []'),
        (["", "x"], TypeError, "the command must be a list of strings"),
        (["python3", 3], TypeError, "the command must be a list of strings"),
        ("https://[x", ValueError, "invalid URL: the host or port cannot be parsed"),
        ("https://ada:s3cret@x/mcp", ValueError, "the URL contains credentials"),
    ],
)
def test_client_refuses_an_unusable_server_before_it_connects(
    client: type[Client | SyncClient], server: Any, error: type[Exception], why: str
) -> None:
    with pytest.raises(error, match=re.escape(why)):
        client(server)


def test_client_refuses_a_header_that_cannot_be_sent_before_it_connects() -> None:
    with pytest.raises(ValueError, match="the header 'X-A' cannot be sent"):
        Client("https://x/mcp", headers={"X-A": "a\nb"})


def test_client_revisions_refuses_a_single_string() -> None:
    with pytest.raises(TypeError, match=r"the option revisions must have the type .*; write \['2026-07-28'\]"):
        Client(Server("s"), revisions="2026-07-28")
