"""Caching: the hints of a server's results, and the cache of a client."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator

import pytest

from mcp_ref import Client, Context, Server
from mcp_ref.codec import codec_for
from mcp_ref.features import caching
from mcp_ref.features.caching import CacheScope, ResponseCache
from mcp_ref.features.tools import ListToolsResult
from mcp_ref.jsonrpc.messages import JSON, Object
from mcp_ref.revisions import R2026_07_28
from tests.matrix import LEGACY_REVISIONS, STATELESS_KINDS
from tests.messages import notification, result_of
from tests.raw_peers import Wire, connect_modern, connected_client, raw_client, raw_server, reply
from tests.settings import MODERN, PATIENCE, Clock

SIX: dict[str, Object] = {
    "server/discover": {},
    "tools/list": {},
    "prompts/list": {},
    "resources/list": {},
    "resources/templates/list": {},
    "resources/read": {"uri": "test://a"},
}
"""The requests whose results may be kept, with params."""


def full(server: Server) -> Server:
    """Add one of each feature to a server, and return it."""

    @server.tool()
    async def add(a: int, b: int) -> int:
        return a + b

    @server.prompt()
    async def greet() -> str:
        return "Hello"

    @server.resource("test://a")
    async def a() -> str:
        return "A"

    @server.resource("test://of/{name}")
    async def of(name: str) -> str:
        return name

    return server


def hints_in(result: Object) -> tuple[JSON, JSON]:
    """Return the hints of a result."""
    return result["ttlMs"], result["cacheScope"]


# ------------------------------------------------------------------------------------------------ the server


@pytest.mark.spec("2026-07-28/server/utilities/caching#cacheable-results-1,2,3,4,5,6")
@STATELESS_KINDS
async def test_six_cacheable_results_have_cache_hints_with_a_ttl_of_0_by_default(kind: str) -> None:
    async with raw_client(full(Server("s")), kind) as wire:
        for method, params in SIX.items():
            result = result_of(await wire.ask_stateless(method, params))
            scope = "private" if method == "resources/read" else "public"
            assert result["resultType"] == "complete" and hints_in(result) == (0, scope), method


@LEGACY_REVISIONS
async def test_legacy_results_have_no_cache_hints(revision: str) -> None:
    server = full(Server("s", cache_ttl=300.0, cache_scope="private"))
    async with connected_client(server, revision=revision) as wire:
        for method, params in SIX.items():
            if method != "server/discover":
                result = result_of(await wire.ask(method, params))
                assert not {"ttlMs", "cacheScope"} & result.keys()


async def test_cache_options_of_the_server_are_for_all_methods_or_for_each() -> None:
    read = {"resources/read": (0, "private")}
    all_lists = {**dict.fromkeys(SIX, (300_000, "private")), **read}
    each = {"server/discover": (60_000, "public"), "tools/list": (1500, "private")}
    each_list = {**dict.fromkeys(SIX, (0, "public")), **each, **read}
    ttls = {"tools/list": 1.5, "server/discover": 60}
    for server, expected in (
        (Server("s", cache_ttl=300.0, cache_scope="private"), all_lists),
        (Server("s", cache_ttl=ttls, cache_scope={"tools/list": "private"}), each_list),
    ):
        async with raw_client(full(server)) as wire:
            for method, params in SIX.items():
                assert hints_in(result_of(await wire.ask_stateless(method, params))) == expected[method], method


async def test_cache_options_of_a_resource_or_template_are_its_own() -> None:
    server = Server("s", cache_ttl=5.0)

    @server.resource("test://shared", cache_ttl=60.0, cache_scope="public")
    @server.resource("test://own", cache_ttl=0.25)
    @server.resource("test://never", cache_scope="public")
    async def one() -> str:
        return "one"

    @server.resource("test://of/{name}", cache_ttl=3600, cache_scope="public")
    async def of(name: str) -> str:
        return name

    async with raw_client(server) as wire:
        for uri, expected in {
            "test://shared": (60_000, "public"),
            "test://own": (250, "private"),
            "test://never": (0, "public"),
            "test://of/you": (3_600_000, "public"),
        }.items():
            assert hints_in(result_of(await wire.ask_stateless("resources/read", {"uri": uri}))) == expected


@pytest.mark.spec("2026-07-28/server/utilities/caching#interaction-with-pagination-4,5")
@pytest.mark.parametrize("scope", ["public", "private"])
async def test_all_pages_of_a_list_have_the_same_scope(scope: CacheScope) -> None:
    server = Server("s", page_size=1, cache_ttl=300.0, cache_scope=scope)
    for number in range(3):
        server.tools.add(lambda: None, f"t{number}")
    async with raw_client(server) as wire:
        pages = [result_of(await wire.ask_stateless("tools/list"))]
        while "nextCursor" in pages[-1]:
            pages.append(result_of(await wire.ask_stateless("tools/list", {"cursor": pages[-1]["nextCursor"]})))
        assert [hints_in(page) for page in pages] == [(300_000, scope)] * 3


async def test_input_required_result_has_no_cache_hints_and_the_complete_result_has_them() -> None:
    server = Server("s")

    @server.resource("test://a", cache_ttl=60.0)
    async def a(context: Context) -> str:
        return (await context.list_roots())[0].uri

    async with raw_client(server) as wire:
        asked = result_of(await wire.ask_stateless("resources/read", SIX["resources/read"], capabilities={"roots": {}}))
        assert asked["resultType"] == "input_required" and not {"ttlMs", "cacheScope"} & asked.keys()
        answers: Object = {key: {"roots": [{"uri": "file:///r"}]} for key in asked["inputRequests"]}
        again: Object = {"inputResponses": answers, "requestState": asked["requestState"]}
        retry = await wire.ask_stateless("resources/read", {**SIX["resources/read"], **again}, 2, {"roots": {}})
        result = result_of(retry)
        assert result["resultType"] == "complete" and hints_in(result) == (60_000, "private")


@pytest.mark.spec("2026-07-28/server/utilities/caching#time-to-live-ttl-field-5")
@pytest.mark.parametrize("ttl", [-1, -0.001, float("nan"), float("inf"), float("-inf"), 1e300, 2**53])
def test_cache_ttl_that_is_not_a_valid_time_is_refused_at_registration(ttl: float) -> None:
    with pytest.raises(ValueError, match="cache_ttl must be a number of seconds"):
        Server("s", cache_ttl=ttl)
    with pytest.raises(ValueError, match="cache_ttl must be a number of seconds"):
        Server("s", cache_ttl={"tools/list": ttl})
    server = Server("s")
    with pytest.raises(ValueError, match="cache_ttl must be a number of seconds"):
        server.resources.add("test://a", lambda: "a", cache_ttl=ttl)
    server.resources.add("test://a", lambda: "a")  # nothing half-done stayed behind


def test_cache_hints_with_an_unknown_scope_or_method_are_refused_at_registration() -> None:
    with pytest.raises(TypeError, match="the option cache_scope must have the type CacheScope"):
        Server("s", cache_scope="shared")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="the option cache_scope must have the type CacheScope, not str"):
        Server("s").resources.add("test://a", lambda: "a", cache_scope="Public")  # type: ignore[arg-type]
    for method in ("tools/call", "resources/read", "tools"):
        with pytest.raises(ValueError, match=f"cache_ttl and cache_scope accept only .*, not '{method}'"):
            Server("s", cache_ttl={method: 1.0})
        with pytest.raises(ValueError, match=f"cache_ttl and cache_scope accept only .*, not '{method}'"):
            Server("s", cache_scope={method: "public"})


# ------------------------------------------------------------------------------------------------ the cache


def result(ttl: JSON = 1000, scope: JSON = "private", **more: JSON) -> Object:
    """Return a complete result of tools/list."""
    return {"resultType": "complete", "tools": [], "ttlMs": ttl, "cacheScope": scope, **more}


def keeps(
    cache: ResponseCache, credential: str = "me", method: str = "tools/list", params: Object | None = None
) -> bool:
    """Return True if a cache has a fresh result of server "s"."""
    return cache.get("s", credential, method, params or {}) is not None


@pytest.mark.spec(
    "2026-07-28/server/utilities/caching#time-to-live-ttl-field-2",
    "2026-07-28/server/utilities/caching#freshness-calculation-1",
)
def test_cached_result_is_fresh_until_its_ttl_has_passed() -> None:
    clock = Clock()
    cache = ResponseCache(clock)
    cache.put("s", "me", "tools/list", {}, result(1500))
    for passed, fresh in ((0.0, True), (1.499, True), (1.5, False), (1.0, False)):
        clock.now = 1000.0 + passed
        assert (cache.get("s", "me", "tools/list", {}) == result(1500)) is fresh, passed


@pytest.mark.spec("2026-07-28/server/utilities/caching#time-to-live-ttl-field-1,3,4")
def test_result_without_a_valid_ttl_is_not_cached() -> None:
    cache = ResponseCache(Clock())
    wrong: list[JSON] = [0, -1, -(10**30), 0.5, -1.0, "1000", True, None, [1000], {}]
    absent = result()
    del absent["ttlMs"]
    for without in (absent, *map(result, wrong)):
        cache.put("s", "me", "tools/list", {}, without)
        assert not keeps(cache), without
    right: list[JSON] = [1, 1000.0, 2**53, 10**400]
    for ttl in right:
        cache.put("s", "me", "tools/list", {}, result(ttl))
        assert keeps(cache), ttl
        assert cache.forget("s", "tools/list")


def test_hints_that_are_missing_or_wrong_do_not_cost_the_result() -> None:
    codec = codec_for(R2026_07_28)
    wrong: list[tuple[JSON, JSON]] = [(None, None), ("x", "x"), (-1, 1), (1.5, ["public"]), ([], {})]
    without: Object = {"tools": []}
    for each in (without, *(result(ttl, scope) for ttl, scope in wrong)):
        read = codec.decode(ListToolsResult, each)
        assert (read.ttl_ms, read.cache_scope) == (0, "private")
    read = codec.decode(ListToolsResult, result(5.0, "public"))
    assert (read.ttl_ms, read.cache_scope) == (5, "public")


@pytest.mark.spec("2026-07-28/server/utilities/caching#cache-key-1")
def test_cached_result_is_reused_only_for_the_same_method_and_params() -> None:
    cache = ResponseCache(Clock())
    params: Object = {"uri": "test://a", "x": {"b": 1, "a": [True]}}
    cache.put("s", "me", "resources/read", params, result())
    reordered: Object = {"x": {"a": [True], "b": 1}, "uri": "test://a"}
    for same in (params, reordered, Object(**params, _meta={"progressToken": 3})):
        assert cache.get("s", "me", "resources/read", same) is not None
    changes: list[Object] = [{"uri": "test://A"}, {"uri": "TEST://a"}, {"cursor": "c"}, {"x": {"b": 1, "a": [1]}}]
    for other in (Object(), Object(uri="test://a"), *({**params, **change} for change in changes)):
        assert cache.get("s", "me", "resources/read", other) is None, other
    assert cache.get("s", "me", "resources/list", params) is None
    assert cache.get("another", "me", "resources/read", params) is None


@pytest.mark.spec("2026-07-28/server/utilities/caching#cache-key-2")
@pytest.mark.parametrize("retry", [{"inputResponses": {}}, {"requestState": "s"}], ids=str)
def test_cache_keeps_neither_the_result_of_a_retry_nor_input_required(retry: Object) -> None:
    cache = ResponseCache(Clock())
    cache.put("s", "me", "resources/read", {"uri": "test://a", **retry}, result())
    assert not keeps(cache, method="resources/read", params={"uri": "test://a", **retry})
    assert not keeps(cache, method="resources/read", params={"uri": "test://a"})
    cache.put("s", "me", "resources/read", {"uri": "test://a"}, result(resultType="input_required"))
    assert not keeps(cache, method="resources/read", params={"uri": "test://a"})
    cache.put("s", "me", "resources/read", {"uri": "test://a"}, result())
    assert not keeps(cache, method="resources/read", params={"uri": "test://a", **retry}), "and a retry is always sent"


@pytest.mark.parametrize("method", ["tools/call", "prompts/get", "completion/complete", "subscriptions/listen"])
def test_other_results_are_not_kept_whatever_they_say(method: str) -> None:
    cache = ResponseCache(Clock())
    cache.put("s", "me", method, {}, result())
    assert not keeps(cache, method=method)


@pytest.mark.spec("2026-07-28/server/utilities/caching#cache-scope-field-1")
@pytest.mark.parametrize("scope", ["public", "private", "Public", "shared", None, 1, ["public"]], ids=repr)
def test_cached_private_result_is_reused_only_for_the_same_credential(scope: JSON) -> None:
    cache, is_public = ResponseCache(Clock()), scope == "public"
    cache.put("s", "me", "tools/list", {}, result(scope=scope))
    assert [keeps(cache, each) for each in ("me", "you", "")] == [True, is_public, is_public]
    cache.put("s", "you", "tools/list", {}, result(scope=scope, tools=[{"name": "yours"}]))
    assert (cache.get("s", "me", "tools/list", {}) == cache.get("s", "you", "tools/list", {})) is is_public


def test_newer_result_replaces_the_cached_one_even_if_it_is_not_cacheable() -> None:
    cache = ResponseCache(Clock())
    cache.put("s", "me", "tools/list", {}, result(scope="public"))
    cache.put("s", "me", "tools/list", {}, result(scope="private"))
    assert keeps(cache, "me") and not keeps(cache, "you"), "what was public has become private"
    cache.put("s", "me", "tools/list", {}, result(0))
    assert not keeps(cache, "me")


def test_cached_result_is_a_copy_for_each_caller() -> None:
    cache = ResponseCache(Clock())
    original = result(tools=[{"name": "t"}])
    cache.put("s", "me", "tools/list", {}, original)
    for spoiled in (original, cache.get("s", "me", "tools/list", {})):
        assert spoiled is not None and isinstance(spoiled["tools"], list)
        spoiled["tools"].clear()
    assert cache.get("s", "me", "tools/list", {}) == result(tools=[{"name": "t"}])


def test_cache_drops_the_oldest_results_at_the_maximum_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caching, "MAX_CACHED_RESULTS", 3)
    cache = ResponseCache(Clock())
    for cursor in "abca":  # the second "a" is younger than "b"
        cache.put("s", "me", "tools/list", {"cursor": cursor}, result())
    cache.put("s", "me", "tools/list", {"cursor": "d"}, result())
    assert [keeps(cache, params={"cursor": cursor}) for cursor in "abcd"] == [True, False, True, True]


def test_cache_drops_the_oldest_results_at_the_maximum_size(monkeypatch: pytest.MonkeyPatch) -> None:
    size = len(json.dumps({"cursor": "a"}) + json.dumps(result(more="x" * 1000)))
    monkeypatch.setattr(caching, "MAX_CACHED_BYTES", 2 * size)
    cache = ResponseCache(Clock())
    for cursor in "abc":
        cache.put("s", "me", "tools/list", {"cursor": cursor}, result(more="x" * 1000))
    assert [keeps(cache, params={"cursor": cursor}) for cursor in "abc"] == [False, True, True]
    cache.put("s", "me", "tools/list", {"cursor": "b"}, result(more="x" * 3000))
    assert not any(keeps(cache, params={"cursor": cursor}) for cursor in "abc"), (
        "one that is too large alone is not kept"
    )
    for cursor in "abc":
        cache.put("s", "me", "tools/list", {"cursor": cursor}, result())
    assert all(keeps(cache, params={"cursor": cursor}) for cursor in "abc"), "and what was dropped counts no longer"


STALE: dict[tuple[str, str | None], set[str]] = {
    ("notifications/tools/list_changed", None): {"tools/list"},
    ("notifications/prompts/list_changed", None): {"prompts/list"},
    ("notifications/resources/list_changed", None): {"resources/list", "resources/templates/list"},
    ("notifications/resources/updated", "test://a"): {"resources/read"},
    ("notifications/resources/updated", "test://b"): set(),
    ("notifications/resources/updated", None): set(),
    ("notifications/message", None): set(),
}


@pytest.mark.parametrize(("told", "stale"), STALE.items(), ids=map(str, STALE))
def test_notification_invalidates_the_cached_results_that_it_concerns(
    told: tuple[str, str | None], stale: set[str]
) -> None:
    cache = ResponseCache(Clock())
    for server, method in itertools.product(("s", "another"), SIX):
        cache.put(server, "me", method, SIX[method], result())
        cache.put(server, "me", method, {**SIX[method], "cursor": "2"}, result(scope="public"))
    cache.invalidate("s", *told)
    for method, params in SIX.items():
        assert keeps(cache, method=method, params=params) is (method not in stale)
        assert keeps(cache, method=method, params={**params, "cursor": "2"}) is (method not in stale)
        assert cache.get("another", "me", method, params) is not None


def test_resource_update_invalidates_resources_above_and_below_the_uri() -> None:
    uris: list[JSON] = ["file:///a/b", "file:///a/b/c", "file:///a", "file:///a/bb", "file:///x", None]
    cache = ResponseCache(Clock())
    for uri in uris:
        cache.put("s", "me", "resources/read", {"uri": uri}, result())
    cache.invalidate("s", "notifications/resources/updated", "file:///a/b")
    kept = [uri for uri in uris if keeps(cache, method="resources/read", params={"uri": uri})]
    assert kept == ["file:///a/bb", "file:///x", None]


@pytest.mark.attack("stale-spelling")
@pytest.mark.parametrize(
    "changed", ["file:///a/b", "FILE:/%61/b", "file://localhost/a/./b", "file:///a/b/%63", "file:/A/../a"]
)
def test_resource_update_invalidates_all_spellings_of_the_uri(changed: str) -> None:
    uris = ["file:///a/b", "file:///%61/b", "file:/a/x/../b", "File:///a/%62"]
    cache = ResponseCache(Clock())
    for uri in uris:
        cache.put("s", "me", "resources/read", {"uri": uri}, result())
    cache.put("s", "me", "resources/read", {"uri": "not a URI"}, result())
    cache.invalidate("s", "notifications/resources/updated", changed)
    assert not any(keeps(cache, method="resources/read", params={"uri": uri}) for uri in uris)
    assert keeps(cache, method="resources/read", params={"uri": "not a URI"})
    cache.invalidate("s", "notifications/resources/updated", "not a URI")
    assert not keeps(cache, method="resources/read", params={"uri": "not a URI"})


def test_result_of_a_request_before_an_invalidation_is_not_cached() -> None:
    cache = ResponseCache(Clock())
    asked = cache.invalidations
    cache.invalidate("s", "notifications/tools/list_changed")
    cache.put("s", "me", "tools/list", {}, result(), asked)
    assert not keeps(cache)
    cache.put("s", "me", "tools/list", {}, result(), cache.invalidations)
    assert keeps(cache)


def test_forget_removes_all_pages_of_a_list() -> None:
    cache = ResponseCache(Clock())
    cache.put("s", "me", "tools/list", {}, result())
    cache.put("s", "me", "tools/list", {"cursor": "2"}, result())
    cache.put("s", "me", "prompts/list", {}, result())
    assert cache.forget("s", "tools/list")
    assert not keeps(cache) and not keeps(cache, params={"cursor": "2"}) and keeps(cache, method="prompts/list")
    assert not cache.forget("s", "tools/list"), "which says whether there were any"


# ------------------------------------------------------------------------------------------------ the client


@contextlib.asynccontextmanager
async def modern(cache: ResponseCache | bool = True) -> AsyncIterator[tuple[Client, Wire]]:
    """Connect a client of 2026-07-28 to a bare server that has tools."""
    async with raw_server(lambda transport: Client(transport, revision=MODERN, cache=cache)) as (client, wire):
        await connect_modern(client, wire)
        yield client, wire


async def answer(wire: Wire, method: str, **members: JSON) -> Object:
    """Respond to a request, with these members in the result."""
    return await reply(wire, method, members)


async def listed(client: Client, wire: Wire | None = None, **members: JSON) -> list[str]:
    """Return the names of the tools: from the server if a wire is given, else from the cache."""
    listing = asyncio.create_task(client.list_tools())
    if wire is not None:
        await answer(wire, "tools/list", **members)
    async with asyncio.timeout(PATIENCE):
        return [tool.name for tool in await listing]


def tools(*names: str) -> list[JSON]:
    """Return tools as listed."""
    return [{"name": name, "inputSchema": {"type": "object"}} for name in names]


@pytest.mark.parametrize("cache", [True, False])
async def test_client_without_a_cache_requests_every_result(cache: bool) -> None:
    async with modern(cache=cache) as (client, wire):
        await listed(client, wire, tools=tools("a"), ttlMs=60_000, cacheScope="public")
        names = await listed(client, None if cache else wire, tools=tools("b"), ttlMs=60_000, cacheScope="public")
        assert names == (["a"] if cache else ["b"])


async def test_list_changed_notification_makes_the_client_list_again() -> None:
    async with modern() as (client, wire):
        await listed(client, wire, tools=tools("a"), ttlMs=60_000, cacheScope="public")
        await wire.send(notification("notifications/tools/list_changed"))
        assert await listed(client, wire, tools=tools("b"), ttlMs=60_000, cacheScope="public") == ["b"]


@pytest.mark.spec("2026-07-28/server/utilities/caching#interaction-with-pagination-1")
async def test_each_page_is_cached_for_its_own_ttl_and_requested_with_its_own_cursor() -> None:
    clock = Clock()
    async with modern(cache=ResponseCache(clock)) as (client, wire):
        listing = asyncio.create_task(client.list_tools())
        await answer(wire, "tools/list", tools=tools("a"), nextCursor="2", ttlMs=60_000, cacheScope="public")
        await answer(wire, "tools/list", tools=tools("b"), ttlMs=1000, cacheScope="public")
        await listing
        clock.now += 2.0
        listing = asyncio.create_task(client.list_tools())
        params = await answer(wire, "tools/list", tools=tools("c"), ttlMs=1000, cacheScope="public")
        assert params["cursor"] == "2"
        assert [tool.name for tool in await listing] == ["a", "c"]


async def test_clients_that_share_a_cache_share_what_is_public_and_nothing_else() -> None:
    server, reads = Server("s", cache_ttl=60.0), list[str]()

    def read(name: str) -> str:
        reads.append(name)
        return name

    server.resources.add("test://own", lambda: read("own"), cache_ttl=60.0)
    server.resources.add("test://shared", lambda: read("shared"), cache_ttl=60.0, cache_scope="public")
    cache = ResponseCache()
    async with server.serve_http() as url:
        for token in ("ada", "ada", "bob"):
            headers = {"Authorization": f"Bearer {token}"}
            async with Client(url, revision=MODERN, headers=headers, cache=cache) as client:
                for uri in ("test://own", "test://shared", "test://own"):
                    await client.read_resource(uri)
    assert reads == ["own", "shared", "own"]
