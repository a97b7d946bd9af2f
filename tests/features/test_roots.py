"""Roots: the directories that a client shows, and the checks of a server."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest

from mcp_ref import Client, Context, InvalidMessage, Root, Server
from mcp_ref.features.roots import path_of
from mcp_ref.jsonrpc.messages import JSON, Object
from tests.matrix import EVERY_REVISION, LEGACY_REVISIONS
from tests.messages import request
from tests.raw_peers import answer, answer_of, connected_client, handshake, raw_server, raw_session
from tests.settings import MODERN

# ------------------------------------------------------------------------------------------------ the client


@pytest.mark.spec("2024-11-05..2025-11-25/client/roots#capabilities-1")
@LEGACY_REVISIONS
async def test_roots_capability_is_declared_only_with_roots(revision: str) -> None:
    for roots in (["file:///a"], []):  # an empty list may grow
        async with raw_server(partial(Client, roots=roots, revision=revision)) as (client, wire):
            params = await handshake(client, wire, revision)
            assert params["capabilities"] == {"roots": {"listChanged": True}}


def test_client_roots_as_one_string_raises() -> None:
    with pytest.raises(TypeError, match=r"the option roots must have the type .*; write \['/tmp'\]"):
        Client(["python3"], roots="/tmp")


@pytest.mark.spec("2024-11-05..2026-07-28/client/roots#security-considerations-1")
@EVERY_REVISION
async def test_roots_list_has_only_the_roots_that_the_program_named(revision: str, tmp_path: Path) -> None:
    roots: list[Root | str | Path] = [Root("file:///home/user/a", "A"), "file:///home/user/b", tmp_path / "with space"]
    listed: list[JSON] = [
        {"uri": "file:///home/user/a", "name": "A"},
        {"uri": "file:///home/user/b"},
        {"uri": f"file://{tmp_path}/with%20space"},
    ]
    for given, expected in ((roots, listed), ([], [])):
        make = partial(Client, roots=given, revision=revision)
        assert await answer_of(make, revision, "roots/list", {}) == {"roots": expected}


@pytest.mark.spec(
    "2024-11-05..2025-11-25/client/roots#root-list-changes-1",
    "2025-03-26..2025-11-25/basic/index#notifications-2",
    "2024-11-05/basic/messages#notifications-1",
)
@LEGACY_REVISIONS
async def test_roots_list_changed_is_sent_and_the_new_roots_are_listed(revision: str) -> None:
    async with raw_session(lambda t: Client(t, roots=["file:///a"], revision=revision), revision) as (client, wire):
        await client.set_roots(["file:///b"])
        assert await wire.receive() == {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}
        assert (await wire.ask("roots/list"))["result"] == {"roots": [{"uri": "file:///b"}]}


@pytest.mark.spec(
    "2024-11-05..2025-11-25/client/roots#root-1", "2024-11-05..2026-07-28/client/roots#security-considerations-2"
)
@pytest.mark.parametrize(
    "uri",
    [
        "https://example.com/a", "data:,a", "file://relative", "file:relative", "file:///a/../../etc",
        "file:///a/%2e%2e/etc", "file:///a/%2E./etc", "file:///a/..%2Fetc", "file:///a/..%5cetc", "file:///a%00",
        "FTP://a",
    ],
)  # fmt: skip
def test_roots_uri_that_is_not_file_or_climbs_is_refused(uri: str) -> None:
    with pytest.raises(ValueError, match="root"):
        Client(["never-started"], roots=[Root(uri)])


@pytest.mark.parametrize(
    ("root", "path"),
    [
        ("file:///a%20b", "/a b"),
        ("FILE://LocalHost/%61", "/a"),
        ("file:///a/./b", "/a/b"),
        ("file://host/a", "file://host/a"),
        ("/a/%20", "/a/%20"),
        (Path("/a"), "/a"),
    ],
)
def test_path_of_a_root_is_the_path_of_any_spelling_of_a_file_uri(root: str | Path, path: str) -> None:
    assert path_of(root) == path


# ------------------------------------------------------------------------------------------------ the server


def server_that_asks() -> Server:
    server = Server("s")

    @server.tool()
    async def where(context: Context) -> str:
        return " ".join(root.uri for root in await context.list_roots())

    return server


@pytest.mark.spec("2024-11-05..2025-11-25/client/roots#root-1")
@pytest.mark.parametrize("uri", ["https://a/b", "/a", "", "file:///a/../b"])
async def test_context_roots_refuses_uris_that_are_not_file(uri: str) -> None:
    async with connected_client(server_that_asks(), capabilities={"roots": {}}) as wire:
        await wire.send(request("tools/call", {"name": "where", "arguments": {}}))
        await answer(wire, "roots/list", {"roots": [{"uri": uri}]})
        result = (await wire.receive_object())["result"]
        assert result["isError"] is True and "root" in str(result["content"])


@LEGACY_REVISIONS
async def test_prompts_and_resources_name_the_capability_that_the_client_lacks(revision: str) -> None:
    server = Server("s")

    @server.prompt()
    async def needy(context: Context) -> str:
        return str(await context.list_roots())

    server.resource("test://needy")(needy)
    async with connected_client(server, revision=revision) as wire:
        calls: dict[str, Object] = {"prompts/get": {"name": "needy"}, "resources/read": {"uri": "test://needy"}}
        for method, params in calls.items():
            answer = await wire.ask(method, params)
            assert "did not declare roots" in str(answer)


@EVERY_REVISION
async def test_roots_can_be_a_function_that_is_called_for_each_request(revision: str) -> None:
    paths: list[str] = ["file:///a"]

    async def current() -> list[str]:
        return paths

    for roots in (current, lambda: paths):
        async with Client(server_that_asks(), roots=roots, revision=revision) as client:
            paths[:] = ["file:///a"]
            assert (await client.call_tool("where")).text == "file:///a"
            paths[:] = ["file:///b", "file:///c"]
            assert (await client.call_tool("where")).text == "file:///b file:///c"
    paths[:] = ["file:///a/.."]
    for wrong in (lambda: paths, lambda: None):
        async with Client(server_that_asks(), roots=wrong, revision=MODERN) as client:  # type: ignore[arg-type]
            with pytest.raises(InvalidMessage, match="the roots handler must return a list of paths: "):
                await client.call_tool("where")


async def test_request_that_a_proxy_has_sent_twice_gets_one_response_of_the_client() -> None:
    asked, gate = asyncio.Event(), asyncio.Event()

    async def slow() -> list[str]:
        asked.set()
        await gate.wait()
        return []

    async with raw_session(lambda t: Client(t, roots=slow), "2025-11-25") as (_, wire):
        for _ in range(2):
            await wire.send(request("roots/list", id=7))
        await asked.wait()
        gate.set()
        assert await wire.receive() == {"jsonrpc": "2.0", "id": 7, "result": {"roots": []}}
        await wire.nothing_more()
