"""The requests of a client of 2026-07-28 beyond their features: the members of each, and the codes of errors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

import pytest

from mcp_ref import Client, RemoteError
from mcp_ref.features.completion import PromptReference
from mcp_ref.jsonrpc.messages import Object
from tests.raw_peers import raw_session, serve_call
from tests.raw_stateless_server import asked_for, in_time, meta_of, refusal
from tests.settings import MODERN

OFFERS: Object = {"tools": {}, "prompts": {}, "resources": {"subscribe": True}, "completions": {}}
Call = Callable[[Client], Coroutine[object, object, object]]
REQUESTS: list[tuple[str, Call, Object]] = [
    ("tools/list", lambda client: client.list_tools(), {"tools": []}),
    ("tools/call", lambda client: client.call_tool("t"), {"content": []}),
    ("prompts/list", lambda client: client.list_prompts(), {"prompts": []}),
    ("prompts/get", lambda client: client.get_prompt("p"), {"messages": []}),
    ("resources/list", lambda client: client.list_resources(), {"resources": []}),
    ("resources/templates/list", lambda client: client.list_resource_templates(), {"resourceTemplates": []}),
    ("resources/read", lambda client: client.read_resource("test://a"), {"contents": []}),
    (
        "completion/complete",
        lambda client: client.complete(PromptReference("p"), "a", ""),
        {"completion": {"values": []}},
    ),
]


@pytest.mark.spec(
    "2026-07-28/server/tools#intro-1",
    "2026-07-28/server/prompts#intro-1",
    "2026-07-28/server/resources#intro-1",
    "2026-07-28/server/utilities/completion#intro-1",
    "2026-07-28/server/utilities/pagination#intro-1",
    "2026-07-28/basic/transports/stdio#intro-4",
)
@pytest.mark.parametrize(("method", "ask_for", "result"), REQUESTS, ids=[method for method, _, _ in REQUESTS])
async def test_requests_have_the_members_of_their_kind_and_no_others(
    method: str, ask_for: Call, result: Object
) -> None:
    async with raw_session(Client, MODERN, OFFERS) as (client, wire):
        caching: Object = {"ttlMs": 0, "cacheScope": "public"}
        _, asked = await serve_call(ask_for(client), wire, {"resultType": "complete", **caching, **result})
        assert asked["method"] == method and meta_of(asked)  # the members that every request must have
        assert wire.frames.empty()


@pytest.mark.spec("2026-07-28/basic/index#error-codes-3")
@pytest.mark.parametrize("code", [-32000, -32001, -32003, -32004, -32010, -32019])
async def test_legacy_error_codes_have_no_meaning_in_2026_07_28(code: int) -> None:
    """Check that the client does nothing special about codes that SDKs used for lost sessions or timeouts."""
    async with raw_session(Client, MODERN, OFFERS) as (client, wire):
        calling = asyncio.create_task(client.call_tool("t"))
        await wire.send(refusal(await asked_for(wire, "tools/call"), code, "as you like", {"a": 1}))
        with pytest.raises(RemoteError, match="as you like") as found:
            await in_time(calling)
        assert (found.value.code, found.value.data) == (code, {"a": 1})
        assert wire.frames.empty()
