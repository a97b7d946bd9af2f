"""`_meta`: its names, and that its values pass through untouched."""

from __future__ import annotations

import asyncio
import time

import pytest

from mcp_ref import Client, Context, Server
from mcp_ref.basic.meta import is_meta_key
from mcp_ref.jsonrpc.messages import JSON, Object
from tests.matrix import EVERY_REVISION, LEGACY_REVISIONS
from tests.messages import request
from tests.raw_peers import connected_client, raw_session

GOOD = [
    "", "a", "7", "progressToken", "a.b-c_d.e", "com.example/name", "com.example/", "example/x", "a-b.c1/x",
    "io.modelcontextprotocol/related-task",
]  # fmt: skip
BAD_PREFIX = [
    "/name", "com..example/name", ".com/name", "com./name", "1com/name", "com.2x/name", "-com/name", "com-/name",
    "com.example-/name", "co_m/name", "c\u00f6m/name", "a/b/c",
]  # fmt: skip
BAD_NAME = ["-a", "a-", "_a", "a_", ".a", "a.", "com.example/-a", "com.example/a.", "a b", "\u00e4", "a\n"]


@pytest.mark.spec(
    "2025-06-18..2026-07-28/basic/index#meta-2,3",
    "2025-11-25..2026-07-28/basic/index#meta-5",
    "2025-06-18/basic/index#meta-4",
)
@pytest.mark.parametrize("key", [*GOOD, *BAD_PREFIX, *BAD_NAME])
def test_is_meta_key_tells_the_keys_within_the_grammar(key: str) -> None:
    assert is_meta_key(key) is (key in GOOD)


@pytest.mark.spec(
    "2025-06-18..2026-07-28/basic/index#meta-2,3",
    "2025-11-25..2026-07-28/basic/index#meta-5",
    "2025-06-18/basic/index#meta-4",
)
@pytest.mark.parametrize("key", [*BAD_PREFIX, *BAD_NAME])
def test_server_refuses_meta_keys_outside_the_grammar(key: str) -> None:
    server = Server("s")
    for add in (
        lambda: server.tools.add(lambda: None, "t", meta={key: 1}),
        lambda: server.resources.add("test://r", lambda: "", meta={key: 1}),
        lambda: server.prompts.add(lambda: "", "p", meta={key: 1}),
    ):
        with pytest.raises(ValueError, match="is not a valid _meta key"):
            add()


@pytest.mark.spec(
    "2025-06-18..2025-11-25/basic/index#meta-2,3", "2025-11-25/basic/index#meta-5", "2025-06-18/basic/index#meta-4"
)
@pytest.mark.parametrize("key", ["com..example/name", "a-"])
async def test_client_refuses_meta_keys_outside_the_grammar(key: str) -> None:
    async with raw_session(Client, capabilities={"tools": {}}) as (client, wire):
        with pytest.raises(ValueError, match="is not a valid _meta key"):
            await client.call_tool("t", meta={key: 1})
        await wire.nothing_more()


def test_is_meta_key_is_fast_for_long_keys() -> None:
    begun = time.process_time()
    for key in ("a." * 50_000 + "/", "a" * 100_000 + "-", "a-" * 50_000, "/" * 100_000):
        assert not is_meta_key(key)
    assert time.process_time() - begun < 1


STRANGE: list[JSON] = [None, True, 0, "", "text", [], [1, {"a": None}], {}, {"deep": {"er": [1.5]}}]


@pytest.mark.spec("2025-06-18..2026-07-28/basic/index#meta-1")
@EVERY_REVISION
async def test_server_ignores_values_of_reserved_meta_keys(revision: str) -> None:
    server = Server("s")
    seen: list[Object] = []

    @server.resource("test://meta")
    async def read(context: Context) -> str:
        await context.report_progress(1)
        seen.append(context.meta)
        return "done"

    async with connected_client(server, revision=revision) as wire:
        for value in STRANGE:
            meta: Object = {
                "io.modelcontextprotocol/related-task": value,
                "modelcontextprotocol.io/x": value,
                "mcp.dev/": value,
                "traceparent": value,
                "-no name-": value,  # a peer's keys are not checked
                "progressToken": value if type(value) not in (str, int) else [],
            }
            answer = await wire.ask("resources/read", {"uri": "test://meta", "_meta": meta})
            assert "done" in str(answer)
            assert seen.pop().items() >= meta.items()


@pytest.mark.spec("2025-06-18..2025-11-25/basic/index#meta-1")
@LEGACY_REVISIONS
async def test_client_ignores_values_of_reserved_meta_keys(revision: str) -> None:
    async with raw_session(Client, revision, {"tools": {}}) as (client, wire):
        for value in STRANGE:
            meta: Object = {"io.modelcontextprotocol/related-task": value, "progressToken": value, "a b": value}
            call = asyncio.create_task(client.call_tool("t", meta={"com.example/mine": value}))
            asked = await wire.receive_object()
            assert asked == request("tools/call", {"name": "t", "_meta": {"com.example/mine": value}}, asked["id"])
            result: Object = {"toolResult": 1} if revision == "2024-10-07" else {"content": []}
            await wire.send({"jsonrpc": "2.0", "id": asked["id"], "result": {**result, "_meta": meta}})
            assert (await call).meta == meta
