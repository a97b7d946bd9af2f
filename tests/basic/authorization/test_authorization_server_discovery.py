"""Discovery on the wire: the order of the requests, the documents that are refused, and the limits."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable

import pytest

from mcp_ref import AuthorizationCode, Client, DiscoveryFailed, HttpClient
from mcp_ref.basic.authorization import authorization_server_discovery as module
from mcp_ref.basic.authorization.authorization_server_discovery import PeerRequests, discover
from mcp_ref.basic.authorization.metadata import MAX_DOCUMENT, MAX_ISSUERS, ResourceMetadata, ServerMetadata
from mcp_ref.jsonrpc.messages import JSON
from mcp_ref.lib.http.client import ForbiddenAddress
from mcp_ref.lib.http.response import HttpError
from tests.basic.authorization.key_server import dripping, flooding
from tests.protected_servers import AS_PATH, PRM_PATH, Step, World, authorization_server, protected, silence, status
from tests.settings import eventually

OPENID = "/.well-known/openid-configuration"
HERE = f"{PRM_PATH}/mcp"


@contextlib.asynccontextmanager
async def _peers(world: World, at_origin: bool = False) -> AsyncIterator[PeerRequests]:
    async with HttpClient() as http:
        peers = PeerRequests(http, world.url, at_origin=at_origin)
        peers.address = "127.0.0.1"
        yield peers


async def _discover(
    world: World, named: str = "", configured: str | None = None, *, at_origin: bool = False, known: str = "",
    for_user: bool = True,
) -> tuple[ResourceMetadata, ServerMetadata]:  # fmt: skip
    async with _peers(world, at_origin) as peers:
        return await discover(peers, named, configured, known, for_user=for_user)


@pytest.mark.spec(
    "2026-07-28/basic/authorization/authorization-server-discovery#protected-resource-metadata-discovery-requirements-2",
    "2025-11-25/basic/authorization#protected-resource-metadata-discovery-requirements-2",
)
async def test_resource_metadata_url_of_the_challenge_is_requested_first() -> None:
    async with protected() as world:
        world.mcp.always("/custom", status(200, world.mcp.metadata))
        resource, server = await _discover(world, f"{world.mcp.base}/custom")
        assert (resource.resource, server.issuer) == (world.url, world.auth.base)
        assert world.mcp.paths == ["/custom"] and world.auth.paths == [AS_PATH]
        assert world.mcp.seen[0].headers["accept"] == "application/json"


@pytest.mark.spec(
    "2026-07-28/basic/authorization/authorization-server-discovery#protected-resource-metadata-discovery-requirements-2",
    "2025-11-25/basic/authorization#protected-resource-metadata-discovery-requirements-2",
)
async def test_resource_metadata_are_searched_at_the_path_then_at_the_root() -> None:
    async with protected() as world:
        world.mcp.always(HERE, status(404))
        world.mcp.always(PRM_PATH, status(200, {**(world.mcp.metadata or {}), "resource": world.mcp.base}))
        resource, _ = await _discover(world, f"{world.mcp.base}/gone")
        assert world.mcp.paths == ["/gone", HERE, PRM_PATH]
        assert resource.resource == world.mcp.base  # as published, without a slash


@pytest.mark.spec(
    "2026-07-28/basic/authorization/index#overview-6",
    "2025-11-25/basic/authorization#overview-6",
    "2025-06-18/basic/authorization#server-metadata-discovery-1",
)
async def test_issuer_with_a_path_is_requested_in_the_fixed_order() -> None:
    async with protected() as world:
        issuer = f"{world.auth.base}/tenant1"
        world.mcp.metadata = {**(world.mcp.metadata or {}), "authorization_servers": [issuer]}
        world.auth.always(f"/tenant1{OPENID}", status(200, {**world.auth.metadata, "issuer": issuer}))
        _, server = await _discover(world)
        assert server.issuer == issuer
        assert world.auth.paths == [f"{AS_PATH}/tenant1", f"{OPENID}/tenant1", f"/tenant1{OPENID}"]


@pytest.mark.parametrize(
    "resource",
    ["https://other.example/mcp", "{base}/mcp2", "{base}", "http://user@{host}/mcp", "", 5],
)
@pytest.mark.attack("A2")
async def test_foreign_resource_is_refused_before_any_other_request(resource: JSON) -> None:
    async with protected() as world:
        host = world.mcp.base.removeprefix("http://")
        text = resource.format(base=world.mcp.base, host=host) if isinstance(resource, str) else resource
        world.mcp.metadata = {**(world.mcp.metadata or {}), "resource": text}
        with pytest.raises(DiscoveryFailed, match="resource"):
            await _discover(world)
        assert world.auth.seen == []


@pytest.mark.parametrize("change", [str.upper, lambda base: base + "/", lambda base: base + "/other"])
@pytest.mark.attack("A3")
async def test_metadata_of_another_issuer_are_not_used(change: Callable[[str], str]) -> None:
    async with protected() as world:
        world.auth.metadata["issuer"] = change(world.auth.base)
        with pytest.raises(DiscoveryFailed, match=f"must be {world.auth.base}, character by character"):
            await _discover(world)
        assert world.auth.paths == [AS_PATH, OPENID]


@pytest.mark.spec(
    "2026-07-28/basic/authorization/security-considerations#authorization-code-protection-2,4,5,6,7",
    "2025-11-25/basic/authorization#authorization-code-protection-2,4,5,6,7",
)
@pytest.mark.parametrize("methods", [[], ["plain"], ["s256"], None])
async def test_authorization_server_without_pkce_is_refused_but_for_programs(methods: JSON) -> None:
    async with protected() as world:
        world.auth.metadata["code_challenge_methods_supported"] = methods
        with pytest.raises(DiscoveryFailed, match="S256"):
            await _discover(world)
        _, server = await _discover(world, for_user=False)
        assert server.issuer == world.auth.base


@pytest.mark.parametrize(("endpoint", "for_user"), [("token", True), ("token", False), ("authorization", True)])
async def test_authorization_server_without_a_needed_endpoint_is_refused(endpoint: str, for_user: bool) -> None:
    async with protected() as world:
        world.auth.metadata[f"{endpoint}_endpoint"] = ""
        with pytest.raises(DiscoveryFailed, match=f"{endpoint}_endpoint"):
            await _discover(world, for_user=for_user)


async def test_number_of_authorization_servers_that_are_tried_is_bounded() -> None:
    async with protected() as world:
        issuers: list[JSON] = [f"{world.auth.base}/{number}" for number in range(MAX_ISSUERS)]
        world.mcp.metadata = {**(world.mcp.metadata or {}), "authorization_servers": issuers}
        with pytest.raises(DiscoveryFailed):
            await _discover(world)
        assert {path.rpartition("/")[2] for path in world.auth.paths if path.startswith(AS_PATH)} == set("0123")


async def test_next_authorization_server_is_tried_if_one_is_out_of_order() -> None:
    async with protected() as world, authorization_server() as other:
        issuers: list[JSON] = [*[other.base] * 4, world.auth.base]
        world.mcp.metadata = {**(world.mcp.metadata or {}), "authorization_servers": issuers}
        other.always(AS_PATH, status(500))
        assert (await _discover(world))[1].issuer == world.auth.base
        _, preferred = await _discover(world, known=world.auth.base)
        assert preferred.issuer == world.auth.base and len(other.seen) == 2


async def test_configured_issuer_may_differ_by_a_slash_at_the_end_only() -> None:
    async with protected() as world:
        issuer = f"{world.auth.base}/"
        world.auth.metadata["issuer"] = issuer
        assert (await _discover(world, "", issuer))[1].issuer == issuer
        with pytest.raises(DiscoveryFailed, match="is another issuer"):
            await _discover(world, "", f"{issuer}x")
        world.auth.metadata["issuer"] = world.auth.base
        world.mcp.metadata = {**(world.mcp.metadata or {}), "authorization_servers": [issuer]}
        assert (await _discover(world, "", world.auth.base))[1].issuer == world.auth.base


@pytest.mark.parametrize(
    ("step", "fault"),
    [
        (status(500), "status 500"),
        (status(200, b"<html>"), "cannot be read"),
        (status(200, b"[" * 10_000), "cannot be read"),
        (status(200, b" " * (MAX_DOCUMENT + 1)), "more than the limit"),
        (flooding, "which is the limit"),
        (status(307, b"", ("Location", "/elsewhere")), "status 307"),
        (status(200, {"resource": "x", "authorization_servers": []}), "authorization_servers"),
    ],
    ids=["500", "html", "deep", "large", "flood", "redirect", "no server"],
)
async def test_outage_is_not_the_absence_of_metadata(step: Step, fault: str) -> None:
    async with protected() as world:
        world.mcp.always(HERE, step)
        with pytest.raises(DiscoveryFailed, match=fault) as caught:
            await _discover(world, at_origin=True)
        assert [url for url, _ in caught.value.attempts] == [world.mcp.base + HERE, world.mcp.base + PRM_PATH]
        assert AS_PATH not in world.mcp.paths and world.auth.seen == []


@pytest.mark.spec(
    "2025-03-26/basic/authorization#fallbacks-for-servers-without-metadata-discovery-2",
    "2025-03-26/basic/authorization#server-metadata-discovery-headers-1",
)
async def test_server_without_metadata_uses_its_origin_only_for_2025_03_26() -> None:
    async with protected() as world:
        world.mcp.metadata = None
        resource, server = await _discover(world, at_origin=True)
        assert server.token_endpoint == f"{world.mcp.base}/token" and resource.resource == world.url
        last = world.mcp.seen[-1]
        assert (last.path, last.headers["mcp-protocol-version"]) == (AS_PATH, "2025-03-26")
        with pytest.raises(DiscoveryFailed, match="status 404"):
            await _discover(world, at_origin=False)


@pytest.mark.spec(
    "2025-03-26/basic/authorization#overview-4", "2025-03-26/basic/authorization#server-metadata-discovery-1"
)
async def test_metadata_at_the_origin_are_used_for_2025_03_26() -> None:
    async with protected() as world:
        world.mcp.metadata = None
        world.mcp.always(AS_PATH, status(200, {**world.auth.metadata, "issuer": world.mcp.base}))
        _, server = await _discover(world, at_origin=True)
        assert server.token_endpoint == f"{world.auth.base}/token" and world.auth.seen == []


async def test_metadata_at_the_origin_must_not_be_out_of_order() -> None:
    async with protected() as world:
        world.mcp.metadata = None
        world.mcp.always(AS_PATH, status(503))
        with pytest.raises(DiscoveryFailed, match="503") as caught:
            await _discover(world, at_origin=True)
        assert caught.value.is_temporary


async def test_client_without_2025_03_26_never_uses_the_origin() -> None:
    async with protected() as world:
        world.mcp.metadata = None
        login = AuthorizationCode(open_browser=world.browse)
        with pytest.raises(DiscoveryFailed):
            async with Client(world.url, revisions=["2025-06-18", "2026-07-28"], authorization=login):
                pass
        assert AS_PATH not in world.mcp.paths and world.opened == []


@pytest.mark.attack("A13")
async def test_slow_document_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DOCUMENT_SECONDS", 0.1)
    async with protected() as world:
        world.mcp.always(HERE, dripping)
        world.mcp.always(PRM_PATH, silence)
        with pytest.raises(DiscoveryFailed, match=r"within 0\.1 s") as caught:
            await _discover(world)
        assert caught.value.is_temporary


async def test_authorization_server_out_of_reach_is_a_temporary_failure() -> None:
    async with protected() as world:
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))  # but it does not listen
            issuer = f"http://127.0.0.1:{closed.getsockname()[1]}"
            world.mcp.metadata = {**(world.mcp.metadata or {}), "authorization_servers": [issuer]}
            with pytest.raises(DiscoveryFailed, match="no program listens there") as caught:
                await _discover(world)
        assert caught.value.is_temporary


@pytest.mark.parametrize(
    "issuer",
    ["http://169.254.169.254", "http://auth.example", "http://[::ffff:10.0.0.1]", "file:///etc/passwd",
     "https://u:p@auth.example", "https://auth.example/?x=1", "https://auth.example/#x", "javascript:alert(1)"],
)  # fmt: skip
@pytest.mark.attack("A7")
async def test_issuer_that_must_not_be_requested_is_refused(issuer: str) -> None:
    async with protected() as world:
        world.mcp.metadata = {**(world.mcp.metadata or {}), "authorization_servers": [issuer]}
        with pytest.raises(DiscoveryFailed) as caught:
            await _discover(world)
        assert "u:p" not in str(caught.value) and "x=1" not in str(caught.value)
        assert not caught.value.is_temporary


async def test_peer_requests_refuse_plain_http_to_another_machine_before_they_connect() -> None:
    async with protected() as world, _peers(world) as peers:
        with pytest.raises(HttpError, match="must begin with https://"):
            await peers.send("GET", "http://192.0.2.1/", {})


@pytest.mark.parametrize(
    ("server", "allowed"), [("127.0.0.1", True), ("10.1.2.3", False), ("93.184.216.34", False), ("", False)]
)
@pytest.mark.attack("A7")
async def test_server_on_the_internet_leads_to_no_byte_on_this_machine(server: str, allowed: bool) -> None:
    received: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(await reader.read(100))
        writer.close()

    async with await asyncio.start_server(listen, "127.0.0.1") as listener, HttpClient() as http:
        port = listener.sockets[0].getsockname()[1]
        peers = PeerRequests(http, "https://mcp.example/mcp")
        assert not (peers._private_networks or peers.at_origin)
        peers.address = server
        with pytest.raises(Exception, match="." if allowed else "not allowed") as caught:
            await peers.send("GET", f"https://localhost:{port}/", {})
        assert isinstance(caught.value, ForbiddenAddress) is not allowed
        await eventually(lambda: received)
    assert bool(received[0]) is allowed
