"""Custom methods: requests and notifications of an extension, in both directions, in every revision."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Annotated, Any, assert_type

import pytest

from mcp_ref import (
    CapabilityError,
    Client,
    Context,
    InvalidMessage,
    NotInRevision,
    RemoteError,
    Server,
)
from mcp_ref.jsonrpc.messages import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, Object
from tests.matrix import EVERY_REVISION, LATEST_OF_BOTH_ERAS, LEGACY_REVISIONS, STATELESS_KINDS
from tests.messages import result_of
from tests.raw_peers import connected_client, raw_client, raw_session, reply
from tests.settings import MODERN, PATIENCE

KINDS = pytest.mark.parametrize("kind", ["memory", "http"])

SEARCH = "com.example/search"
DECLARED: Object = {"extensions": {SEARCH: {}}}
MISSING_CAPABILITY = -32021


@dataclass
class Search:
    query: str
    limit: Annotated[int, {"minimum": 1}] = 10


@dataclass
class Found:
    titles: list[str]


@dataclass
class Confirmation:
    is_sure: bool


def make_server() -> Server:
    server = Server("library")

    @server.method(SEARCH)
    def search(params: Search) -> Found:
        return Found([f"{params.query} {number}" for number in range(params.limit)])

    @server.method("com.example/search/confirm")
    async def confirm(context: Context) -> Confirmation:
        answer = await context.request("com.example/confirm", {"text": "Sure?"}, returns=Confirmation)
        assert_type(answer, Confirmation)
        return answer

    @server.method("com.example/search/follow")
    async def follow(params: dict[str, int], context: Context) -> None:
        for number in range(params["count"]):
            await context.notify("com.example/search/found", Found([str(number)]))

    @server.method("com.example/search/broken")
    def broken(params: dict[str, object]) -> list[int]:
        return [1]

    return server


@contextlib.asynccontextmanager
async def connected(
    kind: str, revision: str, prepare: Callable[[Client], object] = lambda client: None, server: Server | None = None
) -> AsyncIterator[Client]:
    """Connect a client to a server, by default of `make_server`. Call `prepare` first."""
    server = server or make_server()
    async with server.serve_http() if kind == "http" else contextlib.nullcontext(server) as target:
        client = Client(target, revision=revision, extensions={SEARCH: {}})
        prepare(client)
        async with client:
            yield client


# ------------------------------------------------------------------------------------------------ both sides


@KINDS
@EVERY_REVISION
async def test_request_of_a_custom_method_has_typed_params_and_result(kind: str, revision: str) -> None:
    async with connected(kind, revision) as client:
        assert_type(await client.request(SEARCH, Search("boats", 2), Found), Found)
        assert await client.request(SEARCH, Search("boats", 2), Found) == Found(["boats 0", "boats 1"])
        assert await client.request(SEARCH, {"query": "cars", "limit": 1}, dict) == {"titles": ["cars 0"]}
        with pytest.raises(RemoteError, match="Invalid params: limit: expected at least 1, got 0") as refused:
            await client.request(SEARCH, Search("boats", 0), Found)
        assert refused.value.code == INVALID_PARAMS
        with pytest.raises(RemoteError) as failed:
            await client.request("com.example/search/broken", None, Found)
        assert failed.value.code == INTERNAL_ERROR
        with pytest.raises(RemoteError) as unknown:
            await client.request("com.example/search/unknown", None, Found)
        assert unknown.value.code == METHOD_NOT_FOUND
        wrong: Any = list[str] | None
        with pytest.raises(InvalidMessage, match=rf"the result of {SEARCH} is not of the type list\[str\] \| None: "):
            await client.request(SEARCH, Search("boats", 2), wrong)
        with pytest.raises(InvalidMessage, match=f"the result of {SEARCH} is not of the type Confirmation: missing"):
            await client.request(SEARCH, Search("boats"), Confirmation)


@KINDS
@EVERY_REVISION
async def test_notifications_of_a_custom_method_reach_the_client_in_order(kind: str, revision: str) -> None:
    found: list[Found] = []
    method = "com.example/search/found"
    async with connected(
        kind, revision, lambda client: client.method(method, notification=True)(found_by(found))
    ) as client:
        await client.request("com.example/search/follow", {"count": 3}, dict)
        await client.ping()
        assert found == [Found(["0"]), Found(["1"]), Found(["2"])]


def found_by(found: list[Found]) -> Callable[[Found], None]:
    def receive(params: Found) -> None:
        found.append(params)

    return receive


@KINDS
@EVERY_REVISION
async def test_context_request_of_a_custom_method_is_only_for_the_legacy_era(kind: str, revision: str) -> None:
    asked: list[dict[str, str]] = []

    async def confirm(params: dict[str, str]) -> Confirmation:
        asked.append(params)
        return Confirmation(True)

    async with connected(kind, revision, lambda client: client.method("com.example/confirm")(confirm)) as client:
        calling = client.request("com.example/search/confirm", None, Confirmation)
        if revision == MODERN:
            with pytest.raises(RemoteError):
                await calling
            assert asked == []
        else:
            assert await calling == Confirmation(True)
            assert asked == [{"text": "Sure?"}]


@KINDS
@EVERY_REVISION
async def test_client_notify_of_a_custom_method_is_only_for_the_legacy_era(
    kind: str, revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    server, seen = make_server(), asyncio.Queue[Search]()

    @server.method("com.example/seen", notification=True)
    def receive(params: Search) -> None:
        seen.put_nowait(params)

    async with connected(kind, revision, server=server) as client:
        with pytest.raises(ValueError, match="'tools/call' belongs to a specification"):
            await client.notify("tools/call")
        if revision == MODERN:
            with pytest.raises(NotInRevision, match=r"servers ignore custom notifications.*send a request"):
                await client.notify("com.example/seen", Search("a"))
            return
        await client.notify("com.example/seen", {"query": 5})  # refused: only the server's log says so
        await client.notify("com.example/seen", Search("a"))
        async with asyncio.timeout(PATIENCE):
            assert await seen.get() == Search("a")
        assert "ignored the notification com.example/seen: Invalid params: " in caplog.text


# ------------------------------------------------------------------------------------------------ the wire


@STATELESS_KINDS
@pytest.mark.spec("2026-07-28/basic/versioning#extension-negotiation-2")
async def test_stateless_request_of_a_custom_method_needs_the_extension(kind: str) -> None:
    async with connected_client(make_server(), kind, MODERN) as wire:
        discovered = result_of(await wire.ask("server/discover"))
        assert discovered["capabilities"]["extensions"] == {SEARCH: {}}
        error = (await wire.ask(SEARCH, {"query": "boats"}))["error"]
        assert error["code"] == MISSING_CAPABILITY
        assert error["data"] == {"requiredCapabilities": DECLARED}
    async with connected_client(make_server(), kind, MODERN, DECLARED) as wire:
        assert result_of(await wire.ask(SEARCH, {"query": "boats", "limit": 1})) == {"titles": ["boats 0"]}


@LEGACY_REVISIONS
async def test_legacy_request_of_a_custom_method_needs_no_capability(revision: str) -> None:
    async with connected_client(make_server(), "memory", revision) as wire:
        assert result_of(await wire.ask(SEARCH, {"query": "boats", "limit": 1})) == {"titles": ["boats 0"]}
        error = (await wire.ask("com.example/other", {}))["error"]
        assert error["code"] == METHOD_NOT_FOUND


async def test_server_ignores_a_custom_notification_before_the_handshake() -> None:
    server, seen = Server("s"), list[object]()
    server.method("com.example/seen", notification=True)(lambda params: seen.append(params))
    async with raw_client(server) as wire:
        await wire.send({"jsonrpc": "2.0", "method": "com.example/seen", "params": {}})
        await wire.ask("ping")
    assert seen == []


async def test_client_sends_no_request_of_an_extension_that_one_side_did_not_declare() -> None:
    async with raw_session(lambda t: Client(t, extensions={SEARCH: {}}), MODERN, {}) as (client, wire):
        with pytest.raises(CapabilityError, match=f"the server did not declare the extension {SEARCH}"):
            await client.request(SEARCH, Search("a"), Found)
        assert wire.frames.empty()
    async with raw_session(Client, MODERN, DECLARED) as (client, wire):
        with pytest.raises(CapabilityError, match=r"create the client with extensions=\{'com.example/search': \{\}\}"):
            await client.request(SEARCH, Search("a"), Found)
        assert wire.frames.empty()


async def test_client_request_names_another_extension_of_a_method() -> None:
    async with raw_session(lambda t: Client(t, extensions={SEARCH: {}}), MODERN, DECLARED) as (client, wire):
        calling = asyncio.create_task(client.request("com.example/books/list", {"page": 1}, Found, extension=SEARCH))
        params = await reply(wire, "com.example/books/list", {"titles": [], "_meta": {}})
        assert (params["page"], await calling) == (1, Found([]))


# ------------------------------------------------------------------------------------------------ registration


@pytest.mark.parametrize("register", [Server("s").method, Client(Server("s")).method], ids=["server", "client"])
def test_registration_refuses_a_method_that_is_not_a_text(register: Any) -> None:
    with pytest.raises(TypeError, match=r"the method must be a str, such as 'com\.example/search', not <built-in"):
        register(len)


@pytest.mark.parametrize("name", ["tools/call", "tasks/get", "initialize", "notifications/cancelled", "rpc.discover"])
async def test_registration_refuses_a_method_of_the_specification(name: str) -> None:
    server, client = Server("s"), Client(Server("s"))
    for register in (server.method, client.method):
        with pytest.raises(ValueError, match=f"'{name}' belongs to a specification; choose a name such as com.example"):
            register(name)


def takes_text(params: str) -> None: ...
def takes_context(params: Search, context: Context) -> None: ...
async def waits(params: Search) -> None: ...


@pytest.mark.parametrize(
    ("name", "options", "function", "words"),
    [
        ("search", {}, lambda: None, "'search' is not a valid extension name"),
        ("com.example/a", {"extension": "b"}, lambda: None, "'b' is not a valid extension name"),
        (SEARCH, {}, lambda: None, "the method 'com.example/search' is already registered"),
        ("com.example/a", {}, lambda a, b: None, "must have one parameter, the params"),
        ("com.example/a", {}, takes_text, r"takes_text\(\) must have one parameter, .* such as a dataclass"),
        (
            "com.example/a",
            {"notification": True},
            takes_context,
            r"takes_context\(\), a handler of a notification, must",
        ),
        ("com.example/a", {"notification": True}, waits, "must be a plain `def` without a context"),
    ],
)
def test_registration_refuses_a_wrong_name_or_function(
    name: str, options: Any, function: Callable[..., object], words: str
) -> None:
    with pytest.raises((ValueError, TypeError), match=words):
        make_server().method(name, **options)(function)


async def test_client_registers_methods_only_before_it_connects() -> None:
    async with Client(Server("s")) as client:
        with pytest.raises(RuntimeError, match="register methods before the client connects"):
            client.method(SEARCH)


# ------------------------------------------------------------------------------------------------ hostile and failing


@pytest.mark.parametrize("params", [{"query": 5}, {}, {"query": "a", "limit": -1}, {"query": "a", "_meta": 5}], ids=str)
@LATEST_OF_BOTH_ERAS
async def test_custom_method_refuses_wrong_params_and_serves_the_next_request(revision: str, params: Object) -> None:
    async with connected_client(make_server(), "memory", revision, DECLARED) as wire:
        if "_meta" in params and revision == MODERN:
            return  # the test's wire writes `_meta` itself
        error = (await wire.ask(SEARCH, params))["error"]
        assert error["code"] == INVALID_PARAMS
        assert result_of(await wire.ask(SEARCH, {"query": "boats", "limit": 1})) == {"titles": ["boats 0"]}


async def test_handler_of_a_notification_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    client = Client(make_server(), extensions={SEARCH: {}})

    @client.method("com.example/search/found", notification=True)
    def receive(params: Found) -> None:
        raise RuntimeError("full")

    async with client:
        await client.request("com.example/search/follow", {"count": 1}, dict)
        await client.ping()
    assert "the handler of the notification com.example/search/found failed" in caplog.text
