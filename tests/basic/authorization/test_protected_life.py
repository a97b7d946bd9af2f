"""Sessions, tasks, states and streams of a protected server: they belong to a principal, and outlive its tokens."""

from __future__ import annotations

import asyncio
import json
import time
from typing import cast

import pytest

from mcp_ref import Context, Server, TextContent
from mcp_ref.basic.authorization.server import DEFAULT_SKEW
from mcp_ref.jsonrpc.messages import INVALID_PARAMS, Object
from tests.basic.authorization.protected_server import Tokens, bearer, challenge, modern_call, protection
from tests.messages import error_of, initialize, request, stateless_request
from tests.raw_http_client import SSE_TYPE, HoldingServer, Reply, call, served_over_http
from tests.settings import PATIENCE, pass_time

ABLE: Object = {"elicitation": {"form": {}}}


def two_people(*scopes: str) -> Tokens:
    """Return the tokens of ann (two of them) and of bob, and one of ann at another client."""
    tokens = Tokens()
    tokens.grant("ann-1", *scopes, subject="ann")
    tokens.grant("ann-2", *scopes, "more", subject="ann")
    tokens.grant("ann-elsewhere", *scopes, subject="ann", client_id="another")
    tokens.grant("bob", *scopes, subject="bob")
    return tokens


TIME_LEFT = 5.0
"""Time until the streams of a token close that ends `soon`, in seconds. `pass_time` lets it pass."""


def soon() -> float:
    return time.time() - DEFAULT_SKEW + TIME_LEFT


def result(reply: Reply) -> Object:
    """Return the result in a JSON response."""
    return cast(Object, reply.json["result"])


@pytest.mark.attack("A11")
async def test_session_belongs_to_its_principal_and_survives_a_new_token() -> None:
    async with served_over_http(HoldingServer().server, authorization=protection(two_people())) as web:
        talk = bearer(web, "ann-1")
        await talk.handshake()
        events = await (await talk.post(call("count", to=1))).events()
        for token in ("bob", "ann-elsewhere"):
            thief = bearer(web, token)
            thief.id = talk.id
            replies = [await thief.post(request("ping")), await thief.get(), await thief.get(events[0]["id"])]
            replies += [await thief.delete(), await thief.post(initialize())]
            assert [reply.status for reply in replies] == [404] * 5
        talk.authorization = "Bearer ann-2"
        assert (await talk.post(request("ping"))).status == 200
        again = await talk.get(events[0]["id"])
        assert again.status == 200 and await again.messages()
        assert (await talk.delete()).status == 204


@pytest.mark.spec(
    "2026-07-28/client/elicitation#statefulness-1",
    "2026-07-28/basic/patterns/mrtr#server-requirements-basic-workflow-6",
    "2026-07-28/client/elicitation#security-considerations-1",
)
@pytest.mark.attack("A11")
async def test_request_state_belongs_to_its_principal_and_survives_a_new_token() -> None:
    server = Server("s")

    @server.tool()
    async def greet(context: Context) -> TextContent:
        form = await context.elicit("Name?", {"type": "object", "properties": {"name": {"type": "string"}}})
        assert context.principal is not None
        return TextContent(f"{context.principal.subject}: {form.content}")

    async with served_over_http(server, authorization=protection(two_people())) as web:
        params: Object = {"name": "greet"}
        asked = result(await bearer(web, "ann-1").post(stateless_request("tools/call", params, 1, ABLE)))
        answer: Object = {"action": "accept", "content": {"name": "Ann"}}
        params |= {"inputResponses": {"1": answer}, "requestState": asked["requestState"]}
        for token in ("bob", "ann-elsewhere"):
            reply = await bearer(web, token).post(stateless_request("tools/call", params, 2, ABLE))
            error_of(reply.json, INVALID_PARAMS, 2)
        reply = await bearer(web, "ann-2").post(stateless_request("tools/call", params, 3, ABLE))
        assert "ann: {'name': 'Ann'}" in str(result(reply))


async def test_session_uses_the_scopes_of_the_latest_token() -> None:
    server = Server("s")

    @server.tool(scopes={"more"})
    async def ask(context: Context) -> TextContent:
        assert context.principal is not None
        return TextContent(" ".join(sorted(context.principal.scopes)))

    async with served_over_http(server, authorization=protection(two_people("basic"))) as web:
        talk = bearer(web, "ann-1")
        await talk.handshake()
        assert challenge(await talk.post(call("ask"))).scopes == ("more",)
        talk.authorization = "Bearer ann-2"
        assert "basic more" in str(result(await talk.post(call("ask"))))


