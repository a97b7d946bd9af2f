"""The client of protected servers, on the wire: tokens on every request, sign-ins, refreshes, more scopes, bounds."""

from __future__ import annotations

import asyncio
import contextlib
import io
import socket
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from mcp_ref import (
    AuthorizationCode,
    AuthorizationError,
    Bearer,
    Client,
    ClientLimits,
    DiscoveryFailed,
    FileStore,
    HttpClient,
    InsufficientScope,
    MemoryStore,
    RegistrationFailed,
    RequestTimeout,
    SignInRefused,
    SyncClient,
    TokenRefused,
)
from mcp_ref.basic.authorization.client import MAX_STEP_UPS, MAX_STEP_UPS_IN_A_ROW, MAX_UNACCEPTED, Authorizer
from mcp_ref.client import negotiation
from mcp_ref.features.caching import ResponseCache
from mcp_ref.jsonrpc.messages import JSON, Object
from mcp_ref.lib.http.message import Exchange
from mcp_ref.transports.trace import tracer
from tests.protected_servers import (
    AS_PATH,
    PRM_PATH,
    Step,
    World,
    authorization_server,
    basic_credentials,
    protected,
    silence,
    status,
)
from tests.settings import MODERN, PATIENCE, eventually, pass_time

LEGACY = "2025-11-25"


@contextlib.asynccontextmanager
async def signed_in(revision: str = MODERN) -> AsyncIterator[tuple[Client, World, AuthorizationCode]]:
    """Connect a client to a protected server, and return its authorizer too."""
    async with protected() as world:
        login = world.login()
        async with Client(world.url, revision=revision, authorization=login, timeout=20) as client:
            yield client, world, login


@contextlib.asynccontextmanager
async def connected(revision: str = MODERN) -> AsyncIterator[tuple[Client, World]]:
    async with signed_in(revision) as (client, world, _):
        yield client, world


def insufficient_scope(scope: str) -> Step:
    """Return a response that demands a scope."""
    challenge = f'Bearer error="insufficient_scope", scope="{scope}"'
    return status(403, b"", ("WWW-Authenticate", challenge))


async def call(world: World, authorizer: Authorizer, tool: str = "read", revision: str | None = MODERN) -> str:
    """Call a tool with a new client."""
    async with Client(world.url, revision=revision, authorization=authorizer, timeout=20) as client:
        return (await client.call_tool(tool)).text


@pytest.mark.spec(
    "2026-07-28/basic/authorization/index#resource-parameter-implementation-1,2",
    "2026-07-28/basic/authorization/index#canonical-server-uri-4",
    "2026-07-28/basic/authorization/security-considerations#token-audience-binding-and-validation-1",
    "2026-07-28/basic/authorization/index#authorization-server-discovery-1",
    "2026-07-28/basic/authorization/index#client-registration-1",
    "2026-07-28/basic/authorization/index#overview-4",
    "2026-07-28/basic/authorization/security-considerations#access-token-privilege-restriction-6",
    "2026-07-28/basic/authorization/security-considerations#open-redirection-1",
    "2025-06-18..2025-11-25/basic/authorization#resource-parameter-implementation-1,2",
    "2025-06-18..2025-11-25/basic/authorization#canonical-server-uri-4",
    "2025-06-18..2025-11-25/basic/authorization#token-audience-binding-and-validation-1",
    "2025-06-18..2025-11-25/basic/authorization#overview-4",
    "2025-06-18..2025-11-25/basic/authorization#access-token-privilege-restriction-6",
    "2025-06-18..2025-11-25/basic/authorization#open-redirection-1",
    "2025-06-18/basic/authorization#overview-6",
    "2025-03-26..2025-06-18/basic/authorization#overview-2",
    "2025-03-26..2025-06-18/basic/authorization#dynamic-client-registration-1",
)
async def test_sign_in_takes_all_steps_in_order() -> None:
    async with connected() as (client, world):
        assert (await client.call_tool("read")).text == "read"
        assert world.mcp.paths[:3] == ["/mcp", f"{PRM_PATH}/mcp", "/mcp"]
        assert world.auth.paths == [AS_PATH, "/register", "/authorize", "/token"]
        _, registration, authorization, token = world.auth.seen
        assert registration.values["redirect_uris"] == f'["{authorization.values["redirect_uri"]}"]'
        assert authorization.values["scope"] == "read"
        assert authorization.values["resource"] == token.values["resource"] == world.url
        assert authorization.values["client_id"] == token.values["client_id"] == "client-1"
        assert "authorization" not in token.headers


@pytest.mark.spec(
    "2026-07-28/basic/authorization/index#token-requirements-1,2,3,4",
    "2025-03-26..2025-11-25/basic/authorization#token-requirements-1,2,3,4",
)
@pytest.mark.parametrize("revision", [MODERN, LEGACY, "2025-06-18", "2025-03-26"])
async def test_token_is_in_the_header_of_every_request_of_both_eras(revision: str) -> None:
    async with connected(revision=revision) as (client, world):
        await client.list_tools()
        await client.call_tool("read")
        if revision != MODERN:
            await eventually(lambda: any(seen.method == "GET" for seen in world.mcp.requests("/mcp")))
    refused, *served = world.mcp.requests("/mcp")
    assert not refused.token and {seen.token for seen in served} == {"access-3"}
    assert all("access" not in str(seen.values) for seen in served)
    assert {seen.method for seen in served} == ({"POST"} if revision == MODERN else {"POST", "GET", "DELETE"})


