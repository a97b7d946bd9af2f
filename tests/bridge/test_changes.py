"""The subscriptions that pass through a bridge, when the server or the client comes and goes."""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mcp_ref import McpError, RemoteError
from mcp_ref.basic.access import Access, SubscribedResource, Subscriptions
from mcp_ref.bridge import changes
from mcp_ref.bridge.bridge import Bridge
from mcp_ref.bridge.namespaces import Namespace
from mcp_ref.jsonrpc.messages import Object, Response
from tests.bridge.back import make_back
from tests.bridge.links import linked, two_users
from tests.settings import eventually

LATEST = "2026-07-28"


@pytest.mark.parametrize("front", ["2025-11-25", LATEST])
async def test_subscription_is_opened_again_after_a_lost_connection(front: str) -> None:
    server = make_back("2025-11-25")
    async with linked(server, front) as (client, bridge), asyncio.timeout(10), client.subscribe("note://1") as updates:
        for each in tuple(bridge.backs["back"].clients):
            if each._notifications.subscriptions:
                await cast(Any, each.transport).close()
        assert await anext(updates) == "note://1"  # an update can have been missed
        server.resource_updated("note://1")
        assert await anext(updates) == "note://1"


@pytest.mark.parametrize("front", ["2025-11-25", LATEST])
async def test_subscription_is_opened_again_after_the_server_has_ended_it(
    front: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "MIN_PAUSE", 0.0)
    server = make_back(LATEST)
    async with linked(server, front) as (client, bridge), asyncio.timeout(10), client.subscribe("note://1") as updates:
        for each in bridge.backs["back"].clients:
            for id in tuple(each.session.listeners):
                each.session.dispatcher.receive(Response(id, {"resultType": "complete"}))
        assert await anext(updates) == "note://1"  # an update can have been missed
        server.resource_updated("note://1")
        assert await anext(updates) == "note://1"


async def test_subscription_that_stays_lost_is_in_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("mcp_ref.bridge.changes.MAX_PAUSE", -1.0)  # so that the first failure is the last
    async with linked(make_back("2025-11-25"), "2025-11-25") as (client, bridge):
        async with client.subscribe("note://2"):
            pass
        async with client.subscribe("note://1"):
            await cast(Any, bridge.backs["back"].clients[0].transport).close()
            await eventually(lambda: "the subscription to 'note://1' was lost" in caplog.text)
    assert "note://2" not in caplog.text


async def test_bridge_follows_only_accepted_resources_and_only_while_a_modern_client_listens() -> None:
    async with linked(make_back("2025-11-25"), LATEST) as (client, bridge), asyncio.timeout(10):
        watches = bridge.relay.changes._watches
        async with client.subscribe("note://1"), client.subscribe("note://2"):
            assert sorted(uri for _, uri in watches) == ["note://1", "note://2"]
        await eventually(lambda: not watches)
        with pytest.raises(McpError):
            await client.subscribe("none://1").__aenter__()
        assert not watches


async def test_concurrent_subscriptions_to_one_resource_share_one_subscription() -> None:
    server = make_back("2025-11-25")
    async with linked(server, "2025-11-25") as (client, bridge):
        wire: Object = {"uri": "note://1"}
        one, two = (
            client.session.dispatcher.request("resources/subscribe", params, timeout=5.0) for params in ({**wire}, wire)
        )
        await asyncio.gather(one, two)
        [back] = bridge.backs["back"].clients
        assert len(back._notifications.subscriptions) == 1


async def test_bridge_shows_no_standard_error_of_a_server_that_dies_at_a_subscription(
    caplog: pytest.LogCaptureFixture,
) -> None:
    script = (
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    message = json.loads(line)\n"
        "    if message.get('method') == 'resources/subscribe': sys.exit('password=hunter2')\n"
        "    if message.get('method') == 'initialize':\n"
        "        result = {'protocolVersion': '2025-11-25', 'serverInfo': {'name': 'd', 'version': '1'},\n"
        "                  'capabilities': {'resources': {'subscribe': True}}}\n"
        "        print(json.dumps({'jsonrpc': '2.0', 'id': message['id'], 'result': result}), flush=True)\n"
    )
    server, revisions = [sys.executable, "-c", script], {"back_revisions": ["2025-11-25"]}
    async with linked({"back": server}, "2025-11-25", revisions) as (client, _):
        with pytest.raises(McpError) as refused:
            await client.subscribe("a://b").__aenter__()
        assert "hunter2" not in str(refused.value)
    assert "back: no subscription to 'a://b': " in caplog.text  # for the operator


@pytest.mark.parametrize("front", ["2025-11-25", LATEST])
async def test_subscription_of_a_principal_gets_its_updates(front: str) -> None:
    server = make_back("2025-11-25")
    async with (
        two_users(server, revision=front) as (ann, _, _),
        ann.subscribe("note://1") as updates,
        asyncio.timeout(5),
    ):
        server.resource_updated("note://1")
        assert await anext(updates) == "note://1"


@pytest.mark.parametrize(
    ("owner", "principal", "gets"),
    [("ann", "ann", True), ("ann", "bob", False), ("ann", "", False), (None, "", True), (None, "ann", False)],
)
def test_update_for_a_principal_reaches_only_its_own_subscriptions(
    owner: str | None, principal: str, gets: bool
) -> None:
    access = None if owner is None else Access()
    if access is not None:
        access.id = owner
    subscriptions = Subscriptions(None)
    subscriptions.add("note://1", SubscribedResource("note://1", access))
    update: Any = Bridge(servers={"back": ["x"]}).server.resources.update_for(subscriptions, f"{principal}\nnote://1")
    assert (update is not None and update.uri == "note://1") == gets


@pytest.mark.attack("bridge-all-subscriptions")
async def test_bridge_leaves_subscriptions_for_other_principals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_ref.bridge.changes.MAX_WATCHES", 4)
    async with two_users(make_back("2025-11-25"), revision="2025-11-25") as (ann, bob, _), AsyncExitStack() as stack:
        async with ann.subscribe("note://1"), ann.subscribe("note://2"):
            with pytest.raises(RemoteError, match="end some of them first"):
                await stack.enter_async_context(ann.subscribe("note://3"))
        for number in (3, 4):  # the ended ones do not count
            await stack.enter_async_context(ann.subscribe(f"note://{number}"))
        await stack.enter_async_context(bob.subscribe("note://1"))


async def test_close_of_the_changes_ends_the_subscriptions_of_the_bridge() -> None:
    async with linked(make_back("2025-11-25"), LATEST) as (client, bridge), client.subscribe("note://1"):
        [watch] = bridge.relay.changes._watches.values()
        await bridge.relay.changes.close()
        assert watch.task.done() and not bridge.relay.changes._watches


def test_list_that_keeps_changing_is_reported_ever_more_rarely_until_it_is_quiet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, pauses, made = [100.0], list[float](), changes.Changes({}, Namespace(["a"], True))
    loop = SimpleNamespace(time=lambda: now[0], call_later=lambda pause, *_: pauses.append(pause))
    monkeypatch.setattr("mcp_ref.bridge.changes.asyncio.get_running_loop", lambda: loop)
    quiet = [0.0] * (changes.BURST + 3) + [8.0, 16.5]  # the last is longer than twice the pause before it
    for seconds in quiet:
        now[0] += seconds
        for _ in range(2):  # the second change is in the report of the first
            made.list_changed("tools")
        now[0] += pauses[-1]
        made._report_list("tools")
    assert pauses == [0.0] * changes.BURST + [1.0, 2.0, 4.0, 8.0, 0.0]
