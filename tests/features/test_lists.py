"""The rules that features share: their capability, the notifications of changed lists, and the limit of calls."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mcp_ref import Client, Limits, Server
from mcp_ref.client.options import ClientOptions
from mcp_ref.jsonrpc.messages import METHOD_NOT_FOUND, Object
from tests.matrix import EVERY_REVISION, KINDS, LATEST_OF_BOTH_ERAS, LEGACY_REVISIONS
from tests.messages import initialize, notification, request
from tests.raw_peers import connected_client, handshake, raw_client, raw_server
from tests.settings import MODERN, PATIENCE

METHODS = {
    "tools": ("tools/list", "tools/call"),
    "prompts": ("prompts/list", "prompts/get"),
    "resources": ("resources/list", "resources/templates/list", "resources/read", "resources/subscribe"),
}


def add(server: Server, feature: str, name: str) -> None:
    if feature == "resources":
        server.resources.add(f"test://{name}", lambda: "x")
    else:
        getattr(server, feature).add(lambda: "x", name)


def remove(server: Server, feature: str, name: str) -> None:
    getattr(server, feature).remove(f"test://{name}" if feature == "resources" else name)


@pytest.mark.parametrize("feature", METHODS)
def test_name_or_uri_with_half_of_a_surrogate_pair_is_refused_at_registration(feature: str) -> None:
    server = Server("s")
    with pytest.raises(ValueError, match=r"a\\ud800'"):
        add(server, feature, "a\ud800")  # no message with the list could be sent
    assert len(getattr(server, feature)) == 0


@pytest.mark.parametrize("wrong", [3, b"x", ["x"]])
def test_name_or_uri_that_is_not_a_str_is_refused_at_registration(wrong: Any) -> None:
    server = Server("s")
    with pytest.raises(TypeError, match=r"^the tool name .* must be a str, not (int|bytes|list)"):
        server.tools.add(lambda: "x", wrong)
    with pytest.raises(TypeError, match=r"^the prompt name .* must be a str, not (int|bytes|list)"):
        server.prompts.add(lambda: "x", wrong)
    with pytest.raises(TypeError, match=r"^a URI or template must be a str, not "):
        server.resources.add(wrong, lambda: "x")
    for target, argument in ((wrong, "a"), ("p", wrong)):
        with pytest.raises(TypeError, match=r"^the target or argument .* of a completion must be a str, not "):
            server.completions.add(target, argument, lambda value: [])


@pytest.mark.spec(
    "2024-11-05..2026-07-28/server/tools#capabilities-1",
    "2024-11-05..2025-11-25/server/prompts#capabilities-1",
    "2024-11-05..2026-07-28/server/resources#capabilities-1",
)
@EVERY_REVISION
@pytest.mark.parametrize("feature", METHODS)
async def test_capability_is_declared_and_without_it_the_methods_are_not_found(revision: str, feature: str) -> None:
    declared: Object = {"listChanged": True, **({"subscribe": True} if feature == "resources" else {})}
    full = Server("full")
    add(full, feature, "a")
    for server, offers in ((full, True), (Server("bare"), False)):
        async with raw_client(server) as wire:
            await wire.send(initialize(revision))
            capabilities = (await wire.receive_object())["result"]["capabilities"]
            assert capabilities.get(feature) == (declared if offers else None)
            await wire.send(notification("notifications/initialized"))
            for method in METHODS[feature]:
                answer = await wire.ask(method, {"name": "a", "uri": "test://a"})
                if offers:
                    assert "result" in answer
                else:
                    assert answer["error"]["code"] == METHOD_NOT_FOUND


@pytest.mark.spec(
    "2024-11-05..2025-11-25/server/tools#list-changed-notification-1",
    "2024-11-05..2025-11-25/server/prompts#list-changed-notification-1",
    "2024-11-05..2025-11-25/server/resources#list-changed-notification-1",
    "2025-03-26..2025-11-25/basic/index#notifications-2",
    "2024-11-05/basic/messages#notifications-1",
)
@KINDS
@LEGACY_REVISIONS
@pytest.mark.parametrize("feature", METHODS)
async def test_list_changed_goes_to_every_client_on_every_change(kind: str, revision: str, feature: str) -> None:
    server, changed = Server("s"), notification(f"notifications/{feature}/list_changed")
    add(server, feature, "a")
    async with connected_client(server, kind, revision) as one, connected_client(server) as other:
        await one.nothing_more()
        await other.nothing_more()
        for change, name in ((add, "b"), (remove, "a")):
            change(server, feature, name)
            assert (await one.receive(), await other.receive()) == (changed, changed)
        (item,) = (await one.ask(f"{feature}/list"))["result"][feature]
        assert item.get("uri", item["name"]) in ("b", "test://b")


@LEGACY_REVISIONS
@pytest.mark.parametrize("feature", METHODS)
async def test_client_list_changed_reaches_the_program(revision: str, feature: str) -> None:
    heard = asyncio.Event()
    options = ClientOptions({f"on_{feature}_changed": heard.set})  # type: ignore[misc]
    async with raw_server(lambda transport: Client(transport, **options)) as (client, wire):
        await handshake(client, wire, revision, {feature: {"listChanged": True}})
        await wire.send(notification(f"notifications/{feature}/list_changed"))
        await asyncio.wait_for(heard.wait(), PATIENCE)


@pytest.mark.spec(
    "2024-11-05..2026-07-28/server/tools#security-considerations-3",
    "2024-11-05..2026-07-28/server/utilities/completion#security-2",
    "2024-11-05..2026-07-28/server/utilities/completion#implementation-considerations-3",
)
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {"name": "slow", "arguments": {"value": "x"}}),
        ("completion/complete", {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "x", "value": ""}}),
    ],
)
@KINDS
@LATEST_OF_BOTH_ERAS
async def test_flood_runs_few_functions_at_a_time_and_refuses_the_rest(
    kind: str, revision: str, method: str, params: Object
) -> None:
    # The package limits the number of functions at a time. A limit per minute or per caller is the author's policy.
    if revision == MODERN and kind not in ("memory", "stdio"):
        pytest.skip("over HTTP the limit is the endpoint's, which all clients share")
    server, begun, gate = Server("s", limits=Limits(max_in_flight=3, patience=0.05)), list[str](), asyncio.Event()

    async def slow(value: str) -> list[str]:
        begun.append(value)
        await gate.wait()
        return [value]

    server.tools.add(slow)
    server.prompts.add(lambda x: x, "p")
    server.completions.add("p", "x", slow)
    async with connected_client(server, kind, revision) as wire:
        for id in range(10):
            await wire.send(request(method, params, id))
        refused = [await wire.receive_object() for _ in range(7)]
        assert sorted(answer["id"] for answer in refused) == [*range(3, 10)]
        assert all("error" in answer for answer in refused) and len(begun) == 3
        gate.set()
        assert all("result" in answer for answer in [await wire.receive_object() for _ in range(3)])
        assert "result" in await wire.ask(method, params)