async def test_token_is_in_every_request_over_http_sse() -> None:
    async with protected() as world:
        world.mcp.always("/mcp", status(404))
        url, login = f"{world.mcp.base}/sse", world.login()
        metadata = {**(world.mcp.metadata or {}), "resource": url}
        world.mcp.always(f"{PRM_PATH}/mcp", status(404))
        world.mcp.always(f"{PRM_PATH}/sse", status(200, metadata))
        async with Client(url, revision="2024-11-05", authorization=login, timeout=20) as client:
            assert (await client.call_tool("read")).text == "read"
    assert {seen.token for seen in world.mcp.requests("/messages")} == {"access-3"}


@pytest.mark.spec(
    "2026-07-28/basic/authorization/index#scope-selection-strategy-6,7",
    "2025-11-25/basic/authorization#scope-selection-strategy-1,2",
    "2025-11-25/basic/authorization#protected-resource-metadata-discovery-requirements-9",
)
@pytest.mark.parametrize(
    ("challenged", "published", "extra", "asked"),
    [
        ("read", ["a", "b"], (), "read"),
        ("", ["a", "b"], (), "a b"),
        ("", None, (), ""),
        ("", None, ("x",), "x"),
        ("read", ["a"], ("x",), "read x"),
    ],
)
async def test_first_scopes_are_the_challenge_else_the_metadata_else_none(
    challenged: str, published: list[str] | None, extra: tuple[str, ...], asked: str
) -> None:
    async with protected() as world:
        world.mcp.scope = challenged
        world.mcp.metadata = {**(world.mcp.metadata or {}), "scopes_supported": [*published] if published else None}
        await call(world, world.login(scopes=extra))
        assert world.asked_scopes() == [asked]


async def test_resource_parameter_false_leaves_resource_out_of_all_requests() -> None:
    async with protected() as world:
        login = world.login(resource_parameter=False)
        await call(world, login)
        world.auth.tokens.clear()
        await call(world, login)
        assert len(world.auth.requests("/token")) == 2
        assert not any("resource" in seen.values for seen in world.auth.seen)


async def test_offline_access_is_asked_with_consent_if_the_authorization_server_lists_it() -> None:
    async with protected() as world:
        world.auth.metadata["scopes_supported"] = ["offline_access"]
        await call(world, world.login())
        [seen] = world.auth.requests("/authorize")
        assert (seen.values["scope"], seen.values["prompt"]) == ("read offline_access", "consent")


@pytest.mark.spec(
    "2026-07-28/basic/authorization/index#step-up-authorization-flow-1,2",
    "2026-07-28/basic/authorization/index#scope-selection-strategy-2,4",
    "2025-11-25/basic/authorization#step-up-authorization-flow-1,2",
    "2025-11-25/basic/authorization#protected-resource-metadata-discovery-requirements-5",
)
@pytest.mark.parametrize("revision", [MODERN, LEGACY])
async def test_insufficient_scope_asks_for_the_old_and_the_new_scopes(revision: str) -> None:
    async with connected(revision=revision) as (client, world):
        world.mcp.needs["write"] = "write"
        assert (await client.call_tool("write")).text == "written"
        assert (await client.call_tool("write")).text == "written"
        assert world.asked_scopes() == ["read", "read write"]


@pytest.mark.parametrize(
    ("registration", "expected"),
    [({}, ["read", "read write"]), ({"scope": None}, ["read"])],  # a response names the registered scopes, or does not
)
async def test_registration_for_some_scopes_is_renewed_for_others(registration: Object, expected: list[str]) -> None:
    async with protected() as world:
        world.auth.registration = registration
        authorization = world.login()
        async with Client(world.url, authorization=authorization) as client:
            world.mcp.needs["write"] = "write"
            assert (await client.call_tool("write")).text == "written"
            assert (await client.call_tool("read")).text == "read"
        assert [seen.values["scope"] for seen in world.auth.requests("/register")] == expected
        assert world.asked_scopes() == ["read", "read write"]


@pytest.mark.spec(
    "2026-07-28/basic/authorization/index#step-up-authorization-flow-3,4",
    "2025-11-25/basic/authorization#step-up-authorization-flow-3,4",
)
@pytest.mark.attack("A10")
async def test_insufficient_scope_without_a_new_scope_is_an_error_without_a_sign_in() -> None:
    async with connected() as (client, world):
        world.mcp.always("/mcp", insufficient_scope("write"))
        with pytest.raises(InsufficientScope) as caught:
            await client.call_tool("write")
        assert caught.value.scopes == ("write",) and world.asked_scopes() == ["read", "read write"]
        world.mcp.always("/mcp", insufficient_scope("read write"))
        with pytest.raises(InsufficientScope):
            await client.call_tool("write")
        assert len(world.opened) == 2


@pytest.mark.attack("A10")
async def test_step_ups_with_ever_new_scopes_are_bounded() -> None:
    async with connected() as (client, world):
        numbers = iter(range(100))

        async def refuse(exchange: Exchange) -> None:
            await insufficient_scope(f"s{next(numbers)}")(exchange)

        world.mcp.always("/mcp", refuse)
        for _ in range(3):
            with pytest.raises(InsufficientScope):
                await client.call_tool("write")
        assert len(world.opened) == 1 + MAX_STEP_UPS
        for name in ("a", "b", "c", "d"):
            with pytest.raises(InsufficientScope):
                await client.call_tool(name)
        assert len(world.opened) == 1 + MAX_STEP_UPS_IN_A_ROW


