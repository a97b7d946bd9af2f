"""Our client uses other people's servers through the bridge as it uses them directly; and other people's bridge in a
chain with ours, their command line in front of it, and their protection of it."""

import asyncio
import contextlib
import json
import shlex
import sqlite3
import subprocess
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from examples.authorization_server import AuthorizationServer, Grant
from examples.registered_clients import OAuthClient
from mcp_ref import Client, McpError, RemoteError, Root, Server
from mcp_ref.lib.http.client import HttpClient
from mcp_ref.lib.http.server import start_server
from tests.forked_python import forked
from tests.interop.recorded import Recorded, run_peer
from tests.interop.test_foreign_servers import SECONDS, Host, node_server
from tests.settings import MODERN, ROOT

LEGACY = "2025-11-25"
Words = Sequence[str | Path]
Calls = list[tuple[str, dict[str, object]]]

PROXY = """
import sys
from fastmcp.client.transports import StdioTransport
from fastmcp.server import create_proxy
create_proxy(StdioTransport(sys.argv[1], sys.argv[2:])).run(show_banner=False)
"""
"""The bridge of FastMCP, which speaks the era of its client with the server."""


def bridge(command: Words, *options: str) -> list[str]:
    return forked("-m", "mcp_ref", "bridge", *options, "--", *map(str, command))


def reference_server(name: str, peers: Path, folder: Path) -> tuple[Words, Calls]:
    """Return the command of a server, and calls whose results never change. Some of them fail."""
    times: dict[str, object] = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
    query = "SELECT name FROM people"
    sqlite: Words = [peers / "python-sdk-1/bin/mcp-server-sqlite", "--db-path", folder / "data.sqlite"]
    memory: Words = ["env", f"MEMORY_FILE_PATH={folder / 'memory.jsonl'}", *node_server(peers, "memory")]
    servers: dict[str, tuple[Words, Calls]] = {
        "filesystem": (node_server(peers, "filesystem", folder),
                       [("read_text_file", {"path": str(folder / "a.txt")}), ("read_text_file", {"path": "/etc/no"})]),
        "memory": (memory, [("read_graph", {}), ("open_nodes", {"names": 1})]),
        "everything": (node_server(peers, "everything", "stdio"),
                       [("get-structured-content", {"location": "Chicago"}), ("get-resource-links", {"count": 2}),
                        ("get-annotated-message", {"messageType": "error", "includeImage": True})]),
        "git": ([peers / "python-sdk-2/bin/mcp-server-git", "-r", folder],
                [("git_status", {"repo_path": str(folder)}), ("git_status", {})]),
        "time": ([peers / "python-sdk-2/bin/mcp-server-time", "--local-timezone", "UTC"], [("convert_time", times)]),
        "sqlite": (sqlite, [("read_query", {"query": query}), ("read_query", {"query": "nonsense"})]),
    }  # fmt: skip
    return servers[name]


async def use(command: Words, revision: str | None, calls: Calls) -> dict[str, Any]:
    """Return all that a client finds in a server, without the fields that the mapping of the bridge drops."""
    async with asyncio.timeout(SECONDS), Client([*map(str, command)], revision=revision, cwd=ROOT) as client:
        found: dict[str, Any] = {"name": client.server_info.name, "instructions": client.instructions}
        found["tools"] = await client.list_tools()
        for tool, arguments in calls:
            try:
                found[f"{tool} {arguments}"] = await client.call_tool(tool, arguments)
            except McpError as error:
                found[f"{tool} {arguments}"] = str(error)
        for prompt in await client.list_prompts() if client.server_can("prompts") else ():
            found[f"listed {prompt.name}"] = prompt
            words = {argument.name: "Text" for argument in prompt.arguments or ()}
            with contextlib.suppress(RemoteError):  # one wants a number
                found[prompt.name] = await client.get_prompt(prompt.name, words)
        if client.server_can("resources"):
            found["templates"] = await client.list_resource_templates()
            found["resources"] = await client.list_resources()
            for resource in found["resources"][:2]:
                found[resource.uri] = (await client.read_resource(resource.uri)).contents
    for tool in found["tools"]:
        tool.execution = None  # only 2025-11-25 has it
    for result in found.values():
        meta = getattr(result, "meta", None) or {}
        meta.pop("io.modelcontextprotocol/serverInfo", None)  # only the modern era has it
        if hasattr(result, "meta"):
            result.meta = meta or None
    return found


@pytest.mark.parametrize("name", ["filesystem", "memory", "everything", "git", "time", "sqlite"])
async def test_bridge_shows_a_reference_server_as_it_is(name: str, peers: Path, tmp_path: Path) -> None:
    await asyncio.to_thread(subprocess.check_call, ["git", "init", "-q", str(tmp_path)])
    (tmp_path / "a.txt").write_text("one\n")
    with contextlib.closing(sqlite3.connect(tmp_path / "data.sqlite")) as database:
        database.execute("CREATE TABLE people AS SELECT 'Ada' AS name")
    command, calls = reference_server(name, peers, tmp_path)
    direct, legacy, modern = await asyncio.gather(
        use(command, None, calls), use(bridge(command), "2025-06-18", calls), use(bridge(command), MODERN, calls)
    )
    assert direct == modern
    assert direct == legacy


async def ask(command: Words, revision: str, only_roots: bool = False) -> None:
    """Let the server everything ask for roots, sampling and elicitation."""
    host = Host()
    async with (
        asyncio.timeout(SECONDS),
        host.client([*map(str, command)], revision=revision, roots=["file:///ada"]) as client,
    ):
        while "get-roots-list" not in [tool.name for tool in await client.list_tools()]:
            pass  # this server adds tools later
        assert "file:///ada" in (await client.call_tool("get-roots-list")).text
        if only_roots:
            return
        sampled = await client.call_tool("trigger-sampling-request", {"prompt": "2 + 2?", "maxTokens": 5})
        assert '"four"' in sampled.text
        assert '"name": "Ada"' in (await client.call_tool("trigger-elicitation-request")).text
    assert (len(host.sampling), len(host.elicitation)) == (1, 1)