async def test_require_in_a_task_is_a_failed_task() -> None:
    server = Server("s")

    @server.tool(task="optional")
    async def work(context: Context) -> TextContent:
        context.require("admin")
        return TextContent("done")

    async with served_over_http(server, authorization=protection(two_people())) as web:
        talk = bearer(web, "ann-1")
        await talk.handshake()
        created = result(await talk.post(request("tools/call", {"name": "work", "task": {}})))
        id = cast(Object, created["task"])["taskId"]
        ended = result(await talk.post(request("tasks/result", {"taskId": id})))
        assert ended["isError"] is True and "admin" in str(ended)


# ------------------------------------------------------------------------------------------------ expiry


async def closed(reply: Reply) -> list[dict[str, str]]:
    """Wait until a stream ends, and return its events."""
    return await asyncio.wait_for(reply.events(), PATIENCE)


async def test_listening_stream_closes_when_the_token_expires_and_opens_again_with_a_new_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tokens, held = Tokens(), HoldingServer()
    tokens.grant("old", expires_at=soon())
    tokens.grant("new")
    async with served_over_http(held.server, authorization=protection(tokens)) as web:
        talk = bearer(web, "old")
        await talk.handshake()
        stream = await talk.get()
        pass_time(monkeypatch, TIME_LEFT)
        await closed(stream)
        assert (await talk.get()).status == 401
        held.announce()  # meanwhile
        talk.authorization = "Bearer new"
        again = await talk.get()
        assert (await again.object())["method"] == "notifications/tools/list_changed"


@pytest.mark.attack("listen-after-expiry")
async def test_subscription_ends_with_its_result_when_the_token_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = Tokens()
    tokens.grant("old", expires_at=soon())
    async with served_over_http(HoldingServer().server, authorization=protection(tokens)) as web:
        params: Object = {"notifications": {"toolsListChanged": True}}
        stream = await bearer(web, "old").post(stateless_request("subscriptions/listen", params, 7))
        assert (await stream.object())["method"] == "notifications/subscriptions/acknowledged"
        pass_time(monkeypatch, TIME_LEFT)
        assert ["result" in json.loads(event["data"]) for event in await closed(stream)] == [True]


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_result_under_way_is_finished_after_the_token_has_expired(
    era: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens, held = Tokens(), HoldingServer()
    async with served_over_http(held.server, authorization=protection(tokens)) as web:
        tokens.grant("old", expires_at=soon())
        talk = bearer(web, "old")
        if era == "legacy":
            await talk.handshake()
        message = call("hold", name="x") if era == "legacy" else modern_call("hold", name="x")
        asked = await talk.send(message)
        await held.has_begun()
        pass_time(monkeypatch, TIME_LEFT)
        assert (await bearer(web, "old").post(modern_call("add", a=1, b=2))).status == 401
        held.go.set()
        reply = await web.take(asked)
        found = reply.json if reply.kind != SSE_TYPE else await reply.object()
        assert reply.status == 200 and '"x"' in json.dumps(found)


# ------------------------------------------------------------------------------------------------ secrets


@pytest.mark.spec(
    "2026-07-28/basic/authorization/security-considerations#access-token-privilege-restriction-5",
    "2025-06-18..2025-11-25/basic/authorization#access-token-privilege-restriction-5",
)
@pytest.mark.attack("A14")
async def test_handler_cannot_reach_the_token() -> None:
    server, seen = Server("s"), list[str]()

    @server.tool()
    async def look(context: Context) -> TextContent:
        seen.append(repr(context.principal) + repr(context.meta) + repr(vars(context.access)))
        seen.append(repr(context.principal.claims if context.principal is not None else ""))
        return TextContent("")

    tokens = Tokens()
    tokens.grant("marker-token", claims={"email": "marker-claim"})
    async with served_over_http(server, authorization=protection(tokens)) as web:
        talk = bearer(web, "marker-token")
        await talk.handshake()
        await talk.post(call("look"))
        await talk.post(modern_call("look"))
    assert len(seen) == 4 and "marker-token" not in "".join(seen)
    assert "marker-claim" not in seen[0]