async def test_step_ups_that_succeed_are_not_counted() -> None:
    async with connected() as (client, world):
        for number in range(MAX_STEP_UPS_IN_A_ROW + 1):
            world.mcp.instead("/mcp", insufficient_scope(f"s{number}"))
            await client.call_tool("read")
        assert len(world.opened) == 1 + MAX_STEP_UPS_IN_A_ROW + 1


async def test_refresh_whose_call_is_cancelled_goes_on_because_a_refresh_token_is_good_for_one_use() -> None:
    async with connected() as (client, world):
        begun, go = asyncio.Event(), asyncio.Event()

        async def refresh_late(exchange: Exchange) -> None:
            world.auth.refresh_tokens.clear()
            tokens = world.auth.issue({"read"})
            begun.set()
            await go.wait()
            await status(200, tokens)(exchange)

        world.auth.instead("/token", refresh_late)
        world.auth.tokens.clear()
        calling = asyncio.create_task(client.call_tool("read"))
        await asyncio.wait_for(begun.wait(), PATIENCE)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        go.set()
        assert (await client.call_tool("read")).text == "read"
        assert len(world.opened) == 1  # no second sign-in


async def test_step_up_of_one_call_serves_all_calls_that_wait_for_the_same_scope() -> None:
    async with connected() as (client, world):
        world.mcp.needs["write"] = "write"
        results = await asyncio.gather(*(client.call_tool("write") for _ in range(MAX_STEP_UPS + 2)))
        assert {result.text for result in results} == {"written"}
        assert world.asked_scopes() == ["read", "read write"]


async def test_forbidden_for_another_reason_is_not_repeated() -> None:
    async with connected() as (client, world):
        world.mcp.always("/mcp", status(403, b"", ("WWW-Authenticate", "Bearer")))
        before = len(world.mcp.seen)
        with pytest.raises(ConnectionError, match="403"):
            await client.call_tool("read")
        assert len(world.mcp.seen) == before + 1 and len(world.opened) == 1


@pytest.mark.attack("A10")
async def test_request_that_always_gets_401_fails_after_one_repetition() -> None:
    async with connected() as (client, world):
        world.mcp.always("/mcp", status(401))
        before = len(world.mcp.requests("/mcp"))
        with pytest.raises(AuthorizationError, match="refuses a token that was issued for it just now"):
            await client.call_tool("read")
        assert len(world.mcp.requests("/mcp")) == before + 2
        assert [seen.values["grant_type"] for seen in world.auth.requests("/token")[1:]] == ["refresh_token"]
        del world.mcp._always["/mcp"]
        world.auth.tokens.clear()
        await client.call_tool("read")  # the refresh did not help, so the user signs in
        assert len(world.opened) == 2