@pytest.mark.parametrize("chain", ["bridge", "bridge, FastMCP", "FastMCP, bridge"])
async def test_bridge_brings_the_requests_of_a_foreign_legacy_server_to_a_modern_client(
    chain: str, peers: Path, recorded: Recorded
) -> None:
    everything = recorded.command(node_server(peers, "everything", "stdio"))
    proxy = [str(peers / "fastmcp/bin/python"), "-c", PROXY]
    commands = {
        "bridge": bridge(everything),
        "bridge, FastMCP": bridge([*proxy, *everything], "--back-revision", LEGACY),
        "FastMCP, bridge": [*proxy, *bridge(everything)],
    }
    # FastMCP passes nothing but roots from a legacy server to a legacy client, also without a bridge
    await ask(commands[chain], MODERN, only_roots=chain == "bridge, FastMCP")
    assert recorded.alive() == []


@pytest.mark.parametrize("revision", ["2025-06-18", MODERN])
async def test_bridge_gives_the_roots_of_a_client_to_the_server_filesystem(
    revision: str, peers: Path, recorded: Recorded, tmp_path: Path
) -> None:
    command = bridge(recorded.command(node_server(peers, "filesystem")))
    (tmp_path / "a.txt").write_text("one\n")
    async with asyncio.timeout(SECONDS), Client(command, revision=revision, roots=[Root(tmp_path.as_uri())]) as client:
        assert "read_text_file" in [tool.name for tool in await client.list_tools()]
        result = await client.call_tool("read_text_file", {"path": str(tmp_path / "a.txt")})
        while result.is_error and "Access denied" in result.text:  # it serves calls before it knows the roots
            result = await client.call_tool("read_text_file", {"path": str(tmp_path / "a.txt")})
        assert result.text == "one\n"
    assert recorded.alive() == []


def test_bridge_serves_the_inspector(peers: Path, recorded: Recorded, tmp_path: Path) -> None:
    programs = peers / "node_modules/.bin"
    script = tmp_path / "bridge"  # the inspector reads options of a server as its own
    script.write_text(f"cd {ROOT} && exec {shlex.join(bridge(recorded.command(node_server(peers, 'memory'))))}\n")
    inspector = (programs / "node", programs / "mcp-inspector", "--cli", "sh", script, "--protocol-era", "modern")
    call = ("--method", "tools/call", "--tool-name", "read_graph")
    ran = run_peer(peers, *inspector, *call, MEMORY_FILE_PATH=str(tmp_path / "memory"))
    assert ran.returncode == 0, ran.stderr + recorded.stderr
    called = json.loads(ran.stdout[ran.stdout.index("{") :])
    assert called["structuredContent"] == {"entities": [], "relations": []}
    assert recorded.alive() == []


@contextlib.asynccontextmanager
async def overheard(url: str, heard: bytearray) -> AsyncIterator[str]:
    """Yield another URL of a server. All bytes that its clients send there are added to `heard`."""
    port = int(url.partition("127.0.0.1:")[2].partition("/")[0])

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, log: bytearray) -> None:
        while data := await reader.read(65536):
            log += data
            writer.write(data)
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(pump(reader, far_writer, heard), pump(far_reader, writer, bytearray()))

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listening:
        yield url.replace(f":{port}/", f":{listening.sockets[0].getsockname()[1]}/")


@pytest.mark.spec("2026-07-28/basic/authorization/index#token-handling-2,3,6,7")
async def test_bridge_with_an_issuer_needs_a_token_for_itself_and_keeps_it_from_the_server(recorded: Recorded) -> None:
    resource, heard, issuer, back = "http://127.0.0.1/mcp", bytearray(), AuthorizationServer(), Server("back")
    back.tools.add(lambda: "done", "work")

    def token(audience: str) -> str:
        grant = Grant(OAuthClient("job", "job"), "ada", audience, frozenset({"notes:read"}))
        return str(json.loads(issuer.send_tokens(grant, {})[2])["access_token"])

    async with await start_server(issuer.handle) as listener, back.serve_http() as url, overheard(url, heard) as url:
        issuer.issuer = f"http://127.0.0.1:{listener.address[1]}"
        options = ["--http", "--port", "0", "--issuer", issuer.issuer, "--resource", resource]
        command = forked("-m", "mcp_ref", "bridge", *options, url)
        with recorded.listening(command, r"(http://[^/\s]+/mcp)") as ready:
            http = HttpClient()
            async with http.request("POST", ready[1], {}, b"{}") as refused:
                challenge = refused.headers.get("www-authenticate") or ""
            await http.close()
            assert refused.status == 401
            assert 'resource_metadata="http://127.0.0.1/.well-known/oauth-protected-resource/mcp"' in challenge
            for audience in ("https://other.example/mcp", resource):
                for revision in (LEGACY, MODERN):
                    headers = {"Authorization": f"Bearer {token(audience)}"}
                    try:
                        async with Client(ready[1], revision=revision, headers=headers) as client:
                            assert (await client.call_tool("work")).text == "done"
                            assert audience == resource
                    except McpError:
                        assert audience != resource
    assert heard.count(b"tools/call") >= 2
    assert b"uthorization" not in heard and b"Bearer" not in heard
    assert token(resource).partition(".")[0].encode() not in heard
