"""Our client signs in at protected servers of other projects, and refreshes its token there."""

import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from itertools import dropwhile
from pathlib import Path
from typing import Any

import pytest

from mcp_ref import AuthorizationCode, Client, MemoryStore
from tests.interop.browser import Browser
from tests.interop.protected_notes import Notes, protected_notes
from tests.interop.recorded import Recorded

SCRIPTS = Path(__file__).parent / "peers"

#: name → the program and its script. With `routes` in the name, the SDK's own routes are the authorization server. Else
#: that of the examples is.
SERVERS = {
    "python-sdk-2": ("python-sdk-2/bin/python", "protected_server.py"),
    "python-sdk-2 routes": ("python-sdk-2/bin/python", "protected_server.py"),
    "fastmcp": ("fastmcp/bin/python", "protected_server.py"),
    "typescript-sdk-1 routes": ("node_modules/.bin/node", "protected_server.mjs"),
    "typescript-sdk-2": ("node_modules/.bin/node", "protected_server.mjs"),
}
REVISIONS = ["2025-06-18", "2025-11-25", "2026-07-28"]
NO_VISITS = {("typescript-sdk-1 routes", "2026-07-28")}  # it knows the handshake only


@dataclass
class World:
    """A protected server of another project, and the authorization server of the examples."""

    url: str
    notes: Notes
    recorded: Recorded
    has_routes: bool
    earlier: int = 0

    def forget(self) -> None:
        """Forget the requests of earlier clients."""
        self.earlier = len(self.recorded.stderr)
        self.notes.wire.clear()

    def requests(self, path: str) -> list[dict[str, Any]]:
        """Return the requests of one path to the protected server, in order."""
        written = self.recorded.stderr[self.earlier :]
        lines = [line.removeprefix("wire ") for line in written.splitlines() if line.startswith("wire ")]
        return [request for request in map(json.loads, lines) if request["path"] == path]

    def token_requests(self) -> list[dict[str, str]]:
        """Return the parameters of the token requests. Check that they were successful."""
        if not self.has_routes:
            assert {step.status for step in self.notes.requests("auth", "/token")} <= {200}
            return [step.values for step in self.notes.requests("auth", "/token")]
        assert {request["status"] for request in self.requests("/token")} <= {200}
        return [request["params"] for request in self.requests("/token")]


@contextlib.asynccontextmanager
async def protected_by_peer(peers: Path, recorded: Recorded, server: str) -> AsyncIterator[World]:
    program, script = SERVERS[server]
    has_routes = server.endswith("routes")
    async with protected_notes("2026-07-28") as notes:
        issuer = "routes" if has_routes else notes.issuer.issuer
        command: list[str | Path] = [peers / program, SCRIPTS / script, issuer]
        with recorded.listening(command, r"running on (http://\S+)", {"MCP_REF_PEERS": str(peers)}) as ready:
            yield World(f"{ready[1]}/mcp", notes, recorded, has_routes)
    assert "Exception in ASGI application" not in recorded.stderr


@pytest.mark.parametrize("server", SERVERS)
async def test_authorization_code_signs_in_and_refreshes_at_foreign_server_in_each_revision(
    peers: Path, recorded: Recorded, server: str
) -> None:
    async with protected_by_peer(peers, recorded, server) as world:
        for revision in REVISIONS:
            if (server, revision) not in NO_VISITS:
                world.forget()
                await sign_in_and_refresh(world, revision)


async def sign_in_and_refresh(world: World, revision: str) -> None:
    browser, store = Browser(), MemoryStore()
    authorization = AuthorizationCode(store=store, open_browser=browser.open)
    async with Client(world.url, authorization=authorization, revision=revision) as client:
        texts = [(await client.call_tool(name)).text for name in ("read_notes", "end_token", "read_notes")]
    # another process with the same store signs in nowhere
    again = AuthorizationCode(store=store, open_browser=browser.open)
    async with Client(world.url, authorization=again, revision=revision) as client:
        texts.append((await client.call_tool("read_notes")).text)
    assert texts == ["notes of alice", "ended", "notes of alice", "notes of alice"]
    assert client.revision.name == revision

    code, refresh = world.token_requests()
    # a peer can record the end of the previous revision's session late
    requests = [*dropwhile(lambda request: request["token"] != "", world.requests("/mcp"))]
    first, *_ = requests
    assert (first["status"], first["token"]) == (401, "")
    assert f"{world.url.removesuffix('/mcp')}/.well-known/oauth-protected-resource/mcp" in first["challenge"][0]
    [asked] = browser.opened
    assert (asked["response_type"], asked["code_challenge_method"]) == ("code", "S256")
    assert (asked["resource"], asked["scope"]) == (world.url, "notes:read")
    assert (code["grant_type"], code["resource"]) == ("authorization_code", world.url)
    assert (refresh["grant_type"], refresh["resource"]) == ("refresh_token", world.url)

    # The second 401 is for the ended token; all other messages carry a valid one. The GET, which listens beside them,
    # can come at any time.
    posts = [request for request in requests if request["method"] == "POST"]
    old, new = dict.fromkeys(request["token"] for request in posts if request["token"])
    refused = [(request["status"], request["token"]) for request in posts if request["status"] in (401, 403)]
    assert refused == [(401, ""), (401, old)]
    assert requests[-1]["token"] == new


async def test_authorization_code_steps_up_at_foreign_server_in_each_revision(peers: Path, recorded: Recorded) -> None:
    async with protected_by_peer(peers, recorded, "typescript-sdk-2") as world:
        for revision in REVISIONS:
            world.forget()
            browser = Browser()
            authorization = AuthorizationCode(open_browser=browser.open)
            async with Client(world.url, authorization=authorization, revision=revision) as client:
                assert (await client.call_tool("add_note")).text == "added"
            assert client.revision.name == revision
            [forbidden] = [request for request in world.requests("/mcp") if request["status"] == 403]
            assert 'error="insufficient_scope"' in forbidden["challenge"][0]
            assert [asked["scope"] for asked in browser.opened] == ["notes:read", "notes:read notes:write"]
            assert {asked["resource"] for asked in browser.opened} == {world.url}