@pytest.mark.parametrize("at_once", [1, 5])
@pytest.mark.attack("A10")
async def test_calls_with_401_without_end_cause_two_sign_ins_and_no_more_for_some_time(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with protected() as world:
        issuers, world.mcp.issuers = world.mcp.issuers, []  # no token is good
        world.mcp.is_open = lambda method: method != "tools/call"
        login = world.login()
        async with Client(world.url, revision=MODERN, authorization=login, timeout=20) as client:
            for _ in range(4):
                calls = [client.call_tool("read") for _ in range(at_once)]
                errors = await asyncio.gather(*calls, return_exceptions=True)
                assert all(type(error) is AuthorizationError for error in errors), errors
                await client.list_tools()  # the server accepts every token here, which says nothing about the calls
            assert len(world.opened) == MAX_UNACCEPTED
            with pytest.raises(AuthorizationError, match="refused 2 new tokens in a row; ask its operator, and try"):
                await client.call_tool("read")
            world.mcp.issuers = issuers
            world.auth.tokens.clear()
            monkeypatch.setattr("mcp_ref.basic.authorization.client.UNACCEPTED_SECONDS", 0)
            for opened in (3, 4, 5):  # accepted tokens end the count
                assert (await client.call_tool("read")).text == "read" and len(world.opened) == opened
                assert login.server(world.url).unaccepted == 0
                world.auth.tokens.clear()
                world.auth.refresh_tokens.clear()


@pytest.mark.parametrize("code", [401, 403])
async def test_refusal_never_decides_the_era(code: int) -> None:
    async with protected() as world:
        world.mcp.always("/mcp", status(code))
        with pytest.raises((AuthorizationError, ConnectionError)):
            await call(world, Bearer("good"), revision=None)
        assert {seen.values["method"] for seen in world.mcp.requests("/mcp")} == {"server/discover"}


async def test_ended_token_is_refreshed_before_the_request() -> None:
    async with protected() as world:
        login = world.login()
        world.auth.token_response["expires_in"] = 0
        async with Client(world.url, revision=MODERN, authorization=login) as client:
            world.auth.token_response["expires_in"] = "3600"
            await client.call_tool("read")
            await client.call_tool("read")
        grants = [seen.values["grant_type"] for seen in world.auth.requests("/token")]
        assert grants == ["authorization_code", "refresh_token"]
        assert world.auth.requests("/token")[1].values["resource"] == world.url
        assert [bool(seen.token) for seen in world.mcp.requests("/mcp")].count(False) == 1


async def test_refresh_without_a_new_refresh_token_keeps_the_old_one() -> None:
    async with connected() as (client, world):
        for number in (1, 2):
            world.auth.instead("/token", status(200, {"access_token": f"t{number}", "token_type": "bearer"}))
            world.auth.tokens = {f"t{number}": set()}
            await client.call_tool("read")
        refreshes = world.auth.requests("/token")[1:]
        assert [seen.values["refresh_token"] for seen in refreshes] == ["refresh-3", "refresh-3"]


@pytest.mark.spec("2026-07-28/basic/authorization/index#refresh-tokens-3")
async def test_token_without_refresh_token_ends_with_a_new_sign_in() -> None:
    async with connected() as (client, world):
        world.auth.token_response["refresh_token"] = None
        world.auth.refresh_tokens.clear()
        world.auth.tokens.clear()
        await client.call_tool("read")
        world.auth.tokens.clear()
        await client.call_tool("read")
        assert len(world.opened) == 3


async def test_ended_token_without_refresh_token_is_used_until_the_server_refuses_it() -> None:
    async with protected() as world:
        world.auth.token_response.update(expires_in=0, refresh_token=None)
        async with Client(world.url, revision=MODERN, authorization=world.login()) as client:
            for _ in range(3):
                await client.call_tool("read")
            assert len(world.opened) == 1
            world.auth.tokens.clear()
            await client.call_tool("read")
            assert len(world.opened) == 2


@pytest.mark.attack("A9")
async def test_many_requests_with_an_ended_token_cause_one_refresh() -> None:
    async with connected() as (client, world):
        world.auth.tokens.clear()
        results = await asyncio.gather(*(client.call_tool("read") for _ in range(20)))
        assert {result.text for result in results} == {"read"}
        assert len(world.auth.requests("/token")) == 2


@pytest.mark.parametrize("failure", [status(500), status(429), status(400, {"error": "temporarily_unavailable"})])
@pytest.mark.attack("A9")
async def test_failed_refresh_forgets_nothing(failure: object) -> None:
    async with connected() as (client, world):
        world.auth.tokens.clear()
        world.auth.instead("/token", failure)  # type: ignore[arg-type]
        with pytest.raises(TokenRefused):
            await client.call_tool("read")
        await client.call_tool("read")
        assert len(world.opened) == 1


@pytest.mark.parametrize(("left", "is_served"), [(20.0, True), (-1.0, False)])
async def test_token_is_used_to_its_end_if_the_refresh_before_it_fails(left: float, is_served: bool) -> None:
    async with signed_in() as (client, world, login):
        grant = login.server(world.url).grant
        assert grant is not None
        login.server(world.url).grant = replace(grant, expires_at=time.monotonic() + left, lifetime=3600)
        world.auth.instead("/token", status(500))
        with contextlib.nullcontext() if is_served else pytest.raises(TokenRefused):
            await client.call_tool("read")
        assert len(world.auth.requests("/token")) == 2


@pytest.mark.attack("A9")
@pytest.mark.parametrize(("error", "registrations"), [("invalid_grant", 1), ("invalid_client", 2)])
async def test_refused_refresh_token_leads_to_a_sign_in_of_a_known_client(error: str, registrations: int) -> None:
    async with connected() as (client, world):
        world.auth.tokens.clear()
        world.auth.instead("/token", status(400 if error == "invalid_grant" else 401, {"error": error}))
        [redirect_uri] = parse_qs(urlsplit(world.opened[0]).query)["redirect_uri"]
        with socket.socket() as held:  # or another program could get the registered port between the two sign-ins
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            held.bind(("127.0.0.1", urlsplit(redirect_uri).port))
            await client.call_tool("read")
        assert len(world.opened) == 2 and len(world.auth.requests("/register")) == registrations


async def test_store_saves_the_sign_in_of_the_next_program() -> None:
    async with protected() as world:
        store = MemoryStore()
        await call(world, world.login(store=store))
        before = len(world.auth.seen)
        await call(world, world.login(store=store))
        assert len(world.auth.seen) == before
        world.auth.tokens.clear()
        await call(world, world.login(store=store))
        assert len(world.opened) == 1


@pytest.mark.attack("A9")
async def test_programs_with_one_store_refresh_once(tmp_path: Path) -> None:
    async with protected() as world:
        path = tmp_path / "credentials.json"
        logins = [world.login(store=FileStore(path)) for _ in range(4)]
        world.auth.token_response["expires_in"] = 0
        async with Client(world.url, revision=MODERN, authorization=logins[0]):
            world.auth.token_response["expires_in"] = 3600
        texts = await asyncio.gather(*(call(world, login) for login in logins))
        assert texts == ["read"] * 4
        assert len(world.auth.requests("/token")) == 2 and len(world.opened) == 1


async def test_expired_stored_token_is_refreshed_without_discovery() -> None:
    async with protected() as world:
        store = MemoryStore()
        world.auth.token_response["expires_in"] = 0
        async with Client(world.url, revision=MODERN, authorization=world.login(store=store)):
            world.auth.token_response["expires_in"] = 3600
        seen = len(world.mcp.requests(f"{PRM_PATH}/mcp"))
        await call(world, world.login(store=store))
        assert len(world.opened) == 1 and len(world.mcp.requests(f"{PRM_PATH}/mcp")) == seen


@pytest.mark.spec(
    "2026-07-28/basic/authorization/authorization-server-discovery#authorization-server-location-3,4",
    "2026-07-28/basic/authorization/client-registration#authorization-server-binding-1,2,3",
    "2026-07-28/basic/authorization/index#token-handling-5",
    "2026-07-28/changelog#minor-changes-4,5,6",
    "2025-06-18..2025-11-25/basic/authorization#token-handling-5",
)
@pytest.mark.attack("A8")
async def test_new_authorization_server_gets_no_credentials_of_the_old_one() -> None:
    async with connected() as (client, world), authorization_server() as other:
        old = {"client-1", *world.auth.tokens, *world.auth.refresh_tokens}
        world.auth.tokens.clear()
        world.mcp.issuers = [other]
        world.mcp.metadata = {**(world.mcp.metadata or {}), "authorization_servers": [other.base]}
        other._number = iter(range(500, 600))  # type: ignore[assignment]
        await client.call_tool("read")
        assert other.paths == [AS_PATH, "/register", "/authorize", "/token"]
        assert not any(secret in str(seen) for seen in other.seen for secret in old)
        assert world.mcp.requests("/mcp")[-1].token in other.tokens


@pytest.mark.attack("A8")
async def test_stored_tokens_of_another_issuer_are_not_used() -> None:
    async with protected() as world:
        store = MemoryStore()
        await call(world, world.login(store=store))
        before = len(world.mcp.requests_with_tokens)
        with pytest.raises(DiscoveryFailed, match="is configured for"):
            await call(world, world.login(store=store, issuer="https://auth.example"))
        assert len(world.mcp.requests_with_tokens) == before


@pytest.mark.attack("A8")
async def test_stored_tokens_of_another_client_id_are_not_used() -> None:
    async with protected() as world:
        store = MemoryStore()
        await call(world, world.login(store=store))
        await call(world, world.login(store=store, client_id="own", issuer=world.auth.base))
        assert [seen.values["client_id"] for seen in world.auth.requests("/token")] == ["client-1", "own"]


@pytest.mark.attack("A8")
async def test_refresh_token_that_another_process_got_elsewhere_is_not_sent_to_the_old_issuer() -> None:
    elsewhere = "https://auth.example"
    async with signed_in() as (client, world, login):
        await client.call_tool("read")
        grant = await login.stored(world.url)
        assert grant is not None
        await login.store.put(f"client|{elsewhere}", await login.store.get(f"client|{grant.issuer}") or {})
        await login._keep(world.url, replace(grant, issuer=elsewhere, refresh_token="marker"))
        world.auth.tokens.clear()
        await client.call_tool("read")
        assert not any("marker" in str(seen) for seen in world.auth.seen)
        assert world.auth.paths.count("/authorize") == 2


async def change_registration(login: AuthorizationCode, world: World, **members: JSON) -> None:
    """Change members of the stored registration at the authorization server of `world`."""
    key = f"client|{world.auth.base}"
    await login.store.put(key, {**(await login.store.get(key) or {}), **members})


@pytest.mark.attack("A8")
async def test_refresh_token_is_used_by_the_client_id_that_got_it_only() -> None:
    async with signed_in() as (client, world, login):
        await client.call_tool("read")
        await change_registration(login, world, client_id="another")
        world.auth.tokens.clear()
        await client.call_tool("read")
        assert [seen.values["grant_type"] for seen in world.auth.requests("/token")] == ["authorization_code"] * 2


async def test_client_with_an_ended_secret_registers_again() -> None:
    async with signed_in() as (client, world, login):
        await client.call_tool("read")
        await change_registration(login, world, client_secret_expires_at=1)
        world.auth.tokens.clear()
        world.auth.refresh_tokens.clear()
        await client.call_tool("read")
        assert world.auth.paths.count("/register") == 2


@pytest.mark.attack("A6")
async def test_token_does_not_go_to_another_origin() -> None:
    async with protected() as world, authorization_server() as other, HttpClient() as http:
        requests = Bearer("marker").wrap(http, world.url, [])
        with pytest.raises(AuthorizationError, match="gets no token"):
            async with requests.request("GET", other.base):
                pass
        assert other.seen == []


@pytest.mark.attack("A10")
async def test_client_does_not_sign_in_to_end_a_session() -> None:
    async with protected() as world, HttpClient() as http:
        requests = world.login().wrap(http, world.url, [])
        async with requests.request("DELETE", world.url) as response:
            assert response.status == 401
        assert world.auth.seen == []


@pytest.mark.attack("A8")
async def test_known_authorization_server_is_preferred_among_several() -> None:
    async with connected() as (client, world), authorization_server() as other:
        world.mcp.metadata = {**(world.mcp.metadata or {}), "authorization_servers": [other.base, world.auth.base]}
        world.auth.tokens.clear()
        await client.call_tool("read")
        assert other.seen == []


@pytest.mark.spec("2026-07-28/basic/authorization/client-registration#authorization-server-binding-4")
@pytest.mark.attack("A8")
async def test_configured_client_is_not_used_at_another_authorization_server() -> None:
    async with protected() as world, authorization_server() as other:
        world.mcp.metadata = {**(world.mcp.metadata or {}), "authorization_servers": [other.base]}
        with pytest.raises(DiscoveryFailed, match="is configured for"):
            await call(world, world.login(client_id="id", client_secret="marker", issuer=world.auth.base))
        assert other.seen == [] and world.auth.seen == []


@pytest.mark.spec(
    "2026-07-28/basic/authorization/client-registration#pre-registration-1",
    "2026-07-28/basic/authorization/client-registration#intro-1",
    "2025-11-25/basic/authorization#client-registration-approaches-1",
    "2025-11-25/basic/authorization#preregistration-1",
)
async def test_configured_client_is_used_before_every_registration() -> None:
    async with protected() as world:
        world.auth.metadata["client_id_metadata_document_supported"] = True
        registered = {"client_id": "an:id", "client_secret": "a secret", "issuer": world.auth.base}
        await call(world, world.login(**registered, client_metadata_url="https://client.example/metadata.json"))
        assert world.auth.paths == [AS_PATH, "/authorize", "/token"]
        assert basic_credentials(world.auth.seen[-1]) == ("an:id", "a secret")


@pytest.mark.spec(
    "2026-07-28/basic/authorization/client-registration#client-id-metadata-documents-1",
    "2026-07-28/basic/authorization/client-registration#advertising-cimd-support-1",
    "2026-07-28/basic/authorization/index#overview-2",
    "2025-11-25/basic/authorization#discovery-1",
    "2025-11-25/basic/authorization#overview-2",
    "2025-11-25/basic/authorization#client-id-metadata-documents-1",
)
@pytest.mark.parametrize("supported", [True, False])
async def test_client_metadata_url_is_the_client_id_where_it_is_supported(supported: bool) -> None:
    async with protected() as world:
        world.auth.metadata["client_id_metadata_document_supported"] = supported
        url = "https://client.example/metadata.json"
        await call(world, world.login(client_metadata_url=url))
        assert ("/register" in world.auth.paths) is not supported
        assert world.auth.requests("/authorize")[0].values["client_id"] == (url if supported else "client-1")


@pytest.mark.spec("2026-07-28/basic/authorization/client-registration#application-type-and-redirect-uri-constraints-4")
@pytest.mark.spec("2026-07-28/basic/authorization/client-registration#application-type-and-redirect-uri-constraints-5")
async def test_refused_registration_tells_the_reason_and_the_way_out() -> None:
    async with protected() as world:
        refusal: Object = {"error": "invalid_redirect_uri", "error_description": "no\x1b[31m loopback"}
        world.auth.always("/register", status(400, refusal))
        with pytest.raises(RegistrationFailed, match="by hand") as caught:
            await call(world, world.login())
        assert caught.value.error == "invalid_redirect_uri" and "\x1b" not in str(caught.value)


async def test_registered_port_is_used_again() -> None:
    async with connected() as (client, world):
        world.auth.tokens.clear()
        world.auth.refresh_tokens.clear()
        await client.call_tool("read")
        first, second = world.auth.requests("/authorize")
        assert first.values["redirect_uri"] == second.values["redirect_uri"]
        assert first.values["state"] != second.values["state"]
        assert first.values["code_challenge"] != second.values["code_challenge"]


@pytest.mark.parametrize(
    "callback", [{"iss": "https://other.example"}, {"iss": ""}, {"error": "access_denied", "code": ""}, {"code": ""}]
)
@pytest.mark.attack("A4")
async def test_untrusted_response_never_reaches_the_token_endpoint(callback: dict[str, str]) -> None:
    async with protected() as world:
        world.auth.callback = callback
        with pytest.raises(SignInRefused):
            await call(world, world.login())
        assert world.auth.requests("/token") == []


@pytest.mark.spec(
    "2026-07-28/basic/authorization/security-considerations#communication-security-1",
    "2025-06-18..2025-11-25/basic/authorization#communication-security-1",
)
@pytest.mark.parametrize(
    "endpoint",
    ["javascript:alert(1)", "http://auth.example/authorize", f"https://auth.example/{'x' * 1_000_000}", "", 5],
    ids=lambda endpoint: str(endpoint)[:30],
)
@pytest.mark.attack("A5")
async def test_hostile_authorization_endpoint_is_never_opened(endpoint: JSON) -> None:
    async with protected() as world:
        world.auth.metadata["authorization_endpoint"] = endpoint
        with pytest.raises(AuthorizationError):
            await call(world, world.login())
        assert world.opened == []


@pytest.mark.attack("A5")
async def test_opened_url_has_no_character_that_a_shell_knows() -> None:
    async with protected() as world:
        world.auth.metadata["authorization_endpoint"] = f"{world.auth.base}/a\"`$(x)|&;'?own=$(y)"
        with pytest.raises(AuthorizationError):
            await call(world, world.login(timeout=0.2))
        [url] = world.opened
        assert not set(url) & set("\"`$()|;' <>\\") and "own=" in url


@pytest.mark.attack("A4")
async def test_wrong_state_does_not_end_the_sign_in() -> None:
    async with protected() as world:

        async def attacked(url: str) -> None:
            world.auth.callback = {"state": "wrong", "code": "attackers"}
            await world.browse(url)
            world.auth.callback = {}
            await world.browse(url)

        await call(world, AuthorizationCode(open_browser=attacked))
        assert [seen.values["code"] for seen in world.auth.requests("/token")] == ["code-3"]


@pytest.mark.parametrize("code", [302, 307])
@pytest.mark.parametrize("path", [f"{PRM_PATH}/mcp", AS_PATH, "/register", "/token"])
@pytest.mark.attack("A6")
async def test_redirect_of_an_authorization_request_is_never_followed(code: int, path: str) -> None:
    async with protected() as world, authorization_server() as target:
        server = world.mcp if path.startswith(PRM_PATH) else world.auth
        server.always(path, status(code, b"", ("Location", f"{target.base}{path}")))
        with pytest.raises(AuthorizationError):
            await call(world, world.login())
        assert target.seen == []


@pytest.mark.attack("A18")
async def test_headers_of_the_caller_go_to_the_mcp_url_only() -> None:
    async with protected() as world:
        login = world.login()
        async with Client(world.url, authorization=login, headers={"X-Key": "marker", "Cookie": "marker"}) as client:
            await client.call_tool("read")
        assert all("marker" in str(seen) for seen in world.mcp.requests("/mcp"))
        others = [*world.auth.seen, *world.mcp.requests(f"{PRM_PATH}/mcp")]
        assert others and not any("marker" in str(seen) for seen in others)


async def test_time_limits_stand_still_while_a_user_signs_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(negotiation, "PROBE_SECONDS", 3.0)
    async with protected() as world:

        async def slow(url: str) -> None:
            pass_time(monkeypatch, 6.0)
            await world.browse(url)

        login = AuthorizationCode(open_browser=slow)
        async with Client(world.url, authorization=login, timeout=5.0) as client:
            assert client.revision.name == MODERN
            world.auth.tokens.clear()
            world.auth.refresh_tokens.clear()
            assert (await client.call_tool("read")).text == "read"
            world.mcp.always("/mcp", silence)
            before = len(world.mcp.requests("/mcp"))
            calling = asyncio.create_task(client.call_tool("read"))
            await eventually(lambda: len(world.mcp.requests("/mcp")) > before)
            pass_time(monkeypatch, 5.0)
            with pytest.raises(RequestTimeout):
                await calling


async def ignore(url: str) -> None:
    """Leave the browser, as a user who does not sign in."""


async def hang(url: str) -> None:
    await asyncio.Event().wait()


async def fail(url: str) -> None:
    raise RuntimeError("no browser")


@pytest.mark.attack("A17")
@pytest.mark.parametrize(
    ("open_browser", "error", "message"),
    [
        (ignore, SignInRefused, r"within 0\.1 s"),
        (hang, SignInRefused, r"within 0\.1 s"),
        (fail, AuthorizationError, "no browser"),
    ],
)
async def test_browser_that_brings_no_sign_in_ends_the_request(
    open_browser: Callable[[str], Awaitable[None]], error: type[Exception], message: str
) -> None:
    async with protected() as world:
        with pytest.raises(error, match=message):
            await call(world, AuthorizationCode(open_browser=open_browser, timeout=0.1))


@pytest.mark.parametrize("how", ["cancel", "close"])
@pytest.mark.attack("A17")
async def test_abandoned_sign_in_ends_and_frees_its_port(how: str) -> None:
    async with protected() as world:
        opened = asyncio.Event()

        async def wait(url: str) -> None:
            opened.set()

        client = Client(world.url, revision=MODERN, authorization=AuthorizationCode(open_browser=wait))
        connecting = asyncio.create_task(client.connect())
        async with asyncio.timeout(5):
            await opened.wait()
        uri = world.auth.requests("/register")[0].values["redirect_uris"].strip('[]"')
        if how == "cancel":
            connecting.cancel()
        else:
            await client.close()
        await asyncio.wait([connecting], timeout=PATIENCE)
        assert connecting.done() and (connecting.cancelled() or connecting.exception())
        await client.close()
        with pytest.raises(Exception, match="reached"):
            async with HttpClient(limits=ClientLimits(connect=1)) as http, http.request("GET", uri):
                pass
        assert [task for task in asyncio.all_tasks() if "_run" in repr(task.get_coro())] == []


async def test_failed_sign_in_leads_to_a_new_registration() -> None:
    async with protected() as world:
        login = world.login()
        world.auth.callback = {"error": "invalid_scope", "code": ""}
        with pytest.raises(SignInRefused, match="invalid_scope"):
            await call(world, login)
        world.auth.callback = {}
        await call(world, login)
        assert len(world.auth.requests("/register")) == 2


async def test_moved_token_endpoint_is_found_again() -> None:
    async with protected() as world:
        store = MemoryStore()
        world.auth.token_response["expires_in"] = 0
        login = world.login(store=store)
        async with Client(world.url, revision=MODERN, authorization=login):
            world.auth.token_response["expires_in"] = 3600
        world.auth.metadata["token_endpoint"] = f"{world.auth.base}/token2"
        world.auth.instead("/token", status(404))
        world.auth.always("/token2", status(200, world.auth.issue(set())))
        await call(world, world.login(store=store))
        assert len(world.opened) == 1


async def test_sign_out_revokes_and_forgets_the_tokens() -> None:
    async with protected() as world, HttpClient() as http:
        login = world.login()
        await call(world, login)
        grant = await login.stored(world.url)
        assert grant is not None and grant.issuer == world.auth.base and grant.scopes == ("read",)
        assert await login.sign_out(world.url, http)
        revoked = [(seen.values["token"], seen.values["token_type_hint"]) for seen in world.auth.requests("/revoke")]
        assert revoked == [("refresh-3", "refresh_token"), ("access-3", "access_token")]
        assert await login.stored(world.url) is None and not await login.sign_out(world.url, http)
        await call(world, login)
        assert len(world.opened) == 2
        world.auth.always("/revoke", status(503))
        with pytest.raises(TokenRefused):
            await login.sign_out(world.url, http)
        assert await login.stored(world.url) is None


async def test_sign_out_revokes_the_access_token_although_the_refresh_token_was_not_revoked() -> None:
    async with protected() as world, HttpClient() as http:
        login = world.login()
        await call(world, login)
        world.auth.instead("/revoke", status(503))
        with pytest.raises(TokenRefused):
            await login.sign_out(world.url, http)
        hints = [seen.values["token_type_hint"] for seen in world.auth.requests("/revoke")]
        assert hints == ["refresh_token", "access_token"]


def test_sync_client_signs_in_too() -> None:
    async def serving(ready: threading.Event, done: threading.Event, found: list[World]) -> None:
        async with protected() as world:
            found.append(world)
            ready.set()
            await asyncio.to_thread(done.wait, 20)

    ready, done, found = threading.Event(), threading.Event(), list[World]()
    thread = threading.Thread(target=lambda: asyncio.run(serving(ready, done, found)))
    thread.start()
    try:
        assert ready.wait(10)
        login = AuthorizationCode(open_browser=found[0].browse)
        with SyncClient(Client(found[0].url, authorization=login, timeout=20)) as client:
            assert client.call_tool("read").text == "read"
    finally:
        done.set()
        thread.join(20)


@pytest.mark.parametrize("revision", [MODERN, LEGACY])
async def test_bearer_sends_the_token_of_the_program(revision: str) -> None:
    async with protected() as world:
        world.auth.tokens["given"] = set()
        await call(world, Bearer("given"), revision=revision)
        assert {seen.token for seen in world.mcp.requests("/mcp")} == {"given"} and world.auth.seen == []


async def test_bearer_function_is_called_for_each_request() -> None:
    async with protected() as world:
        numbers = iter(range(100))

        async def token() -> str:
            name = f"given-{next(numbers)}"
            world.auth.tokens[name] = set()
            return name

        await call(world, Bearer(token))
        tokens = [seen.token for seen in world.mcp.requests("/mcp")]
        assert len(set(tokens)) == len(tokens) > 1


def test_bearer_refuses_a_token_that_is_not_set() -> None:
    with pytest.raises(TypeError, match="not an object of NoneType"):
        Bearer(None)  # type: ignore[arg-type]


@pytest.mark.parametrize("token", ["", "marker\n", "Bearer marker", "märker"])
async def test_bearer_refuses_a_token_that_no_header_can_have(token: str) -> None:
    with pytest.raises(ValueError, match="visible ASCII characters") as caught:
        Bearer(token)
    assert "marker" not in str(caught.value)

    async def read_token() -> str:
        return token

    async with protected() as world:
        with pytest.raises(AuthorizationError, match="visible ASCII characters"):
            await call(world, Bearer(read_token))
        assert world.mcp.seen == []


async def test_bearer_refuses_a_function_that_returns_no_token() -> None:
    async def read_token() -> str:
        return None  # type: ignore[return-value]  # for example, of a variable that is not set

    async with protected() as world:
        with pytest.raises(AuthorizationError, match="the token must be a str, not an object of NoneType"):
            await call(world, Bearer(read_token))
        assert world.mcp.seen == []


async def test_refused_bearer_token_is_an_error() -> None:
    async with protected() as world:
        with pytest.raises(AuthorizationError, match="refuses the token"):
            await call(world, Bearer("marker"))
        world.auth.tokens["marker"] = set()
        world.mcp.needs["read"] = "more"
        with pytest.raises(InsufficientScope, match="more"):
            await call(world, Bearer("marker"))
        assert world.auth.seen == []


@pytest.mark.spec(
    "2026-07-28/basic/authorization/index#protocol-requirements-2",
    "2025-03-26..2025-11-25/basic/authorization#protocol-requirements-2",
)
@pytest.mark.parametrize("arguments", [{"server": ["python3"]}, {"headers": {"authorization": "Bearer x"}}])
def test_authorization_is_refused_for_commands_and_beside_a_header(arguments: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="authorization"):
        Client(**{"server": "https://mcp.example", "authorization": Bearer("x"), **arguments})  # type: ignore[arg-type]


@pytest.mark.spec(
    "2026-07-28/basic/authorization/security-considerations#communication-security-1",
    "2025-06-18..2025-11-25/basic/authorization#communication-security-1",
)
async def test_plain_http_gets_no_token() -> None:
    client = Client("http://mcp.example/mcp", authorization=Bearer("marker"))
    with pytest.raises(ValueError, match="https"):
        await client.connect()


async def test_private_results_of_two_users_are_kept_apart() -> None:
    async with protected() as world:
        cache, users = ResponseCache(), []
        for _ in range(2):
            login = world.login()
            async with Client(world.url, revision=MODERN, authorization=login, cache=cache) as client:
                users.append(client.connector.target.cache_key)
                world.auth.tokens.clear()
                await client.call_tool("read")
                assert client.connector.target.cache_key == users[-1]  # a refresh does not change the user
        assert users[0] != users[1]


@pytest.mark.spec("2026-07-28/basic/authorization/index#refresh-tokens-1")
@pytest.mark.attack("A14")
async def test_secrets_are_in_no_error_repr_or_trace() -> None:
    out = io.StringIO()
    async with protected() as world:
        store = MemoryStore()
        login = world.login(store=store)
        async with Client(world.url, authorization=login, trace=tracer(out)) as client:
            await client.call_tool("read")
            world.auth.tokens.clear()
            world.auth.always("/token", status(400, {"error": "server_error", "error_description": "x"}))
            with pytest.raises(TokenRefused) as caught:
                await client.call_tool("read")
        grant = login.server(world.url).grant
        shown = "".join([out.getvalue(), str(caught.value), *map(repr, (caught.value, grant, login, store))])
        assert "tools/call" in shown
        for secret in ("access-", "refresh-3", "code-2", world.auth.requests("/token")[0].values["code_verifier"]):
            assert secret not in shown
