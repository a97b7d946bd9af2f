"""Pagination: lists in pages, cursors that stay good and mean nothing to the client."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, assert_type

import pytest

from mcp_ref import Client, InvalidMessage, ListToolsResult, PaginatedRequestParams, Server
from mcp_ref.features import pagination
from mcp_ref.jsonrpc.messages import INVALID_PARAMS, JSON, Object
from mcp_ref.revisions import LEGACY
from tests.matrix import KINDS, LATEST_OF_BOTH_ERAS, LEGACY_REVISIONS
from tests.raw_peers import Wire, connected_client, raw_session
from tests.settings import MODERN

PAGED = [revision.name for revision in LEGACY if revision.pagination]
LISTS = ["tools/list", "resources/list", "resources/templates/list", "prompts/list"]


def server_of(count: int, page_size: int) -> Server:
    """Return a server with `count` items of each kind, named from 0 on."""
    server = Server("s", page_size=page_size)
    for number in range(count):
        add(server, number)
    return server


def add(server: Server, number: int) -> None:
    server.tools.add(lambda: "", f"n{number}")
    server.resources.add(f"test://n{number}", lambda: "", name=f"n{number}")
    server.resources.add(f"test://n{number}/{{id}}", lambda id: "", name=f"n{number}")
    server.prompts.add(lambda: "", f"n{number}")


def remove(server: Server, number: int) -> None:
    server.tools.remove(f"n{number}")
    server.resources.remove(f"test://n{number}")
    server.resources.remove(f"test://n{number}/{{id}}")
    server.prompts.remove(f"n{number}")


def named(*numbers: int) -> list[JSON]:
    return [f"n{number}" for number in numbers]


async def page(wire: Wire, method: str, cursor: JSON = None) -> tuple[list[JSON], JSON]:
    """Return the names on one page, and the next cursor."""
    answer = await wire.ask(method, {"cursor": cursor} if cursor is not None else {})
    result = answer["result"]
    (items,) = (value for value in result.values() if isinstance(value, list))
    assert "nextCursor" not in result or isinstance(result["nextCursor"], str)
    return [item["name"] for item in items], result.get("nextCursor")


async def error_code(wire: Wire, method: str, params: Object) -> JSON:
    """Return the code of the error response to a request."""
    code: JSON = (await wire.ask(method, params))["error"]["code"]
    return code


# ------------------------------------------------------------------------------------------------ the server


@KINDS
@pytest.mark.parametrize("revision", [*PAGED, MODERN])
@pytest.mark.parametrize("method", LISTS)
async def test_list_pages_hold_every_item_once_in_order_and_the_last_has_no_next_cursor(
    kind: str, revision: str, method: str
) -> None:
    async with connected_client(server_of(5, page_size=2), kind, revision) as wire:
        first, cursor = await page(wire, method)
        second, following = await page(wire, method, cursor)
        third, end = await page(wire, method, following)
        assert (first, second, third) == (named(0, 1), named(2, 3), named(4))
        assert cursor is not None and following is not None and end is None


@pytest.mark.parametrize("method", LISTS)
async def test_list_with_a_full_last_page_has_no_next_cursor(method: str) -> None:
    async with connected_client(server_of(4, page_size=2)) as wire:
        _, cursor = await page(wire, method)
        assert await page(wire, method, cursor) == (named(2, 3), None)
    async with connected_client(server_of(2, page_size=2)) as wire:
        assert await page(wire, method) == (named(0, 1), None)


@pytest.mark.parametrize("method", LISTS)
async def test_list_in_2024_10_07_has_no_pages(method: str) -> None:
    async with connected_client(server_of(5, page_size=2), "memory", "2024-10-07") as wire:
        assert await page(wire, method) == (named(0, 1, 2, 3, 4), None)


@pytest.mark.spec("2024-11-05..2025-11-25/server/utilities/pagination#implementation-guidelines-1")
@pytest.mark.parametrize("method", LISTS)
async def test_cursor_stays_valid_while_the_list_changes(method: str) -> None:
    server = server_of(6, page_size=2)
    async with connected_client(server) as wire:
        _, cursor = await page(wire, method)
        again = await page(wire, method, cursor)
        assert await page(wire, method, cursor) == again, "asked twice, told the same"
        remove(server, 0)
        remove(server, 1)  # the very item that the cursor stands behind
        remove(server, 3)
        add(server, 6)
        for _ in range(3):  # tools, prompts, resources: each list has changed
            assert "list_changed" in str((await wire.receive_object())["method"])
        names, following = await page(wire, method, cursor)
        assert names == named(2, 4), "nothing skipped, nothing twice"
        assert await page(wire, method, following) == (named(5, 6), None)


@pytest.mark.parametrize("method", LISTS)
async def test_cursor_at_the_removed_end_of_a_list_gives_an_empty_last_page(method: str) -> None:
    server = server_of(3, page_size=2)
    async with connected_client(server) as wire:
        _, cursor = await page(wire, method)
        for number in range(3):
            remove(server, number)
        for _ in range(3):
            assert "list_changed" in str((await wire.receive_object())["method"])
        assert await page(wire, method, cursor) == ([], None)


@pytest.mark.spec(
    "2024-11-05..2026-07-28/server/utilities/pagination#error-handling-1",
    "2024-11-05..2026-07-28/server/utilities/pagination#implementation-guidelines-2",
)
@LATEST_OF_BOTH_ERAS
@pytest.mark.parametrize("method", LISTS)
async def test_cursor_that_the_server_did_not_make_is_invalid_params(revision: str, method: str) -> None:
    texts = ["", "nonsense", "💣", "YWZ0ZXI6", "YWZ0ZXI6LTE=", "YWZ0ZXI6wrI=", "YWZ0ZXI6MQ==\n", "A" * 100_000]
    no_cursors: list[JSON] = [*texts, 7, {}, []]
    async with connected_client(server_of(3, page_size=2), revision=revision) as wire:
        for cursor in no_cursors:
            assert await error_code(wire, method, {"cursor": cursor}) == INVALID_PARAMS, cursor
        assert (await page(wire, method))[0] == named(0, 1), "and the next request works"


# ------------------------------------------------------------------------------------------------ the client

LISTERS = pytest.mark.parametrize(
    "lister", [Client.list_tools, Client.list_resources, Client.list_resource_templates, Client.list_prompts]
)
Lister = Callable[[Client], Awaitable[list[Any]]]


async def names(listing: Awaitable[list[Any]]) -> list[str]:
    return [each.name for each in await listing]


EVERYTHING: Object = {"tools": {}, "resources": {}, "prompts": {}}


def items(names: list[str]) -> Object:
    """Return the result of any of the four lists."""
    listed: list[JSON] = [
        {"name": name, "inputSchema": {"type": "object"}, "uri": "test://u", "uriTemplate": "test://{u}"}
        for name in names
    ]
    return {"tools": listed, "resources": listed, "resourceTemplates": listed, "prompts": listed}


async def served(wire: Wire, pages: list[tuple[list[str], Object]]) -> list[JSON]:
    """Serve one list request for each page. Return the params of the requests."""
    came: list[JSON] = []
    for names, beside in pages:
        asked = await wire.receive_object()
        params = asked.get("params")
        came.append({n: v for n, v in params.items() if n != "_meta"} if isinstance(params, dict) else params)
        await wire.send({"jsonrpc": "2.0", "id": asked["id"], "result": {**items(names), **beside}})
    return came


@pytest.mark.spec(
    "2024-11-05..2026-07-28/server/utilities/pagination#pagination-model-1",
    "2024-11-05..2025-11-25/server/utilities/pagination#implementation-guidelines-3",
    "2024-11-05..2025-11-25/server/prompts#implementation-considerations-2",
)
@pytest.mark.parametrize("revision", [*PAGED, MODERN])
@LISTERS
async def test_client_follows_pages_of_any_size_until_next_cursor_is_missing(revision: str, lister: Lister) -> None:
    async with raw_session(Client, revision, EVERYTHING) as (client, wire):
        listing = asyncio.create_task(names(lister(client)))
        # a page may have any size, even 0: the list goes on as long as a page has a cursor
        pages: list[tuple[list[str], Object]] = [
            (["a"], {"nextCursor": "1"}),
            ([], {"nextCursor": "2"}),
            (["b", "c", "d"], {"nextCursor": "3"}),
            (["e"], {}),
        ]
        assert len(await served(wire, pages)) == 4
        assert await listing == ["a", "b", "c", "d", "e"]


@pytest.mark.spec("2024-11-05..2025-11-25/server/utilities/pagination#implementation-guidelines-4")
@LEGACY_REVISIONS
@LISTERS
async def test_client_takes_a_list_without_pages(revision: str, lister: Lister) -> None:
    async with raw_session(Client, revision, EVERYTHING) as (client, wire):
        listing = asyncio.create_task(names(lister(client)))
        (params,) = await served(wire, [(["a", "b"], {})])
        assert params in (None, {}), "the first page has no cursor"
        assert await listing == ["a", "b"]


@pytest.mark.spec(
    "2024-11-05..2026-07-28/server/utilities/pagination#implementation-guidelines-5,6",
    "2026-07-28/server/utilities/pagination#implementation-guidelines-7",
)
@pytest.mark.parametrize("revision", [*PAGED, MODERN])
@LISTERS
async def test_client_sends_every_cursor_back_unchanged(revision: str, lister: Lister) -> None:
    cursors = ["", " ", "0", "null", "a=b&c=%20", "été\u0301\u2028\x00💡", "{}", "e" * 70_000]
    async with raw_session(Client, revision, EVERYTHING) as (client, wire):
        listing = asyncio.create_task(names(lister(client)))
        pages: list[tuple[list[str], Object]] = [(["x"], {"nextCursor": cursor}) for cursor in cursors]
        came = await served(wire, [*pages, (["x"], {})])
        assert came[1:] == [{"cursor": cursor} for cursor in cursors]
        assert len(await listing) == len(cursors) + 1


@pytest.mark.spec("2024-11-05..2025-11-25/server/utilities/pagination#implementation-guidelines-7")
@LISTERS
async def test_client_starts_without_a_cursor_in_every_session(lister: Lister) -> None:
    for _ in range(2):
        async with raw_session(Client, "2025-11-25", EVERYTHING) as (client, wire):
            listing = asyncio.create_task(names(lister(client)))
            (params,) = await served(wire, [(["a"], {"nextCursor": "halfway"})])
            assert params in (None, {})
            assert (await wire.receive_object())["params"] == {"cursor": "halfway"}
            listing.cancel()
            await asyncio.wait([listing])


async def test_client_gives_up_on_endless_pages() -> None:
    async with raw_session(Client, "2025-11-25", EVERYTHING) as (client, wire):
        listing = asyncio.create_task(client.list_tools())
        await served(wire, [(["a"], {"nextCursor": "again"}), (["a"], {"nextCursor": "again"})])
        with pytest.raises(InvalidMessage, match="do not end"):
            await listing


async def test_client_gives_up_on_pages_with_too_many_items() -> None:
    fetched: list[str | None] = []

    async def two_more(cursor: str | None) -> tuple[list[int], str | None]:
        fetched.append(cursor)
        return [1, 2], str(len(fetched))

    with pytest.raises(InvalidMessage, match="stopped after 6 items"):
        await pagination.all_pages(two_more, max_pages=10, max_items=5)
    assert fetched == [None, "1", "2"]


async def test_client_gives_up_on_pages_that_are_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pagination, "MAX_LIST_SIZE", 1000)
    pages = iter(range(10))

    async def large(cursor: str | None) -> tuple[list[str], str | None]:
        return ["x" * 400], str(next(pages))

    with pytest.raises(InvalidMessage, match="stopped after 3 items"):
        await pagination.all_pages(large, max_pages=10, max_items=10)


async def test_client_takes_as_many_items_as_it_allows() -> None:
    async def two(cursor: str | None) -> tuple[list[int], str | None]:
        following = {None: "next", "next": "last"}
        return [1, 2] if cursor != "last" else [], following.get(cursor)

    assert await pagination.all_pages(two, max_pages=10, max_items=4) == [1, 2, 1, 2]


async def test_client_refuses_a_next_cursor_that_is_not_text() -> None:
    async with raw_session(Client, "2025-11-25", EVERYTHING) as (client, wire):
        listing = asyncio.create_task(client.list_tools())
        await served(wire, [(["a"], {"nextCursor": 7})])
        with pytest.raises(InvalidMessage, match="nextCursor"):
            await listing


@pytest.mark.parametrize("revision", [*PAGED, MODERN])
async def test_client_request_reads_one_page(revision: str) -> None:
    async with Client(server_of(3, page_size=2), revision=revision) as client:
        first = await client.request("tools/list", PaginatedRequestParams(), ListToolsResult)
        assert_type(first, ListToolsResult)
        last = await client.request("tools/list", PaginatedRequestParams(first.next_cursor), ListToolsResult)
        assert [[tool.name for tool in page.tools] for page in (first, last)] == [["n0", "n1"], ["n2"]]
        assert last.next_cursor is None


async def test_list_omits_an_item_that_another_thread_is_adding() -> None:
    server = server_of(1, 10)
    registry = server.tools._registry
    registry["half"] = registry["n0"]  # the first step of `Registry.add`
    async with Client(server) as client:
        assert [tool.name for tool in await client.list_tools()] == ["n0"]
